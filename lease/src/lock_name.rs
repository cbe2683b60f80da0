//! The name of a lock: `kind:name[:id][:period]`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::error::Error;

/// The name of a lock, checked when it is made.
///
/// Two to four parts joined by `:`, each of one or more ASCII letters, digits, `.`, `_` and `-`, in all at most
/// [`MAX_BYTES`](Self::MAX_BYTES). So it can stand in every store as it is: as a key, as a path, as part of either. Names
/// that differ in case are different locks.
///
/// ```
/// use leastlock_lease::LockName;
///
/// let name = LockName::new("job:daily-settlement:2026-09-16")?;
/// assert_eq!(name.parts().collect::<Vec<_>>(), ["job", "daily-settlement", "2026-09-16"]);
/// assert!(LockName::new("settlement").is_err());
/// # Ok::<(), leastlock_lease::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockName(Arc<str>);

impl LockName {
    /// The longest name, in bytes.
    pub const MAX_BYTES: usize = 200;

    /// Checks a name.
    ///
    /// # Errors
    /// [`Error::LockName`] says which rule it breaks.
    pub fn new(name: impl AsRef<str>) -> Result<Self, Error> {
        let name = name.as_ref();
        match fault(name) {
            None => Ok(Self(name.into())),
            Some(fault) => Err(Error::LockName { given: name.into(), fault }),
        }
    }

    /// The name as it stands in the store.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The parts between the colons: kind, name and what else there is.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.split(':')
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl FromStr for LockName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::new(name)
    }
}

/// The first rule that `name` breaks.
fn fault(name: &str) -> Option<&'static str> {
    if name.len() > LockName::MAX_BYTES {
        return Some("it is longer than 200 bytes");
    }
    if !(2..=4).contains(&name.split(':').count()) {
        return Some("it needs two to four parts joined by `:`");
    }
    if name.split(':').any(str::is_empty) {
        return Some("a part is empty");
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b':');
    if !name.bytes().all(allowed) {
        return Some("only ASCII letters, digits, `.`, `_` and `-` are allowed in a part");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_two_to_four_parts_are_taken_as_written() {
        for name in ["a:b", "inventory:item:1234", "Job:daily_settlement:v1.2:2026-09-16"] {
            assert_eq!(LockName::new(name).unwrap().as_str(), name);
        }
        assert_ne!(LockName::new("stock:85123A").unwrap(), LockName::new("stock:85123a").unwrap());
    }

    #[test]
    fn everything_else_is_refused() {
        let long = format!("a:{}", "b".repeat(199));
        for name in ["", "a", ":", "a:", ":a", "a::b", "a:b:c:d:e", "a:b c", "a:b/c", "a:ü", "a:b\n", "{a}:b", &long] {
            assert!(LockName::new(name).is_err(), "{name:?}");
        }
        assert!(LockName::new(&long[..200]).is_ok());
    }
}
