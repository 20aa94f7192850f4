//! A recording of live processes: when which page was accessed, how old pages are, and the answers of `strata plan`.
//!
//! **Owns** arrays made of a recording, and the questions. **Does not own** plans and promises (`strata-sim`) or the format
//! (`strata-trace`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use strata_control::cpu::load::AUTO_PAGEOUT_PAGES_PER_S;
use strata_sim::guarded::{GuardSetup, Promise, Recorded, STALL_SHARE, guarded};
use strata_sim::plan::{Holding, Question, plan, plan_bytes};
use strata_sim::{CostModel, IntervalOrder, Page, Workload};
use strata_trace::recording::RecordingInfo;
use strata_trace::{Backing, Op, Via};

use crate::apart::{Stop, apart};
use crate::error::{bad_value, failed};
use crate::load::{Bound as MemoryBound, Loaded};
use crate::trace::{Trace, parse_all};

/// Bits of a page number that are its address; those above count how often the page was freed before.
const ADDRESS_BITS: u32 = 44;
/// Largest slowdown that may be asked for, as under `strata plan`.
const SLOWDOWN_MAX: f64 = 10.0;
/// Shares that may be promised, as under `strata guard`.
const SHARES: std::ops::RangeInclusive<f64> = 0.0001..=1.0;
/// Least age that may be asked for, seconds, as under `strata guard`.
const MIN_AGES_S: std::ops::RangeInclusive<f64> = 5.0..=2_592_000.0;

/// One element an access: time, space, page, life, kind, write, mapped.
type AccessArrays<'py> = (
    Bound<'py, PyArray1<u64>>,
    Bound<'py, PyArray1<u32>>,
    Bound<'py, PyArray1<u64>>,
    Bound<'py, PyArray1<u8>>,
    Bound<'py, PyArray1<i8>>,
    Bound<'py, PyArray1<bool>>,
    Bound<'py, PyArray1<bool>>,
);
/// One element a page: space, page, kind, age.
type AgeArrays<'py> = (
    Bound<'py, PyArray1<u32>>,
    Bound<'py, PyArray1<u64>>,
    Bound<'py, PyArray1<i8>>,
    Bound<'py, PyArray1<u64>>,
);
/// Counts row by row; space and first page of each row.
type HeatArrays<'py> = (
    Bound<'py, PyArray1<u32>>,
    Bound<'py, PyArray1<u32>>,
    Bound<'py, PyArray1<u64>>,
);

/// A recording in memory; `strata.Recording` is what is shown.
#[pyclass(frozen, module = "strata._strata")]
pub(crate) struct Recording {
    workload: Arc<Workload>,
    info: RecordingInfo,
}

impl Recording {
    /// What was loaded, if it is a recording of at least one interval.
    pub(crate) fn of(loaded: Loaded) -> PyResult<Recording> {
        let name = loaded.workload.name();
        let info = loaded.info.ok_or_else(|| {
            bad_value(format!(
                "{name} is a trace but no recording: it does not tell how long its accesses took; make one with strata \
                 record, or replay it with simulate()"
            ))
        })?;
        if info.nr_walks == 0 {
            return Err(bad_value(format!(
                "{name} holds no interval: record for longer"
            )));
        }
        Ok(Recording {
            workload: Arc::new(loaded.workload),
            info,
        })
    }

    fn times_us(&self) -> (u64, u64) {
        self.info.times_us.unwrap_or_default()
    }
}

#[pymethods]
impl Recording {
    #[getter]
    fn name(&self) -> &str {
        self.workload.name()
    }

    #[getter]
    fn target(&self) -> &str {
        let about = self.info.about.as_ref();
        about.map_or("", |about| &about.target)
    }

    #[getter]
    fn nr_walks(&self) -> u64 {
        self.info.nr_walks
    }

    #[getter]
    fn begin_us(&self) -> u64 {
        self.times_us().0
    }

    #[getter]
    fn duration_us(&self) -> u64 {
        self.info.duration_us()
    }

    #[getter]
    fn cpu_us(&self) -> u64 {
        self.info.cpu_us
    }

    #[getter]
    fn nr_accesses(&self) -> u32 {
        self.workload.nr_requests()
    }

    #[getter]
    fn footprint_pages(&self) -> u32 {
        self.workload.footprint_pages()
    }

    #[getter]
    fn spaces(&self) -> BTreeMap<u32, String> {
        let spaces = self.info.spaces.values();
        let spaces = spaces.map(|of| (of.space, format!("process {} ({})", of.pid, of.name)));
        let files = self.info.files.iter();
        let files =
            files.filter_map(|(number, of)| Some((*number, of.name.as_ref()?.path.clone())));
        spaces.chain(files).collect()
    }

    /// The recording as a trace, its intervals in an order.
    fn trace(&self, py: Python<'_>, order: &str, max_memory: u64) -> PyResult<Trace> {
        let order: IntervalOrder = order.parse().map_err(bad_value)?;
        let workload = Arc::clone(&self.workload);
        let work = move |_: &Stop| MemoryBound(max_memory).reorder(&workload, order);
        Ok(Trace::of(apart(py, work)?))
    }

    fn accesses<'py>(&self, py: Python<'py>) -> PyResult<AccessArrays<'py>> {
        let workload = Arc::clone(&self.workload);
        let columns = apart(py, move |stop| {
            let nr_accesses = workload.requests().len();
            let mut time_us = Vec::with_capacity(nr_accesses);
            let mut space = Vec::with_capacity(nr_accesses);
            let mut page = Vec::with_capacity(nr_accesses);
            let mut life = Vec::with_capacity(nr_accesses);
            let mut kind = Vec::with_capacity(nr_accesses);
            let mut write = Vec::with_capacity(nr_accesses);
            let mut mapped = Vec::with_capacity(nr_accesses);
            for (request, position) in workload.requests().iter().zip(0..) {
                stop.check();
                let of = workload.page(request.page());
                time_us.push(workload.time_us(position).unwrap_or_default());
                space.push(of.key.space);
                page.push(address(of));
                life.push((of.key.page >> ADDRESS_BITS) as u8);
                kind.push(kind_of(of));
                write.push(request.op() == Op::Write);
                mapped.push(request.via() == Via::PageTable);
            }
            Ok((time_us, space, page, life, kind, write, mapped))
        })?;
        let (time_us, space, page, life, kind, write, mapped) = columns;
        Ok((
            time_us.into_pyarray(py),
            space.into_pyarray(py),
            page.into_pyarray(py),
            life.into_pyarray(py),
            kind.into_pyarray(py),
            write.into_pyarray(py),
            mapped.into_pyarray(py),
        ))
    }

    fn ages<'py>(&self, py: Python<'py>) -> PyResult<AgeArrays<'py>> {
        let workload = Arc::clone(&self.workload);
        let (_, end_us) = self.times_us();
        let (space, page, kind, age_us) = apart(py, move |stop| Ok(ages(&workload, end_us, stop)))?;
        Ok((
            space.into_pyarray(py),
            page.into_pyarray(py),
            kind.into_pyarray(py),
            age_us.into_pyarray(py),
        ))
    }

    fn heat_map<'py>(&self, py: Python<'py>, rows: u32, columns: u32) -> PyResult<HeatArrays<'py>> {
        if rows == 0 || columns == 0 {
            return Err(bad_value("a heat map has at least a row and a column"));
        }
        let workload = Arc::clone(&self.workload);
        let times_us = self.times_us();
        let work = move |stop: &Stop| Ok(heat(&workload, times_us, rows, columns, stop));
        let (counts, space, page) = apart(py, work)?;
        Ok((
            counts.into_pyarray(py),
            space.into_pyarray(py),
            page.into_pyarray(py),
        ))
    }

    /// The answer of `strata plan --format json`.
    #[expect(
        clippy::too_many_arguments,
        reason = "they are the arguments in Python"
    )]
    fn plan(
        &self,
        py: Python<'_>,
        slowdown: f64,
        memory: Vec<String>,
        policies: Vec<String>,
        held: &str,
        pageout_rate: Option<u64>,
        cost: &str,
        jobs: u16,
        max_memory: u64,
    ) -> PyResult<String> {
        if !(slowdown > 0.0 && slowdown <= SLOWDOWN_MAX) {
            let why = "is a share of the CPU time used, above 0 and up to 10: 0.03 is 3 %";
            return Err(bad_value(format!("slowdown {why}, not {slowdown}")));
        }
        if self.info.cpu_us == 0 {
            return Err(failed(format!(
                "{} holds no interval in which the processes ran: record for longer",
                self.workload.name()
            )));
        }
        let held: Holding = held
            .parse()
            .map_err(|error| bad_value(format!("held is {held:?}: {error}")))?;
        let question = Question {
            policies: parse_all(&policies)?,
            pageout_rate: pageout_rate.unwrap_or(AUTO_PAGEOUT_PAGES_PER_S),
            holding: held,
            budgets: parse_all(&memory)?,
            slowdown_millionths: ((slowdown * 1e6).round() as u64).max(1),
            cost: cost.parse().map_err(bad_value)?,
            busy_us: self.info.cpu_us,
            duration_us: self.info.duration_us(),
            interval_us: self.info.duration_us() / self.info.nr_walks,
        };
        if question.policies.is_empty() {
            return Err(bad_value("no policy: name at least one"));
        }
        let workload = Arc::clone(&self.workload);
        apart(py, move |stop| {
            let jobs = MemoryBound(max_memory).jobs(&workload, plan_bytes(&workload), jobs)?;
            let plan = plan(&workload, &question, &jobs, stop).map_err(failed)?;
            plan.json().map_err(failed)
        })
    }

    /// The answer of `strata plan --promise --format json`.
    fn promise(
        &self,
        py: Python<'_>,
        share_per_min: f64,
        min_age_s: f64,
        cost: &str,
        max_memory: u64,
    ) -> PyResult<String> {
        if !SHARES.contains(&share_per_min) {
            let why = "is what may come back within a minute, 0.0001 to 1: 0.002 is 0.2 %";
            return Err(bad_value(format!(
                "share_per_min {why}, not {share_per_min}"
            )));
        }
        if !MIN_AGES_S.contains(&min_age_s) {
            let why = "is at least 5 s and at most 30 days";
            return Err(bad_value(format!("min_age_s {why}, not {min_age_s}")));
        }
        let promise = Promise {
            share_per_min,
            min_age: Duration::from_millis((min_age_s * 1e3).round() as u64),
            stall_share: STALL_SHARE,
        };
        let setup = GuardSetup {
            promise,
            walk_interval: promise.walk_interval(),
        };
        let cost: CostModel = cost.parse().map_err(bad_value)?;
        let (workload, recorded) = (Arc::clone(&self.workload), Recorded::of(&self.info));
        apart(py, move |stop| {
            MemoryBound(max_memory).jobs(&workload, workload.memory_bytes(), 1)?;
            let guarded = guarded(&workload, &setup, recorded, &cost, stop).map_err(failed)?;
            guarded.json().map_err(failed)
        })
    }
}

fn address(page: &Page) -> u64 {
    page.key.page & ((1 << ADDRESS_BITS) - 1)
}

/// The place of a page's kind in `strata.KINDS`.
fn kind_of(page: &Page) -> i8 {
    match page.backing {
        Backing::Anon => 0,
        Backing::File => 1,
        Backing::Code => 2,
    }
}

/// Space, address, kind and age of each page that is in use at the end.
fn ages(workload: &Workload, end_us: u64, stop: &Stop) -> (Vec<u32>, Vec<u64>, Vec<i8>, Vec<u64>) {
    let mut last_us = vec![Some(0); workload.pages().len()];
    for (request, position) in workload.requests().iter().zip(0..) {
        stop.check();
        last_us[request.page().index()] = workload.time_us(position).or(Some(0));
    }
    for end in workload.ends() {
        last_us[end.page.index()] = None;
    }
    let pages = workload.pages().iter().zip(last_us);
    let used = pages.filter_map(|(of, last_us)| Some((of, end_us.saturating_sub(last_us?))));
    let mut used: Vec<(&Page, u64)> = used.collect();
    used.sort_unstable_by_key(|(of, _)| of.key);
    (
        used.iter().map(|(of, _)| of.key.space).collect(),
        used.iter().map(|(of, _)| address(of)).collect(),
        used.iter().map(|(of, _)| kind_of(of)).collect(),
        used.iter().map(|(_, age_us)| *age_us).collect(),
    )
}

/// Accesses by address and time, row by row, and where each row begins. A row has as many addresses as any other, give or take
/// one: what was never accessed takes no room.
fn heat(
    workload: &Workload,
    (begin_us, end_us): (u64, u64),
    rows: u32,
    columns: u32,
    stop: &Stop,
) -> (Vec<u32>, Vec<u32>, Vec<u64>) {
    let place = |of: &Page| (of.key.space, address(of));
    let mut places: Vec<(u32, u64)> = workload.pages().iter().map(place).collect();
    places.sort_unstable();
    places.dedup();
    let rows = (rows as usize).min(places.len());
    let row_of = |of: &Page| {
        let rank = places.partition_point(|one| *one < place(of));
        rank * rows / places.len()
    };
    let row_of_page: Vec<usize> = workload.pages().iter().map(row_of).collect();
    let mut counts = vec![0_u32; rows * columns as usize];
    let width_us = u128::from(end_us.saturating_sub(begin_us)) + 1;
    for (request, position) in workload.requests().iter().zip(0..) {
        stop.check();
        let at_us = workload.time_us(position).unwrap_or_default();
        let since_us = u128::from(at_us.clamp(begin_us, end_us) - begin_us);
        let column = (since_us * u128::from(columns) / width_us) as usize;
        counts[row_of_page[request.page().index()] * columns as usize + column] += 1;
    }
    let firsts = (0..rows).map(|row| places[(row * places.len()).div_ceil(rows)]);
    let (space, page) = firsts.unzip();
    (counts, space, page)
}
