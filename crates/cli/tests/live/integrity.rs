//! No value of a real program is lost or stale, whoever evicts it. `held` has a program that checks its own pages.

use crate::support::prelude::*;

use std::fmt::Write as _;

/// Keys of the data set, 1 KiB of value each.
const NR_KEYS: u64 = 80_000;

fn value_of(key: u64) -> String {
    format!("{:016x}", key.wrapping_mul(0x9e37_79b9_7f4a_7c15)).repeat(64)
}

/// An unpacked redis, or why there is none.
fn redis() -> Result<PathBuf, String> {
    let bin = target_dir().join("servers/bin");
    if !bin.join("redis-server").exists() {
        let output = Command::new(checkout().join("scripts/servers.sh"))
            .arg("redis")
            .output()
            .map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).replace('\n', " "));
        }
    }
    Ok(bin)
}

/// Redis at 60 % of what its data needs: every key is read back right, twice.
fn redis_holds(actuator: &str) {
    needs!("cap_bpf", "memory_cgroup");
    let bin = match redis() {
        Ok(bin) => bin,
        Err(reason) => skip!("no redis: {reason}"),
    };
    let _guard = Guard::new();
    let directory = tempfile::tempdir().expect("directory");
    let socket = directory.path().join("redis.sock");
    let mut live = Live::start(
        &Strata::new(["run", "--memory", "64M", "--swap", "zram:256M"])
            .args(["--quiet", "--actuator", actuator, "--"])
            .arg(bin.join("redis-server"))
            .args([
                "--port",
                "0",
                "--save",
                "",
                "--appendonly",
                "no",
                "--unixsocket",
            ])
            .arg(&socket),
    );
    wait_until("redis to listen", || socket.exists());
    let ask = |options: &[&str], input: String| -> String {
        let mut cli = Command::new(bin.join("redis-cli"))
            .arg("-s")
            .arg(&socket)
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("redis-cli");
        let mut stdin = cli.stdin.take().expect("piped");
        let feeder = thread::spawn(move || stdin.write_all(input.as_bytes()));
        let output = cli.wait_with_output().expect("redis-cli");
        feeder.join().expect("thread").expect("redis-cli reads");
        assert!(output.status.success(), "redis-cli {options:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let mut sets = String::new();
    for key in 0..NR_KEYS {
        writeln!(sets, "SET key:{key} {}", value_of(key)).expect("string");
    }
    let said = ask(&["--pipe"], sets);
    assert_has(&said, &format!("errors: 0, replies: {NR_KEYS}"));
    for round in 0..2 {
        let mut gets = String::new();
        for first in (0..NR_KEYS).step_by(100) {
            gets.push_str("MGET");
            for key in first..first + 100 {
                write!(gets, " key:{key}").expect("string");
            }
            gets.push('\n');
        }
        let said = ask(&["--raw"], gets);
        let mut lines = said.lines();
        for key in 0..NR_KEYS {
            assert!(
                lines.next() == Some(&value_of(key)),
                "key:{key} in round {round}"
            );
        }
    }
    let info = ask(&["info", "memory"], String::new());
    let used = info
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"));
    let used: u64 = used.expect("used_memory").trim().parse().expect("bytes");
    assert!(
        used > (64 << 20) * 10 / 7,
        "{} MiB do not press on the budget",
        used >> 20
    );
    live.signal(Signal::TERM);
    assert_eq!(live.end().code(), Some(0), "{}", live.stderr());
}

#[test]
fn redis_gives_back_every_key_at_60_percent_of_its_data() {
    redis_holds("auto");
}

#[test]
#[ignore = "the other actuators: make test-long"]
fn long_redis_gives_back_every_key_with_each_actuator() {
    redis_holds("pageout");
    redis_holds("reclaim");
}
