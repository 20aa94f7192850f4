//! What a walk of 1 GiB costs in the ledger of ages, and what its questions cost.
//!
//! ```text
//! cargo run --release -p strata-lru --example ages
//! ```
#![expect(clippy::print_stdout, reason = "printing is what the example is for")]
#![expect(
    clippy::disallowed_methods,
    reason = "measuring takes a clock; the engine itself has none"
)]

use std::time::{Duration, Instant};
use strata_lru::ages::{Bits, FamilyNo, Home, Ledger, Place, Query, Standing, Told};
use strata_lru::{GroupId, Kind, SpaceNo};

/// Page tables of 1 GiB.
const NR_TABLES: u64 = 512;
const NR_ROUNDS: u32 = 50;
const SPACE: SpaceNo = SpaceNo(0);

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Accessed bits of each table: all, none, or one page in two.
fn accessed(share: &str, state: &mut u64) -> Bits {
    std::array::from_fn(|_| match share {
        "all" => u64::MAX,
        "none" => 0,
        _ => random(state),
    })
}

fn main() {
    let mut state = 1;
    for share in ["all", "half", "none"] {
        let mut ledger = Ledger::new();
        ledger.appeared(SPACE, GroupId(0), FamilyNo(0));
        let place = Place {
            first_page: 0,
            end_page: NR_TABLES * 512,
            home: Home::Private,
            standing: Standing::Ordinary,
        };
        let mut telling = Duration::MAX;
        for round in 0..NR_ROUNDS {
            let told: Vec<Told> = (0..NR_TABLES)
                .map(|_| Told {
                    mask: [u64::MAX; 8],
                    resident: [u64::MAX; 8],
                    accessed: accessed(share, &mut state),
                    anon: [u64::MAX; 8],
                    unseen: [0; 8],
                })
                .collect();
            let started = Instant::now();
            ledger.start_walk(Duration::from_secs(round.into()));
            ledger.begin(SPACE, [place]);
            for (table_no, told) in told.iter().enumerate() {
                ledger.told(SPACE, table_no as u64, told);
            }
            ledger.end(SPACE, true);
            telling = telling.min(started.elapsed());
        }
        let started = Instant::now();
        let ages = ledger.count(1, |_, _| Some(0)).total;
        let counting = started.elapsed();
        let started = Instant::now();
        let candidates = ledger.candidates(&Query {
            group: GroupId(0),
            kind: Some(Kind::Anon),
            older_than: Duration::from_secs(2),
            nr_pages_max: 16_384,
        });
        let choosing = started.elapsed();
        println!(
            "1 GiB, {share:>4} of it accessed: a walk {telling:?}, a count {counting:?}, 64 MiB of candidates {choosing:?} \
             ({} of {} pages, {} runs), {:.2} bytes a page",
            candidates.nr_pages,
            candidates.nr_fitting_pages,
            candidates.runs.len(),
            ledger.footprint_bytes() as f64 / ages.resident().total() as f64,
        );
    }
}
