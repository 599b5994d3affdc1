//! Reads: what the cache has, what others read into it, the look-up in the map, and flash.
//!
//! Each run of sectors in one write unit is one flash read. The command goes on when its last part is there.

use crate::cache::{Fill, Wait, bits};
use crate::controller::background::Job;
use crate::controller::execute::{LOOK_UP, LookUp, OWNER_READ};
use crate::controller::{Command, Controller, NONE, Stage};
use crate::firmware::Grant;
use wordline_base::{Ctx, IoId, Kind, Layer, Lpn, Span, Why};
use wordline_ftl::{FlashRead, MapWork, Piece, Place, ReadEnd, Translation, read_ended};
use wordline_nand::{Op, OpKind, Outcome, Record};
use wordline_nvme::Status;

/// A flash read for a command, or ahead of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    /// `NONE`: read-ahead.
    cmd: u32,
    /// What waits for it in the cache.
    fill: Fill,
    read: FlashRead,
}

/// What a core works on until its event.
#[derive(Clone, Copy)]
pub(crate) enum OnCore {
    /// The sum of a rebuild, and the flash read that was the last it waited for.
    Sum(u32),
    /// A command's look-up in a map that is a tree, and a flash read that follows from it.
    LookUp {
        cmd: u32,
    },
    Found(Op),
}

#[derive(Clone, Copy)]
pub(crate) struct Sum {
    flight: Flight,
    grant: Grant,
    record: Record,
}

impl Controller {
    pub(super) fn read(&mut self, ctx: &mut Ctx, cmd: u32) {
        if self.commands[cmd].sqe.bytes > self.turn_bytes {
            self.begin_stream(ctx, cmd);
        }
        let command = &mut self.commands[cmd];
        let (lpn, sectors) = (command.lpn, command.sectors);
        let Some(cache) = &self.cache else {
            command.stage = Stage::Flash;
            command.pending = 1;
            self.read_flash(ctx, cmd, lpn, sectors, Fill::Nothing);
            return self.part_done(ctx, cmd, None);
        };
        let Command { partition, own, .. } = *command;
        let (from, n) = own.ahead();
        let cost = self.cost.read_command + self.cost.read_sector * u64::from(sectors);
        if cost > Span::ZERO && !cache.holds_or_fills(lpn, sectors) {
            cache.prefetch_room(lpn, partition);
            let io = command.sqe.io;
            let grant = self.firmware.work(ctx, cost, io);
            self.counts.waits.firmware += grant.start.since(ctx.now).0;
            ctx.mark(io, Layer::Ftl, Why::FirmwareBusy, grant.core, grant.start);
            ctx.mark(io, Layer::Ftl, Why::Work, grant.core, grant.end);
            command.stage = Stage::Translate;
            ctx.at(grant.end, Kind::Firmware, cmd);
        } else {
            // The FTL hears of no read that the cache answers.
            if let Some(ftl) = &mut self.ftl {
                ftl.user_came(ctx);
            }
            self.look_up_all(ctx, cmd);
        }
        if n > 0 {
            self.fetch_ahead(ctx, from, n, partition);
        }
    }

    pub(super) fn look_up_all(&mut self, ctx: &mut Ctx, cmd: u32) {
        let command = &mut self.commands[cmd];
        command.stage = Stage::Flash;
        command.pending = 1;
        let (lpn, sectors) = (command.lpn, command.sectors);
        self.look_up(ctx, cmd, lpn, sectors, true);
        self.part_done(ctx, cmd, None);
    }

    /// Looks a read's sectors up in the cache and asks for the others. Each flash read and each line
    /// waited for is one part more that is pending.
    #[inline(always)]
    pub(super) fn look_up(
        &mut self,
        ctx: &mut Ctx,
        cmd: u32,
        lpn: u32,
        sectors: u32,
        first_time: bool,
    ) {
        let cache = self.cache.as_mut().expect("only a cache is looked up");
        let allocate = self.config.cache.as_ref().is_some_and(|c| c.read_allocate);
        let Command { sqe, partition, .. } = self.commands[cmd];
        let class = sqe.class;
        self.read_by_class.see(class, || cache.read_counts());
        self.misses.clear();
        // Most reads are one run.
        let mut last = NO_MISS;
        for (number, first, n) in cache.spans(lpn, sectors) {
            let mask = bits(first, n);
            let base = number * cache.line_sectors;
            let Some(id) = cache.find(number) else {
                let id = match allocate {
                    true => cache.allocate(number, partition).ok(),
                    false => None,
                };
                if let Some(id) = id {
                    cache.begin_fill(&ctx.stamps, id, mask, Some(class));
                }
                let fill = id.map_or(Fill::Nothing, Fill::Line);
                add_miss(&mut self.misses, &mut last, base + first, n, fill);
                cache.stats_of(partition).read_misses += u64::from(n);
                if let Some(partitions) = &mut cache.partitions {
                    partitions.miss(partition, number);
                }
                continue;
            };
            cache.touch(id);
            let line = cache.line_mut(id);
            let (hit, join) = (line.valid & mask, line.filling & mask);
            let (useful, by) = (line.ahead & mask, line.partition);
            line.ahead &= !mask;
            let miss = mask & !hit & !join;
            if first_time {
                let s = cache.stats_of(partition);
                s.read_hits += u64::from(hit.count_ones());
                s.read_joins += u64::from(join.count_ones());
                cache.stats_of(by).ahead_useful += u64::from(useful.count_ones());
            }
            cache.stats_of(partition).read_misses += u64::from(miss.count_ones());
            if hit != 0 && ctx.stamps.is_on() {
                for sector in (first..first + n).filter(|&s| hit >> s & 1 == 1) {
                    let got = cache.stamps(id, sector, 1)[0];
                    let expected = ctx.stamps.newest(Lpn(base + sector));
                    ctx.stamps.check(Lpn(base + sector), got, expected);
                }
            }
            if join != 0 {
                let command = &mut self.commands[cmd];
                command.pending += 1;
                if first_time {
                    let ahead = useful & join != 0;
                    command.waited_for = if ahead { Why::ReadAhead } else { Why::Overlap };
                }
                cache.wait(id, cmd, Wait::Change);
            }
            for (run, length) in crate::cache::runs(miss) {
                if allocate {
                    cache.begin_fill(&ctx.stamps, id, bits(run, length), Some(class));
                }
                let fill = if allocate { Fill::Line(id) } else { Fill::Nothing };
                add_miss(&mut self.misses, &mut last, base + run, length, fill);
            }
        }
        for i in 0..self.misses.len() {
            let (lpn, sectors, fill) = self.misses[i];
            self.read_flash(ctx, cmd, lpn, sectors, fill);
        }
        let (lpn, sectors, fill) = last;
        if sectors > 0 {
            self.read_flash(ctx, cmd, lpn, sectors, fill);
        }
    }

    /// Reads sectors through the FTL for a command.
    #[inline(always)]
    pub(super) fn read_flash(
        &mut self,
        ctx: &mut Ctx,
        cmd: u32,
        lpn: u32,
        sectors: u32,
        fill: Fill,
    ) {
        if self.looks_up
            && self.looks_for(ctx, lpn, sectors, LookUp::Read { cmd, lpn, sectors, fill })
        {
            self.commands[cmd].pending += 1;
            return;
        }
        self.read_found(ctx, cmd, lpn, sectors, fill);
    }

    /// Asks the FTL where sectors are. True: it looks, and says when it knows.
    #[inline(never)]
    pub(super) fn looks_for(&mut self, ctx: &mut Ctx, lpn: u32, sectors: u32, who: LookUp) -> bool {
        let key = self.look_ups.insert(who);
        let ftl = self.ftl.as_mut().expect("logical addresses need an FTL");
        let known = ftl.look_up(ctx, LOOK_UP | key, Lpn(lpn), sectors);
        if known {
            self.look_ups.remove(key);
        } else if let LookUp::Read { fill, .. } = who {
            // Its lines are to stay, whatever becomes of the sectors meanwhile.
            self.count_fill(fill, lpn, sectors);
        }
        !known
    }

    /// The FTL knows where the sectors are.
    #[inline(never)]
    pub(super) fn looked_up(&mut self, ctx: &mut Ctx, key: u32) {
        let look_up = self.look_ups.remove(key);
        if let LookUp::Read { lpn, sectors, fill, .. } = look_up
            && fill != Fill::Nothing
        {
            let cache = self.cache.as_mut().expect("a fill belongs to a cache");
            for (number, ..) in cache.spans(lpn, sectors) {
                let id = cache.filling(fill, number);
                cache.line_mut(id).fills -= 1;
            }
        }
        match look_up {
            LookUp::Read { cmd: NONE, lpn, sectors, fill } => {
                for (lpn, sectors) in self.not_in_cache(lpn, sectors) {
                    self.read_ahead_found(ctx, lpn, sectors, fill);
                }
            }
            LookUp::Read { cmd, lpn, sectors, fill } => {
                let before = self.commands[cmd].pending;
                for (lpn, sectors) in self.not_in_cache(lpn, sectors) {
                    self.read_found(ctx, cmd, lpn, sectors, fill);
                }
                if self.commands[cmd].stage == Stage::Merge {
                    self.count_rest(cmd, before);
                }
                // The wait counts if nothing else is pending, or if it leads to further parts.
                let Command { sqe, pending, .. } = self.commands[cmd];
                if pending == 1 || pending > before {
                    ctx.mark(sqe.io, Layer::Ftl, Why::MapRead, 0, ctx.now);
                }
                self.part_done(ctx, cmd, None);
            }
            LookUp::Write { cmd } => {
                ctx.mark(self.commands[cmd].sqe.io, Layer::Ftl, Why::MapRead, 0, ctx.now);
                self.write_found(ctx, cmd);
            }
            LookUp::WriteBack { key } => self.hand_over(ctx, key),
        }
        if let LookUp::Read { lpn, sectors, fill, .. } = look_up
            && fill != Fill::Nothing
            && let Some(cache) = &mut self.cache
        {
            // Where all sectors were written meanwhile no read of flash ends.
            for (number, ..) in cache.spans(lpn, sectors) {
                let id = cache.filling(fill, number);
                if !cache.line(id).is_busy() {
                    cache.wake(id, 0, &mut self.woken);
                }
            }
        }
    }

    /// Of sectors that were looked up, the runs that were not written into the cache meanwhile: newer ones are there.
    fn not_in_cache(&self, lpn: u32, sectors: u32) -> Vec<(u32, u32)> {
        let Some(cache) = &self.cache else { return vec![(lpn, sectors)] };
        let mut all: Vec<(u32, u32)> = Vec::new();
        for (number, first, n) in cache.spans(lpn, sectors) {
            let valid = cache.find(number).map_or(0, |id| cache.line(id).valid);
            for (run, length) in crate::cache::runs(bits(first, n) & !valid) {
                let at = number * cache.line_sectors + run;
                match all.last_mut() {
                    Some((from, n)) if *from + *n == at => *n += length,
                    _ => all.push((at, length)),
                }
            }
        }
        all
    }

    /// The same where the FTL knows where they are.
    #[inline(always)]
    pub(super) fn read_found(
        &mut self,
        ctx: &mut Ctx,
        cmd: u32,
        lpn: u32,
        sectors: u32,
        fill: Fill,
    ) {
        self.pieces.clear();
        let ftl = self.ftl.as_mut().expect("logical addresses need an FTL");
        ftl.read(ctx, Lpn(lpn), sectors, &mut self.pieces);
        let work = self.map_time();
        // One piece is the usual number.
        if work == Span::ZERO
            && let [piece] = self.pieces[..]
        {
            if let Some(op) = self.piece_found(cmd, fill, &piece) {
                self.submit_read(ctx, op);
            }
            return;
        }
        self.pieces_found(ctx, cmd, fill, work);
    }
    /// What a command reads of flash for a piece, if it is there.
    #[inline(always)]
    fn piece_found(&mut self, cmd: u32, fill: Fill, piece: &Piece) -> Option<Op> {
        let (lpn, sectors) = (piece.lpn.0, piece.sectors);
        let Some(read) = FlashRead::of(piece) else {
            let ok = piece.place != Place::Lost;
            if !ok {
                self.commands[cmd].status = Status::UnrecoveredRead;
            }
            self.filled(fill, lpn, sectors, ok, 0);
            return None;
        };
        if is_asked(piece) {
            self.count_fill(fill, lpn, sectors);
        }
        let (kind, class, ppa) = (OpKind::Read, piece.place.class(), read.ppa);
        let owner = OWNER_READ | self.flights.insert(Flight { cmd, fill, read });
        let command = &mut self.commands[cmd];
        command.pending += 1;
        Some(Op { kind, class, ppa, sectors, slc: false, owner, io: command.sqe.io })
    }
    /// Several pieces, or core time for the map before they are read.
    #[inline(never)]
    fn pieces_found(&mut self, ctx: &mut Ctx, cmd: u32, fill: Fill, work: Span) {
        let mut after = Vec::new();
        for i in 0..self.pieces.len() {
            let piece = self.pieces[i];
            match self.piece_found(cmd, fill, &piece) {
                Some(op) if work == Span::ZERO => self.submit_read(ctx, op),
                Some(op) => after.push(op),
                None => {}
            }
        }
        if work > Span::ZERO {
            let io = self.commands[cmd].sqe.io;
            let grant = self.firmware.work(ctx, work, io);
            self.counts.waits.firmware += grant.start.since(ctx.now).0;
            ctx.mark(io, Layer::Ftl, Why::FirmwareBusy, grant.core, grant.start);
            ctx.mark(io, Layer::Ftl, Why::Work, grant.core, grant.end);
            self.commands[cmd].pending += 1;
            let found = after.into_iter().map(OnCore::Found);
            for part in found.chain([OnCore::LookUp { cmd }]) {
                ctx.at(grant.end, Kind::Summed, self.on_core.insert(part));
            }
        }
    }

    /// Core time of what a map that is a tree did since this was asked last, its lock among it: cores
    /// do not wait for each other.
    pub(super) fn map_time(&mut self) -> Span {
        let (Some(map), Some(ftl)) = (&self.cost.map, &mut self.ftl) else { return Span::ZERO };
        match ftl.take_map_work() {
            work if work == MapWork::default() => Span::ZERO,
            work => map.of(work) + map.lock,
        }
    }

    /// Brings sectors into the cache before they are asked for. Class `UserRead`: to those who wait
    /// behind it, it is a read on behalf of the host.
    fn fetch_ahead(&mut self, ctx: &mut Ctx, lpn: u32, sectors: u32, partition: u8) {
        let cache = self.cache.as_mut().expect("read-ahead goes into a cache");
        self.misses.clear();
        let mut last = NO_MISS;
        for (number, first, n) in cache.spans(lpn, sectors) {
            let mask = bits(first, n);
            // A set without a clean idle line is left alone.
            let found = cache.find(number);
            let Some(id) = found.or_else(|| cache.allocate(number, partition).ok()) else {
                continue;
            };
            let line = cache.line(id);
            let by = line.partition;
            for (run, length) in crate::cache::runs(mask & !line.valid & !line.filling) {
                cache.begin_fill(&ctx.stamps, id, bits(run, length), None);
                cache.stats_of(by).ahead += u64::from(length);
                let first = number * cache.line_sectors + run;
                add_miss(&mut self.misses, &mut last, first, length, Fill::Line(id));
            }
        }
        if last.1 > 0 {
            self.misses.push(last);
        }
        for i in 0..self.misses.len() {
            let (lpn, sectors, fill) = self.misses[i];
            let look_up = LookUp::Read { cmd: NONE, lpn, sectors, fill };
            if !self.looks_up || !self.looks_for(ctx, lpn, sectors, look_up) {
                self.read_ahead_found(ctx, lpn, sectors, fill);
            }
        }
    }

    /// Reads sectors ahead that the FTL knows the places of.
    fn read_ahead_found(&mut self, ctx: &mut Ctx, lpn: u32, sectors: u32, fill: Fill) {
        {
            let mut pieces = std::mem::take(&mut self.pieces);
            pieces.clear();
            let ftl = self.ftl.as_mut().expect("a cache stands before an FTL");
            ftl.read(ctx, Lpn(lpn), sectors, &mut pieces);
            let mut cost = self.cost.read_command + self.cost.read_sector * u64::from(sectors);
            cost += self.map_time();
            for piece in &pieces {
                let (lpn, sectors) = (piece.lpn.0, piece.sectors);
                let Some(read) = FlashRead::of(piece) else {
                    self.filled(fill, lpn, sectors, piece.place != Place::Lost, 0);
                    continue;
                };
                if is_asked(piece) {
                    self.count_fill(fill, lpn, sectors);
                }
                let ppa = read.ppa;
                let flight = Flight { cmd: NONE, fill, read };
                let owner = OWNER_READ | self.flights.insert(flight);
                let (kind, class, io) = (OpKind::Read, piece.place.class(), IoId::NONE);
                let op = Op { kind, class, ppa, sectors, slc: false, owner, io };
                self.enqueue_job(ctx, std::mem::take(&mut cost), Job::ReadAhead(op));
            }
            self.pieces = pieces;
        }
    }

    /// A flash read is under way for these sectors' lines.
    #[inline(always)]
    fn count_fill(&mut self, fill: Fill, lpn: u32, sectors: u32) {
        if fill == Fill::Nothing {
            return;
        }
        let cache = self.cache.as_mut().expect("a fill belongs to a cache");
        if let Fill::Line(id) = fill {
            cache.line_mut(id).fills += 1;
            return;
        }
        for (number, ..) in cache.spans(lpn, sectors) {
            let id = cache.filling(fill, number);
            cache.line_mut(id).fills += 1;
        }
    }

    /// Data for sectors being filled are there, by so many flash reads; sectors written or trimmed
    /// meanwhile are left alone.
    #[inline(always)]
    pub(super) fn filled(&mut self, fill: Fill, lpn: u32, sectors: u32, ok: bool, flights: u16) {
        let Some(cache) = &mut self.cache else { return };
        match fill {
            Fill::Nothing => {}
            Fill::Line(id) => {
                let sectors = bits(lpn % cache.line_sectors, sectors);
                cache.filled(id, sectors, ok, flights, &mut self.woken);
            }
            Fill::Lines => self.lines_filled(lpn, sectors, ok, flights),
        }
    }
    /// The same for sectors of several lines.
    #[inline(never)]
    fn lines_filled(&mut self, lpn: u32, sectors: u32, ok: bool, flights: u16) {
        let cache = self.cache.as_mut().expect("a fill belongs to a cache");
        for (number, first, n) in cache.spans(lpn, sectors) {
            let id = cache.filling(Fill::Lines, number);
            cache.filled(id, bits(first, n), ok, flights, &mut self.woken);
        }
    }

    /// A flash read of a piece ended.
    pub(super) fn piece_read(&mut self, ctx: &mut Ctx, flight: u32, key: u32) {
        let Flight { cmd, fill, read } = self.flights.remove(flight);
        let record = self.nand.record(key);
        let (io, ok, held) = (record.op.io, record.outcome == Outcome::Ok, record.held);
        let ftl = self.ftl.as_mut().expect("logical addresses need an FTL");
        let end = read_ended(ftl, ctx, read, ok, held, &mut self.pieces);
        if !self.pieces.is_empty() {
            if cmd != NONE {
                // What is read in its place begins where it ended.
                self.nand.record(key).mark(&mut ctx.lives, io);
            }
            self.read_instead(ctx, cmd, fill, io);
        }
        let (over, ok, summed) = match end {
            ReadEnd::Over { ok, summed } => (true, ok, summed),
            ReadEnd::Open => (false, true, 0),
        };
        let (lpn, sectors) = (read.lpn.0, read.sectors);
        let cost = self.cost.xor_sector * u64::from(summed);
        if cost > Span::ZERO {
            let grant = self.firmware.work(ctx, cost, io);
            self.counts.waits.firmware += grant.start.since(ctx.now).0;
            let flight = Flight { cmd, fill, read };
            let sum = Sum { flight, grant, record: *self.nand.record(key) };
            let sum = OnCore::Sum(self.sums.insert(sum));
            return ctx.at(grant.end, Kind::Summed, self.on_core.insert(sum));
        }
        // The sectors are there, or lost; otherwise others of their reads are under way.
        if over {
            let before = self.woken.len();
            self.filled(fill, lpn, sectors, ok, 1);
            if self.woken.len() > before {
                self.waited_for_read(ctx, before, key);
            }
        }
        if cmd == NONE {
            return;
        }
        if over && !ok {
            self.commands[cmd].status = Status::UnrecoveredRead;
        } else if over && self.commands[cmd].stream != NONE {
            self.sectors_came(ctx, cmd, sectors);
        }
        self.part_done(ctx, cmd, Some(key));
    }

    /// Commands that were woken last, from this one on, waited for a flash read ahead of them, or for that of another
    /// command. Those that wait for nothing else spent their time as that read did.
    #[inline(never)]
    fn waited_for_read(&mut self, ctx: &mut Ctx, first: usize, key: u32) {
        let record = self.nand.record(key);
        let several = self.woken.len() > first + 1;
        if several {
            for woken in self.woken.range(first..) {
                self.commands[woken.cmd].woken += 1;
            }
        }
        for woken in self.woken.range(first..) {
            let command = &mut self.commands[woken.cmd];
            // The first of its parts stands for all.
            let parts = if several { std::mem::take(&mut command.woken) } else { 1 };
            if parts > 0 && command.stage == Stage::Flash && command.pending == parts {
                let io = command.sqe.io;
                ctx.mark(io, Layer::Cache, command.waited_for, 0, record.submitted);
                record.mark(&mut ctx.lives, io);
            }
        }
    }

    /// What is read in place of a read that failed.
    #[inline(never)]
    fn read_instead(&mut self, ctx: &mut Ctx, cmd: u32, fill: Fill, io: IoId) {
        let more = std::mem::take(&mut self.pieces);
        for piece in &more {
            let Some(read) = FlashRead::of(piece) else { continue };
            let owner = OWNER_READ | self.flights.insert(Flight { cmd, fill, read });
            if cmd != NONE {
                self.commands[cmd].pending += 1;
            }
            let (kind, class) = (OpKind::Read, piece.place.class());
            let FlashRead { ppa, sectors, .. } = read;
            self.submit_read(ctx, Op { kind, class, ppa, sectors, slc: false, owner, io });
        }
        self.pieces = more;
    }

    /// A core is done with what it was given.
    pub(super) fn core_done(&mut self, ctx: &mut Ctx, on_core: u32) {
        match self.on_core.remove(on_core) {
            OnCore::Sum(sum) => self.sum_done(ctx, sum),
            OnCore::LookUp { cmd } => self.part_done(ctx, cmd, None),
            OnCore::Found(op) => self.submit_read(ctx, op),
        }
    }

    /// A core has added up what a rebuild read.
    fn sum_done(&mut self, ctx: &mut Ctx, sum: u32) {
        let Sum { flight, grant, record } = self.sums.remove(sum);
        let Flight { cmd, fill, read } = flight;
        self.filled(fill, read.lpn.0, read.sectors, true, 1);
        if cmd == NONE {
            return;
        }
        self.sectors_came(ctx, cmd, read.sectors);
        if self.commands[cmd].pending == 1 {
            let io = self.commands[cmd].sqe.io;
            record.mark(&mut ctx.lives, io);
            ctx.mark(io, Layer::Ftl, Why::FirmwareBusy, grant.core, grant.start);
            ctx.mark(io, Layer::Ftl, Why::Work, grant.core, grant.end);
        }
        self.part_done(ctx, cmd, None);
    }

    /// All data of a read are in the device.
    pub(super) fn read_ready(&mut self, ctx: &mut Ctx, cmd: u32) {
        if self.commands[cmd].stream != NONE {
            return self.all_came(ctx, cmd);
        }
        if let Some(config) = &self.config.cache {
            let command = &mut self.commands[cmd];
            let (io, bytes) = (command.sqe.io, u64::from(command.sqe.bytes));
            let (start, end) = self.dram.reserve(ctx.now, Span::of_bytes(bytes, config.rate));
            if end > ctx.now {
                self.counts.waits.cache_copy += start.since(ctx.now).0;
                ctx.mark(io, Layer::Cache, Why::LinkBusy, 0, start);
                ctx.mark(io, Layer::Cache, Why::CacheCopy, 0, end);
                command.stage = Stage::Limit;
                // The memory's bus serves in order, so this is the order in which they come to the limits.
                let admitted = self.admit(ctx, cmd, end);
                return ctx.at(admitted, Kind::DataOut, cmd);
            }
        }
        self.respond(ctx, cmd);
    }
}

/// A run of sectors that the cache does not hold, as (first, count), and what it fills.
type Miss = (u32, u32, Fill);
const NO_MISS: Miss = (0, 0, Fill::Nothing);

/// Adds a run to a list of runs and the last of them, as part of the last if it continues that.
#[inline]
fn add_miss(before: &mut Vec<Miss>, last: &mut Miss, lpn: u32, sectors: u32, fill: Fill) {
    if last.1 == 0 {
        *last = (lpn, sectors, fill);
        return;
    }
    let (first, n, of) = last;
    if *first + *n == lpn && (*of == Fill::Nothing) == (fill == Fill::Nothing) {
        *n += sectors;
        if *of != fill {
            *of = Fill::Lines;
        }
    } else {
        before.push(std::mem::replace(last, (lpn, sectors, fill)));
    }
}

/// What the user asked for: one piece stands for all the reads of a rebuild.
fn is_asked(piece: &Piece) -> bool {
    !matches!(piece.place, Place::Member { first: false, .. })
}
