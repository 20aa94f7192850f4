//! A thread beside a test.
//!
//! **Owns** that it ends with the test, also with one that fails. **Does not own** what it does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};

/// A thread that is ended and waited for when this goes out of scope.
pub(crate) struct Helper<T> {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<T>>,
}

impl<T: Send + 'static> Helper<T> {
    /// Starts it. It has to end soon after what it is given has become true.
    pub(crate) fn start(work: impl FnOnce(&AtomicBool) -> T + Send + 'static) -> Helper<T> {
        let is_over = Arc::new(AtomicBool::new(false));
        let thread = spawn({
            let is_over = Arc::clone(&is_over);
            move || work(&is_over)
        });
        Helper {
            is_over,
            thread: Some(thread),
        }
    }

    /// Ends it, and says what it came to.
    pub(crate) fn end(mut self) -> T {
        self.is_over.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it runs");
        thread.join().expect("it does not fail")
    }
}

impl<T> Drop for Helper<T> {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
