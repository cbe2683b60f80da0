//! Idempotency keys around one INSERT, first request and replay.

mod by_hand;
mod requests;

use std::sync::Arc;

use anyhow::{bail, ensure};
use fastrand::Rng;
use leastlock_idempotency::{Begin, Fingerprint, IdempotencySql, Key, Keys, MIGRATIONS, Scope};
use leastlock_testkit::TestDatabase;
use serde::{Deserialize, Serialize};
use sqlx::Pool;

pub(crate) use self::by_hand::IdempotencyByHand;
use self::requests::{First, Replay};
use crate::contest::{Course, compare, turns};
use crate::engine::{BenchEngine, open_pool};
use crate::options::Options;
use crate::progress::Progress;
use crate::report::Report;

const EFFECTS: &str = "SELECT count(*) FROM effect";
const KEYS_OF_EFFECTS: &str = "SELECT count(DISTINCT request_key) FROM effect";
const RECORDS: &str = "SELECT count(*) FROM leastlock_idempotency";
const ANSWERED: &str =
    "SELECT count(*) FROM leastlock_idempotency WHERE state = 'completed' AND response_body IS NOT NULL";

/// An engine that has keys.
pub(crate) trait KeyEngine: BenchEngine + IdempotencySql + IdempotencyByHand {}

impl<DB: BenchEngine + IdempotencySql + IdempotencyByHand> KeyEngine for DB {}

/// What a client sends.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Order {
    #[serde(skip)]
    key: String,
    item: String,
    units: i64,
}

/// What it gets, and gets again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Receipt {
    order: i64,
    item: String,
    units: i64,
}

/// What came of a request.
#[derive(Debug)]
pub(crate) enum Placed {
    First(Receipt),
    Replay(Receipt),
}

impl Order {
    /// An order with a key of 128 random bits.
    fn random(rng: &mut Rng) -> Self {
        let item = format!("item-{}", rng.u32(..1000));
        Self { key: format!("{:032x}", rng.u128(..)), item, units: rng.i64(1..=12) }
    }

    fn body(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(self)
    }

    fn receipt(&self, order: i64) -> Receipt {
        Receipt { order, item: self.item.clone(), units: self.units }
    }
}

/// How a request is answered.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    Leastlock,
    ByHand,
    /// The effect alone.
    Bare,
    /// The stored answer alone.
    LookUp,
}

/// The service that answers requests, in each way.
#[derive(Debug)]
struct Shop<DB: KeyEngine> {
    pool: Pool<DB>,
    keys: Keys,
}

impl<DB: KeyEngine> Shop<DB> {
    fn new(pool: &Pool<DB>) -> Self {
        Self { pool: pool.clone(), keys: Keys::default() }
    }

    async fn place(&self, way: Way, order: &Order) -> anyhow::Result<Placed> {
        match way {
            Way::Leastlock => self.place_with_leastlock(order).await,
            Way::ByHand => by_hand::place(&self.pool, order).await,
            Way::Bare => by_hand::bare(&self.pool, order).await,
            Way::LookUp => by_hand::look_up(&self.pool, order).await,
        }
    }

    async fn place_with_leastlock(&self, order: &Order) -> anyhow::Result<Placed> {
        let key = Key::new(&Scope::new("tenant-7", "user-3", "place-orders-keys")?, &order.key)?;
        let fingerprint = Fingerprint::request("POST", "/orders", "").json(&order.body()?);
        match self.keys.begin(&self.pool, &key, &fingerprint).await? {
            Begin::First(mut unit) => {
                let receipt = order.receipt(DB::effect(&mut *unit.tx(), order).await?);
                Ok(Placed::First(unit.complete(receipt).await?))
            }
            Begin::Replay(receipt) => Ok(Placed::Replay(receipt)),
            Begin::Mismatch => bail!("the key was used for another request"),
            Begin::InFlight { .. } => bail!("the first is still running"),
        }
    }
}

/// Where both contests take place.
#[derive(Debug)]
struct Site<DB: KeyEngine> {
    database: Arc<TestDatabase<DB>>,
    /// The most connections of a pool.
    limit: u32,
}

impl<DB: KeyEngine> Site<DB> {
    async fn open(&self, clients: u32) -> anyhow::Result<Shop<DB>> {
        Ok(Shop::new(&open_pool(&self.database.url, clients, self.limit).await?))
    }

    async fn empty(&self) {
        self.database.execute(DB::EMPTY_EFFECTS).await;
        self.database.execute(DB::EMPTY_KEYS).await;
    }

    /// Whether there are so many effects, each of another request, and so many records, each answered.
    async fn holds(&self, effects: u64, records: u64) -> anyhow::Result<()> {
        for (sql, expected) in [(EFFECTS, effects), (KEYS_OF_EFFECTS, effects), (RECORDS, records), (ANSWERED, records)]
        {
            let found = self.database.int(sql).await;
            ensure!(u64::try_from(found)? == expected, "{sql}: {found}, where {expected} are right");
        }
        Ok(())
    }
}

/// Measures the scenario.
pub(crate) async fn run<DB: KeyEngine>(options: &Options) -> anyhow::Result<Report> {
    let database = database::<DB>().await;
    let (limit, cpu) = (DB::limit(&database).await?, DB::cpu(&database).await?);
    let mut report = Report::begin("idempotency", options.command("idempotency"), options, &database).await?;
    report.ratio = "leastlock / this";
    let site = || Site { database: Arc::clone(&database), limit };
    let (turns, time) = turns(2 * 3, options);
    let course = Course { options, cpu, progress: Progress::begin(turns, time) };
    report.comparisons = compare(First(site()), &course).await?;
    report.comparisons.extend(compare(Replay::new(site(), options.seed).await?, &course).await?);
    course.progress.end();
    Ok(report)
}

async fn database<DB: KeyEngine>() -> Arc<TestDatabase<DB>> {
    let database = TestDatabase::<DB>::create().await.with(&MIGRATIONS).await;
    database.execute(DB::EFFECT_TABLE).await;
    Arc::new(database)
}

#[cfg(test)]
mod tests {
    use leastlock_testkit::database::{Postgres, Sqlite};

    use super::*;
    use crate::contest::{Claims, Contest, Supply};

    async fn both_ways_answer_a_repeat_with_the_first_answer<DB: KeyEngine>() {
        let database = database::<DB>().await;
        let site = Site { database, limit: 2 };
        let shop = site.open(2).await.unwrap();
        for (number, way) in (1..).zip([Way::Leastlock, Way::ByHand]) {
            let mut order = Order::random(&mut Rng::with_seed(number));
            let Placed::First(first) = shop.place(way, &order).await.unwrap() else { panic!("the key was free") };
            let Placed::Replay(repeat) = shop.place(way, &order).await.unwrap() else { panic!("the key was used") };
            assert_eq!(first, repeat);
            order.units += 1;
            shop.place(way, &order).await.expect_err("the same key with another request");
            site.holds(number, number).await.unwrap();
        }
    }

    async fn effects_without_records_and_records_without_effects_are_noticed<DB: KeyEngine>() {
        let contest = First(Site { database: database::<DB>().await, limit: 2 });
        let shop = contest.open(2).await.unwrap();
        let mut rng = Rng::with_seed(5);
        let (supply, claim) = (Supply::Ample, |effects| Claims { effects, ..Claims::default() });
        for contender in [Way::Leastlock, Way::ByHand, Way::Bare] {
            contest.prepare(contender, supply).await.unwrap();
            for _ in 0..3 {
                contest.call(&shop, contender, &mut rng).await.unwrap();
            }
            contest.verify(contender, supply, claim(3)).await.unwrap();
            contest.verify(contender, supply, claim(4)).await.expect_err("an effect is missing");
            let order = Order::random(&mut rng);
            shop.place(Way::Bare, &order).await.unwrap();
            contest.verify(contender, supply, claim(3)).await.expect_err("an effect that no call claims");
            shop.place(Way::Bare, &order).await.unwrap();
            contest.verify(contender, supply, claim(5)).await.expect_err("one request had its effect twice");
        }
    }

    #[tokio::test]
    async fn both_ways_answer_a_repeat_with_the_first_answer_on_sqlite() {
        both_ways_answer_a_repeat_with_the_first_answer::<Sqlite>().await;
    }

    #[tokio::test]
    async fn both_ways_answer_a_repeat_with_the_first_answer_on_postgres() {
        both_ways_answer_a_repeat_with_the_first_answer::<Postgres>().await;
    }

    #[tokio::test]
    async fn effects_without_records_and_records_without_effects_are_noticed_on_sqlite() {
        effects_without_records_and_records_without_effects_are_noticed::<Sqlite>().await;
    }

    #[tokio::test]
    async fn effects_without_records_and_records_without_effects_are_noticed_on_postgres() {
        effects_without_records_and_records_without_effects_are_noticed::<Postgres>().await;
    }
}
