//! Long work says how far it is, also where stderr is no terminal.

use crate::support::prelude::*;

use std::fs::OpenOptions;

#[test]
fn work_that_takes_long_tells_how_far_it_is_every_ten_seconds() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let pipe = folder.path().join("slow");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    let child = Command::new(env!("CARGO_BIN_EXE_strata"))
        .args(["trace", "info", "slow", "--trace-format", "txt"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("strata");
    // A writer that takes its time: what was written so far is told, once.
    let mut writer = OpenOptions::new()
        .write(true)
        .open(&pipe)
        .expect("a reader");
    writer.write_all(&b"1\n".repeat(1 << 20)).expect("written");
    sleep(Duration::from_secs(12));
    drop(writer);
    let output = child.wait_with_output().expect("strata");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let first = said.lines().next().unwrap_or_default();
    assert!(
        first.starts_with("strata: slow: ") && first.ends_with("read, after 10 s"),
        "{said}"
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains("1,048,576"));
}

#[test]
fn work_that_is_soon_done_says_nothing() {
    let folder = tempfile::tempdir().expect("temporary folder");
    fs::write(folder.path().join("short"), "1\n2\n").expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_strata"))
        .args(["trace", "info", "short", "--trace-format", "txt"])
        .current_dir(folder.path())
        .output()
        .expect("strata");
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
