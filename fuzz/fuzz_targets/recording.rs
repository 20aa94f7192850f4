//! The blocks of recordings, their checksums made to fit: the input is what stands in the blocks.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| strata_fuzz::read_recording(data));
