//! What is known of the pages of one page table.
//!
//! **Owns** bitmaps and stamps, and what telling does to them. **Does not own** which tables there are.
//!
//! **Invariants**
//! - I1: present and taken pages are disjoint; anonymous ones are among both, those of several mappers and those that
//!   can't be seen among present.
//! - I2: present and taken pages have a stamp each, others have none: a table with few pages takes little memory.

use super::on_nodes::OnNodes;
use crate::bits::{Bits, NONE, NR_ENTRIES, and, count, has, is_empty, ones, ones_of, or, without};
use crate::ids::Kind;

counts! {
    /// Pages by kind.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct NrPages {
        /// Swap-backed pages.
        pub anon: u64,
        /// Pages of files.
        pub file: u64,
    }
}

impl NrPages {
    /// So many of one kind, none of the other.
    pub fn only(kind: Kind, nr_pages: u64) -> NrPages {
        let none = NrPages::default();
        match kind {
            Kind::Anon => NrPages {
                anon: nr_pages,
                ..none
            },
            Kind::File => NrPages {
                file: nr_pages,
                ..none
            },
        }
    }

    /// Of both kinds.
    pub fn total(self) -> u64 {
        self.anon + self.file
    }

    /// Of one kind.
    pub fn of(self, kind: Kind) -> u64 {
        match kind {
            Kind::Anon => self.anon,
            Kind::File => self.file,
        }
    }
}

impl NrPages {
    pub(super) fn of_mut(&mut self, kind: Kind) -> &mut u64 {
        match kind {
            Kind::Anon => &mut self.anon,
            Kind::File => &mut self.file,
        }
    }
}

/// What a walk found in a part of a page table.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// The part.
    pub mask: Bits,
    /// Pages that are in memory.
    pub resident: Bits,
    /// Pages whose accessed bit was set since the last walk.
    pub accessed: Bits,
    /// Pages that are anonymous.
    pub anon: Bits,
    /// Entries that hold neither a page nor where one went, though what left memory would be told of there: such a page
    /// was freed.
    pub empty: Bits,
    /// Pages whose accessed bit tells nothing, because it could not be cleared after the walk before: their age is
    /// unknown. Whether they are in `accessed` makes no difference.
    pub unseen: Bits,
}

/// A walk's number and whether its page was found accessed; of two stamps the larger is the younger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp(u16);

impl Stamp {
    pub(super) fn accessed(number: u16) -> Stamp {
        Stamp(number << 1 | 1)
    }

    pub(super) fn seen(number: u16) -> Stamp {
        Stamp(number << 1)
    }

    pub(super) fn number(self) -> u16 {
        self.0 >> 1
    }

    pub(super) fn was_accessed(self) -> bool {
        self.0 & 1 != 0
    }

    /// Position in an array that has two places for each walk.
    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// What a walk shows to have become of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It was taken as the first kind, and is in memory as the second; the walk before it was taken; whether it may have been
    /// accessed since.
    Back(Kind, Kind, u16, bool),
    /// It was taken, and freed since.
    Freed(Kind),
    /// It left memory, by our hand; the walk that last found it accessed.
    Went(Kind, u16),
    /// It was in memory, unused, and is accessed again; the walk that last found it accessed, which is not the last one.
    Used(Kind, u16),
}

/// The walk that tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) number: u16,
    /// Accessed bits that the first walk finds may be of any age.
    pub(super) is_first: bool,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) present: Bits,
    /// Present and taken pages that are anonymous.
    pub(super) anon: Bits,
    /// Pages that left memory by our hand and were not seen since.
    taken: Bits,
    /// Present pages that are known to be mapped by several processes.
    pub(super) several: Bits,
    /// Present pages of which the last walk could not tell whether they were accessed.
    pub(super) unseen: Bits,
    /// Of each present page its age, of each taken one the walk before it went, in order of their entries.
    packed: Box<[Stamp]>,
    /// Number of the space's walk that last told of it.
    told_in: u32,
    /// A huge page is mapped in its stead.
    pub(super) is_huge: bool,
    /// On which node each page is, where that is told.
    pub(super) nodes: Option<Box<OnNodes>>,
}

/// A stamp for each entry; of one that holds no page anything.
pub(super) type Stamps = [Stamp; NR_ENTRIES];

pub(super) fn by_kind(pages: Bits, anon: Bits) -> NrPages {
    let nr_anon = count(and(pages, anon));
    NrPages {
        anon: nr_anon,
        file: count(pages) - nr_anon,
    }
}

pub(super) fn kind_at(anon: &Bits, index: usize) -> Kind {
    match has(anon, index) {
        true => Kind::Anon,
        false => Kind::File,
    }
}

#[inline]
fn stamp_word(stamps: &mut Stamps, word: usize, bits: u64, stamp: Stamp) {
    let stamps = &mut stamps[word * 64..word * 64 + 64];
    match bits {
        0 => {}
        u64::MAX => stamps.fill(stamp),
        bits => ones_of(0, bits).for_each(|index| stamps[index] = stamp),
    }
}

impl Table {
    /// Memory that it takes.
    pub(super) fn footprint_bytes(&self) -> usize {
        size_of::<Table>() + size_of_val(&*self.packed) + self.nodes_bytes()
    }

    pub(super) fn stamps(&self) -> Stamps {
        let mut stamps = [Stamp::default(); NR_ENTRIES];
        let mut packed = self.packed.iter();
        for word in 0..self.present.len() {
            match self.present[word] | self.taken[word] {
                u64::MAX => {
                    let (of_word, rest) = packed.as_slice().split_at(64);
                    stamps[word * 64..word * 64 + 64].copy_from_slice(of_word);
                    packed = rest.iter();
                }
                pages => ones_of(word, pages).for_each(|index| {
                    stamps[index] = packed.next().copied().unwrap_or_default();
                }),
            }
        }
        stamps
    }

    /// Changes pages and their stamps.
    fn change<T>(&mut self, by: impl FnOnce(&mut Table, &mut Stamps) -> T) -> T {
        let mut stamps = self.stamps();
        let result = by(self, &mut stamps);
        let pages = or(self.present, self.taken);
        let nr_pages = count(pages) as usize;
        if self.packed.len() != nr_pages {
            self.packed = vec![Stamp::default(); nr_pages].into();
        }
        let mut packed = self.packed.iter_mut();
        ones(pages).for_each(|index| {
            if let Some(stamp) = packed.next() {
                *stamp = stamps[index];
            }
        });
        result
    }

    pub(super) fn renumber(&mut self, new_numbers: &[u16]) {
        for stamp in &mut self.packed {
            let number = new_numbers.get(usize::from(stamp.number()));
            let number = number.copied().unwrap_or_default();
            *stamp = match stamp.was_accessed() {
                true => Stamp::accessed(number),
                false => Stamp::seen(number),
            };
        }
    }

    /// The space's walk of this number tells of it.
    pub(super) fn begin(&mut self, walk: u64) {
        self.told_in = walk as u32;
    }

    pub(super) fn is_told_in(&self, walk: u64) -> bool {
        self.told_in == walk as u32
    }

    /// Takes in what a walk found. Where `goes_by_amount`, pages that are gone and not freed were taken.
    pub(super) fn tell(
        &mut self,
        told: &Told,
        now: Now,
        goes_by_amount: bool,
        each: &mut dyn FnMut(Change),
    ) {
        self.change(|table, stamps| table.tell_of(stamps, told, now, goes_by_amount, each));
        self.forget_moves();
    }

    fn tell_of(
        &mut self,
        stamps: &mut Stamps,
        told: &Told,
        now: Now,
        goes_by_amount: bool,
        each: &mut dyn FnMut(Change),
    ) {
        let (seen, accessed) = (Stamp::seen(now.number), Stamp::accessed(now.number));
        for word in 0..told.mask.len() {
            let mask = told.mask[word];
            let resident = told.resident[word] & mask;
            let anon = told.anon[word] & resident;
            let new = resident & !self.present[word];
            let returned = resident & self.taken[word];
            ones_of(word, returned).for_each(|index| {
                let taken_as = kind_at(&self.anon, index);
                let bit = 1 << (index % 64);
                let back_as = if anon & bit != 0 {
                    Kind::Anon
                } else {
                    Kind::File
                };
                let is_used = (told.accessed[word] | told.unseen[word]) & bit != 0;
                each(Change::Back(
                    taken_as,
                    back_as,
                    stamps[index].number(),
                    is_used,
                ));
            });
            let empty = told.empty[word] & mask & !resident;
            let freed = self.taken[word] & empty;
            ones_of(word, freed).for_each(|index| {
                each(Change::Freed(kind_at(&self.anon, index)));
            });
            let went = match goes_by_amount {
                true => self.present[word] & mask & !resident & !empty,
                false => 0,
            };
            ones_of(word, went).for_each(|index| {
                let number = stamps[index].number();
                each(Change::Went(kind_at(&self.anon, index), number));
            });
            stamp_word(stamps, word, went, seen);
            self.taken[word] = self.taken[word] & !returned & !freed | went;
            self.several[word] &= !mask | (resident & !new);
            self.present[word] = self.present[word] & !mask | resident;
            self.anon[word] = self.anon[word] & (!mask | self.taken[word]) | anon;
            let unseen = told.unseen[word] & resident;
            let used = if now.is_first {
                0
            } else {
                told.accessed[word] & resident & !unseen
            };
            // Of what can be seen again nothing is known of the time before.
            let regained = self.unseen[word] & resident & !unseen;
            ones_of(word, used & !new & !regained).for_each(|index| {
                let number = stamps[index].number();
                if number + 1 < now.number {
                    each(Change::Used(kind_at(&self.anon, index), number));
                }
            });
            self.unseen[word] = self.unseen[word] & !mask | unseen;
            stamp_word(stamps, word, (new | regained) & !used, seen);
            stamp_word(stamps, word, used, accessed);
        }
    }

    pub(super) fn set_several(&mut self, known: &Bits, several: &Bits) {
        let known = and(*known, self.present);
        self.several = or(without(self.several, known), and(*several, known));
    }

    /// Present pages of the mask are mapped by several.
    pub(super) fn stay(&mut self, mask: &Bits) {
        self.several = or(self.several, and(self.present, *mask));
    }

    /// Pages of files count as mapped by one until more is known.
    pub(super) fn may_go_again(&mut self) {
        self.several = and(self.several, self.anon);
    }

    /// Nothing of it is in memory.
    pub(super) fn forget_present(&mut self) {
        self.keep(NONE, self.taken);
    }

    /// Its pages of files were taken; anonymous ones would have left their place in swap.
    pub(super) fn lose_files(&mut self, covered: &Bits, number: u16, each: &mut dyn FnMut(Change)) {
        let went = and(without(self.present, self.anon), *covered);
        let stamps = self.stamps();
        ones(went).for_each(|index| {
            each(Change::Went(Kind::File, stamps[index].number()));
        });
        self.take(&went, number);
    }

    /// Forgets what nothing maps any more; returns how much of it was taken.
    pub(super) fn forget_outside(&mut self, covered: &Bits) -> NrPages {
        let dropped = without(self.taken, *covered);
        let nr_dropped = by_kind(dropped, self.anon);
        let (present, taken) = (and(self.present, *covered), and(self.taken, *covered));
        if (present, taken) != (self.present, self.taken) {
            self.keep(present, taken);
        }
        nr_dropped
    }

    fn keep(&mut self, present: Bits, taken: Bits) {
        self.change(|table, _| {
            (table.present, table.taken) = (present, taken);
            table.several = and(table.several, present);
            table.unseen = and(table.unseen, present);
            table.anon = and(table.anon, or(present, taken));
        });
        self.forget_moves();
    }

    /// Notes that present pages of the mask were taken; returns how many.
    pub(super) fn take(&mut self, mask: &Bits, number: u16) -> NrPages {
        let going = and(self.present, *mask);
        self.change(|_, stamps| ones(going).for_each(|index| stamps[index] = Stamp::seen(number)));
        self.present = without(self.present, going);
        self.several = without(self.several, going);
        self.unseen = without(self.unseen, going);
        self.taken = or(self.taken, going);
        self.forget_moves();
        by_kind(going, self.anon)
    }

    /// Calls `each` with the index of every taken page, and the walk before it was.
    pub(super) fn taken(&self, mut each: impl FnMut(usize, u16)) {
        let stamps = self.stamps();
        ones(self.taken).for_each(|index| each(index, stamps[index].number()));
    }

    /// Taken pages of the mask.
    pub(super) fn nr_taken_in(&self, mask: &Bits) -> NrPages {
        by_kind(and(self.taken, *mask), self.anon)
    }

    pub(super) fn nr_taken(&self) -> NrPages {
        by_kind(self.taken, self.anon)
    }

    pub(super) fn is_empty(&self) -> bool {
        is_empty(self.present) && is_empty(self.taken)
    }

    pub(super) fn validate(&self, nr_walks: usize, nr_space_walks: u64) -> Result<(), String> {
        if !is_empty(and(self.present, self.taken)) {
            return Err("a page is in memory and taken".to_owned());
        }
        if !is_empty(without(without(self.anon, self.present), self.taken)) {
            return Err("an anonymous page is neither in memory nor taken".to_owned());
        }
        if !is_empty(without(self.several, self.present)) {
            return Err("a page of several mappers is not in memory".to_owned());
        }
        if !is_empty(without(self.unseen, self.present)) {
            return Err("a page that can't be seen is not in memory".to_owned());
        }
        if u64::from(self.told_in) > nr_space_walks {
            return Err(format!("told in walk {} of {nr_space_walks}", self.told_in));
        }
        if self.packed.len() as u64 != count(self.present) + count(self.taken) {
            return Err("there are more or fewer stamps than pages".to_owned());
        }
        let is_given = |stamp: &Stamp| usize::from(stamp.number()) < nr_walks;
        match self.packed.iter().position(|stamp| !is_given(stamp)) {
            Some(index) => Err(format!("page {index} has a number that was not given")),
            None => Ok(()),
        }
    }
}
