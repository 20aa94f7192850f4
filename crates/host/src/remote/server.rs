//! The thread that talks to clients, and the control loop's end of it.
//!
//! ```text
//!   server thread                                        control loop
//!     poll: sockets, wake-up   --Ask-->   [bounded]  --> take, at its next tick
//!                              <--text--             <-- answer
//! ```
//!
//! **Owns** the thread, both queues and both wake-ups, the socket's file, and when the metrics file is
//! written. **Does not own** what is said (`conversation`), nor any answer.
//!
//! **Invariants**
//! - S1: the thread waits in one place, and never for a client, the control loop or a lock.
//! - S2: what asks too often is turned away, not queued.

use super::MetricsConfig;
use super::SOCKET_NAME;
use super::conversation::Asked;
use super::pool::{ClientId, Listener, Pool};
use super::request::Request;
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

/// Questions on their way to the control loop.
const ASKS_MAX: usize = 32;
/// Taken by the control loop between two ticks.
const ASKS_PER_TICK: usize = 8;
/// Metrics younger than this are given again: who may reach the port can't keep the control loop busy.
const METRICS_FRESH: Duration = Duration::from_millis(250);
/// The file is written this often.
const TEXTFILE_EVERY: Duration = Duration::from_secs(15);
/// Longest wait, so that a clock that jumps does no harm.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// What the control loop is asked.
#[derive(Debug)]
pub(crate) enum Question {
    /// A client's request.
    Request(Request),
    /// The metrics, as text.
    Metrics,
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
        let socket = socket.map(Listener::Unix);
        let port = doors.port.map(Listener::Tcp);
        let (asks_in, asks) = sync_channel(ASKS_MAX);
        let (answers, answers_out) = channel();
        let new_event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map(Arc::new);
        let (asked, wake) = (new_event()?, new_event()?);
        let is_stopping = Arc::new(AtomicBool::new(false));
        let talker = Talker {
            pools: socket.into_iter().chain(port).map(Pool::new).collect(),
            asks: asks_in,
            answers: answers_out,
            asked: Arc::clone(&asked),
            wake: Arc::clone(&wake),
            is_stopping: Arc::clone(&is_stopping),
            next_id: 0,
            waiting_for_metrics: Vec::new(),
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

impl Drop for RemoteServer {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        signal(&self.wake);
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
        if let Some(socket) = &self.socket {
            let _removed = fs::remove_file(socket);
        }
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

/// The file for node_exporter.
#[derive(Debug)]
struct Textfile {
    path: PathBuf,
    due: Instant,
    is_asked: bool,
    has_failed: bool,
}

impl Textfile {
    fn new(path: PathBuf) -> Textfile {
        Textfile {
            path,
            due: Instant::now(),
            is_asked: false,
            has_failed: false,
        }
    }

    /// Readers see the old text or the new one, never a part.
    fn write(&self, text: &str) -> io::Result<()> {
        let draft = self.draft();
        fs::write(&draft, text)?;
        // The collector runs as somebody else.
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o644))?;
        fs::rename(&draft, &self.path)
    }

    /// The collector reads `*.prom`, so a draft must not end so.
    fn draft(&self) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.draft", std::process::id()));
        self.path.with_file_name(name)
    }

    /// Figures of a run that is over would be shown for ever.
    fn remove(&self) {
        let _removed = fs::remove_file(self.draft());
        let _removed = fs::remove_file(&self.path);
    }
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
    /// They get the answer to the question that is out.
    waiting_for_metrics: Vec<ClientId>,
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
            }
            self.pools = pools;
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
        let Some(textfile) = &mut self.textfile else {
            return;
        };
        if textfile.is_asked || now < textfile.due {
            return;
        }
        textfile.due = now + TEXTFILE_EVERY;
        textfile.is_asked = true;
        if !self.ask(ClientId::TEXTFILE, Asked::Metrics, now)
            && let Some(textfile) = &mut self.textfile
        {
            textfile.is_asked = false;
        }
    }

    fn wait(&mut self, now: Instant) {
        let textfile = self
            .textfile
            .as_ref()
            .filter(|of| !of.is_asked)
            .map(|of| of.due);
        let deadlines = self.pools.iter().filter_map(Pool::next_deadline);
        let next = deadlines.chain(textfile).min();
        let time = next.map_or(WAIT_MAX, |next| {
            next.saturating_duration_since(now).min(WAIT_MAX)
        });
        let timeout = Timespec {
            tv_sec: time.as_secs() as i64,
            tv_nsec: i64::from(time.subsec_nanos()),
        };
        let mut fds = vec![PollFd::new(&self.wake, PollFlags::IN)];
        for pool in &self.pools {
            pool.poll_fds(now, &mut fds);
        }
        let nr_ready = poll(&mut fds, Some(&timeout)).unwrap_or(0);
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
mod tests {
    use super::super::conversation::LINE_BYTES_MAX;
    use super::super::pool::CLIENTS_MAX;
    use super::*;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpStream;
    use std::os::unix::net::UnixStream;
    use std::thread;

    /// A server whose questions are answered with what was asked, by a thread that plays the loop.
    struct Stage {
        directory: tempfile::TempDir,
        address: SocketAddr,
        stop: Arc<AtomicBool>,
        control_loop: Option<JoinHandle<u64>>,
    }

    impl Stage {
        fn new(textfile: Option<PathBuf>) -> Stage {
            let directory = tempfile::tempdir().unwrap();
            let address = Some("127.0.0.1:0".parse().unwrap());
            let mut doors = Doors::open(&MetricsConfig { address, textfile }).unwrap();
            doors.open_socket(directory.path()).unwrap();
            let address = doors.metrics_address().unwrap();
            let mut server = RemoteServer::start(doors).unwrap();
            let stop = Arc::new(AtomicBool::new(false));
            let is_stopping = Arc::clone(&stop);
            let control_loop = thread::spawn(move || {
                let mut nr_scrapes = 0;
                while !is_stopping.load(Ordering::Relaxed) {
                    let timeout = Timespec {
                        tv_sec: 0,
                        tv_nsec: 5_000_000,
                    };
                    let fd = server.fd();
                    let _ = poll(
                        &mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)],
                        Some(&timeout),
                    );
                    for ask in server.take() {
                        let text = match ask.question {
                            Question::Request(request) => format!("{request:?}"),
                            Question::Metrics => {
                                nr_scrapes += 1;
                                "strata_x 1\n".to_owned()
                            }
                            Question::Trouble(why) => panic!("{why}"),
                        };
                        server.answer(ask.client, text);
                    }
                }
                nr_scrapes
            });
            Stage {
                directory,
                address,
                stop,
                control_loop: Some(control_loop),
            }
        }

        fn socket(&self) -> PathBuf {
            self.directory.path().join(SOCKET_NAME)
        }

        fn connect(&self) -> BufReader<UnixStream> {
            let stream = UnixStream::connect(self.socket()).unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(20)))
                .unwrap();
            BufReader::new(stream)
        }

        fn end(&mut self) -> u64 {
            self.stop.store(true, Ordering::Relaxed);
            self.control_loop.take().unwrap().join().unwrap()
        }
    }

    fn ask(client: &mut BufReader<UnixStream>, line: &[u8]) -> String {
        client.get_mut().write_all(line).unwrap();
        let mut answer = String::new();
        client.read_line(&mut answer).unwrap();
        answer
    }

    #[test]
    fn the_socket_is_its_owners_and_goes_with_the_server() {
        let mut stage = Stage::new(None);
        let mode = fs::metadata(stage.socket()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut client = stage.connect();
        assert_eq!(ask(&mut client, b"{\"request\":\"pause\"}\n"), "Pause\n");
        stage.end();
        assert!(!stage.socket().exists());
    }

    #[test]
    fn clients_that_hang_keep_nobody_from_being_answered() {
        let stage = Stage::new(None);
        let mut idle: Vec<_> = (0..CLIENTS_MAX).map(|_| stage.connect()).collect();
        for client in &mut idle {
            client.get_mut().write_all(b"{\"request\":").unwrap();
        }
        let mut client = stage.connect();
        assert_eq!(ask(&mut client, b"{\"request\":\"resume\"}\n"), "Resume\n");
        // The one that had been idle longest made room.
        let mut rest = String::new();
        assert_eq!(idle[0].read_to_string(&mut rest).unwrap_or(0), 0);
    }

    #[test]
    fn what_a_hostile_client_sends_harms_nobody_else() {
        let stage = Stage::new(None);
        let mut other = stage.connect();
        let noise: Vec<u8> = (0..100_000u32).map(|n| ((n * 7919) >> 3) as u8).collect();
        let long = vec![b'x'; 4 * LINE_BYTES_MAX];
        for bytes in [
            &noise[..],
            &long,
            b"\n\n\n\n",
            b"\0\0\0",
            b"{\"request\":\"status\"}\n",
        ] {
            let mut hostile = stage.connect();
            // It may be closed before all of it is written, and never reads an answer.
            let _ = hostile.get_mut().write_all(bytes);
            drop(hostile);
            assert_eq!(ask(&mut other, b"{\"request\":\"groups\"}\n"), "Groups\n");
        }
        let mut long_line = stage.connect();
        let _ = long_line.get_mut().write_all(&long);
        let mut refusal = String::new();
        let _ = long_line.read_line(&mut refusal);
        assert!(
            refusal.is_empty() || refusal.contains("longer than"),
            "{refusal}"
        );
    }

    #[test]
    fn the_metrics_port_answers_scrapes_and_nothing_else() {
        let mut stage = Stage::new(None);
        let say = |request: &str| {
            let mut stream = TcpStream::connect(stage.address).unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(20)))
                .unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        for _ in 0..50 {
            let answer = say("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            assert!(answer.ends_with("\r\n\r\nstrata_x 1\n"), "{answer}");
        }
        assert!(say("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        let command = "{\"request\":\"pause\"}\n\r\n\r\n";
        assert!(
            say(command).starts_with("HTTP/1.1 400"),
            "nothing can be changed from here"
        );
        // Those who reach the port can't make the control loop work for each of their requests.
        let nr_scrapes = stage.end();
        assert!((1..50).contains(&nr_scrapes), "{nr_scrapes}");
    }

    #[test]
    fn the_file_for_the_collector_is_whole_and_goes_with_the_run() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("strata.prom");
        let mut stage = Stage::new(Some(path.clone()));
        let deadline = Instant::now() + Duration::from_secs(20);
        while !path.exists() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "strata_x 1\n");
        stage.end();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn other_machines_get_no_metrics() {
        for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
            let address = Some(address.parse().unwrap());
            let metrics = MetricsConfig {
                address,
                textfile: None,
            };
            let error = Doors::open(&metrics).unwrap_err();
            assert!(error.to_string().contains("loopback"), "{error}");
        }
    }
}
