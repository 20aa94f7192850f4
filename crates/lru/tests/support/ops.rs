//! What can happen to an engine, and how often it is drawn.

use proptest::prelude::*;
use strata_lru::{AccessVia, Cause, GoneCause, Kind, Swappiness, WriteState};

/// Groups times nodes of every run.
pub(super) const NR_GROUPS: u8 = 2;
pub(super) const NR_NODES: u8 = 2;

/// One thing that happens to the engine. Numbers pick among what exists, modulo.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Appear {
        group: u8,
        node: u8,
        kind: Kind,
        cause: Cause,
        order: u8,
        shadow: Option<u8>,
        is_exec: bool,
    },
    Access {
        folio: u16,
        via: AccessVia,
        times: u8,
    },
    Write {
        folio: u16,
        state: WriteState,
    },
    Gone {
        folio: u16,
        cause: GoneCause,
    },
    Walk {
        group: u8,
        swappiness: u8,
    },
    Isolate {
        group: u8,
        nr_pages: u8,
        swappiness: u8,
        priority: u8,
    },
    EvictCommand {
        group: u8,
        node: u8,
        seq: u8,
        swappiness: u8,
        nr_pages: u8,
    },
    Complete {
        batch: u8,
        verdicts: u64,
    },
    MinTtl {
        is_on: bool,
    },
    Sleep {
        ms: u16,
    },
}

/// Operations with swappiness drawn from `swappiness`.
pub(crate) fn op(
    swappiness: impl Strategy<Value = u8> + Clone + 'static,
) -> impl Strategy<Value = Op> {
    let kind = prop_oneof![Just(Kind::Anon), Just(Kind::File)];
    let cause = prop_oneof![Just(Cause::Fault), Just(Cause::Read), Just(Cause::Prefetch)];
    let via = prop_oneof![Just(AccessVia::PageTable), Just(AccessVia::FileDescriptor)];
    let state = prop_oneof![Just(WriteState::Waiting), Just(WriteState::Clean)];
    let gone = prop_oneof![Just(GoneCause::Reclaimed), Just(GoneCause::Freed)];
    let order = prop_oneof![8 => Just(0u8), 1 => Just(9u8), 1 => 0..=15u8];
    let shadow = proptest::option::of(any::<u8>());
    prop_oneof![
        24 => (0..NR_GROUPS, 0..NR_NODES, kind, cause, order, shadow, any::<bool>()).prop_map(
            |(group, node, kind, cause, order, shadow, is_exec)| Op::Appear {
                group, node, kind, cause, order, shadow, is_exec
            }),
        30 => (any::<u16>(), via, 1..=5u8)
            .prop_map(|(folio, via, times)| Op::Access { folio, via, times }),
        4 => (any::<u16>(), state).prop_map(|(folio, state)| Op::Write { folio, state }),
        6 => (any::<u16>(), gone).prop_map(|(folio, cause)| Op::Gone { folio, cause }),
        7 => (0..NR_GROUPS, swappiness.clone())
            .prop_map(|(group, swappiness)| Op::Walk { group, swappiness }),
        10 => (0..NR_GROUPS, 0..80u8, swappiness.clone(), 0..=12u8).prop_map(
            |(group, nr_pages, swappiness, priority)| Op::Isolate {
                group, nr_pages, swappiness, priority
            }),
        2 => (0..NR_GROUPS, 0..NR_NODES, 0..4u8, swappiness, 0..80u8).prop_map(
            |(group, node, seq, swappiness, nr_pages)| Op::EvictCommand {
                group, node, seq, swappiness, nr_pages
            }),
        12 => (any::<u8>(), any::<u64>())
            .prop_map(|(batch, verdicts)| Op::Complete { batch, verdicts }),
        1 => any::<bool>().prop_map(|is_on| Op::MinTtl { is_on }),
        4 => (0..3000u16).prop_map(|ms| Op::Sleep { ms }),
    ]
}

pub(super) fn lruvec(group: u8, node: u8) -> usize {
    usize::from(group * NR_NODES + node)
}

pub(super) fn level(swappiness: u8) -> Swappiness {
    Swappiness::try_new(swappiness).expect("0 to 201")
}
