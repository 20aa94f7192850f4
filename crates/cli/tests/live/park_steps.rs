//! Steps at random: `strata park` and `strata wake` of programs that fork, exec and end meanwhile, and a Strata that is killed.
//! Afterwards everybody runs, and holds what it held.

use crate::support::prelude::*;

use super::park::list;
use crate::guard_halt::{FreezerGroup, is_frozen};

/// Programs, each in a group of its own.
const NR_PROGRAMS: usize = 3;
/// Pages of each.
const NR_PAGES: u64 = 1024;
/// Children of a program at most.
const NR_CHILDREN_MAX: usize = 3;
/// A Strata is killed within so long.
const KILLED_AFTER_MAX_MS: u64 = 600;

/// Tells what was done, if the test fails.
struct Steps {
    seed: u64,
    done: Vec<String>,
    begun: Option<String>,
}

impl Drop for Steps {
    #[expect(clippy::print_stderr, reason = "so that a failure can be seen again")]
    fn drop(&mut self) {
        if thread::panicking() {
            let last = self.done.len().saturating_sub(40);
            eprintln!("seed {}, {} steps, the last:", self.seed, self.done.len());
            let told = self.done[last..].iter().chain(&self.begun);
            told.for_each(|step| eprintln!("  {step}"));
        }
    }
}

struct One {
    touch: Touch,
    /// On cgroup v1 a group can be frozen where one of the freezer holds just its processes.
    freezer: Option<FreezerGroup>,
    group: TestGroup,
    generation: u32,
}

impl One {
    fn start(place: usize, generation: u32) -> One {
        let mut touch = Touch::start(["--size", "4M"]);
        let name = format!("steps-{place}-{generation}");
        let group = TestGroup::new(&name);
        group.take(touch.pid);
        let is_v1 = memory_mount().is_some_and(|(_, is_v1)| is_v1);
        let has_freezer = is_v1 && place == 0;
        let freezer = has_freezer.then(|| FreezerGroup::take(&name, touch.pid));
        touch.ask(&format!("writerange 0 {NR_PAGES}"));
        One {
            touch,
            freezer: freezer.flatten(),
            group,
            generation,
        }
    }

    fn end(self) {
        drop(self.touch);
        self.freezer.into_iter().for_each(FreezerGroup::end);
        drop(self.group);
    }

    fn pids(&self) -> Vec<i32> {
        let mut pids = vec![self.touch.pid];
        pids.extend(children(self.touch.pid));
        pids
    }

    /// Whether all of its processes run: none is stopped, and no freezer holds them.
    fn runs(&self) -> bool {
        let is_v1 = memory_mount().is_some_and(|(_, is_v1)| is_v1);
        let has_freezer = self.freezer.is_some() || !is_v1;
        let is_frozen = has_freezer && is_frozen(&self.group.path, self.freezer.as_ref());
        !is_frozen && self.pids().into_iter().all(|pid| !is_stopped(pid))
    }
}

/// By its threads: the first may have ended.
fn is_stopped(pid: i32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let texts = threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok());
    let mut states = texts.filter_map(|text| text.rsplit_once(") ")?.1.chars().next());
    states.any(|state| state == 'T')
}

fn park(target: &[&str], is_freezing: bool) -> Strata {
    let park = Strata::new(["park", "--swap", "zram:256M", "--look", "5ms"]).args(target);
    match is_freezing {
        true => park.arg("--freeze"),
        false => park,
    }
}

/// Ends a Strata within a moment, and at times its keeper, too. False: it had ended.
fn kill(strata: &Strata, after: Duration, with_keeper: bool) -> bool {
    let mut live = Live::start(strata);
    sleep(after * patience());
    let keepers = children(live.pid());
    let runs = live.is_running();
    if runs {
        live.signal(Signal::KILL);
    }
    if with_keeper {
        let keepers = keepers
            .into_iter()
            .filter_map(rustix::process::Pid::from_raw);
        keepers.for_each(|pid| {
            let _ended = rustix::process::kill_process(pid, Signal::KILL);
        });
    }
    live.end();
    runs
}

/// Makes so many steps, and as many tries as that takes: a program that is stopped does nothing, and what is not parked can't be woken.
fn steps(seed: u64, nr_steps: usize) {
    let _guard = Guard::new();
    let devices = swap_devices();
    let mut state = seed;
    let mut random = |below: u64| next_random(&mut state) % below;
    let mut log = Steps {
        seed,
        done: Vec::new(),
        begun: None,
    };
    let mut all: Vec<One> = (0..NR_PROGRAMS).map(|place| One::start(place, 0)).collect();
    while log.done.len() < nr_steps {
        let place = random(NR_PROGRAMS as u64) as usize;
        let one = &mut all[place];
        let pids = one.pids();
        let any = pids[random(pids.len() as u64) as usize].to_string();
        let (root, path) = (
            one.touch.pid.to_string(),
            one.group.path.display().to_string(),
        );
        let target = match random(4) {
            0 => ["--pid", &any],
            1 => ["--pid", &root],
            2 => ["--tree", &root],
            _ => ["--cgroup", &path],
        };
        let is_freezing = random(3) > 0;
        let runs = one.runs();
        let wake = match random(3) {
            0 => Strata::new(["wake", "--all"]),
            1 => Strata::new(["wake", "--pid", &any]),
            _ => {
                let ids: Vec<String> = list()
                    .iter()
                    .filter_map(|note| Some(note["id"].as_str()?.to_owned()))
                    .collect();
                match ids.is_empty() {
                    true => Strata::new(["wake", "--all"]),
                    false => Strata::new(["wake", &ids[random(ids.len() as u64) as usize]]),
                }
            }
        };
        let what = random(15);
        let step = format!("{place} {what} runs={runs} {target:?} freeze={is_freezing} {wake:?}");
        // Also what is under way when the test fails.
        log.begun = Some(step.clone());
        let is_made = match what {
            0..=4 => {
                let done = park(&target, is_freezing).finish();
                let is_made = done.code() == Some(0);
                let has_ended =
                    done.stderr.contains("no process") || done.stderr.contains("no memory");
                assert!(is_made || has_ended, "{}", done.stderr);
                is_made
            }
            5..=7 => {
                // 2: that is not parked.
                let done = wake.finish();
                assert!(matches!(done.code(), Some(0 | 2)), "{}", done.stderr);
                done.code() == Some(0)
            }
            8 => {
                let after = Duration::from_millis(random(KILLED_AFTER_MAX_MS));
                kill(&park(&target, is_freezing), after, random(3) == 0)
            }
            9 => {
                let after = Duration::from_millis(random(KILLED_AFTER_MAX_MS));
                kill(&wake, after, false)
            }
            10 => {
                let pid = any.parse().expect("a pid");
                let was_stopped = is_stopped(pid);
                send(pid, Signal::CONT);
                was_stopped
            }
            _ if !runs => false,
            11 => {
                let has_room = children(one.touch.pid).len() < NR_CHILDREN_MAX;
                one.touch.ask(if has_room { "fork 1" } else { "reap" });
                true
            }
            12 => {
                one.touch.ask("reap");
                one.touch.exec();
                one.touch.ask(&format!("writerange 0 {NR_PAGES}"));
                true
            }
            13 => {
                let next = One::start(place, one.generation + 1);
                let mut before = std::mem::replace(one, next);
                assert_eq!(before.touch.ask(&format!("verify 0 {NR_PAGES}")), "0");
                before.end();
                true
            }
            _ if is_leader_gone(one.touch.pid) => false,
            _ => {
                one.touch.ask("leaderexit");
                true
            }
        };
        if runs && !matches!(what, 0..=10) {
            assert_eq!(all[place].touch.ask(&format!("verify 0 {NR_PAGES}")), "0");
        }
        if is_made {
            log.done.push(step);
        }
    }
    let done = Strata::new(["wake", "--all"]).finish();
    assert_eq!(done.code(), Some(0), "{}", done.stderr);
    for one in &mut all {
        wait_until("everybody to run", || one.runs());
        assert_eq!(one.touch.ask(&format!("verify 0 {NR_PAGES}")), "0");
    }
    assert!(list().is_empty());
    // The keepers of those that were killed end, too.
    wait_until("nothing to be left", || {
        let left = fs::read_dir(run_dir());
        let are_ours = |device: &String| !devices.contains(device);
        left.map_or(0, |left| left.flatten().count()) == 0 && !swap_devices().iter().any(are_ours)
    });
    all.into_iter().for_each(One::end);
}

fn is_leader_gone(pid: i32) -> bool {
    state(pid) == 'Z'
}

/// Another one can be asked for, to see a failure again.
fn seed(usual: u64) -> u64 {
    let asked = std::env::var("STRATA_TEST_SEED");
    asked.map_or(usual, |seed| seed.parse().expect("a number"))
}

#[test]
fn after_steps_at_random_nobody_stands_still_and_no_byte_is_wrong() {
    needs!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    steps(seed(1), 80);
}

#[test]
#[ignore = "takes minutes"]
fn long_after_a_thousand_steps_at_random_nobody_stands_still_and_no_byte_is_wrong() {
    needs!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    steps(seed(2), 1000);
}
