#![allow(unsafe_code)] // A global allocator is an unsafe trait; this one forwards and counts.
//! Bytes that the program takes for a tree, beside those that the tree says it has.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use wordline_base::Rng;
use wordline_fssd::{Extent, Tree};

struct Counting;
static HELD: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all is handed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller keeps to the layout.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: it was allocated above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Extents of a sector each, as 512-byte writes at random leave them: a four-hundredth of the 840 million of
/// 430 GB. What is held follows the nodes, whose bytes are those of the model.
#[test]
fn a_full_tree_takes_the_bytes_that_it_says() {
    let sectors = 2_100_000u32;
    let mut order: Vec<u32> = (0..sectors).collect();
    let mut rng = Rng::from_seed(1);
    for i in (1..order.len()).rev() {
        order.swap(i, rng.below(i as u64 + 1) as usize);
    }
    let before = HELD.load(Relaxed);
    let mut tree = Tree::new(4096);
    for (place, &lpn) in (0..).zip(&order) {
        tree.insert(Extent { lpn, sectors: 1, place }, u32::MAX, &mut |_| {}).unwrap();
    }
    let held = (HELD.load(Relaxed) - before) as f64;
    let ratio = held / tree.bytes() as f64;
    println!("{} nodes of {} bytes, {ratio:.4} times that held", tree.nodes(), tree.bytes());
    assert_eq!(tree.entries(), u64::from(sectors));
    assert!((1.0..1.2).contains(&ratio), "{ratio}");
}
