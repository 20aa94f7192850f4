//! What mappings are to the ledger, and what is told of them.

use super::*;
use crate::test_mapping;
use strata_linux::access::TableRecord;
use strata_linux::addr::TABLE_ENTRIES;
use strata_linux::process::Device;
use strata_lru::bits;

fn mapping(first_page: u64, end_page: u64, class: MappingClass, name: &str) -> Mapping {
    Mapping {
        name: name.into(),
        ..test_mapping::mapping(first_page, end_page, class)
    }
}

/// What a walk finds of one page.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    is_present: bool,
    is_accessed: bool,
}

/// Tells a walk of `pages` (from address 0 on) as the observer would.
fn tell(
    idle: &mut AgedPages,
    space: SpaceNo,
    mappings: &[Mapping],
    pages: &[Found],
    tables: usize,
) {
    idle.begin_space(space, mappings, false);
    for (number, entries) in pages.chunks(TABLE_ENTRIES).enumerate().take(tables) {
        let mut record = TableRecord::empty(TableNo(number as u64), TableShape::Pages);
        for (index, page) in entries.iter().enumerate().filter(|(_, p)| p.is_present) {
            bits::insert(&mut record.present, index);
            if page.is_accessed {
                bits::insert(&mut record.accessed, index);
            }
        }
        for (mapping_index, mapping) in mappings.iter().enumerate() {
            let piece = Piece {
                space,
                mapping,
                mapping_index,
                record: &record,
                mask: record.table.covered_by(mapping.range),
                unseen: bits::NONE,
            };
            if !bits::is_empty(piece.mask) {
                idle.piece(&piece);
            }
        }
    }
    idle.end(space, tables * TABLE_ENTRIES >= pages.len());
}

const HERE: SpaceNo = SpaceNo(0);

/// Knows of these spaces, and nothing of their pages.
fn watching(spaces: &[SpaceNo]) -> AgedPages {
    let mut pages = AgedPages::new();
    for space in spaces {
        pages.appear(*space, None);
    }
    pages
}

fn present(accessed: std::ops::Range<usize>) -> Vec<Found> {
    let page = |number| Found {
        is_present: true,
        is_accessed: accessed.contains(&number),
    };
    (0..TABLE_ENTRIES).map(page).collect()
}

#[test]
fn a_late_walk_tells_what_is_known_and_for_how_long_it_stands() {
    let mappings = [mapping(0, 512, MappingClass::Heap, "[heap]")];
    let mut idle = watching(&[HERE]);
    // Stopped for a minute and a half in the middle of a watch.
    for (walk, at_s) in [0, 1, 2, 92].into_iter().enumerate() {
        idle.start_walk(Duration::from_secs(at_s));
        let used = walk * 10..walk * 10 + 10;
        tell(&mut idle, HERE, &mappings, &present(used), 1);
    }
    let watched = idle.ages();
    let told = |s| {
        let window = Duration::from_secs(s);
        let used = watched.total.accessed_within(window).anon_bytes / PAGE_BYTES;
        (used, watched.covered(window).as_secs())
    };
    assert_eq!([1, 60, 100].map(told), [(10, 90), (10, 60), (30, 92)]);
}

#[test]
fn a_page_that_comes_without_an_access_is_idle_since_it_came() {
    let mappings = [mapping(0, 512, MappingClass::FilePrivate, "/x")];
    let mut idle = watching(&[HERE]);
    idle.start_walk(Duration::ZERO);
    tell(&mut idle, HERE, &mappings, &[], 1);
    for at_s in [10, 20, 30] {
        idle.start_walk(Duration::from_secs(at_s));
        tell(&mut idle, HERE, &mappings, &present(0..0), 1);
    }
    let total = idle.ages().total;
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
    let mut idle = watching(&[SpaceNo(1), SpaceNo(2)]);
    for space in [SpaceNo(1), SpaceNo(2)] {
        idle.start_walk(Duration::ZERO);
        tell(&mut idle, space, &mappings, &present(0..0), 1);
    }
    let told = |watched: &WatchedAges| -> Vec<(String, u64, u64)> {
        let told = |m: &MappingAges| {
            let nr_pages = m.ages.resident().total_bytes() / PAGE_BYTES;
            (m.name.to_string(), m.nr_mappings, nr_pages)
        };
        watched.mappings.iter().map(told).collect()
    };
    let lib = || "/lib".to_owned();
    assert_eq!(
        told(&idle.ages()),
        [(String::new(), 4, 624), (lib(), 2, 200), (lib(), 2, 100)]
    );
    assert_eq!(
        told(&idle.ages_of(|space| space == SpaceNo(2))),
        [(String::new(), 2, 312), (lib(), 1, 100), (lib(), 1, 50)]
    );
    assert_eq!(told(&idle.ages_of(|space| space == SpaceNo(3))), []);
}

/// A mapping of a file's pages from the one at `at_page` on.
fn of_file(mapping: Mapping, inode: u64, at_page: u64) -> Mapping {
    let file = FilePart {
        device: Device { major: 8, minor: 1 },
        inode,
        offset_bytes: at_page * PAGE_BYTES,
    };
    Mapping {
        file: Some(file),
        ..mapping
    }
}

#[test]
fn a_page_of_a_file_counts_once_however_many_processes_map_it_wherever() {
    let [one, two] = [SpaceNo(1), SpaceNo(2)];
    let mut pages = watching(&[one, two]);
    let lib = |first, end| mapping(first, end, MappingClass::FilePrivate, "/lib");
    let data = |first, end| mapping(first, end, MappingClass::FileShared, "/data");
    let of_one = [of_file(lib(0, 100), 7, 0), of_file(data(200, 300), 8, 50)];
    // The library lies elsewhere; of the file half of the same pages are mapped.
    let of_two = [of_file(lib(20, 120), 7, 0), of_file(data(300, 400), 8, 100)];
    for at_s in [0, 10] {
        pages.start_walk(Duration::from_secs(at_s));
        tell(&mut pages, one, &of_one, &present(0..0), 1);
        // It uses the second half of the library.
        tell(&mut pages, two, &of_two, &present(70..120), 1);
    }
    let watched = pages.ages();
    let nr_pages = |bytes: KindBytes| bytes.total_bytes() / PAGE_BYTES;
    assert_eq!(nr_pages(watched.total.resident()), 100 + 150);
    assert_eq!(nr_pages(watched.total.shared()), 0);
    assert_eq!(
        nr_pages(watched.total.idle_for(Duration::from_secs(10))),
        50 + 150
    );
    let (parts, total) = pages.count(2, |space| Some(usize::from(space == two)));
    assert_eq!(nr_pages(total.resident()), 250);
    let figures = |ages: &Ages| [nr_pages(ages.resident()), nr_pages(ages.shared())];
    assert_eq!(
        [figures(&parts[0]), figures(&parts[1])],
        [[200, 150], [200, 150]]
    );
    // The first one's library is as young as the second one's.
    let idle = nr_pages(parts[0].idle_for(Duration::from_secs(10)));
    assert_eq!(idle, 50 + 100);
}

#[test]
fn a_guests_memory_is_neither_idle_nor_used() {
    let mappings = [
        mapping(0, 100, MappingClass::Heap, "[heap]"),
        mapping(512, 512 + 4096, MappingClass::Anon, ""),
    ];
    let mut pages = watching(&[HERE]);
    for at_s in [0, 60] {
        pages.start_walk(Duration::from_secs(at_s));
        pages.begin_space(HERE, &mappings, true);
        for (table_no, mapping) in [(0, &mappings[0]), (1, &mappings[1])] {
            let mut record = TableRecord::empty(TableNo(table_no), TableShape::Pages);
            record.present = bits::run(0, 300);
            let mask = record.table.covered_by(mapping.range);
            pages.piece(&Piece {
                space: HERE,
                mapping,
                mapping_index: 0,
                record: &record,
                mask,
                unseen: bits::NONE,
            });
        }
        pages.end(HERE, true);
    }
    let total = pages.ages().total;
    let minute = Duration::from_secs(60);
    assert_eq!(total.resident().anon_bytes, 400 * PAGE_BYTES);
    assert_eq!(total.unknown().anon_bytes, 300 * PAGE_BYTES);
    assert_eq!(total.idle_for(minute).anon_bytes, 100 * PAGE_BYTES);
    assert_eq!(total.accessed_within(minute).anon_bytes, 0);
}
