//! What happened when on each queue, channel, LUN and core, kept for drawing. Off unless asked for.

use crate::time::Time;
use serde::Serialize;

/// A row of the drawing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Track {
    Job(u32),
    Core(u32),
    Queue(u32),
    Link(u32),
    Firmware(u32),
    Channel(u32),
    Lun(u32),
}

/// What a row was busy with for a while.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Slice {
    pub track: Track,
    pub name: &'static str,
    #[serde(rename = "begin_ns")]
    pub begin: Time,
    #[serde(rename = "end_ns")]
    pub end: Time,
    /// The I/O served, if one was.
    pub io: u32,
}

/// Slices up to a limit; what came after is counted.
#[derive(Clone, Debug, Serialize)]
pub struct Tracks {
    pub slices: Vec<Slice>,
    pub limit: usize,
    pub dropped: u64,
}

impl Tracks {
    pub fn new(limit: usize) -> Tracks {
        Tracks { slices: Vec::new(), limit, dropped: 0 }
    }
    pub fn add(&mut self, slice: Slice) {
        if self.slices.len() < self.limit {
            self.slices.push(slice);
        } else {
            self.dropped += 1;
        }
    }
}
