//! fio's `steadystate`: a job, or a reporting group, ends once its rate has kept still for long
//! enough (`steadystate.c`). Rates are taken each second of the run; the last `ss_dur` of them
//! are judged: by the greatest distance from their mean, or by the slope of a line through them.

use crate::result::SteadyResult;
use std::collections::VecDeque;
use wordline_base::{Span, Time};
use wordline_fio::job::{SteadyCriterion, SteadyState};

/// Between two looks, as in fio 3.33.
pub const INTERVAL: Span = Span(1_000_000_000);

/// The judge of one thread or one reporting group.
#[derive(Clone, Debug)]
pub struct Steady {
    rule: SteadyState,
    /// How many rates are judged.
    count: usize,
    /// Bytes and I/Os up to the last look.
    seen: (u64, u64),
    /// When that was.
    looked: Time,
    /// I/Os and bytes a second at the last looks.
    rates: VecDeque<(u64, u64)>,
    /// The rate is steady.
    attained: bool,
    /// What the rule's measure is at.
    criterion: f64,
    /// The largest deviation from the mean.
    deviation: f64,
    /// The slope of the rates.
    slope: f64,
}

impl Steady {
    /// With nothing measured yet.
    pub fn new(rule: SteadyState) -> Steady {
        Steady {
            rule,
            count: (rule.duration.0 / INTERVAL.0).max(1) as usize,
            seen: (0, 0),
            looked: Time::ZERO,
            rates: VecDeque::new(),
            attained: false,
            criterion: 0.0,
            deviation: 0.0,
            slope: 0.0,
        }
    }

    /// The rate was steady at the last look.
    pub fn attained(&self) -> bool {
        self.attained
    }
    /// The group that it is in is steady.
    pub fn set_attained(&mut self) {
        self.attained = true;
    }

    /// I/Os and bytes a second of a thread since the last look; None while it ramps. `done` is what
    /// it has done in all.
    pub fn rate(&mut self, now: Time, started: Time, bytes: u64, ios: u64) -> Option<(u64, u64)> {
        let span = now.since(self.looked.max(started)).0;
        let gained = (bytes.saturating_sub(self.seen.0), ios.saturating_sub(self.seen.1));
        (self.seen, self.looked) = ((bytes, ios), now);
        // The first second after the ramp counts.
        let ramp = self.rule.ramp;
        if span == 0 || ramp > Span::ZERO && now.since(started) < ramp + INTERVAL {
            return None;
        }
        let second = |n: u64| (u128::from(n) * u128::from(INTERVAL.0) / u128::from(span)) as u64;
        Some((second(gained.1), second(gained.0)))
    }

    /// Takes a rate of the thread or its group. True: it is steady.
    pub fn judge(&mut self, iops: u64, bw: u64) -> bool {
        if self.rates.len() == self.count {
            self.rates.pop_front();
        }
        self.rates.push_back((iops, bw));
        if self.rates.len() < self.count {
            return false;
        }
        let of_iops =
            matches!(self.rule.criterion, SteadyCriterion::Iops | SteadyCriterion::IopsSlope);
        let rate = |&(iops, bw): &(u64, u64)| if of_iops { iops as f64 } else { bw as f64 };
        let n = self.count as f64;
        let sum: f64 = self.rates.iter().map(rate).sum();
        let mean = sum / n;
        let value = if self.is_slope() {
            let sum_xy: f64 = self.rates.iter().enumerate().map(|(x, r)| x as f64 * rate(r)).sum();
            let sum_x = n * (n - 1.0) / 2.0;
            let sum_xx = (n - 1.0) * n * (2.0 * n - 1.0) / 6.0;
            let spread = sum_xx - sum_x * sum_x / n;
            self.slope = if spread > 0.0 { (sum_xy - sum_x * sum / n) / spread } else { 0.0 };
            self.slope.abs()
        } else {
            let far = self.rates.iter().map(|r| (rate(r) - mean).abs());
            self.deviation = far.fold(0.0, f64::max);
            self.deviation
        };
        self.criterion = match (self.rule.percent, mean > 0.0) {
            (true, true) => 100.0 * value / mean,
            (true, false) => f64::INFINITY, // nothing came: that is no state to end in
            (false, _) => value,
        };
        self.criterion < self.rule.limit
    }

    fn is_slope(&self) -> bool {
        matches!(self.rule.criterion, SteadyCriterion::IopsSlope | SteadyCriterion::BwSlope)
    }

    /// The last judgement, for the report.
    pub fn result(&self) -> SteadyResult {
        let (name, of_iops) = match self.rule.criterion {
            SteadyCriterion::Iops => ("iops", true),
            SteadyCriterion::IopsSlope => ("iops_slope", true),
            SteadyCriterion::Bw => ("bw", false),
            SteadyCriterion::BwSlope => ("bw_slope", false),
        };
        let percent = if self.rule.percent { "%" } else { "" };
        let all = |pick: fn(&(u64, u64)) -> u64| -> Vec<u64> {
            let mut list: Vec<u64> = self.rates.iter().map(pick).collect();
            list.resize(self.count, 0);
            list
        };
        SteadyResult {
            name: format!("{name}:{:.6}{percent}", self.rule.limit),
            of_iops,
            slope: self.is_slope(),
            percent: self.rule.percent,
            duration: self.rule.duration.0 / INTERVAL.0,
            attained: self.attained,
            criterion: self.criterion,
            max_deviation: self.deviation,
            slope_value: self.slope,
            iops: all(|r| r.0),
            bw: all(|r| r.1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(criterion: SteadyCriterion, limit: f64, percent: bool) -> Steady {
        let (duration, ramp) = (Span::from_secs(3), Span::ZERO);
        Steady::new(SteadyState { criterion, limit, percent, duration, ramp })
    }

    /// What fio 3.33 printed for these rates.
    #[test]
    fn a_steady_state_is_judged_as_fio_does() {
        let mut s = steady(SteadyCriterion::Iops, 50.0, true);
        assert!(!s.judge(1001, 4_100_571) && !s.judge(1000, 4_096_000) && s.judge(1001, 4_100_100));
        let r = s.result();
        assert_eq!((r.name.as_str(), r.duration), ("iops:50.000000%", 3));
        assert_eq!(format!("{:.6} {:.6}", r.criterion, r.max_deviation), "0.066622 0.666667");
    }

    #[test]
    fn a_slope_goes_through_the_last_rates() {
        let mut s = steady(SteadyCriterion::BwSlope, 10.0, false);
        let bw = [100, 900, 500, 520, 540, 540, 545];
        let judged: Vec<bool> = bw.iter().map(|&bw| s.judge(7, bw)).collect();
        assert_eq!(judged, [false, false, false, false, false, false, true]);
        assert_eq!(s.result().slope_value, 2.5);
        let mut none = steady(SteadyCriterion::IopsSlope, 10.0, true);
        assert!((0..9).all(|_| !none.judge(0, 0)), "a job that does nothing is not steady");
    }
}
