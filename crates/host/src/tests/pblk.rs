//! pblk on the host.

use super::*;

fn pblk_world(jobs: Vec<(ThreadSpec, List)>, depth: u32, cores: u32) -> World<List> {
    pblk_world_on(&StackConfig { queue_depth: depth, ..stack(cores) }, jobs)
}

/// pblk on a small open-channel drive.
pub fn pblk_world_on(config: &StackConfig, jobs: Vec<(ThreadSpec, List)>) -> World<List> {
    pblk_world_of(4096, config, jobs)
}

/// The same with logical blocks of so many bytes.
fn pblk_world_of(lba: u32, config: &StackConfig, jobs: Vec<(ThreadSpec, List)>) -> World<List> {
    let (luns, unit, pages, lines) = (8, 8, 16, 64);
    let g = wordline_nand::Geometry {
        slc_pages: 0,
        channels: 4,
        luns,
        lines,
        pages,
        sector: Default::default(),
        sectors_per_unit: unit,
        sectors_per_stripe: unit * luns,
        sectors_per_line: unit * luns * pages,
        planes: 1,
        in_place: false,
    };
    let spare = wordline_ftl::FtlConfig::new(wordline_ftl::Placement::Host, 28.0);
    let ftl = Ftl::new(&g, &spare, &mut |_, _| false, wordline_base::Seed(1)).unwrap();
    let sectors = ftl.sectors();
    let d = DriveInfo { bytes: sectors * 4096, lba_bytes: lba, unit_sectors: unit, ..drive() };
    let cost = wordline_ftl::config::FtlCost {
        read_command: Span(500),
        read_sector: Span(100),
        write_command: Span(1_000),
        write_sector: Span(400),
        program_unit: Span(2_000),
        gc_sector: Span(200),
        background_command: Span(1_000),
        ..Default::default()
    };
    // A LUN works in the order of arrival.
    let mut free = vec![Time::ZERO; luns as usize];
    let latency = Box::new(move |sqe: &Sqe, now: Time| {
        let lun = &mut free[sqe.address as usize / unit as usize % luns as usize];
        let span = match sqe.opcode {
            Opcode::VectorRead => 60_000,
            Opcode::VectorWrite => 500_000,
            Opcode::VectorReset => 3_000_000,
            other => panic!("{other:?} for an open-channel drive"),
        };
        *lun = now.max(*lun) + Span(span);
        *lun
    });
    let mut w = World::with_ftl(config, d, jobs, Some((ftl.into(), cost)), latency);
    w.ctx.stamps = wordline_base::Stamps::new(sectors);
    w
}

#[test]
fn pblk_ends_a_write_in_its_buffer_and_reads_it_there() {
    let items =
        vec![io(Ddir::Write, 0, 4096), io(Ddir::Read, 0, 4096), io(Ddir::Read, 1 << 20, 4096)];
    let mut w = pblk_world(vec![(spec(Engine::Pvsync2, 1), list(items))], 1024, 1);
    w.run_to(Time(1_000_000));
    assert!(w.log.is_empty() && w.host.idle());
    // Crossing, call, bio, pblk, return: no sleep.
    let latency: Vec<u64> = w.finished.iter().map(|(_, l)| l.latency().0).collect();
    assert_eq!(latency, [950 + 1_400 + 300, 950 + 600 + 300, 950 + 600 + 300]);
    let s = w.host.stats(w.ctx.now).pblk.unwrap();
    assert_eq!((s.write_bios, s.write_waits, s.read_bios), (1, 0, 2));
    assert_eq!((s.buffer_sectors, s.unmapped_sectors), (1, 1));
    assert_eq!(w.ctx.stamps.wrong().0, 0);
}

#[test]
fn pblk_keeps_every_sector_through_garbage_collection() {
    for (seed, depth, cores) in [(1, 1024, 4), (2, 4, 2), (3, 2, 1)] {
        let mut rng = Rng::from_seed(seed);
        let sectors = 40_000;
        let jobs = (0..3)
            .map(|j| {
                let items = (0..25_000)
                    .map(|_| {
                        let len = 4096 * (1 + rng.below(16) as u32);
                        let at = rng.below(sectors) * 4096;
                        match rng.below(100) {
                            0 => io(Ddir::Sync, 0, 0),
                            1 => io(Ddir::Trim, at, len),
                            2..40 => io(Ddir::Read, at, len),
                            _ => io(Ddir::Write, at, len),
                        }
                    })
                    .collect();
                let engine = if j == 0 { Engine::Pvsync2 } else { Engine::Libaio };
                (spec(engine, 8), list(items))
            })
            .collect();
        let mut w = pblk_world(jobs, depth, cores);
        assert!(w.host.block.disks[0].info().bytes >= (sectors + 16) * 4096);
        let mut rounds = 0;
        while w.count < 75_000 || !w.host.idle() {
            w.run_to(w.ctx.now + Span::from_ms(100));
            rounds += 1;
            assert!(rounds < 5_000, "seed {seed}: {} done, {:?}", w.count, w.host.counters);
        }
        assert!(w.finished.iter().all(|(f, _)| f.ok));
        let (checked, wrong) = (w.ctx.stamps.checked(), w.ctx.stamps.wrong());
        assert!(checked > 20_000 && wrong.0 == 0, "seed {seed}: {wrong:?}");
        let s = w.host.stats(w.ctx.now);
        let p = s.pblk.unwrap();
        assert!(p.erases > 0 && p.background_reads > 0 && p.write_waits > 0, "{p:?}");
        assert!(p.flash_sectors > 0 && p.buffer_sectors > 0);
        assert!(s.threads[3].system > 0);
        assert!(
            w.finished.iter().any(|(_, l)| l.steps().iter().any(|s| s.why == Why::WriteBuffer))
        );
        for core in &s.cores {
            assert_eq!(core.user + core.system + core.irq + core.idle, w.ctx.now.0);
        }
        assert_eq!(w.ctx.lives.in_flight(), 0);
        assert_eq!(w.host.block.nodes.len(), 0);
    }
}

#[test]
fn pblk_reads_the_rest_of_a_sector_written_in_part() {
    let config = stack(2);
    // A sector on flash: written, and then as much as the ring holds.
    let fill = (0..2048).map(|i| io(Ddir::Write, i * 8192, 8192));
    let then = [
        io(Ddir::Write, 512, 512),
        io(Ddir::Write, 3 * 4096 + 512, 4096),
        io(Ddir::Read, 1024, 512),
        io(Ddir::Trim, 5 * 4096 + 512, 8192),
        io(Ddir::Write, 2048 * 8192 - 512, 512),
    ];
    let jobs = || vec![(spec(Engine::Pvsync2, 1), list(fill.clone().chain(then).collect()))];
    let mut w = pblk_world_of(512, &config, jobs());
    while w.count < 2053 || !w.host.idle() {
        w.run_to(w.ctx.now + Span::from_ms(100));
    }
    assert!(w.finished.iter().all(|(f, _)| f.ok));
    let p = w.host.stats(w.ctx.now).pblk.unwrap();
    assert_eq!((p.rmw_units, p.rmw_waits), (4, 0));
    assert_eq!(p.rmw_read_bytes, 3 * 4096, "the last sector is in the ring: {p:?}");
    assert_eq!(p.write_bytes, 2048 * 8192 + 512 + 4096 + 512);
    let has = |at: usize, layer, why| {
        w.finished[at].1.steps().iter().any(|s| (s.layer, s.why) == (layer, why))
    };
    // The second reads two sectors of one LUN.
    let spent = |at: usize, layer: Layer| w.finished[at].1.spent()[layer as usize];
    for (at, read) in [(2048, 60_000), (2049, 120_000), (2052, 0)] {
        assert_eq!(spent(at, Layer::Nand), read);
        assert!(has(at, Layer::Completion, Why::Work) && has(at, Layer::Ftl, Why::CoreBusy));
    }
    assert_eq!(w.ctx.stamps.wrong().0, 0);
    // With whole sectors the first is refused, and ends the job.
    let mut w = pblk_world_of(4096, &config, jobs());
    w.run_to(w.ctx.now + Span::from_secs(5));
    assert!(w.host.idle());
    let failed: Vec<u64> =
        w.finished.iter().filter(|(f, _)| !f.ok).map(|(f, _)| f.offset).collect();
    assert_eq!((failed, w.count), (vec![512], 2049));
}

#[test]
fn pblk_loses_no_write_of_part_of_a_sector() {
    for (seed, depth, cores) in [(1, 1024, 4), (2, 4, 2), (3, 2, 1), (4, 64, 3)] {
        let mut rng = Rng::from_seed(seed);
        // Few, so that they meet, and many, so that they come from flash.
        let blocks = [24, 8 * 20_000][(seed % 2) as usize];
        let jobs = (0..3)
            .map(|j| {
                let items = (0..8_000)
                    .map(|_| {
                        let len = 512 * (1 + rng.below(40) as u32);
                        let at = rng.below(blocks) * 512;
                        match rng.below(100) {
                            0 => io(Ddir::Sync, 0, 0),
                            1..8 => io(Ddir::Trim, at, len),
                            8..30 => io(Ddir::Read, at, len),
                            30..50 => io(Ddir::Write, at / 4096 * 4096, 8192),
                            _ => io(Ddir::Write, at, len),
                        }
                    })
                    .collect();
                let engine = if j == 0 { Engine::Pvsync2 } else { Engine::Libaio };
                (spec(engine, 8), list(items))
            })
            .collect();
        let config = StackConfig { queue_depth: depth, max_request: 8192, ..stack(cores) };
        let mut w = pblk_world_of(512, &config, jobs);
        let mut rounds = 0;
        while w.count < 24_000 || !w.host.idle() {
            w.run_to(w.ctx.now + Span::from_ms(100));
            rounds += 1;
            assert!(rounds < 5_000, "seed {seed}: {} done, {:?}", w.count, w.host.counters);
        }
        assert!(w.finished.iter().all(|(f, _)| f.ok));
        let wrong = w.ctx.stamps.wrong();
        assert_eq!(wrong.0, 0, "seed {seed}: (sector, got, expected) {wrong:?}");
        let s = w.host.stats(w.ctx.now);
        let p = s.pblk.unwrap();
        assert!(p.rmw_units > 5_000 && p.rmw_waits > 10, "seed {seed}: {p:?}");
        for core in &s.cores {
            assert_eq!(core.user + core.system + core.irq + core.idle, w.ctx.now.0);
        }
        assert_eq!((w.ctx.lives.in_flight(), w.host.block.nodes.len()), (0, 0));
    }
}
