//! How fast traces are read: `cargo run --release -p strata-trace --example read_speed TRACE...`
//!
//! Each trace is read twice, the second time counts: accesses, seconds, millions a second.

use std::error::Error;
use std::io::{Write, stdout};
use std::time::Instant;

use strata_trace::{OpenOptions, open};

fn main() -> Result<(), Box<dyn Error>> {
    for trace in std::env::args().skip(1) {
        let (mut nr_accesses, mut elapsed_s) = (0, 0.0);
        for _ in 0..2 {
            let begin = Instant::now();
            let mut opened = open(&trace, &OpenOptions::default())?;
            let mut batch = Vec::new();
            nr_accesses = 0;
            while opened.reader.read_batch(&mut batch)? > 0 {
                nr_accesses += std::hint::black_box(&batch).len();
            }
            elapsed_s = begin.elapsed().as_secs_f64();
        }
        let millions_per_s = nr_accesses as f64 / elapsed_s / 1e6;
        writeln!(
            stdout(),
            "{trace}: {nr_accesses} accesses in {elapsed_s:.3} s, {millions_per_s:.1} million/s"
        )?;
    }
    Ok(())
}
