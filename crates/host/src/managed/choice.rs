//! Which groups of the host are looked after now, and who is in them.
//!
//! Groups on which a `run` acts, and those below, are left to it.
//!
//! **Owns** the look at the host's groups, and which rule holds for a group. **Does not own** what fits a group (`rules`).
//!
//! **Invariants** I1: each group counts for at most one rule, the first that fits it.

use super::fits::{Fit, WhyNobody};
use super::rules::{Candidate, Rule, Rules, Whom};
use crate::keeper::groups_of_runs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use strata_linux::cgroup::{CgroupError, GroupReader};

/// A group that is looked after.
#[derive(Debug)]
pub(super) struct Chosen<'a> {
    pub(super) reader: GroupReader,
    pub(super) pids: Vec<i32>,
    pub(super) rule: &'a Rule,
    /// In which order it was made, or the outermost group that it is a part of by its rule: the kernel's numbers grow.
    pub(super) came: u64,
}

/// The groups with processes of their own for which a rule holds, and how many go by each rule.
///
/// # Errors
/// [`CgroupError::NoMemoryController`].
pub(super) fn choose(rules: &Rules) -> Result<(Vec<Chosen<'_>>, Vec<Fit>), CgroupError> {
    choose_of(rules, GroupReader::all()?)
}

/// Those of them that are not known yet.
///
/// # Errors
/// [`CgroupError::NoMemoryController`].
pub(super) fn newcomers(
    rules: &Rules,
    is_known: impl Fn(&GroupReader) -> bool,
) -> Result<Vec<Chosen<'_>>, CgroupError> {
    let mut groups = GroupReader::every()?;
    groups.retain(|group| !is_known(group));
    choose_of(rules, groups).map(|(chosen, _)| chosen)
}

fn choose_of(
    rules: &Rules,
    groups: Vec<GroupReader>,
) -> Result<(Vec<Chosen<'_>>, Vec<Fit>), CgroupError> {
    let of_runs = groups_of_runs();
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let mut fits = Fits::new(rules);
    let mut chosen = Vec::new();
    for reader in groups {
        let mut pids = reader.own_processes().unwrap_or_default();
        if pids.iter().all(|pid| *pid == own) {
            continue;
        }
        let is_of_run = of_runs.iter().any(|run| reader.path().starts_with(run));
        let group = Candidate::new(reader.name(), &pids);
        if let Some(rule) = fits.rule_of(&group, is_of_run) {
            pids.retain(|pid| *pid != own);
            let came = came(&reader, &rule.whom);
            chosen.push(Chosen {
                reader,
                pids,
                rule,
                came,
            });
        }
    }
    Ok((chosen, fits.end()))
}

fn came(reader: &GroupReader, whom: &Whom) -> u64 {
    let nr_levels = nr_levels_up(reader.name(), whom);
    let outermost = reader.path().ancestors().nth(nr_levels);
    let found = outermost.and_then(|path| std::fs::metadata(path).ok());
    found.map_or(0, |found| found.ino())
}

/// How far above a group the outermost lies that is of the same container, unit or pattern: what starts in an old container is not new.
fn nr_levels_up(name: &str, whom: &Whom) -> usize {
    let above = Path::new(name).ancestors().skip(1);
    let is_whole = |path: &&Path| {
        let name = path.to_str().unwrap_or_default();
        !whom.is_everybody() && whom.fits(&Candidate::new(name, &[]))
    };
    above.take_while(is_whole).count()
}

/// Groups are asked one after the other.
#[derive(Debug)]
struct Fits<'a> {
    rules: &'a Rules,
    of_rules: Vec<OfRule>,
    /// Groups that fit each of what is excluded.
    nr_excluded: Vec<u64>,
}

#[derive(Clone, Debug, Default)]
struct OfRule {
    nr_groups: u64,
    taken_before: Option<usize>,
    is_left_alone: bool,
}

impl<'a> Fits<'a> {
    fn new(rules: &'a Rules) -> Fits<'a> {
        let mut of_rules = vec![OfRule::default(); rules.rules.len()];
        for (nr, of) in of_rules.iter_mut().enumerate() {
            let whom = &rules.rules[nr].whom;
            let takes_all = |rule: &Rule| rule.whom.is_everybody() || rule.whom == *whom;
            of.taken_before = rules.rules[..nr].iter().position(takes_all);
        }
        Fits {
            rules,
            of_rules,
            nr_excluded: vec![0; rules.exclude.len()],
        }
    }

    /// The rule that holds for a group, which a run may hold.
    fn rule_of(&mut self, group: &Candidate<'_>, is_of_run: bool) -> Option<&'a Rule> {
        let mut is_free = !is_of_run;
        for (pattern, nr) in self.rules.exclude.iter().zip(&mut self.nr_excluded) {
            if pattern.matches(group.path) {
                *nr += 1;
                is_free = false;
            }
        }
        let rules = &self.rules.rules;
        let first = rules.iter().position(|rule| rule.whom.fits(group))?;
        is_free = is_free && (rules[first].whom.is_by_name() || !group.is_vital());
        match is_free {
            true => self.of_rules[first].nr_groups += 1,
            false => self.of_rules[first].is_left_alone = true,
        }
        let after = self.of_rules.iter_mut().zip(rules).skip(first + 1);
        for (of, rule) in after {
            let is_open = of.nr_groups == 0 && of.taken_before.is_none();
            if is_open && rule.whom.fits(group) {
                match is_free {
                    true => of.taken_before = Some(first),
                    false => of.is_left_alone = true,
                }
            }
        }
        is_free.then_some(&rules[first])
    }

    /// What was counted.
    fn end(self) -> Vec<Fit> {
        let rules = self.of_rules.iter().zip(&self.rules.rules).enumerate();
        let rules = rules.map(|(index, (of, rule))| Fit {
            rule: Some(index as u64 + 1),
            whom: rule.whom.to_string(),
            nr_groups: of.nr_groups,
            why_nobody: match (of.nr_groups, of.taken_before) {
                (1.., _) => None,
                (0, Some(before)) => Some(WhyNobody::TakenBefore(before as u64 + 1)),
                (0, None) if of.is_left_alone => Some(WhyNobody::LeftAlone),
                (0, None) => Some(WhyNobody::FitsNone),
            },
        });
        let excluded = self.rules.exclude.iter().zip(&self.nr_excluded);
        let excluded = excluded.map(|(pattern, nr_groups)| Fit {
            rule: None,
            whom: format!("{:?}", pattern.as_str()),
            nr_groups: *nr_groups,
            why_nobody: (*nr_groups == 0).then_some(WhyNobody::FitsNone),
        });
        rules.chain(excluded).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(whom: Whom) -> Rule {
        Rule {
            whom,
            ..Rule::default()
        }
    }

    fn cgroup(text: &str) -> Whom {
        Whom::cgroup(text).expect("a pattern")
    }

    fn rules(whom: impl IntoIterator<Item = Whom>) -> Rules {
        Rules {
            rules: whom.into_iter().map(rule).collect(),
            ..Rules::default()
        }
    }

    #[test]
    fn the_first_rule_that_fits_holds_and_what_is_excluded_is_left_alone() {
        let unit = Whom::unit("redis*.service").expect("a pattern");
        let container = Whom::container("web*").expect("a pattern");
        let mut rules = rules([unit.clone(), container.clone(), Whom::Everybody]);
        rules
            .exclude("/system.slice/redis-2.service")
            .expect("a pattern");
        let mut fits = Fits::new(&rules);
        let mut of = |path| {
            let rule = fits.rule_of(&Candidate::new(path, &[]), false);
            rule.map(|rule| rule.whom.clone())
        };
        assert_eq!(of("/system.slice/redis-1.service"), Some(unit));
        assert_eq!(of("/system.slice/redis-2.service"), None);
        assert_eq!(of("/lxc.payload.web1"), Some(container));
        assert_eq!(of("/else"), Some(Whom::Everybody));
        let counts = |fits: Fits<'_>| -> Vec<u64> {
            let counted = fits.end().into_iter();
            counted.map(|fit| fit.nr_groups).collect()
        };
        assert_eq!(counts(fits), [1, 1, 1, 1]);
    }

    #[test]
    fn what_starts_in_a_container_came_with_the_container() {
        let container = Whom::container("web*").expect("a pattern");
        let unit = Whom::unit("web*.service").expect("a pattern");
        let levels = |name, whom: &Whom| nr_levels_up(name, whom);
        assert_eq!(
            levels("/lxc.payload.web1/system.slice/a.service", &container),
            2
        );
        assert_eq!(levels("/lxc.payload.web1", &container), 0);
        assert_eq!(levels("/system.slice/web.service/worker", &unit), 1);
        assert_eq!(levels("/agents/one", &cgroup("/agents/*")), 0);
        assert_eq!(levels("/agents/one", &Whom::Everybody), 0);
    }

    #[test]
    fn what_a_host_lives_by_is_left_alone_unless_a_rule_names_it() {
        let holds = |whom| {
            let rules = rules([whom]);
            let vital = Candidate::new("/init.scope", &[1]);
            Fits::new(&rules).rule_of(&vital, false).is_some()
        };
        assert!(!holds(Whom::Everybody));
        assert!(!holds(cgroup("/init*")));
        assert!(holds(cgroup("/init.scope")));
    }

    #[test]
    fn a_rule_or_pattern_that_nobody_goes_by_is_told_with_the_reason() {
        let whom = ["/a/*", "/nowhere", "/a/x", "/run/*", "/a/y"].map(cgroup);
        let mut rules = rules(whom.into_iter().chain([Whom::Everybody, cgroup("/later")]));
        rules.exclude("/lab/*").expect("a pattern");
        let mut fits = Fits::new(&rules);
        for (path, is_of_run) in [
            ("/a/x", false),
            ("/a/y", true),
            ("/run/1", true),
            ("/b", false),
        ] {
            fits.rule_of(&Candidate::new(path, &[]), is_of_run);
        }
        let told: Vec<_> = fits.end().into_iter().map(|fit| fit.why_nobody).collect();
        let expected = [
            None,
            Some(WhyNobody::FitsNone),
            Some(WhyNobody::TakenBefore(1)),
            Some(WhyNobody::LeftAlone),
            Some(WhyNobody::LeftAlone),
            None,
            // Whatever may come.
            Some(WhyNobody::TakenBefore(6)),
            Some(WhyNobody::FitsNone),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_rule_after_one_for_all_groups_is_told_as_such_whatever_groups_there_are() {
        for all in [Whom::Everybody, cgroup("*"), cgroup("/*")] {
            let rules = rules([cgroup("/a/*"), all, cgroup("/later")]);
            let told = Fits::new(&rules).end();
            assert_eq!(
                told[2].why_nobody,
                Some(WhyNobody::TakenBefore(2)),
                "{told:?}"
            );
        }
    }
}
