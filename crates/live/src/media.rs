//! The bytes behind the NAND machine: each flash operation of the model, when it ends, is done to the
//! image.
//!
//! - program: the unit's data, then its record, at the place of its address. What its sectors hold is
//!   told by the FTL (address and stamp) and found among the [`Pages`]; parity is summed here.
//! - read: the bytes at the place, checked against the checksum that was written with them.
//! - erase: only noted. The line's next program is written after everything until the erase is
//!   durable: copies of what the block held may be the only ones.
//!
//! A program is written by another thread ([`crate::writer`]) and read from memory until then.

use crate::image::{BlockRecord, Image, NO_LPN, Spare, UnitKind, UnitRecord, sector_crc};
use crate::pages::{Map, PAGE, Page, Pages, Version};
use crate::recover::{Damage, Recovered};
use crate::smeta;
use crate::writer::{Ticket, Unit, Why, Work, Writer};
use std::collections::VecDeque;
use std::sync::Arc;
use wordline_base::{BitMap, IdVec, Lpn, Stamps};
use wordline_device::Controller;
use wordline_device::DriveConfig;
use wordline_ftl::{LOST, Translation, Translator};
use wordline_nand::{Class, Geometry, Nand, Op, OpKind, Outcome, Ppa, Record};

/// Units in memory that are not in the image yet: at this much the machine waits.
const HELD_MAX: usize = 128 << 20;
/// Written without a sync: more would make what waits for the next one wait long.
const UNSYNCED_MAX: usize = 64 << 20;

/// What was unusual about reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MediaCounters {
    /// Sectors that could not be read and not be computed.
    pub unreadable: u64,
    /// Sectors given from parity.
    pub rebuilt: u64,
    /// Sectors of these that were not what was written.
    pub misbuilt: u64,
}

/// What flash holds, with the data: the image, and pages on their way to it.
pub struct Media {
    /// The file that keeps the drive.
    pub image: Arc<Image>,
    /// Data that are not in the file yet, by version.
    pub pages: Pages,
    /// What writes the file.
    pub writer: Writer,
    /// What was unusual so far.
    pub counters: MediaCounters,
    /// What is known to be lost.
    pub damage: Damage,
    /// The shape of the flash.
    g: Geometry,
    /// The checksum of what each physical sector holds.
    crcs: IdVec<Ppa, u32>,
    /// The stamp at each sector's last trim.
    trims: IdVec<Lpn, u32>,
    /// The next program's number.
    order: u64,
    /// Units with a whole record, of whatever life of their block.
    recorded: BitMap,
    /// Blocks in which an operation failed. Its FTL may read one still, and not call it bad before it is emptied.
    bad: BitMap,
    /// Units that are not in the image yet, by their numbers at the writer and by place.
    held: VecDeque<(u64, Arc<Unit>)>,
    held_at: Map<u32, Arc<Unit>>,
    /// Bytes programmed since a sync was asked for.
    unsynced: usize,
    /// Block ids erased and not programmed since, and when they may be.
    erased: Vec<(u32, Ticket)>,
    /// A block id can be in two lines.
    split: bool,
    /// A cache in front may hand the FTL one version twice: versions are kept until they are swept.
    cached: bool,
    /// The unit at hand.
    unit: Vec<u8>,
}

impl Media {
    /// On an image that was recovered; checksums and stamps of trims are taken out of `recovered`.
    pub fn new(
        image: Arc<Image>,
        recovered: &mut Recovered,
        writer: Writer,
        system: &DriveConfig,
    ) -> Media {
        let g = recovered.nand.geometry;
        Media {
            image,
            pages: Pages::new(),
            writer,
            counters: MediaCounters::default(),
            damage: std::mem::take(&mut recovered.damage),
            g,
            crcs: std::mem::take(&mut recovered.crcs),
            trims: std::mem::take(&mut recovered.trims),
            order: recovered.order,
            recorded: std::mem::take(&mut recovered.recorded),
            bad: std::mem::take(&mut recovered.bad),
            held: VecDeque::new(),
            held_at: Map::default(),
            unsynced: 0,
            erased: Vec::new(),
            cached: system.device.cache.is_some(),
            split: system.ftl.hot_cold
                || system.ftl.fssd.is_some()
                || system.ftl.firmware.is_some(),
            unit: vec![0; g.unit_bytes() as usize],
        }
    }

    /// Does what a finished operation does to the image. False: its bytes cannot be had.
    pub fn perform(&mut self, record: &Record, ftl: &Translator, nand: &Nand) -> bool {
        let op = &record.op;
        let (line, lun) = (self.g.line_of(op.ppa), self.g.lun_of(op.ppa));
        let block = line * self.g.luns + lun;
        if record.outcome == Outcome::Failed {
            if (op.kind, op.class) == (OpKind::Read, Class::GcRead) {
                // The FTL may compute it from other reads, and its copy needs the bytes then.
                self.read_to_move(op.ppa, op.sectors, ftl);
            }
            return self.failed(op, block, nand);
        }
        match (op.kind, op.class) {
            (OpKind::Program, _) => self.program(op.ppa, op.class, ftl, nand),
            (OpKind::Read, Class::GcRead) => self.read_to_move(op.ppa, op.sectors, ftl),
            // Metadata are in the records; users' reads are the machine's affair.
            (OpKind::Read, _) => true,
            (OpKind::Erase, _) => {
                self.pages.drop_moving_of(block);
                let before = self.erased.last().filter(|e| e.0 == line && !self.split);
                let ticket = match before {
                    // The line is free since then: nothing of it is newer.
                    Some(&(_, ticket)) => ticket,
                    None => self.request_sync(),
                };
                self.erased.push((line, ticket));
                true
            }
        }
    }
    /// The model says that an operation failed: its block is bad, and nothing is in it of that.
    fn failed(&mut self, op: &Op, block: u32, nand: &Nand) -> bool {
        let (line, lun) = (self.g.line_of(op.ppa), self.g.lun_of(op.ppa));
        if op.kind == OpKind::Read {
            return false;
        }
        // Its erasures counted, what the block held is passed over: that waits as a program does, and
        // for copies of it on their way if it is the line's first.
        let after = match self.reopen(line) {
            None if op.kind == OpKind::Erase => Some(self.request_sync()),
            after => after,
        };
        if op.kind == OpKind::Program {
            let unit = self.g.unit_of(op.ppa).0;
            self.recorded.clear(unit as usize);
            self.writer.push(after, Work::Void(unit));
        }
        self.bad.set(block as usize);
        let record = BlockRecord { erases: nand.erases(lun, line), bad: true };
        self.writer.push(after, Work::Block(block, record));
        false
    }
    /// Why the image cannot be written, if it cannot.
    pub fn stalled(&self) -> Option<Why> {
        self.writer.stalled()
    }
    /// Tries again to write what could not be written. True: that is over.
    pub fn retry(&mut self) -> bool {
        self.writer.retry();
        self.writer.stalled().is_none()
    }

    /// Asks that everything until now be made durable.
    pub fn request_sync(&mut self) -> Ticket {
        self.unsynced = 0;
        self.collect();
        self.writer.request(self.order - 1)
    }
    /// Lets go of what the writer has written.
    fn collect(&mut self) {
        let written = self.writer.written();
        while self.held.front().is_some_and(|h| h.0 <= written) {
            let Some((_, unit)) = self.held.pop_front() else { return };
            // It may have been programmed again since.
            if self.held_at.get(&unit.unit).is_some_and(|newest| Arc::ptr_eq(newest, &unit)) {
                self.held_at.remove(&unit.unit);
            }
            self.pages.recycle(Arc::into_inner(unit).map(|u| u.pages).into_iter().flatten());
        }
    }
    /// So much waits to be written that nothing more may.
    pub fn is_full(&mut self) -> bool {
        let most = HELD_MAX / self.unit.len();
        if self.held.len() < most {
            return false;
        }
        self.collect();
        self.held.len() >= most
    }
    /// The writer's number at which half of what waits is written.
    fn half(&self) -> u64 {
        self.held.get(self.held.len() / 2).map_or(0, |h| h.0)
    }
    /// [`Writer::wake`] tells when there is room again.
    pub fn wake_for_room(&self) {
        self.writer.wake_at(self.half());
    }
    /// Waits until there is room. False: the image cannot be written.
    pub fn await_room(&mut self) -> bool {
        self.writer.wait_written(self.half())
    }
    /// Everything is in the image: makes it durable, and says so in it.
    pub fn close(&mut self, nand: &Nand, ftl: &Translator) -> std::io::Result<()> {
        let ticket = self.request_sync();
        self.writer.wait(ticket).map_err(|(kind, why)| std::io::Error::new(kind, why))?;
        self.write_wear(nand, ftl)?;
        self.image.sync()?;
        let units = self.recorded.iter().count() as u64;
        let trims = self.trims.iter().filter(|&&stamp| stamp > 0).count() as u64;
        self.image.write_clean_state(self.order - 1, units, trims)?;
        self.image.sync()
    }

    fn program(&mut self, ppa: Ppa, class: Class, ftl: &Translator, nand: &Nand) -> bool {
        let g = self.g;
        self.collect();
        let block_id = g.line_of(ppa);
        let after = self.reopen(block_id);
        let unit = g.unit_of(ppa).0;
        let pblk = ftl.pblk();
        let (seq, emeta, whole) = pblk.map_or((0, 0, 0), |ftl| ftl.line_layout(ftl.line_at(ppa)));
        let none = Spare { lpn: NO_LPN, stamp: 0, crc: 0 };
        let mut about = (0, 0);
        let mut spares = Vec::with_capacity(g.sectors_per_unit as usize);
        let pages;
        let kind = match class {
            Class::ParityProgram => {
                pages = self.sum_parity(ppa, ftl, &mut spares);
                UnitKind::Parity
            }
            Class::MetaProgram if let Some(ftl) = pblk => {
                let record = ftl.line_smeta(ftl.line_at(ppa));
                spares.resize(g.sectors_per_unit as usize, none);
                smeta::encode(&record, &mut self.unit);
                pages = self.paged();
                if record.unit == unit - block_id * g.units_per_line() {
                    UnitKind::Smeta
                } else {
                    // The sector list is what the records of the line's units say.
                    about = (emeta, whole);
                    UnitKind::Emeta
                }
            }
            _ => {
                pages = self.gather(ppa, ftl, &mut spares);
                UnitKind::Data
            }
        };
        for (at, spare) in (ppa.0..).map(Ppa).zip(&spares) {
            self.crcs[at] = spare.crc;
        }
        let record = UnitRecord {
            kind,
            erases: nand.erases(g.lun_of(ppa), block_id),
            order: self.order,
            seq,
            emeta: about,
            spares,
        };
        self.order += 1;
        self.recorded.set(unit as usize);
        let held = Arc::new(Unit { unit, ppa: ppa.0, pages, record });
        let number = self.writer.push(after, Work::Unit(Arc::clone(&held)));
        self.held_at.insert(unit, Arc::clone(&held));
        self.held.push_back((number, held));
        self.unsynced += self.unit.len();
        if self.unsynced >= UNSYNCED_MAX {
            self.request_sync();
        }
        true
    }
    /// A block of a line is programmed: after what, if it is the first since the line was erased.
    fn reopen(&mut self, line: u32) -> Option<Ticket> {
        let (_, ticket) = *self.erased.iter().rfind(|e| e.0 == line)?;
        // The record of its block counts the erasure.
        self.erased.retain(|e| e.0 != line);
        Some(ticket)
    }
    /// Brings a unit's sectors together.
    fn gather(&mut self, ppa: Ppa, ftl: &Translator, spares: &mut Vec<Spare>) -> Vec<Page> {
        let mut pages = Vec::with_capacity(self.g.sectors_per_unit as usize);
        for i in 0..self.g.sectors_per_unit {
            let oob = ftl.oob(Ppa(ppa.0 + i)).map(|(lpn, stamp)| (lpn.0, stamp));
            let held = oob.and_then(|version| match self.cached {
                true => self.pages.copy(version),
                false => self.pages.take(version),
            });
            let (lpn, stamp) = oob.unwrap_or((NO_LPN, 0));
            let mut crc = 0;
            let page = match held {
                Some(page) => {
                    crc = sector_crc(lpn, stamp, &page[..]);
                    page
                }
                None => {
                    let mut page = self.pages.fresh();
                    page.fill(0);
                    if oob.is_some() && stamp & LOST == 0 {
                        // Lost: what is read back must not look like data.
                        crc = !sector_crc(lpn, stamp, &page[..]);
                        self.counters.unreadable += 1;
                    }
                    page
                }
            };
            spares.push(Spare { lpn, stamp, crc });
            pages.push(page);
        }
        pages
    }
    /// The unit at hand, in pages.
    fn paged(&mut self) -> Vec<Page> {
        let unit = std::mem::take(&mut self.unit);
        let page = |data: &[u8]| {
            let mut page = self.pages.fresh();
            page.copy_from_slice(data);
            page
        };
        let pages = unit.chunks_exact(PAGE).map(page).collect();
        self.unit = unit;
        pages
    }
    fn sum_parity(&mut self, ppa: Ppa, ftl: &Translator, spares: &mut Vec<Spare>) -> Vec<Page> {
        let size = self.g.sectors_per_unit;
        let mut sum = std::mem::take(&mut self.unit);
        sum.fill(0);
        let mut page = [0; PAGE];
        for (member, factor) in ftl.parity_terms(ppa) {
            for i in 0..size {
                if self.content(Ppa(member.0 + i), ftl, &mut page) {
                    add_times(&mut sum[i as usize * PAGE..][..PAGE], &page, factor);
                }
            }
        }
        self.unit = sum;
        for i in 0..size {
            let data = &self.unit[i as usize * PAGE..][..PAGE];
            let (lpn, stamp) = ftl.oob(Ppa(ppa.0 + i)).map_or((NO_LPN, 0), |(l, s)| (l.0, s));
            spares.push(Spare { lpn, stamp, crc: sector_crc(lpn, stamp, data) });
        }
        self.paged()
    }
    /// What a sector of data holds or is about to hold. False: nothing, which is zeroes.
    fn content(&self, ppa: Ppa, ftl: &Translator, into: &mut [u8; PAGE]) -> bool {
        let Some((lpn, stamp)) = ftl.oob(ppa) else { return false };
        if let Some(page) = self.pages.get_any((lpn.0, stamp)) {
            into.copy_from_slice(page);
            return true;
        }
        stamp & LOST == 0 && self.read_flash(ppa.0, into)
    }
    /// The bytes at a place, within a unit. False: they cannot be read.
    fn read_flash(&self, ppa: u32, into: &mut [u8]) -> bool {
        let held = match self.held.is_empty() {
            true => None,
            false => self.held_at.get(&(ppa / self.g.sectors_per_unit)),
        };
        match held.filter(|unit| !unit.pages.is_empty()) {
            Some(unit) => {
                let pages = &unit.pages[(ppa - unit.ppa) as usize..];
                into.chunks_exact_mut(PAGE).zip(pages).for_each(|(i, p)| i.copy_from_slice(&p[..]));
                true
            }
            None => self.image.read_sectors(ppa, into).is_ok(),
        }
    }

    /// Reads what the collector moves, from the rest of the stride where it cannot be had. A read that
    /// fails in the model fails for all its sectors, and so it does only where parity gives all of
    /// them there, too: otherwise those that are whole would be lost with the others. What cannot be
    /// had gets no page here, and its copy no checksum that fits.
    fn read_to_move(&mut self, ppa: Ppa, sectors: u32, ftl: &Translator) -> bool {
        let block = self.g.line_of(ppa) * self.g.luns + self.g.lun_of(ppa);
        let mut run = std::mem::take(&mut self.unit);
        let bytes = &mut run[..sectors as usize * PAGE];
        let read = self.read_flash(ppa.0, bytes);
        let (mut mended, mut lost) = (false, false);
        // Read to compute another unit: its addresses are sums, and name nothing that is moved.
        let is_parity = self.is_parity(ppa, ftl);
        for (i, data) in bytes.chunks_exact_mut(PAGE).enumerate() {
            let at = Ppa(ppa.0 + i as u32);
            let Some((Lpn(lpn), stamp)) = ftl.oob(at) else { continue };
            if stamp & LOST != 0 || !is_parity && self.pages.get((lpn, stamp)).is_some() {
                continue;
            }
            let mut good = read && self.crcs[at] == sector_crc(lpn, stamp, data);
            if is_parity {
                lost |= !good;
                continue;
            }
            if !good {
                // The FTL learns of the failure below, and repairs by the same parity.
                self.counters.unreadable += 1;
                good = self.rebuild(at, (lpn, stamp), ftl, data);
                mended |= good;
                lost |= !good;
            }
            if good {
                let mut page = self.pages.fresh();
                page.copy_from_slice(data);
                self.pages.put_moving(block, (lpn, stamp), page);
            }
        }
        self.unit = run;
        if is_parity {
            return !lost;
        }
        !mended || lost || !self.rest_is_whole(ppa, sectors, ftl)
    }
    /// All that a run of sectors is computed from can be read.
    fn rest_is_whole(&mut self, ppa: Ppa, sectors: u32, ftl: &Translator) -> bool {
        let mut page = [0; PAGE];
        let terms = ftl.rebuild_terms(ppa, sectors);
        terms.is_some_and(|terms| {
            let places = terms.iter().flat_map(|&(at, _)| (at.0..at.0 + sectors).map(Ppa));
            places.filter(|&at| ftl.has_address(at)).all(|at| {
                let version = ftl.oob(at).map(|(lpn, stamp)| (lpn.0, stamp));
                version.is_none_or(|v| self.read_flash(at.0, &mut page) && self.fits(at, v, &page))
            })
        })
    }

    /// Reads one sector of data in flash, checked. False: it cannot be had.
    pub fn read_sector(&mut self, ppa: Ppa, version: Version, into: &mut [u8]) -> bool {
        if version.1 & LOST != 0 {
            return false;
        }
        let read = self.read_flash(ppa.0, into);
        let good = read && self.fits(ppa, version, into);
        self.counters.unreadable += u64::from(!good);
        good
    }
    /// These bytes are what was written there as this version.
    pub fn fits(&self, ppa: Ppa, version: Version, data: &[u8]) -> bool {
        self.crcs[ppa] == sector_crc(version.0, version.1, data)
    }
    /// Computes a sector from the rest of its stride.
    pub fn rebuild(
        &mut self,
        ppa: Ppa,
        version: Version,
        ftl: &Translator,
        into: &mut [u8],
    ) -> bool {
        let Some(terms) = ftl.rebuild_terms(ppa, 1) else { return false };
        into.fill(0);
        let mut page = [0; PAGE];
        for (at, factor) in terms {
            if !ftl.has_address(at) {
                continue;
            }
            let buffered = ftl.oob(at).and_then(|(l, s)| self.pages.get_any((l.0, s)));
            match buffered {
                Some(data) if !self.is_parity(at, ftl) => page.copy_from_slice(data),
                _ if self.read_flash(at.0, &mut page) => {}
                _ => return false,
            }
            add_times(into, &page, factor);
        }
        let good = self.fits(ppa, version, into);
        self.counters.rebuilt += u64::from(good);
        self.counters.misbuilt += u64::from(!good);
        good
    }
    /// The physical sector holds parity.
    pub fn is_parity(&self, ppa: Ppa, ftl: &Translator) -> bool {
        ftl.pblk().is_some_and(|ftl| ftl.is_parity(ppa))
    }

    /// Sectors in a row were trimmed: whatever older copy flash holds is not to come back.
    pub fn note_trim(&mut self, lpn: u32, sectors: u32, stamps: &Stamps) {
        let written = |l: &u32| stamps.next(Lpn(*l)) > 1;
        let Some(first) = (lpn..lpn + sectors).find(written) else { return };
        let last = (lpn..lpn + sectors).rfind(written).unwrap_or(first);
        for l in first..=last {
            self.trims[Lpn(l)] = stamps.next(Lpn(l)) - 1;
        }
        let trims = self.trims.slice(Lpn(first)..Lpn(last + 1)).to_vec();
        self.writer.push(None, Work::Trims(first, trims));
    }
    /// Throws away versions that are in flash or were overwritten before they went anywhere.
    pub fn sweep(&mut self, controller: &Controller, stamps: &Stamps) {
        let Some(ftl) = controller.ftl().filter(|_| self.pages.is_crowded()) else { return };
        let unwritten: std::collections::BTreeSet<Version> =
            ftl.unwritten().into_iter().map(|(lpn, stamp)| (lpn.0, stamp)).collect();
        self.pages.sweep(|version| {
            let (lpn, stamp) = (Lpn(version.0), version.1);
            stamp >= stamps.next(lpn) || stamp == stamps.newest(lpn) || unwritten.contains(&version)
        });
    }
    /// Blocks that are bad, or that failed and are still read.
    pub fn bad_blocks(&self, ftl: &Translator) -> usize {
        let id = |line: u32, lun: u32| (line * self.g.luns + lun) as usize;
        let bad = ftl.media_state().filter(|b| b.bad || self.bad.get(id(b.line, b.lun)));
        bad.count()
    }
    /// The block table, as wear has it now.
    fn write_wear(&mut self, nand: &Nand, ftl: &Translator) -> std::io::Result<()> {
        for block in ftl.media_state() {
            let id = block.line * self.g.luns + block.lun;
            let bad = block.bad || self.bad.get(id as usize);
            let record = BlockRecord { erases: nand.erases(block.lun, block.line), bad };
            if record != BlockRecord::default() {
                self.image.write_one(self.image.of_block(id, record))?;
            }
        }
        Ok(())
    }
    /// Programs so far, since the image was made.
    pub fn programs(&self) -> u64 {
        self.order - 1
    }
}

/// `into += factor * data` in GF(256) with polynomial 0x11D.
pub(crate) fn add_times(into: &mut [u8], data: &[u8], factor: u8) {
    if factor == 1 {
        into.iter_mut().zip(data).for_each(|(a, b)| *a ^= b);
        return;
    }
    let mut products = [0u8; 256];
    for (n, product) in products.iter_mut().enumerate() {
        let (mut a, mut b) = (n as u8, factor);
        while b > 0 {
            if b & 1 == 1 {
                *product ^= a;
            }
            a = (a << 1) ^ ((a >> 7) * 0x1D);
            b >>= 1;
        }
    }
    into.iter_mut().zip(data).for_each(|(a, b)| *a ^= products[usize::from(*b)]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Act, Journal};
    use crate::recover::recover;
    use crate::recover::tests::{create, system};
    use std::time::{Duration, Instant};
    use wordline_base::{IoId, Span, Time};

    fn record(kind: OpKind, class: Class, ppa: Ppa, outcome: Outcome) -> Record {
        let at = Time(0);
        let op = Op { kind, class, ppa, sectors: 0, slc: false, owner: 0, io: IoId::NONE };
        Record {
            op,
            outcome,
            lun: 0,
            channel: 0,
            submitted: at,
            started: at,
            bus_start: at,
            bus_end: at,
            array_end: at,
            out_start: at,
            end: at,
            decode: Span::ZERO,
            decoded: Time::ZERO,
            waited: Default::default(),
            away: [Span(0); 3],
            again: Span::ZERO,
            held: None,
        }
    }

    /// The copies of what the block held may be on their way to the disk: a loss of power before they are
    /// there must find the block as it was.
    #[test]
    fn the_first_program_of_an_erased_line_is_written_after_a_sync() {
        let system = system();
        let g = Geometry::new(&system.nand).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.img");
        create(&path, &g);
        let image = Image::open(&path, true).unwrap();
        let mut recovered = recover(&image, &system, true).unwrap();
        let journal = Arc::new(Journal::new(Duration::from_millis(200)));
        let image = Arc::new(image.journalled(Some(Arc::clone(&journal))));
        let writer = Writer::start(Arc::clone(&image), false).unwrap();
        let mut media = Media::new(image, &mut recovered, writer, &system);
        let ppa = Ppa(5 * g.units_per_line() * g.sectors_per_unit);
        for (kind, class) in [(OpKind::Erase, Class::Erase), (OpKind::Program, Class::UserProgram)]
        {
            let record = record(kind, class, ppa, Outcome::Ok);
            assert!(media.perform(&record, &recovered.ftl, &recovered.nand), "{kind:?}");
        }
        media.writer.kick();
        let begun = Instant::now();
        while media.writer.written() < media.writer.pushed() {
            assert!(begun.elapsed() < Duration::from_secs(180), "nothing is written");
            std::thread::sleep(Duration::from_millis(1));
        }
        let acts = journal.take();
        let synced = acts.iter().position(|act| matches!(act, Act::SyncEnded(_)));
        let written = acts.iter().position(|act| matches!(act, Act::Wrote(..)));
        assert!(synced.is_some() && synced < written, "synced {synced:?}, written {written:?}");
    }

    /// A copy of what the block held may be on its way: as long as it is not synced, nothing may say
    /// that the block holds nothing, also if all it has seen since its erasure is a failure.
    #[test]
    fn what_fails_first_in_an_erased_line_waits_for_its_sync() {
        let system = system();
        let g = Geometry::new(&system.nand).unwrap();
        // One block is erased before, or the first of all fails.
        let failures = [
            (OpKind::Program, Class::UserProgram, true, 2),
            (OpKind::Erase, Class::Erase, true, 1),
            (OpKind::Erase, Class::Erase, false, 1),
        ];
        for (kind, class, one_before, items) in failures {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a.img");
            create(&path, &g);
            let image = Image::open(&path, true).unwrap();
            let mut recovered = recover(&image, &system, true).unwrap();
            // It takes all that is written, and cannot be synced.
            let null = std::fs::File::options().read(true).write(true).open("/dev/null").unwrap();
            let image = Arc::new(image.with_file(null));
            let writer = Writer::start(Arc::clone(&image), false).unwrap();
            let mut media = Media::new(image, &mut recovered, writer, &system);
            let at = |lun: u32| Ppa((5 * g.units_per_line() + lun) * g.sectors_per_unit);
            let perform = |media: &mut Media, record: &Record| {
                media.perform(record, &recovered.ftl, &recovered.nand)
            };
            let erased = record(OpKind::Erase, Class::Erase, at(0), Outcome::Ok);
            assert!(!one_before || perform(&mut media, &erased));
            assert!(!perform(&mut media, &record(kind, class, at(1), Outcome::Failed)));
            let begun = Instant::now();
            while media.stalled().is_none() {
                assert!(begun.elapsed() < Duration::from_secs(180), "{kind:?}: nothing waits");
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(media.writer.written() + items, media.writer.pushed(), "{kind:?}");
        }
    }
}
