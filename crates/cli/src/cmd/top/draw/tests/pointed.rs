//! What the mouse does: it is told in places of the screen, and means what was drawn there.

use ratatui::crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Rect;

use super::*;
use crate::cmd::top::screen::{Order, View};

const WHEEL_UP: MouseEventKind = MouseEventKind::ScrollUp;
const WHEEL_DOWN: MouseEventKind = MouseEventKind::ScrollDown;
const CLICK: MouseEventKind = MouseEventKind::Down(MouseButton::Left);

/// Points at a place of a screen of this size, as it is drawn now.
pub(super) fn point(
    screen: &mut Screen,
    size: (u16, u16),
    kind: MouseEventKind,
    at: (u16, u16),
) -> Effect {
    let mut buffer = Buffer::empty(Rect::new(0, 0, size.0, size.1));
    let spots = draw(&mut buffer, screen, plain());
    let event = MouseEvent {
        kind,
        column: at.0,
        row: at.1,
        modifiers: KeyModifiers::NONE,
    };
    screen.point(event, &spots)
}

/// Clicks on the first place where this stands.
#[track_caller]
fn click(screen: &mut Screen, text: &str) -> Effect {
    let shown = lines(screen, (80, 24), plain());
    let found = shown.iter().zip(0..).find_map(|(line, y)| {
        let at = line.find(text)?;
        Some((line[..at].chars().count() as u16, y))
    });
    let at = found.unwrap_or_else(|| panic!("no {text}:\n{}", shown.join("\n")));
    point(screen, (80, 24), CLICK, at)
}

#[test]
fn the_wheel_moves_the_cursor_and_stops_at_the_ends() {
    let mut screen = screen();
    for (kind, row) in [
        (WHEEL_DOWN, 1),
        (WHEEL_DOWN, 2),
        (WHEEL_UP, 1),
        (WHEEL_UP, 0),
        (WHEEL_UP, 0),
    ] {
        assert_eq!(point(&mut screen, (80, 24), kind, (5, 5)), Effect::None);
        assert_eq!(screen.row(), row);
    }
    for _ in 0..20 {
        point(&mut screen, (80, 24), WHEEL_DOWN, (0, 0));
    }
    assert_eq!(screen.row(), screen.rows().len() - 1);
    // Where it moves or another button is pressed nothing is meant.
    for kind in [
        MouseEventKind::Moved,
        MouseEventKind::Down(MouseButton::Right),
        MouseEventKind::Up(MouseButton::Left),
    ] {
        point(&mut screen, (80, 24), kind, (5, 5));
        assert_eq!(screen.row(), screen.rows().len() - 1);
    }
}

#[test]
fn a_click_selects_a_row_and_the_next_one_opens_it() {
    let mut screen = screen();
    assert_eq!(click(&mut screen, "session-3"), Effect::None);
    assert_eq!(
        screen.rows()[screen.row()].name,
        "/user.slice/user-1000.slice/session-3.scope"
    );
    assert_eq!(screen.page, Page::List);
    // A target has two lines where its ages are known.
    point(&mut screen, (80, 24), CLICK, (79, 7));
    assert_eq!(screen.rows()[screen.row()].name, postgres().name);
    assert_eq!(click(&mut screen, "session-3"), Effect::None);
    let watch = Effect::Watch("/user.slice/user-1000.slice/session-3.scope".to_owned());
    assert_eq!(click(&mut screen, "session-3"), watch);
    assert!(matches!(&screen.page, Page::Detail(name) if name.contains("session-3")));
}

#[test]
fn a_click_below_the_rows_or_on_the_keys_is_none() {
    let mut screen = screen();
    for y in [0, 1, 2, 16, 23] {
        assert_eq!(point(&mut screen, (80, 24), CLICK, (3, y)), Effect::None);
        assert_eq!((screen.row(), &screen.page), (0, &Page::List));
    }
}

#[test]
fn a_row_of_a_list_that_was_scrolled_is_the_one_that_is_shown_there() {
    let mut screen = screen();
    press(&mut screen, KeyCode::End);
    // Room for three lines of targets.
    let shown = lines(&screen, (80, 8), plain());
    assert!(shown[5].contains("/init.scope"), "{shown:#?}");
    point(&mut screen, (80, 8), CLICK, (2, 5));
    assert_eq!(screen.rows()[screen.row()].name, "/init.scope");
}

#[test]
fn a_click_on_a_title_orders_by_its_column() {
    let mut list = screen();
    for (title, order) in [
        ("SIZE", Order::Resident),
        ("RFLT", Order::Refaults),
        ("SWAP", Order::Swap),
        (" 10s", Order::Used),
        ("TARGET", Order::Name),
        ("8s", Order::Idle),
    ] {
        assert_eq!(click(&mut list, title), Effect::None);
        assert_eq!(list.order, order, "{title}");
    }
    click(&mut list, "BUDGET");
    assert_eq!(list.order, Order::Idle, "no order goes by it");
    press_all(&mut list, "v");
    assert_eq!(list.view(), View::Kinds);
    click(&mut list, "SIZE");
    assert_eq!(list.order, Order::Resident);

    let mut detail = screen();
    detail.open(&redis().name);
    for (title, order) in [
        ("IDLE", Order::Idle),
        ("MAPPING", Order::Name),
        ("SIZE", Order::Resident),
    ] {
        click(&mut detail, title);
        assert_eq!(detail.mapping_order, order, "{title}");
    }
    assert_eq!(detail.order, Order::Idle, "the list keeps its own");
    click(&mut detail, "[stack]");
    let row = detail.part_row();
    assert_eq!(
        crate::cmd::top::screen::mapping_name(detail.mappings()[row]),
        "[stack]"
    );
}

#[test]
fn in_the_help_the_wheel_scrolls_and_a_click_goes_back() {
    let mut screen = screen();
    press_all(&mut screen, "?");
    let before = lines(&screen, (40, 15), plain());
    point(&mut screen, (40, 15), WHEEL_DOWN, (5, 5));
    let after = lines(&screen, (40, 15), plain());
    assert_eq!(before[2], after[1]);
    assert_eq!(screen.row(), 0);
    point(&mut screen, (40, 15), CLICK, (5, 5));
    assert!(!screen.is_help_shown && screen.page == Page::List);
}
