//! The values that a session wrote last into control files, for whoever undoes after it.
//!
//! ```text
//!   /run/strata/<id>/written-memory.max    numbers, the latest first
//! ```
//!
//! Not synced as the state is, because a limit may change a thousand times a second: a death of ours leaves
//! what was written, and a death of the machine leaves no cgroup.
//!
//! **Owns** the files. **Does not own** what is in them (`cgroup::written`).
//!
//! **Invariants** I1: a file always has the same length, so that one write replaces it all.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Room for the largest number and a blank.
const NUMBER_WIDTH: usize = 21;
/// Numbers in a file at most.
const NUMBERS_MAX: usize = 16;

fn file_of(directory: &Path, control_file: &Path) -> PathBuf {
    let name = control_file.file_name().unwrap_or_default();
    directory.join(format!("written-{}", name.to_string_lossy()))
}

/// Keeps the values of a control file.
pub(super) fn save(directory: &Path, control_file: &Path, values: &[u64]) -> io::Result<()> {
    let mut text: String = values
        .iter()
        .take(NUMBERS_MAX)
        .map(|value| format!("{value:<NUMBER_WIDTH$}"))
        .collect();
    text += &" ".repeat(NUMBERS_MAX * NUMBER_WIDTH - text.len());
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(file_of(directory, control_file))?;
    file.write_all_at(text.as_bytes(), 0)
}

/// The values of a control file; none where nothing was kept.
pub(super) fn load(directory: &Path, control_file: &Path) -> Vec<u64> {
    let text = std::fs::read_to_string(file_of(directory, control_file)).unwrap_or_default();
    text.split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_list_replaces_a_longer_one() {
        let directory = tempfile::tempdir().expect("a directory");
        let (own, group) = (directory.path(), Path::new("/g/memory.max"));
        assert!(load(own, group).is_empty());
        let many: Vec<u64> = (0..16).map(|back| u64::MAX - back).collect();
        save(own, group, &many).expect("saved");
        assert_eq!(load(own, group), many);
        save(own, group, &[1, 2]).expect("saved");
        assert_eq!(load(own, group), [1, 2]);
        assert!(load(own, Path::new("/g/memory.high")).is_empty());
    }
}
