//! `strata guard --tiers` in bad luck: slower memory that goes away, comes back or is full; files that are cut, removed, replaced or
//! written past page cache while they come up; page cache of groups that no rule names, or that are gone.

use crate::support::prelude::*;

use super::guard::{bytes, end, of, wait_for};
use super::tiers::{HALF, Halves, kernel_ids, tiers, told, two_nodes};
use strata_linux::access::census::{Census, Question};
use strata_linux::nodes::Nodes;

/// Pages of a file.
const PAGES: u64 = 2048;

/// The blocks of a node's memory, which come back at the end of the test.
struct Blocks(Vec<PathBuf>);

impl Blocks {
    fn of(node: u32) -> Blocks {
        let entries = fs::read_dir(format!("/sys/devices/system/node/node{node}"));
        let paths = entries.into_iter().flatten().flatten();
        let paths = paths.map(|entry| entry.path().join("state"));
        let paths = paths.filter(|path| path.exists());
        Blocks(paths.collect())
    }

    /// What can't go at this moment is tried again.
    #[track_caller]
    fn offline(&self, nr_blocks: usize) {
        let is_away = |path: &PathBuf| {
            let _busy = fs::write(path, "offline");
            fs::read_to_string(path).is_ok_and(|state| state.trim() == "offline")
        };
        wait_until("memory to go offline", || {
            self.0[..nr_blocks].iter().all(is_away)
        });
    }

    fn online(&self) {
        for path in &self.0 {
            let _is_online = fs::write(path, "online_movable");
        }
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        self.online();
    }
}

/// Ends the test it stands in anywhere but in a guest: memory of the machine itself is not taken away.
macro_rules! removable {
    ($node:expr) => {
        match Blocks::of($node) {
            _ if !Path::new("/run/guest-job").exists() => {
                $crate::skip!("memory is taken away in guests only (make test-guest)")
            }
            blocks if blocks.0.len() < 2 => $crate::skip!("no memory of this guest can go offline"),
            blocks => blocks,
        }
    };
}

/// Ends a guard that may have warned.
fn end_warned(mut live: Live) {
    live.interrupt();
}

fn of_node(status: &Value, node: u32, name: &str) -> u64 {
    let nodes = status["nodes"].as_array().expect("nodes");
    let is_it = |of: &&Value| of["node"].as_u64() == Some(u64::from(node));
    bytes(nodes.iter().find(is_it).expect("the node"), name)
}

fn finish(arguments: &[&str]) -> Finished {
    Strata::new(arguments).finish()
}

#[test]
fn slower_memory_that_goes_offline_under_a_guard_is_left_alone_and_used_again_when_it_is_back() {
    needs!("cap_bpf", "memory_cgroup", "zram");
    let nodes = two_nodes!();
    let (_, slow) = kernel_ids(&nodes);
    let blocks = removable!(slow);
    let _guard = Guard::new();
    let mut halves = Halves::start("offline");
    halves.touch.ask(&format!("hammerrange 0 {HALF}"));
    let live = Live::start(&tiers(&["--swap", "zram:256M", "--release"]));
    let name = halves.name();
    let is_down = |status: &Value| told(status, &name, slow) >= 31 * MIB;
    let before = wait_for(&live, "the idle half to go down", is_down);
    // A part of it goes: what is free there is known anew.
    blocks.offline(blocks.0.len() / 2);
    let all_bytes = of_node(&before, slow, "total_bytes");
    wait_for(&live, "the node to be smaller", |status| {
        of_node(status, slow, "total_bytes") <= all_bytes * 6 / 10
    });
    assert!(!live.stderr().contains("equally fast"), "{}", live.stderr());
    // All of it goes: idle memory goes to swap as on a machine with one node.
    blocks.offline(blocks.0.len());
    live.wait_for_stderr("all memory of this machine is equally fast");
    halves.touch.ask("rest");
    halves.touch.ask("hammerrange 0 1");
    let without = wait_for(&live, "idle memory to go to swap", |status| {
        told(status, &name, slow) == 0 && bytes(of(status, &name), "away_bytes") > 56 * MIB
    });
    assert_eq!(of_node(&without, slow, "total_bytes"), 0, "{without:#}");
    let doctor = finish(&["doctor"]);
    assert_has(&doctor.stdout, "all equally fast: 0");
    let demoted = finish(&["guard", "demote", "16M"]);
    assert_eq!(demoted.code(), Some(1), "{}", demoted.stdout);
    assert_has(&demoted.stderr, "slower memory");
    let pid = halves.touch.pid.to_string();
    let seen = finish(&["wss", "--pid", &pid, "--for", "1s", "--format", "json"]);
    let seen = seen.expect_success().json();
    assert!(seen["resident_bytes"].is_u64(), "{seen:#}");
    // It is back, and so is all of the program, which then uses a half again.
    blocks.online();
    live.wait_for_stderr("there is slower memory now");
    halves.touch.ask("rest");
    halves.touch.ask(&format!("readrange 0 {}", 2 * HALF));
    halves.touch.ask(&format!("hammerrange 0 {HALF}"));
    wait_for(&live, "the idle half to go down again", is_down);
    end_warned(live);
    halves.end();
}

#[test]
fn slower_memory_that_comes_while_a_guard_runs_is_used_from_then_on() {
    needs!("cap_bpf", "memory_cgroup");
    let nodes = two_nodes!();
    let (_, slow) = kernel_ids(&nodes);
    let blocks = removable!(slow);
    let _guard = Guard::new();
    blocks.offline(blocks.0.len());
    let mut halves = Halves::start("online");
    halves.touch.ask("hammerrange 0 1");
    let live = Live::start(&tiers(&[]));
    live.wait_for_stderr("all memory of this machine is equally fast");
    blocks.online();
    live.wait_for_stderr("there is slower memory now");
    let name = halves.name();
    wait_for(&live, "idle memory to go down", |status| {
        told(status, &name, slow) >= 60 * MIB
    });
    end_warned(live);
    halves.end();
}

#[test]
fn where_slower_memory_is_full_pages_go_to_swap_from_there_and_from_nowhere_else() {
    needs!("cap_bpf", "memory_cgroup", "zram");
    let nodes = two_nodes!();
    let (fast, slow) = kernel_ids(&nodes);
    let blocks = removable!(slow);
    let _guard = Guard::new();
    // One block is left, and all of it but 16 MiB above the watermark is taken.
    blocks.offline(blocks.0.len() - 1);
    let room = || {
        let rooms = nodes.rooms().expect("read");
        let at = nodes.nodes().iter().position(|of| of.kernel_id == slow);
        rooms[at.expect("a node")].room_pages()
    };
    let nr_pages = room() - 16 * 256;
    let outside = TestGroup::new("full-node");
    let mut hog = Touch::start(["--size", &(nr_pages * 4096).to_string()]);
    outside.take(hog.pid);
    hog.ask(&format!("bind node{slow} 0 {nr_pages}"));
    hog.ask(&format!("writerange 0 {nr_pages}"));
    let mut halves = Halves::start("full");
    halves.touch.ask("hammerrange 0 1");
    let live = Live::start(&tiers(&["--swap", "zram:256M", "--release"]));
    let name = halves.name();
    let last = wait_for(&live, "idle memory to go to swap", |status| {
        bytes(of(status, &name), "away_bytes") >= 24 * MIB
    });
    let (away, down) = (
        bytes(of(&last, &name), "away_bytes"),
        bytes(&last["tiers"], "pgdemote_proactive") * 4096,
    );
    let below = told(&last, &name, slow);
    assert!(down + MIB >= away + below, "{down} went down: {last:#}");
    assert!(told(&last, &name, fast) < 64 * MIB, "{last:#}");
    end(live);
    assert_eq!(hog.ask(&format!("verify 0 {nr_pages}")), "0");
    halves.end();
}

/// A file on the slow node, and who has read it in there.
struct Slow {
    path: PathBuf,
    reader: Touch,
}

impl Slow {
    fn new(group: &TestGroup, path: PathBuf, node: u32) -> Slow {
        write_file(group, &path, PAGES / 256);
        let mut own = Slow::open(group, path, node);
        own.reader.ask(&format!("write 0 {PAGES} 1"));
        forget(&own.path);
        own.read();
        own
    }

    fn open(group: &TestGroup, path: PathBuf, node: u32) -> Slow {
        let mut command = in_group(group, program("reader"));
        let mut reader = Touch::start_behind(&mut command, [&path]);
        reader.ask(&format!("node {node}"));
        Slow { path, reader }
    }

    fn read(&mut self) {
        self.reader.ask(&format!("read 0 {PAGES}"));
    }

    #[track_caller]
    fn check(&mut self, first: u64, version: u64) {
        let count = PAGES - first;
        let checked = self
            .reader
            .try_ask(&format!("check {first} {count} {version}"));
        assert_eq!(checked, "ok", "{} from page {first}", self.path.display());
    }
}

/// Brings page cache of groups of this name up, so much a second.
fn cache_guard(directory: &Path, name: &str, promote: &str) -> Live {
    let rules = directory.join("guard.toml");
    let text = format!(
        "[tiers]\npromote = '{promote}'\n[[rule]]\ncgroup = '{name}'\npromise = 'none'\nmin_age = '5s'\ntiers = true\n"
    );
    fs::write(&rules, text).expect("rules");
    let strata = Strata::new(["guard", "--format", "json", "--cpu", "50%"]);
    let strata = strata.args(["--history", "none", "--config"]);
    Live::start(&strata.arg(rules.as_os_str()))
}

fn promoted(status: &Value) -> u64 {
    bytes(&status["tiers"], "nr_promoted_unmapped_pages")
}

/// Page cache of a file on a node, whoever is charged.
fn cached_on(path: &Path, node: u32) -> u64 {
    let mut census = Census::open().expect("a census");
    let question = Question {
        wants_files: true,
        ..Question::default()
    };
    let taken = census.take(&question).expect("taken");
    let parts = parts_of(&taken, path);
    let on = parts.iter().filter(|part| part.node == Some(node));
    sum(on.map(|part| &part.sums)).bytes
}

#[test]
fn files_that_are_cut_removed_and_replaced_while_they_come_up_are_right_and_the_guard_goes_on() {
    needs!("cap_bpf", "memory_cgroup");
    let nodes = two_nodes!();
    let disk = open_disk!();
    let _guard = Guard::new();
    let (fast, slow) = kernel_ids(&nodes);
    let group = TestGroup::new("guard-cut-files");
    let at = |name: &str| disk.path().join(name);
    let mut cut = Slow::new(&group, at("cut"), slow);
    let mut removed = Slow::new(&group, at("removed"), slow);
    let mut replaced = Slow::new(&group, at("replaced"), slow);
    let mut kept = Slow::new(&group, at("kept"), slow);
    let other = tempfile::tempdir().expect("a directory");
    // What one census has chosen takes seconds to come up, in which files change.
    let live = cache_guard(other.path(), &group.name(), "2M/s");
    let (mut nr_rounds, mut versions, mut newer) = (0, (1, 1), None);
    let mut first = 0;
    wait_for(&live, "the files to come up", |status| {
        nr_rounds += 1;
        for file in [&mut removed, &mut replaced, &mut kept] {
            file.read();
        }
        // Ends here, then goes on as before, with other pages behind that.
        if promoted(status) > 0 {
            first = (nr_rounds * 331) % PAGES;
            versions.1 = versions.1 % 200 + 1;
            cut.reader.ask(&format!("cut {first}"));
            let count = PAGES - first;
            let version = versions.1;
            cut.reader.ask(&format!("write {first} {count} {version}"));
            cut.check(first, version);
        }
        for _ in 0..3 {
            cut.read();
        }
        if promoted(status) > 512 && newer.is_none() {
            fs::remove_file(&removed.path).expect("removed");
            let file = Slow::new(&group, at("new"), slow);
            fs::rename(&file.path, &replaced.path).expect("renamed");
            newer = Some(file);
        }
        if let Some(newer) = &mut newer {
            newer.read();
        }
        newer.is_some() && promoted(status) >= 3 * PAGES && nr_rounds > 20
    });
    assert!(cached_on(&kept.path, fast) > 0, "it comes up");
    let mut newer = newer.expect("it was made");
    for file in [&mut removed, &mut replaced, &mut kept, &mut newer] {
        file.check(0, 1);
    }
    cut.check(first, versions.1);
    assert_eq!(
        fs::metadata(&cut.path).expect("a file").size(),
        PAGES * 4096
    );
    end(live);
}

#[test]
fn a_file_that_is_read_and_written_past_page_cache_while_it_comes_up_is_right() {
    needs!("cap_bpf", "memory_cgroup");
    let nodes = two_nodes!();
    let disk = open_disk!();
    let _guard = Guard::new();
    let (fast, slow) = kernel_ids(&nodes);
    let group = TestGroup::new("guard-direct");
    let mut plain = Slow::new(&group, disk.path().join("file"), slow);
    let mut direct = Slow::open(&group, plain.path.clone(), slow);
    if direct.reader.try_ask("direct") != "ok" || direct.reader.try_ask("read 0 1") != "ok" {
        skip!("no O_DIRECT on this disk");
    }
    let other = tempfile::tempdir().expect("a directory");
    let live = cache_guard(other.path(), &group.name(), "2M/s");
    // The first half is only read, by both ways; pages of the second are written past page cache, and read in again.
    let half = PAGES / 2;
    let mut version = 1;
    wait_for(&live, "the file to come up", |status| {
        version = version % 200 + 1;
        direct.reader.ask(&format!("write {half} {half} {version}"));
        for reader in [&mut plain, &mut direct] {
            reader.check(half, version);
            assert_eq!(reader.reader.try_ask(&format!("check 0 {half} 1")), "ok");
        }
        // Written through page cache, and read past it.
        let written = version + 1;
        plain.reader.ask(&format!("write {half} {half} {written}"));
        direct.check(half, written);
        for _ in 0..4 {
            plain.read();
        }
        promoted(status) >= half * 9 / 10 && version > 10
    });
    assert!(cached_on(&plain.path, fast) >= MIB, "it has come up");
    end(live);
    plain.check(half, version + 1);
    direct.check(half, version + 1);
}

#[test]
fn page_cache_of_groups_without_a_rule_and_of_groups_that_are_gone_stays_and_counts_nowhere() {
    needs!("cap_bpf", "memory_cgroup");
    let nodes = two_nodes!();
    let disk = open_disk!();
    let _guard = Guard::new();
    let (_, slow) = kernel_ids(&nodes);
    let group = TestGroup::new("guard-known");
    let (without, gone) = (TestGroup::new("no-rule"), TestGroup::new("guard-gone"));
    let gone_id = fs::metadata(&gone.path).expect("a directory").ino();
    let mut own = Slow::new(&group, disk.path().join("own"), slow);
    let strange = Slow::new(&without, disk.path().join("strange"), slow);
    let orphan = Slow::new(&gone, disk.path().join("orphan"), slow);
    let files = [&strange, &orphan].map(|file| file.path.clone());
    drop((orphan, gone));
    let taken = Census::open().expect("a census").take(&Question::default());
    let groups = taken.expect("taken").groups;
    let left = groups.iter().filter(|part| part.group_id == gone_id);
    let left = sum(left.map(|part| &part.sums)).bytes;
    assert!(
        left >= PAGES * 4096 - MIB,
        "{left} bytes of a removed group"
    );
    let pattern = format!("/strata-test-guard-*-{}", std::process::id());
    let before = files
        .each_ref()
        .map(|path| fs::read(path).expect("readable"));
    let other = tempfile::tempdir().expect("a directory");
    let live = cache_guard(other.path(), &pattern, "64M/s");
    let last = wait_for(&live, "the own file to come up", |status| {
        own.read();
        for path in &files {
            fs::read(path).expect("readable");
        }
        promoted(status) >= PAGES * 95 / 100
    });
    // Two walks more, in which nothing else comes.
    let nr_walks = bytes(&last, "nr_walks");
    let last = wait_for(&live, "two walks more", |status| {
        files.iter().for_each(|path| drop(fs::read(path)));
        bytes(status, "nr_walks") > nr_walks + 6
    });
    for path in &files {
        assert!(cached_on(path, slow) >= PAGES * 4096 - MIB, "{path:?}");
    }
    assert!(promoted(&last) <= PAGES + 64, "{last:#}");
    assert_eq!(last["groups"].as_array().map(Vec::len), Some(1), "{last:#}");
    let cached = bytes(of(&last, &group.name()), "cached_bytes");
    assert!(cached <= PAGES * 4096 + MIB, "{last:#}");
    end(live);
    own.check(0, 1);
    let after = files
        .each_ref()
        .map(|path| fs::read(path).expect("readable"));
    assert!(before == after, "files are as they were");
}
