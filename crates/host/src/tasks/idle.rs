//! What a core does when it has nothing to do: the states of the processor, and who picks one.
//!
//! - The menu governor of Linux 4.14 (drivers/cpuidle/governors/menu.c) goes by when the next timer is due, how long the
//!   last eight pauses were, and how many tasks wait for I/O.
//! - The governor by timer events of Linux 5.4 (drivers/cpuidle/governors/teo.c) takes the next timer for what ends most
//!   pauses. For each state it counts how often that was so, and how often something came earlier. Tasks that wait for
//!   I/O are nothing to it. The tick runs on in a pause for which it asks for the tick, as after a task.
//!
//! State 0 is the polling idle loop, the others are the processor's. Without a governor there is one
//! state, and one cost of leaving it. The queue is empty when a state is chosen, so its load, which
//! the governor also asks for, is zero.

use crate::config::{Governor, IdleConfig};
use wordline_base::{Span, Time};

/// The polling loop, and C1 to C6.
pub const STATES: usize = 5;
/// Names of the states, in the order of their numbers.
pub const STATE_NAMES: [&str; STATES] = ["POLL", "C1", "C1E", "C3", "C6"];

const INTERVALS: usize = 8;
const BUCKETS: usize = 12;
const RESOLUTION: u64 = 1024;
const DECAY: u64 = 8;
/// MAX_INTERESTING: longer pauses say nothing.
const LONG_US: u64 = 50_000;

/// One core's states, and who chooses them.
#[derive(Clone, Debug)]
pub(crate) struct CpuIdle {
    /// States that may be used, the shallowest first.
    states: Vec<State>,
    /// The state of the pause under way.
    pub(super) state: usize,
    /// Nanoseconds in each state.
    pub(super) residency: [u64; STATES],
    governor: Chooser,
}

#[derive(Clone, Debug)]
enum Chooser {
    Menu(Menu),
    Teo(Teo),
}

/// What the driver tells of a state, in microseconds.
#[derive(Clone, Copy, Debug)]
struct State {
    /// Exit latency.
    exit: u64,
    /// Target residency.
    residency: u64,
}

impl CpuIdle {
    pub fn new(config: &IdleConfig) -> Option<Box<CpuIdle>> {
        let governor = match config.governor {
            Governor::None => return None,
            Governor::Menu => Chooser::Menu(Menu::new()),
            Governor::Teo => Chooser::Teo(Teo::new()),
        };
        let us = |span: Span| span.0 / 1_000;
        let of = |s: &crate::config::IdleState| State {
            exit: us(s.exit_latency),
            residency: us(s.target_residency),
        };
        let polling = State { exit: 0, residency: 0 };
        let all = [polling].into_iter().chain(config.states().map(of));
        Some(Box::new(CpuIdle {
            states: all.take(config.max_cstate as usize + 1).collect(),
            state: 0,
            residency: [0; STATES],
            governor,
        }))
    }

    /// The core has nothing to do: the next timer is due in `timer`, and `waiters` tasks of this core wait for I/O.
    pub fn select(&mut self, timer: Span, waiters: u64) {
        // ktime_to_us, as an unsigned int.
        let timer_us = (timer.0 / 1_000).min(u64::from(u32::MAX));
        self.state = match &mut self.governor {
            Chooser::Menu(menu) => menu.select(&self.states, timer_us, waiters),
            Chooser::Teo(teo) => teo.select(&self.states, timer),
        };
    }

    /// The pause is over: `slept` until something woke the core.
    pub fn reflect(&mut self, slept: Span) {
        self.residency[self.state] += slept.0;
        let state = self.states[self.state];
        // cpuidle_enter_state reads the clock when the core runs again.
        let measured = slept + Span::from_us(state.exit);
        match &mut self.governor {
            Chooser::Menu(menu) => menu.reflect(state, measured.0 / 1_000),
            Chooser::Teo(teo) => teo.reflect(&self.states, self.state, measured),
        }
    }

    /// What leaving the state takes longer than leaving C1.
    pub fn beyond_c1(&self) -> Span {
        let c1 = self.states.get(1).map_or(0, |c1| c1.exit);
        Span::from_us(self.states[self.state].exit.saturating_sub(c1))
    }
}

/// The menu governor.
#[derive(Clone, Debug)]
struct Menu {
    intervals: [u64; INTERVALS],
    at: usize,
    factors: [u64; BUCKETS],
    bucket: usize,
    next_timer_us: u64,
}

impl Menu {
    fn new() -> Menu {
        Menu {
            // Nothing ran for long before the run.
            intervals: [1_000_000; INTERVALS],
            at: 0,
            factors: [RESOLUTION * DECAY; BUCKETS],
            bucket: 0,
            next_timer_us: 0,
        }
    }

    /// menu_select.
    fn select(&mut self, states: &[State], timer_us: u64, waiters: u64) -> usize {
        self.next_timer_us = timer_us;
        self.bucket = bucket(self.next_timer_us, waiters);
        let product = self.next_timer_us * self.factors[self.bucket];
        let by_factor = (product + RESOLUTION * DECAY / 2) / (RESOLUTION * DECAY);
        let predicted = by_factor.min(typical(&self.intervals).min(self.next_timer_us));
        // performance_multiplier.
        let most = predicted / (1 + 10 * waiters);
        // The loop that polls is left out unless the timer is really soon.
        let soon = |c1: &State| self.next_timer_us <= c1.residency.max(20);
        let first = usize::from(states.get(1).is_some_and(|c1| !soon(c1)));
        let fits = |s: &&State| s.residency <= predicted && s.exit <= most;
        let deeper = states[first..].iter().take_while(fits).count();
        first + deeper.saturating_sub(1)
    }

    /// menu_update: a pause of `us` in this state is over, with what leaving it took.
    fn reflect(&mut self, State { exit, .. }: State, us: u64) {
        let measured = if us > 2 * exit { us - exit } else { us / 2 }.min(self.next_timer_us);
        let factor = &mut self.factors[self.bucket];
        *factor -= *factor / DECAY;
        *factor += match self.next_timer_us {
            timer if timer > 0 && measured < LONG_US => RESOLUTION * measured / timer,
            _ => RESOLUTION,
        };
        *factor = (*factor).max(1);
        self.intervals[self.at] = measured;
        self.at = (self.at + 1) % INTERVALS;
    }
}

/// The governor by timer events.
#[derive(Clone, Debug)]
struct Teo {
    /// By state.
    bins: [Bin; STATES],
    /// The last pauses; [`Teo::BY_TIMER`] are those that the timer ended.
    intervals: [u64; INTERVALS],
    at: usize,
    timer: Span,
    timer_us: u64,
}

/// What pauses were like for which the timer allowed a state.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    /// The pause was long enough for the state.
    hits: u64,
    /// It was not.
    misses: u64,
    /// The timer allowed a deeper state, and the pause was long enough for this one.
    early_hits: u64,
}

impl Teo {
    const BY_TIMER: u64 = u32::MAX as u64;
    const PULSE: u64 = 1024;
    const DECAY_SHIFT: u32 = 3;

    fn new() -> Teo {
        let intervals = [Teo::BY_TIMER; INTERVALS];
        Teo { bins: [Bin::default(); STATES], intervals, at: 0, timer: Span::ZERO, timer_us: 0 }
    }

    /// teo_select.
    fn select(&mut self, states: &[State], timer: Span) -> usize {
        (self.timer, self.timer_us) = (timer, (timer.0 / 1_000).min(u64::from(u32::MAX)));
        let mut duration = self.timer_us;
        let fits = states.iter().take_while(|s| s.residency <= duration).count();
        let mut state = fits.saturating_sub(1);
        let bins = &self.bins[..fits];
        // The first of those with the most: a later one must have more.
        let early = (0..fits).rev().max_by_key(|&i| bins[i].early_hits);
        let early = early.filter(|&i| bins[i].early_hits > 0);
        if let Some(early) = early
            && self.bins[state].hits <= self.bins[state].misses
        {
            (state, duration) = (early, states[early].residency);
        }
        let shorter = || self.intervals.iter().copied().filter(|&us| us < duration);
        let count = shorter().count();
        if state > 0 && count > INTERVALS / 2 {
            let mean = shorter().sum::<u64>() / count as u64;
            let fits = states[..=state].iter().rposition(|s| s.residency <= mean);
            state = fits.unwrap_or(0);
        }
        state
    }

    /// teo_update: a pause in `state` is over, with what leaving it took.
    fn reflect(&mut self, states: &[State], state: usize, slept: Span) {
        let (us, by_timer) = (slept.0 / 1_000, slept >= self.timer);
        let exit = states[state].exit;
        let measured = match us {
            _ if by_timer => self.timer_us,
            us if us >= exit => us - exit / 2,
            us => us / 2,
        };
        self.bins.iter_mut().for_each(|bin| bin.early_hits -= bin.early_hits >> Teo::DECAY_SHIFT);
        let allowed = |by: u64| states.iter().rposition(|s| s.residency <= by).unwrap_or(0);
        let (timer, hit) = (allowed(self.timer_us), allowed(measured));
        let bin = &mut self.bins[timer];
        bin.hits -= bin.hits >> Teo::DECAY_SHIFT;
        bin.misses -= bin.misses >> Teo::DECAY_SHIFT;
        if timer > hit {
            bin.misses += Teo::PULSE;
            self.bins[hit].early_hits += Teo::PULSE;
        } else {
            bin.hits += Teo::PULSE;
        }
        self.intervals[self.at] = if by_timer { Teo::BY_TIMER } else { measured };
        self.at = (self.at + 1) % INTERVALS;
    }
}

/// which_bucket: by the power of ten, apart with tasks that wait for I/O.
fn bucket(us: u64, waiters: u64) -> usize {
    let by_time = [10, 100, 1_000, 10_000, 100_000].iter().filter(|&&limit| us >= limit).count();
    by_time + if waiters > 0 { BUCKETS / 2 } else { 0 }
}

/// get_typical_interval: the mean of the last pauses, without the longest ones, if they are alike;
/// else no prediction.
fn typical(intervals: &[u64; INTERVALS]) -> u64 {
    let mut most = u64::MAX;
    loop {
        let kept = || intervals.iter().copied().filter(|&us| us <= most);
        let n = kept().count() as u64;
        let mean = kept().sum::<u64>() / n;
        let variance = kept().map(|us| us.abs_diff(mean).pow(2)).sum::<u64>() / n;
        let enough = n * 4 >= INTERVALS as u64 * 3;
        if variance <= 400 || enough && mean * mean > 36 * variance {
            return mean;
        }
        if n * 4 <= INTERVALS as u64 * 3 {
            return u64::from(u32::MAX);
        }
        most = kept().max().unwrap_or(1).saturating_sub(1);
    }
}

/// When the next timer of a core is due, as the governor sees it.
pub(crate) fn until(next: Time, now: Time) -> Span {
    if next == Time::NEVER { Span(u64::MAX) } else { next.since(now) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::IdleState;

    fn skylake() -> IdleConfig {
        let state = |exit, residency| IdleState {
            exit_latency: Span::from_us(exit),
            target_residency: Span::from_us(residency),
            watts: 0.0,
        };
        IdleConfig {
            governor: Governor::Menu,
            max_cstate: 9,
            c1: state(2, 2),
            c1e: state(10, 20),
            c3: state(70, 100),
            c6: state(85, 200),
        }
    }

    /// The state chosen after many pauses of these lengths by turns with the next timer in `timer`.
    fn after(governor: Governor, slept: &[u64], timer: u64, waiters: u64) -> &'static str {
        let mut idle = CpuIdle::new(&IdleConfig { governor, ..skylake() }).unwrap();
        for i in 0..64 {
            idle.select(Span::from_us(timer), waiters);
            idle.reflect(Span::from_us(slept[i % slept.len()]));
        }
        idle.select(Span::from_us(timer), waiters);
        STATE_NAMES[idle.state]
    }
    fn settled(slept: u64, timer: u64, waiters: u64) -> &'static str {
        after(Governor::Menu, &[slept], timer, waiters)
    }

    #[test]
    fn the_menu_governor_selects_as_menu_select_does() {
        // (pause, next timer, tasks waiting for I/O): the state.
        for (slept, timer, waiters, wanted) in [
            // A task waits in read(): a tenth of the pause is what it may be late.
            (10, 1_000_000, 1, "C1"),
            (80, 1_000_000, 1, "C1"),
            (250, 1_000_000, 1, "C1E"),
            (1_500, 1_000_000, 1, "C6"),
            // io_getevents is no wait for I/O.
            (10, 1_000_000, 0, "C1"),
            (80, 1_000_000, 0, "C1E"),
            (180, 1_000_000, 0, "C3"),
            (200, 1_000_000, 0, "C6"),
            (500, 1_000_000, 0, "C6"),
            // A timer within 20 us, as hybrid polling's, and a task that waits: no time to sleep.
            (4, 4, 1, "POLL"),
            (19, 19, 1, "POLL"),
            (19, 19, 0, "C1"),
            (300, 300, 0, "C6"),
        ] {
            assert_eq!(settled(slept, timer, waiters), wanted, "{slept} {timer} {waiters}");
        }
    }

    #[test]
    fn the_teo_governor_selects_as_teo_select_does() {
        const FAR: u64 = 1_000_000;
        for (slept, timer, wanted) in [
            // The timer ends each pause: the deepest state that it allows, however short they were.
            (&[4][..], 4, "C1"),
            (&[1], 1, "POLL"),
            (&[150], 150, "C3"),
            (&[FAR], FAR, "C6"),
            // Something always comes before it: the state that would have been right.
            (&[10], FAR, "C1"),
            (&[80], FAR, "C3"),
            (&[150], FAR, "C3"),
            (&[180], FAR, "C6"),
            (&[1_500], FAR, "C6"),
            (&[1], FAR, "C1"),
            (&[0], FAR, "POLL"),
            // Half of the pauses are long, the last one was short: misses are no fewer than hits.
            (&[1_500, 10], FAR, "C1E"),
            // The last one was long.
            (&[10, 1_500], FAR, "C6"),
            // Hits prevail, but of the last eight pauses five were cut short, and have a mean below 40 us.
            (&[40, 40, 40, 40, 40, 300, 300, 300], 300, "C1E"),
            // Four are no majority.
            (&[40, 40, 40, 40, 300, 300, 300, 300], 300, "C6"),
        ] {
            assert_eq!(after(Governor::Teo, slept, timer, 0), wanted, "{slept:?} {timer}");
            // Who waits is nothing to it.
            assert_eq!(after(Governor::Teo, slept, timer, 3), wanted, "{slept:?} {timer}");
        }
    }

    /// Reads of 10 us, and 100 us between them by a timer. What leaving C6 takes would be taken off pauses that do not
    /// have it, and then short pauses would seem half as long, and be thought exceptions.
    #[test]
    fn a_pause_is_measured_with_the_way_out_of_it() {
        let mut idle = CpuIdle::new(&skylake()).unwrap();
        let mut states = Vec::new();
        for _ in 0..64 {
            for (timer, slept, waiters) in [(u64::from(u32::MAX), 8, 1), (100, 100, 0)] {
                idle.select(Span::from_us(timer), waiters);
                states.push(STATE_NAMES[idle.state]);
                idle.reflect(Span::from_us(slept));
            }
        }
        let deep = states[64..].iter().filter(|s| ["C3", "C6"].contains(s)).count();
        assert_eq!(deep, 0, "{states:?}");
    }

    #[test]
    fn a_pause_is_typical_if_most_are_like_it() {
        assert_eq!(typical(&[10; 8]), 10);
        assert_eq!(typical(&[10, 12, 9, 11, 10, 10, 12, 8]), 10);
        // Two of eight may be left out.
        assert_eq!(typical(&[100, 5_000, 100, 100, 9_000, 100, 100, 100]), 100);
        let wild = [1, 1_000, 2, 3_000, 5, 9_000, 20, 70];
        assert_eq!(typical(&wild), u64::from(u32::MAX));
    }

    #[test]
    fn fewer_states_may_be_used() {
        let mut config = skylake();
        config.max_cstate = 0;
        let mut idle = CpuIdle::new(&config).unwrap();
        idle.select(Span::from_ms(10), 0);
        assert_eq!((idle.state, idle.beyond_c1()), (0, Span::ZERO));
        config.governor = Governor::None;
        assert!(CpuIdle::new(&config).is_none());
    }
}
