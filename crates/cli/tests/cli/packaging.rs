//! What is packaged beside the binary: the unit of `strata guard`, its rules, alerts; and the packages themselves (`long_*`).

use crate::support::prelude::*;

/// The unit's exposure as `systemd-analyze security` counts it, in tenths: 100 is a service without any sandbox.
const EXPOSURE_MAX: &str = "--threshold=30";

#[test]
fn the_rules_beside_the_unit_are_right() {
    let files = [
        ("guard-watch.toml", 1),
        ("guard.toml", 2),
        ("guard-desktop.toml", 5),
        ("guard-agents.toml", 5),
    ];
    for (file, nr_rules) in files {
        let rules = checkout().join("packaging/systemd").join(file);
        let text = fs::read_to_string(&rules).expect("the rules");
        assert!(!text.contains("\"kill\""), "{file} kills nobody");
        let watches = text.lines().any(|line| line == "dry_run = true");
        assert_eq!(watches, file == "guard-watch.toml", "{file}");
        // `docker*` would fit containers, too: systemd has them as `docker-ID.scope`.
        let mut units = text.lines().filter(|line| line.starts_with("unit = "));
        assert!(units.all(|line| line.ends_with(".service\"")), "{file}");
        let said = Strata::new(["guard", "--check", "--config"]).arg(rules);
        let said = said.finish().expect_success();
        let plural = if nr_rules == 1 { "" } else { "s" };
        let expected = format!("nothing is wrong: {nr_rules} rule{plural}\n");
        assert!(said.stdout.starts_with(&expected), "{}", said.stdout);
    }
}

#[test]
fn the_unit_of_the_guard_is_right_and_can_do_little_else() {
    let unit = checkout().join("packaging/systemd/strata-guard.service");
    let text = fs::read_to_string(&unit).expect("the unit");
    let directory = tempfile::tempdir().expect("a directory");
    let unit = directory.path().join("strata-guard.service");
    // What is not installed can't be started.
    fs::write(&unit, text.replace("/usr/local/bin/strata", binary())).expect("written");
    let analyze = |args: &[&str]| {
        Command::new("systemd-analyze")
            .args(args)
            .arg(&unit)
            .output()
    };
    let Ok(verified) = analyze(&["verify"]) else {
        crate::skip!("there is no systemd-analyze");
    };
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(verified.status.success() && said.is_empty(), "{said}");
    let judged = analyze(&["security", "--offline=true", EXPOSURE_MAX]).expect("it runs");
    let said = String::from_utf8_lossy(&judged.stdout).into_owned();
    assert!(judged.status.success(), "{said}");
}

/// Sources of the assets of a table of `crates/cli/Cargo.toml`, from the root of the checkout.
fn sources_of(table: &str) -> Vec<String> {
    let text = fs::read_to_string(checkout().join("crates/cli/Cargo.toml")).expect("the manifest");
    let whole: toml::Table = text.parse().expect("TOML");
    let assets = whole["package"]["metadata"][table]["assets"].as_array();
    let source = |asset: &toml::Value| match asset.get("source") {
        Some(source) => source.as_str().map(str::to_owned),
        None => Some(asset.get(0)?.as_str()?.trim_start_matches("../").to_owned()),
    };
    let sources = assets.expect("assets").iter().map(source);
    sources.map(|source| source.expect("a source")).collect()
}

#[test]
fn what_the_packages_hold_is_there_or_is_made_by_the_script_that_packs() {
    let script = fs::read_to_string(checkout().join("scripts/package.sh")).expect("the script");
    let mut held = BTreeSet::new();
    for table in ["deb", "generate-rpm"] {
        for source in sources_of(table) {
            let is_there = match source.strip_prefix("target/package/") {
                Some(made) => {
                    let name = made.trim_end_matches("/*");
                    let name = name
                        .strip_prefix("strata.")
                        .map_or(name, |_| "strata.$shell");
                    script.contains(&format!("\"$out/{name}\""))
                }
                None => source == "target/release/strata" || checkout().join(&source).exists(),
            };
            assert!(is_there, "{table}: nothing makes {source}");
            held.insert(source);
        }
    }
    for rules in fs::read_dir(checkout().join("packaging/systemd")).expect("the rules") {
        let name = format!(
            "packaging/systemd/{}",
            rules.expect("one").file_name().display()
        );
        let is_unit = name.ends_with(".service");
        assert!(is_unit || held.contains(&name), "no package holds {name}");
    }
}

/// What the chart's sidecar writes where kubectl says this; what it says itself.
fn rules_of_pods(kubectl: &str, base: &str) -> (String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("kubectl"), format!("#!/bin/sh\n{kubectl}")).expect("written");
    fs::set_permissions(at("kubectl"), fs::Permissions::from_mode(0o755)).expect("executable");
    fs::write(at("base.toml"), base).expect("written");
    let path = std::env::var("PATH").unwrap_or_default();
    let looked = Command::new("sh")
        .arg(checkout().join("packaging/helm/pod-rules.sh"))
        .arg("strata/promise")
        .args([at("base.toml"), at("guard.toml")])
        .arg("0")
        .env("PATH", format!("{}:{path}", folder.path().display()))
        .env("NODE_NAME", "node-7")
        .output()
        .expect("a shell");
    assert!(looked.status.success(), "{looked:?}");
    let check = Strata::new(["guard", "--check", "--config"]).arg(at("guard.toml"));
    check.finish().expect_success();
    let said = String::from_utf8_lossy(&looked.stderr).into_owned();
    (fs::read_to_string(at("guard.toml")).expect("rules"), said)
}

const BASE: &str = "dry_run = true\n\n[[rule]]\ncgroup = \"*kubepods*\"\npromise = \"none\"\n";

#[test]
fn labels_that_are_no_promise_and_whatever_else_kubectl_says_never_become_rules() {
    let uid = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
    let wrong = [
        "",
        "0",
        "0.0",
        "100",
        "-1",
        "1e1",
        "0.001",
        "0.2%/min",
        ".5",
        "5.",
        "1 2",
        "2\"",
        "none",
        "$(touch broken)",
        "1;2",
        "*",
    ];
    for value in wrong {
        let (rules, told) = rules_of_pods(&format!("cat <<'END'\n{uid} {value}\nEND\n"), BASE);
        let why = format!(
            "# pod {uid} is left out: its strata/promise is no number from 0.01 to 99.99\n"
        );
        assert_eq!(told, why, "{value}");
        assert_eq!(rules.replace(&why, ""), BASE, "{value}");
    }
    let no_pods = [
        "x 1",
        "*/*\" 1",
        "../.. 1",
        &format!("{uid}0 1"),
        &format!("x{uid} 1"),
        "\u{1b}[2J 1",
    ];
    for line in no_pods {
        let (rules, told) = rules_of_pods(&format!("cat <<'END'\n{line}\nEND\n"), BASE);
        assert_eq!((rules.as_str(), told.as_str()), (BASE, ""), "{line}");
    }
    // Without an answer the guard begins with what holds for all.
    let (rules, told) = rules_of_pods("echo no server >&2\nexit 1\n", BASE);
    assert_eq!((rules.as_str(), told.as_str()), (BASE, "no server\n"));
}

/// Runs a part of `scripts/package-test.sh`, which says what it tries.
#[track_caller]
#[expect(
    clippy::print_stdout,
    reason = "what was tried is read in the output of a long test"
)]
fn try_packages(part: &str) -> Option<String> {
    let script = checkout().join("scripts/package-test.sh");
    let tried = Command::new(script).arg(part).output().expect("it runs");
    let said = String::from_utf8_lossy(&tried.stdout).into_owned();
    let why = String::from_utf8_lossy(&tried.stderr).into_owned();
    println!("{said}");
    match tried.status.code() {
        Some(0) => None,
        Some(125) => why.lines().last().map(str::to_owned),
        _ => panic!("{part}: {said}\n{why}"),
    }
}

#[test]
#[ignore = "compiles and packs all: minutes; make test-long"]
fn long_packages_are_installed_used_upgraded_and_removed_and_leave_nothing_but_configuration_and_history()
 {
    let packed = Command::new(checkout().join("scripts/package.sh")).status();
    assert!(packed.expect("it runs").success(), "make package");
    for part in ["deb", "rpm", "archive", "image"] {
        if let Some(why) = try_packages(part) {
            crate::skip!("{part}: {why}");
        }
    }
}

#[test]
#[ignore = "fetches helm and schemas; make test-long"]
fn long_the_chart_makes_a_daemon_set_that_fits_the_schema() {
    if let Some(why) = try_packages("chart") {
        crate::skip!("{why}");
    }
}

#[test]
#[ignore = "compiles all: minutes; make test-long"]
fn long_it_compiles_for_arm() {
    if let Some(why) = try_packages("aarch64") {
        crate::skip!("{why}");
    }
}

#[test]
#[ignore = "compiles all twice: minutes; make test-long"]
fn long_two_clones_at_two_places_make_the_same_archive() {
    if let Some(why) = try_packages("clones") {
        crate::skip!("{why}");
    }
}
