//! Arrays of disks (drivers/md): a bio-based device whose bios go on to its members.
//!
//! - A bio of RAID-0, and a read of a whole RAID-5, is taken apart by its submitter, which then submits each
//!   part to its member as any other bio.
//! - Other bios of RAID-5 are added to stripes page by page ([`wordline_md::raid5`]). Stripes are handled by a
//!   thread of the array's own, which pays for sums and copies and submits what members are to read and
//!   write; its plug merges neighbours. Stripes of a bio are released together, as with a plug.
//! - A flush goes to all members, or to none if there is a journal, a trim of RAID-0 to each member as one run, of RAID-5 row by row.
//! - A second thread rebuilds a lost member on a spare, and looks at parity after an unclean stop. While others
//!   use the array it waits for a window of rows before it begins the next (md_do_sync).

mod sync;
mod thread;
pub(crate) mod turns;

use crate::DiskId;
use crate::block::NONE;
use crate::block::call::Outer;
use crate::disk::ArrayShape;
use crate::function::spend;
use crate::host::Host;
use crate::source::Source;
use crate::tasks::thread::{Asleep, Flow, Step};
use serde::Serialize;
use std::collections::VecDeque;
use wordline_base::{Ctx, Ddir, IdVec, IoClass, Layer, Span, Time, Why};
use wordline_md::{
    Added, Guards, Io, Layout, Level, MdConfig, Member, PAGE, PageOf, Piece, Raid5, Stats,
};
use wordline_nvme::Opcode;

/// A drive by its place in the array.
type MemberId = u32;

/// An array.
pub(crate) struct Array {
    layout: Layout,
    config: MdConfig,
    /// Its members, by their numbers among the host's disks.
    members: IdVec<MemberId, DiskId>,
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
    /// The resync found no stripe free.
    crowded: bool,
    /// The stripe it got then, and keeps to itself for a while.
    held: Option<u32>,
    /// Reads that failed at their member, page by page.
    retries: VecDeque<PageOf>,
    /// A lost member whose place the spare takes once nothing is out to it.
    lost: Option<u32>,
    /// Reads out to each member that pass by the stripes (nr_pending, of raid5_read_one_chunk).
    direct: IdVec<MemberId, u32>,
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
    /// A member is being filled, or parity looked at: rows that are done, and all.
    pub syncing: Option<(u64, u64)>,
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
                crowded: false,
                held: None,
                retries: VecDeque::new(),
                lost: None,
                direct: IdVec::filled(0, layout.members),
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
    /// Its first member.
    pub fn first(&self) -> DiskId {
        self.members[0]
    }
    /// It is a RAID-5.
    pub fn has_parity(&self) -> bool {
        self.parity.is_some()
    }
    /// What is acknowledged is in a journal (write-through).
    pub fn has_journal(&self) -> bool {
        self.journal.is_some()
    }
    /// The core of its thread, if the settings name one.
    pub fn core(&self) -> Option<u32> {
        self.config.core
    }
    /// These threads handle stripes and rebuild members.
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
    /// What it has done so far.
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
        stats.syncing = raid.sync_progress();
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
    array: Option<DiskId>,
}

impl InMd {
    /// It is a thread of this array.
    pub fn works_for(&mut self, array: DiskId) {
        self.array = Some(array);
    }
    /// The array that it is a thread of.
    #[inline]
    pub fn array(&self) -> Option<DiskId> {
        self.array
    }
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
        self.block.disks[d].paths.array.as_deref_mut()
    }
    fn parity(&mut self, d: u16) -> Option<&mut Parity> {
        self.array(d)?.parity.as_deref_mut()
    }

    fn pieces(&self, part: u32) -> Vec<Piece> {
        let node = &self.block.nodes[part];
        let Some(array) = &self.block.disks[node.disk].paths.array else { return Vec::new() };
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
    #[inline(never)]
    pub(crate) fn md_bio(&mut self, ctx: &mut Ctx, t: u32, part: u32) -> Flow {
        let node = self.block.nodes[part];
        let pieces = self.pieces(part).len() as u64;
        let Some(array) = self.array(node.disk) else { return Flow::Again };
        array.requests += 1;
        let (parity, direct) = (array.has_parity(), array.reads_directly());
        let rows = Self::rows(&array.layout, node.offset, node.len.into());
        let core = self.threads[t].core();
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
    #[inline(never)]
    pub(crate) fn md_map(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let part = self.threads[t].call.part();
        let pieces = self.pieces(part);
        self.begin_life(ctx, part);
        let n = self.block.nodes[part];
        let Some(array) = &mut self.block.disks[n.disk].paths.array else { return Flow::Again };
        if array.has_parity() && n.ddir == Ddir::Trim {
            let rows = Self::rows(&array.layout, n.offset, n.len.into());
            let count = rows.end - rows.start;
            if let Some(parity) = &mut array.parity {
                parity.raid.stats.trims += 1;
                parity.raid.stats.short_trims += u64::from(count == 0);
            }
            if count == 0 {
                // Less than a row clears nothing.
                let core = self.threads[t].core();
                self.go(t, Step::Part);
                self.node_done(ctx, part, true, Some(core));
                return Flow::Again;
            }
            self.block.nodes[part].divide(count as u32);
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
        self.block.nodes[part].divide(pending);
        for piece in direct {
            self.md_part(t, part, piece);
        }
        self.threads[t].md.pages = added;
        self.go(t, Step::MdAdd)
    }

    /// Pages of a bio go to stripes; who finds none sleeps.
    #[inline(never)]
    pub(crate) fn md_add(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        if thread.is_planned() || thread.pend.total() > 0 {
            return self.segment(ctx, t, Step::MdAdd);
        }
        let (part, core) = (thread.call.part(), thread.core());
        if thread.md.pages.is_empty() && thread.md.rows.is_empty() {
            return self.md_begin(t);
        }
        let d = self.block.nodes[part].disk;
        let Some(array) = &mut self.block.disks[d].paths.array else { return Flow::Again };
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
        self.threads[t].set_step(Step::MdAdd);
        self.sleep(ctx, t, Asleep::Tag)
    }

    /// A part of a bio, for a member.
    fn md_part(&mut self, t: u32, part: u32, piece: Piece) {
        let (d, ddir) = (self.block.nodes[part].disk, self.block.nodes[part].ddir);
        let Some(array) = &mut self.block.disks[d].paths.array else { return };
        let disk = array.members[piece.member];
        if let Some(p) = array.parity.as_mut().filter(|_| ddir == Ddir::Read) {
            p.direct[piece.member] += 1;
        }
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
        let Some(array) = &self.block.disks[self.block.nodes[part].disk].paths.array else {
            return Flow::Again;
        };
        let there = |&m: &u32| match &array.parity {
            Some(p) => p.raid.member(m) != Member::Failed,
            None => true,
        };
        let members: Vec<u32> = (0..array.layout.members).filter(there).collect();
        self.block.nodes[part].divide(members.len() as u32);
        for member in members {
            self.md_part(t, part, Piece { member, offset: 0, len: 0 });
        }
        self.md_begin(t)
    }

    /// generic_make_request of the next part, or on to what follows the bio.
    #[inline(never)]
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
        if n.disk != thread.disk() {
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
            Opcode::Flush => self.flush_bio(ctx, t),
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
            self.block.nodes[node].divide(parts);
            self.counters.splits += 1;
        }
        (opcode, parts > 1)
    }

    /// The thread's bios go to a member from here on. They complete by interrupt.
    fn turn_to_member(&mut self, t: u32, to: u16) {
        let thread = &mut self.threads[t];
        let home = self.block.disks[to].home(thread.core());
        thread.turn_to_member(to, home);
    }

    /// A part of a bio has come back from its member. One that could not be read is rebuilt from the others
    /// (raid5_align_endio): then the bio waits for that instead.
    pub(crate) fn member_done(&mut self, ctx: &mut Ctx, child: u32, on: Option<u32>) -> bool {
        let c = self.block.nodes[child];
        let parent = self.block.nodes[c.parent];
        let Some(array) = &mut self.block.disks[parent.disk].paths.array else { return false };
        let Some(p) = &mut array.parity else { return false };
        if c.ddir != Ddir::Read {
            return false;
        }
        let Some(member) = array.members.iter().position(|&d| d == c.disk) else { return false };
        let (member, len) = (member as u32, u64::from(c.len));
        p.direct[member] -= 1;
        let leaves = p.lost == Some(member) && p.direct[member] == 0;
        if c.ok {
            p.raid.direct_read(member, c.offset, len);
            if leaves {
                self.wake_md(ctx, parent.disk, on);
            }
            return false;
        }
        let Some(byte) = array.layout.byte(member, c.offset) else { return false };
        let before = p.retries.len();
        p.retries.extend(pages(c.parent, byte, len, false, false, c.class));
        let more = (p.retries.len() - before) as u32;
        let up = &mut self.block.nodes[c.parent];
        up.wait_for(more - 1);
        ctx.lives.absorb(parent.life, c.life);
        self.block.nodes.remove(child);
        self.wake_md(ctx, parent.disk, on);
        true
    }

    /// What its arrays did.
    pub fn arrays(&self) -> Vec<ArrayStats> {
        let disks = (0..self.block.disks.len() as u16).map(|d| (d, &self.block.disks[d]));
        let xor = self.stack.cost.md.xor_page;
        disks.filter_map(|(d, disk)| Some(disk.paths.array.as_ref()?.stats(d, xor))).collect()
    }
}
