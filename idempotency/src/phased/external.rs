//! External steps: an effect somewhere else, recorded before the call and after it.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};

use crate::error::Error;
use crate::phased::failpoint::failpoint;
use crate::phased::local::read;
use crate::phased::log::{At, Call, Found, Kind, Log};
use crate::phased::owner::Ending;
use crate::phased::policy::{Decision, Policy, Verdict};
use crate::phased::provider_key::ProviderKey;
use crate::phased::run::Run;
use crate::phased::sql::PhasedSql;
use crate::phased::unknown::Unknown;

/// What an external step is to the run.
#[must_use = "`Todo` has to be called"]
pub enum External<'r, DB: PhasedSql, R, T> {
    /// It is recorded as started: make the call, and say what became of it.
    Todo(Attempt<'r, DB, R, T>),
    /// It happened before, and came to this.
    Done(T),
    /// It was refused for good, for this reason, and had no effect.
    Failed(Failure),
    /// What became of it is unknown, and by its policy (or after `max_attempts`) the key is now held. The run is over.
    Held(Unknown),
}

/// Why an external step failed for good, as its caller recorded it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    json: String,
}

impl Failure {
    /// From a reason.
    ///
    /// # Errors
    /// [`Error::Serialize`] if it cannot be written as JSON.
    pub fn of<E: Serialize>(reason: &E) -> Result<Self, Error> {
        let json = serde_json::to_string(reason).map_err(|source| Error::Serialize { source })?;
        Ok(Self { json })
    }

    /// The reason, as the type that it was recorded from.
    ///
    /// # Errors
    /// [`Error::Deserialize`] if it was recorded from another type.
    pub fn reason<E: DeserializeOwned>(&self) -> Result<E, Error> {
        serde_json::from_str(&self.json).map_err(|source| Error::Deserialize { source })
    }

    pub(crate) fn raw(&self) -> Result<Box<RawValue>, Error> {
        RawValue::from_string(self.json.clone()).map_err(|source| Error::Serialize { source })
    }
}

/// An external step that is asked for; await it.
#[must_use = "await it"]
pub struct ExternalCall<'r, DB: PhasedSql, R, T, P> {
    run: &'r mut Run<DB, R>,
    name: &'r str,
    undo: Option<&'r str>,
    policy: P,
    result: PhantomData<fn(T) -> T>,
}

impl<'r, DB: PhasedSql, R, T, P> ExternalCall<'r, DB, R, T, P> {
    /// Registers the compensation of this step, which is run when a later one fails for good: see [`Run::compensate`].
    pub fn compensated_by(mut self, step: &'r str) -> Self {
        self.undo = Some(step);
        self
    }
}

impl<DB: PhasedSql, R> Run<DB, R> {
    /// A step whose effect is outside the database. It is recorded as started before the call and as done, with its result,
    /// after it. One that was started and not heard of again is *unknown*: `policy` says what is done about it, with pauses and at
    /// most `max_attempts` times; then the key is held.
    ///
    /// Names are stable, as for [`local`](Self::local). What is sent to the provider under one key must stay the same as well.
    ///
    /// # Errors
    /// As for `local`; [`Error::Superseded`] if the key is somebody else's by now. No call is to be made after an error.
    ///
    /// # Cancel safety
    /// Dropped half-way, the step may be recorded as started: then it is unknown, and its policy decides.
    pub fn external<'r, T, P>(&'r mut self, name: &'r str, policy: P) -> ExternalCall<'r, DB, R, T, P>
    where
        T: Serialize + DeserializeOwned + Send,
        P: Policy<T>,
    {
        ExternalCall { run: self, name, undo: None, policy, result: PhantomData }
    }
}

impl<'r, DB, R, T, P> IntoFuture for ExternalCall<'r, DB, R, T, P>
where
    DB: PhasedSql,
    R: 'r,
    T: Serialize + DeserializeOwned + Send + 'r,
    P: Policy<T> + 'r,
{
    type Output = Result<External<'r, DB, R, T>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'r>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.begin())
    }
}

impl<'r, DB, R, T, P> ExternalCall<'r, DB, R, T, P>
where
    DB: PhasedSql,
    T: Serialize + DeserializeOwned + Send,
    P: Policy<T>,
{
    async fn begin(self) -> Result<External<'r, DB, R, T>, Error> {
        let Self { run, name, undo, policy, .. } = self;
        let call = Call { name, kind: Kind::External, undo };
        let key = ProviderKey::derive(&run.owner.key, name);
        let settings = run.owner.settings.clone();
        let mut asked = 0;
        loop {
            run.usable()?;
            let found = run.log.find(call, settings.max_steps).map_err(|source| Error::Step { source })?;
            let (at, attempts) = match found {
                Found::Done(result) => return Ok(External::Done(read(&result)?)),
                Found::Failed(reason) => return Ok(External::Failed(Failure { json: reason.get().to_owned() })),
                Found::Todo { at, attempts } => {
                    settings.pause(attempts).await;
                    return Attempt::start(run, call, at, key, attempts).await;
                }
                Found::Open { at, attempts } => (at, attempts),
            };
            match policy.decide(key.clone()).await {
                Decision::Hold => return run.hold_open("its outcome is unknown, and its policy is to hold").await,
                Decision::Repeat if attempts >= settings.max_attempts => {
                    return run.hold_open("its outcome is still unknown after the last attempt").await;
                }
                Decision::Repeat => {
                    settings.pause(attempts).await;
                    return Attempt::start(run, call, at, key, attempts).await;
                }
                Decision::Said(Verdict::StillUnknown) => {
                    asked += 1;
                    if asked >= settings.max_attempts {
                        return run.hold_open("its provider still does not know its outcome").await;
                    }
                    settings.pause(asked).await;
                }
                Decision::Said(Verdict::NotDone) => run.record(|log| log.withdraw(at, call)).await?,
                Decision::Said(Verdict::Failed(failure)) => {
                    let reason = failure.raw()?;
                    run.record(|log| log.fail(at, call, reason)).await?;
                    return Ok(External::Failed(failure));
                }
                Decision::Said(Verdict::Done(result)) => {
                    let raw = to_raw_value(&result).map_err(|source| Error::Serialize { source })?;
                    run.record(|log| log.finish(at, call, raw)).await?;
                    return Ok(External::Done(result));
                }
            }
        }
    }
}

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
    result: PhantomData<fn(T) -> T>,
}

impl<'r, DB: PhasedSql, R, T> Attempt<'r, DB, R, T> {
    async fn start(
        run: &'r mut Run<DB, R>,
        call: Call<'_>,
        at: At,
        provider_key: ProviderKey,
        attempts: u32,
    ) -> Result<External<'r, DB, R, T>, Error> {
        let mut log = run.log.clone();
        log.start(at, call);
        let steps = log.encode(run.owner.settings.max_step_bytes).map_err(|source| Error::Step { source })?;
        // A compensation runs whenever it has to.
        let expires = run.expires && matches!(at, At::Forward(_));
        let sql = if expires { DB::START } else { DB::SAVE };
        failpoint!("external-start");
        if !run.write_steps(sql, &steps, log).await? {
            return Err(if expires { run.refused_start().await } else { run.owner.superseded() });
        }
        failpoint!("external-started");
        Ok(External::Todo(Attempt {
            run,
            at,
            name: call.name.to_owned(),
            undo: call.undo.map(str::to_owned),
            provider_key,
            number: attempts.saturating_add(1),
            result: PhantomData,
        }))
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
    /// A compensation has to happen: if one fails for good the key is held.
    ///
    /// # Errors
    /// [`Error::Superseded`] if the key is somebody else's by now.
    ///
    /// # Cancel safety
    /// Dropped half-way, the failure is recorded, or the step is unknown.
    pub async fn failed<E: Serialize>(self, reason: &E) -> Result<Failure, Error> {
        let failure = Failure::of(reason)?;
        failpoint!("external-record");
        if matches!(self.at, At::Back(_)) {
            let name = &self.name;
            self.run.held_by(&format!("the compensation {name} failed: {}", failure.json)).await?;
            return Ok(failure);
        }
        let raw = failure.raw()?;
        let call = Call { name: &self.name, kind: Kind::External, undo: self.undo.as_deref() };
        self.run.record(|log| log.fail(self.at, call, raw)).await?;
        failpoint!("external-recorded");
        Ok(failure)
    }

    /// It did not happen, because the call never left: the connection could not be opened, a limit of this process refused it.
    /// The step may be asked for again.
    ///
    /// # Errors
    /// [`Error::Superseded`] if the key is somebody else's by now.
    ///
    /// # Cancel safety
    /// Dropped half-way, the step is to be done, or unknown.
    pub async fn not_sent(self) -> Result<(), Error> {
        let call = Call { name: &self.name, kind: Kind::External, undo: self.undo.as_deref() };
        self.run.record(|log| log.withdraw(self.at, call)).await
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
    /// Dropped half-way, the result is recorded, or the step is unknown.
    pub async fn done(self, result: T) -> Result<T, Error> {
        let raw = to_raw_value(&result).map_err(|source| Error::Serialize { source })?;
        let call = Call { name: &self.name, kind: Kind::External, undo: self.undo.as_deref() };
        failpoint!("external-record");
        self.run.record(|log| log.finish(self.at, call, raw)).await?;
        failpoint!("external-recorded");
        Ok(result)
    }
}

impl<DB: PhasedSql, R> Run<DB, R> {
    /// Writes a change of the log, and takes it over once it is written.
    pub(crate) async fn record(&mut self, change: impl FnOnce(&mut Log)) -> Result<(), Error> {
        self.usable()?;
        let mut log = self.log.clone();
        change(&mut log);
        let steps = log.encode(self.owner.settings.max_step_bytes).map_err(|source| Error::Step { source })?;
        if self.write_steps(DB::SAVE, &steps, log).await? { Ok(()) } else { Err(self.owner.superseded()) }
    }

    /// Writes the steps; `false` if nothing was written. Given up half-way, or not answered in the end, the run is of no more
    /// use: what the record says is then known only to the next claimant.
    async fn write_steps(&mut self, sql: &'static str, steps: &[u8], log: Log) -> Result<bool, Error> {
        self.unsure = true;
        let is_written = match self.owner.write(self.save_statement(sql, steps, &log)).await? {
            Ending::Applied => true,
            Ending::Refused => false,
            // The sequence refuses what a try before has written.
            Ending::MayHaveLanded => match self.owner.record().await? {
                Some(record) => self.owner.is_mine(&record) && record.steps.as_deref() == Some(steps),
                None => false,
            },
        };
        self.unsure = false;
        if is_written {
            self.written(log);
        }
        Ok(is_written)
    }

    async fn hold_open<'r, T>(&'r mut self, because: &str) -> Result<External<'r, DB, R, T>, Error> {
        let step = self.log.open_step().map_or_else(String::new, |(_, name, _)| name.to_owned());
        let because = format!("the step {step}: {because}");
        self.held_by(&because).await?;
        Ok(External::Held(Unknown::held(&self.owner.key, self.owner.generation, because, &self.log)))
    }
}

impl<DB: PhasedSql, R, T> fmt::Debug for External<'_, DB, R, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Todo(attempt) => formatter.debug_tuple("Todo").field(attempt).finish(),
            Self::Done(_) => formatter.write_str("Done(…)"),
            Self::Failed(_) => formatter.write_str("Failed(…)"),
            Self::Held(unknown) => formatter.debug_tuple("Held").field(unknown).finish(),
        }
    }
}

impl<DB: PhasedSql, R, T, P> fmt::Debug for ExternalCall<'_, DB, R, T, P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ExternalCall").field("name", &self.name).finish_non_exhaustive()
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
