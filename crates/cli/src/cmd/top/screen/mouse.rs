//! What a mouse does: the wheel moves the cursor, a click chooses a row or an order.
//!
//! **Owns** what lies where on a drawn screen, and what a click there means. **Does not own** where things are drawn
//! (`draw`).
//!
//! **Invariants** I1: a click means what was drawn last, and does nothing that a key does not do, too.

use ratatui::crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::{Position, Rect};

use super::{Effect, Order, Page, Screen};

/// What can be clicked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spot {
    /// A row of the page, counted from the first there is, not from the first that is shown.
    Row(usize),
    /// The title of a column that rows can be ordered by.
    Title(Order),
}

/// What lies where on a drawn screen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spots(Vec<(Rect, Spot)>);

impl Spots {
    /// Notes what was drawn there.
    pub(crate) fn add(&mut self, area: Rect, spot: Spot) {
        self.0.push((area, spot));
    }

    fn at(&self, place: Position) -> Option<Spot> {
        let found = self.0.iter().find(|(area, _)| area.contains(place));
        found.map(|(_, spot)| *spot)
    }
}

impl Screen {
    /// What the wheel or a click does on a screen that was drawn like that.
    pub(crate) fn point(&mut self, event: MouseEvent, spots: &Spots) -> Effect {
        let rows = match event.kind {
            MouseEventKind::ScrollUp => -1,
            MouseEventKind::ScrollDown => 1,
            MouseEventKind::Down(MouseButton::Left) => 0,
            _ => return Effect::None,
        };
        self.message = None;
        if self.is_help_shown {
            self.is_help_shown = rows != 0;
            self.scroll_help(rows);
            return Effect::None;
        }
        if rows != 0 {
            self.go(rows);
            return Effect::None;
        }
        match spots.at(Position::new(event.column, event.row)) {
            Some(Spot::Row(row)) => return self.choose(row),
            Some(Spot::Title(order)) => match self.page {
                Page::List => self.order = order,
                Page::Detail(_) => self.mapping_order = order,
            },
            None => {}
        }
        Effect::None
    }

    /// Puts the cursor on a row; a target that it is on already is opened.
    fn choose(&mut self, row: usize) -> Effect {
        if self.page != Page::List {
            self.part_row = row;
            return Effect::None;
        }
        let rows = self.rows();
        if row == self.row_in(&rows) {
            return self.enter();
        }
        self.selected = rows.get(row).map(|target| target.name.clone());
        Effect::None
    }
}
