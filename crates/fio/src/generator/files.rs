//! The files of a thread before its first I/O: where they are, how long, and what their random offsets are drawn from.

use super::{FILE_SERVICE_SHIFT, NEVER, READ, WRITE};
use crate::axmap::AxMap;
use crate::dist::{Gauss, Pareto, ZetanCache, Zipf, ZoneTable};
use crate::error::GeneratorError;
use crate::hash;
use crate::job::{Distribution, FileServiceKind, Job, RandomGenerator, ZoneMode};
use crate::rand::{Lfsr, Taus};
use crate::seeds::{SeedUse, Seeds};
use crate::thread::Thread;
use crate::units::Size;

const FILES_MAX: u32 = 1 << 24;

/// Several files begin at multiples of this on the drive, as on a file system.
const FILE_ALIGN: u64 = 4096;

/// 2^36 blocks: a map of 8 GiB.
const MAP_BLOCKS_MAX: u64 = 1 << 36;

pub(super) enum Skewed {
    Zipf(Zipf),
    Pareto(Pareto),
    Gauss(Gauss),
}

impl Skewed {
    pub(super) fn draw(&mut self) -> u64 {
        match self {
            Skewed::Zipf(d) => d.draw(),
            Skewed::Pareto(d) => d.draw(),
            Skewed::Gauss(d) => d.draw(),
        }
    }
    /// Other draws of the same blocks with the same shares.
    pub(super) fn reseed(&mut self, seed: u32) {
        match self {
            Skewed::Zipf(d) => d.reseed(seed),
            Skewed::Pareto(d) => d.reseed(seed),
            Skewed::Gauss(d) => d.reseed(seed),
        }
    }
}

/// Where the blocks of one file stand.
pub(super) struct File {
    /// First byte of the region on the drive.
    pub base: u64,
    /// Bytes of the region: fio's real_file_size.
    pub real: u64,
    /// Bytes the job works on, from `start`.
    pub io_size: u64,
    /// Start of the current zone; `start` unless zones stride.
    pub offset: u64,
    /// Where in the file the job begins, in bytes.
    pub start: u64,
    /// One past the last byte, by direction.
    pub last_pos: [u64; 3],
    /// Where the last I/O began, by direction.
    pub last_start: [u64; 3],
    /// Random blocks lie below this, by direction.
    pub last_block: [u64; 3],
    /// Blocks that this pass has touched, if it touches each once.
    pub map: Option<AxMap>,
    /// Draws blocks of `random_generator=lfsr`.
    pub lfsr: Option<Lfsr>,
    /// Draws blocks of a skewed distribution.
    pub skewed: Option<Skewed>,
    /// It has been begun and is not over.
    pub open: bool,
    /// Times that it was begun.
    pub opens: u32,
    /// This pass has no more of it.
    pub done: bool,
    /// I/Os of this file in flight, where files are chosen by a skewed law.
    pub in_flight: u32,
    /// It closes once they are back.
    pub closing: bool,
}

impl File {
    /// Bytes from which an I/O may not reach further.
    pub(super) fn limit(&self) -> u64 {
        self.io_size.saturating_add(self.start)
    }
}

/// A skewed choice of files starts over with every reseeding.
pub(super) struct SkewedStart {
    pub kind: FileServiceKind,
    pub ranks: u64,
    pub parameter: f64,
    pub center: Option<f64>,
    pub seed: u32,
    pub zetan: ZetanCache,
}

impl SkewedStart {
    pub(super) fn start(&mut self) -> Skewed {
        let SkewedStart { ranks, parameter, center, seed, .. } = *self;
        match self.kind {
            FileServiceKind::Pareto => {
                Skewed::Pareto(Pareto::new(ranks, parameter, center, seed).unhashed())
            }
            FileServiceKind::Normal => {
                Skewed::Gauss(Gauss::new(ranks, parameter, center, seed).unhashed())
            }
            _ => {
                Skewed::Zipf(Zipf::new(ranks, parameter, center, seed, &mut self.zetan).unhashed())
            }
        }
    }
}

/// Where the files of a job are. Offsets of its I/Os are addresses there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Space {
    /// One after the other on a drive of so many bytes, the first of which has address `base`.
    #[allow(missing_docs, reason = "the variant's line names the fields")]
    Drive { base: u64, bytes: u64 },
    /// Each on its own: address of the first byte, and bytes there are.
    Files(Vec<(u64, u64)>),
}

/// A drive of so many bytes, from address 0 on.
impl From<u64> for Space {
    fn from(bytes: u64) -> Space {
        Space::Drive { base: 0, bytes }
    }
}

impl Space {
    /// Bytes in all.
    pub fn bytes(&self) -> u64 {
        match self {
            Space::Drive { bytes, .. } => *bytes,
            Space::Files(files) => files.iter().map(|f| f.1).fold(0, u64::saturating_add),
        }
    }
}

/// `percent` of `bytes`.
pub(super) fn percent_of(bytes: u64, percent: u32) -> u64 {
    share_of(bytes, percent)
}

/// The start offset in a file of `real` bytes.
pub(super) fn start_offset(job: &Job, thread: &Thread, real: u64) -> u64 {
    let (increment, mut align) = match job.offset_increment {
        Size::Bytes(bytes) => (bytes, false),
        Size::Percent(percent) => (percent_of(real, percent), percent > 0),
    };
    let base = match job.offset {
        Size::Bytes(bytes) => bytes,
        Size::Percent(percent) => {
            align |= percent > 0;
            percent_of(real, percent)
        }
    };
    let offset = base.saturating_add(increment.saturating_mul(u64::from(thread.subjob)));
    if !align {
        return offset;
    }
    let unit = job.offset_align.unwrap_or_else(|| job.smallest_bs());
    offset.div_ceil(unit).saturating_mul(unit)
}

/// Sizes the files and places them on the drive. Returns them with the job's total size.
pub(super) fn lay_out(
    job: &Job,
    thread: &Thread,
    space: &Space,
    seeds: &Seeds,
    wide: bool,
) -> Result<(Vec<File>, u64), GeneratorError> {
    let drive = space.bytes();
    let count = job.file_count();
    if count > FILES_MAX {
        return Err(GeneratorError::TooManyFiles {
            job: job.name.clone(),
            files: count,
            max: FILES_MAX,
        });
    }
    let block = job.smallest_bs();
    let mut size = match job.size {
        _ if job.fill_device && job.size.is_none() => u64::MAX,
        Some(Size::Bytes(bytes)) => bytes,
        _ => 0,
    };
    let each = if size == u64::MAX { u64::MAX } else { size / u64::from(count) };
    // The first files take what does not divide evenly, a block each.
    let mut extra = match job.filesize {
        None if size != u64::MAX => (size - each * u64::from(count)) / block,
        _ => 0,
    };
    let mut file_sizes = Taus::new(seeds.get(SeedUse::FileSize), wide);
    let mut files = Vec::with_capacity(count as usize);
    let mut base = match space {
        Space::Drive { base, .. } => *base,
        Space::Files(_) => 0,
    };
    let first = base;
    let mut total = 0u64;
    let no_room = |needed: u64, drive: u64| GeneratorError::FilesDoNotFit {
        job: job.name.clone(),
        files: count,
        needed,
        drive,
    };
    for i in 0..count {
        let own = match space {
            Space::Drive { .. } => None,
            Space::Files(files) => Some(files[i as usize]),
        };
        let mut real = match (own, count) {
            (Some((at, bytes)), _) => {
                base = at;
                bytes
            }
            (None, 1) => drive,
            (None, n) => drive / u64::from(n) / FILE_ALIGN * FILE_ALIGN / block * block,
        };
        let there = real;
        let start = start_offset(job, thread, real);
        let of = match space {
            Space::Drive { .. } if count == 1 => "the drive",
            _ => "its file",
        };
        let beyond =
            |end| GeneratorError::OffsetBeyondEnd { job: job.name.clone(), offset: start, of, end };
        let mut io_size = match job.filesize {
            None => {
                let mut bytes = each;
                if extra > 0 {
                    extra -= 1;
                    bytes += block;
                }
                if bytes == 0 {
                    real.checked_sub(start).ok_or_else(|| beyond(real))?
                } else {
                    bytes
                }
            }
            Some((low, high)) => {
                let bytes = if low == high {
                    low
                } else {
                    let drawn = low + ((high - low) as f64 * file_sizes.fraction()) as u64;
                    drawn - drawn % block
                };
                bytes.checked_sub(start).ok_or(GeneratorError::OffsetBeyondEnd {
                    job: job.name.clone(),
                    offset: start,
                    of: "filesize",
                    end: bytes,
                })?
            }
        };
        if count > 1 {
            real = if job.size.is_some() || job.filesize.is_some() {
                io_size.saturating_add(start)
            } else {
                real
            };
        }
        if own.is_some() && real > there {
            return Err(no_room(real, there));
        }
        if start >= real {
            return Err(beyond(real));
        }
        if let Some(Size::Percent(percent)) = job.size
            && percent != 100
        {
            let file_size = io_size.saturating_add(start);
            io_size = percent_of(file_size, percent).min(file_size - start);
            io_size -= io_size % block;
        }
        let counted = match job.io_size {
            Some(Size::Percent(percent)) => percent_of(io_size, percent),
            _ => io_size,
        };
        total = total.saturating_add(counted);
        files.push(File {
            base,
            real,
            io_size,
            offset: start,
            start,
            last_pos: [start; 3],
            last_start: [NEVER; 3],
            last_block: [0; 3],
            map: None,
            lfsr: None,
            skewed: None,
            open: false,
            opens: 0,
            done: false,
            in_flight: 0,
            closing: false,
        });
        let end = base.saturating_add(real);
        if own.is_none() && i == count - 1 && end - first > drive {
            return Err(no_room(end - first, drive));
        }
        base = end.checked_next_multiple_of(FILE_ALIGN).unwrap_or(u64::MAX);
    }
    if size == 0 || (total > 0 && size > total) {
        size = total;
    }
    if size < block {
        let job = job.name.clone();
        return Err(match drive < block {
            true => GeneratorError::DriveTooSmall { job, drive, block },
            false => GeneratorError::SizeTooSmall { job, bytes: size, block },
        });
    }
    for file in &mut files {
        let mut bytes = file.io_size.min(file.real);
        if job.zonemode == ZoneMode::Strided && job.zonerange > 0 {
            bytes = job.zonerange;
        }
        for d in 0..3 {
            let (least, ba) = (job.min_bs[d], job.ba[d]);
            file.last_block[d] = bytes.saturating_sub(least.saturating_sub(ba)) / ba;
        }
    }
    Ok((files, size))
}

/// Gives a file what its random offsets need. More than 2^32 blocks keep the 32-bit generator, as
/// in fio 3.33: it then reaches only 2^32 of them, evenly spread.
pub(super) fn prepare_random(
    job: &Job,
    thread: &Thread,
    index: u32,
    file: &mut File,
    seeds: &Seeds,
    cache: &mut ZetanCache,
) -> Result<(), GeneratorError> {
    let bytes = file.io_size.min(file.real);
    // Skewed blocks stand still from run to run unless the job asks for other seeds.
    let seed = || {
        if !job.randrepeat || job.randseed_given {
            return seeds.get(SeedUse::Block) as u32;
        }
        let name = job.file_name(thread.subjob, index);
        hash::jenkins(name.as_bytes()).wrapping_mul(thread.thread_number)
    };
    // fio divides by the smaller of the read and write blocks, whatever the job does.
    let ranks = bytes.div_ceil(job.min_bs[READ].min(job.min_bs[WRITE])).max(1);
    file.skewed = match job.distribution {
        Distribution::Zipf { theta, center } => {
            Some(Skewed::Zipf(Zipf::new(ranks, theta, center, seed(), cache)))
        }
        Distribution::Pareto { h, center } => {
            Some(Skewed::Pareto(Pareto::new(ranks, h, center, seed())))
        }
        Distribution::Normal { percent, center } => {
            Some(Skewed::Gauss(Gauss::new(ranks, percent, center, seed())))
        }
        Distribution::Random | Distribution::Zoned(_) | Distribution::ZonedAbs(_) => None,
    };
    if file.skewed.is_some() {
        return Ok(());
    }
    if let Distribution::ZonedAbs(lists) = &job.distribution {
        let used = [job.rw.reads(), job.rw.writes(), job.rw.trims()];
        for d in (0..3).filter(|&d| used[d]) {
            let zones = ZoneTable::new(&lists[d]).map_or(0, |table| table.zone(100).to_bytes);
            if zones / job.ba[d] > file.last_block[d] {
                let (job, end) = (job.name.clone(), file.last_block[d] * job.ba[d]);
                return Err(GeneratorError::ZonesBeyondEnd { job, zones, end });
            }
        }
    }
    let bytes = if job.zonemode == ZoneMode::Strided { job.zonerange } else { bytes };
    let blocks = bytes / job.smallest_bs();
    if job.random_generator == RandomGenerator::Lfsr {
        let lfsr = Lfsr::new(blocks, seeds.get(SeedUse::Block));
        file.lfsr =
            Some(lfsr.ok_or_else(|| GeneratorError::LfsrSeed { job: job.name.clone(), blocks })?);
    } else if !job.norandommap {
        if blocks <= MAP_BLOCKS_MAX {
            file.map = Some(AxMap::new(blocks));
        } else if !job.softrandommap {
            return Err(GeneratorError::MapTooLarge { job: job.name.clone(), blocks });
        }
    }
    Ok(())
}

pub(super) fn file_picker(
    job: &Job,
    files: &[File],
    seeds: &Seeds,
) -> Option<(SkewedStart, Skewed)> {
    let service = job.file_service;
    match service.kind {
        FileServiceKind::Zipf | FileServiceKind::Pareto | FileServiceKind::Normal => {}
        FileServiceKind::RoundRobin | FileServiceKind::Random | FileServiceKind::Sequential => {
            return None;
        }
    }
    let mut start = SkewedStart {
        kind: service.kind,
        ranks: (files.len() as u64) << FILE_SERVICE_SHIFT,
        parameter: service.parameter,
        center: service.center,
        seed: seeds.get(SeedUse::File) as u32,
        zetan: ZetanCache::default(),
    };
    let picker = start.start();
    Some((start, picker))
}

pub(super) fn share_of(blocks: u64, percent: u32) -> u64 {
    (u128::from(blocks) * u128::from(percent) / 100) as u64
}
