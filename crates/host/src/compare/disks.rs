//! What was read from the disks of the machine.
//!
//! Disks serve the whole machine, so the figure is too high where other programs read meanwhile. Disks made of others (device
//! mapper, RAID, loop devices) and of memory (zram, RAM disks) are left out, as nothing is to count twice.
//!
//! **Owns** reading the counter. **Does not own** what is made of it.

use std::fs;
use std::path::Path;

/// Bytes of a sector, whatever the disk's own are.
const SECTOR_BYTES: u64 = 512;
const LEFT_OUT: [&str; 3] = ["loop", "zram", "ram"];
/// Fields of a line before that of sectors read: two numbers, the name, reads, reads merged.
const SECTORS_READ: usize = 5;

/// Bytes that all disks have read so far; `None`: the kernel does not count.
pub(super) fn read_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/diskstats").ok()?;
    Some(sum_bytes(&text, |name| {
        // Partitions are not in this directory; what is made of other disks has them below.
        let disk = Path::new("/sys/block").join(name.replace('/', "!"));
        let below = fs::read_dir(disk.join("slaves"));
        disk.exists() && below.is_ok_and(|mut below| below.next().is_none())
    }))
}

fn sum_bytes(text: &str, is_disk: impl Fn(&str) -> bool) -> u64 {
    let read = text.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(2);
        let name = fields.next()?;
        let is_left_out = LEFT_OUT.iter().any(|start| name.starts_with(start));
        let sectors: u64 = fields.nth(SECTORS_READ - 3)?.parse().ok()?;
        (!is_left_out && is_disk(name)).then_some(sectors * SECTOR_BYTES)
    });
    read.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_count_once_and_what_is_made_of_them_does_not() {
        let text = "\
 254       0 vda 1000 20 8000 900 5 5 40 1 0 9 9 0 0 0 0\n\
 254       1 vda1 900 20 7000 800 5 5 40 1 0 9 9 0 0 0 0\n\
 253       0 dm-0 900 0 6000 800 5 5 40 1 0 9 9 0 0 0 0\n\
 252       0 zram0 7 0 56 0 0 0 0 0 0 0 0 0 0 0 0\n\
   8       0 sdb 1 0 8 0 0 0 0 0 0 0 0 0 0 0 0\n\
   8      16 short 1\n";
        let is_disk = |name: &str| name != "vda1" && name != "dm-0";
        assert_eq!(sum_bytes(text, is_disk), 8008 * SECTOR_BYTES);
    }
}
