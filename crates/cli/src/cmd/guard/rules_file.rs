//! The rules file of `strata guard`: TOML in, rules out.
//!
//! **Owns** the keys, their units, and errors with line and column. **Does not own** what rules mean
//! (`strata_host::managed`).
//!
//! **Invariants** I1: a file is taken whole or not at all; keys that nothing knows are errors.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use serde::Deserialize;
use strata_host::managed::{
    CacheFirst, CpuShare, FileBudget, Free, PatternError, Promised, Rule, Rules, TierRules, Whom,
};

use strata_host::whole_file;
use strata_linux::process::launch::User;
use strata_linux::swap::SwapSpec;
use strata_linux::units::parse_size;
use toml::Spanned;

use super::values::{
    free_arg, promised_arg, promote_arg, swap_writes_arg, upper_arg, when_short_arg,
};
use crate::args::{min_age_arg, parse_percent};
use crate::cmd::park::keep_arg;
use crate::failure::UsageError;

/// Rules of any host are shorter.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The kernel's bound.
const SWAPPINESS_MAX: u8 = 200;

/// Text with its place in the file.
type Text = Spanned<String>;

/// What a file says.
#[derive(Debug, Default)]
pub(super) struct RulesFile {
    pub(super) rules: Rules,
    /// The share of all processors.
    pub(super) cpu_share: Option<f64>,
    pub(super) swap: Option<SwapSpec>,
    pub(super) history: Option<PathBuf>,
    /// Whether all is decided and nothing done.
    pub(super) is_dry_run: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    cpu: Option<Text>,
    swap: Option<Text>,
    swap_writes: Option<Text>,
    history: Option<PathBuf>,
    #[serde(default)]
    dry_run: bool,
    #[serde(default)]
    exclude: Vec<Text>,
    host: Option<Host>,
    tiers: Option<Spanned<Tiers>>,
    #[serde(default, rename = "rule")]
    rules: Vec<Spanned<Entry>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Host {
    free: Option<Text>,
    cpu_when_short: Option<Text>,
    cache_first: Option<bool>,
    cache_first_below_limits: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tiers {
    upper: Option<Text>,
    promote: Option<Text>,
    page_cache: Option<Text>,
    beside_kernel: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    path: Text,
    memory: Text,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    cgroup: Option<Text>,
    unit: Option<Text>,
    container: Option<Text>,
    process: Option<Text>,
    user: Option<Text>,
    promise: Option<Text>,
    min_age: Option<Text>,
    stall: Option<Text>,
    memory: Option<Text>,
    low: Option<Text>,
    when_short: Option<Text>,
    priority: Option<i32>,
    swappiness: Option<Spanned<u8>>,
    protect_executable: Option<bool>,
    park_after: Option<Text>,
    park_keep: Option<Text>,
    tiers: Option<bool>,
    #[serde(default, rename = "file")]
    files: Vec<File>,
}

/// What is wrong, and where.
#[derive(Debug)]
struct Wrong {
    at: Range<usize>,
    why: String,
}

/// A value, or what is wrong with its text.
fn value<T, E: ToString>(
    text: &Text,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, Wrong> {
    parse(text.as_ref()).map_err(|error| Wrong {
        at: text.span(),
        why: error.to_string(),
    })
}

fn optional<T, E: ToString>(
    text: Option<&Text>,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>, Wrong> {
    text.map(|text| value(text, parse)).transpose()
}

impl RulesFile {
    /// Reads and checks all of a file.
    ///
    /// # Errors
    /// The file can't be read; or what is wrong in it, with line and column.
    pub(super) fn read(path: &Path) -> anyhow::Result<RulesFile> {
        let text = whole_file::read_text(path, FILE_BYTES_MAX)
            .with_context(|| format!("reading the rules in {} failed", path.display()))?;
        parse(&text).map_err(|wrong| {
            let before = text.get(..wrong.at.start).unwrap_or(&text);
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
            UsageError(format!("{}:{line}:{column}: {}", path.display(), wrong.why)).into()
        })
    }
}

fn parse(text: &str) -> Result<RulesFile, Wrong> {
    let file: Whole = toml::from_str(text).map_err(|error| Wrong {
        at: error.span().unwrap_or(0..0),
        why: error.message().to_owned(),
    })?;
    let mut rules = Rules::default();
    for text in &file.exclude {
        value(text, |text| rules.exclude(text))?;
    }
    if let Some(host) = &file.host {
        rules.free = optional(host.free.as_ref(), free_arg)?.unwrap_or_default();
        let share = optional(host.cpu_when_short.as_ref(), parse_percent)?;
        rules.cpu_when_short = share.map(CpuShare).unwrap_or_default();
        let first = CacheFirst::default();
        rules.cache_first = CacheFirst {
            of_host: host.cache_first.unwrap_or(first.of_host),
            below_limits: host.cache_first_below_limits.unwrap_or(first.below_limits),
        };
    }
    let writes = optional(file.swap_writes.as_ref(), swap_writes_arg)?;
    rules.swap_writes = writes.unwrap_or_default();
    for entry in &file.rules {
        rules.rules.push(rule(entry)?);
        if let (Some(when_short), Free::Any) = (&entry.as_ref().when_short, rules.free) {
            return Err(Wrong {
                at: when_short.span(),
                why: "when_short needs a host that can be short: [host] free = \"none\" leaves memory to the kernel".to_owned(),
            });
        }
    }
    let are_tiered = rules.rules.iter().any(|rule| rule.tiers);
    rules.tiers = are_tiered.then(TierRules::default);
    if let Some(asked) = &file.tiers {
        rules.tiers = Some(tiers(asked, are_tiered)?);
    }
    if rules.rules.is_empty() {
        return Err(Wrong {
            at: 0..0,
            why: "there is no [[rule]]: nothing would be looked after".to_owned(),
        });
    }
    Ok(RulesFile {
        rules,
        cpu_share: optional(file.cpu.as_ref(), parse_percent)?,
        swap: optional(file.swap.as_ref(), str::parse)?,
        history: file.history,
        is_dry_run: file.dry_run,
    })
}

fn rule(entry: &Spanned<Entry>) -> Result<Rule, Wrong> {
    let at = entry.span();
    let entry = entry.as_ref();
    let parse_pattern = |of: fn(&str) -> Result<Whom, PatternError>| move |text: &str| of(text);
    let named = [
        optional(entry.cgroup.as_ref(), parse_pattern(Whom::cgroup))?,
        optional(entry.unit.as_ref(), parse_pattern(Whom::unit))?,
        optional(entry.container.as_ref(), parse_pattern(Whom::container))?,
        optional(entry.process.as_ref(), parse_pattern(Whom::process))?,
        optional(entry.user.as_ref(), user)?.map(Whom::User),
    ];
    let mut named = named.into_iter().flatten();
    let whom = named.next().unwrap_or(Whom::Everybody);
    if named.next().is_some() {
        let why = "one of cgroup, unit, container, process and user says which groups a rule is for; here are several";
        return Err(Wrong {
            at,
            why: why.to_owned(),
        });
    }
    let parse_size = |text: &str| parse_size(text);
    let memory_bytes = optional(entry.memory.as_ref(), parse_size)?;
    let low_bytes = optional(entry.low.as_ref(), parse_size)?.unwrap_or(0);
    if let (Some(memory_bytes), Some(low)) = (memory_bytes, &entry.low)
        && low_bytes > memory_bytes
    {
        return Err(Wrong {
            at: low.span(),
            why: "low is more than memory: a group can't keep more than it may hold".to_owned(),
        });
    }
    let is_none = |text: &Text| text.as_ref() == "none";
    let promise = entry.promise.as_ref();
    let least = Rule::default();
    let asked = match promise {
        Some(text) if is_none(text) => None,
        None if memory_bytes.is_some() => None,
        None => least.promise,
        Some(text) => Some(value(text, promised_arg)?),
    };
    if let (Some(stall), Some(Promised::Slowdown(_))) = (&entry.stall, asked) {
        return Err(Wrong {
            at: stall.span(),
            why: "stall and a promise of slowdown bound the same: the time that tasks wait for memory".to_owned(),
        });
    }
    let swappiness = entry.swappiness.as_ref();
    if let Some(number) = swappiness
        && *number.as_ref() > SWAPPINESS_MAX
    {
        return Err(Wrong {
            at: number.span(),
            why: format!(
                "swappiness is 0 (no anonymous memory) to {SWAPPINESS_MAX} (it goes first)"
            ),
        });
    }
    let min_age = optional(entry.min_age.as_ref(), min_age_arg)?;
    let park_after = optional(entry.park_after.as_ref(), min_age_arg)?;
    Ok(Rule {
        whom,
        promise: asked,
        min_age: min_age.map_or(least.min_age, Duration::from_millis),
        min_age_when_short: min_age.map_or(least.min_age_when_short, Duration::from_millis),
        stall_share: optional(entry.stall.as_ref(), parse_percent)?.unwrap_or(least.stall_share),
        memory_bytes,
        low_bytes,
        when_short: optional(entry.when_short.as_ref(), when_short_arg)?.unwrap_or_default(),
        priority: entry.priority.unwrap_or(least.priority),
        swappiness: swappiness.map(|number| *number.as_ref()),
        protects_code: entry.protect_executable.unwrap_or(least.protects_code),
        park_after: park_after.map(Duration::from_millis),
        park_keep: optional(entry.park_keep.as_ref(), keep_arg)?.unwrap_or_default(),
        tiers: entry.tiers.unwrap_or(least.tiers),
        files: entry
            .files
            .iter()
            .map(file_budget)
            .collect::<Result<_, _>>()?,
    })
}

fn tiers(asked: &Spanned<Tiers>, are_tiered: bool) -> Result<TierRules, Wrong> {
    if !are_tiered {
        return Err(Wrong {
            at: asked.span(),
            why: "no [[rule]] has tiers = true: nothing would move".to_owned(),
        });
    }
    let least = TierRules::default();
    let asked = asked.as_ref();
    let promote = optional(asked.promote.as_ref(), promote_arg)?;
    Ok(TierRules {
        upper: optional(asked.upper.as_ref(), upper_arg)?,
        promote_bytes_per_s: promote.unwrap_or(least.promote_bytes_per_s),
        page_cache: optional(asked.page_cache.as_ref(), str::parse)?.unwrap_or(least.page_cache),
        beside_kernel: asked.beside_kernel.unwrap_or(least.beside_kernel),
    })
}

fn file_budget(file: &File) -> Result<FileBudget, Wrong> {
    let memory_bytes = value(&file.memory, |text: &str| parse_size(text))?;
    value(&file.path, |text: &str| FileBudget::new(text, memory_bytes))
}

fn user(name: &str) -> Result<u32, String> {
    match User::find(name) {
        Ok(Some(user)) => Ok(user.uid),
        Ok(None) => Err(format!("there is no user {name:?}")),
        Err(error) => Err(format!("looking up the user {name:?} failed: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_host::managed::{SwapWriteBound, WhenShort};
    use strata_host::park::Keep;

    /// Why a text is refused, and at which part of it.
    fn refused(text: &str) -> (String, String) {
        let wrong = parse(text).expect_err("a wrong text");
        (wrong.why, text[wrong.at].to_owned())
    }

    #[test]
    fn rules_have_the_units_that_people_write() {
        let file = parse(
            "cpu = '1%'\ndry_run = true\nswap = 'zram:1G'\nswap_writes = '5M/s'\nhistory = 'none'\nexclude = ['/a']\n\
             [[rule]]\ncgroup = '/system.slice/*'\npromise = '1%/min'\nmin_age = '2m'\nstall = '5%'\n\
             [[rule]]\nunit = 'db.service'\nmemory = '4G'\nlow = '1G'\n\
             [[rule]]\nuser = 'root'\npromise = 'none'\n[[rule]]\npromise = 'slowdown 1%'\nwhen_short = 'freeze'\npriority = -5\nswappiness = 0\nprotect_executable = false\n\
             park_after = '10m'\npark_keep = '50M'\ntiers = true\n\
             [[rule.file]]\npath = '*.gguf'\nmemory = '4G'\n[[rule]]\n[host]\nfree = '5%'\ncpu_when_short = '25%'\ncache_first_below_limits = false\n\
             [tiers]\npromote = '10M/s'\nbeside_kernel = true\n",
        );
        let file = file.expect("rules");
        assert_eq!(file.cpu_share, Some(0.01));
        assert!(file.is_dry_run);
        assert!(matches!(file.swap, Some(SwapSpec::Zram { .. })));
        assert_eq!(file.rules.free, Free::Share(0.05));
        assert_eq!(file.rules.cpu_when_short, CpuShare(0.25));
        let writes = SwapWriteBound::BytesPerSec(5 << 20);
        assert_eq!(file.rules.swap_writes, writes);
        let rules = &file.rules.rules;
        assert_eq!(rules[0].promise, Some(Promised::ComesBack(0.01)));
        assert_eq!(rules[0].stall_share, 0.05);
        assert_eq!(rules[0].min_age, Duration::from_secs(120));
        assert_eq!(rules[1].memory_bytes, Some(4 << 30));
        assert_eq!(rules[1].low_bytes, 1 << 30);
        assert_eq!(rules[1].promise, None, "held, not promised");
        assert_eq!(rules[2].whom, Whom::User(0));
        assert_eq!(rules[2].promise, None);
        assert_eq!(rules[3].whom, Whom::Everybody);
        assert_eq!(rules[3].promise, Some(Promised::Slowdown(0.01)));
        assert_eq!(rules[3].when_short, WhenShort::Freeze);
        assert_eq!(rules[3].priority, -5);
        assert_eq!(rules[3].swappiness, Some(0));
        assert!(!rules[3].protects_code && rules[4].protects_code);
        assert_eq!(rules[3].files[0].memory_bytes, 4 << 30);
        assert_eq!(rules[3].park_after, Some(Duration::from_secs(600)));
        assert_eq!(rules[3].park_keep, Keep::Bytes(50 << 20));
        assert!(rules[3].files[0].path.matches("/models/a.gguf"));
        assert_eq!(rules[4], Rule::default());
        assert!(rules[3].tiers && !rules[2].tiers);
        let tiers = file.rules.tiers.expect("tiers");
        assert_eq!(tiers.promote_bytes_per_s, 10 << 20);
        assert!(tiers.beside_kernel && tiers.upper.is_none());
        let first = file.rules.cache_first;
        assert_eq!((first.of_host, first.below_limits), (true, false));
    }

    /// A text whose lines are parted by `;`, why it is refused, and at which part of it.
    const WRONG: &str = "\
[[rule]]; memroy = '1G' => unknown field `memroy` => memroy
[[rule]]; memory = '1X' => suffix => '1X'
[[rule]]; memory = 5 => invalid type => 5
[[rule]]; promise = '3' => a promise is => '3'
[[rule]]; promise = 'slowdown 1%'; stall = '2%' => bound the same => '2%'
[[rule]]; min_age = '1s' => at least 5 s => '1s'
[[rule]]; park_after = '10m'; park_keep = 'some' => working-set => 'some'
[[rule]]; cgroup = 'a[' => invalid pattern => 'a['
[[rule]]; user = 'nobody-of-this-name' => nobody-of-this-name => 'nobody-of-this-name'
[[rule]]; memory = '1G'; low = '2G' => low is more => '2G'
[[rule]]; [[rule.file]]; path = '*.gguf' => missing field `memory` => [[rule.file]]
[[rule]]; [[rule.file]]; path = 'a['; memory = '1G' => invalid pattern => 'a['
cpu = '200%'; [[rule]] => a percentage => '200%'
[[rule]]; when_short = 'stop'; [host]; free = '5%' => freeze, freeze-newest or kill => 'stop'
[[rule]]; when_short = 'kill'; [host]; free = 'none' => leaves memory to the kernel => 'kill'
swap_writes = '5M'; [[rule]] => for example 10M/s => '5M'
swap = 'tape'; [[rule]] => the kind is unknown => 'tape'
[[rule]]; unit = 'a'; user = 'root' => here are several => [[rule]]; unit = 'a'; user = 'root'
[tiers]; upper = '1000'; [[rule]]; tiers = true => no memory node 1000 => '1000'
[tiers]; promote = '1G'; [[rule]]; tiers = true => for example 64M/s => '1G'
[tiers]; [[rule]] => nothing would move => [tiers]
cpu = '2%' => there is no [[rule]]
[[rule";

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for line in WRONG.lines() {
            let mut parts = line.split(" => ");
            let [text, why, part] = std::array::from_fn(|_| parts.next().unwrap_or_default());
            let (told, at) = refused(&text.replace("; ", "\n"));
            assert!(told.contains(why), "{line}: {told}");
            let at = at.replace('\n', "; ");
            assert!(
                part.is_empty() || part.starts_with(&at) || at == part,
                "{line}: {at}"
            );
        }
    }

    #[test]
    fn a_file_that_is_refused_is_named_with_line_and_column() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("guard.toml");
        std::fs::write(&path, "cpu = '2%'\n[[rule]]\nlow = 'x'\n").expect("a file");
        let error = RulesFile::read(&path).expect_err("wrong");
        assert!(error.to_string().contains("guard.toml:3:7: "), "{error}");
    }
}
