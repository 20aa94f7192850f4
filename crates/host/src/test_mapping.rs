//! A mapping as tests make one up.

use strata_linux::addr::{AddrRange, PAGE_BYTES};
use strata_linux::process::{Mapping, MappingClass};

/// A plain mapping of these pages, of no file that is known.
pub(crate) fn mapping(first_page: u64, end_page: u64, class: MappingClass) -> Mapping {
    Mapping {
        range: AddrRange::new(first_page * PAGE_BYTES, end_page * PAGE_BYTES),
        class,
        unreclaimable: None,
        is_exec_file: false,
        is_bound: false,
        has_recency: true,
        is_supplied: false,
        name: "".into(),
        file: None,
    }
}
