//! Stories of single rules, a file a stage of a page's life.

mod ageing;
mod command;
mod eviction;
mod groups;
mod look_around;
mod model;
mod models;
mod refault;
mod walk;
mod walkers;

use super::*;
use crate::bench_tests;
use crate::seam::{Cause, by_kind};

/// An engine with one group.
type Bench = bench_tests::Bench<MultiGen>;

impl Bench {
    fn new() -> Bench {
        Bench::with(Config::default())
    }

    fn with(config: Config) -> Bench {
        Bench::of(MultiGen::new(config).unwrap())
    }

    fn walk(&mut self) {
        self.now.0 += 1000;
        self.engine
            .finish_walk(self.group, self.swappiness, self.now)
            .unwrap();
        self.engine.validate().unwrap();
    }

    fn seq(&self, folio: FolioId) -> u64 {
        self.engine.generation(folio).unwrap().0
    }

    fn refs(&self, folio: FolioId) -> u32 {
        self.engine.counting.refs(self.engine.flags(folio))
    }

    fn window(&self) -> (u64, [u64; 2]) {
        let lruvec = &self.engine.books.lruvecs[0];
        (lruvec.max_seq, lruvec.min_seq)
    }
}
