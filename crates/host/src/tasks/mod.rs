//! Tasks and cores: threads and what they wait for, processor time in segments, CFS, interrupts, ticks and
//! idle states.

pub(crate) mod background;
pub(crate) mod core;
mod cores;
pub mod idle;
mod run;
pub(crate) mod thread;
mod turns;

use crate::config::StackConfig;
use wordline_base::Span;

/// How a host's cores share their time among threads.
pub(crate) struct Cfs {
    /// Between two scheduler ticks; zero: none.
    tick: Span,
    /// Each core has a hardware queue of its own of every disk, and nothing else couples cores.
    private_queues: bool,
}

impl Cfs {
    pub fn new(stack: &StackConfig, private_queues: bool) -> Cfs {
        Cfs {
            tick: match stack.tick_hz {
                0 => Span::ZERO,
                hz => Span(Span::from_secs(1).0 / u64::from(hz)),
            },
            private_queues: private_queues && !stack.migrate,
        }
    }
    /// Threads of one core wait for what another core does.
    pub fn couple_cores(&mut self) {
        self.private_queues = false;
    }
    /// Each core has its own hardware queues, and waits for nothing that another core does.
    #[inline]
    pub fn has_private_queues(&self) -> bool {
        self.private_queues
    }
}
