//! The service: stock is reserved, the card is charged, the order is settled or taken back; each step is recorded, and whoever
//! takes a payment over goes on where its owner died.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use leastlock_core::{Backoff, Statement};
use leastlock_idempotency::phased::{
    Attempt, External, Local, Phased, PhasedBegin, ProviderKey, RetryWithSameKey, Run,
};
use leastlock_idempotency::{Fingerprint, Key, Scope};
use leastlock_occ::guarded;
use leastlock_testkit::database::Postgres;
use serde::{Deserialize, Serialize};
use sqlx::{PgConnection, PgPool};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::{LEASE, mutant};
use crate::ground::Server;
use crate::part::Part;
use crate::pool::Pooled;

/// Where a client may be killed or stopped.
pub(super) const RESERVED: &str = "reserved";
pub(super) const CALLING: &str = "calling";
pub(super) const PAID: &str = "paid";

/// How long a call of the provider may take.
const CALL_LIMIT: Duration = Duration::from_millis(1_500);
const CONNECTIONS: u32 = 10;
/// So often that an outage does not use them up.
const ATTEMPTS: u32 = 1_000;

/// What is asked for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Payment {
    pub(super) key: String,
    pub(super) item: i64,
    pub(super) units: i64,
    pub(super) cents: i64,
}

/// What a client is told, the first time and on every repeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Receipt {
    Paid { charge: i64 },
    Declined,
    SoldOut,
}

/// A receipt, and how it came.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) receipt: Receipt,
    pub(super) is_replay: bool,
}

/// What is heard of a call of the provider.
enum Heard {
    Charged(i64),
    Declined,
    /// The call did not leave.
    NotSent,
    Nothing,
}

/// The service in one process.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) pool: PgPool,
    pub(super) part: Part,
    phased: Phased,
    scope: Scope,
}

impl Service {
    pub(super) fn open(part: Part) -> anyhow::Result<Self> {
        let pool = Postgres::lazy(part.address(Server::Postgres)?, CONNECTIONS)?;
        let backoff = Backoff::new(Duration::from_millis(50), Duration::from_millis(500));
        let phased =
            Phased::builder().lease(LEASE).call_limit(LEASE).max_attempts(ATTEMPTS).backoff(backoff).build()?;
        Ok(Self { pool, part, phased, scope: Scope::of_operation("pay")? })
    }

    /// Pays, goes on with a payment whose owner has died, or says what it came to; nothing while somebody is at work on it.
    pub(super) async fn pay(&self, payment: &Payment) -> anyhow::Result<Option<Told>> {
        let key = Key::new(&self.scope, &payment.key)?;
        let parts = [payment.item, payment.units, payment.cents].map(i64::to_be_bytes);
        match self.phased.begin(&self.pool, &key, &Fingerprint::of_parts(parts)).await? {
            PhasedBegin::First(run) => {
                let receipt = self.steps(run, payment).await?;
                Ok(Some(Told { receipt, is_replay: false }))
            }
            PhasedBegin::Replay(receipt) => Ok(Some(Told { receipt, is_replay: true })),
            PhasedBegin::InFlight { .. } => Ok(None),
            PhasedBegin::Mismatch => bail!("{} was asked for with something else", payment.key),
            PhasedBegin::Unknown(unknown) => bail!("{} is held: {unknown:?}", payment.key),
        }
    }

    async fn steps(&self, mut run: Run<Postgres, Receipt>, payment: &Payment) -> anyhow::Result<Receipt> {
        if run.turned_back().is_some() {
            return self.go_back(run, payment).await;
        }
        let reserved = match run.local("reserve").compensated_by("cancel").await? {
            Local::Todo(mut step) => {
                let reserved = reserve(step.tx(), payment).await?;
                self.part.point(RESERVED);
                step.done(reserved).await?
            }
            Local::Done(reserved) => reserved,
        };
        if !reserved {
            return Ok(run.complete(Receipt::SoldOut).await?);
        }
        let Some(charge) = self.charge(&mut run, payment).await? else {
            run.compensate("declined").await?;
            return self.go_back(run, payment).await;
        };
        self.part.point(PAID);
        if let Local::Todo(mut step) = run.local("settle").await? {
            leave(step.tx(), payment, "paid").await?;
            step.done(()).await?;
        }
        Ok(run.complete(Receipt::Paid { charge }).await?)
    }

    async fn go_back(&self, mut run: Run<Postgres, Receipt>, payment: &Payment) -> anyhow::Result<Receipt> {
        if let Local::Todo(mut step) = run.local("cancel").await? {
            leave(step.tx(), payment, "cancelled").await?;
            let give_back = Statement::new(include_str!("../../sql/payments/give_back.sql"));
            give_back.bind(payment.units).bind(payment.item).execute::<Postgres>(step.tx()).await?;
            step.done(()).await?;
        }
        Ok(run.complete(Receipt::Declined).await?)
    }

    /// The charge; nothing if the card is declined.
    async fn charge(&self, run: &mut Run<Postgres, Receipt>, payment: &Payment) -> anyhow::Result<Option<i64>> {
        loop {
            let attempt: Attempt<'_, Postgres, Receipt, i64> = match run.external("charge", RetryWithSameKey).await? {
                External::Todo(attempt) => attempt,
                External::Done(charge) => return Ok(Some(charge)),
                External::Failed(_) => return Ok(None),
                External::Held(unknown) => bail!("{} is held: {unknown:?}", payment.key),
            };
            self.part.point(CALLING);
            match self.call(attempt.provider_key(), payment).await {
                Heard::Charged(charge) => return Ok(Some(attempt.done(charge).await?)),
                Heard::Declined => {
                    attempt.failed(&"declined").await?;
                    return Ok(None);
                }
                Heard::NotSent => attempt.not_sent().await?,
                Heard::Nothing => attempt.unknown(),
            }
        }
    }

    async fn call(&self, key: &ProviderKey, payment: &Payment) -> Heard {
        let key = if self.part.is_mutant(mutant::NEW_KEY) { fastrand::u64(..).to_string() } else { key.to_string() };
        let call = format!("{key} {} {}\n", payment.key, payment.cents);
        let Ok(address) = self.part.address(Server::Provider) else { return Heard::NotSent };
        let Ok(Ok(stream)) = tokio::time::timeout(CALL_LIMIT, TcpStream::connect(address)).await else {
            return Heard::NotSent;
        };
        let said = tokio::time::timeout(CALL_LIMIT, said(stream, &call)).await;
        let Ok(Ok(said)) = said else { return Heard::Nothing };
        match said.trim().split_once(' ') {
            Some(("charged", charge)) => charge.parse().map_or(Heard::Nothing, Heard::Charged),
            None if said == "declined\n" => Heard::Declined,
            _ => Heard::Nothing,
        }
    }
}

async fn said(stream: TcpStream, call: &str) -> std::io::Result<String> {
    let (mut stream, mut said) = (BufReader::new(stream), String::new());
    stream.get_mut().write_all(call.as_bytes()).await?;
    stream.read_line(&mut said).await?;
    Ok(said)
}

/// The order and its units, or neither.
async fn reserve(connection: &mut PgConnection, payment: &Payment) -> anyhow::Result<bool> {
    let take = Statement::new(include_str!("../../sql/payments/take.sql")).bind(payment.units).bind(payment.item);
    if guarded(take.into_query::<Postgres>()?).execute(&mut *connection).await?.is_refused() {
        return Ok(false);
    }
    let reserve = Statement::new(include_str!("../../sql/payments/reserve.sql"));
    let reserve = reserve.bind(&*payment.key).bind(payment.item).bind(payment.units);
    reserve.execute::<Postgres>(connection).await?;
    Ok(true)
}

/// The order leaves the state in which it was reserved.
async fn leave(connection: &mut PgConnection, payment: &Payment, state: &'static str) -> anyhow::Result<()> {
    let leave = Statement::new(include_str!("../../sql/payments/move.sql")).bind(&*payment.key).bind(state);
    let left = leave.execute::<Postgres>(connection).await.context("the order's state")?;
    ensure!(left == 1, "{} rows of the order {} became {state}", left, payment.key);
    Ok(())
}
