//! The collector: closed segments with the smallest share in use, at the pace of users. It empties a victim of each of several
//! groups of channels as fast as it can, and rests until users have used up what that made free.

use crate::config::Side;
use crate::space::{SegmentId, State, Unit};
use crate::{Fssd, GC, Op, USER};
use wordline_base::Ctx;
use wordline_nand::{BlockId, Class, Ppa};
use wordline_translation::{
    Action, GcFloor, GcOrder, GcReport, GcShape, Ordered, PARTS, space_owed,
};

#[derive(Clone, Default)]
pub(crate) struct Gc {
    /// Segments that are being emptied, no two of a group.
    victims: Vec<Victim>,
    /// Segments with nothing in use, until they are erased.
    drained: Vec<Drained>,
    /// Units of the collector that are not programmed.
    pub buffered: u32,
    /// Space that the collector has to make for users, in parts of sectors. Below zero it is ahead of them.
    pub debt: i64,
    /// No victim is begun unless users wait for space.
    pub held: bool,
    /// Operations take no time, as in ageing.
    pub at_once: bool,
    /// Sectors in use, and all, of the victims as they were begun; while there are none, of the last.
    pub share: (u32, u32),
    /// Orders of a collector on the host.
    orders: Option<Orders>,
}

/// What a collector on the host asked for.
#[derive(Clone, Default)]
struct Orders {
    /// The order that is not answered, and its tag.
    open: Option<(u32, GcOrder)>,
    /// Sectors of space that users took since the last answer.
    taken: u32,
    /// Sectors that it asked for and that are not moved, below zero if whole units were more.
    debt: i64,
    /// Sectors in use of those that are being read for it.
    under_way: i64,
    /// Victims that ended since the last answer.
    ended: u32,
    /// What the next answer says.
    report: Option<GcReport>,
    /// What the drive collected by itself, out of free segments.
    floor: GcFloor,
}

#[derive(Clone, Copy)]
pub(crate) struct Victim {
    pub segment: SegmentId,
    /// The next place to look at.
    pub next: u32,
    pub reads: u32,
    /// Sectors in use when it was begun, and all.
    pub used: u32,
    pub all: u32,
    /// What of the collector's debt it has paid.
    pub paid: i64,
    /// Sectors in use that were moved out of it.
    pub moved: u32,
}

#[derive(Clone, Copy)]
pub(crate) struct Drained {
    pub segment: SegmentId,
    /// What replaced its data is durable once these turns are passed.
    pub barrier: [u64; 2],
    /// Erasures under way, once they are.
    pub erasing: Option<u32>,
}

impl Gc {
    pub fn under_way(&self) -> (&[Victim], &[Drained]) {
        (&self.victims, &self.drained)
    }
    /// Units that are being read.
    pub fn reads(&self) -> u32 {
        self.victims.iter().map(|v| v.reads).sum()
    }
    pub fn take_up(&mut self, victims: Vec<Victim>, drained: Vec<Drained>) {
        (self.victims, self.drained) = (victims, drained);
    }
    fn is_victim(&self, segment: SegmentId) -> bool {
        self.victims.iter().any(|v| v.segment == segment)
    }
    /// Works out the share in use of the victims there are.
    fn reckon_share(&mut self) {
        if !self.victims.is_empty() {
            let sum = |(used, all), v: &Victim| (used + v.used, all + v.all);
            self.share = self.victims.iter().fold((0, 0), sum);
        }
    }
}

impl Fssd {
    pub(crate) fn makes_space(&self) -> bool {
        !self.gc.victims.is_empty() || !self.gc.drained.is_empty()
    }
    /// Users wait until the collector has caught up.
    pub(crate) fn gc_lags(&self) -> bool {
        if self.coming() >= self.plan.start || self.rests() {
            return false;
        }
        match &self.gc.orders {
            // The host has to say what is next, and may find nothing.
            Some(orders) => !self.gc.victims.is_empty() && orders.debt > self.slack(),
            None => self.gc.debt > 0 && self.gc.debt > self.slack_in_space(),
        }
    }
    /// Sectors that have to be moved at most, or users wait.
    fn slack(&self) -> i64 {
        i64::from(self.config.gc_units * self.g.sectors_per_unit)
    }
    /// The space that is made with these, in parts of sectors. Nothing has to be moved out of empty victims.
    fn slack_in_space(&self) -> i64 {
        let (used, all) = self.gc.share;
        if used == 0 {
            return i64::MAX;
        }
        let made = i128::from(self.slack() * PARTS.cast_signed()) * i128::from(all - used);
        (made / i128::from(used)) as i64
    }
    /// Users can open no segment, and have none that is open.
    pub(crate) fn users_are_out(&self) -> bool {
        let open = self.points[USER].segments.iter().flatten().next().is_some();
        !open && self.space.free_segments() <= self.plan.reserve
    }
    fn coming(&self) -> u32 {
        self.space.free_segments() + self.gc.drained.len() as u32
    }
    /// Users have taken the space of so many sectors. The collector owes none of it where it begins, and twice as much
    /// at the reserve. So the drive rests halfway, where it makes as much as users take, however fast either is.
    pub(crate) fn pace(&mut self, sectors: u32) {
        let enough = self.coming() >= self.plan.start;
        if let Some(orders) = &mut self.gc.orders {
            orders.taken = orders.taken.saturating_add(sectors);
            orders.debt = if enough { orders.debt.min(0) } else { orders.debt };
            return;
        }
        if enough {
            self.gc.debt = self.gc.debt.min(0);
            return;
        }
        let (start, reserve, free) = (self.plan.start, self.plan.reserve, self.parts_free());
        self.gc.debt += space_owed(sectors, free, start, reserve).cast_signed();
        if self.rests() {
            // Users do not wait for this when it is let go. Fewer free segments make it faster then.
            self.gc.debt = self.gc.debt.min(self.slack_in_space());
        }
    }
    /// Free segments with what is left of the users' open ones and what victims are emptied of, in parts. A victim
    /// counts by parts, as it takes its time in a run and none in ageing.
    fn parts_free(&self) -> u64 {
        let places = u64::from(self.space.shape.places());
        let open = self.points[USER].segments.iter().flatten();
        let left: u64 = open.map(|&s| places - u64::from(self.space.segments[s].next)).sum();
        let left = left * PARTS / (places * u64::from(self.space.groups));
        u64::from(self.coming()) * PARTS + left + self.parts_emptied()
    }
    fn parts_emptied(&self) -> u64 {
        let of = |v: &Victim| {
            let left = u64::from(self.space.segments[v.segment].valid);
            u64::from(v.used).saturating_sub(left) * PARTS / u64::from(v.used.max(1))
        };
        self.gc.victims.iter().map(of).sum()
    }

    pub(crate) fn collect(&mut self) -> bool {
        let mut progress = self.pad_for_space() | self.erase();
        while self.may_be_one_more() && self.is_due() && self.has_room_for_a_victim() {
            let Some(segment) = self.choose() else {
                progress |= self.gc.victims.is_empty() && self.owe_nothing();
                break;
            };
            if let Some(orders) = &mut self.gc.orders {
                orders.floor.victims += 1;
            }
            self.begin(segment);
            progress = true;
        }
        progress | self.read_units()
    }
    /// Fewer victims are being emptied than may be. Where that takes no time it is one: several that are begun for what
    /// the first makes would leave a drive whose collector is ahead of users by all of them.
    fn may_be_one_more(&self) -> bool {
        let most = if self.gc.at_once { 1 } else { self.plan.victims as usize };
        self.gc.victims.len() < most
    }
    /// Space is to be made, by itself.
    fn is_due(&self) -> bool {
        let is_out = self.coming() <= self.plan.reserve;
        match self.gc.orders {
            None if is_out => true,
            None => self.gc.debt > 0 && self.coming() < self.plan.start && self.may_begin(),
            Some(_) => is_out && self.gc.victims.is_empty() && self.users_are_out(),
        }
    }
    /// What is moved out of all victims finds room, with a segment for metadata and what fails, or nothing makes more.
    fn has_room_for_a_victim(&self) -> bool {
        let alone = self.gc.victims.is_empty() && self.gc.drained.is_empty();
        alone || self.space.free_segments() > 1 + self.gc.victims.len() as u32
    }
    /// It is held, and has no victim.
    fn rests(&self) -> bool {
        self.gc.victims.is_empty() && !self.may_begin()
    }
    /// Nobody holds it, or users will soon wait for what it frees.
    fn may_begin(&self) -> bool {
        !self.gc.held || self.space.free_segments() <= self.plan.reserve
    }
    /// The share in use of a segment that can be a victim: nothing of it is in the buffer, no other of its group is
    /// one, which would have the same channels, and to empty it gains a unit.
    fn in_use(&self, s: SegmentId) -> Option<u32> {
        let (segment, group) = (&self.space.segments[s], s % self.space.groups);
        let closed = segment.state == State::Closed && segment.buffered == 0;
        let alone = || self.gc.victims.iter().all(|v| v.segment % self.space.groups != group);
        if !closed || !alone() {
            return None;
        }
        let (unit, size) = (self.g.sectors_per_unit, self.space.size(s));
        let gains = segment.valid + unit <= size.max(unit);
        gains.then(|| self.share_of((segment.valid, size), 1))
    }
    /// A share in use of segments, in sectors of as many without bad blocks. Those with bad blocks are full with fewer.
    fn share_of(&self, (used, all): (u32, u32), segments: u32) -> u32 {
        let whole = u64::from(segments * self.shape_for_host().segment_sectors);
        match u64::from(all) {
            all if all == whole => used,
            all => (u64::from(used) * whole / all.max(1)).min(whole) as u32,
        }
    }
    /// The segment with the smallest share in use, the oldest of several.
    fn choose(&self) -> Option<SegmentId> {
        let mut best: Option<((u32, u64), SegmentId)> = None;
        for (s, segment) in (0..).zip(&self.space.segments) {
            // A share is never below the count itself.
            if best.is_some_and(|b| (segment.valid, segment.opened) >= b.0) {
                continue;
            }
            let Some(share) = self.in_use(s) else { continue };
            let key = (share, segment.opened);
            if best.is_none_or(|b| key < b.0) {
                best = Some((key, s));
            }
        }
        best.map(|(_, s)| s)
    }
    /// There is nothing to wait for: who waited goes on. False: nobody did.
    fn owe_nothing(&mut self) -> bool {
        let lagged = self.gc_lags();
        self.gc.debt = self.gc.debt.min(0);
        if let Some(orders) = &mut self.gc.orders {
            orders.debt = orders.debt.min(0);
        }
        lagged
    }
    fn begin(&mut self, segment: SegmentId) {
        let used = self.space.segments[segment].valid;
        self.space.segments[segment].state = State::Victim;
        self.counters.lines_freed_empty += u64::from(used == 0);
        let all = self.space.size(segment);
        let victim = Victim { segment, next: 0, reads: 0, used, all, paid: 0, moved: 0 };
        self.gc.victims.push(victim);
        self.gc.reckon_share();
    }
    /// Reads units of the victims, as far as a collector on the host asked for, or users could get no space. The one
    /// with the fewest being read is next, so that the channels of all groups have work.
    fn read_units(&mut self) -> bool {
        if self.gc.victims.is_empty() {
            return false;
        }
        let places = self.space.shape.places();
        for i in 0..self.gc.victims.len() {
            self.pass_over(i);
        }
        let mut progress = false;
        loop {
            let left = self.gc.victims.iter().enumerate().filter(|(_, v)| v.next < places);
            let Some(i) = left.min_by_key(|(_, v)| v.reads).map(|(i, _)| i) else { break };
            let ordered = self.gc.orders.as_ref().is_none_or(|o| o.debt > o.under_way);
            let owes = ordered || self.users_are_out();
            let room = self.gc.reads() + self.gc.buffered < self.config.gc_units
                && (self.config.collector == Side::Drive || self.unit_fits());
            if !owes || !room {
                break;
            }
            let victim = &mut self.gc.victims[i];
            let unit = self.space.shape.unit_at(victim.segment, victim.next);
            (victim.next, victim.reads) = (victim.next + 1, victim.reads + 1);
            self.pass_over(i);
            let valid = self.space.valid[unit];
            if let Some(orders) = &mut self.gc.orders {
                match ordered {
                    true => orders.under_way += i64::from(valid),
                    false => orders.floor.sectors += u64::from(valid),
                }
            }
            let asked = self.gc.orders.is_some() && ordered;
            let (ppa, sectors) = (self.space.first_of(unit), self.g.sectors_per_unit);
            let op = self.ops.insert(Op::Read { unit, valid, asked });
            let stays = self.config.collector == Side::Drive;
            let (class, payload) = (Class::GcRead, if stays { 0 } else { sectors });
            self.actions.push_back(Action::Read { op, ppa, sectors, class, payload });
            progress = true;
        }
        // From the last on, so that those that are left keep their numbers.
        for i in (0..self.gc.victims.len()).rev() {
            let Victim { next, reads, .. } = self.gc.victims[i];
            progress |= next == places && reads == 0 && self.end_victim(i);
        }
        progress
    }
    /// Units of a victim in which nothing is in use are not read.
    fn pass_over(&mut self, i: usize) {
        let (shape, victim) = (self.space.shape, &mut self.gc.victims[i]);
        let used = |&place: &u32| self.space.valid[shape.unit_at(victim.segment, place)] > 0;
        victim.next = (victim.next..shape.places()).find(used).unwrap_or(shape.places());
    }
    /// All units of a victim are read. False: it stays as it is.
    fn end_victim(&mut self, i: usize) -> bool {
        let segment = self.gc.victims[i].segment;
        let (shape, size) = (self.space.shape, self.g.sectors_per_unit);
        let is_there = |ppa: u32| shape.segment_of(ppa / size) == segment;
        let meta = self.space.segments[segment].meta;
        if meta > 0 && !self.rescue(is_there) {
            return false;
        }
        let victim = self.gc.victims.remove(i);
        self.gc.reckon_share();
        if let Some(orders) = &mut self.gc.orders {
            orders.ended += 1;
        }
        if self.space.segments[segment].valid > 0 {
            // There was no space to move all of it: it stays as it is.
            self.space.segments[segment].state = State::Closed;
            return false;
        }
        self.pay_the_rest(victim, meta);
        let barrier = self.barrier();
        self.gc.drained.push(Drained { segment, barrier, erasing: None });
        true
    }
    /// A unit of a victim was read, in which so many sectors were in use.
    pub(crate) fn collected(&mut self, unit: Unit, valid: u32, asked: bool, ok: bool) {
        self.counters.gc_read_sectors += u64::from(self.g.sectors_per_unit);
        self.counters.gc_read_errors += u64::from(!ok);
        let stays = self.config.collector == Side::Drive;
        let mut moved = 0;
        for e in self.valid_in(unit) {
            moved += e.sectors;
            if !ok {
                self.lose(e);
            } else if self.append(e, stays) {
                self.counters.gc_sectors += u64::from(e.sectors);
            } else {
                self.read_only = true;
            }
        }
        self.counters.gc_stale_sectors += u64::from(valid - moved);
        let segment = self.space.shape.segment_of(unit);
        let victim = self.gc.victims.iter_mut().find(|v| v.segment == segment);
        let victim = victim.expect("it is emptied until all that is read of it is here");
        victim.reads -= 1;
        victim.moved += moved;
        // The victim pays by and by what it makes free, as far as it was known when it was begun.
        let Victim { used, all, .. } = *victim;
        let gain = u64::from(all - used) * u64::from(valid) * PARTS / u64::from(used.max(1));
        victim.paid += gain.cast_signed();
        self.pay(gain.cast_signed());
        if let (Some(orders), true) = (&mut self.gc.orders, asked) {
            // Whole units are read: what is beyond an order is of the next.
            orders.under_way -= i64::from(valid);
            orders.debt -= i64::from(valid);
        }
    }
    /// The victim has paid what it made free, less what was moved. What users need at once is made where none is owed
    /// as well: the collector is never ahead by more than what it empties at a time makes free.
    fn pay_the_rest(&mut self, victim: Victim, meta: u32) {
        let moved = victim.moved + meta;
        let gain = i64::from(self.space.size(victim.segment).saturating_sub(moved));
        let gain = gain * PARTS.cast_signed();
        self.pay(gain - victim.paid);
        self.gc.debt = self.gc.debt.max(-gain * i64::from(self.plan.victims));
    }
    fn pay(&mut self, gain: i64) {
        if self.gc.orders.is_none() {
            self.gc.debt -= gain;
        }
    }

    /// What is to be erased may wait for a unit that nobody fills: users, as they wait for space, or the collector, as
    /// it rests.
    fn pad_for_space(&mut self) -> bool {
        if self.gc.drained.is_empty() || self.space.free_segments() > self.plan.reserve {
            return false;
        }
        let mut padded = false;
        for point in [USER, GC] {
            let Some(unit) = self.points[point].unit else { continue };
            let turns = &self.units[unit].turns;
            let holds = |d: &Drained| turns.iter().any(|&(point, turn)| turn < d.barrier[point]);
            let filled_yet = point == GC && !self.gc.victims.is_empty();
            padded |= !filled_yet && self.gc.drained.iter().any(holds) && self.pad(point);
        }
        padded
    }
    /// Erases what is no more in use, once what replaced it is durable and nobody reads it.
    fn erase(&mut self) -> bool {
        let mut begun = false;
        for i in (0..self.gc.drained.len()).rev() {
            let d = self.gc.drained[i];
            let segment = &self.space.segments[d.segment];
            debug_assert_eq!(segment.valid, 0);
            if d.erasing.is_some() || segment.reads > 0 || !self.is_passed(d.barrier) {
                continue;
            }
            begun = true;
            let mut erasing = 0;
            for block in self.space.shape.blocks(d.segment) {
                if self.space.is_bad(block) || self.space.programmed[block] == 0 {
                    continue;
                }
                erasing += 1;
                let op = self.ops.insert(Op::Erase { segment: d.segment, block });
                let ppa = self.first_of_block(block);
                self.actions.push_back(Action::Erase { op, ppa });
            }
            self.gc.drained[i].erasing = Some(erasing);
            if erasing == 0 {
                self.freed(d.segment);
            }
        }
        begun
    }
    fn first_of_block(&self, block: BlockId) -> Ppa {
        let (line, lun) = (block / self.g.luns, block % self.g.luns);
        self.space.first_of(self.g.unit_at(line, 0, lun).0)
    }
    pub(crate) fn erased(&mut self, segment: SegmentId, block: BlockId, ok: bool) {
        self.space.erases[block] += 1;
        self.space.programmed[block] = 0;
        self.counters.erases += 1;
        if !ok {
            self.counters.erase_errors += 1;
            self.counters.blocks_retired += u64::from(self.space.bad.set(block as usize));
        }
        let mut of = self.gc.drained.iter_mut().filter(|d| d.segment == segment);
        let left = of.next().and_then(|d| d.erasing.as_mut()).expect("it is being erased");
        *left -= 1;
        if *left == 0 {
            self.freed(segment);
        }
    }
    fn freed(&mut self, segment: SegmentId) {
        self.gc.drained.retain(|d| d.segment != segment);
        self.space.release(segment);
        match self.space.segments[segment].state {
            State::Retired => self.counters.lines_retired += 1,
            _ => self.counters.lines_freed += 1,
        }
    }
}

impl Fssd {
    pub(crate) fn shape_for_host(&self) -> GcShape {
        GcShape {
            segments: self.space.segments.count(),
            segment_sectors: self.space.shape.places() * self.g.sectors_per_unit,
            start: self.plan.start,
            reserve: self.plan.reserve,
            victims: self.plan.victims,
        }
    }
    pub(crate) fn floor(&self) -> GcFloor {
        self.gc.orders.as_ref().map_or_else(GcFloor::default, |orders| orders.floor)
    }
    /// Ends the order that is open, if it is time.
    pub(crate) fn answer(&mut self) {
        let Some(Orders { open: Some((tag, order)), taken, ended, .. }) = self.gc.orders else {
            return;
        };
        let step = self.config.report_units * self.g.sectors_per_unit;
        let due = match order {
            // A collector that is held does without more victims, and not without orders for those that it has.
            GcOrder::Counts { waits } => {
                let few = self.coming() < self.plan.start;
                few && (!waits || taken >= step) && !self.rests()
            }
            // It has ended, or could not be a victim any more.
            GcOrder::Collect { segment, .. } => {
                taken >= step || ended > 0 || !self.gc.is_victim(segment)
            }
        };
        if !due {
            return;
        }
        let counts = match order {
            GcOrder::Collect { .. } => Vec::new(),
            GcOrder::Counts { .. } => {
                let all = self.space.segments.count();
                match self.can_begin_one_more() {
                    true => (0..all).map(|s| self.in_use(s)).collect(),
                    false => vec![None; all as usize],
                }
            }
        };
        let victims = self.gc.victims.len() as u32;
        let victim = self.gc.victims.first().map(|v| v.segment);
        let used = if victims > 0 { self.share_of(self.gc.share, victims) } else { 0 };
        let free = self.parts_free() as u32;
        // With the counts the host sees for itself.
        let more = counts.is_empty() && self.can_begin_one_more() && self.choose().is_some();
        if let Some(orders) = &mut self.gc.orders {
            let report = GcReport { free, taken, victim, victims, used, ended, more, counts };
            orders.report = Some(report);
            (orders.open, orders.taken, orders.ended) = (None, 0, 0);
        }
        self.actions.push_back(Action::Complete { tag, ok: true });
    }
    /// Nobody holds it, and an order may begin a victim.
    fn can_begin_one_more(&self) -> bool {
        self.may_begin() && self.takes_one_more()
    }
    /// An order may begin a victim. The first it always may: nothing else makes space.
    fn takes_one_more(&self) -> bool {
        self.gc.victims.is_empty() || self.may_be_one_more() && self.has_room_for_a_victim()
    }
}

impl Ordered for Fssd {
    fn obey(&mut self) {
        self.gc.orders.get_or_insert_default();
    }
    fn order(&mut self, ctx: &mut Ctx, tag: u32, order: GcOrder) -> bool {
        let Some(orders) = &mut self.gc.orders else { return false };
        let there = |segment| segment < self.space.segments.count();
        let bad = matches!(order, GcOrder::Collect { segment, .. } if !there(segment));
        if bad || orders.open.is_some() {
            return false;
        }
        orders.open = Some((tag, order));
        if let GcOrder::Collect { segment, sectors } = order {
            let can = self.in_use(segment).is_some();
            if can && self.takes_one_more() {
                self.begin(segment);
            }
            if let (false, Some(orders)) = (self.gc.victims.is_empty(), &mut self.gc.orders) {
                orders.debt += i64::from(sectors);
            }
        }
        self.work(&mut ctx.stamps);
        true
    }
    fn take_report(&mut self) -> Option<GcReport> {
        self.gc.orders.as_mut()?.report.take()
    }
}
