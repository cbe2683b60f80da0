//! Replay mode: the layer claims the key with a lease, runs the handler, and stores what it answers.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::Body;
use sqlx::Pool;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use tower_service::Service;
use tracing::Instrument;

use super::admission::Admission;
use super::body::Buffered;
use super::extract::Answered;
use super::layer::{IdempotencyLayer, Idempotent, LayerBuilder, LayerError, MOST_BYTES, Settings, sealed, within};
use super::outcome::{Abandoned, Outcome};
use super::problem::Problem;
use super::report;
use super::scope::Unscoped;
use crate::key::Scope;
use crate::phased::{Phased, PhasedSql};

mod claim;
mod end;
mod run;

type OutcomeOf = dyn Fn(StatusCode) -> Outcome + Send + Sync;

/// The mode of [`IdempotencyLayer::replay`](super::IdempotencyLayer::replay).
///
/// | setting | default | meaning |
/// |---|---|---|
/// | `max_claim` | 2 s | how long the store may take to say what a request is; then 503, and nothing runs |
/// | `max_run` | 5 min | how long a handler may take to give its whole answer; then it is cancelled and its key held |
/// | `max_record` | 15 s | how long the store may take to record how a request ended; then 503, and the lease ends the claim |
/// | `max_running` | 1,024 | how many requests may be under way, from the first byte of their body on, those included whose client is gone; beyond it 503 |
/// | `outcome` | [`Outcome::of_status`] | which answers are stored, which free the key, which hold it |
/// | `abandoned` | hold | what becomes of a key whose handler was lost with its process |
///
/// What the layer holds in memory is at most `max_running` bodies of `max_body_bytes` and as many answers of
/// [`max_response_bytes`](crate::phased::PhasedBuilder::max_response_bytes): 1,024 times 1,048,576 and 262,144 bytes by default.
pub struct Replay<DB: PhasedSql> {
    pool: Pool<DB>,
    phased: Phased,
    max_claim: Duration,
    max_run: Duration,
    max_record: Duration,
    max_running: usize,
    outcome: Arc<OutcomeOf>,
    abandoned: Abandoned,
    running: Arc<Semaphore>,
    tasks: TaskTracker,
}

impl<DB: PhasedSql> IdempotencyLayer<Replay<DB>> {
    /// A layer that claims the key, runs the handler in a task of its own and stores its answer: for handlers whose effects
    /// are not in the database of the keys. A client that hangs up does not cancel its handler.
    ///
    /// `phased` says how long the lease of a claim and the retention of an answer are; `scope` whose key it is, as for
    /// [`extract`](Self::extract).
    pub fn replay<F>(pool: &Pool<DB>, phased: Phased, scope: F) -> LayerBuilder<Replay<DB>>
    where
        F: Fn(&Parts) -> Result<Scope, Unscoped> + Send + Sync + 'static,
    {
        let max_running = 1024;
        let mode = Replay {
            pool: pool.clone(),
            phased,
            max_claim: Duration::from_secs(2),
            max_run: Duration::from_mins(5),
            max_record: Duration::from_secs(15),
            max_running,
            outcome: Arc::new(Outcome::of_status),
            abandoned: Abandoned::Hold,
            running: Arc::new(Semaphore::new(max_running)),
            tasks: TaskTracker::new(),
        };
        LayerBuilder { admission: Admission::new(Arc::new(scope)), mode }
    }

    /// Waits until no handler runs any more, at most `limit`; answers how many still run. Call it when the server has
    /// stopped to accept requests: handlers whose client is gone do not count as its connections. What runs on when the process ends
    /// is [`Abandoned`].
    ///
    /// # Cancel safety
    /// It waits and does nothing else.
    pub async fn drained(&self, limit: Duration) -> usize {
        let tasks = &self.settings.mode.tasks;
        tasks.close();
        // Whether it was in time is told by the number that is left.
        let _ = tokio::time::timeout(limit, tasks.wait()).await;
        tasks.len()
    }
}

impl<DB: PhasedSql> LayerBuilder<Replay<DB>> {
    /// How long the store may take to say what a request is (default: 2 s): the wait for a connection, the claim, and its
    /// repeats after errors. Then the request is answered [`Problem::StoreFailed`] and does not run. A claim that comes later is given
    /// back, for which the request keeps its place five times as long; one of which nothing is heard ends with its lease, and then
    /// counts as [`abandoned`](Self::abandoned).
    pub fn max_claim(mut self, max_claim: Duration) -> Self {
        self.mode.max_claim = max_claim;
        self
    }

    /// How long the store may take to record how a request ended (default: 15 s). Then an answer that was to be stored is not
    /// given out ([`Problem::NotRecorded`]). If nothing was written, the key stays claimed until its lease ends, and then counts as
    /// [`abandoned`](Self::abandoned). It is tried for no longer than the lease, whatever this says.
    pub fn max_record(mut self, max_record: Duration) -> Self {
        self.mode.max_record = max_record;
        self
    }

    /// How long a handler may take to give its whole answer (default: 5 min). Then it is cancelled, and its key is held.
    pub fn max_run(mut self, max_run: Duration) -> Self {
        self.mode.max_run = max_run;
        self
    }

    /// How many requests may be under way at a time (default: 1,024), since a client that hangs up does not end its own. One
    /// counts from when its body is read: what the bodies take in memory is at most `max_running` times
    /// [`max_body_bytes`](Self::max_body_bytes). A slow client keeps its place for at most
    /// [`max_body_wait`](Self::max_body_wait).
    pub fn max_running(mut self, max_running: usize) -> Self {
        self.mode.max_running = max_running;
        self
    }

    /// Which answers are stored, which free their key and which hold it, by their status (default:
    /// [`Outcome::of_status`]). What a handler says itself goes before it.
    pub fn outcome<F>(mut self, outcome: F) -> Self
    where
        F: Fn(StatusCode) -> Outcome + Send + Sync + 'static,
    {
        self.mode.outcome = Arc::new(outcome);
        self
    }

    /// What becomes of a key whose handler was lost with its process (default: it is held).
    pub fn abandoned(mut self, abandoned: Abandoned) -> Self {
        self.mode.abandoned = abandoned;
        self
    }
}

impl<DB: PhasedSql> sealed::Sealed for Replay<DB> {
    fn check(&mut self) -> Result<(), LayerError> {
        let day = Duration::from_hours(24);
        let (bytes, running) = (self.phased.max_response_bytes, self.max_running);
        // What stands for an answer that is not kept has to fit as well.
        within("max_response_bytes", (4096..=MOST_BYTES).contains(&bytes), "from 4,096 to 268,435,456 bytes")?;
        for (setting, value) in
            [("max_claim", self.max_claim), ("max_run", self.max_run), ("max_record", self.max_record)]
        {
            within(setting, value >= Duration::from_millis(1) && value <= day, "from 1 ms to 24 h")?;
        }
        within("max_running", (1..=1_000_000).contains(&running), "from 1 to 1,000,000")?;
        self.running = Arc::new(Semaphore::new(running));
        Ok(())
    }
}

impl<S, DB, ReqBody, ResBody> Service<Request<ReqBody>> for Idempotent<S, Replay<DB>>
where
    DB: PhasedSql,
    S: Service<Request<Buffered<ReqBody>>, Response = Response<ResBody>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    ReqBody: Body<Data = Bytes> + Send + 'static,
    ResBody: Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<Buffered<ResBody>>;
    type Error = S::Error;
    type Future = Answered<ResBody, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let mut inner = self.ready();
        if !self.settings.admission.covers(request.method()) {
            let answer = inner.call(request.map(Buffered::passed));
            return Box::pin(async move { Ok(answer.await?.map(Buffered::passed)) });
        }
        let settings = Arc::clone(&self.settings);
        Box::pin(async move {
            let docs = settings.admission.docs.clone();
            match detached(inner, settings, request).await {
                Ok(answer) => answer,
                Err(problem) => {
                    report::refused(problem);
                    Ok(problem.response_documented(docs.as_deref()))
                }
            }
        })
    }
}

/// Admits the request here, where a client that hangs up ends it, and does all the rest in a task that nobody can drop.
async fn detached<S, DB, ReqBody, ResBody>(
    inner: S,
    settings: Arc<Settings<Replay<DB>>>,
    request: Request<ReqBody>,
) -> Result<Result<Response<Buffered<ResBody>>, S::Error>, Problem>
where
    DB: PhasedSql,
    S: Service<Request<Buffered<ReqBody>>, Response = Response<ResBody>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    ReqBody: Body<Data = Bytes> + Send + 'static,
    ResBody: Body<Data = Bytes> + Send + 'static,
{
    let retry_after = Duration::from_secs(1);
    let running = Arc::clone(&settings.mode.running);
    let place = || running.try_acquire_owned().map_err(|_| Problem::Overloaded { retry_after });
    let (admitted, permit) = settings.admission.admit(request, place).await?;
    let tasks = settings.mode.tasks.clone();
    let task =
        async move { run::answer(inner, &settings.mode, settings.admission.docs.as_deref(), admitted, permit).await };
    // The task ends early if the runtime is shutting down, or if the application's cipher panics; whatever else is the
    // application's runs in a task of its own, below. The lease ends the claim then.
    tasks.spawn(task.in_current_span()).await.unwrap_or(Err(Problem::NotRecorded { retry_after }))
}

impl<DB: PhasedSql> fmt::Debug for Replay<DB> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Replay")
            .field("max_claim", &self.max_claim)
            .field("max_run", &self.max_run)
            .field("max_record", &self.max_record)
            .field("max_running", &self.max_running)
            .field("abandoned", &self.abandoned)
            .finish_non_exhaustive()
    }
}
