//! What a component is handed with every input: the time, the queue for its own later events, the
//! lives of the I/Os, the stamps of the drive at work, and the tracks if a drawing was asked for.

use crate::event::{Event, EventQueue, Kind};
use crate::id::IoId;
use crate::life::{Layer, Lives, Why};
use crate::stamps::Stamps;
use crate::time::Time;
use crate::track::{Slice, Track, Tracks};

/// What the parts of a machine share. See the module.
#[derive(Default)]
pub struct Ctx {
    /// The time of the event at hand.
    pub now: Time,
    /// The host at work: later events are its.
    pub host: u8,
    /// The drive at work: later events are its.
    drive: u8,
    /// Events to come, of the whole machine.
    pub queue: EventQueue,
    /// I/Os in flight.
    pub lives: Lives,
    /// Of the drive that is at work.
    pub stamps: Stamps,
    /// Of the other drives, by number; that of the one at work is a blank.
    others: Vec<Stamps>,
    /// What is drawn, if a drawing was asked for.
    pub tracks: Option<Box<Tracks>>,
}

impl Ctx {
    /// With nothing to come, at time zero, and without a check of versions.
    pub fn new() -> Ctx {
        Ctx::default()
    }
    /// Sets an event of the host or drive at work. `at` must not be before now.
    #[inline]
    pub fn at(&mut self, at: Time, kind: Kind, index: u32) {
        let node = if kind.is_host() { self.host } else { self.drive };
        self.queue.push(at, Event::at(node, kind, index));
    }
    /// The same of an event whose place among those of its time is as if it had been set at `then`.
    #[inline(always)]
    pub fn at_as_of(&mut self, then: Time, at: Time, kind: Kind, index: u32) {
        let node = if kind.is_host() { self.host } else { self.drive };
        self.queue.push_as_of(then, at, Event::at(node, kind, index));
    }
    /// The number of the drive at work.
    pub fn drive(&self) -> u8 {
        self.drive
    }
    /// One more drive, with its stamps: its number.
    pub fn add_drive(&mut self, stamps: Stamps) -> u8 {
        let number = self.others.len() as u8;
        match number {
            0 => {
                self.stamps = stamps;
                self.others.push(Stamps::off());
            }
            _ => self.others.push(stamps),
        }
        number
    }
    /// The stamps of a drive, which need not be the one at work.
    #[inline]
    pub fn stamps_of(&mut self, drive: u8) -> &mut Stamps {
        match drive == self.drive {
            true => &mut self.stamps,
            false => &mut self.others[usize::from(drive)],
        }
    }
    /// From here on this drive is at work.
    #[inline]
    pub fn enter_drive(&mut self, drive: u8) {
        if drive != self.drive {
            self.change_drive(drive);
        }
    }
    #[cold]
    fn change_drive(&mut self, drive: u8) {
        std::mem::swap(&mut self.stamps, &mut self.others[usize::from(self.drive)]);
        std::mem::swap(&mut self.stamps, &mut self.others[usize::from(drive)]);
        self.drive = drive;
    }
    /// Charges the time of an I/O since its last mark to a layer.
    #[inline]
    pub fn mark(&mut self, io: IoId, layer: Layer, why: Why, place: u32, until: Time) {
        self.lives.mark(io, layer, why, place, until);
    }
    /// Draws what a row was busy with, if a drawing was asked for.
    #[inline]
    pub fn slice(&mut self, track: Track, name: &'static str, begin: Time, end: Time, io: IoId) {
        if let Some(tracks) = &mut self.tracks {
            let node = if track.is_of_host() { self.host } else { self.drive };
            tracks.add(Slice { track, node, name, begin, end, io: io.0 });
        }
    }
}
