//! Policies as people name them: `NAME[:MODEL][+OPTION[=VALUE]]...`.
//!
//! Those of the engine (`mglru`, `two-list`, `strata`) have the models and options of [`EngineSpec`]; the baselines `lru`,
//! `fifo`, `clock`, `opt`, `sieve` and `s3-fifo` have none.
//!
//! **Owns** which of both a name means, and whether one of the engine is played alone, on tiers or steered. **Does not
//! own** any policy, or the syntax (`strata_lru::EngineSpec`).

use std::{fmt, str::FromStr, sync::Arc};

use strata_lru::{BadText, EnginePolicy, EngineSpec, KernelModel, MultiGen, TwoList};
use strata_trace::did_you_mean;

use crate::{
    baseline::Baseline,
    mechanism::{Machine, PlaysKernel, tiers},
    outcome::Outcome,
    simulate::{Progress, Setup, SimError, Simulate},
    steered::World,
    workload::Workload,
};

/// A policy, and the text that asked for it.
#[derive(Clone, Debug)]
pub struct PolicySpec {
    text: String,
    policy: Arc<dyn Simulate>,
}

impl FromStr for PolicySpec {
    type Err = BadText;

    fn from_str(text: &str) -> Result<PolicySpec, BadText> {
        let policy = parse(text).map_err(|why| BadText::new("policy", text, why))?;
        Ok(PolicySpec {
            text: text.to_owned(),
            policy,
        })
    }
}

/// Options of `mglru` and `two-list`, without values.
const OPTIONS: [&str; 7] = [
    "distance",
    "no-swap",
    "min-ttl",
    "min-ttl-each",
    "nr_gens",
    "nr_tiers",
    "group_order",
];

/// `did you mean NAME? ` for the first name, model or option in the text of an engine's policy that is not known and is like
/// one that is; else nothing.
pub fn suggestion(text: &str) -> String {
    let mut pieces = text.split('+');
    let head = pieces.next().unwrap_or_default();
    let (name, model) = head.split_once(':').unwrap_or((head, ""));
    let keys = pieces.map(|piece| piece.split('=').next().unwrap_or_default());
    let heads = [
        (name, EnginePolicy::NAMES.to_vec()),
        (model, KernelModel::NAMES.to_vec()),
    ];
    let all = heads
        .into_iter()
        .chain(keys.map(|key| (key, OPTIONS.to_vec())));
    let unknown = all.filter(|(given, known)| !known.contains(given));
    let mut meant = unknown.map(|(given, known)| did_you_mean(given, known));
    meant.find(|told| !told.is_empty()).unwrap_or_default()
}

fn parse(text: &str) -> Result<Arc<dyn Simulate>, String> {
    let name = text.split([':', '+']).next().unwrap_or_default();
    if EnginePolicy::NAMES.contains(&name) {
        let spec: EngineSpec = text
            .parse()
            .map_err(|error: BadText| format!("{}{}", suggestion(text), error.why))?;
        return Ok(Arc::new(spec.policy().clone()));
    }
    let baseline: Baseline = name.parse().map_err(|_| {
        let names = [&EnginePolicy::NAMES[..], Baseline::NAMES].concat();
        let meant = did_you_mean(name, names.iter().copied());
        format!("{meant}use one of {}", names.join(", "))
    })?;
    if name != text {
        return Err(format!("{baseline} has neither models nor options"));
    }
    Ok(Arc::new(baseline))
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl Simulate for EnginePolicy {
    fn run(
        &self,
        workload: &Workload,
        setup: &Setup,
        progress: &dyn Progress,
    ) -> Result<Outcome, SimError> {
        if let (None, Some(tiers)) = (&setup.steered, &setup.tiers) {
            return tiers::run(self, tiers, workload, setup, progress);
        }
        match self {
            EnginePolicy::MultiGen(config) => {
                let policy = MultiGen::new(config.clone())?;
                play(policy, config.has_swap, workload, setup, progress)
            }
            EnginePolicy::TwoList(config) => {
                let policy = TwoList::new(config.clone())?;
                play(policy, config.has_swap, workload, setup, progress)
            }
        }
    }
}

/// Replays a workload under a policy with one node of memory, alone or steered.
fn play<P: PlaysKernel>(
    policy: P,
    has_swap: bool,
    workload: &Workload,
    setup: &Setup,
    progress: &dyn Progress,
) -> Result<Outcome, SimError> {
    match &setup.steered {
        Some(steered) => World::new(policy, has_swap, workload, setup, steered)?.run(progress),
        None => Machine::new(Box::new(policy), workload, setup)?.run(progress),
    }
}

impl Simulate for PolicySpec {
    fn run(
        &self,
        workload: &Workload,
        setup: &Setup,
        progress: &dyn Progress,
    ) -> Result<Outcome, SimError> {
        self.policy.run(workload, setup, progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_baseline_is_named_and_has_no_options() {
        for baseline in Baseline::ALL {
            let spec: PolicySpec = baseline.name().parse().unwrap();
            assert_eq!(spec.to_string(), baseline.name());
            for odd in [":v6.1", "+distance", ":", "+"] {
                let error = format!("{baseline}{odd}")
                    .parse::<PolicySpec>()
                    .unwrap_err();
                assert!(
                    error.to_string().ends_with("neither models nor options"),
                    "{error}"
                );
            }
        }
    }

    #[test]
    fn a_misspelt_name_is_told_the_nearest() {
        for (text, meant) in [
            ("s3fifo", "s3-fifo"),
            ("LRU", "lru"),
            ("twolist", "two-list"),
            ("mgrlu:v6.1", "mglru"),
            ("mglru:6.14", "v6.14"),
            ("mglru+nrgens=8", "nr_gens"),
        ] {
            let error = text.parse::<PolicySpec>().unwrap_err().to_string();
            let told = format!("is no policy: did you mean {meant}? ");
            assert!(error.contains(&told), "{error}");
        }
        assert_eq!(suggestion("mglru:v6.1+distance+placement=v6.1"), "");
        assert_eq!(suggestion("mglru:tomato"), "");
    }

    #[test]
    fn an_unknown_name_is_told_what_there_is() {
        for text in ["", "lfu", "LRU", "+lru", "lru,fifo"] {
            let error = text.parse::<PolicySpec>().unwrap_err().to_string();
            assert!(error.contains("s3-fifo"), "{error}");
        }
    }
}
