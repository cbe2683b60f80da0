//! Who kills the service at moments of the seed's choice, or stops it for longer than its lease.

use std::time::{Duration, Instant};

use leastlock::core::Statement;
use sqlx::Pool;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::drive::server::Server;
use crate::ended::Ended;
use crate::engine::Engine;

const AT_WORK: &str = "SELECT scope, idempotency_key, generation FROM leastlock_idempotency \
    WHERE scope LIKE 'shop/%/pay' AND state = 'running'";
const STILL_ITS_OWN: &str = "SELECT count(*) FROM leastlock_idempotency \
    WHERE scope = $1 AND idempotency_key = $2 AND generation = $3 AND state = 'running'";
/// The longest that a service stays stopped: a key whose row it has locked goes to nobody before.
const STOPPED_AT_MOST: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(50);

/// What happens to the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Blow {
    /// SIGKILL, and a start after it.
    Kill,
    /// SIGSTOP. Another is started beside it, takes its keys over, and then it goes on, not knowing.
    Stop,
}

/// A blow: so many answers in, and a little later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    answered: u64,
    then: Duration,
    blow: Blow,
}

/// What became of it.
#[derive(Debug)]
pub(crate) struct Kept {
    /// As it runs now.
    pub(crate) service: Server,
    pub(crate) blows: Blows,
}

/// What the service has met.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Blows {
    pub(crate) kills: u64,
    /// Keys that were claimed when their owner was killed.
    pub(crate) claims_cut: usize,
    pub(crate) stops: u64,
    /// Keys that went to others while their owner was stopped.
    pub(crate) claims_lost: usize,
}

/// A key, and the generation of its owner.
struct Claim {
    scope: String,
    key: String,
    generation: i64,
}

/// Spread over the drive, up to nine tenths of it: a blow is to meet the service at work.
pub(crate) fn moments(kills: u16, stops: u16, answers: u64, seed: u64) -> Vec<Moment> {
    let mut rng = fastrand::Rng::with_seed(seed ^ 0x6b69_6c6c);
    let blows = std::iter::repeat_n(Blow::Kill, kills.into()).chain(std::iter::repeat_n(Blow::Stop, stops.into()));
    let moment =
        |blow| Moment { answered: rng.u64(0..=answers * 9 / 10), then: Duration::from_millis(rng.u64(0..50)), blow };
    let mut moments: Vec<Moment> = blows.map(moment).collect();
    moments.sort_unstable();
    moments
}

/// Keeps the service until `done`.
pub(crate) async fn keep<DB: Engine>(
    pool: &Pool<DB>,
    mut service: Server,
    arguments: &[String],
    moments: Vec<Moment>,
    (mut answered, address, done): (watch::Receiver<u64>, watch::Sender<String>, CancellationToken),
) -> Result<Kept, Ended> {
    let refused = |error: sqlx::Error| Ended::refused("the keys cannot be read", &error);
    let mut blows = Blows::default();
    for Moment { answered: threshold, then, blow } in moments {
        tokio::select! {
            _ = answered.wait_for(|answered| *answered >= threshold) => {}
            () = done.cancelled() => break,
            ended = service.ended("service") => return Err(ended),
        }
        tokio::time::sleep(then).await;
        service = match blow {
            Blow::Kill => {
                service.kill().await?;
                blows.kills += 1;
                blows.claims_cut += at_work(pool).await.map_err(refused)?.len();
                Server::start(arguments).await?
            }
            Blow::Stop => {
                service.stop()?;
                blows.stops += 1;
                let claims = at_work(pool).await.map_err(refused)?;
                let successor = Server::start(arguments).await?;
                address.send_replace(successor.address.clone());
                blows.claims_lost += lost(pool, claims, &done).await.map_err(refused)?;
                service.go_on()?;
                // What it still had to do, it does now, or is told that it is too late.
                service.end("service that was stopped").await?;
                successor
            }
        };
        // Clients that are gone need no address.
        address.send_replace(service.address.clone());
    }
    tokio::select! {
        () = done.cancelled() => Ok(Kept { service, blows }),
        ended = service.ended("service") => Err(ended),
    }
}

async fn at_work<DB: Engine>(pool: &Pool<DB>) -> Result<Vec<Claim>, sqlx::Error> {
    let mut connection = pool.acquire().await?;
    let rows = Statement::new(AT_WORK).fetch_all::<DB>(&mut connection).await?;
    rows.iter().map(|row| Ok(Claim { scope: row.text(0)?, key: row.text(1)?, generation: row.int(2)? })).collect()
}

/// Waits until all of these keys have gone to others; answers how many have.
async fn lost<DB: Engine>(
    pool: &Pool<DB>,
    mut claims: Vec<Claim>,
    done: &CancellationToken,
) -> Result<usize, sqlx::Error> {
    let (all, deadline) = (claims.len(), Instant::now() + STOPPED_AT_MOST);
    loop {
        let mut connection = pool.acquire().await?;
        let mut kept = Vec::new();
        for claim in claims {
            let look = Statement::new(STILL_ITS_OWN).bind(&claim.scope).bind(&claim.key).bind(claim.generation);
            if look.fetch_one::<DB>(&mut connection).await?.int(0)? > 0 {
                kept.push(claim);
            }
        }
        drop(connection);
        claims = kept;
        if claims.is_empty() || Instant::now() > deadline || done.is_cancelled() {
            return Ok(all - claims.len());
        }
        tokio::time::sleep(LOOK).await;
    }
}
