//! How the provider behaves, by the card: as with the test cards of real ones.

/// How one call is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Answers,
    Declines,
    /// Charges, if the call is still valid, long after it came.
    Slow,
    /// Charges, and answers long after.
    SlowAfter,
    /// 500, and nothing is charged.
    FailsBefore,
    HangsUpBefore,
    HangsUpAfter,
}

/// The cards. A number behind a colon says how many calls of an order are met like that (one by default); the calls after
/// those are answered. A declined card is declined always.
pub(crate) const CARDS: [(&str, Manner); 7] = [
    ("tok_ok", Manner::Answers),
    ("tok_declined", Manner::Declines),
    ("tok_slow", Manner::Slow),
    ("tok_slow_after", Manner::SlowAfter),
    ("tok_error_before", Manner::FailsBefore),
    ("tok_hang_up_before", Manner::HangsUpBefore),
    ("tok_hang_up_after", Manner::HangsUpAfter),
];

/// How the call of this number, from 1, is met. An unknown card is declined.
pub(crate) fn manner(card: &str, number: i64) -> Manner {
    let (name, times) = card.split_once(':').unwrap_or((card, "1"));
    let known = CARDS.iter().find(|(known, _)| *known == name);
    match known.map_or(Manner::Declines, |(_, manner)| *manner) {
        Manner::Declines => Manner::Declines,
        fault if times.parse().is_ok_and(|times: i64| number <= times) => fault,
        _ => Manner::Answers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_ends_after_its_calls_and_a_decline_never() {
        assert_eq!(manner("tok_hang_up_after", 1), Manner::HangsUpAfter);
        assert_eq!(manner("tok_hang_up_after", 2), Manner::Answers);
        assert_eq!(manner("tok_slow:2", 2), Manner::Slow);
        assert_eq!(manner("tok_slow:2", 3), Manner::Answers);
        assert_eq!(manner("tok_declined", 9), Manner::Declines);
        assert_eq!(manner("tok_of_nobody", 1), Manner::Declines);
    }
}
