//! The two ways in which a run ends badly.

use std::error::Error;
use std::fmt::Write;

/// Why a run did not end well.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Exit code 1: something that must hold does not.
    Breach(Vec<String>),
    /// Exit code 2: the arguments, the file or a server do not allow the run.
    Refused(String),
}

impl Ended {
    /// One clear line: what was tried, and the whole chain of causes.
    pub(crate) fn refused(doing: &str, error: &(dyn Error + 'static)) -> Self {
        let mut line = doing.to_owned();
        let mut cause = Some(error);
        while let Some(error) = cause {
            let text = error.to_string();
            // Many errors repeat their source's text at the end of their own.
            if !line.ends_with(&text) {
                // Writing to a string cannot fail.
                let _ = write!(line, ": {text}");
            }
            cause = error.source();
        }
        Self::Refused(line.replace('\n', " "))
    }
}
