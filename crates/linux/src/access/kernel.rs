//! The kernel's own generations, where the kernel has them (MGLRU): read, not walked.
//!
//! `/sys/kernel/debug/lru_gen` lists all groups. Only the part of one group is parsed, into the same
//! views as ours, so that both can be shown and compared.
//!
//! **Owns** finding out whether the kernel offers those of a group, and reading them. **Does not own** the text format
//! (engine). Never mounts debugfs and never turns MGLRU on: it says how.

use crate::cgroup::GroupReader;
use crate::process::{LRU_GEN_ENABLED as ENABLED, lru_gen_mask};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use strata_lru::GroupView;
use strata_lru::lru_gen::{ParseError, parse_plain, section_of};

/// Where debugfs is mounted.
const DEBUGFS: &str = "/sys/kernel/debug";

/// Why the kernel's generations can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelLruError {
    /// The kernel was built without a multi-gen LRU.
    #[error(
        "this kernel has no multi-gen LRU (CONFIG_LRU_GEN): there is no {ENABLED}; leave --access \
         kernel out and Strata keeps generations of its own"
    )]
    NotBuilt,
    /// The kernel's multi-gen LRU is turned off.
    #[error("the kernel's multi-gen LRU is off; turn it on: echo y > {ENABLED}")]
    Off,
    /// The kernel's debugfs is not mounted.
    #[error("{} is not there; mount it: mount -t debugfs none {DEBUGFS}", .0.display())]
    NoDebugfs(PathBuf),
    /// Not allowed, or it failed.
    #[error(
        "reading {} failed: {source}; {}",
        path.display(),
        crate::rights::advice("the right to read debugfs")
    )]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The kernel lists groups, but not this one.
    #[error(
        "the kernel lists no generations of the group {0}: is it a memory cgroup, and seen from \
             outside of any container?"
    )]
    NotListed(String),
    /// A form that is not known.
    #[error("the kernel's text has a form that is not known: {0}")]
    Unknown(#[from] ParseError),
}

/// The generations the kernel keeps of one group.
#[derive(Debug)]
pub struct KernelGenerations {
    group: GroupReader,
    enabled: PathBuf,
    debugfs: PathBuf,
}

impl KernelGenerations {
    /// Finds out whether they can be had.
    pub fn open(group: GroupReader) -> Result<KernelGenerations, KernelLruError> {
        KernelGenerations::open_at(group, Path::new(ENABLED), Path::new(DEBUGFS))
    }

    fn open_at(
        group: GroupReader,
        enabled: &Path,
        debugfs: &Path,
    ) -> Result<KernelGenerations, KernelLruError> {
        let generations = KernelGenerations {
            group,
            enabled: enabled.to_owned(),
            debugfs: debugfs.to_owned(),
        };
        generations.plain()?;
        Ok(generations)
    }

    /// What the kernel writes about the group.
    pub fn plain(&self) -> Result<String, KernelLruError> {
        self.section("lru_gen")
    }

    /// What the kernel writes about the group, with tiers and walks (`lru_gen_full`).
    pub fn full(&self) -> Result<String, KernelLruError> {
        self.section("lru_gen_full")
    }

    /// The generations by node, oldest first.
    pub fn view(&self) -> Result<Vec<GroupView>, KernelLruError> {
        Ok(parse_plain(&self.plain()?)?)
    }

    fn section(&self, file: &str) -> Result<String, KernelLruError> {
        let enabled = fs::read_to_string(&self.enabled).map_err(|source| match source.kind() {
            ErrorKind::NotFound => KernelLruError::NotBuilt,
            _ => io_error(&self.enabled)(source),
        })?;
        if lru_gen_mask(&enabled) == Some(0) {
            return Err(KernelLruError::Off);
        }
        let path = self.debugfs.join(file);
        let text = fs::read_to_string(&path).map_err(|source| match source.kind() {
            ErrorKind::NotFound => KernelLruError::NoDebugfs(path.clone()),
            _ => io_error(&path)(source),
        })?;
        let section = section_of(&text, self.group.name());
        let section =
            section.ok_or_else(|| KernelLruError::NotListed(self.group.name().to_owned()))?;
        Ok(section.to_owned())
    }
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> KernelLruError {
    let path = path.to_owned();
    move |source| KernelLruError::Io { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_with_what_mends_it() {
        let Ok(group) = GroupReader::open(Path::new("/")) else {
            // Without a memory controller there is no group to read of.
            return;
        };
        let place = tempfile::tempdir().unwrap();
        let (enabled, debugfs) = (place.path().join("enabled"), place.path().join("debug"));
        let open = || KernelGenerations::open_at(group.clone(), &enabled, &debugfs);
        let told = || open().unwrap_err().to_string();
        assert!(told().contains("CONFIG_LRU_GEN"), "{}", told());
        fs::write(&enabled, "0x0000\n").unwrap();
        assert!(told().contains("echo y >"), "{}", told());
        fs::write(&enabled, "0x0007\n").unwrap();
        assert!(told().contains("mount -t debugfs"), "{}", told());
        fs::create_dir(&debugfs).unwrap();
        fs::write(debugfs.join("lru_gen"), "memcg     7 /elsewhere\n").unwrap();
        assert!(told().contains("lists no generations"), "{}", told());
        let text = "memcg     1 /\n node     0\n          0          5          1           2 \n";
        fs::write(
            debugfs.join("lru_gen"),
            format!("{text}memcg     7 /elsewhere\n"),
        )
        .unwrap();
        let generations = open().unwrap();
        assert_eq!(generations.plain().unwrap(), text);
        assert_eq!(
            generations.view().unwrap()[0].generations[0].nr_pages,
            [Some(1), Some(2)]
        );
    }
}
