//! The log of a server's transactions, in which a test makes a lock's nodes many without making them.

use std::path::Path;

/// Magic, version and database.
const HEADER_BYTES: usize = 16;
/// Checksum and length of a transaction.
const ENTRY_BYTES: usize = 12;
/// Client, number, transaction, time.
const BEFORE_TYPE_BYTES: usize = 28;
const CREATE: i32 = 1;
const CREATE_AND_TELL: i32 = 15;

/// The node at `path` is now one that was made when so many had been made beside it, as the killed server reads it.
pub(super) fn count_on_from(folder: &Path, path: &str, made: i32) {
    let mut changed = 0;
    for log in std::fs::read_dir(folder).unwrap() {
        let log = log.unwrap().path();
        if log.file_name().unwrap().to_str().unwrap().starts_with("log.") {
            let mut bytes = std::fs::read(&log).unwrap();
            changed += change(&mut bytes, path, made);
            std::fs::write(&log, bytes).unwrap();
        }
    }
    assert_eq!(changed, 1, "the creation of {path} in the logs");
}

fn change(bytes: &mut [u8], path: &str, made: i32) -> usize {
    let (mut at, mut changed) = (HEADER_BYTES, 0);
    while at + ENTRY_BYTES < bytes.len() {
        let length = usize::try_from(int(&bytes[at + 8..])).unwrap();
        // Behind the last one it is filled up with zeros.
        if length == 0 {
            break;
        }
        let transaction = at + ENTRY_BYTES..at + ENTRY_BYTES + length;
        if let Some(place) = count_of(&bytes[transaction.clone()], path) {
            bytes[transaction.start + place..][..4].copy_from_slice(&made.to_be_bytes());
            let checksum = u64::from(adler32(&bytes[transaction.clone()]));
            bytes[at..at + 8].copy_from_slice(&checksum.to_be_bytes());
            changed += 1;
        }
        // And its end mark.
        at = transaction.end + 1;
    }
    changed
}

/// Where the parent's count stands in the transaction, if that made the node: behind path, data, rights and kind.
fn count_of(transaction: &[u8], path: &str) -> Option<usize> {
    let kind = int(&transaction[BEFORE_TYPE_BYTES..]);
    if kind != CREATE && kind != CREATE_AND_TELL {
        return None;
    }
    let mut at = BEFORE_TYPE_BYTES + 4;
    let skip_text = |at: usize| at + 4 + usize::try_from(int(&transaction[at..]).max(0)).unwrap();
    if transaction.get(at + 4..skip_text(at))? != path.as_bytes() {
        return None;
    }
    at = skip_text(at);
    at = skip_text(at);
    let rights = int(&transaction[at..]);
    at += 4;
    for _ in 0..rights {
        // What is allowed, by which scheme, to whom.
        at += 4;
        at = skip_text(at);
        at = skip_text(at);
    }
    Some(at + 1)
}

fn int(bytes: &[u8]) -> i32 {
    i32::from_be_bytes(bytes[..4].try_into().unwrap())
}

/// RFC 1950.
fn adler32(bytes: &[u8]) -> u32 {
    let (low, high) = bytes.iter().fold((1, 0), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65_521;
        (low, (high + low) % 65_521)
    });
    high << 16 | low
}
