//! Whether a batch is first tried in one statement.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The most batches that are sent the long way after failures in a row.
const LONGEST_PAUSE: u32 = 64;

/// The way of one statement without a transaction: cheap where every movement can be met, a wasted round trip where not. So
/// each failure in a row doubles the number of batches that do not try it, and a success ends the pause.
///
/// Committers share it without a lock: a count that is off by one costs a round trip, and nothing else.
#[derive(Debug)]
pub(super) struct ShortWay {
    is_allowed: bool,
    /// How many batches are still to go the long way.
    to_pass: AtomicU32,
    pause: AtomicU32,
}

impl ShortWay {
    pub(super) const fn new(is_allowed: bool) -> Self {
        Self { is_allowed, to_pass: AtomicU32::new(0), pause: AtomicU32::new(0) }
    }

    /// Whether this batch tries it.
    pub(super) fn is_taken(&self) -> bool {
        if !self.is_allowed {
            return false;
        }
        let to_pass = self.to_pass.load(Relaxed);
        if to_pass > 0 {
            self.to_pass.store(to_pass - 1, Relaxed);
        }
        to_pass == 0
    }

    /// Learns how it went.
    pub(super) fn led(&self, to_the_end: bool) {
        let pause = if to_the_end { 0 } else { (self.pause.load(Relaxed) * 2).clamp(1, LONGEST_PAUSE) };
        self.pause.store(pause, Relaxed);
        self.to_pass.store(pause, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_make_it_rarer_and_a_success_ends_that() {
        let way = ShortWay::new(true);
        let mut tried = Vec::new();
        for batch in 0..200 {
            if way.is_taken() {
                tried.push(batch);
                way.led(false);
            }
        }
        assert_eq!(tried, [0, 2, 5, 10, 19, 36, 69, 134, 199]);
        while !way.is_taken() {}
        way.led(true);
        assert!(way.is_taken() && way.is_taken());
        assert!(!ShortWay::new(false).is_taken());
    }
}
