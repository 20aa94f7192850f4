//! How types of the engine, which knows no `serde`, stand in a trace: as numbers.
//!
//! **Owns** these translations. **Does not own** what a trace says (`trace`).

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use strata_lru::{SpaceNo as ProgramNo, TimeMs};

/// Milliseconds.
#[derive(Serialize, Deserialize)]
#[serde(remote = "TimeMs")]
pub(crate) struct Ms(u64);

fn by_number<T>(of: &BTreeMap<ProgramNo, T>) -> BTreeMap<u32, &T> {
    of.iter()
        .map(|(program, value)| (program.0, value))
        .collect()
}

fn by_program<T>(of: BTreeMap<u32, T>) -> BTreeMap<ProgramNo, T> {
    let programs = of.into_iter();
    programs
        .map(|(number, value)| (ProgramNo(number), value))
        .collect()
}

/// Something of each program.
pub(super) mod programs {
    use super::*;

    pub(in super::super) fn serialize<T: Serialize, S: Serializer>(
        of: &BTreeMap<ProgramNo, T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        by_number(of).serialize(to)
    }

    pub(in super::super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<ProgramNo, T>, D::Error> {
        BTreeMap::deserialize(from).map(by_program)
    }
}

/// The same, where it was read.
pub(super) mod programs_if_read {
    use super::*;

    pub(in super::super) fn serialize<T: Serialize, S: Serializer>(
        of: &Option<BTreeMap<ProgramNo, T>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        of.as_ref().map(by_number).serialize(to)
    }

    pub(in super::super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<BTreeMap<ProgramNo, T>>, D::Error> {
        Ok(Option::deserialize(from)?.map(by_program))
    }
}
