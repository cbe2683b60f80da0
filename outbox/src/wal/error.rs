//! What can be wrong with a slot.

use crate::event::EventId;
use crate::wal::lsn::Lsn;

/// Why events cannot be appended to the write-ahead log, or read from it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WalError {
    /// The server does not write what logical decoding needs.
    #[error("wal_level is {found:?}; set it to logical and restart the server")]
    WalLevel {
        /// The setting.
        found: String,
    },
    /// Every replication slot of the server is taken.
    #[error("all {limit} replication slots are taken; drop one that nobody reads, or raise max_replication_slots")]
    NoSlotLeft {
        /// The setting `max_replication_slots`.
        limit: i64,
    },
    /// No slot keeps events of this outbox, so none may be appended: it would be lost.
    #[error("this database has no replication slot {slot:?} that can be read; run WalOutbox::setup")]
    Missing {
        /// Its name.
        slot: String,
    },
    /// Somebody else's slot has this name.
    #[error(
        "the replication slot {slot:?} (plugin {plugin:?}) is another database's or another plugin's; use another name"
    )]
    Foreign {
        /// Its name.
        slot: String,
        /// Its output plugin; empty for a physical slot.
        plugin: String,
    },
    /// The server has removed log that the slot still needed. Committed events that were not published are lost.
    #[error(
        "the replication slot {slot:?} was invalidated ({reason}): committed events that were not published are lost; find \
         out which, then teardown and setup"
    )]
    Lost {
        /// Its name.
        slot: String,
        /// What the server says of it.
        reason: String,
    },
    /// The publication that the plugin looks up was dropped while the slot was in use. Making it again does not help:
    /// the slot looks it up as of the time of each change.
    #[error(
        "the publication {publication:?} was dropped while its slot was in use; teardown and setup, which loses what is unread"
    )]
    Publication {
        /// Its name.
        publication: String,
    },
    /// Another session reads the slot.
    #[error("another session reads the replication slot {slot:?}")]
    Busy {
        /// Its name.
        slot: String,
    },
    /// The session with the lock is not on the server that is being read from.
    #[error("the relay's connections end at two servers, or their sessions are shared (a pooler in transaction mode)")]
    OtherServer,
    /// A message of the outbox's prefix is no event. Nothing behind it is published.
    #[error("the message at {at} is no event: {reason}; see WalOutbox::skipping")]
    Malformed {
        /// Where it is.
        at: Lsn,
        /// What is wrong with it.
        reason: String,
    },
    /// An event was to be parked, and there is no table to park it in. Nothing behind it is published.
    #[error("the event {event} cannot be sent ({reason}), and without a table there is nowhere to park it")]
    NoParking {
        /// Its id.
        event: EventId,
        /// Why it cannot be sent.
        reason: String,
    },
    /// The event is larger than a message can be.
    #[error("an event of four gigabytes fits into no message")]
    TooLarge,
    /// A name that cannot be a slot's.
    #[error(
        "{name:?} is no name for a replication slot: 1 to 63 lower-case letters, digits and underscores, not a digit first"
    )]
    Name {
        /// The name.
        name: String,
    },
}

impl WalError {
    /// Whether trying again can help.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::OtherServer)
    }
}
