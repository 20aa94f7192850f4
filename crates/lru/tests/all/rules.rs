//! `docs/develop/RULES.md` names only tests that exist, and says of every rule which holds it; a mutation is kept for each.

use std::{collections::BTreeSet, fs, path::Path};

fn functions_of(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("the sources are there") {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            functions_of(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a readable file");
            let tests = text.split("#[test]").skip(1);
            // Between the attribute and the function may stand other attributes.
            let names = tests.filter_map(|test| test.split_once("fn ")?.1.split_once('('));
            found.extend(names.map(|of| of.0.to_owned()));
        }
    }
}

#[test]
fn every_test_named_in_the_rules_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut tests = BTreeSet::new();
    for folder in ["lru/src", "lru/tests", "sim/src", "sim/tests"] {
        functions_of(&root.join("crates").join(folder), &mut tests);
    }
    let rules = fs::read_to_string(root.join("docs/develop/RULES.md")).unwrap();
    let mut nr_named = 0;
    for quoted in rules.split('`').skip(1).step_by(2) {
        // Test names are sentences; nothing else quoted has three underscores.
        if quoted.matches('_').count() >= 3
            && quoted.chars().all(|c| c.is_alphanumeric() || c == '_')
        {
            assert!(
                tests.contains(quoted),
                "docs/develop/RULES.md names {quoted}, which is no test"
            );
            nr_named += 1;
        }
    }
    assert!(nr_named > 60, "only {nr_named} tests named");
}

#[test]
fn every_rule_names_a_test_or_says_why_not() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let rules = fs::read_to_string(root.join("docs/develop/RULES.md")).unwrap();
    let rows = rules.lines().filter(|line| line.starts_with('|'));
    for row in rows.filter(|row| !row.starts_with("|---") && !row.starts_with("| section")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        assert_eq!(cells.len(), 3, "{row}");
        let head = format!("\n## {} ", cells[0].trim());
        let mutation = include_str!("mutations.txt").split_once(&head);
        let mutation = mutation.unwrap_or_else(|| panic!("no mutation of {row}")).1;
        let (place, lines) = mutation.split_once('\n').unwrap();
        let (file, test) = place.split_once(' ').unwrap();
        assert!(cells[2].contains(&format!("`{test}`")), "{head}");
        let before: Vec<&str> = lines.lines().map_while(|of| of.strip_prefix('-')).collect();
        let source = fs::read_to_string(root.join(file)).unwrap();
        assert_eq!(source.matches(&before.join("\n")).count(), 1, "{head}");
        assert!(
            cells[2].trim().starts_with('`') || cells[2].trim().starts_with("not here: "),
            "{row}"
        );
    }
}
