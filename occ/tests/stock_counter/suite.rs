//! The cases, over any engine.

use std::time::Duration;

use leastlock_core::Statement;
use leastlock_occ::combiner::{BatchError, CombineError};
use leastlock_occ::{Beside, Counted, MIGRATIONS, Movement, StockCounter, StockSql, StockTable};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::{Pool, Transaction};

use super::doubles::{LooksForTheOrderFirst, ReadsDecidesWrites};

/// Clients that buy at once; the double needs a place for each to read before any writes.
const CLIENTS: usize = 200;
/// How long a test waits for what must come.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);
pub(crate) const UNITS: &str = "SELECT units FROM stock WHERE code = '85123A'";

const TABLE: &str = "CREATE TABLE stock (code VARCHAR(20) PRIMARY KEY, units BIGINT NOT NULL)";
const TABLE_MYSQL: &str = "CREATE TABLE stock (code VARBINARY(20) PRIMARY KEY, units BIGINT NOT NULL)";
const LINE: &str = "INSERT INTO line VALUES ($1)";
const LINE_MYSQL: &str = "INSERT INTO line VALUES (?)";

pub(crate) fn table() -> StockTable {
    StockTable::new("stock", "code", "units").expect("plain names")
}

pub(crate) fn counter<DB: StockSql>(pool: &Pool<DB>) -> StockCounter<DB> {
    StockCounter::builder(pool, &table()).build().expect("the limits are right")
}

pub(crate) fn take(key: &str, units: i64) -> Movement {
    Movement::take(key, units).expect("it is within bounds")
}

pub(crate) async fn stock<DB: TestEngine>(database: TestDatabase<DB>) -> TestDatabase<DB> {
    let database = database.with(&MIGRATIONS).await;
    database.execute(sql::<DB>(TABLE, TABLE_MYSQL)).await;
    database.execute("INSERT INTO stock VALUES ('85123A', 5), ('85123a', 7), ('22423', 1)").await;
    database
}

/// Takes a unit of `85123A`; answers whether it has one.
pub(crate) trait Shop<DB: StockSql> {
    fn open(pool: &Pool<DB>, clients: usize) -> Self;

    fn buy(&self, order_id: Option<String>) -> impl Future<Output = bool> + Send + 'static;
}

impl<DB: StockSql> Shop<DB> for StockCounter<DB> {
    fn open(pool: &Pool<DB>, _clients: usize) -> Self {
        counter(pool)
    }

    fn buy(&self, order_id: Option<String>) -> impl Future<Output = bool> + Send + 'static {
        let counter = self.clone();
        async move {
            let mut movement = take("85123A", 1);
            if let Some(order_id) = order_id {
                movement = movement.with_order_id(order_id).expect("it is within bounds");
            }
            counter.submit(movement).await.expect("an answer").is_applied()
        }
    }
}

/// Answers how many bought, and what is left of 100.
async fn storm<DB: TestEngine + StockSql, I: Shop<DB>>(
    database: &TestDatabase<DB>,
    order_of: impl Fn(usize) -> Option<String>,
) -> (usize, i64) {
    database.execute("UPDATE stock SET units = 100 WHERE code = '85123A'").await;
    let shop = I::open(&database.pool, CLIENTS);
    let clients: Vec<_> = (0..CLIENTS).map(|client| tokio::spawn(shop.buy(order_of(client)))).collect();
    let mut sold = 0;
    for client in clients {
        sold += usize::from(client.await.expect("a client ends"));
    }
    (sold, database.int(UNITS).await)
}

pub(crate) async fn o15_two_hundred_clients_take_exactly_the_stock<DB: TestEngine + StockSql>(
    database: TestDatabase<DB>,
) {
    let database = stock(database).await;
    assert_eq!(storm::<DB, StockCounter<DB>>(&database, |_| None).await, (100, 0));
    assert_eq!(storm::<DB, StockCounter<DB>>(&database, |client| Some(client.to_string())).await, (100, 0));
    let (sold, _) = storm::<DB, ReadsDecidesWrites<DB>>(&database, |_| None).await;
    assert!(sold > 100, "the double is not caught");
}

pub(crate) async fn o15_repeats_of_an_order_take_its_units_once<DB: TestEngine + StockSql>(database: TestDatabase<DB>) {
    let database = stock(database).await;
    database.execute("CREATE TABLE seen (order_id VARCHAR(20) NOT NULL)").await;
    // Forty orders, each sent five times at once.
    let order_of = |client: usize| Some(format!("order-{}", client % 40));
    assert_eq!(storm::<DB, StockCounter<DB>>(&database, order_of).await, (200, 60));
    let (sold, left) = storm::<DB, LooksForTheOrderFirst<DB>>(&database, order_of).await;
    assert_ne!((sold, left), (200, 60), "the double is not caught");
}

pub(crate) async fn o13_one_impossible_movement_fails_alone<DB: TestEngine + StockSql>(database: TestDatabase<DB>) {
    let database = stock(database).await;
    database.execute("CREATE TABLE line (code VARCHAR(20) NOT NULL CHECK (code <> 'impossible'))").await;
    let counter = StockCounter::builder(&database.pool, &table()).beside(Lines).build().expect("the limits are right");
    let submit = |code: &str| counter.try_submit(take("85123a", 1).with_note(code.to_owned())).expect("there is room");
    let pending: Vec<_> = ["a", "b", "impossible", "c"].into_iter().map(submit).collect();
    let mut told = Vec::new();
    for pending in pending {
        told.push(match pending.await {
            Ok(answer) => answer.is_applied(),
            Err(CombineError::Failed { .. }) => false,
            Err(error) => panic!("{error}"),
        });
    }
    assert_eq!(told, [true, true, false, true]);
    assert_eq!(database.int("SELECT units FROM stock WHERE code = '85123a'").await, 4);
    assert_eq!(database.int("SELECT count(*) FROM line").await, 3);
}

pub(crate) async fn a_repeat_is_answered_as_the_first_was<DB: TestEngine + StockSql>(database: TestDatabase<DB>) {
    let database = stock(database).await;
    let counter = counter(&database.pool);
    let order = |movement: Movement, id: &str| movement.with_order_id(id).expect("it is within bounds");
    let applied = order(take("85123A", 3), "1");
    let refused = order(take("85123A", 3), "2");
    let missing = order(take("none", 1), "3");
    let many = order(take("85123A", 1).and_take("22423", 1).expect("it is within bounds"), "4");
    let too_few = Counted::Refused { key: "85123A".to_owned(), units: 2 };
    let no_row = Counted::NoSuchRow { key: "none".to_owned() };
    for repeat in 0..3 {
        assert_eq!(counter.submit(applied.clone()).await.expect("an answer"), Counted::Applied, "{repeat}");
        assert_eq!(counter.submit(refused.clone()).await.expect("an answer"), too_few, "{repeat}");
        assert_eq!(counter.submit(missing.clone()).await.expect("an answer"), no_row, "{repeat}");
        assert_eq!(counter.submit(many.clone()).await.expect("an answer"), Counted::Applied, "{repeat}");
        // What would be met by now, or not any more, is still answered as at first.
        let plenty = Movement::give("85123A", 1).expect("it is within bounds");
        assert_eq!(counter.submit(plenty).await.expect("an answer"), Counted::Applied);
    }
    assert_eq!(database.int(UNITS).await, 5 - 3 - 1 + 3);
    assert_eq!(database.int("SELECT count(*) FROM leastlock_occ_order").await, 4);
}

pub(crate) async fn another_movement_under_the_same_order_id_is_a_mismatch<DB: TestEngine + StockSql>(
    database: TestDatabase<DB>,
) {
    let database = stock(database).await;
    let counter = counter(&database.pool);
    let order = |movement: Movement| movement.with_order_id("536365").expect("it is within bounds");
    assert_eq!(counter.submit(order(take("85123A", 3))).await.expect("an answer"), Counted::Applied);
    for other in [take("85123A", 2), take("85123a", 3), take("85123A", 3).and_take("22423", 1).expect("bounds")] {
        assert_eq!(counter.submit(order(other)).await.expect("an answer"), Counted::Mismatch);
    }
    // In one batch as well.
    let both = [order(take("85123A", 3)), order(take("85123A", 1))].map(|movement| counter.try_submit(movement));
    let [same, other] = both.map(|pending| pending.expect("there is room"));
    assert_eq!(same.await.expect("an answer"), Counted::Applied);
    assert_eq!(other.await.expect("an answer"), Counted::Mismatch);
    assert_eq!(database.int(UNITS).await, 2);
}

pub(crate) async fn a_movement_of_several_rows_is_all_or_nothing<DB: TestEngine + StockSql>(
    database: TestDatabase<DB>,
) {
    let database = stock(database).await;
    let counter = counter(&database.pool);
    let both = || take("85123A", 1).and_take("22423", 1).expect("it is within bounds");
    assert_eq!(counter.submit(both()).await.expect("an answer"), Counted::Applied);
    let refused = Counted::Refused { key: "22423".to_owned(), units: 0 };
    assert_eq!(counter.submit(both()).await.expect("an answer"), refused);
    let swap = take("85123A", 4).and_give("22423", 2).expect("it is within bounds");
    assert_eq!(counter.submit(swap).await.expect("an answer"), Counted::Applied);
    assert_eq!(database.int(UNITS).await, 0);
    assert_eq!(database.int("SELECT units FROM stock WHERE code = '22423'").await, 2);
}

pub(crate) async fn the_floor_holds_for_what_is_taken_only<DB: TestEngine + StockSql>(database: TestDatabase<DB>) {
    let database = stock(database).await;
    let builder = StockCounter::builder(&database.pool, &table()).floor(-2);
    let counter = builder.build().expect("the limits are right");
    assert_eq!(counter.submit(take("22423", 3)).await.expect("an answer"), Counted::Applied);
    let refused = Counted::Refused { key: "22423".to_owned(), units: -2 };
    assert_eq!(counter.submit(take("22423", 1)).await.expect("an answer"), refused);
    database.execute("UPDATE stock SET units = -9 WHERE code = '22423'").await;
    let give = Movement::give("22423", 1).expect("it is within bounds");
    assert_eq!(counter.submit(give).await.expect("an answer"), Counted::Applied);
}

/// Writes an order line for each movement, with the note as its code.
struct Lines;

impl<DB: StockSql> Beside<DB> for Lines {
    type Note = String;

    async fn write(&self, tx: &mut Transaction<'_, DB>, applied: &[&Movement<String>]) -> Result<(), BatchError> {
        for movement in applied {
            let insert = Statement::new(sql::<DB>(LINE, LINE_MYSQL)).bind(movement.note());
            insert.execute::<DB>(tx).await?;
        }
        Ok(())
    }
}

pub(crate) async fn what_stands_beside_commits_with_its_movement_and_only_then<DB: TestEngine + StockSql>(
    database: TestDatabase<DB>,
) {
    let database = stock(database).await;
    database.execute("CREATE TABLE line (code VARCHAR(20) NOT NULL)").await;
    let counter = StockCounter::builder(&database.pool, &table()).beside(Lines).build().expect("the limits are right");
    let order = |units, id: &str| take("85123A", units).with_note(id.to_owned()).with_order_id(id).expect("bounds");
    for (movement, applied) in
        [(order(3, "1"), true), (order(3, "1"), true), (order(3, "2"), false), (order(2, "3"), true)]
    {
        assert_eq!(counter.submit(movement).await.expect("an answer").is_applied(), applied);
    }
    assert_eq!(database.int("SELECT count(*) FROM line").await, 2);
    assert_eq!(database.int("SELECT count(DISTINCT code) FROM line WHERE code IN ('1', '3')").await, 2);
}

pub(crate) async fn a_movement_of_nothing_is_remembered_and_written_beside<DB: TestEngine + StockSql>(
    database: TestDatabase<DB>,
) {
    let database = stock(database).await;
    database.execute("CREATE TABLE line (code VARCHAR(20) NOT NULL)").await;
    let counter = StockCounter::builder(&database.pool, &table()).beside(Lines).build().expect("the limits are right");
    let nothing = || Movement::empty().with_note("post".to_owned()).with_order_id("536370").expect("bounds");
    for _ in 0..2 {
        assert_eq!(counter.submit(nothing()).await.expect("an answer"), Counted::Applied);
    }
    let something = nothing().and_take("85123A", 1).expect("bounds");
    assert_eq!(counter.submit(something).await.expect("an answer"), Counted::Mismatch);
    assert_eq!(self::counter(&database.pool).submit(Movement::empty()).await.expect("an answer"), Counted::Applied);
    // In one batch with a movement of something.
    let some = take("85123A", 1).with_note("some".to_owned());
    let batch = [nothing().with_order_id("536371").expect("bounds"), some].map(|movement| counter.try_submit(movement));
    for pending in batch {
        assert_eq!(pending.expect("there is room").await.expect("an answer"), Counted::Applied);
    }
    assert_eq!(database.int("SELECT count(*) FROM line").await, 3);
    assert_eq!(database.int("SELECT count(*) FROM leastlock_occ_order").await, 2);
    assert_eq!(database.int(UNITS).await, 4);
}

pub(crate) async fn own_table_and_keys_that_differ_in_case<DB: TestEngine + StockSql>(database: TestDatabase<DB>) {
    let database = database.with(&MIGRATIONS).await;
    database.execute("INSERT INTO leastlock_occ_stock VALUES ('85123A', 1), ('85123a', 1)").await;
    let counter = StockCounter::builder(&database.pool, &StockTable::own()).build().expect("the limits are right");
    for key in ["85123A", "85123a"] {
        assert_eq!(counter.submit(take(key, 1)).await.expect("an answer"), Counted::Applied);
        let refused = Counted::Refused { key: key.to_owned(), units: 0 };
        assert_eq!(counter.submit(take(key, 1)).await.expect("an answer"), refused);
    }
}

pub(crate) async fn keys_and_order_ids_of_any_text_are_found_again<DB: TestEngine + StockSql>(
    database: TestDatabase<DB>,
) {
    let database = database.with(&MIGRATIONS).await;
    let long = "ü".repeat(127);
    let texts = ["a", "a ", "A", "\"'\\", "[1]", "\u{1}\n\t", "100%_", "\u{1f600} e\u{301}", "\u{e9}", "null", &long];
    let counter = StockCounter::builder(&database.pool, &StockTable::own()).build().expect("the limits are right");
    let mut connection = database.pool.acquire().await.expect("a connection");
    let insert =
        sql::<DB>("INSERT INTO leastlock_occ_stock VALUES ($1, 2)", "INSERT INTO leastlock_occ_stock VALUES (?, 2)");
    for text in texts {
        Statement::new(insert).bind(text).execute::<DB>(&mut connection).await.expect("it can be stored");
    }
    for repeat in 0..3 {
        let orders = texts.map(|text| take(text, 1).with_order_id(text).expect("it is within bounds"));
        for pending in orders.map(|order| counter.try_submit(order).expect("there is room")) {
            assert_eq!(pending.await.expect("an answer"), Counted::Applied, "{repeat}");
        }
    }
    let all = texts.iter().skip(1).try_fold(take(texts[0], 2), |all, text| all.and_take(*text, 1));
    let refused = Counted::Refused { key: texts[0].to_owned(), units: 1 };
    let all = all.expect("it is within bounds").with_order_id("all").expect("it is within bounds");
    for _ in 0..2 {
        assert_eq!(counter.submit(all.clone()).await.expect("an answer"), refused);
    }
    let ones = database.int("SELECT count(*) FROM leastlock_occ_stock WHERE units = 1").await;
    assert_eq!(ones, i64::try_from(texts.len()).expect("few"), "each was taken from once");
}

pub(crate) async fn forgotten_order_ids_are_new_again<DB: TestEngine + StockSql>(database: TestDatabase<DB>) {
    let database = stock(database).await;
    let counter = counter(&database.pool);
    let order = || take("85123A", 1).with_order_id("536365").expect("it is within bounds");
    assert_eq!(counter.submit(order()).await.expect("an answer"), Counted::Applied);
    let mut connection = database.pool.acquire().await.expect("a connection");
    for age in [Duration::from_hours(1), Duration::MAX] {
        let old = StockCounter::<DB>::forget_orders(&mut connection, age, 10).await;
        assert_eq!(old.expect("it runs"), 0);
    }
    assert_eq!(counter.submit(order()).await.expect("an answer"), Counted::Applied);
    assert_eq!(database.int(UNITS).await, 4);
    // Clocks count milliseconds; an id is older than none of them once the next has come.
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    loop {
        let forgotten = StockCounter::<DB>::forget_orders(&mut connection, Duration::ZERO, 10).await;
        if forgotten.expect("it runs") == 1 {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "the id is never old enough");
        tokio::task::yield_now().await;
    }
    assert_eq!(counter.submit(order()).await.expect("an answer"), Counted::Applied);
    assert_eq!(database.int(UNITS).await, 3);
}
