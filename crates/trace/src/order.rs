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
/// all steps are as far back as a restart, so that so many without another are no chance. Fewer than these are no
/// recording either: they stand ahead or behind because their times are wrong.
const GOES_ON: u64 = 128;

/// A fall that may be a restart.
#[derive(Clone, Copy)]
struct Fall {
    line: u64,
    by: u64,
    /// The time right before it. A request that comes back there belongs to the part at hand.
    before: u64,
    /// The time that it fell to, and the latest since.
    from: u64,
    latest: u64,
    requests: u64,
}

/// A step ahead over at least the time that the part had before: a pause, or a few requests that are too late.
struct Ahead {
    /// The part before it.
    latest: u64,
    requests: u64,
    /// The fall that the step put an end to.
    fall: Option<Fall>,
}

/// What has one clock, as far as is known.
struct Part {
    first: u64,
    latest: u64,
    /// How many it has, without those of a fall.
    requests: u64,
    /// The first step that fewer than [`GOES_ON`] requests followed, or an older one.
    ahead: Option<Ahead>,
}

impl Part {
    #[inline]
    fn reach(&mut self, time: u64, fall: Option<Fall>) {
        if time > self.latest {
            if time - self.latest >= self.latest - self.first {
                self.step(fall);
            }
            self.latest = time;
        }
        self.requests += 1;
    }
    fn step(&mut self, fall: Option<Fall>) {
        // Of steps that nothing confirmed yet the first has the part before all of them.
        if self.ahead.as_ref().is_none_or(|ahead| self.is_confirmed(ahead)) {
            self.ahead = Some(Ahead { latest: self.latest, requests: self.requests, fall });
        }
    }
    fn is_confirmed(&self, ahead: &Ahead) -> bool {
        self.requests - ahead.requests >= GOES_ON
    }
    /// A step back over half the part, and over half of a fall where there is one.
    fn falls(&self, before: u64, time: u64, fall: Option<&Fall>) -> bool {
        let most = (self.latest - self.first).max(fall.map_or(0, |fall| fall.by));
        time < before && before - time >= most / 2
    }
}

/// Looks for restarts.
#[derive(Default)]
pub(crate) struct Order {
    restarts: Restarts,
    /// The part at hand.
    part: Option<Part>,
    before: u64,
    fall: Option<Fall>,
}

impl Order {
    #[inline]
    pub fn add(&mut self, time: u64, line: u64) {
        let before = std::mem::replace(&mut self.before, time);
        match &mut self.part {
            Some(part) if self.fall.is_none() && time >= before => part.reach(time, None),
            _ => self.step_back(before, time, line),
        }
    }
    /// A step back, and what follows it until that is understood.
    fn step_back(&mut self, mut before: u64, time: u64, line: u64) {
        let Some(part) = &mut self.part else {
            self.part = Some(Part { first: time, latest: time, requests: 1, ahead: None });
            return;
        };
        if part.falls(before, time, self.fall.as_ref())
            && let Some(ahead) = part.ahead.take()
            && !part.is_confirmed(&ahead)
        {
            // The few requests since the step ahead were too late: the part goes on from before them.
            (part.latest, part.requests, self.fall) = (ahead.latest, ahead.requests, ahead.fall);
            before = self.fall.map_or(part.latest, |fall| fall.latest);
        }
        if part.falls(before, time, self.fall.as_ref()) {
            let by = part.latest.saturating_sub(time);
            self.fall = Some(Fall { line, by, before, from: time, latest: time, requests: 0 });
        }
        let Some(fall) = &mut self.fall else { return part.reach(time, None) };
        if time >= fall.before {
            // What stood apart is over.
            let fall = self.fall.take();
            return part.reach(time, fall);
        }
        fall.latest = fall.latest.max(time);
        fall.requests += 1;
        if fall.requests == GOES_ON {
            // What came before may be a few requests that are too late.
            if part.requests >= GOES_ON {
                if self.restarts.count == 0 {
                    self.restarts = Restarts { count: 0, line: fall.line, by: Span(fall.by) };
                }
                self.restarts.count += 1;
            }
            let (first, latest, requests) = (fall.from, fall.latest, fall.requests);
            (*part, self.fall) = (Part { first, latest, requests, ahead: None }, None);
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

    #[test]
    fn a_time_in_the_future_is_no_restart() {
        let goes_on = |n: u64| (0..n).map(|i| i * 10);
        let rough = |n: u64| (0..n).map(|i| (i ^ 3) * 10 + splitmix64(i) % 500);
        for late in [1, 5, 100] {
            let late = || (0..late).map(|i| 1_000_000_000 + i);
            // The part begins with it, or has it in the middle.
            for at in [0, 1, 1_000] {
                let one = || goes_on(at).chain(late()).chain(goes_on(6_000).skip(at as usize));
                assert_eq!(of(one()).count, 0, "{at}");
                let one_of_rough = rough(at).chain(late()).chain(rough(6_000).skip(at as usize));
                assert_eq!(of(one_of_rough).count, 0, "{at} of rough ones");
                // It hides none that is one.
                let found = of(one().chain(goes_on(6_000)));
                let line = 6_001 + late().count() as u64;
                assert_eq!(found, Restarts { count: 1, line, by: Span(59_990) }, "{at}");
            }
        }
        let many = (0..20_000).map(|i| if i % 97 == 0 { 1_000_000_000 * (1 + i) } else { i * 10 });
        assert_eq!(of(many).count, 0);
        // It stands in what follows a restart.
        let after = goes_on(50).chain([1_000_000_000]).chain(goes_on(950).skip(50));
        assert_eq!(of(goes_on(1_000).chain(after)).line, 1_001);
        // One that is too late by little, and then one that is too early.
        let both = goes_on(1_000).chain([15_000]).chain(goes_on(1_020).skip(1_000)).chain([0]);
        assert_eq!(of(both.chain(goes_on(3_000).skip(1_020))).count, 0);
    }

    #[test]
    fn a_time_in_the_past_is_no_restart() {
        let part = |n: u64| (0..n).map(|i| 1_000_000 + i * 10);
        for at in [0, 1, 200, 3_000] {
            let one = part(at as u64).chain([0]).chain(part(6_000).skip(at));
            assert_eq!(of(one).count, 0, "{at}");
        }
    }

    #[test]
    fn jitter_hides_no_restart() {
        for by in [50, 500, 5_000, 20_000] {
            let part = || (0..5_000).map(|i| 1_000 + i * 10 + splitmix64(i) % by);
            assert_eq!(of(part()).count, 0, "{by}");
            let two = of(part().chain(part()));
            assert_eq!((two.count, two.line), (1, 5_001), "{by}");
            let three = of(part().chain(part()).chain(part()));
            assert_eq!((three.count, three.line), (2, 5_001), "{by}");
        }
    }

    #[test]
    fn joined_files_are_counted() {
        let part = |first: u64, n: u64| (0..n).map(move |i| first + i * 10);
        let three = of(part(0, 1_000).chain(part(0, 500)).chain(part(0, 3_000)));
        assert_eq!(three, Restarts { count: 2, line: 1_001, by: Span(9_990) });
        let earlier = of(part(1_000_000, 2_000).chain(part(0, 2_000)));
        assert_eq!((earlier.count, earlier.line), (1, 2_001));
        // A pause doubles the time of a part.
        let paused = || part(0, 1_000).chain(part(1_000_000, 1_000));
        assert_eq!(of(paused().chain(paused())).line, 2_001);
    }
}
