//! Bitmaps of 512 pages, short where they are regular.
//!
//! | first byte | what follows |
//! |---|---|
//! | 0 | the bitmap as it is: 64 bytes |
//! | 1 to 253 | so many runs of set bits, each two varints: unset bits before it, its length less 1 |
//! | 254 | nothing: no bit is set |
//! | 255 | nothing: all are |
//!
//! **Owns** the encoding. **Does not own** what a bit says.

use super::{NO_PAGES, PageBits, TABLE_PAGES};
use crate::strata::varint::{pop, push};

const AS_IT_IS: u8 = 0;
const NONE: u8 = 254;
const ALL: u8 = 255;
/// Bytes of a bitmap as it is.
const RAW_BYTES: usize = 64;

/// Appends the bitmap.
pub(super) fn encode(bits: PageBits, content: &mut Vec<u8>) {
    if bits == NO_PAGES {
        return content.push(NONE);
    }
    if bits == [u64::MAX; 8] {
        return content.push(ALL);
    }
    let start = content.len();
    content.push(0);
    let (mut nr_runs, mut at) = (0_u8, 0);
    while let Some((first, end)) = next_run(&bits, at) {
        // A run takes two bytes at least, so that far fewer than 253 of them fit.
        if content.len() - start > RAW_BYTES {
            break;
        }
        push(content, u64::from(first - at));
        push(content, u64::from(end - first - 1));
        nr_runs += 1;
        at = end;
    }
    if content.len() - start <= RAW_BYTES {
        content[start] = nr_runs;
        return;
    }
    content.truncate(start);
    content.push(AS_IT_IS);
    content.extend(bits.iter().flat_map(|word| word.to_le_bytes()));
}

/// Takes a bitmap off the front; `None` if there is none.
pub(super) fn decode(rest: &mut &[u8]) -> Option<PageBits> {
    let (first, after) = rest.split_first()?;
    *rest = after;
    match *first {
        NONE => Some(NO_PAGES),
        ALL => Some([u64::MAX; 8]),
        AS_IT_IS => {
            let (raw, after) = rest.split_at_checked(RAW_BYTES)?;
            *rest = after;
            let (words, _) = raw.as_chunks::<8>();
            Some(std::array::from_fn(|word| u64::from_le_bytes(words[word])))
        }
        nr_runs => {
            let (mut bits, mut at) = (NO_PAGES, 0_u64);
            for _ in 0..nr_runs {
                let first = at.checked_add(pop(rest)?)?;
                let end = first.checked_add(pop(rest)?)?.checked_add(1)?;
                if end > TABLE_PAGES {
                    return None;
                }
                for bit in first..end {
                    bits[bit as usize / 64] |= 1 << (bit % 64);
                }
                at = end;
            }
            Some(bits)
        }
    }
}

/// The next run of set bits from `from` on: its first bit and the one behind its last.
fn next_run(bits: &PageBits, from: u32) -> Option<(u32, u32)> {
    let first = next_with(from, |word| bits[word])?;
    let end = next_with(first, |word| !bits[word]);
    Some((first, end.unwrap_or(TABLE_PAGES as u32)))
}

/// The lowest bit from `from` on that is set in the words.
fn next_with(from: u32, word_at: impl Fn(usize) -> u64) -> Option<u32> {
    let first_word = from as usize / 64;
    (first_word..8).find_map(|word| {
        let mut left = word_at(word);
        if word == first_word {
            left &= u64::MAX << (from % 64);
        }
        (left != 0).then(|| word as u32 * 64 + left.trailing_zeros())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_bits() -> impl Strategy<Value = PageBits> {
        let word = prop_oneof![
            Just(0),
            Just(u64::MAX),
            any::<u64>(),
            Just(1),
            Just(1 << 63)
        ];
        prop::array::uniform8(word)
    }

    proptest! {
        #[test]
        fn a_bitmap_is_read_as_written_and_never_much_longer_than_it_is(bits in any_bits()) {
            let mut content = Vec::new();
            encode(bits, &mut content);
            prop_assert!(content.len() <= RAW_BYTES + 1);
            let mut rest = content.as_slice();
            prop_assert_eq!(decode(&mut rest), Some(bits));
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(content in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut rest = content.as_slice();
            while decode(&mut rest).is_some() {}
        }
    }

    #[test]
    fn regular_bitmaps_are_short() {
        for (bits, nr_bytes) in [
            (NO_PAGES, 1),
            ([u64::MAX; 8], 1),
            ([u64::MAX, u64::MAX, 0, 0, 0, 0, 0, 0], 3),
            ([0x5555_5555_5555_5555; 8], 65),
        ] {
            let mut content = Vec::new();
            encode(bits, &mut content);
            assert_eq!(content.len(), nr_bytes, "{bits:x?}");
        }
    }

    #[test]
    fn a_run_beyond_the_table_is_refused() {
        for content in [
            &[1, 0xff, 3, 1][..],
            &[1, 0, 0xff, 4],
            &[2, 0, 0xff, 3, 0, 0],
        ] {
            assert_eq!(decode(&mut &*content), None, "{content:x?}");
        }
    }
}
