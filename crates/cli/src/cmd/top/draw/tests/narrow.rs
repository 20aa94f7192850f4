//! What is told on the narrowest terminals, and the help there and elsewhere.

use super::*;
use crate::cmd::top::screen::HELP_LINES_MAX;

#[test]
fn the_help_fits() {
    let mut screen = screen();
    press_all(&mut screen, "?");
    check("help-80x24", &screen, (80, 24), Charset::Unicode);
    let shown = shown(&screen);
    for line in help::lines(78) {
        assert!(shown.contains(line.trim_end()), "{line}");
    }
}

#[test]
fn all_of_the_help_can_be_read_on_the_narrowest_terminal() {
    let mut screen = screen();
    press_all(&mut screen, "h");
    let (size, nr_lines) = ((COLUMNS_MIN, 15), help::lines(38).len());
    assert!(nr_lines <= HELP_LINES_MAX, "{nr_lines}");
    let mut seen = String::new();
    for _ in 0..nr_lines {
        seen += &(lines(&screen, size, plain()).join("\n") + "\n");
        assert_eq!(press(&mut screen, KeyCode::Down), Effect::None);
    }
    for line in help::lines(38) {
        assert!(line.len() <= 38 && seen.contains(&line), "{line}");
    }
    assert!(screen.is_help_shown);
    press_all(&mut screen, " ");
    assert!(
        !screen.is_help_shown && !screen.is_paused,
        "the key ends the help and does nothing else"
    );
}

#[test]
fn a_narrow_terminal_keeps_names_sizes_help_and_the_way_out() {
    let mut screen = screen();
    check("list-40x15", &screen, (40, 15), Charset::Unicode);
    screen.open(&redis().name);
    check("detail-40x15", &screen, (40, 15), Charset::Unicode);
    for page in [&screen, &Screen::new(1000)] {
        let shown = lines(page, (COLUMNS_MIN, LINES_MIN), plain());
        assert!(shown[7].ends_with("h help  q quit"), "{shown:#?}");
    }
}

#[test]
fn what_went_wrong_is_told_whole_on_several_lines() {
    let mut screen = screen();
    let trouble = "process 7 can't be read: it belongs to user 1000 or has changed its privileges";
    screen.accept(Snapshot {
        troubles: vec![trouble.to_owned()],
        ..snapshot()
    });
    let shown = lines(&screen, (40, 15), plain());
    let told: Vec<&str> = shown[11..14].iter().map(|line| line.trim()).collect();
    assert!(told.join(" ").ends_with(trouble), "{shown:#?}");
}
