//! What the owner of a partition keeps in mind of failed records.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;

use crate::parked::{Queue, Standing};
use crate::poison::Found;
use crate::record::Record;

/// Parked queues of one partition, at most: more than that is no matter of single keys any more, and the worker stops.
pub(crate) const MAX_PARKED: usize = 10_000;

/// What an owner finds of failed records when it takes a partition over.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Failures {
    pub(crate) parked: Vec<Standing>,
    pub(crate) suspects: Found,
    pub(crate) begun: NotStarted,
}

/// What is to be done if a partition is taken away before it has become active.
#[derive(Default)]
pub(crate) struct NotStarted(Option<(Handle, BoxFuture<'static, ()>)>);

impl NotStarted {
    pub(super) fn new(note: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Some((Handle::current(), Box::pin(note))))
    }
}

impl Drop for NotStarted {
    fn drop(&mut self) {
        if let Some((runtime, note)) = self.0.take() {
            runtime.spawn(note);
        }
    }
}

impl fmt::Debug for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NotStarted").finish_non_exhaustive()
    }
}

/// It is no part of what was found.
impl PartialEq for NotStarted {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for NotStarted {}

/// What is parked, and what has died, in one ownership of a partition.
#[derive(Debug)]
pub(super) struct Failed {
    parked: Mutex<HashMap<Queue, Held>>,
    /// Whether anything is parked: ordinary records need no more than this.
    any: AtomicBool,
    /// Whether an operator's wishes are being looked for.
    looking: AtomicBool,
    /// The deaths that are held against records.
    deaths: BTreeMap<i64, u32>,
    /// Whether a process may have died of records that no death is held against yet.
    suspicious: bool,
}

/// A parked queue.
#[derive(Debug)]
struct Held {
    /// Where later records of its key go; `None`: they do not follow.
    follow_to: Option<Arc<str>>,
    draining: bool,
}

impl Failed {
    pub(super) fn new(failures: Failures) -> Self {
        let Failures { parked, suspects, mut begun } = failures;
        begun.0 = None;
        let any = AtomicBool::new(!parked.is_empty());
        let held = |standing: Standing| {
            let follow_to = standing.blocks.then(|| standing.parking_topic.into());
            (standing.queue, Held { follow_to, draining: false })
        };
        Self {
            parked: Mutex::new(parked.into_iter().map(held).collect()),
            any,
            looking: AtomicBool::new(false),
            suspicious: suspects.suspects > 0,
            deaths: suspects.deaths,
        }
    }

    /// The queue that a record has to follow, and where to.
    pub(super) fn follows(&self, record: &Record) -> Option<(Queue, Arc<str>)> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let queue = Queue::of_key(record.key()?);
        let topic = self.parked().get(&queue)?.follow_to.clone()?;
        Some((queue, topic))
    }

    /// Whether another queue may be parked.
    pub(super) fn has_room(&self) -> bool {
        self.parked().len() < MAX_PARKED
    }

    /// A queue has been parked.
    pub(super) fn park(&self, queue: Queue, follow_to: Option<Arc<str>>) {
        self.parked().insert(queue, Held { follow_to, draining: false });
        self.any.store(true, Ordering::Release);
    }

    /// A queue is there no more.
    pub(super) fn forget(&self, queue: Queue) {
        let mut parked = self.parked();
        parked.remove(&queue);
        self.any.store(!parked.is_empty(), Ordering::Release);
    }

    /// Somebody is to drain a released queue; answers whether it is the caller.
    pub(super) fn begin_draining(&self, queue: Queue) -> bool {
        self.parked().get_mut(&queue).is_some_and(|held| !std::mem::replace(&mut held.draining, true))
    }

    /// Nobody drains the queue any more.
    pub(super) fn end_draining(&self, queue: Queue) {
        if let Some(held) = self.parked().get_mut(&queue) {
            held.draining = false;
        }
    }

    /// Whether it is the caller who is to look for what operators have released.
    pub(super) fn begin_looking(&self) -> bool {
        self.any.load(Ordering::Acquire) && !self.looking.swap(true, Ordering::AcqRel)
    }

    pub(super) fn end_looking(&self) {
        self.looking.store(false, Ordering::Release);
    }

    /// The deaths held against the record at an offset, if it has to be suspected at all.
    pub(super) fn suspect(&self, offset: i64) -> Option<u32> {
        self.deaths(offset).or(self.suspicious.then_some(0))
    }

    pub(super) fn deaths(&self, offset: i64) -> Option<u32> {
        self.deaths.get(&offset).copied()
    }

    fn parked(&self) -> MutexGuard<'_, HashMap<Queue, Held>> {
        // Every change under this lock is complete once it is begun.
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
