//! The kernel's generations as text, and its commands.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| strata_fuzz::lru_gen::read(data));
