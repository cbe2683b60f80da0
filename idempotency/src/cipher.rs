//! Answers that are encrypted before they are stored.
//!
//! The columns of the answer begin with a tag once a cipher is in use, so that a reader without it, or with another one, is
//! told so and does not take sealed bytes for an answer:
//!
//! | first bytes | what follows |
//! |---|---|
//! | anything but `0xFF` | the answer itself |
//! | `0xFF 0x00` | the answer itself, which happens to begin with `0xFF` |
//! | `0xFF 0x01` | the length of the cipher's name (one byte), the name, what the cipher made of the answer |

use std::fmt;
use std::sync::Arc;

use crate::error::Error;
use crate::key::Key;
use crate::response::{BoxError, ResponseParts};
use crate::setting::{SettingError, check_number};

/// No JSON text begins with it, and no header fields do, so rows of before there was a tag are read as they are.
const TAG: u8 = 0xff;
const PLAIN: u8 = 0;
const SEALED: u8 = 1;

/// Encrypts answers before they are stored, and decrypts them for a replay. Use an authenticated cipher (AEAD) with a nonce
/// of its own for each call, put before what it makes.
///
/// The status of an HTTP response, the key, its scope and the fingerprint are stored as they are.
///
/// # Contract
/// - [`open`](Self::open) gives back what [`seal`](Self::seal) was given, if name and associated data are those of then, and
///   fails if either differs. The associated data binds an answer to its scope, key and column: copied to another record it
///   does not open.
/// - [`name`](Self::name) changes whenever what was sealed before could not be opened any more. It is stored in the clear.
///
/// A cipher that opens several names can take the place of an older one without losing the answers stored by that.
pub trait Cipher: Send + Sync {
    /// The name of algorithm and key, 1 to 255 bytes: such as `chacha20-2026-11`.
    fn name(&self) -> &str;

    /// Whether this cipher opens what the cipher of that name sealed.
    fn opens(&self, name: &str) -> bool;

    /// Encrypts `plain` and authenticates `associated` with it.
    ///
    /// # Errors
    /// Nothing is stored then, and the unit rolls back.
    fn seal(&self, plain: &[u8], associated: &[u8]) -> Result<Vec<u8>, BoxError>;

    /// Decrypts what the cipher called `name` sealed.
    ///
    /// # Errors
    /// When it was not sealed with this associated data, or was changed.
    fn open(&self, name: &str, sealed: &[u8], associated: &[u8]) -> Result<Vec<u8>, BoxError>;
}

/// What stands between an answer and its columns.
#[derive(Clone, Default)]
pub(crate) struct Sealing(Option<Arc<dyn Cipher>>);

impl Sealing {
    pub(crate) fn with(cipher: Arc<dyn Cipher>) -> Self {
        Self(Some(cipher))
    }

    /// Whether the cipher's name fits into the tag.
    pub(crate) fn check(&self) -> Result<(), SettingError> {
        self.0.as_ref().map_or(Ok(()), |cipher| check_number("cipher", cipher.name().len(), 1, usize::from(u8::MAX)))
    }

    /// The columns as they are stored.
    pub(crate) fn seal(&self, key: &Key, parts: ResponseParts) -> Result<ResponseParts, Error> {
        let ResponseParts { status, headers, body } = parts;
        let headers = headers.map(|headers| self.seal_column(key, "response_headers", headers)).transpose()?;
        Ok(ResponseParts { status, headers, body: self.seal_column(key, "response_body", body)? })
    }

    /// The columns as they were before they were stored.
    pub(crate) fn open(&self, key: &Key, parts: ResponseParts) -> Result<ResponseParts, Error> {
        let ResponseParts { status, headers, body } = parts;
        let headers = headers.map(|headers| self.open_column(key, "response_headers", headers)).transpose()?;
        Ok(ResponseParts { status, headers, body: self.open_column(key, "response_body", body)? })
    }

    pub(crate) fn seal_column(&self, key: &Key, column: &str, plain: Vec<u8>) -> Result<Vec<u8>, Error> {
        let Some(cipher) = &self.0 else { return Ok(escaped(plain)) };
        let name = cipher.name().as_bytes();
        let length = u8::try_from(name.len()).ok().filter(|length| *length > 0);
        let length = length.ok_or_else(|| Error::Cipher { source: "a cipher's name has 1 to 255 bytes".into() })?;
        let sealed = cipher.seal(&plain, &associated(key, column)).map_err(|source| Error::Cipher { source })?;
        Ok([&[TAG, SEALED, length], name, &sealed].concat())
    }

    pub(crate) fn open_column(&self, key: &Key, column: &str, stored: Vec<u8>) -> Result<Vec<u8>, Error> {
        if stored.first() != Some(&TAG) {
            return Ok(stored);
        }
        let unreadable = |what: &str| Error::Deserialize { source: what.into() };
        let (name, sealed) = match stored[1..].split_first() {
            Some((&PLAIN, plain)) => return Ok(plain.to_vec()),
            Some((&SEALED, rest)) => rest
                .split_first()
                .and_then(|(length, rest)| rest.split_at_checked(usize::from(*length)))
                .ok_or_else(|| unreadable("the stored answer ends inside the name of its cipher"))?,
            _ => return Err(unreadable("the stored answer has a tag that this version does not know")),
        };
        let name = std::str::from_utf8(name).map_err(|source| Error::Deserialize { source: source.into() })?;
        let Some(cipher) = self.0.as_ref().filter(|cipher| cipher.opens(name)) else {
            return Err(Error::SealedByAnother { name: name.to_owned() });
        };
        cipher.open(name, sealed, &associated(key, column)).map_err(|source| Error::Cipher { source })
    }
}

/// Never a cipher's own `Debug`, which may show its key.
impl fmt::Debug for Sealing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Sealing").field(&self.0.as_ref().map(|cipher| cipher.name())).finish()
    }
}

fn escaped(plain: Vec<u8>) -> Vec<u8> {
    if plain.first() == Some(&TAG) { [&[TAG, PLAIN][..], &plain].concat() } else { plain }
}

/// Scope, key and column, each with its length before it, so that no two records have the same.
fn associated(key: &Key, column: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in ["leastlock-idempotency", key.scope().as_str(), key.as_str(), column] {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Scope;

    fn key() -> Key {
        Key::new(&Scope::of_operation("place-order").unwrap(), "k1").unwrap()
    }

    #[test]
    fn plain_answers_come_back_whatever_their_first_byte() {
        let plain = Sealing::default();
        for first in 0..=u8::MAX {
            for body in [vec![first], vec![first, PLAIN], vec![first, SEALED, 200]] {
                let parts = ResponseParts { body, ..ResponseParts::default() };
                let stored = plain.seal(&key(), parts.clone()).unwrap();
                assert_eq!(plain.open(&key(), stored).unwrap(), parts);
            }
        }
    }

    #[test]
    fn a_tag_without_its_rest_is_unreadable() {
        for body in [&[TAG][..], &[TAG, 7], &[TAG, SEALED], &[TAG, SEALED, 9, b'x'], &[TAG, SEALED, 1, 0xc3]] {
            let parts = ResponseParts { body: body.to_vec(), ..ResponseParts::default() };
            let opened = Sealing::default().open(&key(), parts);
            assert!(matches!(opened, Err(Error::Deserialize { .. })), "{body:?}: {opened:?}");
        }
    }
}
