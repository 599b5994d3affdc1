//! What happened when on each queue, channel, LUN and core, kept for drawing. Off unless asked for.

use crate::time::Time;
use serde::Serialize;

/// A row of the drawing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Track {
    /// A thread of a job, from 0.
    Job(u32),
    /// A core of the host.
    Core(u32),
    /// A submission queue.
    Queue(u32),
    /// A direction of the link: 0 to the drive, 1 to the host.
    Link(u32),
    /// A core of the drive.
    Firmware(u32),
    /// A channel of the flash.
    Channel(u32),
    /// A LUN, counted through all channels.
    Lun(u32),
    /// A plane of a LUN, where planes read on their own.
    Plane(u32, u32),
}

impl Track {
    /// A host has it, not a drive.
    pub fn is_of_host(self) -> bool {
        matches!(self, Track::Job(_) | Track::Core(_))
    }
}

/// What a row was busy with for a while.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Slice {
    /// The row.
    pub track: Track,
    /// The host or the drive that has it, by its number in the machine.
    pub node: u8,
    /// What it did.
    pub name: &'static str,
    /// From when.
    #[serde(rename = "begin_ns")]
    pub begin: Time,
    /// Until when.
    #[serde(rename = "end_ns")]
    pub end: Time,
    /// The I/O served, if one was.
    pub io: u32,
}

/// Slices up to a limit; what came after is counted.
#[derive(Clone, Debug, Serialize)]
pub struct Tracks {
    /// In the order in which they ended.
    pub slices: Vec<Slice>,
    /// Slices kept at most.
    pub limit: usize,
    /// Slices that came after.
    pub dropped: u64,
}

impl Tracks {
    /// None so far.
    pub fn new(limit: usize) -> Tracks {
        Tracks { slices: Vec::new(), limit, dropped: 0 }
    }
    /// Keeps a slice, or counts it. Few runs draw.
    #[cold]
    #[inline(never)]
    pub fn add(&mut self, slice: Slice) {
        if self.slices.len() < self.limit {
            self.slices.push(slice);
        } else {
            self.dropped += 1;
        }
    }
}
