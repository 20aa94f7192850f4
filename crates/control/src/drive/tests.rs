//! The order of a tick, on a memory that does what a test says and keeps a list of what it was asked.

mod memory;

use super::*;
use crate::control::{self, tests::MIB};
use crate::sample::{Actuator, ActuatorReport};
use crate::{Config, Setup};
use memory::{Asked, Memory, sure};

const USAGE_BYTES: u64 = 319 * MIB;

fn plan(action: Action) -> Plan {
    Plan {
        actions: vec![action],
        wait_ms: 5,
        ..Plan::default()
    }
}

/// Where only the kernel reclaims.
fn setup(min_ttl_ms: u64) -> Setup {
    Setup {
        min_ttl_ms,
        is_exact: false,
        has_pageout: false,
        ..control::tests::setup(320 * MIB, Actuator::Reclaim)
    }
}

#[test]
fn the_oldest_go_and_one_walk_at_most_helps() {
    let mut memory = Memory::new();
    memory.oldest = [
        Isolated::Again,
        Isolated::NeedsAgeing,
        Isolated::NeedsAgeing,
        Isolated::NeedsAgeing,
    ]
    .into();
    // A walk came a moment ago: it would tell nothing new.
    sure(walk(&mut memory, TimeMs(0), USAGE_BYTES, false));
    memory.take_asked();
    let standing = sure(evict(&mut memory, TimeMs(5), USAGE_BYTES, 64));
    assert_eq!(standing, Standing::Fine);
    assert_eq!(memory.take_asked(), [Asked::Oldest, Asked::Oldest]);
    // Now it may come, and what the engine still can't give has to wait for the next tick.
    let standing = sure(evict(&mut memory, TimeMs(2000), USAGE_BYTES, 64));
    assert_eq!(standing, Standing::Fine);
    let asked = memory.take_asked();
    let nr_walks = asked.iter().filter(|of| matches!(of, Asked::Walk { .. }));
    assert_eq!(nr_walks.count(), 1, "{asked:?}");
}

#[test]
fn empty_is_believed_after_a_walk_only() {
    let mut memory = Memory::new();
    memory.view.rest_us = 1;
    memory.oldest = [Isolated::Empty, Isolated::Empty].into();
    let standing = sure(evict(&mut memory, TimeMs(0), USAGE_BYTES, 64));
    assert_eq!(standing, Standing::NothingEvictable);
    let asked = memory.take_asked();
    let order = [
        Asked::Oldest,
        Asked::Walk { is_thorough: false },
        Asked::Oldest,
    ];
    let seen: Vec<&Asked> = asked.iter().filter(|of| order.contains(of)).collect();
    assert_eq!(
        seen,
        order.iter().collect::<Vec<_>>(),
        "clearing rests, and a look finds what is new"
    );
}

#[test]
fn an_engine_that_asks_to_be_asked_again_is_not_asked_for_ever() {
    let mut memory = Memory::new();
    memory.oldest = std::iter::repeat_n(Isolated::Again, 1000).collect();
    let standing = sure(evict(&mut memory, TimeMs(0), USAGE_BYTES, 64));
    let nr_asked = memory
        .take_asked()
        .iter()
        .filter(|of| **of == Asked::Oldest)
        .count();
    assert_eq!(
        (standing, nr_asked),
        (Standing::Fine, ISOLATE_TRIES as usize)
    );
}

#[test]
fn an_engine_that_can_not_go_on_has_nothing_evictable() {
    let mut memory = Memory::new();
    let standing = sure(evict(&mut memory, TimeMs(0), USAGE_BYTES, 64));
    assert_eq!(standing, Standing::NothingEvictable);
}

#[test]
fn pages_are_not_asked_for_while_some_are_out_and_nothing_to_take_makes_the_loop_wait() {
    let mut memory = Memory::new();
    memory.view.is_batch_out = true;
    // A walk has been made: that one is not due.
    sure(walk(&mut memory, TimeMs(0), USAGE_BYTES, false));
    memory.take_asked();
    let page_out = |memory: &mut Memory, ms| {
        let plan = plan(Action::PageOut { nr_pages: 64 });
        sure(carry_out(memory, TimeMs(ms), USAGE_BYTES, plan))
    };
    let ticked = page_out(&mut memory, 1);
    assert_eq!((memory.take_asked(), ticked.wait_ms), (Vec::new(), 5));
    memory.view.is_batch_out = false;
    memory.oldest = [Isolated::Thrashing].into();
    let ticked = page_out(&mut memory, 2);
    assert_eq!(ticked.standing, Standing::Thrashing);
    assert_eq!(memory.take_asked(), [Asked::Oldest]);
    let again = page_out(&mut memory, 3);
    assert!(again.wait_ms > ticked.wait_ms, "{again:?} after {ticked:?}");
}

#[test]
fn the_kernel_is_not_asked_for_what_min_ttl_protects_nor_while_it_finds_nothing() {
    let ask = plan(Action::Reclaim { bytes: MIB });
    let asked = |memory: &mut Memory, ms| {
        let ticked = sure(carry_out(memory, TimeMs(ms), USAGE_BYTES, ask.clone()));
        (
            memory.take_asked().contains(&Asked::Kernel(MIB)),
            ticked.standing,
        )
    };
    let mut memory = Memory::of(Control::new(setup(1000), &Config::default()));
    assert_eq!(asked(&mut memory, 0), (true, Standing::Fine));
    memory.view.is_all_young = true;
    assert_eq!(asked(&mut memory, 1), (false, Standing::Thrashing));
    let mut memory = Memory::of(Control::new(setup(0), &Config::default()));
    memory.view.is_all_young = true;
    assert_eq!(
        asked(&mut memory, 0),
        (true, Standing::Fine),
        "nothing is promised"
    );
    memory
        .control
        .hear(TimeMs(1), ActuatorReport::KernelFoundNothing);
    assert_eq!(asked(&mut memory, 2), (false, Standing::Fine));
    let noted = Note::AskKernel {
        bytes: MIB,
        is_taken: false,
    };
    assert_eq!(memory.take_notes().last(), Some(&noted));
}

#[test]
fn a_walk_that_has_to_wait_for_clearing_is_asked_again_at_the_next_tick() {
    let mut memory = Memory::new();
    memory.view.rest_us = 700;
    let nothing = || Plan::default();
    sure(carry_out(&mut memory, TimeMs(0), USAGE_BYTES, nothing()));
    assert_eq!(memory.take_asked(), [Asked::WalkPutOff]);
    memory.view.rest_us = 0;
    sure(carry_out(&mut memory, TimeMs(1), USAGE_BYTES, nothing()));
    assert_eq!(
        memory.take_asked()[..2],
        [Asked::Walk { is_thorough: false }, Asked::Aged]
    );
    let walk = Note::Walk {
        is_thorough: false,
        clear: None,
        sample: WalkSample::default(),
    };
    assert_eq!(memory.take_notes(), [walk]);
    sure(carry_out(&mut memory, TimeMs(2), USAGE_BYTES, nothing()));
    assert_eq!(memory.take_asked(), [], "nothing has moved since");
}

#[test]
fn what_the_engine_gives_is_sent() {
    let mut memory = Memory::new();
    memory.oldest = [Isolated::Pages(48)].into();
    let standing = sure(evict(&mut memory, TimeMs(0), USAGE_BYTES, 48));
    assert_eq!(standing, Standing::Fine);
    assert_eq!(memory.take_asked().last(), Some(&Asked::Sent(48)));
    let answer = Isolated::Pages(48);
    let noted = Note::Isolate {
        nr_pages: 48,
        answer,
    };
    assert_eq!(memory.take_notes(), [noted]);
}

/// Whether a tick with this plan makes a walk, so long after the last one.
fn walks_after(memory: &mut Memory, ms: u64, plan: Plan) -> bool {
    sure(walk(memory, TimeMs(0), USAGE_BYTES - MIB, false));
    memory.take_asked();
    sure(carry_out(memory, TimeMs(ms), USAGE_BYTES, plan));
    let is_walk = |asked: &Asked| matches!(asked, Asked::Walk { .. });
    memory.take_asked().iter().any(is_walk)
}

#[test]
fn a_walk_comes_when_the_engine_wants_a_generation() {
    let setup = Setup {
        has_kernel: false,
        ..control::tests::setup(320 * MIB, Actuator::Pageout)
    };
    for is_due in [true, false] {
        let mut memory = Memory::of(Control::new(setup, &Config::default()));
        (memory.view.is_batch_out, memory.view.is_ageing_due) = (true, is_due);
        let has_walked = walks_after(&mut memory, 500, plan(Action::PageOut { nr_pages: 64 }));
        assert_eq!(has_walked, is_due);
    }
}

#[test]
fn a_walk_that_takes_several_ticks_goes_on_in_each_and_ends_once() {
    let mut memory = Memory::new();
    memory.nr_ticks_of_walk = 2;
    assert!(!sure(walk(&mut memory, TimeMs(0), USAGE_BYTES, true)));
    let plan = || plan(Action::LimitPageout { percent_max: 9 });
    let ticked = sure(carry_out(&mut memory, TimeMs(1), USAGE_BYTES, plan()));
    assert_eq!(ticked.wait_ms, WALKING_WAIT_MS, "it is under way");
    assert!(!memory.take_asked().contains(&Asked::Aged));
    let ticked = sure(carry_out(&mut memory, TimeMs(2), USAGE_BYTES, plan()));
    assert_eq!(ticked.wait_ms, 5, "as planned");
    let asked = memory.take_asked();
    assert_eq!(asked.last(), Some(&Asked::Aged), "{asked:?}");
    let noted = memory.take_notes().into_iter();
    assert_eq!(
        noted
            .filter(|note| matches!(note, Note::Walk { .. }))
            .count(),
        1
    );
}
