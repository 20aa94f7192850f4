//! The report of `strata run`, read back.
//!
//! **Owns** which of its fields make which figure. **Does not own** the report (`run::report`).

use serde::Deserialize;

use super::figures::{Figures, Metric};
use crate::run::{Ending, KernelReport, LimitReport, ProgramReport, SavedReport, UsageReport};

/// What is needed of the report of `strata run`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct RunReport {
    ending: Ending,
    elapsed_ms: u64,
    program: Option<ProgramReport>,
    usage: UsageReport,
    limit: Option<LimitReport>,
    kernel: KernelReport,
    saved: SavedReport,
    strata_cpu_ms: u64,
    pub(super) warnings: Vec<String>,
}

impl RunReport {
    /// Reads the report; `None` if there is none, because Strata failed before.
    pub(super) fn parse(text: &str) -> Option<RunReport> {
        serde_json::from_str(text)
            .inspect_err(|error| tracing::debug!("no report: {error}"))
            .ok()
    }

    /// What the command did wrong; `None` if it ended with status 0.
    pub(super) fn failure(&self) -> Option<String> {
        match self.ending {
            Ending::Exited { code: 0 } => None,
            Ending::Exited { code } => Some(format!("the command exited with status {code}")),
            Ending::Signaled {
                is_oom_kill: true, ..
            } => Some("the kernel killed the command: out of memory".to_owned()),
            Ending::Signaled { signal, .. } => {
                Some(format!("the command was ended by signal {signal}"))
            }
            Ending::Detached | Ending::Gone => {
                Some("Strata let go of the command before its end".to_owned())
            }
        }
    }

    /// Whether the kernel killed the command for lack of memory.
    pub(super) fn is_oom_kill(&self) -> bool {
        matches!(
            self.ending,
            Ending::Signaled {
                is_oom_kill: true,
                ..
            }
        )
    }

    /// The command's status, as a shell has it.
    pub(super) fn exit_status(&self) -> u8 {
        self.ending.exit_status()
    }

    /// The figures that it knows. What Strata took to watch the kernel alone is the price of measuring, not of the arm.
    pub(super) fn figures(&self, is_under_strata: bool) -> Figures {
        let mut figures = Figures::default();
        let mut set = |metric, value: Option<u64>| figures.set(metric, value.map(|n| n as f64));
        let of_strata = |value: u64| is_under_strata.then_some(value);
        let program = self.program;
        let cpu_ms = program.map(|of| of.user_cpu_ms + of.system_cpu_ms);
        set(Metric::Wall, Some(self.elapsed_ms));
        set(Metric::MajorFaults, program.map(|of| of.nr_major_faults));
        set(Metric::MinorFaults, program.map(|of| of.nr_minor_faults));
        set(Metric::CommandCpu, cpu_ms);
        set(Metric::Refaults, self.kernel.nr_refaulted_pages());
        // A command that ended before the first look left nothing to be seen of.
        let seen = |bytes: u64| Some(bytes).filter(|bytes| *bytes > 0);
        set(Metric::Peak, seen(self.usage.peak_bytes));
        set(Metric::Mean, seen(self.usage.mean_bytes));
        set(Metric::AboveBudget, Some(self.usage.above_budget_ms));
        set(Metric::LimitRaises, self.limit.map(|of| of.nr_raises));
        // The two are read together, and Strata is never without memory.
        let strata_bytes = seen(self.saved.strata_bytes);
        set(Metric::Zram, strata_bytes.map(|_| self.saved.zram_bytes));
        set(Metric::StrataMemory, strata_bytes.and_then(of_strata));
        set(Metric::StrataCpu, of_strata(self.strata_cpu_ms));
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(ending: &str) -> RunReport {
        let text = format!(
            r#"{{"version":2,"ending":{ending},"elapsed_ms":2000,"strata_cpu_ms":70,
            "program":{{"user_cpu_ms":900,"system_cpu_ms":100,"nr_major_faults":5,"nr_minor_faults":6}},
            "usage":{{"peak_bytes":9,"mean_bytes":8,"above_budget_ms":7,"nr_samples":3}},
            "limit":{{"nr_raises":4,"peak_bytes":9,"backstop_bytes":8}},
            "kernel":{{"nr_refaulted_anon_pages":null,"nr_refaulted_file_pages":4}},
            "saved":{{"zram_bytes":1,"strata_bytes":2,"evicted_bytes":0,"net_bytes":-3}},"warnings":["w"]}}"#
        );
        RunReport::parse(&text).expect("a report")
    }

    #[test]
    fn what_strata_took_is_a_figure_of_its_own_arm_only() {
        let report = parsed(r#"{"how":"exited","code":0}"#);
        let (with, without) = (report.figures(true), report.figures(false));
        assert_eq!(with.get(Metric::StrataCpu), Some(70.0));
        assert_eq!(with.get(Metric::StrataMemory), Some(2.0));
        assert_eq!(without.get(Metric::StrataCpu), None);
        assert_eq!(without.get(Metric::StrataMemory), None);
        for figures in [with, without] {
            assert_eq!(figures.get(Metric::CommandCpu), Some(1000.0));
            assert_eq!(figures.get(Metric::MajorFaults), Some(5.0));
            assert_eq!(figures.get(Metric::LimitRaises), Some(4.0));
            // One half of it is not known.
            assert_eq!(figures.get(Metric::Refaults), None);
        }
    }

    #[test]
    fn a_command_that_nobody_saw_has_no_memory_that_is_known() {
        let mut report = parsed(r#"{"how":"exited","code":0}"#);
        (report.usage.peak_bytes, report.usage.mean_bytes) = (0, 0);
        report.saved.strata_bytes = 0;
        let figures = report.figures(true);
        let memory = [
            Metric::Peak,
            Metric::Mean,
            Metric::Zram,
            Metric::StrataMemory,
        ];
        assert!(memory.iter().all(|of| figures.get(*of).is_none()));
    }

    #[test]
    fn a_command_does_well_with_status_0_only() {
        let well = parsed(r#"{"how":"exited","code":0}"#);
        assert_eq!((well.failure(), well.exit_status()), (None, 0));
        let badly = parsed(r#"{"how":"exited","code":3}"#);
        assert!(badly.failure().is_some_and(|why| why.contains("status 3")));
        let killed = parsed(r#"{"how":"signaled","signal":9,"is_oom_kill":true}"#);
        assert!(
            killed
                .failure()
                .is_some_and(|why| why.contains("out of memory"))
        );
        assert_eq!((badly.exit_status(), killed.exit_status()), (3, 137));
        assert_eq!((badly.is_oom_kill(), killed.is_oom_kill()), (false, true));
        assert!(RunReport::parse("").is_none());
    }
}
