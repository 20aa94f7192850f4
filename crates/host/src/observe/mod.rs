//! Looking at live processes without managing them: walk after walk, what was accessed.
//!
//! ```text
//!   Observer::walk  ->  for each space that has run:  begin, piece.., end
//!                       for each that has not:        idle
//!                       who came and went:            appeared, ended
//! ```
//!
//! An [`Observer`] reads the page tables of a [`Subject`] through an access source, tells a
//! [`Visitor`] what each table holds, mapping by mapping, and clears the accessed bits so that the
//! next walk tells what was accessed in between. A thread of its own asks the processes (`walker`): a process that lets
//! it wait is left out, and tried more and more rarely.
//!
//! **Owns** the order of a walk, following the members of a subject, and who is left out. **Does not own** what is made
//! of it (the visitors), the walk of one space (`look`), nor when walks happen (the caller).
//!
//! **Invariants**
//! - I1: read-only but for accessed bits: nothing is evicted or limited. Where accessed bits can only be cleared by
//!   advice to the kernel (`access::Clearer`), its lists are put right afterwards.
//! - I2: one space's failure spoils only that space.
//! - I3: every space is told `appeared` once before anything else of it, and `ended` once, last.
//! - I4: whoever calls waits for no process.
//! - I5: no program is held up by clearing for more than 0.5 % of the time (`hold_up`): a walk that comes too soon after
//!   another ([`Observer::rest`]) clears nothing of that program.

mod attend;
pub mod cache;
pub mod files;
pub mod guest;
pub mod ledger;
mod left_out;
mod look;
pub mod overview;
mod pieces;
pub mod programs;
mod record;
mod source;
mod subject;
#[cfg(test)]
mod tests;
mod unclear;
mod walked;
mod walker;
pub(crate) mod watch;
mod watched;

pub use attend::{AttendError, Attended, Attention, Turn, Who, attend};
pub use record::{CacheGroup, NoCache, Recorder};
pub(crate) use source::OpenSource;
pub use subject::{Subject, SubjectError};

pub use left_out::LeftOut;
use left_out::LeftOuts;
use look::{Ask, Look, Looked, Looker};
pub(crate) use pieces::SpaceNumbers;
pub use pieces::{Piece, Visitor};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use strata_linux::access::{
    self, AccessChoice, AccessError, AccessSource, ClearIntent, SourceInfo,
};
use strata_linux::hold_up;
use strata_linux::process::{Mapping, MemoryDevices, Process, ProcessTree};
use strata_lru::{NodeId, SpaceNo};
use subject::Members;
pub(crate) use subject::own_pid;
pub use walked::Walked;
use walker::{Next, Told};
use watched::Watched;

type Walker = walker::Walker<Ask, Looked>;

/// How long a wait for the thread lasts at most before the time is looked at.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Threads that stand still at one time; with more of them nobody is walked.
const NR_LOST_MAX: usize = 16;

/// A walk that has begun.
#[derive(Debug)]
struct Walking {
    started: Instant,
    walked: Walked,
    /// Who is still to be walked.
    pids: VecDeque<i32>,
    looking: Option<Looking>,
}

/// The space that is being walked.
#[derive(Debug)]
struct Looking {
    id: SpaceNo,
    process: Arc<Process>,
    cpu_ns: Option<u64>,
    is_rested: bool,
    begun: Instant,
    mappings: Option<Arc<Vec<Mapping>>>,
}

/// Walks the spaces of a subject.
#[derive(Debug)]
pub struct Observer {
    members: Members,
    spaces: BTreeMap<i32, Watched>,
    numbers: SpaceNumbers,
    source: OpenSource,
    info: SourceInfo,
    tells_nodes: bool,
    node_ranges: Vec<(u64, u64, NodeId)>,
    /// `None`: the last one stood still.
    walker: Option<Walker>,
    /// Those that stood still, as long as they do.
    lost: Vec<walker::Lost>,
    walking: Option<Walking>,
    left_out: LeftOuts,
    devices: MemoryDevices,
    opened: Instant,
    /// No walk comes after the next one.
    is_last: bool,
    /// What follows for pages that are found accessed.
    intent: ClearIntent,
}

impl Observer {
    /// Finds the subject and opens a source. Nothing is walked yet.
    ///
    /// # Errors
    /// [`SubjectError`]: there is no such subject, it may not be read, or no source works.
    pub fn open(subject: &Subject, access: AccessChoice) -> Result<Observer, SubjectError> {
        // The subject first: a pid that is none is told before what this machine lacks.
        let members = Members::open(subject)?;
        let source = access::open(access)?;
        Observer::of_members(members, OpenSource::new(access, |source| source), source)
    }

    /// As [`Observer::open`], with a source that was opened before: to begin at once.
    ///
    /// # Errors
    /// As [`Observer::open`].
    pub fn with_source(
        subject: &Subject,
        access: AccessChoice,
        source: Box<dyn AccessSource>,
    ) -> Result<Observer, SubjectError> {
        let open = OpenSource::new(access, |source| source);
        Observer::of_members(Members::open(subject)?, open, source)
    }

    /// Follows `root` and its descendants; or, `is_listed`, those that are told before a walk ([`Observer::set_processes`]). Their
    /// mounts are those of `example_pid`. `opened` is what `source` opens.
    ///
    /// # Errors
    /// No thread, or no mounts.
    pub(crate) fn follow(
        root: Option<Arc<Process>>,
        is_listed: bool,
        example_pid: i32,
        source: OpenSource,
        opened: Box<dyn AccessSource>,
    ) -> Result<Observer, SubjectError> {
        let members = Members::of(root, is_listed, example_pid);
        Observer::of_members(members, source, opened)
    }

    fn of_members(
        members: Members,
        open: OpenSource,
        source: Box<dyn AccessSource>,
    ) -> Result<Observer, SubjectError> {
        let devices = MemoryDevices::of_process(members.example_pid())
            .or_else(|_| MemoryDevices::of_process(own_pid()))
            .map_err(SubjectError::Mounts)?;
        let (info, tells_nodes) = (source.info(), source.tells_nodes());
        let walker = start_walker(devices.clone(), || Ok(source));
        Ok(Observer {
            members,
            spaces: BTreeMap::new(),
            numbers: SpaceNumbers::default(),
            source: open,
            info,
            tells_nodes,
            node_ranges: Vec::new(),
            walker: Some(walker.map_err(SubjectError::Thread)?),
            lost: Vec::new(),
            walking: None,
            left_out: LeftOuts::default(),
            devices,
            opened: Instant::now(),
            is_last: false,
            intent: ClearIntent::Watch,
        })
    }

    /// Who sees the accesses, and what it can't see.
    pub fn info(&self) -> SourceInfo {
        self.info.clone()
    }

    /// The processes watched now.
    pub fn processes(&self) -> impl Iterator<Item = (SpaceNo, &Arc<Process>)> {
        self.spaces
            .values()
            .map(|watched| (watched.id, &watched.process))
    }

    /// The processes watched now, and for how long each has not run, as of the last walk.
    pub(crate) fn rests(&self) -> impl Iterator<Item = (SpaceNo, i32, Duration)> {
        let spaces = self.spaces.iter();
        spaces.map(|(pid, watched)| (watched.id, *pid, watched.rests_for()))
    }

    /// The processes, those in another's space and those that can't be watched included, as last looked for.
    pub(crate) fn tree(&self) -> &ProcessTree {
        self.members.tree()
    }

    /// What follows, from the next walk on, for pages that are found accessed.
    pub(crate) fn set_intent(&mut self, intent: ClearIntent) {
        self.intent = intent;
    }

    /// The processes that the last walk did not leave out: others are asked for nothing.
    pub(crate) fn reachable(&self) -> BTreeMap<SpaceNo, Arc<Process>> {
        let reachable = self.spaces.values().filter(|watched| !watched.is_left_out);
        reachable
            .map(|watched| (watched.id, Arc::clone(&watched.process)))
            .collect()
    }

    /// The numbers of its spaces, for whoever tells of files beside them.
    pub(crate) fn numbers(&self) -> &SpaceNumbers {
        &self.numbers
    }

    /// From the next walk on these are looked at, if the subject is [`Subject::Processes`].
    pub fn set_processes(&mut self, pids: &[i32]) {
        self.members.give(pids);
    }

    /// From the next walk on it is told on which of these nodes pages are; none: it is not told.
    /// Returns whether it will be: not every source can.
    pub(crate) fn see_nodes(&mut self, ranges: Vec<(u64, u64, NodeId)>) -> bool {
        self.node_ranges = ranges;
        if let Some(walker) = &mut self.walker {
            walker.ask(Ask::SeeNodes(self.node_ranges.clone()));
        }
        self.tells_nodes && !self.node_ranges.is_empty()
    }

    /// The next walk reads these again even if they have not run: their pages may have gone.
    pub(crate) fn read_again(&mut self, is_meant: impl Fn(SpaceNo) -> bool) {
        let spaces = self.spaces.values_mut();
        for watched in spaces.filter(|watched| is_meant(watched.id)) {
            watched.cpu_ns_at_walk = None;
        }
    }

    /// Walks clear no accessed bits of these spaces until others are named: pages accessed since the last clearing are found accessed
    /// by each walk.
    pub(crate) fn keep_bits(&mut self, is_meant: impl Fn(SpaceNo) -> bool) {
        for watched in self.spaces.values_mut() {
            watched.keeps_bits = is_meant(watched.id);
        }
    }

    /// Whoever asked this space for its memory waits for long: it is left out for a while.
    pub(crate) fn leave_out(&mut self, space: SpaceNo) {
        let mut spaces = self.spaces.values_mut();
        if let Some(watched) = spaces.find(|watched| watched.id == space) {
            watched.postpone();
        }
    }

    /// The next walk is the last: it clears nothing, as nobody would look at what is cleared.
    pub fn set_last(&mut self) {
        self.is_last = true;
    }

    /// Whether the subject has ended: the process, or everybody of the tree or group.
    pub fn is_over(&self) -> bool {
        self.members.is_over()
    }

    /// Time since the observer was opened; the clock of [`Walked::at`].
    pub fn elapsed(&self) -> Duration {
        self.opened.elapsed()
    }

    /// How long the next walk has to be put off, so that clearing accessed bits holds nobody up for too much of the
    /// time. A walk that comes sooner clears nothing of who has to rest: its pages are found accessed by the next one
    /// again.
    pub fn rest(&self) -> Duration {
        let rests = self.spaces.values().map(|watched| watched.rest_until);
        let longest = rests.max().unwrap_or(self.opened);
        longest.saturating_duration_since(Instant::now())
    }

    /// Looks who is there, walks every space that has run, tells the visitor, and clears accessed
    /// bits of those of whom it is not too soon for that ([`Observer::rest`]).
    pub fn walk(&mut self, visitor: &mut dyn Visitor) -> Walked {
        self.begin_walk(visitor);
        loop {
            if let Some(walked) = self.go_on(visitor, Duration::MAX) {
                return walked;
            }
        }
    }

    /// Begins a walk: tells who came and went. One that was under way is broken off.
    pub(crate) fn begin_walk(&mut self, visitor: &mut dyn Visitor) {
        self.break_off(visitor);
        let mut walked = Walked {
            at: self.opened.elapsed(),
            ..Walked::default()
        };
        let started = Instant::now();
        self.refresh(visitor, &mut walked);
        self.walking = Some(Walking {
            started,
            walked,
            pids: self.spaces.keys().copied().collect(),
            looking: None,
        });
    }

    /// Goes on with the walk that has begun, for about so long; what it did, once it is over.
    pub(crate) fn go_on(&mut self, visitor: &mut dyn Visitor, wait: Duration) -> Option<Walked> {
        let mut walking = self.walking.take()?;
        let started = Instant::now();
        loop {
            if walking.looking.is_none() && !self.ask_next(&mut walking, visitor) {
                let took = walking.started.elapsed();
                return Some(walking.walked.end(took, &mut self.left_out));
            }
            let left = wait.saturating_sub(started.elapsed());
            let next = self
                .walker
                .as_mut()
                .map_or(Next::Lost, |walker| walker.next(left.min(WAIT_MAX)));
            match next {
                Next::Told(told) => self.hear(told, &mut walking, visitor),
                Next::Nothing if left.is_zero() => {
                    self.walking = Some(walking);
                    return None;
                }
                Next::Nothing => {}
                Next::Lost => self.lose(&mut walking, visitor),
            }
        }
    }

    /// Looks who is there without a walk: tells who came and went. Returns what could not be watched, and why.
    pub(crate) fn look_for_members(&mut self, visitor: &mut dyn Visitor) -> Vec<String> {
        let mut walked = Walked::default();
        self.refresh(visitor, &mut walked);
        walked.troubles
    }

    fn break_off(&mut self, visitor: &mut dyn Visitor) {
        if let Some(mut walking) = self.walking.take()
            && walking.looking.is_some()
        {
            self.lose(&mut walking, visitor);
        }
    }

    /// Has the next space walked; `false`: there is none.
    fn ask_next(&mut self, walking: &mut Walking, visitor: &mut dyn Visitor) -> bool {
        while let Some(pid) = walking.pids.pop_front() {
            let Some(watched) = self.spaces.get_mut(&pid) else {
                continue;
            };
            let now = Instant::now();
            let cpu_ns = watched.read_cpu(now);
            if let Some((until, _)) = watched.tried_again
                && now < until
            {
                watched.is_left_out = true;
                let why = format!(
                    "its memory could not be read within {} s; it is tried again in {} s",
                    walker::DEADLINE.as_secs(),
                    (until - now).as_secs()
                );
                walking.walked.left_out.push(watched.left_out(why));
                continue;
            }
            let wants_mappers = visitor.wants_mappers(watched.id);
            if cpu_ns.is_some() && cpu_ns == watched.cpu_ns_at_walk && !wants_mappers {
                visitor.idle(watched.id);
                walking.walked.nr_idle_spaces += 1;
                continue;
            }
            let is_rested = watched.rest_until <= now && !watched.keeps_bits && !self.is_last;
            let look = Look {
                id: watched.id,
                process: Arc::clone(&watched.process),
                known: watched.nr_entries,
                is_rested,
                wants_mappers,
                intent: self.intent,
                unclear: std::mem::take(&mut watched.unclear),
            };
            walking.looking = Some(Looking {
                id: watched.id,
                process: Arc::clone(&watched.process),
                cpu_ns,
                is_rested,
                begun: now,
                mappings: None,
            });
            return match self.ensure_walker() {
                Ok(walker) => {
                    walker.ask(Ask::Look(look));
                    true
                }
                Err(trouble) => {
                    walking.walked.troubles.push(trouble);
                    walking.looking = None;
                    false
                }
            };
        }
        false
    }

    /// The thread, or another one where it stood still.
    fn ensure_walker(&mut self) -> Result<&mut Walker, String> {
        self.lost.retain(walker::Lost::stands_still);
        if self.walker.is_none() && self.lost.len() >= NR_LOST_MAX {
            return Err(format!(
                "{NR_LOST_MAX} processes hold up whoever reads their memory: no more are read until one lets go"
            ));
        }
        let walker = match self.walker.take() {
            Some(walker) => walker,
            None => {
                let source = self.source.clone();
                let mut walker = start_walker(self.devices.clone(), move || source.open())
                    .map_err(|error| format!("starting the thread that walks failed: {error}"))?;
                walker.ask(Ask::SeeNodes(self.node_ranges.clone()));
                walker
            }
        };
        Ok(self.walker.insert(walker))
    }

    fn hear(&mut self, told: Told<Looked>, walking: &mut Walking, visitor: &mut dyn Visitor) {
        let Some(looking) = &mut walking.looking else {
            return;
        };
        let id = looking.id;
        match told {
            Told::Mappings(mappings) => {
                let known = self.spaces.get(&looking.process.pid());
                if known.is_some_and(|watched| watched.nr_entries.is_none()) {
                    let note = guest::note(&looking.process, &mappings);
                    walking.walked.troubles.extend(note);
                }
                visitor.begin(id, &looking.process, &mappings);
                looking.mappings = Some(mappings);
            }
            Told::Pieces(batch) => {
                if let Some(mappings) = &looking.mappings {
                    batch.tell(id, mappings, visitor);
                }
            }
            Told::Mappers {
                table,
                known,
                several,
            } => visitor.mappers(id, table, known, several),
            Told::Looked(looked) => {
                if let Some(looking) = walking.looking.take() {
                    self.end_look(looking, *looked, &mut walking.walked, visitor);
                }
            }
            Told::NoSource(error) => {
                walking.walked.troubles.push(error.to_string());
                walking.looking = None;
                walking.pids.clear();
                self.walker = None;
            }
        }
    }

    fn end_look(
        &mut self,
        looking: Looking,
        looked: Looked,
        walked: &mut Walked,
        visitor: &mut dyn Visitor,
    ) {
        if looking.mappings.is_some() {
            visitor.end(looking.id, looked.is_whole);
        }
        walked.cost += looked.cost;
        walked.clear_ns += looked.cleared.wall_ns;
        walked.nr_left_pieces += looked.nr_left_pieces;
        walked.nr_resting_pages += looked.nr_resting_pages;
        walked.cpu_ns += looked.cpu_ns;
        walked.mappers += looked.mappers;
        let held_ns = looked.cleared.all_held_ns();
        walked.held_ns = walked.held_ns.max(held_ns);
        let process = looking.process;
        let Some(watched) = self.spaces.get_mut(&process.pid()) else {
            return;
        };
        watched.unclear = looked.unclear;
        watched.is_left_out = false;
        watched.tried_again = None;
        if looking.is_rested {
            watched.rest_until = looking.begun + hold_up::rest_after(Duration::from_nanos(held_ns));
        }
        match looked.outcome {
            Ok(nr_entries) => {
                walked.nr_spaces += 1;
                watched.nr_entries = Some(nr_entries);
                // What was not cleared will be found accessed once more.
                watched.cpu_ns_at_walk = looking.cpu_ns.filter(|_| looking.is_rested);
            }
            Err(AccessError::Stalled(stalled)) => {
                watched.is_left_out = true;
                watched.cpu_ns_at_walk = None;
                walked.left_out.push(watched.left_out(stalled.to_string()));
            }
            // Ending and exec in the middle of a walk are normal; the next refresh tells of them.
            Err(_) if !process.is_space_current() => {}
            Err(error) => walked.troubles.push(error.to_string()),
        }
    }

    /// The thread stands still in the walk of a space: both are given up.
    fn lose(&mut self, walking: &mut Walking, visitor: &mut dyn Visitor) {
        self.lost.extend(self.walker.take().map(Walker::give_up));
        let Some(looking) = walking.looking.take() else {
            return;
        };
        if looking.mappings.is_some() {
            visitor.end(looking.id, false);
        }
        let Some(watched) = self.spaces.get_mut(&looking.process.pid()) else {
            return;
        };
        let wait = watched.postpone();
        let why = format!(
            "whoever reads its memory waits for more than {} s; it is tried again in {} s",
            walker::DEADLINE.as_secs(),
            wait.as_secs()
        );
        walking.walked.left_out.push(watched.left_out(why));
    }

    fn refresh(&mut self, visitor: &mut dyn Visitor, walked: &mut Walked) {
        let change = match self.members.refresh() {
            Ok(change) => change,
            Err(error) => {
                walked.troubles.push(error.to_string());
                return;
            }
        };
        for ended in &change.ended {
            if let Some(watched) = self.spaces.remove(&ended.pid()) {
                visitor.ended(watched.id);
            }
        }
        walked.refuse(&change.refused);
        for process in change.appeared {
            let id = self.numbers.next();
            visitor.appeared(id, &process);
            self.spaces
                .insert(process.pid(), Watched::new(id, process, self.opened));
        }
    }
}

/// Starts the thread that walks with a source, which it opens.
fn start_walker(
    devices: MemoryDevices,
    open: impl FnOnce() -> Result<Box<dyn AccessSource>, AccessError> + Send + 'static,
) -> std::io::Result<Walker> {
    Walker::start(move || {
        let mut looker = Looker::new(open()?, devices);
        Ok(move |ask, listener: &mut dyn pieces::Listener| looker.carry_out(ask, listener))
    })
}
