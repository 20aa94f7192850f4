//! Which kernel runs.
//!
//! **Owns** reading its version. **Does not own** what follows from that.

use std::fs;

/// The running kernel's version, as far as its name tells.
pub(crate) fn kernel_version() -> Option<(u32, u32)> {
    parse_release(&fs::read_to_string("/proc/sys/kernel/osrelease").ok()?)
}

/// Major and minor number of a kernel's release.
pub fn parse_release(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse().ok();
    Some((next()?, next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_all_kinds_are_understood() {
        assert_eq!(parse_release("6.1.0-35-cloud-amd64\n"), Some((6, 1)));
        assert_eq!(parse_release("6.18.44-fc-v445"), Some((6, 18)));
        assert_eq!(parse_release("5.10"), Some((5, 10)));
        assert_eq!(parse_release(""), None);
    }
}
