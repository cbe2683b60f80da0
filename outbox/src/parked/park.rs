//! What a relay writes of events that it does not send.

use crate::parked::queue::Queue;

/// An event to park, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Park {
    /// Its number in its shard.
    pub id: i64,
    /// The queue that it is to stand in.
    pub queue: Queue,
    /// Why it is parked.
    pub cause: Cause,
}

/// Why an event is parked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The sink refused it for good; its key is blocked from here on.
    Refused {
        /// What the sink said.
        reason: String,
    },
    /// The sink refused it for good, and it blocks nothing: it has no key, or its topic's policy says so.
    Alone {
        /// What the sink said.
        reason: String,
    },
    /// An earlier event of its key is parked.
    Behind,
}

impl Cause {
    /// Whether the sink itself refused the event.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        !matches!(self, Self::Behind)
    }

    /// Whether later events of its key are to be parked behind it.
    #[must_use]
    pub fn blocks(&self) -> bool {
        !matches!(self, Self::Alone { .. })
    }

    /// In words, for operators.
    #[must_use]
    pub fn reason(&self) -> &str {
        match self {
            Self::Refused { reason } | Self::Alone { reason } => reason,
            Self::Behind => "an earlier event of its key is parked",
        }
    }
}

/// What is kept of what a sink said: as much as every engine has room for.
pub(crate) fn bounded(reason: &str) -> String {
    const MAX_CHARS: usize = 1_000;
    match reason.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => reason[..end].to_owned(),
        None => reason.to_owned(),
    }
}
