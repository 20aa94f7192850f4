//! The other end: finding a running Strata and asking it.
//!
//! **Owns** the search through the run directory and one connection. **Does not own** what an answer
//! means.
//!
//! **Invariants** I1: nobody waits without a bound for a run that does not take connections (stopped, its queue full).

use super::request::Request;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde_json::Value;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use strata_linux::run_dir::{SOCKET_NAME, is_no_run, names, run_dir};

/// A Strata answers at its next tick, which it is woken for.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);
/// For the list of those that run; one that is stopped must not hold it up.
const NAME_TIME_MAX: Duration = Duration::from_secs(2);
/// No answer is longer.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// Why a running Strata could not be asked, or did not do it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// No run is there.
    #[error("no strata run is running here (none has a socket in {}); start one first", .0.display())]
    NoneRuns(PathBuf),
    /// No run has the id that was asked for.
    #[error("no strata run has the id {id:?}; running: {running}")]
    NotFound {
        /// Asked for.
        id: String,
        /// Ids of the runs there are.
        running: String,
    },
    /// More than one.
    #[error("several strata runs are running, say which with --id: {0}")]
    Several(String),
    /// The operating system refused.
    #[error("{what} {} failed: {source}; the socket is for the user who started that run", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// The socket or directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The run does not answer.
    #[error("the strata run at {} did not answer within {} s; it may be stopped or have ended", path.display(), limit.as_secs())]
    NoAnswer {
        /// Socket of the run.
        path: PathBuf,
        /// How long it was waited for.
        limit: Duration,
    },
    /// Not what was agreed.
    #[error("the strata run at {} answered something else than a line of JSON: {why}", path.display())]
    Garbled {
        /// Socket of the run.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The run refused.
    #[error("{0}")]
    Refused(String),
}

impl RemoteError {
    /// 2 where nobody, or nobody in particular, was asked; 1 where it failed.
    pub fn exit_status(&self) -> u8 {
        match self {
            RemoteError::NoneRuns(_) | RemoteError::NotFound { .. } | RemoteError::Several(_) => 2,
            _ => 1,
        }
    }
}

/// A running Strata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Name of the run in the run directory.
    pub id: String,
    socket: PathBuf,
}

/// Stratas that run on this machine and can be reached, by id.
fn running_in(run_dir: &Path) -> Result<Vec<Running>, RemoteError> {
    let mut found: Vec<Running> = Vec::new();
    let names = names(run_dir).map_err(io_error("reading", run_dir))?;
    for name in names.into_iter().filter(|name| !is_no_run(name)) {
        let socket = run_dir.join(&name).join(SOCKET_NAME);
        // One that died without cleaning up has a socket that nobody listens on.
        let is_there = match dial(&socket, None) {
            Ok(_) => true,
            // A queue that is full is somebody's.
            Err(error) => matches!(
                error.kind(),
                ErrorKind::PermissionDenied | ErrorKind::WouldBlock
            ),
        };
        if is_there {
            let id = name.to_string_lossy().into_owned();
            found.push(Running { id, socket });
        }
    }
    Ok(found)
}

impl Running {
    /// The one with this id, or the only one.
    ///
    /// # Errors
    /// [`RemoteError::NoneRuns`], [`RemoteError::NotFound`], [`RemoteError::Several`]; the last two list
    /// those there are.
    pub fn find(id: Option<&str>) -> Result<Running, RemoteError> {
        Running::find_in(&run_dir(), id)
    }

    fn find_in(run_dir: &Path, id: Option<&str>) -> Result<Running, RemoteError> {
        let mut all = running_in(run_dir)?;
        match id {
            Some(id) => match all.iter().position(|running| running.id == id) {
                Some(at) => Ok(all.swap_remove(at)),
                None => Err(RemoteError::NotFound {
                    id: id.to_owned(),
                    running: list(&all),
                }),
            },
            None if all.len() > 1 => Err(RemoteError::Several(list(&all))),
            None => all
                .pop()
                .ok_or_else(|| RemoteError::NoneRuns(run_dir.to_owned())),
        }
    }

    /// Connects.
    ///
    /// # Errors
    /// [`RemoteError::NoAnswer`] from a run that takes no connection.
    pub fn connect(&self) -> Result<Connection, RemoteError> {
        self.connect_within(ANSWER_TIME_MAX)
    }

    fn connect_within(&self, limit: Duration) -> Result<Connection, RemoteError> {
        let stream = dial(&self.socket, Some(limit)).map_err(|source| {
            let path = self.socket.clone();
            match source.kind() {
                ErrorKind::WouldBlock => RemoteError::NoAnswer { path, limit },
                _ => io_error("connecting to", &path)(source),
            }
        })?;
        Ok(Connection {
            path: self.socket.clone(),
            stream: BufReader::new(stream),
        })
    }

    /// What it manages, if it says so soon.
    fn target(&self) -> Option<String> {
        let mut connection = self.connect_within(NAME_TIME_MAX).ok()?;
        let status = connection.ask_within(&Request::Status {}, Some(NAME_TIME_MAX));
        Some(status.ok()?["target"].as_str()?.to_owned())
    }
}

fn list(all: &[Running]) -> String {
    if all.is_empty() {
        return "none".to_owned();
    }
    let names = all.iter().map(|running| match running.target() {
        Some(target) => format!("{} ({target})", running.id),
        None => running.id.clone(),
    });
    names.collect::<Vec<_>>().join(", ")
}

/// A connection to a running Strata.
#[derive(Debug)]
pub struct Connection {
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

impl Connection {
    /// Asks, and waits for the answer: an object. Evictions and commands take the time they take.
    ///
    /// # Errors
    /// [`RemoteError::Refused`] with the reason when it did not do it.
    pub fn ask(&mut self, request: &Request) -> Result<Value, RemoteError> {
        let limit = match request {
            Request::Evict { .. } | Request::Command { .. } => None,
            _ => Some(ANSWER_TIME_MAX),
        };
        self.ask_within(request, limit)
    }

    fn ask_within(
        &mut self,
        request: &Request,
        limit: Option<Duration>,
    ) -> Result<Value, RemoteError> {
        let line =
            self.exchange(request, limit)
                .map_err(|source| match (source.kind(), limit) {
                    (ErrorKind::WouldBlock | ErrorKind::TimedOut, Some(limit)) => {
                        RemoteError::NoAnswer {
                            path: self.path.clone(),
                            limit,
                        }
                    }
                    _ => io_error("talking to", &self.path)(source),
                })?;
        let garbled = |why: String| RemoteError::Garbled {
            path: self.path.clone(),
            why,
        };
        if line.is_empty() {
            return Err(garbled("it closed the connection".to_owned()));
        }
        let answer: Value =
            serde_json::from_str(&line).map_err(|error| garbled(error.to_string()))?;
        match (answer["ok"].as_bool(), answer["error"].as_str()) {
            (Some(true), _) => Ok(answer),
            (Some(false), Some(why)) => Err(RemoteError::Refused(why.to_owned())),
            _ => Err(garbled("it says neither yes nor no".to_owned())),
        }
    }

    fn exchange(&mut self, request: &Request, limit: Option<Duration>) -> io::Result<String> {
        let stream = self.stream.get_mut();
        stream.set_read_timeout(limit)?;
        stream.set_write_timeout(limit)?;
        stream.write_all(request.line().as_bytes())?;
        let mut line = String::new();
        Read::by_ref(&mut self.stream)
            .take(ANSWER_BYTES_MAX)
            .read_line(&mut line)?;
        Ok(line)
    }
}

/// Connects; `WouldBlock`: the queue of connections stayed full for the time to wait, or is full where none is given.
fn dial(socket: &Path, wait: Option<Duration>) -> io::Result<UnixStream> {
    let flags = match wait {
        None => SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        Some(_) => SocketFlags::CLOEXEC,
    };
    let stream = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    if let Some(limit) = wait {
        // It bounds connecting, too (unix(7)).
        set_socket_timeout(&stream, Timeout::Send, Some(limit))?;
    }
    net::connect(&stream, &SocketAddrUnix::new(socket)?)?;
    Ok(UnixStream::from(stream))
}

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RemoteError {
    let path = path.to_owned();
    move |source| RemoteError::Io { what, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::net::UnixListener;
    use std::thread;

    /// Plays a Strata that answers every line with `answer`.
    fn play(run_dir: &Path, id: &str, answer: &'static str) {
        let directory = run_dir.join(id);
        fs::create_dir(&directory).unwrap();
        let listener = UnixListener::bind(directory.join(SOCKET_NAME)).unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                let mut line = String::new();
                while stream.read_line(&mut line).is_ok_and(|count| count > 0) {
                    let _ = stream.get_mut().write_all(answer.as_bytes());
                }
            }
        });
    }

    #[test]
    fn the_only_one_needs_no_name_and_several_are_listed_with_what_they_manage() {
        let run_dir = tempfile::tempdir().unwrap();
        let find = |id| Running::find_in(run_dir.path(), id);
        assert!(matches!(find(None), Err(RemoteError::NoneRuns(_))));
        play(
            run_dir.path(),
            "11",
            "{\"ok\":true,\"target\":\"redis-server\"}\n",
        );
        assert_eq!(find(None).unwrap().id, "11");
        // What somebody who died left behind is not in the way.
        let dead = run_dir.path().join("10");
        fs::create_dir(&dead).unwrap();
        drop(UnixListener::bind(dead.join(SOCKET_NAME)).unwrap());
        assert_eq!(find(None).unwrap().id, "11");
        play(
            run_dir.path(),
            "12",
            "{\"ok\":true,\"target\":\"postgres\"}\n",
        );
        let several = find(None).unwrap_err().to_string();
        assert!(
            several.contains("--id: 11 (redis-server), 12 (postgres)"),
            "{several}"
        );
        assert_eq!(find(Some("12")).unwrap().id, "12");
        let missing = find(Some("13")).unwrap_err();
        assert_eq!(missing.exit_status(), 2);
        assert!(missing.to_string().contains("12 (postgres)"), "{missing}");
    }

    #[test]
    fn a_run_that_takes_no_connection_is_there_and_nobody_waits_for_it_without_a_bound() {
        let run_dir = tempfile::tempdir().unwrap();
        let directory = run_dir.path().join("1");
        fs::create_dir(&directory).unwrap();
        let socket = directory.join(SOCKET_NAME);
        let _listener = UnixListener::bind(&socket).unwrap();
        let mut queued = Vec::new();
        while let Ok(stream) = dial(&socket, None) {
            queued.push(stream);
        }
        let (found, is_found) = std::sync::mpsc::channel();
        let run_dir = run_dir.path().to_owned();
        // On a thread of its own, which a test that fails leaves behind.
        thread::spawn(move || {
            let running = Running::find_in(&run_dir, None).unwrap();
            found.send(running.connect_within(Duration::from_millis(20)))
        });
        let connected = is_found.recv_timeout(Duration::from_secs(60));
        let error = connected.expect("nobody hangs").unwrap_err();
        assert!(matches!(error, RemoteError::NoAnswer { .. }), "{error}");
    }

    #[test]
    fn an_answer_is_an_object_a_refusal_or_an_error_that_says_so() {
        let run_dir = tempfile::tempdir().unwrap();
        for (id, answer, expected) in [
            ("1", "{\"ok\":true,\"bytes\":7}\n", Ok(7)),
            (
                "2",
                "{\"ok\":false,\"error\":\"too small\"}\n",
                Err("too small"),
            ),
            ("3", "hello\n", Err("something else than a line of JSON")),
            ("4", "{}\n", Err("neither yes nor no")),
        ] {
            play(run_dir.path(), id, answer);
            let running = Running::find_in(run_dir.path(), Some(id)).unwrap();
            let answer = running.connect().unwrap().ask(&Request::Status {});
            match (answer, expected) {
                (Ok(answer), Ok(bytes)) => assert_eq!(answer["bytes"], bytes),
                (Err(error), Err(why)) => assert!(error.to_string().contains(why), "{error}"),
                (answer, expected) => panic!("{answer:?} is not {expected:?}"),
            }
        }
    }
}
