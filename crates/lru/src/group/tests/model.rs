//! The tree of groups against a dumb model that keeps nothing it can count.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Add { parent: usize },
    Remove { group: usize },
    Charge { group: usize, nr_pages: u64 },
    Uncharge { group: usize, nr_pages: u64 },
    Limits { group: usize, limits: Limits },
}

fn op() -> impl Strategy<Value = Op> {
    let setting = || prop_oneof![3 => 0..40u64, 1 => Just(Limits::MAX), 1 => Just(0)];
    prop_oneof![
        3 => any::<usize>().prop_map(|parent| Op::Add { parent }),
        1 => any::<usize>().prop_map(|group| Op::Remove { group }),
        6 => (any::<usize>(), 0..30u64).prop_map(|(group, nr_pages)| Op::Charge { group, nr_pages }),
        3 => (any::<usize>(), 0..60u64).prop_map(|(group, nr_pages)| Op::Uncharge { group, nr_pages }),
        4 => (any::<usize>(), setting(), setting()).prop_map(|(group, min, low)| Op::Limits {
            group,
            limits: protected(min, low),
        }),
    ]
}

/// A group of the model: nothing is kept that can be counted.
#[derive(Clone, Debug)]
struct Dumb {
    id: GroupId,
    parent: GroupId,
    own_pages: u64,
    limits: Limits,
    is_offline: bool,
}

#[derive(Debug, Default)]
struct Model(Vec<Dumb>);

impl Model {
    fn children(&self, of: GroupId) -> impl Iterator<Item = &Dumb> {
        self.0.iter().filter(move |group| group.parent == of)
    }

    fn usage(&self, of: GroupId) -> u64 {
        let own = self.0.iter().find(|group| group.id == of);
        let below: u64 = self.children(of).map(|child| self.usage(child.id)).sum();
        own.map_or(0, |of| of.own_pages) + below
    }

    /// The group of a random number: the model's position, if there is any.
    fn pick(&self, number: usize) -> Option<usize> {
        (!self.0.is_empty()).then(|| number % self.0.len())
    }

    /// Effective values of a group, as exact fractions rounded down.
    fn effective(&self, of: GroupId, setting: fn(&Limits) -> u64) -> u64 {
        let group = self.0.iter().find(|group| group.id == of).unwrap();
        let own = setting(&group.limits);
        if group.parent == ROOT {
            return own;
        }
        let parent = self.effective(group.parent, setting) as u128;
        let claim_of = |of: &Dumb| self.usage(of.id).min(setting(&of.limits)) as u128;
        let claims: u128 = self.children(group.parent).map(claim_of).sum();
        let usage = self.usage(of) as u128;
        let claim = claim_of(group);
        let unprotected = (self.usage(group.parent) as u128).saturating_sub(claims);
        let effective = if claims > parent {
            claim * parent / claims
        } else {
            // Where all is claimed, nothing is left to share.
            let part = (parent - claims) * (usage - claim);
            claim + part.checked_div(unprotected).unwrap_or(0)
        };
        u64::try_from(effective).unwrap()
    }
}

/// Applies an operation to both.
fn apply(tree: &mut GroupTree, model: &mut Model, op: &Op) {
    match *op {
        Op::Add { parent } => {
            let position = parent % (model.0.len() + 1);
            let parent = model.0.get(position).map_or(ROOT, |group| group.id);
            let is_offline = model.0.get(position).is_some_and(|group| group.is_offline);
            match tree.add(parent, "/x") {
                Ok(id) => {
                    assert!(!is_offline);
                    model.0.push(Dumb {
                        id,
                        parent,
                        own_pages: 0,
                        limits: Limits::NONE,
                        is_offline: false,
                    });
                }
                Err(error) => assert!(is_offline, "{error}"),
            }
        }
        Op::Remove { group } => {
            let Some(position) = model.pick(group) else {
                return;
            };
            let of = model.0[position].clone();
            let is_busy = model.children(of.id).any(|child| !child.is_offline);
            let is_removed = tree.take_offline(of.id).is_ok();
            assert_eq!(is_removed, !is_busy && !of.is_offline);
            if is_removed {
                let of = &mut model.0[position];
                of.is_offline = true;
                (of.limits.min_pages, of.limits.low_pages) = (0, 0);
            }
        }
        Op::Charge { group, nr_pages } => {
            let online: Vec<usize> = (0..model.0.len())
                .filter(|n| !model.0[*n].is_offline)
                .collect();
            if let Some(position) = online.get(group % online.len().max(1)) {
                tree.charge(model.0[*position].id, nr_pages);
                model.0[*position].own_pages += nr_pages;
            }
        }
        Op::Uncharge { group, nr_pages } => {
            let Some(position) = model.pick(group) else {
                return;
            };
            let of = &mut model.0[position];
            let nr_pages = nr_pages.min(of.own_pages);
            tree.uncharge(of.id, nr_pages);
            of.own_pages -= nr_pages;
        }
        Op::Limits { group, limits } => {
            let Some(position) = model.pick(group) else {
                return;
            };
            let of = &mut model.0[position];
            if !of.is_offline {
                tree.set_limits(of.id, limits).unwrap();
                of.limits = limits;
            }
        }
    }
    // Whatever nothing keeps any more is forgotten at once, in any order.
    while let Some(position) = model
        .0
        .iter()
        .position(|of| of.is_offline && of.own_pages == 0 && model.children(of.id).next().is_none())
    {
        let of = model.0.remove(position);
        assert_eq!(tree.forgettable(of.id), Some(of.id));
        assert_eq!(tree.forget(of.id).0, of.parent);
    }
}

fn check(tree: &GroupTree, model: &Model) -> Result<(), TestCaseError> {
    let mut own_pages = vec![
        0;
        model
            .0
            .iter()
            .map(|of| usize::from(of.id.0) + 1)
            .max()
            .unwrap_or(0)
    ];
    for of in &model.0 {
        own_pages[usize::from(of.id.0)] = of.own_pages;
    }
    validate(tree, &own_pages).map_err(TestCaseError::fail)?;
    prop_assert_eq!(tree.ids().count(), model.0.len());
    for of in &model.0 {
        prop_assert_eq!(tree.usage_pages(of.id), Ok(model.usage(of.id)));
        prop_assert_eq!(tree.forgettable(of.id), None, "something keeps it");
        let protection = tree.protection(of.id, None);
        let min_pages = model.effective(of.id, |limits| limits.min_pages);
        let low_pages = model.effective(of.id, |limits| limits.low_pages);
        let expected = Protection {
            min_pages,
            low_pages,
            usage_pages: model.usage(of.id),
        };
        prop_assert_eq!(protection, expected);
        let children = || {
            model
                .children(of.id)
                .map(|child| tree.protection(child.id, None))
        };
        let sum_of = |value: fn(&Protection) -> u64| {
            children().map(|of| u128::from(value(&of))).sum::<u128>()
        };
        prop_assert!(sum_of(|of| of.min_pages) <= u128::from(min_pages));
        prop_assert!(sum_of(|of| of.low_pages) <= u128::from(low_pages));
        // For whoever reclaims from the parent only, the child has what it is set to.
        if of.parent != ROOT {
            let within = tree.protection(of.id, Some(of.parent));
            prop_assert_eq!(within.min_pages, of.limits.min_pages);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn usage_and_protection_are_what_the_model_counts(
        ops in proptest::collection::vec(op(), 1..120),
    ) {
        let (mut tree, mut model) = (GroupTree::new(), Model::default());
        for op in &ops {
            apply(&mut tree, &mut model, op);
            check(&tree, &model)?;
        }
    }
}
