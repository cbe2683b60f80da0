use leastlock::partition_worker::{Effect, Error, Failure, Handler, Record, Worker};
use rdkafka::ClientConfig;
use sqlx::{Sqlite, SqlitePool, Transaction};
use tokio_util::sync::CancellationToken;

struct Ledger;

impl Handler<Sqlite> for Ledger {
    async fn handle(&self, record: &Record, tx: &mut Transaction<'_, Sqlite>) -> Result<(), Failure> {
        let add = sqlx::query("UPDATE ledger SET units = units + $1 WHERE code = $2");
        add.bind(record.json::<i64>()?).bind(record.key()).execute(&mut **tx).await?;
        Ok(())
    }
}

// `kafka` needs `bootstrap.servers` and `group.id`.
async fn build_ledger(
    pool: SqlitePool,
    kafka: ClientConfig,
    topic: &str,
    stop: CancellationToken,
) -> Result<(), Error> {
    let worker = Worker::builder(kafka).topic(topic).effect(Effect::in_database(&pool)).build()?;
    worker.run(Ledger, stop).await.map(drop)
}

// Runs what the README shows.

#[tokio::test(flavor = "multi_thread")]
async fn records_are_applied_to_the_ledger() {
    use std::time::Duration;

    use leastlock_testkit::broker::Broker;

    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}?mode=rwc", folder.path().join("ledger.sqlite").display());
    let pool = SqlitePool::connect(&url).await.unwrap();
    leastlock::partition_worker::MIGRATIONS.run(&pool).await.unwrap();
    let ledger = "CREATE TABLE ledger (code BLOB PRIMARY KEY, units INTEGER NOT NULL);
        INSERT INTO ledger VALUES (CAST('85123A' AS BLOB), 0)";
    sqlx::raw_sql(ledger).execute(&pool).await.unwrap();
    let broker = Broker::mock();
    let topic = broker.topic(1).await;
    for units in ["7", "-3", "-1"] {
        broker.produce(&topic, "85123A", units).await;
    }

    let (mut kafka, shutdown) = (ClientConfig::new(), CancellationToken::new());
    kafka.set("bootstrap.servers", broker.bootstrap()).set("group.id", "ledger");
    let run = Box::pin(build_ledger(pool.clone(), kafka, &topic, shutdown.clone()));
    let reader = async {
        let units = || sqlx::query_scalar::<_, i64>("SELECT units FROM ledger").fetch_one(&pool);
        while units().await.unwrap() != 3 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        shutdown.cancel();
    };
    let limit = tokio::time::timeout(Duration::from_mins(1), async { tokio::join!(run, reader) });
    let (ended, ()) = limit.await.expect("the ledger is built");
    ended.unwrap();
}
