//! The controller: from a doorbell to a completion entry.
//!
//! A command passes these stages; those in brackets exist only where configured or needed.
//!
//! 1. doorbell: a posted write, seen by the controller `t_post` later;
//! 2. submission queue: until arbitration picks it and the limit of commands in flight has room;
//! 3. fetch: 64 bytes over the link, and a round trip of latency;
//! 4. firmware: a core decodes and translates it \[cache look-up\];
//! 5. execution: module `execute`;
//! 6. \[the device's limits\], data and completion entry over the link, a core builds the entry,
//!    and it becomes visible to the host `t_post` later.
//!
//! Events of its own: `Fetch`, `Firmware`, `Posted`, and `DataIn` for commands with data to the
//! device; `DataOut` where a read waits for memory or limits, and for each turn of a large one (module `stream`).
//! Everything else happens inside those or in the flash's events. Simplifications that buy
//! this: the core that builds the completion entry is booked when the data begin to leave, not when
//! they have left, and the entry's 16 bytes travel with the data.
//!
//! Left out: the admin queue, PRP lists and metadata, and command aborts.

mod background;
mod execute;
mod read;
mod staging;
mod stream;
#[cfg(test)]
mod tests;
mod write;

use crate::cache::{Cache, CacheStats, Fill, LineId, Woken, ways_of};
use crate::config::{Arbitration, CacheConfig, DeviceConfig, QueueConfig, SasConfig};
use crate::controller::background::{Background, WriteBack};
use crate::controller::execute::{BehindTrims, LookUp, TrimInCache};
use crate::controller::read::{Flight, OnCore, Sum};
use crate::controller::staging::Staging;
use crate::controller::stream::Stream;
use crate::dram::Dram;
use crate::firmware::{Firmware, Grant};
use crate::front::{Front, Starved, Taken};
use crate::ghost::Shape;
use crate::guard::Guard;
use crate::limits::{Cap, Rate};
use crate::link::{Link, Switch, Transfer};
use crate::partition::{Epoch, LATENCY, PARTITION_NAMES, PARTITIONS, Partitions};
use crate::power::PowerLimit;
use crate::queue::{Posted, QueueFull};
use crate::readahead::ReadAhead;
use crate::stats::{
    ByClass, CachePartition, CachedClass, Counts, DeviceStats, Energy, OPCODES, slot,
};
use std::collections::VecDeque;
use wordline_base::track::Track;
use wordline_base::{
    BadValue, Contents, Ctx, Event, IoId, Kind, Layer, Lpn, SectorSize, Slab, Span, Time, Why,
};
use wordline_ftl::config::FtlCost;
use wordline_ftl::{Ftl, GcReport, HeldUp, Piece, Touch, Translation, Translator, Turns};
use wordline_nand::{Class, Geometry, Nand, Record};
use wordline_nvme::{Opcode, QueuePriority, Sqe, Status};

/// No command.
pub(crate) const NONE: u32 = u32::MAX;

/// Places of the link layer in lives and drawings.
pub(crate) const TO_DEVICE: u32 = 0;
pub(crate) const TO_HOST: u32 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Fetch and firmware.
    Decode,
    /// Firmware translates a read that the cache does not hold.
    Translate,
    /// Write data are on their way.
    DataIn,
    /// A read's data come from the flash, or from reads that others began.
    Flash,
    /// A write or trim waits until others have written its sectors.
    Turn,
    /// The rest of partly written sectors is being read.
    Merge,
    /// A write enters the cache, sector by sector.
    Insert,
    /// A write, flush or trim is with the FTL.
    Ftl,
    /// A flush waits for the cache's write-backs.
    WriteBack,
    /// A trim waits for a write-back of its sectors.
    Trim,
    /// A read's data are being copied out of the cache's memory, or wait for the device's limits. Data that take
    /// turns do so in stage `Flash`.
    Limit,
    /// The completion entry is on its way.
    Posting,
}

#[derive(Clone, Copy)]
pub(crate) struct Command {
    pub sqe: Sqe,
    pub sq: u16,
    pub stage: Stage,
    pub status: Status,
    /// The first sector touched.
    pub lpn: u32,
    /// Sectors touched, partly touched ones included.
    pub sectors: u32,
    /// Whose part of the cache it uses.
    pub partition: u8,
    /// A write: the next sector to enter the cache.
    pub cursor: u32,
    /// Parts under way.
    pub pending: u32,
    /// What the last part waited for was called.
    pub waited_for: Why,
    /// Parts that a flash read has just woken.
    pub woken: u32,
    /// A copy into the cache's memory ends then.
    pub copied: Time,
    /// What the sectors of a vector read hold.
    pub held: Option<u32>,
    /// Its data that take turns, or `NONE`.
    pub stream: u32,
    pub own: Own,
}

/// What a command of one opcode has, and none of another.
#[derive(Clone, Copy, Default)]
pub(crate) struct Own(u64);

impl Own {
    /// A read, and what to read ahead of it: the first sector, and how many.
    pub fn of_read((first, sectors): (u32, u32)) -> Own {
        Own(u64::from(first) << 32 | u64::from(sectors))
    }
    pub fn ahead(self) -> (u32, u32) {
        ((self.0 >> 32) as u32, self.0 as u32)
    }
    /// A write, and for how long the collector had held writes up before it came to the FTL.
    pub fn of_write(held_before: Span) -> Own {
        Own(held_before.0)
    }
    pub fn held_before(self) -> Span {
        Span(self.0)
    }
}

/// A drive's controller with its flash and, unless the FTL is on the host, its FTL. It takes commands and
/// events, and is polled for completions.
pub struct Controller {
    config: DeviceConfig,
    cost: FtlCost,
    geometry: Geometry,
    nand: Nand,
    ftl: Option<Translator>,
    /// For how long the collector held writes up.
    held_up: HeldUp,
    front: Front,
    link: Link,
    firmware: Firmware,
    read_cap: Cap,
    write_cap: Cap,
    program_rate: Rate,
    commands: Slab<Command>,
    /// Data of commands that are more than a turn of the link.
    streams: Slab<Stream>,
    /// Bytes of a turn; `u32::MAX` where data go whole.
    turn_bytes: u32,
    flights: Slab<Flight>,
    /// Looks of an FTL that has to look up where sectors are.
    look_ups: Slab<LookUp>,
    looks_up: bool,
    sums: Slab<Sum>,
    on_core: Slab<OnCore>,
    background: Background,
    /// The FTL's program that ended last.
    programmed: Option<Record>,
    turns: Turns,
    staging: Staging,
    write_backs: Slab<WriteBack>,
    /// There were writes with FUA to a cache that would lose them.
    forced: bool,
    /// Writes that wait for less to be dirty, in the order in which they came.
    admission: VecDeque<u32>,
    /// Trims that wait in the cache.
    trims: Vec<TrimInCache>,
    behind_trims: BehindTrims,
    cache: Option<Cache>,
    /// By partition of the cache.
    read_ahead: Vec<ReadAhead>,
    /// Where the cache adapts.
    epoch: Option<Epoch>,
    /// What programs and erasures may draw.
    power: Option<Box<PowerLimit>>,
    /// The cache's memory bus.
    dram: Dram,
    /// Commands whose wait at a cache line is over.
    woken: VecDeque<Woken>,
    /// Flushes whose write-backs are over.
    flushable: VecDeque<u32>,
    /// Scratch space, kept for its memory.
    pieces: Vec<Piece>,
    misses: Vec<(u32, u32, Fill)>,
    touched: Vec<(LineId, u32, u32)>,
    counts: Counts,
    by_class: ByClass<{ OPCODES.len() }>,
    /// Sectors read, by hits and misses of the cache.
    read_by_class: ByClass<2>,
    /// What it has told a collector on the host.
    gc_report: Option<GcReport>,
    /// Completions of reads and writes tell the LUN of their first sector.
    tells_places: bool,
    /// Of a SATA drive, whether what it took last is a command that is not queued.
    unqueued: Option<bool>,
}

impl Controller {
    /// The FTL did not take a line of the cache, with data of writes that were over already.
    pub fn is_read_only(&self) -> bool {
        self.counts.lost_write_backs > 0
    }
    /// Whether a controller can be built, with an FTL in it or without: all that [`Controller::new`]
    /// refuses. Keys are those below `device`.
    pub fn check_config(device: &DeviceConfig, nand: &Nand, ftl: bool) -> Result<(), BadValue> {
        let sector = nand.geometry.sector;
        Controller::check_front(device)?;
        PowerLimit::new(device, nand.config(), nand.geometry.luns)?;
        if device.sata.is_some() && !ftl {
            let message = "is a drive with its FTL: with placement = \"host\", remove it";
            return Err(BadValue::new("sata", message));
        }
        if device.cache.is_some() && !ftl {
            let message = "needs the FTL in the drive: with placement = \"host\", remove it";
            return Err(BadValue::new("cache", message));
        }
        if let Some(c) = &device.cache {
            let (shape, partitions) = Cache::check(c, sector)?;
            read_aheads(c, (shape, partitions.as_ref()), 0, (1, sector))?;
            Epoch::new(&c.epoch)?;
        }
        Ok(())
    }

    /// The same of what is between the host and the inside of a drive.
    pub(crate) fn check_front(device: &DeviceConfig) -> Result<(), BadValue> {
        let positive = [
            ("queues.count", device.queues.count),
            ("queues.in_flight", device.queues.in_flight),
            ("firmware.cores", device.firmware.cores),
        ];
        for (key, value) in positive {
            if value == 0 {
                return Err(BadValue::new(key, "must be at least 1"));
            }
        }
        let QueueConfig { burst, weights, .. } = device.queues;
        if wordline_nvme::arbitration(burst, [1; 3]).is_none() {
            let message = "must be 1, 2, 4, ... or 64, or 0 for no limit (feature 01h)";
            return Err(BadValue::new("queues.burst", message));
        }
        if wordline_nvme::arbitration(burst, weights).is_none() {
            return Err(BadValue::new(
                "queues.weights",
                "must each be from 1 to 256 (feature 01h)",
            ));
        }
        let weighted = device.queues.arbitration == Arbitration::WeightedUrgent;
        if weighted && !device.queues.weighted_urgent {
            let message = "asks for what the drive does not offer (CAP.AMS): take round-robin";
            return Err(BadValue::new("queues.arbitration", message));
        }
        if device.queues.guard.is_some() && !weighted {
            let message = "guards against urgent queues: set arbitration to weighted-urgent, or \
                           guard to none";
            return Err(BadValue::new("queues.guard", message));
        }
        if !matches!(device.lba, 512 | 4096) {
            return Err(BadValue::new("lba", "must be 512 or 4096"));
        }
        if device.queues.count > 65_535 {
            return Err(BadValue::new("queues.count", "must be at most 65535"));
        }
        if !(2..=65_536).contains(&device.queues.depth) {
            let message = "must be 2 to 65536: one slot always stays empty";
            return Err(BadValue::new("queues.depth", message));
        }
        if device.queues.in_flight > 1 << 20 {
            return Err(BadValue::new("queues.in_flight", "must be at most 1048576"));
        }
        if wordline_nvme::mdts(device.queues.max_transfer).is_none() {
            let message = "must be 0 for no limit, or a power of two from 8192 bytes on (MDTS)";
            return Err(BadValue::new("queues.max_transfer", message));
        }
        device.queues.guard.as_ref().map(Guard::new).transpose()?;
        device.check_sata()?;
        if !matches!(device.link.turn_bytes, None | Some(0 | 512..=1_048_576)) {
            let message = "must be 512 to 1048576, or 0 for all data of a command";
            return Err(BadValue::new("link.turn_bytes", message));
        }
        Link::new(&device.link).map(drop)
    }

    /// A drive whose queues are still to be created. `ftl` is `None` where it is on the host.
    pub fn new(
        device: &DeviceConfig,
        nand: Nand,
        ftl: Option<Translator>,
    ) -> Result<Controller, BadValue> {
        let geometry = nand.geometry;
        Controller::check_config(device, &nand, ftl.is_some())?;
        let sectors = ftl.as_ref().map_or(0, Translation::sectors);
        let power = PowerLimit::new(device, nand.config(), geometry.luns)?;
        let (mut cache, mut read_ahead, mut epoch) = (None, Vec::new(), None);
        if let Some(c) = &device.cache {
            let new = Cache::new(c, geometry.sector)?;
            let sets = (new.shape(), new.partitions.as_ref());
            read_ahead =
                read_aheads(c, sets, sectors, (geometry.sectors_per_unit, geometry.sector))?;
            if c.partition.is_some() || read_ahead.iter().any(ReadAhead::adapts) {
                epoch = Some(Epoch::new(&c.epoch)?);
            }
            cache = Some(new);
        }
        let limits = &device.limits;
        Ok(Controller {
            cost: FtlCost::default(),
            geometry,
            background: Background::new(geometry.luns),
            nand,
            ftl,
            held_up: HeldUp::default(),
            front: Front::new(device)?,
            link: match &device.sata {
                Some(sata) => Link::sata(sata, &device.link)?,
                None => Link::new(&device.link)?,
            },
            firmware: Firmware::new(device.firmware.cores),
            read_cap: Cap::new(limits.read_rate, limits.read_iops),
            write_cap: Cap::new(limits.write_rate, limits.write_iops),
            program_rate: Rate::new(limits.program_rate),
            commands: Slab::with_capacity(device.queues.in_flight.min(4096) as usize),
            streams: Slab::default(),
            turn_bytes: match device.sata {
                Some(_) => u32::MAX,
                None => turn_of(device.link.turn_bytes),
            },
            flights: Slab::with_capacity(256),
            look_ups: Slab::default(),
            looks_up: false,
            sums: Slab::with_capacity(16),
            on_core: Slab::with_capacity(16),
            turns: Turns::default(),
            staging: Staging::default(),
            write_backs: Slab::default(),
            forced: false,
            admission: VecDeque::new(),
            trims: Vec::new(),
            behind_trims: BehindTrims::default(),
            cache,
            read_ahead,
            epoch,
            power: power.map(Box::new),
            dram: Dram::new(device.cache.as_ref().and_then(|cache| cache.refresh.as_ref())),
            woken: VecDeque::new(),
            flushable: VecDeque::new(),
            programmed: None,
            pieces: Vec::with_capacity(64),
            misses: Vec::with_capacity(64),
            touched: Vec::new(),
            counts: Counts::default(),
            by_class: ByClass::default(),
            read_by_class: ByClass::default(),
            gc_report: None,
            tells_places: false,
            unqueued: device.sata.is_some().then_some(false),
            config: device.clone(),
        })
    }

    /// Processor time of the FTL's work, paid by the firmware cores; none until set.
    pub fn set_ftl_cost(&mut self, cost: &FtlCost) {
        self.cost = cost.clone();
        // What the map cost is asked for at the same place.
        self.held_up = HeldUp::new(cost.map.is_some());
    }

    /// Completions tell where data lie: before the start.
    pub fn tell_places(&mut self) {
        self.tells_places = true;
    }

    /// Puts the drive behind a PCIe switch: before the start.
    pub fn join_switch(&mut self, switch: Switch) {
        self.link.join(switch);
    }

    /// Puts the drive behind a bridge, which is its host over a SAS link: before the start.
    pub fn join_bridge(&mut self, sas: &SasConfig) -> Result<(), BadValue> {
        self.link = Link::sas(sas)?;
        self.turn_bytes = u32::MAX;
        Ok(())
    }

    /// Switches the drive on: call once, before anything else.
    pub fn start(&mut self, ctx: &mut Ctx) {
        if ctx.stamps.is_on() {
            let g = &self.geometry;
            ctx.stamps.flash = Contents::new(g.sectors(), g.sectors_per_unit);
        }
        if let Some(ftl) = &mut self.ftl {
            self.looks_up = ftl.looks_up();
            ftl.start(ctx);
        }
        self.settle(ctx);
    }

    /// Creates a submission queue and its completion queue, each with `depth` entries.
    pub fn create_queue(
        &mut self,
        sq: u16,
        cq: u16,
        depth: u32,
        priority: QueuePriority,
    ) -> Result<(), BadValue> {
        self.front.create_queue(sq, cq, depth, priority)
    }

    /// A further submission queue whose commands complete in a queue that exists (NVMe 1.4, section 4.1).
    pub fn create_submission_queue(
        &mut self,
        sq: u16,
        cq: u16,
        depth: u32,
        priority: QueuePriority,
    ) -> Result<(), BadValue> {
        self.front.create_submission_queue(sq, cq, depth, priority)
    }

    /// Whether completions of a queue raise interrupts (NVMe 1.4 section 5.3, IEN): off for polled
    /// queues.
    pub fn set_interrupts(&mut self, cq: u16, on: bool) {
        self.front.set_interrupts(cq, on);
    }

    /// The mask bit of a completion queue's vector, before anything is posted.
    pub fn set_masked(&mut self, cq: u16, masked: bool) {
        self.front.set_masked(cq, masked);
    }
    /// The host writes that bit now, and has taken `head` entries from the queue.
    pub fn write_mask(&mut self, ctx: &mut Ctx, cq: u16, masked: bool, head: u64) {
        self.front.write_mask(ctx, cq, masked, head, self.link.t_bell);
    }

    /// The driver writes a command into the queue's memory.
    #[inline]
    pub fn enqueue(&mut self, sq: u16, sqe: &Sqe) -> Result<(), QueueFull> {
        self.front.enqueue(sq, sqe)
    }

    /// The host writes the tail doorbell now.
    #[inline]
    pub fn doorbell(&mut self, ctx: &mut Ctx, sq: u16) {
        self.doorbell_after(ctx, sq, Span::ZERO);
    }
    /// The same, so much later.
    #[inline]
    pub fn doorbell_after(&mut self, ctx: &mut Ctx, sq: u16, after: Span) {
        self.front.doorbell(ctx, sq, self.link.t_bell + after);
    }

    /// Takes an event that it set.
    #[inline]
    pub fn on_event(&mut self, ctx: &mut Ctx, event: Event) {
        self.on_event_moving(ctx, event, &mut |_, _, _| true);
    }
    /// The same for a driver that keeps the flash's bytes: `moved` does what a finished operation does
    /// to them before anybody learns of it, and answers false if that could not be done, so that the
    /// operation has failed.
    pub fn on_event_moving(
        &mut self,
        ctx: &mut Ctx,
        event: Event,
        moved: &mut impl FnMut(&Record, &Translator, &Nand) -> bool,
    ) {
        let index = event.index();
        match event.kind() {
            // Neither fetching nor posting gives the FTL or the cache anything to do.
            Kind::Fetch => {
                self.front.on_doorbell(ctx.now);
                return self.fetch(ctx);
            }
            Kind::Posted => return self.post(ctx, index),
            Kind::Firmware => self.execute(ctx, index),
            Kind::Background => self.background_ready(ctx),
            Kind::Summed => self.core_done(ctx, index),
            Kind::DataIn if self.commands[index].stream != NONE => self.fetch_turn(ctx, index),
            Kind::DataIn => self.data_arrived(ctx, index),
            Kind::DataOut if self.commands[index].stream != NONE => self.next_of_stream(ctx, index),
            // No data take turns: nobody waits for the end of this one.
            Kind::DataOut if self.turns.is_empty() => return self.finish(ctx, index),
            Kind::DataOut => self.finish(ctx, index),
            Kind::Release => self.release_held_back(ctx, event.index()),
            Kind::Aggregation => return self.front.aggregation_over(ctx, index as u16),
            Kind::NandArray
            | Kind::NandBus
            | Kind::NandPart
            | Kind::NandDecoded
            | Kind::NandPlane => match self.nand.on_event(ctx, event.kind(), index) {
                Some(key) => {
                    if let Some(ftl) = &self.ftl
                        && !moved(self.nand.record(key), ftl, &self.nand)
                    {
                        self.nand.fail(key);
                    }
                    self.flash_done(ctx, key);
                }
                None => return,
            },
            Kind::FtlTimer => return self.on_timer(ctx, index),
            _ => return,
        }
        self.settle(ctx);
        #[cfg(debug_assertions)]
        if let Some(cache) = &self.cache {
            cache.assert_split();
        }
    }

    /// The FTL's timer.
    pub fn on_timer(&mut self, ctx: &mut Ctx, index: u32) {
        if let Some(ftl) = &mut self.ftl {
            ftl.on_timer(ctx, index);
        }
        self.settle(ctx);
    }

    /// Whether [`Controller::poll`] or [`Controller::poll_interrupt`] has something.
    #[inline]
    pub fn has_output(&self) -> bool {
        self.front.has_output()
    }
    /// The next completion that became visible to the host; call until `None` after each input.
    #[inline]
    pub fn poll(&mut self) -> Option<Posted> {
        self.front.poll()
    }

    /// Fetches commands while there are any and the limit in flight has room.
    fn fetch(&mut self, ctx: &mut Ctx) {
        while self.front.has_work()
            && self.commands.len() < self.config.queues.in_flight as usize
            && (self.unqueued.is_none() || self.may_follow())
        {
            let Some(taken) = self.front.take(ctx.now) else { return };
            let Taken { sqe, sq, priority, arrived } = taken;
            let partitions = self.cache.as_ref().and_then(|cache| cache.partitions.as_ref());
            let partition = partitions.map_or(LATENCY, |p| p.of(sqe.class, priority));
            let (lpn, sectors) = sectors_of(&sqe, self.geometry.sector);
            if let Some(ftl) = &mut self.ftl
                && matches!(sqe.opcode, Opcode::Read | Opcode::Write)
            {
                ftl.prefetch(ctx, Lpn(lpn));
                if let Some(cache) = &self.cache {
                    cache.prefetch(lpn);
                }
            }
            let fetch = self.link.fetch(ctx.now);
            let work = self.firmware_work(&sqe, sectors);
            let grant = if work == Span::ZERO {
                Grant { core: 0, start: fetch.arrival, end: fetch.arrival }
            } else {
                self.firmware.book(fetch.arrival, work)
            };
            let ready = match &self.config.cache {
                Some(c) if matches!(sqe.opcode, Opcode::Read | Opcode::Write) => {
                    grant.end + c.t_lookup
                }
                _ => grant.end,
            };
            self.by_class.see(sqe.class, || self.counts.commands_in);
            self.counts.commands_in[slot(sqe.opcode)] += 1;
            let waits = &mut self.counts.waits;
            waits.queue += ctx.now.since(arrived).0;
            waits.link += fetch.start.since(ctx.now).0;
            waits.firmware += grant.start.since(fetch.arrival).0;
            self.mark_fetch(ctx, sqe.io, sq, arrived, fetch, grant, ready);
            let status = self.check(&sqe).err().unwrap_or(Status::Success);
            let cmd = self.commands.insert(Command {
                sqe,
                sq,
                stage: Stage::Decode,
                status,
                partition,
                lpn,
                sectors,
                cursor: lpn,
                pending: 0,
                waited_for: Why::Work,
                woken: 0,
                copied: Time::ZERO,
                held: None,
                stream: NONE,
                own: Own::default(),
            });
            // Read-ahead sees reads in the order of their fetch: a core that is through with a short one may
            // overtake another that has the long one in front of it.
            if sqe.opcode == Opcode::Read
                && status == Status::Success
                && let Some(ahead) = self.read_ahead.get_mut(usize::from(partition))
            {
                let to_read = ahead.on_read(lpn, sectors).unwrap_or_default();
                self.commands[cmd].own = Own::of_read(to_read);
            }
            if matches!(sqe.opcode, Opcode::Write | Opcode::Deallocate) {
                ctx.stamps.bind(cmd, sqe.submitted);
            }
            ctx.at(ready, Kind::Firmware, cmd);
        }
    }

    /// A SATA drive's flush or trim is no queued command: it waits until all others are over, and those behind it
    /// wait for it (ata_std_qc_defer, Linux 4.14; a request that was put off goes before those that come later).
    #[inline(never)]
    fn may_follow(&mut self) -> bool {
        let Some(next) = self.front.next_opcode() else { return true };
        let next = matches!(next, Opcode::Flush | Opcode::Deallocate);
        let follows = self.commands.is_empty() || !next && self.unqueued == Some(false);
        if follows {
            self.unqueued = Some(next);
        }
        follows
    }

    /// What a command that is taken now was left in its queue for.
    #[inline]
    fn why_queued(&self) -> Why {
        let room = || self.commands.len() + 1 < self.config.queues.in_flight as usize;
        if self.unqueued.is_some() && room() { Why::Unqueued } else { Why::SlotsFull }
    }

    #[allow(clippy::too_many_arguments)] // The stages of a fetch, each once.
    fn mark_fetch(
        &self,
        ctx: &mut Ctx,
        io: IoId,
        sq: u16,
        arrived: Time,
        fetch: Transfer,
        grant: Grant,
        ready: Time,
    ) {
        let queue = u32::from(sq);
        let (now, link) = (ctx.now, self.link.layer);
        if let Some(life) = ctx.lives.of(io) {
            if self.link.t_tables > Span::ZERO {
                let rung = Time(arrived.0 - self.link.t_tables.0);
                life.mark(link, Why::Doorbell, TO_DEVICE, rung);
                life.mark(link, Why::Fetch, TO_DEVICE, arrived);
            }
            life.mark(link, Why::Doorbell, TO_DEVICE, arrived);
            life.mark(Layer::QueueWait, self.why_queued(), queue, now);
            life.mark(link, Why::LinkBusy, TO_DEVICE, fetch.start);
            life.mark(link, Why::Fetch, TO_DEVICE, fetch.arrival);
            life.mark(Layer::Ftl, Why::FirmwareBusy, grant.core, grant.start);
            life.mark(Layer::Ftl, Why::Work, grant.core, grant.end);
            life.mark(Layer::Cache, Why::Work, 0, ready);
        }
        if ctx.tracks.is_some() {
            // From the doorbell's arrival to the command's.
            ctx.slice(Track::Queue(queue), "queued", arrived, fetch.arrival, io);
            ctx.slice(Track::Link(TO_DEVICE), "command", fetch.start, fetch.end, io);
            if grant.end > grant.start {
                ctx.slice(Track::Firmware(grant.core), "command", grant.start, grant.end, io);
            }
        }
    }

    /// Core time of a command before it is executed. The translation of a read is in it unless a
    /// cache is asked first; a write pays the FTL here unless it goes to the cache.
    fn firmware_work(&self, sqe: &Sqe, sectors: u32) -> Span {
        let (f, c) = (&self.config.firmware, &self.cost);
        let n = u64::from(sectors);
        let further = |base: Span| base + f.t_sector * n.saturating_sub(1);
        match sqe.opcode {
            Opcode::Read if self.cache.is_some() => further(f.t_read),
            Opcode::Read => further(f.t_read) + c.read_command + c.read_sector * n,
            Opcode::Write => {
                let mut work = further(f.t_write);
                if self.cache.is_none() {
                    work += c.write_command + c.write_sector * n;
                }
                let partial = touch_of(sqe, self.geometry.sector).partial().count() as u64;
                work + (c.read_command + c.read_sector) * partial
            }
            Opcode::VectorRead | Opcode::VectorWrite | Opcode::VectorStage => {
                further(f.t_other) + self.collectors_work(sqe)
            }
            Opcode::Flush | Opcode::Deallocate | Opcode::VectorReset => f.t_other,
            Opcode::GcCounts | Opcode::GcCollect => f.t_other,
        }
    }

    /// Core time of a collector that runs in the drive under a map on the host: what it tells of, it has
    /// looked at.
    fn collectors_work(&self, sqe: &Sqe) -> Span {
        match sqe.opcode {
            _ if sqe.beside == 0 => Span::ZERO,
            Opcode::VectorRead => {
                self.cost.gc_sector * u64::from(u32::from(sqe.beside) / wordline_ftl::MOVE)
            }
            Opcode::VectorWrite if sqe.work == Class::GcProgram as u8 => self.cost.program_unit,
            _ => Span::ZERO,
        }
    }

    /// Asks for a write's data. The device's write limits hold it back here: its data stay in the
    /// transfer buffer until they may go on.
    pub(crate) fn ask_for_data(&mut self, ctx: &mut Ctx, cmd: u32) {
        let command = &mut self.commands[cmd];
        command.stage = Stage::DataIn;
        if command.sqe.opcode == Opcode::Write && self.begin_stream(ctx, cmd) {
            return self.fetch_turn(ctx, cmd);
        }
        let command = &self.commands[cmd];
        let (io, bytes) = (command.sqe.io, on_link(&command.sqe, self.geometry.sector));
        let link = self.link.layer;
        let transfer = self.link.data_in(ctx.now, bytes);
        let admitted = self.write_cap.admit(ctx.now, bytes).max(transfer.arrival);
        self.counts.bytes_written += u64::from(bytes);
        self.counts.waits.link += transfer.start.since(ctx.now).0;
        self.counts.waits.limits += admitted.since(transfer.arrival).0;
        if let Some(life) = ctx.lives.of(io) {
            life.mark(link, Why::LinkBusy, TO_DEVICE, transfer.start);
            life.mark(link, Why::Data, TO_DEVICE, transfer.arrival);
            life.mark(Layer::Limit, Why::WriteLimit, 0, admitted);
        }
        ctx.slice(Track::Link(TO_DEVICE), "data in", transfer.start, transfer.end, io);
        ctx.at(admitted, Kind::DataIn, cmd);
    }

    /// A read's data are in the device: on to the host once the limits let them.
    pub(crate) fn respond(&mut self, ctx: &mut Ctx, cmd: u32) {
        let admitted = self.admit(ctx, cmd, ctx.now);
        if admitted == ctx.now {
            return self.finish(ctx, cmd);
        }
        self.commands[cmd].stage = Stage::Limit;
        ctx.at(admitted, Kind::DataOut, cmd);
    }

    /// When the limits let a read's data go on that are in the device, or at hand, at `ready`.
    #[inline(always)]
    pub(crate) fn admit(&mut self, ctx: &mut Ctx, cmd: u32, ready: Time) -> Time {
        let command = &self.commands[cmd];
        // The limits count what users read: a host FTL's own reads are its affair (RAIL reads at
        // 350 kIOPS beside garbage collection and reconstruction, under a cap of 380).
        let work = command.sqe.work;
        let users = work == Class::UserRead as u8
            || work == Class::RebuildRead as u8 && self.config.limits.count_rebuild_reads;
        let own = command.sqe.opcode == Opcode::VectorRead && !users;
        if command.status != Status::Success || own {
            return ready;
        }
        let admitted = self.read_cap.admit(ready, command.sqe.bytes);
        self.counts.waits.limits += admitted.since(ready).0;
        ctx.mark(command.sqe.io, Layer::Limit, Why::ReadLimit, 0, admitted);
        admitted
    }

    pub(crate) fn fail(&mut self, ctx: &mut Ctx, cmd: u32, status: Status) {
        self.commands[cmd].status = status;
        self.finish(ctx, cmd);
    }

    /// The command is executed: data, if it has any for the host, and the completion entry.
    pub(crate) fn finish(&mut self, ctx: &mut Ctx, cmd: u32) {
        let command = &mut self.commands[cmd];
        debug_assert_ne!(command.stage, Stage::Posting, "a command finishes once");
        command.stage = Stage::Posting;
        if !self.turns.is_empty() {
            self.leave(ctx, cmd);
        }
        let command = &self.commands[cmd];
        let last_turn = match command.stream {
            NONE => None,
            _ => self.end_stream(ctx, cmd),
        };
        let command = &self.commands[cmd];
        let (io, copied) = (command.sqe.io, command.copied);
        let bytes = match command.status {
            Status::Success if command.sqe.opcode.is_data_out() => {
                last_turn.unwrap_or_else(|| on_link(&command.sqe, self.geometry.sector))
            }
            _ => 0,
        };
        let t_complete = self.config.firmware.t_complete;
        let transfer = self.link.data_out(ctx.now, bytes);
        let sent = transfer.end.max(copied);
        let core = match t_complete {
            Span::ZERO => Grant { core: 0, start: ctx.now, end: ctx.now },
            _ => self.firmware.reserve(ctx.now, t_complete),
        };
        let start = core.start.max(sent);
        let (visible, link) = (start + t_complete + self.link.t_post, self.link.layer);
        self.counts.bytes_read += u64::from(bytes);
        self.counts.waits.link += transfer.start.since(ctx.now).0;
        self.counts.waits.firmware += start.since(sent).0;
        if let Some(life) = ctx.lives.of(io) {
            let data = if bytes > 0 { Why::Data } else { Why::Work };
            life.mark(Layer::Cache, Why::Work, 0, copied);
            life.mark(link, Why::LinkBusy, TO_HOST, transfer.start);
            life.mark(link, data, TO_HOST, transfer.end);
            life.mark(Layer::Ftl, Why::FirmwareBusy, core.core, start);
            life.mark(Layer::Ftl, Why::Work, core.core, start + t_complete);
            life.mark(link, Why::Work, TO_HOST, visible);
        }
        if ctx.tracks.is_some() {
            let name = if bytes > 0 { "data out" } else { "completion" };
            ctx.slice(Track::Link(TO_HOST), name, transfer.start, transfer.end, io);
            if core.end > core.start {
                ctx.slice(Track::Firmware(core.core), "completion", core.start, core.end, io);
            }
        }
        ctx.at(visible, Kind::Posted, cmd);
    }

    /// A completion entry becomes visible to the host, and its command's slot is free.
    #[inline(always)]
    fn post(&mut self, ctx: &mut Ctx, cmd: u32) {
        let Command { sqe, sq, status, mut held, lpn, .. } = self.commands.remove(cmd);
        if self.tells_places && matches!(sqe.opcode, Opcode::Read | Opcode::Write) {
            let at = self.ftl.as_ref().and_then(|ftl| ftl.lies_at(Lpn(lpn)));
            held = at.map(|(ppa, full)| self.geometry.lun_of(ppa) | u32::from(full) << 16);
        }
        self.front.post(ctx, (sq, sqe.cid), sqe.io, status, held);
        self.counts.commands_out[slot(sqe.opcode)] += 1;
        let ok = status == Status::Success;
        self.counts.failed += u64::from(!ok);
        if sqe.opcode == Opcode::Write {
            match ok {
                true => self.counts.bytes_taken += u64::from(on_link(&sqe, self.geometry.sector)),
                false => self.counts.failed_writes += 1,
            }
        }
        if self.front.has_work() {
            self.fetch(ctx);
        }
    }
}

impl Controller {
    /// Interrupts that come without a completion, because the aggregation time is over: the
    /// completion queues they are for. Call until `None` after each input if coalescing is
    /// configured.
    #[inline]
    pub fn poll_interrupt(&mut self) -> Option<u16> {
        self.front.poll_interrupt()
    }

    /// Nothing is in flight, queued or being written back.
    pub fn idle(&self) -> bool {
        self.commands.is_empty()
            && self.front.idle()
            && self.flights.is_empty()
            && self.look_ups.is_empty()
            && self.streams.is_empty()
            && self.on_core.is_empty()
            && self.write_backs.is_empty()
            && self.background.is_empty()
            && self.power.as_ref().is_none_or(|limit| limit.is_empty())
            && self.nand.in_flight() == 0
    }
    /// Commands between fetch and completion.
    pub fn in_flight(&self) -> usize {
        self.commands.len()
    }
    /// What it was made of.
    pub fn config(&self) -> &DeviceConfig {
        &self.config
    }
    /// Whether there were writes with FUA to a cache that would lose them.
    pub fn was_forced(&self) -> bool {
        self.forced
    }
    /// The flash.
    pub fn nand(&self) -> &Nand {
        &self.nand
    }
    /// The flash, to be prepared or damaged before a run.
    pub fn nand_mut(&mut self) -> &mut Nand {
        &mut self.nand
    }
    /// The FTL in the drive, if it is ours.
    pub fn pblk(&self) -> Option<&Ftl> {
        self.ftl.as_ref().and_then(Translator::pblk)
    }
    /// pblk in the drive, to be changed.
    pub fn pblk_mut(&mut self) -> Option<&mut Ftl> {
        self.ftl.as_mut().and_then(Translator::pblk_mut)
    }
    /// The FTL in the drive, if there is one.
    pub fn ftl(&self) -> Option<&Translator> {
        self.ftl.as_ref()
    }
    /// The host says whether the drive's FTL may make space before it must: a vendor's command, taken at
    /// once.
    pub fn hold_collection(&mut self, ctx: &mut Ctx, hold: bool) {
        if let Some(ftl) = &mut self.ftl {
            ftl.hold_collection(ctx, hold);
            self.settle(ctx);
        }
    }
    /// The answer to a collector's order that was posted last.
    pub fn take_gc_report(&mut self) -> Option<GcReport> {
        self.gc_report.take()
    }
    /// The cache has a newer version of the sector than the FTL, or is about to hand one over.
    pub fn holds_dirty(&self, lpn: Lpn) -> bool {
        let Some(cache) = &self.cache else { return false };
        let line = cache.find(lpn.0 / cache.line_sectors).map(|id| cache.line(id));
        line.is_some_and(|line| {
            (line.dirty | line.writing) >> (lpn.0 % cache.line_sectors) & 1 == 1
        })
    }
    /// The FTL in the drive, to be changed.
    pub fn ftl_mut(&mut self) -> Option<&mut Translator> {
        self.ftl.as_mut()
    }

    /// What the cache has and had, by the class of commands.
    pub fn cached_by_class(&self) -> Vec<CachedClass> {
        let Some(cache) = &self.cache else { return Vec::new() };
        let lines = cache.lines_by_class().into_iter();
        let lines = lines.map(|(class, lines)| CachedClass { class, lines, hits: 0, misses: 0 });
        let mut rows: Vec<CachedClass> = lines.collect();
        for (class, [hits, misses]) in self.read_by_class.rows(&cache.read_counts()) {
            match rows.iter_mut().find(|row| row.class == class) {
                Some(row) => (row.hits, row.misses) = (hits, misses),
                None => rows.push(CachedClass { class, lines: 0, hits, misses }),
            }
        }
        rows
    }

    /// The cache by partition, where it is split or adapts.
    fn cache_partitions(&self) -> Vec<CachePartition> {
        let Some(cache) = self.cache.as_ref().filter(|_| self.epoch.is_some()) else {
            return Vec::new();
        };
        let row = |(i, stats): (usize, &CacheStats)| {
            let ahead = self.read_ahead.get(i);
            let ways = |&(at, latency): &(Time, u32)| {
                let all = self.config.cache.as_ref().map_or(0, |c| c.ways);
                (at.0, if i == 0 { latency } else { all - latency })
            };
            let partitions = cache.partitions.as_ref();
            CachePartition {
                name: if partitions.is_some() { PARTITION_NAMES[i] } else { "all" },
                stats: *stats,
                lines: cache.lines_of(i as u8),
                ways: cache.ways_of(i as u8).len() as u32,
                ways_over_time: partitions
                    .map_or(Vec::new(), |p| p.over_time.iter().map(ways).collect()),
                ahead_over_time: ahead.map_or(Vec::new(), |a| {
                    a.over_time.iter().map(|(at, sectors)| (at.0, *sectors)).collect()
                }),
            }
        };
        let n = if cache.partitions.is_some() { PARTITIONS } else { 1 };
        cache.stats_by_partition().iter().take(n).enumerate().map(row).collect()
    }

    /// Energy until `now` by [`crate::ENERGY_STATES`], in nanojoules: controller and memory doing
    /// nothing, firmware cores, and for reads, writes and collection what flash and link use.
    pub fn energy_by_state(&self, now: Time) -> [u64; 5] {
        let power = &self.config.power;
        let nj = |mw: u32, busy: Span| (u128::from(mw) * u128::from(busy.0) / 1000) as u64;
        let mut states = [
            nj(power.idle_mw, Span(now.0)),
            nj(power.firmware_mw, self.firmware.busy(now)),
            nj(power.link_mw, self.link.to_host_busy(now)),
            nj(power.link_mw, self.link.to_device_busy(now)),
            0,
        ];
        for (class, nj) in Class::ALL.into_iter().zip(self.nand.energy_by_class_nj()) {
            let state = match class {
                Class::UserRead | Class::RebuildRead | Class::MetaRead => 2,
                Class::UserProgram | Class::MetaProgram | Class::ParityProgram => 3,
                Class::GcRead | Class::GcProgram | Class::Erase => 4,
            };
            states[state] += nj;
        }
        states
    }

    /// The turn of a queue that most urgent commands came before, where they come first.
    pub fn starved(&self, now: Time) -> Option<Starved> {
        self.front.starved(now)
    }

    /// Counts, busy times and energy up to `now`.
    pub fn stats(&self, now: Time) -> DeviceStats {
        let c = &self.counts;
        let firmware_busy = self.firmware.busy(now);
        let (to_device, to_host) = (self.link.to_device_busy(now), self.link.to_host_busy(now));
        let power = &self.config.power;
        // 1 mW for 1 ns is 1 pJ.
        let joules = |mw: u32, busy: u64| f64::from(mw) * busy as f64 * 1e-12;
        let [nand_read, nand_program, nand_erase, nand_transfer] =
            self.nand.energy_nj().map(|(_, nj)| nj as f64 * 1e-9);
        let luns = 0..self.geometry.luns;
        DeviceStats {
            commands_in: c.commands_in,
            commands_out: c.commands_out,
            by_class: self.by_class.rows(&c.commands_in),
            failed: c.failed,
            bytes_read: c.bytes_read,
            bytes_written: c.bytes_written,
            bytes_taken: c.bytes_taken,
            failed_writes: c.failed_writes,
            interrupts: self.front.interrupts,
            lost_write_backs: c.lost_write_backs,
            rmw_units: c.rmw_units,
            rmw_read_bytes: c.rmw_read_bytes,
            rmw_waits: c.rmw_waits,
            fetched: self.front.fetched(),
            guard: self.front.guard_stats(),
            power: self
                .power
                .as_ref()
                .map(|limit| limit.stats(now, self.energy_by_state(now).iter().sum())),
            waits: c.waits,
            link_rate: self.link.rate(),
            link_to_device_busy_ns: to_device.0,
            link_to_host_busy_ns: to_host.0,
            firmware_busy_ns: firmware_busy.0,
            firmware_core_busy_ns: self.firmware.busy_by_core(now).map(|s| s.0).collect(),
            channel_busy_ns: (0..self.geometry.channels)
                .map(|channel| self.nand.channel_busy(channel, now).0)
                .collect(),
            decoder_busy_ns: (0..self.geometry.channels)
                .filter_map(|channel| Some(self.nand.decoder_busy(channel, now)?.0))
                .collect(),
            lun_busy_ns: luns.map(|lun| self.nand.lun_busy(lun, now).iter().sum()).collect(),
            cache: self.cache.as_ref().map(Cache::stats),
            cache_partitions: self.cache_partitions(),
            dirty_lines: self.cache.as_ref().map_or(0, Cache::dirty_lines),
            energy: Energy {
                idle: joules(power.idle_mw, now.0),
                firmware: joules(power.firmware_mw, firmware_busy.0),
                link: joules(power.link_mw, to_device.0 + to_host.0),
                nand_read,
                nand_program,
                nand_erase,
                nand_transfer,
            },
        }
    }
}

/// The read-ahead of each partition of a cache, before flash of so many sectors a unit; none if it reads
/// nothing ahead.
fn read_aheads(
    c: &CacheConfig,
    (shape, parts): (Shape, Option<&Partitions>),
    end: u64,
    (unit, sector): (u32, SectorSize),
) -> Result<Vec<ReadAhead>, BadValue> {
    let Some(config) = &c.read_ahead else { return Ok(Vec::new()) };
    let partitions = if c.partition.is_some() { PARTITIONS as u8 } else { 1 };
    let of = |partition| {
        let mut ahead = ReadAhead::new(config, end, shape, unit, sector)?;
        ahead.set_ways(ways_of(parts, shape, partition).len() as u32);
        Ok(ahead)
    };
    (0..partitions).map(of).collect()
}

/// The sectors a command touches: (first, count). Bytes for block commands, sectors for vector ones.
fn sectors_of(sqe: &Sqe, sector: SectorSize) -> (u32, u32) {
    let bytes = u64::from(sqe.bytes);
    if sqe.opcode.is_vector() {
        return (sqe.address as u32, sector.of(bytes) as u32);
    }
    let end = sector.holding(sqe.address.saturating_add(bytes));
    let first = sector.of(sqe.address);
    (first as u32, (end - first) as u32)
}

/// Bytes of a turn: a page if it is not said, and more than any command has where data go whole.
fn turn_of(said: Option<u32>) -> u32 {
    match said {
        None => wordline_nvme::MIN_PAGE,
        Some(0) => u32::MAX,
        Some(bytes) => bytes,
    }
}

/// What a write or trim does to sectors.
pub(crate) fn touch_of(sqe: &Sqe, sector: SectorSize) -> Touch {
    let (offset, bytes) = (sqe.address, u64::from(sqe.bytes));
    match sqe.opcode {
        Opcode::Deallocate => Touch::trim(offset, bytes, sector),
        _ => Touch::write(offset, bytes, sector),
    }
}

/// Bytes of a command's data that cross the link.
fn on_link(sqe: &Sqe, sector: SectorSize) -> u32 {
    sqe.bytes - (u32::from(sqe.inner) << sector.shift()) + u32::from(sqe.beside)
}
