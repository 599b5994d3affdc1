//! For how long the collector held writes up, for their lives.

use wordline_base::{Ctx, IoId, Layer, Span, Time, Why};

/// A clock that goes while the collector holds up the first write that waits, and so all behind it.
#[derive(Clone, Copy, Default, Debug)]
pub struct HeldUp {
    total: Span,
    since: Option<Time>,
    looks: bool,
    always: bool,
}

impl HeldUp {
    /// `always`: it is looked at after each event, and otherwise only when `look` was called.
    pub fn new(always: bool) -> HeldUp {
        HeldUp { looks: always, always, ..HeldUp::default() }
    }
    /// What it says.
    #[inline]
    pub fn until(&self, now: Time) -> Span {
        self.since.map_or(self.total, |since| self.total + now.since(since))
    }
    /// A write came or the FTL did something: what holds writes up is to be looked at.
    #[inline]
    pub fn look(&mut self) {
        self.looks = true;
    }
    /// Whether it is to be looked at: so it is as long as the collector holds writes up.
    #[inline]
    pub fn looks(&self) -> bool {
        self.looks
    }
    /// The FTL has done what it could: whether the collector holds writes up from now on.
    #[inline]
    pub fn see(&mut self, now: Time, holds: bool) {
        self.looks = holds || self.always;
        if holds != self.since.is_some() {
            self.total = self.until(now);
            self.since = holds.then_some(now);
        }
    }
}

/// A write waits no more, which the collector held up for `held`. The buffer is told before the collector, whichever it
/// waited for first.
pub fn mark_write(ctx: &mut Ctx, io: IoId, place: u32, held: Span) {
    let now = ctx.now;
    let Some(life) = ctx.lives.of(io) else { return };
    if held == Span::ZERO {
        return life.mark(Layer::Ftl, Why::WriteBuffer, place, now);
    }
    let held = held.min(now.since(life.end));
    life.mark(Layer::Ftl, Why::WriteBuffer, place, Time(now.0 - held.0));
    life.mark(Layer::Ftl, Why::Collector, place, now);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_goes_while_the_collector_holds_writes_up() {
        let mut clock = HeldUp::default();
        clock.see(Time(10), false);
        assert_eq!(clock.until(Time(15)), Span(0));
        clock.see(Time(20), true);
        clock.see(Time(25), true);
        assert_eq!(clock.until(Time(30)), Span(10));
        clock.see(Time(40), false);
        assert_eq!(clock.until(Time(60)), Span(20));
        clock.see(Time(70), true);
        assert_eq!(clock.until(Time(75)), Span(25));
    }
}
