//! The scheduler in front of pblk.

use crate::tests::{World, io, list, pblk_world_on, spec, stack};
use crate::*;
use wordline_base::{Ddir, Layer, Life, Rng, Span, Why};

fn kyber() -> StackConfig {
    StackConfig { bio_scheduler: Scheduler::Kyber, ..stack(4) }
}

/// Runs until nothing is in flight, and looks at the tokens at each step.
fn run(w: &mut World<crate::tests::List>, step: Span) -> [u32; 3] {
    let mut most = [0; 3];
    for _ in 0..200_000 {
        if w.host.idle() {
            break;
        }
        w.run_to(w.ctx.now + step);
        let Some(bios) = w.host.block.disks[0].paths.bios() else { continue };
        let s = bios.stats();
        assert_eq!(s.taken - s.returned, u64::from(bios.kyber().used.iter().sum::<u32>()));
        for (most, used) in most.iter_mut().zip(bios.kyber().used) {
            *most = used.max(*most);
        }
    }
    w.check_drained();
    most
}

fn held(life: &Life) -> u64 {
    let plugged = life.times().filter(|(s, _)| (s.layer, s.why) == (Layer::Block, Why::Plugged));
    plugged.map(|(_, took)| took.0).sum()
}

fn random_jobs(seed: u64) -> Vec<(ThreadSpec, crate::tests::List)> {
    let mut rng = Rng::from_seed(seed);
    (0..3)
        .map(|j| {
            let items = (0..1_500)
                .map(|_| {
                    let len = 4096 * (1 + rng.below(64) as u32);
                    let at = rng.below(40_000) * 4096;
                    match rng.below(100) {
                        0 => io(Ddir::Sync, 0, 0),
                        1..4 => io(Ddir::Trim, at, len),
                        4..40 => io(Ddir::Read, at, len),
                        _ => io(Ddir::Write, at, len),
                    }
                })
                .collect();
            let engine = if j == 0 { Engine::Pvsync2 } else { Engine::Libaio };
            (spec(engine, 200), list(items))
        })
        .collect()
}

#[test]
fn each_token_comes_back() {
    let mut resizes = 0;
    for seed in 0..12 {
        let mut config = kyber();
        config.queue_depth = [2, 4, 1024][seed as usize % 3];
        config.cores = 1 + seed as u32 % 4;
        config.kyber.percentiles = seed % 2 == 1;
        // Reads cannot be as fast, writes from the buffer can: depths move.
        (config.kyber.read_lat, config.kyber.write_lat) = (Span(30_000), Span(200_000));
        let mut w = pblk_world_on(&config, random_jobs(seed));
        let most = run(&mut w, Span::from_us(100));
        let s = w.host.stats(w.ctx.now);
        let (p, b) = (s.pblk.unwrap(), s.bios.unwrap());
        assert_eq!(b.taken, b.returned, "seed {seed}");
        assert_eq!(b.taken, p.read_bios + p.write_bios + p.trims, "seed {seed}");
        assert!(b.held > 0 && b.windows > 0, "seed {seed}: {b:?}");
        resizes += b.resizes;
        assert!(most[0] <= 256 && most[1] <= 128 && most[2] <= 64, "seed {seed}: {most:?}");
        assert!(w.finished.iter().all(|(f, _)| f.ok) && w.ctx.stamps.wrong().0 == 0);
        assert_eq!(w.count, 4_500);
    }
    assert!(resizes > 0, "depths never moved");
}

/// 512 writes at a time of pages that pblk has no room for use up the writes' tokens; reads of
/// another thread have tokens of their own.
#[test]
fn writes_without_tokens_do_not_hold_up_reads() {
    let writes = (0..4_000).map(|i| io(Ddir::Write, (i * 7919 % 30_000) * 4096, 65_536)).collect();
    let reads = (0..2_000).map(|i| io(Ddir::Read, (i * 104_729 % 30_000) * 4096, 4096)).collect();
    let jobs = || {
        let (w, r): (Vec<_>, Vec<_>) = (Clone::clone(&writes), Clone::clone(&reads));
        vec![(spec(Engine::Libaio, 512), list(w)), (spec(Engine::Pvsync2, 1), list(r))]
    };
    let mut w = pblk_world_on(&kyber(), jobs());
    let most = run(&mut w, Span::from_us(50));
    assert_eq!(most[1], 128, "tokens of writes");
    let of = |ddir: Ddir| w.finished.iter().filter(move |(f, _)| f.ddir == ddir);
    assert!(of(Ddir::Read).all(|(_, life)| held(life) == 0));
    let waited = of(Ddir::Write).filter(|(_, life)| held(life) > 0).count();
    assert!(waited > 1_000 && waited as u64 <= w.host.stats(w.ctx.now).bios.unwrap().held);
    // Without it the same writes wait in pblk.
    let mut off = pblk_world_on(&stack(4), jobs());
    run(&mut off, Span::from_us(50));
    assert_eq!(off.host.stats(off.ctx.now).bios, None);
    assert!(off.finished.iter().all(|(_, life)| held(life) == 0));
    assert_eq!(off.count, w.count);
}

#[test]
fn a_scheduler_of_bios_is_refused_where_it_has_no_place() {
    let refused = |stack: &StackConfig| {
        let job = (spec(Engine::Libaio, 1), list(vec![]));
        Host::new(stack, vec![job], vec![DiskSpec::new(crate::tests::drive())]).err()
    };
    assert_eq!(
        crate::tests::refused(refused(&kyber())),
        "bio_scheduler",
        "nothing is bio-based without an FTL here"
    );
    for other in [Scheduler::MqDeadline, Scheduler::Bfq, Scheduler::Sfq] {
        let e = refused(&StackConfig { bio_scheduler: other, ..stack(1) }).unwrap().to_string();
        assert!(e.contains("bio_scheduler must be none or kyber"), "{e}");
    }
}
