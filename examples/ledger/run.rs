//! A run: entries, two workers, a kill, and the reconciliation.

use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use leastlock::partition_worker::MIGRATIONS;
use rdkafka::ClientConfig;
use rdkafka::producer::{FutureProducer, FutureRecord};
use sqlx::{Pool, Postgres, Sqlite};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::args::{Args, WorkerArgs};
use crate::broker::Broker;
use crate::ended::Ended;
use crate::engine::Engine;
use crate::entries::{Entry, accounts, entries};
use crate::ledger;
use crate::reconciliation::breaches;
use crate::report::{Bar, Figures, Killed};
use crate::worker;

/// The worker that is killed, and the one that stays.
const WORKERS: [&str; 2] = ["a", "b"];
/// Entries a second until both workers have posted some: neither is to have done everything before the other has joined.
const FIRST_RATE: u32 = 100;
/// How long the ledger may stand still before it counts as stuck, beyond a session.
const STANDSTILL: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(10);

/// Runs it.
pub(crate) fn run(args: &Args) -> Result<(), Ended> {
    let runtime = Runtime::new().map_err(|error| Ended::refused("no runtime", &error))?;
    // Held to the end: the temporary file goes with it.
    let folder = tempfile::tempdir().map_err(|error| Ended::refused("no temporary folder", &error))?;
    let temporary = format!("sqlite://{}", folder.path().join("ledger.sqlite").display());
    let url = args.database.as_deref().unwrap_or(&temporary);
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        run_on::<Postgres>(args, url, &runtime)
    } else if url.starts_with("sqlite:") {
        run_on::<Sqlite>(args, url, &runtime)
    } else {
        Err(Ended::Refused("--database must begin with postgres:// or sqlite://".to_owned()))
    }
}

fn run_on<DB: Engine>(args: &Args, url: &str, runtime: &Runtime) -> Result<(), Ended> {
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..=u64::from(u32::MAX)));
    println!("seed {seed}");
    let names = accounts(args.accounts);
    let entries = Arc::new(entries(seed, &names, args.entries));
    let pool = runtime.block_on(DB::open(url)).map_err(|error| Ended::refused("cannot reach the database", &error))?;
    runtime.block_on(MIGRATIONS.run(&pool)).map_err(|error| Ended::refused("the worker's tables", &error))?;
    runtime
        .block_on(ledger::open_books(&pool, &names))
        .map_err(|error| Ended::refused("the ledger's tables", &error))?;
    let broker = Broker::open(args.brokers.as_deref())?;
    let topic = format!("ledger-{}", uuid_like(seed));
    broker.make_topic(&topic, runtime)?;
    let day = Day { args, pool: &pool, brokers: broker.bootstrap(), topic, url, entries };
    let kept = runtime.block_on(day.run());
    broker.delete_topic(&day.topic, runtime);
    let figures = kept?;
    let books =
        runtime.block_on(ledger::read(&pool)).map_err(|error| Ended::refused("the books cannot be read", &error))?;
    let refused = books.postings.iter().filter(|posting| !posting.applied).count() as u64;
    println!("{}", Figures { accounts: names.len() as u64, refused, ..figures }.table());
    let breaches = breaches(&day.entries, &books);
    if breaches.is_empty() {
        println!("reconciled: every entry once, each account's in their order, every balance as the entries say");
        Ok(())
    } else {
        Err(Ended::Breach(breaches))
    }
}

/// Topics of other runs are not read.
fn uuid_like(seed: u64) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{seed}-{}-{}", now.as_nanos(), std::process::id())
}

/// What happens between the empty books and the full ones.
struct Day<'a, DB: Engine> {
    args: &'a Args,
    pool: &'a Pool<DB>,
    brokers: String,
    topic: String,
    url: &'a str,
    entries: Arc<Vec<Entry>>,
}

impl<DB: Engine> Day<'_, DB> {
    async fn run(&self) -> Result<Figures, Ended> {
        let began = Instant::now();
        let both_at_work = Arc::new(AtomicBool::new(false));
        let [killed, staying] = WORKERS.map(|name| Member::start(&self.worker(name)));
        let (mut killed, staying) = (Some(killed?), staying?);
        let producing = self.produce(&both_at_work)?;
        let (entries, bar) = (self.entries.len() as u64, Bar::of(self.entries.len() as u64));
        let mut kill: Option<(u64, Instant)> = None;
        let (mut all, mut moved_at) = (0, Instant::now());
        let posted = loop {
            tokio::time::sleep(LOOK).await;
            let posted = ledger::posted(self.pool).await;
            let posted = posted.map_err(|error| Ended::refused("the books cannot be read", &error))?;
            bar.show(&posted);
            let sum = posted.values().sum();
            if sum != all {
                (all, moved_at) = (sum, Instant::now());
            }
            if WORKERS.iter().all(|name| posted.contains_key(*name)) {
                both_at_work.store(true, Relaxed);
                // 100: what is killed then would not be in the middle of anything.
                if self.args.kill_at < 100
                    && all * 100 >= entries * u64::from(self.args.kill_at)
                    && let Some(member) = killed.take_if(|_| all < entries)
                {
                    member.kill()?;
                    kill = Some((all, Instant::now()));
                }
            }
            if all >= entries {
                break posted;
            }
            if moved_at.elapsed() > STANDSTILL + self.args.session() {
                return Err(Ended::Breach(vec![format!("the ledger stands still at {all} of {entries} entries")]));
            }
        };
        bar.end();
        producing.await.map_err(|panic| Ended::refused("the producer", &panic))??;
        for member in [Some(staying), killed].into_iter().flatten() {
            member.end()?;
        }
        let killed =
            kill.map(|(at, when)| Killed { worker: WORKERS[0].to_owned(), at, until_all_posted: when.elapsed() });
        Ok(Figures { entries, posted, killed, took: began.elapsed(), ..Figures::default() })
    }

    fn worker(&self, name: &str) -> WorkerArgs {
        WorkerArgs {
            name: name.to_owned(),
            database: self.url.to_owned(),
            brokers: self.brokers.clone(),
            topic: self.topic.clone(),
            session_ms: self.args.session_ms,
            unfenced: self.args.unfenced,
        }
    }

    /// Produces the entries in their order, each once.
    fn produce(&self, both_at_work: &Arc<AtomicBool>) -> Result<JoinHandle<Result<(), Ended>>, Ended> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers).set("enable.idempotence", "true").set("linger.ms", "1");
        let producer: FutureProducer = config.create().map_err(|error| Ended::refused("the producer", &error))?;
        let (topic, entries, rate) = (self.topic.clone(), Arc::clone(&self.entries), self.args.rate);
        let both_at_work = Arc::clone(both_at_work);
        Ok(tokio::spawn(async move {
            let mut reports = Vec::with_capacity(entries.len());
            let mut due = tokio::time::Instant::now();
            for entry in &*entries {
                let rate = if both_at_work.load(Relaxed) { rate } else { rate.min(FIRST_RATE) };
                due += Duration::from_secs(1) / rate;
                tokio::time::sleep_until(due).await;
                let value = serde_json::to_vec(&entry.moved).map_err(|error| Ended::refused("an entry", &error))?;
                let record = FutureRecord::to(&topic).key(&entry.account).payload(&value);
                reports.push(producer.send_result(record).map_err(|(error, _)| Ended::refused("an entry", &error))?);
            }
            for report in reports {
                let report = report.await.map_err(|error| Ended::refused("an entry's report", &error))?;
                report.map_err(|(error, _)| Ended::refused("an entry was not taken", &error))?;
            }
            Ok(())
        }))
    }
}

/// A worker process; it does not outlive the value.
struct Member(Option<Child>);

impl Member {
    fn start(args: &WorkerArgs) -> Result<Self, Ended> {
        worker::start(args).map(|child| Self(Some(child)))
    }

    /// kill -9.
    fn kill(mut self) -> Result<(), Ended> {
        let failed = |error: std::io::Error| Ended::refused("a worker cannot be killed", &error);
        let Some(mut child) = self.0.take() else { return Ok(()) };
        child.kill().map_err(failed)?;
        child.wait().map(drop).map_err(failed)
    }

    fn end(mut self) -> Result<(), Ended> {
        let words = self.0.take().map(worker::end).transpose()?;
        tracing::info!(words, "a worker ended");
        Ok(())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // One that has ended cannot be killed.
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}
