//! Running `strata` in the background, and cgroups of the tests' own.
//!
//! **Owns** [`Live`], a running `strata` whose output is read as it comes, [`TestGroup`], a memory
//! cgroup that goes when the test ends, [`OwnSwap`], and small readings of `/proc`. **Does not own** any
//! expectation.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use strata_linux::swap::{SwapDevice, SwapSpec};
use strata_linux::undo::Journal;

use super::programs::{program, target_dir};
use super::residency::in_group;
use super::strata::{Strata, patience};

pub(crate) const MIB: u64 = 1 << 20;
/// How long a line or an end may take to come, where builds and other tests want the processors too.
const WAIT: Duration = Duration::from_secs(60);

/// A running `strata`, leader of a process group of its own. Ended when dropped.
#[derive(Debug)]
pub(crate) struct Live {
    child: Child,
    lines: Receiver<String>,
    stderr: Arc<Mutex<String>>,
}

impl Live {
    /// Starts it.
    pub(crate) fn start(strata: &Strata) -> Live {
        Live::start_command(strata.command())
    }

    /// Starts a command that ends in `strata` (or anything else that is to be driven like it).
    pub(crate) fn start_command(mut command: Command) -> Live {
        let mut child = command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let (send, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let stderr = Arc::new(Mutex::new(String::new()));
        let from = BufReader::new(child.stderr.take().expect("piped"));
        let into = Arc::clone(&stderr);
        thread::spawn(move || {
            for line in from.lines().map_while(Result::ok) {
                let mut text = into.lock().expect("stderr");
                text.push_str(&line);
                text.push('\n');
            }
        });
        Live {
            child,
            lines,
            stderr,
        }
    }

    /// Its pid, which is its process group's too.
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a pid")
    }

    /// What the program reads.
    pub(crate) fn stdin(&mut self) -> &mut ChildStdin {
        self.child.stdin.as_mut().expect("piped")
    }

    /// Lets what it reads end.
    pub(crate) fn close_stdin(&mut self) {
        drop(self.child.stdin.take());
    }

    /// The next line of stdout.
    #[track_caller]
    pub(crate) fn line(&self) -> String {
        let line = self.lines.recv_timeout(WAIT * patience());
        line.unwrap_or_else(|_| panic!("no line on stdout; stderr: {}", self.stderr()))
    }

    /// The next line of stdout, which is JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line:?}: {e}"))
    }

    /// Everything on stderr so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().expect("stderr").clone()
    }

    /// Waits until stderr contains `text`.
    #[track_caller]
    pub(crate) fn wait_for_stderr(&self, text: &str) {
        wait_until(&format!("stderr with {text:?}"), || {
            self.stderr().contains(text)
        });
    }

    /// Waits until a run answers, which it does once it manages its target.
    #[track_caller]
    pub(crate) fn wait_until_it_answers(&self) {
        let id = self.pid().to_string();
        let ask = Strata::new(["ctl", "--id", &id, "status"]);
        wait_until("the run to answer", || ask.finish().code() == Some(0));
    }

    /// Sends it a signal, and nobody else.
    pub(crate) fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// Sends everybody in its process group a signal, as a terminal does.
    pub(crate) fn signal_group(&self, signal: Signal) {
        let group = Pid::from_raw(self.pid()).expect("a pid");
        kill_process_group(group, signal).expect("signal");
    }

    /// Whether the process has not ended.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("wait").is_none()
    }

    /// Ends it as ctrl-c does, in order.
    #[track_caller]
    pub(crate) fn interrupt(&mut self) {
        self.signal(Signal::INT);
        assert_eq!(self.end().code(), Some(0), "{}", self.stderr());
    }

    /// Waits for its end; the rest of its stdout can still be read.
    #[track_caller]
    pub(crate) fn end(&mut self) -> ExitStatus {
        self.end_within(WAIT)
    }

    /// The same with a limit of its own.
    #[track_caller]
    pub(crate) fn end_within(&mut self, limit: Duration) -> ExitStatus {
        let deadline = Instant::now() + limit * patience();
        loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                // What it wrote last may still be on its way through the collecting thread.
                thread::sleep(Duration::from_millis(50));
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "has not ended; stderr: {}",
                self.stderr()
            );
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Live {
    /// Of a test that failed: what Strata set up it takes down itself, if it is asked to end. Killed, it
    /// would leave that to its keeper, which the test's directories would be pulled away from.
    fn drop(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(5) * patience();
        let pid = Pid::from_child(&self.child);
        let mut is_over = || !matches!(self.child.try_wait(), Ok(None));
        if !is_over() && kill_process(pid, Signal::TERM).is_ok() {
            while !is_over() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(10));
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Compressed swap that somebody else than Strata is to have made. Taken down when dropped.
#[derive(Debug)]
pub(crate) struct OwnSwap(SwapDevice);

impl OwnSwap {
    /// Makes it.
    pub(crate) fn zram(size: &str) -> OwnSwap {
        let spec: SwapSpec = format!("zram:{size}").parse().expect("swap");
        OwnSwap(SwapDevice::create(&spec, &Journal::none()).expect("made"))
    }
}

impl Drop for OwnSwap {
    fn drop(&mut self) {
        // What a full group of another test has here does not fit for a moment. Tests that need that there is no swap wait for what stays.
        let deadline = Instant::now() + WAIT * patience();
        let mut gone = self.0.take_down();
        while gone.is_err() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(100));
            gone = self.0.take_down();
        }
        assert!(gone.is_ok() || thread::panicking(), "{gone:?}");
    }
}

/// The hard limit of a group, bytes; `None` where there is none.
pub(crate) fn limit_bytes(group: &Path) -> Option<u64> {
    let (_, is_v1) = memory_mount().expect("a memory controller");
    let name = match is_v1 {
        true => "memory.limit_in_bytes",
        false => "memory.max",
    };
    let text = fs::read_to_string(group.join(name)).unwrap_or_default();
    // Without a limit v1 shows the largest number of whole pages.
    let bytes = text.trim().parse::<u64>().ok();
    bytes.filter(|bytes| *bytes < 1 << 62)
}

/// Whether a hard limit stands on the group.
pub(crate) fn is_limited(group: &Path) -> bool {
    limit_bytes(group).is_some()
}

/// `strata VERB OPTIONS -- signals`; the pid of `signals`, which tells each that it gets, as well.
pub(crate) fn start_signals(strata: Strata) -> (Live, i32) {
    let live = Live::start(&strata.arg("--").arg(program("signals")));
    let told = live.json();
    assert_eq!(told["pgid"], live.pid(), "it stays in our process group");
    let pid = told["pid"].as_i64().expect("pid") as i32;
    (live, pid)
}

/// The keepers of a Strata.
pub(crate) fn keepers_of(strata: i32) -> Vec<i32> {
    let is_keeper = |pid: &i32| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split('\0').nth(1) == Some("keeper")
    };
    children(strata).into_iter().filter(is_keeper).collect()
}

/// A program that has touched so much and sleeps until it is ended, in a group from its first instruction; its pid as well.
pub(crate) fn idle_in(group: &TestGroup, size: &str) -> (Live, i32) {
    let mut command = in_group(group, program("idle"));
    command.args(["--size", size, "--seconds", "0"]);
    let live = Live::start_command(command);
    let pid = live.json()["pid"].as_i64().expect("pid") as i32;
    (live, pid)
}

/// Sends one process a signal.
pub(crate) fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).expect("a pid"), signal).expect("signal");
}

/// Waits until something is so, or fails the test.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + WAIT * patience();
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Does something up to three times, until what it gives `is_so`; the last otherwise. For what others on a machine can
/// disturb now and then: they take processors, are slow at the disk, and evict idle pages, as DAMON does.
pub(crate) fn try_thrice<T>(mut what: impl FnMut() -> T, is_so: impl Fn(&T) -> bool) -> T {
    let mut given = what();
    for _ in 0..2 {
        if is_so(&given) {
            break;
        }
        given = what();
    }
    given
}

/// Stops a process and waits until it has. The keeper has a stopped Strata go on, within a second.
#[track_caller]
pub(crate) fn stop(pid: i32) {
    wait_until("it to stop", || {
        send(pid, Signal::STOP);
        state(pid) == 'T'
    });
}

/// The value of a line `name: N kB` of a `/proc` file, bytes.
pub(crate) fn proc_bytes(path: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib = line.trim_start_matches(':').split_whitespace().next()?;
    Some(kib.parse::<u64>().ok()? << 10)
}

/// Resident memory of a process, bytes; 0 when it is gone.
pub(crate) fn rss_bytes(pid: i32) -> u64 {
    proc_bytes(&format!("/proc/{pid}/status"), "VmRSS").unwrap_or(0)
}

/// The state letter of a process, `X` when it is gone.
pub(crate) fn state(pid: i32) -> char {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    after.unwrap_or('X')
}

/// Major faults of a process so far.
pub(crate) fn major_faults(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = stat.rsplit(") ").next().unwrap_or_default();
    let field = rest.split_whitespace().nth(9);
    field.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Children of a process, by any of its threads.
pub(crate) fn children(pid: i32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let lists = tasks.into_iter().flatten().flatten();
    let lists = lists.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let pids = lists.flat_map(|list| {
        let pids = list.split_whitespace().map(str::parse::<i32>);
        pids.filter_map(Result::ok).collect::<Vec<_>>()
    });
    pids.collect()
}

/// Whether the kernel keeps generations, not two lists.
pub(crate) fn has_generations() -> bool {
    fs::read_to_string("/sys/kernel/mm/lru_gen/enabled").is_ok_and(|text| text.trim() != "0x0000")
}

/// Threads of the machine that run or wait for a processor at this moment.
pub(crate) fn nr_runnable() -> usize {
    let loadavg = fs::read_to_string("/proc/loadavg").expect("loadavg");
    let nr_runnable = loadavg.split(['/', ' ']).nth(3);
    nr_runnable
        .and_then(|of| of.parse().ok())
        .expect("a number of threads")
}

/// The zram device that the state in a session's directory names.
pub(crate) fn kept_swap(directory: &Path) -> Option<String> {
    let text = fs::read(directory.join("state.json")).ok()?;
    let state: Value = serde_json::from_slice(&text).expect("JSON");
    let undo = state["undo"].as_array()?.iter();
    let mut paths = undo.filter_map(|undo| undo["path"].as_str());
    let device = paths.find(|path| path.starts_with("/dev/zram"))?;
    Some(device.to_owned())
}

/// The swap devices in use now.
pub(crate) fn swap_devices() -> Vec<String> {
    let text = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let names = text
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next());
    names.map(str::to_owned).collect()
}

/// A directory whose files are not memory themselves: their pages can be dropped without swap. The
/// error says why there is none.
pub(crate) fn disk_directory() -> Result<tempfile::TempDir, String> {
    /// From `linux/magic.h`: tmpfs, ramfs, and overlayfs, which may lie on either.
    const NOT_DISK: [u64; 3] = [0x0102_1994, 0x8584_58f6, 0x794c_7630];
    let directory = tempfile::tempdir_in(target_dir()).expect("directory");
    let kind = rustix::fs::statfs(directory.path()).expect("statfs").f_type as u64;
    match NOT_DISK.contains(&kind) {
        true => Err(format!("{} is not on a disk", target_dir().display())),
        false => Ok(directory),
    }
}

/// Where the memory controller is mounted, and whether that is cgroup v1.
pub(crate) fn memory_mount() -> Option<(PathBuf, bool)> {
    let v1 = Path::new("/sys/fs/cgroup/memory");
    if v1.join("memory.limit_in_bytes").exists() {
        return Some((v1.to_owned(), true));
    }
    let v2 = Path::new("/sys/fs/cgroup");
    let controllers = fs::read_to_string(v2.join("cgroup.controllers")).ok()?;
    let has_memory = controllers.split_whitespace().any(|name| name == "memory");
    has_memory.then(|| (v2.to_owned(), false))
}

/// The memory cgroup a process is in.
pub(crate) fn memory_group_of(pid: i32) -> PathBuf {
    let (mount, is_v1) = memory_mount().expect("a memory controller");
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("cgroup file");
    let path = text.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let is_it = match is_v1 {
            true => controllers.split(',').any(|name| name == "memory"),
            false => controllers.is_empty(),
        };
        is_it.then_some(path)
    });
    mount.join(path.expect("a memory group").trim_start_matches('/'))
}

/// A memory cgroup of the test's own below the mount; removed when dropped, its processes go back.
#[derive(Debug)]
pub(crate) struct TestGroup {
    /// Its directory.
    pub(crate) path: PathBuf,
    parent: PathBuf,
    is_v1: bool,
    enabled: bool,
}

impl TestGroup {
    /// Makes it.
    pub(crate) fn new(name: &str) -> TestGroup {
        let (parent, is_v1) = memory_mount().expect("a memory controller");
        let control = parent.join("cgroup.subtree_control");
        let has_memory = || fs::read_to_string(&control).is_ok_and(|text| text.contains("memory"));
        let enabled = !is_v1 && !has_memory();
        if enabled {
            fs::write(&control, "+memory").expect("the memory controller can be enabled");
        }
        let path = parent.join(format!("strata-test-{name}-{}", std::process::id()));
        fs::create_dir(&path).expect("a cgroup can be made");
        TestGroup {
            path,
            parent,
            is_v1,
            enabled,
        }
    }

    /// Has groups below it count their memory apart, which on cgroup v1 they do anyhow.
    pub(crate) fn with_below(self) -> TestGroup {
        let control = self.path.join("cgroup.subtree_control");
        if control.exists() {
            fs::write(control, "+memory").expect("the memory controller is handed on");
        }
        self
    }

    /// Makes one below it, to be dropped first.
    pub(crate) fn below(&self, name: &str) -> TestGroup {
        let path = self.path.join(name);
        fs::create_dir(&path).expect("a cgroup can be made");
        TestGroup {
            path,
            parent: self.path.clone(),
            is_v1: self.is_v1,
            enabled: false,
        }
    }

    /// Its path as `/proc` and the status of a guard tell it.
    pub(crate) fn name(&self) -> String {
        let (mount, _) = memory_mount().expect("a memory controller");
        let below = self.path.strip_prefix(mount).expect("below the mount");
        format!("/{}", below.display())
    }

    /// Moves a process into it.
    pub(crate) fn take(&self, pid: i32) {
        fs::write(self.path.join("cgroup.procs"), pid.to_string()).expect("can be moved");
    }

    /// Everything in it that Strata may change, as text.
    pub(crate) fn values(&self) -> Vec<(&'static str, Option<String>)> {
        let names: &[&'static str] = match self.is_v1 {
            true => &[
                "memory.limit_in_bytes",
                "memory.soft_limit_in_bytes",
                "memory.swappiness",
                "memory.oom_control",
            ],
            false => &["memory.max", "memory.high", "memory.low", "memory.swap.max"],
        };
        let read = |name| {
            let text = fs::read_to_string(self.path.join(name)).ok()?;
            // Its counters move by themselves.
            Some(text.lines().next()?.to_owned())
        };
        names.iter().map(|&name| (name, read(name))).collect()
    }

    /// Limits its memory; `None` lifts the limit.
    pub(crate) fn limit(&self, bytes: Option<u64>) {
        let (name, unlimited) = match self.is_v1 {
            true => ("memory.limit_in_bytes", "-1"),
            false => ("memory.max", "max"),
        };
        let text = bytes.map_or_else(|| unlimited.to_owned(), |bytes| bytes.to_string());
        fs::write(self.path.join(name), text).expect("a limit");
    }

    /// Memory charged to it, bytes.
    pub(crate) fn usage_bytes(&self) -> u64 {
        let name = match self.is_v1 {
            true => "memory.usage_in_bytes",
            false => "memory.current",
        };
        let text = fs::read_to_string(self.path.join(name)).expect("usage");
        text.trim().parse().expect("a number")
    }
}

impl Drop for TestGroup {
    fn drop(&mut self) {
        let pids = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        for pid in pids.split_whitespace() {
            let _ = fs::write(self.parent.join("cgroup.procs"), pid);
        }
        let deadline = Instant::now() + Duration::from_secs(5);
        while self.path.exists() && fs::remove_dir(&self.path).is_err() && Instant::now() < deadline
        {
            thread::sleep(Duration::from_millis(20));
        }
        if self.enabled {
            let _ = fs::write(self.parent.join("cgroup.subtree_control"), "-memory");
        }
    }
}
