//! What a component is handed with every input: the time, the queue for its own later events, the
//! lives of the I/Os, and the tracks if a drawing was asked for.

use crate::event::{Event, EventQueue, Kind};
use crate::id::IoId;
use crate::life::{Layer, Lives, Why};
use crate::stamps::Stamps;
use crate::time::Time;
use crate::track::{Slice, Track, Tracks};

#[derive(Default)]
pub struct Ctx {
    pub now: Time,
    pub queue: EventQueue,
    pub lives: Lives,
    pub stamps: Stamps,
    pub tracks: Option<Box<Tracks>>,
}

impl Ctx {
    pub fn new() -> Ctx {
        Ctx::default()
    }
    #[inline]
    pub fn at(&mut self, at: Time, kind: Kind, index: u32) {
        self.queue.push(at, Event::new(kind, index));
    }
    #[inline]
    pub fn mark(&mut self, io: IoId, layer: Layer, why: Why, place: u32, until: Time) {
        self.lives.mark(io, layer, why, place, until);
    }
    #[inline]
    pub fn slice(&mut self, track: Track, name: &'static str, begin: Time, end: Time, io: IoId) {
        if let Some(tracks) = &mut self.tracks {
            tracks.add(Slice { track, name, begin, end, io: io.0 });
        }
    }
}
