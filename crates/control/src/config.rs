//! Every tunable of the loop: the numbers of all modules in one value.
//!
//! **Owns** which modules have numbers, and setting one by its name. **Does not own** the numbers, their ranges and
//! reasons: they stand beside the code that uses them, and `docs/develop/tunables.md` lists them.

use crate::strategy::{admit_cache, drop_cache, split_huge};
use crate::tunables::{OutOfRange, Tunables, config_of};
use crate::{cpu, limit, loop_config, pressure, reclaimer, stall, walks, watermarks};
use serde_json::Value;
use std::fmt;

config_of! {
    /// What the loop's judgements are made by.
    ///
    /// ```
    /// use strata_control::{Config, Tunables};
    ///
    /// let mut config = Config::default();
    /// config.reclaimer.hold_ms = 1000;
    /// assert!(config.validate().is_ok());
    /// config.reclaimer.hold_ms = 1;
    /// let refused = config.validate().unwrap_err();
    /// assert!(refused.to_string().starts_with("reclaimer.hold_ms is 1, but may be 50 to 2000 (ms)"));
    /// ```
    {
        /// The loop itself: how much is asked for at once, and what is looked at when.
        control: loop_config::Config;
        /// The marks around a budget.
        watermarks: watermarks::Config;
        /// How much has to go, and when to look again.
        pressure: pressure::Config;
        /// Who reclaims.
        reclaimer: reclaimer::Config;
        /// Who has the processors.
        cpu: cpu::Config;
        /// When reclaim is in vain.
        stall: stall::Config;
        /// When the limit gives way.
        limit: limit::Config;
        /// When walks come.
        walks: walks::Config;
        /// Dropping page cache that was read once.
        drop_cache: drop_cache::Config;
        /// Which page cache that comes in stays.
        admit_cache: admit_cache::Config;
        /// Splitting huge pages.
        split_huge: split_huge::Config;
    }
}

/// Why a tunable can't be set.
#[derive(Clone, Debug, PartialEq)]
pub enum SetError {
    /// No tunable has this name.
    Unknown(String),
    /// Values of the tunable are whole numbers.
    NotWhole(String, f64),
    /// The tunable may not have this value.
    OutOfRange(OutOfRange),
}

impl fmt::Display for SetError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetError::Unknown(name) => write!(
                out,
                "no tunable is called {name}; they are MODULE.NAME, for example walks.pause_ms_min, and docs/develop/tunables.md \
                 lists them"
            ),
            SetError::NotWhole(name, value) => {
                write!(out, "{name} is a whole number, not {value}")
            }
            SetError::OutOfRange(error) => error.fmt(out),
        }
    }
}

impl std::error::Error for SetError {}

impl Config {
    /// A config with one tunable set, by its name in `docs/develop/tunables.md`: module and name, a dot between them.
    ///
    /// # Errors
    /// [`SetError`]; nothing is set then.
    pub fn with(&self, name: &str, value: f64) -> Result<Config, SetError> {
        let unknown = || SetError::Unknown(name.to_owned());
        let mut all = serde_json::to_value(self).map_err(|_| unknown())?;
        let pointer = format!("/{}", name.replace('.', "/"));
        let field = all.pointer_mut(&pointer).ok_or_else(unknown)?;
        let is_whole = field.is_u64() || field.is_i64();
        *field = match is_whole {
            true if value.fract() == 0.0 && value >= 0.0 => Value::from(value as u64),
            true => return Err(SetError::NotWhole(name.to_owned(), value)),
            false if field.is_f64() => Value::from(value),
            false => return Err(unknown()),
        };
        let config: Config = serde_json::from_value(all).map_err(|_| unknown())?;
        config.validate().map_err(SetError::OutOfRange)?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tunable_can_be_set_by_the_name_that_the_table_has_and_nothing_else_moves() {
        let default = Config::default();
        for of in default.tunables() {
            let name = format!("{}.{}", of.module, of.name);
            let (least, most) = of.range;
            let other = if of.default == least { most } else { least };
            match default.with(&name, other) {
                Ok(config) => {
                    let changed = config.tunables().into_iter().zip(default.tunables());
                    let changed: Vec<_> = changed
                        .filter(|(now, was)| now.value != was.value)
                        .collect();
                    assert_eq!(changed.len(), 1, "{name}");
                    assert_eq!(changed[0].0.value, other, "{name}");
                }
                Err(error) => panic!("{name}: {error}"),
            }
            assert_eq!(default.with(&name, of.default), Ok(default), "{name}");
        }
    }

    #[test]
    fn what_is_no_tunable_or_out_of_range_is_refused_with_the_reason() {
        let default = Config::default();
        let refused = |name: &str, value| default.with(name, value).unwrap_err().to_string();
        assert!(refused("walks", 3.0).contains("no tunable is called walks"));
        assert!(refused("walks.pace", 3.0).contains("docs/develop/tunables.md"));
        assert!(refused("", 3.0).contains("no tunable"));
        assert!(refused("walks.pause_ms_min", 2.5).contains("whole number"));
        assert!(refused("walks.pause_ms_min", -1.0).contains("whole number"));
        assert!(refused("walks.pause_ms_min", 5000.0).contains("may be 1 to 100 (ms)"));
    }
}
