//! The clients of one turn, and whether they kept each other out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use leastlock_lease::Leases;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Part;
use super::locks::Locks;
use super::way::{Client, Door, Way};
use crate::cpu::own_seconds;
use crate::load::OVERTIME;
use crate::statistics::percentile;

/// A turn runs so long before it is measured, so that each connection has prepared its statements.
pub(super) const WARM: Duration = Duration::from_millis(300);

/// One contender, with so many clients.
pub(super) struct Turn<'a, L: Locks> {
    pub(super) locks: &'a L,
    pub(super) driver: &'a Arc<L::Driver>,
    pub(super) way: Way,
    pub(super) part: Part,
    pub(super) clients: u32,
    pub(super) time: Duration,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) per_second: f64,
    /// Of a cycle, and of its first half.
    cycle_ms: [f64; 2],
    wait_ms: [f64; 2],
    /// Cycles of the client with the fewest, over those of the one with the most.
    share: f64,
    /// Processor time of this process for a cycle, the warm-up included.
    cpu_us: f64,
}

impl Measured {
    /// As the sheet of the part has them.
    pub(super) fn figures(&self, part: Part) -> Vec<f64> {
        let Self { per_second, cycle_ms, wait_ms, share, cpu_us } = self;
        match part {
            Part::Own => vec![*per_second, cycle_ms[0], cycle_ms[1], *cpu_us],
            _ => vec![*per_second, wait_ms[0], wait_ms[1], *share, *cpu_us],
        }
    }
}

/// What one client did in the time that is measured, in nanoseconds.
#[derive(Debug, Default)]
struct Tally {
    cycles: Vec<u64>,
    waits: Vec<u64>,
    /// The warm-up included.
    all: u64,
}

impl<L: Locks> Turn<'_, L> {
    /// Warms up, measures, and looks whether all locks are free again.
    pub(super) async fn run(&self) -> anyhow::Result<Measured> {
        let opens = Instant::now() + WARM.min(self.time);
        let closes = opens + self.time;
        let clients = self.clients()?;
        let doors: Vec<_> = clients.iter().map(|client| Arc::clone(&client.door)).collect();
        let before = own_seconds();
        let mut running = JoinSet::new();
        for client in clients {
            running.spawn(run_through(client, opens, closes));
        }
        let ended = async {
            let mut tallies = Vec::new();
            while let Some(client) = running.join_next().await {
                tallies.push(client.context("a client ended early")??);
            }
            anyhow::Ok(tallies)
        };
        let tallies = timeout(WARM + self.time + OVERTIME, ended).await.context("the turn does not end")??;
        let cpu_seconds = own_seconds() - before;
        for door in doors {
            let last = self.client(self.leases(), door);
            timeout(OVERTIME, last.cycle()).await.context("a lock was left behind")??;
        }
        Ok(measured(&tallies, self.time, cpu_seconds))
    }

    fn clients(&self) -> anyhow::Result<Vec<Client<L>>> {
        let (leases, one) = (self.leases(), Arc::new(Door::new("bench:one")?));
        let mut clients = Vec::new();
        for number in 0..self.clients {
            let leases = if self.way == Way::Apart { self.leases() } else { leases.clone() };
            let door = match self.part {
                Part::Own => Arc::new(Door::new(&format!("bench:own:{number}"))?),
                _ => Arc::clone(&one),
            };
            clients.push(self.client(leases, door));
        }
        Ok(clients)
    }

    fn client(&self, leases: Leases<L::Store>, door: Arc<Door>) -> Client<L> {
        Client { way: self.way, driver: Arc::clone(self.driver), leases, door }
    }

    fn leases(&self) -> Leases<L::Store> {
        Leases::new(self.locks.store(self.driver))
    }
}

async fn run_through<L: Locks>(client: Client<L>, opens: Instant, closes: Instant) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    loop {
        let began = Instant::now();
        if began >= closes {
            return Ok(tally);
        }
        let waited = client.cycle().await?;
        let ended = Instant::now();
        tally.all += 1;
        if ended >= opens && ended < closes {
            let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            tally.cycles.push(ns(ended - began));
            tally.waits.push(ns(waited));
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds of a turn are far below 2^53")]
fn measured(tallies: &[Tally], time: Duration, cpu_seconds: f64) -> Measured {
    let counts = tallies.iter().map(|tally| tally.cycles.len());
    let (fewest, most) = (counts.clone().min().unwrap_or(0), counts.clone().max().unwrap_or(0));
    let all: u64 = tallies.iter().map(|tally| tally.all).sum();
    let sorted = |of: fn(&Tally) -> &Vec<u64>| {
        let mut all: Vec<u64> = tallies.iter().flat_map(of).copied().collect();
        all.sort_unstable();
        [50, 99].map(|percent| percentile(&all, percent).map_or(f64::NAN, |ns| ns as f64 / 1e6))
    };
    Measured {
        per_second: counts.sum::<usize>() as f64 / time.as_secs_f64(),
        cycle_ms: sorted(|tally| &tally.cycles),
        wait_ms: sorted(|tally| &tally.waits),
        share: fewest as f64 / most as f64,
        cpu_us: cpu_seconds * 1e6 / all as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_of_all_clients_and_shares_of_the_extremes() {
        let tally = |cycles: usize, ms: u64| Tally {
            cycles: vec![2_000_000 * ms; cycles],
            waits: vec![1_000_000 * ms; cycles],
            all: 100,
        };
        let found = measured(&[tally(10, 1), tally(40, 1), tally(50, 3)], Duration::from_secs(2), 0.003);
        assert_eq!(found.figures(Part::Own), [50.0, 2.0, 6.0, 10.0]);
        assert_eq!(found.figures(Part::One), [50.0, 1.0, 3.0, 0.2, 10.0]);
    }
}
