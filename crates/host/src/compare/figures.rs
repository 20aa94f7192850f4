//! The figures of one run of the command: what each is called, its unit, and which way is better.
//!
//! **Owns** the list of figures; names have their unit in them. **Does not own** where a figure comes from (`arm`), nor how
//! its value is shown (the binary).
//!
//! **Invariants** I1: a figure that is not known is `None`, never 0. I2: every figure has one name, and names differ.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The direction in which a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Less of it.
    Lower,
    /// More of it.
    Higher,
}

/// Makes the list of figures: what each is, its name in JSON, with the unit, and what people call it.
macro_rules! metrics {
    ($($(#[$doc:meta])* $metric:ident = $name:literal: $label:literal,)*) => {
        /// One figure of a run.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Metric {
            $($(#[$doc])* #[serde(rename = $name)] $metric,)*
        }

        impl Metric {
            /// All of them, in the order in which they are shown.
            pub const ALL: [Metric; [$($name),*].len()] = [$(Metric::$metric),*];

            /// Name of the figure in JSON, with the unit.
            pub fn name(self) -> &'static str {
                match self {
                    $(Metric::$metric => $name,)*
                }
            }

            /// What people call it.
            pub fn label(self) -> &'static str {
                match self {
                    $(Metric::$metric => $label,)*
                }
            }
        }
    };
}

metrics! {
    /// Wall time from the start of the command to its end.
    Wall = "wall_ms": "time",
    /// Operations a second, by the command's own output.
    Throughput = "throughput_per_s": "operations/s",
    /// Operations for each second of CPU time of everything together.
    OperationsPerCpu = "operations_per_cpu_s": "operations/CPU s",
    /// Iterations a second of the busy loops beside the command.
    Neighbours = "neighbour_iterations_per_s": "neighbours' iterations/s",
    /// Major faults of the command.
    MajorFaults = "nr_major_faults": "major faults",
    /// Major faults for each 1000 operations.
    FaultsPerThousand = "nr_major_faults_per_1000_operations": "major faults/1000 operations",
    /// Minor faults of the command.
    MinorFaults = "nr_minor_faults": "minor faults",
    /// Pages that came back after they were reclaimed, by the kernel's counters of the group.
    Refaults = "nr_refaulted_pages": "refaulted pages",
    /// Read from all disks of the machine meanwhile.
    DiskRead = "disk_read_bytes": "read from disks",
    /// Highest usage of the group.
    Peak = "peak_bytes": "memory, peak",
    /// Mean usage of the group.
    Mean = "mean_bytes": "memory, mean",
    /// Mean usage of the group since it was full.
    FullMean = "full_mean_bytes": "memory, mean once full",
    /// Time for which usage was above the budget.
    AboveBudget = "above_budget_ms": "time above budget",
    /// Times that the hard limit behind Strata's budget gave way.
    LimitRaises = "nr_limit_raises": "limit gave way",
    /// Memory that compressed swap took for the command.
    Zram = "zram_bytes": "compressed swap",
    /// Resident memory of Strata and its keeper.
    StrataMemory = "strata_bytes": "Strata's memory",
    /// CPU time of the command.
    CommandCpu = "command_cpu_ms": "CPU of the command",
    /// CPU time of Strata and its keeper.
    StrataCpu = "strata_cpu_ms": "CPU of Strata",
    /// CPU time of all kernel threads of the machine meanwhile.
    KernelThreadsCpu = "kernel_threads_cpu_ms": "CPU of kernel threads",
    /// The three together.
    TotalCpu = "total_cpu_ms": "CPU of everything",
}

impl Metric {
    /// Whether a ratio of it says anything. Kernel threads are counted in clock ticks of 10 ms, of which there are few.
    pub fn is_divided(self) -> bool {
        self != Metric::KernelThreadsCpu
    }

    /// The direction in which the figure is better.
    pub fn better(self) -> Better {
        match self {
            Metric::Throughput | Metric::OperationsPerCpu | Metric::Neighbours => Better::Higher,
            _ => Better::Lower,
        }
    }
}

/// The figures of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures([Option<f64>; Metric::ALL.len()]);

impl Figures {
    /// A figure; `None` if it is not known.
    pub fn get(&self, metric: Metric) -> Option<f64> {
        self.0[metric as usize]
    }

    pub(super) fn set(&mut self, metric: Metric, value: Option<f64>) {
        self.0[metric as usize] = value.filter(|value| value.is_finite());
    }

    /// Fills in what follows from the others: the sum of CPU time, and what is told for each operation.
    pub(super) fn derive(&mut self, output: Said, is_under_strata: bool) {
        let wall_s = self.get(Metric::Wall).map(|ms| ms / 1000.0);
        let per_second = |operations: f64| wall_s.filter(|s| *s > 0.0).map(|s| operations / s);
        let throughput = output
            .throughput_per_s
            .or_else(|| output.nr_operations.and_then(per_second));
        let in_all = |rate: f64| wall_s.map(|s| rate * s);
        let nr_operations = output
            .nr_operations
            .or_else(|| output.throughput_per_s.and_then(in_all));
        self.set(Metric::Throughput, throughput);
        let strata_ms = match is_under_strata {
            true => self.get(Metric::StrataCpu),
            false => Some(0.0),
        };
        let parts = [
            self.get(Metric::CommandCpu),
            strata_ms,
            self.get(Metric::KernelThreadsCpu),
        ];
        let total_ms = parts.into_iter().sum::<Option<f64>>();
        self.set(Metric::TotalCpu, total_ms);
        let per = |whole: Option<f64>, part: Option<f64>| {
            let part = part.filter(|part| *part > 0.0)?;
            Some(whole? / part)
        };
        let total_s = total_ms.map(|ms| ms / 1000.0);
        self.set(Metric::OperationsPerCpu, per(nr_operations, total_s));
        let faults = self.get(Metric::MajorFaults).map(|faults| faults * 1000.0);
        self.set(Metric::FaultsPerThousand, per(faults, nr_operations));
    }
}

/// Numbers found in the command's output.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Said {
    /// Operations a second.
    pub(super) throughput_per_s: Option<f64>,
    /// Operations in all.
    pub(super) nr_operations: Option<f64>,
}

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let figures = Metric::ALL.into_iter();
        serializer.collect_map(figures.map(|metric| (metric, self.get(metric).map(Number))))
    }
}

impl<'de> Deserialize<'de> for Figures {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Figures, D::Error> {
        let mut figures = Figures::default();
        for (metric, value) in BTreeMap::<Metric, _>::deserialize(deserializer)? {
            figures.set(metric, value);
        }
        Ok(figures)
    }
}

/// A number that is printed without a fraction where it has none.
#[derive(Clone, Copy, Debug)]
struct Number(f64);

/// Prints a number so.
pub(super) fn number<S: Serializer>(
    number: &(impl Copy + Into<Option<f64>>),
    serializer: S,
) -> Result<S::Ok, S::Error> {
    (*number).into().map(Number).serialize(serializer)
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Every whole number of this size is exact.
        const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
        match self.0.fract() == 0.0 && self.0.abs() <= EXACT_MAX {
            true => serializer.serialize_i64(self.0 as i64),
            false => serializer.serialize_f64(self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn known() -> Figures {
        let mut figures = Figures::default();
        figures.set(Metric::Wall, Some(2000.0));
        figures.set(Metric::MajorFaults, Some(50.0));
        figures.set(Metric::CommandCpu, Some(1500.0));
        figures.set(Metric::StrataCpu, Some(300.0));
        figures.set(Metric::KernelThreadsCpu, Some(200.0));
        figures
    }

    #[test]
    fn each_figure_has_a_place_and_a_name_of_its_own() {
        for (at, metric) in Metric::ALL.into_iter().enumerate() {
            assert_eq!(metric as usize, at, "{metric:?}");
        }
        let names: BTreeSet<&str> = Metric::ALL.into_iter().map(Metric::name).collect();
        assert_eq!(names.len(), Metric::ALL.len());
    }

    #[test]
    fn a_count_of_operations_gives_the_throughput_and_a_throughput_the_count() {
        let mut counted = known();
        let said = Said {
            nr_operations: Some(10_000.0),
            throughput_per_s: None,
        };
        counted.derive(said, true);
        assert_eq!(counted.get(Metric::Throughput), Some(5000.0));
        assert_eq!(counted.get(Metric::TotalCpu), Some(2000.0));
        assert_eq!(counted.get(Metric::OperationsPerCpu), Some(5000.0));
        assert_eq!(counted.get(Metric::FaultsPerThousand), Some(5.0));
        let mut rated = known();
        let said = Said {
            nr_operations: None,
            throughput_per_s: Some(6000.0),
        };
        rated.derive(said, true);
        assert_eq!(rated.get(Metric::Throughput), Some(6000.0));
        assert_eq!(rated.get(Metric::OperationsPerCpu), Some(6000.0));
    }

    #[test]
    fn what_stands_in_for_nothing_is_not_counted_against_the_kernel_alone() {
        let mut alone = known();
        alone.derive(Said::default(), false);
        assert_eq!(alone.get(Metric::TotalCpu), Some(1700.0));
        assert_eq!(alone.get(Metric::Throughput), None);
        assert_eq!(alone.get(Metric::OperationsPerCpu), None);
    }

    #[test]
    fn what_is_not_known_stays_unknown_in_what_follows_from_it() {
        let mut figures = known();
        figures.set(Metric::KernelThreadsCpu, None);
        let said = Said {
            nr_operations: Some(0.0),
            throughput_per_s: None,
        };
        figures.derive(said, true);
        assert_eq!(figures.get(Metric::TotalCpu), None);
        assert_eq!(figures.get(Metric::OperationsPerCpu), None);
        assert_eq!(figures.get(Metric::FaultsPerThousand), None);
        figures.set(Metric::Wall, Some(f64::NAN));
        assert_eq!(figures.get(Metric::Wall), None);
        let json = serde_json::to_value(&figures).expect("plain data");
        assert_eq!(json["total_cpu_ms"], serde_json::Value::Null);
        assert_eq!(json["nr_major_faults"].to_string(), "50");
    }
}
