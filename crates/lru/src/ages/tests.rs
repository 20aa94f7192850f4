//! The ledger, one behaviour after the other.

use super::found_tests::{Found, place, tell};
use super::*;

pub(super) fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

pub(super) fn set(bits: &mut Bits, index: usize) {
    bits[index / 64] |= 1 << (index % 64);
}

const HERE: SpaceNo = SpaceNo(0);

/// All of a table is one private mapping.
pub(super) fn one_place() -> [Place; 1] {
    let end_page = NR_ENTRIES as u64;
    [place(0, end_page, Home::Private, Standing::Ordinary)]
}

/// A private space of one table.
fn one_table() -> Ledger {
    let mut ledger = Ledger::new();
    ledger.appeared(HERE, GroupId(0), FamilyNo(0));
    ledger
}

/// Tells a walk of 512 pages in memory, of which these were accessed.
fn tell_accessed(ledger: &mut Ledger, at: Duration, accessed: std::ops::Range<u64>) {
    tell_present(ledger, at, 0..NR_ENTRIES as u64, accessed);
}

/// Tells a walk that found these pages in memory, and some of them accessed.
fn tell_present(
    ledger: &mut Ledger,
    at: Duration,
    present: std::ops::Range<u64>,
    accessed: std::ops::Range<u64>,
) {
    let found = |number| Found {
        is_present: present.contains(&number),
        is_accessed: accessed.contains(&number),
        is_anon: true,
        ..Found::default()
    };
    let pages: Vec<Found> = (0..NR_ENTRIES as u64).map(found).collect();
    ledger.start_walk(at);
    tell(ledger, HERE, &one_place(), &pages, 1);
}

fn all_of(ledger: &Ledger) -> Ages {
    ledger.count(1, |_, _| Some(0)).total
}

/// All of a group that was not accessed for so long.
pub(super) fn older_than(group: u16, age_s: u64) -> Query<'static> {
    Query {
        group: GroupId(group),
        kind: None,
        older_than: Duration::from_secs(age_s),
        code_older_than: Duration::from_secs(age_s),
        objects: None,
        on: None,
        nr_pages_max: u64::MAX,
    }
}

#[test]
fn walks_that_are_a_little_early_or_late_leave_no_whole_age_empty() {
    let mut ledger = one_table();
    for (walk, at_ms) in [(0, 0), (1, 1000), (2, 2003), (3, 2996), (4, 4000)] {
        tell_accessed(&mut ledger, Duration::from_millis(at_ms), walk..walk + 1);
    }
    let ages = all_of(&ledger);
    let older = |s| ages.last_used_before(Duration::from_secs(s)).anon;
    assert_eq!([0, 1, 2, 3].map(older), [511, 511, 510, 509]);
}

#[test]
fn pages_are_told_by_class_and_classes_add_up_to_their_kind() {
    let found = Found {
        is_present: true,
        is_anon: true,
        ..Found::default()
    };
    let mut ledger = Ledger::new();
    let mapped = [
        place(0, 512, Home::Private, Standing::Ordinary),
        place(512, 1024, Home::Private, Standing::Kept),
        place(1024, 1536, Home::Private, Standing::Ordinary),
        place(1536, 2048, Home::Shared(ObjectNo(7), 0), Standing::Ordinary),
    ];
    let shared = Home::Shared(ObjectNo(7), 0);
    let other = [place(0, 100, shared, Standing::Ordinary)];
    ledger.start_walk(Duration::ZERO);
    for (space, mapped, nr_pages) in [(HERE, &mapped[..], 2048), (SpaceNo(1), &other[..], 100)] {
        ledger.appeared(space, GroupId(0), FamilyNo(space.0));
        tell(&mut ledger, space, mapped, &vec![found; nr_pages], 4);
    }
    ledger.is_huge(HERE, 2, true);
    let several: Bits = [u64::MAX, 0, 0, 0, 0, 0, 0, 0];
    ledger.mapped_by_several(HERE, 0, &[u64::MAX; 8], &several);
    let ages = all_of(&ledger);
    let classes = [
        (PageClass::Anon, 448),
        (PageClass::Common, 64),
        (PageClass::Locked, 512),
        (PageClass::Huge, 512),
        (PageClass::Shmem, 412),
        (PageClass::CommonShmem, 100),
        (PageClass::File, 0),
    ];
    for (class, nr_pages) in classes {
        assert_eq!(ages.by_class().of(class), nr_pages, "{class:?}");
    }
    assert_eq!(NrPages::from(ages.by_class()), ages.resident());
    let huge = |ledger: &Ledger, within_s| {
        let of = ledger.huge_in_use(|_| Some(Duration::from_secs(within_s)));
        of.get(&GroupId(0)).cloned().unwrap_or_default()
    };
    assert_eq!(huge(&ledger, 1), [(HERE, 2)]);
    assert_eq!(huge(&ledger, 0), [], "not used within no time");
    let used = |ledger: &Ledger| ledger.nr_used_parts((HERE, 2), Duration::from_secs(1));
    assert_eq!(used(&ledger), None, "it is still huge");
    ledger.is_huge(HERE, 2, false);
    assert_eq!((huge(&ledger, 1), used(&ledger)), (Vec::new(), Some(512)));
    let ages = all_of(&ledger).by_class();
    assert_eq!(
        (ages.of(PageClass::Huge), ages.of(PageClass::Anon)),
        (0, 960)
    );
}

#[test]
fn what_was_brought_back_and_not_used_is_no_refault() {
    let mut ledger = one_table();
    tell_accessed(&mut ledger, Duration::ZERO, 0..512);
    tell_accessed(&mut ledger, Duration::from_secs(10), 0..512);
    let run = Run {
        space: HERE,
        first_page: 0,
        nr_pages: 64,
        idle: Duration::ZERO,
    };
    let nr_returned = |ledger: &Ledger| {
        let refaults = ledger.refaults();
        refaults.iter().map(|one| one.nr_pages).sum::<u64>()
    };
    ledger.taken(&[run]);
    tell_accessed(&mut ledger, Duration::from_secs(20), 0..16);
    assert_eq!(nr_returned(&ledger), 64, "nobody is known to have done it");
    ledger.taken(&[run]);
    tell_accessed(&mut ledger, Duration::from_secs(30), 0..16);
    ledger.brought_back();
    assert_eq!(nr_returned(&ledger), 16);
    assert_eq!(ledger.nr_taken(GroupId(0)), NrPages::default());
    ledger.taken(&[run]);
    tell_accessed(&mut ledger, Duration::from_secs(40), 0..0);
    ledger.brought_back();
    assert_eq!(ledger.refaults(), []);
    ledger.validate().expect("all in order");
}

#[test]
fn what_went_by_amount_is_told_by_the_next_whole_walk_of_its_space_however_late_that_comes() {
    let mut ledger = one_table();
    let second = Duration::from_secs(1);
    tell_present(&mut ledger, second, 0..512, 0..0);
    ledger.asked(GroupId(0));
    // This walk leaves the space out.
    ledger.start_walk(2 * second);
    tell_present(&mut ledger, 3 * second, 0..100, 0..0);
    let went = ledger.went();
    assert_eq!(went.iter().map(|one| one.nr_pages).sum::<u64>(), 412);
    assert_eq!(ledger.nr_taken(GroupId(0)).total(), 412);
    // What goes from here on nobody asked for.
    tell_present(&mut ledger, 4 * second, 0..50, 0..0);
    assert_eq!(ledger.nr_taken(GroupId(0)).total(), 412);
}

#[test]
fn a_table_takes_less_than_three_bytes_a_page_if_full_little_if_not_and_goes_with_its_pages() {
    let mut ledger = one_table();
    tell_accessed(&mut ledger, Duration::ZERO, 0..0);
    let full_bytes = ledger.footprint_bytes();
    assert!(full_bytes <= 3 * 512, "{full_bytes}");
    tell_present(&mut ledger, Duration::ZERO, 70..80, 0..0);
    assert_eq!(ledger.footprint_bytes(), full_bytes - 2 * 502);
    tell(&mut ledger, HERE, &one_place(), &[], 0);
    assert_eq!(ledger.footprint_bytes(), 0);
    tell_accessed(&mut ledger, Duration::ZERO, 0..0);
    ledger.ended(HERE);
    assert_eq!(ledger.footprint_bytes(), 0);
}

#[test]
fn stamps_of_what_is_there_and_of_what_was_taken_survive_the_merging_of_old_walks() {
    let mut ledger = one_table();
    let mut last_used_s = [0u64; NR_ENTRIES];
    let mut state = 1;
    let mut now_s = 0;
    let away = 400u64..512;
    for walk in 0..20_000u64 {
        now_s = walk / 2;
        let used = random(&mut state) % NR_ENTRIES as u64;
        // A third of the pages is never used after the first walk.
        let used = if used < 340 { used..used + 1 } else { 0..0 };
        if walk > 0 {
            used.clone()
                .for_each(|page| last_used_s[page as usize] = now_s);
        }
        let nr_here = if walk < 100 { 512 } else { away.start };
        let found = |number| Found {
            is_present: true,
            is_accessed: used.contains(&number),
            is_anon: true,
            ..Found::default()
        };
        let pages: Vec<Found> = (0..nr_here).map(found).collect();
        ledger.start_walk(Duration::from_secs(now_s));
        tell(&mut ledger, HERE, &one_place(), &pages, 1);
        if walk == 99 {
            let run = Run {
                space: HERE,
                first_page: away.start,
                nr_pages: away.end - away.start,
                idle: Duration::ZERO,
            };
            assert_eq!(ledger.taken(&[run]).anon, 112);
        }
    }
    ledger.validate().unwrap();
    let ages = all_of(&ledger);
    for bound_s in [
        1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 7200, 9000,
    ] {
        let told = ages.idle_for(Duration::from_secs(bound_s)).anon;
        let here = &last_used_s[..away.start as usize];
        let older = |s: u64| here.iter().filter(|used| now_s - **used >= s).count() as u64;
        assert!(told <= older(bound_s), "{bound_s}");
        assert!(
            told >= older(bound_s + bound_s / 60 + 1),
            "{bound_s}: {told}"
        );
    }
    tell_accessed(&mut ledger, Duration::from_secs(now_s + 1), 0..0);
    let [refault] = ledger.refaults()[..] else {
        panic!("{:?}", ledger.refaults());
    };
    let true_s = now_s + 1 - 49;
    assert_eq!(refault.nr_pages, 112);
    assert!(
        (true_s * 60 / 61..=true_s).contains(&refault.away.as_secs()),
        "{refault:?}"
    );
}

#[test]
fn what_can_not_be_taken_gives_its_place_to_what_can() {
    let mut ledger = one_table();
    for at_s in 0..=10 {
        tell_accessed(&mut ledger, Duration::from_secs(at_s), 100..512);
    }
    let query = Query {
        nr_pages_max: 64,
        ..older_than(0, 10)
    };
    let refused = ledger.picker().candidates(&query);
    ledger.stayed(&refused.runs);
    ledger.validate().unwrap();
    let others = ledger.picker().candidates(&query);
    let first = |given: &Candidates| given.runs[0].first_page;
    assert_eq!((first(&refused), first(&others)), (0, 64));
    assert_eq!(others.nr_fitting_pages, 36);
}

#[test]
fn what_stayed_of_a_file_is_given_again_when_it_may_be_tried_again() {
    let mut ledger = one_table();
    let home = Home::Copied(ObjectNo(1), 0);
    let mapped = [place(0, 100, home, Standing::Ordinary)];
    let page = |is_anon| Found {
        is_present: true,
        is_anon,
        ..Found::default()
    };
    let pages: Vec<Found> = (0..100).map(|number| page(number < 40)).collect();
    ledger.start_walk(Duration::ZERO);
    tell(&mut ledger, HERE, &mapped, &pages, 1);
    let nr_given = |ledger: &Ledger| ledger.picker().candidates(&older_than(0, 0)).nr_pages;
    let given = ledger.picker().candidates(&older_than(0, 0));
    ledger.stayed(&given.runs);
    assert_eq!(nr_given(&ledger), 0);
    ledger.may_go_again(HERE);
    ledger.validate().unwrap();
    assert_eq!(
        nr_given(&ledger),
        60,
        "what several processes wrote to stays shared"
    );
}

#[test]
fn only_pages_of_the_files_that_are_asked_for_are_given() {
    let mut ledger = one_table();
    let mapped = [
        place(0, 100, Home::Private, Standing::Ordinary),
        place(100, 200, Home::Shared(ObjectNo(1), 0), Standing::Ordinary),
        place(200, 300, Home::Copied(ObjectNo(2), 0), Standing::Ordinary),
    ];
    let page = Found {
        is_present: true,
        ..Found::default()
    };
    ledger.start_walk(Duration::ZERO);
    tell(&mut ledger, HERE, &mapped, &[page; 300], 1);
    let given = |of: &[u64]| {
        let objects = of.iter().copied().map(ObjectNo).collect();
        let query = Query {
            objects: Some(&objects),
            on: None,
            ..older_than(0, 0)
        };
        ledger.picker().candidates(&query).nr_fitting_pages
    };
    assert_eq!([given(&[]), given(&[1]), given(&[1, 2, 3])], [0, 100, 200]);
}

#[test]
fn what_a_space_holds_is_told_the_oldest_first() {
    let mut ledger = one_table();
    // Nothing is known of accesses before the first walk.
    tell_accessed(&mut ledger, Duration::ZERO, 0..512);
    tell_accessed(&mut ledger, Duration::from_secs(1), 0..300);
    tell_accessed(&mut ledger, Duration::from_secs(2), 10..20);
    let held = ledger.held(HERE);
    let nr_pages = |one: &Generation| one.runs.iter().map(|run| run.nr_pages).sum();
    let told: Vec<(bool, u64)> = (held.iter())
        .map(|one| (one.was_accessed, nr_pages(one)))
        .collect();
    assert_eq!(told, [(false, 212), (true, 290), (true, 10)]);
    let first_pages: Vec<u64> = held[1].runs.iter().map(|run| run.first_page).collect();
    assert_eq!(first_pages, [0, 20], "by address");
    assert!(held[0].idle > held[1].idle && held[1].idle > held[2].idle);
    assert!(ledger.held(SpaceNo(7)).is_empty());
}
