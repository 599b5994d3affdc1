//! The event queue under the hold model: take the earliest, put one at a later time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::time::Instant;
use wordline_base::{Event, EventQueue, Kind, Rng, Time};

/// Delays as a drive makes them: most in microseconds, some programs, a few at once.
fn delay(rng: &mut Rng) -> u64 {
    match rng.below(8) {
        0 => 0,
        1..=3 => 200 + rng.below(2_000),
        4..=6 => 10_000 + rng.below(80_000),
        _ => 1_000_000 + rng.below(3_000_000),
    }
}

const HOLDS: u64 = 3_000_000;

pub fn run() {
    println!("event queue, ns per hold (take one, put one)");
    println!("{:>10} {:>10} {:>12}", "pending", "calendar", "binary heap");
    for pending in [32u32, 256, 2_048, 16_384] {
        let mut rng = Rng::from_seed(1);
        let mut queue = EventQueue::new();
        (0..pending).for_each(|i| queue.push(Time(delay(&mut rng)), Event::new(Kind::AppWake, i)));
        let start = Instant::now();
        for _ in 0..HOLDS {
            let (now, event) = queue.pop().expect("the hold model never empties");
            queue.push(Time(now.0 + delay(&mut rng)), event);
        }
        let calendar = start.elapsed().as_nanos() as f64 / HOLDS as f64;
        black_box(&queue);

        let mut rng = Rng::from_seed(1);
        let mut heap = BinaryHeap::new();
        let key = |t: u64, seq: u64, e: u64| {
            Reverse(u128::from(t) << 68 | u128::from(seq) << 32 | u128::from(e))
        };
        let mut seq = 0;
        for i in 0..pending {
            heap.push(key(delay(&mut rng), seq, u64::from(i)));
            seq += 1;
        }
        let start = Instant::now();
        for _ in 0..HOLDS {
            let Reverse(entry) = heap.pop().expect("the hold model never empties");
            heap.push(key((entry >> 68) as u64 + delay(&mut rng), seq, entry as u64 & 0xFFFF_FFFF));
            seq += 1;
        }
        let plain = start.elapsed().as_nanos() as f64 / HOLDS as f64;
        black_box(&heap);
        println!("{pending:>10} {calendar:>10.1} {plain:>12.1}");
    }
}
