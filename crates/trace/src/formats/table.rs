//! `csv` `txt`: tables with a request a line.
//!
//! **Owns** finding the columns (told, named in the header, or the only one there is) and reading
//! their fields. **Does not own** what may be told (`columns`).
//!
//! Blank lines, comments (`#`), marks (`*`, as in `lirs`) and a byte order mark at the start are passed over. A field may stand
//! in double quotes, with delimiters and doubled quotes in it (RFC 4180, read by the `csv` crate); a record is one line.

use std::borrow::Cow;

use super::lines::ParseLine;
use super::number::{decimal, millionths, try_decimal, try_hexadecimal};
use super::run::{Run, Stamp};
use super::vscsi::is_scsi_write;
use crate::access::{Backing, Op, Via};
use crate::columns::{Column, Columns, Ids, Role, TimeUnit};
use crate::error::Reason;

/// What spreadsheets write before the first line.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Delimiters that are tried when none is told, the likeliest first.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// How lines are cut into fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// At one byte; fields may be empty.
    At(u8),
    /// At any white space; fields are never empty.
    WhiteSpace,
}

/// Lines of `csv` and `txt`.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Columns,
    cut: Option<Cut>,
    /// Role by column; empty before the first line, no longer than needed.
    roles: Vec<Option<Role>>,
    time_unit: TimeUnit,
    /// The operation last looked up: a trace has few, and rarely a new one.
    last_op: (Vec<u8>, Option<Op>),
}

impl Table {
    /// A table with commas or the like between fields.
    pub(crate) fn csv(columns: Columns) -> Table {
        let cut = columns.delimiter.map(Cut::At);
        Table::new(columns, cut)
    }

    /// A table with white space between fields.
    pub(crate) fn txt(columns: Columns) -> Table {
        let cut = columns.delimiter.map_or(Cut::WhiteSpace, Cut::At);
        Table::new(columns, Some(cut))
    }

    fn new(columns: Columns, cut: Option<Cut>) -> Table {
        let time_unit = columns.time_unit.unwrap_or_default();
        Table {
            columns,
            cut,
            roles: Vec::new(),
            time_unit,
            last_op: (b"read".to_vec(), Some(Op::Read)),
        }
    }

    /// Learns the columns from the first line; whether it was a header.
    fn learn(&mut self, line: &[u8]) -> Result<bool, Reason> {
        let cut = *self.cut.get_or_insert_with(|| Cut::At(likeliest(line)));
        let fields: Vec<Cow<'_, [u8]>> = fields(line, cut).collect();
        let fields: Vec<&[u8]> = fields.iter().map(AsRef::as_ref).collect();
        let has_header = self
            .columns
            .header
            .unwrap_or_else(|| self.looks_like_header(&fields));
        let place = |name: &str| {
            fields
                .iter()
                .position(|field| has_header && field.eq_ignore_ascii_case(name.as_bytes()))
        };

        let mut roles: Vec<(Role, usize)> = Vec::new();
        for (role, column) in &self.columns.named {
            let place = match column {
                Column::Number(number) => *number - 1,
                Column::Name(name) => place(name)
                    .ok_or_else(|| Reason::Columns(format!("no column is called `{name}`")))?,
            };
            roles.push((*role, place));
        }
        for role in Role::ALL {
            let is_free = |place: &usize| roles.iter().all(|(_, taken)| taken != place);
            let is_told = roles.iter().any(|(told, _)| *told == role);
            let names = role.names().iter();
            if let Some(place) = names.filter_map(|name| place(name)).find(is_free)
                && !is_told
            {
                roles.push((role, place));
            }
        }
        if !roles.iter().any(|(role, _)| *role == Role::Id) {
            if fields.len() != 1 && cut != Cut::WhiteSpace {
                let nr_columns = fields.len();
                let shown = String::from_utf8_lossy(line);
                return Err(Reason::Columns(format!(
                    "one of {nr_columns} columns is the id, and no header tells which ({}); with the id in the third and the \
                     operation in the second it would be id=3,op=2, and ids=text where ids are no numbers",
                    Reason::quoted(shown.trim_end().as_bytes())
                )));
            }
            roles.push((Role::Id, 0));
        }
        let is_us = |(role, place): &(Role, usize)| {
            let field = fields.get(*place);
            *role == Role::Time && field.is_some_and(|f| f.eq_ignore_ascii_case(b"time_us"))
        };
        if self.columns.time_unit.is_none() && has_header && roles.iter().any(is_us) {
            self.time_unit = TimeUnit::Microseconds;
        }
        // The last column that counts is in the line, or the line would be needlessly wide.
        let nr_columns = roles.iter().map(|(_, place)| place + 1).max().unwrap_or(0);
        if nr_columns > fields.len() {
            let why = format!("column {nr_columns} of {}", fields.len());
            return Err(Reason::Columns(format!("there is no {why}")));
        }
        self.roles = vec![None; nr_columns];
        for (role, place) in roles {
            if self.roles[place].replace(role).is_some() {
                let place = place + 1;
                return Err(Reason::Columns(format!("column {place} is told twice")));
            }
        }
        Ok(has_header)
    }

    /// A header has names where numbers are expected.
    fn looks_like_header(&self, fields: &[&[u8]]) -> bool {
        let named = &self.columns.named;
        if named.iter().any(|(_, c)| matches!(c, Column::Name(_))) {
            return true;
        }
        let is_known = |field: &&[u8]| {
            let field = String::from_utf8_lossy(field).to_ascii_lowercase();
            Role::ALL
                .iter()
                .any(|role| role.names().contains(&field.as_str()))
        };
        let is_number =
            |field: &[u8]| try_decimal(field).is_some() || try_hexadecimal(field).is_some();
        let id_place = named
            .iter()
            .find_map(|(role, column)| match (role, column) {
                (Role::Id, Column::Number(number)) => Some(*number - 1),
                _ => None,
            });
        match id_place.and_then(|place| fields.get(place)) {
            Some(id) if self.columns.ids == Ids::Numbers => !is_number(id),
            _ => fields.iter().any(is_known),
        }
    }

    fn time_us(&self, field: &[u8]) -> Result<u64, Reason> {
        let millionths = millionths("time", field)?;
        let time_us = match self.time_unit {
            TimeUnit::Seconds => millionths,
            TimeUnit::Milliseconds => millionths / 1_000,
            TimeUnit::Microseconds => millionths / 1_000_000,
            TimeUnit::Nanoseconds => millionths / 1_000_000_000,
        };
        u64::try_from(time_us)
            .map_err(|_| Reason::bad_value("time", "below 2^64 microseconds", field))
    }

    fn id(&self, field: &[u8]) -> Result<u64, Reason> {
        if self.columns.ids == Ids::Text {
            return Ok(fnv1a(field));
        }
        match try_decimal(field) {
            Some(id) => Ok(id),
            None if field.starts_with(b"0x") => super::number::hexadecimal("id", field),
            None => Err(Reason::bad_value(
                "id",
                "a number below 2^64 (or say ids=text with --trace-columns)",
                field,
            )),
        }
    }

    /// What an operation does; `None` when it accesses nothing.
    fn op(&self, field: &[u8]) -> Result<Option<Op>, Reason> {
        let is = |told: &Option<String>| {
            let told = told.as_ref();
            told.is_some_and(|told| field.eq_ignore_ascii_case(told.as_bytes()))
        };
        if is(&self.columns.read) {
            return Ok(Some(Op::Read));
        }
        if is(&self.columns.write) {
            return Ok(Some(Op::Write));
        }
        op(field)
    }
}

impl ParseLine for Table {
    fn parse_line(&mut self, line: &[u8], stamp: &mut Stamp, run: &mut Run) -> Result<(), Reason> {
        let line = match self.roles.is_empty() {
            true => line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line),
            false => line,
        };
        let is_empty = line.trim_ascii().is_empty();
        if is_empty || line.starts_with(b"#") || line.starts_with(b"*") {
            run.skip();
            return Ok(());
        }
        if self.roles.is_empty() && self.learn(line)? {
            run.skip();
            return Ok(());
        }
        let cut = self.cut.unwrap_or(Cut::WhiteSpace);
        let (mut id, mut size_bytes, mut is_access) = (None, 0, true);
        let mut fields = fields(line, cut);
        for role in &self.roles {
            let field = fields.next().unwrap_or_default();
            let field = field.as_ref();
            match role {
                None => {}
                Some(Role::Time) => {
                    run.access.time_us = stamp.since_first(self.time_us(field)?);
                }
                Some(Role::Id) => id = Some(self.id(field)?),
                Some(Role::Size) => size_bytes = decimal("size", field)?,
                Some(Role::Op) => {
                    if self.last_op.0 != field {
                        self.last_op = (field.to_vec(), self.op(field)?);
                    }
                    match self.last_op.1 {
                        Some(op) => run.access.op = op,
                        None => is_access = false,
                    }
                }
                Some(Role::Space) => {
                    run.access.key.space = small("space", "a number below 2^32", field)?;
                }
                Some(Role::Group) => {
                    run.access.group = small("group", "a number below 65536", field)?;
                }
                Some(Role::Via) => {
                    run.access.via = match field {
                        b"mmap" => Via::PageTable,
                        b"fd" => Via::FileDescriptor,
                        other => return Err(Reason::bad_value("via", "mmap or fd", other)),
                    }
                }
                Some(Role::Backing) => {
                    run.access.backing = match field {
                        b"anon" => Backing::Anon,
                        b"file" => Backing::File,
                        b"code" => Backing::Code,
                        other => {
                            let expected = "anon, file or code";
                            return Err(Reason::bad_value("backing", expected, other));
                        }
                    }
                }
            }
        }
        let Some(id) = id else {
            return Err(Reason::bad_value("id", "a number", b""));
        };
        stamp.set_id(run, id, size_bytes)?;
        if !is_access {
            run.skip();
        }
        Ok(())
    }
}

/// A number of a narrow type.
fn small<T: TryFrom<u64>>(
    what: &'static str,
    expected: &'static str,
    field: &[u8],
) -> Result<T, Reason> {
    try_decimal(field)
        .and_then(|value| T::try_from(value).ok())
        .ok_or_else(|| Reason::bad_value(what, expected, field))
}

/// What an operation does; `None` when it accesses nothing.
fn op(field: &[u8]) -> Result<Option<Op>, Reason> {
    const READS: [&str; 8] = ["r", "read", "rs", "get", "gets", "load", "l", "fetch"];
    const WRITES: [&str; 17] = [
        "w", "write", "ws", "set", "put", "add", "cas", "replace", "append", "prepend", "incr",
        "decr", "update", "store", "s", "modify", "m",
    ];
    const OTHERS: [&str; 6] = ["delete", "del", "trim", "discard", "flush", "nop"];
    let is = |names: &[&str]| {
        names
            .iter()
            .any(|name| field.eq_ignore_ascii_case(name.as_bytes()))
    };
    if is(&READS) {
        return Ok(Some(Op::Read));
    }
    if is(&WRITES) {
        return Ok(Some(Op::Write));
    }
    if is(&OTHERS) {
        return Ok(None);
    }
    match try_hexadecimal(field).filter(|_| field.len() == 2) {
        Some(code) if is_scsi_write(code as u8) => Ok(Some(Op::Write)),
        Some(0x08 | 0x28 | 0xa8 | 0x88) => Ok(Some(Op::Read)),
        _ => Err(Reason::bad_value(
            "op",
            "read, write or the like, or a SCSI operation code (or say what stands for them with --trace-columns, as \
             read=1,write=0)",
            field,
        )),
    }
}

/// The fields of a line, without quotes around them.
fn fields(line: &[u8], cut: Cut) -> Fields<impl Iterator<Item = &[u8]>> {
    match cut {
        Cut::At(delimiter) if line.contains(&b'"') => {
            Fields::Quoted(quoted_fields(line, delimiter).into_iter())
        }
        _ => Fields::Plain(plain_fields(line, cut)),
    }
}

/// The fields of a line, whichever way it is cut.
enum Fields<P> {
    Plain(P),
    Quoted(std::vec::IntoIter<Vec<u8>>),
}

impl<'a, P: Iterator<Item = &'a [u8]>> Iterator for Fields<P> {
    type Item = Cow<'a, [u8]>;

    fn next(&mut self) -> Option<Cow<'a, [u8]>> {
        match self {
            Fields::Plain(of) => of.next().map(Cow::Borrowed),
            Fields::Quoted(of) => of.next().map(Cow::Owned),
        }
    }
}

fn quoted_fields(line: &[u8], delimiter: u8) -> Vec<Vec<u8>> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .delimiter(delimiter)
        .trim(csv::Trim::All)
        .from_reader(line);
    let mut record = csv::ByteRecord::new();
    // Reading from memory can't fail, and the only record can't have another length than those before.
    let _is_there = reader.read_byte_record(&mut record);
    record.iter().map(<[u8]>::to_vec).collect()
}

fn plain_fields(line: &[u8], cut: Cut) -> impl Iterator<Item = &[u8]> {
    let is_cut = move |byte: &u8| match cut {
        Cut::At(delimiter) => *byte == delimiter,
        Cut::WhiteSpace => byte.is_ascii_whitespace(),
    };
    line.split(is_cut)
        .map(move |field| match cut {
            Cut::At(_) => field.trim_ascii(),
            Cut::WhiteSpace => field,
        })
        .filter(move |field| cut != Cut::WhiteSpace || !field.is_empty())
}

/// The delimiter that occurs most often.
fn likeliest(line: &[u8]) -> u8 {
    let count = |delimiter: &u8| line.iter().filter(|byte| *byte == delimiter).count();
    let mut best = DELIMITERS[0];
    for delimiter in DELIMITERS {
        if count(&delimiter) > count(&best) {
            best = delimiter;
        }
    }
    best
}

/// FNV-1a, 64 bits.
fn fnv1a(text: &[u8]) -> u64 {
    text.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
