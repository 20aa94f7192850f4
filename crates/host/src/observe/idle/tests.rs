//! The stamps against a map that remembers each page by itself.

use super::*;
use proptest::prelude::*;
use strata_linux::access::{TableRecord, TableShape};

const NR_PAGES: usize = 1200;

fn mapping(first_page: usize, end_page: usize, class: MappingClass, name: &str) -> Mapping {
    Mapping {
        range: AddrRange::new(first_page as u64 * PAGE_BYTES, end_page as u64 * PAGE_BYTES),
        class,
        unreclaimable: None,
        is_exec_file: false,
        has_recency: true,
        is_supplied: false,
        name: name.into(),
    }
}

/// What a walk finds of one page.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    is_present: bool,
    is_accessed: bool,
    is_dirty: bool,
}

/// Tells a walk of `pages` (from address 0 on) as the observer would.
fn tell(
    idle: &mut IdlePages,
    space: SpaceId,
    mappings: &[Mapping],
    pages: &[Found],
    tables: usize,
) {
    idle.begin_space(space, mappings);
    for (number, entries) in pages.chunks(TABLE_ENTRIES).enumerate().take(tables) {
        let mut record = TableRecord::empty(TableNo(number as u64), TableShape::Pages);
        for (index, page) in entries.iter().enumerate().filter(|(_, p)| p.is_present) {
            bits::insert(&mut record.present, index);
            if page.is_accessed {
                bits::insert(&mut record.accessed, index);
            }
            if page.is_dirty {
                bits::insert(&mut record.dirty, index);
            }
        }
        for (mapping_index, mapping) in mappings.iter().enumerate() {
            let piece = Piece {
                space,
                mapping,
                mapping_index,
                record: &record,
                mask: bits::entries(mapping.range, record.table),
            };
            if !bits::is_empty(piece.mask) {
                idle.piece(&piece);
            }
        }
    }
    idle.end(space, tables * TABLE_ENTRIES >= pages.len());
}

/// A page as the model remembers it.
#[derive(Clone, Copy, Debug)]
struct Remembered {
    /// The walk that last saw it accessed or, failing that, first saw it.
    since_s: (u64, u64),
    was_accessed: bool,
    is_anon: bool,
}

#[derive(Clone, Debug)]
enum Step {
    /// Seconds passed; of each space, how pages look (by a seed), and tables told before it broke off.
    Walk(u64, Vec<(u8, u64, usize)>),
    End(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let space = (
        0u8..3,
        any::<u64>(),
        prop_oneof![3 => Just(3usize), 1 => 0usize..3],
    );
    prop_oneof![
        6 => (1u64..100, prop::collection::vec(space, 0..3)).prop_map(|(s, v)| Step::Walk(s, v)),
        1 => (0u8..3).prop_map(Step::End),
    ]
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Pages that come, go, are used and written in runs.
fn pages(seed: u64) -> Vec<Found> {
    let mut state = seed | 1;
    let mut pages = vec![Found::default(); NR_PAGES];
    for _ in 0..12 {
        let first = random(&mut state) as usize % NR_PAGES;
        let end = (first + random(&mut state) as usize % 300).min(NR_PAGES);
        let look = random(&mut state);
        for page in &mut pages[first..end] {
            page.is_present = look & 3 != 0;
            page.is_accessed = look & 4 != 0;
            page.is_dirty = look & 8 != 0;
        }
    }
    pages
}

proptest! {
    #[test]
    fn every_window_and_bound_agrees_with_a_map_of_pages(
        steps in prop::collection::vec(step(), 1..30),
        window_s in 0u64..400,
    ) {
        let mappings = [
            mapping(5, 700, MappingClass::FilePrivate, "/lib"),
            mapping(700, 900, MappingClass::Anon, ""),
            mapping(1000, 1200, MappingClass::FileShared, "/data"),
        ];
        let mut idle = IdlePages::new();
        let mut model: BTreeMap<(u8, usize), Remembered> = BTreeMap::new();
        let (mut now_s, mut first_s) = (0, None);
        for step in steps {
            match step {
                Step::End(space) => {
                    idle.ended(SpaceId(space.into()));
                    model.retain(|(of, _), _| *of != space);
                }
                Step::Walk(seconds, spaces) => {
                    let before_s = if first_s.is_some() { now_s } else { now_s + seconds };
                    now_s += seconds;
                    let is_first = first_s.is_none();
                    first_s.get_or_insert(now_s);
                    idle.start_walk(Duration::from_secs(now_s));
                    let mut told = Vec::new();
                    for (space, seed, nr_tables) in spaces {
                        if told.contains(&space) {
                            continue;
                        }
                        told.push(space);
                        let pages = pages(seed);
                        tell(&mut idle, SpaceId(space.into()), &mappings, &pages, nr_tables);
                        for (number, page) in pages.iter().enumerate() {
                            let mapping = mappings.iter().find(|mapping| {
                                mapping.range.contains(number as u64 * PAGE_BYTES)
                            });
                            let Some(mapping) = mapping else { continue };
                            if number / TABLE_ENTRIES >= nr_tables {
                                continue;
                            }
                            if !page.is_present {
                                model.remove(&(space, number));
                                continue;
                            }
                            let seen = Remembered {
                                since_s: (before_s, now_s),
                                was_accessed: page.is_accessed && !is_first,
                                is_anon: false,
                            };
                            let known = model.entry((space, number)).or_insert(seen);
                            if seen.was_accessed {
                                *known = seen;
                            }
                            known.is_anon = match mapping.class {
                                MappingClass::FilePrivate => page.is_dirty,
                                class => class == MappingClass::Anon,
                            };
                        }
                    }
                    idle.validate();
                }
            }
        }
        let sum = |wanted: &dyn Fn(&Remembered) -> bool| {
            let mut sum = KindBytes::default();
            for page in model.values().filter(|page| wanted(page)) {
                let of_kind = if page.is_anon { &mut sum.anon_bytes } else { &mut sum.file_bytes };
                *of_kind += PAGE_BYTES;
            }
            sum
        };
        let census = idle.census();
        prop_assert_eq!(census.total.resident(), sum(&|_| true));
        let window = Duration::from_secs(window_s);
        prop_assert_eq!(
            census.total.accessed_within(window),
            // The middle of the interval, doubled; or the last walk.
            sum(&|p| p.was_accessed
                && (2 * now_s - p.since_s.0 - p.since_s.1 <= 2 * window_s || p.since_s.1 == now_s))
        );
        prop_assert_eq!(
            census.total.idle_for(window),
            sum(&|p| now_s - p.since_s.1 >= window_s)
        );
        prop_assert_eq!(census.watched.as_secs(), now_s - first_s.unwrap_or(now_s));
    }
}

const HERE: SpaceId = SpaceId(0);

fn present(accessed: std::ops::Range<usize>) -> Vec<Found> {
    let page = |number| Found {
        is_present: true,
        is_accessed: accessed.contains(&number),
        is_dirty: false,
    };
    (0..TABLE_ENTRIES).map(page).collect()
}

#[test]
fn windows_of_whole_intervals_hold_exactly_those_intervals() {
    let mappings = [mapping(0, 512, MappingClass::Heap, "[heap]")];
    let mut idle = IdlePages::new();
    // Each second another ten pages; walks are late by up to a tenth.
    for (walk, at_ms) in [0, 1000, 2080, 3050, 4010].into_iter().enumerate() {
        idle.start_walk(Duration::from_millis(at_ms));
        tell(
            &mut idle,
            HERE,
            &mappings,
            &present(walk * 10..walk * 10 + 10),
            1,
        );
    }
    let total = idle.census().total;
    let pages_within = |s| total.accessed_within(Duration::from_secs(s)).anon_bytes / PAGE_BYTES;
    assert_eq!(
        [0, 1, 2, 3, 4, 9].map(pages_within),
        [10, 10, 20, 30, 40, 40]
    );
    // What the first walk found accessed was so at an unknown time.
    let idle_pages = |s| total.idle_for(Duration::from_secs(s)).anon_bytes / PAGE_BYTES;
    assert_eq!(
        [0, 1, 2, 3, 4, 5].map(idle_pages),
        [512, 492, 482, 482, 472, 0]
    );
}

#[test]
fn a_late_walk_tells_what_is_known_and_for_how_long_it_stands() {
    let mappings = [mapping(0, 512, MappingClass::Heap, "[heap]")];
    let mut idle = IdlePages::new();
    // Stopped for a minute and a half in the middle of a watch.
    for (walk, at_s) in [0, 1, 2, 92].into_iter().enumerate() {
        idle.start_walk(Duration::from_secs(at_s));
        let used = walk * 10..walk * 10 + 10;
        tell(&mut idle, HERE, &mappings, &present(used), 1);
    }
    let census = idle.census();
    let told = |s| {
        let window = Duration::from_secs(s);
        let used = census.total.accessed_within(window).anon_bytes / PAGE_BYTES;
        (used, census.covered(window).as_secs())
    };
    assert_eq!([1, 60, 100].map(told), [(10, 90), (10, 60), (30, 92)]);
}

#[test]
fn a_page_that_comes_without_an_access_is_idle_since_it_came() {
    let mappings = [mapping(0, 512, MappingClass::FilePrivate, "/x")];
    let mut idle = IdlePages::new();
    idle.start_walk(Duration::ZERO);
    tell(&mut idle, HERE, &mappings, &[], 1);
    for at_s in [10, 20, 30] {
        idle.start_walk(Duration::from_secs(at_s));
        tell(&mut idle, HERE, &mappings, &present(0..0), 1);
    }
    let total = idle.census().total;
    assert_eq!(
        total.accessed_within(Duration::from_secs(100)),
        KindBytes::default()
    );
    assert_eq!(total.idle_for(Duration::from_secs(20)), total.resident());
    assert_eq!(
        total.idle_for(Duration::from_secs(21)),
        KindBytes::default()
    );
}

#[test]
fn mappings_of_one_name_and_class_are_counted_together_largest_first() {
    let mappings = [
        mapping(0, 100, MappingClass::Anon, ""),
        mapping(100, 150, MappingClass::FilePrivate, "/lib"),
        mapping(200, 300, MappingClass::FileShared, "/lib"),
        mapping(300, 512, MappingClass::Anon, ""),
        mapping(600, 700, MappingClass::FileShared, "/nothing-there"),
    ];
    let mut idle = IdlePages::new();
    for space in [SpaceId(1), SpaceId(2)] {
        idle.start_walk(Duration::ZERO);
        tell(&mut idle, space, &mappings, &present(0..0), 1);
    }
    let told = |census: &Census| -> Vec<(String, u64, u64)> {
        let told = |m: &MappingAges| {
            let nr_pages = m.ages.resident().total_bytes() / PAGE_BYTES;
            (m.name.to_string(), m.nr_mappings, nr_pages)
        };
        census.mappings.iter().map(told).collect()
    };
    let lib = || "/lib".to_owned();
    assert_eq!(
        told(&idle.census()),
        [(String::new(), 4, 624), (lib(), 2, 200), (lib(), 2, 100)]
    );
    assert_eq!(
        told(&idle.census_of(SpaceId(2)).unwrap()),
        [(String::new(), 2, 312), (lib(), 1, 100), (lib(), 1, 50)]
    );
    assert!(idle.census_of(SpaceId(3)).is_none());
}

#[test]
fn memory_goes_with_the_pages_and_with_the_space() {
    let mappings = [mapping(0, 512, MappingClass::Heap, "[heap]")];
    let mut idle = IdlePages::new();
    idle.start_walk(Duration::ZERO);
    tell(&mut idle, HERE, &mappings, &present(0..0), 1);
    let full_bytes = idle.footprint_bytes();
    // 2.3 bytes a page, as the module text says.
    assert!(
        (512 * 2..512 * 24 / 10).contains(&full_bytes),
        "{full_bytes}"
    );
    tell(&mut idle, HERE, &mappings, &[], 1);
    assert_eq!(idle.footprint_bytes(), 0);
    tell(&mut idle, HERE, &mappings, &present(0..0), 1);
    idle.ended(HERE);
    assert_eq!(idle.footprint_bytes(), 0);
    assert!(idle.census().mappings.is_empty());
}

#[test]
fn stamps_survive_the_merging_of_old_walks() {
    let mappings = [mapping(0, 512, MappingClass::Heap, "[heap]")];
    let mut idle = IdlePages::new();
    let mut last_used_s = [0u64; TABLE_ENTRIES];
    let mut state = 1;
    let mut now_s = 0;
    for walk in 0..10_000u64 {
        now_s = walk / 2;
        idle.start_walk(Duration::from_secs(now_s));
        let used = random(&mut state) as usize % TABLE_ENTRIES;
        // A third of the pages is never used after the first walk.
        let range = if used < 340 { used..used + 1 } else { 0..0 };
        if walk > 0 {
            range.clone().for_each(|page| last_used_s[page] = now_s);
        }
        tell(&mut idle, HERE, &mappings, &present(range), 1);
    }
    idle.validate();
    let total = idle.census().total;
    for bound_s in IDLE_BOUNDS_S {
        let told = total.idle_for(Duration::from_secs(bound_s)).anon_bytes / PAGE_BYTES;
        let older = |s: u64| {
            last_used_s
                .iter()
                .filter(|used| now_s - **used >= s)
                .count() as u64
        };
        assert!(told <= older(bound_s), "{bound_s}");
        assert!(
            told >= older(bound_s + bound_s / 60 + 1),
            "{bound_s}: {told}"
        );
    }
}
