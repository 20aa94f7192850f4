//! A trial of two ways to judge returns: the kernel's window against refault distance (rules 4).
//!
//! Neither is better everywhere. What is read round and round keeps nothing by the window, and a hot
//! set that barely fits is cut into by the chances that distance gives. So both are tried in small: some
//! pages of a group are followed, and two policies of that share of its memory, alike but for their
//! judgement, are told of each access to them. Where the one by distance misses less, the group's returns
//! are judged by distance, else as the kernel does.
//!
//! ```text
//!   arrives, accessed, leaves, freed --one page in 2^n--> duel of the group
//!                                                          +- in small, by window    misses 2913
//!   returns judged <---- the one that misses less ---------+- in small, by distance  misses 2100
//! ```
//!
//! After miniature simulations (Waldspurger et al., "Cache Modeling and Optimization using Miniature
//! Simulations", 2017) and their sampling by page (SHARDS, Waldspurger et al., 2015). Ours: a page has no
//! name here, only the shadow that it brings back, so one that is followed leaves a *ticket* in its
//! shadow's place, which finds it, its own shadow and its two stays in small again; and what is mapped
//! is seen accessed when the policy's own walks see it, by both alike.
//!
//! **Owns** who is followed, the two in small, the choice. **Does not own** either judgement
//! (`multigen::distance`, `multigen::refault`, `two_list::workingset`).
//!
//! **Invariants**
//! - I1: a folio is followed under at most one number; a ticket is good for one return.
//! - I2: the two in small hear the same, in the same order.
//! - I3: a return that is followed is judged by the same shadow as one that is not, unless its ticket was
//!   recalled, which happens to those that are out longest.
//! - I4: without [`Refault::Trial`] nothing of this is there.

mod duel;
mod pages;
mod small;

#[cfg(test)]
mod tests;

use crate::{
    config::{Config, ConfigError, Refault},
    ids::{FolioId, GroupId},
    policy::Policy,
    seam::{AccessVia, Arrival, Shadow, Verdict},
    swappiness::Swappiness,
};
use duel::Duel;
use pages::{Claim, PageNumber, Pages};

/// A policy that can be tried in small.
pub(crate) trait Tried: Policy + Sized {
    /// The policy in small, empty.
    fn in_small(config: Config) -> Result<Self, ConfigError>;

    /// How its returns are judged.
    fn judge(&self) -> &Judge<Self>;

    /// The judge, to be told.
    fn judge_mut(&mut self) -> &mut Judge<Self>;

    /// What an access does to the folio.
    fn note_access(&mut self, folio: FolioId, via: AccessVia);

    /// An access, told to whoever follows the folio first.
    #[inline]
    fn hear_access(&mut self, folio: FolioId, via: AccessVia) {
        if self.judge().follows() {
            return self.hear_followed_access(folio, via);
        }
        self.note_access(folio, via);
    }

    /// Out of line: an access that nobody follows pays for one comparison.
    #[cold]
    fn hear_followed_access(&mut self, folio: FolioId, via: AccessVia) {
        self.judge_mut().accessed(folio, via);
        self.note_access(folio, via);
    }
}

/// How a policy's returns are judged, group by group.
#[derive(Debug)]
pub(crate) struct Judge<P> {
    refault: Refault,
    /// With [`Refault::Trial`] only.
    trial: Option<Box<Trial<P>>>,
}

impl<P: Tried> Judge<P> {
    pub(crate) fn new(config: &Config) -> Judge<P> {
        Judge {
            refault: config.refault,
            trial: (config.refault == Refault::Trial).then(|| Box::new(Trial::new(config))),
        }
    }

    /// Whether shadows tell distances (`distance`) instead of generations (`shadow`).
    pub(crate) fn is_told_distances(&self) -> bool {
        self.refault != Refault::Window
    }

    /// By what the returns of a group are judged now: never [`Refault::Trial`].
    pub(crate) fn rule(&self, group: GroupId) -> Refault {
        match &self.trial {
            Some(trial) if trial.duel(group).is_some_and(Duel::prefers_distance) => {
                Refault::Distance
            }
            Some(_) => Refault::Window,
            None => self.refault,
        }
    }

    /// Whether the returns of a group are judged by distance in memory now.
    pub(crate) fn is_by_distance(&self, group: GroupId) -> bool {
        self.rule(group) == Refault::Distance
    }

    /// A group begins.
    pub(crate) fn begin_group(&mut self, group: GroupId) {
        if let Some(trial) = &mut self.trial {
            trial.begin_group(group);
        }
    }

    /// A group is taken offline: nothing of it is followed any more.
    pub(crate) fn end_group(&mut self, group: GroupId) {
        if let Some(trial) = &mut self.trial {
            trial.end_group(group);
        }
    }

    /// A folio arrived; what the policy left behind of it.
    pub(crate) fn arrived(&mut self, folio: FolioId, arrival: &Arrival) -> Option<Shadow> {
        match &mut self.trial {
            Some(trial) => trial.arrived(folio, arrival),
            None => arrival.shadow,
        }
    }

    /// Whether anybody wants to hear of accesses.
    pub(crate) fn follows(&self) -> bool {
        self.trial.is_some()
    }

    /// A folio was accessed, or found accessed.
    pub(crate) fn accessed(&mut self, folio: FolioId, via: AccessVia) {
        if let Some(trial) = &mut self.trial {
            trial.accessed(folio, via);
        }
    }

    /// The folios of a batch were tried.
    pub(crate) fn tried(&mut self, folios: &[FolioId], verdicts: &[Verdict]) {
        let Some(trial) = &mut self.trial else {
            return;
        };
        for (folio, verdict) in folios.iter().zip(verdicts) {
            match verdict {
                Verdict::Referenced => trial.accessed(*folio, AccessVia::PageTable),
                Verdict::Gone => trial.freed(*folio),
                _ => {}
            }
        }
    }

    /// A folio leaves and will be known by this shadow; what to hand out in its place.
    pub(crate) fn left(&mut self, folio: FolioId, shadow: Shadow) -> Shadow {
        match &mut self.trial {
            Some(trial) => trial.left(folio, shadow),
            None => shadow,
        }
    }

    /// Nobody needs a folio any more.
    pub(crate) fn freed(&mut self, folio: FolioId) {
        if let Some(trial) = &mut self.trial {
            trial.freed(folio);
        }
    }

    /// Pages of a group are asked back, at this swappiness.
    pub(crate) fn asked(&mut self, group: GroupId, swappiness: Swappiness) {
        let duel = self.trial.as_mut().and_then(|trial| trial.duel_mut(group));
        if let Some(duel) = duel {
            duel.asked(swappiness);
        }
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.trial.as_ref().map_or(0, |trial| trial.memory_bytes())
    }

    pub(crate) fn validate(&self) -> Result<(), String> {
        self.trial.as_ref().map_or(Ok(()), |trial| trial.validate())
    }
}

/// The duels of all groups.
#[derive(Debug)]
struct Trial<P> {
    config: Config,
    pages: Pages,
    /// By number of the group; `None` for one that is offline.
    duels: Vec<Option<Box<Duel<P>>>>,
}

impl<P: Tried> Trial<P> {
    fn new(config: &Config) -> Trial<P> {
        Trial {
            config: config.clone(),
            pages: Pages::default(),
            duels: Vec::new(),
        }
    }

    fn duel(&self, group: GroupId) -> Option<&Duel<P>> {
        self.duels.get(usize::from(group.0))?.as_deref()
    }

    fn duel_mut(&mut self, group: GroupId) -> Option<&mut Duel<P>> {
        self.duels.get_mut(usize::from(group.0))?.as_deref_mut()
    }

    /// The duel of a followed folio's group, the folio's page, and all pages.
    fn following(&mut self, folio: FolioId) -> Option<(&mut Duel<P>, PageNumber, &mut Pages)> {
        let page = self.pages.of_folio(folio)?;
        let number = usize::from(self.pages[page].group.0);
        let duel = self.duels.get_mut(number)?.as_deref_mut()?;
        Some((duel, page, &mut self.pages))
    }

    fn begin_group(&mut self, group: GroupId) {
        let number = usize::from(group.0);
        if self.duels.len() <= number {
            self.duels.resize_with(number + 1, || None);
        }
        // A configuration that made this policy makes it in small.
        self.duels[number] = Duel::new(&self.config, P::in_small).ok().map(Box::new);
    }

    fn end_group(&mut self, group: GroupId) {
        if let Some(duel) = self.duels.get_mut(usize::from(group.0)) {
            *duel = None;
            self.pages.forget_group(group);
        }
    }

    fn arrived(&mut self, folio: FolioId, arrival: &Arrival) -> Option<Shadow> {
        let claim = self.pages.claim(arrival.shadow);
        if let Claim::Followed(page, shadow) = claim {
            let of = &self.pages[page];
            let is_same = (of.kind, of.order) == (arrival.kind, arrival.order);
            let is_here = is_same && of.group == arrival.group;
            let number = usize::from(of.group.0);
            if let Some(duel) = self.duels.get_mut(number).and_then(Option::as_deref_mut) {
                duel.came_back(&mut self.pages, page, is_here.then_some((folio, arrival)));
            }
            return Some(shadow);
        }
        if let Claim::NotFollowed(shadow) = claim {
            return Some(shadow);
        }
        let number = usize::from(arrival.group.0);
        if let Some(duel) = self.duels.get_mut(number).and_then(Option::as_deref_mut) {
            duel.came(&mut self.pages, folio, arrival);
        }
        None
    }

    fn accessed(&mut self, folio: FolioId, via: AccessVia) {
        if let Some((duel, page, pages)) = self.following(folio) {
            duel.accessed(pages, page, via);
        }
    }

    fn left(&mut self, folio: FolioId, shadow: Shadow) -> Shadow {
        match self.following(folio) {
            Some((duel, page, pages)) => duel.left(pages, page, shadow),
            None => shadow,
        }
    }

    fn freed(&mut self, folio: FolioId) {
        if let Some((duel, page, pages)) = self.following(folio) {
            duel.forget(pages, page);
        }
    }

    fn memory_bytes(&self) -> u64 {
        let duels = self.duels.iter().flatten();
        self.pages.memory_bytes() + duels.map(|duel| duel.memory_bytes()).sum::<u64>()
    }

    fn validate(&self) -> Result<(), String> {
        self.pages.validate()?;
        for (number, duel) in self.duels.iter().enumerate() {
            if let Some(duel) = duel {
                duel.validate(&self.pages, GroupId(number as u16))?;
            }
        }
        Ok(())
    }
}
