//! The commands written to `lru_gen`: `+` ages, `-` evicts.
//!
//! ```text
//! + memcg_id node_id seq [swappiness [force_scan]]
//! - memcg_id node_id seq [swappiness [nr_to_reclaim]]
//! ```
//!
//! Several commands are split by `,`, `;` or a line break. The first that is wrong ends the write;
//! what came before stays done, so commands are read one at a time while they are carried out.
//!
//! **Owns** the grammar and the errors. **Does not own** whether group, node and generation exist
//! ([`LruGen::plan`](super::LruGen::plan)).

use crate::{
    ids::{GenSeq, GroupId, NodeId},
    swappiness::Swappiness,
};

/// Longest swappiness field the kernel reads.
const SWAPPINESS_LEN_MAX: usize = 4;

/// One command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Whose.
    pub group: GroupId,
    /// Where.
    pub node: NodeId,
    /// The youngest generation the caller knows of, or the youngest to evict.
    pub seq: GenSeq,
    /// Which kinds; `None` is the group's own.
    pub swappiness: Option<Swappiness>,
    /// What is to be done.
    pub operation: Operation,
}

/// What a command asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `+`: walk, and begin a generation.
    Age {
        /// Whether to look also where the filters say nothing was young; on unless turned off.
        is_scan_forced: bool,
    },
    /// `-`: evict generations up to `seq`.
    Evict {
        /// Base pages after which it is enough; `u64::MAX` is no limit.
        nr_pages_max: u64,
    },
}

/// Why a command was refused, as the kernel refuses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// EINVAL: nothing but blanks and separators was written.
    #[error("no command given (EINVAL)")]
    Empty,
    /// EINVAL: the first character is neither `+` nor `-`.
    #[error("unknown command {0:?}: use + or - (EINVAL)")]
    UnknownOperation(char),
    /// EINVAL: fewer than four fields, or something after the last.
    #[error("a command is `+|- memcg_id node_id seq [swappiness [number]]` (EINVAL)")]
    Malformed,
    /// EINVAL: not 0..=201 or `max`.
    #[error("swappiness is 0 to 201 or max (EINVAL)")]
    Swappiness,
    /// EINVAL: no group of this number.
    #[error("no memcg {0} (EINVAL)")]
    NoGroup(u64),
    /// EINVAL: the group has nothing on this node.
    #[error("no node {0} (EINVAL)")]
    NoNode(u64),
    /// EINVAL: the generation is not there yet, or, to be evicted, too young.
    #[error("generation {} is out of range: the youngest is {} (EINVAL)", .seq.0, .max_seq.0)]
    Generation {
        /// The generation asked for.
        seq: GenSeq,
        /// The youngest there is.
        max_seq: GenSeq,
    },
    /// EINVAL: swappiness above what the kernel knew before 6.14.
    #[error("swappiness is 0 to 200 before 6.14 (EINVAL)")]
    SwappinessTooNew,
    /// ERANGE: the window is full, and nothing may be merged unless scanning is forced (up to 6.13).
    #[error("the window is full: force the scan to merge the oldest generation (ERANGE)")]
    WindowFull,
    /// EEXIST: another walk ended first, the generation is there.
    #[error("generation {} exists already: another walk was first (EEXIST)", .0.0)]
    GenerationExists(GenSeq),
}

impl CommandError {
    /// Name and number of the kernel's error.
    pub fn errno(self) -> (&'static str, i32) {
        match self {
            CommandError::GenerationExists(_) => ("EEXIST", 17),
            CommandError::WindowFull => ("ERANGE", 34),
            CommandError::Empty
            | CommandError::UnknownOperation(_)
            | CommandError::Malformed
            | CommandError::Swappiness
            | CommandError::SwappinessTooNew
            | CommandError::NoGroup(_)
            | CommandError::NoNode(_)
            | CommandError::Generation { .. } => ("EINVAL", 22),
        }
    }
}

/// The commands of one write, in order. Ends after the first error; a write without any command
/// is an error too.
pub fn commands(text: &str) -> impl Iterator<Item = Result<Command, CommandError>> + '_ {
    let mut pieces = text
        .split([',', ';', '\n'])
        .map(str::trim_start)
        .filter(|of| !of.is_empty());
    let mut has_ended = false;
    let mut nr_commands = 0;
    std::iter::from_fn(move || {
        if has_ended {
            return None;
        }
        let command = match pieces.next() {
            Some(piece) => parse(piece),
            None if nr_commands == 0 => Err(CommandError::Empty),
            None => return None,
        };
        nr_commands += 1;
        has_ended = command.is_err();
        Some(command)
    })
}

fn parse(piece: &str) -> Result<Command, CommandError> {
    let mut characters = piece.chars();
    let operation = characters.next().ok_or(CommandError::Malformed)?;
    let fields: Vec<&str> = characters.as_str().split_ascii_whitespace().collect();
    let (required, optional) = fields.split_at_checked(3).ok_or(CommandError::Malformed)?;
    let (group, node) = (number(required[0])?, number(required[1])?);
    let seq = GenSeq(number(required[2])?);
    let (swappiness, last) = match *optional {
        [] => (None, None),
        [swappiness] => (Some(swappiness), None),
        [swappiness, last] => (Some(swappiness), Some(number(last)?)),
        _ => return Err(CommandError::Malformed),
    };
    let group = u16::try_from(group)
        .map(GroupId)
        .map_err(|_| CommandError::NoGroup(group))?;
    let node = u8::try_from(node)
        .map(NodeId)
        .map_err(|_| CommandError::NoNode(node))?;
    let swappiness = swappiness.map(parse_swappiness).transpose()?;
    let operation = match operation {
        '+' => Operation::Age {
            is_scan_forced: last.is_none_or(|flag| flag != 0),
        },
        '-' => Operation::Evict {
            nr_pages_max: last.unwrap_or(u64::MAX),
        },
        other => return Err(CommandError::UnknownOperation(other)),
    };
    Ok(Command {
        group,
        node,
        seq,
        swappiness,
        operation,
    })
}

fn number(field: &str) -> Result<u64, CommandError> {
    // `parse` takes a leading plus, the kernel does not.
    let is_digits = field.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_digits.then(|| field.parse().ok()).flatten();
    number.ok_or(CommandError::Malformed)
}

fn parse_swappiness(field: &str) -> Result<Swappiness, CommandError> {
    if field == "max" {
        return Ok(Swappiness::ANON_ONLY);
    }
    let value = number(field)
        .ok()
        .filter(|_| field.len() <= SWAPPINESS_LEN_MAX);
    let value = value.and_then(|value| u8::try_from(value).ok());
    value
        .and_then(Swappiness::try_new)
        .ok_or(CommandError::Swappiness)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(text: &str) -> Vec<Result<Command, CommandError>> {
        commands(text).collect()
    }

    fn only(text: &str) -> Result<Command, CommandError> {
        let mut found = all(text);
        assert_eq!(found.len(), 1, "{text:?}");
        found.remove(0)
    }

    fn command(seq: u64, swappiness: Option<u8>, operation: Operation) -> Command {
        Command {
            group: GroupId(1),
            node: NodeId(0),
            seq: GenSeq(seq),
            swappiness: swappiness.map(|value| Swappiness::try_new(value).unwrap()),
            operation,
        }
    }

    fn age(seq: u64, swappiness: Option<u8>, is_scan_forced: bool) -> Command {
        command(seq, swappiness, Operation::Age { is_scan_forced })
    }

    fn evict(seq: u64, swappiness: Option<u8>, nr_pages_max: u64) -> Command {
        command(seq, swappiness, Operation::Evict { nr_pages_max })
    }

    #[test]
    fn both_commands_take_two_optional_fields() {
        assert_eq!(only("+ 1 0 3"), Ok(age(3, None, true)));
        assert_eq!(only("+ 1 0 3 0"), Ok(age(3, Some(0), true)));
        assert_eq!(only("+ 1 0 3 200 0"), Ok(age(3, Some(200), false)));
        assert_eq!(only("- 1 0 3"), Ok(evict(3, None, u64::MAX)));
        assert_eq!(only("- 1 0 3 201"), Ok(evict(3, Some(201), u64::MAX)));
        assert_eq!(only("- 1 0 3 max 512\n"), Ok(evict(3, Some(201), 512)));
        assert_eq!(only("-1 0 3"), Ok(evict(3, None, u64::MAX)));
    }

    #[test]
    fn commands_are_split_and_empty_pieces_skipped() {
        let found = all("\n ,+ 1 0 3;  - 1 0 1 ,,\n+ 1 0 4\n");
        assert_eq!(
            found,
            [
                Ok(age(3, None, true)),
                Ok(evict(1, None, u64::MAX)),
                Ok(age(4, None, true)),
            ]
        );
    }

    #[test]
    fn the_first_error_stops_and_what_came_before_stays() {
        let found = all("+ 1 0 3, * 1 0 3, + 1 0 4");
        assert_eq!(
            found,
            [
                Ok(age(3, None, true)),
                Err(CommandError::UnknownOperation('*'))
            ]
        );
    }

    #[test]
    fn what_the_kernel_refuses_is_refused_with_einval() {
        for (text, error) in [
            ("", CommandError::Empty),
            (" ,;\n", CommandError::Empty),
            ("+", CommandError::Malformed),
            ("+ 1 0", CommandError::Malformed),
            ("+ 1 0 x", CommandError::Malformed),
            ("+ 1 0 -3", CommandError::Malformed),
            ("- 1 0 3 60 512 junk", CommandError::Malformed),
            ("- 1 0 3 60 many", CommandError::Malformed),
            ("- 1 0 3 202", CommandError::Swappiness),
            ("- 1 0 3 00060", CommandError::Swappiness),
            ("- 1 0 3 low", CommandError::Swappiness),
            ("- 70000 0 3", CommandError::NoGroup(70_000)),
            ("- 1 300 3", CommandError::NoNode(300)),
        ] {
            assert_eq!(only(text), Err(error), "{text:?}");
            assert_eq!(error.errno(), ("EINVAL", 22));
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "[-+0-9a-z ,;\n\u{e9}]{0,40}") {
            let found = all(&text);
            prop_assert!(!found.is_empty());
            prop_assert!(found.iter().rev().skip(1).all(Result::is_ok));
        }
    }
}
