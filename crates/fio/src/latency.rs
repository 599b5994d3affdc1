//! `latency_target`: fio's search for the greatest queue depth that keeps latency in bounds. It
//! doubles the depth after a good window, halves the distance after a bad one, and ends the job
//! once the depth has settled (unless `latency_run`).

use crate::job::Job;
use wordline_base::{Span, Time};

/// What a completed I/O or a closed window means for the job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Go on.
    Continue,
    /// The depth changed: let everything in flight finish before going on.
    Drain,
    /// The depth has settled: drain, clear the statistics and run one more window.
    FinalRun,
    /// The final window is over: the job ends well.
    Done,
    /// Even one I/O at a time is too slow: the job fails.
    Failed,
}

/// The search of one thread. Absent where the job has no target.
#[derive(Clone, PartialEq, Debug)]
pub struct LatencyTarget {
    target: Span,
    window: Span,
    percentile: f64,
    keep_running: bool,
    depth_max: u32,
    depth: u32,
    low: u32,
    high: u32,
    settled: u32,
    since: Time,
    ios: u64,
    late: u64,
    final_run: bool,
}

impl LatencyTarget {
    /// None if the job has no `latency_target`.
    pub fn new(job: &Job, now: Time) -> Option<LatencyTarget> {
        (job.latency_target > Span::ZERO).then_some(LatencyTarget {
            target: job.latency_target,
            window: job.latency_window,
            percentile: job.latency_percentile,
            keep_running: job.latency_run,
            depth_max: job.iodepth,
            depth: 1,
            low: 1,
            high: job.iodepth,
            settled: 0,
            since: now,
            ios: 0,
            late: 0,
            final_run: false,
        })
    }

    /// I/Os the thread may have in flight now.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// An I/O completed after `latency`.
    pub fn completed(&mut self, now: Time, latency: Span) -> Verdict {
        self.ios += 1;
        if latency <= self.target {
            return Verdict::Continue;
        }
        if self.percentile == 100.0 {
            return self.step_down(now);
        }
        self.late += 1;
        Verdict::Continue
    }

    /// Looks whether the window is over. fio does so after every I/O it issues.
    pub fn check(&mut self, now: Time) -> Verdict {
        if now.since(self.since).0 / 1_000 < self.window.0 / 1_000 || self.ios == 0 {
            return Verdict::Continue;
        }
        let good = (self.ios - self.late) as f64 / self.ios as f64 * 100.0;
        if good >= self.percentile { self.step_up(now) } else { self.step_down(now) }
    }

    fn new_window(&mut self, now: Time) {
        (self.since, self.ios, self.late) = (now, 0, 0);
    }

    fn step_down(&mut self, now: Time) -> Verdict {
        if self.depth == 1 {
            return Verdict::Failed;
        }
        self.high = self.depth;
        if self.depth == self.low {
            self.low -= 1;
        }
        self.depth = (self.depth + self.low) / 2;
        self.settled = 0;
        self.new_window(now);
        Verdict::Drain
    }

    fn step_up(&mut self, now: Time) -> Verdict {
        let before = self.depth;
        self.low = self.depth;
        if self.depth + 1 == self.high {
            // It would stay here for good: lift the ceiling after three good windows.
            self.settled += 1;
            if self.settled >= 3 {
                self.high += 1;
                self.settled = 0;
            }
        }
        // Until the first bad window the depth doubles, then it bisects.
        self.depth = if self.high == self.depth_max {
            self.depth.saturating_mul(2)
        } else {
            ((u64::from(self.depth) + u64::from(self.high)) / 2) as u32
        };
        self.depth = self.depth.min(self.depth_max);
        self.new_window(now);
        if self.keep_running || self.depth != before {
            return Verdict::Continue;
        }
        if self.final_run {
            return Verdict::Done;
        }
        self.final_run = true;
        Verdict::FinalRun
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NoEnv, ParseOptions, parse_args};

    /// A drive that takes 10 us an I/O and serves them one after another.
    #[test]
    fn latency_target_finds_the_depth_that_a_serial_drive_allows() {
        let args: Vec<String> =
            "--name=a --iodepth=64 --ioengine=libaio --latency_target=100 --latency_window=1000"
                .split(' ')
                .map(String::from)
                .collect();
        let plan = parse_args(&args, &ParseOptions::default(), &mut NoEnv).expect("a plan");
        let mut search = LatencyTarget::new(&plan.jobs[0], Time::ZERO).expect("a target");
        let mut now = Time::ZERO;
        for _ in 0..10_000 {
            let latency = Span::from_us(10 * u64::from(search.depth()));
            now += Span::from_us(10);
            let verdict = search.completed(now, latency);
            assert_ne!(verdict, Verdict::Failed, "at depth {}", search.depth());
            if search.check(now) == Verdict::Done {
                break;
            }
        }
        assert!((8..=10).contains(&search.depth()), "{}", search.depth());
    }
}
