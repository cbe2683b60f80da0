//! The faults in force, shared by the proxy's connections.

use std::fmt::{Debug, Formatter};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Then;

/// What is lost of a matching exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    Request,
    Reply,
}

type Predicate = Box<dyn FnMut(&str) -> bool + Send>;

pub(super) struct Rule {
    pub(super) predicate: Predicate,
    pub(super) lost: Lost,
    pub(super) then: Then,
}

/// Whether a connection has lost bytes. It never carries any again: a stream with a gap in it is no TCP.
#[derive(Debug, Default)]
pub(super) struct Maimed {
    /// The number of the `heal` that ends the connection; 0 while it is whole.
    until: AtomicU64,
}

impl Maimed {
    pub(super) fn is(&self) -> bool {
        self.until.load(Ordering::SeqCst) > 0
    }
}

#[derive(Debug, Default)]
struct Setting {
    delay: Duration,
    refuses: bool,
    swallows: bool,
    /// Of what the server sends, every byte is lost.
    mutes: bool,
    rule: Option<Rule>,
    /// Cancelled when the present connections are to end; new ones get a new one.
    present: CancellationToken,
}

#[derive(Debug)]
pub(super) struct Faults {
    setting: Mutex<Setting>,
    /// How often all was healed.
    heals: watch::Sender<u64>,
    pub(super) open: watch::Sender<usize>,
    pub(super) accepted: watch::Sender<u64>,
    pub(super) fired: watch::Sender<u64>,
}

impl Faults {
    pub(super) fn new() -> Self {
        Self {
            setting: Mutex::default(),
            heals: watch::Sender::new(0),
            open: watch::Sender::new(0),
            accepted: watch::Sender::new(0),
            fired: watch::Sender::new(0),
        }
    }

    pub(super) fn set_delay(&self, delay: Duration) {
        self.setting().delay = delay;
    }

    pub(super) fn delay(&self) -> Duration {
        self.setting().delay
    }

    pub(super) fn cut(&self) {
        let mut setting = self.setting();
        setting.refuses = true;
        std::mem::take(&mut setting.present).cancel();
    }

    /// Lets a new connection in; answers the signal for it to end.
    pub(super) fn admit(&self) -> Option<CancellationToken> {
        let setting = self.setting();
        (!setting.refuses).then(|| setting.present.clone())
    }

    pub(super) fn swallow_all(&self) {
        self.setting().swallows = true;
    }

    /// Whether bytes are lost now, which maims the connection they came on.
    pub(super) fn swallows(&self, maimed: &Maimed) -> bool {
        let setting = self.setting();
        if setting.swallows {
            // Under the lock, so that a `heal` either comes before or finds the mark.
            self.maim(maimed);
        }
        setting.swallows
    }

    pub(super) fn mute_server(&self) {
        self.setting().mutes = true;
    }

    /// As [`swallows`](Self::swallows), for what the server sends.
    pub(super) fn swallows_replies(&self, maimed: &Maimed) -> bool {
        let setting = self.setting();
        let swallows = setting.swallows || setting.mutes;
        if swallows {
            self.maim(maimed);
        }
        swallows
    }

    pub(super) fn set_rule(&self, rule: Rule) {
        self.setting().rule = Some(rule);
    }

    /// Asks the rule in force about a statement that is on its way to the server.
    pub(super) fn judge(&self, sql: &str, maimed: &Maimed) -> Option<(Lost, Then)> {
        let mut setting = self.setting();
        let rule = setting.rule.as_mut()?;
        if !(rule.predicate)(sql) {
            return None;
        }
        self.maim(maimed);
        Some((rule.lost, rule.then))
    }

    pub(super) fn heal(&self) {
        let mut setting = self.setting();
        setting.delay = Duration::ZERO;
        setting.refuses = false;
        setting.swallows = false;
        setting.mutes = false;
        setting.rule = None;
        self.heals.send_modify(|heals| *heals += 1);
    }

    /// Returns at the first `heal` after bytes of the connection were lost.
    pub(super) async fn healed(&self, maimed: &Maimed) {
        let mut heals = self.heals.subscribe();
        let is_over = |heals: &u64| (1..=*heals).contains(&maimed.until.load(Ordering::SeqCst));
        heals.wait_for(is_over).await.expect("the sender is in self");
    }

    fn maim(&self, maimed: &Maimed) {
        maimed.until.store(*self.heals.borrow() + 1, Ordering::SeqCst);
    }

    pub(super) fn fire(&self) {
        self.fired.send_modify(|fired| *fired += 1);
    }

    fn setting(&self) -> MutexGuard<'_, Setting> {
        // A caller's predicate that panicked leaves the settings whole.
        self.setting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Debug for Rule {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Rule").field("lost", &self.lost).field("then", &self.then).finish_non_exhaustive()
    }
}
