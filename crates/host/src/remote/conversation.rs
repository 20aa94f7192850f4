//! What is said with one client: bytes in, questions out; answers in, bytes out. No I/O and no clock.
//!
//! ```text
//!            whole line                answer               all written
//!   Reading ------------> Waiting ---------------> Writing -------------> Reading, or Over (HTTP,
//!      |   \___ no request: a refusal ____________/                       the client has ended)
//!      | too slow, too idle, too long
//!      v
//!     Over
//! ```
//!
//! **Owns** that order and its bounds. **Does not own** the connection (`pool`).
//!
//! **Invariants**
//! - V1: one question is out at a time; the next line is looked at when its answer is written.
//! - V2: no more than a line and what one read brings is kept.

use super::http::{self, Wanted};
use super::request::{Request, refuse};
use std::time::{Duration, Instant};

/// The longest line, its end not counted.
pub(super) const LINE_BYTES_MAX: usize = 64 << 10;
/// From the first byte of a line to its end.
pub(super) const LINE_TIME_MAX: Duration = Duration::from_secs(10);
/// Between two lines.
pub(super) const IDLE_TIME_MAX: Duration = Duration::from_secs(300);
/// For an answer to be taken.
pub(super) const WRITE_TIME_MAX: Duration = Duration::from_secs(10);

/// The language that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    /// Lines, on the control socket.
    Lines,
    /// HTTP, on the metrics port.
    Http,
}

/// What the control loop is asked on behalf of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// A request.
    Request(Request),
    /// The metrics.
    Metrics,
}

/// What the connection should wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interest {
    /// More from the client.
    Read,
    /// Room to write.
    Write,
    /// An answer of ours.
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Reading,
    Waiting,
    Writing,
    Over,
}

/// One client.
#[derive(Debug)]
pub(super) struct Conversation {
    language: Language,
    state: State,
    input: Vec<u8>,
    output: Vec<u8>,
    nr_written: usize,
    /// When the state, or the line being read, began.
    since: Instant,
    /// The client sends no more.
    has_ended: bool,
    /// Nothing is to follow what is being written.
    is_last: bool,
    /// Of HTTP: what was asked for.
    wanted: Wanted,
    /// The client went away while its question was out.
    has_left: bool,
}

impl Conversation {
    /// Nothing said yet.
    pub(super) fn new(language: Language, now: Instant) -> Conversation {
        Conversation {
            language,
            state: State::Reading,
            input: Vec::new(),
            output: Vec::new(),
            nr_written: 0,
            since: now,
            has_ended: false,
            is_last: language == Language::Http,
            wanted: Wanted::More,
            has_left: false,
        }
    }

    /// What the connection should wait for.
    pub(super) fn interest(&self) -> Interest {
        match self.state {
            State::Reading => Interest::Read,
            State::Writing => Interest::Write,
            State::Waiting | State::Over => Interest::Nothing,
        }
    }

    /// Whether the connection can be closed.
    pub(super) fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Whether an answer is awaited or being taken; others may be closed to make room.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.state, State::Waiting | State::Writing)
    }

    /// When the state began: who has been idle longest gives way first.
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    /// When the client will have taken too long; `None` while it waits for us.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let time = match self.state {
            State::Reading if self.input.is_empty() => IDLE_TIME_MAX,
            State::Reading => LINE_TIME_MAX,
            State::Writing => WRITE_TIME_MAX,
            State::Waiting | State::Over => return None,
        };
        Some(self.since + time)
    }

    /// Gives a client up that has taken too long.
    pub(super) fn mind_time(&mut self, now: Instant) {
        if self.deadline().is_some_and(|deadline| now >= deadline) {
            self.state = State::Over;
        }
    }

    /// Whether the client went away without the answer to the question that is out.
    pub(super) fn has_left(&self) -> bool {
        self.has_left
    }

    /// The connection failed.
    pub(super) fn fail(&mut self) {
        self.has_left |= self.state == State::Waiting;
        self.state = State::Over;
    }

    /// Takes what was read.
    pub(super) fn received(&mut self, bytes: &[u8], now: Instant) {
        if self.input.is_empty() && !bytes.is_empty() {
            self.since = now;
        }
        self.input.extend_from_slice(bytes);
    }

    /// The client sends no more; what it has asked is still answered.
    pub(super) fn ended(&mut self) {
        self.has_ended = true;
    }

    /// The next question, if a whole one has come. What is none is answered here.
    pub(super) fn next_question(&mut self, now: Instant) -> Option<Asked> {
        if self.state != State::Reading {
            return None;
        }
        let asked = match self.language {
            Language::Lines => self.next_line(now),
            Language::Http => self.next_scrape(now),
        };
        if asked.is_some() {
            self.enter(State::Waiting, now);
        } else if self.state == State::Reading && self.has_ended {
            self.state = State::Over;
        }
        asked
    }

    fn next_line(&mut self, now: Instant) -> Option<Asked> {
        let end = self.input.iter().position(|byte| *byte == b'\n');
        if end.unwrap_or(self.input.len()) > LINE_BYTES_MAX {
            self.is_last = true;
            let why = format!("the line is longer than {LINE_BYTES_MAX} bytes");
            self.write_line(&refuse(&why, None), now);
            return None;
        }
        let line: Vec<u8> = match end {
            Some(end) => self.input.drain(..=end).take(end).collect(),
            // A last line needs no end.
            None if self.has_ended && !self.input.is_empty() => std::mem::take(&mut self.input),
            None => return None,
        };
        match Request::parse(&line) {
            Ok(request) => Some(Asked::Request(request)),
            Err(error) => {
                self.write_line(&refuse(&error.to_string(), None), now);
                None
            }
        }
    }

    fn next_scrape(&mut self, now: Instant) -> Option<Asked> {
        self.wanted = http::wanted(&self.input);
        match self.wanted {
            Wanted::More => None,
            Wanted::Metrics | Wanted::MetricsHead => Some(Asked::Metrics),
            Wanted::Nothing(status) => {
                self.write(http::refusal(status), now);
                None
            }
        }
    }

    /// Takes the answer to the question that is out.
    pub(super) fn answer(&mut self, text: &str, now: Instant) {
        if self.state != State::Waiting {
            return;
        }
        match self.language {
            Language::Lines => self.write_line(text, now),
            Language::Http => self.write(http::metrics(text, self.wanted), now),
        }
    }

    /// The control loop has more questions than it takes.
    pub(super) fn turn_away(&mut self, now: Instant) {
        match self.language {
            Language::Lines => {
                let why = "too many requests are waiting; ask again later";
                self.write_line(&refuse(why, Some("EBUSY")), now);
            }
            Language::Http => self.write(http::refusal(http::Status::Busy), now),
        }
    }

    fn write_line(&mut self, line: &str, now: Instant) {
        self.write(format!("{line}\n").into_bytes(), now);
    }

    fn write(&mut self, bytes: Vec<u8>, now: Instant) {
        self.output = bytes;
        self.nr_written = 0;
        self.enter(State::Writing, now);
    }

    /// What is left to write.
    pub(super) fn unwritten(&self) -> &[u8] {
        match self.state {
            State::Writing => &self.output[self.nr_written..],
            _ => &[],
        }
    }

    /// Notes how many bytes of the output were written.
    pub(super) fn wrote(&mut self, nr_bytes: usize, now: Instant) {
        self.nr_written += nr_bytes;
        if self.state == State::Writing && self.nr_written >= self.output.len() {
            self.output = Vec::new();
            match self.is_last {
                true => self.state = State::Over,
                false => self.enter(State::Reading, now),
            }
        }
    }

    fn enter(&mut self, state: State, now: Instant) {
        self.state = state;
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines() -> (Conversation, Instant) {
        let now = Instant::now();
        (Conversation::new(Language::Lines, now), now)
    }

    fn said(talk: &mut Conversation, now: Instant) -> String {
        let bytes = talk.unwritten().to_vec();
        talk.wrote(bytes.len(), now);
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn lines_are_answered_in_turn_however_they_arrive() {
        let (mut talk, now) = lines();
        talk.received(b"{\"request\":\"pau", now);
        assert_eq!(talk.next_question(now), None);
        talk.received(b"se\"}\n+ 1 0 3\n{\"req", now);
        let first = talk.next_question(now);
        assert_eq!(first, Some(Asked::Request(Request::Pause {})));
        assert_eq!(
            talk.next_question(now),
            None,
            "the first waits for its answer"
        );
        talk.answer("{}", now);
        assert_eq!(said(&mut talk, now), "{}\n");
        let text = "+ 1 0 3".to_owned();
        let second = talk.next_question(now);
        assert_eq!(second, Some(Asked::Request(Request::Command { text })));
        talk.answer("{}", now);
        said(&mut talk, now);
        assert_eq!(talk.next_question(now), None);
        assert_eq!(talk.interest(), Interest::Read);
    }

    #[test]
    fn what_is_no_request_is_refused_and_the_talk_goes_on() {
        let (mut talk, now) = lines();
        talk.received(b"hello\n\xff\n{\"request\":\"status\"}\n", now);
        for _ in 0..2 {
            assert_eq!(talk.next_question(now), None);
            assert!(said(&mut talk, now).starts_with("{\"errno\":null,\"error\":"));
        }
        assert_eq!(
            talk.next_question(now),
            Some(Asked::Request(Request::Status {}))
        );
    }

    #[test]
    fn a_line_without_end_is_refused_and_the_talk_is_over() {
        let (mut talk, now) = lines();
        talk.received(&[b'{'; LINE_BYTES_MAX + 1], now);
        assert_eq!(talk.next_question(now), None);
        assert!(said(&mut talk, now).contains("longer than 65536 bytes"));
        assert!(talk.is_over());
    }

    #[test]
    fn a_last_line_needs_no_end() {
        let (mut talk, now) = lines();
        talk.received(b"{\"request\":\"status\"}", now);
        talk.ended();
        assert_eq!(
            talk.next_question(now),
            Some(Asked::Request(Request::Status {}))
        );
        talk.answer("{}", now);
        said(&mut talk, now);
        assert_eq!(talk.next_question(now), None);
        assert!(talk.is_over());
    }

    #[test]
    fn a_client_that_sends_byte_by_byte_gets_no_more_time_for_it() {
        let (mut talk, start) = lines();
        for second in 0..10 {
            let now = start + Duration::from_secs(second);
            talk.received(b"{", now);
            talk.mind_time(now);
            assert!(!talk.is_over(), "{second} s");
        }
        talk.mind_time(start + LINE_TIME_MAX);
        assert!(talk.is_over());
    }

    #[test]
    fn a_client_that_does_not_take_its_answer_is_given_up() {
        let (mut talk, now) = lines();
        talk.received(b"{\"request\":\"status\"}\n", now);
        talk.next_question(now);
        talk.mind_time(now + Duration::from_secs(3600));
        assert!(!talk.is_over(), "it waits for us");
        talk.answer(&"x".repeat(1000), now);
        talk.wrote(10, now);
        talk.mind_time(now + WRITE_TIME_MAX);
        assert!(talk.is_over());
    }

    #[test]
    fn a_scrape_is_answered_once() {
        let now = Instant::now();
        let mut talk = Conversation::new(Language::Http, now);
        talk.received(
            b"GET /metrics HTTP/1.1\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n",
            now,
        );
        assert_eq!(talk.next_question(now), Some(Asked::Metrics));
        talk.answer("strata_x 1\n", now);
        assert!(said(&mut talk, now).starts_with("HTTP/1.1 200 OK\r\n"));
        assert!(talk.is_over());
    }

    proptest! {
        #[test]
        fn no_client_gets_a_talk_out_of_step(
            pieces in prop::collection::vec(prop_oneof![
                Just(b"{\"request\":\"status\"}\n".to_vec()),
                Just(b"GET /metrics HTTP/1.1\r\n\r\n".to_vec()),
                prop::collection::vec(any::<u8>(), 0..40),
                Just(vec![b'a'; LINE_BYTES_MAX / 2]),
            ], 0..12),
            is_http in any::<bool>(),
            taken in 1..70usize,
        ) {
            let now = Instant::now();
            let language = if is_http { Language::Http } else { Language::Lines };
            let mut talk = Conversation::new(language, now);
            for piece in pieces {
                if talk.interest() == Interest::Read {
                    talk.received(&piece, now);
                }
                if talk.next_question(now).is_some() {
                    prop_assert_eq!(talk.next_question(now), None);
                    prop_assert_eq!(talk.interest(), Interest::Nothing);
                    talk.answer("an answer", now);
                }
                let nr_bytes = talk.unwritten().len().min(taken);
                talk.wrote(nr_bytes, now);
                prop_assert!(talk.input.len() <= 2 * LINE_BYTES_MAX);
            }
        }
    }
}
