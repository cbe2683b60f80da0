//! One claim's session: a connection of its own, and the task that speaks on it.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use leastlock_core::classify;
use sqlx::{Connection, Pool};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};

use super::engine::AdvisorySql;
use super::{Lock, store_error};
use crate::lock_name::LockName;
use crate::store::StoreError;

/// How long it may take to be taken out of the server's queue; the end of the connection does it as well, later.
const CANCEL: Duration = Duration::from_secs(2);

/// How far a session has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// It is not known yet whether the lock is free.
    Connects,
    /// It is not, and the session stands in the server's queue.
    Waits,
    /// It has the lock.
    Granted,
    /// It is over.
    Ended,
}

pub(super) fn is_waiting(progress: Progress) -> bool {
    matches!(progress, Progress::Connects | Progress::Waits)
}

type Answer = oneshot::Sender<Result<bool, sqlx::Error>>;

enum Request {
    /// Whether it still has the lock.
    Renew(Answer),
    /// Gives it up, or the place in the queue; whether it had it.
    Release(Answer),
    /// Nobody will release it.
    LetExpire(Duration),
}

/// The handle of a session, which ends with it.
#[derive(Debug)]
pub(super) struct Session {
    name: LockName,
    requests: mpsc::UnboundedSender<Request>,
    progress: watch::Receiver<Progress>,
    number: Arc<OnceLock<i64>>,
    failure: Arc<Mutex<Option<StoreError>>>,
}

/// Opens one, which takes the lock or stands in the queue for it. It goes on whoever waits for it.
pub(super) fn open<DB: AdvisorySql>(pool: Pool<DB>, lock: Lock, name: LockName) -> Session {
    let (requests, received) = mpsc::unbounded_channel();
    let (progress, watched) = watch::channel(Progress::Connects);
    let (failure, number) = (Arc::<Mutex<Option<StoreError>>>::default(), Arc::<OnceLock<i64>>::default());
    let (failed, numbered) = (Arc::clone(&failure), Arc::clone(&number));
    let session = Session { name, requests, progress: watched, number: numbered, failure: failed };
    tokio::spawn(async move {
        // Dropped last: whoever is told of the end finds the reason.
        let speaker = Speaker { pool, lock, requests: received, progress: EndsWith(progress), number };
        let (ended, _told) = speaker.speak().await;
        if let Err(error) = ended {
            let retryable = classify::<DB>(&error).is_retryable();
            let error = if retryable { store_error(error) } else { StoreError::permanent(error) };
            *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    });
    session
}

impl Session {
    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.clone()
    }

    /// Whether it has this lock.
    pub(super) fn has(&self, name: &LockName) -> bool {
        self.name == *name && *self.progress.borrow() == Progress::Granted
    }

    /// The server's number of it, once it is known.
    pub(super) fn number(&self) -> Option<i64> {
        self.number.get().copied()
    }

    /// How far it is once the server has answered.
    pub(super) async fn answered(&self) -> Progress {
        let mut progress = self.progress.clone();
        let answered = progress.wait_for(|progress| *progress != Progress::Connects).await;
        answered.map_or(Progress::Ended, |progress| *progress)
    }

    /// What ended it, once.
    pub(super) fn error(&self) -> Option<StoreError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether it still has the lock; `None` if it has ended.
    pub(super) async fn renew(&self) -> Option<Result<bool, sqlx::Error>> {
        self.ask(Request::Renew).await
    }

    /// Gives up what it has; `None` if it has ended.
    pub(super) async fn release(&self) -> Option<Result<bool, sqlx::Error>> {
        self.ask(Request::Release).await
    }

    pub(super) fn let_expire(&self, remaining: Duration) {
        // It may have ended.
        let _ended = self.requests.send(Request::LetExpire(remaining));
    }

    async fn ask(&self, request: impl FnOnce(Answer) -> Request) -> Option<Result<bool, sqlx::Error>> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(request(answer)).ok()?;
        answered.await.ok()
    }
}

/// Tells of the end when it is dropped, however that came.
struct EndsWith(watch::Sender<Progress>);

impl Drop for EndsWith {
    fn drop(&mut self) {
        self.0.send_replace(Progress::Ended);
    }
}

/// What is left of a session whose claim was given up before it had the lock.
struct GivenUp(Option<Answer>);

struct Speaker<DB: AdvisorySql> {
    pool: Pool<DB>,
    lock: Lock,
    requests: mpsc::UnboundedReceiver<Request>,
    progress: EndsWith,
    number: Arc<OnceLock<i64>>,
}

impl<DB: AdvisorySql> Speaker<DB> {
    async fn speak(mut self) -> (Result<(), sqlx::Error>, EndsWith) {
        let ended = self.take_and_hold().await;
        (ended, self.progress)
    }

    async fn take_and_hold(&mut self) -> Result<(), sqlx::Error> {
        let (pool, lock) = (&self.pool, &self.lock);
        let opened = async {
            let mut connection = pool.acquire().await?.detach();
            let number = DB::prepare(&mut connection, lock).await?;
            let _first = self.number.set(number);
            let taken = DB::try_lock(&mut connection, lock).await?;
            Ok::<_, sqlx::Error>((connection, number, taken))
        };
        let (mut connection, number, taken) = match unless_given_up(&mut self.requests, opened).await {
            Ok(opened) => opened?,
            // Its connection is closed, and what it may have been granted goes with that.
            Err(GivenUp(answer)) => {
                tell(answer, Ok(false));
                return Ok(());
            }
        };
        if !taken {
            self.progress.0.send_replace(Progress::Waits);
            let waited = unless_given_up(&mut self.requests, DB::wait(&mut connection, lock)).await;
            match waited {
                Ok(waited) => waited?,
                Err(GivenUp(answer)) => {
                    // A server does not look for the end of a connection while it waits for a lock. It carries a cancellation out
                    // some time after it was asked to, and the lock may come before that: out of the queue is a session that
                    // answers again.
                    let _over = timeout(CANCEL, async {
                        DB::cancel(&self.pool, number).await?;
                        DB::unlock(&mut connection, lock).await
                    })
                    .await;
                    drop(connection);
                    tell(answer, Ok(false));
                    return Ok(());
                }
            }
        }
        self.progress.0.send_replace(Progress::Granted);
        self.hold(connection, number).await
    }

    /// Answers what is asked of the one that has the lock, until it has it no more.
    async fn hold(&mut self, mut connection: DB::Connection, number: i64) -> Result<(), sqlx::Error> {
        while let Some(request) = self.requests.recv().await {
            match request {
                Request::Renew(answer) => {
                    // Without an answer for a TTL the lease is over, whatever the server thinks of its session.
                    let stands = timeout(self.lock.ttl, DB::stands(&mut connection, &self.lock, number)).await;
                    let Ok(stands) = stands else { return Ok(()) };
                    let goes_on = matches!(stands, Ok(true));
                    tell(Some(answer), stands);
                    if !goes_on {
                        return Ok(());
                    }
                }
                Request::Release(answer) => {
                    let unlocked = timeout(self.lock.ttl, DB::unlock(&mut connection, &self.lock)).await;
                    let Ok(unlocked) = unlocked else { return Ok(()) };
                    tell(Some(answer), unlocked);
                    return connection.close().await;
                }
                Request::LetExpire(remaining) => {
                    sleep(remaining).await;
                    return connection.close().await;
                }
            }
        }
        Ok(())
    }
}

/// Whoever asked may not wait for it any more.
fn tell(answer: Option<Answer>, told: Result<bool, sqlx::Error>) {
    if let Some(answer) = answer {
        let _gone = answer.send(told);
    }
}

/// Does `work`, unless the claim is given up first.
async fn unless_given_up<T>(
    requests: &mut mpsc::UnboundedReceiver<Request>,
    work: impl Future<Output = T>,
) -> Result<T, GivenUp> {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return Ok(done),
            request = requests.recv() => match request {
                Some(Request::Renew(answer)) => drop(answer.send(Ok(false))),
                Some(Request::Release(answer)) => return Err(GivenUp(Some(answer))),
                Some(Request::LetExpire(_)) | None => return Err(GivenUp(None)),
            },
        }
    }
}
