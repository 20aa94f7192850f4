//! What hints to the kernel do, on each kind of kernel LRU: the reasons why a warm page is touched twice where the kernel has two
//! lists and five times where it has generations, and why pages are named cold on the two lists alone.
//!
//! Runs in guests, with MGLRU on and off; the machine needs `memory.reclaim` (cgroup v2, 5.19).

use crate::support;

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use support::leaks::Guard;
use support::live::{has_generations, memory_group_of, memory_mount, wait_until};
use support::programs::{Touch, program, target_dir};
use support::strata::Strata;

use rustix::fs::{Advice, fadvise};
use tempfile::{NamedTempFile, TempPath};

use strata_linux::actuator::{Activate, Lever};
use strata_linux::process::Process;
use strata_lru::lru_gen::parse_plain;
use strata_lru::{GroupView, Kind};

/// Pages of each half of the region: 16 MiB.
const HALF: u64 = 4096;
const LRU_GEN: &str = "/sys/kernel/debug/lru_gen";

/// Why pages can't be reclaimed on request here.
fn no_reclaim() -> Option<String> {
    match memory_mount() {
        Some((_, false)) => None,
        _ => Some("memory.reclaim is part of cgroup v2".to_owned()),
    }
}

/// Why reclaim by the kernel's generations can't be tried here.
fn no_reclaim_by_generations() -> Option<String> {
    let no_generations = "the kernel keeps no generations (lru_gen/enabled)";
    no_reclaim().or_else(|| (!has_generations()).then(|| no_generations.to_owned()))
}

/// Why the kernel's two lists can't be tried here.
fn no_two_lists() -> Option<String> {
    let generations = "the kernel keeps generations (lru_gen/enabled)";
    no_reclaim().or_else(|| has_generations().then(|| generations.to_owned()))
}

/// Memory of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    Anon,
    Shared,
    MappedFile,
    Huge,
}

/// A region of two halves, all of it in memory, in a group with swap and room enough.
struct Region {
    touch: Touch,
    group: PathBuf,
    _file: Option<TempPath>,
}

impl Region {
    fn new() -> Region {
        Region::of(Memory::Anon)
    }

    fn of(memory: Memory) -> Region {
        let file = (memory == Memory::MappedFile).then(file_on_disk);
        let mut words: Vec<OsString> = vec!["--size".into(), "32M".into()];
        match memory {
            Memory::Anon => {}
            Memory::Shared => words.push("--shared".into()),
            Memory::Huge => words.push("--thp".into()),
            Memory::MappedFile => words.extend(["--shared".into(), "--file".into()]),
        }
        words.extend(file.iter().map(|path| path.as_os_str().to_owned()));
        let mut run = Strata::new(["run", "--quiet", "--memory", "1G", "--swap", "zram:128M"])
            .args(["--policy", "none", "--"])
            .arg(program("touch"))
            .command();
        let mut touch = Touch::start_behind(&mut run, words);
        if memory == Memory::MappedFile {
            // Each page by itself, and clean.
            touch.ask(&format!("advise random 0 {}", 2 * HALF));
            touch.ask(&format!("readrange 0 {}", 2 * HALF));
        } else {
            touch.ask(&format!("writerange 0 {}", 2 * HALF));
        }
        let group = memory_group_of(touch.pid);
        Region {
            touch,
            group,
            _file: file,
        }
    }

    /// Uses one half and has the processor forget it, so that its accessed bits are seen again.
    fn use_half(&mut self, half: u64) {
        self.touch.ask("flush");
        self.touch.ask(&format!("readrange {} {HALF}", half * HALF));
    }

    /// Pages of a half that are in memory.
    fn resident(&mut self, half: u64) -> u64 {
        let answer = self.touch.ask(&format!("resident {} {HALF}", half * HALF));
        answer.parse().expect("a number of pages")
    }

    fn cold(&mut self, half: u64) {
        self.touch
            .ask(&format!("advise cold {} {HALF}", half * HALF));
    }

    /// Touches the pages of one half, as often as a lever needs.
    fn touch_half(&mut self, half: u64, lever: Lever) {
        let process = Process::open(self.touch.pid).expect("touch runs");
        let pages = (half * HALF..(half + 1) * HALF).map(|page| self.touch.page_address(page));
        let mut thread = Activate::start(lever).expect("a thread starts");
        assert!(thread.try_submit(vec![(Arc::new(process), pages.collect())]));
        let report = loop {
            match thread.poll() {
                Some(report) => break report,
                None => sleep(Duration::from_millis(5)),
            }
        };
        assert_eq!(report.nr_touched_pages, HALF, "{report:?}");
    }

    fn reclaim(&self, pages: u64) {
        // EAGAIN: the kernel has not found all of it; what it took is what the tests look at.
        let _ = fs::write(
            self.group.join("memory.reclaim"),
            (pages * 4096).to_string(),
        );
    }

    /// The kernel's generations of the group.
    fn generations(&self) -> GroupView {
        let text = fs::read_to_string(LRU_GEN).expect("debugfs is mounted");
        let name = self.group.file_name().expect("a name").to_string_lossy();
        let views = parse_plain(&text).expect("the kernel's text");
        let own = views.into_iter().find(|view| view.path.ends_with(&*name));
        own.expect("the group is among them")
    }

    /// Has the kernel begin a generation, `times` over.
    fn age(&self, times: u32) {
        for _ in 0..times {
            let view = self.generations();
            let youngest = view.generations.last().expect("generations").seq.0;
            let command = format!("+ {} {} {youngest} 1 1\n", view.group.0, view.node.0);
            fs::write(LRU_GEN, command).expect("ageing");
        }
    }
}

/// A file whose data is on disk and not in memory.
fn file_on_disk() -> TempPath {
    let disk = std::env::var_os("STRATA_TEST_DISK").map_or_else(target_dir, PathBuf::from);
    let mut file = NamedTempFile::new_in(disk).expect("a file");
    let data = vec![7; 2 * HALF as usize * 4096];
    file.write_all(&data).expect("room for it");
    file.as_file().sync_all().expect("a disk");
    fadvise(file.as_file(), 0, None, Advice::DontNeed).expect("dropped");
    file.into_temp_path()
}

/// Anonymous pages by generation, the youngest first.
fn anon_youngest_first(view: &GroupView) -> Vec<u64> {
    let pages = |kind: Kind| kind.index();
    view.generations
        .iter()
        .rev()
        .map(|generation| generation.nr_pages[pages(Kind::Anon)].unwrap_or(0))
        .collect()
}

#[test]
fn a_cold_hint_makes_old_pages_younger_where_the_kernel_has_generations() {
    needs!("zram");
    if !has_generations() {
        skip!("the kernel keeps no generations (lru_gen/enabled)");
    }
    let _guard = Guard::new();
    let mut region = Region::new();
    region.age(4);
    let before = anon_youngest_first(&region.generations());
    region.cold(0);
    let after = anon_youngest_first(&region.generations());
    // The whole half moves up into the second youngest generation.
    assert!(before[1] < HALF / 4, "before: {before:?}");
    assert!(
        after[1] > HALF * 3 / 4,
        "before: {before:?}, after: {after:?}"
    );
}

#[test]
fn reclaim_takes_what_was_hinted_cold_last_where_the_kernel_has_generations() {
    needs!("zram");
    if let Some(reason) = no_reclaim_by_generations() {
        skip!("{reason}");
    }
    let _guard = Guard::new();
    let mut region = Region::new();
    region.age(4);
    region.cold(0);
    region.reclaim(HALF / 2);
    let (hinted, other) = (region.resident(0), region.resident(1));
    assert!(
        hinted > HALF * 9 / 10,
        "{hinted} of {HALF} hinted pages are left"
    );
    assert!(
        other < HALF * 3 / 4,
        "{other} of {HALF} other pages are left"
    );
}

#[test]
fn an_evict_command_takes_the_oldest_generations_and_spares_what_is_used() {
    needs!("zram");
    if !has_generations() {
        skip!("the kernel keeps no generations (lru_gen/enabled)");
    }
    let _guard = Guard::new();
    let mut region = Region::new();
    region.age(3);
    region.use_half(0);
    region.age(1);
    let view = region.generations();
    let youngest = view.generations.last().expect("generations").seq.0;
    let command = format!(
        "- {} {} {} 200 100000\n",
        view.group.0,
        view.node.0,
        youngest - 2
    );
    fs::write(LRU_GEN, command).expect("evicting");
    let (used, idle) = (region.resident(0), region.resident(1));
    assert!(used > HALF * 9 / 10, "{used} of {HALF} used pages are left");
    assert!(idle < HALF / 10, "{idle} of {HALF} idle pages are left");
}

#[test]
fn reclaim_takes_what_was_hinted_cold_first_where_the_kernel_has_two_lists() {
    needs!("zram");
    if let Some(reason) = no_two_lists() {
        skip!("{reason}");
    }
    let _guard = Guard::new();
    let mut region = Region::new();
    region.use_half(0);
    region.use_half(1);
    region.cold(0);
    // A page that was found used is spared once, a hinted one is not.
    region.reclaim(HALF / 2);
    wait_until("pages are gone", || {
        region.resident(0) + region.resident(1) < 2 * HALF
    });
    let (hinted, other) = (region.resident(0), region.resident(1));
    assert!(
        hinted < HALF * 3 / 4,
        "{hinted} of {HALF} hinted pages are left"
    );
    assert!(
        other > HALF * 9 / 10,
        "{other} of {HALF} other pages are left"
    );
}

/// The trial at the start of a run finds this out on each kernel; here it is known to hold. By itself the kernel takes the second
/// half first.
#[test]
fn what_was_touched_five_times_stays_where_the_kernel_has_generations() {
    needs!("zram");
    if let Some(reason) = no_reclaim_by_generations() {
        skip!("{reason}");
    }
    let _guard = Guard::new();
    for (lever, touched_stays) in [(Lever::Activation, false), (Lever::FiveTouches, true)] {
        let mut region = Region::new();
        region.age(4);
        region.touch_half(1, lever);
        region.reclaim(HALF / 2);
        let (other, touched) = (region.resident(0), region.resident(1));
        let (stays, goes) = match touched_stays {
            true => (touched, other),
            false => (other, touched),
        };
        assert!(
            stays > HALF * 95 / 100 && goes < HALF * 3 / 4,
            "{lever:?}: {touched} touched and {other} other pages are left of {HALF} each"
        );
    }
}

/// By itself the kernel takes the second half first where it has generations, and the first where it has two lists. No accessed bit is
/// left, so it knows no other difference.
#[test]
fn touches_have_pages_stay_whatever_memory_they_are_but_huge_ones() {
    needs!("zram");
    if let Some(reason) = no_reclaim() {
        skip!("{reason}");
    }
    let _guard = Guard::new();
    let (lever, goes_first) = match has_generations() {
        true => (Lever::FiveTouches, 1),
        false => (Lever::Activation, 0),
    };
    for (memory, touched_stays) in [
        (Memory::Anon, true),
        (Memory::Shared, true),
        (Memory::MappedFile, true),
        (Memory::Huge, false),
    ] {
        let mut region = Region::of(memory);
        if has_generations() {
            region.age(4);
        }
        fs::write(format!("/proc/{}/clear_refs", region.touch.pid), "1").expect("bits are cleared");
        region.touch_half(goes_first, lever);
        region.reclaim(HALF / 2);
        let (touched, other) = (region.resident(goes_first), region.resident(1 - goes_first));
        let (stays, goes) = match touched_stays {
            true => (touched, other),
            false => (other, touched),
        };
        assert!(
            stays > HALF * 95 / 100 && goes < HALF * 3 / 4,
            "{memory:?}: {touched} touched and {other} other pages are left of {HALF} each"
        );
    }
}

#[test]
fn a_run_tells_the_kernel_what_is_warm_by_what_works_there() {
    needs!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let _guard = Guard::new();
    let (run, report) = Strata::new(["run", "--memory", "24M", "--swap", "zram:128M", "--"])
        .arg(program("zipf"))
        .args(["--size", "40M", "--work-percent", "20", "--seconds", "8"])
        .time_limit(Duration::from_secs(120))
        .finish_with_report();
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    let lever = match has_generations() {
        true => "five_touches",
        false => "activation",
    };
    assert_eq!(report["hints"]["lever"], lever, "{report:#}");
}

#[test]
fn pageout_takes_exactly_its_pages_on_every_kernel() {
    needs!("zram");
    let _guard = Guard::new();
    let mut region = Region::new();
    region.touch.ask(&format!("advise pageout 0 {HALF}"));
    let (asked, other) = (region.resident(0), region.resident(1));
    assert!(
        asked < HALF / 50,
        "{asked} of {HALF} pages asked for are left"
    );
    assert_eq!(other, HALF, "the others were not asked for");
}
