//! What a guard that runs says of groups, beside what is seen of them.
//!
//! **Owns** which of its figures are told. **Does not own** where a guard leaves them (`managed::Status`).

use super::GuardView;
use crate::managed::{GroupStatus, Status};
use std::collections::BTreeMap;

/// By group; nobody where no guard acts, where it stands still, or its figures can't be read: those of another version can't.
pub(super) fn of_running() -> BTreeMap<String, GuardView> {
    match Status::of_running() {
        Ok(status) if status.walks.is_late() => BTreeMap::new(),
        Ok(status) => of(status),
        Err(error) => {
            tracing::debug!("what the guard has done is not told: {error}");
            BTreeMap::new()
        }
    }
}

fn of(status: Status) -> BTreeMap<String, GuardView> {
    let groups = status.groups.into_iter();
    let view = |group: GroupStatus| {
        let view = GuardView {
            taken_bytes: group.taken_bytes,
            away_bytes: group.away_bytes,
            came_back_per_min_bytes: group.came_back_per_min_bytes,
            allowed_per_min_bytes: group.allowed_per_min_bytes,
        };
        (group.group, view)
    };
    groups.map(view).collect()
}
