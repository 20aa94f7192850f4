//! Reading traces.

use std::io::Cursor;

use strata_trace::{Format, OpenOptions, Position, Via, open_stream};

#[test]
fn keys_are_read_in_order_and_a_torn_last_one_is_named() {
    let mut bytes: Vec<u8> = (0..20_000_u32).flat_map(u32::to_be_bytes).collect();
    bytes.push(1);
    let options = OpenOptions {
        format: Some(Format::U32Be),
        ..OpenOptions::default()
    };
    let mut opened = open_stream("keys", Cursor::new(bytes), None, &options).unwrap();
    let (mut batch, mut pages) = (Vec::new(), Vec::new());
    let error = loop {
        match opened.reader.read_batch(&mut batch) {
            Ok(0) => panic!("the torn record went unnoticed"),
            Ok(_) => pages.extend(batch.iter().map(|access| access.key.page)),
            Err(error) => break error,
        }
    };
    assert!(pages.iter().copied().eq(0..20_000));
    assert!(batch.iter().all(|access| access.via == Via::FileDescriptor));
    assert_eq!(error.position(), Some(Position::Byte(80_000)));
    assert_eq!(
        error.to_string(),
        "keys: byte 80000: ends in the middle of a record"
    );
}
