//! How soon it is looked again for events where none were: pure.

use std::time::Duration;

/// The shortest and the longest pause after a read that found nothing.
pub(super) const PAUSE: (Duration, Duration) = (Duration::from_micros(500), Duration::from_millis(250));

/// How long to wait after a read that found nothing, when something came last so long ago: a quarter of that. So an event that comes
/// after a gap is found within a quarter of the gap, however long that is, and an idle relay hardly ever asks.
pub(super) fn pause(since_last: Duration) -> Duration {
    (since_last / 4).clamp(PAUSE.0, PAUSE.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The moments at which it is looked, in a time in which nothing comes, and the pause after each.
    fn looks(pause: impl Fn(Duration, usize) -> Duration, until: Duration) -> Vec<(Duration, Duration)> {
        let (mut looks, mut now) = (Vec::new(), Duration::ZERO);
        while now < until {
            let pause = pause(now, looks.len() + 1);
            looks.push((now, pause));
            now += pause;
        }
        looks
    }

    /// The longest that an event waits to be found, as a part of the gap in front of it, where that is long enough to tell.
    fn longest_wait(looks: &[(Duration, Duration)]) -> f64 {
        let gaps = looks.iter().filter(|(gap, _)| *gap >= Duration::from_millis(2));
        gaps.map(|(gap, pause)| pause.as_secs_f64() / gap.as_secs_f64()).fold(0.0, f64::max)
    }

    #[test]
    fn pause_is_a_quarter_of_the_time_since_something_came() {
        assert_eq!(pause(Duration::ZERO), PAUSE.0);
        assert_eq!(pause(Duration::from_millis(8)), Duration::from_millis(2));
        assert_eq!(pause(Duration::from_hours(1)), PAUSE.1);
        let (second, product) = (Duration::from_secs(1), |since, _| pause(since));
        assert!(longest_wait(&looks(product, second)) < 0.251);
        // What it costs: the figures in the documentation of `Relay`.
        assert!(looks(product, second).len() <= 35);
        assert_eq!(looks(product, second * 101).len() - looks(product, second).len(), 400);
        // The double, which is twice as long each time: it is late by as much as the gap.
        let doubled = |_: Duration, nth: usize| (Duration::from_millis(1) * (1 << nth.min(9)) / 2).min(PAUSE.1);
        assert!(longest_wait(&looks(doubled, second / 5)) > 0.9, "the double must be seen to be late");
    }
}
