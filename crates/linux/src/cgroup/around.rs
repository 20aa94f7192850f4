//! What lies around a group: limits of others that hold in it, and who is in it or outside.
//!
//! **Owns** finding both. **Does not own** what is said about them (`control`), nor the limits that Strata sets
//! (`limit`, `line_v2`).

use std::path::Path;

use strata_lru::machine::CgroupVersion as Version;

use super::file::{MemoryLimit, UNLIMITED, limit_file, parse_number, read_text};
use super::mounts::Mount;
use super::{BudgetGroup, GroupReader};

impl BudgetGroup {
    /// The lowest limit of others on what is in this group: its own as found, and those of the groups above.
    pub fn lowest_limit_of_others(&self) -> Option<MemoryLimit> {
        let here = self.here();
        let own = self.high.iter().map(|high| high.found_limit());
        let own = own.chain([MemoryLimit {
            file: here.join(limit_file(self.version)),
            bytes: self.ceiling(),
        }]);
        let above = here.parent().into_iter();
        lowest(own.chain(above.flat_map(|above| limits_from(above, self.version))))
    }

    /// Whether a group is this one or below it.
    pub fn contains(&self, other: &GroupReader) -> bool {
        other.path().starts_with(self.here())
    }
}

impl GroupReader {
    /// The lowest limit on what is in this group: its own, and those of the groups above.
    pub fn lowest_limit(&self) -> Option<MemoryLimit> {
        lowest(limits_from(self.path(), self.version()))
    }
}

/// The limits of a group and of those above it, as far as they are mounted; the nearest first.
fn limits_from(group: &Path, version: Version) -> Vec<MemoryLimit> {
    let point = Mount::known_point();
    let is_mounted = |path: &&Path| point.is_some_and(|point| path.starts_with(point));
    let groups = group.ancestors().take_while(is_mounted);
    groups.flat_map(|group| limits_of(group, version)).collect()
}

fn limits_of(group: &Path, version: Version) -> Vec<MemoryLimit> {
    let files: &[&str] = match version {
        Version::V1 => &["memory.limit_in_bytes"],
        Version::V2 => &["memory.max", "memory.high"],
    };
    let read = |name: &&str| {
        let file = group.join(name);
        let bytes = parse_number(&read_text(&file).ok()?)?;
        Some(MemoryLimit { file, bytes })
    };
    files.iter().filter_map(read).collect()
}

/// The lowest; the first of equal ones.
fn lowest(limits: impl IntoIterator<Item = MemoryLimit>) -> Option<MemoryLimit> {
    let limits = limits.into_iter().filter(|limit| limit.bytes < UNLIMITED);
    limits.min_by_key(|limit| limit.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    fn limit(file: &str, bytes: u64) -> MemoryLimit {
        MemoryLimit {
            file: PathBuf::from(file),
            bytes,
        }
    }

    #[test]
    fn the_lowest_limit_counts_wherever_it_stands_and_the_nearest_of_equal_ones() {
        let limits = [limit("own", 80), limit("near", 60), limit("far", 60)];
        assert_eq!(lowest(limits), Some(limit("near", 60)));
        let none = [limit("v1", 0x7fff_ffff_ffff_f000), limit("v2", u64::MAX)];
        assert_eq!(lowest(none), None);
    }

    #[test]
    fn both_limits_of_the_second_version_are_read_and_the_one_of_the_first() {
        let group = tempfile::tempdir().expect("a directory");
        let path = |name: &str| group.path().join(name);
        fs::write(path("memory.max"), "max\n").expect("written");
        fs::write(path("memory.high"), "4096\n").expect("written");
        fs::write(path("memory.limit_in_bytes"), "8192\n").expect("written");
        let read = |version| lowest(limits_of(group.path(), version)).expect("a limit");
        let found = read(Version::V2);
        assert_eq!((found.file, found.bytes), (path("memory.high"), 4096));
        let found = read(Version::V1);
        assert_eq!(
            (found.file, found.bytes),
            (path("memory.limit_in_bytes"), 8192)
        );
        fs::write(path("memory.high"), "max\n").expect("written");
        assert_eq!(lowest(limits_of(group.path(), Version::V2)), None);
    }
}
