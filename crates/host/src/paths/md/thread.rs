//! raid5d: the thread of an array that handles stripes, and submits what members are to read and write.

use super::sync::WINDOW;
use crate::block::NONE;
use crate::function::spend;
use crate::host::Host;
use crate::source::Source;
use crate::tasks::thread::{Asleep, Flow, Step};
use wordline_base::{Ctx, Ddir, IoId, Layer, Why};
use wordline_md::{Added, Out, To, What};

/// Stripes that a thread handles before it submits their I/O (MAX_STRIPE_BATCH), and how many if they go on
/// row by row, so that what its plug would merge is merged.
const BATCH: u32 = 8;
const ROWS: u32 = 32;

impl<S: Source> Host<S> {
    /// There is something for the thread that handles stripes.
    pub(super) fn wake_md(&mut self, ctx: &mut Ctx, d: u16, on: Option<u32>) {
        let Some(p) = self.parity(d) else { return };
        let t = p.thread;
        if self.threads[t].asleep() == Asleep::Actions {
            self.wake(ctx, t, on);
        }
    }
    /// There is something for the thread that rebuilds members.
    pub(super) fn wake_sync(&mut self, ctx: &mut Ctx, d: u16, on: Option<u32>) {
        let Some(p) = self.parity(d) else { return };
        let t = p.sync;
        if matches!(self.threads[t].asleep(), Asleep::Actions) {
            self.wake(ctx, t, on);
        }
    }

    /// raid5d: what was handled goes out, and the next stripe is handled.
    #[inline(never)]
    pub(crate) fn md_thread(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        if self.threads[t].pend.total() > 0 {
            return self.segment(ctx, t, Step::Md);
        }
        let Some(d) = self.threads[t].md.array else { return Flow::Off };
        let core = self.threads[t].core();
        if let Some(p) = self.parity(d)
            && p.current.take().is_some()
        {
            let (bios, summed) = (std::mem::take(&mut p.waiting), p.summed);
            let why = if summed { Why::Xor } else { Why::Work };
            for bio in bios {
                ctx.mark(self.block.nodes[bio].life, Layer::Block, why, core, ctx.now);
            }
        }
        self.md_drain(ctx, d, core);
        let Some(p) = self.parity(d) else { return Flow::Off };
        while let Some(page) = p.retries.front() {
            let Added::To(s) = p.raid.add(*page) else { break };
            p.retries.pop_front();
            p.raid.release(s);
        }
        if let Some(member) = p.lost
            && p.raid.is_quiet(member)
            && p.direct[member] == 0
        {
            p.lost = None;
            self.take_spare(ctx, d, member, core);
        }
        let Some(p) = self.parity(d) else { return Flow::Off };
        let next = if p.batch.is_empty() || p.handled < ROWS { p.raid.next_stripe() } else { None };
        if let Some(s) = next {
            let row = p.raid.row(s);
            let goes_on = p.handled < BATCH || row == p.row || row == p.row + 1;
            (p.handled, p.row) = (p.handled + 1, row);
            let mut waiting = Vec::new();
            p.raid.waiting(s, &mut waiting);
            let pass = p.raid.handle(s);
            (p.current, p.summed) = (Some(s), pass.summed > 0);
            p.handled += if goes_on { 0 } else { ROWS };
            let came_back = std::mem::take(&mut p.came_back);
            for &bio in &waiting {
                let life = self.block.nodes[bio].life;
                ctx.mark(life, Layer::Block, Why::StripeThread, core, ctx.now);
            }
            if let Some(p) = self.parity(d) {
                p.waiting = waiting;
            }
            let work = spend!(
                self,
                core,
                HandleStripe,
                XorBlocks * pass.summed,
                CopyData * pass.copied,
                Raid5End * came_back
            );
            self.threads[t].pend.block += work;
            self.threads[t].plan_nothing();
            if work == 0 {
                return Flow::Again;
            }
            return self.segment(ctx, t, Step::Md);
        }
        if !p.batch.is_empty() {
            // By member and place, as a plug of requests would be: neighbours merge.
            p.batch.make_contiguous().sort_by_key(|io| {
                let to = match io.to {
                    To::Member(m) => m,
                    To::Journal => NONE,
                };
                (to, io.what.reads(), io.what == What::Trim, io.offset)
            });
            p.handled = 0;
            return self.go(t, Step::MdIssue);
        }
        p.handled = 0;
        self.threads[t].set_step(Step::Md);
        self.sleep(ctx, t, Asleep::Actions)
    }

    /// What the array wants done.
    fn md_drain(&mut self, ctx: &mut Ctx, d: u16, core: u32) {
        while let Some(out) = self.parity(d).and_then(|p| p.raid.poll()) {
            let Some(p) = self.parity(d) else { return };
            match out {
                Out::Io(io) => p.batch.push_back(io),
                Out::Ended { bio, ok } => self.node_done(ctx, bio, ok, Some(core)),
                Out::Room => {
                    let all = std::mem::take(&mut p.sleepers);
                    let sync = p.sync;
                    for t in all.into_iter().filter(|&t| t != sync) {
                        self.wake(ctx, t, Some(core));
                    }
                    self.wake_sync(ctx, d, Some(core));
                }
                Out::Synced => {
                    p.rows_out -= 1;
                    if p.rows_out < WINDOW / 2 {
                        self.wake_sync(ctx, d, Some(core));
                    }
                }
                Out::Rebuilt { .. } => {}
                Out::Lost { member } => p.lost = Some(member),
            }
        }
    }

    fn take_spare(&mut self, ctx: &mut Ctx, d: u16, member: u32, core: u32) {
        let Some(array) = self.array(d) else { return };
        let Some(spare) = array.spare.take() else { return };
        array.members[member] = spare;
        array.busy[member] = false;
        let holds = array.config.gc.has_token() && array.holder != member;
        if let Some(p) = &mut array.parity {
            p.raid.replace(member);
            (p.since, p.rows_begun) = (ctx.now, 0);
        }
        if holds {
            self.hold_member(ctx, spare, true);
        }
        self.wake_sync(ctx, d, Some(core));
    }

    /// ops_run_io: the next I/O of the stripes that were handled.
    #[inline(never)]
    pub(crate) fn md_issue(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        if self.threads[t].is_planned() || self.threads[t].pend.total() > 0 {
            return self.segment(ctx, t, Step::MdIssue);
        }
        let Some(d) = self.threads[t].md.array else { return Flow::Off };
        let Some(array) = &mut self.block.disks[d].paths.array else { return Flow::Off };
        let Some(p) = &mut array.parity else { return Flow::Off };
        let next = p.batch.front().copied();
        let thread = &mut self.threads[t];
        let Some(io) = next else {
            if thread.call.unplugs_before(Step::MdIssue) {
                return self.go(t, Step::Plug);
            }
            return self.go(t, Step::Md);
        };
        let disk = match io.to {
            To::Member(m) => array.members[m],
            To::Journal => array.journal.unwrap_or(array.members[0]),
        };
        if disk != thread.disk() {
            if thread.call.unplugs_before(Step::MdIssue) {
                return self.go(t, Step::Plug);
            }
            self.turn_to_member(t, disk);
        }
        if let Some(p) = self.parity(d) {
            p.batch.pop_front();
        }
        let ddir = match io.what {
            What::Trim => Ddir::Trim,
            what if what.reads() => Ddir::Read,
            _ => Ddir::Write,
        };
        let node = self.new_node(t, ddir, (disk, io.offset), io.len);
        let n = &mut self.block.nodes[node];
        (n.bio, n.fua, n.issued, n.class) = (io.id, io.fua, ctx.now, io.class);
        let (opcode, divided) = self.shape_of(node);
        let thread = &mut self.threads[t];
        thread.call.begin_stripe(node, opcode, divided, io.len.into(), Step::MdIssue);
        thread.plan_after(node, Layer::Block, Why::Plugged);
        self.go(t, Step::Part)
    }

    /// An I/O of a stripe has come back (raid5_end_read_request, raid5_end_write_request).
    pub(crate) fn md_io_done(&mut self, ctx: &mut Ctx, d: u16, node: u32, on: Option<u32>) {
        let n = self.block.nodes[node];
        self.block.nodes.remove(node);
        let Some(p) = self.parity(d) else { return };
        p.came_back += 1;
        let (stripe, what) = (p.raid.stripe_of(n.bio), p.raid.what(n.bio));
        let mut bios = Vec::new();
        match stripe {
            Some(s) => p.raid.waiting(s, &mut bios),
            None => p.raid.at_bitmap(&mut bios),
        }
        p.raid.io_done(n.bio, n.ok);
        let Some(p) = self.parity(d) else { return };
        let last = stripe.is_none_or(|s| p.raid.is_back(s));
        if last && n.life != IoId::NONE {
            for &bio in &bios {
                let to = self.block.nodes[bio].life;
                let end = ctx.lives.get(n.life).end;
                match what {
                    What::Log => ctx.mark(to, Layer::Block, Why::Journal, 0, end),
                    What::Bitmap => ctx.mark(to, Layer::Block, Why::Bitmap, 0, end),
                    _ => ctx.lives.share(n.life, to, |why| match (what, why) {
                        (What::Preread, Why::Read) => Why::ParityRead,
                        (_, why) => why,
                    }),
                }
            }
        }
        if n.life != IoId::NONE {
            ctx.lives.release(n.life);
        }
        self.wake_md(ctx, d, on);
    }
}
