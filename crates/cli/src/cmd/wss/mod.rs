//! `strata wss`: how much memory a running program needs, and what lies idle.
//!
//! **Owns** the options, the pace of the walks and where the output goes. **Does not own** the walks
//! and figures (`strata_host::observe`), nor the text (`text`).

mod text;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use strata_host::observe::cache::GroupCache;
use strata_host::observe::ledger::{AgedPages, WatchCost, WatchedAges, WorkingSetReport};
use strata_host::observe::{Observer, Subject};
use strata_linux::access::AccessChoice;
use strata_linux::hold_up::HoldUps;
use strata_linux::process::Process;

use crate::args::{Format, INTERVAL_MIN, access_arg, at_least, parse_percent};
use crate::cmd::html;
use crate::cmd::report_file::ReportFile;
use crate::failure::UsageError;
use crate::interrupt::Interrupt;
use crate::print;
use crate::progress::Bar;
use crate::target::Target;

/// Windows unless others are asked for; those longer than the watch are left out.
const WINDOWS_MS: [u64; 3] = [1_000, 10_000, 60_000];

/// Shows how much memory a running program needs, and how long the rest has not been touched
///
/// Walks the page tables of a process, of a process with its children, or of all processes of a
/// cgroup, again and again, and remembers for each page when it was last found used. At the end strata wss
/// tells how much memory was used within the last 1, 10 and 60 seconds, and how long the rest has lain
/// idle: in all, of anonymous memory and files, and of each mapping. Ctrl-C ends the watch early, with what
/// was learnt so far.
///
/// A page counts as used if its accessed bit was set between two walks. A page that several of the
/// processes map counts once. Memory of KVM guests, and pages whose accessed bits can't be cleared, are told as unknown. Of a cgroup, page cache that nobody has mapped is told as well: censuses of physical memory find what was
/// read through file descriptors.
///
/// WATCHING IS NOT FREE OF EFFECT. To tell whether a page is used again, each walk clears the
/// accessed bits of the pages it found used. The kernel looks at the same bits when it looks for
/// pages to reclaim, so while a process is watched the kernel takes its pages for idler than they are
/// and, if memory is short, is likelier to evict them. No page is evicted or changed by watching
/// itself. The longer the interval, the less the kernel is misled.
///
/// Each call that holds a program up is sized to end within 2 ms, and clearing takes at most about 0.5 % of
/// the time of each process. So a very large program is walked less often than asked for.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  A minute's watch of process 4242:
      strata wss --pid 4242

  A service with all its workers, for ten minutes, with a page of pictures:
      strata wss --tree 4242 --for 10m --html wss.html

  A cgroup, for a script (docs/reference/observe.md names the fields):
      strata wss --cgroup /sys/fs/cgroup/system.slice/app.service --window 5s --format json")]
pub(crate) struct WssArgs {
    #[command(flatten)]
    target: Target,

    /// Lengths of time of which the working set is told, with commas between them
    ///
    /// Each window is a number with a unit ms, s, m or h, and at least the interval. The default is 1s,10s,60s, without
    /// windows longer than the watch.
    #[arg(
        short,
        long,
        value_name = "DURATION",
        value_delimiter = ',',
        value_parser = at_least(INTERVAL_MIN),
        allow_hyphen_values = true
    )]
    window: Vec<u64>,

    /// How long to watch: the longest window by default
    ///
    /// Memory that is used more rarely than once in the watch looks idle, so the rarer the work, the longer the watch.
    #[arg(
        long = "for",
        value_name = "DURATION",
        value_parser = at_least(INTERVAL_MIN),
        allow_hyphen_values = true
    )]
    length: Option<u64>,

    /// Time between two walks: the shortest window by default
    ///
    /// At least 10ms and at most the shortest window.
    #[arg(
        short,
        long,
        value_name = "DURATION",
        value_parser = at_least(INTERVAL_MIN),
        allow_hyphen_values = true
    )]
    interval: Option<u64>,

    /// Reset the kernel's count of reads of this share of the cgroup's pages whose count is full, to learn how many of them are
    /// still read, for example 2% or 100%
    ///
    /// The kernel counts reads of a page of page cache up to three (where it keeps generations: five), so reads of a page whose
    /// count is full don't show. Those of a page whose count was reset do. From these pages the answer estimates how many of the
    /// others are read. The kernel takes a page whose count was reset sooner than others, until it has been read as often again.
    /// This works for files on ext4 and xfs, for pages that are neither mapped, dirty nor locked, and before Linux 6.10 not for
    /// large folios.
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, allow_hyphen_values = true, requires = "cgroup")]
    reset_counts: Option<f64>,

    /// How accesses are seen
    #[arg(long, value_parser = access_arg(), value_name = "SOURCE", default_value = "auto")]
    access: AccessChoice,

    /// How the figures are printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,

    /// Say what the way in which accesses are seen does not show
    #[arg(short, long)]
    verbose: bool,

    /// Make a page of the figures, as strata html does
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// When to walk and what to tell, from options that agree with each other.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    windows: Vec<Duration>,
    length: Duration,
    interval: Duration,
}

impl Plan {
    fn try_new(
        windows_ms: &[u64],
        length_ms: Option<u64>,
        interval_ms: Option<u64>,
    ) -> Result<Plan, UsageError> {
        let mut windows_ms = match windows_ms {
            [] => {
                let fits =
                    |window_ms: &u64| length_ms.is_none_or(|length_ms| *window_ms <= length_ms);
                let fitting: Vec<u64> = WINDOWS_MS.into_iter().filter(fits).collect();
                match length_ms {
                    Some(length_ms) if fitting.is_empty() => vec![length_ms],
                    _ => fitting,
                }
            }
            asked => asked.to_vec(),
        };
        windows_ms.sort_unstable();
        windows_ms.dedup();
        let shortest_ms = windows_ms.first().copied().unwrap_or_default();
        let longest_ms = windows_ms.last().copied().unwrap_or_default();
        let length_ms = length_ms.unwrap_or(longest_ms);
        let interval_ms = interval_ms.unwrap_or(shortest_ms);
        if length_ms < longest_ms {
            return Err(UsageError(format!(
                "--for {length_ms}ms is shorter than the window {longest_ms}ms: watch at least as \
                 long as the longest window"
            )));
        }
        if interval_ms > shortest_ms {
            return Err(UsageError(format!(
                "--interval {interval_ms}ms is longer than the window {shortest_ms}ms: what was \
                 used within a window shows only if there are walks within it"
            )));
        }
        Ok(Plan {
            windows: windows_ms.into_iter().map(Duration::from_millis).collect(),
            length: Duration::from_millis(length_ms),
            interval: Duration::from_millis(interval_ms),
        })
    }
}

impl Plan {
    /// When the next walk after `now` is due. By the clock and not by the last walk, so that walks that come late
    /// don't add up; those that were missed are left out.
    fn next_walk(&self, first_at: Duration, now: Duration) -> Duration {
        let end = first_at + self.length;
        let nr_done = now.saturating_sub(first_at).as_nanos() / self.interval.as_nanos().max(1);
        let nr_next = u32::try_from(nr_done + 1).unwrap_or(u32::MAX);
        let next = first_at + self.interval.saturating_mul(nr_next);
        // The last interval may be longer by a half, never shorter.
        if next + self.interval / 2 > end {
            end
        } else {
            next
        }
    }
}

/// Watches, then prints.
pub(crate) fn run(args: &WssArgs) -> anyhow::Result<ExitCode> {
    let subject = args.target.subject()?;
    let plan = Plan::try_new(&args.window, args.length, args.interval)?;
    let page = args.html.clone().map(ReportFile::try_place).transpose()?;
    let mut observer = Observer::open(&subject, args.access)?;
    let source = observer.info();
    if args.verbose {
        print::limits(&source);
    }
    // Before the watch: afterwards it may be gone.
    let name_of = |pid| {
        Process::open(pid)
            .ok()
            .map(|process| process.comm().to_owned())
    };
    let target = text::target(&subject, name_of);
    let cache = match &subject {
        Subject::Cgroup(path) => Some(GroupCache::start(
            path,
            &plan.windows,
            args.reset_counts.unwrap_or_default(),
        )?),
        _ => None,
    };
    let (watched, cost) = watch(&mut observer, &plan)?;
    let mut report =
        WorkingSetReport::new(target, source, plan.interval, &watched, &plan.windows, cost);
    match cache.map(GroupCache::finish) {
        None => {}
        Some(Ok(cache)) => {
            if let Some(trouble) = cache.resets.and_then(|resets| resets.trouble()) {
                print::warning(&trouble);
            }
            report.set_cache(cache);
        }
        Some(Err(error)) => print::note(&format!("page cache is not told: {error}")),
    }
    print::answer(args.format, &report, || text::report(&report))?;
    if let Some(page) = page {
        page.write_text(&html::of_report(&report.target, &report)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Walks at the beginning, at every interval and at the end; ends early at Ctrl-C and when the target
/// has ended.
fn watch(observer: &mut Observer, plan: &Plan) -> anyhow::Result<(WatchedAges, WatchCost)> {
    let interrupt = Interrupt::install()?;
    let mut pages = AgedPages::new();
    let mut cost = WatchCost::default();
    let mut last = WatchedAges::default();
    let mut first_at = None;
    let _told = Bar::watch("watching", plan.length);
    loop {
        if first_at.is_some_and(|first_at| observer.elapsed() >= first_at + plan.length) {
            observer.set_last();
        }
        let walked = pages.observe(observer);
        for trouble in &walked.troubles {
            print::warning(trouble);
        }
        // The pages of who has ended are gone: what was known of them a walk ago is the answer.
        if observer.is_over() {
            print::note(&"the target has ended");
            break;
        }
        cost.add(&walked);
        cost.stamps_bytes = pages.ledger().footprint_bytes();
        cost.hold_up = HoldUps::so_far().report(observer.elapsed());
        last = pages.ages();
        let first_at = *first_at.get_or_insert(walked.at);
        if walked.at >= first_at + plan.length || interrupt.has_come() {
            break;
        }
        let now = observer.elapsed();
        let next = plan.next_walk(first_at, now + observer.rest());
        let rest = next.saturating_sub(observer.elapsed());
        interrupt.nap_until(Instant::now() + rest, || observer.is_over());
    }
    anyhow::ensure!(
        last.watched > Duration::ZERO,
        "nothing was learnt: the watch ended before its second walk; choose a shorter --interval"
    );
    Ok((last, cost))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(windows: &[u64], length: Option<u64>, interval: Option<u64>) -> [Vec<u128>; 2] {
        let plan = Plan::try_new(windows, length, interval).unwrap();
        let windows = plan.windows.iter().map(Duration::as_millis).collect();
        [
            windows,
            vec![plan.length.as_millis(), plan.interval.as_millis()],
        ]
    }

    #[test]
    fn what_is_not_said_follows_from_what_is() {
        assert_eq!(
            plan(&[], None, None),
            [vec![1000, 10_000, 60_000], vec![60_000, 1000]]
        );
        assert_eq!(
            plan(&[], Some(15_000), None),
            [vec![1000, 10_000], vec![15_000, 1000]]
        );
        assert_eq!(plan(&[], Some(300), None), [vec![300], vec![300, 300]]);
        assert_eq!(
            plan(&[500, 200, 500], None, None),
            [vec![200, 500], vec![500, 200]]
        );
        assert_eq!(
            plan(&[500], Some(900), Some(50)),
            [vec![500], vec![900, 50]]
        );
    }

    #[test]
    fn walks_keep_to_the_clock_and_the_last_is_at_the_end() {
        let plan = Plan::try_new(&[1000], Some(2600), None).unwrap();
        let at = Duration::from_millis;
        let next = |now| plan.next_walk(at(500), at(now)).as_millis();
        assert_eq!([500, 1499, 1500, 1507].map(next), [1500, 1500, 2500, 2500]);
        // A walk half an interval before the end is left out, as is every one that was missed.
        assert_eq!([2500, 2900, 9000].map(next), [3100, 3100, 3100]);
        let late = Plan::try_new(&[1000], Some(10_000), None).unwrap();
        assert_eq!(late.next_walk(at(0), at(4200)), at(5000));
    }
}
