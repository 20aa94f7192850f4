//! Whether somebody is at a program that looks idle: at its terminal, listening, or waiting for its answer.
//!
//! **Owns** these three signs. **Does not own** what is done then. Which window of a desktop is in front can't be seen.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::handle::read_stat;

/// Major numbers of terminals: consoles, and the first of the pseudo terminals, 256 of each.
const MAJOR_CONSOLE: u64 = 4;
const MAJOR_PTS: std::ops::Range<u64> = 136..144;
const MINORS: u64 = 256;

/// A sign that somebody is at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attended {
    /// It is in front at a terminal where something was typed lately.
    Terminal,
    /// It plays or records sound on a device that it has opened itself. Under a sound server that is the server.
    Sound,
    /// Something was sent to it that it has not read yet.
    Unread,
}

impl Attended {
    /// Looks at a process; what was typed within `lately` counts.
    pub fn of(pid: i32, lately: Duration) -> Option<Attended> {
        if is_typed_at(pid, lately) {
            return Some(Attended::Terminal);
        }
        if has_sound(pid) {
            return Some(Attended::Sound);
        }
        has_unread(pid).then_some(Attended::Unread)
    }
}

/// Its process group is the one in front of a terminal that was read from lately, as `w` tells the idle time.
fn is_typed_at(pid: i32, lately: Duration) -> bool {
    let Ok(stat) = read_stat(pid) else {
        return false;
    };
    let is_in_front = stat.foreground_group == stat.process_group;
    let Some(terminal) = terminal(stat.terminal).filter(|_| is_in_front) else {
        return false;
    };
    let Ok(read_at_s) = fs::metadata(terminal).map(|terminal| terminal.atime()) else {
        return false;
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let idle_s = now.map_or(0, |now| now.as_secs() as i64) - read_at_s;
    u64::try_from(idle_s).is_ok_and(|idle_s| idle_s < lately.as_secs())
}

/// The device file of a terminal, by its number in proc(5).
fn terminal(number: u64) -> Option<PathBuf> {
    let major = number >> 8 & 0xfff;
    let minor = number & 0xff | number >> 12 & 0xfff00;
    match major {
        MAJOR_CONSOLE => Some(PathBuf::from(format!("/dev/tty{minor}"))),
        major if MAJOR_PTS.contains(&major) => {
            let minor = (major - MAJOR_PTS.start) * MINORS + minor;
            Some(PathBuf::from(format!("/dev/pts/{minor}")))
        }
        _ => None,
    }
}

/// It has opened a sound device that runs.
fn has_sound(pid: i32) -> bool {
    let Ok(paths) = glob::glob("/proc/asound/card*/pcm*/sub*/status") else {
        return false;
    };
    let mut texts = paths
        .flatten()
        .filter_map(|path| fs::read_to_string(path).ok());
    texts.any(|text| runs_for(&text, pid))
}

fn runs_for(status: &str, pid: i32) -> bool {
    let field = |name: &str| {
        let mut lines = status.lines().filter_map(|line| line.split_once(':'));
        lines.find_map(|(key, value)| (key.trim() == name).then(|| value.trim().to_owned()))
    };
    field("state").as_deref() == Some("RUNNING") && field("owner_pid") == Some(pid.to_string())
}

/// A TCP connection of it holds bytes that were not read.
fn has_unread(pid: i32) -> bool {
    let mut unread = BTreeSet::new();
    for name in ["tcp", "tcp6"] {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{name}"));
        unread.extend(with_unread(&text.unwrap_or_default()));
    }
    if unread.is_empty() {
        return false;
    }
    let files = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    let mut targets = files
        .flatten()
        .filter_map(|file| fs::read_link(file.path()).ok());
    targets.any(|target| {
        let target = target.to_string_lossy();
        let inode = target
            .strip_prefix("socket:[")
            .and_then(|rest| rest.strip_suffix(']'));
        inode.is_some_and(|inode| unread.contains(inode))
    })
}

/// Inodes of established connections with bytes in their receive queue.
fn with_unread(table: &str) -> impl Iterator<Item = String> + '_ {
    const ESTABLISHED: &str = "01";
    table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (_, received) = fields.get(4)?.split_once(':')?;
        let has_unread = u64::from_str_radix(received, 16).ok()? > 0;
        let is_meant = *fields.get(3)? == ESTABLISHED && has_unread;
        is_meant
            .then(|| fields.get(9).map(|inode| (*inode).to_owned()))
            .flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn what_was_sent_and_not_read_is_seen_until_it_is_read() {
        let own = i32::try_from(std::process::id()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        let inode = fs::read_link(format!(
            "/proc/self/fd/{}",
            std::os::fd::AsRawFd::as_raw_fd(&receiver)
        ))
        .unwrap();
        let table = || fs::read_to_string(format!("/proc/{own}/net/tcp")).unwrap();
        let is_unread = || {
            with_unread(&table()).any(|one| inode.to_string_lossy() == format!("socket:[{one}]"))
        };
        assert!(!is_unread());
        sender.write_all(b"hello").unwrap();
        receiver.peek(&mut [0; 5]).unwrap();
        assert!(is_unread() && has_unread(own));
        receiver.read_exact(&mut [0; 5]).unwrap();
        assert!(!is_unread());
    }

    #[test]
    fn a_terminal_is_found_by_its_number() {
        let path = |number| terminal(number).map(|path| path.display().to_string());
        assert_eq!(path(4 << 8 | 1).as_deref(), Some("/dev/tty1"));
        assert_eq!(path(136 << 8 | 7).as_deref(), Some("/dev/pts/7"));
        assert_eq!(path(137 << 8 | 1).as_deref(), Some("/dev/pts/257"));
        assert_eq!(path(0), None, "no terminal");
    }

    #[test]
    fn who_plays_is_the_owner_of_a_device_that_runs() {
        let status = "state: RUNNING\nowner_pid   : 4711\ntrigger_time: 1.2\n";
        assert!(runs_for(status, 4711) && !runs_for(status, 471));
        assert!(!runs_for("closed\n", 4711));
        assert!(!runs_for(&status.replace("RUNNING", "PREPARED"), 4711));
    }
}
