//! The user of a phone, who takes one app after the other to the front.
//!
//! **Owns** which app is next. **Does not own** what an app is made of (`mod`), nor whose turn it is (`turns`).

use super::{rng::Rng, zipf::Zipf};

/// Who takes apps to the front, most likely one that was there of late.
#[derive(Clone, Debug)]
pub(super) struct User {
    /// The app in front first, that which was there longest ago last.
    apps: Vec<u32>,
    by_recency: Zipf,
    rng: Rng,
    /// Streams of each app.
    nr_kinds: u32,
    in_front_accesses: u64,
    nr_left_in_front: u64,
    has_begun: bool,
}

impl User {
    /// The apps have started in order of their numbers; at least two.
    pub(super) fn new(
        nr_apps: u32,
        nr_kinds: u32,
        in_front_accesses: u64,
        exponent_hundredths: u32,
        rng: Rng,
    ) -> User {
        User {
            apps: (0..nr_apps).rev().collect(),
            by_recency: Zipf::new(nr_apps - 1, exponent_hundredths),
            rng,
            nr_kinds,
            in_front_accesses,
            nr_left_in_front: 0,
            has_begun: false,
        }
    }

    /// Whether an app was taken to the front.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// The stream of the next access: any of those of the app in front.
    pub(super) fn next_stream(&mut self) -> usize {
        self.has_begun = true;
        if self.nr_left_in_front == 0 {
            self.nr_left_in_front = self.in_front_accesses;
            let rank = self.by_recency.rank(&mut self.rng) as usize;
            // Another one than that in front.
            self.apps[..rank + 2].rotate_right(1);
        }
        self.nr_left_in_front -= 1;
        (self.apps[0] * self.nr_kinds + self.rng.below(self.nr_kinds)) as usize
    }
}
