//! Idempotency keys around one INSERT, first request and replay.

mod by_hand;

use std::sync::Arc;

use anyhow::{bail, ensure};
use fastrand::Rng;
use leastlock_idempotency::{Begin, Fingerprint, Key, Keys, MIGRATIONS, Scope};
use leastlock_testkit::TestDatabase;
use serde::{Deserialize, Serialize};
use sqlx::Pool;

pub(crate) use self::by_hand::IdempotencyByHand;
use crate::contest::{Contest, compare};
use crate::engine::BenchEngine;
use crate::options::Options;
use crate::report::Report;

const EFFECTS: &str = "SELECT count(*) FROM effect";
const KEYS_OF_EFFECTS: &str = "SELECT count(DISTINCT request_key) FROM effect";
const RECORDS: &str = "SELECT count(*) FROM leastlock_idempotency";
const ANSWERED: &str =
    "SELECT count(*) FROM leastlock_idempotency WHERE state = 'completed' AND response_body IS NOT NULL";

/// How many answers there are to replay.
const STORED_ANSWERS: usize = 1000;

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
struct Shop<DB: BenchEngine> {
    database: Arc<TestDatabase<DB>>,
    pool: Pool<DB>,
    keys: Keys,
}

impl<DB: BenchEngine> Shop<DB> {
    fn new(database: &Arc<TestDatabase<DB>>, pool: &Pool<DB>) -> Self {
        Self { database: Arc::clone(database), pool: pool.clone(), keys: Keys::default() }
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

/// Requests that come for the first time.
#[derive(Debug)]
struct First<DB: BenchEngine>(Shop<DB>);

impl<DB: BenchEngine> Contest for First<DB> {
    type Contender = Way;
    const CONTENDERS: &'static [(&'static str, Way)] =
        &[("leastlock", Way::Leastlock), ("by hand", Way::ByHand), ("effect alone", Way::Bare)];

    fn measure(&self) -> &'static str {
        "first request"
    }

    async fn prepare(&self) -> anyhow::Result<()> {
        self.0.empty().await;
        Ok(())
    }

    async fn call(&self, contender: Way, rng: &mut Rng) -> anyhow::Result<u64> {
        match self.0.place(contender, &Order::random(rng)).await? {
            Placed::First(_) => Ok(1),
            Placed::Replay(receipt) => bail!("a request that was never sent before was answered with {receipt:?}"),
        }
    }

    async fn verify(&self, contender: Way, effects: u64) -> anyhow::Result<()> {
        let records = if matches!(contender, Way::Bare) { 0 } else { effects };
        self.0.holds(effects, records).await
    }
}

/// Requests that were answered before.
#[derive(Debug)]
struct Replay<DB: BenchEngine> {
    shop: Shop<DB>,
    by_leastlock: Vec<(Order, Receipt)>,
    by_hand: Vec<(Order, Receipt)>,
}

impl<DB: BenchEngine> Replay<DB> {
    async fn new(shop: Shop<DB>, seed: u64) -> anyhow::Result<Self> {
        shop.empty().await;
        let by_leastlock = first_answers(&shop, Way::Leastlock, Rng::with_seed(seed)).await?;
        let by_hand = first_answers(&shop, Way::ByHand, Rng::with_seed(!seed)).await?;
        Ok(Self { shop, by_leastlock, by_hand })
    }
}

async fn first_answers<DB: BenchEngine>(
    shop: &Shop<DB>,
    way: Way,
    mut rng: Rng,
) -> anyhow::Result<Vec<(Order, Receipt)>> {
    let mut answers = Vec::with_capacity(STORED_ANSWERS);
    for _ in 0..STORED_ANSWERS {
        let order = Order::random(&mut rng);
        let Placed::First(receipt) = shop.place(way, &order).await? else { bail!("a key was not free") };
        answers.push((order, receipt));
    }
    Ok(answers)
}

impl<DB: BenchEngine> Contest for Replay<DB> {
    type Contender = Way;
    const CONTENDERS: &'static [(&'static str, Way)] =
        &[("leastlock", Way::Leastlock), ("by hand", Way::ByHand), ("SELECT alone", Way::LookUp)];

    fn measure(&self) -> &'static str {
        "replay"
    }

    /// Replays change nothing, so the answers stay as they are.
    async fn prepare(&self) -> anyhow::Result<()> {
        Ok(())
    }

    async fn call(&self, contender: Way, rng: &mut Rng) -> anyhow::Result<u64> {
        let answers = if matches!(contender, Way::Leastlock) { &self.by_leastlock } else { &self.by_hand };
        let (order, expected) = &answers[rng.usize(..answers.len())];
        match self.shop.place(contender, order).await? {
            Placed::Replay(receipt) if receipt == *expected => Ok(0),
            other => bail!("the first answer was {expected:?}, the repeat got {other:?}"),
        }
    }

    async fn verify(&self, _contender: Way, effects: u64) -> anyhow::Result<()> {
        let stored = (self.by_leastlock.len() + self.by_hand.len()) as u64;
        self.shop.holds(stored + effects, stored).await
    }
}

/// Measures the scenario.
pub(crate) async fn run<DB: BenchEngine>(options: &Options) -> anyhow::Result<Report> {
    let database = database::<DB>().await;
    let mut report = Report::begin("idempotency", options, &database).await?;
    for &clients in &options.clients {
        let pool = DB::pool(&database.url, clients).await?;
        let contest = First(Shop::new(&database, &pool));
        report.comparisons.push(compare(contest, clients, options).await?);
        pool.close().await;
    }
    for &clients in &options.clients {
        let pool = DB::pool(&database.url, clients).await?;
        let contest = Replay::new(Shop::new(&database, &pool), options.seed).await?;
        report.comparisons.push(compare(contest, clients, options).await?);
        pool.close().await;
    }
    Ok(report)
}

async fn database<DB: BenchEngine>() -> Arc<TestDatabase<DB>> {
    let database = TestDatabase::<DB>::create().await.with(&MIGRATIONS).await;
    database.execute(DB::EFFECT_TABLE).await;
    Arc::new(database)
}

#[cfg(test)]
mod tests {
    use leastlock_testkit::database::{Postgres, Sqlite};

    use super::*;

    async fn both_ways_answer_a_repeat_with_the_first_answer<DB: BenchEngine>() {
        let database = database::<DB>().await;
        let shop = Shop::new(&database, &DB::pool(&database.url, 2).await.unwrap());
        for (number, way) in (1..).zip([Way::Leastlock, Way::ByHand]) {
            let mut order = Order::random(&mut Rng::with_seed(number));
            let Placed::First(first) = shop.place(way, &order).await.unwrap() else { panic!("the key was free") };
            let Placed::Replay(repeat) = shop.place(way, &order).await.unwrap() else { panic!("the key was used") };
            assert_eq!(first, repeat);
            order.units += 1;
            shop.place(way, &order).await.expect_err("the same key with another request");
            shop.holds(number, number).await.unwrap();
        }
    }

    async fn effects_without_records_and_records_without_effects_are_noticed<DB: BenchEngine>() {
        let database = database::<DB>().await;
        let contest = First(Shop::new(&database, &DB::pool(&database.url, 2).await.unwrap()));
        let mut rng = Rng::with_seed(5);
        for contender in [Way::Leastlock, Way::ByHand, Way::Bare] {
            contest.prepare().await.unwrap();
            for _ in 0..3 {
                assert_eq!(contest.call(contender, &mut rng).await.unwrap(), 1);
            }
            contest.verify(contender, 3).await.unwrap();
            contest.verify(contender, 4).await.expect_err("an effect is missing");
            let order = Order::random(&mut rng);
            contest.0.place(Way::Bare, &order).await.unwrap();
            contest.verify(contender, 3).await.expect_err("an effect that no call claims");
            contest.0.place(Way::Bare, &order).await.unwrap();
            contest.verify(contender, 5).await.expect_err("one request had its effect twice");
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
