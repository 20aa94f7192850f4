//! The human report against its golden text.

use strata_host::run::{
    CacheTierReport, KernelReport, LetGoReport, LimitReport, REPORT_VERSION, SavedReport,
    WalkFindings, WalkReport, WouldEvictReport, WouldEvictShare,
};
use strata_linux::access::{SourceInfo, WalkCost};
use strata_linux::hold_up::HoldUpReport;

use super::*;
use crate::print::tests::assert_has;
use strata_host::run::{PageCacheReport, TierReport};

const MIB: u64 = 1 << 20;

fn example() -> Report {
    Report {
        version: REPORT_VERSION,
        target: "redis-server --port 0".to_owned(),
        ending: Ending::Exited { code: 0 },
        elapsed_ms: 60_000,
        is_dry_run: false,
        policy: "mglru".parse::<PolicyChoice>().unwrap(),
        actuator: ActuatorChoice::Pageout,
        method: "exact pageout",
        actuator_reason: "pageout was asked for".to_owned(),
        access: Some(SourceInfo {
            name: "bpf",
            grain: Grain::Page,
            blind_spots: vec!["what is read through descriptors".to_owned()],
        }),
        program: None,
        usage: UsageReport {
            budget_bytes: 300 * MIB,
            peak_bytes: 303 * MIB,
            mean_bytes: 291 * MIB,
            nr_samples: 600,
            above_budget_ms: 300,
            observed_ms: 60_000,
            measured_by: "cgroup_v2",
        },
        limit: Some(LimitReport {
            backstop_bytes: 308 * MIB,
            peak_bytes: 312 * MIB,
            nr_raises: 2,
        }),
        working_set_bytes: Some(120 * MIB),
        generations: Vec::new(),
        page_cache: None,
        tiers: Vec::new(),
        eviction: EvictionReport {
            nr_tried_pages: 60_000,
            nr_applied_pages: 51_200,
            nr_kernel_chosen_pages: 2_560,
            nr_referenced_pages: 8_800,
            nr_refaulted_pages: 2_560,
            nr_refaulted_recent_pages: 1_000,
            ..EvictionReport::default()
        },
        would_evict: None,
        walks: WalkReport {
            nr_walks: 12,
            nr_spaces: 12,
            nr_spaces_skipped: 0,
            cost: WalkCost::default(),
            clear_ns: 1,
            nr_left_pieces: 0,
            last: WalkFindings::default(),
            entries_per_freed_page: Some(2.5),
        },
        hold_up: HoldUpReport {
            longest_us: 240,
            share_percent: 0.312,
            ..HoldUpReport::default()
        },
        kernel: KernelReport {
            nr_major_faults: Some(2_600),
            ..KernelReport::default()
        },
        saved: SavedReport {
            evicted_bytes: 200 * MIB,
            zram_bytes: 60 * MIB,
            strata_bytes: 10 * MIB,
            net_bytes: 130 * MIB as i64,
        },
        let_go: LetGoReport::default(),
        tracking_bytes: 3 * MIB,
        strata_cpu_ms: 900,
        strata_cpu_cap_percent: None,
        strata_cpu_worst_percent: None,
        strata_cpu_percent: 1.5,
        nr_processes: 1,
        keeper: None,
        warnings: vec!["something to know".to_owned()],
    }
}

/// The report as it is without `--verbose`, of a run that told no warning.
fn report(of: &Report) -> String {
    super::report(of, Detail::Short, &[])
}

fn line<'a>(text: &'a str, label: &str) -> &'a str {
    text.lines()
        .find(|line| line.trim_start().starts_with(label))
        .unwrap_or_else(|| panic!("no line {label:?} in:\n{text}"))
}

#[test]
fn what_is_left_in_swap_is_told_of_a_target_that_goes_on() {
    let told = |swapped_bytes, brought_back_bytes| {
        let let_go = LetGoReport {
            swapped_bytes,
            brought_back_bytes,
        };
        let text = report(&Report {
            ending: Ending::Detached,
            let_go,
            ..example()
        });
        line(&text, "let go").trim_start().to_owned()
    };
    assert_eq!(
        told(Some(12 * MIB), None),
        "let go        12 MiB of its memory still in swap (--bring-back reads that back in first)"
    );
    assert_eq!(
        told(Some(0), Some(80 * MIB)),
        "let go        80 MiB read back in; nothing of its memory is in swap any more"
    );
    assert!(told(None, None).contains("unknown"));
    assert!(!report(&example()).contains("let go"));
}

#[test]
fn what_is_not_known_is_never_0() {
    let mut unknown = example();
    unknown.working_set_bytes = None;
    unknown.kernel = KernelReport::default();
    let text = report(&unknown);
    assert!(!text.contains("working set"), "{text}");
    assert_eq!(line(&text, "major faults"), "  major faults  unknown");
}

#[test]
fn a_death_by_the_out_of_memory_killer_is_named() {
    let mut killed = example();
    killed.ending = Ending::Signaled {
        signal: 9,
        is_oom_kill: true,
    };
    let text = report(&killed);
    assert!(
        text.lines()
            .next()
            .is_some_and(|head| head.to_lowercase().contains("memory")),
        "{text}"
    );
}

#[test]
fn without_a_policy_only_the_kernels_own_counters_are_told() {
    let mut baseline = example();
    baseline.policy = PolicyChoice::None;
    baseline.kernel.nr_freed_pages = Some(1000);
    baseline.eviction.nr_kernel_chosen_pages = 1000;
    let text = report(&baseline);
    assert_eq!(
        line(&text, "evicted"),
        "  evicted       3.9 MiB (1,000 pages), by the kernel alone"
    );
    assert_eq!(line(&text, "refaulted"), "  refaulted     unknown");
    assert!(
        !text.contains("chosen by Strata") && !text.contains("tried"),
        "{text}"
    );
}

#[test]
fn the_whole_report_is_what_a_person_reads_in_five_seconds() {
    let golden = "\
strata: redis-server --port 0 exited with status 0 after 60.0 s
  budget        300 MiB; usage: peak 303 MiB, mean 291 MiB (charged to the cgroup)
  above budget  300 ms of 60.0 s (0.5 %)
  hard limit    gave way 2 times, from 308 MiB to 312 MiB
  working set   120 MiB used between the last two walks
  method        pageout (exact pageout)
  evicted       210 MiB (53,760 pages) in all
                200 MiB (51,200 pages) chosen by Strata, of 60,000 that it tried
                10 MiB (2,560 pages) chosen by the kernel
  not evicted   pages: 8,800 used again
  refaulted     10 MiB (2,560 pages) came back, 1,000 of them soon after they went
  major faults  2,600
  saved net     130 MiB on average: 200 MiB out of memory, less 60 MiB for compressed swap and 10 MiB for Strata
  strata        900 ms of CPU time (1.5 % of a processor), 10 MiB of memory, 12 walks
  held up       0.24 ms at the longest, 0.31 % of the time, by calls that lock its memory
  accesses      seen by bpf, page by page; --verbose says what that does not show
  warning       something to know
";
    assert_eq!(report(&example()), golden);
}

#[test]
fn what_says_nothing_of_a_short_run_is_left_out_and_a_loss_is_a_warning() {
    let mut of = example();
    assert!(!report(&of).contains("nothing was saved"));
    (of.usage.observed_ms, of.usage.above_budget_ms) = (0, 0);
    of.strata_cpu_percent = 7900.0;
    of.saved.net_bytes = -(25 * MIB as i64);
    of.limit.as_mut().expect("a limit").nr_raises = 1;
    let text = report(&of);
    for absent in ["7900", "above budget", "1 times"] {
        assert!(!text.contains(absent), "{absent} in:\n{text}");
    }
    assert_has(&text, "gave way once, from");
    assert_has(&text, "warning       nothing was saved: ");
}

#[test]
fn what_is_long_is_told_only_when_asked_and_a_warning_only_once() {
    let long = [
        "pageout was asked for",
        "limit: what is read through descriptors",
        "2.5 page-table entries visited by walks per page freed",
    ];
    let told = ["something to know".to_owned()];
    let short = super::report(&example(), Detail::Short, &told);
    let verbose = super::report(&example(), Detail::Verbose, &told);
    for part in long {
        assert!(!short.contains(part), "{part} in:\n{short}");
        assert!(verbose.contains(part), "{part} not in:\n{verbose}");
    }
    assert!(!short.contains("something to know"), "{short}");
    let mut coarse = example();
    coarse.access.as_mut().expect("a source").grain = Grain::Mapping;
    assert!(
        report(&coarse).contains("limit: what is read"),
        "figures are coarse"
    );
    assert!(verbose.contains("warning       something to know"));
}

#[test]
fn with_verbose_the_report_tells_what_became_of_each_kind_and_tier() {
    let mut of = example();
    of.tiers = vec![
        TierReport {
            kind: "anon",
            ..TierReport::default()
        },
        TierReport {
            kind: "file",
            tier: 1,
            nr_evicted_pages: 512,
            nr_refaulted_pages: 256,
            nr_protected_pages: 0,
            ..TierReport::default()
        },
    ];
    let of_cache = CacheTierReport {
        tier: 2,
        reclaimed_bytes: 8 * MIB,
        protected_bytes: 3 * MIB,
        ..CacheTierReport::default()
    };
    of.page_cache = Some(PageCacheReport {
        tiers: vec![CacheTierReport::default(), of_cache],
        ..PageCacheReport::default()
    });
    let verbose = super::report(&of, Detail::Verbose, &[]);
    let of_file = line(&verbose, "file in tier 1");
    assert!(
        of_file.contains("evicted, ") && of_file.ends_with("came back"),
        "{of_file}"
    );
    assert_eq!(
        line(&verbose, "page cache in tier").trim_start(),
        "page cache in tier 2: 8 MiB gone without Strata, 3 MiB protected"
    );
    assert!(
        !verbose.contains("tier 0"),
        "nothing became of it: {verbose}"
    );
    assert!(!report(&of).contains("tier"), "only with --verbose");
}

#[test]
fn a_dry_run_answers_in_a_sentence() {
    let share = |name: &str, nr_pages| WouldEvictShare {
        name: name.to_owned(),
        nr_pages,
    };
    let dry = |would_evict| {
        report(&Report {
            is_dry_run: true,
            would_evict,
            ..example()
        })
    };
    let text = dry(Some(WouldEvictReport {
        nr_pages: 126 * 256,
        shares: vec![share("[heap]", 120 * 256), share("files", 6 * 256)],
    }));
    assert_eq!(
        line(&text, "would evict"),
        "  would evict   126 MiB: 120 MiB [heap], 6 MiB files"
    );
    assert_has(&text, "  10 MiB (2,560 pages) would have come back: ");
    for absent in ["\n  evicted", "not tried", "saved net", "refaulted"] {
        assert!(!text.contains(absent), "{absent} in:\n{text}");
    }
    let with_cache = report(&Report {
        is_dry_run: true,
        would_evict: Some(WouldEvictReport {
            nr_pages: 256,
            shares: vec![share("page cache", 256)],
        }),
        page_cache: Some(PageCacheReport {
            returned_bytes: MIB,
            ..PageCacheReport::default()
        }),
        ..example()
    });
    assert_has(&with_cache, "  11 MiB (2,816 pages) would have come back: ");
    let text = dry(Some(WouldEvictReport::default()));
    assert!(line(&text, "would evict").ends_with("nothing: usage stayed within the budget"));
    assert!(line(&dry(None), "would evict").contains("unknown"));
}
