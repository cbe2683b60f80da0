//! Real orders, for those who have them.

use std::path::PathBuf;

/// The folder of the retail data's files.
pub const RETAIL_DIR: &str = "LEASTLOCK_RETAIL_DIR";

/// The files in the folder that `LEASTLOCK_RETAIL_DIR` names, in the order of their names; none if it is unset.
#[must_use]
pub fn retail_files() -> Vec<PathBuf> {
    std::env::var_os(RETAIL_DIR).map(|folder| files_in(&PathBuf::from(folder))).unwrap_or_default()
}

fn files_in(folder: &PathBuf) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{RETAIL_DIR}={}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("the folder is readable").path());
    let mut files: Vec<_> = paths.filter(|path| path.is_file()).collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_in_the_order_of_their_names_without_folders() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for name in ["2011.csv", "2009.csv", "2010.csv"] {
            std::fs::write(folder.path().join(name), "").expect("written");
        }
        std::fs::create_dir(folder.path().join("2012")).expect("made");
        let names: Vec<_> = files_in(&folder.path().to_owned())
            .iter()
            .filter_map(|file| file.file_name().map(ToOwned::to_owned))
            .collect();
        assert_eq!(names, ["2009.csv", "2010.csv", "2011.csv"]);
    }

    #[test]
    #[should_panic(expected = "LEASTLOCK_RETAIL_DIR=/nowhere")]
    fn folder_that_is_not_there_fails_the_test() {
        let _ = files_in(&PathBuf::from("/nowhere"));
    }
}
