//! Taking one census: which pages are looked at in which order, at which pace, and what comes of the sums.
//!
//! **Owns** order, pace and scaling. **Does not own** the program (`sys::bpf_census`) nor the arithmetic (`estimate`).
//!
//! **Invariants**
//! - I1: under a budget, blocks are looked at in random order, so that those looked at until time is up are a random
//!   sample. When all were, the census is whole.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::estimate::{Figure, Shuffled};
use super::{
    Budget, Census, CensusCost, FileId, FilePart, FullPages, GroupPart, Kind, MINOR_BITS, Question,
    device_of,
};
use super::{IdleRanges, Probed, Sums, Taken, Total};
use crate::addr::{FILE_PAGES_MAX, PAGE_BYTES};
use crate::nodes::ranges::{self, BLOCK_PAGES, Range};
use crate::process::thread_cpu_ns;
use crate::sys::bpf_census::{
    CensusCall, NR_AGES, NR_KINDS, RawFile, RawGroup, RawRecord, RawSums,
};
use crate::sys::madvise::drain_all_processors;

/// How long one call may keep its processor.
const CALL_BUDGET: Duration = Duration::from_millis(1);
/// Blocks in one call where all of memory is looked at: 64 Ki pages.
const CALL_BLOCKS: u64 = 128;
/// CPU time used before a pause that keeps the pace.
const BURST_NS: u64 = 1_000_000;
/// Share of a budget that is used to look; the rest is for bringing the sums to user space.
const LOOK_SHARE: f64 = 0.75;
/// Blocks looked at whatever the budget says: fewer tell nothing.
pub(super) const BLOCKS_MIN: u64 = 64;
/// A node that is not known, in the kernel's sums.
const NO_NODE: u32 = u32::MAX;

/// Which blocks are looked at.
#[derive(Debug)]
pub(super) enum Extent<'a> {
    /// All, at once.
    Whole,
    /// These in their order, at the budget's pace.
    Blocks {
        numbers: &'a [u32],
        budget: Budget,
        /// Whether all of them are, however long it takes; else as many as the budget allows.
        are_fixed: bool,
    },
}

/// What the kernel's program is to remember of page cache; see `watch`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Remembering {
    pub(super) number: u64,
    pub(super) rank_max: u64,
    pub(super) ages: [u64; NR_AGES],
    /// Which of the ages, from 1 on, a page has to be idle for to be told by itself; 0: none is told.
    pub(super) records_age: u64,
    /// Of so many of 65,536 folios whose count of reads is full at the first census the count is reset.
    pub(super) probe_limit: u64,
    /// Chooses which.
    pub(super) probe_seed: u64,
    /// Folios of more pages are left out of that.
    pub(super) probe_pages_max: u64,
    /// Only pages of the watched groups are reset.
    pub(super) is_probe_of_groups: bool,
    /// Pages whose count is to be reset are told, and looked at again afterwards.
    pub(super) wants_full: bool,
    /// Before, the kernel is to carry out what it has gathered on all processors.
    pub(super) is_drained: bool,
}

/// Which files are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilesOf {
    /// All.
    Everybody = 0,
    /// Those on disks of which the watched groups have pages.
    Groups = 1,
    /// Those that are in memory only, too.
    GroupsWithShmem = 2,
}

/// What a census is asked for.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) extent: Extent<'a>,
    pub(super) wants_files: bool,
    pub(super) files_of: FilesOf,
    pub(super) remembering: Option<Remembering>,
}

/// Tells of the pages in a part of a file that are charged to the watched groups, in order; of mapped ones only if that is wanted. Up
/// to 63 pages before and after the part are told, too. Returns how long the file is, bytes: 0 where it is gone or has no name any more.
pub(super) fn list(
    census: &Census,
    file: &FileId,
    pages: std::ops::Range<u64>,
    wants_mapped: bool,
    on_page: &mut dyn FnMut(&RawRecord),
) -> io::Result<u64> {
    let mut call = CensusCall {
        next: pages.start,
        end: pages.end,
        is_of_groups: FilesOf::GroupsWithShmem as u64,
        mapping: file.mapping,
        inode: file.inode,
        device: u64::from(file.device.major) << MINOR_BITS | u64::from(file.device.minor),
        generation: file.generation,
        wants_mapped: u64::from(wants_mapped),
        ..census.call()
    };
    while call.next < call.end {
        census.program.list(&mut call)?;
        let records = census.program.records(call.nr_records)?;
        records.iter().for_each(&mut *on_page);
    }
    Ok(call.file_bytes)
}

/// A census under way.
struct Taking<'a> {
    census: &'a Census,
    ranges: &'a [Range],
    asked: &'a Asked<'a>,
    on_full: &'a mut dyn FnMut(&[FullPages]),
    is_over: &'a dyn Fn() -> bool,
    nr_looked: u64,
    nr_holes: u64,
    nr_reset: u64,
    nr_lost: u64,
    kinds: [Figure; NR_KINDS],
    mapped: [Figure; NR_KINDS],
    idle: IdleRanges,
    /// What was found of files on nodes that were looked at as a whole.
    files_on: Vec<(RawFile, Option<u32>)>,
    cost: CensusCost,
}

impl Census {
    /// What is alike in all calls of its program.
    fn call(&self) -> CensusCall {
        CensusCall {
            pages_base: self.pages_base,
            budget_ns: CALL_BUDGET.as_nanos() as u64,
            has_generations: u64::from(self.places.has_generations),
            refs_flags: self.places.refs_flags,
            gen_shift: self.places.gen_shift,
            ..CensusCall::default()
        }
    }

    /// Takes a census.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn take(&mut self, question: &Question) -> io::Result<Taken> {
        let ranges = ranges::read()?;
        let numbers;
        let extent = match question.budget {
            None => Extent::Whole,
            Some(budget) => {
                numbers = in_random_order(&ranges)?;
                Extent::Blocks {
                    numbers: &numbers,
                    budget,
                    are_fixed: false,
                }
            }
        };
        let asked = Asked {
            extent,
            wants_files: question.wants_files,
            files_of: FilesOf::Everybody,
            remembering: None,
        };
        take(self, &ranges, &asked, &mut |_| {}, &|| false)
    }
}

/// The numbers of all blocks.
pub(super) fn in_random_order(ranges: &[Range]) -> io::Result<Vec<u32>> {
    let nr_blocks = nr_blocks(ranges);
    let count = u32::try_from(nr_blocks).map_err(io::Error::other)?;
    let seed = RandomState::new().hash_one(nr_blocks);
    Ok(Shuffled::new(count, seed).collect())
}

pub(super) fn nr_blocks(ranges: &[Range]) -> u64 {
    ranges.iter().map(Range::nr_blocks).sum()
}

/// Takes a census, unless `is_over` says meanwhile that nobody wants it: an error of the kind `Interrupted`. `on_full` is told of
/// pages whose count is to be reset, as soon as they were looked at.
pub(super) fn take<'a>(
    census: &'a Census,
    ranges: &'a [Range],
    asked: &'a Asked<'a>,
    on_full: &'a mut dyn FnMut(&[FullPages]),
    is_over: &'a dyn Fn() -> bool,
) -> io::Result<Taken> {
    let started = Instant::now();
    let cpu_before_ns = thread_cpu_ns();
    let nr_blocks = nr_blocks(ranges);
    if asked.remembering.is_some_and(|of| of.is_drained) {
        drain_all_processors();
    }
    // What a census that failed on the way has left.
    census.program.take_groups()?;
    census.program.take_files()?;
    let mut taking = Taking {
        census,
        ranges,
        asked,
        on_full,
        is_over,
        nr_looked: 0,
        nr_holes: 0,
        nr_reset: 0,
        nr_lost: 0,
        kinds: [Figure::default(); NR_KINDS],
        mapped: [Figure::default(); NR_KINDS],
        idle: IdleRanges::default(),
        files_on: Vec::new(),
        cost: CensusCost::default(),
    };
    let nr_sampled = match &asked.extent {
        Extent::Whole => {
            taking.look_at_all()?;
            nr_blocks
        }
        Extent::Blocks {
            numbers,
            budget,
            are_fixed,
        } => taking.look_at_some(numbers, budget, *are_fixed)?,
    };
    let last_node = taking.node_apart(ranges.last());
    taking.take_files(last_node)?;
    let scale = match nr_sampled {
        0 => 0.0,
        some => nr_blocks as f64 / some as f64,
    };
    let raw_groups = census.program.take_groups()?;
    let has_generations = are_generations_true(census, &raw_groups);
    let group = |raw: &RawGroup| group_part(raw, scale, has_generations);
    let groups = raw_groups.iter().filter_map(group).collect();
    let file = |(raw, node): &(RawFile, _)| file_part(raw, *node, scale, has_generations);
    let files = taking.files_on.iter().map(file).collect();
    let mut cost = taking.cost;
    cost.cpu_ns = thread_cpu_ns() - cpu_before_ns;
    cost.wall_ns = started.elapsed().as_nanos() as u64;
    Ok(Taken {
        nr_pages: nr_blocks * BLOCK_PAGES,
        nr_looked_pages: taking.nr_looked,
        nr_hole_pages: taking.nr_holes,
        sampled_share: nr_sampled as f64 / nr_blocks as f64,
        lost_bytes: scaled(taking.nr_lost, scale),
        reset_bytes: taking.nr_reset * PAGE_BYTES,
        totals: taking.totals(nr_sampled, nr_blocks),
        groups,
        files,
        idle: taking.idle.joined(),
        cost,
    })
}

impl Taking<'_> {
    /// Runs the program until the call is done.
    fn call(&mut self, call: CensusCall) -> io::Result<[[u64; NR_KINDS]; 2]> {
        let remembering = self.asked.remembering.unwrap_or_default();
        let mut call = CensusCall {
            wants_files: u64::from(self.asked.wants_files),
            number: remembering.number,
            rank_max: remembering.rank_max,
            ages: remembering.ages,
            records_age: remembering.records_age,
            probe_limit: remembering.probe_limit,
            probe_pages_max: remembering.probe_pages_max,
            probe_seed: remembering.probe_seed,
            probe_of_groups: u64::from(remembering.is_probe_of_groups),
            wants_full: u64::from(remembering.wants_full),
            is_of_groups: self.asked.files_of as u64,
            ..call
        };
        let mut found = [[0; NR_KINDS]; 2];
        loop {
            let begun = call.next;
            self.look_once(&mut call)?;
            if call.nr_records > 0 {
                let records = self.census.program.records(call.nr_records)?;
                let (full, idle): (Vec<_>, Vec<_>) = records
                    .into_iter()
                    .partition(|record| u64::from(record.rank) >= remembering.rank_max);
                idle.iter().for_each(|record| self.idle.add(record));
                if !full.is_empty() {
                    (self.on_full)(&full_pages(&full));
                    self.confirm(&call, begun)?;
                }
            }
            self.nr_looked += call.nr_looked;
            self.nr_holes += call.nr_holes;
            self.nr_lost += call.nr_lost;
            for (sums, new) in found.iter_mut().zip([call.kinds, call.mapped]) {
                sums.iter_mut().zip(new).for_each(|(sum, new)| *sum += new);
            }
            if call.next >= call.end {
                return Ok(found);
            }
        }
    }

    fn look_once(&mut self, call: &mut CensusCall) -> io::Result<()> {
        let before_ns = thread_cpu_ns();
        self.census.program.look(call)?;
        let took_ns = thread_cpu_ns() - before_ns;
        self.cost.nr_calls += 1;
        self.cost.longest_call_ns = self.cost.longest_call_ns.max(took_ns);
        Ok(())
    }

    /// Looks again at what a call that began at this page has looked at, to remember which counts were reset.
    fn confirm(&mut self, call: &CensusCall, begun: u64) -> io::Result<()> {
        let mut again = CensusCall {
            next: begun,
            end: call.next,
            is_confirming: 1,
            ..*call
        };
        while again.next < again.end {
            self.look_once(&mut again)?;
            self.nr_reset += again.nr_reset;
        }
        Ok(())
    }

    /// Looks at blocks one after the other; the first is remembered at this place.
    fn look(&mut self, first: u64, end: u64, node: Option<u32>, place: u64) -> io::Result<()> {
        let [kinds, mapped] = self.call(CensusCall {
            next: first * BLOCK_PAGES,
            end: end * BLOCK_PAGES,
            node: u64::from(node.unwrap_or(NO_NODE)),
            first: first * BLOCK_PAGES,
            place,
            ..self.census.call()
        })?;
        let add = |figures: &mut [Figure; NR_KINDS], values: [u64; NR_KINDS]| {
            let pairs = figures.iter_mut().zip(values);
            pairs.for_each(|(figure, value)| figure.add(value));
        };
        add(&mut self.kinds, kinds);
        add(&mut self.mapped, mapped);
        Ok(())
    }

    fn look_at_all(&mut self) -> io::Result<()> {
        let mut place = 0;
        let mut node = self.node_apart(self.ranges.first());
        for range in self.ranges {
            if self.node_apart(Some(range)) != node {
                self.take_files(node)?;
                node = self.node_apart(Some(range));
            }
            let mut first = range.first;
            while first < range.end {
                if (self.is_over)() {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                let end = range.end.min(first + CALL_BLOCKS);
                self.look(first, end, range.node, place)?;
                place += end - first;
                first = end;
            }
        }
        Ok(())
    }

    /// The node of a range, where files are told by node.
    fn node_apart(&self, range: Option<&Range>) -> Option<u32> {
        let is_plain =
            matches!(self.asked.extent, Extent::Whole) && self.asked.remembering.is_none();
        let are_several = self
            .ranges
            .iter()
            .any(|other| Some(other.node) != range.map(|range| range.node));
        range.filter(|_| is_plain && are_several)?.node
    }

    /// What was found of files since this was last called is on this node.
    fn take_files(&mut self, node: Option<u32>) -> io::Result<()> {
        self.call(CensusCall {
            wants_flush: 1,
            ..self.census.call()
        })?;
        let found = self.census.program.take_files()?;
        self.files_on
            .extend(found.into_iter().map(|raw| (raw, node)));
        Ok(())
    }

    /// Looks at these blocks, unless they are not fixed and the budget ends before. Returns at how many.
    fn look_at_some(
        &mut self,
        numbers: &[u32],
        budget: &Budget,
        are_fixed: bool,
    ) -> io::Result<u64> {
        let started = Instant::now();
        let cpu_before_ns = thread_cpu_ns();
        let mut paid_ns = 0;
        let mut nr_sampled = 0;
        for number in numbers {
            let may_end = !are_fixed && nr_sampled >= BLOCKS_MIN;
            let used_ns = thread_cpu_ns() - cpu_before_ns;
            if used_ns >= paid_ns + BURST_NS {
                if (self.is_over)() {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                // What this much time costs at the pace, less what has passed.
                let due_s = used_ns as f64 / 1e9 / (budget.cpu_share * LOOK_SHARE);
                let due = Duration::try_from_secs_f64(due_s).unwrap_or(Duration::MAX);
                if due > budget.within && may_end {
                    return Ok(nr_sampled);
                }
                sleep(due.saturating_sub(started.elapsed()));
                paid_ns = used_ns;
            }
            if started.elapsed() > budget.within && may_end {
                return Ok(nr_sampled);
            }
            if let Some((block, node)) = block_at(self.ranges, u64::from(*number)) {
                self.look(block, block + 1, node, nr_sampled)?;
            }
            nr_sampled += 1;
        }
        Ok(nr_sampled)
    }

    fn totals(&self, nr_sampled: u64, nr_blocks: u64) -> [Total; NR_KINDS] {
        let to_bytes = |pages: f64| (pages * PAGE_BYTES as f64) as u64;
        std::array::from_fn(|index| {
            let (pages, error) = self.kinds[index].estimate(nr_sampled, nr_blocks);
            let (mapped, _) = self.mapped[index].estimate(nr_sampled, nr_blocks);
            Total {
                kind: Kind::ALL[index],
                bytes: to_bytes(pages),
                error_bytes: to_bytes(error),
                mapped_bytes: to_bytes(mapped),
            }
        })
    }
}

/// Folios whose count of reads is full.
fn full_pages(records: &[RawRecord]) -> Vec<FullPages> {
    let records = records.iter().filter_map(|record| {
        let end = record.index.saturating_add(record.nr_pages);
        // The struct may have changed while it was copied; no file has as many pages.
        (end <= FILE_PAGES_MAX).then(|| FullPages {
            file: FileId::new(
                device_of(record.device),
                record.inode,
                record.generation,
                record.mapping,
            ),
            pages: record.index..end,
        })
    });
    records.collect()
}

/// The block with this number, of all ranges one after the other, and its node.
fn block_at(ranges: &[Range], number: u64) -> Option<(u64, Option<u32>)> {
    let mut left = number;
    for range in ranges {
        if left < range.nr_blocks() {
            return Some((range.first + left, range.node));
        }
        left -= range.nr_blocks();
    }
    None
}

/// Whether every page had a generation that there can be: else the place where it was looked for is wrong.
fn are_generations_true(census: &Census, groups: &[RawGroup]) -> bool {
    let is_true =
        |group: &&RawGroup| group.sums.generations.iter().sum::<u64>() == group.sums.pages;
    let nr_true = groups.iter().filter(is_true).count();
    for wrong in groups.iter().filter(|group| !is_true(group)) {
        tracing::debug!(?wrong, "generations that can't be");
    }
    census.places.gen_shift != 0 && nr_true == groups.len()
}

fn scaled(pages: u64, scale: f64) -> u64 {
    (pages as f64 * scale) as u64 * PAGE_BYTES
}

fn sums(raw: &RawSums, kind: Kind, scale: f64, has_generations: bool) -> Sums {
    let bytes = |pages: u64| scaled(pages, scale);
    let [_, generations @ ..] = raw.generations;
    Sums {
        bytes: bytes(raw.pages),
        mapped_bytes: bytes(raw.mapped),
        dirty_bytes: match kind {
            Kind::File => bytes(raw.dirty),
            _ => 0,
        },
        writeback_bytes: bytes(raw.writeback),
        unevictable_bytes: bytes(raw.unevictable),
        used_bytes: bytes(raw.used),
        generations_bytes: has_generations.then(|| generations.map(bytes)),
        read_bytes: raw.read.map(bytes),
        unknown_bytes: raw.unknown.map(bytes),
        probed: Probed {
            nr_pages: raw.probed,
            nr_squares: raw.probed_squares,
            nr_idle_pages: raw.probed_idle,
            unprobed_bytes: raw.unprobed.map(bytes),
        },
    }
}

fn group_part(raw: &RawGroup, scale: f64, has_generations: bool) -> Option<GroupPart> {
    let kind = *Kind::ALL.get(raw.kind as usize)?;
    Some(GroupPart {
        group_id: raw.id,
        node: (raw.node != NO_NODE).then_some(raw.node),
        kind,
        sums: sums(&raw.sums, kind, scale, has_generations),
    })
}

fn file_part(raw: &RawFile, node: Option<u32>, scale: f64, has_generations: bool) -> FilePart {
    let device = device_of(raw.device);
    FilePart {
        file: FileId {
            is_deleted: raw.nr_links == 0 && !raw.is_disk,
            is_disk: raw.is_disk,
            is_in_memory_only: raw.is_in_memory_only,
            ..FileId::new(device, raw.inode, raw.generation, raw.mapping)
        },
        memcg: raw.memcg,
        group_id: raw.group_id,
        node,
        sums: sums(&raw.sums, Kind::File, scale, has_generations),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_numbered_through_all_ranges() {
        let range = |first, end, node| Range { first, end, node };
        let ranges = [range(2, 4, Some(0)), range(10, 11, Some(1))];
        let found: Vec<_> = (0..4).map(|number| block_at(&ranges, number)).collect();
        let expected = [
            Some((2, Some(0))),
            Some((3, Some(0))),
            Some((10, Some(1))),
            None,
        ];
        assert_eq!(found, expected);
    }
}
