//! What a recording knows to be freed is told to who asks, beside its accesses.

use crate::support;

use strata_trace::recording::{Piece, SpaceEnd, WalkKind};
use strata_trace::{Freed, FreedPages, PageKey};
use support::{Whose, drain, open_strata, recording, tell};

const SPACE: u32 = 7;

/// Three pages; two are freed and one of them taken anew; that is freed, too; the process ends.
fn freed() -> Vec<u8> {
    let mut writer = recording();
    for (kind, at_us, gone, appeared, end) in [
        (WalkKind::Baseline, 0, 0, 7, SpaceEnd::Whole),
        (WalkKind::Interval, 10, 6, 2, SpaceEnd::Whole),
        (WalkKind::Interval, 20, 2, 0, SpaceEnd::Whole),
        (WalkKind::Interval, 30, 0, 0, SpaceEnd::Ended),
    ] {
        writer.begin_walk(kind, at_us).expect("memory");
        let piece = Piece {
            table: 2,
            gone: [gone, 0, 0, 0, 0, 0, 0, 0],
            appeared: [appeared, 0, 0, 0, 0, 0, 0, 0],
            ..Piece::default()
        };
        tell(&mut writer, Whose::Space(SPACE, 0), [piece], end);
    }
    writer.finish().expect("memory")
}

fn page(life: u64, page: u64, time_us: u64) -> Freed {
    let key = PageKey {
        space: SPACE,
        page: page | life << 44,
    };
    Freed {
        what: FreedPages::Page(key),
        time_us,
    }
}

#[test]
fn what_is_freed_is_told_with_the_life_and_the_time_it_ended() {
    let (mut opened, mut freed) = (open_strata(&freed()).expect("opens"), Vec::new());
    opened.reader.take_freed(&mut freed);
    assert!(freed.is_empty());
    drain(&mut opened).1.expect("whole");
    opened.reader.take_freed(&mut freed);
    let space = Freed {
        what: FreedPages::Space(SPACE),
        time_us: 30,
    };
    let pages = [page(0, 1025, 10), page(0, 1026, 10), page(1, 1025, 20)];
    assert_eq!(freed[..3], pages);
    assert_eq!(freed[3..], [space]);
}

#[test]
fn nothing_is_kept_for_who_does_not_ask_before() {
    let (mut opened, mut freed) = (open_strata(&freed()).expect("opens"), Vec::new());
    drain(&mut opened).1.expect("whole");
    opened.reader.take_freed(&mut freed);
    assert!(freed.is_empty());
}
