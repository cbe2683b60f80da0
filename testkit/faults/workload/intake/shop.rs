//! The shop: an order is claimed, taken from the stock, noted and told to others in one transaction, without a lock.

use std::sync::Arc;

use anyhow::Context;
use leastlock_core::Statement;
use leastlock_idempotency::{Begin, Fingerprint, IdempotencySql, Key, Keys, OnDuplicate, Scope};
use leastlock_occ::guarded;
use leastlock_outbox::{Event, Outbox, OutboxSql};
use leastlock_testkit::database::{MySql, Postgres, sql};
use serde::{Deserialize, Serialize};
use sqlx::Pool;
use tokio::sync::OnceCell;

use super::{IDLE, mutant};
use crate::part::Part;
use crate::pool::Pooled;

/// Points at which a client may be killed or stopped.
pub(super) const TAKEN: &str = "taken";
pub(super) const APPENDED: &str = "appended";

const CONNECTIONS: u32 = 8;

/// An engine that the shop is on.
pub(super) trait Engine: Pooled + IdempotencySql + OutboxSql {
    /// Begins a transaction that reads one moment.
    const SNAPSHOT: &'static str;
}

impl Engine for Postgres {
    const SNAPSHOT: &'static str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
}

impl Engine for MySql {
    const SNAPSHOT: &'static str = "START TRANSACTION WITH CONSISTENT SNAPSHOT";
}

/// What is asked for; it follows from its number alone, so that every client asks the same.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) key: String,
    pub(super) item: i64,
    pub(super) units: i64,
}

/// What a client is told, the first time and on every repeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Receipt {
    Placed {
        /// The number of the move among its item's, from 1.
        sequence: i64,
    },
    SoldOut,
}

/// A receipt, and how it came.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) receipt: Receipt,
    pub(super) is_replay: bool,
}

/// What others are told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Moved {
    pub(super) order: String,
    pub(super) sequence: i64,
    pub(super) units: i64,
    /// What only one of the mutants has: a record that is too large with it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) ballast: String,
}

/// The shop in one process.
#[derive(Debug)]
pub(super) struct Shop<DB: Engine> {
    pub(super) pool: Pool<DB>,
    pub(super) part: Part,
    keys: Keys,
    scope: Scope,
    outbox: OnceCell<Outbox>,
    topic: Arc<str>,
}

impl<DB: Engine> Shop<DB> {
    pub(super) fn open(part: Part) -> anyhow::Result<Self> {
        let pool = DB::lazy(part.address(DB::SERVER)?, CONNECTIONS)?;
        let keys = Keys::builder().on_duplicate(OnDuplicate::Wait(IDLE)).idle_limit(IDLE).build()?;
        let (scope, topic) = (Scope::of_operation("place-order")?, part.task.name.as_str().into());
        Ok(Self { pool, part, keys, scope, outbox: OnceCell::new(), topic })
    }

    /// Places an order, or says what it came to before; nothing while the first is still at work.
    pub(super) async fn place(&self, request: &Request) -> anyhow::Result<Option<Told>> {
        // Before any transaction takes a connection: opening needs one as well.
        self.outbox.get_or_try_init(|| Outbox::open(&self.pool)).await?;
        if self.part.is_mutant(mutant::AFTER_EFFECT) {
            return mutant::after_effect(self, request).await.map(Some);
        }
        if self.part.is_mutant(mutant::AGE_ALONE) {
            return mutant::by_age_alone(self, request).await;
        }
        let key = Key::new(&self.scope, &request.key)?;
        let fingerprint = Fingerprint::of_parts([request.item.to_be_bytes(), request.units.to_be_bytes()]);
        match self.keys.begin(&self.pool, &key, &fingerprint).await? {
            Begin::First(mut unit) => {
                let receipt = self.take(unit.tx(), request).await?;
                self.part.point(APPENDED);
                let receipt = unit.complete(receipt).await?;
                Ok(Some(Told { receipt, is_replay: false }))
            }
            Begin::Replay(receipt) => Ok(Some(Told { receipt, is_replay: true })),
            Begin::InFlight { .. } => Ok(None),
            Begin::Mismatch => anyhow::bail!("{} was asked for with something else", request.key),
        }
    }

    /// The effect: all of it in the caller's transaction.
    pub(super) async fn take(
        &self,
        tx: &mut sqlx::Transaction<'static, DB>,
        request: &Request,
    ) -> anyhow::Result<Receipt> {
        let Request { key, item, units } = request;
        let take =
            sql::<DB>(include_str!("../../sql/intake/take.sql"), include_str!("../../sql/intake/take_mysql.sql"));
        let take = Statement::new(take).bind(*units).bind(*item).bind(*units).into_query::<DB>()?;
        if guarded(take).execute(&mut **tx).await?.is_refused() {
            return Ok(Receipt::SoldOut);
        }
        self.part.point(TAKEN);
        let moves =
            sql::<DB>(include_str!("../../sql/intake/moves.sql"), include_str!("../../sql/intake/moves_mysql.sql"));
        let sequence = Statement::new(moves).bind(*item).fetch_one::<DB>(tx).await?.int(0)?;
        let place =
            sql::<DB>(include_str!("../../sql/intake/place.sql"), include_str!("../../sql/intake/place_mysql.sql"));
        let place = Statement::new(place).bind(&**key).bind(*item).bind(*units).bind(sequence);
        place.execute::<DB>(tx).await?;
        let outbox = self.outbox.get().context("it was opened")?;
        let ballast = mutant::ballast(&self.part, sequence);
        let event = Moved { order: key.clone(), sequence, units: *units, ballast };
        outbox.append(tx, Event::new(&*self.topic, item.to_string()).json(&event)?).await?;
        Ok(Receipt::Placed { sequence })
    }
}
