//! The image file: what the flash of a served drive holds, at fixed places (docs/design/live.md).
//!
//! Read by the thread that owns the machine, written and made durable by others ([`crate::writer`]), by
//! `pread`, `pwrite` and `fdatasync` or by io_uring (`access.rs`). What was written survives this
//! process.

use crate::access::{Access, ImageIo, Journal, Piece};
use crate::pages::Page;
use crate::{Error, ImageFault};
use rustix::io::Errno;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;
use wordline_nand::Geometry;

const MAGIC: &[u8; 8] = b"WORDLINE";
/// The version of the format; another one is refused.
pub const VERSION: u32 = 1;
const PAGE: u64 = 4096;
const STATES_AT: u64 = PAGE;
const CONFIG_AT: u64 = 4 * PAGE;
const CONFIG_MAX: u64 = 64 << 10;
const BLOCKS_AT: u64 = CONFIG_AT + CONFIG_MAX;
const BLOCK_BYTES: u64 = 16;
const TRIM_BYTES: u64 = 8;
/// Data begin at a multiple of this.
const DATA_ALIGN: u64 = 1 << 20;

/// An image that is locked for longer is in use. What a killed server had under way in a ring holds the file until
/// the kernel has cleared it away, some milliseconds after the process.
const LOCKED: Duration = Duration::from_secs(1);

/// Written once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// A random number that tells this image from others.
    pub id: u64,
    /// Bytes exported.
    pub size: u64,
    /// Logical sectors of the drive, no fewer.
    pub sectors: u64,
    /// The seed of the drive's random streams.
    pub seed: u64,
    /// LUNs.
    pub luns: u32,
    /// Lines: blocks of a LUN.
    pub lines: u32,
    /// Pages of a block.
    pub pages: u32,
    /// Sectors of a unit, which one program writes.
    pub unit_sectors: u32,
    /// The profile, resolved, as TOML.
    pub config: String,
}

/// Written at start, at the end, and after each `fdatasync`, in two places by turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct State {
    /// Counts states: the greater one is the newer.
    pub generation: u64,
    /// The drive was shut down: everything is durable.
    pub clean: bool,
    /// Units with an order up to this are durable.
    pub synced: u64,
    /// Units that had a whole record when the drive was shut down; 0: they were not counted.
    pub units: u64,
    /// Sectors with the stamp of a trim when the drive was shut down; 0: none, or they were not counted.
    pub trims: u64,
}

/// Drives write sectors of so many bytes whole or not at all, and those of more as well.
const SECTOR_BELOW: u64 = 512;

/// What a unit holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnitKind {
    /// Sectors of users.
    Data = 1,
    /// Parity of a stride.
    Parity = 2,
    /// What begins a line.
    Smeta = 3,
    /// The map of a line, at its end.
    Emeta = 4,
}

/// The spare area of a sector.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spare {
    /// The logical sector.
    pub lpn: u32,
    /// The version of that sector.
    pub stamp: u32,
    /// The checksum over address, stamp and data.
    pub crc: u32,
}

/// `Spare::lpn` of padding and metadata.
pub const NO_LPN: u32 = u32::MAX;

/// What lies beside a unit: its spare areas and where it belongs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnitRecord {
    /// What the unit holds.
    pub kind: UnitKind,
    /// Erasures of the block before it was programmed.
    pub erases: u32,
    /// Counts programs of the whole drive.
    pub order: u64,
    /// The order of opening of its line.
    pub seq: u64,
    /// The first unit of emeta, and the first page that holds nothing else.
    pub emeta: (u32, u32),
    /// One of each sector, in order.
    pub spares: Vec<Spare>,
}

/// What is known of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BlockRecord {
    /// Times that it was erased.
    pub erases: u32,
    /// It is not to be used.
    pub bad: bool,
}

/// What is found in the place of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found<T> {
    /// Nothing was ever written there.
    Blank,
    /// Something that is not whole.
    Torn,
    /// A record.
    Whole(T),
}

fn le32(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(b[at..at + 4].try_into().expect("four bytes"))
}
fn le64(b: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(b[at..at + 8].try_into().expect("eight bytes"))
}

/// Puts the checksum of all before into the last four bytes.
fn seal(b: &mut [u8]) {
    let end = b.len() - 4;
    let crc = crc32c::crc32c(&b[..end]);
    b[end..].copy_from_slice(&crc.to_le_bytes());
}
fn is_sealed(b: &[u8]) -> bool {
    let end = b.len() - 4;
    crc32c::crc32c(&b[..end]) == le32(b, end)
}
fn is_blank(b: &[u8]) -> bool {
    b.iter().all(|&x| x == 0)
}

/// The checksum of a sector's data at an address, in a version: a sector in the wrong place, or of
/// another version, does not fit either.
pub fn sector_crc(lpn: u32, stamp: u32, data: &[u8]) -> u32 {
    let mut head = [0; 8];
    head[..4].copy_from_slice(&lpn.to_le_bytes());
    head[4..].copy_from_slice(&stamp.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(&head), data)
}

impl Superblock {
    fn encode(&self) -> Vec<u8> {
        let mut b = vec![0; PAGE as usize];
        b[..8].copy_from_slice(MAGIC);
        b[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let config = self.config.as_bytes();
        let (words, doubles) = (
            [self.luns, self.lines, self.pages, self.unit_sectors],
            [self.id, self.size, self.sectors, self.seed],
        );
        for (i, word) in words.iter().enumerate() {
            b[16 + 4 * i..20 + 4 * i].copy_from_slice(&word.to_le_bytes());
        }
        for (i, double) in doubles.iter().enumerate() {
            b[32 + 8 * i..40 + 8 * i].copy_from_slice(&double.to_le_bytes());
        }
        b[64..68].copy_from_slice(&(config.len() as u32).to_le_bytes());
        b[68..72].copy_from_slice(&crc32c::crc32c(config).to_le_bytes());
        seal(&mut b);
        b
    }
    fn decode(b: &[u8]) -> Result<(Superblock, u32, u32), ImageFault> {
        if &b[..8] != MAGIC {
            return Err(ImageFault::Foreign);
        }
        let version = le32(b, 8);
        if version != VERSION {
            return Err(ImageFault::Version { found: version, ours: VERSION });
        }
        if !is_sealed(b) {
            return Err(ImageFault::Superblock);
        }
        let word = |i: usize| le32(b, 16 + 4 * i);
        let double = |i: usize| le64(b, 32 + 8 * i);
        let superblock = Superblock {
            luns: word(0),
            lines: word(1),
            pages: word(2),
            unit_sectors: word(3),
            id: double(0),
            size: double(1),
            sectors: double(2),
            seed: double(3),
            config: String::new(),
        };
        Ok((superblock, le32(b, 64), le32(b, 68)))
    }
    fn units(&self) -> u64 {
        u64::from(self.luns) * u64::from(self.lines) * u64::from(self.pages)
    }
    fn blocks(&self) -> u64 {
        u64::from(self.luns) * u64::from(self.lines)
    }
}

impl UnitRecord {
    fn encode(&self, len: usize) -> Vec<u8> {
        let mut b = vec![0; len];
        b[..4].copy_from_slice(&(self.kind as u32).to_le_bytes());
        b[4..8].copy_from_slice(&self.erases.to_le_bytes());
        b[8..16].copy_from_slice(&self.order.to_le_bytes());
        b[16..24].copy_from_slice(&self.seq.to_le_bytes());
        b[24..28].copy_from_slice(&self.emeta.0.to_le_bytes());
        b[28..32].copy_from_slice(&self.emeta.1.to_le_bytes());
        for (cell, s) in b[32..].chunks_exact_mut(12).zip(&self.spares) {
            cell[..4].copy_from_slice(&s.lpn.to_le_bytes());
            cell[4..8].copy_from_slice(&s.stamp.to_le_bytes());
            cell[8..].copy_from_slice(&s.crc.to_le_bytes());
        }
        seal(&mut b);
        b
    }
    fn decode(b: &[u8], sectors: u32) -> Found<UnitRecord> {
        if is_blank(b) {
            return Found::Blank;
        }
        let kind = match le32(b, 0) {
            1 => UnitKind::Data,
            2 => UnitKind::Parity,
            3 => UnitKind::Smeta,
            4 => UnitKind::Emeta,
            _ => return Found::Torn,
        };
        if !is_sealed(b) {
            return Found::Torn;
        }
        let cells = b[32..].chunks_exact(12).take(sectors as usize);
        let spares = cells.map(|c| Spare { lpn: le32(c, 0), stamp: le32(c, 4), crc: le32(c, 8) });
        Found::Whole(UnitRecord {
            kind,
            erases: le32(b, 4),
            order: le64(b, 8),
            seq: le64(b, 16),
            emeta: (le32(b, 24), le32(b, 28)),
            spares: spares.collect(),
        })
    }
}

/// Waits a moment for whoever has it.
fn lock(file: &File, path: &Path, writable: bool) -> Result<(), Error> {
    let begun = Instant::now();
    loop {
        match if writable { file.try_lock() } else { file.try_lock_shared() } {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if begun.elapsed() < LOCKED => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Image { path: path.into(), fault: ImageFault::InUse });
            }
            Err(TryLockError::Error(e)) => return Err(Error::io("cannot open the image", path, e)),
        }
    }
}

/// Gives a file its name, unless something has that name.
fn publish(new: NamedTempFile, path: &Path, folder: &Path) -> std::io::Result<File> {
    let refused = match new.persist_noclobber(path) {
        Ok(file) => return Ok(file),
        Err(refused) => refused,
    };
    let errno = Errno::from_io_error(&refused.error);
    if !matches!(
        errno,
        Some(Errno::PERM | Errno::NOTSUP | Errno::NOSYS | Errno::INVAL | Errno::MLINK)
    ) {
        return Err(refused.error);
    }
    publish_alone(refused.file, path, folder)
}

/// The same on a file system that can neither rename without replacing nor link, such as FAT. It holds among servers:
/// one at a time looks and renames.
fn publish_alone(new: NamedTempFile, path: &Path, folder: &Path) -> std::io::Result<File> {
    let folder = File::open(folder)?;
    folder.lock()?;
    match path.symlink_metadata() {
        Ok(_) => Err(ErrorKind::AlreadyExists.into()),
        Err(_) => new.persist(path).map_err(|e| e.error),
    }
}

/// The file that keeps a drive.
pub struct Image {
    access: Access,
    path: PathBuf,
    /// What never changes.
    pub superblock: Superblock,
    /// What changes with the lives of blocks.
    state: Mutex<State>,
    /// Where the file has stamps of trims.
    trims_at: u64,
    /// Where it has records of units.
    records_at: u64,
    /// Where it has data.
    data_at: u64,
    /// Bytes of a unit's record.
    record_len: usize,
}

impl Image {
    /// Makes an image. It appears under its name when it is whole, and never in the place of another.
    pub fn create(path: &Path, superblock: &Superblock) -> Result<(), Error> {
        if superblock.config.len() as u64 > CONFIG_MAX {
            return Err(Error::LongProfile);
        }
        let failed = |e: std::io::Error| match e.kind() {
            ErrorKind::AlreadyExists if path.exists() => {
                Error::Image { path: path.into(), fault: ImageFault::Appeared }
            }
            _ => Error::io("cannot make the image", path, e),
        };
        if path.symlink_metadata().is_ok() {
            return Err(failed(ErrorKind::AlreadyExists.into()));
        }
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // A name of its own: what a killed server left under another is in nobody's way.
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        let new = tempfile::Builder::new()
            .prefix(".wordline-")
            .permissions(permissions)
            .tempfile_in(folder);
        let new = new.map_err(failed)?;
        // Others that find it under its name wait until its folder is synced.
        lock(new.as_file(), path, true)?;
        let made = (|| {
            let file = new.as_file();
            file.set_len(Layout::of(superblock).end)?;
            file.write_all_at(superblock.config.as_bytes(), CONFIG_AT)?;
            file.write_all_at(&superblock.encode(), 0)?;
            file.sync_all()?;
            let _file = publish(new, path, folder)?;
            File::open(folder)?.sync_all()
        })();
        made.map_err(failed)
    }

    /// Opens an image; nobody else has it open then, unless all only read.
    pub fn open(path: &Path, writable: bool) -> Result<Image, Error> {
        let failed = |e: std::io::Error| Error::io("cannot open the image", path, e);
        let file = OpenOptions::new().read(true).write(writable).open(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        if !about.is_file() {
            return Err(failed(std::io::Error::other("it is not a file")));
        }
        lock(&file, path, writable)?;
        let unusable = |fault| Error::Image { path: path.into(), fault };
        if about.len() < BLOCKS_AT {
            return Err(unusable(ImageFault::Short));
        }
        let mut page = vec![0; PAGE as usize];
        file.read_exact_at(&mut page, 0).map_err(failed)?;
        let (mut superblock, len, crc) = Superblock::decode(&page).map_err(unusable)?;
        let mut config = vec![0; (len as usize).min(CONFIG_MAX as usize)];
        file.read_exact_at(&mut config, CONFIG_AT).map_err(failed)?;
        if crc32c::crc32c(&config) != crc {
            return Err(unusable(ImageFault::Profile));
        }
        superblock.config =
            String::from_utf8(config).map_err(|_| unusable(ImageFault::ProfileText))?;
        if !superblock.config.contains("partition_by") {
            superblock.config = parted_by_luns(&superblock.config);
        }
        let layout = Layout::of(&superblock);
        if about.len() != layout.end {
            return Err(unusable(ImageFault::Length { bytes: about.len(), due: layout.end }));
        }
        let mut state = State::default();
        for slot in 0..2 {
            file.read_exact_at(&mut page[..64], STATES_AT + slot * PAGE).map_err(failed)?;
            if let Some(found) = decode_state(&page[..64])
                && found.generation >= state.generation
            {
                state = found;
            }
        }
        Ok(Image {
            access: Access::new(file),
            path: path.into(),
            superblock,
            state: Mutex::new(state),
            trims_at: layout.trims,
            records_at: layout.records,
            data_at: layout.data,
            record_len: layout.record as usize,
        })
    }

    /// The same, read and written so from now on.
    pub fn by(self, io: ImageIo) -> Result<Image, Error> {
        Ok(Image { access: self.access.by(io)?, ..self })
    }
    /// Keeps a journal of what is done to it from now on, if one is given.
    pub fn journalled(self, journal: Option<Arc<Journal>>) -> Image {
        Image { access: self.access.journalled(journal), ..self }
    }
    #[cfg(test)]
    /// On another handle of the file.
    pub fn with_file(mut self, file: File) -> Image {
        self.access.file = file;
        self
    }
    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// The length of the file in bytes, holes included.
    pub fn file_bytes(&self) -> std::io::Result<u64> {
        self.access.file.metadata().map(|m| m.len())
    }
    /// All but data, in pages of 4096 bytes that are not blank, with their numbers in the file: what
    /// recovery of a drive reads whose data are synced.
    pub fn each_metadata_page(
        &self,
        mut f: impl FnMut(u64, &[u8]) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let mut smetas = Vec::new();
        self.each_unit(|unit, found| {
            if matches!(found, Found::Whole(r) if r.kind == UnitKind::Smeta) {
                smetas.push(self.data_at + u64::from(unit * self.superblock.unit_sectors) * PAGE);
            }
        })?;
        let unit = u64::from(self.superblock.unit_sectors) * PAGE;
        let smetas = smetas.into_iter().map(|at| (at, at + unit));
        let mut chunk = vec![0; 1 << 20];
        for (from, to) in std::iter::once((0, self.data_at)).chain(smetas) {
            for at in (from..to).step_by(chunk.len()) {
                let bytes = &mut chunk[..(to - at).min(1 << 20) as usize];
                self.access.read_exact_at(bytes, at)?;
                let pages = (at / PAGE..).zip(bytes.chunks_exact(PAGE as usize));
                for (number, page) in pages.filter(|(_, page)| !is_blank(page)) {
                    f(number, page)?;
                }
            }
        }
        Ok(())
    }
    /// The newest state.
    pub fn state(&self) -> State {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Bytes that the file takes on its disk.
    pub fn allocated(&self) -> u64 {
        use std::os::unix::fs::MetadataExt;
        self.access.file.metadata().map_or(0, |m| m.blocks() * 512)
    }
    /// Waits until what was written is on the disk (`fdatasync`).
    pub fn sync(&self) -> std::io::Result<()> {
        self.access.sync_data()
    }
    /// The image has this geometry.
    pub fn fits(&self, g: &Geometry) -> bool {
        let s = &self.superblock;
        (s.luns, s.lines, s.pages, s.unit_sectors) == (g.luns, g.lines, g.pages, g.sectors_per_unit)
    }

    /// The drive is in use.
    pub fn write_state(&self, synced: u64) -> std::io::Result<()> {
        self.write_any_state(State { synced, ..State::default() })
    }
    /// It was shut down, with so many whole records of units and of trims.
    pub fn write_clean_state(&self, synced: u64, units: u64, trims: u64) -> std::io::Result<()> {
        self.write_any_state(State { clean: true, synced, units, trims, ..State::default() })
    }
    fn write_any_state(&self, state: State) -> std::io::Result<()> {
        let mut last = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = State { generation: last.generation + 1, ..state };
        let mut b = [0; 64];
        b[..8].copy_from_slice(MAGIC);
        b[8..16].copy_from_slice(&state.generation.to_le_bytes());
        b[16..24].copy_from_slice(&u64::from(state.clean).to_le_bytes());
        b[24..32].copy_from_slice(&state.synced.to_le_bytes());
        b[32..40].copy_from_slice(&state.units.to_le_bytes());
        b[40..48].copy_from_slice(&state.trims.to_le_bytes());
        seal(&mut b);
        let at = STATES_AT + state.generation % 2 * PAGE;
        self.access.write_beside(Piece::Bytes(at, (&b).into()))?;
        *last = state;
        Ok(())
    }

    /// Reads as many sectors as `into` holds, from physical sector `ppa` on.
    pub fn read_sectors(&self, ppa: u32, into: &mut [u8]) -> std::io::Result<()> {
        self.access.read_exact_at(into, self.data_at + u64::from(ppa) * PAGE)
    }
    /// Pieces that it is good to write together.
    pub fn at_once(&self) -> usize {
        self.access.at_once()
    }
    /// Writes pieces in order, none begun before the one before it is written. How many were, and why
    /// not all.
    pub fn write(&self, pieces: &[Piece<'_>]) -> (usize, std::io::Result<()>) {
        self.access.write(pieces)
    }
    /// Writes one piece.
    pub fn write_one(&self, piece: Piece<'_>) -> std::io::Result<()> {
        self.write(&[piece]).1
    }
    /// The data of sectors in a row, from physical sector `ppa` on.
    pub fn of_data<'a>(&self, ppa: u32, data: &'a [u8]) -> Piece<'a> {
        Piece::Bytes(self.data_at + u64::from(ppa) * PAGE, data.into())
    }
    /// Writes sectors in a row, from physical sector `ppa` on.
    pub fn write_sectors(&self, ppa: u32, data: &[u8]) -> std::io::Result<()> {
        self.write_one(self.of_data(ppa, data))
    }
    /// Sectors in a row, from where they lie.
    pub fn of_pages<'a>(&self, ppa: u32, pages: &'a [Page]) -> Piece<'a> {
        Piece::Pages(self.data_at + u64::from(ppa) * PAGE, pages)
    }
    fn record_at(&self, unit: u32) -> u64 {
        self.records_at + u64::from(unit) * self.record_len as u64
    }
    /// A loss of power may leave the record of a unit in part: it lies across sectors of the medium below.
    pub fn may_be_cut(&self, unit: u32) -> bool {
        let at = self.record_at(unit);
        at / SECTOR_BELOW != (at + self.record_len as u64 - 1) / SECTOR_BELOW
    }
    /// The record of a unit.
    pub fn of_unit(&self, unit: u32, record: &UnitRecord) -> Piece<'static> {
        Piece::Bytes(self.record_at(unit), record.encode(self.record_len).into())
    }
    /// The unit holds nothing.
    pub fn of_void(&self, unit: u32) -> Piece<'static> {
        Piece::Bytes(self.record_at(unit), vec![0; self.record_len].into())
    }
    /// Writes that the unit holds nothing.
    pub fn void_unit(&self, unit: u32) -> std::io::Result<()> {
        self.write_one(self.of_void(unit))
    }
    /// Block table and trims are written over by themselves: what the system could not write before, and
    /// holds as if it had, goes to the disk with the next sync.
    pub fn write_tables_again(&self) -> std::io::Result<()> {
        let mut chunk = vec![0; 1 << 20];
        for at in (BLOCKS_AT..self.records_at).step_by(chunk.len()) {
            let bytes = &mut chunk[..(self.records_at - at).min(1 << 20) as usize];
            self.access.read_exact_at(bytes, at)?;
            for (page, bytes) in (at..).step_by(PAGE as usize).zip(bytes.chunks(PAGE as usize)) {
                if !is_blank(bytes) {
                    self.write_one(Piece::Bytes(page, bytes.into()))?;
                }
            }
        }
        Ok(())
    }
    /// All units in order.
    pub fn each_unit(&self, mut f: impl FnMut(u32, Found<UnitRecord>)) -> std::io::Result<()> {
        let (n, len) = (self.superblock.units(), self.record_len);
        let per = ((1 << 20) / len as u64).max(1);
        let mut chunk = vec![0; per as usize * len];
        let mut unit = 0;
        while unit < n {
            let here = per.min(n - unit) as usize;
            let bytes = &mut chunk[..here * len];
            self.access.read_exact_at(bytes, self.record_at(unit as u32))?;
            for record in bytes.chunks_exact(len) {
                f(unit as u32, UnitRecord::decode(record, self.superblock.unit_sectors));
                unit += 1;
            }
        }
        Ok(())
    }

    /// The record of a block.
    pub fn of_block(&self, block: u32, record: BlockRecord) -> Piece<'static> {
        let mut b = vec![0; BLOCK_BYTES as usize];
        b[..4].copy_from_slice(&record.erases.to_le_bytes());
        b[4..8].copy_from_slice(&u32::from(record.bad).to_le_bytes());
        b[8..12].copy_from_slice(&1u32.to_le_bytes());
        seal(&mut b);
        Piece::Bytes(BLOCKS_AT + u64::from(block) * BLOCK_BYTES, b.into())
    }
    /// The records of all blocks.
    pub fn read_blocks(&self) -> std::io::Result<Vec<Found<BlockRecord>>> {
        let mut all = vec![0; (self.superblock.blocks() * BLOCK_BYTES) as usize];
        self.access.read_exact_at(&mut all, BLOCKS_AT)?;
        let decode = |b: &[u8]| match () {
            () if is_blank(b) => Found::Blank,
            () if !is_sealed(b) => Found::Torn,
            () => Found::Whole(BlockRecord { erases: le32(b, 0), bad: le32(b, 4) != 0 }),
        };
        Ok(all.chunks_exact(BLOCK_BYTES as usize).map(decode).collect())
    }

    /// The stamps that sectors in a row had when they were trimmed; 0 is none.
    pub fn of_trims(&self, lpn: u32, stamps: &[u32]) -> Piece<'static> {
        let mut b = Vec::with_capacity(stamps.len() * TRIM_BYTES as usize);
        for (i, stamp) in stamps.iter().enumerate() {
            b.extend(stamp.to_le_bytes());
            b.extend(if *stamp == 0 { [0; 4] } else { trim_crc(lpn + i as u32, *stamp) });
        }
        Piece::Bytes(self.trims_at + u64::from(lpn) * TRIM_BYTES, b.into())
    }
    /// By sector: the stamp at the last trim.
    pub fn read_trims(&self) -> std::io::Result<Vec<Found<u32>>> {
        let n = self.superblock.sectors;
        let mut trims = Vec::with_capacity(n as usize);
        let mut chunk = vec![0; 1 << 20];
        while (trims.len() as u64) < n {
            let here = (n - trims.len() as u64).min((1 << 20) / TRIM_BYTES);
            let bytes = &mut chunk[..(here * TRIM_BYTES) as usize];
            self.access.read_exact_at(bytes, self.trims_at + trims.len() as u64 * TRIM_BYTES)?;
            for cell in bytes.chunks_exact(TRIM_BYTES as usize) {
                let stamp = le32(cell, 0);
                trims.push(match () {
                    () if is_blank(cell) => Found::Blank,
                    () if trim_crc(trims.len() as u32, stamp) == cell[4..] => Found::Whole(stamp),
                    () => Found::Torn,
                });
            }
        }
        Ok(trims)
    }
}

fn trim_crc(lpn: u32, stamp: u32) -> [u8; 4] {
    sector_crc(lpn, stamp, &[]).to_le_bytes()
}

fn decode_state(b: &[u8]) -> Option<State> {
    (&b[..8] == MAGIC && is_sealed(b)).then(|| State {
        generation: le64(b, 8),
        clean: le64(b, 16) == 1,
        synced: le64(b, 24),
        units: le64(b, 32),
        trims: le64(b, 40),
    })
}

/// Where things are, in bytes.
struct Layout {
    trims: u64,
    records: u64,
    record: u64,
    data: u64,
    end: u64,
}

impl Layout {
    fn of(s: &Superblock) -> Layout {
        let up = |n: u64, to: u64| n.div_ceil(to) * to;
        let trims = up(BLOCKS_AT + s.blocks() * BLOCK_BYTES, PAGE);
        let records = up(trims + s.sectors * TRIM_BYTES, PAGE);
        let record = up(32 + 12 * u64::from(s.unit_sectors) + 4, 64);
        let data = up(records + s.units() * record, DATA_ALIGN);
        let end = data + s.units() * u64::from(s.unit_sectors) * PAGE;
        Layout { trims, records, record, data, end }
    }
}

/// The profile of an image from before `ftl.partition_by` was a setting: hot and cold data are apart by LUNs.
fn parted_by_luns(config: &str) -> String {
    let apart = "hot_cold = true\n";
    config.replacen(apart, &format!("{apart}partition_by = \"luns\"\n"), 1)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn images_from_before_that_setting_part_hot_and_cold_by_luns() {
        let old = "[ftl]\nhot_cold = true\ncold_margin = 10.0\n";
        let now = "[ftl]\nhot_cold = true\npartition_by = \"luns\"\ncold_margin = 10.0\n";
        assert_eq!(parted_by_luns(old), now);
        assert_eq!(parted_by_luns("[ftl]\nhot_cold = false\n"), "[ftl]\nhot_cold = false\n");
    }

    pub(crate) fn superblock() -> Superblock {
        Superblock {
            id: 7,
            size: 1 << 20,
            sectors: 300,
            seed: 3,
            luns: 4,
            lines: 5,
            pages: 6,
            unit_sectors: 4,
            config: "[device]\nname = \"x\"\n".into(),
        }
    }

    #[test]
    fn an_image_returns_what_was_written() {
        crate::access::ways().into_iter().for_each(is_found_again);
    }
    fn is_found_again(io: ImageIo) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.img");
        Image::create(&path, &superblock()).unwrap();
        let image = Image::open(&path, true).unwrap().by(io).unwrap();
        assert_eq!(image.superblock, superblock());
        assert_eq!(image.state(), State::default());
        image.write_state(5).unwrap();
        image.write_clean_state(9, 1, 2).unwrap();
        let record = UnitRecord {
            kind: UnitKind::Emeta,
            erases: 3,
            order: 17,
            seq: 4,
            emeta: (20, 5),
            spares: (0..4).map(|i| Spare { lpn: i, stamp: 2 * i, crc: 99 }).collect(),
        };
        image.write_one(image.of_unit(119, &record)).unwrap();
        image.write_one(image.of_block(19, BlockRecord { erases: 2, bad: true })).unwrap();
        image.write_one(image.of_trims(298, &[0, 8])).unwrap();
        image.write_sectors(476, &[7; 4 * 4096]).unwrap();
        drop(image);
        let image = Image::open(&path, false).unwrap().by(io).unwrap();
        let state = State { generation: 2, clean: true, synced: 9, units: 1, trims: 2 };
        assert_eq!(image.state(), state);
        let mut found = Vec::new();
        image.each_unit(|u, r| found.push((u, r))).unwrap();
        assert_eq!(found.len(), 120);
        assert_eq!(found[119].1, Found::Whole(record));
        assert!(found[..119].iter().all(|f| f.1 == Found::Blank));
        let blocks = image.read_blocks().unwrap();
        assert_eq!(blocks[19], Found::Whole(BlockRecord { erases: 2, bad: true }));
        let trims = image.read_trims().unwrap();
        assert_eq!(trims.len(), 300);
        assert_eq!((&trims[298], &trims[299]), (&Found::Blank, &Found::Whole(8)));
        let mut data = [0; 4096];
        image.read_sectors(479, &mut data).unwrap();
        assert_eq!(data, [7; 4096]);
        assert!(image.allocated() < 1 << 19, "the image is sparse");
    }

    #[test]
    fn a_new_image_replaces_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.img");
        let other = dir.path().join("a.img.new");
        let first = Superblock { id: 1, ..superblock() };
        Image::create(&other, &first).unwrap();
        let server = Image::open(&other, true).unwrap();
        Image::create(&path, &superblock()).unwrap();
        drop(server);
        assert_eq!(Image::open(&other, true).unwrap().superblock, first);
        assert_eq!(Image::open(&path, true).unwrap().superblock, superblock());
        // A link that leads nowhere is something, too.
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        let told = Image::create(&link, &superblock()).unwrap_err().to_string();
        assert!(told.contains("name another, or remove it"), "{told}");
        assert_eq!(std::fs::read_link(&link).unwrap(), Path::new("nowhere"));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3, "and nothing else is left");
    }

    #[test]
    fn of_images_made_at_once_under_one_name_one_is_there() {
        let dir = tempfile::tempdir().unwrap();
        for round in 0..20 {
            let path = dir.path().join(round.to_string());
            let start = std::sync::Barrier::new(4);
            let made = |id| {
                let superblock = Superblock { id, ..superblock() };
                start.wait();
                Image::create(&path, &superblock).map_err(|e| e.to_string())
            };
            let results = std::thread::scope(|scope| {
                let made = &made;
                [1, 2, 3, 4].map(|id| scope.spawn(move || made(id))).map(|t| t.join().unwrap())
            });
            let winners = || (1..).zip(&results).filter(|(_, made)| made.is_ok());
            assert_eq!(winners().count(), 1, "{results:?}");
            let id = winners().map(|w| w.0).next().unwrap();
            assert_eq!(Image::open(&path, true).unwrap().superblock.id, id);
            let told = results.iter().filter_map(|made| made.as_ref().err());
            told.for_each(|why| assert!(why.contains("start again"), "{why}"));
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 20, "and nothing else is left");
    }

    #[test]
    fn where_a_file_system_cannot_link_an_image_replaces_no_file_either() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let new = || tempfile::NamedTempFile::new_in(dir.path()).unwrap();
        publish_alone(new(), &path, dir.path()).unwrap().write_all_at(b"first", 0).unwrap();
        let refused = publish_alone(new(), &path, dir.path()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"first");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn files_that_are_no_image_or_damaged_are_refused_with_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.img");
        Image::create(&path, &superblock()).unwrap();
        let error = |writable| match Image::open(&path, writable) {
            Err(e) => e.to_string(),
            Ok(_) => panic!("opened"),
        };
        let first = Image::open(&path, true).unwrap();
        assert!(error(true).contains("in use") && error(false).contains("in use"));
        drop(first);
        assert!(Image::create(&path, &superblock()).is_err());
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&2u32.to_le_bytes(), 8).unwrap();
        assert!(error(true).contains("format version 2"));
        file.write_all_at(&VERSION.to_le_bytes(), 8).unwrap();
        file.write_all_at(&[1], 17).unwrap();
        assert!(error(true).contains("superblock's checksum"));
        file.write_all_at(&[0], 17).unwrap();
        file.write_all_at(b"X", CONFIG_AT).unwrap();
        assert!(error(true).contains("profile's checksum"));
        file.write_all_at(b"[", CONFIG_AT).unwrap();
        drop(Image::open(&path, true).unwrap());
        file.set_len(1 << 20).unwrap();
        assert!(error(true).contains("bytes long"));
        file.set_len(100).unwrap();
        assert!(error(true).contains("too short"));
        file.set_len(1 << 20).unwrap();
        file.write_all_at(b"something else", 0).unwrap();
        assert!(error(true).contains("not an image"));
    }

    #[test]
    fn every_torn_record_is_known() {
        let record = UnitRecord {
            kind: UnitKind::Data,
            erases: 1,
            order: 2,
            seq: 3,
            emeta: (0, 0),
            spares: vec![Spare { lpn: 1, stamp: 1, crc: 1 }; 4],
        };
        let whole = record.encode(128);
        assert_eq!(UnitRecord::decode(&whole, 4), Found::Whole(record));
        assert_eq!(UnitRecord::decode(&[0; 128], 4), Found::Blank);
        for cut in 1..128 {
            let mut torn = whole.clone();
            torn[cut..].fill(0);
            if torn != whole {
                assert_eq!(UnitRecord::decode(&torn, 4), Found::Torn, "{cut}");
            }
        }
    }
}
