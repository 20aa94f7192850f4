//! Memory whose accesses leave no trace in the page tables that are walked: that of guests.
//!
//! A guest's accesses set accessed bits in second-level tables of the hypervisor, not in those of the process that holds
//! its memory. So all of it looks idle for ever. It is told as unknown instead.
//!
//! The rule is tested on made-up lists of descriptors. It has not been tried on a machine with KVM.
//!
//! **Owns** who holds a guest and which of its mappings may be the guest's memory. **Does not own** what is made of that.

use std::fs;
use strata_linux::process::{Mapping, MappingClass, Process};
use strata_linux::units::Bytes;

/// Mappings that lie side by side and are smaller than this together hold no guest's memory.
const GUEST_BYTES_MIN: u64 = 16 << 20;
/// Descriptors of a process that are looked at.
const NR_LINKS_MAX: usize = 65_536;

/// What the descriptors of a process that runs a guest lead to, and the names of their mappings.
const GUEST_LINKS: [&str; 2] = ["anon_inode:kvm-vm", "anon_inode:kvm-vcpu"];

/// Whether one of these texts (where descriptors lead, names of mappings) tells of a guest.
pub fn tells_of_guest<'a>(mut links: impl Iterator<Item = &'a str>) -> bool {
    links.any(|link| {
        let link = link.trim_start_matches('/').replace(['[', ']'], "");
        GUEST_LINKS.iter().any(|name| {
            let rest = link.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
        })
    })
}

/// Of each mapping, whether it may hold a guest's memory: anonymous or shared, and large together with its neighbours.
pub fn guest_memory(mappings: &[Mapping]) -> Vec<bool> {
    let is_eligible = |mapping: &Mapping| {
        let has_class = matches!(
            mapping.class,
            MappingClass::Anon | MappingClass::Shmem | MappingClass::FileShared
        );
        has_class && mapping.is_worth_reading()
    };
    let mut told = vec![false; mappings.len()];
    let mut first = 0;
    while first < mappings.len() {
        let mut end = first + 1;
        while is_eligible(&mappings[first])
            && mappings.get(end).is_some_and(|next| {
                is_eligible(next) && next.range.start == mappings[end - 1].range.end
            })
        {
            end += 1;
        }
        let bytes = mappings[end - 1].range.end - mappings[first].range.start;
        if is_eligible(&mappings[first]) && bytes >= GUEST_BYTES_MIN {
            told[first..end].fill(true);
        }
        first = end;
    }
    told
}

/// Whether a mapping tells of a guest: a hypervisor maps what it shares with each virtual processor.
pub fn is_told_by(mappings: &[Mapping]) -> bool {
    tells_of_guest(mappings.iter().map(|mapping| &*mapping.name))
}

/// What there is to say of a process that holds a guest, with how much of its address space may be the guest's memory.
pub fn note(process: &Process, mappings: &[Mapping]) -> Option<String> {
    if !holds_guest(process, mappings) {
        return None;
    }
    let told = guest_memory(mappings).into_iter().zip(mappings);
    let of_guest = told.filter_map(|(is_guest, mapping)| is_guest.then_some(mapping));
    let bytes = of_guest
        .map(|mapping| mapping.range.end - mapping.range.start)
        .sum();
    Some(format!(
        "process {} ({}): {} of guest memory: accesses can't be seen",
        process.pid(),
        process.comm(),
        Bytes(bytes)
    ))
}

/// Whether a process holds a guest. Who may not read its descriptors learns it from its mappings alone.
pub fn holds_guest(process: &Process, mappings: &[Mapping]) -> bool {
    if is_told_by(mappings) {
        return true;
    }
    // Nobody else is asked for descriptors: that costs a call for each.
    guest_memory(mappings).contains(&true) && tells_of_guest(links(process).iter().map(|l| &**l))
}

fn links(process: &Process) -> Vec<String> {
    let Ok(entries) = fs::read_dir(format!("/proc/{}/fd", process.pid())) else {
        return Vec::new();
    };
    let link = |entry: fs::DirEntry| fs::read_link(entry.path()).ok();
    let links = entries.flatten().take(NR_LINKS_MAX).filter_map(link);
    links
        .map(|link| link.to_string_lossy().into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_mapping;

    fn mapping(first_mib: u64, end_mib: u64, class: MappingClass) -> Mapping {
        test_mapping::mapping(first_mib << 8, end_mib << 8, class)
    }

    #[test]
    fn descriptors_of_a_virtual_machine_are_known_and_others_are_not() {
        let of = |links: &[&str]| tells_of_guest(links.iter().copied());
        assert!(of(&["/dev/null", "anon_inode:kvm-vm", "socket:[4]"]));
        assert!(of(&["anon_inode:[kvm-vm]"]));
        assert!(of(&["anon_inode:kvm-vcpu:3"]));
        assert!(of(&["/anon_inode:kvm-vcpu:0"]), "as a mapping's name");
        let others = [
            "/dev/kvm",
            "anon_inode:[eventfd]",
            "/tmp/anon_inode:kvm-vm",
            "anon_inode:kvm-vmx",
        ];
        assert!(!of(&others));
        assert!(!of(&[]));
    }

    #[test]
    fn a_guests_memory_is_what_is_large_and_not_the_programs_own() {
        use MappingClass::{Anon, FilePrivate, FileShared, Heap, Shmem};
        let mappings = [
            mapping(0, 64, Heap),
            mapping(100, 108, Anon),
            // One guest's memory, cut by advice.
            mapping(200, 210, Anon),
            mapping(210, 220, Anon),
            mapping(300, 400, FilePrivate),
            mapping(500, 600, Shmem),
            mapping(700, 716, FileShared),
        ];
        let told = guest_memory(&mappings);
        assert_eq!(told, [false, false, true, true, false, true, true]);
        assert_eq!(guest_memory(&[]), [false; 0]);
    }
}
