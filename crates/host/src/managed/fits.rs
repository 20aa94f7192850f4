//! What rules and patterns fit, of the groups that are there: a rule that holds for nobody is told, with the reason.
//!
//! **Owns** the words. **Does not own** the counting (`choice`).

use crate::news::News;
use std::fmt;

/// Why nobody goes by a rule or a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhyNobody {
    /// No group fits in which a process is.
    FitsNone,
    /// The rule of this number, from 1, or one after it, takes all that fits.
    TakenBefore(u64),
    /// What fits is excluded, a run's, or what the host lives by.
    LeftAlone,
}

/// How many groups go by a rule or a pattern.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Fit {
    /// The rule's number, from 1; `None`: it is a pattern of what is excluded.
    pub rule: Option<u64>,
    /// For whom the rule is, or that pattern.
    pub whom: String,
    /// Groups that the rule holds for, or that are excluded.
    pub nr_groups: u64,
    /// Why there are none.
    pub why_nobody: Option<WhyNobody>,
}

impl fmt::Display for Fit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.rule {
            Some(nr) => format!("rule {nr} ({})", self.whom),
            None => format!("exclude {}", self.whom),
        };
        match (self.why_nobody, self.nr_groups) {
            (None, 1) => write!(f, "{what}: 1 group"),
            (None, nr_groups) => write!(f, "{what}: {nr_groups} groups"),
            (Some(WhyNobody::FitsNone), _) => {
                write!(f, "{what}: no group, as none fits in which a process is")
            }
            (Some(WhyNobody::TakenBefore(nr)), _) => {
                write!(
                    f,
                    "{what}: no group, as rule {nr} comes before it and takes them"
                )
            }
            (Some(WhyNobody::LeftAlone), _) => write!(
                f,
                "{what}: no group, as what fits is excluded, a run's, or what the host lives by"
            ),
        }
    }
}

/// How many groups go by each rule as of the last walk, and what people were told of that.
#[derive(Debug, Default)]
pub(super) struct Fits {
    pub(super) all: Vec<Fit>,
    is_told: bool,
    told: Vec<News>,
}

impl Fits {
    /// Other rules hold.
    pub(super) fn forget(&mut self) {
        (self.all, self.is_told) = (Vec::new(), false);
    }

    /// What is to be told once of these rules, and was not told of the rules before.
    pub(super) fn news(&mut self) -> Vec<News> {
        if self.all.is_empty() || std::mem::replace(&mut self.is_told, true) {
            return Vec::new();
        }
        let told = news(&self.all);
        let is_new = |one: &&News| !self.told.contains(one);
        let new = told.iter().filter(is_new).cloned().collect();
        self.told = told;
        new
    }
}

/// What people are told of rules and patterns that nobody goes by. Groups may come; but where all are looked after by
/// other rules, or nobody is looked after at all, that is hardly meant.
fn news(fits: &[Fit]) -> Vec<News> {
    let idle = fits.iter().filter(|fit| fit.why_nobody.is_some());
    let tell = |fit: &Fit| match fit.why_nobody {
        Some(WhyNobody::TakenBefore(_)) => News::Warning(fit.to_string()),
        _ => News::Note(fit.to_string()),
    };
    let mut news: Vec<News> = idle.map(tell).collect();
    if fits
        .iter()
        .all(|fit| fit.rule.is_none() || fit.nr_groups == 0)
    {
        let why = "no group goes by any rule: nothing is looked after until one comes";
        news.push(News::Warning(why.to_owned()));
    }
    news
}
