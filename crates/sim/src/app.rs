//! The threads of a program as sources of I/Os.

use std::cell::RefCell;
use std::rc::Rc;
use wordline_app::{App, Doing};
use wordline_base::{IoClass, Life, Time};
use wordline_host::source::{Next, Source};

/// All threads of one program share it.
pub type SharedApp = Rc<RefCell<App>>;

/// A thread of a program as the host sees it.
pub struct AppSource {
    app: SharedApp,
    thread: u32,
    /// The program is beside others, and ends with them.
    beside: bool,
    /// It computes until then, whoever asks.
    busy: Time,
    issued: u64,
}

impl AppSource {
    /// `beside`: the program ends with the jobs beside it.
    pub fn new(app: SharedApp, thread: u32, beside: bool) -> AppSource {
        AppSource { app, thread, beside, busy: Time::ZERO, issued: 0 }
    }
    /// The program ends with the jobs beside it.
    pub fn is_beside(&self) -> bool {
        self.beside
    }
    /// I/Os handed to the host.
    pub fn issued(&self) -> u64 {
        self.issued
    }
    /// The program that it is a thread of.
    pub fn app(&self) -> &SharedApp {
        &self.app
    }
}

impl Source for AppSource {
    fn next(&mut self, now: Time) -> Next {
        if now < self.busy {
            return Next::NotBefore { at: self.busy, quiesce: false };
        }
        match self.app.borrow_mut().next(self.thread, now) {
            Doing::Io { ddir, offset, len } => {
                self.issued += 1;
                Next::Io { ddir, offset, len, class: IoClass::NONE }
            }
            Doing::Compute(span) => {
                self.busy = now + span;
                Next::Compute { span }
            }
            Doing::Work(span) => {
                self.busy = now + span;
                Next::Spin { until: self.busy }
            }
            Doing::Until(at) => Next::NotBefore { at, quiesce: false },
            Doing::Asleep => Next::NotBefore { at: Time::NEVER, quiesce: false },
            Doing::Reap => Next::WhenReaped,
            Doing::Done => Next::Done,
        }
    }

    fn lived(&mut self, life: &Life) {
        self.app.borrow_mut().finished(self.thread, life.spent());
    }
}
