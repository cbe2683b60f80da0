//! What is to be noted of the lanes.

use super::{Lane, Pipeline};
use crate::parked::Cause;
#[cfg(any(test, feature = "postgres", feature = "sqlite", feature = "mysql"))]
use crate::parked::{Park, Queue, park::bounded};
use crate::relay::cursor::Note;
use crate::sink::LoggedEvent;

/// An event that is not sent; noted in the same transaction as the position behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parked {
    pub(crate) event: LoggedEvent,
    pub(crate) cause: Cause,
    /// Later events of its key that the other side acknowledged before it was refused.
    pub(crate) overtaken_by: Vec<crate::event::EventId>,
}

#[cfg(any(test, feature = "postgres", feature = "sqlite", feature = "mysql"))]
impl Parked {
    /// As it is written. What overtook it is told to whoever looks at it.
    #[cfg_attr(
        not(any(feature = "postgres", feature = "sqlite", feature = "mysql")),
        allow(dead_code, reason = "without an engine nothing is written")
    )]
    pub(crate) fn to_park(&self) -> Park {
        let mut cause = self.cause.clone();
        if let Cause::Refused { reason } | Cause::Alone { reason } = &mut cause {
            *reason = bounded(reason);
            if let [first, others @ ..] = &self.overtaken_by[..] {
                let overtaken = format!("overtaken by event {first} of its key and {} more: {reason}", others.len());
                *reason = bounded(&overtaken);
            }
        }
        Park { id: self.event.id, queue: self.queue(), cause }
    }

    /// The queue that it is to stand in.
    pub(crate) fn queue(&self) -> Queue {
        match &self.event.key {
            Some(key) if self.cause.blocks() => Queue::of_key(&self.event.topic, key),
            _ => Queue::of_event(self.event.event_id),
        }
    }
}

impl Pipeline {
    /// Events handed over, or to be parked, that are in no note.
    pub(crate) fn under_way(&self) -> u64 {
        self.lanes.iter().map(Lane::under_way).sum()
    }

    /// Events published, or to be parked, that are in no note.
    pub(crate) fn unnoted(&self) -> u64 {
        self.lanes.iter().map(Lane::unnoted).sum()
    }

    /// What to note. [`noted`](Self::noted) has to follow before the next is asked for, or [`clear`](Self::clear).
    pub(crate) fn note(&mut self) -> Vec<Note> {
        self.lanes.iter_mut().filter_map(Lane::note).collect()
    }

    /// The note was taken, for the shards in `own`; answers how many events were noted as published, and which shards are another
    /// relay's now: their lanes are gone.
    pub(crate) fn noted(&mut self, own: &[i64]) -> (u64, Vec<i64>) {
        let (mut events, mut lost) = (0, Vec::new());
        self.lanes.retain_mut(|lane| match lane.noting() {
            Some(_) if own.contains(&lane.shard()) => {
                events += lane.noted();
                true
            }
            Some(_) => {
                lost.push(lane.shard());
                false
            }
            None => true,
        });
        (events, lost)
    }
}
