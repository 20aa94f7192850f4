//! Traces that would take more memory than there may be are refused before it is taken.
//!
//! Every command runs under `ulimit -v`: one that took what it was asked to take would be ended by the
//! failing allocation, not by its own message.

use crate::support::prelude::*;

/// Address space that the commands below may take, KiB; their bounds are a sixth of that and less, as what
/// grows by doubling reserves more than it uses.
const LIMIT_KIB: u32 = 640 << 10;

fn limited(folder: &Path, args: &str) -> Output {
    let script = format!("ulimit -v {LIMIT_KIB}; exec \"$0\" \"$@\"");
    Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_strata")])
        .args(args.split_whitespace())
        .current_dir(folder)
        .output()
        .expect("sh and strata")
}

#[track_caller]
fn refused(folder: &Path, args: &str, status: i32, texts: &[&str]) {
    let output = limited(folder, args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
    for text in texts {
        assert!(said.contains(text), "{args:?}: no {text:?} in {said}");
    }
    assert_eq!(output.stdout, b"", "{args:?}");
}

/// Numbers of pages that lie far apart, each in a neighbourhood of its own.
fn sparse(path: &Path, nr_pages: u64) {
    let page = |number: u64| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20).to_le_bytes();
    fs::write(path, (0..nr_pages).flat_map(page).collect::<Vec<u8>>()).expect("writable");
}

#[test]
fn a_trace_without_end_is_refused_by_the_bound_that_is_named() {
    let folder = tempfile::tempdir().expect("temporary folder");
    // A line that stands for a million pages, many times over.
    let lines: String = (0..64_u64)
        .map(|id| format!("{},4294967295\n", id << 32))
        .collect();
    fs::write(folder.path().join("large.csv"), lines).expect("writable");
    sparse(&folder.path().join("sparse.u64le"), 2_000_000);
    let texts = |text| [text, "--max-memory"];
    for (args, bound, status, texts) in [
        (
            "gen:uniform,pages=134217728,accesses=18446744073709551615",
            "100M",
            1,
            texts("allow more"),
        ),
        // Tables of weights alone.
        (
            "gen:zipf,pages=134217728,groups=4096",
            "100M",
            2,
            texts("fewer pages"),
        ),
        (
            "large.csv --expand-sizes --trace-columns id=1,size=2 --id-bytes 1",
            "100M",
            1,
            texts("large.csv"),
        ),
        (
            "sparse.u64le --trace-format u64le",
            "50M",
            1,
            texts("sparse.u64le"),
        ),
    ] {
        for verb in ["sim --jobs 1", "trace info"] {
            let args = format!("{verb} {args} --max-memory {bound}");
            refused(folder.path(), &args, status, &texts);
        }
    }
}

#[test]
fn a_file_of_groups_that_never_ends_is_refused() {
    let folder = tempfile::tempdir().expect("temporary folder");
    for option in ["--group", "--groups"] {
        let args = format!("sim gen:zipf {option} @/dev/zero");
        let texts = ["/dev/zero", "longer than 16777216 bytes"];
        refused(folder.path(), &args, 2, &texts);
    }
}

#[test]
fn what_is_said_to_be_needed_is_enough_and_changes_nothing() {
    let folder = tempfile::tempdir().expect("temporary folder");
    sparse(&folder.path().join("sparse.u64le"), 300_000);
    for policy in ["mglru", "two-list", "opt", "s3-fifo"] {
        let how = "--trace-format u64le --via mmap --backing anon --memory 90% --jobs 1";
        let args = |bound| format!("sim sparse.u64le {how} --policy {policy} --max-memory {bound}");
        // More than loading takes, less than a replay.
        let refused = limited(folder.path(), &args("47M"));
        let said = String::from_utf8_lossy(&refused.stderr);
        let needed = said.split(['(', ' ']).zip(said.split(['(', ' ']).skip(1));
        let needed = needed
            .filter(|(_, unit)| unit.starts_with("bytes)"))
            .map(|(number, _)| number);
        let needed = needed
            .last()
            .unwrap_or_else(|| panic!("no figure in {said}"));
        let enough = limited(folder.path(), &args(needed));
        assert!(enough.status.success(), "{enough:?}");
        let plenty = limited(folder.path(), &args("4G"));
        assert_eq!(enough.stdout, plenty.stdout, "{policy}");
    }
}

#[test]
fn fewer_replays_at_a_time_print_the_same() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let what = "gen:zipf,pages=200000,accesses=400000 --memory 5%,10%,20%";
    let args = |jobs, bound| format!("sim {what} --jobs {jobs} --max-memory {bound}");
    // Two replays of some 36 MB fit, eight do not.
    let few = limited(folder.path(), &args(8, "96M"));
    assert!(few.status.success(), "{few:?}");
    let one = limited(folder.path(), &args(1, "4G"));
    assert_eq!(few.stdout, one.stdout);
}
