//! Prints what kernels read back beside what the simulator does, as tables of the documentation.
//!
//! `cargo run --release -p strata-sim --example fidelity` prints the first of `docs/validation/fidelity.md`, of
//! the figures recorded first; with `-- measured` at the end the second, of those measured by `make bench
//! NAME=kernels`.
#![expect(clippy::print_stdout, reason = "printing is what the example is for")]

#[path = "../tests/support/oracle.rs"]
mod oracle;

fn main() -> Result<(), oracle::Failure> {
    let table = match std::env::args().nth(1).as_deref() {
        None | Some("kernels") => oracle::table(&oracle::replay(oracle::recorded()?)?),
        Some("measured") => oracle::measured_table(&oracle::replay(oracle::measured()?)?),
        Some(other) => return Err(format!("{other:?}: kernels or measured").into()),
    };
    print!("{table}");
    Ok(())
}
