//! What a claim and a replay cost: messages of the client that wait for an answer, counted on the way.
#![cfg(feature = "postgres")]

use std::sync::{Arc, Mutex};

use leastlock_idempotency::{Begin, BeginIn, Keys};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::proxy::{FaultProxy, Then, postgres};
use sqlx::postgres::PgPoolOptions;
use sqlx::{PgPool, Postgres};

use crate::keeper::{Call, fingerprint, insert_effect, key, tables};

/// Every statement that the server was asked to execute, in order.
#[derive(Clone, Default)]
struct Executed(Arc<Mutex<Vec<String>>>);

impl Executed {
    /// Counts what `work` executes, once its statements are prepared: it runs twice. The `ROLLBACK` that sqlx sends after a
    /// transaction was dropped is waited for by nobody.
    async fn by(&self, work: impl AsyncFn(u32)) -> usize {
        work(0).await;
        self.0.lock().unwrap().clear();
        work(1).await;
        self.0.lock().unwrap().iter().filter(|sql| !sql.starts_with("ROLLBACK")).count()
    }
}

async fn first(pool: &PgPool, name: String) {
    let call = Call::new(&name, "lamp");
    let (keys, key, lamp) = (Keys::default(), key(&call), fingerprint("lamp"));
    match keys.begin::<Postgres, String>(pool, &key, &lamp).await.unwrap() {
        Begin::First(mut unit) => {
            insert_effect::<Postgres>(unit.tx(), &call).await;
            unit.complete("done".to_owned()).await.unwrap();
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn claim_and_answer_cost_two_round_trips_and_a_replay_has_two(database: TestDatabase<Postgres>) {
    let database = tables(database).await;
    let proxy = FaultProxy::to_postgres(&database.url).await;
    let one = PgPoolOptions::new().max_connections(1).test_before_acquire(false);
    let pool = one.connect(&postgres::through(&proxy, &database.url)).await.unwrap();
    let executed = Executed::default();
    let log = executed.clone();
    let record = move |sql: &str| {
        log.0.lock().unwrap().push(sql.to_owned());
        false
    };
    proxy.swallow_reply_to(record, Then::Cut);

    let bare = async |round: u32| {
        let name = format!("bare-{round}");
        let mut tx = leastlock_core::begin(&pool).await.unwrap();
        insert_effect::<Postgres>(&mut tx, &Call::new(&name, "lamp")).await;
        tx.commit().await.unwrap();
    };
    let bare = executed.by(bare).await;
    assert!(bare >= 3, "begin, effect and commit are seen: {bare}");
    let firsts = executed.by(async |round| first(&pool, format!("k{round}")).await).await;
    assert!(firsts <= bare + 2, "{firsts} against {bare} of the bare transaction");

    let replay = async |_| {
        let replay = Keys::default();
        let begun = replay.begin::<Postgres, String>(&pool, &key(&Call::new("k1", "lamp")), &fingerprint("lamp")).await;
        assert!(matches!(begun.unwrap(), Begin::Replay(_)));
    };
    let replays = executed.by(replay).await;
    assert_eq!(replays, 2, "the begin of a transaction and one statement");

    // The double: the claim under a savepoint, as it is in a caller's transaction.
    let joined = async |round: u32| {
        let name = format!("joined-{round}");
        let call = Call::new(&name, "lamp");
        let mut tx = leastlock_core::begin(&pool).await.unwrap();
        let begun = Keys::default().begin_in::<Postgres, String>(&mut tx, &key(&call), &fingerprint("lamp")).await;
        let BeginIn::First(claim) = begun.unwrap() else { panic!("the key is free") };
        insert_effect::<Postgres>(&mut tx, &call).await;
        claim.complete(&mut tx, "done".to_owned()).await.unwrap();
        tx.commit().await.unwrap();
    };
    let joined = executed.by(joined).await;
    assert!(joined > bare + 2, "the double must be seen to cost more: {joined}");
    println!("statements: bare {bare}, first {firsts}, replay {replays}, first in a caller's transaction {joined}");
}
