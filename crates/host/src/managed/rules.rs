//! Rules: which groups are looked after, and what holds for each.
//!
//! ```text
//!   the first rule that fits a group holds for it; a group that none fits is left alone
//!   left alone whatever a rule says: groups that are excluded, that a run holds, and that the host lives by
//!   (pid 1, sshd, Strata), unless a rule without a wildcard names them
//! ```
//!
//! **Owns** rules and what they fit. **Does not own** how people write them (the command line), nor what follows.

use super::promised::{Promised, promise_of};
use super::writes::SwapWriteBound;
use crate::observe::programs::Label;
use crate::park::Keep;
use glob::Pattern;
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;
use strata_control::last_resort::WhenShort;
use strata_control::promise::{Promise, STALL_SHARE, walk_interval};
use strata_control::shortage::Free;
use strata_linux::cgroup::mount_point;
use strata_lru::PromotionStrategy;

/// What comes up a second where nothing is said: a sixteenth of what the slowest memory behind CXL can read.
const PROMOTE_BYTES_PER_S: u64 = 64 << 20;
/// Where the host is short, what was accessed within so long stays, unless a rule says another age.
const MIN_AGE_WHEN_SHORT: Duration = Duration::from_secs(10);

/// A pattern that can't be understood.
#[derive(Debug, thiserror::Error)]
#[error("invalid pattern {text:?}: {source}; for example {example}")]
pub struct PatternError {
    text: String,
    source: glob::PatternError,
    example: &'static str,
}

/// Which groups a rule is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// All.
    Everybody,
    /// Whose path below the mount fits.
    Cgroup(Pattern),
    /// In whose systemd unit they are.
    Unit(Pattern),
    /// In whose container they are.
    Container(Pattern),
    /// In which a process of this name runs.
    Process(Pattern),
    /// In which a process of this user runs.
    User(u32),
}

impl Whom {
    /// Groups by path: below the mount, with or without a slash before it, or with the mount.
    ///
    /// # Errors
    /// [`PatternError`].
    pub fn cgroup(text: &str) -> Result<Whom, PatternError> {
        path_pattern(text).map(Whom::Cgroup)
    }

    /// The group of this path, whatever characters are in it.
    ///
    /// # Errors
    /// [`PatternError`].
    pub fn cgroup_at(path: &str) -> Result<Whom, PatternError> {
        pattern(path, &Pattern::escape(path), "/").map(Whom::Cgroup)
    }

    /// Groups by the unit that they are.
    ///
    /// # Errors
    /// [`PatternError`].
    pub fn unit(text: &str) -> Result<Whom, PatternError> {
        pattern(text, text, "redis*.service").map(Whom::Unit)
    }

    /// Groups by the container that they are.
    ///
    /// # Errors
    /// [`PatternError`].
    pub fn container(text: &str) -> Result<Whom, PatternError> {
        pattern(text, text, "web-*").map(Whom::Container)
    }

    /// Groups by a process in them.
    ///
    /// # Errors
    /// [`PatternError`].
    pub fn process(text: &str) -> Result<Whom, PatternError> {
        pattern(text, text, "java").map(Whom::Process)
    }

    /// Whether the rule is for every group there may be.
    pub(super) fn is_everybody(&self) -> bool {
        match self {
            Whom::Everybody => true,
            Whom::Cgroup(pattern) => matches!(pattern.as_str(), "*" | "/*"),
            _ => false,
        }
    }

    /// Whether the rule names its groups without a wildcard.
    pub(super) fn is_by_name(&self) -> bool {
        let has_none = |pattern: &Pattern| !pattern.as_str().contains(['*', '?', '[']);
        match self {
            Whom::Cgroup(pattern)
            | Whom::Unit(pattern)
            | Whom::Container(pattern)
            | Whom::Process(pattern) => has_none(pattern),
            Whom::Everybody | Whom::User(_) => false,
        }
    }

    pub(super) fn fits(&self, group: &Candidate<'_>) -> bool {
        let label = || Label::of(group.path);
        match self {
            Whom::Everybody => true,
            Whom::Cgroup(pattern) => pattern.matches(group.path),
            Whom::Unit(pattern) => label().unit.is_some_and(|unit| pattern.matches(&unit)),
            Whom::Container(pattern) => {
                let container = label().container;
                container.is_some_and(|name| pattern.matches(&name))
            }
            Whom::Process(pattern) => {
                let mut members = group.members().iter();
                members.any(|(name, _)| pattern.matches(name))
            }
            Whom::User(user) => group.members().iter().any(|(_, owner)| owner == user),
        }
    }
}

impl fmt::Display for Whom {
    /// As rules write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Whom::Everybody => f.write_str("all groups"),
            Whom::Cgroup(pattern) => write!(f, "cgroup {:?}", pattern.as_str()),
            Whom::Unit(pattern) => write!(f, "unit {:?}", pattern.as_str()),
            Whom::Container(pattern) => write!(f, "container {:?}", pattern.as_str()),
            Whom::Process(pattern) => write!(f, "process {:?}", pattern.as_str()),
            Whom::User(user) => write!(f, "user {user}"),
        }
    }
}

/// What holds for the groups that it fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Which groups.
    pub whom: Whom,
    /// What is promised; `None`: nothing is taken for being idle.
    pub promise: Option<Promised>,
    /// Memory is never idle that was accessed within so long.
    pub min_age: Duration,
    /// What was accessed within so long is never idle, not even where the host is short of memory.
    pub min_age_when_short: Duration,
    /// The share of time that tasks may wait for memory, where the kernel tells.
    pub stall_share: f64,
    /// What a group may hold: what it holds beyond is taken, the oldest first, promise or not.
    pub memory_bytes: Option<u64>,
    /// What is left to a group in any case.
    pub low_bytes: u64,
    /// What may be done with the whole group where the host stays short of memory.
    pub when_short: WhenShort,
    /// Groups of a higher one survive longer.
    pub priority: i32,
    /// How anonymous memory is weighed against files, 0 to 200; `None`: by what of either comes back.
    pub swappiness: Option<u8>,
    /// Code that is idle stays for twice as long as the rest.
    pub protects_code: bool,
    /// What pages of files may take that its processes map.
    pub files: Vec<FileBudget>,
    /// A group that was idle for so long is parked, promise or not.
    pub park_after: Option<Duration>,
    /// What stays of it then, and where it rests and the host is short.
    pub park_keep: Keep,
    /// What is idle goes to slower memory before it goes to swap, and comes up when it is used.
    pub tiers: bool,
}

/// What some files may take of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileBudget {
    /// Which files, by path.
    pub path: Pattern,
    /// What their pages may take together that processes of the group map.
    pub memory_bytes: u64,
}

impl FileBudget {
    /// For files whose path, or whose name where the text has no slash, fits a pattern.
    ///
    /// # Errors
    /// [`PatternError`].
    pub fn new(text: &str, memory_bytes: u64) -> Result<FileBudget, PatternError> {
        let anywhere = format!("**/{text}");
        let path = if text.contains('/') { text } else { &anywhere };
        let path = pattern(text, path, "/models/*.gguf")?;
        Ok(FileBudget { path, memory_bytes })
    }
}

/// What rules say of memory nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierRules {
    /// Nodes with fast memory, by the kernel's numbers; `None`: as the kernel says.
    pub upper: Option<BTreeSet<u32>>,
    /// What may come up a second.
    pub promote_bytes_per_s: u64,
    /// Which page cache comes up that nobody maps.
    pub page_cache: PromotionStrategy,
    /// Used pages of programs come up even where the kernel does that itself.
    pub beside_kernel: bool,
}

impl Default for TierRules {
    fn default() -> TierRules {
        TierRules {
            upper: None,
            promote_bytes_per_s: PROMOTE_BYTES_PER_S,
            // What needs one of the two youngest generations hardly ever fits a page that is only read.
            page_cache: PromotionStrategy::Refs,
            beside_kernel: false,
        }
    }
}

/// Whether page cache that nobody maps goes before pages of programs where memory is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheFirst {
    /// Where the host is.
    pub of_host: bool,
    /// Where a group is close to a limit, of its own or of one above it.
    pub below_limits: bool,
}

impl Default for CacheFirst {
    /// It does.
    fn default() -> CacheFirst {
        CacheFirst {
            of_host: true,
            below_limits: true,
        }
    }
}

impl Rule {
    /// What it promises of a group of so many pages, of which each takes so long to be read back.
    pub(super) fn promise_of(&self, nr_footprint_pages: u64, read: Option<Duration>) -> Promise {
        // Nothing may come back where nothing is taken for being idle.
        let none = Promise {
            share_per_min: 0.0,
            min_age: self.min_age,
            stall_share: self.stall_share,
        };
        promise_of(self.promise, none, nr_footprint_pages, read)
    }
}

impl Default for Rule {
    /// For everybody, 0.2 % a minute of what was not used for a minute.
    fn default() -> Rule {
        Rule {
            whom: Whom::Everybody,
            promise: Some(Promised::ComesBack(0.002)),
            min_age: Duration::from_secs(60),
            min_age_when_short: MIN_AGE_WHEN_SHORT,
            stall_share: STALL_SHARE,
            memory_bytes: None,
            low_bytes: 0,
            when_short: WhenShort::None,
            priority: 0,
            swappiness: None,
            protects_code: true,
            files: Vec::new(),
            park_after: None,
            park_keep: Keep::Nothing,
            tiers: false,
        }
    }
}

/// A share of all processors: 0.5 for a half.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuShare(pub f64);

impl Default for CpuShare {
    /// A half, which the kernel's reclaim would take as well.
    fn default() -> CpuShare {
        CpuShare(0.5)
    }
}

/// All rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// In order: the first that fits holds.
    pub rules: Vec<Rule>,
    /// Groups that are left alone.
    pub exclude: Vec<Pattern>,
    /// With less available the host is short: what is idle goes, promise or not.
    pub free: Free,
    /// The share of all processors that the guard may use while the host is short or will be soon.
    pub cpu_when_short: CpuShare,
    /// How much is written to swap a second.
    pub swap_writes: SwapWriteBound,
    /// What goes first where memory is short.
    pub cache_first: CacheFirst,
    /// Memory nodes; `None`: nobody asks where pages are.
    pub tiers: Option<TierRules>,
}

/// A group that rules are asked about.
#[derive(Debug)]
pub(super) struct Candidate<'a> {
    pub(super) path: &'a str,
    pids: &'a [i32],
    /// Read once, by the first who asks.
    members: OnceCell<Vec<(String, u32)>>,
}

impl<'a> Candidate<'a> {
    pub(super) fn new(path: &'a str, pids: &'a [i32]) -> Candidate<'a> {
        Candidate {
            path,
            pids,
            members: OnceCell::new(),
        }
    }

    /// Names and owners of its processes.
    fn members(&self) -> &[(String, u32)] {
        let read = |pid: &i32| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
            let owner = std::fs::metadata(format!("/proc/{pid}")).ok()?;
            let owner = std::os::unix::fs::MetadataExt::uid(&owner);
            Some((name.trim_end().to_owned(), owner))
        };
        self.members
            .get_or_init(|| self.pids.iter().filter_map(read).collect())
    }

    /// Whether the host lives by it.
    pub(super) fn is_vital(&self) -> bool {
        let own = std::process::id();
        let is_own = |pid: &i32| *pid == 1 || u32::try_from(*pid) == Ok(own);
        self.pids.iter().any(is_own)
            || self
                .members()
                .iter()
                .any(|(name, _)| name.starts_with("sshd"))
    }

    /// Whether the group is being made: a container's runtime, or systemd, has not executed its command yet. Whoever waits for the start of a
    /// group that is stopped meanwhile takes it for failed.
    pub(super) fn is_starting(&self) -> bool {
        let of_starter =
            |name: &str| name.starts_with("runc:[") || name == "crun" || name.starts_with('(');
        self.members().iter().any(|(name, _)| of_starter(name))
    }
}

impl Rules {
    /// One rule for groups by patterns of their paths, or for all without any.
    ///
    /// # Errors
    /// [`PatternError`].
    pub fn for_cgroups(patterns: &[String], rule: &Rule) -> Result<Rules, PatternError> {
        let mut whom: Vec<Whom> = Vec::new();
        for text in patterns {
            whom.push(Whom::cgroup(text)?);
        }
        if whom.is_empty() {
            whom.push(Whom::Everybody);
        }
        let of = |whom| Rule {
            whom,
            ..rule.clone()
        };
        Ok(Rules {
            rules: whom.into_iter().map(of).collect(),
            ..Rules::default()
        })
    }

    /// Leaves groups alone by their path.
    ///
    /// # Errors
    /// [`PatternError`].
    pub fn exclude(&mut self, text: &str) -> Result<(), PatternError> {
        self.exclude.push(path_pattern(text)?);
        Ok(())
    }

    /// Whether any group has a promise by time.
    pub(super) fn have_promise_by_time(&self) -> bool {
        let is_by_time = |rule: &Rule| matches!(rule.promise, Some(Promised::Slowdown(_)));
        self.rules.iter().any(is_by_time)
    }

    /// Whether any group waits behind others that wait for memory.
    pub(super) fn have_queue(&self) -> bool {
        let queues = |rule: &Rule| rule.when_short == WhenShort::FreezeNewest;
        self.rules.iter().any(queues)
    }

    /// Time between two walks where they cost little.
    pub(super) fn walk_interval(&self) -> Duration {
        walk_interval(self.min_age())
    }

    /// The least age that any rule has: walks have to tell that apart.
    pub(super) fn min_age(&self) -> Duration {
        let ages = self.rules.iter().map(|rule| rule.min_age);
        ages.min().unwrap_or(Duration::from_secs(60))
    }
}

fn path_pattern(text: &str) -> Result<Pattern, PatternError> {
    pattern(text, &below_mount(text), "/system.slice/*")
}

/// A path below the mount, or a pattern of such paths, as people write it: without the slash, or with the mount before it.
/// A wildcard at its beginning stands for the slash, too: `*/x` is also `/x`.
pub(super) fn below_mount(text: &str) -> String {
    let mount = mount_point().ok();
    let rest = mount.and_then(|mount| text.strip_prefix(mount.to_str()?));
    let is_whole = |rest: &&str| rest.is_empty() || rest.starts_with('/');
    let path = rest.filter(is_whole).unwrap_or(text).trim_end_matches('/');
    match path.starts_with('*') {
        true => path.to_owned(),
        false => format!("/{}", path.trim_start_matches('/')),
    }
}

fn pattern(text: &str, pattern: &str, example: &'static str) -> Result<Pattern, PatternError> {
    Pattern::new(pattern).map_err(|source| PatternError {
        text: text.to_owned(),
        source,
        example,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(text: &str, path: &str) -> bool {
        let whom = Whom::cgroup(text).expect("a pattern");
        whom.fits(&Candidate::new(path, &[]))
    }

    #[test]
    fn a_group_is_starting_until_its_command_is_executed() {
        let folder = tempfile::tempdir().expect("a folder");
        let is_starting = |name: &str| {
            let program = folder.path().join(name);
            // By another program: a file that this one has open for writing may be so in a child of another test.
            let copied = std::process::Command::new("cp")
                .arg("/bin/sleep")
                .arg(&program)
                .status();
            assert!(copied.expect("runs").success());
            let mut sleeps = std::process::Command::new(&program)
                .arg("60")
                .spawn()
                .expect("runs");
            let pids = [sleeps.id() as i32];
            // The kernel names it a moment after it has begun.
            let comm = format!("/proc/{}/comm", sleeps.id());
            let is_named = || std::fs::read_to_string(&comm).is_ok_and(|of| of.trim_end() == name);
            let mut nr_looks = 0;
            while !is_named() && nr_looks < 1000 {
                nr_looks += 1;
                std::thread::sleep(Duration::from_millis(10));
            }
            let found = Candidate::new("/x", &pids).is_starting();
            sleeps.kill().expect("ended");
            sleeps.wait().expect("ended");
            found
        };
        assert!(is_starting("(late)") && is_starting("runc:[2:INIT]"));
        assert!(!is_starting("sleep"));
    }

    #[test]
    fn a_pattern_means_a_path_below_the_mount_whether_slash_and_mount_are_before_it_or_not() {
        let mount =
            mount_point().map_or_else(|_| String::new(), |mount| mount.display().to_string());
        for text in [
            "/system.slice/*",
            "system.slice/*",
            &format!("{mount}/system.slice/*"),
        ] {
            assert!(fits(text, "/system.slice/redis.service"), "{text}");
            assert!(!fits(text, "/user.slice/redis.service"), "{text}");
        }
        for text in ["*/x", "x", "/x/", "*", &format!("{mount}/x")] {
            assert!(fits(text, "/x"), "{text}");
        }
        assert!(fits("*/x", "/a/b/x") && !fits("*/x", "/ax") && fits("/", "/"));
        let error = Whom::cgroup("a[").expect_err("no pattern");
        assert!(error.to_string().contains("\"a[\""), "{error}");
    }

    #[test]
    fn a_group_that_is_named_by_its_path_is_that_one_alone() {
        let path = "/user.slice/app-a\\x2db@[1]*.scope/strata-7";
        let Ok(Whom::Cgroup(pattern)) = Whom::cgroup_at(path) else {
            panic!("a pattern");
        };
        assert!(pattern.matches(path));
        assert!(!pattern.matches("/user.slice/app-a\\x2db@1-other.scope/strata-7"));
    }

    #[test]
    fn groups_are_found_by_a_process_in_them_and_by_its_user() {
        let own = [i32::try_from(std::process::id()).expect("a pid")];
        let group = Candidate::new("/a", &own);
        let (name, user) = group.members().first().cloned().expect("this process");
        assert!(Whom::process(&name).expect("a pattern").fits(&group));
        assert!(!Whom::process("x").expect("a pattern").fits(&group));
        assert!(Whom::User(user).fits(&group));
        assert!(!Whom::User(user + 1).fits(&group));
    }
}
