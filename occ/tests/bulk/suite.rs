//! The cases: each scenario comes out right for the library and is failed by its double.

use leastlock_core::Engine;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use leastlock_occ::Bound;
use leastlock_occ::bulk::MAX_ROWS;
use leastlock_occ::bump_version::bump_version_trigger;
use leastlock_occ::{Conflict, Error, Stored, Update, Version, Versioned};
#[cfg(feature = "mysql")]
use leastlock_testkit::database::MySql;
use leastlock_testkit::{TestDatabase, TestEngine};

use super::deadlock::{AsTheyCome, ITEMS, Ordered, deadlocks};
use super::items::{Item, all, id, item_table, raw};
use super::made::{Parcel, parcel, table};
use super::raised::{Keeps, Raises, Raw, written_after_a_bulk_update};

pub(crate) async fn a_bulk_update_answers_row_by_row<DB: TestEngine>(database: TestDatabase<DB>)
where
    Item: Stored<DB>,
{
    item_table(&database, 5).await;
    let mut loaded = all(&database, 5).await;
    database.execute("UPDATE item SET version = 9 WHERE id = '0003'").await;
    database.execute("DELETE FROM item WHERE id = '0001'").await;
    loaded.reverse();
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    let outcomes = Item::update_many(&mut tx, &loaded, |item| {
        item.units += 1;
        item.note = (item.id == "0002").then(|| "a much longer remark than any before it".to_owned());
    });
    let outcomes = outcomes.await.expect("outcomes");
    tx.commit().await.expect("the commit");
    let applied = |n: usize| {
        let note = (n == 2).then(|| "a much longer remark than any before it".to_owned());
        Item { id: id(n), units: 11, note, version: Version::new(2) }
    };
    let right = [
        Update::Applied(applied(4)),
        Update::Conflict(Conflict::Stale { expected: Version::new(1), actual: Version::new(9) }),
        Update::Applied(applied(2)),
        Update::Conflict(Conflict::Gone),
        Update::Applied(applied(0)),
    ];
    assert_eq!(outcomes, right);
    let mut connection = database.pool.acquire().await.expect("a connection");
    for outcome in outcomes {
        let Update::Applied(item) = outcome else { continue };
        assert_eq!(Item::load(&mut *connection, &item.id).await.expect("a read"), Some(item));
    }
    assert_eq!(database.int("SELECT units FROM item WHERE id = '0003'").await, 10);
}

pub(crate) async fn rows_are_loaded_at_the_place_of_their_key<DB: TestEngine>(database: TestDatabase<DB>)
where
    Item: Stored<DB>,
{
    let items = MAX_ROWS + 20;
    item_table(&database, items).await;
    let loaded = all(&database, items).await;
    assert!(loaded.iter().enumerate().all(|(n, item)| item.id == id(n)));
    let mut connection = database.pool.acquire().await.expect("a connection");
    let few = Item::load_many(&mut *connection, ["0007", "none", "0003", "0007"]).await.expect("a read");
    let ids: Vec<_> = few.iter().map(|item| item.as_ref().map(|item| item.id.as_str())).collect();
    assert_eq!(ids, [Some("0007"), None, Some("0003"), Some("0007")]);
    assert_eq!(Item::load_many(&mut *connection, []).await.expect("nothing to read"), []);
}

pub(crate) async fn more_rows_than_one_statement_updates_are_all_written<DB: TestEngine>(database: TestDatabase<DB>)
where
    Item: Stored<DB>,
{
    item_table(&database, 150).await;
    for round in [1, 2] {
        let loaded = all(&database, 150).await;
        let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
        let outcomes = Item::update_many(&mut tx, &loaded, |item| {
            item.note = Some(item.id.repeat(round));
            item.units = item.id.parse().expect("digits");
        });
        let outcomes = outcomes.await.expect("outcomes");
        tx.commit().await.expect("the commit");
        let written: Result<Vec<_>, _> = outcomes.into_iter().map(Update::into_result).collect();
        let written = written.expect("no conflict");
        assert_eq!(all(&database, 150).await, written);
        assert_eq!(written[149].note, Some("0149".repeat(round)));
        assert_eq!(written[77].units, 77);
    }
}

pub(crate) async fn what_is_unclear_is_refused_before_any_sql<DB: TestEngine>(database: TestDatabase<DB>)
where
    Item: Stored<DB>,
{
    let item = |n: usize| Item { id: id(n), units: 0, note: None, version: Version::FIRST };
    let too_many: Vec<_> = (0..=MAX_ROWS).map(item).collect();
    // There is no table, so whatever reaches the database fails otherwise.
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    let refused = Item::update_many(&mut tx, &too_many, |_| {}).await;
    assert!(matches!(refused, Err(Error::TooManyRows { table: "item", limit: MAX_ROWS, .. })), "{refused:?}");
    let refused = Item::update_many(&mut tx, &[item(1), item(2), item(1)], |_| {}).await;
    assert!(matches!(refused, Err(Error::SameRowTwice { table: "item" })), "{refused:?}");
    let refused = Item::update_many(&mut tx, &[item(1)], |item| item.id.clear()).await;
    assert!(matches!(refused, Err(Error::KeyChanged { table: "item" })), "{refused:?}");
    let last = Item { version: Version::new(i64::MAX), ..item(1) };
    let refused = Item::update_many(&mut tx, &[last], |_| {}).await;
    assert!(matches!(refused, Err(Error::VersionOverflow { .. })), "{refused:?}");
    assert_eq!(Item::update_many(&mut tx, &[], |_| {}).await.expect("nothing to do"), []);
}

pub(crate) async fn keys_of_several_columns_are_updated_in_bulk<DB: TestEngine>(database: TestDatabase<DB>)
where
    Parcel: Stored<DB>,
{
    database.execute(table(DB::ENGINE)).await;
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    for number in 0..20 {
        parcel(number).insert(&mut *tx).await.expect("a row");
        Parcel { depot: 2, ..parcel(number) }.insert(&mut *tx).await.expect("a row");
    }
    let keys: Vec<(i64, i64)> = (0..20).map(|number| (1, number)).collect();
    let loaded = Parcel::load_many(&mut *tx, keys.iter().map(|(depot, number)| (depot, number))).await;
    let loaded: Option<Vec<_>> = loaded.expect("a read").into_iter().collect();
    let loaded = loaded.expect("all of them");
    let heavier = Parcel::update_many(&mut tx, &loaded, |parcel| parcel.grams += parcel.number * 1_000).await;
    for (number, outcome) in (0..).zip(heavier.expect("outcomes")) {
        let parcel = outcome.into_result().expect("no conflict");
        let right = (number, 4_000 + number * 1_000, Some(4 + number), Version::new(2));
        assert_eq!((parcel.number, parcel.grams, parcel.rounded, parcel.version), right);
        assert_eq!(Parcel::load(&mut *tx, &1, &number).await.expect("a read"), Some(parcel));
    }
    tx.commit().await.expect("the commit");
    assert_eq!(database.int("SELECT count(*) FROM parcel WHERE depot = 2 AND version = 1 AND grams = 4000").await, 20);
}

pub(crate) async fn opposite_orders_never_deadlock<DB: TestEngine>(database: TestDatabase<DB>)
where
    Item: Stored<DB>,
{
    item_table(&database, ITEMS).await;
    for round in 0..25 {
        assert_eq!(deadlocks::<DB, Ordered>(&database).await, 0, "round {round}");
    }
    if DB::ENGINE != Engine::Sqlite {
        assert!(deadlocks::<DB, AsTheyCome>(&database).await > 0, "the double is not caught");
    }
}

pub(crate) async fn o10_a_bulk_update_raises_the_versions<DB: TestEngine>(database: TestDatabase<DB>)
where
    Item: Stored<DB>,
{
    item_table(&database, 3).await;
    assert_eq!(written_after_a_bulk_update::<DB, Raises>(&database).await, Ok(()));
    assert_eq!(database.int("SELECT units FROM item WHERE id = '0001'").await, 15);
    let double = written_after_a_bulk_update::<DB, Keeps>(&database).await;
    println!("the double: {double:?}");
    assert!(double.is_err(), "the double is not caught");
    assert_eq!(database.int("SELECT units FROM item WHERE id = '0001'").await, 5, "five units are lost");
}

pub(crate) async fn o10_a_trigger_raises_the_version_for_raw_sql<DB: TestEngine>(database: TestDatabase<DB>)
where
    Item: Stored<DB>,
{
    item_table(&database, 3).await;
    let double = written_after_a_bulk_update::<DB, Raw>(&database).await;
    println!("the double: {double:?}");
    assert!(double.is_err(), "the double is not caught");
    let trigger = bump_version_trigger(DB::ENGINE).replace("{table}", "item").replace("{version}", "version");
    let mut connection = database.pool.acquire().await.expect("a connection");
    for statement in statements(DB::ENGINE, trigger) {
        DB::run_query(&mut connection, sqlx::query(sqlx::AssertSqlSafe(statement))).await.expect("the trigger");
    }
    drop(connection);
    assert_eq!(written_after_a_bulk_update::<DB, Raw>(&database).await, Ok(()));
    // What raises the version itself raises it once.
    assert_eq!(written_after_a_bulk_update::<DB, Raises>(&database).await, Ok(()));
    let version = database.int("SELECT version FROM item WHERE id = '0000'").await;
    raw(&database, "UPDATE item SET version = version + 1").await;
    assert_eq!(database.int("SELECT version FROM item WHERE id = '0000'").await, version + 1);
}

/// One by one, since a prepared statement is one.
fn statements(engine: Engine, text: String) -> Vec<String> {
    match engine {
        Engine::Postgres => text.split_inclusive("$$;").map(str::to_owned).collect(),
        _ => vec![text],
    }
}

pub(crate) async fn what_the_database_makes_is_read_back<DB: TestEngine>(database: TestDatabase<DB>)
where
    Parcel: Stored<DB>,
{
    database.execute(table(DB::ENGINE)).await;
    let mut connection = database.pool.acquire().await.expect("a connection");
    let inserted = parcel(7).insert(&mut *connection).await.expect("a row");
    assert_eq!((inserted.rounded, inserted.colour.as_str()), (Some(4), "brown"));
    let change = |parcel: &mut Parcel| {
        parcel.grams = 9_000;
        parcel.rounded = Some(1);
        "never written".clone_into(&mut parcel.colour);
    };
    let second = inserted.update(&mut *connection, change).await.expect("an outcome").into_result();
    let second = second.expect("no conflict");
    assert_eq!((second.rounded, second.colour.as_str(), second.version), (Some(9), "brown", Version::new(2)));
    assert_eq!(Parcel::load(&mut *connection, &1, &7).await.expect("a read"), Some(second.clone()));
    let stale = inserted.update(&mut *connection, change).await.expect("an outcome");
    let right = Conflict::Stale { expected: Version::new(1), actual: Version::new(2) };
    assert_eq!(stale, Update::Conflict(right));

    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    let third = second.update(&mut *tx, |parcel| parcel.grams = 12_345).await.expect("an outcome");
    assert_eq!(third.into_result().map(|third| third.rounded), Ok(Some(12)));
    drop(tx);
    assert_eq!(Parcel::load(&mut *connection, &1, &7).await.expect("a read"), Some(second));
}

pub(crate) async fn a_row_may_be_read_by_sqlx_as_well<DB: TestEngine>(database: TestDatabase<DB>)
where
    Parcel: Stored<DB> + for<'r> sqlx::FromRow<'r, DB::Row> + Unpin,
    for<'c> &'c mut DB::Connection: sqlx::Executor<'c, Database = DB>,
    DB::Arguments: sqlx::IntoArguments<DB>,
{
    database.execute(table(DB::ENGINE)).await;
    let mut connection = database.pool.acquire().await.expect("a connection");
    parcel(7).insert(&mut *connection).await.expect("a row");
    let text = "SELECT * FROM parcel WHERE number = 7";
    let read: Parcel = sqlx::query_as(text).fetch_one(&mut *connection).await.expect("a row");
    let second = read.update(&mut *connection, |parcel| parcel.remark = Some("by hand".to_owned())).await;
    let second = second.expect("an outcome").into_result().expect("no conflict");
    let read: Parcel = sqlx::query_as(text).fetch_one(&mut *connection).await.expect("a row");
    assert_eq!((&read, read.version()), (&second, Version::new(2)));
}

#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) async fn a_row_that_was_not_written_keeps_all_from_being_committed<DB: TestEngine>(
    database: TestDatabase<DB>,
) where
    Item: Stored<DB>,
{
    item_table(&database, 3).await;
    if DB::ENGINE == Engine::Postgres {
        let function = "CREATE FUNCTION ignore() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'";
        database.execute(function).await;
        let trigger = "CREATE TRIGGER frozen BEFORE UPDATE ON item FOR EACH ROW \
            WHEN (OLD.id = '0001') EXECUTE FUNCTION ignore()";
        database.execute(trigger).await;
    } else {
        let trigger = "CREATE TRIGGER frozen BEFORE UPDATE ON item WHEN OLD.id = '0001' \
            BEGIN SELECT RAISE(IGNORE); END";
        database.execute(trigger).await;
    }
    let loaded = all(&database, 3).await;
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    let broken = Item::update_many(&mut tx, &loaded, |item| item.units = 0).await;
    let right = matches!(broken, Err(Error::RowsOutOfBounds { expected: Bound::Exactly(3), actual: 2 }));
    assert!(right, "{broken:?}");
    let committed = tx.commit().await;
    assert!(committed.is_err() || DB::ENGINE == Engine::Postgres, "the commit was accepted");
    assert_eq!(all(&database, 3).await, loaded);
}

#[cfg(feature = "mysql")]
pub(crate) async fn a_key_that_only_the_collation_takes_for_equal_is_an_error(database: TestDatabase<MySql>) {
    let table = "CREATE TABLE item (id VARCHAR(20) PRIMARY KEY, units BIGINT NOT NULL, remark TEXT, \
        version BIGINT NOT NULL) COLLATE utf8mb4_general_ci";
    database.execute(table).await;
    database.execute("INSERT INTO item VALUES ('85123A', 10, NULL, 1)").await;
    let mut tx = database.pool.begin_with("START TRANSACTION").await.expect("a transaction");
    let loaded = Item::load_many(&mut *tx, ["85123a"]).await;
    assert!(matches!(loaded, Err(Error::KeyComparesOtherwise { table: "item" })), "{loaded:?}");
    let item = Item { id: "85123a".to_owned(), units: 0, note: None, version: Version::FIRST };
    let written = Item::update_many(&mut tx, &[item], |item| item.units = 1).await;
    assert!(matches!(written, Err(Error::KeyComparesOtherwise { table: "item" })), "{written:?}");
}
