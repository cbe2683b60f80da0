//! The shop's mistakes, made on purpose, which its checks must find.

use anyhow::Context;
use leastlock_core::{Statement, begin, commit};

use super::by_hand::{LARGEST, MARKED};
use super::shop::{APPENDED, Engine, Receipt, Request, Shop, Told};
use crate::ground::Server;
use crate::inject::Blow;
use crate::mutant::Mutant;
use crate::part::Part;
use crate::record::now;

pub(super) const AFTER_EFFECT: &str = "key checked after the effect";
pub(super) const AGE_ALONE: &str = "claim taken over by its age alone";
pub(super) const BY_ID: &str = "cursor by id";
pub(super) const MARKED_FIRST: &str = "marked as sent before the ack";
pub(super) const SKIP_LOCKED: &str = "many relays with SKIP LOCKED";
pub(super) const EXPIRY: &str = "messages that expire in an outage";

pub(super) const PIPELINED: &str = "pipelined resend after a refused message";

/// Those of them that a relay makes.
pub(super) const RELAYS: [&str; 5] = [BY_ID, MARKED_FIRST, SKIP_LOCKED, EXPIRY, PIPELINED];

/// Where a client whose claim ages may be stopped.
const CLAIMED: &str = "claimed";
/// The age at which it is taken over.
const OLD_MS: i64 = 1_000;

const ON: &str = "intake/postgres";

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant { name: AFTER_EFFECT, workload: ON, blows: &[] },
    Mutant { name: AGE_ALONE, workload: ON, blows: &[(Some("client"), Blow::StopAt(CLAIMED), 2_000..3_000)] },
    Mutant { name: BY_ID, workload: ON, blows: &[(Some("client"), Blow::StopAt(APPENDED), 500..1_500)] },
    Mutant { name: MARKED_FIRST, workload: ON, blows: &[(Some("relay"), Blow::KillAt(MARKED), 500..1_000)] },
    Mutant { name: SKIP_LOCKED, workload: ON, blows: &[(Some("relay"), Blow::Delay(Server::Kafka), 500..1_500)] },
    Mutant { name: EXPIRY, workload: ON, blows: &[(Some("relay"), Blow::BlackHole(Server::Kafka), 1_600..3_000)] },
    Mutant { name: PIPELINED, workload: ON, blows: &[(Some("relay"), Blow::Delay(Server::Postgres), 500..1_500)] },
];

/// Makes every third event of an item too large for the relay that sends it again later.
pub(super) fn ballast(part: &Part, sequence: i64) -> String {
    if part.is_mutant(PIPELINED) && sequence % 3 == 0 { "x".repeat(2 * LARGEST) } else { String::new() }
}

/// Whether the order was placed before is asked when it has been placed again.
pub(super) async fn after_effect<DB: Engine>(shop: &Shop<DB>, request: &Request) -> anyhow::Result<Told> {
    let mut tx = begin::<DB>(&shop.pool).await?;
    let receipt = shop.take(&mut tx, request).await?;
    commit(tx).await?;
    let text = serde_json::to_string(&receipt)?;
    let mut connection = shop.pool.acquire().await?;
    let first = Statement::new(include_str!("../../sql/intake/mutant_first.sql")).bind(&*request.key).bind(&*text);
    if first.execute::<DB>(&mut connection).await? > 0 {
        return Ok(Told { receipt, is_replay: false });
    }
    drop(connection);
    let stored = stored(shop, request).await?.context("the key is there")?;
    Ok(Told { receipt: stored, is_replay: true })
}

/// An owner that stood still, and the one that has taken its claim over, both go on.
pub(super) async fn by_age_alone<DB: Engine>(shop: &Shop<DB>, request: &Request) -> anyhow::Result<Option<Told>> {
    let at_ms = i64::try_from(now().as_millis())?;
    let claim = Statement::new(include_str!("../../sql/intake/mutant_claim.sql"));
    let claim = claim.bind(&*request.key).bind(at_ms).bind(OLD_MS);
    let mut connection = shop.pool.acquire().await?;
    let is_claimed = claim.execute::<DB>(&mut connection).await? > 0;
    drop(connection);
    if !is_claimed {
        return Ok(stored(shop, request).await?.map(|receipt| Told { receipt, is_replay: true }));
    }
    shop.part.point(CLAIMED);
    let mut tx = begin::<DB>(&shop.pool).await?;
    let receipt = shop.take(&mut tx, request).await?;
    let text = serde_json::to_string(&receipt)?;
    let complete = Statement::new(include_str!("../../sql/intake/mutant_complete.sql"));
    complete.bind(&*request.key).bind(&*text).execute::<DB>(&mut tx).await?;
    commit(tx).await?;
    Ok(Some(Told { receipt, is_replay: false }))
}

async fn stored<DB: Engine>(shop: &Shop<DB>, request: &Request) -> anyhow::Result<Option<Receipt>> {
    let mut connection = shop.pool.acquire().await?;
    let stored = Statement::new(include_str!("../../sql/intake/mutant_receipt.sql")).bind(&*request.key);
    let text = stored.fetch_one::<DB>(&mut connection).await?.text(0)?;
    if text.is_empty() { Ok(None) } else { Ok(Some(serde_json::from_str(&text)?)) }
}
