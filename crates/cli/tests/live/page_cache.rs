//! `strata run` beside a stream of files and over files that do not fit: what is not read again is dropped, and every content is
//! what it was.

use crate::support::prelude::*;

/// Reads a file of 24 MiB again and again, and meanwhile streams one of 256 MiB, and writes one of 4 MiB.
const SCRIPT: &str = r#"
cd "$0" || exit 9
head -c 4194304 /dev/urandom >written && cat written | cksum >sum
for i in 1 2; do cat twice >/dev/null; done
for i in 1 2 3; do cat hot >/dev/null; done
i=0
while [ $i -lt 64 ]; do
    dd if=stream of=/dev/null bs=4M skip=$i count=1 2>/dev/null
    [ $((i % 16)) = 15 ] && cat hot >/dev/null
    i=$((i + 1))
    sleep "$1"
done
cat written | cksum | cmp - sum
"#;

fn noise(path: &Path, mib: u64) {
    let mut random = File::open("/dev/urandom").expect("noise");
    let mut noise = Read::take(&mut random, mib * MIB);
    let mut file = File::create(path).expect("a file");
    std::io::copy(&mut noise, &mut file).expect("written");
    file.sync_all().expect("on disk");
}

/// Reads all files of a tree, and again; a pause after each twentieth file.
const LOOP: &str = r#"
cd "$0" || exit 9
for pass in 1 2 3 4 5 6; do
    for part in *; do
        cat "$part"/* >/dev/null
        sleep "$1"
    done
done
"#;

#[test]
fn a_part_of_files_that_are_read_in_a_loop_and_do_not_fit_stays_in_memory() {
    const NR_PARTS: u64 = 15;
    const PART_FILES: u64 = 20;
    const FILE_BYTES: u64 = 560 << 10;
    needs!("cap_bpf", "memory_cgroup");
    needs_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    noise(&directory.path().join("noise"), 1);
    let noise = fs::read(directory.path().join("noise")).expect("read");
    let tree = directory.path().join("tree");
    let paths: Vec<_> = (0..NR_PARTS * PART_FILES)
        .map(|at| tree.join(format!("{:02}/{at:04}", at / PART_FILES)))
        .collect();
    // Each file has other bytes than the one before it.
    let content = |at: usize| &noise[at * 1331..at * 1331 + FILE_BYTES as usize];
    for (at, path) in paths.iter().enumerate() {
        fs::create_dir_all(path.parent().expect("a part")).expect("made");
        let file = File::create(path).expect("a file");
        Write::write_all(&mut &file, content(at)).expect("written");
    }
    for path in &paths {
        File::open(path)
            .and_then(|file| file.sync_all())
            .expect("on disk");
        forget(path);
    }
    let pause = format!("0.0{}", 4 * patience().min(20));
    let (finished, report) = Strata::new(["run", "--memory", "128M", "--", "sh", "-c", LOOP])
        .arg(&tree)
        .arg(&pause)
        .finish_with_report();
    finished.expect_success();
    let cache = &report["page_cache"];
    let bytes = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{report:#}"));
    let (tried, dropped) = (
        bytes(&cache["newcomers"]["tried_bytes"]),
        bytes(&cache["newcomers"]["dropped_bytes"]),
    );
    assert!(dropped >= 16 * MIB && dropped <= tried, "{cache}");
    assert!(bytes(&cache["in_again_bytes"]) >= 32 * MIB, "{cache}");
    // Where no newcomer goes, more than half of what the 6 passes read comes from the disk.
    let read = 6 * NR_PARTS * PART_FILES * FILE_BYTES;
    assert!(bytes(&cache["in_bytes"]) < read / 2, "{read}: {cache}");
    for (at, path) in paths.iter().enumerate() {
        assert!(
            fs::read(path).expect("read") == content(at),
            "{}",
            path.display()
        );
    }
}

fn stream(directory: &Path) -> Value {
    let pause = format!("0.0{}", 4 * patience().min(20));
    let strata = Strata::new(["run", "--memory", "128M"])
        .args(["--", "sh", "-c", SCRIPT])
        .arg(directory)
        .arg(&pause);
    let (finished, report) = strata.finish_with_report();
    finished.expect_success();
    report
}

#[test]
fn what_a_stream_leaves_behind_is_dropped_and_what_is_read_again_is_not() {
    needs!("cap_bpf", "memory_cgroup");
    needs_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let paths = ["hot", "twice", "stream"].map(|name| directory.path().join(name));
    for (path, mib) in paths.iter().zip([24, 8, 256]) {
        noise(path, mib);
    }
    let contents = || paths.each_ref().map(|path| fs::read(path).expect("read"));
    let before = contents();
    for path in &paths {
        forget(path);
    }
    let report = stream(directory.path());
    let cache = &report["page_cache"];
    let bytes = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{report:#}"));
    let (tried, dropped) = (
        bytes(&cache["once"]["tried_bytes"]),
        bytes(&cache["once"]["dropped_bytes"]),
    );
    assert!(bytes(&cache["nr_censuses"]) >= 3, "{cache}");
    assert!(dropped >= 16 * MIB && dropped <= tried, "{cache}");
    // The stream never comes back; the hot file would, each time it is read.
    assert!(bytes(&cache["returned_bytes"]) <= dropped / 4, "{cache}");
    assert_eq!(bytes(&cache["again"]["dropped_bytes"]), 0, "{cache}");
    // What was read twice, longer ago than the stream, stays for its tier.
    let tiers = cache["tiers"].as_array().expect("tiers");
    let protected = tiers[1..].iter().map(|of| bytes(&of["protected_bytes"]));
    assert!(protected.sum::<u64>() >= 4 * MIB, "{cache}");
    assert!(before == contents(), "a content has changed");
}

#[test]
fn page_cache_is_left_to_the_kernel_where_that_is_asked_for() {
    live!("cap_bpf", "memory_cgroup");
    // In a dry run the command is in no cgroup.
    for option in ["--keep-page-cache", "--dry-run"] {
        let run = Strata::new(["run", "--memory", "128M", option, "--", "true"]);
        let (finished, report) = run.finish_with_report();
        finished.expect_success();
        assert_eq!(report["page_cache"], Value::Null, "{option}");
    }
}

#[test]
fn a_dry_run_of_a_cgroup_tells_what_page_cache_would_go_and_drops_nothing() {
    const FILE_MIB: u64 = 96;
    needs!("cap_bpf", "memory_cgroup", "page_walk");
    needs_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let group = TestGroup::new("dry-cache");
    let streamed = directory.path().join("stream");
    write_file(&group, &streamed, FILE_MIB);
    let mut sleeper = in_group(&group, "sleep");
    let mut sleeper = sleeper.arg("1000").spawn().expect("sleep");
    let before = group.values();
    let path = directory.path().join("report.json");
    let strata = Strata::new(["run", "--memory", "48M", "--dry-run", "--report"])
        .arg(&path)
        .arg("--cgroup")
        .arg(&group.path);
    let second = Duration::from_secs(u64::from(patience().div_ceil(3)));
    let run_dry = || {
        forget(&streamed);
        read_file(&group, &streamed, 1);
        let mut live = Live::start(&strata);
        live.wait_until_it_answers();
        sleep(3 * second);
        // What would be gone is read again. While nothing is new, the next census may take 8 s.
        read_file(&group, &streamed, 1);
        sleep(Duration::from_secs(9) + second);
        live.interrupt();
        let report = json_in(&path);
        (resident_bytes(&streamed), report)
    };
    // Something else on the machine may evict folios that lie idle.
    let is_there = |resident: u64| resident > (FILE_MIB - 8) * MIB;
    let (resident, report) = try_thrice(run_dry, |(resident, _)| is_there(*resident));
    sleeper.kill().expect("killed");
    sleeper.wait().expect("waited for");
    assert!(is_there(resident), "{resident} of the stream");
    assert_eq!(group.values(), before, "nothing is changed");
    let cache = &report["page_cache"];
    let bytes = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{report:#}"));
    let kinds = ["once", "again", "newcomers"];
    let dropped = kinds.map(|kind| bytes(&cache[kind]["dropped_bytes"]));
    assert_eq!(dropped, [0; 3], "{cache}");
    let tiers = cache["tiers"].as_array().expect("tiers");
    let dropped: u64 = tiers.iter().map(|of| bytes(&of["dropped_bytes"])).sum();
    assert_eq!(dropped, 0, "{cache}");
    let shares = report["would_evict"]["shares"].as_array().expect("shares");
    let share = shares.iter().find(|share| share["name"] == "page cache");
    let share = share.unwrap_or_else(|| panic!("{report:#}"));
    assert!(bytes(&share["nr_pages"]) * 4096 >= 32 * MIB, "{report:#}");
    assert!(bytes(&cache["once"]["tried_bytes"]) >= 32 * MIB, "{cache}");
    assert!(bytes(&cache["returned_bytes"]) >= 32 * MIB, "{cache}");
    assert!(bytes(&tiers[0]["refaulted_bytes"]) >= 32 * MIB, "{cache}");
}

/// Reads files of 8 MiB once. Then renames, replaces and cuts them, and removes and makes them anew, while another one streams by.
const CHANGING: &str = r#"
cd "$0" || exit 9
for part in 0 1; do
    for i in 0 1 2 3 4 5 6 7 8 9 10 11; do
        dd if=s$i of=/dev/null bs=4M skip=$part count=1 2>/dev/null
        sleep "$1"
    done
done
for i in 0 1 2 3 4 5 6 7 8 9 10 11; do
    for part in 0 1; do
        dd if=stream of=/dev/null bs=4M skip=$((2 * i + part)) count=1 2>/dev/null
        sleep "$1"
    done
    case $i in
        0 | 4 | 8) mv s$i moved$i ;;
        1 | 5 | 9) mv other$i s$i ;;
        2 | 6 | 10) truncate -s 1M s$i ;;
        *) rm s$i && cat other$i >s$i ;;
    esac || exit 8
done
"#;

#[test]
fn files_that_are_renamed_replaced_cut_or_made_anew_while_a_run_drops_have_their_content() {
    const NR_FILES: usize = 12;
    const FILE_BYTES: usize = 8 << 20;
    needs!("cap_bpf", "memory_cgroup");
    needs_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let at = |name: &str| directory.path().join(name);
    noise(&at("stream"), 96);
    let noise = fs::read(at("stream")).expect("read");
    forget(&at("stream"));
    // Each file has other bytes than the one before it.
    let content = |of: usize| &noise[of * 1331..of * 1331 + FILE_BYTES];
    let other = |of: usize| &noise[(of + NR_FILES) * 1331..(of + NR_FILES) * 1331 + MIB as usize];
    for of in 0..NR_FILES {
        for (name, content) in [("s", content(of)), ("other", other(of))] {
            let path = at(&format!("{name}{of}"));
            fs::write(&path, content).expect("written");
            forget(&path);
        }
    }
    let pause = format!("0.0{}", 6 * patience().min(16));
    let (finished, report) = Strata::new(["run", "--memory", "96M", "--", "sh", "-c", CHANGING])
        .arg(directory.path())
        .arg(&pause)
        .finish_with_report();
    finished.expect_success();
    let cache = &report["page_cache"];
    let bytes = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{report:#}"));
    let dropped = bytes(&cache["once"]["dropped_bytes"]);
    assert!(dropped >= 8 * MIB, "{cache}");
    for of in 0..NR_FILES {
        let (name, content) = match of % 4 {
            0 => ("moved", content(of)),
            2 => ("s", &content(of)[..MIB as usize]),
            _ => ("s", other(of)),
        };
        let path = at(&format!("{name}{of}"));
        assert!(fs::read(&path).expect("read") == content, "{path:?}");
        forget(&path);
        let from_disk = fs::read(&path).expect("read");
        assert!(from_disk == content, "{path:?}, from the disk");
    }
    assert!(fs::read(at("stream")).expect("read") == noise);
}
