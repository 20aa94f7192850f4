//! Mount namespaces of the tests' own.
//!
//! **Owns** [`Room`]: what is mounted in it, and that it is unmounted and detached afterwards. **Does not own** any expectation.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{panicking, sleep};
use std::time::{Duration, Instant};

use super::live::TestGroup;
use super::residency::in_group;
use super::strata::patience;

/// A mount namespace of its own. What is mounted in it goes with it.
#[derive(Debug)]
pub(crate) struct Room {
    child: Child,
    /// Images that are mounted in it.
    images: Vec<PathBuf>,
}

impl Room {
    /// Makes one. `None`: the kernel or the machine's owner does not allow one.
    pub(crate) fn open() -> Option<Room> {
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--propagation", "private"]);
        unshare.args(["sh", "-c", "echo ready && read end"]);
        let unshare = unshare.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = unshare.spawn().expect("unshare (util-linux)");
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().expect("piped"));
        said.read_line(&mut line).expect("it says something");
        let room = Room {
            child,
            images: Vec::new(),
        };
        (line == "ready\n").then_some(room)
    }

    fn enter(&self, command: &mut Command) {
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.child.id()));
    }

    /// A command that sees what is mounted there.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        self.enter(&mut command);
        command.arg(program);
        command
    }

    /// A command that sees what is mounted there, in a group.
    pub(crate) fn in_group(
        &self,
        group: &TestGroup,
        program: impl AsRef<std::ffi::OsStr>,
    ) -> Command {
        let mut command = in_group(group, "nsenter");
        self.enter(&mut command);
        command.arg(program);
        command
    }

    /// How much of a file that is seen there is in memory, bytes.
    pub(crate) fn resident_bytes(&self, path: &Path) -> u64 {
        let mut fincore = self.command("fincore");
        let fincore = fincore.args(["-b", "-n", "-r", "-o", "RES"]).arg(path);
        let said = fincore.output().expect("fincore (util-linux)").stdout;
        let said = String::from_utf8_lossy(&said);
        said.trim().parse().expect("bytes")
    }

    /// Mounts something; whether that can be mounted here.
    pub(crate) fn mount(&self, options: &[&str], what: &Path, at: &Path) -> bool {
        fs::create_dir_all(at).expect("a directory");
        let mut mount = self.command("mount");
        let mount = mount.args(options).arg(what).arg(at).output();
        mount.expect("mount (util-linux)").status.success()
    }

    /// Mounts a file; whether that can be mounted here.
    pub(crate) fn mount_image(&mut self, options: &[&str], image: &Path, at: &Path) -> bool {
        self.images.push(image.to_owned());
        self.mount(&[options, &["-o", "loop"]].concat(), image, at)
    }

    /// Makes a file system of this kind in a file of so many bytes and mounts it. An error: why that can't be had here.
    pub(crate) fn mount_new(
        &mut self,
        kind: &str,
        options: &[&str],
        image: &Path,
        nr_bytes: u64,
        at: &Path,
    ) -> Result<(), String> {
        let file = File::create_new(image).expect("a file");
        file.set_len(nr_bytes).expect("as long");
        let mut mkfs = Command::new(format!("mkfs.{kind}"));
        let made = mkfs.arg("-q").args(options).arg(image).output();
        if !made.is_ok_and(|made| made.status.success()) {
            return Err(format!("no {kind} can be made: mkfs.{kind}"));
        }
        match self.mount_image(&["-t", kind], image, at) {
            true => Ok(()),
            false => Err(format!("no image with {kind} can be mounted")),
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The kernel unmounts, and then detaches, a moment later.
        let is_attached = |image: &PathBuf| {
            let said = Command::new("losetup").arg("-j").arg(image).output();
            said.is_ok_and(|said| !said.stdout.is_empty())
        };
        let deadline = Instant::now() + Duration::from_secs(10) * patience();
        while self.images.iter().any(is_attached) && Instant::now() < deadline {
            sleep(Duration::from_millis(20));
        }
        let left: Vec<&PathBuf> = self.images.iter().filter(|at| is_attached(at)).collect();
        assert!(panicking() || left.is_empty(), "still attached: {left:?}");
    }
}
