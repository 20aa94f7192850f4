//! The reader of `csv`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strata_trace::Format;

fuzz_target!(|data: &[u8]| strata_fuzz::read(data, Some(Format::Csv)));
