//! What people call a cgroup: the unit of systemd or the container that its path tells of.
//!
//! **Owns** how the makers of groups write their names. **Does not own** the groups.
//!
//! | path of a group | tells of |
//! |---|---|
//! | `.../redis.service/...` | unit `redis.service` |
//! | `.../docker-ID.scope`, `/docker/ID`, `libpod-`, `crio-`, `cri-containerd-`, `.../pod.../ID` | container `ID` |
//! | `/lxc/NAME/...`, `/lxc.payload.NAME/...`, `.../machine-NAME.scope/...` | container `NAME` |
//!
//! **Invariants** I1: a name is told as it stands in the path, without escapes; nothing is asked of anybody.

/// Hexadecimal digits of a container's id.
const ID_DIGITS: usize = 64;
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
        Label {
            unit: innermost(&[".service", ".scope"]).or_else(|| innermost(&[".slice"])),
            container,
        }
    }

    /// The name that says most, short.
    pub fn name(&self) -> Option<String> {
        match (&self.container, &self.unit) {
            (Some(container), _) if is_id(container) => Some(container.chars().take(12).collect()),
            (Some(name), _) | (None, Some(name)) => Some(name.clone()),
            (None, None) => None,
        }
    }
}

fn is_id(text: &str) -> bool {
    text.len() == ID_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
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

    proptest! {
        #[test]
        fn no_path_is_an_error(path in "(/[\\PC]{0,9}|\\\\x|\\\\x2|.scope|lxc){0,8}") {
            let _label = Label::of(&path).name();
        }
    }
}
