//! Limits, swap, and what the kernel does with memory by itself.

use rustix::fs::Access;

use super::{Check, Machine};
use strata_linux::cgroup::{self, CgroupError, Version};
use strata_linux::nodes::{MemoryNode, NodeRoom, Nodes};
use strata_linux::rights;
use strata_linux::swap::{free_swap_bytes, total_swap_bytes};
use strata_linux::units::Bytes;
use strata_lru::NodeId;

const PAGEOUT_ONLY: &str = "without, --no-cgroup holds a budget by page-out alone";

pub(super) fn checks(machine: &Machine) -> Vec<Check> {
    vec![
        memory_cgroup(),
        memory_reclaim(),
        swap(machine),
        zram(machine),
        mglru(machine),
        transparent_huge_pages(machine),
        ksm(machine),
        memory_nodes(),
    ]
}

fn memory_cgroup() -> Check {
    let check = Check::named(
        "memory_cgroup",
        "a hard limit behind the budget, exact usage",
    );
    let (version, point) = match mounted() {
        Ok(mounted) => mounted,
        Err(error) => {
            let remedy = "mount -t cgroup2 cgroup2 /sys/fs/cgroup (boot with cgroup_enable=memory \
                          where the controller is off)";
            return check.limited(error.to_string(), format!("{remedy}; {PAGEOUT_ONLY}"));
        }
    };
    let number = match version {
        Version::V1 => 1,
        Version::V2 => 2,
    };
    let found = format!("version {number} at {}", point.display());
    match rustix::fs::access(&point, Access::WRITE_OK) {
        Ok(()) => check.ok(found),
        Err(rustix::io::Errno::ROFS) => {
            let remedy = format!("mount -o remount,rw {}; {PAGEOUT_ONLY}", point.display());
            check.limited(format!("{found}, read-only"), remedy)
        }
        Err(error) => {
            let advice = rights::command_advice("the right to write there");
            let remedy = format!("{advice}; {PAGEOUT_ONLY}");
            check.limited(format!("{found}, not writable ({error})"), remedy)
        }
    }
}

/// Which memory there is, and how fast.
fn memory_nodes() -> Check {
    let check = Check::named("memory_nodes", "told only: where --tiers moves pages");
    let nodes = match Nodes::read() {
        Ok(nodes) => nodes,
        Err(error) => return check.ok(error.to_string()),
    };
    let rooms = nodes.rooms().unwrap_or_default();
    let tell = |((at, node), room): ((usize, &MemoryNode), &NodeRoom)| {
        let speed = match nodes.is_upper(NodeId(at as u8)) {
            true => "fast",
            false => "slow",
        };
        format!("{} ({speed}, {})", node.kernel_id, Bytes(room.total_bytes))
    };
    let all = nodes.nodes().iter().enumerate().zip(&rooms);
    let told: Vec<String> = all.map(tell).collect();
    check.ok(match nodes.has_tiers() {
        true => told.join(", "),
        false => format!("all equally fast: {}", told.join(", ")),
    })
}

fn mounted() -> Result<(Version, std::path::PathBuf), CgroupError> {
    Ok((cgroup::mounted_version()?, cgroup::mount_point()?))
}

fn memory_reclaim() -> Check {
    let check = Check::named(
        "memory_reclaim",
        "the kernel's batched reclaim ahead of the limit",
    );
    match mounted() {
        Ok((Version::V1, _)) => check.ok("version 1 has none: a short dip of the limit does it"),
        Ok((Version::V2, point)) if point.join("memory.reclaim").exists() => {
            check.ok("memory.reclaim")
        }
        Ok(_) => check.limited(
            "no memory.reclaim",
            "boot Linux 5.19 or later; else page-out only",
        ),
        Err(_) => check.limited("no memory cgroup", "see memory_cgroup; else page-out only"),
    }
}

fn swap(machine: &Machine) -> Check {
    let check = Check::named("swap", "taking anonymous pages");
    match (total_swap_bytes(), free_swap_bytes()) {
        (Ok(total), Ok(free)) if total > 0 => {
            check.ok(format!("{} of {} free", Bytes(free), Bytes(total)))
        }
        _ if zram_module(machine).is_some() => check.limited(
            "none",
            "strata run --swap zram:SIZE makes one while a program runs",
        ),
        _ => check.limited(
            "none",
            "strata run --swap file:PATH:SIZE makes one for the time it runs",
        ),
    }
}

fn zram(machine: &Machine) -> Check {
    let check = Check::named("zram", "--swap zram: compressed memory as swap");
    match zram_module(machine) {
        Some(found) => check.ok(found),
        None => check.limited(
            "no zram in this kernel",
            "install the kernel's extra modules (Ubuntu: apt-get install \
             linux-modules-extra-$(uname -r)), or use --swap file:PATH:SIZE",
        ),
    }
}

/// How zram is to be had here.
fn zram_module(machine: &Machine) -> Option<String> {
    if machine.has("/sys/class/zram-control/hot_add") {
        return Some("loaded, adds devices as they are needed".to_owned());
    }
    if machine.text("/sys/block/zram0/disksize").as_deref() == Some("0") {
        return Some("/dev/zram0 is free".to_owned());
    }
    let release = machine.text("/proc/sys/kernel/osrelease")?;
    let listed = machine.text(&format!("/lib/modules/{release}/modules.dep"))?;
    let is_listed = listed.lines().any(|line| line.contains("/zram.ko"));
    is_listed.then(|| "module zram, loaded when it is needed".to_owned())
}

fn mglru(machine: &Machine) -> Check {
    let check = Check::named("mglru", "told only: which LRU the kernel itself uses");
    let enabled = machine.text("/sys/kernel/mm/lru_gen/enabled");
    check.ok(enabled.map_or_else(
        || "not in this kernel: active and inactive lists".to_owned(),
        |value| match value.as_str() {
            "0x0000" => "built in, off (0x0000): active and inactive lists".to_owned(),
            value => format!("on ({value})"),
        },
    ))
}

fn transparent_huge_pages(machine: &Machine) -> Check {
    let check = Check::named("thp", "told only: a huge page is aged and taken as a whole");
    let choice = machine.text("/sys/kernel/mm/transparent_hugepage/enabled");
    check.ok(choice
        .as_deref()
        .and_then(chosen)
        .unwrap_or("not in this kernel"))
}

fn ksm(machine: &Machine) -> Check {
    let check = Check::named(
        "ksm",
        "told only: merged pages are shared, and never taken by page-out",
    );
    check.ok(match machine.text("/sys/kernel/mm/ksm/run").as_deref() {
        Some("1") => "on",
        Some(_) => "off",
        None => "not in this kernel",
    })
}

/// `always [madvise] never` -> `madvise`.
fn chosen(choices: &str) -> Option<&str> {
    choices
        .split_once('[')?
        .1
        .split_once(']')
        .map(|(word, _)| word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;
    use crate::doctor::tests::made_of;

    #[test]
    fn zram_is_found_loaded_free_or_loadable() {
        let (_a, loaded) = made_of(&[("/sys/class/zram-control/hot_add", "0")]);
        let (_b, free) = made_of(&[("/sys/block/zram0/disksize", "0\n")]);
        let (_c, loadable) = made_of(&[
            ("/proc/sys/kernel/osrelease", "6.1.0\n"),
            (
                "/lib/modules/6.1.0/modules.dep",
                "kernel/drivers/block/zram/zram.ko: kernel/mm/z.ko",
            ),
        ]);
        let (_d, taken) = made_of(&[("/sys/block/zram0/disksize", "1073741824\n")]);
        assert_eq!(zram(&loaded).status, Status::Ok);
        assert_eq!(zram(&free).status, Status::Ok);
        assert_eq!(zram(&loadable).status, Status::Ok);
        assert_eq!(zram(&taken).status, Status::Limited);
    }

    #[test]
    fn the_chosen_word_stands_in_brackets() {
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        assert_eq!(chosen("nothing"), None);
    }

    #[test]
    fn the_kernels_own_lru_is_told_and_never_in_the_way() {
        let (_a, off) = made_of(&[("/sys/kernel/mm/lru_gen/enabled", "0x0000\n")]);
        let (_b, none) = made_of(&[]);
        assert!(mglru(&off).found.contains("off"));
        assert_eq!(mglru(&none).status, Status::Ok);
    }
}
