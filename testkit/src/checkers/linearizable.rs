//! Concurrent calls that could have happened one after the other, each at some moment between its call and its answer.
//!
//! The search is Wing and Gong's ("Testing and Verifying Concurrent Objects", 1993) with Lowe's memory of what was tried
//! ("Testing for linearizability", 2017): a set of calls that have happened, in a state, is looked at once. A call without an
//! answer may have happened at any moment after it, or not at all. It is exponential in how many overlap, so histories are to
//! be short: one key's, one item's.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;

use serde::{Deserialize, Serialize};

use super::Breach;

/// The most calls that a history may have.
pub const MAX_CALLS: usize = 128;

/// What the object does when it is called by one client at a time.
pub trait Model {
    /// Its state.
    type State: Clone + Eq + Hash;
    /// What it can be asked for.
    type Operation: Debug;
    /// What it answers.
    type Answer: Debug + PartialEq;

    /// What it answers in a state, and the state after that.
    fn apply(&self, state: &Self::State, operation: &Self::Operation) -> (Self::State, Self::Answer);
}

/// A call and what came of it. Times are of one monotonic clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call<O, A> {
    /// When it was made.
    pub called_ns: u64,
    /// When the answer came, and which; none came to what is unknown.
    pub answer: Option<(u64, A)>,
    /// What was asked for.
    pub operation: O,
}

/// There is an order of the calls, true to the times, in which `model` gives these answers, beginning with `state`.
///
/// # Errors
/// The calls, if there is none.
///
/// # Panics
/// With more than [`MAX_CALLS`] calls.
pub fn linearizable<M: Model>(
    model: &M,
    state: &M::State,
    history: &[Call<M::Operation, M::Answer>],
) -> Result<(), Breach> {
    assert!(history.len() <= MAX_CALLS, "{} calls are too many to search", history.len());
    let answered = history.iter().enumerate().filter(|(_, call)| call.answer.is_some());
    let all_answered: u128 = answered.map(|(place, _)| 1 << place).sum();
    // Depth first, on a stack of its own: what has happened, and the state it came to.
    let mut open: Vec<(u128, M::State)> = vec![(0, state.clone())];
    let mut tried: HashSet<(u128, M::State)> = HashSet::new();
    while let Some((happened, state)) = open.pop() {
        if happened & all_answered == all_answered {
            return Ok(());
        }
        // Whatever is next, it was called before any that has not happened yet was answered.
        let waiting = || history.iter().enumerate().filter(move |(place, _)| happened & (1 << place) == 0);
        let first_answer = waiting().filter_map(|(_, call)| call.answer.as_ref().map(|(at, _)| *at)).min();
        let may_be_next = waiting().filter(|(_, call)| first_answer.is_none_or(|answer| call.called_ns <= answer));
        for (place, call) in may_be_next {
            let (next, answer) = model.apply(&state, &call.operation);
            if call.answer.as_ref().is_some_and(|(_, told)| *told != answer) {
                continue;
            }
            let reached = (happened | 1 << place, next);
            if !tried.contains(&reached) {
                tried.insert(reached.clone());
                open.push(reached);
            }
        }
    }
    let what = format!("no order of these {} calls gives these answers", history.len());
    Err(Breach::new(what, history.iter().enumerate()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Units of an item: taken all or none, and looked at.
    struct Stock;

    #[derive(Debug, Clone, Copy)]
    enum Ask {
        Take(i64),
        Look,
    }

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Answer {
        Taken,
        SoldOut,
        Units(i64),
    }

    impl Model for Stock {
        type State = i64;
        type Operation = Ask;
        type Answer = Answer;

        fn apply(&self, units: &i64, ask: &Ask) -> (i64, Answer) {
            match *ask {
                Ask::Take(wanted) if wanted <= *units => (units - wanted, Answer::Taken),
                Ask::Take(_) => (*units, Answer::SoldOut),
                Ask::Look => (*units, Answer::Units(*units)),
            }
        }
    }

    fn call(called_ns: u64, answered_ns: u64, operation: Ask, answer: Answer) -> Call<Ask, Answer> {
        Call { called_ns, answer: Some((answered_ns, answer)), operation }
    }

    fn unknown(called_ns: u64, operation: Ask) -> Call<Ask, Answer> {
        Call { called_ns, answer: None, operation }
    }

    fn judge(history: &[Call<Ask, Answer>]) -> Result<(), Breach> {
        linearizable(&Stock, &5, history)
    }

    #[test]
    fn overlapping_calls_may_have_happened_in_either_order() {
        let history = [
            call(0, 10, Ask::Take(4), Answer::Taken),
            call(1, 3, Ask::Take(2), Answer::SoldOut),
            call(2, 20, Ask::Look, Answer::Units(5)),
            call(11, 12, Ask::Look, Answer::Units(1)),
        ];
        assert_eq!(judge(&history), Ok(()));
        assert_eq!(judge(&[]), Ok(()));
    }

    #[test]
    fn answer_that_came_before_the_call_decides() {
        let history = [call(0, 1, Ask::Take(4), Answer::Taken), call(2, 3, Ask::Look, Answer::Units(5))];
        let breach = judge(&history).expect_err("it looked at what was");
        assert!(breach.to_string().starts_with("no order of these 2 calls gives these answers\n  #0:"), "{breach}");
    }

    #[test]
    fn oversold_item_is_rejected() {
        assert!(judge(&[call(0, 9, Ask::Take(4), Answer::Taken), call(1, 8, Ask::Take(2), Answer::Taken)]).is_err());
    }

    #[test]
    fn unknown_call_may_have_happened_late_or_never() {
        for units in [5, 1] {
            let history = [unknown(0, Ask::Take(4)), call(50, 60, Ask::Look, Answer::Units(units))];
            assert_eq!(judge(&history), Ok(()), "{units}");
        }
        assert!(judge(&[call(0, 1, Ask::Look, Answer::Units(1)), unknown(2, Ask::Take(4))]).is_err());
    }

    #[test]
    fn many_calls_that_overlap_are_searched_in_time() {
        // All at once: of ten, the five whose turn came got a unit.
        let answer = |n: u64| if n.is_multiple_of(2) { Answer::Taken } else { Answer::SoldOut };
        let mut history: Vec<_> = (0..10).map(|n| call(n, 100 + n, Ask::Take(1), answer(n))).collect();
        history.extend((0..60).map(|n| call(200 + 2 * n, 201 + 2 * n, Ask::Look, Answer::Units(0))));
        assert_eq!(judge(&history), Ok(()));
        history.push(call(900, 901, Ask::Take(1), Answer::Taken));
        assert!(judge(&history).is_err());
    }
}
