//! How far a shard was read: pure, no I/O.
//!
//! On PostgreSQL a position is a snapshot, `done`: every transaction that it sees has been published. What a later
//! snapshot, `current`, sees besides is the next *window*. A window larger than a page is fixed as `target` and paged along
//! the ids; when its last page was published, `done` becomes `target`. On SQLite ids follow commit order and a position is
//! the last id.

#[cfg(any(test, feature = "postgres", feature = "sqlite", feature = "mysql"))]
use crate::parked::Park;
use crate::relay::pipeline::Parked;
use crate::sink::LoggedEvent;

/// How far a shard was published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// What this snapshot sees has been published. Empty where there are no snapshots.
    pub done: String,
    /// The end of the window being paged, if one is.
    pub target: Option<String>,
    /// The last id published of that window, or of the log where there are no snapshots.
    pub last_id: i64,
}

/// A shard that this relay owns, and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// The shard.
    pub shard: i64,
    /// The epoch of the ownership: only its holder may move the position.
    pub epoch: i64,
    /// How far it was published.
    pub position: Position,
}

/// Where the next read of a shard begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadFrom {
    /// Behind the last event read.
    pub cursor: Cursor,
    /// The ids of the events that were read and are not yet noted. Filled only where a position does not say it
    /// ([`Log::POSITIONS`](crate::relay::Log::POSITIONS)).
    pub unnoted: Vec<i64>,
}

/// What to note of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The shard, the epoch of its ownership, and the position behind the last event published without a gap.
    pub cursor: Cursor,
    /// The ids of the events published since the last note, in the order of their reading. Filled only where a position does
    /// not say it ([`Log::POSITIONS`](crate::relay::Log::POSITIONS)).
    pub published: Vec<i64>,
    /// Events up to that position that were not sent, to be parked in the same transaction.
    pub(crate) parked: Vec<Parked>,
}

#[cfg(any(test, feature = "postgres", feature = "sqlite", feature = "mysql"))]
impl Note {
    /// What to write of the events that were not sent.
    #[cfg_attr(
        not(any(feature = "postgres", feature = "sqlite", feature = "mysql")),
        allow(dead_code, reason = "without an engine nothing is written")
    )]
    pub(crate) fn to_park(&self) -> Vec<Park> {
        self.parked.iter().map(Parked::to_park).collect()
    }
}

/// Events read for a cursor, and where it stands once they are published.
#[derive(Debug, Clone)]
pub struct Page {
    cursor: Cursor,
    /// The events, in the order to publish them.
    pub events: Vec<LoggedEvent>,
    /// The end of the window that the events are in; none where there are no snapshots.
    window: Option<String>,
    after: Position,
}

impl Page {
    /// A page of a log whose ids follow commit order.
    #[must_use]
    pub fn of_cursor(cursor: &Cursor, events: Vec<LoggedEvent>) -> Self {
        let last_id = events.last().map_or(cursor.position.last_id, |event| event.id);
        let after = Position { last_id, ..cursor.position.clone() };
        Self { cursor: cursor.clone(), events, window: None, after }
    }

    /// The first page of the window between the cursor's snapshot and `current`; `more` says that it may not be all.
    #[must_use]
    pub fn of_snapshot(cursor: &Cursor, current: &str, events: Vec<LoggedEvent>, more: bool) -> Self {
        Self::within(cursor, current.to_owned(), events, more)
    }

    /// A later page of the cursor's window; `more` says that it may not be the last.
    #[must_use]
    pub fn of_window(cursor: &Cursor, events: Vec<LoggedEvent>, more: bool) -> Self {
        let target = cursor.position.target.clone().unwrap_or_default();
        Self::within(cursor, target, events, more)
    }

    fn within(cursor: &Cursor, target: String, events: Vec<LoggedEvent>, more: bool) -> Self {
        let after = match events.last() {
            Some(last) if more => {
                Position { done: cursor.position.done.clone(), target: Some(target.clone()), last_id: last.id }
            }
            // There was no room for any of them.
            None if more => cursor.position.clone(),
            _ => Position { done: target.clone(), target: None, last_id: 0 },
        };
        Self { cursor: cursor.clone(), events, window: Some(target), after }
    }

    /// The shard that it is of.
    pub(crate) fn shard(&self) -> i64 {
        self.cursor.shard
    }

    /// The epoch of its shard's ownership when it was read.
    pub(crate) fn epoch(&self) -> i64 {
        self.cursor.epoch
    }

    /// Where it was read from.
    pub(crate) fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// The cursor once the first `published` events of the page are published, and no more.
    pub(crate) fn after(&self, published: usize) -> Cursor {
        let position = if published >= self.events.len() {
            self.after.clone()
        } else if published == 0 {
            self.cursor.position.clone()
        } else {
            let done = self.cursor.position.done.clone();
            Position { done, target: self.window.clone(), last_id: self.events[published - 1].id }
        };
        Cursor { position, ..self.cursor.clone() }
    }
}

/// The first transaction id that a snapshot (`xmin:xmax:xip,…`) knows nothing of; 0 if it cannot be read.
#[cfg(feature = "postgres")]
pub(crate) fn newest_transaction(snapshot: &str) -> u64 {
    snapshot.split(':').nth(1).and_then(|xmax| xmax.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventId;
    use crate::headers::Headers;

    fn events(ids: &[i64]) -> Vec<LoggedEvent> {
        let event = |&id: &i64| LoggedEvent {
            shard: 0,
            id,
            event_id: EventId::new(),
            topic: "t".into(),
            key: None,
            value: None,
            headers: Headers::default(),
            partition: None,
            age_ms: 0,
            unreadable: None,
        };
        ids.iter().map(event).collect()
    }

    fn cursor(done: &str, target: Option<&str>, last_id: i64) -> Cursor {
        let position = Position { done: done.into(), target: target.map(str::to_owned), last_id };
        Cursor { shard: 0, epoch: 7, position }
    }

    #[test]
    fn a_window_that_fits_a_page_moves_done_to_the_snapshot() {
        let page = Page::of_snapshot(&cursor("1:1:", None, 0), "1:9:", events(&[3, 5]), false);
        assert_eq!(page.after(2), cursor("1:9:", None, 0));
        assert_eq!(
            Page::of_snapshot(&cursor("1:1:", None, 0), "1:9:", vec![], false).after(0),
            cursor("1:9:", None, 0)
        );
    }

    #[test]
    fn a_full_page_fixes_the_window_and_the_last_page_ends_it() {
        let page = Page::of_snapshot(&cursor("1:1:", None, 0), "1:9:", events(&[3, 5]), true);
        assert_eq!(page.after(2), cursor("1:1:", Some("1:9:"), 5));
        let last = Page::of_window(&page.after(2), events(&[8]), false);
        assert_eq!(last.after(1), cursor("1:9:", None, 0));
        let empty = Page::of_window(&page.after(2), vec![], false);
        assert_eq!(empty.after(0), cursor("1:9:", None, 0));
    }

    #[test]
    fn page_without_room_for_an_event_moves_nothing() {
        let (fresh, window) = (cursor("1:1:", None, 0), cursor("1:1:", Some("1:9:"), 5));
        assert_eq!(Page::of_snapshot(&fresh, "1:9:", vec![], true).after(0), fresh);
        assert_eq!(Page::of_window(&window, vec![], true).after(0), window);
    }

    #[test]
    fn b15_a_failure_inside_a_page_keeps_the_published_prefix_only() {
        let page = Page::of_snapshot(&cursor("1:1:", None, 0), "1:9:", events(&[3, 5, 8]), false);
        assert_eq!(page.after(2), cursor("1:1:", Some("1:9:"), 5));
        assert_eq!(page.after(0), cursor("1:1:", None, 0));
        let later = Page::of_window(&cursor("1:1:", Some("1:9:"), 5), events(&[8, 9]), false);
        assert_eq!(later.after(1), cursor("1:1:", Some("1:9:"), 8));
        assert_eq!(later.after(0), cursor("1:1:", Some("1:9:"), 5));
    }

    #[test]
    fn where_ids_follow_commits_the_last_id_is_the_position() {
        let page = Page::of_cursor(&cursor("", None, 4), events(&[5, 7]));
        assert_eq!(page.after(2), cursor("", None, 7));
        assert_eq!(page.after(1), cursor("", None, 5));
        assert_eq!(Page::of_cursor(&cursor("", None, 4), vec![]).after(0), cursor("", None, 4));
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn newest_transaction_is_a_snapshots_xmax() {
        assert_eq!(newest_transaction("10:20:10,14"), 20);
        assert_eq!(newest_transaction("1:1:"), 1);
    }
}
