//! Memory cgroups, version 1 and 2, behind one interface.
//!
//! **Owns** making, limiting, reading and removing the group a budget is held in, by hand or as a
//! systemd scope. **Does not own** when to reclaim.
