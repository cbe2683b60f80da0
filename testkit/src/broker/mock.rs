//! How long a mock cluster waits for more members of a group that was empty.
//!
//! Three seconds unless it is told otherwise, which rdkafka does not wrap; a broker under test is told not to wait at all. One test
//! in three would do nothing else in most of its time.
#![allow(unsafe_code, reason = "rdkafka 0.39 has no wrapper of this setting of the mock cluster")]

use rdkafka::bindings::{rd_kafka_handle_mock_cluster, rd_kafka_mock_group_initial_rebalance_delay_ms};
use rdkafka::client::{Client, ClientContext};

/// Two members that come at once are still one rebalance.
const JOIN_DELAY_MS: i32 = 100;

/// Lets the first members of a group have their partitions soon. Does nothing to a client that has no mock cluster in it.
pub(super) fn join_soon<C: ClientContext>(client: &Client<C>) {
    // SAFETY: the handle is that of a client that lives until this function returns, and so does the cluster in it, which null
    // stands for if there is none. The setting is one number, written under the cluster's own lock.
    unsafe {
        let cluster = rd_kafka_handle_mock_cluster(client.native_ptr());
        if !cluster.is_null() {
            rd_kafka_mock_group_initial_rebalance_delay_ms(cluster, JOIN_DELAY_MS);
        }
    }
}
