//! The workloads themselves: what a live test reads into their answers has to be true.

use crate::support;

use std::process::{Command, Stdio};
use std::time::Duration;

use support::programs::{Touch, page_set, program};
use support::strata::finish;

fn run(name: &str, args: &[&str]) -> support::strata::Finished {
    let mut command = Command::new(program(name));
    command
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    finish(
        command.spawn().expect("starts"),
        b"",
        Duration::from_secs(60),
    )
}

#[test]
fn checksum_verifies_every_page_it_filled() {
    let run = run(
        "checksum",
        &["--size", "8M", "--seconds", "0.2", "--threads", "2"],
    );
    let said = &run.expect_success().json_lines()[0];
    assert_eq!(said["pages"], 2048);
    assert_eq!(said["bad"], 0);
    let touched = said["reads"]
        .as_u64()
        .zip(said["writes"].as_u64())
        .map(|(r, w)| r + w);
    assert_eq!(said["verified"].as_u64(), touched.map(|sum| sum + 2048));
}

#[test]
fn zipf_reports_progress_every_second_and_a_sum_at_the_end() {
    let run = run(
        "zipf",
        &["--size", "8M", "--seconds", "1.5", "--theta", "1.2"],
    )
    .expect_success();
    let lines = run.json_lines();
    assert_eq!(lines.len(), 3, "{}", run.stdout);
    assert!(lines[0]["ops"].as_u64() < lines[2]["ops"].as_u64());
    assert_eq!(lines[2]["program"], "zipf");
}

#[test]
fn touch_touches_the_pages_that_the_seed_names_and_no_others() {
    let mut touch = Touch::start(["--size", "4M"]);
    let set = page_set(42, 100, touch.nr_pages);
    touch.ask("write 42 100");
    assert_eq!(touch.ask("resident 0 1024"), "100");
    for page in &set {
        assert_eq!(touch.ask(&format!("resident {page} 1")), "1", "page {page}");
    }
    assert_eq!(touch.ask("verify 0 1024"), "0");
}

#[test]
fn touch_goes_on_obeying_after_its_leader_thread_has_exited() {
    let mut touch = Touch::start(["--size", "1M"]);
    touch.ask("leaderexit");
    touch.ask("writerange 0 256");
    assert_eq!(touch.ask("resident 0 256"), "256");
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", touch.pid)).expect("maps");
    assert_eq!(
        maps, "",
        "the leader of a thread group shows no mappings once it has exited"
    );
}

#[test]
fn status_ends_in_the_way_it_is_told_to() {
    assert_eq!(run("status", &["--code", "7"]).code(), Some(7));
    assert_eq!(run("status", &["--signal", "15"]).signal(), Some(15));
}

#[test]
fn mapstorm_has_as_many_mappings_as_it_says() {
    let mut child = Command::new(program("mapstorm"))
        .args(["--mappings", "5000", "--seconds", "0"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut line = String::new();
    let stdout = child.stdout.as_mut().expect("piped");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).expect("line");
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", child.id())).expect("maps");
    child.kill().expect("kill");
    child.wait().expect("wait");
    assert!(
        maps.lines().count() >= 5000,
        "{} mappings",
        maps.lines().count()
    );
}

#[test]
fn fault_supplies_each_page_once_and_takes_protection_off_again() {
    let run = run("fault", &["--size", "4M", "--seconds", "0.3"]);
    if run.code() == Some(3) {
        skip!("no userfaultfd: {}", run.stderr);
    }
    let said = &run.expect_success().json_lines()[0];
    assert_eq!(
        (&said["pages"], &said["supplied"]),
        (&1024.into(), &1024.into())
    );
    let rounds = said["rounds"].as_u64().expect("rounds");
    assert_eq!(said["protected"].as_u64(), Some(512 * rounds));
    assert_eq!(said["unprotected"].as_u64(), Some(512 * (rounds - 1)));
}

#[test]
fn twins_verifies_what_it_offers_for_merging() {
    let run = run("twins", &["--size", "4M", "--seconds", "0.3"]);
    let said = &run.expect_success().json_lines()[0];
    assert_eq!((&said["pages"], &said["bad"]), (&1024.into(), &0.into()));
}
