//! An answer as it is stored, and as it is given again.

use bytes::Bytes;
use http::header::{CONNECTION, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use super::outcome::Reference;
use super::problem::Problem;
use crate::response::{HttpResponse, HttpResponseError};

/// The header that marks an answer given again: its value is `true`, and a first answer does not have it.
pub const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// What belongs to one connection and not to the answer (RFC 9110, 7.6.1), beside what `Connection` names itself. `Trailer`
/// announces what a stored answer cannot have.
const HOP_BY_HOP: [&str; 7] =
    ["connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"];

/// The longest `Location` that is told of an answer that is not kept. What stands for one has to fit into the least
/// `max_response_bytes`.
const MAX_LOCATION_BYTES: usize = 2048;

/// The response as it is stored: status, body, and all headers that do not belong to one connection, in order and with repeats.
///
/// For handlers in extract mode, which complete their unit with it; in replay mode the layer does it.
///
/// # Errors
/// [`HttpResponseError`] if its status is not a final one (1xx).
pub fn stored<B: AsRef<[u8]>>(response: &Response<B>) -> Result<HttpResponse, HttpResponseError> {
    stored_as(response.status(), response.headers(), response.body().as_ref())
}

pub(super) fn stored_as(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<HttpResponse, HttpResponseError> {
    HttpResponse::new(status.as_u16(), end_to_end(headers), body.to_vec())
}

/// The stored response, to be given again: byte for byte, with the mark [`IDEMPOTENCY_REPLAYED`].
///
/// # Errors
/// [`Problem::AnswerUnreadable`] if it is no HTTP response.
pub fn replayed<B: From<Bytes>>(stored: HttpResponse) -> Result<Response<B>, Problem> {
    let (status, headers, body) = stored.into_parts();
    let mut response = Response::new(B::from(Bytes::from(body)));
    *response.status_mut() = StatusCode::from_u16(status).map_err(|_| Problem::AnswerUnreadable)?;
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| Problem::AnswerUnreadable)?;
        let value = HeaderValue::from_maybe_shared(Bytes::from(value)).map_err(|_| Problem::AnswerUnreadable)?;
        response.headers_mut().append(name, value);
    }
    response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    Ok(response)
}

/// What stands for an answer that cannot be kept: the problem that every repeat is told.
pub(super) fn not_kept<B>(response: &Response<B>, docs: Option<&str>) -> Result<HttpResponse, HttpResponseError> {
    instead_of(response.status(), response.headers().get(LOCATION), docs)
}

/// The same for an answer that must not be kept: of its headers nothing, and the handler's own reference.
pub(super) fn unkept(
    status: StatusCode,
    reference: Option<&Reference>,
    docs: Option<&str>,
) -> Result<HttpResponse, HttpResponseError> {
    instead_of(status, reference.map(|Reference(location)| location), docs)
}

fn instead_of(
    status: StatusCode,
    location: Option<&HeaderValue>,
    docs: Option<&str>,
) -> Result<HttpResponse, HttpResponseError> {
    let mut instead: Response<Bytes> = Problem::AnswerNotKept { status }.response_documented(docs);
    if let Some(location) = location.filter(|location| location.len() <= MAX_LOCATION_BYTES) {
        instead.headers_mut().insert(LOCATION, location.clone());
    }
    stored(&instead)
}

/// Names and values in the order in which the server writes them, repeats of a name included. A mark of ours that an answer
/// carries already, as that of a service behind this one can, is not stored: this handler did run.
fn end_to_end(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    let named: Vec<String> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    let stays = |name: &HeaderName| {
        let name = name.as_str();
        !HOP_BY_HOP.contains(&name) && name != IDEMPOTENCY_REPLAYED.as_str() && !named.iter().any(|named| named == name)
    };
    let kept = headers.iter().filter(|(name, _)| stays(name));
    kept.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(headers: &[(&'static str, &'static str)]) -> Response<&'static [u8]> {
        let mut response = Response::new(&b"\xff"[..]);
        *response.status_mut() = StatusCode::CREATED;
        for (name, value) in headers {
            response.headers_mut().append(*name, HeaderValue::from_static(value));
        }
        response
    }

    fn names(stored: &HttpResponse) -> Vec<&str> {
        stored.headers().iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn headers_keep_their_order_and_repeats_and_those_of_the_connection_go() {
        let headers = [
            ("x-b", "1"),
            ("connection", "close, X-Named"),
            ("set-cookie", "b"),
            ("x-named", "gone"),
            ("transfer-encoding", "chunked"),
            ("a-first", ""),
            ("set-cookie", "a"),
            ("keep-alive", "timeout=5"),
            ("idempotency-replayed", "true"),
        ];
        let stored = stored(&response(&headers)).unwrap();
        assert_eq!(names(&stored), ["x-b", "set-cookie", "set-cookie", "a-first"]);
        let replayed: Response<Bytes> = replayed(stored).unwrap();
        assert_eq!((replayed.status().as_u16(), &replayed.body()[..]), (201, &b"\xff"[..]));
        let cookies: Vec<_> = replayed.headers().get_all("set-cookie").iter().collect();
        assert_eq!(cookies, ["b", "a"]);
        assert_eq!(replayed.headers().keys().last().unwrap(), IDEMPOTENCY_REPLAYED);
    }

    #[test]
    fn an_answer_that_is_not_kept_leaves_its_status_and_location() {
        let stored = not_kept(&response(&[("location", "/orders/1"), ("x-more", "1")]), None).unwrap();
        assert_eq!(stored.status(), 410);
        assert_eq!(names(&stored), ["content-type", "content-language", "location"]);
        let body: serde_json::Value = serde_json::from_slice(stored.body()).unwrap();
        assert_eq!(body["answer_status"], 201);
    }
}
