//! Memory of this process that its allocator holds and nobody uses.
//!
//! **Owns** the call. **Does not own** when it is worth it.
#![expect(unsafe_code, reason = "malloc_trim has no safe wrapper")]

/// Gives it back to the kernel. glibc gives back little by itself once a moment has needed much; other allocators are left alone.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointer, and takes the allocator's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}
