//! Which shards a relay takes and which it hands over, from what it sees of all relays: pure, no I/O.
//!
//! Each relay decides for itself, by the same rule, from a survey of its own that may be old when it acts on it. With `n`
//! relays and `s` shards, each comes to hold `s / n` shards (the *share*), and `s % n` of them one more. Shards of different
//! generations are shared each by themselves: nothing is appended to the older ones, so a relay that held only those
//! would have nothing to do, and while they are drained one that held none of them would not help.
//!
//! - A free shard goes first to relays below the share. One at its share takes another only where enough are free for all
//!   below it, and only while fewer than `s % n` relays have one more. So what was handed over for a newcomer is not taken back.
//! - A relay hands over what it has beyond the share and one. Of those that have just one more, as many hand it over as
//!   shards are still missing, the first by their names: where all did, there would be free shards that nobody needs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A shard as a survey shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The shard.
    pub shard: i64,
    /// How many times the shards had been raised when it was made.
    pub generation: i64,
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
    /// What it takes of each generation.
    pub(crate) claims: Vec<Claim>,
    /// What it hands over, once nothing of it is on its way.
    pub(crate) give_up: Vec<i64>,
    /// When another relay's lease ends unless it is renewed, from the survey on: the next moment at which something may be free.
    pub(crate) next_end: Option<Duration>,
}

/// Shards to take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    /// The shards of a generation that this relay does not hold.
    pub(crate) among: Vec<i64>,
    /// How many of them that are free it takes at most.
    pub(crate) most: usize,
}

/// What `me` does, who holds `held` and is handing `draining` over (both by its own knowledge: a shard that bears its name
/// beside these is free).
pub(crate) fn plan(me: &str, held: &[i64], draining: &[i64], survey: &Survey) -> Plan {
    let relays = survey.relays.iter().map(String::as_str);
    let owners = survey.shards.iter().filter_map(|seen| seen.owner.as_deref());
    let others: BTreeSet<&str> = relays.chain(owners).filter(|relay| *relay != me).collect();
    let mut generations = BTreeMap::<i64, Vec<&Seen>>::new();
    for seen in &survey.shards {
        generations.entry(seen.generation).or_default().push(seen);
    }
    let mut plan = Plan::default();
    for shards in generations.values() {
        plan_generation(me, held, draining, shards, &others, &mut plan);
    }
    let of_others = survey.shards.iter().filter(|seen| seen.owner.as_deref().is_some_and(|owner| owner != me));
    let of_others = of_others.filter(|seen| !held.contains(&seen.shard) && !draining.contains(&seen.shard));
    plan.next_end = of_others.map(|seen| seen.lease_left).min();
    plan
}

/// What `me` does about the shards of one generation.
fn plan_generation(
    me: &str,
    held: &[i64],
    draining: &[i64],
    shards: &[&Seen],
    others: &BTreeSet<&str>,
    plan: &mut Plan,
) {
    let of_these = |mine: &[i64]| -> Vec<i64> {
        shards.iter().map(|seen| seen.shard).filter(|shard| mine.contains(shard)).collect()
    };
    let (mut held, draining) = (of_these(held), of_these(draining));
    let mut others: BTreeMap<&str, usize> = others.iter().map(|relay| (*relay, 0)).collect();
    let (mut among, mut free) = (Vec::new(), 0);
    for seen in shards.iter().filter(|seen| !held.contains(&seen.shard) && !draining.contains(&seen.shard)) {
        among.push(seen.shard);
        match seen.owner.as_deref() {
            Some(owner) if owner != me => *others.entry(owner).or_default() += 1,
            _ => free += 1,
        }
    }
    let relays = others.len() + 1;
    let (share, one_more) = (shards.len() / relays, shards.len() % relays);
    let below: usize = others.values().map(|count| share.saturating_sub(*count)).sum();

    let to_share = share.saturating_sub(held.len());
    let with_more = others.values().filter(|count| **count > share).count();
    // What is on its way to others is not made up for by one more.
    let one_to_spare = draining.is_empty() && free > to_share + below && held.len() <= share && with_more < one_more;
    let most = free.min(to_share + usize::from(one_to_spare));
    if most > 0 {
        plan.claims.push(Claim { among, most });
    }
    let most = share + usize::from(one_more > 0);
    let beyond = held.len().saturating_sub(most);
    let last = usize::from(
        one_more > 0 && held.len() > share && is_missed(me, &others, share, below, free + draining.len() + beyond),
    );
    held.sort_unstable();
    plan.give_up.extend(held.split_off(held.len() - beyond - last));
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
