//! The application behind the layer: what it does is chosen by the path, so that one handler serves all tests.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body::Frame;
use leastlock_core::Statement;
use leastlock_idempotency::http::{Outcome, Reference};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Pool;
use tokio::sync::Semaphore;

use crate::client::PATIENCE;

/// A body that is no text.
pub(crate) const BINARY: &[u8] = b"\x00\xff\xfe\r\n\r\n0\r\n\x80lamp";

/// What the handlers share, and what a test uses to steer and to watch them.
#[derive(Debug)]
pub(crate) struct Shop<DB: TestEngine> {
    /// Where the effects are. Not the pool of the keys: that one may be broken.
    pool: Pool<DB>,
    started: AtomicUsize,
    cancelled: AtomicUsize,
    inside: Semaphore,
    go_on: Semaphore,
    finished: Semaphore,
}

impl<DB: TestEngine> Shop<DB> {
    pub(crate) fn new(pool: &Pool<DB>) -> Arc<Self> {
        Arc::new(Self {
            pool: pool.clone(),
            started: AtomicUsize::new(0),
            cancelled: AtomicUsize::new(0),
            inside: Semaphore::new(0),
            go_on: Semaphore::new(0),
            finished: Semaphore::new(0),
        })
    }

    /// How many handlers have begun.
    pub(crate) fn started(&self) -> usize {
        self.started.load(Ordering::SeqCst)
    }

    /// How many handlers were dropped while they were inside.
    pub(crate) fn cancelled(&self) -> usize {
        self.cancelled.load(Ordering::SeqCst)
    }

    /// Waits until one more handler is inside.
    pub(crate) async fn is_inside(&self) {
        take(&self.inside, "a handler gets inside").await;
    }

    /// Lets one handler that is inside go on.
    pub(crate) fn let_go_on(&self) {
        self.go_on.add_permits(1);
    }

    /// Waits until one more of those handlers has come to its end.
    pub(crate) async fn is_finished(&self) {
        take(&self.finished, "the handler finishes").await;
    }

    /// What every handler does first; `meets` waits inside until the test lets it go on.
    pub(crate) async fn enter(&self, does: &str) {
        self.started.fetch_add(1, Ordering::SeqCst);
        if does == "meets" {
            let mut inside = Inside { cancelled: &self.cancelled, is_out: false };
            self.inside.add_permits(1);
            self.go_on.acquire().await.expect("it is never closed").forget();
            inside.is_out = true;
        }
    }

    /// The effect, on a connection of the shop's own.
    pub(crate) async fn sell(&self, item: &[u8]) {
        let mut connection = self.pool.acquire().await.expect("a connection");
        insert_effect::<DB>(&mut connection, item).await;
    }

    /// The end of the handler.
    pub(crate) fn leave(&self, does: &str) {
        if does == "meets" {
            self.finished.add_permits(1);
        }
    }

    /// A handler whose effect is elsewhere, as replay mode has them.
    pub(crate) async fn handle(&self, does: &str, body: &Bytes) -> Response<Body> {
        self.enter(does).await;
        assert_ne!(does, "panics-at-once", "this handler panics by design");
        self.sell(body).await;
        assert_ne!(does, "panics", "this handler panics by design");
        if does == "lingers" {
            self.inside.add_permits(1);
            std::future::pending::<()>().await;
        }
        self.leave(does);
        answer(does, body)
    }
}

/// A handler that waits for the test.
struct Inside<'a> {
    cancelled: &'a AtomicUsize,
    is_out: bool,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if !self.is_out {
            self.cancelled.fetch_add(1, Ordering::SeqCst);
        }
    }
}

pub(crate) async fn take(semaphore: &Semaphore, what: &str) {
    let permit = tokio::time::timeout(PATIENCE, semaphore.acquire()).await;
    permit.unwrap_or_else(|_| panic!("{what} within {PATIENCE:?}")).expect("it is never closed").forget();
}

/// What the handler says, for each thing that it does.
pub(crate) fn answer(does: &str, body: &Bytes) -> Response<Body> {
    let (status, outcome) = match does {
        "declined" => (402, None),
        "declined-and-released" => (402, Some(Outcome::Release)),
        "conflict" => (409, None),
        "conflict-and-released" => (409, Some(Outcome::Release)),
        "throttled" => (429, None),
        "throttled-and-released" => (429, Some(Outcome::Release)),
        "too-early" => (425, None),
        "broken" => (500, None),
        "broken-and-stored" => (500, Some(Outcome::Complete)),
        "unavailable-and-released" => (503, Some(Outcome::Release)),
        "made-and-held" => (201, Some(Outcome::Hold)),
        "shown-once" | "shown-once-with-reference" => (201, Some(Outcome::CompleteUnkept)),
        _ => (201, None),
    };
    let mut response = Response::new(match does {
        "large" => Body::from(vec![b'x'; body.len() * 1000]),
        "trailers" => Body::new(Odd::WithTrailers(Some([BINARY, body].concat()))),
        "endless" => Body::new(Odd::Endless),
        "breaks-off" => Body::new(Odd::BreaksOff),
        "panics-in-its-body" => Body::new(Odd::Panics),
        _ => Body::from([BINARY, body].concat()),
    });
    *response.status_mut() = StatusCode::from_u16(status).expect("a status");
    let headers = response.headers_mut();
    // Neither sorted nor grouped by what they are for; repeats of a name stay in order.
    headers.insert(header::LOCATION, HeaderValue::from_static("/orders/1"));
    headers.append(header::SET_COOKIE, HeaderValue::from_static("b=2; Path=/"));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.append(header::SET_COOKIE, HeaderValue::from_static("a=1"));
    headers.insert("x-bytes", HeaderValue::from_bytes(b"caf\xe9").expect("a value"));
    headers.insert("a-first-letter", HeaderValue::from_static(""));
    if does == "shown-once-with-reference" {
        response.extensions_mut().insert(Reference(HeaderValue::from_static("/secrets/7")));
    }
    if let Some(outcome) = outcome {
        response.extensions_mut().insert(outcome);
    }
    response
}

/// Bodies that cannot be stored.
#[derive(Debug)]
enum Odd {
    WithTrailers(Option<Vec<u8>>),
    TrailersAreNext,
    Endless,
    BreaksOff,
    Panics,
}

impl http_body::Body for Odd {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        match &mut *self {
            Self::WithTrailers(Some(_)) => {
                let Self::WithTrailers(Some(bytes)) = std::mem::replace(&mut *self, Self::TrailersAreNext) else {
                    unreachable!("it was just looked at")
                };
                Poll::Ready(Some(Ok(Frame::data(Bytes::from(bytes)))))
            }
            Self::TrailersAreNext => {
                *self = Self::WithTrailers(None);
                let trailers = HeaderMap::from_iter([(header::ETAG, HeaderValue::from_static("\"e\""))]);
                Poll::Ready(Some(Ok(Frame::trailers(trailers))))
            }
            Self::WithTrailers(None) => Poll::Ready(None),
            // Nobody wakes it: the time limit does.
            Self::Endless => Poll::Pending,
            Self::BreaksOff => Poll::Ready(Some(Err("out of paper"))),
            Self::Panics => panic!("this body panics by design"),
        }
    }
}

pub(crate) async fn insert_effect<DB: TestEngine>(connection: &mut DB::Connection, item: &[u8]) {
    let item = String::from_utf8_lossy(item);
    let insert = sql::<DB>("INSERT INTO effect (item) VALUES ($1)", "INSERT INTO effect (item) VALUES (?)");
    Statement::new(insert).bind(&*item).execute::<DB>(connection).await.expect("the effect is inserted");
}

/// The table of the effects.
pub(crate) async fn tables<DB: TestEngine>(database: &TestDatabase<DB>) {
    database.execute("CREATE TABLE effect (item TEXT NOT NULL)").await;
}

pub(crate) async fn effects<DB: TestEngine>(database: &TestDatabase<DB>) -> i64 {
    database.int(sql::<DB>("SELECT CAST(count(*) AS BIGINT) FROM effect", "SELECT count(*) FROM effect")).await
}
