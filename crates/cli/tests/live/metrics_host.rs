//! `strata top --metrics`: memory of the whole machine for Prometheus.

use crate::support;

use std::fs;
use std::net::TcpStream;

use rustix::process::Signal;
use support::leaks::Guard;
use support::live::{Live, TestGroup, wait_until};
use support::programs::Touch;
use support::prometheus::{check, promtool, scrape, value};
use support::strata::{Strata, refused};

const MIB: f64 = 1048576.0;

#[test]
fn memory_of_the_machine_and_of_each_cgroup_is_served_until_a_signal_comes() {
    needs!("memory_cgroup");
    let _guard = Guard::new();
    let group = TestGroup::new("metrics");
    let mut touch = Touch::start(["--size", "64M"]);
    group.take(touch.pid);
    touch.ask("writerange 0 16384");
    let directory = tempfile::tempdir().expect("directory");
    let file = directory.path().join("strata.prom");
    let strata = Strata::new(["top", "--interval", "200ms", "--metrics", "127.0.0.1:0"])
        .arg("--metrics-textfile")
        .arg(&file);
    let mut live = Live::start(&strata);
    live.wait_for_stderr("/metrics");
    let stderr = live.stderr();
    let address = stderr
        .split("http://")
        .nth(1)
        .and_then(|rest| rest.split('/').next());
    let address = address.expect("the address is told").to_owned();
    let name = group
        .path
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let of_group = |text: &str, metric: &str| {
        let mut lines = text.lines().filter(|line| line.starts_with(metric));
        let line = lines.find(|line| line.contains(&format!("{name}\"")))?;
        line.rsplit_once(' ')?.1.parse::<f64>().ok()
    };
    let mut text = String::new();
    wait_until("the cgroup is told", || {
        text = scrape(&address);
        of_group(&text, "strata_cgroup_anon_bytes") >= Some(64.0 * MIB)
    });
    assert!(
        of_group(&text, "strata_cgroup_charged_bytes") >= Some(64.0 * MIB),
        "{text}"
    );
    assert!(
        value(&text, "strata_host_memory_bytes") > Some(64.0 * MIB),
        "{text}"
    );
    wait_until("the file", || file.exists());
    let in_file = fs::read_to_string(&file).expect("readable");
    live.signal(Signal::TERM);
    assert_eq!(live.end().code(), Some(0), "{}", live.stderr());
    assert!(
        TcpStream::connect(&address).is_err(),
        "nobody answers any more"
    );
    assert!(!file.exists(), "figures of a machine that nobody looks at");
    match promtool() {
        Err(why) => skip!("needs promtool (Debian package prometheus): {why}"),
        Ok(promtool) => {
            check(promtool, &text);
            check(promtool, &in_file);
        }
    }
}

#[test]
fn metrics_are_for_this_machine_alone_and_not_beside_once() {
    let said = refused(&["top", "--metrics", "192.0.2.1:9465"]);
    assert!(said.contains("loopback"), "{said}");
    let said = refused(&["top", "--once", "--metrics", "127.0.0.1:0"]);
    assert!(said.contains("--once"), "{said}");
}
