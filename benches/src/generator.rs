//! What an I/O costs the generator of fio's sequences.

use std::hint::black_box;
use std::time::Instant;
use wordline_fio::{Generator, NoEnv, ParseOptions, parse_args};

const IOS: u32 = 2_000_000;

pub fn run() {
    println!("\ngenerator, ns per I/O");
    for text in [
        "--rw=randread --bs=4k --norandommap",
        "--rw=randread --bs=4k",
        "--rw=randrw --bssplit=4k/70:16k/30 --norandommap",
        "--rw=read --bs=128k",
        "--rw=randread --bs=4k --random_generator=lfsr",
        "--rw=randread --bs=4k --random_distribution=pareto:0.2",
    ] {
        let mut args = vec!["--name=a".to_string()];
        args.extend(text.split(' ').map(String::from));
        let plan = parse_args(&args, &ParseOptions::default(), &mut NoEnv).expect("a plan");
        let thread = plan.threads()[0];
        let mut generator =
            Generator::new(&plan.jobs[0], &thread, 2 << 40, 0).expect("a generator");
        let start = Instant::now();
        for _ in 0..IOS {
            black_box(generator.next().expect("a large drive").offset);
        }
        println!("{:>10.1}  {text}", start.elapsed().as_nanos() as f64 / f64::from(IOS));
    }
}
