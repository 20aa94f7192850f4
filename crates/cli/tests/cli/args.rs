//! Help, manual pages, completions and version; what is said to a journal, and to a reader that goes away.

use crate::support::prelude::*;

use std::fs::OpenOptions;

/// Runs `strata` with these arguments; it must end at once, by itself.
fn strata(args: &[&str]) -> Finished {
    Strata::new(args).finish()
}

#[test]
fn a_journal_is_told_how_grave_a_line_is_and_nobody_else() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let stat = file.as_file().metadata().expect("its numbers");
    let journal = format!("{}:{}", stat.dev(), stat.ino());
    for (stream, prefix) in [
        (journal.as_str(), "<3>strata: error: "),
        ("1:2", "strata: error: "),
    ] {
        let stderr = OpenOptions::new().append(true).open(file.path());
        let status = Command::new(env!("CARGO_BIN_EXE_strata"))
            .args(["plan", "there-is-no-such-recording"])
            .env("JOURNAL_STREAM", stream)
            .stderr(stderr.expect("a file"))
            .status();
        assert!(!status.expect("it runs").success());
        let said = fs::read_to_string(file.path()).expect("text");
        assert!(said.starts_with(prefix), "{said}");
        file.as_file().set_len(0).expect("emptied");
    }
}

#[test]
fn the_help_has_examples_and_says_what_to_beware_of() {
    for (verb, parts) in [
        (
            "run",
            &["EXAMPLES", "EXIT STATUS", "512M", "[default: existing]"][..],
        ),
        ("compare", &["EXAMPLES", "EXIT STATUS", "--swap <SPEC>"]),
        ("lru-gen", &["clears the\naccessed bits"]),
    ] {
        let help = strata(&[verb, "--help"]).expect_success().stdout;
        for part in parts {
            assert_has(&help, part);
        }
    }
}

/// Where pid 2 is hidden or absent (a container), it does not exist.
#[test]
fn a_kernel_thread_is_not_watched() {
    let said = refused(&["wss", "--pid", "2"]);
    let is_told = said.contains("kernel thread") || said.contains("does not exist");
    assert!(is_told, "{said}");
}

#[test]
fn completions_and_manual_pages_name_every_verb() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = strata(&["completions", shell]).expect_success().stdout;
        assert!(
            script.contains("lru-gen") && script.contains("swappiness"),
            "{shell}"
        );
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    strata(&["man", path]).expect_success();
    for verb in [
        "", "-run", "-compare", "-lru-gen", "-wss", "-files", "-ctl", "-doctor",
    ] {
        let page = format!("strata{verb}.1");
        let text = fs::read_to_string(directory.path().join(&page)).expect(&page);
        assert_has(&text, ".TH strata");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let command = format!(
        "{} completions bash | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}",
        binary()
    );
    let output = Command::new("bash")
        .args(["-c", &command])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn the_version_is_the_packages_and_names_the_commit_and_what_of_bpf_is_inside() {
    let short = strata(&["-V"]).expect_success().stdout;
    assert_eq!(short, format!("strata {}\n", env!("CARGO_PKG_VERSION")));
    let long = strata(&["--version"]).expect_success().stdout;
    let lines: Vec<&str> = long.lines().collect();
    assert_eq!(lines[0], short.trim_end());
    assert!(lines[1].starts_with("commit "), "{long}");
    for object in ["walk ", "vma ", "census "] {
        assert!(lines[2].contains(object), "{long}");
    }
}
