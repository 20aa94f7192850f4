//! Groups that are to be parked, and those that are.
//!
//! **Owns** who is a candidate. **Does not own** how long a group was idle (`group`), nor parking (`park`).

use super::Managed;
use crate::observe::Observer;
use crate::park::Candidate;

impl Managed {
    /// Groups that were idle for as long as their rules say, as of the last walk. One with processes in groups below it is
    /// none: what these do was not looked at, and they would be parked with it.
    pub fn to_park(&self) -> Vec<Candidate> {
        let idle = self.groups.values().filter(|group| group.is_to_be_parked());
        let candidate = |group: &super::group::Group| {
            let pids = group.reader().own_processes().ok()?;
            (group.reader().processes().ok()? == pids).then_some(Candidate {
                name: group.name().to_owned(),
                path: group.reader().path().to_owned(),
                pids,
                keep: group.rule().park_keep,
                lately: group.rule().park_after?,
            })
        };
        idle.filter_map(candidate).collect()
    }

    /// These are parked now, with so much in swap, bytes. What they hold is read anew by the next walk, though they sleep.
    pub fn parked(&mut self, observer: &mut Observer, of: impl Fn(&str) -> Option<u64>) {
        let mut changed = Vec::new();
        for (id, group) in &mut self.groups {
            let was_parked = group.parked_bytes.is_some();
            group.parked_bytes = of(group.name());
            if group.parked_bytes.is_some() != was_parked {
                changed.push(*id);
            }
        }
        self.read_again(observer, &changed);
    }

    /// Whether a group is looked after.
    pub fn looks_after(&self, name: &str) -> bool {
        self.groups.values().any(|group| group.name() == name)
    }
}
