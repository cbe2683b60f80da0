//! Once nothing goes wrong any more, everything comes to its end within a bound.

use std::fmt::Debug;

use super::Breach;

/// Everything that was begun, with when it came to its end (in milliseconds of one clock), came to it within `limit_ms` of the last fault.
///
/// # Errors
/// What came to no end, or to a late one.
pub fn finished<T: Debug>(
    last_fault_ms: i64,
    limit_ms: i64,
    begun: impl IntoIterator<Item = (T, Option<i64>)>,
) -> Result<(), Breach> {
    let is_late = |ended: &Option<i64>| ended.is_none_or(|ended| ended > last_fault_ms + limit_ms);
    let late: Vec<_> = begun.into_iter().enumerate().filter(|(_, (_, ended))| is_late(ended)).collect();
    if late.is_empty() {
        return Ok(());
    }
    let what =
        format!("{} did not come to an end within {limit_ms} ms of the last fault (at {last_fault_ms} ms)", late.len());
    Err(Breach::new(what, late))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_before_the_last_fault_or_soon_after_passes() {
        assert_eq!(finished(100, 10, [("a", Some(7)), ("b", Some(110))]), Ok(()));
        assert_eq!(finished(100, 10, Vec::<(&str, _)>::new()), Ok(()));
    }

    #[test]
    fn what_ends_late_or_never_is_rejected() {
        let breach = finished(100, 10, [("a", Some(7)), ("b", Some(111)), ("c", None)]).expect_err("two are late");
        let message = breach.to_string();
        assert!(message.starts_with("2 did not come to an end within 10 ms"), "{message}");
        assert!(message.contains("#1: (\"b\", Some(111))") && message.contains("#2: (\"c\", None)"), "{message}");
    }
}
