//! What the two hands cost: processor time for each page that went.
//!
//! **Owns** the sums, and which hand is cheaper. **Does not own** whether a hand may be used for a group (`by_amount`).

/// A price is known from so many pages on: 2 MiB.
const KNOWN_PAGES: f64 = 512.0;
/// Older pages count half once there are so many: 256 MiB. What a page costs changes with what else runs.
const HALVED_PAGES: f64 = 65_536.0;
/// A hand is cheaper if it costs less than this share of the other: less is noise.
const CHEAPER_SHARE: f64 = 0.8;

/// Of one hand.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Price {
    cpu_ns: f64,
    nr_pages: f64,
}

impl Price {
    /// So many pages went for so much processor time.
    pub(super) fn note(&mut self, cpu_ns: u64, nr_pages: u64) {
        if self.nr_pages > HALVED_PAGES {
            (self.cpu_ns, self.nr_pages) = (self.cpu_ns / 2.0, self.nr_pages / 2.0);
        }
        self.cpu_ns += cpu_ns as f64;
        self.nr_pages += nr_pages as f64;
    }

    /// Nanoseconds a page; `None`: too few went.
    pub(super) fn ns_a_page(&self) -> Option<f64> {
        (self.nr_pages >= KNOWN_PAGES).then(|| self.cpu_ns / self.nr_pages)
    }
}

/// Of both hands, for all groups alike.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prices {
    pub(super) exact: Price,
    pub(super) amount: Price,
}

impl Prices {
    /// Whether the kernel is to be asked for an amount where either hand could take: it is cheaper, or that is not known
    /// yet and the other's price is.
    pub(super) fn prefer_amount(&self) -> bool {
        match (self.exact.ns_a_page(), self.amount.ns_a_page()) {
            (Some(exact), Some(amount)) => amount < exact * CHEAPER_SHARE,
            (exact, None) => exact.is_some(),
            (None, Some(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_tried_once_the_exact_price_is_known_and_kept_to_if_it_is_clearly_cheaper() {
        let mut prices = Prices::default();
        assert!(!prices.prefer_amount(), "nothing is known");
        prices.exact.note(600_000_000, 60_000);
        assert!(prices.prefer_amount(), "to learn its price");
        prices.amount.note(9_000 * 1_000, 1_000);
        assert!(!prices.prefer_amount(), "9 of 10 microseconds are noise");
        prices.amount.note(1_000 * 20_000, 20_000);
        assert!(prices.prefer_amount());
        for _ in 0..10 {
            prices.exact.note(60_000_000, 60_000);
        }
        assert!(!prices.prefer_amount(), "prices change");
    }
}
