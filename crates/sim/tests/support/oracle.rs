//! What real kernels read back, and what the simulator does on the same accesses.
//!
//! **Owns** reading `oracle/results.json` beside the project, and the replays. **Does not own** the
//! sequences (`strata_trace::oracle`) or what is made of the figures.

use std::path::PathBuf;

use serde_json::Value;
use strata_lru::{Config, Ingredients, KernelModel, Rule, Rules};
use strata_sim::{KernelPolicy, NoProgress, Setup, Simulate, Workload};
use strata_trace::Generator;

/// One kernel under one pattern, and ours under the same.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// `6.1` or `6.12`.
    pub(crate) kernel: String,
    /// `MODE/PATTERN`.
    pub(crate) name: String,
    /// Classic lists: the kernel's, then `two-list`.
    pub(crate) classic: Pair,
    /// Generations: the kernel's, then `mglru`.
    pub(crate) mglru: Pair,
    /// Pages the policy of our own reads back, in the memory of the better of the two.
    pub(crate) strata: u64,
}

/// A kernel's figure and ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    /// Pages the kernel read back, the median of its repeats.
    pub(crate) kernel: u64,
    /// How far the repeats lay apart, as a part of the median.
    pub(crate) spread: f64,
    /// Pages we read back.
    pub(crate) ours: u64,
    /// Memory the kernel had left for pages.
    pub(crate) capacity_pages: u32,
}

impl Pair {
    /// Ours over the kernel's.
    pub(crate) fn ratio(self) -> f64 {
        self.ours as f64 / self.kernel as f64
    }
}

impl Case {
    /// Whether the case tells a behaviour: `loop` leaves full thrashing at a random moment.
    pub(crate) fn is_graded(&self) -> bool {
        !self.name.ends_with("/loop")
    }

    /// The kernel's better figure.
    pub(crate) fn better(&self) -> Pair {
        if self.classic.kernel <= self.mglru.kernel {
            self.classic
        } else {
            self.mglru
        }
    }

    /// What the policy of our own reads back over the kernel's better figure.
    pub(crate) fn strata_over_better(&self) -> f64 {
        self.strata as f64 / self.better().kernel as f64
    }

    /// What generations cost over the classic lists: in the kernel, then ours.
    pub(crate) fn generations_over_classic(&self) -> (f64, f64) {
        let over = |mglru: u64, classic: u64| mglru as f64 / classic as f64;
        (
            over(self.mglru.kernel, self.classic.kernel),
            over(self.mglru.ours, self.classic.ours),
        )
    }
}

/// Where the recorded figures are: `STRATA_SHARED`, else beside the project.
pub(crate) fn results() -> PathBuf {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let shared = std::env::var_os("STRATA_SHARED").map(PathBuf::from);
    shared.unwrap_or_else(beside).join("oracle/results.json")
}

/// The rules a recorded kernel goes by. 6.1 lets a reclaim go on after a walk, 6.12 ends it there.
fn rules(kernel: &str) -> Rules {
    let rules = Rules::from(KernelModel::V6_1);
    match kernel {
        "6.1" => rules,
        _ => rules.take(Rule::Aborting, KernelModel::V6_14),
    }
}

/// Reads the figures and replays every case of them.
pub(crate) fn replay() -> Result<Vec<Case>, Box<dyn std::error::Error>> {
    let path = results();
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let results: Value = serde_json::from_str(&text)?;
    let cases = results["cases"].as_array().ok_or("no cases")?;
    cases.iter().map(replay_case).collect()
}

fn replay_case(case: &Value) -> Result<Case, Box<dyn std::error::Error>> {
    let text = |key: &str| case[key].as_str().ok_or_else(|| format!("no {key}"));
    // 6.1.0-56-cloud-amd64 is a 6.1.
    let kernel: Vec<&str> = text("kernel")?.split('.').take(2).collect();
    let kernel = kernel.join(".");
    let name = format!("{}/{}", text("mode")?, text("pattern")?);
    let memory = case["memory_pages"].as_u64().ok_or("no memory_pages")?;
    let accesses = case["accesses"].as_u64().ok_or("no accesses")?;
    let trace: Generator = format!("oracle:{name},memory={memory},accesses={accesses}").parse()?;
    let workload = Workload::from_accesses(&*name, trace)?;
    let rules = rules(&kernel);
    let multi_gen = KernelPolicy::MultiGen(Config {
        rules,
        ..Config::default()
    });
    let two_list = KernelPolicy::TwoList(Config::default());
    let mut case = Case {
        classic: pair(&case["classic"], &two_list, &workload)?,
        mglru: pair(&case["mglru"], &multi_gen, &workload)?,
        strata: 0,
        kernel,
        name,
    };
    let strata = KernelPolicy::Strata(Config::default(), Ingredients::ALL);
    case.strata = read_backs(&strata, &workload, case.better().capacity_pages)?;
    Ok(case)
}

/// Pages that a policy reads back.
fn read_backs(
    policy: &KernelPolicy,
    workload: &Workload,
    capacity_pages: u32,
) -> Result<u64, Box<dyn std::error::Error>> {
    let outcome = policy.run(workload, &Setup::with_memory(capacity_pages), &NoProgress)?;
    Ok(outcome.nr_misses - u64::from(workload.nr_pages()))
}

fn pair(
    recorded: &Value,
    policy: &KernelPolicy,
    workload: &Workload,
) -> Result<Pair, Box<dyn std::error::Error>> {
    let number = |key: &str| recorded[key].as_u64().ok_or_else(|| format!("no {key}"));
    let capacity_pages = u32::try_from(number("capacity_pages")?)?;
    Ok(Pair {
        kernel: number("read_backs_median")?,
        spread: recorded["spread"].as_f64().ok_or("no spread")?,
        ours: read_backs(policy, workload, capacity_pages)?,
        capacity_pages,
    })
}

/// The figures as the table of `docs/fidelity.md`, a line a case. Behind a kernel's figure stands how
/// far its repeats lay apart.
pub(crate) fn table(cases: &[Case]) -> String {
    let mut lines = vec![
        "| kernel | case | classic | `two-list` | ratio | MGLRU | `mglru:v6.1` | ratio | MGLRU / classic | ours |".to_owned(),
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|".to_owned(),
    ];
    for case in cases {
        let note = if case.is_graded() {
            ""
        } else {
            " (not graded)"
        };
        let pair = |pair: Pair| {
            let Pair {
                kernel,
                spread,
                ours,
                ..
            } = pair;
            let percent = spread * 100.0;
            format!("{kernel} ({percent:.1} %) | {ours} | {:.3}", pair.ratio())
        };
        let (kernel, ours) = case.generations_over_classic();
        lines.push(format!(
            "| {} | {}{note} | {} | {} | {kernel:.3} | {ours:.3} |",
            case.kernel,
            case.name,
            pair(case.classic),
            pair(case.mglru),
        ));
    }
    lines.join("\n") + "\n"
}

/// The policy of our own against the better of a kernel's two, as a table of `docs/evaluation.md`.
pub(crate) fn policy_table(cases: &[Case]) -> String {
    let mut lines = vec![
        "| kernel | case | classic | MGLRU | `strata` | over the better |".to_owned(),
        "|---|---|---:|---:|---:|---:|".to_owned(),
    ];
    for case in cases {
        lines.push(format!(
            "| {} | {} | {} | {} | {} | {:.3} |",
            case.kernel,
            case.name,
            case.classic.kernel,
            case.mglru.kernel,
            case.strata,
            case.strata_over_better(),
        ));
    }
    lines.join("\n") + "\n"
}
