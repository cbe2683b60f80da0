//! What a child has printed, shared between the threads that read its pipes and the test that waits.

use std::fmt::{Display, Formatter};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug, Clone)]
pub(super) struct Transcript {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    printed: Mutex<Printed>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct Printed {
    stdout: Vec<String>,
    stderr: Vec<String>,
    /// How many lines of stdout a wait has passed.
    passed: usize,
    ended: bool,
}

impl Transcript {
    pub(super) fn new() -> Self {
        Self { shared: Arc::new(Shared { printed: Mutex::default(), more: Condvar::new() }) }
    }

    pub(super) fn spoken(&self, line: String) {
        self.printed().stdout.push(line);
        self.shared.more.notify_all();
    }

    pub(super) fn complaint(&self, line: String) {
        self.printed().stderr.push(line);
    }

    /// There will be no more lines on stdout.
    pub(super) fn end(&self) {
        self.printed().ended = true;
        self.shared.more.notify_all();
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.printed().stdout.clone()
    }

    /// The next line for which `wanted` holds; it and those before it are passed. Without one the cursor stays.
    pub(super) fn next(&self, wanted: impl Fn(&str) -> bool, limit: Duration) -> Result<String, String> {
        let deadline = Instant::now() + limit;
        let mut printed = self.printed();
        let mut seen = printed.passed;
        loop {
            if let Some(offset) = printed.stdout[seen..].iter().position(|line| wanted(line)) {
                printed.passed = seen + offset + 1;
                return Ok(printed.stdout[seen + offset].clone());
            }
            seen = printed.stdout.len();
            if printed.ended {
                return Err("its output ended without it".to_owned());
            }
            let now = Instant::now();
            if now >= deadline {
                return Err(format!("not printed within {limit:?}"));
            }
            let woken = self.shared.more.wait_timeout(printed, deadline - now);
            printed = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn printed(&self) -> MutexGuard<'_, Printed> {
        // A predicate that panicked leaves the lines whole.
        self.shared.printed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Display for Transcript {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        let printed = self.printed();
        for (name, lines) in [("stdout", &printed.stdout), ("stderr", &printed.stderr)] {
            writeln!(formatter, "--- {name}, {} lines", lines.len())?;
            for line in lines {
                writeln!(formatter, "{line}")?;
            }
        }
        Ok(())
    }
}
