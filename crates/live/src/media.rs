//! The bytes behind the NAND machine: each flash operation of the model, when it ends, is done to the
//! image.
//!
//! - program: the unit's data, then its record, at the place of its address. What its sectors hold is
//!   told by the FTL (address and stamp) and found among the [`Pages`]; parity is summed here.
//! - read: the bytes at the place, checked against the checksum that was written with them.
//! - erase: only noted. It reaches the image before the line's next program, and after everything
//!   written until the erase is durable: copies of what the block held may be the only ones.

use crate::image::{BlockRecord, Image, NO_LPN, Spare, UnitKind, UnitRecord, sector_crc};
use crate::pages::{PAGE, Pages, Version};
use crate::recover::Recovered;
use crate::smeta;
use crate::sync::{Syncer, Ticket};
use wordline_base::{Lpn, Stamps};
use wordline_device::Controller;
use wordline_ftl::{Ftl, LOST};
use wordline_nand::{Class, Geometry, Nand, Op, OpKind, Outcome, Ppa, Record};
use wordline_sim::SystemConfig;

/// A unit that could not be written to the image yet.
struct Unwritten {
    ppa: u32,
    data: Vec<u8>,
    record: UnitRecord,
    why: std::io::Error,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MediaCounters {
    pub unreadable: u64,
    /// Sectors given from parity, and those of them that were not what was written.
    pub rebuilt: u64,
    pub misbuilt: u64,
    /// Programs that had to wait for a sync.
    pub waited: u64,
}

pub struct Media {
    pub image: Image,
    pub pages: Pages,
    pub syncer: Syncer,
    pub counters: MediaCounters,
    g: Geometry,
    crcs: Vec<u32>,
    trims: Vec<u32>,
    order: u64,
    /// Time stands still until it is written.
    unwritten: Option<Unwritten>,
    /// Block ids erased and not programmed since, and when they may be.
    erased: Vec<(u32, Ticket)>,
    /// A block id can be in two lines.
    split: bool,
    /// Syncs under way: what each makes durable.
    syncing: Vec<(Ticket, u64)>,
    /// A cache in front may hand the FTL one version twice: versions are kept until they are swept.
    cached: bool,
    /// The unit at hand.
    unit: Vec<u8>,
    spares: Vec<Spare>,
    versions: Vec<Version>,
}

impl Media {
    pub fn new(
        image: Image,
        recovered: &mut Recovered,
        syncer: Syncer,
        system: &SystemConfig,
    ) -> Media {
        let g = recovered.nand.geometry;
        Media {
            image,
            pages: Pages::new(),
            syncer,
            counters: MediaCounters::default(),
            g,
            crcs: std::mem::take(&mut recovered.crcs),
            trims: std::mem::take(&mut recovered.trims),
            order: recovered.order,
            unwritten: None,
            erased: Vec::new(),
            syncing: Vec::new(),
            cached: system.device.cache.is_some(),
            split: system.ftl.hot_cold,
            unit: vec![0; g.unit_bytes() as usize],
            spares: Vec::with_capacity(g.sectors_per_unit as usize),
            versions: Vec::new(),
        }
    }

    /// Does what a finished operation does to the image. False: its bytes cannot be had.
    pub fn perform(&mut self, record: &Record, ftl: &Ftl, nand: &Nand) -> bool {
        let op = &record.op;
        let (line, lun) = (self.g.line_of(op.ppa), self.g.lun_of(op.ppa));
        let block = line * self.g.luns + lun;
        if record.outcome == Outcome::Failed {
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
        match op.kind {
            OpKind::Read => return false,
            OpKind::Program => {
                let _ = self.image.void_unit(self.g.unit_of(op.ppa).0);
            }
            OpKind::Erase => {
                let _ = self.commit_erases(Some(self.g.line_of(op.ppa)));
            }
        }
        let (line, lun) = (self.g.line_of(op.ppa), self.g.lun_of(op.ppa));
        let record = BlockRecord { erases: nand.erases(lun, line), bad: true };
        let _ = self.image.write_block(block, record);
        false
    }
    /// Why the image cannot be written, if it cannot.
    pub fn stalled(&self) -> Option<&std::io::Error> {
        self.unwritten.as_ref().map(|u| &u.why)
    }
    /// Tries again to write what could not be written. True: nothing is left of it.
    pub fn retry(&mut self) -> bool {
        let Some(u) = &mut self.unwritten else { return true };
        let unit = self.g.unit_of(Ppa(u.ppa)).0;
        let image = &self.image;
        match image.write_sectors(u.ppa, &u.data).and_then(|()| image.write_unit(unit, &u.record)) {
            Ok(()) => {
                self.unwritten = None;
                true
            }
            Err(e) => {
                u.why = e;
                false
            }
        }
    }

    /// Asks for a sync; [`Media::synced`] tells when it is done.
    pub fn request_sync(&mut self) -> Ticket {
        let ticket = self.syncer.request();
        self.syncing.push((ticket, self.order - 1));
        ticket
    }
    /// Takes note of syncs that are done: units written before them are durable.
    pub fn note_synced(&mut self) {
        let mut newest = None;
        while let Some(&(ticket, order)) = self.syncing.first() {
            match self.syncer.is_done(ticket) {
                Some(Ok(())) => newest = Some(order),
                Some(Err(_)) => {}
                None => break,
            }
            self.syncing.remove(0);
        }
        if let Some(order) = newest
            && order > self.image.state.synced
        {
            // If this fails more is looked at after a crash.
            let _ = self.image.write_state(false, order);
        }
    }
    /// Serving begins: units up to `order` are those that recovery found whole.
    pub fn begin(&mut self, order: u64) -> std::io::Result<()> {
        self.image.sync()?;
        self.image.write_state(false, order)?;
        self.image.sync()
    }
    /// Everything is in the image: makes it durable, and says so in it.
    pub fn close(&mut self, nand: &Nand, ftl: &Ftl) -> std::io::Result<()> {
        self.commit_erases(None)?;
        self.image.sync()?;
        self.write_wear(nand, ftl)?;
        self.image.sync()?;
        self.image.write_state(true, self.order - 1)?;
        self.image.sync()
    }

    fn program(&mut self, ppa: Ppa, class: Class, ftl: &Ftl, nand: &Nand) -> bool {
        let g = self.g;
        let block_id = g.line_of(ppa);
        let mut committed = Ok(());
        if self.erased.iter().any(|e| e.0 == block_id) {
            committed = self.commit_erases(Some(block_id));
        }
        let line = ftl.line_at(ppa);
        let unit = g.unit_of(ppa).0;
        let (seq, emeta, whole) = ftl.line_layout(line);
        self.spares.clear();
        self.versions.clear();
        let none = Spare { lpn: NO_LPN, stamp: 0, crc: 0 };
        let mut about = (0, 0);
        let kind = match class {
            Class::ParityProgram => {
                self.sum_parity(ppa, ftl);
                UnitKind::Parity
            }
            Class::MetaProgram => {
                let record = ftl.line_smeta(line);
                self.spares.resize(g.sectors_per_unit as usize, none);
                if record.unit == unit - block_id * g.units_per_line() {
                    let erases: Vec<u32> =
                        (0..g.luns).map(|lun| nand.erases(lun, block_id)).collect();
                    smeta::encode(&record, &erases, &mut self.unit);
                    UnitKind::Smeta
                } else {
                    // The sector list is what the records of the line's units say.
                    self.unit.fill(0);
                    about = (emeta, whole);
                    UnitKind::Emeta
                }
            }
            _ => {
                self.gather(ppa, ftl);
                UnitKind::Data
            }
        };
        let record = UnitRecord {
            kind,
            erases: nand.erases(g.lun_of(ppa), block_id),
            order: self.order,
            seq,
            emeta: about,
            spares: std::mem::take(&mut self.spares),
        };
        let image = &self.image;
        let written = committed
            .and_then(|()| match kind {
                UnitKind::Emeta => Ok(()),
                _ => image.write_sectors(ppa.0, &self.unit),
            })
            .and_then(|()| image.write_unit(unit, &record));
        self.order += 1;
        for (i, spare) in record.spares.iter().enumerate() {
            self.crcs[ppa.0 as usize + i] = spare.crc;
        }
        match written {
            Ok(()) => self.spares = record.spares,
            Err(why) => {
                let data = self.unit.clone();
                self.unwritten = Some(Unwritten { ppa: ppa.0, data, record, why });
            }
        }
        if !self.cached {
            for i in 0..self.versions.len() {
                self.pages.drop_version(self.versions[i]);
            }
        }
        true
    }
    /// Brings a unit's sectors together.
    fn gather(&mut self, ppa: Ppa, ftl: &Ftl) {
        for i in 0..self.g.sectors_per_unit {
            let into = i as usize * PAGE..(i as usize + 1) * PAGE;
            let into = &mut self.unit[into];
            let Some((Lpn(lpn), stamp)) = ftl.oob(Ppa(ppa.0 + i)) else {
                into.fill(0);
                self.spares.push(Spare { lpn: NO_LPN, stamp: 0, crc: 0 });
                continue;
            };
            let mut crc = 0;
            match self.pages.get_any((lpn, stamp)) {
                Some(page) => {
                    into.copy_from_slice(page);
                    crc = sector_crc(lpn, stamp, into);
                }
                None => {
                    // Lost: what is read back must not look like data.
                    into.fill(0);
                    if stamp & LOST == 0 {
                        crc = !sector_crc(lpn, stamp, into);
                        self.counters.unreadable += 1;
                    }
                }
            }
            self.versions.push((lpn, stamp));
            self.spares.push(Spare { lpn, stamp, crc });
        }
    }
    fn sum_parity(&mut self, ppa: Ppa, ftl: &Ftl) {
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
            self.spares.push(Spare { lpn, stamp, crc: sector_crc(lpn, stamp, data) });
        }
    }
    /// What a sector of data holds or is about to hold. False: nothing, which is zeroes.
    fn content(&self, ppa: Ppa, ftl: &Ftl, into: &mut [u8; PAGE]) -> bool {
        let Some((lpn, stamp)) = ftl.oob(ppa) else { return false };
        if let Some(page) = self.pages.get_any((lpn.0, stamp)) {
            into.copy_from_slice(page);
            return true;
        }
        stamp & LOST == 0 && self.image.read_sectors(ppa.0, into).is_ok()
    }

    /// Reads what the collector moves, from the rest of the stride where it cannot be had.
    fn read_to_move(&mut self, ppa: Ppa, sectors: u32, ftl: &Ftl) -> bool {
        let block = self.g.line_of(ppa) * self.g.luns + self.g.lun_of(ppa);
        let mut run = std::mem::take(&mut self.unit);
        let bytes = &mut run[..sectors as usize * PAGE];
        let read = self.image.read_sectors(ppa.0, bytes).is_ok();
        let mut whole = read;
        for (i, data) in bytes.chunks_exact_mut(PAGE).enumerate() {
            let at = Ppa(ppa.0 + i as u32);
            let Some((Lpn(lpn), stamp)) = ftl.oob(at) else { continue };
            if stamp & LOST != 0 || self.pages.get((lpn, stamp)).is_some() {
                continue;
            }
            let mut good = read && self.crcs[at.0 as usize] == sector_crc(lpn, stamp, data);
            if !good {
                // The FTL learns of the failure below, and repairs by the same parity.
                self.counters.unreadable += 1;
                good = self.rebuild(at, (lpn, stamp), ftl, data);
                whole = false;
            }
            if good {
                let mut page = self.pages.fresh();
                page.copy_from_slice(data);
                self.pages.put_moving(block, (lpn, stamp), page);
            }
        }
        self.unit = run;
        whole
    }

    /// Reads one sector of data in flash, checked. False: it cannot be had.
    pub fn read_sector(&mut self, ppa: Ppa, version: Version, into: &mut [u8]) -> bool {
        if version.1 & LOST != 0 {
            return false;
        }
        let read = match &self.unwritten {
            Some(u) if ppa.0 / self.g.sectors_per_unit == u.ppa / self.g.sectors_per_unit => {
                into.copy_from_slice(&u.data[(ppa.0 - u.ppa) as usize * PAGE..][..PAGE]);
                true
            }
            _ => self.image.read_sectors(ppa.0, into).is_ok(),
        };
        let good = read && self.fits(ppa, version, into);
        self.counters.unreadable += u64::from(!good);
        good
    }
    /// These bytes are what was written there as this version.
    pub fn fits(&self, ppa: Ppa, version: Version, data: &[u8]) -> bool {
        self.crcs[ppa.0 as usize] == sector_crc(version.0, version.1, data)
    }
    /// Computes a sector from the rest of its stride.
    pub fn rebuild(&mut self, ppa: Ppa, version: Version, ftl: &Ftl, into: &mut [u8]) -> bool {
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
                _ if self.image.read_sectors(at.0, &mut page).is_ok() => {}
                _ => return false,
            }
            add_times(into, &page, factor);
        }
        let good = self.fits(ppa, version, into);
        self.counters.rebuilt += u64::from(good);
        self.counters.misbuilt += u64::from(!good);
        good
    }
    pub fn is_parity(&self, ppa: Ppa, ftl: &Ftl) -> bool {
        ftl.line_smeta(ftl.line_at(ppa)).parity.get(self.g.lun_of(ppa) as usize)
    }

    /// Puts erasures into the image, once that can lose nothing: those of a line, or all.
    fn commit_erases(&mut self, line: Option<u32>) -> std::io::Result<()> {
        let mine = |e: &(u32, Ticket)| line.is_none_or(|line| e.0 == line);
        if let Some(&(_, ticket)) = self.erased.iter().rfind(|&e| mine(e))
            && !matches!(self.syncer.is_done(ticket), Some(Ok(())))
        {
            self.counters.waited += 1;
            self.syncer.wait(ticket).map_err(std::io::Error::other)?;
        }
        // The program that follows writes the record of its block: it counts erasures too.
        self.erased.retain(|e| !mine(e));
        Ok(())
    }

    /// Sectors in a row were trimmed: whatever older copy flash holds is not to come back.
    pub fn note_trim(&mut self, lpn: u32, sectors: u32, stamps: &Stamps) -> std::io::Result<()> {
        let written = |l: &u32| stamps.next(Lpn(*l)) > 1;
        let Some(first) = (lpn..lpn + sectors).find(written) else { return Ok(()) };
        let last = (lpn..lpn + sectors).rfind(written).unwrap_or(first);
        for l in first..=last {
            self.trims[l as usize] = stamps.next(Lpn(l)) - 1;
        }
        let range = first as usize..=last as usize;
        self.image.write_trims(first, &self.trims[range])
    }
    /// Throws away versions that are in flash or were overwritten before they went anywhere.
    pub fn sweep(&mut self, controller: &Controller, stamps: &Stamps) {
        let Some(ftl) = controller.ftl().filter(|_| self.pages.is_crowded()) else { return };
        let unwritten: std::collections::BTreeSet<Version> =
            ftl.unwritten().map(|(lpn, stamp)| (lpn.0, stamp)).collect();
        self.pages.sweep(|version| {
            let (lpn, stamp) = (Lpn(version.0), version.1);
            stamp >= stamps.next(lpn) || stamp == stamps.newest(lpn) || unwritten.contains(&version)
        });
    }
    /// The block table, as wear has it now.
    fn write_wear(&mut self, nand: &Nand, ftl: &Ftl) -> std::io::Result<()> {
        for block in ftl.media_state() {
            let record = BlockRecord { erases: nand.erases(block.lun, block.line), bad: block.bad };
            if record != BlockRecord::default() {
                self.image.write_block(block.line * self.g.luns + block.lun, record)?;
            }
        }
        Ok(())
    }
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
