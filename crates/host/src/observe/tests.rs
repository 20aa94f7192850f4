//! A process that holds up whoever reads its memory: it is left out, and the others are walked.

use super::watched::LEFT_OUT_MIN;
use super::*;
use std::process::{Child, Command};
use std::sync::Mutex;
use strata_linux::access::{Grain, TableRecord, WalkCost};
use strata_linux::addr::{AddrRange, TableSpan};
use strata_linux::process::VmFlags;

/// A source that stands still in one process as long as a lock is held.
#[derive(Debug)]
struct Stuck {
    pid: i32,
    lock: Arc<Mutex<()>>,
}

impl AccessSource for Stuck {
    fn info(&self) -> SourceInfo {
        SourceInfo {
            name: "stuck",
            grain: Grain::Page,
            blind_spots: Vec::new(),
        }
    }

    fn read(
        &mut self,
        _process: &Process,
        _spans: &[TableSpan],
        _visit: &mut dyn FnMut(&TableRecord),
    ) -> Result<WalkCost, AccessError> {
        Ok(WalkCost::default())
    }

    fn vm_flags(&mut self, process: &Process) -> Result<Vec<(AddrRange, VmFlags)>, AccessError> {
        if process.pid() == self.pid {
            drop(self.lock.lock());
        }
        Ok(Vec::new())
    }
}

struct Sleeper(Child);

impl Sleeper {
    fn start() -> Sleeper {
        Sleeper(Command::new("sleep").arg("600").spawn().expect("starts"))
    }

    fn pid(&self) -> i32 {
        self.0.id() as i32
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}

#[derive(Default)]
struct Told(Vec<SpaceNo>);

impl Visitor for Told {
    fn end(&mut self, space: SpaceNo, is_whole: bool) {
        assert!(is_whole);
        self.0.push(space);
    }
}

#[test]
fn a_process_rests_for_as_long_as_its_clock_stands() {
    let sleeper = Sleeper::start();
    let source = Stuck {
        pid: 0,
        lock: Arc::default(),
    };
    let subject = Subject::Processes(vec![sleeper.pid(), own_pid()]);
    let opened = Observer::with_source(&subject, AccessChoice::Smaps, Box::new(source));
    let mut observer = opened.expect("opens");
    let pause = Duration::from_millis(200);
    for _ in 0..3 {
        // Within the first it begins to sleep.
        std::thread::sleep(pause);
        observer.walk(&mut Told::default());
    }
    let rest_of = |pid| observer.rests().find(|(_, other, _)| *other == pid);
    let (_, _, sleeps) = rest_of(sleeper.pid()).expect("watched");
    let (_, _, works) = rest_of(own_pid()).expect("watched");
    assert!(sleeps >= pause && works < sleeps, "{sleeps:?} {works:?}");
}

#[test]
fn who_holds_up_the_walk_is_left_out_and_tried_more_and_more_rarely() {
    let (stuck, other) = (Sleeper::start(), Sleeper::start());
    let lock = Arc::new(Mutex::new(()));
    let held = lock.lock().expect("nobody else holds it");
    let source = Stuck {
        pid: stuck.pid(),
        lock: Arc::clone(&lock),
    };
    let subject = Subject::Processes(vec![stuck.pid(), other.pid()]);
    let opened = Observer::with_source(&subject, AccessChoice::Smaps, Box::new(source));
    let mut observer = opened.expect("opens");
    observer
        .walker
        .as_mut()
        .expect("it runs")
        .wait_for_anything();
    let mut told = Told::default();
    let walked = observer.walk(&mut told);
    let left_out: Vec<i32> = walked.left_out.iter().map(|one| one.pid).collect();
    assert_eq!(
        (left_out, told.0.len(), walked.nr_spaces),
        (vec![stuck.pid()], 1, 1)
    );
    let reachable: Vec<i32> = observer.reachable().values().map(|one| one.pid()).collect();
    assert_eq!(reachable, [other.pid()]);
    assert_eq!(observer.lost.len(), 1);
    // Not tried again so soon: no other thread is lost.
    let walked = observer.walk(&mut told);
    assert_eq!((walked.left_out.len(), observer.lost.len()), (1, 1));
    let tried_again = |observer: &Observer| observer.spaces[&stuck.pid()].tried_again;
    assert_eq!(tried_again(&observer).expect("left out").1, LEFT_OUT_MIN);
    // It lets go: its time comes, and it is walked.
    drop(held);
    let watched = observer.spaces.get_mut(&stuck.pid()).expect("watched");
    watched.tried_again = Some((Instant::now(), LEFT_OUT_MIN));
    let walked = observer.walk(&mut told);
    assert!(
        walked.left_out.is_empty() && tried_again(&observer).is_none(),
        "{walked:?}"
    );
    assert_eq!(observer.reachable().len(), 2);
}
