//! What is known of a recording beside its accesses, as far as it has been read.
//!
//! **Owns** the counters. **Does not own** how they are shown.
//!
//! **Invariants**
//! - I1: no more names are kept than [`NAMES_MAX`] and [`NAME_BYTES_MAX`] allow; others are counted.

use std::collections::BTreeMap;

use super::names::Name;
use super::{About, AreaName, FileName, Piece, SpaceName, WalkKind};
use strata_lru::bits::count;

/// Spaces, mappings and files, of each so many, whose names are kept.
const NAMES_MAX: usize = 1 << 16;
/// Bytes of all names together.
const NAME_BYTES_MAX: usize = 16 << 20;

/// A recording as far as it has been read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordingInfo {
    /// How it was made; `None` where the file does not say.
    pub about: Option<About>,
    /// Walks, the baseline not counted.
    pub nr_walks: u64,
    /// Time of the first walk, the baseline's as a rule, and of the last, microseconds.
    pub times_us: Option<(u64, u64)>,
    /// CPU time that the recorded processes used between walks, microseconds.
    pub cpu_us: u64,
    /// Walks of a space that broke off.
    pub nr_broken_walks: u64,
    /// Pages that came into memory after the baseline.
    pub nr_appeared: u64,
    /// Pages that were freed or unmapped.
    pub nr_gone: u64,
    /// Pages that left memory and kept their content elsewhere.
    pub nr_evicted: u64,
    /// Address spaces by their number.
    pub spaces: BTreeMap<u32, SpaceName>,
    /// Mappings by their number.
    pub areas: BTreeMap<u32, AreaInfo>,
    /// Files whose page cache is told, by their number.
    pub files: BTreeMap<u32, FileInfo>,
    /// Names, mappings, files and freed pages that are not kept, because there are too many.
    pub nr_left_out: u64,
    name_bytes: usize,
}

/// A mapping and what happened in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AreaInfo {
    /// Name of the area; `None` where the file does not say.
    pub name: Option<AreaName>,
    /// Pages found accessed, summed over walks.
    pub nr_accessed: u64,
    /// Pages that were in memory at the baseline or came into it.
    pub nr_appeared: u64,
}

/// A file and what happened to its page cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileInfo {
    /// Name of the file; `None` where the recording does not say.
    pub name: Option<FileName>,
    /// Pages found read or written, summed over censuses.
    pub nr_accessed: u64,
    /// Pages that were in memory at the first census of the file or came into it.
    pub nr_appeared: u64,
}

impl RecordingInfo {
    /// From the first walk to the last, microseconds.
    pub fn duration_us(&self) -> u64 {
        self.times_us
            .map_or(0, |(first, last)| last.saturating_sub(first))
    }

    pub(super) fn add_walk(&mut self, kind: WalkKind, at_us: u64) {
        self.nr_walks += u64::from(kind == WalkKind::Interval);
        let (first, last) = self.times_us.unwrap_or((at_us, at_us));
        self.times_us = Some((first.min(at_us), last.max(at_us)));
    }

    /// Counts a piece of an address space, or of the file with this number.
    pub(super) fn add_piece(&mut self, kind: WalkKind, file: Option<u32>, piece: &Piece) {
        let [accessed, appeared, gone, evicted] =
            [piece.accessed, piece.appeared, piece.gone, piece.evicted].map(count);
        if kind == WalkKind::Interval {
            self.nr_appeared += appeared;
        }
        self.nr_gone += gone;
        self.nr_evicted += evicted;
        if let Some(file) = file {
            if let Some(file) = self.file(file) {
                file.nr_accessed += accessed;
                file.nr_appeared += appeared;
            }
        } else if let Some(area) = self.area(piece.area) {
            area.nr_accessed += accessed;
            area.nr_appeared += appeared;
        }
    }

    pub(super) fn add_name(&mut self, name: Name) {
        let space_bytes = |space: &SpaceName| space.name.len();
        let area_bytes = |area: &AreaName| area.name.len() + area.class.len();
        let file_bytes = |file: &FileName| file.path.len() + file.group.len();
        // A name takes the place of the one before.
        let (nr_bytes, old_bytes) = match &name {
            Name::Space(space) => {
                let old = self.spaces.get(&space.space);
                (space_bytes(space), old.map(space_bytes))
            }
            Name::Area(area) => {
                let old = self.areas.get(&area.area);
                let old = old.and_then(|info| info.name.as_ref());
                (area_bytes(area), old.map(area_bytes))
            }
            Name::File(file) => {
                let old = self.files.get(&file.file);
                let old = old.and_then(|info| info.name.as_ref());
                (file_bytes(file), old.map(file_bytes))
            }
        };
        let others_bytes = self.name_bytes - old_bytes.unwrap_or_default();
        if others_bytes + nr_bytes > NAME_BYTES_MAX {
            self.nr_left_out += 1;
            return;
        }
        match name {
            Name::Space(space) => {
                let is_known = self.spaces.contains_key(&space.space);
                if !is_known && self.spaces.len() >= NAMES_MAX {
                    self.nr_left_out += 1;
                    return;
                }
                self.spaces.insert(space.space, space);
            }
            Name::Area(area) => match self.area(area.area) {
                Some(info) => info.name = Some(area),
                None => return,
            },
            Name::File(file) => match self.file(file.file) {
                Some(info) => info.name = Some(file),
                None => return,
            },
        }
        self.name_bytes = others_bytes + nr_bytes;
    }

    /// The file, unless there are too many.
    fn file(&mut self, file: u32) -> Option<&mut FileInfo> {
        if self.files.len() >= NAMES_MAX && !self.files.contains_key(&file) {
            self.nr_left_out += 1;
            return None;
        }
        Some(self.files.entry(file).or_default())
    }

    /// Whether a mapping is of a file that is executed, as far as its name was told.
    pub(super) fn is_code(&self, area: u32) -> bool {
        let name = self.areas.get(&area).and_then(|area| area.name.as_ref());
        name.is_some_and(|name| name.class == AreaName::CODE)
    }

    /// The mapping, unless there are too many.
    fn area(&mut self, area: u32) -> Option<&mut AreaInfo> {
        if self.areas.len() >= NAMES_MAX && !self.areas.contains_key(&area) {
            self.nr_left_out += 1;
            return None;
        }
        Some(self.areas.entry(area).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::NameKnown;

    #[test]
    fn a_name_takes_the_place_of_the_one_before() {
        let mut info = RecordingInfo::default();
        for (number, path) in [(7, "/srv/log"), (7, "/srv/a"), (8, "/b"), (7, "/srv/data")] {
            info.add_name(Name::File(FileName {
                file: number,
                group: "/app".to_owned(),
                known: NameKnown::Path,
                path: path.to_owned(),
            }));
        }
        for name in ["job", "worker"] {
            let (space, pid, name) = (1, 42, name.to_owned());
            info.add_name(Name::Space(SpaceName { space, pid, name }));
        }
        let told = "/srv/data/app/b/appworker".len();
        assert_eq!((info.name_bytes, info.nr_left_out), (told, 0));
    }
}
