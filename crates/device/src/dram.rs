//! The memory of the drive's cache, as a pipe that carries copies in order and stands still while it refreshes.

use crate::config::RefreshConfig;
use wordline_base::{Span, Time, Timeline};

#[derive(Clone, Default)]
pub(crate) struct Dram {
    bus: Timeline,
    refresh: Option<RefreshConfig>,
}

impl Dram {
    pub fn new(refresh: Option<&RefreshConfig>) -> Dram {
        Dram { bus: Timeline::default(), refresh: refresh.cloned() }
    }
    /// Takes the bus for a copy of this length: when it begins and ends.
    #[inline]
    pub fn reserve(&mut self, now: Time, span: Span) -> (Time, Time) {
        match &self.refresh {
            None => self.bus.reserve(now, span),
            Some(refresh) => {
                let from = now.max(self.bus.free_at());
                let (start, end) = between(refresh, from, span);
                self.bus.reserve(start, end.since(start));
                (start, end)
            }
        }
    }
}

/// A refresh begins whenever `every` is over; a copy goes on when it has ended.
fn between(refresh: &RefreshConfig, from: Time, span: Span) -> (Time, Time) {
    let (every, takes) = (refresh.every.0, refresh.takes.0);
    let phase = from.0 % every;
    let start = from.0 + takes.saturating_sub(phase);
    let left = every - phase.max(takes);
    if span.0 <= left {
        return (Time(start), Time(start + span.0));
    }
    // The rest is spread over whole periods and a part of one.
    let (rest, useful) = (span.0 - left, every - takes);
    let whole = (rest - 1) / useful;
    (Time(start), Time(start + left + whole * every + takes + (rest - whole * useful)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::Rng;

    /// A copy does a nanosecond of its work in each nanosecond without a refresh.
    #[test]
    fn copies_stand_still_while_the_memory_refreshes() {
        let mut rng = Rng::from_seed(1);
        for case in 0..20_000 {
            let every = 2 + rng.below(40);
            let takes = 1 + rng.below(every - 1);
            let refresh = RefreshConfig { every: Span(every), takes: Span(takes) };
            let (from, span) = (rng.below(200), rng.below(100));
            let works = |at: u64| at % every >= takes;
            let start = (from..).find(|&at| works(at)).expect("it ends");
            let (mut at, mut done) = (start, 0);
            while done < span {
                done += u64::from(works(at));
                at += 1;
            }
            let found = between(&refresh, Time(from), Span(span));
            assert_eq!(found, (Time(start), Time(at)), "case {case}: {refresh:?} {from} {span}");
        }
    }

    /// Short copies at any moment wait for takes^2 / (2 every) on average; without a pause they have the rest of the time.
    #[test]
    fn refreshes_cost_what_their_share_says() {
        let refresh = RefreshConfig { every: Span(3_904), takes: Span(280) };
        let mut waited = 0;
        for at in 0..39_040 {
            waited += between(&refresh, Time(at), Span(1)).0.0 - at;
        }
        let mean = waited as f64 / 39_040.0;
        assert!((mean - 280.0 * 280.0 / (2.0 * 3_904.0)).abs() < 0.1, "{mean} ns");
        let mut dram = Dram::new(Some(&refresh));
        let mut end = Time(0);
        for _ in 0..100_000 {
            end = dram.reserve(Time(0), Span(320)).1;
        }
        let share = 32e6 / end.0 as f64;
        assert!((share - (1.0 - 280.0 / 3_904.0)).abs() < 1e-4, "{share}");
    }
}
