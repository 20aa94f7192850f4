//! What goes down and what comes up, on a made-up host of two nodes.

use super::*;
use strata_lru::NodeConfig;
use strata_lru::SpaceNo;
use strata_lru::ages::{Bits, FamilyNo, Home, NODE_BITS, Place, Standing, Told};

const HERE: SpaceNo = SpaceNo(0);
const UPPER: NodeId = NodeId(0);
const LOWER: NodeId = NodeId(1);
const NR_PAGES: u64 = 1024;
const WALK: Duration = Duration::from_secs(10);
const AGE: Duration = Duration::from_secs(30);

/// A program of so many pages: which are on the lower node, and which each walk finds accessed.
struct Host {
    ledger: Ledger,
    at: Duration,
    is_lower: Vec<bool>,
}

impl Host {
    fn new(is_lower: impl Fn(u64) -> bool) -> Host {
        let mut ledger = Ledger::new();
        ledger.appeared(HERE, GroupId(0), FamilyNo(0));
        Host {
            ledger,
            at: Duration::ZERO,
            is_lower: (0..NR_PAGES).map(is_lower).collect(),
        }
    }

    fn walk(&mut self, is_used: impl Fn(u64) -> bool) {
        self.ledger.start_walk(self.at);
        self.at += WALK;
        let place = Place {
            first_page: 0,
            end_page: NR_PAGES,
            home: Home::Private,
            standing: Standing::Ordinary,
        };
        self.ledger.begin(HERE, [place]);
        for table in 0..NR_PAGES / 512 {
            let bits = |is_set: &dyn Fn(u64) -> bool| -> Bits {
                std::array::from_fn(|word| {
                    let pages = (0..64).map(|bit| table * 512 + word as u64 * 64 + bit);
                    pages
                        .enumerate()
                        .fold(0, |bits, (bit, page)| bits | u64::from(is_set(page)) << bit)
                })
            };
            let all = [u64::MAX; 8];
            let told = Told {
                mask: all,
                resident: all,
                accessed: bits(&is_used),
                anon: all,
                empty: [0; 8],
                unseen: [0; 8],
            };
            self.ledger.told(HERE, table, &told);
            let mut node = [[0; 8]; NODE_BITS];
            node[0] = bits(&|page| self.is_lower[page as usize]);
            self.ledger.placed(HERE, table, &all, &node);
        }
        self.ledger.end(HERE, true);
    }

    /// All that was chosen moves.
    fn carry_out(&mut self, moves: &[Move]) {
        for one in moves {
            for run in &one.pages.runs {
                for page in run.first_page..run.first_page + run.nr_pages {
                    self.is_lower[page as usize] = one.to == LOWER;
                }
            }
            self.ledger.migrated(&one.pages.runs, one.to, one.is_up);
        }
    }

    fn nr_upper(&self, pages: std::ops::Range<usize>) -> usize {
        self.is_lower[pages]
            .iter()
            .filter(|is_lower| !**is_lower)
            .count()
    }
}

fn topology() -> Topology {
    let node = |node, abstract_distance, has_cpu| NodeConfig {
        node,
        nr_pages: 10_000,
        abstract_distance,
        has_cpu,
    };
    Topology::try_new(vec![node(UPPER, 0, true), node(LOWER, 128, false)]).unwrap()
}

fn nodes(upper_room: u64, lower_room: u64) -> [NodeNow; 2] {
    let now = |node, room_pages| NodeNow {
        node,
        nr_pages: 10_000,
        room_pages,
    };
    [now(UPPER, upper_room), now(LOWER, lower_room)]
}

fn group() -> Tiered {
    Tiered {
        group: GroupId(0),
        ages: [AGE; 2],
        min_age: WALK,
        comes_up: true,
    }
}

/// 4 MiB a second: all pages of the program.
fn tiers() -> Tiers {
    Tiers::new(topology(), NR_PAGES * PAGE_BYTES)
}

fn nr_pages(moves: &[Move], is_up: bool) -> u64 {
    let moves = moves.iter().filter(|one| one.is_up == is_up);
    moves.map(|one| one.pages.nr_pages).sum()
}

#[test]
fn the_idle_half_goes_down_and_the_used_half_stays() {
    let (mut host, mut tiers) = (Host::new(|_| false), tiers());
    for walk in 0..6 {
        host.walk(|page| page < 512);
        let moves = tiers.choose(&host.ledger, &nodes(5_000, 5_000), &[group()], WALK);
        assert_eq!(nr_pages(&moves, true), 0);
        // What is there from the first walk on is known to be idle for as long as it is watched.
        assert_eq!(
            nr_pages(&moves, false),
            if walk == 3 { 512 } else { 0 },
            "walk {walk}"
        );
        host.carry_out(&moves);
    }
    assert_eq!((host.nr_upper(0..512), host.nr_upper(512..1024)), (512, 0));
}

#[test]
fn the_halves_trade_places_when_the_phase_changes() {
    let (mut host, mut tiers) = (Host::new(|page| page >= 512), tiers());
    for _ in 0..3 {
        host.walk(|page| page < 512);
    }
    // The fast node has no room for more: pages come up as others have gone down.
    let mut nr_walks = 0;
    while host.nr_upper(512..1024) < 512 {
        host.walk(|page| page >= 512);
        nr_walks += 1;
        let free = 200 + 512 - host.nr_upper(0..1024) as u64;
        let moves = tiers.choose(&host.ledger, &nodes(free, 5_000), &[group()], WALK);
        host.carry_out(&moves);
        assert!(nr_walks < 10, "{nr_walks}");
    }
    assert_eq!(host.nr_upper(0..512), 0);
    assert_eq!(nr_walks, 4, "idle for the age, and one walk to come up");
}

#[test]
fn a_page_that_one_walk_alone_found_used_does_not_come_up() {
    let (mut host, mut tiers) = (Host::new(|_| true), tiers());
    host.walk(|_| false);
    for walk in 0..8 {
        // A scan: other pages each time.
        host.walk(|page| page / 128 == walk);
        let moves = tiers.choose(&host.ledger, &nodes(5_000, 5_000), &[group()], WALK);
        assert_eq!(nr_pages(&moves, true), 0, "walk {walk}");
    }
}

#[test]
fn nothing_goes_below_a_watermark_and_what_comes_up_leaves_the_reserve() {
    let (mut host, mut tiers) = (Host::new(|page| page < 512), tiers());
    for _ in 0..4 {
        host.walk(|page| page < 512);
    }
    // A reserve of 2 % of 10,000 pages is 200.
    for (upper, lower, up, down) in [
        (250, 100, 50, 100),
        (200, 0, 0, 0),
        (0, 5_000, 0, 512),
        (5_000, 5_000, 512, 512),
    ] {
        let moves = tiers.choose(&host.ledger, &nodes(upper, lower), &[group()], WALK);
        let found = (nr_pages(&moves, true), nr_pages(&moves, false));
        assert_eq!(found, (up, down), "{upper} and {lower} free");
    }
}

#[test]
fn a_fast_node_that_is_short_gives_its_oldest_pages_before_they_are_idle_for_the_age() {
    let (mut host, tiers) = (Host::new(|_| false), &mut tiers());
    host.walk(|_| true);
    host.walk(|page| page >= 300);
    host.walk(|page| page >= 300);
    let of = |room| nodes(room, 5_000);
    let moves = tiers.choose(&host.ledger, &of(5_000), &[group()], WALK);
    assert_eq!(nr_pages(&moves, false), 0, "there is room");
    let moves = tiers.choose(&host.ledger, &of(150), &[group()], WALK);
    assert_eq!(nr_pages(&moves, false), 50, "up to the reserve");
    let moves = tiers.choose(&host.ledger, &of(0), &[group()], WALK);
    assert_eq!(
        nr_pages(&moves, false),
        200,
        "never the 724 that are younger than the least age"
    );
    let asked = tiers.demote(&host.ledger, &of(5_000), &[group()], 120);
    assert_eq!(nr_pages(&asked, false), 120, "as many as are asked for");
}

#[test]
fn what_went_to_and_fro_stays_where_it_is() {
    let (mut host, mut tiers) = (Host::new(|_| true), tiers());
    host.walk(|_| true);
    let mut nr_moves = 0;
    // Used for three walks, idle for four, again and again.
    for walk in 0..70 {
        host.walk(|_| walk % 7 < 3);
        let moves = tiers.choose(&host.ledger, &nodes(5_000, 5_000), &[group()], WALK);
        nr_moves += moves.iter().map(|one| one.pages.nr_pages).sum::<u64>();
        host.carry_out(&moves);
    }
    assert_eq!(
        nr_moves, NR_PAGES,
        "once up; what went up of late does not go down"
    );
    host.ledger.forget_moves();
    host.ledger.forget_moves();
    for _ in 0..5 {
        host.walk(|_| false);
    }
    let moves = tiers.choose(&host.ledger, &nodes(5_000, 5_000), &[group()], WALK);
    assert_eq!(nr_pages(&moves, false), NR_PAGES, "ten minutes later");
}

#[test]
fn the_more_ask_to_come_up_the_steadier_they_have_to_be() {
    let mut host = Host::new(|_| true);
    // A quarter of the pages in ten seconds.
    let mut tiers = Tiers::new(topology(), NR_PAGES / 40 * PAGE_BYTES);
    host.walk(|_| true);
    let mut streaks = Vec::new();
    for _ in 0..8 {
        host.walk(|_| true);
        let moves = tiers.choose(&host.ledger, &nodes(5_000, 5_000), &[group()], WALK);
        assert!(nr_pages(&moves, true) <= NR_PAGES / 4);
        streaks.push(tiers.streak_min());
    }
    assert_eq!(streaks.last(), Some(&STREAK_MAX), "{streaks:?}");
    host.walk(|page| page < 10);
    for _ in 0..8 {
        host.walk(|page| page < 10);
        tiers.choose(&host.ledger, &nodes(5_000, 5_000), &[group()], WALK);
    }
    assert_eq!(tiers.streak_min(), STREAK_MIN);
}

#[test]
fn within_no_second_more_comes_up_than_the_rate() {
    let mut rate = UpRate::new(100 * PAGE_BYTES);
    let at = Duration::from_millis;
    let mut moved: Vec<(u64, u64)> = Vec::new();
    for step in 0..200u64 {
        let now = step * 130;
        let nr_pages = rate.room_pages(at(now)).min(37);
        rate.spend(at(now), nr_pages);
        moved.push((now, nr_pages));
        let within = moved.iter().filter(|(then, _)| now - then <= 1000);
        assert!(within.map(|(_, nr_pages)| nr_pages).sum::<u64>() <= 100);
    }
    let all: u64 = moved.iter().map(|(_, nr_pages)| nr_pages).sum();
    assert!(all > 20 * 100, "{all}: and the rate is made use of");
}

#[test]
fn the_lowest_tier_is_where_swap_begins() {
    let mut tiers = tiers();
    assert_eq!(tiers.lowest(), NodeSet::from_iter([LOWER]));
    // Its memory has gone offline.
    let mut left = topology().nodes().to_vec();
    left[1].nr_pages = 0;
    tiers.set_topology(Topology::try_new(left).unwrap());
    assert_eq!(tiers.lowest(), NodeSet::from_iter([UPPER]));
}

#[test]
fn the_kernel_may_bring_pages_up_alone() {
    let (mut host, mut tiers) = (Host::new(|page| page < 512), tiers());
    for _ in 0..4 {
        host.walk(|page| page < 512);
    }
    let only_down = Tiered {
        comes_up: false,
        ..group()
    };
    let moves = tiers.choose(&host.ledger, &nodes(5_000, 5_000), &[only_down], WALK);
    assert_eq!((nr_pages(&moves, true), nr_pages(&moves, false)), (0, 512));
}
