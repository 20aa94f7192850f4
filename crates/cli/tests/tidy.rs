//! Habits a machine can check: of every source file, of the documents, of the tree.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Lines of code (neither blank nor only comment) a file may have: past that it is two rooms.
const FILE_LINES_MAX: usize = 500;

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("checkout")
}

/// Every file of the project, tracked or about to be, as path below the checkout and text.
fn sources(extension: &str) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![checkout()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).expect("readable").flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == extension) {
                let text = fs::read_to_string(&path).expect("UTF-8 text");
                found.insert(
                    path.strip_prefix(checkout()).expect("below").to_owned(),
                    text,
                );
            }
        }
    }
    assert!(!found.is_empty(), "no .{extension} file at all");
    found
}

fn document(name: &str) -> String {
    fs::read_to_string(checkout().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Fails with the list of all offenders, so that one run shows everything.
#[track_caller]
fn expect_none(what: &str, offenders: Vec<String>) {
    assert!(
        offenders.is_empty(),
        "{what}:\n  {}",
        offenders.join("\n  ")
    );
}

#[test]
fn every_source_file_says_at_its_top_what_it_is() {
    let silent = sources("rs")
        .into_iter()
        .filter(|(_, text)| !text.starts_with("//!"));
    expect_none(
        "no //! at the top",
        silent.map(|(path, _)| path.display().to_string()).collect(),
    );
}

#[test]
fn no_source_file_is_longer_than_one_thing_needs() {
    let mut long = Vec::new();
    for (path, text) in sources("rs")
        .into_iter()
        .chain(sources("c"))
        .chain(sources("sh"))
    {
        let is_code = |line: &&str| {
            let line = line.trim_start();
            !line.is_empty()
                && !["//", "#", "/*", "*"]
                    .iter()
                    .any(|mark| line.starts_with(mark))
        };
        let lines = text.lines().filter(is_code).count();
        if lines > FILE_LINES_MAX {
            long.push(format!("{}: {lines} lines of code", path.display()));
        }
    }
    expect_none("longer than 500 lines of code", long);
}

#[test]
fn unsafe_code_lives_in_one_room() {
    let mut found = Vec::new();
    for (path, text) in sources("rs") {
        if path.starts_with("crates/host/src/sys") || path.starts_with("crates/host/src/sys.rs") {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let opens = ["{", "fn", "impl", "trait", "extern"];
            let words: Vec<&str> = code.split_whitespace().collect();
            if words
                .windows(2)
                .any(|w| w[0] == "unsafe" && opens.iter().any(|o| w[1].starts_with(o)))
            {
                found.push(format!(
                    "{}:{}: {}",
                    path.display(),
                    number + 1,
                    line.trim()
                ));
            }
        }
    }
    expect_none("unsafe outside crates/host/src/sys", found);
}

#[test]
fn sources_are_plain_ascii() {
    let mut found = Vec::new();
    for (path, text) in sources("rs")
        .into_iter()
        .chain(sources("toml"))
        .chain(sources("sh"))
    {
        for (number, line) in text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.is_ascii())
        {
            found.push(format!("{}:{}: {line}", path.display(), number + 1));
        }
    }
    expect_none("not ASCII", found);
}

#[test]
fn nothing_is_left_for_later_in_the_sources() {
    // Spelled in two halves, so that this file does not find itself.
    let marks = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("X", "XX"),
        concat!("HA", "CK"),
    ];
    let mut found = Vec::new();
    let all = ["rs", "c", "h", "sh", "md", "toml"].into_iter();
    for (path, text) in all.flat_map(sources) {
        for (number, line) in text.lines().enumerate() {
            let mut words = line.split(|c: char| !c.is_alphanumeric());
            if words.any(|word| marks.contains(&word)) {
                found.push(format!(
                    "{}:{}: {}",
                    path.display(),
                    number + 1,
                    line.trim()
                ));
            }
        }
    }
    expect_none("left for later", found);
}

#[test]
fn the_architecture_names_every_crate() {
    let text = document("ARCHITECTURE.md");
    let crates = fs::read_dir(checkout().join("crates"))
        .expect("crates")
        .flatten();
    let names = crates.map(|entry| format!("crates/{}", entry.file_name().to_string_lossy()));
    expect_none(
        "not in ARCHITECTURE.md",
        names.filter(|name| !text.contains(name)).collect(),
    );
}

#[test]
fn the_changelog_has_a_place_for_what_comes_next() {
    assert!(document("CHANGELOG.md").contains("## [Unreleased]"));
}

#[test]
fn relative_links_in_documents_lead_somewhere() {
    let mut dead = Vec::new();
    for (path, text) in sources("md") {
        for part in text.split("](").skip(1) {
            let target = part.split([')', '#', ' ']).next().unwrap_or_default();
            let is_relative = !target.is_empty() && !target.contains("://");
            let from = checkout()
                .join(&path)
                .parent()
                .expect("has one")
                .join(target);
            if is_relative && !from.exists() {
                dead.push(format!("{}: {target}", path.display()));
            }
        }
    }
    expect_none("dead links", dead);
}

#[test]
fn scripts_can_be_run_and_parse() {
    let mut bad = Vec::new();
    for path in sources("sh").into_keys().chain([PathBuf::from(".ci/run")]) {
        let full = checkout().join(&path);
        let mode =
            fs::metadata(&full).map(|m| std::os::unix::fs::PermissionsExt::mode(&m.permissions()));
        let parses = Command::new("bash")
            .arg("-n")
            .arg(&full)
            .status()
            .expect("bash")
            .success();
        let is_library = path.ends_with("lib.sh");
        if !parses || !(is_library || mode.is_ok_and(|bits| bits & 0o111 != 0)) {
            bad.push(path.display().to_string());
        }
    }
    expect_none("not executable or not valid bash", bad);
}
