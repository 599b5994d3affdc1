//! A submission call: which I/Os it takes up, where it is, and what its plug holds. Engines begin one, the block
//! layer goes through it.

use crate::block::{BIO_BYTES, NO_TAG, NONE, PLUG_REQUESTS};
use crate::tasks::thread::Step;
use wordline_nvme::Opcode;

/// What a call has a plug for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plug {
    /// It has none.
    None,
    /// Each of its I/Os has one of its own.
    EachIo,
    /// All of them have one.
    Call,
}

/// A submission call under way.
#[derive(Debug)]
pub(crate) struct Call {
    /// It takes up all that the thread has queued.
    pub(super) aio: bool,
    /// The I/O of a synchronous call.
    pub(super) single: u32,
    /// I/Os taken up so far.
    pub(super) index: usize,
    /// The current I/O.
    pub(super) node: u32,
    /// Its length, kept as another thread may reap it once its last part is out.
    pub(super) len: u64,
    /// How much of it has become parts.
    pub(super) at: u64,
    /// The current part.
    pub(super) part: u32,
    /// It becomes several parts.
    pub(super) divided: bool,
    /// What its requests do.
    pub(super) opcode: Opcode,
    /// There is a plug (current->plug).
    pub(super) plugged: bool,
    /// It is of one I/O: it is sent on before the next.
    pub(super) plugs_each: bool,
    /// Requests in it.
    pub(super) plug: Vec<u32>,
    /// The plug is being sent on.
    pub(super) flushing: bool,
    /// What follows when the plug is empty.
    pub(super) resume: Step,
    /// What follows when the hardware queue was run.
    pub(super) after_run: Step,
    /// What follows when the call has returned.
    pub(super) after: Step,
    /// Where the end of the current I/O leads: a bio of an array's goes on to the next.
    pub(super) over: Step,
    /// The I/Os have not begun yet.
    pub(super) fresh: bool,
    /// The current part passes by merges and queues.
    pub(super) bypass: bool,
    /// Another request went before the current part.
    pub(super) ordered: bool,
    /// Nanoseconds of the current part's work in the scheduler.
    pub(super) in_scheduler: u64,
    /// The device is flushed when the I/O of a synchronous call is over (generic_write_sync).
    syncs: bool,
    /// A tag handed over while the thread slept.
    granted: u16,
    /// The request made last when it was let pass.
    #[cfg(debug_assertions)]
    pub(super) entered: u64,
}

/// An I/O of an array that is being submitted, while its parts are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outer {
    node: u32,
    len: u64,
    at: u64,
    part: u32,
    divided: bool,
    opcode: Opcode,
    over: Step,
}

impl Call {
    /// No call is under way.
    pub fn new() -> Call {
        Call {
            aio: false,
            single: NONE,
            index: 0,
            node: NONE,
            len: 0,
            at: 0,
            part: NONE,
            divided: false,
            opcode: Opcode::Read,
            plugged: false,
            plugs_each: false,
            plug: Vec::with_capacity(PLUG_REQUESTS),
            flushing: false,
            resume: Step::NextIo,
            after_run: Step::NextIo,
            after: Step::Top,
            over: Step::NextIo,
            fresh: false,
            bypass: false,
            ordered: false,
            in_scheduler: 0,
            syncs: false,
            granted: NO_TAG,
            #[cfg(debug_assertions)]
            entered: 0,
        }
    }

    /// A synchronous call of one I/O, and of a flush behind it if it `syncs`.
    pub fn begin_one(&mut self, node: u32, len: u32, syncs: bool, after: Step) {
        (self.aio, self.single, self.index, self.after) = (false, node, 0, after);
        self.syncs = syncs;
        self.plugged = u64::from(len) > BIO_BYTES;
        self.fresh = true;
    }
    /// A call of all that the thread has queued.
    pub fn begin_batch(&mut self, plug: Plug, after: Step) {
        (self.aio, self.single, self.index, self.after) = (true, NONE, 0, after);
        (self.plugged, self.plugs_each) = (plug != Plug::None, plug == Plug::EachIo);
        self.fresh = true;
    }
    /// The same by io_uring's submission thread: its I/Os have begun.
    pub fn begin_ring(&mut self, plug: Plug) {
        self.begin_batch(plug, Step::SqLoop);
        self.fresh = false;
    }
    /// An I/O that no call is made for.
    pub fn begin_null(&mut self, node: u32) {
        (self.single, self.fresh) = (node, false);
    }
    /// A submission of one I/O in user mode, or a call on a file: it begins when the work at hand is done.
    pub fn begin_elsewhere(&mut self, node: u32) {
        (self.aio, self.single, self.fresh) = (false, node, true);
    }
    /// What is queued begins; another thread submits it.
    pub fn begin_hand_over(&mut self, after: Step) {
        (self.aio, self.fresh, self.after) = (true, true, after);
    }
    /// A bio of the file system in place of an I/O, without a plug if it is one.
    pub fn begin_bio(&mut self, node: u32, opcode: Opcode, divided: bool, len: u64) {
        (self.aio, self.single, self.index, self.fresh) = (false, node, 1, false);
        (self.node, self.part, self.at) = (node, node, 0);
        (self.opcode, self.divided, self.len) = (opcode, divided, len);
        self.plugged = len > BIO_BYTES;
    }
    /// A bio that another thread made.
    pub fn begin_taken(&mut self, node: u32, opcode: Opcode, after: Step) {
        self.begin_bio(node, opcode, false, 0);
        (self.single, self.after) = (NONE, after);
    }

    /// In place of the current I/O go its parts on the members of an array, by `next`, one after the other:
    /// what to go on with after the last.
    pub fn descend(&mut self, next: Step) -> Outer {
        let Call { node, len, at, part, divided, opcode, .. } = *self;
        let over = std::mem::replace(&mut self.over, next);
        Outer { node, len, at, part, divided, opcode, over }
    }
    /// One of these parts.
    pub fn begin_member(&mut self, node: u32, opcode: Opcode, divided: bool, len: u64) {
        (self.node, self.part, self.at) = (node, node, 0);
        (self.opcode, self.divided, self.len) = (opcode, divided, len);
    }
    /// All are on their way.
    pub fn ascend(&mut self, outer: Outer) {
        let Outer { node, len, at, part, divided, opcode, over } = outer;
        (self.node, self.part, self.at, self.over) = (node, part, at, over);
        (self.opcode, self.divided, self.len) = (opcode, divided, len);
    }
    /// A bio of an array's thread; then `over`.
    pub fn begin_stripe(&mut self, node: u32, opcode: Opcode, divided: bool, len: u64, over: Step) {
        (self.aio, self.single, self.index, self.fresh) = (false, NONE, 1, false);
        self.begin_member(node, opcode, divided, len);
        (self.plugged, self.over) = (true, over);
    }
    /// Its I/O is over: whether a flush is to follow.
    pub fn is_to_sync(&mut self) -> bool {
        std::mem::take(&mut self.syncs)
    }
    /// This flush follows.
    pub fn begin_flush(&mut self, node: u32) {
        (self.node, self.part, self.opcode) = (node, node, Opcode::Flush);
    }
    /// The current I/O is a flush.
    pub fn is_flush(&self) -> bool {
        self.opcode == Opcode::Flush
    }
    /// Where the end of the current I/O leads.
    pub fn over(&self) -> Step {
        self.over
    }
    /// The current I/O is for a member of an array.
    #[inline]
    pub fn is_member(&self) -> bool {
        self.over != Step::NextIo
    }
    /// The plug is sent on, and then the step.
    pub fn unplugs_before(&mut self, step: Step) -> bool {
        self.resume = step;
        !self.plug.is_empty()
    }

    /// It takes up all that the thread has queued.
    pub fn is_batch(&self) -> bool {
        self.aio
    }
    /// The I/O of a synchronous call.
    pub fn single(&self) -> u32 {
        self.single
    }
    /// The I/O that is being submitted, and the part of it.
    pub fn node(&self) -> u32 {
        self.node
    }
    /// Whether its bios do.
    pub fn reads(&self) -> bool {
        self.opcode == Opcode::Read
    }
    /// The current part.
    pub fn part(&self) -> u32 {
        self.part
    }
    /// A tag is handed to the thread, which sleeps for one or is about to go on.
    #[inline]
    pub fn grant(&mut self, tag: u16) {
        self.granted = tag;
    }
    /// A tag was handed to the thread.
    pub fn is_granted(&self) -> bool {
        self.granted != NO_TAG
    }
    /// The tag handed over, or `NO_TAG`.
    #[inline]
    pub fn take_granted(&mut self) -> u16 {
        std::mem::replace(&mut self.granted, NO_TAG)
    }
    /// What the thread does when the call has returned.
    pub fn after(&self) -> Step {
        self.after
    }
    /// Its I/Os begin now, if they have not.
    pub fn takes_off(&mut self) -> bool {
        std::mem::take(&mut self.fresh)
    }
    /// Whether the call on `node` has left the application; its processor time may still be owed.
    pub fn has_issued(&self, node: u32) -> bool {
        self.aio || !self.fresh || self.single != node
    }
}
