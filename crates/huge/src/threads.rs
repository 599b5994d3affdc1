//! Work on large arrays by several threads.

use std::num::NonZero;
use std::sync::{Mutex, OnceLock};
use std::thread;

/// More threads than that wait for memory.
const MOST: usize = 8;

/// How many threads can work at once.
pub fn threads() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get).min(MOST))
}

/// Does parts of some work, `0..parts`, at once as far as threads can be had. Which of them do it is no
/// matter of the result. What each part comes to, in their order.
pub fn at_once<T: Send>(parts: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let work = &work;
    thread::scope(|scope| {
        let begun: Vec<_> = (1..parts)
            .map(|part| thread::Builder::new().spawn_scoped(scope, move || work(part)).ok())
            .collect();
        let first = (parts > 0).then(|| work(0));
        let others = (1..parts).zip(begun).map(|(part, thread)| match thread {
            Some(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            None => work(part),
        });
        first.into_iter().chain(others).collect()
    })
}

/// Does one thing in another thread while this one does something else, or before that where no thread can
/// be had. Neither depends on the other.
pub fn beside<A: Send, B>(there: impl FnOnce() -> A + Send, here: impl FnOnce() -> B) -> (A, B) {
    let there = Mutex::new(Some(there));
    let take = || there.lock().ok().and_then(|mut there| there.take());
    thread::scope(|scope| {
        let begin = || thread::Builder::new().spawn_scoped(scope, || take().map(|there| there()));
        let begun = (threads() > 1).then(begin).and_then(Result::ok);
        let Some(thread) = begun else {
            let there = take().map(|there| there()).expect("nobody else takes it");
            return (there, here());
        };
        let here = here();
        let there = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (there.expect("nobody else takes it"), here)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_things_are_done_beside_each_other() {
        let (mut a, mut b) = (1, 2);
        assert_eq!(
            beside(|| std::mem::replace(&mut a, 3), || std::mem::replace(&mut b, 4)),
            (1, 2)
        );
        assert_eq!((a, b), (3, 4));
    }
    #[test]
    fn parts_come_in_their_order() {
        assert_eq!(at_once(5, |part| part * part), [0, 1, 4, 9, 16]);
        assert!(at_once(0, |part| part).is_empty());
        assert!((1..=MOST).contains(&threads()));
    }
}
