//! One Kafka-partitioned writer per key, with an exactly-once effect in the database.

#[cfg(feature = "kafka")]
mod dispatch;
#[cfg(feature = "kafka")]
mod polling;
#[cfg(feature = "kafka")]
mod settings;
#[cfg(feature = "kafka")]
mod worker;

pub mod assignment;
pub mod effect;
pub mod error;
pub mod flow;
pub mod handler;
pub mod lanes;
pub mod partition;
pub mod progress;
pub mod record;
pub mod sql;
pub mod summary;
pub mod tracker;

pub use crate::effect::Effect;
pub use crate::error::Error;
pub use crate::flow::Limits;
pub use crate::handler::{Failure, Handler};
pub use crate::partition::{Epoch, TopicPartition};
pub use crate::progress::{Progress, Timeouts};
pub use crate::record::Record;
#[cfg(feature = "kafka")]
pub use crate::settings::OnFailure;
pub use crate::sql::{MIGRATIONS, WorkerSql};
pub use crate::summary::{PartitionSummary, Summary};
#[cfg(feature = "kafka")]
pub use crate::worker::{Builder, Worker};
