//! What the full `lru_gen` text shows of the engine (rules 6).
//!
//! **Owns** which figure stands where. **Does not own** the layout ([`crate::lru_gen`]).

use super::MultiGen;
use crate::{
    error::PolicyError,
    ids::{GenSeq, GroupId, Kind, TimeMs},
    lru_gen::{FullGeneration, FullStyle, FullView, TierFigures},
    lruvec::Lruvec,
    rules::CommandRule,
};

impl MultiGen {
    /// See [`LruGen::full_view`](crate::lru_gen::LruGen::full_view).
    pub(super) fn full_views(
        &self,
        group: GroupId,
        now: TimeMs,
    ) -> Result<Vec<FullView>, PolicyError> {
        let path = &self.books.group(group)?.path;
        let style = match self.rules.commands {
            CommandRule::OldIsDone => FullStyle::Blank,
            CommandRule::AnyAges => FullStyle::Crossed,
        };
        let lruvecs = self.books.lruvecs_of(group)?;
        let mut views: Vec<FullView> = lruvecs
            .map(|lruvec| FullView {
                group,
                path: path.clone(),
                node: lruvec.account.node,
                generations: self.full_generations(lruvec, now),
                style,
            })
            .collect();
        views.sort_by_key(|view| view.node);
        Ok(views)
    }

    fn full_generations(&self, lruvec: &Lruvec, now: TimeMs) -> Vec<FullGeneration> {
        let first = (lruvec.max_seq + 1).saturating_sub(lruvec.nr_gens_max() as u64);
        let generation = |seq: u64| {
            let nr_pages = lruvec.nr_pages[lruvec.generation_index(seq)];
            let size = |kind: Kind| {
                let is_past = seq < lruvec.min_seq[kind.index()];
                (nr_pages[kind.index()], is_past)
            };
            let figures = |tier: usize| Kind::ALL.map(|kind| tier_figures(lruvec, seq, tier, kind));
            FullGeneration {
                seq: GenSeq(seq),
                age_ms: now.since(lruvec.birth(GenSeq(seq))),
                sizes: Kind::ALL.map(size),
                tiers: (0..self.counting.nr_tiers()).map(figures).collect(),
                walk: (seq == lruvec.max_seq).then_some(lruvec.last_walk),
            }
        };
        (first..=lruvec.max_seq).map(generation).collect()
    }
}

fn tier_figures(lruvec: &Lruvec, seq: u64, tier: usize, kind: Kind) -> TierFigures {
    let of = lruvec.controller.counters(kind, tier);
    if seq == lruvec.max_seq {
        TierFigures::Averages {
            nr_refaulted: of.avg_refaulted,
            nr_total: of.avg_total,
        }
    } else if seq == lruvec.min_seq[kind.index()] {
        TierFigures::Period {
            nr_refaulted: of.refaulted,
            nr_evicted: of.evicted,
            nr_protected: of.protected,
        }
    } else {
        TierFigures::None
    }
}
