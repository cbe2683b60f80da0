//! What the output plugin `pgoutput` writes, as far as messages need it: pure, no I/O.
//!
//! Of PostgreSQL's manual, "Logical Replication Message Formats", version 1 of the protocol: a transaction is a
//! *Begin*, its changes and messages in the order of its log, and a *Commit*; transactions come in the order of their
//! commits. A *Begin* says where the commit's record is, so the *Commit* tells nothing new and is not asked for.

use crate::wal::lsn::Lsn;

/// Microseconds from the Unix epoch to 2000-01-01, from which PostgreSQL counts.
const POSTGRES_EPOCH_US: i64 = 946_684_800_000_000;

/// A row that the slot answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Row<'a> {
    /// A committed transaction begins.
    Begin {
        /// Where the record of its commit is.
        commit: Lsn,
        /// When it committed, in microseconds since the Unix epoch.
        committed_at_us: i64,
    },
    /// A message of the transaction that began last.
    Message {
        /// Where it is: no other message has the same place.
        at: Lsn,
        /// Whether it belongs to the transaction at all: others are in the log whatever becomes of their transaction.
        is_transactional: bool,
        /// What it says.
        content: &'a [u8],
    },
}

/// The row in `data`; `None` if it is neither of the two, or is cut.
pub(crate) fn parse(data: &[u8]) -> Option<Row<'_>> {
    let (&kind, rest) = data.split_first()?;
    match kind {
        b'B' => {
            let (commit, rest) = number(rest)?;
            let (committed_at, transaction) = number(rest)?;
            let committed_at_us = committed_at.cast_signed().checked_add(POSTGRES_EPOCH_US)?;
            (transaction.len() == 4).then_some(Row::Begin { commit: Lsn(commit), committed_at_us })
        }
        b'M' => {
            let (&flags, rest) = rest.split_first()?;
            let (at, rest) = number(rest)?;
            let prefix_ends = rest.iter().position(|&byte| byte == 0)?;
            let (length, content) = rest[prefix_ends + 1..].split_first_chunk::<4>()?;
            let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
            (content.len() == length).then_some(Row::Message { at: Lsn(at), is_transactional: flags & 1 == 1, content })
        }
        _ => None,
    }
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*number), rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // Written by PostgreSQL 15.
    const BEGIN: &[u8] =
        &[0x42, 0, 0, 0, 8, 0x55, 0xed, 0x09, 0xc0, 0, 3, 4, 0x73, 0xe5, 0xa1, 6, 0xe3, 0, 0x68, 0x8d, 0x4e];
    const MESSAGE: &[u8] = &[
        0x4d, 1, 0, 0, 0, 8, 0x55, 0xed, 0x08, 0xc0, b'w', b'a', b'l', b'_', b't', b'r', b'y', 0, 0, 0, 0, 3, 0, 0xff,
        1,
    ];

    #[test]
    fn rows_of_a_server_are_read() {
        let commit = Lsn::parse("8/55ED09C0").unwrap();
        assert_eq!(parse(BEGIN), Some(Row::Begin { commit, committed_at_us: 1_796_005_550_417_635 }));
        let at = Lsn::parse("8/55ED08C0").unwrap();
        assert_eq!(parse(MESSAGE), Some(Row::Message { at, is_transactional: true, content: &[0, 0xff, 1] }));
    }

    #[test]
    fn cut_and_other_rows_are_none() {
        for whole in [BEGIN, MESSAGE] {
            for length in 0..whole.len() {
                assert_eq!(parse(&whole[..length]), None, "{length} bytes");
            }
            assert_eq!(parse(&[whole, &[0]].concat()), None);
        }
        assert_eq!(parse(b"C\0"), None);
    }

    proptest! {
        #[test]
        fn whatever_the_bytes_reading_them_ends(data in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = parse(&data);
        }
    }
}
