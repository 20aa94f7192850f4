//! What is asked to take pages takes these and no others, on each kind of kernel LRU.
//!
//! Runs in guests, with MGLRU on and off.

use crate::support;

use std::fs;
use std::path::PathBuf;

use support::leaks::Guard;
use support::live::{has_generations, memory_group_of};
use support::programs::{Touch, program};
use support::strata::Strata;

use strata_lru::GroupView;
use strata_lru::lru_gen::parse_plain;

/// Pages of each half of the region: 16 MiB.
const HALF: u64 = 4096;
const LRU_GEN: &str = "/sys/kernel/debug/lru_gen";

/// A region of two halves, all of it in memory, in a group with swap and room enough.
struct Region {
    touch: Touch,
    group: PathBuf,
}

impl Region {
    fn new() -> Region {
        let mut run = Strata::new(["run", "--quiet", "--memory", "1G", "--swap", "zram:128M"])
            .args(["--policy", "none", "--"])
            .arg(program("touch"))
            .command();
        let mut touch = Touch::start_behind(&mut run, ["--size", "32M"]);
        touch.ask(&format!("writerange 0 {}", 2 * HALF));
        let group = memory_group_of(touch.pid);
        Region { touch, group }
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
fn pageout_takes_exactly_its_pages_on_every_kernel() {
    live!("zram");
    let mut region = Region::new();
    region.touch.ask(&format!("advise pageout 0 {HALF}"));
    let (asked, other) = (region.resident(0), region.resident(1));
    assert!(
        asked < HALF / 50,
        "{asked} of {HALF} pages asked for are left"
    );
    assert_eq!(other, HALF, "the others were not asked for");
}
