//! A report as a file: written beside its place, brought to the disk, and put in its place whole.

use std::fs::File;
use std::io::{Error, ErrorKind, Result, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::books::Booking;

/// A report that is written and not published. Dropped, its file goes.
pub(crate) struct Draft {
    file: NamedTempFile,
    folder: PathBuf,
    sha256: String,
}

/// Which file is the report of a month.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Published {
    pub(crate) month: String,
    pub(crate) generation: i64,
    pub(crate) file: String,
    pub(crate) sha256: String,
}

impl Draft {
    /// Writes it to a temporary file, and returns when it is on the disk.
    pub(crate) fn write(folder: &Path, bookings: &[Booking]) -> Result<Self> {
        let mut text = Vec::from("number,cents\n");
        for (number, cents) in bookings {
            writeln!(text, "{number},{cents}")?;
        }
        let total: i64 = bookings.iter().map(|(_, cents)| cents).sum();
        writeln!(text, "total,{total}")?;
        let mut file = NamedTempFile::new_in(folder)?;
        file.write_all(&text)?;
        // Before the rename: otherwise a crash may leave the name with nothing behind it.
        file.as_file().sync_all()?;
        Ok(Self { file, folder: folder.to_owned(), sha256: hash(&text) })
    }

    /// Gives it a name that no other generation has, so that it goes over nobody's. It is not published by that.
    pub(crate) fn put(self, month: &str, generation: i64) -> Result<Published> {
        self.rename(month, generation, format!("{month}.g{generation}.csv"))
    }

    /// The mistake: one name for all generations. Whoever renames last, wins.
    pub(crate) fn put_over(self, month: &str) -> Result<Published> {
        self.rename(month, 0, format!("{month}.csv"))
    }

    fn rename(self, month: &str, generation: i64, file: String) -> Result<Published> {
        self.file.persist(self.folder.join(&file))?;
        // So that the name is on the disk before the database points to it.
        File::open(&self.folder)?.sync_all()?;
        Ok(Published { month: month.to_owned(), generation, file, sha256: self.sha256 })
    }
}

impl Published {
    /// The file of the mistake.
    pub(crate) fn put_over(month: &str, folder: &Path) -> Result<Self> {
        let file = format!("{month}.csv");
        let sha256 = hash(&std::fs::read(folder.join(&file))?);
        Ok(Self { month: month.to_owned(), generation: 0, file, sha256 })
    }

    /// Reads it, and fails if it is not what was published.
    pub(crate) fn read(&self, folder: &Path) -> Result<Vec<Booking>> {
        let broken = |what: &str| Error::new(ErrorKind::InvalidData, format!("{}: {what}", self.file));
        let text = std::fs::read_to_string(folder.join(&self.file))?;
        if hash(text.as_bytes()) != self.sha256 {
            return Err(broken("not what was published"));
        }
        let mut bookings = Vec::new();
        for line in text.lines().skip(1) {
            let (number, cents) = line.split_once(',').ok_or_else(|| broken("no line of a report"))?;
            let cents = cents.parse().map_err(|_| broken("no amount"))?;
            if number == "total" {
                let total: i64 = bookings.iter().map(|(_, cents)| cents).sum();
                return if total == cents { Ok(bookings) } else { Err(broken("another total")) };
            }
            bookings.push((number.parse().map_err(|_| broken("no number"))?, cents));
        }
        Err(broken("no total"))
    }

    /// Removes the files of older generations of the month, which nothing points to any more.
    pub(crate) fn remove_older(&self, folder: &Path) -> Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let of_month = name.strip_prefix(&*self.month).and_then(|rest| rest.strip_prefix(".g"));
            let generation = of_month.and_then(|rest| rest.strip_suffix(".csv")?.parse::<i64>().ok());
            if generation.is_some_and(|generation| generation < self.generation) {
                std::fs::remove_file(folder.join(name))?;
            }
        }
        Ok(())
    }
}

fn hash(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}
