//! What stands beside the file, and the steps that are made under its lock. All of it blocks.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::FencedFile;
use super::draft::Temporary;
use crate::error::Error;
use crate::fence::Refusal;
use crate::record::Record;
use crate::token::FencingToken;

/// Marks a step after which a process may die. Tests do just that; elsewhere it is nothing.
macro_rules! step {
    ($name:literal) => {
        #[cfg(all(test, unix))]
        super::killed::reached($name);
    };
}

/// What an attempt to do something under the lock came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step<T> {
    Done(T),
    Refused(Refusal),
    /// Somebody else has the lock.
    Locked,
}

/// A path, and the names that belong to it.
#[derive(Debug, Clone)]
pub(super) struct Place {
    target: PathBuf,
    folder: PathBuf,
    name: Box<str>,
}

impl Place {
    pub(super) fn new(target: PathBuf) -> Result<Self, Error> {
        let Some(name) = target.file_name().and_then(|name| name.to_str()) else {
            return Err(Error::Resource {
                given: target.to_string_lossy().into(),
                fault: "the path must end with a name in UTF-8",
            });
        };
        if name.len() > FencedFile::MAX_NAME_BYTES {
            return Err(Error::Resource { given: name.into(), fault: "the file's name must have 1 to 160 bytes" });
        }
        let name = name.into();
        let folder = match target.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        Ok(Self { target, folder, name })
    }

    pub(super) fn target(&self) -> &Path {
        &self.target
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The record, if anything was ever sealed. Needs no lock: it is replaced as a whole.
    pub(super) fn record(&self) -> Result<Option<Record>, Error> {
        match fs::read_to_string(self.beside("fence")) {
            Ok(text) => match Record::parse(&text) {
                Some(record) => Ok(Some(record)),
                None => Err(Error::Record { resource: self.name.clone() }),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == ErrorKind::InvalidData => Err(Error::Record { resource: self.name.clone() }),
            Err(error) => Err(self.error("read the record of")(error)),
        }
    }

    /// Registers a generation, on the disk.
    pub(super) fn seal(&self, newcomer: &Record) -> Result<Step<()>, Error> {
        self.locked(|| {
            let sealed = self.record()?;
            if let Some(refusal) = Record::refuses_seal(sealed.as_ref(), newcomer) {
                return Ok(Step::Refused(refusal));
            }
            if sealed.as_ref() != Some(newcomer) {
                self.replace_record(newcomer).map_err(self.error("write the record of"))?;
            }
            // Also for one that is there: who wrote it may have died before this.
            self.sync_folder()?;
            step!("seal: synced");
            self.remove_drafts_before(newcomer.generation);
            Ok(Step::Done(()))
        })
    }

    /// An empty draft, unless the writer would be refused already.
    pub(super) fn draft(&self, writer: &Record) -> Result<Result<(File, Temporary), Refusal>, Error> {
        if let Some(refusal) = Record::refuses_write(self.record()?.as_ref(), writer) {
            return Ok(Err(refusal));
        }
        let path = self.draft_path(writer);
        let made = OpenOptions::new().write(true).create_new(true).open(&path);
        let content = made.map_err(self.error("make a draft of"))?;
        let temporary = Temporary::new(path);
        if let Ok(replaced) = fs::metadata(&self.target) {
            content.set_permissions(replaced.permissions()).map_err(self.error("set the permissions of a draft of"))?;
        }
        step!("publish: drafted");
        Ok(Ok((content, temporary)))
    }

    /// Renames a draft that is on the disk to the target, if its generation is the sealed one.
    pub(super) fn publish(&self, draft: &Path, writer: &Record) -> Result<Step<()>, Error> {
        step!("publish: written");
        self.locked(|| {
            if let Some(refusal) = Record::refuses_write(self.record()?.as_ref(), writer) {
                return Ok(Step::Refused(refusal));
            }
            step!("publish: checked");
            fs::rename(draft, &self.target).map_err(self.error("rename the draft of"))?;
            step!("publish: renamed");
            self.sync_folder()?;
            step!("publish: synced");
            Ok(Step::Done(()))
        })
    }

    pub(super) fn error(&self, operation: &'static str) -> impl Fn(io::Error) -> Error + Send + 'static {
        let path = self.target.clone().into_boxed_path();
        move |source| {
            let retryable = matches!(
                source.kind(),
                ErrorKind::Interrupted | ErrorKind::TimedOut | ErrorKind::ResourceBusy | ErrorKind::StorageFull
            );
            Error::File { operation, path: path.clone(), retryable, source }
        }
    }

    /// Does `work` under the lock, which ends with this process if not before. The lock's file is never removed: two
    /// processes would lock two files.
    fn locked<T>(&self, work: impl FnOnce() -> Result<Step<T>, Error>) -> Result<Step<T>, Error> {
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(self.beside("lock"));
        let lock = opened.map_err(self.error("open the lock of"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Step::Locked),
            Err(TryLockError::Error(error)) => return Err(self.error("lock")(error)),
        }
        let done = work();
        drop(lock);
        done
    }

    fn replace_record(&self, record: &Record) -> io::Result<()> {
        // Under the lock nobody else writes it, so what a dead process left of one is written over.
        let temporary = self.beside("fence.new");
        let mut file = File::create(&temporary)?;
        file.write_all(record.to_string().as_bytes())?;
        step!("seal: unsynced");
        file.sync_all()?;
        step!("seal: written");
        fs::rename(&temporary, self.beside("fence"))?;
        step!("seal: renamed");
        Ok(())
    }

    /// A renamed file is found after a power failure only if the folder was synced.
    fn sync_folder(&self) -> Result<(), Error> {
        if cfg!(unix) {
            let synced = File::open(&self.folder).and_then(|folder| folder.sync_all());
            synced.map_err(self.error("sync the folder of"))?;
        }
        Ok(())
    }

    /// What is left of older generations would be refused in any case. If it cannot be removed, it stays.
    fn remove_drafts_before(&self, generation: FencingToken) {
        let prefix = format!(".{}.", self.name);
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let draft = name.to_str().and_then(|name| name.strip_prefix(&prefix)?.strip_suffix(".draft"));
            let made_by = draft.and_then(|draft| draft.split_once('-')?.0.parse().ok());
            if made_by.and_then(FencingToken::new).is_some_and(|made_by| made_by < generation) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn beside(&self, what: &str) -> PathBuf {
        self.folder.join(format!(".{}.{what}", self.name))
    }

    fn draft_path(&self, writer: &Record) -> PathBuf {
        self.beside(&format!("{}-{:016x}.draft", writer.generation, fastrand::u64(..)))
    }
}
