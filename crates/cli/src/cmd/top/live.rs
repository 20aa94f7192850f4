//! The screen on a live terminal.
//!
//! ```text
//!   keys     (thread) ----\
//!   signals  (thread) ------> one channel -> main: state, drawing
//!   looks    (thread) ----/                    |
//!       ^-------------- orders ----------------/
//! ```
//!
//! Nobody polls: every thread sleeps until there is something to do. A walk that takes long delays no
//! key.
//!
//! **Owns** the threads and the order of things. **Does not own** the state (`screen`), the walks
//! (`strata_host::observe::overview`).
//!
//! **Invariants** I1: the terminal is given back before anything ends.

use std::io;
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind, MouseEvent, MouseEventKind};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;
use signal_hook::low_level::{emulate_default_handler, raise};
use strata_host::observe::overview::{Overview, Snapshot};

use super::draw::{Look, draw};
use super::screen::{Effect, Screen, Spots};
use super::terminal::{Taken, give_back};

/// A signal ends Strata after this time even if the terminal takes no more output.
const SIGNAL_PATIENCE: Duration = Duration::from_secs(2);

/// What happens to the screen.
enum Input {
    Key(KeyEvent),
    Mouse(MouseEvent),
    Resized,
    Seen(Box<Snapshot>),
    /// Somebody can't be watched.
    Refused(String),
    Signal(i32),
    /// A thread is gone that was to go on: why.
    Lost(&'static str),
}

/// What the thread that looks is told.
enum Wish {
    Watch(String),
    Unwatch(String),
    IntervalMs(u64),
    Paused(bool),
}

/// Says so when its thread ends, also by a panic.
struct Farewell {
    to: Sender<Input>,
    why: &'static str,
}

impl Drop for Farewell {
    fn drop(&mut self) {
        // Nobody listens any more when everything ends.
        let _ = self.to.send(Input::Lost(self.why));
    }
}

/// Shows the overview until the user has seen enough. `opens` has a target that is the only one shown by
/// itself.
pub(super) fn run(
    overview: Overview,
    interval_ms: u64,
    look: Look,
    opens: Opens,
) -> anyhow::Result<ExitCode> {
    let (send, inputs) = channel();
    // Before the terminal is taken, so that no signal finds it taken and nobody listening.
    listen_to_signals(send.clone()).context("handlers of signals can't be installed")?;
    let mut terminal = Taken::take().context("the terminal can't be used")?;
    let wishes = look_around(overview, interval_ms, send.clone());
    listen_to_keys(send);
    let mut screen = Screen::new(interval_ms);
    let mut is_first = true;
    let mut spots = Spots::default();
    loop {
        terminal
            .screen
            .draw(|frame| spots = draw(frame.buffer_mut(), &screen, look))
            .context("the terminal can't be written to")?;
        let input = inputs
            .recv()
            .context("every thread of the screen has ended")?;
        let effect = match input {
            Input::Key(key) => screen.press(key),
            Input::Mouse(event) => screen.point(event, &spots),
            Input::Resized => Effect::None,
            Input::Seen(snapshot) => {
                let only = snapshot.targets.first().map(|target| target.name.clone());
                screen.accept(*snapshot);
                if let (true, Opens::TheOnlyTarget, Some(name)) = (is_first, opens, only) {
                    screen.open(&name);
                }
                is_first = false;
                Effect::None
            }
            Input::Refused(why) => {
                screen.message = Some(why);
                Effect::None
            }
            Input::Signal(signal) => {
                drop(terminal);
                emulate_default_handler(signal)?;
                return Ok(ExitCode::SUCCESS);
            }
            Input::Lost(why) => return Err(anyhow!("{why}")),
        };
        let wish = match effect {
            Effect::None => continue,
            Effect::Quit => return Ok(ExitCode::SUCCESS),
            Effect::Suspend => {
                give_back();
                // Returns when somebody lets us go on.
                raise(SIGTSTP)?;
                terminal
                    .take_again()
                    .context("the terminal can't be used")?;
                continue;
            }
            Effect::SetMouse(is_told) => {
                terminal
                    .set_mouse(is_told)
                    .context("the terminal can't be written to")?;
                continue;
            }
            Effect::Watch(name) => Wish::Watch(name),
            Effect::Unwatch(name) => Wish::Unwatch(name),
            Effect::SetIntervalMs(ms) => Wish::IntervalMs(ms),
            Effect::SetPaused(is_paused) => Wish::Paused(is_paused),
        };
        // The thread says itself when it is gone.
        let _ = wishes.send(wish);
    }
}

/// Whether a page is opened at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opens {
    List,
    TheOnlyTarget,
}

fn listen_to_keys(to: Sender<Input>) {
    thread::spawn(move || {
        let farewell = Farewell {
            to,
            why: "the terminal is gone",
        };
        while let Ok(event) = event::read() {
            let input = match event {
                // Some terminals report releases too.
                Event::Key(key) if key.kind != KeyEventKind::Release => Input::Key(key),
                Event::Resize(..) => Input::Resized,
                // Where it merely moves, nothing is drawn anew.
                Event::Mouse(mouse) if mouse.kind != MouseEventKind::Moved => Input::Mouse(mouse),
                _ => continue,
            };
            if farewell.to.send(input).is_err() {
                break;
            }
        }
    });
}

fn listen_to_signals(to: Sender<Input>) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGHUP, SIGINT, SIGQUIT])?;
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let _ = to.send(Input::Signal(signal));
            thread::sleep(SIGNAL_PATIENCE);
            // The main thread is stuck in writing to a terminal that is stopped or gone.
            give_back();
            let _ = emulate_default_handler(signal);
        }
    });
    Ok(())
}

/// Looks once an interval; returns where wishes go.
fn look_around(mut overview: Overview, interval_ms: u64, to: Sender<Input>) -> Sender<Wish> {
    let (send, wishes) = channel();
    thread::spawn(move || {
        let farewell = Farewell {
            to,
            why: "the thread that watches has ended",
        };
        let to = &farewell.to;
        let mut interval = Duration::from_millis(interval_ms);
        let mut is_paused = false;
        let mut is_over = false;
        let mut due = Instant::now();
        loop {
            if !is_paused && !is_over && Instant::now() >= due {
                // Of who has ended, one more look tells that.
                is_over = overview.is_over();
                let snapshot = Box::new(overview.look());
                // A look that took longer than the interval is not made up for.
                due = (due + interval).max(Instant::now());
                if to.send(Input::Seen(snapshot)).is_err() {
                    return;
                }
            }
            let wish = match is_paused || is_over {
                true => wishes.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => wishes.recv_timeout(due.saturating_duration_since(Instant::now())),
            };
            match wish {
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
                Ok(Wish::Watch(name)) => {
                    if let Err(error) = overview.watch(&name) {
                        let _ = to.send(Input::Refused(error.to_string()));
                    }
                    // Who asked wants to see something.
                    due = Instant::now();
                }
                Ok(Wish::Unwatch(name)) => {
                    overview.unwatch(&name);
                    due = Instant::now();
                }
                Ok(Wish::IntervalMs(ms)) => {
                    interval = Duration::from_millis(ms);
                    due = due.min(Instant::now() + interval);
                }
                Ok(Wish::Paused(paused)) => {
                    is_paused = paused;
                    due = Instant::now();
                }
            }
        }
    });
    send
}
