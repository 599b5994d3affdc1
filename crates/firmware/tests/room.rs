//! A drive whose blocks are good never refuses a write.

use crate::common::{Drive, ctx, geometry, with_slc};
use wordline_base::{Ctx, Lpn, Rng};
use wordline_firmware::{Firmware, FirmwareConfig};
use wordline_nand::Geometry;
use wordline_translation::{Source, Translation};

/// Random writes of one sector, so many at a time, after a fill. Panics if one is refused.
fn write_on(
    ftl: &mut Firmware,
    ctx: &mut Ctx,
    (depth, writes): (u32, u32),
    rng: &mut Rng,
    what: &str,
) {
    let g = *ftl.geometry();
    let bad: Vec<bool> = ftl.media_state().map(|b| b.bad).collect();
    let mut drive = Drive::new(&g, &bad);
    drive.adopt(ftl);
    drive.keeps = false;
    let sectors = ftl.sectors();
    ftl.start(ctx);
    drive.drain(ftl, ctx.now);
    let (mut begun, mut open) = (0, 0);
    let mut last_ended = 0;
    while begun < writes || open > 0 {
        while open < depth && begun < writes {
            let lpn = rng.below(sectors) as u32;
            ftl.write(ctx, begun, Lpn(lpn), 1, false, Source::Host);
            drive.drain(ftl, ctx.now);
            (begun, open) = (begun + 1, open + 1);
        }
        for (tag, ok) in std::mem::take(&mut drive.ended) {
            assert!(ok, "{what}: write {tag} is refused, {:?}", ftl.free_lines());
            open -= 1;
            last_ended = begun;
        }
        if open == 0 || begun < writes && open < depth {
            continue;
        }
        assert!(drive.step(ftl, ctx, rng), "{what}: {open} writes hang after {last_ended}");
        drive.drain(ftl, ctx.now);
    }
    ftl.check_invariants().unwrap();
}

/// The least spare that the configuration takes: over-provisioning in hundredths of a percent.
fn least(g: &Geometry, config: &FirmwareConfig) -> Firmware {
    (1..9900)
        .step_by(10)
        .find_map(|op| Firmware::new(g, f64::from(op) / 100.0, config, &mut |_, _| false).ok())
        .expect("some spare is enough")
}

#[test]
fn a_good_drive_with_the_least_spare_refuses_no_write() {
    let flash = [
        geometry(4, 8, 60, 16, 16),
        with_slc(geometry(4, 8, 60, 24, 16), 4),
        geometry(2, 2, 40, 32, 48),
        geometry(4, 8, 90, 4, 8),
    ];
    for (i, g) in flash.into_iter().enumerate() {
        for protected in [true, false] {
            for depth in [1, 4, 32, 300] {
                let mut config = FirmwareConfig { protected, ..FirmwareConfig::default() };
                if g.slc_pages > 0 {
                    config.slc_dynamic = 50.0;
                }
                let mut ftl = least(&g, &config);
                let sectors = ftl.sectors();
                let mut ctx = ctx(sectors);
                let mut rng = Rng::from_seed(u64::from(depth));
                ftl.fill(&mut ctx.stamps).unwrap();
                let what = format!("flash {i}, protected {protected}, depth {depth}");
                write_on(&mut ftl, &mut ctx, (depth, sectors as u32 / 4), &mut rng, &what);
            }
        }
    }
}

/// Programs fail now and then: each retires a block. Writes go on as long as enough blocks are left.
#[test]
fn a_drive_whose_programs_fail_goes_on_while_spare_is_left() {
    let g = geometry(1, 6, 100, 64, 8);
    let config = FirmwareConfig::default();
    let mut ftl = Firmware::new(&g, 15.0, &config, &mut |_, _| false).unwrap();
    let sectors = ftl.sectors();
    let mut ctx = ctx(sectors);
    ftl.fill(&mut ctx.stamps).unwrap();
    let bad: Vec<bool> = ftl.media_state().map(|b| b.bad).collect();
    let mut drive = Drive::new(&g, &bad);
    drive.adopt(&ftl);
    drive.keeps = false;
    drive.faults.program = 300_000;
    let mut rng = Rng::from_seed(7);
    // A block holds 64 units of 8 sectors.
    let blocks = u64::from(g.lines * g.luns);
    let spare = blocks - sectors / (64 * 8);
    ftl.start(&mut ctx);
    drive.drain(&mut ftl, ctx.now);
    let (mut tag, mut before) = (0, *ftl.counters());
    let mut amplification = Vec::new();
    'writes: loop {
        for _ in 0..sectors / 4 {
            ftl.write(&mut ctx, tag, Lpn(rng.below(sectors) as u32), 1, false, Source::Host);
            drive.drain(&mut ftl, ctx.now);
            while drive.ended.is_empty() {
                assert!(drive.step(&mut ftl, &mut ctx, &mut rng), "write {tag} hangs");
                drive.drain(&mut ftl, ctx.now);
            }
            if std::mem::take(&mut drive.ended).into_values().any(|ok| !ok) {
                break 'writes;
            }
            tag += 1;
        }
        let c = ftl.counters().since(&before);
        before = *ftl.counters();
        amplification.push(1.0 + c.moved() as f64 / c.user_sectors as f64);
    }
    let retired = ftl.counters().blocks_retired;
    println!("{retired} of {spare} spare blocks retired, write amplification {amplification:.2?}");
    assert!(retired * 10 >= spare * 7, "{retired} of {spare} spare blocks retired");
    ftl.check_invariants().unwrap();
}
