//! What a client of the control socket, or of the metrics port, can send.
//!
//! The sources of the talk are compiled in by path: they do no I/O, so the rest of `strata-host` and
//! its BPF programs are not needed here.
//!
//! **Owns** the property: whatever comes, in whatever pieces and however slowly it is read, a talk asks
//! one question at a time, answers in whole lines, keeps within its bounds, and ends when the client
//! does or takes too long. **Does not own** the talk.

#[path = "../../crates/host/src/remote/conversation.rs"]
mod conversation;
#[path = "../../crates/host/src/remote/http.rs"]
mod http;
#[path = "../../crates/host/src/remote/request.rs"]
mod request;

use std::time::{Duration, Instant};

use conversation::{Asked, Conversation, IDLE_TIME_MAX, Interest, Language, WRITE_TIME_MAX};
use request::{Request, accept};
use serde_json::{Value, json};

/// Turns of a talk that are looked at.
const TURNS_MAX: usize = 5_000;

/// Plays a client: each piece of `data` begins with a byte that says what is done with how much.
pub fn talk(data: &[u8]) {
    let Some((choice, mut rest)) = data.split_first() else {
        return;
    };
    let language = match choice & 1 {
        0 => Language::Lines,
        _ => Language::Http,
    };
    let mut now = Instant::now();
    let mut client = Client::new(language, now);
    for _ in 0..TURNS_MAX {
        let Some((&step, after)) = rest.split_first() else {
            break;
        };
        let (length, after) = match after.split_first() {
            Some((&length, after)) => (usize::from(length), after),
            None => (0, after),
        };
        let (piece, after) = after.split_at(length.min(after.len()));
        rest = after;
        match step % 8 {
            // The same again and again, so that a few bytes of input make a long line.
            0 => client.send(&piece.repeat(1 + usize::from(step) * 16), now),
            1 => client.take(length, now),
            2 => now += Duration::from_secs(length as u64),
            3 => client.is_answered(now),
            4 => client.is_turned_away(now),
            5 if step == 5 => return client.hang_up(),
            _ => client.send(piece, now),
        }
        client.mind(now);
        client.look(now);
    }
    client.end(now);
}

/// The far end of a talk, and what it has a right to.
struct Client {
    language: Language,
    talk: Conversation,
    is_asking: bool,
    heard: Vec<u8>,
}

impl Client {
    fn new(language: Language, now: Instant) -> Client {
        Client {
            language,
            talk: Conversation::new(language, now),
            is_asking: false,
            heard: Vec::new(),
        }
    }

    fn send(&mut self, bytes: &[u8], now: Instant) {
        // As the pool does: nothing is read from somebody who is not listened to.
        for piece in bytes.chunks(16 << 10) {
            if self.talk.interest() == Interest::Read {
                self.talk.received(piece, now);
                self.look(now);
            }
        }
    }

    /// The next question, if there is one.
    fn look(&mut self, now: Instant) {
        let Some(asked) = self.talk.next_question(now) else {
            return;
        };
        assert!(!self.is_asking, "one question at a time");
        self.is_asking = true;
        assert_eq!(self.talk.next_question(now), None);
        assert_eq!(self.talk.interest(), Interest::Nothing);
        match (self.language, asked) {
            (Language::Lines, Asked::Request(request)) => {
                let line = request.line();
                assert_eq!(line.matches('\n').count(), 1);
                assert_eq!(Request::parse(line.as_bytes()), Ok(request));
            }
            (Language::Http, Asked::Metrics) => {}
            (_, asked) => panic!("{asked:?} can't be asked for in this language"),
        }
    }

    fn is_answered(&mut self, now: Instant) {
        if std::mem::take(&mut self.is_asking) {
            self.talk.answer(&accept(&json!({ "bytes": 1 })), now);
        }
    }

    fn is_turned_away(&mut self, now: Instant) {
        if std::mem::take(&mut self.is_asking) {
            self.talk.turn_away(now);
        }
    }

    /// Time is up for those who take too long, and for nobody who waits for us.
    fn mind(&mut self, now: Instant) {
        let longest = IDLE_TIME_MAX.max(WRITE_TIME_MAX);
        let deadline = self.talk.deadline();
        assert!(self.talk.since() <= now);
        assert!(deadline.is_none_or(|deadline| deadline <= now + longest));
        assert!(!self.is_asking || deadline.is_none() && self.talk.is_busy());
        self.talk.mind_time(now);
        assert_eq!(self.talk.is_over() && self.is_asking, false);
    }

    fn hang_up(mut self) {
        self.talk.fail();
        assert!(self.talk.is_over() && self.talk.interest() == Interest::Nothing);
        assert!(self.talk.unwritten().is_empty());
    }

    /// Reads a little of what is being written.
    fn take(&mut self, count: usize, now: Instant) {
        let count = count.min(self.talk.unwritten().len());
        self.heard
            .extend_from_slice(&self.talk.unwritten()[..count]);
        self.talk.wrote(count, now);
    }

    /// The client sends no more, takes everything, and the talk is over.
    fn end(mut self, now: Instant) {
        self.talk.ended();
        // Each turn ends a line at least, of which no more fit into what is kept.
        for _ in 0..200_000 {
            self.look(now);
            self.is_answered(now);
            self.take(usize::MAX, now);
            if self.talk.is_over() {
                break;
            }
        }
        assert!(self.talk.is_over(), "it goes on for ever");
        if self.language == Language::Lines {
            for line in self.heard.split_inclusive(|byte| *byte == b'\n') {
                let is_whole = line.ends_with(b"\n");
                let answer: Value = match serde_json::from_slice(line) {
                    Ok(answer) => answer,
                    Err(_) if !is_whole => break,
                    Err(error) => panic!("{error}: {}", String::from_utf8_lossy(line)),
                };
                assert!(answer["ok"].is_boolean(), "{answer}");
            }
        }
    }
}
