//! What is drawn, held against screens in `crates/cli/tests/screens/`, and what keys do.
//!
//! `STRATA_BLESS=1 cargo test -p strata top::` writes the screens anew; their diff is part of the change.

mod guarded;
mod narrow;
mod pointed;
mod robust;
mod views;

use std::path::Path;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Color, Modifier};
use strata_host::observe::ledger::KindBytes;
use strata_host::observe::overview::{
    AgesView, Budget, HostView, MappingView, NR_AGES, Snapshot, TargetKind, TargetView, WINDOWS_S,
    WhoView, WindowView,
};
use strata_host::observe::programs::Label;
use strata_linux::hold_up::HoldUpReport;
use strata_linux::process::{MachineMemory, MappingClass};

use super::*;
use crate::cmd::top::screen::Effect;

const MIB: u64 = 1 << 20;

/// MiB by age, anon and file; ages that are left out are empty.
fn bars(mib: &[(u64, u64)]) -> [KindBytes; NR_AGES] {
    std::array::from_fn(|index| {
        let (anon, file) = mib.get(index).copied().unwrap_or_default();
        KindBytes {
            anon_bytes: anon * MIB,
            file_bytes: file * MIB,
        }
    })
}

/// What the bars say was used within each window; the middle one ends in the middle of a bar.
fn windows(bars: &[KindBytes; NR_AGES], watched_ms: u64) -> [WindowView; WINDOWS_S.len()] {
    let within = |nr_bars: usize| bars[..nr_bars].iter().copied().sum();
    let nr_bars = [1, 4, 6];
    std::array::from_fn(|index| WindowView {
        seconds: WINDOWS_S[index],
        accessed: (watched_ms >= WINDOWS_S[index] * 1000).then(|| within(nr_bars[index])),
    })
}

fn idle_bytes(bars: &[KindBytes; NR_AGES], watched_ms: u64) -> Option<u64> {
    let old = bars[7..].iter().map(|bar| bar.total_bytes()).sum();
    (watched_ms >= 60_000).then_some(old)
}

fn mapping(name: &str, class: MappingClass, mib: &[(u64, u64)], watched_ms: u64) -> MappingView {
    let bars = bars(mib);
    MappingView {
        name: name.into(),
        class,
        nr_mappings: 1,
        resident: bars.iter().copied().sum(),
        windows: windows(&bars, watched_ms),
        idle_bytes: idle_bytes(&bars, watched_ms),
        bars,
    }
}

fn ages(watched_ms: u64, mappings: Vec<MappingView>) -> AgesView {
    let sum = |index| mappings.iter().map(|mapping| mapping.bars[index]).sum();
    let bars: [KindBytes; NR_AGES] = std::array::from_fn(sum);
    AgesView {
        watched_ms,
        windows: windows(&bars, watched_ms),
        idle_after_ms: 60_000,
        idle_bytes: idle_bytes(&bars, watched_ms),
        bars,
        shared_bytes: 0,
        unknown_bytes: 0,
        nodes: [].into(),
        mappings,
    }
}

fn target(name: &str, resident_mib: u64, ages: Option<AgesView>) -> TargetView {
    TargetView {
        name: name.to_owned(),
        kind: TargetKind::Cgroup,
        who: WhoView::default(),
        is_over: false,
        is_watched: ages.is_some(),
        nr_processes: ages.as_ref().map(|_| 1),
        resident_bytes: Some(resident_mib * MIB),
        anon_bytes: Some(resident_mib * MIB * 3 / 4),
        file_bytes: Some(resident_mib * MIB / 4),
        mapped_bytes: Some(resident_mib * MIB / 16),
        shmem_bytes: Some(resident_mib * MIB / 32),
        dirty_bytes: Some(MIB / 4),
        inactive_bytes: Some(resident_mib * MIB / 8),
        swap_bytes: Some(0),
        refaults_per_s: Some(0.0),
        budget: None,
        ages,
        cache: Some(views::cache(resident_mib)),
        guard: None,
        files: None,
    }
}

fn redis() -> TargetView {
    let watched_ms = 130_000;
    let heap = [38, 9, 22, 28, 35, 48, 61, 150].map(|anon| (anon, 0));
    // Of a file some is new, and some is of the oldest age.
    let file = |new, old| [[new].as_slice(), &[(0, 0); 6], &[old]].concat();
    let mappings = vec![
        mapping("", MappingClass::Anon, &heap, watched_ms),
        mapping(
            "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
            MappingClass::FilePrivate,
            &file((1, 0), (0, 3)),
            watched_ms,
        ),
        mapping(
            "/usr/bin/redis-check-rdb",
            MappingClass::FilePrivate,
            &file((0, 1), (0, 1)),
            watched_ms,
        ),
        mapping("[heap]", MappingClass::Heap, &[(0, 0), (1, 0)], watched_ms),
        mapping("[stack]", MappingClass::Stack, &[(1, 0)], watched_ms),
    ];
    TargetView {
        budget: Some(Budget::new(448 * MIB, 412 * MIB)),
        who: WhoView {
            label: Label::of("/system.slice/redis-server.service"),
            pid: Some(812),
            command: Some("/usr/bin/redis-server 127.0.0.1:6379".to_owned()),
            user: Some("redis".to_owned()),
            ..WhoView::default()
        },
        refaults_per_s: Some(12.3),
        swap_bytes: Some(145 * MIB),
        ..target(
            "/system.slice/redis-server.service",
            412,
            Some(ages(watched_ms, mappings)),
        )
    }
}

fn postgres() -> TargetView {
    let watched_ms = 9000;
    let mappings = vec![
        mapping(
            "/dev/zero (deleted)",
            MappingClass::Shmem,
            &[(20, 0), (4, 0), (1, 0), (0, 0), (110, 0)],
            watched_ms,
        ),
        mapping(
            "/usr/lib/postgresql/15/bin/postgres",
            MappingClass::FilePrivate,
            &[(0, 3), (0, 1), (0, 0), (0, 0), (0, 6)],
            watched_ms,
        ),
    ];
    TargetView {
        budget: Some(Budget::new(1024 * MIB, 1100 * MIB)),
        refaults_per_s: Some(2400.0),
        ..target(
            "/system.slice/system-postgresql.slice/postgresql@15-main.service",
            1100,
            Some(ages(watched_ms, mappings)),
        )
    }
}

/// One of several that share a group.
fn program(name: &str, command: &str, resident_mib: u64) -> TargetView {
    TargetView {
        kind: TargetKind::Tree,
        nr_processes: Some(1),
        inactive_bytes: None,
        mapped_bytes: None,
        shmem_bytes: None,
        dirty_bytes: None,
        who: WhoView {
            command: Some(command.to_owned()),
            user: Some("web".to_owned()),
            ..WhoView::default()
        },
        ..target(name, resident_mib, None)
    }
}

fn host() -> HostView {
    HostView {
        memory: MachineMemory {
            total_bytes: 16_000 * MIB,
            locked_bytes: 0,
            available_bytes: 9_000 * MIB,
            free_bytes: 1_200 * MIB,
            anon_bytes: 5_100 * MIB,
            file_bytes: 8_300 * MIB,
            mapped_bytes: 640 * MIB,
            shmem_bytes: 96 * MIB,
            dirty_bytes: 12 * MIB,
            swap_total_bytes: 4096 * MIB,
            swap_free_bytes: 3951 * MIB,
            zswap_bytes: 0,
        },
        pressure_percent: Some(0.25),
    }
}

fn snapshot() -> Snapshot {
    let scope = format!("/docker/{}", "0123456789abcdef".repeat(4));
    let session = TargetView {
        refaults_per_s: None,
        swap_bytes: None,
        inactive_bytes: None,
        ..target("/user.slice/user-1000.slice/session-3.scope", 2300, None)
    };
    let idler = TargetView {
        budget: Some(Budget::new(256 * MIB, 90 * MIB)),
        ..target(&scope, 90, None)
    };
    Snapshot {
        at_ms: 130_000,
        source: Some("bpf"),
        walk_us: 3456,
        hold_up: HoldUpReport {
            longest_us: 240,
            share_percent: 0.31,
            ..HoldUpReport::default()
        },
        host: Some(host()),
        targets: vec![
            program("4242 memcached", "memcached -m 200", 120),
            program("977 node", "node /srv/app/server.js", 90),
            target("/init.scope", 7, None),
            idler,
            postgres(),
            redis(),
            session,
        ],
        troubles: Vec::new(),
    }
}

/// A minute of it, with use that comes and goes.
fn screen() -> Screen {
    let mut screen = Screen::new(1000);
    for second in 0u32..60 {
        let mut snapshot = snapshot();
        for target in &mut snapshot.targets {
            target.refaults_per_s = target
                .refaults_per_s
                .map(|rate| rate * f64::from(second % 7));
            if let Some(ages) = &mut target.ages {
                let used = KindBytes {
                    anon_bytes: (50 + u64::from(second % 10) * 9) * MIB,
                    file_bytes: 0,
                };
                ages.windows[1].accessed = (second > 10).then_some(used);
            }
        }
        screen.accept(snapshot);
    }
    screen.accept(snapshot());
    screen
}

fn press(screen: &mut Screen, code: KeyCode) -> Effect {
    screen.press(KeyEvent::new(code, KeyModifiers::NONE))
}

fn type_in(screen: &mut Screen, key: char) -> Effect {
    press(screen, KeyCode::Char(key))
}

fn press_all(screen: &mut Screen, keys: &str) {
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            key => KeyCode::Char(key),
        };
        press(screen, code);
    }
}

fn terminal(screen: &Screen, size: (u16, u16), look: Look) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).expect("a terminal");
    let drawn = terminal.draw(|frame| {
        draw(frame.buffer_mut(), screen, look);
    });
    drawn.expect("drawn");
    terminal
}

fn lines(screen: &Screen, size: (u16, u16), look: Look) -> Vec<String> {
    let terminal = terminal(screen, size, look);
    let buffer = terminal.backend().buffer();
    let line = |y| -> String {
        let cells = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned()
    };
    (0..buffer.area.height).map(line).collect()
}

/// All that is seen on a terminal of the usual size.
fn shown(screen: &Screen) -> String {
    lines(screen, (80, 24), plain()).join("\n")
}

fn plain() -> Look {
    Look::new(Charset::Unicode, Colours::Off)
}

/// Holds a screen against its file, drawn with and without colours.
#[track_caller]
fn check(name: &str, screen: &Screen, size: (u16, u16), charset: Charset) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/screens/{name}.txt"));
    let drawn = lines(screen, size, Look::new(charset, Colours::Off)).join("\n") + "\n";
    let coloured = lines(screen, size, Look::new(charset, Colours::On)).join("\n") + "\n";
    assert_eq!(drawn, coloured, "{name}: colours change no text");
    if std::env::var_os("STRATA_BLESS").is_some() {
        std::fs::write(&path, &drawn).expect("the screen can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(drawn, expected, "{name} is drawn otherwise:\n{drawn}");
}

#[test]
fn lists_and_details_are_drawn_as_they_were_for_terminals_of_each_size() {
    for (name, opened, size, charset) in [
        ("list-80x24", None, (80, 24), Charset::Unicode),
        ("list-120x40", None, (120, 40), Charset::Unicode),
        ("list-ascii-80x24", None, (80, 24), Charset::Ascii),
        ("detail-80x24", Some(redis()), (80, 24), Charset::Unicode),
        ("detail-120x40", Some(redis()), (120, 40), Charset::Unicode),
        (
            "detail-over-80x24",
            Some(postgres()),
            (80, 24),
            Charset::Unicode,
        ),
    ] {
        let mut screen = screen();
        if let Some(opened) = opened {
            screen.open(&opened.name);
        }
        check(name, &screen, size, charset);
    }
}

#[test]
fn without_colours_there_are_none_and_with_them_kinds_differ() {
    let mut screen = screen();
    screen.open(&postgres().name);
    let colours = |colours| -> Vec<Color> {
        let terminal = terminal(&screen, (80, 24), Look::new(Charset::Unicode, colours));
        let cells = terminal.backend().buffer().content().iter();
        cells.map(|cell| cell.fg).collect()
    };
    assert!(colours(Colours::Off).iter().all(|fg| *fg == Color::Reset));
    let on = colours(Colours::On);
    assert!(
        [Color::Cyan, Color::Yellow, Color::Red]
            .iter()
            .all(|c| on.contains(c))
    );
}

/// Cells of a line with what they look like.
fn cells(screen: &Screen, y: u16) -> Vec<ratatui::buffer::Cell> {
    let terminal = terminal(screen, (80, 24), Look::new(Charset::Unicode, Colours::On));
    let buffer = terminal.backend().buffer();
    (0..80).map(|x| buffer[(x, y)].clone()).collect()
}

#[test]
fn the_selected_row_has_a_mark_and_a_bold_name_and_bars_like_any_other() {
    let mut list = screen();
    let mut detail = screen();
    detail.open(&redis().name);
    // The first row of each, selected and not.
    for (screen, y) in [(&mut list, 4), (&mut detail, 13)] {
        let selected = cells(screen, y);
        press(screen, KeyCode::Down);
        let other = cells(screen, y);
        assert_eq!((selected[0].symbol(), other[0].symbol()), (">", " "));
        assert!(selected[1].modifier.contains(Modifier::BOLD));
        assert!(!other[1].modifier.contains(Modifier::BOLD));
        assert!(selected[15..] == other[15..], "figures and bars differ");
        let is_reversed = |cell: &ratatui::buffer::Cell| cell.modifier.contains(Modifier::REVERSED);
        assert!(!selected.iter().any(is_reversed));
    }
}

#[test]
fn nothing_seen_yet_and_a_target_that_went_are_said() {
    let mut screen = Screen::new(1000);
    assert!(shown(&screen).contains("nothing seen yet"));
    screen.open("/gone");
    assert!(shown(&screen).contains("it is gone"));
    let tiny = lines(&screen, (30, 3), plain()).join("\n");
    assert!(tiny.contains("needs 40x8"), "{tiny}");
}

#[test]
fn enter_watches_the_selected_group_and_the_cursor_stays_with_it() {
    let mut screen = screen();
    press(&mut screen, KeyCode::End);
    let watch = Effect::Watch("/user.slice/user-1000.slice/session-3.scope".to_owned());
    assert_eq!(press(&mut screen, KeyCode::Enter), watch);
    assert!(matches!(&screen.page, Page::Detail(name) if name.contains("session-3")));
    assert_eq!(press(&mut screen, KeyCode::Esc), Effect::None);
    assert_eq!(screen.page, Page::List);
    // By size it is first, by name last; the cursor goes with it.
    press_all(&mut screen, "s");
    assert_eq!(screen.row(), 0);
    press_all(&mut screen, "ssss");
    assert_eq!(screen.row(), 4);
}

#[test]
fn the_group_that_is_watched_already_is_only_opened_and_w_lets_go_of_it() {
    let mut screen = screen();
    assert_eq!(press(&mut screen, KeyCode::Enter), Effect::None);
    let name = redis().name;
    assert_eq!(type_in(&mut screen, 'w'), Effect::Unwatch(name));
}

#[test]
fn a_filter_is_typed_kept_and_ended() {
    let mut screen = screen();
    press_all(&mut screen, "/REDIS");
    assert_eq!(screen.rows().len(), 1);
    // Letters are part of the filter, not keys, until Enter.
    press_all(&mut screen, "q");
    assert_eq!(screen.rows().len(), 0);
    press(&mut screen, KeyCode::Backspace);
    press(&mut screen, KeyCode::Enter);
    assert!(!screen.is_typing && screen.rows().len() == 1);
    press(&mut screen, KeyCode::Esc);
    assert_eq!(screen.rows().len(), 7);
    press_all(&mut screen, "/server.js");
    assert_eq!(screen.rows()[0].name, "977 node", "by its command line");
    press_all(&mut screen, "\u{1b}");
    assert_eq!(type_in(&mut screen, 'q'), Effect::Quit);
}

#[test]
fn the_interval_has_ends_and_pause_is_told() {
    let mut screen = screen();
    assert_eq!(type_in(&mut screen, '+'), Effect::SetIntervalMs(2000));
    press_all(&mut screen, &"+".repeat(20));
    assert_eq!(type_in(&mut screen, '+'), Effect::None);
    assert_eq!(screen.interval_ms, 60_000);
    press_all(&mut screen, &"-".repeat(20));
    assert_eq!(screen.interval_ms, 100);
    assert_eq!(type_in(&mut screen, 'p'), Effect::SetPaused(true));
    assert!(lines(&screen, (80, 24), plain())[0].contains("PAUSED"));
    assert_eq!(type_in(&mut screen, ' '), Effect::SetPaused(false));
}

#[test]
fn control_keys_end_and_stop_even_while_a_filter_is_typed() {
    let mut screen = screen();
    press_all(&mut screen, "/x");
    let control = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
    assert_eq!(screen.press(control('z')), Effect::Suspend);
    assert_eq!(screen.press(control('c')), Effect::Quit);
}

#[test]
fn what_went_wrong_is_shown_until_the_next_key() {
    let mut screen = screen();
    let trouble = "process 7 can't be read";
    screen.accept(Snapshot {
        troubles: vec![trouble.to_owned()],
        ..snapshot()
    });
    assert!(lines(&screen, (80, 24), plain())[22].contains(trouble));
    press(&mut screen, KeyCode::Down);
    assert!(!shown(&screen).contains(trouble));
}

#[test]
fn history_is_kept_of_targets_that_are_there_and_no_longer_than_that() {
    let mut screen = screen();
    for _ in 0..2 * super::super::screen::HISTORY_MAX {
        screen.accept(snapshot());
    }
    let name = redis().name;
    assert_eq!(
        screen.history(&name).count(),
        super::super::screen::HISTORY_MAX
    );
    screen.accept(Snapshot::default());
    assert_eq!(screen.history(&name).count(), 0);
}
