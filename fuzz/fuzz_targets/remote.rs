//! A client of the control socket or of the metrics port.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| strata_fuzz::remote::talk(data));
