//! External steps: an effect somewhere else, recorded before the call and after it.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};

use crate::error::Error;
use crate::measure::Step;
use crate::phased::attempt::Attempt;
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
    /// What became of it is unknown, and by its policy (or after `max_attempts`) the key is now held; also after as many attempts of
    /// which none had an effect. The run is over.
    Held(Unknown),
}

/// Why an external step failed for good, as its caller recorded it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub(crate) json: String,
}

impl Failure {
    /// From a reason.
    ///
    /// # Errors
    /// [`Error::Serialize`] if it cannot be written as JSON.
    pub fn of<E: Serialize>(reason: &E) -> Result<Self, Error> {
        let json = serde_json::to_string(reason).map_err(|source| Error::Serialize { source: source.into() })?;
        Ok(Self { json })
    }

    /// The reason, as the type that it was recorded from.
    ///
    /// # Errors
    /// [`Error::Deserialize`] if it was recorded from another type.
    pub fn reason<E: DeserializeOwned>(&self) -> Result<E, Error> {
        serde_json::from_str(&self.json).map_err(|source| Error::Deserialize { source: source.into() })
    }

    pub(crate) fn raw(&self) -> Result<Box<RawValue>, Error> {
        RawValue::from_string(self.json.clone()).map_err(|source| Error::Serialize { source: source.into() })
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
    /// Dropped half-way, the step may be recorded as started: then it is unknown, and its policy decides. This run does not know,
    /// and is of no more use ([`Error::NoAnswer`]); the next claimant does.
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
            let (at, attempts, recent) = match found {
                Found::Done(result) => {
                    Step::external().comes_to("recorded");
                    return Ok(External::Done(read(&result)?));
                }
                Found::Failed(reason) => {
                    Step::external().comes_to("recorded");
                    return Ok(External::Failed(Failure { json: reason.get().to_owned() }));
                }
                Found::Todo { recent, .. } if recent >= settings.max_attempts => {
                    return run.hold_step(name, "no attempt has had an effect, and that was the last one").await;
                }
                Found::Todo { at, attempts, recent } => {
                    settings.pause(recent).await;
                    Attempt::<DB, R, T>::start(run, call, at).await?;
                    return Ok(External::Todo(Attempt::new(run, call, at, key, attempts, false)));
                }
                Found::Open { at, attempts, recent } => (at, attempts, recent),
            };
            match policy.decide(key.clone()).await {
                Decision::Hold => {
                    return run.hold_step(name, "its outcome is unknown, and its policy is to hold").await;
                }
                Decision::Repeat if recent >= settings.max_attempts => {
                    return run.hold_step(name, "its outcome is still unknown after the last attempt").await;
                }
                Decision::Repeat => {
                    settings.pause(recent).await;
                    match Attempt::<DB, R, T>::start(run, call, at).await {
                        Ok(()) => return Ok(External::Todo(Attempt::new(run, call, at, key, attempts, true))),
                        // It did start, long ago: nothing may go back past it while nobody knows what came of it.
                        Err(Error::RequestExpired) => {
                            let because = "the request has expired, and what became of the call is unknown";
                            return run.hold_step(name, because).await;
                        }
                        Err(error) => return Err(error),
                    }
                }
                Decision::Said(Verdict::StillUnknown) => {
                    asked += 1;
                    if asked >= settings.max_attempts {
                        return run.hold_step(name, "its provider still does not know its outcome").await;
                    }
                    settings.pause(asked).await;
                }
                // It has to happen, one way or the other: an operator finds one. The step stays open, for a word about it.
                Decision::Said(Verdict::Failed(_)) if matches!(at, At::Back(_)) => {
                    return run.hold_step(name, "it is a compensation, and its provider has refused it").await;
                }
                Decision::Said(Verdict::NotDone) => run.record(|log| log.withdraw(at, call)).await?,
                Decision::Said(Verdict::Failed(failure)) => {
                    let reason = failure.raw()?;
                    run.record(|log| log.fail(at, call, reason)).await?;
                    Step::external().comes_to("failed");
                    return Ok(External::Failed(failure));
                }
                Decision::Said(Verdict::Done(result)) => {
                    let raw = to_raw_value(&result).map_err(|source| Error::Serialize { source: source.into() })?;
                    run.record(|log| log.finish(at, call, raw)).await?;
                    Step::external().comes_to("done");
                    return Ok(External::Done(result));
                }
            }
        }
    }
}

impl<DB: PhasedSql, R> Run<DB, R> {
    /// Writes a change of the log, and takes it over once it is written.
    pub(crate) async fn record(&mut self, change: impl FnOnce(&mut Log)) -> Result<(), Error> {
        self.usable()?;
        let mut log = self.log.clone();
        change(&mut log);
        let steps = self.owner.settings.encode_steps(&self.owner.key, &log)?;
        if self.write_steps(DB::SAVE, &steps, log).await? { Ok(()) } else { Err(self.owner.superseded()) }
    }

    /// Writes the steps; `false` if nothing was written. Given up half-way, or not answered in the end, the run is of no more
    /// use: what the record says is then known only to the next claimant.
    pub(crate) async fn write_steps(&mut self, sql: &'static str, steps: &[u8], log: Log) -> Result<bool, Error> {
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

    async fn hold_step<'r, T>(&'r mut self, step: &str, because: &str) -> Result<External<'r, DB, R, T>, Error> {
        let because = format!("the step {step}: {because}");
        self.held_by(&because).await?;
        Step::external().comes_to("held");
        Ok(External::Held(Unknown::held(&self.owner, self.step_seq, because, &self.log)))
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
