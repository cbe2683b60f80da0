//! What is taken out of the client's statistics: where the logs end, and whether the group has been joined.

use std::collections::HashMap;

use serde::Deserialize;

use crate::partition::TopicPartition;

/// What librdkafka says every `statistics.interval.ms` (its `STATISTICS.md`), as far as it is of use here.
#[derive(Debug, Deserialize)]
struct Statistics {
    #[serde(default)]
    topics: HashMap<String, Topic>,
    cgrp: Option<Group>,
}

#[derive(Debug, Deserialize)]
struct Topic {
    partitions: HashMap<i32, Partition>,
}

#[derive(Debug, Deserialize)]
struct Partition {
    /// The end that a reader of committed records sees.
    ls_offset: i64,
    hi_offset: i64,
}

#[derive(Debug, Deserialize)]
struct Group {
    join_state: String,
}

/// News of the logs and the group.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    pub(super) ends: HashMap<TopicPartition, i64>,
    pub(super) is_member: bool,
}

/// Reads statistics; what cannot be read is no news.
pub(super) fn read(json: &[u8]) -> Option<News> {
    let Statistics { topics, cgrp } = serde_json::from_slice(json)
        .inspect_err(|error| tracing::debug!(%error, "the client's statistics have another form"))
        .ok()?;
    let mut ends = HashMap::new();
    for (topic, Topic { partitions }) in topics {
        for (number, Partition { ls_offset, hi_offset }) in partitions {
            // Negative: not known yet. The last stable offset is only kept where it differs.
            let end = if ls_offset >= 0 { ls_offset } else { hi_offset };
            if number >= 0 && end >= 0 {
                ends.insert(TopicPartition::new(topic.as_str(), number), end);
            }
        }
    }
    Some(News { ends, is_member: cgrp.is_some_and(|group| group.join_state == "steady") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_known_once_something_was_fetched() {
        let json = r#"{"name": "c", "cgrp": {"state": "up", "join_state": "steady", "stateage": 5}, "topics": {"t": {"topic": "t",
            "partitions": {"0": {"hi_offset": 9, "ls_offset": 7}, "1": {"hi_offset": -1001, "ls_offset": -1001},
            "2": {"hi_offset": 4, "ls_offset": -1001}, "-1": {"hi_offset": 3, "ls_offset": 3}}}}}"#;
        let news = read(json.as_bytes()).expect("statistics");
        let ends = [(TopicPartition::new("t", 0), 7), (TopicPartition::new("t", 2), 4)];
        assert_eq!(news, News { ends: ends.into(), is_member: true });
        assert_eq!(read(b"{}"), Some(News::default()));
        assert_eq!(read(b"other"), None);
    }
}
