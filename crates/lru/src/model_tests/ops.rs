//! What can happen to a policy, and how often it is drawn.

use proptest::prelude::*;

use crate::{
    ids::Kind,
    seam::{AccessVia, Cause, GoneCause, WriteState},
};

/// Groups times nodes of every run.
pub(crate) const NR_GROUPS: u8 = 2;
pub(crate) const NR_NODES: u8 = 2;

/// One thing that happens. Numbers pick among what exists, modulo.
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
    Hint {
        folio: u16,
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
    /// Of the generation that is so many younger than the oldest.
    EvictCommand {
        group: u8,
        node: u8,
        nr_older: u8,
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

/// Operations of all sorts: at any swappiness, or at the default alone; for each access through a descriptor so many that a
/// walk found; folios of up to so many pages, as a power of two.
pub(crate) fn op(
    has_any_swappiness: bool,
    nr_walked: u32,
    order_max: u8,
) -> impl Strategy<Value = Op> {
    let swappiness = match has_any_swappiness {
        true => prop_oneof![4 => Just(60u8), 3 => 0..=201u8, 1 => Just(0), 1 => Just(1), 1 => Just(200), 1 => Just(201)].boxed(),
        false => Just(60).boxed(),
    };
    let kind = prop_oneof![Just(Kind::Anon), Just(Kind::File)];
    let cause = prop_oneof![Just(Cause::Fault), Just(Cause::Read), Just(Cause::Prefetch)];
    let via = prop_oneof![
        nr_walked => Just(AccessVia::PageTable),
        1 => Just(AccessVia::FileDescriptor)
    ];
    let state = prop_oneof![1 => Just(WriteState::Waiting), 2 => Just(WriteState::Clean)];
    let gone = prop_oneof![Just(GoneCause::Reclaimed), Just(GoneCause::Freed)];
    let order = prop_oneof![16 => Just(0u8), 1 => Just(3), 1 => 0..=order_max];
    let shadow = proptest::option::of(any::<u8>());
    prop_oneof![
        24 => (0..NR_GROUPS, 0..NR_NODES, kind, cause, order, shadow, any::<bool>()).prop_map(
            |(group, node, kind, cause, order, shadow, is_exec)| Op::Appear {
                group, node, kind, cause, order, shadow, is_exec
            }),
        28 => (any::<u16>(), via, 1..=5u8)
            .prop_map(|(folio, via, times)| Op::Access { folio, via, times }),
        2 => any::<u16>().prop_map(|folio| Op::Hint { folio }),
        6 => (any::<u16>(), state).prop_map(|(folio, state)| Op::Write { folio, state }),
        6 => (any::<u16>(), gone).prop_map(|(folio, cause)| Op::Gone { folio, cause }),
        7 => (0..NR_GROUPS, swappiness.clone())
            .prop_map(|(group, swappiness)| Op::Walk { group, swappiness }),
        12 => (0..NR_GROUPS, 0..80u8, swappiness.clone(), 0..=12u8).prop_map(
            |(group, nr_pages, swappiness, priority)| Op::Isolate {
                group, nr_pages, swappiness, priority
            }),
        2 => (0..NR_GROUPS, 0..NR_NODES, 0..4u8, swappiness, 0..80u8).prop_map(
            |(group, node, nr_older, swappiness, nr_pages)| Op::EvictCommand {
                group, node, nr_older, swappiness, nr_pages
            }),
        14 => (any::<u8>(), any::<u64>())
            .prop_map(|(batch, verdicts)| Op::Complete { batch, verdicts }),
        1 => any::<bool>().prop_map(|is_on| Op::MinTtl { is_on }),
        4 => (0..3000u16).prop_map(|ms| Op::Sleep { ms }),
    ]
}
