//! Which format a trace is of.
//!
//! **Owns** the guess: marks that only one format has, then the ending of the name, then what the
//! content looks like. **Does not own** reading: a wrong guess ends in the reader's error.

use std::path::Path;

use super::number::{next_word, try_decimal, try_hexadecimal};
use super::{fio, vscsi};
use crate::format::Format;
use crate::strata;

/// Lines looked at; enough to see a pattern, few enough to be quick.
const LINES: usize = 64;
/// Records looked at.
const RECORDS: usize = 512;
/// Fewest numbers from which the width and order of their bytes can be told.
const NUMBERS_MIN: usize = 16;

/// The format of a trace with this name whose content begins like this; `None` if nothing fits.
pub(crate) fn guess(name: &str, content: &[u8]) -> Option<Format> {
    let is_text = is_text(content);
    let unmistakable = || is_text.then(|| by_unmistakable_lines(content)).flatten();
    let looks = || {
        if is_text {
            by_text(content)
        } else {
            by_records(content)
        }
    };
    by_mark(content)
        .or_else(unmistakable)
        .or_else(|| by_name(name))
        .or_else(looks)
}

/// What begins as only one format does.
fn by_mark(content: &[u8]) -> Option<Format> {
    if content.starts_with(&strata::MAGIC) {
        Some(Format::Strata)
    } else if content.starts_with(fio::FIRST_LINE_V2) || content.starts_with(fio::FIRST_LINE_V3) {
        Some(Format::Fio)
    } else {
        None
    }
}

/// What the name says, without the ending of the compression.
fn by_name(name: &str) -> Option<Format> {
    let name = Path::new(name).file_name()?.to_str()?.to_ascii_lowercase();
    let name = [".gz", ".xz", ".zst"]
        .iter()
        .find_map(|ending| name.strip_suffix(ending))
        .unwrap_or(&name);
    // The traces of libCacheSim have it anywhere in their names.
    if name.contains("oraclegeneralopns") {
        return Some(Format::OracleGeneralOpNs);
    }
    if name.contains("oraclegeneral") {
        return Some(Format::OracleGeneral);
    }
    let (_, ending) = name.rsplit_once('.')?;
    ending.parse().ok()
}

/// Whether these are lines for people.
fn is_text(content: &[u8]) -> bool {
    const SAMPLE_BYTES: usize = 4096;
    let sample = &content[..content.len().min(SAMPLE_BYTES)];
    let is_printed = |byte: &u8| !byte.is_ascii_control() || byte.is_ascii_whitespace();
    !sample.is_empty() && sample.iter().all(is_printed)
}

/// The first lines; the last may be cut off and is left out.
fn lines(content: &[u8]) -> Vec<&[u8]> {
    let end = memchr::memrchr(b'\n', content).unwrap_or(content.len());
    content[..end]
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii_end)
        .filter(|line| !line.is_empty())
        .take(LINES)
        .collect()
}

/// Lines that look like nothing else, whatever the name says: what valgrind writes is called `.txt`.
fn by_unmistakable_lines(content: &[u8]) -> Option<Format> {
    let lines = lines(content);
    let is_note = |line: &&&[u8]| line.starts_with(b"==") || line.starts_with(b"--");
    let accesses: Vec<&&[u8]> = lines.iter().filter(|line| !is_note(line)).collect();
    if accesses.is_empty() {
        None
    } else if accesses.iter().all(|line| is_lackey(line)) {
        Some(Format::Lackey)
    } else if accesses.iter().all(|line| is_ucsd(line)) {
        Some(Format::Ucsd)
    } else {
        None
    }
}

/// What the first lines look like.
fn by_text(content: &[u8]) -> Option<Format> {
    let lines = lines(content);
    let all = |is_one: fn(&[u8]) -> bool| lines.iter().all(|line| is_one(line));
    if all(is_memsim) {
        return Some(Format::Memsim);
    }
    if is_lis(&lines) {
        return Some(Format::Lis);
    }
    // Single numbers are `txt` as well, and the same to both; only one has marks.
    if lines.iter().any(|line| line.starts_with(b"*")) && all(is_lirs) {
        return Some(Format::Lirs);
    }
    let first = lines.iter().find(|line| !line.starts_with(b"#"))?;
    if first.iter().any(|byte| [b',', b';', b'|'].contains(byte)) {
        return Some(Format::Csv);
    }
    let is_number = |line: &&[u8]| {
        let word = next_word(&mut &**line);
        try_decimal(word).is_some() || word.starts_with(b"0x") || word.starts_with(b"#")
    };
    lines[1..].iter().all(is_number).then_some(Format::Txt)
}

fn is_lackey(mut line: &[u8]) -> bool {
    let is_known = matches!(next_word(&mut line), b"I" | b"L" | b"S" | b"M");
    let word = next_word(&mut line);
    let Some(comma) = memchr::memchr(b',', word) else {
        return false;
    };
    is_known && try_hexadecimal(&word[..comma]).is_some()
}

fn is_memsim(mut line: &[u8]) -> bool {
    try_hexadecimal(next_word(&mut line)).is_some()
        && matches!(next_word(&mut line), b"R" | b"W" | b"r" | b"w")
        && next_word(&mut line).is_empty()
}

fn is_ucsd(mut line: &[u8]) -> bool {
    matches!(next_word(&mut line), b"l" | b"s")
        && next_word(&mut line).starts_with(b"0x")
        && try_decimal(next_word(&mut line)).is_some()
}

fn is_lirs(mut line: &[u8]) -> bool {
    line.starts_with(b"*")
        || (try_decimal(next_word(&mut line)).is_some() && next_word(&mut line).is_empty())
}

/// Four numbers a line, of which the last counts the requests.
fn is_lis(lines: &[&[u8]]) -> bool {
    let mut last = None;
    lines.iter().all(|line| {
        let mut rest = *line;
        let numbers = [(); 4].map(|()| try_decimal(next_word(&mut rest)));
        let request = numbers[3];
        let is_next = match (last, request) {
            (Some(last), Some(request)) => request > last,
            (None, request) => request.is_some(),
            _ => false,
        };
        last = request;
        is_next && numbers.iter().all(Option::is_some) && next_word(&mut rest).is_empty()
    })
}

/// What the first records look like.
fn by_records(content: &[u8]) -> Option<Format> {
    if vscsi::version(content).is_some() {
        return Some(Format::Vscsi);
    }
    if is_oracle::<24>(content, 16) {
        return Some(Format::OracleGeneral);
    }
    if is_oracle::<27>(content, 19) {
        return Some(Format::OracleGeneralOpNs);
    }
    bare_numbers(content)
}

/// Records whose times never fall and whose next request lies behind them.
fn is_oracle<const N: usize>(content: &[u8], next_at: usize) -> bool {
    const NEXT_MAX: i64 = 1 << 40;
    let (records, _) = content.as_chunks::<N>();
    let mut last_time = 0;
    let mut number = 0_i64;
    let is_one = |record: &[u8; N]| {
        let time = u32::from_le_bytes([record[0], record[1], record[2], record[3]]);
        let mut next = [0; 8];
        next.copy_from_slice(&record[next_at..next_at + 8]);
        let next = i64::from_le_bytes(next);
        let is_later = time >= last_time;
        last_time = time;
        number += 1;
        is_later && (next == -1 || next == i64::MAX || (next >= number && next < NEXT_MAX))
    };
    !records.is_empty() && records.iter().take(RECORDS).all(is_one)
}

/// Bare numbers. Those of 64 bits that need no more than 32 have a half that is always 0; of the two
/// orders of 32 bits the right one is that in which neighbours are closer to each other: much closer, or
/// closer and many of them next to each other, as where keys of several kinds take turns.
fn bare_numbers(content: &[u8]) -> Option<Format> {
    let sample = &content[..content.len().min(RECORDS * 8)];
    let (words, _) = sample.as_chunks::<8>();
    if words.len() < NUMBERS_MIN {
        return None;
    }
    let is_zero =
        |half: std::ops::Range<usize>| words.iter().all(|word| word[half.clone()] == [0; 4]);
    match (is_zero(0..4), is_zero(4..8)) {
        (true, false) => return Some(Format::U64Be),
        (false, true) => return Some(Format::U64Le),
        (true, true) => return None,
        (false, false) => {}
    }
    let (numbers, _) = sample.as_chunks::<4>();
    let little = Steps::of(numbers, u32::from_le_bytes);
    let big = Steps::of(numbers, u32::from_be_bytes);
    let (nearer, farther, format) = match big.nr_bits < little.nr_bits {
        true => (big, little, Format::U32Be),
        false => (little, big, Format::U32Le),
    };
    let is_much_nearer = nearer.nr_bits <= farther.nr_bits / 2;
    let is_near = nearer.nr_near * 8 >= numbers.len() * 3 && !is_dominated(numbers);
    (is_much_nearer || is_near).then_some(format)
}

/// How far numbers are from those before them.
#[derive(Clone, Copy, Debug)]
struct Steps {
    /// Bits of all steps.
    nr_bits: u32,
    /// Steps of less than 256.
    nr_near: usize,
}

impl Steps {
    fn of(numbers: &[[u8; 4]], number: fn([u8; 4]) -> u32) -> Steps {
        let pairs = numbers.iter().zip(&numbers[1..]);
        let steps = pairs.map(|(one, other)| number(*one).abs_diff(number(*other)));
        let bits = steps.clone().map(|step| u32::BITS - step.leading_zeros());
        Steps {
            nr_bits: bits.sum(),
            nr_near: steps.filter(|step| *step < 256).count(),
        }
    }
}

/// Whether one number is a sixteenth of all: programs and pictures are full of one filling, keys are not.
fn is_dominated(numbers: &[[u8; 4]]) -> bool {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    let longest = sorted
        .chunk_by(|one, other| one == other)
        .map(<[_]>::len)
        .max();
    longest.unwrap_or(0) * 16 > numbers.len()
}
