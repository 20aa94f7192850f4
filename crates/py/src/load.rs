//! Traces of any kind in memory: files, generators, Python's file objects and numpy arrays.
//!
//! **Owns** how they are read. **Does not own** formats (`strata-trace`) or what is done with them.
//!
//! **Invariants**
//! - I1: what needs more memory than may be taken is refused before it is taken.

use std::io::{self, Read};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};

use numpy::PyReadonlyArray1;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use strata_sim::{IntervalOrder, Jobs, LoadError, Workload, run_bytes_max};
use strata_trace::recording::RecordingInfo;
use strata_trace::{
    Access, AccessReader, Backing, Columns, Freed, Generator, GeneratorError, OpenOptions, Sizes,
    TraceError, Via, open, open_stream,
};

use crate::apart::Stop;
use crate::arrays::Arrays;
use crate::error::{bad_value, failed, unreadable};

/// How a trace is read, as the arguments say it.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct How {
    format: Option<String>,
    columns: String,
    via: Option<String>,
    backing: Option<String>,
    expand_sizes: bool,
    id_bytes: Option<u32>,
    order: Option<String>,
    max_memory: u64,
}

/// How a trace is read.
#[derive(Debug)]
pub(crate) struct Reading {
    options: OpenOptions,
    order: Option<IntervalOrder>,
    bound: Bound,
}

impl TryFrom<How> for Reading {
    type Error = PyErr;

    fn try_from(how: How) -> PyResult<Reading> {
        let via = how.via.as_deref().map(|text| match text {
            "fd" => Ok(Via::FileDescriptor),
            "mmap" => Ok(Via::PageTable),
            _ => Err(bad_value(format!("via is fd or mmap, not {text:?}"))),
        });
        let backing = how.backing.as_deref().map(|text| match text {
            "anon" => Ok(Backing::Anon),
            "file" => Ok(Backing::File),
            _ => Err(bad_value(format!("backing is anon or file, not {text:?}"))),
        });
        let format = how.format.as_deref().map(str::parse);
        let id_bytes = how
            .id_bytes
            .map(|bytes| NonZeroU32::new(bytes).ok_or_else(|| bad_value("id_bytes is at least 1")));
        let order = how.order.as_deref().map(str::parse);
        Ok(Reading {
            options: OpenOptions {
                format: format.transpose().map_err(bad_value)?,
                via: via.transpose()?,
                backing: backing.transpose()?,
                sizes: match how.expand_sizes {
                    true => Sizes::Expand,
                    false => Sizes::Ignore,
                },
                id_bytes: id_bytes.transpose()?,
                columns: how.columns.parse::<Columns>().map_err(bad_value)?,
            },
            order: order.transpose().map_err(bad_value)?,
            bound: Bound(how.max_memory),
        })
    }
}

/// How much memory may be taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound(pub(crate) u64);

impl Bound {
    /// Refuses what takes more; `what` begins the sentence.
    pub(crate) fn check(self, what: &str, needed_bytes: u64) -> PyResult<()> {
        if needed_bytes <= self.0 {
            return Ok(());
        }
        Err(failed(format!(
            "{what} takes up to {needed_bytes} bytes, more than the {} of max_memory: allow more, or use a part of the trace",
            self.0
        )))
    }

    /// The workload with its intervals in another order.
    pub(crate) fn reorder(self, workload: &Workload, order: IntervalOrder) -> PyResult<Workload> {
        let needed = workload.memory_bytes() + workload.reorder_bytes();
        let what = format!("{}: putting it in another order", workload.name());
        self.check(&what, needed)?;
        Ok(workload.in_order(order))
    }

    /// Threads for replays of the workload beside so many bytes, as many as fit; of those asked for 0 is one a processor.
    pub(crate) fn jobs(self, workload: &Workload, held_bytes: u64, asked: u16) -> PyResult<Jobs> {
        let of_one = run_bytes_max(workload);
        self.check(
            &format!("{}: a replay", workload.name()),
            held_bytes + of_one,
        )?;
        let asked = match asked {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            asked => usize::from(asked),
        };
        let fitting = usize::try_from((self.0 - held_bytes) / of_one).unwrap_or(usize::MAX);
        Jobs::try_new(asked.min(fitting.max(1))).map_err(failed)
    }
}

/// A trace in memory, and what is known of it if it is a recording.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) workload: Workload,
    pub(crate) info: Option<RecordingInfo>,
}

impl Loaded {
    /// In the order that was asked for, or that of recordings.
    pub(crate) fn ordered(self, reading: &Reading) -> PyResult<Workload> {
        let of_recording = self.info.is_some().then(IntervalOrder::default);
        match reading.order.or(of_recording) {
            Some(order) => reading.bound.reorder(&self.workload, order),
            None => Ok(self.workload),
        }
    }
}

/// Reads the file or generator at `path`, which is called `name` from then on.
pub(crate) fn by_path(path: &str, name: &str, reading: &Reading, stop: &Stop) -> PyResult<Loaded> {
    let mut bound = reading.bound;
    let reader: Box<dyn AccessReader> = match Generator::is_name(path) {
        true => {
            let generator = Generator::try_within(path, bound.0);
            let generator = generator.map_err(|error| match error {
                GeneratorError::TooLarge { .. } => failed(format!("{path}: {error}")),
                error => bad_value(format!("{path}: {error}")),
            })?;
            bound = Bound(bound.0 - generator.table_bytes());
            Box::new(generator)
        }
        false => open(path, &reading.options).map_err(unreadable)?.reader,
    };
    read(name, reader, bound, reading, stop).map_err(not_loaded)
}

/// Reads what a Python file object gives.
pub(crate) fn of_file(
    file: Py<PyAny>,
    name: &str,
    reading: &Reading,
    stop: &Stop,
) -> PyResult<Loaded> {
    let raised = Arc::<Mutex<Option<PyErr>>>::default();
    let stream = FileObject {
        file,
        stop: stop.clone(),
        raised: Arc::clone(&raised),
    };
    let opened = open_stream(name, stream, None, &reading.options).map_err(LoadError::from);
    let loaded = opened.and_then(|opened| read(name, opened.reader, reading.bound, reading, stop));
    loaded.map_err(
        |error| match raised.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(cause) => Python::attach(|py| {
                let error = unreadable(format!("{name}: the Python file object raised {cause}"));
                error.set_cause(py, Some(cause));
                error
            }),
            None => not_loaded(error),
        },
    )
}

/// Columns of numpy arrays, one element an access.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct NumpyColumns<'py> {
    page: PyReadonlyArray1<'py, u64>,
    time_us: Option<PyReadonlyArray1<'py, u64>>,
    space: Option<PyReadonlyArray1<'py, u32>>,
    group: Option<PyReadonlyArray1<'py, u16>>,
    write: Option<PyReadonlyArray1<'py, bool>>,
}

/// Reads arrays where they lie.
pub(crate) fn of_arrays(
    py: Python<'_>,
    name: &str,
    columns: &NumpyColumns<'_>,
    reading: &Reading,
) -> PyResult<Loaded> {
    let mut arrays = Arrays::new(
        columns.page.as_slice()?,
        reading.options.via.unwrap_or(Via::PageTable),
        reading.options.backing.unwrap_or(Backing::Anon),
    );
    arrays.time_us = slice(&columns.time_us)?;
    arrays.space = slice(&columns.space)?;
    arrays.group = slice(&columns.group)?;
    arrays.write = slice(&columns.write)?;
    arrays.check().map_err(PyValueError::new_err)?;
    let loaded = py.detach(|| Workload::read_within(name, &mut arrays, reading.bound.0));
    if let Some(raised) = arrays.raised {
        return Err(raised);
    }
    let workload = loaded.map_err(not_loaded)?;
    Ok(Loaded {
        workload,
        info: None,
    })
}

fn slice<'a, T: numpy::Element>(
    array: &'a Option<PyReadonlyArray1<'_, T>>,
) -> PyResult<Option<&'a [T]>> {
    let slice = array.as_ref().map(|array| array.as_slice());
    Ok(slice.transpose()?)
}

fn read(
    name: &str,
    reader: Box<dyn AccessReader>,
    bound: Bound,
    reading: &Reading,
    stop: &Stop,
) -> Result<Loaded, LoadError> {
    let mut watched = Watched {
        reader,
        via: reading.options.via,
        backing: reading.options.backing,
        stop: stop.clone(),
    };
    let workload = Workload::read_within(name, &mut watched, bound.0)?;
    let info = watched.reader.recording().cloned();
    Ok(Loaded { workload, info })
}

fn not_loaded(error: LoadError) -> PyErr {
    match error {
        LoadError::Trace(error) => unreadable(error),
        error => failed(error),
    }
}

/// A trace being read, as long as somebody waits for it.
#[derive(Debug)]
struct Watched {
    reader: Box<dyn AccessReader>,
    via: Option<Via>,
    backing: Option<Backing>,
    stop: Stop,
}

impl AccessReader for Watched {
    fn read_batch(&mut self, batch: &mut Vec<Access>) -> Result<usize, TraceError> {
        self.stop.check();
        let nr_accesses = self.reader.read_batch(batch)?;
        // Files were told by their options; a generator has none.
        for access in batch.iter_mut() {
            access.via = self.via.unwrap_or(access.via);
            access.backing = self.backing.unwrap_or(access.backing);
        }
        Ok(nr_accesses)
    }

    fn take_freed(&mut self, freed: &mut Vec<Freed>) {
        self.reader.take_freed(freed);
    }

    fn recording(&self) -> Option<&RecordingInfo> {
        self.reader.recording()
    }
}

/// Bytes that a Python object with a method `read` gives.
struct FileObject {
    file: Py<PyAny>,
    stop: Stop,
    /// What it raised, for whoever hears that it could not be read.
    raised: Arc<Mutex<Option<PyErr>>>,
}

impl Read for FileObject {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stop.check();
        Python::attach(|py| {
            let bytes = self.file.bind(py).call_method1("read", (buffer.len(),))?;
            let bytes = bytes.cast::<PyBytes>().map_err(|_| {
                let what = "read() gave no bytes: open the file in binary mode (\"rb\")";
                PyTypeError::new_err(what)
            })?;
            let bytes = bytes.as_bytes();
            let place = buffer
                .get_mut(..bytes.len())
                .ok_or_else(|| PyValueError::new_err("read(n) gave more than n bytes"))?;
            place.copy_from_slice(bytes);
            Ok(bytes.len())
        })
        .map_err(|error: PyErr| {
            let text = error.to_string();
            *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            io::Error::other(text)
        })
    }
}
