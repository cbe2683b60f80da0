//! How far a run has come: one line that changes on a terminal, a line a turn elsewhere.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// The progress of a run.
#[derive(Debug, Clone)]
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
}

impl Progress {
    /// A run of so many turns, which takes about so long.
    pub(crate) fn begin(turns: u64, time: Duration) -> Self {
        eprintln!("{turns} turns, {} or more", in_words(time));
        let bar = ProgressBar::new(turns);
        // A template that does not parse leaves the default one.
        if let Ok(style) = ProgressStyle::with_template("[{pos}/{len}, {eta} left] {msg}") {
            bar.set_style(style);
        }
        Self { bar, started: Instant::now() }
    }

    /// A turn has ended and was verified.
    pub(crate) fn turn_ended(&self, what: &str) {
        self.bar.set_message(what.to_owned());
        self.bar.inc(1);
        if self.bar.is_hidden() {
            let (done, all) = (self.bar.position(), self.bar.length().unwrap_or_default());
            let left = self.left(done, all);
            eprintln!("[{done}/{all}, {} left] {what}", in_words(left));
        }
    }

    /// The run has ended.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
        eprintln!("took {}", in_words(self.started.elapsed()));
    }

    fn left(&self, done: u64, all: u64) -> Duration {
        let each = self.started.elapsed() / u32::try_from(done.max(1)).unwrap_or(u32::MAX);
        each.saturating_mul(u32::try_from(all.saturating_sub(done)).unwrap_or(u32::MAX))
    }
}

fn in_words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}
