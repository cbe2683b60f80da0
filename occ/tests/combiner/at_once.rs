//! O19 for a batch in one statement: what its end tells, and what it leaves open.

use std::time::Duration;

use leastlock_occ::combiner::{Apply, Batch, BatchError, CombineError, Combiner, CombinerSql};
use leastlock_occ::guarded;
use leastlock_testkit::TestDatabase;
use leastlock_testkit::proxy::statement::once;
use leastlock_testkit::proxy::{Proxied, Then};
use sqlx::Transaction;
use tokio::time::timeout;

use super::append::LIMIT;

const ADD: &str = "UPDATE counter SET value = value + 1";

/// How the one statement ends that has taken effect.
#[derive(Debug, Clone, Copy)]
enum Ends {
    /// Its reply is lost, which a checked statement says in its own way.
    Checked,
    /// Its reply does not come, and whoever applies it waits no longer.
    TimedOut,
    /// Its reply cannot be read.
    Unreadable,
}

/// Adds one to a counter, at once or in a transaction.
struct Adds(Ends);

impl<DB: CombinerSql> Apply<DB> for Adds {
    type Operation = ();
    type Answer = ();

    async fn apply(&self, tx: &mut Transaction<'_, DB>, batch: &mut Batch<(), ()>) -> Result<(), BatchError> {
        for index in 0..batch.operations().len() {
            let added = guarded(sqlx::query(ADD)).exactly(1).execute(tx).await?;
            assert!(!added.is_refused());
            batch.answer(index, ());
        }
        Ok(())
    }

    async fn apply_at_once(&self, connection: &mut DB::Connection, _: &[()]) -> Result<Option<Vec<()>>, BatchError> {
        let adds = guarded::<DB>(sqlx::query(ADD)).execute(connection);
        let added = match self.0 {
            Ends::Checked => adds.await?,
            Ends::TimedOut => timeout(Duration::from_millis(300), adds).await.map_err(|_| BatchError::TimedOut)??,
            Ends::Unreadable => {
                let _added = adds.await?;
                return Err(sqlx::Error::Decode("no number".into()).into());
            }
        };
        Ok((!added.is_refused()).then(|| vec![()]))
    }

    fn absorbs_repeats(&self, (): &()) -> bool {
        false
    }
}

pub(crate) async fn o19_a_statement_that_may_have_taken_effect_is_not_applied_again<DB: Proxied + CombinerSql>(
    database: TestDatabase<DB>,
) {
    database.execute("CREATE TABLE counter (value BIGINT NOT NULL)").await;
    database.execute("INSERT INTO counter VALUES (0)").await;
    let proxy = DB::proxy(&database.url).await;
    let pool = DB::connect(&DB::through(&proxy, &database.url)).await;
    let cases = [(Ends::Checked, Some(Then::Cut)), (Ends::TimedOut, Some(Then::Hang)), (Ends::Unreadable, None)];
    for (done, (ends, then)) in (1_i64..).zip(cases) {
        if let Some(then) = then {
            proxy.swallow_reply_to(once(|sql: &str| sql == ADD), then);
        }
        let combiner = Combiner::builder(&pool, Adds(ends)).build().expect("the limits are right");
        let answer = timeout(LIMIT, combiner.submit(())).await.expect("an answer");
        assert!(matches!(answer, Err(CombineError::Unknown)), "{ends:?}: {answer:?}");
        if then.is_some() {
            proxy.fired(u64::try_from(done).expect("few"), LIMIT).await;
        }
        assert_eq!(database.int("SELECT value FROM counter").await, done, "{ends:?}");
        proxy.heal();
    }
}
