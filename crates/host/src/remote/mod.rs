//! Talking to a running Strata: its control socket, and its metrics for Prometheus.
//!
//! ```text
//!   client --line--> server thread --Ask--> [bounded queue] --> the control loop, at its next tick
//!          <--line--               <--text--                <--
//! ```
//!
//! The socket is `control.sock` in the state directory of a run (`/run/strata/<id>/`), for its owner
//! only; `docs/guide/control-socket.md` describes what is said over it. Metrics are answered on a loopback
//! port and written to a file, where that was asked for.
//!
//! **Owns** the thread that talks (`RemoteServer`), what can be asked ([`Request`]), and finding and
//! asking a running Strata ([`Connection`]). **Does not own** any answer: those are the control
//! loop's.
//!
//! **Invariants**
//! - R1: nothing a client sends or leaves unsaid makes the control loop wait: it is only handed whole,
//!   parsed requests, a bounded number at a time, and hands back text.
//! - R2: everything is bounded: clients, the length of a line, the time for one and for an answer to be
//!   read, requests on their way.
//! - R3: who may reach the metrics port can neither change anything nor keep others from the socket.

mod client;
mod conversation;
mod http;
mod pool;
mod request;
mod served;
mod server;
mod textfile;

pub use client::{Connection, RemoteError, Running};
pub(crate) use pool::ClientId;
pub use request::{Form, Request, RequestError};
pub(crate) use request::{accept, refuse};
pub use served::Served;
pub(crate) use server::{Doors, Question, RemoteServer};

use std::net::SocketAddr;
use std::path::PathBuf;

/// Where metrics are to be had; nowhere by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricsConfig {
    /// A loopback address and port to answer HTTP on; port 0 lets the system choose.
    pub address: Option<SocketAddr>,
    /// A file for node_exporter's textfile collector, replaced as a whole every 15 s.
    pub textfile: Option<PathBuf>,
}
