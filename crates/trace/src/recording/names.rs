//! What a recording calls things: the target, its spaces, their mappings, and files.
//!
//! **Owns** the content of blocks of names and of the block about the recording. **Does not own**
//! anything else a replay depends on: without its names a recording is replayed the same, but that no page is code.

use super::{pop_text, pop_u32, push_text};
use crate::strata::varint::{pop, push};

/// Longest text: that of a path.
pub(super) const TEXT_BYTES_MAX: usize = 4096;

const RECORD_SPACE: u8 = 1;
const RECORD_AREA: u8 = 2;
const RECORD_FILE: u8 = 3;

/// How a recording was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Time between two walks that was asked for, microseconds.
    pub interval_us: u64,
    /// What was recorded, for people.
    pub target: String,
    /// Who saw the accesses: `bpf` or `smaps`.
    pub source: String,
}

/// An address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceName {
    /// Number of the space in the recording, never used twice.
    pub space: u32,
    /// The process.
    pub pid: u32,
    /// Name of the process.
    pub name: String,
}

/// Mappings of a space that have the same class and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AreaName {
    /// Number of the area in the recording, never used twice.
    pub area: u32,
    /// The space.
    pub space: u32,
    /// What it is: `anon`, `heap`, `stack`, `file_private`, `file_shared`, `shmem`, or [`AreaName::CODE`].
    pub class: String,
    /// Path or name as `/proc` prints it; empty for anonymous memory.
    pub name: String,
}

impl AreaName {
    /// The class of a file that is mapped to be executed.
    pub const CODE: &str = "code";
}

/// A file whose page cache is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileName {
    /// Number of the file in the recording, among those of spaces; never used twice.
    pub file: u32,
    /// The group that is charged for its page cache; empty where that is not known.
    pub group: String,
    /// What is known of the file's name.
    pub known: NameKnown,
    /// The path; for [`NameKnown::Nothing`] what else identifies the file.
    pub path: String,
}

strata_lru::named! {
    /// What is known of a file's name. Their order is their number in a recording.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum NameKnown {
        /// The file was at this path when the recording first told of it.
        Path = "path",
        /// The file was at this place in its file system, which is mounted nowhere that could be seen.
        Inside = "inside",
        /// The file was deleted already; the path was its last one.
        Deleted = "deleted",
        /// Nothing: the kernel has forgotten the name.
        Nothing = "nothing",
    }
}

impl NameKnown {
    fn number(self) -> u64 {
        self as u64
    }

    fn of(number: u64) -> Option<NameKnown> {
        NameKnown::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// One record of a block of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Space(SpaceName),
    Area(AreaName),
    File(FileName),
}

pub(super) fn encode_about(about: &About, content: &mut Vec<u8>) {
    push(content, about.interval_us);
    push_text(content, &about.target);
    push_text(content, &about.source);
}

/// What stands in the block about the recording; what a later version adds behind it is passed over.
pub(super) fn decode_about(mut content: &[u8]) -> Option<About> {
    Some(About {
        interval_us: pop(&mut content)?,
        target: pop_text(&mut content)?,
        source: pop_text(&mut content)?,
    })
}

pub(super) fn encode_space(space: &SpaceName, content: &mut Vec<u8>) {
    content.push(RECORD_SPACE);
    push(content, u64::from(space.space));
    push(content, u64::from(space.pid));
    push_text(content, &space.name);
}

pub(super) fn encode_area(area: &AreaName, content: &mut Vec<u8>) {
    content.push(RECORD_AREA);
    push(content, u64::from(area.area));
    push(content, u64::from(area.space));
    push_text(content, &area.class);
    push_text(content, &area.name);
}

pub(super) fn encode_file(file: &FileName, content: &mut Vec<u8>) {
    content.push(RECORD_FILE);
    push(content, u64::from(file.file));
    push_text(content, &file.group);
    push(content, file.known.number());
    push_text(content, &file.path);
}

/// Tells `tell` each of the `nr_records` names; `None` if that is not what the content holds. Files are named only where the
/// version of the recording has them.
pub(super) fn decode(
    mut content: &[u8],
    nr_records: usize,
    has_files: bool,
    mut tell: impl FnMut(Name),
) -> Option<()> {
    for _ in 0..nr_records {
        let (kind, after) = content.split_first()?;
        content = after;
        tell(match *kind {
            RECORD_SPACE => Name::Space(SpaceName {
                space: pop_u32(&mut content)?,
                pid: pop_u32(&mut content)?,
                name: pop_text(&mut content)?,
            }),
            RECORD_AREA => Name::Area(AreaName {
                area: pop_u32(&mut content)?,
                space: pop_u32(&mut content)?,
                class: pop_text(&mut content)?,
                name: pop_text(&mut content)?,
            }),
            RECORD_FILE if has_files => Name::File(FileName {
                file: pop_u32(&mut content)?,
                group: pop_text(&mut content)?,
                known: NameKnown::of(pop(&mut content)?)?,
                path: pop_text(&mut content)?,
            }),
            _ => return None,
        });
    }
    content.is_empty().then_some(())
}
