//! The header that carries a token.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::problem::Problem;
use crate::error::Error;
use crate::fence::Brought;
use crate::owner_mark::OwnerMark;
use crate::permit::Permit;
use crate::token::FencingToken;

/// The header that carries a fencing token: `Fencing-Token: 34;owner="…"`, with 32 hexadecimal digits that are a hash of the owner's
/// nonce.
///
/// Up to 15 digits it is an Integer Item of RFC 9651 with one parameter; a token may have up to 19.
pub const FENCING_TOKEN: HeaderName = HeaderName::from_static("fencing-token");

/// Sets `Fencing-Token` from a permit, in place of one that is there.
///
/// Call it for each request, also for each retry of one: that is when a lease that is over is noticed.
///
/// # Errors
/// [`Error::Lost`] if the lease is over; nothing is set then, and the request must not be sent.
pub fn bring(permit: &Permit, headers: &mut HeaderMap) -> Result<(), Error> {
    permit.held().standing()?;
    headers.insert(FENCING_TOKEN, value(Brought { token: permit.token(), owner: permit.owner_mark() }));
    Ok(())
}

fn value(brought: Brought) -> HeaderValue {
    let text = format!("{};owner=\"{}\"", brought.token, brought.owner);
    HeaderValue::try_from(text).expect("digits and quotes are visible ASCII")
}

/// The one token in `headers`.
pub(super) fn read(headers: &HeaderMap) -> Result<Brought, Problem> {
    let mut values = headers.get_all(FENCING_TOKEN).iter();
    let value = values.next().ok_or(Problem::TokenMissing)?;
    if values.next().is_some() {
        return Err(Problem::TokenRepeated);
    }
    value.to_str().ok().and_then(parse).ok_or(Problem::TokenMalformed)
}

fn parse(text: &str) -> Option<Brought> {
    let (token, owner) = text.trim_matches([' ', '\t']).split_once(';')?;
    // Not what `parse` takes beside digits: a sign.
    let are_digits = (1..=19).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_digit());
    let token = are_digits.then(|| token.parse().ok().and_then(FencingToken::new))??;
    let owner = owner.trim_start_matches(' ').strip_prefix("owner=\"")?.strip_suffix('"')?;
    Some(Brought { token, owner: OwnerMark::parse(owner)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: &str = "000102030405060708090a0b0c0d0e0f";

    fn read_all(values: &[&str]) -> Result<Brought, Problem> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(FENCING_TOKEN, HeaderValue::from_str(value).unwrap());
        }
        read(&headers)
    }

    #[test]
    fn a_token_comes_back_as_it_was_sent() {
        for token in [1, 34, i64::MAX] {
            let token = FencingToken::new(token).unwrap();
            let brought = Brought { token, owner: OwnerMark::parse(OWNER).unwrap() };
            assert_eq!(read_all(&[value(brought).to_str().unwrap()]), Ok(brought));
            assert_eq!(read_all(&[&format!(" {token}; owner=\"{OWNER}\" ")]), Ok(brought));
        }
    }

    #[test]
    fn no_token_two_tokens_and_half_a_token_are_told_apart() {
        let whole = format!("34;owner=\"{OWNER}\"");
        assert_eq!(read_all(&[]), Err(Problem::TokenMissing));
        assert_eq!(read_all(&[&whole, &whole]), Err(Problem::TokenRepeated));
        for half in [
            "",
            "34",
            "34;",
            "34;owner=",
            "34;owner=\"\"",
            &format!("0;owner=\"{OWNER}\""),
            &format!("+34;owner=\"{OWNER}\""),
            &format!("-34;owner=\"{OWNER}\""),
            &format!("9223372036854775808;owner=\"{OWNER}\""),
            &format!("34;owner={OWNER}"),
            &format!("34;owner=\"{OWNER}0\""),
            &format!("{whole}, {whole}"),
        ] {
            assert_eq!(read_all(&[half]), Err(Problem::TokenMalformed), "{half}");
        }
    }
}
