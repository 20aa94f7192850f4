//! Numbers that judgements are made by, each with its unit, its range, its default and the reason for it.
//!
//! ```text
//!   config! { module, fields }  --> Config of one module --\
//!   config! { module, fields }  --> Config of one module ---> config_of! { them } --> the Config of all
//! ```
//!
//! **Owns** what a tunable is, how a module declares its own, and whether a value is in range. **Does not own** any of
//! the numbers: each stands in the `Config` beside the code that uses it.
//!
//! **Invariants** I1: a value is in its range or refused, never brought into it.

use std::fmt;

/// A number that judgements are made by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tunable {
    /// The field of the configuration that holds the numbers of one module; below another field after a dot.
    pub module: &'static str,
    /// The field of the module's numbers.
    pub name: &'static str,
    /// Unit of the number.
    pub unit: &'static str,
    /// The least and the most that the number may be.
    pub range: (f64, f64),
    /// The number unless set.
    pub default: f64,
    /// The number as it is set.
    pub value: f64,
    /// What the number does, and why it is what it is.
    pub why: &'static str,
}

impl Tunable {
    /// Whether the value may be what it is.
    pub fn is_in_range(&self) -> bool {
        let (least, most) = self.range;
        (least..=most).contains(&self.value)
    }
}

/// A number that may not be what it was set to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutOfRange(pub Tunable);

impl fmt::Display for OutOfRange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tunable {
            module,
            name,
            unit,
            range: (least, most),
            default,
            value,
            ..
        } = self.0;
        write!(
            out,
            "{module}.{name} is {value}, but may be {least} to {most} ({unit}); \
             leave it out to have {default}"
        )
    }
}

impl std::error::Error for OutOfRange {}

/// Numbers that judgements are made by.
pub trait Tunables {
    /// Each of them, in the order in which they are declared.
    fn tunables(&self) -> Vec<Tunable>;

    /// Whether all are in their ranges.
    ///
    /// # Errors
    /// The first that is not.
    fn validate(&self) -> Result<(), OutOfRange> {
        let mut tunables = self.tunables().into_iter();
        match tunables.find(|tunable| !tunable.is_in_range()) {
            Some(tunable) => Err(OutOfRange(tunable)),
            None => Ok(()),
        }
    }
}

/// Declares the numbers of a module: `name: type = default, least..=most, unit;`, where the comment says why.
macro_rules! config {
    ($(#[doc = $about:literal])+ $module:literal $(
        $(#[doc = $why:literal])+
        $name:ident: $type:ident = $default:expr, $range:expr, $unit:literal;
    )+) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Config {
            $($(#[doc = $why])+ pub $name: $type,)+
        }

        impl Config {
            /// What holds unless set.
            pub const DEFAULT: Config = Config { $($name: $default,)+ };
        }

        impl Default for Config {
            fn default() -> Config {
                Config::DEFAULT
            }
        }

        impl $crate::tunables::Tunables for Config {
            fn tunables(&self) -> Vec<$crate::tunables::Tunable> {
                vec![$({
                    let range: std::ops::RangeInclusive<$type> = $range;
                    $crate::tunables::Tunable {
                        module: $module,
                        name: stringify!($name),
                        unit: $unit,
                        range: (*range.start() as f64, *range.end() as f64),
                        default: Config::DEFAULT.$name as f64,
                        value: self.$name as f64,
                        why: concat!($($why),+).trim_ascii(),
                    }
                },)+]
            }
        }
    };
}
pub(crate) use config;

/// Puts the numbers of several modules together: `{ name: type; }`.
macro_rules! config_of {
    ($(#[doc = $about:literal])+ { $($(#[doc = $doc:literal])+ $name:ident: $type:ty;)+ }) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Config {
            $($(#[doc = $doc])+ pub $name: $type,)+
        }

        impl $crate::tunables::Tunables for Config {
            fn tunables(&self) -> Vec<$crate::tunables::Tunable> {
                [$($crate::tunables::Tunables::tunables(&self.$name),)+].concat()
            }
        }
    };
}
pub(crate) use config_of;
