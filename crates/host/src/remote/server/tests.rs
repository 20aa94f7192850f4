//! The server against clients that behave and clients that do not.

use super::super::pool::CLIENTS_MAX;
use super::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU64;
use std::thread;

/// A server whose questions are answered with what was asked, by a thread that plays the loop.
struct Stage {
    directory: tempfile::TempDir,
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    nr_left: Arc<AtomicU64>,
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
        let nr_left = Arc::new(AtomicU64::new(0));
        let count_left = Arc::clone(&nr_left);
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
                        // Takes long, and nothing is heard of it.
                        Question::Request(Request::Evict { .. }) => continue,
                        Question::Request(request) => format!("{request:?}"),
                        Question::Left => {
                            count_left.fetch_add(1, Ordering::Relaxed);
                            continue;
                        }
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
            nr_left,
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
fn a_client_that_leaves_before_its_answer_is_told_of() {
    let stage = Stage::new(None);
    let mut other = stage.connect();
    let mut leaves = stage.connect();
    let order = b"{\"request\":\"evict\",\"bytes\":4096}\n";
    leaves.get_mut().write_all(order).unwrap();
    // It has been read when what came behind it is answered.
    assert_eq!(ask(&mut other, b"{\"request\":\"pause\"}\n"), "Pause\n");
    drop(leaves);
    let deadline = Instant::now() + Duration::from_secs(20);
    while stage.nr_left.load(Ordering::Relaxed) == 0 && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(stage.nr_left.load(Ordering::Relaxed), 1);
    drop(other);
    assert_eq!(
        ask(&mut stage.connect(), b"{\"request\":\"resume\"}\n"),
        "Resume\n"
    );
    assert_eq!(
        stage.nr_left.load(Ordering::Relaxed),
        1,
        "who had its answer has not left"
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
