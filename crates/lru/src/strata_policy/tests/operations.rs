//! Any operations in any order: everything is recounted after each.

use proptest::prelude::*;

use super::*;

/// Operations of one case; with the default number of cases more than 10^5 in all.
const NR_OPERATIONS: usize = 500;

#[derive(Clone, Copy, Debug)]
enum Operation {
    Appear { kind: Kind, order: u8, knows: bool },
    Access { which: usize, via: AccessVia },
    Leave { which: usize, cause: GoneCause },
    Isolate { nr_pages: u64, swappiness: u8 },
    Complete { verdict: Verdict },
    WalkIfDue,
}

fn operation() -> impl Strategy<Value = Operation> {
    let kind = prop_oneof![Just(Kind::Anon), Just(Kind::File)];
    let via = prop_oneof![Just(AccessVia::PageTable), Just(AccessVia::FileDescriptor)];
    let cause = prop_oneof![Just(GoneCause::Freed), Just(GoneCause::Reclaimed)];
    let swappiness = prop_oneof![Just(0u8), Just(60), Just(201)];
    let verdict = prop_oneof![
        3 => Just(Verdict::Evicted),
        1 => Just(Verdict::Referenced),
        1 => Just(Verdict::Busy),
        1 => Just(Verdict::Gone),
        1 => Just(Verdict::NotTried),
    ];
    prop_oneof![
        6 => (kind, prop_oneof![9 => Just(0), 1 => Just(9)], any::<bool>())
            .prop_map(|(kind, order, knows)| Operation::Appear { kind, order, knows }),
        8 => (any::<usize>(), via).prop_map(|(which, via)| Operation::Access { which, via }),
        1 => (any::<usize>(), cause).prop_map(|(which, cause)| Operation::Leave { which, cause }),
        3 => (0..40u64, swappiness)
            .prop_map(|(nr_pages, swappiness)| Operation::Isolate { nr_pages, swappiness }),
        3 => verdict.prop_map(|verdict| Operation::Complete { verdict }),
        1 => Just(Operation::WalkIfDue),
    ]
}

/// Who is in memory, as a list.
#[derive(Default)]
struct Model {
    live: Vec<FolioId>,
    shadows: Vec<Shadow>,
    batch: EvictBatch,
    gone_while_isolated: Vec<FolioId>,
}

impl Model {
    fn apply(&mut self, policy: &mut Strata, group: GroupId, operation: Operation) {
        match operation {
            Operation::Appear { kind, order, knows } => {
                let shadow = if knows { self.shadows.pop() } else { None };
                let arrival = Arrival {
                    group,
                    node: NodeId(0),
                    kind,
                    order: Order(order),
                    cause: [Cause::Read, Cause::Fault][usize::from(order == 0)],
                    shadow,
                    is_exec: false,
                };
                let folio = policy.appeared(arrival).unwrap();
                assert_eq!(
                    (policy.kind(folio), policy.order(folio)),
                    (kind, Order(order))
                );
                self.live.push(folio);
            }
            Operation::Access { which, via } if !self.live.is_empty() => {
                policy.accessed(self.live[which % self.live.len()], via);
            }
            Operation::Leave { which, cause } if !self.live.is_empty() => {
                let folio = self.live.swap_remove(which % self.live.len());
                let shadow = policy.gone(folio, cause);
                assert_eq!(shadow.is_some(), cause == GoneCause::Reclaimed);
                self.shadows.extend(shadow);
                if self.batch.folios.contains(&folio) {
                    self.gone_while_isolated.push(folio);
                }
            }
            Operation::Isolate {
                nr_pages,
                swappiness,
            } if self.batch.is_empty() => {
                let swappiness = Swappiness::try_new(swappiness).unwrap();
                let request = ReclaimRequest {
                    swappiness,
                    ..ReclaimRequest::new(group, nr_pages)
                };
                policy.isolate(request, TimeMs(0), &mut self.batch).unwrap();
                for folio in &self.batch.folios {
                    assert!(swappiness.allows(policy.kind(*folio)));
                    assert_eq!(policy.is_proven(*folio), None);
                }
            }
            Operation::Complete { verdict } => {
                let verdicts = vec![verdict; self.batch.folios.len()];
                policy.complete(&mut self.batch, &verdicts);
                for (folio, shadow) in self.batch.folios.iter().zip(&self.batch.shadows) {
                    let was_gone = self.gone_while_isolated.contains(folio);
                    let has_left = matches!(verdict, Verdict::Evicted | Verdict::Gone);
                    if has_left && !was_gone {
                        self.live.retain(|live| live != folio);
                    }
                    assert_eq!(shadow.is_some(), verdict == Verdict::Evicted && !was_gone);
                    self.shadows.extend(*shadow);
                }
                self.gone_while_isolated.clear();
                self.batch.clear();
            }
            Operation::WalkIfDue => {
                let due = policy.ageing(group, Swappiness::DEFAULT).unwrap();
                if due == Ageing::Due {
                    policy
                        .finish_walk(group, Swappiness::DEFAULT, TimeMs(0))
                        .unwrap();
                    let due = policy.ageing(group, Swappiness::DEFAULT).unwrap();
                    assert_eq!(due, Ageing::NotDue);
                }
            }
            _ => {}
        }
        let nr_folios = self.live.len() + self.gone_while_isolated.len();
        assert_eq!(policy.nr_folios() as usize, nr_folios);
        policy.validate().unwrap();
    }
}

proptest! {
    #[test]
    fn whatever_happens_everything_can_be_recounted(
        operations in proptest::collection::vec(operation(), NR_OPERATIONS),
    ) {
        let mut policy = Strata::new(Config::default()).unwrap();
        let group = policy.add_group("/test", TimeMs(0)).unwrap();
        let mut model = Model::default();
        for operation in operations {
            model.apply(&mut policy, group, operation);
        }
    }
}
