//! Who could give memory back? Pages by age of many cgroups, compared at equal age.
//!
//! One walk over everybody, one clock, one bound: what a group could give is what none of its
//! processes has accessed for so long, whatever its size and however busy its neighbours are.
//!
//! **Owns** which group and program a space is counted in. **Does not own** stamps and ages ([`AgedPages`]), nor
//! which processes are one program ([`Programs`]).
//!
//! **Invariants**
//! - I1: a space counts in one group: the one its process was in when it was first seen.

use super::nodes::{NodeStatus, fit};
use super::{AgedPages, Ages, KindBytes, Kinds, OnNodes, kinds_of};
use crate::observe::programs::{Label, Program, Programs};
use crate::observe::{Observer, Walked};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use strata_linux::cgroup::GroupReader;
use strata_linux::nodes::Nodes;
use strata_linux::{plain, swap};
use strata_lru::SpaceNo;

/// Of what lies idle this share stays in a safe budget: one in so many parts.
const MARGIN_SHARE: u64 = 10;
/// Less than this is not worth a budget.
const SAVES_BYTES_MIN: u64 = 4 << 20;

/// What stands for the group of a process that is in none, or that ended too soon to tell.
const NO_GROUP: &str = "-";

/// [`AgedPages`] of an observer, by cgroup.
#[derive(Debug, Default)]
pub struct IdleGroups {
    pages: AgedPages,
    members: BTreeMap<SpaceNo, Member>,
}

/// Where a space is counted.
#[derive(Debug)]
struct Member {
    group: String,
    pid: i32,
}

/// A group, by what it could give.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct RankedGroup {
    /// Path of the group below the mount, as `/proc/PID/cgroup` prints it; `-` for processes in none.
    pub group: String,
    /// What the path tells of.
    #[serde(flatten)]
    pub label: Label,
    /// Processes seen in it that are still there.
    pub nr_processes: u64,
    /// In memory; a page that several processes of it map counts once.
    pub resident_bytes: u64,
    /// Part of that which is known to be mapped by processes of other groups, too.
    pub shared_bytes: u64,
    /// Part of that whose accesses can't be seen: memory of guests, and pages whose accessed bits can't be cleared.
    pub unknown_bytes: u64,
    /// Not accessed for the age asked for.
    pub idle_bytes: u64,
    /// Idle memory, by kind.
    pub idle: KindBytes,
    /// In memory on each memory node, where there are several.
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub nodes: OnNodes,
    /// The fastest memory node with room for the group's working set, where there are several nodes. Groups that use more get room
    /// first. `None`: no node has room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fits_node: Option<u32>,
    /// Charged to it and the groups below, page cache included; `None` where that can't be read.
    pub charged_bytes: Option<u64>,
    /// What is charged to it without the groups below, by kind; empty where that can't be read.
    pub kinds: Kinds,
    /// The programs in it with anything in memory, those first that could give most.
    pub programs: Vec<RankedProgram>,
}

impl RankedGroup {
    /// What people call it: the pod and container that it is, else its path.
    pub fn called(&self) -> String {
        let of_pod = self.label.name().filter(|_| self.label.pod.is_some());
        of_pod.unwrap_or_else(|| plain::line(&self.group).into_owned())
    }

    /// The working set of the group: in memory, and accessed within the age.
    pub fn used_bytes(&self) -> u64 {
        self.resident_bytes.saturating_sub(self.idle_bytes)
    }
}

/// A budget for a group that leaves it all that was used within the age, and a margin.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SafeBudget {
    /// Path of the group.
    pub group: String,
    /// The budget.
    pub budget_bytes: u64,
    /// By how much it is below what is charged now.
    pub saves_bytes: u64,
    /// The size of a swap device for what goes; `None` where the machine's swap has room for it.
    pub swap_bytes: Option<u64>,
}

/// One of the programs of a group, by what it could give.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct RankedProgram {
    /// The process at its root.
    pub pid: i32,
    /// The command line of that, cut.
    pub command: String,
    /// The user of that.
    pub user: String,
    /// Processes of it that were watched.
    pub nr_processes: u64,
    /// As of the group.
    pub resident_bytes: u64,
    /// As of the group, shared with other programs.
    pub shared_bytes: u64,
    /// As of the group.
    pub unknown_bytes: u64,
    /// As of the group.
    pub idle_bytes: u64,
    /// As of the group.
    pub idle: KindBytes,
}

/// Groups, those first that could give most.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Ranking {
    /// The age at which they are compared, milliseconds.
    pub age_ms: u64,
    /// How long they were watched, milliseconds; below the age nothing can be idle for so long.
    pub watched_ms: u64,
    /// In memory of all, each page once.
    pub resident_bytes: u64,
    /// Not accessed for the age, of all, each page once.
    pub idle_bytes: u64,
    /// Groups with anything in memory.
    pub groups: Vec<RankedGroup>,
    /// Memory nodes, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeStatus>,
    /// For the group that could give most of its own; `None` if none could give anything worth it.
    pub safe_budget: Option<SafeBudget>,
}

impl IdleGroups {
    /// Knows nothing yet.
    pub fn new() -> IdleGroups {
        IdleGroups::default()
    }

    /// Walks once.
    pub fn observe(&mut self, observer: &mut Observer) -> Walked {
        let walked = self.pages.observe(observer);
        let there: BTreeMap<SpaceNo, i32> = observer
            .processes()
            .map(|(space, process)| (space, process.pid()))
            .collect();
        self.members.retain(|space, _| there.contains_key(space));
        for (space, pid) in there {
            self.members.entry(space).or_insert_with(|| {
                let group = GroupReader::of_process(pid).ok().flatten();
                let name = group.map_or_else(|| NO_GROUP.to_owned(), |of| of.name().to_owned());
                Member { group: name, pid }
            });
        }
        walked
    }

    /// Ranks the groups by what has not been accessed for `age`; equal ones by name.
    pub fn ranking(&self, age: Duration) -> Ranking {
        let mut programs = Programs::new();
        self.ranking_of(age, |pids| programs.find(pids))
    }

    fn ranking_of(&self, age: Duration, mut find: impl FnMut(&[i32]) -> Vec<Program>) -> Ranking {
        let mut members: BTreeMap<&str, BTreeMap<i32, SpaceNo>> = BTreeMap::new();
        for (id, member) in &self.members {
            let of_group = members.entry(&member.group).or_default();
            of_group.insert(member.pid, *id);
        }
        let mut of_space = BTreeMap::new();
        for (number, spaces) in members.values().enumerate() {
            of_space.extend(spaces.values().map(|space| (*space, number)));
        }
        let part_of = |parts: &BTreeMap<SpaceNo, usize>, id| parts.get(&id).copied();
        let (by_group, total) = self.pages.count(members.len(), |id| part_of(&of_space, id));
        // The programs of all groups, counted at once.
        let mut programs_of: Vec<Vec<Program>> = Vec::new();
        let mut of_program = BTreeMap::new();
        let mut nr_programs = 0;
        for spaces in members.values() {
            let pids: Vec<i32> = spaces.keys().copied().collect();
            let programs = find(&pids);
            for program in &programs {
                let own = program.pids.iter().filter_map(|pid| spaces.get(pid));
                of_program.extend(own.map(|space| (*space, nr_programs)));
                nr_programs += 1;
            }
            programs_of.push(programs);
        }
        let (by_program, _) = self.pages.count(nr_programs, |id| part_of(&of_program, id));
        let mut by_program = by_program.into_iter();
        let mut groups = Vec::new();
        let found = members.into_iter().zip(by_group).zip(programs_of);
        for (((group, spaces), ages), programs) in found {
            let ranked = programs.into_iter().zip(&mut by_program);
            let ranked = ranked.map(|(program, ages)| rank(program, &spaces, &ages, age));
            let mut programs: Vec<RankedProgram> = ranked
                .filter(|program| program.resident_bytes > 0)
                .collect();
            programs.sort_by_key(|program| std::cmp::Reverse(program.idle_bytes));
            let idle = ages.idle_for(age);
            let reader = reader(group);
            let charge = reader.as_ref().and_then(GroupReader::charge);
            groups.push(RankedGroup {
                group: group.to_owned(),
                label: Label::of(group),
                nr_processes: spaces.len() as u64,
                resident_bytes: ages.resident().total_bytes(),
                shared_bytes: ages.shared().total_bytes(),
                unknown_bytes: ages.unknown().total_bytes(),
                idle_bytes: idle.total_bytes(),
                idle,
                nodes: ages.on_nodes().clone(),
                fits_node: None,
                charged_bytes: reader.as_ref().and_then(GroupReader::usage_bytes),
                kinds: charge.map_or_else(Kinds::new, |charge| {
                    kinds_of(&charge, &ages, [age; 2], None)
                }),
                programs,
            });
        }
        groups.retain(|group| group.resident_bytes > 0);
        groups.sort_by_key(|group| std::cmp::Reverse(group.idle_bytes));
        let safe_budget = groups.iter().find_map(safe_budget);
        let several = Some(total.on_nodes()).filter(|on_nodes| !on_nodes.is_empty());
        let nodes =
            several.and_then(|on_nodes| Some(NodeStatus::of_all(&Nodes::read().ok()?, on_nodes)));
        let nodes = nodes.unwrap_or_default();
        let used_bytes: Vec<u64> = groups.iter().map(RankedGroup::used_bytes).collect();
        for (group, node) in groups.iter_mut().zip(fit(&used_bytes, &nodes)) {
            group.fits_node = node;
        }
        Ranking {
            age_ms: millis(age),
            watched_ms: millis(self.pages.ledger().watched()),
            resident_bytes: total.resident().total_bytes(),
            idle_bytes: total.idle_for(age).total_bytes(),
            groups,
            nodes,
            safe_budget,
        }
    }
}

fn reader(group: &str) -> Option<GroupReader> {
    let reader = GroupReader::open(Path::new(group)).ok();
    reader.filter(|_| group != NO_GROUP)
}

/// The budget of a group that may have one: what is charged, less most of what lies idle and is its own.
fn safe_budget(group: &RankedGroup) -> Option<SafeBudget> {
    let charged_bytes = group.charged_bytes.filter(|_| group.group != "/")?;
    let own_bytes = group.idle_bytes.saturating_sub(group.shared_bytes);
    let could_bytes = own_bytes - own_bytes / MARGIN_SHARE;
    // A budget in whole MiB, rounded up.
    let budget_bytes = charged_bytes
        .saturating_sub(could_bytes)
        .next_multiple_of(1 << 20);
    let saves_bytes = charged_bytes.saturating_sub(budget_bytes);
    (saves_bytes >= SAVES_BYTES_MIN).then(|| SafeBudget {
        group: group.group.clone(),
        budget_bytes,
        saves_bytes,
        swap_bytes: swap::is_swap_below(saves_bytes).then(|| swap::device_bytes_for(saves_bytes)),
    })
}

fn rank(
    program: Program,
    spaces: &BTreeMap<i32, SpaceNo>,
    ages: &Ages,
    age: Duration,
) -> RankedProgram {
    let own = program.pids.iter().filter(|pid| spaces.contains_key(pid));
    let idle = ages.idle_for(age);
    RankedProgram {
        pid: program.root.pid,
        nr_processes: own.count() as u64,
        command: program.root.command,
        user: program.root.user,
        resident_bytes: ages.resident().total_bytes(),
        shared_bytes: ages.shared().total_bytes(),
        unknown_bytes: ages.unknown().total_bytes(),
        idle_bytes: idle.total_bytes(),
        idle,
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::programs::Person;
    use crate::observe::{Piece, Visitor};
    use crate::test_mapping::mapping;
    use strata_linux::access::{TableRecord, TableShape};
    use strata_linux::addr::{PAGE_BYTES, TableNo};
    use strata_linux::process::MappingClass;
    use strata_lru::bits;

    /// Tells a walk of a space that has so many pages, of which the first ones were accessed.
    fn tell(groups: &mut IdleGroups, space: SpaceNo, nr_pages: usize, nr_accessed: usize) {
        let mapping = mapping(0, 512, MappingClass::Anon);
        let mut record = TableRecord::empty(TableNo(0), TableShape::Pages);
        record.present = bits::run(0, nr_pages);
        record.accessed = bits::run(0, nr_accessed);
        groups
            .pages
            .begin_space(space, std::slice::from_ref(&mapping), false);
        groups.pages.piece(&Piece {
            space,
            mapping: &mapping,
            mapping_index: 0,
            record: &record,
            mask: bits::run(0, 512),
            unseen: bits::NONE,
        });
        groups.pages.end(space, true);
    }

    #[test]
    fn a_safe_budget_leaves_what_is_used_what_is_shared_and_a_margin() {
        let group = |name: &str, charged_mib: Option<u64>, idle_mib: u64| RankedGroup {
            group: name.to_owned(),
            nr_processes: 1,
            resident_bytes: 500 << 20,
            shared_bytes: 20 << 20,
            idle_bytes: idle_mib << 20,
            charged_bytes: charged_mib.map(|mib| mib << 20),
            ..RankedGroup::default()
        };
        let of = |name, charged_mib, idle_mib| {
            let budget = safe_budget(&group(name, charged_mib, idle_mib))?;
            Some([budget.budget_bytes >> 20, budget.saves_bytes >> 20])
        };
        assert_eq!(of("/a", Some(600), 320), Some([330, 270]));
        assert_eq!(of("/a", Some(600), 22), None, "not worth it");
        assert_eq!(of("/a", None, 320), None);
        assert_eq!(of("/", Some(600), 320), None, "the root has no limit");
    }

    #[test]
    fn groups_are_ranked_by_what_all_their_processes_left_alone() {
        let mut groups = IdleGroups::new();
        for (space, group) in [(0, "/busy"), (1, "/idle"), (2, "/idle"), (3, "/empty")] {
            let member = Member {
                group: group.to_owned(),
                pid: space as i32 + 10,
            };
            groups.members.insert(SpaceNo(space), member);
            groups.pages.appear(SpaceNo(space), None);
        }
        for at_s in 0..=10 {
            groups.pages.start_walk(Duration::from_secs(at_s));
            tell(&mut groups, SpaceNo(0), 500, 450);
            tell(&mut groups, SpaceNo(1), 100, 10);
            // Accessed once, in the middle of the watch.
            tell(&mut groups, SpaceNo(2), 30, if at_s == 5 { 30 } else { 0 });
            tell(&mut groups, SpaceNo(3), 0, 0);
        }
        let each = |pids: &[i32]| {
            let program = |pid: &i32| Program {
                root: Person {
                    pid: *pid,
                    ..Person::default()
                },
                pids: vec![*pid],
            };
            pids.iter().map(program).collect()
        };
        let by_program = groups.ranking_of(Duration::from_secs(5), each);
        let idle_pages = |group: &RankedGroup| {
            let programs = group.programs.iter();
            let pages = programs.map(|p| (p.pid, p.nr_processes, p.idle_bytes / PAGE_BYTES));
            pages.collect::<Vec<_>>()
        };
        assert_eq!(
            idle_pages(&by_program.groups[0]),
            [(11, 1, 90), (12, 1, 30)]
        );
        assert_eq!(idle_pages(&by_program.groups[1]), [(10, 1, 50)]);
        let at = |age_s| {
            let ranking = groups.ranking_of(Duration::from_secs(age_s), |_| Vec::new());
            assert_eq!((ranking.age_ms, ranking.watched_ms), (age_s * 1000, 10_000));
            let figures = |group: &RankedGroup| {
                let pages = [group.resident_bytes, group.idle_bytes].map(|b| b / PAGE_BYTES);
                (group.group.clone(), group.nr_processes, pages)
            };
            ranking.groups.iter().map(figures).collect::<Vec<_>>()
        };
        let busy = ("/busy".to_owned(), 1, [500, 50]);
        assert_eq!(at(5), [("/idle".to_owned(), 2, [130, 120]), busy.clone()]);
        assert_eq!(at(10), [("/idle".to_owned(), 2, [130, 90]), busy]);
        assert!(at(11).iter().all(|(_, _, [_, idle])| *idle == 0));
    }
}
