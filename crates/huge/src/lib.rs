//! Large blocks of memory: the system allocator with large pages for them, arrays that may be parts of a
//! file ([`Array`]), checksums at the speed of memory ([`checksum`]), and threads for what has nothing in
//! common ([`at_once`], [`beside`]).
//!
//! A drive's map is gigabytes of arrays read at random: with 4 KiB pages nearly every access misses
//! the TLB as well as the cache. Linux gives 2 MiB pages to memory that asks for them (transparent
//! huge pages in their usual `madvise` mode). Where it does not, nothing changes.
//!
//! A process that needs such arrays again and again may [`keep`] them. Memory new to it is zeroed by the system
//! page by page. A virtual machine that reports its free memory to its host (the balloon's free page
//! reporting) gets it back at a twentieth of the speed of memory.

#![warn(missing_docs)]
// A global allocator is an unsafe trait; this one forwards, advises and keeps. Arrays are in memory of two kinds.
#![allow(unsafe_code)]

mod array;
mod source;
mod sum;
mod threads;

pub use array::{Array, Number, as_bytes};
pub use source::{MappedFile, StateSource};
pub use sum::checksum;
pub use threads::{at_once, beside, threads};

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Blocks below this are not worth a large page.
const LARGE: usize = 4 << 20;
const PAGE: usize = 2 << 20;
/// Blocks below this are not worth keeping nor a thread, and no more of them are kept.
const WORTH: usize = 32 << 20;
const KEPT: usize = 16;

/// The allocator of a program with large arrays: the system's, and it asks for large pages.
pub struct HugePages;

/// A block that was given back: its address and layout.
#[derive(Clone, Copy)]
struct Block {
    at: usize,
    layout: Layout,
}

static KEEP: AtomicBool = AtomicBool::new(false);
static BLOCKS: Mutex<[Option<Block>; KEPT]> = Mutex::new([None; KEPT]);

/// From here on large blocks that are given back stay with this process, for its next ones.
pub fn keep() {
    KEEP.store(true, Ordering::Relaxed);
}

/// Gives the system the blocks that nobody has.
pub fn release() {
    let Ok(mut blocks) = BLOCKS.lock() else { return };
    for block in blocks.iter_mut().filter_map(Option::take) {
        // SAFETY: the block came from `System` with this layout, its owner gave it back, and it has
        // just left the list, so that nobody else has it.
        unsafe { System.dealloc(block.at as *mut u8, block.layout) };
    }
}

/// The smallest block kept that is large enough. Where there are only smaller ones all are released,
/// so that they are not kept beside those that take their place.
fn take_kept(layout: Layout) -> Option<*mut u8> {
    if layout.size() < WORTH || !KEEP.load(Ordering::Relaxed) {
        return None;
    }
    let mut blocks = BLOCKS.lock().ok()?;
    let fits = |b: &Block| b.layout.size() >= layout.size() && b.layout.align() == layout.align();
    let found = blocks.iter_mut().filter(|b| b.as_ref().is_some_and(fits));
    let least = found.min_by_key(|b| b.as_ref().map(|b| b.layout.size()));
    if let Some(block) = least.and_then(Option::take) {
        return Some(block.at as *mut u8);
    }
    drop(blocks);
    release();
    None
}

/// Whether the block is kept.
fn keep_block(at: *mut u8, layout: Layout) -> bool {
    if layout.size() < WORTH || !KEEP.load(Ordering::Relaxed) {
        return false;
    }
    let Ok(mut blocks) = BLOCKS.lock() else { return false };
    let Some(free) = blocks.iter_mut().find(|b| b.is_none()) else { return false };
    *free = Some(Block { at: at as usize, layout });
    true
}

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

/// Makes the memory real by all threads, a large page at a time. Little memory is left alone: writing to it is
/// the faster way.
#[cfg(target_os = "linux")]
fn populate(memory: &mut [u8]) {
    if memory.len() < WORTH {
        return;
    }
    let begin = (memory.as_ptr() as usize).next_multiple_of(PAGE);
    let pages = (memory.as_ptr() as usize + memory.len()).saturating_sub(begin) / PAGE;
    let next = std::sync::atomic::AtomicUsize::new(0);
    at_once(threads(), |_| {
        loop {
            let page = next.fetch_add(1, Ordering::Relaxed);
            if page >= pages {
                break;
            }
            let at = (begin + page * PAGE) as *mut libc::c_void;
            // SAFETY: the page lies inside the slice, which is borrowed for writing, and
            // MADV_POPULATE_WRITE changes how it is backed, not what it holds. Where it is refused the
            // page becomes real when it is written.
            unsafe { libc::madvise(at, PAGE, libc::MADV_POPULATE_WRITE) };
        }
    });
}

#[cfg(not(target_os = "linux"))]
fn populate(_: &mut [u8]) {}

// SAFETY: every block is had from `System`, for the caller's layout or a larger one of the same
// alignment, and is in one owner's hands at a time: a caller's, or the list's of blocks kept. The
// size that `System` is told later may be less than it gave; malloc, which it is, keeps its own.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if let Some(block) = take_kept(layout) {
            return block;
        }
        // SAFETY: the caller keeps GlobalAlloc's contract.
        let block = unsafe { System.alloc(layout) };
        advise(block, layout.size());
        block
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if let Some(block) = take_kept(layout) {
            // SAFETY: the block is as large as this at least, and nobody else's.
            unsafe { block.write_bytes(0, layout.size()) };
            return block;
        }
        // SAFETY: the caller keeps GlobalAlloc's contract.
        let block = unsafe { System.alloc_zeroed(layout) };
        advise(block, layout.size());
        block
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if !keep_block(block, layout) {
            // SAFETY: the caller keeps GlobalAlloc's contract.
            unsafe { System.dealloc(block, layout) }
        }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps GlobalAlloc's contract.
        let block = unsafe { System.realloc(block, layout, size) };
        advise(block, size);
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: HugePages = HugePages;

    fn kept() -> Vec<usize> {
        let blocks = BLOCKS.lock().expect("nobody panics with it");
        blocks.iter().flatten().map(|b| b.layout.size()).collect()
    }

    #[test]
    fn blocks_kept_are_taken_again_and_are_zero_if_asked_for() {
        drop(vec![1u8; WORTH]);
        assert!(kept().is_empty(), "nobody asked for it");
        keep();
        let (small, large) = (vec![1u8; WORTH + 8], vec![2u8; 2 * WORTH]);
        let at = [small.as_ptr(), large.as_ptr()];
        drop((large, small));
        assert_eq!(kept(), [2 * WORTH, WORTH + 8]);
        let again = vec![0u8; WORTH];
        assert!(again.as_ptr() == at[0], "the smallest that is large enough");
        assert!(again.iter().all(|&b| b == 0));
        let second = vec![3u8; WORTH + 16];
        assert!(second.as_ptr() == at[1]);
        assert!(kept().is_empty());
        drop((again, second, vec![4u8; WORTH - 1]));
        assert_eq!(kept(), [WORTH, WORTH + 16], "smaller ones are not worth it");
        let more = vec![0u8; 3 * WORTH];
        assert!(kept().is_empty(), "what is too small is not kept beside what is had instead");
        drop(more);
        let many: Vec<_> = (0..KEPT + 3).map(|_| Vec::<u8>::with_capacity(WORTH)).collect();
        drop(many);
        assert_eq!(kept().len(), KEPT);
        release();
        assert!(kept().is_empty());
    }
}
