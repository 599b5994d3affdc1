//! The `[nand]` section of a device profile.

use serde::de::{self, IntoDeserializer};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use wordline_base::{BadValue, SectorSize, Span};

/// Bits stored in a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cell {
    /// A bit a cell.
    Slc,
    /// Two bits.
    Mlc,
    /// Three bits.
    Tlc,
    /// Four bits.
    Qlc,
}

impl Cell {
    /// Bits a cell, which is also the number of page types.
    pub fn bits(self) -> usize {
        match self {
            Cell::Slc => 1,
            Cell::Mlc => 2,
            Cell::Tlc => 3,
            Cell::Qlc => 4,
        }
    }
}

/// A time for each page type of the cell (lower, upper, …), or one for all. Page `p` of a block has
/// type `p mod bits`: paired pages follow each other, as in a shared word line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(untagged)]
pub enum PerPage {
    /// The same for all page types.
    One(Span),
    /// One for each page type, the fastest first.
    Each(Vec<Span>),
}

/// By hand, so that an error tells what is wrong with the time.
impl<'de> Deserialize<'de> for PerPage {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<PerPage, D::Error> {
        struct Times;
        impl<'de> de::Visitor<'de> for Times {
            type Value = PerPage;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a time such as \"65us\", or an array of times")
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<PerPage, E> {
                Span::deserialize(v.into_deserializer()).map(PerPage::One)
            }
            fn visit_i64<E: de::Error>(self, v: i64) -> Result<PerPage, E> {
                Span::deserialize(v.into_deserializer()).map(PerPage::One)
            }
            fn visit_u64<E: de::Error>(self, v: u64) -> Result<PerPage, E> {
                Span::deserialize(v.into_deserializer()).map(PerPage::One)
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<PerPage, A::Error> {
                let mut spans = Vec::new();
                while let Some(span) = seq.next_element()? {
                    spans.push(span);
                }
                Ok(PerPage::Each(spans))
            }
        }
        d.deserialize_any(Times)
    }
}

impl PerPage {
    /// The time of a page type, from 0.
    pub fn get(&self, page_type: usize) -> Span {
        match self {
            PerPage::One(span) => *span,
            PerPage::Each(spans) => spans[page_type],
        }
    }
    /// Mean over the page types.
    pub fn mean(&self) -> Span {
        match self {
            PerPage::One(span) => *span,
            PerPage::Each(spans) => spans.iter().copied().sum::<Span>() / spans.len() as u64,
        }
    }
    /// The longest of them.
    pub fn max(&self) -> Span {
        match self {
            PerPage::One(span) => *span,
            PerPage::Each(spans) => spans.iter().copied().max().unwrap_or(Span::ZERO),
        }
    }
}

/// `[nand]`: the flash of a drive and its faults.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NandConfig {
    /// Bits a cell of native blocks.
    pub cell: Cell,
    /// Channels on the board.
    pub channels: u32,
    /// Channels operated in lock step as one (Z-SSD: a super-channel is a pair that splits each
    /// 4 KiB sector). `channels` is a multiple of it; a LUN here is then one die on each of them.
    #[serde(default = "one")]
    pub gang: u32,
    /// Each die of a gang gets its part of an operation so much after the one before.
    #[serde(default)]
    pub gang_skew: Span,
    /// A bad block does not cost its partners in the gang: another of its channel replaces it.
    #[serde(default)]
    pub remap: bool,
    /// LUNs on each channel.
    pub luns_per_channel: u32,
    /// Planes programmed and erased together.
    pub planes: u32,
    /// Blocks of a plane: the number of lines.
    pub blocks: u32,
    /// Pages of a block of one plane.
    pub pages_per_block: u32,
    /// Bytes of a sector, the unit that the FTL maps.
    #[serde(default = "kib_4")]
    pub sector_bytes: u32,
    /// Bytes of a page of one plane, without spare area.
    pub page_bytes: u32,
    /// Array to page register, one page of each plane addressed.
    pub t_read: PerPage,
    /// Page registers to array, all planes together.
    pub t_program: PerPage,
    /// Erasure of a block, all planes together.
    pub t_erase: Span,
    /// Bits change where they are: units are written over, in any order, and never erased.
    #[serde(default)]
    pub in_place: bool,
    /// Bytes a second of one channel.
    pub channel_rate: u64,
    /// Bytes moved before another LUN may have the channel; 0 is all of an operation's.
    #[serde(default)]
    pub transfer_bytes: u32,
    /// Who has a channel next.
    #[serde(default)]
    pub channel_order: ChannelOrder,
    /// A second page register: while a read's data leave from it, the array reads for the next
    /// (ONFI, read cache random).
    #[serde(default)]
    pub cache_register: bool,
    /// Planes read on their own: a read has the planes of its sectors, and others of its LUN read meanwhile for
    /// others. Programs and erases have all planes. Makers call it independent or asynchronous plane reads.
    #[serde(default)]
    pub independent_plane_reads: bool,
    /// Command and address cycles of an operation, on the channel.
    #[serde(default)]
    pub t_command: Span,
    /// What reads go ahead of.
    #[serde(default)]
    pub suspend: Suspend,
    /// Rated program/erase cycles: wear is reported against it.
    pub endurance: u32,
    /// Power by operation.
    #[serde(default)]
    pub power: NandPower,
    /// Operations that fail for good.
    #[serde(default)]
    pub faults: Faults,
    /// Bit errors that a code corrects, or reads done again.
    #[serde(default)]
    pub errors: ErrorConfig,
    /// Decoders of the channels. Absent: decoding takes no time of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decoder: Option<DecoderConfig>,
    /// How far blocks and layers are from these times, and what wear does to them. All off: alike.
    #[serde(default)]
    pub variation: VariationConfig,
    /// Blocks may be written with a bit a cell, each from its first program to its erasure. Absent: they
    /// cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slc: Option<SlcMode>,
}

impl NandConfig {
    /// None of a size that no drive has.
    pub fn sector(&self) -> Option<SectorSize> {
        SectorSize::new(self.sector_bytes)
    }
    /// Reads that a LUN does at a time: one, and with a cache register one whose data are leaving. Of planes that read on
    /// their own each does as many.
    pub fn reads_at_a_time(&self) -> u32 {
        let arrays = if self.independent_plane_reads { self.planes } else { 1 };
        arrays * if self.cache_register { 2 } else { 1 }
    }
}

/// A block that is written with a bit a cell: it has the pages of a native one divided by the bits of a cell.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlcMode {
    /// As `t_read` of native blocks.
    pub t_read: Span,
    /// As `t_program` of native blocks.
    pub t_program: Span,
    /// As `t_erase` of native blocks.
    pub t_erase: Span,
    /// Rated cycles of a block that is always written so: what `device check` says of the buffer's life.
    pub endurance: u32,
    /// Power drawn by a LUN.
    pub read_mw: u32,
    /// The same while it programs.
    pub program_mw: u32,
    /// The same while it erases.
    pub erase_mw: u32,
    /// Whose raw bit errors its pages have, under the code of `[nand.errors]`.
    #[serde(default)]
    pub errors: ErrorModel,
}

/// Which of the transfers that wait a channel takes up when it is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChannelOrder {
    /// In the order in which they came.
    #[default]
    Fifo,
    /// Commands that have no data with them, of reads and erases, before data: each starts an array.
    CommandsFirst,
}

fn one() -> u32 {
    1
}
fn kib_4() -> u32 {
    4096
}

/// What reads for users go ahead of at their LUN. All off: operations in order of arrival.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Suspend {
    /// Operations that wait at the LUN.
    pub queue: bool,
    /// A program in the array.
    pub program: bool,
    /// A program whose data are on the channel or wait for it; and on a channel all transfers that
    /// are not for such reads.
    pub dma: bool,
    /// An erase in the array.
    pub erase: bool,
    /// From the decision until the array can read.
    pub t_program: Span,
    /// The same of an erase.
    pub t_erase: Span,
    /// Context of a transfer saved, and the same again restored, on the channel.
    pub t_dma: Span,
    /// Added to a program or erase each time it goes on.
    pub t_resume: Span,
    /// The least a program or erase works between going on and the next suspension.
    pub interval: Span,
    /// The most reads that an operation lets go ahead of it, waiting, transferring or suspended. A read that passes several
    /// counts for the first.
    pub most: u32,
}

impl Suspend {
    /// Whether reads go ahead of anything.
    pub fn any(&self) -> bool {
        self.queue || self.program || self.dma || self.erase
    }
}

/// Whose raw bit errors a medium has (`errors.rs`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorModel {
    /// Each read is right at once.
    #[default]
    None,
    /// MLC of 30 to 39 nm.
    #[serde(rename = "mlc-3x-nm")]
    Mlc3xNm,
    /// MLC of 20 to 29 nm.
    #[serde(rename = "mlc-2y-nm")]
    Mlc2yNm,
    /// TLC of 72 layers.
    #[serde(rename = "tlc-72-layer")]
    Tlc72Layer,
}

/// Raw bit errors, the code that corrects them, and reads with other reference voltages where it cannot.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ErrorConfig {
    /// The medium whose errors these are.
    pub model: ErrorModel,
    /// Cycles that every block had before the drive was aged for the run.
    pub cycles: u32,
    /// Days since what was on the drive before the run was programmed.
    pub age_days: u32,
    /// Standard deviation of the logarithm of blocks' error rates, in percent.
    pub spread: u32,
    /// What the code corrects `corrects` bits of.
    pub codeword_bytes: u32,
    /// Bits that the code corrects in a codeword.
    pub corrects: u32,
    /// Until the code gives a read up.
    pub t_decode: Span,
    /// The most times that a page is read again.
    pub steps: u32,
    /// Errors that each step leaves of those before, in percent.
    pub left: u32,
}

impl ErrorConfig {
    /// What was written before time began has errors by its age.
    pub(crate) fn ages(&self) -> bool {
        self.model != ErrorModel::None && self.age_days > 0
    }
    /// Whether a page can have such a code.
    pub(crate) fn check(&self, page_bytes: u32) -> Result<(), BadValue> {
        if !(1..=page_bytes).contains(&self.codeword_bytes) {
            let message = format!("must be 1 to a page's {page_bytes} bytes");
            return Err(BadValue::new("errors.codeword_bytes", message));
        }
        if self.corrects == 0 || self.corrects > 4096 {
            let message = "must be 1 to 4096 bits of a codeword";
            return Err(BadValue::new("errors.corrects", message));
        }
        Ok(())
    }
}

/// Decoders of a channel: each has one codeword at a time, of `errors.codeword_bytes`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecoderConfig {
    /// One iteration over a codeword. How many there are follows from its wrong bits; after `errors.t_decode` the
    /// code gives up.
    pub t_iteration: Span,
    /// Decoders of each channel.
    #[serde(default = "one")]
    pub engines: u32,
}

impl Default for ErrorConfig {
    fn default() -> ErrorConfig {
        ErrorConfig {
            model: ErrorModel::None,
            cycles: 0,
            age_days: 0,
            spread: 0,
            codeword_bytes: 1024,
            corrects: 40,
            t_decode: Span::from_us(20),
            steps: 8,
            left: 60,
        }
    }
}

/// Times that differ from block to block and from layer to layer, and change with wear. `t_read`, `t_program`
/// and `t_erase` are the means of one plane of a new block; several planes end with the slowest.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VariationConfig {
    /// Standard deviation of blocks' read times, in percent of their mean.
    pub read: u32,
    /// Standard deviation of blocks' program times, in percent of their mean.
    pub program: u32,
    /// Standard deviation of blocks' erase times, in percent of their mean.
    pub erase: u32,
    /// Layers of word lines in a stack; a block's pages go through them one after the other.
    pub layers: u32,
    /// Standard deviation of layers' program times, in percent of their mean.
    pub layer_program: u32,
    /// How much shorter a program is at the rated cycles, in percent, and so in proportion before.
    pub program_wear: u32,
    /// How much longer an erasure is at the rated cycles, in percent, and so in proportion before.
    pub erase_wear: u32,
}

impl VariationConfig {
    /// Whether blocks differ, and with them the dies of a gang.
    pub fn by_block(&self) -> bool {
        self.read > 0 || self.program > 0 || self.erase > 0
    }
    /// Whether anything is not alike.
    pub fn any(&self) -> bool {
        *self != VariationConfig { layers: self.layers, ..VariationConfig::default() }
    }
}

/// Power drawn by one LUN (a gang counts once) while it works, and by a channel while it transfers.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NandPower {
    /// Milliwatts while the array reads.
    pub read_mw: u32,
    /// Milliwatts while it programs.
    pub program_mw: u32,
    /// Milliwatts while it erases.
    pub erase_mw: u32,
    /// Milliwatts of a channel while it transfers.
    pub transfer_mw: u32,
}

/// Faults drawn from the seed, in events per 10^9 operations (0 is never), and at chosen places.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// Blocks (of a LUN) bad from the factory, per 10^9 blocks.
    pub bad_blocks_ppb: u64,
    /// Programs that fail, per 10^9 programs.
    pub program_fail_ppb: u64,
    /// Erasures that fail, per 10^9 erasures.
    pub erase_fail_ppb: u64,
    /// Reads that fail for good, per 10^9 reads.
    pub read_fail_ppb: u64,
    /// Operations that fail at chosen places, such as "program lun=3 line=7 page=2".
    pub script: Vec<String>,
}
