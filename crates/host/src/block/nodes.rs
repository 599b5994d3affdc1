//! I/Os and their parts: how they begin, and how they join when they end.
use crate::block::{NONE, Node, Request};
use crate::config::Engine;
use crate::host::Host;
use crate::paths::md::Array;
use crate::source::Source;
use crate::tasks::thread::{Asleep, Step};
use wordline_base::{Ctx, Ddir, IoId, Layer, Time, Why};
use wordline_fs::Lack;

impl<S: Source> Host<S> {
    /// Marks every I/O of a request.
    #[inline(always)]
    pub(crate) fn mark_request(
        &mut self,
        ctx: &mut Ctx,
        rq: u32,
        layer: Layer,
        why: Why,
        place: u32,
        until: Time,
    ) {
        let mut n = self.block.requests[rq].first;
        while n != NONE {
            let node = &self.block.nodes[n];
            ctx.mark(node.life, layer, why, place, until);
            n = node.next;
        }
    }

    /// The drive marked the life of a request's first I/O; those merged with it went the same way.
    #[inline(always)]
    pub(crate) fn share_life(&mut self, ctx: &mut Ctx, r: &Request) {
        if r.first == r.last {
            return;
        }
        let leader = self.block.nodes[r.first].life;
        let mut n = self.block.nodes[r.first].next;
        while n != NONE {
            let node = &self.block.nodes[n];
            ctx.lives.share(leader, node.life, |why| why);
            n = node.next;
        }
    }

    /// Marks in the I/Os from `first` on that their completion waited, and then was taken up.
    #[inline]
    pub(crate) fn mark_completion(
        &mut self,
        ctx: &mut Ctx,
        first: u32,
        core: u32,
        (waited, begin): (Why, Time),
        (worked, end): (Why, Time),
    ) {
        let mut n = first;
        while n != NONE {
            let node = &self.block.nodes[n];
            if let Some(life) = ctx.lives.of(node.life) {
                life.mark(Layer::Completion, waited, core, begin);
                life.mark(Layer::Completion, worked, core, end);
            }
            n = node.next;
        }
    }

    /// A request is over, and so are the I/Os from `first` on.
    #[inline]
    pub(crate) fn nodes_done(&mut self, ctx: &mut Ctx, first: u32, ok: bool, core: u32) {
        let mut n = first;
        while n != NONE {
            let next = std::mem::replace(&mut self.block.nodes[n].next, NONE);
            self.node_done(ctx, n, ok, Some(core));
            n = next;
        }
    }

    /// A new node for an I/O of a disk.
    #[inline(always)]
    pub(crate) fn new_node(
        &mut self,
        t: u32,
        ddir: Ddir,
        (disk, offset): (u16, u64),
        len: u32,
    ) -> u32 {
        self.block.nodes.insert(Node {
            disk,
            life: IoId::NONE,
            parent: NONE,
            pending: 1,
            next: NONE,
            thread: t,
            ddir,
            ok: true,
            lacks: Lack::Nothing,
            len,
            offset,
            issued: Time::ZERO,
            submitted: Time::ZERO,
            prepared: 0,
            bio: NONE,
            fua: ddir == Ddir::Write && self.asks_for_fua(t, disk),
            background: false,
            merges: false,
            at_ledger: NONE,
            class: self.threads[t].class(),
        })
    }

    /// dio_bio_write_op: a write through a file opened with O_DSYNC has REQ_FUA.
    #[inline]
    fn asks_for_fua(&self, t: u32, disk: u16) -> bool {
        self.threads[t].spec().sync && !self.is_on_pblk(disk)
    }

    /// The disk, or what an array is made of, is pblk, which heeds REQ_PREFLUSH alone: a bio that has REQ_FUA
    /// without it ends in the write buffer.
    pub(crate) fn is_on_pblk(&self, disk: u16) -> bool {
        let first = self.block.disks[disk].paths.array().map_or(disk, Array::first);
        self.block.disks[first].paths.has_ftl()
    }

    /// Whether the kernel takes the I/O: O_DIRECT wants whole logical blocks, inside the device.
    pub(crate) fn valid(&self, disk: u16, ddir: Ddir, offset: u64, len: u32) -> bool {
        let drive = &self.block.disks[disk].info();
        let lba = u64::from(drive.lba_bytes);
        ddir.is_sync()
            || len > 0
                && offset.is_multiple_of(lba)
                && u64::from(len).is_multiple_of(lba)
                && offset.checked_add(u64::from(len)).is_some_and(|end| end <= drive.bytes)
    }

    /// Parts of a data I/O: bios of at most 1 MiB, each split at `max_request`.
    pub(crate) fn parts(&self, disk: u16, len: u32) -> u32 {
        let max = self.block.disks[disk].queue.max_request;
        let len = u64::from(len);
        if len <= max && len <= crate::block::BIO_BYTES {
            return 1;
        }
        let whole = len / crate::block::BIO_BYTES;
        let rest = len % crate::block::BIO_BYTES;
        (whole * crate::block::BIO_BYTES.div_ceil(max) + rest.div_ceil(max)) as u32
    }

    /// A child node of `node` and its life, which begins where the parent's has got to.
    pub(crate) fn child(&mut self, node: u32, offset: u64, len: u32) -> u32 {
        let parent = self.block.nodes[node];
        self.block.nodes.insert(Node {
            life: IoId::NONE,
            parent: node,
            pending: 1,
            next: NONE,
            offset,
            len,
            merges: false,
            at_ledger: NONE,
            ..parent
        })
    }

    /// A part, or the whole, is complete: joins it with its siblings. `on` is the core at work.
    pub(crate) fn node_done(&mut self, ctx: &mut Ctx, mut n: u32, ok: bool, on: Option<u32>) {
        self.block.nodes[n].ok &= ok;
        loop {
            let node = &mut self.block.nodes[n];
            node.pending -= 1;
            if node.pending > 0 {
                return;
            }
            if node.merges {
                return self.merged(ctx, n, on);
            }
            let disk = node.disk;
            if self.block.disks[disk].paths.schedules_bios() {
                self.bio_ended(ctx, n, on);
            }
            let node = &self.block.nodes[n];
            if node.parent == NONE {
                return self.io_done(ctx, n, on);
            }
            let (parent, life, ok, lacks) = (node.parent, node.life, node.ok, node.lacks);
            if disk != self.block.nodes[parent].disk && self.member_done(ctx, n, on) {
                return;
            }
            self.block.nodes.remove(n);
            let up = &mut self.block.nodes[parent];
            up.ok &= ok;
            if lacks != Lack::Nothing {
                up.lacks = lacks;
            }
            if up.pending == 1 {
                ctx.lives.absorb(up.life, life);
            } else {
                ctx.lives.release(life);
            }
            n = parent;
        }
    }

    fn io_done(&mut self, ctx: &mut Ctx, n: u32, on: Option<u32>) {
        let node = self.block.nodes[n];
        if node.bio != NONE {
            return match self.threads[node.thread].md.array() {
                None => self.bio_done(ctx, n, on),
                Some(d) => self.md_io_done(ctx, d, n, on),
            };
        }
        let t = node.thread;
        if !self.stack.kernel {
            self.finish_io(ctx, n, 0, 0);
            self.direct_fill(ctx, t);
            return;
        }
        let thread = &mut self.threads[t];
        let is_aio = match thread.spec().engine {
            Engine::Libaio | Engine::IoUring => thread.spec().is_entry(node.ddir),
            Engine::Spdk => true,
            Engine::Pvsync2 | Engine::Null => false,
        };
        if !is_aio {
            let sleeping = matches!(thread.asleep(), Asleep::Call | Asleep::Hybrid);
            return self.goes_on(ctx, t, sleeping, on);
        }
        if node.ddir.is_sync() && thread.spec().ring_syncs {
            return self.sync_done(ctx, n, on);
        }
        self.ring_done(ctx, n, on);
    }

    /// An entry of a ring is complete.
    pub(crate) fn ring_done(&mut self, ctx: &mut Ctx, n: u32, on: Option<u32>) {
        let t = self.block.nodes[n].thread;
        let sq = self.threads[t].engine.submitter();
        if sq != NONE {
            self.threads[sq].engine.sent_is_back();
        }
        let thread = &mut self.threads[t];
        thread.engine.complete(n);
        let reaper = thread.engine.partner();
        if reaper != NONE {
            if self.threads[reaper].asleep() == Asleep::Events {
                self.wake(ctx, reaper, on);
            }
            return;
        }
        let sleeping = match thread.asleep() {
            Asleep::Events => thread.engine.has_enough(),
            asleep => asleep == Asleep::Timer,
        };
        self.goes_on(ctx, t, sleeping, on);
    }

    /// A thread that sleeps for what is over is woken, and one that looks for it sees it.
    #[inline]
    fn goes_on(&mut self, ctx: &mut Ctx, t: u32, sleeping: bool, on: Option<u32>) {
        if sleeping {
            self.wake(ctx, t, on);
        } else if self.threads[t].step() == Step::Looked {
            self.notice(ctx, t);
        }
    }

    /// The life of an I/O, begun now if it was not yet.
    pub(crate) fn begin_life(&mut self, ctx: &mut Ctx, n: u32) -> IoId {
        let node = &mut self.block.nodes[n];
        if node.life == IoId::NONE {
            node.life = ctx.lives.begin(node.thread, node.ddir, node.offset, node.len, node.issued);
        }
        node.life
    }
}
