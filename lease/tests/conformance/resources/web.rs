use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{Request, Response, StatusCode};
use axum::routing::post;
use axum::{Extension, Router};
use leastlock_core::Statement;
use leastlock_lease::http::{FENCING_TOKEN, Fenced, FencingLayer, Problem, bring};
use leastlock_lease::{Error, Fence, LeaseSql, Permit};
use leastlock_testkit::TestEngine;
use leastlock_testkit::database::sql;
use sqlx::Pool;
use tokio::sync::Semaphore;
use tower_service::Service;

use super::{Guard, Resource, refused_by_a_double};
use crate::rig::{Rig, Sql};
use crate::world::VALUE;

/// A service whose requests write to a row.
pub(crate) struct Web<DB: TestEngine> {
    rig: Sql<DB>,
    app: Router,
    gate: Arc<Gate>,
}

/// Where a handler waits between its request's being let in and its write.
#[derive(Debug)]
struct Gate {
    arrived: Semaphore,
    open: Semaphore,
}

#[derive(Debug)]
struct Backend<DB: TestEngine> {
    pool: Pool<DB>,
    gate: Arc<Gate>,
}

impl<DB: TestEngine> Clone for Backend<DB> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), gate: Arc::clone(&self.gate) }
    }
}

type Answer = Result<StatusCode, Response<Body>>;

async fn write_in<DB: TestEngine>(connection: &mut DB::Connection, statement: &'static str, body: &str) {
    let value: i64 = body.parse().unwrap();
    Statement::new(statement).bind(value).execute::<DB>(connection).await.unwrap();
}

fn set<DB: TestEngine>() -> &'static str {
    sql::<DB>("UPDATE protected SET value = $1", "UPDATE protected SET value = ?")
}

async fn set_fenced<DB: TestEngine + LeaseSql>(Extension(fenced): Extension<Fenced<DB>>, body: String) -> Answer {
    let mut tx = fenced.begin().await?;
    write_in::<DB>(&mut tx, set::<DB>(), &body).await;
    tx.commit().await.map_err(Problem::from)?;
    Ok(StatusCode::NO_CONTENT)
}

/// In a transaction of the handler's own.
async fn add_checked<DB: TestEngine + LeaseSql>(
    State(backend): State<Backend<DB>>,
    Extension(fenced): Extension<Fenced<DB>>,
    body: String,
) -> Answer {
    let mut tx = backend.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
    fenced.check(&mut tx).await?;
    let add = sql::<DB>("UPDATE protected SET value = value + $1", "UPDATE protected SET value = value + ?");
    write_in::<DB>(&mut tx, add, &body).await;
    tx.commit().await.unwrap();
    Ok(StatusCode::NO_CONTENT)
}

/// Waits at the gate between the layer's look and its own transaction.
async fn set_late<DB: TestEngine + LeaseSql>(
    State(backend): State<Backend<DB>>,
    fenced: Extension<Fenced<DB>>,
    body: String,
) -> Answer {
    backend.gate.arrived.add_permits(1);
    backend.gate.open.acquire().await.unwrap().forget();
    set_fenced(fenced, body).await
}

/// The double: relies on the layer's look.
async fn set_trusting<DB: TestEngine>(State(backend): State<Backend<DB>>, body: String) -> Answer {
    backend.gate.arrived.add_permits(1);
    backend.gate.open.acquire().await.unwrap().forget();
    write_in::<DB>(&mut *backend.pool.acquire().await.unwrap(), set::<DB>(), &body).await;
    Ok(StatusCode::NO_CONTENT)
}

/// The double: no layer.
async fn set_unfenced<DB: TestEngine>(State(backend): State<Backend<DB>>, body: String) -> Answer {
    write_in::<DB>(&mut *backend.pool.acquire().await.unwrap(), set::<DB>(), &body).await;
    Ok(StatusCode::NO_CONTENT)
}

fn fence() -> Fence {
    Fence::new("report:tenant-7").unwrap()
}

impl<DB: TestEngine + LeaseSql> Web<DB> {
    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        self.app.clone().into_service().call(request).await.unwrap()
    }

    fn request(path: &str, permit: &Permit, value: i64) -> Result<Request<Body>, Error> {
        let mut request = Request::post(path).body(Body::from(value.to_string())).unwrap();
        bring(permit, request.headers_mut())?;
        Ok(request)
    }

    async fn post(&self, path: &str, permit: &Permit, value: i64) -> Result<(), Error> {
        let answer = self.answer(Self::request(path, permit, value)?).await;
        said(&answer, permit)
    }
}

/// An answer as the error that it stands for.
fn said(answer: &Response<Body>, permit: &Permit) -> Result<(), Error> {
    match answer.extensions().get::<Problem>() {
        None => {
            assert_eq!(answer.status(), 204);
            Ok(())
        }
        Some(Problem::Refused { refusal }) => {
            assert_eq!(answer.status(), 412);
            Err(Error::Refused { resource: "report:tenant-7".into(), generation: permit.token(), refusal: *refusal })
        }
        Some(other) => panic!("{other:?}"),
    }
}

impl<DB: TestEngine + LeaseSql> Resource<Sql<DB>> for Web<DB> {
    async fn create(rig: &Sql<DB>) -> Self {
        for statement in
            ["DELETE FROM leastlock_fence", "DELETE FROM leastlock_fence_gate", "UPDATE protected SET value = 0"]
        {
            rig.database().execute(statement).await;
        }
        let pool = &rig.database().pool;
        let gate = Arc::new(Gate { arrived: Semaphore::new(0), open: Semaphore::new(0) });
        let fenced = FencingLayer::new(pool, |_| Ok(fence()));
        let seals = Router::new().route("/seal", post(async || StatusCode::NO_CONTENT));
        let app = Router::new()
            .route("/set", post(set_fenced::<DB>).get(async || "read"))
            .route("/add", post(add_checked::<DB>))
            .route("/late", post(set_late::<DB>))
            .route("/trusting", post(set_trusting::<DB>))
            .layer(fenced.clone())
            .merge(seals.layer(fenced.seal_newer()))
            .merge(
                Router::new()
                    .route("/nowhere", post(async || "written"))
                    .layer(FencingLayer::new(pool, |_| Fence::new(""))),
            )
            .route("/unfenced", post(set_unfenced::<DB>))
            .with_state(Backend { pool: pool.clone(), gate: Arc::clone(&gate) });
        Self { rig: rig.clone(), app, gate }
    }

    async fn seal(&self, permit: &Permit) -> Result<(), Error> {
        self.post("/seal", permit, 0).await
    }

    async fn write(&self, guard: Guard, permit: &Permit, value: i64) -> Result<(), Error> {
        match guard {
            Guard::Right => self.post("/set", permit, value).await,
            Guard::Absent => self.post("/unfenced", permit, value).await,
            Guard::NumberOnly => {
                let sealed = fence().generation(&self.rig.database().pool).await.unwrap();
                if sealed == Some(permit.token()) {
                    self.post("/unfenced", permit, value).await
                } else {
                    Err(refused_by_a_double())
                }
            }
        }
    }

    async fn add(&self, permit: &Permit, amount: i64) -> Result<(), Error> {
        self.post("/add", permit, amount).await
    }

    async fn value(&self) -> i64 {
        self.rig.database().int(VALUE).await
    }

    async fn break_down(&self) {
        self.rig.database().execute("DROP TABLE leastlock_fence").await;
    }
}

macro_rules! mount {
    ($database:ty) => {
        mod requests {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn l3_request_that_was_let_in_is_refused_once_a_newer_holder_has_sealed() {
                crate::resources::web::request_that_was_let_in::<$database>().await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn l26_request_that_brings_no_token_is_refused() {
                crate::resources::web::request_that_brings_no_token::<$database>().await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_holder_that_sealed_in_the_database_is_known_by_its_requests() {
                crate::resources::web::holder_that_sealed_in_the_database::<$database>().await;
            }
        }
    };
}

pub(crate) use mount;

async fn create<DB: TestEngine + LeaseSql>() -> (Sql<DB>, Web<DB>) {
    let rig = Sql::<DB>::create().await;
    let web = Web::create(&rig).await;
    (rig, web)
}

async fn permit<DB: TestEngine + LeaseSql>(rig: &Sql<DB>) -> Permit {
    let lease = crate::world::leases(rig).acquire(&crate::world::lock(), crate::world::fixed()).await.unwrap();
    let permit = lease.permit().unwrap();
    // The lease ends with the test's process; the permit keeps following it.
    std::mem::forget(lease);
    permit
}

pub(crate) async fn request_that_was_let_in<DB: TestEngine + LeaseSql>() {
    for (path, last) in [("/late", 2), ("/trusting", 1)] {
        let (rig, web) = create::<DB>().await;
        let late = permit(&rig).await;
        web.seal(&late).await.unwrap();
        let (mut app, request) = (web.app.clone().into_service(), Web::<DB>::request(path, &late, 1).unwrap());
        let answer = tokio::spawn(async move { app.call(request).await.unwrap() });
        tokio::time::timeout(crate::world::LIMIT, web.gate.arrived.acquire()).await.unwrap().unwrap().forget();
        rig.expire().await;
        let new = permit(&rig).await;
        web.seal(&new).await.unwrap();
        web.write(Guard::Right, &new, 2).await.unwrap();
        web.gate.open.add_permits(1);
        let answer = answer.await.unwrap();
        assert_eq!(said(&answer, &late).is_err(), last == 2, "{path}: {answer:?}");
        assert_eq!(web.value().await, last, "{path}: the double comes through after the seal");
    }
}

pub(crate) async fn request_that_brings_no_token<DB: TestEngine + LeaseSql>() {
    let (rig, web) = create::<DB>().await;
    let permit = permit(&rig).await;
    web.seal(&permit).await.unwrap();
    let bare = || Request::post("/set").body(Body::from("9")).unwrap();
    let mut repeated = Web::<DB>::request("/set", &permit, 9).unwrap();
    let value = repeated.headers()[FENCING_TOKEN].clone();
    repeated.headers_mut().append(FENCING_TOKEN, value);
    let mut malformed = bare();
    malformed.headers_mut().insert(FENCING_TOKEN, "34".parse().unwrap());
    let nowhere = Web::<DB>::request("/nowhere", &permit, 9).unwrap();
    for (request, problem, status) in [
        (bare(), Problem::TokenMissing, 428),
        (repeated, Problem::TokenRepeated, 400),
        (malformed, Problem::TokenMalformed, 400),
        (nowhere, Problem::ResourceUnnamed, 400),
    ] {
        let answer = web.answer(request).await;
        assert_eq!(answer.extensions().get(), Some(&problem));
        assert_eq!(answer.status(), status);
        assert_eq!(answer.headers()["content-type"], "application/problem+json");
        let body = to_bytes(answer.into_body(), 4096).await.unwrap();
        assert!(std::str::from_utf8(&body).unwrap().contains(&format!("\"status\":{status}")));
    }
    assert_eq!(web.value().await, 0);
    // What does not write needs none; and the double is the service without the layer.
    assert_eq!(web.answer(Request::get("/set").body(Body::empty()).unwrap()).await.status(), 200);
    let unfenced = Request::post("/unfenced").body(Body::from("9")).unwrap();
    assert_eq!(web.answer(unfenced).await.status(), 204);
    assert_eq!(web.value().await, 9);
    // A store that cannot be asked lets nobody through.
    web.break_down().await;
    let answer = web.answer(Web::<DB>::request("/set", &permit, 9).unwrap()).await;
    assert_eq!(answer.status(), 503);
}

pub(crate) async fn holder_that_sealed_in_the_database<DB: TestEngine + LeaseSql>() {
    let (rig, web) = create::<DB>().await;
    let permit = permit(&rig).await;
    let unsealed = web.write(Guard::Right, &permit, 1).await;
    assert!(matches!(unsealed, Err(Error::Refused { .. })), "nobody seals by accident: {unsealed:?}");
    fence().seal(&rig.database().pool, &permit).await.unwrap();
    web.write(Guard::Right, &permit, 1).await.unwrap();
    web.add(&permit, 1).await.unwrap();
    web.seal(&permit).await.expect("it is sealed already");
    let mut tx = fence().begin(&rig.database().pool, &permit).await.expect("and still by its own nonce");
    crate::world::write(&mut tx, "UPDATE protected SET value = value + 1").await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(web.value().await, 3);
    assert!(tokio::time::timeout(Duration::ZERO, web.gate.arrived.acquire()).await.is_err());
}
