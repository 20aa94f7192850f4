//! Queues of pages, linked by page number through one pair of arrays: a page is in one queue at most.
//!
//! **Owns** the links. **Does not own** which queue a page is in, which its user has to know.
//!
//! **Invariants**
//! - I1: from `oldest`, `younger` leads to `youngest` in `len` pages, and `older` back.

/// No page.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    older: u32,
    younger: u32,
}

/// The links of all pages.
#[derive(Debug)]
pub(super) struct Links(Vec<Link>);

/// One queue.
#[derive(Debug)]
pub(super) struct Queue {
    oldest: u32,
    youngest: u32,
    len: u32,
}

impl Links {
    pub(super) fn new(nr_pages: u32) -> Links {
        let unlinked = Link {
            older: NONE,
            younger: NONE,
        };
        Links(vec![unlinked; nr_pages as usize])
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        (self.0.capacity() * size_of::<Link>()) as u64
    }

    /// The page that came just after `page`.
    pub(super) fn younger(&self, page: u32) -> Option<u32> {
        some(self.0[page as usize].younger)
    }
}

impl Queue {
    pub(super) const EMPTY: Queue = Queue {
        oldest: NONE,
        youngest: NONE,
        len: 0,
    };

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn oldest(&self) -> Option<u32> {
        some(self.oldest)
    }

    /// Adds a page that is in no queue.
    pub(super) fn push(&mut self, links: &mut Links, page: u32) {
        links.0[page as usize] = Link {
            older: self.youngest,
            younger: NONE,
        };
        match some(self.youngest) {
            Some(before) => links.0[before as usize].younger = page,
            None => self.oldest = page,
        }
        self.youngest = page;
        self.len += 1;
    }

    /// Takes a page of this queue out.
    pub(super) fn remove(&mut self, links: &mut Links, page: u32) {
        let Link { older, younger } = links.0[page as usize];
        match some(older) {
            Some(older) => links.0[older as usize].younger = younger,
            None => self.oldest = younger,
        }
        match some(younger) {
            Some(younger) => links.0[younger as usize].older = older,
            None => self.youngest = older,
        }
        self.len -= 1;
    }

    /// Takes the oldest page out.
    pub(super) fn pop(&mut self, links: &mut Links) -> Option<u32> {
        let page = self.oldest()?;
        self.remove(links, page);
        Some(page)
    }
}

fn some(page: u32) -> Option<u32> {
    (page != NONE).then_some(page)
}
