//! The waiters of one process: they take turns, and one of them asks the store.
//!
//! Without it each of a process's waiters would poll by itself, and a lease that ends here would be heard of by way of the
//! store. Where the kind of lease allows it, what is released here goes to the next waiter without a trip.

mod succession;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::held::Requests;
use crate::hold::Hold;
use crate::lock_name::LockName;
use crate::state::Left;
use crate::token::{FencingToken, OwnerNonce};

pub(crate) use succession::{Passed, Succession, Turns};

/// What a lease that is handed on consists of: to the store nothing changes.
pub(crate) struct Baton {
    pub(crate) nonce: OwnerNonce,
    pub(crate) token: Option<FencingToken>,
    pub(crate) requests: Arc<dyn Requests>,
    /// How it was held until now.
    pub(crate) hold: Hold,
    pub(crate) left: Left,
    /// How often it may be handed on after this.
    pub(crate) turns: Turns,
}

/// The queues of one [`Leases`](crate::Leases) and its clones, one a lock that is waited for.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    names: Mutex<HashMap<LockName, VecDeque<Arc<Entry>>>>,
}

#[derive(Debug, Default)]
struct Entry {
    /// How it will hold what is handed to it, if it takes that.
    takes_batons: Option<Hold>,
    woken: Notify,
    mail: Mutex<Mail>,
}

#[derive(Default)]
struct Mail {
    first: bool,
    held_here: bool,
    /// A lease of this process is over, and this is what is left of the lock's turns here.
    turns: Option<Turns>,
    /// Others come first.
    gives_way: bool,
    baton: Option<Baton>,
    succession: Option<Succession>,
}

impl std::fmt::Debug for Mail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mail").field("first", &self.first).field("held_here", &self.held_here).finish_non_exhaustive()
    }
}

impl Mail {
    /// What the next place is to know: whether the lock is held here, and if not, what is left of its turns and whether others come first.
    fn left(&self, granted: bool) -> (bool, Option<Turns>, bool) {
        let held_here = granted || self.held_here;
        (held_here, self.turns.filter(|_| !held_here), self.gives_way && !held_here)
    }
}

impl Entry {
    fn mail(&self) -> MutexGuard<'_, Mail> {
        // Nothing in here panics half-way.
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, news: impl FnOnce(&mut Mail)) {
        news(&mut self.mail());
        self.woken.notify_one();
    }
}

impl Queues {
    /// A place at the end of the queue; `None` if it would be the first and `behind_others` is asked for.
    pub(crate) fn join(
        self: &Arc<Self>,
        name: &LockName,
        takes_batons: Option<Hold>,
        behind_others: bool,
    ) -> Option<Place> {
        let mut names = self.lock();
        if behind_others && !names.contains_key(name) {
            return None;
        }
        let entry = Arc::new(Entry { takes_batons, ..Entry::default() });
        let queue = names.entry(name.clone()).or_default();
        entry.mail().first = queue.is_empty();
        queue.push_back(Arc::clone(&entry));
        Some(Place { queues: Arc::clone(self), name: name.clone(), entry, granted: false })
    }

    /// A lease of this process is over: the first waiter may ask.
    pub(crate) fn freed(&self, name: &LockName) {
        self.tell_first(name, |mail| mail.held_here = false);
    }

    /// The same, if it was released at the store: with what is left of the lock's turns, or only after others had time to ask.
    pub(crate) fn released(&self, name: &LockName, turns: Option<Turns>) {
        self.tell_first(name, |mail| (mail.held_here, mail.turns, mail.gives_way) = (false, turns, turns.is_none()));
    }

    fn tell_first(&self, name: &LockName, news: impl FnOnce(&mut Mail)) {
        if let Some(first) = self.lock().get(name).and_then(VecDeque::front) {
            first.tell(news);
        }
    }

    /// Hands the lease to the first waiter, if that one takes what there is; answers whether.
    pub(crate) fn hand_on(&self, name: &LockName, baton: Baton) -> bool {
        let names = self.lock();
        match names.get(name).and_then(VecDeque::front) {
            // Under the lock, so that a waiter which leaves has left before, or finds it.
            Some(first)
                if first.takes_batons.is_some_and(|hold| hold.takes_over(&baton.hold))
                    && first.mail().baton.is_none() =>
            {
                first.tell(|mail| mail.baton = Some(baton));
                true
            }
            _ => false,
        }
    }

    /// Leaves a lock to the first waiter, if there is one; answers whether.
    pub(crate) fn pass_on(&self, name: &LockName, succession: Succession) -> bool {
        let names = self.lock();
        match names.get(name).and_then(VecDeque::front) {
            Some(first) if first.mail().succession.is_none() => {
                first.tell(|mail| (mail.succession, mail.held_here) = (Some(succession), false));
                true
            }
            _ => false,
        }
    }

    /// Takes back what this owner has left to a waiter that has not taken it yet; answers whether.
    pub(crate) fn withdraw(&self, name: &LockName, nonce: OwnerNonce) -> bool {
        let names = self.lock();
        let mut waiting = names.get(name).into_iter().flatten();
        waiting.any(|entry| entry.mail().succession.take_if(|left| left.nonce == nonce).is_some())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<LockName, VecDeque<Arc<Entry>>>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in a queue; given up when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    queues: Arc<Queues>,
    name: LockName,
    entry: Arc<Entry>,
    granted: bool,
}

impl Place {
    /// Waits until something has changed for this place. What came between two waits ends the next one.
    pub(crate) async fn woken(&self) {
        self.entry.woken.notified().await;
    }

    pub(crate) fn is_first(&self) -> bool {
        self.entry.mail().first
    }

    /// Whether the lock was granted to the one before it, whose end this place hears of without the store.
    pub(crate) fn is_held_here(&self) -> bool {
        self.entry.mail().held_here
    }

    pub(crate) fn has_baton(&self) -> bool {
        self.entry.mail().baton.is_some()
    }

    /// The lease that was handed to this place. Whoever takes it has it.
    pub(crate) fn take_baton(&self) -> Option<Baton> {
        self.entry.mail().baton.take()
    }

    pub(crate) fn has_succession(&self) -> bool {
        self.entry.mail().succession.is_some()
    }

    /// The lock that was left to this place. Whoever takes it tells what became of it.
    pub(crate) fn take_succession(&self) -> Option<Succession> {
        self.entry.mail().succession.take().map(Succession::taken)
    }

    /// What is left of the turns of a lock that was released here.
    pub(crate) fn take_turns(&self) -> Option<Turns> {
        self.entry.mail().turns.take()
    }

    /// Whether others are to have time to ask before this place does.
    pub(crate) fn gives_way(&self) -> bool {
        self.entry.mail().gives_way
    }

    pub(crate) fn has_given_way(&self) {
        self.entry.mail().gives_way = false;
    }

    /// Leaves with the lock, whose end the next place will hear of; answers what was handed to the place as well.
    pub(crate) fn leave_granted(mut self) -> Option<Baton> {
        self.granted = true;
        self.leave()
    }

    /// Leaves; answers what was handed to the place at the last moment.
    pub(crate) fn leave(self) -> Option<Baton> {
        let entry = Arc::clone(&self.entry);
        drop(self);
        entry.mail().baton.take()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut names = self.queues.lock();
        let Some(queue) = names.get_mut(&self.name) else { return };
        queue.retain(|entry| !Arc::ptr_eq(entry, &self.entry));
        // Whoever has left the lock to this place hears that nothing came of it, and releases.
        drop(self.entry.mail().succession.take());
        match queue.front() {
            None => drop(names.remove(&self.name)),
            Some(first) if !first.mail().first => {
                let (held_here, turns, gives_way) = self.entry.mail().left(self.granted);
                first.tell(|mail| {
                    (mail.first, mail.held_here) = (true, held_here);
                    (mail.turns, mail.gives_way) = (turns, gives_way);
                });
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
#[path = "queue/tests.rs"]
mod tests;
