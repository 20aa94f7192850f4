//! Bad input and bad luck under `strata run`: one clear error or a clean degradation.

use crate::support::prelude::*;

#[test]
fn a_group_that_is_deleted_under_us_is_told_and_the_program_goes_on() {
    live!("cap_bpf", "memory_cgroup");
    let mut live = Live::start(
        &Strata::new(["run", "--memory", "64M", "--"])
            .arg(program("signals"))
            .args(["--seconds", "60"]),
    );
    let pid = live.json()["pid"].as_i64().expect("pid") as i32;
    let group = memory_group_of(pid);
    let parent = group.parent().expect("a parent").to_owned();
    fs::write(parent.join("cgroup.procs"), pid.to_string()).expect("moved");
    wait_until("the group to go", || fs::remove_dir(&group).is_ok());
    live.wait_for_stderr("usage can't be read any more");
    live.signal(Signal::USR1);
    assert_eq!(live.json()["signal"], "USR1");
    live.signal(Signal::TERM);
    assert_eq!(live.end().code(), Some(0), "{}", live.stderr());
}

fn pipe_in(directory: &Path) -> PathBuf {
    let pipe = directory.join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo").success());
    pipe
}

/// To open such a pipe waited for ever, before the program and without a word.
#[test]
fn a_pipe_that_nobody_reads_is_refused_as_report_trace_and_metrics() {
    live!("memory_cgroup");
    let directory = tempfile::tempdir().expect("a directory");
    let pipe = pipe_in(directory.path());
    for (option, why) in [
        ("--report", "nobody reads"),
        ("--trace", "nobody reads"),
        ("--metrics-textfile", "no regular file"),
    ] {
        let run = Strata::new(["run", "--memory", "32M", "--policy", "none", option])
            .arg(&pipe)
            .args(["--", "echo", "started"])
            .finish();
        assert_ne!(run.code(), Some(0), "{option}: {}", run.stderr);
        assert!(run.stderr.contains(why), "{option}: {}", run.stderr);
        assert!(run.stderr.contains("/pipe"), "{option}: {}", run.stderr);
        assert_eq!(run.stdout, "", "{option}: nothing is started");
    }
}

#[test]
fn a_report_that_nobody_takes_is_given_up_and_the_status_is_the_programs() {
    live!("memory_cgroup");
    let directory = tempfile::tempdir().expect("a directory");
    let pipe = pipe_in(directory.path());
    let mut options = File::options();
    let mut end = options.read(true).write(true).open(&pipe).expect("opens");
    rustix::fs::fcntl_setfl(&end, rustix::fs::OFlags::NONBLOCK).expect("a flag");
    while Write::write(&mut end, &[b'x'; 4096]).is_ok() {}
    let run = Strata::new(["run", "--memory", "32M", "--policy", "none", "--report"])
        .arg(&pipe)
        .args(["--", "sh", "-c", "exit 7"])
        .finish();
    assert_eq!(run.code(), Some(7), "{}", run.stderr);
    let why = "whoever should read it took 0 of";
    assert!(run.stderr.contains(why), "{}", run.stderr);
}

#[test]
fn report_and_trace_can_both_be_written_to_stdout() {
    live!("memory_cgroup");
    for option in ["--report", "--trace"] {
        // Once as a pipe, once as a file.
        let line = ["run", "--memory", "32M", "--policy", "none", option];
        let line = Strata::new(line).args(["/dev/stdout", "--", "true"]);
        let piped = line.finish().expect_success().stdout;
        let mut file = tempfile::tempfile().expect("a file");
        let mut command = line.command();
        command.stdout(file.try_clone().expect("a descriptor"));
        command.stderr(Stdio::null());
        assert!(command.status().expect("a status").success(), "{option}");
        Seek::rewind(&mut file).expect("rewound");
        let filed = std::io::read_to_string(&file).expect("read");
        for text in [piped, filed] {
            assert!(text.starts_with('{'), "{option}: {text}");
        }
    }
}

#[test]
fn a_group_that_uses_more_is_brought_down_to_the_limit_that_the_kernel_holds() {
    live!("memory_cgroup", "zram");
    let group = TestGroup::new("lowered");
    let mut grown = in_group(&group, program("idle"))
        .args(["--size", "64M"])
        .stdout(Stdio::null())
        .spawn()
        .expect("starts");
    wait_until("its memory", || group.usage_bytes() > 60 << 20);
    let mut live = Live::start(
        &Strata::new([
            "run",
            "--memory",
            "40M",
            "--swap",
            "zram:128M",
            "--policy",
            "none",
            "--cgroup",
        ])
        .arg(&group.path),
    );
    wait_until("usage below the limit", || group.usage_bytes() <= 40 << 20);
    live.interrupt();
    grown.kill().expect("ended");
    grown.wait().expect("waited for");
}
