//! `strata files --drop-cold` in bad luck: pages that are pinned, locked or being written, files of other file systems, of
//! other mount namespaces and without rights, and very many files. What is said to be gone is gone, what is in use stays, and
//! every content is what it was.

use crate::support::prelude::*;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::pipe::{SpliceFlags, fcntl_setpipe_size, pipe, splice};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use strata_linux::access::census::{Census, Kind, Question};

/// The last MiB of 32 GiB, further than 32 bits of bytes reach. (What is in memory of a TiB takes `fincore` long to tell.)
const FAR: u64 = (32 << 30) - MIB;

fn length() -> Duration {
    Duration::from_secs(u64::from(patience().div_ceil(3)))
}

fn drop_cold(group: &TestGroup) -> Strata {
    Strata::new(["files", "--whole", "--format", "json", "--drop-cold"])
        .arg(format!("{}s", length().as_secs()))
        .arg("--cgroup")
        .arg(&group.path)
}

/// Runs what `command` begins, with Strata behind it.
fn drop_cold_behind(mut command: Command, group: &TestGroup) -> Value {
    let strata = drop_cold(group).command();
    command.arg(strata.get_program()).args(strata.get_args());
    command.stdin(Stdio::piped());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().expect("it starts");
    let done = finish(child, &[], Duration::from_secs(60) * patience());
    done.expect_success().json()
}

/// The kernel may take a few pages by itself at any moment.
#[track_caller]
fn assert_nearly(found: u64, truth: u64, report: &Value) {
    let is_it = found.abs_diff(truth) <= 64 << 10;
    assert!(is_it, "{found} bytes, not {truth}: {report:#}");
}

fn left(report: &Value, reason: &str) -> u64 {
    report["dropped"]["left_bytes"][reason]
        .as_u64()
        .unwrap_or_default()
}

/// A file of noise that was read once.
fn cold(group: &TestGroup, directory: &Path, name: &str, mib: u64) -> PathBuf {
    let path = directory.join(name);
    write_file(group, &path, mib);
    forget(&path);
    read_file(group, &path, 1);
    path
}

fn chattr(flag: &str, path: &Path) -> bool {
    let status = Command::new("chattr").arg(flag).arg(path).output();
    status.expect("chattr (e2fsprogs)").status.success()
}

/// Takes back what `chattr` set.
struct Changeable(PathBuf);

impl Drop for Changeable {
    fn drop(&mut self) {
        chattr("-ia", &self.0);
    }
}

#[test]
fn pages_that_are_pinned_locked_being_written_or_in_memory_only_stay_and_files_that_cant_be_changed_go()
 {
    needs_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let group = TestGroup::new("drop-held");
    let file = |name| cold(&group, directory.path(), name, 2);
    let (pinned, source, target, locked) = (
        file("pinned"),
        file("source"),
        file("target"),
        file("locked"),
    );
    let (fixed, grows, busy, holes) = (file("fixed"), file("grows"), file("busy"), file("holes"));
    fs::hard_link(&fixed, directory.path().join("second name")).expect("linked");
    // A hole of 60 MiB between two MiB of noise: read, it takes memory as well.
    let spread = File::options().read(true).write(true).open(&holes);
    let spread = spread.expect("a file");
    let mut noise = vec![0; MIB as usize];
    spread.read_exact_at(&mut noise, 0).expect("read");
    spread.set_len(MIB).expect("cut");
    spread.write_all_at(&noise, 61 * MIB).expect("written");
    forget(&holes);
    read_file(&group, &holes, 1);
    // A MiB at the end of 32 GiB, of a file that gets another name in the middle of the watch.
    let [far, renamed] = ["far", "renamed"].map(|name| directory.path().join(name));
    let sparse = File::options()
        .create_new(true)
        .read(true)
        .write(true)
        .open(&far);
    let sparse = sparse.expect("a file");
    sparse.write_all_at(&noise, FAR).expect("written");
    forget(&far);
    let mut tail = in_group(&group, "tail");
    tail.args(["-c", "1048576"]).arg(&far).stdout(Stdio::null());
    run(tail);
    let contents =
        [&pinned, &source, &locked, &fixed, &grows].map(|path| fs::read(path).expect("read"));
    for path in [&pinned, &fixed, &grows] {
        forget(path);
        read_file(&group, path, 1);
    }
    // Pages in a pipe are pinned, and nobody has them mapped.
    let (from_pipe, to_pipe) = pipe().expect("a pipe");
    let nr_pinned = fcntl_setpipe_size(&to_pipe, MIB as usize).expect("room");
    let open = File::open(&pinned).expect("a file");
    let flags = SpliceFlags::NONBLOCK;
    let nr_pinned = splice(&open, None, &to_pipe, None, nr_pinned, flags).expect("in the pipe");
    drop((to_pipe, open));
    let mut touch = Touch::start_behind(
        &mut in_group(&group, program("touch")),
        [
            "--size",
            "2M",
            "--shared",
            "--file",
            &locked.display().to_string(),
        ],
    );
    touch.ask("readrange 0 512");
    touch.ask("lock 0 512");
    let mut direct = Command::new(program("direct"));
    direct.arg(&source).arg(&target);
    let mut direct = Live::start_command(direct);
    assert_eq!(direct.line(), "ready");
    let memory = memfd_create("strata-test", MemfdFlags::CLOEXEC).expect("a memfd");
    let mut dd = in_group(&group, "dd");
    dd.args(["if=/dev/urandom", "bs=1M", "count=2"]);
    dd.arg(format!(
        "of=/proc/{}/fd/{}",
        std::process::id(),
        memory.as_raw_fd()
    ));
    run(dd);
    let mut memory = File::from(memory);
    let mut in_memory = Vec::new();
    memory.seek(SeekFrom::Start(0)).expect("the beginning");
    memory.read_to_end(&mut in_memory).expect("read");
    // Dropped last, when nobody sets the marks any more.
    let (_fixed, _grows) = (Changeable(fixed.clone()), Changeable(grows.clone()));
    let writer = Helper::start({
        let busy = busy.clone();
        move |is_over| {
            let file = File::options().write(true).open(&busy).expect("a file");
            let mut nr_rounds = 0u8;
            while !is_over.load(Ordering::Relaxed) {
                nr_rounds = nr_rounds.wrapping_add(1);
                let bytes = vec![nr_rounds; 2 * MIB as usize];
                file.write_all_at(&bytes, 0).expect("written");
                // Every other time what is dirty lies about for a while.
                if nr_rounds.is_multiple_of(2) {
                    file.sync_data().expect("written back");
                    // Clean for three censuses they would be idle.
                    file.write_all_at(&bytes, 0).expect("written");
                }
                sleep(Duration::from_millis(20));
            }
            nr_rounds
        }
    });
    let changer = Helper::start({
        let (fixed, grows, renamed) = (fixed.clone(), grows.clone(), renamed.clone());
        move |_| {
            sleep(length() / 2);
            fs::rename(far, renamed).expect("renamed");
            // Where the file system has no such marks the files are like others.
            chattr("+i", &fixed);
            chattr("+a", &grows);
        }
    });
    let done = drop_cold(&group).finish().expect_success();
    let report = done.json();
    changer.end();
    let nr_rounds = writer.end();
    // What is pinned was tried and stays, with what lies in one folio with it.
    assert!(nr_pinned as u64 >= MIB / 2, "{nr_pinned}");
    assert!(resident_bytes(&pinned) >= nr_pinned as u64, "{report:#}");
    // A page that stayed in memory when the file was to be forgotten was read too often to be known idle, and is not tried.
    let unknown = row(&report, &pinned)["unknown_bytes"].as_u64();
    let kept = left(&report, "in_use") + unknown.expect("bytes");
    assert!(kept >= nr_pinned as u64, "{report:#}");
    assert_nearly(resident_bytes(&locked), 2 * MIB, &report);
    for path in [&fixed, &grows, &holes, &renamed] {
        assert_nearly(resident_bytes(path), 0, &report);
    }
    let tried = report["dropped"]["tried_bytes"].as_u64().expect("bytes");
    let (least, most) = (2 * 2 * MIB + 63 * MIB, 4 * 2 * MIB + 63 * MIB);
    assert!((least..most + MIB).contains(&tried), "{report:#}");
    let rows = report["files"].as_array().expect("files");
    assert!(rows.iter().any(|row| row["path"] == "/memfd:strata-test"));
    let mut census = Census::open().expect("a census");
    let taken = census.take(&Question::default()).expect("a census");
    let shmem = taken.groups.iter().filter(|part| part.kind == Kind::Shmem);
    let id = MetadataExt::ino(&fs::metadata(&group.path).expect("a group"));
    let shmem = shmem.filter(|part| part.group_id == id);
    assert_near("memfd", shmem.map(|part| part.sums.bytes).sum(), 2 * MIB);
    // Contents, from memory and from the disk.
    direct.close_stdin();
    let said = direct.line();
    assert!(said.starts_with("ok "), "{said}");
    let mut piped = Vec::new();
    let mut from_pipe = File::from(from_pipe);
    from_pipe.read_to_end(&mut piped).expect("read");
    assert!(piped == contents[0][..nr_pinned], "what lay in the pipe");
    memory.seek(SeekFrom::Start(0)).expect("the beginning");
    let mut again = Vec::new();
    memory.read_to_end(&mut again).expect("read");
    assert!(again == in_memory, "what is in memory only");
    drop((touch, direct));
    let mut at_the_end = vec![0; MIB as usize];
    sparse.read_exact_at(&mut at_the_end, FAR).expect("read");
    assert!(at_the_end == noise, "the end of 32 GiB");
    let written = vec![nr_rounds; 2 * MIB as usize];
    let mut spread = noise.clone();
    spread.resize(61 * MIB as usize, 0);
    spread.extend(&noise);
    let all = [
        (&pinned, &contents[0]),
        (&source, &contents[1]),
        (&target, &contents[1]),
        (&locked, &contents[2]),
        (&fixed, &contents[3]),
        (&grows, &contents[4]),
        (&busy, &written),
        (&holes, &spread),
    ];
    for (path, content) in all {
        assert!(fs::read(path).expect("read") == *content, "{path:?}");
    }
    chattr("-ia", &fixed);
    chattr("-ia", &grows);
    for (path, content) in all {
        forget(path);
        assert!(
            fs::read(path).expect("read") == *content,
            "{path:?}, from the disk"
        );
    }
}

/// Files in one room: on a file system of another kind, in both layers of an overlay, and below a mount.
#[test]
fn other_file_systems_are_left_layers_of_an_overlay_go_and_a_missing_right_is_told() {
    needs_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let Some(mut room) = Room::open() else {
        skip!("no mount namespace can be made");
    };
    let group = TestGroup::new("drop-mounted");
    let at = |name: &str| directory.path().join(name);
    for name in ["lower", "upper", "work", "hidden"] {
        fs::create_dir(at(name)).expect("a directory");
    }
    let lower = cold(&group, directory.path(), "lower/file", 2);
    let hidden = cold(&group, directory.path(), "hidden/file", 1);
    let image = checkout().join("tests/filesystems/letters.squashfs");
    let has_other = room.mount_image(&["-t", "squashfs"], &image, &at("other"));
    let layers = format!(
        "lowerdir={},upperdir={},workdir={}",
        at("lower").display(),
        at("upper").display(),
        at("work").display()
    );
    let overlay = ["-t", "overlay", "-o", &layers];
    if !room.mount(&overlay, Path::new("overlay"), &at("merged")) {
        skip!("no overlay can be mounted");
    }
    let upper = at("upper/new");
    let mut dd = room.in_group(&group, "dd");
    dd.args(["if=/dev/urandom", "bs=1M", "count=2", "conv=fsync"]);
    dd.arg(format!("of={}", at("merged/new").display()));
    run(dd);
    let contents = [&lower, &upper, &hidden].map(|path| fs::read(path).expect("read"));
    let hide = ["-t", "tmpfs"];
    assert!(room.mount(&hide, Path::new("none"), &at("hidden")), "tmpfs");
    // Reads through the overlay, as a container does.
    let read_all = || {
        for path in [&lower, &upper, &hidden] {
            forget(path);
        }
        read_file(&group, &hidden, 1);
        let mut cat = room.in_group(&group, "cat");
        cat.args(["merged/file", "merged/new"].map(at));
        run({
            cat.stdout(Stdio::null());
            cat
        });
        if has_other {
            let mut cat = room.in_group(&group, "cat");
            cat.arg(at("other/letters"));
            run({
                cat.stdout(Stdio::null());
                cat
            });
        }
    };
    let other_bytes = if has_other { MIB } else { 0 };
    let drop_without_right = || {
        read_all();
        let mut without = room.command("setpriv");
        without.args(["--bounding-set", "-dac_read_search"]);
        without.args(["--inh-caps", "-dac_read_search"]);
        drop_cold_behind(without, &group)
    };
    let stays = |_: &Value| resident_bytes(&hidden) > MIB - (64 << 10);
    let report = try_thrice(drop_without_right, stays);
    assert_nearly(resident_bytes(&lower) + resident_bytes(&upper), 0, &report);
    assert_nearly(left(&report, "refused"), MIB, &report);
    assert_nearly(resident_bytes(&hidden), MIB, &report);
    assert_nearly(left(&report, "file_system"), other_bytes, &report);
    read_all();
    let report = drop_cold_behind(room.command("env"), &group);
    for path in [&lower, &upper, &hidden] {
        assert_nearly(resident_bytes(path), 0, &report);
    }
    assert_nearly(left(&report, "refused"), 0, &report);
    assert_nearly(left(&report, "file_system"), other_bytes, &report);
    let after = [&lower, &upper, &hidden].map(|path| fs::read(path).expect("read"));
    assert!(after == contents, "a content has changed");
    if has_other {
        let mut cat = room.command("cat");
        let letters = cat.arg(at("other/letters")).output().expect("read").stdout;
        let line = b"a file that does not change\n";
        let is_right = |(at, byte): (usize, &u8)| *byte == line[at % line.len()];
        assert!(letters.len() == MIB as usize && letters.iter().enumerate().all(is_right));
    }
}

#[test]
fn a_file_of_another_mount_namespace_goes_if_it_is_open_or_seen_here_and_is_left_else() {
    needs_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let Some(mut room) = Room::open() else {
        skip!("no mount namespace can be made");
    };
    let group = TestGroup::new("drop-inside");
    let at = |name: &str| directory.path().join(name);
    if let Err(why) = room.mount_new("ext4", &["-F"], &at("image"), 24 * MIB, &at("inner")) {
        skip!("{why}");
    }
    fs::create_dir(at("here")).expect("a directory");
    let bound = cold(&group, directory.path(), "here/bound", 2);
    assert!(room.mount(&["--bind"], &at("here"), &at("there")), "bound");
    forget(&bound);
    let script = "
        cd \"$0\" || exit 9
        for name in closed open; do
            dd if=/dev/urandom of=inner/$name bs=1M count=1 conv=fsync 2>/dev/null
        done
        cat inner/closed inner/open there/bound | cksum
        exec 3<inner/open
        read end
        cat inner/closed inner/open there/bound | cksum";
    let mut holder = room.in_group(&group, "sh");
    let holder = holder.args(["-c", script]).arg(directory.path());
    let holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = holder.spawn().expect("it starts");
    let mut said = BufReader::new(holder.stdout.take().expect("piped"));
    let mut before = String::new();
    said.read_line(&mut before).expect("a sum");
    let report = drop_cold(&group).finish().expect_success().json();
    assert_nearly(resident_bytes(&bound), 0, &report);
    assert_nearly(room.resident_bytes(&at("inner/open")), 0, &report);
    assert_nearly(room.resident_bytes(&at("inner/closed")), MIB, &report);
    // Some pages of the file system's own files may be left, too.
    assert_nearly(left(&report, "unreachable"), MIB, &report);
    let rows = report["files"].as_array().expect("files");
    let is_told = |row: &Value| {
        row["path"]
            .as_str()
            .is_some_and(|path| path.ends_with(":/closed"))
    };
    assert!(rows.iter().any(is_told), "{report:#}");
    holder.stdin.take();
    let mut after = String::new();
    said.read_to_string(&mut after).expect("a sum");
    holder.wait().expect("it ends");
    assert_eq!(before, after);
}

#[test]
fn files_on_xfs_are_dropped_as_those_on_ext4_are() {
    needs_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let Some(mut room) = Room::open() else {
        skip!("no mount namespace can be made");
    };
    let group = TestGroup::new("drop-xfs");
    let at = |name: &str| directory.path().join(name);
    if let Err(why) = room.mount_new("xfs", &[], &at("image"), 320 * MIB, &at("inner")) {
        skip!("{why}");
    }
    let dd = |args: &[&str]| {
        let mut dd = room.in_group(&group, "dd");
        dd.current_dir(directory.path()).args(args);
        run(dd);
    };
    let sum = || {
        let mut cksum = room.command("cksum");
        let said = cksum.arg(at("inner/file")).output().expect("cksum").stdout;
        String::from_utf8_lossy(&said).into_owned()
    };
    let file = at("inner/file");
    let [write, read] = ["of", "if"].map(|name| format!("{name}={}", file.display()));
    dd(&["if=/dev/urandom", &write, "bs=1M", "count=4", "conv=fsync"]);
    let before = sum();
    dd(&[&write, "oflag=nocache", "conv=notrunc,fdatasync", "count=0"]);
    dd(&[&read, "of=/dev/null", "bs=64k"]);
    let report = drop_cold_behind(room.command("env"), &group);
    let rows = report["files"].as_array().expect("files");
    let is_it = |row: &&Value| {
        row["path"]
            .as_str()
            .is_some_and(|path| path.ends_with("/file"))
    };
    assert!(rows.iter().any(|row| is_it(&row)), "{report:#}");
    let dropped = report["dropped"]["dropped_bytes"].as_u64().expect("bytes");
    // What the device of the image has in memory is charged to the group, too.
    assert!(dropped >= 4 * MIB - (64 << 10), "{report:#}");
    assert_nearly(room.resident_bytes(&file), 0, &report);
    assert_eq!(sum(), before);
}

/// Counts and drops so many files of one page each, on a file system of their own: where every file that is removed is
/// discarded from a disk one by one, that takes minutes.
fn drop_many(nr_files: u64) {
    needs_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let Some(mut room) = Room::open() else {
        skip!("no mount namespace can be made");
    };
    let group = TestGroup::new("drop-many");
    let at = |name: &str| directory.path().join(name);
    let noise = at("noise");
    write_file(&group, &noise, (nr_files * 4096).div_ceil(MIB));
    let file = File::options().write(true).open(&noise).expect("a file");
    file.set_len(nr_files * 4096).expect("as long");
    let many = at("many");
    let nr_inodes = (nr_files + 1024).to_string();
    let options = ["-F", "-O", "^has_journal", "-N", &nr_inodes];
    let nr_bytes = nr_files * 6 * 1024 + 64 * MIB;
    if let Err(why) = room.mount_new("ext4", &options, &at("image"), nr_bytes, &many) {
        skip!("{why}");
    }
    let mut split = room.in_group(&group, "split");
    split.args(["-b", "4096", "-a", "6", "-d"]);
    run({
        split.arg(&noise).arg(many.join("x"));
        split
    });
    forget(&noise);
    let mut sync = room.command("sync");
    run({
        sync.arg("-f").arg(&many);
        sync
    });
    // The kernel may have taken a few, and of very many some are not listed.
    let is_near_all = |found: &Value| {
        let found = found.as_u64().expect("a number");
        (nr_files - nr_files / 10..=nr_files).contains(&found)
    };
    let under = |strata: Strata| {
        let strata = strata.arg("--under").arg(&many).command();
        let mut command = room.command(strata.get_program());
        command.args(strata.get_args());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let done = finish(child, &[], Duration::from_secs(300) * patience());
        let done = done.expect_success();
        let report = done.json();
        // With those of the rest of the machine they may be more than can be listed.
        let is_told = done.stderr.contains("more files than can be listed");
        assert_eq!(report["lost_bytes"] != 0, is_told, "{report:#}");
        report
    };
    let report = under(drop_cold(&group));
    assert!(is_near_all(&report["nr_files"]), "{report:#}");
    let nr_bytes = report["nr_files"].as_u64().expect("a number") * 4096;
    assert_eq!(report["total_bytes"], nr_bytes, "{report:#}");
    assert!(
        report["lost_bytes"] == 0 || nr_files > 100_000,
        "{report:#}"
    );
    assert_eq!(report["files"].as_array().expect("files").len(), 30);
    let dropped = &report["dropped"];
    assert!(is_near_all(&dropped["nr_files"]), "{dropped}");
    assert_eq!(
        dropped["dropped_bytes"], dropped["tried_bytes"],
        "{dropped}"
    );
    let nr_dropped = dropped["dropped_bytes"].as_u64().expect("bytes") / 4096;
    assert!(is_near_all(&nr_dropped.into()), "{dropped}");
    let mut compare = room.command("sh");
    let script = r#"cd "$1" && printf '%s\n' x* | xargs cat | cmp - "$0""#;
    compare.args(["-c", script]);
    run({
        compare.arg(&noise).arg(&many);
        compare
    });
}

#[test]
fn twenty_thousand_files_of_a_page_are_counted_and_dropped_one_by_one() {
    drop_many(20_000);
}

#[test]
#[ignore = "writes 200,000 files: make test-long"]
fn long_two_hundred_thousand_files_of_a_page_are_counted_and_dropped_one_by_one() {
    drop_many(200_000);
}
