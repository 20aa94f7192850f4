//! A killer of apps, after Android's: the groups of a trace are apps, of which one is in front at a time.
//!
//! ```text
//!   a page of a file comes back   counted since the app in front came there, or since the last kill
//!   so many came back             the app that was in front longest ago is killed: its anon pages are freed,
//!                                 its pages of files are page cache that nobody maps
//!   nothing can be evicted        the same
//!   a killed app comes to front   a cold start: its first turn is replayed before
//! ```
//!
//! Android's `lmkd` holds the pages of files that came back against those there are (`ro.lmk.thrashing_limit`), and counts
//! anew each second; here no time passes, so it is each turn. Of its other rules (pressure, free swap) none is played.
//!
//! **Owns** who is killed and when. **Does not own** what a kill does (`apps`).
//!
//! **Invariants** I1: the app in front is not killed.

use std::ops::Range;

use strata_lru::Kind;

use crate::{
    memory::MemorySize,
    outcome::AppCounts,
    workload::{Request, Workload},
};

/// What is known of the apps.
#[derive(Debug)]
pub(super) struct Killer {
    /// So many pages of files that came back are too many, of those in memory when the count began.
    kill_at: MemorySize,
    /// By number of the trace's group.
    apps: Vec<App>,
    in_front: Option<usize>,
    nr_came_back: u32,
    nr_too_many: u32,
    pub(super) counts: AppCounts,
}

#[derive(Clone, Debug, Default)]
struct App {
    /// The requests of its first turn.
    start: Range<usize>,
    /// The request that was its last; `None` while it does not run.
    ran_at: Option<usize>,
    is_killed: bool,
}

impl Killer {
    /// Nobody has run.
    pub(super) fn new(kill_at: MemorySize, workload: &Workload) -> Killer {
        let mut apps = vec![App::default(); usize::from(workload.nr_groups())];
        let group = |request: &Request| workload.page(request.page()).group;
        let mut position = 0;
        for turn in workload.requests().chunk_by(|a, b| group(a) == group(b)) {
            let app = &mut apps[usize::from(group(&turn[0]))];
            if app.start.is_empty() {
                app.start = position..position + turn.len();
            }
            position += turn.len();
        }
        Killer {
            kill_at,
            apps,
            in_front: None,
            nr_came_back: 0,
            nr_too_many: u32::MAX,
            counts: AppCounts::default(),
        }
    }

    /// An app runs; the requests of its start, if it was killed.
    pub(super) fn runs(
        &mut self,
        number: usize,
        position: usize,
        nr_file_pages: u32,
    ) -> Range<usize> {
        if self.in_front != Some(number) {
            self.in_front = Some(number);
            self.count_anew(nr_file_pages);
        }
        let app = &mut self.apps[number];
        app.ran_at = Some(position);
        match std::mem::take(&mut app.is_killed) {
            true => {
                self.counts.nr_cold_starts += 1;
                app.start.clone()
            }
            false => 0..0,
        }
    }

    /// A page came back.
    pub(super) fn came_back(&mut self, kind: Kind) {
        self.nr_came_back += u32::from(kind == Kind::File);
    }

    /// Whether too many have come back.
    pub(super) fn is_due(&self) -> bool {
        self.nr_came_back >= self.nr_too_many
    }

    fn count_anew(&mut self, nr_file_pages: u32) {
        self.nr_came_back = 0;
        self.nr_too_many = self.kill_at.pages(nr_file_pages);
    }

    /// Kills the app that was in front longest ago, if there is another than that in front. Either way the count begins anew.
    pub(super) fn kill(&mut self, nr_file_pages: u32) -> Option<usize> {
        self.count_anew(nr_file_pages);
        let others = self.apps.iter().enumerate().filter(|(number, app)| {
            self.in_front != Some(*number) && app.ran_at.is_some() && !app.is_killed
        });
        let (number, _) = others.min_by_key(|(_, app)| app.ran_at)?;
        self.apps[number].is_killed = true;
        self.counts.nr_kills += 1;
        Some(number)
    }
}
