//! What is mounted: lines of `/proc/PID/mountinfo`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::maps::Device;

/// File systems of which files can be opened by their numbers here. The driver of ext4 mounts its forebears, too.
const WITH_HANDLES: [&str; 4] = ["ext2", "ext3", "ext4", "xfs"];

/// A mount, as one line tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountLine {
    pub(crate) device: Device,
    /// What of the file system is mounted.
    pub(crate) root: PathBuf,
    /// Where.
    pub(crate) point: PathBuf,
    pub(crate) file_system: String,
    /// Options of the file system, as opposed to those of the mount.
    pub(crate) options: String,
}

impl MountLine {
    /// `36 35 98:0 /root /mount/point options ... - type source super,options`
    pub(crate) fn parse(line: &str) -> Option<MountLine> {
        let mut fields = line.split(' ').skip(2);
        let (major, minor) = fields.next()?.split_once(':')?;
        let (root, point) = (unescape(fields.next()?), unescape(fields.next()?));
        // Behind the options and any number of tags.
        let mut fields = fields.skip_while(|field| *field != "-").skip(1);
        Some(MountLine {
            device: Device {
                major: major.parse().ok()?,
                minor: minor.parse().ok()?,
            },
            root,
            point,
            file_system: fields.next()?.to_owned(),
            options: fields.nth(1).unwrap_or_default().to_owned(),
        })
    }
}

/// All that is mounted where this process is.
pub(crate) fn mounted_here() -> Vec<MountLine> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    text.lines().filter_map(MountLine::parse).collect()
}

/// Where a file system is mounted, if nothing else is mounted over it: the whole of it first. Nowhere where files can't
/// be opened by their numbers: even to look at the root of a network file system may take for ever.
pub(crate) fn with_handles(mounted: &[MountLine], device: Device) -> Vec<PathBuf> {
    let is_it = |mount: &&MountLine| {
        mount.device == device && WITH_HANDLES.contains(&mount.file_system.as_str())
    };
    let mut all: Vec<&MountLine> = mounted.iter().filter(is_it).collect();
    all.sort_by_key(|mount| mount.root != Path::new("/"));
    all.into_iter().map(|mount| mount.point.clone()).collect()
}

/// Undoes the octal escapes of blanks and backslashes in `mountinfo` and `/proc/swaps`.
pub(crate) fn unescape(field: &str) -> PathBuf {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let octal = after
            .get(..3)
            .filter(|_| byte == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        out.push(octal.unwrap_or(byte));
        rest = &after[if octal.is_some() { 3 } else { 0 }..];
    }
    PathBuf::from(OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_with_blanks_in_their_names() {
        let line =
            r"36 35 259:2 /data /mnt/my\040disk rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,x";
        let device = Device {
            major: 259,
            minor: 2,
        };
        let expected = MountLine {
            device,
            root: "/data".into(),
            point: "/mnt/my disk".into(),
            file_system: "ext4".into(),
            options: "rw,x".into(),
        };
        assert_eq!(MountLine::parse(line), Some(expected));
        assert_eq!(MountLine::parse("nonsense"), None);
    }
}
