//! The events as they arrived: what a consumer that drops repeats would have.

use std::collections::BTreeMap;
use std::path::Path;

use crate::BoxError;
use crate::service::Line;
use crate::service::shop::Notice;

/// Each event id once. A line that a kill has cut off is none: its event was published again.
pub(crate) fn published(file: &Path) -> Result<BTreeMap<String, Notice>, BoxError> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error.into()),
    };
    let mut events = BTreeMap::new();
    for line in text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()) {
        if let Some(earlier) = events.insert(line.event_id.clone(), line.notice.clone())
            && earlier != line.notice
        {
            return Err(format!("the event {} was published with two texts", line.event_id).into());
        }
    }
    Ok(events)
}
