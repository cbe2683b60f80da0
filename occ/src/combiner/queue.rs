//! The queue between callers and committers.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::error::CombineError;
use crate::measure::{self, Waiting};

/// The answer of an operation that is queued. Dropping it while the operation is queued withdraws the operation.
///
/// # Cancel safety
/// Dropped before the operation's batch has begun: not applied. After that: applied once, or not at all if the batch had to
/// be rolled back, which nobody is told.
#[must_use = "an operation whose answer is not waited for is withdrawn"]
pub struct Pending<A> {
    reply: oneshot::Receiver<Reply<A>>,
}

pub(super) type Reply<A> = Result<A, CombineError>;

/// An operation and where its answer goes.
pub(super) struct Queued<O, A> {
    pub(super) operation: O,
    pub(super) reply: oneshot::Sender<Reply<A>>,
    pub(super) waiting: Waiting,
}

impl<O, A> Queued<O, A> {
    pub(super) fn new(operation: O) -> (Self, Pending<A>) {
        let (sender, reply) = oneshot::channel();
        (Self { operation, reply: sender, waiting: Waiting::begin() }, Pending { reply })
    }
}

impl<A> Future for Pending<A> {
    type Output = Result<A, CombineError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let reply = ready!(Pin::new(&mut self.reply).poll(context));
        Poll::Ready(reply.unwrap_or_else(|_| {
            // A reply that can no longer come: the runtime ended under the committer.
            measure::unanswered(1, &CombineError::Unknown);
            Err(CombineError::Unknown)
        }))
    }
}

impl<A> fmt::Debug for Pending<A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Pending").finish_non_exhaustive()
    }
}

/// How a combiner ends, in three steps of which each includes those before.
#[derive(Debug, Clone, Default)]
pub(super) struct Ending {
    /// Nothing more is accepted; what is queued is still applied.
    pub(super) drain: CancellationToken,
    /// What is queued is not applied any more.
    pub(super) discard: CancellationToken,
    /// What is under way is broken off.
    pub(super) halt: CancellationToken,
}

/// How a wait for arrivals ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gathered {
    /// There are some.
    Arrived,
    /// There were none in time.
    Late,
    /// There will be none: the combiner has ended.
    Ended,
}

/// The committers' end of the queue.
pub(super) struct Arrivals<O, A> {
    receiver: Mutex<mpsc::Receiver<Queued<O, A>>>,
    max_batch: usize,
}

impl<O, A> Arrivals<O, A> {
    pub(super) fn new(receiver: mpsc::Receiver<Queued<O, A>>, max_batch: usize) -> Self {
        Self { receiver: Mutex::new(receiver), max_batch }
    }

    /// Takes everything that has arrived, up to a batch, in the order of arrival; waits for one, at most until `until`. What has
    /// arrived goes before what is late.
    ///
    /// # Cancel safety
    /// Nothing is lost: what has been taken stays in `gathered`, and the next call goes on with it.
    pub(super) async fn gather(
        &self,
        ending: &Ending,
        gathered: &mut Vec<Queued<O, A>>,
        until: Option<Instant>,
    ) -> Gathered {
        let late = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let mut late = std::pin::pin!(late);
        let mut receiver = tokio::select! {
            biased;
            receiver = self.receiver.lock() => receiver,
            // Another committer waits for what arrives.
            () = &mut late => return Gathered::Late,
        };
        loop {
            if gathered.is_empty() {
                tokio::select! {
                    biased;
                    () = ending.discard.cancelled() => {}
                    () = ending.drain.cancelled(), if !receiver.is_closed() => {
                        receiver.close();
                        continue;
                    }
                    taken = receiver.recv_many(gathered, self.max_batch) => if taken == 0 {
                        return Gathered::Ended;
                    },
                    () = &mut late => return Gathered::Late,
                }
            }
            self.fill(&mut receiver, gathered).await;
            if ending.discard.is_cancelled() {
                receiver.close();
                refuse(gathered);
                while let Ok(queued) = receiver.try_recv() {
                    gathered.push(queued);
                    refuse(gathered);
                }
                return Gathered::Ended;
            }
            // Whoever has gone away while queued is not applied.
            gathered.retain(|queued| !queued.reply.is_closed());
            if !gathered.is_empty() {
                return Gathered::Arrived;
            }
        }
    }

    /// Lets the callers that the last batch answered run and bring their next operation. They are awake, so this waits for
    /// nobody; without it every other batch would be all but empty.
    async fn fill(&self, receiver: &mut mpsc::Receiver<Queued<O, A>>, gathered: &mut Vec<Queued<O, A>>) {
        while gathered.len() < self.max_batch {
            tokio::task::yield_now().await;
            let before = gathered.len();
            while gathered.len() < self.max_batch
                && let Ok(queued) = receiver.try_recv()
            {
                gathered.push(queued);
            }
            if gathered.len() == before {
                return;
            }
        }
    }
}

fn refuse<O, A>(gathered: &mut Vec<Queued<O, A>>) {
    for queued in gathered.drain(..) {
        // The caller may have gone away.
        let _ = queued.reply.send(Err(CombineError::Closed));
    }
}
