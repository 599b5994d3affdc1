//! Planes that read on their own (`nand.independent_plane_reads`; makers call it independent or asynchronous
//! plane reads).
//!
//! A read has the planes that hold its sectors, each with a page register, and with a cache register if the LUN
//! has those. Another read begins as soon as its planes are free. Programs and erases work on all planes
//! together: they begin when no plane has data of a read, and reads that came later wait for them.
//!
//! Operations stay in order of arrival, but for reads: one whose planes are free begins before one that waits
//! for its planes, if they have none in common. What may be suspended is suspended for the first of the queue, and
//! goes on when no read is left that may go ahead.
//!
//! A plane integrates what held it: its own operation, and where it has none, while others of its LUN have, the one
//! that holds these. So a read that waits behind a waiting program knows what that one waited for, and every
//! wait is accounted to the nanosecond.
//!
//! An event of a read carries its key, and whether it is the channel's.

use crate::class::HOLDERS;
use crate::config::NandConfig;
use crate::geometry::{Geometry, LunId};
use crate::machine::{Lun, Nand, Op, OpKind, PerClass, Stage};
use std::ops::Range;
use wordline_base::track::Track;
use wordline_base::{Ctx, IdVec, Kind, Time};

/// One plane of one LUN.
#[derive(Clone, Default, Debug)]
struct Plane {
    /// The read that has the array, or the page register.
    current: Option<u32>,
    /// The read whose data are in the cache register.
    leaving: Option<u32>,
    /// The class that it is held as, for the current read or else the leaving one.
    holder: usize,
    /// Time held so far by each holder.
    held: [u64; HOLDERS],
    /// Time without an operation of its own while other planes of the LUN were held, by their holder.
    beside: [u64; HOLDERS],
}

impl Plane {
    fn is_held(&self) -> bool {
        self.current.is_some() || self.leaving.is_some()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Planes {
    /// Of each LUN.
    count: u32,
    /// Bytes of a unit on one plane.
    row: u64,
    /// By LUN and plane.
    all: IdVec<u32, Plane>,
}

impl Planes {
    /// None if a LUN reads with all planes at a time.
    pub fn new(config: &NandConfig, luns: u32) -> Option<Planes> {
        config.independent_plane_reads.then(|| Planes {
            count: config.planes,
            row: u64::from(config.page_bytes) * u64::from(config.gang),
            all: IdVec::filled(Plane::default(), luns * config.planes),
        })
    }

    /// All planes of a LUN, a bit each.
    fn every(&self) -> u64 {
        u64::MAX >> (64 - self.count)
    }
    /// All planes of a LUN.
    fn of_lun(&self, lun: LunId) -> Range<u32> {
        lun * self.count..(lun + 1) * self.count
    }
    /// The planes of a LUN that have sectors of a read.
    pub fn of(&self, g: &Geometry, lun: LunId, op: &Op) -> Range<u32> {
        let first = op.ppa.0 % g.sectors_per_unit;
        let begin = g.sector.bytes_of(first) / self.row;
        let end = g.sector.bytes_of(first + op.sectors).div_ceil(self.row);
        lun * self.count + begin as u32..lun * self.count + end as u32
    }
    /// The row of a plane in a drawing.
    pub fn track(&self, plane: u32) -> Track {
        Track::Plane(plane / self.count, plane % self.count)
    }
    /// Of the planes of a LUN, those at which no read may begin.
    fn taken(&self, lun: LunId) -> u64 {
        let planes = self.all.slice(self.of_lun(lun)).iter().enumerate();
        planes.fold(0, |taken, (i, plane)| taken | u64::from(plane.current.is_some()) << i)
    }
    /// A range of planes of a LUN, a bit each.
    fn bits(&self, lun: LunId, of: &Range<u32>) -> u64 {
        u64::MAX >> (64 - of.len()) << (of.start - lun * self.count)
    }
    /// No plane of the LUN has a read, or data of one.
    fn is_free(&self, lun: LunId) -> bool {
        !self.all.slice(self.of_lun(lun)).iter().any(Plane::is_held)
    }
    /// The cache registers of a read's planes are free.
    pub fn can_leave(&self, g: &Geometry, lun: LunId, op: &Op) -> bool {
        let of = self.of(g, lun, op);
        self.all.slice(of).iter().all(|plane| plane.leaving.is_none())
    }

    /// A read has its planes.
    pub fn take(&mut self, g: &Geometry, lun: LunId, op: &Op, key: u32) {
        for plane in self.of(g, lun, op) {
            let plane = &mut self.all[plane];
            plane.current = Some(key);
            plane.holder = op.class as usize;
        }
    }
    /// A read's data are in the cache registers of its planes.
    pub fn leave(&mut self, g: &Geometry, lun: LunId, op: &Op, key: u32) {
        for plane in self.of(g, lun, op) {
            let plane = &mut self.all[plane];
            (plane.current, plane.leaving) = (None, Some(key));
        }
    }

    /// What holds a LUN: an operation on all planes, or else the first plane that is held.
    fn holder(&self, l: &Lun, lun: LunId) -> Option<usize> {
        match l.current {
            Some(_) => Some(l.holder),
            None => self.all.slice(self.of_lun(lun)).iter().find(|p| p.is_held()).map(|p| p.holder),
        }
    }
    /// Counts the time held until `now`. What has all planes is busy with this class.
    pub fn settle(
        &mut self,
        l: &mut Lun,
        lun: LunId,
        now: Time,
        (class, busy_ns): (usize, &mut PerClass),
    ) {
        let time = now.since(l.since).0;
        l.since = now;
        let Some(holder) = self.holder(l, lun) else { return };
        l.held[holder] += time;
        for plane in self.of_lun(lun) {
            let plane = &mut self.all[plane];
            if l.current.is_some() {
                plane.held[holder] += time;
                busy_ns[class] += time;
            } else if plane.is_held() {
                plane.held[plane.holder] += time;
                busy_ns[plane.holder] += time;
            } else {
                plane.beside[holder] += time;
            }
        }
    }

    /// Time until `now` in which a LUN was held, as an operation there looks at it: a read at its first plane.
    pub fn held_for(
        &self,
        g: &Geometry,
        l: &Lun,
        lun: LunId,
        op: &Op,
        now: Time,
    ) -> [u64; HOLDERS] {
        let since = now.since(l.since).0;
        let holder = self.holder(l, lun);
        if op.kind != OpKind::Read {
            let mut held = l.held;
            holder.into_iter().for_each(|holder| held[holder] += since);
            return held;
        }
        let plane = &self.all[self.of(g, lun, op).start];
        let mut held: [u64; HOLDERS] = std::array::from_fn(|i| plane.held[i] + plane.beside[i]);
        let own = if plane.is_held() { Some(plane.holder) } else { holder };
        own.into_iter().for_each(|holder| held[holder] += since);
        held
    }
    /// Time until `now` in which planes of a LUN were held, over its planes.
    pub fn held(&self, l: &Lun, lun: LunId, now: Time) -> [u64; HOLDERS] {
        let since = now.since(l.since).0;
        let mut sum = [0; HOLDERS];
        for plane in self.all.slice(self.of_lun(lun)) {
            for (sum, held) in sum.iter_mut().zip(plane.held) {
                *sum += held;
            }
            if l.current.is_some() {
                sum[l.holder] += since;
            } else if plane.is_held() {
                sum[plane.holder] += since;
            }
        }
        sum.map(|ns| ns / u64::from(self.count))
    }
}

impl Nand {
    fn planes(&self) -> &Planes {
        self.planes.as_ref().expect("only where planes read on their own")
    }
    fn planes_mut(&mut self) -> &mut Planes {
        self.planes.as_mut().expect("only where planes read on their own")
    }
    /// The planes of a read.
    fn planes_of(&self, lun: LunId, key: u32) -> Range<u32> {
        self.planes().of(&self.geometry, lun, &self.states[key].record.op)
    }
    /// What an operation waited for that begins now.
    #[inline(never)]
    pub(super) fn waited_for_planes(&mut self, lun: LunId, key: u32, now: Time) {
        let record = &self.states[key].record;
        let held = self.planes().held_for(&self.geometry, &self.luns[lun], lun, &record.op, now);
        for (waited, now) in self.states[key].record.waited.iter_mut().zip(held) {
            *waited = now - *waited;
        }
    }

    /// What waits at the LUN starts, as far as it can.
    pub(super) fn go_on(&mut self, ctx: &mut Ctx, lun: LunId) {
        let suspended = self.preemption.as_ref().and_then(|p| p.suspended(lun));
        // Planes that have a read, or that reads before this one in the queue wait for.
        let (mut taken, every) = (self.planes().taken(lun), self.planes().every());
        let mut place = 0;
        while self.luns[lun].current.is_none() {
            let Some(&key) = self.luns[lun].queue.get(place) else { break };
            if self.states[key].record.op.kind != OpKind::Read {
                if place == 0 && suspended.is_none() && self.planes().is_free(lun) {
                    self.luns[lun].queue.pop_front();
                    self.start(ctx, lun, key);
                }
                break;
            }
            if suspended.is_some_and(|suspended| !self.may_pass(key, suspended)) {
                break;
            }
            if taken == every {
                break;
            }
            let of = self.planes().bits(lun, &self.planes_of(lun, key));
            let meets = taken & of != 0;
            taken |= of;
            if meets {
                place += 1;
                continue;
            }
            self.luns[lun].queue.remove(place);
            if let Some(suspended) = suspended {
                self.preempt_mut().let_ahead(suspended);
            }
            self.start(ctx, lun, key);
        }
        if let Some(key) = suspended
            && self.luns[lun].current.is_none()
            && self.planes().is_free(lun)
        {
            self.resume(ctx, lun, key);
        }
        if self.preemption.is_some() {
            self.consider(ctx, lun);
        }
    }

    /// A read's data have left its planes.
    pub(super) fn release_planes(&mut self, ctx: &mut Ctx, lun: LunId, key: u32) {
        let of = self.planes_of(lun, key);
        if self.planes().all[of.start].leaving != Some(key) {
            self.draw(ctx, lun, key);
            of.for_each(|plane| self.planes_mut().all[plane].current = None);
            return self.go_on(ctx, lun);
        }
        of.clone().for_each(|plane| self.planes_mut().all[plane].leaving = None);
        // Those that have waited for the registers.
        for plane in of {
            if let Some(next) = self.planes().all[plane].current
                && self.states[next].stage == Stage::Ready
                && self.can_leave(lun, next)
            {
                self.leave_array(ctx, lun, next);
            }
        }
        self.go_on(ctx, lun);
    }

    /// A stage of a read ended.
    #[inline(never)]
    pub(super) fn on_plane(&mut self, ctx: &mut Ctx, index: u32) -> Option<u32> {
        let (key, of_channel) = (index >> 1, index & 1 > 0);
        let record = &self.states[key].record;
        let (lun, channel) = (record.lun, record.channel);
        if of_channel && self.arbitrated {
            return self.on_bus(ctx, channel, lun);
        }
        self.advance_one(ctx, lun, key)
    }

    /// The kind and index of an event at the end of a stage of an operation.
    #[inline(always)]
    pub(super) fn stage_event(&self, lun: LunId, key: u32, kind: Kind) -> (Kind, u32) {
        if self.planes.is_some() && self.states[key].record.op.kind == OpKind::Read {
            return (Kind::NandPlane, key << 1 | u32::from(kind == Kind::NandBus));
        }
        (kind, self.preemption.as_ref().map_or(lun, |p| p.tag(lun)))
    }
}
