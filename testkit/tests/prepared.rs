//! Databases that tests use in turn: what one has left behind, another one never sees.

use leastlock_core::{Engine, Migration, Migrations};
use leastlock_testkit::database::{MySql, Postgres, Prepared, Sqlite};
use leastlock_testkit::{TestDatabase, TestEngine};

const FILE: &[Migration] =
    &[Migration { version: 1, name: "made", sql: "CREATE TABLE made (id BIGINT PRIMARY KEY, value BIGINT)" }];
const MIGRATIONS: Migrations = Migrations { table: "made_migrations", postgres: FILE, sqlite: FILE, mysql: FILE };

const fn plan(suite: &'static str) -> Prepared {
    Prepared {
        suite,
        migrations: &MIGRATIONS,
        tables: &["CREATE TABLE own (value BIGINT NOT NULL)"],
        rows: &["INSERT INTO own VALUES (7)"],
    }
}

/// In a runtime of its own, as each test has: with it ends what a test has lent.
fn test<T>(body: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().expect("a runtime").block_on(body)
}

/// What is left behind: rows, and what makes it another database.
const LEFT: [&str; 6] = [
    "INSERT INTO own VALUES (8)",
    "INSERT INTO made VALUES (1, 1)",
    "DELETE FROM own",
    "DROP TABLE made",
    "ALTER TABLE own ADD COLUMN more BIGINT",
    "CREATE TABLE made_more (id BIGINT)",
];

fn is_as_if_it_were_fresh<DB: TestEngine>(suite: &'static str) {
    let plan = plan(suite);
    for left in LEFT {
        // A check of something is one of the database in which it was left. The server takes a moment to notice that a test has ended.
        let is_of_the_same = |_| {
            let url = test(async {
                let database = TestDatabase::<DB>::prepared(&plan).await;
                database.execute(left).await;
                database.url.clone()
            });
            test(async {
                let database = TestDatabase::<DB>::prepared(&plan).await;
                assert_eq!(database.int("SELECT COUNT(*) FROM own").await, 1, "{left}");
                assert_eq!(database.int("SELECT value FROM own").await, 7, "{left}");
                assert_eq!(database.int("SELECT COUNT(*) FROM made").await, 0, "{left}");
                // Fails if the table or the column is there still.
                database.execute("CREATE TABLE made_more (id BIGINT)").await;
                database.execute("ALTER TABLE own ADD COLUMN more BIGINT").await;
                database.url == url || DB::ENGINE == Engine::Sqlite
            })
        };
        assert!((0..100).any(is_of_the_same), "never the same one again");
    }
}

fn is_of_one_test_at_a_time<DB: TestEngine>(suite: &'static str) {
    let plan = plan(suite);
    test(async {
        let [one, other] = [TestDatabase::<DB>::prepared(&plan).await, TestDatabase::<DB>::prepared(&plan).await];
        assert_ne!(one.url, other.url);
        let url = one.url.clone();
        drop(one);
        let third = TestDatabase::<DB>::prepared(&plan).await;
        assert_ne!(third.url, url, "the tasks of the test may still be in it");
    });
}

macro_rules! mount {
    ($engine:ident: $db:ty) => {
        mod $engine {
            #[test]
            fn a_prepared_database_is_as_if_it_were_fresh() {
                super::is_as_if_it_were_fresh::<$db>("testkit_fresh");
            }

            #[test]
            fn a_prepared_database_is_of_one_test_at_a_time() {
                super::is_of_one_test_at_a_time::<$db>("testkit_alone");
            }
        }
    };
}

mount!(sqlite: super::Sqlite);
mount!(postgres: super::Postgres);
mount!(mysql: super::MySql);
