//! How far a slot was read, handed out and published: pure, no I/O.
//!
//! A slot answers committed transactions in the order of their commits, always from its confirmed position on; so what
//! was read and is not yet confirmed comes again with every read and is passed over here. The order of events is that
//! of their [`Place`]s. The slot may be advanced to the commit of the first transaction with an event that is not
//! published ([`Progress::safe`]): it passes over transactions whose commit's record lies *before* that position, and
//! no others.

use std::collections::VecDeque;

use crate::wal::lsn::Lsn;

/// Where an event is: the record of its transaction's commit, and inside the transaction its own record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Place {
    pub(crate) commit: Lsn,
    pub(crate) at: Lsn,
}

impl Place {
    /// The event's number for the relay: no two events have the same.
    pub(crate) fn id(self) -> i64 {
        self.at.0.cast_signed()
    }
}

/// How far one owner of a slot has come.
#[derive(Debug)]
pub(crate) struct Progress {
    /// The last event that was read.
    read: Place,
    /// The transaction that is being read.
    open: Option<Lsn>,
    /// Every transaction whose commit's record lies before it has been read.
    scanned: Lsn,
    /// Events read and not published, in their order.
    unpublished: VecDeque<Place>,
    /// The last event published.
    published: Place,
    /// Where the slot stands.
    confirmed: Lsn,
}

impl Progress {
    /// An owner that has read nothing of a slot which stands at `confirmed`.
    pub(crate) fn new(confirmed: Lsn) -> Self {
        let (read, published) = (Place::default(), Place::default());
        Self { read, open: None, scanned: confirmed, unpublished: VecDeque::new(), published, confirmed }
    }

    /// The slot answered that the transaction committed at `commit` begins.
    pub(crate) fn begin(&mut self, commit: Lsn) {
        self.open = Some(commit);
    }

    /// The slot answered a message of that transaction: its place if it is new; `None` if it was read before.
    pub(crate) fn message(&mut self, at: Lsn) -> Option<Place> {
        let place = Place { commit: self.open?, at };
        (place > self.read).then(|| {
            self.read = place;
            self.unpublished.push_back(place);
            place
        })
    }

    /// The slot answered a message of that transaction that is not to be published.
    pub(crate) fn pass(&mut self, at: Lsn) {
        if self.message(at).is_some() {
            self.unpublished.pop_back();
        }
    }

    /// The slot has no more to answer: every transaction whose commit's record lies before `scanned` has been read.
    pub(crate) fn scanned_to(&mut self, scanned: Lsn) {
        self.open = None;
        self.scanned = self.scanned.max(scanned);
    }

    /// Where the next read of the slot has to look from.
    pub(crate) fn scanned(&self) -> Lsn {
        self.scanned
    }

    /// Everything up to the event `id` is published. An event that was noted before, or is unknown, changes nothing.
    pub(crate) fn published(&mut self, id: i64) {
        if let Some(last) = self.unpublished.iter().position(|place| place.id() == id) {
            self.published = self.unpublished[last];
            self.unpublished.drain(..=last);
        }
    }

    /// Reading begins again behind the event `id`, or behind what is noted as published if `id` is not on its way.
    pub(crate) fn rewind(&mut self, id: i64) {
        let on_its_way = self.unpublished.iter().position(|place| place.id() == id).map_or(0, |last| last + 1);
        self.open = None;
        if on_its_way < self.unpublished.len() {
            self.unpublished.truncate(on_its_way);
            self.read = self.unpublished.back().copied().unwrap_or(self.published);
            self.scanned = self.scanned.min(self.read.commit.max(self.confirmed));
        }
    }

    /// How far the slot may be advanced: nothing before it is unread, or read and not published.
    pub(crate) fn safe(&self) -> Lsn {
        let read = self.open.map_or(self.scanned, |commit| commit.max(self.scanned));
        self.unpublished.front().map_or(read, |first| first.commit.min(read))
    }

    /// Whether nothing that was read is still to be published, but perhaps the message `at`.
    pub(crate) fn is_settled_but(&self, at: Lsn) -> bool {
        self.unpublished.iter().all(|place| place.at == at)
    }

    /// Whether nothing that was read is still to be published.
    pub(crate) fn is_settled(&self) -> bool {
        self.unpublished.is_empty()
    }

    /// Where the slot stands.
    pub(crate) fn confirmed(&self) -> Lsn {
        self.confirmed
    }

    /// The slot was advanced.
    pub(crate) fn confirm(&mut self, confirmed: Lsn) {
        self.confirmed = self.confirmed.max(confirmed);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A log: transactions in the order of their commits, each with the places of its messages.
    type Log = Vec<(Lsn, Vec<Lsn>)>;

    /// Transactions of up to four messages, whose records lie anywhere before their commits.
    fn any_log() -> impl Strategy<Value = Log> {
        proptest::collection::vec((0..5_usize, any::<u64>()), 1..20).prop_map(|transactions| {
            let mut ats = transactions.iter().enumerate().flat_map(|(number, (messages, salt))| {
                (0..*messages).map(move |message| (salt.rotate_left(u32::try_from(message).unwrap()) % 7, number))
            });
            // Messages of concurrent transactions lie mixed, those of one in their order.
            let mut places = vec![Vec::new(); transactions.len()];
            let mut next = 0;
            let mut mixed: Vec<_> = ats.by_ref().collect();
            mixed.sort_unstable();
            for (_, number) in mixed {
                next += 1;
                places[number].push(Lsn(next));
            }
            places
                .into_iter()
                .enumerate()
                .map(|(number, ats)| (Lsn(1_000 + 10 * u64::try_from(number).unwrap()), ats))
                .collect()
        })
    }

    fn all(log: &Log) -> Vec<Place> {
        log.iter().flat_map(|(commit, ats)| ats.iter().map(|&at| Place { commit: *commit, at })).collect()
    }

    #[derive(Debug, Clone)]
    enum Step {
        /// Reads the slot to the end of the log, or is cut after so many rows.
        Read(usize, bool),
        /// Publishes so many of what was read, and notes it.
        Publish(usize),
        /// Reads again from so many events back.
        Rewind(usize),
        /// Advances the slot.
        Advance,
        /// Another owner begins.
        Crash,
    }

    fn any_step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..40_usize, any::<bool>()).prop_map(|(rows, cut)| Step::Read(rows, cut)),
            (0..6_usize).prop_map(Step::Publish),
            (0..6_usize).prop_map(Step::Rewind),
            Just(Step::Advance),
            Just(Step::Crash),
        ]
    }

    /// The slot answers what is committed at `confirmed` or later.
    fn read(progress: &mut Progress, log: &Log, rows: usize, cut: bool, handed_out: &mut Vec<Place>) {
        let (mut left, confirmed) = (if cut { rows } else { usize::MAX }, progress.confirmed());
        for (commit, ats) in log.iter().filter(|(commit, _)| *commit >= confirmed) {
            if left == 0 {
                return;
            }
            left -= 1;
            progress.begin(*commit);
            for &at in ats {
                if left == 0 {
                    return;
                }
                left -= 1;
                handed_out.extend(progress.message(at));
            }
        }
        progress.scanned_to(Lsn(5_000));
    }

    proptest! {
        #[test]
        fn nothing_is_passed_over_doubled_or_turned_round(log in any_log(), steps in proptest::collection::vec(any_step(), 0..40)) {
            let events = all(&log);
            let mut progress = Progress::new(Lsn(1));
            // What this owner was given from `from` on, and how much of the log is published.
            let (mut from, mut handed_out, mut published) = (0, Vec::new(), 0);
            for step in steps {
                match step {
                    Step::Read(rows, cut) => {
                        // A cut read is followed by one from where the owner stands.
                        read(&mut progress, &log, rows, cut, &mut handed_out);
                        if cut {
                            progress.rewind(handed_out.last().map_or(0, |place| place.id()));
                        }
                        prop_assert_eq!(&handed_out[..], &events[from..from + handed_out.len()]);
                    }
                    Step::Publish(some) => {
                        let now = (published.max(from) + some).min(from + handed_out.len());
                        if now > published {
                            published = now;
                            progress.published(events[published - 1].id());
                        }
                    }
                    Step::Rewind(back) => {
                        let noted = published.saturating_sub(from);
                        let keep = handed_out.len().saturating_sub(back).max(noted.min(handed_out.len()));
                        handed_out.truncate(keep);
                        progress.rewind(handed_out.last().map_or(0, |place| place.id()));
                    }
                    Step::Advance => progress.confirm(progress.safe()),
                    Step::Crash => {
                        let confirmed = progress.confirmed();
                        from = events.iter().position(|place| place.commit >= confirmed).unwrap_or(events.len());
                        handed_out.clear();
                        progress = Progress::new(confirmed);
                        published = from;
                    }
                }
                if let Some(first) = events.get(published.max(from)) {
                    prop_assert!(progress.safe() <= first.commit, "{} lies behind {:?}", progress.safe(), first);
                }
            }
            read(&mut progress, &log, 0, false, &mut handed_out);
            prop_assert_eq!(&handed_out[..], &events[from..]);
        }
    }

    fn lsn(number: u64) -> Lsn {
        Lsn(number)
    }

    #[test]
    fn b15_the_slot_is_advanced_by_the_published_prefix_only() {
        let mut progress = Progress::new(lsn(5));
        for (commit, ats) in [(50, [10, 12]), (60, [11, 20])] {
            progress.begin(lsn(commit));
            for at in ats {
                progress.message(lsn(at)).unwrap();
            }
        }
        assert_eq!(progress.safe(), lsn(50), "nothing is published");
        progress.published(10);
        assert_eq!(progress.safe(), lsn(50), "one event of the first transaction is missing");
        progress.published(12);
        assert_eq!(progress.safe(), lsn(60), "the first transaction is published");
        progress.published(20);
        assert_eq!(progress.safe(), lsn(60), "the second may have more messages that were not read yet");
        progress.scanned_to(lsn(70));
        assert_eq!(progress.safe(), lsn(70));
    }

    #[test]
    fn a_log_without_messages_lets_the_slot_move() {
        let mut progress = Progress::new(lsn(5));
        progress.begin(lsn(50));
        progress.scanned_to(lsn(90));
        assert!(progress.is_settled());
        assert_eq!(progress.safe(), lsn(90));
    }
}
