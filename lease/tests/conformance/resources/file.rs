use std::fs;
use std::path::PathBuf;

use leastlock_lease::{Error, FencedFile, Permit};
use tempfile::TempDir;

use super::{Guard, Resource, refused_by_a_double};
use crate::rig::Rig;

/// A file with the number in it.
pub(crate) struct File {
    folder: TempDir,
    file: FencedFile,
}

impl File {
    fn path(&self) -> PathBuf {
        self.folder.path().join("value")
    }
}

/// The generation that stands in a record, as a double reads it.
pub(crate) fn number_in(record: &str) -> i64 {
    let line = record.lines().find_map(|line| line.strip_prefix("generation ")).unwrap();
    line.parse().unwrap()
}

impl<R: Rig> Resource<R> for File {
    async fn create(_rig: &R) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("value");
        fs::write(&path, "0").unwrap();
        let file = FencedFile::new(path).unwrap();
        Self { folder, file }
    }

    async fn seal(&self, permit: &Permit) -> Result<(), Error> {
        self.file.seal(permit).await?;
        assert_eq!(self.file.generation().await.unwrap(), Some(permit.token()));
        Ok(())
    }

    async fn write(&self, guard: Guard, permit: &Permit, value: i64) -> Result<(), Error> {
        if guard == Guard::Right {
            return self.file.write(permit, value.to_string()).await;
        }
        let record = fs::read_to_string(self.folder.path().join(".value.fence")).unwrap();
        if guard == Guard::NumberOnly && number_in(&record) != permit.token().value() {
            return Err(refused_by_a_double());
        }
        fs::write(self.path(), value.to_string()).unwrap();
        Ok(())
    }

    async fn add(&self, permit: &Permit, amount: i64) -> Result<(), Error> {
        let value = <Self as Resource<R>>::value(self).await + amount;
        self.file.write(permit, value.to_string()).await
    }

    async fn value(&self) -> i64 {
        fs::read_to_string(self.path()).unwrap().parse().unwrap()
    }

    async fn break_down(&self) {
        fs::write(self.folder.path().join(".value.fence"), "no record").unwrap();
    }
}
