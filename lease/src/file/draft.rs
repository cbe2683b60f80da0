//! A version of a file that nobody sees yet.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{FencedFile, blocking};
use crate::error::Error;
use crate::permit::Permit;

/// A new version of a [`FencedFile`], to be written and [published](Self::publish). Dropped, it is removed, and the file is as it was.
///
/// Writing blocks; from async code do it by `spawn_blocking` (a draft can go there and come back), or use
/// [`FencedFile::write`]. Wrap it in a `BufWriter` for small pieces. It has the permissions of the file that it is to replace.
///
/// ```
/// # use std::time::Duration;
/// # use leastlock_lease::{FencedFile, Hold, Leases, LockName, SqlLeaseStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
/// # leastlock_lease::MIGRATIONS.run(&pool).await?;
/// # let leases = Leases::new(SqlLeaseStore::new(&pool));
/// # let folder = tempfile::tempdir()?;
/// # let lease = leases.acquire(&LockName::new("report:tenant-7")?, Hold::renewed(Duration::from_secs(30))).await?;
/// # let permit = lease.permit()?;
/// # let report = FencedFile::new(folder.path().join("report.csv"))?;
/// use std::io::Write;
///
/// report.seal(&permit).await?;
/// let draft = report.draft(&permit).await?;
/// let draft = tokio::task::spawn_blocking(move || {
///     let mut draft = draft;
///     writeln!(draft, "tenant,total")?;
///     Ok::<_, std::io::Error>(draft)
/// });
/// draft.await??.publish().await?;
/// # assert_eq!(std::fs::read_to_string(report.path())?, "tenant,total\n");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a draft that is dropped is removed"]
pub struct Draft {
    file: FencedFile,
    permit: Permit,
    content: File,
    temporary: Temporary,
}

impl Draft {
    pub(super) fn new(file: FencedFile, permit: Permit, content: File, temporary: Temporary) -> Self {
        Self { file, permit, content, temporary }
    }

    /// Makes it the file, if its generation is still the sealed one: syncs it, and then compares and renames under the lock.
    ///
    /// # Errors
    /// [`Error::Refused`] says why, and the file is as it was; [`Error::File`] and [`Error::Record`], after which the file may
    /// have been replaced only if the folder could not be synced.
    ///
    /// # Cancel safety
    /// Dropped, the file is as it was, or it is replaced a little later.
    pub async fn publish(self) -> Result<(), Error> {
        let Self { file, permit, content, mut temporary } = self;
        let synced = file.place.error("sync the draft of");
        blocking(move || content.sync_all().map_err(synced)).await?;
        file.publish(&permit, temporary.path().to_owned()).await?;
        temporary.is_gone();
        Ok(())
    }

    /// With `content` after what was written already.
    pub(super) fn with(mut self, content: &[u8]) -> Result<Self, Error> {
        let written = self.content.write_all(content);
        written.map_err(self.file.place.error("write the draft of"))?;
        Ok(self)
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.content.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.content.flush()
    }
}

/// A temporary file, which is removed with the value unless it is gone already.
#[derive(Debug)]
pub(super) struct Temporary {
    path: Option<PathBuf>,
}

impl Temporary {
    pub(super) const fn new(path: PathBuf) -> Self {
        Self { path: Some(path) }
    }

    pub(super) fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new(""))
    }

    pub(super) fn is_gone(&mut self) {
        self.path = None;
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // If it cannot be, the next seal of a newer generation tries again.
            let _ = std::fs::remove_file(path);
        }
    }
}
