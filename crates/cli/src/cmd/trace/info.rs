//! `strata trace info`: what traces are like.
//!
//! **Owns** the two forms of the answer. **Does not own** the counting (`strata_trace::Summary`).

use clap::Args;
use clap::builder::TypedValueParser;
use serde::Serialize;
use strata_sim::table::grouped;
use strata_trace::Summary;
use strata_trace::recording::{FileInfo, NameKnown, RecordingInfo};

use crate::args::{Format, one_of};
use crate::print;
use crate::source::SourceArgs;

const PAGE_BYTES: u64 = 4096;
/// Mappings of a recording that are shown, most accessed first, and as many files.
const ROWS_SHOWN: usize = 8;
/// Where the values begin, behind the longest label.
const LABEL_COLUMNS: usize = 13;

/// Counts what is in traces: accesses, distinct pages, kinds, operations, duration
///
/// Distinct pages are counted exactly, so it takes up to 60 bytes of memory a distinct page (see
/// --max-memory).
#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    /// Files or generators, for example arc-p6.lis.zst or gen:zipf
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<String>,

    #[command(flatten)]
    source: SourceArgs,

    /// How the answer is printed
    #[arg(long, value_name = "FORMAT", value_parser = format_arg(), default_value = "table")]
    format: Format,
}

/// Reads how it is printed.
fn format_arg() -> impl TypedValueParser<Value = Format> {
    one_of([
        ("table", "For people", Format::Text),
        ("json", "One object: traces, a record each", Format::Json),
    ])
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
    #[serde(skip_serializing_if = "Option::is_none")]
    recording: Option<RecordingRecord>,
}

/// What only a recording tells.
#[derive(Debug, Serialize)]
struct RecordingRecord {
    target: String,
    source: String,
    interval_us: u64,
    walks: u64,
    broken_walks: u64,
    cpu_us: u64,
    appeared_pages: u64,
    gone_pages: u64,
    evicted_pages: u64,
    spaces: Vec<SpaceRecord>,
    areas: Vec<AreaRecord>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<FileRecord>,
    left_out: u64,
}

#[derive(Debug, Serialize)]
struct SpaceRecord {
    space: u32,
    pid: u32,
    name: String,
}

/// A mapping, the most accessed first.
#[derive(Debug, Serialize)]
struct AreaRecord {
    space: Option<u32>,
    class: String,
    name: String,
    accessed_pages: u64,
    appeared_pages: u64,
}

/// A file whose page cache was recorded, the most accessed first.
#[derive(Debug, Serialize)]
struct FileRecord {
    file: u32,
    group: String,
    path: String,
    /// What is known of its name.
    known: &'static str,
    accessed_pages: u64,
    appeared_pages: u64,
}

impl FileRecord {
    fn new(file: u32, info: &FileInfo) -> FileRecord {
        let name = info.name.as_ref();
        FileRecord {
            file,
            group: name.map(|name| name.group.clone()).unwrap_or_default(),
            path: name.map(|name| name.path.clone()).unwrap_or_default(),
            known: name.map_or(NameKnown::Nothing, |name| name.known).name(),
            accessed_pages: info.nr_accessed,
            appeared_pages: info.nr_appeared,
        }
    }
}

impl RecordingRecord {
    fn new(info: &RecordingInfo) -> RecordingRecord {
        let about = info.about.clone().unwrap_or_default();
        let mut areas: Vec<AreaRecord> = info
            .areas
            .values()
            .map(|area| {
                let name = area.name.as_ref();
                AreaRecord {
                    space: name.map(|name| name.space),
                    class: name.map_or_else(|| "unknown".to_owned(), |name| name.class.clone()),
                    name: name.map(|name| name.name.clone()).unwrap_or_default(),
                    accessed_pages: area.nr_accessed,
                    appeared_pages: area.nr_appeared,
                }
            })
            .collect();
        areas.sort_by_key(|area| std::cmp::Reverse(area.accessed_pages));
        let files = info.files.iter();
        let files = files.map(|(number, file)| FileRecord::new(*number, file));
        let mut files: Vec<FileRecord> = files.collect();
        files.sort_by_key(|file| std::cmp::Reverse((file.accessed_pages, file.appeared_pages)));
        let spaces = info.spaces.values().map(|space| SpaceRecord {
            space: space.space,
            pid: space.pid,
            name: space.name.clone(),
        });
        RecordingRecord {
            target: about.target,
            source: about.source,
            interval_us: about.interval_us,
            walks: info.nr_walks,
            broken_walks: info.nr_broken_walks,
            cpu_us: info.cpu_us,
            appeared_pages: info.nr_appeared,
            gone_pages: info.nr_gone,
            evicted_pages: info.nr_evicted,
            spaces: spaces.collect(),
            areas,
            files,
            left_out: info.nr_left_out,
        }
    }
}

#[derive(Debug, Serialize)]
struct Answer {
    traces: Vec<Record>,
}

impl Record {
    fn new(
        trace: &str,
        format: String,
        summary: &Summary,
        recording: Option<&RecordingInfo>,
    ) -> Record {
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
            recording: recording.map(RecordingRecord::new),
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
            let what = format!(
                "{trace}: counting distinct pages ({} so far)",
                summary.nr_distinct_pages()
            );
            source.bound.check(&what, summary.bytes_with(batch.len()))?;
            summary.add(&batch);
        }
        let recording = source.reader.recording();
        traces.push(Record::new(
            trace,
            source.format.clone(),
            &summary,
            recording,
        ));
    }
    let answer = Answer { traces };
    print::pretty_answer(args.format, &answer, || {
        let tables: Vec<String> = answer.traces.iter().map(table).collect();
        tables.join("\n")
    })
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
    if let Some(recording) = &record.recording {
        add_recording(recording, &mut add);
    }
    text
}

fn add_recording(recording: &RecordingRecord, add: &mut impl FnMut(&str, String)) {
    // Names come from whoever made the file: nothing in them shall move a cursor.
    let quoted = |text: &str| text.escape_debug().to_string();
    add("recording", format!("of {}", quoted(&recording.target)));
    let ms = recording.interval_us / 1000;
    let (walks, broken) = (grouped(recording.walks), grouped(recording.broken_walks));
    let source = quoted(&recording.source);
    add(
        "walks",
        format!("{walks}, every {ms} ms, by {source}; {broken} broke off"),
    );
    let cpu_ms = recording.cpu_us / 1000;
    add(
        "CPU time",
        format!("{}.{:03} s", grouped(cpu_ms / 1000), cpu_ms % 1000),
    );
    let [appeared, gone, evicted] = [
        recording.appeared_pages,
        recording.gone_pages,
        recording.evicted_pages,
    ]
    .map(grouped);
    add(
        "pages",
        format!("{appeared} appeared, {gone} freed, {evicted} evicted meanwhile"),
    );
    for area in recording.areas.iter().take(ROWS_SHOWN) {
        let name = match area.name.as_str() {
            "" => String::new(),
            name => format!(" {}", quoted(name)),
        };
        let (accessed, held) = (grouped(area.accessed_pages), grouped(area.appeared_pages));
        add(
            "mapping",
            format!(
                "{}{name}: {held} pages, found accessed {accessed} times",
                quoted(&area.class)
            ),
        );
    }
    if let Some(more) = recording.areas.len().checked_sub(ROWS_SHOWN + 1) {
        add("mappings", format!("{} more", more + 1));
    }
    for file in recording.files.iter().take(ROWS_SHOWN) {
        let (accessed, held) = (grouped(file.accessed_pages), grouped(file.appeared_pages));
        let name = match file.known {
            "deleted" => format!("{} (deleted)", quoted(&file.path)),
            "inside" => format!("{} in its file system", quoted(&file.path)),
            _ if file.path.is_empty() => "without a name".to_owned(),
            _ => quoted(&file.path),
        };
        add(
            "file",
            format!("{name}: {held} pages, found accessed {accessed} times"),
        );
    }
    if let Some(more) = recording.files.len().checked_sub(ROWS_SHOWN + 1) {
        add("files", format!("{} more", more + 1));
    }
}
