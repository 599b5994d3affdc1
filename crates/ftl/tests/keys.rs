//! Every key of the configuration changes what the FTL does.

use crate::common::*;
use wordline_base::{Lpn, Seed, Span, Stamps};
use wordline_ftl::{Ftl, FtlConfig, Placement, Source, VictimPolicy};

/// A hash of all actions and the times of the timers of a fixed run.
fn trace(c: &FtlConfig) -> u64 {
    let g = geometry(4, 8, 80, 16, 4);
    let mut bad = |lun: u32, line: u32| line % 9 == 4 && lun < 5;
    let mut ftl = Ftl::new(&g, c, &mut bad, Seed(1)).expect("a valid configuration");
    let mut rng = Seed(2).stream("keys");
    let sectors = ftl.sectors();
    let mut off = Stamps::off();
    ftl.fill(&mut off).unwrap();
    ftl.settle();
    let hot = sectors / 4;
    let lpns: Vec<u32> = (0..sectors * 4).map(|_| rng.below(hot) as u32).collect();
    ftl.overwrite(&mut off, &lpns).unwrap();
    let mut ctx = ctx(None);
    ftl.start(&mut ctx);
    let mut fake = Fake::new(&ftl);
    let mut order = Seed(3).stream("order");
    for tag in 0..20_000 {
        ctx.now += Span::from_us(20);
        let lpn = Lpn(rng.below(hot) as u32);
        ftl.write(&mut ctx, tag, lpn, 1, false, Source::Host);
        fake.drain(&mut ftl);
        while !fake.done.contains_key(&tag) {
            assert!(fake.step(&mut ftl, &mut ctx, &mut order), "stuck");
            fake.drain(&mut ftl);
        }
        // What is read from memory depends on the back threshold.
        if tag % 16 == 0 {
            let mut out = Vec::new();
            for l in (0..hot as u32).step_by(7) {
                read_check(&mut ftl, &mut ctx, l, 1, &mut out);
            }
            fake.drain(&mut ftl);
        }
    }
    let mut hash = fake.trace ^ ftl.counters().read_buffer.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    // Then users are silent for ten seconds, twice: a collector at rest does not fill the unit of the sector between.
    for tag in 20_000..20_002 {
        let end = ctx.now + Span::from_secs(10);
        while ctx.queue.next_time().is_some_and(|t| t < end) && fake.tick(&mut ftl, &mut ctx) {
            hash = hash.rotate_left(7) ^ ctx.now.0;
            fake.settle(&mut ftl, &mut ctx, &mut order);
        }
        ftl.write(&mut ctx, tag, Lpn(0), 1, false, Source::Host);
        fake.settle(&mut ftl, &mut ctx, &mut order);
    }
    hash ^ fake.trace
}

#[test]
fn every_key_of_the_ftl_changes_what_it_does() {
    let base = FtlConfig::new(Placement::Device, 30.0);
    let expected = trace(&base);
    assert_eq!(trace(&base), expected, "not deterministic");
    type Change = fn(&mut FtlConfig);
    let keys: [(&str, Change); 21] = [
        ("over_provisioning", |c| c.over_provisioning = 31.0),
        ("buffer_sectors", |c| c.buffer_sectors = Some(256)),
        ("back_threshold", |c| c.back_threshold = Some(8)),
        ("max_request_sectors", |c| c.max_request_sectors = 8),
        ("write_timer", |c| c.write_timer = Span::from_ms(300)),
        ("pad_idle", |c| c.pad_idle = true),
        ("min_good_luns", |c| c.min_good_luns = Some(4)),
        ("meta_distance", |c| c.meta_distance = Some(1)),
        ("gc_start_lines", |c| c.gc_start_lines = Some(9)),
        ("gc_reserve_lines", |c| c.gc_reserve_lines = Some(17)),
        ("gc_lines", |c| c.gc_lines = 1),
        ("gc_readers", |c| c.gc_readers = 1),
        ("gc_queue", |c| (c.gc_readers, c.gc_queue) = (1, 1)),
        ("gc_request_sectors", |c| c.gc_request_sectors = 5),
        ("user_idle", |c| c.user_idle = Span::from_secs(1)),
        ("wear_spread", |c| c.wear_spread = 2),
        ("victim", |c| c.victim = VictimPolicy::Fifo),
        ("d_choices 10", |c| c.victim = VictimPolicy::DChoices),
        ("d_choices 2", |c| (c.victim, c.d_choices) = (VictimPolicy::DChoices, 2)),
        ("victim_window 8", |c| (c.victim, c.victim_window) = (VictimPolicy::WindowedGreedy, 8)),
        ("victim_window 2", |c| (c.victim, c.victim_window) = (VictimPolicy::WindowedGreedy, 2)),
    ];
    let mut seen = vec![("defaults", expected)];
    for (name, change) in keys {
        let mut c = base.clone();
        change(&mut c);
        let hash = trace(&c);
        for (other, h) in &seen {
            assert_ne!(hash, *h, "{name} acts as {other}");
        }
        seen.push((name, hash));
    }
}

/// Lines so short that their metadata pile up.
#[test]
fn the_writer_waits_for_metadata() {
    let run = |meta_lines: u32| {
        let g = geometry(2, 8, 400, 2, 1);
        let mut c = FtlConfig::new(Placement::Device, 40.0);
        c.meta_lines = meta_lines;
        let mut ftl = Ftl::new(&g, &c, &mut |_, _| false, Seed(1)).unwrap();
        let mut ctx = ctx(None);
        ftl.start(&mut ctx);
        let mut fake = Fake::new(&ftl);
        let mut rng = Seed(3).stream("order");
        let sectors = ftl.sectors() as u32;
        for tag in 0..200 {
            ftl.write(&mut ctx, tag, Lpn(tag * 16 % (sectors - 16)), 16, false, Source::Host);
            fake.drain(&mut ftl);
            while !fake.done.contains_key(&tag) {
                assert!(fake.step(&mut ftl, &mut ctx, &mut rng), "stuck");
                fake.drain(&mut ftl);
            }
        }
        fake.settle(&mut ftl, &mut ctx, &mut rng);
        ftl.check_invariants().unwrap();
        (fake.trace, ftl.counters().emeta_forced)
    };
    let (one, four) = (run(1), run(4));
    println!("units of metadata forced out: {} and {}", one.1, four.1);
    assert!(one.1 > 0 && one.0 != four.0);
}

#[test]
fn defaults_are_those_of_pblk_and_unknown_keys_are_refused() {
    let text = r#"{ "placement": "host", "over_provisioning": 11.0 }"#;
    let c: FtlConfig = serde_json::from_str(text).unwrap();
    assert_eq!(c, FtlConfig::new(Placement::Host, 11.0));
    let back: FtlConfig = serde_json::from_str(&serde_json::to_string(&c).unwrap()).unwrap();
    assert_eq!(back, c);
    let text = r#"{ "placement": "host", "over_provisioning": 11.0, "gc_line": 3 }"#;
    assert!(serde_json::from_str::<FtlConfig>(text).unwrap_err().to_string().contains("gc_line"));
}
