//! What can happen to the two lists, and how often it is drawn.

use proptest::prelude::*;

use super::*;

/// Groups times nodes of every run.
pub(super) const NR_GROUPS: u8 = 2;
pub(super) const NR_NODES: u8 = 2;

/// One thing that happens to the engine. Numbers pick among what exists, modulo.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Appear {
        group: u8,
        node: u8,
        kind: Kind,
        order: u8,
        is_exec: bool,
        shadow: Option<u8>,
    },
    Access {
        folio: u16,
        via: AccessVia,
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
    Isolate {
        group: u8,
        nr_pages: u8,
        swappiness: u8,
        priority: u8,
    },
    Complete {
        batch: u8,
        verdicts: u64,
    },
}

/// Operations; `nr_walked` of a hundred are accesses that a walk found.
pub(super) fn op(nr_walked: u32) -> impl Strategy<Value = Op> {
    let kind = prop_oneof![Just(Kind::Anon), Just(Kind::File)];
    let gone = prop_oneof![Just(GoneCause::Reclaimed), Just(GoneCause::Freed)];
    let written = prop_oneof![1 => Just(WriteState::Waiting), 3 => Just(WriteState::Clean)];
    let order = prop_oneof![9 => Just(0u8), 1 => Just(3u8)];
    let swappiness = prop_oneof![4 => Just(60u8), 2 => 0..=201u8, 1 => Just(0), 1 => Just(201)];
    let access = move |via| {
        let folio = any::<u16>();
        folio.prop_map(move |folio| Op::Access { folio, via })
    };
    prop_oneof![
        30 => (0..NR_GROUPS, 0..NR_NODES, kind, order, any::<bool>(), proptest::option::of(any::<u8>()))
            .prop_map(|(group, node, kind, order, is_exec, shadow)| Op::Appear {
                group, node, kind, order, is_exec, shadow
            }),
        25 => access(AccessVia::FileDescriptor),
        nr_walked => access(AccessVia::PageTable),
        2 => any::<u16>().prop_map(|folio| Op::Hint { folio }),
        8 => (any::<u16>(), written).prop_map(|(folio, state)| Op::Write { folio, state }),
        6 => (any::<u16>(), gone).prop_map(|(folio, cause)| Op::Gone { folio, cause }),
        18 => (0..NR_GROUPS, 0..40u8, swappiness, 0..=12u8).prop_map(
            |(group, nr_pages, swappiness, priority)| Op::Isolate {
                group, nr_pages, swappiness, priority
            }),
        20 => (any::<u8>(), any::<u64>())
            .prop_map(|(batch, verdicts)| Op::Complete { batch, verdicts }),
    ]
}
