//! What is checked against the engine rather than predicted, and the comparison after each operation.

use super::{kernels::is_v1, *};

impl Generations {
    /// Checks a batch against what eviction may do, and adopts what it did.
    pub(super) fn taken(&mut self, engine: &MultiGen, taken: &Taken<'_>) -> Result<(), String> {
        let (kernel, group, batch) = (self.kernel, taken.group, taken.batch);
        for id in &batch.folios {
            let folio = self
                .folios
                .get_mut(id)
                .ok_or_else(|| format!("{id:?} does not exist"))?;
            let window = &mut self.windows[folio.lruvec];
            let of_group = folio.lruvec / usize::from(NR_NODES);
            check!(of_group == group, "{id:?} is of group {of_group}");
            check!(
                taken.swappiness.allows(folio.kind),
                "{id:?} is {}",
                folio.kind
            );
            let seq = folio
                .seq
                .take()
                .ok_or_else(|| format!("{id:?} was isolated already"))?;
            check!(
                seq + 2 <= window.max,
                "{id:?} of {seq} is young: {window:?}"
            );
            let is_v1 = is_v1(kernel);
            let may_be_spared =
                seq + 3 <= window.max && folio.is_warm(kernel) && (folio.is_referenced || is_v1);
            let is_certain = folio.is_count_known && !may_be_spared;
            check!(
                !folio.is_saturated(kernel) || !is_certain,
                "{id:?} is saturated: {folio:?}"
            );
            check!(
                !folio.is_stepped_over(kernel),
                "{id:?} waits to be written: {folio:?}"
            );
            folio.is_to_rotate = Some(false);
            if is_v1 {
                // A folio spared first has nothing counted. One taken at once keeps what was counted if it was accessed before,
                // else only that it is of the working set.
                let is_first_tier = engine.tier(*id) == 0;
                if is_first_tier || !folio.is_referenced {
                    folio.refs = 0;
                }
                folio.is_workingset &= !is_first_tier;
                folio.is_referenced = false;
            } else if may_be_spared && folio.is_workingset {
                folio.is_count_known = false;
            } else if !folio.is_referenced || may_be_spared && engine.tier(*id) == 0 {
                folio.forget(kernel);
            }
            window.stats.nr_isolated_pages += folio.nr_pages;
        }
        for (id, folio) in self.folios.iter_mut().filter(|of| of.1.seq.is_some()) {
            let seq = engine.generation(*id).map(|seq| seq.0);
            if folio.seq == seq {
                continue;
            }
            let window = &self.windows[folio.lruvec];
            let is_known = !window.has_overlapped[folio.kind.index()];
            let is_waiting = folio.is_stepped_over(kernel);
            let is_warm = folio.is_warm(kernel) || is_waiting;
            let steps = seq.unwrap_or(0) - folio.seq.unwrap_or(0);
            check!(
                is_warm || !is_known,
                "{folio:?} was spared to {seq:?} for nothing"
            );
            check!(
                (1..=2).contains(&steps) || !is_known,
                "{folio:?} went up to {seq:?}"
            );
            let stays_warm = folio.is_workingset && !is_v1(kernel) || is_waiting;
            check!(
                steps == 1 || stays_warm || !is_known,
                "{folio:?} spared twice"
            );
            folio.seq = seq;
            if is_waiting {
                let is_only_waiting = !folio.is_warm(kernel);
                folio.is_to_rotate = is_only_waiting.then_some(true);
            }
            folio.forget(kernel);
        }
        for (group, id) in self.groups.iter().enumerate() {
            let views = engine.view(*id, TimeMs(0));
            let views = views.map_err(|error| error.to_string())?;
            for view in views {
                let window = &mut self.windows[lruvec(group, view.node)];
                for kind in Kind::ALL {
                    let mut seqs = view.generations.iter();
                    let oldest = seqs.find(|of| of.nr_pages[kind.index()].is_some());
                    let oldest = oldest.map_or(0, |of| of.seq.0);
                    check!(
                        oldest >= window.min[kind.index()],
                        "{kind} went back to {oldest}"
                    );
                    check!(
                        (1..=3).contains(&(window.max - oldest)),
                        "{kind}: {oldest}.."
                    );
                    window.min[kind.index()] = oldest;
                }
            }
        }
        Ok(())
    }

    /// Checks what is said of a request that took nothing.
    pub(super) fn check_end(&self, taken: &Taken<'_>) -> Result<(), String> {
        let Some((request, end)) = taken.asked else {
            return Ok(());
        };
        if let Isolated::Pages(nr_pages) = end {
            check!(
                nr_pages < request.nr_pages + (1 << 15),
                "{nr_pages} for {request:?}"
            );
            return Ok(());
        }
        if request.nr_pages == 0 {
            return Ok(());
        }
        let evictable = |folio: &&Folio| {
            folio.lruvec / usize::from(NR_NODES) == taken.group
                && folio.seq.is_some()
                && request.swappiness.allows(folio.kind)
        };
        let has_evictable = self.folios.values().any(|folio| evictable(&folio));
        check!(
            (end == Isolated::Empty) != has_evictable,
            "{end:?}, evictable: {has_evictable}"
        );
        check!(
            end != Isolated::Thrashing || self.has_min_ttl,
            "thrashing without min_ttl"
        );
        // With min_ttl one node may be too young while the other needs a walk; a kernel that keeps to
        // one kind leaves the other as it is.
        let keeps_to_one_kind = self.kernel == KernelModel::V7_2 && request.priority > 0;
        if end == Isolated::NeedsAgeing && !self.has_min_ttl && !keeps_to_one_kind {
            for folio in self.folios.values().filter(evictable) {
                let window = &self.windows[folio.lruvec];
                let is_young = folio.seq >= Some(window.max - 1);
                let is_known = !window.has_overlapped[folio.kind.index()];
                check!(
                    is_young || !is_known,
                    "{folio:?} of {window:?} was left: {end:?}"
                );
            }
        }
        Ok(())
    }

    /// Compares what can be seen of the engine with the model.
    pub(super) fn compare_all(&mut self, engine: &MultiGen) -> Result<(), String> {
        let mut sizes = BTreeMap::new();
        for (id, folio) in &mut self.folios {
            let id = *id;
            let seq = engine.generation(id).map(|seq| seq.0);
            let has_overlapped = self.windows[folio.lruvec].has_overlapped[folio.kind.index()];
            if has_overlapped && seq.is_some() == folio.seq.is_some() {
                folio.seq = seq;
            }
            if folio.merged_to.take().is_some_and(|to| seq == Some(to)) {
                folio.forget(self.kernel);
            }
            check!(seq == folio.seq, "{id:?} is in {seq:?}, expected {folio:?}");
            let is_same =
                engine.kind(id) == folio.kind && engine.order(id).nr_pages() == folio.nr_pages;
            check!(is_same, "{id:?} is not {folio:?}");
            let place = (folio.lruvec, folio.kind, folio.seq);
            *sizes.entry(place).or_insert(0) += folio.nr_pages;
        }
        for (group, id) in self.groups.iter().enumerate() {
            let views = engine.view(*id, TimeMs(0));
            let views = views.map_err(|error| error.to_string())?;
            let mut expected = ReclaimStats::default();
            for view in views {
                let at = lruvec(group, view.node);
                let window = &self.windows[at];
                expected += window.stats;
                let (first, last) = (view.generations.first(), view.generations.last());
                let ends = (first.map(|of| of.seq.0), last.map(|of| of.seq.0));
                let oldest = window.min[0].min(window.min[1]);
                check!(
                    ends == (Some(oldest), Some(window.max)),
                    "{ends:?} is not {window:?}"
                );
                for of in &view.generations {
                    for kind in Kind::ALL {
                        let is_in_window = of.seq.0 >= window.min[kind.index()];
                        let sum = sizes.get(&(at, kind, Some(of.seq.0))).copied().unwrap_or(0);
                        let expected = is_in_window.then_some(sum);
                        let shown = of.nr_pages[kind.index()];
                        check!(
                            shown == expected,
                            "{:?} {kind}: {shown:?}, {expected:?}",
                            of.seq
                        );
                    }
                }
            }
            let mut stats = engine.stats(*id).map_err(|error| error.to_string())?;
            // Tiers have a test of their own; the model knows kinds.
            let all = stats.nr_refaulted_pages.iter_mut();
            let all = all.chain(&mut stats.nr_refaulted_recent_pages);
            for of_kind in all.chain(&mut stats.nr_left_pages) {
                let nr_pages = of_kind.iter().sum();
                *of_kind = [0; ReclaimStats::NR_TIERS];
                of_kind[0] = nr_pages;
            }
            for kind in [0, 1] {
                let by_whom = [stats.nr_evicted_pages, stats.nr_kernel_evicted_pages];
                expected.nr_left_pages[kind][0] = by_whom.map(|of| of[kind]).iter().sum();
            }
            // How much was looked at and spared is eviction's own affair.
            expected.nr_scanned_pages = stats.nr_scanned_pages;
            expected.nr_protected_pages = stats.nr_protected_pages;
            expected.nr_ageing_runs = self.nr_walks[group];
            check!(stats == expected, "{stats:?}, expected {expected:?}");
        }
        Ok(())
    }
}

fn lruvec(group: usize, node: NodeId) -> usize {
    group * usize::from(NR_NODES) + usize::from(node.0)
}
