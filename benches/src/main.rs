//! What the machine costs. One section a table; `make bench` runs all of them.

mod generator;
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
        Some("counted") => machine::counted(),
        Some(number) if number.parse::<usize>().is_ok_and(|n| n < 4) => {
            machine::one(number.parse().unwrap_or(0));
        }
        Some(name) => match sections.iter().find(|(n, _)| *n == name) {
            Some((_, run)) => run(),
            None => {
                eprintln!("no section '{name}': queue, generator, speed, scale, warm or counted");
                std::process::exit(2);
            }
        },
    }
}
