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

/// First words of a doc comment that goes on with the one before it.
const LEANS_ON: [&str; 9] = [
    "...", "and ", "or ", "but ", "Of those", "Of these", "Of that", "The same", "Ditto",
];

/// Doc comments of a source that can't be read alone: they begin in the middle of a sentence, or lean on the
/// comment before them.
fn half_comments(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let doc = |line: &str| -> Option<String> {
        let text = line.trim_start().strip_prefix("///")?;
        Some(text.trim().to_owned())
    };
    let mut before = None;
    for (number, line) in text.lines().enumerate() {
        let now = doc(line);
        if let Some(now) = &now {
            let leans = |first: &&str| now.starts_with(*first);
            let is_first = before.is_none();
            if is_first && LEANS_ON.iter().any(leans) {
                found.push(number + 1);
            }
        }
        before = now;
    }
    found
}

#[test]
fn doc_comments_can_be_read_alone() {
    let mut found = Vec::new();
    for (path, text) in sources("rs") {
        let is_source = path.iter().nth(2).is_some_and(|part| part == "src");
        let lines = if is_source {
            half_comments(&text)
        } else {
            Vec::new()
        };
        found.extend(
            lines
                .iter()
                .map(|line| format!("{}:{line}", path.display())),
        );
    }
    expect_none("a doc comment that goes on with the one before it", found);
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

/// What a link to a heading of the page may say behind its `#`: the heading in lower case, blanks as dashes, without
/// punctuation.
fn anchors(page: &str) -> Vec<String> {
    let (mut found, mut is_code) = (Vec::new(), false);
    for line in page.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        }
        let heading = line.trim_start_matches('#');
        if is_code || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let heading = heading.trim().to_lowercase().replace(' ', "-");
        let is_kept = |c: &char| c.is_alphanumeric() || ['-', '_'].contains(c);
        found.push(heading.chars().filter(is_kept).collect());
    }
    found
}

/// The links of a page that lead nowhere. `folder` is the folder it lies in.
fn dead_links(folder: &Path, page: &str) -> Vec<String> {
    let mut dead = Vec::new();
    for part in page.split("](").skip(1) {
        let link = part.split([')', ' ']).next().unwrap_or_default();
        let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
        if link.is_empty() || link.contains("://") {
            continue;
        }
        let target = folder.join(file);
        let is_page = file.is_empty() || file.ends_with(".md");
        let text = match file.is_empty() {
            true => Ok(page.to_owned()),
            false => fs::read_to_string(&target),
        };
        let has_anchor = anchor.is_empty()
            || is_page && text.is_ok_and(|text| anchors(&text).iter().any(|one| one == anchor));
        if !target.exists() || !has_anchor {
            dead.push(link.to_owned());
        }
    }
    dead
}

#[test]
fn relative_links_in_documents_lead_somewhere() {
    let mut dead = Vec::new();
    for (path, text) in sources("md") {
        let folder = checkout().join(&path);
        let links = dead_links(folder.parent().expect("has one"), &text);
        dead.extend(
            links
                .iter()
                .map(|link| format!("{}: {link}", path.display())),
        );
    }
    expect_none("dead links", dead);
}

#[test]
fn pages_that_are_named_exist() {
    let is_of_path = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let mut gone = Vec::new();
    let all = ["rs", "c", "sh", "py", "md", "toml"].into_iter();
    let mut texts: Vec<(PathBuf, String)> = all.flat_map(sources).collect();
    texts.push((PathBuf::from("Makefile"), document("Makefile")));
    for (path, text) in texts {
        for part in text.split("docs/").skip(1) {
            let end = part.find(|c| !is_of_path(c)).unwrap_or(part.len());
            let name = part[..end].trim_end_matches('.');
            let is_page = [".md", ".txt", ".json", ".svg"]
                .iter()
                .any(|kind| name.ends_with(kind));
            if is_page && !checkout().join("docs").join(name).exists() {
                gone.push(format!("{}: docs/{name}", path.display()));
            }
        }
    }
    expect_none("named, but no page", gone);
}

/// The pages of a folder that its index does not link to.
fn missing_in(index: &str, folder: &str) -> Vec<String> {
    let text = document(index);
    let home = Path::new(index).parent().expect("has one").to_owned();
    let names = sources("md").into_keys();
    let names = names.filter(|path| path.parent() == Some(Path::new(folder)));
    let names = names.filter(|path| path != Path::new(index));
    names
        .map(|path| {
            path.strip_prefix(&home)
                .expect("below")
                .display()
                .to_string()
        })
        .filter(|name| !text.contains(&format!("]({name})")))
        .collect()
}

#[test]
fn every_folder_of_pages_has_an_index_with_a_line_for_each() {
    let pages = [
        ("docs/README.md", "docs/guide"),
        ("docs/README.md", "docs/reference"),
        ("docs/README.md", "docs/validation"),
        ("docs/README.md", "docs/develop"),
        ("docs/README.md", "docs/recordings"),
        ("docs/decisions/README.md", "docs/decisions"),
        (
            "docs/validation/benchmarks.md",
            "docs/validation/benchmarks",
        ),
    ];
    for (index, folder) in pages {
        expect_none(&format!("not in {index}"), missing_in(index, folder));
    }
    let folders = fs::read_dir(checkout().join("docs")).expect("docs");
    let folders = folders.flatten().filter(|entry| entry.path().is_dir());
    let is_listed = |name: &String| name == "docs/images" || pages.iter().any(|p| p.1 == name);
    let names = folders.map(|entry| format!("docs/{}", entry.file_name().to_string_lossy()));
    expect_none(
        "no index knows",
        names.filter(|name| !is_listed(name)).collect(),
    );
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

/// `make test` would find a missing test only when it comes to it, or not at all.
#[test]
fn the_live_tests_that_scripts_name_exist() {
    let mut missing = Vec::new();
    for list in ["guest-short", "live-alone", "live-swap"].map(|list| format!("scripts/{list}.txt"))
    {
        let text = document(&list);
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split(' ').collect();
            let [.., name, test] = words[..] else {
                panic!("no crate and test: {line}");
            };
            let (module, test) = test.rsplit_once("::").expect("a module and a test");
            let path = checkout().join(format!("crates/{name}/tests/live/{module}.rs"));
            let source = fs::read_to_string(path).unwrap_or_default();
            if source.is_empty() || !test.is_empty() && !source.contains(&format!("fn {test}()")) {
                missing.push(format!("{list}: {line}"));
            }
            let makes_swap = ["zram", "ACTING", "KEEPING", "guard_by"];
            if words[0] == "none" && makes_swap.iter().any(|how| source.contains(how)) {
                missing.push(format!("{list}: {line}, but it makes swap"));
            }
        }
    }
    expect_none("there is no such test, or not of this kind", missing);
}

/// A file of tests that no binary names would never run, and nobody would miss it.
#[test]
fn every_file_of_tests_is_a_module_of_its_binary() {
    let mut bad = Vec::new();
    for (path, _) in sources("rs") {
        let below: Vec<_> = path.iter().filter_map(|part| part.to_str()).collect();
        let ["crates", name, "tests", rest @ ..] = &below[..] else {
            continue;
        };
        match rest {
            // What looks at the tree itself, or is a binary for a reason of its own.
            [file] if *name == "host" || file.starts_with("live_") => {
                bad.push(format!("{}: not a module of tests/live", path.display()));
            }
            ["all" | "cli" | "live", .., "main.rs" | "mod.rs"] | [_] => {}
            ["all" | "cli" | "live", between @ .., file] => {
                let head = if between.is_empty() {
                    "main.rs"
                } else {
                    "mod.rs"
                };
                let list = path.with_file_name(head);
                let module = file.trim_end_matches(".rs");
                let text = fs::read_to_string(checkout().join(&list)).unwrap_or_default();
                if !text.contains(&format!("\nmod {module};\n")) {
                    bad.push(format!(
                        "{}: not named in {}",
                        path.display(),
                        list.display()
                    ));
                }
            }
            _ => {}
        }
    }
    expect_none("tests that never run", bad);
}
