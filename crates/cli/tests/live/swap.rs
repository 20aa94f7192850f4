//! Swap belongs to the machine: who is charged for what lies in it, and what is left there of a program that
//! Strata lets go.

use crate::support::prelude::*;

/// A run whose own program stays in memory, with a zram device that is there for everybody.
struct Holder {
    run: Run,
    device: String,
}

impl Holder {
    fn start() -> Holder {
        let before = swap_devices();
        let run = Run::start_program(
            &["--memory", "64M", "--swap", "zram:256M"],
            &["idle", "--size", "8M", "--seconds", "0"],
        );
        run.live.line();
        let mut made = swap_devices().into_iter();
        let device = made.find(|path| !before.contains(path));
        Holder {
            run,
            device: device.expect("a device of its own"),
        }
    }

    /// A value of `mm_stat`: what the device holds, or the memory it takes.
    fn device_bytes(&self, field: usize) -> u64 {
        let name = Path::new(&self.device).file_name().expect("a name");
        let path = Path::new("/sys/block").join(name).join("mm_stat");
        let text = fs::read_to_string(path).expect("mm_stat");
        let value = text.split_whitespace().nth(field);
        value
            .and_then(|value| value.parse().ok())
            .expect("a number")
    }

    fn run(&self, args: &[&str]) -> Strata {
        let run = Strata::new(["run"]).args(args);
        run.env("STRATA_RUN_DIR", self.run.run_dir.path())
    }

    fn status_of(&self, pid: i32) -> Value {
        self.run.ask(&["--id", &pid.to_string(), "status"])
    }

    /// What a run says of itself after it has looked again.
    fn next_saved(&self, pid: i32) -> Value {
        let elapsed_ms = |status: &Value| status["elapsed_ms"].as_u64().expect("a time");
        let from_ms = elapsed_ms(&self.status_of(pid));
        let mut status = Value::Null;
        wait_until("two more samples", || {
            status = self.status_of(pid);
            elapsed_ms(&status) > from_ms + 2100
        });
        status["saved"].clone()
    }

    fn end(mut self) {
        let live = &mut self.run.live;
        live.signal(Signal::TERM);
        assert_eq!(live.end().code(), Some(143), "{}", live.stderr());
    }
}

#[test]
fn swap_is_as_asked_for_and_what_can_not_be_made_is_refused_and_leaves_nothing() {
    live!("memory_cgroup", "zram");
    let run = |swap: &str, script: &str| {
        let options = ["run", "--memory", "64M", "--policy", "none", "--swap", swap];
        let strata = Strata::new(options).args(["-q", "--", "sh", "-c", script]);
        strata.finish()
    };
    let disk = open_disk!();
    let at = |name| disk.path().join(name);
    let in_memory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let memory = in_memory.path().join("swap");
    fs::write(at("precious"), "data").expect("written");
    std::os::unix::fs::symlink(at("nowhere"), at("link")).expect("made");
    let file = |path: &Path, size: &str| format!("file:{}:{size}", path.display());
    for (swap, why) in [
        (
            "zram:18M,no-such-algorithm".to_owned(),
            "this kernel offers",
        ),
        (file(&at("precious"), "1M"), "exists already"),
        (file(&at("link"), "1M"), "exists already"),
        (file(&at("no/such/dir"), "1M"), "No such file"),
        (file(&memory, "4M"), "can't live on"),
        (file(&at("large"), "900T"), "large"),
    ] {
        let said = run(&swap, "echo started");
        assert_eq!((said.code(), &*said.stdout), (Some(125), ""), "{swap}");
        assert!(said.stderr.contains(why), "{swap}: {}", said.stderr);
    }
    assert_eq!(fs::read_to_string(at("precious")).expect("read"), "data");
    assert!(!memory.exists() && !at("large").exists());

    let said = run("zram:18M,no-such-algorithm", "true").stderr;
    let offered = said.split("offers ").nth(1).expect("algorithms");
    let mut nr_usable = 0;
    for algorithm in offered.trim().split(", ") {
        let script = "grep zram /proc/swaps; cat /sys/block/zram*/mm_stat";
        let said = run(&format!("zram:33M,{algorithm}"), script);
        // Named by the device, but its module is not there (seen on 6.1).
        if said.stderr.contains("kernel module is missing") {
            continue;
        }
        nr_usable += 1;
        let told = said.expect_success().stdout;
        let is_ours = |line: &&str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            // The highest priority there is.
            let is_area = words.get(4) == Some(&"32767");
            is_area
                && words[2]
                    .parse()
                    .is_ok_and(|kib| (32 << 10..=33 << 10).contains(&kib))
        };
        assert!(told.lines().any(|line| is_ours(&line)), "{told}");
        let limit = (33 * MIB).to_string();
        assert!(told.split_whitespace().any(|word| word == limit), "{told}");
    }
    assert!(nr_usable > 0);
    let path = at("swap file");
    let said = run(
        &file(&path, "32M"),
        &format!("stat -c '%a %s' '{}'", path.display()),
    );
    assert_eq!(said.stdout, "600 33554432\n", "{}", said.stderr);
    assert!(!path.exists());
    // Nothing is left of these sizes, which other tests do not ask for meanwhile, nor in these directories.
    let swaps = fs::read_to_string("/proc/swaps").expect("swaps");
    let kib = |line: &str| line.split_whitespace().nth(2)?.parse::<u64>().ok();
    let is_of = |mib: u64, kib: u64| ((mib << 10) - 64..=mib << 10).contains(&kib);
    let is_ours = |line: &str| kib(line).is_some_and(|kib| is_of(18, kib) || is_of(33, kib));
    assert!(!swaps.lines().any(is_ours), "{swaps}");
    for directory in [disk.path(), in_memory.path()] {
        assert!(!swaps.contains(&directory.display().to_string()), "{swaps}");
    }
}

#[test]
fn a_run_is_charged_for_its_own_pages_in_swap_not_for_those_of_another() {
    live!("memory_cgroup", "zram", "page_walk");
    let holder = Holder::start();
    let other = holder
        .run(&["--memory", "48M", "--swap", "existing", "--"])
        .arg(program("idle"))
        .args(["--size", "128M", "--seconds", "0"]);
    let mut other = Live::start(&other);
    other.line();
    wait_until("pages of the other in the device", || {
        holder.device_bytes(0) > 64 * MIB && holder.device_bytes(2) > 16 * MIB
    });
    let saved = holder.next_saved(holder.run.live.pid());
    assert!(
        number(&saved["zram_bytes"]) <= number(&saved["evicted_bytes"]) + MIB
            && number(&saved["zram_bytes"]) < 8 * MIB,
        "{saved} of a device that takes {}",
        holder.device_bytes(2)
    );
    let saved = holder.next_saved(other.pid());
    assert!(number(&saved["evicted_bytes"]) > 64 * MIB, "{saved}");
    assert!(number(&saved["zram_bytes"]) > 16 * MIB, "{saved}");
    other.signal(Signal::TERM);
    assert_eq!(other.end().code(), Some(143), "{}", other.stderr());
    holder.end();
}

/// Attaches to the group with a budget, waits until it is kept, lets go, and returns the report.
fn manage_for_a_while(holder: &Holder, group: &TestGroup, options: &[&str]) -> (Value, String) {
    let report = holder.run.run_dir.path().join("report.json");
    let strata = holder
        .run(&["--memory", "48M", "--swap", "existing", "--cgroup"])
        .arg(&group.path)
        .arg("--report")
        .arg(&report)
        .args(options);
    let mut live = Live::start(&strata);
    let id = live.pid().to_string();
    wait_until("Strata to be there", || {
        holder.run.ctl(&["--id", &id, "status"]).code() == Some(0)
    });
    wait_until("the budget to be kept", || group.usage_bytes() <= 48 * MIB);
    live.interrupt();
    let report = json_in(report);
    (report["let_go"].clone(), live.stderr())
}

#[test]
fn who_is_let_go_is_told_what_is_in_swap_and_gets_it_back_as_far_as_it_fits() {
    live!("memory_cgroup", "zram", "page_walk", "process_madvise");
    let holder = Holder::start();
    let group = TestGroup::new("let-go");
    let mut touch = Touch::start(["--size", "96M"]);
    group.take(touch.pid);
    touch.ask("writerange 0 24576");
    let status = format!("/proc/{}/status", touch.pid);
    let in_swap = || proc_bytes(&status, "VmSwap").expect("a process");

    let (let_go, said) = manage_for_a_while(&holder, &group, &[]);
    assert!(number(&let_go["swapped_bytes"]) > 32 * MIB, "{let_go}");
    assert!(let_go["brought_back_bytes"].is_null(), "{let_go}");
    assert!(in_swap() > 32 * MIB, "nobody reads it back");
    assert_has(&said, "in swap (--bring-back");

    // Not above a limit that was there before.
    group.limit(Some(64 * MIB));
    let (let_go, said) = manage_for_a_while(&holder, &group, &["--bring-back"]);
    let brought_back = number(&let_go["brought_back_bytes"]);
    assert!(brought_back >= 8 * MIB, "{let_go} {said}");
    let usage_bytes = group.usage_bytes();
    assert!(usage_bytes <= 64 * MIB, "{usage_bytes} {let_go} {said}");
    assert!(in_swap() > 24 * MIB, "{} in swap", in_swap());

    group.limit(None);
    let (let_go, said) = manage_for_a_while(&holder, &group, &["--bring-back"]);
    assert!(number(&let_go["brought_back_bytes"]) > 32 * MIB, "{let_go}");
    assert!(in_swap() < MIB, "{} in swap: {said}", in_swap());
    assert!(number(&let_go["swapped_bytes"]) < 4 * MIB, "{let_go}");
    assert_has(&said, "read back in");
    assert_eq!(touch.ask("verify 0 24576"), "0", "pages that are wrong");
    drop(touch);
    drop(group);
    holder.end();
}

#[test]
fn swap_that_a_group_has_no_room_for_stays_after_a_run_until_there_is() {
    live!("memory_cgroup", "zram", "page_walk", "process_madvise");
    let run_dir = tempfile::tempdir().expect("directory");
    // Swap elsewhere does not help.
    let other = OwnSwap::zram("512M");
    let above = TestGroup::new("crowded").with_below();
    let group = above.below("run");
    let mut touch = Touch::start(["--size", "96M"]);
    group.take(touch.pid);
    touch.ask("writerange 0 24576");
    let strata = Strata::new(["run", "--memory", "32M", "--swap", "zram:512M", "--cgroup"])
        .arg(&group.path)
        .env("STRATA_RUN_DIR", run_dir.path());
    let mut live = Live::start(&strata);
    wait_until("the budget to be kept", || group.usage_bytes() <= 32 * MIB);
    above.limit(Some(36 * MIB));
    live.interrupt();
    assert!(live.stderr().contains("stays in use"), "{}", live.stderr());
    let state = run_dir.path().join(live.pid().to_string());
    let device = kept_swap(&state).expect("a device");
    assert!(swap_devices().contains(&device));
    above.limit(None);
    wait_until("the keeper to end", || !state.exists());
    assert!(!swap_devices().contains(&device));
    assert_eq!(touch.ask("verify 0 24576"), "0", "pages that are wrong");
    drop(touch);
    drop((group, above));
    drop(other);
}
