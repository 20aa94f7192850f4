//! Policies of the engine as people name them: `NAME[:MODEL][+OPTION[=VALUE]]...`.
//!
//! No commas, so that policies can be listed with commas between them. What models and options there
//! are depends on the policy.
//!
//! | policy | models | options |
//! |---|---|---|
//! | `mglru` | a kernel: `v2021`, `v2022`, `v6.1`, `v6.14` (the default), `v7.2` | as below |
//! | `two-list` | none | `distance`, `distance=always`, `distance=series`, `no-swap` |
//!
//! | option | meaning |
//! |---|---|
//! | `distance` | refaults are judged by refault distance where a trial in small misses less by it, else the kernel's way |
//! | `distance=always` | refaults are judged by refault distance |
//! | `distance=series` | refaults are judged by refault distance as the series of 2023 words it: against what is inactive |
//! | `no-swap` | nothing can be swapped out: anon takes no part in refault distances |
//! | `min-ttl=MS` | as the kernel's: memory is out when nothing anywhere is older; else all are taken from (`mglru`) |
//! | `min-ttl-each=MS` | no group gives anything younger, whatever others have (`mglru`) |
//! | `RULE=MODEL` | one rule as in another kernel, for ablations: `placement=v6.1` (`mglru`) |
//! | `nr_gens=N`, `nr_tiers=N` | so many generations, tiers (`mglru`) |
//! | `group_order=ORDER` | how global reclaim goes round groups (`mglru`) |
//!
//! **Owns** the syntax, and which options a policy has. **Does not own** any policy, or names of policies that are none of
//! the engine's.
//!
//! **Invariants** I1: a spec's text, parsed again, is the same policy.

use std::{fmt, str::FromStr};

use crate::{
    config::{Config, ConfigError, MinTtl, Refault},
    error::BadText,
    model::KernelModel,
    multigen::MultiGen,
    policy::Policy,
    two_list::TwoList,
};

/// How refaults may be judged, by `mglru` and `two-list`.
const DISTANCE_OPTIONS: &str = "distance, distance=always, distance=series";

/// What `mglru` can be given besides.
const MGLRU_OPTIONS: &str =
    "no-swap, min-ttl=MS, min-ttl-each=MS, nr_gens=N, nr_tiers=N, group_order=ORDER and RULE=MODEL";

/// A policy of the engine and its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnginePolicy {
    /// The multi-generational LRU.
    MultiGen(Config),
    /// The classic active and inactive lists.
    TwoList(Config),
}

impl EnginePolicy {
    /// The names of all, without models and options.
    pub const NAMES: [&str; 2] = ["mglru", "two-list"];

    /// Its settings.
    pub fn config(&self) -> &Config {
        match self {
            EnginePolicy::MultiGen(config) | EnginePolicy::TwoList(config) => config,
        }
    }

    /// Whether the policy keeps generations, which have an age that `min_ttl_ms` is compared with.
    pub fn has_generations(&self) -> bool {
        matches!(self, EnginePolicy::MultiGen(_))
    }

    /// The policy, which takes nothing that was accessed less than `min_ttl_ms` ago. `None`: the policy keeps no ages.
    pub fn with_min_ttl(&self, min_ttl_ms: u64) -> Option<EnginePolicy> {
        let with = |config: &Config| Config {
            min_ttl_ms,
            min_ttl: MinTtl::EachByItself,
            ..config.clone()
        };
        match self {
            EnginePolicy::MultiGen(config) => Some(EnginePolicy::MultiGen(with(config))),
            EnginePolicy::TwoList(_) => None,
        }
    }

    /// The policy itself.
    ///
    /// # Errors
    /// When a setting is out of its bounds.
    pub fn build(&self) -> Result<Box<dyn Policy>, ConfigError> {
        Ok(match self {
            EnginePolicy::MultiGen(config) => Box::new(MultiGen::new(config.clone())?),
            EnginePolicy::TwoList(config) => Box::new(TwoList::new(config.clone())?),
        })
    }
}

/// A policy of the engine, and the text that asked for it.
///
/// ```
/// use strata_lru::EngineSpec;
///
/// let spec: EngineSpec = "mglru:v6.1+distance+nr_gens=8".parse()?;
/// assert_eq!(spec.to_string(), "mglru:v6.1+distance+nr_gens=8");
/// assert!("two-list+nr_gens=8".parse::<EngineSpec>().is_err());
/// # Ok::<(), strata_lru::BadText>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineSpec {
    text: String,
    policy: EnginePolicy,
}

impl EngineSpec {
    /// The policy.
    pub fn policy(&self) -> &EnginePolicy {
        &self.policy
    }
}

impl FromStr for EngineSpec {
    type Err = BadText;

    fn from_str(text: &str) -> Result<EngineSpec, BadText> {
        let bad = |why| BadText::new("policy", text, why);
        let policy = parse(&Parts::of(text)).map_err(bad)?;
        Ok(EngineSpec {
            text: text.to_owned(),
            policy,
        })
    }
}

impl fmt::Display for EngineSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// A text, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts<'t> {
    name: &'t str,
    model: Option<&'t str>,
    options: Vec<(&'t str, Option<&'t str>)>,
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

fn parse(parts: &Parts<'_>) -> Result<EnginePolicy, String> {
    let mut config = Config::default();
    match (parts.name, parts.model) {
        ("mglru", Some(model)) => {
            let model: KernelModel = model.parse().map_err(|error| format!("{error}"))?;
            config.rules = model.into();
        }
        ("mglru" | "two-list", None) => {}
        ("two-list", Some(_)) => return Err("two-list has no models".to_owned()),
        ("strata", _) => return Err("there is no strata any more; use mglru".to_owned()),
        _ => return Err(format!("use one of {}", EnginePolicy::NAMES.join(", "))),
    }
    for option in &parts.options {
        match *option {
            ("distance", None) => config.refault = Refault::Trial,
            ("distance", Some("always")) => config.refault = Refault::Distance,
            ("distance", Some("series")) => config.refault = Refault::Series,
            ("distance", Some(when)) => {
                return Err(format!("distance={when}: {DISTANCE_OPTIONS}"));
            }
            ("no-swap", None) => config.has_swap = false,
            ("heat", None) => {
                return Err("there is no heat any more; mglru misses no more without it".to_owned());
            }
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
                applied.map_err(|error| error.to_string())?;
            }
            (key, _) => {
                let (name, options) = match parts.name {
                    "mglru" => ("mglru", MGLRU_OPTIONS),
                    other => (other, "no-swap"),
                };
                return Err(format!(
                    "{name} has no such option: {key:?}; it has {DISTANCE_OPTIONS}, {options}"
                ));
            }
        }
    }
    config.validate().map_err(|error| error.to_string())?;
    Ok(match parts.name {
        "two-list" => EnginePolicy::TwoList(config),
        _ => EnginePolicy::MultiGen(config),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_take_models_and_options() {
        for text in [
            "mglru",
            "mglru:v6.14",
            "mglru+distance+no-swap",
            "mglru:v6.1+distance=always",
            "mglru:v6.1+distance=series",
            "mglru:v6.1+distance+min-ttl=1000",
            "mglru+min-ttl=1000",
            "mglru+min-ttl-each=1000",
            "mglru:v6.14+placement=v6.1+nr_gens=8",
            "two-list",
            "two-list+distance",
            "two-list+distance=series",
        ] {
            let spec: EngineSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), text);
            assert!(spec.policy().build().is_ok(), "{text}");
        }
        for (text, why) in [
            ("mglru:v9", "unknown kernel model"),
            ("mglru+", "no such option"),
            (
                "mglru+distance=9",
                "distance=9: distance, distance=always, distance=series",
            ),
            ("mglru+placement=v9", "unknown kernel model"),
            ("mglru+nr_gens=3", "from 4 to 16"),
            ("mglru+min-ttl=soon", "min-ttl=soon: a number of ms"),
            ("mglru+min-ttl-each=-1", "min-ttl-each=-1: a number of ms"),
            ("two-list+min-ttl-each=1", "no such option"),
            ("mglru+heat=2", "unknown rule"),
            ("mglru+heat", "no heat any more"),
            ("two-list:v6.1", "no models"),
            ("strata", "no strata any more; use mglru"),
            ("two-list+min-ttl=1", "no such option"),
            (
                "two-list+foo",
                "it has distance, distance=always, distance=series, no-swap",
            ),
            ("mglru+foo", "nr_gens=N"),
            ("lru", "use one of mglru, two-list"),
            ("", "use one of mglru, two-list"),
        ] {
            let error = text.parse::<EngineSpec>().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn only_generations_have_ages() {
        for (text, has_generations) in [("mglru", true), ("two-list", false)] {
            let policy = text.parse::<EngineSpec>().unwrap().policy().clone();
            assert_eq!(policy.has_generations(), has_generations, "{text}");
            let aged = policy.with_min_ttl(70);
            assert_eq!(aged.is_some(), has_generations, "{text}");
            let ttl = aged.map(|of| (of.config().min_ttl_ms, of.config().min_ttl));
            let each = (70, MinTtl::EachByItself);
            assert_eq!(ttl, has_generations.then_some(each), "{text}");
        }
    }
}
