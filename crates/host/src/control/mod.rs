//! The control loop: usage in, walks and evictions out, a report at the end.
//!
//! **Owns** the map between pages of processes and folios of the engine, and the pace of everything.
//! **Does not own** which folio goes (engine) or how (actuators).
