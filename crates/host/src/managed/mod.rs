//! Many groups at once: what a host has once, and what it has for each group.
//!
//! ```text
//!   each second:  tick    what went is entered in the ledger, and more is handed over
//!   when due:     walk    all groups into one ledger; each group's promise is looked at; the oldest pages are chosen
//! ```
//!
//! One observer, one ledger, one pageout thread and one budget of processor time serve all groups ([`Managed`]); a group
//! has a promise, an age and its sums (`group`). No limit is set and no process is moved: killed at any moment, nothing
//! is left but the swap that was made (`house`).
//!
//! **Owns** the order of a walk and what follows from it. **Does not own** when idle memory may go
//! (`strata_control::promise`), which pages are oldest (`strata_lru::ages`), how they go (`strata_linux::actuator`), or
//! who is looked after (`rules`, `choice`).
//!
//! **Invariants**
//! - I1: no walk begins while pages are on their way out: what comes back is told from what has not gone.
//! - I2: walks and pageout together take no more processor time than they are given, but for one walk.
//! - I3: a group that goes takes its promise and its sums with it, and spoils nobody else's.

mod by_amount;
mod choice;
mod group;
pub mod history;
mod house;
mod recalls;
mod rules;
mod status;
mod takes;

pub use by_amount::Hand;
pub use house::{House, HouseError};
pub use rules::{PatternError, Rule, Rules, Whom};
pub use status::{GroupStatus, Status, WhyNotMore};
pub use strata_control::promise::Standing;

use crate::observe::ledger::AgedPages;
use crate::observe::{Observer, SpaceId, Subject, Walked, own_pid};
use crate::run::overhead;
use by_amount::Amounts;
use group::Group;
use recalls::Recalls;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use strata_linux::access::{self, AccessChoice, AccessError};
use strata_linux::actuator::Pageout;
use strata_linux::addr::PAGE_BYTES;
use strata_linux::process::Process;
use strata_linux::swap;
use strata_lru::ages::{NrPages, Query, Run};
use strata_lru::{GroupId, Kind};
use takes::Takes;

/// Walks within the least age: what is told to be idle for so long is so to a sixth of it.
const NR_WALKS_WITHIN_AGE: u32 = 6;
/// Free swap that is left to others, as a part of all swap: one tenth.
const FREE_SWAP_PART: u64 = 10;
/// Where compressed swap holds pages in more than this share of their size, nothing is gained.
const COMPRESSED_SHARE_MAX: f64 = 0.8;
/// Less than this in swap tells nothing of how well pages compress.
const COMPRESSED_BYTES_MIN: u64 = 16 << 20;

/// What is asked of a guard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ManagedConfig {
    /// Whether idle memory is taken; else only told.
    pub is_acting: bool,
    /// Which hand takes it.
    pub hand: Hand,
    /// How accesses are seen.
    pub access: AccessChoice,
    /// The share of all processors that walks and pageout may use: 0.02 for 2 %.
    pub cpu_share: f64,
}

/// Why groups can't be looked after.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManagedError {
    /// No source of accesses works.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// No thread.
    #[error("starting the pageout thread failed: {0}")]
    Thread(#[source] std::io::Error),
}

/// All groups that are looked after.
#[derive(Debug)]
pub struct Managed {
    config: ManagedConfig,
    rules: Rules,
    pages: AgedPages,
    /// `None` where nothing is taken.
    takes: Option<Takes>,
    /// The same by amount.
    amounts: Option<Amounts>,
    /// Pages that are read back.
    recalls: Option<Recalls>,
    groups: BTreeMap<GroupId, Group>,
    next_walk: Duration,
    cpu_ns_at_start: u64,
    cpu_ns_at_walk: u64,
    nr_walks: u64,
    /// What went wrong with processes in the last walk.
    troubles: Vec<String>,
    /// Why anonymous memory stays, for all groups alike.
    no_swap: Option<WhyNotMore>,
}

impl Managed {
    /// Begins with nobody.
    ///
    /// # Errors
    /// No source of accesses works, or there can be no thread.
    pub fn start(config: ManagedConfig, rules: Rules) -> Result<Managed, ManagedError> {
        let (mut takes, mut amounts, mut recalls) = (None, None, None);
        if config.is_acting {
            let pageout = Pageout::start(access::open(config.access)?);
            takes = Some(Takes::new(pageout.map_err(ManagedError::Thread)?));
            recalls = Some(Recalls::start().map_err(ManagedError::Thread)?);
            if config.hand != Hand::Exact {
                amounts = Some(Amounts::start().map_err(ManagedError::Thread)?);
            }
        }
        Ok(Managed {
            config,
            rules,
            pages: AgedPages::new(),
            takes,
            amounts,
            recalls,
            groups: BTreeMap::new(),
            next_walk: Duration::ZERO,
            cpu_ns_at_start: overhead::cpu_ns(),
            cpu_ns_at_walk: 0,
            nr_walks: 0,
            troubles: Vec::new(),
            no_swap: None,
        })
    }

    /// Who is looked at to begin with, for the observer.
    pub fn subject() -> Subject {
        Subject::Processes(vec![own_pid()])
    }

    /// To be called about once a second. Returns whether there was a walk.
    pub fn tick(&mut self, observer: &mut Observer) -> bool {
        if let Some(amounts) = &mut self.amounts {
            while let Some((id, has_found)) = amounts.collect() {
                self.pages.asked(id);
                if let Some(group) = self.groups.get_mut(&id).filter(|_| !has_found) {
                    group.fares.rests(observer.elapsed());
                }
                // What went is told by the walk even of those that sleep.
                let ledger = self.pages.ledger();
                let of_group: Vec<SpaceId> = ledger
                    .spaces()
                    .filter(|(_, group)| *group == id)
                    .map(|(space, _)| SpaceId(space.0))
                    .collect();
                observer.read_again(|space| of_group.contains(&space));
            }
            if amounts.are_under_way() {
                return false;
            }
        }
        if let Some(takes) = &mut self.takes {
            for went in takes.collect() {
                self.pages.taken(&went.runs);
                if let Some(group) = self.groups.get_mut(&went.group) {
                    group.took(went.kind, went.nr_pages);
                }
            }
            if takes.are_under_way() {
                return false;
            }
        }
        if observer.elapsed() < self.next_walk {
            self.hold(observer);
            return false;
        }
        self.walk(observer);
        true
    }

    /// Other rules hold from the next walk on, which is at once.
    pub fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
        self.next_walk = Duration::ZERO;
    }

    /// Ends the thread; what it has taken is counted.
    pub fn stop(&mut self) {
        if let Some(mut takes) = self.takes.take() {
            for went in takes.stop() {
                self.pages.taken(&went.runs);
                if let Some(group) = self.groups.get_mut(&went.group) {
                    group.took(went.kind, went.nr_pages);
                }
            }
        }
    }

    /// What stands now.
    pub fn status(&self) -> Status {
        Status::of(
            self.config.is_acting,
            self.rules.min_age(),
            self.pages.ledger().watched(),
            self.nr_walks,
            overhead::cpu_ns() - self.cpu_ns_at_start,
            self.pages.footprint_bytes(),
            self.groups.values().map(Group::status).collect(),
        )
    }

    /// What went wrong with processes in the last walk.
    pub fn troubles(&self) -> &[String] {
        &self.troubles
    }

    fn walk(&mut self, observer: &mut Observer) {
        let of_process = self.members();
        let mut pids: Vec<i32> = of_process.keys().copied().collect();
        if pids.is_empty() {
            // An observer of nobody is over, and groups may come.
            pids = vec![own_pid()];
        }
        observer.set_processes(&pids);
        let cpu_ns = overhead::cpu_ns();
        let Walked { at, troubles, .. } = self.pages.observe(observer);
        self.troubles = troubles;
        self.nr_walks += 1;
        for (space, process) in observer.processes() {
            if let Some(group) = of_process.get(&process.pid()) {
                self.pages.set_group(space, *group);
            }
        }
        self.look_at_promises(at);
        self.read_back(observer);
        self.no_swap = self.room_in_swap().err();
        self.choose(observer);
        self.pace(observer.elapsed(), cpu_ns);
    }

    /// Who is in which group now; groups that are new get a number, those that are gone go.
    fn members(&mut self) -> BTreeMap<i32, GroupId> {
        let mut of_process = BTreeMap::new();
        let mut found = Vec::new();
        for chosen in choice::choose(&self.rules) {
            let name = chosen.reader.name();
            let known = self
                .groups
                .iter_mut()
                .find(|(_, group)| group.name() == name);
            let id = match known {
                Some((id, group)) => {
                    group.keep_to(chosen.rule);
                    *id
                }
                None => {
                    let mut free = (1..=u16::MAX).map(GroupId);
                    // There are more groups than numbers.
                    let Some(id) = free.find(|id| !self.groups.contains_key(id)) else {
                        continue;
                    };
                    self.groups.insert(id, Group::new(&chosen));
                    id
                }
            };
            found.push(id);
            of_process.extend(chosen.pids.into_iter().map(|pid| (pid, id)));
        }
        self.groups.retain(|id, _| found.contains(id));
        of_process
    }

    fn look_at_promises(&mut self, at: Duration) {
        let numbers: BTreeMap<GroupId, usize> = self.groups.keys().copied().zip(0..).collect();
        let spaces = self.pages.ledger().spaces();
        let of_space: BTreeMap<SpaceId, usize> = spaces
            .filter_map(|(space, group)| Some((SpaceId(space.0), *numbers.get(&group)?)))
            .collect();
        let (counted, _) = self
            .pages
            .count(numbers.len(), |space| of_space.get(&space).copied());
        let mut returned: BTreeMap<GroupId, NrPages> = BTreeMap::new();
        for refault in self.pages.ledger().refaults() {
            let sum = returned.entry(refault.group).or_default();
            match refault.kind {
                Kind::Anon => sum.anon += refault.nr_pages,
                Kind::File => sum.file += refault.nr_pages,
            }
        }
        let went = self.pages.ledger().went();
        for ((id, group), ages) in self.groups.iter_mut().zip(counted) {
            let of_group = went.iter().filter(|one| one.group == *id);
            group.took_by_amount(at, &of_group.copied().collect::<Vec<_>>());
            let away = self.pages.ledger().nr_taken(*id);
            let returned = returned.get(id).copied().unwrap_or_default();
            group.look(at, &ages, away, returned);
        }
    }

    /// What was taken last of those whose programs come back to it, before they ask for it page by page.
    fn read_back(&mut self, observer: &Observer) {
        let Some(recalls) = &mut self.recalls else {
            return;
        };
        for (id, group) in &mut self.groups {
            if let Some(within) = group.keeper.reads_back() {
                let runs = self.pages.ledger().taken_within(*id, within);
                let processes = processes_of(observer);
                let nr_pages = recalls.read_back(group.reader(), &runs, &processes);
                tracing::debug!(group = group.name(), nr_pages, "read back");
            }
        }
    }

    /// Pages that may go to swap, or why none may.
    fn room_in_swap(&self) -> Result<u64, WhyNotMore> {
        let total_bytes = swap::total_swap_bytes().unwrap_or(0);
        if total_bytes == 0 {
            return Err(WhyNotMore::NoSwap);
        }
        let free_bytes = swap::known_free_swap_bytes().unwrap_or(0);
        let room_bytes = free_bytes.saturating_sub(total_bytes / FREE_SWAP_PART);
        let away_bytes: u64 = self.groups.values().map(Group::anon_away_bytes).sum();
        let memory_bytes = swap::memory_of_swapped(away_bytes).unwrap_or(0);
        let is_known = away_bytes >= COMPRESSED_BYTES_MIN;
        match room_bytes / PAGE_BYTES {
            0 => Err(WhyNotMore::SwapIsFull),
            _ if is_known && memory_bytes as f64 > away_bytes as f64 * COMPRESSED_SHARE_MAX => {
                Err(WhyNotMore::DoesNotCompress)
            }
            nr_pages => Ok(nr_pages),
        }
    }

    /// Chooses what goes of each group, those first that have most to give.
    fn choose(&mut self, observer: &Observer) {
        let at = observer.elapsed();
        let mut swap_room = self.room_in_swap().unwrap_or(0);
        let mut order: Vec<(u64, GroupId)> = self
            .groups
            .iter()
            .map(|(id, group)| (group.idle_pages().total(), *id))
            .collect();
        order.sort_by_key(|(idle, _)| std::cmp::Reverse(*idle));
        let processes = processes_of(observer);
        for (idle, id) in order {
            let Some(group) = self.groups.get(&id) else {
                continue;
            };
            let above_low = group.above_low_pages();
            let mut planned = NrPages::default();
            let mut could = NrPages::default();
            for kind in group.keeper.order() {
                let room = match group.is_promised() {
                    true => group.keeper.room(kind, planned),
                    false => 0,
                };
                let room = match self.config.hand {
                    Hand::Amount => 0,
                    Hand::Auto | Hand::Exact => room,
                };
                let room = room.min(above_low.saturating_sub(planned.total()));
                let swap_room_of = match kind {
                    Kind::Anon => swap_room,
                    Kind::File => u64::MAX,
                };
                // Where a group has nothing old its pages are not gone through once more.
                if idle == 0 || group.idle_pages().of(kind) == 0 {
                    continue;
                }
                let query = Query {
                    group: id,
                    kind: Some(kind),
                    older_than: group.keeper.age(kind),
                    nr_pages_max: room.min(swap_room_of),
                };
                let found = self.pages.ledger().candidates(&query);
                let sum = |sums: &mut NrPages, nr_pages| match kind {
                    Kind::Anon => sums.anon += nr_pages,
                    Kind::File => sums.file += nr_pages,
                };
                sum(&mut planned, found.nr_pages);
                sum(&mut could, found.nr_fitting_pages);
                if kind == Kind::Anon {
                    swap_room -= found.nr_pages;
                }
                if let Some(takes) = &mut self.takes {
                    takes.add(id, kind, &found.runs, &processes);
                }
            }
            self.by_amount(id, at, could, planned);
            if let Some(group) = self.groups.get_mut(&id) {
                group.judge(could, planned, self.no_swap);
            }
        }
        if let Some(takes) = &mut self.takes {
            takes.hand_over();
        }
    }

    /// Has the kernel take a part of what is idle of a group and can't be taken page by page.
    fn by_amount(&mut self, id: GroupId, at: Duration, could: NrPages, planned: NrPages) {
        let (Some(amounts), Some(group)) = (&mut self.amounts, self.groups.get(&id)) else {
            return;
        };
        if !group.is_promised() || !group.fares.may_take(at) {
            return;
        }
        let exactly = match self.config.hand {
            Hand::Amount => NrPages::default(),
            Hand::Auto | Hand::Exact => could,
        };
        let left = |kind| group.idle_pages().of(kind).saturating_sub(exactly.of(kind));
        let may_swap = self.no_swap.is_none();
        let nr_idle = left(Kind::File) + if may_swap { left(Kind::Anon) } else { 0 };
        // What comes back is judged by the kind of which there is more.
        let kind = match left(Kind::Anon) >= left(Kind::File) && may_swap {
            true => Kind::Anon,
            false => Kind::File,
        };
        let room = group.keeper.room(kind, planned);
        let room = room.min(group.above_low_pages().saturating_sub(planned.total()));
        if let Some(nr_pages) = by_amount::step(group.reader(), nr_idle, room.min(nr_idle)) {
            amounts.add(id, group.reader(), nr_pages);
        }
    }

    /// Takes what groups hold beyond what they may, the oldest first.
    fn hold(&mut self, observer: &Observer) {
        let over: Vec<(GroupId, u64)> = self
            .groups
            .iter()
            .map(|(id, group)| (*id, group.over_pages().min(group.above_low_pages())))
            .filter(|(_, nr_pages)| *nr_pages > 0)
            .collect();
        if over.is_empty() || self.takes.is_none() {
            return;
        }
        let processes = processes_of(observer);
        let mut swap_room = self.room_in_swap().unwrap_or(0);
        for (id, nr_pages) in over {
            let kinds = [Kind::Anon, Kind::File].map(|kind| {
                let swap_room = match kind {
                    Kind::Anon => swap_room,
                    Kind::File => u64::MAX,
                };
                let found = self.pages.ledger().candidates(&Query {
                    group: id,
                    kind: Some(kind),
                    older_than: Duration::ZERO,
                    nr_pages_max: nr_pages.min(swap_room),
                });
                found.runs.into_iter().map(move |run| (kind, run))
            });
            let mut oldest: Vec<(Kind, Run)> = kinds.into_iter().flatten().collect();
            oldest.sort_by_key(|(_, run)| std::cmp::Reverse(run.idle));
            let mut left = nr_pages;
            let mut of_kind: [Vec<Run>; 2] = Default::default();
            for (kind, mut run) in oldest {
                run.nr_pages = run.nr_pages.min(left);
                left -= run.nr_pages;
                if kind == Kind::Anon {
                    swap_room -= run.nr_pages;
                }
                if run.nr_pages > 0 {
                    of_kind[usize::from(kind == Kind::File)].push(run);
                }
            }
            if let Some(takes) = &mut self.takes {
                takes.add(id, Kind::Anon, &of_kind[0], &processes);
                takes.add(id, Kind::File, &of_kind[1], &processes);
            }
        }
        if let Some(takes) = &mut self.takes {
            takes.hand_over();
        }
    }

    /// When the next walk comes: after the interval, or later where walks and pageout need more than their share.
    fn pace(&mut self, now: Duration, cpu_ns: u64) {
        let used_ns = cpu_ns.saturating_sub(self.cpu_ns_at_walk);
        let of_walk_ns = overhead::cpu_ns().saturating_sub(cpu_ns);
        let first = self.cpu_ns_at_walk == 0;
        self.cpu_ns_at_walk = cpu_ns;
        let cost_ns = if first {
            of_walk_ns
        } else {
            used_ns.max(of_walk_ns)
        };
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let share = (self.config.cpu_share * processors as f64).max(1e-6);
        let earliest = Duration::from_secs_f64(cost_ns as f64 / 1e9 / share);
        let interval = self.rules.min_age() / NR_WALKS_WITHIN_AGE;
        self.next_walk = now + interval.max(earliest);
    }
}

fn processes_of(observer: &Observer) -> BTreeMap<SpaceId, Arc<Process>> {
    let processes = observer.processes();
    processes
        .map(|(space, process)| (space, Arc::clone(process)))
        .collect()
}
