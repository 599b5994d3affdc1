//! What is looked at as time goes on: rows of intervals, and whether the run is steady.

use super::{SERIES_ROWS, ThreadId, World};
use crate::interval::Flash;
use crate::result::CAUSES;
use crate::seat::Totals;
use crate::steady;
use std::collections::BTreeMap;
use wordline_base::{Kind, Time};
use wordline_ftl::Translation;
use wordline_nand::Class;

impl World {
    pub(super) fn series_now(&self, now: Time) -> Totals {
        let mut sum = Totals::default();
        for (d, drive) in self.drives.iter().enumerate() {
            let one = drive.totals(self.ftl_of(d), now);
            sum.iter_mut().zip(one).for_each(|(sum, n)| *sum += n);
        }
        for seat in &self.bridges {
            let energy = seat.bridge.energy_by_state(now);
            sum[CAUSES..].iter_mut().zip(energy).for_each(|(sum, nj)| *sum += nj);
        }
        sum
    }

    /// What each of several drives has written by now, for its own course.
    pub(super) fn note_courses(&mut self, now: Time) {
        if self.drives.len() < 2 {
            return;
        }
        for d in 0..self.drives.len() {
            let totals = self.drives[d].totals(self.ftl_of(d), now);
            self.drives[d].course.push(std::array::from_fn(|i| totals[i]));
        }
    }

    pub(super) fn add_row(&mut self, now: Time) {
        self.note_courses(now);
        let (new, last) = (self.series_now(now), self.series_last);
        // Firmware is booked ahead: an interval's part of it is known when it is over.
        self.series.push((now.0, std::array::from_fn(|i| new[i].saturating_sub(last[i]))));
        self.series_last = new;
    }

    pub(super) fn sample(&mut self) {
        self.add_row(self.ctx.now);
        self.sample_host();
        self.sample_interval();
        if self.series.len() == SERIES_ROWS {
            self.intervals.halve();
            for drive in &mut self.drives {
                // The first is the beginning, and each other one the end of a row.
                drive.course = drive.course.iter().step_by(2).copied().collect();
            }
            self.host_series =
                self.host_series.chunks(2).map(|pair| pair[0].with(&pair[1])).collect();
            self.series = self
                .series
                .chunks(2)
                .map(|pair| (pair[1].0, std::array::from_fn(|i| pair[0].1[i] + pair[1].1[i])))
                .collect();
            self.series_interval = self.series_interval * 2;
        }
        let next = self.ctx.now + self.series_interval;
        self.look_again(next, Kind::Sample);
    }

    pub(super) fn sample_host(&mut self) {
        let host = self.host_stats(self.ctx.now);
        self.host_series.push(self.host_told.row(self.ctx.now.0, &host));
    }

    pub(super) fn sample_interval(&mut self) {
        let mut flash = Flash::default();
        let drives = (0..self.drives.len())
            .map(|d| (self.drives[d].controller.nand().counters(), self.ftl_of(d).free_lines()));
        for (d, (counters, lines)) in drives.enumerate() {
            flash.reads += counters.ops[Class::UserRead] + counters.ops[Class::RebuildRead];
            flash.waited += counters.reads_waited;
            let blocked = counters.reads_blocked_by.into_iter();
            let blocked = blocked.chain([counters.reads_blocked_by_transfer]);
            flash.blocked.iter_mut().zip(blocked).for_each(|(sum, n)| *sum += n);
            flash.free_lines = match (flash.free_lines, lines) {
                _ if d == 0 => lines,
                (Some(sum), Some(own)) => Some((sum.0 + own.0, sum.1 + own.1, sum.2 + own.2)),
                _ => None,
            };
        }
        let searches = self.searched.values().chain(&self.searches_over);
        let all: Vec<_> = std::iter::once(&self.kept).chain(searches).map(|k| &k.layers).collect();
        self.intervals.add(self.ctx.now.0, &all, flash);
    }

    /// Alone these events would keep a machine going that has come to a halt.
    pub(super) fn look_again(&mut self, at: Time, kind: Kind) {
        let others = usize::from(self.steady.iter().any(Option::is_some));
        if self.ctx.queue.len() > others {
            self.ctx.at(at, kind, 0);
        }
    }

    /// fio's steadystate_check: rates of each thread, or of its group with `group_reporting`, in
    /// which the last thread judges.
    pub(super) fn look_for_steady(&mut self) {
        let now = self.ctx.now;
        let mut sums: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for i in 0..self.threads.count() {
            let (stats, ended) = (&self.threads[i].result, self.ended[i]);
            let started = stats.started;
            let Some(steady) = &mut self.steady[i] else { continue };
            if ended || steady.attained() || now < started {
                continue;
            }
            let bytes = stats.dirs.iter().map(|d| d.io_bytes).sum();
            let ios = stats.dirs.iter().map(|d| d.total_ios).sum();
            let rate = steady.rate(now, started, bytes, ios);
            let (group, grouped) = (stats.group, stats.group_reporting);
            let sum = if grouped { sums.entry(group).or_default() } else { &mut (0, 0) };
            let (iops, bw) = rate.unwrap_or_default();
            *sum = (sum.0 + iops, sum.1 + bw);
            let of_group = |t: ThreadId| grouped && self.plans[t].group == group;
            let last = !(i + 1..self.threads.count()).any(|t| of_group(t) && !self.ended[t]);
            if rate.is_none() || grouped && !last || !steady.judge(sum.0, sum.1) {
                continue;
            }
            let settled = (0..self.threads.count()).filter(|&t| t == i || of_group(t));
            for t in settled.collect::<Vec<_>>() {
                if let Some(steady) = &mut self.steady[t] {
                    steady.set_attained();
                }
                self.stop_job(t);
            }
        }
        self.look_again(now + steady::INTERVAL, Kind::SteadyState);
    }
}
