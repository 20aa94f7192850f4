//! Groups of a trace and their limits, as people write them: `PATH[:KEY=VALUE,...]`.
//!
//! ```text
//!   web:max=50%,low=1000      a group; the trace's group 0, being the first
//!   web/a:min=64MiB           a group below it, which then holds the trace's group 0 instead
//!   batch:swap.max=0,trace=3  the trace's group 3
//! ```
//!
//! Keys are the interface files of cgroup v2 without `memory.`: `min`, `low`, `high`, `max` and
//! `swap.max` (`memory.swap.max`). A value is an amount of memory as everywhere
//! ([`MemorySize`]), a share being one of the run's memory; `0`; or `max` for no limit.
//!
//! As in cgroup v2 only groups without groups below them hold pages. They are the trace's groups in the
//! order given, unless `trace=N` says which; groups of the trace that are left over have no limits.
//!
//! **Owns** the texts, and which of them is which group of a trace. **Does not own** what limits do (the
//! engine).

use std::str::FromStr;

use strata_lru::{BadText, Limits};

use crate::memory::MemorySize;

/// How much a group may use, before it is known how much there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Amount {
    Nothing,
    Some(MemorySize),
    NoLimit,
}

impl Amount {
    fn pages(self, memory_pages: u32) -> u64 {
        match self {
            Amount::Nothing => 0,
            Amount::Some(size) => u64::from(size.pages(memory_pages)),
            Amount::NoLimit => Limits::MAX,
        }
    }
}

/// A limit that can be set, in the order of [`KEYS`].
type Setting = (usize, Amount);

/// The interface files of a group, without `memory.`.
const KEYS: [&str; 5] = ["min", "low", "high", "max", "swap.max"];

/// A group with its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    path: String,
    settings: Vec<Setting>,
    trace_group: Option<u16>,
}

/// Groups that do not fit each other or the trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadGroups {
    /// A path is given twice.
    #[error("group {0} is given twice: put all its limits into one")]
    Twice(String),
    /// Pages for a group that only holds groups.
    #[error("group {0} has groups below it, so it holds no pages of the trace: leave trace= out")]
    NotALeaf(String),
    /// Two groups for one of the trace's.
    #[error("two groups are the trace's group {0}: give each another trace=N")]
    Taken(u16),
    /// A group that the trace lacks.
    #[error("group {path} would be the trace's group {number}, but the trace has {nr_groups}")]
    NotInTrace {
        /// The group.
        path: String,
        /// The number it would have.
        number: u16,
        /// How many there are, numbered from 0.
        nr_groups: u16,
    },
}

impl FromStr for GroupSpec {
    type Err = BadText;

    fn from_str(text: &str) -> Result<GroupSpec, BadText> {
        let bad = |why: String| BadText::new("group", text, why);
        let (path, settings) = text.split_once(':').unwrap_or((text, ""));
        let is_path = path.split('/').all(|name| !name.trim().is_empty());
        if !is_path || path.contains([',', '=']) {
            let form = "write PATH:KEY=VALUE,..., such as web:max=50%,low=1000";
            return Err(bad(form.to_owned()));
        }
        let mut spec = GroupSpec {
            path: path.to_owned(),
            settings: Vec::new(),
            trace_group: None,
        };
        for setting in settings.split(',').filter(|of| !of.is_empty()) {
            spec.set(setting).map_err(bad)?;
        }
        Ok(spec)
    }
}

impl GroupSpec {
    fn set(&mut self, setting: &str) -> Result<(), String> {
        let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
        if key == "trace" {
            let number = value.parse();
            let number = number.map_err(|_| "trace= is the number of a group of the trace")?;
            self.trace_group = Some(number);
            return Ok(());
        }
        // The whole name of the interface file is as good.
        let name = key.strip_prefix("memory.").unwrap_or(key);
        let known = KEYS.iter().position(|known| *known == name);
        let key = known.ok_or_else(|| {
            let known = KEYS.join(", ");
            format!("no limit is called {key:?}: use {known} or trace")
        })?;
        let amount = match value {
            "max" => Amount::NoLimit,
            "0" => Amount::Nothing,
            some => Amount::Some(some.parse().map_err(|error| format!("{error}"))?),
        };
        if self.settings.iter().any(|(of, _)| *of == key) {
            return Err(format!("{name} is given twice"));
        }
        self.settings.push((key, amount));
        Ok(())
    }

    /// Limits of the group in a run with so much memory.
    fn limits(&self, memory_pages: u32) -> Limits {
        let mut limits = Limits::NONE;
        let places = [
            &mut limits.min_pages,
            &mut limits.low_pages,
            &mut limits.high_pages,
            &mut limits.max_pages,
            &mut limits.swap_max_pages,
        ];
        for (key, place) in places.into_iter().enumerate() {
            if let Some((_, amount)) = self.settings.iter().find(|(of, _)| *of == key) {
                *place = amount.pages(memory_pages);
            }
        }
        limits
    }
}

/// A group of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) path: String,
    /// Position of the group above, always smaller than its own.
    pub(crate) parent: Option<usize>,
    pub(crate) limits: Limits,
    /// The trace's group whose pages it holds; none if groups are below it.
    pub(crate) trace_group: Option<u16>,
}

/// The groups of a run over a trace with `nr_groups`, parents first: those that are given, what is
/// above them, and one for each group of the trace that is left over.
pub(crate) fn plan(
    specs: &[GroupSpec],
    memory_pages: u32,
    nr_groups: u16,
) -> Result<Vec<Planned>, BadGroups> {
    let mut plan: Vec<Planned> = Vec::new();
    for spec in specs {
        let at = place(&mut plan, &spec.path);
        if specs.iter().filter(|of| of.path == spec.path).count() > 1 {
            return Err(BadGroups::Twice(spec.path.clone()));
        }
        plan[at].limits = spec.limits(memory_pages);
        plan[at].trace_group = spec.trace_group;
    }
    let mut holders: Vec<Option<usize>> = vec![None; usize::from(nr_groups)];
    let is_leaf = |at: usize| plan.iter().all(|of| of.parent != Some(at));
    let leaves: Vec<usize> = (0..plan.len()).filter(|at| is_leaf(*at)).collect();
    for (at, of) in plan.iter().enumerate() {
        let Some(number) = of.trace_group else {
            continue;
        };
        if !leaves.contains(&at) {
            return Err(BadGroups::NotALeaf(of.path.clone()));
        }
        let holder = holders.get_mut(usize::from(number));
        let holder = holder.ok_or_else(|| BadGroups::NotInTrace {
            path: of.path.clone(),
            number,
            nr_groups,
        })?;
        if holder.replace(at).is_some() {
            return Err(BadGroups::Taken(number));
        }
    }
    for at in leaves {
        if plan[at].trace_group.is_none() {
            let number = holders.iter().position(Option::is_none);
            let number = number.ok_or_else(|| BadGroups::NotInTrace {
                path: plan[at].path.clone(),
                number: nr_groups,
                nr_groups,
            })?;
            holders[number] = Some(at);
            plan[at].trace_group = Some(number as u16);
        }
    }
    let left_over = (0..nr_groups).filter(|number| holders[usize::from(*number)].is_none());
    plan.extend(left_over.map(|number| Planned {
        path: format!("trace-{number}"),
        parent: None,
        limits: Limits::NONE,
        trace_group: Some(number),
    }));
    Ok(plan)
}

/// Position of a path, which is added with what is above it if it is not there yet.
fn place(plan: &mut Vec<Planned>, path: &str) -> usize {
    if let Some(at) = plan.iter().position(|of| of.path == path) {
        return at;
    }
    let parent = path.rsplit_once('/').map(|(above, _)| place(plan, above));
    plan.push(Planned {
        path: path.to_owned(),
        parent,
        limits: Limits::NONE,
        trace_group: None,
    });
    plan.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specs(texts: &[&str]) -> Vec<GroupSpec> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn limits_are_written_as_in_cgroup_v2() {
        let spec: GroupSpec = "web:min=10,low=25%,high=8MiB,memory.max=max,swap.max=0"
            .parse()
            .unwrap();
        let limits = Limits {
            min_pages: 10,
            low_pages: 1000,
            high_pages: 2048,
            max_pages: Limits::MAX,
            swap_max_pages: 0,
        };
        assert_eq!(spec.limits(4000), limits);
        let unlimited = GroupSpec {
            path: "web".to_owned(),
            settings: Vec::new(),
            trace_group: None,
        };
        assert_eq!("web".parse(), Ok(unlimited));
    }

    #[test]
    fn what_is_no_group_is_refused_with_a_reason() {
        for (text, why) in [
            ("", "write PATH:KEY=VALUE"),
            ("/web", "write PATH:KEY=VALUE"),
            ("web//a", "write PATH:KEY=VALUE"),
            ("max=5", "write PATH:KEY=VALUE"),
            ("web:most=5", "no limit is called \"most\""),
            ("web:max=5,max=6", "max is given twice"),
            ("web:max", "no amount of memory"),
            ("web:max=-1", "no amount of memory"),
            ("web:trace=a", "the number of a group"),
            ("web:trace=70000", "the number of a group"),
        ] {
            let error = text.parse::<GroupSpec>().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn leaves_hold_the_traces_groups_in_order_and_the_rest_have_no_limits() {
        let specs = specs(&["web/a:max=10", "batch:trace=0", "web:low=5", "web/b"]);
        let plan = plan(&specs, 100, 5).unwrap();
        let lines = plan.iter().map(|of| {
            let above = of.parent.map(|at| plan[at].path.as_str());
            (of.path.as_str(), above, of.trace_group)
        });
        let expected = [
            ("web", None, None),
            ("web/a", Some("web"), Some(1)),
            ("batch", None, Some(0)),
            ("web/b", Some("web"), Some(2)),
            ("trace-3", None, Some(3)),
            ("trace-4", None, Some(4)),
        ];
        assert_eq!(lines.collect::<Vec<_>>(), expected);
        assert_eq!(
            (plan[0].limits.low_pages, plan[1].limits.max_pages),
            (5, 10)
        );
    }

    #[test]
    fn groups_that_do_not_fit_are_named() {
        for (texts, why) in [
            (&["a", "b", "a:max=5"][..], "group a is given twice"),
            (&["a:trace=1", "a/b"], "group a has groups below it"),
            (&["a:trace=1", "b:trace=1"], "are the trace's group 1"),
            (
                &["a:trace=2"],
                "would be the trace's group 2, but the trace has 2",
            ),
            (&["a", "b", "c"], "group c would be the trace's group 2"),
        ] {
            let error = plan(&specs(texts), 100, 2).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
