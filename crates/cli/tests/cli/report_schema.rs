//! The schema of the report and its description in `docs/reference/report.md` are the same.

use crate::support::prelude::*;

use strata_host::compare::Metric;
use strata_host::keeper::KeeperReport;
use strata_host::run::{
    ActuatorChoice, CacheTierReport, Ending, EvictionReport, GenerationReport, KernelReport,
    LetGoReport, LimitReport, PageCacheReport, PolicyChoice, ProgramReport, REPORT_VERSION, Report,
    SavedReport, TierReport, UsageReport, WalkFindings, WalkReport, WouldEvictReport,
    WouldEvictShare,
};
use strata_linux::access::{Grain, SourceInfo, WalkCost};
use strata_linux::hold_up::HoldUpReport;

/// A report of which everything is known.
fn known() -> Report {
    Report {
        version: REPORT_VERSION,
        target: "sleep 1".to_owned(),
        ending: Ending::Exited { code: 0 },
        elapsed_ms: 1000,
        is_dry_run: false,
        policy: "mglru".parse::<PolicyChoice>().expect("a policy"),
        actuator: ActuatorChoice::Auto,
        method: "a method",
        actuator_reason: "a reason".to_owned(),
        access: Some(SourceInfo {
            name: "bpf",
            grain: Grain::Page,
            blind_spots: vec!["something".to_owned()],
        }),
        program: Some(ProgramReport::default()),
        usage: UsageReport::default(),
        limit: Some(LimitReport::default()),
        working_set_bytes: Some(1),
        generations: vec![GenerationReport {
            seq: 1,
            age_ms: 1,
            anon_bytes: 1,
            file_bytes: 1,
        }],
        eviction: EvictionReport::default(),
        tiers: vec![TierReport {
            kind: "anon",
            ..TierReport::default()
        }],
        page_cache: Some(PageCacheReport {
            tiers: vec![CacheTierReport::default()],
            ..PageCacheReport::default()
        }),
        would_evict: Some(WouldEvictReport {
            nr_pages: 1,
            shares: vec![WouldEvictShare {
                name: "[heap]".to_owned(),
                nr_pages: 1,
            }],
        }),
        walks: WalkReport {
            cost: WalkCost::default(),
            last: WalkFindings::default(),
            entries_per_freed_page: Some(1.5),
            ..WalkReport::default()
        },
        hold_up: HoldUpReport::default(),
        kernel: KernelReport {
            nr_major_faults: Some(1),
            nr_scanned_pages: Some(1),
            nr_freed_pages: Some(1),
            scanned_per_freed_page: Some(1.5),
            nr_refaulted_anon_pages: Some(1),
            nr_refaulted_file_pages: Some(1),
            nr_oom_kills: Some(1),
        },
        saved: SavedReport::default(),
        let_go: LetGoReport {
            swapped_bytes: Some(1),
            brought_back_bytes: Some(1),
        },
        tracking_bytes: 1,
        strata_cpu_ms: 1,
        strata_cpu_cap_percent: Some(10),
        strata_cpu_worst_percent: Some(9.5),
        strata_cpu_percent: 1.5,
        nr_processes: 1,
        keeper: Some(KeeperReport::default()),
        warnings: vec!["a warning".to_owned()],
    }
}

/// The same with nothing known that may be unknown.
fn unknown() -> Report {
    let mut report = known();
    (report.access, report.program, report.limit) = (None, None, None);
    (report.page_cache, report.would_evict, report.keeper) = (None, None, None);
    report.working_set_bytes = None;
    report.strata_cpu_cap_percent = None;
    report.strata_cpu_worst_percent = None;
    report.walks.entries_per_freed_page = None;
    report.kernel = KernelReport::default();
    report.let_go = LetGoReport::default();
    report
}

/// Paths of all values: `a.b` for members, `a[]` for what is in a list.
fn paths(value: &Value, at: &str, found: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let path = if at.is_empty() {
                    name.clone()
                } else {
                    format!("{at}.{name}")
                };
                paths(member, &path, found);
            }
        }
        Value::Array(entries) => {
            for entry in entries {
                paths(entry, &format!("{at}[]"), found);
            }
        }
        leaf => {
            found.insert(at.to_owned(), leaf.clone());
        }
    }
}

fn paths_of(report: &Report) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    paths(
        &serde_json::to_value(report).expect("a report is plain data"),
        "",
        &mut found,
    );
    found
}

/// Every path any report can have, with a value it can have there.
fn all_paths() -> BTreeMap<String, Value> {
    let mut found = paths_of(&unknown());
    for ending in [
        Ending::Exited { code: 1 },
        Ending::Signaled {
            signal: 9,
            is_oom_kill: true,
        },
        Ending::Detached,
        Ending::Gone,
    ] {
        let mut report = known();
        report.ending = ending;
        found.extend(paths_of(&report));
    }
    found
}

/// What the document says: path and meaning. A name that begins with a dot lies where the first one of its row does.
fn documented() -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/report.md");
    let text = fs::read_to_string(path).expect("docs/reference/report.md");
    let mut rows = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, names, meaning, _] = cells[..] else {
            panic!("not two cells: {line}");
        };
        assert!(!meaning.is_empty(), "{line}");
        let home = names.split([',', '`']).find(|name| !name.is_empty());
        let home = home.and_then(|first| first.rsplit_once('.'));
        for name in names.split(", ").map(|name| name.trim_matches('`')) {
            let path = match (name.starts_with('.'), home) {
                (true, Some((home, _))) => format!("{home}{name}"),
                _ => name.to_owned(),
            };
            let before = rows.insert(path, meaning.to_owned());
            assert_eq!(before, None, "{name} is described twice");
        }
    }
    rows
}

#[test]
fn every_field_of_the_report_is_documented_and_nothing_else() {
    let exist: BTreeSet<String> = all_paths().into_keys().collect();
    let told: BTreeSet<String> = documented().into_keys().collect();
    let missing: Vec<&String> = exist.difference(&told).collect();
    let invented: Vec<&String> = told.difference(&exist).collect();
    assert!(
        missing.is_empty(),
        "not in docs/reference/report.md: {missing:?}"
    );
    assert!(
        invented.is_empty(),
        "only in docs/reference/report.md: {invented:?}"
    );
}

#[test]
fn every_figure_of_a_comparison_is_documented() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/compare.md");
    let text = fs::read_to_string(path).expect("docs/guide/compare.md");
    // Three cells: what the table shows, the name in JSON, what it is.
    let rows = text.lines().map(|line| line.split('|').collect::<Vec<_>>());
    let names = rows.filter(|cells| cells.len() == 5).map(|cells| cells[2]);
    let told: BTreeSet<&str> = names
        .filter_map(|cell| cell.trim().strip_prefix('`')?.strip_suffix('`'))
        .collect();
    let exist: BTreeSet<&str> = Metric::ALL.into_iter().map(Metric::name).collect();
    assert_eq!(exist, told);
}

#[test]
fn null_is_documented_exactly_where_it_occurs() {
    let occurs: BTreeSet<String> = paths_of(&unknown())
        .into_iter()
        .filter_map(|(path, value)| value.is_null().then_some(path))
        .collect();
    let told: BTreeSet<String> = documented()
        .into_iter()
        .filter_map(|(path, meaning)| meaning.contains("null").then_some(path))
        .collect();
    assert_eq!(occurs, told);
}
