//! `strata lru-gen`: the generations of a live process or group, in the kernel's text.
//!
//! **Owns** where they are read (walks of our own, a running `strata run`), the pace, and the
//! two forms of the output. **Does not own** the walks or the kernel's text format.

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use clap::{ArgGroup, Args};
use serde_json::json;
use strata_host::remote::{Connection, Form, Request, Running};
use strata_host::run::{RunError, Watcher};
use strata_linux::access::{AccessChoice, AccessError};
use strata_lru::GroupView;

use crate::args::{Format, INTERVAL_MIN, access_arg, at_least, id_arg, parse_pid};
use crate::failure::refuse;
use crate::print;

/// Between two walks unless asked otherwise.
const INTERVAL_MS: u64 = 1000;

/// Shows how old the pages of a running process, a cgroup or a strata run are
///
/// Prints how many pages are in each generation, in the kernel's own text format
/// (/sys/kernel/debug/lru_gen):
///
///     memcg  1 /pid/4242
///      node     0
///               4      10021       2310        120
///               5       5009        450         80
///
/// The line of a generation holds its number, its age in milliseconds, its anonymous pages and its file
/// pages. The last line is the youngest generation. A walk reads the page tables of all processes; a page is
/// in the generation of the walk that last found it used.
///
/// With --pid or --cgroup a walk is made at every interval.
///
/// With neither of these the generations of a running strata run are printed once; nothing is walked.
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
#[command(
    verbatim_doc_comment,
    group = ArgGroup::new("whom").multiple(false).args(["pid", "cgroup", "id"]),
    after_long_help = "\
EXAMPLES
  Once, with ages that span five seconds:
      strata lru-gen --pid 4242 --once --interval 5s

  Every second, one JSON object a line, until the process ends or Ctrl-C:
      strata lru-gen --pid 4242 --format json

  The generations of the strata run that is running, with tiers and walks:
      strata lru-gen --full"
)]
pub(crate) struct LruGenArgs {
    /// The process to watch, for example 4242
    #[arg(short, long, value_name = "PID", value_parser = parse_pid, allow_hyphen_values = true)]
    pid: Option<i32>,

    /// The cgroup whose processes are watched, for example /sys/fs/cgroup/app.slice
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,

    /// Id or name of the strata run to read from, for example 4242 or web; by default the only run there is
    #[arg(long, visible_alias = "name", value_name = "ID", value_parser = id_arg, allow_hyphen_values = true)]
    id: Option<String>,

    /// Print tiers and walks too, as /sys/kernel/debug/lru_gen_full does
    #[arg(long)]
    full: bool,

    /// Time between two walks, for example 500ms or 1s [default: 1s]
    ///
    /// A number with a unit ms, s, m or h; at least 10ms.
    #[arg(
        short,
        long,
        value_name = "DURATION",
        value_parser = at_least(INTERVAL_MIN),
        allow_hyphen_values = true
    )]
    interval: Option<u64>,

    /// Walk twice, an interval apart, print once, and end
    #[arg(long)]
    once: bool,

    /// How accesses are seen [default: auto]
    #[arg(long, value_parser = access_arg(), value_name = "SOURCE")]
    access: Option<AccessChoice>,

    /// How the generations are printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Where generations are read.
enum Source {
    Walks(Box<Watcher>),
    Run(Connection),
}

impl LruGenArgs {
    fn source(&self) -> anyhow::Result<Source> {
        let has_whom = self.pid.is_some() || self.cgroup.is_some();
        if !has_whom && self.access.is_some() {
            return refuse(
                "--access says how a process (--pid) or a group (--cgroup) is looked at; name one",
            );
        }
        if self.full && self.format == Format::Json {
            return refuse("--full is a text of the kernel's; leave it or --format json out");
        }
        let choice = self.access.unwrap_or(AccessChoice::Auto);
        let watcher = match (self.pid, &self.cgroup) {
            (None, None) => {
                return Ok(Source::Run(Running::find(self.id.as_deref())?.connect()?));
            }
            (Some(pid), _) => Watcher::open(pid, choice)?,
            (_, Some(path)) => Watcher::open_group(path, choice)?,
        };
        Ok(Source::Walks(Box::new(watcher)))
    }
}

impl Source {
    /// Looks once more; `false` if those watched have ended.
    fn look(&mut self) -> anyhow::Result<bool> {
        let Source::Walks(watcher) = self else {
            return Ok(true);
        };
        match watcher.walk() {
            Err(RunError::Access(AccessError::ProcessGone(pid))) => {
                print::note(&format!("process {pid} has ended"));
                Ok(false)
            }
            walked => Ok(walked.map(|()| true)?),
        }
    }

    fn text(&mut self, is_full: bool) -> anyhow::Result<String> {
        Ok(match self {
            Source::Walks(watcher) if is_full => watcher.full_text()?,
            Source::Walks(watcher) => watcher.text()?,
            Source::Run(connection) => {
                let form = if is_full { Form::Full } else { Form::Plain };
                let answer = connection.ask(&Request::LruGen { form })?;
                answer["text"].as_str().unwrap_or_default().to_owned()
            }
        })
    }

    /// The generations as JSON: a group and node an entry, `null` where a kind's window has moved
    /// on.
    fn json(&mut self) -> anyhow::Result<String> {
        let views = match self {
            Source::Walks(watcher) => watcher.view()?,
            Source::Run(connection) => {
                let answer = connection.ask(&Request::Generations {})?;
                return Ok(format!("{}\n", json!({ "nodes": answer["nodes"] })));
            }
        };
        Ok(json_line(&views))
    }
}

/// Prints until those watched have ended, or once.
pub(crate) fn run(args: &LruGenArgs) -> anyhow::Result<ExitCode> {
    let mut source = args.source()?;
    let mut is_endless = !args.once && args.interval.is_some();
    if let Source::Walks(watcher) = &mut source {
        print::limits(&watcher.info());
        is_endless = !args.once;
        // Without a first walk that clears the bits, the second would find pages used at any time.
        watcher.walk()?;
    }
    let pause = Duration::from_millis(args.interval.unwrap_or(INTERVAL_MS));
    let mut has_printed = false;
    loop {
        if has_printed || matches!(source, Source::Walks(_)) {
            sleep(pause);
        }
        // To be watched to the end is what was asked for, but something has to be seen.
        match source.look()? {
            false if has_printed => return Ok(ExitCode::SUCCESS),
            false => return Ok(ExitCode::FAILURE),
            true => {}
        }
        print::data(match args.format {
            Format::Text => source.text(args.full)?,
            Format::Json => source.json()?,
        })?;
        if !is_endless {
            return Ok(ExitCode::SUCCESS);
        }
        has_printed = true;
    }
}

fn json_line(views: &[GroupView]) -> String {
    format!("{}\n", json!({ "nodes": views }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_lru::{GenSeq, GenerationView, GroupId, NodeId};

    #[test]
    fn json_holds_what_the_text_holds_in_one_line() {
        let view = GroupView {
            group: GroupId(1),
            path: "/pid/42".to_owned(),
            node: NodeId(0),
            generations: vec![GenerationView {
                seq: GenSeq(4),
                age_ms: 1500,
                nr_pages: [Some(7), None],
            }],
        };
        let line = json_line(&[view]);
        assert_eq!(line.matches('\n').count(), 1);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        let node = &value["nodes"][0];
        assert_eq!(
            (&node["memcg"], &node["path"]),
            (&json!(1), &json!("/pid/42"))
        );
        assert_eq!(
            node["generations"][0],
            json!({"seq": 4, "age_ms": 1500, "nr_anon_pages": 7, "nr_file_pages": null})
        );
    }
}
