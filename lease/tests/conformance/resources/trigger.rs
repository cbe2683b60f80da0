//! L26: writers that bring no generation.

use leastlock_lease::{CorrectnessLease, Error, FencedTable, Permit, Refusal, RowRule};
use sqlx::{Pool, Transaction};

use super::rows::{Rowed, create_table, execute, int, placeholder};
use crate::rig::{Rig, Sql};
use crate::world::{fixed, leases, lock};

macro_rules! mount {
    ($database:ty) => {
        mod trigger {
            use super::*;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn l26_writer_that_brings_no_generation_is_refused_by_the_trigger_only() {
                crate::resources::trigger::writer_that_brings_no_generation::<$database>().await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn l26_writer_that_forgets_to_compare_is_refused_by_the_trigger() {
                crate::resources::trigger::writer_that_forgets_to_compare::<$database>().await;
            }
        }
    };
}

pub(crate) use mount;

const VALUE: &str = "SELECT value FROM fenced WHERE id = 7";
/// What writers send that know of no fence, in every form that reaches a row which is there.
const FORGETFUL: [&str; 3] =
    ["UPDATE fenced SET value = 9", "UPDATE fenced SET value = 9 WHERE id = 7", "DELETE FROM fenced WHERE id = 7"];

/// The same, by inserting over it.
const fn over_it<DB: Rowed>() -> &'static [&'static str] {
    match DB::ENGINE {
        leastlock_core::Engine::MySql => &[
            "REPLACE INTO fenced (id, value) VALUES (7, 9)",
            "INSERT INTO fenced (id, value) VALUES (7, 9) ON DUPLICATE KEY UPDATE value = 9",
        ],
        leastlock_core::Engine::Postgres => &[
            "INSERT INTO fenced (id, value) VALUES (7, 9) ON CONFLICT (id) DO UPDATE SET value = 9",
            "TRUNCATE fenced",
        ],
        _ => &[
            "REPLACE INTO fenced (id, value) VALUES (7, 9)",
            "INSERT INTO fenced (id, value) VALUES (7, 9) ON CONFLICT (id) DO UPDATE SET value = 9",
        ],
    }
}

fn table<DB: Rowed>() -> FencedTable<DB> {
    let builder = FencedTable::builder("fenced", "id").owner_column("fence_owner");
    builder.brought_column("fence_brought").build().unwrap()
}

async fn acquire<R: Rig>(rig: &R) -> CorrectnessLease {
    leases(rig).acquire(&lock(), fixed()).await.unwrap()
}

async fn set<DB: Rowed>(pool: &Pool<DB>, permit: &Permit, value: i64) -> Result<(), Error> {
    let set = table::<DB>().update(RowRule::Newest, placeholder::<DB>("value = $1", "value = ?")).unwrap();
    DB::set(pool, &set, permit, value).await
}

pub(crate) async fn writer_that_brings_no_generation<DB: Rowed>() {
    let rig = Sql::<DB>::create().await;
    let pool = &rig.database().pool;
    create_table(pool).await;
    let lease = acquire(&rig).await;
    let permit = lease.permit().unwrap();
    set(pool, &permit, 1).await.unwrap();
    // Written without the trigger, it has left what it brought.
    assert_eq!(int(pool, "SELECT fence_brought FROM fenced WHERE id = 7").await, permit.token().value());

    for _ in 0..2 {
        table::<DB>().require_generation(pool).await.unwrap();
    }
    set(pool, &permit, 2).await.unwrap();
    let forgetful = FORGETFUL.iter().chain(over_it::<DB>());
    for statement in forgetful.clone() {
        let refused = execute(pool, statement).await.expect_err(statement);
        assert!(refused.to_string().contains("leastlock: "), "{statement}: {refused}");
        assert_eq!(int(pool, VALUE).await, 2, "{statement}");
    }
    for value in [3, 4] {
        set(pool, &permit, value).await.expect("who brings its generation goes on");
        assert_eq!(int(pool, VALUE).await, value);
        assert_eq!(int(pool, "SELECT COUNT(fence_brought) FROM fenced").await, 0, "it is taken back each time");
    }
    execute(pool, "INSERT INTO fenced (id, value) VALUES (9, 0)").await.expect("a new row is compared with nothing");

    // Without it the docs say what is lost.
    for _ in 0..2 {
        table::<DB>().allow_any_writer(pool).await.unwrap();
    }
    for statement in forgetful {
        create_table(pool).await;
        set(pool, &permit, 2).await.unwrap();
        execute(pool, statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
        assert_eq!(int(pool, "SELECT COUNT(*) FROM fenced WHERE id = 7 AND value = 2").await, 0, "{statement}");
    }
}

pub(crate) async fn writer_that_forgets_to_compare<DB: Rowed>() {
    let rig = Sql::<DB>::create().await;
    let pool = &rig.database().pool;
    create_table(pool).await;
    table::<DB>().require_generation(pool).await.unwrap();
    let late = acquire(&rig).await;
    rig.expire().await;
    let new = acquire(&rig).await;
    let (late, new) = (late.permit().unwrap(), new.permit().unwrap());
    set(pool, &new, 2).await.unwrap();
    let refused = set(pool, &late, 1).await;
    assert!(matches!(refused, Err(Error::Refused { refusal: Refusal::Superseded { .. }, .. })), "{refused:?}");
    // It brings what it has, and its WHERE is lost.
    for statement in [
        "UPDATE fenced SET value = 1, fence = 1, fence_brought = 1 WHERE id = 7",
        "UPDATE fenced SET value = 1, fence = 2, fence_brought = 1 WHERE id = 7",
        "UPDATE fenced SET value = 1, fence = 2, fence_brought = 2, fence_owner = NULL WHERE id = 7",
    ] {
        let mut tx: Transaction<'_, DB> = pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
        let refused = DB::run_query(&mut tx, sqlx::query(statement)).await.expect_err(statement);
        assert!(refused.to_string().contains("leastlock: "), "{statement}: {refused}");
    }
    assert_eq!((late.token().value(), new.token().value()), (1, 2));
    assert_eq!(int(pool, VALUE).await, 2);
    set(pool, &new, 3).await.unwrap();
    assert_eq!(int(pool, VALUE).await, 3);
}
