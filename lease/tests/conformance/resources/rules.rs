//! The rules of a row, and what one permit may do twice.

use leastlock_lease::{CorrectnessLease, Error, FencedTable, Refusal, RowRule};
use sqlx::Transaction;

use super::rows::{KEY, Rowed, create_table, execute, int, owned, placeholder};
use crate::rig::{Rig, Sql};
use crate::world::{fixed, leases, lock};

macro_rules! mount {
    ($database:ty) => {
        mod rules {
            use super::*;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn l23_each_rule_lets_pass_what_it_says() {
                crate::resources::rules::each_rule_lets_pass_what_it_says::<$database>().await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn l23_an_operation_id_in_the_same_transaction_applies_once() {
                crate::resources::rules::an_operation_id_in_the_same_transaction_applies_once::<$database>().await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn l20_rows_without_a_column_for_the_owner_take_one_for_the_other() {
                crate::resources::rules::rows_without_a_column_for_the_owner_take_one_for_the_other::<$database>()
                    .await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_row_that_is_not_there_is_told_from_one_that_refuses() {
                crate::resources::rules::a_row_that_is_not_there_is_told_from_one_that_refuses::<$database>().await;
            }
        }
    };
}

pub(crate) use mount;

const RESET: &str = "UPDATE fenced SET value = 0, fence = 0, fence_owner = NULL";

async fn acquire<R: Rig>(rig: &R) -> CorrectnessLease {
    leases(rig).acquire(&lock(), fixed()).await.unwrap()
}

fn refusal(result: Result<(), Error>) -> Option<Refusal> {
    match result {
        Ok(()) => None,
        Err(Error::Refused { refusal, .. }) => Some(refusal),
        Err(error) => panic!("{error:?}"),
    }
}

pub(crate) async fn each_rule_lets_pass_what_it_says<DB: Rowed>() {
    let rig = Sql::<DB>::create().await;
    let pool = &rig.database().pool;
    create_table(pool).await;
    let old = acquire(&rig).await;
    rig.expire().await;
    let new = acquire(&rig).await;
    let (old, new) = (old.permit().unwrap(), new.permit().unwrap());
    let superseded = Some(Refusal::Superseded { by: new.token() });
    for table in [owned::<DB>(), FencedTable::builder("fenced", "id").build().unwrap()] {
        let ten = async |rule, permit| {
            let add = table.update(rule, placeholder::<DB>("value = value + $1", "value = value + ?")).unwrap();
            refusal(DB::set(pool, &add, permit, 10).await)
        };
        let value = "SELECT value FROM fenced WHERE id = 7";

        execute(pool, RESET).await.unwrap();
        assert_eq!([ten(RowRule::Newest, &new).await, ten(RowRule::Newest, &new).await], [None, None]);
        assert_eq!(ten(RowRule::Newest, &old).await, superseded);
        assert_eq!(int(pool, value).await, 20, "under `<=` both apply");

        execute(pool, RESET).await.unwrap();
        assert_eq!(ten(RowRule::Strict, &old).await, None);
        assert_eq!([ten(RowRule::Strict, &new).await, ten(RowRule::Strict, &new).await], [None, Some(Refusal::Spent)]);
        assert_eq!(ten(RowRule::Strict, &old).await, superseded);
        assert_eq!(int(pool, value).await, 20, "under `<` one applies for each generation");

        execute(pool, RESET).await.unwrap();
        assert_eq!(ten(RowRule::SameGeneration, &new).await, Some(Refusal::NotSealed));
        DB::seal(pool, &table, &old).await.unwrap();
        assert_eq!(ten(RowRule::SameGeneration, &old).await, None);
        assert_eq!(ten(RowRule::SameGeneration, &new).await, Some(Refusal::NotSealed));
        DB::seal(pool, &table, &new).await.unwrap();
        assert_eq!(ten(RowRule::SameGeneration, &old).await, superseded);
        assert_eq!(refusal(DB::seal(pool, &table, &old).await), superseded);
        assert_eq!(ten(RowRule::SameGeneration, &new).await, None);
        assert_eq!(int(pool, value).await, 20);
        assert_eq!(int(pool, "SELECT value + fence FROM fenced WHERE id = 8").await, 0, "the other row");
    }
}

pub(crate) async fn an_operation_id_in_the_same_transaction_applies_once<DB: Rowed>() {
    let rig = Sql::<DB>::create().await;
    let pool = &rig.database().pool;
    create_table(pool).await;
    execute(pool, "CREATE TABLE operation (id BIGINT PRIMARY KEY)").await.unwrap();
    let lease = acquire(&rig).await;
    let permit = lease.permit().unwrap();
    let add = owned::<DB>().update(RowRule::Newest, "value = value + 10").unwrap();
    for (notes, expected) in [(true, 10), (false, 20)] {
        execute(pool, RESET).await.unwrap();
        for _ in 0..2 {
            let mut tx: Transaction<'_, DB> = pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
            let note = sqlx::query("INSERT INTO operation VALUES (1)");
            // The double takes the fence for a deduplication.
            if notes && DB::run_query(&mut tx, note).await.is_err() {
                continue;
            }
            DB::add_in(&mut tx, &add, &permit).await.unwrap();
            tx.commit().await.unwrap();
        }
        assert_eq!(int(pool, "SELECT value FROM fenced WHERE id = 7").await, expected);
    }
}

pub(crate) async fn rows_without_a_column_for_the_owner_take_one_for_the_other<DB: Rowed>() {
    let rig = Sql::<DB>::create().await;
    let pool = &rig.database().pool;
    create_table(pool).await;
    let first = acquire(&rig).await;
    rig.forget().await;
    let twin = acquire(&rig).await;
    assert_eq!(first.token(), twin.token());
    let (first, twin) = (first.permit().unwrap(), twin.permit().unwrap());
    let owner = first.owner().hash();
    let bare: FencedTable<DB> = FencedTable::builder("fenced", "id").build().unwrap();
    DB::seal(pool, &bare, &first).await.unwrap();
    DB::seal(pool, &bare, &twin).await.expect("equal numbers are one owner, as the docs say");
    execute(pool, RESET).await.unwrap();
    DB::seal(pool, &owned::<DB>(), &first).await.unwrap();
    let refused = refusal(DB::seal(pool, &owned::<DB>(), &twin).await);
    assert_eq!(refused, Some(Refusal::OtherOwner { owner }));
}

pub(crate) async fn a_row_that_is_not_there_is_told_from_one_that_refuses<DB: Rowed>() {
    let rig = Sql::<DB>::create().await;
    let pool = &rig.database().pool;
    create_table(pool).await;
    let lease = acquire(&rig).await;
    let permit = lease.permit().unwrap();
    let table = owned::<DB>();
    execute(pool, "DELETE FROM fenced WHERE id = 7").await.unwrap();
    assert_eq!(refusal(DB::seal(pool, &table, &permit).await), Some(Refusal::Absent));
    let set = table.update(RowRule::Newest, placeholder::<DB>("value = $1", "value = ?")).unwrap();
    assert_eq!(refusal(DB::set(pool, &set, &permit, KEY).await), Some(Refusal::Absent));
    // A fence that is NULL compares with nothing; it is refused, never passed.
    let nullable = placeholder::<DB>(
        "CREATE TABLE nullable (id INTEGER PRIMARY KEY, value BIGINT, fence BIGINT)",
        "CREATE TABLE nullable (id BIGINT PRIMARY KEY, value BIGINT, fence BIGINT)",
    );
    execute(pool, nullable).await.unwrap();
    execute(pool, "INSERT INTO nullable VALUES (7, 0, NULL)").await.unwrap();
    let bare: FencedTable<DB> = FencedTable::builder("nullable", "id").build().unwrap();
    assert_eq!(refusal(DB::seal(pool, &bare, &permit).await), Some(Refusal::Absent));
}
