//! A tree of five groups, driven for thousands of ticks.

use super::*;
use crate::control::tests::with;
use crate::plan::Action;
use crate::sample::Actuator;
use strata_lru::TimeMs;

const MIB: u64 = 1 << 20;

fn control(budget_mib: u64) -> Control {
    with(budget_mib * MIB, Actuator::Reclaim)
}

fn sample(ms: u64, usage_bytes: u64) -> Sample {
    Sample {
        now: TimeMs(ms),
        usage_bytes,
        ..Sample::default()
    }
}

/// The root with two below it, of which the first has two again.
fn five() -> (Groups, [GroupNo; 5]) {
    let mut groups = Groups::new(control(600));
    let mut add = |parent, budget_mib| groups.add(parent, control(budget_mib)).unwrap();
    let web = add(GroupNo::ROOT, 400);
    let batch = add(GroupNo::ROOT, 250);
    let [front, back] = [add(web, 300), add(web, 150)];
    (groups, [GroupNo::ROOT, web, batch, front, back])
}

/// Memory that grows, and of which the plans take what they ask for; a group's usage is its own and that of those below.
struct Machine {
    own_bytes: [u64; 5],
}

impl Machine {
    /// Who is above whom, by place.
    const PARENTS: [Option<usize>; 5] = [None, Some(0), Some(0), Some(1), Some(1)];

    fn usage_bytes(&self, at: usize) -> u64 {
        let children = (0..5).filter(|child| Machine::PARENTS[*child] == Some(at));
        let below: u64 = children.map(|child| self.usage_bytes(child)).sum();
        self.own_bytes[at] + below
    }

    /// Takes so much from a group, of those below it as well: the largest first.
    fn take(&mut self, at: usize, bytes: u64) {
        let mut left = bytes;
        while left > 0 {
            let is_within = |mut of: usize| loop {
                if of == at {
                    break true;
                }
                match Machine::PARENTS[of] {
                    Some(parent) => of = parent,
                    None => break false,
                }
            };
            let largest = (0..5).filter(|of| is_within(*of));
            let largest = largest.max_by_key(|of| self.own_bytes[*of]).unwrap();
            let taken = left.min(self.own_bytes[largest]).min(MIB);
            if taken == 0 {
                break;
            }
            self.own_bytes[largest] -= taken;
            left -= taken;
        }
    }
}

#[test]
fn five_groups_that_grow_are_all_held_within_their_budgets_and_the_root_asks_only_for_the_rest() {
    let (mut groups, numbers) = five();
    let mut machine = Machine { own_bytes: [0; 5] };
    let mut nr_asked = [0_u64; 5];
    for ms in (0..20_000).step_by(5) {
        // Each has four seconds, beginning with none, in which it alone grows by 2 MiB a tick.
        if ms % 4000 == 0 {
            machine.own_bytes = [0; 5];
        }
        machine.own_bytes[ms as usize / 4000] += 2 * MIB;
        let samples = numbers
            .iter()
            .enumerate()
            .map(|(at, number)| (*number, sample(ms, machine.usage_bytes(at))));
        let plans = groups.tick(samples.collect());
        assert_eq!(plans.len(), 5);
        for (at, number) in numbers.iter().enumerate() {
            for action in &plans[number].actions {
                if let Action::Reclaim { bytes } = action {
                    nr_asked[at] += 1;
                    machine.take(at, *bytes);
                }
            }
        }
        for (at, number) in numbers.iter().enumerate() {
            let usage_bytes = machine.usage_bytes(at);
            let budget_bytes = groups.get(*number).unwrap().marks().budget_bytes;
            assert!(
                usage_bytes <= budget_bytes,
                "{number:?} at {ms} ms: {usage_bytes}"
            );
        }
    }
    assert!(nr_asked.iter().all(|nr| *nr > 10), "{nr_asked:?}");
}

#[test]
fn what_is_asked_of_a_group_counts_as_going_from_all_above_it() {
    let (mut groups, [root, web, _, front, _]) = five();
    // All three are 5 MiB above their budgets.
    let usage_mib = [(root, 605), (web, 405), (front, 305)];
    let samples = usage_mib.map(|(number, mib)| (number, sample(0, mib * MIB)));
    let plans = groups.tick(samples.into());
    let asked = |number| plans[&number].decision.asked.kernel_bytes;
    let alone = |budget_mib, mib: u64| {
        let plan = control(budget_mib).tick(sample(0, mib * MIB));
        plan.decision.asked.kernel_bytes
    };
    assert_eq!(asked(front), alone(300, 305));
    assert_eq!(asked(web) + asked(front), alone(400, 405));
    assert_eq!(asked(root) + asked(web) + asked(front), alone(600, 605));
    assert!(asked(front) > 0 && asked(web) > 0 && asked(root) > 0);
}

#[test]
fn what_a_dry_run_would_take_is_not_going() {
    let (mut groups, [root, _, batch, ..]) = five();
    groups.get_mut(batch).unwrap().set_dry_run(true);
    let samples = [(root, 620), (batch, 270)].map(|(of, mib)| (of, sample(0, mib * MIB)));
    let plans = groups.tick(samples.into());
    let asked = |number| plans[&number].decision.asked.kernel_bytes;
    assert!(asked(batch) >= 20 * MIB && asked(root) >= 20 * MIB);
}

#[test]
fn a_group_that_was_not_read_has_no_tick_and_hides_nothing_of_those_below() {
    let (mut groups, [root, _, _, front, _]) = five();
    let samples = [(root, 605), (front, 305)].map(|(of, mib)| (of, sample(0, mib * MIB)));
    let plans = groups.tick(samples.into());
    let asked = |number: GroupNo| plans[&number].decision.asked.kernel_bytes;
    assert_eq!(plans.len(), 2);
    let alone = control(600).tick(sample(0, 605 * MIB));
    let alone = alone.decision.asked.kernel_bytes;
    assert_eq!(asked(root) + asked(front), alone);
}

#[test]
fn groups_come_and_go_and_no_number_is_given_twice() {
    let (mut groups, [root, web, batch, front, back]) = five();
    assert!(
        !groups.remove(root) && !groups.remove(web),
        "others are below"
    );
    assert!(groups.remove(front) && groups.remove(back) && groups.remove(web));
    assert!(!groups.remove(web) && groups.get(web).is_none());
    assert_eq!(
        groups.add(web, control(1)).map(|_| ()),
        None,
        "no such parent"
    );
    let new = groups.add(batch, control(100)).unwrap();
    assert!(![root, web, batch, front, back].contains(&new));
    assert_eq!(groups.get(new).unwrap().marks().budget_bytes, 100 * MIB);
    assert_eq!(groups.root().marks().budget_bytes, 600 * MIB);
}
