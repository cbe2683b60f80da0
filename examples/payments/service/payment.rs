//! A payment: the steps in their order, and the way back.

use leastlock::idempotency::phased::{
    External, Hold, Local, Phased, PhasedBegin, Policy as StepPolicy, Reconcile, RetryWithSameKey, Run,
};
use leastlock::idempotency::{Fingerprint, Key};
use sqlx::Pool;
use std::time::Duration;

use crate::BoxError;
use crate::args::Policy;
use crate::engine::Engine;
use crate::provider::ChargeRequest;
use crate::service::answer::Answer;
use crate::service::card::{CHARGE_STEP, Card, Charge, Heard};
use crate::service::shop::{Order, Reservation, Shop};

/// What a request is told.
#[derive(Debug)]
pub(crate) enum Told {
    First(Answer),
    Replayed(Answer),
    Mismatch,
    InFlight {
        retry_after: Duration,
    },
    /// Whether the card was charged is not known yet.
    Unknown,
}

/// What became of the card.
enum Charged {
    Yes(Charge),
    No(String),
    Unknown,
}

/// Takes payments.
#[derive(Debug, Clone)]
pub(crate) struct Payments<DB: Engine> {
    pub(crate) pool: Pool<DB>,
    pub(crate) phased: Phased,
    pub(crate) shop: Shop,
    pub(crate) card: Card,
    pub(crate) policy: Policy,
}

impl<DB: Engine> Payments<DB> {
    /// Takes a payment, goes on with one whose owner has died, or says what became of it.
    pub(crate) async fn pay(
        &self,
        (customer, key): (&str, &Key),
        fingerprint: &Fingerprint,
        order: &Order,
    ) -> Result<Told, BoxError> {
        match self.phased.begin(&self.pool, key, fingerprint).await? {
            PhasedBegin::First(run) => self.steps(run, customer, order).await,
            PhasedBegin::Replay(answer) => Ok(Told::Replayed(answer)),
            PhasedBegin::Mismatch => Ok(Told::Mismatch),
            PhasedBegin::InFlight { retry_after } => Ok(Told::InFlight { retry_after }),
            PhasedBegin::Unknown(_) => Ok(Told::Unknown),
        }
    }

    /// Whoever takes the key over walks the same steps: those that are recorded answer at once with what they came to.
    async fn steps(&self, mut run: Run<DB, Answer>, customer: &str, order: &Order) -> Result<Told, BoxError> {
        if let Some(reason) = run.turned_back().map(str::to_owned) {
            return self.go_back(run, order, &reason).await;
        }
        let key = run.key().clone();
        // The compensation is registered with the step, so that the key cannot be completed with the stock still taken.
        let reservation = match run.local("reserve").compensated_by("cancel").await? {
            Local::Todo(mut step) => {
                let reservation = self.shop.reserve(step.tx(), (customer, &key), order).await?;
                step.done(reservation).await?
            }
            Local::Done(reservation) => reservation,
        };
        let Reservation::Reserved { amount_cents } = reservation else {
            return Ok(Told::First(run.complete(Answer::refused(&reservation, order)?).await?));
        };
        let request = ChargeRequest { reference: order.id.clone(), amount_cents, card: order.card.clone() };
        match self.charge_by_policy(&mut run, &request).await? {
            Charged::Yes(charge) => {
                if let Local::Todo(mut step) = run.local("settle").await? {
                    self.shop.settle(step.tx(), order, &charge).await?;
                    step.done(()).await?;
                    self.shop.committed();
                }
                Ok(Told::First(run.complete(Answer::paid(order, &charge)?).await?))
            }
            Charged::No(reason) => {
                run.compensate(&reason).await?;
                self.go_back(run, order, &reason).await
            }
            Charged::Unknown => Ok(Told::Unknown),
        }
    }

    /// What this owner, or one before that died on its way, has turned back for is recorded.
    async fn go_back(&self, mut run: Run<DB, Answer>, order: &Order, reason: &str) -> Result<Told, BoxError> {
        if let Local::Todo(mut step) = run.local("cancel").await? {
            self.shop.cancel(step.tx(), order, reason).await?;
            step.done(()).await?;
            self.shop.committed();
        }
        Ok(Told::First(run.complete(Answer::declined(order, reason)?).await?))
    }

    async fn charge_by_policy(&self, run: &mut Run<DB, Answer>, request: &ChargeRequest) -> Result<Charged, BoxError> {
        match self.policy {
            Policy::Retry => self.charge(run, request, |_| RetryWithSameKey).await,
            Policy::Hold => self.charge(run, request, |_| Hold).await,
            Policy::Reconcile => {
                self.charge(run, request, |calls_end| {
                    let card = self.card.clone();
                    Reconcile(move |key| {
                        let card = card.clone();
                        async move { card.ask(&key, calls_end).await }
                    })
                })
                .await
            }
        }
    }

    /// Asks for the step until it is settled or held: the policy bounds how often.
    async fn charge<P: StepPolicy<Charge>>(
        &self,
        run: &mut Run<DB, Answer>,
        request: &ChargeRequest,
        policy: impl Fn(i64) -> P + Sync,
    ) -> Result<Charged, BoxError> {
        let mut calls_end = Card::earlier_calls_end();
        loop {
            let attempt = match run.external(CHARGE_STEP, policy(calls_end)).await? {
                External::Todo(attempt) => attempt,
                External::Done(charge) => return Ok(Charged::Yes(charge)),
                External::Failed(failure) => return Ok(Charged::No(failure.reason()?)),
                External::Held(_) => return Ok(Charged::Unknown),
            };
            let valid_until = self.card.valid_until(|| attempt.remaining());
            calls_end = calls_end.max(valid_until);
            match self.card.charge(attempt.provider_key(), valid_until, request).await {
                Heard::Charged(charge) => return Ok(Charged::Yes(attempt.done(charge).await?)),
                Heard::Declined(reason) => {
                    attempt.failed(&reason).await?;
                    return Ok(Charged::No(reason));
                }
                // It speaks of this call only: after one that is unknown the step stays unknown.
                Heard::NotTaken => attempt.not_sent().await?,
                Heard::Nothing => attempt.unknown(),
            }
        }
    }
}
