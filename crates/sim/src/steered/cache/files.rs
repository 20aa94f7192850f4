//! The files of a trace that are accessed through descriptors, page by page.
//!
//! A space of the trace is a file. Its pages are numbered from 0 in the order of their numbers in the trace: pages that never come
//! up take no number, so a sparse trace costs no more than a dense one.
//!
//! **Owns** which page of which file lies at which slot. **Does not own** what is in memory (`mechanism`).
//!
//! **Invariants** I1: a page has one slot, and a slot at most one page.

use std::ops::Range;

use strata_control::page_cache::{FileId, FileKey};
use strata_trace::Via;

use crate::{
    mechanism::{bits::Bits, layout::Layout},
    workload::{PageId, Workload},
};

/// No page of a file.
const NOWHERE: u32 = u32::MAX;

/// One file.
#[derive(Clone, Debug)]
struct File {
    space: u32,
    /// Its part of the pages of all files.
    span: Range<usize>,
}

impl File {
    fn id(&self) -> FileId {
        let number = u64::from(self.space);
        FileId {
            device: 0,
            inode: number,
            generation: 0,
            key: FileKey(number),
            is_in_memory_only: false,
        }
    }
}

/// All files that have pages accessed through descriptors.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// In the order of their spaces.
    files: Vec<File>,
    /// Slots of the pages, file by file.
    slots: Vec<u32>,
    /// By slot: where in `slots` it stands.
    places: Vec<u32>,
}

impl Files {
    /// Those of a workload.
    pub(super) fn new(workload: &Workload, layout: &Layout) -> Files {
        let mut is_read = Bits::new(workload.nr_pages());
        for request in workload.requests() {
            if request.via() == Via::FileDescriptor {
                is_read.set(request.page().0);
            }
        }
        let is_cached =
            |page: &PageId| is_read.get(page.0) && workload.page(*page).backing.is_file();
        let pages = (0..workload.nr_pages()).map(PageId).filter(is_cached);
        let mut pages: Vec<PageId> = pages.collect();
        let space = |page: &PageId| workload.page(*page).key.space;
        // Of a page that is freed and used again the earlier one comes first.
        pages.sort_unstable_by_key(|page| (space(page), workload.page(*page).key.page, page.0));
        let mut files = Vec::new();
        let mut first = 0;
        for of_file in pages.chunk_by(|a, b| space(a) == space(b)) {
            let span = first..first + of_file.len();
            first = span.end;
            files.extend(of_file.first().map(|page| File {
                space: space(page),
                span,
            }));
        }
        let slots: Vec<u32> = pages.iter().map(|page| layout.slot(*page)).collect();
        let mut places = match slots.is_empty() {
            true => Vec::new(),
            false => vec![NOWHERE; layout.nr_slots() as usize],
        };
        for (slot, place) in slots.iter().zip(0..) {
            places[*slot as usize] = place;
        }
        Files {
            files,
            slots,
            places,
        }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// All files.
    pub(super) fn all(&self) -> impl Iterator<Item = FileId> {
        self.files.iter().map(File::id)
    }

    /// Which page of which file is at a slot.
    pub(super) fn page_at(&self, slot: u32) -> Option<(FileId, u64)> {
        let place = *self.places.get(slot as usize)?;
        let at = self
            .files
            .partition_point(|file| file.span.end <= place as usize);
        let file = self.files.get(at).filter(|_| place != NOWHERE)?;
        Some((file.id(), (place as usize - file.span.start) as u64))
    }

    /// Slots of a file, by page.
    fn slots_of(&self, file: FileKey) -> &[u32] {
        let at = self
            .files
            .binary_search_by_key(&file.0, |of| u64::from(of.space));
        at.map_or(&[], |at| &self.slots[self.files[at].span.clone()])
    }

    /// All pages of a file with their slots.
    pub(super) fn pages(&self, file: FileKey) -> impl Iterator<Item = (u64, u32)> {
        (0..).zip(self.slots_of(file).iter().copied())
    }

    /// Slots of some pages of a file.
    pub(super) fn slots(&self, file: FileKey, range: Range<u64>) -> impl Iterator<Item = u32> {
        let slots = self.slots_of(file);
        let at = |index: u64| usize::try_from(index).map_or(slots.len(), |at| at.min(slots.len()));
        slots[at(range.start)..at(range.end)].iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use strata_trace::{Access, PageKey};

    use strata_trace::Backing;

    use super::*;

    #[test]
    fn a_space_is_a_file_and_only_what_is_read_through_descriptors_is_in_it() {
        let access = |space, page, via, backing| Access {
            key: PageKey { space, page },
            via,
            backing,
            ..Access::default()
        };
        let accesses = [
            access(7, u64::MAX, Via::FileDescriptor, Backing::File),
            access(3, 9, Via::FileDescriptor, Backing::File),
            access(7, 4, Via::PageTable, Backing::File),
            access(7, 5, Via::PageTable, Backing::File),
            access(7, 4, Via::FileDescriptor, Backing::File),
            access(9, 0, Via::FileDescriptor, Backing::Anon),
        ];
        let workload = Workload::from_accesses("test", accesses).unwrap();
        let layout = Layout::new(&workload);
        let files = Files::new(&workload, &layout);
        assert_eq!(files.all().map(|of| of.inode).collect::<Vec<_>>(), [3, 7]);
        let of_page = |page| layout.slot(PageId(page));
        let pages = |file| files.pages(FileKey(file)).collect::<Vec<_>>();
        assert_eq!(pages(7), [(0, of_page(2)), (1, of_page(0))]);
        assert_eq!(pages(3), [(0, of_page(1))]);
        assert_eq!(pages(9), []);
        let slots = files.slots(FileKey(7), 1..u64::MAX);
        assert_eq!(slots.collect::<Vec<_>>(), [of_page(0)]);
        let at = |page| {
            files
                .page_at(of_page(page))
                .map(|(file, at)| (file.inode, at))
        };
        let expected = [Some((7, 1)), Some((3, 0)), Some((7, 0)), None, None];
        assert_eq!([0, 1, 2, 3, 4].map(at), expected);
    }
}
