//! The machine of the simulator with bytes: controller, FTL and NAND on one event queue, fed by
//! requests of clients instead of a modelled host, and a [`Media`] behind the flash.
//!
//! Time is the caller's: [`Machine::run`] delivers events up to a time, and requests come in between.
//! A request is cut into commands of the drive's largest transfer. Writes and trims that overlap go
//! one after the other, so that a sector has one write under way and its next stamp is known; reads
//! wait for nothing and return a version that was newest at some moment while they were served.

use crate::Error;
use crate::media::Media;
use crate::pages::PAGE;
use crate::recover::Recovered;
use crate::table::Table;
use crate::tape::Tape;
use crate::turns::Turns;
use crate::writer::Ticket;
use std::collections::VecDeque;
use wordline_base::Workload;
use wordline_base::ledger::NONE;
use wordline_base::stamps::BLANK;
use wordline_base::{
    BadValue, Ctx, Ddir, Event, IdVec, IoClass, IoId, Lpn, SECTOR, SECTOR_SHIFT, SectorSize, Slab,
    Time,
};
use wordline_device::Controller;
use wordline_device::DriveConfig;
use wordline_ftl::{Touch, Translation, Translator};
use wordline_nand::{Class, Op, OpKind, Outcome, Ppa};
use wordline_nvme::{Opcode, QueuePriority, Sqe, Status};

/// What a request asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum IoKind {
    /// Data from the drive.
    Read,
    /// Data to the drive.
    Write,
    /// What was written before becomes durable.
    Flush,
    /// Sectors become unmapped.
    Trim,
    /// Zeroes that may be a hole.
    Zero,
    /// Brings data nearer without giving them.
    Cache,
}

impl IoKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [IoKind; 6] =
        [IoKind::Read, IoKind::Write, IoKind::Flush, IoKind::Trim, IoKind::Zero, IoKind::Cache];
    /// The name in tables.
    pub fn name(self) -> &'static str {
        ["read", "write", "flush", "trim", "zero", "cache"][self as usize]
    }
    /// What the drive holds is another thing afterwards.
    pub fn changes(self) -> bool {
        matches!(self, IoKind::Write | IoKind::Trim | IoKind::Zero)
    }
}

/// A request of a client.
#[derive(Clone, Debug)]
pub struct Request {
    /// The caller's own.
    pub tag: u64,
    /// What it asks.
    pub kind: IoKind,
    /// The first byte.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
    /// It is answered when what it changes is durable.
    pub fua: bool,
    /// Queue of the drive: its class.
    pub queue: u16,
    /// Who asks, as the system numbers its threads; 0: it is not known.
    pub pid: u32,
    /// The data of a write that has to wait for others.
    pub data: Vec<u8>,
}

/// Why a request failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The drive could not read or write it.
    Io,
    /// The image cannot grow.
    NoSpace,
    /// The map cannot: it would pass the limit of memory.
    NoMemory,
    /// A sector was written as often as the image can count.
    Spent,
    /// The server ends before it was done.
    Ends,
}

/// An answer. It may be given when the ticket is done, if there is one.
#[derive(Debug)]
pub struct Done {
    /// The request's tag.
    pub tag: u64,
    /// What was asked.
    pub kind: IoKind,
    /// Whether it was done.
    pub result: Result<(), Fault>,
    /// A read's data are `data[skip..skip + len]`.
    pub data: Vec<u8>,
    /// Where in `data` the request begins, in bytes: `data` are whole sectors.
    pub skip: usize,
    /// Bytes.
    pub len: u32,
    /// When the request came.
    pub began: Time,
    /// When the drive had done it.
    pub at: Time,
    /// The model did it. A drive that stalls answers without, which takes no time.
    pub by_model: bool,
    /// The queue that it went by.
    pub queue: u16,
    /// What has to be durable before the answer is given.
    pub sync: Option<Ticket>,
}

/// Sectors of a command.
const PART: u32 = 256;
/// Sectors that one question about allocation looks at, in less than a millisecond.
pub const LOOKED_AT: u32 = 1 << 16;
/// The workload attribute of each queue.
const WORKLOADS: [Workload; 3] = Workload::ALL;

/// The priority of each queue: who waits has the urgent class where a guard keeps it from starving the others.
fn classes(system: &DriveConfig) -> [QueuePriority; 3] {
    let first = match system.device.queues.guard {
        Some(_) => QueuePriority::Urgent,
        None => QueuePriority::High,
    };
    [QueuePriority::Medium, first, QueuePriority::Low]
}
/// Sectors of a command that moves no data.
const TRIM_PART: u32 = 16 << 10;

/// Bytes of buffers that are kept to be used again, at most.
const SPARE: usize = 32 << 20;

const SERVES: &str = "a drive that serves bytes has media";

struct Io {
    request: Request,
    /// Whole sectors that the request touches.
    buffer: Vec<u8>,
    /// The first of them.
    first: u32,
    /// Parts that have not ended, and one more while it is being cut.
    parts: u32,
    /// What went wrong with one of them.
    fault: Option<Fault>,
    began: Time,
    /// Answered before its commands came back.
    abandoned: bool,
}

#[derive(Clone, Copy)]
struct Part {
    io: u32,
    opcode: Opcode,
    lpn: u32,
    sectors: u32,
    life: IoId,
    /// Sectors read so far.
    filled: [u64; PART as usize / 64],
    /// Some were read from the rest of their stride.
    rebuilt: bool,
    /// What the ledger of versions calls it.
    submitted: u32,
}

/// A submission queue as the driver has it.
struct Queue {
    /// The class of its commands.
    class: IoClass,
    /// Free command ids.
    free: Vec<u16>,
    /// The part that each id is of.
    by_cid: IdVec<u16, u32>,
    /// Commands for which no slot is free.
    waiting: VecDeque<(u32, Sqe)>,
}

/// A drive that serves bytes.
pub struct Machine {
    /// The queue of events, the clock and the versions.
    pub ctx: Ctx,
    /// The drive's controller, with FTL and NAND.
    pub controller: Controller,
    /// None: a tape is replayed, and there are no bytes.
    media: Option<Media>,
    /// What the session is recorded on, or replayed from.
    pub tape: Tape,
    /// Requests of clients under way.
    ios: Table<Io>,
    /// Commands of these.
    parts: Slab<Part>,
    /// Submission queues, one of each class.
    queues: Vec<Queue>,
    /// By life: the part.
    by_life: IdVec<IoId, u32>,
    /// Who changes which sectors, and who waits for it.
    turns: Turns,
    /// Requests that are over.
    done: VecDeque<Done>,
    /// Buffers of replies, to be used again.
    buffers: Vec<Vec<u8>>,
    /// Bytes of these buffers.
    spare: usize,
    /// Sectors of the largest command.
    max_sectors: u32,
    /// Bytes of the drive.
    size: u64,
    /// Why nothing more can be written.
    stalled: Option<Fault>,
    /// Nothing was to be written from the beginning.
    only_read: bool,
    /// Where a write was refused first for a sector that was written as often as the image can count.
    spent: Option<u64>,
    /// A digest of all answers.
    digest: u64,
}

impl Machine {
    /// Queues of the drive's faces, as far as it has so many: for all, for those who wait, for bulk.
    pub fn new(
        system: &DriveConfig,
        recovered: Recovered,
        media: Option<Media>,
        tape: Tape,
        size: u64,
    ) -> Result<Machine, Error> {
        let mut ctx = Ctx::new();
        ctx.stamps = recovered.stamps;
        let refused = |bad: BadValue| Error::Setting(bad.below("device"));
        let mut controller = Controller::new(&system.device, recovered.nand, Some(recovered.ftl))
            .map_err(refused)?;
        controller.set_ftl_cost(&system.ftl.cost_in_drive());
        let depth = system.device.queues.depth.min(1024);
        let mut queues = Vec::new();
        let count = system.device.queues.count as usize;
        for (i, class) in classes(system).into_iter().take(count).enumerate() {
            controller.create_queue(i as u16, i as u16, depth, class).map_err(refused)?;
            controller.set_interrupts(i as u16, false);
            // One slot always stays empty.
            let free = (0..depth as u16 - 1).rev().collect();
            let by_cid = IdVec::filled(u32::MAX, depth);
            let class = IoClass::NONE.with_queue(class).with_workload(WORKLOADS[i]);
            queues.push(Queue { class, free, by_cid, waiting: VecDeque::new() });
        }
        controller.start(&mut ctx);
        let max_sectors = match system.device.queues.max_transfer {
            0 => PART,
            bytes => (bytes >> SECTOR_SHIFT).clamp(1, PART),
        };
        Ok(Machine {
            ctx,
            controller,
            media,
            tape,
            ios: Table::default(),
            parts: Slab::with_capacity(256),
            queues,
            by_life: IdVec::new(),
            turns: Turns::default(),
            done: VecDeque::new(),
            buffers: Vec::new(),
            spare: 0,
            max_sectors,
            size,
            stalled: None,
            only_read: false,
            spent: None,
            digest: 0xCBF2_9CE4_8422_2325,
        })
    }

    /// The queue for requests of a workload attribute.
    pub fn queue_for(&self, workload: Workload) -> u16 {
        let of = WORKLOADS.iter().position(|&w| w == workload).unwrap_or(0) as u16;
        of.min(self.queues() - 1)
    }

    /// The machine's time.
    pub fn now(&self) -> Time {
        self.ctx.now
    }
    /// Bytes exported.
    pub fn size(&self) -> u64 {
        self.size
    }
    /// Queues of the drive that requests may go by.
    pub fn queues(&self) -> u16 {
        self.queues.len() as u16
    }
    /// The medium of a drive that serves bytes.
    pub fn media(&self) -> &Media {
        self.media.as_ref().expect(SERVES)
    }
    /// As [`Machine::media`], to be changed.
    pub fn media_mut(&mut self) -> &mut Media {
        self.media.as_mut().expect(SERVES)
    }
    /// Time stands still from the beginning: reads are served from what the image has.
    pub fn only_read(&mut self) {
        self.only_read = true;
        self.stalled = Some(Fault::Io);
    }
    /// Writes what the image is to keep, and closes it.
    pub fn close(&mut self) -> std::io::Result<()> {
        let ftl = self.controller.ftl().expect("a served drive has its FTL");
        self.media.as_mut().expect(SERVES).close(self.controller.nand(), ftl)
    }
    /// Requests taken and not answered.
    pub fn in_flight(&self) -> usize {
        self.ios.len()
    }
    /// None: there is none, or none may come before the image was written.
    pub fn next_event(&mut self) -> Option<Time> {
        if self.stalled.is_some() || self.waits_for_room() {
            return None;
        }
        self.ctx.queue.next_time()
    }
    /// The next answer.
    #[inline]
    pub fn poll(&mut self) -> Option<Done> {
        self.done.pop_front()
    }
    /// Answers to be taken.
    pub fn answers(&self) -> usize {
        self.done.len()
    }
    /// A reply's buffer, to be used again.
    #[inline]
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        // The answer to a write has none.
        if buffer.capacity() > 0 && self.spare + buffer.capacity() <= SPARE {
            self.spare += buffer.capacity();
            self.buffers.push(buffer);
        }
    }
    /// Writes failed for which the map would have passed the limit of memory.
    pub fn refuses_for_memory(&self) -> bool {
        let ftl = self.controller.ftl();
        ftl.is_some_and(|ftl| ftl.counters().writes_refused_memory > 0)
    }
    /// The byte at which a sector begins that was written as often as the image can count, if one was to be written again.
    pub fn spent(&self) -> Option<u64> {
        self.spent
    }
    /// Writes failed for which no space could be made.
    pub fn refuses_for_space(&self) -> bool {
        let ftl = self.controller.ftl().map(Translation::counters);
        ftl.is_some_and(|c| c.writes_refused > c.writes_refused_memory)
    }
    /// The drive is only read, took a write and lost it, or can take no more. NVMe drives go read-only then; this one does
    /// until the server is started again, as what was lost is not written again.
    pub fn is_read_only(&self) -> bool {
        self.only_read || self.refuses_for_space() || self.controller.is_read_only()
    }
    /// What blocks there are, in words.
    pub fn spare_left(&self) -> String {
        let ftl = self.controller.ftl().expect("a served drive has its FTL");
        let bad = self.media().bad_blocks(ftl);
        match ftl.free_lines() {
            Some((free, _, start)) => format!(
                "{bad} blocks are bad, {free} lines are free, and the collector begins at {start:.1}"
            ),
            None => format!("{bad} blocks are bad"),
        }
    }
    /// The image cannot be written: since when, time stands still.
    pub fn stalled(&self) -> Option<Fault> {
        self.stalled
    }
    /// A digest of every event delivered and every request, with their times.
    pub fn digest(&self) -> u64 {
        self.digest
    }
    /// A digest of [`Machine::digest`], the clock, the map with its stamps, blocks and counts.
    pub fn state_digest(&mut self) -> u64 {
        let kept = self.digest;
        self.note(self.ctx.now.0);
        self.note(self.ctx.queue.popped());
        let sectors = self.controller.ftl().map_or(0, Translation::sectors) as u32;
        for lpn in 0..sectors {
            let place = self.controller.ftl().and_then(|ftl| ftl.newest_at(Lpn(lpn)));
            let stamp = self.ctx.stamps.newest(Lpn(lpn));
            self.note(u64::from(place.map_or(u32::MAX, |p| p.0)) << 32 | u64::from(stamp));
        }
        let blocks = self.controller.ftl().map(|ftl| ftl.media_state().collect::<Vec<_>>());
        for b in blocks.into_iter().flatten() {
            self.note(u64::from(b.erases) << 32 | u64::from(b.programmed) << 1 | u64::from(b.bad));
        }
        let counts = self.controller.ftl().map(|ftl| format!("{:?}", ftl.counters()));
        counts.iter().flat_map(|text| text.bytes()).for_each(|byte| self.note(byte.into()));
        std::mem::replace(&mut self.digest, kept)
    }
    fn note(&mut self, word: u64) {
        self.digest = (self.digest ^ word).wrapping_mul(0x100_0000_01B3).rotate_left(17);
    }

    /// Takes a request at time `at`; all events before it have been delivered. `data`: a write's.
    pub fn submit(&mut self, at: Time, request: Request, data: &[u8]) {
        self.ctx.now = self.ctx.now.max(at);
        if self.stalled.is_none() {
            self.tape.input(self.ctx.now, self.ctx.queue.popped(), &request, self.digest);
            self.note(self.ctx.now.0 << 8 ^ request.offset ^ (request.kind as u64) << 59);
            self.note(u64::from(request.len) << 1 | u64::from(request.fua));
        }
        let first = (request.offset >> SECTOR_SHIFT) as u32;
        let began = self.ctx.now;
        let io = Io {
            request,
            buffer: Vec::new(),
            first,
            parts: 0,
            fault: None,
            began,
            abandoned: false,
        };
        let id = self.ios.insert(io);
        if let Some(fault) = self.stalled {
            return self.serve_stalled(id, fault);
        }
        if self.ios[id].request.kind.changes() {
            let (first, end) = self.range(id);
            if !self.turns.begins(id, first, end) {
                self.ios[id].request.data = data.to_vec();
                return;
            }
        }
        self.begin(id, data);
    }
    fn range(&self, id: u32) -> (u32, u32) {
        let r = &self.ios[id].request;
        let end = (r.offset + u64::from(r.len)).div_ceil(SECTOR) as u32;
        ((r.offset >> SECTOR_SHIFT) as u32, end)
    }

    fn begin(&mut self, id: u32, data: &[u8]) {
        let (kind, offset, len) = {
            let r = &self.ios[id].request;
            (r.kind, r.offset, r.len)
        };
        let (first, end) = self.range(id);
        // One more, so that it does not end before all are on their way.
        self.ios[id].parts = 1;
        match kind {
            IoKind::Read | IoKind::Cache => {
                if kind == IoKind::Read && self.media.is_some() {
                    let mut buffer = self.buffers.pop().unwrap_or_default();
                    self.spare -= buffer.capacity();
                    buffer.resize((end - first) as usize * PAGE, 0);
                    self.ios[id].buffer = buffer;
                }
                self.cut(id, Opcode::Read, offset, u64::from(len));
            }
            IoKind::Write => {
                self.take_data(id, offset, len, Some(data));
                self.cut(id, Opcode::Write, offset, u64::from(len));
            }
            IoKind::Flush => self.part(id, Opcode::Flush, 0, 0),
            IoKind::Trim => {
                let from = offset.div_ceil(SECTOR) * SECTOR;
                let to = (offset + u64::from(len)) / SECTOR * SECTOR;
                if from < to {
                    self.cut(id, Opcode::Deallocate, from, to - from);
                }
            }
            IoKind::Zero => {
                let to = offset + u64::from(len);
                let (whole_from, whole_to) =
                    (offset.div_ceil(SECTOR) * SECTOR, to / SECTOR * SECTOR);
                if whole_from < whole_to {
                    self.cut(id, Opcode::Deallocate, whole_from, whole_to - whole_from);
                    self.zero_edge(id, offset, whole_from);
                    self.zero_edge(id, whole_to, to);
                } else {
                    self.take_data(id, offset, len, None);
                    self.cut(id, Opcode::Write, offset, u64::from(len));
                }
            }
        }
        self.part_over(id);
    }
    fn zero_edge(&mut self, id: u32, from: u64, to: u64) {
        if from < to {
            self.take_data(id, from, (to - from) as u32, None);
            self.cut(id, Opcode::Write, from, to - from);
        }
    }

    /// The sectors of a write, whole, under the stamps they are about to get. No data: zeroes.
    fn take_data(&mut self, id: u32, offset: u64, len: u32, data: Option<&[u8]>) {
        let mut sectors = offset >> SECTOR_SHIFT..(offset + u64::from(len)).div_ceil(SECTOR);
        if let Some(spent) = sectors.find(|&lpn| self.ctx.stamps.is_spent(Lpn(lpn as u32))) {
            self.spent.get_or_insert(spent * SECTOR);
            self.ios[id].fault = Some(Fault::Spent);
            return;
        }
        let short = match self.media {
            Some(_) => !self.take_pages(offset, len, data),
            None => false,
        };
        if self.tape.took(short) {
            self.ios[id].fault = Some(Fault::Io);
        }
    }
    /// False: the rest of a sector that is written in part cannot be had.
    fn take_pages(&mut self, offset: u64, len: u32, data: Option<&[u8]>) -> bool {
        let mut good = true;
        let end = offset + u64::from(len);
        for lpn in (offset >> SECTOR_SHIFT)..end.div_ceil(SECTOR) {
            let (base, lpn) = (lpn * SECTOR, Lpn(lpn as u32));
            let (from, to) = (offset.max(base), end.min(base + SECTOR));
            let mut page = self.media_mut().pages.fresh();
            if to - from < SECTOR && !self.read_newest(lpn, &mut page[..]) {
                good = false;
                page.fill(0);
            }
            let at = (from - base) as usize..(to - base) as usize;
            match data {
                Some(data) => page[at]
                    .copy_from_slice(&data[(from - offset) as usize..(to - offset) as usize]),
                None => page[at].fill(0),
            }
            let stamp = self.ctx.stamps.next(lpn);
            self.media_mut().pages.put((lpn.0, stamp), page);
        }
        good
    }

    /// Cuts a range of bytes into commands.
    fn cut(&mut self, id: u32, opcode: Opcode, offset: u64, len: u64) {
        if self.ios[id].fault.is_some() {
            return;
        }
        let most = match opcode {
            Opcode::Deallocate => TRIM_PART,
            _ => self.max_sectors,
        };
        let end = offset + len;
        let mut at = offset;
        while at < end {
            let to = ((at >> SECTOR_SHIFT) + u64::from(most)) << SECTOR_SHIFT;
            let to = to.min(end);
            self.part(id, opcode, at, to - at);
            at = to;
        }
    }
    fn part(&mut self, id: u32, opcode: Opcode, offset: u64, len: u64) {
        let (fua, queue) = {
            let r = &self.ios[id].request;
            (r.fua && opcode == Opcode::Write, r.queue)
        };
        let ddir = match opcode {
            Opcode::Read => Ddir::Read,
            Opcode::Write => Ddir::Write,
            Opcode::Flush => Ddir::Sync,
            _ => Ddir::Trim,
        };
        let now = self.ctx.now;
        let life = self.ctx.lives.begin(u32::from(queue), ddir, offset, len as u32, now);
        let lpn = (offset >> SECTOR_SHIFT) as u32;
        let sectors = ((offset + len).div_ceil(SECTOR)) as u32 - lpn;
        self.ios[id].parts += 1;
        let (filled, rebuilt, submitted) = (Default::default(), false, NONE);
        let part = Part { io: id, opcode, lpn, sectors, life, filled, rebuilt, submitted };
        let key = self.parts.insert(part);
        if self.by_life.len() <= life.0 as usize {
            self.by_life.resize(life.0 as usize + 1, u32::MAX);
        }
        self.by_life[life] = key;
        // What is cut off within a logical block of the drive is merged here.
        let lba = u64::from(self.controller.config().lba);
        let from = offset & !(lba - 1);
        let bytes = ((offset + len).next_multiple_of(lba) - from) as u32;
        let class = self.queues[usize::from(queue)].class;
        let (cid, address) = (0, from);
        let submitted = match opcode {
            Opcode::Write => self.ctx.stamps.submit_counted(Lpn(lpn), sectors),
            Opcode::Deallocate => {
                let whole = Touch::trim(address, u64::from(bytes), SectorSize::KIB_4).sectors;
                self.ctx.stamps.submit_counted(Lpn(whole.start), whole.end - whole.start)
            }
            _ => NONE,
        };
        self.parts[key].submitted = submitted;
        let (work, inner, beside, io) = (0, 0, 0, life);
        let sqe =
            Sqe { opcode, cid, address, bytes, fua, work, class, inner, beside, io, submitted };
        self.queues[usize::from(queue)].waiting.push_back((key, sqe));
        self.send(queue);
    }
    /// Sends what waits for a slot of the queue.
    fn send(&mut self, q: u16) {
        let queue = &mut self.queues[usize::from(q)];
        let mut sent = false;
        while !queue.waiting.is_empty()
            && let Some(cid) = queue.free.pop()
        {
            let (key, mut sqe) = queue.waiting.pop_front().expect("not empty");
            sqe.cid = cid;
            if self.controller.enqueue(q, &sqe).is_err() {
                // The controller has taken the command, and not told yet.
                queue.free.push(cid);
                queue.waiting.push_front((key, sqe));
                break;
            }
            queue.by_cid[cid] = key;
            sent = true;
        }
        if sent {
            self.controller.doorbell(&mut self.ctx, q);
        }
    }

    /// Delivers events up to a time, and no more than `limit` of them.
    pub fn run(&mut self, until: Time, limit: u64) -> u64 {
        let mut n = 0;
        let over = self.is_read_only();
        if self.stalled.is_some() && (over || !self.media.as_mut().is_none_or(Media::retry)) {
            return 0;
        }
        self.stalled = None;
        while n < limit
            && !self.waits_for_room()
            && self.ctx.queue.next_time().is_some_and(|at| at <= until)
            && let Some((at, event)) = self.ctx.queue.pop()
        {
            if !self.deliver(at, event) {
                break;
            }
            n += 1;
        }
        n
    }
    /// So much waits to be written that no event may come, and room will come. If the image cannot be
    /// written none will, and the next event tells so to those who wait.
    fn waits_for_room(&mut self) -> bool {
        self.media.as_mut().is_some_and(|media| media.is_full() && media.stalled().is_none())
    }
    /// False: what it did cannot be written to the image, and time stands still.
    fn deliver(&mut self, at: Time, event: Event) -> bool {
        self.ctx.now = self.ctx.now.max(at);
        self.note(at.0 << 8 ^ u64::from(event.index()) ^ (event.kind() as u64) << 59);
        let Machine { controller, ctx, media, tape, ios, parts, by_life, .. } = self;
        controller.on_event_moving(ctx, event, &mut |record, ftl, nand| {
            let op = &record.op;
            let users = matches!(op.class, Class::UserRead | Class::RebuildRead);
            let users = users && op.kind == OpKind::Read && op.io != IoId::NONE;
            let good = match media {
                Some(media) if users => {
                    let part = &mut parts[by_life[op.io]];
                    read_run(part, &mut ios[part.io], media, ftl, op)
                }
                Some(media) => media.perform(record, ftl, nand),
                None => true,
            };
            // What failed in the model has failed.
            record.outcome == Outcome::Failed || !tape.ended(!good)
        });
        while let Some(posted) = self.controller.poll() {
            let queue = &mut self.queues[usize::from(posted.cq)];
            let cid = posted.cqe.cid;
            let key = std::mem::replace(&mut queue.by_cid[cid], u32::MAX);
            queue.free.push(cid);
            self.completed(key, posted.cqe.status);
            self.send(posted.cq);
        }
        let events = self.ctx.queue.popped();
        let stalled = self.media.as_ref().and_then(Media::stalled).map(|(kind, _)| fault_of(kind));
        if let Some(fault) = self.tape.stalled(events, stalled) {
            self.stall(fault);
            return false;
        }
        // The model does the same at each replay: the tape need not tell.
        if self.is_read_only() {
            self.stall(Fault::Io);
            return false;
        }
        true
    }
    /// A command came back.
    fn completed(&mut self, key: u32, status: Status) {
        let part = self.parts.remove(key);
        self.ctx.stamps.acknowledge(part.submitted, status == Status::Success);
        self.ctx.lives.release(part.life);
        self.by_life[part.life] = u32::MAX;
        let mut fault = match status {
            Status::Success => None,
            Status::CapacityExceeded => Some(Fault::NoMemory),
            _ => Some(Fault::Io),
        };
        match part.opcode {
            Opcode::Read
                if fault.is_none()
                    && !self.ios[part.io].buffer.is_empty()
                    && !self.fill_rest(&part) =>
            {
                fault = Some(Fault::Io);
            }
            Opcode::Write if fault.is_some() => {
                for lpn in part.lpn..part.lpn + part.sectors {
                    let next = self.ctx.stamps.next(Lpn(lpn));
                    if let Some(media) = &mut self.media {
                        media.pages.drop_version((lpn, next));
                    }
                }
            }
            Opcode::Deallocate if fault.is_none() => {
                if let Some(media) = &mut self.media {
                    media.note_trim(part.lpn, part.sectors, &self.ctx.stamps);
                }
            }
            _ => {}
        }
        let io = &mut self.ios[part.io];
        io.fault = io.fault.or(fault);
        self.part_over(part.io);
    }
    /// The sectors of a read that no flash read gave: from memory, nowhere, or from parity.
    fn fill_rest(&mut self, part: &Part) -> bool {
        let mut buffer = std::mem::take(&mut self.ios[part.io].buffer);
        let first = self.ios[part.io].first;
        let mut good = true;
        // The rest of a stride may hold what a cache in front has in a newer version.
        let trusted = !(part.rebuilt && self.controller.config().cache.is_some());
        for slot in 0..part.sectors as usize {
            if trusted && part.filled[slot / 64] >> (slot % 64) & 1 == 1 {
                continue;
            }
            let lpn = Lpn(part.lpn + slot as u32);
            let at = (lpn.0 - first) as usize * PAGE;
            let into = &mut buffer[at..at + PAGE];
            good &= part.rebuilt && self.rebuild_newest(lpn, into) || self.read_newest(lpn, into);
        }
        self.ios[part.io].buffer = buffer;
        good
    }
    fn rebuild_newest(&mut self, lpn: Lpn, into: &mut [u8]) -> bool {
        let stamp = self.ctx.stamps.newest(lpn);
        let ftl = self.controller.ftl().expect("a served drive has its FTL");
        match ftl.newest_at(lpn) {
            Some(ppa) => self.media.as_mut().is_some_and(|media| {
                media.pages.get((lpn.0, stamp)).is_none()
                    && media.rebuild(ppa, (lpn.0, stamp), ftl, into)
            }),
            None => false,
        }
    }
    /// The newest version of a sector, wherever it is.
    fn read_newest(&mut self, lpn: Lpn, into: &mut [u8]) -> bool {
        let stamp = self.ctx.stamps.newest(lpn);
        let ftl = self.controller.ftl().expect("a served drive has its FTL");
        let place = ftl.newest_at(lpn);
        let media = self.media.as_mut().expect(SERVES);
        if !media.damage.spares(lpn) {
            return false;
        }
        if stamp == BLANK && place.is_none() {
            into.fill(0);
            return true;
        }
        // Also what the collector holds between two places.
        if let Some(page) = media.pages.get_any((lpn.0, stamp)) {
            into.copy_from_slice(page);
            return true;
        }
        let Some(ppa) = place else { return false };
        let version = (lpn.0, stamp);
        media.read_sector(ppa, version, into) || media.rebuild(ppa, version, ftl, into)
    }

    /// One part of a request is over; after the last it is answered.
    fn part_over(&mut self, id: u32) {
        let io = &mut self.ios[id];
        io.parts -= 1;
        if io.parts > 0 {
            return;
        }
        let Io { request, buffer, first, fault, began, abandoned, .. } = self.ios.remove(id);
        if request.kind.changes() {
            self.turns.ended(id, first);
            self.unblock();
        }
        if abandoned {
            return;
        }
        let durable = request.fua && request.kind.changes() || request.kind == IoKind::Flush;
        let (mut fault, mut sync) = (fault, None);
        if let Some(media) = &mut self.media {
            // What was programmed last may not be in the image.
            if fault.is_none() && request.kind != IoKind::Read {
                fault = media.stalled().map(|(kind, _)| fault_of(kind));
            }
            sync = (durable && fault.is_none()).then(|| media.request_sync());
            if request.kind == IoKind::Write {
                media.sweep(&self.controller, &self.ctx.stamps);
            }
        }
        self.done.push_back(Done {
            tag: request.tag,
            kind: request.kind,
            result: fault.map_or(Ok(()), Err),
            skip: (request.offset - (u64::from(first) << SECTOR_SHIFT)) as usize,
            data: buffer,
            len: request.len,
            began,
            at: self.ctx.now,
            by_model: true,
            queue: request.queue,
            sync,
        });
    }
    /// Begins what waited for others to end.
    fn unblock(&mut self) {
        while let Some(id) = self.turns.next() {
            let data = std::mem::take(&mut self.ios[id].request.data);
            self.begin(id, &data);
        }
    }

    /// The image cannot be written. What would change something is refused, and so is what was
    /// promised nothing yet; reads go on without the model's time.
    fn stall(&mut self, fault: Fault) {
        self.stalled = Some(fault);
        let ids: Vec<u32> = self.ios.keys().collect();
        let blocked = self.turns.give_up();
        for id in ids {
            if !self.ios[id].abandoned && !blocked.contains(&id) {
                self.answer_now(id, fault);
                self.ios[id].abandoned = true;
            }
        }
        for id in blocked {
            self.serve_stalled(id, fault);
        }
    }
    fn serve_stalled(&mut self, id: u32, fault: Fault) {
        self.answer_now(id, fault);
        self.ios.remove(id);
    }
    fn answer_now(&mut self, id: u32, fault: Fault) {
        let r = &self.ios[id].request;
        let (tag, kind, offset, len) = (r.tag, r.kind, r.offset, r.len);
        let began = self.ios[id].began;
        let (first, end) = self.range(id);
        let mut data = Vec::new();
        let result = match kind {
            IoKind::Cache => Ok(()),
            IoKind::Read if self.media.is_some() => {
                data.resize((end - first) as usize * PAGE, 0);
                let pages = data.chunks_exact_mut(PAGE).zip(first..end);
                let mut good = true;
                for (into, lpn) in pages {
                    good &= self.read_newest(Lpn(lpn), into);
                }
                if good { Ok(()) } else { Err(Fault::Io) }
            }
            _ => Err(fault),
        };
        let skip = (offset - (u64::from(first) << SECTOR_SHIFT)) as usize;
        let at = self.ctx.now;
        self.done.push_back(Done {
            tag,
            kind,
            result,
            data,
            skip,
            len,
            began,
            at,
            by_model: false,
            queue: self.ios[id].request.queue,
            sync: None,
        });
    }

    /// `base:allocation` from an offset on: lengths, and whether anything is stored there. It may end before `len`, as
    /// the protocol allows: it looks at [`LOOKED_AT`] sectors.
    pub fn allocation(&self, offset: u64, len: u64, one: bool) -> Vec<(u64, bool)> {
        let ftl = self.controller.ftl().expect("a served drive has its FTL");
        let mut extents: Vec<(u64, bool)> = Vec::new();
        let (mut at, end) = (offset, offset + len.min(u64::from(LOOKED_AT) << SECTOR_SHIFT));
        while at < end {
            let lpn = Lpn((at >> SECTOR_SHIFT) as u32);
            let next = (((at >> SECTOR_SHIFT) + 1) << SECTOR_SHIFT).min(end);
            let stored = self.ctx.stamps.newest(lpn) != BLANK
                || ftl.newest_at(lpn).is_some()
                || self.media.as_ref().is_some_and(|m| !m.damage.spares(lpn));
            let full = one && !extents.is_empty() || extents.len() == 1024;
            match extents.last_mut() {
                Some(last) if last.1 == stored => last.0 += next - at,
                _ if full => break,
                _ => extents.push((next - at, stored)),
            }
            at = next;
        }
        extents
    }

    /// Runs, without regard to wall time, until nothing is in flight. False: it cannot.
    pub fn drain(&mut self) -> bool {
        while self.in_flight() > 0 {
            let n = self.run(Time(Time::NEVER.0 - 1), 100_000);
            let held_up = self.waits_for_room() && self.media_mut().await_room();
            if n == 0 && self.in_flight() > 0 && !held_up {
                return false;
            }
        }
        true
    }
}

/// A flash read for a command: what it found goes to the command's buffer. False: it is not what was
/// written there.
fn read_run(part: &mut Part, io: &mut Io, media: &mut Media, ftl: &Translator, op: &Op) -> bool {
    let mut good = true;
    for i in 0..op.sectors {
        let ppa = Ppa(op.ppa.0 + i);
        let Some((Lpn(lpn), stamp)) = ftl.oob(ppa) else { continue };
        // The rest of a stride may hold older versions of what is asked for.
        let mine = lpn.wrapping_sub(part.lpn) < part.sectors
            && ftl.newest_at(Lpn(lpn)) == Some(ppa)
            && !media.is_parity(ppa, ftl);
        if !mine {
            part.rebuilt = true;
            continue;
        }
        let slot = (lpn - part.lpn) as usize;
        if part.opcode == Opcode::Write || io.buffer.is_empty() {
            continue;
        }
        let at = (lpn - io.first) as usize * PAGE;
        if media.read_sector(ppa, (lpn, stamp), &mut io.buffer[at..at + PAGE]) {
            part.filled[slot / 64] |= 1 << (slot % 64);
        } else {
            good = false;
        }
    }
    good
}

/// What clients are told of an error of the image's file.
pub fn fault_of(kind: std::io::ErrorKind) -> Fault {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    match kind {
        StorageFull | QuotaExceeded | FileTooLarge => Fault::NoSpace,
        _ => Fault::Io,
    }
}
