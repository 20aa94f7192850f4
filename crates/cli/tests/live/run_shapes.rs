//! Programs of unusual shape under a budget below their footprint: whatever becomes of their address
//! spaces meanwhile, the budget is enforced and every page is right.

use crate::support::prelude::*;

use crate::metrics::{BY_HUGE, start};

/// Seconds for a program's option, longer where everything is slower.
fn seconds(count: u32) -> String {
    // An emulated processor is slower by about so much; longer waits would only add up.
    (count * patience().min(7)).to_string()
}

/// Runs a workload within `budget`; it must end with status 0.
#[track_caller]
fn run_within(budget: &str, actuator: &str, words: &[&str], orders: &str) -> (Finished, Value) {
    let (run, report) = Strata::new(["run", "--swap", "zram:256M"])
        .args(["--memory", budget, "--actuator", actuator, "--"])
        .arg(program(words[0]))
        .args(&words[1..])
        .stdin(orders)
        .time_limit(Duration::from_secs(80))
        .finish_with_report();
    let said = format!(
        "{words:?} {budget} {actuator}: {}\n{}",
        run.stdout, run.stderr
    );
    assert_eq!(run.code(), Some(0), "{said}");
    (run, report)
}

/// Whether so much was evicted, by whomever, and came back to be verified.
#[track_caller]
fn assert_came_back(bytes: u64, report: &Value) {
    let nr_faults = report["kernel"]["nr_major_faults"]
        .as_u64()
        .expect("faults");
    assert!(
        nr_faults * 4096 > bytes,
        "{nr_faults} major faults: {report:#}"
    );
}

fn applied_bytes(report: &Value) -> u64 {
    report["eviction"]["nr_applied_pages"]
        .as_u64()
        .expect("pages")
        * 4096
}

/// Once its leader has exited no pidfd leads to a process's memory: pageout spun (1.4 million tries
/// and 3 s of CPU in 4 s), and clearing accessed bits did nothing.
#[test]
fn a_process_whose_first_thread_has_ended_is_left_to_the_kernel_and_that_is_told() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let orders = format!(
        "writerange 0 9000\nleaderexit\nwriterange 9000 7384\nsleep {}\nverify 0 16384\nexit 0\n",
        seconds(2)
    );
    for actuator in ["auto", "pageout", "reclaim"] {
        let (run, report) = run_within("40M", actuator, &["touch", "--size", "64M"], &orders);
        assert!(run.stdout.ends_with("ok 0\n"), "{}", run.stdout);
        assert_came_back(20 * MIB, &report);
        let warnings = warnings(&report).join("\n");
        assert!(!warnings.contains("is gone"), "{warnings}");
        let cpu_ms = report["strata_cpu_ms"].as_u64().expect("time");
        let elapsed_ms = report["elapsed_ms"].as_u64().expect("time");
        match actuator {
            // At times the kernel has done all of it before pageout is asked for the first time.
            "auto" if warnings.contains("first thread") => {
                assert_has(&warnings, "the kernel's reclaim does the work");
            }
            "pageout" => {
                assert_has(&warnings, "its first thread has exited");
                assert!(cpu_ms < elapsed_ms * 7 / 10, "it spins: {report:#}");
            }
            _ => assert_eq!(warnings, "", "{actuator}"),
        }
    }
}

#[test]
fn a_program_is_followed_through_exec() {
    live!("cap_bpf", "memory_cgroup", "zram");
    let stay = seconds(1);
    let words = [
        "execchain",
        "--depth",
        "2",
        "--size",
        "48M",
        "--seconds",
        &stay,
    ];
    for actuator in ["pageout", "auto"] {
        let (run, report) = run_within("32M", actuator, &words, "");
        assert_eq!(run.json_lines().len(), 3, "{}", run.stdout);
        // 18 MiB of each of the three have to go.
        assert_came_back(36 * MIB, &report);
    }
}

#[test]
fn children_that_come_under_pressure_keep_what_they_inherited() {
    live!("cap_bpf", "memory_cgroup", "zram");
    let stay = seconds(1);
    let words = [
        "forker",
        "--children",
        "20",
        "--size",
        "3M",
        "--shared",
        "8M",
        "--seconds",
        &stay,
    ];
    for actuator in ["pageout", "auto"] {
        let (run, report) = run_within("40M", actuator, &words, "");
        assert_eq!(run.json_lines()[0]["failed"], 0, "{}", run.stdout);
        assert_came_back(20 * MIB, &report);
    }
}

#[test]
fn sixty_thousand_mappings_are_managed() {
    live!("cap_bpf", "memory_cgroup", "zram");
    let stay = seconds(2);
    let words = ["mapstorm", "--mappings", "60000", "--seconds", &stay];
    let (_, report) = run_within("96M", "pageout", &words, "");
    assert_came_back(100 * MIB, &report);
}

#[test]
fn mappings_that_come_and_go_under_pressure_are_right() {
    live!("cap_bpf", "memory_cgroup", "zram");
    let stay = seconds(2);
    let words = [
        "mapstorm",
        "--mappings",
        "12000",
        "--churn",
        "--seconds",
        &stay,
    ];
    for actuator in ["pageout", "auto"] {
        let (_, report) = run_within("32M", actuator, &words, "");
        assert_came_back(10 * MIB, &report);
    }
}

/// Each touched page lies in a page table of its own: 12,000 tables are 48 MiB that can't go, which
/// was not told as long as the kernel was asked to reclaim. As fast as it goes they would meet a limit
/// of cgroup v1 before anybody can look, and what happens there is the kernel's business.
#[test]
fn a_terabyte_of_nothing_is_managed_and_its_page_tables_are_told_as_the_floor() {
    live!("cap_bpf", "memory_cgroup", "zram");
    let stay = seconds(3);
    let words = [
        "sparse",
        "--size",
        "1T",
        "--touch",
        "12000",
        "--rate",
        "8000",
        "--seconds",
        &stay,
    ];
    let (_, report) = run_within("32M", "auto", &words, "");
    let told = report["warnings"].to_string();
    assert_has(&told, "below what the program can't give up");
    let words = ["sparse", "--size", "1T", "--touch", "64", "--seconds", "1"];
    let (_, report) = run_within("32M", "auto", &words, "");
    assert_eq!(warnings(&report), [""; 0]);
    // Tables that are not there are not looked at.
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_u64);
    let nr_walks = number("/walks/nr_walks").expect("walks").max(1);
    let nr_tables = number("/walks/cost/nr_tables").expect("tables");
    assert!(nr_tables <= 128 * nr_walks, "{report:#}");
}

/// Split by reclaim, by protecting a part and by giving a part back; made anew by collapsing, which
/// moves the pages elsewhere.
#[test]
fn huge_pages_that_split_collapse_and_move_under_pressure_are_right() {
    needs!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    if !has_huge_pages() {
        skip!("this kernel makes no huge pages: transparent_hugepage/enabled is never");
    }
    let _guard = Guard::new();
    let mut orders = String::from("writerange 0 16384\nsleep 1\n");
    for first in (0..16384).step_by(2048) {
        // A part of a huge page is protected; another huge page is torn open and filled again.
        orders += &format!(
            "protect read {} 100\nadvise dontneed {} 50\nverify {first} 2048\n\
             protect write {} 100\nwriterange {} 50\nadvise collapse {first} 1024\nverify {first} 2048\n",
            first + 10,
            first + 600,
            first + 10,
            first + 600
        );
    }
    orders += &format!("sleep {}\nverify 0 16384\nexit 0\n", seconds(1));
    for actuator in ["pageout", "auto"] {
        let words = ["touch", "--size", "64M", "--thp"];
        let (run, report) = run_within("40M", actuator, &words, &orders);
        let wrong: Vec<&str> = run
            .stdout
            .lines()
            .skip(1)
            // There may be no huge page to collapse into just now.
            .filter(|line| !matches!(*line, "ok" | "ok 0") && !line.starts_with("error "))
            .collect();
        assert_eq!(wrong, [] as [&str; 0]);
        assert!(run.stdout.ends_with("ok 0\n"), "{}", run.stdout);
        assert_came_back(20 * MIB, &report);
    }
}

fn has_huge_pages() -> bool {
    let thp = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    thp.is_ok_and(|text| !text.contains("[never]"))
}

fn nr_split(report: &Value) -> u64 {
    let nr_split = &report["eviction"]["nr_split_pages"];
    nr_split.as_u64().expect("a number of pages") / 512
}

/// One hot page in 512 makes a huge page hot. Most of the budget once stayed in huge pages for good,
/// and all else came and went through the rest: with pageout 103 faults in 1000 operations where it
/// takes 65, with the kernel's reclaim 142 where it takes 70.
#[test]
fn cold_pages_that_hide_in_huge_ones_are_brought_to_light() {
    needs!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    if !has_huge_pages() {
        skip!("this kernel makes no huge pages: transparent_hugepage/enabled is never");
    }
    let _guard = Guard::new();
    // It is ended as soon as enough was split.
    let time = seconds(30);
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().to_str().expect("text");
    for actuator in ["pageout", "auto"] {
        // As slow as a program that waits, so that a huge page is in use in parts on a fast machine too.
        let mut words = vec!["zipf", "--size", "192M", "--thp", "--seconds", &time];
        words.extend(["--work-percent", "25"]);
        let mut options = vec!["--memory", "115M", "--swap", "zram:256M", "--report", path];
        // Walks that choose pages come often enough to tell that a huge page is in use in parts only.
        options.extend(["--actuator", actuator, "--policy", "mglru"]);
        let mut run = start(&options, &words);
        // There were 96 of them, and some the kernel splits itself. On slow processors, where clearing has walks come
        // seldom, it may not get further than the trial.
        let least = if patience() > 1 { 4 } else { 12 };
        wait_until("huge pages to be split", || {
            let is_split = |bytes| bytes >= (least * 2 * MIB) as f64;
            value(&scrape(&run.1), BY_HUGE[0]).is_some_and(is_split)
        });
        let run = &mut run.0.live;
        run.signal(Signal::TERM);
        assert_eq!(run.end().code(), Some(143), "{}", run.stderr());
        let report = json_in(path);
        assert!(nr_split(&report) >= least, "{actuator}: {report:#}");
    }
}

/// Once both programs were started at the same time, and where the one with the huge pages was late the
/// other had filled the budget and the kernel gave it none to split. And once the other was so fast that
/// the kernel had to help, and took up to seven huge pages whole: after a walk has cleared its bit, a page
/// that the processor has no need to look up anew seems unused to it.
#[test]
fn huge_pages_that_are_in_use_all_over_stay_huge() {
    needs!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    if !has_huge_pages() {
        skip!("this kernel makes no huge pages: transparent_hugepage/enabled is never");
    }
    let _guard = Guard::new();
    let both = format!(
        "\"$0\" --size 32M --theta 0 --thp --seconds {} & sleep 1; \"$0\" --size 96M --theta 1.2 --seconds {} --work-percent 25; wait",
        seconds(8),
        seconds(6)
    );
    let zipf = program("zipf");
    let (run, report) = Strata::new(["run", "--memory", "80M", "--swap", "zram:256M"])
        .args(["--actuator", "pageout", "--", "sh", "-c", &both])
        .arg(zipf)
        .time_limit(Duration::from_secs(80))
        .finish_with_report();
    assert_eq!(run.code(), Some(0), "{}\n{}", run.stdout, run.stderr);
    assert!(applied_bytes(&report) > 8 * MIB, "{report:#}");
    let lines: Vec<Value> = run.json_lines();
    let uniform = lines
        .iter()
        .find(|line| line["theta"] == 0 && line["program"] == "zipf")
        .expect("a line at the end");
    let number = |name: &str| uniform[name].as_u64().expect("a number");
    if number("huge_bytes_filled") < 32 * MIB {
        skip!("the kernel had no huge pages to give: {uniform}");
    }
    let ops_per_s = number("ops_per_s") as f64;
    if ops_per_s < 4.0 * 4.0 * 8192.0 {
        skip!("too slow to use 32 MiB all over in a quarter of a second: {ops_per_s} a second");
    }
    // One trial, no more.
    assert_eq!(nr_split(&report), 4, "{report:#}");
    assert!(number("huge_bytes") >= 16 * MIB, "{uniform} {report:#}");
}

#[test]
fn pages_that_the_program_supplies_itself_are_right() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let stay = seconds(2);
    for actuator in ["pageout", "auto"] {
        let (run, report) = Strata::new(["run", "--memory", "40M", "--swap", "zram:256M"])
            .args(["--actuator", actuator, "--"])
            .arg(program("fault"))
            .args(["--size", "64M", "--seconds", &stay])
            .finish_with_report();
        if run.code() == Some(3) {
            skip!("no userfaultfd: {}", run.stderr);
        }
        assert_eq!(run.code(), Some(0), "{}\n{}", run.stdout, run.stderr);
        let said = &run.json_lines()[0];
        assert_eq!(said["bad"], 0, "{said}");
        // What was evicted comes back from swap, and is not supplied again.
        assert_eq!(said["supplied"], said["pages"], "{said}");
        assert_came_back(20 * MIB, &report);
    }
}

#[test]
fn merged_pages_are_right() {
    needs!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    // Turning it on would merge pages of others, too.
    if fs::read_to_string("/sys/kernel/mm/ksm/run").map_or(true, |text| text.trim() != "1") {
        skip!("KSM does not run here (/sys/kernel/mm/ksm/run)");
    }
    let _guard = Guard::new();
    let stay = seconds(4);
    for actuator in ["pageout", "auto"] {
        let words = ["twins", "--size", "64M", "--merge", "--seconds", &stay];
        let (run, _) = run_within("24M", actuator, &words, "");
        let said = &run.json_lines()[0];
        assert_eq!(said["bad"], 0, "{said}");
        assert!(said["merged"].as_u64() > Some(0), "{said}");
    }
}

#[test]
fn pages_offered_for_merging_are_evicted_like_any_other_until_they_are() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let stay = seconds(2);
    let words = ["twins", "--size", "64M", "--seconds", &stay];
    let (run, report) = run_within("40M", "pageout", &words, "");
    assert_eq!(run.json_lines()[0]["bad"], 0, "{}", run.stdout);
    if run.json_lines()[0]["merged"] == 0 {
        assert!(applied_bytes(&report) > 10 * MIB, "{report:#}");
    }
}
