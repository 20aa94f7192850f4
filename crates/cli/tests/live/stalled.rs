//! Programs that wait in a page fault for as long as a file system is frozen: nobody is stopped by Strata, nor is Strata.

use crate::support::prelude::*;

use crate::guard::{ACTING, Idler, bytes, guard, of, wait_for};

/// A program that writes to a mapped file of a frozen file system, in a group of its own. Thawed when dropped.
struct Stalled {
    live: Live,
    _group: TestGroup,
    at: PathBuf,
    _directory: TempDir,
}

impl Stalled {
    /// An error: why that can't be had here.
    fn start(name: &str) -> Result<Stalled, String> {
        let directory = tempfile::tempdir().expect("a directory");
        let (image, at) = (directory.path().join("image"), directory.path().join("at"));
        fs::create_dir(&at).expect("a directory");
        let made = File::create_new(&image).and_then(|file| file.set_len(64 << 20));
        made.expect("a file");
        if !is_done(Command::new("mkfs.ext4").arg("-q").arg(&image)) {
            return Err("no ext4 can be made: mkfs.ext4".to_owned());
        }
        let mut mount = Command::new("mount");
        if !is_done(
            mount
                .args(["-t", "ext4", "-o", "loop"])
                .arg(&image)
                .arg(&at),
        ) {
            return Err("no image with ext4 can be mounted".to_owned());
        }
        let group = TestGroup::new(&format!("guard-{name}"));
        let mut command = in_group(&group, program("stall"));
        command.arg("--file").arg(at.join("file"));
        let mut stalled = Stalled {
            live: Live::start_command(command),
            _group: group,
            at,
            _directory: directory,
        };
        stalled.live.line();
        let frozen = stalled.freeze("-f");
        if !frozen {
            return Err("fsfreeze: the file system can't be frozen".to_owned());
        }
        stalled.ask("w");
        wait_until("a thread to wait in its fault", || {
            stalled.nr_waiting() == 1
        });
        Ok(stalled)
    }

    fn freeze(&self, how: &str) -> bool {
        is_done(Command::new("fsfreeze").arg(how).arg(&self.at))
    }

    fn ask(&mut self, letter: &str) -> String {
        writeln!(self.live.stdin(), "{letter}").expect("it reads");
        self.live.line()
    }

    /// How often it has mapped and unmapped memory.
    fn nr_maps(&mut self) -> u64 {
        self.ask("n").parse().expect("a number")
    }

    fn pid(&self) -> i32 {
        self.live.pid()
    }

    /// Threads in a wait that can't be interrupted.
    fn nr_waiting(&self) -> usize {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid()))
            .into_iter()
            .flatten();
        let stats = tasks
            .flatten()
            .filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
        stats.filter(|stat| stat.contains(") D ")).count()
    }

    /// It works without pause for as long as another thing happens.
    fn keeps_mapping(&mut self) {
        let before = self.nr_maps();
        wait_until("memory to be mapped", || self.nr_maps() >= before + 20);
    }
}

impl Drop for Stalled {
    fn drop(&mut self) {
        self.freeze("-u");
        self.live.signal(Signal::KILL);
        self.live.end();
        is_done(Command::new("umount").arg(&self.at));
    }
}

fn is_done(command: &mut Command) -> bool {
    let status = command.stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[test]
fn a_guard_stops_nobody_who_waits_for_a_frozen_file_system() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let stalled = match Stalled::start("stall") {
        Ok(stalled) => stalled,
        Err(why) => skip!("{why}"),
    };
    let idler = Idler::start("beside");
    let mut live = Live::start(&guard(&ACTING));
    // Thawed first, whatever fails: a guard that hangs could not be waited for.
    let mut stalled = stalled;
    let status = wait_for(&live, "the other group to give", |status| {
        bytes(of(status, &idler.name()), "away_bytes") > 16 * MIB
    });
    assert_eq!(status["nr_left_out_processes"], 1, "{status:#}");
    stalled.keeps_mapping();
    let told = format!("process {} (stall): thread", stalled.pid());
    assert_eq!(live.stderr().matches(&told).count(), 1, "{}", live.stderr());
    // Once the wait is over it is looked after like everybody.
    assert!(stalled.freeze("-u"));
    wait_for(&live, "all to be looked at", |status| {
        status["nr_left_out_processes"] == 0
    });
    live.signal(Signal::TERM);
    assert_eq!(live.end().code(), Some(0), "{}", live.stderr());
    idler.end();
}

#[test]
fn a_program_that_holds_the_lock_of_its_memory_holds_up_neither_guard_nor_park() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let mut stalled = match Stalled::start("hold") {
        Ok(stalled) => stalled,
        Err(why) => skip!("{why}"),
    };
    let idler = Idler::start("beside");
    stalled.ask("p");
    wait_until("the lock to be held", || stalled.nr_waiting() >= 2);
    let mut live = Live::start(&guard(&ACTING));
    // Thawed first, whatever fails: a guard that hangs could not be waited for.
    let mut stalled = stalled;
    wait_for(&live, "the other group to give", |status| {
        bytes(of(status, &idler.name()), "away_bytes") > 16 * MIB
    });
    let pid = stalled.pid().to_string();
    let park = Strata::new(["park", "--pid", &pid]).finish();
    assert_eq!(park.code(), Some(1), "{park:?}");
    assert!(
        park.stderr.contains("may hold a lock of the address space"),
        "{park:?}"
    );
    // Who watches it says that nothing is known of it.
    let directory = tempfile::tempdir().expect("a directory");
    let recording = directory.path().join("it.strata").display().to_string();
    for watch in [
        &["wss", "--for", "3s", "--window", "1s", "--pid", &pid][..],
        &["top", "--once", "--for", "3s", "--pid", &pid],
        &["record", "--for", "2s", "-o", &recording, "--pid", &pid],
    ] {
        let told = Strata::new(watch.iter().copied()).finish();
        let all = told.stdout.clone() + &told.stderr;
        assert!(
            all.contains("may hold a lock of the address space"),
            "{watch:?}: {told:?}"
        );
    }
    live.signal(Signal::TERM);
    assert_eq!(live.end().code(), Some(0), "{}", live.stderr());
    idler.end();
    // It goes on when the file system does.
    assert!(stalled.freeze("-u"));
    stalled.keeps_mapping();
}
