//! When whole groups are slowed, stopped or ended, and go on: from second to second, and at the end. What people are told of that, of
//! groups that give nothing, and of rules that nobody goes by.
//!
//! **Owns** the readings that the decision goes by. **Does not own** who is held back and how (`resort`).

use super::Managed;
use super::choice;
use super::group::Group;
use super::resort::Resort;
use super::status::silence;
use super::writer::ToWrite;
use crate::news::News;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use strata_control::last_resort::{Moment, WhenShort};
use strata_linux::cgroup::GroupReader;
use strata_lru::GroupId;

impl Managed {
    /// Groups may be slowed, stopped and ended where their rules say so; what has to be undone is recorded by `to_write`. `tell` is
    /// called before that is done, and for what could not be done.
    pub fn may_halt(&mut self, to_write: ToWrite, tell: fn(News)) {
        self.resort = Some(Resort::new(to_write, tell));
    }

    /// Which processes were left out, and what else people should know of groups, since it was asked last; and
    /// after the first walk by other rules, of which of them it was not told yet that nobody goes by them.
    pub fn news(&mut self) -> Vec<News> {
        let mut news = std::mem::take(&mut self.news);
        news.extend(self.fits.news());
        news
    }

    /// To be called after each walk: of groups that could give, and of which nothing goes, people are told once.
    pub(super) fn look_at_silence(&mut self, at: Duration) {
        if !self.config.is_acting {
            return;
        }
        let silent = self.groups.values_mut().filter_map(|group| {
            let (could_bytes, why) = group.look_at_silence(at)?;
            Some((group.name(), could_bytes, why))
        });
        let told = silence(silent).into_iter().map(News::Note);
        self.news.extend(told);
    }

    /// To be called at each look.
    pub(super) fn halt(&mut self, at: Duration) {
        self.add_newcomers(at);
        let Some(resort) = &mut self.resort else {
            return;
        };
        if !self.host.shortage.can_be_short() {
            return resort.end_all(
                &mut self.groups,
                "no rule says how much is to be free any more",
            );
        }
        let need = self.host.need();
        if need.wanted_bytes == 0 {
            // Nothing can be read of the host: nobody is held back, and nobody goes on.
            return;
        }
        let may_be_held = |of: &Group| of.rule.when_short != WhenShort::None;
        let may_be_held = self.groups.iter().filter(|(_, of)| may_be_held(of));
        let in_turn = resort.growth_turns.begin(may_be_held.map(|(id, _)| *id));
        for (_, group) in (self.groups.iter_mut()).filter(|(id, _)| in_turn.contains(id)) {
            group.look_at_growth(at, need.is_near);
        }
        let now = Moment {
            at,
            available_bytes: self.host.available_bytes(),
            wanted_bytes: need.wanted_bytes,
            ample_bytes: need.ample_bytes,
            is_exhausted: self.host.is_exhausted,
            waiting_percent: self.host.waiting_percent(),
        };
        if resort.look(now, &mut self.groups) {
            // Whether nothing is left has to be found anew: what was frozen gives what it holds.
            self.host.look_anew();
        }
    }

    /// Who came since the walk began is known before the next one, while others wait for memory: it is to wait before it has grown.
    fn add_newcomers(&mut self, at: Duration) {
        let Some(resort) = &mut self.resort else {
            return;
        };
        if !self.rules.have_queue() || !resort.is_time_for_newcomers(at) {
            return;
        }
        let began = Instant::now();
        let named = |of: &Group| (of.name().to_owned(), of.kernel_id);
        let known: BTreeSet<_> = self.groups.values().map(named).collect();
        let is_known = |of: &GroupReader| known.contains(&(of.name().to_owned(), of.id().ok()));
        let came = choice::newcomers(&self.rules, is_known).unwrap_or_else(|error| {
            tracing::debug!("{error}");
            Vec::new()
        });
        resort.looked_for_newcomers(at, began.elapsed());
        // A walk under way may go by a number of one that has gone, and so may who was held back.
        let mut taken: BTreeSet<GroupId> = self.pages.ledger().spaces().map(|of| of.1).collect();
        taken.extend(resort.held());
        let is_free = |id: &GroupId| !self.groups.contains_key(id) && !taken.contains(id);
        let free = (1..=u16::MAX).map(GroupId).filter(is_free);
        let free: Vec<GroupId> = free.take(came.len()).collect();
        for (id, chosen) in free.into_iter().zip(&came) {
            let group = Group::numbered(chosen, &mut self.nr_groups_seen, self.read);
            self.groups.insert(id, group);
        }
    }

    /// Who is stopped by turns runs or stands still, as it is time for.
    pub(super) fn turn_held(&mut self, at: Duration) {
        if let Some(resort) = &mut self.resort {
            resort.turn(at, &self.groups);
        }
    }

    /// Lets all go on that were slowed or stopped.
    pub(super) fn let_go_on(&mut self) {
        if let Some(resort) = &mut self.resort {
            resort.end_all(&mut self.groups, "the guard ends");
        }
    }
}
