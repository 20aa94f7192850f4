//! `strata guard` on files that programs map.

use crate::support::prelude::*;

use crate::guard::{end, of, wait_for};

/// Maps two files, and answers each line with a checksum of all of both.
const SCRIPT: &str = "
import mmap, sys, zlib
files = [open(path, 'rb') for path in sys.argv[1:]]
maps = [mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) for file in files]
for line in sys.stdin:
    print([zlib.crc32(of) for of in maps], flush=True)
";

/// Resident bytes of the mappings of a file in a process.
fn mapped_bytes(pid: i32, file: &str) -> u64 {
    let smaps = fs::read_to_string(format!("/proc/{pid}/smaps")).expect("smaps");
    let mut is_meant = false;
    let mut bytes = 0;
    for line in smaps.lines() {
        let is_mapping = |first: &str| first.contains('-');
        if line.split(' ').next().is_some_and(is_mapping) {
            is_meant = line.ends_with(file);
        }
        if let (true, Some(rest)) = (is_meant, line.strip_prefix("Rss:")) {
            let kib = rest.trim().trim_end_matches(" kB").trim();
            bytes += kib.parse::<u64>().expect("a number") * 1024;
        }
    }
    bytes
}

#[test]
fn what_mapped_files_hold_beyond_their_budget_goes_and_other_files_stay() {
    needs!("cap_bpf", "memory_cgroup");
    if Command::new("python3").arg("--version").output().is_err() {
        skip!("there is no python3");
    }
    let directory = open_disk!();
    let _guard = Guard::new();
    let group = TestGroup::new("guard-files");
    let files = ["model.gguf", "index"].map(|name| directory.path().join(name));
    for file in &files {
        write_file(&group, file, 24);
        // Dirty pages can't go. A few that were just read can't either, which is why there is a MiB to spare below.
        forget(file);
    }
    let mut command = in_group(&group, "python3");
    command.args(["-c", SCRIPT]).args(&files);
    let mut program = Live::start_command(command);
    let pid = program.pid();
    let mut ask = || {
        writeln!(program.stdin()).expect("it reads");
        program.line()
    };
    let sums = ask();
    assert_eq!(mapped_bytes(pid, "model.gguf"), 24 * MIB, "{sums}");

    let name = group.name();
    let rules = directory.path().join("guard.toml");
    let text = format!(
        "[[rule]]\ncgroup = '{name}'\npromise = 'none'\nmin_age = '5s'\n\
         [[rule.file]]\npath = '*.gguf'\nmemory = '8M'\n[[rule.file]]\npath = 'model.*'\nmemory = '1M'\n"
    );
    fs::write(&rules, text).expect("rules");
    let strata = Strata::new(["guard", "--format", "json", "--cpu", "50%"]);
    let strata = strata
        .args(["--history", "none", "--config"])
        .args([&rules]);
    let live = Live::start(&strata);
    wait_for(&live, "the model to be within its budget", |status| {
        of(status, &name);
        mapped_bytes(pid, "model.gguf") <= 9 * MIB
    });
    assert!(
        mapped_bytes(pid, "model.gguf") >= 7 * MIB,
        "the first budget is its own"
    );
    assert_eq!(mapped_bytes(pid, "index"), 24 * MIB);
    // What is used again comes back, and what is older goes once more.
    assert_eq!(ask(), sums, "the files are as they were");
    wait_for(&live, "the budget to hold once more", |_| {
        mapped_bytes(pid, "model.gguf") <= 9 * MIB
    });
    end(live);
}
