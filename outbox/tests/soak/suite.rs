//! What is left of events when their relays are killed and stopped.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use leastlock_outbox::sink::EVENT_ID_HEADER;
use leastlock_outbox::{MIGRATIONS, Outbox};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::broker::{Broker, Record};
use leastlock_testkit::checkers::order::{Delivery, complete};
use leastlock_testkit::process::Child;
use sqlx::Postgres;
use tokio_util::sync::CancellationToken;

use crate::relays::Reader;
use crate::writers;

/// How long what must come is waited for.
const PATIENCE: Duration = Duration::from_mins(1);
/// How long what a double withholds is waited for; only the double's proof depends on it.
const DOUBLES_CHANCE: Duration = Duration::from_secs(4);
const RELAYS: usize = 4;
/// How long relays are harmed.
const HARM: Duration = Duration::from_secs(6);
/// So long that a relay on a busy machine keeps its shards: one that loses them repeats what it had in flight.
const LEASE_UNLESS_KILLED: Duration = Duration::from_secs(6);
/// Over in many a stop.
const LEASE: Duration = Duration::from_millis(1500);
const IN_FLIGHT: u32 = 500;
const BACKLOG: usize = 40_000;

pub(crate) async fn b4_relays_that_are_killed_and_stopped_lose_and_turn_round_nothing(
    database: TestDatabase<Postgres>,
) {
    let seed = seed();
    let product = Reader::Relay { lease: LEASE, in_flight: IN_FLIGHT, in_transactions: false };
    let left = Scenario::on(database).await.harmed(product, seed, PATIENCE).await;
    println!("{} records of {} events", left.records.len(), left.committed.iter().map(|(_, moves)| moves).sum::<u64>());
    left.is_complete().unwrap_or_else(|breach| panic!("seed {seed}: {breach}"));

    let (lossy, late) =
        (Scenario::on(TestDatabase::create().await).await, Scenario::on(TestDatabase::create().await).await);
    let (lossy, late) = tokio::join!(
        lossy.harmed(Reader::NotesFirst, seed, DOUBLES_CHANCE),
        late.harmed(Reader::SkipsLocked, seed, PATIENCE),
    );
    assert!(lossy.lost() > 0, "the double must be seen to lose events: notes first");
    assert_eq!(late.lost(), 0, "it has another mistake");
    assert!(late.inverted() > 0, "the double must be seen to turn events round: skips locked rows");
}

/// The same in transactions, whose producers fence each other. The doubles are above.
pub(crate) async fn b4_relays_in_transactions_that_are_killed_and_stopped_lose_and_turn_round_nothing(
    database: TestDatabase<Postgres>,
) {
    let seed = seed();
    let product = Reader::Relay { lease: LEASE, in_flight: IN_FLIGHT, in_transactions: true };
    let left = Scenario::on(database).await.harmed(product, seed, PATIENCE).await;
    left.is_complete().unwrap_or_else(|breach| panic!("seed {seed}: {breach}"));
}

fn seed() -> u64 {
    let seed =
        std::env::var("LEASTLOCK_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("LEASTLOCK_SEED={seed}");
    seed
}

pub(crate) async fn b18_relay_killed_with_events_in_flight_is_followed_once_its_lease_is_over(
    database: TestDatabase<Postgres>,
) {
    let with_lease = |lease| Reader::Relay { lease, in_flight: IN_FLIGHT, in_transactions: false };
    let left = Scenario::on(database).await.killed_in_a_drain(with_lease(LEASE_UNLESS_KILLED), PATIENCE).await;
    left.is_complete().unwrap_or_else(|breach| panic!("{breach}"));
    let again = left.repeats();
    assert!(again <= IN_FLIGHT as usize, "{again} were published again, of which at most {IN_FLIGHT} were in flight");

    let hours = with_lease(Duration::from_hours(1));
    let left = Scenario::on(TestDatabase::create().await).await.killed_in_a_drain(hours, DOUBLES_CHANCE).await;
    assert!(left.lost() > 0, "the double must be seen to keep its shards for an hour");
    let left = Scenario::on(TestDatabase::create().await).await.killed_in_a_drain(Reader::NeverNotes, PATIENCE).await;
    assert!(left.repeats() > IN_FLIGHT as usize, "the double must be seen to publish all again");
}

struct Scenario {
    database: TestDatabase<Postgres>,
    outbox: Outbox,
    broker: Broker,
    topic: String,
}

impl Scenario {
    async fn on(database: TestDatabase<Postgres>) -> Self {
        let database = database.with(&MIGRATIONS).await;
        writers::prepare(&database).await;
        let outbox = Outbox::open(&database.pool).await.expect("the tables are there");
        let broker = Broker::real();
        let topic = broker.topic(4).await;
        Self { database, outbox, broker, topic }
    }

    /// Several readers are killed and stopped while writers write; then all of them run, until everything has come or
    /// `limit` is over.
    async fn harmed(self, reader: Reader, seed: u64, limit: Duration) -> Left {
        let stop = CancellationToken::new();
        let mut writing = writers::start(&self.database.pool, &self.outbox, &self.topic, seed, &stop);
        let start = || reader.start(&self.database.url, &self.broker);
        let mut readers: Vec<Child> = (0..RELAYS).map(|_| start()).collect();
        let mut rng = fastrand::Rng::with_seed(seed);
        let until = Instant::now() + HARM;
        let mut stopped: Vec<(usize, Instant)> = Vec::new();
        while Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(rng.u64(100..700))).await;
            let (goes_on, stays): (Vec<_>, Vec<_>) =
                stopped.into_iter().partition(|(_, until)| *until < Instant::now());
            stopped = stays;
            for (number, _) in &goes_on {
                readers[*number].resume();
            }
            let number = rng.usize(..RELAYS);
            if stopped.iter().any(|(other, _)| *other == number) || rng.bool() {
                // Stopped or not.
                readers[number].kill();
                stopped.retain(|(other, _)| *other != number);
                readers[number] = start();
            } else {
                readers[number].stop();
                stopped.push((number, Instant::now() + Duration::from_millis(rng.u64(..3_000))));
            }
        }
        for (number, _) in &stopped {
            readers[*number].resume();
        }
        stop.cancel();
        while let Some(writer) = writing.join_next().await {
            writer.expect("no panic");
        }
        self.left(limit).await
    }

    /// A reader is killed in the middle of a backlog, and another is started.
    async fn killed_in_a_drain(self, reader: Reader, limit: Duration) -> Left {
        writers::fill(&self.database.pool, &self.outbox, &self.topic, BACKLOG).await;
        let mut first = reader.start(&self.database.url, &self.broker);
        let deadline = Instant::now() + PATIENCE;
        while self.records().await.len() < BACKLOG / 20 {
            assert!(Instant::now() < deadline, "it publishes");
        }
        first.kill();
        let _second = reader.start(&self.database.url, &self.broker);
        self.left(limit).await
    }

    /// What has come once everything has, or `limit` is over.
    async fn left(self, limit: Duration) -> Left {
        let committed = writers::committed(&self.database.pool).await;
        let mut left = Left { committed, records: Vec::new() };
        let deadline = Instant::now() + limit;
        loop {
            let was_last = Instant::now() > deadline;
            left.records = self.records().await;
            if was_last || left.lost() == 0 {
                return left;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn records(&self) -> Vec<Record> {
        self.broker.read_all(&self.topic, PATIENCE).await
    }
}

/// What is in the topic, and what was committed: how many moves of each key.
struct Left {
    committed: Vec<(String, u64)>,
    records: Vec<Record>,
}

impl Left {
    fn is_complete(&self) -> Result<(), leastlock_testkit::checkers::Breach> {
        let id = |record: &Record| {
            let id = record.header(EVENT_ID_HEADER).expect("an id");
            String::from_utf8(id.to_vec()).expect("text")
        };
        let deliveries: Vec<_> = self
            .numbered()
            .zip(&self.records)
            .map(|((key, number), record)| Delivery::new(key, number, id(record)))
            .collect();
        complete(&deliveries, self.committed.iter().map(|(key, moves)| (key.as_str(), *moves)))
    }

    fn numbered(&self) -> impl Iterator<Item = (&str, u64)> {
        self.records.iter().map(|record| (record.key_text(), record.value_text().parse().expect("a number")))
    }

    fn distinct(&self) -> HashSet<(&str, u64)> {
        self.numbered().collect()
    }

    fn lost(&self) -> usize {
        let distinct = self.distinct();
        let committed =
            self.committed.iter().flat_map(|(key, moves)| (1..=*moves).map(|number| (key.as_str(), number)));
        committed.filter(|event| !distinct.contains(event)).count()
    }

    fn repeats(&self) -> usize {
        self.records.len() - self.distinct().len()
    }

    /// How many came for the first time after a later one of their key.
    fn inverted(&self) -> usize {
        let (mut highest, mut seen) = (HashMap::new(), HashSet::new());
        let mut is_late = |(key, number): &(&str, u64)| {
            let highest = highest.entry((*key).to_owned()).or_insert(0);
            let is_late = *number < *highest && !seen.contains(&((*key).to_owned(), *number));
            *highest = (*highest).max(*number);
            seen.insert(((*key).to_owned(), *number));
            is_late
        };
        self.numbered().filter(|event| is_late(event)).count()
    }
}
