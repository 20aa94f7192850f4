//! `strata guard` beside the chart's sidecar, which writes rules for pods that have a label; a script plays kubectl.

use crate::support::prelude::*;

use crate::guard::{end, of, wait_for};

const BY_SYSTEMD: &str = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
const BY_CGROUPFS: &str = "a0b1c2d3-1111-2222-3333-444455556666";

/// One look of the sidecar at what `pods` in the folder lists.
fn look(folder: &Path) -> Output {
    let path = std::env::var("PATH").unwrap_or_default();
    let looked = Command::new("sh")
        .arg(checkout().join("packaging/helm/pod-rules.sh"))
        .arg("strata/promise")
        .args([folder.join("base.toml"), folder.join("guard.toml")])
        .arg("0")
        .env("PATH", format!("{}:{path}", folder.display()))
        .env("NODE_NAME", "here")
        .output()
        .expect("a shell");
    assert!(looked.status.success(), "{looked:?}");
    looked
}

/// A container's group below a pod's, as the path in `/proc` tells of it.
fn below(pod: &TestGroup, name: &str) -> (TestGroup, String) {
    // On cgroup v1 there is no such file.
    let _ = fs::write(pod.path.join("cgroup.subtree_control"), "+memory");
    let container = pod.below(name);
    let outer = pod.path.parent().expect("a parent").parent();
    let path = container.path.strip_prefix(outer.expect("a mount"));
    let path = format!("/{}", path.expect("below").display());
    (container, path)
}

#[test]
fn a_pod_that_gets_a_label_gets_its_promise_whichever_driver_named_its_groups() {
    live!("cap_bpf", "memory_cgroup");
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let kubectl = format!("#!/bin/sh\ncat '{}'\n", at("pods").display());
    fs::write(at("kubectl"), kubectl).expect("written");
    fs::set_permissions(at("kubectl"), fs::Permissions::from_mode(0o755)).expect("executable");
    let base = "cpu = \"50%\"\nhistory = \"none\"\n\n[[rule]]\ncgroup = \"/strata-test-pods-*\"\npromise = \"none\"\n";
    fs::write(at("base.toml"), base).expect("written");
    fs::write(at("pods"), "").expect("written");

    let all = TestGroup::new("pods").with_below();
    let pods = [
        all.below(&format!(
            "kubepods-burstable-pod{}.slice",
            BY_SYSTEMD.replace('-', "_")
        )),
        all.below(&format!("pod{BY_CGROUPFS}")),
        all.below("pod99999999-1111-2222-3333-444455556666"),
    ];
    let groups: Vec<(TestGroup, String)> = pods.iter().map(|pod| below(pod, "container")).collect();
    let touched: Vec<Touch> = groups
        .iter()
        .map(|(group, _)| {
            let mut touch = Touch::start(["--size", "16M"]);
            group.take(touch.pid);
            touch.ask("writerange 0 4096");
            touch
        })
        .collect();

    look(folder.path());
    let rules = at("guard.toml");
    let config = format!("--config={}", rules.display());
    let live = Live::start(&Strata::new([
        "guard",
        "--dry-run",
        "--format",
        "json",
        &config,
    ]));
    let is_promised = |promises: [Option<&'static str>; 3]| {
        let names: Vec<String> = groups.iter().map(|(_, name)| name.clone()).collect();
        move |status: &Value| {
            let mut told = names.iter().zip(promises);
            told.all(|(name, promise)| {
                let group = of(status, name);
                group.is_object() && group["promise"].as_str() == promise
            })
        }
    };
    wait_for(
        &live,
        "three groups without a promise",
        is_promised([None; 3]),
    );
    // An unhappy value is told and takes nothing from the others.
    let text =
        format!("{BY_SYSTEMD} 0.5\n{BY_CGROUPFS} 2\n99999999-1111-2222-3333-444455556666 \"\n");
    fs::write(at("pods"), text).expect("written");
    let said = String::from_utf8_lossy(&look(folder.path()).stderr).into_owned();
    assert!(
        said.contains("# pod 99999999") && said.lines().count() == 1,
        "{said}"
    );
    live.wait_for_stderr("hold now");
    let promises = [Some("0.5%/min"), Some("2%/min"), None];
    wait_for(&live, "the promises of the labels", is_promised(promises));
    // Without a change the guard is left in peace.
    look(folder.path());
    fs::write(at("pods"), "").expect("written");
    look(folder.path());
    wait_for(&live, "the labels to be gone", is_promised([None; 3]));
    // The status may tell of rules before the guard has said that they hold.
    let nr_told = || live.stderr().matches("hold now").count();
    wait_until("both files of rules to be told", || nr_told() >= 2);
    assert_eq!(nr_told(), 2, "{}", live.stderr());
    end(live);
    drop((touched, groups, pods, all));
}
