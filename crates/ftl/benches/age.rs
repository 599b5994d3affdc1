//! Speed of ageing and of the timed path. `cargo bench -p wordline-ftl` (or `--bench age -- OP`)
//! prints nanoseconds per sector for a drive of 2.2 TB: 128 LUNs, 64 KiB units, 256 pages, 1067
//! lines.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Fake, ctx, geometry};
use wordline_base::{Lpn, Seed, Stamps};
use wordline_ftl::{Ftl, FtlConfig, Placement, Source, WindowLimits, steady_by_overwriting};

#[allow(clippy::disallowed_methods, clippy::disallowed_types)]
fn timed<T>(what: impl FnOnce() -> T) -> (T, f64) {
    // Processor time where the system tells it: the machine may be shared.
    let cpu = || -> Option<f64> {
        let stat = std::fs::read_to_string("/proc/self/schedstat").ok()?;
        Some(stat.split_whitespace().next()?.parse::<f64>().ok()? / 1e9)
    };
    let (begin, cpu_begin) = (std::time::Instant::now(), cpu());
    let result = what();
    let wall = begin.elapsed().as_secs_f64();
    (result, cpu_begin.and_then(|begin| Some(cpu()? - begin)).unwrap_or(wall))
}

#[allow(clippy::disallowed_methods)]
fn main() {
    let op = std::env::args().filter_map(|a| a.parse().ok()).next().unwrap_or(11.0);
    let g = geometry(16, 128, 1067, 256, 16);
    let config = FtlConfig::new(Placement::Host, op);
    let mut ftl = Ftl::new(&g, &config, &mut |_, _| false, Seed(1)).expect("a valid configuration");
    let sectors = ftl.sectors();
    let mut off = Stamps::off();

    let (_, s) = timed(|| ftl.fill(&mut off).expect("room"));
    println!("fill      {:7.2} s  {:6.2} ns/sector of {sectors}", s, s * 1e9 / sectors as f64);

    let mut rng = Seed(3).stream("bench");
    let before = *ftl.counters();
    let (steady, s) = timed(|| {
        let next = &mut |lpns: &mut [u32]| {
            lpns.iter_mut().for_each(|lpn| *lpn = rng.below(sectors) as u32);
            Ok(())
        };
        steady_by_overwriting(&mut ftl, &mut off, next, WindowLimits::default()).expect("room")
    });
    let moved = ftl.counters().gc_sectors - before.gc_sectors;
    println!(
        "steady    {:7.2} s  {:6.2} ns per sector written ({} user, {} moved), {:.1} ns per user sector",
        s,
        s * 1e9 / (steady.sectors + moved) as f64,
        steady.sectors,
        moved,
        s * 1e9 / steady.sectors as f64
    );
    println!("windows   {:.3?} steady {}", steady.windows, steady.steady);
    println!("free      {:?} (lines, reserve, high)", ftl.free_lines());
    let m = ftl.memory();
    println!("memory    {:.2} bytes a sector", m.mapping as f64 / m.sectors as f64);

    // Timed: random 4 KiB writes against an executor that answers in a random order.
    let mut ctx = ctx(None);
    ftl.start(&mut ctx);
    let mut fake = Fake::new(&ftl);
    let writes = 2_000_000u32;
    let mut run = |ftl: &mut Ftl, writes: u32, first: u32| {
        for i in first..first + writes {
            ftl.write(&mut ctx, i, Lpn(rng.below(sectors) as u32), 1, false, Source::Host);
            fake.drain_fast(ftl);
            while fake.done.remove(&i).is_none() {
                assert!(fake.step(ftl, &mut ctx, &mut rng), "stuck");
                fake.drain_fast(ftl);
            }
        }
    };
    // The executor's reads take as long as programs, so the balance is not that of ageing.
    run(&mut ftl, 6 * writes, 0);
    let before = *ftl.counters();
    let (_, s) = timed(|| run(&mut ftl, writes, 6 * writes));
    let moved = ftl.counters().gc_sectors - before.gc_sectors;
    println!(
        "timed     {:7.2} s  {:6.1} ns per host write, {:.1} ns per sector written (WA {:.2})",
        s,
        s * 1e9 / f64::from(writes),
        s * 1e9 / (f64::from(writes) + moved as f64),
        1.0 + moved as f64 / f64::from(writes)
    );
    println!("          {:?}", ftl.counters());
}
