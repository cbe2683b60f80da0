//! A running server with real sockets, in front of a shop.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;
use axum::routing::any;
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Pool;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::client::{Answer, Call, ask};
use crate::shop::{Shop, effects, take};

/// What stands before the handlers: the product in one of its modes, or a double.
pub(crate) trait Stack<DB: TestEngine>: Sync {
    /// Whether a duplicate waits for the first, instead of being told that it is in flight.
    const WAITS: bool = false;

    /// The shop behind it; `keys` is the pool of the keys.
    fn router(&self, shop: Arc<Shop<DB>>, keys: Pool<DB>) -> Router;
}

/// A server of one stack, with a shop of its own; the database is as empty as after the migrations.
pub(crate) struct Stage<'a, DB: TestEngine> {
    pub(crate) shop: Arc<Shop<DB>>,
    pub(crate) server: Server,
    database: &'a TestDatabase<DB>,
    keys: Pool<DB>,
}

impl<'a, DB: TestEngine> Stage<'a, DB> {
    pub(crate) async fn new(database: &'a TestDatabase<DB>, stack: &impl Stack<DB>) -> Self {
        Self::with_keys(database, stack, DB::connect(&database.url).await).await
    }

    /// The same with another pool for the keys.
    pub(crate) async fn with_keys(database: &'a TestDatabase<DB>, stack: &impl Stack<DB>, keys: Pool<DB>) -> Self {
        database.execute("DELETE FROM effect").await;
        database.execute("DELETE FROM leastlock_idempotency").await;
        let shop = Shop::new(&database.pool);
        let server = Server::start(stack.router(Arc::clone(&shop), keys.clone())).await;
        Self { shop, server, database, keys }
    }

    pub(crate) async fn ask(&self, call: &Call) -> Answer {
        ask(self.server.address, call).await
    }

    /// The pool of the keys.
    pub(crate) fn keys(&self) -> &Pool<DB> {
        &self.keys
    }

    pub(crate) async fn effects(&self) -> i64 {
        effects(self.database).await
    }
}

/// A server on a free port of loopback; it ends with the value.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    watch: Arc<Watch>,
    serving: JoinHandle<()>,
}

/// How requests have ended.
#[derive(Debug)]
struct Watch {
    ended: Semaphore,
    dropped: Semaphore,
}

impl Server {
    pub(crate) async fn start(router: Router) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let watch = Arc::new(Watch { ended: Semaphore::new(0), dropped: Semaphore::new(0) });
        let watched = watched(router, &watch);
        let serving = tokio::spawn(async move { axum::serve(listener, watched).await.expect("it serves") });
        Self { address, watch, serving }
    }

    /// Waits until the server has dropped one more request whose client is gone.
    pub(crate) async fn has_dropped_a_request(&self) {
        take(&self.watch.dropped, "the server notices that its client is gone").await;
    }

    /// Waits until one more request has come to its end, with an answer or without.
    pub(crate) async fn has_ended_a_request(&self) {
        take(&self.watch.ended, "the request comes to its end").await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Watches how requests end: when a client hangs up, the future of its request is dropped.
fn watched(router: Router, watch: &Arc<Watch>) -> Router {
    struct Watched {
        watch: Arc<Watch>,
        is_answered: bool,
    }

    impl Watched {
        /// By reference, so that the whole value is what a future holds.
        fn answered(&mut self) {
            self.is_answered = true;
        }
    }

    impl Drop for Watched {
        fn drop(&mut self) {
            self.watch.ended.add_permits(1);
            if !self.is_answered {
                self.watch.dropped.add_permits(1);
            }
        }
    }

    let watch = Arc::clone(watch);
    router.layer(from_fn(move |request: Request, next: Next| {
        let mut watched = Watched { watch: Arc::clone(&watch), is_answered: false };
        async move {
            let response = next.run(request).await;
            watched.answered();
            response
        }
    }))
}

/// The shop's handlers, two operations. Before `lingers` there is a time-out, as such layers are: it drops the handler and
/// answers 408. Its time is always up once the effect is there.
pub(crate) fn handlers<DB: TestEngine>(shop: &Arc<Shop<DB>>) -> Router {
    let (shop, watched) = (Arc::clone(shop), Arc::clone(shop));
    let handler = any(move |request: Request| {
        let shop = Arc::clone(&shop);
        async move {
            let (does, body) = taken_apart(request).await;
            shop.handle(&does, &body).await
        }
    });
    let router = Router::new().route("/orders/{does}", handler.clone()).route("/returns/{does}", handler);
    router.layer(from_fn(move |request: Request, next: Next| {
        let shop = Arc::clone(&watched);
        async move {
            if !request.uri().path().ends_with("/lingers") {
                return next.run(request).await;
            }
            tokio::select! {
                answer = next.run(request) => answer,
                () = shop.is_inside() => StatusCode::REQUEST_TIMEOUT.into_response(),
            }
        }
    }))
}

/// What the handler is to do, and the body.
pub(crate) async fn taken_apart(request: Request) -> (String, axum::body::Bytes) {
    let does = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
    let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.expect("the body is read");
    (does, body)
}
