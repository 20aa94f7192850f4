//! What people call a cgroup: the unit of systemd, the container or the pod that its path tells of.
//!
//! **Owns** how the makers of groups write their names. **Does not own** the groups.
//!
//! | path of a group | tells of |
//! |---|---|
//! | `.../redis.service/...` | unit `redis.service` |
//! | `.../docker-ID.scope`, `/docker/ID`, `libpod-`, `crio-`, `cri-containerd-`, `.../pod.../ID` | container `ID` |
//! | `.../kubepods-QOS-podUID.slice/...` (systemd), `/kubepods/QOS/podUID/...` (cgroupfs) | pod `UID` |
//! | `/lxc/NAME/...`, `/lxc.payload.NAME/...`, `.../machine-NAME.scope/...` | container `NAME` |
//!
//! **Invariants** I1: a name is told as it stands in the path, without escapes and control characters; nothing is asked of anybody.

use strata_linux::plain;

/// Hexadecimal digits of a container's id.
const ID_DIGITS: usize = 64;
/// Hexadecimal digits of a pod's uid; a pod of the API server has dashes between them, a static pod has none.
const UID_DIGITS: usize = 32;
/// What container runtimes write before an id.
const ID_PREFIXES: [&str; 6] = [
    "docker-",
    "libpod-",
    "crio-",
    "cri-containerd-",
    "containerd-",
    "nerdctl-",
];

/// The names that a path tells of.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Label {
    /// The unit of systemd: the innermost service or scope, or else the slice.
    pub unit: Option<String>,
    /// The container: its id, or its name where it has one.
    pub container: Option<String>,
    /// The uid of the pod of Kubernetes.
    pub pod: Option<String>,
}

impl Label {
    /// Reads a path as `/proc/PID/cgroup` prints it.
    pub fn of(path: &str) -> Label {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let container = (0..parts.len()).rev().find_map(|at| {
            let before = at.checked_sub(1).map(|before| parts[before]);
            container(before, parts[at])
        });
        let innermost = |kinds: &[&str]| {
            let is_one = |part: &&&str| kinds.iter().any(|kind| part.ends_with(kind));
            parts.iter().rev().find(is_one).map(|part| unescape(part))
        };
        let plain = |name: String| plain::line(&name).into_owned();
        let unit = innermost(&[".service", ".scope"]).or_else(|| innermost(&[".slice"]));
        Label {
            unit: unit.map(plain),
            container: container.map(plain),
            pod: parts.iter().find_map(|part| pod(part)),
        }
    }

    /// The name that says most, short.
    pub fn name(&self) -> Option<String> {
        let short = |id: &String| id.chars().take(12).collect::<String>();
        if let Some(uid) = &self.pod {
            let container = self.container.as_ref().map(short);
            let below = container.map_or_else(String::new, |id| format!("/{id}"));
            return Some(format!("pod {uid}{below}"));
        }
        match (&self.container, &self.unit) {
            (Some(container), _) if is_id(container) => Some(short(container)),
            (Some(name), _) | (None, Some(name)) => Some(name.clone()),
            (None, None) => None,
        }
    }
}

fn is_id(text: &str) -> bool {
    text.len() == ID_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn pod(part: &str) -> Option<String> {
    // What follows a colon is of the container, where groups are not made through systemd.
    let slice = part.split(':').next()?;
    let name = slice.strip_suffix(".slice").unwrap_or(slice);
    let of_systemd = name.rsplit_once("-pod").map(|(_, uid)| uid);
    // systemd takes a dash for a step down the tree, so that kubelet writes `_`.
    let uid = of_systemd
        .or_else(|| name.strip_prefix("pod"))?
        .replace('_', "-");
    let nr_digits = uid.bytes().filter(u8::is_ascii_hexdigit).count();
    let is_uid = nr_digits == UID_DIGITS && uid.len() == nr_digits + uid.matches('-').count();
    is_uid.then_some(uid)
}

fn container(before: Option<&str>, part: &str) -> Option<String> {
    let inner = part.strip_suffix(".scope").unwrap_or(part);
    // `kubepods-pod1.slice:cri-containerd:ID` where groups are not made through systemd.
    let last = inner.rsplit(':').next().unwrap_or(inner);
    let bare = ID_PREFIXES
        .iter()
        .find_map(|prefix| last.strip_prefix(prefix));
    let id = bare.unwrap_or(last);
    if is_id(id) {
        return Some(id.to_owned());
    }
    let machine = || part.strip_suffix(".scope")?.strip_prefix("machine-");
    if let Some(name) = part.strip_prefix("lxc.payload.").or_else(machine) {
        return Some(unescape(name));
    }
    (before == Some("lxc")).then(|| part.to_owned())
}

/// systemd writes what it can't have in a name as `\x2d`.
fn unescape(name: &str) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find("\\x") {
        let digits = rest.get(at + 2..at + 4);
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        match byte {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[at + 4..];
            }
            None => {
                bytes.extend_from_slice(b"\\x");
                rest = &rest[at + 2..];
            }
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn names(path: &str) -> (Option<String>, Option<String>, Option<String>) {
        let label = Label::of(path);
        (label.unit.clone(), label.container.clone(), label.name())
    }

    #[test]
    fn services_and_scopes_are_found_wherever_they_stand() {
        let some = |text: &str| Some(text.to_owned());
        for (path, unit) in [
            ("/system.slice/redis.service", "redis.service"),
            (
                "/system.slice/system-postgresql.slice/postgresql@15-main.service",
                "postgresql@15-main.service",
            ),
            (
                "/user.slice/user-1000.slice/session-3.scope",
                "session-3.scope",
            ),
            (
                "/user.slice/user-0.slice/user@0.service/app.slice/web.service",
                "web.service",
            ),
            ("/system.slice/web.service/payload", "web.service"),
            ("/user.slice/user-1000.slice", "user-1000.slice"),
            ("/system.slice/dev\\x2ddisk.service", "dev-disk.service"),
        ] {
            assert_eq!(names(path), (some(unit), None, some(unit)), "{path}");
        }
        for path in ["/", "/redis", "/redis/below", ""] {
            assert_eq!(names(path), (None, None, None), "{path}");
        }
    }

    #[test]
    fn nothing_a_terminal_would_obey_is_in_a_name() {
        let label = Label::of("/a\\x0ab\u{1b}[2J.service/lxc/c\nd");
        assert_eq!(label.unit.as_deref(), Some("a?b?[2J.service"));
        assert_eq!(label.container.as_deref(), Some("c?d"));
    }

    #[test]
    fn containers_are_told_by_their_id_or_name_whoever_runs_them() {
        for path in [
            format!("/docker/{ID}"),
            format!("/system.slice/docker-{ID}.scope"),
            format!("/machine.slice/libpod-{ID}.scope/container"),
            format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope"),
            format!("/kubepods/burstable/pod0f1e/{ID}"),
            format!("/system.slice/containerd.service/crio-{ID}"),
            format!("/system.slice/containerd.service/kubepods-pod1.slice:cri-containerd:{ID}"),
        ] {
            let (_, container, name) = names(&path);
            assert_eq!(container.as_deref(), Some(ID), "{path}");
            assert_eq!(name.as_deref(), Some(&ID[..12]), "{path}");
        }
        for (path, container) in [
            ("/lxc/web/init.scope", "web"),
            ("/lxc.payload.web/system.slice", "web"),
            ("/machine.slice/machine-web\\x2d1.scope", "web-1"),
        ] {
            assert_eq!(names(path).1.as_deref(), Some(container), "{path}");
        }
    }

    #[test]
    fn pods_are_told_by_their_uid_whichever_driver_makes_their_groups() {
        const UID: &str = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
        let slice = format!("kubepods-burstable-pod{}.slice", UID.replace('-', "_"));
        for path in [
            format!("/kubepods.slice/kubepods-burstable.slice/{slice}/cri-containerd-{ID}.scope"),
            format!("/kubepods.slice/kubepods-burstable.slice/{slice}/crio-{ID}.scope/container"),
            format!(
                "/kubelet.slice/kubelet-kubepods.slice/kubelet-{slice}/cri-containerd-{ID}.scope"
            ),
            format!("/kubepods/besteffort/pod{UID}/{ID}"),
            format!("/kubepods/pod{UID}/{ID}"),
            format!("/system.slice/containerd.service/{slice}:cri-containerd:{ID}"),
        ] {
            let label = Label::of(&path);
            assert_eq!(label.pod.as_deref(), Some(UID), "{path}");
            assert_eq!(label.container.as_deref(), Some(ID), "{path}");
            let name = format!("pod {UID}/{}", &ID[..12]);
            assert_eq!(label.name(), Some(name), "{path}");
        }
        let of_pod = format!("/kubepods.slice/{slice}");
        assert_eq!(names(&of_pod).2, Some(format!("pod {UID}")));
        let of_static = format!("/kubepods/burstable/pod{}/{ID}", &ID[..32]);
        assert_eq!(Label::of(&of_static).pod.as_deref(), Some(&ID[..32]));
        for path in [
            "/podman",
            "/system.slice/podinfo.service",
            "/a-pod/b",
            "/kubepods",
        ] {
            assert_eq!(Label::of(path).pod, None, "{path}");
        }
    }

    proptest! {
        #[test]
        fn no_path_is_an_error(path in "(/[\\PC]{0,9}|\\\\x|\\\\x2|.scope|lxc){0,8}") {
            let _label = Label::of(&path).name();
        }
    }
}
