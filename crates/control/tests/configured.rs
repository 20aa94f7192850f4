//! The loop with other numbers: each tunable changes some decision, and none that is in range stops the loop.
//!
//! Samples are drawn, the same for every configuration; what is decided about them is written down and compared.

use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use strata_control::cpu::{Clocks, CpuSample, Runnable, Threads};
use strata_control::limit::{Answer, Limit, Line, Need, Standing, Step};
use strata_control::split_huge::{Facts, SplitHuge, Worth};
use strata_control::{
    Actuator, ActuatorReport, CacheLook, CacheSample, CameIn, CgroupVersion, Config, Control,
    Distances, FileCache, FileNo, FreeSwap, GroupStats, Held, ProgramNo, Sample, Setup, Tunable,
    Tunables, WalkLook, Watermarks,
};
use strata_lru::{Swappiness, TimeMs};

/// Numbers that look drawn, the same each time.
struct Dice(u64);

impl Dice {
    /// One below `nr`.
    fn below(&mut self, nr: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % nr
    }

    /// True one time in so many.
    fn one_in(&mut self, nr: u64) -> bool {
        self.below(nr) == 0
    }
}

/// Page cache of some files; now and then a census ends.
fn cache_look(dice: &mut Dice, budget_bytes: u64) -> CacheLook {
    let file = |number: u32, dice: &mut Dice| {
        let cached_bytes = dice.below(budget_bytes / 4);
        let dropped_bytes = dice.below(2 << 20) << dice.below(8);
        FileCache {
            file: FileNo(number),
            cached_bytes,
            once_idle_bytes: cached_bytes >> dice.below(12),
            again_idle_bytes: cached_bytes >> dice.below(12),
            reused_bytes: cached_bytes / (1 + dice.below(20)),
            dropped_bytes,
            returned_bytes: dropped_bytes / (1 + dice.below(20)),
        }
    };
    let found = dice.one_in(3).then(|| CacheSample {
        cpu_ns: dice.below(20_000_000),
        new_bytes: match dice.one_in(2) {
            true => dice.below(budget_bytes / 8),
            false => 0,
        },
        files: (0..dice.below(4) as u32)
            .map(|number| file(number, dice))
            .collect(),
    });
    let in_bytes = dice.below(budget_bytes / 16);
    let came_in = dice.one_in(2).then(|| CameIn {
        in_bytes,
        returned_bytes: in_bytes / (1 + dice.below(12)),
        ripe_bytes: dice.below(budget_bytes / 8),
        tried_bytes: in_bytes,
        gone_bytes: in_bytes / (1 + dice.below(3)),
        distances: {
            let mut distances = Distances::default();
            distances.note(1 + dice.below(100), 100);
            distances.note(dice.below(40), 300);
            distances
        },
    });
    CacheLook {
        is_busy: dice.one_in(4),
        found,
        came_in,
    }
}

/// What is decided, line by line.
#[derive(Default, PartialEq)]
struct Told(String);

impl Told {
    fn note(&mut self, what: impl Debug) {
        writeln!(self.0, "{what:?}").expect("a string");
    }
}

/// What holds for a while: some programs fill the processors, some wait, some idle.
struct Regime {
    usage_percent: u64,
    nr_busy_threads: u64,
    nr_runnable: u32,
    cpu_percent: u64,
    refaulted_per_turn: u64,
    file_percent: u64,
    can_go_percent: u64,
    /// Of what was split less than half is used.
    is_half_used: bool,
}

impl Regime {
    fn drawn(dice: &mut Dice) -> Regime {
        // Programs that fill the processors for long are left to reclaim by themselves.
        let is_full = dice.one_in(3);
        let (nr_busy_threads, nr_runnable) = match is_full {
            true => (3, 3),
            false => (dice.below(4), dice.below(6) as u32),
        };
        Regime {
            usage_percent: 85 + dice.below(20),
            nr_busy_threads,
            nr_runnable,
            cpu_percent: dice.below(200),
            refaulted_per_turn: [0, 2, 50, 1000, 4000][dice.below(5) as usize],
            file_percent: dice.below(20),
            can_go_percent: dice.below(100),
            is_half_used: !dice.one_in(3),
        }
    }
}

/// Some minutes of the loop on a group with such a budget, beside the parts that the host drives by itself.
fn decided(config: &Config, seed: u64, budget_bytes: u64) -> Told {
    let (mut dice, mut cache_dice) = (Dice(seed), Dice(seed + 1));
    let mut told = Told::default();
    told.note(Held::of(budget_bytes, &config.watermarks));
    told.note(Watermarks::new(budget_bytes, &config.watermarks));
    let setup = Setup {
        budget_bytes,
        actuator: Actuator::Auto,
        swappiness: Swappiness::DEFAULT,
        min_ttl_ms: 0,
        is_dry_run: false,
        is_exact: !seed.is_multiple_of(3),
        has_pageout: true,
        has_kernel: true,
        cpu_percent_max: (seed.is_multiple_of(4)).then_some(10),
        nr_processors: 2,
    };
    let mut control = Control::new(setup, config);
    let version = if seed.is_multiple_of(2) {
        CgroupVersion::V1
    } else {
        CgroupVersion::V2
    };
    let marks = *control.marks();
    let mut limit = Limit::new(version, &marks, config.limit);
    let mut group = Group {
        limit_bytes: marks.backstop_bytes,
        usage_bytes: budget_bytes,
    };
    let mut splitter = SplitHuge::new(config.split_huge, Worth::UNDER_BUDGET);
    let mut reports_due = Vec::new();
    let mut regime = Regime::drawn(&mut dice);
    let (mut cpu_ns, mut nr_refaulted_pages, mut wanted_ns) = (0, 0, BTreeMap::new());
    let (mut now, mut freed_bytes, mut walked_at) = (TimeMs(0), 0, TimeMs(0));
    for turn in 0..1000u64 {
        let passed_ms = [5, 10, 20, 20, 50, 100, 300][dice.below(7) as usize];
        now = TimeMs(now.0 + passed_ms + if dice.one_in(100) { 5000 } else { 0 });
        if dice.one_in([10, 25, 2500][(seed / 4 % 3) as usize]) {
            regime = Regime::drawn(&mut dice);
        }
        let percent = regime.usage_percent * 10 + dice.below(10);
        let usage_bytes = budget_bytes / 1000 * percent;
        group.usage_bytes = usage_bytes;
        cpu_ns += passed_ms * regime.cpu_percent * 10_000;
        nr_refaulted_pages += regime.refaulted_per_turn;
        for thread in 0..4u64 {
            let busy_percent = if thread < regime.nr_busy_threads {
                90
            } else {
                dice.below(60)
            };
            *wanted_ns.entry(thread as i32).or_insert(0) += passed_ms * busy_percent * 10_000;
        }

        let due = control.due(now, usage_bytes);
        told.note(due);
        let cpu = due.is_sharing.then(|| {
            let threads = Threads {
                wanted_ns: wanted_ns.clone(),
                processors: (0..2).collect(),
            };
            let runnable = Runnable {
                nr_threads: regime.nr_runnable,
                nr_own_threads: 0,
            };
            let clocks = Clocks {
                cpu_ns: BTreeMap::from([(ProgramNo(0), cpu_ns)]),
                nr_refaulted_pages,
            };
            CpuSample {
                threads: (due.cpu.threads).then(|| BTreeMap::from([(ProgramNo(0), threads)])),
                runnable: due.cpu.runnable.then_some(runnable),
                clocks: due.cpu.clocks.then_some(clocks),
            }
        });
        let free_swap = due.free_swap.then(|| FreeSwap::Bytes(dice.below(1 << 20)));
        if dice.one_in(4) {
            freed_bytes += 1 << 18;
        }
        let reports = std::mem::take(&mut reports_due);
        told.note(
            control.tick(Sample {
                now,
                usage_bytes,
                is_line_held: true,
                reports,
                nr_attempts: turn,
                freed_bytes,
                cpu,
                free_swap,
                own_cpu_ns: now.0 * 100_000,
                cache: seed
                    .is_multiple_of(2)
                    .then(|| cache_look(&mut cache_dice, budget_bytes)),
            }),
        );
        told.note(control.reclaimer());
        if dice.one_in(8) {
            told.note(control.back_off());
        }
        if control.may_ask_kernel(now) {
            let report = match dice.one_in(10) {
                true => ActuatorReport::KernelFoundNothing,
                false => ActuatorReport::KernelFreed,
            };
            told.note(report);
            reports_due.push(report);
        }
        let look = WalkLook {
            usage_bytes,
            is_splitting: splitter.is_busy(),
            is_pageout_wanted: dice.one_in(2),
            is_ageing_due: dice.one_in(2),
        };
        let pause_ms = control.walk_pause_ms(&look);
        told.note(pause_ms);
        if pause_ms.is_some_and(|pause_ms| control.may_look(now, pause_ms)) {
            let is_thorough = control.begin_walk();
            told.note(is_thorough);
            control.note_walk_cost(dice.below(20_000_000), dice.below(20_000_000));
            control.end_walk(now, usage_bytes);
            walked_at = now;
        }
        told.note(walked_at);

        let listed_bytes = usage_bytes / 100 * regime.can_go_percent;
        let file_bytes = listed_bytes / 100 * regime.file_percent;
        let stats = GroupStats {
            lru_anon_bytes: Some(listed_bytes - file_bytes),
            lru_file_bytes: Some(file_bytes),
            ..GroupStats::default()
        };
        let is_under_oom = dice.one_in(12);
        let wants = limit.wants_counters(now, &marks, usage_bytes, is_under_oom);
        told.note(wants);
        if wants == Some(true) {
            limit.take_counters(now, Some(stats), usage_bytes, true);
        }
        let need = Need {
            standing: [Standing::Fine, Standing::NothingEvictable][dice.below(2) as usize],
            is_under_oom,
            has_free_swap: true,
            usage_bytes,
        };
        let steps = group.move_limit(&mut limit, now, need, &marks);
        told.note(steps);
        told.note(limit.may_have_caused_fault(TimeMs(now.0 + dice.below(1000))));
        if dice.one_in(20) {
            group.limit_bytes = marks.backstop_bytes;
        }

        let huge: Vec<u64> = (0..dice.below(600)).collect();
        let facts = Facts {
            are_pages_going: !dice.one_in(10),
            nr_resident_pages: (100 + dice.below(2000)) << 9,
            huge: &huge,
        };
        let nr_used = if regime.is_half_used { 100 } else { 400 };
        told.note(splitter.after_walk(TimeMs(turn * 250), facts, |_| Some(nr_used)));
    }
    told
}

/// A limit as the kernel would move it.
struct Group {
    limit_bytes: u64,
    usage_bytes: u64,
}

impl Group {
    fn move_limit(
        &mut self,
        limit: &mut Limit,
        now: TimeMs,
        need: Need,
        marks: &Watermarks,
    ) -> Vec<Step> {
        let mut steps = vec![limit.start(now, need, marks)];
        while let Some(step) = steps.last().filter(|step| !matches!(step, Step::Done(_))) {
            let answer = match step {
                Step::LookAtLimit => Answer::Limit(Some(self.limit_bytes)),
                Step::LookAtUsage => Answer::Usage(self.usage_bytes),
                Step::Raise { bytes } => {
                    self.limit_bytes += bytes;
                    Answer::Raised(*bytes)
                }
                Step::HoldLine => Answer::Line(Line::Held),
                _ => Answer::Done,
            };
            assert!(steps.len() <= 10, "{steps:?}");
            steps.push(limit.next(answer));
        }
        steps
    }
}

/// The default configuration with some of its numbers set to others.
fn with(numbers: &[(Tunable, f64)]) -> Config {
    let mut whole = serde_json::to_value(Config::default()).expect("numbers");
    for (of, value) in numbers {
        let path = format!("/{}/{}", of.module.replace('.', "/"), of.name);
        let field: &mut Value = whole
            .pointer_mut(&path)
            .expect("where its module and name say");
        *field = match field.is_f64() {
            true => json!(value),
            false => json!(value.round() as u64),
        };
    }
    let config: Config = serde_json::from_value(whole).expect("numbers");
    assert_eq!(config.validate(), Ok(()));
    config
}

/// Groups from small to large: some marks matter in one of them only.
const BUDGETS_BYTES: [u64; 4] = [2 << 20, 64 << 20, 1 << 30, 16 << 30];

#[test]
fn every_tunable_changes_what_is_decided() {
    /// By these goes what a sample calls idle, and whoever takes it.
    const NOT_REACHED: [&str; 3] = [
        "drop_cache.unread_idle_ms",
        "drop_cache.again_idle_ms",
        "admit_cache.admitted_percent",
    ];
    let tunables = Config::default().tunables();
    // The most that a pause may be is reached at once where the least is as long as it may be.
    let least_of = |of: &Tunable| {
        let name = of
            .name
            .strip_suffix("_max")
            .map(|base| format!("{base}_min"));
        let is_least =
            |least: &&Tunable| least.module == of.module && Some(least.name) == name.as_deref();
        tunables
            .iter()
            .find(is_least)
            .map(|least| (*least, least.range.1))
    };
    let changes = |of: &Tunable| {
        let base: Vec<(Tunable, f64)> = least_of(of).into_iter().collect();
        let set = |value| with(&[base.clone(), vec![(*of, value)]].concat());
        let (base, others) = (with(&base), [of.range.0, of.range.1].map(set));
        let mut runs = (0..96).flat_map(|seed| BUDGETS_BYTES.map(|bytes| (seed, bytes)));
        runs.any(|(seed, bytes)| {
            let default = decided(&base, seed, bytes);
            others
                .iter()
                .any(|config| decided(config, seed, bytes) != default)
        })
    };
    let name = |of: &Tunable| format!("{}.{}", of.module, of.name);
    let is_reached = |of: &&Tunable| !NOT_REACHED.contains(&name(of).as_str());
    let reached = tunables.iter().filter(is_reached);
    let idle: Vec<String> = reached.filter(|of| !changes(of)).map(name).collect();
    assert!(idle.is_empty(), "nothing goes by these: {idle:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// No division by nothing, no bound below the one under it.
    #[test]
    fn the_loop_runs_with_every_configuration_in_range(
        places in prop::collection::vec(prop_oneof![Just(0.0), Just(1.0), 0.0..1.0], 200),
        seed in 0u64..1000,
        budget in 0usize..4,
    ) {
        let tunables = Config::default().tunables();
        let value = |of: &Tunable, place: f64| of.range.0 + (of.range.1 - of.range.0) * place;
        let numbers = tunables.into_iter().zip(places);
        let numbers: Vec<(Tunable, f64)> = numbers.map(|(of, place)| (of, value(&of, place))).collect();
        decided(&with(&numbers), seed, BUDGETS_BYTES[budget]);
    }
}
