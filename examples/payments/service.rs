//! The service: HTTP in front, relay and reconciler behind.

use std::sync::Arc;
use std::time::Duration;

use leastlock::core::{Backoff, MigrationError};
use leastlock::idempotency::phased::{Phased, Reconciler};
use leastlock::outbox::{Outbox, Relay, SqlLog};
use leastlock::{idempotency, outbox};
use sqlx::{Pool, Postgres, Sqlite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::args::Serve;
use crate::ended::Ended;
use crate::engine::{Engine, Known, Pools, place};
use crate::service::card::Card;
use crate::service::http::Desk;
use crate::service::notices::Notices;
use crate::service::payment::Payments;
use crate::service::shop::Shop;
use crate::shutdown;

mod answer;
pub(crate) mod card;
mod http;
mod notices;
mod payment;
pub(crate) mod shop;

pub(crate) use crate::service::answer::PROBLEMS;
pub(crate) use crate::service::http::{CUSTOMER, scope_of};
pub(crate) use crate::service::notices::Line;

/// How long payments at work may take to end at shutdown; what is left then goes on after the lease, with the next request.
const DRAIN: Duration = Duration::from_secs(10);

/// Serves until it is told to end.
pub(crate) async fn serve(args: Serve) -> Result<(), Ended> {
    match Known::of(&args.database) {
        Some(Known::Postgres) => serve_on::<Postgres>(args).await,
        Some(Known::Sqlite) => serve_on::<Sqlite>(args).await,
        None => Err(Ended::Refused("--database must begin with postgres:// or sqlite://".to_owned())),
    }
}

async fn serve_on<DB: Engine>(args: Serve) -> Result<(), Ended> {
    let shutdown = shutdown::token(args.until_stdin_closes)?;
    let pools = DB::open(&args.database).await;
    let pools = pools
        .map_err(|error| Ended::refused(&format!("cannot reach the database {}", place(&args.database)), &error))?;
    migrate(&pools.back_office).await.map_err(|error| Ended::refused("cannot make the tables", &error))?;
    let on_sale = shop::put_on_sale(&pools.back_office, args.items, args.opening_stock).await;
    on_sale.map_err(|error| Ended::refused("cannot put anything on sale", &error))?;

    let service = Service::open(&args, &pools).await?;
    let listener = TcpListener::bind(args.listen).await;
    let listener = listener.map_err(|error| Ended::refused(&format!("cannot listen on {}", args.listen), &error))?;
    let address = listener.local_addr().map_err(|error| Ended::refused("no address", &error))?;
    println!("listening on http://{address}");
    service.run(listener, shutdown).await
}

/// Everything that the service runs.
struct Service<DB: Engine> {
    desk: Arc<Desk<DB>>,
    relay: Relay<SqlLog<DB>, Notices>,
    reconciler: Reconciler<DB, Card>,
}

impl<DB: Engine> Service<DB> {
    async fn open(args: &Serve, pools: &Pools<DB>) -> Result<Self, Ended> {
        let lease = Duration::from_millis(args.lease_ms);
        let phased = Phased::builder()
            .lease(lease)
            // A provider may fail, and this service stop, several times during one payment. Beyond that the key is held for an operator,
            // whom a drive does not have.
            .max_attempts(10)
            .backoff(Backoff::new(Duration::from_millis(50), Duration::from_secs(2)))
            .build()
            .map_err(|error| Ended::refused("the payments' settings", &error))?;
        let card = Card::new(&args.provider, Duration::from_millis(args.call_limit_ms), args.mistake);
        let card = card.map_err(|error| Ended::refused("the provider's client", &error))?;
        let outbox = Outbox::open(&pools.back_office).await.map_err(|error| Ended::refused("the outbox", &error))?;
        let relay = Relay::builder(&pools.back_office, Notices::open(args)?).lease(lease).woken_by(outbox.wake());
        // It asks about what has been unknown for longer than a lease: no call is valid for longer than its claim. A customer
        // waits for each, so a provider that says nothing is asked again soon, however often it has said nothing.
        let reconciler = Reconciler::builder(phased.clone(), pools.back_office.clone(), card.clone())
            .older_than(lease)
            .interval(lease / 2)
            .backoff(Backoff::new(lease / 2, lease * 4));
        let payments = Payments {
            pool: pools.payments.clone(),
            phased,
            shop: Shop::new(outbox, &args.topic),
            card,
            policy: args.policy,
        };
        Ok(Self {
            desk: Arc::new(Desk {
                payments: Arc::new(payments),
                permits: Arc::new(Semaphore::new(usize::from(args.max_payments))),
                at_work: TaskTracker::new(),
            }),
            relay: relay.build().map_err(|error| Ended::refused("the relay", &error))?,
            reconciler: reconciler.build().map_err(|error| Ended::refused("the reconciler", &error))?,
        })
    }

    /// First no new requests, then the payments at work, then those who publish and ask.
    async fn run(self, listener: TcpListener, shutdown: CancellationToken) -> Result<(), Ended> {
        let Self { desk, relay, reconciler } = self;
        let back_office = CancellationToken::new();
        let mut relay = tokio::spawn(relay.run(back_office.clone()));
        let mut reconciler = tokio::spawn(reconciler.run(back_office.clone()));
        let router = http::router(Arc::clone(&desk)).map_err(|error| Ended::refused("the HTTP layer", &error))?;
        let serving = axum::serve(listener, router).with_graceful_shutdown(shutdown.clone().cancelled_owned());
        let desk_closed = async {
            let ended = tokio::select! {
                ended = serving => ended,
                // An idle client keeps its connection, and a server that waits for it never ends.
                () = async { shutdown.cancelled().await; tokio::time::sleep(DRAIN).await } => Ok(()),
            };
            desk.at_work.close();
            if tokio::time::timeout(DRAIN, desk.at_work.wait()).await.is_err() {
                tracing::warn!(
                    left = desk.at_work.len(),
                    "payments at work are left to the next request with their key"
                );
            }
            ended
        };
        tokio::select! {
            ended = desk_closed => ended.map_err(|error| Ended::refused("the server stopped", &error))?,
            ended = &mut relay => return Err(early("relay", ended.map(|ended| ended.map(drop)))),
            ended = &mut reconciler => return Err(early("reconciler", ended.map(|ended| ended.map(drop)))),
        }
        back_office.cancel();
        let published = joined("relay", relay.await)?;
        let asked = joined("reconciler", reconciler.await)?;
        tracing::info!(published = published.published, asked = asked.asked, resolved = asked.resolved, "ended");
        Ok(())
    }
}

fn early<E: std::error::Error + 'static>(who: &str, ended: Result<Result<(), E>, tokio::task::JoinError>) -> Ended {
    match joined(who, ended) {
        Ok(()) => Ended::Refused(format!("the {who} ended before the service did")),
        Err(ended) => ended,
    }
}

fn joined<T, E>(who: &str, ended: Result<Result<T, E>, tokio::task::JoinError>) -> Result<T, Ended>
where
    E: std::error::Error + 'static,
{
    let ended = ended.map_err(|panic| Ended::refused(&format!("the {who} panicked"), &panic))?;
    ended.map_err(|error| Ended::refused(&format!("the {who} stopped"), &error))
}

/// Applies every table that the service needs.
async fn migrate<DB: Engine>(pool: &Pool<DB>) -> Result<(), MigrationError> {
    idempotency::MIGRATIONS.run(pool).await?;
    outbox::MIGRATIONS.run(pool).await?;
    shop::MIGRATIONS.run(pool).await
}
