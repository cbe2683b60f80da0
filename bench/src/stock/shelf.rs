//! The contest: rows, calls, and whether the database agrees with what the callers were told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::ensure;
use fastrand::Rng;
use leastlock_core::Statement;
use leastlock_occ::combiner::Drained;
use leastlock_occ::{Movement, StockCounter, StockTable, Version};
use leastlock_testkit::TestDatabase;
use sqlx::Pool;

use super::contender::Contender;
use super::item::Item;
use super::{Scene, StockEngine};
use crate::contest::{Claims, Contest, Done, Entrant, Round, Seat, Supply};
use crate::cpu::Cpu;
use crate::engine::open_pool;
use crate::load::Load;

const LOWEST: &str = "SELECT min(units) FROM stock";
const PLAIN_ORDERS: &str = "SELECT count(*) FROM plain_order";
const COMBINED_ORDERS: &str = "SELECT count(*) FROM leastlock_occ_order";

/// Units of each row that are more than a turn can take.
const AMPLE: i64 = 1_000_000_000;
/// Units of all rows together that are soon gone, while 256 clients still meet in the same row.
const SCARCE: i64 = 300;
/// So few rows that all of [`SCARCE`] are found at random.
const SCARCE_ROWS: usize = 10;

/// Longer than any batch takes.
const DRAIN_LIMIT: Duration = Duration::from_secs(30);

/// The rows of a scene.
#[derive(Debug)]
pub(super) struct Shelf<DB: StockEngine> {
    database: Arc<TestDatabase<DB>>,
    /// The most connections of a pool.
    limit: u32,
    scene: Scene,
    contenders: Vec<Contender>,
    codes: Vec<String>,
    /// Ids are never used twice, in any round.
    next_order: AtomicU64,
}

/// The pool of a turn, and the counter on it.
#[derive(Debug)]
pub(super) struct Arena<DB: StockEngine> {
    pool: Pool<DB>,
    counter: StockCounter<DB>,
}

/// What one client keeps to itself.
#[derive(Debug)]
pub(super) struct Client {
    rng: Rng,
    /// How many rows there are to choose from.
    rows: usize,
    /// The rows that nobody else writes, as they stand in the table.
    own: Vec<Item>,
    /// Whose turn it is.
    next: usize,
}

impl Client {
    fn own_row(&mut self) -> anyhow::Result<&mut Item> {
        let rows = self.own.len();
        ensure!(rows > 0, "there are more clients than rows");
        self.next = (self.next + 1) % rows;
        Ok(&mut self.own[self.next])
    }
}

impl<DB: StockEngine> Shelf<DB> {
    pub(super) fn new(database: &Arc<TestDatabase<DB>>, limit: u32, scene: Scene, contenders: Vec<Contender>) -> Self {
        let codes = (0..scene.rows()).map(|number| format!("item-{number}")).collect();
        Self { database: Arc::clone(database), limit, scene, contenders, codes, next_order: AtomicU64::new(0) }
    }

    pub(super) fn contenders(&self) -> &[Contender] {
        &self.contenders
    }

    /// How many rows there are, and how many units each has.
    fn opening(&self, supply: Supply) -> (usize, i64) {
        match (supply, self.scene) {
            (Supply::Ample, _) => (self.codes.len(), AMPLE),
            (Supply::Scarce, Scene::OwnRows) => (self.codes.len(), 1),
            (Supply::Scarce, _) => {
                let rows = self.codes.len().min(SCARCE_ROWS);
                (rows, SCARCE / i64::try_from(rows).unwrap_or(SCARCE))
            }
        }
    }

    fn order_id(&self) -> String {
        format!("order-{:012}", self.next_order.fetch_add(1, Relaxed))
    }

    async fn verify_orders(&self, contender: Contender, claims: Claims) -> anyhow::Result<()> {
        let stored = match contender {
            Contender::Order => self.database.int(PLAIN_ORDERS).await,
            Contender::CombinerOrders => self.database.int(COMBINED_ORDERS).await,
            _ => return Ok(()),
        };
        // An order that was refused is remembered as well.
        let given = claims.answered();
        ensure!(u64::try_from(stored)? == given, "{stored} order ids are stored, and {given} were answered");
        Ok(())
    }
}

impl<DB: StockEngine> Contest for Shelf<DB> {
    type Contender = Contender;
    type Arena = Arena<DB>;
    type Client = Client;

    fn measure(&self) -> &'static str {
        self.scene.measure()
    }

    fn entrants(&self) -> Vec<Entrant<Contender>> {
        self.contenders.iter().map(|contender| contender.entrant::<DB>()).collect()
    }

    fn can_run_out(&self) -> bool {
        true
    }

    async fn open(&self, clients: u32) -> anyhow::Result<Arena<DB>> {
        let pool = open_pool(&self.database.url, clients, self.limit).await?;
        let counter = StockCounter::builder(&pool, &StockTable::new("stock", "code", "units")?).build()?;
        Ok(Arena { pool, counter })
    }

    fn connections(&self, arena: &Arena<DB>) -> u32 {
        arena.pool.size()
    }

    async fn close(&self, arena: Arc<Arena<DB>>) -> anyhow::Result<()> {
        let drained = arena.counter.close(DRAIN_LIMIT).await;
        ensure!(drained == Drained::Whole, "the counter was not done in {DRAIN_LIMIT:?}");
        arena.pool.close().await;
        Ok(())
    }

    async fn prepare(&self, contender: Contender, supply: Supply) -> anyhow::Result<()> {
        self.database.execute(DB::EMPTY_STOCK).await;
        match contender {
            Contender::Order => self.database.execute(DB::EMPTY_ORDERS[0]).await,
            Contender::CombinerOrders => self.database.execute(DB::EMPTY_ORDERS[1]).await,
            _ => {}
        }
        let (rows, units) = self.opening(supply);
        let open = Statement::new(DB::OPEN).bind(i64::try_from(rows)?).bind(units);
        open.execute::<DB>(&mut *self.database.pool.acquire().await?).await?;
        Ok(())
    }

    fn client(&self, _contender: Contender, seat: Seat) -> Client {
        let (rows, units) = self.opening(seat.supply);
        let own = self.codes.iter().skip(seat.number as usize).step_by(seat.of as usize);
        let own = own.map(|code| Item { code: code.clone(), units, version: Version::FIRST });
        let own = if self.scene == Scene::OwnRows { own.collect() } else { Vec::new() };
        Client { rng: seat.rng, rows, own, next: 0 }
    }

    async fn call(&self, arena: &Arena<DB>, contender: Contender, client: &mut Client) -> anyhow::Result<Done> {
        let (pool, code) = (&arena.pool, self.codes[client.rng.usize(..client.rows)].as_str());
        let counter = &arena.counter;
        let was_there = match contender {
            Contender::Update => DB::take(pool, code).await?,
            Contender::Guarded => DB::take_guarded(pool, code).await?,
            Contender::Combiner => counter.submit(Movement::take(code, 1)?).await?.is_applied(),
            Contender::ForUpdate => DB::take_under_lock(pool, code).await?,
            Contender::Retry => return DB::take_with_retry(pool, code).await,
            Contender::Order => DB::order(pool, &self.order_id(), code).await?,
            Contender::CombinerOrders => {
                let movement = Movement::take(code, 1)?.with_order_id(self.order_id())?;
                counter.submit(movement).await?.is_applied()
            }
            Contender::VersionedByHand => DB::take_checked(pool, client.own_row()?).await?,
            Contender::Versioned => DB::take_versioned(pool, client.own_row()?).await?,
            Contender::ReadThenWrite => DB::take_unlocked(pool, code).await?,
        };
        Ok(Done::at_once(was_there))
    }

    async fn run(&self, load: &Load<'_, Self>, time: Duration, cpu: Cpu) -> anyhow::Result<(Round, Claims)> {
        load.run_for(time, cpu).await
    }

    /// Oversold is what was given to callers and not taken from a row, and what was taken beyond what a row had.
    async fn verify(&self, contender: Contender, supply: Supply, claims: Claims) -> anyhow::Result<u64> {
        let (rows, units) = self.opening(supply);
        let (opened, left) = (i64::try_from(rows)? * units, self.database.int(DB::SUM).await);
        let (given, taken) = (i64::try_from(claims.effects)?, opened - left);
        ensure!(taken <= given, "{taken} units are gone of {opened}, and only {given} were given to anybody");
        self.verify_orders(contender, claims).await?;
        if supply == Supply::Ample {
            ensure!(self.database.int(LOWEST).await > 0, "a row was sold out: the load was not as planned");
        }
        let overdrawn = self.database.int(DB::OVERDRAWN).await;
        Ok(u64::try_from(given - taken + overdrawn)?)
    }
}

#[cfg(test)]
mod tests;
