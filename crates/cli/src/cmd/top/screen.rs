//! What is on the screen, apart from how it is drawn: which page, which row, which order, what was
//! seen so far; and what a key does to all that.
//!
//! ```text
//!            Enter                      h ?
//!   List ------------> Detail     any -------> help over it -----> any key back, but
//!        <------------                                             for up and down
//!            Esc
//! ```
//!
//! **Owns** the state between two drawings; `mouse` what a mouse does to it. **Does not own** drawing (`draw`), the terminal (`live`),
//! or any figure (`strata_host::observe::overview`).
//!
//! **Invariants**
//! - I1: a key changes only this; what concerns the outside is returned as an [`Effect`].
//! - I2: the selection is a name, not a row: it stays with its target when rows move.
//! - I3: history is bounded: [`HISTORY_MAX`] points a target, and only of targets that are there.

mod mouse;

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use strata_host::observe::files::FileRow;
use strata_host::observe::overview::{MappingView, Snapshot, TargetKind, TargetView, WINDOWS_S};
use strata_host::observe::programs::Label;

pub(super) use mouse::{Spot, Spots};

/// Points of history kept of each target.
pub(super) const HISTORY_MAX: usize = 512;
/// Where the middle window of the working set stands, the one that history and orders go by.
pub(super) const USED: usize = WINDOWS_S.len() / 2;
/// Times between two walks that `+` and `-` go through, milliseconds.
const INTERVALS_MS: [u64; 10] = [
    100, 250, 500, 1000, 2000, 5000, 10_000, 20_000, 30_000, 60_000,
];
/// Characters a filter may have.
const FILTER_CHARS_MAX: usize = 64;
/// Lines that the help has on the narrowest terminal, or a few more.
pub(super) const HELP_LINES_MAX: usize = 60;
/// Rows that a page key moves by.
const PAGE_ROWS: isize = 10;

/// Which page is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Page {
    /// All targets.
    #[default]
    List,
    /// One target, by name.
    Detail(String),
}

/// What the columns of the list tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// Memory by kind, from the kernel's counters.
    Kinds,
    /// When memory was last used, as walks found it.
    Ages,
}

impl View {
    fn other(self) -> View {
        match self {
            View::Kinds => View::Ages,
            View::Ages => View::Kinds,
        }
    }
}

/// What the rows of the page of one target are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Parts {
    /// Mappings of its processes.
    #[default]
    Mappings,
    /// Files that it is charged for.
    Files,
}

strata_lru::named! {
    /// By what rows are ordered, the most of it first.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(super) enum Order {
        #[default]
        Idle = "idle memory",
        Resident = "size",
        Used = "use",
        Refaults = "refaults",
        Swap = "swap",
        Name = "name",
    }
}

impl Order {
    const OF_MAPPINGS: [Order; 4] = [Order::Resident, Order::Idle, Order::Used, Order::Name];

    fn after(self, orders: &[Order]) -> Order {
        let at = orders.iter().position(|order| *order == self);
        let next = at.map_or(0, |at| (at + 1) % orders.len());
        orders[next]
    }
}

/// What a key asks of the outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    Quit,
    /// Give the terminal back and stop, as Ctrl-Z does.
    Suspend,
    Watch(String),
    Unwatch(String),
    SetIntervalMs(u64),
    SetPaused(bool),
    /// Whether the terminal tells of the mouse.
    SetMouse(bool),
}

/// A target at one look.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Point {
    pub(super) resident_bytes: Option<u64>,
    pub(super) used_bytes: Option<u64>,
    pub(super) refaults_per_s: Option<f64>,
}

/// The state.
#[derive(Debug, Default)]
pub(super) struct Screen {
    pub(super) page: Page,
    pub(super) is_help_shown: bool,
    /// The first line of the help that was scrolled to.
    pub(super) help_line: usize,
    pub(super) is_mouse_off: bool,
    pub(super) is_paused: bool,
    pub(super) interval_ms: u64,
    pub(super) order: Order,
    pub(super) mapping_order: Order,
    pub(super) parts: Parts,
    pub(super) filter: String,
    /// A filter is being typed.
    pub(super) is_typing: bool,
    /// Something that went wrong, until the next key.
    pub(super) message: Option<String>,
    pub(super) snapshot: Snapshot,
    /// The view that was asked for.
    chosen_view: Option<View>,
    history: BTreeMap<String, VecDeque<Point>>,
    /// The target the cursor is on; the first one where that is not there.
    selected: Option<String>,
    part_row: usize,
}

impl Screen {
    /// Begins with nothing seen. A target that is the only one is shown by itself.
    pub(super) fn new(interval_ms: u64) -> Screen {
        Screen {
            interval_ms,
            mapping_order: Order::Resident,
            ..Screen::default()
        }
    }

    /// Shows one target from the beginning.
    pub(super) fn open(&mut self, name: &str) {
        self.selected = Some(name.to_owned());
        self.page = Page::Detail(name.to_owned());
        self.part_row = 0;
    }

    /// Takes in what was seen.
    pub(super) fn accept(&mut self, snapshot: Snapshot) {
        let mut before = std::mem::take(&mut self.history);
        for target in &snapshot.targets {
            let mut points = before.remove(&target.name).unwrap_or_default();
            if !target.is_over {
                if points.len() >= HISTORY_MAX {
                    points.pop_front();
                }
                points.push_back(Point {
                    resident_bytes: target.resident_bytes,
                    used_bytes: used_bytes(target),
                    refaults_per_s: target.refaults_per_s,
                });
            }
            self.history.insert(target.name.clone(), points);
        }
        if let Some(trouble) = snapshot.troubles.last() {
            self.message = Some(trouble.clone());
        }
        self.snapshot = snapshot;
    }

    /// The view that was asked for; ages if any are known, kinds if none are.
    pub(super) fn view(&self) -> View {
        let are_ages_known = self.snapshot.targets.iter().any(|t| t.ages.is_some());
        self.chosen_view.unwrap_or(match are_ages_known {
            true => View::Ages,
            false => View::Kinds,
        })
    }

    /// What was seen of a target, oldest first.
    pub(super) fn history(&self, name: &str) -> impl DoubleEndedIterator<Item = &Point> {
        self.history.get(name).into_iter().flatten()
    }

    /// The targets of the list: those the filter lets through, in order.
    pub(super) fn rows(&self) -> Vec<&TargetView> {
        let targets = self.snapshot.targets.iter();
        let mut rows: Vec<&TargetView> = targets.filter(|t| self.passes_target(t)).collect();
        rows.sort_by(|a, b| {
            let key = |target| target_key(target, self.order);
            // Where idle memory is not known, the kernel's guess is the next best. It has none of programs, which
            // are as idle as they are large until somebody looks.
            let guess = |target: &TargetView| match (self.order, target.kind) {
                (Order::Idle, TargetKind::Cgroup) => Reverse(target.inactive_bytes),
                (Order::Idle, _) => Reverse(target.resident_bytes),
                _ => Reverse(None),
            };
            let size = |target: &TargetView| match self.order {
                Order::Name => Reverse(None),
                _ => Reverse(target.resident_bytes),
            };
            key(b)
                .total_cmp(&key(a))
                .then_with(|| guess(a).cmp(&guess(b)))
                .then_with(|| size(a).cmp(&size(b)))
                .then_with(|| a.name.cmp(&b.name))
        });
        rows
    }

    /// The row of the cursor.
    pub(super) fn row(&self) -> usize {
        self.row_in(&self.rows())
    }

    fn row_in(&self, rows: &[&TargetView]) -> usize {
        let is_selected = |target: &&TargetView| Some(&target.name) == self.selected.as_ref();
        rows.iter().position(is_selected).unwrap_or(0)
    }

    /// The target of the detail page, while it is there.
    pub(super) fn shown(&self) -> Option<&TargetView> {
        let Page::Detail(name) = &self.page else {
            return None;
        };
        self.snapshot.targets.iter().find(|t| t.name == *name)
    }

    /// The mappings of the detail page: those the filter lets through, in order.
    pub(super) fn mappings(&self) -> Vec<&MappingView> {
        let ages = self.shown().and_then(|target| target.ages.as_ref());
        let all = ages.into_iter().flat_map(|ages| &ages.mappings);
        let mut rows: Vec<&MappingView> = all.filter(|m| self.passes(mapping_name(m))).collect();
        match self.mapping_order {
            Order::Name => rows.sort_by_key(|mapping| mapping_name(mapping)),
            order => rows.sort_by_key(|mapping| Reverse(mapping_key(mapping, order))),
        }
        rows
    }

    /// The files of the detail page: those the filter lets through, most in memory first.
    pub(super) fn files(&self) -> Vec<&FileRow> {
        let files = self.shown().and_then(|target| target.files.as_ref());
        let all = files.into_iter().flat_map(|report| &report.files);
        all.filter(|file| self.passes(&file.path)).collect()
    }

    fn nr_parts(&self) -> usize {
        match self.parts {
            Parts::Mappings => self.mappings().len(),
            Parts::Files => self.files().len(),
        }
    }

    /// The row of the cursor among the mappings or files.
    pub(super) fn part_row(&self) -> usize {
        self.part_row.min(self.nr_parts().saturating_sub(1))
    }

    fn passes_target(&self, target: &TargetView) -> bool {
        let who = &target.who;
        let Label {
            unit,
            container,
            pod,
        } = &who.label;
        let names = [unit, container, pod, &who.command, &who.user];
        let mut names = names.into_iter().flatten();
        self.passes(&target.name) || names.any(|name| self.passes(name))
    }

    fn passes(&self, name: &str) -> bool {
        let contains = |name: &str, part: &str| name.to_lowercase().contains(&part.to_lowercase());
        self.filter.is_empty() || contains(name, &self.filter)
    }

    /// What a key does.
    pub(super) fn press(&mut self, key: KeyEvent) -> Effect {
        self.message = None;
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Effect::Quit,
                KeyCode::Char('z') => Effect::Suspend,
                _ => Effect::None,
            };
        }
        if self.is_typing {
            self.type_filter(key.code);
            return Effect::None;
        }
        if self.is_help_shown {
            match key.code {
                KeyCode::Char('q') | KeyCode::F(10) => return Effect::Quit,
                KeyCode::Up | KeyCode::Char('k') => self.scroll_help(-1),
                KeyCode::Down | KeyCode::Char('j') => self.scroll_help(1),
                KeyCode::PageUp => self.scroll_help(-PAGE_ROWS),
                KeyCode::PageDown => self.scroll_help(PAGE_ROWS),
                _ => self.is_help_shown = false,
            }
            return Effect::None;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::F(10) => return Effect::Quit,
            KeyCode::Char('h' | '?') | KeyCode::F(1) => {
                (self.is_help_shown, self.help_line) = (true, 0);
            }
            KeyCode::Char('m') => {
                self.is_mouse_off = !self.is_mouse_off;
                return Effect::SetMouse(!self.is_mouse_off);
            }
            KeyCode::Char('/' | 'F' | 'f') | KeyCode::F(4) => {
                self.is_typing = true;
                self.filter.clear();
            }
            KeyCode::Char('p' | ' ') => {
                self.is_paused = !self.is_paused;
                return Effect::SetPaused(self.is_paused);
            }
            KeyCode::Char('+') => return self.set_interval(Step::Longer),
            KeyCode::Char('-') => return self.set_interval(Step::Shorter),
            KeyCode::Char('s') | KeyCode::F(6) => self.next_order(),
            KeyCode::Char('v') => self.next_view(),
            KeyCode::Esc => self.go_back(),
            KeyCode::Up | KeyCode::Char('k') => self.go(-1),
            KeyCode::Down | KeyCode::Char('j') => self.go(1),
            KeyCode::PageUp => self.go(-PAGE_ROWS),
            KeyCode::PageDown => self.go(PAGE_ROWS),
            KeyCode::Home | KeyCode::Char('g') => self.go(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.go(isize::MAX),
            KeyCode::Enter => return self.enter(),
            KeyCode::Char('w') => return self.toggle_watch(),
            _ => {}
        }
        Effect::None
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(c) if self.filter.chars().count() < FILTER_CHARS_MAX => {
                self.filter.push(c);
            }
            _ => {}
        }
        self.part_row = 0;
    }

    fn set_interval(&mut self, step: Step) -> Effect {
        let next = match step {
            Step::Longer => INTERVALS_MS.iter().find(|ms| **ms > self.interval_ms),
            Step::Shorter => INTERVALS_MS.iter().rev().find(|ms| **ms < self.interval_ms),
        };
        let Some(next) = next else {
            return Effect::None;
        };
        self.interval_ms = *next;
        Effect::SetIntervalMs(*next)
    }

    fn next_view(&mut self) {
        match (&self.page, self.parts) {
            (Page::List, _) => self.chosen_view = Some(self.view().other()),
            (Page::Detail(_), Parts::Mappings) => self.parts = Parts::Files,
            (Page::Detail(_), Parts::Files) => self.parts = Parts::Mappings,
        }
        self.part_row = 0;
    }

    fn next_order(&mut self) {
        match self.page {
            Page::List => self.order = self.order.after(Order::ALL),
            Page::Detail(_) => self.mapping_order = self.mapping_order.after(&Order::OF_MAPPINGS),
        }
    }

    /// What was opened last is closed first.
    fn go_back(&mut self) {
        if !self.filter.is_empty() {
            self.filter.clear();
        } else {
            self.page = Page::List;
        }
        self.part_row = 0;
    }

    fn scroll_help(&mut self, lines: isize) {
        self.help_line = moved(self.help_line, lines, HELP_LINES_MAX);
    }

    fn go(&mut self, rows: isize) {
        match self.page {
            Page::List => {
                let targets = self.rows();
                let row = moved(self.row_in(&targets), rows, targets.len());
                self.selected = targets.get(row).map(|target| target.name.clone());
            }
            Page::Detail(_) => {
                self.part_row = moved(self.part_row(), rows, self.nr_parts());
            }
        }
    }

    fn enter(&mut self) -> Effect {
        if self.page != Page::List {
            return Effect::None;
        }
        let rows = self.rows();
        let Some(target) = rows.get(self.row_in(&rows)) else {
            return Effect::None;
        };
        let (name, is_watched) = (target.name.clone(), target.is_watched);
        self.filter.clear();
        self.open(&name);
        match is_watched {
            true => Effect::None,
            false => Effect::Watch(name),
        }
    }

    fn toggle_watch(&mut self) -> Effect {
        let rows = self.rows();
        let target = match self.page {
            Page::List => rows.get(self.row_in(&rows)).copied(),
            Page::Detail(_) => self.shown(),
        };
        match target {
            None => Effect::None,
            Some(target) if target.is_watched => Effect::Unwatch(target.name.clone()),
            Some(target) => Effect::Watch(target.name.clone()),
        }
    }
}

/// Which way the interval goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Longer,
    Shorter,
}

fn moved(row: usize, by: isize, nr_rows: usize) -> usize {
    row.saturating_add_signed(by).min(nr_rows.saturating_sub(1))
}

/// The working set of the middle window.
pub(super) fn used_bytes(target: &TargetView) -> Option<u64> {
    target.ages.as_ref()?.windows[USED].bytes()
}

/// What a mapping is called; anonymous memory has no name of its own.
pub(super) fn mapping_name(mapping: &MappingView) -> &str {
    match &*mapping.name {
        "" => "[anon]",
        name => name,
    }
}

/// What is not known comes after everything that is.
fn target_key(target: &TargetView, order: Order) -> f64 {
    let bytes = |bytes: Option<u64>| bytes.map_or(-1.0, |bytes| bytes as f64);
    match order {
        Order::Idle => bytes(target.ages.as_ref().and_then(|ages| ages.idle_bytes)),
        Order::Resident => bytes(target.resident_bytes),
        Order::Used => bytes(used_bytes(target)),
        Order::Refaults => target.refaults_per_s.unwrap_or(-1.0),
        Order::Swap => bytes(target.swap_bytes),
        Order::Name => 0.0,
    }
}

fn mapping_key(mapping: &MappingView, order: Order) -> Option<u64> {
    match order {
        Order::Idle => mapping.idle_bytes,
        Order::Used => mapping.windows[USED].bytes(),
        _ => Some(mapping.resident.total_bytes()),
    }
}
