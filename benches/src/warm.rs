//! What a system call takes right after another one, and after its code lay idle: the two ends of
//! `testbed.cost.warm.share`, read off the machine this runs on.
//!
//! The call is a read of 512 bytes of a file that is in memory: entry, VFS, page cache, return. In
//! between the thread does nothing, spins, writes to other memory, or sleeps.

use std::fs::File;
use std::hint::{black_box, spin_loop};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

const CALLS: usize = 4_000;

enum Between {
    Nothing,
    Spin(Duration),
    Touch(usize),
    Sleep(Duration),
}

pub fn run() {
    if let Err(e) = table() {
        eprintln!("warm: {e}");
        std::process::exit(1);
    }
}

fn table() -> std::io::Result<()> {
    let path = std::env::temp_dir().join(format!("wordline-warm-{}", std::process::id()));
    std::fs::write(&path, [0; 4096])?;
    let file = File::open(&path)?;
    std::fs::remove_file(&path)?;
    let mut other = vec![1u8; 16 << 20];
    let us = Duration::from_micros;
    let all = [
        ("nothing", Between::Nothing),
        ("spin 10 us", Between::Spin(us(10))),
        ("spin 100 us", Between::Spin(us(100))),
        ("touch 64 KiB", Between::Touch(64 << 10)),
        ("touch 512 KiB", Between::Touch(512 << 10)),
        ("touch 2 MiB", Between::Touch(2 << 20)),
        ("touch 16 MiB", Between::Touch(16 << 20)),
        ("sleep 1 us", Between::Sleep(us(1))),
        ("sleep 50 us", Between::Sleep(us(50))),
        ("sleep 500 us", Between::Sleep(us(500))),
    ];
    println!("{:<14} {:>8} {:>8} {:>8}   share", "in between", "p10 ns", "p50 ns", "p90 ns");
    let mut warm = 0;
    for (name, between) in all {
        let times = measure(&file, &between, &mut other)?;
        let at = |p: usize| times[CALLS * p / 100];
        if matches!(between, Between::Nothing) {
            warm = at(50);
        }
        let share = warm as f64 / at(50) as f64;
        println!("{name:<14} {:>8} {:>8} {:>8}   {share:.2}", at(10), at(50), at(90));
    }
    Ok(())
}

/// Nanoseconds of each call, in order of length.
fn measure(file: &File, between: &Between, other: &mut [u8]) -> std::io::Result<Vec<u64>> {
    let mut sector = [0; 512];
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        match *between {
            Between::Nothing => {}
            Between::Spin(span) => {
                let begin = Instant::now();
                while begin.elapsed() < span {
                    spin_loop();
                }
            }
            Between::Touch(bytes) => {
                other[..bytes].iter_mut().step_by(64).for_each(|line| *line ^= 1);
                black_box(&mut *other);
            }
            Between::Sleep(span) => std::thread::sleep(span),
        }
        let begin = Instant::now();
        file.read_exact_at(&mut sector, 512)?;
        times.push(begin.elapsed().as_nanos() as u64);
    }
    times.sort_unstable();
    Ok(times)
}
