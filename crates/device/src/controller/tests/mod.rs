//! A host that does nothing but drive the controller, and the configurations the tests share.

mod coherence;
mod partition;
mod queues;
mod sata;
mod speed;
mod timing;
mod turns;

use crate::config::*;
use crate::{Controller, Posted, QueueFull};
use std::collections::BTreeMap;
use wordline_base::ledger::NONE;
use wordline_base::{Ctx, Ddir, IoClass, IoId, Lpn, SECTOR, SectorSize, Seed, Span, Stamps, Time};
use wordline_ftl::config::FssdConfig;
use wordline_ftl::{FtlConfig, GcOrder, Placement, Touch, Translation, Translator};
use wordline_nand::{Cell, Class, Nand, NandConfig, PerPage};
use wordline_nvme::{Opcode, QueuePriority, Sqe, Status};

pub fn nand_config() -> NandConfig {
    NandConfig {
        decoder: None,
        variation: Default::default(),
        slc: None,
        cell: Cell::Slc,
        channels: 4,
        gang: 1,
        gang_skew: Span::ZERO,
        remap: false,
        luns_per_channel: 2,
        planes: 2,
        blocks: 64,
        pages_per_block: 32,
        sector_bytes: 4096,
        page_bytes: 8192,
        t_read: PerPage::One(Span::from_us(20)),
        t_program: PerPage::One(Span::from_us(200)),
        t_erase: Span::from_ms(2),
        in_place: false,
        channel_rate: 800_000_000,
        transfer_bytes: 0,
        channel_order: Default::default(),
        cache_register: false,
        independent_plane_reads: false,
        t_command: Span(100),
        suspend: Default::default(),
        endurance: 3000,
        power: Default::default(),
        faults: Default::default(),
        errors: Default::default(),
    }
}

pub fn device_config() -> DeviceConfig {
    DeviceConfig {
        lba: 512,
        link: LinkConfig {
            generation: 3,
            lanes: 4,
            efficiency: 90.0,
            t_post: Span(150),
            t_round_trip: Span(600),
            turn_bytes: None,
        },
        queues: QueueConfig {
            count: 16,
            depth: 1024,
            arbitration: Arbitration::RoundRobin,
            weighted_urgent: true,
            burst: 1,
            weights: [4, 2, 1],
            in_flight: 256,
            max_transfer: 0,
            guard: None,
        },
        firmware: FirmwareConfig {
            cores: 2,
            t_read: Span(900),
            t_write: Span(1100),
            t_other: Span(700),
            t_sector: Span(50),
            t_complete: Span(300),
        },
        cache: None,
        limits: Limits::default(),
        staging_bytes: 0,
        interrupt: InterruptConfig::default(),
        power: PowerConfig {
            idle_mw: 2000,
            firmware_mw: 300,
            link_mw: 500,
            ..PowerConfig::default()
        },
        bridge: None,
        sata: None,
    }
}

pub fn cache_config(lines: u64, ways: u32, line_sectors: u32) -> CacheConfig {
    CacheConfig {
        bytes: lines * u64::from(line_sectors) * SECTOR,
        ways,
        line_bytes: line_sectors * SECTOR as u32,
        write_back: true,
        rate: 4_000_000_000,
        t_lookup: Span(120),
        dirty_high: 50,
        dirty_max: 100,
        read_allocate: true,
        capacitor: false,
        read_ahead: None,
        refresh: None,
        partition: None,
        epoch: EpochConfig::default(),
    }
}

pub fn ftl_config() -> FtlConfig {
    FtlConfig::new(Placement::Device, 28.0)
}

/// A completion with its moment.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    pub at: Time,
    pub posted: Posted,
}

pub struct Host {
    pub ctx: Ctx,
    pub drive: Controller,
    pub done: Vec<Done>,
    cid: u16,
    /// What the ledger of versions calls commands under way.
    submitted: BTreeMap<(u16, u16), u32>,
}

impl Host {
    /// An open-channel drive.
    pub fn bare(nand: &NandConfig, device: &DeviceConfig) -> Host {
        let nand = Nand::new(nand, Seed(1)).unwrap();
        let drive = Controller::new(device, nand, None).unwrap();
        Host { ctx: Ctx::new(), drive, done: Vec::new(), cid: 0, submitted: BTreeMap::new() }
    }

    /// A drive with its FTL, and stamps on.
    pub fn with_ftl(nand: &NandConfig, device: &DeviceConfig, ftl: &FtlConfig) -> Host {
        let nand = Nand::new(nand, Seed(1)).unwrap();
        let mut good = |_, _| false;
        let ftl_ = Translator::new(None, &nand.geometry, ftl, &mut good, Seed(1)).unwrap();
        let mut ctx = Ctx::new();
        ctx.stamps = Stamps::new(ftl_.sectors());
        let mut drive = Controller::new(device, nand, Some(ftl_)).unwrap();
        drive.set_ftl_cost(&ftl.cost);
        drive.start(&mut ctx);
        Host { ctx, drive, done: Vec::new(), cid: 0, submitted: BTreeMap::new() }
    }

    pub fn queue(&mut self, id: u16, depth: u32, priority: QueuePriority) {
        self.drive.create_queue(id, id, depth, priority).unwrap();
    }

    /// Writes a command into a queue, without the doorbell.
    pub fn put(
        &mut self,
        sq: u16,
        opcode: Opcode,
        address: u64,
        bytes: u32,
    ) -> Result<u16, QueueFull> {
        let class = match opcode {
            Opcode::VectorWrite | Opcode::VectorStage => Class::UserProgram,
            Opcode::VectorReset => Class::Erase,
            _ => Class::UserRead,
        };
        self.put_sqe(
            sq,
            Sqe {
                opcode,
                cid: 0,
                address,
                bytes,
                fua: false,
                work: class as u8,
                class: IoClass::NONE,
                inner: 0,
                beside: 0,
                io: IoId::NONE,
                submitted: NONE,
            },
        )
    }
    pub fn put_sqe(&mut self, sq: u16, sqe: Sqe) -> Result<u16, QueueFull> {
        let cid = self.cid;
        let (at, bytes) = (sqe.address, u64::from(sqe.bytes));
        let touch = match sqe.opcode {
            Opcode::Write => Some(Touch::write(at, bytes, SectorSize::KIB_4)),
            Opcode::Deallocate => Some(Touch::trim(at, bytes, SectorSize::KIB_4)),
            _ => None,
        };
        let submitted = touch.map_or(NONE, |t| {
            let std::ops::Range { start, end } = t.sectors;
            self.ctx.stamps.submit(Lpn(start), end - start)
        });
        if let Err(full) = self.drive.enqueue(sq, &Sqe { cid, submitted, ..sqe }) {
            self.ctx.stamps.acknowledge(submitted, false);
            return Err(full);
        }
        self.submitted.insert((sq, cid), submitted);
        self.cid = self.cid.wrapping_add(1);
        Ok(cid)
    }
    pub fn submit(&mut self, sq: u16, opcode: Opcode, address: u64, bytes: u32) -> u16 {
        let cid = self.put(sq, opcode, address, bytes).unwrap();
        self.drive.doorbell(&mut self.ctx, sq);
        cid
    }
    pub fn submit_fua(&mut self, sq: u16, address: u64, bytes: u32) -> u16 {
        let sqe = Sqe {
            opcode: Opcode::Write,
            cid: 0,
            address,
            bytes,
            fua: true,
            work: 0,
            class: IoClass::NONE,
            inner: 0,
            beside: 0,
            io: IoId::NONE,
            submitted: NONE,
        };
        let cid = self.put_sqe(sq, sqe).unwrap();
        self.drive.doorbell(&mut self.ctx, sq);
        cid
    }
    /// A command whose life is recorded.
    pub fn submit_io(&mut self, sq: u16, opcode: Opcode, address: u64, bytes: u32) -> IoId {
        let ddir = if opcode.is_data_in() { Ddir::Write } else { Ddir::Read };
        let io = self.ctx.lives.begin(0, ddir, address, bytes, self.ctx.now);
        let class =
            if opcode == Opcode::VectorWrite { Class::UserProgram } else { Class::UserRead };
        let class = if opcode == Opcode::VectorReset { Class::Erase } else { class };
        let sqe = Sqe {
            opcode,
            cid: 0,
            address,
            bytes,
            fua: false,
            work: class as u8,
            class: IoClass::NONE,
            inner: 0,
            beside: 0,
            io,
            submitted: NONE,
        };
        self.put_sqe(sq, sqe).unwrap();
        self.drive.doorbell(&mut self.ctx, sq);
        io
    }

    /// One event; false when there is none.
    pub fn step(&mut self) -> bool {
        let Some((now, event)) = self.ctx.queue.pop() else { return false };
        self.ctx.now = now;
        self.drive.on_event(&mut self.ctx, event);
        while let Some(posted) = self.drive.poll() {
            if let Some(id) = self.submitted.remove(&(posted.cqe.sq, posted.cqe.cid)) {
                let ok = posted.cqe.status == Status::Success;
                self.ctx.stamps.acknowledge(id, ok);
            }
            self.done.push(Done { at: now, posted });
        }
        true
    }
    /// Until nothing is in flight.
    pub fn settle(&mut self) {
        // Timers of the FTL never run out: a command that is lost shows as a busy drive.
        let end = self.ctx.now + Span::from_secs(60);
        while !self.drive.idle() {
            assert!(self.step() && self.ctx.now < end, "the drive is busy and gets nowhere");
        }
    }
    /// Lets time pass until `until`.
    pub fn advance(&mut self, until: Time) {
        while self.ctx.queue.next_time().is_some_and(|t| t <= until) {
            self.step();
        }
        self.ctx.now = self.ctx.now.max(until);
    }
    /// Writes so many sectors from the first on, and waits until they are on flash.
    pub fn write_first(&mut self, sectors: u64) {
        for sector in 0..sectors {
            self.submit(0, Opcode::Write, sector * SECTOR, SECTOR as u32);
            if sector % 64 == 63 {
                self.settle();
            }
        }
        self.one(Opcode::Flush, 0, 0);
        self.settle();
    }
    /// One command alone, to its end: how long it took, and how it ended.
    pub fn one(&mut self, opcode: Opcode, address: u64, bytes: u32) -> (Span, Status) {
        let begin = self.ctx.now;
        let cid = self.submit(0, opcode, address, bytes);
        while !self.done.iter().any(|d| d.posted.cqe.cid == cid && d.at >= begin) {
            assert!(self.step());
        }
        let done = *self.done.last().unwrap();
        (done.at.since(begin), done.posted.cqe.status)
    }
    /// Programs the first `pages` pages of line 0 on all LUNs, untimed.
    pub fn fill_flash(&mut self, pages: u32) {
        let luns = self.drive.nand().geometry.luns;
        for lun in 0..luns {
            self.drive.nand_mut().set_block(lun, 0, pages, 0, false);
        }
    }
    /// Every sector read back has its newest stamp.
    pub fn assert_no_wrong(&self, what: &str) {
        let (wrong, list) = self.ctx.stamps.wrong();
        assert_eq!(wrong, 0, "{what}: (sector, got, expected) {list:?}");
    }
}

/// Keeps `depth` commands in flight on queue 0 until `commands` are done; the time it took from the
/// first submission. `next` makes the n-th command, after the completion that makes room for it.
pub fn closed_loop(
    host: &mut Host,
    depth: u32,
    commands: usize,
    mut next: impl FnMut(usize, Option<&Done>) -> (Opcode, u64, u32),
) -> Span {
    let begin = host.ctx.now;
    let (mut sent, mut seen) = (0, host.done.len());
    let first = seen;
    for _ in 0..depth {
        let (opcode, address, bytes) = next(sent, None);
        host.submit(0, opcode, address, bytes);
        sent += 1;
    }
    while host.done.len() < first + commands {
        assert!(host.step());
        while seen < host.done.len() {
            let (opcode, address, bytes) = next(sent, Some(&host.done[seen]));
            seen += 1;
            host.submit(0, opcode, address, bytes);
            sent += 1;
        }
    }
    host.ctx.now.since(begin)
}
