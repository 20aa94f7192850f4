//! Strata's simulator, plans and recordings for Python: the part of the module `strata` that is Rust.
//!
//! What Python shows is `python/strata/__init__.py`, which takes arguments apart and makes tables of what comes back. Each
//! answer is that of a verb of the command line, made by the same crates.
//!
//! **Owns** the way from Python to these crates and back: arrays, file objects, signals, exceptions. **Does not own** anything that
//! is answered.
//!
//! **Invariants**
//! - I1: work that may take long holds no lock of the interpreter, and a signal that raises is answered within 200 ms.
//! - I2: nothing here needs root, BPF or a running process.
#![forbid(unsafe_code)]

mod apart;
mod arrays;
mod error;
mod load;
mod recording;
mod trace;

/// The part of `strata` that is Rust.
#[pyo3::pymodule]
mod _strata {
    use pyo3::prelude::*;
    use strata_sim::PolicySpec;

    #[pymodule_export]
    use crate::error::{StrataError, TraceError};
    #[pymodule_export]
    use crate::recording::Recording;
    #[pymodule_export]
    use crate::trace::Trace;

    use crate::apart::{Stop, apart};
    use crate::load::{How, Loaded, NumpyColumns, Reading, by_path, of_arrays, of_file};
    use crate::trace::{parse_all, sizes};

    /// The version of the wheel.
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "its name in Python")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// Each policy with each amount of memory, as they will be run; an error where one can't be.
    #[pyfunction]
    fn check(policies: Vec<String>, memory: Vec<String>) -> PyResult<Vec<(String, String)>> {
        parse_all::<PolicySpec>(&policies)?;
        let sizes = sizes(&memory)?;
        let cells = policies.iter().flat_map(|policy| {
            let sizes = sizes.iter().map(ToString::to_string);
            sizes.map(move |size| (policy.clone(), size))
        });
        Ok(cells.collect())
    }

    /// A trace from a file or a generator (`source` is its name), or from a file object.
    #[pyfunction]
    fn load(py: Python<'_>, source: Bound<'_, PyAny>, name: String, how: How) -> PyResult<Trace> {
        let (loaded, reading) = loaded(py, source, name, how)?;
        let workload = apart(py, move |_| loaded.ordered(&reading))?;
        Ok(Trace::of(workload))
    }

    /// A recording from a file (`source` is its name) or a file object.
    #[pyfunction]
    fn load_recording(
        py: Python<'_>,
        source: Bound<'_, PyAny>,
        name: String,
        how: How,
    ) -> PyResult<Recording> {
        Recording::of(loaded(py, source, name, how)?.0)
    }

    /// A trace from arrays.
    #[pyfunction]
    fn load_arrays(
        py: Python<'_>,
        columns: NumpyColumns<'_>,
        name: &str,
        how: How,
    ) -> PyResult<Trace> {
        let reading = Reading::try_from(how)?;
        let loaded = of_arrays(py, name, &columns, &reading)?;
        let workload = apart(py, move |_| loaded.ordered(&reading))?;
        Ok(Trace::of(workload))
    }

    fn loaded(
        py: Python<'_>,
        source: Bound<'_, PyAny>,
        name: String,
        how: How,
    ) -> PyResult<(Loaded, Reading)> {
        let reading = Reading::try_from(how)?;
        let path = source.extract::<String>().ok();
        let file = source.unbind();
        apart(py, move |stop: &Stop| {
            let loaded = match path {
                Some(path) => by_path(&path, &name, &reading, stop),
                None => of_file(file, &name, &reading, stop),
            }?;
            Ok((loaded, reading))
        })
    }
}
