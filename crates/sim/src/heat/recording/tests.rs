//! Recordings of which is known what they tell.

use super::*;
use strata_trace::OpenOptions;
use strata_trace::recording::{About, AreaName, FileName, NameKnown, RecordingWriter, SpaceName};

/// From one walk to the next, so long as a column.
const INTERVAL_US: u64 = 100_000;
const ASKED_US: u64 = 66_667;

/// The lowest so many pages of a table.
fn lowest(nr_pages: u32) -> PageBits {
    let of_word = |word: u32| match nr_pages.saturating_sub(word * 64) {
        0 => 0,
        64.. => u64::MAX,
        nr_bits => (1 << nr_bits) - 1,
    };
    std::array::from_fn(|word| of_word(word as u32))
}

fn writer() -> RecordingWriter<Vec<u8>> {
    let about = About {
        interval_us: ASKED_US,
        target: "process 42".to_owned(),
        source: "bpf".to_owned(),
    };
    RecordingWriter::new("a recording", Vec::new(), &about).unwrap()
}

fn read(recording: RecordingWriter<Vec<u8>>) -> RecordingHeat {
    let bytes = std::io::Cursor::new(recording.finish().unwrap());
    let opened = strata_trace::open_stream("a.strata", bytes, None, &OpenOptions::default());
    let mut reader = opened.unwrap().reader;
    let heat = RecordingHeat::read(reader.as_mut(), 32, 16).unwrap();
    heat.expect("a recording")
}

/// In 100 tables of a heap; of the first all pages are used at each walk, of the others nothing.
fn hot_and_cold(nr_walks: u64) -> RecordingWriter<Vec<u8>> {
    let mut out = writer();
    out.name_space(&SpaceName {
        space: 0,
        pid: 42,
        name: "job".to_owned(),
    })
    .unwrap();
    let heap = AreaName {
        area: 0,
        space: 0,
        class: "heap".to_owned(),
        name: "[heap]".to_owned(),
    };
    out.name_area(&heap).unwrap();
    out.begin_walk(WalkKind::Baseline, 0).unwrap();
    out.begin_space(0, 0).unwrap();
    for table in 0..100 {
        let all = lowest(512);
        out.piece(&Piece {
            table,
            appeared: all,
            anon: all,
            ..Piece::default()
        })
        .unwrap();
    }
    out.end_space(SpaceEnd::Whole).unwrap();
    for walk in 1..=nr_walks {
        out.begin_walk(WalkKind::Interval, walk * INTERVAL_US)
            .unwrap();
        out.begin_space(0, 1000).unwrap();
        let all = lowest(512);
        out.piece(&Piece {
            accessed: all,
            anon: all,
            ..Piece::default()
        })
        .unwrap();
        out.end_space(SpaceEnd::Whole).unwrap();
    }
    out
}

#[test]
fn what_is_used_at_each_walk_is_hot_and_the_rest_is_as_old_as_the_recording() {
    for nr_walks in [3, 239, 1000] {
        let heat = read(hot_and_cold(nr_walks));
        let band = &heat.bands[0];
        assert_eq!((band.which, heat.bands.len()), (Which::Area(0), 1));
        assert_eq!((band.resident.anon, band.nr_most), (51_200, 51_200));
        assert_eq!((band.nr_never, band.nr_used), (50_688, 512 * nr_walks));
        assert!(band.rows.len() <= 33, "{} rows", band.rows.len());
        let used = |row: &Row| row.cells.iter().sum::<u64>();
        assert_eq!(used(&band.rows[0]), 512 * nr_walks);
        assert!(band.rows[1..].iter().all(|row| used(row) == 0));
        assert_eq!(
            heat.totals.iter().map(|of| of.nr_walks).sum::<u64>(),
            nr_walks
        );
        assert!(heat.totals.len() <= NR_COLUMNS);
        let of_ages: u64 = heat.ages.iter().map(|class| class.pages.all()).sum();
        assert_eq!(of_ages, 51_200);
        let [young, never] = &heat.ages[..] else {
            panic!("{:?}", heat.ages);
        };
        assert_eq!((young.at_least_us, young.pages.anon), (Some(0), 512));
        assert_eq!((never.at_least_us, never.pages.anon), (None, 50_688));
        assert_eq!(heat.nr_accesses, 51_200 + 512 * nr_walks);
    }
}

/// The fifth table at the walks from the second on: each with what becomes of it.
fn at_walks(pieces: &[Piece], end: SpaceEnd) -> RecordingHeat {
    let mut out = hot_and_cold(1);
    for (at, piece) in (2..).zip(pieces) {
        out.begin_walk(WalkKind::Interval, at * INTERVAL_US)
            .unwrap();
        out.begin_space(0, 1000).unwrap();
        out.piece(&Piece {
            table: 5,
            anon: piece.told(),
            ..*piece
        })
        .unwrap();
        out.end_space(end).unwrap();
    }
    read(out)
}

#[test]
fn what_leaves_comes_back_and_ends_is_told() {
    let left = Piece {
        evicted: lowest(100),
        ..Piece::default()
    };
    let back = Piece {
        appeared: lowest(40),
        ..Piece::default()
    };
    let gone = Piece {
        gone: lowest(10),
        ..Piece::default()
    };
    let heat = at_walks(&[left, back, gone], SpaceEnd::Whole);
    let resident = heat.totals.iter().filter_map(|of| of.nr_resident);
    let resident: Vec<u64> = resident.collect();
    assert_eq!(resident, [51_200, 51_200, 51_100, 51_140, 51_130]);
    assert_eq!((heat.totals[2].nr_left, heat.totals[3].nr_back), (100, 40));
    assert_eq!(heat.bands[0].back[3], 40);

    let heat = at_walks(&[left, back], SpaceEnd::Ended);
    let band = &heat.bands[0];
    assert_eq!(
        (band.left.iter().sum::<u64>(), heat.totals[2].nr_left),
        (100, 100)
    );
    // The space ended after the first of the two.
    assert_eq!((band.resident, band.nr_never), (Pages::default(), 0));
    assert_eq!(heat.totals.last().and_then(|of| of.nr_resident), Some(0));
}

#[test]
fn page_cache_is_a_band_of_its_own_and_told_by_census() {
    let mut out = hot_and_cold(1);
    let file = FileName {
        file: 7,
        group: String::new(),
        known: NameKnown::Path,
        path: "/srv/log".to_owned(),
    };
    out.name_file(&file).unwrap();
    for (at, kind) in [(2, WalkKind::Baseline), (3, WalkKind::Interval)] {
        out.begin_walk(kind, at * INTERVAL_US).unwrap();
        out.begin_file(7).unwrap();
        let piece = match kind {
            WalkKind::Baseline => Piece {
                appeared: lowest(512),
                ..Piece::default()
            },
            WalkKind::Interval => Piece {
                accessed: lowest(12),
                ..Piece::default()
            },
        };
        out.piece(&piece).unwrap();
        out.end_space(SpaceEnd::Whole).unwrap();
    }
    let heat = read(out);
    let cache = heat.bands.iter().find(|band| band.which == Which::File(7));
    let cache = cache.expect("a band of the file");
    assert_eq!(
        (cache.resident.cache, cache.nr_used, cache.nr_never),
        (512, 12, 500)
    );
    assert_eq!(
        (heat.totals[3].nr_censuses, heat.totals[3].nr_used_cache),
        (1, 12)
    );
}

#[test]
fn many_mappings_and_wide_ones_take_bounded_room() {
    let mut out = writer();
    out.begin_walk(WalkKind::Baseline, 0).unwrap();
    out.begin_space(0, 0).unwrap();
    for number in 0..5000_u32 {
        let table = u64::from(number) * 1000;
        let piece = Piece {
            table,
            area: number,
            appeared: lowest(64),
            ..Piece::default()
        };
        out.piece(&piece).unwrap();
    }
    out.end_space(SpaceEnd::Whole).unwrap();
    let heat = read(out);
    assert_eq!(heat.bands.len(), 16);
    let nr_rows: usize = heat.bands.iter().map(|band| band.rows.len()).sum();
    assert!(nr_rows <= 48, "{nr_rows} rows");
    let pages: u64 = heat.bands.iter().map(|band| band.resident.file).sum();
    assert_eq!(pages, 5000 * 64);
}

#[test]
fn a_trace_is_no_recording_and_is_read_on() {
    let mut bytes = Vec::new();
    let mut writer = strata_trace::Writer::new("t", &mut bytes).unwrap();
    writer
        .write(&[strata_trace::Access::default(); 10])
        .unwrap();
    writer.finish().unwrap();
    let bytes = std::io::Cursor::new(bytes);
    let opened = strata_trace::open_stream("t.strata", bytes, None, &OpenOptions::default());
    let mut reader = opened.unwrap().reader;
    assert_eq!(RecordingHeat::read(reader.as_mut(), 32, 16).unwrap(), None);
    let mut batch = Vec::new();
    assert_eq!(reader.read_batch(&mut batch).unwrap(), 10);
}
