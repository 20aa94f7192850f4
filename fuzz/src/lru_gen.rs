//! The kernel's text and commands, as anybody may write them.
//!
//! **Owns** the property: any text is either read or refused with its line; what was read is written
//! and read back the same; commands end at the first that is wrong. **Does not own** the grammar.

use strata_lru::lru_gen::{commands, format_plain, parse_plain, section_of};

/// Reads `data` as commands and as the plain text.
pub fn read(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let all: Vec<_> = commands(text).collect();
    assert!(!all.is_empty(), "nothing at all is an error too");
    let nr_wrong = all.iter().filter(|command| command.is_err()).count();
    assert!(nr_wrong == 0 || (nr_wrong == 1 && all.last().is_some_and(Result::is_err)));

    if let Some(section) = section_of(text, "/a") {
        assert!(text.contains(section) && section.starts_with("memcg "));
        assert!(section.matches("\nmemcg ").count() == 0);
    }
    match parse_plain(text) {
        Err(error) => assert_eq!(
            text.split('\n').nth(error.line_number - 1),
            Some(&*error.line)
        ),
        Ok(views) => {
            let written = format_plain(&views);
            let again = parse_plain(&written).expect("our own text can be read");
            assert_eq!(format_plain(&again), written);
        }
    }
}
