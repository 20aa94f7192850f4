//! How old is each page? What walks tell of live processes goes into the ledger of ages, and is asked for from there.
//!
//! ```text
//!   loop { pages.observe(&mut observer); sleep }      each walk into the ledger
//!   pages.ages()                                      resident, accessed within, idle for; by mapping
//!   pages.count(..), pages.ledger()                   by any parts; what may be taken, what came back
//! ```
//!
//! A page counts once, however many processes map it. Pages of files and of shared memory are known by file and place
//! in it; private pages by their address, in processes that came of one another by fork, where the kernel says that
//! several map them (`family`). Guests' memory is unknown ([`super::guest`]), and so are pages whose accessed bits can't
//! be cleared (`unclear`).
//!
//! **Memory**: that of the ledger, and 32 bytes and a name a mapping.
//!
//! **Owns** what processes and mappings are to the ledger. **Does not own** ages and counting (`strata_lru::ages`), when
//! walks happen (the caller).
//!
//! **Invariants**
//! - I1: a space is in the ledger from `appeared` to `ended`.

mod ages;
mod family;
mod groups;
mod kinds;
mod nodes;
mod report;
#[cfg(test)]
mod tests;

pub use ages::{Ages, IDLE_BOUNDS_S, KindBytes, MappingAges, OnNodes, WatchedAges};
pub use groups::{IdleGroups, RankedGroup, RankedProgram, Ranking, SafeBudget};
pub use kinds::{CacheSeen, KindFigures, Kinds, MemoryKind, kinds_of, sum_of};
pub use nodes::NodeStatus;
pub use report::{Figures, IdleReport, MappingReport, WatchCost, WindowReport, WorkingSetReport};

use super::guest;
use super::{Observer, Piece, Visitor, Walked};
use family::Families;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;
use strata_linux::access::TableShape;
use strata_linux::addr::{PAGE_BYTES, TableNo};
use strata_linux::nodes::{Nodes, NodesError};
use strata_linux::process::{FilePart, Mapping, MappingClass, Process, Unreclaimable};
use strata_lru::ages::{Home, Ledger, ObjectNo, Place, Standing, Told};
use strata_lru::bits::Bits;
use strata_lru::{GroupId, NodeId, NodeSet, SpaceNo};

/// The group of those who only look: they ask by parts.
const NO_GROUP: GroupId = GroupId(0);

/// Mappings of a space as the ledger's places count them.
#[derive(Debug, Default)]
struct Space {
    names: Vec<(Arc<str>, MappingClass)>,
    holds_guest: bool,
    nr_walks: u64,
}

/// Every how many walks a process is asked for its descriptors, to learn whether it holds a guest by now, and what could not
/// be taken of it may be tried again.
const LOOK_AGAIN_EVERY: u64 = 64;

impl Space {
    /// Whether the space holds a guest's memory; once it does it does for good.
    fn look_for_guest(&mut self, process: &Process, mappings: &[Mapping]) -> bool {
        self.holds_guest = self.holds_guest
            || match self.nr_walks % LOOK_AGAIN_EVERY {
                0 => guest::holds_guest(process, mappings),
                _ => guest::is_told_by(mappings),
            };
        self.nr_walks += 1;
        self.holds_guest
    }
}

/// The pages of all spaces of an [`Observer`], by age.
#[derive(Debug, Default)]
pub struct AgedPages {
    ledger: Ledger,
    families: Families,
    spaces: BTreeMap<SpaceNo, Space>,
    /// Memory nodes as they were when that was asked last; `None`: nobody has asked yet.
    nodes: Option<Nodes>,
    /// Walks tell them apart.
    tells_nodes: bool,
}

impl AgedPages {
    /// Knows nothing yet.
    pub fn new() -> AgedPages {
        AgedPages::default()
    }

    /// Walks once: [`AgedPages::start_walk`], [`Observer::walk`] and [`AgedPages::end_walk`].
    pub fn observe(&mut self, observer: &mut Observer) -> Walked {
        self.try_see_nodes(observer);
        self.start_walk(observer.elapsed());
        let walked = observer.walk(self);
        self.end_walk(&walked);
        walked
    }

    /// Begins to walk, as [`AgedPages::observe`] does; [`AgedPages::go_on`] ends it.
    pub(crate) fn begin_walk(&mut self, observer: &mut Observer) {
        self.try_see_nodes(observer);
        self.start_walk(observer.elapsed());
        observer.begin_walk(self);
    }

    /// Goes on with the walk that has begun, for about so long; what it did, once it is over.
    pub(crate) fn go_on(&mut self, observer: &mut Observer, wait: Duration) -> Option<Walked> {
        let walked = observer.go_on(self, wait)?;
        self.end_walk(&walked);
        Some(walked)
    }

    /// From now on walks tell on which memory node pages are, where there are several and the observer can tell. To be called before
    /// each walk, as memory goes and comes. Returns whether they do.
    ///
    /// # Errors
    /// The nodes can't be read; what was known of them stays.
    pub fn see_nodes(&mut self, observer: &mut Observer) -> Result<bool, NodesError> {
        let nodes = match &self.nodes {
            Some(known) => known.again()?,
            None => Nodes::read()?,
        };
        if self.nodes.as_ref() != Some(&nodes) {
            let is_one = nodes.nodes().len() < 2;
            self.tells_nodes = !is_one && observer.see_nodes(nodes.page_ranges());
            // The kernel moves what lies on memory that goes, whether its program runs or not.
            observer.read_again(|_| true);
            self.nodes = Some(nodes);
        }
        Ok(self.tells_nodes)
    }

    fn try_see_nodes(&mut self, observer: &mut Observer) {
        if let Err(error) = self.see_nodes(observer) {
            tracing::debug!("{error}");
        }
    }

    /// The memory nodes as they were seen last.
    pub fn nodes(&self) -> Option<&Nodes> {
        self.nodes.as_ref()
    }

    /// To be called before each walk, for who passes walks on to several visitors. `at` is a time on
    /// any clock that does not go back; the first is when the watch begins.
    pub fn start_walk(&mut self, at: Duration) {
        self.ledger.start_walk(at);
    }

    /// To be called after each walk.
    pub fn end_walk(&mut self, walked: &Walked) {
        self.families.end_walk(walked.mappers);
    }

    /// A space is in this group from now on, with what was taken of it.
    pub fn set_group(&mut self, space: SpaceNo, group: GroupId) {
        self.ledger.moved(space, group);
    }

    /// Files that spaces of a group map and whose path fits.
    pub fn files_of(&self, group: GroupId, fits: impl Fn(&str) -> bool) -> BTreeSet<ObjectNo> {
        let spaces = self.ledger.spaces().filter(|(_, of)| *of == group);
        let places = spaces.flat_map(|(no, _)| {
            let space = self.spaces.get(&no);
            let names = space.map_or(&[][..], |space| &space.names);
            self.ledger.places(no).iter().zip(names)
        });
        let files = places.filter_map(|(place, (name, class))| match place.home {
            Home::Copied(object, _) | Home::Shared(object, _) => {
                let is_file = *class != MappingClass::Shmem;
                (is_file && fits(name)).then_some(object)
            }
            Home::Private => None,
        });
        files.collect()
    }

    /// Groups in which a space holds memory of a guest.
    pub fn guest_groups(&self) -> BTreeSet<GroupId> {
        let holds_guest = |no: SpaceNo| {
            let space = self.spaces.get(&no);
            space.is_some_and(|space| space.holds_guest)
        };
        let spaces = self.ledger.spaces().filter(|(no, _)| holds_guest(*no));
        spaces.map(|(_, group)| group).collect()
    }

    /// The ledger itself.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The ledger, to be told what is done with pages.
    pub fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// What is in memory, by age, of all spaces.
    pub fn ages(&self) -> WatchedAges {
        self.ages_of(|_| true)
    }

    /// What is in memory, by age, of some spaces.
    pub fn ages_of(&self, is_meant: impl Fn(SpaceNo) -> bool) -> WatchedAges {
        let mut numbers: BTreeMap<(&str, MappingClass), usize> = BTreeMap::new();
        let mut mappings: Vec<MappingAges> = Vec::new();
        let meant = self.spaces.iter().filter(|(id, _)| is_meant(**id));
        for (name, class) in meant.flat_map(|(_, space)| &space.names) {
            numbers.entry((name, *class)).or_insert_with(|| {
                mappings.push(MappingAges {
                    name: Arc::clone(name),
                    class: *class,
                    nr_mappings: 0,
                    ages: Ages::default(),
                });
                mappings.len() - 1
            });
        }
        let number_of = |no: SpaceNo, index: usize| {
            let (name, class) = self.spaces.get(&no)?.names.get(index)?;
            let number = numbers.get(&(&**name, *class)).copied();
            number.filter(|_| is_meant(no))
        };
        let (parts, total) = self.count_by(mappings.len(), number_of);
        for (no, index) in self.ledger.held_places() {
            if let Some(number) = number_of(no, index) {
                mappings[number].nr_mappings += 1;
            }
        }
        for (mapping, ages) in mappings.iter_mut().zip(parts) {
            mapping.ages = ages;
        }
        mappings.retain(|mapping| mapping.nr_mappings > 0);
        mappings.sort_by_key(|mapping| std::cmp::Reverse(mapping.ages.resident().total_bytes()));
        WatchedAges {
            watched: self.ledger.watched(),
            last_interval: self.ledger.last_interval(),
            total,
            mappings,
        }
    }

    /// What is in memory, by age, of parts of the spaces: `part_of` says to which a space belongs. Also of all parts
    /// together, each page once.
    pub fn count(
        &self,
        nr_parts: usize,
        part_of: impl Fn(SpaceNo) -> Option<usize>,
    ) -> (Vec<Ages>, Ages) {
        self.count_by(nr_parts, |no, _| part_of(no))
    }

    fn count_by(
        &self,
        nr_parts: usize,
        part_of: impl Fn(SpaceNo, usize) -> Option<usize>,
    ) -> (Vec<Ages>, Ages) {
        let counted = self.ledger.count(nr_parts, &part_of);
        let all = counted.parts.into_iter().chain([counted.total]);
        let ages = |of| Ages {
            of,
            on_nodes: OnNodes::new(),
        };
        let mut all: Vec<Ages> = all.map(ages).collect();
        let told = self.nodes.iter().filter(|_| self.tells_nodes);
        for (at, node) in told.flat_map(Nodes::nodes).enumerate() {
            let on = NodeSet::from_iter([NodeId(at as u8)]);
            let on = self.ledger.count_on(on, nr_parts, &part_of);
            for (ages, on) in all.iter_mut().zip(on.parts.iter().chain([&on.total])) {
                let bytes = on.resident().total() * PAGE_BYTES;
                ages.on_nodes.insert(node.kernel_id, bytes);
            }
        }
        let total = all.pop().unwrap_or_default();
        (all, total)
    }

    fn appear(&mut self, space: SpaceNo, process: Option<&Process>) {
        let family = self.families.of(space, process);
        self.ledger.appeared(space, NO_GROUP, family);
        self.spaces.insert(space, Space::default());
    }

    fn begin_space(&mut self, space: SpaceNo, mappings: &[Mapping], holds_guest: bool) {
        let Some(names) = self.spaces.get_mut(&space).map(|space| &mut space.names) else {
            return;
        };
        names.clear();
        let guests = match holds_guest {
            true => guest::guest_memory(mappings),
            false => Vec::new(),
        };
        let mut places = Vec::with_capacity(mappings.len());
        for (index, mapping) in mappings.iter().enumerate() {
            if mapping.is_worth_reading() {
                let is_guest = guests.get(index).copied().unwrap_or_default();
                places.push(place_of(mapping, is_guest));
                names.push((Arc::clone(&mapping.name), mapping.class));
            }
        }
        self.ledger.begin(space, places);
    }
}

/// What a mapping is to the ledger.
fn place_of(mapping: &Mapping, is_guest: bool) -> Place {
    let from = |file: &FilePart| (object_of(file, mapping), file.offset_bytes / PAGE_BYTES);
    let home = match (mapping.class, mapping.file.as_ref().map(from)) {
        (MappingClass::FilePrivate, Some((object, page))) => Home::Copied(object, page),
        (MappingClass::FileShared | MappingClass::Shmem, Some((object, page))) => {
            Home::Shared(object, page)
        }
        _ => Home::Private,
    };
    Place {
        first_page: mapping.range.start / PAGE_BYTES,
        end_page: mapping.range.end / PAGE_BYTES,
        home,
        standing: match mapping.unreclaimable {
            _ if is_guest => Standing::Unseen,
            Some(Unreclaimable::Locked) => Standing::Kept,
            _ if mapping.is_bound => Standing::Bound,
            _ if mapping.is_exec_file => Standing::Code,
            _ => Standing::Ordinary,
        },
    }
}

/// A number that stands for a file. Numbers of shared memory mean something together with its name only.
fn object_of(file: &FilePart, mapping: &Mapping) -> ObjectNo {
    let mut hasher = DefaultHasher::new();
    (file.device.major, file.device.minor, file.inode).hash(&mut hasher);
    if mapping.class == MappingClass::Shmem {
        mapping.name.hash(&mut hasher);
    }
    ObjectNo(hasher.finish())
}

impl Visitor for AgedPages {
    fn appeared(&mut self, space: SpaceNo, process: &Arc<Process>) {
        self.appear(space, Some(process));
    }

    fn ended(&mut self, space: SpaceNo) {
        self.families.ended(space);
        self.ledger.ended(space);
        self.spaces.remove(&space);
    }

    fn begin(&mut self, space: SpaceNo, process: &Process, mappings: &Arc<Vec<Mapping>>) {
        let known = self.spaces.get_mut(&space);
        if known
            .as_ref()
            .is_some_and(|known| known.nr_walks % LOOK_AGAIN_EVERY == 0)
        {
            self.ledger.may_go_again(space);
        }
        let holds_guest = known.is_some_and(|known| known.look_for_guest(process, mappings));
        self.begin_space(space, mappings, holds_guest);
    }

    fn piece(&mut self, piece: &Piece<'_>) {
        let told = Told {
            mask: piece.mask,
            resident: piece.resident(),
            accessed: piece.accessed(),
            anon: piece.anon(),
            empty: piece.empty(),
            unseen: piece.unseen,
        };
        let (space, table) = (SpaceNo(piece.space.0), piece.record.table.0);
        self.ledger.told(space, table, &told);
        let is_huge = piece.record.shape == TableShape::Huge;
        self.ledger.is_huge(space, table, is_huge);
        if let Some(node) = &piece.record.node {
            self.ledger.placed(space, table, &piece.mask, node);
        }
    }

    fn wants_mappers(&mut self, space: SpaceNo) -> bool {
        self.families.is_due(space)
    }

    fn mappers(&mut self, space: SpaceNo, table: TableNo, known: Bits, several: Bits) {
        self.ledger
            .mapped_by_several(space, table.0, &known, &several);
    }

    fn end(&mut self, space: SpaceNo, is_whole: bool) {
        self.ledger.end(space, is_whole);
    }
}
