//! Who processes and groups are to people: command line, user, unit, container.
//!
//! **Owns** reading that from `/proc`, and the list of a group's programs ([`Programs`]). **Does not own** how a group is named
//! ([`Label`]) and which processes belong together ([`split`]).
//!
//! **Invariants**
//! - I1: texts from outside have no control characters in them: a command line may hold anything.
//! - I2: a process is asked who it is once, not at each look.

mod label;
mod trees;

pub use label::Label;
pub use trees::{Link, split};

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use strata_linux::plain;
use strata_linux::process::{Stat, read_stat, stalled};
use strata_linux::sys::users;

/// Characters of a command line that are kept.
const COMMAND_CHARS_MAX: usize = 300;
/// Bytes of it that are looked at.
const COMMAND_BYTES_MAX: usize = 4096;

/// Who a process is.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Person {
    /// Number of the process.
    pub pid: i32,
    /// Name of the process, at most 15 bytes.
    pub name: String,
    /// Command line of the process, cut; its name in brackets where it has none.
    pub command: String,
    /// Name of the user, or number where there is no name.
    pub user: String,
}

/// Words that end in NUL as a line.
fn command_line(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(COMMAND_BYTES_MAX)];
    let text = String::from_utf8_lossy(bytes)
        .trim_end_matches('\0')
        .replace('\0', " ");
    plain::line(&text).chars().take(COMMAND_CHARS_MAX).collect()
}

impl Person {
    /// Asks for a process.
    fn read(pid: i32, stat: &Stat, users: &mut BTreeMap<u32, String>) -> Person {
        // The words lie in its memory.
        let words = stalled(pid)
            .is_none()
            .then(|| fs::read(format!("/proc/{pid}/cmdline")));
        let bytes = words.and_then(Result::ok).unwrap_or_default();
        let name = stat.comm.clone();
        let command = match command_line(&bytes) {
            text if text.trim().is_empty() => format!("[{name}]"),
            text => text,
        };
        let uid = fs::metadata(format!("/proc/{pid}")).map(|found| found.uid());
        let user = uid.map_or_else(
            |_| "?".to_owned(),
            |uid| users.entry(uid).or_insert_with(|| user_name(uid)).clone(),
        );
        Person {
            pid,
            name,
            command,
            user,
        }
    }
}

fn user_name(uid: u32) -> String {
    let found = users::find(users::Key::Uid(uid)).ok().flatten();
    let name = found.map(|entry| plain::line(&entry.name.to_string_lossy()).into_owned());
    name.unwrap_or_else(|| uid.to_string())
}

/// A process that was asked.
#[derive(Debug)]
struct Known {
    start_ticks: u64,
    program: String,
    person: Person,
}

/// One of the programs of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The process at its root.
    pub root: Person,
    /// The root and everybody that belongs to it, by pid.
    pub pids: Vec<i32>,
}

/// The programs of groups, looked for again and again.
#[derive(Debug, Default)]
pub struct Programs {
    known: BTreeMap<i32, Known>,
    users: BTreeMap<u32, String>,
}

impl Programs {
    /// Knows nobody yet.
    pub fn new() -> Programs {
        Programs::default()
    }

    /// The programs of these processes. Kernel threads, and who has ended meanwhile, belong to none.
    pub fn find(&mut self, pids: &[i32]) -> Vec<Program> {
        let mut links = BTreeMap::new();
        for pid in pids {
            let Ok(stat) = read_stat(*pid) else {
                self.known.remove(pid);
                continue;
            };
            if stat.is_kernel_thread || stat.state == 'Z' {
                continue;
            }
            let link = Link {
                parent: stat.ppid,
                session: stat.session,
                process_group: stat.process_group,
                program: self.ask(*pid, &stat).program.clone(),
            };
            links.insert(*pid, link);
        }
        let trees = split(&links).into_iter();
        let found = trees.filter_map(|(root, pids)| {
            let root = self.known.get(&root)?.person.clone();
            Some(Program { root, pids })
        });
        found.collect()
    }

    /// Forgets everybody but these.
    pub fn keep(&mut self, is_there: impl Fn(i32) -> bool) {
        self.known.retain(|pid, _| is_there(*pid));
    }

    fn ask(&mut self, pid: i32, stat: &Stat) -> &Known {
        // A new name tells of exec; one that keeps its name keeps its user nearly always.
        let is_it =
            |known: &Known| known.start_ticks == stat.start_ticks && known.person.name == stat.comm;
        if !self.known.get(&pid).is_some_and(is_it) {
            self.known.remove(&pid);
        }
        let users = &mut self.users;
        self.known.entry(pid).or_insert_with(|| {
            let program = fs::read_link(format!("/proc/{pid}/exe"));
            Known {
                start_ticks: stat.start_ticks,
                program: program.map_or_else(
                    |_| stat.comm.clone(),
                    |path| path.to_string_lossy().into_owned(),
                ),
                person: Person::read(pid, stat, users),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_one_line_whatever_it_holds() {
        assert_eq!(
            command_line(b"redis-server\0--port\x000\0"),
            "redis-server --port 0"
        );
        assert_eq!(command_line(b"a\x1b[2J\nb\0\0c\0\0"), "a?[2J?b  c");
        assert_eq!(command_line(b""), "");
        let long = vec![b'x'; 1 << 20];
        assert_eq!(command_line(&long).len(), COMMAND_CHARS_MAX);
    }

    #[test]
    fn we_are_a_program_with_a_user_and_a_command() {
        let own: i32 = std::process::id().try_into().expect("a pid");
        let mut programs = Programs::new();
        let found = programs.find(&[own, 2, i32::MAX]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].pids, [own]);
        assert!(!found[0].root.command.is_empty() && !found[0].root.user.is_empty());
        assert_eq!(programs.find(&[own]), found, "asked once, told twice");
        programs.keep(|_| false);
        assert!(programs.known.is_empty());
    }
}
