//! What is done beside reclaim, carried out: hints for the kernel, and reading ahead.
//!
//! **Owns** what is asked of the strategies and when, and telling them what became of it. **Does not own** what is to be
//! done (`control`), nor which pages are warm, cold or belong together (the mechanism).

use super::Mechanism;
use crate::plan::Action;
use crate::sample::Reading;
use crate::strategy::{Outcome, Walk};
use crate::trace::{ColdAsk, RecallAsk, TouchAsk};
use strata_lru::TimeMs;

/// After a walk: has the kernel told what is warm and what is cold.
pub(super) fn tell<M: Mechanism>(on: &mut M, now: TimeMs) {
    let (nr_resident_pages, busy) = (on.nr_resident_pages(), on.busy());
    let wanted_ms = on.control().telling_walk_ms(now, nr_resident_pages, busy);
    let pace_ms = on.pace_ms();
    let walk = Walk {
        pace_ms,
        foretold: on.foretold(),
        ..Walk::default()
    };
    let actions = on.control_mut().tell(now, walk, nr_resident_pages, busy);
    let is_too_slow = wanted_ms.is_some() && actions.first() == Some(&Action::ForgetForecast);
    let mut ask = TouchAsk {
        wanted_ms: wanted_ms.unwrap_or(0),
        pace_ms,
        is_too_slow,
        ..TouchAsk::default()
    };
    for action in actions {
        let outcome = act(on, now, action);
        if let (Action::MarkAccessed { .. }, Some(outcome)) = (action, outcome) {
            (ask.nr_pages, ask.is_taken) = (Some(outcome.nr_pages), outcome.is_taken);
        }
    }
    if wanted_ms.is_some() {
        on.recorder().note(|tick| tick.plan.touches.push(ask));
    }
}

/// After a walk: judges what was read ahead, and has read in what is wanted next.
pub(super) fn prefetch<M: Mechanism>(on: &mut M, now: TimeMs) {
    let busy = on.busy();
    if !on.control().abilities().can_prefetch || busy.prefetching {
        return;
    }
    let nr_used_pages = on.take_prefetched_used();
    let walk = Walk {
        nr_used_pages: on.nr_used_pages(),
        nr_prefetched_used_pages: nr_used_pages,
        ..Walk::default()
    };
    let nr_resident_pages = on.nr_resident_pages();
    let actions = on
        .control_mut()
        .prefetch(now, walk, nr_resident_pages, busy);
    let mut ask = RecallAsk {
        nr_used_pages,
        ..RecallAsk::default()
    };
    for action in actions {
        let outcome = act(on, now, action);
        if let (Action::Prefetch { nr_pages_max }, Some(outcome)) = (action, outcome) {
            ask.nr_pages_max = Some(nr_pages_max);
            (ask.nr_pages, ask.is_taken) = (outcome.nr_pages, outcome.is_taken);
        }
    }
    on.recorder().note(|tick| tick.plan.recalls.push(ask));
}

/// Carries an action out, and tells who wanted it what became of it.
pub fn act<M: Mechanism>(on: &mut M, now: TimeMs, action: Action) -> Option<Outcome> {
    let outcome = on.apply(now, action)?;
    on.control_mut().taken_up(now, action, outcome);
    if let Action::Deactivate { nr_pages } = action {
        let ask = ColdAsk {
            nr_wanted_pages: nr_pages,
            nr_pages: outcome.nr_pages,
            nr_programs: outcome.nr_programs,
            is_taken: outcome.is_taken,
        };
        on.recorder().note(|tick| tick.plan.cold.push(ask));
    }
    Some(outcome)
}

/// Looks how long the kernel's lists are, and tells whether its counts are to be read.
pub fn look_at_lists<M: Mechanism>(on: &mut M, now: TimeMs, usage_bytes: u64) -> Reading {
    if !on.control().abilities().can_deactivate {
        return Reading::Paced;
    }
    let lists = match on.control().is_looking_at_lists(now) {
        true => on.kernel_lists(),
        false => None,
    };
    let is_deactivating = on.busy().deactivating;
    let (may_deactivate, reading) =
        on.control_mut()
            .take_lists(now, lists, usage_bytes, is_deactivating);
    on.allow_deactivation(may_deactivate);
    on.recorder().note_limit(|sample, plan| {
        sample.lists = lists.map(Into::into);
        sample.is_naming = is_deactivating;
        plan.may_name = may_deactivate;
    });
    reading
}
