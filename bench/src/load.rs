//! The load of one turn: each client begins its next operation when its last has ended.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use fastrand::Rng;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::contest::{Claims, Contest, Outcome, Round, Seat, Supply};
use crate::cpu::Cpu;
use crate::statistics::percentile;

/// Each turn runs so long at least before it is measured.
pub(crate) const WARM: Duration = Duration::from_millis(300);
/// And until each client has made so many calls: the first one of a connection prepares its statements.
const WARM_CALLS: u32 = 2;
/// But no longer than this, if a lock's queue lets some clients starve.
const WARM_LIMIT: Duration = Duration::from_secs(5);
/// A turn that has not ended so long after its time never will.
pub(crate) const OVERTIME: Duration = Duration::from_mins(2);

/// One contender, with so many clients.
#[derive(Debug)]
pub(crate) struct Load<'a, C: Contest> {
    /// What is done.
    pub(crate) contest: &'a Arc<C>,
    /// Where.
    pub(crate) arena: &'a Arc<C::Arena>,
    /// By which way.
    pub(crate) contender: C::Contender,
    /// By how many at once.
    pub(crate) clients: u32,
    /// Of how much.
    pub(crate) supply: Supply,
    /// Chooses the rows and keys.
    pub(crate) seed: u64,
}

impl<C: Contest> Load<'_, C> {
    /// Warms up, then measures for so long; what was oversold is not yet known. The claims are those of all calls, the
    /// warm-up's included.
    pub(crate) async fn run_for(&self, time: Duration, cpu: Cpu) -> anyhow::Result<(Round, Claims)> {
        let window = Arc::new(Window { opened: OnceLock::new(), time, warmed: Semaphore::new(0) });
        let run = async {
            let mut clients = self.spawn(|caller| caller.run_through(Arc::clone(&window)));
            let mut holding = std::pin::pin!(self.hold_open(&window, cpu));
            let mut tallies = Vec::new();
            let cpu_seconds = loop {
                tokio::select! {
                    biased;
                    cpu_seconds = &mut holding => break cpu_seconds,
                    // So that the first error ends the turn.
                    Some(client) = clients.join_next() => tallies.push(client.context("a client ended early")??),
                }
            };
            while let Some(client) = clients.join_next().await {
                tallies.push(client.context("a client ended early")??);
            }
            let (mut latencies, mut measured, mut all) = (Vec::new(), Claims::default(), Claims::default());
            for mut tally in tallies {
                latencies.append(&mut tally.latencies_ns);
                measured.add(tally.measured);
                all.add(tally.all);
            }
            latencies.sort_unstable();
            Ok((Round::new(&latencies, measured, time, cpu_seconds)?, all))
        };
        timeout(WARM_LIMIT + time + OVERTIME, run).await.context("the turn does not end")?
    }

    /// All call until each was answered that there is no more.
    pub(crate) async fn run_out(&self) -> anyhow::Result<Claims> {
        let run = async {
            let mut clients = self.spawn(Caller::run_out);
            let mut all = Claims::default();
            while let Some(client) = clients.join_next().await {
                all.add(client.context("a client ended early")??);
            }
            Ok(all)
        };
        timeout(OVERTIME, run).await.context("there is always more")?
    }

    /// Each client makes as many calls as one has to before it is warm.
    pub(crate) async fn warm_up(&self) -> anyhow::Result<Claims> {
        let run = async {
            let mut clients = self.spawn(Caller::warm_up);
            let mut all = Claims::default();
            while let Some(client) = clients.join_next().await {
                all.add(client.context("a client ended early")??);
            }
            Ok(all)
        };
        timeout(OVERTIME, run).await.context("the warm-up does not end")?
    }

    fn spawn<T, F>(&self, run: impl Fn(Caller<C>) -> F) -> JoinSet<anyhow::Result<T>>
    where
        T: Send + 'static,
        F: Future<Output = anyhow::Result<T>> + Send + 'static,
    {
        let mut clients = JoinSet::new();
        for number in 0..self.clients {
            let rng = Rng::with_seed(self.seed ^ (u64::from(number) << 32));
            let seat = Seat { number, of: self.clients, supply: self.supply, rng };
            clients.spawn(run(Caller {
                contest: Arc::clone(self.contest),
                arena: Arc::clone(self.arena),
                contender: self.contender,
                client: self.contest.client(self.contender, seat),
            }));
        }
        clients
    }

    /// Opens the window when all are warm, and waits until it closes; answers the processor time between.
    async fn hold_open(&self, window: &Window, cpu: Cpu) -> Option<f64> {
        sleep(WARM.min(window.time)).await;
        // Whoever is not warm after the limit waits for a lock; measuring goes on without him.
        let _ = timeout(WARM_LIMIT, window.warmed.acquire_many(self.clients)).await;
        // Read before the window opens and after it closes, so that reading is not measured.
        let before = cpu.seconds();
        window.opened.get_or_init(Instant::now);
        sleep(window.time).await;
        Some(cpu.seconds()? - before?)
    }
}

/// The time that is measured.
#[derive(Debug)]
struct Window {
    opened: OnceLock<Instant>,
    time: Duration,
    /// A permit for each client that is warm.
    warmed: Semaphore,
}

impl Window {
    fn contains(&self, now: Instant) -> bool {
        self.opened.get().is_some_and(|opened| now >= *opened && now.duration_since(*opened) < self.time)
    }

    fn is_over(&self, now: Instant) -> bool {
        self.opened.get().is_some_and(|opened| now.saturating_duration_since(*opened) >= self.time)
    }
}

/// What one client did.
#[derive(Debug, Default)]
struct Tally {
    latencies_ns: Vec<u64>,
    measured: Claims,
    all: Claims,
}

/// One client.
struct Caller<C: Contest> {
    contest: Arc<C>,
    arena: Arc<C::Arena>,
    contender: C::Contender,
    client: C::Client,
}

impl<C: Contest> Caller<C> {
    async fn run_through(mut self, window: Arc<Window>) -> anyhow::Result<Tally> {
        let mut tally = Tally::default();
        let mut calls = 0_u32;
        loop {
            let started = Instant::now();
            if window.is_over(started) {
                return Ok(tally);
            }
            let done = self.contest.call(&self.arena, self.contender, &mut self.client).await?;
            let ended = Instant::now();
            tally.all.count(done);
            if window.contains(ended) {
                tally.measured.count(done);
                if done.outcome != Outcome::GaveUp {
                    let ns = u64::try_from(ended.duration_since(started).as_nanos()).unwrap_or(u64::MAX);
                    tally.latencies_ns.push(ns);
                }
            }
            calls = calls.saturating_add(1);
            if calls == WARM_CALLS {
                window.warmed.add_permits(1);
            }
        }
    }

    async fn warm_up(mut self) -> anyhow::Result<Claims> {
        let mut claims = Claims::default();
        for _ in 0..WARM_CALLS {
            claims.count(self.contest.call(&self.arena, self.contender, &mut self.client).await?);
        }
        Ok(claims)
    }

    async fn run_out(mut self) -> anyhow::Result<Claims> {
        let mut claims = Claims::default();
        loop {
            let done = self.contest.call(&self.arena, self.contender, &mut self.client).await?;
            claims.count(done);
            if done.outcome == Outcome::NoEffect {
                return Ok(claims);
            }
        }
    }
}

impl Round {
    #[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds of a round are far below 2^53")]
    fn new(sorted_ns: &[u64], measured: Claims, time: Duration, cpu_seconds: Option<f64>) -> anyhow::Result<Self> {
        let (operations, seconds) = (measured.answered(), time.as_secs_f64());
        ensure!(operations > 0, "no operation ended in {seconds:.3} s");
        let micros = |percent| percentile(sorted_ns, percent).map_or(0.0, |ns| ns as f64 / 1000.0);
        Ok(Self {
            operations,
            seconds,
            per_second: operations as f64 / seconds,
            p50_us: micros(50),
            p99_us: micros(99),
            conflicts: measured.conflicts,
            gave_up: measured.gave_up,
            cpu_seconds,
            oversold: 0,
        })
    }
}
