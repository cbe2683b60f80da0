//! One of a pair: the process, its network, and what it has said.

use std::time::{Duration, Instant};

use leastlock_testkit::process::Child;

use super::ground::Network;
use super::holder;

/// How often it is looked whether something was said.
const LOOK: Duration = Duration::from_millis(3);

/// A token, and when something was said of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) token: i64,
    /// Since the machine was started.
    pub(super) at: Duration,
}

/// A holder, as its parent sees it.
pub(super) struct Member {
    pub(super) child: Child,
    /// The way to its servers, if it can be cut.
    pub(super) network: Option<Network>,
    heard: usize,
    /// The last token that it was granted, that it has written with, and whose lease is over.
    pub(super) took: Option<Said>,
    pub(super) wrote: Option<Said>,
    pub(super) ended: Option<Said>,
    /// How often it was refused.
    pub(super) refused: u64,
    /// How often its clock stood still.
    pub(super) stood: u64,
}

impl Member {
    pub(super) fn new(child: Child, network: Option<Network>) -> Self {
        Self { child, network, heard: 0, took: None, wrote: None, ended: None, refused: 0, stood: 0 }
    }

    /// Takes in what it has said since.
    pub(super) fn listen(&mut self) {
        let lines = self.child.lines();
        for line in &lines[self.heard..] {
            self.hear(line);
        }
        self.heard = lines.len();
    }

    /// Waits until it has said what makes `condition` true; answers whether it has. Blocks its thread.
    pub(super) fn says(&mut self, condition: impl Fn(&Self) -> bool, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            self.listen();
            if condition(self) {
                return true;
            }
            if Instant::now() >= deadline || self.child.has_ended() {
                return false;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// The token that it has written with, if that lease is not over.
    pub(super) fn holds(&self) -> Option<i64> {
        let token = self.wrote?.token;
        self.ended.is_none_or(|ended| ended.token < token).then_some(token)
    }

    /// Whether the lease with this token is over.
    pub(super) fn has_ended(&self, token: i64) -> bool {
        self.ended.is_some_and(|ended| ended.token >= token)
    }

    fn hear(&mut self, line: &str) {
        let mut words = line.split(' ');
        let (what, token, at) = (words.next(), words.next(), words.next());
        let Some((token, at)) = token.zip(at).and_then(|(token, at)| token.parse().ok().zip(at.parse().ok())) else {
            return;
        };
        let said = Some(Said { token, at: Duration::from_nanos(at) });
        match what {
            Some(holder::TOOK) => self.took = said,
            Some(holder::WROTE) => self.wrote = said,
            Some(holder::ENDED) => self.ended = said,
            Some(holder::REFUSED) => self.refused += 1,
            Some(holder::STANDING) => self.stood += 1,
            _ => {}
        }
    }
}
