//! One group that is looked after: its promise and its sums.
//!
//! **Owns** what is known of the group between two walks. **Does not own** its processes (`choice`) and their pages
//! (the ledger).

use super::by_amount::Fares;
use super::cache::OfGroup;
use super::choice::Chosen;
use super::kinds::{ByKind, Silence};
use super::promised::Promised;
use super::rules::Rule;
use super::status::{GroupStatus, WhyNotMore};
use super::waits::{self, Waits};
use crate::news::News;
use crate::observe::ledger::{Ages, KindBytes, Kinds, OnNodes};
use crate::observe::programs::Label;
use std::collections::BTreeMap;
use std::time::Duration;
use strata_control::growth::Growth;
use strata_control::guard::{self, Counted, Leaning, Offer, Walked};
use strata_control::last_resort::{Exposed, WhenShort};
use strata_control::page_cache::NR_CACHE_CLASSES;
use strata_control::promise::{PromiseHolder, Standing};
use strata_control::quiet::{Quiet, Seen};
use strata_control::split_huge::StaysWhole;
use strata_linux::addr::PAGE_BYTES;
use strata_linux::cgroup::GroupReader;
use strata_linux::process::read_stat;
use strata_linux::units::Bytes;
use strata_lru::ages::{Aged, NrPages};
use strata_lru::machine::GroupStats;
use strata_lru::{GroupId, Kind};

/// Idle memory that can't be taken is told from a MiB on.
const WORTH_TELLING_PAGES: u64 = 256;
/// All idle memory is away where what is left of it is less than one of so many parts of what went.
const ALL_AWAY_PARTS: u64 = 10;
/// Who looks is told what was used within so many seconds.
const USED_WITHIN_S: [u64; 3] = [60, 600, 3600];

/// A group that stays above its rule's `memory` is told when that was so for so many times the least age: what is idle goes
/// within one.
const NR_AGES_STUCK: u32 = 2;

/// What asks for memory, promise or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asks {
    /// The host is short.
    OfHostNow,
    /// There is enough, and more is to be available as the host grows.
    OfHostAhead,
    /// A limit of the kernel is near.
    BelowLimit,
    /// There is more than a rule says.
    OfRule,
}

impl Asks {
    /// Whether page cache that was read once goes whatever its age.
    pub(super) fn takes_once(self) -> bool {
        matches!(self, Asks::OfHostNow | Asks::BelowLimit)
    }
}

/// What keeps a group above its rule's `memory`.
#[derive(Debug, Default)]
pub(super) struct Stuck {
    since: Option<Duration>,
    /// At the last look, if nothing of it went.
    pub(super) why: Option<WhyNotMore>,
    is_told: bool,
}

/// A group.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) reader: GroupReader,
    /// Groups that came later have a larger one.
    pub(super) number: u64,
    /// Groups that were made later have a larger one, also those that a guard found at once.
    came: u64,
    /// The inode of its directory; `None`: it was gone as soon as it was found.
    pub(super) kernel_id: Option<u64>,
    /// Its page cache that nobody maps.
    pub(super) cache: OfGroup,
    /// How long its tasks wait for memory.
    waits: Waits,
    /// What a page takes to be read back from swap, where that was measured.
    pub(super) read: Option<Duration>,
    /// The group is frozen, because the host is short of memory.
    pub(super) is_frozen: bool,
    /// The group is slowed for that.
    pub(super) is_slowed: bool,
    /// What it has in swap, bytes, where it is parked.
    pub(super) parked_bytes: Option<u64>,
    /// For how long it has been idle, where it is to be parked then.
    quiet: Quiet,
    pub(super) idle_for: Duration,
    /// For how long none of its processes has run, as of the last walk.
    pub(super) rests_for: Duration,
    /// What holds for it.
    pub(super) rule: Rule,
    /// What the kernel does not reclaim of it (`memory.low`, `memory.min`).
    protected_bytes: u64,
    /// How the kernel's own choice fares.
    pub(super) fares: Fares,
    pub(super) holder: PromiseHolder,
    resident: NrPages,
    used_lately: NrPages,
    used_within: BTreeMap<u64, u64>,
    shared: NrPages,
    unknown: NrPages,
    /// Not accessed for the age that counts as idle.
    pub(super) idle: NrPages,
    away: NrPages,
    could: NrPages,
    /// Taken page by page since the walk.
    went: NrPages,
    /// Stayed since the walk, although it was to go.
    nr_refused_pages: u64,
    /// Between the last two walks more of what was to go stayed than went.
    is_refused: bool,
    nr_taken_pages: u64,
    /// Part of these by amount.
    nr_amount_pages: u64,
    nr_returned_pages: u64,
    growth: Growth,
    why_not_more: Option<WhyNotMore>,
    /// It holds more than its rule's `memory`, and nothing of that goes.
    pub(super) stuck: Stuck,
    by_kind: ByKind,
    silence: Silence,
    /// In memory on each memory node, by the kernel's number, bytes.
    pub(super) on_nodes: OnNodes,
}

impl Group {
    /// The next one of those that were looked after so far; a page is read back from swap in so long.
    pub(super) fn numbered(
        chosen: &Chosen<'_>,
        nr_groups_seen: &mut u64,
        read: Option<Duration>,
    ) -> Group {
        *nr_groups_seen += 1;
        Group {
            number: *nr_groups_seen,
            read,
            ..Group::new(chosen)
        }
    }

    pub(super) fn new(chosen: &Chosen<'_>) -> Group {
        Group {
            reader: chosen.reader.clone(),
            number: 0,
            came: chosen.came,
            kernel_id: chosen.reader.id().ok(),
            cache: OfGroup::default(),
            waits: Waits::default(),
            read: None,
            is_frozen: false,
            is_slowed: false,
            parked_bytes: None,
            quiet: Quiet::default(),
            idle_for: Duration::ZERO,
            rests_for: Duration::ZERO,
            rule: chosen.rule.clone(),
            protected_bytes: chosen.reader.protected_bytes(),
            fares: Fares::default(),
            holder: PromiseHolder::new(chosen.rule.promise_of(0, None)),
            resident: NrPages::default(),
            used_lately: NrPages::default(),
            used_within: BTreeMap::new(),
            shared: NrPages::default(),
            unknown: NrPages::default(),
            idle: NrPages::default(),
            away: NrPages::default(),
            could: NrPages::default(),
            went: NrPages::default(),
            nr_refused_pages: 0,
            is_refused: false,
            nr_taken_pages: 0,
            nr_amount_pages: 0,
            nr_returned_pages: 0,
            growth: Growth::default(),
            why_not_more: None,
            stuck: Stuck::default(),
            by_kind: ByKind::default(),
            silence: Silence::default(),
            on_nodes: OnNodes::new(),
        }
    }

    /// Path below the mount of the hierarchy.
    pub(super) fn name(&self) -> &str {
        self.reader.name()
    }

    /// The group is there still, and this rule holds for it.
    pub(super) fn keep_to(&mut self, rule: &Rule) {
        self.protected_bytes = self.reader.protected_bytes();
        if self.rule != *rule {
            self.rule = rule.clone();
            self.stuck = Stuck::default();
            self.silence = Silence::default();
            let nr_pages = self.resident.total() + self.away.total();
            self.holder.promise(rule.promise_of(nr_pages, self.read));
        }
    }

    /// How the kernel is to weigh anonymous memory against files of it, where a rule says so.
    pub(super) fn swappiness(&self) -> Option<u8> {
        self.rule.swappiness
    }

    /// Which kind of its pages goes first.
    pub(super) fn leaning(&self) -> Leaning {
        Leaning::of(self.rule.swappiness)
    }

    /// Its promise allows nothing more now: below a limit the kernel chooses better, which knows what it has read back.
    pub(super) fn is_used_up(&self) -> bool {
        self.is_promised() && !self.is_frozen && self.holder.is_used_up()
    }

    /// As it stands where the host stays short.
    pub(super) fn exposed(&self, group: GroupId) -> Exposed {
        Exposed {
            group,
            when_short: self.rule.when_short,
            priority: self.rule.priority,
            came: self.came,
            used_lately_bytes: self.used_lately.total() * PAGE_BYTES,
            resident_bytes: self.resident.total() * PAGE_BYTES,
            steady_growth_bytes_per_s: self.growth.steady_bytes_per_s(),
            is_held: self.is_frozen || self.is_slowed,
        }
    }

    /// Whether idle memory is taken of it.
    pub(super) fn is_promised(&self) -> bool {
        self.rule.promise.is_some()
    }

    /// Pages that the group holds beyond its rule's `memory`, as the kernel counts now.
    pub(super) fn over_pages(&mut self) -> u64 {
        let over = self.rule.memory_bytes.and_then(|memory_bytes| {
            let usage_bytes = self.reader.usage_bytes()?;
            Some(usage_bytes.saturating_sub(memory_bytes))
        });
        let nr_pages = over.unwrap_or(0).div_ceil(PAGE_BYTES);
        if nr_pages == 0 {
            (self.stuck.since, self.stuck.why) = (None, None);
        }
        nr_pages
    }

    /// It holds so many pages more than its rule's `memory`, of which so many go. Returns what is to be told of that, once.
    pub(super) fn stays_over(
        &mut self,
        at: Duration,
        nr_over_pages: u64,
        nr_going_pages: u64,
        no_swap: Option<WhyNotMore>,
    ) -> Option<News> {
        if nr_going_pages >= nr_over_pages.min(WORTH_TELLING_PAGES) {
            (self.stuck.since, self.stuck.why) = (None, None);
            return None;
        }
        let why = match no_swap {
            Some(no_swap) if self.could.anon > 0 => no_swap,
            _ if self.beyond_reach().total() * 2 > nr_over_pages => WhyNotMore::SharedOrLocked,
            _ if self.cache_above_low_pages() == 0 => WhyNotMore::Low,
            _ => WhyNotMore::InUse,
        };
        self.stuck.why = Some(why);
        let since = *self.stuck.since.get_or_insert(at);
        let is_long = at.saturating_sub(since) >= self.rule.min_age * NR_AGES_STUCK;
        if !is_long || std::mem::replace(&mut self.stuck.is_told, true) {
            return None;
        }
        let told = match why {
            WhyNotMore::InUse => {
                let min_age = self.rule.min_age;
                format!("what is beyond was used within its least age of {min_age:?}, and stays")
            }
            why => format!("what is beyond stays: {}", why.name()),
        };
        Some(News::Warning(format!(
            "{} holds {}, and memory = {} in its rule: {told}",
            self.name(),
            Bytes(self.reader.usage_bytes().unwrap_or(0)),
            Bytes(self.rule.memory_bytes.unwrap_or(0)),
        )))
    }

    /// Idle, but not to be taken page by page.
    pub(super) fn beyond_reach(&self) -> NrPages {
        self.idle_beyond(self.could)
    }

    /// Idle, but for what can be taken page by page.
    pub(super) fn idle_beyond(&self, could: NrPages) -> NrPages {
        NrPages {
            anon: self.idle.anon.saturating_sub(could.anon),
            file: self.idle.file.saturating_sub(could.file),
        }
    }

    /// A walk found this in memory, and this away.
    pub(super) fn look(
        &mut self,
        at: Duration,
        id: GroupId,
        ages: &Ages,
        away: NrPages,
        walked: &Walked,
    ) {
        let returned = walked.returned(id);
        self.resident = pages_of(ages.resident());
        self.shared = pages_of(ages.shared());
        self.unknown = pages_of(ages.unknown());
        self.on_nodes.clone_from(ages.on_nodes());
        self.away = away;
        let nr_refused = std::mem::take(&mut self.nr_refused_pages);
        self.is_refused = nr_refused > self.went.total().max(WORTH_TELLING_PAGES);
        self.went = NrPages::default();
        let (nr_returned, read_again) = self.cache.look();
        let returned = sum(returned, nr_returned);
        self.nr_returned_pages += returned.total();
        self.look_at_waits(at);
        let resident = sum(self.resident, self.cache.cached().unwrap_or(0));
        let all_away = sum(away, self.cache.away());
        if self.is_promised_by_time() {
            let footprint = resident.total() + all_away.total();
            self.holder
                .promise(self.rule.promise_of(footprint, self.read));
        }
        let counted = Counted {
            resident,
            away: all_away,
            returned,
            cache_idle_for: &|age| self.cache.idle_for(age),
            cache_used_after: &|age| read_again.after(age),
        };
        walked.look(&mut self.holder, at, id, counted);
        self.idle = guard::idle(&self.holder, |age| pages_of(ages.idle_for(age)));
        let age = self.holder.age(Kind::Anon);
        self.used_lately = pages_of(ages.accessed_within(age));
        let used_within = |seconds| {
            let used = pages_of(ages.accessed_within(Duration::from_secs(seconds)));
            (seconds, used.total() * PAGE_BYTES)
        };
        self.used_within = USED_WITHIN_S.map(used_within).into();
        self.look_at_quiet(at, ages);
    }

    /// To be called at each look at the host: how a group grows that may be held back, while the host is near short of memory. The kernel tells at
    /// one moment what is in memory and what in swap, whoever put it there: what goes to swap is no growth, and what grows there is.
    pub(super) fn look_at_growth(&mut self, at: Duration, is_near: bool) {
        if !is_near || self.rule.when_short == WhenShort::None {
            self.growth = Growth::default();
        } else if self.growth.is_due(at)
            && let Some(held_bytes) = self.reader.stats().ok().as_ref().and_then(held_bytes)
        {
            self.growth.look(at, held_bytes);
        }
    }

    /// Of the pages that a walk found, which kind each is, by what the kernel charges to the group, and why huge pages stay whole.
    pub(super) fn look_at_kinds(
        &mut self,
        at: Duration,
        ages: &Ages,
        why_whole: Option<StaysWhole>,
    ) {
        let cache = |idle_at| self.cache.seen(idle_at);
        (self.by_kind).look(at, &self.reader, ages, &self.holder, cache);
        let kinds = self.by_kind.kinds.iter_mut();
        kinds.for_each(|of| of.stays_whole(why_whole.map(StaysWhole::name)));
    }

    /// What it holds by kind, and why what is idle stays.
    fn kinds(&self) -> Kinds {
        let why = self.why_not_more;
        let mut kinds = self.by_kind.kinds.clone();
        (kinds.iter_mut())
            .for_each(|of| of.stays_with_group(why.map(|why| why.of_kind(of.kind).name())));
        kinds
    }

    /// To be called after each walk of a guard that acts: what it could give, and why it does not, where that is to be told.
    pub(super) fn look_at_silence(&mut self, at: Duration) -> Option<(u64, WhyNotMore)> {
        let idle_cache = self.cache.older_than(self.holder.age(Kind::File));
        let is_to_give =
            self.is_promised() && self.parked_bytes.is_none() && self.above_low_pages() > 0;
        let nr_could = match is_to_give {
            true => self.could.total() + idle_cache.unwrap_or(0),
            false => 0,
        };
        let is_told = self.silence.look(at, nr_could, self.nr_taken_pages);
        Some((nr_could * PAGE_BYTES, self.why()?)).filter(|_| is_told)
    }

    /// What keeps it from giving more; where nothing goes for long, that is so of what is chosen each time, too.
    fn why(&self) -> Option<WhyNotMore> {
        let is_kept = self.silence.is_long();
        let kept = is_kept.then_some(WhyNotMore::KernelKeeps);
        self.stuck.why.or(self.why_not_more).or(kept)
    }

    /// It was idle for as long as its rule says, and is to be parked.
    pub(super) fn is_to_be_parked(&self) -> bool {
        let after = self.rule.park_after;
        self.parked_bytes.is_none() && after.is_some_and(|after| self.idle_for >= after)
    }

    fn look_at_quiet(&mut self, at: Duration, ages: &Ages) {
        if self.rule.park_after.is_none() {
            return;
        }
        // Sorted, each once.
        let pids = self.reader.own_processes().unwrap_or_default();
        let stats = pids.iter().filter_map(|pid| read_stat(*pid).ok());
        let cpu = stats.map(|stat| stat.cpu()).sum();
        let since = at - self.quiet.looked_at().unwrap_or_default();
        self.idle_for = self.quiet.look(&Seen {
            at,
            pids: &pids,
            cpu,
            nr_used_pages: pages_of(ages.accessed_within(since)).total(),
            nr_resident_pages: self.resident.total(),
        });
    }

    /// What went since the walk of what the promise has room for.
    pub(super) fn went_pages(&self) -> NrPages {
        sum(self.went, self.cache.spent())
    }

    /// Of page cache that nobody maps so much was asked for, and so much is gone.
    pub(super) fn dropped(&mut self, nr_asked: u64, nr_gone: [u64; NR_CACHE_CLASSES]) {
        self.nr_taken_pages += self.cache.went(nr_asked, nr_gone);
    }

    /// Of page cache so much was asked for by amount, and so much was freed until `at`.
    pub(super) fn went_by_amount(&mut self, at: Duration, nr_asked: u64, nr_freed: Option<u64>) {
        let nr_pages = self.cache.went_by_amount(at, nr_asked, nr_freed);
        self.nr_taken_pages += nr_pages;
        self.nr_amount_pages += nr_pages;
    }

    /// Pages of files that were read again after the kernel had reclaimed them, as it counts them; `None`: it does not tell.
    pub(super) fn nr_file_refaults(&self) -> Option<u64> {
        self.reader.stats().ok()?.nr_refault_file_pages
    }

    fn is_promised_by_time(&self) -> bool {
        matches!(self.rule.promise, Some(Promised::Slowdown(_)))
    }

    fn look_at_waits(&mut self, at: Duration) {
        let by_faults = || {
            let nr_major_faults = self.reader.stats().ok()?.nr_pgmajfault?;
            Some(waits::by_faults(nr_major_faults, self.read?))
        };
        let is_by_time = self.is_promised_by_time();
        let told = self.reader.waited_us();
        let waited_us = told.or_else(|| is_by_time.then(by_faults).flatten());
        self.waits.look(at, waited_us);
        let share = match is_by_time {
            true => self.waits.of_last_minute(),
            false => self.waits.since_last(),
        };
        if let Some(share) = share {
            self.holder.waited(share);
        }
    }

    /// A walk found that this went by amount, and this in memory.
    pub(super) fn took_by_amount(&mut self, at: Duration, went: &[Aged], ages: &Ages) {
        let nr_left_pages = pages_of(ages.resident()).total() + self.went.total();
        let nr_fewer_pages = self.resident.total().saturating_sub(nr_left_pages);
        // Half the age is no use of late; less may be.
        let used_within = self.holder.age(Kind::Anon) / 2;
        self.fares.judge(at, went, nr_fewer_pages, used_within);
        for one in went {
            self.nr_taken_pages += one.nr_pages;
            self.nr_amount_pages += one.nr_pages;
        }
    }

    /// So many pages left memory by our hand.
    pub(super) fn took(&mut self, kind: Kind, nr_pages: u64, nr_refused_pages: u64) {
        self.nr_refused_pages += nr_refused_pages;
        self.nr_taken_pages += nr_pages;
        self.went += NrPages::only(kind, nr_pages);
        match kind {
            Kind::Anon => self.away.anon += nr_pages,
            Kind::File => self.away.file += nr_pages,
        }
    }

    /// Anonymous memory that is away.
    pub(super) fn anon_away_bytes(&self) -> u64 {
        (self.away.anon * PAGE_BYTES).max(self.parked_bytes.unwrap_or(0))
    }

    /// Anonymous memory that is idle and can be taken.
    pub(super) fn idle_anon_bytes(&self) -> u64 {
        let could = self.could.anon.min(self.above_low_pages());
        could * PAGE_BYTES
    }

    /// In memory.
    pub(super) fn resident_bytes(&self) -> u64 {
        self.resident.total() * PAGE_BYTES
    }

    /// Whether its promise would let more anonymous memory go than is planned.
    pub(super) fn has_room_for_more(&self, offer: Offer) -> bool {
        let mut spent = self.went;
        spent += offer.planned;
        let has_more = offer.could.anon > offer.planned.anon;
        self.is_promised() && has_more && self.holder.room(Kind::Anon, spent) > 0
    }

    /// So much of it could be taken, and so much is: what keeps it from more?
    pub(super) fn judge(&mut self, could: NrPages, planned: NrPages, no_swap: Option<WhyNotMore>) {
        self.could = could;
        let idle_cache = self.cache.older_than(self.holder.age(Kind::File));
        let idle_cache = idle_cache.filter(|nr_pages| *nr_pages > WORTH_TELLING_PAGES);
        let left = could.total().saturating_sub(planned.total()) + idle_cache.unwrap_or(0);
        self.why_not_more = match self.holder.standing() {
            _ if !self.is_promised() => None,
            Standing::Unsettled => Some(WhyNotMore::NothingStaysIdle),
            Standing::Resting => Some(WhyNotMore::Promise),
            Standing::Kept if no_swap.is_some() && could.anon > could.total() / 2 => no_swap,
            Standing::Kept if self.is_refused => Some(WhyNotMore::KernelKeeps),
            Standing::Kept if left > 0 && self.holder.is_used_up() => Some(WhyNotMore::Promise),
            Standing::Kept if left > 0 && self.above_low_pages() == 0 => Some(WhyNotMore::Low),
            Standing::Kept if left > 0 => Some(WhyNotMore::Pace),
            Standing::Kept if self.is_all_away() => Some(WhyNotMore::AllAway),
            Standing::Kept if self.idle.total() > could.total() * 2 + WORTH_TELLING_PAGES => {
                Some(WhyNotMore::SharedOrLocked)
            }
            Standing::Kept => None,
        };
    }

    /// What is idle still is little beside what is away.
    fn is_all_away(&self) -> bool {
        let away = self.away.total() + self.cache.away();
        away > WORTH_TELLING_PAGES && self.idle.total() * ALL_AWAY_PARTS < away
    }

    pub(super) fn status(&self) -> GroupStatus {
        let idle_cache = self.cache.older_than(self.holder.age(Kind::File));
        let label = Label::of(self.name());
        GroupStatus {
            group: self.name().to_owned(),
            name: label.name(),
            pod: label.pod,
            nodes: self.on_nodes.clone(),
            promise: self.rule.promise.map(|promised| promised.to_string()),
            promise_share_per_min: match self.rule.promise {
                Some(Promised::ComesBack(share)) => Some(share),
                Some(Promised::Slowdown(_)) | None => None,
            },
            memory_bytes: self.rule.memory_bytes,
            resident_bytes: self.resident.total() * PAGE_BYTES,
            used_lately_bytes: self.used_lately.total() * PAGE_BYTES,
            used_within_bytes: self.used_within.clone(),
            idle_bytes: self.idle.total() * PAGE_BYTES,
            could_give_bytes: self.could.total() * PAGE_BYTES,
            shared_bytes: self.shared.total() * PAGE_BYTES,
            unknown_bytes: self.unknown.total() * PAGE_BYTES,
            away_bytes: self.anon_away_bytes() + (self.away.file + self.cache.away()) * PAGE_BYTES,
            away_anon_bytes: self.anon_away_bytes(),
            given_back_bytes: 0,
            cache_bytes: self.cache.cached().map(|nr_pages| nr_pages * PAGE_BYTES),
            idle_cache_bytes: idle_cache.map(|nr_pages| nr_pages * PAGE_BYTES),
            dropped_cache_bytes: self.cache.nr_dropped * PAGE_BYTES,
            taken_bytes: self.nr_taken_pages * PAGE_BYTES,
            taken_by_amount_bytes: self.nr_amount_pages * PAGE_BYTES,
            came_back_bytes: self.nr_returned_pages * PAGE_BYTES,
            came_back_per_min_bytes: self.holder.came_back().total() * PAGE_BYTES,
            allowed_per_min_bytes: self.holder.allowed_pages() * PAGE_BYTES,
            age_anon_ms: self.holder.age(Kind::Anon).as_millis() as u64,
            age_file_ms: self.holder.age(Kind::File).as_millis() as u64,
            standing: self.holder.standing(),
            is_frozen: self.is_frozen,
            is_slowed: self.is_slowed,
            is_parked: self.parked_bytes.is_some(),
            why_not_more: match self.parked_bytes {
                Some(_) => Some(WhyNotMore::Parked),
                None => self.why(),
            },
            gives_nothing: self.silence.is_long(),
            kinds: self.kinds(),
        }
    }
}

/// Anonymous and shared memory, in memory or in swap.
fn held_bytes(stats: &GroupStats) -> Option<u64> {
    Some(stats.lru_anon_bytes? + stats.swapped_out_bytes().unwrap_or(0))
}

/// With so much page cache.
fn sum(mut all: NrPages, nr_cache_pages: u64) -> NrPages {
    all += NrPages::only(Kind::File, nr_cache_pages);
    all
}

/// Bytes in memory, by kind, as pages.
fn pages_of(bytes: KindBytes) -> NrPages {
    NrPages {
        anon: bytes.anon_bytes / PAGE_BYTES,
        file: bytes.file_bytes / PAGE_BYTES,
    }
}

mod gives;
#[cfg(test)]
mod tests;
