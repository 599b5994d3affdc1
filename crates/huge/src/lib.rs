//! The system allocator, with large pages for large blocks.
//!
//! A drive's map is gigabytes of arrays read at random: with 4 KiB pages nearly every access misses
//! the TLB as well as the cache. Linux gives 2 MiB pages to memory that asks for them (transparent
//! huge pages in their usual `madvise` mode). Where it does not, nothing changes.

#![allow(unsafe_code)] // A global allocator is an unsafe trait; this one only forwards and advises.

use std::alloc::{GlobalAlloc, Layout, System};

/// Blocks below this are not worth a large page.
const LARGE: usize = 4 << 20;
const PAGE: usize = 2 << 20;

pub struct HugePages;

fn advise(block: *mut u8, size: usize) {
    if size < LARGE || block.is_null() {
        return;
    }
    let first = (block as usize).next_multiple_of(PAGE);
    let end = (block as usize + size) / PAGE * PAGE;
    if end > first {
        // SAFETY: first..end lies inside a live block of ours, and MADV_HUGEPAGE changes how it is
        // backed, not what it holds. A refusal is harmless, so the result is of no interest.
        unsafe { libc::madvise(first as *mut libc::c_void, end - first, libc::MADV_HUGEPAGE) };
    }
}

// SAFETY: every call is forwarded to `System` with the same arguments and its result returned.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps GlobalAlloc's contract.
        let block = unsafe { System.alloc(layout) };
        advise(block, layout.size());
        block
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps GlobalAlloc's contract.
        let block = unsafe { System.alloc_zeroed(layout) };
        advise(block, layout.size());
        block
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps GlobalAlloc's contract.
        unsafe { System.dealloc(block, layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps GlobalAlloc's contract.
        let block = unsafe { System.realloc(block, layout, size) };
        advise(block, size);
        block
    }
}
