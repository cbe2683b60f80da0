//! The phased mode: for effects outside the database, such as a card charge or a mail.
//!
//! No transaction spans a database and a bank. So the work is a list of named steps, and the record of a key says how far they
//! are: a [local](Run::local) step commits its effect together with its record; an [external](Run::external) one is recorded as
//! *started* before its call, brings the provider a key of its own, and is recorded as *done*, with its result, after it. The key is
//! claimed with a lease and a generation: a worker that dies leaves it to the next claimant, who goes on where it stopped.
//!
//! ```
//! use leastlock_idempotency::phased::{External, Local, Phased, PhasedBegin, RetryWithSameKey, Run};
//! use leastlock_idempotency::{Error, Fingerprint, Key, Scope};
//! # use sqlx::{Sqlite, SqlitePool};
//! # #[derive(Debug)] enum Rejected { KeyReused, Busy, BeingLookedInto }
//! # enum Refusal { Declined, NoAnswer }
//! # struct Bank;
//! # impl Bank { async fn charge(&self, _key: &str, cents: u32) -> Result<String, Refusal> {
//! #     match cents { 0 => Err(Refusal::Declined), 1 => Err(Refusal::NoAnswer), _ => Ok("ch_1".to_owned()) }
//! # } }
//!
//! async fn pay(mut run: Run<Sqlite, String>, bank: Bank, cents: u32) -> Result<Result<String, Rejected>, Error> {
//!     // An owner before has turned back, and may have died on its way.
//!     if run.turned_back().is_some() {
//!         return Ok(Ok(go_back(run).await?));
//!     }
//!     // In the database: effect and record commit together, or not at all.
//!     if let Local::Todo(mut step) = run.local("reserve").compensated_by("unreserve").await? {
//!         sqlx::query("UPDATE stock SET units = units - 1").execute(&mut **step.tx()).await.unwrap();
//!         step.done(()).await?;
//!     }
//!     // Outside: recorded before the call and after it.
//!     let charge = match run.external("charge", RetryWithSameKey).await? {
//!         External::Todo(attempt) => match bank.charge(attempt.provider_key().as_str(), cents).await {
//!             Ok(receipt) => Ok(attempt.done(receipt).await?),
//!             Err(Refusal::Declined) => Err(attempt.failed(&"declined").await?), // a definite no
//!             Err(Refusal::NoAnswer) => return Ok(Err(Rejected::Busy)),          // no answer: unknown, not failed
//!         },
//!         External::Done(receipt) => Ok(receipt), // by an owner that died before it could answer
//!         External::Failed(failure) => Err(failure),
//!         External::Held(_) => return Ok(Err(Rejected::BeingLookedInto)),
//!     };
//!     match charge {
//!         Ok(receipt) => Ok(Ok(run.complete(receipt).await?)),
//!         Err(_) => {
//!             run.compensate("the card was declined").await?;
//!             Ok(Ok(go_back(run).await?))
//!         }
//!     }
//! }
//!
//! async fn go_back(mut run: Run<Sqlite, String>) -> Result<String, Error> {
//!     if let Local::Todo(mut step) = run.local("unreserve").await? {
//!         sqlx::query("UPDATE stock SET units = units + 1").execute(&mut **step.tx()).await.unwrap();
//!         step.done(()).await?;
//!     }
//!     run.complete("declined".to_owned()).await
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
//! # leastlock_idempotency::MIGRATIONS.run(&pool).await?;
//! # sqlx::raw_sql("CREATE TABLE stock (units INTEGER); INSERT INTO stock VALUES (10)").execute(&pool).await?;
//! # async fn handle(pool: &SqlitePool, id: &str, cents: u32) -> Result<Result<String, Rejected>, Box<dyn std::error::Error>> {
//! let phased = Phased::default();
//! let key = Key::new(&Scope::new("tenant-7", "user-3", "pay").unwrap(), id).unwrap();
//! let fingerprint = Fingerprint::request("POST", "/payments", "").json(format!("{cents}").as_bytes());
//!
//! Ok(match phased.begin(pool, &key, &fingerprint).await? {
//!     PhasedBegin::First(run) => tokio::spawn(pay(run, Bank, cents)).await??, // a client that hangs up does not end it
//!     PhasedBegin::Replay(answer) => Ok(answer),
//!     PhasedBegin::Mismatch => Err(Rejected::KeyReused),
//!     PhasedBegin::InFlight { .. } => Err(Rejected::Busy),
//!     PhasedBegin::Unknown(_) => Err(Rejected::BeingLookedInto),
//! })
//! # }
//! # assert_eq!(handle(&pool, "k1", 42).await?.unwrap(), "ch_1");
//! # assert_eq!(handle(&pool, "k1", 42).await?.unwrap(), "ch_1");
//! # assert!(matches!(handle(&pool, "k1", 43).await?, Err(Rejected::KeyReused)));
//! # assert_eq!(handle(&pool, "k2", 0).await?.unwrap(), "declined");
//! # assert!(matches!(handle(&pool, "k3", 1).await?, Err(Rejected::Busy)));
//! # assert!(matches!(handle(&pool, "k3", 1).await?, Err(Rejected::Busy)), "in flight until its lease is over");
//! # let units: i64 = sqlx::query_scalar("SELECT units FROM stock").fetch_one(&pool).await?;
//! # assert_eq!(units, 8);
//! # Ok(())
//! # }
//! ```
//!
//! # What it guarantees
//! - **A step that is recorded as done is not run again**, by whomever, and its result is the same for all.
//! - **A late owner changes nothing.** Every write has generation and owner in its condition; one that comes too late says
//!   [`Error::Superseded`](crate::Error::Superseded), and a local step that comes too late does not commit.
//! - **A time-out is not an answer.** A call that was started and not heard of again is *unknown*: it is never free, and its
//!   [policy](Policy) decides: [`RetryWithSameKey`], [`Reconcile`] or [`Hold`].
//! - **The provider key of a step never changes**, over retries, owners and versions of the program.
//! - **A dead owner blocks its key for a lease at most**; a stopped one too, beyond what a statement under way at that moment
//!   holds (PostgreSQL and MariaDB end its transaction after its idle bound).
//! - **What is unknown is visible**: [`Phased::list_unknown`], [`Phased::resolve`] with an audit, and a [`Reconciler`].
//!
//! # What it does not promise
//! - One call of the provider: with [`RetryWithSameKey`] it may see several, all with one key, and has to have one effect for them.
//! - Anything about a stopped owner that makes its call after somebody else has settled the step. The provider key is what
//!   keeps that call from a second effect, so a provider without keys needs [`Hold`], and an operator who knows.
//! - That somebody comes. A dead owner's key is taken up when its request is repeated; until then it is listed as unknown.
//!
//! # A record's life
//! `running → completed`, `running → held → running | completed`, and back to nothing by a release. A record that is not finished
//! does not expire, and no sweep takes it: only a finished one has an end, its completion plus the retention.
//!
//! The [transactional mode](crate::Keys) and this one share the records: an answer of either is replayed by both. A key at
//! work or held here is [`Error::Phased`](crate::Error::Phased) there; a unit at work there is [`PhasedBegin::InFlight`] here.

mod attempt;
mod begin;
pub(crate) mod bounded;
mod compensation;
mod external;
mod failpoint;
mod local;
mod log;
mod owner;
mod policy;
mod provider_key;
mod reconciler;
mod record;
mod renewal;
mod resolve;
mod retention;
mod run;
mod settings;
mod sql;
mod step_error;
mod unknown;

pub use crate::phased::attempt::Attempt;
pub use crate::phased::begin::PhasedBegin;
pub use crate::phased::external::{External, ExternalCall, Failure};
pub use crate::phased::local::{Local, LocalCall, LocalStep};
pub use crate::phased::log::RecoveryPoint;
pub use crate::phased::policy::{Decision, Hold, Policy, Reconcile, RetryWithSameKey, Verdict};
pub use crate::phased::provider_key::ProviderKey;
pub use crate::phased::reconciler::{Inquiry, Reconciler, ReconcilerBuilder, Summary};
pub use crate::phased::resolve::{Resolution, Resolved};
pub use crate::phased::run::Run;
pub use crate::phased::settings::{Phased, PhasedBuilder};
pub use crate::phased::sql::PhasedSql;
pub use crate::phased::step_error::StepError;
pub use crate::phased::unknown::{Unknown, UnknownStep};
