//! Strata's errors as Python exceptions.
//!
//! **Owns** the exception classes, and options' names in texts as Python has them. **Does not own** the texts.

use std::fmt::Display;

use pyo3::exceptions::{PyException, PyValueError};
use pyo3::{PyErr, create_exception};

create_exception!(
    strata,
    StrataError,
    PyException,
    "Something that Strata can't do; the text says what, on what, why, and what to do."
);
create_exception!(
    strata,
    TraceError,
    StrataError,
    "A trace that can't be read; the text names the file, the place in it, and the reason."
);

/// Options of the command line that stand in texts, and what they are called here.
const NAMES: [(&str, &str); 4] = [
    ("--max-memory", "max_memory"),
    ("--trace-format", "format"),
    ("--trace-columns", "columns"),
    ("--via mmap", "via=\"mmap\""),
];

/// What can't be done.
pub(crate) fn failed(error: impl Display) -> PyErr {
    StrataError::new_err(text(error))
}

/// A trace that can't be read.
pub(crate) fn unreadable(error: impl Display) -> PyErr {
    TraceError::new_err(text(error))
}

/// An argument that can't be.
pub(crate) fn bad_value(error: impl Display) -> PyErr {
    PyValueError::new_err(text(error))
}

fn text(error: impl Display) -> String {
    let text = error.to_string();
    NAMES
        .iter()
        .fold(text, |text, (option, name)| text.replace(option, name))
}
