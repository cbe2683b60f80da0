//! What happened, in the order in which it was recorded.
//!
//! A concurrent test records while it runs and judges afterwards, with one of the [`checkers`](crate::checkers): so the
//! judgement is a pure function with tests of its own, and a history that failed can be kept and looked at.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A recorder of events that any number of threads and tasks share; its clones record into the same history.
///
/// # Contract
/// An event whose [`record`](Self::record) returned before another's began stands before it. Events recorded at the same
/// time stand in either order, so a checker that looks at the order needs events that were recorded where something else
/// ordered them, such as inside the lane of a key or as they are read back from a log.
///
/// ```
/// use leastlock_testkit::history::History;
///
/// let history = History::new();
/// let recorder = history.clone();
/// std::thread::spawn(move || recorder.record(("a", 1))).join().unwrap();
/// history.record(("a", 2));
/// assert_eq!(history.events(), [("a", 1), ("a", 2)]);
/// ```
#[derive(Debug)]
pub struct History<T> {
    events: Arc<Mutex<Vec<T>>>,
}

impl<T> History<T> {
    /// A history in which nothing has happened.
    #[must_use]
    pub fn new() -> Self {
        Self { events: Arc::default() }
    }

    /// Adds an event at the end.
    pub fn record(&self, event: T) {
        self.lock().push(event);
    }

    /// How many events there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether nothing has happened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        // A thread that panicked elsewhere with the lock held cannot have left half an event.
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> History<T> {
    /// All events so far, first to last.
    #[must_use]
    pub fn events(&self) -> Vec<T> {
        self.lock().clone()
    }
}

impl<T: Serialize> History<T> {
    /// Writes the history to a file, an event as JSON on each line.
    ///
    /// # Errors
    /// What the file system says.
    pub fn save(&self, file: impl AsRef<Path>) -> std::io::Result<()> {
        let mut out = BufWriter::new(File::create(file)?);
        for event in self.lock().iter() {
            serde_json::to_writer(&mut out, event)?;
            out.write_all(b"\n")?;
        }
        out.flush()
    }
}

impl<T: DeserializeOwned> History<T> {
    /// Reads a history back.
    ///
    /// # Errors
    /// What the file system says, or the number of the line that is no such event.
    pub fn load(file: impl AsRef<Path>) -> std::io::Result<Self> {
        let mut events = Vec::new();
        for (index, line) in BufReader::new(File::open(file)?).lines().enumerate() {
            let event = serde_json::from_str(&line?);
            events.push(event.map_err(|error| std::io::Error::other(format!("line {}: {error}", index + 1)))?);
        }
        Ok(events.into())
    }
}

impl<T> From<Vec<T>> for History<T> {
    fn from(events: Vec<T>) -> Self {
        Self { events: Arc::new(Mutex::new(events)) }
    }
}

impl<T> Default for History<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for History<T> {
    fn clone(&self) -> Self {
        Self { events: Arc::clone(&self.events) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_thread_keep_their_order_among_those_of_others() {
        let history = History::new();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let recorder = history.clone();
                scope.spawn(move || (0..500).for_each(|n| recorder.record((thread, n))));
            }
        });
        assert_eq!(history.len(), 4000);
        for thread in 0..8 {
            let of_thread = history.events().into_iter().filter(|(by, _)| *by == thread).map(|(_, n)| n);
            assert!(of_thread.eq(0..500));
        }
    }

    #[test]
    fn saved_history_is_read_back_as_it_was() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("history.jsonl");
        let history = History::from(vec![("85123A".to_owned(), 1), ("a \"key\"\nwith a line".to_owned(), -2)]);
        history.save(&file).expect("the file is written");
        assert_eq!(History::<(String, i32)>::load(&file).expect("the file is read").events(), history.events());
    }

    #[test]
    fn line_that_is_no_event_is_named() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("history.jsonl");
        std::fs::write(&file, "1\n2\nthree\n").expect("the file is written");
        let error = History::<i32>::load(&file).expect_err("the third line is no number");
        assert!(error.to_string().starts_with("line 3: "), "{error}");
    }
}
