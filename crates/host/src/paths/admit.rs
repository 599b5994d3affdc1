//! Kyber in front of pblk (`stack.bio_scheduler`), for sensitivity: a bio-based device has no request
//! queue, so Linux has no scheduler there.
//!
//! - A bio takes a token of its domain before it enters pblk and gives it back when pblk ends it, a
//!   write's mostly from the buffer. Flushes pass by, as they do with a request queue.
//! - One that finds no token waits in kyber's lists, and its submitter goes on. A kernel thread takes
//!   it to pblk later, as blk-throttle's does with the bios it holds (blk_throtl_dispatch_work_fn).
//! - Nothing is merged: pblk takes bios one by one.

use crate::ThreadId;
use crate::block::NONE;
use crate::block::sched::{Ask, Dir, Kyber};
use crate::host::Host;
use crate::source::Source;
use crate::stats::BioStats;
use crate::tasks::thread::{Asleep, Flow, Step};
use std::collections::VecDeque;
use std::ops::Range;
use wordline_base::{Ctx, Ddir, IdVec, Layer, Time, Why};
use wordline_nvme::Opcode;

#[derive(Debug)]
pub(crate) struct Bios {
    kyber: Kyber,
    /// By node: when it got its token.
    issued: IdVec<u32, Time>,
    /// The kernel thread.
    thread: ThreadId,
    /// Bios that have a token and are still to enter pblk.
    ready: VecDeque<u32>,
    stats: BioStats,
}

impl Bios {
    pub fn new(kyber: Kyber, thread: u32) -> Bios {
        let (issued, ready) = (IdVec::new(), VecDeque::new());
        Bios { kyber, issued, thread, ready, stats: BioStats::default() }
    }
    /// For tests: reads that may be at pblk, and the tokens of each domain in use.
    #[cfg(test)]
    pub fn kyber(&self) -> &Kyber {
        &self.kyber
    }
    /// What bios have done so far.
    pub fn stats(&self) -> BioStats {
        let k = &self.kyber;
        BioStats { windows: k.windows, resizes: k.resizes, depths: k.depths, ..self.stats }
    }

    /// Gives tokens to bios that wait, those of hardware queue `first` before the others. Tells
    /// whether `own` is among them, which its submitter takes to pblk itself.
    fn dispatch(&mut self, first: u16, hctxs: Range<u16>, own: u32, now: Time) -> bool {
        let mut found = false;
        for h in (first..hctxs.end).chain(hctxs.start..first) {
            while let Some(node) = self.kyber.dispatch(h, now) {
                if node as usize >= self.issued.len() {
                    self.issued.resize(node as usize + 1, Time::ZERO);
                }
                self.issued[node] = now;
                self.stats.taken += 1;
                if node == own {
                    found = true;
                } else {
                    self.ready.push_back(node);
                }
            }
        }
        found
    }
}

impl<S: Source> Host<S> {
    /// A bio meets the scheduler, its own processor time behind it.
    pub(crate) fn admit(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &self.threads[t];
        let (part, hctx, core) = (thread.call.part(), thread.hctx(), thread.core());
        let node = self.block.nodes[part];
        let disk = &mut self.block.disks[node.disk];
        let hctxs = disk.hctxs();
        let Some(bios) = &mut disk.paths.bios else { return Flow::Again };
        let ask = Ask {
            rq: part,
            hctx,
            thread: node.thread,
            dir: if node.ddir == Ddir::Read { Dir::Read } else { Dir::Write },
            start: node.offset,
            bytes: u64::from(node.len),
            mergeable: false,
            data: node.ddir != Ddir::Trim,
            sync: !node.background,
        };
        bios.kyber.insert(&ask, ctx.now);
        let goes = bios.dispatch(hctx, hctxs, part, ctx.now);
        bios.stats.held += u64::from(!goes);
        self.wake_for_bios(ctx, node.disk, Some(core));
        if goes {
            self.threads[t].plan_after(part, Layer::Block, Why::Plugged);
            return self.pblk_bio(ctx, t, part);
        }
        self.go(t, Step::Part)
    }

    /// A node is complete. If it is a bio with a token, another may go.
    pub(crate) fn bio_ended(&mut self, ctx: &mut Ctx, node: u32, on: Option<u32>) {
        let d = self.block.nodes[node].disk;
        let disk = &mut self.block.disks[d];
        let hctxs = disk.hctxs();
        let Some(bios) = &mut disk.paths.bios else { return };
        let Some(&issued) = bios.issued.get(node) else { return };
        if !bios.kyber.completed(node, issued, ctx.now) {
            return;
        }
        bios.stats.returned += 1;
        bios.dispatch(hctxs.start, hctxs, NONE, ctx.now);
        self.wake_for_bios(ctx, d, on);
    }

    fn wake_for_bios(&mut self, ctx: &mut Ctx, disk: u16, on: Option<u32>) {
        let Some(bios) = &self.block.disks[disk].paths.bios else { return };
        let t = bios.thread;
        if !bios.ready.is_empty() && self.threads[t].asleep() == Asleep::Actions {
            self.wake(ctx, t, on);
        }
    }

    /// The kernel thread takes the next bio to pblk.
    pub(crate) fn next_bio(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let d = self.threads[t].disk();
        let Some(bios) = &mut self.block.disks[d].paths.bios else { return Flow::Off };
        let Some(node) = bios.ready.pop_front() else {
            return self.sleep(ctx, t, Asleep::Actions);
        };
        let opcode = match self.block.nodes[node].ddir {
            Ddir::Read => Opcode::Read,
            Ddir::Trim => Opcode::Deallocate,
            _ => Opcode::Write,
        };
        self.threads[t].begin_held(node, opcode);
        self.pblk_bio(ctx, t, node)
    }
}
