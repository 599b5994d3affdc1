//! Whether I/O came at the times that were asked for: a trace's, or a rate's. What is late waits outside of the
//! machine, where no latency counts it.

use crate::result::{DirResult, Lateness, ThreadResult};
use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};
use wordline_base::hist::midpoint;
use wordline_base::{Ddir, Histogram, Span, Time};
use wordline_fio::Job;
use wordline_fio::job::RateProcess;

/// An I/O as it went out and comes back.
type Sent = (u64, u32, u8);

/// Holds the requests of a trace against its times.
#[derive(Default)]
pub(crate) struct Punctuality {
    so_far: Lateness,
    /// Times of requests in flight; of equal ones the oldest is taken to come back first.
    due: BTreeMap<Sent, VecDeque<Time>>,
}

impl Punctuality {
    /// A request goes out that was due at `at`.
    pub fn sent(&mut self, (offset, len, ddir): (u64, u32, Ddir), at: Time) {
        self.due.entry((offset, len, ddir as u8)).or_default().push_back(at);
    }
    /// It is back, `latency` after its issue. Between the time that the thread slept to and the issue it was
    /// woken, and prepared the request.
    pub fn back(
        &mut self,
        (offset, len, ddir): (u64, u32, Ddir),
        ok: bool,
        latency: Span,
        now: Time,
    ) {
        let Entry::Occupied(mut equal) = self.due.entry((offset, len, ddir as u8)) else { return };
        let at = equal.get_mut().pop_front();
        if equal.get().is_empty() {
            equal.remove();
        }
        let Some(from_due) = at.map(|at| now.since(at)) else { return };
        self.so_far.behind.add(from_due.0.saturating_sub(latency.0));
        if ok && !ddir.is_sync() {
            self.so_far.latency[ddir as usize].add(from_due.0);
        }
    }
    /// None for a trace whose times are not asked for.
    pub fn result(&self) -> Option<Lateness> {
        (!self.so_far.behind.is_empty()).then(|| self.so_far.clone())
    }
}

/// All directions together.
fn all<'a>(each: impl IntoIterator<Item = &'a Histogram>) -> Histogram {
    let mut sum = Histogram::new();
    each.into_iter().for_each(|h| sum.merge(h));
    sum
}

/// To the nanosecond below a microsecond, to a tenth of one above.
fn told(ns: f64) -> String {
    let ns = ns.max(0.0).round() as u64;
    Span(if ns < 1_000 { ns } else { ns / 100 * 100 }).to_string()
}

/// A request that is late by less than the mean latency is a matter of the processor: its thread was woken, or its
/// core was busy. What is later than that counts, if it is more than 1 % of the requests, or if it is above a
/// tenth of the mean latency when spread over all.
pub(crate) fn late(thread: &ThreadResult) -> Option<String> {
    let lateness = thread.lateness.as_ref()?;
    let latency = all(thread.dirs.iter().map(|d: &DirResult| &d.lat)).mean();
    let behind = &lateness.behind;
    let (mut requests, mut sum) = (0, 0.0);
    for (bucket, n) in behind.buckets() {
        let value = midpoint(bucket).clamp(behind.min(), behind.max()) as f64;
        if value > latency {
            requests += n;
            sum += value * n as f64;
        }
    }
    let of = behind.len() as f64;
    if requests as f64 <= 0.01 * of && sum <= 0.1 * latency * of {
        return None;
    }
    let counted = all(&lateness.latency);
    Some(format!(
        "'{}' did not keep the times of its trace: {requests} of {} requests ({:.1}%) were issued later than their \
         time by more than the mean latency, {} in the mean and {} at most. Latency counts from the issue; from the \
         trace's time it is {} in the mean, 99.99% {}. A larger --time-scale asks for less a second",
        thread.name,
        behind.len(),
        100.0 * requests as f64 / of,
        told(sum / (requests as f64).max(1.0)),
        told(behind.max() as f64),
        told(counted.mean()),
        told(counted.percentile(99.99) as f64),
    ))
}

/// What a job asked for, in bytes and I/Os a second of a direction, and what its threads reached.
#[derive(Clone, Debug)]
pub(crate) struct Rated {
    pub name: String,
    /// Pauses are drawn: so few I/Os may be slower by chance.
    drawn: bool,
    /// By direction: asked, reached, I/Os, and whether they are bytes.
    dirs: [Option<(f64, f64, u64, bool)>; 3],
}

impl Rated {
    /// None for a job without a rate.
    pub fn new(job: &Job, thread: &ThreadResult) -> Option<Rated> {
        let of = |d: usize| {
            let dir = &thread.dirs[d];
            let (asked, amount, bytes) = match (job.rate[d], job.rate_iops[d]) {
                (0, 0) => return None,
                (0, ios) => (ios, dir.total_ios, false),
                (rate, _) => (rate, dir.io_bytes, true),
            };
            // The last one need not be back for the rate to be kept.
            let time = dir.runtime.0 as f64 - dir.lat.mean();
            (dir.total_ios > 0 && time > 0.0)
                .then(|| (asked as f64, amount as f64 * 1e9 / time, dir.total_ios, bytes))
        };
        let dirs = [of(0), of(1), of(2)];
        let drawn = job.rate_process == RateProcess::Poisson;
        let name = job.name.clone();
        dirs.iter().any(Option::is_some).then_some(Rated { name, drawn, dirs })
    }
    /// With another thread of the job.
    pub fn add(&mut self, other: &Rated) {
        for (to, from) in self.dirs.iter_mut().zip(&other.dirs) {
            match (to.as_mut(), from) {
                (Some(to), Some(from)) => {
                    (to.0, to.1, to.2) = (to.0 + from.0, to.1 + from.1, to.2 + from.2);
                }
                (None, Some(_)) => *to = *from,
                _ => {}
            }
        }
    }
    /// A job is as slow as its rate if one of its directions is: the mix holds the others back.
    pub fn warning(&self) -> Option<String> {
        let mut told: Option<(f64, String)> = None;
        for (d, dir) in self.dirs.iter().enumerate() {
            let Some((asked, reached, ios, bytes)) = *dir else { continue };
            let chance = if self.drawn { 3.0 / (ios as f64).sqrt() } else { 0.0 };
            let share = reached / asked;
            if share >= 0.95 - chance {
                return None;
            }
            if told.as_ref().is_none_or(|(best, _)| share > *best) {
                let (by, unit) = if bytes { (1e6, "MB/s") } else { (1.0, "I/Os a second") };
                let name = ["read", "written", "trimmed"][d];
                let text = format!(
                    "job '{}' did not reach its rate: {:.*} {unit} are to be {name}, and {:.*} were. Its latency is \
                     that of as many I/Os in flight as it may have, not of the rate asked for",
                    self.name,
                    usize::from(bytes),
                    asked / by,
                    usize::from(bytes),
                    reached / by
                );
                told = Some((share, text));
            }
        }
        told.map(|(_, text)| text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::{ThreadPlan, ThreadStats};

    fn thread(latency: u64, behind: &[(u64, u64)]) -> ThreadResult {
        let mut thread = ThreadStats::new(1, &ThreadPlan::default()).result;
        let mut lateness = Lateness::default();
        for &(ns, n) in behind {
            for _ in 0..n {
                thread.dirs[0].lat.add(latency);
                lateness.behind.add(ns);
                lateness.latency[0].add(latency + ns);
            }
        }
        thread.lateness = Some(lateness);
        thread
    }

    #[test]
    fn what_is_late_by_less_than_a_latency_is_not_told() {
        assert_eq!(late(&thread(10_000, &[(1_000, 900), (9_000, 100)])), None, "the core was busy");
        assert_eq!(late(&thread(10_000, &[(0, 995), (20_000, 5)])), None, "a few, and by little");
        let many = late(&thread(10_000, &[(0, 980), (20_000, 20)])).expect("2 % of the requests");
        assert!(many.contains("20 of 1000 requests (2.0%)"), "{many}");
        let much = late(&thread(10_000, &[(0, 999), (5_000_000, 1)])).expect("half of the latency");
        assert!(much.contains("1 of 1000") && much.contains("99.99% 5.0"), "{much}");
        assert_eq!(late(&ThreadStats::new(1, &ThreadPlan::default()).result), None, "no trace");
    }

    #[test]
    fn equal_requests_in_flight_come_back_in_order() {
        let mut p = Punctuality::default();
        let io = (4096, 512, Ddir::Read);
        p.sent(io, Time(10));
        p.sent(io, Time(20));
        p.back(io, true, Span(20), Time(30));
        p.back(io, true, Span(25), Time(50));
        p.back(io, true, Span(1), Time(60));
        let seen = p.result().expect("two requests");
        assert_eq!((seen.behind.len(), seen.behind.max()), (2, 5));
        let latency = &seen.latency[0];
        assert_eq!((latency.len(), latency.min(), latency.max()), (2, 20, 30));
        assert!(p.due.is_empty());
    }

    #[test]
    fn a_rate_counts_as_reached_by_one_direction() {
        let rated = |dirs, drawn| Rated { name: "a".into(), drawn, dirs };
        let (slow, kept) = (Some((1e3, 900.0, 400, false)), Some((1e3, 960.0, 400, false)));
        let text = rated([slow, None, None], false).warning().expect("a tenth is missing");
        assert!(text.contains("1000 I/Os a second are to be read, and 900 were"), "{text}");
        assert_eq!(rated([kept, None, None], false).warning(), None);
        assert_eq!(rated([slow, kept, None], false).warning(), None, "the mix held the reads back");
        assert_eq!(rated([slow, None, None], true).warning(), None, "by chance");
    }
}
