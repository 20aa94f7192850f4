//! Sums: what `strata wss` and `strata idle` tell of programs that share memory against what the kernel counts.

use crate::support::prelude::*;

/// Pages of programs and libraries that somebody else has read into memory, and pays for.
const OTHERS_FILES_BYTES: u64 = 8 * MIB;

/// A process with its children.
struct Family {
    live: Live,
    pids: Vec<i32>,
}

impl Family {
    /// Starts one that prints `pid` and `children` when all is ready.
    fn start(command: Command) -> Family {
        let live = Live::start_command(command);
        let told = live.json();
        let children = told["children"].as_array().expect("a list").iter();
        let pids = std::iter::once(&told["pid"]).chain(children);
        let pids = pids
            .map(|pid| pid.as_i64().expect("a pid") as i32)
            .collect();
        Family { live, pids }
    }

    fn prefork(args: &[&str]) -> Family {
        let mut command = Command::new(program("prefork"));
        command.args(args);
        Family::start(command)
    }

    /// Of all its processes, of one field of `smaps_rollup`.
    fn rollup_bytes(&self, field: &str) -> u64 {
        self.pids.iter().map(|pid| rollup_bytes(*pid, field)).sum()
    }

    fn wss(&self) -> Value {
        let seconds = 3 * patience().div_ceil(3);
        let run = Strata::new(["wss", "--format", "json", "--tree"]);
        let run = run.arg(self.live.pid().to_string());
        let run = run.args(["--interval", "200ms", "--window", "1s"]);
        let run = run.args(["--for", &format!("{seconds}s")]);
        run.finish().expect_success().json()
    }

    /// Anonymous memory is told within 2 % of the sum of what the kernel says is each process's part of it.
    fn assert_adds_up(&self) -> Value {
        let report = self.wss();
        let told = number(&report["anon_bytes"]);
        let counted = self.rollup_bytes("Pss_Anon:") + self.rollup_bytes("Pss_Shmem:");
        assert!(
            told.abs_diff(counted) * 50 <= counted,
            "{} MiB told, {} MiB counted: {report:#}",
            told / MIB,
            counted / MIB
        );
        let all = number(&report["resident_bytes"]);
        let counted = self.rollup_bytes("Pss:");
        assert!(
            counted * 98 <= all * 100 && all * 98 <= (counted + OTHERS_FILES_BYTES) * 100,
            "{} MiB told, {} MiB counted: {report:#}",
            all / MIB,
            counted / MIB
        );
        report
    }
}

fn rollup_bytes(pid: i32, field: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("it runs");
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kib = kib.unwrap_or_else(|| panic!("no {field} in {text}"));
    kib.parse::<u64>().expect("a number") << 10
}

#[test]
fn what_small_forked_processes_share_adds_up_and_is_seen_page_by_page() {
    live!("cap_bpf");
    let args = ["--size", "24M", "--children", "5", "--own", "2M"];
    let family = Family::prefork(&[&args[..], &["--hot", "4M", "--object", "4M"]].concat());
    let report = family.assert_adds_up();
    assert_eq!(number(&report["unknown_bytes"]), 0, "{report:#}");
    let used = number(&report["windows"][0]["anon_bytes"]);
    assert!((4 * MIB..6 * MIB).contains(&used), "{used}: {report:#}");
}

#[test]
fn what_large_forked_processes_share_adds_up_and_does_not_look_used_for_ever() {
    live!("cap_bpf");
    let args = ["--size", "256M", "--children", "3", "--own", "8M"];
    let family = Family::prefork(&[&args[..], &["--hot", "4M", "--object", "16M"]].concat());
    let report = family.assert_adds_up();
    // What several map can't be cleared in spaces so large; what each wrote can.
    let shared = 248 * MIB;
    let unknown = number(&report["unknown_bytes"]);
    assert!(
        (shared * 98 / 100..shared + 20 * MIB).contains(&unknown),
        "{unknown}: {report:#}"
    );
    let used = number(&report["windows"][0]["anon_bytes"]);
    assert!(used < 2 * MIB, "{used}: {report:#}");
    // It is not tried at every walk.
    let resting = number(&report["cost"]["nr_resting_pages"]);
    assert!(resting > 0, "{report:#}");
}

#[test]
fn what_a_python_and_its_workers_share_adds_up() {
    live!("cap_bpf");
    let mut command = Command::new("python3");
    command.args(["-c", PYTHON]);
    if !Command::new("python3")
        .arg("--version")
        .output()
        .is_ok_and(|run| run.status.success())
    {
        skip!("there is no python3");
    }
    Family::start(command).assert_adds_up();
}

/// A server written in Python that loads 100 MiB, writes 16 MiB of a private mapping of a file, and then forks.
const PYTHON: &str = "
import ctypes, json, mmap, os, tempfile, time
data = [bytes(1000) + bytes([i % 256]) for i in range(100000)]
file = tempfile.TemporaryFile()
file.truncate(16 << 20)
private = mmap.mmap(file.fileno(), 16 << 20, flags=mmap.MAP_PRIVATE)
private.write(b'x' * (16 << 20))
libc = ctypes.CDLL(None)
children = []
for _ in range(4):
    pid = os.fork()
    if pid == 0:
        libc.prctl(1, 9)
        while True:
            sum(len(item) for item in data[:1000])
            time.sleep(0.05)
    children.append(pid)
time.sleep(0.5)
print(json.dumps({'pid': os.getpid(), 'children': children}), flush=True)
while True:
    time.sleep(0.05)
";

#[test]
fn a_group_holds_no_more_than_it_is_charged_for_and_what_it_shares() {
    live!("cap_bpf", "memory_cgroup");
    let groups = ["sums-a", "sums-b"].map(TestGroup::new);
    let mut command = Command::new("sh");
    command.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]);
    command.arg(groups[0].path.join("cgroup.procs"));
    command.arg(program("prefork"));
    command.args(["--size", "96M", "--children", "3", "--own", "8M"]);
    command.args(["--object", "16M", "--group"]);
    command.arg(&groups[1].path);
    let _family = Family::start(command);
    let run = Strata::new(["idle", "--age", "1s", "--format", "json"]);
    let report = run.finish().expect_success().json();
    let of = |group: &TestGroup| {
        let name = group.path.file_name().expect("a name").to_string_lossy();
        let told = report["groups"].as_array().expect("a list").iter();
        let mut found = told.filter(|told| told["group"] == format!("/{name}"));
        found
            .next()
            .unwrap_or_else(|| panic!("no {name}: {report:#}"))
    };
    let shared = (88 + 16) * MIB;
    for group in &groups {
        let told = of(group);
        let [resident, shared_bytes, charged] =
            ["resident_bytes", "shared_bytes", "charged_bytes"].map(|key| number(&told[key]));
        assert!(
            resident <= charged + shared_bytes + OTHERS_FILES_BYTES,
            "{told:#}"
        );
        assert!(
            (shared..shared + 8 * MIB).contains(&shared_bytes),
            "{told:#}"
        );
    }
    let [first, second] =
        [&groups[0], &groups[1]].map(|group| number(&of(group)["resident_bytes"]));
    let expected = [(96 + 16) * MIB, (88 + 3 * 8 + 16) * MIB];
    for (told, expected) in [first, second].into_iter().zip(expected) {
        assert!(
            (expected..expected + OTHERS_FILES_BYTES).contains(&told),
            "{told} of {expected}: {report:#}"
        );
    }
    let everybody = number(&report["resident_bytes"]);
    let groups = report["groups"].as_array().expect("a list").iter();
    let [resident, shared] = ["resident_bytes", "shared_bytes"]
        .map(|key| groups.clone().map(|group| number(&group[key])).sum::<u64>());
    assert!(
        everybody <= resident && everybody + shared >= resident,
        "{report:#}"
    );
}
