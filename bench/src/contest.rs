//! Contenders in turn, round by round, each round verified.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use fastrand::Rng;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::options::Options;
use crate::statistics::percentile;

/// Several ways to do one thing, of which the first is the product.
///
/// # Contract
/// - Every contender does equal work, except where its name says that it does less.
/// - [`verify`](Self::verify) finds out from the database alone whether the effects that the calls claim are there.
pub(crate) trait Contest: Send + Sync + 'static {
    /// One way to do it.
    type Contender: Copy + Send + Sync + 'static;

    /// All ways, with their names; the product first.
    const CONTENDERS: &'static [(&'static str, Self::Contender)];

    /// What is done.
    fn measure(&self) -> &'static str;

    /// Makes the state that a round begins with, equal for all.
    fn prepare(&self) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// One operation; answers how many effects it had.
    fn call(&self, contender: Self::Contender, rng: &mut Rng) -> impl Future<Output = anyhow::Result<u64>> + Send;

    /// Fails if the database does not show so many effects since [`prepare`](Self::prepare).
    fn verify(&self, contender: Self::Contender, effects: u64) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// What one contender did in one round.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Round {
    /// Operations that ended.
    pub(crate) operations: u64,
    /// From the start to the end of the last operation.
    pub(crate) seconds: f64,
    /// The one divided by the other.
    pub(crate) per_second: f64,
    /// Half of the operations took no longer.
    pub(crate) p50_us: f64,
    /// 99 of 100 operations took no longer.
    pub(crate) p99_us: f64,
}

/// One contender's rounds.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Entry {
    /// The contender.
    pub(crate) name: &'static str,
    /// In the order in which they ran, without the warm-up.
    pub(crate) rounds: Vec<Round>,
}

/// All contenders' rounds at one number of clients.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Comparison {
    /// What was done.
    pub(crate) measure: &'static str,
    /// How many clients did it at once.
    pub(crate) clients: u32,
    /// The product first.
    pub(crate) entries: Vec<Entry>,
}

/// Runs the contenders in turn: A B A B ….
///
/// # Errors
/// When an operation fails or a round's result does not add up.
pub(crate) async fn compare<C: Contest>(contest: C, clients: u32, options: &Options) -> anyhow::Result<Comparison> {
    let contest = Arc::new(contest);
    let measure = contest.measure();
    let mut entries: Vec<_> = C::CONTENDERS.iter().map(|(name, _)| Entry { name, rounds: Vec::new() }).collect();
    // Round 0 warms up: connections, statement caches, the server's memory.
    for number in 0..=options.rounds {
        for ((name, contender), entry) in C::CONTENDERS.iter().zip(&mut entries) {
            contest.prepare().await.with_context(|| format!("{measure}, {name}: preparing"))?;
            let load = Load { clients, time: options.seconds, seed: options.seed ^ (u64::from(number) << 40) };
            let (round, effects) =
                load.run(&contest, *contender).await.with_context(|| format!("{measure}, {name}"))?;
            contest.verify(*contender, effects).await.with_context(|| format!("{measure}, {name}: wrong results"))?;
            let kind = if number == 0 { "warm-up".to_owned() } else { format!("round {number}/{}", options.rounds) };
            eprintln!("{measure}, clients: {clients}, {kind}, {name}: {:.0} ops/s, verified", round.per_second);
            if number > 0 {
                entry.rounds.push(round);
            }
        }
    }
    Ok(Comparison { measure, clients, entries })
}

/// The load of one round: each client begins its next operation when its last has ended, until the time is over.
#[derive(Debug)]
struct Load {
    clients: u32,
    time: Duration,
    seed: u64,
}

impl Load {
    async fn run<C: Contest>(&self, contest: &Arc<C>, contender: C::Contender) -> anyhow::Result<(Round, u64)> {
        let started = Instant::now();
        let mut clients = JoinSet::new();
        for client in 0..self.clients {
            // Equal for all contenders of a round, so that they draw the same rows and keys.
            let rng = Rng::with_seed(self.seed ^ (u64::from(client) << 32));
            clients.spawn(run_client(Arc::clone(contest), contender, rng, started + self.time));
        }
        let (mut latencies, mut effects) = (Vec::new(), 0);
        while let Some(client) = clients.join_next().await {
            let (mut of_client, of_effects) = client.context("a client ended early")??;
            latencies.append(&mut of_client);
            effects += of_effects;
        }
        let seconds = started.elapsed().as_secs_f64();
        latencies.sort_unstable();
        Ok((Round::new(&latencies, seconds)?, effects))
    }
}

async fn run_client<C: Contest>(
    contest: Arc<C>,
    contender: C::Contender,
    mut rng: Rng,
    deadline: Instant,
) -> anyhow::Result<(Vec<u64>, u64)> {
    let (mut latencies, mut effects) = (Vec::new(), 0);
    while Instant::now() < deadline {
        let started = Instant::now();
        effects += contest.call(contender, &mut rng).await?;
        latencies.push(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    Ok((latencies, effects))
}

impl Round {
    #[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds of a round are far below 2^53")]
    fn new(sorted_ns: &[u64], seconds: f64) -> anyhow::Result<Self> {
        let operations = sorted_ns.len() as u64;
        ensure!(operations > 0, "no operation ended in {seconds:.3} s");
        let micros = |percent| percentile(sorted_ns, percent).map_or(0.0, |ns| ns as f64 / 1000.0);
        let per_second = operations as f64 / seconds;
        Ok(Self { operations, seconds, per_second, p50_us: micros(50), p99_us: micros(99) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    /// Counts in memory. With `LOSES`, the second contender loses updates.
    #[derive(Debug, Default)]
    struct Counting<const LOSES: bool> {
        stored: AtomicU64,
        verified: Arc<Mutex<Vec<char>>>,
    }

    impl<const LOSES: bool> Contest for Counting<LOSES> {
        type Contender = char;
        const CONTENDERS: &'static [(&'static str, char)] = &[("first", 'A'), ("second", 'B')];

        fn measure(&self) -> &'static str {
            "counting"
        }

        async fn prepare(&self) -> anyhow::Result<()> {
            self.stored.store(0, Ordering::SeqCst);
            Ok(())
        }

        async fn call(&self, contender: char, rng: &mut Rng) -> anyhow::Result<u64> {
            tokio::task::yield_now().await;
            if !(LOSES && contender == 'B' && rng.bool()) {
                self.stored.fetch_add(1, Ordering::SeqCst);
            }
            Ok(1)
        }

        async fn verify(&self, contender: char, effects: u64) -> anyhow::Result<()> {
            self.verified.lock().unwrap().push(contender);
            let stored = self.stored.load(Ordering::SeqCst);
            ensure!(stored == effects, "{stored} are stored, {effects} were claimed");
            Ok(())
        }
    }

    fn options() -> Options {
        Line::parse_from(["bench", "--rounds", "3", "--seconds", "0.02", "--seed", "1"]).options
    }

    #[tokio::test]
    async fn contenders_run_in_turn_and_the_warm_up_is_not_counted() {
        let contest = Counting::<false>::default();
        let verified = Arc::clone(&contest.verified);
        let comparison = compare(contest, 4, &options()).await.unwrap();
        assert_eq!(*verified.lock().unwrap(), ['A', 'B', 'A', 'B', 'A', 'B', 'A', 'B']);
        assert_eq!(comparison.entries.len(), 2);
        for entry in comparison.entries {
            assert_eq!(entry.rounds.len(), 3);
            for round in entry.rounds {
                assert!(round.operations > 0 && round.p50_us <= round.p99_us);
            }
        }
    }

    #[tokio::test]
    async fn wrong_results_fail_the_run() {
        let error = compare(Counting::<true>::default(), 2, &options()).await.unwrap_err();
        assert!(format!("{error:#}").contains("counting, second: wrong results"), "{error:#}");
    }
}
