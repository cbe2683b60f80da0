//! A journal: each operation appends a row and is answered with its place. Zero is refused, what is negative breaks a
//! constraint, and one value waits in the middle of its batch until the test lets it go.

use std::sync::Arc;
use std::time::Duration;

use leastlock_core::Statement;
use leastlock_occ::combiner::{Apply, Batch, BatchError, CombinerSql};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Transaction;
use tokio::sync::Semaphore;

/// How long a test waits for what must come.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
/// The operation that waits at the gate.
pub(crate) const AT_THE_GATE: i64 = 1_000;
/// The operation that panics.
pub(crate) const PANICS: i64 = 1_001;
/// The operation that is not answered.
pub(crate) const UNANSWERED: i64 = 1_002;
/// The operation that needs the row of table `locked`.
pub(crate) const NEEDS_THE_LOCK: i64 = 1_003;

const LAST: &str = "SELECT COALESCE(max(place), 0) FROM journal";
const APPEND: &str = "INSERT INTO journal (place, amount) VALUES ($1, $2)";
const APPEND_MYSQL: &str = "INSERT INTO journal (place, amount) VALUES (?, ?)";
const LOCK: &str = "UPDATE locked SET id = id";

/// What an operation is answered with: its place, or nothing if it is refused.
pub(crate) type Place = Option<i64>;

/// Stops a batch in the middle.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    entered: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Gate {
    pub(crate) fn closed() -> Self {
        Self { entered: Arc::new(Semaphore::new(0)), open: Arc::new(Semaphore::new(0)) }
    }

    /// Waits until a batch has come to the gate.
    pub(crate) async fn reached(&self) {
        let reached = tokio::time::timeout(LIMIT, self.entered.acquire()).await;
        reached.expect("a batch comes to the gate").expect("it is never closed").forget();
    }

    pub(crate) fn open(&self) {
        self.open.add_permits(1);
    }

    pub(crate) async fn pass(&self) {
        self.entered.add_permits(1);
        self.open.acquire().await.expect("it is never closed").forget();
    }
}

/// Appends the operations, one by one, in one transaction.
#[derive(Debug, Clone)]
pub(crate) struct Append {
    pub(crate) gate: Gate,
}

impl<DB: CombinerSql> Apply<DB> for Append {
    type Operation = i64;
    type Answer = Place;

    async fn apply(&self, tx: &mut Transaction<'_, DB>, batch: &mut Batch<i64, Place>) -> Result<(), BatchError> {
        for (index, amount) in batch.operations().to_vec().into_iter().enumerate() {
            if amount == UNANSWERED {
                continue;
            }
            let place = append(tx, amount, &self.gate).await?;
            batch.answer(index, place);
        }
        Ok(())
    }

    async fn apply_at_once(&self, _: &mut DB::Connection, _: &[i64]) -> Result<Option<Vec<Place>>, BatchError> {
        Ok(None)
    }

    fn absorbs_repeats(&self, _operation: &i64) -> bool {
        false
    }
}

pub(crate) async fn append<DB: CombinerSql>(
    tx: &mut Transaction<'_, DB>,
    amount: i64,
    gate: &Gate,
) -> Result<Place, sqlx::Error> {
    match amount {
        0 => return Ok(None),
        PANICS => panic!("as the test wants"),
        NEEDS_THE_LOCK => drop(Statement::new(LOCK).execute::<DB>(tx).await?),
        _ => {}
    }
    let place = Statement::new(LAST).fetch_one::<DB>(tx).await?.int(0)? + 1;
    Statement::new(sql::<DB>(APPEND, APPEND_MYSQL)).bind(place).bind(amount).execute::<DB>(tx).await?;
    if amount == AT_THE_GATE {
        gate.pass().await;
    }
    Ok(Some(place))
}

pub(crate) async fn journal<DB: TestEngine>(database: &TestDatabase<DB>) {
    let table = "CREATE TABLE journal (place BIGINT NOT NULL PRIMARY KEY, amount BIGINT NOT NULL CHECK (amount > 0))";
    database.execute(table).await;
}

/// The amounts, in the order of their places.
pub(crate) async fn amounts<DB: TestEngine>(database: &TestDatabase<DB>) -> Vec<i64> {
    let mut connection = database.pool.acquire().await.expect("a connection");
    let rows = Statement::new("SELECT amount FROM journal ORDER BY place").fetch_all::<DB>(&mut connection).await;
    rows.expect("the journal").iter().map(|row| row.int(0).expect("an amount")).collect()
}
