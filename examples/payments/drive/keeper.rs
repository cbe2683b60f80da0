//! Who kills the service at moments of the seed's choice, and starts it again.

use std::time::Duration;

use leastlock::core::Statement;
use sqlx::Pool;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::drive::server::Server;
use crate::ended::Ended;
use crate::engine::Engine;

const AT_WORK: &str = "SELECT count(*) FROM leastlock_idempotency WHERE scope LIKE 'shop/%/pay' AND state = 'running'";

/// A kill: so many answers in, and a little later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    answered: u64,
    then: Duration,
}

/// What became of it.
#[derive(Debug)]
pub(crate) struct Kept {
    /// As it runs now.
    pub(crate) service: Server,
    pub(crate) kills: u64,
    /// Keys that were claimed when their owner was killed.
    pub(crate) claims_cut: i64,
}

/// Spread over the drive, up to nine tenths of it: a kill is to meet the service at work.
pub(crate) fn moments(kills: u64, answers: u64, seed: u64) -> Vec<Moment> {
    let mut rng = fastrand::Rng::with_seed(seed ^ 0x6b69_6c6c);
    let mut moment =
        |_| Moment { answered: rng.u64(0..=answers * 9 / 10), then: Duration::from_millis(rng.u64(0..50)) };
    let mut moments: Vec<Moment> = (0..kills).map(&mut moment).collect();
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
    let (mut kills, mut claims_cut) = (0, 0);
    for Moment { answered: threshold, then } in moments {
        tokio::select! {
            _ = answered.wait_for(|answered| *answered >= threshold) => {}
            () = done.cancelled() => break,
            ended = service.ended("service") => return Err(ended),
        }
        tokio::time::sleep(then).await;
        service.kill().await?;
        kills += 1;
        let mut connection = pool.acquire().await.map_err(refused)?;
        let cut = Statement::new(AT_WORK).fetch_one::<DB>(&mut connection).await.and_then(|row| row.int(0));
        claims_cut += cut.map_err(refused)?;
        drop(connection);
        service = Server::start(arguments).await?;
        // Clients that are gone need no address.
        address.send_replace(service.address.clone());
    }
    tokio::select! {
        () = done.cancelled() => Ok(Kept { service, kills, claims_cut }),
        ended = service.ended("service") => Err(ended),
    }
}
