//! Who gives the program its memory: `mimalloc` what is small, the system what is large.
//!
//! In nearly every call one thread drops what another made, which the system's allocator is slow at: a turn
//! of one write takes a third longer by it. Large blocks are few, and what counts for them is that they go
//! back when they are dropped, and grow in their place: the system does both, and `mimalloc` keeps them for a
//! while and copies. A block's size is told when it is given back, so that both sides always agree on whose
//! it is.
#![expect(unsafe_code, reason = "an allocator is unsafe to be one; it only passes on what it is asked for")]

use std::alloc::{GlobalAlloc, Layout, System};

use mimalloc::MiMalloc;

/// From this size on a block is large, in bytes.
const LARGE_BYTES: usize = 64 * 1024;

#[global_allocator]
static ALLOCATOR: SizeSplitAllocator = SizeSplitAllocator;

struct SizeSplitAllocator;

fn is_large(bytes: usize) -> bool {
    bytes >= LARGE_BYTES
}

// SAFETY: each block is asked of, changed by and given back to one of two allocators, which is chosen by its
// layout's size alone; the caller promises that this is the size that the block has. One that passes the
// bound is made anew and copied.
unsafe impl GlobalAlloc for SizeSplitAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promised.
        unsafe { if is_large(layout.size()) { System.alloc(layout) } else { MiMalloc.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promised.
        unsafe {
            if is_large(layout.size()) { System.alloc_zeroed(layout) } else { MiMalloc.alloc_zeroed(layout) }
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised; the size says who made it.
        unsafe {
            if is_large(layout.size()) {
                System.dealloc(block, layout);
            } else {
                MiMalloc.dealloc(block, layout);
            }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller promised, and a size that fits its alignment; a new block is another one, as
        // long as the shorter of both at least, and the old one is given back only where there is a new one.
        unsafe {
            match (is_large(layout.size()), is_large(size)) {
                (true, true) => System.realloc(block, layout, size),
                (false, false) => MiMalloc.realloc(block, layout, size),
                _ => {
                    let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
                    if !new.is_null() {
                        std::ptr::copy_nonoverlapping(block, new, layout.size().min(size));
                        self.dealloc(block, layout);
                    }
                    new
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Grows and shrinks over the bound, with what is in it; as vectors do it.
    #[test]
    fn blocks_keep_what_they_have_over_the_bound() {
        let sizes = [1, LARGE_BYTES - 1, LARGE_BYTES, 4 * LARGE_BYTES, LARGE_BYTES + 1, LARGE_BYTES - 7, 3];
        let mut bytes: Vec<u8> = Vec::new();
        for size in sizes {
            let kept = bytes.len().min(size);
            bytes.truncate(size);
            bytes.extend((kept..size).map(|at| (at % 251) as u8));
            bytes.shrink_to_fit();
            assert!(
                bytes.len() == size && bytes.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8)
            );
        }
        for size in [LARGE_BYTES - 1, LARGE_BYTES] {
            assert!(vec![0_u8; size].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn blocks_are_aligned_on_both_sides() {
        #[repr(align(4096))]
        struct Page([u8; 4096]);
        for pages in [1, LARGE_BYTES / 4096] {
            let mut all: Vec<Page> = Vec::new();
            all.resize_with(pages, || Page([1; 4096]));
            assert_eq!(all.as_ptr().addr() % 4096, 0);
            assert!(all.iter().all(|page| page.0[4095] == 1));
        }
    }
}
