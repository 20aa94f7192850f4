//! Kinds of idle memory that `strata guard` takes, and groups that come and go.

use crate::support::prelude::*;

use crate::guard::{ACTING, Idler, bytes, end, guard, guard_by, of, wait_for};

/// Walks within which what is idle goes: six make its age, and a few more steps follow.
const NR_WALKS_MAX: u64 = 60;

#[test]
fn by_the_exact_hand_idle_huge_pages_go_and_come_back_and_a_group_made_anew_inherits_nothing() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let group = TestGroup::new("guard-huge");
    let (mut touch, huge_bytes) = in_huge_pages(&group);
    if huge_bytes < 56 * MIB {
        skip!("the kernel gave {} MiB of huge pages", huge_bytes / MIB);
    }
    let (first, name) = (Idler::start("anew"), group.name());
    let name_anew = first.name();
    let live = guard_by_hand();
    let last = wait_for(&live, "nine tenths to go", |status| {
        assert!(bytes(status, "nr_walks") < NR_WALKS_MAX, "{status:#}");
        bytes(of(status, &name), "away_bytes") >= 64 * MIB * 9 / 10
            && bytes(of(status, &name_anew), "taken_bytes") > 32 * MIB
    });
    assert!(
        bytes(of(&last, &name), "resident_bytes") < 16 * MIB,
        "{last:#}"
    );
    first.end();
    let second = Idler::start("anew");
    let after = wait_for(&live, "the new group to be seen", |status| {
        bytes(status, "nr_walks") > bytes(&last, "nr_walks") + 1
            && bytes(of(status, &name_anew), "resident_bytes") > 60 * MIB
    });
    let anew = of(&after, &name_anew);
    assert!(bytes(anew, "taken_bytes") < 32 * MIB, "{anew:#}");
    assert!(bytes(anew, "came_back_bytes") < MIB, "{anew:#}");
    assert_eq!(touch.ask("verify 0 16384"), "0", "pages are as they were");
    end(live);
    second.end();
    drop((touch, group));
}

#[test]
fn of_huge_pages_of_which_one_page_is_in_use_the_rest_goes() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let group = TestGroup::new("guard-sparse");
    let (mut touch, huge_bytes) = in_huge_pages(&group);
    if huge_bytes < 56 * MIB {
        skip!("the kernel gave {} MiB of huge pages", huge_bytes / MIB);
    }
    let (live, name) = (guard_by_hand(), group.name());
    let last = wait_for(&live, "nine tenths to go", |status| {
        touch.ask("flush");
        for first in (7..16384).step_by(512) {
            touch.ask(&format!("readrange {first} 1"));
        }
        bytes(of(status, &name), "away_bytes") >= 64 * MIB * 9 / 10
    });
    assert!(bytes(of(&last, &name), "came_back_bytes") < MIB, "{last:#}");
    assert_eq!(touch.ask("verify 0 16384"), "0", "pages are as they were");
    end(live);
    drop((touch, group));
}

/// A program with 64 MiB, and how much of that the kernel gave in huge pages.
fn in_huge_pages(group: &TestGroup) -> (Touch, u64) {
    let mut touch = Touch::start(["--size", "64M", "--thp"]);
    group.take(touch.pid);
    touch.ask("writerange 0 16384");
    let smaps = format!("/proc/{}/smaps_rollup", touch.pid);
    let huge_bytes = proc_bytes(&smaps, "AnonHugePages").unwrap_or(0);
    (touch, huge_bytes)
}

/// By the exact hand alone.
fn guard_by_hand() -> Live {
    let options: Vec<&str> = ACTING.into_iter().chain(["--hand", "exact"]).collect();
    Live::start(&guard(&options))
}

/// A file that is in memory only, filled by a program of a group; removed when dropped.
struct InMemory(PathBuf);

impl InMemory {
    fn write(group: &TestGroup, name: &str, mib: u64) -> InMemory {
        let path = format!("/dev/shm/strata-test-{name}-{}", std::process::id());
        let file = InMemory(PathBuf::from(path));
        write_file(group, &file.0, mib);
        file
    }

    fn content(&self) -> Vec<u8> {
        fs::read(&self.0).expect("it is there")
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Fills a memfd that it does not map, and when asked tells whether it is as it was.
const HOLDS_MEMFD: &str = "
import os
memfd, chunk = os.memfd_create('kinds'), os.urandom(1 << 20)
for _ in range(32): os.write(memfd, chunk)
print('ready', flush=True)
input()
print(all(os.pread(memfd, 1 << 20, at << 20) == chunk for at in range(32)), flush=True)
";

#[test]
fn an_idle_file_on_tmpfs_and_a_memfd_go_to_swap_and_are_as_they_were_and_what_is_read_stays() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    needs_census!();
    if Command::new("python3").arg("--version").output().is_err() {
        skip!("there is no python3");
    }
    let (group, holder) = (TestGroup::new("guard-tmpfs"), TestGroup::new("guard-memfd"));
    let touch = Touch::start(["--size", "1M"]);
    group.take(touch.pid);
    let idle = InMemory::write(&group, "idle", 32);
    let used = InMemory::write(&group, "used", 8);
    let content = idle.content();
    let mut command = in_group(&holder, "python3");
    command.args(["-c", HOLDS_MEMFD]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut program = command.spawn().expect("starts");
    let mut told = BufReader::new(program.stdout.take().expect("piped")).lines();
    let mut line = || told.next().expect("a line").expect("text");
    assert_eq!(line(), "ready");
    let live = guard_by_hand();
    let memfd_bytes = |status: &Value, name: &str| {
        let kinds = of(status, &holder.name())["kinds"].as_array().cloned();
        let found = kinds.into_iter().flatten().find(|of| of["kind"] == "tmpfs");
        found.map_or(0, |of| bytes(&of, name))
    };
    let last = wait_for(
        &live,
        "nine tenths of each to go, told as tmpfs",
        |status| {
            assert!(bytes(status, "nr_walks") < NR_WALKS_MAX, "{status:#}");
            used.content();
            resident_bytes(&idle.0) < 32 * MIB / 10
                && memfd_bytes(status, "resident_bytes") < 4 * MIB
                && memfd_bytes(status, "away_bytes") > 28 * MIB
        },
    );
    assert_eq!(resident_bytes(&used.0), 8 * MIB, "{last:#}");
    assert!(idle.content() == content, "it is as it was");
    wait_for(&live, "what came back to be told", |status| {
        bytes(of(status, &group.name()), "came_back_bytes") > 16 * MIB
    });
    let mut asks = program.stdin.take().expect("piped");
    writeln!(asks).expect("asked");
    assert_eq!(line(), "True", "it is as it was");
    assert!(program.wait().expect("it ends").success());
    end(live);
    drop((touch, group, holder));
}

#[test]
fn small_files_that_nobody_reads_go() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    needs_census!();
    let directory = open_disk!();
    let group = TestGroup::new("guard-small");
    let touch = Touch::start(["--size", "1M"]);
    group.take(touch.pid);
    let script = "cd \"$0\" && head -c 16M /dev/zero | split -a 4 -b 16K && sync -f .";
    let mut write = in_group(&group, "sh");
    write.args(["-c", script]).arg(directory.path());
    run(write);
    let live = guard_by_hand();
    let name = group.name();
    let least = if has_damon_pageout() { MIB } else { 14 * MIB };
    wait_for(&live, "nine tenths to go", |status| {
        assert!(bytes(status, "nr_walks") < NR_WALKS_MAX, "{status:#}");
        let is_told = bytes(of(status, &name), "dropped_cache_bytes") >= least;
        is_told && group.usage_bytes() < 6 * MIB
    });
    end(live);
    drop((touch, group));
}

/// So much of a file system that no hand reaches page by page (FUSE, under the root of a guest) is read once.
const BEYOND_REACH_BYTES: u64 = 32 * MIB;

#[test]
fn idle_page_cache_of_a_file_system_that_no_hand_reaches_goes_by_amount_and_anonymous_memory_stays()
{
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    needs_census!();
    let group = TestGroup::new("guard-reach");
    let asked = fs::write(group.path.join("memory.reclaim"), "4096 swappiness=0");
    // Of an empty group there is nothing to take; an older kernel does not know the word.
    let is_unknown = |error: std::io::Error| error.kind() != std::io::ErrorKind::WouldBlock;
    if asked.is_err_and(is_unknown) || !has_filesystem("/", "overlay") {
        skip!("needs cgroup v2 from 6.9 on, and a root that overlays another file system");
    }
    let built = std::env::current_exe().expect("a path");
    let built = fs::read_dir(built.parent().expect("a folder")).expect("is read");
    let mut sum = 0;
    let files = built.filter_map(|entry| {
        let path = entry.ok()?.path();
        let is_idle = path
            .extension()
            .is_some_and(|end| end == "rlib" || end == "rmeta");
        let bytes = fs::metadata(&path)
            .ok()
            .filter(|_| is_idle && sum < BEYOND_REACH_BYTES)?
            .len();
        sum += bytes;
        Some(path)
    });
    let files: Vec<PathBuf> = files.collect();
    if sum < BEYOND_REACH_BYTES {
        skip!("there are too few files to read");
    }
    let content = || {
        let mut command = in_group(&group, "cksum");
        command.args(&files).output().expect("is read").stdout
    };
    let mut touch = Touch::start(["--size", "16M"]);
    group.take(touch.pid);
    touch.ask("writerange 0 4096");
    let before = content();
    let rules = format!(
        "[[rule]]\ncgroup = \"{}\"\npromise = \"100%/min\"\nmin_age = \"5s\"\nswappiness = 0\n",
        group.name()
    );
    let (live, _folder) = guard_by(&rules);
    let last = wait_for(&live, "nine tenths to go", |status| {
        bytes(of(status, &group.name()), "away_bytes") >= sum * 9 / 10
    });
    let told = of(&last, &group.name());
    assert!(
        bytes(told, "taken_by_amount_bytes") >= sum * 9 / 10,
        "{told:#}"
    );
    let resident: u64 = files.iter().map(|path| resident_bytes(path)).sum();
    assert!(resident < sum / 5, "{resident} of {sum}: {told:#}");
    assert!(bytes(told, "came_back_bytes") < MIB, "{told:#}");
    let swapped = fs::read_to_string(group.path.join("memory.swap.current"));
    assert_eq!(swapped.expect("is told").trim(), "0", "{told:#}");
    assert!(content() == before, "it is as it was");
    wait_for(&live, "what came back to be told", |status| {
        bytes(of(status, &group.name()), "came_back_bytes") > sum / 2
    });
    assert_eq!(touch.ask("verify 0 4096"), "0", "pages are as they were");
    end(live);
    drop((touch, group));
}

/// Whether a file system of this kind is mounted there.
fn has_filesystem(at: &str, kind: &str) -> bool {
    let mounts = fs::read_to_string("/proc/mounts").expect("mounts");
    let mut mounts = mounts.lines().map(|line| line.split(' ').skip(1).take(2));
    mounts.any(|of| of.eq([at, kind]))
}
