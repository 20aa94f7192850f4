//! Censuses of a group's page cache for a recording.
//!
//! ```text
//!   search (GroupPages), arrivals -> which files are followed -> list each -> Listed, to the recorder
//! ```
//!
//! **Owns** which files are followed, their numbers and names, and whether a file is still there. **Does not own** the thread and its
//! pace (`engine::census`), what follows from a census (`files`), nor the recording.
//!
//! **Invariants**
//! - I1: searches for files take at most 1 % of a processor beside that of censuses (`GroupPages`), but for the first.
//! - I2: at most [`FOLLOWED_MAX`] files are followed.
//! - I3: a file keeps its number as long as it is not deleted, unless more than [`KNOWN_MAX`] files were told of.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use strata_control::page_cache::FILES_MAX;
use strata_trace::recording::{FileName, NameKnown};

use super::files::{COUNT_FULL, FoundPages, Left, ListedFile};
use crate::engine::census::{self as room, Told};
use crate::observe::SpaceNumbers;
use strata_linux::access::census::{
    self, Arrivals, FileId, FileNames, GroupPages, Identity, is_at,
};
use strata_linux::addr::{FILE_PAGES_MAX, PAGE_BYTES};
use strata_linux::cgroup::{GroupNames, GroupReader};
use strata_linux::page_cache::{Mounts, Standing, standing};
use strata_linux::process::{Device, thread_cpu_ns};
use strata_lru::machine::Arrival;

/// Two censuses are so far apart at least.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Files that are followed at most: those that a search finds, and others.
const FOLLOWED_MAX: usize = 4096;
/// Files that are followed at most until a search: the rest is room for those that it finds.
const UNSEARCHED_MAX: usize = FOLLOWED_MAX - FILES_MAX;
/// Files that a search did not find and that are followed further at most: the rest is room for those that come in.
const OTHERS_MAX: usize = UNSEARCHED_MAX - FILES_MAX;
/// Files whose numbers are remembered.
const KNOWN_MAX: usize = 1 << 16;
/// A file of which so much has come in is followed before a search finds it, as much as `GroupPages` asks for.
const COME_PAGES_MIN: u64 = (256 << 10) / PAGE_BYTES;
/// What every process has open is looked at no more often than this, as there may be many.
const LOOK_PAUSE: Duration = Duration::from_secs(5);

/// Takes censuses; an error says why there is none and will be none.
pub(super) type Censuses = room::Censuses<(), Vec<ListedFile>, String>;

/// Starts the thread. Files at the places `own` are left out: the recording itself.
///
/// # Errors
/// Where no thread can be started.
pub(super) fn start(
    group: GroupReader,
    numbers: SpaceNumbers,
    own: Vec<PathBuf>,
) -> io::Result<Censuses> {
    let name = group.name().to_owned();
    room::Censuses::start(PAUSE_MIN, move || {
        let pages = GroupPages::open(group, true).map_err(|error| error.to_string())?;
        let mut followed = Followed::new(pages, name, numbers, own);
        Ok(move |_: &(), _| {
            let found = followed.census();
            found.map_err(|error| format!("a census of it failed: {error}"))
        })
    })
}

/// One file that is looked at.
#[derive(Debug)]
struct File {
    id: FileId,
    number: u32,
    /// Whether the recording was told a name.
    is_named: bool,
    /// Whether no better name can be found.
    is_name_final: bool,
    nr_held: u64,
    /// What came in after the last census had looked at the file.
    arrived: Vec<(u64, u64)>,
}

/// The files that are looked at.
#[derive(Debug)]
struct Followed {
    pages: GroupPages,
    /// The group, and those below it if there are any.
    group: String,
    numbers: SpaceNumbers,
    own: Vec<PathBuf>,
    files: BTreeMap<Identity, File>,
    /// Numbers of files that were told of.
    known: HashMap<Identity, u32>,
    /// The recording itself, and files that are deleted.
    left_out: HashSet<Identity>,
    /// Pages that came in of files that are not looked at.
    come: HashMap<Identity, u64>,
    looked: Option<Instant>,
}

impl Followed {
    fn new(pages: GroupPages, group: String, numbers: SpaceNumbers, own: Vec<PathBuf>) -> Followed {
        Followed {
            pages,
            group,
            numbers,
            own,
            files: BTreeMap::new(),
            known: HashMap::new(),
            left_out: HashSet::new(),
            come: HashMap::new(),
            looked: None,
        }
    }

    /// Takes a census; tells what it took of a processor, without the search.
    fn census(&mut self) -> io::Result<Told<Vec<ListedFile>>> {
        let has_searched = self.pages.search_if_due()?;
        let before_ns = thread_cpu_ns();
        let found = Some(self.list(has_searched)?);
        Ok(Told {
            found,
            cpu_ns: thread_cpu_ns() - before_ns,
        })
    }

    fn list(&mut self, has_searched: bool) -> io::Result<Vec<ListedFile>> {
        let found: Vec<FileId> = self.pages.files().values().copied().collect();
        let wanted: HashSet<Identity> = found.iter().map(FileId::identity).collect();
        if has_searched {
            self.come.clear();
            for file in &found {
                self.follow(file, FOLLOWED_MAX);
            }
        }
        let came = self.arrivals()?;
        self.note(&came);
        let nr_reads_max = self.pages.nr_reads_max();
        let mut pages = Vec::with_capacity(self.files.len());
        for file in self.files.values_mut() {
            let mut found = FoundPages::default();
            for (first, nr_pages) in file.arrived.drain(..) {
                found.arrive(first, nr_pages);
            }
            self.pages
                .list_part(&file.id, 0..FILE_PAGES_MAX, &mut |page| {
                    let nr_reads = reads_told(page.nr_reads, nr_reads_max);
                    found.hold(page.index, page.nr_pages, nr_reads, page.is_busy);
                })?;
            pages.push(found);
        }
        // What came in while files were looked at is found now, or has to be told by the next census.
        let mut late: HashMap<Identity, Vec<Arrival>> = HashMap::new();
        for arrival in self.arrivals()? {
            let identity = FileId::from(arrival.file).identity();
            let of_file = late.entry(identity).or_default();
            of_file.push(arrival);
        }
        let kept = has_searched.then(|| {
            let others = self.files.keys().copied().zip(&pages);
            let others = others.filter(|(identity, _)| !wanted.contains(identity));
            worth_following(others.map(|(identity, pages)| (pages.nr_held(), identity)))
        });
        let mut names = Names::new(self);
        let mut listed = Vec::with_capacity(pages.len());
        let mut mounts = Mounts::default();
        for ((identity, file), pages) in self.files.iter_mut().zip(pages) {
            for came in late.remove(identity).unwrap_or_default() {
                file.id.follow_to(&came.file);
                if !pages.has(came.index) {
                    file.arrived.push((came.index, came.nr_pages));
                }
            }
            let nr_held = pages.nr_held();
            let left = match nr_held < file.nr_held {
                true => left_of(&file.id, nr_held, &names.mounts, &mut mounts),
                false => Left::Kept,
            };
            file.nr_held = nr_held;
            // One that was found, but has nothing in memory any more, is not told of.
            let is_told = file.is_named || !pages.is_empty();
            let name = names.of.remove(identity).filter(|_| is_told);
            if let Some((_, is_final)) = &name {
                (file.is_named, file.is_name_final) = (true, *is_final);
            }
            let is_worth_it = wanted.contains(identity)
                || !file.arrived.is_empty()
                || match &kept {
                    Some(kept) => kept.contains(identity),
                    None => nr_held > 0,
                };
            listed.push(ListedFile {
                file: file.number,
                name: name.map(|(name, _)| name),
                pages,
                left,
                is_followed: left != Left::Gone && is_worth_it,
            });
        }
        self.forget(&listed);
        Ok(listed)
    }

    /// What has come in, where the kernel tells.
    fn arrivals(&self) -> io::Result<Vec<Arrival>> {
        self.pages.arrivals().map_or(Ok(Vec::new()), Arrivals::take)
    }

    /// Looks at a file from now on, if no more than so many are looked at.
    fn follow(&mut self, id: &FileId, nr_files_max: usize) {
        let identity = id.identity();
        if let Some(file) = self.files.get_mut(&identity) {
            file.id = *id;
            return;
        }
        if self.left_out.contains(&identity) || self.files.len() >= nr_files_max {
            return;
        }
        let is_here = |own: &PathBuf| own.canonicalize().is_ok_and(|own| is_at(&own, id));
        if self.own.iter().any(is_here) {
            self.left_out.insert(identity);
            return;
        }
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        let numbers = &self.numbers;
        let number = *self
            .known
            .entry(identity)
            .or_insert_with(|| numbers.next().0);
        let file = File {
            id: *id,
            number,
            is_named: false,
            is_name_final: false,
            nr_held: 0,
            arrived: Vec::new(),
        };
        self.files.insert(identity, file);
    }

    /// Notes what came in before files are looked at.
    fn note(&mut self, came: &[Arrival]) {
        for arrival in came {
            let file = FileId::from(arrival.file);
            let identity = file.identity();
            if !self.files.contains_key(&identity) {
                if self.come.len() >= KNOWN_MAX {
                    self.come.clear();
                }
                let nr_pages = self.come.entry(identity).or_default();
                *nr_pages += arrival.nr_pages;
                if *nr_pages < COME_PAGES_MIN {
                    continue;
                }
                self.come.remove(&identity);
                self.follow(&file, UNSEARCHED_MAX);
            }
            if let Some(known) = self.files.get_mut(&identity) {
                known.id.follow_to(&arrival.file);
                known.arrived.push((arrival.index, arrival.nr_pages));
            }
        }
    }

    /// Looks no more at files that are not followed any more.
    fn forget(&mut self, listed: &[ListedFile]) {
        let ended = listed.iter().filter(|listed| !listed.is_followed);
        let ended: HashMap<u32, Left> = ended.map(|listed| (listed.file, listed.left)).collect();
        if ended.is_empty() {
            return;
        }
        let (known, left_out) = (&mut self.known, &mut self.left_out);
        self.files.retain(|identity, file| {
            let left = ended.get(&file.number);
            if left == Some(&Left::Gone) {
                known.remove(identity);
                // What the last search found may name it for a while.
                if left_out.len() >= KNOWN_MAX {
                    left_out.clear();
                }
                left_out.insert(*identity);
            }
            left.is_none()
        });
    }
}

/// What is remembered of a page's count of reads. One that goes no further than the first read is full after it, and
/// would tell a read at each census of a page that was read once: it does not count as full.
fn reads_told(nr_reads: u32, nr_reads_max: u32) -> u32 {
    match nr_reads >= nr_reads_max && nr_reads_max > 1 {
        true => COUNT_FULL,
        false => nr_reads,
    }
}

/// Which of the files that a search did not find are followed further, by how much they have in memory: those with most.
fn worth_following(held: impl Iterator<Item = (u64, Identity)>) -> HashSet<Identity> {
    let mut held: Vec<(u64, Identity)> = held
        .filter(|(nr_held, _)| *nr_held >= COME_PAGES_MIN)
        .collect();
    held.sort_unstable_by_key(|(nr_held, identity)| (Reverse(*nr_held), *identity));
    held.truncate(OTHERS_MAX);
    held.into_iter().map(|(_, identity)| identity).collect()
}

/// What became of the pages that a file has no more, while it has so many.
fn left_of(file: &FileId, nr_held: u64, names: &FileNames, mounts: &mut Mounts) -> Left {
    match standing(file, &names.mounts(file), mounts) {
        Standing::There(bytes) => Left::CutAt(bytes.div_ceil(PAGE_BYTES)),
        Standing::Deleted if nr_held == 0 => Left::Gone,
        Standing::Deleted | Standing::Unknown => Left::Kept,
    }
}

/// Names of files that have none in the recording yet, or have one that may get better.
#[derive(Debug)]
struct Names {
    /// The name, and whether no better one can be found.
    of: HashMap<Identity, (FileName, bool)>,
    mounts: FileNames,
}

impl Names {
    fn new(followed: &mut Followed) -> Names {
        let mounts = FileNames::of_mounts();
        let is_due = followed
            .looked
            .is_none_or(|looked| looked.elapsed() >= LOOK_PAUSE);
        let new: Vec<(Identity, FileId, u32)> = followed
            .files
            .iter()
            .filter(|(_, file)| !file.is_named || is_due && !file.is_name_final)
            .map(|(identity, file)| (*identity, file.id, file.number))
            .collect();
        if new.is_empty() {
            return Names {
                of: HashMap::new(),
                mounts,
            };
        }
        let census = followed.pages.census();
        let groups = GroupNames::read().ok();
        let mut open = None;
        let mut of = HashMap::new();
        for (identity, mut id, number) in new {
            let mut name = mounts.name(census, &id);
            let is_path = matches!(name, census::FileName::Path(_));
            if !is_path && is_due {
                followed.looked = Some(Instant::now());
                let open = open.get_or_insert_with(FileNames::read);
                id.is_deleted |= open.is_unlinked(&id);
                name = open.name(census, &id);
            }
            let group_id = followed.pages.group_of(&id);
            let group = group_id.and_then(|id| groups.as_ref()?.get(id));
            let (known, path) = told(&name, &id);
            let name = FileName {
                file: number,
                group: group.unwrap_or(&followed.group).to_owned(),
                known,
                path,
            };
            of.insert(identity, (name, is_path || is_due));
        }
        Names { of, mounts }
    }
}

/// What a recording says of a name.
fn told(name: &census::FileName, id: &FileId) -> (NameKnown, String) {
    let known = |known| match id.is_deleted {
        true => NameKnown::Deleted,
        false => known,
    };
    match name {
        census::FileName::Path(path) => (known(NameKnown::Path), path.display().to_string()),
        census::FileName::Inside(path) => (known(NameKnown::Inside), path.display().to_string()),
        census::FileName::Unknown => {
            let Device { major, minor } = id.device;
            let text = format!("device {major}:{minor}, inode {}", id.inode);
            (NameKnown::Nothing, text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(inode: u64) -> Identity {
        (Device { major: 8, minor: 1 }, inode, 0)
    }

    #[test]
    fn a_count_is_full_where_it_goes_no_further_but_not_after_the_first_read() {
        assert_eq!(
            [2, 3].map(|nr_reads| reads_told(nr_reads, 3)),
            [2, COUNT_FULL]
        );
        assert_eq!(
            [4, 5].map(|nr_reads| reads_told(nr_reads, 5)),
            [4, COUNT_FULL]
        );
        assert_eq!([0, 1].map(|nr_reads| reads_told(nr_reads, 1)), [0, 1]);
    }

    #[test]
    fn files_with_most_in_memory_are_followed_further() {
        let held = [(COME_PAGES_MIN, 1), (COME_PAGES_MIN - 1, 2), (900, 3)];
        let held = held.map(|(nr_held, inode)| (nr_held, identity(inode)));
        let expected = HashSet::from([identity(1), identity(3)]);
        assert_eq!(worth_following(held.into_iter()), expected);
        let many = (0..5000).map(|inode| (COME_PAGES_MIN + inode, identity(inode)));
        let kept = worth_following(many);
        assert_eq!(kept.len(), OTHERS_MAX);
        assert!(kept.contains(&identity(4999)) && !kept.contains(&identity(0)));
        const { assert!(OTHERS_MAX + 2 * FILES_MAX <= FOLLOWED_MAX) };
    }
}
