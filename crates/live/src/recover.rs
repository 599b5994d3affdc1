//! From an image to a drive: the steps of a start, in order, and what each found.
//!
//! The map is rebuilt by the FTL's own recovery ([`wordline_ftl::Ftl::recover`]); what is done here is
//! reading the media for it, and deciding which units were programmed (docs/design/live.md).

use crate::Error;
use crate::image::{BlockRecord, Found, Image, NO_LPN, Spare, UnitKind, UnitRecord, sector_crc};
use crate::smeta;
use wordline_base::{BitMap, Lpn, SECTOR, Seed, Stamps};
use wordline_ftl::{Ftl, LOST, LineMedia, Media, SmetaRecord, Written};
use wordline_nand::{Geometry, Nand, Ppa};
use wordline_sim::SystemConfig;

/// A drive as its image has it.
pub struct Recovered {
    pub nand: Nand,
    pub ftl: Ftl,
    pub stamps: Stamps,
    /// By physical sector: the checksum of what was written there.
    pub crcs: Vec<u32>,
    /// By logical sector: the stamp at its last trim.
    pub trims: Vec<u32>,
    /// The next program's.
    pub order: u64,
    /// Names of the steps and what they found.
    pub report: Vec<(&'static str, String)>,
    pub unsynced_dropped: u64,
}

/// What is in flash before it is understood.
struct Recovering<'a> {
    image: &'a Image,
    system: &'a SystemConfig,
    g: Geometry,
    nand: Nand,
    /// Torn or unfinished units are made void in the image.
    repair: bool,
    blocks: Vec<BlockRecord>,
    /// By unit of the drive.
    records: Vec<Option<Box<UnitRecord>>>,
    torn: Vec<u32>,
    smetas: Vec<Vec<SmetaRecord>>,
    lines: Vec<LineMedia>,
    trims: Vec<u32>,
    order: u64,
    dropped: u64,
}

/// Builds the drive of an image. `repair`: units that a crash left unfinished are made void.
pub fn recover(image: &Image, system: &SystemConfig, repair: bool) -> Result<Recovered, Error> {
    let seed = Seed(image.superblock.seed);
    let nand = Nand::new(&system.nand, seed)
        .map_err(|(key, message)| Error::usage(format!("nand.{key}: {message}")))?;
    let g = nand.geometry;
    if !image.fits(&g) {
        return Err(Error::usage(format!(
            "the image {} has another geometry than its profile: it is damaged",
            image.path().display()
        )));
    }
    let units = g.units_per_line() as usize * g.lines as usize;
    let mut r = Recovering {
        image,
        system,
        g,
        nand,
        repair,
        blocks: Vec::new(),
        records: Vec::with_capacity(units),
        torn: Vec::new(),
        smetas: vec![Vec::new(); g.lines as usize],
        lines: Vec::new(),
        trims: Vec::new(),
        order: 1,
        dropped: 0,
    };
    let mut report = Vec::new();
    for (name, step) in Recovering::STEPS {
        report.push((name, step(&mut r)?));
    }
    r.finish(seed, report)
}

fn unreadable(image: &Image, e: std::io::Error) -> Error {
    Error::io("cannot read the image", image.path(), e)
}

type Step<R> = fn(&mut R) -> Result<String, Error>;

impl<'a> Recovering<'a> {
    /// The steps up to the FTL's own.
    const STEPS: [(&'static str, Step<Recovering<'a>>); 6] = [
        ("state", Recovering::state),
        ("block table", Recovering::block_table),
        ("unit records", Recovering::unit_records),
        ("data not synced", Recovering::verify_unsynced),
        ("line metadata", Recovering::line_metadata),
        ("trims", Recovering::read_trims),
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
        let (torn_units, order) = (&mut self.torn, &mut self.order);
        let each = |unit: u32, found: Found<UnitRecord>| {
            let line = unit / g.units_per_line();
            let block = &mut blocks[(line * g.luns + unit % g.luns) as usize];
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
        for unit in 0..self.records.len() as u32 {
            let erases = self.blocks[self.block_of(unit)].erases;
            if self.records[unit as usize].as_ref().is_some_and(|r| r.erases < erases) {
                self.records[unit as usize] = None;
            }
        }
        let [_, data, parity, smeta, emeta] = kinds;
        Ok(format!(
            "{data} of data, {parity} of parity, {smeta} of smeta, {emeta} of emeta; {erased} of \
             erased blocks, {torn} torn"
        ))
    }
    fn block_of(&self, unit: u32) -> usize {
        (unit / self.g.units_per_line() * self.g.luns + unit % self.g.luns) as usize
    }

    /// Units programmed after the last sync count only if all their data are there. What was synced
    /// is trusted here, and checked whenever it is read. What counts is written over by itself: that it
    /// can be read here does not say that the disk has it, if a sync failed before.
    fn verify_unsynced(&mut self) -> Result<String, Error> {
        let (synced, size) = (self.image.state().synced, self.g.sectors_per_unit);
        let mut data = vec![0; self.g.unit_bytes() as usize];
        let mut looked = 0u64;
        let mut void = std::mem::take(&mut self.torn);
        if !self.image.state().clean {
            for unit in 0..self.records.len() as u32 {
                let Some(r) = &self.records[unit as usize] else { continue };
                if r.order <= synced {
                    continue;
                }
                looked += 1;
                let read = self.image.read_sectors(unit * size, &mut data).is_ok();
                let fits = |(s, d): (&Spare, &[u8])| {
                    s.lpn == NO_LPN && s.crc == 0 || s.crc == sector_crc(s.lpn, s.stamp, d)
                };
                let sectors = r.spares.iter().zip(data.chunks_exact(SECTOR as usize));
                let whole = match r.kind {
                    // Looked at below; of emeta the record is all there is.
                    UnitKind::Smeta | UnitKind::Emeta => true,
                    UnitKind::Data | UnitKind::Parity => read && sectors.into_iter().all(fits),
                };
                if !whole {
                    void.push(unit);
                    self.records[unit as usize] = None;
                } else if self.repair {
                    let pieces =
                        [self.image.of_data(unit * size, &data), self.image.of_unit(unit, r)];
                    let from = usize::from(r.kind == UnitKind::Emeta || !read);
                    self.written(self.image.write(&pieces[from..]).1)?;
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
        for unit in 0..self.records.len() as u32 {
            let Some(r) = &self.records[unit as usize] else { continue };
            if r.kind != UnitKind::Smeta {
                continue;
            }
            let line = unit / g.units_per_line();
            let mut content = vec![0; g.unit_bytes() as usize];
            let ppa = unit * g.sectors_per_unit;
            let read = self.image.read_sectors(ppa, &mut content).map_err(|e| e.to_string());
            let decoded = read.and_then(|()| smeta::decode(&content, g.luns));
            match decoded {
                Ok(record) if record.seq == r.seq => self.smetas[line as usize].push(record),
                // The line was being opened anew when the server died: what it held before is
                // durable elsewhere (docs/design/live.md).
                _ if !self.image.state().clean => {
                    self.records[unit as usize] = None;
                    self.dropped += 1;
                    self.torn.push(unit);
                    if self.repair {
                        self.void(unit)?;
                    }
                }
                _ => {
                    return Err(Error::run(format!(
                        "the image {} is damaged: the smeta of line {line} cannot be read, and \
                         what the line holds is not known",
                        self.image.path().display()
                    )));
                }
            }
        }
        let (mut opened, mut closed) = (0, 0);
        for line in 0..g.lines {
            let media = self.line_media(line);
            opened += media.lines.len();
            closed += media.lines.iter().filter(|l| l.emeta.is_some()).count();
            self.lines.push(media);
        }
        Ok(format!("{opened} lines were opened, {closed} of them closed"))
    }
    fn line_media(&self, line: u32) -> LineMedia {
        let g = self.g;
        let first = line * g.units_per_line();
        let smetas = &self.smetas[line as usize];
        let mut media = LineMedia {
            lines: smetas.iter().map(|s| Written { smeta: s.clone(), emeta: None }).collect(),
            units: BitMap::new(g.units_per_line() as usize),
            of: vec![0; g.luns as usize],
            bad: Vec::new(),
            programmed: vec![0; g.luns as usize],
            erases: Vec::new(),
        };
        for unit in 0..g.units_per_line() {
            let lun = (unit % g.luns) as usize;
            let Some(r) = &self.records[(first + unit) as usize] else { continue };
            media.programmed[lun] = unit / g.luns + 1;
            media.units.set(unit as usize);
            media.of[lun] = r.seq;
            let line = media.lines.iter_mut().find(|l| l.smeta.seq == r.seq);
            if let Some(line) = line.filter(|_| r.kind == UnitKind::Emeta) {
                line.emeta = Some(r.emeta);
            }
        }
        for &unit in self.torn.iter().filter(|&&u| u / g.units_per_line() == line) {
            let programmed = &mut media.programmed[(unit % g.luns) as usize];
            *programmed = (*programmed).max((unit - first) / g.luns + 1);
        }
        for Written { smeta, emeta } in &mut media.lines {
            // All of it, or none.
            *emeta = emeta.filter(|&(begin, whole)| {
                (begin..g.units_per_line()).all(|unit| {
                    let lun = (unit % g.luns) as usize;
                    let holds = unit >= whole.saturating_mul(g.luns) || !smeta.parity.get(lun);
                    let there = media.of[lun] == smeta.seq && media.units.get(unit as usize);
                    !smeta.luns.get(lun) || !holds || there
                })
            });
        }
        for lun in 0..g.luns {
            let block = self.blocks[(line * g.luns + lun) as usize];
            media.bad.push(block.bad);
            let opened = smetas.iter().filter(|s| s.luns.get(lun as usize));
            let then = opened.map(|s| s.erases[lun as usize]).max().unwrap_or(0);
            media.erases.push(block.erases.max(then));
        }
        media
    }

    fn read_trims(&mut self) -> Result<String, Error> {
        self.trims = self.image.read_trims().map_err(|e| unreadable(self.image, e))?;
        let n = self.trims.iter().filter(|&&t| t > 0).count();
        Ok(format!("{n} sectors were trimmed"))
    }

    fn finish(
        mut self,
        seed: Seed,
        mut report: Vec<(&'static str, String)>,
    ) -> Result<Recovered, Error> {
        let g = self.g;
        let size = g.sectors_per_unit;
        let mut crcs = vec![0; g.sectors() as usize];
        let none = Spare { lpn: NO_LPN, stamp: 0, crc: 0 };
        let mut spares = vec![none; g.sectors() as usize];
        for (unit, r) in self.records.iter().enumerate() {
            let Some(r) = r else { continue };
            for (i, s) in r.spares.iter().enumerate() {
                let at = unit * size as usize + i;
                crcs[at] = s.crc;
                spares[at] = *s;
            }
        }
        // Units without a line are of one whose smeta was lost: their blocks are to be erased.
        let fresh = self.torn.is_empty() && self.records.iter().all(Option::is_none);
        let sectors = self.image.superblock.sectors;
        let oob = |ppa: Ppa| {
            let s = spares[ppa.0 as usize];
            (s.lpn != NO_LPN).then_some((Lpn(s.lpn), s.stamp))
        };
        let config = &self.system.ftl;
        let (ftl, found) = if fresh {
            let mut bad = |lun, line| self.nand.is_factory_bad(lun, line);
            let ftl = Ftl::new(&g, config, &mut bad, seed)
                .map_err(|(key, message)| Error::usage(format!("ftl.{key}: {message}")))?;
            (ftl, Default::default())
        } else {
            let trims = &self.trims;
            let trimmed = |lpn: Lpn, stamp: u32| {
                trims.get(lpn.0 as usize).is_some_and(|&t| stamp & !LOST <= t)
            };
            let lines = self.lines.clone();
            let media = Media { sectors, lines, oob: &oob, trimmed: &trimmed };
            Ftl::recover(&g, config, &media, seed).map_err(|e| {
                let path = self.image.path().display();
                Error::run(format!("the image {path} cannot be recovered: {e}"))
            })?
        };
        if ftl.sectors() < sectors {
            return Err(Error::usage(format!(
                "this configuration has {} sectors and the image {sectors}: leave --ftl and --set \
                 out to serve it as it was made",
                ftl.sectors()
            )));
        }
        report.push((
            "map",
            format!(
                "{} sectors mapped, from the emeta of {} lines and the spare areas of {}",
                found.mapped, found.from_emeta, found.scanned
            ),
        ));
        let mut stamps = Stamps::new(ftl.sectors());
        for (lpn, &stamp) in self.trims.iter().enumerate().filter(|(_, t)| **t > 0) {
            stamps.restore(Lpn(lpn as u32), stamp, true);
        }
        for block in ftl.media_state() {
            self.nand.set_block(block.lun, block.line, block.programmed, block.erases);
        }
        report.push(("flash", format!("{} of {} lines free", ftl.free_lines().0, g.lines)));
        Ok(Recovered {
            nand: self.nand,
            ftl,
            stamps,
            crcs,
            trims: self.trims,
            order: self.order,
            report,
            unsynced_dropped: self.dropped,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::image::Superblock;
    use std::path::Path;
    use wordline_base::Ctx;
    use wordline_ftl::{Action, Source, Stream};

    pub(crate) fn system() -> SystemConfig {
        let sources = wordline_profile::Sources::presets("cnex-small", "linux-libaio");
        let config = wordline_profile::assemble(sources, &[]).unwrap();
        let (nand, device, ftl, stack) = (config.nand, config.device, config.ftl, config.stack);
        SystemConfig { nand, device, ftl, stack }
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
        let (stream, erases) = (Stream::Mixed, vec![0; g.luns as usize]);
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
        image.write_state(false, 0).unwrap();
        assert!(recover(&image, &system, true).is_ok_and(|r| r.unsynced_dropped == 1));
        image.write_state(true, 1).unwrap();
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
        image.write_state(false, 0).unwrap();
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
                Action::Program { ppa, .. } => break ftl.line_at(ppa),
                _ => {}
            }
        };
        assert!(ftl.line_smeta(opened).seq > 3);
        assert_eq!(erased, [7], "of line 0, which is opened first");
    }
}
