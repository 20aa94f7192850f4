//! What `v` shows (memory by kind, page cache by file), and in which order rows come.

use std::sync::Arc;

use strata_host::observe::cache::{CacheReport, CacheWindow};
use strata_host::observe::files::{FileRow, FilesReport};
use strata_linux::access::census::CensusCost;

use super::*;
use crate::cmd::top::screen::View;

/// Half of the file pages were read within a minute, half of these within ten seconds.
pub(super) fn cache(resident_mib: u64) -> CacheReport {
    let cached_bytes = resident_mib * MIB / 4;
    let window = |seconds: f64, read_bytes: u64| CacheWindow {
        seconds,
        covered_seconds: seconds,
        read_bytes,
        unknown_bytes: 0,
        unknown_idle: None,
        idle_bytes: cached_bytes - read_bytes,
    };
    CacheReport {
        cached_bytes,
        windows: vec![
            window(10.0, cached_bytes / 4),
            window(60.0, cached_bytes / 2),
        ],
        ..CacheReport::default()
    }
}

#[test]
fn until_somebody_is_watched_the_list_tells_what_memory_is_used_for() {
    let mut screen = Screen::new(1000);
    let mut seen = snapshot();
    for target in &mut seen.targets {
        (target.ages, target.is_watched) = (None, false);
    }
    seen.source = None;
    screen.accept(seen);
    check("kinds-80x24", &screen, (80, 24), Charset::Unicode);
    check("kinds-120x40", &screen, (120, 40), Charset::Unicode);
    screen.accept(snapshot());
    assert_eq!(screen.view(), View::Ages);
    press_all(&mut screen, "v");
    assert_eq!(
        screen.view(),
        View::Kinds,
        "as asked for, whoever is watched"
    );
}

#[test]
fn one_cgroup_shows_the_files_that_it_is_charged_for() {
    let mut screen = screen();
    screen.open(&postgres().name);
    press_all(&mut screen, "v");
    assert!(shown(&screen).contains("a census of page cache is being taken"));
    let mut seen = snapshot();
    let file = |path: &str, mib: u64, is_open: bool| FileRow {
        path: path.to_owned(),
        group: postgres().name,
        cached_bytes: mib * MIB,
        used_bytes: mib * MIB / 2,
        dirty_bytes: MIB / 4,
        mapped_bytes: 0,
        nodes: [].into(),
        recency: None,
        is_open,
        is_deleted: !is_open,
    };
    let report = FilesReport {
        files: vec![
            file("/var/lib/postgresql/15/main/base/5/16385", 240, true),
            file(
                "/var/lib/postgresql/15/main/pg_wal/000000010000000000000001",
                16,
                false,
            ),
        ],
        nr_files: 2,
        total_bytes: 256 * MIB,
        watched: None,
        error_bytes: 0,
        sampled_share: 0.25,
        lost_bytes: 0,
        cost: CensusCost::default(),
    };
    for target in &mut seen.targets {
        if target.name == postgres().name {
            target.files = Some(Arc::new(report.clone()));
        }
    }
    screen.accept(seen);
    check("files-80x24", &screen, (80, 24), Charset::Unicode);
    press(&mut screen, KeyCode::Down);
    assert_eq!(screen.part_row(), 1);
    press_all(&mut screen, "/16385\n");
    assert_eq!(screen.files().len(), 1);
}

#[test]
fn idle_memory_comes_first_where_it_is_known_then_what_the_kernel_takes_for_idle() {
    let screen = screen();
    let names: Vec<&str> = screen.rows().iter().map(|t| t.name.as_str()).collect();
    let (redis, postgres) = (redis().name, postgres().name);
    assert_eq!(names[0], redis, "the only one watched for a minute");
    assert_eq!(names[1], postgres, "the most that is inactive");
    let of_no_kernel = "/user.slice/user-1000.slice/session-3.scope";
    assert_eq!(names[2], "4242 memcached", "all of it may be idle");
    assert_eq!(names[6], of_no_kernel, "however large");
}

#[test]
fn mappings_are_ordered_and_filtered_too() {
    let mut screen = screen();
    screen.open(&redis().name);
    let first =
        |screen: &Screen| crate::cmd::top::screen::mapping_name(screen.mappings()[0]).to_owned();
    assert_eq!(first(&screen), "[anon]");
    press_all(&mut screen, "sss");
    assert_eq!(first(&screen), "/usr/bin/redis-check-rdb");
    press_all(&mut screen, "/libcrypto\n");
    assert_eq!(screen.mappings().len(), 1);
}
