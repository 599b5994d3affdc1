//! kyber (block/kyber-iosched.c), both of its forms: each domain of requests has so many tokens, and
//! the number falls for domains that meet their latency target while another one does not.
//!
//! - Linux 4.12 to 4.19: reads, synchronous writes and the rest; mean latencies of windows of 10 ms
//!   after a request missed its target, then of 100 ms as long as something is wrong or the rest
//!   is held down.
//! - From 4.20 (`percentiles`): reads, writes, discards; the 90th percentile of time at the drive
//!   tells congestion, the 99th of the time since the request's allocation how to scale.
//!
//! Lists are one a hardware queue and domain; a bio is merged with one of the last eight requests of
//! its list. Left out: the tokens' wake batches, jiffies.

use super::{Ask, Dir, Merge};
use crate::config::KyberConfig;
use crate::{HctxId, RequestId};
use std::collections::VecDeque;
use wordline_base::{IdVec, Span, Time};

/// The domain of reads.
pub const READ: usize = 0;
/// The domain of writes.
pub const WRITE: usize = 1;
/// The rest up to 4.19, discards from 4.20 on.
pub const OTHER: usize = 2;
/// Domains there are, each with tokens of its own.
pub const DOMAINS: usize = 3;
/// kyber_depth and kyber_batch_size: 4.12, and 4.20.
const CAPS: [[u32; DOMAINS]; 2] = [[256, 128, 64], [256, 128, 64]];
const BATCH: [[u32; DOMAINS]; 2] = [[16, 8, 8], [16, 8, 1]];
const FIRST_WINDOW: Span = Span::from_ms(10);
const WINDOW: Span = Span::from_ms(100);
/// bio merging looks at the newest of a list only (blk_mq_bio_list_merge).
const CHECKED: usize = 8;
/// KYBER_LATENCY_BUCKETS: the lower half is within the target.
const BUCKETS: usize = 8;
const GOOD_BUCKETS: usize = BUCKETS / 2;
const LATENCY_SHIFT: u32 = 2;
/// A percentile needs so many samples, or a second.
const SAMPLES: u64 = 500;
const PATIENCE: Span = Span::from_secs(1);
/// kyber_init_queue_data of 4.20.
const DISCARD_TARGET: Span = Span::from_secs(5);

/// How a domain's latencies are to its target (kyber's enum of the same names).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Status {
    /// Twice the target, or more.
    Awful = -2,
    /// Above the target.
    Bad = -1,
    /// Too few requests to say.
    None = 0,
    /// Within the target, but above half of it.
    Good = 1,
    /// Half the target, or less.
    Great = 2,
}

impl Status {
    /// kyber_lat_status.
    pub fn of(mean: Option<u64>, target: u64) -> Status {
        match mean {
            None => Status::None,
            Some(mean) if mean >= 2 * target => Status::Awful,
            Some(mean) if mean > target => Status::Bad,
            Some(mean) if mean <= target / 2 => Status::Great,
            Some(_) => Status::Good,
        }
    }
    fn good(self) -> bool {
        self > Status::None
    }
    fn bad(self) -> bool {
        self < Status::None
    }
}

/// kyber_adjust_rw_depth.
pub fn adjust(depth: u32, cap: u32, this: Status, other: Status) -> u32 {
    use Status::{Awful, Bad, Good, Great};
    let alike = this.good() && other.good() || this.bad() && other.bad();
    if this == Status::None || alike {
        return depth;
    }
    let changed = match (this, other) {
        (_, Status::None) => depth + 1,
        (Good, Awful) => depth - (depth / 4).max(1),
        (Good, _) => depth - (depth / 8).max(1),
        (Great, Awful) => depth / 2,
        (Great, _) => depth - (depth / 4).max(1),
        (Awful, Great) => depth + 2,
        (Bad | Awful | Status::None, _) => depth + 1,
    };
    changed.clamp(1, cap)
}

/// kyber_adjust_other_depth.
pub fn adjust_other(depth: u32, cap: u32, read: Status, write: Status, samples: bool) -> u32 {
    let status = match (read, write) {
        (Status::None, Status::None) => return (depth + 2).min(cap),
        _ if !samples => return depth,
        (Status::None, one) | (one, Status::None) => one,
        (a, b) => a.max(b),
    };
    let changed = match status {
        Status::Great => depth + 2,
        Status::Good => depth + 1,
        Status::Bad => depth - (depth / 4).max(1),
        Status::Awful => depth / 2,
        Status::None => depth,
    };
    changed.clamp(1, cap)
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    domain: u8,
    token: bool,
    start: u64,
    end: u64,
    mergeable: bool,
    at: Time,
}

#[derive(Debug, Default)]
struct Hctx {
    lists: [VecDeque<u32>; DOMAINS],
    domain: usize,
    batching: u32,
}

/// Latencies by eighths of twice the target: since allocation, and at the drive.
#[derive(Clone, Copy, Debug, Default)]
struct Buckets {
    total: [u64; BUCKETS],
    io: [u64; BUCKETS],
    timeout: Option<Time>,
    p99: Option<usize>,
}

/// kyber, after Linux' kyber-iosched.
#[derive(Debug)]
pub struct Kyber {
    percentiles: bool,
    targets: [Span; DOMAINS],
    entries: IdVec<RequestId, Entry>,
    hctxs: IdVec<HctxId, Hctx>,
    /// Tokens of each domain.
    pub depths: [u32; DOMAINS],
    /// Tokens in use.
    pub used: [u32; DOMAINS],
    /// A window under way, and the sums of latencies in it.
    end: Option<Time>,
    sums: [(u64, u64); DOMAINS],
    /// The same by how they compare with the target, where percentiles are judged.
    buckets: [Buckets; DOMAINS],
    /// Requests that wait.
    waiting: usize,
    /// Windows judged.
    pub windows: u64,
    /// Times a domain's depth changed.
    pub resizes: u64,
}

impl Kyber {
    /// For so many hardware contexts.
    pub fn new(config: &KyberConfig, hctxs: usize) -> Kyber {
        let form = usize::from(config.percentiles);
        Kyber {
            percentiles: config.percentiles,
            targets: [config.read_lat, config.write_lat, DISCARD_TARGET],
            entries: IdVec::new(),
            hctxs: (0..hctxs).map(|_| Hctx::default()).collect(),
            depths: CAPS[form],
            used: [0; DOMAINS],
            end: None,
            sums: [(0, 0); DOMAINS],
            buckets: [Buckets::default(); DOMAINS],
            waiting: 0,
            windows: 0,
            resizes: 0,
        }
    }
    /// It holds no request.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }
    /// Requests that wait in it.
    pub fn len(&self) -> usize {
        self.waiting
    }
    fn cap(&self, domain: usize) -> u32 {
        CAPS[usize::from(self.percentiles)][domain]
    }

    /// rq_sched_domain, and kyber_sched_domain of 4.20, to which all writes are alike.
    fn domain(&self, ask: &Ask) -> usize {
        match (ask.data, ask.dir) {
            (true, Dir::Read) => READ,
            (true, Dir::Write) if ask.sync || self.percentiles => WRITE,
            _ => OTHER,
        }
    }
    /// kyber_insert_requests.
    pub fn insert(&mut self, ask: &Ask, now: Time) {
        let domain = self.domain(ask);
        let blank = Entry {
            domain: domain as u8,
            token: false,
            start: ask.start,
            end: ask.start + ask.bytes,
            mergeable: ask.mergeable,
            at: now,
        };
        if ask.rq as usize >= self.entries.len() {
            self.entries.resize(ask.rq as usize + 1, blank);
        }
        self.entries[ask.rq] = blank;
        self.hctxs[ask.hctx].lists[domain].push_back(ask.rq);
        self.waiting += 1;
    }

    /// kyber_bio_merge, or the software queue's of 4.14.
    pub fn find_merge(&self, ask: &Ask, max: u64) -> Option<Merge> {
        let Ask { start, bytes, .. } = *ask;
        let list = &self.hctxs[ask.hctx].lists[self.domain(ask)];
        list.iter().rev().take(CHECKED).find_map(|&rq| {
            let e = &self.entries[rq];
            if !e.mergeable || e.end - e.start + bytes > max {
                None
            } else if e.end == start {
                Some(Merge::Back(rq))
            } else if start + bytes == e.start {
                Some(Merge::Front(rq))
            } else {
                None
            }
        })
    }
    /// A bio of so many bytes was merged into a request of it.
    pub fn merged(&mut self, merge: Merge, bytes: u64) {
        match merge {
            Merge::Back(rq) => self.entries[rq].end += bytes,
            Merge::Front(rq) => self.entries[rq].start -= bytes,
        }
    }

    /// kyber_dispatch_request.
    pub fn dispatch(&mut self, h: u16, now: Time) -> Option<u32> {
        self.judge(now);
        let form = usize::from(self.percentiles);
        let hctx = &self.hctxs[h];
        if hctx.batching < BATCH[form][hctx.domain]
            && let Some(rq) = self.take(h)
        {
            return Some(rq);
        }
        self.hctxs[h].batching = 0;
        for _ in 0..DOMAINS {
            let hctx = &mut self.hctxs[h];
            hctx.domain = (hctx.domain + 1) % DOMAINS;
            if let Some(rq) = self.take(h) {
                return Some(rq);
            }
        }
        None
    }

    /// kyber_dispatch_cur_domain.
    fn take(&mut self, h: u16) -> Option<u32> {
        let hctx = &mut self.hctxs[h];
        let domain = hctx.domain;
        if self.used[domain] >= self.depths[domain] {
            return None;
        }
        let rq = hctx.lists[domain].pop_front()?;
        hctx.batching += 1;
        self.used[domain] += 1;
        self.entries[rq].token = true;
        self.waiting -= 1;
        Some(rq)
    }

    /// Requests that wait in a hardware context, by number.
    pub fn waiting(&self, h: u16) -> impl Iterator<Item = u32> + '_ {
        self.hctxs[h].lists.iter().flatten().copied()
    }
    /// It leaves without a token.
    pub fn take_out(&mut self, h: u16, rq: u32) {
        for list in &mut self.hctxs[h].lists {
            if let Some(at) = list.iter().position(|&other| other == rq) {
                list.remove(at);
                self.waiting -= 1;
            }
        }
    }

    /// Hardware queues with requests that a token would let go.
    pub fn waits(&self, h: u16) -> bool {
        let lists = &self.hctxs[h].lists;
        (0..DOMAINS).any(|d| !lists[d].is_empty() && self.used[d] < self.depths[d])
    }

    /// kyber_completed_request and kyber_finish_request.
    /// Tells whether a token came back.
    pub fn completed(&mut self, rq: u32, issued: Time, now: Time) -> bool {
        self.judge(now);
        let Some(&e) = self.entries.get(rq) else { return false };
        let domain = usize::from(e.domain);
        if std::mem::take(&mut self.entries[rq].token) {
            self.used[domain] -= 1;
        } else {
            return false;
        }
        let took = now.since(issued);
        if self.percentiles {
            let target = self.targets[domain].0;
            let b = &mut self.buckets[domain];
            b.total[bucket(now.since(e.at).0, target)] += 1;
            b.io[bucket(took.0, target)] += 1;
            self.end.get_or_insert(now + WINDOW);
            return true;
        }
        if self.end.is_some() {
            let sum = &mut self.sums[domain];
            *sum = (sum.0 + took.0, sum.1 + 1);
        } else if domain != OTHER && took > self.targets[domain] {
            self.end = Some(now + FIRST_WINDOW);
        }
        true
    }

    /// The windows that have ended (kyber_stat_timer_fn, kyber_timer_fn).
    fn judge(&mut self, now: Time) {
        while let Some(end) = self.end
            && end <= now
        {
            self.end = None;
            self.windows += 1;
            let before = self.depths;
            if self.percentiles {
                self.judge_percentiles(end);
            } else if self.judge_means() {
                self.end = Some(end + WINDOW);
            }
            self.resizes += u64::from(before != self.depths);
        }
    }

    /// Whether to go on.
    fn judge_means(&mut self) -> bool {
        let means = self.sums.map(|(sum, n)| sum.checked_div(n));
        self.sums = [(0, 0); DOMAINS];
        let read = Status::of(means[READ], self.targets[READ].0);
        let write = Status::of(means[WRITE], self.targets[WRITE].0);
        self.depths[READ] = adjust(self.depths[READ], self.cap(READ), read, write);
        self.depths[WRITE] = adjust(self.depths[WRITE], self.cap(WRITE), write, read);
        let (other, cap) = (self.depths[OTHER], self.cap(OTHER));
        self.depths[OTHER] = adjust_other(other, cap, read, write, means[OTHER].is_some());
        read.bad() || write.bad() || self.depths[OTHER] < cap
    }

    fn judge_percentiles(&mut self, now: Time) {
        let mut bad = false;
        for b in &mut self.buckets {
            let p90 = percentile(&mut b.io, &mut b.timeout, 90, now);
            bad |= p90.is_some_and(|p90| p90 >= GOOD_BUCKETS);
        }
        for domain in 0..DOMAINS {
            let b = &mut self.buckets[domain];
            let mut p99 = percentile(&mut b.total, &mut b.timeout, 99, now);
            if bad {
                p99 = p99.or(b.p99.take());
                b.p99 = None;
            } else if p99.is_some() {
                b.p99 = p99;
            }
            if let Some(p99) = p99
                && (bad || p99 >= GOOD_BUCKETS)
            {
                let depth = (self.depths[domain] * (p99 as u32 + 1)) >> LATENCY_SHIFT;
                self.depths[domain] = depth.clamp(1, self.cap(domain));
            }
        }
    }
}

/// add_latency_sample.
fn bucket(took: u64, target: u64) -> usize {
    let width = (target >> LATENCY_SHIFT).max(1);
    ((took.max(1) - 1) / width).min(BUCKETS as u64 - 1) as usize
}

/// calculate_percentile.
fn percentile(
    buckets: &mut [u64; BUCKETS],
    timeout: &mut Option<Time>,
    percent: u64,
    now: Time,
) -> Option<usize> {
    let samples: u64 = buckets.iter().sum();
    if samples == 0 {
        return None;
    }
    let late = *timeout.get_or_insert(now + PATIENCE);
    if samples < SAMPLES && late > now {
        return None;
    }
    *timeout = None;
    let mut left = (samples * percent).div_ceil(100);
    let mut found = BUCKETS - 1;
    for (i, &n) in buckets[..BUCKETS - 1].iter().enumerate() {
        if n >= left {
            found = i;
            break;
        }
        left -= n;
    }
    *buckets = [0; BUCKETS];
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::Status::{Awful, Bad, Good, Great};
    use super::*;
    const NONE: Status = Status::None;

    #[test]
    fn a_mean_has_a_status_by_its_target() {
        for (mean, status) in [
            (None, NONE),
            (Some(0), Great),
            (Some(1_000), Great),
            (Some(1_001), Good),
            (Some(2_000), Good),
            (Some(2_001), Bad),
            (Some(3_999), Bad),
            (Some(4_000), Awful),
        ] {
            assert_eq!(Status::of(mean, 2_000), status, "{mean:?}");
        }
    }

    /// kyber_adjust_rw_depth, each pair of statuses, from 64 of 256.
    #[test]
    fn depths_of_reads_and_writes_follow_the_table() {
        let all = [NONE, Good, Great, Bad, Awful];
        // Rows: this; columns: the other, in the order of `all`.
        let table = [
            (NONE, [64, 64, 64, 64, 64]),
            (Good, [65, 64, 64, 56, 48]),
            (Great, [65, 64, 64, 48, 32]),
            (Bad, [65, 65, 65, 64, 64]),
            (Awful, [65, 65, 66, 64, 64]),
        ];
        for (this, row) in table {
            for (other, want) in all.into_iter().zip(row) {
                assert_eq!(adjust(64, 256, this, other), want, "{this:?} beside {other:?}");
            }
        }
        // At least one step, within 1 and the cap.
        assert_eq!(adjust(3, 256, Good, Bad), 2);
        assert_eq!(adjust(1, 256, Great, Awful), 1);
        assert_eq!(adjust(1, 256, Good, Bad), 1);
        assert_eq!(adjust(256, 256, Awful, Great), 256);
    }

    #[test]
    fn depth_of_the_rest_follows_the_better_of_the_two() {
        for (read, write, samples, want) in [
            (NONE, NONE, false, 34),
            (NONE, NONE, true, 34),
            (Great, NONE, false, 32),
            (Great, NONE, true, 34),
            (NONE, Good, true, 33),
            (Bad, Good, true, 33),
            (Bad, NONE, true, 24),
            (Bad, Awful, true, 24),
            (Awful, Awful, true, 16),
            (Awful, Great, true, 34),
        ] {
            assert_eq!(adjust_other(32, 64, read, write, samples), want, "{read:?} {write:?}");
        }
        assert_eq!(adjust_other(64, 64, NONE, NONE, false), 64);
        assert_eq!(adjust_other(1, 64, Awful, Awful, true), 1);
    }

    fn ask(rq: u32, hctx: u16, dir: Dir) -> Ask {
        let start = u64::from(rq) * 100_000;
        let (bytes, mergeable, data, sync) = (4096, true, true, true);
        Ask { rq, hctx, thread: 0, dir, start, bytes, mergeable, data, sync }
    }
    fn config(percentiles: bool) -> KyberConfig {
        KyberConfig { percentiles, ..KyberConfig::default() }
    }

    #[test]
    fn writes_that_nobody_waits_for_are_the_rest_up_to_4_19() {
        for (percentiles, background) in [(false, OTHER), (true, WRITE)] {
            let k = Kyber::new(&config(percentiles), 1);
            let of = |sync, data| k.domain(&Ask { sync, data, ..ask(0, 0, Dir::Write) });
            assert_eq!(
                (of(true, true), of(false, true), of(false, false)),
                (WRITE, background, OTHER)
            );
        }
    }

    #[test]
    fn batches_go_round_the_domains() {
        let mut k = Kyber::new(&config(false), 1);
        for rq in 0..20 {
            k.insert(&ask(rq, 0, Dir::Read), Time(0));
        }
        for rq in 20..40 {
            k.insert(&ask(rq, 0, Dir::Write), Time(0));
        }
        let order: Vec<u32> = std::iter::from_fn(|| k.dispatch(0, Time(0))).collect();
        // 16 reads, 8 writes, the 4 reads left, then writes.
        let want: Vec<u32> = (0..16).chain(20..28).chain(16..20).chain(28..40).collect();
        assert_eq!(order, want);
    }

    #[test]
    fn tokens_hold_requests_back_until_others_complete() {
        let mut k = Kyber::new(&config(false), 2);
        k.depths = [2, 1, 1];
        for rq in 0..5 {
            k.insert(&ask(rq, rq as u16 % 2, Dir::Read), Time(0));
        }
        assert_eq!([k.dispatch(0, Time(0)), k.dispatch(1, Time(0))], [Some(0), Some(1)]);
        assert_eq!([k.dispatch(0, Time(0)), k.dispatch(1, Time(0))], [None, None]);
        k.completed(0, Time(0), Time(5));
        assert!(k.waits(0) && k.waits(1));
        assert_eq!(k.dispatch(1, Time(5)), Some(3));
        assert!(!k.waits(0));
        assert_eq!(k.len(), 2);
    }

    #[test]
    fn a_missed_target_begins_a_window_and_writes_give_way() {
        let mut k = Kyber::new(&config(false), 1);
        let ms = |n: u64| Time(n * 1_000_000);
        let mut rq = 0;
        let mut serve = |k: &mut Kyber, dir, at: Time, took: Span| {
            k.insert(&ask(rq, 0, dir), at);
            assert_eq!(k.dispatch(0, at), Some(rq));
            k.completed(rq, at, at + took);
            rq += 1;
        };
        serve(&mut k, Dir::Read, ms(0), Span::from_ms(1));
        assert_eq!(k.end, None, "within the target nothing is watched");
        serve(&mut k, Dir::Read, ms(10), Span::from_ms(5));
        assert_eq!(k.end, Some(ms(25)));
        serve(&mut k, Dir::Read, ms(16), Span::from_ms(3));
        serve(&mut k, Dir::Write, ms(17), Span::from_ms(1));
        // Reads bad, writes great: reads have all tokens already, writes lose a quarter.
        serve(&mut k, Dir::Read, ms(26), Span::from_ms(1));
        assert_eq!(k.depths, [256, 96, 64]);
        assert_eq!(k.end, Some(ms(125)), "something was wrong: watched for 100 ms more");
        k.judge(ms(500));
        assert_eq!((k.end, k.depths), (None, [256, 96, 64]), "reads great alone: left alone");
        assert_eq!(k.windows, 2);
    }

    #[test]
    fn percentiles_scale_depths_by_the_target() {
        let mut k = Kyber::new(&config(true), 1);
        let mut now = Time(0);
        for rq in 0..1_000 {
            let dir = if rq % 2 == 0 { Dir::Read } else { Dir::Write };
            k.insert(&ask(rq, 0, dir), now);
            k.dispatch(0, now).unwrap();
            // Reads take 1.6 of their target at the drive, writes a fifth of theirs.
            let took = if rq % 2 == 0 { Span(3_200_000) } else { Span(2_000_000) };
            k.completed(rq, now, now + took);
            now += Span(10_000);
        }
        k.judge(Time(2_000_000_000));
        // p99 of reads in bucket 6: 256 x 7 / 4, at most the cap; of writes in bucket 0: 128 x 1 / 4.
        assert_eq!(k.depths[..2], [256, 32]);
    }

    #[test]
    fn merges_with_one_of_the_last_eight() {
        let mut k = Kyber::new(&config(false), 1);
        for rq in 0..9 {
            k.insert(&ask(rq, 0, Dir::Read), Time(0));
        }
        let find = |k: &Kyber, start| k.find_merge(&Ask { start, ..ask(0, 0, Dir::Read) }, 1 << 20);
        assert_eq!(find(&k, 4096), None, "the ninth from the end");
        assert_eq!(find(&k, 100_000 + 4096), Some(Merge::Back(1)));
        assert_eq!(find(&k, 200_000 - 4096), Some(Merge::Front(2)));
        k.merged(Merge::Front(2), 4096);
        assert_eq!(find(&k, 200_000 - 8192), Some(Merge::Front(2)));
        let write = Ask { start: 104_096, ..ask(0, 0, Dir::Write) };
        assert_eq!(k.find_merge(&write, 1 << 20), None);
    }
}
