//! What `--once` prints for people: lines that can be cut and sorted by other tools.
//!
//! **Owns** the text. **Does not own** the figures.
//!
//! **Invariants** I1: a column is a column in every line: no cell is empty or has a space in it, but the
//! last one, the name with the command line.

use strata_host::observe::files::FilesReport;
use strata_host::observe::ledger::KindBytes;
use strata_host::observe::overview::{AGE_STARTS_S, AgesView, Snapshot, TargetView, WINDOWS_S};

use super::column::Column;
use super::screen::mapping_name;
use super::text::{self, UNKNOWN, size_or_unknown};
use crate::print;
use strata_sim::table::aligned;

/// So many of those that could not be seen are told one by one.
const TROUBLES_MAX: usize = 3;
/// What is told of each target.
const COLUMNS: [Column; 18] = [
    Column::Resident,
    Column::Anon,
    Column::File,
    Column::Mapped,
    Column::Shmem,
    Column::Dirty,
    Column::Inactive,
    Column::CacheRead(10),
    Column::CacheRead(text::COLD_AFTER_S),
    Column::CacheIdle,
    Column::Swap,
    Column::Refaults,
    Column::Budget,
    Column::Kept,
    Column::Window(0),
    Column::Window(1),
    Column::Window(2),
    Column::Idle,
];
/// Where a guard runs, what it has done.
const OF_GUARD: [Column; 3] = [Column::Given, Column::Away, Column::Back];
/// Mappings printed of each target where several are watched; JSON has them all.
const MAPPINGS_OF_EACH: usize = 5;

/// Targets in the order given, cut at so many columns; of each that is watched, ages and mappings below. Those that hold
/// nothing are one line.
pub(super) fn table(snapshot: &Snapshot, rows: &[&TargetView], columns: Option<usize>) -> String {
    let host = snapshot.host.as_ref();
    let host = host.map(|host| format!("host  {}\n\n", text::host(host).join("  ")));
    let (empty, rows): (Vec<&TargetView>, Vec<&TargetView>) = rows
        .iter()
        .copied()
        .partition(|target| holds_nothing(target));
    let rows = rows.as_slice();
    let mut text = host.unwrap_or_default();
    text.push_str(&print::cut(&targets(rows), columns));
    if !empty.is_empty() {
        text.push_str(&format!("and {} that hold nothing\n", empty.len()));
    }
    if rows.iter().any(|target| target.budget.is_some()) {
        text.push_str(
            "\nKEPT: whether SIZE is within BUDGET, the lowest limit of the cgroup (yes, OVER)\n",
        );
    }
    let nr_watched = rows.iter().filter(|target| target.is_watched).count();
    let nr_mappings_max = match nr_watched {
        0..=1 => usize::MAX,
        _ => MAPPINGS_OF_EACH,
    };
    for target in rows {
        if let Some(ages) = target.ages.as_ref().filter(|_| target.is_watched) {
            let (name, watched) = (text::clean(&target.name), text::time(ages.watched_ms));
            text.push_str(&format!("\n{name}: by time not used, watched {watched}\n"));
            text.push_str(&bars(ages));
            let which = match ages.mappings.len() > nr_mappings_max {
                true => format!(
                    "the {nr_mappings_max} largest of {} mappings",
                    ages.mappings.len()
                ),
                false => "by mapping".to_owned(),
            };
            text.push_str(&format!("\n{name}: {which}\n"));
            text.push_str(&mappings(ages, nr_mappings_max));
        }
        if let Some(report) = &target.files {
            let name = text::clean(&target.name);
            text.push_str(&format!(
                "\n{name}: page cache, {}\n",
                text::page_cache(report)
            ));
            text.push_str(&files(report, nr_mappings_max));
        }
    }
    if snapshot.source.is_some() {
        text.push_str(&format!(
            "\nheld up {}, all programs together\n",
            snapshot.hold_up
        ));
    }
    let (told, more) = snapshot
        .troubles
        .split_at(snapshot.troubles.len().min(TROUBLES_MAX));
    for trouble in told {
        text.push_str(&format!("\nnot seen: {}\n", text::clean(trouble)));
    }
    if !more.is_empty() {
        text.push_str(&format!("\nnot seen: {} more like these\n", more.len()));
    }
    text
}

/// A group without memory of its own, such as one that only has others below it.
fn holds_nothing(target: &TargetView) -> bool {
    let is_nothing = |bytes: Option<u64>| bytes.is_none_or(|bytes| bytes == 0);
    !target.is_watched && is_nothing(target.resident_bytes) && is_nothing(target.swap_bytes)
}

fn targets(rows: &[&TargetView]) -> String {
    let is_guarded = rows.iter().any(|target| target.guard.is_some());
    let head = format!(
        "SIZE|ANON|FILE|MAPPED|SHMEM|DIRTY|INACT|READ10s|READ60s|COLD>60s|SWAP|RFLT/s|BUDGET|KEPT{}|{}{}|USER|NAME|<TARGET  COMMAND",
        windows(),
        idle_title(rows),
        if is_guarded {
            "|GIVEN|AWAY|BACK/min"
        } else {
            ""
        },
    );
    let body = rows.iter().map(|target| {
        let of_guard = OF_GUARD.iter().filter(|_| is_guarded);
        let columns = COLUMNS.iter().chain(of_guard);
        let mut cells: Vec<String> = columns.map(|column| column.cell(target)).collect();
        let who = &target.who;
        cells.push(cell(who.user.as_deref()));
        cells.push(cell(who.label.name().as_deref()));
        let name = text::clean(&target.name);
        cells.push(match text::runs(who) {
            Some(command) => format!("{name}  {}", print::command(&command)),
            None => name,
        });
        cells
    });
    aligned(&head, body)
}

/// The columns of the windows.
fn windows() -> String {
    WINDOWS_S.map(|seconds| format!("|{seconds}s")).concat()
}

/// A name as a cell, without a space.
fn cell(name: Option<&str>) -> String {
    match name {
        None | Some("") => UNKNOWN.to_owned(),
        Some(name) => text::clean(name).replace(char::is_whitespace, "_"),
    }
}

/// For how long what is idle was not used; all targets are printed at one time, so it is the same of all.
fn idle_title(rows: &[&TargetView]) -> String {
    let watched = rows.iter().find_map(|target| target.ages.as_ref());
    watched.map_or_else(|| "IDLE".to_owned(), idle_of)
}

fn idle_of(ages: &AgesView) -> String {
    format!("IDLE>{}", text::span(ages.idle_after_ms))
}

fn bars(ages: &AgesView) -> String {
    let head = "FROM|ANON|<FILE";
    let known = AGE_STARTS_S
        .iter()
        .zip(&ages.bars)
        .take(ages.nr_known_bars());
    let body = known.map(|(start_s, bar): (&u64, &KindBytes)| {
        vec![
            text::age(*start_s),
            text::size(bar.anon_bytes),
            text::size(bar.file_bytes),
        ]
    });
    aligned(head, body)
}

fn mappings(ages: &AgesView, nr_max: usize) -> String {
    let head = format!("SIZE{}|{}|<MAPPING", windows(), idle_of(ages));
    let body = ages.mappings.iter().take(nr_max).map(|mapping| {
        let mut cells = vec![text::size(mapping.resident.total_bytes())];
        cells.extend(
            mapping
                .windows
                .map(|window| size_or_unknown(window.bytes())),
        );
        cells.push(size_or_unknown(mapping.idle_bytes));
        cells.push(text::clean(mapping_name(mapping)));
        cells
    });
    aligned(&head, body)
}

fn files(report: &FilesReport, nr_max: usize) -> String {
    let head = "CACHED|USED|DIRTY|OPEN|<FILE";
    let body = report.files.iter().take(nr_max).map(|file| {
        vec![
            text::size(file.cached_bytes),
            text::size(file.used_bytes),
            text::size(file.dirty_bytes),
            text::open(file).to_owned(),
            text::clean(&text::file_name(file)),
        ]
    });
    aligned(head, body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_host::observe::overview::GuardView;
    use strata_host::observe::overview::{MappingView, NR_AGES, TargetKind, WhoView};
    use strata_host::observe::programs::Label;
    use strata_linux::process::MappingClass;

    fn target(name: &str, nr_mappings: usize) -> TargetView {
        let mapping = |nth: usize| MappingView {
            name: format!("/lib/{nth}").into(),
            class: MappingClass::FilePrivate,
            nr_mappings: 1,
            resident: KindBytes::default(),
            bars: [KindBytes::default(); NR_AGES],
            windows: Default::default(),
            idle_bytes: Some(4096),
        };
        TargetView {
            kind: TargetKind::Tree,
            who: WhoView {
                command: Some(format!("server {name}\u{1b}[2J")),
                user: Some("a b".to_owned()),
                label: Label::of(&format!("/docker/{}", "0123456789abcdef".repeat(4))),
                ..WhoView::default()
            },
            is_watched: true,
            nr_processes: Some(1),
            resident_bytes: Some(1 << 20),
            ages: Some(AgesView {
                watched_ms: 20_000,
                bars: [KindBytes::default(); NR_AGES],
                windows: Default::default(),
                idle_after_ms: 20_000,
                idle_bytes: Some(4096),
                shared_bytes: 0,
                unknown_bytes: 0,
                nodes: [].into(),
                mappings: (0..nr_mappings).map(mapping).collect(),
            }),
            name: name.to_owned(),
            ..TargetView::default()
        }
    }

    fn printed(targets: &[TargetView]) -> String {
        let rows: Vec<&TargetView> = targets.iter().collect();
        table(&Snapshot::default(), &rows, None)
    }

    #[test]
    fn of_several_targets_only_the_largest_mappings_are_printed() {
        let nr_printed = |text: &str| text.matches("/lib/").count();
        let one = printed(&[target("1 a", 150)]);
        assert_eq!(nr_printed(&one), 150);
        assert!(one.contains("1 a: by mapping"), "{one}");
        let two = printed(&[target("1 a", 150), target("2 b", 3)]);
        assert_eq!(nr_printed(&two), 5 + 3);
        assert!(two.contains("1 a: the 5 largest of 150 mappings"), "{two}");
        assert!(two.contains("2 b: by mapping"), "{two}");
    }

    #[test]
    fn what_a_guard_has_done_stands_beside_its_groups_where_one_runs() {
        let cell = |text: &str, line: usize, title: &str| {
            let lines: Vec<Vec<&str>> = text
                .lines()
                .take(3)
                .map(|line| line.split_whitespace().collect())
                .collect();
            let column = lines[0].iter().position(|head| *head == title)?;
            lines[line].get(column).map(|cell| (*cell).to_owned())
        };
        let mut targets = [target("/a", 1), target("/b", 1)];
        let text = printed(&targets);
        assert_eq!(cell(&text, 1, "AWAY"), None, "{text}");
        targets[0].guard = Some(GuardView {
            taken_bytes: 96 << 20,
            away_bytes: 64 << 20,
            came_back_per_min_bytes: 340 << 10,
            allowed_per_min_bytes: 1 << 20,
        });
        let text = printed(&targets);
        let told = |line| ["GIVEN", "AWAY", "BACK/min"].map(|title| cell(&text, line, title));
        let some = |cells: [&str; 3]| cells.map(|cell| Some(cell.to_owned()));
        assert_eq!(told(1), some(["96M", "64M", "340K"]), "{text}");
        assert_eq!(told(2), some(["-", "-", "-"]), "{text}");
    }

    #[test]
    fn those_that_hold_nothing_are_one_line_and_lines_end_where_the_terminal_does() {
        let mut targets = [target("1 a", 1), target("/b", 0), target("/c", 0)];
        for empty in &mut targets[1..] {
            (empty.is_watched, empty.resident_bytes) = (false, Some(0));
        }
        let rows: Vec<&TargetView> = targets.iter().collect();
        let text = table(&Snapshot::default(), &rows, Some(50));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], "and 2 that hold nothing", "{text}");
        assert_eq!(lines[1].chars().count(), 50, "{text}");
    }

    #[test]
    fn a_line_has_who_it_is_and_for_how_long_idle_memory_was_not_used() {
        let text = printed(&[target("7 web", 1)]);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .take(2)
            .map(|line| line.split_whitespace().collect())
            .collect();
        let at = |title: &str| {
            let column = lines[0].iter().position(|column| *column == title);
            lines[1][column.unwrap_or_else(|| panic!("{title}: {text}"))]
        };
        assert_eq!(
            (at("IDLE>20s"), at("USER"), at("NAME")),
            ("4K", "a_b", "0123456789ab")
        );
        assert!(
            text.lines()
                .nth(1)
                .is_some_and(|line| line.ends_with("7 web  server 7 web?[2J")),
            "{text}"
        );
    }
}
