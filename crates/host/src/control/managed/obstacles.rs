//! Processes whose pages can't be taken one by one.
//!
//! **Owns** who is out of pageout's reach, and who does the work instead. **Does not own** finding out
//! (`actuator::PageoutError`).

use super::super::ActuatorChoice;
use super::super::places::SpaceNo;
use super::Managed;
use crate::actuator::PageoutError;

impl Managed {
    /// Where no page of a space can be taken one by one the kernel is left to do it, if it may be asked.
    pub(super) fn meet_obstacle(&mut self, space: u32, obstacle: &PageoutError) {
        let is_lasting = matches!(
            obstacle,
            PageoutError::NoSpace(_) | PageoutError::NotPermitted(_)
        );
        let can_ask = self.actuator == ActuatorChoice::Auto && self.shrink.is_some();
        let mut text = format!("pageout: {obstacle}");
        if is_lasting {
            self.out_of_reach.insert(SpaceNo(space));
        }
        if is_lasting && can_ask {
            self.governor.set_actuator(ActuatorChoice::Reclaim);
            text += "; the kernel's reclaim does the work";
        }
        if !self.warnings.contains(&text) {
            self.news.push(text.clone());
        }
        self.warn(text);
    }

    /// Pageout goes on once nobody is left whose pages it can't take.
    pub(super) fn forget_obstacles(&mut self) {
        let spaces = self.tracker.spaces();
        self.out_of_reach.retain(|space| spaces.contains_key(space));
        if self.out_of_reach.is_empty() && self.shrink.is_some() {
            self.governor.set_actuator(self.actuator);
        }
    }

    /// Whether there is a process whose pages pageout can't take.
    pub(in super::super) fn is_out_of_reach(&self) -> bool {
        !self.out_of_reach.is_empty()
    }
}
