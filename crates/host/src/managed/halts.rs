//! When whole groups are slowed, stopped or ended, and go on: from second to second, and at the end. What people are told of that, of
//! groups that give nothing, and of rules that nobody goes by.
//!
//! **Owns** the readings that the decision goes by. **Does not own** who is held back and how (`resort`).

use super::Managed;
use super::resort::Resort;
use super::status::silence;
use super::writer::ToWrite;
use crate::news::News;
use std::time::Duration;
use strata_control::last_resort::Moment;

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

    /// To be called at each look, after what is idle was looked for.
    pub(super) fn halt(&mut self, at: Duration) {
        let Some(resort) = &mut self.resort else {
            return;
        };
        if !self.host.shortage.can_be_short() {
            return resort.end_all(
                &mut self.groups,
                "no rule says how much is to be free any more",
            );
        }
        let wanted_bytes = self.host.need().wanted_bytes;
        if wanted_bytes == 0 {
            // Nothing can be read of the host: nobody is held back, and nobody goes on.
            return;
        }
        let is_near = self.host.need().is_near;
        for group in self.groups.values_mut() {
            group.look_at_growth(at, is_near);
        }
        let now = Moment {
            at,
            available_bytes: self.host.available_bytes(),
            wanted_bytes,
            is_exhausted: self.host.is_exhausted,
        };
        if resort.look(now, &mut self.groups) {
            // Whether nothing is left has to be found anew: what was frozen gives what it holds.
            self.host.look_anew();
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
