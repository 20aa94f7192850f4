//! Numbers of any size in few bytes.
//!
//! A varint is LEB128: seven bits a byte, the lowest first, bit 7 set in all but the last; at most
//! ten bytes. A signed one is zigzag: 0, -1, 1, -2 are 0, 1, 2, 3.
//!
//! **Owns** both encodings. **Does not own** which numbers stand where.

/// Appends a varint.
pub(crate) fn push(content: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        content.push(value as u8 | 0x80);
        value >>= 7;
    }
    content.push(value as u8);
}

/// Appends a difference, modulo 2^64.
pub(crate) fn push_signed(content: &mut Vec<u8>, difference: u64) {
    push(
        content,
        (difference << 1) ^ (((difference as i64) >> 63) as u64),
    );
}

/// Takes a varint off the front; `None` if there is none, or one that does not fit.
pub(crate) fn pop(rest: &mut &[u8]) -> Option<u64> {
    let (first, after) = rest.split_first()?;
    *rest = after;
    if *first < 0x80 {
        return Some(u64::from(*first));
    }
    let mut value = u64::from(*first & 0x7f);
    for shift in (7..70).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        let bits = u64::from(*byte & 0x7f);
        // The tenth byte has room for one bit.
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if *byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Takes a difference off the front.
pub(crate) fn pop_signed(rest: &mut &[u8]) -> Option<u64> {
    let value = pop(rest)?;
    Some((value >> 1) ^ (value & 1).wrapping_neg())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_varint_is_read_as_written(value in any::<u64>(), shift in 0..64_u32) {
            let value = value >> shift;
            let mut content = Vec::new();
            push(&mut content, value);
            push_signed(&mut content, value);
            let mut rest = content.as_slice();
            prop_assert_eq!(pop(&mut rest), Some(value));
            prop_assert_eq!(pop_signed(&mut rest), Some(value));
            prop_assert!(rest.is_empty());
        }
    }

    #[test]
    fn a_varint_that_does_not_fit_or_does_not_end_is_refused() {
        let mut too_large: &[u8] = &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
        assert_eq!(pop(&mut too_large), None);
        let mut largest: &[u8] = &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(pop(&mut largest), Some(u64::MAX));
        let mut endless: &[u8] = &[0x80; 12];
        assert_eq!(pop(&mut endless), None);
        let mut torn: &[u8] = &[0x80];
        assert_eq!(pop(&mut torn), None);
    }
}
