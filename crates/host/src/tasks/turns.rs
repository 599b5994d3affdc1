//! Threads that look for completions and share their cores: what that cost them.
//!
//! A thread that looks never sleeps, so CFS has nothing to give it credit for. Two of them on a core have it in turn,
//! each for its whole slice. What one is to find, or to submit, waits for that turn.

use crate::CoreId;
use crate::block::NONE;
use crate::config::Engine;
use crate::host::Host;
use crate::source::Source;
use crate::tasks::thread::{Asleep, Thread};
use wordline_base::Time;

/// By this share of the time that it had work a thread waits for its core before that is told.
const TOLD: f64 = 0.1;

impl<S: Source> Thread<S> {
    /// How long it was ready and had no core.
    fn waited(&self, now: Time) -> u64 {
        // One that lost its core, and does not have it again yet.
        let since = if self.preempted { now.since(self.ready_since).0 } else { 0 };
        self.ready_ns + since
    }
    /// The same as a share of the time that it ran or was ready.
    fn waiting(&self, now: Time) -> f64 {
        let waited = self.waited(now);
        waited as f64 / (waited + self.stats.user + self.stats.system).max(1) as f64
    }
    /// Much of the time that it had work, and a thousandth of all.
    pub(crate) fn waits_for_core(&self, now: Time) -> bool {
        self.waiting(now) > TOLD && self.waited(now) > now.0 / 1000
    }
    /// It looks for what is to come and does not sleep.
    fn looks(&self) -> bool {
        let ring = self.engine.is_submitter() || self.engine.submitter() != NONE;
        ring || self.spec().engine == Engine::Spdk
            || self.driver.polls()
            || self.driver.yields() > 0
    }
}

impl<S: Source> Host<S> {
    /// Threads that had to stop looking for others of their core, and waited for it much of their time.
    pub fn looks_in_turns(&self, now: Time) -> Option<String> {
        let lost = self.threads.iter().filter(|t| t.driver.yields() > 0);
        let worst = lost.max_by(|a, b| a.waiting(now).total_cmp(&b.waiting(now)))?;
        let share = worst.waiting(now);
        if share <= TOLD {
            return None;
        }
        let core = worst.core();
        let here = |t: &&Thread<S>| t.core() == core && t.asleep() != Asleep::Start;
        let together = self.threads.iter().filter(here).filter(|t| t.looks()).count();
        Some(match together {
            0 | 1 => self.looks_beside_others(worst, share),
            _ => self.looks_beside_lookers(core, together, share),
        })
    }

    /// The job that a thread works for.
    fn job_of<'a>(&'a self, t: &'a Thread<S>) -> &'a Thread<S> {
        if t.engine.is_submitter() { &self.threads[t.engine.owner()] } else { t }
    }

    fn looks_beside_others(&self, t: &Thread<S>, share: f64) -> String {
        let core = t.core();
        let others = |o: &&Thread<S>| o.core() == core && o.is_job() && !std::ptr::eq(*o, t);
        let others = match self.threads.iter().filter(others).count() {
            0 => "a thread of the kernel runs, too".into(),
            1 => "another job runs, too".into(),
            n => format!("{n} other jobs run, too"),
        };
        let name = &self.job_of(t).spec().name;
        let looks = |how: &str| format!("job '{name}' looks for its completions{how}");
        let own = "cpus_allowed gives it a core of its own";
        let (who, remedy) = if t.engine.is_submitter() {
            (
                format!("the kernel's thread that submits for the ring of job '{name}' looks for work"),
                "sqthread_poll_cpu gives it a core of its own, a ring without sqthread_poll has no such thread".into(),
            )
        } else if t.driver.selects() {
            let asleep = "flashshare.select_isr=false (--system kernelopt) lets it sleep";
            (looks(" by Select-ISR"), format!("{own}, {asleep}"))
        } else if t.spec().engine == Engine::Spdk {
            // SPDK has no interrupts to wait for.
            (looks(" with SPDK"), format!("{own}, and with an engine of the kernel's it sleeps"))
        } else {
            (looks(""), format!("{own}, completions by interrupt let it sleep"))
        };
        format!(
            "{who} on core {core}, where {others}: it had to leave the core {} times while it looked, and for {:.0}% of \
             the time that it could have run it waited for the core. A thread that looks uses up its share of its core \
             and waits like any other, while one that sleeps comes first when it wakes. {remedy}",
            t.driver.yields(),
            100.0 * share
        )
    }

    fn looks_beside_lookers(&self, core: CoreId, together: usize, share: f64) -> String {
        let looking: Vec<&Thread<S>> = self.threads.iter().filter(|t| t.looks()).collect();
        let (all, cores) = (looking.len(), self.stack.cores as usize);
        let submitters = looking.iter().filter(|t| t.engine.is_submitter()).count();
        let (of_rings, by_ring) = match submitters {
            0 => (String::new(), ""),
            n => (
                format!(", {n} of them the kernel's that submit for rings (sqthread_poll),"),
                " or to submit",
            ),
        };
        let slice = self.slice_end(Time::ZERO, together - 1).0 as f64 / 1e6;
        let spdk = looking.iter().any(|t| t.spec().engine == Engine::Spdk);
        let sleeping = match (submitters > 0, spdk) {
            (true, _) => ", or rings without sqthread_poll",
            (_, true) => ", or an engine of the kernel's, which sleeps",
            _ => ", or completions by interrupt",
        };
        let remedy = match (all > cores, submitters > 0) {
            (true, _) => {
                format!("Fewer jobs, more cores (--set stack.cores={all}){sleeping} let each go on")
            }
            (false, true) => {
                "cpus_allowed and sqthread_poll_cpu give each a core of its own".into()
            }
            (false, false) => "cpus_allowed gives each a core of its own".into(),
        };
        format!(
            "{all} threads look for completions or work and do not sleep{of_rings} on {cores} cores: the {together} of core \
             {core} had it in turn for up to {slice:.0} ms, and what one was to find{by_ring} waited for its turn. One \
             waited for its core {:.0}% of the time that it could have run. {remedy}",
            100.0 * share
        )
    }
}
