//! A resource that serves in order of arrival and is never preempted: a channel, a link direction,
//! a firmware core. It needs no start event: asking for it answers when it is granted.
//!
//! `reserve` must be called in order of time (each call at the current event), otherwise a request
//! made early for a late start would hold up requests that could have gone first.

use crate::time::{Span, Time};

/// The resource. See the module.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    free_at: Time,
    busy: Span,
}

impl Timeline {
    /// Takes the resource for `span` from the first moment at or after `now` that it is free.
    #[inline]
    pub fn reserve(&mut self, now: Time, span: Span) -> (Time, Time) {
        let start = now.max(self.free_at);
        self.free_at = start + span;
        self.busy += span;
        (start, self.free_at)
    }
    /// When all that was granted so far is over.
    pub fn free_at(&self) -> Time {
        self.free_at
    }
    /// Total time granted, including grants that end in the future.
    pub fn busy(&self) -> Span {
        self.busy
    }
    /// Time in use up to `now`.
    pub fn busy_until(&self, now: Time) -> Span {
        self.busy.saturating_sub(self.free_at.since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_fifo_and_do_not_overlap() {
        let mut t = Timeline::default();
        assert_eq!(t.reserve(Time(10), Span(5)), (Time(10), Time(15)));
        assert_eq!(t.reserve(Time(11), Span(5)), (Time(15), Time(20)));
        assert_eq!(t.reserve(Time(30), Span(1)), (Time(30), Time(31)));
        assert_eq!(t.busy(), Span(11));
    }
}
