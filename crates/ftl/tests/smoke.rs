use crate::common::*;
use wordline_base::{Lpn, Seed};
use wordline_ftl::{Ftl, FtlConfig, Placement, Source};

#[test]
fn fill_overwrite_and_read_back() {
    let g = geometry(4, 8, 64, 16, 8);
    let config = FtlConfig::new(Placement::Device, 28.0);
    let mut ftl = Ftl::new(&g, &config, &mut |_, _| false, Seed(1)).unwrap();
    let mut ctx = ctx(Some(ftl.sectors()));
    ftl.start(&mut ctx);
    let mut fake = Fake::new(&ftl);
    let mut rng = Seed(2).stream("test");
    let mut out = Vec::new();
    let sectors = ftl.sectors() as u32;
    for i in 0..sectors * 5 {
        let lpn = if i < sectors { i } else { rng.below(u64::from(sectors)) as u32 };
        ftl.write(&mut ctx, i, Lpn(lpn), 1, false, Source::Host);
        fake.drain(&mut ftl);
        while !fake.done.contains_key(&i) {
            assert!(fake.step(&mut ftl, &mut ctx, &mut rng), "stuck at write {i}");
            fake.drain(&mut ftl);
        }
        assert!(fake.done.remove(&i).unwrap());
        let lpn = rng.below(u64::from(sectors)) as u32;
        assert_eq!(read_check(&mut ftl, &mut ctx, lpn, 1, &mut out), 0);
        fake.drain(&mut ftl);
        if i % 1000 == 0 {
            ftl.check_invariants().unwrap();
        }
    }
    assert_eq!(ctx.stamps.wrong().0, 0);
    println!("{:?} waf {:.3}", ftl.counters(), ftl.counters().waf());
}

/// All programs fail until no line is left to write to: the flushes that wait end too, and fail.
#[test]
fn a_flush_of_what_no_program_takes_fails() {
    for (stride, seed) in [(0, 1), (0, 2), (4, 3), (4, 4)] {
        let g = geometry(2, 8, 60, 8, 2);
        let mut config = FtlConfig::new(Placement::Device, 50.0);
        config.stride = stride;
        let mut ftl = Ftl::new(&g, &config, &mut |_, _| false, Seed(seed)).unwrap();
        let mut ctx = ctx(Some(ftl.sectors()));
        ftl.start(&mut ctx);
        let mut fake = Fake::new(&ftl);
        fake.faults.program = 1_000_000_000;
        let mut rng = Seed(seed).stream("test");
        for i in 0..8 {
            ftl.write(&mut ctx, i, Lpn(i), 1, false, Source::Host);
        }
        ftl.flush(&mut ctx, 8);
        ftl.write(&mut ctx, 9, Lpn(8), 1, true, Source::Host);
        fake.drain(&mut ftl);
        while fake.step(&mut ftl, &mut ctx, &mut rng) {
            fake.drain(&mut ftl);
        }
        fake.drain(&mut ftl);
        assert_eq!(fake.done.len(), 10, "stride {stride}, seed {seed}: all commands end");
        assert!(!fake.done[&8], "stride {stride}, seed {seed}: the flush fails");
        assert!(!fake.done[&9], "stride {stride}, seed {seed}: the FUA write fails");
        let mut out = Vec::new();
        for lpn in 0..8 {
            assert_eq!(read_check(&mut ftl, &mut ctx, lpn, 1, &mut out), 0, "the buffer has it");
        }
        assert_eq!(ctx.stamps.wrong().0, 0);
    }
}
