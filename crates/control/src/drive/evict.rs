//! Evicting: the coldest first, walk by walk, then what the engine's order says; and asking the kernel.
//!
//! **Owns** how many pages are ranked after a walk and when they are used up, and how often the engine is asked within one
//! tick. **Does not own** heat or the generations (`strata_lru`), nor how much is to go (`control`).

use super::Mechanism;
use super::walking::{may_walk, walk};
use crate::limit::Standing;
use crate::sample::PAGE_BYTES;
use crate::trace::{Answer, Batch, ChosenBy, ReclaimAsk};
use crate::walks::Pause;
use strata_lru::{HEAT_WALK_MS_MIN, Isolated, NR_RANKED_PAGES_MIN, TimeMs};

/// Isolation is asked again at most so often within one tick.
const ISOLATE_TRIES: u32 = 16;

/// Asks the kernel for so many bytes, unless `min_ttl` protects everything: the engine would refuse to take any of it,
/// and the kernel, which knows no such promise, must not be asked instead.
pub(super) fn ask_kernel<M: Mechanism>(on: &mut M, now: TimeMs, bytes: u64) -> Standing {
    if on.control().min_ttl_ms() > 0 && on.is_all_young(now) {
        on.note_thrashing();
        return Standing::Thrashing;
    }
    let is_taken = on.control().may_ask_kernel(now) && on.ask_kernel(now, bytes);
    on.recorder()
        .note(|tick| tick.plan.reclaim = Some(ReclaimAsk { bytes, is_taken }));
    Standing::Fine
}

/// Takes so many pages, the coldest first.
///
/// # Errors
/// The mechanism's: the run can't go on.
pub fn evict<M: Mechanism>(
    on: &mut M,
    now: TimeMs,
    usage_bytes: u64,
    nr_pages: u64,
) -> Result<Standing, M::Error> {
    on.kept_mut().nr_attempts += 1;
    if evict_cold(on, now, usage_bytes, nr_pages)? {
        return Ok(Standing::Fine);
    }
    let mut has_walked = false;
    for _ in 0..ISOLATE_TRIES {
        let by = ChosenBy::Generations;
        let Some((answer, batch)) = on.isolate(now, nr_pages)? else {
            note_batch(on, by, Some(nr_pages), Answer::Failed, None);
            return Ok(Standing::NothingEvictable);
        };
        note_batch(on, by, Some(nr_pages), answer.into(), Some(&batch));
        match answer {
            Isolated::Pages(_) => {
                on.send(now, batch);
                return Ok(Standing::Fine);
            }
            Isolated::Again => {}
            // What appeared since the last walk is not known yet, so "empty" may be stale too.
            Isolated::NeedsAgeing | Isolated::Empty if !has_walked => {
                // Also where it would clear nothing: what is new is found, and what is old was not used since
                // something was cleared.
                let walks = on.control().config().walks;
                let may_walk = may_walk(on, now, Pause::Clearing.ms(&walks))
                    || on.control().may_look(now, Pause::Looking.ms(&walks));
                if !may_walk {
                    return Ok(Standing::Fine);
                }
                walk(on, now, usage_bytes)?;
                has_walked = true;
            }
            Isolated::NeedsAgeing => return Ok(Standing::Fine),
            Isolated::Empty => return Ok(Standing::NothingEvictable),
            Isolated::Thrashing => {
                on.note_thrashing();
                return Ok(Standing::Thrashing);
            }
        }
    }
    Ok(Standing::Fine)
}

/// Sends the coldest pages out; `false` if there are none to be had that way.
fn evict_cold<M: Mechanism>(
    on: &mut M,
    now: TimeMs,
    usage_bytes: u64,
    nr_pages: u64,
) -> Result<bool, M::Error> {
    if !on.control().has_heat() {
        return Ok(false);
    }
    let nr_ranked_folios = on.nr_ranked_folios();
    on.recorder()
        .note(|tick| tick.sample.nr_ranked_folios.push(nr_ranked_folios));
    if nr_ranked_folios == 0 && may_walk(on, now, HEAT_WALK_MS_MIN) {
        walk(on, now, usage_bytes)?;
    }
    let batch = on.isolate_cold(now, nr_pages);
    let nr_sent_folios = M::size_of(&batch).nr_folios;
    let answer = match nr_sent_folios {
        0 => Answer::Empty,
        _ => Answer::Pages,
    };
    note_batch(on, ChosenBy::Heat, Some(nr_pages), answer, Some(&batch));
    on.kept_mut().nr_taken_pages += nr_sent_folios;
    if nr_sent_folios > 0 {
        on.send(now, batch);
    }
    Ok(nr_sent_folios > 0)
}

/// Ranks the coldest pages after a walk: twice as many as were needed since the last one.
pub(super) fn rank<M: Mechanism>(on: &mut M, now: TimeMs, usage_bytes: u64) {
    if !on.control().has_heat() {
        return;
    }
    on.choose_splits(now);
    let low_bytes = on.control().marks().low_bytes;
    let excess_pages = usage_bytes.saturating_sub(low_bytes) / PAGE_BYTES;
    if excess_pages == 0 {
        return;
    }
    let nr_taken_pages = std::mem::take(&mut on.kept_mut().nr_taken_pages);
    let nr_pages = (nr_taken_pages + excess_pages) * 2;
    let nr_pages = nr_pages.max(NR_RANKED_PAGES_MIN);
    on.recorder()
        .note(|tick| tick.plan.rank_pages.push(nr_pages));
    on.rank(nr_pages);
}

/// Notes what the engine was asked for, and what it gave.
pub fn note_batch<M: Mechanism>(
    on: &M,
    by: ChosenBy,
    nr_wanted_pages: Option<u64>,
    answer: Answer,
    batch: Option<&M::Batch>,
) {
    on.recorder().note(|tick| {
        let size = batch.map(M::size_of).unwrap_or_default();
        tick.plan.batches.push(Batch {
            by,
            nr_wanted_pages,
            answer,
            nr_sent_folios: size.nr_folios,
            nr_requests: size.nr_requests,
        });
    });
}
