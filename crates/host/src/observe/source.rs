//! What walks read with, and opening that anew.
//!
//! **Owns** how a source is opened and wrapped. **Does not own** the sources (`strata_linux::access`).

use std::fmt;
use std::sync::Arc;
use strata_linux::access::{self, AccessChoice, AccessError, AccessSource};

/// Opens what walks read with, also where the thread before stood still.
#[derive(Clone)]
pub(crate) struct OpenSource(Arc<dyn Fn() -> OpenedSource + Send + Sync>);

type OpenedSource = Result<Box<dyn AccessSource>, AccessError>;

impl OpenSource {
    /// Opens what was chosen, and `wraps` what was opened.
    pub(crate) fn new(
        access: AccessChoice,
        wrap: impl Fn(Box<dyn AccessSource>) -> Box<dyn AccessSource> + Send + Sync + 'static,
    ) -> OpenSource {
        OpenSource(Arc::new(move || Ok(wrap(access::open(access)?))))
    }

    /// A source.
    ///
    /// # Errors
    /// [`AccessError`]: none works.
    pub(crate) fn open(&self) -> OpenedSource {
        (self.0)()
    }
}

impl fmt::Debug for OpenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpenSource")
    }
}
