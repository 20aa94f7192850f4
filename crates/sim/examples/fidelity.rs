//! Prints the table of `docs/fidelity.md`: what kernels read back, and what the simulator does.
//!
//! `cargo run --release -p strata-sim --example fidelity`; the recorded figures are looked for in
//! `../shared` beside the project or in `$STRATA_SHARED`.
#![expect(clippy::print_stdout, reason = "printing is what the example is for")]

#[path = "../tests/support/oracle.rs"]
mod oracle;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    print!("{}", oracle::table(&oracle::replay()?));
    Ok(())
}
