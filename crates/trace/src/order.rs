//! The order of a trace's times, request after request as they stand in it.

use wordline_base::Span;

/// Places where the clock of a trace began again, as where recordings stand one after the other in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Restarts {
    /// How many.
    pub count: u64,
    /// The line or record that the first begins with.
    pub line: u64,
    /// By how much time went back there.
    pub by: Span,
}

/// Requests that come after a fall and before the time from which it fell: chosen. In a shuffled trace an eighth of
/// all steps are as far back as a restart, so that so many without another are no chance.
const GOES_ON: u64 = 128;

/// A fall that may be a restart.
#[derive(Clone, Copy)]
struct Fall {
    line: u64,
    by: u64,
    /// The time that it fell to, and the latest since.
    from: u64,
    latest: u64,
    requests: u64,
}

/// Looks for restarts.
#[derive(Default)]
pub(crate) struct Order {
    restarts: Restarts,
    /// The first time of the part at hand, and the latest.
    part: Option<(u64, u64)>,
    before: u64,
    fall: Option<Fall>,
}

impl Order {
    #[inline]
    pub fn add(&mut self, time: u64, line: u64) {
        let before = std::mem::replace(&mut self.before, time);
        let Some((first, latest)) = &mut self.part else {
            self.part = Some((time, time));
            return;
        };
        if self.fall.is_none() && time >= before {
            *latest = time.max(*latest);
            return;
        }
        let back = before.saturating_sub(time);
        if back > 0 && back >= (*latest - *first) / 2 {
            let by = latest.saturating_sub(time);
            self.fall = Some(Fall { line, by, from: time, latest: time, requests: 0 });
        }
        let Some(fall) = &mut self.fall else { return };
        if time >= *latest {
            // What stood apart is over.
            (*latest, self.fall) = (time, None);
            return;
        }
        fall.latest = fall.latest.max(time);
        fall.requests += 1;
        if fall.requests == GOES_ON {
            let Restarts { count, .. } = self.restarts;
            if count == 0 {
                self.restarts = Restarts { count, line: fall.line, by: Span(fall.by) };
            }
            self.restarts.count += 1;
            (self.part, self.fall) = (Some((fall.from, fall.latest)), None);
        }
    }
    pub fn restarts(&self) -> Restarts {
        self.restarts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::rng::splitmix64;

    fn of(times: impl IntoIterator<Item = u64>) -> Restarts {
        let mut order = Order::default();
        (1..).zip(times).for_each(|(line, time)| order.add(time, line));
        order.restarts()
    }

    #[test]
    fn a_clock_that_begins_again_is_found() {
        let part = |n: u64| (0..n).map(|i| 1_000 + i * 10);
        assert_eq!(of(part(5_000)), Restarts::default());
        let found = of(part(5_000).chain(part(5_000)));
        assert_eq!(found, Restarts { count: 1, line: 5_001, by: Span(49_990) });
        let three = of(part(5_000).chain(part(300)).chain(part(2_000)));
        assert_eq!((three.count, three.line), (2, 5_001));
        // Neighbours that changed places are in each part.
        let rough = |n: u64| (0..n).map(|i| 1_000 + (i ^ 3) * 10);
        assert_eq!(of(rough(5_000).chain(rough(5_000))).line, 5_001);
    }

    #[test]
    fn what_stands_in_the_wrong_place_is_no_restart() {
        let part = |n: u64| (0..n).map(|i| 1_000_000 + i * 10);
        assert_eq!(of(part(6_000).chain([0])).count, 0);
        assert_eq!(of((0..6_000).map(|i| (i ^ 127) * 10)).count, 0, "blocks of 128 backwards");
        let shuffled = (0..100_000u64).map(|i| splitmix64(i) >> 20);
        assert_eq!(of(shuffled).count, 0);
        // A second CPU's records, which are older by a little.
        let late = (0..300).map(|i| 1_059_000 + i * 5);
        assert_eq!(
            of(part(6_000).chain(late).chain((6_000..7_000).map(|i| 1_000_000 + i * 10))).count,
            0
        );
    }
}
