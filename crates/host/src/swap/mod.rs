//! Swap devices of our own: zram, a file, a file behind zswap.
//!
//! **Owns** making them with top priority and a limit, and taking them down only while what they
//! hold fits into free memory. **Does not own** devices that were there before.
