//! Commands: reads split into pieces, writes inserted in the ring (pblk-cache), flushes, trims.
//!
//! A write is complete when its last sector is in the buffer; with FUA, when that is durable. It
//! waits, first come first served, while the buffer is full or the rate limiter says no, and goes in
//! sector by sector, so that it may be longer than the buffer. A flush waits for the newest user
//! entry in the buffer to be durable. (pblk also waits for the collector's entries behind it; their
//! originals stay until they are durable, so a flush need not pad them out.)

use crate::map::{LOST, Where};
use crate::ring::{Entry, STALE, USER};
use crate::{Action, Ftl, Op, Piece, Place, Source, TIMER_USER};
use wordline_base::{Ctx, Kind, Lpn, PageData, stamps::BLANK};
use wordline_nand::Ppa;
use wordline_translation::{Command, Digest};

impl Ftl {
    fn in_range(&self, lpn: Lpn, sectors: u32) -> bool {
        u64::from(lpn.0) + u64::from(sectors) <= self.sectors
    }

    /// A read or write of this sector comes soon.
    #[inline]
    pub fn prefetch(&self, ctx: &Ctx, lpn: Lpn) {
        self.map.prefetch(lpn.0);
        ctx.stamps.prefetch(lpn);
    }

    /// Splits a read into pieces. Their stamps are compared with what the reader must see: those in
    /// the buffer or unmapped at once, those in flash by the caller, with [`Ftl::digest`].
    pub fn read(&mut self, ctx: &mut Ctx, lpn: Lpn, sectors: u32, out: &mut Vec<Piece>) {
        debug_assert!(self.in_range(lpn, sectors), "read of {lpn:?} + {sectors}");
        let unit = self.g.sectors_per_unit;
        let end = lpn.0 + sectors;
        let mut at = lpn.0;
        let mut counted = self.config.stride == 0;
        while at < end {
            let first = at;
            let place = match self.map.get(at) {
                Where::Unmapped => {
                    while at < end && self.map.get(at) == Where::Unmapped {
                        let newest = ctx.stamps.newest(Lpn(at));
                        ctx.stamps.check(Lpn(at), BLANK, newest);
                        at += 1;
                    }
                    self.counters.read_unmapped += u64::from(at - first);
                    Place::Unmapped
                }
                Where::Buffer(slot) => {
                    let lost = self.buffered(slot).stamp & LOST != 0;
                    while at < end
                        && let Where::Buffer(slot) = self.map.get(at)
                    {
                        let e = self.buffered(slot);
                        debug_assert_eq!(e.lpn, at);
                        if (e.stamp & LOST != 0) != lost {
                            break;
                        }
                        if !lost {
                            ctx.stamps.check(Lpn(at), e.stamp, ctx.stamps.newest(Lpn(at)));
                        }
                        at += 1;
                    }
                    self.counters.read_buffer += u64::from(at - first);
                    if lost { Place::Lost } else { Place::Buffer }
                }
                Where::Flash(Ppa(ppa)) => {
                    // For the digest, when the flash has been read.
                    self.map.prefetch_oob(ppa);
                    let unit_end = ppa - ppa % unit + unit;
                    let mut digest = Digest::new();
                    let mut next = ppa;
                    loop {
                        digest.add(at, ctx.stamps.newest(Lpn(at)));
                        (at, next) = (at + 1, next + 1);
                        if at == end
                            || next == unit_end
                            || self.map.get(at) != Where::Flash(Ppa(next))
                        {
                            break;
                        }
                    }
                    self.counters.read_flash += u64::from(at - first);
                    if !std::mem::replace(&mut counted, true) {
                        self.mostly.read(ctx.now);
                    }
                    if self.config.stride > 0 {
                        self.route(ctx, first, at - first, ppa, digest.get(), out);
                        continue;
                    }
                    let line = self.map.line_of(ppa);
                    self.lines[line].pins += 1;
                    self.pins += 1;
                    digest.place(ppa)
                }
            };
            out.push(Piece { lpn: Lpn(first), sectors: at - first, place });
        }
    }
    /// Digest of what flash holds in a run of sectors: logical addresses and stamps.
    pub fn digest(&self, ppa: Ppa, _lpn: Lpn, sectors: u32) -> u64 {
        let mut digest = Digest::new();
        for ppa in ppa.0..ppa.0 + sectors {
            digest.add(self.map.lpn_at(ppa), self.map.stamp_at(ppa));
        }
        digest.get()
    }
    /// Digest of what a read of its own is to bring: of the collector, the sectors that it moves.
    pub fn expects(&self, op: u32, ppa: Ppa, sectors: u32) -> u64 {
        let Op::GcRead { request, first, n } = self.ops[op] else {
            return self.digest(ppa, Lpn(0), sectors);
        };
        let mut digest = Digest::new();
        for &ppa in self.collected(request, first, n) {
            digest.add(self.map.lpn_at(ppa), self.map.stamp_at(ppa));
        }
        digest.get()
    }
    /// What a program writes: from the buffer, and parity, which was summed when the program was sent.
    pub fn data(&self, op: u32, ppa: Ppa, to: &mut PageData) {
        match self.ops[op] {
            Op::Data { pos, n, side, .. } => {
                for i in 0..n {
                    let e = self.rings[usize::from(side)].at(pos + u64::from(i));
                    if e.flags & STALE == 0 {
                        to.put(i, e.lpn, e.stamp);
                    }
                }
            }
            Op::Parity { .. } => {
                for i in 0..self.g.sectors_per_unit {
                    to.put(i, self.map.lpn_at(ppa.0 + i), self.map.stamp_at(ppa.0 + i));
                }
            }
            _ => {}
        }
    }
    /// A flash read of users failed.
    pub fn read_failed(&mut self) {
        self.counters.read_errors += 1;
    }
    /// A flash piece of a read has been read: its line may be erased again.
    pub fn read_done(&mut self, ctx: &mut Ctx, ppa: Ppa, _sectors: u32) {
        if self.config.stride > 0 {
            let waited = self.locks.read_done(self.g.lun_of(ppa));
            self.actions.extend(waited);
        }
        let line = self.map.line_of(ppa.0);
        let pins = &mut self.lines[line].pins;
        *pins -= 1;
        self.pins -= 1;
        if *pins == 0 && self.lines[line].state != crate::LineState::Open {
            self.gc.kick = true;
            if self.waits_for_pins() {
                self.work(ctx);
            }
        } else if self.pins == 0 && self.users_wait() {
            self.work(ctx);
        }
    }

    /// Whether anything may go on because a line is not being read any more: what is to be erased, a
    /// collection, users without room, and throttling, whose windows end when they are looked at.
    fn waits_for_pins(&self) -> bool {
        self.gc.look
            || !self.gc.full.is_empty()
            || !self.gc.victims.is_empty()
            || self.users_wait()
            || self.config.stride > 0
            || self.should_collect()
    }

    /// Completes by [`Action::Complete`].
    pub fn write(
        &mut self,
        ctx: &mut Ctx,
        tag: u32,
        lpn: Lpn,
        sectors: u32,
        fua: bool,
        source: Source,
    ) {
        if !self.in_range(lpn, sectors) {
            self.actions.push_back(Action::Complete { tag, ok: false });
            return;
        }
        if ctx.stamps.is_on() && self.map.stamps.is_none() {
            self.map.keep_stamps();
        }
        self.waiting.write(tag, lpn, sectors, fua, source);
        self.work(ctx);
    }
    /// Takes a flush: `tag` completes once all that is in the buffer now is on flash.
    pub fn flush(&mut self, ctx: &mut Ctx, tag: u32) {
        self.waiting.flush(tag);
        self.work(ctx);
    }
    /// Unmaps sectors. Only a write to the same sectors that still waits can delay it.
    pub fn trim(&mut self, ctx: &mut Ctx, tag: u32, lpn: Lpn, sectors: u32) {
        if !self.in_range(lpn, sectors) {
            self.actions.push_back(Action::Complete { tag, ok: false });
            return;
        }
        if self.waiting.writes(lpn, sectors) {
            self.waiting.trim(tag, lpn, sectors);
        } else {
            self.trim_now(ctx, tag, lpn.0, sectors);
        }
        self.work(ctx);
    }

    fn trim_now(&mut self, ctx: &mut Ctx, tag: u32, lpn: u32, sectors: u32) {
        for lpn in lpn..lpn + sectors {
            ctx.stamps.show_trim(tag, Lpn(lpn));
            // A buffered copy is written all the same, and found stale when its slot is reused.
            if let Where::Flash(ppa) = self.map.unmap(lpn) {
                self.invalidate(ppa.0);
            }
        }
        self.counters.trimmed_sectors += u64::from(sectors);
        self.actions.push_back(Action::Complete { tag, ok: true });
    }

    /// Serves the waiting commands, in order, as far as room and budget go.
    pub(crate) fn admit(&mut self, ctx: &mut Ctx) -> bool {
        let mut progress = false;
        while let Some(head) = self.waiting.first() {
            match head {
                Command::Write { tag, lpn, left, fua, cached } => {
                    let n =
                        left.min(self.room(0)).min(self.rate.user_room()).min(self.user_space());
                    if n < left && self.read_only {
                        self.refuse(tag);
                        progress = true;
                        continue;
                    }
                    for lpn in lpn..lpn + n {
                        let stamp = self.waiting.stamp(tag, cached, &mut ctx.stamps, lpn);
                        self.insert(0, Entry { lpn, stamp, flags: USER, ..Entry::default() });
                    }
                    if n > 0 {
                        progress = true;
                        self.counters.user_sectors += u64::from(n);
                        self.rate.user += n;
                        self.rings[0].last_user = self.rings[0].mem;
                        self.user_wrote(ctx);
                        self.repartition();
                    }
                    self.waiting.took(n);
                    if n < left {
                        return progress;
                    }
                    if fua {
                        self.wait_durable(tag);
                    } else {
                        self.actions.push_back(Action::Complete { tag, ok: true });
                    }
                }
                Command::Flush { tag } => {
                    self.waiting.pop();
                    self.counters.flushes += 1;
                    self.wait_durable(tag);
                }
                Command::Trim { tag, lpn, sectors, .. } => {
                    self.waiting.pop();
                    self.trim_now(ctx, tag, lpn, sectors);
                }
            }
            progress = true;
        }
        progress
    }
    /// No space can be made: the write fails, and what of it did not get in is lost.
    fn refuse(&mut self, tag: u32) {
        self.counters.writes_refused += 1;
        // The cache dropped the only copy: what is read from now on is not what was written.
        self.counters.lost_sectors += self.waiting.refuse();
        self.actions.push_back(Action::Complete { tag, ok: false });
    }
    fn user_wrote(&mut self, ctx: &mut Ctx) {
        self.last_insert = ctx.now;
        self.last_user_insert = ctx.now;
        if !self.rate.user_active {
            self.set_user_active(true);
        }
        if !self.user_timer {
            self.user_timer = true;
            ctx.at(ctx.now + self.config.user_idle, Kind::FtlTimer, TIMER_USER);
        }
    }
    /// Completes `tag` once the newest user entry is durable.
    fn wait_durable(&mut self, tag: u32) {
        let point = self.rings[0].last_user;
        if self.rings[0].sync >= point {
            self.actions.push_back(Action::Complete { tag, ok: true });
        } else {
            self.counters.flushes_waited += 1;
            self.flushes.push_back((point, tag));
            self.rings[0].flush_point = self.rings[0].flush_point.max(point);
        }
    }
    pub(crate) fn complete_flushes(&mut self) {
        while let Some(&(point, tag)) = self.flushes.front()
            && self.rings[0].sync >= point
        {
            self.flushes.pop_front();
            debug_assert!(self.rings[0].is_durable(point));
            self.actions.push_back(Action::Complete { tag, ok: true });
        }
    }

    /// Users wait for room, or until something is durable.
    pub(crate) fn users_wait(&self) -> bool {
        !self.waiting.is_empty() || !self.flushes.is_empty()
    }

    /// No program is left for what flushes and FUA writes wait for: they fail. Reads still find it in the buffer.
    pub(crate) fn fail_flushes(&mut self) -> bool {
        let failed = !self.flushes.is_empty();
        self.counters.writes_refused += self.flushes.len() as u64;
        for (_, tag) in self.flushes.drain(..) {
            self.actions.push_back(Action::Complete { tag, ok: false });
        }
        failed
    }

    /// Puts an entry in the ring and the mapping on it. There is room.
    #[inline]
    pub(crate) fn insert(&mut self, side: usize, entry: Entry) {
        if self.rings[side].must_switch() {
            self.switch_one(side);
        }
        let pos = self.rings[side].mem;
        *self.rings[side].at_mut(pos) = entry;
        self.rings[side].mem += 1;
        let slot = self.slot_code(side, pos);
        if let Some(old) = self.map.replace_by_buffer(entry.lpn, slot) {
            self.invalidate(old.0);
        }
    }
    /// Data in a run of sectors were lost: what flash holds there is not what was written.
    #[inline]
    pub fn has_lost(&self, ppa: Ppa, sectors: u32) -> bool {
        self.lossy && self.any_lost(ppa, sectors)
    }
    #[cold]
    #[inline(never)]
    fn any_lost(&self, ppa: Ppa, sectors: u32) -> bool {
        (ppa.0..ppa.0 + sectors).any(|p| self.is_lost(Ppa(p)))
    }
    /// Sectors mapped to flash whose data were lost.
    pub fn is_lost(&self, ppa: Ppa) -> bool {
        self.map.stamp_at(ppa.0) & LOST != 0
    }
}
