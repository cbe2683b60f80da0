//! Machines that make the classic mistakes.

use leastlock_partition_worker::TopicPartition;
use leastlock_partition_worker::assignment::{Assignment, Call, Grant, Phase};

use crate::machine::Machine;

/// A machine with a mistake.
pub(crate) trait Double: Machine {
    /// The promise that it breaks.
    const BREAKS: &'static str;
}

/// Writes out the methods in which a double does as the right machine does.
macro_rules! as_it_should {
    ($($method:ident),*) => { $(as_it_should!(@ $method);)* };
    (@ begin) => {
        fn begin() -> Self {
            Self(Assignment::new())
        }
    };
    (@ assigned) => {
        fn assigned(&mut self, partitions: &[TopicPartition]) -> Vec<Call<i64>> {
            self.0.assigned(partitions)
        }
    };
    (@ sealed) => {
        fn sealed(&mut self, grant: Grant, partition: &TopicPartition, answer: Option<i64>) -> Vec<Call<i64>> {
            self.0.sealed(grant, partition, answer)
        }
    };
    (@ revoked) => {
        fn revoked(&mut self, partitions: &[TopicPartition]) -> Vec<Call<i64>> {
            self.0.revoked(partitions, true)
        }
    };
    (@ drained) => {
        fn drained(&mut self) -> Vec<Call<i64>> {
            self.0.drained()
        }
    };
    (@ lost) => {
        fn lost(&mut self, partitions: &[TopicPartition]) -> Vec<Call<i64>> {
            self.0.lost(partitions)
        }
    };
    (@ phase) => {
        fn phase(&self, partition: &TopicPartition) -> Phase {
            self.0.phase(partition)
        }
    };
}

/// Lets a key go on while a handler of it still runs from before the revocation.
pub(crate) struct ForgetsGhosts(Assignment<i64>);

impl Machine for ForgetsGhosts {
    const FORGETS_GHOSTS: bool = true;
    as_it_should!(begin, assigned, sealed, revoked, drained, lost, phase);
}

impl Double for ForgetsGhosts {
    const BREAKS: &'static str = "two records of a key run at a time";
}

/// Waits for the seals of a whole event, also of what it has lost meanwhile.
pub(crate) struct StallsOnLostSeal(Assignment<i64>);

impl Machine for StallsOnLostSeal {
    as_it_should!(begin, assigned, sealed, drained, phase);

    fn revoked(&mut self, partitions: &[TopicPartition]) -> Vec<Call<i64>> {
        self.0.revoked(partitions, true)
    }

    fn lost(&mut self, partitions: &[TopicPartition]) -> Vec<Call<i64>> {
        let calls = self.0.lost(partitions);
        calls.into_iter().filter(|call| matches!(call, Call::StopSealing(_) | Call::Cancel(_))).collect()
    }
}

impl Double for StallsOnLostSeal {
    const BREAKS: &'static str = "the worker stalls";
}

/// Gives back first, and lets handlers finish then.
pub(crate) struct DrainsAfterwards(Assignment<i64>);

impl Machine for DrainsAfterwards {
    as_it_should!(begin, assigned, sealed, drained, lost, phase);

    fn revoked(&mut self, partitions: &[TopicPartition]) -> Vec<Call<i64>> {
        let _ = self.0.revoked(partitions, true);
        let calls = self.0.drained();
        calls.into_iter().filter(|call| !matches!(call, Call::Commit(_))).collect()
    }
}

impl Double for DrainsAfterwards {
    const BREAKS: &'static str = "finished work was given back uncommitted";
}

/// Takes a loss for a revocation.
pub(crate) struct CommitsLost(Assignment<i64>);

impl Machine for CommitsLost {
    as_it_should!(begin, assigned, sealed, revoked, drained, phase);

    fn lost(&mut self, partitions: &[TopicPartition]) -> Vec<Call<i64>> {
        self.0.revoked(partitions, false)
    }
}

impl Double for CommitsLost {
    const BREAKS: &'static str = "what is lost was committed";
}

/// Does not look which event a seal belongs to.
pub(crate) struct HearsStaleSeals {
    right: Assignment<i64>,
    grant: Option<Grant>,
}

impl HearsStaleSeals {
    fn note(&mut self, calls: Vec<Call<i64>>) -> Vec<Call<i64>> {
        for call in &calls {
            if let Call::Seal { grant, .. } = call {
                self.grant = Some(*grant);
            }
        }
        calls
    }
}

impl Machine for HearsStaleSeals {
    fn begin() -> Self {
        Self { right: Assignment::new(), grant: None }
    }

    fn assigned(&mut self, partitions: &[TopicPartition]) -> Vec<Call<i64>> {
        let calls = self.right.assigned(partitions);
        self.note(calls)
    }

    fn sealed(&mut self, grant: Grant, partition: &TopicPartition, answer: Option<i64>) -> Vec<Call<i64>> {
        self.right.sealed(self.grant.unwrap_or(grant), partition, answer)
    }

    fn revoked(&mut self, partitions: &[TopicPartition]) -> Vec<Call<i64>> {
        self.right.revoked(partitions, true)
    }

    fn drained(&mut self) -> Vec<Call<i64>> {
        self.right.drained()
    }

    fn lost(&mut self, partitions: &[TopicPartition]) -> Vec<Call<i64>> {
        self.right.lost(partitions)
    }

    fn phase(&self, partition: &TopicPartition) -> Phase {
        self.right.phase(partition)
    }
}

impl Double for HearsStaleSeals {
    const BREAKS: &'static str = "assign was called before all were sealed";
}

/// Takes a revocation of some partitions for one of all of them.
pub(crate) struct FlushesKept {
    right: Assignment<i64>,
}

impl Machine for FlushesKept {
    fn begin() -> Self {
        Self { right: Assignment::new() }
    }

    fn assigned(&mut self, partitions: &[TopicPartition]) -> Vec<Call<i64>> {
        self.right.assigned(partitions)
    }

    fn sealed(&mut self, grant: Grant, partition: &TopicPartition, answer: Option<i64>) -> Vec<Call<i64>> {
        self.right.sealed(grant, partition, answer)
    }

    fn revoked(&mut self, partitions: &[TopicPartition]) -> Vec<Call<i64>> {
        let calls = self.right.revoked(partitions, true);
        self.right.drain();
        calls
    }

    fn drained(&mut self) -> Vec<Call<i64>> {
        self.right.drained()
    }

    fn lost(&mut self, partitions: &[TopicPartition]) -> Vec<Call<i64>> {
        self.right.lost(partitions)
    }

    fn phase(&self, partition: &TopicPartition) -> Phase {
        self.right.phase(partition)
    }
}

impl Double for FlushesKept {
    const BREAKS: &'static str = "a kept partition was disturbed";
}

/// Calls `assign` for all with the first that is sealed.
pub(crate) struct AssignsEarly {
    right: Assignment<i64>,
    grant: Option<(Grant, Vec<TopicPartition>)>,
}

impl Machine for AssignsEarly {
    fn begin() -> Self {
        Self { right: Assignment::new(), grant: None }
    }

    fn assigned(&mut self, partitions: &[TopicPartition]) -> Vec<Call<i64>> {
        let calls = self.right.assigned(partitions);
        if let [Call::Seal { grant, partitions }] = &calls[..] {
            self.grant = Some((*grant, partitions.clone()));
        }
        calls
    }

    fn sealed(&mut self, grant: Grant, partition: &TopicPartition, answer: Option<i64>) -> Vec<Call<i64>> {
        let mut calls = self.right.sealed(grant, partition, answer);
        for other in self.grant.take_if(|(own, _)| *own == grant).into_iter().flat_map(|(_, others)| others) {
            calls.extend(self.right.sealed(grant, &other, Some(0)));
        }
        calls
    }

    fn revoked(&mut self, partitions: &[TopicPartition]) -> Vec<Call<i64>> {
        self.right.revoked(partitions, true)
    }

    fn drained(&mut self) -> Vec<Call<i64>> {
        self.right.drained()
    }

    fn lost(&mut self, partitions: &[TopicPartition]) -> Vec<Call<i64>> {
        self.right.lost(partitions)
    }

    fn phase(&self, partition: &TopicPartition) -> Phase {
        self.right.phase(partition)
    }
}

impl Double for AssignsEarly {
    const BREAKS: &'static str = "assign was called before all were sealed";
}
