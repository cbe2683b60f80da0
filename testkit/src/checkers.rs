//! What a history has to satisfy: one pure function per guarantee.
//!
//! | module | guarantee |
//! |---|---|
//! | [`order`] | each key's events arrive in order, without a gap, and whole |
//! | [`exactly_once`] | a key has at most one effect, and exactly one once a client saw success |
//! | [`oversell`] | no unit of stock is lost, made up or sold twice |
//! | [`fencing`] | nothing of an earlier holder is applied after a later one's |
//! | [`mutex`] | a lease history is one that a fenced mutex could have produced |
//! | [`bank`] | money is only moved, and no update is lost |
//! | [`replays`] | whoever asks under one key is told the same, and every key comes to an end |
//! | [`outbox`] | what was committed is published, and nothing else |
//! | [`single_writer`] | a key's records take effect once, in order, by the writer whose turn it is |
//! | [`linearizable`](mod@linearizable) | concurrent calls could have happened one after the other |
//! | [`liveness`] | once nothing goes wrong any more, everything comes to its end |

use std::fmt::Debug;

pub mod bank;
pub mod exactly_once;
pub mod fencing;
pub mod linearizable;
pub mod liveness;
pub mod mutex;
pub mod order;
pub mod outbox;
pub mod oversell;
pub mod replays;
pub mod single_writer;

/// How many of the offending events a message shows.
const SHOWN: usize = 20;

/// A history that breaks a guarantee, with the events that show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    message: String,
}

impl Breach {
    /// A breach of what `what` says, shown by `events`, each with its place in the history.
    pub fn new<T: Debug>(what: impl Into<String>, events: impl IntoIterator<Item = (usize, T)>) -> Self {
        let mut events = events.into_iter();
        let shown = events.by_ref().take(SHOWN).map(|(place, event)| format!("#{place}: {event:?}"));
        let mut lines: Vec<String> = [what.into()].into_iter().chain(shown).collect();
        match events.count() {
            0 => {}
            more => lines.push(format!("… and {more} more")),
        }
        Self { message: lines.join("\n  ") }
    }
}

impl std::fmt::Display for Breach {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Breach {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_shows_the_events_and_counts_the_rest() {
        let message = Breach::new("too many", (0..25).map(|n| (n, n * 10))).to_string();
        assert!(message.starts_with("too many\n  #0: 0\n  #1: 10\n"), "{message}");
        assert!(message.ends_with("#19: 190\n  … and 5 more"), "{message}");
    }
}
