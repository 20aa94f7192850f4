//! The direction of dependencies: the engine knows nobody, the host knows the engine, the binary
//! knows both. Held against what cargo resolves, not against what the manifests seem to say.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// A crate of the workspace, and the other crates of the workspace it may depend on.
const LAYERS: [(&str, &[&str]); 7] = [
    ("strata-lru", &[]),
    ("strata-trace", &["strata-lru"]),
    (
        "strata-sim",
        &["strata-control", "strata-lru", "strata-trace"],
    ),
    ("strata-control", &["strata-lru"]),
    ("strata-linux", &["strata-lru"]),
    (
        "strata-host",
        &[
            "strata-control",
            "strata-linux",
            "strata-lru",
            "strata-trace",
        ],
    ),
    (
        "strata",
        &[
            "strata-host",
            "strata-linux",
            "strata-lru",
            "strata-sim",
            "strata-trace",
        ],
    ),
];

/// What the wheel for Python, which is outside the workspace, may use of it: nothing that looks at the machine.
const WHEEL_MAY_USE: [&str; 4] = ["control", "lru", "sim", "trace"];

/// What the engine may use besides the standard library, build-time macros included: `serde` where somebody asks for it.
const ENGINE_MAY_USE: [&str; 4] = ["serde", "serde_core", "strata-lru", "thiserror"];

/// Normal dependencies (not for tests, not for build scripts) by crate, and the members' names.
struct Graph {
    members: BTreeSet<String>,
    edges: BTreeMap<String, BTreeSet<String>>,
}

fn graph() -> Graph {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--locked"])
        // Only what is built here has been downloaded.
        .args([
            "--filter-platform",
            "x86_64-unknown-linux-gnu",
            "--manifest-path",
        ])
        .arg(manifest)
        .output()
        .expect("cargo can be run");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let all: Value = serde_json::from_slice(&output.stdout).expect("metadata is JSON");
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();

    let names: BTreeMap<String, String> = list(&all["packages"])
        .iter()
        .map(|p| (text(&p["id"]), text(&p["name"])))
        .collect();
    let name = |id: &Value| names[id.as_str().expect("id")].clone();
    let is_normal = |dependency: &Value| {
        list(&dependency["dep_kinds"])
            .iter()
            .any(|kind| kind["kind"].is_null())
    };
    let members = list(&all["workspace_members"]).iter().map(name).collect();
    let edges = list(&all["resolve"]["nodes"])
        .iter()
        .map(|node| {
            let used = list(&node["deps"]);
            (
                name(&node["id"]),
                used.iter()
                    .filter(|d| is_normal(d))
                    .map(|d| name(&d["pkg"]))
                    .collect(),
            )
        })
        .collect();
    Graph { members, edges }
}

#[test]
fn every_crate_depends_only_on_layers_below_it() {
    let graph = graph();
    let known: BTreeSet<String> = LAYERS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(
        graph.members, known,
        "a new crate needs its place in LAYERS"
    );
    for (name, below) in LAYERS {
        let used = graph.edges[name].intersection(&graph.members);
        let wrong: Vec<&String> = used
            .filter(|used| !below.contains(&used.as_str()))
            .collect();
        assert!(wrong.is_empty(), "{name} must not depend on {wrong:?}");
    }
}

#[test]
fn the_wheel_uses_only_crates_that_know_no_operating_system() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../py/Cargo.toml");
    let text = std::fs::read_to_string(manifest).expect("its manifest");
    let paths = text
        .lines()
        .filter_map(|line| line.split_once("path = \"../"));
    let used: Vec<&str> = paths.filter_map(|(_, of)| of.split('"').next()).collect();
    assert_eq!(used, WHEEL_MAY_USE);
    let version = format!("\nversion = \"{}\"\n", env!("CARGO_PKG_VERSION"));
    assert!(text.contains(&version), "the wheel has another version");
}

#[test]
fn the_engine_can_be_linked_without_any_operating_system_crate() {
    let graph = graph();
    let mut reached = BTreeSet::from(["strata-lru".to_owned()]);
    let mut open = vec!["strata-lru".to_owned()];
    while let Some(name) = open.pop() {
        for used in &graph.edges[&name] {
            // What a derive macro is made of runs in the compiler, not in the engine.
            let is_macro = used.ends_with("-impl") || used.ends_with("_derive");
            if !is_macro && reached.insert(used.clone()) {
                open.push(used.clone());
            }
        }
    }
    let allowed = ENGINE_MAY_USE.map(str::to_owned).into_iter().collect();
    let extra: Vec<&String> = reached.difference(&allowed).collect();
    assert!(extra.is_empty(), "the engine pulls in {extra:?}");
}
