//! Which pages of a recording are code.

use crate::support::{Whose, as_format, read, recording, tell};

use strata_trace::recording::{AreaName, NO_PAGES, Piece, SpaceEnd, WalkKind};
use strata_trace::{Backing, Format};

#[test]
fn pages_of_a_file_that_is_executed_are_code_and_its_anonymous_copies_are_not() {
    let mut writer = recording();
    let area = |area, class: &str| AreaName {
        area,
        space: 7,
        class: class.to_owned(),
        name: "/usr/bin/app".to_owned(),
    };
    writer.name_area(&area(0, "file_private")).expect("memory");
    writer.name_area(&area(1, AreaName::CODE)).expect("memory");
    writer.begin_walk(WalkKind::Baseline, 0).expect("memory");
    let first = |nr_pages: u32| {
        let mut bits = NO_PAGES;
        bits[0] = (1 << nr_pages) - 1;
        bits
    };
    let pieces = (0..3).map(|area| Piece {
        table: u64::from(area),
        area,
        appeared: first(2),
        anon: first(1),
        ..Piece::default()
    });
    tell(&mut writer, Whose::Space(7, 0), pieces, SpaceEnd::Whole);
    let recording = writer.finish().expect("memory");
    let accesses = read(&recording, &as_format(Format::Strata)).expect("is whole");
    let backings: Vec<Backing> = accesses.iter().map(|access| access.backing).collect();
    let [file, code] = [Backing::File, Backing::Code].map(|of| [Backing::Anon, of]);
    assert_eq!(backings, [file, code, file].concat());
}
