//! The help on terminals of all sizes.

use super::*;
use crate::cmd::top::screen::HELP_LINES_MAX;

#[test]
fn the_help_fits() {
    let mut screen = screen();
    press_all(&mut screen, "?");
    check("help-80x24", &screen, (80, 24), Charset::Unicode);
    let shown = lines(&screen, (80, 24), plain()).join("\n");
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
