//! What the machine costs. One section a table; `make bench` runs all of them.

mod queue;

fn main() {
    let only = std::env::args().nth(1);
    let sections: [(&str, fn()); 1] = [("queue", queue::run)];
    for (name, run) in sections {
        if only.as_deref().is_none_or(|o| o == name) {
            run();
        }
    }
}
