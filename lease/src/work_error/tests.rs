#[cfg(feature = "postgres")]
mod hidden;

use std::io::ErrorKind;
use std::time::Duration;

use super::*;
use crate::fence::Refusal;
use crate::lock_name::LockName;
use crate::once::Done;
use crate::state::LossReason;
use crate::store::{Holder, StoreError};
use crate::token::{FencingToken, OwnerHash};

fn cut() -> sqlx::Error {
    sqlx::Error::Io(ErrorKind::ConnectionReset.into())
}

fn none() -> sqlx::Error {
    sqlx::Error::RowNotFound
}

fn lock() -> LockName {
    LockName::new("report:tenant-7").unwrap()
}

/// Every error of this crate, and whether the outcome of the work that it ends is known.
fn own() -> Vec<(Error, bool)> {
    let (name, one, fault) = (lock(), FencingToken::new(1).unwrap(), "a rule");
    let holder = Holder::new(OwnerHash::of(&[1; 16]), Duration::ZERO, Duration::ZERO);
    let done = Done { owner: OwnerHash::of(&[1; 16]), took: Duration::ZERO, age: Duration::ZERO };
    let (waited, blockers) = (Duration::ZERO, Vec::new());
    let path = || std::path::Path::new("report.csv").into();
    vec![
        (Error::LockName { given: "".into(), fault }, true),
        (Error::Resource { given: "".into(), fault }, true),
        (Error::Hold { fault }, true),
        (Error::Nodes { fault }, true),
        (Error::Approval { fault }, true),
        (Error::Table { fault }, true),
        (Error::Randomness { source: getrandom::Error::UNSUPPORTED }, true),
        (Error::Held { name: name.clone(), holder }, true),
        (Error::TokenBelowFloor { name: name.clone(), token: one, floor: one }, true),
        (Error::Unconfirmed { name: name.clone() }, true),
        (Error::Refused { resource: "r".into(), generation: one, refusal: Refusal::NotSealed }, true),
        (Error::Savepoint { resource: "r".into() }, true),
        (Error::SealTimeout { resource: "r".into(), waited, blockers }, true),
        (Error::Database { operation: "check the permit", retryable: true, source: cut() }, true),
        (Error::PeriodDone { name: name.clone(), done }, true),
        (Error::Write { operation: "write a fenced row", retryable: true, source: cut() }, false),
        (Error::Write { operation: "write a fenced row", retryable: false, source: none() }, true),
        (Error::Commit { source: cut() }, false),
        (Error::Commit { source: sqlx::Error::WorkerCrashed }, false),
        (Error::Commit { source: none() }, true),
        (Error::Work { known: false, source: "the mail may have gone out".into() }, false),
        (Error::Work { known: true, source: cut().into() }, true),
        (Error::Lost { name: name.clone(), reason: LossReason::Expired }, false),
        (Error::Cancelled { name: name.clone() }, false),
        (Error::OtherTurn { name: name.clone() }, false),
        (Error::File { operation: "sync", path: path(), retryable: false, source: ErrorKind::Other.into() }, false),
        (Error::ObjectStore { operation: "publish", retryable: true, source: "no answer".into() }, false),
        (Error::Record { resource: "r".into() }, false),
        (Error::Unanswered { name: name.clone(), attempts: 1, source: None }, false),
        (Error::Store { name, source: StoreError::permanent("no") }, false),
    ]
}

/// Those that are judged wrongly.
fn misjudged(judge: impl Fn(Error) -> WorkError) -> Vec<String> {
    let wrong = |(error, known)| {
        let judged = judge(error);
        (judged.is_known() != known).then(|| format!("{judged:?}"))
    };
    own().into_iter().filter_map(wrong).collect()
}

#[test]
fn l22_each_error_of_this_crate_is_judged_by_what_it_leaves_unknown() {
    assert_eq!(misjudged(WorkError::from), [""; 0]);
    // The doubles: whatever is this crate's own is known, whatever its source says, and whatever fails is unknown.
    assert_eq!(misjudged(WorkError::known).len(), own().iter().filter(|(_, known)| !known).count());
    let by_its_chain = |error: Error| {
        let mut link = error.source();
        let is_cut = std::iter::from_fn(|| {
            let error = link?;
            link = error.source();
            Some(error.is::<std::io::Error>())
        });
        if is_cut.into_iter().any(|is_cut| is_cut) { WorkError::unknown(error) } else { WorkError::known(error) }
    };
    assert!(!misjudged(by_its_chain).is_empty());
}

#[test]
fn text_says_what_it_says() {
    assert!(WorkError::from("no such tenant").is_known());
    assert!(WorkError::from("no such tenant".to_owned()).is_known());
    let boxed: Box<dyn StdError + Send + Sync> = "no such tenant".into();
    assert!(!WorkError::from(boxed).is_known(), "in a box it could be anything");
}

#[test]
fn an_error_of_this_crate_comes_through_unless_its_author_knows_that_it_tells_too_little() {
    let name = lock();
    assert!(matches!(WorkError::from(Error::Unconfirmed { name }).into_error(), Error::Unconfirmed { .. }));
    assert!(matches!(WorkError::unknown(Error::Cancelled { name: lock() }).into_error(), Error::Cancelled { .. }));
    let told = WorkError::unknown(Error::Unconfirmed { name: lock() }).into_error();
    let Error::Work { known: false, source } = told else { panic!("{told:?}") };
    assert!(source.is::<Error>());
}
