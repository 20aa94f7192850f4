//! The engine's side of a walk: what to visit, and the end of it (rules 2.2 to 2.5).
//!
//! **Owns** how a walk's questions meet the state of a lruvec. **Does not own** the filters and rows
//! ([`crate::walk`]), what an access changes (`promotion`), how the window moves (`ageing`).

use super::MultiGen;
use crate::{
    error::PolicyError,
    ids::{GroupId, Kind, NodeId, TimeMs},
    lru_gen::Walked,
    swappiness::Swappiness,
    walk::{
        AgeingWalks, Found, LookAround, NextSpace, Scan, SpaceSlot, TableBit, TableId, TableScan,
        Walk, is_dense,
    },
};

impl MultiGen {
    /// Counts what a walk read that asks no filter, and keeps for the next one what was dense.
    pub(super) fn note_walked(&mut self, group: GroupId, node: NodeId, walked: Walked) {
        let Ok(lruvec) = self.books.lruvec_of(group, node) else {
            return;
        };
        let lruvec = &mut self.books.lruvecs[usize::from(lruvec)];
        let (seq, state) = (lruvec.max_seq, &mut lruvec.walk);
        let (table, nr_entries, nr_young) = match walked {
            Walked::Table {
                table,
                nr_entries,
                nr_young,
            } => (Some(table), nr_entries.into(), nr_young.into()),
            Walked::HugePage { is_young } => (None, 1, u64::from(is_young)),
        };
        state.stats.nr_entries_visited += nr_entries;
        state.stats.nr_entries_young += nr_young;
        let Some(table) = table else { return };
        if state.noted_seq.replace(seq) != Some(seq) {
            state.filters.clear(seq + 1);
        }
        state.stats.nr_tables_seen += 1;
        if state.filters.knows(seq, table) == Some(true) {
            state.stats.nr_filter_hits += 1;
        }
        if is_dense(nr_entries, nr_young) {
            state.stats.nr_tables_dense += 1;
            state.filters.insert(seq + 1, table);
        }
    }

    /// Whether a space is worth a walker's time; what it maps of the kinds that may be evicted.
    fn is_space_small(&self, space: SpaceSlot, swappiness: Swappiness) -> bool {
        let kinds = Kind::ALL
            .into_iter()
            .filter(|kind| swappiness.allows(*kind));
        let nr_pages = self.spaces.nr_pages(space);
        let evictable = kinds.map(|kind| nr_pages[kind.index()]);
        evictable.fold(0, u64::saturating_add) < self.rules.walk.nr_space_pages_min
    }
}

impl AgeingWalks for MultiGen {
    fn space_added(&mut self, group: GroupId) -> Result<SpaceSlot, PolicyError> {
        self.books.group(group)?;
        Ok(self.spaces.add(group))
    }

    fn space_ran(&mut self, space: SpaceSlot) {
        self.spaces.note_run(space);
    }

    fn space_sized(&mut self, space: SpaceSlot, nr_pages: [u64; 2]) {
        self.spaces.set_nr_pages(space, nr_pages);
    }

    fn space_gone(&mut self, space: SpaceSlot) {
        let group = self.spaces.group(space);
        let position = self.spaces.remove(space);
        let lruvecs = self.books.lruvecs.iter_mut();
        for lruvec in lruvecs.filter(|of| of.account.group == group) {
            lruvec.walk.cursor.removed(position);
        }
    }

    fn begin_walk(
        &mut self,
        group: GroupId,
        node: NodeId,
        swappiness: Swappiness,
        scan: Scan,
    ) -> Result<Walk, PolicyError> {
        let lruvec = usize::from(self.books.lruvec_of(group, node)?);
        let seq = self.books.lruvecs[lruvec].max_seq;
        Ok(Walk {
            lruvec,
            seq,
            swappiness,
            scan,
            has_ended: false,
        })
    }

    fn next_space(&mut self, walk: &mut Walk) -> NextSpace {
        let (group, node) = (
            self.books.lruvecs[walk.lruvec].account.group,
            self.books.lruvecs[walk.lruvec].account.node,
        );
        let mut is_first_call = None;
        loop {
            let state = &mut self.books.lruvecs[walk.lruvec].walk;
            let (id, is_new, is_first) = match state.cursor.next(walk.seq, self.spaces.row(group)) {
                Found::Over => return NextSpace::Over,
                Found::End => {
                    walk.has_ended = true;
                    return NextSpace::End;
                }
                Found::Space {
                    id,
                    is_new,
                    is_first,
                } => (id, is_new, is_first),
            };
            let is_first = *is_first_call.get_or_insert(is_first);
            if is_new {
                walk.scan = Scan::Forced;
            }
            let has_run = self.spaces.take_run_mark(id, node);
            let is_due = walk.scan == Scan::Forced || has_run;
            if !is_due || self.is_space_small(id, walk.swappiness) {
                continue;
            }
            // Only now: while every space is idle, what the filter knows stays of use.
            if is_first {
                let state = &mut self.books.lruvecs[walk.lruvec].walk;
                state.filters.clear(walk.seq + 1);
            }
            return NextSpace::Space(id);
        }
    }

    fn is_over(&self, walk: &Walk) -> bool {
        self.books.lruvecs[walk.lruvec].max_seq != walk.seq
    }

    fn should_scan(&mut self, walk: &Walk, table: TableId, bit: TableBit) -> bool {
        let state = &mut self.books.lruvecs[walk.lruvec].walk;
        state.stats.nr_tables_seen += 1;
        let is_forced = walk.scan == Scan::Forced;
        let does_bit_count = !is_forced || self.rules.walk.does_clear_bit_stop_forced;
        if bit == TableBit::Clear && does_bit_count {
            return false;
        }
        if is_forced {
            return true;
        }
        let Some(is_known) = state.filters.knows(walk.seq, table) else {
            return true;
        };
        if is_known {
            state.stats.nr_filter_hits += 1;
        } else {
            state.stats.nr_tables_filtered += 1;
        }
        is_known
    }

    fn scanned(&mut self, walk: &Walk, table: TableId, scan: TableScan) {
        let state = &mut self.books.lruvecs[walk.lruvec].walk;
        let is_dense = match scan {
            TableScan::Contended => self.rules.walk.is_contended_dense,
            TableScan::Read {
                nr_entries,
                nr_young,
            } => {
                let (nr_entries, nr_young) = (u64::from(nr_entries), u64::from(nr_young));
                state.stats.nr_entries_visited += nr_entries;
                state.stats.nr_entries_young += nr_young;
                is_dense(nr_entries, nr_young)
            }
        };
        if is_dense {
            state.stats.nr_tables_dense += 1;
            state.filters.insert(walk.seq + 1, table);
        }
    }

    fn finish(&mut self, walk: Walk, now: TimeMs) -> bool {
        if !walk.has_ended || self.is_over(&walk) {
            return false;
        }
        let now = self.books.tell_time(now);
        self.inc_max_seq(walk.lruvec, walk.swappiness, now);
        if let Ok(group) = self
            .books
            .groups
            .get_mut(self.books.lruvecs[walk.lruvec].account.group)
        {
            group.nr_ageing_runs += 1;
        }
        true
    }

    fn looked_around(&mut self, around: LookAround<'_>) {
        self.look_around(around);
    }
}
