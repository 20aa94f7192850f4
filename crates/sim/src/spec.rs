//! Policies as people name them: `NAME[:MODEL][+OPTION[=VALUE]]...`.
//!
//! No commas, so that policies can be listed with commas between them. What models and options there
//! are depends on the policy; a baseline has none.
//!
//! **Owns** the syntax and the list of names. **Does not own** any policy.

use std::{fmt, str::FromStr, sync::Arc};

use crate::{
    baseline::Baseline,
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

fn parse(parts: &Parts<'_>) -> Result<Arc<dyn Simulate>, String> {
    let names = || Baseline::ALL.map(Baseline::name).join(", ");
    let baseline: Baseline = parts
        .name
        .parse()
        .map_err(|_| format!("use one of {}", names()))?;
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
    fn an_unknown_name_is_told_what_there_is() {
        for text in ["", "lfu", "LRU", "+lru", "lru,fifo"] {
            let error = text.parse::<PolicySpec>().unwrap_err().to_string();
            assert!(error.contains("s3-fifo"), "{error}");
        }
    }
}
