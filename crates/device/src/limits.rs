//! Device-wide limits from a datasheet: so many bytes and so many commands a second.
//!
//! Each limit is a line of tokens served in order: a command waits for its turn, then passes at
//! once, so that an idle device is not slowed down. The remainder of the division is carried from
//! one command to the next, so that the long-run rate is exact.

use wordline_base::Time;

/// One rate; 0 is no limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rate {
    per_second: u64,
    free_at: Time,
    /// Left over from earlier divisions, in units of 1 / (10^9 x per_second).
    carry: u64,
}

const NS: u64 = 1_000_000_000;

impl Rate {
    pub fn new(per_second: u64) -> Rate {
        // Beyond 10^18 a second nothing is held back, and the carry would not fit.
        let per_second = per_second.min(1_000_000_000_000_000_000);
        Rate { per_second, free_at: Time::ZERO, carry: 0 }
    }
    pub fn is_off(&self) -> bool {
        self.per_second == 0
    }
    /// When `amount` may pass. Amounts are below 2^32, so the product fits 64 bits.
    #[inline]
    pub fn admit(&mut self, now: Time, amount: u32) -> Time {
        if self.per_second == 0 {
            return now;
        }
        if self.free_at < now {
            self.free_at = now;
            self.carry = 0;
        }
        let start = self.free_at;
        let total = u64::from(amount) * NS + self.carry;
        self.free_at.0 += total / self.per_second;
        self.carry = total % self.per_second;
        start
    }
}

/// The two limits of one direction.
#[derive(Clone, Debug)]
pub(crate) struct Cap {
    bytes: Rate,
    commands: Rate,
}

impl Cap {
    pub fn new(bytes_per_s: u64, iops: u64) -> Cap {
        Cap { bytes: Rate::new(bytes_per_s), commands: Rate::new(iops) }
    }
    #[inline]
    pub fn admit(&mut self, now: Time, bytes: u32) -> Time {
        self.admit_turn(now, bytes, true)
    }
    /// The same of a part of a command's data: with the first one it counts as a command.
    #[inline]
    pub fn admit_turn(&mut self, now: Time, bytes: u32, first: bool) -> Time {
        let at = self.bytes.admit(now, bytes);
        if first { at.max(self.commands.admit(now, 1)) } else { at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_long_run_rate_is_exact_and_an_idle_device_is_not_delayed() {
        let mut cap = Rate::new(3_000_000);
        let mut last = Time(0);
        for _ in 0..3_000_001 {
            last = cap.admit(Time(5), 1);
        }
        assert_eq!(last, Time(5 + 1_000_000_000));
        assert_eq!(cap.admit(Time(9_000_000_000), 1), Time(9_000_000_000));
        assert_eq!(Rate::new(0).admit(Time(7), 4096), Time(7));
    }
}
