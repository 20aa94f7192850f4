//! The thread that talks to clients, and the control loop's end of it.
//!
//! ```text
//!   server thread                                        control loop
//!     poll: sockets, wake-up   --Ask-->   [bounded]  --> take, at its next tick
//!                              <--text--             <-- answer
//! ```
//!
//! **Owns** the thread, both queues and both wake-ups, and the socket's file. **Does not own** what is said
//! (`conversation`), nor any answer, nor the metrics file (`textfile`).
//!
//! **Invariants**
//! - S1: the thread waits in one place, and never for a client, the control loop or a lock.
//! - S2: what asks too often is turned away, not queued.

use super::MetricsConfig;
use super::conversation::{Asked, Language};
use super::pool::{ClientId, Pool};
use super::request::Request;
use super::textfile::Textfile;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use strata_linux::run_dir::SOCKET_NAME;

/// Questions on their way to the control loop.
const ASKS_MAX: usize = 32;
/// Taken by the control loop between two ticks.
const ASKS_PER_TICK: usize = 8;
/// Metrics younger than this are given again: who may reach the port can't keep the control loop busy.
const METRICS_FRESH: Duration = Duration::from_millis(250);
/// What the control loop had no room for is offered again after this.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// The end of the thread is not waited for any longer.
const END_WAIT_MAX: Duration = Duration::from_secs(2);
const END_POLL: Duration = Duration::from_millis(2);
/// Longest wait, so that a clock that jumps does no harm.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// What the control loop is asked.
#[derive(Debug)]
pub(crate) enum Question {
    /// A client's request.
    Request(Request),
    /// The metrics, as text.
    Metrics,
    /// Nothing: this client has gone, and what it asked need not go on.
    Left,
    /// Nothing: the metrics file can't be written, and why.
    Trouble(String),
}

/// A question and whom the answer goes to.
#[derive(Debug)]
pub(crate) struct Ask {
    /// For [`RemoteServer::answer`].
    pub(crate) client: ClientId,
    /// What.
    pub(crate) question: Question,
}

/// The control loop's end.
#[derive(Debug)]
pub(crate) struct RemoteServer {
    asks: Receiver<Ask>,
    answers: Sender<(ClientId, String)>,
    asked: Arc<OwnedFd>,
    wake: Arc<OwnedFd>,
    is_stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    socket: Option<PathBuf>,
}

/// Where clients come in, opened before anything is started: what can't be had is found out then.
#[derive(Debug, Default)]
pub(crate) struct Doors {
    socket: Option<(UnixListener, PathBuf)>,
    port: Option<TcpListener>,
    textfile: Option<PathBuf>,
}

impl Doors {
    /// Opens the metrics port, if one is wanted.
    pub(crate) fn open(metrics: &MetricsConfig) -> io::Result<Doors> {
        Ok(Doors {
            socket: None,
            port: metrics.address.map(open_port).transpose()?,
            textfile: metrics.textfile.clone(),
        })
    }

    /// Opens the control socket in `directory`.
    pub(crate) fn open_socket(&mut self, directory: &Path) -> io::Result<()> {
        let path = directory.join(SOCKET_NAME);
        let listener = UnixListener::bind(&path)?;
        listener.set_nonblocking(true)?;
        // Nobody else gets this far meanwhile: the directory is the owner's alone.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        self.socket = Some((listener, path));
        Ok(())
    }

    /// Where metrics are answered, the port chosen by the system included.
    pub(crate) fn metrics_address(&self) -> Option<SocketAddr> {
        self.port.as_ref().and_then(|port| port.local_addr().ok())
    }
}

impl RemoteServer {
    /// Starts the thread.
    pub(crate) fn start(doors: Doors) -> io::Result<RemoteServer> {
        let (socket, path) = doors.socket.unzip();
        let socket = socket.map(|socket| Pool::new(socket, Language::Lines));
        let port = doors.port.map(|port| Pool::new(port, Language::Http));
        let (asks_in, asks) = sync_channel(ASKS_MAX);
        let (answers, answers_out) = channel();
        let new_event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map(Arc::new);
        let (asked, wake) = (new_event()?, new_event()?);
        let is_stopping = Arc::new(AtomicBool::new(false));
        let talker = Talker {
            pools: socket.into_iter().chain(port).collect(),
            asks: asks_in,
            answers: answers_out,
            asked: Arc::clone(&asked),
            wake: Arc::clone(&wake),
            is_stopping: Arc::clone(&is_stopping),
            next_id: 0,
            waiting_for_metrics: Vec::new(),
            left: Vec::new(),
            metrics: None,
            textfile: doors.textfile.map(Textfile::new),
        };
        let thread = std::thread::Builder::new()
            .name("strata-remote".to_owned())
            .spawn(move || talker.run())?;
        Ok(RemoteServer {
            asks,
            answers,
            asked,
            wake,
            is_stopping,
            thread: Some(thread),
            socket: path,
        })
    }

    /// Readable while questions wait.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.asked.as_fd()
    }

    /// The questions of this tick; more stay for the next, which comes at once.
    pub(crate) fn take(&mut self) -> Vec<Ask> {
        // Emptied first: a question that comes in between makes it readable again.
        let mut count = [0; 8];
        let _read = rustix::io::read(&self.asked, &mut count);
        let asks: Vec<Ask> = self.asks.try_iter().take(ASKS_PER_TICK).collect();
        if asks.len() == ASKS_PER_TICK {
            signal(&self.asked);
        }
        asks
    }

    /// Answers a question.
    pub(crate) fn answer(&self, client: ClientId, text: String) {
        // It fails when the thread has panicked, and then nobody waits for the answer.
        let _sent = self.answers.send((client, text));
        signal(&self.wake);
    }
}

impl RemoteServer {
    /// Ends the thread. Returns what to say where it does not end in time: it may hang in writing the metrics file.
    pub(crate) fn stop(mut self) -> Option<String> {
        self.end()
    }

    fn end(&mut self) -> Option<String> {
        let thread = self.thread.take()?;
        self.is_stopping.store(true, Ordering::Relaxed);
        signal(&self.wake);
        if let Some(socket) = &self.socket {
            let _removed = fs::remove_file(socket);
        }
        let deadline = Instant::now() + END_WAIT_MAX;
        while !thread.is_finished() {
            if Instant::now() > deadline {
                return Some(format!(
                    "the thread that answers clients and writes the metrics file did not end within {} s and is left: the file \
                     system of the file may hang",
                    END_WAIT_MAX.as_secs()
                ));
            }
            std::thread::sleep(END_POLL);
        }
        let _ended = thread.join();
        None
    }
}

impl Drop for RemoteServer {
    fn drop(&mut self) {
        let _told = self.end();
    }
}

fn open_port(address: SocketAddr) -> io::Result<TcpListener> {
    if !address.ip().is_loopback() {
        let why = format!("{address} is no loopback address: metrics are not for other machines");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn signal(event: &OwnedFd) {
    // Full (2^64 - 1 signals) can't happen.
    let _written = rustix::io::write(event, &1u64.to_ne_bytes());
}

/// The thread's side.
#[derive(Debug)]
struct Talker {
    pools: Vec<Pool>,
    asks: SyncSender<Ask>,
    answers: Receiver<(ClientId, String)>,
    asked: Arc<OwnedFd>,
    wake: Arc<OwnedFd>,
    is_stopping: Arc<AtomicBool>,
    next_id: u64,
    /// Clients that get the answer to the question that is out.
    waiting_for_metrics: Vec<ClientId>,
    /// The control loop does not know yet that they have gone.
    left: Vec<ClientId>,
    metrics: Option<(Instant, String)>,
    textfile: Option<Textfile>,
}

impl Talker {
    fn run(mut self) {
        while !self.is_stopping.load(Ordering::Relaxed) {
            let now = Instant::now();
            self.deliver(now);
            self.mind_textfile(now);
            let mut pools = std::mem::take(&mut self.pools);
            for pool in &mut pools {
                let mut next_id = self.next_id;
                pool.serve(now, &mut next_id, &mut |client, asked| {
                    self.ask(client, asked, now)
                });
                self.next_id = next_id;
                self.left.append(&mut pool.left);
            }
            self.pools = pools;
            self.tell_of_left();
            // Fresh metrics are answered from here, without a question.
            if !self.deliver_fresh_metrics(now) {
                self.wait(now);
            }
        }
        if let Some(textfile) = &self.textfile {
            textfile.remove();
        }
    }

    fn ask(&mut self, client: ClientId, asked: Asked, now: Instant) -> bool {
        let question = match asked {
            Asked::Request(request) => Question::Request(request),
            Asked::Metrics => {
                self.waiting_for_metrics.push(client);
                if self.waiting_for_metrics.len() > 1 || self.has_fresh_metrics(now) {
                    return true;
                }
                Question::Metrics
            }
        };
        let is_metrics = matches!(question, Question::Metrics);
        let is_taken = self.asks.try_send(Ask { client, question }).is_ok();
        if !is_taken && is_metrics {
            self.waiting_for_metrics.pop();
        }
        signal(&self.asked);
        is_taken
    }

    fn tell_of_left(&mut self) {
        while let Some(&client) = self.left.last() {
            let question = Question::Left;
            if self.asks.try_send(Ask { client, question }).is_err() {
                break;
            }
            self.left.pop();
            signal(&self.asked);
        }
    }

    fn has_fresh_metrics(&self, now: Instant) -> bool {
        let then = self.metrics.as_ref().map(|(then, _)| *then);
        then.is_some_and(|then| now.duration_since(then) < METRICS_FRESH)
    }

    /// Whether anybody was given any.
    fn deliver_fresh_metrics(&mut self, now: Instant) -> bool {
        if self.waiting_for_metrics.is_empty() || !self.has_fresh_metrics(now) {
            return false;
        }
        let text = self
            .metrics
            .as_ref()
            .map(|(_, text)| text.clone())
            .unwrap_or_default();
        for client in std::mem::take(&mut self.waiting_for_metrics) {
            self.hand_over(client, &text, now);
        }
        true
    }

    fn deliver(&mut self, now: Instant) {
        let mut count = [0; 8];
        let _read = rustix::io::read(&self.wake, &mut count);
        let answers: Vec<(ClientId, String)> = self.answers.try_iter().collect();
        for (client, text) in answers {
            if self.waiting_for_metrics.contains(&client) {
                self.metrics = Some((now, text));
                self.deliver_fresh_metrics(now);
            } else {
                self.hand_over(client, &text, now);
            }
        }
    }

    fn hand_over(&mut self, client: ClientId, text: &str, now: Instant) {
        match (&mut self.textfile, client) {
            (Some(textfile), ClientId::TEXTFILE) => {
                textfile.is_asked = false;
                if let Err(error) = textfile.write(text)
                    && !std::mem::replace(&mut textfile.has_failed, true)
                {
                    let path = textfile.path.display();
                    let why = format!("the metrics can't be written to {path}: {error}");
                    let question = Question::Trouble(why);
                    let _sent = self.asks.try_send(Ask { client, question });
                    signal(&self.asked);
                }
            }
            _ => {
                for pool in &mut self.pools {
                    pool.answer(client, text, now);
                }
            }
        }
    }

    fn mind_textfile(&mut self, now: Instant) {
        let is_due = |textfile: &mut Textfile| textfile.fall_due(now);
        if !self.textfile.as_mut().is_some_and(is_due) {
            return;
        }
        if !self.ask(ClientId::TEXTFILE, Asked::Metrics, now)
            && let Some(textfile) = &mut self.textfile
        {
            textfile.is_asked = false;
        }
    }

    fn wait(&mut self, now: Instant) {
        let textfile = self.textfile.as_ref().and_then(Textfile::due);
        let deadlines = self.pools.iter().filter_map(Pool::next_deadline);
        let retry = (!self.left.is_empty()).then(|| now + RETRY_PAUSE);
        let next = deadlines.chain(textfile).chain(retry).min();
        let time = next.map_or(WAIT_MAX, |next| {
            next.saturating_duration_since(now).min(WAIT_MAX)
        });
        let timeout = Timespec::try_from(time).ok();
        let mut fds = vec![PollFd::new(&self.wake, PollFlags::IN)];
        for pool in &self.pools {
            pool.poll_fds(now, &mut fds);
        }
        let nr_ready = poll(&mut fds, timeout.as_ref()).unwrap_or(0);
        let ready: Vec<PollFlags> = fds.iter().skip(1).map(PollFd::revents).collect();
        if nr_ready > 0 {
            let mut ready = ready.as_slice();
            for pool in &mut self.pools {
                ready = pool.note_ready(ready);
            }
        }
    }
}

#[cfg(test)]
mod tests;
