//! A writer that dies by `kill -9`, or is stopped, at each step of its way: in a child process, whose destructors do not run.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use leastlock_testkit::process::{Child, child_role, hear, speak};

use super::place::{Place, Step};
use crate::owner_mark::OwnerMark;
use crate::record::Record;
use crate::token::FencingToken;

const WRITER: &str = "file::killed::writer";
const STEP: &str = "LEASTLOCK_TEST_STEP";
const WAY: &str = "LEASTLOCK_TEST_WAY";
const PATH: &str = "LEASTLOCK_TEST_PATH";
const LIMIT: Duration = Duration::from_secs(30);

/// Every step at which a process may die, and whether the new content stands there by then.
const STEPS: [(&str, bool); 9] = [
    ("seal: unsynced", false),
    ("seal: written", false),
    ("seal: renamed", false),
    ("seal: synced", false),
    ("publish: drafted", false),
    ("publish: written", false),
    ("publish: checked", false),
    ("publish: renamed", true),
    ("publish: synced", true),
];

/// How the child writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Right,
    /// The mistake: into the file itself.
    InPlace,
    /// The mistake: the lock is a file that is there.
    LockedByExistence,
    /// The mistake: compares and renames without a lock.
    WithoutLock,
}

/// Called at each step; a child that was started for it says so, and waits.
pub(super) fn reached(step: &str) {
    if std::env::var(STEP).is_ok_and(|wanted| wanted == step) {
        speak(step);
        let _ = hear();
    }
}

fn record(generation: i64) -> Record {
    let owner = OwnerMark::of(&generation.to_be_bytes());
    Record { generation: FencingToken::new(generation).unwrap(), owner, content: None }
}

/// What this generation writes: long enough to be cut.
fn content(generation: i64) -> String {
    format!("written by {generation}\n").repeat(1000)
}

fn write(place: &Place, generation: i64) -> Result<(), String> {
    let record = record(generation);
    done(place.seal(&record))?;
    let (mut file, mut draft) = place.draft(&record).unwrap().map_err(|refusal| refusal.to_string())?;
    file.write_all(content(generation).as_bytes()).unwrap();
    file.sync_all().unwrap();
    done(place.publish(draft.path(), &record))?;
    draft.is_gone();
    Ok(())
}

fn done(step: Result<Step<()>, crate::Error>) -> Result<(), String> {
    match step.unwrap() {
        Step::Done(()) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

fn lock_by_existence(path: &Path) -> bool {
    fs::OpenOptions::new().write(true).create_new(true).open(path.with_extension("exists")).is_ok()
}

/// The child: generation 2.
#[test]
fn writer() {
    if !child_role(WRITER) {
        return;
    }
    let path = std::env::var(PATH).unwrap();
    let place = Place::new(path.clone().into()).unwrap();
    let way = std::env::var(WAY).unwrap();
    if way == format!("{:?}", Way::Right) {
        write(&place, 2).unwrap();
    } else if way == format!("{:?}", Way::InPlace) {
        let mut file = fs::File::create(&path).unwrap();
        let content = content(2);
        let (half, rest) = content.split_at(content.len() / 2);
        file.write_all(half.as_bytes()).unwrap();
        reached("publish: written");
        file.write_all(rest.as_bytes()).unwrap();
    } else if way == format!("{:?}", Way::LockedByExistence) {
        assert!(lock_by_existence(Path::new(&path)));
        reached("publish: written");
    } else {
        done(place.seal(&record(2))).unwrap();
        assert_eq!(place.record().unwrap(), Some(record(2)));
        reached("publish: checked");
        fs::write(Path::new(&path).with_extension("late"), content(2)).unwrap();
        fs::rename(Path::new(&path).with_extension("late"), &path).unwrap();
    }
    speak("ended");
    // It ends when it is told to, so that its end is no step.
    let _ = hear();
}

/// A file that generation 1 has written, and a child of generation 2 that has come to `step`.
fn child_at(step: &str, way: Way) -> (tempfile::TempDir, Place, Child) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.csv");
    let place = Place::new(path.clone()).unwrap();
    write(&place, 1).unwrap();
    let path = path.to_str().unwrap();
    let mut child = Child::rerun(WRITER, &[(PATH, path), (STEP, step), (WAY, &format!("{way:?}"))]);
    child.line_containing(step, LIMIT);
    (folder, place, child)
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_writer_killed_at_any_step_leaves_a_whole_file_and_keeps_nobody_out() {
    for (step, has_written) in STEPS {
        let (folder, place, mut child) = child_at(step, Way::Right);
        child.kill();
        let left = fs::read_to_string(place.target()).unwrap();
        assert_eq!(left, content(1 + i64::from(has_written)), "{step}");
        let sealed = place.record().unwrap();
        assert!(sealed == Some(record(1)) || sealed == Some(record(2)), "{step}: {sealed:?}");
        // The same generation again, as the same acquisition would in a process that has begun anew; then a newer one.
        write(&place, 2).unwrap_or_else(|error| panic!("{step}: {error}"));
        write(&place, 3).unwrap_or_else(|error| panic!("{step}: {error}"));
        assert_eq!(fs::read_to_string(place.target()).unwrap(), content(3), "{step}");
        let left = names(folder.path());
        assert_eq!(left, [".report.csv.fence", ".report.csv.lock", "report.csv"], "{step}");
        assert!(write(&place, 2).is_err(), "{step}");
    }
}

#[test]
fn the_same_check_finds_what_is_half_written_and_a_lock_that_outlives_its_process() {
    let (_folder, place, mut child) = child_at("publish: written", Way::InPlace);
    child.kill();
    let left = fs::read_to_string(place.target()).unwrap();
    assert!(left != content(1) && left != content(2), "the double leaves half of it");

    let (_folder, place, mut child) = child_at("publish: written", Way::LockedByExistence);
    child.kill();
    assert!(!lock_by_existence(place.target()), "the double keeps everybody out");
}

#[test]
fn l3_a_writer_stopped_after_its_check_is_not_overtaken_by_a_seal() {
    let (_folder, place, mut child) = child_at("publish: checked", Way::Right);
    child.stop();
    assert_eq!(place.seal(&record(3)).unwrap(), Step::Locked, "it never goes on unsealed");
    child.resume();
    child.send_line("go on");
    child.line_containing("ended", LIMIT);
    write(&place, 3).unwrap();
    assert_eq!(fs::read_to_string(place.target()).unwrap(), content(3));

    let (_folder, place, mut child) = child_at("publish: checked", Way::WithoutLock);
    child.stop();
    write(&place, 3).unwrap();
    child.resume();
    child.send_line("go on");
    child.line_containing("ended", LIMIT);
    assert_eq!(fs::read_to_string(place.target()).unwrap(), content(2), "the double's late write comes through");
}

#[test]
fn l2_late_draft_is_refused_and_the_file_is_as_it_was() {
    let (_folder, place, mut child) = child_at("publish: written", Way::Right);
    child.stop();
    write(&place, 3).unwrap();
    child.resume();
    child.send_line("go on");
    // Its `unwrap` of the refusal.
    assert!(!child.wait(LIMIT).success());
    assert_eq!(fs::read_to_string(place.target()).unwrap(), content(3));
}
