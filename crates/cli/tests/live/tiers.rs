//! `strata guard --tiers`: on a machine with slower memory, what is idle goes there and what is used comes up.

use crate::support::prelude::*;

use super::guard::{bytes, end, guard, of, wait_for};
use strata_linux::access::census::{Census, Kind, Question};
use strata_linux::addr::{AddrRange, PAGE_BYTES};
use strata_linux::nodes::Nodes;
use strata_linux::process::Process;
use strata_linux::swap::swap_areas;

/// Size of each file.
const FILE_MIB: u64 = 16;
/// Pages of a half of the program.
pub(crate) const HALF: u64 = 8192;

/// Ends the test it stands in where all memory is equally fast.
macro_rules! two_nodes {
    () => {
        match Nodes::read() {
            Ok(nodes) if nodes.has_tiers() => match $crate::tiers::are_hidden_pages_kept() {
                true => $crate::skip!("this kernel moves no page that NUMA balancing has hidden"),
                false => nodes,
            },
            Ok(_) => $crate::skip!("all memory of this machine is equally fast"),
            Err(error) => $crate::skip!("{error}"),
        }
    };
}

pub(crate) use two_nodes;

/// Before 6.6 `move_pages` does not find a page that NUMA balancing has made inaccessible.
pub(crate) fn are_hidden_pages_kept() -> bool {
    let text = |path| fs::read_to_string(path).unwrap_or_default();
    let release = text("/proc/sys/kernel/osrelease");
    let is_old = strata_linux::access::parse_release(&release).is_some_and(|at| at < (6, 6));
    is_old && !matches!(text("/proc/sys/kernel/numa_balancing").trim(), "0" | "")
}

/// A program of 64 MiB in a group of its own, all of which was written.
pub(crate) struct Halves {
    pub(crate) touch: Touch,
    group: TestGroup,
}

impl Halves {
    pub(crate) fn start(name: &str) -> Halves {
        let group = TestGroup::new(&format!("guard-{name}"));
        let mut touch = Touch::start(["--size", "64M"]);
        group.take(touch.pid);
        touch.ask(&format!("writerange 0 {}", 2 * HALF));
        Halves { touch, group }
    }

    pub(crate) fn name(&self) -> String {
        self.group.name()
    }

    /// Pages of the region on each node, by the kernel's number.
    fn on_nodes(&self, nodes: &Nodes, first: u64, count: u64) -> BTreeMap<u32, u64> {
        on_nodes(&self.touch, nodes, first, count)
    }

    pub(crate) fn end(mut self) {
        self.touch.ask("rest");
        let verified = self.touch.ask(&format!("verify 0 {}", 2 * HALF));
        assert_eq!(verified, "0", "pages are as they were");
    }
}

/// Pages of a program's region on each node, by the kernel's number.
fn on_nodes(touch: &Touch, nodes: &Nodes, first: u64, count: u64) -> BTreeMap<u32, u64> {
    let process = Process::open(touch.pid).expect("it runs");
    let start = touch.page_address(first);
    let range = AddrRange::new(start, start + count * PAGE_BYTES);
    let mut entries = Vec::new();
    process.read_pagemap(range, &mut entries).expect("readable");
    let mut found = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.is_present()) {
        let ranges = nodes.page_ranges();
        let is_in = |(first, end, _): &&(u64, u64, _)| (*first..*end).contains(&entry.frame());
        let (_, _, node) = ranges.iter().find(is_in).expect("a node");
        let id = nodes.nodes()[usize::from(node.0)].kernel_id;
        *found.entry(id).or_default() += 1;
    }
    found
}

pub(crate) fn tiers(options: &[&str]) -> Strata {
    guard(&["--promise", "100%/min", "--tiers"]).args(options)
}

pub(crate) fn kernel_ids(nodes: &Nodes) -> (u32, u32) {
    let id = |tier: u32| {
        let mut of_tier = nodes.nodes().iter().filter(|node| node.tier == tier);
        of_tier.next().expect("two tiers").kernel_id
    };
    (id(0), id(1))
}

/// How many pages stayed for a reason, three walks from now and three more later.
fn after_walks(live: &Live, reason: &str) -> [u64; 2] {
    [(); 2].map(|()| {
        let first = bytes(&live.json(), "nr_walks");
        let last = wait_for(live, "walks more", |status| {
            bytes(status, "nr_walks") >= first + 3
        });
        bytes(&last["tiers"]["stayed"], reason)
    })
}

/// What of a group is on a node, as its guard tells.
pub(crate) fn told(status: &Value, group: &str, node: u32) -> u64 {
    bytes(&of(status, group)["nodes"], &node.to_string())
}

#[test]
fn the_idle_half_goes_down_swap_is_not_used_and_the_halves_trade_places_when_the_phase_changes() {
    needs!("cap_bpf", "memory_cgroup", "zram");
    let nodes = two_nodes!();
    let _guard = Guard::new();
    let (fast, slow) = kernel_ids(&nodes);
    let mut halves = Halves::start("halves");
    halves.touch.ask(&format!("hammerrange 0 {HALF}"));
    let live = Live::start(&tiers(&["--swap", "zram:256M", "--release"]));
    let name = halves.name();
    let parted = wait_for(&live, "the idle half to go down", |status| {
        told(status, &name, slow) >= 31 * MIB
    });
    assert!(told(&parted, &name, fast) >= 32 * MIB, "{parted:#}");
    let on = |halves: &Halves, first, node: u32| {
        let found = halves.on_nodes(&nodes, first, HALF);
        found.get(&node).copied().unwrap_or(0)
    };
    let enough = HALF * 95 / 100;
    assert!(on(&halves, HALF, slow) >= enough, "the idle half");
    assert!(on(&halves, 0, fast) >= enough, "the used half");
    let used = swap_areas()
        .expect("read")
        .iter()
        .map(|area| area.used_bytes)
        .sum::<u64>();
    assert!(used < MIB, "swap is used: {used} bytes");
    let walks_before = bytes(&parted, "nr_walks");
    halves.touch.ask("rest");
    halves.touch.ask(&format!("hammerrange {HALF} {HALF}"));
    let traded = wait_for(&live, "the halves to trade places", |status| {
        let has_traded = on(&halves, HALF, fast) >= enough && on(&halves, 0, slow) >= enough;
        has_traded && bytes(status, "nr_walks") > walks_before
    });
    let counts = &traded["tiers"];
    // Else the kernel has brought some up.
    let balancing = fs::read_to_string("/proc/sys/kernel/numa_balancing").unwrap_or_default();
    if matches!(balancing.trim(), "0" | "") {
        assert!(bytes(counts, "pgpromote_success") >= enough, "{traded:#}");
    }
    assert!(
        bytes(counts, "pgdemote_proactive") >= 2 * enough,
        "{traded:#}"
    );
    // What is in use stays, whoever asks for it.
    let used = on(&halves, HALF, fast);
    let asked = Strata::new(["guard", "demote", "1G"]).finish();
    asked.expect_success();
    let nr_walks = bytes(&live.json(), "nr_walks");
    wait_for(&live, "two walks after the request", |status| {
        bytes(status, "nr_walks") > nr_walks + 2
    });
    assert!(!run_dir().join("guard/demote").exists(), "it was taken");
    assert!(on(&halves, HALF, fast) >= used.min(enough));
    let nr_walks = bytes(&traded, "nr_walks") - walks_before;
    println!("traded places within {nr_walks} walks");
    end(live);
    halves.end();
}

#[test]
fn what_processes_of_one_group_map_together_goes_down_and_what_another_group_maps_too_stays() {
    needs!("cap_bpf", "memory_cgroup");
    let nodes = two_nodes!();
    let _guard = Guard::new();
    let (_, slow) = kernel_ids(&nodes);
    let (mut family, mut split) = (Halves::start("family"), Halves::start("split"));
    let outside = TestGroup::new("guard-outside");
    // Children that sleep map all of it.
    for halves in [&mut family, &mut split] {
        halves.touch.ask("fork 1");
        halves.touch.ask("hammerrange 0 1");
    }
    let pid = split.touch.pid;
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let child = children.expect("a list").trim().parse().expect("one child");
    outside.take(child);
    let live = Live::start(&tiers(&[]));
    let name = family.name();
    wait_for(&live, "what is shared to go down", |status| {
        told(status, &name, slow) >= 60 * MIB
    });
    let there = |halves: &Halves| halves.on_nodes(&nodes, 0, 2 * HALF).get(&slow).copied();
    assert!(
        there(&family) >= Some(2 * HALF * 9 / 10),
        "{:?}",
        there(&family)
    );
    assert_eq!(there(&split), None, "another group maps it, too");
    // The child, which does nothing, is known to have gone with it: nobody tries that again at each walk.
    let tried = after_walks(&live, "there");
    assert!(tried[1] - tried[0] < HALF / 8, "{tried:?}");
    end(live);
    for mut halves in [family, split] {
        halves.touch.ask("rest");
        halves.touch.ask("reap");
        halves.end();
    }
}

#[test]
fn shared_memory_of_one_group_goes_down_and_what_a_program_beside_it_maps_too_stays() {
    needs!("cap_bpf", "memory_cgroup");
    let nodes = two_nodes!();
    let _guard = Guard::new();
    let (fast, slow) = kernel_ids(&nodes);
    let directory = tempfile::tempdir_in("/dev/shm").expect("shared memory");
    let group = TestGroup::new("guard-shared");
    let all = 2 * HALF;
    let start = |name: &str, is_inside: bool| {
        let path = directory.path().join(name);
        let path = path.to_str().expect("text");
        let mut touch = Touch::start(["--size", "64M", "--shared", "--file", path]);
        if is_inside {
            group.take(touch.pid);
        }
        let touched = if is_inside { "write" } else { "read" };
        touch.ask(&format!("{touched}range 0 {all}"));
        touch
    };
    let inside = ["theirs", "everybody's"].map(|name| [start(name, true), start(name, true)]);
    let stranger = start("everybody's", false);
    let [theirs, everybodys] = &inside;
    let live = Live::start(&tiers(&[]));
    let name = group.name();
    wait_for(&live, "what is theirs to go down", |status| {
        told(status, &name, slow) >= 60 * MIB
    });
    for touch in theirs {
        let there = on_nodes(touch, &nodes, 0, all);
        assert!(there.get(&slow) >= Some(&(all * 9 / 10)), "{there:?}");
    }
    let tried = after_walks(&live, "shared");
    for touch in everybodys {
        let there = on_nodes(touch, &nodes, 0, all);
        assert_eq!(there, BTreeMap::from([(fast, all)]), "a stranger maps it");
    }
    // What a stranger maps is not tried again at each walk.
    assert!(tried[0] >= all, "{tried:?}");
    assert!(tried[1] - tried[0] < HALF / 8, "{tried:?}");
    end(live);
    drop(stranger);
    for mut touch in inside.into_iter().flatten() {
        assert_eq!(touch.ask(&format!("verify 0 {all}")), "0", "as it was");
    }
}

#[test]
fn a_guard_that_is_killed_while_pages_move_leaves_nothing_to_undo() {
    needs!("cap_bpf", "memory_cgroup");
    let nodes = two_nodes!();
    let _guard = Guard::new();
    let (_, slow) = kernel_ids(&nodes);
    let mut halves = Halves::start("killed");
    halves.touch.ask("hammerrange 0 1");
    let name = halves.name();
    let before = halves.group.values();
    let moved = |live: &Live, mib: u64| {
        wait_for(live, "some of it to go down", |status| {
            told(status, &name, slow) >= mib * MIB
        });
    };
    let mut killed = Live::start(&tiers(&[]));
    moved(&killed, 8);
    killed.signal(Signal::KILL);
    killed.end();
    assert_eq!(halves.group.values(), before);
    // The next one goes on, and its end removes what the first has left in the state directory.
    let live = Live::start(&tiers(&[]));
    moved(&live, 24);
    end(live);
    halves.end();
}

#[test]
fn memory_whose_policy_names_its_node_stays_there() {
    needs!("cap_bpf", "memory_cgroup");
    let nodes = two_nodes!();
    let _guard = Guard::new();
    let (fast, slow) = kernel_ids(&nodes);
    let mut halves = Halves::start("bound");
    halves.touch.ask(&format!("bind node{fast} 0 {HALF}"));
    halves.touch.ask("hammerrange 0 1");
    let live = Live::start(&tiers(&[]));
    let name = halves.name();
    wait_for(&live, "the other half to go down", |status| {
        told(status, &name, slow) >= 30 * MIB
    });
    // Two walks more, in which nothing goes.
    let first = bytes(&live.json(), "nr_walks");
    wait_for(&live, "two walks more", |status| {
        bytes(status, "nr_walks") > first + 1
    });
    let bound = halves.on_nodes(&nodes, 0, HALF);
    assert_eq!(bound.get(&fast), Some(&HALF), "{bound:?}");
    end(live);
    halves.end();
}

#[test]
fn a_node_that_a_cpuset_forbids_is_never_used() {
    needs!("cap_bpf", "memory_cgroup");
    let nodes = two_nodes!();
    let _guard = Guard::new();
    let (fast, slow) = kernel_ids(&nodes);
    let halves = Halves::start("cpuset");
    let root = halves.group.path.parent().expect("a parent");
    if fs::write(root.join("cgroup.subtree_control"), "+cpuset").is_err() {
        skip!("no cpuset controller beside memory (cgroup v1)");
    }
    fs::write(halves.group.path.join("cpuset.mems"), fast.to_string()).expect("a cpuset");
    let live = Live::start(&tiers(&[]));
    let refused = wait_for(&live, "moves to be refused", |status| {
        bytes(&status["tiers"]["stayed"], "forbidden") > HALF
    });
    assert_eq!(told(&refused, &halves.name(), slow), 0, "{refused:#}");
    end(live);
    halves.end();
}

/// Page cache of a group on each node, bytes by the kernel's number.
fn cache_on_nodes(group: &TestGroup) -> BTreeMap<u32, u64> {
    let id = fs::metadata(&group.path).expect("a directory").ino();
    let mut census = Census::open().expect("a census");
    let taken = census.take(&Question::default()).expect("taken");
    let of_group = taken
        .groups
        .iter()
        .filter(|part| part.group_id == id && part.kind == Kind::File);
    let mut found = BTreeMap::new();
    for part in of_group {
        *found.entry(part.node.expect("known")).or_default() += part.sums.bytes;
    }
    found
}

#[test]
fn a_file_that_is_read_again_and_again_comes_up_at_the_rate_and_one_that_was_read_once_stays() {
    needs!("cap_bpf", "memory_cgroup");
    let nodes = two_nodes!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let (fast, slow) = kernel_ids(&nodes);
    let group = TestGroup::new("guard-cache-nodes");
    let (often, once) = (
        directory.path().join("often"),
        directory.path().join("once"),
    );
    let mut readers = [&often, &once].map(|path| {
        write_file(&group, path, FILE_MIB);
        forget(path);
        let mut reader = Touch::start_behind(&mut in_group(&group, program("reader")), [path]);
        reader.ask(&format!("node {slow}"));
        reader.ask(&format!("read 0 {}", FILE_MIB * 256));
        reader
    });
    let before = [&often, &once].map(|path| fs::read(path).expect("readable"));
    let on = |node| cache_on_nodes(&group).get(&node).copied().unwrap_or(0);
    assert!(on(slow) >= 2 * FILE_MIB * MIB, "both were read in there");
    let name = group.name();
    let directory = tempfile::tempdir().expect("a directory");
    let rules = directory.path().join("guard.toml");
    let text = format!(
        "[tiers]\npromote = '4M/s'\n[[rule]]\ncgroup = '{name}'\npromise = 'none'\nmin_age = '5s'\ntiers = true\n"
    );
    fs::write(&rules, text).expect("rules");
    let strata = Strata::new([
        "guard",
        "--format",
        "json",
        "--cpu",
        "50%",
        "--history",
        "none",
        "--config",
    ]);
    let live = Live::start(&strata.arg(rules.as_os_str()));
    let promoted = |status: &Value| bytes(&status["tiers"], "nr_promoted_unmapped_pages");
    let (mut told, mut at_ms) = (0, 0);
    let last = wait_for(&live, "the file to come up", |status| {
        readers[0].ask(&format!("read 0 {}", FILE_MIB * 256));
        let (now, now_ms) = (promoted(status), bytes(status, "watched_ms"));
        // A second more than has passed, as what is told may be older than the time of the walk.
        let allowed = (now_ms - at_ms + 2000) * 1024 / 1000;
        assert!(
            now - told <= allowed,
            "{} pages, {allowed} allowed",
            now - told
        );
        (told, at_ms) = (now, now_ms);
        now >= FILE_MIB * 256 * 95 / 100
    });
    assert!(promoted(&last) <= FILE_MIB * 256 + 64, "{last:#}");
    assert!(on(fast) >= (FILE_MIB - 1) * MIB, "the file that is read");
    assert!(
        on(slow) >= (FILE_MIB - 1) * MIB,
        "the file that was read once"
    );
    end(live);
    let after = [&often, &once].map(|path| fs::read(path).expect("readable"));
    assert!(before == after, "files are as they were");
}

#[test]
fn who_looks_at_programs_and_files_is_told_on_which_node_they_are() {
    needs!("cap_bpf", "memory_cgroup");
    let nodes = two_nodes!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let (_, slow) = kernel_ids(&nodes);
    let group = TestGroup::new("guard-seen-nodes");
    let file = directory.path().join("file");
    write_file(&group, &file, FILE_MIB);
    forget(&file);
    let mut reader = Touch::start_behind(&mut in_group(&group, program("reader")), [&file]);
    reader.ask(&format!("node {slow}"));
    reader.ask(&format!("read 0 {}", FILE_MIB * 256));
    let path = group.path.to_str().expect("text");
    let name = path.rsplit('/').next().expect("a name");
    let json = |args: &[&str]| {
        let asked = Strata::new(args).args(["--format", "json"]);
        asked.finish().expect_success().json()
    };
    let files = json(&["files", "--cgroup", path]);
    let rows = files["files"].as_array().expect("files");
    let is_it = |row: &&Value| {
        row["path"]
            .as_str()
            .is_some_and(|path| path.ends_with("/file"))
    };
    let row = rows.iter().find(is_it).expect("the file");
    assert!(
        bytes(&row["nodes"], &slow.to_string()) >= (FILE_MIB - 1) * MIB,
        "{row:#}"
    );

    let halves = Halves::start("seen");
    let there = halves.on_nodes(&nodes, 0, 2 * HALF);
    let pid = halves.touch.pid.to_string();
    let seen = json(&["wss", "--pid", &pid, "--for", "2s", "--interval", "1s"]);
    for (node, nr_pages) in &there {
        let told = bytes(&seen["nodes"], &node.to_string());
        assert!(told >= nr_pages * PAGE_BYTES * 9 / 10, "{there:?} {seen:#}");
    }
    let told: u64 = nodes
        .nodes()
        .iter()
        .map(|node| bytes(&seen["nodes"], &node.kernel_id.to_string()))
        .sum();
    assert_eq!(
        told,
        bytes(&seen, "resident_bytes"),
        "each page is on one node: {seen:#}"
    );

    let ranking = json(&["idle", "--age", "1s"]);
    assert_eq!(
        ranking["nodes"].as_array().map(Vec::len),
        Some(nodes.nodes().len()),
        "{ranking:#}"
    );
    let of_halves = of(&ranking, &halves.name());
    assert!(
        of_halves["fits_node"].is_u64(),
        "{of_halves:#} beside {name}"
    );
    drop(reader);
    halves.end();
}

#[test]
fn where_all_memory_is_equally_fast_that_is_said_and_nothing_moves() {
    needs!("cap_bpf", "memory_cgroup", "zram");
    if Nodes::read().is_ok_and(|nodes| nodes.has_tiers()) {
        skip!("this machine has slower memory");
    }
    let _guard = Guard::new();
    let halves = Halves::start("one-node");
    let mut live = Live::start(&tiers(&["--swap", "zram:256M", "--release"]));
    live.wait_for_stderr("all memory of this machine is equally fast");
    let name = halves.name();
    let status = wait_for(&live, "idle memory to go to swap as ever", |status| {
        bytes(of(status, &name), "away_bytes") > 16 * MIB
    });
    assert!(status["tiers"].is_null(), "{status:#}");
    let asked = Strata::new(["guard", "demote", "16M"]).finish();
    assert_eq!(asked.code(), Some(1), "{}", asked.stdout);
    assert!(asked.stderr.contains("slower memory"), "{}", asked.stderr);
    live.signal(Signal::INT);
    assert_eq!(live.end().code(), Some(0), "{}", live.stderr());
    halves.end();
}
