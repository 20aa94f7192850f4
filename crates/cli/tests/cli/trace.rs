//! `strata trace`: what it tells, what it writes, and what it says when a trace is broken.

use crate::support::prelude::*;

/// A folder with a small trace, in which files of `strata trace` begin with `@`.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().expect("temporary folder"));
        let lines = "time,op,lbn\n1.5,2a,10\n2,28,11\n3,28,10\n";
        fs::write(folder.at("t.csv"), lines).expect("writable");
        folder
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn trace(&self, args: &str) -> Finished {
        let here = format!(" {}/", self.0.path().display());
        Strata::line(&format!("trace {args}").replace(" @", &here)).finish()
    }

    #[track_caller]
    fn data(&self, args: &str) -> String {
        self.trace(args).expect_success().stdout
    }
}

#[test]
fn info_counts_what_is_in_a_trace() {
    let folder = Folder::new();
    let answer = parsed(&folder.data("info @t.csv gen:loop,pages=3,accesses=7 --format json"));
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
    let table = folder.data("info @t.csv");
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
    let folder = Folder::new();
    let csv = |more: &str| folder.data(&format!("convert @t.csv - --to csv {more}"));
    let heads = "time_us,group,space,page,size,op,via,backing\n";
    let first = "0,0,0,10,0,write,fd,file\n500000,0,0,11,0,read,fd,file\n";
    let text = csv("");
    assert!(text.starts_with(&format!("{heads}{first}")), "{text}");
    assert_eq!(text.lines().count(), 4);
    let text = csv("--via mmap --backing anon");
    let last = text.lines().last().unwrap_or_default();
    assert!(last.ends_with(",mmap,anon"), "{text}");
}

#[test]
fn what_is_converted_there_and_back_is_the_same() {
    let folder = Folder::new();
    let generator = "gen:mixed,accesses=5000,groups=2,writes=30";
    for (from, to) in [
        (generator, "@a.strata"),
        ("@a.strata", "@b.csv"),
        ("@b.csv", "@c.strata"),
    ] {
        folder.data(&format!("convert {from} {to}"));
    }
    let read = |name: &str| fs::read(folder.at(name)).expect("written");
    assert_eq!(read("a.strata"), read("c.strata"));
    assert!(read("a.strata").len() * 4 < read("b.csv").len());
    let straight = folder.data(&format!("convert {generator} - --to csv"));
    assert_eq!(straight.into_bytes(), read("b.csv"));
}

#[test]
fn an_output_that_is_there_is_not_replaced_unasked() {
    let folder = Folder::new();
    let refused = folder.trace("convert gen:loop,accesses=9 @t.csv");
    assert_eq!(refused.code(), Some(2));
    assert_has(&refused.stderr, "is already there: say --force");
    folder.data("convert gen:loop,accesses=9 @t.csv --force");
    let text = fs::read_to_string(folder.at("t.csv")).expect("there");
    assert_eq!(text.lines().count(), 10);
}

#[test]
fn a_broken_trace_is_told_with_its_place_and_leaves_no_output() {
    let folder = Folder::new();
    let broken = folder.at("b.lis");
    fs::write(&broken, "1 2 0 0\noops\n7 1 0 1\n").expect("writable");
    let said = folder.trace("convert @b.lis @out.strata");
    assert_eq!(said.code(), Some(1));
    let told = format!(
        "strata: error: {}: line 2: first block must be a number",
        broken.display()
    );
    assert_has(&said.stderr, &told);
    assert_eq!(fs::read_dir(folder.at("")).expect("folder").count(), 2);

    let said = folder.trace("convert @b.lis - --to csv --skip-broken");
    assert_eq!((said.code(), said.stdout.lines().count()), (Some(0), 4));
    assert_has(&said.stderr, "warning: passed over: ");
    // Many are told in few lines.
    fs::write(&broken, "1 1 0 0\n".to_owned() + &"oops\n".repeat(50)).expect("writable");
    let said = folder.trace("info @b.lis --skip-broken");
    assert_eq!((said.code(), said.stderr.lines().count()), (Some(0), 4));
    assert_has(&said.stderr, "passed over 50 broken places in all");
}
