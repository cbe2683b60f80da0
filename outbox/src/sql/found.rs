//! A read that is bounded by bytes: of large events it is found first how large they are, and they are brought only where there is
//! room for them.

use crate::sink::LoggedEvent;

/// However little room there is, events of so many bytes come at once: to bring each by itself would cost more.
const SMALL_BYTES: usize = 1 << 10;

/// How much one read may bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadLimit {
    /// Events of each shard.
    pub events: i64,
    /// Bytes of key, value and headers, in all. One event comes whatever it takes, so that reading goes on.
    pub bytes: usize,
}

impl ReadLimit {
    /// What is asked of each of so many shards: events, and up to how many bytes an event comes whole. Together they stay within the
    /// limit, unless that is less than a small event of each shard.
    pub(crate) fn of_each(self, shards: usize) -> (i64, i64) {
        let (shards, most) = (shards.max(1), usize::try_from(self.events).unwrap_or(1).max(1));
        let events = (self.bytes / shards / SMALL_BYTES).clamp(1, most);
        let whole = (self.bytes / shards / events).max(SMALL_BYTES);
        (i64::try_from(events).unwrap_or(i64::MAX), i64::try_from(whole).unwrap_or(i64::MAX))
    }
}

/// Events of one shard as a statement found them.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) events: Vec<LoggedEvent>,
    /// The ids of those that are still without their value and headers, and the bytes of each.
    large: Vec<(i64, usize)>,
    /// Whether there are more than are here.
    pub(crate) is_cut: bool,
}

impl Found {
    /// Adds an event that takes `bytes`, which is whole if that is not more than `whole`.
    pub(crate) fn push(&mut self, event: LoggedEvent, bytes: i64, whole: i64) {
        if bytes > whole {
            self.large.push((event.id, usize::try_from(bytes).unwrap_or(usize::MAX)));
        }
        self.events.push(event);
    }

    fn bytes_of(&self, event: &LoggedEvent) -> usize {
        let large = self.large.iter().find(|(id, _)| *id == event.id);
        large.map_or_else(|| event.bytes(), |(_, bytes)| *bytes)
    }

    fn truncate(&mut self, events: usize) {
        if events < self.events.len() {
            self.is_cut = true;
            self.events.truncate(events);
            let Self { events, large, .. } = self;
            large.retain(|(id, _)| events.iter().any(|event| event.id == *id));
        }
    }
}

/// Keeps of each shard as many of its first events as fit together into `bytes`; the shards take turns. One event is kept whatever it
/// takes.
pub(crate) fn keep_what_fits(shards: &mut [Found], bytes: usize) {
    let size = |found: &Found| found.events.iter().map(|event| found.bytes_of(event)).sum::<usize>();
    if shards.iter().map(size).sum::<usize>() <= bytes {
        return;
    }
    let mut kept = vec![0; shards.len()];
    let (mut used, mut nothing_kept) = (0_usize, true);
    let mut open: Vec<usize> = (0..shards.len()).collect();
    while !open.is_empty() {
        open.retain(|&shard| {
            let Some(event) = shards[shard].events.get(kept[shard]) else { return false };
            let with_it = used.saturating_add(shards[shard].bytes_of(event));
            let fits = with_it <= bytes || nothing_kept;
            if fits {
                (used, nothing_kept) = (with_it, false);
                kept[shard] += 1;
            }
            fits
        });
    }
    for (found, kept) in shards.iter_mut().zip(kept) {
        found.truncate(kept);
    }
}

/// The events that are still to be brought, by shard and id.
pub(crate) fn to_bring(shards: &[Found]) -> Vec<(i64, i64)> {
    let of_shard = |found: &Found| {
        let shard = found.events.first().map_or(0, |event| event.shard);
        found.large.iter().map(move |(id, _)| (shard, *id)).collect::<Vec<_>>()
    };
    shards.iter().flat_map(of_shard).collect()
}

/// Puts what was brought in its place. One that is not there any more, because another relay has published it and it was deleted, is
/// no longer this one's to publish, nor is what is behind it.
pub(crate) fn put(shards: &mut [Found], mut brought: Vec<LoggedEvent>) {
    for found in shards.iter_mut().filter(|found| !found.large.is_empty()) {
        let mut whole = found.events.len();
        for (id, _) in std::mem::take(&mut found.large) {
            let Some(place) = found.events.iter().position(|event| event.id == id) else { continue };
            let shard = found.events[place].shard;
            match brought.iter().position(|event| (event.shard, event.id) == (shard, id)) {
                Some(one) => found.events[place] = brought.swap_remove(one),
                None => whole = whole.min(place),
            }
        }
        found.truncate(whole);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventId;
    use crate::headers::Headers;

    fn event(shard: i64, id: i64, bytes: usize) -> LoggedEvent {
        LoggedEvent {
            shard,
            id,
            event_id: EventId::new(),
            topic: String::new(),
            key: None,
            value: Some(vec![0; bytes]),
            headers: Headers::default(),
            partition: None,
            age_ms: 0,
            unreadable: None,
        }
    }

    /// Events of so many bytes; those of more than 100 are still to be brought.
    fn found(shard: i64, sizes: &[usize]) -> Found {
        let mut found = Found::default();
        for (id, &bytes) in (1..).zip(sizes) {
            let here = if bytes > 100 { 0 } else { bytes };
            found.push(event(shard, id, here), i64::try_from(bytes).unwrap(), 100);
        }
        found
    }

    fn kept(sizes: &[&[usize]], bytes: usize) -> Vec<usize> {
        let mut shards: Vec<Found> = (0..).zip(sizes).map(|(shard, sizes)| found(shard, sizes)).collect();
        keep_what_fits(&mut shards, bytes);
        for (found, sizes) in shards.iter().zip(sizes) {
            assert_eq!(found.is_cut, found.events.len() < sizes.len());
        }
        shards.iter().map(|found| found.events.len()).collect()
    }

    #[test]
    fn shards_take_turns_until_what_is_left_is_used_up() {
        assert_eq!(kept(&[&[10, 10, 10], &[20, 20]], 70), [3, 2]);
        assert_eq!(kept(&[&[10, 10, 10], &[20, 20]], 69), [2, 2]);
        assert_eq!(kept(&[&[], &[1, 1_000], &[1, 1]], 500), [0, 1, 2]);
        // One comes whatever it takes, and it is the first.
        assert_eq!(kept(&[&[1_000, 1], &[1, 1]], 1), [1, 0]);
        assert_eq!(kept(&[&[], &[1_000, 1_000]], 0), [0, 1]);
    }

    #[test]
    fn only_what_is_kept_is_brought() {
        let mut shards = [found(3, &[10, 500, 10]), found(4, &[500, 500])];
        keep_what_fits(&mut shards, 1_100);
        assert_eq!(to_bring(&shards), [(3, 2), (4, 1)]);
        put(&mut shards, vec![event(4, 1, 500), event(3, 2, 500)]);
        let sizes = |found: &Found| found.events.iter().map(LoggedEvent::bytes).collect::<Vec<_>>();
        assert_eq!((sizes(&shards[0]), sizes(&shards[1])), (vec![10, 500, 10], vec![500]));
        assert!(!shards[0].is_cut && shards[1].is_cut && to_bring(&shards).is_empty());
        // What is gone is not ours, nor what is behind it.
        let mut shards = [found(3, &[10, 500, 10])];
        put(&mut shards, Vec::new());
        assert_eq!((sizes(&shards[0]), shards[0].is_cut), (vec![10], true));
    }

    #[test]
    fn what_is_asked_for_fits_into_the_limit() {
        let of_each = |events, bytes, shards| ReadLimit { events, bytes }.of_each(shards);
        assert_eq!(of_each(200, 32 << 20, 16), (200, 10_485));
        for bytes in [1, 1_000, 100_000, 1 << 20, 32 << 20, 4 << 30] {
            for shards in [1, 16, 1_024] {
                for events in [1, 200, 10_000] {
                    let (each, whole) = of_each(events, bytes, shards);
                    assert!((1..=events).contains(&each));
                    let all = usize::try_from(each * whole).unwrap() * shards;
                    assert!(all <= bytes.max(shards * SMALL_BYTES), "{events} {bytes} {shards}: {all}");
                }
            }
        }
    }
}
