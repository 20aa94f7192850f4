//! The wrapper passes everything on.

use std::collections::BTreeSet;

/// Names of the functions of the first block that begins with `opening` at the line's start.
fn functions<'a>(text: &'a str, opening: &str) -> BTreeSet<&'a str> {
    let block = text.split(opening).nth(1).expect("the block is there");
    let block = block.split("\n}\n").next().expect("a block ends");
    let lines = block
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("fn "));
    lines
        .filter_map(|line| line.split(['(', '<']).next())
        .collect()
}

#[test]
fn every_call_of_a_policy_is_passed_on() {
    let mut asked = functions(include_str!("../../policy.rs"), "\npub trait Policy: ");
    assert!(asked.remove("add_group"), "it is a child of the root");
    let passed = functions(
        include_str!("../forward.rs"),
        "\nimpl<P: Movable, const PAGE_CACHE: bool> Policy for ",
    );
    assert!(asked.len() > 15, "{asked:?}");
    assert_eq!(asked, passed);
}
