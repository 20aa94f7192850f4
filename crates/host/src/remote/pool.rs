//! The connections of one listener: accepting, reading and writing, none of which ever waits.
//!
//! **Owns** the listener, its connections and their number. **Does not own** what is said
//! (`conversation`) nor the waiting (`server`).

use super::conversation::{Asked, Conversation, Interest, Language};
use rustix::event::{PollFd, PollFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{SocketFlags, accept_with};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Connections of one listener.
pub(super) const CLIENTS_MAX: usize = 16;
/// Read at a time.
const READ_BYTES: usize = 16 << 10;
/// After connections could not be accepted (no descriptors left, most of all).
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Names a connection; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientId(pub(crate) u64);

impl ClientId {
    /// The server itself, which writes a file.
    pub(super) const TEXTFILE: ClientId = ClientId(0);
}

#[derive(Debug)]
struct Client {
    id: ClientId,
    connection: OwnedFd,
    talk: Conversation,
    /// Set by the last wait.
    is_ready: bool,
}

/// A listener with its connections.
#[derive(Debug)]
pub(super) struct Pool {
    listener: OwnedFd,
    /// What is spoken with who comes in.
    language: Language,
    clients: Vec<Client>,
    /// Clients that have gone: nobody waits for the answers to what they asked.
    pub(super) left: Vec<ClientId>,
    accepts_from: Option<Instant>,
}

impl Pool {
    /// A pool to which nobody is connected; the listener must not block.
    pub(super) fn new(listener: impl Into<OwnedFd>, language: Language) -> Pool {
        Pool {
            listener: listener.into(),
            language,
            clients: Vec::new(),
            left: Vec::new(),
            accepts_from: None,
        }
    }

    /// What is to be waited for.
    pub(super) fn poll_fds<'a>(&'a self, now: Instant, fds: &mut Vec<PollFd<'a>>) {
        let accepts = self.accepts_from.is_none_or(|from| now >= from);
        let wanted = if accepts {
            PollFlags::IN
        } else {
            PollFlags::empty()
        };
        fds.push(PollFd::new(&self.listener, wanted));
        for client in &self.clients {
            let wanted = match client.talk.interest() {
                Interest::Read => PollFlags::IN,
                Interest::Write => PollFlags::OUT,
                // That it hangs up is told all the same.
                Interest::Nothing => PollFlags::empty(),
            };
            fds.push(PollFd::new(&client.connection, wanted));
        }
    }

    /// Notes what the wait found, `ready` being the flags in the order of [`Pool::poll_fds`]; returns
    /// the rest.
    pub(super) fn note_ready<'a>(&mut self, ready: &'a [PollFlags]) -> &'a [PollFlags] {
        let ready = ready.get(1..).unwrap_or_default();
        for (client, flags) in self.clients.iter_mut().zip(ready) {
            client.is_ready = !flags.is_empty();
            let has_hung_up = flags.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
            if has_hung_up && client.talk.interest() == Interest::Nothing {
                client.talk.fail();
            }
        }
        ready.get(self.clients.len()..).unwrap_or_default()
    }

    /// The next moment at which somebody has taken too long, or accepting is tried again.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let deadlines = self
            .clients
            .iter()
            .filter_map(|client| client.talk.deadline());
        deadlines.chain(self.accepts_from).min()
    }

    /// Reads, writes and accepts what can be without waiting; questions go to `ask`, which gives back
    /// `false` for one too many.
    pub(super) fn serve(
        &mut self,
        now: Instant,
        next_id: &mut u64,
        ask: &mut dyn FnMut(ClientId, Asked) -> bool,
    ) {
        self.accept(now, next_id);
        for client in &mut self.clients {
            client.talk.mind_time(now);
            client.exchange(now, ask);
        }
        let left = self.clients.iter().filter(|client| client.talk.has_left());
        self.left.extend(left.map(|client| client.id));
        self.clients.retain(|client| !client.talk.is_over());
    }

    /// Gives a client its answer; one that is gone needs none.
    pub(super) fn answer(&mut self, id: ClientId, text: &str, now: Instant) {
        if let Some(client) = self.clients.iter_mut().find(|client| client.id == id) {
            client.talk.answer(text, now);
        }
    }

    fn accept(&mut self, now: Instant, next_id: &mut u64) {
        if self.accepts_from.is_some_and(|from| now < from) {
            return;
        }
        self.accepts_from = None;
        // No more than fit, so that one busy listener never keeps the rest from being served.
        for _ in 0..CLIENTS_MAX {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match retry_on_intr(|| accept_with(&self.listener, flags)) {
                Ok(connection) => {
                    if !self.has_room() {
                        // Closed unheard: everybody else is waiting for us.
                        continue;
                    }
                    *next_id += 1;
                    self.clients.push(Client {
                        id: ClientId(*next_id),
                        connection,
                        talk: Conversation::new(self.language, now),
                        is_ready: true,
                    });
                }
                Err(Errno::AGAIN) => return,
                Err(error) => {
                    tracing::debug!("a connection was not accepted: {error}");
                    self.accepts_from = Some(now + ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    /// Makes room by closing the connection that has been idle longest, if it must.
    fn has_room(&mut self) -> bool {
        if self.clients.len() < CLIENTS_MAX {
            return true;
        }
        let idle = self
            .clients
            .iter()
            .enumerate()
            .filter(|(_, client)| !client.talk.is_busy());
        let longest = idle
            .min_by_key(|(_, client)| client.talk.since())
            .map(|(at, _)| at);
        if let Some(at) = longest {
            self.clients.remove(at);
        }
        longest.is_some()
    }
}

impl Client {
    fn exchange(&mut self, now: Instant, ask: &mut dyn FnMut(ClientId, Asked) -> bool) {
        if std::mem::take(&mut self.is_ready) && self.talk.interest() == Interest::Read {
            self.read(now);
        }
        // Each turn either waits for an answer, or has been refused one: few fit into what was read.
        loop {
            self.write(now);
            if self.talk.interest() != Interest::Read {
                return;
            }
            match self.talk.next_question(now) {
                Some(asked) => {
                    if !ask(self.id, asked) {
                        self.talk.turn_away(now);
                    }
                }
                None if self.talk.interest() == Interest::Write => {}
                None => return,
            }
        }
    }

    fn read(&mut self, now: Instant) {
        let mut buffer = [0; READ_BYTES];
        match rustix::io::read(&self.connection, &mut buffer) {
            Ok(0) => self.talk.ended(),
            Ok(count) => self.talk.received(&buffer[..count], now),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.talk.fail(),
        }
    }

    fn write(&mut self, now: Instant) {
        while !self.talk.unwritten().is_empty() {
            match rustix::io::write(&self.connection, self.talk.unwritten()) {
                Ok(count) => self.talk.wrote(count, now),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.talk.fail(),
            }
        }
    }
}
