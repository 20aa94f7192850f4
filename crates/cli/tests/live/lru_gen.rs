//! `strata lru-gen` on live processes.

use crate::support::prelude::*;

use strata_lru::GroupView;
use strata_lru::lru_gen::{format_plain, parse_plain, section_of};

const PAGE: u64 = 4096;

/// Between the two walks.
fn interval_ms() -> u64 {
    300 * u64::from(patience().div_ceil(3))
}

fn once(pid: i32, more: &[&str]) -> GroupView {
    let run = Strata::new(["lru-gen", "--once", "--interval"])
        .arg(format!("{}ms", interval_ms()))
        .arg("--pid")
        .arg(pid.to_string())
        .args(more)
        .finish()
        .expect_success();
    let views = parse_plain(&run.stdout).unwrap_or_else(|e| panic!("{e}: {}", run.stdout));
    assert_eq!(views.len(), 1, "{}", run.stdout);
    views.into_iter().next().expect("one")
}

fn pages(view: &GroupView) -> u64 {
    view.generations
        .iter()
        .flat_map(|g| g.nr_pages)
        .flatten()
        .sum()
}

#[test]
fn the_generations_add_up_to_what_is_resident_and_pages_in_use_stay_young() {
    live!("cap_bpf");
    // Written to the `clear_refs` of a process whose first thread has ended the order did nothing, and all stayed young.
    for order in ["flush", "leaderexit"] {
        let mut touch = Touch::start(["--size", "64M"]);
        touch.ask(order);
        touch.ask("writerange 0 16384");
        // A bit is set again only after the processor has dropped its translation, which an emulated one
        // does not do by itself: the program makes it forget them.
        touch.ask("hammer 7 8000");
        let view = once(touch.pid, &[]);
        let youngest = &view.generations[view.generations.len() - 2..];
        let young: u64 = youngest.iter().filter_map(|g| g.nr_pages[0]).sum();
        assert!((7600..12000).contains(&young), "{order}, {young}: {view:?}");
        assert!(pages(&view) >= 16384, "{order}: {view:?}");
        let ages: Vec<u64> = view.generations.iter().map(|g| g.age_ms).collect();
        let is_sorted = ages.is_sorted_by(|older, younger| older >= younger);
        assert!(is_sorted && ages[0] >= interval_ms(), "{ages:?}");
        let (sum, resident) = (pages(&view), rss_bytes(touch.pid) / PAGE);
        // (The kernel tells nothing of a process by the id of a thread that has ended.)
        assert!(
            order == "leaderexit" || sum.abs_diff(resident) * 50 <= resident,
            "{sum} of {resident} pages: {view:?}"
        );
    }
}

#[test]
fn without_bpf_a_process_is_still_watched() {
    let _guard = Guard::new();
    let mut touch = Touch::start(["--size", "16M"]);
    touch.ask("writerange 0 4096");
    let view = once(touch.pid, &["--access", "smaps"]);
    assert!(pages(&view) >= 4000, "{view:?}");
}

#[test]
fn the_full_text_tells_what_the_last_walk_read() {
    live!("cap_bpf");
    let mut touch = Touch::start(["--size", "64M"]);
    touch.ask("writerange 0 16384");
    touch.ask("hammer 7 8000");
    let run = Strata::new(["lru-gen", "--full", "--once", "--interval"])
        .arg(format!("{}ms", interval_ms()))
        .arg("--pid")
        .arg(touch.pid.to_string())
        .finish()
        .expect_success();
    let last = run.stdout.lines().last().unwrap_or_default();
    let figures: Vec<u64> = last
        .split_whitespace()
        .zip("TYFA".chars())
        .map(|(figure, mark)| {
            let digits = figure.strip_suffix(mark);
            digits.and_then(|digits| digits.parse().ok())
        })
        .map(|figure| figure.unwrap_or_else(|| panic!("{last:?}")))
        .collect();
    let [total, young, found, added] = figures[..] else {
        panic!("{last:?}");
    };
    // All of what is mapped was read, the tables that are used were dense both times.
    assert!(total >= 16384, "{last:?}");
    assert!((7600..12000).contains(&young), "{last:?}");
    assert!(added >= 15 && found >= added, "{last:?}");
}

/// `strata lru-gen` of a group.
fn text_of(group: &Path, more: &[&str]) -> String {
    let run = Strata::new(["lru-gen", "--cgroup"]).arg(group).args(more);
    run.finish().expect_success().stdout
}

/// The one node of the guests.
fn view(text: &str) -> GroupView {
    let mut views = parse_plain(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    assert!(!views.is_empty(), "{text}");
    views.swap_remove(0)
}

fn anon(view: &GroupView) -> u64 {
    view.generations.iter().filter_map(|g| g.nr_pages[0]).sum()
}

fn second_youngest_age_ms(view: &GroupView) -> u64 {
    view.generations[view.generations.len() - 2].age_ms
}

/// Why the kernel's own generations can't be read here.
fn kernel_lacks_generations() -> Option<&'static str> {
    let enabled = fs::read_to_string("/sys/kernel/mm/lru_gen/enabled").unwrap_or_default();
    if enabled.trim().is_empty() || enabled.trim() == "0x0000" {
        return Some("needs a kernel whose multi-gen LRU is on (lru_gen/enabled)");
    }
    let is_mounted = Path::new(DEBUGFS).exists();
    (!is_mounted).then_some("needs debugfs at /sys/kernel/debug")
}

const DEBUGFS: &str = "/sys/kernel/debug/lru_gen";

/// What the kernel writes of the group, in one of its files.
fn kernels(file: &str, group: &TestGroup) -> String {
    let text = fs::read_to_string(file).expect("debugfs");
    let name = group.path.file_name().expect("a name").to_string_lossy();
    let lines = text.lines().filter_map(|line| line.strip_prefix("memcg "));
    let mut listed = lines.filter_map(|line| Some(line.trim_start().split_once(' ')?.1));
    let is_its = |path: &&str| path.rsplit('/').next() == Some(&*name);
    let path = listed.find(is_its).expect("the kernel lists the group");
    section_of(&text, path).expect("it is listed").to_owned()
}

/// A group with `touch` in it, which has written 64 MiB, aged by the kernel and by us, both twice and an
/// interval apart.
struct Aged {
    group: TestGroup,
    _touch: Touch,
    ours: String,
}

impl Aged {
    /// `form` is how ours is printed.
    fn new(name: &str, form: &[&str]) -> Aged {
        let group = TestGroup::new(name);
        let mut touch = Touch::start(["--size", "64M"]);
        group.take(touch.pid);
        touch.ask("writerange 0 16384");
        let age = || {
            let view = view(&kernels(DEBUGFS, &group));
            let youngest = view.generations.last().expect("a generation").seq.0;
            let command = format!("+ {} {} {youngest}", view.group.0, view.node.0);
            fs::write(DEBUGFS, command).expect("the kernel walks");
        };
        age();
        let interval = format!("{}ms", interval_ms());
        let once = ["--once", "--interval", &interval];
        let ours = text_of(&group.path, &[&once, form].concat());
        age();
        Aged {
            group,
            _touch: touch,
            ours,
        }
    }
}

#[test]
fn our_generations_of_a_group_are_like_those_the_kernel_keeps_itself() {
    needs!("cap_bpf", "memory_cgroup");
    if let Some(why) = kernel_lacks_generations() {
        skip!("{why}");
    }
    let _guard = Guard::new();
    let aged = Aged::new("generations", &[]);
    let text = kernels(DEBUGFS, &aged.group);
    let (ours, kernel) = (view(&aged.ours), view(&text));
    let all = parse_plain(&text).expect("read before");
    assert_eq!(
        format_plain(&all),
        text,
        "what we write is what the kernel writes, to the byte"
    );

    assert_eq!((&ours.path, ours.node), (&kernel.path, kernel.node));
    assert!(
        anon(&ours).abs_diff(anon(&kernel)) * 10 <= anon(&kernel) && anon(&ours) >= 16_000,
        "ours: {ours:?}\nkernel: {kernel:?}"
    );
    for view in [&ours, &kernel] {
        let count = view.generations.len();
        assert!((2..=4).contains(&count), "{view:?}");
        let is_in_order = |pair: &[strata_lru::GenerationView]| {
            pair[1].seq.0 == pair[0].seq.0 + 1 && pair[0].age_ms >= pair[1].age_ms
        };
        assert!(view.generations.windows(2).all(is_in_order), "{view:?}");
    }
    let (age, kernels_age) = (
        second_youngest_age_ms(&ours),
        second_youngest_age_ms(&kernel),
    );
    assert!(
        age >= interval_ms() / 2 && kernels_age >= interval_ms() / 2,
        "{age} and {kernels_age} ms"
    );
    let (less, more) = (age.min(kernels_age), age.max(kernels_age));
    assert!(more <= less * 10, "{age} and {kernels_age} ms");
}

/// What a line of the full text is about, by where its first figure stands, and how wide it is.
fn shape(line: &str) -> (&'static str, usize) {
    let blanks = line.len() - line.trim_start().len();
    match line.split_whitespace().next() {
        Some("memcg") => ("group", 0),
        Some("node") => ("node", 0),
        // Of what a walk saw there are six figures up to 6.13, then four.
        _ if blanks >= 22 => ("walk", 0),
        _ if blanks >= 12 => ("tier", line.len()),
        _ => ("generation", line.len()),
    }
}

#[test]
fn our_full_text_has_the_lines_and_columns_of_the_kernels() {
    needs!("cap_bpf", "memory_cgroup");
    if let Some(why) = kernel_lacks_generations() {
        skip!("{why}");
    }
    let _guard = Guard::new();
    let aged = Aged::new("full", &["--full"]);
    let kernel = kernels("/sys/kernel/debug/lru_gen_full", &aged.group);
    let shapes = |text: &str| text.lines().map(shape).collect::<Vec<_>>();
    let (ours, kernels) = (shapes(&aged.ours), shapes(&kernel));
    // Both show as many generations as there is room for: four.
    assert_eq!(ours.len(), 2 + 4 * 6, "{}", aged.ours);
    assert_eq!(ours, kernels[..ours.len()], "{}\n{kernel}", aged.ours);
}
