//! Pages of recordings, reports, histories and traces: what stands in them, and what is refused.

use crate::support::prelude::*;

use crate::guard_history;
use strata_trace::recording::{
    About, AreaName, PageBits, Piece, RecordingWriter, SpaceEnd, SpaceName, WalkKind,
};

/// Makes the page of a file, and reads it.
#[track_caller]
fn page_of(file: &Path) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.html");
    let file = file.to_str().expect("text");
    let said = Strata::new(["html", file, "-o"]).arg(&page).finish();
    let said = said.expect_success();
    assert!(said.stderr.contains("wrote "), "{}", said.stderr);
    let html = fs::read_to_string(page).expect("a page");
    assert_sound(&html);
    html
}

fn recording(name: &str) -> PathBuf {
    checkout().join("tests/recordings").join(name)
}

/// What a command prints of a recording.
#[track_caller]
fn json_of(command: &str, name: &str) -> Value {
    let said = Strata::line(command).arg(recording(name)).finish();
    said.expect_success().json()
}

/// Every element is closed in order, every id stands once, every link within the page leads somewhere, and nothing is loaded.
#[track_caller]
fn assert_sound(html: &str) {
    for load in ["http://", "https://", "@import", "url("] {
        assert!(!html.contains(load), "{load} in the page");
    }
    assert!(html.contains("default-src 'none'"));
    let (mut open, mut ids) = (Vec::new(), Vec::new());
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        let tag = &rest[at + 1..];
        let end = tag.find('>').expect("a tag ends");
        let (tag, after) = tag.split_at(end);
        rest = &after[1..];
        let name: String = tag
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric())
            .collect();
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "{name} is closed");
            continue;
        }
        ids.extend(
            tag.split(" id=\"")
                .nth(1)
                .map(|id| id.split('"').next().expect("an id").to_owned()),
        );
        if !tag.starts_with('!') && !tag.ends_with('/') && name != "meta" {
            open.push(name.clone());
        }
        let loads = ["img", "link", "iframe", "object", "embed", "base"];
        assert!(!loads.contains(&name.as_str()), "{name} in the page");
        if name == "script" || name == "style" {
            assert!(!tag.contains("src="), "{tag}");
            rest = &rest[rest.find(&format!("</{name}>")).expect("its end")..];
        }
    }
    assert_eq!(open, Vec::<String>::new(), "what is not closed");
    let nr_ids = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), nr_ids, "an id stands twice");
    let links = html
        .split("href=\"#")
        .skip(1)
        .map(|link| link.split('"').next().expect("a link"));
    let attributes = html
        .split("data-row=\"")
        .skip(1)
        .map(|row| row.split('"').next().expect("a row"));
    for id in links.chain(attributes).filter(|id| !id.is_empty()) {
        assert!(
            ids.iter().any(|known| known == id),
            "nothing has the id {id}"
        );
    }
}

#[test]
fn a_recording_has_its_heat_map_its_ages_and_the_budget_that_plan_tells() {
    let html = page_of(&recording("sort.strata"));
    for part in [
        "Memory over time",
        "What was used when",
        "How old the memory is",
        "Budget and slowdown",
    ] {
        assert!(html.contains(&format!(">{part}</h2>")), "{part}");
    }
    assert!(html.contains("[heap]") && html.contains("[stack]") && html.contains("class=l7"));
    // Short enough to be replayed whole: the very figures of strata plan.
    let plan = json_of("plan --format json", "sort.strata");
    let points = plan["points"].as_array().expect("points");
    assert_eq!(html.matches("<i class=dot").count(), points.len());
    let safe = plan["budget_bytes"]["highest"].as_u64().expect("a budget");
    let row = html
        .lines()
        .find(|line| line.contains(">safe</td>"))
        .expect("a row");
    let bytes = format!("{} bytes", strata_sim::table::grouped(safe));
    assert!(row.contains(&bytes), "{row}, not {bytes}");
    assert!(!html.contains("This is of a sample"));
}

#[test]
fn a_trace_has_its_heat_map_and_reuse() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("no-name-that-tells");
    let convert = Strata::line("trace convert gen:loop,pages=1000,accesses=50000").arg(&trace);
    convert.finish().expect_success();
    let html = page_of(&trace);
    assert!(html.contains(">What was accessed when</h2>"));
    assert_has(&html, "50,000 accesses");
    assert_has(&html, ">512 to 1,023</td>");
    let generated = page_of(Path::new("gen:loop,pages=1000,accesses=50000"));
    let nr_paths = |page: &str| page.matches("<path").count();
    assert_eq!(nr_paths(&generated), nr_paths(&html));
}

#[test]
fn a_history_has_what_was_given_back_by_group() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("some.file");
    guard_history::keep(&path);
    let html = page_of(&path);
    assert_has(&html, ">24 MiB</b>given back in all");
    assert!(html.contains("<figure id=\"g0\">") && html.contains("/app.slice/shop.service"));
}

fn json_page(value: &str) -> String {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), value).expect("written");
    page_of(file.path())
}

#[test]
fn what_other_commands_print_as_json_has_bars_and_every_figure_in_a_table() {
    let status = serde_json::to_value(guard_history::status(8 << 20)).expect("JSON");
    let html = json_page(&status.to_string());
    assert!(html.contains(">What a guard gives back</h1>") && html.contains("id=\"groups-0\""));
    let walks = format!("{status}\n{status}\n");
    assert!(json_page(&walks).contains(">Over time</h2>"));
    let idle = json!({
        "age_ms": 60_000, "watched_ms": 61_000, "resident_bytes": 3 << 30, "idle_bytes": 1 << 30, "safe_budget": null,
        "groups": [{"group": "/a", "resident_bytes": 3 << 30, "idle_bytes": 1 << 30, "idle": {"anon_bytes": 1 << 30, "file_bytes": 0},
            "programs": [{"pid": 42, "command": "redis", "resident_bytes": 1 << 30, "idle_bytes": 1 << 30}]}],
    });
    let html = json_page(&idle.to_string());
    assert_has(&html, "idle, anonymous: 1 GiB (1,073,741,824 bytes)");
    assert!(html.contains(">groups.programs</h3>") && html.contains(">redis</td>"));
    let run = json!({
        "usage": {"budget_bytes": 250 << 20, "peak_bytes": 240 << 20}, "working_set_bytes": null,
        "eviction": {"nr_applied_pages": 256, "nr_kernel_chosen_pages": 0, "nr_refaulted_pages": 1},
        "saved": {"evicted_bytes": 1 << 20, "zram_bytes": 0, "strata_bytes": 20 << 20, "net_bytes": -(19 << 20)},
        "generations": [{"seq": 3, "age_ms": 4000, "anon_bytes": 4096, "file_bytes": 0}],
    });
    let html = json_page(&run.to_string());
    assert_has(&html, ">-19 MiB</b>saved net");
    assert_has(&html, "since 4 s or less");
    let plan = json_of("plan --format json", "sort.strata");
    assert_has(&json_page(&plan.to_string()), "<i class=dot");
    let promise = "plan --promise 1%/min --min-age 5s --format json";
    let promise = json_of(promise, "cold.strata");
    assert_has(&json_page(&promise.to_string()), ">Group 0 over time</h2>");
}

#[test]
fn a_verb_that_tells_a_plan_makes_its_page_on_the_way() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("plan.html");
    let said = Strata::new(["plan", "--slowdown", "20%", "--html"])
        .arg(&page)
        .arg(recording("sort.strata"))
        .finish();
    let said = said.expect_success();
    assert!(said.stdout.contains("Safe: "), "{}", said.stdout);
    let html = fs::read_to_string(page).expect("a page");
    assert_sound(&html);
    assert!(html.contains("Slowdown of at most 20.00 %") && html.contains("[heap]"));
}

/// What somebody may call a process or a file.
const HOSTILE: &str =
    "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'\u{1b}[2J\u{202e}&";

fn about(target: &str) -> About {
    About {
        interval_us: 100_000,
        target: target.to_owned(),
        source: target.to_owned(),
    }
}

/// Names a process, and its areas by class and name.
fn name_all(
    out: &mut RecordingWriter<impl Write>,
    pid: u32,
    areas: impl Iterator<Item = (String, String)>,
    name: String,
) {
    let space = 0;
    out.name_space(&SpaceName { space, pid, name })
        .expect("named");
    for (area, (class, name)) in (0..).zip(areas) {
        let of = AreaName {
            area,
            space,
            class,
            name,
        };
        out.name_area(&of).expect("named");
    }
}

#[test]
fn names_of_somebody_hostile_are_text_and_nothing_else() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let out = File::create(file.path()).expect("a file");
    let mut out = RecordingWriter::new("hostile", out, &about(HOSTILE)).expect("begun");
    let name = HOSTILE.to_owned();
    name_all(
        &mut out,
        1,
        [(name.clone(), name.clone())].into_iter(),
        name,
    );
    for (at_us, kind) in [(0, WalkKind::Baseline), (100_000, WalkKind::Interval)] {
        out.begin_walk(kind, at_us).expect("a walk");
        out.begin_space(0, 1000).expect("a space");
        out.piece(&Piece {
            appeared: [1; 8],
            ..Piece::default()
        })
        .expect("a piece");
        out.end_space(SpaceEnd::Whole).expect("its end");
    }
    out.finish().expect("finished");
    let status = json!({"is_acting": false, HOSTILE: 1, "groups": [{"group": HOSTILE, "idle_bytes": 1, HOSTILE: HOSTILE}]});
    for html in [page_of(file.path()), json_page(&status.to_string())] {
        assert_has(&html, "&lt;script&gt;alert(1)");
        for evil in ["<script>alert", "<img", "\" onerror", "\u{1b}", "\u{202e}"] {
            assert!(!html.contains(evil), "{evil:?}");
        }
    }
}

/// A history and the files of its host, one of them with a hostile name: `history.db` and `files.json`. Returns the latter's JSON.
pub(super) fn host(folder: &Path) -> Value {
    guard_history::keep(&folder.join("history.db"));
    let file = |path: &str, group: &str| {
        json!({"path": path, "group": group, "cached_bytes": 3 << 20, "used_bytes": 1 << 20, "dirty_bytes": 0, "mapped_bytes": 0,
            "read_bytes": 1 << 20, "unknown_bytes": 0, "unknown_idle": null, "idle_bytes": 2 << 20, "is_open": false, "is_deleted": false})
    };
    let rows = [
        file("/var/log/big.log", "/app.slice/shop.service"),
        file(HOSTILE, HOSTILE),
    ];
    let files = json!({"files": rows, "nr_files": 2, "total_bytes": 6 << 20, "watched": null, "error_bytes": 0,
        "sampled_share": 1.0, "lost_bytes": 0, "cost": {"cpu_ns": 1}});
    fs::write(folder.join("files.json"), files.to_string()).expect("written");
    files
}

#[test]
fn the_page_of_a_host_tells_the_dearest_files_too_and_their_names_are_text() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let mut files = host(folder.path());
    let made = |file: &str| {
        let (files, page) = (at("files.json"), at("page.html"));
        let said = Strata::line(&format!("html {file} --files {files} -o {page}"));
        said.finish().expect_success();
        let html = fs::read_to_string(at("page.html")).expect("a page");
        assert_sound(&html);
        html
    };
    let html = made(&at("history.db"));
    assert_has(&html, ">24 MiB</b>given back in all");
    assert!(html.contains(">Files in page cache</h2>") && html.contains(">6 MiB</b>page cache"));
    assert_has(&html, "read once: 2 MiB (2,097,152 bytes)");
    assert!(html.contains("href=\"#files-0\"") && html.contains("<tr id=\"files-1\">"));
    assert!(html.contains("/var/log/big.log") && html.contains("&lt;script&gt;alert(1)"));
    for evil in ["<script>alert", "<img", "\" onerror", "\u{1b}", "\u{202e}"] {
        assert!(!html.contains(evil), "{evil:?}");
    }
    // After a watch it is known what is idle.
    files["watched"] = json!({"seconds": 60.0});
    fs::write(at("files.json"), files.to_string()).expect("written");
    let html = made(&at("history.db"));
    assert_has(&html, "idle: not read in the watch: 2 MiB");
    let status = serde_json::to_value(guard_history::status(8 << 20)).expect("JSON");
    fs::write(at("status.json"), status.to_string()).expect("written");
    made(&at("status.json"));
    for (file, of, why) in [
        ("history.db", "status.json", "tells no files"),
        ("history.db", "history.db", "no JSON as Strata prints it"),
        ("files.json", "files.json", "something else than files"),
    ] {
        let (file, files, none) = (at(file), at(of), at("none.html"));
        let said = refused(&["html", &file, "--files", &files, "-o", &none]);
        assert_has(&said, why);
        assert!(!Path::new(&none).exists());
    }
}

/// A recording of so many walks over 2 GiB in 200 mappings, of which each walk finds some pages at random.
fn long_recording(path: &Path, nr_walks: u64, nr_tables_a_walk: u64) -> u64 {
    let out = std::io::BufWriter::new(File::create(path).expect("a file"));
    let mut out = RecordingWriter::new("long", out, &about("process 42")).expect("begun");
    let areas = (0..200).map(|area| ("file_private".to_owned(), format!("/lib/{area}.so")));
    name_all(&mut out, 42, areas, "job".to_owned());
    let mut state = 1;
    let mut random = || -> PageBits {
        std::array::from_fn(|_| next_random(&mut state) & next_random(&mut state))
    };
    for walk in 0..=nr_walks {
        let (kind, nr_tables) = match walk {
            0 => (WalkKind::Baseline, 1000),
            _ => (WalkKind::Interval, nr_tables_a_walk),
        };
        out.begin_walk(kind, walk * 100_000).expect("a walk");
        out.begin_space(0, 90_000).expect("a space");
        for at in 0..nr_tables {
            let table = (at + walk * 13) % 1000;
            let area = (table / 5) as u32;
            let mut piece = Piece {
                table,
                area,
                ..Piece::default()
            };
            match walk {
                0 => piece.appeared = [u64::MAX; 8],
                _ => piece.accessed = random(),
            }
            out.piece(&piece).expect("a piece");
        }
        out.end_space(SpaceEnd::Whole).expect("its end");
    }
    out.finish().expect("finished");
    fs::metadata(path).expect("a file").len()
}

/// The page of a long recording is as small as its picture.
fn assert_bounded(html: &str) {
    assert!(html.len() < 2 << 20, "{} bytes", html.len());
    assert_eq!(html.matches("<figure").count(), 16);
    assert!(
        html.matches("<path").count() <= 8 * 200,
        "{}",
        html.matches("<path").count()
    );
    assert!(html.contains("all others") && html.contains("This is of a sample, one page in "));
    assert!(html.contains(">safe</td>"));
}

#[test]
fn the_page_of_a_long_recording_is_bounded_and_its_budget_is_of_a_sample() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let bytes = long_recording(file.path(), 300, 100);
    assert!(bytes > 1 << 20, "{bytes}");
    assert_bounded(&page_of(file.path()));
}

#[test]
#[ignore = "writes 100 MB"]
fn long_a_recording_of_100_mb_becomes_a_small_page_in_seconds() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let bytes = long_recording(file.path(), 3600, 450);
    assert!(bytes > 100_000_000, "{bytes}");
    let begin = Instant::now();
    assert_bounded(&page_of(file.path()));
    let took = begin.elapsed();
    // The release build keeps to 5 s; this one checks for overflows.
    assert!(took < Duration::from_secs(15) * patience(), "{took:?}");
}

#[test]
fn what_has_no_page_is_refused_with_the_reason_and_nothing_is_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (page, large) = (at("page.html"), at("large.strata"));
    fs::copy(recording("sort.strata"), &large).expect("copied");
    // Takes no room: nothing is written.
    File::options()
        .write(true)
        .open(&large)
        .and_then(|file| file.set_len(4 << 30))
        .expect("grown");
    fs::write(at("other.json"), "{\"a\": 1}").expect("written");
    fs::write(at("torn.json"), "{\"usage\": ").expect("written");
    for (file, why) in [
        (large.as_str(), "up to 1 GiB: record for a shorter time"),
        (&at("other.json"), "none that has a page"),
        (&at("torn.json"), "is no JSON as Strata prints it"),
        (&at("nowhere"), "No such file"),
        (&at("."), "no regular file"),
        ("/dev/zero", "no regular file"),
    ] {
        let said = refused(&["html", file, "-o", &page]);
        assert!(said.contains(why), "{file}: {said}");
        assert!(!Path::new(&page).exists(), "{file}");
    }
    let sort = recording("sort.strata");
    let place = "/nowhere/at/all.html";
    let said = refused(&["html", sort.to_str().expect("text"), "-o", place]);
    assert_has(&said, "nothing can be written to");
    let torn = fs::read(&sort).expect("a recording");
    fs::write(at("torn.strata"), &torn[..torn.len() / 2]).expect("written");
    let cut = Strata::new(["html", &at("torn.strata"), "-o", &page]).finish();
    assert_eq!(cut.code(), Some(1), "{}", cut.stderr);
    let passed_over =
        Strata::new(["html", "--skip-broken", &at("torn.strata"), "-o", &page]).finish();
    assert!(passed_over.expect_success().stderr.contains("passed over"));
}

#[test]
fn a_disk_that_is_full_half_way_is_an_error_and_the_old_page_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.html");
    fs::write(&page, "the old page").expect("written");
    // Files may have 8 KiB, and whoever goes beyond gets an error.
    let script = "trap '' XFSZ; ulimit -f 16; exec \"$@\"";
    let child = Command::new("sh")
        .args(["-c", script, "sh", binary(), "html"])
        .arg(recording("sort.strata"))
        .arg("-o")
        .arg(&page)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let said = finish(child.expect("a shell"), &[], Duration::from_secs(60));
    assert_eq!(said.code(), Some(1), "{}", said.stderr);
    assert_has(&said.stderr, "writing to");
    assert_has(&said.stderr, "page.html");
    assert_eq!(fs::read_to_string(&page).expect("a page"), "the old page");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
}
