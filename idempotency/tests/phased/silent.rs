//! Connections that stay open and say nothing more: nobody waits for one beyond a limit, and none keeps its place in the pool.

use std::time::Duration;

use leastlock_core::Engine;
use leastlock_idempotency::phased::{
    Inquiry, Local, Phased, PhasedBegin, PhasedSql, Reconciler, Resolution, Resolved, Run, UnknownStep, Verdict,
};
use leastlock_idempotency::{Error, Key};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::proxy::statement::{is_commit, once};
use leastlock_testkit::proxy::{FaultProxy, Proxied, Then};
use sqlx::Pool;
use sqlx::pool::PoolOptions;

use crate::payer::{Call, fingerprint, key, tables};

const LIMIT: Duration = Duration::from_secs(20);

/// Knows nothing.
struct Mute;

impl Inquiry for Mute {
    async fn ask(&self, _: &Key, _: &UnknownStep) -> Verdict<serde_json::Value> {
        Verdict::StillUnknown
    }
}

/// A pool with one place, behind a proxy that goes silent at one statement after the other, and does not heal.
struct Silence<DB: Proxied> {
    proxy: FaultProxy,
    pool: Pool<DB>,
}

impl<DB: Proxied + PhasedSql> Silence<DB> {
    async fn before(database: &TestDatabase<DB>) -> Self {
        let proxy = DB::proxy(&database.url).await;
        let pool = PoolOptions::new().max_connections(1).connect(&DB::through(&proxy, &database.url)).await.unwrap();
        Self { proxy, pool }
    }

    /// The next statement that contains `text` does not arrive, and is not refused either.
    fn hang(&self, text: &'static str) {
        self.proxy.lose_request(once(move |sql: &str| sql.to_ascii_lowercase().contains(text)), Then::Hang);
    }

    /// What `call` comes to, which has met the silence.
    async fn met<T>(&self, call: impl Future<Output = T>) -> T {
        let before = self.proxy.losses();
        let told = tokio::time::timeout(LIMIT, call).await.expect("it is bounded");
        self.proxy.fired(before + 1, LIMIT).await;
        told
    }

    async fn begin(&self, phased: &Phased, name: &str) -> Run<DB, String> {
        let begun = phased.begin::<DB, String>(&self.pool, &key(&Call::new(name, "lamp")), &fingerprint("lamp")).await;
        match begun.unwrap() {
            PhasedBegin::First(run) => run,
            other => panic!("a first: {other:?}"),
        }
    }
}

fn hasty(lease: Duration) -> Phased {
    Phased::builder().renewed(false).lease(lease).call_limit(Duration::from_millis(500)).build().unwrap()
}

/// Everything that a run asks of its database. The only place in the pool would be taken, were it kept.
pub(crate) async fn silent_connection_holds_no_run_beyond_the_limit_and_keeps_no_place<DB: Proxied + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let (database, _bank) = tables(database).await;
    let silence = Silence::before(&database).await;
    let hasty = hasty(Duration::from_secs(30));
    // A claim is repeated, and a step may be asked for again.
    silence.hang("insert into leastlock_idempotency");
    let mut run = silence.met(silence.begin(&hasty, "k1")).await;
    // One that took effect, in silence, was sent before that silence.
    let is_claim = |sql: &str| sql.contains("INSERT INTO leastlock_idempotency");
    silence.proxy.swallow_reply_to(once(is_claim), Then::Hang);
    let found = silence.met(silence.begin(&hasty, "silent")).await;
    let left = found.remaining();
    assert!(left < Duration::from_millis(29_300), "the lease runs from the first send: {left:?}");
    found.release().await.unwrap();

    let of_mariadb: &[&str] = if DB::ENGINE == Engine::MySql { &["release savepoint leastlock_open"] } else { &[] };
    let begin = if DB::ENGINE == Engine::MySql { "start transaction" } else { "begin" };
    for text in [begin, "set step_data"].iter().chain(of_mariadb) {
        silence.hang(text);
        let tried = async {
            match run.local::<u32>("reserve").await {
                Ok(Local::Todo(step)) => step.done(7).await.map(|_| ()),
                Ok(Local::Done(_)) => panic!("it was not done"),
                Err(error) => Err(error),
            }
        };
        let tried = silence.met(tried).await;
        assert!(matches!(tried, Err(Error::NoAnswer { .. })), "{text}: {tried:?}");
    }
    // A commit whose answer is lost in silence is settled by the record.
    let Local::Todo(step) = run.local::<u32>("reserve").await.unwrap() else { panic!("to be done") };
    silence.proxy.swallow_reply_to(once(is_commit()), Then::Hang);
    assert_eq!(silence.met(step.done(7)).await.unwrap(), 7);
    run.complete("done".to_owned()).await.unwrap();

    // What keeps a lease is repeated as long as the lease can be had again.
    let run = silence.begin(&self::hasty(Duration::from_secs(3)), "k2").await;
    silence.hang("set lease_until");
    silence.met(run.renew()).await.unwrap();

    silence.keeps_a_place_from_the_double().await;
}

/// Who looks after the unknown.
pub(crate) async fn silent_connection_holds_nobody_who_resolves_and_keeps_no_place<DB: Proxied + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let (database, _bank) = tables(database).await;
    let silence = Silence::before(&database).await;
    let (hasty, pool) = (hasty(Duration::from_secs(30)), &silence.pool);
    silence.begin(&hasty, "k1").await.hold("look at it").await.unwrap();
    silence.hang("order by coalesce(unknown_since");
    let listed = silence.met(hasty.list_unknown(pool, Duration::ZERO, 10)).await;
    assert!(matches!(listed, Err(Error::NoAnswer { .. })), "{listed:?}");
    let unknown = hasty.list_unknown(pool, Duration::ZERO, 10).await.unwrap().remove(0);
    let resolve = || hasty.resolve(pool, &unknown, Resolution::released(), "ops", "seen");
    silence.hang("for update");
    let resolved = silence.met(resolve()).await;
    assert!(matches!(resolved, Err(Error::NoAnswer { .. })), "{resolved:?}");
    let reconciler = Reconciler::builder(hasty.clone(), pool.clone(), Mute).older_than(Duration::ZERO).build().unwrap();
    for text in ["order by coalesce(ask_after", "set asks = asks + 1"] {
        silence.hang(text);
        let pass = silence.met(reconciler.once()).await;
        assert!(matches!(pass, Err(Error::NoAnswer { .. })), "{text}: {pass:?}");
    }
    silence.proxy.swallow_reply_to(once(is_commit()), Then::Hang);
    let resolved = silence.met(resolve()).await;
    assert!(matches!(resolved, Err(Error::CommitUnknown { .. })), "{resolved:?}");
    assert_eq!(resolve().await.unwrap(), Resolved::Changed, "it was, in fact");
    silence.hang("delete from leastlock_idempotency_audit");
    let swept = silence.met(hasty.sweep_audit(pool, Duration::ZERO, 10)).await;
    assert!(matches!(swept, Err(Error::NoAnswer { .. })), "{swept:?}");
    assert_eq!(hasty.sweep_audit(pool, Duration::ZERO, 10).await.unwrap(), 1);

    silence.keeps_a_place_from_the_double().await;
}

impl<DB: Proxied + PhasedSql> Silence<DB> {
    /// The double gives a silent call up as well, and leaves its connection to the pool: that waits for it to answer.
    async fn keeps_a_place_from_the_double(&self) {
        let select = || async {
            let mut connection = self.pool.acquire().await?;
            leastlock_core::Statement::new("SELECT 41").fetch_optional::<DB>(&mut connection).await
        };
        select().await.expect("the pool has its place");
        self.hang("select 41");
        let given_up = self.met(tokio::time::timeout(Duration::from_millis(500), select())).await;
        assert!(given_up.is_err(), "no answer comes");
        let next = tokio::time::timeout(Duration::from_secs(2), select()).await;
        assert!(next.is_err(), "the double must be seen to keep the place");
    }
}
