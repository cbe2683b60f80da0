//! Two holders at one door: the one that holds meets a fault, the other takes over, the first comes back.

use std::time::Duration;

use anyhow::ensure;
use fastrand::Rng;
use leastlock_core::begin;
use sqlx::Pool;
use tokio::runtime::Handle;

use super::Fault;
use super::clock::since_boot;
use super::door::{Doors, is_one_file};
use super::holder::{Conduct, GO, STAND};
use super::member::Member;

/// How long a holder may take for what should take it no time.
const LIMIT: Duration = Duration::from_mins(1);
/// So long beyond the TTL, a take-over has not come about.
const OVERDUE: Duration = Duration::from_secs(10);
/// Of the double nobody measures it: its open transaction may keep the other one from writing.
const OVERDUE_OF_A_DOUBLE: Duration = Duration::from_secs(2);
/// So long beyond the TTL, a take-over is worth a line.
const NOTABLE: Duration = Duration::from_secs(1);
/// How long a holder that believes in its lease goes on writing after its return.
const LATE: Duration = Duration::from_millis(300);

/// A pair at its door. All its methods block their thread.
pub(super) struct Pair<DB: Doors> {
    pub(super) members: [Member; 2],
    pub(super) fault: Fault,
    pub(super) conduct: Conduct,
    pub(super) ttl: Duration,
    /// Of the door's database.
    pub(super) pool: Pool<DB>,
    pub(super) runtime: Handle,
    pub(super) rng: Rng,
    /// Counts the cuts, so that each kind comes as often.
    pub(super) cuts: u32,
}

/// What came of the faults of a pair.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) recoveries: Vec<Recovery>,
    /// Writes that the resource has refused.
    pub(super) refused: u64,
    /// Take-overs that no fault was the reason of: a busy machine stops processes as well.
    pub(super) unasked: u64,
}

/// From a fault until another holder had the lease, and until it had written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recovery {
    pub(super) granted: Duration,
    pub(super) written: Duration,
}

/// What a fault does to a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blow {
    Stop,
    CutFromLocks,
    CutFromAll,
}

impl<DB: Doors> Pair<DB> {
    /// Goes on until so many faults have led to a take-over.
    pub(super) fn run(mut self, faults: u32) -> anyhow::Result<Tally> {
        let mut tally = Tally::default();
        for _ in 0..faults.saturating_mul(2) {
            if tally.recoveries.len() >= faults as usize {
                break;
            }
            self.fault(&mut tally)?;
        }
        ensure!(
            tally.recoveries.len() >= faults as usize,
            "{} of {faults} take-overs: {tally:?}",
            tally.recoveries.len()
        );
        tally.refused = self.members.iter().map(|member| member.refused).sum();
        for member in &mut self.members {
            member.child.close_stdin();
        }
        for member in &mut self.members {
            let status = member.child.wait(LIMIT);
            ensure!(status.success(), "a holder ended with {status}: {:?}", member.child);
        }
        Ok(tally)
    }

    fn fault(&mut self, tally: &mut Tally) -> anyhow::Result<()> {
        let (holder, token) = self.holder()?;
        std::thread::sleep(self.ttl.mul_f64(self.rng.f64() / 3.0));
        if self.conduct.believes() {
            let before = self.members[holder].stood;
            self.members[holder].child.send_line(STAND);
            ensure!(self.members[holder].says(|member| member.stood > before, LIMIT), "its clock does not stand still");
        }
        let blow = self.blow();
        let at = self.strike(holder, blow)?;
        let overdue = if self.conduct == Conduct::Unchecked { OVERDUE_OF_A_DOUBLE } else { OVERDUE };
        let has_written = |other: &Member| other.wrote.is_some_and(|wrote| wrote.token > token);
        let other = &mut self.members[1 - holder];
        let taken_over = other.says(has_written, self.ttl + overdue);
        let wrote_at = other.wrote.filter(|_| taken_over).map(|wrote| wrote.at);
        std::thread::sleep(Duration::from_millis(self.rng.u64(50..300)));
        self.relieve(holder, blow);
        if self.conduct.believes() {
            std::thread::sleep(LATE);
            self.members[holder].child.send_line(GO);
        }
        let blow_was_felt = self.members[holder].says(|member| member.has_ended(token), LIMIT);
        ensure!(blow_was_felt, "after {blow:?} its lease {token} does not end: {:?}", self.members[holder].child);
        match wrote_at {
            // It was over before: no fault of ours.
            Some(wrote_at) if wrote_at < at => tally.unasked += 1,
            Some(wrote_at) => {
                let granted_at = self.members[1 - holder].took.map_or(wrote_at, |took| took.at.min(wrote_at));
                let [granted, written] = [granted_at, wrote_at].map(|then| then.saturating_sub(at));
                if written > self.ttl + NOTABLE {
                    eprintln!("{blow:?}: the next write after {written:?}, the lease granted after {granted:?}");
                }
                tally.recoveries.push(Recovery { granted, written });
            }
            None if self.conduct == Conduct::Unchecked => tally.unasked += 1,
            None => anyhow::bail!(
                "{:?} after {blow:?} of the holder of {token} nobody has taken over: {:?}",
                self.ttl + overdue,
                self.members[1 - holder].child
            ),
        }
        Ok(())
    }

    fn blow(&mut self) -> Blow {
        if self.fault == Fault::Pause {
            return Blow::Stop;
        }
        self.cuts += 1;
        if self.cuts.is_multiple_of(2) { Blow::CutFromAll } else { Blow::CutFromLocks }
    }

    /// Who holds the lock and has written, and its token.
    fn holder(&mut self) -> anyhow::Result<(usize, i64)> {
        let deadline = since_boot() + LIMIT;
        loop {
            self.members.iter_mut().for_each(Member::listen);
            let holding = self.members.iter().enumerate().filter_map(|(at, member)| Some((at, member.holds()?)));
            if let Some(holder) = holding.max_by_key(|(_, token)| *token) {
                return Ok(holder);
            }
            ensure!(
                since_boot() < deadline,
                "nobody holds the lock: {:?}",
                self.members.each_ref().map(|one| &one.child)
            );
            std::thread::sleep(Duration::from_millis(3));
        }
    }

    /// Answers when.
    fn strike(&mut self, holder: usize, blow: Blow) -> anyhow::Result<Duration> {
        let member = &mut self.members[holder];
        let at = since_boot();
        match (blow, &member.network) {
            (Blow::Stop, _) if is_one_file::<DB>() => {
                // Whoever is stopped in a transaction would keep all others from the file, for as long as it is stopped. So nobody
                // is in one now.
                let alone = self.runtime.block_on(begin::<DB>(&self.pool))?;
                let at = since_boot();
                member.child.stop();
                self.runtime.block_on(alone.rollback())?;
                return Ok(at);
            }
            (Blow::Stop, _) => member.child.stop(),
            (Blow::CutFromLocks, Some(network)) => network.locks.black_hole(),
            (Blow::CutFromAll, Some(network)) => {
                network.locks.black_hole();
                network.doors.black_hole();
            }
            (_, None) => anyhow::bail!("there is nothing to cut"),
        }
        Ok(at)
    }

    fn relieve(&mut self, holder: usize, blow: Blow) {
        let member = &mut self.members[holder];
        match (blow, &member.network) {
            (Blow::Stop, _) => member.child.resume(),
            (_, Some(network)) => {
                network.locks.heal();
                network.doors.heal();
            }
            (_, None) => {}
        }
    }
}
