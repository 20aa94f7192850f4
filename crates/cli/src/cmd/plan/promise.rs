//! `strata plan --promise`: what a promise would give back of a recorded program.
//!
//! **Owns** the options and the answer for people. **Does not own** the play (`strata_sim::guarded`).

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use strata_linux::swap::device_bytes_for;
use strata_linux::units::Bytes;
use strata_sim::guarded::{
    GuardSetup, Guarded, GuardedGroup, Promise, Recorded, STALL_SHARE, guarded,
};
use strata_sim::{CostModel, Ratio, Workload};
use strata_trace::recording::RecordingInfo;

use crate::args::{Format, min_age_arg, promise_arg, swap_option};
use crate::cmd::sim_guard::{promised_percent, too_short};
use crate::duration::span;
use crate::failure::UsageError;
use crate::print;
use crate::progress::Bar;

/// What no plan for a promise tells.
const NOT_KNOWN: &str = "\
not known: what several processes map (a guard leaves it alone), whether swap has room, and what takes no part in the
recording; walks take no time here
";

/// Planning with a promise instead of budgets.
#[derive(Debug, Args)]
pub(super) struct PromiseArgs {
    /// Tell what strata guard --promise would give back, and what would come back, instead of a budget
    ///
    /// The guard's own decisions are played on the recording in virtual time. For example 0.2%/min.
    #[arg(
        long,
        value_name = "SHARE/min",
        value_parser = promise_arg,
        allow_hyphen_values = true,
        conflicts_with_all = ["slowdown", "memory", "policy", "pageout_rate", "held", "html", "jobs"]
    )]
    promise: Option<f64>,

    /// With --promise: memory is never idle that was accessed within so long
    #[arg(long, value_name = "DURATION", default_value = "1m", requires = "promise", value_parser = min_age_arg, allow_hyphen_values = true)]
    min_age: u64,
}

impl PromiseArgs {
    /// What is promised, if a promise was asked for.
    pub(super) fn promise(&self) -> Option<Promise> {
        self.promise.map(|share_per_min| Promise {
            share_per_min,
            min_age: Duration::from_millis(self.min_age),
            stall_share: STALL_SHARE,
        })
    }
}

/// Plays and answers.
pub(super) fn run(
    workload: &Workload,
    info: &RecordingInfo,
    promise: Promise,
    cost: &CostModel,
    format: Format,
) -> anyhow::Result<ExitCode> {
    let setup = GuardSetup {
        promise,
        walk_interval: promise.walk_interval(),
    };
    let bar = Bar::requests(workload.name(), u64::from(workload.nr_requests()));
    let answer = guarded(workload, &setup, Recorded::of(info), cost, &bar)
        .map_err(|error| UsageError(error.to_string()))?;
    bar.finish();
    let target = info.about.as_ref().map_or("", |about| &about.target);
    print::pretty_answer(format, &answer, || text(&answer, &pattern(target)))?;
    Ok(ExitCode::SUCCESS)
}

/// The groups to guard; `target` is what `strata record` calls what was recorded.
fn pattern(target: &str) -> String {
    let path = target.strip_prefix("cgroup /sys/fs/cgroup/");
    let is_safe = |path: &&str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-@:".contains(&byte);
        !path.is_empty() && path.bytes().all(is_plain)
    };
    match path.filter(is_safe) {
        // On cgroup v1 the first part is the mount of a controller.
        Some(path) => format!("/{}", path.strip_prefix("memory/").unwrap_or(path)),
        None => "GROUP".to_owned(),
    }
}

fn text(plan: &Guarded, pattern: &str) -> String {
    // A time in whole seconds is never told to be shorter than it is.
    let seconds = |ms: u64| span(ms.next_multiple_of(1000));
    let promised = promised_percent(plan);
    let mut text = format!(
        "{}: {} recorded, {} of CPU time\npromised: at most {promised} % comes back within a minute; idle is what was not \
         accessed for {}\n\n",
        plan.trace,
        span(plan.duration_ms),
        span(plan.busy_us.unwrap_or_default() / 1000),
        span(plan.min_age_ms),
    );
    if let Some(why) = too_short(plan) {
        text.push_str(&why);
        text.push_str("record for several times as long: strata record --for DURATION\n");
        return text;
    }
    let Some(group) = plan.groups.first() else {
        return text;
    };
    text.push_str(&given_back(group));
    text.push_str(&format!(
        "comes back: {} in all; in the worst minute {}, {} of what it has ({promised} % is promised)\n",
        Bytes(group.came_back_bytes),
        Bytes(group.came_back_worst_min_bytes),
        group.came_back_worst_min.percent(),
    ));
    if group.resting_ms > 0 {
        text.push_str(&format!(
            "the promise is broken: for {} nothing is taken\n",
            seconds(group.resting_ms)
        ));
    }
    text.push_str(&format!(
        "idle at: {} in the end, {} for files\n",
        seconds(group.at_end.age_anon_ms),
        seconds(group.at_end.age_file_ms),
    ));
    if let Some(slowdown) = plan.slowdown {
        text.push_str(&format!(
            "slowdown: {} of CPU time expected\n",
            slowdown.percent()
        ));
    }
    if plan.walk_interval_ms > plan.min_age_ms / 6 {
        text.push_str(&format!(
            "the recording tells accesses every {} only: ages are that coarse, and a guard would walk more often\n",
            span(plan.walk_interval_ms)
        ));
    }
    if plan.nr_unmapped_accesses > 0 {
        text.push_str("page cache that is not mapped is left out: a guard does not take it\n");
    }
    text.push_str(NOT_KNOWN);
    if group.at_end.away_bytes > 0 {
        let swap = match group.at_end.away_anon_bytes {
            0 => String::new(),
            bytes => swap_option(device_bytes_for(bytes)),
        };
        text.push_str(&format!(
            "strata guard --promise {promised}%/min --min-age {:?} --cgroup {pattern}{swap}\n",
            Duration::from_secs(plan.min_age_ms.div_ceil(1000))
        ));
    }
    text
}

fn given_back(group: &GuardedGroup) -> String {
    let end = &group.at_end;
    let footprint = end.resident_bytes + end.away_bytes;
    let mut text = format!(
        "Given back: {} in the end, {} of {}; {} on average.\n",
        Bytes(end.away_bytes),
        Ratio::of(end.away_bytes, footprint).percent(),
        Bytes(footprint),
        Bytes(group.away_mean_bytes),
    );
    if end.away_anon_bytes > 0 {
        text.push_str(&format!(
            "gross: {} of it are anonymous memory, and how well that compresses in swap is not known\n",
            Bytes(end.away_anon_bytes)
        ));
    }
    if end.could_give_bytes > 0 {
        text.push_str(&format!(
            "{} more are idle in the end: a guard goes step by step\n",
            Bytes(end.could_give_bytes)
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_cgroup_is_named_as_strata_guard_wants_it() {
        for (target, expected) in [
            (
                "cgroup /sys/fs/cgroup/app.slice/a.service",
                "/app.slice/a.service",
            ),
            ("cgroup /sys/fs/cgroup/memory/app", "/app"),
            ("cgroup /sys/fs/cgroup/a b", "GROUP"),
            ("cgroup app", "GROUP"),
            ("process 42", "GROUP"),
            ("", "GROUP"),
        ] {
            assert_eq!(pattern(target), expected, "{target}");
        }
    }
}
