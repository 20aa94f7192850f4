//! What it costs to see accesses: the BPF walk and both ways of clearing, beside `clear_refs` +
//! `smaps` and `PAGEMAP_SCAN`, interleaved over rounds in one run; medians of the CPU time of the
//! calling thread, since all of it is work of ours in the kernel, and others may use the machine.
//!
//! ```text
//! cargo run --release -p strata-host --example walk_cost [-- --json]
//! ```
//!
//! Needs root and gcc. Holds 1 GiB of memory in a child for the time it runs.

#[path = "../../cli/tests/support/programs.rs"]
#[expect(dead_code, reason = "shared with the tests, of which this uses a part")]
mod programs;

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use programs::{Touch, program, target_dir};
use strata_linux::access::{
    AccessSource, BpfSource, Cleared, TableRecord, YoungPiece, clear_pieces,
};
use strata_linux::addr::{AddrRange, PAGE_BYTES, TableSpan, covering_spans};
use strata_linux::process::Process;
use strata_lru::bits;

type Outcome<T> = Result<T, Box<dyn Error>>;

const ROUNDS: usize = 9;

/// One figure: what was done, in which case, and the nanoseconds of each round.
struct Figure {
    case: String,
    what: &'static str,
    /// What the time is divided by.
    nr_pages: u64,
    rounds_ns: Vec<u64>,
}

#[derive(Default)]
struct Report(Vec<Figure>);

impl Report {
    fn note(&mut self, case: &str, what: &'static str, nr_pages: u64, ns: u64) {
        let known = self.0.iter_mut().find(|f| f.case == case && f.what == what);
        match known {
            Some(figure) => figure.rounds_ns.push(ns),
            None => self.0.push(Figure {
                case: case.to_owned(),
                what,
                nr_pages,
                rounds_ns: vec![ns],
            }),
        }
    }

    fn print(mut self, is_json: bool) -> Outcome<()> {
        let mut out = std::io::stdout().lock();
        if !is_json {
            writeln!(
                out,
                "{:<34} {:<28} {:>8} {:>12} {:>10}",
                "case", "what", "pages", "cpu_us", "ns/page"
            )?;
        }
        for figure in &mut self.0 {
            figure.rounds_ns.sort_unstable();
            let median_ns = figure.rounds_ns[figure.rounds_ns.len() / 2];
            let page_ns = median_ns as f64 / figure.nr_pages.max(1) as f64;
            let (case, what, pages) = (&figure.case, figure.what, figure.nr_pages);
            if is_json {
                let line = serde_json::json!({
                    "case": case, "what": what, "nr_pages": pages,
                    "median_cpu_ns": median_ns, "ns_per_page": page_ns,
                });
                writeln!(out, "{line}")?;
            } else {
                let median_us = median_ns as f64 / 1000.0;
                writeln!(
                    out,
                    "{case:<34} {what:<28} {pages:>8} {median_us:>12.1} {page_ns:>10.2}"
                )?;
            }
        }
        Ok(())
    }
}

fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

fn timed<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<(T, u64)> {
    let started_ns = cpu_ns();
    let result = work()?;
    Ok((result, cpu_ns() - started_ns))
}

/// Appends the young pages of a record to ranges, joining neighbours.
fn add_young(record: &TableRecord, young: &mut Vec<AddrRange>) {
    for index in bits::ones(record.accessed) {
        let start = record.table.entry_addr(index);
        match young.last_mut() {
            Some(last) if last.end == start => last.end += PAGE_BYTES,
            _ => young.push(AddrRange::new(start, start + PAGE_BYTES)),
        }
    }
}

fn read_young(
    source: &mut BpfSource,
    process: &Process,
    spans: &[TableSpan],
) -> Outcome<(Vec<AddrRange>, u64)> {
    let mut young = Vec::new();
    source.read(process, spans, &mut |record| add_young(record, &mut young))?;
    Ok((young, timed_walk(source, process, spans)?))
}

/// CPU nanoseconds of a walk that does nothing with what it sees.
fn timed_walk(source: &mut BpfSource, process: &Process, spans: &[TableSpan]) -> Outcome<u64> {
    let (_, walk_ns) = timed(|| {
        source.read(process, spans, &mut |record| {
            black_box(record);
        })?;
        Ok(())
    })?;
    Ok(walk_ns)
}

/// A child that does one `PAGEMAP_SCAN` a line.
struct Scanner(Child);

impl Scanner {
    fn start(pid: i32, region: AddrRange) -> Outcome<Scanner> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/pagemap_scan.c");
        let built = target_dir().join("test-programs/pagemap_scan");
        let gcc = Command::new("gcc")
            .args(["-O2", "-Wall", "-Wextra", "-o"])
            .args([&built, &source])
            .status()?;
        if !gcc.success() {
            return Err("gcc failed".into());
        }
        let child = Command::new(built)
            .arg(pid.to_string())
            .arg(format!("{:x}", region.start))
            .arg(format!("{:x}", region.end))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        Ok(Scanner(child))
    }

    /// Nanoseconds of one scan; `None` where the kernel has none.
    fn scan(&mut self) -> Option<u64> {
        writeln!(self.0.stdin.as_mut()?).ok()?;
        let mut line = Vec::new();
        let stdout = self.0.stdout.as_mut()?;
        // One byte at a time, since the reader must not take more than the line.
        BufReader::with_capacity(1, stdout)
            .read_until(b'\n', &mut line)
            .ok()?;
        let line = String::from_utf8(line).ok()?;
        line.split_whitespace().nth(1)?.parse().ok()
    }
}

impl Drop for Scanner {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn hot_shares(source: &mut BpfSource, report: &mut Report, options: &[&str]) -> Outcome<()> {
    let mut touch = Touch::start(options);
    let pages = touch.nr_pages;
    touch.ask(&format!("writerange 0 {pages}"));
    let process = Process::open(touch.pid)?;
    let region = AddrRange::new(touch.address, touch.page_address(pages));
    let spans = covering_spans([region]);
    let smaps = format!("/proc/{}/smaps", touch.pid);
    let mut scanner = Scanner::start(touch.pid, region)?;
    let grain = if options.contains(&"--thp") {
        "huge"
    } else {
        "4 KiB"
    };
    for percent in [1, 10, 50, 100] {
        let case = format!("1 GiB, {grain}, {percent} % hot");
        let heat = format!("read {percent} {}", pages * percent / 100);
        for _ in 0..ROUNDS {
            clear_refs(&process)?;
            touch.ask(&heat);
            let (young, walk_ns) = read_young(source, &process, &spans)?;
            report.note(&case, "bpf walk", pages, walk_ns);
            let young_pages = young.iter().map(|r| r.len_bytes() / PAGE_BYTES).sum();
            let (_, cold_ns) = timed(|| {
                Ok(clear_pieces(
                    &process,
                    YoungPiece::of_ranges(&young).iter(),
                    || false,
                    &mut Cleared::default(),
                )?)
            })?;
            report.note(&case, "MADV_COLD of the young", young_pages, cold_ns);

            touch.ask(&heat);
            let (_, refs_ns) = timed(|| clear_refs(&process))?;
            report.note(&case, "clear_refs", pages, refs_ns);

            touch.ask(&heat);
            let (text, smaps_ns) = timed(|| Ok(fs::read(&smaps)?))?;
            black_box(text);
            let (_, again_ns) = timed(|| clear_refs(&process))?;
            report.note(&case, "smaps + clear_refs", pages, smaps_ns + again_ns);
            if let Some(scan_ns) = scanner.scan() {
                report.note(&case, "PAGEMAP_SCAN (present only)", pages, scan_ns);
            }
        }
    }
    Ok(())
}

fn clear_refs(process: &Process) -> Result<(), Box<dyn Error>> {
    Ok(fs::write(
        format!("/proc/{}/clear_refs", process.pid()),
        "1",
    )?)
}

/// A workload whose mappings are walked whole; it is ended with the figures.
fn whole_process(
    source: &mut BpfSource,
    report: &mut Report,
    case: &str,
    name: &str,
    options: &[&str],
) -> Outcome<()> {
    let mut child = Command::new(program(name))
        .args(options)
        .stdout(Stdio::piped())
        .spawn()?;
    let stdout = child.stdout.take().ok_or("piped")?;
    BufReader::new(stdout).read_line(&mut String::new())?;
    let process = Process::open(child.id() as i32)?;
    let ranges = source.vm_flags(&process)?;
    let spans = covering_spans(ranges.iter().map(|(range, _)| *range));
    for _ in 0..ROUNDS {
        let mut pages = 0;
        source.read(&process, &spans, &mut |record| {
            pages += bits::count(record.present);
        })?;
        report.note(
            case,
            "bpf walk",
            pages,
            timed_walk(source, &process, &spans)?,
        );
        let (_, flags_ns) = timed(|| Ok(source.vm_flags(&process)?))?;
        report.note(case, "bpf list of mappings", pages, flags_ns);
        let (text, smaps_ns) = timed(|| Ok(fs::read(format!("/proc/{}/smaps", child.id()))?))?;
        black_box(text);
        let (_, refs_ns) = timed(|| clear_refs(&process))?;
        report.note(case, "smaps + clear_refs", pages, smaps_ns + refs_ns);
    }
    child.kill()?;
    child.wait()?;
    Ok(())
}

fn sleepers(source: &mut BpfSource, report: &mut Report) -> Outcome<()> {
    let mut touch = Touch::start(["--size", "1M"]);
    let children = touch.ask("fork 200");
    let processes: Vec<Process> = children
        .split_whitespace()
        .map(|pid| Ok(Process::open(pid.parse()?)?))
        .collect::<Outcome<_>>()?;
    std::thread::sleep(Duration::from_millis(200));
    let case = "200 sleeping processes";
    let mut spans = Vec::new();
    for process in &processes {
        let ranges = source.vm_flags(process)?;
        spans.push(covering_spans(ranges.iter().map(|(range, _)| *range)));
    }
    for _ in 0..ROUNDS {
        let mut pages = 0;
        let (_, walk_ns) = timed(|| {
            for (process, spans) in processes.iter().zip(&spans) {
                source.read(process, spans, &mut |record| {
                    pages += bits::count(record.present);
                })?;
            }
            Ok(())
        })?;
        report.note(case, "bpf walk of all", pages, walk_ns);
        let (_, skip_ns) = timed(|| {
            for process in &processes {
                black_box(process.cpu_ns()?);
            }
            Ok(())
        })?;
        report.note(case, "CPU clocks, walks skipped", pages, skip_ns);
    }
    touch.ask("reap");
    Ok(())
}

fn main() -> Outcome<()> {
    let is_json = std::env::args().any(|argument| argument == "--json");
    let mut source = BpfSource::open()?;
    let mut report = Report::default();
    hot_shares(&mut source, &mut report, &["--size", "1G"])?;
    hot_shares(&mut source, &mut report, &["--size", "1G", "--thp"])?;
    let sparse = ["--size", "40000M", "--touch", "20000", "--seconds", "0"];
    whole_process(
        &mut source,
        &mut report,
        "20,000 tables with one page",
        "sparse",
        &sparse,
    )?;
    let sparse = ["--size", "1T", "--touch", "64", "--seconds", "0"];
    whole_process(
        &mut source,
        &mut report,
        "1 TiB with 64 pages",
        "sparse",
        &sparse,
    )?;
    let storm = ["--mappings", "10000", "--seconds", "0"];
    whole_process(
        &mut source,
        &mut report,
        "10,000 one-page mappings",
        "mapstorm",
        &storm,
    )?;
    sleepers(&mut source, &mut report)?;
    report.print(is_json)
}
