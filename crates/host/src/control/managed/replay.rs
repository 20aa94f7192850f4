//! The kept traces against the loop: fed what was read, it decides what was decided then.
//!
//! **Owns** the proof that a trace has all from which it follows who reclaims, how much, when the loop looks again, and how the
//! kernel weighs anon against file pages. **Does not
//! own** the traces (`tests/control-traces`), nor what holds of any trace (the binary's tests).

use super::super::crowd::{Crowd, Room};
use super::super::demand::{Demand, Threads};
use super::super::governor::Governor;
use super::super::leaning::Leaning;
use super::super::running::Running;
use super::super::trace::{
    self, Counters, FreeSwap, ProgramThreads, ReclaimFailure, Recorded, Recorder, Report,
    StatReader, Tick, read,
};
use super::{Sample, SpaceNo, Stall, share};
use crate::process::Processors;
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;
use strata_control::Backoff;
use strata_lru::{Swappiness, TimeMs};

/// The parts of the loop that decide who reclaims, and how much.
struct Loop {
    governor: Governor,
    demand: Demand,
    crowd: Crowd,
    running: Running,
    stall: Stall,
    shrink_backoff: Backoff,
    /// What each program's threads have wanted so far.
    wanted_ns: BTreeMap<u32, u64>,
    can_leave: bool,
}

impl Loop {
    fn new(of: &Recorded) -> Loop {
        let header = &of.header;
        let run = &header.run;
        Loop {
            governor: Governor::new(run.marks.budget_bytes, run.actuator),
            demand: Demand::default(),
            crowd: Crowd::new(header.nr_processors as usize),
            running: Running::default(),
            stall: Stall::default(),
            shrink_backoff: Backoff::new(super::SHRINK_PAUSE_MS_MIN, super::SHRINK_PAUSE_MS_MAX),
            wanted_ns: BTreeMap::new(),
            can_leave: run.min_ttl_ms == 0 && !run.is_dry_run,
        }
    }

    /// What a tick decides by what it read: who reclaims, how the processors are shared, and whether it is in vain.
    fn tick(
        &mut self,
        tick: &Tick,
    ) -> (trace::Reclaimer, Option<trace::Share>, (bool, Option<u64>)) {
        let now = TimeMs(tick.now_ms);
        let usage_bytes = tick.sample.usage_bytes.expect("usage is known");
        self.hear(tick, now);
        let share = self.share(tick, now, usage_bytes);
        let plan = self.governor.plan(now, usage_bytes);
        let who = match () {
            () if self.governor.is_left_to_programs() => trace::Who::Programs,
            () if self.governor.is_kernels_turn() => trace::Who::Kernel,
            () => trace::Who::Pageout,
        };
        let engine = tick.sample.engine.expect("it was asked");
        let is_wanted = plan.pageout_pages > 0 || plan.shrink_bytes > 0;
        let is_stalled = self.stall.sample(Sample {
            now,
            is_wanted,
            usage_bytes,
            nr_attempts: engine.nr_attempts,
            freed_bytes: engine.freed_bytes,
        });
        let pause_ms = is_wanted.then(|| self.stall.pause_ms(now)).flatten();
        if tick.plan.standing != trace::Standing::Fine {
            self.governor.back_off();
        }
        let reclaimer = trace::Reclaimer {
            who,
            pageout_pages: plan.pageout_pages,
            reclaim_bytes: plan.shrink_bytes,
            wait_ms: plan.wait_ms,
        };
        (reclaimer, share, (is_stalled, pause_ms))
    }

    fn hear(&mut self, tick: &Tick, now: TimeMs) {
        for report in &tick.reports {
            let Report::Reclaim(of) = report else {
                continue;
            };
            match of.failure {
                None => self.shrink_backoff.succeeded(),
                Some(ReclaimFailure::NothingFound) => {
                    self.shrink_backoff.failed(now);
                    self.governor.kernel_is_done();
                }
                Some(ReclaimFailure::NoProof) => {}
            }
        }
    }

    fn share(&mut self, tick: &Tick, now: TimeMs, usage_bytes: u64) -> Option<trace::Share> {
        if usage_bytes <= self.governor.marks().low {
            if !self.running.is_fresh(now) {
                self.governor.set_beyond_pageout(false);
            }
            self.governor.set_room(Room::Free);
            return None;
        }
        if let Some(threads) = &tick.sample.threads {
            let programs = threads.iter().map(|of| self.threads(of)).collect();
            self.demand.sample(now, programs, &Recorder::default());
        }
        let wanted = self.demand.wanted();
        if let Some(of) = tick.sample.runnable {
            let nr_others = of.nr_threads.saturating_sub(of.nr_own_threads);
            self.crowd.sample(nr_others, wanted);
        }
        let is_line_held = tick.plan.limit.first().is_some_and(|of| of.is_line_held);
        let room = match self.crowd.room() {
            Room::Filled if !(is_line_held && self.can_leave) => Room::Free,
            Room::Crowded if self.is_kernel_to_choose(tick, now) => Room::Free,
            room => room,
        };
        self.governor.set_room(room);
        if let Some(cpu) = &tick.sample.cpu {
            let cpu_ns = cpu.iter().map(|of| (SpaceNo(of.program), of.cpu_ns));
            self.running.sample(now, cpu_ns.collect(), refaulted(tick));
            let is_beyond = self.running.is_beyond_pageout();
            let is_kernel_to_choose = self.is_kernel_to_choose(tick, now);
            self.governor
                .set_beyond_pageout(is_beyond || is_kernel_to_choose);
        }
        Some(trace::Share {
            room: room.into(),
            wanted_processors: wanted.all,
            wanted_most_processors: wanted.most,
            wanted_threads: wanted.nr_threads,
            refaulted_pages_per_s: self.running.refaulted_pages_per_s(),
            pageout_percent_max: match room == Room::Crowded {
                true => share::ALL_PERCENT,
                false => self.running.pageout_percent_max(),
            },
        })
    }

    fn is_kernel_to_choose(&self, tick: &Tick, now: TimeMs) -> bool {
        self.running.refaulted_pages_per_s() >= share::TOLD_PAGES_PER_S_MIN
            && tick.sample.can_touch_all == Some(true)
            && !self.shrink_backoff.holds(now)
    }

    /// Threads of which only the sum is known count as one: who of them is busy is another question.
    fn threads(&mut self, of: &ProgramThreads) -> (SpaceNo, Threads) {
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
        (SpaceNo(of.program), threads)
    }
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
            of.wanted_most_processors,
            of.wanted_threads,
            of.refaulted_pages_per_s,
        ]
    };
    let mut pairs = averages(a).into_iter().zip(averages(b));
    let are_averages_alike = pairs.all(|(a, b)| (a - b).abs() <= 1e-9 * a.abs().max(1.0));
    are_averages_alike && (a.room, a.pageout_percent_max) == (b.room, b.pageout_percent_max)
}

/// The first tick at which the loop decides otherwise than the trace says.
fn difference(of: &Recorded) -> Option<String> {
    let mut replayed = Loop::new(of);
    of.ticks.iter().find_map(|tick| {
        let was = tick.plan.reclaimer?;
        let (is, share, stall) = replayed.tick(tick);
        let was_stall = (tick.plan.is_stalled, tick.plan.stall_pause_ms);
        let is_same = is == was && is_alike(share, tick.plan.share) && stall == was_stall;
        (!is_same).then(|| {
            let was_share = tick.plan.share;
            format!(
                "at {} ms {was:?} {was_share:?} {was_stall:?} became {is:?} {share:?} {stall:?}",
                tick.now_ms
            )
        })
    })
}

/// The first look at the limit after which the kernel's balance is another than the trace says.
fn difference_in_balance(of: &Recorded) -> Option<String> {
    let run = &of.header.run;
    let marks = run.marks;
    let near = marks
        .low_bytes
        .min(marks.budget_bytes - marks.budget_bytes / 8);
    let base = run.swappiness;
    let base = base.unwrap_or_else(|| Swappiness::DEFAULT.get());
    let mut leaning = Leaning::of(base, run.may_lean);
    let (mut is_left, mut pressing) = (false, None);
    of.ticks.iter().find_map(|tick| {
        let usage_bytes = tick.sample.usage_bytes.expect("usage is known");
        let readings = tick.sample.memory_stat.iter();
        let mut readings = readings.filter(|reading| reading.by == StatReader::Limit);
        let looks = tick.sample.limit.iter().zip(&tick.plan.limit).enumerate();
        let found = looks.into_iter().find_map(|(nr, (read, done))| {
            if usage_bytes <= near && !read.is_under_oom {
                pressing = None;
            } else if let Counters::Fresh(stats) = readings.next()?.counters {
                let can_swap = match read.free_swap {
                    Some(FreeSwap::Bytes(bytes)) => {
                        bytes > marks.backstop_bytes - marks.budget_bytes
                    }
                    _ => true,
                };
                pressing = (can_swap && base > 0).then_some(stats);
            }
            let now_left = match nr {
                0 => is_left,
                _ => is_programs(tick),
            };
            let lists = pressing.as_ref().filter(|_| !now_left && !run.is_dry_run);
            let is = leaning.change(TimeMs(tick.now_ms), lists);
            let was = done.lean.map(|lean| lean.swappiness);
            if done.lean.is_some_and(|lean| !lean.is_taken) {
                leaning.give_up(TimeMs(tick.now_ms));
            }
            (is != was).then(|| format!("at {} ms {was:?} became {is:?}", tick.now_ms))
        });
        is_left = is_programs(tick);
        found
    })
}

fn is_programs(tick: &Tick) -> bool {
    let who = tick.plan.reclaimer.map(|of| of.who);
    who == Some(trace::Who::Programs)
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
fn fed_what_was_read_the_kernels_balance_is_what_it_was() {
    let traces = kept();
    let found: Vec<String> = traces
        .iter()
        .filter_map(|(name, of)| Some(format!("{name} {}", difference_in_balance(of)?)))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    let looks = |of: &Recorded| {
        let looks = of.ticks.iter().flat_map(|tick| &tick.plan.limit);
        looks.filter(|look| look.lean.is_some()).count()
    };
    let nr_changes: usize = traces.iter().map(|(_, of)| looks(of)).sum();
    assert!(nr_changes >= 10, "{nr_changes}");
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
