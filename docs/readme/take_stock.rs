use std::error::Error;

use leastlock::idempotency::{Begin, Fingerprint, Key, Keys, Scope};
use leastlock::occ::guarded;
use leastlock::outbox::{Event, Outbox};
use sqlx::sqlite::SqlitePoolOptions;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    let stock = "CREATE TABLE stock (code TEXT PRIMARY KEY, units INTEGER); INSERT INTO stock VALUES ('85123A', 5)";
    sqlx::raw_sql(stock).execute(&pool).await?;

    // Once, when the program starts: the tables of each crate, and what the requests share.
    leastlock::idempotency::MIGRATIONS.run(&pool).await?;
    leastlock::outbox::MIGRATIONS.run(&pool).await?;
    let (keys, outbox) = (Keys::default(), Outbox::open(&pool).await?);

    // For each request: whose key it is and for what, the key that the client sent, and what the request says.
    let key = Key::new(&Scope::new("tenant-7", "user-3", "take-stock")?, "8f14e45f")?;
    let fingerprint = Fingerprint::of_parts(["85123A", "3"]);

    // One transaction: the claim of the key, the stock, the event, the answer.
    let answer: String = match keys.begin(&pool, &key, &fingerprint).await? {
        Begin::First(mut unit) => {
            let take = sqlx::query("UPDATE stock SET units = units - $1 WHERE code = $2 AND units >= $1");
            let taken = guarded(take.bind(3).bind("85123A")).execute(&mut **unit.tx()).await?;
            if taken.is_refused() {
                unit.complete("sold out".to_owned()).await?
            } else {
                outbox.append(unit.tx(), Event::new("stock-moves", "85123A").json(&-3)?).await?;
                unit.complete("three are yours".to_owned()).await? // stores the answer and commits
            }
        }
        Begin::Replay(answer) => answer,
        Begin::Mismatch => "this key was used for another request".to_owned(),
        Begin::InFlight { retry_after } => format!("ask again in {retry_after:?}"),
    };
    assert_eq!(answer, "three are yours");
    Ok(())
}

// Runs what the README shows.

#[test]
fn request_takes_stock() {
    main().unwrap();
}
