//! One call of an external step, and what may be said of it.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::to_raw_value;

use crate::error::Error;
use crate::measure::Step;
use crate::phased::external::Failure;
use crate::phased::failpoint::failpoint;
use crate::phased::log::{At, Call, Kind};
use crate::phased::provider_key::ProviderKey;
use crate::phased::run::Run;
use crate::phased::sql::PhasedSql;

/// One call of an external step, recorded as started.
///
/// Say what became of it: [`done`](Self::done), [`failed`](Self::failed), [`not_sent`](Self::not_sent) — or nothing. Dropped, or
/// after a time-out, it is *unknown*: it stays recorded as started, and asking for the step again (in this run, or in the next
/// claimant's) goes by its policy.
#[must_use = "say what became of the call; dropped, it is unknown"]
pub struct Attempt<'r, DB: PhasedSql, R, T> {
    run: &'r mut Run<DB, R>,
    at: At,
    name: String,
    undo: Option<String>,
    provider_key: ProviderKey,
    number: u32,
    /// Whether an attempt before this one is unknown.
    follows_unknown: bool,
    measured: Step,
    result: PhantomData<fn(T) -> T>,
}

impl<'r, DB: PhasedSql, R, T> Attempt<'r, DB, R, T> {
    /// Records the call as started. What [`new`](Self::new) makes may then be called.
    pub(crate) async fn start(run: &mut Run<DB, R>, call: Call<'_>, at: At) -> Result<(), Error> {
        let mut log = run.log.clone();
        log.start(at, call);
        let steps = run.owner.settings.encode_steps(&run.owner.key, &log)?;
        // A compensation runs whenever it has to.
        let expires = run.expires && matches!(at, At::Forward(_));
        let sql = if expires { DB::START } else { DB::SAVE };
        failpoint!("external-start");
        if !run.write_steps(sql, &steps, log).await? {
            return Err(if expires { run.refused_start().await } else { run.owner.superseded() });
        }
        failpoint!("external-started");
        Ok(())
    }

    pub(crate) fn new(
        run: &'r mut Run<DB, R>,
        call: Call<'_>,
        at: At,
        provider_key: ProviderKey,
        attempts: u32,
        follows_unknown: bool,
    ) -> Self {
        Self {
            run,
            at,
            name: call.name.to_owned(),
            undo: call.undo.map(str::to_owned),
            provider_key,
            number: attempts.saturating_add(1),
            follows_unknown,
            measured: Step::external(),
            result: PhantomData,
        }
    }

    /// The key to send to the provider: the same for every attempt at this step of this request.
    #[must_use]
    pub fn provider_key(&self) -> &ProviderKey {
        &self.provider_key
    }

    /// The number of this attempt, from 1, over all owners.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// How long this process may believe that the key is its own: the bound for the call. See [`Run::remaining`].
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.run.remaining()
    }

    /// Completes when this run is known to be superseded. See [`Run::lost`].
    ///
    /// # Cancel safety
    /// Safe.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + use<DB, R, T> {
        self.run.lost()
    }

    /// It did not happen, and will not: a definite no, such as a declined card. `reason` is recorded, and whoever takes the
    /// key over is told it. A time-out or a lost connection is *no* definite no: drop the attempt.
    ///
    /// A compensation has to happen: if one fails for good the key is held, and `reason` is only given back.
    ///
    /// # Errors
    /// [`Error::Superseded`] if the key is somebody else's by now.
    ///
    /// # Cancel safety
    /// Dropped half-way, the failure is recorded, or the step is unknown.
    pub async fn failed<E: Serialize>(mut self, reason: &E) -> Result<Failure, Error> {
        let failure = Failure::of(reason)?;
        failpoint!("external-record");
        if matches!(self.at, At::Back(_)) {
            // Without the reason: what a provider said may be what a cipher keeps from readers, and this text is not sealed.
            self.run.held_by(&format!("the compensation {} failed for good", self.name)).await?;
            self.measured.comes_to("failed");
            return Ok(failure);
        }
        let raw = failure.raw()?;
        let call = Call { name: &self.name, kind: Kind::External, undo: self.undo.as_deref() };
        self.run.record(|log| log.fail(self.at, call, raw)).await?;
        self.measured.comes_to("failed");
        failpoint!("external-recorded");
        Ok(failure)
    }

    /// It did not happen, because the call never left: the connection could not be opened, a limit of this process refused it.
    /// The step may be asked for again.
    ///
    /// It speaks of this attempt only. If one before it is unknown, the step stays unknown: that call may have had its effect.
    ///
    /// # Errors
    /// [`Error::Superseded`] if the key is somebody else's by now.
    ///
    /// # Cancel safety
    /// Dropped half-way, the step is to be done, or unknown.
    pub async fn not_sent(mut self) -> Result<(), Error> {
        if self.follows_unknown {
            self.measured.comes_to("not_sent");
            return Ok(());
        }
        let call = Call { name: &self.name, kind: Kind::External, undo: self.undo.as_deref() };
        self.run.record(|log| log.withdraw(self.at, call)).await?;
        self.measured.comes_to("not_sent");
        Ok(())
    }

    /// Nothing definite is known: the same as dropping the attempt, in words.
    pub fn unknown(self) {}
}

impl<DB: PhasedSql, R, T: Serialize> Attempt<'_, DB, R, T> {
    /// It happened, and came to this, which is recorded and given back.
    ///
    /// # Errors
    /// [`Error::Superseded`] if the key is somebody else's by now: that owner settles the step by its policy. After
    /// [`Error::Step`] (the result is larger than `max_step_bytes`) or [`Error::Serialize`] the step is unknown, and may be asked for
    /// again. After another error the run is of no more use, and the next claimant settles the step.
    ///
    /// # Cancel safety
    /// Dropped half-way, the result is recorded, or the step is unknown; this run is of no more use ([`Error::NoAnswer`]).
    pub async fn done(mut self, result: T) -> Result<T, Error> {
        let raw = to_raw_value(&result).map_err(|source| Error::Serialize { source: source.into() })?;
        let call = Call { name: &self.name, kind: Kind::External, undo: self.undo.as_deref() };
        failpoint!("external-record");
        self.run.record(|log| log.finish(self.at, call, raw)).await?;
        self.measured.comes_to("done");
        failpoint!("external-recorded");
        Ok(result)
    }
}

impl<DB: PhasedSql, R, T> fmt::Debug for Attempt<'_, DB, R, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Attempt")
            .field("name", &self.name)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}
