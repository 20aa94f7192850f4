//! The terminal, taken and given back.
//!
//! **Owns** raw mode, the other screen, the cursor and the mouse, and that all four are put back whatever
//! happens: at the end, on an error, in a panic of any thread, when a signal ends Strata. **Does not
//! own** what is drawn.
//!
//! **Invariants** I1: it is given back once, and before anything is said on stderr.

use std::io::{self, stdout};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

/// Whether the terminal is ours at the moment. It belongs to the process, as the terminal does.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal while it is ours; dropping gives it back.
#[derive(Debug)]
pub(super) struct Taken {
    /// What is drawn on.
    pub(super) screen: Terminal<CrosstermBackend<io::Stdout>>,
    /// Whether the terminal sends what the mouse does.
    has_mouse: bool,
}

impl Taken {
    /// Takes it, and has panics give it back before they say anything.
    ///
    /// # Errors
    /// Those of the terminal; then it is as it was.
    pub(super) fn take() -> io::Result<Taken> {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            give_back();
            before(info);
        }));
        enter(true)?;
        match Terminal::new(CrosstermBackend::new(stdout())) {
            Ok(screen) => Ok(Taken {
                screen,
                has_mouse: true,
            }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }

    /// Takes it again after it was given back, and draws all of it anew.
    ///
    /// # Errors
    /// Those of the terminal.
    pub(super) fn take_again(&mut self) -> io::Result<()> {
        enter(self.has_mouse)?;
        self.screen.clear()
    }

    /// Has it tell of the mouse, or lets it select text.
    ///
    /// # Errors
    /// Those of the terminal.
    pub(super) fn set_mouse(&mut self, is_told: bool) -> io::Result<()> {
        self.has_mouse = is_told;
        match is_told {
            true => execute!(stdout(), EnableMouseCapture),
            false => execute!(stdout(), DisableMouseCapture),
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        give_back();
    }
}

fn enter(has_mouse: bool) -> io::Result<()> {
    IS_TAKEN.store(true, Ordering::SeqCst);
    let entered = enable_raw_mode().and_then(|()| {
        execute!(stdout(), EnterAlternateScreen)?;
        match has_mouse {
            true => execute!(stdout(), EnableMouseCapture),
            false => Ok(()),
        }
    });
    if entered.is_err() {
        give_back();
    }
    entered
}

/// Gives it back if it is ours. What fails here can't be helped: the terminal itself is gone.
pub(super) fn give_back() {
    if IS_TAKEN.swap(false, Ordering::SeqCst) {
        // The mode first: it alone makes a shell unusable, and setting it never waits for output.
        let _ = disable_raw_mode();
        let _ = execute!(stdout(), DisableMouseCapture, LeaveAlternateScreen, Show);
    }
}
