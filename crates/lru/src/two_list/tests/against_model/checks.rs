//! What is checked against the engine rather than predicted, and the comparison after each operation.

use super::*;

impl Pair {
    /// Folios that a walk had found young may have been met and put back, before any was taken.
    pub(super) fn adopt_second_chances(&mut self) -> Result<(), String> {
        let met = self
            .folios
            .iter()
            .filter(|(id, folio)| folio.is_young && !self.engine.flags(**id).is_young());
        let met: Vec<FolioId> = met.map(|of| *of.0).collect();
        for id in met {
            let folio = self.folios.get_mut(&id).unwrap();
            folio.is_young = false;
            let is_wanted = folio.is_referenced || folio.is_exec && folio.kind == Kind::File;
            folio.is_referenced = true;
            let (lruvec, nr_pages, half) = (folio.lruvec, folio.nr_pages, folio.half);
            self.stats[lruvec].nr_young_pages += nr_pages;
            check!(half == Some(Half::Inactive), "{id:?} was met elsewhere");
            self.detach(id);
            match is_wanted {
                true => self.activate(id),
                false => self.enter(id, Half::Inactive),
            }
        }
        Ok(())
    }

    /// In which order folios with a second chance were put back is the run's own affair.
    pub(super) fn adopt_order(&mut self) -> Result<(), String> {
        for number in 0..self.engine.books.lruvecs.len() {
            let Some(at) = self.place_of(number) else {
                continue;
            };
            let queues = &mut self.queues[at];
            for (half, kind) in Half::ALL
                .into_iter()
                .flat_map(|half| Kind::ALL.map(|k| (half, k)))
            {
                let queue = &mut queues[half.index()][kind.index()];
                let kept = listed(&self.engine, number, half, kind)?;
                let (mut a, mut b) = (queue.clone(), kept.clone());
                a.make_contiguous().sort();
                b.make_contiguous().sort();
                check!(
                    a == b,
                    "{half:?} {kind} of {number}: {kept:?}, expected {queue:?}"
                );
                *queue = kept;
            }
        }
        Ok(())
    }

    /// Compares what can be seen of the engine with the model.
    pub(super) fn compare(&mut self) -> Result<(), String> {
        check!(
            self.engine.nr_folios() as usize == self.folios.len(),
            "number of folios"
        );
        for (id, folio) in &self.folios {
            let flags = self.engine.flags(*id);
            let seen = (
                flags.half(),
                flags.is_referenced(),
                flags.is_workingset(),
                flags.is_young(),
            );
            let expected = (
                folio.half,
                folio.is_referenced,
                folio.is_workingset,
                folio.is_young,
            );
            check!(seen == expected, "{id:?} is {seen:?}, expected {folio:?}");
            let same = (self.engine.kind(*id), self.engine.order(*id).nr_pages());
            check!(
                same == (folio.kind, folio.nr_pages),
                "{id:?} is not {folio:?}"
            );
        }
        for number in 0..self.engine.books.lruvecs.len() {
            let Some(at) = self.place_of(number) else {
                continue;
            };
            for (half, kind) in Half::ALL
                .into_iter()
                .flat_map(|half| Kind::ALL.map(|k| (half, k)))
            {
                let kept = listed(&self.engine, number, half, kind)?;
                let queue = &self.queues[at][half.index()][kind.index()];
                check!(
                    kept == *queue,
                    "{half:?} {kind}: {kept:?}, expected {queue:?}"
                );
            }
        }
        for (group, id) in self.groups.iter().enumerate() {
            let nodes = (group * usize::from(NR_NODES))..((group + 1) * usize::from(NR_NODES));
            let (mut stats, mut own_stats) = (ReclaimStats::default(), TwoListStats::default());
            for at in nodes {
                stats += self.stats[at];
                own_stats += self.own_stats[at];
            }
            let seen = self.engine.stats(*id).map_err(|error| error.to_string())?;
            // How much was looked at is the run's own affair.
            stats.nr_scanned_pages = seen.nr_scanned_pages;
            check!(seen == stats, "{seen:?}, expected {stats:?}");
            check!(
                seen.nr_scanned_pages >= seen.nr_isolated_pages,
                "taken without a look: {seen:?}"
            );
            let seen = self
                .engine
                .own_stats(*id)
                .map_err(|error| error.to_string())?;
            check!(seen == own_stats, "{seen:?}, expected {own_stats:?}");
        }
        Ok(())
    }
}

/// A list of the engine, youngest in front.
fn listed(
    engine: &TwoList,
    number: usize,
    half: Half,
    kind: Kind,
) -> Result<VecDeque<FolioId>, String> {
    let mut queue = VecDeque::new();
    let list = engine.books.lruvecs[number].list(half, kind);
    engine
        .books
        .lists
        .visit(&engine.books.folios, list, |folio| {
            queue.push_front(folio);
            Ok(())
        })?;
    Ok(queue)
}
