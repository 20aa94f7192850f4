//! `park`: sees what was used last, notes it, and has all that can go taken.
//!
//! **Owns** the order of that. **Does not own** ages (`observe::ledger`), taking (`strata_linux::actuator`), stopping (`halt`).
//!
//! **Invariants**
//! - P1: the oldest go first, so that swap which fills half-way holds what is needed last.
//! - P2: neither Strata nor pid 1 is parked.

use super::candidate::Keep;
use super::halt::{Halt, StopError};
use super::halted::Halted;
use super::kept::{self, Asked, Kept};
use super::made_swap;
use super::note::{self, Note, NoteError, Noted, Used};
use crate::keeper::KeptSwapError;
use crate::observe::ledger::AgedPages;
use crate::observe::{LeftOut, Observer, Subject, SubjectError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use strata_linux::access::{self, AccessChoice, AccessError};
use strata_linux::actuator::PutAway;
use strata_linux::addr::{AddrRange, PAGE_BYTES};
use strata_linux::cgroup::{GroupReader, reclaim_all};
use strata_linux::process::{MemoryUse, Process};
use strata_linux::run_dir::ProcessMark;
use strata_linux::swap::{self, SwapSpec};
use strata_lru::SpaceNo;
use strata_lru::ages::Generation;

/// What is left of a group's processes, below which the kernel is not asked to take more of the group.
const SHARED_BYTES_MIN: u64 = 1 << 20;
/// How often processes are listed again that are stopped one by one: those that came meanwhile are stopped, too.
const NR_LISTINGS_MAX: u32 = 5;

/// What is to be parked, and how.
#[derive(Clone, Debug)]
pub struct ParkConfig {
    /// Who.
    pub subject: Subject,
    /// The program is stopped before its memory goes, and stays stopped until it is woken.
    pub is_freezing: bool,
    /// What stays.
    pub keep: Keep,
    /// Where anonymous memory goes.
    pub swap: SwapSpec,
    /// For how long it is looked at, so that what is in use is known from what was used before.
    pub look: Duration,
    /// How accesses are seen.
    pub access: AccessChoice,
    /// Nothing is noted, stopped or taken.
    pub is_dry_run: bool,
}

/// Why nothing is parked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParkError {
    /// No such program or group.
    #[error(transparent)]
    Subject(#[from] SubjectError),
    /// Accesses can't be seen.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// It would park what it lives by.
    #[error(
        "{0} is not parked: Strata itself or pid 1 is among its processes; name a program below, or run strata park from elsewhere"
    )]
    Vital(String),
    /// Nobody of it can be asked for memory.
    #[error("{0}: nothing of it is parked")]
    LeftOut(LeftOut),
    /// Nobody of it can be read.
    #[error("nothing of {who} is parked: {why}")]
    Unread {
        /// Who was to be parked.
        who: String,
        /// Why the first of its processes can't be read.
        why: String,
    },
    /// Nobody is there.
    #[error("{0} has no process with memory of its own, or has ended: there is nothing to park")]
    Empty(String),
    /// Swap.
    #[error(transparent)]
    Swap(#[from] KeptSwapError),
    /// The note.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// It can't be stopped.
    #[error(transparent)]
    Stop(#[from] StopError),
}

/// What became of it.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Parked {
    /// By which it is woken.
    pub id: String,
    /// The command or the group.
    pub name: String,
    /// Processes of it.
    pub nr_processes: usize,
    /// Nothing was done.
    pub is_dry_run: bool,
    /// In memory before, each page by its share.
    pub resident_before_bytes: u64,
    /// In swap before: a guard takes some of a group before it parks the group.
    pub swapped_before_bytes: u64,
    /// In memory afterwards; of a dry run what would stay of what was asked to.
    pub resident_after_bytes: u64,
    /// What it has in swap more than before, and what that takes of memory (compressed swap).
    pub swapped_bytes: u64,
    /// See `swapped_bytes`.
    pub swap_memory_bytes: u64,
    /// What the machine got back: before - after - what compressed swap takes.
    pub net_freed_bytes: i64,
    /// From the end of the look to the end.
    pub seconds: f64,
    /// What stayed, by reason.
    pub kept: Vec<Kept>,
    /// What was stopped.
    pub halted: Halted,
    /// What people should know.
    pub notes: Vec<String>,
}

impl Parked {
    /// How many times smaller what is in swap became there; `None`: swap is no memory.
    pub fn compression(&self) -> Option<f64> {
        let is_compressed = self.swap_memory_bytes > 0 && self.swapped_bytes > 0;
        is_compressed.then(|| self.swapped_bytes as f64 / self.swap_memory_bytes as f64)
    }
}

/// Parks a program or a group.
///
/// # Errors
/// [`ParkError`]; nothing is stopped then, and what was taken can be woken.
pub fn park(config: &ParkConfig) -> Result<Parked, ParkError> {
    if let Subject::Process(1) | Subject::Tree(1) = config.subject {
        return Err(ParkError::Vital("process 1".to_owned()));
    }
    let mut target = Target::look(config)?;
    let id = target.id.clone();
    target.check()?;
    let started = Instant::now();
    let before = target.memory_use();
    if config.is_dry_run {
        return Ok(target.would(config, before));
    }
    let _lock = note::lock(&id)?;
    let mut notes: Vec<String> = made_swap::prepare(&config.swap)?.into_iter().collect();
    let mut halt = config.is_freezing.then(Halt::prepare).transpose()?;
    if let Some(halt) = &mut halt {
        target.stop(halt)?;
    }
    let held = target.held();
    let mut note = Note::new(&id, target.name.clone(), target.noted(&held))?;
    note.resident_before_bytes = before.pss_bytes;
    note.swapped_before_bytes = before.swap_pss_bytes;
    // What stands still under another id is to go on with this one, too.
    note.halted = note::halted_of(&note.running());
    if let Some(halt) = &halt {
        note.halted = halt.halted().clone().and(note.halted);
    }
    if let Some(earlier) = Note::load(&id)? {
        note.continues(earlier);
    }
    note.save()?;
    let asked = target.keep(config, &held);
    notes.extend(target.left_out.iter().map(LeftOut::to_string));
    notes.extend_from_slice(&target.refused);
    let begun = target.observer.elapsed();
    notes.extend(target.take(&held, &asked));
    if config.keep == Keep::Nothing {
        notes.extend(target.take_common());
    }
    target.observer.read_again(|_| true);
    target.pages.observe(&mut target.observer);
    let after = target.memory_use();
    let taking = target.observer.elapsed().saturating_sub(begun);
    let mut source = access::open(config.access)?;
    let kept = kept::reckon(
        &target.processes(),
        &target.pages,
        source.as_mut(),
        &asked,
        taking,
        after.pss_bytes,
    );
    note.resident_after_bytes = Some(after.pss_bytes);
    note.save()?;
    if let Some(mut halt) = halt {
        notes.append(&mut halt.notes);
        notes.extend(halt.leave());
    }
    Ok(Parked {
        seconds: started.elapsed().as_secs_f64(),
        kept,
        halted: note.halted,
        notes,
        ..target.parked(before, after)
    })
}

/// What a subject is called, and by which id it is woken. To be asked before it is looked at: what ends meanwhile had a name.
fn id_and_name(subject: &Subject) -> Result<(String, String), SubjectError> {
    let pid = match subject {
        Subject::Cgroup(path) => {
            let group = GroupReader::open(path)?;
            let id = note::id_of_group(group.name(), group.id()?);
            return Ok((id, group.name().to_owned()));
        }
        Subject::Process(pid) | Subject::Tree(pid) => *pid,
        Subject::Processes(pids) => pids.first().copied().unwrap_or_default(),
    };
    Ok((pid.to_string(), Process::open(pid)?.comm().to_owned()))
}

/// Whose memory it is, and how old.
struct Target {
    id: String,
    name: String,
    subject: Subject,
    observer: Observer,
    pages: AgedPages,
    look: Duration,
    /// Who could not be looked at.
    left_out: Vec<LeftOut>,
    /// Who may not be read, and why.
    refused: Vec<String>,
}

type Held = BTreeMap<SpaceNo, Vec<Generation>>;

impl Target {
    /// Walks twice: the first tells what was accessed at any time, the second what is in use.
    fn look(config: &ParkConfig) -> Result<Target, ParkError> {
        let (id, name) = id_and_name(&config.subject)?;
        let mut target = Target {
            id,
            name,
            subject: config.subject.clone(),
            observer: Observer::open(&config.subject, config.access)?,
            pages: AgedPages::new(),
            look: config.look,
            left_out: Vec::new(),
            refused: Vec::new(),
        };
        target.refused = target.pages.observe(&mut target.observer).refused;
        thread::sleep(config.look);
        target.left_out = target.pages.observe(&mut target.observer).left_out;
        Ok(target)
    }

    fn processes(&self) -> Vec<(SpaceNo, Arc<Process>)> {
        let processes = self.observer.processes();
        processes
            .map(|(space, process)| (space, Arc::clone(process)))
            .collect()
    }

    fn check(&self) -> Result<(), ParkError> {
        let Target { id, name, .. } = self;
        let who = match &self.subject {
            Subject::Cgroup(_) => name.clone(),
            _ => format!("{id} ({name})"),
        };
        let own = crate::observe::own_pid();
        let is_vital = |process: &Process| process.pid() == own || process.pid() == 1;
        let mut processes = self.observer.processes();
        if processes.any(|(_, process)| is_vital(process)) {
            return Err(ParkError::Vital(who));
        }
        let nr_reachable = self.observer.reachable().len();
        if nr_reachable > 0 {
            return Ok(());
        }
        Err(match (self.left_out.first(), self.refused.first()) {
            (Some(left_out), _) => ParkError::LeftOut(left_out.clone()),
            (None, Some(why)) => ParkError::Unread {
                who,
                why: why.clone(),
            },
            (None, None) => ParkError::Empty(who),
        })
    }

    /// The group that holds, with those below it, all of these processes and no others. A group that is parked is that itself.
    fn group(&self) -> Option<GroupReader> {
        let group = match &self.subject {
            Subject::Cgroup(path) => GroupReader::open(path).ok()?,
            _ => self.nearest_group()?,
        };
        (group.name() != "/").then_some(group)
    }

    fn nearest_group(&self) -> Option<GroupReader> {
        let living = self.observer.processes().filter(|(_, one)| one.is_alive());
        let ours: BTreeSet<i32> = living.map(|(_, one)| one.pid()).collect();
        // 0 is a process that can't be named.
        let is_ours = |pid: &i32| ours.contains(pid) || *pid > 0 && Process::open(*pid).is_err();
        let first = GroupReader::of_process(*ours.first()?).ok()??;
        let above = first.path().ancestors();
        for group in above.map_while(|path| GroupReader::open(path).ok()) {
            let all = group.processes().ok()?;
            if !all.iter().all(is_ours) {
                return None;
            }
            if ours.iter().all(|pid| all.binary_search(pid).is_ok()) {
                return Some(group);
            }
        }
        None
    }

    fn stop(&mut self, halt: &mut Halt) -> Result<(), StopError> {
        let processes = |target: &Target| -> Vec<Arc<Process>> {
            target.processes().into_iter().map(|(_, one)| one).collect()
        };
        halt.stop(&processes(self), self.group().as_ref())?;
        for _ in 0..NR_LISTINGS_MAX {
            self.pages.observe(&mut self.observer);
            if !halt.stop_late(&processes(self))? {
                break;
            }
        }
        Ok(())
    }

    fn held(&self) -> Held {
        let spaces = self.observer.processes().map(|(space, _)| space);
        spaces
            .map(|space| (space, self.pages.ledger().held(space)))
            .collect()
    }

    /// What each process used, the youngest first.
    fn noted(&self, held: &Held) -> Vec<Noted> {
        let noted = |(space, process): (SpaceNo, Arc<Process>)| {
            let generations = held.get(&space)?.iter().rev();
            let used = generations.map(|generation| Used {
                idle_ms: generation.idle.as_millis() as u64,
                runs: (generation.runs.iter())
                    .map(|run| (run.first_page, run.nr_pages))
                    .collect(),
            });
            Some(Noted {
                mark: ProcessMark {
                    pid: process.pid(),
                    start_ticks: process.start_ticks(),
                },
                used: used.collect(),
            })
        };
        self.processes().into_iter().filter_map(noted).collect()
    }

    /// What is asked to stay, by address.
    fn keep(&self, config: &ParkConfig, held: &Held) -> Asked {
        let mut youngest: Vec<(Age, SpaceNo, &Generation)> = generations(held).collect();
        youngest.reverse();
        let mut left_pages = match config.keep {
            Keep::Nothing => 0,
            Keep::Bytes(bytes) => bytes / PAGE_BYTES,
            Keep::WorkingSet => u64::MAX,
        };
        if config.keep == Keep::WorkingSet {
            youngest.retain(|(_, _, one)| one.was_accessed && one.idle < self.look);
        }
        let mut asked = Asked::new();
        for (_, space, generation) in youngest {
            for run in &generation.runs {
                let nr_pages = run.nr_pages.min(left_pages);
                left_pages -= nr_pages;
                if nr_pages > 0 {
                    let ranges = asked.entry(space).or_default();
                    ranges.push(AddrRange::of_pages(run.first_page, nr_pages));
                }
            }
        }
        for ranges in asked.values_mut() {
            ranges.sort_unstable_by_key(|range| range.start);
        }
        asked
    }

    /// Takes all that is not asked to stay, the oldest of all processes first. Returns what went wrong.
    fn take(&self, held: &Held, asked: &Asked) -> Vec<String> {
        let processes: BTreeMap<SpaceNo, Arc<Process>> = self.processes().into_iter().collect();
        let mut troubles = Vec::new();
        let mut refused: BTreeSet<SpaceNo> = BTreeSet::new();
        let mut put_away = PutAway::default();
        for (_, space, generation) in generations(held) {
            let Some(process) = processes.get(&space) else {
                continue;
            };
            if refused.contains(&space) {
                continue;
            }
            let none = Vec::new();
            let asked = asked.get(&space).unwrap_or(&none);
            let mut ranges: Vec<AddrRange> = Vec::new();
            for run in &generation.runs {
                let range = AddrRange::of_pages(run.first_page, run.nr_pages);
                without(range, asked, &mut ranges);
            }
            if let Err(error) = put_away.take(process, &ranges) {
                refused.insert(space);
                if process.is_space_current() {
                    troubles.push(error.to_string());
                }
            }
        }
        troubles
    }

    /// Has the kernel take what several of them map, where they are a group.
    fn take_common(&self) -> Option<String> {
        let left = self.memory_use().pss_bytes;
        let group = self.group().filter(|_| left >= SHARED_BYTES_MIN)?;
        reclaim_all(&group).err().map(|error| error.to_string())
    }

    fn would(&self, config: &ParkConfig, before: MemoryUse) -> Parked {
        let asked = self.keep(config, &self.held());
        let bytes: u64 = asked
            .values()
            .flatten()
            .map(|range| range.len_bytes())
            .sum();
        let after = MemoryUse {
            pss_bytes: bytes.min(before.pss_bytes),
            ..before
        };
        Parked {
            is_dry_run: true,
            ..self.parked(before, after)
        }
    }

    /// What became of it by what it used before and uses afterwards; nothing else is told yet.
    fn parked(&self, before: MemoryUse, after: MemoryUse) -> Parked {
        let memory_of = |bytes| swap::memory_of_swapped(bytes).unwrap_or(0);
        let swap_memory_bytes =
            memory_of(after.swap_pss_bytes).saturating_sub(memory_of(before.swap_pss_bytes));
        let spent = after.pss_bytes + swap_memory_bytes;
        Parked {
            id: self.id.clone(),
            name: self.name.clone(),
            nr_processes: self.observer.processes().count(),
            resident_before_bytes: before.pss_bytes,
            swapped_before_bytes: before.swap_pss_bytes,
            resident_after_bytes: after.pss_bytes,
            swapped_bytes: after.swap_pss_bytes.saturating_sub(before.swap_pss_bytes),
            swap_memory_bytes,
            net_freed_bytes: before.pss_bytes as i64 - spent as i64,
            halted: Halted::No,
            ..Parked::default()
        }
    }

    /// What its processes use, each page by its share.
    fn memory_use(&self) -> MemoryUse {
        let processes = self.observer.processes();
        let used = processes.filter_map(|(_, process)| process.memory_use().ok());
        used.fold(MemoryUse::default(), |sum, used| MemoryUse {
            pss_bytes: sum.pss_bytes + used.pss_bytes,
            swap_pss_bytes: sum.swap_pss_bytes + used.swap_pss_bytes,
        })
    }
}

/// The larger the younger.
type Age = (std::cmp::Reverse<Duration>, bool);

/// All generations, the oldest first.
fn generations(held: &Held) -> impl Iterator<Item = (Age, SpaceNo, &Generation)> {
    let of_space = |(space, all): (&SpaceNo, &'_ Vec<Generation>)| {
        let space = *space;
        let age = |one: &Generation| (std::cmp::Reverse(one.idle), one.was_accessed);
        let all: Vec<(Age, SpaceNo, usize)> = (all.iter().enumerate())
            .map(|(place, one)| (age(one), space, place))
            .collect();
        all
    };
    let mut all: Vec<(Age, SpaceNo, usize)> = held.iter().flat_map(of_space).collect();
    all.sort();
    all.into_iter()
        .filter_map(|(age, space, place)| Some((age, space, held.get(&space)?.get(place)?)))
}

/// Appends what of a range none of the sorted `others` covers.
fn without(range: AddrRange, others: &[AddrRange], to: &mut Vec<AddrRange>) {
    let mut start = range.start;
    let first = others.partition_point(|other| other.end <= range.start);
    let within = others[first..].iter();
    for other in within.take_while(|other| other.start < range.end) {
        if other.start > start {
            AddrRange::new(start, other.start).append_to(to);
        }
        start = start.max(other.end);
    }
    if start < range.end {
        AddrRange::new(start, range.end).append_to(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_to_stay_is_cut_out_of_what_goes() {
        let range = AddrRange::of_pages;
        let stays = [range(2, 2), range(6, 1), range(9, 10)];
        let mut goes = Vec::new();
        without(range(0, 12), &stays, &mut goes);
        assert_eq!(goes, [range(0, 2), range(4, 2), range(7, 2)]);
        let mut none = Vec::new();
        without(range(10, 3), &stays, &mut none);
        assert!(none.is_empty());
        without(range(20, 3), &stays, &mut none);
        assert_eq!(none, [range(20, 3)]);
    }
}
