//! Censuses compared: by hand, and against a model that knows every page.

use proptest::prelude::*;
use std::collections::BTreeSet;
use std::io::Cursor;

use strata_trace::recording::{About, NameKnown, RecordingInfo, WalkKind};
use strata_trace::{Access, AccessReader, Op, OpenOptions, open_stream};

use super::*;

const FILE: u32 = 7;

fn found(pages: &[(u64, u32, bool)]) -> FoundPages {
    let mut found = FoundPages::default();
    for (page, nr_reads, is_busy) in pages {
        found.hold(*page, 1, *nr_reads, *is_busy);
    }
    found
}

fn state() -> FileState {
    FileState {
        name: name(),
        tables: BTreeMap::new(),
    }
}

fn name() -> FileName {
    FileName {
        file: FILE,
        group: "/app".to_owned(),
        known: NameKnown::Path,
        path: "/srv/data".to_owned(),
    }
}

fn pages(bits: [u64; 8]) -> Vec<usize> {
    bits::ones(bits).collect()
}

#[test]
fn what_came_in_between_two_censuses_is_told_with_what_came_before_and_after() {
    let mut state = state();
    state.change(&found(&[(0, 1, false), (1, 0, false)]), Left::Kept);
    // Page 0 went and came back, page 2 came and went, page 3 came.
    let mut now = found(&[(0, 2, false), (1, 0, false), (3, 0, false)]);
    [0, 2, 3].into_iter().for_each(|page| now.arrive(page, 1));
    let pieces = state.change(&now, Left::Kept);
    let [first, second] = pieces[..] else {
        panic!("{pieces:?}")
    };
    assert_eq!(
        (pages(first.evicted), pages(first.appeared)),
        (vec![0], vec![2, 3])
    );
    assert_eq!(
        (pages(second.evicted), pages(second.appeared)),
        (vec![2], vec![0])
    );
    assert_eq!(pages(first.accessed), [0_usize; 0]);
}

#[test]
fn a_folio_is_all_its_pages_and_pages_without_end_are_left_out() {
    let mut found = FoundPages::default();
    found.hold(510, 4, 1, false);
    assert_eq!(found.nr_held(), 4);
    found.hold(PAGES_MAX - 1, 4, 0, false);
    assert_eq!(found.nr_held(), 5);
    assert!(found.has(513) && !found.has(514));
    found.hold(u64::MAX, 2, 0, false);
    assert_eq!(found.nr_held(), 5);
}

/// What a recording of these censuses says.
fn recorded(censuses: impl IntoIterator<Item = (FoundPages, Left)>) -> RecordingInfo {
    let mut writer = RecordingWriter::new("w", Vec::new(), &About::default()).expect("memory");
    let mut files = Files::default();
    for (at, (pages, left)) in censuses.into_iter().enumerate() {
        let kind = match at {
            0 => WalkKind::Baseline,
            _ => WalkKind::Interval,
        };
        writer.begin_walk(kind, at as u64).expect("memory");
        let listed = ListedFile {
            file: FILE,
            name: (at == 0).then(name),
            pages,
            left,
            is_followed: true,
        };
        files.tell(&mut writer, listed).expect("memory");
    }
    read(writer).1
}

fn read(writer: RecordingWriter<Vec<u8>>) -> (Vec<Access>, RecordingInfo) {
    let bytes = writer.finish().expect("memory");
    let options = OpenOptions::default();
    let opened = open_stream("t", Cursor::new(bytes), None, &options);
    let mut reader = opened.expect("a recording").reader;
    let (mut batch, mut all) = (Vec::new(), Vec::new());
    while reader.read_batch(&mut batch).expect("whole") > 0 {
        all.extend_from_slice(&batch);
    }
    (all, reader.recording().expect("a recording").clone())
}

#[test]
fn a_file_is_named_and_ends_when_it_is_deleted() {
    let info = recorded([
        (found(&[(0, 0, false), (9, 0, false)]), Left::Kept),
        (found(&[(0, 1, false)]), Left::Kept),
        (found(&[]), Left::Gone),
        (found(&[(5, 0, false)]), Left::Kept),
    ]);
    let file = &info.files[&FILE];
    assert_eq!(file.name.as_ref(), Some(&name()));
    assert_eq!(
        (file.nr_appeared, file.nr_accessed, info.nr_evicted),
        (2, 1, 1)
    );
}

#[test]
fn a_new_file_of_the_recording_begins_with_what_is_in_memory() {
    let mut files = Files::default();
    let mut writer = RecordingWriter::new("w", Vec::new(), &About::default()).expect("memory");
    writer.begin_walk(WalkKind::Baseline, 0).expect("memory");
    for number in [FILE, FILE + 1] {
        let listed = ListedFile {
            file: number,
            name: Some(name()),
            pages: found(&[(4, 1, false), (5, 0, true), (600, 0, false)]),
            left: Left::Kept,
            is_followed: number == FILE,
        };
        files.tell(&mut writer, listed).expect("memory");
    }
    let mut writer = RecordingWriter::new("w", Vec::new(), &About::default()).expect("memory");
    writer.begin_walk(WalkKind::Baseline, 9).expect("memory");
    files.tell_all(&mut writer).expect("memory");
    let (accesses, info) = read(writer);
    let told: Vec<(u32, u64, Op)> = accesses
        .iter()
        .map(|access| (access.key.space, access.key.page, access.op))
        .collect();
    let expected = [(4, Op::Read), (5, Op::Write), (600, Op::Read)];
    assert_eq!(told, expected.map(|(page, op)| (FILE, page, op)));
    let names: Vec<u32> = info.files.keys().copied().collect();
    assert_eq!(
        names,
        [FILE],
        "a file that is not looked at any more is not told of"
    );
}

#[test]
fn a_file_that_is_named_again_goes_on_under_the_new_name() {
    let mut files = Files::default();
    let mut writer = RecordingWriter::new("w", Vec::new(), &About::default()).expect("memory");
    writer.begin_walk(WalkKind::Baseline, 0).expect("memory");
    let better = FileName {
        path: "/srv/better".to_owned(),
        ..name()
    };
    for (name, nr_reads) in [(name(), 0), (better.clone(), 1)] {
        let listed = ListedFile {
            file: FILE,
            name: Some(name),
            pages: found(&[(4, nr_reads, false)]),
            left: Left::Kept,
            is_followed: true,
        };
        files.tell(&mut writer, listed).expect("memory");
    }
    let file = &read(writer).1.files[&FILE];
    assert_eq!(file.name.as_ref(), Some(&better));
    assert_eq!((file.nr_appeared, file.nr_accessed), (1, 1));
    assert_eq!(files.files[&FILE].name, better, "of the next baseline");
}

#[derive(Clone, Copy, Debug, Default)]
struct Page {
    is_held: bool,
    nr_reads: u32,
    is_busy: bool,
    has_arrived: bool,
}

fn any_page() -> impl Strategy<Value = Page> {
    (any::<bool>(), 0..8_u32, any::<bool>(), any::<bool>()).prop_map(
        |(is_held, nr_reads, is_busy, has_arrived)| Page {
            is_held,
            nr_reads: if is_held { nr_reads } else { 0 },
            is_busy: is_held && is_busy,
            has_arrived,
        },
    )
}

proptest! {
    #[test]
    fn every_page_is_told_as_a_model_of_single_pages_has_it(
        censuses in prop::collection::vec((prop::collection::vec(any_page(), 20), 0..25_u64), 1..8),
    ) {
        // Some pages at the end of one table, the others at the beginning of the next.
        const FIRST: u64 = 500;
        let mut state = state();
        let mut before = vec![Page::default(); 20];
        for (now, length) in censuses {
            let mut found = FoundPages::default();
            for (page, now) in (FIRST..).zip(&now) {
                if now.is_held {
                    found.hold(page, 1, now.nr_reads, now.is_busy);
                }
                if now.has_arrived {
                    found.arrive(page, 1);
                }
            }
            let pieces = state.change(&found, Left::CutAt(FIRST + length));
            let count = |page: u64, of: fn(&Piece) -> [u64; 8]| {
                let here = pieces.iter().filter(|piece| piece.table == page / 512);
                here.filter(|piece| bits::has(&of(piece), (page % 512) as usize)).count()
            };
            for ((page, now), before) in (FIRST..).zip(&now).zip(&before) {
                let is_cut = page >= FIRST + length;
                let was_away = !before.is_held || !now.is_held || now.has_arrived;
                let has_passed = now.has_arrived && !before.is_held && !now.is_held && !is_cut;
                let came_back = now.has_arrived && before.is_held && now.is_held;
                let appears = now.is_held && !before.is_held || has_passed || came_back;
                let leaves = before.is_held && !now.is_held;
                let is_full = now.nr_reads == COUNT_FULL && before.nr_reads == COUNT_FULL;
                let is_read = now.nr_reads > before.nr_reads || is_full || now.is_busy && !before.is_busy;
                prop_assert_eq!(count(page, |piece| piece.appeared), usize::from(appears));
                prop_assert_eq!(count(page, |piece| piece.gone), usize::from(leaves && is_cut));
                let is_evicted = leaves && !is_cut || has_passed || came_back;
                prop_assert_eq!(count(page, |piece| piece.evicted), usize::from(is_evicted));
                prop_assert_eq!(count(page, |piece| piece.accessed), usize::from(is_read && !was_away));
                let is_written = !was_away && now.is_busy && !before.is_busy;
                prop_assert_eq!(count(page, |piece| bits::and(piece.accessed, piece.written)), usize::from(is_written));
            }
            // Nothing is remembered of a table without pages.
            let held: BTreeSet<u64> = (FIRST..).zip(&now).filter(|(_, now)| now.is_held).map(|(page, _)| page / 512).collect();
            prop_assert!(state.tables.keys().copied().eq(held));
            before = now;
        }
    }
}
