//! Metrics of those who are no run: of the whole machine, of a guard.
//!
//! **Owns** answering scrapes with what was last seen. **Does not own** the text (`metrics`), how it is fetched (`server`), nor
//! when anything is looked at (the caller).

use super::{Doors, MetricsConfig, Question, RemoteServer};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use strata_linux::ready::is_any_readable;

/// Answers scrapes, on a port or in a file.
#[derive(Debug)]
pub struct Served {
    server: RemoteServer,
    address: Option<SocketAddr>,
}

impl Served {
    /// Opens the port.
    ///
    /// # Errors
    /// The port can't be had, or is not on a loopback address.
    pub fn open(config: &MetricsConfig) -> io::Result<Served> {
        let doors = Doors::open(config)?;
        let address = doors.metrics_address();
        let server = RemoteServer::start(doors)?;
        Ok(Served { server, address })
    }

    /// Where scrapes are answered, the port chosen by the system included; `None`: only a file is written.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Answers scrapes with the text for so long. Returns what went wrong meanwhile.
    pub fn answer(&mut self, text: &dyn Fn() -> String, span: Duration) -> Vec<String> {
        let until = Instant::now() + span;
        let mut troubles = Vec::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return troubles;
            }
            if is_any_readable(&[self.server.fd()], left).is_err() {
                return troubles;
            }
            for ask in self.server.take() {
                match ask.question {
                    Question::Metrics => self.server.answer(ask.client, text()),
                    Question::Trouble(why) => troubles.push(why),
                    Question::Request(_) | Question::Left => {}
                }
            }
        }
    }
}
