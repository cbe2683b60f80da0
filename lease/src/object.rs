//! An object of an object store as a protected resource (feature `object-store`).

mod manifest;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutPayload};
use tokio::time::{Instant, sleep};

use self::manifest::{Found, failed_to, is_conflict};
use crate::error::Error;
use crate::event;
use crate::fence::Refusal;
use crate::permit::Permit;
use crate::record::Record;
use crate::token::FencingToken;

/// An object that only the newest holder of a lease can replace.
///
/// What holds: once a generation is [sealed](Self::seal), nothing that an older one has not published yet is ever read at the
/// path; two owners of one number are told apart. A reader gets one version or another, whole.
///
/// How: an object store has no locks, but it can replace an object on condition that it is still the version that was read. So the
/// content goes to an object with a name of its own, and a small manifest says which of them it is, and which generation
/// is sealed. Both a seal and a publication replace the manifest, each on the condition that it is the one it has judged.
///
/// Below the path there are `manifest` (text: generation, a mark of the owner which is not its nonce, name of the content) and
/// the contents. A content that was replaced is deleted. What a dead holder left is deleted when a newer one seals.
///
/// The store must have conditional puts: S3, Google Cloud Storage, Azure and `InMemory` have, `LocalFileSystem` has not (use
/// [`FencedFile`](crate::FencedFile)).
///
/// What does not hold: a late holder is *not* refused while the new one has not sealed; therefore seal first. Whoever writes the
/// manifest without this is stopped by nothing. A permit publishes any number of times.
///
/// | limit | default |
/// |---|---|
/// | attempts of a seal or a publication, each of which lost against another one | as many as fit into twice the lease's TTL |
/// | looks of a reader whose content was replaced meanwhile | 5 |
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use leastlock_lease::{FencedObject, Hold, Leases, LockName, SqlLeaseStore};
/// use object_store::memory::InMemory;
///
/// # #[cfg(feature = "sqlite")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
/// # leastlock_lease::MIGRATIONS.run(&pool).await?;
/// # let leases = Leases::new(SqlLeaseStore::new(&pool));
/// let report = FencedObject::new(Arc::new(InMemory::new()), "reports/tenant-7")?;
/// let lease = leases.acquire(&LockName::new("report:tenant-7")?, Hold::renewed(Duration::from_secs(30))).await?;
/// lease.run(async |scope| {
///     let permit = scope.permit()?;
///     report.seal(&permit).await?;                                   // from here on, older holders are refused
///     Ok(report.publish(&permit, "tenant,total\n7,120\n").await?)
/// }).await?;
/// assert_eq!(report.read().await?.as_deref(), Some(&b"tenant,total\n7,120\n"[..]));
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "sqlite"))]
/// # fn main() {}
/// ```
#[derive(Clone)]
pub struct FencedObject {
    store: Arc<dyn ObjectStore>,
    path: Path,
    seal_limit: Option<Duration>,
}

impl FencedObject {
    const READS: u32 = 5;

    /// The object at `path` of this store. All who write must use the same.
    ///
    /// # Errors
    /// [`Error::Resource`] if it is no path of an object.
    pub fn new(store: Arc<dyn ObjectStore>, path: impl AsRef<str>) -> Result<Self, Error> {
        let given = path.as_ref();
        match Path::parse(given) {
            Ok(path) if !path.is_root() => Ok(Self { store, path, seal_limit: None }),
            _ => Err(Error::Resource {
                given: given.into(),
                fault: "it must be a path of the object store, with no empty part",
            }),
        }
    }

    /// For how long a seal or a publication that loses against others tries again.
    #[must_use]
    pub const fn seal_limit(mut self, seal_limit: Duration) -> Self {
        self.seal_limit = Some(seal_limit);
        self
    }

    /// Where it is.
    #[must_use]
    pub const fn path(&self) -> &Path {
        &self.path
    }

    /// The newest generation that was sealed. As a [floor](crate::Acquire::floor) it keeps a restored lock store from
    /// issuing a token that the object has seen.
    ///
    /// # Errors
    /// [`Error::ObjectStore`]; [`Error::Record`] if what stands there is no manifest.
    ///
    /// # Cancel safety
    /// Safe: it changes nothing.
    pub async fn generation(&self) -> Result<Option<FencingToken>, Error> {
        Ok(self.manifest().await?.map(|found| found.record.generation))
    }

    /// Registers the permit's generation: the new holder's first act, before it reads what it will replace. Doing it again with
    /// the same lease changes nothing.
    ///
    /// # Errors
    /// [`Error::Refused`] if a newer generation, or another owner of the same number, is there already;
    /// [`Error::SealTimeout`] after the limit; [`Error::Lost`] if the lease ends meanwhile; [`Error::ObjectStore`],
    /// [`Error::Record`].
    ///
    /// # Cancel safety
    /// Dropped, it may be sealed or not. Seal again.
    pub async fn seal(&self, permit: &Permit) -> Result<(), Error> {
        let mut patience = self.patience(permit);
        loop {
            permit.held().standing()?;
            let found = self.manifest().await?;
            let content = found.as_ref().and_then(|found| found.record.content.clone());
            let newcomer = Record::of(permit, content);
            let sealed = found.as_ref().map(|found| &found.record);
            if let Some(refusal) = Record::refuses_seal(sealed, &newcomer) {
                return Err(self.refused(permit, refusal));
            }
            if sealed == Some(&newcomer) || self.replace(found, &newcomer, "seal").await? {
                self.remove_contents_before(&newcomer).await;
                return Ok(());
            }
            patience.wait().await?;
        }
    }

    /// Replaces the object by `content`, if the permit's generation is still the sealed one.
    ///
    /// # Errors
    /// [`Error::Refused`] says why, and the object is as it was; [`Error::ObjectStore`], after which it may be replaced: publish again;
    /// [`Error::Record`].
    ///
    /// # Cancel safety
    /// Dropped, the object is replaced or as it was, and the content may stay there unused until a newer generation seals.
    pub async fn publish(&self, permit: &Permit, content: impl Into<PutPayload>) -> Result<(), Error> {
        self.stands(permit)?;
        // Refused before it is sent, if that is known.
        self.judge(permit, self.manifest().await?)?;
        let name = format!("{:019}-{:032x}", permit.token().value(), fastrand::u128(..));
        let at = self.path.clone().join(name.as_str());
        let sent = self.store.put_opts(&at, content.into(), PutMode::Create.into()).await;
        sent.map_err(failed_to("send the content"))?;
        match self.point_to(permit, &name).await {
            Ok(replaced) => {
                if let Some(replaced) = replaced {
                    // A reader that is on its way to it looks again. If it cannot be deleted, a later seal tries again.
                    let _ = self.store.delete(&self.path.clone().join(replaced)).await;
                }
                Ok(())
            }
            Err(error) => {
                // Where the answer is not known the manifest may name it.
                if matches!(error, Error::Refused { .. }) {
                    let _ = self.store.delete(&at).await;
                }
                Err(error)
            }
        }
    }

    /// The content; `None` if nothing was published yet.
    ///
    /// # Errors
    /// [`Error::ObjectStore`], [`Error::Record`].
    ///
    /// # Cancel safety
    /// Safe: it changes nothing.
    pub async fn read(&self) -> Result<Option<Bytes>, Error> {
        const READ: &str = "read the content";
        let mut looks = 1;
        loop {
            let Some(name) = self.manifest().await?.and_then(|found| found.record.content) else { return Ok(None) };
            let got = match self.store.get(&self.path.clone().join(name)).await {
                Ok(got) => got.bytes().await,
                Err(error) => Err(error),
            };
            match got {
                Ok(content) => return Ok(Some(content)),
                Err(object_store::Error::NotFound { .. }) if looks < Self::READS => looks += 1,
                Err(error) => return Err(failed_to(READ)(error)),
            }
        }
    }

    /// Has the manifest name this content; answers which one it has named before.
    async fn point_to(&self, permit: &Permit, name: &str) -> Result<Option<String>, Error> {
        let mut patience = self.patience(permit);
        loop {
            let found = self.manifest().await?;
            let replaced = found.as_ref().and_then(|found| found.record.content.clone());
            // A put whose answer was lost may have been made: it is found here, also under a newer seal, which keeps it. Looked at
            // before anything refuses, since what is refused is deleted.
            if replaced.as_deref() == Some(name) {
                return Ok(None);
            }
            self.stands(permit)?;
            let found = self.judge(permit, found)?;
            let pointing = Record::of(permit, Some(name.to_owned()));
            if self.replace(Some(found), &pointing, "publish the content").await? {
                return Ok(replaced);
            }
            patience.wait().await?;
        }
    }

    /// The manifest that was found, if the permit may write under it.
    fn judge(&self, permit: &Permit, found: Option<Found>) -> Result<Found, Error> {
        let refusal = Record::refuses_write(found.as_ref().map(|found| &found.record), &Record::of(permit, None));
        match (found, refusal) {
            (Some(found), None) => Ok(found),
            (_, refusal) => Err(self.refused(permit, refusal.unwrap_or(Refusal::NotSealed))),
        }
    }

    async fn manifest(&self) -> Result<Option<Found>, Error> {
        Found::read(&self.store, &self.manifest_path(), self.path.as_ref()).await
    }

    /// Replaces the manifest that was found, or makes the first one; `false` if another one is there by now.
    async fn replace(&self, found: Option<Found>, by: &Record, operation: &'static str) -> Result<bool, Error> {
        let mode = found.map_or(PutMode::Create, |found| PutMode::Update(found.version));
        match self.store.put_opts(&self.manifest_path(), by.to_string().into(), mode.into()).await {
            Ok(_) => Ok(true),
            Err(error) if is_conflict(&error) => Ok(false),
            Err(error) => Err(failed_to(operation)(error)),
        }
    }

    /// What older generations left would be refused in any case. If it cannot be deleted, it stays.
    async fn remove_contents_before(&self, sealed: &Record) {
        let mut listed = self.store.list(Some(&self.path));
        while let Some(Ok(object)) = listed.next().await {
            let name = object.location.filename().unwrap_or_default();
            let made_by =
                name.split_once('-').and_then(|(made_by, _)| made_by.parse().ok()).and_then(FencingToken::new);
            let is_older = made_by.is_some_and(|made_by| made_by < sealed.generation);
            if is_older && sealed.content.as_deref() != Some(name) {
                let _ = self.store.delete(&object.location).await;
            }
        }
    }

    fn manifest_path(&self) -> Path {
        self.path.clone().join("manifest")
    }

    fn stands(&self, permit: &Permit) -> Result<(), Error> {
        permit.refusal_if_lost().map_or(Ok(()), |refusal| Err(self.refused(permit, refusal)))
    }

    fn patience(&self, permit: &Permit) -> Patience<'_> {
        let limit = self.seal_limit.unwrap_or(permit.held().hold().ttl().saturating_mul(2));
        Patience { resource: self.path.as_ref(), begun: Instant::now(), limit }
    }

    fn refused(&self, permit: &Permit, refusal: Refusal) -> Error {
        event::refused(permit, self.path.as_ref(), refusal);
        Error::Refused { resource: self.path.as_ref().into(), generation: permit.token(), refusal }
    }
}

impl fmt::Debug for FencedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FencedObject").field("path", &self.path).finish_non_exhaustive()
    }
}

/// How long to try again against others that replace the manifest.
struct Patience<'a> {
    resource: &'a str,
    begun: Instant,
    limit: Duration,
}

impl Patience<'_> {
    async fn wait(&mut self) -> Result<(), Error> {
        let waited = self.begun.elapsed();
        if waited >= self.limit {
            return Err(Error::SealTimeout { resource: self.resource.into(), waited, blockers: Vec::new() });
        }
        sleep(Duration::from_millis(fastrand::u64(1..20))).await;
        Ok(())
    }
}
