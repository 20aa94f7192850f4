//! `strata guard` on page cache that no process maps.

use crate::guard::{bytes, end, of, wait_for};
use crate::support;

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use support::leaks::Guard;
use support::live::{Live, TestGroup};
use support::residency::{
    MIB, forget, has_damon_pageout, in_group, read_file, resident_bytes, write_file,
};
use support::strata::Strata;

/// What is read once, and what is read again each second.
pub(crate) const ONCE_MIB: u64 = 64;
const OFTEN_MIB: u64 = 16;

/// A program that reads one file once, and then another one each second. Ended when dropped.
pub(crate) struct Reader {
    pub(crate) group: TestGroup,
    pub(crate) once: PathBuf,
    often: PathBuf,
    child: Child,
}

impl Reader {
    fn start(name: &str, directory: &Path) -> Reader {
        Reader::start_in(TestGroup::new(&format!("guard-{name}")), directory)
    }

    pub(crate) fn start_in(group: TestGroup, directory: &Path) -> Reader {
        let (once, often) = (directory.join("once"), directory.join("often"));
        for (path, mib) in [(&once, ONCE_MIB), (&often, OFTEN_MIB)] {
            write_file(&group, path, mib);
            forget(path);
        }
        let mut command = in_group(&group, "sh");
        let script = "dd bs=64k if=\"$0\" of=/dev/null; \
                      while :; do dd bs=64k if=\"$1\" of=/dev/null; sleep 1; done";
        command.args(["-c", script]).args([&once, &often]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("starts");
        Reader {
            group,
            once,
            often,
            child,
        }
    }

    fn name(&self) -> String {
        self.group.name()
    }

    fn guard(&self, options: &[&str]) -> Live {
        let strata = Strata::new(["guard", "--format", "json", "--cgroup", &self.name()]);
        let strata = strata.args(["--min-age", "10s", "--cpu", "50%", "--history", "none"]);
        Live::start(&strata.args(options))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.child.kill().expect("it can be ended");
        self.child.wait().expect("it ends");
    }
}

#[test]
fn a_file_that_was_read_once_is_dropped_and_one_that_is_read_again_stays() {
    needs!("cap_bpf", "memory_cgroup");
    needs_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let reader = Reader::start("cache", directory.path());
    let live = reader.guard(&["--promise", "100%/min"]);
    let name = reader.name();
    let last = wait_for(&live, "what is idle to be dropped", |status| {
        bytes(of(status, &name), "dropped_cache_bytes") > (ONCE_MIB - 8) * MIB
    });
    let group = of(&last, &name);
    assert!(
        bytes(group, "dropped_cache_bytes") <= (ONCE_MIB + 8) * MIB,
        "{group:#}"
    );
    assert!(
        bytes(group, "away_bytes") > (ONCE_MIB - 8) * MIB,
        "{group:#}"
    );
    assert!(bytes(group, "came_back_bytes") < 2 * MIB, "{group:#}");
    assert!(resident_bytes(&reader.once) < 8 * MIB, "{group:#}");
    assert_eq!(resident_bytes(&reader.often), OFTEN_MIB * MIB, "{group:#}");
    // What comes back is seen, whoever of the group reads it.
    read_file(&reader.group, &reader.once, 1);
    wait_for(&live, "what came back to be told", |status| {
        bytes(of(status, &name), "came_back_bytes") > ONCE_MIB / 2 * MIB
    });
    end(live);
}

#[test]
fn idle_page_cache_is_told_and_stays_where_nothing_is_promised_or_done() {
    needs!("cap_bpf", "memory_cgroup");
    needs_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let reader = Reader::start("cache-told", directory.path());
    let name = reader.name();
    for options in [&[][..], &["--promise", "100%/min", "--dry-run"]] {
        let live = reader.guard(options);
        let last = wait_for(&live, "what is idle to be told", |status| {
            bytes(of(status, &name), "idle_cache_bytes") > (ONCE_MIB - 8) * MIB
        });
        let group = of(&last, &name);
        let cached_bytes = bytes(group, "cache_bytes");
        assert!(cached_bytes > (ONCE_MIB + OFTEN_MIB - 8) * MIB, "{group:#}");
        assert_eq!(bytes(group, "dropped_cache_bytes"), 0, "{group:#}");
        assert_eq!(bytes(group, "taken_bytes"), 0, "{group:#}");
        assert!(has_damon_pageout() || resident_bytes(&reader.once) == ONCE_MIB * MIB);
        end(live);
    }
}
