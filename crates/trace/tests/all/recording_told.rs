//! A recording is read record by record, or as the accesses of a share of its pages.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use strata_trace::recording::Told;
use strata_trace::{Access, AccessReader, OpenOptions};

fn sort() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recordings/sort.strata")
}

fn open() -> Box<dyn AccessReader> {
    strata_trace::open(sort(), &OpenOptions::default())
        .expect("a recording")
        .reader
}

fn accesses(thinned: u32) -> Vec<Access> {
    let (mut reader, mut batch, mut all) = (open(), Vec::new(), Vec::new());
    reader.thin(thinned);
    while reader.read_batch(&mut batch).expect("whole") > 0 {
        all.extend_from_slice(&batch);
    }
    all
}

#[test]
fn records_tell_as_many_accesses_as_there_are_to_read() {
    let (mut reader, mut nr_touched, mut nr_walks) = (open(), 0, 0);
    while let Some(told) = reader.read_told().expect("whole") {
        match told {
            Told::Piece(piece) => nr_touched += piece.nr_touched() as usize,
            Told::Walk { is_continued, .. } => nr_walks += usize::from(!is_continued),
            _ => {}
        }
    }
    let all = accesses(0);
    let times: BTreeSet<u64> = all.iter().map(|access| access.time_us).collect();
    assert_eq!(nr_touched, all.len());
    assert!(nr_walks >= times.len() && !times.is_empty());
    let info = reader.recording().expect("a recording");
    // The baseline is no walk of it.
    assert_eq!(info.nr_walks + 1, nr_walks as u64);
}

#[test]
fn a_share_of_the_pages_has_all_of_their_accesses_and_no_others() {
    let all = accesses(0);
    let sample = accesses(2);
    let pages: BTreeSet<_> = sample.iter().map(|access| access.key).collect();
    let of_pages = all.iter().filter(|access| pages.contains(&access.key));
    assert!(of_pages.eq(&sample));
    let nr_pages = all.iter().map(|access| access.key).collect::<BTreeSet<_>>();
    let share = pages.len() as f64 / nr_pages.len() as f64;
    assert!((0.2..0.3).contains(&share), "{share}");
}
