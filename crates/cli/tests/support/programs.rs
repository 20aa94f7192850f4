//! The C workloads of `tests/programs`, compiled when first asked for.
//!
//! **Owns** the compiled copies under `target/test-programs/`, [`Touch`], the workload that obeys
//! commands, and [`BusyLoops`]. **Does not own** what the programs do: each says that at its top.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The root of the checkout.
pub(crate) fn checkout() -> PathBuf {
    // Both crates that use this file lie two levels below it.
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("checkout")
}

/// Where build products go.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| checkout().join("target"), PathBuf::from)
}

/// The path of a compiled workload, for example `program("zipf")`.
pub(crate) fn program(name: &str) -> PathBuf {
    let sources = checkout().join("tests/programs");
    let source = sources.join(format!("{name}.c"));
    let built = target_dir().join("test-programs").join(name);
    let modified = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).ok();
    let headers = ["common.h", "zipf.h"].map(|header| modified(&sources.join(header)));
    let newest = headers.into_iter().fold(modified(&source), Option::max);
    assert!(
        newest.is_some(),
        "no workload called {name} in {}",
        sources.display()
    );
    if modified(&built) >= newest {
        return built;
    }
    // Several tests may want it at once: each builds a copy of its own, and the last rename wins.
    static COPIES: AtomicU32 = AtomicU32::new(0);
    let copy = COPIES.fetch_add(1, Ordering::Relaxed);
    let fresh = built.with_extension(format!("{}.{copy}", std::process::id()));
    fs::create_dir_all(built.parent().expect("has a parent")).expect("target directory");
    let output = Command::new("gcc")
        .args([
            "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o",
        ])
        .args([&fresh, &source])
        .arg("-lm")
        .output()
        .expect("gcc can be run");
    assert!(
        output.status.success(),
        "{name}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    fs::rename(&fresh, &built).expect("rename");
    built
}

/// One step of splitmix64, as in `common.h`.
pub(crate) fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The pages that `touch` picks for `read SEED COUNT`, sorted.
pub(crate) fn page_set(seed: u64, count: u64, nr_pages: u64) -> Vec<u64> {
    let mut state = seed;
    let mut all: Vec<u64> = (0..nr_pages).collect();
    for i in 0..count {
        let below = u128::from(nr_pages - i);
        let offset = ((u128::from(next_random(&mut state)) * below) >> 64) as u64;
        all.swap(i as usize, (i + offset) as usize);
    }
    all.truncate(count as usize);
    all.sort_unstable();
    all
}

/// A running `touch`: a region of memory that does what it is told. Ended when dropped.
#[derive(Debug)]
pub(crate) struct Touch {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// First byte of the region, 2 MiB aligned.
    pub(crate) address: u64,
    /// Pages of the region.
    pub(crate) nr_pages: u64,
    /// Its process; the child itself unless it was started behind another command.
    pub(crate) pid: i32,
}

impl Touch {
    /// Starts `touch` with these options, for example `["--size", "64M"]`.
    pub(crate) fn start<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(options: I) -> Touch {
        Touch::start_behind(&mut Command::new(program("touch")), options)
    }

    /// Starts it through a command that ends in the path of `touch`.
    pub(crate) fn start_behind<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(
        command: &mut Command,
        options: I,
    ) -> Touch {
        let mut child = command
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("touch starts");
        let stdin = child.stdin.take().expect("piped");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let (address, nr_pages, pid) = Touch::ready(&mut stdout);
        Touch {
            child,
            stdin,
            stdout,
            address,
            nr_pages,
            pid,
        }
    }

    fn ready(stdout: &mut BufReader<ChildStdout>) -> (u64, u64, i32) {
        let mut line = String::new();
        stdout.read_line(&mut line).expect("touch says ready");
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some("ready"), "touch said {line:?}");
        let mut word = || words.next().expect("ready ADDRESS PAGES PID");
        let address = u64::from_str_radix(word().trim_start_matches("0x"), 16).expect("address");
        let nr_pages = word().parse().expect("pages");
        (address, nr_pages, word().parse().expect("pid"))
    }

    /// Has it become the same program anew.
    pub(crate) fn exec(&mut self) {
        writeln!(self.stdin, "exec").expect("touch listens");
        (self.address, self.nr_pages, self.pid) = Touch::ready(&mut self.stdout);
    }

    /// Sends a command and returns its answer, `ok ...` or `error ...`.
    pub(crate) fn try_ask(&mut self, command: &str) -> String {
        writeln!(self.stdin, "{command}").expect("touch listens");
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("touch answers");
        assert!(!line.is_empty(), "touch ended at {command:?}");
        line.trim_end().to_owned()
    }

    /// Sends a command that must succeed and returns what follows `ok`.
    pub(crate) fn ask(&mut self, command: &str) -> String {
        let answer = self.try_ask(command);
        let rest = answer.strip_prefix("ok");
        rest.unwrap_or_else(|| panic!("touch: {command}: {answer}"))
            .trim()
            .to_owned()
    }

    /// The address of a page of the region.
    pub(crate) fn page_address(&self, page: u64) -> u64 {
        self.address + page * 4096
    }
}

impl Drop for Touch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A thread that does nothing but run on each processor, until it is dropped.
#[derive(Debug)]
pub(crate) struct BusyLoops(Child);

impl BusyLoops {
    /// They run.
    pub(crate) fn start() -> BusyLoops {
        let nr_processors = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = nr_processors.min(64).to_string();
        let child = Command::new(program("zipf"))
            .args(["--size", "1M", "--seconds", "600", "--threads", &threads])
            .stdout(Stdio::null())
            .spawn();
        BusyLoops(child.expect("zipf starts"))
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
