//! What a run is asked for, as values.
//!
//! **Owns** the options of `strata run` once parsed, and the reasons a run can't start.
//! **Does not own** their text form (the binary), but for the policy's, which the engine reads.

use crate::keeper::SessionName;
use crate::remote::MetricsConfig;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use strata_control::{Actuator, Config};
use strata_linux::access::AccessChoice;
use strata_linux::swap::SwapSpec;
use strata_lru::{BadText, EnginePolicy, EngineSpec, Swappiness};

/// Who is to be managed.
#[derive(Clone, Debug)]
pub enum Target {
    /// A command of our own; it gets a group of its own.
    Command {
        /// Looked up in `PATH`.
        program: std::ffi::OsString,
        /// Without the program's name.
        args: Vec<std::ffi::OsString>,
        /// Run as this user instead of ours.
        user: Option<String>,
    },
    /// A running process; it stays in the group it is in.
    Pid(i32),
    /// An existing memory cgroup.
    Cgroup(PathBuf),
}

/// Who decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyChoice {
    /// A policy of the engine.
    Engine(Box<EngineSpec>),
    /// Nobody: only the kernel's limit is set, the baseline of every comparison.
    None,
}

impl PolicyChoice {
    /// The policy unless something else is asked for.
    pub const DEFAULT: &str = "mglru";

    /// The policy; `None` where nobody decides.
    pub fn engine(&self) -> Option<&EnginePolicy> {
        match self {
            PolicyChoice::Engine(spec) => Some(spec.policy()),
            PolicyChoice::None => None,
        }
    }
}

impl FromStr for PolicyChoice {
    type Err = BadText;

    fn from_str(text: &str) -> Result<PolicyChoice, BadText> {
        match text {
            "none" => Ok(PolicyChoice::None),
            spec => Ok(PolicyChoice::Engine(Box::new(spec.parse()?))),
        }
    }
}

impl fmt::Display for PolicyChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyChoice::Engine(spec) => spec.fmt(f),
            PolicyChoice::None => f.pad("none"),
        }
    }
}

impl serde::Serialize for PolicyChoice {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// How anon and file pages are weighed against each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SwappinessChoice {
    /// As the kernel does by default.
    #[default]
    Auto,
    /// Like this, all the time.
    Fixed(Swappiness),
}

impl SwappinessChoice {
    /// What the engine and the kernel choose by.
    pub(super) fn base(self) -> Swappiness {
        match self {
            SwappinessChoice::Auto => Swappiness::DEFAULT,
            SwappinessChoice::Fixed(swappiness) => swappiness,
        }
    }
}

/// What becomes of swapped-out memory when an attached target is let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AtDetach {
    /// Memory comes back as the program asks for it.
    #[default]
    Leave,
    /// Memory is read back in first, as far as it fits.
    BringBack,
}

/// Everything `strata run` needs to know.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// What the run is called in the run directory, by its clients and in metrics; our pid if nothing.
    pub name: Option<SessionName>,
    /// Who.
    pub target: Target,
    /// How much memory the target may use, bytes.
    pub budget_bytes: u64,
    /// Where anon pages go.
    pub swap: SwapSpec,
    /// Balance of anon and file.
    pub swappiness: SwappinessChoice,
    /// A working set younger than this is not taken; milliseconds, 0 is off.
    pub min_ttl_ms: u64,
    /// How accesses are seen.
    pub access: AccessChoice,
    /// Who takes the pages.
    pub actuator: Actuator,
    /// Who decides.
    pub policy: PolicyChoice,
    /// Whether exact choice of pages was asked for, by a policy or `min_ttl_ms`; else the kernel chooses what goes where it
    /// can be asked to reclaim.
    pub is_exact: bool,
    /// What Strata may take of the processors, percent of one; `None`: as much as it needs.
    pub cpu_percent_max: Option<u32>,
    /// Hold the budget over the tree's resident memory instead of in a cgroup.
    pub no_cgroup: bool,
    /// Decide, but change nothing (no limit, no swap, no eviction).
    pub dry_run: bool,
    /// Whether page cache that no program has mapped is looked at and dropped; else it is left to the kernel.
    pub drop_cache: bool,
    /// What becomes of swapped-out memory when the target is let go.
    pub at_detach: AtDetach,
    /// Where metrics are to be had.
    pub metrics: MetricsConfig,
    /// Where the control loop's trace goes.
    pub trace: Option<PathBuf>,
    /// What the control loop's judgements are made by.
    pub control: Config,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_named_as_the_engine_names_it_or_is_none() {
        for text in [
            PolicyChoice::DEFAULT,
            "mglru:v6.1+nr_gens=8",
            "two-list",
            "none",
        ] {
            let choice: PolicyChoice = text.parse().unwrap();
            assert_eq!(choice.to_string(), text);
            assert_eq!(serde_json::to_value(&choice).unwrap(), text);
            assert_eq!(choice.engine().is_none(), text == "none");
        }
        assert!("lru".parse::<PolicyChoice>().is_err());
    }
}
