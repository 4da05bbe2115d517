//! One setting of glibc's allocator, for blocks of objects.

/// From this length on memory has a mapping of its own \[bytes\]: that of a block of the default geometry.
const MAPPED_FROM: libc::c_int = 1 << 20;

/// As [`map_large_blocks`](crate::socket::map_large_blocks).
pub(in crate::socket) fn map_large_blocks() {
    // What an operator has set in the environment stands.
    if std::env::var_os("MALLOC_MMAP_THRESHOLD_").is_none() {
        // SAFETY: it takes two integers, and may be called at any time from any thread.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM) };
    }
}
