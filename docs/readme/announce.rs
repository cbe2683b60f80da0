// Runs the README's `move_stock` and `publish`.
tokio::runtime::Runtime::new().unwrap().block_on(async {
    use std::time::Duration;

    use leastlock::outbox::MIGRATIONS;
    use leastlock_testkit::broker::Broker;

    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}?mode=rwc", folder.path().join("shop.sqlite").display());
    let pool = SqlitePool::connect(&url).await.unwrap();
    MIGRATIONS.run(&pool).await.unwrap();
    let stock = "CREATE TABLE stock (code TEXT PRIMARY KEY, units INTEGER NOT NULL); INSERT INTO stock VALUES ('85123A', 5)";
    sqlx::raw_sql(stock).execute(&pool).await.unwrap();
    let broker = Broker::mock();
    let topic = broker.topic(1).await;
    move_stock(&pool, &Outbox::open(&pool).await.unwrap(), &topic).await.unwrap();

    let (mut kafka, shutdown) = (ClientConfig::new(), CancellationToken::new());
    kafka.set("bootstrap.servers", broker.bootstrap());
    let relay = publish(pool, kafka, shutdown.clone());
    let reader = async {
        while broker.read_all(&topic, Duration::from_secs(30)).await.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        shutdown.cancel();
    };
    let limit = tokio::time::timeout(Duration::from_secs(60), async { tokio::join!(relay, reader) });
    let (relayed, ()) = limit.await.expect("the event arrives");
    relayed.unwrap();
})
