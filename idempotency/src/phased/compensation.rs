//! The way back: compensations of the steps that happened, in reverse order.

use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::phased::failpoint::failpoint;
use crate::phased::local::read;
use crate::phased::run::Run;
use crate::phased::sql::PhasedSql;

impl<DB: PhasedSql, R> Run<DB, R> {
    /// Turns the run back, because a step failed for good: from here on no new step runs, and the compensations that the steps
    /// have registered are to be run, the last step's first, each under the name of
    /// [`next_compensation`](Self::next_compensation), by [`local`](Self::local) or [`external`](Self::external). They have the
    /// guarantees of every step: fenced, recorded, with a provider key of their own, and resumed after a crash.
    ///
    /// Calling it again changes nothing. Whoever takes the key over looks at [`turned_back`](Self::turned_back) **first**, and goes on
    /// with the compensations: walking the steps again it would meet those that are recorded, but not what led back if that is not
    /// (an expired request, a choice of the program's); the step that did not start is then refused with
    /// [`StepError::RunsBack`](crate::phased::StepError::RunsBack).
    ///
    /// # Errors
    /// [`Error::Step`] while the outcome of a step is unknown: it may have to be compensated. [`Error::Superseded`] if the key
    /// is somebody else's by now.
    ///
    /// # Cancel safety
    /// Dropped half-way, the run is turned back or not; this run is of no more use ([`Error::NoAnswer`]).
    pub async fn compensate(&mut self, reason: &str) -> Result<(), Error> {
        self.usable()?;
        if self.log.turned_back().is_some() {
            return Ok(());
        }
        let mut turned = Ok(());
        failpoint!("compensate");
        self.log.clone().turn_back(reason).map_err(|source| Error::Step { source })?;
        self.record(|log| turned = log.turn_back(reason)).await?;
        failpoint!("compensating");
        turned.map_err(|source| Error::Step { source })
    }

    /// The compensation that comes next; `None` once all are done, or if the run was not turned back.
    #[must_use]
    pub fn next_compensation(&self) -> Option<&str> {
        self.log.next_compensation()
    }

    /// Why the run was turned back, if it was: by this owner or one before. The first thing to look at.
    #[must_use]
    pub fn turned_back(&self) -> Option<&str> {
        self.log.turned_back()
    }

    /// What a step that happened came to, such as what its compensation has to undo. `None` if it has not happened.
    ///
    /// # Errors
    /// [`Error::Deserialize`] if its result was of another type.
    pub fn result_of<T: DeserializeOwned>(&self, step: &str) -> Result<Option<T>, Error> {
        self.log.result_of(step).map(read).transpose()
    }
}
