//! Who imports whom, file by file: no file leans on another in a circle, and a crate has few floors.
//!
//! Read from the sources: `use` and paths in code, re-exports followed to the file that has the item. Tests are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Floors that a crate may have: a file stands on the floor above the highest one that it imports. A number here is what was
/// reached, and may only be lowered.
const FLOORS_MAX: [(&str, usize); 8] = [
    ("lru", 13),
    ("control", 6),
    ("linux", 9),
    ("host", 8),
    ("trace", 10),
    ("sim", 17),
    ("py", 7),
    ("cli", 12),
];

/// A module of a crate, as its path below the crate.
type Module = Vec<String>;

/// The modules of one crate: their texts, and what each re-exports under which name.
struct Crate {
    texts: BTreeMap<Module, String>,
    exports: BTreeMap<(Module, String), Module>,
}

impl Crate {
    fn read(name: &str) -> Crate {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../{name}/src"));
        let mut texts = BTreeMap::new();
        let mut open: Vec<(PathBuf, Module)> = vec![(root.clone(), Vec::new())];
        while let Some((directory, module)) = open.pop() {
            for entry in fs::read_dir(&directory).expect("readable").flatten() {
                let path = entry.path();
                let name = entry.file_name().to_string_lossy().into_owned();
                let stem = name.trim_end_matches(".rs").to_owned();
                let below = [module.clone(), vec![stem.clone()]].concat();
                if path.is_dir() {
                    open.push((path, below));
                } else if name.ends_with(".rs") && !is_test(&stem) {
                    let is_root = ["lib", "main", "mod"].contains(&stem.as_str());
                    let of = if is_root { module.clone() } else { below };
                    texts.insert(of, code(&fs::read_to_string(&path).expect("UTF-8 text")));
                }
            }
        }
        texts.retain(|module, _| !module.iter().any(|name| is_test(name)));
        let mut of = Crate {
            texts,
            exports: BTreeMap::new(),
        };
        let modules: Vec<Module> = of.texts.keys().cloned().collect();
        for module in modules {
            for (path, name) in public_uses(&of.texts[&module]) {
                if let Some(path) = of.absolute(&module, &path) {
                    of.exports.insert((module.clone(), name), path);
                }
            }
        }
        of
    }

    /// A path as it stands in a file, from the root of the crate; `None` if it leads elsewhere.
    fn absolute(&self, module: &Module, path: &[String]) -> Option<Module> {
        let mut at = module.clone();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => (at, rest) = (Vec::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|name| name == "super") {
                    at.pop()?;
                    rest = &rest[1..];
                }
            }
            child => {
                let below = [module.clone(), vec![child.to_owned()]].concat();
                self.texts.get(&below)?;
            }
        }
        at.extend(rest.iter().cloned());
        Some(at)
    }

    /// The module that has what a path from the root of the crate names.
    fn module_of(&self, path: &Module) -> Module {
        let known = (0..=path.len()).rev().map(|len| &path[..len]);
        let mut known = known.filter(|of| self.texts.contains_key(*of));
        let module = known.next().expect("the root is known").to_vec();
        let item = path.get(module.len()).cloned();
        let export = item.and_then(|item| self.exports.get(&(module.clone(), item)));
        match export {
            Some(further) if further != path => self.module_of(further),
            _ => module,
        }
    }

    /// Whom each module imports.
    fn imports(&self) -> BTreeMap<Module, BTreeSet<Module>> {
        let of = |(module, text): (&Module, &String)| {
            let uses = uses(text).into_iter().map(|(path, _)| path);
            let paths = uses.chain(inline_paths(text));
            let found = paths.filter_map(|path| self.absolute(module, &path));
            let mut found: BTreeSet<Module> = found.map(|path| self.module_of(&path)).collect();
            found.remove(module);
            (module.clone(), found)
        };
        self.texts.iter().map(of).collect()
    }
}

fn is_test(name: &str) -> bool {
    name == "tests" || name.ends_with("_tests") || name == "replay"
}

/// A source without comments and without its tests.
fn code(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let lines = text[..end].lines();
    let lines = lines.map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// Every `use` of a file but re-exports, which are followed to whoever has the item: the path, and the name under which
/// it is known.
fn uses(text: &str) -> Vec<(Vec<String>, String)> {
    statements(text, &["use "])
}

fn public_uses(text: &str) -> Vec<(Vec<String>, String)> {
    statements(text, &["pub use ", "pub(crate) use ", "pub(super) use "])
}

/// Statements that begin so, as paths and the names under which what they lead to is known.
fn statements(text: &str, starts: &[&str]) -> Vec<(Vec<String>, String)> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let line = line.trim_start();
        let Some(rest) = starts.iter().find_map(|start| line.strip_prefix(start)) else {
            continue;
        };
        let mut statement = rest.to_owned();
        while !statement.contains(';') {
            let Some(more) = lines.next() else { break };
            statement += more.trim();
        }
        let tree = statement.split(';').next().unwrap_or_default();
        expand(&[], tree, &mut found);
    }
    found
}

/// `a::{b, c as d}` as paths and names.
fn expand(before: &[String], tree: &str, found: &mut Vec<(Vec<String>, String)>) {
    let tree = tree.trim();
    if tree.is_empty() {
        return;
    }
    if let Some(list) = tree.strip_prefix('{') {
        let list = list.strip_suffix('}').unwrap_or(list);
        let (mut depth, mut start) = (0, 0);
        for (at, sign) in list.char_indices() {
            match sign {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    expand(before, &list[start..at], found);
                    start = at + 1;
                }
                _ => {}
            }
        }
        expand(before, &list[start..], found);
        return;
    }
    match tree.split_once("::") {
        Some((first, rest)) if !first.contains(['{', ' ']) => {
            expand(&[before, &[first.to_owned()]].concat(), rest, found);
        }
        _ => {
            let (item, name) = tree.split_once(" as ").unwrap_or((tree, tree));
            let path = match item {
                "self" => before.to_vec(),
                item => [before, &[item.to_owned()]].concat(),
            };
            let name = match name {
                "self" => before.last().cloned().unwrap_or_default(),
                name => name.to_owned(),
            };
            found.push((path, name));
        }
    }
}

/// Paths in code that begin at the crate or above; those of `use`, whose lists would be cut off at their brace, are read
/// by [`statements`].
fn inline_paths(text: &str) -> Vec<Vec<String>> {
    let mut is_use = false;
    let is_code = |line: &&str| {
        let line = line.trim_start();
        let begins = ["use ", "pub use ", "pub(crate) use ", "pub(super) use "];
        let was_use = is_use || begins.iter().any(|start| line.starts_with(start));
        is_use = was_use && !line.contains(';');
        !was_use
    };
    let text: String = text.split_inclusive('\n').filter(is_code).collect();
    let is_part = |sign: char| sign.is_alphanumeric() || sign == '_' || sign == ':';
    let words = text.split(|sign| !is_part(sign));
    let paths = words.filter(|word| word.starts_with("crate::") || word.starts_with("super::"));
    let parts = paths.map(|path| path.split("::").map(str::to_owned));
    parts
        .map(|parts| parts.filter(|part| !part.is_empty()).collect())
        .collect()
}

/// Whether there is a way along imports.
fn leads_to(imports: &BTreeMap<Module, BTreeSet<Module>>, from: &Module, to: &Module) -> bool {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(module) = open.pop() {
        for next in imports.get(module).into_iter().flatten() {
            if next == to {
                return true;
            }
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    false
}

fn name(module: &Module) -> String {
    match module.is_empty() {
        true => "lib".to_owned(),
        false => module.join("/"),
    }
}

/// Floors from the ground up; those that import each other stand on one.
fn floors(imports: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<Vec<String>> {
    let mut left: BTreeSet<&Module> = imports.keys().collect();
    let mut floors = Vec::new();
    while !left.is_empty() {
        let stands = |module: &&&Module| {
            imports[**module]
                .iter()
                .all(|below| !left.contains(below) || leads_to(imports, below, module))
        };
        let floor: Vec<&Module> = left.iter().filter(stands).copied().collect();
        assert!(!floor.is_empty(), "nothing stands on what is there");
        floors.push(floor.iter().map(|module| name(module)).collect());
        left.retain(|module| !floor.contains(module));
    }
    floors
}

#[test]
fn no_two_files_import_each_other_and_a_crate_has_few_floors() {
    let mut found = Vec::new();
    for (crate_name, floors_max) in FLOORS_MAX {
        let imports = Crate::read(crate_name).imports();
        for (module, below) in &imports {
            let circles = below
                .iter()
                .filter(|other| leads_to(&imports, other, module));
            let told = circles.map(|other| (name(module), name(other)));
            found.extend(
                told.map(|(one, other)| format!("{crate_name}: {one} -> {other} -> .. -> it")),
            );
        }
        let nr_floors = floors(&imports).len();
        if nr_floors > floors_max {
            found.push(format!(
                "{crate_name}: {nr_floors} floors, not {floors_max}"
            ));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn no_strategy_of_the_control_loop_knows_another() {
    let imports = Crate::read("control").imports();
    let is_strategy = |module: &&Module| module.len() == 2 && module[0] == "strategy";
    for module in imports.keys().filter(is_strategy) {
        let others = imports[module].iter().filter(is_strategy);
        assert_eq!(others.count(), 0, "{module:?} knows another strategy");
    }
}
