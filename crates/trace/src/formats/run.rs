//! What one record or line of a trace asks for: some pages in a row.
//!
//! **Owns** turning ids and sizes into pages, and handing out long runs a batch at a time.
//! **Does not own** how a record is laid out.

use crate::access::{Access, Backing, Via};
use crate::error::Reason;
use crate::format::Format;
use crate::reader::{BATCH_LEN, OpenOptions, Sizes};

/// Bytes of a page.
pub(crate) const PAGE_BYTES: u64 = 4096;
/// Most pages one request may touch (4 GiB): a larger one is a broken number, not a request.
const RUN_PAGES_MAX: u64 = 1 << 20;

/// A request: pages in a row, accessed one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// The access of its first page.
    pub(crate) access: Access,
    /// Pages still to be accessed; 0 is nothing.
    pub(crate) nr_pages: u64,
}

impl Run {
    /// No request at all, as a comment or a mark is.
    pub(crate) fn skip(&mut self) {
        self.nr_pages = 0;
    }

    /// Accesses `nr_pages` pages from `first` on.
    pub(crate) fn set_pages(&mut self, first: u64, nr_pages: u64) -> Result<(), Reason> {
        if nr_pages > RUN_PAGES_MAX {
            let found = nr_pages.to_string();
            return Err(Reason::bad_value(
                "pages of a request",
                "at most 1048576",
                found.as_bytes(),
            ));
        }
        if first.checked_add(nr_pages).is_none() {
            let found = first.to_string();
            return Err(Reason::bad_value(
                "the last page",
                "a number below 2^64",
                found.as_bytes(),
            ));
        }
        self.access.key.page = first;
        self.nr_pages = nr_pages;
        Ok(())
    }

    /// Accesses the pages in which the `nr_bytes` from address `first` on lie.
    pub(crate) fn set_bytes(&mut self, first: u64, nr_bytes: u64) -> Result<(), Reason> {
        let Some(last) = first.checked_add(nr_bytes.max(1) - 1) else {
            let found = first.to_string();
            return Err(Reason::bad_value(
                "the last byte",
                "a number below 2^64",
                found.as_bytes(),
            ));
        };
        let first_page = first / PAGE_BYTES;
        self.set_pages(first_page, last / PAGE_BYTES - first_page + 1)
    }

    /// Moves accesses to `batch` until it is full or the run is at its end.
    pub(crate) fn hand_out(&mut self, batch: &mut Vec<Access>) {
        while self.nr_pages > 0 && batch.len() < BATCH_LEN {
            batch.push(self.access);
            self.access.key.page = self.access.key.page.wrapping_add(1);
            self.nr_pages -= 1;
        }
    }
}

/// What every request of a trace has in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    via: Via,
    backing: Backing,
    sizes: Sizes,
    id_bytes: u64,
    first_time_us: Option<u64>,
}

impl Stamp {
    pub(crate) fn new(format: Format, options: &OpenOptions) -> Stamp {
        Stamp {
            via: options.via.unwrap_or_else(|| format.default_via()),
            backing: options.backing.unwrap_or_else(|| format.default_backing()),
            sizes: options.sizes,
            id_bytes: options
                .id_bytes
                .map_or_else(|| format.id_bytes(), |bytes| u64::from(bytes.get())),
            first_time_us: None,
        }
    }

    /// A request of one page, for the record to fill in.
    pub(crate) fn run(&self) -> Run {
        Run {
            access: Access {
                via: self.via,
                backing: self.backing,
                ..Access::default()
            },
            nr_pages: 1,
        }
    }

    /// A request of `size_bytes` at the block, object or offset called `id`.
    pub(crate) fn set_id(&self, run: &mut Run, id: u64, size_bytes: u64) -> Result<(), Reason> {
        run.access.size_bytes = u32::try_from(size_bytes).unwrap_or(u32::MAX);
        match self.sizes {
            Sizes::Ignore => {
                run.access.key.page = id;
                Ok(())
            }
            Sizes::Expand => {
                let Some(first) = id.checked_mul(self.id_bytes) else {
                    // An id that is no address, such as a hash: its pages follow one another.
                    return run.set_pages(id, size_bytes.div_ceil(PAGE_BYTES).max(1));
                };
                run.set_bytes(first, size_bytes)
            }
        }
    }

    /// A request of `size_bytes` at a byte address.
    pub(crate) fn set_address(
        &self,
        run: &mut Run,
        address: u64,
        size_bytes: u64,
    ) -> Result<(), Reason> {
        run.access.size_bytes = u32::try_from(size_bytes).unwrap_or(u32::MAX);
        match self.sizes {
            Sizes::Ignore => run.set_bytes(address, 1),
            Sizes::Expand => run.set_bytes(address, size_bytes),
        }
    }

    /// Time since the first request.
    pub(crate) fn since_first(&mut self, time_us: u64) -> u64 {
        time_us.saturating_sub(*self.first_time_us.get_or_insert(time_us))
    }
}
