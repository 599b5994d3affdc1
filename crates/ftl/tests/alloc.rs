//! The data path allocates nothing once the drive is in its steady state.
#![allow(unsafe_code)]

mod common;
use common::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use wordline_base::{Lpn, Seed};
use wordline_ftl::{Ftl, FtlConfig, Placement, Source};

static COUNTING: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicU64 = AtomicU64::new(0);

struct Counting;

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(u64::from(COUNTING.load(Relaxed)), Relaxed);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOC: Counting = Counting;

#[test]
fn nothing_is_allocated_in_the_steady_state() {
    let g = geometry(4, 8, 100, 32, 4);
    let c = FtlConfig::new(Placement::Device, 20.0);
    let mut ftl = Ftl::new(&g, &c, &mut |_, _| false, Seed(1)).unwrap();
    let mut ctx = ctx(Some(ftl.sectors()));
    ftl.fill(&mut ctx.stamps).unwrap();
    ftl.settle();
    ftl.start(&mut ctx);
    let mut fake = Fake::new(&ftl);
    let mut rng = Seed(2).stream("alloc");
    let sectors = ftl.sectors();
    let mut out = Vec::with_capacity(64);
    for i in 0..sectors as u32 * 13 {
        // Versions of sectors are too large for half a byte by then, so that their segments are wide.
        let steady = i > sectors as u32 * 10;
        let lpn = Lpn(rng.below(sectors - 4) as u32);
        out.clear();
        COUNTING.store(steady, Relaxed);
        ftl.write(&mut ctx, i, lpn, 1 + i % 4, i % 32 == 0, Source::Host);
        ftl.read(&mut ctx, lpn, 4, &mut out);
        COUNTING.store(false, Relaxed);
        for piece in &out {
            if let wordline_ftl::Place::Flash { ppa, .. } = piece.place {
                ftl.read_done(&mut ctx, ppa, piece.sectors);
            }
        }
        fake.drain_fast(&mut ftl);
        while fake.done.remove(&i).is_none() {
            COUNTING.store(steady, Relaxed);
            let stepped = fake.step(&mut ftl, &mut ctx, &mut rng);
            COUNTING.store(false, Relaxed);
            assert!(stepped, "stuck");
            fake.drain_fast(&mut ftl);
        }
    }
    assert!(ftl.counters().gc_sectors > sectors);
    assert_eq!(COUNT.load(Relaxed), 0);
}
