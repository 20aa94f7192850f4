//! Every command in README.md and in the pages below docs/ that gives the same output anywhere is run, and what
//! the document shows is what it prints.
//!
//! A command is a line `$ strata ...` of a block ```` ```console ````; what follows, up to the next `$`, is its output,
//! in which a line `...` stands for lines left out. Lines that begin with `strata` in a block ```` ```sh ```` or in
//! an indented block are commands without output: they have to succeed. A picture that a command draws is compared
//! with the one in docs/. `sim`, `trace`, `html` and `plan RECORDING` are run, in one folder a document, so that a command
//! finds what the one before it wrote (`run.strata` is `tests/recordings/sort.strata`); verbs that look at the machine can't be, and are listed.
//!
//! `STRATA_BLESS=1 cargo test -p strata --test cli docs::` writes what the commands print into the documents.

use crate::support::prelude::*;

/// Verbs whose output is of the machine and the moment.
const LIVE: [&str; 13] = [
    "park", "wake", "run", "guard", "compare", "record", "top", "wss", "idle", "files", "lru-gen",
    "ctl", "doctor",
];
/// Verbs whose output is the same anywhere.
const CHECKED: [&str; 4] = ["sim", "trace", "plan", "html"];
/// A line of the output that stands for lines left out.
const LEFT_OUT: &str = "...";

/// A command of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    /// As a shell takes it, without the prompt.
    command: String,
    /// Where its output stands in the document's lines; `None` where none is shown.
    output: Option<std::ops::Range<usize>>,
}

/// What is to be done with a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Checked,
    Live,
    /// With a word in capitals, or a variable of a script, that the reader has to fill in.
    Placeholder,
}

/// The commands of a document, in order.
fn commands(lines: &[&str]) -> Vec<Shown> {
    let mut found: Vec<Shown> = Vec::new();
    let mut fence: Option<&str> = None;
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        at += 1;
        if let Some(language) = line.strip_prefix("```") {
            fence = match fence {
                Some(_) => None,
                None => Some(language.trim()),
            };
            continue;
        }
        let (text, has_output) = match fence {
            Some("console") => match line.strip_prefix("$ ") {
                Some(text) => (text, true),
                None => continue,
            },
            Some("sh") => (line, false),
            None => match line.strip_prefix("    ") {
                Some(text) => (text, false),
                None => continue,
            },
            Some(_) => continue,
        };
        if text.split_whitespace().next() != Some("strata") {
            continue;
        }
        let mut command = text.to_owned();
        while command.ends_with('\\') && at < lines.len() {
            command.pop();
            command.push_str(lines[at].trim_start());
            at += 1;
        }
        let ends = |line: &&str| line.starts_with("$ ") || line.starts_with("```");
        let rest = &lines[at..];
        let nr_lines = rest.iter().position(ends).unwrap_or(rest.len());
        let output = (has_output && nr_lines > 0).then_some(at..at + nr_lines);
        found.push(Shown { command, output });
    }
    found
}

/// What kind of command it is; one that is none has to be made one.
fn kind(command: &str) -> Result<Kind, String> {
    let words: Vec<&str> = command
        .split_whitespace()
        .take_while(|word| *word != "#")
        .collect();
    let verb = words.get(1).copied().unwrap_or_default();
    let is_placeholder = |word: &&str| {
        let is_variable = word.contains('$');
        is_variable || word.len() > 2 && word.chars().all(|c| c.is_ascii_uppercase())
    };
    if LIVE.contains(&verb) {
        return Ok(Kind::Live);
    }
    if words.iter().any(is_placeholder) {
        return Ok(Kind::Placeholder);
    }
    match CHECKED.contains(&verb) {
        true => Ok(Kind::Checked),
        false => Err(format!(
            "{command:?}: is strata {verb} of the machine, or the same anywhere?"
        )),
    }
}

/// Whether the lines are as shown, some of which may be left out once.
fn fits(shown: &[&str], printed: &[&str]) -> bool {
    match shown.iter().position(|line| *line == LEFT_OUT) {
        None => shown == printed,
        Some(at) => {
            let (head, tail) = (&shown[..at], &shown[at + 1..]);
            printed.len() > head.len() + tail.len()
                && printed.starts_with(head)
                && printed.ends_with(tail)
        }
    }
}

/// What is printed, with as many lines left out as were before.
fn shortened<'a>(shown: &[&str], printed: &[&'a str]) -> Vec<&'a str> {
    match shown.iter().position(|line| *line == LEFT_OUT) {
        Some(at) if printed.len() > shown.len() => {
            let nr_tail = shown.len() - at - 1;
            let tail = &printed[printed.len() - nr_tail..];
            [&printed[..at], &[LEFT_OUT], tail].concat()
        }
        _ => printed.to_vec(),
    }
}

/// A folder in which recordings lie where they do in the repository, and pictures can be drawn.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("temporary folder");
    for recordings in ["docs/recordings", "tests/recordings"] {
        let to = folder.path().join(recordings);
        fs::create_dir_all(&to).expect("a folder");
        for entry in fs::read_dir(checkout().join(recordings)).expect("recordings") {
            let entry = entry.expect("recordings");
            fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
        }
    }
    fs::create_dir_all(folder.path().join("docs/images")).expect("a folder");
    // What the documents have recorded before they ask about it.
    let recording = checkout().join("tests/recordings/sort.strata");
    fs::copy(recording, folder.path().join("run.strata")).expect("copied");
    folder
}

/// Runs a command as a shell in that folder does; what it prints on both streams.
fn run(folder: &Path, command: &str) -> Result<String, String> {
    let tool = Path::new(binary()).parent().expect("a folder");
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1; {command}")])
        .current_dir(folder)
        .env("PATH", format!("{}:{path}", tool.display()))
        .output()
        .expect("a shell");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(printed),
        false => Err(format!("{command}: {}\n{printed}", output.status)),
    }
}

/// README.md and every page below docs/.
fn documents() -> Vec<PathBuf> {
    let (mut documents, mut open) = (Vec::new(), vec![checkout().join("docs")]);
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).expect("docs") {
            let path = entry.expect("docs").path();
            match path.is_dir() {
                true => open.push(path),
                false => documents.push(path),
            }
        }
    }
    documents.retain(|path| path.extension().is_some_and(|end| end == "md"));
    documents.sort();
    documents.insert(0, checkout().join("README.md"));
    documents
}

#[expect(clippy::print_stdout, reason = "the list of what a test can't check")]
fn tell(text: &str) {
    println!("{text}");
}

/// Runs what can be run of a document; what is wrong with it.
fn check(document: &Path, is_blessed: bool) -> (Vec<String>, usize) {
    let text = fs::read_to_string(document).expect("a document");
    let lines: Vec<&str> = text.lines().collect();
    let name = document
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let (folder, mut wrong, mut nr_checked) = (folder(), Vec::new(), 0);
    let mut mended: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    for shown in commands(&lines) {
        match kind(&shown.command) {
            Err(why) => {
                wrong.push(format!("{name}: {why}"));
                continue;
            }
            Ok(Kind::Checked) => nr_checked += 1,
            Ok(kind) => {
                tell(&format!("{name}: not run ({kind:?}): {}", shown.command));
                continue;
            }
        }
        let printed = match run(folder.path(), &shown.command) {
            Ok(printed) => printed,
            Err(why) => {
                wrong.push(format!("{name}: {why}"));
                continue;
            }
        };
        let Some(range) = shown.output else { continue };
        let printed: Vec<&str> = printed.lines().collect();
        let expected = &lines[range.clone()];
        if fits(expected, &printed) {
            continue;
        }
        let new = shortened(expected, &printed).join("\n");
        wrong.push(format!("{name}: `{}` prints\n{new}", shown.command));
        // Ranges stay valid: all lines of an output become the first of them.
        mended[range.start] = new;
        for line in &mut mended[range.start + 1..range.end] {
            line.push('\0');
        }
    }
    let pictures = fs::read_dir(folder.path().join("docs/images")).expect("pictures");
    for picture in pictures.map(|entry| entry.expect("a picture")) {
        let drawn = fs::read(picture.path()).expect("a picture");
        let kept = checkout().join("docs/images").join(picture.file_name());
        if fs::read(&kept).ok().as_ref() != Some(&drawn) {
            wrong.push(format!("{name}: {} is not what is drawn", kept.display()));
            if is_blessed {
                fs::write(&kept, drawn).expect("writable");
            }
        }
    }
    if is_blessed && !wrong.is_empty() {
        mended.retain(|line| !line.ends_with('\0'));
        fs::write(document, mended.join("\n") + "\n").expect("writable");
    }
    (wrong, nr_checked)
}

#[test]
fn what_documents_show_is_what_the_program_prints() {
    let is_blessed = std::env::var_os("STRATA_BLESS").is_some();
    let (mut wrong, mut nr_checked) = (Vec::new(), 0);
    for document in documents() {
        let (of_document, nr) = check(&document, is_blessed);
        wrong.extend(of_document);
        nr_checked += nr;
    }
    tell(&format!("{nr_checked} commands were run"));
    assert!(nr_checked >= 8, "only {nr_checked} commands were found");
    assert!(
        wrong.is_empty(),
        "{}\n\nSTRATA_BLESS=1 cargo test -p strata --test cli docs:: writes it into the documents",
        wrong.join("\n\n")
    );
}
