//! The two ways in which a run ends badly.

use std::error::Error;
use std::fmt::Write;
use std::process::ExitCode;

/// Why a run did not end well.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Exit code 1: something that must hold does not.
    Breach(Vec<String>),
    /// Exit code 2: the arguments, the file or a server do not allow the run.
    Refused(String),
}

impl Ended {
    /// Says how the run ended, and with which code the process ends.
    pub(crate) fn exit_code(ended: Result<(), Self>) -> ExitCode {
        match ended {
            Ok(()) => ExitCode::SUCCESS,
            Err(Self::Breach(breaches)) => {
                for breach in breaches {
                    eprintln!("breach: {breach}");
                }
                ExitCode::from(1)
            }
            Err(Self::Refused(reason)) => {
                eprintln!("error: {reason}");
                ExitCode::from(2)
            }
        }
    }

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
