//! What goes wrong, and when: drawn from the seed.

use std::fmt;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::super::Way;
use super::super::broker::OwnBroker;
use super::super::child::{self, ChildOptions};
use crate::options::OutboxOptions;
use crate::slot::{Slot, later};

const RELAYS: usize = 4;
/// Short, so that it is over in many a stop.
const LEASE: Duration = Duration::from_secs(3);
/// The pauses between faults of relays, and of the broker.
const RELAY_PAUSE_MS: std::ops::Range<u64> = 500..4_000;
const BROKER_PAUSE_MS: std::ops::Range<u64> = 15_000..45_000;
/// How long a relay is stopped or away, and the broker.
const STOPPED_MS: std::ops::Range<u64> = 100..8_000;
const DEAD_MS: std::ops::Range<u64> = 0..2_000;
const BROKER_DOWN_MS: std::ops::Range<u64> = 0..8_000;

/// How often what went wrong.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Faults {
    pub(super) kills: u64,
    pub(super) stops: u64,
    pub(super) broker_restarts: u64,
    pub(super) broker_kills: u64,
}

impl fmt::Display for Faults {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kills, stops, broker_restarts, broker_kills } = self;
        write!(
            formatter,
            "{kills} kills, {stops} stops, {broker_restarts} broker restarts, {broker_kills} broker kills"
        )
    }
}

/// The relays and the broker.
pub(super) struct Chaos<'a> {
    relay: ChildOptions,
    broker: &'a OwnBroker,
    rng: Rng,
    slots: Vec<Slot>,
    next_fault: Instant,
    next_broker_fault: Instant,
    /// When the broker is to come back.
    broker_down: Option<Instant>,
    pub(super) faults: Faults,
}

impl<'a> Chaos<'a> {
    pub(super) fn begin(url: &str, broker: &'a OwnBroker, options: &OutboxOptions) -> anyhow::Result<Self> {
        let relay = ChildOptions::new(Way::Relay, url, &broker.address, options, LEASE);
        let slots = (0..RELAYS).map(|_| relay.start().map(Slot::Running)).collect::<anyhow::Result<_>>()?;
        let mut rng = Rng::with_seed(options.common.seed);
        let (next_fault, next_broker_fault) = (later(&mut rng, RELAY_PAUSE_MS), later(&mut rng, BROKER_PAUSE_MS));
        let faults = Faults::default();
        Ok(Self { relay, broker, rng, slots, next_fault, next_broker_fault, broker_down: None, faults })
    }

    /// Does what is due. Blocks its thread while a server starts or ends.
    pub(super) fn step(&mut self) -> anyhow::Result<()> {
        let now = Instant::now();
        for slot in self.slots.iter_mut().filter(|slot| slot.is_due(now)) {
            slot.revive(|| self.relay.launch())?;
        }
        if now >= self.next_fault {
            let number = self.rng.usize(..self.slots.len());
            self.harm(number);
            self.next_fault = later(&mut self.rng, RELAY_PAUSE_MS);
        }
        match self.broker_down {
            Some(until) if until <= now => self.broker_up()?,
            None if now >= self.next_broker_fault => self.broker_fault()?,
            _ => {}
        }
        Ok(())
    }

    /// Ends all that is wrong.
    pub(super) fn all_up(&mut self) -> anyhow::Result<()> {
        if self.broker_down.is_some() {
            self.broker_up()?;
        }
        self.slots.iter_mut().try_for_each(|slot| slot.revive(|| self.relay.launch()))
    }

    /// Ends the relays in order.
    pub(super) fn end(mut self) -> anyhow::Result<Faults> {
        for slot in &mut self.slots {
            if let Slot::Running(child) = slot {
                child::end(child)?;
            }
        }
        Ok(self.faults)
    }

    fn harm(&mut self, number: usize) {
        let slot = &mut self.slots[number];
        if self.rng.bool() {
            self.faults.stops += u64::from(slot.stop(later(&mut self.rng, STOPPED_MS)));
        } else {
            self.faults.kills += u64::from(slot.kill(later(&mut self.rng, DEAD_MS)));
        }
    }

    fn broker_fault(&mut self) -> anyhow::Result<()> {
        if self.rng.bool() {
            self.faults.broker_kills += 1;
            self.broker.kill()?;
        } else {
            self.faults.broker_restarts += 1;
            self.broker.down()?;
        }
        self.broker_down = Some(later(&mut self.rng, BROKER_DOWN_MS));
        Ok(())
    }

    fn broker_up(&mut self) -> anyhow::Result<()> {
        self.broker.up()?;
        self.broker_down = None;
        self.next_broker_fault = later(&mut self.rng, BROKER_PAUSE_MS);
        Ok(())
    }
}
