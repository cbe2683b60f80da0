// Runs the README's `Ledger`.
tokio::runtime::Runtime::new().unwrap().block_on(async {
    use std::time::Duration;

    use leastlock::partition_worker::MIGRATIONS;
    use leastlock_testkit::broker::Broker;

    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}?mode=rwc", folder.path().join("ledger.sqlite").display());
    let pool = SqlitePool::connect(&url).await.unwrap();
    MIGRATIONS.run(&pool).await.unwrap();
    let ledger = "CREATE TABLE ledger (code BLOB PRIMARY KEY, units INTEGER NOT NULL); INSERT INTO ledger VALUES (CAST('85123A' AS BLOB), 0)";
    sqlx::raw_sql(ledger).execute(&pool).await.unwrap();
    let broker = Broker::mock();
    let topic = broker.topic(1).await;
    for units in ["7", "-3", "-1"] {
        broker.produce(&topic, "85123A", units).await;
    }

    let (mut kafka, shutdown) = (ClientConfig::new(), CancellationToken::new());
    kafka.set("bootstrap.servers", broker.bootstrap()).set("group.id", "ledger");
    let worker = build_ledger(pool.clone(), kafka, &topic, shutdown.clone());
    let reader = async {
        let units = || sqlx::query_scalar::<_, i64>("SELECT units FROM ledger").fetch_one(&pool);
        while units().await.unwrap() != 3 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        shutdown.cancel();
    };
    let limit = tokio::time::timeout(Duration::from_secs(60), async { tokio::join!(worker, reader) });
    let (worked, ()) = limit.await.expect("the ledger is built");
    worked.unwrap();
})
