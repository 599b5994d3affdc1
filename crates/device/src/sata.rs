//! The SATA link of a drive: frames, and for how long they hold it (Serial ATA 3.x, 10.5; AHCI 1.3.1, 4.2).

use serde::{Deserialize, Serialize};
use wordline_base::{BadValue, Span};

/// Register - Host to Device, and Register - Device to Host.
const REGISTER: u32 = 20;
/// DMA Setup - Device to Host: which command's data come next.
const DMA_SETUP: u32 = 28;
/// DMA Activate - Device to Host: the host may send the next data.
const DMA_ACTIVATE: u32 = 4;
/// Set Device Bits - Device to Host: which commands are over.
const SET_DEVICE_BITS: u32 = 8;
/// In front of the data of a Data FIS.
const DATA_HEADER: u32 = 4;
/// Around each frame: SOF, CRC and EOF.
const FRAME: u32 = 12;
/// A primitive is sent, and answered from the other end: X_RDY by R_RDY, and WTRM by R_OK.
const WAYS: u32 = 4;
/// A command's header, and its table with the frame to send and a place in memory. The adapter reads the second at
/// the address that is in the first.
const TABLES: u64 = 2;

/// The link of a SATA drive.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SataConfig {
    /// 1 to 3: 1.5, 3 or 6 Gb/s before line coding, one direction at a time.
    pub generation: u32,
    /// The most data of a Data FIS: a multiple of 512 up to 8192.
    pub fis_bytes: u32,
    /// One way of a primitive, half of the time until its answer is there: in Dwords of the link's rate.
    pub way_dwords: u32,
}

/// For how long commands hold a SATA link, and what they wait for before.
#[derive(Clone, Copy, Debug)]
pub struct SataTimes {
    /// The adapter reads a command's header and table.
    pub tables: Span,
    /// The command.
    pub command: Span,
    /// The drive's answer, which says that it has it.
    pub taken: Span,
    /// The drive says whose data come next.
    pub setup: Span,
    /// The same of a write, and the adapter reads its data.
    pub ready: Span,
    /// The drive asks for the next frame of a write's data.
    pub more: Span,
    /// The drive says that a command is over.
    pub over: Span,
}

impl SataConfig {
    /// Bytes a second after 8b/10b.
    pub fn rate(&self) -> u64 {
        150_000_000 << (self.generation.clamp(1, 3) - 1)
    }
    /// What a frame of so many bytes takes of the link: what is around it, and the ways of the primitives that ask for
    /// it and acknowledge it.
    fn frame(&self, bytes: u32) -> u32 {
        bytes + FRAME + WAYS * 4 * self.way_dwords
    }
    /// What a frame with data takes beside these.
    pub fn beside_data(&self) -> u32 {
        self.frame(DATA_HEADER)
    }
    /// So many bytes of a command's data, in frames.
    pub fn data(&self, bytes: u64) -> Span {
        let more = u64::from(self.beside_data());
        Span::of_bytes(bytes + bytes.div_ceil(self.fis_bytes.into()) * more, self.rate())
    }
    /// Behind an adapter that reads host memory in so long.
    pub fn times(&self, t_round_trip: Span) -> SataTimes {
        let frame = |bytes: u32| Span::of_bytes(self.frame(bytes).into(), self.rate());
        SataTimes {
            tables: Span(t_round_trip.0 * TABLES),
            command: frame(REGISTER),
            taken: frame(REGISTER),
            setup: frame(DMA_SETUP),
            ready: frame(DMA_SETUP) + t_round_trip,
            more: frame(DMA_ACTIVATE),
            over: frame(SET_DEVICE_BITS),
        }
    }
    /// For how long the link is held by a whole read or write.
    pub fn held(&self, t_round_trip: Span, write: bool, bytes: u64) -> Span {
        let times = self.times(t_round_trip);
        let frames = bytes.div_ceil(self.fis_bytes.into());
        let before = match write {
            true => times.ready + times.more * frames.saturating_sub(1),
            false => times.setup,
        };
        times.command + times.taken + before + self.data(bytes) + times.over
    }
    /// Keys are its own.
    pub fn check(&self) -> Result<(), BadValue> {
        if !(1..=3).contains(&self.generation) {
            let message = format!("is {}: must be 1 to 3", self.generation);
            return Err(BadValue::new("sata.generation", message));
        }
        if !(512..=8192).contains(&self.fis_bytes) || !self.fis_bytes.is_multiple_of(512) {
            let message = format!("is {}: must be a multiple of 512 up to 8192", self.fis_bytes);
            return Err(BadValue::new("sata.fis_bytes", message));
        }
        if self.way_dwords > 100 {
            let message = format!("is {}: must be at most 100", self.way_dwords);
            return Err(BadValue::new("sata.way_dwords", message));
        }
        Ok(())
    }
}
