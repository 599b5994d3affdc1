//! How fast the simulator runs. Ignored: a measurement, not a test; run it in release mode with
//! `cargo test --release -p wordline-device speed -- --ignored --nocapture`.

use super::*;
use wordline_base::Rng;

const CHUNK: u32 = 50_000;
const CHUNKS: u32 = 30;

/// Runs commands in a closed loop of 32, and prints nanoseconds (of the fastest chunk, because the
/// machine may be busy with other things) and events a command.
#[allow(clippy::disallowed_methods, clippy::disallowed_types)] // A measurement reads the clock.
fn measure(what: &str, h: &mut Host, opcode: Opcode, lives: bool, sectors: u64, bytes: u32) {
    let mut rng = Rng::from_seed(1);
    let events = h.ctx.queue.popped();
    let mut send = |h: &mut Host| {
        let address = rng.below(sectors);
        let address = if opcode.is_vector() { address } else { address * SECTOR };
        if lives {
            h.submit_io(0, opcode, address, bytes);
        } else {
            h.submit(0, opcode, address, bytes);
        }
    };
    for _ in 0..32 {
        send(h);
    }
    let mut best = f64::MAX;
    for _ in 0..CHUNKS {
        let begin = std::time::Instant::now();
        let mut seen = 0;
        while seen < CHUNK {
            assert!(h.step());
            while let Some(done) = h.done.pop() {
                seen += 1;
                if lives {
                    h.ctx.lives.release(done.posted.io);
                }
                send(h);
            }
        }
        best = best.min(begin.elapsed().as_nanos() as f64 / f64::from(seen));
    }
    let events = (h.ctx.queue.popped() - events) as f64 / f64::from(CHUNK * CHUNKS);
    while !h.drive.idle() {
        h.step();
        while let Some(done) = h.done.pop() {
            if lives {
                h.ctx.lives.release(done.posted.io);
            }
        }
    }
    println!("{what}: {best:.0} ns and {events:.2} events a command");
}

#[test]
#[ignore = "a measurement"]
fn speed() {
    let (mut n, d, f) = (nand_config(), device_config(), ftl_config());
    (n.channels, n.blocks, n.pages_per_block) = (8, 128, 256);
    let mut h = Host::bare(&n, &d);
    h.queue(0, 64, QueuePriority::Medium);
    h.fill_flash(n.pages_per_block);
    let line = u64::from(h.drive.nand().geometry.sectors_per_line);
    measure("vector read", &mut h, Opcode::VectorRead, false, line, 4096);
    measure("vector read with lives", &mut h, Opcode::VectorRead, true, line, 4096);
    for (what, cache) in [("", None), (", cache of 64 MiB", Some(cache_config(16384, 8, 1)))] {
        for stamps in [false, true] {
            let d = DeviceConfig { cache: cache.clone(), ..d.clone() };
            let mut h = Host::with_ftl(&n, &d, &f);
            if !stamps {
                h.ctx.stamps = Stamps::off();
            }
            h.queue(0, 64, QueuePriority::Medium);
            let sectors = 200_000;
            for i in 0..sectors / 16 {
                h.one(Opcode::Write, i * 65536, 65536);
                h.done.clear();
            }
            h.one(Opcode::Flush, 0, 0);
            h.settle();
            h.done.clear();
            let what = format!("{what}{}", if stamps { ", stamps" } else { "" });
            measure(&format!("read, FTL{what}"), &mut h, Opcode::Read, false, sectors, 4096);
            measure(&format!("read, FTL{what}, lives"), &mut h, Opcode::Read, true, sectors, 4096);
            measure(&format!("write, FTL{what}"), &mut h, Opcode::Write, false, sectors, 4096);
        }
    }
}
