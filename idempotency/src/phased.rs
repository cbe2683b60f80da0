//! The phased mode: effects outside the database, with a claim that outlives no lease and steps that outlive a crash.

mod begin;
mod compensation;
mod external;
mod failpoint;
mod local;
mod log;
mod owner;
mod policy;
mod provider_key;
mod reconciler;
mod record;
mod renewal;
mod resolve;
mod run;
mod settings;
mod sql;
mod step_error;
mod unknown;

pub use crate::phased::begin::PhasedBegin;
pub use crate::phased::external::{Attempt, External, ExternalCall, Failure};
pub use crate::phased::local::{Local, LocalCall, LocalStep};
pub use crate::phased::log::RecoveryPoint;
pub use crate::phased::policy::{Decision, Hold, Policy, Reconcile, RetryWithSameKey, Verdict};
pub use crate::phased::provider_key::ProviderKey;
pub use crate::phased::reconciler::{Inquiry, Reconciler, ReconcilerBuilder, Summary};
pub use crate::phased::resolve::{Resolution, Resolved};
pub use crate::phased::run::Run;
pub use crate::phased::settings::{Phased, PhasedBuilder};
pub use crate::phased::sql::PhasedSql;
pub use crate::phased::step_error::StepError;
pub use crate::phased::unknown::{Unknown, UnknownStep};
