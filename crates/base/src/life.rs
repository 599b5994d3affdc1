//! The life of an I/O: where each of its nanoseconds went.
//!
//! A life is a list of steps that abut: each ends where the next begins, the first begins at the
//! application's call and the last ends at its return. The steps therefore sum to the latency by
//! construction. Where an I/O splits into parallel parts, the life follows the part that finished
//! last, because that is the one the application waited for.

use crate::id::{Ddir, IoId};
use crate::id_vec::IdVec;
use crate::time::{Span, Time};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// Where time is spent, from the application down to the array and back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Layer {
    /// The application's own processor time, and waiting for its core.
    Application,
    /// System call, VFS, direct-I/O set-up.
    Syscall,
    /// bio, plug, merge, scheduler, waiting for a tag, software and hardware queues.
    Block,
    /// NVMe driver: PRPs, command copy, doorbell.
    Driver,
    /// In a submission queue until the controller fetches the command.
    QueueWait,
    /// PCIe: command fetch, data, completion entry.
    Link,
    /// The drive holds a command back to keep its data-sheet rates.
    Limit,
    /// Device DRAM: cache look-up, copy, waiting for a cache line.
    Cache,
    /// Firmware or host FTL: its processor time, and waiting for write-buffer space.
    Ftl,
    /// Waiting for the LUN.
    LunWait,
    /// The array itself: tR, tPROG, tBERS.
    Nand,
    /// Channel: waiting for it, command cycles and data.
    Transfer,
    /// Completion entry to the application: interrupt, handler, wake-up, return.
    Completion,
    /// Between a client and a server: calls on sockets, copies, the wire, waking who receives.
    Network,
    /// A server's own work, with the kernel it calls.
    Server,
    /// A bridge in front of several drives: its engine, and waiting for it or for a tag of a drive.
    Bridge,
    /// The link between a bridge and a drive: command, data and response frames.
    Sas,
}

/// Number of layers.
pub const LAYERS: usize = 17;

impl Layer {
    /// All layers, in the order of their numbers.
    pub const ALL: [Layer; LAYERS] = [
        Layer::Application,
        Layer::Syscall,
        Layer::Block,
        Layer::Driver,
        Layer::QueueWait,
        Layer::Link,
        Layer::Limit,
        Layer::Cache,
        Layer::Ftl,
        Layer::LunWait,
        Layer::Nand,
        Layer::Transfer,
        Layer::Completion,
        Layer::Network,
        Layer::Server,
        Layer::Bridge,
        Layer::Sas,
    ];
    /// On the host's cores.
    fn is_of_host(self) -> bool {
        use Layer::*;
        matches!(self, Application | Syscall | Block | Driver | Completion)
    }
    /// Spent at a drive, or at what is in front of it.
    fn is_of_drive(self) -> bool {
        use Layer::*;
        matches!(
            self,
            QueueWait | Link | Limit | Cache | Ftl | LunWait | Nand | Transfer | Bridge | Sas
        )
    }
    /// As reports name it.
    pub fn name(self) -> &'static str {
        match self {
            Layer::Application => "application",
            Layer::Syscall => "system call",
            Layer::Block => "block layer",
            Layer::Driver => "driver",
            Layer::QueueWait => "queue wait",
            Layer::Link => "link",
            Layer::Limit => "device limit",
            Layer::Cache => "cache",
            Layer::Ftl => "ftl",
            Layer::LunWait => "LUN wait",
            Layer::Nand => "nand",
            Layer::Transfer => "transfer",
            Layer::Completion => "completion",
            Layer::Network => "network",
            Layer::Server => "server",
            Layer::Bridge => "bridge",
            Layer::Sas => "SAS link",
        }
    }
}

/// What exactly a step was, beyond its layer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Why {
    // What an I/O does where nothing is in its way.
    /// The layer at work.
    Work,
    /// Command and address cycles of the flash.
    Command,
    /// Data on the channel.
    Data,
    /// The flash is read.
    Read,
    /// The flash is programmed.
    Program,
    /// The flash is erased.
    Erase,
    /// The interrupt handler.
    Interrupt,
    /// The sleeping thread is woken.
    WakeUp,
    /// Data go through the memory of the drive, whether they were there or came from flash.
    CacheCopy,
    /// The doorbell on its way.
    Doorbell,
    /// The command on its way from the submission queue.
    Fetch,
    /// Parity is computed.
    Xor,
    // What is in its way, or is done for some alone.
    /// Waiting for a processor core.
    CoreBusy,
    /// Waiting for a tag, of blk-mq or of a drive behind a bridge.
    Tag,
    /// Held in the plug or the scheduler.
    Plugged,
    /// A full submission queue.
    QueueFull,
    /// Waiting for another command's use of the firmware core.
    FirmwareBusy,
    /// Waiting for another command in the engine of a bridge.
    EngineBusy,
    /// Waiting for the link, or for the cache memory's bus.
    LinkBusy,
    /// The drive works on as many commands as it can.
    SlotsFull,
    /// A flush or trim of a SATA drive waits for all commands before it, and those behind it for it.
    Unqueued,
    /// The drive's limit of IOPS or bytes a second of reads.
    ReadLimit,
    /// The drive's limit of IOPS or bytes a second of writes.
    WriteLimit,
    /// The drive's limit of bytes a second of programs.
    ProgramLimit,
    /// The power that programs and erasures may draw.
    PowerLimit,
    /// The write buffer has no room.
    WriteBuffer,
    /// The collector has to make space first, or has its share of the write buffer for it.
    Collector,
    /// The lock of an FTL's map.
    MapLock,
    /// The one lock of a scheduler.
    SchedulerLock,
    /// A cache line being written back.
    WriteBack,
    /// Waiting for a flush to reach the medium.
    Flush,
    /// Waiting for a read of a user on the LUN.
    BehindRead,
    /// Waiting for a read that rebuilds a user's sectors on the LUN.
    BehindRebuildRead,
    /// Waiting for a read of the collector on the LUN.
    BehindGcRead,
    /// Waiting for a program of users' data on the LUN.
    BehindUserProgram,
    /// Waiting for a program of the collector's data on the LUN.
    BehindGcProgram,
    /// Waiting for a program of metadata on the LUN.
    BehindMetaProgram,
    /// Waiting for a program of parity on the LUN.
    BehindParityProgram,
    /// Waiting for an erase on the LUN.
    BehindErase,
    /// A program or erase in the way is being suspended.
    Suspending,
    /// A program or erase, while reads go ahead of it.
    Suspended,
    /// Waiting for a transfer of another LUN on the channel.
    ChannelBusy,
    /// The flash is read once more, after the code could not correct what was read.
    ReadAgain,
    /// The flash is read for the rest of a sector that is written in part.
    Modify,
    /// Seen only at the next look of a polling loop.
    Polling,
    /// Waiting for a read-ahead already under way.
    ReadAhead,
    /// Waiting for an earlier request that overlaps.
    Overlap,
    /// Back, but reaped only when the others that io_getevents waits for are back too.
    Batch,
    /// The same at the end of a job, which waits for everything in flight at once.
    Drain,
    /// A commit, room in the log, a transaction that is being closed.
    Journal,
    /// Dirty pages over their limit, or no page to be had.
    DirtyLimit,
    /// An array's stripes are all in use, or one is held by an overlapping I/O.
    Stripe,
    /// A stripe waits for its array's thread.
    StripeThread,
    /// The flash is read for the parity of a write.
    ParityRead,
    /// A bit of an array's bitmap is written.
    Bitmap,
    /// The part of the map that tells where the sectors are is read from flash.
    MapRead,
    /// Wrong bits are corrected.
    Decode,
    /// Another call on the same file or directory holds its lock.
    FileLock,
}

impl Why {
    /// All reasons, in the order of their numbers.
    const ALL: [Why; 58] = [
        Why::Work,
        Why::Command,
        Why::Data,
        Why::Read,
        Why::Program,
        Why::Erase,
        Why::Interrupt,
        Why::WakeUp,
        Why::CacheCopy,
        Why::Doorbell,
        Why::Fetch,
        Why::Xor,
        Why::CoreBusy,
        Why::Tag,
        Why::Plugged,
        Why::QueueFull,
        Why::FirmwareBusy,
        Why::EngineBusy,
        Why::LinkBusy,
        Why::SlotsFull,
        Why::Unqueued,
        Why::ReadLimit,
        Why::WriteLimit,
        Why::ProgramLimit,
        Why::PowerLimit,
        Why::WriteBuffer,
        Why::Collector,
        Why::MapLock,
        Why::SchedulerLock,
        Why::WriteBack,
        Why::Flush,
        Why::BehindRead,
        Why::BehindRebuildRead,
        Why::BehindGcRead,
        Why::BehindUserProgram,
        Why::BehindGcProgram,
        Why::BehindMetaProgram,
        Why::BehindParityProgram,
        Why::BehindErase,
        Why::Suspending,
        Why::Suspended,
        Why::ChannelBusy,
        Why::ReadAgain,
        Why::Modify,
        Why::Polling,
        Why::ReadAhead,
        Why::Overlap,
        Why::Batch,
        Why::Drain,
        Why::Journal,
        Why::DirtyLimit,
        Why::Stripe,
        Why::StripeThread,
        Why::ParityRead,
        Why::Bitmap,
        Why::MapRead,
        Why::Decode,
        Why::FileLock,
    ];
    /// As reports name it.
    pub fn name(self) -> &'static str {
        match self {
            Why::Work => "work",
            Why::Command => "command cycles",
            Why::Data => "data",
            Why::Read => "array read",
            Why::Program => "array program",
            Why::Erase => "array erase",
            Why::Interrupt => "interrupt",
            Why::WakeUp => "wake-up",
            Why::CacheCopy => "memory copy",
            Why::Doorbell => "doorbell",
            Why::Fetch => "command fetch",
            Why::Xor => "parity sums",
            Why::CoreBusy => "core busy",
            Why::Tag => "waiting for a tag",
            Why::Plugged => "plugged or scheduled",
            Why::QueueFull => "submission queue full",
            Why::FirmwareBusy => "firmware busy",
            Why::EngineBusy => "engine busy",
            Why::LinkBusy => "link busy",
            Why::SlotsFull => "command slots taken",
            Why::Unqueued => "command that is not queued",
            Why::ReadLimit => "read limit",
            Why::WriteLimit => "write limit",
            Why::ProgramLimit => "program limit",
            Why::PowerLimit => "power limit",
            Why::WriteBuffer => "write buffer",
            Why::Collector => "waiting for the collector",
            Why::MapLock => "lock of the map",
            Why::SchedulerLock => "lock of the scheduler",
            Why::WriteBack => "write-back",
            Why::Flush => "flush",
            Why::BehindRead => "behind a read",
            Why::BehindRebuildRead => "behind a rebuilding read",
            Why::BehindGcRead => "behind a GC read",
            Why::BehindUserProgram => "behind a user program",
            Why::BehindGcProgram => "behind a GC program",
            Why::BehindMetaProgram => "behind a metadata program",
            Why::BehindParityProgram => "behind a parity program",
            Why::BehindErase => "behind an erase",
            Why::Suspending => "suspending what is under way",
            Why::Suspended => "suspended",
            Why::ChannelBusy => "channel busy",
            Why::ReadAgain => "read again",
            Why::Modify => "array read, to modify",
            Why::Polling => "polling",
            Why::ReadAhead => "read-ahead under way",
            Why::Overlap => "overlapping request",
            Why::Batch => "waiting for the batch",
            Why::Drain => "end of the job",
            Why::Journal => "waiting for the journal",
            Why::DirtyLimit => "too many dirty pages",
            Why::Stripe => "waiting for a stripe",
            Why::StripeThread => "stripe queued",
            Why::ParityRead => "array read, for parity",
            Why::Bitmap => "waiting for the bitmap",
            Why::MapRead => "page of the map",
            Why::Decode => "error correction",
            Why::FileLock => "lock of the file",
        }
    }
    /// What an I/O does where nothing is in its way.
    #[inline]
    pub fn is_ordinary(self) -> bool {
        self <= Why::Xor
    }
}

/// One stretch of an I/O's life. It begins where the previous one ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Step {
    /// When it ended.
    #[serde(rename = "end_ns")]
    pub end: Time,
    /// Where the time was spent.
    #[serde(serialize_with = "layer_name")]
    pub layer: Layer,
    /// On what.
    #[serde(serialize_with = "why_name")]
    pub why: Why,
    /// Which of the drives it was at, from 1. 0: none, or the one that there is.
    #[serde(skip_serializing_if = "is_zero")]
    pub drive: u16,
    /// Which core, queue, LUN or channel: the layer says which.
    pub place: u32,
}

fn is_zero(n: &u16) -> bool {
    *n == 0
}
fn layer_name<S: Serializer>(layer: &Layer, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(layer.name())
}
fn why_name<S: Serializer>(why: &Why, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(why.name())
}

/// Layer and reason of a step.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Part(u16);

impl Part {
    /// Parts have numbers below this.
    pub const END: usize = 1 << (LAYER_BITS + WHY_BITS);
    /// Parts by layer, and those of a layer by reason.
    #[inline]
    pub fn number(self) -> usize {
        usize::from(self.0) & (Part::END - 1)
    }
    /// Where.
    pub fn layer(self) -> Layer {
        Layer::ALL[usize::from(self.0 >> WHY_BITS)]
    }
    /// On what.
    pub fn why(self) -> Why {
        Why::ALL[usize::from(self.0 & ((1 << WHY_BITS) - 1))]
    }
}

/// A step as a life has it: all but its end in one word, from below its place (32 bits), the drive (16), its
/// reason and its layer.
#[derive(Clone, Copy, Debug)]
struct Packed {
    end: Time,
    of: u64,
}

const DRIVE_SHIFT: u32 = 32;
const WHY_SHIFT: u32 = 48;
const WHY_BITS: u32 = 6;
const LAYER_BITS: u32 = 5;
const _: () = assert!(Why::ALL.len() <= 1 << WHY_BITS && LAYERS <= 1 << LAYER_BITS);
const _: () = {
    let mut i = 0;
    while i < Why::ALL.len() {
        assert!(Why::ALL[i] as usize == i, "a reason is not in its place");
        i += 1;
    }
};

impl Packed {
    fn part(self) -> Part {
        Part((self.of >> WHY_SHIFT) as u16)
    }
    fn drive(self) -> u16 {
        (self.of >> DRIVE_SHIFT) as u16
    }
    fn set_drive(&mut self, drive: u16) {
        self.of = self.of & !(0xFFFF << DRIVE_SHIFT) | u64::from(drive) << DRIVE_SHIFT;
    }
    fn place(self) -> u32 {
        self.of as u32
    }
    fn step(self) -> Step {
        let (layer, why) = (self.part().layer(), self.part().why());
        Step { end: self.end, layer, why, drive: self.drive(), place: self.place() }
    }
}

/// Steps kept one by one; what comes after is counted as dropped and kept only in the sums by
/// layer.
pub const MAX_STEPS: usize = 96;

/// What became of an I/O, from the application's call to its return.
#[derive(Clone, Debug)]
pub struct Life {
    /// What it asked for.
    pub ddir: Ddir,
    /// The application's call.
    pub begin: Time,
    /// Its return, or the last mark so far.
    pub end: Time,
    /// Bytes from the start of the drive.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
    /// The thread, from 0.
    pub job: u32,
    /// The drive that it went to, as in [`Step`]: that of its steps below the host which name no other.
    pub drive: u16,
    steps: [Packed; MAX_STEPS],
    n: u8,
    /// What the last of them is about, as long as another of that kind may go on with it.
    last: u64,
    /// Steps that found the list full.
    pub dropped: u32,
    /// How long those of them took that are not ordinary.
    beyond: BTreeMap<Part, u64>,
    spent: [u64; LAYERS],
    /// Which of the steps are not ordinary, in order.
    delays: [u8; MAX_STEPS],
    delayed: u8,
}

/// Times are nanoseconds since the machine was switched on. `spent_ns` is by layer, those that had a part
/// in it.
impl Serialize for Life {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let spent: BTreeMap<&str, u64> = Layer::ALL
            .iter()
            .map(|&layer| (layer.name(), self.spent[layer as usize]))
            .filter(|&(_, ns)| ns > 0)
            .collect();
        let mut out = s.serialize_struct("Life", 9)?;
        out.serialize_field("ddir", &self.ddir)?;
        out.serialize_field("job", &self.job)?;
        out.serialize_field("offset_bytes", &self.offset)?;
        out.serialize_field("len_bytes", &self.len)?;
        out.serialize_field("begin_ns", &self.begin)?;
        out.serialize_field("end_ns", &self.end)?;
        out.serialize_field("spent_ns", &spent)?;
        out.serialize_field("steps", &self.steps())?;
        out.serialize_field("dropped_steps", &self.dropped)?;
        out.end()
    }
}

impl Life {
    /// The same, of a job that has another number in the machine than on its host.
    pub fn of_job(&self, job: u32) -> Life {
        Life { job, ..self.clone() }
    }
    fn new(job: u32, ddir: Ddir, offset: u64, len: u32, begin: Time) -> Life {
        let blank = Packed { end: begin, of: 0 };
        Life {
            ddir,
            begin,
            end: begin,
            offset,
            len,
            job,
            drive: 0,
            steps: [blank; MAX_STEPS],
            n: 0,
            last: NO_STEP,
            dropped: 0,
            beyond: BTreeMap::new(),
            spent: [0; LAYERS],
            delays: [0; MAX_STEPS],
            delayed: 0,
        }
    }
    /// The first of its steps, at most [`MAX_STEPS`].
    pub fn steps(&self) -> Vec<Step> {
        self.packed().iter().map(|step| step.step()).collect()
    }
    fn packed(&self) -> &[Packed] {
        &self.steps[..usize::from(self.n)]
    }
    /// The same, each with how long it took.
    pub fn times(&self) -> impl Iterator<Item = (Step, Span)> {
        let mut begin = self.begin;
        self.packed()
            .iter()
            .map(move |step| (step.step(), step.end.since(std::mem::replace(&mut begin, step.end))))
    }
    /// How long each of its steps took that is not ordinary ([`Why::is_ordinary`]).
    #[inline]
    pub fn delays(&self) -> impl Iterator<Item = (Part, Span)> {
        self.delays[..usize::from(self.delayed)].iter().map(|&i| {
            let i = usize::from(i);
            let begin = if i == 0 { self.begin } else { self.steps[i - 1].end };
            (self.steps[i].part(), self.steps[i].end.since(begin))
        })
    }
    /// How long steps took that were dropped and are not ordinary, by part. There are none unless `dropped` says so.
    pub fn dropped_delays(&self) -> impl Iterator<Item = (Part, Span)> {
        self.beyond.iter().map(|(&part, &ns)| (part, Span(ns)))
    }
    /// Nanoseconds by layer; they sum to `end - begin`.
    pub fn spent(&self) -> &[u64; LAYERS] {
        &self.spent
    }
    /// From the call to the return.
    pub fn latency(&self) -> Span {
        self.end.since(self.begin)
    }

    /// Charges the time from the last mark to `until` to a layer. A mark in the past is a no-op.
    #[inline]
    pub fn mark(&mut self, layer: Layer, why: Why, place: u32, until: Time) {
        self.charge(layer, why.is_ordinary(), about(layer, why, place), until);
    }
    #[inline]
    fn charge(&mut self, layer: Layer, is_ordinary: bool, of: u64, until: Time) {
        if until <= self.end {
            return;
        }
        let span = until.0 - self.end.0;
        self.spent[layer as usize] += span;
        self.end = until;
        let n = usize::from(self.n);
        if self.last != of && n < MAX_STEPS {
            self.steps[n] = Packed { end: until, of };
            (self.n, self.last) = (self.n + 1, of);
            if !is_ordinary {
                self.delays[usize::from(self.delayed)] = n as u8;
                self.delayed += 1;
            }
        } else {
            self.mark_without_step(of, until, span, is_ordinary);
        }
    }
    /// The list of delays after steps have gone.
    fn find_delays(&mut self) {
        self.delayed = 0;
        for (i, step) in self.steps[..usize::from(self.n)].iter().enumerate() {
            if !step.part().why().is_ordinary() {
                self.delays[usize::from(self.delayed)] = i as u8;
                self.delayed += 1;
            }
        }
    }
    /// The drive that a step was at.
    fn drive_of(&self, step: Packed) -> u16 {
        match step.drive() {
            _ if !step.part().layer().is_of_drive() => 0,
            0 => self.drive,
            own => own,
        }
    }
    /// A step of another life, as that has it.
    fn take(&mut self, step: Packed, drive: u16) {
        let n = usize::from(self.n);
        if let Some(&last) = self.packed().last()
            && self.drive_of(last) != drive
        {
            self.last = NO_STEP;
        }
        let (part, of) = (step.part(), step.of & !(0xFFFF << DRIVE_SHIFT));
        self.charge(part.layer(), part.why().is_ordinary(), of, step.end);
        if usize::from(self.n) > n {
            self.steps[n].set_drive(drive);
        }
    }
    /// Every step tells its place among those of the whole machine: its drive by the number that this gives, and its
    /// core from the first of its host on.
    pub fn place_in_machine(&mut self, first_core: u32, number: impl Fn(u16) -> u16) {
        for i in 0..usize::from(self.n) {
            let step = self.steps[i];
            let part = step.part();
            self.steps[i].set_drive(number(self.drive_of(step)));
            if part.layer().is_of_host() && part.why() != Why::QueueFull {
                // The sum fits the 32 bits of a place.
                self.steps[i].of += u64::from(first_core);
            }
        }
        self.drive = number(self.drive);
    }
    /// More of the last step, or a step that has no room.
    #[cold]
    #[inline(never)]
    fn mark_without_step(&mut self, of: u64, until: Time, span: u64, is_ordinary: bool) {
        if self.last == of {
            self.steps[usize::from(self.n) - 1].end = until;
            return;
        }
        (self.dropped, self.last) = (self.dropped.saturating_add(1), NO_STEP);
        if !is_ordinary {
            let part = Packed { end: until, of }.part();
            *self.beyond.entry(part).or_default() += span;
        }
    }
    /// What another life, whose kept steps were taken, has of dropped ones, as far as they end later. Their order is
    /// not known: layers and delays have their shares. `layer` may call a layer something else.
    fn take_dropped(&mut self, other: &Life, layer: impl Fn(Layer) -> Layer) {
        if other.dropped == 0 || other.end <= self.end {
            return;
        }
        let mut rest = other.spent;
        other.times().for_each(|(step, span)| {
            let of = &mut rest[step.layer as usize];
            *of = of.saturating_sub(span.0);
        });
        let (all, room) = (rest.iter().sum::<u64>(), other.end.0 - self.end.0);
        if all == 0 {
            return;
        }
        let share = |ns: u64| (u128::from(ns) * u128::from(room) / u128::from(all)) as u64;
        let mut left = room;
        for (of, &ns) in Layer::ALL.iter().zip(&rest) {
            self.spent[layer(*of) as usize] += share(ns);
            left -= share(ns);
        }
        // What was rounded off is the longest one's.
        let longest = Layer::ALL.into_iter().max_by_key(|&of| rest[of as usize]);
        longest.into_iter().for_each(|of| self.spent[layer(of) as usize] += left);
        (self.end, self.last) = (other.end, NO_STEP);
        self.dropped = self.dropped.saturating_add(other.dropped);
        for (&part, &ns) in &other.beyond {
            *self.beyond.entry(part).or_default() += share(ns);
        }
    }
}

/// What a step is about, in one word, as of no drive.
#[inline]
fn about(layer: Layer, why: Why, place: u32) -> u64 {
    (layer as u64) << (WHY_SHIFT + WHY_BITS) | (why as u64) << WHY_SHIFT | u64::from(place)
}
/// No step is about this.
const NO_STEP: u64 = u64::MAX;

/// All I/Os in flight. Slots are reused without clearing their steps: a life is large.
#[derive(Clone, Debug, Default)]
pub struct Lives {
    lives: IdVec<IoId, Life>,
    free: Vec<u32>,
}

impl Lives {
    /// A life that begins now: its number until [`Lives::release`].
    #[inline]
    pub fn begin(&mut self, job: u32, ddir: Ddir, offset: u64, len: u32, now: Time) -> IoId {
        let Some(slot) = self.free.pop() else {
            self.lives.push(Life::new(job, ddir, offset, len, now));
            return IoId(self.lives.count() - 1);
        };
        let life = &mut self.lives[IoId(slot)];
        (life.job, life.ddir, life.offset, life.len) = (job, ddir, offset, len);
        life.drive = 0;
        if life.dropped > 0 {
            life.beyond.clear();
        }
        (life.begin, life.end, life.n, life.last, life.dropped) = (now, now, 0, NO_STEP, 0);
        life.delayed = 0;
        life.spent = [0; LAYERS];
        IoId(slot)
    }
    /// Charges the time since the last mark to a layer; work without an I/O is not recorded.
    #[inline]
    pub fn mark(&mut self, io: IoId, layer: Layer, why: Why, place: u32, until: Time) {
        if io != IoId::NONE {
            self.lives[io].mark(layer, why, place, until);
        }
    }
    /// The life of an I/O, for several marks; none of work without one.
    #[inline]
    pub fn of(&mut self, io: IoId) -> Option<&mut Life> {
        if io == IoId::NONE {
            return None;
        }
        Some(&mut self.lives[io])
    }
    /// Appends the steps of `part`, the last of an I/O's parallel parts to finish, and ends `part`.
    pub fn absorb(&mut self, io: IoId, part: IoId) {
        self.release(part);
        let (life, part) = self.two(io, part);
        for &step in part.packed() {
            life.take(step, part.drive_of(step));
        }
        life.take_dropped(part, |layer| layer);
    }
    /// The same of a life without end, whose time between its parts is the application's. Where there is no room for
    /// the steps of `part` it forgets its oldest ones: of such a life the latest steps count, and not its sums by
    /// layer.
    pub fn go_on(&mut self, io: IoId, part: IoId) {
        let (life, next) = self.two(io, part);
        let (n, more) = (usize::from(life.n), usize::from(next.n) + 1);
        if n > 0 && n + more > MAX_STEPS {
            let gone = (n + more - MAX_STEPS).min(n - 1);
            life.steps.copy_within(gone..n, 0);
            life.n = (n - gone) as u8;
            life.steps[0].of = about(Layer::Application, Why::Work, 0);
            life.find_delays();
        }
        life.mark(Layer::Application, Why::Work, 0, next.begin);
        self.absorb(io, part);
    }
    /// Appends what `other` did while this I/O waited for it, and leaves `other` as it is. Its steps below the host are
    /// as they were, those on the host are `wait`.
    pub fn follow(&mut self, io: IoId, other: IoId, wait: (Layer, Why, u32)) {
        let (life, other) = self.two(io, other);
        let (layer, why, place) = wait;
        for &step in other.packed() {
            if step.part().layer().is_of_host() {
                life.mark(layer, why, place, step.end);
            } else {
                life.take(step, other.drive_of(step));
            }
        }
        life.take_dropped(other, |of| if of.is_of_host() { layer } else { of });
    }
    /// Gives an I/O the steps of another, which keeps them; `why` may call them something else.
    pub fn share(&mut self, from: IoId, io: IoId, why: impl Fn(Why) -> Why) {
        if io == IoId::NONE {
            return;
        }
        let (life, other) = self.two(io, from);
        for &step in other.packed() {
            let of = about(step.part().layer(), why(step.part().why()), step.place());
            life.take(Packed { of, ..step }, other.drive_of(step));
        }
        life.take_dropped(other, |layer| layer);
    }
    fn two(&mut self, io: IoId, part: IoId) -> (&mut Life, &Life) {
        let both = self.lives.disjoint([io, part]);
        let [life, part] = both.expect("an I/O is no part of itself");
        (life, part)
    }
    /// The same of what a server's machine did for an I/O: the stages of its host are the server's, on
    /// cores that count from `first_core`.
    pub fn absorb_served(&mut self, io: IoId, part: IoId, first_core: u32) {
        if part == IoId::NONE {
            return;
        }
        self.release(part);
        if io == IoId::NONE {
            return;
        }
        let (life, part) = self.two(io, part);
        life.mark(Layer::Server, Why::WakeUp, first_core, part.begin);
        for &step in part.packed() {
            if step.part().layer().is_of_host() {
                life.mark(Layer::Server, step.part().why(), first_core + step.place(), step.end);
            } else {
                life.take(step, part.drive_of(step));
            }
        }
        life.take_dropped(part, |of| if of.is_of_host() { Layer::Server } else { of });
        life.mark(Layer::Server, Why::Work, first_core, part.end);
    }
    /// The life of an I/O in flight.
    #[inline]
    pub fn get(&self, io: IoId) -> &Life {
        &self.lives[io]
    }
    /// The I/O is over and its slot free; its life may be read until the next `begin`.
    #[inline]
    pub fn release(&mut self, io: IoId) {
        debug_assert!(!self.free.contains(&io.0), "{io:?} ended twice");
        self.free.push(io.0);
    }
    /// [`Lives::release`], with a copy of the life.
    pub fn end(&mut self, io: IoId) -> Life {
        self.release(io);
        self.lives[io].clone()
    }
    /// I/Os that have not ended.
    pub fn in_flight(&self) -> usize {
        self.lives.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_sum_to_the_latency() {
        let mut lives = Lives::default();
        let io = lives.begin(0, Ddir::Read, 0, 4096, Time(100));
        lives.mark(io, Layer::Syscall, Why::Work, 0, Time(150));
        lives.mark(io, Layer::LunWait, Why::BehindErase, 3, Time(400));
        lives.mark(io, Layer::LunWait, Why::BehindErase, 3, Time(450));
        lives.mark(io, Layer::Nand, Why::Read, 3, Time(450));
        lives.mark(io, Layer::Nand, Why::Read, 3, Time(500));
        let life = lives.end(io);
        assert_eq!(life.steps().len(), 3);
        assert_eq!(life.spent().iter().sum::<u64>(), life.latency().0);
        assert_eq!(lives.in_flight(), 0);
    }

    #[test]
    fn a_long_life_keeps_its_sums() {
        let mut lives = Lives::default();
        let io = lives.begin(0, Ddir::Write, 0, 4096, Time(0));
        for i in 1..=2 * MAX_STEPS as u64 {
            let layer = if i % 2 == 0 { Layer::Nand } else { Layer::Transfer };
            lives.mark(io, layer, Why::Work, 0, Time(i * 10));
        }
        let life = lives.end(io);
        assert_eq!(life.steps().len(), MAX_STEPS);
        assert_eq!(life.dropped as usize, MAX_STEPS);
        assert_eq!(life.spent().iter().sum::<u64>(), 20 * MAX_STEPS as u64);
    }

    /// More steps than 16 bits count, of two reasons in turn: what they waited for is told whole, also by an I/O that
    /// they are a part of.
    #[test]
    fn dropped_steps_keep_their_reasons() {
        let mut lives = Lives::default();
        let io = lives.begin(0, Ddir::Write, 0, 4096, Time(0));
        let part = lives.begin(0, Ddir::Write, 0, 4096, Time(0));
        let waits = [(Layer::LunWait, Why::BehindErase, 3), (Layer::Ftl, Why::WriteBuffer, 7)];
        let n = 100_000;
        let mut at = Time(0);
        for (layer, why, ns) in waits.into_iter().cycle().take(n) {
            at += Span(ns);
            lives.mark(part, layer, why, 0, at);
        }
        lives.absorb(io, part);
        lives.mark(io, Layer::Completion, Why::Interrupt, 0, at + Span(5));
        for id in [part, io] {
            let life = lives.get(id);
            assert!(life.dropped as usize >= n - MAX_STEPS);
            let mut told = BTreeMap::new();
            let delays = life.delays().chain(life.dropped_delays());
            delays.for_each(|(p, span)| *told.entry((p.layer(), p.why())).or_insert(0) += span.0);
            for (layer, why, ns) in waits {
                let all = ns * n as u64 / 2;
                assert_eq!((told[&(layer, why)], life.spent()[layer as usize]), (all, all));
            }
        }
        let life = lives.end(io);
        assert_eq!(life.spent().iter().sum::<u64>(), life.latency().0);
    }

    fn told(life: &Life) -> Vec<(Layer, u64)> {
        life.steps().iter().map(|s| (s.layer, s.end.0)).collect()
    }

    #[test]
    fn who_follows_another_has_its_steps_below_the_host() {
        let mut lives = Lives::default();
        let other = lives.begin(0, Ddir::Write, 0, 4096, Time(0));
        lives.mark(other, Layer::Link, Why::Data, 0, Time(10));
        lives.mark(other, Layer::Nand, Why::Program, 1, Time(50));
        lives.mark(other, Layer::Completion, Why::Interrupt, 2, Time(60));
        let io = lives.begin(1, Ddir::Sync, 0, 0, Time(5));
        lives.mark(io, Layer::Syscall, Why::Work, 3, Time(20));
        lives.follow(io, other, (Layer::Syscall, Why::Journal, 3));
        let all = [(Layer::Syscall, 20), (Layer::Nand, 50), (Layer::Syscall, 60)];
        assert_eq!(told(lives.get(io)), all);
        assert_eq!(lives.get(io).spent().iter().sum::<u64>(), 55);
        assert_eq!(told(lives.get(other)).len(), 3, "the other is as it was");
    }

    #[test]
    fn a_life_without_end_keeps_its_latest_steps() {
        let mut lives = Lives::default();
        let long = lives.begin(0, Ddir::Write, 0, 0, Time(0));
        for i in 0..1_000u64 {
            let at = i * 100;
            let part = lives.begin(0, Ddir::Write, 0, 4096, Time(at + 50));
            lives.mark(part, Layer::Link, Why::Data, 0, Time(at + 60));
            lives.mark(part, Layer::Nand, Why::Program, 0, Time(at + 100));
            lives.go_on(long, part);
        }
        let steps = told(lives.get(long));
        assert!(steps.len() > MAX_STEPS - 4);
        assert_eq!((steps[0].0, lives.get(long).dropped), (Layer::Application, 0));
        for (step, before) in steps[1..].iter().zip(&steps) {
            let (layer, ns) = match step.1 % 100 {
                50 => (Layer::Application, 50),
                60 => (Layer::Link, 10),
                _ => (Layer::Nand, 40),
            };
            assert_eq!((step.0, step.1 - before.1), (layer, ns));
        }
        assert_eq!(steps[steps.len() - 1].1, 100_000);
    }
}
