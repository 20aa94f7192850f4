//! Which column of a table holds what.
//!
//! **Owns** [`Columns`], its text form and the names under which columns are known. **Does not own**
//! reading a table (`formats::table`).

use std::str::FromStr;

use crate::suggest::did_you_mean;

/// What a column of a table may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// When; see [`TimeUnit`].
    Time,
    /// Which page, block or key.
    Id,
    /// Bytes asked for.
    Size,
    /// Read or write, by name or by SCSI operation code.
    Op,
    /// Number of the address space or file.
    Space,
    /// Number of the group.
    Group,
    /// `mmap` or `fd`.
    Via,
    /// `anon`, `file` or `code`.
    Backing,
}

impl Role {
    /// All of them.
    pub(crate) const ALL: [Role; 8] = [
        Role::Time,
        Role::Id,
        Role::Size,
        Role::Op,
        Role::Space,
        Role::Group,
        Role::Via,
        Role::Backing,
    ];

    /// The names a header may use, ours first.
    pub(crate) fn names(self) -> &'static [&'static str] {
        match self {
            Role::Time => &[
                "time",
                "time_us",
                "timestamp",
                "ts",
                "clock_time",
                "real_time",
            ],
            Role::Id => &[
                "id",
                "page",
                "obj_id",
                "object_id",
                "key",
                "block",
                "lbn",
                "lba",
                "offset",
                "address",
                "addr",
            ],
            Role::Size => &[
                "size",
                "size_bytes",
                "obj_size",
                "object_size",
                "length",
                "len",
            ],
            Role::Op => &["op", "operation", "type", "cmd", "rw"],
            Role::Space => &["space", "file_id", "disk"],
            Role::Group => &["group", "namespace", "ns", "tenant"],
            Role::Via => &["via"],
            Role::Backing => &["backing", "kind"],
        }
    }

    fn by_name(name: &str) -> Option<Role> {
        Role::ALL
            .into_iter()
            .find(|role| role.names().contains(&name))
    }
}

/// A column, by place or by the name the header gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// Place of the column in a line; the first is 1.
    Number(usize),
    /// Name of the column in the header.
    Name(String),
}

/// Unit of the time column; fractions are understood in each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds.
    #[default]
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
}

/// What ids are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ids {
    /// Decimal numbers, or hexadecimal ones that begin with `0x`.
    #[default]
    Numbers,
    /// Any text; its 64-bit FNV-1a hash is the page.
    Text,
}

/// The columns of `csv` and `txt`; what is not said is found in the header, or guessed.
///
/// As text, with commas between: `id=5,time=2,size=4,op=3,time-unit=ms,delimiter=;,header=yes`, and `ids=text` where ids
/// are no numbers, `read=1,write=0` where operations are told so. A
/// column is a number (the first is 1) or a name in the header. The names that libCacheSim uses
/// (`obj-id-col`, `time-col`, `has-header`, `obj-id-is-num`, ...) are understood too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// The columns that were named.
    pub named: Vec<(Role, Column)>,
    /// What stands between fields: one byte, or `None` to guess (`csv`) or any white space (`txt`).
    pub delimiter: Option<u8>,
    /// Whether the first line names the columns; guessed when `None`.
    pub header: Option<bool>,
    /// Unit of the time column; seconds when `None`, unless the header says `time_us`.
    pub time_unit: Option<TimeUnit>,
    /// What ids are.
    pub ids: Ids,
    /// What stands for a read in the column of operations, besides the usual words.
    pub read: Option<String>,
    /// What stands for a write there.
    pub write: Option<String>,
}

/// What can be set of columns.
const SETTINGS: [&str; 14] = [
    "time",
    "id",
    "size",
    "op",
    "space",
    "group",
    "via",
    "backing",
    "time-unit",
    "delimiter",
    "header",
    "ids",
    "read",
    "write",
];

/// Columns that can't be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColumnsError {
    /// A setting that does not exist.
    #[error(
        "no column setting is called `{0}`: {meant}use one of {names}",
        meant = did_you_mean(.0, SETTINGS),
        names = SETTINGS.join(", ")
    )]
    Unknown(String),
    /// A setting without a value.
    #[error("`{0}` has no value: write {0}=...")]
    NoValue(String),
    /// A value the setting can't have.
    #[error("{setting} must be {expected}, not `{found}`")]
    BadValue {
        /// The setting.
        setting: String,
        /// What it may be.
        expected: &'static str,
        /// What was said.
        found: String,
    },
    /// A setting given twice.
    #[error("`{0}` is said twice")]
    Twice(String),
}

impl FromStr for Columns {
    type Err = ColumnsError;

    fn from_str(text: &str) -> Result<Columns, ColumnsError> {
        // The delimiter may be the comma that stands between settings.
        let text = text.replace("delimiter=,", "delimiter=comma");
        let mut columns = Columns::default();
        let mut seen = Vec::new();
        for setting in text.split(',').map(str::trim).filter(|s| !s.is_empty()) {
            let Some((name, value)) = setting.split_once('=') else {
                return Err(ColumnsError::NoValue(setting.to_owned()));
            };
            columns.set(name.trim(), value, &mut seen)?;
        }
        Ok(columns)
    }
}

impl Columns {
    fn set(&mut self, name: &str, value: &str, seen: &mut Vec<String>) -> Result<(), ColumnsError> {
        let lower = name.to_ascii_lowercase().replace('_', "-");
        let setting = lower.strip_suffix("-col").unwrap_or(&lower);
        if value.is_empty() {
            return Err(ColumnsError::NoValue(name.to_owned()));
        }
        if seen.iter().any(|before| before == setting) {
            return Err(ColumnsError::Twice(name.to_owned()));
        }
        seen.push(setting.to_owned());
        let bad = |expected| ColumnsError::BadValue {
            setting: name.to_owned(),
            expected,
            found: value.to_owned(),
        };
        match setting {
            "delimiter" => {
                self.delimiter = Some(delimiter(value).ok_or_else(|| {
                    bad("one ASCII character, or comma, semicolon, tab, space or pipe")
                })?);
            }
            "header" | "has-header" => {
                self.header = Some(yes_or_no(value).ok_or_else(|| bad("yes or no"))?);
            }
            "time-unit" => {
                self.time_unit = Some(match value {
                    "s" => TimeUnit::Seconds,
                    "ms" => TimeUnit::Milliseconds,
                    "us" => TimeUnit::Microseconds,
                    "ns" => TimeUnit::Nanoseconds,
                    _ => return Err(bad("s, ms, us or ns")),
                });
            }
            "ids" => {
                self.ids = match value {
                    "numbers" => Ids::Numbers,
                    "text" => Ids::Text,
                    _ => return Err(bad("numbers or text")),
                };
            }
            "read" => self.read = Some(value.to_owned()),
            "write" => self.write = Some(value.to_owned()),
            "obj-id-is-num" => {
                self.ids = match yes_or_no(value) {
                    Some(true) => Ids::Numbers,
                    Some(false) => Ids::Text,
                    None => return Err(bad("yes or no")),
                };
            }
            _ => {
                let role = Role::by_name(&setting.replace('-', "_"))
                    .ok_or_else(|| ColumnsError::Unknown(name.to_owned()))?;
                if self.named.iter().any(|(other, _)| *other == role) {
                    return Err(ColumnsError::Twice(name.to_owned()));
                }
                let column = match value.parse::<usize>() {
                    Ok(0) => return Err(bad("a column, and the first is 1")),
                    Ok(number) => Column::Number(number),
                    Err(_) => Column::Name(value.to_owned()),
                };
                self.named.push((role, column));
            }
        }
        Ok(())
    }
}

fn delimiter(value: &str) -> Option<u8> {
    match value {
        "comma" => Some(b','),
        "semicolon" => Some(b';'),
        "tab" | "\\t" => Some(b'\t'),
        "space" => Some(b' '),
        "pipe" => Some(b'|'),
        _ => match value.as_bytes() {
            [byte] if byte.is_ascii() && !byte.is_ascii_alphanumeric() => Some(*byte),
            _ => None,
        },
    }
}

fn yes_or_no(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "yes" | "true" | "1" => Some(true),
        "no" | "false" | "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_named_in_our_words_or_in_those_of_libcachesim() {
        let ours: Columns = "id=5,time=2,size=4,op=3,delimiter=,,header=yes"
            .parse()
            .unwrap();
        let theirs: Columns =
            "obj-id-col=5,time-col=2,obj-size-col=4,op-col=3,delimiter=,,has-header=true"
                .parse()
                .unwrap();
        assert_eq!(ours, theirs);
        assert_eq!(ours.named[0], (Role::Id, Column::Number(5)));
        assert_eq!((ours.delimiter, ours.header), (Some(b','), Some(true)));
        let by_name: Columns = "id=lbn, delimiter=tab, ids=text, time-unit=ms"
            .parse()
            .unwrap();
        assert_eq!(by_name.named, [(Role::Id, Column::Name("lbn".to_owned()))]);
        assert_eq!(by_name.delimiter, Some(b'\t'));
        assert_eq!(by_name.ids, Ids::Text);
        assert_eq!(by_name.time_unit, Some(TimeUnit::Milliseconds));
        assert_eq!("".parse(), Ok(Columns::default()));
    }

    #[test]
    fn a_setting_that_makes_no_sense_is_named() {
        for (text, told) in [
            (
                "colour=3",
                "no column setting is called `colour`: use one of time, ",
            ),
            ("timeunit=ms", "did you mean time-unit? "),
            ("id", "`id` has no value"),
            ("id=", "`id` has no value"),
            ("id=0", "id must be a column"),
            ("id=1,obj_id=2", "`obj_id` is said twice"),
            ("header=yes,header=no", "`header` is said twice"),
            ("header=perhaps", "header must be yes or no"),
            ("delimiter=ab", "delimiter must be one ASCII character"),
            ("delimiter=5", "delimiter must be one ASCII character"),
            ("time-unit=days", "time-unit must be s, ms, us or ns"),
        ] {
            let error = text.parse::<Columns>().unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
