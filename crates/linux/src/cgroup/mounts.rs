//! Where the memory controller is mounted, and which group a process is in.
//!
//! **Owns** the reading of `/proc/self/mountinfo` and `/proc/PID/cgroup`, hybrid mounts, bind mounts
//! and cgroup namespaces included. **Does not own** anything inside a group.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use strata_lru::machine::CgroupVersion as Version;

use super::error::CgroupError;
use super::name;
use crate::process::mountinfo::MountLine;

/// One mount of the hierarchy that has the memory controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) version: Version,
    /// Directory it is mounted on.
    pub(super) point: PathBuf,
    /// The group that appears at the mount point, as `/proc/PID/cgroup` names it.
    pub(super) root: PathBuf,
}

impl Mount {
    /// Finds the mount to use. A controller is in one hierarchy only, so a v1 mount that names
    /// `memory` decides; otherwise it can only be in the v2 one.
    pub(super) fn find() -> Result<Mount, CgroupError> {
        let path = Path::new("/proc/self/mountinfo");
        let text = fs::read(path).map_err(|source| CgroupError::io("reading", path, source))?;
        // A place that is no text is somebody else's mount.
        let mount = pick_mount(&String::from_utf8_lossy(&text), "memory");
        let mount = mount.ok_or(CgroupError::NoMemoryController)?;
        let controllers = mount.point.join("cgroup.controllers");
        if mount.version == Version::V2 {
            let offered = fs::read_to_string(&controllers).unwrap_or_default();
            if !offered.split_whitespace().any(|name| name == "memory") {
                return Err(CgroupError::NoMemoryController);
            }
        }
        Ok(mount)
    }

    /// The directory that the hierarchy is mounted on. It is looked up once and kept while Strata runs, because a lookup reads
    /// all mounts of the machine.
    pub(super) fn known_point() -> Option<&'static Path> {
        static POINT: OnceLock<PathBuf> = OnceLock::new();
        if let Some(point) = POINT.get() {
            return Some(point);
        }
        let found = Mount::find().ok()?;
        Some(POINT.get_or_init(|| found.point))
    }

    /// The group that the memory of a process is charged to, as a directory: that of a threaded one is its
    /// threaded domain. `None` if it lies outside what is mounted.
    pub(super) fn group_of(&self, pid: Option<i32>) -> Result<Option<PathBuf>, CgroupError> {
        let path = PathBuf::from(pid.map_or_else(
            || "/proc/self/cgroup".to_owned(),
            |pid| format!("/proc/{pid}/cgroup"),
        ));
        let text = fs::read(&path).map_err(|source| CgroupError::io("reading", &path, source))?;
        let group = group_path(&text, self.version, "memory");
        let group = group.and_then(|group| self.directory_of(&group));
        Ok(group.map(|group| domain_of(&group).to_owned()))
    }

    /// What to give instead of a path that is of another hierarchy: the group in which the memory of its processes is, else
    /// the one of that name, else where to look. Empty for a path that is of none.
    pub(super) fn advice(&self, path: &Path) -> String {
        if !path.is_absolute() || !path.is_dir() {
            return String::new();
        }
        let procs = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
        let first = procs.lines().find_map(|line| line.parse().ok());
        let of_first = first.and_then(|pid| self.group_of(Some(pid)).ok().flatten());
        let names: Vec<_> = path.components().skip(1).collect();
        let of_name = || {
            let rests =
                (1..names.len()).map(|at| self.point.join(names[at..].iter().collect::<PathBuf>()));
            rests.into_iter().find(|group| group.is_dir())
        };
        let is_below = |group: &PathBuf| *group != self.point;
        match of_first.filter(is_below).or_else(of_name) {
            Some(group) => format!(
                "; memory is accounted for in {}, where its group is {}",
                self.point.display(),
                group.display()
            ),
            None => format!("; memory is accounted for in {}", self.point.display()),
        }
    }

    fn directory_of(&self, group: &Path) -> Option<PathBuf> {
        let inside = group.strip_prefix(&self.root).ok()?;
        // "/../x" names a group outside our cgroup namespace.
        let is_plain = inside
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        is_plain.then(|| self.point.join(inside))
    }
}

/// The group of the v1 freezer that a process is in; `None` where that is the root, or out of sight.
pub(super) fn freezer_group_of(pid: i32) -> Option<PathBuf> {
    let mounts = fs::read("/proc/self/mountinfo").ok()?;
    let groups = fs::read(format!("/proc/{pid}/cgroup")).ok()?;
    freezer_group(&String::from_utf8_lossy(&mounts), &groups)
}

fn freezer_group(mountinfo: &str, cgroup: &[u8]) -> Option<PathBuf> {
    let group = group_path(cgroup, Version::V1, "freezer")?;
    let mount = pick_mount(mountinfo, "freezer").filter(|mount| mount.version == Version::V1)?;
    let directory = mount.directory_of(&group)?;
    (directory != mount.point).then_some(directory)
}

/// The threaded domain of a threaded group, which its memory is charged to; any other group itself.
fn domain_of(group: &Path) -> &Path {
    let is_threaded = |group: &Path| {
        fs::read_to_string(group.join("cgroup.type")).is_ok_and(|kind| kind.trim() == "threaded")
    };
    let mut above = group.ancestors();
    above.find(|above| !is_threaded(above)).unwrap_or(group)
}

/// The directory `path` names: below the mount, or relative to it (with or without a leading `/`).
pub(super) fn resolve(mount: &Mount, path: &Path) -> Result<PathBuf, CgroupError> {
    let directory = if path.starts_with(&mount.point) {
        path.to_owned()
    } else {
        mount.point.join(path.strip_prefix("/").unwrap_or(path))
    };
    let directory = directory
        .canonicalize()
        // A name as it was shown.
        .or_else(|why| name::path_of(&directory).canonicalize().map_err(|_| why))
        .map_err(|source| not_a_group(path, &format!("{source}{}", mount.advice(path))))?;
    if !directory.starts_with(&mount.point) {
        return Err(not_a_group(path, "it lies outside the cgroup mount"));
    }
    let domain = domain_of(&directory);
    if domain != directory {
        let why = format!(
            "it is threaded: its memory is charged to its threaded domain, {}",
            domain.display()
        );
        return Err(not_a_group(path, &why));
    }
    Ok(directory)
}

pub(super) fn not_a_group(path: &Path, why: &str) -> CgroupError {
    CgroupError::NotAGroup {
        path: path.to_owned(),
        why: why.to_owned(),
    }
}

fn pick_mount(mountinfo: &str, controller: &str) -> Option<Mount> {
    let mut best: Option<Mount> = None;
    for line in mountinfo.lines() {
        let Some(mount) = parse_mount(line, controller) else {
            continue;
        };
        let is_better = best.as_ref().is_none_or(|best| {
            (mount.version == Version::V1, best.root.as_os_str().len())
                > (best.version == Version::V1, mount.root.as_os_str().len())
        });
        if is_better {
            best = Some(mount);
        }
    }
    best
}

/// `36 35 98:0 /root /mount/point options ... - type source super,options`
fn parse_mount(line: &str, controller: &str) -> Option<Mount> {
    let mount = MountLine::parse(line)?;
    let version = match mount.file_system.as_str() {
        "cgroup2" => Version::V2,
        "cgroup" if mount.options.split(',').any(|of| of == controller) => Version::V1,
        _ => return None,
    };
    Some(Mount {
        version,
        point: mount.point,
        root: mount.root,
    })
}

/// `4:memory:/a/b` (v1) or `0::/a/b` (v2).
fn group_path(proc_cgroup: &[u8], version: Version, controller: &str) -> Option<PathBuf> {
    proc_cgroup.split(|byte| *byte == b'\n').find_map(|line| {
        let mut fields = line.splitn(3, |byte| *byte == b':');
        let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let mut names = controllers.split(|byte| *byte == b',');
        let is_ours = match version {
            Version::V1 => names.any(|name| name == controller.as_bytes()),
            Version::V2 => id == b"0" && controllers.is_empty(),
        };
        is_ours.then(|| PathBuf::from(OsStr::from_bytes(path)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn on_a_hybrid_mount_the_v1_memory_hierarchy_is_taken() {
        let mount = pick_mount(HYBRID, "memory").expect("found");
        assert_eq!(mount.version, Version::V1);
        assert_eq!(mount.point, Path::new("/sys/fs/cgroup/memory"));
        let group = group_path(
            b"9:name=systemd:/\n4:memory:/a/b\n0::/c\n",
            mount.version,
            "memory",
        );
        assert_eq!(
            mount.directory_of(&group.expect("in the list")),
            Some(PathBuf::from("/sys/fs/cgroup/memory/a/b"))
        );
    }

    #[test]
    fn the_group_of_the_freezer_is_that_of_the_process_and_never_the_root() {
        let mounts = HYBRID.replace("cgroup cgroup rw,pids", "cgroup cgroup rw,freezer");
        let of = |cgroup: &str| freezer_group(&mounts, cgroup.as_bytes());
        assert_eq!(
            of("9:memory:/a\n4:freezer:/b/c\n0::/\n"),
            Some(PathBuf::from("/sys/fs/cgroup/pids/b/c"))
        );
        assert_eq!(of("9:memory:/a\n4:freezer:/\n"), None);
        assert_eq!(of("9:memory:/a\n"), None);
        assert_eq!(freezer_group(HYBRID, b"4:freezer:/b\n"), None);
    }

    #[test]
    fn without_a_v1_memory_hierarchy_the_unified_one_is_taken() {
        let text = HYBRID.replace("cgroup cgroup rw,memory", "cgroup cgroup rw,cpu,cpuacct");
        let mount = pick_mount(&text, "memory").expect("found");
        assert_eq!(mount.version, Version::V2);
        let group = group_path(
            b"1:cpu,cpuacct:/x\n0::/a b:c\xff\n",
            mount.version,
            "memory",
        );
        assert_eq!(group, Some(PathBuf::from(OsStr::from_bytes(b"/a b:c\xff"))));
    }

    #[test]
    fn a_container_sees_its_own_group_as_the_mount_point() {
        let line = "50 40 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory";
        let mount = pick_mount(line, "memory").expect("found");
        assert_eq!(
            mount.directory_of(Path::new("/docker/abc")),
            Some(PathBuf::from("/sys/fs/cgroup/memory"))
        );
        assert_eq!(mount.directory_of(Path::new("/docker/other")), None);
    }

    #[test]
    fn a_group_outside_the_namespace_is_not_guessed() {
        let mount = pick_mount(HYBRID, "memory").expect("found");
        assert_eq!(mount.directory_of(Path::new("/../other")), None);
    }

    #[test]
    fn of_several_mounts_the_one_that_shows_most_is_taken() {
        let text = "\
50 40 0:32 /deep/group /mnt/some\\040place rw - cgroup2 none rw
51 40 0:32 / /sys/fs/cgroup rw shared:4 - cgroup2 none rw
52 40 0:32 /deep /mnt/other rw - cgroup2 none rw
";
        assert_eq!(
            pick_mount(text, "memory").expect("found").point,
            Path::new("/sys/fs/cgroup")
        );
        let escaped = pick_mount(text.lines().next().expect("a line"), "memory").expect("found");
        assert_eq!(escaped.point, Path::new("/mnt/some place"));
    }

    #[test]
    fn a_threaded_group_belongs_to_the_first_above_that_is_not() {
        let root = tempfile::tempdir().expect("a directory");
        let domain = root.path().join("domain");
        let (upper, lower) = (domain.join("upper"), domain.join("upper/lower"));
        fs::create_dir_all(&lower).expect("made");
        for (group, kind) in [
            (&domain, "domain threaded\n"),
            (&upper, "threaded\n"),
            (&lower, "threaded\n"),
        ] {
            fs::write(group.join("cgroup.type"), kind).expect("written");
        }
        assert_eq!(domain_of(&lower), domain);
        assert_eq!(domain_of(&upper), domain);
        assert_eq!(domain_of(&domain), domain);
        assert_eq!(domain_of(root.path()), root.path());
    }

    #[test]
    fn lines_that_make_no_sense_are_passed_over() {
        assert_eq!(
            pick_mount("\n - \na b c - cgroup\n1 2 3 / - cgroup2\nx", "memory"),
            None
        );
    }

    #[test]
    fn a_path_of_another_hierarchy_is_answered_with_the_one_that_is_meant() {
        let root = tempfile::tempdir().expect("a directory");
        let (memory, unified) = (root.path().join("memory"), root.path().join("unified"));
        fs::create_dir_all(memory.join("app/web")).expect("made");
        fs::create_dir_all(unified.join("app/web")).expect("made");
        fs::create_dir_all(unified.join("other")).expect("made");
        let mount = Mount {
            version: Version::V1,
            point: memory.clone(),
            root: PathBuf::from("/"),
        };
        let meant = memory.join("app/web").display().to_string();
        let advice = mount.advice(&unified.join("app/web"));
        assert!(advice.ends_with(&meant), "{advice}");
        let advice = mount.advice(&unified.join("other"));
        assert!(advice.ends_with("/memory"), "{advice}");
        assert_eq!(mount.advice(Path::new("/nowhere/at/all")), "");
        assert_eq!(mount.advice(Path::new("app")), "");
    }
}
