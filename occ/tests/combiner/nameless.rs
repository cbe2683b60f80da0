//! A transaction of which PostgreSQL knows no name before its commit.

use leastlock_occ::combiner::{Apply, Batch, BatchError, Combiner};
use leastlock_testkit::TestDatabase;
use sqlx::postgres::PgListener;
use sqlx::{PgConnection, Postgres, Transaction};
use tokio::time::timeout;

use super::append::LIMIT;

/// Notifies, and writes nothing.
struct Notifies;

impl Apply<Postgres> for Notifies {
    type Operation = &'static str;
    type Answer = ();

    async fn apply(
        &self,
        tx: &mut Transaction<'_, Postgres>,
        batch: &mut Batch<&'static str, ()>,
    ) -> Result<(), BatchError> {
        for (index, news) in batch.operations().to_vec().into_iter().enumerate() {
            sqlx::query("SELECT pg_notify('news', $1)").bind(news).execute(&mut **tx).await?;
            batch.answer(index, ());
        }
        Ok(())
    }

    async fn apply_at_once(&self, _: &mut PgConnection, _: &[&'static str]) -> Result<Option<Vec<()>>, BatchError> {
        Ok(None)
    }

    fn absorbs_repeats(&self, _: &&'static str) -> bool {
        true
    }
}

pub(crate) async fn what_only_the_commit_does_is_done_before_it_is_answered(database: TestDatabase<Postgres>) {
    let mut listener = PgListener::connect_with(&database.pool).await.expect("a connection");
    listener.listen("news").await.expect("it listens");
    let combiner = Combiner::builder(&database.pool, Notifies).build().expect("the limits are right");
    timeout(LIMIT, combiner.submit("85123A is sold out")).await.expect("an answer").expect("it is applied");
    let heard = timeout(LIMIT, listener.recv()).await.expect("what was answered was committed").expect("it listens");
    assert_eq!(heard.payload(), "85123A is sold out");
}
