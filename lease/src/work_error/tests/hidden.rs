//! Errors of applications, which show less than they hold. The codes are PostgreSQL's.

use super::*;

/// What an application makes of an error, and whether the outcome is known then.
fn foreign() -> Vec<(anyhow::Error, bool)> {
    let lost = || Error::Lost { name: lock(), reason: LossReason::Expired };
    let refused = || Error::Unconfirmed { name: lock() };
    vec![
        (cut().into(), false),
        (sqlx::Error::WorkerCrashed.into(), false),
        (sqlx::Error::Protocol("half of a message".into()).into(), false),
        (anyhow::Error::from(sqlx::Error::Protocol("half of a message".into())).context("the report"), false),
        (sqlx::Error::from(Ended("57P01")).into(), false),
        (anyhow::Error::from(sqlx::Error::from(Ended("57P01"))).context("the report"), false),
        (Shop::Books(sqlx::Error::WorkerCrashed).into(), false),
        (lost().into(), false),
        (anyhow::Error::from(lost()).context("the report"), false),
        (Shop::Lease(lost()).into(), false),
        (Error::Commit { source: cut() }.into(), false),
        (Error::Commit { source: sqlx::Error::WorkerCrashed }.into(), false),
        // In doubt.
        (anyhow::anyhow!("no such tenant"), false),
        (none().into(), false),
        (Shop::NoSuchTenant.into(), false),
        // What is shown decides.
        (anyhow::Error::from(none()).context("the report"), true),
        (sqlx::Error::from(Ended("23505")).into(), true),
        (anyhow::Error::from(refused()).context("the report"), true),
        (Error::Commit { source: sqlx::Error::from(Ended("23505")) }.into(), true),
    ]
}

/// An application's own errors, as they are most often made: the variant shows the sources of what it holds.
#[derive(Debug, thiserror::Error)]
enum Shop {
    #[error("no such tenant")]
    NoSuchTenant,
    #[error(transparent)]
    Books(sqlx::Error),
    #[error(transparent)]
    Lease(Error),
}

/// What PostgreSQL says.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Ended(&'static str);

impl DatabaseError for Ended {
    fn message(&self) -> &str {
        self.0
    }

    fn code(&self) -> Option<Cow<'_, str>> {
        Some(self.0.into())
    }

    fn as_error(&self) -> &(dyn StdError + Send + Sync + 'static) {
        self
    }

    fn as_error_mut(&mut self) -> &mut (dyn StdError + Send + Sync + 'static) {
        self
    }

    fn into_error(self: Box<Self>) -> Box<dyn StdError + Send + Sync + 'static> {
        self
    }

    fn kind(&self) -> sqlx::error::ErrorKind {
        sqlx::error::ErrorKind::Other
    }
}

fn misjudged_foreign(judge: impl Fn(anyhow::Error) -> WorkError) -> Vec<String> {
    let wrong = |(error, known)| {
        let judged = judge(error);
        (judged.is_known() != known).then(|| format!("{judged:?}"))
    };
    foreign().into_iter().filter_map(wrong).collect()
}

#[test]
fn l22_what_an_error_hides_is_unknown() {
    assert_eq!(misjudged_foreign(WorkError::from), [""; 0]);
    // The double looks for what is unknown, and takes what it does not see for known.
    let by_what_it_sees = |error: anyhow::Error| {
        let boxed: Box<dyn StdError + Send + Sync> = error.into();
        let mut link: Option<&(dyn StdError + 'static)> = Some(boxed.as_ref());
        let mut sees = false;
        while let Some(error) = link {
            sees |= outcome(error) == Outcome::Unknown;
            link = error.source();
        }
        if sees { WorkError::unknown(boxed) } else { WorkError::known(boxed) }
    };
    assert!(misjudged_foreign(by_what_it_sees).len() > 5);
}
