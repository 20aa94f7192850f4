//! What walks of made-up spaces find, at random, and how the ledger is told of it.

use super::tests::{random, set};
use super::*;

const NR_PAGES: u64 = 1200;

pub(super) fn place(first_page: u64, end_page: u64, home: Home, standing: Standing) -> Place {
    Place {
        first_page,
        end_page,
        home,
        standing,
    }
}

/// The mappings of a space: one of each sort, of which `without` may be missing.
pub(super) fn places(space: u8, without: usize) -> Vec<Place> {
    let shift = u64::from(space) * 30;
    let all = [
        place(5, 700, Home::Copied(ObjectNo(1), 3 + shift), Standing::Code),
        place(700, 900, Home::Private, Standing::Ordinary),
        place(900, 950, Home::Private, Standing::Kept),
        place(950, 1000, Home::Private, Standing::Unseen),
        place(
            1000,
            1100,
            Home::Shared(ObjectNo(2), 460 + shift),
            Standing::Ordinary,
        ),
        place(1100, 1200, Home::Shared(ObjectNo(3), 0), Standing::Unseen),
    ];
    let left = all.into_iter().enumerate();
    left.filter(|(index, _)| *index != without)
        .map(|(_, place)| place)
        .collect()
}

/// What a walk finds of one page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    pub(super) is_present: bool,
    pub(super) is_accessed: bool,
    pub(super) is_anon: bool,
    pub(super) is_unseen: bool,
    /// Holds nothing, not even where a page went.
    pub(super) is_empty: bool,
}

/// Pages that come, go, are used and written in runs.
pub(super) fn pages(seed: u64) -> Vec<Found> {
    let mut state = seed | 1;
    let mut pages = vec![Found::default(); NR_PAGES as usize];
    for _ in 0..12 {
        let first = random(&mut state) as usize % pages.len();
        let end = (first + random(&mut state) as usize % 300).min(pages.len());
        let look = random(&mut state);
        for page in &mut pages[first..end] {
            page.is_present = look & 3 != 0;
            page.is_accessed = look & 4 != 0;
            page.is_anon = look & 8 != 0;
            page.is_unseen = look & 0x70 == 0x70;
            page.is_empty = !page.is_present && look & 0x80 != 0;
        }
    }
    pages
}

/// Tells a walk as one who looks at live processes would: by table and place, tables without pages left out.
pub(super) fn tell(
    ledger: &mut Ledger,
    space: SpaceNo,
    mapped: &[Place],
    pages: &[Found],
    nr_tables: usize,
) {
    ledger.begin(space, mapped.iter().copied());
    for (table_no, entries) in pages.chunks(NR_ENTRIES).enumerate().take(nr_tables) {
        let (mut resident, mut accessed) = ([0; 8], [0; 8]);
        let (mut anon, mut unseen, mut empty) = ([0; 8], [0; 8], [0; 8]);
        for (index, _) in entries.iter().enumerate().filter(|(_, p)| p.is_empty) {
            set(&mut empty, index);
        }
        for (index, page) in entries.iter().enumerate().filter(|(_, p)| p.is_present) {
            set(&mut resident, index);
            if page.is_accessed {
                set(&mut accessed, index);
            }
            if page.is_anon {
                set(&mut anon, index);
            }
            if page.is_unseen {
                set(&mut unseen, index);
            }
        }
        if resident == [0; 8] {
            continue;
        }
        for place in mapped {
            let mask = bits::entries(place.first_page, place.end_page, table_no as u64);
            if mask != [0; 8] {
                let is_private = place.home == Home::Private;
                let told = Told {
                    mask,
                    resident,
                    accessed,
                    anon: if is_private { resident } else { anon },
                    empty: if is_private { empty } else { [0; 8] },
                    unseen,
                };
                ledger.told(space, table_no as u64, &told);
            }
        }
    }
    ledger.end(space, nr_tables * NR_ENTRIES >= pages.len());
}
