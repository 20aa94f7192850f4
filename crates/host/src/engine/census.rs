//! Censuses of physical memory: who takes them, in which thread, and at which pace.
//!
//! ```text
//!   who acts (run, guard)             asks for each census, and for drops    cache::start -> CacheThread
//!   who looks (wss, top, record)      one census after the other, at a pace  Censuses::start
//! ```
//!
//! **Owns** the threads, and the pace for those who only look. **Does not own** what a census finds (`strata_linux::access::census`),
//! nor what follows from it.
//!
//! **Invariants**
//! - I1: censuses for who looks take 1 % of a processor, but for the first and the last.
//! - I2: such a census begins only when what the one before found was taken: none while nobody looks.

pub(crate) mod cache;
pub(crate) mod promote;

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// So many times the CPU time of a census passes before the next one: 1 % of a processor.
const REST: u32 = 100;

/// What one census came to.
pub(crate) struct Told<Found> {
    /// What is told of it; `None`: nothing.
    pub(crate) found: Option<Found>,
    /// What it took of a processor, nanoseconds.
    pub(crate) cpu_ns: u64,
}

/// Takes one census after the other in a thread of its own.
#[derive(Debug)]
pub(crate) struct Censuses<Asked, Found, Error> {
    asked: Sender<Asked>,
    found: Receiver<Result<Found, Error>>,
}

impl<Asked, Found, Error> Censuses<Asked, Found, Error>
where
    Asked: Default + Send + 'static,
    Found: Send + 'static,
    Error: Send + 'static,
{
    /// Starts the thread. Two censuses begin `least` apart at least. `open` sets up how one is taken, of what was asked for last; it
    /// is told which census is the last. An error ends the thread.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub(crate) fn start<Take>(
        least: Duration,
        open: impl FnOnce() -> Result<Take, Error> + Send + 'static,
    ) -> io::Result<Self>
    where
        Take: FnMut(&Asked, bool) -> Result<Told<Found>, Error>,
    {
        let (asked, asks) = channel();
        // Without room, so that nobody begins a census before the last one was taken.
        let (send, found) = sync_channel(0);
        thread::Builder::new()
            .name("strata-census".to_owned())
            .spawn(move || {
                if let Err(error) = open().and_then(|take| run(take, least, &asks, &send)) {
                    // Whoever does not wait for it any more does not need it.
                    let _ = send.send(Err(error));
                }
            })?;
        Ok(Censuses { asked, found })
    }

    /// What is asked for from the next census on.
    pub(crate) fn ask(&self, asked: Asked) {
        // A thread that has ended has told why.
        let _ended = self.asked.send(asked);
    }

    /// What a census has found since the last time, if one has ended.
    pub(crate) fn take(&self) -> Option<Result<Found, Error>> {
        self.found.try_recv().ok()
    }

    /// Waits for what a census finds; `None`: the thread has ended.
    pub(crate) fn wait(&self) -> Option<Result<Found, Error>> {
        self.found.recv().ok()
    }

    /// Has the last census taken, and gives what has not been taken yet. One that lasts longer is not waited for.
    pub(crate) fn finish(self, within: Duration) -> Vec<Result<Found, Error>> {
        let Censuses { asked, found } = self;
        drop(asked);
        let until = Instant::now() + within;
        let left = || until.saturating_duration_since(Instant::now());
        std::iter::from_fn(|| found.recv_timeout(left()).ok()).collect()
    }
}

fn run<Asked: Default, Found, Error>(
    mut take: impl FnMut(&Asked, bool) -> Result<Told<Found>, Error>,
    least: Duration,
    asks: &Receiver<Asked>,
    send: &SyncSender<Result<Found, Error>>,
) -> Result<(), Error> {
    let mut asked = Asked::default();
    let mut is_last = false;
    loop {
        let begun = Instant::now();
        asked = asks.try_iter().last().unwrap_or(asked);
        let told = take(&asked, is_last)?;
        let is_wanted = told.found.is_none_or(|found| send.send(Ok(found)).is_ok());
        if is_last || !is_wanted {
            return Ok(());
        }
        let due = begun + (Duration::from_nanos(told.cpu_ns) * REST).max(least);
        is_last = loop {
            match asks.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(newer) => asked = newer,
                Err(error) => break error == RecvTimeoutError::Disconnected,
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl<Asked, Found, Error> Censuses<Asked, Found, Error> {
        /// One whose censuses somebody else sends.
        pub(crate) fn sent(found: Receiver<Result<Found, Error>>) -> Self {
            let asked = channel().0;
            Censuses { asked, found }
        }
    }

    /// Counts censuses, of which each takes so long of a processor, and fails at one.
    fn counted(
        least: Duration,
        cpu_ns: u64,
        fails_at: u32,
    ) -> Censuses<u32, (u32, u32, bool), u32> {
        let open = move || {
            let mut number = 0;
            Ok(move |asked: &u32, is_last: bool| {
                number += 1;
                let found = Some((number, *asked, is_last));
                match number == fails_at {
                    true => Err(number),
                    false => Ok(Told { found, cpu_ns }),
                }
            })
        };
        Censuses::start(least, open).unwrap()
    }

    #[test]
    fn the_last_census_comes_at_once_whatever_the_pace_and_is_of_what_was_asked_for_last() {
        let hour_at_its_pace_ns = 36_000_000_000;
        let censuses = counted(Duration::ZERO, hour_at_its_pace_ns, u32::MAX);
        assert_eq!(censuses.wait(), Some(Ok((1, 0, false))));
        censuses.ask(6);
        censuses.ask(7);
        assert_eq!(censuses.take(), None);
        let last = censuses.finish(Duration::from_secs(60));
        assert_eq!(last, [Ok((2, 7, true))]);
    }

    #[test]
    fn an_error_is_told_once_and_ends_the_thread() {
        let censuses = counted(Duration::ZERO, 0, 2);
        assert_eq!(censuses.wait(), Some(Ok((1, 0, false))));
        assert_eq!(censuses.wait(), Some(Err(2)));
        assert_eq!(censuses.wait(), None);
        assert!(censuses.finish(Duration::from_secs(60)).is_empty());
    }
}
