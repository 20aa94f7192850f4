//! Memory that is short: of the host, or below the limit of a group; how much has to go.
//!
//! **Owns** when memory counts as short, and by how much. **Does not own** reading (the host), nor what goes then
//! (`oldest`).
//!
//! **Invariants** I1: without a threshold for the host nothing is missing there, whatever else is read.

/// Usage within this share of a limit counts as short: a program that grows by 30 MiB a second has a second to its limit of
/// 1 GiB, and the kernel reclaims in the program's own page faults once it is there.
const ROOM_SHARE: f64 = 0.03;
/// Tasks of the host that wait for memory for more than this share of the time, percent: memory is short, whatever counts as
/// available. A host with memory to spare is below 1.
const WAITING_PERCENT_MAX: f64 = 10.0;
/// While they wait, so much of the host's memory goes with each look, a hundredth: the share that waits is told of the last ten
/// seconds, so larger steps would go on for long after there is enough.
const WAITING_STEP: f64 = 0.01;

/// A limit that groups live under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitReading {
    /// What may be used.
    pub limit_bytes: u64,
    /// What is used.
    pub usage_bytes: u64,
}

/// What is read at each look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Readings {
    /// All memory of the host, and what is available of it.
    pub total_bytes: u64,
    /// What the kernel thinks new programs could have.
    pub available_bytes: u64,
    /// Share of the last ten seconds in which some task of the host waited for memory; `None`: the kernel does not tell.
    pub waiting_percent: Option<f64>,
    /// Limits, as many as there are.
    pub limits: Vec<LimitReading>,
}

/// How much has to go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Of all groups.
    pub host_bytes: u64,
    /// Of the groups below each limit, in the order of the readings.
    pub below_limits_bytes: Vec<u64>,
}

/// What is missing; the host is short where less than `free_share` is available, or tasks wait; `None`: that is the kernel's.
pub fn missing(readings: &Readings, free_share: Option<f64>) -> Missing {
    let total = readings.total_bytes as f64;
    let host_bytes = free_share.map_or(0, |free_share| {
        let waits = readings.waiting_percent > Some(WAITING_PERCENT_MAX);
        let step = if waits { total * WAITING_STEP } else { 0.0 };
        let wanted_bytes = (total * free_share) as u64;
        let missing_bytes = wanted_bytes.saturating_sub(readings.available_bytes);
        missing_bytes.max(step as u64)
    });
    let below = |of: &LimitReading| {
        let wanted_bytes = (of.limit_bytes as f64 * ROOM_SHARE) as u64;
        wanted_bytes.saturating_sub(of.limit_bytes.saturating_sub(of.usage_bytes))
    };
    Missing {
        host_bytes,
        below_limits_bytes: readings.limits.iter().map(below).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn limit(limit_mib: u64, usage_mib: u64) -> LimitReading {
        LimitReading {
            limit_bytes: limit_mib * MIB,
            usage_bytes: usage_mib * MIB,
        }
    }

    fn host(available_mib: u64, waiting_percent: Option<f64>) -> Readings {
        Readings {
            total_bytes: 1000 * MIB,
            available_bytes: available_mib * MIB,
            waiting_percent,
            limits: Vec::new(),
        }
    }

    #[test]
    fn below_a_limit_three_parts_in_a_hundred_are_kept_free_whatever_the_host_has() {
        let readings = Readings {
            limits: vec![
                limit(1000, 960),
                limit(1000, 980),
                limit(1000, 1000),
                limit(10, 20),
            ],
            ..host(1000, None)
        };
        let missing = missing(&readings, None);
        let missing_mib = missing
            .below_limits_bytes
            .iter()
            .map(|bytes| bytes.div_ceil(MIB));
        assert_eq!(missing_mib.collect::<Vec<_>>(), [0, 10, 30, 1]);
        assert_eq!(missing.host_bytes, 0);
    }

    #[test]
    fn a_host_is_short_below_its_threshold_or_while_tasks_wait_if_there_is_a_threshold() {
        let host_mib = |available, waiting, free| {
            missing(&host(available, waiting), free)
                .host_bytes
                .div_ceil(MIB)
        };
        assert_eq!(host_mib(40, None, Some(0.05)), 10);
        assert_eq!(host_mib(60, None, Some(0.05)), 0);
        assert_eq!(host_mib(60, Some(9.0), Some(0.05)), 0);
        assert_eq!(host_mib(60, Some(11.0), Some(0.05)), 10);
        assert_eq!(host_mib(20, Some(11.0), Some(0.05)), 30);
        assert_eq!(host_mib(0, Some(100.0), None), 0);
    }
}
