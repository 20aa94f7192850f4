//! The metrics of a running `strata run`: scraped, read from a file, and held to Prometheus' own checker.

mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use strata_host::metrics::METRICS;
use support::leaks::Guard;
use support::live::{Live, wait_until};
use support::programs::{checkout, program, target_dir};
use support::strata::Strata;

/// Known only on some machines: v1 has neither refaults by kind nor a count of kills on every kernel.
const NOT_EVERYWHERE: [&str; 3] = [
    "strata_kernel_refaulted_bytes_total",
    "strata_kernel_oom_kills_total",
    "strata_kernel_major_faults_total",
];

/// What pressure makes grow.
const GROWN: [&str; 7] = [
    "strata_eviction_tried_bytes_total",
    "strata_eviction_applied_bytes_total",
    "strata_walks_total",
    "strata_walk_entries_total",
    "strata_walk_seconds_total",
    "strata_evicted_bytes",
    "strata_own_cpu_seconds_total",
];

fn scrape(address: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the port answers");
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("writes");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    body.to_owned()
}

/// The sum of the samples of one metric; `None` if it is not there.
fn value(text: &str, name: &str) -> Option<f64> {
    let lines = text
        .lines()
        .filter(|line| line.split('{').next() == Some(name));
    let values: Vec<f64> = lines
        .filter_map(|line| line.rsplit_once(' ')?.1.parse().ok())
        .collect();
    (!values.is_empty()).then(|| values.iter().sum())
}

/// Prometheus' own checker, unpacked below the target directory.
fn promtool() -> Result<PathBuf, String> {
    let output = Command::new(checkout().join("scripts/servers.sh"))
        .arg("prometheus")
        .output()
        .map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(target_dir().join("servers/bin/promtool")),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

fn check(promtool: &Path, text: &str) {
    let mut child = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool starts");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(text.as_bytes()).expect("promtool reads");
    drop(stdin);
    let output = child.wait_with_output().expect("promtool ends");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.trim().is_empty(),
        "{said}\n{text}"
    );
}

#[test]
fn every_metric_is_shown_by_a_run_under_pressure_and_passes_prometheus_own_check() {
    needs!("page_walk", "memory_cgroup", "zram", "process_madvise");
    let promtool = match promtool() {
        Ok(promtool) => promtool,
        Err(why) => skip!("needs promtool (Debian package prometheus): {why}"),
    };
    let _guard = Guard::new();
    let place = tempfile::tempdir().expect("directory");
    let file = place.path().join("strata.prom");
    let strata = Strata::new(["run", "--memory", "48M", "--swap", "zram:192M"])
        .args([
            "--actuator",
            "pageout",
            "--metrics",
            "127.0.0.1:0",
            "--metrics-textfile",
        ])
        .arg(&file)
        .arg("--")
        .arg(program("touch"))
        .args(["--size", "96M"]);
    let mut live = Live::start(&strata);
    live.line();
    live.wait_for_stderr("/metrics");
    let stderr = live.stderr();
    let address = stderr
        .split("http://")
        .nth(1)
        .and_then(|rest| rest.split('/').next());
    let address = address.expect("the address is told").to_owned();
    writeln!(live.stdin(), "writerange 0 24576").expect("touch listens");
    live.line();
    wait_until("evictions in the metrics", || {
        let text = scrape(&address);
        GROWN.iter().all(|name| value(&text, name) > Some(0.0))
    });
    let text = scrape(&address);
    for metric in METRICS {
        let is_there = value(&text, metric.name).is_some();
        let may_lack = NOT_EVERYWHERE.contains(&metric.name);
        assert!(is_there || may_lack, "{} is not in\n{text}", metric.name);
    }
    assert_eq!(
        value(&text, "strata_budget_bytes"),
        Some(48.0 * 1024.0 * 1024.0)
    );
    check(&promtool, &text);

    wait_until("the file", || file.exists());
    check(&promtool, &fs::read_to_string(&file).expect("readable"));
    writeln!(live.stdin(), "exit 0").expect("touch listens");
    assert_eq!(live.end().code(), Some(0));
    assert!(
        !file.exists(),
        "figures of a run that is over would stay for ever"
    );
    assert!(
        TcpStream::connect(&address).is_err(),
        "nobody answers any more"
    );
}

#[test]
fn a_port_that_is_taken_stops_the_program_from_starting() {
    needs!("page_walk");
    let _guard = Guard::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("address").to_string();
    let run = Strata::new(["run", "--memory", "64M", "--dry-run", "--metrics", &address])
        .args(["--", "echo", "it ran"])
        .finish();
    assert_eq!(run.code(), Some(125), "{}", run.stderr);
    assert_eq!(run.stdout, "");
    assert!(
        run.stderr.contains(&address) && run.stderr.contains("another port"),
        "{}",
        run.stderr
    );
}
