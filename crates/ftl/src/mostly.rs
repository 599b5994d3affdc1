//! Write-mostly detection (RAIL, section 3.3): with fewer than so many reads a second nobody gains
//! from throttled writes, and programs take no stride semaphores.
//!
//! Reads are counted over a window. A window with too few ends throttling; one with enough brings it
//! back, at once when the count is reached. Programs under way are not recalled, so a read that comes
//! then can find two LUNs of a stride busy.

use crate::config::FtlConfig;
use wordline_base::{Span, Time};

#[derive(Clone)]
pub(crate) struct Mostly {
    /// Reads of a window at and above which writes are throttled; 0: always.
    enough: u64,
    window: Span,
    end: Time,
    reads: u64,
    pub throttled: bool,
    /// Times throttling ended.
    pub released: u64,
}

impl Mostly {
    pub fn new(c: &FtlConfig) -> Mostly {
        let enough = u128::from(c.write_mostly_iops) * u128::from(c.write_mostly_window.0);
        Mostly {
            enough: enough.div_ceil(1_000_000_000) as u64,
            window: c.write_mostly_window,
            end: Time::ZERO,
            reads: 0,
            throttled: true,
            released: 0,
        }
    }
    /// Time has passed.
    pub fn look(&mut self, now: Time) {
        if self.enough == 0 || now < self.end {
            return;
        }
        // The first window begins with the first input.
        if self.end > Time::ZERO {
            let throttled = self.reads >= self.enough && now < self.end + self.window;
            self.released += u64::from(self.throttled && !throttled);
            self.throttled = throttled;
        }
        self.reads = 0;
        self.end = now + self.window;
    }
    /// A read command some of whose sectors are in flash: others gain nothing by throttling.
    pub fn read(&mut self, now: Time) {
        if self.enough == 0 {
            return;
        }
        self.look(now);
        self.reads += 1;
        self.throttled |= self.reads >= self.enough;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Placement;

    #[test]
    fn few_reads_end_throttling_and_a_hundred_in_a_window_bring_it_back() {
        let mut m = Mostly::new(&FtlConfig::new(Placement::Host, 12.0));
        let ms = |ms: u64| Time::ZERO + Span::from_ms(ms + 1);
        m.look(ms(0));
        assert!(m.throttled, "until something is known");
        m.look(ms(99));
        assert!(m.throttled);
        m.look(ms(100));
        assert!(!m.throttled);
        for i in 0..99 {
            m.read(ms(120 + i / 10));
        }
        assert!(!m.throttled);
        m.read(ms(150));
        assert!(m.throttled);
        // A busy window, then one of silence.
        m.look(ms(200));
        assert!(m.throttled);
        m.look(ms(301));
        assert!(!m.throttled);
        assert_eq!(m.released, 2);
    }

    #[test]
    fn a_threshold_of_zero_throttles_at_any_rate_of_reads() {
        let mut c = FtlConfig::new(Placement::Host, 12.0);
        c.write_mostly_iops = 0;
        let mut m = Mostly::new(&c);
        m.look(Time(1));
        m.look(Time::ZERO + Span::from_secs(5));
        assert!(m.throttled && m.released == 0);
    }
}
