//! Randomness that a seed decides: SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom
//! number generators", 2014).
//!
//! **Owns** the generator. **Does not own** a seed: that is a parameter of whatever draws.

/// A generator; the same seed gives the same numbers, for ever and everywhere.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// Any 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.state)
    }

    /// A number below `limit`, which is not 0. The bias of `limit / 2^64` is of no account here.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        // The high half of the product is below `limit`.
        ((u128::from(self.bits()) * limit as u128) >> 64) as usize
    }
}

/// Spreads 64 bits over 64 bits, one to one (Stafford's variant 13).
pub fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_published_generator() {
        let mut random = Random::new(1_234_567);
        let drawn: Vec<u64> = (0..3).map(|_| random.bits()).collect();
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!(drawn, published);
    }
}
