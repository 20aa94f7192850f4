//! Walks of several spaces and evictions in any order: the engine adds up, and only what is tracked is chosen.

use super::*;
use crate::pages::space::Space;

/// A table that a walk finds: its number, whether it is one huge page, and what of it is present and accessed.
type Found = (u64, bool, Bits, Bits);

#[derive(Clone, Debug)]
enum Event {
    /// A walk of the group; `None` leaves a space out.
    Walk(Vec<Option<Vec<Found>>>),
    Isolate(u64),
    Settle(Vec<u8>, Vec<(u64, Bits)>),
    Renew(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let some = || {
        prop_oneof![
            bits512(),
            (0usize..512, 0usize..512).prop_map(|(a, b)| bits::run(a.min(b), a.max(b))),
        ]
    };
    let table = (0..3u64, prop::bool::weighted(0.1), some(), some());
    let space = prop::option::weighted(0.8, prop::collection::vec(table, 0..4));
    let walk = prop::collection::vec(space, 3).prop_map(Event::Walk);
    let accessed = prop::collection::vec((0..3u64, some()), 0..3);
    prop_oneof![
        4 => walk,
        3 => (1..3000u64).prop_map(Event::Isolate),
        3 => (prop::collection::vec(0..6u8, 1..20), accessed).prop_map(|(of, seen)| Event::Settle(of, seen)),
        1 => (0..3usize).prop_map(Event::Renew),
    ]
}

/// Addresses of pages that some space has.
fn all_tracked(tracker: &Tracker) -> BTreeSet<u64> {
    let spaces = tracker.spaces().values();
    let tracked = spaces.flat_map(Space::tracked);
    tracked.map(|(addr, _)| addr).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn whatever_is_chosen_of_several_spaces_the_engine_adds_up(events in prop::collection::vec(event(), 1..60)) {
        let (mut tracker, first) = new_tracker();
        let process = Arc::clone(&tracker.spaces()[&first].process);
        let mut spaces = vec![first];
        for _ in 0..2 {
            spaces.push(appear(&mut tracker, &process));
        }
        let mut out: Vec<PageoutRequest> = Vec::new();
        let mut now = 0;
        for event in events {
            now += 10;
            match event {
                Event::Walk(found) => {
                    for (space, tables) in spaces.iter().zip(found) {
                        let Some(tables) = tables else {
                            tracker.idle(as_walked(*space));
                            continue;
                        };
                        let mut shown = BTreeMap::new();
                        for (table, is_huge, present, accessed) in tables {
                            let is_huge = is_huge && table == 0;
                            let (shape, present) = match is_huge {
                                true => (TableShape::Huge, bits::run(0, 512)),
                                false => (TableShape::Pages, present),
                            };
                            shown.insert(table, record(table, shape, present, accessed));
                        }
                        walk_space(&mut tracker, *space, &mappings(), shown.values());
                    }
                    tracker.finish_walk(Swappiness::DEFAULT, TimeMs(now)).expect("there");
                }
                Event::Isolate(nr_wanted) if out.is_empty() => {
                    let tracked = all_tracked(&tracker);
                    let isolated = tracker.isolate(nr_wanted, Swappiness::DEFAULT, 12, TimeMs(now));
                    out = isolated.expect("the group is there").1;
                    for request in &out {
                        prop_assert!(request.runs.iter().all(|run| tracked.contains(&run.start)));
                        let is_apart = |of: &[AddrRange]| of[0].end <= of[1].start;
                        prop_assert!(request.runs.windows(2).all(is_apart));
                    }
                }
                Event::Settle(choices, accessed) => {
                    for request in out.drain(..) {
                        let accessed = accessed.iter().map(|(no, bits)| (TableNo(*no), *bits));
                        settle(&mut tracker, &request, accessed.collect(), |i| VERDICTS[usize::from(choices[i % choices.len()])]);
                    }
                }
                Event::Renew(number) => {
                    tracker.ended(as_walked(spaces[number]));
                    spaces[number] = appear(&mut tracker, &process);
                }
                Event::Isolate(_) => {}
            }
            tracker.validate().map_err(TestCaseError::fail)?;
        }
    }
}
