//! Children can be killed, stopped and continued, and do not outlive their test.

use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::time::{Duration, Instant};

use leastlock_testkit::process::{Child, child_role, hear, speak};

const LIMIT: Duration = Duration::from_secs(30);

/// Long enough for a line that must *not* come; a slow machine can only make the check weaker, never fail it.
const SILENCE: Duration = Duration::from_millis(200);

#[test]
fn echo() {
    if !child_role("echo") {
        return;
    }
    speak(format!("ready {}", std::env::var("GREETING").unwrap_or_default()));
    while let Some(line) = hear() {
        speak(format!("heard {line}"));
    }
    speak("bye");
}

fn message_of(panicking: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(panicking)).expect_err("it panics");
    payload.downcast_ref::<String>().expect("a message").clone()
}

#[test]
fn child_speaks_hears_and_ends() {
    let mut child = Child::rerun("echo", &[("GREETING", "hello")]);
    assert_eq!(child.line_containing("ready", LIMIT), "ready hello");
    child.send_line("one");
    child.send_line("one");
    assert_eq!(child.wait_for_line(|line| line == "heard one", LIMIT), "heard one");
    assert_eq!(child.wait_for_line(|line| line == "heard one", LIMIT), "heard one", "the second of two equal lines");
    child.close_stdin();
    child.line_containing("bye", LIMIT);
    assert!(child.wait(LIMIT).success());
    assert_eq!(child.lines().iter().filter(|line| line.starts_with("heard")).count(), 2);
}

#[test]
fn stopped_child_does_nothing_until_it_is_resumed() {
    let mut child = Child::rerun("echo", &[]);
    child.line_containing("ready", LIMIT);
    child.stop();
    child.send_line("while stopped");
    let message = message_of(|| drop(child.line_containing("heard", SILENCE)));
    assert!(message.contains("not printed within"), "{message}");
    child.resume();
    child.line_containing("heard while stopped", LIMIT);
    child.stop();
    child.resume();
    child.send_line("again");
    child.line_containing("heard again", LIMIT);
}

#[test]
fn killed_child_is_gone_even_when_stopped() {
    let mut child = Child::rerun("echo", &[]);
    child.line_containing("ready", LIMIT);
    child.stop();
    assert_eq!(child.kill().signal(), Some(9));
    assert_eq!(child.kill().signal(), Some(9), "killing twice is harmless");
    let message = message_of(|| child.resume());
    assert!(message.contains("it ended with"), "{message}");
}

#[test]
fn terminated_child_ends_by_that_signal() {
    let mut child = Child::rerun("echo", &[]);
    child.line_containing("ready", LIMIT);
    child.terminate();
    assert_eq!(child.wait(LIMIT).signal(), Some(15));
}

#[test]
fn failed_wait_shows_all_that_was_printed() {
    let mut command = Command::new("sh");
    command.args(["-c", "echo first; echo complaint >&2; exec sleep 600"]);
    let mut child = Child::spawn(command);
    child.line_containing("first", LIMIT);
    // stderr has a reader of its own, so the complaint may come a moment later.
    let deadline = Instant::now() + LIMIT;
    loop {
        let message = message_of(|| drop(child.line_containing("second", SILENCE)));
        assert!(message.contains("\"second\"") && message.contains("first"), "{message}");
        if message.contains("complaint") {
            break;
        }
        assert!(Instant::now() < deadline, "{message}");
    }
}

#[test]
fn wait_fails_at_once_when_the_child_ends_without_the_line() {
    let mut command = Command::new("sh");
    command.args(["-c", "echo first"]);
    let mut child = Child::spawn(command);
    let message = message_of(|| drop(child.line_containing("second", Duration::from_hours(1))));
    assert!(message.contains("its output ended without it"), "{message}");
    assert!(child.wait(LIMIT).success());
}

#[test]
fn dropped_child_is_killed_even_when_stopped() {
    let mut child = Child::rerun("echo", &[]);
    child.line_containing("ready", LIMIT);
    child.stop();
    let id = child.id();
    drop(child);
    // Reaped, so the id is free: it is nobody's, or (having been given away again) not our child's.
    let status = Command::new("sh").args(["-c", &format!("kill -0 {id}")]).output().expect("sh runs").status;
    assert!(!status.success(), "process {id} is still there");
}

/// A parent that is killed itself, and so cannot end its child.
#[test]
fn parent() {
    if !child_role("parent") {
        return;
    }
    let mut child = Child::rerun("echo", &[]);
    child.line_containing("ready", LIMIT);
    child.stop();
    speak(format!("child {}", child.id()));
    let _ = hear();
}

#[cfg(target_os = "linux")]
#[test]
fn stopped_child_does_not_outlive_a_killed_parent() {
    let mut parent = Child::rerun("parent", &[]);
    let line = parent.line_containing("child ", LIMIT);
    let id = line.strip_prefix("child ").expect("the id");
    parent.kill();
    let deadline = Instant::now() + LIMIT;
    // Gone, or a zombie that the machine's init has not reaped yet.
    let is_running = || {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
    };
    while is_running() {
        assert!(Instant::now() < deadline, "process {id} is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
}
