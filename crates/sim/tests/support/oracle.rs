//! What real kernels read back, and what the simulator does on the same accesses.
//!
//! **Owns** the replays and the tables of them. **Does not own** the sequences (`strata_trace::oracle`),
//! where a kernel's figures come from (`figures`), or what is made of it all.

#[path = "figures.rs"]
mod figures;

use rayon::prelude::*;
use strata_lru::{Config, KernelModel, Rule, Rules, Swappiness};
use strata_sim::{KernelPolicy, NoProgress, Setup, Simulate, Workload};
use strata_trace::Generator;

pub(crate) use figures::{Failure, Figure, Figures, Setting, measured, recorded};

/// One kernel under one pattern, and ours under the same.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) setting: Setting,
    /// Classic lists: the kernel's, then `two-list`.
    pub(crate) classic: Pair,
    /// Generations: the kernel's, then `mglru`.
    pub(crate) mglru: Pair,
}

/// A kernel's figure and ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) kernel: Figure,
    /// Pages we read back in the memory it had.
    pub(crate) ours: u64,
}

impl Pair {
    /// Ours over the kernel's.
    pub(crate) fn ratio(self) -> f64 {
        over(self.ours, self.kernel.read_backs)
    }
}

impl Case {
    /// Whether the case tells a behaviour: `loop` leaves full thrashing at a random moment.
    pub(crate) fn is_graded(&self) -> bool {
        !self.setting.name.ends_with("/loop")
    }

    /// What generations cost over the classic lists: in the kernel, then ours.
    pub(crate) fn generations_over_classic(&self) -> (f64, f64) {
        let (classic, mglru) = (self.classic, self.mglru);
        (
            over(mglru.kernel.read_backs, classic.kernel.read_backs),
            over(mglru.ours, classic.ours),
        )
    }
}

/// One where there is nothing on either side: memory that holds everything.
fn over(ours: u64, theirs: u64) -> f64 {
    if ours == theirs {
        1.0
    } else {
        ours as f64 / theirs as f64
    }
}

/// The rules a kernel goes by. 6.1 lets a reclaim go on after a walk, 6.12 ends it there.
fn rules(kernel: &str) -> Rules {
    let rules = Rules::from(KernelModel::V6_1);
    match kernel {
        "6.1" => rules,
        _ => rules.take(Rule::Aborting, KernelModel::V6_14),
    }
}

/// Replays every case.
pub(crate) fn replay(figures: Vec<Figures>) -> Result<Vec<Case>, Failure> {
    figures.into_par_iter().map(replay_case).collect()
}

fn replay_case(figures: Figures) -> Result<Case, Failure> {
    let Figures {
        setting,
        classic,
        mglru,
    } = figures;
    let Setting {
        name,
        sequence_pages,
        nr_accesses,
        ..
    } = &setting;
    let trace: Generator =
        format!("oracle:{name},memory={sequence_pages},accesses={nr_accesses}").parse()?;
    let workload = Workload::from_accesses(name.as_str(), trace)?;
    let read_backs = |policy: KernelPolicy, memory: Figure| {
        let setup = Setup {
            swappiness: Swappiness::try_new(setting.swappiness).ok_or("swappiness above 201")?,
            ..Setup::with_memory(memory.capacity_pages)
        };
        let outcome = policy.run(&workload, &setup, &NoProgress)?;
        Ok::<_, Failure>(outcome.nr_misses - u64::from(workload.nr_pages()))
    };
    let two_list = KernelPolicy::TwoList(Config::default());
    let multi_gen = KernelPolicy::MultiGen(Config {
        rules: rules(&setting.kernel),
        ..Config::default()
    });
    Ok(Case {
        classic: Pair {
            kernel: classic,
            ours: read_backs(two_list, classic)?,
        },
        mglru: Pair {
            kernel: mglru,
            ours: read_backs(multi_gen, mglru)?,
        },
        setting,
    })
}

/// The recorded figures as the table of `docs/validation/fidelity.md`, a line a case. Behind a kernel's figure
/// stands how far its repeats lay apart.
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
            let percent = pair.kernel.spread * 100.0;
            let of_kernel = format!("{} ({percent:.1} %)", pair.kernel.read_backs);
            format!("{of_kernel} | {} | {:.3}", pair.ours, pair.ratio())
        };
        let (kernel, ours) = case.generations_over_classic();
        lines.push(format!(
            "| {} | {}{note} | {} | {} | {kernel:.3} | {ours:.3} |",
            case.setting.kernel,
            case.setting.name,
            pair(case.classic),
            pair(case.mglru),
        ));
    }
    lines.join("\n") + "\n"
}

/// The figures measured by ourselves as the other table of `docs/validation/fidelity.md`.
pub(crate) fn measured_table(cases: &[Case]) -> String {
    let mut lines = vec![
        "| kernel | case | made for | memory | swappiness | classic | `two-list` | ratio | MGLRU | `mglru:v6.1` | ratio | MGLRU / classic | ours |".to_owned(),
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|".to_owned(),
    ];
    for case in cases {
        let Setting {
            kernel,
            name,
            sequence_pages,
            memory_pages,
            swappiness,
            ..
        } = &case.setting;
        let pair = |pair: Pair| {
            let (kernel, ours) = (pair.kernel.read_backs, pair.ours);
            format!("{kernel} | {ours} | {:.3}", pair.ratio())
        };
        let (of_kernel, of_ours) = case.generations_over_classic();
        lines.push(format!(
            "| {kernel} | {name} | {sequence_pages} | {memory_pages} | {swappiness} | {} | {} | {of_kernel:.3} | {of_ours:.3} |",
            pair(case.classic),
            pair(case.mglru),
        ));
    }
    lines.join("\n") + "\n"
}
