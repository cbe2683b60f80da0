//! Which shards a relay takes and which it hands over, from what it sees of all relays: pure, no I/O.
//!
//! Each relay decides for itself, by the same rule, from a survey of its own that may be old when it acts on it. With `n`
//! relays and `s` shards, each comes to hold `s / n` shards (the *share*), and `s % n` of them one more.
//!
//! - A free shard goes first to relays below the share. One at its share takes another only where enough are free for all
//!   below it, and only while fewer than `s % n` relays have one more. So what was handed over for a newcomer is not taken back.
//! - A relay hands over what it has beyond the share and one. Of those that have just one more, as many hand it over as
//!   shards are still missing, the first by their names: where all did, there would be free shards that nobody needs.

use std::collections::BTreeMap;
use std::time::Duration;

/// A shard as a survey shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The shard.
    pub shard: i64,
    /// Who holds a lease on it that is not over.
    pub owner: Option<String>,
    /// How long that lease still lasts.
    pub lease_left: Duration,
}

/// Who is there and who holds what, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// Every shard that can be held.
    pub shards: Vec<Seen>,
    /// The relays that were heard of lately. One that only holds shards need not be among them.
    pub relays: Vec<String>,
    /// Whether there are shards that nobody may hold yet.
    pub waiting: bool,
}

/// What a relay does about its shards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// How many free shards it takes at most.
    pub(crate) claim: usize,
    /// What it hands over, once nothing of it is on its way.
    pub(crate) give_up: Vec<i64>,
    /// When another relay's lease ends unless it is renewed, from the survey on: the next moment at which something may be free.
    pub(crate) next_end: Option<Duration>,
}

/// What `me` does, who holds `held` and is handing `draining` over (both by its own knowledge: a shard that bears its name
/// beside these is free).
pub(crate) fn plan(me: &str, held: &[i64], draining: &[i64], survey: &Survey) -> Plan {
    let mine = |shard: &i64| held.contains(shard) || draining.contains(shard);
    let mut others: BTreeMap<&str, usize> =
        survey.relays.iter().map(String::as_str).filter(|relay| *relay != me).map(|relay| (relay, 0)).collect();
    let (mut free, mut next_end) = (0, None::<Duration>);
    for seen in survey.shards.iter().filter(|seen| !mine(&seen.shard)) {
        match seen.owner.as_deref() {
            Some(owner) if owner != me => {
                *others.entry(owner).or_default() += 1;
                next_end = Some(next_end.map_or(seen.lease_left, |end| end.min(seen.lease_left)));
            }
            _ => free += 1,
        }
    }
    let (relays, shards) = (others.len() + 1, survey.shards.len());
    let (share, one_more) = (shards / relays, shards % relays);
    let below: usize = others.values().map(|count| share.saturating_sub(*count)).sum();

    let claim = if draining.is_empty() {
        let to_share = share.saturating_sub(held.len());
        let with_more = others.values().filter(|count| **count > share).count();
        let one_to_spare = free > to_share + below && held.len() <= share && with_more < one_more;
        free.min(to_share + usize::from(one_to_spare))
    } else {
        0
    };
    let most = share + usize::from(one_more > 0);
    let beyond = held.len().saturating_sub(most);
    let last = usize::from(
        one_more > 0 && held.len() > share && is_missed(me, &others, share, below, free + draining.len() + beyond),
    );
    let mut sorted = held.to_vec();
    sorted.sort_unstable();
    let give_up = sorted.split_off(held.len() - beyond - last);
    Plan { claim, give_up, next_end }
}

/// Whether the one shard that `me` has beyond the share is needed by relays below it: `below` shards are missing there, and
/// `coming` of them are free or handed over by `me` already.
fn is_missed(me: &str, others: &BTreeMap<&str, usize>, share: usize, below: usize, coming: usize) -> bool {
    let handed_over: usize = others.values().map(|count| count.saturating_sub(share + 1)).sum();
    let missing = below.saturating_sub(coming + handed_over);
    let before_me = others.iter().filter(|(relay, count)| **count > share && **relay < me).count();
    before_me < missing
}

#[cfg(test)]
#[path = "balance_model.rs"]
mod tests;
