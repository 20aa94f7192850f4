//! Where accesses come from: a file of any known format, or a generator by name.
//!
//! **Owns** the options that say how a trace is read, shared by the verbs that read one. **Does not
//! own** the formats and generators (`strata-trace`).

use std::num::NonZeroU32;

use clap::Args;
use clap::builder::TypedValueParser;
use strata_trace::{
    Access, AccessReader, Backing, Columns, Format, Generator, OpenOptions, Sizes, Tolerant,
    TraceError, Via,
};

use crate::args::{one_of, size_arg};
use crate::failure::UsageError;
use crate::memory_bound::MemoryBound;
use crate::print::Few;
use crate::progress::Bar;

/// How traces are read.
#[derive(Clone, Debug, Args)]
pub(crate) struct SourceArgs {
    /// Format of trace files, guessed from content and name by default
    ///
    /// One of strata, oracle-general, oracle-general-opns, csv, txt, lis, lirs, memsim, ucsd, lackey,
    /// vscsi, fio, u32le, u32be, u64le, u64be, tlb. Files may be compressed with gzip, xz or zstd.
    #[arg(long, value_name = "FORMAT", value_parser = str::parse::<Format>)]
    trace_format: Option<Format>,

    /// Columns of csv and txt, for example id=5,time=2,op=3,delimiter=;,header=yes
    ///
    /// A column is its number or its name in the header: time, id, size, op, space, group, via,
    /// backing. Further settings: time-unit (s, ms, us, ns), delimiter, header (yes, no), ids
    /// (numbers, text). A setting that is not given is found in the header.
    #[arg(
        long,
        value_name = "SETTINGS",
        default_value = "",
        hide_default_value = true,
        value_parser = str::parse::<Columns>
    )]
    trace_columns: Columns,

    /// How pages were accessed, instead of what the format says or implies
    #[arg(long, value_parser = via_arg())]
    via: Option<Via>,

    /// What pages are made of, instead of what the format says or implies
    #[arg(long, value_parser = backing_arg())]
    backing: Option<Backing>,

    /// Take a request for as many pages of 4096 bytes as it touches; by default one id is one page
    #[arg(long)]
    expand_sizes: bool,

    /// Bytes that one id counts where sizes are expanded: 512 if ids are sectors
    ///
    /// 512 for vscsi and 4096 for other formats by default.
    #[arg(long, value_name = "BYTES", requires = "expand_sizes")]
    id_bytes: Option<NonZeroU32>,

    /// Most memory to take for traces and their replays, for example 2G; a quarter of the machine's by default
    ///
    /// A trace or replay that needs more is refused before any memory is taken. Fewer replays run at a time if not all of them
    /// fit. The output never depends on this bound, and it has nothing to do with the memory that is simulated.
    #[arg(long, value_name = "SIZE", value_parser = size_arg, allow_hyphen_values = true)]
    max_memory: Option<u64>,

    /// Pass over bad lines, damaged blocks and torn ends of traces, and tell of them
    #[arg(long)]
    skip_broken: bool,
}

fn via_arg() -> impl TypedValueParser<Value = Via> {
    one_of([
        (
            "fd",
            "Reads and writes through file descriptors",
            Via::FileDescriptor,
        ),
        ("mmap", "Loads and stores through mappings", Via::PageTable),
    ])
}

fn backing_arg() -> impl TypedValueParser<Value = Backing> {
    one_of([
        ("anon", "Swap-backed memory", Backing::Anon),
        ("file", "Files", Backing::File),
    ])
}

/// An opened trace, with a progress bar that goes when it is dropped.
#[derive(Debug)]
pub(crate) struct Source {
    /// The accesses.
    pub(crate) reader: Box<dyn AccessReader>,
    /// The format, and how it is compressed, for people.
    pub(crate) format: String,
    /// What whoever holds the accesses may take.
    pub(crate) bound: MemoryBound,
    _bar: Bar,
}

impl SourceArgs {
    /// Opens the file or generator called `trace`.
    pub(crate) fn open(&self, trace: &str) -> anyhow::Result<Source> {
        let bound = MemoryBound::new(self.max_memory)?;
        if Generator::is_name(trace) {
            let generator = Generator::try_within(trace, bound.0)
                .map_err(|error| UsageError(format!("{trace}: {error}")))?;
            let bound = MemoryBound(bound.0 - generator.table_bytes());
            let bar = Bar::requests(trace, generator.nr_left());
            let reader = Generated {
                generator,
                via: self.via,
                backing: self.backing,
                bar: bar.clone_handle(),
            };
            return Ok(Source {
                reader: Box::new(reader),
                format: "generated".to_owned(),
                bound,
                _bar: bar,
            });
        }
        let opened = strata_trace::open(trace, &self.options())?;
        let bar = Bar::bytes(trace, &opened.progress);
        let format = match opened.compression {
            strata_trace::Compression::None => opened.format.to_string(),
            compression => format!("{}, compressed: {compression}", opened.format),
        };
        let reader: Box<dyn AccessReader> = if self.skip_broken {
            let mut told = Few::told("passed over {nr} broken places in all");
            let tell = move |error: &TraceError| told.warning(&format!("passed over: {error}"));
            Box::new(Tolerant::new(opened.reader, tell))
        } else {
            opened.reader
        };
        Ok(Source {
            reader,
            format,
            bound,
            _bar: bar,
        })
    }

    /// What the verb may take.
    pub(crate) fn bound(&self) -> anyhow::Result<MemoryBound> {
        MemoryBound::new(self.max_memory)
    }

    fn options(&self) -> OpenOptions {
        OpenOptions {
            format: self.trace_format,
            via: self.via,
            backing: self.backing,
            sizes: match self.expand_sizes {
                true => Sizes::Expand,
                false => Sizes::Ignore,
            },
            id_bytes: self.id_bytes,
            columns: self.trace_columns.clone(),
        }
    }
}

/// A generator, with what was asked of its accesses.
#[derive(Debug)]
struct Generated {
    generator: Generator,
    via: Option<Via>,
    backing: Option<Backing>,
    bar: indicatif::ProgressBar,
}

impl AccessReader for Generated {
    fn read_batch(&mut self, batch: &mut Vec<Access>) -> Result<usize, TraceError> {
        let nr_accesses = self.generator.read_batch(batch)?;
        for access in batch.iter_mut() {
            access.via = self.via.unwrap_or(access.via);
            access.backing = self.backing.unwrap_or(access.backing);
        }
        self.bar.inc(nr_accesses as u64);
        Ok(nr_accesses)
    }
}
