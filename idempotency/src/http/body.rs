//! Bodies that are in memory, up to a limit.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

/// A body of which the beginning, or all of it, is in memory; the rest comes from a body `B`.
///
/// The layer hands requests and responses on in it: requests whose body it has hashed, answers that it has stored, and
/// all others as they are.
pub struct Buffered<B> {
    ahead: Bytes,
    trailers: Option<HeaderMap>,
    rest: Option<Pin<Box<B>>>,
}

impl<B> Buffered<B> {
    /// All of it.
    pub(super) fn whole(bytes: Bytes, trailers: Option<HeaderMap>) -> Self {
        Self { ahead: bytes, trailers, rest: None }
    }

    /// None of it.
    pub(super) fn passed(body: B) -> Self {
        Self { ahead: Bytes::new(), trailers: None, rest: Some(Box::pin(body)) }
    }
}

impl<B> From<Bytes> for Buffered<B> {
    fn from(bytes: Bytes) -> Self {
        Self::whole(bytes, None)
    }
}

impl<B: Body<Data = Bytes>> Body for Buffered<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if !self.ahead.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.ahead)))));
        }
        match &mut self.rest {
            Some(rest) => rest.as_mut().poll_frame(cx),
            None => Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ahead.is_empty() && self.trailers.is_none() && self.rest.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let ahead = self.ahead.len() as u64;
        let Some(rest) = &self.rest else { return SizeHint::with_exact(ahead) };
        let rest = rest.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(ahead));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(ahead));
        }
        hint
    }
}

impl<B> fmt::Debug for Buffered<B> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ahead, rest, .. } = self;
        formatter.debug_struct("Buffered").field("ahead", &ahead.len()).field("whole", &rest.is_none()).finish()
    }
}

/// What came of reading a body into memory.
#[derive(Debug)]
pub(super) enum Gathered<B> {
    Whole {
        bytes: Bytes,
        trailers: Option<HeaderMap>,
    },
    /// It is larger than the limit; what was read of it is ahead.
    Larger(Buffered<B>),
}

/// The body ended with an error. What the error says is for nobody here: it is never given to a client.
#[derive(Debug)]
pub(super) struct BrokeOff;

/// Reads `body` until it ends or has more than `limit` bytes.
pub(super) async fn gather<B: Body<Data = Bytes>>(body: B, limit: usize) -> Result<Gathered<B>, BrokeOff> {
    let mut body = Box::pin(body);
    let (mut first, mut more, mut trailers) = (Bytes::new(), BytesMut::new(), None);
    while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        match frame.map_err(|_| BrokeOff)?.into_data() {
            // The usual body comes in one piece, and is not copied.
            Ok(data) if first.is_empty() && more.is_empty() => first = data,
            Ok(data) => {
                if more.is_empty() {
                    more.extend_from_slice(&std::mem::take(&mut first));
                }
                more.extend_from_slice(&data);
            }
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
        if first.len() + more.len() > limit {
            let ahead = if more.is_empty() { first } else { more.freeze() };
            return Ok(Gathered::Larger(Buffered { ahead, trailers: None, rest: Some(body) }));
        }
    }
    let bytes = if more.is_empty() { first } else { more.freeze() };
    Ok(Gathered::Whole { bytes, trailers })
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;

    use super::*;

    /// A body in pieces.
    struct Pieces(VecDeque<Frame<Bytes>>);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.0.pop_front().map(Ok))
        }
    }

    fn pieces(data: &[&'static str], trailers: Option<HeaderMap>) -> Pieces {
        let data = data.iter().map(|piece| Frame::data(Bytes::from_static(piece.as_bytes())));
        Pieces(data.chain(trailers.map(Frame::trailers)).collect())
    }

    async fn read(body: Buffered<Pieces>) -> (Vec<u8>, Option<HeaderMap>) {
        match gather(body, usize::MAX).await.unwrap() {
            Gathered::Whole { bytes, trailers } => (bytes.to_vec(), trailers),
            Gathered::Larger(_) => panic!("nothing is larger"),
        }
    }

    #[tokio::test]
    async fn a_body_up_to_the_limit_is_whole_and_one_beyond_loses_nothing() {
        let trailers = HeaderMap::from_iter([(http::header::ETAG, http::HeaderValue::from_static("\"e\""))]);
        for data in [&["abcd"][..], &["ab", "", "cd"], &["", "a", "b", "c", "d"]] {
            let Gathered::Whole { bytes, trailers: found } =
                gather(pieces(data, Some(trailers.clone())), 4).await.unwrap()
            else {
                panic!("4 bytes are within 4")
            };
            assert_eq!((&bytes[..], found.as_ref()), (&b"abcd"[..], Some(&trailers)));
            let Gathered::Larger(body) = gather(pieces(data, Some(trailers.clone())), 3).await.unwrap() else {
                panic!("4 bytes are beyond 3")
            };
            assert_eq!(read(body).await, (b"abcd".to_vec(), Some(trailers.clone())));
        }
    }

    #[tokio::test]
    async fn an_empty_body_has_ended_and_a_whole_one_knows_its_size() {
        let empty = Buffered::<Pieces>::from(Bytes::new());
        assert!(empty.is_end_stream() && empty.size_hint().exact() == Some(0));
        let whole = Buffered::<Pieces>::whole(Bytes::from_static(b"abc"), None);
        assert!(!whole.is_end_stream() && whole.size_hint().exact() == Some(3));
        let passed = Buffered::passed(pieces(&["a", "b"], None));
        assert_eq!(passed.size_hint().exact(), None);
        assert_eq!(read(passed).await.0, b"ab");
    }
}
