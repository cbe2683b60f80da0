//! Header fields as bytes: the format's number, then each name and value with its length (four bytes, big-endian) before it.

use super::BoxError;

/// The first byte of what is stored, so that another format can come later. Never 0xFF: see `cipher`.
const FORMAT: u8 = 1;

pub(super) fn encode(headers: &[(String, Vec<u8>)]) -> Result<Vec<u8>, BoxError> {
    let mut bytes = vec![FORMAT];
    for (name, value) in headers {
        for part in [name.as_bytes(), value] {
            bytes.extend_from_slice(&u32::try_from(part.len())?.to_be_bytes());
            bytes.extend_from_slice(part);
        }
    }
    Ok(bytes)
}

pub(super) fn decode(bytes: &[u8]) -> Result<Vec<(String, Vec<u8>)>, BoxError> {
    let Some((&FORMAT, mut rest)) = bytes.split_first() else {
        return Err("the stored header fields have a format that this version does not know".into());
    };
    let mut headers = Vec::new();
    while !rest.is_empty() {
        let name = take(&mut rest)?.to_vec();
        headers.push((String::from_utf8(name)?, take(&mut rest)?.to_vec()));
    }
    Ok(headers)
}

/// The next part, cut off from `rest`.
fn take<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], BoxError> {
    let cut = || -> Option<(&'a [u8], &'a [u8])> {
        let (length, after) = rest.split_first_chunk::<4>()?;
        after.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)
    };
    let (part, after) = cut().ok_or("the stored header fields end too early")?;
    *rest = after;
    Ok(part)
}

/// A token of RFC 9110, section 5.6.2.
pub(super) fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// A field value of RFC 9110, section 5.5, without the outer white space that a recipient would take off.
pub(super) fn is_value(value: &[u8]) -> bool {
    value.iter().all(|byte| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn fields_come_back_as_they_were(
            headers in proptest::collection::vec(("[!-9A-~]{1,12}", proptest::collection::vec(any::<u8>(), 0..40)), 0..6),
        ) {
            let bytes = encode(&headers).unwrap();
            prop_assert_eq!(decode(&bytes).unwrap(), headers);
            for end in 0..bytes.len() {
                // Cut anywhere, it is refused or has fewer fields: nothing is made up.
                if let Ok(fewer) = decode(&bytes[..end]) {
                    prop_assert_eq!(&encode(&fewer).unwrap()[..], &bytes[..end]);
                }
            }
        }
    }

    #[test]
    fn a_length_beyond_the_end_is_refused() {
        assert!(decode(&[]).is_err());
        assert!(decode(&[2]).is_err());
        assert!(decode(&[FORMAT, 0xff, 0xff, 0xff, 0xff, b'x']).is_err());
        assert_eq!(decode(&[FORMAT]).unwrap(), []);
    }
}
