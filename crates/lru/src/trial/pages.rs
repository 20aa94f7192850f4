//! The pages that a trial follows, in memory and out of it.
//!
//! | bits of a ticket | field  | meaning                                                   |
//! |------------------|--------|-----------------------------------------------------------|
//! | 0..20            | number | the page's                                                |
//! | 20..30           | stamp  | departures under this number, low bits                    |
//! | 30               | 1      | it is a ticket and no shadow of the policy                |
//!
//! A stale ticket passes for the last departure under its number with a chance of one in 1024.
//!
//! **Owns** numbers, tickets, which folio is which page. **Does not own** what happens to pages.
//!
//! **Invariants**
//! - I1: a folio names the page that says it is that folio's, and the other way round.
//! - I2: a number is free exactly when nothing is followed under it.
//! - I3: never more than [`NR_NUMBERS`] numbers, for all groups together: a page that finds none is not
//!   followed.

use std::ops::{Index, IndexMut};

use crate::{
    distance::SHADOW_WIDTH,
    ids::{FolioId, GroupId, Kind, Order},
    seam::{Arrival, Shadow},
};

const TICKET: u32 = 1 << SHADOW_WIDTH;
const NUMBER_WIDTH: u32 = 20;
const NUMBER_MASK: u32 = (1 << NUMBER_WIDTH) - 1;
const STAMP_MASK: u32 = (1 << (SHADOW_WIDTH - NUMBER_WIDTH)) - 1;

/// Pages that can be followed at a time.
const NR_NUMBERS: usize = 1 << NUMBER_WIDTH;

const NOT_FOLLOWED: u32 = u32::MAX;

/// The number of a page that is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageNumber(u32);

/// Where a page is in one of the memories it may be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stay {
    In(FolioId),
    /// With what its last stay left behind.
    Out(Option<Shadow>),
}

impl Stay {
    pub(super) fn is_in(self) -> bool {
        matches!(self, Stay::In(_))
    }
}

/// A page that is followed.
#[derive(Clone, Debug)]
pub(super) struct Page {
    pub(super) group: GroupId,
    pub(super) kind: Kind,
    pub(super) order: Order,
    /// What decides whether it is followed: the low bits are 0, more of them the fewer are.
    pub(super) lot: u32,
    stamp: u32,
    /// Whether the number is in use.
    is_followed: bool,
    /// In the policy's memory.
    real: Stay,
    /// In the two in small.
    pub(super) small: [Stay; 2],
    /// Found accessed, and not looked at yet by the two in small.
    pub(super) is_young: [bool; 2],
}

impl Page {
    pub(super) fn is_in_memory(&self) -> bool {
        self.real.is_in()
    }

    fn is_anywhere(&self) -> bool {
        self.real.is_in() || self.small.iter().any(|stay| stay.is_in())
    }
}

/// What a shadow says of who follows its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// The page is followed under this number; its own shadow.
    Followed(PageNumber, Shadow),
    /// The page was here, and is not followed.
    NotFollowed(Shadow),
    /// The page was never here, or is no longer known.
    Unknown,
}

#[derive(Debug, Default)]
pub(super) struct Pages {
    pages: Vec<Page>,
    free: Vec<PageNumber>,
    /// By folio.
    of_folio: Vec<u32>,
}

impl Index<PageNumber> for Pages {
    type Output = Page;

    fn index(&self, page: PageNumber) -> &Page {
        &self.pages[page.0 as usize]
    }
}

impl IndexMut<PageNumber> for Pages {
    fn index_mut(&mut self, page: PageNumber) -> &mut Page {
        &mut self.pages[page.0 as usize]
    }
}

impl Pages {
    /// Reads what an arriving page brings.
    pub(super) fn claim(&self, shadow: Option<Shadow>) -> Claim {
        let Some(shadow) = shadow else {
            return Claim::Unknown;
        };
        let bits = shadow.to_bits();
        if bits & TICKET == 0 {
            return Claim::NotFollowed(shadow);
        }
        let number = PageNumber(bits & NUMBER_MASK);
        let page = self.pages.get(number.0 as usize);
        match page.map(|page| (page.is_followed, page.stamp, page.real)) {
            Some((true, stamp, Stay::Out(Some(own))))
                if stamp == bits >> NUMBER_WIDTH & STAMP_MASK =>
            {
                Claim::Followed(number, own)
            }
            _ => Claim::Unknown,
        }
    }

    pub(super) fn of_folio(&self, folio: FolioId) -> Option<PageNumber> {
        let number = *self.of_folio.get(folio.index())?;
        (number != NOT_FOLLOWED).then_some(PageNumber(number))
    }

    /// The pages of a group that are followed.
    pub(super) fn of_group(&self, group: GroupId) -> impl Iterator<Item = (PageNumber, &Page)> {
        let numbered = self.pages.iter().enumerate();
        numbered
            .filter(move |(_, page)| page.is_followed && page.group == group)
            .map(|(number, page)| (PageNumber(number as u32), page))
    }

    /// Follows a page from now on; `None` if all numbers are taken.
    pub(super) fn follow(&mut self, arrival: &Arrival, lot: u32) -> Option<PageNumber> {
        let page = Page {
            group: arrival.group,
            kind: arrival.kind,
            order: arrival.order,
            lot,
            stamp: 0,
            is_followed: true,
            real: Stay::Out(None),
            small: [Stay::Out(None); 2],
            is_young: [false; 2],
        };
        if let Some(number) = self.free.pop() {
            let stamp = self[number].stamp;
            self[number] = Page { stamp, ..page };
            return Some(number);
        }
        let number = PageNumber(self.pages.len() as u32);
        (self.pages.len() < NR_NUMBERS).then(|| {
            self.pages.push(page);
            number
        })
    }

    /// No longer follows a page, which is in neither of the two in small.
    pub(super) fn forget(&mut self, number: PageNumber) {
        let page = &mut self[number];
        page.is_followed = false;
        if let Stay::In(folio) = std::mem::replace(&mut page.real, Stay::Out(None)) {
            self.of_folio[folio.index()] = NOT_FOLLOWED;
        }
        self.free.push(number);
    }

    /// No longer follows anything of a group whose two in small are gone.
    pub(super) fn forget_group(&mut self, group: GroupId) {
        for number in (0..self.pages.len() as u32).map(PageNumber) {
            let page = &mut self[number];
            if page.is_followed && page.group == group {
                page.small = [Stay::Out(None); 2];
                page.is_young = [false; 2];
                self.forget(number);
            }
        }
    }

    pub(super) fn enter(&mut self, number: PageNumber, folio: FolioId) {
        if self.of_folio.len() <= folio.index() {
            self.of_folio.resize(folio.index() + 1, NOT_FOLLOWED);
        }
        self.of_folio[folio.index()] = number.0;
        self[number].real = Stay::In(folio);
    }

    /// A page leaves the policy's memory; its ticket.
    pub(super) fn leave(&mut self, number: PageNumber, shadow: Shadow) -> Shadow {
        let page = &mut self[number];
        page.stamp = (page.stamp + 1) & STAMP_MASK;
        let ticket = TICKET | page.stamp << NUMBER_WIDTH | number.0;
        if let Stay::In(folio) = std::mem::replace(&mut page.real, Stay::Out(Some(shadow))) {
            self.of_folio[folio.index()] = NOT_FOLLOWED;
        }
        Shadow::from_bits_truncate(ticket)
    }

    pub(super) fn is_followed(&self, number: PageNumber) -> bool {
        self[number].is_followed
    }

    /// Departures under a number so far, as a ticket has them.
    pub(super) fn stamp(&self, number: PageNumber) -> u32 {
        self[number].stamp
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let pages = self.pages.capacity() * size_of::<Page>();
        let numbers = (self.free.capacity() + self.of_folio.capacity()) * size_of::<u32>();
        (pages + numbers) as u64
    }

    pub(super) fn validate(&self) -> Result<(), String> {
        for (index, &number) in self.of_folio.iter().enumerate() {
            let folio = FolioId(index as u32);
            let is_named = number == NOT_FOLLOWED
                || (self.pages.get(number as usize)).is_some_and(|of| of.real == Stay::In(folio));
            if !is_named {
                return Err(format!("{folio:?} is not page {number}, which it names"));
            }
        }
        for (index, page) in self.pages.iter().enumerate() {
            let number = PageNumber(index as u32);
            match page.real {
                Stay::In(folio) if self.of_folio(folio) != Some(number) => {
                    return Err(format!("{number:?} is not what {folio:?} names"));
                }
                _ if !page.is_followed && page.is_anywhere() => {
                    return Err(format!("{number:?} is free and in memory"));
                }
                _ => {}
            }
        }
        let mut free = vec![false; self.pages.len()];
        for number in &self.free {
            let was_free = std::mem::replace(&mut free[number.0 as usize], true);
            if was_free || self[*number].is_followed {
                return Err(format!("{number:?} is free twice, or followed"));
            }
        }
        match (0..)
            .zip(&self.pages)
            .find(|(at, of)| free[*at] == of.is_followed)
        {
            Some((at, _)) => Err(format!("page {at} is neither followed nor free")),
            None => Ok(()),
        }
    }
}
