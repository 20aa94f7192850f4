//! The kept traces against the loop: fed what was read, it decides what was decided then.
//!
//! **Owns** the proof that a trace has all from which it follows who reclaims, how much, when the loop looks again, how the
//! kernel weighs anon against file pages, and what is asked for of page cache. **Does not
//! own** the traces (`tests/control-traces`), nor what holds of any trace (the binary's tests).

use crate::run::trace::{
    self, CacheAsk, Counters, FreeSwap, LimitAction, ProgramThreads, ReclaimFailure, Recorded,
    Report, StatReader, Tick, read,
};
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;
use strata_control::cpu::{Clocks, CpuSample, Runnable, Threads};
use strata_control::limit::{Answer, Limit, Line, Need, Standing, Step};
use strata_control::{
    ActuatorReport, CgroupVersion, Config, Control, Processors, ProgramNo, Sample, Setup,
    Watermarks,
};
use strata_lru::{Swappiness, TimeMs};

/// The loop, fed from a trace.
struct Loop {
    control: Control,
    /// What each program's threads have wanted so far.
    wanted_ns: BTreeMap<u32, u64>,
}

/// What a tick decides: who reclaims, how the processors are shared, whether it is in vain, the kinds of pages, and what is asked
/// for of page cache.
#[derive(Debug)]
struct Decided {
    reclaimer: trace::Reclaimer,
    share: Option<trace::Share>,
    stall: (bool, Option<u64>),
    swappiness: Option<u8>,
    cache: Vec<CacheAsk>,
}

impl Loop {
    fn new(of: &Recorded) -> Loop {
        let header = &of.header;
        let run = &header.run;
        let base = run.swappiness.and_then(Swappiness::try_new);
        Loop {
            control: Control::new(
                Setup {
                    budget_bytes: run.marks.budget_bytes,
                    actuator: run.actuator,
                    swappiness: base.unwrap_or(Swappiness::DEFAULT),
                    min_ttl_ms: run.min_ttl_ms,
                    is_dry_run: run.is_dry_run,
                    is_exact: run.is_exact,
                    has_pageout: run.has_pageout,
                    has_kernel: run.has_reclaim,
                    cpu_percent_max: run.cpu_percent_max,
                    nr_processors: header.nr_processors as usize,
                },
                &Config::default(),
            ),
            wanted_ns: BTreeMap::new(),
        }
    }

    fn tick(&mut self, tick: &Tick) -> Decided {
        let read = &tick.sample;
        let usage_bytes = read.usage_bytes.expect("usage is known");
        let engine = read.engine.expect("it was asked");
        let now = TimeMs(tick.now_ms);
        let is_sharing = self.control.due(now, usage_bytes).is_sharing;
        let cpu = is_sharing.then(|| self.cpu(tick));
        let plan = self.control.tick(Sample {
            now,
            usage_bytes,
            is_line_held: tick.plan.limit.first().is_some_and(|of| of.is_line_held),
            reports: reports(tick),
            nr_attempts: engine.nr_attempts,
            freed_bytes: engine.freed_bytes,
            cpu,
            free_swap: read.free_swap,
            cache: read.cache.clone(),
            own_cpu_ns: read.own_cpu_ns.unwrap_or(0),
        });
        if tick.plan.standing != Standing::Fine {
            self.control.back_off();
        }
        let asked = plan.decision.asked;
        let actions = plan.actions.into_iter();
        let cache = actions.filter_map(CacheAsk::of).collect();
        Decided {
            reclaimer: trace::Reclaimer {
                who: self.control.reclaimer(),
                pageout_pages: asked.pageout_pages,
                reclaim_bytes: asked.kernel_bytes,
                wait_ms: asked.wait_ms,
            },
            share: is_sharing.then(|| self.share()),
            stall: (plan.decision.is_stalled, plan.decision.stall_pause_ms),
            swappiness: read.free_swap.map(|_| self.control.swappiness().get()),
            cache,
        }
    }

    fn cpu(&mut self, tick: &Tick) -> CpuSample {
        let threads = tick.sample.threads.as_ref();
        let threads = threads.map(|of| of.iter().map(|of| self.threads(of)).collect());
        let runnable = tick.sample.runnable.map(|of| Runnable {
            nr_threads: of.nr_threads,
            nr_own_threads: of.nr_own_threads,
        });
        let clocks = tick.sample.cpu.as_ref().map(|cpu| Clocks {
            cpu_ns: cpu
                .iter()
                .map(|of| (ProgramNo(of.program), of.cpu_ns))
                .collect(),
            nr_refaulted_pages: refaulted(tick),
        });
        CpuSample {
            threads,
            runnable,
            clocks,
        }
    }

    fn share(&self) -> trace::Share {
        let cpu = self.control.cpu();
        let wanted = cpu.wanted();
        trace::Share {
            processors: self.control.cpu_state(),
            wanted_processors: wanted.all,
            wanted_threads: wanted.nr_threads,
            refaulted_pages_per_s: cpu.refaulted_pages_per_s(),
            pageout_percent_max: self.control.pageout_percent_max(),
        }
    }

    /// Threads of which only the sum is known count as one: who of them is busy is another question.
    fn threads(&mut self, of: &ProgramThreads) -> (ProgramNo, Threads) {
        let wanted_ns = self.wanted_ns.entry(of.program).or_default();
        *wanted_ns += of.wanted_ns.unwrap_or(0);
        let processors: Processors = match of.processors.is_empty() {
            true => Processors::ALL,
            false => of.processors.iter().copied().collect(),
        };
        let threads = Threads {
            wanted_ns: BTreeMap::from([(1, *wanted_ns)]),
            processors,
        };
        (ProgramNo(of.program), threads)
    }
}

fn reports(tick: &Tick) -> Vec<ActuatorReport> {
    let heard = tick.reports.iter().filter_map(|report| {
        let Report::Reclaim(of) = report else {
            return None;
        };
        Some(match of.failure {
            None => ActuatorReport::KernelFreed,
            Some(ReclaimFailure::NothingFound) => ActuatorReport::KernelFoundNothing,
            Some(ReclaimFailure::Outpaced) => ActuatorReport::KernelOutpaced,
            Some(ReclaimFailure::AtFloor) => ActuatorReport::KernelAtFloor,
        })
    });
    heard.collect()
}

fn refaulted(tick: &Tick) -> u64 {
    let mut readings = tick.sample.memory_stat.iter();
    let reading = readings.find(|reading| reading.by == StatReader::Refaults);
    match reading.map(|reading| reading.counters) {
        Some(Counters::Fresh(stats)) => {
            let kinds = [stats.nr_refault_anon_pages, stats.nr_refault_file_pages];
            kinds.into_iter().flatten().sum()
        }
        _ => 0,
    }
}

/// A number that was written and read again may differ in its last digit.
fn is_alike(a: Option<trace::Share>, b: Option<trace::Share>) -> bool {
    let (Some(a), Some(b)) = (a, b) else {
        return a == b;
    };
    let averages = |of: trace::Share| {
        [
            of.wanted_processors,
            of.wanted_threads,
            of.refaulted_pages_per_s,
        ]
    };
    let mut pairs = averages(a).into_iter().zip(averages(b));
    let are_averages_alike = pairs.all(|(a, b)| (a - b).abs() <= 1e-9 * a.abs().max(1.0));
    are_averages_alike
        && (a.processors, a.pageout_percent_max) == (b.processors, b.pageout_percent_max)
}

/// The first tick at which the loop decides otherwise than the trace says.
fn difference(of: &Recorded) -> Option<String> {
    let mut replayed = Loop::new(of);
    of.ticks.iter().find_map(|tick| {
        let was = Decided {
            reclaimer: tick.plan.reclaimer?,
            share: tick.plan.share,
            stall: (tick.plan.is_stalled, tick.plan.stall_pause_ms),
            swappiness: tick.plan.swappiness,
            cache: tick.plan.cache.clone(),
        };
        let is = replayed.tick(tick);
        let is_same = is.reclaimer == was.reclaimer
            && is_alike(is.share, was.share)
            && (is.stall, is.swappiness, &is.cache) == (was.stall, was.swappiness, &was.cache);
        (!is_same).then(|| format!("at {} ms {was:?} became {is:?}", tick.now_ms))
    })
}

/// The limit's steps, and what was done in their place then.
struct LimitReplay {
    limit: Limit,
    marks: Watermarks,
    base_swappiness: u8,
}

impl LimitReplay {
    fn new(of: &Recorded) -> LimitReplay {
        let run = &of.header.run;
        let version = match run.measured_by.as_str() {
            "memory.usage_in_bytes" => CgroupVersion::V1,
            _ => CgroupVersion::V2,
        };
        let config = Config::default();
        let marks = Watermarks::new(run.marks.budget_bytes, &config.watermarks);
        let base = run.swappiness;
        LimitReplay {
            limit: Limit::new(version, &marks, config.limit),
            marks,
            base_swappiness: base.unwrap_or_else(|| Swappiness::DEFAULT.get()),
        }
    }

    /// What differs at a tick.
    fn tick(&mut self, tick: &Tick) -> Option<String> {
        let usage_bytes = tick.sample.usage_bytes?;
        let readings = tick.sample.memory_stat.iter();
        let mut readings = readings.filter(|reading| reading.by == StatReader::Limit);
        for (read, done) in tick.sample.limit.iter().zip(&tick.plan.limit) {
            // Without a group, and in a dry run, nobody looks further.
            let Some(free_swap) = read.free_swap else {
                continue;
            };
            let now = TimeMs(tick.now_ms);
            let has_free_swap = match free_swap {
                FreeSwap::Bytes(bytes) => {
                    bytes > self.marks.backstop_bytes - self.marks.budget_bytes
                }
                FreeSwap::NotKnown => true,
            };
            let can_swap = has_free_swap && self.base_swappiness > 0;
            let is_under_oom = read.is_under_oom;
            let wanted = self
                .limit
                .wants_counters(now, &self.marks, usage_bytes, is_under_oom);
            let reading = wanted.and_then(|_| readings.next());
            let stats = match (wanted, reading.map(|reading| reading.counters)) {
                (None, None) | (Some(false), Some(Counters::Kept)) => None,
                (Some(true), Some(Counters::Fresh(stats))) => Some(Some(stats)),
                (Some(true), Some(Counters::Failed)) => Some(None),
                (wanted, reading) => return Some(format!("{wanted:?} of counts: {reading:?}")),
            };
            if let Some(stats) = stats {
                self.limit.take_counters(now, stats, usage_bytes, can_swap);
            }
            let need = Need {
                standing: done.standing,
                is_under_oom,
                has_free_swap,
                usage_bytes,
            };
            if let Some(found) = self.steps(now, need, read, done) {
                return Some(found);
            }
            if self.limit.is_line_held() != done.is_line_held {
                return Some(format!("the line: {done:?}"));
            }
        }
        readings
            .next()
            .map(|more| format!("never asked for {more:?}"))
    }

    fn steps(
        &mut self,
        now: TimeMs,
        need: Need,
        read: &trace::LimitSample,
        done: &trace::LimitPlan,
    ) -> Option<String> {
        let mut limits = read.limit_bytes.iter();
        // That the limit may give way no further is told by what follows from it.
        let actions = done.actions.iter();
        let mut actions = actions.filter(|action| **action != LimitAction::Refuse);
        let mut step = self.limit.start(now, need, &self.marks);
        loop {
            let answer = match step {
                Step::Done(_) => {
                    let left = actions.next();
                    return left.map(|more| format!("never decided: {more:?}"));
                }
                Step::LookAtLimit => Answer::Limit(*limits.next()?),
                Step::LookAtUsage => Answer::Usage(read.usage_bytes?),
                step => match (step, actions.next()) {
                    (Step::ReleaseLine, Some(LimitAction::ReleaseLine))
                    | (Step::ReleaseHigh, Some(LimitAction::ReleaseHigh))
                    | (Step::Settle, Some(LimitAction::Settle))
                    | (Step::HandBackOom, Some(LimitAction::HandBackOom)) => Answer::Done,
                    (
                        Step::Raise { bytes },
                        Some(LimitAction::Raise {
                            bytes: was,
                            raised_bytes,
                        }),
                    ) if bytes == *was => Answer::Raised(*raised_bytes),
                    (Step::HoldLine, Some(LimitAction::HoldLine(line))) => {
                        Answer::Line(match line {
                            Line::Held => Line::Held,
                            _ => Line::Moving,
                        })
                    }
                    (step, was) => return Some(format!("{was:?} became {step:?}")),
                },
            };
            step = self.limit.next(answer);
        }
    }
}

fn kept() -> Vec<(String, Recorded)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/control-traces");
    let entries = fs::read_dir(folder)
        .expect("the folder of traces")
        .flatten();
    let traces = entries.filter(|entry| entry.path().extension().is_some_and(|of| of == "gz"));
    let traces = traces.map(|entry| {
        let file = GzDecoder::new(File::open(entry.path()).expect("readable"));
        let recorded = read(BufReader::new(file)).expect("a trace");
        (entry.path().display().to_string(), recorded)
    });
    traces.collect()
}

#[test]
fn fed_what_was_read_the_loop_has_the_same_reclaim_as_much_as_it_did() {
    let traces = kept();
    assert!(traces.len() >= 10, "{}", traces.len());
    let found: Vec<String> = traces
        .iter()
        .filter_map(|(name, of)| Some(format!("{name} {}", difference(of)?)))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn fed_what_was_read_the_limit_is_moved_as_it_was() {
    let traces = kept();
    let difference = |of: &Recorded| {
        let mut replayed = LimitReplay::new(of);
        of.ticks
            .iter()
            .find_map(|tick| Some(format!("at {} ms {}", tick.now_ms, replayed.tick(tick)?)))
    };
    let found: Vec<String> = traces
        .iter()
        .filter_map(|(name, of)| Some(format!("{name} {}", difference(of)?)))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    let looks = |of: &Recorded| {
        let looks = of.ticks.iter().flat_map(|tick| &tick.plan.limit);
        looks.map(|look| look.actions.len()).sum::<usize>()
    };
    let nr_actions: usize = traces.iter().map(|(_, of)| looks(of)).sum();
    assert!(nr_actions >= 5_000, "{nr_actions}");
    // Of less usage the kernel's counts are read elsewhere.
    let mut bad = traces[0].1.clone();
    for tick in &mut bad.ticks {
        tick.sample.usage_bytes = tick.sample.usage_bytes.map(|bytes| bytes / 2);
    }
    assert!(difference(&bad).is_some());
}

#[test]
fn fed_something_else_it_decides_otherwise() {
    let traces = kept();
    let (_, good) = traces
        .iter()
        .find(|(name, _)| name.ends_with("/zipf.jsonl.gz"))
        .expect("one is of a Zipf load");
    let changes: [fn(&mut Tick); 4] = [
        |tick| tick.sample.usage_bytes = tick.sample.usage_bytes.map(|bytes| bytes + 4096),
        |tick| tick.sample.cpu = None,
        |tick| tick.sample.runnable = tick.sample.threads.take().map(|_| Default::default()),
        |tick| tick.now_ms += tick.now_ms / 50,
    ];
    for change in changes {
        let mut bad = good.clone();
        bad.ticks.iter_mut().for_each(change);
        assert!(difference(&bad).is_some());
    }
}
