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
//! next walk tells what was accessed in between.
//!
//! **Owns** the order of a walk and following the members of a subject. **Does not own** what is made
//! of it (the visitors), nor when walks happen (the caller).
//!
//! **Invariants**
//! - I1: read-only but for accessed bits: nothing is evicted or limited. Where accessed bits can only be cleared by
//!   advice to the kernel (`access::Clearer`), its lists are put right afterwards.
//! - I2: one space's failure spoils only that space.
//! - I3: every space is told `appeared` once before anything else of it, and `ended` once, last.
//! - I4: a table is read once a walk, however many mappings share it.
//! - I5: no program is held up by clearing for more than 0.5 % of the time (`hold_up`): a walk that comes too soon after
//!   another ([`Observer::rest`]) clears nothing of that program.

mod attend;
pub mod cache;
pub mod files;
pub mod guest;
pub mod ledger;
pub mod overview;
mod pieces;
pub mod programs;
mod record;
mod subject;
mod unclear;
pub(crate) mod watch;

pub use attend::{AttendError, Attended, Attention, Turn, Who, attend};
pub use record::{CacheGroup, NoCache, Recorder};
pub use subject::{Subject, SubjectError};

use pieces::{Found, Pieces, chunks};
pub use pieces::{Piece, SpaceId, Visitor};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use strata_linux::access::{
    self, AccessChoice, AccessError, AccessSource, Bits512, ClearIntent, Cleared, Clearer,
    NrEntries, SourceInfo, WalkCost, YoungPiece, clear_pieces,
};
use strata_linux::addr::{PAGE_BYTES, TableNo, TableSpan, covering_spans};
use strata_linux::bits;
use strata_linux::hold_up;
use strata_linux::process::{Mapping, MemoryDevices, Process, ProcessError, classify};
use strata_lru::NodeId;
use subject::Members;
pub(crate) use subject::own_pid;
use unclear::Unclear;

/// Hands out the numbers of spaces of one observer, each once. Clones share the numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpaceNumbers(Arc<AtomicU32>);

impl SpaceNumbers {
    /// A number that was not given to anybody.
    pub(crate) fn next(&self) -> SpaceId {
        SpaceId(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// Nobody is told.
struct Nobody;

impl Visitor for Nobody {}

/// What one walk cost and could not do.
#[derive(Debug, Default)]
pub struct Walked {
    /// When the walk began, since the observer was opened.
    pub at: Duration,
    /// Wall time of the whole walk, nanoseconds.
    pub wall_ns: u64,
    /// Cost of reading tables.
    pub cost: WalkCost,
    /// Time of the walk that clearing accessed bits took; nanoseconds.
    pub clear_ns: u64,
    /// How long clearing held the lock of the address space, of the space where that was longest; nanoseconds.
    pub held_ns: u64,
    /// Pieces of tables that keep their accessed bits, because they can't be cleared, or not without holding a program
    /// up.
    pub nr_left_pieces: u64,
    /// Pages that were left out of clearing, because their bits stayed set the last time: several processes map them.
    pub nr_resting_pages: u64,
    /// Spaces walked.
    pub nr_spaces: u64,
    /// Spaces left out, because they have not run.
    pub nr_idle_spaces: u64,
    /// What could not be watched, and why; members each told once.
    pub troubles: Vec<String>,
}

#[derive(Debug)]
struct Watched {
    id: SpaceId,
    process: Arc<Process>,
    /// CPU time at the last walk; a space that has not run since can't have accessed anything.
    cpu_ns_at_walk: Option<u64>,
    /// What the last walk found in memory.
    nr_entries: Option<NrEntries>,
    /// Before this, clearing would hold it up for too much of the time.
    rest_until: Instant,
    unclear: Unclear,
}

/// Walks the spaces of a subject.
#[derive(Debug)]
pub struct Observer {
    members: Members,
    spaces: BTreeMap<i32, Watched>,
    numbers: SpaceNumbers,
    source: Box<dyn AccessSource>,
    clearer: Clearer,
    devices: MemoryDevices,
    opened: Instant,
}

impl Observer {
    /// Finds the subject and opens a source. Nothing is walked yet.
    ///
    /// # Errors
    /// [`SubjectError`]: there is no such subject, it may not be read, or no source works.
    pub fn open(subject: &Subject, access: AccessChoice) -> Result<Observer, SubjectError> {
        // The subject first: a pid that is none is told before what this machine lacks.
        let members = Members::open(subject)?;
        Observer::of_members(members, access::open(access)?)
    }

    /// As [`Observer::open`], with a source that was opened before: to begin at once.
    ///
    /// # Errors
    /// As [`Observer::open`].
    pub fn with_source(
        subject: &Subject,
        source: Box<dyn AccessSource>,
    ) -> Result<Observer, SubjectError> {
        Observer::of_members(Members::open(subject)?, source)
    }

    fn of_members(
        members: Members,
        source: Box<dyn AccessSource>,
    ) -> Result<Observer, SubjectError> {
        let devices = MemoryDevices::of_process(members.example_pid())
            .or_else(|_| MemoryDevices::of_process(own_pid()))
            .map_err(SubjectError::Mounts)?;
        Ok(Observer {
            members,
            spaces: BTreeMap::new(),
            numbers: SpaceNumbers::default(),
            clearer: Clearer::new(source.info().grain),
            source,
            devices,
            opened: Instant::now(),
        })
    }

    /// Who sees the accesses, and what it can't see.
    pub fn info(&self) -> SourceInfo {
        self.source.info()
    }

    /// The processes watched now.
    pub fn processes(&self) -> impl Iterator<Item = (SpaceId, &Arc<Process>)> {
        self.spaces
            .values()
            .map(|watched| (watched.id, &watched.process))
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
    pub(crate) fn see_nodes(&mut self, ranges: &[(u64, u64, NodeId)]) -> bool {
        self.source.see_nodes(ranges)
    }

    /// The next walk reads these again even if they have not run: their pages may have gone.
    pub(crate) fn read_again(&mut self, is_meant: impl Fn(SpaceId) -> bool) {
        let spaces = self.spaces.values_mut();
        for watched in spaces.filter(|watched| is_meant(watched.id)) {
            watched.cpu_ns_at_walk = None;
        }
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
        let started = Instant::now();
        let mut walked = Walked {
            at: self.opened.elapsed(),
            ..Walked::default()
        };
        self.refresh(visitor, &mut walked);
        let pids: Vec<i32> = self.spaces.keys().copied().collect();
        for pid in pids {
            let Some(watched) = self.spaces.get_mut(&pid) else {
                continue;
            };
            let cpu_ns = watched.process.cpu_ns().ok();
            if cpu_ns.is_some() && cpu_ns == watched.cpu_ns_at_walk {
                visitor.idle(watched.id);
                walked.nr_idle_spaces += 1;
                continue;
            }
            let (id, process) = (watched.id, Arc::clone(&watched.process));
            let known = watched.nr_entries;
            let mut unclear = std::mem::take(&mut watched.unclear);
            let begun = Instant::now();
            let is_rested = watched.rest_until <= begun;
            let longest_held_ns = std::mem::take(&mut walked.held_ns);
            let look = Look {
                id,
                process: &process,
                known,
                is_rested,
                unclear: &mut unclear,
            };
            let outcome = self.walk_space(look, visitor, &mut walked);
            if let Some(watched) = self.spaces.get_mut(&pid) {
                watched.unclear = unclear;
                if is_rested {
                    let held = Duration::from_nanos(walked.held_ns);
                    watched.rest_until = begun + hold_up::rest_after(held);
                }
            }
            walked.held_ns = walked.held_ns.max(longest_held_ns);
            match outcome {
                Ok(nr_entries) => {
                    walked.nr_spaces += 1;
                    if let Some(watched) = self.spaces.get_mut(&pid) {
                        watched.nr_entries = Some(nr_entries);
                        // What was not cleared will be found accessed once more.
                        watched.cpu_ns_at_walk = cpu_ns.filter(|_| is_rested);
                    }
                }
                // Ending and exec in the middle of a walk are normal; the next refresh tells of them.
                Err(_) if !process.is_space_current() => {}
                Err(error) => walked.troubles.push(error.to_string()),
            }
        }
        walked.wall_ns = nanos(started.elapsed());
        walked
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
        // Kernel threads, of which the root group is full, have no memory to watch.
        let is_trouble =
            |error: &&ProcessError| !matches!(error, ProcessError::KernelThread { .. });
        let refused = change.refused.iter().map(|(_, error)| error);
        let troubles = refused.filter(is_trouble).map(ProcessError::to_string);
        walked.troubles.extend(troubles);
        for process in change.appeared {
            let id = self.numbers.next();
            visitor.appeared(id, &process);
            self.spaces.insert(
                process.pid(),
                Watched {
                    id,
                    process,
                    cpu_ns_at_walk: None,
                    nr_entries: None,
                    rest_until: self.opened,
                    unclear: Unclear::default(),
                },
            );
        }
    }

    /// Returns what is in memory.
    fn walk_space(
        &mut self,
        look: Look<'_>,
        visitor: &mut dyn Visitor,
        walked: &mut Walked,
    ) -> Result<NrEntries, AccessError> {
        let Look {
            id,
            process,
            known,
            is_rested,
            unclear,
        } = look;
        let flags = self.source.vm_flags(process)?;
        let raw = process.read_maps().map_err(|source| AccessError::Io {
            what: "reading the mappings",
            pid: process.pid(),
            source,
        })?;
        let mappings = classify(&raw, &flags, &self.devices);
        let ranges = mappings
            .iter()
            .filter(|mapping| mapping.is_worth_reading())
            .map(|mapping| mapping.range);
        let spans = covering_spans(ranges);
        let expected = match known {
            Some(nr_entries) => nr_entries,
            None => self.count_entries(process, &mappings, &spans)?,
        };
        if known.is_none() {
            walked.troubles.extend(guest::note(process, &mappings));
        }
        let ways = self.clearer.ways(process, expected);
        let is_at_once = ways.is_at_once();
        let is_restoring = is_rested && ways.has_to_restore();
        if is_rested {
            unclear.begin_walk();
        }
        let sees_inactive = self.source.see_inactive(is_restoring);
        visitor.begin(id, process, &mappings);
        let mut pieces = Pieces {
            space: id,
            mappings: &mappings,
            cursor: 0,
            sees_inactive,
            ways,
            unclear,
            found: Found::default(),
        };
        let mut cleared = Cleared::default();
        let mut outcome = Ok(());
        let chunks = match is_at_once {
            true => vec![spans],
            false => chunks(&spans),
        };
        for chunk in chunks {
            let read = self.source.read(process, &chunk, &mut |record| {
                pieces.split(record, visitor);
            });
            match read {
                Ok(cost) => walked.cost.add(cost),
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
            if is_at_once || !is_rested {
                continue;
            }
            let young = std::mem::take(&mut pieces.found.young);
            outcome = clear_pieces(process, young.iter(), || false, &mut cleared)
                .and_then(|()| self.look_again(process, &young, pieces.unclear));
            self.source.see_inactive(is_restoring);
            if outcome.is_err() {
                break;
            }
        }
        let is_whole = outcome.is_ok();
        visitor.end(id, is_whole);
        let found = pieces.found;
        let nr_entries = found.nr_entries;
        if is_whole {
            unclear.end_walk();
        }
        let clearing = match outcome {
            Ok(()) if !is_rested => Ok(()),
            // It has grown since, and nothing was noted to be restored: cleared next time.
            Ok(()) if is_at_once && self.clearer.has_to_restore(nr_entries) => Ok(()),
            Ok(()) if is_at_once => {
                let intent = ClearIntent::Watch;
                let young = &found.young;
                let took = self.clearer.clear_all(process, young, nr_entries, intent);
                took.map(|took| cleared.add(took))
            }
            Ok(()) => {
                let parts = found.nr_part_pieces.into_iter().enumerate();
                let mut parts = parts.filter(|(_, nr_pieces)| *nr_pieces > 0);
                parts.try_for_each(|(part, nr_pieces)| {
                    self.clearer
                        .clear_part(process, part, nr_pieces, nr_entries, &mut cleared)
                })
            }
            Err(error) => Err(error),
        };
        walked.clear_ns += cleared.wall_ns;
        walked.held_ns = walked.held_ns.max(cleared.all_held_ns());
        walked.nr_left_pieces += cleared.nr_left_pieces + found.nr_left_pieces;
        walked.nr_resting_pages += found.nr_resting_pages;
        clearing.map(|()| nr_entries)
    }
}

/// One space's walk.
struct Look<'a> {
    id: SpaceId,
    process: &'a Process,
    /// What the last walk found in memory.
    known: Option<NrEntries>,
    /// Whether its bits may be cleared.
    is_rested: bool,
    unclear: &'a mut Unclear,
}

impl Observer {
    /// Reads the tables of pieces again, right after they were cleared: what is accessed still can't be cleared, or is in
    /// use.
    fn look_again(
        &mut self,
        process: &Process,
        young: &[YoungPiece],
        unclear: &mut Unclear,
    ) -> Result<(), AccessError> {
        let spans = covering_spans(young.iter().map(|piece| piece.range));
        let mut accessed: BTreeMap<TableNo, Bits512> = BTreeMap::new();
        self.source.see_inactive(false);
        self.source.read(process, &spans, &mut |record| {
            accessed.insert(record.table, pieces::accessed(record));
        })?;
        for piece in young {
            let still = accessed.get(&TableNo::containing(piece.range.start));
            let still = still.copied().unwrap_or(bits::NONE);
            let looked = unclear.look_at(process, piece, still);
            looked.map_err(|source| AccessError::Io {
                what: "reading the pagemap",
                pid: process.pid(),
                source,
            })?;
        }
        Ok(())
    }

    /// Counts what a space that was not walked yet has in its tables.
    fn count_entries(
        &mut self,
        process: &Process,
        mappings: &[Mapping],
        spans: &[TableSpan],
    ) -> Result<NrEntries, AccessError> {
        let nr_pages = process.held_bytes().unwrap_or(0) / PAGE_BYTES;
        if self.clearer.is_at_once([nr_pages, 0]) {
            return Ok([nr_pages, 0]);
        }
        let mut counted = Pieces {
            space: SpaceId(0),
            mappings,
            cursor: 0,
            sees_inactive: false,
            ways: self.clearer.ways(process, [0; 2]),
            unclear: &mut Unclear::default(),
            found: Found::default(),
        };
        self.source.read(process, spans, &mut |record| {
            counted.split(record, &mut Nobody);
            counted.found.young.clear();
        })?;
        Ok(counted.found.nr_entries)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
