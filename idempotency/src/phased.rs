//! The phased mode: effects outside the database, with a claim that outlives no lease and steps that outlive a crash.

mod begin;
mod failpoint;
mod log;
mod owner;
mod provider_key;
mod record;
mod renewal;
mod run;
mod settings;
mod sql;
mod step_error;
mod unknown;

pub use crate::phased::begin::PhasedBegin;
pub use crate::phased::log::RecoveryPoint;
pub use crate::phased::provider_key::ProviderKey;
pub use crate::phased::run::Run;
pub use crate::phased::settings::{Phased, PhasedBuilder};
pub use crate::phased::sql::PhasedSql;
pub use crate::phased::step_error::StepError;
pub use crate::phased::unknown::{Unknown, UnknownStep};
