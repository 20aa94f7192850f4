//! A memory that does what a test says, and keeps a list of what it was asked.
//!
//! **Owns** its answers. **Does not own** what is asserted of them.

use crate::control::Control;
use crate::control::tests::{MIB, with};
use crate::drive::{BatchSize, Mechanism, Visit, WalkFound};
use crate::plan::Action;
use crate::sample::Actuator;
use crate::trace::{Recorder, Tick};
use std::collections::VecDeque;
use strata_lru::{Isolated, TimeMs};

/// What was asked of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Kernel(u64),
    Oldest,
    Sent(u64),
    Walk { is_thorough: bool },
    Aged,
    WalkPutOff,
    Applied(Action),
}

/// The memory: what it answers, and what it was asked.
pub(super) struct Memory {
    pub(super) control: Control,
    pub(super) recorder: Recorder,
    pub(super) asked: Vec<Asked>,
    pub(super) oldest: VecDeque<Isolated>,
    pub(super) is_all_young: bool,
    pub(super) is_batch_out: bool,
    pub(super) is_ageing_due: bool,
    pub(super) rest_us: u64,
}

impl Memory {
    pub(super) fn of(control: Control) -> Memory {
        Memory {
            control,
            recorder: Recorder::recording(),
            asked: Vec::new(),
            oldest: VecDeque::new(),
            is_all_young: false,
            is_batch_out: false,
            is_ageing_due: false,
            rest_us: 0,
        }
    }

    pub(super) fn new() -> Memory {
        Memory::of(with(320 * MIB, Actuator::Pageout))
    }

    pub(super) fn take_asked(&mut self) -> Vec<Asked> {
        std::mem::take(&mut self.asked)
    }

    pub(super) fn tick(&self) -> Tick {
        self.recorder.take().expect("it records")
    }
}

pub(super) fn sure<T>(result: Result<T, std::convert::Infallible>) -> T {
    match result {
        Ok(value) => value,
        Err(never) => match never {},
    }
}

impl Mechanism for Memory {
    type Error = std::convert::Infallible;
    type Batch = u64;

    fn control(&self) -> &Control {
        &self.control
    }

    fn control_mut(&mut self) -> &mut Control {
        &mut self.control
    }

    fn note_attempt(&mut self) {}

    fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    fn found(&self) -> WalkFound {
        WalkFound::default()
    }

    fn is_all_young(&mut self, _: TimeMs) -> bool {
        self.is_all_young
    }

    fn ask_kernel(&mut self, _: TimeMs, bytes: u64) -> bool {
        self.asked.push(Asked::Kernel(bytes));
        true
    }

    fn is_batch_out(&self) -> bool {
        self.is_batch_out
    }

    fn isolate(
        &mut self,
        _: TimeMs,
        nr_pages: u64,
    ) -> Result<Option<(Isolated, u64)>, Self::Error> {
        self.asked.push(Asked::Oldest);
        let answer = self.oldest.pop_front();
        Ok(answer.map(|answer| match answer {
            Isolated::Pages(_) => (answer, nr_pages),
            _ => (answer, 0),
        }))
    }

    fn size_of(batch: &u64) -> BatchSize {
        BatchSize {
            nr_folios: *batch,
            nr_requests: 1,
        }
    }

    fn send(&mut self, _: TimeMs, batch: u64) {
        self.asked.push(Asked::Sent(batch));
    }

    fn rest_us(&mut self, _: TimeMs) -> u64 {
        self.rest_us
    }

    fn put_off_walk(&mut self, _: TimeMs) {
        self.asked.push(Asked::WalkPutOff);
    }

    fn is_ageing_due(&mut self) -> bool {
        self.is_ageing_due
    }

    fn visit(&mut self, _: TimeMs, is_thorough: bool, _: bool) -> Result<Visit, Self::Error> {
        self.asked.push(Asked::Walk { is_thorough });
        Ok(Visit::default())
    }

    fn age(&mut self, _: TimeMs) -> Result<(), Self::Error> {
        self.asked.push(Asked::Aged);
        Ok(())
    }

    fn apply(&mut self, _: TimeMs, action: Action) {
        self.asked.push(Asked::Applied(action));
    }
}
