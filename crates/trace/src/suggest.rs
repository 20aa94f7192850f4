//! The name that was probably meant.
//!
//! **Owns** how alike two names have to be. **Does not own** the names.

/// Names less alike than this have nothing to do with each other; clap suggests by the same figure.
const LIKENESS_MIN: f64 = 0.7;

/// The known name most like `given`, if one is like it.
pub fn nearest<'n>(given: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let given = given.to_lowercase();
    let likeness = |name: &str| strsim::jaro(&given, name);
    let alike = names.into_iter().map(|name| (likeness(name), name));
    let alike = alike.filter(|(likeness, _)| *likeness > LIKENESS_MIN);
    let best = alike.reduce(|best, next| if next.0 > best.0 { next } else { best });
    best.map(|(_, name)| name)
}

/// `did you mean NAME? ` for the text of an error, or nothing where no name is like `given`.
pub fn did_you_mean<'n>(given: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    nearest(given, names).map_or_else(String::new, |name| format!("did you mean {name}? "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 5] = ["mglru", "two-list", "lru", "fifo", "s3-fifo"];

    #[test]
    fn a_slip_is_told_from_another_word() {
        for (given, meant) in [
            ("s3fifo", Some("s3-fifo")),
            ("LRU", Some("lru")),
            ("twolist", Some("two-list")),
            ("mgrlu", Some("mglru")),
            ("arc", None),
            ("", None),
        ] {
            assert_eq!(nearest(given, NAMES), meant, "{given}");
        }
        assert_eq!(did_you_mean("s3fifo", NAMES), "did you mean s3-fifo? ");
        assert_eq!(did_you_mean("tomato", NAMES), "");
    }
}
