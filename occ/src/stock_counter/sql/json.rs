//! Lists as JSON, for engines without arrays.

use serde_json::json;

use super::Writes;

/// `[text, …]`
pub(super) fn texts(texts: &[String]) -> String {
    json!(texts).to_string()
}

/// `[[key, delta], …]`
pub(super) fn changes(writes: &Writes) -> String {
    let changes: Vec<_> = writes.keys.iter().zip(&writes.deltas).collect();
    json!(changes).to_string()
}

/// `[[id, digest, answer], …]`
pub(super) fn orders(writes: &Writes) -> String {
    let orders = writes.order_ids.iter().zip(&writes.digests).zip(&writes.answers);
    let orders: Vec<_> = orders.map(|((id, digest), answer)| (id, digest, answer)).collect();
    json!(orders).to_string()
}
