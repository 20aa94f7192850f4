//! The `strata` binary: arguments in, text out, no logic of its own.

fn main() {}
