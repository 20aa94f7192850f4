//! What things cost in virtual time: one table, each line with what it was measured by.
//!
//! | price | default, ns | of what | what it was measured by |
//! |---|---|---|---|
//! | `access` | 60 | an access that finds its page | `zipf --size 300M --theta 0.99` without a limit: 16.7 million operations a second |
//! | `zero` | 500 | the first touch of an anon page | as `sim --cost`: a page fault and a cleared page |
//! | `read` | 100000 | a page of a file read, for which its program waits | as `sim --cost`: a 4 KiB random read of a NVMe SSD |
//! | `swap-in` | 5000 | an anon page that comes back | as `sim --cost`: a fault and decompressing from zram |
//! | `minor` | 500 | a fault that finds its page | as `zero` |
//! | `direct` | 7400 | an anon page that a program frees in its own fault | `docs/validation/benchmarks/scan_cost.md`, zram, none |
//! | `direct-file` | 1800 | the same of a page of a file | the same, less compression (4.4) and swap (1.2) |
//! | `reclaim` | 9500 | an anon page that the kernel frees at our request | the same, auto: 10.2 us less what walks (0.6) and the rest (0.1) take |
//! | `reclaim-file` | 4000 | the same of a page of a file | the same, less compression (4.7) and swap (0.8) |
//! | `page-out` | 25000 | a page taken by `MADV_PAGEOUT` while its program runs | `docs/validation/speed.md`: 25 us, 14 of them to interrupt the program |
//! | `page-out-idle` | 11000 | a page taken one by one while no program runs | the same: 25 less 14 |
//! | `touch` | 1500 | a page touched twice by `process_vm_readv` | `docs/validation/speed.md`: 1.5 us |
//! | `clear-piece` | 500 | `MADV_COLD` of one more piece when bits are cleared | `make bench NAME=walk_cost` |
//! | `clear-page` | 110 | one more page in a piece | the same |
//! | `clear-refs` | 48 | a page that `clear_refs` goes through | the same: 43 to 49 |
//! | `pause` | 50000 | between two calls that hold the lock of an address space | `crates/host/src/hold_up.rs` |
//! | `walk` | 2 | a page-table entry read by a walk | the same as `clear-piece`: 1.3 to 2.1 |
//! | `note` | 20 | a page in memory that a walk tells the engine of | `make bench NAME=tick_cost`, less `walk` and `clear-refs` |
//! | `census` | 250 | a page of page cache that a census looks at | `docs/decisions/25-page-cache-read-once.md` |
//! | `arrival` | 140 | a page that comes to page cache and is taken in | `Newcomers::take` of a million pages: 137 |
//! | `drop` | 750 | a page of page cache that is dropped | `posix_fadvise` of 512 pages a call, in folios of one page: 748 |
//! | `drop-call` | 1500 | a call that drops pages of a file | `posix_fadvise` of one page a call: 2,281, less `drop` |
//! | `tick` | 36000 | a tick of the loop that does not walk | `crates/control/src/cpu/demand.rs`: a look at a program with one thread, 6 us each |
//!
//! The prices are measurements, not results: nothing is fitted to what a live run misses.
//!
//! **Owns** the prices. **Does not own** what is counted with them.
//!
//! **Invariants** I1: the table names every price with its value.

macro_rules! prices {
    ($($(#[$doc:meta])* $name:ident = $text:literal: $ns:literal;)*) => {
        $($(#[$doc])* pub(super) const $name: u64 = $ns;)*

        #[cfg(test)]
        const ALL: &[(&str, u64)] = &[$(($text, $name)),*];
    };
}

prices! {
    /// An access that finds its page.
    ACCESS_NS = "access": 60;
    /// The first touch of an anon page.
    ZERO_NS = "zero": 500;
    /// A page of a file read.
    READ_NS = "read": 100_000;
    /// An anon page that comes back.
    SWAP_IN_NS = "swap-in": 5000;
    /// A fault that finds its page.
    MINOR_NS = "minor": 500;
    /// An anon page that a program frees in its own fault.
    DIRECT_NS = "direct": 7400;
    /// A page of a file that a program frees in its own fault.
    DIRECT_FILE_NS = "direct-file": 1800;
    /// An anon page that the kernel frees at our request.
    RECLAIM_NS = "reclaim": 9500;
    /// A page of a file that the kernel frees at our request.
    RECLAIM_FILE_NS = "reclaim-file": 4000;
    /// A page taken one by one while its program runs.
    PAGE_OUT_NS = "page-out": 25_000;
    /// A page taken one by one while no program runs.
    PAGE_OUT_IDLE_NS = "page-out-idle": 11_000;
    /// A page touched.
    TOUCH_NS = "touch": 1500;
    /// One more piece whose bits are cleared.
    CLEAR_PIECE_NS = "clear-piece": 500;
    /// One more page in a piece.
    CLEAR_PAGE_NS = "clear-page": 110;
    /// A page that is gone through where a whole space is cleared at once.
    CLEAR_REFS_NS = "clear-refs": 48;
    /// Between two calls that hold the lock of an address space.
    PAUSE_NS = "pause": 50_000;
    /// A page-table entry read.
    WALK_NS = "walk": 2;
    /// A page in memory that the engine is told of.
    NOTE_NS = "note": 20;
    /// A page of page cache that a census looks at.
    CENSUS_NS = "census": 250;
    /// A page that comes to page cache and is taken in.
    ARRIVAL_NS = "arrival": 140;
    /// A page of page cache that is dropped.
    DROP_NS = "drop": 750;
    /// A call that drops pages of a file.
    DROP_CALL_NS = "drop-call": 1500;
    /// A tick that does not walk.
    TICK_NS = "tick": 36_000;
}

/// What a program pays that frees pages in its own fault, by kind.
pub(super) const DIRECT_KINDS_NS: [u64; 2] = [DIRECT_NS, DIRECT_FILE_NS];
/// What a request of ours pays.
pub(super) const RECLAIM_KINDS_NS: [u64; 2] = [RECLAIM_NS, RECLAIM_FILE_NS];

/// The price of so many pages by kind.
pub(super) fn of_kinds(nr_pages: [u64; 2], prices_ns: [u64; 2]) -> u64 {
    nr_pages[0] * prices_ns[0] + nr_pages[1] * prices_ns[1]
}

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn the_table_names_every_price_with_its_value() {
        let table = include_str!("prices.rs");
        for (name, ns) in ALL {
            let line = format!("//! | `{name}` | {ns} |");
            assert!(table.contains(&line), "{line}");
        }
        let nr_lines = table
            .lines()
            .filter(|line| line.starts_with("//! | `"))
            .count();
        assert_eq!(nr_lines, ALL.len(), "a line that names no price");
    }
}
