//! A thread that parks groups which did nothing for long, and reads back what is parked, by anybody, and works again.
//!
//! ```text
//!   did nothing for long, nobody at it    -> the thread parks it: it is looked at for a second, noted, and goes
//!   works again (page faults, 40 ms)      -> the thread reads back what it used last
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
use super::wake::Woken;
use super::watch::Watch;
use crate::observe::Subject;
use std::collections::BTreeMap;
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
    /// The group of this name, or why not.
    Parked(String, Result<Box<Parked>, String>),
    Woken(Result<Woken, String>),
    /// All that is parked, with what of it is in memory, bytes.
    All(BTreeMap<String, u64>),
}

/// What people are told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// A group is parked, or works again.
    Note(String),
    /// A group can't be parked, or not be woken.
    Warning(String),
}

/// See the module.
#[derive(Debug)]
pub struct Parker {
    jobs: SyncSender<(String, ParkConfig)>,
    done: Receiver<Done>,
    thread: JoinHandle<()>,
    access: AccessChoice,
    parked: BTreeMap<String, u64>,
    /// Groups that the thread has, or that can't be parked.
    asked: BTreeMap<String, Asked>,
    told: Vec<Told>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    UnderWay,
    Refused,
}

impl Parker {
    /// Starts the thread.
    ///
    /// # Errors
    /// There can be none.
    pub fn start(access: AccessChoice) -> io::Result<Parker> {
        let (jobs, received) = sync_channel(1);
        let (sender, done) = channel();
        let thread = thread::Builder::new().name("strata-park".to_owned());
        Ok(Parker {
            jobs,
            done,
            thread: thread.spawn(move || work(&received, &sender))?,
            access,
            parked: BTreeMap::new(),
            asked: BTreeMap::new(),
            told: Vec::new(),
        })
    }

    /// Whether a group of this name is parked.
    pub fn is_parked(&self, name: &str) -> bool {
        self.parked.contains_key(name)
    }

    /// Has one of these groups parked, unless another one is on its way, somebody is at it, or it could not be before.
    pub fn park(&mut self, groups: Vec<Candidate>) {
        // A group that works meanwhile may be parked again later, though it could not be before.
        self.asked.retain(|name, asked| {
            *asked == Asked::UnderWay || groups.iter().any(|group| group.name == *name)
        });
        for group in groups {
            let is_busy = self.asked.values().any(|asked| *asked == Asked::UnderWay);
            if is_busy {
                return;
            }
            if !self.is_parked(&group.name) && !self.asked.contains_key(&group.name) {
                self.park_one(group);
            }
        }
    }

    fn park_one(&mut self, group: Candidate) {
        let mut signs = group.pids.iter();
        if let Some(sign) = signs.find_map(|pid| Attended::of(*pid, group.lately)) {
            tracing::debug!(group = group.name, ?sign, "not parked: somebody is at it");
            return;
        }
        let config = ParkConfig {
            subject: Subject::Cgroup(group.path),
            is_freezing: false,
            keep: group.keep,
            swap: SwapSpec::Existing,
            look: LOOK,
            access: self.access,
            is_dry_run: false,
        };
        if self.jobs.try_send((group.name.clone(), config)).is_ok() {
            self.asked.insert(group.name, Asked::UnderWay);
        }
    }

    /// What the thread has done.
    pub fn take_in(&mut self) {
        while let Ok(done) = self.done.try_recv() {
            match done {
                Done::All(parked) => self.parked = parked,
                Done::Parked(group, Ok(parked)) => {
                    self.asked.remove(&group);
                    self.parked
                        .insert(group.clone(), parked.resident_after_bytes);
                    self.told.push(Told::Note(format!(
                        "{group} did nothing for long and is parked: was {}, is {}",
                        Bytes(parked.resident_before_bytes),
                        Bytes(parked.resident_after_bytes)
                    )));
                }
                Done::Parked(group, Err(why)) => {
                    self.told
                        .push(Told::Warning(format!("{group} is not parked: {why}")));
                    self.asked.insert(group, Asked::Refused);
                }
                Done::Woken(Ok(woken)) => {
                    self.parked.remove(&woken.name);
                    self.told.push(Told::Note(format!(
                        "{} works again: {} read back",
                        woken.name,
                        Bytes(woken.read_back_bytes + woken.asked_bytes)
                    )));
                }
                Done::Woken(Err(why)) => self.told.push(Told::Warning(why)),
            }
        }
    }

    /// What people are told since it was asked last.
    pub fn told(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.told)
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

fn work(jobs: &Receiver<(String, ParkConfig)>, done: &Sender<Done>) {
    let mut watch = Watch::over(&[]);
    let mut listed: Option<Instant> = None;
    loop {
        let wait = match watch.is_over() {
            true => LISTING,
            false => Watch::INTERVAL,
        };
        // Whoever has asked may have ended: then this ends at the next turn.
        let tell = |what| drop(done.send(what));
        match jobs.recv_timeout(if listed.is_none() {
            Duration::ZERO
        } else {
            wait
        }) {
            Ok((group, config)) => {
                let parked = park(&config).map(Box::new);
                tell(Done::Parked(group, parked.map_err(|why| why.to_string())));
                listed = None;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        for woken in watch.look() {
            tell(Done::Woken(woken.map_err(|why| why.to_string())));
            listed = None;
        }
        if listed.is_none_or(|at| at.elapsed() >= LISTING) {
            let is_first = listed.is_none();
            listed = Some(Instant::now());
            if watch.refresh() || is_first {
                let parked = watch.parked();
                let parked = parked.map(|(name, bytes)| (name.to_owned(), bytes));
                tell(Done::All(parked.collect()));
            }
        }
    }
}
