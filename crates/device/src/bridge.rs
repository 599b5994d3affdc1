//! A bridge from PCIe to SAS: to its host one drive, to the drives behind it their host.
//!
//! A command passes these stages.
//!
//! 1. doorbell, submission queue, fetch: as of a drive (module `front`); the bridge has so many commands
//!    at a time as its queues have in flight.
//! 2. engine: one command after the other, in the order in which they arrive.
//! 3. parts: one for each stripe of a read or write, one for each drive of a flush or trim. A part waits
//!    until its drive has a tag free, in order.
//! 4. a part of a write: its data come from the host's memory. With the first frame of them the part is sent.
//! 5. the drive: command frame, what the drive does, response frame (module `controller`).
//! 6. a part of a read: its data go on to the host frame by frame, as they come.
//! 7. with the last part the engine makes a completion entry.
//!
//! A drive behind a bridge may be a bridge itself. Three things are simpler here than in a bridge. The bytes
//! of a part are booked on the host's link when its last frame is in the bridge, and the part is through once
//! that frame is. The bridge has buffers for all parts that have a tag. A flush is not held back for parts
//! that wait.

use crate::config::{BridgeConfig, DeviceConfig, Limits, SasConfig};
use crate::controller::Controller;
use crate::firmware::{Firmware, Grant};
use crate::front::{Front, Taken};
use crate::link::{Link, Switch, Transfer};
use crate::queue::{Posted, QueueFull};
use crate::stats::{ByClass, Energy, OPCODES, slot};
use crate::stripes::Stripes;
use std::collections::VecDeque;
use std::ops::Range;
use wordline_base::ledger::NONE;
use wordline_base::stamps::BLANK;
use wordline_base::{
    BadValue, Ctx, Ddir, Event, IdVec, IoClass, IoId, Kind, Layer, Lpn, SectorSize, Slab, Span,
    Time, Why,
};
use wordline_ftl::Touch;
use wordline_nvme::{Opcode, QueuePriority, Sqe, Status};

/// Places of the link layer in lives.
const TO_DEVICE: u32 = 0;
const TO_HOST: u32 = 1;

/// A command for a drive behind the bridge.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Its number among the bridge's.
    pub drive: u16,
    /// The command, with addresses of that drive.
    pub sqe: Sqe,
}

/// What a bridge knows of a drive behind it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Bytes that users can write.
    pub bytes: u64,
    /// Bytes of a logical block.
    pub lba: u32,
    /// The sector of its flash.
    pub sector: SectorSize,
    /// Submission queues that it supports.
    pub queues: u32,
    /// Entries of a queue.
    pub depth: u32,
    /// The most bytes of a command.
    pub max_transfer: u32,
}

#[derive(Clone, Copy)]
struct Command {
    sqe: Sqe,
    sq: u16,
    status: Status,
    /// Parts that have not ended.
    pending: u32,
}

/// What one drive does for a command.
#[derive(Clone, Copy)]
struct Part {
    cmd: u32,
    drive: u16,
    /// On the drive.
    at: u64,
    bytes: u32,
    /// Its own life where the command has several parts.
    io: IoId,
    /// What the drive's ledger of versions calls it.
    submitted: u32,
    made: Time,
    /// The command's id at its drive, once it has one.
    tag: u16,
}

/// A drive behind the bridge.
struct Port {
    /// Its number in the machine.
    number: u8,
    waiting: VecDeque<u32>,
    free: Vec<u16>,
    /// The part by tag.
    parts: IdVec<u16, u32>,
    /// The most tags that were in use.
    most: u32,
}

/// Counts that grow as commands pass.
#[derive(Clone, Copy, Default)]
struct Counts {
    commands_in: [u64; OPCODES.len()],
    commands_out: [u64; OPCODES.len()],
    failed: u64,
    parts: u64,
    bytes_read: u64,
    bytes_written: u64,
    wait_queue: u64,
    wait_link: u64,
    wait_engine: u64,
    wait_tag: u64,
    most_commands: u32,
}

/// What a bridge did by itself, as of an instant.
#[derive(Clone, PartialEq, Debug)]
pub struct BridgeStats {
    /// Commands of the host by opcode, in the order of [`crate::OPCODES`].
    pub commands_in: [u64; OPCODES.len()],
    /// Commands of the host that were completed, in the same order.
    pub commands_out: [u64; OPCODES.len()],
    /// Commands of the host by the class of their I/O, then by opcode.
    pub by_class: Vec<(IoClass, [u64; OPCODES.len()])>,
    /// Commands that were completed with another status than success.
    pub failed: u64,
    /// Commands to drives.
    pub parts: u64,
    /// Bytes over the host's link.
    pub bytes_read: u64,
    /// Bytes from the host over its link.
    pub bytes_written: u64,
    /// Nanoseconds that commands waited in submission queues, summed over commands.
    pub wait_queue_ns: u64,
    /// The same for the host's link.
    pub wait_link_ns: u64,
    /// The same for the bridge's engine.
    pub wait_engine_ns: u64,
    /// Nanoseconds that parts of commands waited for a tag of a drive, summed over parts.
    pub wait_tag_ns: u64,
    /// The most commands it had at a time.
    pub most_commands: u32,
    /// The most parts that a drive had at a time.
    pub most_parts: u32,
    /// Interrupts sent to the host.
    pub interrupts: u64,
    /// Nanoseconds in which the host's link carried something to the bridge.
    pub link_to_device_busy_ns: u64,
    /// Nanoseconds in which the host's link carried something to the host.
    pub link_to_host_busy_ns: u64,
    /// Nanoseconds in which each core of the engine worked.
    pub engine_busy_ns: Vec<u64>,
    /// Joules; what drives behind the bridge take is theirs.
    pub energy: Energy,
}

impl BridgeStats {
    /// What is counted, by name. Busy times, energy and rows by class are apart.
    pub fn list(&self) -> [(&'static str, u64); 12] {
        [
            ("commands_in", self.commands_in.iter().sum()),
            ("commands_out", self.commands_out.iter().sum()),
            ("failed", self.failed),
            ("parts", self.parts),
            ("bytes_read", self.bytes_read),
            ("bytes_written", self.bytes_written),
            ("wait_queue_ns", self.wait_queue_ns),
            ("wait_link_ns", self.wait_link_ns),
            ("wait_engine_ns", self.wait_engine_ns),
            ("wait_tag_ns", self.wait_tag_ns),
            ("most_commands", self.most_commands.into()),
            ("most_parts", self.most_parts.into()),
        ]
    }
}

/// A bridge: the controller that the host sees, and what it keeps of commands to the drives behind it.
pub struct Bridge {
    config: DeviceConfig,
    drive_tags: u32,
    t_part: Span,
    /// Its number in the machine.
    number: u8,
    sector: SectorSize,
    stripes: Stripes,
    front: Front,
    link: Link,
    engine: Firmware,
    /// For the times of frames; each drive has a link of its own.
    sas: Link,
    commands: Slab<Command>,
    parts: Slab<Part>,
    ports: Vec<Port>,
    out: VecDeque<Sent>,
    counts: Counts,
    by_class: ByClass<{ OPCODES.len() }>,
}

impl Bridge {
    /// How a bridge stripes over drives, or why it cannot be built. Keys are those below `device`.
    pub fn check_config(
        device: &DeviceConfig,
        members: &[Member],
    ) -> Result<(BridgeConfig, Stripes), BadValue> {
        let Some(bridge) = device.bridge.clone() else {
            return Err(BadValue::new("bridge", "is missing: a bridge names the drives behind it"));
        };
        if device.cache.is_some() {
            let why = "must be none: a bridge has no cache, the drives behind it have";
            return Err(BadValue::new("cache", why));
        }
        if device.limits != Limits::default() {
            let why = "must be 0 or left out: a bridge has none, the drives behind it may \
                       (bridge.members.limits)";
            return Err(BadValue::new("limits", why));
        }
        let power = &device.power;
        let limited = [
            ("power.flash_limit_mw", power.flash_limit_mw > 0),
            ("power.limit_reads", power.limit_reads),
            ("power.thermal", power.thermal.is_some()),
        ];
        if let Some((key, _)) = limited.into_iter().find(|(_, set)| *set) {
            let why = "must be left out: a bridge has no flash, the drives behind it have (bridge.members.power)";
            return Err(BadValue::new(key, why));
        }
        if device.link.turn_bytes.unwrap_or(0) != 0 {
            let why = "must be 0 or left out: a bridge sends what comes from each of its drives whole, \
                       as it comes";
            return Err(BadValue::new("link.turn_bytes", why));
        }
        Controller::check_front(device)?;
        bridge.link.check().map_err(|bad| bad.below("bridge.link"))?;
        let tags = bridge.drive_tags;
        if !(1..=65_535).contains(&tags) {
            return Err(BadValue::new("bridge.drive_tags", "must be from 1 to 65535"));
        }
        for (i, member) in members.iter().enumerate() {
            let name = bridge.drives.get(i).map_or("", String::as_str);
            if !device.lba.is_multiple_of(member.lba) {
                let why = format!(
                    "must be whole blocks of the drives behind it, and {name} has blocks of {}: set \
                     device.lba to that",
                    member.lba
                );
                return Err(BadValue::new("lba", why));
            }
            if member.queues == 0 || member.depth <= tags {
                let why = format!(
                    "must be below the {} entries of a queue of {name}: lower it, or raise queues.depth of \
                     the drives (bridge.members.queues.depth)",
                    member.depth
                );
                return Err(BadValue::new("bridge.drive_tags", why));
            }
            if member.max_transfer > 0 && bridge.stripe_bytes > member.max_transfer {
                let why = format!(
                    "must be at most the {} bytes of a command of {name} (its queues.max_transfer)",
                    member.max_transfer
                );
                return Err(BadValue::new("bridge.stripe_bytes", why));
            }
        }
        let sizes: Vec<u64> = members.iter().map(|m| m.bytes).collect();
        let sector = members.first().map_or_else(SectorSize::default, |member| member.sector);
        if let Some(other) = members.iter().find(|member| member.sector != sector) {
            let (one, other) = (sector.bytes(), other.sector.bytes());
            let why = format!("must have sectors of one size, not of {one} and of {other} bytes");
            return Err(BadValue::new("bridge.drives", why));
        }
        let unit = u64::from(device.lba).max(sector.bytes());
        let stripes = Stripes::new(bridge.stripe_bytes, &sizes, unit);
        let stripes = stripes.map_err(|bad| bad.below("bridge"))?;
        Ok((bridge, stripes))
    }

    /// In front of drives with these numbers in the machine; `number` is its own.
    pub fn new(
        device: &DeviceConfig,
        members: &[Member],
        number: u8,
        drives: &[u8],
    ) -> Result<Bridge, BadValue> {
        let (bridge, stripes) = Bridge::check_config(device, members)?;
        let port = |&number: &u8| Port {
            number,
            waiting: VecDeque::new(),
            free: (0..bridge.drive_tags as u16).rev().collect(),
            parts: IdVec::filled(0, bridge.drive_tags),
            most: 0,
        };
        Ok(Bridge {
            drive_tags: bridge.drive_tags,
            t_part: bridge.t_part,
            number,
            sector: members[0].sector,
            stripes,
            front: Front::new(device)?,
            link: Link::new(&device.link)?,
            engine: Firmware::new(device.firmware.cores),
            sas: Link::sas(&bridge.link)?,
            commands: Slab::with_capacity(device.queues.in_flight.min(4096) as usize),
            parts: Slab::with_capacity(256),
            ports: drives.iter().map(port).collect(),
            out: VecDeque::with_capacity(64),
            counts: Counts::default(),
            by_class: ByClass::default(),
            config: device.clone(),
        })
    }

    /// Puts it behind a PCIe switch: before the start.
    pub fn join_switch(&mut self, switch: Switch) {
        self.link.join(switch);
    }
    /// Puts it behind another bridge: before the start.
    pub fn join_bridge(&mut self, sas: &SasConfig) -> Result<(), BadValue> {
        self.link = Link::sas(sas)?;
        Ok(())
    }

    /// The smallest unit that a drive behind it writes to flash.
    pub fn sector(&self) -> SectorSize {
        self.sector
    }
    /// Where the bytes of the bridge are on its drives.
    pub fn stripes(&self) -> &Stripes {
        &self.stripes
    }

    /// As of a drive: see [`Controller`].
    pub fn create_queue(
        &mut self,
        sq: u16,
        cq: u16,
        depth: u32,
        priority: QueuePriority,
    ) -> Result<(), BadValue> {
        self.front.create_queue(sq, cq, depth, priority)
    }
    /// A submission queue whose completions go to a queue that is there.
    pub fn create_submission_queue(
        &mut self,
        sq: u16,
        cq: u16,
        depth: u32,
        priority: QueuePriority,
    ) -> Result<(), BadValue> {
        self.front.create_submission_queue(sq, cq, depth, priority)
    }
    /// Whether completions in this queue raise an interrupt at all.
    pub fn set_interrupts(&mut self, cq: u16, on: bool) {
        self.front.set_interrupts(cq, on);
    }
    /// Whether its interrupt vector is masked now.
    pub fn set_masked(&mut self, cq: u16, masked: bool) {
        self.front.set_masked(cq, masked);
    }
    /// The host writes the mask bit, which takes effect once it has crossed the link; `head` is up to where
    /// the host has reaped.
    pub fn write_mask(&mut self, ctx: &mut Ctx, cq: u16, masked: bool, head: u64) {
        self.front.write_mask(ctx, cq, masked, head, self.link.t_bell);
    }
    /// Puts a command into the queue's memory; the drive is told by [`Bridge::doorbell_after`].
    pub fn enqueue(&mut self, sq: u16, sqe: &Sqe) -> Result<(), QueueFull> {
        self.front.enqueue(sq, sqe)
    }
    /// The host writes the tail doorbell `after` this much time.
    pub fn doorbell_after(&mut self, ctx: &mut Ctx, sq: u16, after: Span) {
        self.front.doorbell(ctx, sq, self.link.t_bell + after);
    }
    /// Something waits to be polled.
    pub fn has_output(&self) -> bool {
        self.front.has_output() || !self.out.is_empty()
    }
    /// The next completion entry that the host can see; call until `None` after each input.
    pub fn poll(&mut self) -> Option<Posted> {
        self.front.poll()
    }
    /// The completion queue of the next interrupt.
    pub fn poll_interrupt(&mut self) -> Option<u16> {
        self.front.poll_interrupt()
    }
    /// The next command for a drive behind the bridge; call until `None` after each input.
    pub fn poll_sent(&mut self) -> Option<Sent> {
        self.out.pop_front()
    }

    /// The id of the queue pair that each drive behind a bridge has with it.
    pub const QUEUE: u16 = 1;

    /// Entries and class of that queue.
    pub fn queue_of_drives(drive_tags: u32) -> (u32, QueuePriority) {
        (drive_tags + 1, QueuePriority::Medium)
    }

    /// Takes an event that it set.
    pub fn on_event(&mut self, ctx: &mut Ctx, event: Event) {
        let index = event.index();
        match event.kind() {
            Kind::Fetch => {
                self.front.on_doorbell(ctx.now);
                self.fetch(ctx);
            }
            Kind::Firmware => self.execute(ctx, index),
            Kind::DataIn => self.send(ctx, index),
            Kind::Posted => self.post(ctx, index),
            Kind::Aggregation => self.front.aggregation_over(ctx, index as u16),
            _ => {}
        }
    }

    /// Fetches commands while there are any and the bridge has room.
    fn fetch(&mut self, ctx: &mut Ctx) {
        while self.commands.len() < self.config.queues.in_flight as usize {
            let Some(Taken { sqe, sq, arrived, .. }) = self.front.take(ctx.now) else { return };
            let fetch = self.link.fetch(ctx.now);
            let grant = match self.work(&sqe) {
                Span::ZERO => Grant { core: 0, start: fetch.arrival, end: fetch.arrival },
                work => self.engine.book(fetch.arrival, work),
            };
            self.by_class.see(sqe.class, || self.counts.commands_in);
            let counts = &mut self.counts;
            counts.commands_in[slot(sqe.opcode)] += 1;
            counts.wait_queue += ctx.now.since(arrived).0;
            counts.wait_link += fetch.start.since(ctx.now).0;
            counts.wait_engine += grant.start.since(fetch.arrival).0;
            if let Some(life) = ctx.lives.of(sqe.io) {
                let link = self.link.layer;
                life.mark(link, Why::Doorbell, TO_DEVICE, arrived);
                life.mark(Layer::QueueWait, Why::SlotsFull, u32::from(sq), ctx.now);
                life.mark(link, Why::LinkBusy, TO_DEVICE, fetch.start);
                life.mark(link, Why::Fetch, TO_DEVICE, fetch.arrival);
                life.mark(Layer::Bridge, Why::EngineBusy, grant.core, grant.start);
                life.mark(Layer::Bridge, Why::Work, grant.core, grant.end);
            }
            let command = Command { sqe, sq, status: Status::Success, pending: 0 };
            let cmd = self.commands.insert(command);
            self.counts.most_commands = self.counts.most_commands.max(self.commands.len() as u32);
            if matches!(sqe.opcode, Opcode::Write | Opcode::Deallocate) {
                ctx.stamps_of(self.number).bind(cmd, sqe.submitted);
            }
            ctx.at(grant.end, Kind::Firmware, cmd);
        }
    }

    /// The engine's time for a command.
    fn work(&self, sqe: &Sqe) -> Span {
        let f = &self.config.firmware;
        let drives = self.ports.len() as u64;
        let stripes = self.stripes.count(sqe.address, sqe.bytes);
        let sectors = self.sector.holding(sqe.bytes.into());
        let further = f.t_sector * sectors.saturating_sub(1);
        let (first, parts) = match sqe.opcode {
            Opcode::Read => (f.t_read + further, stripes),
            Opcode::Write => (f.t_write + further, stripes),
            Opcode::Flush => (f.t_other, drives),
            Opcode::Deallocate => (f.t_other, stripes.min(drives)),
            _ => (f.t_other, 0),
        };
        first + self.t_part * parts.saturating_sub(1)
    }

    /// Whether the bridge can serve the command (NVMe 1.4 section 4.6.1).
    fn check(&self, sqe: &Sqe) -> Result<(), Status> {
        match sqe.opcode {
            Opcode::Flush => Ok(()),
            Opcode::Read | Opcode::Write | Opcode::Deallocate => {
                let within = u64::from(self.config.lba) - 1;
                let unaligned = (sqe.address | u64::from(sqe.bytes)) & within != 0;
                let most = self.config.queues.max_transfer;
                let long = most > 0 && sqe.bytes > most && sqe.opcode != Opcode::Deallocate;
                if sqe.bytes == 0 || unaligned || long {
                    return Err(Status::InvalidField);
                }
                match sqe.address.checked_add(u64::from(sqe.bytes)) {
                    Some(end) if end <= self.stripes.bytes() => Ok(()),
                    _ => Err(Status::LbaOutOfRange),
                }
            }
            _ => Err(Status::InvalidField),
        }
    }

    /// The engine is done with a command: it is taken apart.
    fn execute(&mut self, ctx: &mut Ctx, cmd: u32) {
        let sqe = self.commands[cmd].sqe;
        if let Err(status) = self.check(&sqe) {
            self.commands[cmd].status = status;
            let sent = self.link.data_out(ctx.now, 0);
            return self.finish(ctx, cmd, sent.start, sent.end);
        }
        let drives = 0..self.ports.len() as u16;
        match sqe.opcode {
            Opcode::Flush => {
                self.commands[cmd].pending = u32::from(drives.end);
                drives.for_each(|drive| self.begin(ctx, cmd, drive, (0, 0)));
            }
            Opcode::Deallocate => {
                let range = sqe.address..sqe.address + u64::from(sqe.bytes);
                let stripes = self.stripes;
                let shares = drives.map(|drive| (drive, stripes.share(drive, &range)));
                let shares = shares.filter(|(_, share)| !share.is_empty());
                self.commands[cmd].pending = shares.clone().count() as u32;
                for (drive, share) in shares {
                    let bytes = (share.end - share.start) as u32;
                    self.begin(ctx, cmd, drive, (share.start, bytes));
                }
            }
            _ => {
                self.commands[cmd].pending = self.stripes.count(sqe.address, sqe.bytes) as u32;
                let (mut at, mut left) = (sqe.address, sqe.bytes);
                while left > 0 {
                    let piece = self.stripes.first(at, left);
                    self.begin(ctx, cmd, piece.drive, (piece.at, piece.bytes));
                    (at, left) = (at + u64::from(piece.bytes), left - piece.bytes);
                }
            }
        }
    }

    /// A part of a command begins.
    fn begin(&mut self, ctx: &mut Ctx, cmd: u32, drive: u16, (at, bytes): (u64, u32)) {
        let command = &self.commands[cmd];
        let io = match (command.pending, command.sqe.io) {
            (1, io) | (_, io @ IoId::NONE) => io,
            (_, io) => {
                let (job, offset) = {
                    let life = ctx.lives.get(io);
                    (life.job, life.offset)
                };
                let ddir = match command.sqe.opcode {
                    Opcode::Read => Ddir::Read,
                    Opcode::Write => Ddir::Write,
                    Opcode::Deallocate => Ddir::Trim,
                    _ => Ddir::Sync,
                };
                ctx.lives.begin(job, ddir, offset, bytes, ctx.now)
            }
        };
        let part = Part { cmd, drive, at, bytes, io, submitted: NONE, made: ctx.now, tag: 0 };
        let part = self.parts.insert(part);
        self.counts.parts += 1;
        self.ports[usize::from(drive)].waiting.push_back(part);
        self.grant_tags(ctx, drive);
    }

    /// Parts that wait for a drive have the tags that are free.
    fn grant_tags(&mut self, ctx: &mut Ctx, drive: u16) {
        loop {
            let port = &mut self.ports[usize::from(drive)];
            let (Some(&tag), Some(&id)) = (port.free.last(), port.waiting.front()) else { return };
            port.free.pop();
            port.waiting.pop_front();
            port.parts[tag] = id;
            port.most = port.most.max(self.drive_tags - port.free.len() as u32);
            let part = self.parts[id];
            self.counts.wait_tag += ctx.now.since(part.made).0;
            ctx.mark(part.io, Layer::Bridge, Why::Tag, drive.into(), ctx.now);
            let sqe = self.commands[part.cmd].sqe;
            self.parts[id].tag = tag;
            if sqe.opcode != Opcode::Write {
                self.send(ctx, id);
                continue;
            }
            let transfer = self.link.data_in(ctx.now, part.bytes);
            let ready =
                transfer.start + self.behind(part.bytes) + transfer.arrival.since(transfer.end);
            self.counts.bytes_written += u64::from(part.bytes);
            self.counts.wait_link += transfer.start.since(ctx.now).0;
            if let Some(life) = ctx.lives.of(part.io) {
                life.mark(self.link.layer, Why::LinkBusy, TO_DEVICE, transfer.start);
                life.mark(self.link.layer, Why::Data, TO_DEVICE, ready);
            }
            ctx.at(ready, Kind::DataIn, id);
        }
    }

    /// Data that go from one link to the other frame by frame: for how long the host's has them to itself.
    fn behind(&self, bytes: u32) -> Span {
        let frame = self.sas.frame_bytes().unwrap_or(bytes).min(bytes);
        let (host, drive) = (self.link.span(bytes), self.sas.span(bytes));
        let slower = (host + self.sas.span(frame)).saturating_sub(drive);
        self.link.span(frame).max(slower)
    }

    /// The command of a part goes to its drive.
    fn send(&mut self, ctx: &mut Ctx, id: u32) {
        let Part { cmd, drive, at, bytes, io, tag, .. } = self.parts[id];
        let sqe = self.commands[cmd].sqe;
        let mut submitted = NONE;
        if matches!(sqe.opcode, Opcode::Write | Opcode::Deallocate) {
            let version = ctx.stamps_of(self.number).version_of(cmd);
            let Range { start, end } = sectors(sqe.opcode, at, bytes, self.sector);
            let there = ctx.stamps_of(self.ports[usize::from(drive)].number);
            submitted = match version {
                Some(version) => there.submit_as(Lpn(start), end - start, version),
                None => there.submit(Lpn(start), end - start),
            };
            self.parts[id].submitted = submitted;
        }
        let sqe = Sqe { cid: tag, address: at, bytes, io, submitted, ..sqe };
        self.out.push_back(Sent { drive, sqe });
    }

    /// A drive has posted the end of a part.
    pub fn on_posted(&mut self, ctx: &mut Ctx, drive: u16, posted: Posted) {
        let port = &mut self.ports[usize::from(drive)];
        let tag = posted.cqe.cid;
        let id = port.parts[tag];
        port.free.push(tag);
        let part = self.parts.remove(id);
        let ok = posted.cqe.status == Status::Success;
        let command = &mut self.commands[part.cmd];
        if !ok {
            command.status = posted.cqe.status;
        }
        command.pending -= 1;
        let (sqe, pending) = (command.sqe, command.pending);
        self.keep_versions(ctx, &part, sqe.opcode, ok);
        // The last part's data have the completion entry behind them.
        let data = if ok && sqe.opcode.is_data_out() { part.bytes } else { 0 };
        let (now, behind) = (ctx.now, self.behind(data));
        let sent: Transfer = match pending {
            0 => self.link.data_out(now, data),
            _ => self.link.data(now, data),
        };
        let mut through = sent.start + behind;
        if pending == 0 {
            through += self.link.t_entry();
        }
        self.counts.bytes_read += u64::from(data);
        self.counts.wait_link += sent.start.since(now).0;
        if data > 0
            && let Some(life) = ctx.lives.of(part.io)
        {
            life.mark(self.link.layer, Why::LinkBusy, TO_HOST, sent.start);
            life.mark(self.link.layer, Why::Data, TO_HOST, through);
        }
        if part.io != sqe.io {
            match pending {
                0 => ctx.lives.absorb(sqe.io, part.io),
                _ => ctx.lives.release(part.io),
            }
        }
        if pending == 0 {
            self.finish(ctx, part.cmd, sent.start, through);
        }
        self.grant_tags(ctx, drive);
    }

    /// What a part wrote is what reads of the bridge find; what it read is what was written there.
    fn keep_versions(&mut self, ctx: &mut Ctx, part: &Part, opcode: Opcode, ok: bool) {
        let there = self.ports[usize::from(part.drive)].number;
        if part.submitted != NONE {
            ctx.stamps_of(there).acknowledge(part.submitted, ok);
        }
        if opcode == Opcode::Flush || !ctx.stamps_of(self.number).is_on() {
            return;
        }
        for lpn in sectors(opcode, part.at, part.bytes, self.sector) {
            let at = self.sector.bytes_of(lpn);
            let Some(address) = self.stripes.address(part.drive, at) else { continue };
            let own = Lpn(self.sector.of(address) as u32);
            let held = ctx.stamps_of(there).newest(Lpn(lpn));
            let stamps = ctx.stamps_of(self.number);
            match opcode {
                // What became of it is not known.
                Opcode::Write | Opcode::Deallocate if !ok => stamps.set_newest(own, BLANK),
                Opcode::Write => {
                    stamps.show(part.cmd, own);
                    // Of writes under way together the drive decides which is the later one.
                    stamps.set_newest(own, held);
                }
                Opcode::Deallocate => stamps.show_trim(part.cmd, own),
                _ => {
                    let newest = stamps.newest(own);
                    // Blank: not written since the drives were prepared, or trimmed.
                    if ok && newest != BLANK && newest != held && !self.is_being_written(own) {
                        stamps.check_page(own.0, held, newest);
                    }
                }
            }
        }
    }

    /// A write or trim of the sector is under way.
    fn is_being_written(&self, lpn: Lpn) -> bool {
        self.commands.records().any(|(_, command)| {
            let sqe = &command.sqe;
            command.pending > 0
                && matches!(sqe.opcode, Opcode::Write | Opcode::Deallocate)
                && Touch::write(sqe.address, u64::from(sqe.bytes), self.sector)
                    .sectors
                    .contains(&lpn.0)
        })
    }

    /// The last part has ended; its data, if any, hold the link from `start` and are through at `sent`.
    fn finish(&mut self, ctx: &mut Ctx, cmd: u32, start: Time, sent: Time) {
        let io = self.commands[cmd].sqe.io;
        let t_complete = self.config.firmware.t_complete;
        let engine = match t_complete {
            Span::ZERO => Grant { core: 0, start: ctx.now, end: ctx.now },
            _ => self.engine.reserve(ctx.now, t_complete),
        };
        let begun = engine.start.max(sent);
        let visible = begun + t_complete + self.link.t_post;
        self.counts.wait_engine += begun.since(sent).0;
        if let Some(life) = ctx.lives.of(io) {
            let link = self.link.layer;
            life.mark(link, Why::LinkBusy, TO_HOST, start);
            life.mark(link, Why::Work, TO_HOST, sent);
            life.mark(Layer::Bridge, Why::EngineBusy, engine.core, begun);
            life.mark(Layer::Bridge, Why::Work, engine.core, begun + t_complete);
            life.mark(link, Why::Work, TO_HOST, visible);
        }
        ctx.at(visible, Kind::Posted, cmd);
    }

    /// The completion entry becomes visible to the host, and the command's slot is free.
    fn post(&mut self, ctx: &mut Ctx, cmd: u32) {
        let Command { sqe, sq, status, .. } = self.commands.remove(cmd);
        self.front.post(ctx, (sq, sqe.cid), sqe.io, status, None);
        self.counts.commands_out[slot(sqe.opcode)] += 1;
        self.counts.failed += u64::from(status != Status::Success);
        self.fetch(ctx);
    }

    /// Nothing is in the bridge or on its way; the drives may have work.
    pub fn idle(&self) -> bool {
        self.commands.is_empty() && self.front.idle() && self.out.is_empty()
    }

    /// As of a drive, without flash.
    pub fn energy_by_state(&self, now: Time) -> [u64; 5] {
        let power = &self.config.power;
        let nj = |mw: u32, busy: Span| (u128::from(mw) * u128::from(busy.0) / 1000) as u64;
        [
            nj(power.idle_mw, Span(now.0)),
            nj(power.firmware_mw, self.engine.busy(now)),
            nj(power.link_mw, self.link.to_host_busy(now)),
            nj(power.link_mw, self.link.to_device_busy(now)),
            0,
        ]
    }

    /// Counts and busy times up to `now`.
    pub fn stats(&self, now: Time) -> BridgeStats {
        let c = &self.counts;
        let (to_device, to_host) = (self.link.to_device_busy(now), self.link.to_host_busy(now));
        let power = &self.config.power;
        let joules = |mw: u32, busy: u64| f64::from(mw) * busy as f64 * 1e-12;
        BridgeStats {
            commands_in: c.commands_in,
            commands_out: c.commands_out,
            by_class: self.by_class.rows(&c.commands_in),
            failed: c.failed,
            parts: c.parts,
            bytes_read: c.bytes_read,
            bytes_written: c.bytes_written,
            wait_queue_ns: c.wait_queue,
            wait_link_ns: c.wait_link,
            wait_engine_ns: c.wait_engine,
            wait_tag_ns: c.wait_tag,
            most_commands: c.most_commands,
            most_parts: self.ports.iter().map(|port| port.most).max().unwrap_or(0),
            interrupts: self.front.interrupts,
            link_to_device_busy_ns: to_device.0,
            link_to_host_busy_ns: to_host.0,
            engine_busy_ns: self.engine.busy_by_core(now).map(|s| s.0).collect(),
            energy: Energy {
                idle: joules(power.idle_mw, now.0),
                firmware: joules(power.firmware_mw, self.engine.busy(now).0),
                link: joules(power.link_mw, to_device.0 + to_host.0),
                nand_read: 0.0,
                nand_program: 0.0,
                nand_erase: 0.0,
                nand_transfer: 0.0,
            },
        }
    }
}

/// The sectors that a command reads, writes or trims.
fn sectors(opcode: Opcode, at: u64, bytes: u32, sector: SectorSize) -> Range<u32> {
    match opcode {
        Opcode::Deallocate => Touch::trim(at, bytes.into(), sector).sectors,
        _ => Touch::write(at, bytes.into(), sector).sectors,
    }
}
