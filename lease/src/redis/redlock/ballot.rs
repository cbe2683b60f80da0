//! What the answers of several nodes come to.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use crate::store::{Holder, StoreError};
use crate::token::OwnerHash;

/// One node's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Vote {
    /// It has done what was asked for.
    Yes,
    /// It has not, and may say who has the lock there.
    No(Option<Box<Holder>>),
}

impl Vote {
    /// Reads what a script answers: a number, or a list that begins with one.
    pub(super) fn read(answer: Value) -> Result<Self, StoreError> {
        match answer {
            Value::Int(1) => Ok(Self::Yes),
            Value::Int(_) => Ok(Self::No(None)),
            list => list_of(list).map_err(StoreError::permanent),
        }
    }
}

fn list_of(answer: Value) -> Result<Vote, redis::RedisError> {
    let mut parts = redis::from_redis_value::<Vec<Value>>(answer)?.into_iter();
    let mut next = || parts.next().unwrap_or(Value::Nil);
    if next() == Value::Int(1) {
        return Ok(Vote::Yes);
    }
    let owner = OwnerHash::of(&redis::from_redis_value::<Vec<u8>>(next())?);
    let age = Duration::from_millis(redis::from_redis_value(next())?);
    let remaining = Duration::from_millis(redis::from_redis_value(next())?);
    let job: String = redis::from_redis_value(next())?;
    let job = Some(job).filter(|job| !job.is_empty()).map(String::into_boxed_str);
    Ok(Vote::No(Some(Box::new(Holder { job, ..Holder::new(owner, age, remaining) }))))
}

/// The answers so far.
#[derive(Debug)]
pub(super) struct Ballot {
    nodes: usize,
    yes: usize,
    no: usize,
    silent: usize,
    /// Of the silent ones, those that would be silent again.
    hopeless: usize,
    /// Why the last of them is silent.
    trouble: Option<Arc<StoreError>>,
    holders: Vec<Holder>,
}

/// A majority did not answer.
#[derive(Debug, thiserror::Error)]
#[error("of {nodes} Redis {yes} agreed and {no} refused; the others did not answer")]
struct TooFew {
    nodes: usize,
    yes: usize,
    no: usize,
    #[source]
    trouble: Option<Arc<StoreError>>,
}

impl Ballot {
    /// Without an answer as yet.
    pub(super) const fn among(nodes: usize) -> Self {
        Self { nodes, yes: 0, no: 0, silent: 0, hopeless: 0, trouble: None, holders: Vec::new() }
    }

    pub(super) fn count(&mut self, vote: Vote) {
        match vote {
            Vote::Yes => self.yes += 1,
            Vote::No(holder) => {
                self.no += 1;
                self.holders.extend(holder.map(|holder| *holder));
            }
        }
    }

    /// A node that will not answer, and why, if that is known.
    pub(super) fn silent(&mut self, trouble: Option<StoreError>) {
        self.silent += 1;
        if let Some(trouble) = trouble {
            self.hopeless += usize::from(!trouble.is_retryable());
            self.trouble = Some(Arc::new(trouble));
        }
    }

    /// More than half: any two majorities have a node in common.
    const fn majority(&self) -> usize {
        self.nodes / 2 + 1
    }

    pub(super) const fn is_won(&self) -> bool {
        self.yes >= self.majority()
    }

    /// Whether the answers that are still to come can change nothing.
    pub(super) const fn is_decided(&self) -> bool {
        self.is_won() || self.nodes - self.no < self.majority() || self.nodes - self.silent < self.majority()
    }

    /// A definite yes, a definite no (not even those who have not answered could make it a majority), or neither.
    pub(super) fn outcome(&self) -> Result<bool, StoreError> {
        if self.is_won() {
            Ok(true)
        } else if self.nodes - self.no < self.majority() {
            Ok(false)
        } else {
            Err(self.too_few())
        }
    }

    /// Who has the lock on most nodes, if enough have answered to say that somebody has.
    pub(super) fn refusal(self) -> Result<Holder, StoreError> {
        if self.yes + self.no < self.majority() {
            return Err(self.too_few());
        }
        let votes = |owner: OwnerHash| self.holders.iter().filter(move |holder| holder.owner == owner);
        let most = self.holders.iter().max_by_key(|holder| (votes(holder.owner).count(), holder.remaining));
        most.cloned().ok_or_else(|| self.too_few())
    }

    fn too_few(&self) -> StoreError {
        let Self { nodes, yes, no, .. } = *self;
        let too_few = TooFew { nodes, yes, no, trouble: self.trouble.clone() };
        if nodes - self.hopeless < self.majority() {
            StoreError::permanent(too_few)
        } else {
            StoreError::retryable(too_few)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_by(nonce: u8, remaining_ms: u64) -> Vote {
        let owner = OwnerHash::of(&[nonce; 16]);
        Vote::No(Some(Box::new(Holder::new(owner, Duration::ZERO, Duration::from_millis(remaining_ms)))))
    }

    fn of(nodes: usize, votes: impl IntoIterator<Item = Option<Vote>>) -> Ballot {
        let mut ballot = Ballot::among(nodes);
        for vote in votes {
            assert!(!ballot.is_decided(), "{ballot:?}");
            match vote {
                Some(vote) => ballot.count(vote),
                None => ballot.silent(None),
            }
        }
        ballot
    }

    #[test]
    fn a_majority_decides_as_soon_as_it_is_there() {
        for (nodes, majority) in [(3, 2), (4, 3), (5, 3), (6, 4), (7, 4)] {
            let won = of(nodes, vec![Some(Vote::Yes); majority]);
            assert!(won.is_won() && won.is_decided());
            assert!(won.outcome().unwrap());
            let open = of(nodes, vec![Some(Vote::Yes); majority - 1]);
            assert!(!open.is_won() && !open.is_decided());
            let lost = of(nodes, vec![Some(Vote::No(None)); nodes - majority + 1]);
            assert!(lost.is_decided() && !lost.outcome().unwrap());
        }
    }

    #[test]
    fn silence_is_neither_a_yes_nor_a_no() {
        let ballot = of(5, [Some(Vote::Yes), Some(Vote::Yes), None, None, None]);
        assert!(ballot.is_decided() && !ballot.is_won());
        assert!(ballot.outcome().unwrap_err().is_retryable());
        assert!(ballot.refusal().unwrap_err().is_retryable());
        // Two that refuse and two that are silent: those two could still make it a majority.
        let ballot = of(5, [Some(Vote::No(None)), Some(Vote::No(None)), None]);
        assert!(!ballot.is_decided());
        assert!(ballot.outcome().is_err());
    }

    #[test]
    fn where_a_majority_would_be_silent_again_another_attempt_is_of_no_use() {
        let fails = |errors: [StoreError; 3]| {
            let mut ballot = Ballot::among(5);
            for error in errors {
                ballot.silent(Some(error));
            }
            ballot.outcome().unwrap_err()
        };
        let (lost, refused) = (|| StoreError::retryable("cut"), || StoreError::permanent("the password"));
        assert!(fails([refused(), refused(), lost()]).is_retryable());
        assert!(!fails([refused(), refused(), refused()]).is_retryable());
    }

    #[test]
    fn the_holder_is_whoever_has_most_votes() {
        let ballot = of(5, [Some(Vote::Yes), Some(held_by(1, 900)), Some(held_by(2, 10)), Some(held_by(2, 30))]);
        let holder = ballot.refusal().unwrap();
        assert_eq!((holder.owner, holder.remaining.as_millis()), (OwnerHash::of(&[2; 16]), 30));
    }
}
