//! The bounds of settings.

use std::fmt;
use std::time::Duration;

/// The least of most settings that are a time.
pub(crate) const MILLISECOND: Duration = Duration::from_millis(1);

/// The most of settings that are a size: what the engines' columns and messages hold by default (MariaDB's `max_allowed_packet`).
pub(crate) const MAX_BYTES: usize = 16 * 1024 * 1024;

pub(crate) fn check(
    setting: &'static str,
    value: Duration,
    least: Duration,
    most: Duration,
) -> Result<(), SettingError> {
    let fits = (least..=most).contains(&value);
    if fits { Ok(()) } else { Err(SettingError { setting, least: Bound::Time(least), most: Bound::Time(most) }) }
}

pub(crate) fn check_number(setting: &'static str, value: usize, least: usize, most: usize) -> Result<(), SettingError> {
    let fits = (least..=most).contains(&value);
    if fits { Ok(()) } else { Err(SettingError { setting, least: Bound::Number(least), most: Bound::Number(most) }) }
}

/// A setting that makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{setting} must be at least {least} and at most {most}")]
#[non_exhaustive]
pub struct SettingError {
    /// Which one.
    pub setting: &'static str,
    /// Its lower bound.
    pub least: Bound,
    /// Its upper bound.
    pub most: Bound,
}

/// The bound of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bound {
    /// Of a time.
    Time(Duration),
    /// Of a number: of steps, of bytes, of attempts.
    Number(usize),
}

impl fmt::Display for Bound {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(time) => write!(formatter, "{time:?}"),
            Self::Number(number) => write!(formatter, "{number}"),
        }
    }
}
