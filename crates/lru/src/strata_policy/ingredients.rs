//! What the policy of our own is made of, each part of which can be left out to see what it is worth.
//!
//! **Owns** the list of ingredients and their names. **Does not own** what they do (`arrival`,
//! `eviction`, `window`, `lull`, `ages`, `walks`, `recency`).

/// A part of the policy that it can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ingredient {
    /// A page proves itself by an access sooner than the coldest proven one has waited; without, by
    /// any further access.
    Test,
    /// A page that comes back can be proven by that; without, it goes on trial like any other.
    Returns,
    /// Up to three accesses are counted, each sparing a proven page once; without, one.
    Counts,
    /// The trial is as long as pays; without, a quarter of memory.
    Window,
    /// The more one-sided the evidence, the faster the trial changes; without, a page at a time.
    Strides,
    /// Proven pages that are not asked for at all say nothing for a shorter trial; without, they do.
    Lulls,
    /// The coldest proven page has waited at least twice as long as all of them have on average;
    /// without, as long as the next to go.
    Mean,
    /// Accessed bits are read whenever a twentieth of memory is new; without, only those of what is
    /// about to go.
    Walks,
    /// Until something that left comes back the least recently used goes; without, who is on trial.
    Recency,
}

impl Ingredient {
    /// All of them.
    pub const ALL: &'static [Ingredient] = &[
        Ingredient::Test,
        Ingredient::Returns,
        Ingredient::Counts,
        Ingredient::Window,
        Ingredient::Strides,
        Ingredient::Lulls,
        Ingredient::Mean,
        Ingredient::Walks,
        Ingredient::Recency,
    ];

    /// Name of the ingredient on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Ingredient::Test => "test",
            Ingredient::Returns => "returns",
            Ingredient::Counts => "counts",
            Ingredient::Window => "window",
            Ingredient::Strides => "strides",
            Ingredient::Lulls => "lulls",
            Ingredient::Mean => "mean",
            Ingredient::Walks => "walks",
            Ingredient::Recency => "recency",
        }
    }
}

/// A set of ingredients.
///
/// ```
/// use strata_lru::{Ingredient, Ingredients};
///
/// let without = Ingredients::ALL.without(Ingredient::Counts);
/// assert!(without.has(Ingredient::Test) && !without.has(Ingredient::Counts));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ingredients(u16);

impl Ingredients {
    /// The policy as it is meant.
    pub const ALL: Ingredients = Ingredients(u16::MAX);

    /// The ingredients less one.
    #[must_use]
    pub fn without(self, ingredient: Ingredient) -> Ingredients {
        Ingredients(self.0 & !(1 << ingredient as u8))
    }

    /// Whether one is among them.
    pub fn has(self, ingredient: Ingredient) -> bool {
        self.0 & 1 << ingredient as u8 != 0
    }
}

impl Default for Ingredients {
    fn default() -> Ingredients {
        Ingredients::ALL
    }
}
