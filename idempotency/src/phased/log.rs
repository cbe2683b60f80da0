//! The step log of one key: a state machine without I/O, stored whole with every step.
//!
//! `waiting → started → done | failed`; a local step goes to done in one move. What is started is unknown until a definite word
//! comes: it is never free to be run as new, and nothing goes on past it.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::phased::log::entry::{Entry, Progress, check_name, null};
use crate::phased::step_error::StepError;

mod entry;

pub use crate::phased::log::entry::RecoveryPoint;
pub(crate) use crate::phased::log::entry::{At, Call, Found, FoundOut, Kind};

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Log {
    steps: Vec<Entry>,
    /// Why the run goes back, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    back: Option<String>,
    /// The next step that this process expects. Not stored: whoever takes over begins at the first.
    #[serde(skip)]
    next: usize,
}

impl Log {
    pub(crate) fn decode(stored: Option<&[u8]>) -> Result<Self, StepError> {
        let decoded: Result<Self, _> = stored.map_or(Ok(Self::default()), serde_json::from_slice);
        let mut log = decoded.map_err(|source| StepError::Unreadable { source })?;
        // Earlier versions recorded a compensation as refused for good. It has to happen, so it waits for an operator's word.
        for undo in log.steps.iter_mut().filter_map(|step| step.undo.as_deref_mut()) {
            if undo.progress == Progress::Failed {
                undo.progress = Progress::Started;
            }
        }
        Ok(log)
    }

    pub(crate) fn encode(&self, limit: usize) -> Result<Vec<u8>, StepError> {
        let stored = serde_json::to_vec(self).map_err(|source| StepError::Unreadable { source })?;
        let bytes = stored.len();
        if bytes > limit { Err(StepError::TooLarge { bytes, limit }) } else { Ok(stored) }
    }

    /// Looks a step up, in the order in which the steps are asked for, which must be the order of the record.
    pub(crate) fn find(&mut self, call: Call<'_>, max_steps: usize) -> Result<Found, StepError> {
        for name in [Some(call.name), call.undo].into_iter().flatten() {
            check_name(name)?;
        }
        if self.back.is_some() {
            return self.find_back(call);
        }
        let Some(entry) = self.steps.get(self.next) else {
            if self.is_taken(call.name) {
                return Err(StepError::Duplicate { step: call.name.to_owned() });
            }
            if call.undo.is_some_and(|undo| undo == call.name || self.is_taken(undo)) {
                return Err(StepError::Duplicate { step: call.undo.unwrap_or_default().to_owned() });
            }
            if self.steps.len() >= max_steps {
                return Err(StepError::TooMany { limit: max_steps });
            }
            return Ok(Found::Todo { at: At::Forward(self.next), attempts: 0, recent: 0 });
        };
        if entry.name != call.name {
            return Err(self.misplaced(entry, call.name));
        }
        self.found(At::Forward(self.next), call)
    }

    /// The step is about to be called: from here on it is unknown until settled.
    pub(crate) fn start(&mut self, at: At, call: Call<'_>) {
        let entry = self.entry(at, call);
        entry.progress = Progress::Started;
        entry.kind = call.kind;
        entry.attempts = entry.attempts.saturating_add(1);
    }

    /// The step happened.
    pub(crate) fn finish(&mut self, at: At, call: Call<'_>, result: Box<RawValue>) {
        self.settle(at, call, Progress::Done, Some(result));
    }

    /// The step did not happen, and will not.
    pub(crate) fn fail(&mut self, at: At, call: Call<'_>, reason: Box<RawValue>) {
        self.settle(at, call, Progress::Failed, Some(reason));
    }

    /// The step did not happen, and may be run again.
    pub(crate) fn withdraw(&mut self, at: At, call: Call<'_>) {
        self.entry(at, call).progress = Progress::Waiting;
    }

    /// From here on the run goes back: no new step, compensations in reverse order.
    pub(crate) fn turn_back(&mut self, reason: &str) -> Result<(), StepError> {
        self.nothing_open()?;
        self.back.get_or_insert_with(|| reason.to_owned());
        Ok(())
    }

    pub(crate) fn turned_back(&self) -> Option<&str> {
        self.back.as_deref()
    }

    /// The compensation that comes next: that of the last step which happened and is not undone.
    pub(crate) fn next_compensation(&self) -> Option<&str> {
        self.back.as_ref()?;
        self.pending().map(|(_, undo)| undo.name.as_str())
    }

    /// Whether the key may be completed.
    pub(crate) fn may_complete(&self) -> Result<(), StepError> {
        self.nothing_open()?;
        match self.next_compensation() {
            Some(step) => Err(StepError::CompensationPending { step: step.to_owned() }),
            None => Ok(()),
        }
    }

    /// Whether the key may be freed: nothing is left of any step. An external step that happened cannot be taken out of its
    /// provider's memory even when it was compensated: the next claimant would call with the same provider key.
    pub(crate) fn may_release(&self) -> Result<(), StepError> {
        self.nothing_open()?;
        let lasting = self.steps.iter().find(|step| {
            let undone = step.undo.as_ref().is_some_and(|undo| undo.progress == Progress::Done);
            step.progress == Progress::Done && (step.kind == Kind::External || !undone)
        });
        lasting.map_or(Ok(()), |step| Err(StepError::EffectsRemain { step: step.name.clone() }))
    }

    /// The step whose outcome is unknown: its place, name, kind, and how often it was called.
    pub(crate) fn open_step(&self) -> Option<(At, &str, u32)> {
        self.steps.iter().enumerate().find_map(|(index, step)| match &step.undo {
            _ if step.progress == Progress::Started => Some((At::Forward(index), step.name.as_str(), step.attempts)),
            Some(undo) if undo.progress == Progress::Started => {
                Some((At::Back(index), undo.name.as_str(), undo.attempts))
            }
            _ => None,
        })
    }

    /// An operator has looked into it: what was attempted so far does not count towards the limit any more.
    pub(crate) fn excuse(&mut self) {
        for step in &mut self.steps {
            step.excused = step.attempts;
            if let Some(undo) = &mut step.undo {
                undo.excused = undo.attempts;
            }
        }
    }

    /// Settles the step whose outcome is unknown by what somebody else has found out.
    pub(crate) fn settle_open(&mut self, found_out: FoundOut) -> Result<String, StepError> {
        let (at, name, _) = self.open_step().ok_or(StepError::NothingOpen)?;
        let name = name.to_owned();
        let call = Call { name: &name, kind: Kind::External, undo: None };
        match (found_out, at) {
            (FoundOut::Done(result), _) => self.finish(at, call, result),
            (FoundOut::NotDone, _) => self.withdraw(at, call),
            (FoundOut::Failed(reason), At::Forward(_)) => self.fail(at, call, reason),
            // What was done has to be undone, one way or the other.
            (FoundOut::Failed(_), At::Back(_)) => return Err(StepError::CompensationPending { step: name }),
        }
        Ok(name)
    }

    /// The name of the last step that happened.
    pub(crate) fn last_done(&self) -> Option<&str> {
        self.steps.iter().rfind(|step| step.progress == Progress::Done).map(|step| step.name.as_str())
    }

    pub(crate) fn recovery_point(&self) -> RecoveryPoint {
        if let Some((_, step, _)) = self.open_step() {
            return RecoveryPoint::Within { step: step.to_owned() };
        }
        let settled = self.steps.iter().rfind(|step| step.progress != Progress::Waiting);
        settled.map_or(RecoveryPoint::Start, |step| RecoveryPoint::After { step: step.name.clone() })
    }

    /// What a step that happened came to.
    pub(crate) fn result_of(&self, name: &str) -> Option<&RawValue> {
        self.steps.iter().find(|step| step.name == name && step.progress == Progress::Done)?.outcome.as_deref()
    }

    fn find_back(&mut self, call: Call<'_>) -> Result<Found, StepError> {
        if let Some((index, undo)) = self.pending()
            && undo.name == call.name
        {
            return self.found(At::Back(index), call);
        }
        let undone = self.steps.iter().filter_map(|step| step.undo.as_deref()).find(|undo| undo.name == call.name);
        if let Some(Entry { progress: Progress::Done, outcome: Some(outcome), .. }) = undone {
            return Ok(Found::Done(outcome.clone()));
        }
        // Whoever takes over walks the steps again from the first, up to the one that failed.
        match self.steps.get(self.next) {
            Some(entry) if entry.name == call.name && entry.progress != Progress::Waiting => {
                self.found(At::Forward(self.next), call)
            }
            _ => Err(StepError::RunsBack {
                step: call.name.to_owned(),
                expected: self.next_compensation().map(str::to_owned),
            }),
        }
    }

    fn found(&mut self, at: At, call: Call<'_>) -> Result<Found, StepError> {
        let entry = self.entry(at, call);
        if entry.kind != call.kind && entry.progress != Progress::Waiting {
            return Err(StepError::KindChanged { step: call.name.to_owned() });
        }
        let (progress, attempts, outcome) = (entry.progress, entry.attempts, entry.outcome.clone());
        let recent = attempts.saturating_sub(entry.excused);
        Ok(match (progress, outcome) {
            (Progress::Waiting, _) => Found::Todo { at, attempts, recent },
            (Progress::Started, _) => Found::Open { at, attempts, recent },
            (Progress::Done, outcome) => {
                self.pass(at);
                Found::Done(outcome.unwrap_or_else(null))
            }
            (Progress::Failed, outcome) => {
                self.pass(at);
                Found::Failed(outcome.unwrap_or_else(null))
            }
        })
    }

    fn settle(&mut self, at: At, call: Call<'_>, progress: Progress, outcome: Option<Box<RawValue>>) {
        let entry = self.entry(at, call);
        entry.progress = progress;
        entry.kind = call.kind;
        entry.outcome = outcome;
        self.pass(at);
    }

    /// The caller has been told what this step came to.
    fn pass(&mut self, at: At) {
        if let At::Forward(index) = at {
            self.next = self.next.max(index + 1);
        }
    }

    /// The entry at a place that `find` or `open_step` answered with; a new one at the end of the log.
    fn entry(&mut self, at: At, call: Call<'_>) -> &mut Entry {
        let index = match at {
            At::Forward(index) | At::Back(index) => index,
        };
        if index >= self.steps.len() {
            let undo = call.undo.map(|name| Box::new(Entry::new(name, Kind::Local)));
            self.steps.push(Entry { undo, ..Entry::new(call.name, call.kind) });
        }
        let last = self.steps.len() - 1;
        let step = &mut self.steps[index.min(last)];
        match at {
            At::Forward(_) => step,
            At::Back(_) => step.undo.get_or_insert_with(|| Box::new(Entry::new(call.name, call.kind))),
        }
    }

    fn pending(&self) -> Option<(usize, &Entry)> {
        self.steps.iter().enumerate().rev().find_map(|(index, step)| match &step.undo {
            Some(undo) if step.progress == Progress::Done && undo.progress != Progress::Done => Some((index, &**undo)),
            _ => None,
        })
    }

    fn nothing_open(&self) -> Result<(), StepError> {
        self.open_step().map_or(Ok(()), |(_, step, _)| Err(StepError::Open { step: step.to_owned() }))
    }

    fn is_taken(&self, name: &str) -> bool {
        self.steps.iter().any(|step| step.name == name || step.undo.as_ref().is_some_and(|undo| undo.name == name))
    }

    fn misplaced(&self, recorded: &Entry, called: &str) -> StepError {
        let called = called.to_owned();
        if self.steps[..self.next].iter().any(|step| step.name == called) {
            StepError::Duplicate { step: called }
        } else if recorded.progress == Progress::Started {
            StepError::Open { step: recorded.name.clone() }
        } else {
            StepError::OrderChanged { position: self.next, recorded: recorded.name.clone(), called }
        }
    }
}

#[cfg(test)]
#[path = "log/tests.rs"]
mod tests;
