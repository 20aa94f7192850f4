//! Page sequences: which page comes next, for ever.
//!
//! ```text
//!   uniform   any page, all alike
//!   zipf      few pages often, many seldom; where they lie is shuffled
//!   hotscan   zipf over a hot set, and once a period a run through cold pages
//!   loop      0, 1, 2, ... and again
//!   phases    zipf over one set of pages, then over another
//!   scan      pages in order, each once
//!   chain     one of these after the other
//! ```
//!
//! **Owns** the patterns. **Does not own** seeds, lengths or what an access looks like.

use super::{rng::Rng, zipf::Zipf};

/// Pages drawn by Zipf's law, their ranks shuffled over the range.
#[derive(Clone, Debug)]
pub(crate) struct Shuffled {
    zipf: Zipf,
    page_of_rank: Vec<u32>,
    rng: Rng,
}

impl Shuffled {
    /// `shuffle` decides where the ranks lie, `rng` what is drawn.
    pub(crate) fn new(
        nr_pages: u32,
        exponent_hundredths: u32,
        shuffle: &mut Rng,
        rng: Rng,
    ) -> Self {
        Shuffled {
            zipf: Zipf::new(nr_pages, exponent_hundredths),
            page_of_rank: shuffle.permutation(nr_pages),
            rng,
        }
    }

    fn next_page(&mut self) -> u32 {
        self.page_of_rank[self.zipf.rank(&mut self.rng) as usize]
    }
}

/// A hot set with a scan once a period. The scan goes on where the last one ended.
#[derive(Clone, Debug)]
pub(crate) struct HotScan {
    pub(crate) hot: Shuffled,
    pub(crate) nr_hot_pages: u32,
    pub(crate) nr_scan_pages: u32,
    /// Accesses in a period; the last `nr_scan_accesses` of them scan.
    pub(crate) period_accesses: u64,
    pub(crate) nr_scan_accesses: u64,
    position: u64,
    cursor: u32,
}

impl HotScan {
    /// The hot pages come first, the scanned ones after them.
    pub(crate) fn new(
        hot: Shuffled,
        nr_scan_pages: u32,
        period_accesses: u64,
        nr_scan_accesses: u64,
    ) -> HotScan {
        HotScan {
            nr_hot_pages: hot.page_of_rank.len() as u32,
            hot,
            nr_scan_pages: nr_scan_pages.max(1),
            period_accesses: period_accesses.max(1),
            nr_scan_accesses,
            position: 0,
            cursor: 0,
        }
    }

    fn next_page(&mut self) -> u32 {
        let left = self.period_accesses - self.position;
        self.position = (self.position + 1) % self.period_accesses;
        if left > self.nr_scan_accesses {
            return self.hot.next_page();
        }
        let page = self.nr_hot_pages + self.cursor;
        self.cursor = (self.cursor + 1) % self.nr_scan_pages;
        page
    }
}

/// A set of pages of its own for each phase; the last phase does not end.
#[derive(Clone, Debug)]
pub(crate) struct Phases {
    zipf: Zipf,
    rng: Rng,
    page_of_rank: Vec<Vec<u32>>,
    phase_accesses: u64,
    position: u64,
    phase: usize,
}

impl Phases {
    /// One shuffle a phase.
    pub(crate) fn new(
        nr_pages: u32,
        exponent_hundredths: u32,
        shuffles: &mut [Rng],
        rng: Rng,
        phase_accesses: u64,
    ) -> Phases {
        Phases {
            zipf: Zipf::new(nr_pages, exponent_hundredths),
            rng,
            page_of_rank: shuffles
                .iter_mut()
                .map(|shuffle| shuffle.permutation(nr_pages))
                .collect(),
            phase_accesses: phase_accesses.max(1),
            position: 0,
            phase: 0,
        }
    }

    fn next_page(&mut self) -> u32 {
        if self.position == self.phase_accesses && self.phase + 1 < self.page_of_rank.len() {
            self.phase += 1;
            self.position = 0;
        }
        self.position += 1;
        let pages = &self.page_of_rank[self.phase];
        let rank = self.zipf.rank(&mut self.rng) as usize;
        (self.phase * pages.len()) as u32 + pages[rank]
    }
}

/// One sequence after the other, each for so many accesses; the last does not end.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    stretches: Vec<Sequence>,
    stretch_accesses: u64,
    position: u64,
    stretch: usize,
}

impl Chain {
    /// The sequences in order; at least one.
    pub(crate) fn new(stretches: Vec<Sequence>, stretch_accesses: u64) -> Chain {
        Chain {
            stretches,
            stretch_accesses: stretch_accesses.max(1),
            position: 0,
            stretch: 0,
        }
    }

    fn next_page(&mut self) -> u32 {
        if self.position == self.stretch_accesses && self.stretch + 1 < self.stretches.len() {
            self.stretch += 1;
            self.position = 0;
        }
        self.position += 1;
        self.stretches[self.stretch].next_page()
    }
}

/// A pattern in progress.
#[derive(Clone, Debug)]
pub(crate) enum Sequence {
    Uniform { nr_pages: u32, rng: Rng },
    Zipf(Shuffled),
    HotScan(HotScan),
    Loop { nr_pages: u32, next: u32 },
    Phases(Phases),
    Scan { next: u32 },
    Chain(Chain),
}

impl Sequence {
    /// The next page number.
    pub(crate) fn next_page(&mut self) -> u32 {
        match self {
            Sequence::Uniform { nr_pages, rng } => rng.below(*nr_pages),
            Sequence::Zipf(shuffled) => shuffled.next_page(),
            Sequence::HotScan(hot_scan) => hot_scan.next_page(),
            Sequence::Loop { nr_pages, next } => {
                let page = *next;
                *next = (page + 1) % *nr_pages;
                page
            }
            Sequence::Phases(phases) => phases.next_page(),
            Sequence::Scan { next } => {
                let page = *next;
                // More pages than a trace can have are the first ones again.
                *next = page.wrapping_add(1);
                page
            }
            Sequence::Chain(chain) => chain.next_page(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(sequence: &mut Sequence, len: usize) -> Vec<u32> {
        (0..len).map(|_| sequence.next_page()).collect()
    }

    #[test]
    fn a_chain_turns_from_one_sequence_to_the_next_and_stays_with_the_last() {
        let again = || Sequence::Loop {
            nr_pages: 2,
            next: 0,
        };
        let stretches = vec![again(), Sequence::Scan { next: 7 }, again()];
        let mut sequence = Sequence::Chain(Chain::new(stretches, 3));
        let pages = take(&mut sequence, 12);
        assert_eq!(pages, [0, 1, 0, 7, 8, 9, 0, 1, 0, 1, 0, 1]);
    }
}
