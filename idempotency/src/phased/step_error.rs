//! Why a step, or the end of a run, was refused before anything was written.

/// Why the step log refused what was asked of it. Nothing was written; the key stays claimed, and its record as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The name of a step is not 1 to 64 letters, digits, `.`, `_` or `-`.
    #[error("{step:?} is no name for a step: 1 to 64 letters, digits, '.', '_' or '-'")]
    Name {
        /// The name.
        step: String,
    },
    /// The run has this name already.
    #[error("the step {step} is there already; each step and each compensation needs a name of its own")]
    Duplicate {
        /// The name.
        step: String,
    },
    /// The recorded steps are others, or in another order, than those that the program takes now.
    #[error(
        "step {position} is recorded as {recorded}, and the program takes {called}; a key in flight must find the steps it \
         began with: keep names and order, and add new steps behind"
    )]
    OrderChanged {
        /// Its number, from 0.
        position: usize,
        /// What the record says.
        recorded: String,
        /// What was asked for.
        called: String,
    },
    /// A step is recorded as local and called as external, or the other way round.
    #[error("the step {step} was recorded as one of the other kind, local or external; give it another name")]
    KindChanged {
        /// The name.
        step: String,
    },
    /// What became of a step is unknown: until that is settled nothing goes on.
    #[error("what became of the step {step} is unknown; settle it (its policy, or an operator) before anything else")]
    Open {
        /// The name.
        step: String,
    },
    /// The run has as many steps as it may have.
    #[error("a run has at most {limit} steps; raise max_steps, or do several things in one local step")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The run goes back: only its compensations may run, in reverse order.
    #[error("the run goes back, so {step} does not run; the compensation that comes next is {}", .expected.as_deref().unwrap_or("none"))]
    RunsBack {
        /// What was asked for.
        step: String,
        /// What comes next.
        expected: Option<String>,
    },
    /// The run goes back and is not there yet.
    #[error("the run goes back, and the compensation {step} is not done; run it before completing")]
    CompensationPending {
        /// The name of the compensation.
        step: String,
    },
    /// The key cannot be freed: something has happened.
    #[error("the step {step} has happened, so the key is not freed; complete it with an answer, an error if need be")]
    EffectsRemain {
        /// The name.
        step: String,
    },
    /// A resolution speaks of a step whose outcome is unknown, and there is none.
    #[error("no step of this key has an unknown outcome; complete or release the key, or let it be resumed")]
    NothingOpen,
    /// The log, with the results of its steps, is larger than the limit.
    #[error("the steps take {bytes} bytes, the limit is {limit}; raise max_step_bytes, or return references")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The stored log could not be read or written.
    #[error("the recorded steps cannot be read; they were written by a later version of the program")]
    Unreadable {
        /// What serde said.
        #[source]
        source: serde_json::Error,
    },
}
