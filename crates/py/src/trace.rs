//! A trace in memory, and its replays.
//!
//! **Owns** the answer of `strata sim` as CSV. **Does not own** replays and figures (`strata-sim`).

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use pyo3::prelude::*;
use strata_lru::Swappiness;
use strata_sim::report::Report;
use strata_sim::{CostModel, MemorySize, PolicySpec, Setup, Workload};

use crate::apart::apart;
use crate::error::{bad_value, failed};
use crate::load::Bound as MemoryBound;

/// A trace in memory, loaded once and replayed as often as wanted. `strata.load` makes it.
#[pyclass(frozen, module = "strata")]
pub(crate) struct Trace(Arc<Workload>);

impl Trace {
    pub(crate) fn of(workload: Workload) -> Trace {
        Trace(Arc::new(workload))
    }
}

#[pymethods]
impl Trace {
    /// Its name in tables.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// Accesses.
    #[getter]
    fn nr_accesses(&self) -> u32 {
        self.0.nr_requests()
    }

    /// Distinct pages of 4096 bytes; an address that was freed and used again is another page.
    #[getter]
    fn nr_pages(&self) -> u32 {
        self.0.nr_pages()
    }

    /// The most pages in use at a time: what `"10%"` of memory is a share of.
    #[getter]
    fn footprint_pages(&self) -> u32 {
        self.0.footprint_pages()
    }

    fn __repr__(&self) -> String {
        format!(
            "<strata.Trace {}: {} accesses of {} pages>",
            self.0.name(),
            self.0.nr_requests(),
            self.0.nr_pages()
        )
    }

    /// The answer of `strata sim --format csv`.
    #[expect(
        clippy::too_many_arguments,
        reason = "they are the arguments in Python"
    )]
    fn simulate(
        &self,
        py: Python<'_>,
        policies: Vec<String>,
        memory: Vec<String>,
        swappiness: u8,
        cost: &str,
        jobs: u16,
        max_memory: u64,
    ) -> PyResult<String> {
        let policies: Vec<PolicySpec> = parse_all(&policies)?;
        let cost: CostModel = cost.parse().map_err(bad_value)?;
        let swappiness = Swappiness::try_new(swappiness)
            .ok_or_else(|| bad_value("swappiness is a number from 0 to 201"))?;
        let workload = Arc::clone(&self.0);
        let mut setups: Vec<Setup> = Vec::new();
        for size in sizes(&memory)? {
            let setup = Setup {
                swappiness,
                ..Setup::with_memory(size.pages(workload.footprint_pages()))
            };
            if !setups.contains(&setup) {
                setups.push(setup);
            }
        }
        apart(py, move |stop| {
            let jobs = MemoryBound(max_memory).jobs(&workload, workload.memory_bytes(), jobs)?;
            let runs = jobs.replay(&workload, &policies, &setups, stop);
            let mut report = Report::default();
            report.add(&workload, &runs.map_err(failed)?, &cost);
            Ok(report.csv())
        })
    }
}

/// Amounts of memory; `auto` is those of a curve.
pub(crate) fn sizes(memory: &[String]) -> PyResult<Vec<MemorySize>> {
    let mut sizes = Vec::new();
    for text in memory {
        match text.as_str() {
            "auto" => sizes.extend(MemorySize::CURVE),
            text => sizes.push(text.parse().map_err(bad_value)?),
        }
    }
    Ok(sizes)
}

/// Reads a list of texts.
pub(crate) fn parse_all<T: FromStr<Err: Display>>(texts: &[String]) -> PyResult<Vec<T>> {
    let parsed = texts.iter().map(|text| text.parse().map_err(bad_value));
    parsed.collect()
}
