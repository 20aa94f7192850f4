//! The folio table: twelve bytes for each folio in memory, held as a structure of arrays.
//!
//! A folio is an index. Its one flags word says everything about it, its two links chain it into a
//! list (see [`crate::list`]) or, while the slot is free, into the free list.
//!
//! **Owns** the flags word, the link arrays, allocation and release of slots.
//! **Does not own** what the links mean, sizes of generations, or any rule.
//!
//! **Invariants**
//! - I1: a slot is free exactly when its flags word says: on no list and not isolated.
//! - I2: `nr_live + (length of the free list) == slots`; no slot is in the free list twice.
//! - I3: a released slot is the next one handed out, so the same calls give the same ids.

use crate::{
    ids::MAX_NR_GENS,
    ids::{FolioId, Kind, Order},
};

/// Largest number of folios: the top bit of a link tells a list head from a folio.
pub(crate) const MAX_FOLIOS: u32 = LINK_IS_HEAD - 1;

/// Largest order the flags word can hold (128 MiB of 4 KiB pages).
pub(crate) const MAX_ORDER: u8 = (1 << ORDER_WIDTH) - 1;

/// Largest number of lruvecs the flags word can name.
pub(crate) const MAX_LRUVECS: u32 = 1 << LRUVEC_WIDTH;

/// Set in a link that names a list head instead of a folio.
pub(crate) const LINK_IS_HEAD: u32 = 1 << 31;

const NO_SLOT: u32 = u32::MAX;

/// Slots added at a time; growing by an eighth keeps the unused part of the table small.
const GROWTH_SLOTS_MIN: usize = 4096;

const GEN_SHIFT: u32 = 0;
const GEN_WIDTH: u32 = 5;
const REFS_SHIFT: u32 = GEN_SHIFT + GEN_WIDTH;
const REFS_WIDTH: u32 = 3;
const REFERENCED_SHIFT: u32 = REFS_SHIFT + REFS_WIDTH;
const WORKINGSET_SHIFT: u32 = REFERENCED_SHIFT + 1;
const KIND_SHIFT: u32 = WORKINGSET_SHIFT + 1;
const ORDER_SHIFT: u32 = KIND_SHIFT + 1;
const ORDER_WIDTH: u32 = 4;
const WAITING_SHIFT: u32 = ORDER_SHIFT + ORDER_WIDTH;
const ROTATE_SHIFT: u32 = WAITING_SHIFT + 1;
const EXEC_SHIFT: u32 = ROTATE_SHIFT + 1;
const LRUVEC_SHIFT: u32 = EXEC_SHIFT + 1;
const LRUVEC_WIDTH: u32 = 14;

const GEN_MASK: u32 = ((1 << GEN_WIDTH) - 1) << GEN_SHIFT;
/// Values of the generation field that name no generation.
const GEN_ISOLATED: u32 = (1 << GEN_WIDTH) - 2;
const GEN_GONE: u32 = (1 << GEN_WIDTH) - 1;
const REFS_MASK: u32 = ((1 << REFS_WIDTH) - 1) << REFS_SHIFT;
const REFERENCED: u32 = 1 << REFERENCED_SHIFT;
const WORKINGSET: u32 = 1 << WORKINGSET_SHIFT;
const KIND: u32 = 1 << KIND_SHIFT;
const ORDER_MASK: u32 = ((1 << ORDER_WIDTH) - 1) << ORDER_SHIFT;
const WAITING: u32 = 1 << WAITING_SHIFT;
const ROTATE: u32 = 1 << ROTATE_SHIFT;
const EXEC: u32 = 1 << EXEC_SHIFT;

/// Bytes the table spends on one folio.
pub(crate) const BYTES_PER_FOLIO: usize = size_of::<Flags>() + 2 * size_of::<u32>();

const _: () = assert!(BYTES_PER_FOLIO == 12, "a folio costs twelve bytes");
const _: () = assert!(
    LRUVEC_SHIFT + LRUVEC_WIDTH == u32::BITS,
    "the flags word is full"
);
const _: () = assert!(
    MAX_NR_GENS < GEN_ISOLATED as usize,
    "0 means on no list, the last two are no generations either"
);
const _: () = assert!(Order::PMD.0 <= MAX_ORDER, "a huge page is one folio");
const _: () = assert!(
    GEN_MASK | REFS_MASK | REFERENCED | WORKINGSET | KIND | ORDER_MASK | WAITING | ROTATE | EXEC
        == (1 << LRUVEC_SHIFT) - 1,
    "fields neither overlap nor leave holes"
);

/// Everything known of a folio, in one word.
///
/// | bits   | field      | meaning                                                            |
/// |--------|------------|--------------------------------------------------------------------|
/// | 0..5   | generation | 0 = on no list, 30 = isolated (handed out in a batch, not completed yet), 31 = isolated and gone meanwhile (released when the batch is completed), else generation index + 1 |
/// | 5..8   | refs       | accesses through file descriptors, as `counting` encodes them      |
/// | 8      | referenced | seen accessed once since it entered its generation                 |
/// | 9      | workingset | seen accessed again, or came back soon after an eviction           |
/// | 10     | kind       | 0 anon, 1 file                                                     |
/// | 11..15 | order      | base pages as a power of two                                       |
/// | 15     | waiting    | dirty and of a file, or being written                              |
/// | 16     | rotate     | was due while waiting: goes to the old end once it is written      |
/// | 17     | exec       | mapped executable from a file                                      |
/// | 18..32 | lruvec     | index of its lruvec                                                |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(u32);

impl Flags {
    /// Largest value of the refs field.
    pub(crate) const REFS_FIELD_MAX: u32 = (1 << REFS_WIDTH) - 1;

    /// A folio on no list yet. Orders above [`MAX_ORDER`] are refused at the door.
    pub(crate) fn new(lruvec: u16, kind: Kind, order: Order) -> Flags {
        debug_assert!(u32::from(lruvec) < MAX_LRUVECS && order.0 <= MAX_ORDER);
        Flags(
            (u32::from(lruvec) << LRUVEC_SHIFT)
                | ((kind as u32) << KIND_SHIFT)
                | (u32::from(order.0) << ORDER_SHIFT),
        )
    }

    /// Index of the generation it counts for, `None` while it is on no list.
    pub(crate) fn generation(self) -> Option<usize> {
        let field = self.0 & GEN_MASK;
        (field != 0 && field < GEN_ISOLATED).then(|| field as usize - 1)
    }

    /// The flags with another generation, or with none.
    pub(crate) fn with_generation(self, index: Option<usize>) -> Flags {
        debug_assert!(index.is_none_or(|index| index < MAX_NR_GENS));
        self.with_generation_field(index.map_or(0, |index| index as u32 + 1))
    }

    /// Raw refs field, 0..=7; what it means is in [`crate::counting`].
    pub(crate) fn refs_field(self) -> u32 {
        (self.0 & REFS_MASK) >> REFS_SHIFT
    }

    /// The flags with another refs field (0..=7).
    pub(crate) fn with_refs_field(self, refs: u32) -> Flags {
        debug_assert!(refs <= Self::REFS_FIELD_MAX);
        Flags(self.0 & !REFS_MASK | (refs << REFS_SHIFT))
    }

    pub(crate) fn is_referenced(self) -> bool {
        self.0 & REFERENCED != 0
    }

    pub(crate) fn with_referenced(self, is_referenced: bool) -> Flags {
        self.with_bit(REFERENCED, is_referenced)
    }

    pub(crate) fn is_workingset(self) -> bool {
        self.0 & WORKINGSET != 0
    }

    pub(crate) fn with_workingset(self, is_workingset: bool) -> Flags {
        self.with_bit(WORKINGSET, is_workingset)
    }

    pub(crate) fn is_isolated(self) -> bool {
        self.0 & GEN_MASK >= GEN_ISOLATED
    }

    /// The flags of the folio when it is handed out in a batch.
    pub(crate) fn isolated(self) -> Flags {
        self.with_generation_field(GEN_ISOLATED)
    }

    pub(crate) fn is_gone(self) -> bool {
        self.0 & GEN_MASK == GEN_GONE
    }

    /// The flags of an isolated folio that is no longer in memory.
    pub(crate) fn gone(self) -> Flags {
        debug_assert!(self.is_isolated());
        self.with_generation_field(GEN_GONE)
    }

    /// Whether the slot holds a folio.
    pub(crate) fn is_live(self) -> bool {
        self.0 & GEN_MASK != 0
    }

    /// Whether the folio waits for writeback: a dirty one of a file, or one that is being written.
    pub(crate) fn is_waiting(self) -> bool {
        self.0 & WAITING != 0
    }

    pub(crate) fn with_waiting(self, is_waiting: bool) -> Flags {
        self.with_bit(WAITING, is_waiting)
    }

    /// Whether the folio goes to the old end of its list once it is written.
    pub(crate) fn is_to_rotate(self) -> bool {
        self.0 & ROTATE != 0
    }

    pub(crate) fn with_rotate(self, is_to_rotate: bool) -> Flags {
        self.with_bit(ROTATE, is_to_rotate)
    }

    pub(crate) fn is_exec(self) -> bool {
        self.0 & EXEC != 0
    }

    pub(crate) fn with_exec(self, is_exec: bool) -> Flags {
        self.with_bit(EXEC, is_exec)
    }

    pub(crate) fn kind(self) -> Kind {
        if self.0 & KIND == 0 {
            Kind::Anon
        } else {
            Kind::File
        }
    }

    pub(crate) fn order(self) -> Order {
        Order(((self.0 & ORDER_MASK) >> ORDER_SHIFT) as u8)
    }

    /// Base pages of the folio.
    pub(crate) fn nr_pages(self) -> u64 {
        self.order().nr_pages()
    }

    /// The flags with another lruvec.
    pub(crate) fn with_lruvec(self, lruvec: u16) -> Flags {
        debug_assert!(u32::from(lruvec) < MAX_LRUVECS);
        let others = self.0 & ((1 << LRUVEC_SHIFT) - 1);
        Flags(others | u32::from(lruvec) << LRUVEC_SHIFT)
    }

    /// Index of its lruvec.
    pub(crate) fn lruvec(self) -> usize {
        (self.0 >> LRUVEC_SHIFT) as usize
    }

    fn with_bit(self, bit: u32, is_set: bool) -> Flags {
        Flags(if is_set { self.0 | bit } else { self.0 & !bit })
    }

    fn with_generation_field(self, field: u32) -> Flags {
        Flags(self.0 & !GEN_MASK | (field << GEN_SHIFT))
    }
}

/// All folios, live and free.
#[derive(Debug, Default)]
pub(crate) struct FolioTable {
    pub(crate) flags: Vec<Flags>,
    pub(crate) next: Vec<u32>,
    pub(crate) prev: Vec<u32>,
    free: u32,
    nr_live: u32,
    nr_folios_max: u32,
}

impl FolioTable {
    /// An empty table that grows to at most `nr_folios_max` folios.
    pub(crate) fn new(nr_folios_max: u32) -> FolioTable {
        FolioTable {
            free: NO_SLOT,
            nr_folios_max,
            ..FolioTable::default()
        }
    }

    /// Takes a slot; `None` when the table is at its largest. The folio is on no list yet and
    /// counts as free until the caller has put it on one.
    pub(crate) fn allocate(&mut self, flags: Flags) -> Option<FolioId> {
        let slot = if self.free != NO_SLOT {
            let slot = self.free;
            self.free = self.next[slot as usize];
            self.flags[slot as usize] = flags;
            slot
        } else {
            let slot = u32::try_from(self.flags.len())
                .ok()
                .filter(|n| *n < self.nr_folios_max)?;
            self.grow_if_full();
            self.flags.push(flags);
            self.next.push(NO_SLOT);
            self.prev.push(NO_SLOT);
            slot
        };
        self.nr_live += 1;
        Some(FolioId(slot))
    }

    /// Gives a slot back. The folio must be on no list.
    pub(crate) fn release(&mut self, folio: FolioId) {
        self.flags[folio.index()] = Flags::default();
        self.next[folio.index()] = self.free;
        self.free = folio.0;
        self.nr_live -= 1;
    }

    /// Folios in memory, isolated ones included.
    pub(crate) fn nr_live(&self) -> u32 {
        self.nr_live
    }

    /// Bytes allocated by the table.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let links = self.next.capacity() + self.prev.capacity();
        (self.flags.capacity() * size_of::<Flags>() + links * size_of::<u32>()) as u64
    }

    /// Walks the free list and recounts live slots.
    pub(crate) fn validate(&self) -> Result<(), String> {
        let nr_live = self.flags.iter().filter(|flags| flags.is_live()).count();
        if nr_live != self.nr_live as usize {
            return Err(format!("{nr_live} live folios, counted {}", self.nr_live));
        }
        let mut nr_free = 0;
        let mut slot = self.free;
        while slot != NO_SLOT {
            let flags = self
                .flags
                .get(slot as usize)
                .ok_or_else(|| format!("free slot {slot} of none"))?;
            if flags.is_live() {
                return Err(format!(
                    "slot {slot} is in the free list and live: {flags:?}"
                ));
            }
            nr_free += 1;
            if nr_free > self.flags.len() {
                return Err("the free list is a circle".to_owned());
            }
            slot = self.next[slot as usize];
        }
        if nr_free + nr_live != self.flags.len() {
            return Err(format!(
                "{nr_free} free + {nr_live} live of {} slots",
                self.flags.len()
            ));
        }
        Ok(())
    }

    fn grow_if_full(&mut self) {
        if self.flags.len() == self.flags.capacity() {
            let step = GROWTH_SLOTS_MIN.max(self.flags.len() / 8);
            self.flags.reserve_exact(step);
            self.next.reserve_exact(step);
            self.prev.reserve_exact(step);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_flags_word_gives_back_what_was_put_in(
            lruvec in 0..MAX_LRUVECS as u16,
            is_file: bool,
            order in 0..=MAX_ORDER,
            generation in proptest::option::of(0..MAX_NR_GENS),
            refs in 0..=Flags::REFS_FIELD_MAX,
            marks: [bool; 5],
        ) {
            let kind = if is_file { Kind::File } else { Kind::Anon };
            let [is_referenced, is_workingset, is_waiting, is_to_rotate, is_exec] = marks;
            let flags = Flags::new(lruvec, kind, Order(order))
                .with_generation(generation)
                .with_refs_field(refs)
                .with_referenced(is_referenced)
                .with_workingset(is_workingset)
                .with_waiting(is_waiting)
                .with_rotate(is_to_rotate)
                .with_exec(is_exec);
            prop_assert_eq!((flags.is_live(), flags.is_isolated()), (generation.is_some(), false));
            prop_assert_eq!(flags.generation(), generation);
            let isolated = flags.isolated();
            prop_assert!(isolated.is_live() && isolated.is_isolated() && !isolated.is_gone());
            let gone = isolated.gone();
            prop_assert!(gone.is_live() && gone.is_isolated() && gone.is_gone());
            for flags in [flags, isolated, gone] {
                prop_assert_eq!(flags.lruvec(), usize::from(lruvec));
                prop_assert_eq!((flags.kind(), flags.order()), (kind, Order(order)));
                prop_assert_eq!(flags.refs_field(), refs);
                let read = [
                    flags.is_referenced(),
                    flags.is_workingset(),
                    flags.is_waiting(),
                    flags.is_to_rotate(),
                    flags.is_exec(),
                ];
                prop_assert_eq!(read, marks);
            }
            prop_assert_eq!(gone.with_generation(generation), flags);
            prop_assert_eq!((isolated.generation(), gone.generation()), (None, None));
        }
    }

    #[test]
    fn growing_leaves_at_most_an_eighth_unused() {
        let mut table = FolioTable::new(MAX_FOLIOS);
        let flags = Flags::new(0, Kind::Anon, Order::BASE).with_generation(Some(0));
        for _ in 0..300_000 {
            table.allocate(flags).unwrap();
        }
        let used = 300_000 * BYTES_PER_FOLIO as u64;
        assert!(
            table.memory_bytes() <= used + used / 8,
            "{} bytes",
            table.memory_bytes()
        );
    }
}
