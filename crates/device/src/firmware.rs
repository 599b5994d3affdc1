//! Firmware cores: each serves one piece of work at a time, in order of arrival; work goes to the
//! core that can start it first.
//!
//! A fetched command is booked when its fetch begins, for the moment it arrives. The core may be
//! idle until then, so each core remembers the last such gap, and shorter work that is there already
//! (completions, the FTL's own work) is served inside it. This saves an event a command.

use wordline_base::track::Track;
use wordline_base::{Ctx, IdVec, IoId, Span, Time};

#[derive(Clone, Debug, Default)]
struct Core {
    free_at: Time,
    /// Idle time before the last booking.
    gap: (Time, Time),
    busy: Span,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub core: u32,
    pub start: Time,
    pub end: Time,
}

pub(crate) struct Firmware {
    cores: IdVec<u32, Core>,
}

impl Firmware {
    pub fn new(cores: u32) -> Firmware {
        Firmware { cores: IdVec::filled(Core::default(), cores) }
    }

    /// Books a command that arrives at `arrival`, in the future.
    #[inline]
    pub fn book(&mut self, arrival: Time, span: Span) -> Grant {
        let (mut best, mut free_at) = (0, Time::NEVER);
        for (i, core) in (0..).zip(&self.cores) {
            if core.free_at < free_at {
                (best, free_at) = (i, core.free_at);
            }
        }
        let core = &mut self.cores[best];
        if core.free_at < arrival {
            core.gap = (core.free_at, arrival);
        }
        let start = arrival.max(core.free_at);
        core.free_at = start + span;
        core.busy += span;
        Grant { core: best, start, end: core.free_at }
    }

    /// Work that is there now.
    #[inline]
    pub fn reserve(&mut self, now: Time, span: Span) -> Grant {
        let mut best = Grant { core: 0, start: Time::NEVER, end: Time::NEVER };
        let mut in_gap = false;
        for (i, core) in (0..).zip(&self.cores) {
            let early = now.max(core.gap.0);
            let fits = early + span <= core.gap.1;
            let start = if fits { early } else { now.max(core.free_at) };
            if start < best.start {
                best = Grant { core: i, start, end: start + span };
                in_gap = fits;
                if start == now {
                    break;
                }
            }
        }
        let core = &mut self.cores[best.core];
        if in_gap {
            core.gap.0 = best.end;
        } else {
            core.free_at = best.end;
        }
        core.busy += span;
        best
    }

    /// Work of the FTL's that is there now.
    #[inline]
    pub fn work(&mut self, ctx: &mut Ctx, span: Span, io: IoId) -> Grant {
        let grant = self.reserve(ctx.now, span);
        ctx.slice(Track::Firmware(grant.core), "ftl", grant.start, grant.end, io);
        grant
    }

    /// Time in use up to `now`, summed over the cores.
    pub fn busy(&self, now: Time) -> Span {
        self.busy_by_core(now).sum()
    }
    pub fn busy_by_core(&self, now: Time) -> impl Iterator<Item = Span> + '_ {
        self.cores.iter().map(move |core| {
            let idle_ahead = core.gap.1.since(core.gap.0.max(now));
            core.busy.saturating_sub(core.free_at.since(now).saturating_sub(idle_ahead))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_goes_to_the_core_that_is_free_first() {
        let mut f = Firmware::new(2);
        let a = f.reserve(Time(0), Span(10));
        let b = f.reserve(Time(0), Span(4));
        let c = f.reserve(Time(1), Span(4));
        assert_eq!((a.core, b.core, c.core), (0, 1, 1));
        assert_eq!((c.start, c.end), (Time(4), Time(8)));
        assert_eq!(f.busy(Time(100)), Span(18));
    }

    #[test]
    fn a_core_waiting_for_a_command_does_shorter_work_meanwhile() {
        let mut f = Firmware::new(1);
        assert_eq!(f.book(Time(500), Span(100)).start, Time(500));
        assert_eq!(f.reserve(Time(10), Span(300)).end, Time(310));
        assert_eq!(f.reserve(Time(20), Span(100)).start, Time(310));
        assert_eq!(f.reserve(Time(30), Span(100)).start, Time(600), "the gap is too short");
        assert_eq!(f.book(Time(650), Span(1)).start, Time(700));
        assert_eq!(f.busy(Time(10_000)), Span(601));
    }
}
