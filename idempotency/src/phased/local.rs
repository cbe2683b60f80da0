//! Local steps: an effect in the database, in one transaction with its record.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Instant;

use leastlock_core::Statement;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::Transaction;

use crate::claim::Limits;
use crate::error::Error;
use crate::measure::Step;
use crate::own_transaction::OwnTransaction;
use crate::phased::bounded::{bounded, bounded_commit, close};
use crate::phased::failpoint::failpoint;
use crate::phased::log::{At, Call, Found, Kind, Log};
use crate::phased::owner::Ending;
use crate::phased::run::Run;
use crate::phased::sql::PhasedSql;
use crate::phased::step_error::StepError;

/// What a local step is to the run.
#[must_use = "`Todo` has to be done"]
pub enum Local<'r, DB: PhasedSql, R, T> {
    /// Run its effects in this transaction, and say [`done`](LocalStep::done).
    Todo(LocalStep<'r, DB, R, T>),
    /// It was committed before, and came to this.
    Done(T),
}

impl<DB: PhasedSql, R, T> Local<'_, DB, R, T> {
    /// What it came to, if it was committed before.
    pub fn into_done(self) -> Option<T> {
        match self {
            Self::Done(result) => Some(result),
            Self::Todo(_) => None,
        }
    }
}

/// A local step that is asked for; await it.
#[must_use = "await it"]
pub struct LocalCall<'r, DB: PhasedSql, R, T> {
    run: &'r mut Run<DB, R>,
    name: &'r str,
    undo: Option<&'r str>,
    result: PhantomData<fn(T) -> T>,
}

impl<'r, DB: PhasedSql, R, T> LocalCall<'r, DB, R, T> {
    /// Registers the compensation of this step, which is run when a later one fails for good: see [`Run::compensate`].
    pub fn compensated_by(mut self, step: &'r str) -> Self {
        self.undo = Some(step);
        self
    }
}

/// A local step at work: it owns the transaction. Dropped, everything is rolled back, and the step is still to be done.
#[must_use = "dropping a step rolls its effects back"]
pub struct LocalStep<'r, DB: PhasedSql, R, T> {
    run: &'r mut Run<DB, R>,
    tx: OwnTransaction<DB>,
    at: At,
    name: String,
    undo: Option<String>,
    measured: Step,
    result: PhantomData<fn(T) -> T>,
}

impl<DB: PhasedSql, R> Run<DB, R> {
    /// A step whose effect is in the database. It is committed together with its record, under the condition that the key is
    /// still this run's: a late owner's transaction does not commit.
    ///
    /// Do not wait for others inside of it: PostgreSQL ends a transaction that idles for 10 s, MariaDB after the lease. The pool
    /// needs a connection more than there are local steps at once, for the renewal of their leases.
    ///
    /// Names are stable: whoever takes the key over asks for the same steps in the same order, and gets the result of those
    /// that were done. A step behind them may be added in a new version, none put between.
    ///
    /// # Errors
    /// [`Error::Step`] if the name is wrong, taken, or not the one that the record has at this place, or if what became of the
    /// step before is unknown. [`Error::RequestExpired`] if it may not start any more.
    ///
    /// # Cancel safety
    /// Dropped, nothing has happened.
    pub fn local<'r, T: Serialize + DeserializeOwned>(&'r mut self, name: &'r str) -> LocalCall<'r, DB, R, T> {
        LocalCall { run: self, name, undo: None, result: PhantomData }
    }
}

impl<'r, DB: PhasedSql, R: 'r, T: Serialize + DeserializeOwned + 'r> IntoFuture for LocalCall<'r, DB, R, T> {
    type Output = Result<Local<'r, DB, R, T>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'r>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.begin())
    }
}

impl<'r, DB: PhasedSql, R, T: Serialize + DeserializeOwned> LocalCall<'r, DB, R, T> {
    async fn begin(self) -> Result<Local<'r, DB, R, T>, Error> {
        let Self { run, name, undo, .. } = self;
        run.usable()?;
        let call = Call { name, kind: Kind::Local, undo };
        let max_steps = run.owner.settings.max_steps;
        let at = match run.log.find(call, max_steps).map_err(|source| Error::Step { source })? {
            Found::Done(result) => {
                Step::local().comes_to("recorded");
                return Ok(Local::Done(read(&result)?));
            }
            Found::Todo { at, .. } => at,
            // A local step has no such states; the record says that it was one of the other kind.
            Found::Open { .. } | Found::Failed(_) => {
                return Err(Error::Step { source: StepError::KindChanged { step: name.to_owned() } });
            }
        };
        failpoint!("local-begin");
        let settings = &run.owner.settings;
        let deadline = Instant::now() + settings.statement_limit();
        let limits = Limits { retention: settings.retention, idle: settings.lease, joins: false, deadline };
        let begin = async {
            let mut tx = DB::begin_step(&run.owner.pool, &limits).await.map_err(Error::database::<DB>)?;
            if !run.expires || matches!(at, At::Back(_)) {
                return Ok(Some(tx));
            }
            let check = run.owner.fence(Statement::new(DB::MAY_START));
            let may = check.fetch_optional::<DB>(&mut tx).await.map_err(Error::database::<DB>)?.is_some();
            Ok(may.then_some(tx))
        };
        let Some(tx) = bounded::<DB, _>(settings.call_limit, begin).await? else {
            return Err(run.refused_start().await);
        };
        failpoint!("local-begun");
        let (name, undo) = (name.to_owned(), undo.map(str::to_owned));
        Ok(Local::Todo(LocalStep { run, tx, at, name, undo, measured: Step::local(), result: PhantomData }))
    }
}

impl<DB: PhasedSql, R, T: Serialize> LocalStep<'_, DB, R, T> {
    /// The transaction to run the effects in.
    pub fn tx(&mut self) -> &mut Transaction<'static, DB> {
        &mut self.tx
    }

    /// Records the step with its result, and commits both with the effects.
    ///
    /// # Errors
    /// [`Error::Superseded`] if the key is somebody else's by now: nothing was kept. [`Error::CommitUnknown`] if the reply of the
    /// commit was lost and could not be settled: the run is of no more use, and the next claimant finds the truth.
    /// [`Error::TransactionEnded`] if an error in the transaction had ended it and was overlooked: the step is not recorded, what it
    /// did before that error is gone, and what it did after it was committed statement by statement. After any other error nothing
    /// was kept, and the step may be asked for again.
    ///
    /// # Cancel safety
    /// Dropped before the commit was sent, nothing is kept. Dropped while it is under way, the step is done or not, never half,
    /// and the run must not be used any more.
    pub async fn done(self, result: T) -> Result<T, Error> {
        let Self { run, mut tx, at, name, undo, mut measured, .. } = self;
        run.usable()?;
        let call = Call { name: &name, kind: Kind::Local, undo: undo.as_deref() };
        let mut log = run.log.clone();
        log.finish(
            at,
            call,
            serde_json::value::to_raw_value(&result).map_err(|source| Error::Serialize { source: source.into() })?,
        );
        let steps = run.owner.settings.encode_steps(&run.owner.key, &log)?;
        failpoint!("local-record");
        let save = run.save_statement(DB::SAVE, &steps, &log);
        let record = async {
            DB::prove(&mut tx).await.map_err(Error::proof::<DB>)?;
            save.execute::<DB>(&mut tx).await.map_err(Error::database::<DB>)
        };
        let limit = run.owner.settings.call_limit;
        match bounded::<DB, _>(limit, record).await {
            Ok(0) => return Err(run.owner.superseded()),
            Ok(_) => {}
            Err(error) => {
                if matches!(error, Error::NoAnswer { .. }) {
                    close::<DB>(tx);
                }
                return Err(error);
            }
        }
        failpoint!("local-recorded");
        run.unsure = true;
        measured.comes_to("unknown");
        let committed = bounded_commit::<DB>(limit, tx.commit()).await;
        failpoint!("local-committed");
        match committed.map_err(Error::commit::<DB>) {
            Ok(()) => {}
            Err(Error::CommitUnknown { source }) => match run.settle_commit(&steps).await {
                Some(true) => {}
                Some(false) => {
                    run.unsure = false;
                    measured.comes_to("rolled_back");
                    return Err(Error::database::<DB>(source));
                }
                None => return Err(Error::CommitUnknown { source }),
            },
            Err(error) => {
                run.unsure = false;
                measured.comes_to("rolled_back");
                return Err(error);
            }
        }
        measured.comes_to("done");
        run.written(log);
        Ok(result)
    }
}

impl<DB: PhasedSql, R> Run<DB, R> {
    /// A write that changes the steps: the log whole, and the last step that happened.
    pub(crate) fn save_statement<'a>(&'a self, sql: &'static str, steps: &'a [u8], log: &'a Log) -> Statement<'a> {
        let statement = Statement::new(sql).bind(steps).bind(log.last_done()).bind(self.owner.lease_ms());
        self.owner.fence(statement).bind(self.step_seq)
    }

    /// The log has been written.
    pub(crate) fn written(&mut self, log: Log) {
        (self.log, self.unsure) = (log, false);
        self.step_seq += 1;
    }

    /// Whether a commit whose reply was lost took effect. The renewal needs the row's lock, so it waits for a commit that is
    /// still under way; what the record says after it is final.
    async fn settle_commit(&self, steps: &[u8]) -> Option<bool> {
        let renew = self.owner.fence(Statement::new(DB::RENEW).bind(self.owner.lease_ms()));
        if self.owner.write(renew).await.ok()? != Ending::Applied {
            return None;
        }
        let record = self.owner.record().await.ok()??;
        self.owner.is_mine(&record).then(|| record.steps.as_deref() == Some(steps))
    }

    /// Why a step may not start: the request has expired, or the key is somebody else's.
    pub(crate) async fn refused_start(&self) -> Error {
        match self.owner.record().await {
            Ok(Some(record)) if self.owner.is_mine(&record) => Error::RequestExpired,
            Ok(_) => self.owner.superseded(),
            Err(error) => error,
        }
    }
}

pub(crate) fn read<T: DeserializeOwned>(result: &serde_json::value::RawValue) -> Result<T, Error> {
    serde_json::from_str(result.get()).map_err(|source| Error::Deserialize { source: source.into() })
}

impl<DB: PhasedSql, R, T: fmt::Debug> fmt::Debug for Local<'_, DB, R, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if matches!(self, Self::Todo(_)) { "Todo(…)" } else { "Done(…)" })
    }
}

impl<DB: PhasedSql, R, T> fmt::Debug for LocalCall<'_, DB, R, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LocalCall").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<DB: PhasedSql, R, T> fmt::Debug for LocalStep<'_, DB, R, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LocalStep").field("name", &self.name).finish_non_exhaustive()
    }
}
