//! Policies as people name them: `NAME[:MODEL][+OPTION[=VALUE]]...`.
//!
//! No commas, so that policies can be listed with commas between them. What models and options there
//! are depends on the policy.
//!
//! | policy | models | options |
//! |---|---|---|
//! | `mglru` | a kernel: `v2021`, `v2022`, `v6.1`, `v6.14` (the default), `v7.2` | as below |
//! | `two-list` | none | as below |
//! | `strata` | none | `no-test`, `no-returns`, `no-counts`, `no-window`, `no-strides`, `no-lulls`, `no-mean`, `no-walks`, `no-recency`: leaves that out |
//! | `lru` `fifo` `clock` `opt` `sieve` `s3-fifo` | none | none |
//!
//! | option | meaning |
//! |---|---|
//! | `distance` | refaults are judged by refault distance where a trial in small misses less by it, else the kernel's way |
//! | `distance=always` | refaults are judged by refault distance |
//! | `no-swap` | nothing can be swapped out: anon takes no part in refault distances |
//! | `heat` | pages accessed in the fewest of the last walks go first, as under `strata run` (`mglru`) |
//! | `min-ttl=MS` | as the kernel's: memory is out when nothing anywhere is older; else all are taken from (`mglru`) |
//! | `min-ttl-each=MS` | no group gives anything younger, whatever others have (`mglru`) |
//! | `RULE=MODEL` | one rule as in another kernel, for ablations: `placement=v6.1` (`mglru`) |
//! | `nr_gens=N`, `nr_tiers=N` | so many generations, tiers (`mglru`) |
//! | `group_order=ORDER` | how global reclaim goes round groups (`mglru`) |
//!
//! **Owns** the syntax and the list of names. **Does not own** any policy.

use std::{fmt, str::FromStr, sync::Arc};

use strata_lru::{Config, Ingredient, Ingredients, KernelModel, MinTtl, Refault};
use strata_trace::did_you_mean;

use crate::{
    baseline::Baseline,
    mechanism::KernelPolicy,
    outcome::Outcome,
    simulate::{Progress, Setup, SimError, Simulate},
    workload::Workload,
};

/// A policy, and the text that asked for it.
#[derive(Clone, Debug)]
pub struct PolicySpec {
    text: String,
    policy: Arc<dyn Simulate>,
}

/// A text, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts<'t> {
    pub(crate) name: &'t str,
    pub(crate) model: Option<&'t str>,
    pub(crate) options: Vec<(&'t str, Option<&'t str>)>,
}

impl<'t> Parts<'t> {
    fn of(text: &'t str) -> Parts<'t> {
        let mut pieces = text.split('+');
        let head = pieces.next().unwrap_or_default();
        let (name, model) = match head.split_once(':') {
            Some((name, model)) => (name, Some(model)),
            None => (head, None),
        };
        let option = |piece: &'t str| match piece.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (piece, None),
        };
        Parts {
            name,
            model,
            options: pieces.map(option).collect(),
        }
    }
}

/// A text that names no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no policy: {why}")]
pub struct BadPolicy {
    text: String,
    why: String,
}

impl FromStr for PolicySpec {
    type Err = BadPolicy;

    fn from_str(text: &str) -> Result<PolicySpec, BadPolicy> {
        let policy = parse(&Parts::of(text)).map_err(|why| BadPolicy {
            text: text.to_owned(),
            why,
        })?;
        Ok(PolicySpec {
            text: text.to_owned(),
            policy,
        })
    }
}

/// Names of the policies that need a mechanism.
const KERNEL_POLICIES: [&str; 3] = ["mglru", "two-list", "strata"];

/// What `mglru` can be given.
const MGLRU_OPTIONS: &str = "distance, distance=always, no-swap, heat, min-ttl=MS, min-ttl-each=MS, nr_gens=N, nr_tiers=N, group_order=ORDER and RULE=MODEL";

/// Names of the options of `mglru`, without values, for suggestions.
const MGLRU_OPTION_NAMES: [&str; 8] = [
    "distance",
    "no-swap",
    "heat",
    "min-ttl",
    "min-ttl-each",
    "nr_gens",
    "nr_tiers",
    "group_order",
];

/// What `two-list` can be given.
const TWO_LIST_OPTIONS: &str = "distance, distance=always, no-swap";

fn parse(parts: &Parts<'_>) -> Result<Arc<dyn Simulate>, String> {
    let mut config = Config::default();
    let mut ingredients = Ingredients::ALL;
    let mut has_heat = false;
    match (parts.name, parts.model) {
        ("mglru", Some(model)) => {
            config.rules = kernel_model(model)?.into();
        }
        ("mglru" | "two-list" | "strata", None) => {}
        (name @ ("two-list" | "strata"), Some(_)) => return Err(format!("{name} has no models")),
        _ => return parse_baseline(parts),
    }
    for option in &parts.options {
        match *option {
            (key, None) if parts.name == "strata" => {
                ingredients = ingredients.without(left_out(key)?);
            }
            ("distance", None) => config.refault = Refault::Trial,
            ("distance", Some("always")) => config.refault = Refault::Distance,
            ("distance", Some(when)) if parts.name != "strata" => {
                return Err(format!("distance={when}: distance or distance=always"));
            }
            ("no-swap", None) => config.has_swap = false,
            ("heat", None) if parts.name == "mglru" => has_heat = true,
            (key @ ("min-ttl" | "min-ttl-each"), Some(ms)) if parts.name == "mglru" => {
                let number = ms.parse();
                config.min_ttl_ms = number.map_err(|_| format!("{key}={ms}: a number of ms"))?;
                config.min_ttl = match key {
                    "min-ttl" => MinTtl::AllTogether,
                    _ => MinTtl::EachByItself,
                };
            }
            (rule, Some(value)) if parts.name == "mglru" => {
                let applied = config.rules.apply(rule, value);
                applied.map_err(|error| {
                    format!("{}{error}", did_you_mean(rule, MGLRU_OPTION_NAMES))
                })?;
            }
            (key, _) => {
                let (name, options, names) = match parts.name {
                    "mglru" => ("mglru", MGLRU_OPTIONS, &MGLRU_OPTION_NAMES[..]),
                    other => (other, TWO_LIST_OPTIONS, &["distance", "no-swap"][..]),
                };
                let meant = did_you_mean(key, names.iter().copied());
                return Err(format!(
                    "{name} has no option {key:?}: {meant}it has {options}"
                ));
            }
        }
    }
    config.validate().map_err(|error| error.to_string())?;
    Ok(Arc::new(match parts.name {
        "two-list" => KernelPolicy::TwoList(config),
        "strata" => KernelPolicy::Strata(config, ingredients),
        _ if has_heat => KernelPolicy::ByHeat(config),
        _ => KernelPolicy::MultiGen(config),
    }))
}

/// The kernel that `mglru:MODEL` names.
fn kernel_model(name: &str) -> Result<KernelModel, String> {
    name.parse().map_err(|_| {
        let names: Vec<&str> = KernelModel::ALL.iter().map(|model| model.name()).collect();
        let meant = did_you_mean(name, names.iter().copied());
        format!(
            "unknown kernel model {name:?}: {meant}use one of {}",
            names.join(", ")
        )
    })
}

/// The ingredient of `strata` that `no-NAME` leaves out.
fn left_out(option: &str) -> Result<Ingredient, String> {
    let named = |one: &&Ingredient| option.strip_prefix("no-") == Some(one.name());
    let found = Ingredient::ALL.iter().find(named);
    found.copied().ok_or_else(|| {
        let names: Vec<String> = Ingredient::ALL
            .iter()
            .map(|one| format!("no-{}", one.name()))
            .collect();
        let meant = did_you_mean(option, names.iter().map(String::as_str));
        format!(
            "strata has no option {option:?}: {meant}it has {}",
            names.join(", ")
        )
    })
}

fn parse_baseline(parts: &Parts<'_>) -> Result<Arc<dyn Simulate>, String> {
    let baselines = Baseline::ALL.map(Baseline::name);
    let baseline: Baseline = parts.name.parse().map_err(|_| {
        let names = [&KERNEL_POLICIES[..], &baselines].concat();
        let meant = did_you_mean(parts.name, names.iter().copied());
        format!("{meant}use one of {}", names.join(", "))
    })?;
    if parts.model.is_some() || !parts.options.is_empty() {
        return Err(format!("{baseline} has neither models nor options"));
    }
    Ok(Arc::new(baseline))
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
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
    fn a_text_is_a_name_a_model_and_options() {
        let parts = Parts::of("mglru:v6.1+distance+nr_gens=8");
        assert_eq!((parts.name, parts.model), ("mglru", Some("v6.1")));
        assert_eq!(parts.options, [("distance", None), ("nr_gens", Some("8"))]);
    }

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
    fn kernel_policies_take_models_and_options() {
        for text in [
            "mglru",
            "mglru:v6.14",
            "mglru+distance+no-swap",
            "mglru:v6.1+distance=always",
            "mglru+heat",
            "mglru:v6.1+heat+min-ttl=1000",
            "mglru+min-ttl=1000",
            "mglru+min-ttl-each=1000",
            "mglru:v6.14+placement=v6.1+nr_gens=8",
            "two-list",
            "two-list+distance",
            "strata",
            "strata+no-test+no-counts",
        ] {
            assert_eq!(text.parse::<PolicySpec>().unwrap().to_string(), text);
        }
        for (text, why) in [
            ("mglru:v9", "unknown kernel model"),
            (
                "mglru:v6.15",
                "unknown kernel model \"v6.15\": did you mean v6.14? use",
            ),
            ("mglru+", "has no option"),
            (
                "mglru+distance=9",
                "distance=9: distance or distance=always",
            ),
            ("mglru+placement=v9", "unknown kernel model"),
            ("mglru+nr_gens=3", "from 4 to 16"),
            ("mglru+min-ttl=soon", "min-ttl=soon: a number of ms"),
            ("mglru+min-ttl-each=-1", "min-ttl-each=-1: a number of ms"),
            ("two-list+min-ttl-each=1", "has no option"),
            ("mglru+heat=2", "unknown rule"),
            ("two-list+heat", "has no option"),
            ("two-list:v6.1", "no models"),
            ("strata:v6.1", "no models"),
            ("strata+distance", "has no option"),
            ("strata+no-test=1", "has no option"),
            ("strata+notest", "did you mean no-test? it has"),
            ("two-list+min-ttl=1", "has no option"),
            ("two-list+foo", "it has distance, distance=always, no-swap"),
            ("mglru+foo", "nr_gens=N"),
            ("mglru+distanse", "did you mean distance? it has"),
            ("mglru+nrgens=8", "did you mean nr_gens? "),
        ] {
            let error = text.parse::<PolicySpec>().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_misspelt_name_is_told_the_nearest() {
        for (text, meant) in [
            ("s3fifo", "s3-fifo"),
            ("LRU", "lru"),
            ("twolist", "two-list"),
            ("mgrlu:v6.1", "mglru"),
            ("optt", "opt"),
        ] {
            let error = text.parse::<PolicySpec>().unwrap_err().to_string();
            assert!(
                error.contains(&format!(": did you mean {meant}? use")),
                "{error}"
            );
        }
    }

    #[test]
    fn an_unknown_name_is_told_what_there_is() {
        for text in ["", "lfu", "LRU", "+lru", "lru,fifo"] {
            let error = text.parse::<PolicySpec>().unwrap_err().to_string();
            assert!(error.contains("s3-fifo"), "{error}");
        }
    }
}
