//! What was called, and what was answered: a line each, in a file for each process.
//!
//! A line is written with one `write` to a file opened for appending, so a process that is killed loses none that it had written.
//! Times are the machine's monotonic clock, which all processes share. A call without an answer is unknown, never failed.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The extension of the files.
const EXTENSION: &str = "jsonl";
/// So much of a file has a success in it, if there was one lately.
const TAIL_BYTES: u64 = 32 * 1024;

/// Time since an arbitrary moment that is the same for all processes of the machine.
pub(crate) fn now() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
}

/// A line of a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Line {
    at_ns: u64,
    /// Process and incarnation.
    by: String,
    /// Which call of the process it is about.
    call: u64,
    /// What was done.
    op: String,
    #[serde(flatten)]
    what: What,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum What {
    Called(Value),
    Answered { ok: bool, value: Value },
    Noted(Value),
}

/// Writes down what a process does; its clones write into the same file.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    file: Arc<File>,
    by: Arc<str>,
    calls: Arc<AtomicU64>,
}

impl Recorder {
    /// A recorder of the process `by`, into a file of its own in `folder`.
    pub(crate) fn create(folder: &Path, by: &str) -> anyhow::Result<Self> {
        let path = folder.join(by).with_extension(EXTENSION);
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.with_context(|| path.display().to_string())?;
        Ok(Self { file: Arc::new(file), by: by.into(), calls: Arc::default() })
    }

    /// Writes that `op` is about to be called. Before the call.
    pub(crate) fn call(&self, op: &'static str, call: &impl Serialize) -> Pending {
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        self.write(number, op, What::Called(value(call)));
        Pending { recorder: self.clone(), number, op }
    }

    /// Writes something that has happened and is no call.
    pub(crate) fn note(&self, op: &'static str, note: &impl Serialize) {
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        self.write(number, op, What::Noted(value(note)));
    }

    fn write(&self, call: u64, op: &str, what: What) {
        let at_ns = u64::try_from(now().as_nanos()).unwrap_or(u64::MAX);
        let line = Line { at_ns, by: self.by.to_string(), call, op: op.to_owned(), what };
        let mut bytes = serde_json::to_vec(&line).expect("it is plain data");
        bytes.push(b'\n');
        (&*self.file).write_all(&bytes).expect("the history can be written");
    }
}

fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).expect("it is plain data")
}

/// A call that is under way. Dropped, its answer is unknown.
#[derive(Debug)]
#[must_use = "a call without an answer is unknown"]
pub(crate) struct Pending {
    recorder: Recorder,
    number: u64,
    op: &'static str,
}

impl Pending {
    /// Writes a definite answer that says that it was done.
    pub(crate) fn done(self, answer: &impl Serialize) {
        self.answered(true, answer);
    }

    /// Writes a definite answer that says that it was not done.
    pub(crate) fn refused(self, answer: &impl Serialize) {
        self.answered(false, answer);
    }

    fn answered(self, ok: bool, answer: &impl Serialize) {
        self.recorder.write(self.number, self.op, What::Answered { ok, value: value(answer) });
    }
}

/// A call, and its answer if there was one.
#[derive(Debug, Clone)]
#[expect(clippy::struct_field_names, reason = "what was called is what a call is about")]
pub(crate) struct Call<C, A> {
    /// Process and incarnation.
    pub(crate) by: String,
    pub(crate) at: Duration,
    pub(crate) call: C,
    pub(crate) answer: Option<Answer<A>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Answer<A> {
    pub(crate) at: Duration,
    pub(crate) ok: bool,
    pub(crate) value: A,
}

impl<C, A> Call<C, A> {
    /// The answer that says that it was done.
    pub(crate) fn done(&self) -> Option<&A> {
        self.answer.as_ref().filter(|answer| answer.ok).map(|answer| &answer.value)
    }
}

/// Something that was noted.
#[derive(Debug, Clone)]
#[expect(clippy::struct_field_names, reason = "what was noted is what a note is about")]
pub(crate) struct Note<T> {
    pub(crate) by: String,
    pub(crate) at: Duration,
    pub(crate) note: T,
}

/// The histories of all processes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Journal {
    lines: Vec<Line>,
}

impl Journal {
    /// Reads what the processes have written so far, in the order of time.
    pub(crate) fn load(folder: &Path) -> anyhow::Result<Self> {
        let mut lines = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != EXTENSION) {
                continue;
            }
            let mut file = BufReader::new(File::open(&path)?);
            let mut text = String::new();
            // What has no end of line yet is being written.
            while file.read_line(&mut text)? > 0 && text.ends_with('\n') {
                lines.push(serde_json::from_str(&text).with_context(|| format!("{}: {text}", path.display()))?);
                text.clear();
            }
        }
        lines.sort_by_key(|line: &Line| line.at_ns);
        Ok(Self { lines })
    }

    /// Which process had the last success.
    pub(crate) fn latest(folder: &Path) -> anyhow::Result<Option<String>> {
        let mut latest: Option<(u64, String)> = None;
        for entry in std::fs::read_dir(folder)? {
            let mut file = File::open(entry?.path())?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
            // The first line may have lost its beginning, and the last its end: neither is one then.
            let lines = BufReader::new(file).lines().map_while(Result::ok);
            let lines = lines.filter_map(|line| serde_json::from_str::<Line>(&line).ok());
            let is_success = |line: &Line| matches!(line.what, What::Answered { ok: true, .. });
            let last = lines.filter(is_success).last().map(|line| (line.at_ns, line.by));
            latest = latest.max(last);
        }
        Ok(latest.map(|(_, by)| by))
    }

    /// The calls of `op`, in the order in which they were made.
    pub(crate) fn calls<C: DeserializeOwned, A: DeserializeOwned>(&self, op: &str) -> anyhow::Result<Vec<Call<C, A>>> {
        let mut calls = Vec::new();
        let mut open = std::collections::HashMap::new();
        for line in self.lines.iter().filter(|line| line.op == op) {
            let at = Duration::from_nanos(line.at_ns);
            match &line.what {
                What::Called(call) => {
                    open.insert((line.by.as_str(), line.call), calls.len());
                    let call = C::deserialize(call)?;
                    calls.push(Call { by: line.by.clone(), at, call, answer: None });
                }
                What::Answered { ok, value } => {
                    let call = open.get(&(line.by.as_str(), line.call)).context("an answer comes after its call")?;
                    let call: &mut Call<C, A> = &mut calls[*call];
                    call.answer = Some(Answer { at, ok: *ok, value: A::deserialize(value)? });
                }
                What::Noted(_) => {}
            }
        }
        Ok(calls)
    }

    /// What was noted as `op`, in the order of time.
    pub(crate) fn notes<T: DeserializeOwned>(&self, op: &str) -> anyhow::Result<Vec<Note<T>>> {
        let mut notes = Vec::new();
        for line in self.lines.iter().filter(|line| line.op == op) {
            if let What::Noted(note) = &line.what {
                let at = Duration::from_nanos(line.at_ns);
                notes.push(Note { by: line.by.clone(), at, note: T::deserialize(note)? });
            }
        }
        Ok(notes)
    }

    /// When each call that was done began, and when it was answered; in the order of answers.
    pub(crate) fn successes(&self) -> Vec<Success> {
        let mut called = std::collections::HashMap::new();
        let mut successes = Vec::new();
        for line in &self.lines {
            let at = Duration::from_nanos(line.at_ns);
            match &line.what {
                What::Called(_) => drop(called.insert((line.by.as_str(), line.call), at)),
                What::Answered { ok: true, .. } => {
                    let began = called.get(&(line.by.as_str(), line.call)).copied().unwrap_or(at);
                    successes.push(Success { by: line.by.clone(), began, at });
                }
                What::Answered { .. } | What::Noted(_) => {}
            }
        }
        successes
    }

    /// How many calls were made, were answered as done, as refused, and not at all.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for line in &self.lines {
            match &line.what {
                What::Called(_) => counts.calls += 1,
                What::Answered { ok: true, .. } => counts.done += 1,
                What::Answered { ok: false, .. } => counts.refused += 1,
                What::Noted(_) => {}
            }
        }
        counts
    }
}

/// A call that was answered as done.
#[derive(Debug, Clone)]
pub(crate) struct Success {
    pub(crate) by: String,
    pub(crate) began: Duration,
    pub(crate) at: Duration,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Counts {
    pub(crate) calls: u64,
    pub(crate) done: u64,
    pub(crate) refused: u64,
}

impl Counts {
    /// Nobody knows what became of them.
    pub(crate) fn unknown(&self) -> u64 {
        self.calls - self.done - self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_meet_their_answers_and_one_without_is_unknown() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["client-1-0", "client-2-0"].map(|by| Recorder::create(folder.path(), by).unwrap());
        let first = one.call("put", &1);
        let unknown = other.call("put", &2);
        first.done(&"yes");
        drop(unknown);
        other.call("put", &3).refused(&"no");
        other.note("seen", &4);
        let journal = Journal::load(folder.path()).unwrap();
        let calls = journal.calls::<i64, String>("put").unwrap();
        let answers: Vec<_> =
            calls.iter().map(|call| (call.call, call.answer.as_ref().map(|answer| answer.ok))).collect();
        assert_eq!(answers, [(1, Some(true)), (2, None), (3, Some(false))]);
        assert_eq!(calls[0].done().map(String::as_str), Some("yes"));
        assert_eq!(journal.notes::<i64>("seen").unwrap()[0].note, 4);
        let counts = journal.counts();
        assert_eq!((counts.calls, counts.done, counts.refused, counts.unknown()), (3, 1, 1, 1));
        assert_eq!(Journal::latest(folder.path()).unwrap().as_deref(), Some("client-1-0"));
    }

    #[test]
    fn a_line_that_is_being_written_is_not_read_yet() {
        let folder = tempfile::tempdir().unwrap();
        Recorder::create(folder.path(), "a-0-0").unwrap().call("put", &1).done(&());
        let path = folder.path().join("a-0-0.jsonl");
        let mut file = OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(b"{\"at_ns\":7,\"by\":\"a-0").unwrap();
        assert_eq!(Journal::load(folder.path()).unwrap().counts().calls, 1);
    }
}
