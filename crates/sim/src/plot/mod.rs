//! Plots as SVG: miss ratios over memory, generations over time, bars of anything.
//!
//! All arithmetic is on integers, so a plot has the same bytes on any machine, and nothing is asked
//! of the system (no fonts, no libraries): the viewer chooses a sans-serif font.
//!
//! **Owns** what is drawn when. **Does not own** the figures (`report`).

mod bars;
mod curves;
mod generations;
pub mod svg;

pub use self::bars::{Bars, stacked_bars};
use self::svg::{Frame, PANEL_HEIGHT, Svg, WIDTH};
use crate::report::{Record, Report};

/// Colours that can be told apart, also by those who see few: Okabe and Ito's, the yellow darkened.
const COLOURS: [&str; 8] = [
    "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#a89a00", "#555555",
];

impl Report {
    /// A picture, as SVG: a panel a trace with a curve a policy where some trace has several
    /// amounts of memory; else a panel a run with its generations over time; else, as there are only
    /// baselines, a panel a trace with a dot a policy.
    pub fn plot(&self) -> String {
        let records = &self.runs;
        let of_traces: Vec<&[Record]> = records.chunk_by(|a, b| a.trace == b.trace).collect();
        let has_curves = of_traces.iter().any(|of_trace| {
            let mut sizes = of_trace.iter().map(|record| record.memory_pages);
            let first = sizes.next();
            sizes.any(|size| Some(size) != first)
        });
        let has_samples = |record: &&Record| !record.samples().is_empty();
        let with_generations: Vec<&Record> = records.iter().filter(has_samples).collect();
        let are_generations = !has_curves && !with_generations.is_empty();
        let nr_panels = match are_generations {
            true => with_generations.len(),
            false => of_traces.len(),
        };
        let mut svg = Svg::of_panels(nr_panels);
        let frames = (0..).map(|number| Frame::of_panel(number, WIDTH, PANEL_HEIGHT));
        if are_generations {
            for (record, frame) in with_generations.into_iter().zip(frames) {
                generations::draw(&mut svg, frame, record);
            }
        } else {
            for (of_trace, frame) in of_traces.into_iter().zip(frames) {
                curves::draw(&mut svg, frame, of_trace);
            }
        }
        svg.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::Report;
    use crate::{Baseline, CostModel, Jobs, NoProgress, PolicySpec, Setup, Workload};
    use strata_trace::Generator;

    fn picture(names: &[&str], sizes: &[u32]) -> String {
        let policies: Vec<PolicySpec> = names.iter().map(|name| name.parse().unwrap()).collect();
        let setups: Vec<Setup> = sizes.iter().copied().map(Setup::with_memory).collect();
        let jobs = Jobs::try_new(1).unwrap();
        let mut report = Report::default();
        for name in [
            "gen:zipf,pages=900,accesses=20000",
            "gen:loop,pages=90,accesses=900",
        ] {
            let workload =
                Workload::from_accesses(name, name.parse::<Generator>().unwrap()).unwrap();
            let runs = jobs
                .replay(&workload, &policies, &setups, &NoProgress)
                .unwrap();
            report.add(&workload, &runs, &CostModel::default());
        }
        report.plot()
    }

    #[test]
    fn a_curve_a_policy_and_a_panel_a_trace() {
        let names = Baseline::NAMES;
        let svg = picture(names, &[10, 50, 200, 900]);
        assert_eq!(svg.matches("<polyline").count(), 2 * names.len());
        assert_eq!(svg.matches("<circle").count(), 2 * 4 * names.len());
        for text in names
            .iter()
            .copied()
            .chain(["gen:zipf,pages=900,accesses=20000", "memory, pages"])
        {
            assert!(svg.contains(&format!(">{text}</text>")), "{text}");
        }
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert_eq!(svg, picture(names, &[10, 50, 200, 900]));
    }

    #[test]
    fn one_size_of_baselines_is_dots() {
        let svg = picture(&["lru", "opt"], &[50]);
        assert_eq!(svg.matches("<circle").count(), 4);
    }
}
