//! Values that have names on the command line, in tables and in files.
//!
//! **Owns** what such a type can do. **Does not own** any name.

/// An enum each value of which has one name, or (with `impl`) the names of some values: `ALL` of them in order, `NAMES`, `name`, `Display`,
/// and with an error that holds a name that is none, `FromStr`.
///
/// ```
/// strata_lru::named! {
///     /// Where to.
///     #[derive(Clone, Copy, Debug, PartialEq)]
///     pub enum Way or NoWay {
///         /// There.
///         There = "there",
///         /// And back again.
///         Back = "and-back",
///     }
/// }
/// #[derive(Debug, PartialEq)]
/// pub struct NoWay(String);
///
/// assert_eq!("and-back".parse(), Ok(Way::Back));
/// assert_eq!("back".parse::<Way>(), Err(NoWay("back".to_owned())));
/// ```
#[macro_export]
macro_rules! named {
    (impl $type:ident $(or $error:ident)? {
        $($value:ident $(($of:path))? = $name:literal,)+
    }) => {
        impl $type {
            /// All there are, in order.
            pub const ALL: &'static [$type] = &[$($type::$value $(($of))?),+];

            /// Their names.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// The name.
            pub fn name(self) -> &'static str {
                match self {
                    $($type::$value $(($of))? => $name,)+
                }
            }
        }

        impl ::std::fmt::Display for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.name())
            }
        }

        $(impl ::std::str::FromStr for $type {
            type Err = $error;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                let known = Self::ALL.iter().copied().find(|of| of.name() == name);
                known.ok_or_else(|| $error(name.to_owned()))
            }
        })?
    };
    (
        $(#[$meta:meta])*
        $vis:vis enum $type:ident $(or $error:ident)? {
            $($(#[$of:meta])* $value:ident = $name:literal,)+
        }
    ) => {
        $(#[$meta])*
        $vis enum $type {
            $($(#[$of])* $value,)+
        }

        $crate::named!(impl $type $(or $error)? { $($value = $name,)+ });
    };
}
