//! The generators' own randomness: xorshift64*, stable for ever.
//!
//! A sequence that a figure was measured on has to be the same in ten years and on any machine, so
//! the algorithm is written out here rather than taken from a library that may change its mind.
//!
//! **Owns** the pseudo-random numbers and permutations made of them. **Does not own** the seeds.
//!
//! Source: Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled" (2016).

/// xorshift64*: 64 bits of state, never 0.
#[derive(Clone, Debug)]
pub(crate) struct Rng {
    state: u64,
}

impl Rng {
    /// Starts at exactly this state; 0 would stay 0 and is taken for 1.
    pub(crate) fn from_state(state: u64) -> Rng {
        Rng {
            state: state.max(1),
        }
    }

    /// Starts at a state that small, similar seeds do not share bits of (the finaliser of splitmix64).
    pub(crate) fn from_seed(seed: u64) -> Rng {
        let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        Rng::from_state(z ^ z >> 31)
    }

    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        let mut x = self.state;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.state = x;
        x.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `limit`, which is not 0. Biased by less than `limit` in 2^32.
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        ((self.next() >> 32) % u64::from(limit)) as u32
    }

    /// A number in 0..1 with 53 random bits; exact, so the same on every machine.
    pub(crate) fn unit(&mut self) -> f64 {
        const TWO_TO_53: f64 = (1_u64 << 53) as f64;
        (self.next() >> 11) as f64 / TWO_TO_53
    }

    /// The numbers below `len` in random order (Fisher and Yates).
    pub(crate) fn permutation(&mut self, len: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..len).collect();
        for last in (1..len).rev() {
            order.swap(last as usize, self.below(last + 1) as usize);
        }
        order
    }
}
