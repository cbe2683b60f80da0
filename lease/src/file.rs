//! A file as a protected resource: replaced as a whole, by the newest holder only.

mod draft;
#[cfg(all(test, unix))]
mod killed;
mod place;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use self::place::{Place, Step};
use crate::error::Error;
use crate::event;
use crate::fence::Refusal;
use crate::permit::Permit;
use crate::record::Record;
use crate::token::FencingToken;

pub use self::draft::Draft;

/// A file that only the newest holder of a lease can replace.
///
/// What holds: once a generation is [sealed](Self::seal), nothing that an older one has not published yet ever comes to stand at
/// the path; two owners of one number are told apart. Whoever reads the path finds one version or another, never half of one,
/// also after `kill -9` of a writer at any point or a power failure. What was published is on the disk (the content is synced
/// before it is renamed, the folder after it).
///
/// How: content goes to a temporary file, which is synced. Then, under a lock on a file beside it, the sealed generation is
/// compared and the temporary file is renamed; a seal takes the same lock, so that none can come between the two. The kernel ends
/// the lock of a process that dies.
///
/// Beside `report.csv` there are `.report.csv.fence`, a record with the sealed generation and a mark of its owner (three lines of
/// text; no nonce), `.report.csv.lock`, which is empty and never removed, and, while somebody writes, drafts. What a dead
/// holder left of drafts is removed when a newer one seals.
///
/// What does not hold: a late holder's draft is *not* refused while the new holder has not sealed; therefore seal first. Whoever
/// writes to the path without it is stopped by nothing. A permit publishes any number of times. A process that is stopped in the
/// moment in which it holds the lock keeps the next holder from sealing until it goes on or dies. The locks (`flock`) must reach
/// all writers: on a network file system they may not. Unix only, in so far as folders are synced.
///
/// | limit | default |
/// |---|---|
/// | wait of a seal for the lock | twice the lease's TTL |
/// | wait of a publication for the lock | the same, and no longer than the lease |
///
/// ```
/// use std::time::Duration;
/// use leastlock_lease::{FencedFile, Hold, Leases, LockName, SqlLeaseStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
/// # leastlock_lease::MIGRATIONS.run(&pool).await?;
/// # let leases = Leases::new(SqlLeaseStore::new(&pool));
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("report.csv");
/// let report = FencedFile::new(&path)?;
/// let lease = leases.acquire(&LockName::new("report:tenant-7")?, Hold::renewed(Duration::from_secs(30))).await?;
/// lease.run(async |scope| {
///     let permit = scope.permit()?;
///     report.seal(&permit).await?;                                   // from here on, older holders are refused
///     Ok(report.write(&permit, "tenant,total\n7,120\n").await?)
/// }).await?;
/// assert_eq!(std::fs::read_to_string(&path)?, "tenant,total\n7,120\n");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct FencedFile {
    place: Place,
    seal_limit: Option<Duration>,
}

impl FencedFile {
    /// The longest name of a file, in bytes: names beside it need some room.
    pub const MAX_NAME_BYTES: usize = 160;

    /// The file at `path`, which need not be there yet; its folder must. All who write must use the same path: a link to the
    /// file is replaced, not followed.
    ///
    /// # Errors
    /// [`Error::Resource`] says what is wrong with its name.
    pub fn new(path: impl Into<PathBuf>) -> Result<Self, Error> {
        Ok(Self { place: Place::new(path.into())?, seal_limit: None })
    }

    /// How long a seal or a publication waits for the lock.
    #[must_use]
    pub const fn seal_limit(mut self, seal_limit: Duration) -> Self {
        self.seal_limit = Some(seal_limit);
        self
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.place.target()
    }

    /// The newest generation that was sealed. As a [floor](crate::Acquire::floor) it keeps a restored lock store from
    /// issuing a token that the file has seen.
    ///
    /// # Errors
    /// [`Error::File`]; [`Error::Record`] if what stands there is no record.
    ///
    /// # Cancel safety
    /// Safe: it changes nothing.
    pub async fn generation(&self) -> Result<Option<FencingToken>, Error> {
        let place = self.place.clone();
        Ok(blocking(move || place.record()).await?.map(|record| record.generation))
    }

    /// Registers the permit's generation: the new holder's first act, before it reads what it will replace. When it returns,
    /// the registration is on the disk. Doing it again with the same lease changes nothing.
    ///
    /// # Errors
    /// [`Error::Refused`] if a newer generation, or another owner of the same number, is there already;
    /// [`Error::SealTimeout`] after the limit; [`Error::Lost`] if the lease ends meanwhile; [`Error::File`], [`Error::Record`].
    ///
    /// # Cancel safety
    /// Dropped, it may be sealed a little later. Seal again.
    pub async fn seal(&self, permit: &Permit) -> Result<(), Error> {
        let begun = Instant::now();
        let (place, newcomer) = (self.place.clone(), Record::of(permit, None));
        let standing = || permit.held().standing().map(drop);
        match self.patiently(permit, standing, move || place.seal(&newcomer)).await? {
            Some(()) => Ok(()),
            None => Err(Error::SealTimeout {
                resource: self.place.name().into(),
                waited: begun.elapsed(),
                blockers: Vec::new(),
            }),
        }
    }

    /// Begins a new version of the file, which nobody sees until it is [published](Draft::publish).
    ///
    /// # Errors
    /// [`Error::Refused`] if it would be refused already; [`Error::File`], [`Error::Record`].
    ///
    /// # Cancel safety
    /// Dropped, an empty draft may stay beside the file, until a newer generation seals.
    pub async fn draft(&self, permit: &Permit) -> Result<Draft, Error> {
        self.stands(permit)?;
        let (place, writer) = (self.place.clone(), Record::of(permit, None));
        match blocking(move || place.draft(&writer)).await? {
            Ok((content, temporary)) => Ok(Draft::new(self.clone(), permit.again(), content, temporary)),
            Err(refusal) => Err(self.refused(permit, refusal)),
        }
    }

    /// Replaces the file by `content`: a [draft](Self::draft) of it, published.
    ///
    /// # Errors
    /// [`Error::Refused`] says why, and the file is as it was; [`Error::File`], [`Error::Record`].
    ///
    /// # Cancel safety
    /// Dropped, the file is as it was, or it is replaced a little later.
    pub async fn write(&self, permit: &Permit, content: impl Into<Vec<u8>>) -> Result<(), Error> {
        let (draft, content) = (self.draft(permit).await?, content.into());
        blocking(move || draft.with(&content)).await?.publish().await
    }

    /// Compares and renames under the lock.
    async fn publish(&self, permit: &Permit, draft: PathBuf) -> Result<(), Error> {
        let (place, writer) = (self.place.clone(), Record::of(permit, None));
        match self.patiently(permit, || self.stands(permit), move || place.publish(&draft, &writer)).await? {
            Some(()) => Ok(()),
            None => Err(self.place.error("lock")(std::io::ErrorKind::TimedOut.into())),
        }
    }

    fn stands(&self, permit: &Permit) -> Result<(), Error> {
        permit.refusal_if_lost().map_or(Ok(()), |refusal| Err(self.refused(permit, refusal)))
    }

    /// Makes attempts until one of them has had the lock; `None` if none had within the limit.
    async fn patiently<T: Send + 'static>(
        &self,
        permit: &Permit,
        standing: impl Fn() -> Result<(), Error>,
        attempt: impl Fn() -> Result<Step<T>, Error> + Clone + Send + 'static,
    ) -> Result<Option<T>, Error> {
        const LONGEST_PAUSE: Duration = Duration::from_millis(50);
        let limit = self.seal_limit.unwrap_or(permit.held().hold().ttl().saturating_mul(2));
        let (begun, mut pause) = (Instant::now(), Duration::from_millis(1));
        loop {
            standing()?;
            match blocking(attempt.clone()).await? {
                Step::Done(done) => return Ok(Some(done)),
                Step::Refused(refusal) => return Err(self.refused(permit, refusal)),
                Step::Locked if begun.elapsed() >= limit => return Ok(None),
                Step::Locked => sleep(pause).await,
            }
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    fn refused(&self, permit: &Permit, refusal: Refusal) -> Error {
        event::refused(permit, self.place.name(), refusal);
        Error::Refused { resource: self.place.name().into(), generation: permit.token(), refusal }
    }
}

/// Runs what blocks where that is allowed.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down.
            Err(ended) => Err(Error::File {
                operation: "begin",
                path: PathBuf::new().into(),
                retryable: false,
                source: std::io::Error::other(ended),
            }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_needs_a_name_that_leaves_room() {
        assert!(FencedFile::new("report.csv").is_ok());
        assert_eq!(FencedFile::new("/tmp/report.csv").unwrap().path(), Path::new("/tmp/report.csv"));
        for wrong in ["", "/", "..", "folder/..", &"x".repeat(161)] {
            assert!(FencedFile::new(wrong).is_err(), "{wrong}");
        }
    }
}
