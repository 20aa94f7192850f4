//! A thread that parks groups which did nothing for long, and reads back what is parked, by anybody, and works again.
//!
//! ```text
//!   did nothing for long, nobody at it    -> the thread parks it: it is looked at for a second, noted, and goes
//!   works again (page faults, 40 ms)      -> the thread reads back what it used last
//!   half in memory again without that     -> the thread forgets it
//! ```
//!
//! **Owns** that thread, and who is parked. **Does not own** what idle means (`strata_control::quiet`), nor how a group is
//! parked (`away`) and woken (`watch`).
//!
//! **Invariants**
//! - I1: the loop waits for none of it. The end waits for a parking under way no longer than [`END_WAIT_MAX`]; what is cut off
//!   is noted, and can be woken.
//! - I2: one group is parked at a time.

use super::away::{ParkConfig, Parked, park};
use super::candidate::Candidate;
use super::note::NoteError;
use super::wake::{WakeError, Woken, tidy};
use super::watch::ParkWatch;
use crate::news::News;
use crate::observe::Subject;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use strata_linux::access::AccessChoice;
use strata_linux::process::Attended;
use strata_linux::swap::SwapSpec;
use strata_linux::units::Bytes;

/// How often is looked for what others have parked or woken.
const LISTING: Duration = Duration::from_secs(2);
/// How long a group is looked at, so that what is in use is known from what was used before.
const LOOK: Duration = Duration::from_secs(1);
/// The end waits no longer for the thread.
const END_WAIT_MAX: Duration = Duration::from_secs(2);

#[derive(Debug)]
enum Done {
    /// A group, or why not; `None`: somebody is at each of those that were asked for.
    Parked(Option<(String, Result<Box<Parked>, String>)>),
    Told(News),
    /// All groups that are parked, and what each has in swap, bytes.
    All(BTreeMap<String, u64>),
}

/// See the module.
#[derive(Debug)]
pub struct Parker {
    jobs: SyncSender<Vec<Candidate>>,
    done: Receiver<Done>,
    thread: JoinHandle<()>,
    parked: BTreeMap<String, u64>,
    /// Groups that could not be parked.
    refused: BTreeSet<String>,
    is_busy: bool,
    news: Vec<News>,
}

impl Parker {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread can't be started.
    pub fn start(access: AccessChoice) -> io::Result<Parker> {
        let (jobs, received) = sync_channel(1);
        let (sender, done) = channel();
        let thread = thread::Builder::new().name("strata-park".to_owned());
        Ok(Parker {
            jobs,
            done,
            thread: thread.spawn(move || work(&received, &sender, access))?,
            parked: BTreeMap::new(),
            refused: BTreeSet::new(),
            is_busy: false,
            news: Vec::new(),
        })
    }

    /// What a group of this name that is parked has in swap; `None`: it is not parked.
    pub fn parked_bytes(&self, group: &str) -> Option<u64> {
        self.parked.get(group).copied()
    }

    /// Has the first of these groups parked that nobody is at and that could be parked before, if none is on its way.
    pub fn park(&mut self, mut groups: Vec<Candidate>) {
        // A group that works meanwhile may be parked again later, though it could not be before.
        self.refused
            .retain(|name| groups.iter().any(|group| group.name == *name));
        let is_new = |name: &str| !self.parked.contains_key(name) && !self.refused.contains(name);
        groups.retain(|group| is_new(&group.name));
        if !self.is_busy && !groups.is_empty() {
            self.is_busy = self.jobs.try_send(groups).is_ok();
        }
    }

    /// What the thread has done.
    pub fn take_in(&mut self) {
        while let Ok(done) = self.done.try_recv() {
            match done {
                Done::All(parked) => self.parked = parked,
                Done::Parked(done) => {
                    self.is_busy = false;
                    if let Some((group, outcome)) = done {
                        self.parked_one(group, outcome);
                    }
                }
                Done::Told(news) => self.news.push(news),
            }
        }
    }

    fn parked_one(&mut self, group: String, outcome: Result<Box<Parked>, String>) {
        match outcome {
            Ok(parked) => {
                self.news.push(News::Note(format!(
                    "{group} did nothing for long and is parked: was {}, is {}",
                    Bytes(parked.resident_before_bytes + parked.swapped_before_bytes),
                    Bytes(parked.resident_after_bytes)
                )));
                let swapped_bytes = parked.swapped_before_bytes + parked.swapped_bytes;
                self.parked.insert(group, swapped_bytes);
            }
            Err(why) => {
                self.news
                    .push(News::Warning(format!("{group} is not parked: {why}")));
                self.refused.insert(group);
            }
        }
    }

    /// What people are told since it was asked last.
    pub fn news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// Ends the thread. What is parked stays so.
    pub fn end(self) {
        drop(self.jobs);
        let until = Instant::now() + END_WAIT_MAX;
        while !self.thread.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(2));
        }
    }
}

fn work(jobs: &Receiver<Vec<Candidate>>, done: &Sender<Done>, access: AccessChoice) {
    let mut watch = ParkWatch::over(&[]);
    let mut listed: Option<Instant> = None;
    // Whoever has asked may have ended: then this ends at the next turn.
    let tell = |what| drop(done.send(what));
    loop {
        let wait = match (listed, watch.is_over()) {
            (None, _) => Duration::ZERO,
            (_, true) => LISTING,
            (_, false) => ParkWatch::INTERVAL,
        };
        match jobs.recv_timeout(wait) {
            Ok(groups) => {
                tell(Done::Parked(park_first(groups, access)));
                listed = None;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let mut is_any_over = false;
        for woken in watch.look() {
            tell(Done::Told(told(woken)));
            listed = None;
            is_any_over = true;
        }
        if listed.is_none_or(|at| at.elapsed() >= LISTING) {
            listed = Some(Instant::now());
            for gone in watch.forget_returned() {
                tell(Done::Told(told_returned(gone)));
                is_any_over = true;
            }
            is_any_over |= watch.refresh();
            tell(Done::All(watch.groups()));
        }
        if is_any_over {
            tidied().map(Done::Told).into_iter().for_each(tell);
        }
    }
}

fn told(woken: Result<Woken, WakeError>) -> News {
    match woken {
        Ok(woken) => News::Note(format!(
            "{} works again: {} read back",
            woken.name,
            Bytes(woken.read_back_bytes + woken.asked_bytes)
        )),
        Err(error) => News::Warning(error.to_string()),
    }
}

fn told_returned(name: Result<String, NoteError>) -> News {
    match name {
        Ok(name) => News::Note(format!(
            "{name} is parked no more: most of what it had in swap is in memory again"
        )),
        Err(error) => News::Warning(error.to_string()),
    }
}

/// Takes down the swap of `strata park` where that was the last one.
fn tidied() -> Option<News> {
    match tidy() {
        Ok(path) => path.map(|path| {
            let path = path.display();
            News::Note(format!("nothing is parked: the swap {path} is taken down"))
        }),
        Err(error) => Some(News::Warning(error.to_string())),
    }
}

fn park_first(
    groups: Vec<Candidate>,
    access: AccessChoice,
) -> Option<(String, Result<Box<Parked>, String>)> {
    let is_left_alone = |group: &Candidate| {
        let mut signs = group.pids.iter();
        let sign = signs.find_map(|pid| Attended::of(*pid, group.lately));
        if let Some(sign) = sign {
            tracing::debug!(group = group.name, ?sign, "not parked: somebody is at it");
        }
        sign.is_some()
    };
    let group = groups.into_iter().find(|group| !is_left_alone(group))?;
    let parked = park(&ParkConfig {
        subject: Subject::Cgroup(group.path),
        is_freezing: false,
        keep: group.keep,
        swap: SwapSpec::Existing,
        look: LOOK,
        access,
        is_dry_run: false,
    });
    Some((
        group.name,
        parked.map(Box::new).map_err(|why| why.to_string()),
    ))
}
