//! `strata trace`: what it tells, what it writes, and what it says when a trace is broken.

use crate::support::prelude::*;

fn strata(folder: &Path, args: &[&str]) -> Finished {
    let at = |arg: &&str| match arg.strip_prefix('@') {
        Some(name) => folder.join(name).display().to_string(),
        None => (*arg).to_owned(),
    };
    Strata::new(args.iter().map(at).collect::<Vec<_>>()).finish()
}

#[track_caller]
fn data(folder: &Path, args: &[&str]) -> String {
    let said = strata(folder, args);
    assert_eq!(said.code(), Some(0), "{args:?}: {}", said.stderr);
    said.stdout
}

fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("temporary folder");
    let lines = "time,op,lbn\n1.5,2a,10\n2,28,11\n3,28,10\n";
    fs::write(folder.path().join("t.csv"), lines).expect("writable");
    folder
}

#[test]
fn info_counts_what_is_in_a_trace() {
    let folder = folder();
    let text = data(
        folder.path(),
        &[
            "trace",
            "info",
            "@t.csv",
            "gen:loop,pages=3,accesses=7",
            "--format",
            "json",
        ],
    );
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    let [csv, generated] = [0, 1].map(|at| answer["traces"][at].clone());
    for (field, value) in [
        ("accesses", 3),
        ("distinct_pages", 2),
        ("footprint_bytes", 8192),
        ("anon_pages", 0),
        ("file_pages", 2),
        ("reads", 2),
        ("writes", 1),
        ("mmap_accesses", 0),
        ("fd_accesses", 3),
        ("groups", 1),
        ("spaces", 1),
        ("lowest_page", 10),
        ("highest_page", 11),
        ("duration_us", 1_500_000),
    ] {
        assert_eq!(csv[field], value, "{field}");
    }
    assert_eq!(
        (&csv["format"], &generated["format"]),
        (&"csv".into(), &"generated".into())
    );
    assert_eq!(
        (&generated["accesses"], &generated["distinct_pages"]),
        (&7.into(), &3.into())
    );
    let table = data(folder.path(), &["trace", "info", "@t.csv"]);
    for line in [
        "accesses     3",
        "pages        2 distinct",
        "2 (66.7 %) reads, 1 (33.3 %) writes",
        "duration     1.500 s",
    ] {
        assert!(table.contains(line), "{line}:\n{table}");
    }
}

#[test]
fn what_is_converted_can_be_looked_at_without_a_file() {
    let folder = folder();
    let csv = |more: &[&str]| {
        let args = [&["trace", "convert", "@t.csv", "-", "--to", "csv"], more].concat();
        data(folder.path(), &args)
    };
    let heads = "time_us,group,space,page,size,op,via,backing\n";
    let first = "0,0,0,10,0,write,fd,file\n500000,0,0,11,0,read,fd,file\n";
    let text = csv(&[]);
    assert!(text.starts_with(&format!("{heads}{first}")), "{text}");
    assert_eq!(text.lines().count(), 4);
    let text = csv(&["--via", "mmap", "--backing", "anon"]);
    let last = text.lines().last().unwrap_or_default();
    assert!(last.ends_with(",mmap,anon"), "{text}");
}

#[test]
fn what_is_converted_there_and_back_is_the_same() {
    let folder = folder();
    let generator = "gen:mixed,accesses=5000,groups=2,writes=30";
    data(folder.path(), &["trace", "convert", generator, "@a.strata"]);
    data(folder.path(), &["trace", "convert", "@a.strata", "@b.csv"]);
    data(folder.path(), &["trace", "convert", "@b.csv", "@c.strata"]);
    let read = |name: &str| fs::read(folder.path().join(name)).expect("written");
    assert_eq!(read("a.strata"), read("c.strata"));
    assert!(read("a.strata").len() * 4 < read("b.csv").len());
    let straight = data(
        folder.path(),
        &["trace", "convert", generator, "-", "--to", "csv"],
    );
    assert_eq!(straight.into_bytes(), read("b.csv"));
}

#[test]
fn an_output_that_is_there_is_not_replaced_unasked() {
    let folder = folder();
    let refused = strata(
        folder.path(),
        &["trace", "convert", "gen:loop,accesses=9", "@t.csv"],
    );
    assert_eq!(refused.code(), Some(2));
    assert_has(&refused.stderr, "is already there: say --force");
    data(
        folder.path(),
        &[
            "trace",
            "convert",
            "gen:loop,accesses=9",
            "@t.csv",
            "--force",
        ],
    );
    assert_eq!(
        fs::read_to_string(folder.path().join("t.csv"))
            .expect("there")
            .lines()
            .count(),
        10
    );
}

#[test]
fn a_broken_trace_is_told_with_its_place_and_leaves_no_output() {
    let folder = folder();
    let broken = folder.path().join("b.lis");
    fs::write(&broken, "1 2 0 0\noops\n7 1 0 1\n").expect("writable");
    let said = strata(
        folder.path(),
        &["trace", "convert", "@b.lis", "@out.strata"],
    );
    assert_eq!(said.code(), Some(1));
    let told = format!(
        "strata: error: {}: line 2: first block must be a number",
        broken.display()
    );
    assert!(said.stderr.contains(&told), "{}", said.stderr);
    let names: Vec<_> = fs::read_dir(folder.path())
        .expect("folder")
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");

    let said = strata(
        folder.path(),
        &[
            "trace",
            "convert",
            "@b.lis",
            "-",
            "--to",
            "csv",
            "--skip-broken",
        ],
    );
    assert_eq!((said.code(), said.stdout.lines().count()), (Some(0), 4));
    assert_has(&said.stderr, "warning: passed over: ");
    // Many are told in few lines.
    fs::write(&broken, "1 1 0 0\n".to_owned() + &"oops\n".repeat(50)).expect("writable");
    let said = strata(folder.path(), &["trace", "info", "@b.lis", "--skip-broken"]);
    assert_eq!((said.code(), said.stderr.lines().count()), (Some(0), 4));
    assert_has(&said.stderr, "passed over 50 broken places in all");
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    let folder = folder();
    for (args, told) in [
        (
            &["trace", "info", "@t.csv", "--trace-format", "tape"][..],
            "no trace format is called `tape`: use one of strata, ",
        ),
        (
            &["trace", "info", "@t.csv", "--trace-columns", "id=0"],
            "id must be a column",
        ),
        (
            &["trace", "info", "@t.csv", "--id-bytes", "512"],
            "--expand-sizes",
        ),
    ] {
        let said = strata(folder.path(), args);
        assert_eq!(said.code(), Some(2), "{args:?}: {}", said.stderr);
        assert!(said.stderr.contains(told), "{args:?}: {}", said.stderr);
    }
    let said = strata(folder.path(), &["trace", "info", "@nothing"]);
    assert_eq!(said.code(), Some(1));
    assert!(
        said.stderr
            .contains("nothing: no such file; the name of a generator begins with gen:"),
        "{}",
        said.stderr
    );
}
