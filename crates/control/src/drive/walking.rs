//! Walks: before, during and after one.
//!
//! **Owns** the order of things around a walk. **Does not own** when one comes (`walks`), the walk itself (the mechanism),
//! nor what is done after it (`beside`, `evict`).

use super::Mechanism;
use super::beside::{prefetch, tell};
use super::evict::rank;
use crate::control::WalkLook;
use crate::trace::{ClearIntent, WalkAsk, WalkEnd, WalkPlan, WalkSample};
use strata_lru::TimeMs;

pub(super) fn walk_if_due<M: Mechanism>(
    on: &mut M,
    now: TimeMs,
    usage_bytes: u64,
    is_pageout_wanted: bool,
) -> Result<(), M::Error> {
    let look = WalkLook {
        usage_bytes,
        nr_resident_pages: on.nr_resident_pages(),
        busy: on.busy(),
        is_splitting: on.is_splitting(),
        is_pageout_wanted,
        is_ageing_due: is_pageout_wanted && !on.control().has_heat() && is_ageing_due(on),
    };
    let Some(pause_ms) = on.control().walk_pause_ms(now, &look) else {
        return Ok(());
    };
    if may_walk(on, now, pause_ms) {
        return walk(on, now, usage_bytes);
    }
    on.put_off_walk(now);
    Ok(())
}

/// Whether a walk may come that clears, where walks are to be so far apart.
pub fn may_walk<M: Mechanism>(on: &mut M, now: TimeMs, pause_ms: u64) -> bool {
    // Sooner it would not clear, and what was used since would not be told from what was used before.
    let rest_us = on.rest_us(now);
    let may_come = rest_us == 0 && on.control().may_look(now, pause_ms);
    let ask = WalkAsk {
        pause_ms,
        rest_us,
        may_come,
    };
    on.recorder().note(|tick| tick.plan.walk_asks.push(ask));
    may_come
}

/// Whether the engine wants a new generation.
fn is_ageing_due<M: Mechanism>(on: &mut M) -> bool {
    let is_due = on.is_ageing_due();
    on.recorder()
        .note(|tick| tick.sample.is_ageing_due = Some(is_due));
    is_due
}

/// Walks all programs; a new generation is born if it is time.
///
/// # Errors
/// The mechanism's: the run can't go on.
pub fn walk<M: Mechanism>(on: &mut M, now: TimeMs, usage_bytes: u64) -> Result<(), M::Error> {
    look(on, now, false)?;
    let (nr_resident_pages, busy) = (on.nr_resident_pages(), on.busy());
    if on.control().is_ageing(now, nr_resident_pages, busy) {
        on.control_mut().note_ageing(now);
        on.age(now)?;
    } else {
        on.end_look();
        note_walk_end(on, WalkEnd::Look);
    }
    after_walk(on, now, usage_bytes);
    Ok(())
}

/// Visits all programs; the caller ends the walk. `is_thorough`: those that have not run, too.
///
/// # Errors
/// The mechanism's: the run can't go on.
pub fn look<M: Mechanism>(on: &mut M, now: TimeMs, is_thorough: bool) -> Result<(), M::Error> {
    on.prepare_walk(now);
    let is_thorough = on.control_mut().begin_walk() || is_thorough;
    let is_for_pageout = on.control().is_clearing_for_pageout();
    let visit = on.visit(now, is_thorough, is_for_pageout)?;
    on.control_mut().note_walk_cost(visit.cpu_ns, visit.wall_ns);
    let intent = match is_for_pageout {
        true => ClearIntent::Pageout,
        false => ClearIntent::Watch,
    };
    on.recorder().note(|tick| {
        let found = on.found();
        tick.sample.walks.push(WalkSample {
            nr_spaces: visit.nr_spaces,
            nr_spaces_skipped: visit.nr_spaces_skipped,
            nr_entries: visit.nr_entries,
            cpu_ns: visit.cpu_ns,
            wall_ns: visit.wall_ns,
            pace_ms: on.pace_ms(),
            found: found.all,
            programs: found.programs,
            foretold: on.foretold().into(),
        });
        tick.plan.walks.push(WalkPlan {
            is_thorough,
            clear: visit.has_cleared.then_some(intent),
            then: WalkEnd::Age,
        });
    });
    Ok(())
}

/// All that follows a walk: the coldest are ranked, the kernel is told, and pages are read in.
pub fn after_walk<M: Mechanism>(on: &mut M, now: TimeMs, usage_bytes: u64) {
    rank(on, now, usage_bytes);
    on.kept_mut().is_telling_due = true;
    tell_when_cleared(on, now);
    prefetch(on, now);
    on.control_mut().end_walk(now, usage_bytes);
    on.end_walk(now);
}

/// Tells the kernel what the last walk showed, as soon as clearing does not move pages any more.
pub(super) fn tell_when_cleared<M: Mechanism>(on: &mut M, now: TimeMs) {
    let is_clearing = on.is_clearing();
    if on.kept_mut().is_telling_due && !is_clearing {
        on.kept_mut().is_telling_due = false;
        tell(on, now);
    }
    on.recorder()
        .note(|tick| tick.sample.is_clearing = is_clearing);
}

/// Notes what follows the walk that was noted last.
pub fn note_walk_end<M: Mechanism>(on: &M, then: WalkEnd) {
    on.recorder().note(|tick| {
        if let Some(walk) = tick.plan.walks.last_mut() {
            walk.then = then;
        }
    });
}
