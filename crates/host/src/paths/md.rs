//! Arrays of disks (drivers/md): a bio-based device whose bios go on to its members.
//!
//! - A bio of RAID-0, and a read of a whole RAID-5, is taken apart by its submitter, which then submits each
//!   part to its member as any other bio.
//! - Other bios of RAID-5 are added to stripes page by page ([`wordline_md::raid5`]). Stripes are handled by a
//!   thread of the array's own, which pays for sums and copies and submits what members are to read and
//!   write; its plug merges neighbours. Stripes of a bio are released together, as with a plug.
//! - A flush goes to all members, a trim of RAID-0 to each member as one run, of RAID-5 row by row.
//! - A second thread rebuilds a lost member on a spare, and looks at parity after an unclean stop. While others
//!   use the array it waits for a window of rows before it begins the next (md_do_sync).

use crate::DiskId;
use crate::block::NONE;
use crate::block::call::Outer;
use crate::disk::ArrayShape;
use crate::function::spend;
use crate::host::{Host, Output};
use crate::source::Source;
use crate::tasks::thread::{Asleep, Flow, Step};
use serde::Serialize;
use std::collections::VecDeque;
use wordline_base::{Ctx, Ddir, IdVec, IoClass, IoId, Kind, Layer, Span, Time, Why};
use wordline_ftl::Translation;
use wordline_md::{
    Added, Guards, Io, Layout, Level, MdConfig, Member, Out, PAGE, PageOf, Piece, Raid5, Stats, To,
    What,
};
use wordline_nvme::Opcode;

/// Of a HostTimer, with the disk and what is due below it.
pub(crate) const MD: u32 = 1 << 23;
const FAIL: u32 = 0;
const TIDY: u32 = 1;
const TOKEN: u32 = 2;

/// Stripes that a thread handles before it submits their I/O (MAX_STRIPE_BATCH), and how many if they go on
/// row by row, so that what its plug would merge is merged.
const BATCH: u32 = 8;
const ROWS: u32 = 32;
/// Rows that are rebuilt at a time.
const WINDOW: u32 = 32;
/// mddev->bitmap_info.daemon_sleep.
const DAEMON_SLEEP: Span = Span::from_secs(5);

/// A drive by its place in the array.
type MemberId = u32;

/// An array.
pub(crate) struct Array {
    pub layout: Layout,
    config: MdConfig,
    /// Its members, by their numbers among the host's disks.
    pub members: IdVec<MemberId, DiskId>,
    /// The disk that takes a lost member's place.
    spare: Option<u16>,
    /// The disk that is its journal.
    journal: Option<u16>,
    /// A member that is to be lost, and when.
    fail: Option<(u32, Span)>,
    parity: Option<Box<Parity>>,
    /// Requests that came.
    requests: u64,
    /// Requests that met a member that makes room for writes.
    met: u64,
    /// Members that make room for writes now.
    busy: IdVec<MemberId, bool>,
    /// The most that did at a time.
    most_busy: u32,
    /// Times a member began without the token.
    forced: u64,
    /// Who has the token.
    holder: u32,
    /// The token is to be passed on.
    passes: bool,
}

/// What RAID-5 has beside.
struct Parity {
    raid: Raid5,
    thread: u32,
    sync: u32,
    /// The stripe that the thread is at.
    current: Option<u32>,
    /// Its parity was computed.
    summed: bool,
    /// Bios that wait for it.
    waiting: Vec<u32>,
    /// Stripes handled since I/O was last submitted.
    handled: u32,
    /// The row after the last one handled.
    row: u64,
    /// I/O of these stripes, to be submitted.
    batch: VecDeque<Io>,
    /// I/Os that came back since the thread last paid for some.
    came_back: u64,
    /// Threads that wait for a stripe.
    sleepers: VecDeque<u32>,
    /// Reads that failed at their member, page by page.
    retries: VecDeque<PageOf>,
    /// A lost member whose place the spare takes once nothing is out to it.
    lost: Option<u32>,
    /// Rows on their way to be rebuilt.
    rows_out: u32,
    /// Requests of the array when the window was begun.
    seen: u64,
    /// Rows begun since rebuilding began.
    rows_begun: u64,
    /// When rebuilding began.
    since: Time,
}

/// What an array did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ArrayStats {
    /// Its number among the host's disks.
    pub disk: u16,
    /// Bytes that its users can write.
    pub bytes: u64,
    /// Requests to members.
    pub requests: u64,
    /// Those that went to a member while it made room for writes.
    pub met_collecting: u64,
    /// Members that made room at a time, at most.
    pub most_collecting: u32,
    /// Times a member began to make room without the token.
    pub forced_collections: u64,
    /// Counts of the stripe cache; of RAID-5 only.
    pub raid5: Option<Stats>,
    /// Processor time of parity sums.
    pub xor_ns: u64,
    /// Host memory of the stripe cache, in bytes.
    pub stripe_bytes: u64,
    /// Host memory of the bitmap, in bytes.
    pub bitmap_bytes: u64,
    /// Host memory of the journal's metadata block, in bytes.
    pub journal_bytes: u64,
    /// Bytes of the check of what pages hold; no real array has them.
    pub check_bytes: u64,
    /// Pages checked.
    pub checked: u64,
    /// Pages that held something else than was written, and wrong parities.
    pub wrong: u64,
    /// Members that are lost or not filled yet.
    pub missing: u32,
    /// A member is being filled.
    pub syncing: bool,
}

impl Array {
    pub fn new(shape: &ArrayShape) -> Array {
        let ArrayShape { config, layout, members, spare, journal, fail, .. } = shape.clone();
        let guards = Guards {
            bitmap: Some(config.bitmap).filter(|&bytes| bytes > 0),
            journal: journal.map(|_| shape.journal_bytes),
        };
        let parity = (layout.level == Level::Raid5).then(|| {
            Box::new(Parity {
                raid: Raid5::new(layout.clone(), config.stripe_cache, guards, shape.checks),
                thread: NONE,
                sync: NONE,
                current: None,
                summed: false,
                waiting: Vec::new(),
                handled: 0,
                row: 0,
                batch: VecDeque::new(),
                came_back: 0,
                sleepers: VecDeque::new(),
                retries: VecDeque::new(),
                lost: None,
                rows_out: 0,
                seen: 0,
                rows_begun: 0,
                since: Time::ZERO,
            })
        });
        Array {
            busy: vec![false; members.len()].into(),
            layout,
            config,
            members: members.into(),
            spare,
            journal,
            fail,
            parity,
            requests: 0,
            met: 0,
            most_busy: 0,
            forced: 0,
            holder: 0,
            passes: false,
        }
    }
    pub fn has_parity(&self) -> bool {
        self.parity.is_some()
    }
    pub fn core(&self) -> Option<u32> {
        self.config.core
    }
    pub fn has_threads(&mut self, thread: u32, sync: u32) {
        if let Some(parity) = &mut self.parity {
            (parity.thread, parity.sync) = (thread, sync);
        }
    }
    /// Reads go to members, and not to stripes.
    fn reads_directly(&self) -> bool {
        match &self.parity {
            None => true,
            Some(p) => p.raid.is_whole(),
        }
    }
    /// Bytes of stripes, of the bitmap, and of the journal's metadata block. RAID-0 has none of these.
    pub fn memory(&self) -> [u64; 3] {
        let Some(Parity { raid, .. }) = self.parity.as_deref() else { return [0; 3] };
        let journal = if self.journal.is_some() { PAGE } else { 0 };
        [raid.memory(), raid.bitmap_memory(), journal]
    }
    pub fn stats(&self, disk: u16, xor_page: Span) -> ArrayStats {
        let mut stats = ArrayStats {
            disk,
            bytes: self.layout.bytes(),
            requests: self.requests,
            met_collecting: self.met,
            most_collecting: self.most_busy,
            forced_collections: self.forced,
            ..ArrayStats::default()
        };
        let Some(Parity { raid, .. }) = self.parity.as_deref() else { return stats };
        let (checked, wrong) = raid.checked();
        let members = 0..self.layout.members;
        stats.raid5 = Some(raid.stats);
        stats.xor_ns = raid.stats.xor_pages * xor_page.0;
        [stats.stripe_bytes, stats.bitmap_bytes, stats.journal_bytes] = self.memory();
        stats.check_bytes = raid.check_memory();
        (stats.checked, stats.wrong) = (checked, wrong + raid.wrong_parities());
        stats.missing = members.filter(|&m| raid.member(m) != Member::InSync).count() as u32;
        stats.syncing = raid.syncs();
        stats
    }
}

/// What a thread is about in an array.
#[derive(Debug, Default)]
pub(crate) struct InMd {
    /// Parts of a bio that are still to be submitted.
    parts: VecDeque<u32>,
    /// The bio whose parts these are.
    outer: Option<Outer>,
    /// Pages of the bio that are still to be added to stripes.
    pages: VecDeque<PageOf>,
    /// Rows that the bio trims.
    rows: VecDeque<u64>,
    /// The array that it is a thread of.
    pub array: Option<u16>,
}

/// The pages of a run of bytes.
fn pages(
    bio: u32,
    byte: u64,
    len: u64,
    write: bool,
    fua: bool,
    class: IoClass,
) -> impl Iterator<Item = PageOf> {
    let (mut at, end) = (byte, byte + len);
    std::iter::from_fn(move || {
        let to = ((at / PAGE + 1) * PAGE).min(end);
        let page = PageOf { bio, byte: at, len: (to - at) as u32, write, fua, class };
        (at < end).then(|| {
            at = to;
            page
        })
    })
}

impl<S: Source> Host<S> {
    fn array(&mut self, d: u16) -> Option<&mut Array> {
        self.block.disks[d].array.as_deref_mut()
    }
    fn parity(&mut self, d: u16) -> Option<&mut Parity> {
        self.array(d)?.parity.as_deref_mut()
    }

    fn pieces(&self, part: u32) -> Vec<Piece> {
        let node = &self.block.nodes[part];
        let Some(array) = &self.block.disks[node.disk].array else { return Vec::new() };
        let (at, len) = (node.offset, u64::from(node.len));
        match node.ddir {
            Ddir::Trim => array.layout.runs(at, len),
            _ => array.layout.pieces(at, len).collect(),
        }
    }

    /// The rows of pages that a trim is of: whole rows of chunks.
    fn rows(layout: &Layout, at: u64, len: u64) -> std::ops::Range<u64> {
        let (first, end) = (at.div_ceil(layout.row()), (at + len) / layout.row());
        let pages = layout.chunk / PAGE;
        first * pages..end.max(first) * pages
    }

    /// A bio for an array: its processor time first.
    pub(crate) fn md_bio(&mut self, ctx: &mut Ctx, t: u32, part: u32) -> Flow {
        let node = self.block.nodes[part];
        let pieces = self.pieces(part).len() as u64;
        let Some(array) = self.array(node.disk) else { return Flow::Again };
        array.requests += 1;
        let (parity, direct) = (array.has_parity(), array.reads_directly());
        let rows = Self::rows(&array.layout, node.offset, node.len.into());
        let core = self.threads[t].core;
        let pages = match node.ddir {
            Ddir::Trim => rows.end - rows.start,
            _ => (node.offset + u64::from(node.len)).div_ceil(PAGE) - node.offset / PAGE,
        };
        self.threads[t].pend.block += match (parity, direct && node.ddir == Ddir::Read) {
            (false, _) => spend!(self, core, Raid0 * pieces, Bio * (pieces - 1)),
            (true, true) => spend!(self, core, Raid5Read * pieces, Bio * pieces),
            (true, false) => spend!(self, core, Raid5Make * pages),
        };
        self.segment(ctx, t, Step::MdMap)
    }

    /// The parts of a bio.
    pub(crate) fn md_map(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let part = self.threads[t].call.part();
        let pieces = self.pieces(part);
        self.begin_life(ctx, part);
        let n = self.block.nodes[part];
        let Some(array) = &mut self.block.disks[n.disk].array else { return Flow::Again };
        if array.has_parity() && n.ddir == Ddir::Trim {
            let rows = Self::rows(&array.layout, n.offset, n.len.into());
            let count = rows.end - rows.start;
            if count == 0 {
                // Less than a row clears nothing.
                let core = self.threads[t].core;
                self.go(t, Step::Part);
                self.node_done(ctx, part, true, Some(core));
                return Flow::Again;
            }
            self.block.nodes[part].pending = count as u32;
            self.threads[t].md.rows.extend(rows);
            return self.go(t, Step::MdAdd);
        }
        let (mut direct, mut added, mut pending) = (Vec::new(), VecDeque::new(), 0);
        let mut met = false;
        let mut byte = n.offset;
        for piece in pieces {
            let around = |p: &Parity| p.raid.goes_around(piece.member);
            let by_member =
                n.ddir == Ddir::Read && array.reads_directly() || array.parity.is_none();
            let busy = |m: u32| array.busy[m];
            let around = array.parity.as_deref().is_some_and(around);
            met |= busy(piece.member) && !(around && n.ddir == Ddir::Read);
            met |= n.ddir == Ddir::Write && array.layout.parity(piece.offset).is_some_and(busy);
            if by_member && !around {
                direct.push(piece);
                pending += 1;
            } else {
                let write = n.ddir == Ddir::Write;
                let before = added.len();
                added.extend(pages(part, byte, piece.len, write, n.fua, n.class));
                pending += (added.len() - before) as u32;
            }
            byte += piece.len;
        }
        array.met += u64::from(met);
        self.block.nodes[part].pending = pending;
        for piece in direct {
            self.md_part(t, part, piece);
        }
        self.threads[t].md.pages = added;
        self.go(t, Step::MdAdd)
    }

    /// Pages of a bio go to stripes; who finds none sleeps.
    pub(crate) fn md_add(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        if thread.is_planned() || thread.pend.total() > 0 {
            return self.segment(ctx, t, Step::MdAdd);
        }
        let (part, core) = (thread.call.part(), thread.core);
        if thread.md.pages.is_empty() && thread.md.rows.is_empty() {
            return self.md_begin(t);
        }
        let d = self.block.nodes[part].disk;
        let Some(array) = &mut self.block.disks[d].array else { return Flow::Again };
        let Some(p) = &mut array.parity else { return Flow::Again };
        let thread = &mut self.threads[t];
        let mut held = Vec::new();
        while let Some(page) = thread.md.pages.front() {
            let Added::To(s) = p.raid.add(*page) else { break };
            held.push(s);
            thread.md.pages.pop_front();
        }
        while let Some(row) = thread.md.rows.front() {
            let Added::To(s) = p.raid.add_trim(part, *row) else { break };
            held.push(s);
            thread.md.rows.pop_front();
        }
        held.into_iter().for_each(|s| p.raid.release(s));
        let waits = !thread.md.pages.is_empty() || !thread.md.rows.is_empty();
        if waits {
            p.sleepers.push_back(t);
        }
        self.wake_md(ctx, d, Some(core));
        if !waits {
            return self.md_begin(t);
        }
        self.threads[t].plan_after(part, Layer::Block, Why::Stripe);
        self.threads[t].step = Step::MdAdd;
        self.sleep(ctx, t, Asleep::Tag)
    }

    /// A part of a bio, for a member.
    fn md_part(&mut self, t: u32, part: u32, piece: Piece) {
        let d = self.block.nodes[part].disk;
        let Some(array) = &self.block.disks[d].array else { return };
        let disk = array.members[piece.member];
        let child = self.child(part, piece.offset, piece.len as u32);
        self.block.nodes[child].disk = disk;
        self.threads[t].md.parts.push_back(child);
    }

    fn md_begin(&mut self, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        thread.md.outer = Some(thread.call.descend(Step::MdNext));
        self.go(t, Step::MdNext)
    }

    /// md_flush_request: a flush goes to all members.
    pub(crate) fn md_flush(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let part = self.threads[t].call.node();
        self.begin_life(ctx, part);
        let Some(array) = &self.block.disks[self.block.nodes[part].disk].array else {
            return Flow::Again;
        };
        let there = |&m: &u32| match &array.parity {
            Some(p) => p.raid.member(m) != Member::Failed,
            None => true,
        };
        let members: Vec<u32> = (0..array.layout.members).filter(there).collect();
        self.block.nodes[part].pending = members.len() as u32;
        for member in members {
            self.md_part(t, part, Piece { member, offset: 0, len: 0 });
        }
        self.md_begin(t)
    }

    /// generic_make_request of the next part, or on to what follows the bio.
    pub(crate) fn md_next(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        let planned = thread.is_planned();
        let Some(&part) = thread.md.parts.front() else {
            let Some(outer) = thread.md.outer.take() else {
                unreachable!("parts of a bio end with the bio")
            };
            thread.call.ascend(outer);
            // A flush has no length to go through.
            let flush = thread.call.is_flush();
            let step = if flush { thread.call.over() } else { Step::Part };
            return self.go(t, step);
        };
        if planned {
            return self.segment(ctx, t, Step::MdNext);
        }
        let n = self.block.nodes[part];
        if n.disk != thread.disk {
            if thread.call.unplugs_before(Step::MdNext) {
                // What a plug holds is of one disk.
                return self.go(t, Step::Plug);
            }
            self.turn_to_member(t, n.disk);
        }
        let thread = &mut self.threads[t];
        thread.md.parts.pop_front();
        let (opcode, divided) = self.shape_of(part);
        let thread = &mut self.threads[t];
        thread.call.begin_member(part, opcode, divided, n.len.into());
        thread.plan_after(part, Layer::Block, Why::Plugged);
        match opcode {
            Opcode::Flush => {
                thread.pend.block += spend!(self, thread.core, Bio, Block);
                self.segment(ctx, t, Step::Flush)
            }
            _ => self.go(t, Step::Part),
        }
    }

    /// What a member is asked for, and whether in parts.
    fn shape_of(&mut self, node: u32) -> (Opcode, bool) {
        let n = self.block.nodes[node];
        let opcode = match n.ddir {
            Ddir::Read => Opcode::Read,
            Ddir::Write => Opcode::Write,
            Ddir::Trim => return (Opcode::Deallocate, false),
            Ddir::Sync | Ddir::DataSync => return (Opcode::Flush, false),
        };
        let parts = self.parts(n.disk, n.len);
        if parts > 1 {
            self.block.nodes[node].pending = parts;
            self.counters.splits += 1;
        }
        (opcode, parts > 1)
    }

    /// The thread's bios go to a member from here on. They complete by interrupt.
    fn turn_to_member(&mut self, t: u32, to: u16) {
        let thread = &mut self.threads[t];
        let home = self.block.disks[to].map[thread.core];
        (thread.disk, thread.hctx) = (to, home);
        thread.driver.turn_to_member(home);
    }

    /// A part of a bio has come back from its member. One that could not be read is rebuilt from the others
    /// (raid5_align_endio): then the bio waits for that instead.
    pub(crate) fn member_done(&mut self, ctx: &mut Ctx, child: u32, on: Option<u32>) -> bool {
        let c = self.block.nodes[child];
        let parent = self.block.nodes[c.parent];
        let Some(array) = &mut self.block.disks[parent.disk].array else { return false };
        let Some(p) = &mut array.parity else { return false };
        if c.ddir != Ddir::Read {
            return false;
        }
        let Some(member) = array.members.iter().position(|&d| d == c.disk) else { return false };
        let (member, len) = (member as u32, u64::from(c.len));
        if c.ok {
            p.raid.direct_read(member, c.offset, len);
            return false;
        }
        let Some(byte) = array.layout.byte(member, c.offset) else { return false };
        let before = p.retries.len();
        p.retries.extend(pages(c.parent, byte, len, false, false, c.class));
        let more = (p.retries.len() - before) as u32;
        let up = &mut self.block.nodes[c.parent];
        up.pending += more - 1;
        ctx.lives.absorb(parent.life, c.life);
        self.block.nodes.remove(child);
        self.wake_md(ctx, parent.disk, on);
        true
    }

    fn wake_md(&mut self, ctx: &mut Ctx, d: u16, on: Option<u32>) {
        let Some(p) = self.parity(d) else { return };
        let t = p.thread;
        if self.threads[t].asleep() == Asleep::Actions {
            self.wake(ctx, t, on);
        }
    }
    fn wake_sync(&mut self, ctx: &mut Ctx, d: u16, on: Option<u32>) {
        let Some(p) = self.parity(d) else { return };
        let t = p.sync;
        if matches!(self.threads[t].asleep(), Asleep::Actions) {
            self.wake(ctx, t, on);
        }
    }

    /// raid5d: what was handled goes out, and the next stripe is handled.
    pub(crate) fn md_thread(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        if self.threads[t].pend.total() > 0 {
            return self.segment(ctx, t, Step::Md);
        }
        let Some(d) = self.threads[t].md.array else { return Flow::Off };
        let core = self.threads[t].core;
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
        self.threads[t].step = Step::Md;
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
    pub(crate) fn md_issue(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        if self.threads[t].is_planned() || self.threads[t].pend.total() > 0 {
            return self.segment(ctx, t, Step::MdIssue);
        }
        let Some(d) = self.threads[t].md.array else { return Flow::Off };
        let Some(array) = &mut self.block.disks[d].array else { return Flow::Off };
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
        if disk != thread.disk {
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
                    _ => {
                        for i in 0..ctx.lives.get(n.life).steps().len() {
                            let step = ctx.lives.get(n.life).steps()[i];
                            let why = match (what, step.why) {
                                (What::Preread, Why::Read) => Why::ParityRead,
                                (_, why) => why,
                            };
                            ctx.mark(to, step.layer, why, step.place, step.end);
                        }
                    }
                }
            }
        }
        if n.life != IoId::NONE {
            ctx.lives.release(n.life);
        }
        self.wake_md(ctx, d, on);
    }

    /// md_do_sync: the next row.
    pub(crate) fn md_sync(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        if self.threads[t].pend.total() > 0 {
            return self.segment(ctx, t, Step::MdSync);
        }
        let Some(d) = self.threads[t].md.array else { return Flow::Off };
        let core = self.threads[t].core;
        let Some(array) = self.array(d) else { return Flow::Off };
        let (requests, speed) = (array.requests, array.config.sync_speed_max);
        let Some(p) = &mut array.parity else { return Flow::Off };
        // While others use the array, one window after the other.
        let used = p.seen != requests;
        if p.rows_out >= WINDOW
            || used && p.rows_out > 0 && p.rows_begun.is_multiple_of(u64::from(WINDOW))
        {
            self.threads[t].step = Step::MdSync;
            return self.sleep(ctx, t, Asleep::Actions);
        }
        p.seen = requests;
        let due = p.since
            + Span((u128::from(p.rows_begun * PAGE) * 1_000_000_000 / u128::from(speed)) as u64);
        if due > ctx.now && p.raid.syncs() {
            self.threads[t].step = Step::MdSync;
            return self.sleep_until(ctx, t, due);
        }
        let Some(row) = p.raid.next_sync() else {
            self.threads[t].step = Step::MdSync;
            return self.sleep(ctx, t, Asleep::Actions);
        };
        match p.raid.sync(row) {
            Added::To(s) => {
                p.raid.release(s);
                p.rows_out += 1;
                p.rows_begun += 1;
            }
            Added::NoStripe | Added::Overlap => {
                p.raid.sync_later(row);
                p.sleepers.push_back(t);
                self.threads[t].step = Step::MdSync;
                return self.sleep(ctx, t, Asleep::Actions);
            }
        }
        self.threads[t].pend.block += spend!(self, core, SyncRequest);
        self.wake_md(ctx, d, Some(core));
        self.segment(ctx, t, Step::MdSync)
    }

    pub(crate) fn md_start(&mut self, ctx: &mut Ctx) {
        for d in 0..self.block.disks.len() as u16 {
            let Some(array) = self.array(d) else { continue };
            let (fail, bitmap) = (array.fail, array.config.bitmap > 0 && array.has_parity());
            if let Some((_, at)) = fail {
                ctx.at(ctx.now + at, Kind::HostTimer, MD | u32::from(d) << 3 | FAIL);
            }
            if array.config.gc.has_token() {
                let (slot, members) = (array.config.gc_slot, array.members.clone());
                ctx.at(ctx.now + slot, Kind::HostTimer, MD | u32::from(d) << 3 | TOKEN);
                for &member in members.iter().skip(1) {
                    self.hold_member(ctx, member, true);
                }
            }
            if bitmap {
                ctx.at(ctx.now + DAEMON_SLEEP, Kind::HostTimer, MD | u32::from(d) << 3 | TIDY);
            }
        }
    }
    pub(crate) fn md_timer(&mut self, ctx: &mut Ctx, index: u32) {
        let d = (index >> 3) as u16;
        match index & 7 {
            FAIL => {
                let Some(array) = self.array(d) else { return };
                if let (Some((member, _)), Some(p)) = (array.fail, &mut array.parity) {
                    p.raid.fail(member);
                }
            }
            TOKEN => {
                let Some(array) = self.array(d) else { return };
                array.passes = true;
                let holder = array.members[array.holder];
                self.hold_member(ctx, holder, true);
                return self.pass_token(ctx, d);
            }
            _ => {
                if let Some(p) = self.parity(d) {
                    p.raid.tidy_bitmap();
                }
                ctx.at(ctx.now + DAEMON_SLEEP, Kind::HostTimer, index | MD);
            }
        }
        self.wake_md(ctx, d, None);
    }

    /// A disk's FTL may make space before it must, or not.
    fn hold_member(&mut self, ctx: &mut Ctx, disk: u16, hold: bool) {
        match self.block.disks[disk].enter(ctx) {
            Some(pblk) => {
                pblk.ftl.hold_collection(ctx, hold);
                self.pump_ftl(ctx, disk, None);
            }
            None => self.out.push_back(Output::Hold { disk, hold }),
        }
    }
    /// Who has the token keeps it until the victims that it has begun are free.
    fn pass_token(&mut self, ctx: &mut Ctx, d: u16) {
        let Some(array) = self.array(d) else { return };
        if !array.passes || array.busy[array.holder] {
            return;
        }
        array.passes = false;
        array.holder = (array.holder + 1) % array.members.len() as u32;
        let (next, slot) = (array.members[array.holder], array.config.gc_slot);
        self.hold_member(ctx, next, false);
        ctx.at(ctx.now + slot, Kind::HostTimer, MD | u32::from(d) << 3 | TOKEN);
    }
    /// A member begins to make room for writes, or has made it.
    pub fn member_collects(&mut self, ctx: &mut Ctx, disk: u16, collects: bool) {
        ctx.host = self.number;
        for d in 0..self.block.disks.len() as u16 {
            let Some(array) = self.array(d) else { continue };
            let mut all = (0..).zip(&array.members);
            let Some((m, _)) = all.find(|&(_, &member)| member == disk) else { continue };
            array.busy[m] = collects;
            let now = array.busy.iter().filter(|busy| **busy).count() as u32;
            array.most_busy = array.most_busy.max(now);
            let gc = array.config.gc;
            if let (true, Some(p)) = (gc.goes_around(), &mut array.parity) {
                p.raid.set_busy(m, collects);
            }
            if gc.has_token() {
                array.forced += u64::from(collects && m != array.holder);
                self.pass_token(ctx, d);
            }
        }
    }

    /// What its arrays did.
    pub fn arrays(&self) -> Vec<ArrayStats> {
        let disks = (0..self.block.disks.len() as u16).map(|d| (d, &self.block.disks[d]));
        let xor = self.cost.md.xor_page;
        disks.filter_map(|(d, disk)| Some(disk.array.as_ref()?.stats(d, xor))).collect()
    }
}
