//! Text from outside, made safe to print: names of processes, files and groups, which anybody may choose.
//!
//! A name may hold escape sequences, which a terminal obeys, and line breaks, which look like lines of
//! ours. Everything that is not to be seen is shown as `?`.
//!
//! **Owns** which characters those are. **Does not own** where text comes in (`process`, `cgroup`) or goes
//! out (the binary's `print`, which lets line breaks through and nothing else).

use std::borrow::Cow;

/// A name or a line: without any control character.
pub fn line(text: &str) -> Cow<'_, str> {
    replace(text, is_unseen)
}

/// Lines of ours with names in them: line breaks and tabulators stay.
pub fn lines(text: &str) -> Cow<'_, str> {
    replace(text, |c| !matches!(c, '\n' | '\t') && is_unseen(c))
}

/// Control characters, and those that break lines or turn the direction of writing.
fn is_unseen(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn replace(text: &str, is_unwanted: impl Fn(char) -> bool) -> Cow<'_, str> {
    match text.contains(&is_unwanted) {
        true => Cow::Owned(text.replace(is_unwanted, "?")),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_a_terminal_would_obey_is_left() {
        let name = "ev\u{1b}[31mil\nx\r\u{9b}2J\u{202e}\u{7f}";
        assert_eq!(line(name), "ev?[31mil?x??2J??");
        assert_eq!(lines(name), "ev?[31mil\nx??2J??");
    }

    #[test]
    fn ordinary_names_stay_as_they_are() {
        for name in [
            "postgres: writer",
            "/a b\\012c (deleted)",
            "\u{fc}ber \u{4e2d}",
        ] {
            assert!(matches!(line(name), Cow::Borrowed(same) if same == name));
        }
    }
}
