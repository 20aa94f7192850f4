//! Working sets against the truth: programs that say which pages they use are watched by `strata wss`'s
//! walks, by `clear_refs` + `smaps` and, with the same observations, by the engines of both kernels'
//! lists, in one run each.
//!
//! A page is truly hot if the program used it within the window before the last walk. An engine is
//! asked, after the last walk, for as much memory as is truly idle: what it gives up although it is
//! hot was wrongly called idle, what it keeps although it is idle was wrongly called hot. Walks are
//! half a second apart, a watch is six seconds long; a run in which a walk came late is done again.
//! Rounds of accesses are 100 ms apart, 10 ms with huge pages, whose translations stay in the TLB for longer.
//!
//! ```text
//! cargo run --release -p strata-host --example wss
//! ```
//!
//! Needs root and gcc.

#[path = "../../cli/tests/support/programs.rs"]
#[expect(dead_code, reason = "shared with the tests, of which this uses a part")]
mod programs;
#[path = "../../cli/tests/support/working_set.rs"]
mod working_set;

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use programs::{next_random, target_dir};
use strata_host::observe::ledger::AgedPages;
use strata_host::observe::{Observer, Piece, Subject, Visitor};
use strata_linux::access::{AccessChoice, TableShape};
use strata_linux::addr::{AddrRange, PAGE_BYTES};
use strata_linux::process::{Mapping, Process};
use strata_lru::bits;
use strata_lru::{
    AccessVia, Arrival, Cause, Config, EvictBatch, FolioId, GroupId, Isolated, Kind, MultiGen,
    NodeId, Order, Policy, ReclaimRequest, SpaceNo, Swappiness, TimeMs, TwoList, Verdict,
};
use working_set::{Truth, WorkingSet, monotonic_s};

type Outcome<T> = Result<T, Box<dyn Error>>;

const MIB: u64 = 1 << 20;
const INTERVAL: Duration = Duration::from_millis(500);
const NR_WALKS: u32 = 13;
const WINDOWS_S: [f64; 2] = [0.5, 3.0];
const MODES: [&str; 6] = [
    "steady", "growing", "phased", "receding", "random", "strided",
];
/// The engines: name, and every how many walks a generation begins.
const ENGINES: [(&str, u32); 3] = [("mglru", 1), ("mglru", 3), ("two-list", 1)];
const BACKINGS: [&str; 3] = ["anon", "huge", "shared"];
/// A run in which a walk came so late is done again: the machine was busy with something else.
const LATE: Duration = Duration::from_millis(50);
const NR_ATTEMPTS: u32 = 10;
/// Calls of an engine that give nothing before it is given up.
const NR_IDLE_CALLS_MAX: u32 = 10_000;

/// The region of the program, as the units it counts in.
#[derive(Clone, Copy)]
struct Region {
    range: AddrRange,
    unit_bytes: u64,
}

impl Region {
    fn nr_units(self) -> usize {
        (self.range.len_bytes() / self.unit_bytes) as usize
    }

    /// The units of the region of which a piece holds the first page: number, whether accessed.
    fn units(self, piece: &Piece<'_>) -> Vec<(usize, bool)> {
        let table = piece.record.table;
        (0..512)
            .filter(|index| bits::has(&piece.resident(), *index))
            .map(|index| (table.entry_addr(index), bits::has(&piece.accessed(), index)))
            .filter(|(addr, _)| self.range.contains(*addr) && addr % self.unit_bytes == 0)
            .map(|(addr, is_accessed)| {
                (
                    ((addr - self.range.start) / self.unit_bytes) as usize,
                    is_accessed,
                )
            })
            .collect()
    }
}

/// An engine that is told what walks find.
struct Listener {
    policy: Box<dyn Policy>,
    group: GroupId,
    folios: Vec<Option<FolioId>>,
    units: HashMap<FolioId, usize>,
    kind: Kind,
    order: Order,
}

impl Listener {
    fn new(mut policy: Box<dyn Policy>, region: Region, kind: Kind) -> Outcome<Listener> {
        let group = policy.add_group("/program", TimeMs(0))?;
        let is_huge = region.unit_bytes > PAGE_BYTES;
        Ok(Listener {
            policy,
            group,
            folios: vec![None; region.nr_units()],
            units: HashMap::new(),
            kind,
            order: if is_huge { Order::PMD } else { Order::BASE },
        })
    }

    fn hear(&mut self, unit: usize, is_accessed: bool) {
        match self.folios[unit] {
            Some(folio) if is_accessed => self.policy.accessed(folio, AccessVia::PageTable),
            Some(_) => {}
            None => {
                let arrival = Arrival {
                    group: self.group,
                    node: NodeId(0),
                    kind: self.kind,
                    order: self.order,
                    cause: Cause::Fault,
                    shadow: None,
                    is_exec: false,
                };
                self.folios[unit] = self.policy.appeared(arrival).ok();
                self.units
                    .extend(self.folios[unit].map(|folio| (folio, unit)));
            }
        }
    }

    /// Takes that many units; which ones went.
    fn evict(&mut self, nr_units: usize, now: TimeMs) -> Outcome<Vec<usize>> {
        let mut batch = EvictBatch::default();
        let (mut gone, mut nr_idle_calls) = (Vec::new(), 0);
        while gone.len() < nr_units && nr_idle_calls < NR_IDLE_CALLS_MAX {
            let nr_pages = (nr_units - gone.len()) as u64 * self.order.nr_pages();
            let request = ReclaimRequest::new(self.group, nr_pages.min(64));
            nr_idle_calls += 1;
            match self.policy.isolate(request, now, &mut batch)? {
                Isolated::Pages(_) => nr_idle_calls = 0,
                Isolated::NeedsAgeing => {
                    self.policy
                        .finish_walk(self.group, Swappiness::DEFAULT, now)?;
                }
                Isolated::Again => {}
                Isolated::Empty | Isolated::Thrashing => break,
            }
            let verdicts = vec![Verdict::Evicted; batch.folios.len()];
            self.policy.complete(&mut batch, &verdicts);
            for folio in &batch.folios {
                let unit = self.units.remove(folio);
                let unit = unit.ok_or("an engine gave up a page that it was not told of")?;
                self.folios[unit] = None;
                gone.push(unit);
            }
        }
        Ok(gone)
    }
}

/// Passes walks on to everybody.
struct Everybody<'a> {
    pages: &'a mut AgedPages,
    listeners: &'a mut [Listener],
    region: Region,
}

impl Visitor for Everybody<'_> {
    fn appeared(&mut self, space: SpaceNo, process: &Arc<Process>) {
        self.pages.appeared(space, process);
    }

    fn ended(&mut self, space: SpaceNo) {
        self.pages.ended(space);
    }

    fn begin(&mut self, space: SpaceNo, process: &Process, mappings: &Arc<Vec<Mapping>>) {
        self.pages.begin(space, process, mappings);
    }

    fn piece(&mut self, piece: &Piece<'_>) {
        self.pages.piece(piece);
        let is_split =
            self.region.unit_bytes > PAGE_BYTES && piece.record.shape != TableShape::Huge;
        if !is_split {
            for (unit, is_accessed) in self.region.units(piece) {
                for listener in &mut *self.listeners {
                    listener.hear(unit, is_accessed);
                }
            }
        }
    }

    fn end(&mut self, space: SpaceNo, is_whole: bool) {
        self.pages.end(space, is_whole);
    }
}

/// Referenced bytes of the mappings that touch the region, and the milliseconds it took to ask.
fn smaps_referenced(pid: i32, region: Region) -> Outcome<(u64, f64)> {
    let started = Instant::now();
    let text = fs::read_to_string(format!("/proc/{pid}/smaps"))?;
    let took_ms = started.elapsed().as_secs_f64() * 1000.0;
    let (mut is_ours, mut kib) = (false, 0);
    for line in text.lines() {
        let first = line.split_whitespace().next().unwrap_or_default();
        if let Some((start, end)) = first.split_once('-') {
            let parse = |digits| u64::from_str_radix(digits, 16);
            if let (Ok(start), Ok(end)) = (parse(start), parse(end)) {
                is_ours = start < region.range.end && region.range.start < end;
            }
        } else if is_ours && first == "Referenced:" {
            let number = line.split_whitespace().nth(1).unwrap_or_default();
            kib += number.parse::<u64>()?;
        }
    }
    Ok((kib * 1024, took_ms))
}

/// Which unit of the region a number of the mode's order is, as `working_set.c` has it.
fn order(mode: &str, nr_units: usize, nr_hot: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..nr_units).collect();
    match mode {
        "strided" => {
            let stride = nr_units / nr_hot;
            order[..nr_hot]
                .iter_mut()
                .enumerate()
                .for_each(|(i, unit)| *unit = i * stride);
        }
        "random" => {
            let mut state = 7;
            for i in 0..nr_units {
                let below = u128::from((nr_units - i) as u64);
                let offset = (u128::from(next_random(&mut state)) * below) >> 64;
                order.swap(i, i + offset as usize);
            }
        }
        _ => {}
    }
    order
}

/// Truly hot units.
fn hot(truth: &Truth, end_s: f64, window_s: f64, order: &[usize]) -> Vec<bool> {
    let mut is_hot = vec![false; order.len()];
    for (unit, last) in order.iter().zip(truth.last_used_s(end_s)) {
        is_hot[*unit] |= last.is_some_and(|at_s| at_s > end_s - window_s);
    }
    is_hot
}

/// One run of one program.
struct Run {
    program: String,
    /// For each window: bytes truly used, and told by walks.
    used: Vec<[u64; 2]>,
    /// Bytes truly idle for the longer window, and told.
    idle: [u64; 2],
    /// Told by smaps for the interval before the last walk.
    smaps_bytes: u64,
    /// Share of hot memory called idle and of idle memory called hot, by engine.
    wrong: Vec<[f64; 2]>,
    /// Milliseconds a look: walk, smaps, and clearing, which both need.
    cost_ms: [f64; 3],
}

/// What came of trying.
enum Attempt {
    Done(Run),
    Late,
    NoHugePages,
}

fn run(mode: &str, backing: &str) -> Outcome<Attempt> {
    let file = target_dir().join("wss-bench-file");
    let path = file.to_string_lossy();
    let (size, hot_size) = (256 * MIB, 64 * MIB);
    let every = if backing == "huge" { "0.01" } else { "0.1" };
    let started = WorkingSet::start(&[
        "--mode",
        mode,
        "--backing",
        backing,
        "--size",
        "256M",
        "--hot",
        "64M",
        "--every",
        every,
        "--file",
        &path,
    ]);
    // The mapping keeps it; other backings made none.
    let _ = fs::remove_file(&file);
    let Ok(program) = started else {
        return Ok(Attempt::NoHugePages);
    };
    let region = Region {
        range: AddrRange::new(program.address, program.address + size),
        unit_bytes: program.unit_bytes,
    };
    let kind = if backing == "shared" {
        Kind::File
    } else {
        Kind::Anon
    };
    let mut listeners = Vec::new();
    for (name, _) in ENGINES {
        let policy: Box<dyn Policy> = match name {
            "mglru" => Box::new(MultiGen::new(Config::default())?),
            _ => Box::new(TwoList::new(Config::default())?),
        };
        listeners.push(Listener::new(policy, region, kind)?);
    }
    let mut observer = Observer::open(&Subject::Process(program.pid), AccessChoice::Bpf)?;
    let mut pages = AgedPages::new();
    let (mut cost_ms, mut smaps_bytes, mut end_s) = ([0.0; 3], 0, 0.0);
    let started = Instant::now();
    for walk in 0..NR_WALKS {
        sleep((INTERVAL * walk).saturating_sub(started.elapsed()));
        if started.elapsed() > INTERVAL * walk + LATE {
            return Ok(Attempt::Late);
        }
        let (referenced, smaps_ms) = smaps_referenced(program.pid, region)?;
        smaps_bytes = referenced;
        end_s = monotonic_s();
        pages.start_walk(observer.elapsed());
        let walked = observer.walk(&mut Everybody {
            pages: &mut pages,
            listeners: &mut listeners,
            region,
        });
        let [walk_ns, clear_ns] = [walked.cost.wall_ns, walked.clear_ns].map(|ns| ns as f64);
        for (sum, ms) in cost_ms
            .iter_mut()
            .zip([walk_ns / 1e6, smaps_ms, clear_ns / 1e6])
        {
            *sum += ms / f64::from(NR_WALKS);
        }
        let now = TimeMs(started.elapsed().as_millis() as u64);
        for (listener, (_, nr_walks)) in listeners.iter_mut().zip(ENGINES) {
            if walk % nr_walks == 0 {
                listener
                    .policy
                    .finish_walk(listener.group, Swappiness::DEFAULT, now)?;
            }
        }
    }
    let now = TimeMs(started.elapsed().as_millis() as u64);
    let truth = program.finish();
    let watched = pages.ages();
    // The region's own mapping: the largest.
    let told = &watched.mappings.first().ok_or("nothing in memory")?.ages;
    let window = Duration::from_secs_f64;
    let used = WINDOWS_S.map(|window_s| {
        [
            truth.used_bytes(end_s, window_s),
            told.accessed_within(window(window_s)).total_bytes(),
        ]
    });
    let order = order(
        mode,
        region.nr_units(),
        (hot_size / region.unit_bytes) as usize,
    );
    let is_hot = hot(&truth, end_s, WINDOWS_S[1], &order);
    let nr_hot = is_hot.iter().filter(|is_hot| **is_hot).count();
    let nr_idle = is_hot.len() - nr_hot;
    let idle_told = told.resident().total_bytes() - used[1][1];
    let mut wrong = Vec::new();
    for listener in &mut listeners {
        let gone = listener.evict(nr_idle, now)?;
        let hot_gone = gone.iter().filter(|unit| is_hot[**unit]).count();
        let idle_kept = nr_idle - (gone.len() - hot_gone);
        let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
        wrong.push([share(hot_gone, nr_hot), share(idle_kept, nr_idle)]);
    }
    Ok(Attempt::Done(Run {
        program: format!("{mode}, {backing}"),
        used: used.to_vec(),
        idle: [nr_idle as u64 * region.unit_bytes, idle_told],
        smaps_bytes,
        wrong,
        cost_ms,
    }))
}

fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / MIB as f64)
}

fn off(told: u64, truth: u64) -> String {
    let truth = truth as f64;
    format!("{:+.1}", 100.0 * (told as f64 - truth) / truth.max(1.0))
}

fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

fn main() -> Outcome<()> {
    let mut runs = Vec::new();
    for backing in BACKINGS {
        for mode in MODES {
            for attempt in 1..=NR_ATTEMPTS {
                let left_out = match run(mode, backing)? {
                    Attempt::Done(run) => {
                        runs.push(run);
                        break;
                    }
                    Attempt::Late if attempt < NR_ATTEMPTS => continue,
                    Attempt::Late => "a walk came late each time",
                    Attempt::NoHugePages => "no huge pages",
                };
                writeln!(io::stderr(), "{mode}, {backing}: {left_out}, left out")?;
                break;
            }
        }
    }
    let mut out = io::stdout().lock();
    let [short_s, long_s] = WINDOWS_S;
    writeln!(out, "## Used within a window, MiB of 256\n")?;
    writeln!(
        out,
        "| program | used in {short_s} s | `wss` | off, % | `smaps` | off, % | used in {long_s} s | \
         `wss` | off, % | idle | `wss` | off, % |"
    )?;
    writeln!(out, "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")?;
    for run in &runs {
        let [[short, short_told], [long, long_told]] = [run.used[0], run.used[1]];
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            run.program,
            mib(short),
            mib(short_told),
            off(short_told, short),
            mib(run.smaps_bytes),
            off(run.smaps_bytes, short),
            mib(long),
            mib(long_told),
            off(long_told, long),
            mib(run.idle[0]),
            mib(run.idle[1]),
            off(run.idle[1], run.idle[0]),
        )?;
    }
    writeln!(
        out,
        "\n## Wrongly called idle (of hot memory) and hot (of idle memory), %, window {long_s} s\n"
    )?;
    let each_s = |nr_walks: u32| (INTERVAL * nr_walks).as_secs_f64();
    let heads: String = ENGINES
        .map(|(name, nr_walks)| match name {
            "mglru" => format!(
                " `mglru`, a generation every {} s: idle | hot |",
                each_s(nr_walks)
            ),
            _ => format!(" `{name}`: idle | hot |"),
        })
        .concat();
    writeln!(out, "| program |{heads}")?;
    writeln!(out, "|---|{}", "--:|".repeat(2 * ENGINES.len()))?;
    for run in &runs {
        let cells: Vec<String> = run
            .wrong
            .as_flattened()
            .iter()
            .map(|share| percent(*share))
            .collect();
        writeln!(out, "| {} | {} |", run.program, cells.join(" | "))?;
    }
    writeln!(out, "\n## Cost of a look, ms\n")?;
    writeln!(
        out,
        "| program | walk | reading `smaps` | clearing (both) |"
    )?;
    writeln!(out, "|---|--:|--:|--:|")?;
    for run in &runs {
        let [walk, smaps, clear] = run.cost_ms;
        writeln!(
            out,
            "| {} | {walk:.2} | {smaps:.2} | {clear:.2} |",
            run.program
        )?;
    }
    Ok(())
}
