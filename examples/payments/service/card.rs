//! The card provider, seen from the service: one call that charges, and one that asks what became of a charge.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leastlock::idempotency::Key;
use leastlock::idempotency::phased::{Inquiry, ProviderKey, UnknownStep, Verdict};
use reqwest::{Client, Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::args::Mistake;
use crate::provider::{ChargeRequest, Seen, VALID_UNTIL};

/// The step under which a charge is recorded; its provider key follows from it.
pub(crate) const CHARGE_STEP: &str = "charge";
/// How far the clocks of the service's hosts may stand apart.
const MAX_SKEW: Duration = Duration::from_millis(250);

/// A charge that took effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Charge {
    pub(crate) id: String,
    pub(crate) amount_cents: i64,
}

/// What a call that was to charge has come to.
#[derive(Debug)]
pub(crate) enum Heard {
    Charged(Charge),
    /// A definite no.
    Declined(String),
    /// This call had no effect and will have none: it did not leave, or came too late to be acted on.
    NotTaken,
    /// No answer, or none that says what happened. A 500 is no answer: it may have come after the charge.
    Nothing,
}

/// The provider's client.
#[derive(Debug, Clone)]
pub(crate) struct Card {
    client: Client,
    base: Arc<str>,
    call_limit: Duration,
    mistake: Option<Mistake>,
}

impl Card {
    pub(crate) fn new(base: &str, call_limit: Duration, mistake: Option<Mistake>) -> Result<Self, reqwest::Error> {
        let client = Client::builder().timeout(call_limit).no_proxy().build()?;
        Ok(Self { client, base: base.trim_end_matches('/').into(), call_limit, mistake })
    }

    /// Until when the provider may act on a call that is sent now: no longer than the claim is known to stand, so that whoever
    /// takes the key over knows that no call of ours is still to come.
    ///
    /// The clock is read before `remaining`, so a process that was stopped in between gets less and not more.
    pub(crate) fn valid_until(&self, remaining: impl FnOnce() -> Duration) -> i64 {
        let now = now_ms();
        match self.mistake {
            Some(Mistake::BelieveNotSeen) => i64::MAX,
            _ => now.saturating_add(millis(remaining().min(self.call_limit))),
        }
    }

    /// The latest moment at which a call of an owner before could be acted on, once its claim is known to be over.
    pub(crate) fn earlier_calls_end() -> i64 {
        now_ms().saturating_add(millis(MAX_SKEW))
    }

    pub(crate) async fn charge(&self, key: &ProviderKey, valid_until: i64, request: &ChargeRequest) -> Heard {
        let key = match self.mistake {
            Some(Mistake::NewKeyPerAttempt) => format!("{key}-{:x}", fastrand::u64(..)),
            _ => key.to_string(),
        };
        let call = self
            .client
            .post(format!("{}/charges", self.base))
            .header("idempotency-key", key)
            .header(VALID_UNTIL, valid_until)
            .json(request);
        match call.send().await {
            Ok(response) => heard(response).await,
            Err(error) if error.is_connect() => Heard::NotTaken,
            Err(_) => Heard::Nothing,
        }
    }

    /// Asks what became of the charge under `key`. `NotDone` is said only once no call under it can be acted on any more, by the
    /// provider's own clock: later than `calls_end`. That is waited for, since it is soon.
    pub(crate) async fn ask(&self, key: &ProviderKey, calls_end: i64) -> Verdict<Charge> {
        let calls_end = if self.mistake == Some(Mistake::BelieveNotSeen) { 0 } else { calls_end };
        match self.look(key).await {
            Some(Seen::Nothing { now_ms }) if now_ms <= calls_end => {
                let wait = u64::try_from(calls_end - now_ms).unwrap_or(0).saturating_add(1);
                tokio::time::sleep(Duration::from_millis(wait).min(self.call_limit + MAX_SKEW)).await;
                verdict(self.look(key).await, calls_end)
            }
            seen => verdict(seen, calls_end),
        }
    }

    async fn look(&self, key: &ProviderKey) -> Option<Seen> {
        let response = self.client.get(format!("{}/charges/{key}", self.base)).send().await.ok()?;
        response.error_for_status().ok()?.json().await.ok()
    }
}

/// The reconciler's question. It asks about keys that have been unknown for longer than a lease, and no call is valid for longer
/// than its claim.
impl Inquiry for Card {
    async fn ask(&self, _: &Key, step: &UnknownStep) -> Verdict<Value> {
        match Card::ask(self, &step.provider_key, Self::earlier_calls_end()).await {
            // Two fields that serde writes as they are.
            Verdict::Done(charge) => serde_json::to_value(charge).map_or(Verdict::StillUnknown, Verdict::Done),
            Verdict::Failed(failure) => Verdict::Failed(failure),
            Verdict::NotDone => Verdict::NotDone,
            Verdict::StillUnknown => Verdict::StillUnknown,
        }
    }
}

fn verdict(seen: Option<Seen>, calls_end: i64) -> Verdict<Charge> {
    match seen {
        Some(Seen::Charged { charge, amount_cents }) => Verdict::Done(Charge { id: charge, amount_cents }),
        Some(Seen::Declined { reason }) => Verdict::failed(&reason).unwrap_or(Verdict::StillUnknown),
        Some(Seen::Nothing { now_ms }) if now_ms > calls_end => Verdict::NotDone,
        Some(Seen::Nothing { .. }) | None => Verdict::StillUnknown,
    }
}

async fn heard(response: Response) -> Heard {
    let status = response.status();
    // An answer that broke off is none.
    let Ok(body) = response.json::<Seen>().await else { return Heard::Nothing };
    match (status, body) {
        (StatusCode::OK | StatusCode::CREATED, Seen::Charged { charge, amount_cents }) => {
            Heard::Charged(Charge { id: charge, amount_cents })
        }
        (StatusCode::PAYMENT_REQUIRED, Seen::Declined { reason }) => Heard::Declined(reason),
        (StatusCode::GONE, Seen::Nothing { .. }) => Heard::NotTaken,
        _ => Heard::Nothing,
    }
}

pub(crate) fn now_ms() -> i64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
