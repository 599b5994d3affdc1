//! From an image to a drive: the steps of a start, in order, and what each found.
//!
//! The map is rebuilt by the FTL's own recovery ([`wordline_ftl::Ftl::recover`]); what is done here is
//! reading the media for it, and deciding which units were programmed (docs/design/live.md).

use crate::error::{Error, ImageFault, RunError};
use crate::image::{BlockRecord, Found, Image, NO_LPN, Spare, UnitKind, UnitRecord, sector_crc};
use crate::smeta;
use std::fmt;
use wordline_base::{BadValue, BitMap, IdVec, Lpn, SECTOR, Seed, Stamps};
use wordline_device::DriveConfig;
use wordline_ftl::{
    Ftl, KeptVersions, LOST, LineMedia, Media, RecoverError, Recovery, SmetaRecord, Stream,
    Translation, Translator, Written,
};
use wordline_nand::{BlockId, Geometry, Nand, Ppa};

/// A drive as its image has it.
/// What a step of recovery found; prints as `map: 7 sectors mapped, ...`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The step's name.
    pub step: &'static str,
    /// In words.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.step, self.text)
    }
}

/// A drive as its image has it.
pub struct Recovered {
    /// Flash.
    pub nand: Nand,
    /// The FTL with its map.
    pub ftl: Translator,
    /// The newest version of each sector.
    pub stamps: Stamps,
    /// By physical sector: the checksum of what was written there.
    pub crcs: IdVec<Ppa, u32>,
    /// By logical sector: the stamp at its last trim.
    pub trims: IdVec<Lpn, u32>,
    /// The next program's.
    pub order: u64,
    /// What the steps found.
    pub report: Vec<Finding>,
    /// Units whose program had begun and that were not whole in the file: they do not count.
    pub unsynced_dropped: u64,
    /// Units with a whole record.
    pub recorded: BitMap,
    /// Blocks that are not to be used, or whose FTL has yet to empty them since an operation failed.
    pub bad: BitMap,
    /// Lines whose smeta was had from elsewhere.
    pub smetas_mended: u32,
    /// What is lost.
    pub damage: Damage,
    /// Too few of its blocks are good to write: why. It can only be read.
    pub worn: Option<BadValue>,
}

impl Recovered {
    /// Logical sectors.
    pub fn sectors(&self) -> u64 {
        self.ftl.sectors()
    }
    /// Sectors that flash holds.
    pub fn mapped(&self) -> u64 {
        let all = (0..self.sectors() as u32).map(Lpn);
        all.filter(|&lpn| self.ftl.newest_at(lpn).is_some()).count() as u64
    }
    /// Lines that are free to be written, of FTLs that have lines.
    pub fn free_lines(&self) -> u32 {
        self.ftl.free_lines().map_or(0, |lines| lines.0)
    }
    /// Writes the state of the drive, without data.
    pub fn save(&self, to: &mut dyn std::io::Write) -> std::io::Result<()> {
        self.ftl.save(to)
    }
}

/// What no crash explains, and what cannot be told because of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Damage {
    /// Each reason, in words.
    pub reasons: Vec<String>,
    /// A unit of this order or before it cannot be read, whatever it held: only what was programmed
    /// later is known to be the newest.
    doubt: Option<u64>,
    /// Records of trims cannot be read: an older copy of such a sector is no longer known as such.
    trims: LostTrims,
    /// Logical sectors of which it is not known what they hold, if any.
    unproven: BitMap,
}

impl Damage {
    /// Nothing is lost.
    pub fn is_none(&self) -> bool {
        self.reasons.is_empty()
    }
    /// Sectors of which that is not known, up to a size, as ranges of bytes.
    pub fn unproven(&self, size: u64) -> Vec<(u64, u64)> {
        let sectors = self.unproven.iter().map(|lpn| lpn as u64 * SECTOR);
        ranges(sectors.take_while(|&at| at < size))
    }
    /// It is known which version of the sector is the newest.
    pub fn spares(&self, lpn: Lpn) -> bool {
        self.unproven.is_empty() || !self.unproven.get(lpn.0 as usize)
    }
    /// What is to be said of the image, with the remedy.
    pub fn explain(&self, image: &Image) -> Error {
        let (path, reasons) = (image.path().into(), self.reasons.clone());
        RunError::Damaged { path, reasons }.into()
    }
}

/// Records of trims that are lost.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct LostTrims {
    /// Sectors whose record is not whole, in order.
    torn: Vec<u32>,
    /// Others are gone, of any sectors that have none.
    gone: bool,
}

/// Sectors in order, as ranges: where they begin, and how long they are.
pub(crate) fn ranges(sectors: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for at in sectors {
        match ranges.last_mut() {
            Some(last) if last.0 + last.1 == at => last.1 += SECTOR,
            _ => ranges.push((at, SECTOR)),
        }
    }
    ranges
}

/// What is in flash before it is understood.
struct Recovering<'a> {
    /// What is read.
    image: &'a Image,
    /// The drive that it is of.
    system: &'a DriveConfig,
    /// The shape of its flash.
    g: Geometry,
    /// Flash as it is found.
    nand: Nand,
    /// Torn or unfinished units are made void in the image.
    repair: bool,
    /// What each block's record says.
    blocks: IdVec<BlockId, BlockRecord>,
    /// The record of each unit.
    records: IdVec<u32, Option<Box<UnitRecord>>>,
    /// Units whose program was cut.
    torn: Vec<u32>,
    /// Records of each line's smeta.
    smetas: IdVec<u32, Vec<SmetaRecord>>,
    /// What each line holds.
    lines: IdVec<u32, LineMedia>,
    /// The stamp at each sector's last trim.
    trims: IdVec<Lpn, u32>,
    /// The next program's number.
    order: u64,
    /// Units that do not count.
    dropped: u64,
    /// Units with a whole record.
    recorded: BitMap,
    /// Lines whose smeta was had from elsewhere.
    smetas_mended: u32,
    /// What is lost.
    damage: Damage,
}

/// Builds the drive of an image. `repair`: what a crash left unfinished is made void, and what can be
/// had twice is written where it is missing; nothing is changed where there is other damage.
pub fn recover(image: &Image, system: &DriveConfig, repair: bool) -> Result<Recovered, Error> {
    let seed = Seed(image.superblock.seed);
    let nand = Nand::new(&system.nand, seed).map_err(|bad| bad.below("nand"))?;
    let g = nand.geometry;
    if !image.fits(&g) {
        return Err(Error::Image { path: image.path().into(), fault: ImageFault::Geometry });
    }
    let units = g.units_per_line() as usize * g.lines as usize;
    let mut r = Recovering {
        image,
        system,
        g,
        nand,
        repair,
        blocks: IdVec::new(),
        records: Vec::with_capacity(units).into(),
        torn: Vec::new(),
        smetas: IdVec::filled(Vec::new(), g.lines),
        lines: IdVec::new(),
        trims: IdVec::new(),
        order: 1,
        dropped: 0,
        recorded: BitMap::new(units),
        smetas_mended: 0,
        damage: Damage::default(),
    };
    let mut report = Vec::new();
    for (name, step) in Recovering::STEPS {
        report.push(Finding { step: name, text: step(&mut r)? });
    }
    r.finish(seed, report)
}

fn unreadable(image: &Image, e: std::io::Error) -> Error {
    Error::io("cannot read the image", image.path(), e)
}

type Step<R> = fn(&mut R) -> Result<String, Error>;

impl<'a> Recovering<'a> {
    /// The steps up to the FTL's own.
    const STEPS: [(&'static str, Step<Recovering<'a>>); 7] = [
        ("state", Recovering::state),
        ("block table", Recovering::block_table),
        ("unit records", Recovering::unit_records),
        ("trims", Recovering::read_trims),
        ("damage", Recovering::judge),
        ("data not synced", Recovering::verify_unsynced),
        ("line metadata", Recovering::line_metadata),
    ];

    fn state(&mut self) -> Result<String, Error> {
        let s = self.image.state();
        self.order = s.synced + 1;
        Ok(match (s.generation, s.clean) {
            (0, _) => "new".into(),
            (_, true) => "shut down in good order".into(),
            (_, false) => "not shut down: the server was killed, or the host went down".into(),
        })
    }

    fn block_table(&mut self) -> Result<String, Error> {
        let found = self.image.read_blocks().map_err(|e| unreadable(self.image, e))?;
        let mut torn = 0;
        for (i, found) in found.into_iter().enumerate() {
            let (line, lun) = (i as u32 / self.g.luns, i as u32 % self.g.luns);
            let mut record = match found {
                Found::Whole(record) => record,
                Found::Blank => BlockRecord::default(),
                Found::Torn => {
                    torn += 1;
                    BlockRecord::default()
                }
            };
            record.bad |= self.nand.is_factory_bad(lun, line);
            self.blocks.push(record);
        }
        let bad = self.blocks.iter().filter(|b| b.bad).count();
        let erases: u64 = self.blocks.iter().map(|b| u64::from(b.erases)).sum();
        Ok(format!("{bad} bad blocks, {erases} erasures, {torn} torn entries"))
    }

    fn unit_records(&mut self) -> Result<String, Error> {
        let mut kinds = [0u64; 5];
        let (mut torn, mut erased) = (0u64, 0u64);
        let (g, blocks, records) = (self.g, &mut self.blocks, &mut self.records);
        let (torn_units, order, recorded) = (&mut self.torn, &mut self.order, &mut self.recorded);
        let each = |unit: u32, found: Found<UnitRecord>| {
            let line = unit / g.units_per_line();
            let block = &mut blocks[line * g.luns + unit % g.luns];
            if matches!(found, Found::Whole(_)) {
                recorded.set(unit as usize);
            }
            records.push(match found {
                Found::Blank => None,
                Found::Torn => {
                    torn += 1;
                    torn_units.push(unit);
                    None
                }
                // The block was erased since.
                Found::Whole(r) if r.erases < block.erases => {
                    erased += 1;
                    None
                }
                Found::Whole(r) => {
                    block.erases = block.erases.max(r.erases);
                    kinds[r.kind as usize] += 1;
                    *order = (*order).max(r.order + 1);
                    Some(Box::new(r))
                }
            });
        };
        self.image.each_unit(each).map_err(|e| unreadable(self.image, e))?;
        // Records come in order of pages: those of an earlier life may have come first.
        for unit in 0..self.records.count() {
            let erases = self.blocks[self.block_of(unit)].erases;
            if self.records[unit].as_ref().is_some_and(|r| r.erases < erases) {
                self.records[unit] = None;
            }
        }
        let [_, data, parity, smeta, emeta] = kinds;
        Ok(format!(
            "{data} of data, {parity} of parity, {smeta} of smeta, {emeta} of emeta; {erased} of \
             erased blocks, {torn} torn"
        ))
    }
    fn block_of(&self, unit: u32) -> BlockId {
        unit / self.g.units_per_line() * self.g.luns + unit % self.g.luns
    }

    /// Tells what a crash leaves from what it does not. A unit whose record is torn was being written
    /// when the server or its host went down, or something else has damaged it. That it is if the drive
    /// was shut down since, or if a later page of its block was synced: blocks are written page by page.
    /// In the last page that was written the two cannot be told apart, and it counts as the crash's.
    fn judge(&mut self) -> Result<String, Error> {
        let state = self.image.state();
        let used = self.recorded.next_set(0).is_some() || !self.torn.is_empty();
        let mut reasons = Vec::new();
        let state_lost = state.generation == 0 && used;
        if state_lost {
            reasons.push(
                "both state records are lost, so that it is not known what was synced".into(),
            );
        }
        let certain = state.clean || state_lost;
        let trims_torn = self.damage.trims.torn.len() as u64;
        let newest = match (self.torn.is_empty() || certain) && trims_torn == 0 {
            true => IdVec::new(),
            false => self.newest_copies(),
        };
        // Without a copy a sector reads as zeroes, trimmed or not.
        self.damage.trims.torn.retain(|lpn| newest[Lpn(*lpn)].1 > 0);
        let mut lost = 0;
        for &unit in &self.torn {
            if certain || self.was_synced(unit, &newest) {
                lost += 1;
                // Without one it is any of those until now.
                let before = self.above(unit).next().map_or(self.order, |r| r.order);
                self.damage.doubt = self.damage.doubt.max(Some(before));
            }
        }
        if lost > 0 {
            reasons.push(format!("{lost} records of units that were durable are torn"));
        }
        let found = (self.recorded.count() + self.torn.len()) as u64;
        if state.clean && state.units > 0 && found < state.units {
            self.damage.doubt = Some(u64::MAX);
            reasons.push(format!("{} records of units are gone", state.units - found));
        }
        let torn = self.damage.trims.torn.len() as u64;
        if torn > 0 {
            reasons.push(format!("{torn} records of trims are torn"));
        }
        let found = self.trimmed() + trims_torn;
        if state.clean && found < state.trims {
            self.damage.trims.gone = true;
            reasons.push(format!("{} records of trims are gone", state.trims - found));
        }
        self.repair &= reasons.is_empty();
        let told = if reasons.is_empty() { "none that shows".into() } else { reasons.join("; ") };
        self.damage.reasons = reasons;
        Ok(told)
    }
    /// The units of the later pages of a unit's block, in order.
    fn above(&self, unit: u32) -> impl Iterator<Item = &UnitRecord> {
        let end = (unit / self.g.units_per_line() + 1) * self.g.units_per_line();
        let above = (unit..end).step_by(self.g.luns as usize).skip(1);
        above.filter_map(|u| self.records[u].as_deref())
    }
    /// By sector: its newest version in flash, and the order of the unit with the last copy of it.
    fn newest_copies(&self) -> IdVec<Lpn, (u32, u64)> {
        let mut newest: IdVec<Lpn, (u32, u64)> = vec![(0, 0); self.trims.count() as usize].into();
        for r in self.records.iter().flatten().filter(|r| r.kind == UnitKind::Data) {
            for s in &r.spares {
                if let Some(copy) = newest.get_mut(Lpn(s.lpn)) {
                    *copy = (*copy).max((s.stamp & !LOST, r.order));
                }
            }
        }
        newest
    }
    /// The unit holds the last copy of a sector that was not trimmed since.
    fn is_live(&self, r: &UnitRecord, newest: &IdVec<Lpn, (u32, u64)>) -> bool {
        let is_newest = |s: &Spare| {
            let (lpn, stamp) = (Lpn(s.lpn), s.stamp & !LOST);
            newest.get(lpn) == Some(&(stamp, r.order)) && stamp > self.trims[lpn]
        };
        r.kind == UnitKind::Data && r.spares.iter().any(is_newest)
    }
    /// The unit, whose record is torn, was synced: a later one of its block was, in the same life of the block. In
    /// an earlier life it was if the block was erased since and this is the first that was written of it. A loss of
    /// power then leaves half of each life's record, where those lie across sectors, and all that was in the block
    /// was copied or trimmed before. What else damages such a record of the only data in use of a block is taken
    /// for that.
    fn was_synced(&self, unit: u32, newest: &IdVec<Lpn, (u32, u64)>) -> bool {
        let synced = self.image.state().synced;
        let g = self.g;
        let Some(last) = self.above(unit).filter(|r| r.order <= synced).last() else {
            return false;
        };
        if !self.image.may_be_cut(unit) {
            return true;
        }
        let first = unit / g.units_per_line() * g.units_per_line();
        // The lines of pblk have orders of their own; of other FTLs it is the block alone.
        let same = |u: &u32| match last.seq {
            0 => u % g.luns == unit % g.luns,
            _ => self.records[*u].as_ref().is_some_and(|r| r.seq == last.seq),
        };
        let line = (first..first + g.units_per_line()).filter(same);
        let mut units = line.filter_map(|u| self.records[u].as_deref());
        // Units of a later order may be of the next life.
        units.any(|r| r.order <= last.order && self.is_live(r, newest))
    }
    /// It may have been programmed after the last sync, and a crash may have taken it.
    fn may_be_unfinished(&self, order: u64) -> bool {
        let state = self.image.state();
        !state.clean && state.generation > 0 && order > state.synced
    }

    /// Units programmed after the last sync count only if all their data are there. What was synced
    /// is trusted here, and checked whenever it is read. What counts is written over by itself: that it
    /// can be read here does not say that the disk has it, if a sync failed before.
    fn verify_unsynced(&mut self) -> Result<String, Error> {
        let size = self.g.sectors_per_unit;
        let mut data = vec![0; self.g.unit_bytes() as usize];
        let mut looked = 0u64;
        let mut void = std::mem::take(&mut self.torn);
        if !self.image.state().clean {
            for unit in 0..self.records.count() {
                let Some(r) = &self.records[unit] else { continue };
                if !self.may_be_unfinished(r.order) {
                    continue;
                }
                looked += 1;
                let read = self.image.read_sectors(unit * size, &mut data).is_ok();
                let fits = |(s, d): (&Spare, &[u8])| {
                    s.lpn == NO_LPN && s.crc == 0 || s.crc == sector_crc(s.lpn, s.stamp, d)
                };
                let sectors = r.spares.iter().zip(data.chunks_exact(SECTOR as usize));
                let whole = match r.kind {
                    // Looked at below; of emeta the record is all that is needed.
                    UnitKind::Smeta | UnitKind::Emeta => true,
                    UnitKind::Data | UnitKind::Parity => read && sectors.into_iter().all(fits),
                };
                if !whole {
                    void.push(unit);
                    self.records[unit] = None;
                } else if self.repair {
                    let pieces =
                        [self.image.of_data(unit * size, &data), self.image.of_unit(unit, r)];
                    self.written(self.image.write(&pieces[usize::from(!read)..]).1)?;
                }
            }
            if self.repair {
                self.written(self.image.write_tables_again())?;
            }
        }
        self.dropped = void.len() as u64;
        if self.repair {
            void.iter().try_for_each(|&unit| self.void(unit))?;
        }
        void.iter().for_each(|&unit| {
            self.recorded.clear(unit as usize);
        });
        self.torn = void;
        Ok(format!("{looked} units read, {} unfinished and dropped", self.dropped))
    }

    fn written(&self, result: std::io::Result<()>) -> Result<(), Error> {
        result.map_err(|e| Error::io("cannot write the image", self.image.path(), e))
    }
    fn void(&self, unit: u32) -> Result<(), Error> {
        self.written(self.image.void_unit(unit))
    }
    fn line_metadata(&mut self) -> Result<String, Error> {
        let g = self.g;
        for unit in 0..self.records.count() {
            let Some(r) = &self.records[unit] else { continue };
            if r.kind != UnitKind::Smeta {
                continue;
            }
            let (line, seq, order) = (unit / g.units_per_line(), r.seq, r.order);
            let smeta = match self.smeta_in(unit, seq) {
                Some(smeta) => smeta,
                // The line was being opened when the server or its host went down: nothing is in it.
                None if self.may_be_unfinished(order) => {
                    self.records[unit] = None;
                    self.recorded.clear(unit as usize);
                    self.dropped += 1;
                    self.torn.push(unit);
                    if self.repair {
                        self.void(unit)?;
                    }
                    continue;
                }
                None => self.mend_smeta(unit, line, seq)?,
            };
            self.smetas[line].push(smeta);
        }
        let (mut opened, mut closed) = (0, 0);
        for line in 0..g.lines {
            let media = self.line_media(line);
            opened += media.lines.len();
            closed += media.lines.iter().filter(|l| l.emeta.is_some()).count();
            self.lines.push(media);
        }
        let mended = match self.smetas_mended {
            0 => String::new(),
            n => format!("; the smeta of {n} was had from emeta and spare areas"),
        };
        Ok(format!("{opened} lines were opened, {closed} of them closed{mended}"))
    }
    /// What a unit of metadata says of the line of this order of opening.
    fn smeta_in(&self, unit: u32, seq: u64) -> Option<SmetaRecord> {
        let mut content = vec![0; self.g.unit_bytes() as usize];
        self.image.read_sectors(unit * self.g.sectors_per_unit, &mut content).ok()?;
        smeta::decode(&content, self.g.luns, seq)
    }
    /// The smeta of a line from its emeta, or from the records of its units.
    ///
    /// It may also be that the line was being opened anew: its smeta had been written over, and no
    /// record yet, when the server died. Then this gives the line it was before, which does no harm:
    /// all it held is durable in lines opened later, and they win.
    fn mend_smeta(&mut self, unit: u32, line: u32, seq: u64) -> Result<SmetaRecord, Error> {
        let g = self.g;
        let first = line * g.units_per_line();
        let mine = |u: &u32| self.records[*u].as_ref().is_some_and(|r| r.seq == seq);
        let units = || (first..first + g.units_per_line()).filter(mine);
        let kind = |u: u32| self.records[u].as_ref().map(|r| r.kind);
        let in_emeta = units()
            .filter(|&u| kind(u) == Some(UnitKind::Emeta))
            .find_map(|u| self.smeta_in(u, seq));
        let of_spares = || {
            let config = &self.system.ftl;
            let [mut luns, mut parity] = [(); 2].map(|()| BitMap::new(g.luns as usize));
            let blocks = self.blocks.slice(line * g.luns..(line + 1) * g.luns);
            let mut erases: Vec<u32> = blocks.iter().map(|b| b.erases).collect();
            // A block without units was good if it is now. Where lines share blocks it may be another's.
            for lun in (0..g.luns as usize).filter(|&l| !config.hot_cold && !blocks[l].bad) {
                luns.set(lun);
            }
            for u in units() {
                let lun = (u % g.luns) as usize;
                luns.set(lun);
                if kind(u) == Some(UnitKind::Parity) {
                    parity.set(lun);
                }
                erases[lun] = self.records[u].as_ref().map_or(0, |r| r.erases);
            }
            // Where hot lines end is not known, so that they are read without parity.
            let strided = !config.hot_cold && config.stride > 0 && g.luns >= config.stride;
            let strides = if strided { g.luns } else { 0 };
            let stream = match config.hot_cold {
                false => Stream::Mixed,
                true if parity.next_set(0).is_some() => Stream::Hot,
                true => Stream::Cold,
            };
            let erases = erases.into();
            SmetaRecord { seq, unit: unit - first, luns, parity, strides, stream, erases }
        };
        let smeta = in_emeta.unwrap_or_else(of_spares);
        self.smetas_mended += 1;
        if self.repair {
            let mut content = vec![0; g.unit_bytes() as usize];
            smeta::encode(&smeta, &mut content);
            self.written(self.image.write_sectors(unit * g.sectors_per_unit, &content))?;
        }
        Ok(smeta)
    }
    fn line_media(&self, line: u32) -> LineMedia {
        let g = self.g;
        let first = line * g.units_per_line();
        let smetas = &self.smetas[line];
        let mut media = LineMedia {
            lines: smetas.iter().map(|s| Written { smeta: s.clone(), emeta: None }).collect(),
            units: BitMap::new(g.units_per_line() as usize),
            of: IdVec::filled(0, g.luns),
            bad: IdVec::new(),
            programmed: IdVec::filled(0, g.luns),
            erases: IdVec::new(),
        };
        for unit in 0..g.units_per_line() {
            let lun = unit % g.luns;
            let Some(r) = &self.records[first + unit] else { continue };
            media.programmed[lun] = unit / g.luns + 1;
            media.units.set(unit as usize);
            media.of[lun] = r.seq;
            let line = media.lines.iter_mut().find(|l| l.smeta.seq == r.seq);
            if let Some(line) = line.filter(|_| r.kind == UnitKind::Emeta) {
                line.emeta = Some(r.emeta);
            }
        }
        for &unit in self.torn.iter().filter(|&&u| u / g.units_per_line() == line) {
            let programmed = &mut media.programmed[unit % g.luns];
            *programmed = (*programmed).max((unit - first) / g.luns + 1);
        }
        for Written { smeta, emeta } in &mut media.lines {
            // All of it, or none.
            *emeta = emeta.filter(|&(begin, whole)| {
                (begin..g.units_per_line()).all(|unit| {
                    let lun = (unit % g.luns) as usize;
                    let holds = unit >= whole.saturating_mul(g.luns) || !smeta.parity.get(lun);
                    let there = media.of[lun as u32] == smeta.seq && media.units.get(unit as usize);
                    !smeta.luns.get(lun) || !holds || there
                })
            });
        }
        for lun in 0..g.luns {
            let block = self.blocks[line * g.luns + lun];
            media.bad.push(block.bad);
            let opened = smetas.iter().filter(|s| s.luns.get(lun as usize));
            let then = opened.map(|s| s.erases[lun]).max().unwrap_or(0);
            media.erases.push(block.erases.max(then));
        }
        media
    }

    /// Sectors with the stamp of a trim.
    fn trimmed(&self) -> u64 {
        self.trims.iter().filter(|&&stamp| stamp > 0).count() as u64
    }
    fn read_trims(&mut self) -> Result<String, Error> {
        let found = self.image.read_trims().map_err(|e| unreadable(self.image, e))?;
        self.trims = vec![0; found.len()].into();
        for (lpn, found) in (0..).zip(found) {
            match found {
                Found::Blank => {}
                // No crash cuts a record within eight bytes.
                Found::Torn => self.damage.trims.torn.push(lpn),
                Found::Whole(stamp) => self.trims[Lpn(lpn)] = stamp,
            }
        }
        let n = self.trimmed();
        let torn = match self.damage.trims.torn.len() {
            0 => String::new(),
            torn => format!("; {torn} torn"),
        };
        Ok(format!("{n} sectors were trimmed{torn}"))
    }

    /// FSSD's or a conventional drive's, if it is that: its map is in the versions of sectors.
    fn of_versions(
        &self,
        oob: &dyn Fn(Ppa) -> Option<(Lpn, u32)>,
        trimmed: &dyn Fn(Lpn, u32) -> bool,
        worn: bool,
    ) -> Option<Result<(Translator, u64), BadValue>> {
        let size = self.g.sectors_per_unit;
        let held = |ppa: Ppa| {
            let order = self.records[ppa.0 / size].as_ref()?.order;
            oob(ppa).map(|(lpn, stamp)| (lpn, stamp, order))
        };
        let of = |what: fn(&LineMedia) -> &IdVec<u32, u32>| {
            self.lines.iter().flat_map(|line| what(line).iter().copied()).collect::<IdVec<_, _>>()
        };
        let kept = KeptVersions {
            sectors: self.image.superblock.sectors,
            worn,
            bad: &|block| self.blocks[block].bad,
            programmed: &of(|line| &line.programmed),
            erases: &of(|line| &line.erases),
            held: &held,
            trimmed,
        };
        Translator::of_versions(&self.g, &self.system.ftl, &kept)
    }

    fn finish(mut self, seed: Seed, mut report: Vec<Finding>) -> Result<Recovered, Error> {
        let g = self.g;
        let size = g.sectors_per_unit;
        let mut crcs: IdVec<Ppa, u32> = vec![0; g.sectors() as usize].into();
        let none = Spare { lpn: NO_LPN, stamp: 0, crc: 0 };
        let mut spares: IdVec<Ppa, Spare> = vec![none; g.sectors() as usize].into();
        for (unit, r) in (0..).zip(&self.records) {
            let Some(r) = r else { continue };
            for (at, s) in (unit * size..).map(Ppa).zip(&r.spares) {
                crcs[at] = s.crc;
                spares[at] = *s;
            }
        }
        // Units without a line are of one whose smeta was lost: their blocks are to be erased.
        let fresh = self.torn.is_empty() && self.records.iter().all(Option::is_none);
        let sectors = self.image.superblock.sectors;
        let oob = |ppa: Ppa| {
            let s = spares[ppa];
            (s.lpn != NO_LPN).then_some((Lpn(s.lpn), s.stamp))
        };
        let config = &self.system.ftl;
        let trims = &self.trims;
        let trimmed = |lpn: Lpn, stamp: u32| trims.get(lpn).is_some_and(|&t| stamp & !LOST <= t);
        let unused = || {
            let mut bad = |lun, line| self.nand.is_factory_bad(lun, line);
            Translator::new(None, &g, config, &mut bad, seed)
        };
        let made = |worn: bool| -> Result<(Translator, Recovery), RecoverError> {
            if fresh {
                return Ok((unused()?, Recovery::default()));
            }
            if let Some(made) = self.of_versions(&oob, &trimmed, worn) {
                let (ftl, mapped) = made?;
                return Ok((ftl, Recovery { mapped, ..Recovery::default() }));
            }
            let lines = self.lines.clone();
            let media = Media { sectors, worn, lines, oob: &oob, trimmed: &trimmed };
            let (ftl, found) = Ftl::recover(&g, config, &media, seed)?;
            Ok((ftl.into(), found))
        };
        let failed = |e: RecoverError| match e {
            RecoverError::Config(bad) => Error::Setting(bad.below("ftl")),
            e => {
                let path = self.image.path().into();
                RunError::Unrecovered { path, why: e.to_string() }.into()
            }
        };
        let (ftl, found, worn) = match made(false) {
            Ok((ftl, found)) => (ftl, found, None),
            // The settings do for the blocks that it had at first.
            Err(RecoverError::Config(why)) if !fresh && unused().is_ok() => {
                let (ftl, found) = made(true).map_err(failed)?;
                (ftl, found, Some(why))
            }
            Err(e) => return Err(failed(e)),
        };
        if ftl.sectors() < sectors {
            return Err(Error::Sectors { here: ftl.sectors(), image: sectors });
        }
        report.push(Finding {
            step: "map",
            text: format!(
                "{} sectors mapped, from the emeta of {} lines and the spare areas of {}",
                found.mapped, found.from_emeta, found.scanned
            ),
        });
        let mut stamps = Stamps::new(ftl.sectors());
        for (lpn, &stamp) in (0..).map(Lpn).zip(&self.trims).filter(|(_, t)| **t > 0) {
            stamps.restore(lpn, stamp, true);
        }
        if !self.damage.is_none() {
            let mut unproven = BitMap::new(ftl.sectors() as usize);
            let lost = &self.damage.trims;
            for lpn in 0..ftl.sectors() as u32 {
                let unit = ftl.newest_at(Lpn(lpn)).map(|ppa| g.unit_of(ppa).0);
                let record = unit.and_then(|unit| self.records[unit].as_ref());
                let doubt = self.damage.doubt;
                let hidden = doubt.is_some_and(|doubt| record.is_none_or(|r| r.order <= doubt));
                // What has no copy reads as zeroes, trimmed or not.
                let trim_lost = || {
                    lost.torn.binary_search(&lpn).is_ok()
                        || lost.gone && self.trims.get(Lpn(lpn)).is_none_or(|&stamp| stamp == 0)
                };
                if hidden || unit.is_some() && trim_lost() {
                    unproven.set(lpn as usize);
                }
            }
            self.damage.unproven = unproven;
        }
        for block in ftl.media_state() {
            self.nand.set_block(block.lun, block.line, block.programmed, block.erases, block.slc);
        }
        let mut bad = BitMap::new(self.blocks.count() as usize);
        for (block, _) in (0..).zip(&self.blocks).filter(|(_, record)| record.bad) {
            bad.set(block);
        }
        let free = ftl.free_lines().map_or(0, |lines| lines.0);
        // With hot and cold sides a line number stands for two lines; other FTLs do not make their segments of lines.
        let text = match ftl.pblk() {
            Some(ftl) => format!("{free} of {} lines free", ftl.groups().iter().sum::<u32>()),
            None => format!("{free} lines or segments of them free"),
        };
        report.push(Finding { step: "flash", text });
        Ok(Recovered {
            nand: self.nand,
            ftl,
            stamps,
            crcs,
            trims: self.trims,
            order: self.order,
            report,
            unsynced_dropped: self.dropped,
            recorded: self.recorded,
            bad,
            smetas_mended: self.smetas_mended,
            damage: self.damage,
            worn,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::image::Superblock;
    use std::path::Path;
    use wordline_base::Ctx;
    use wordline_ftl::{Action, Source};

    pub(crate) fn system() -> DriveConfig {
        let sources = wordline_profile::Sources::presets("cnex-small", "linux-libaio");
        let config = wordline_profile::assemble(sources, &[]).unwrap();
        let (nand, device, ftl) = (config.nand, config.device, config.ftl);
        DriveConfig { nand, device, ftl }
    }
    pub(crate) fn create(path: &Path, g: &Geometry) {
        let (luns, lines, pages, unit_sectors) = (g.luns, g.lines, g.pages, g.sectors_per_unit);
        let of_any = crate::image::tests::superblock();
        Image::create(path, &Superblock { luns, lines, pages, unit_sectors, ..of_any }).unwrap();
    }
    fn unit(kind: UnitKind, g: &Geometry, seq: u64) -> UnitRecord {
        let spare = Spare { lpn: NO_LPN, stamp: 0, crc: 0 };
        let spares = vec![spare; g.sectors_per_unit as usize];
        UnitRecord { kind, erases: 0, order: 1, seq, emeta: (0, 0), spares }
    }
    fn smeta_of(seq: u64, g: &Geometry) -> Vec<u8> {
        let mut luns = BitMap::new(g.luns as usize);
        (0..g.luns as usize).for_each(|lun| {
            luns.set(lun);
        });
        let parity = BitMap::new(g.luns as usize);
        let (stream, erases) = (Stream::Mixed, IdVec::filled(0, g.luns));
        let record = SmetaRecord { seq, unit: 0, luns, parity, strides: 0, stream, erases };
        let mut content = vec![0; g.unit_bytes() as usize];
        smeta::encode(&record, &mut content);
        content
    }

    /// The host died between the data and the record of smeta, over that of an earlier life; then the
    /// server was stopped in order, without having opened that line.
    #[test]
    fn half_a_smeta_is_void_for_good() {
        let (dir, system) = (tempfile::tempdir().unwrap(), system());
        let path = dir.path().join("a.img");
        let g = Geometry::new(&system.nand).unwrap();
        create(&path, &g);
        let image = Image::open(&path, true).unwrap();
        image.write_one(image.of_unit(0, &unit(UnitKind::Smeta, &g, 4))).unwrap();
        image.write_sectors(0, &smeta_of(9, &g)).unwrap();
        image.write_state(0).unwrap();
        assert!(recover(&image, &system, true).is_ok_and(|r| r.unsynced_dropped == 1));
        image.write_clean_state(1, 0, 0).unwrap();
        assert!(recover(&image, &system, true).is_ok());
    }

    /// A line whose smeta the host lost has units left: what is opened next must not have its order,
    /// or they would be taken for the new line's.
    #[test]
    fn orders_of_opening_are_not_used_again() {
        let (dir, system) = (tempfile::tempdir().unwrap(), system());
        let path = dir.path().join("a.img");
        let g = Geometry::new(&system.nand).unwrap();
        create(&path, &g);
        let image = Image::open(&path, true).unwrap();
        image.write_one(image.of_unit(7, &unit(UnitKind::Data, &g, 3))).unwrap();
        image.write_state(0).unwrap();
        let mut ftl = recover(&image, &system, true).unwrap().ftl;
        let mut ctx = Ctx::new();
        ftl.start(&mut ctx);
        ftl.write(&mut ctx, 1, Lpn(0), 1, true, Source::Host);
        let mut erased = Vec::new();
        let opened = loop {
            match ftl.poll().expect("a line is opened") {
                Action::Erase { op, ppa } => {
                    erased.push(g.unit_of(ppa).0);
                    ftl.on_done(&mut ctx, op, wordline_nand::Outcome::Ok);
                }
                Action::Program { ppa, .. } => break ftl.pblk().unwrap().line_at(ppa),
                _ => {}
            }
        };
        assert!(ftl.pblk().unwrap().line_smeta(opened).seq > 3);
        assert_eq!(erased, [7], "of line 0, which is opened first");
    }
}
