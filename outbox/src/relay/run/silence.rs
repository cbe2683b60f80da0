//! A sink that answers nothing: said once it has lasted, and again now and then.

use std::time::{Duration, Instant};

/// How long nothing is answered before it is said.
const SAID_AFTER: Duration = Duration::from_secs(5);
/// The longest time until it is said again; before, each time is twice the last.
const SAID_EVERY: Duration = Duration::from_mins(10);

/// Since when nothing has been answered though events are in flight.
#[derive(Debug, Default)]
pub(super) struct Silence {
    since: Option<Instant>,
    /// When it is said next.
    say_at: Option<Instant>,
}

impl Silence {
    /// Something was answered, or forgotten.
    pub(super) fn ends(&mut self) {
        *self = Self::default();
    }

    /// How long it has lasted, if it is time to say so.
    pub(super) fn due(&mut self, in_flight: u64, now: Instant) -> Option<Duration> {
        if in_flight == 0 {
            self.ends();
            return None;
        }
        let since = *self.since.get_or_insert(now);
        let lasted = now - since;
        if now < *self.say_at.get_or_insert(since + SAID_AFTER) {
            return None;
        }
        self.say_at = Some(now + lasted.min(SAID_EVERY));
        Some(lasted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b8_sink_that_answers_nothing_is_told_of_with_growing_gaps() {
        let (mut silence, start) = (Silence::default(), Instant::now());
        let said = |silence: &mut Silence, in_flight, seconds| {
            silence.due(in_flight, start + Duration::from_secs(seconds)).map(|lasted| lasted.as_secs())
        };
        let all: Vec<u64> = (0..4_000).filter_map(|second| said(&mut silence, 3, second)).collect();
        assert_eq!(all, [5, 10, 20, 40, 80, 160, 320, 640, 1240, 1840, 2440, 3040, 3640]);
        // An answer ends it, and so does having nothing in flight.
        silence.ends();
        assert_eq!(said(&mut silence, 3, 4_000), None);
        assert_eq!(said(&mut silence, 0, 4_004), None);
        assert_eq!(said(&mut silence, 1, 4_006), None);
        assert_eq!(said(&mut silence, 1, 4_010), None);
        assert_eq!(said(&mut silence, 1, 4_011), Some(5));
    }
}
