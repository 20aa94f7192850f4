//! What the ticks of a trace come to, against what its last line says.
//!
//! **Owns** the sums. **Does not own** what holds of a tick (`control_trace`).

use strata_host::run::trace::{End, LimitAction, Recorded, Report};

use super::Check;

impl Check<'_> {
    pub(super) fn end(&mut self, end: &End, recorded: &Recorded) {
        let last_ms = recorded.ticks.last().map_or(0, |tick| tick.now_ms);
        self.hold(last_ms <= end.now_ms, "the end comes before the last tick");
        self.reports(&end.reports);
        let ticks = || recorded.ticks.iter();
        let reports = || ticks().flat_map(|tick| &tick.reports).chain(&end.reports);
        let usage = || ticks().filter_map(|tick| tick.sample.usage_bytes);
        let asked = ticks().filter_map(|tick| tick.plan.reclaim);
        let asked = asked.filter(|ask| ask.is_taken).map(|ask| ask.bytes);
        let raises = ticks().flat_map(|tick| &tick.plan.limit);
        let raises = raises.flat_map(|look| &look.actions);
        let raised = |action: &&LimitAction| {
            matches!(
                action,
                LimitAction::Raise {
                    raised_bytes: 1..,
                    ..
                }
            )
        };
        let sum = |of: &dyn Fn(&Report) -> u64| reports().map(of).sum::<u64>();
        let freed = ticks()
            .flat_map(|tick| &tick.reports)
            .chain(&end.reports)
            .map(|report| match report {
                Report::Reclaim(of) => of.freed_bytes.unwrap_or(0),
                _ => 0,
            });
        let totals = end.totals;
        let sums = [
            ("nr_samples", totals.nr_samples, usage().count() as u64),
            ("peak_bytes", totals.peak_bytes, usage().max().unwrap_or(0)),
            (
                "reclaim_asked_bytes",
                totals.reclaim_asked_bytes,
                asked.sum(),
            ),
            (
                "reclaim_freed_bytes",
                totals.reclaim_freed_bytes,
                freed.sum(),
            ),
            ("nr_walks", totals.nr_walks, self.nr_walks),
            (
                "nr_raises",
                totals.nr_raises,
                raises.filter(raised).count() as u64,
            ),
        ];
        for (name, total, sum) in sums {
            self.hold(
                total == sum,
                &format!("{name} is {total}, and the ticks come to {sum}"),
            );
        }
        let nr_evicted = sum(&|report| match report {
            Report::Pageout(of) => of.nr_evicted_pages,
            _ => 0,
        });
        self.hold(
            totals.nr_applied_pages <= nr_evicted,
            "more has left memory than pageout reported",
        );
    }
}
