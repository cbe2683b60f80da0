//! What a claim and a replay cost: messages of the client that wait for an answer, counted on the way.
//!
//! PostgreSQL and MariaDB. SQLite runs in the process of its caller: there is no way on which to count, and nothing waits for one.
#![cfg(any(feature = "postgres", feature = "mysql"))]

use std::sync::{Arc, Mutex};

use leastlock_core::Engine;
use leastlock_idempotency::{Begin, BeginIn, IdempotencySql, Keys};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::proxy::{FaultProxy, Proxied, Then};
use sqlx::Pool;
use sqlx::pool::PoolOptions;

use crate::keeper::{Call, fingerprint, insert_effect, key, tables};

/// Every statement that the server was asked to execute, in order.
#[derive(Clone, Default)]
struct Executed(Arc<Mutex<Vec<String>>>);

impl Executed {
    fn listen(&self, proxy: &FaultProxy) {
        let log = self.clone();
        let record = move |sql: &str| {
            log.0.lock().unwrap().push(sql.to_owned());
            false
        };
        proxy.swallow_reply_to(record, Then::Cut);
    }

    /// Counts what `work` executes, once its statements are prepared: it runs twice.
    async fn by(&self, work: impl AsyncFn(u32)) -> usize {
        work(0).await;
        self.0.lock().unwrap().clear();
        work(1).await;
        self.waited_for()
    }

    /// The messages that somebody waited for. Nobody does for the rollback of a transaction that was dropped, alone or with what
    /// puts its connection back as it was.
    fn waited_for(&self) -> usize {
        let is_rollback = |sql: &String| {
            let text = sql.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n");
            text.starts_with("ROLLBACK") && !text.contains("START TRANSACTION")
        };
        self.0.lock().unwrap().iter().filter(|sql| !is_rollback(sql)).count()
    }
}

/// What there is beside the bare transaction of one effect.
struct Cost {
    first: usize,
    replay: usize,
    proof: usize,
}

const fn cost(engine: Engine) -> Cost {
    match engine {
        // The claim, and the answer.
        Engine::Postgres => Cost { first: 2, replay: 2, proof: 0 },
        // Also the proof that the transaction is open; and a replay reads what its claim has met.
        _ => Cost { first: 3, replay: 3, proof: 1 },
    }
}

async fn first<DB: Proxied + IdempotencySql>(pool: &Pool<DB>, name: String) {
    let call = Call::new(&name, "lamp");
    let (keys, key, lamp) = (Keys::default(), key(&call), fingerprint("lamp"));
    match keys.begin::<DB, String>(pool, &key, &lamp).await.unwrap() {
        Begin::First(mut unit) => {
            insert_effect::<DB>(unit.tx(), &call).await;
            unit.complete("done".to_owned()).await.unwrap();
        }
        other => panic!("{other:?}"),
    }
}

/// The double: looks first, as one does who does not trust the claim to say what it met.
async fn looks_first<DB: Proxied + IdempotencySql>(pool: &Pool<DB>, name: String) {
    let mut connection = pool.acquire().await.unwrap();
    let look = leastlock_core::Statement::new("SELECT 1 FROM leastlock_idempotency WHERE idempotency_key = 'none'");
    assert!(look.fetch_optional::<DB>(&mut connection).await.unwrap().is_none());
    drop(connection);
    first(pool, name).await;
}

pub(crate) async fn claim_and_answer_cost_what_is_promised_and_a_replay_too<DB: Proxied + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    let cost = cost(DB::ENGINE);
    let database = tables(database).await;
    let proxy = DB::proxy(&database.url).await;
    let one = PoolOptions::<DB>::new().max_connections(1).test_before_acquire(false);
    let pool = one.connect(&DB::through(&proxy, &database.url)).await.unwrap();
    let executed = Executed::default();
    executed.listen(&proxy);

    let bare = async |round: u32| {
        let name = format!("bare-{round}");
        let mut tx = leastlock_core::begin(&pool).await.unwrap();
        insert_effect::<DB>(&mut tx, &Call::new(&name, "lamp")).await;
        tx.commit().await.unwrap();
    };
    let bare = executed.by(bare).await;
    assert!(bare >= 3, "begin, effect and commit are seen: {bare}");
    let firsts = executed.by(async |round| first(&pool, format!("k{round}")).await).await;
    assert_eq!(firsts, bare + cost.first, "against {bare} of the bare transaction");

    let replay = async |_| {
        let (keys, key, lamp) = (Keys::default(), key(&Call::new("k1", "lamp")), fingerprint("lamp"));
        let begun = keys.begin::<DB, String>(&pool, &key, &lamp).await;
        assert!(matches!(begun.unwrap(), Begin::Replay(_)));
    };
    let replays = executed.by(replay).await;
    assert_eq!(replays, cost.replay, "the begin of a transaction, and what reads the answer");

    let proof = async |round: u32| {
        let (keys, name) = (Keys::default(), format!("proof-{round}"));
        let begun = keys.begin::<DB, String>(&pool, &key(&Call::new(&name, "lamp")), &fingerprint("lamp")).await;
        let Begin::First(mut unit) = begun.unwrap() else { panic!("the key is free") };
        executed.0.lock().unwrap().clear();
        DB::prove(unit.tx()).await.unwrap();
        assert_eq!(executed.waited_for(), cost.proof, "a proof");
        unit.release().await.unwrap();
    };
    executed.by(proof).await;

    let double = executed.by(async |round| looks_first(&pool, format!("looked-{round}")).await).await;
    assert!(double > bare + cost.first, "the double must be seen to cost more: {double}");
    let joined = executed.by(async |round| joined(&pool, format!("joined-{round}")).await).await;
    // Under a savepoint, where one is needed; on MariaDB the wait's limit is a message of its own.
    assert_eq!(joined, bare + if DB::NEEDS_SAVEPOINT { 4 } else { 3 }, "a first in a caller's transaction");
    println!("statements: bare {bare}, first {firsts}, replay {replays}, first in a caller's transaction {joined}");
}

async fn joined<DB: Proxied + IdempotencySql>(pool: &Pool<DB>, name: String) {
    let call = Call::new(&name, "lamp");
    let mut tx = leastlock_core::begin(pool).await.unwrap();
    let begun = Keys::default().begin_in::<DB, String>(&mut tx, &key(&call), &fingerprint("lamp")).await;
    let BeginIn::First(claim) = begun.unwrap() else { panic!("the key is free") };
    insert_effect::<DB>(&mut tx, &call).await;
    claim.complete(&mut tx, "done".to_owned()).await.unwrap();
    tx.commit().await.unwrap();
}
