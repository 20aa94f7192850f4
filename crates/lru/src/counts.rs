//! Records of counts that are added up.
//!
//! **Owns** adding one record to another. **Does not own** what is counted.
//!
//! **Invariants** I1: no field can be forgotten: the record is declared where adding is.

/// What can be added up, in place.
pub trait AddUp {
    /// Adds as much as another has.
    fn add_up(&mut self, more: &Self);
}

impl AddUp for u64 {
    fn add_up(&mut self, more: &u64) {
        *self += more;
    }
}

impl<T: AddUp, const N: usize> AddUp for [T; N] {
    fn add_up(&mut self, more: &[T; N]) {
        let pairs = self.iter_mut().zip(more);
        pairs.for_each(|(sum, more)| sum.add_up(more));
    }
}

/// What is not known stays so.
impl<T: AddUp> AddUp for Option<T> {
    fn add_up(&mut self, more: &Option<T>) {
        if let (Some(sum), Some(more)) = (self, more) {
            sum.add_up(more);
        }
    }
}

/// A record of counts: `+=` adds field by field, and records have a sum.
///
/// ```
/// strata_lru::counts! {
///     /// What was looked at.
///     #[derive(Clone, Copy, Debug, Default, PartialEq)]
///     pub struct Looked {
///         /// Tables.
///         pub nr_tables: u64,
///         /// Pages, by kind.
///         pub nr_pages: [u64; 2],
///     }
/// }
/// let one = Looked { nr_tables: 1, nr_pages: [2, 3] };
/// assert_eq!([one, one].into_iter().sum::<Looked>(), Looked { nr_tables: 2, nr_pages: [4, 6] });
/// ```
#[macro_export]
macro_rules! counts {
    (
        $(#[$meta:meta])*
        $vis:vis struct $type:ident {
            $($(#[$of:meta])* $seen:vis $field:ident: $count:ty,)+
        }
    ) => {
        $(#[$meta])*
        $vis struct $type {
            $($(#[$of])* $seen $field: $count,)+
        }

        impl $crate::AddUp for $type {
            fn add_up(&mut self, more: &$type) {
                $($crate::AddUp::add_up(&mut self.$field, &more.$field);)+
            }
        }

        impl ::std::ops::AddAssign for $type {
            fn add_assign(&mut self, more: $type) {
                $crate::AddUp::add_up(self, &more);
            }
        }

        impl ::std::iter::Sum for $type {
            fn sum<I: Iterator<Item = $type>>(parts: I) -> $type {
                let mut sum = $type::default();
                parts.for_each(|part| sum += part);
                sum
            }
        }
    };
}
