//! What becomes of a record that its handler has failed for good.

use std::fmt;

/// What happens to a record when its handler has failed for good: after the last attempt, or at once if trying again is pointless.
///
/// While it is tried, and while it is brought to its topic, its lane waits and the others go on. Neither outlives the ownership of
/// the partition: what a revocation or a shutdown interrupts is left to the next owner, whose attempts count from zero.
///
/// | policy | the record | later records of its key |
/// |---|---|---|
/// | [`Stop`](Self::Stop) | stays the first of its key | wait for the next worker |
/// | [`Skip`](Self::Skip) | is finished without an effect; logged and counted | go on |
/// | [`DeadLetter`](Self::DeadLetter) | is copied to a topic, then finished | go on |
/// | [`ParkKey`](Self::ParkKey) | is copied to a topic, then finished, and its key is parked | follow it there, in order, until somebody releases the key |
///
/// A record counts as finished only once the broker has acknowledged the copy. Copying lies outside of the database's transaction, so it
/// happens *at least once*: after a crash in between, the topic may hold two copies, which name the same original place. What the handler
/// said goes along, into a header, and for parked keys into a table as well: at most 1,000 characters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFailure {
    /// The worker stops with [`Error::HandlerFailed`](crate::Error::HandlerFailed), which names the record. Nothing is skipped.
    #[default]
    Stop,
    /// The record is given up.
    Skip,
    /// The record goes to this topic, with [headers](crate::dead_letter::Origin) that say where it came from and why.
    DeadLetter(String),
    /// The record goes to this topic and so does whatever follows it with the same key, until an operator [releases](crate::Parked) it.
    /// Then the copies are handled in order, before anything newer of the key. A record without a key is parked alone. Needs the effect
    /// in the database, and a topic that deletes nothing for as long as records may be parked in it (`cleanup.policy=delete`, a long
    /// `retention.ms`): the records themselves are only there. With [`Ordering::Unordered`](crate::Ordering::Unordered) every record is parked
    /// alone, and with [`Ordering::Partition`](crate::Ordering::Partition) the records of other keys go on. A partition has room for 10,000 parked
    /// keys; then the worker stops.
    ParkKey(String),
}

impl OnFailure {
    /// [`DeadLetter`](Self::DeadLetter), from any text.
    #[must_use]
    pub fn dead_letter(topic: impl Into<String>) -> Self {
        Self::DeadLetter(topic.into())
    }

    /// [`ParkKey`](Self::ParkKey), from any text.
    #[must_use]
    pub fn park_key(topic: impl Into<String>) -> Self {
        Self::ParkKey(topic.into())
    }

    #[cfg(feature = "kafka")]
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Skip => "skip",
            Self::DeadLetter(_) => "dead letter",
            Self::ParkKey(_) => "park key",
        }
    }

    /// The topic that it writes to.
    #[must_use]
    pub fn topic(&self) -> Option<&str> {
        match self {
            Self::Stop | Self::Skip => None,
            Self::DeadLetter(topic) | Self::ParkKey(topic) => Some(topic),
        }
    }
}

/// Why a record is given up, or not handled now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// The handler has failed as often as it may be tried.
    Exhausted,
    /// The handler said that every further attempt would meet the same.
    Permanent,
    /// The process has died again and again while it handled the record.
    Poison,
    /// The parking topic does not hold the copy any more.
    Lost,
    /// An earlier record of its key is parked.
    Follows,
}

impl Cause {
    /// As headers and tables have it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exhausted => "exhausted",
            Self::Permanent => "permanent",
            Self::Poison => "poison",
            Self::Lost => "lost",
            Self::Follows => "follows",
        }
    }

    /// Reads what [`as_str`](Self::as_str) has written.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let all = [Self::Exhausted, Self::Permanent, Self::Poison, Self::Lost, Self::Follows];
        all.into_iter().find(|cause| cause.as_str() == name)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error and the errors behind it in one text, of as much as every engine and every topic has room for.
#[cfg(feature = "kafka")]
pub(crate) fn told(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut behind = error.source();
    while let Some(error) = behind {
        text.push_str(": ");
        text.push_str(&error.to_string());
        behind = error.source();
    }
    bounded(&text)
}

pub(crate) fn bounded(text: &str) -> String {
    const MAX_CHARS: usize = 1_000;
    text.char_indices().nth(MAX_CHARS).map_or_else(|| text.to_owned(), |(end, _)| text[..end].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_read_as_it_is_written() {
        for cause in [Cause::Exhausted, Cause::Permanent, Cause::Poison, Cause::Lost, Cause::Follows] {
            assert_eq!(Cause::parse(cause.as_str()), Some(cause));
        }
        assert_eq!(Cause::parse("bored"), None);
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(bounded(&"ä".repeat(1_200)).chars().count(), 1_000);
        assert_eq!(bounded("short"), "short");
    }
}
