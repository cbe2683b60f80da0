//! The packets of a stream of bytes.

/// The length of a piece that is continued by the next.
const FULL: usize = 0xff_ffff;
/// What tells the meaning of a server's packet stands in its first bytes; a greeting's version is short.
const BEGINNING: usize = 512;

/// A message of either side, which may have come in several pieces.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Packet {
    /// Its bytes, or the first of them.
    pub(super) payload: Vec<u8>,
    /// How many there were.
    pub(super) length: usize,
}

/// Puts packets together from whatever the network delivers.
#[derive(Debug)]
pub(super) struct Packets {
    /// How many bytes of each are kept.
    limit: usize,
    header: Vec<u8>,
    /// How much of the present piece is still to come.
    left: usize,
    is_continued: bool,
    payload: Vec<u8>,
    length: usize,
}

impl Packets {
    pub(super) const fn whole() -> Self {
        Self::up_to(usize::MAX)
    }

    pub(super) const fn beginnings() -> Self {
        Self::up_to(BEGINNING)
    }

    const fn up_to(limit: usize) -> Self {
        Self { limit, header: Vec::new(), left: 0, is_continued: false, payload: Vec::new(), length: 0 }
    }

    /// The packet that ends in `bytes`, and what comes behind it. `None` if none ends there; all was taken in then.
    pub(super) fn next<'b>(&mut self, mut bytes: &'b [u8]) -> Option<(Packet, &'b [u8])> {
        loop {
            if self.header.len() < 4 {
                let (first, rest) = bytes.split_first()?;
                self.header.push(*first);
                bytes = rest;
                if let [low, middle, high, _sequence] = self.header[..] {
                    self.left = usize::from(low) | usize::from(middle) << 8 | usize::from(high) << 16;
                    self.is_continued = self.left == FULL;
                } else {
                    continue;
                }
            }
            let (here, rest) = bytes.split_at(self.left.min(bytes.len()));
            let kept = here.len().min(self.limit - self.payload.len());
            self.payload.extend_from_slice(&here[..kept]);
            self.length += here.len();
            self.left -= here.len();
            bytes = rest;
            if self.left > 0 {
                return None;
            }
            self.header.clear();
            if !self.is_continued {
                let payload = std::mem::take(&mut self.payload);
                return Some((Packet { payload, length: std::mem::take(&mut self.length) }, bytes));
            }
        }
    }
}
