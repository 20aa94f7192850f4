//! Prints what kernels read back beside what the simulator does, as tables of the documentation.
//!
//! `cargo run --release -p strata-sim --example fidelity` prints that of `docs/fidelity.md`; with
//! `-- policy` at the end that of `docs/evaluation.md`: the policy of our own against the better of
//! the kernels' two. The recorded figures are looked for in `../shared` beside the project or in
//! `$STRATA_SHARED`.
#![expect(clippy::print_stdout, reason = "printing is what the example is for")]

#[path = "../tests/support/oracle.rs"]
mod oracle;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cases = oracle::replay()?;
    let table = match std::env::args().nth(1).as_deref() {
        None | Some("kernels") => oracle::table(&cases),
        Some("policy") => oracle::policy_table(&cases),
        Some(other) => return Err(format!("{other:?}: kernels or policy").into()),
    };
    print!("{table}");
    Ok(())
}
