//! The names of nodes, their order, and what is written in them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use zookeeper_client::Stat;

use crate::store::Holder;
use crate::token::{FencingToken, OwnerHash, OwnerNonce};

/// A claim's node: `{nonce}-{sequence}`, the sequence appended by the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) name: String,
    sequence: i64,
}

impl Node {
    /// `None` for a node that is no claim.
    pub(super) fn parse(name: String) -> Option<Self> {
        let (nonce, sequence) = name.split_once('-')?;
        let is_nonce = nonce.len() == 32 && nonce.bytes().all(|byte| byte.is_ascii_hexdigit());
        let sequence = sequence.parse().ok().filter(|_| is_nonce)?;
        Some(Self { name, sequence })
    }

    pub(super) fn nonce(&self) -> Option<OwnerNonce> {
        let nonce = u128::from_str_radix(self.name.split('-').next()?, 16).ok()?;
        Some(OwnerNonce::from_bytes(nonce.to_be_bytes()))
    }

    pub(super) fn is_of(&self, nonce: OwnerNonce) -> bool {
        self.name.starts_with(&prefix(nonce))
    }

    /// Whether this was made before `other`.
    pub(super) fn is_before(&self, other: &Self) -> bool {
        self.sequence < other.sequence
    }

    /// Whether its number says nothing about the order any more. The server counts with 32 bits: after 2^31 - 1 comes a number
    /// below zero, or the same one again. (One that counts with 64 bits goes on.)
    pub(super) fn is_beyond_counting(&self) -> bool {
        self.sequence < 0 || self.sequence == i64::from(i32::MAX)
    }
}

/// The claims of a lock that are there.
#[derive(Debug, Default)]
pub(super) struct Queue(Vec<Node>);

impl Queue {
    pub(super) fn new(children: Vec<String>) -> Self {
        Self(children.into_iter().filter_map(Node::parse).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The owner's.
    pub(super) fn oldest(&self) -> Option<&Node> {
        self.0.iter().reduce(|oldest, node| if node.is_before(oldest) { node } else { oldest })
    }

    /// The latest of those before `node`.
    pub(super) fn predecessor(&self, node: &Node) -> Option<&Node> {
        let before = self.0.iter().filter(|other| other.is_before(node));
        before.reduce(|latest, node| if latest.is_before(node) { node } else { latest })
    }

    /// Those up to `node`, and itself.
    pub(super) fn until(&self, node: &Node) -> impl Iterator<Item = &Node> {
        self.0.iter().filter(move |other| !node.is_before(other))
    }

    /// Without the nodes of this nonce but for one.
    pub(super) fn keep_only(&mut self, nonce: OwnerNonce, own: &Node) {
        self.0.retain(|node| node == own || !node.is_of(nonce));
    }

    pub(super) fn of(&self, nonce: OwnerNonce) -> impl Iterator<Item = &Node> {
        self.0.iter().filter(move |node| node.is_of(nonce))
    }
}

/// What the path of a claim's node begins with.
pub(super) fn prefix(nonce: OwnerNonce) -> String {
    format!("{}-", hex(nonce))
}

pub(super) fn hex(nonce: OwnerNonce) -> String {
    format!("{:032x}", u128::from_be_bytes(*nonce.as_bytes()))
}

/// What a claim writes in its node: how long its session lasts, and for which job. Only shown.
pub(super) fn claim_data(session_timeout: Duration, job: Option<&str>) -> String {
    format!("{} {}", session_timeout.as_millis(), job.unwrap_or_default())
}

/// What a release writes in the lock's node: who, and its token.
pub(super) fn release_data(nonce: OwnerNonce, token: i64) -> String {
    format!("{} {token}", hex(nonce))
}

/// Whether this nonce has released last.
pub(super) fn is_spent(released: &[u8], nonce: OwnerNonce) -> bool {
    released.strip_prefix(hex(nonce).as_bytes()).is_some_and(|rest| rest.starts_with(b" "))
}

/// The owner, as others are shown it. When it came to hold the lock is no event that is written down: at its claim, or when
/// the one before it released.
pub(super) fn holder(owner: &Node, data: &[u8], stat: &Stat, released_ms: i64) -> Holder {
    let nonce = owner.name.split('-').next().and_then(|hex| u128::from_str_radix(hex, 16).ok()).unwrap_or_default();
    let text = std::str::from_utf8(data).unwrap_or_default();
    let (session_ms, job) = text.split_once(' ').unwrap_or((text, ""));
    // Its session goes on for as long as its process lives.
    let remaining = Duration::from_millis(session_ms.parse().unwrap_or(0));
    shown(OwnerHash::of(&nonce.to_be_bytes()), stat.czxid, stat.ctime.max(released_ms), remaining, Some(job))
}

pub(super) fn shown(owner: OwnerHash, token: i64, since_ms: i64, remaining: Duration, job: Option<&str>) -> Holder {
    let age = Duration::from_millis(unix_ms().saturating_sub(u64::try_from(since_ms).unwrap_or(0)));
    let mut holder = Holder::new(owner, age, remaining);
    holder.token = FencingToken::new(token);
    holder.job = job.filter(|job| !job.is_empty()).map(Into::into);
    holder
}

/// Who has released last, or has taken the lock away.
pub(super) fn last(released: &[u8], released_ms: i64) -> Option<Holder> {
    let (owner, token) = std::str::from_utf8(released).ok()?.split_once(' ')?;
    let owner = OwnerHash::of(&u128::from_str_radix(owner, 16).ok()?.to_be_bytes());
    let since = Duration::from_millis(unix_ms().saturating_sub(u64::try_from(released_ms).unwrap_or(0)));
    let mut holder = Holder::new(owner, since, Duration::ZERO);
    holder.token = token.parse().ok().and_then(FencingToken::new);
    Some(holder)
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(sequence: i64) -> Node {
        // As the server formats it.
        Node::parse(format!("{:032x}-{sequence:010}", 7)).expect("a claim")
    }

    #[test]
    fn a_number_beyond_the_servers_counter_is_no_order() {
        let (last, below) = (i64::from(i32::MAX), i64::from(i32::MIN));
        for sequence in [last, below, below + 1, -1] {
            assert!(node(sequence).is_beyond_counting(), "{sequence}");
        }
        // The last one is a server that counts with 64 bits.
        for sequence in [0, 1, last - 1, last + 1] {
            assert!(!node(sequence).is_beyond_counting(), "{sequence}");
        }
    }

    #[test]
    fn the_queue_is_in_the_order_of_its_numbers_and_not_of_its_names() {
        let names = |sequences: &[i64]| sequences.iter().map(|sequence| node(*sequence).name).collect::<Vec<_>>();
        let ten_digits = i64::from(i32::MAX) - 1;
        let queue = Queue::new(names(&[10, ten_digits + 2, 9, ten_digits]));
        assert_eq!(queue.oldest(), Some(&node(9)));
        assert_eq!(queue.predecessor(&node(9)), None);
        assert_eq!(queue.predecessor(&node(10)), Some(&node(9)));
        assert_eq!(queue.predecessor(&node(ten_digits + 2)), Some(&node(ten_digits)));
        assert_eq!(queue.of(OwnerNonce::random().unwrap()).count(), 0);
    }

    #[test]
    fn what_is_no_claim_is_not_in_the_queue() {
        for name in ["", "lock-0000000001", "readme", &format!("{:032x}", 7), &format!("{:032x}-x", 7)] {
            assert_eq!(Node::parse(name.to_owned()), None, "{name:?}");
        }
    }
}
