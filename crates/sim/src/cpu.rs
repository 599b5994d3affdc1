//! fio's cpuio engine: a task that computes for `cpuchunks`, and then thinks for as long as makes its
//! share of a processor of its own `cpuload` percent. It has no I/O and no statistics of one.

use std::cell::Cell;
use std::rc::Rc;
use wordline_base::{Histogram, Span, Time};
use wordline_fio::Job;
use wordline_host::source::{Next, Source};

/// A job of fio's cpuio engine as the host sees it.
pub struct CpuSource {
    chunk: Span,
    think: Span,
    runtime: Span,
    ramp: Span,
    started: Option<Time>,
    /// When the stretch began that it computes.
    since: Option<Time>,
    /// How long each stretch took that ended after the ramp.
    chunks: Histogram,
    /// `exit_on_io_done`: it ends with the last job that does I/O.
    ends_with_io: bool,
    stop: Rc<Cell<bool>>,
}

impl CpuSource {
    /// From `cpuload`, `cpuchunks` and the times of a job.
    pub fn new(job: &Job) -> CpuSource {
        let load = u64::from(job.cpuload.clamp(1, 100));
        CpuSource {
            chunk: job.cpuchunks,
            // fio_cpuio_init, in whole microseconds.
            think: Span::from_us(job.cpuchunks.0 / 1_000 * (100 - load) / load),
            runtime: job.runtime
                + if job.runtime > Span::ZERO { job.ramp_time } else { Span::ZERO },
            ramp: job.ramp_time,
            started: None,
            since: None,
            chunks: Histogram::new(),
            ends_with_io: job.exit_on_io_done,
            stop: Rc::new(Cell::new(false)),
        }
    }
    /// It ends with the last job that does I/O (`exit_on_io_done`).
    pub fn ends_with_io(&self) -> bool {
        self.ends_with_io
    }
    /// How long each stretch took that it computed since the ramp.
    pub fn chunks(&self) -> &Histogram {
        &self.chunks
    }
    /// Set to end it before its runtime is over.
    pub fn stop_flag(&self) -> &Rc<Cell<bool>> {
        &self.stop
    }
}

impl Source for CpuSource {
    fn next(&mut self, now: Time) -> Next {
        let started = *self.started.get_or_insert(now);
        let computed = self.since.take();
        if let Some(since) = computed
            && now.since(started) >= self.ramp
        {
            self.chunks.add(now.since(since).0);
        }
        if self.stop.get() || self.runtime > Span::ZERO && now.since(started) >= self.runtime {
            return Next::Done;
        }
        if computed.is_none() || self.think == Span::ZERO {
            self.since = Some(now);
            Next::Spin { until: now + self.chunk }
        } else {
            Next::NotBefore { at: now + self.think, quiesce: true }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_chunks_and_thinking() {
        let mut job = Job::new("c", Default::default());
        (job.cpuload, job.cpuchunks, job.runtime) = (20, Span::from_us(100), Span::from_us(700));
        let mut source = CpuSource::new(&job);
        let at = |us: u64| Time(us * 1_000);
        assert_eq!(source.next(at(5)), Next::Spin { until: at(105) });
        assert_eq!(source.next(at(105)), Next::NotBefore { at: at(505), quiesce: true });
        assert_eq!(source.next(at(505)), Next::Spin { until: at(605) });
        assert_eq!(source.next(at(705)), Next::Done);
        job.cpuload = 100;
        let mut source = CpuSource::new(&job);
        assert_eq!(source.next(at(0)), Next::Spin { until: at(100) });
        assert_eq!(source.next(at(100)), Next::Spin { until: at(200) });
        source.stop_flag().set(true);
        assert_eq!(source.next(at(200)), Next::Done);
    }
}
