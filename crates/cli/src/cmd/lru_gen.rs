//! `strata lru-gen`: the generations of a live process.
//!
//! **Owns** the pace of watching and the two forms of the output. **Does not own** the walks or the
//! kernel's text format.

use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use strata_host::access::AccessError;
use strata_host::control::{RunError, Watcher};
use strata_lru::GroupView;

use crate::cli::{AccessArg, Format, parse_duration_ms, parse_pid};
use crate::print;

/// Shortest time between two walks: below it watching would cost more than it shows.
const INTERVAL_MIN_MS: u64 = 10;

/// Shows how old the pages of a running process are
///
/// Walks the page tables of a process and its threads again and again, and prints after each walk how
/// many pages are in each generation, in the kernel's own text format (/sys/kernel/debug/lru_gen):
///
///     memcg  1 /pid/4242
///      node     0
///               4      10021       2310        120
///               5       5009        450         80
///
/// A line of a generation holds its number, its age in milliseconds, its anonymous pages and its file
/// pages; the last is the youngest. A page is in the generation of the walk that last found it used.
///
/// WATCHING IS NOT FREE OF EFFECT. To tell whether a page is used again, each walk clears the
/// accessed bits of the pages it found used. The kernel looks at the same bits when it looks for
/// pages to reclaim, so while a process is watched the kernel takes its pages for idler than they are
/// and, if memory is short, is likelier to evict them. No page is moved, evicted or changed by
/// watching itself. The longer the interval, the less the kernel is misled.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_long_help = "\
EXAMPLES
  Once, with ages that span five seconds:
      strata lru-gen --pid 4242 --once --interval 5s

  Every second, one JSON object a line, until the process ends or Ctrl-C:
      strata lru-gen --pid 4242 --format json"
)]
pub(crate) struct LruGenArgs {
    /// The process to watch, for example 4242
    #[arg(short, long, value_name = "PID", value_parser = parse_pid, allow_hyphen_values = true)]
    pid: i32,

    /// Time between two walks, for example 500ms or 1s
    ///
    /// A number with a unit ms, s, m or h; at least 10ms.
    #[arg(
        short,
        long,
        value_name = "DURATION",
        default_value = "1s",
        value_parser = interval_arg,
        allow_hyphen_values = true
    )]
    interval: u64,

    /// Walk twice, an interval apart, print once, and end
    #[arg(long)]
    once: bool,

    /// How accesses are seen
    #[arg(long, value_enum, value_name = "SOURCE", default_value = "auto")]
    access: AccessArg,

    /// How the generations are printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Watches until the process has ended, or once.
pub(crate) fn run(args: &LruGenArgs) -> anyhow::Result<ExitCode> {
    let mut watcher = Watcher::open(args.pid, args.access.into())?;
    let source = watcher.info();
    for blind_spot in &source.blind_spots {
        print::note(&format!("a limit of {}: {blind_spot}", source.name));
    }
    // Without a first walk that clears the bits, the second would find pages used at any time.
    watcher.walk()?;
    let mut has_printed = false;
    loop {
        sleep(Duration::from_millis(args.interval));
        match watcher.walk() {
            // To be watched to the end is what was asked for.
            Err(RunError::Access(AccessError::ProcessGone(pid))) if has_printed => {
                print::note(&format!("process {pid} has ended"));
                return Ok(ExitCode::SUCCESS);
            }
            walked => walked?,
        }
        match args.format {
            Format::Text => print::data(watcher.text()?)?,
            Format::Json => print::data(json_line(&watcher.view()?))?,
        }
        if args.once {
            return Ok(ExitCode::SUCCESS);
        }
        has_printed = true;
    }
}

fn interval_arg(text: &str) -> Result<u64, String> {
    match parse_duration_ms(text)? {
        ms if ms < INTERVAL_MIN_MS => Err(format!("it must be at least {INTERVAL_MIN_MS}ms")),
        ms => Ok(ms),
    }
}

/// The same as the text, as JSON: a group and node an entry, `null` where a kind's window has moved on.
fn json_line(views: &[GroupView]) -> String {
    let nodes: Vec<_> = views
        .iter()
        .map(|view| {
            let generations: Vec<_> = view
                .generations
                .iter()
                .map(|generation| {
                    json!({
                        "seq": generation.seq.0,
                        "age_ms": generation.age_ms,
                        "nr_anon_pages": generation.nr_pages[0],
                        "nr_file_pages": generation.nr_pages[1],
                    })
                })
                .collect();
            json!({
                "memcg": view.group.0,
                "path": view.path,
                "node": view.node.0,
                "generations": generations,
            })
        })
        .collect();
    format!("{}\n", json!({ "nodes": nodes }))
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

    #[test]
    fn an_interval_that_would_never_rest_is_refused() {
        assert!(interval_arg("0").unwrap_err().contains("10ms"));
        assert_eq!(interval_arg("10ms"), Ok(10));
    }
}
