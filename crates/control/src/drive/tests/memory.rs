//! A memory that does what a test says, and keeps a list of what it was asked.
//!
//! **Owns** its answers. **Does not own** what is asserted of them.

use crate::control::Control;
use crate::control::tests::{MIB, with};
use crate::drive::{Event, Given, Mechanism, View, Visit};
use crate::plan::Action;
use crate::sample::Actuator;
use crate::trace::{ClearIntent, Note, Recorder};
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
    pub(super) view: View,
    /// So many times more a walk is not over.
    pub(super) nr_ticks_of_walk: u32,
}

impl Memory {
    pub(super) fn of(control: Control) -> Memory {
        Memory {
            control,
            recorder: Recorder::recording(),
            asked: Vec::new(),
            oldest: VecDeque::new(),
            view: View::default(),
            nr_ticks_of_walk: 0,
        }
    }

    pub(super) fn new() -> Memory {
        Memory::of(with(320 * MIB, Actuator::Pageout))
    }

    pub(super) fn take_asked(&mut self) -> Vec<Asked> {
        std::mem::take(&mut self.asked)
    }

    pub(super) fn take_notes(&self) -> Vec<Note> {
        self.recorder.take().expect("it records").notes
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

    fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    fn view(&mut self, _: TimeMs) -> View {
        self.view
    }

    fn hear(&mut self, _: TimeMs, event: Event) {
        if event == Event::WalkPutOff {
            self.asked.push(Asked::WalkPutOff);
        }
    }

    fn ask_kernel(&mut self, _: TimeMs, bytes: u64) -> bool {
        self.asked.push(Asked::Kernel(bytes));
        true
    }

    fn isolate(&mut self, _: TimeMs, nr_pages: u64) -> Result<Option<Given<u64>>, Self::Error> {
        self.asked.push(Asked::Oldest);
        let answer = self.oldest.pop_front();
        Ok(answer.map(|answer| {
            let batch = match answer {
                Isolated::Pages(_) => nr_pages,
                _ => 0,
            };
            Given { answer, batch }
        }))
    }

    fn send(&mut self, _: TimeMs, batch: u64) {
        self.asked.push(Asked::Sent(batch));
    }

    fn visit(
        &mut self,
        _: TimeMs,
        is_thorough: bool,
        _: ClearIntent,
    ) -> Result<Option<Visit>, Self::Error> {
        self.asked.push(Asked::Walk { is_thorough });
        self.view.is_walking = self.nr_ticks_of_walk > 0;
        let is_over = !self.view.is_walking;
        self.nr_ticks_of_walk = self.nr_ticks_of_walk.saturating_sub(1);
        Ok(is_over.then(Visit::default))
    }

    fn age(&mut self, _: TimeMs) -> Result<(), Self::Error> {
        self.asked.push(Asked::Aged);
        Ok(())
    }

    fn apply(&mut self, _: TimeMs, action: Action) {
        self.asked.push(Asked::Applied(action));
    }
}
