//! `make run` on a machine that can't run the live demo: the simulator, on the recording that comes along.

use crate::support::prelude::*;

const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[test]
fn the_demo_falls_back_to_the_simulator_on_a_recording() {
    let target = tempfile::tempdir().expect("temporary folder");
    let output = Command::new(Path::new(CHECKOUT).join("scripts/demo.sh"))
        .env("DEMO", "sim")
        .env("STRATA", env!("CARGO_BIN_EXE_strata"))
        .env("CARGO_TARGET_DIR", target.path())
        .output()
        .expect("demo.sh");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}\n{stderr}");
    let words =
        |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
    let mut lines = stdout.lines().map(words);
    let policies = ["miss", "ratio", "mglru", "two-list", "lru", "opt"];
    assert!(
        lines.any(|words| words == policies),
        "a policy a column: {stdout}"
    );
    let sizes = lines.take_while(|words| !words.is_empty());
    let sizes = sizes.filter(|words| words.iter().any(|word| word.ends_with("%)")));
    assert_eq!(sizes.count(), 5, "a line for each size of memory: {stdout}");
    let plot = fs::read_to_string(target.path().join("demo.svg")).expect("a plot");
    assert_has(&plot, "</svg>");
}
