//! Wall time and the machine's.

use std::time::{Duration, Instant};
use wordline_base::Time;

/// The model's time ends here, after 34 years. Events are counted to [`Time::NEVER`], two years later: what is set
/// before the end, timers among them, has its place.
pub(crate) const END: Time = Time(Time::NEVER.0 - (1 << 56));

/// How long before a deadline sleeping ends: timers of the system overshoot by 25 to 90 us.
const SPIN: Duration = Duration::from_micros(100);

/// The longest that input is looked for before sleeping. A client that waits for one answer at a time sends the
/// next request some 10 to 30 us after it woke. While either side sleeps, an idle time has both wake-ups in it.
/// The wake-up of a halted virtual processor takes 25 us.
const LOOK_MAX: Duration = Duration::from_micros(200);
const LOOK_FIRST: Duration = Duration::from_micros(10);

/// How long to look for input before sleeping for it. It grows while sleeps turn out short and ends
/// when they are long, as KVM polls before it halts (Documentation/virt/kvm/halt-polling.rst).
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    window: Duration,
}

impl Look {
    pub fn window(&self) -> Duration {
        self.window
    }
    /// Input came after so long.
    pub fn learn(&mut self, idle: Duration) {
        if idle > LOOK_MAX {
            self.window = Duration::ZERO;
        } else if idle > self.window {
            self.window = (self.window * 2).clamp(LOOK_FIRST, LOOK_MAX);
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    /// Wall time for one second of the machine; 0: it does not wait.
    scale: f64,
    spin: bool,
}

impl Clock {
    pub fn new(scale: f64, spin: bool) -> Clock {
        Clock { start: Instant::now(), scale, spin }
    }
    /// The machine goes as fast as it can.
    pub fn is_free(&self) -> bool {
        self.scale == 0.0
    }
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
    /// The machine's time now.
    pub fn now(&self) -> Time {
        Time((self.elapsed().as_nanos() as f64 / self.scale) as u64).min(END)
    }
    /// Nanoseconds that have passed since a time of the machine should have been.
    pub fn late(&self, at: Time) -> u64 {
        let due = (at.0 as f64 * self.scale) as u128;
        self.elapsed().as_nanos().saturating_sub(due) as u64
    }
    /// How long to sleep for a time of the machine: zero when it is time to spin.
    pub fn sleep(&self, at: Time) -> Duration {
        let due = Duration::from_nanos((at.0 as f64 * self.scale) as u64);
        let left = due.saturating_sub(self.elapsed());
        if self.spin { left.saturating_sub(SPIN) } else { left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_lasts_as_long_as_it_is_worth() {
        let us = Duration::from_micros;
        let mut look = Look::default();
        let windows = [5, 15, 35, 70, 150, 120, 190, 201, 20].map(|idle| {
            look.learn(us(idle));
            look.window()
        });
        assert_eq!(windows, [10, 20, 40, 80, 160, 160, 200, 0, 10].map(us));
    }

    #[test]
    fn a_time_scale_stretches_model_time() {
        let slow = Clock::new(1000.0, true);
        std::thread::sleep(Duration::from_millis(2));
        let (before, at, after) = (slow.elapsed(), slow.now(), slow.elapsed());
        let us = |time: Duration| time.as_nanos() as u64 / 1000;
        assert!(at.0 >= 2_000 && (us(before)..=us(after)).contains(&at.0), "{at:?}");
        assert!(slow.sleep(Time(1_000_000_000)) > Duration::from_secs(500), "of a thousand");
        assert_eq!(slow.sleep(Time(1_000)), Duration::ZERO);
        assert!(slow.late(Time(1_000)) >= 1_000_000);
        assert!(Clock::new(0.0, true).is_free());
    }
}
