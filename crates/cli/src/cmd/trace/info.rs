//! `strata trace info`: what traces are like.
//!
//! **Owns** the two forms of the answer. **Does not own** the counting (`strata_trace::Summary`).

use clap::{Args, ValueEnum};
use serde::Serialize;
use strata_trace::Summary;

use crate::print;
use crate::source::SourceArgs;

const PAGE_BYTES: u64 = 4096;
/// Where the values begin, behind the longest label.
const LABEL_COLUMNS: usize = 13;

/// Counts what is in traces: accesses, distinct pages, kinds, operations, duration
///
/// Distinct pages are counted exactly, so it takes up to 40 bytes of memory a distinct page.
#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    /// Files or generators, for example arc-p6.lis.zst or gen:zipf
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<String>,

    #[command(flatten)]
    source: SourceArgs,

    /// How the answer is printed
    #[arg(long, value_enum, default_value = "table")]
    format: InfoFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum InfoFormat {
    /// For people
    Table,
    /// One object: traces, a record each
    Json,
}

/// What is told of a trace, in this order.
#[derive(Debug, Serialize)]
struct Record {
    trace: String,
    format: String,
    accesses: u64,
    distinct_pages: u64,
    footprint_bytes: u64,
    anon_pages: u64,
    file_pages: u64,
    reads: u64,
    writes: u64,
    mmap_accesses: u64,
    fd_accesses: u64,
    groups: u64,
    spaces: u64,
    lowest_page: Option<u64>,
    highest_page: Option<u64>,
    duration_us: u64,
}

#[derive(Debug, Serialize)]
struct Answer {
    traces: Vec<Record>,
}

impl Record {
    fn new(trace: &str, format: String, summary: &Summary) -> Record {
        let distinct_pages = summary.nr_distinct_pages();
        Record {
            trace: trace.to_owned(),
            format,
            accesses: summary.nr_accesses,
            distinct_pages,
            footprint_bytes: distinct_pages * PAGE_BYTES,
            anon_pages: summary.nr_anon_pages,
            file_pages: summary.nr_file_pages,
            reads: summary.nr_accesses - summary.nr_writes,
            writes: summary.nr_writes,
            mmap_accesses: summary.nr_page_table,
            fd_accesses: summary.nr_accesses - summary.nr_page_table,
            groups: summary.nr_groups(),
            spaces: summary.nr_spaces(),
            lowest_page: summary.pages.map(|(low, _)| low),
            highest_page: summary.pages.map(|(_, high)| high),
            duration_us: summary.duration_us(),
        }
    }
}

/// Reads the traces and tells.
pub(super) fn run(args: &InfoArgs) -> anyhow::Result<()> {
    let mut traces = Vec::new();
    for trace in &args.traces {
        let mut source = args.source.open(trace)?;
        let (mut summary, mut batch) = (Summary::default(), Vec::new());
        while source.reader.read_batch(&mut batch)? > 0 {
            summary.add(&batch);
        }
        traces.push(Record::new(trace, source.format.clone(), &summary));
    }
    match args.format {
        InfoFormat::Json => {
            let answer = Answer { traces };
            print::data(serde_json::to_string_pretty(&answer)? + "\n")?;
        }
        InfoFormat::Table => {
            let tables: Vec<String> = traces.iter().map(table).collect();
            print::data(tables.join("\n"))?;
        }
    }
    Ok(())
}

fn table(record: &Record) -> String {
    let Record {
        accesses,
        distinct_pages,
        ..
    } = *record;
    let mut text = format!("{}\n", record.trace);
    let mut add = |label: &str, value: String| {
        text.push_str(&format!("  {label:<LABEL_COLUMNS$}{value}\n"));
    };
    let share = |part: u64| {
        // Rounded to the nearest, in integers.
        let (part_wide, whole) = (u128::from(part), u128::from(accesses).max(1));
        let permille = (part_wide * 2000 + whole) / (2 * whole);
        format!("{} ({}.{} %)", grouped(part), permille / 10, permille % 10)
    };
    add("format", record.format.clone());
    add("accesses", grouped(accesses));
    let mib = record.footprint_bytes >> 20;
    let pages = grouped(distinct_pages);
    add("pages", format!("{pages} distinct, {} MiB", grouped(mib)));
    let (anon, file) = (grouped(record.anon_pages), grouped(record.file_pages));
    add("kinds", format!("{anon} anon, {file} file"));
    let (reads, writes) = (share(record.reads), share(record.writes));
    add("operations", format!("{reads} reads, {writes} writes"));
    let (mmap, fd) = (share(record.mmap_accesses), share(record.fd_accesses));
    add(
        "paths",
        format!("{mmap} through mappings, {fd} through descriptors"),
    );
    let (groups, spaces) = (grouped(record.groups), grouped(record.spaces));
    add(
        "belong to",
        format!("{groups} groups, {spaces} spaces or files"),
    );
    if let (Some(lowest), Some(highest)) = (record.lowest_page, record.highest_page) {
        add("page numbers", format!("{lowest} to {highest}"));
    }
    let duration = match record.duration_us {
        0 => "not recorded".to_owned(),
        us => {
            let ms = us / 1000;
            format!("{}.{:03} s", grouped(ms / 1000), ms % 1000)
        }
    };
    add("duration", duration);
    text
}

/// Digits in threes.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
