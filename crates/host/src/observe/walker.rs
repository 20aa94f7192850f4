//! The thread that walks spaces, one after the other, so that whoever asks for it never waits for a process.
//!
//! ```text
//!   owner:  ask -> [one look] -> thread: look -> [told, a few batches] -> owner: next
//! ```
//!
//! A call into the kernel that takes a lock of a process may wait for as long as that process pleases, and can't be broken
//! off. A thread that stands still in one for too long is given up, and the owner starts another one. It ends by itself
//! once the call comes back.
//!
//! **Owns** the thread and what it tells. **Does not own** the walk (`look`), nor what follows for the
//! process whose walk stood still (`observe`).
//!
//! **Invariants**
//! - I1: one look at a time. What is told belongs to the look that was asked for last.

use super::pieces::{Listener, Piece, Visitor};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use strata_linux::access::{AccessError, TableRecord};
use strata_linux::addr::TableNo;
use strata_linux::process::Mapping;
use strata_linux::standstill::{Standstill, Steps};
use strata_lru::SpaceNo;
use strata_lru::bits::Bits;

/// A thread that does nothing for so long and waits in the kernel is given up.
pub(super) const DEADLINE: Duration = Duration::from_secs(1);
/// How often that is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Tables told at once.
const BATCH_TABLES: usize = 64;
/// Batches that wait to be read.
const BATCHES_MAX: usize = 8;

/// What the thread tells of a look.
#[derive(Debug)]
pub(super) enum Told<Looked> {
    /// The mappings; pieces follow.
    Mappings(Arc<Vec<Mapping>>),
    /// Pieces of tables.
    Pieces(Batch),
    /// Anonymous pages of a table, and those of them that several processes map.
    Mappers {
        table: TableNo,
        known: Bits,
        several: Bits,
    },
    /// It has ended.
    Looked(Box<Looked>),
    /// It could not begin: no source can be opened.
    NoSource(AccessError),
}

/// Tables, and the pieces of them by the tables' indices.
#[derive(Debug, Default)]
pub(super) struct Batch {
    records: Vec<TableRecord>,
    pieces: Vec<PieceOf>,
}

#[derive(Debug)]
struct PieceOf {
    record: usize,
    mapping_index: usize,
    mask: Bits,
    unseen: Bits,
}

impl Batch {
    /// Tells the pieces.
    pub(super) fn tell(&self, space: SpaceNo, mappings: &[Mapping], visitor: &mut dyn Visitor) {
        for of in &self.pieces {
            visitor.piece(&Piece {
                space,
                mapping: &mappings[of.mapping_index],
                mapping_index: of.mapping_index,
                record: &self.records[of.record],
                mask: of.mask,
                unseen: of.unseen,
            });
        }
    }
}

/// What the owner and the thread both see.
#[derive(Debug, Default)]
struct Shared {
    steps: Steps,
    is_given_up: AtomicBool,
}

/// What became of a wait for the thread.
#[derive(Debug)]
pub(super) enum Next<Looked> {
    /// It tells this.
    Told(Told<Looked>),
    /// Nothing yet.
    Nothing,
    /// It stands still, or is gone: the look is lost, and the walker with it.
    Lost,
}

/// The owner's side.
#[derive(Debug)]
pub(super) struct Walker<Ask, Looked> {
    asks: Sender<Ask>,
    told: Receiver<Told<Looked>>,
    shared: Arc<Shared>,
    standstill: Standstill,
}

impl<Ask: Send + 'static, Looked: Send + 'static> Walker<Ask, Looked> {
    /// Starts the thread, which begins by opening what it walks with.
    pub(super) fn start<Work>(
        open: impl FnOnce() -> Result<Work, AccessError> + Send + 'static,
    ) -> io::Result<Walker<Ask, Looked>>
    where
        Work: FnMut(Ask, &mut dyn Listener) -> Option<Looked>,
    {
        let (asks, inbox) = channel();
        let (outbox, told) = sync_channel(BATCHES_MAX);
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("strata-walk".to_owned())
            .spawn(move || {
                of_thread.steps.begin();
                match open() {
                    Ok(work) => serve(work, &inbox, &outbox, &of_thread),
                    Err(error) => drop(outbox.send(Told::NoSource(error))),
                }
            })?;
        Ok(Walker {
            asks,
            told,
            standstill: Standstill::new(shared.steps.clone()),
            shared,
        })
    }

    /// Asks for something; [`Walker::next`] tells what is found. A thread that is gone is found there, too.
    pub(super) fn ask(&mut self, ask: Ask) {
        self.standstill.work_begins();
        let _sent = self.asks.send(ask);
    }

    /// What the thread tells next, within so long.
    pub(super) fn next(&mut self, wait: Duration) -> Next<Looked> {
        let until = Instant::now() + wait;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.told.recv_timeout(left.min(LOOK_INTERVAL)) {
                Ok(told) => return Next::Told(told),
                Err(RecvTimeoutError::Disconnected) => return Next::Lost,
                Err(RecvTimeoutError::Timeout) if self.standstill.has_lasted(DEADLINE) => {
                    return Next::Lost;
                }
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return Next::Nothing,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Any wait of the thread counts: in a test it waits for no kernel.
    #[cfg(test)]
    pub(super) fn wait_for_anything(&mut self) {
        self.standstill = Standstill::of_any_wait(self.shared.steps.clone());
    }

    /// Gives the thread up.
    pub(super) fn give_up(self) -> Lost {
        Lost(Arc::downgrade(&self.shared))
    }
}

impl<Ask, Looked> Drop for Walker<Ask, Looked> {
    fn drop(&mut self) {
        // Not joined: it may wait in the kernel.
        self.shared.is_given_up.store(true, Ordering::Relaxed);
    }
}

/// A thread that was given up.
#[derive(Debug)]
pub(super) struct Lost(Weak<Shared>);

impl Lost {
    /// Whether the thread has not ended yet.
    pub(super) fn stands_still(&self) -> bool {
        self.0.strong_count() > 0
    }
}

fn serve<Ask, Looked>(
    mut work: impl FnMut(Ask, &mut dyn Listener) -> Option<Looked>,
    asks: &Receiver<Ask>,
    outbox: &SyncSender<Told<Looked>>,
    shared: &Shared,
) {
    for ask in asks {
        let mut teller = Teller {
            outbox,
            shared,
            batch: Batch::default(),
        };
        let looked = work(ask, &mut teller);
        teller.flush();
        if let Some(looked) = looked {
            let _told = outbox.send(Told::Looked(Box::new(looked)));
        }
        if shared.is_given_up.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// Passes on what a look finds. Once nobody listens, what is told is lost.
struct Teller<'a, Looked> {
    outbox: &'a SyncSender<Told<Looked>>,
    shared: &'a Shared,
    batch: Batch,
}

impl<Looked> Teller<'_, Looked> {
    fn tell(&self, told: Told<Looked>) {
        let _told = self.outbox.send(told);
        self.note_progress();
    }

    fn flush(&mut self) {
        if !self.batch.pieces.is_empty() {
            let batch = std::mem::take(&mut self.batch);
            self.tell(Told::Pieces(batch));
        }
    }
}

impl<Looked> Visitor for Teller<'_, Looked> {
    fn piece(&mut self, piece: &Piece<'_>) {
        let last = self.batch.records.last();
        if last.is_none_or(|last| last.table != piece.record.table) {
            if self.batch.records.len() == BATCH_TABLES {
                self.flush();
            }
            self.batch.records.push(*piece.record);
        }
        self.batch.pieces.push(PieceOf {
            record: self.batch.records.len() - 1,
            mapping_index: piece.mapping_index,
            mask: piece.mask,
            unseen: piece.unseen,
        });
        self.note_progress();
    }

    fn mappers(&mut self, _space: SpaceNo, table: TableNo, known: Bits, several: Bits) {
        self.flush();
        self.tell(Told::Mappers {
            table,
            known,
            several,
        });
    }
}

impl<Looked> Listener for Teller<'_, Looked> {
    fn mappings(&mut self, mappings: Arc<Vec<Mapping>>) {
        self.tell(Told::Mappings(mappings));
    }

    fn note_progress(&self) {
        self.shared.steps.note();
    }

    fn is_over(&self) -> bool {
        self.shared.is_given_up.load(Ordering::Relaxed)
    }
}
