//! Which blow is struck when, at which process, and for how long: a pure function of the seed.

use std::fmt;
use std::time::Duration;

use fastrand::Rng;

use crate::inject::Blow;
use crate::workload::{Choice, Role};

/// So long nothing happens at first: the processes have to be at work.
const QUIET: Duration = Duration::from_secs(2);
/// Between the beginnings of two injections.
const GAP_MS: std::ops::Range<u64> = 500..2_500;

/// One injection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Injection {
    /// Since the processes were started.
    pub(crate) at: Duration,
    pub(crate) blow: Blow,
    /// Which of all processes.
    pub(crate) target: usize,
    /// Whether it is rather for the one that had the last success, whichever that is then: most likely it holds what others want.
    pub(crate) is_for_the_latest: bool,
    pub(crate) lasts: Duration,
}

impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, lasts) = (self.at.as_secs_f64(), self.lasts.as_secs_f64());
        let target = if self.is_for_the_latest { "latest".to_owned() } else { format!("#{}", self.target) };
        write!(f, "{at:8.3} s  {target:6}  {} ({lasts:.3} s)", self.blow)
    }
}

/// How injections follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Several processes may meet one at the same time.
    Overlapping,
    /// One ends before the next begins, so that there is always somebody who is well.
    OneByOne,
}

/// The injections of a scenario. Each kind comes once before any comes again; a process meets one at a time.
pub(crate) fn draw(seed: u64, menu: &[Choice], roles: &[Role], time: Duration, pace: Pace) -> Vec<Injection> {
    let mut rng = Rng::with_seed(seed);
    let of: Vec<&str> = roles.iter().flat_map(|role| (0..role.count).map(|_| role.name)).collect();
    let mut busy_until = vec![Duration::ZERO; of.len()];
    let mut injections = Vec::new();
    let mut round: Vec<&Choice> = Vec::new();
    let mut at = QUIET;
    while at < time && !menu.is_empty() {
        if round.is_empty() {
            round = menu.iter().collect();
            rng.shuffle(&mut round);
        }
        let choice = round.pop().expect("it was filled");
        let lasts = Duration::from_millis(rng.u64(choice.lasts_ms.clone()));
        let fits = |target: &usize| choice.role.is_none_or(|role| of[*target] == role) && busy_until[*target] <= at;
        let targets: Vec<usize> = (0..of.len()).filter(fits).collect();
        if !targets.is_empty() {
            let target = targets[rng.usize(0..targets.len())];
            busy_until[target] = at + lasts;
            let is_for_the_latest = choice.role.is_none() && (pace == Pace::OneByOne || choice.blow.needs_a_holder());
            injections.push(Injection { at, blow: choice.blow, target, is_for_the_latest, lasts });
            if pace == Pace::OneByOne {
                at += lasts;
            }
        }
        at += Duration::from_millis(rng.u64(GAP_MS));
    }
    injections
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLES: [Role; 2] = [Role { name: "a", count: 2 }, Role { name: "b", count: 1 }];

    fn menu() -> Vec<Choice> {
        vec![
            Choice::any(Blow::Kill, 1..2),
            Choice::any(Blow::Stop, 500..3_000),
            Choice::of("b", Blow::StopAt("x"), 1_000..2_000),
        ]
    }

    #[test]
    fn one_seed_makes_the_same_injections_and_another_others() {
        let of = |seed| draw(seed, &menu(), &ROLES, Duration::from_mins(1), Pace::Overlapping);
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
    }

    #[test]
    fn a_process_meets_one_at_a_time_and_only_what_is_meant_for_it() {
        let drawn = draw(1, &menu(), &ROLES, Duration::from_mins(5), Pace::Overlapping);
        assert!(drawn.len() > 100, "{}", drawn.len());
        for (place, injection) in drawn.iter().enumerate() {
            assert!(injection.blow != Blow::StopAt("x") || injection.target == 2);
            let overlap =
                |later: &&Injection| later.target == injection.target && later.at < injection.at + injection.lasts;
            assert_eq!(drawn[place + 1..].iter().find(overlap), None);
        }
    }

    #[test]
    fn nothing_is_drawn_where_nothing_may_happen() {
        assert_eq!(draw(1, &[], &ROLES, Duration::from_mins(1), Pace::Overlapping), []);
    }

    #[test]
    fn one_by_one_there_is_never_a_second_one() {
        let drawn = draw(1, &menu(), &ROLES, Duration::from_mins(5), Pace::OneByOne);
        assert!(drawn.windows(2).all(|pair| pair[0].at + pair[0].lasts <= pair[1].at));
        assert!(drawn.len() > 50, "{}", drawn.len());
    }
}
