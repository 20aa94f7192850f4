//! Whose turn it is: streams of accesses one after the other, then again, one alone, or as a user of apps takes them.
//!
//! **Owns** turns. **Does not own** which streams there are (`mod`), their pages (`sequence`), nor the user (`apps`).

use super::{apps::User, rng::Rng, sequence::Sequence};
use crate::access::{Access, Op};

/// Streams that take turns.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    streams: Vec<Stream>,
    current: usize,
    nr_left_in_turn: u64,
    then: AfterTurns,
}

/// What comes once each stream has had a turn.
#[derive(Clone, Debug)]
pub(super) enum AfterTurns {
    TurnsAgain,
    /// This one goes on.
    Alone(usize),
    /// A turn is an access of the app in front.
    User(User),
}

/// One sequence as accesses.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) sequence: Sequence,
    pub(super) like: Access,
    pub(super) turn_accesses: u64,
    /// From one page to the next.
    pub(super) stride_pages: u64,
    pub(super) write_percent: u32,
    pub(super) writes: Rng,
}

impl Turns {
    /// The first of these streams, at least one, has its turn.
    pub(super) fn new(streams: Vec<Stream>, then: AfterTurns) -> Turns {
        Turns {
            nr_left_in_turn: streams[0].turn_accesses,
            streams,
            current: 0,
            then,
        }
    }

    pub(super) fn next_access(&mut self) -> Access {
        if self.nr_left_in_turn == 0 {
            self.current = (self.current + 1) % self.streams.len();
            self.nr_left_in_turn = self.streams[self.current].turn_accesses;
            match &mut self.then {
                AfterTurns::Alone(asked) if self.current == 0 => {
                    (self.current, self.nr_left_in_turn) = (*asked, u64::MAX);
                }
                AfterTurns::User(user) if self.current == 0 || user.has_begun() => {
                    (self.current, self.nr_left_in_turn) = (user.next_stream(), 1);
                }
                _ => {}
            }
        }
        self.nr_left_in_turn -= 1;
        self.streams[self.current].next_access()
    }
}

impl Stream {
    fn next_access(&mut self) -> Access {
        let mut access = self.like;
        access.key.page = u64::from(self.sequence.next_page()) * self.stride_pages;
        if self.write_percent > 0 && self.writes.below(100) < self.write_percent {
            access.op = Op::Write;
        }
        access
    }
}
