//! Reaching the files of which page cache is dropped, and dropping ranges of one.
//!
//! **Owns** how long what is known of places holds, and the second try through whoever has a file open. **Does not own** which
//! pages go (`cache`, `groups_cache`), nor dropping (`page_cache`).

use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use strata_control::page_cache::Tried;

use crate::access::census::{Census, FileId, FileNames};
use crate::page_cache::{Dropped, IdleFile, Left, Mounts, Ways, drop_of, open};

/// Pages that lie so close together in a file are looked at in one go.
pub(super) const NEAR_PAGES: u64 = 512;
/// Open files of all processes are looked for at most so often, because there may be many.
const LOOK_PAUSE: Duration = Duration::from_secs(5);

/// Drops ranges of a file, wherever it can be reached.
pub(super) fn drop_ranges(
    names: &mut Names,
    census: &Census,
    file: FileId,
    ranges: Vec<Range<u64>>,
    is_dry_run: bool,
    on_range: &mut dyn FnMut(&Range<u64>, Tried),
) -> Dropped {
    let mut idle = IdleFile {
        file,
        ways: Ways {
            places: names.places(census, &file, false),
            mounts: names.mounts(&file),
        },
        ranges,
    };
    let dropped = drop_of(&idle, &mut Mounts::default(), is_dry_run, on_range);
    let is_lost = [Left::Unreachable, Left::Replaced]
        .iter()
        .any(|left| dropped.left_bytes.contains_key(left));
    if !is_lost {
        return dropped;
    }
    // A file without a name, or in another mount namespace, is reached through whoever has it open.
    idle.ways.places = names.places(census, &file, true);
    drop_of(&idle, &mut Mounts::default(), is_dry_run, on_range)
}

/// Opens a file that a census found, wherever it can be reached.
pub(super) fn open_file(names: &mut Names, census: &Census, file: &FileId) -> Option<File> {
    [false, true].into_iter().find_map(|is_thorough| {
        let ways = Ways {
            places: names.places(census, file, is_thorough),
            mounts: names.mounts(file),
        };
        open(file, &ways, &mut Mounts::default()).ok()
    })
}

/// Adds a range that begins no earlier than those before.
pub(super) fn add_range(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    match ranges.last_mut() {
        Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
        _ => ranges.push(range),
    }
}

/// Where files can be opened.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// By the kernel's directory entries.
    mounts: Option<(Instant, FileNames)>,
    /// By those who have them open, too.
    all: Option<(Instant, FileNames)>,
}

impl Names {
    pub(super) fn mounts(&mut self, file: &FileId) -> Vec<PathBuf> {
        self.look(false).mounts(file)
    }

    pub(super) fn places(
        &mut self,
        census: &Census,
        file: &FileId,
        is_thorough: bool,
    ) -> Vec<PathBuf> {
        self.look(is_thorough).places(census, file)
    }

    fn look(&mut self, is_thorough: bool) -> &FileNames {
        let (names, read): (_, fn() -> FileNames) = match is_thorough {
            true => (&mut self.all, FileNames::read),
            false => (&mut self.mounts, FileNames::of_mounts),
        };
        let is_old = |(at, _): &(Instant, FileNames)| at.elapsed() >= LOOK_PAUSE;
        if names.as_ref().is_some_and(is_old) {
            *names = None;
        }
        &names.get_or_insert_with(|| (Instant::now(), read())).1
    }
}
