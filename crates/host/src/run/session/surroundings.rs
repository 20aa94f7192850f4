//! What others do to the budget: tighter limits, processes that are moved, memory that is charged elsewhere.
//!
//! **Owns** when it is looked for. **Does not own** the groups (`cgroup`), nor how a process that was moved
//! (`strays`) or memory that is charged elsewhere (`charges`) is known.

use super::Session;
use strata_linux::cgroup::{GroupReader, MemoryLimit};
use strata_linux::plain;
use strata_linux::units::Bytes;
use strata_lru::TimeMs;

impl Session<'_> {
    /// Says that a limit of others is lower than the budget, so that the kernel holds that one.
    pub(super) fn look_for_tighter_limit(&mut self) {
        let limit = match (self.arena.gauge.group(), self.program.pid()) {
            (Some(group), _) => group.lowest_limit_of_others(),
            (None, Some(pid)) => {
                let group = GroupReader::of_process(pid).ok().flatten();
                group.and_then(|group| group.lowest_limit())
            }
            (None, None) => None,
        };
        if let Some(said) = limit.and_then(|limit| tell(&limit, self.marks.budget_bytes)) {
            self.warn(said);
        }
    }

    /// Says what others have done since the last look.
    pub(super) fn look_around(&mut self, now: TimeMs) {
        let Some(group) = self.arena.gauge.group().cloned() else {
            return;
        };
        let root = self.program.pid();
        let mut news = group.take_news();
        news.extend(self.charges.look(now, &group));
        news.extend(self.strays.look(&group, root));
        for news in news {
            self.warn(news);
        }
    }
}

fn tell(limit: &MemoryLimit, budget_bytes: u64) -> Option<String> {
    let file = limit.file.display().to_string();
    let what_happens = match file.ends_with("memory.high") {
        true => "the kernel reclaims and slows the programs down",
        false => "the kernel reclaims, and kills where that is not enough,",
    };
    (limit.bytes < budget_bytes).then(|| {
        format!(
            "{} is {} ({}), less than the budget of {}: {what_happens} before the budget is reached; give a smaller \
             budget, or raise that limit",
            plain::line(&file),
            limit.bytes,
            Bytes(limit.bytes),
            Bytes(budget_bytes),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn limit(file: &str) -> MemoryLimit {
        MemoryLimit {
            file: file.into(),
            bytes: 60 * MIB,
        }
    }

    #[test]
    fn a_limit_below_the_budget_is_told_with_its_file_and_value_and_no_other() {
        let limit = |name: &str| limit(&format!("/m/evil\u{1b}name/{name}"));
        let told = tell(&limit("memory.max"), 80 * MIB).expect("lower");
        let start = "/m/evil?name/memory.max is 62914560 (60 MiB), less than the budget of 80 MiB";
        assert!(told.starts_with(start) && told.contains("kills"), "{told}");
        let told = tell(&limit("memory.high"), 80 * MIB).expect("lower");
        assert!(told.contains("slows") && !told.contains("kills"), "{told}");
        assert_eq!(tell(&limit("memory.max"), 60 * MIB), None);
        assert_eq!(tell(&limit("memory.limit_in_bytes"), 40 * MIB), None);
    }
}
