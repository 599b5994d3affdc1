//! What happened when on each queue, channel, LUN and core, kept for drawing. Off unless asked for.

use crate::time::Time;

/// A row of the drawing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Track {
    Job(u32),
    Core(u32),
    Queue(u32),
    Link(u32),
    Firmware(u32),
    Channel(u32),
    Lun(u32),
}

#[derive(Clone, Copy, Debug)]
pub struct Slice {
    pub track: Track,
    pub name: &'static str,
    pub begin: Time,
    pub end: Time,
    /// The I/O served, if one was.
    pub io: u32,
}

/// Slices up to a limit; what came after is counted.
#[derive(Clone, Debug)]
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
