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

impl Restarts {
    /// And one more.
    fn and(self, line: u64, by: u64) -> Restarts {
        let first = match self.count {
            0 => Restarts { count: 0, line, by: Span(by) },
            _ => self,
        };
        Restarts { count: self.count + 1, ..first }
    }
}

/// Requests that come after a fall and before the time from which it fell: chosen. In a shuffled trace an eighth of
/// all steps are as far back as a restart, so that so many without another are no chance. Fewer than these that
/// stand ahead or behind have wrong times, but for [`FEW`].
const GOES_ON: u64 = 128;

/// Requests of a short recording, which is known by what it has in common with the one behind it: both begin at the
/// same time. Chosen.
const FEW: u64 = 32;

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
    /// The time that it went to.
    to: u64,
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
                self.step(time, fall);
            }
            self.latest = time;
        }
        self.requests += 1;
    }
    fn step(&mut self, to: u64, fall: Option<Fall>) {
        // Of steps that nothing confirmed yet the first has the part before all of them.
        if self.ahead.as_ref().is_none_or(|ahead| self.is_confirmed(ahead)) {
            self.ahead = Some(Ahead { latest: self.latest, requests: self.requests, to, fall });
        }
    }
    /// The part went on from there: with many requests, or with some over as much time as the step took.
    fn is_confirmed(&self, ahead: &Ahead) -> bool {
        let (requests, time) = (self.requests - ahead.requests, self.latest - ahead.to);
        requests >= GOES_ON || requests >= FEW / 2 && time >= ahead.to - ahead.latest
    }
    /// The step ahead was a pause: time fell back behind what came before it, too.
    fn is_pause(&self, ahead: &Ahead, time: u64) -> bool {
        let before = ahead.latest - self.first;
        let falls = time < ahead.latest && ahead.latest - time >= before / 2;
        ahead.fall.is_none() && ahead.requests >= FEW && falls
    }
    /// The fall goes back to where the part began: what came before is a recording, and not a few requests that are
    /// too late.
    fn is_repeated(&self, fall: &Fall) -> bool {
        let quarter = (self.latest - self.first) / 4;
        self.requests >= FEW && quarter > 0 && self.first.abs_diff(fall.from) <= quarter
    }
    /// A step back over half the part, and over half of a fall where there is one.
    fn falls(&self, before: u64, time: u64, fall: Option<&Fall>) -> bool {
        let most = (self.latest - self.first).max(fall.map_or(0, |fall| fall.by));
        time < before && before - time >= most / 2
    }
}

/// A part that few requests followed before they came to its end: a short recording, or what another processor noted
/// at the same time. Of such a processor there would be more.
#[derive(Clone, Copy)]
struct Short {
    line: u64,
    by: u64,
    /// A quarter of the part: a step back by as much is to another processor's.
    quarter: u64,
    /// Requests up to here.
    seen: u64,
}

/// Looks for restarts.
#[derive(Default)]
pub(crate) struct Order {
    restarts: Restarts,
    /// The part at hand.
    part: Option<Part>,
    before: u64,
    fall: Option<Fall>,
    /// May be a restart.
    short: Option<Short>,
    /// Requests so far.
    seen: u64,
}

impl Order {
    #[inline]
    pub fn add(&mut self, time: u64, line: u64) {
        let before = std::mem::replace(&mut self.before, time);
        self.seen += 1;
        match &mut self.part {
            Some(part) if self.fall.is_none() && time >= before => part.reach(time, None),
            _ => self.step_back(before, time, line),
        }
    }
    /// A step back, and what follows it until that is understood.
    fn step_back(&mut self, mut before: u64, time: u64, line: u64) {
        if let Some(short) = self.short
            && before.saturating_sub(time) >= short.quarter
        {
            self.restarts = self.so_far();
            self.short = None;
        }
        let Some(part) = &mut self.part else {
            self.part = Some(Part { first: time, latest: time, requests: 1, ahead: None });
            return;
        };
        if part.falls(before, time, self.fall.as_ref())
            && let Some(ahead) = part.ahead.take()
            && !part.is_confirmed(&ahead)
            && !part.is_pause(&ahead, time)
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
            if fall.requests + 1 >= FEW && part.is_repeated(fall) {
                let quarter = (part.latest - part.first) / 4;
                let Fall { line, by, .. } = *fall;
                self.short.get_or_insert(Short { line, by, quarter, seen: self.seen });
            }
            let fall = self.fall.take();
            return part.reach(time, fall);
        }
        fall.latest = fall.latest.max(time);
        fall.requests += 1;
        if fall.requests == GOES_ON {
            // What came before may be a few requests that are too late.
            if part.requests >= GOES_ON || part.is_repeated(fall) {
                self.restarts = self.restarts.and(fall.line, fall.by);
            }
            let (first, latest, requests) = (fall.from, fall.latest, fall.requests);
            (*part, self.fall) = (Part { first, latest, requests, ahead: None }, None);
        }
    }
    /// Where the clock began again, once all is read: nothing that follows contradicts a short recording.
    pub fn at_end(&self) -> Restarts {
        let Some(part) = &self.part else { return self.restarts };
        let last = self.fall.filter(|fall| fall.requests >= FEW && part.is_repeated(fall));
        let last = last.map(|fall| (fall.line, fall.by));
        match self.short.map(|short| (short.line, short.by)).or(last) {
            Some((line, by)) => self.restarts.and(line, by),
            None => self.restarts,
        }
    }
    /// The same while more may follow.
    pub fn so_far(&self) -> Restarts {
        match self.short {
            Some(short) if self.seen - short.seen >= GOES_ON => {
                self.restarts.and(short.line, short.by)
            }
            _ => self.restarts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::rng::splitmix64;

    fn of(times: impl IntoIterator<Item = u64>) -> Restarts {
        let mut order = Order::default();
        (1..).zip(times).for_each(|(line, time)| order.add(time, line));
        order.at_end()
    }

    /// Short recordings that are the last of a file, in step or beside each other by a little.
    #[test]
    fn a_short_recording_at_the_end_is_found() {
        for n in [34, 60, 100, 127, 128] {
            let part = |from: u64| (0..n).map(move |i| from + i * 10_000);
            for shift in [0, 1_700] {
                let found = of(part(1_000).chain(part(1_000 + shift)));
                assert_eq!(
                    (found.count, found.line),
                    (1, n + 1),
                    "{n} requests, shifted by {shift}"
                );
            }
        }
        // A few that are too late are none.
        let part = (0..500).map(|i| i * 10_000);
        assert_eq!(of(part.clone().chain((0..20).map(|i| i * 10_000))).count, 0);
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
    fn a_short_recording_before_others_is_found() {
        let part = |n: u64, step: u64| (0..n).map(move |i| 1_000 + i * step);
        for n in [32, 50, 100, 127] {
            // At the rate of what follows, and at a lower one.
            for step in [10, 1_000] {
                let found = of(part(n, step).chain(part(3_000, 10)));
                let by = Span((n - 1) * step);
                assert_eq!(found, Restarts { count: 1, line: n + 1, by }, "{n} {step}");
            }
            // The second of two such is the one that nothing else falls back behind.
            let three = of(part(n, 10).chain(part(n, 10)).chain(part(3_000, 10)));
            assert!(three.count >= 1 && three.line > n, "{n}: {three:?}");
            // Before a longer one that is found as well.
            let long = part(n, 10).chain(part(3_000, 10)).chain(part(3_000, 10));
            assert_eq!((of(long.clone()).count, of(long).line), (2, n + 1), "{n}");
        }
        // A few are none.
        assert_eq!(of(part(20, 10).chain(part(3_000, 10))).count, 0);
        assert_eq!(of(part(100, 2).chain(part(3_000, 10))).count, 0, "few are beside it");
    }
    #[test]
    fn a_recording_that_ends_soon_after_a_pause_is_found() {
        let part = |first: u64, n: u64| (0..n).map(move |i| first + i * 10);
        for (n, late) in [(1_000, 50), (100, 50), (60, 30), (1_000, 1)] {
            let paused = || part(0, n).chain(part(1_000_000, late));
            let found = of(paused().chain(part(0, 3_000)));
            let by = Span(1_000_000 + (late - 1) * 10);
            assert_eq!(found, Restarts { count: 1, line: n + late + 1, by }, "{n} {late}");
        }
    }
    /// Each processor's records in blocks, beside each other's.
    #[test]
    fn blocks_of_several_processors_are_no_restart() {
        for block in [10, 33, 50, 64, 100, 120] {
            for processors in [2, 3] {
                let of_block = |i: u64| {
                    let (at, n) = (i % block, i / block);
                    1_000 + ((n / processors) * block + at) * 10 + n % processors
                };
                assert_eq!(of((0..10_000).map(of_block)).count, 0, "{block} {processors}");
            }
        }
    }
    #[test]
    fn no_jitter_and_no_order_is_a_restart() {
        for seed in 0..200u64 {
            let draw = |i: u64| splitmix64(seed << 32 ^ i);
            for by in [20, 400, 9_000, 100_000] {
                let times = (0..2_000).map(|i| 1_000 + i * 10 + draw(i) % by);
                assert_eq!(of(times).count, 0, "{seed} {by}");
                // Times of a coarse clock.
                let coarse = (0..2_000).map(|i| (1_000 + i * 10 + draw(i) % by) / 500 * 500);
                assert_eq!(of(coarse).count, 0, "{seed} {by} coarse");
            }
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
