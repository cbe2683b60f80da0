//! What Kafka's errors mean for an event, by their code.

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::sink::SendError;

/// Why a sink could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KafkaSinkError {
    /// The configuration contradicts what order and durability rest on.
    #[error("{name} must be {value}: {why}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// What it must be.
        value: &'static str,
        /// What would break.
        why: &'static str,
    },
    /// librdkafka refused the configuration.
    #[error("librdkafka refused the producer's configuration")]
    Client {
        /// What it said.
        #[source]
        source: KafkaError,
    },
}

/// The answer that an error is for an event. Permanent are the errors that speak of the message or of the right to send it;
/// everything else may pass.
pub(super) fn send_error(error: &KafkaError) -> SendError {
    let reason = error.to_string();
    match error.rdkafka_error_code() {
        Some(code) if is_permanent(code) => SendError::Permanent { reason },
        // Another record of its batch is what the broker did not take.
        Some(RDKafkaErrorCode::InvalidDifferentRecord) => SendError::NotSent { reason },
        _ => SendError::Unknown { reason },
    }
}

/// A code that stands for a whole batch (`MessageSizeTooLarge`, `MessageBatchTooLarge`, `InvalidMessage`) says nothing certain of
/// any one event: the relay sends each again alone, and what passes then was innocent.
fn is_permanent(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;

    matches!(
        code,
        Code::MessageSizeTooLarge
            | Code::MessageBatchTooLarge
            | Code::InvalidMessageSize
            | Code::InvalidMessage
            | Code::InvalidRecord
            | Code::InvalidTimestamp
            | Code::InvalidArgument
            | Code::InvalidTopic
            | Code::UnknownTopic
            | Code::UnknownPartition
            | Code::UnknownTopicOrPartition
            | Code::UnsupportedForMessageFormat
            | Code::TopicAuthorizationFailed
            | Code::PolicyViolation
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_permanent(code: RDKafkaErrorCode) -> bool {
        matches!(send_error(&KafkaError::MessageProduction(code)), SendError::Permanent { .. })
    }

    /// Nor is what its batch was refused for: were it unknown, the same batch would form again and again.
    #[test]
    fn b7_another_record_of_its_batch_is_not_an_events_fault() {
        let error = KafkaError::MessageProduction(RDKafkaErrorCode::InvalidDifferentRecord);
        assert!(matches!(send_error(&error), SendError::NotSent { .. }), "{error:?}");
    }

    #[test]
    fn b8_an_outage_is_never_an_events_fault() {
        use RDKafkaErrorCode as Code;
        for code in [
            Code::BrokerTransportFailure,
            Code::AllBrokersDown,
            Code::MessageTimedOut,
            Code::NotLeaderForPartition,
            Code::LeaderNotAvailable,
            Code::NotEnoughReplicas,
            Code::NotEnoughReplicasAfterAppend,
            Code::RequestTimedOut,
            Code::PurgeQueue,
            Code::PurgeInflight,
            Code::OutOfOrderSequenceNumber,
            Code::Fatal,
            Code::Fenced,
            Code::ProducerFenced,
            Code::InvalidProducerEpoch,
            Code::ClusterAuthorizationFailed,
            Code::ThrottlingQuotaExceeded,
            Code::KafkaStorageError,
        ] {
            assert!(!is_permanent(code), "{code:?}");
        }
        for code in [Code::MessageSizeTooLarge, Code::InvalidRecord, Code::UnknownPartition, Code::UnknownTopic] {
            assert!(is_permanent(code), "{code:?}");
        }
    }
}
