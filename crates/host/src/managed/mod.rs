//! Many groups at once: what a host has once, and what it has for each group.
//!
//! ```text
//!   each second:  tick    what went is entered in the ledger, and more is handed over
//!   when due:     walk    all groups into one ledger, by a thread that waits for processes in the loop's stead; each
//!                         group's promise is looked at; the oldest pages are chosen
//!                 census  page cache of all groups that nobody maps; the oldest of it goes after a walk
//! ```
//!
//! One observer, one ledger, one census, one pageout thread and one budget of processor time serve all groups ([`Managed`]); a group
//! has a promise, an age and its sums (`group`). No limit is set and no process is moved: killed at any moment, nothing
//! is left but the swap that was made (`house`).
//!
//! **Owns** the order of a walk. **Does not own** when idle memory may go (`strata_control::promise`), what goes of each
//! group (`strata_control::guard`, or promise or not `oldest`) and by which hand (`acts`), which pages are oldest (`strata_lru::ages`), how they go
//! (`strata_linux::actuator`), or who is looked after (`rules`, `choice`).
//!
//! **Invariants**
//! - I1: no walk begins while pages are on their way out: what comes back is told from what has not gone.
//! - I2: walks and pageout together take no more processor time than they are given, but for one walk.
//! - I3: a group that goes takes its promise and its sums with it, and spoils nobody else's.

mod acts;
mod by_amount;
mod cache;
mod caches;
mod choice;
mod fits;
mod group;
mod halts;
pub mod history;
mod house;
mod kinds;
mod limits;
mod moves;
mod need;
mod oldest;
mod pace;
mod parks;
mod prices;
mod promised;
mod recalls;
mod resort;
mod room;
mod rules;
mod status;
mod takes;
mod tiers;
mod waits;
mod writer;
mod writes;

pub use by_amount::Hand;
pub use fits::{Fit, WhyNobody};
pub use house::{House, HouseError};
pub use promised::Promised;
pub use room::Room;
pub use rules::{CacheFirst, CpuShare, FileBudget, PatternError, Rule, Rules, TierRules, Whom};
pub use status::{
    GroupStatus, Status, StatusError, SwapStatus, TierStatus, WalkTimes, WhyNotMore,
    demand_demotion,
};
pub use strata_control::last_resort::WhenShort;
pub use strata_control::promise::Standing;
pub use strata_control::shortage::Free;
pub use writes::SwapWriteBound;

use crate::news::News;
use crate::observe::ledger::AgedPages;
use crate::observe::{Observer, Subject, Walked, own_pid};
use crate::run::overhead;
use by_amount::Amounts;
use caches::Caches;
use fits::Fits;
use group::Group;
use limits::Limited;
use moves::Moves;
use need::Budget;
use pace::Pace;
use prices::Prices;
use recalls::Recalls;
use resort::Resort;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::Duration;
use strata_control::guard;
use strata_linux::access::{self, AccessChoice, AccessError};
use strata_linux::addr::PAGE_BYTES;
use strata_linux::cgroup::CgroupError;
use strata_linux::nodes::{Nodes, watermark_bytes};
use strata_linux::swap::SwapWatch;
use strata_linux::sys::own_memory;
use strata_lru::{GroupId, Kind, SpaceNo};
use takes::{Takes, Went};
pub use waits::{NoWaits, measure_read_latency};
use writes::Writes;

/// A tick waits for the walk at most for so long: then the loop goes on, and the next tick takes up what was found.
const WALK_WAIT: Duration = Duration::from_millis(200);

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
    #[error("starting a thread failed: {0}")]
    Thread(#[source] std::io::Error),
    /// A promise by time can't be judged.
    #[error(transparent)]
    NoWaits(#[from] NoWaits),
}

/// The walk under way.
#[derive(Debug)]
struct Walking {
    /// Who is in which group.
    of_process: BTreeMap<i32, GroupId>,
    /// Processor time before it.
    cpu_ns: u64,
}

/// All groups that are looked after.
#[derive(Debug)]
pub struct Managed {
    config: ManagedConfig,
    rules: Rules,
    pages: AgedPages,
    /// `None` where nothing is taken.
    takes: Option<Takes>,
    /// What goes once after each walk is still to go.
    has_walked: bool,
    /// Pages did not go that were chosen after the last walk.
    has_refused: bool,
    /// What the kernel takes by amount; `None` where it is not asked.
    amounts: Option<Amounts>,
    /// What the hands cost.
    prices: Prices,
    /// How much goes to swap a second.
    writes: Writes,
    /// Pages that are read back.
    recalls: Option<Recalls>,
    /// Page cache that nobody maps.
    caches: Caches,
    /// Pages that go from one memory node to another; `None` where rules ask for none, or all memory is equally fast.
    moves: Option<Moves>,
    /// The rules and the nodes that that follows from.
    tiers_looked_at: Option<(TierRules, Option<Nodes>)>,
    /// Groups that hold memory of guests, as of the last walk.
    guests: BTreeSet<GroupId>,
    /// Limits that groups live under, as of the last walk, by path.
    limits: BTreeMap<PathBuf, Limited>,
    /// How short the host is of memory.
    host: Budget,
    /// What is done with whole groups then; `None` where that can't be undone, as nothing is kept.
    resort: Option<Resort>,
    groups: BTreeMap<GroupId, Group>,
    /// Groups that were ever looked after.
    nr_groups_seen: u64,
    /// How many groups go by each rule, as of the last walk.
    fits: Fits,
    /// Whose charge is read after a walk.
    charge_turns: kinds::Turns,
    /// When walks come.
    pace: Pace,
    /// The walk under way.
    walking: Option<Walking>,
    /// Processes that the last walk left out.
    nr_left_out: u64,
    /// What went wrong with processes in the last walk.
    troubles: Vec<String>,
    /// What is to be told.
    news: Vec<News>,
    /// Why anonymous memory stays, for all groups alike.
    no_swap: Option<WhyNotMore>,
    /// What a page takes to be read back from swap, where that was needed and could be measured.
    read: Option<Duration>,
    /// The machine's swap.
    swap: SwapWatch,
    /// Some of it was taken down since the last walk, by whomever.
    is_brought_back: bool,
}

impl Managed {
    /// Begins with nobody.
    ///
    /// # Errors
    /// No source of accesses works, or there can be no thread.
    pub fn start(config: ManagedConfig, rules: Rules) -> Result<Managed, ManagedError> {
        let (mut takes, mut amounts, mut recalls) = (None, None, None);
        let mut host = Budget::of_host();
        host.shortage.set_free(rules.free);
        if config.is_acting {
            let started = Takes::start(access::open(config.access)?);
            takes = Some(started.map_err(ManagedError::Thread)?);
            recalls = Some(Recalls::start().map_err(ManagedError::Thread)?);
            if config.hand != Hand::Exact {
                amounts = Some(Amounts::start().map_err(ManagedError::Thread)?);
            }
        }
        let can_ask = amounts.is_some();
        Ok(Managed {
            config,
            writes: Writes::new(rules.swap_writes),
            rules,
            pages: AgedPages::new(),
            takes,
            has_walked: false,
            has_refused: false,
            amounts,
            prices: Prices::default(),
            recalls,
            host,
            caches: Caches::start(can_ask).map_err(ManagedError::Thread)?,
            moves: None,
            tiers_looked_at: None,
            guests: BTreeSet::new(),
            limits: BTreeMap::new(),
            resort: None,
            groups: BTreeMap::new(),
            nr_groups_seen: 0,
            fits: Fits::default(),
            charge_turns: kinds::Turns::default(),
            pace: Pace::start(),
            walking: None,
            nr_left_out: 0,
            troubles: Vec::new(),
            news: Vec::new(),
            no_swap: None,
            read: None,
            swap: SwapWatch::start(),
            is_brought_back: false,
        })
    }

    /// Who is looked at to begin with, for the observer.
    pub fn subject() -> Subject {
        Subject::Processes(vec![own_pid()])
    }

    /// To be called again after [`Managed::next_look`]. Returns whether there was a walk.
    pub fn tick(&mut self, observer: &mut Observer) -> bool {
        self.look_at_need(observer.elapsed());
        // However long walks and pageout take, which is longest where memory is short.
        self.halt(observer.elapsed());
        self.turn_held(observer.elapsed());
        self.is_brought_back |= self.look_at_swap(observer);
        self.look_at_cache(observer.elapsed());
        self.look_at_moves(observer.elapsed());
        let asked = self.collect_amounts(observer.elapsed());
        self.read_again(observer, &asked);
        if self.amounts.as_mut().is_some_and(Amounts::are_under_way) {
            return false;
        }
        self.replace_takes(observer);
        let went = self.takes.as_mut().map(Takes::collect);
        self.enter(&went.unwrap_or_default());
        if self.is_taking() {
            return false;
        }
        let is_due = self.walking.is_none() && self.pace.is_due(observer.elapsed());
        if std::mem::take(&mut self.has_refused) {
            // What can't go leaves its place to what can.
            self.choose(observer, true);
        }
        if self.is_taking() {
            return false;
        }
        if is_due {
            self.begin_walk(observer);
        }
        let has_walked = self.go_on_walking(observer);
        if self.walking.is_some() {
            return false;
        }
        if !self.is_taking() {
            let is_after_walk = std::mem::take(&mut self.has_walked);
            if is_after_walk && self.config.is_acting {
                self.hold_files(observer);
            }
            // In need turns come many times a second, and not all that is read here changes as fast.
            let is_second = self.pace.is_second(observer.elapsed());
            if self.config.is_acting {
                if is_second || is_after_walk {
                    self.hold(observer, is_after_walk);
                }
                self.relieve_limits(observer);
                if !self.is_taking() {
                    self.relieve_host(observer);
                }
            }
            // Last, so that nothing of this waits for what waited for the rate of writes.
            if self.writes.hold_up && !self.is_taking() && is_second && !has_walked {
                self.choose(observer, true);
            }
        }
        has_walked
    }

    /// Whether pages are on their way out.
    fn is_taking(&self) -> bool {
        self.takes.as_ref().is_some_and(Takes::are_under_way)
    }

    /// When the next tick is to come.
    pub fn next_look(&self, at: Duration) -> Duration {
        let turn = self.resort.as_ref().and_then(Resort::next_turn);
        let waits = (self.limits.values()).map(|limit| limit.next_look.saturating_sub(at));
        waits.chain(turn).fold(self.host.next_look(), Duration::min)
    }

    /// Where memory will be short soon, the next walk and the next census come soon.
    fn look_at_need(&mut self, at: Duration) {
        if !self.config.is_acting {
            return;
        }
        let mut has_come_near = self.host.look(at, need::of_host);
        for limit in self.limits.values_mut() {
            has_come_near |= limit.look(at);
        }
        if has_come_near {
            let share = self.processor_share();
            let interval = self.walk_interval(self.rules.walk_interval());
            self.pace.sooner(interval, share);
            self.caches.hurry(at);
        }
    }

    /// From walk to walk, or from census to census within the least age, where they cost little; far from short as is `usual`.
    fn walk_interval(&self, usual: Duration) -> Duration {
        let budgets = self.limits.values().map(|limit| &limit.budget);
        let usual = self.host.walk_interval(usual);
        budgets.fold(usual, |least, budget| budget.walk_interval(least))
    }

    /// Where the thread that takes pages stands still, another one goes on without the process that holds it up.
    fn replace_takes(&mut self, observer: &mut Observer) {
        let Some((space, group)) = self.takes.as_mut().and_then(Takes::stuck) else {
            return;
        };
        observer.leave_out(space);
        // Of what it took and takes yet nobody hears but the next whole walk.
        self.pages.ledger_mut().asked(group);
        let source = access::open(self.config.access).map_err(ManagedError::Access);
        let started = source.and_then(|source| Takes::start(source).map_err(ManagedError::Thread));
        self.takes = started
            .inspect_err(|error| {
                let text = format!("no page is taken any more: {error}");
                self.news.push(News::Warning(text));
            })
            .ok();
    }

    /// Whether swap is taken down: then the next walk looks at all that was away, even of processes that sleep.
    fn look_at_swap(&mut self, observer: &mut Observer) -> bool {
        let has_shrunk = self.swap.has_shrunk();
        if has_shrunk {
            observer.read_again(|_| true);
        }
        has_shrunk
    }

    /// Sees to it that the promises of these rules can be judged; to be called when the swap is there.
    ///
    /// # Errors
    /// [`NoWaits`].
    pub fn measure(&mut self) -> Result<(), ManagedError> {
        self.read = measure_read_latency(&self.rules, self.read)?;
        Ok(())
    }

    /// What a page takes to be read back from swap, where that was measured.
    pub fn read_latency(&self) -> Option<Duration> {
        self.read
    }

    /// Which groups each rule holds for now, and what is excluded, without a guard.
    ///
    /// # Errors
    /// [`CgroupError::NoMemoryController`].
    pub fn fits(rules: &Rules) -> Result<Vec<Fit>, CgroupError> {
        choice::choose(rules).map(|(_, fits)| fits)
    }

    /// Other rules hold from the next walk on, which is at once. `read` is what [`measure_read_latency`] says of them: that
    /// waits for a disk, so whoever calls this has it measured elsewhere.
    pub fn set_rules(&mut self, rules: Rules, read: Option<Duration>) {
        self.read = read;
        for group in self.groups.values_mut() {
            group.read = self.read;
        }
        self.writes = Writes::new(rules.swap_writes);
        self.host.shortage.set_free(rules.free);
        self.rules = rules;
        self.fits.forget();
        self.pace.at_once();
    }

    /// Ends the threads, of which is counted what they have taken, and lets groups go on that were slowed or stopped.
    pub fn stop(&mut self) {
        self.let_go_on();
        self.stop_caches();
        if let Some(moves) = &mut self.moves {
            moves.stop();
        }
        let went = self.takes.take().map(|mut takes| takes.stop());
        self.enter(&went.unwrap_or_default());
    }

    fn enter(&mut self, all: &[Went]) {
        for went in all {
            self.prices.exact.note(went.cpu_ns, went.nr_pages);
            self.pages.ledger_mut().taken(&went.runs);
            self.pages.ledger_mut().stayed(&went.stayed);
            self.has_refused |= !went.stayed.is_empty();
            if went.kind == Kind::Anon {
                self.writes
                    .refund(went.stayed.iter().map(|run| run.nr_pages).sum());
            }
            if let Some(group) = self.groups.get_mut(&went.group) {
                group.took(went.kind, went.nr_pages, went.nr_refused_pages);
            }
        }
    }

    /// What stands now.
    pub fn status(&self) -> Status {
        let kept_bytes: u64 = self.groups.values().map(|of| of.cache.kept_bytes()).sum();
        let mut status = Status::of(
            self.config.is_acting,
            self.rules.min_age(),
            self.pages.ledger().watched(),
            self.pace.nr_walks,
            self.pace.cpu_ns(),
            self.pages.ledger().footprint_bytes() + kept_bytes,
            self.groups.values().map(Group::status).collect(),
        );
        status.dropped_cache_bytes += self.caches.nr_dropped_before * PAGE_BYTES;
        status.nr_left_out_processes = self.nr_left_out;
        status.walks = self.pace.times;
        status.room = self.room().filter(|_| self.config.is_acting);
        status.fits = self.fits.all.clone();
        status.nodes = self.node_status();
        status.tiers = self.moves.as_ref().map(Moves::status);
        status.exact_ns_per_page = self.prices.exact.ns_a_page().map(|ns| ns as u64);
        status.amount_ns_per_page = self.prices.amount.ns_a_page().map(|ns| ns as u64);
        status
    }

    /// What went wrong with processes in the last walk.
    pub fn troubles(&self) -> &[String] {
        &self.troubles
    }

    fn begin_walk(&mut self, observer: &mut Observer) {
        let of_process = self.members();
        if self.config.is_acting {
            // It changes with sysctls, with memory that comes and goes, and where memory is in pieces.
            self.host
                .shortage
                .set_watermark(watermark_bytes().unwrap_or(0));
            self.limits = limits::of_groups(&self.groups, std::mem::take(&mut self.limits));
            self.keep_bits(observer);
        }
        let mut pids: Vec<i32> = of_process.keys().copied().collect();
        if pids.is_empty() {
            // An observer of nobody is over, and groups may come.
            pids = vec![own_pid()];
        }
        observer.set_processes(&pids);
        self.walking = Some(Walking {
            of_process,
            cpu_ns: overhead::cpu_ns(),
        });
        self.pages.begin_walk(observer);
    }

    /// Goes on with the walk under way; returns whether it has ended, and what it found was acted on.
    fn go_on_walking(&mut self, observer: &mut Observer) -> bool {
        let Some(walking) = self.walking.take() else {
            return false;
        };
        let Some(walked) = self.pages.go_on(observer, WALK_WAIT) else {
            self.walking = Some(walking);
            return false;
        };
        self.end_walk(walking, walked, observer);
        true
    }

    fn end_walk(&mut self, walking: Walking, walked: Walked, observer: &mut Observer) {
        let Walking { of_process, cpu_ns } = walking;
        let at = walked.at;
        // What comes back during a walk the next one finds.
        let is_going_on = self.look_at_swap(observer);
        if std::mem::replace(&mut self.is_brought_back, is_going_on) || is_going_on {
            self.pages.ledger_mut().brought_back();
        }
        self.troubles = walked.troubles;
        self.nr_left_out = walked.left_out.len() as u64;
        self.news.extend(walked.news);
        let is_time_to_trim = self.pace.walked();
        self.has_walked = true;
        self.note_rests(&of_process, observer);
        self.look_at_promises(at);
        self.read_back(observer);
        self.drop_cache(at);
        self.ask_for_cache(at);
        self.no_swap = self.room_in_swap().err();
        self.choose_moves(observer);
        self.choose(observer, false);
        if is_time_to_trim {
            own_memory::give_back();
        }
        self.pace(observer.elapsed(), cpu_ns);
    }

    /// Who is in which group now; groups that are new get a number, those that are gone go.
    fn members(&mut self) -> BTreeMap<i32, GroupId> {
        let mut of_process = BTreeMap::new();
        let (all, fits) = choice::choose(&self.rules).unwrap_or_else(|error| {
            tracing::debug!("{error}");
            Default::default()
        });
        self.fits.all = fits;
        let mut before = std::mem::take(&mut self.groups);
        let named = |group: &Group| (group.name().to_owned(), group.kernel_id);
        let known: HashMap<_, _> = before.iter().map(|(id, of)| (named(of), *id)).collect();
        let taken: BTreeSet<GroupId> = before.keys().copied().collect();
        let mut free = (1..=u16::MAX).map(GroupId).filter(|id| !taken.contains(id));
        for chosen in all {
            // What is made anew under a name is another group.
            let key = (chosen.reader.name().to_owned(), chosen.reader.id().ok());
            let old = known
                .get(&key)
                .and_then(|id| Some((*id, before.remove(id)?)));
            let (id, group) = match old {
                Some((id, mut group)) => {
                    group.keep_to(chosen.rule);
                    (id, group)
                }
                None => {
                    // There are more groups than numbers.
                    let Some(id) = free.next() else {
                        continue;
                    };
                    (
                        id,
                        Group::numbered(&chosen, &mut self.nr_groups_seen, self.read),
                    )
                }
            };
            self.groups.insert(id, group);
            of_process.extend(chosen.pids.into_iter().map(|pid| (pid, id)));
        }
        for group in before.values() {
            self.caches.forget(group);
        }
        of_process
    }

    fn look_at_promises(&mut self, at: Duration) {
        let numbers: BTreeMap<GroupId, usize> = self.groups.keys().copied().zip(0..).collect();
        let spaces = self.pages.ledger().spaces();
        let of_space: BTreeMap<SpaceNo, usize> = spaces
            .filter_map(|(space, group)| Some((space, *numbers.get(&group)?)))
            .collect();
        let (counted, _) = self
            .pages
            .count(numbers.len(), |space| of_space.get(&space).copied());
        let walked = guard::Walked::of(self.pages.ledger());
        let went = self.pages.ledger().went();
        let in_turn = self.charge_turns.begin(self.groups.keys().copied());
        for ((id, group), ages) in self.groups.iter_mut().zip(counted) {
            let of_group = went.iter().filter(|one| one.group == *id);
            group.took_by_amount(at, &of_group.copied().collect::<Vec<_>>(), &ages);
            let away = self.pages.ledger().nr_taken(*id);
            group.look(at, *id, &ages, away, &walked);
            if in_turn.contains(id) {
                let splits = self.takes.as_ref().map(|takes| &takes.splits);
                let why_whole = splits.and_then(|splits| splits.why_whole(*id));
                group.look_at_kinds(at, &ages, why_whole);
            }
        }
    }

    /// When the next walk comes: after the interval, or later where walks and pageout need more than their share.
    fn pace(&mut self, now: Duration, cpu_ns: u64) {
        let earliest = self.pace.earliest(cpu_ns, self.processor_share());
        self.host.walked();
        for limit in self.limits.values_mut() {
            limit.budget.walked();
            limit.next_look = Duration::ZERO;
        }
        let interval = self.walk_interval(self.rules.walk_interval()).max(earliest);
        self.pace.next_after(now, interval);
    }

    /// The share of one processor that everything may take together.
    fn processor_share(&self) -> f64 {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let share = (self.host).cpu_share(self.config.cpu_share, self.rules.cpu_when_short.0);
        (share * processors as f64).max(1e-6)
    }
}
