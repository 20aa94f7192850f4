//! `strata guard` on page cache that no process maps.

use crate::support::prelude::*;

use crate::guard::{Idler, bytes, end, guard, of, wait_for};

/// What is read once, and what is read again each second.
pub(crate) const ONCE_MIB: u64 = 64;
pub(crate) const OFTEN_MIB: u64 = 16;

/// A program that reads one file once, and then another one each second. Ended when dropped.
pub(crate) struct Reader {
    pub(crate) group: TestGroup,
    pub(crate) once: PathBuf,
    pub(crate) often: PathBuf,
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
fn what_is_idle_is_told_and_stays_where_nothing_is_promised_or_done() {
    needs!("cap_bpf", "memory_cgroup");
    needs_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let reader = Reader::start("cache-told", directory.path());
    let idler = Idler::start("watched");
    for options in [&[][..], &["--promise", "100%/min", "--dry-run"]] {
        let live = Live::start(&guard(options));
        let last = wait_for(&live, "what is idle to be told", |status| {
            let idle_cache = bytes(of(status, &reader.name()), "idle_cache_bytes");
            let could_give = bytes(of(status, &idler.name()), "could_give_bytes");
            idle_cache > (ONCE_MIB - 8) * MIB && could_give > 48 * MIB
        });
        let is_acting = last["is_acting"] == true;
        assert!(!is_acting || !options.is_empty(), "{last:#}");
        let group = of(&last, &reader.name());
        let cached_bytes = bytes(group, "cache_bytes");
        assert!(cached_bytes > (ONCE_MIB + OFTEN_MIB - 8) * MIB, "{group:#}");
        assert!(has_damon_pageout() || resident_bytes(&reader.once) == ONCE_MIB * MIB);
        let used = &of(&last, &idler.name())["used_within_bytes"];
        // Eight MiB are in use.
        let used = ["60", "600", "3600"].map(|within| bytes(used, within));
        assert!(used[0] >= 7 * MIB && used.is_sorted(), "{used:?}");
        for name in [reader.name(), idler.name()] {
            let of_group = |what| bytes(of(&last, &name), what);
            let taken = ["away_bytes", "taken_bytes", "dropped_cache_bytes"].map(of_group);
            assert_eq!(taken, [0; 3], "{last:#}");
        }
        end(live);
    }
    idler.end();
}

/// Reads files, and maps them when asked.
const READS_THEN_MAPS: &str = "
import mmap, sys
files = [open(path, 'rb') for path in sys.argv[1:]]
for file in files: file.read()
print('read', flush=True)
input()
areas = [mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) for file in files]
print('mapped' if sum(sum(area[::4096]) for area in areas) else '', flush=True)
input()
";
/// File systems that are mounted for it, each with a file of a MiB: less than that is not worth telling.
const NR_OTHERS: u64 = 4;

#[test]
fn page_cache_of_a_file_system_that_cant_be_reached_stays_and_says_so_and_goes_once_it_is_mapped() {
    needs!("cap_bpf", "memory_cgroup");
    needs_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let Some(mut room) = Room::open() else {
        skip!("no mount namespace can be made");
    };
    let image = checkout().join("tests/filesystems/letters.squashfs");
    let mut letters = Vec::new();
    for number in 0..NR_OTHERS {
        let [image_of_its_own, at] =
            ["image", "other"].map(|name| directory.path().join(format!("{name}-{number}")));
        fs::copy(&image, &image_of_its_own).expect("a copy");
        if !room.mount_image(&["-t", "squashfs"], &image_of_its_own, &at) {
            skip!("no squashfs can be mounted");
        }
        letters.push(at.join("letters"));
    }
    let group = TestGroup::new("guard-unreachable");
    let mut holder = room.in_group(&group, "python3");
    let mut holder = Live::start_command({
        holder.args(["-c", READS_THEN_MAPS]).args(&letters);
        holder
    });
    assert_eq!(holder.line(), "read");
    let strata = Strata::new(["guard", "--format", "json", "--cgroup", &group.name()]);
    let strata = strata.args(["--min-age", "5s", "--cpu", "50%", "--history", "none"]);
    let live = Live::start(&strata.args(["--promise", "100%/min"]));
    wait_for(&live, "its page cache to say why it stays", |status| {
        let kinds = of(status, &group.name())["kinds"].as_array().cloned();
        let mut kinds = kinds.into_iter().flatten();
        let cache = kinds.find(|of| of["kind"] == "page_cache");
        cache.is_some_and(|of| of["stays_because"] == "its file system can't be reached")
    });
    let resident_bytes = || -> u64 { letters.iter().map(|of| room.resident_bytes(of)).sum() };
    assert!(has_damon_pageout() || resident_bytes() == NR_OTHERS * MIB);
    writeln!(holder.stdin()).expect("it reads");
    assert_eq!(holder.line(), "mapped");
    wait_for(&live, "what is mapped to go", |_| {
        resident_bytes() <= NR_OTHERS * MIB / 10
    });
    end(live);
}
