//! Reclaiming ahead of the limit: the kernel chooses the pages, our thread pays for it.
//!
//! **Owns** `memory.reclaim` (v2), `memory.force_empty` and the dip of `memory.limit_in_bytes` (v1). **Does not own**
//! when and how much.
//!
//! **Invariants**
//! - R1: a dip never goes lower than one step (`LimitDistances::line_distance_bytes`) below the budget, or below the line
//!   where the limit stands at that (see `line`).
//! - R2: a dip is undone before the function returns, whatever happens, to the limit wanted *then*
//!   (another thread may have raised it meanwhile).
//! - R3: a dip takes [`DIP_TIME_MAX`] at most, a call on v1 that dips [`RECLAIM_TIME_MAX`] and one dip.
//! - R4: no dip while tasks wait for memory, and none while swap is full unless file pages suffice.
//!
//! On v1 the kernel lowers the limit only once usage has come below it; until then the old limit
//! stands, so the group is squeezed for the moment between two writes of ours, not for as long as
//! reclaim takes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::file::{children, lock};
use super::{BudgetGroup, CgroupError, ControlFile, GroupReader, ReclaimError, UNLIMITED};
use crate::addr::PAGE_BYTES;
use crate::sys::deadline::{Deadline, Interrupted};
use strata_lru::machine::{CgroupVersion as Version, GroupStats};

/// Where an amount is asked for on v2.
const RECLAIM_FILE: &str = "memory.reclaim";
/// No single dip asks for more: against a program that pulls pages back as fast as they go, small
/// gains can be had where large ones can't.
const DIP_CHUNK_BYTES: u64 = 1 << 20;
/// The kernel tries as long as it makes progress, which against such a program is for ever (minutes
/// were seen); then a dip ends without success.
const DIP_TIME_MAX: Duration = Duration::from_millis(50);
/// A call ends after the dip that passes this, and taking a part of a group is interrupted then, whatever was asked.
const RECLAIM_TIME_MAX: Duration = Duration::from_millis(500);
/// Usage is brought down to a limit that the kernel alone is to hold within this time, or not at all.
const LOWER_TIME_MAX: Duration = Duration::from_secs(10);
/// A dip for file pages alone needs this many times what is asked on the kernel's lists.
const FILE_MARGIN: u64 = 2;

/// What takes all of a group on v1.
const EMPTY_FILE: &str = "memory.force_empty";
/// How often usage is read meanwhile: a kernel that takes page cache takes a few hundred pages in that time.
const LOOK_PAUSE: Duration = Duration::from_micros(200);
/// How often a call that is over is interrupted again.
const OVER_PAUSE: Duration = Duration::from_millis(10);
/// A call for so many pages is interrupted after this for each: a few times what compressing one takes. Slab is freed later (RCU), so usage
/// may not fall in time.
const PAGE_TIME_MAX: Duration = Duration::from_micros(40);
/// How often all of a group is asked for: what was accessed before goes at the second time.
const ROUNDS_MAX: u32 = 4;
/// A round that brought less is the last.
const ROUND_BYTES_MIN: u64 = 1 << 20;

/// How the kernel answered a dip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dip {
    /// Usage came down to it.
    Lowered,
    /// Nothing more could be reclaimed.
    Refused,
    /// Usage did not come down in time.
    TimedOut,
}

/// Where the kernel is asked to take of a group.
fn take_file(group: &GroupReader) -> PathBuf {
    group.path().join(match group.version() {
        Version::V2 => RECLAIM_FILE,
        Version::V1 => EMPTY_FILE,
    })
}

/// Whether the kernel can be asked for an amount of a group alone: where no group is below it.
pub fn is_reclaimed_by_amount(group: &GroupReader) -> bool {
    take_file(group).exists() && children(group.path()).next().is_none()
}

/// What the kernel is asked to reclaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    /// So much.
    pub bytes: u64,
    /// How anonymous memory is weighed against files, 0 to 200; `None`: as the group has it.
    pub swappiness: Option<u8>,
}

impl Amount {
    /// The request, with the word that newer kernels (6.9) know, and what an older one is asked instead: nothing where no
    /// anonymous memory may go.
    fn words(self) -> (String, Option<String>) {
        let bytes = self.bytes.to_string();
        match self.swappiness {
            None => (bytes, None),
            Some(swappiness) => {
                let with = format!("{bytes} swappiness={swappiness}");
                (with, (swappiness > 0).then_some(bytes))
            }
        }
    }
}

/// Has the kernel reclaim an amount of a group now, in this thread; returns the bytes it freed, which may be less. A kernel
/// that can't be told the swappiness goes by its own, unless that is to be 0: then it is not asked.
///
/// # Errors
/// [`ReclaimError::NothingReclaimable`]: back off. [`ReclaimError::NotByKind`]: never ask so. Or the group failed.
pub fn reclaim_from(group: &GroupReader, amount: Amount) -> Result<u64, ReclaimError> {
    let file = take_file(group);
    let bytes = amount.bytes;
    let before = group.usage_bytes().unwrap_or(0);
    let control = ControlFile::open_write(file.clone())?;
    if group.version() == Version::V1 {
        return match amount.swappiness {
            Some(0) => Err(ReclaimError::NotByKind(group.path().to_owned())),
            _ => empty_in_part(group, &control, bytes, before),
        };
    }
    let (words, older) = amount.words();
    let mut result = control.write(&words);
    if amount.swappiness.is_some() && errno_of(&result) == Some(libc::EINVAL) {
        let Some(words) = older else {
            return Err(ReclaimError::NotByKind(group.path().to_owned()));
        };
        result = control.write(&words);
    }
    let freed = before.saturating_sub(group.usage_bytes().unwrap_or(before));
    outcome_v2(&result, group.path(), &file, bytes, freed)
}

/// On v1 all of a group can be asked for, and no part: a second thread reads how much has gone, and interrupts the call. No limit
/// is touched, so whoever dies here leaves nothing behind.
fn empty_in_part(
    group: &GroupReader,
    control: &ControlFile,
    bytes: u64,
    before: u64,
) -> Result<u64, ReclaimError> {
    let failed = |source| CgroupError::io("writing", &control.path, source);
    let caller = Interrupted::this_thread().map_err(failed)?;
    let freed = || before.saturating_sub(group.usage_bytes().unwrap_or(before));
    let nr_pages = u32::try_from(bytes / PAGE_BYTES).unwrap_or(u32::MAX);
    // The kernel first waits for all processors to hand in their lists of pages.
    let time_max = PAGE_TIME_MAX
        .saturating_mul(nr_pages)
        .clamp(DIP_TIME_MAX, RECLAIM_TIME_MAX);
    let (has_returned, start) = (AtomicBool::new(false), Instant::now());
    let result = thread::scope(|scope| {
        let watch = || {
            while !has_returned.load(Ordering::SeqCst) {
                let is_over = start.elapsed() > time_max;
                // A call that waits for a disk hears no signal.
                thread::sleep(if is_over { OVER_PAUSE } else { LOOK_PAUSE });
                if is_over || freed() >= bytes {
                    caller.now();
                }
            }
        };
        let watcher = thread::Builder::new().name("strata-amount".to_owned());
        let is_watched = watcher.spawn_scoped(scope, watch);
        let result = is_watched.and_then(|_| control.write("0"));
        has_returned.store(true, Ordering::SeqCst);
        result
    });
    match (result, freed()) {
        (Err(error), _) if error.raw_os_error() != Some(libc::EINTR) => Err(failed(error).into()),
        (_, 0) => Err(ReclaimError::NothingReclaimable(group.path().to_owned())),
        (_, freed) => Ok(freed),
    }
}

/// Has the kernel take all that it can of a group and of those below, until it finds hardly anything more. Returns by how much
/// usage fell.
///
/// # Errors
/// There is no way to ask for it (the root group), or the group failed.
pub fn reclaim_all(group: &GroupReader) -> Result<u64, CgroupError> {
    let file = take_file(group);
    let control = ControlFile::open_write(file.clone())?;
    let before = group.usage_bytes().unwrap_or(0);
    let mut usage = before;
    for _ in 0..ROUNDS_MAX {
        let words = match group.version() {
            Version::V2 => usage.to_string(),
            Version::V1 => "0".to_owned(),
        };
        match control.write(&words) {
            // EAGAIN: less than asked, as ever when all is asked for. EINTR: a signal for this thread.
            Err(error) if !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => {
                return Err(CgroupError::io("writing", &file, error));
            }
            _ => {}
        }
        let now = group.usage_bytes().unwrap_or(usage);
        let fell = usage.saturating_sub(now);
        usage = now;
        if fell < ROUND_BYTES_MIN {
            break;
        }
    }
    Ok(before.saturating_sub(usage))
}

fn outcome_v2(
    result: &io::Result<()>,
    group: &Path,
    file: &Path,
    bytes: u64,
    freed: u64,
) -> Result<u64, ReclaimError> {
    match errno_of(result) {
        None => Ok(freed.max(bytes)),
        // EAGAIN: less than asked. EINTR: a signal for this thread.
        Some(libc::EAGAIN | libc::EINTR) if freed > 0 => Ok(freed),
        Some(libc::EAGAIN | libc::EINTR) => Err(ReclaimError::NothingReclaimable(group.to_owned())),
        Some(errno) => {
            let source = io::Error::from_raw_os_error(errno);
            Err(CgroupError::io("writing", file, source).into())
        }
    }
}

impl BudgetGroup {
    /// Has the kernel reclaim `bytes` of the group now, in this thread, and returns how many bytes it
    /// freed (at least; less than asked if it found less). The group may grow meanwhile, so usage
    /// need not be lower afterwards.
    ///
    /// On v1 it goes at most one step below the budget or the line, in chunks, and stops there.
    ///
    /// # Errors
    /// [`ReclaimError::NothingReclaimable`] if nothing at all could be freed: back off. The other
    /// kinds of v1 are conditions under which a dip would do harm.
    pub fn reclaim(&self, bytes: u64) -> Result<u64, ReclaimError> {
        match &self.reclaim {
            Some(file) => self.reclaim_v2(file, bytes),
            None => self.reclaim_v1(bytes),
        }
    }

    /// Sets the hard limit. Where the group uses more, the kernel reclaims that first, in this thread; programs go on meanwhile.
    ///
    /// # Errors
    /// [`CgroupError::NotLowered`] if that much can't be reclaimed within ten seconds.
    pub fn lower_limit_bytes(&self, limit_bytes: u64) -> Result<(), CgroupError> {
        let deadline = Instant::now() + LOWER_TIME_MAX;
        let mut why = "it fills up as fast as it is reclaimed".to_owned();
        loop {
            let usage_bytes = match self.set_limit_bytes(Some(limit_bytes)) {
                Err(CgroupError::LimitBelowUsage { usage_bytes, .. }) => usage_bytes,
                done => return done,
            };
            // A dip changes the limit, too.
            self.note_original(&self.limit.path, || {
                Ok(self.limit_text(self.limit.read_number()?))
            })?;
            // What a dip is measured by, for as long as it takes.
            self.budget_bytes.store(limit_bytes, Ordering::SeqCst);
            let reclaimed = self.reclaim(usage_bytes.saturating_sub(limit_bytes).max(PAGE_BYTES));
            self.budget_bytes.store(u64::MAX, Ordering::SeqCst);
            let is_stuck = match reclaimed {
                Ok(_) | Err(ReclaimError::Outpaced(_)) => false,
                Err(ReclaimError::Group(error)) => return Err(error),
                Err(error) => {
                    why = error.to_string();
                    true
                }
            };
            if is_stuck || Instant::now() >= deadline {
                return Err(CgroupError::NotLowered {
                    path: self.path.clone(),
                    limit_bytes,
                    usage_bytes,
                    why,
                });
            }
        }
    }

    fn reclaim_v2(&self, file: &ControlFile, bytes: u64) -> Result<u64, ReclaimError> {
        let before = self.usage_bytes()?;
        let swappiness = *lock(&self.reclaim_swappiness);
        let mut result = match swappiness {
            Some(value) => file.write(&format!("{bytes} swappiness={value}")),
            None => file.write(&bytes.to_string()),
        };
        if swappiness.is_some() && errno_of(&result) == Some(libc::EINVAL) {
            // This kernel does not know the word.
            *lock(&self.reclaim_swappiness) = None;
            result = file.write(&bytes.to_string());
        }
        let freed = before.saturating_sub(self.usage_bytes()?);
        outcome_v2(&result, &self.path, &file.path, bytes, freed)
    }

    fn reclaim_v1(&self, bytes: u64) -> Result<u64, ReclaimError> {
        let budget = self.budget_bytes().unwrap_or_else(|| self.wanted_limit());
        if budget >= UNLIMITED {
            return Err(ReclaimError::NoBudget(self.path.clone()));
        }
        // Where the line stands the program reclaims in its own faults; ahead of it is below it.
        let line = budget.min(self.wanted_limit());
        let floor = line.saturating_sub(self.distances.line_distance_bytes(budget));
        if self.is_under_oom()? {
            return Err(ReclaimError::UnderOom(self.path.clone()));
        }
        self.check_swap(bytes)?;
        let start = self.usage_bytes()?;
        let goal = start.saturating_sub(bytes).max(floor);
        if goal >= start {
            return Err(ReclaimError::AtFloor(self.path.clone()));
        }
        let mut usage = start;
        // The group may grow as fast as it is reclaimed: one pass over what was asked, no more.
        let (mut asked, mut freed, mut is_outpaced) = (0, 0, false);
        let start_time = Instant::now();
        while usage > goal && asked < bytes {
            let target = usage.saturating_sub(DIP_CHUNK_BYTES).max(goal);
            let chunk = usage - target;
            let dip = self.dip(target)?;
            let before = std::mem::replace(&mut usage, self.usage_bytes()?);
            let gain = match dip {
                // A limit that was lowered is proof that usage was there, whatever it is by now.
                Dip::Lowered => chunk,
                Dip::Refused | Dip::TimedOut => before.saturating_sub(usage),
            };
            freed += gain;
            asked += chunk;
            let is_hopeless = dip == Dip::Refused || gain == 0;
            if is_hopeless || start_time.elapsed() > RECLAIM_TIME_MAX {
                is_outpaced = dip == Dip::TimedOut;
                break;
            }
        }
        match freed {
            0 if is_outpaced => Err(ReclaimError::Outpaced(self.path.clone())),
            0 => Err(ReclaimError::NothingReclaimable(self.path.clone())),
            freed => Ok(freed),
        }
    }

    /// Lowers the limit to `target` and puts it back.
    fn dip(&self, target: u64) -> Result<Dip, CgroupError> {
        let target = target - target % PAGE_BYTES;
        self.heed_limit()?;
        self.note_written(&self.limit.path, target)?;
        let target = target.to_string();
        let deadline = Deadline::for_this_thread(DIP_TIME_MAX)
            .map_err(|source| CgroupError::io("bounding a change of", &self.limit.path, source))?;
        let guard = DipGuard(self);
        let result = self.dip_limit.write(&target);
        drop(guard);
        drop(deadline);
        match errno_of(&result) {
            None => Ok(Dip::Lowered),
            Some(libc::EBUSY) => Ok(Dip::Refused),
            Some(libc::EINTR) => Ok(Dip::TimedOut),
            Some(errno) => {
                let source = io::Error::from_raw_os_error(errno);
                Err(CgroupError::io("writing", &self.limit.path, source))
            }
        }
    }

    fn check_swap(&self, bytes: u64) -> Result<(), ReclaimError> {
        if !crate::swap::status::is_swap_below(bytes) {
            return Ok(());
        }
        let GroupStats { lru_file_bytes, .. } = self.stats()?;
        if lru_file_bytes.unwrap_or(0) >= bytes.saturating_mul(FILE_MARGIN) {
            return Ok(());
        }
        Err(ReclaimError::SwapFull(self.path.clone()))
    }
}

/// Puts the wanted limit back when it goes out of scope, a panic included.
struct DipGuard<'a>(&'a BudgetGroup);

impl Drop for DipGuard<'_> {
    fn drop(&mut self) {
        let is_heeded = self.0.heed_limit();
        if let Err(error) = is_heeded.and_then(|()| self.0.write_wanted_limit()) {
            // A deleted group has no limit to put back.
            tracing::warn!("limit not put back: {error}");
        }
    }
}

impl BudgetGroup {
    /// Writes the wanted limit until what was written is what is wanted.
    pub(super) fn write_wanted_limit(&self) -> Result<(), CgroupError> {
        loop {
            let wanted = self.wanted_limit_bytes.load(Ordering::SeqCst);
            self.note_written(&self.limit.path, wanted)?;
            match self.limit.write(&self.limit_text(wanted)) {
                Err(source) if source.kind() == io::ErrorKind::Interrupted => continue,
                result => {
                    result.map_err(|source| CgroupError::io("writing", &self.limit.path, source))?
                }
            }
            if self.wanted_limit_bytes.load(Ordering::SeqCst) == wanted {
                return Ok(());
            }
        }
    }
}

fn errno_of(result: &io::Result<()>) -> Option<i32> {
    result
        .as_ref()
        .err()
        .map(|error| error.raw_os_error().unwrap_or(libc::EIO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_kernel_is_asked_without_the_word_but_never_for_anonymous_memory_that_is_to_stay() {
        let words = |swappiness| {
            let bytes = 4096;
            Amount { bytes, swappiness }.words()
        };
        let text = |text: &str| text.to_owned();
        assert_eq!(words(None), (text("4096"), None));
        let older = Some(text("4096"));
        assert_eq!(words(Some(60)), (text("4096 swappiness=60"), older));
        assert_eq!(words(Some(0)), (text("4096 swappiness=0"), None));
    }
}
