//! Completion entries of a hardware queue, between the drive and who takes them: a handler, or threads that look.

use std::collections::VecDeque;
use wordline_nvme::Cqe;

/// Where the interrupt handler is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Handler {
    Off,
    /// Behind another interrupt of the core.
    Queued,
    Running,
}

/// The entries of a completion queue, and who takes them.
#[derive(Debug)]
pub(crate) struct Completions {
    /// Visible and not reaped.
    visible: VecDeque<Cqe>,
    handler: Handler,
    /// The handler's message came while the core had interrupts off: its way is over.
    late: bool,
    /// The queue was created with interrupts.
    interrupts: bool,
    /// Threads that look at it.
    pollers: Vec<u32>,
}

impl Completions {
    /// None is visible, and nobody looks.
    pub fn new(interrupts: bool) -> Completions {
        Completions {
            visible: VecDeque::with_capacity(64),
            handler: Handler::Off,
            late: false,
            interrupts,
            pollers: Vec::new(),
        }
    }
    /// The queue was created with interrupts.
    #[inline]
    pub fn interrupts(&self) -> bool {
        self.interrupts
    }
    /// An entry becomes visible. Whether the handler, which is running, takes it up as well (nvme_process_cq).
    #[inline]
    pub fn post(&mut self, cqe: Cqe) -> bool {
        self.visible.push_back(cqe);
        self.handler == Handler::Running
    }
    /// The message of an interrupt is there. Whether a handler is to be started for it.
    #[inline]
    pub fn interrupt(&mut self) -> bool {
        let starts = self.handler == Handler::Off;
        if starts {
            self.handler = Handler::Queued;
        }
        starts
    }
    /// The handler runs. Whether its message was late.
    #[inline]
    pub fn begin_handler(&mut self) -> bool {
        self.handler = Handler::Running;
        std::mem::take(&mut self.late)
    }
    /// The handler is over; it takes what is visible.
    #[inline]
    pub fn end_handler(&mut self) {
        self.handler = Handler::Off;
    }
    /// The next entry is reaped.
    #[inline]
    pub fn take(&mut self) -> Option<Cqe> {
        self.visible.pop_front()
    }
    /// A look takes all of them.
    pub fn take_all(&mut self, to: &mut Vec<Cqe>) {
        to.extend(self.visible.drain(..));
    }
    #[inline]
    pub fn visible(&self) -> &VecDeque<Cqe> {
        &self.visible
    }
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.visible.is_empty()
    }
    /// A message comes while interrupts are off.
    pub fn set_late(&mut self, late: bool) {
        self.late |= late;
    }
    /// A thread begins to look. Whether its first look finds something.
    pub fn begin_looking(&mut self, thread: u32) -> bool {
        self.pollers.push(thread);
        !self.visible.is_empty() && self.handler != Handler::Running
    }
    /// A thread looks no more.
    pub fn end_looking(&mut self, thread: u32) {
        self.pollers.retain(|&p| p != thread);
    }
    /// Threads that look at it.
    #[inline]
    pub fn pollers(&self) -> &[u32] {
        &self.pollers
    }
}
