//! What the machine costs. One section a table; `make bench` runs all of them.

mod client;
mod generator;
mod live;
mod machine;
mod queue;
mod warm;

#[global_allocator]
static ALLOCATOR: wordline_huge::HugePages = wordline_huge::HugePages;

fn main() {
    let only = std::env::args().nth(1);
    let sections: [(&str, fn()); 5] = [
        ("queue", queue::run),
        ("generator", generator::run),
        ("speed", machine::speed),
        ("scale", machine::scale),
        ("warm", warm::run),
    ];
    match only.as_deref() {
        None => sections.iter().for_each(|(_, run)| run()),
        Some("counted") => {
            let [kind, ios] = [2, 3].map(|n| std::env::args().nth(n).unwrap_or_default());
            let ios = ios.parse().unwrap_or(0);
            if kind == live::KIND {
                live::counted(ios);
            } else if !machine::counted(&kind, ios) {
                eprintln!("counted KIND IOS: the kinds are in benches/instructions.txt");
                std::process::exit(2);
            }
        }
        Some("client") => {
            let [socket, requests] = [2, 3].map(|n| std::env::args().nth(n).unwrap_or_default());
            if let Err(e) = client::run(&socket, requests.parse().unwrap_or(0)) {
                eprintln!("client SOCKET REQUESTS: {e}");
                std::process::exit(1);
            }
        }
        // One case, and how many I/Os of it: for a profiler.
        Some(number) if number.parse::<usize>().is_ok_and(|n| n < 5) => {
            let ios = std::env::args().nth(2).and_then(|ios| ios.parse().ok());
            machine::one(number.parse().unwrap_or(0), ios.unwrap_or(8_000_000));
        }
        Some(name) => match sections.iter().find(|(n, _)| *n == name) {
            Some((_, run)) => run(),
            None => {
                eprintln!(
                    "no section '{name}': queue, generator, speed, scale, warm, counted or client"
                );
                std::process::exit(2);
            }
        },
    }
}
