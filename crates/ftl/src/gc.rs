//! Garbage collection (pblk-gc): choosing victims, reading what is valid, putting it back in the
//! ring.
//!
//! Lines with nothing valid are freed at once. While fewer blocks are free than the limiter's upper
//! mark, up to `gc_lines` victims are worked on. The sector list is read from emeta (from memory
//! after a write error). The valid sectors are read in requests of at most 64. They enter the ring as
//! far as the limiter lets them, each only if L2P still points to the victim's copy.
//!
//! The line is free when no read is in flight on it, and everything is durable that was in the ring
//! when its last sector became stale: its moved sectors, and the newer versions of those that were
//! overwritten. pblk waits for the former only, and a power loss can then take both versions.
//!
//! Lines with write errors come first under every policy. A new victim is begun only if all sectors
//! already on their way still find room with its own, so that a begun victim always ends. For the same
//! reason every policy takes the least valid line when few lines are free. A sector that cannot be
//! read, nor rebuilt from its stride, is moved with a mark in its stamp and counted.

use crate::config::{FtlConfig, VictimPolicy};
use crate::line::{LineState, NO_LINE, Stream};
use crate::map::{LOST, Where};
use crate::rate::Rate;
use crate::ring::{Entry, GC};
use crate::{Action, Ftl, Op};
use std::collections::VecDeque;
use wordline_base::{Ctx, IdVec, Slab, Span};
use wordline_nand::{Class, LineId, Ppa};

#[derive(Clone)]
pub(crate) struct Victim {
    pub line: LineId,
    /// Where the next emeta unit to be read is.
    emeta_next: u32,
    /// Emeta units that are being read.
    emeta_out: u32,
    /// The list of sectors is complete.
    listed: bool,
    /// Next sector of the line to look at.
    scan: u32,
    scanned: bool,
    /// Requests being read or waiting for the ring.
    requests: u32,
    /// Entries in the ring, not yet durable.
    pending: u32,
    /// Taken to even out wear.
    levelling: bool,
    /// Sectors put into the ring.
    moved: u32,
    /// All its sectors are in the ring or stale.
    emptied: bool,
}

/// Valid sectors of a victim, read together.
#[derive(Clone, Default)]
struct Request {
    line: LineId,
    ppas: Vec<u32>,
    /// Flash reads in flight.
    out: u32,
    /// Sectors that could not be read.
    failed: u64,
    inserted: u32,
}

/// A run of a request being read from the rest of its stride.
#[derive(Clone, Copy)]
struct Repair {
    request: u32,
    first: u32,
    n: u32,
    left: u32,
    /// Rows of units that were read.
    read: u32,
    /// Rows of units that could not be read.
    missing: u32,
    /// One of those asked for last.
    failed: bool,
    /// Sectors to add up.
    summed: u32,
}

#[derive(Clone)]
pub(crate) struct Gc {
    repairs: Slab<Repair>,
    pub victims: Vec<Victim>,
    requests: IdVec<u32, Request>,
    unused: Vec<u32>,
    /// Requests read, in that order.
    ready: VecDeque<u32>,
    reading: u32,
    /// Closed lines with nothing valid.
    pub full: Vec<u32>,
    /// The ring positions that must be durable for the next line to be freed.
    pub barrier: [u64; 2],
    /// Lines freed before wear is looked at again.
    level_at: u64,
    /// Something changed that may let the collector go on.
    pub kick: bool,
    /// Victims are begun only if users would soon wait for space.
    pub held: bool,
    /// Lines changed since victims were last looked for, which is a pass over all lines.
    pub look: bool,
    pub scratch: Vec<u32>,
}

impl Gc {
    pub fn new(c: &FtlConfig, lines: u32) -> Gc {
        let request = Request { ppas: Vec::with_capacity(64), ..Request::default() };
        Gc {
            repairs: Slab::with_capacity(4),
            victims: Vec::with_capacity(c.gc_lines as usize),
            requests: (0..c.gc_queue).map(|_| request.clone()).collect(),
            unused: (0..c.gc_queue).rev().collect(),
            ready: VecDeque::with_capacity(c.gc_queue as usize),
            reading: 0,
            full: Vec::with_capacity(lines as usize),
            barrier: [u64::MAX; 2],
            level_at: 0,
            kick: false,
            held: false,
            look: true,
            scratch: Vec::with_capacity(lines as usize),
        }
    }
    /// Lines freed before wear is looked at again.
    pub fn level_at(&self) -> u64 {
        self.level_at
    }
    pub fn set_level_at(&mut self, freed: u64) {
        self.level_at = freed;
    }
    /// A victim is not empty yet.
    pub fn is_moving(&self) -> bool {
        self.victims.iter().any(|v| !v.emptied)
    }
    fn victim(&mut self, line: LineId) -> &mut Victim {
        self.victims.iter_mut().find(|v| v.line == line).expect("a victim")
    }
}

impl Ftl {
    /// Starts and continues victims. True if anything was done.
    pub(crate) fn collect(&mut self) -> bool {
        if !std::mem::take(&mut self.gc.kick) {
            return false;
        }
        self.gc.barrier = [u64::MAX; 2];
        let mut progress = self.free_full();
        progress |= self.end_victims();
        progress |= self.start_victims();
        progress |= self.pump();
        progress || self.end_cold_unit()
    }
    /// Victims that wait for a unit of the cold side that none of them fills any more: nobody else
    /// writes there. It is padded, if they give back more than that takes: or a drive nearly full of
    /// valid data would be collected for ever.
    fn end_cold_unit(&mut self) -> bool {
        let ring = &mut self.rings[1];
        let waits = ring.ready() > 0 && ring.flush_point < ring.mem;
        if !waits || !self.gc.victims.iter().all(|v| v.emptied) {
            return false;
        }
        let size = self.g.sectors_per_unit;
        let held = |v: &Victim| self.lines[v.line].capacity * size;
        let gain: u32 = self.gc.victims.iter().map(|v| held(v).saturating_sub(v.moved)).sum();
        if gain <= size - ring.ready() % size {
            return false;
        }
        ring.flush_point = ring.mem;
        true
    }

    pub(crate) fn free_full(&mut self) -> bool {
        let mut progress = false;
        let mut i = 0;
        while i < self.gc.full.len() {
            let line = self.gc.full[i];
            if self.lines[line].state != LineState::Closed {
                // A victim meanwhile.
                self.gc.full.swap_remove(i);
                continue;
            }
            if self.lines[line].refs > 0 {
                self.switch_all();
            }
            let passed = self.is_passed(self.lines[line].barrier);
            let l = &self.lines[line];
            if l.refs > 0 || l.pins > 0 || !passed {
                i += 1;
                continue;
            }
            self.gc.full.swap_remove(i);
            self.counters.lines_freed_empty += 1;
            self.free_line(line);
            progress = true;
        }
        progress
    }
    /// A line would be free but for those who read from it.
    pub(crate) fn readers_hold_space(&mut self) -> bool {
        if self.pins == 0 {
            return false;
        }
        let full = self.gc.full.iter().copied();
        let emptied = self.gc.victims.iter().filter(|v| v.emptied).map(|v| v.line);
        let read = |&line: &LineId| self.lines[line].pins > 0 && self.lines[line].refs == 0;
        let barriers: Vec<_> =
            full.chain(emptied).filter(read).map(|line| self.lines[line].barrier).collect();
        barriers.into_iter().any(|barrier| self.is_passed(barrier))
    }
    pub(crate) fn free_line(&mut self, line: LineId) {
        debug_assert_eq!(self.map.valid_in(line), 0);
        // Users emptied what ageing had begun with: the number is another line's from now on.
        self.age_victim = self.age_victim.filter(|&begun| begun != line);
        self.counters.lines_freed += 1;
        self.lines.release(line);
        self.rate_update();
    }
    fn end_victims(&mut self) -> bool {
        let mut progress = false;
        let mut i = 0;
        while i < self.gc.victims.len() {
            let v = &self.gc.victims[i];
            let line = v.line;
            if !v.emptied && v.scanned && v.requests == 0 {
                self.gc.victims[i].emptied = true;
                self.lines[line].barrier = self.barrier();
            }
            let passed = self.gc.victims[i].emptied && self.is_passed(self.lines[line].barrier);
            let v = &self.gc.victims[i];
            if !passed || self.lines[line].pins > 0 {
                i += 1;
                continue;
            }
            debug_assert_eq!(v.pending, 0);
            let v = self.gc.victims.remove(i);
            self.counters.lines_freed_empty += u64::from(v.moved == 0);
            self.free_line(line);
            progress = true;
        }
        progress
    }

    /// Victims wait until they are allowed, as long as a quarter is left of what users have before they wait.
    fn is_held(&self) -> bool {
        let Rate { high, reserve, .. } = self.rate;
        self.gc.held && self.scarce_blocks() > reserve + (high.saturating_sub(reserve)) / 4
    }
    pub(crate) fn should_collect(&self) -> bool {
        self.scarce_blocks() < self.rate.high || self.lines.write_errors > 0
    }
    fn start_victims(&mut self) -> bool {
        let mut progress = false;
        while self.gc.look
            && !self.stopping
            && !self.is_held()
            && self.gc.victims.len() < self.config.gc_lines as usize
        {
            let levelled = self.coldest_line();
            let line = match levelled {
                Some(line) => line,
                None if self.should_collect() => match self.choose_victim() {
                    Some(line) => line,
                    None => {
                        // Lines may be waiting for their metadata alone.
                        progress |= self.gc.victims.is_empty() && self.force_emeta();
                        self.gc.look = false;
                        break;
                    }
                },
                None => {
                    self.gc.look = false;
                    break;
                }
            };
            let valid = u64::from(self.map.valid_in(line));
            let margin = 4 * u64::from(self.g.sectors_per_unit);
            let hot = self.hot_share(self.moving() + valid, margin);
            if hot > 0 && hot + self.coming(0) + margin > self.lines.writable(0) {
                self.gc.look = false;
                break;
            }
            if levelled.is_some() {
                self.level_later();
            }
            let l = &mut self.lines[line];
            l.state = LineState::Gc;
            let listed = !l.emeta_ok || l.write_error;
            let emeta_next = l.emeta;
            self.gc.victims.push(Victim {
                line,
                emeta_next,
                emeta_out: 0,
                listed,
                scan: 0,
                scanned: false,
                requests: 0,
                pending: 0,
                levelling: levelled.is_some(),
                moved: 0,
                emptied: false,
            });
            progress = true;
        }
        progress
    }

    /// Reads sector lists and valid sectors.
    fn pump(&mut self) -> bool {
        let mut progress = false;
        for i in 0..self.gc.victims.len() {
            if !self.gc.victims[i].listed {
                progress |= self.read_list(i);
            }
            if self.gc.victims[i].listed {
                progress |= self.read_sectors(i);
            }
        }
        // A victim of which nothing is left needs no event to end.
        progress | self.end_victims()
    }
    /// Reads the victim's emeta, a request at a time.
    fn read_list(&mut self, victim: usize) -> bool {
        let Victim { line, mut emeta_next, emeta_out, .. } = self.gc.victims[victim];
        if emeta_out > 0 {
            return false;
        }
        let size = self.g.sectors_per_unit;
        let units = (self.config.max_request_sectors / size).max(1);
        let mut out = 0;
        while out < units
            && let Some(unit) = self.lines.next_emeta(line, emeta_next)
        {
            emeta_next = unit + 1;
            out += 1;
            let ppa = Ppa(self.lines.ppa(line, unit));
            self.counters.meta_read_sectors += u64::from(size);
            self.issue(Op::EmetaRead { line }, |op| Action::Read {
                op,
                ppa,
                sectors: size,
                class: Class::MetaRead,
                payload: size,
            });
        }
        let v = &mut self.gc.victims[victim];
        v.emeta_next = emeta_next;
        v.emeta_out = out;
        v.listed = out == 0;
        true
    }
    pub(crate) fn emeta_read_done(&mut self, line: LineId, ok: bool) {
        self.gc.kick = true;
        let v = self.gc.victim(line);
        v.emeta_out -= 1;
        if !ok {
            // The list is taken from the spare areas as the sectors are read.
            v.emeta_next = u32::MAX;
            self.counters.meta_read_errors += 1;
        }
    }
    fn read_sectors(&mut self, victim: usize) -> bool {
        let mut progress = false;
        let size = self.g.sectors_per_unit;
        while !self.gc.victims[victim].scanned
            && self.gc.reading < self.config.gc_readers
            && let Some(&request) = self.gc.unused.last()
        {
            progress = true;
            let v = &mut self.gc.victims[victim];
            let line = v.line;
            let first = self.lines.first_sector(line);
            let r = &mut self.gc.requests[request];
            r.ppas.clear();
            (r.line, r.out, r.failed, r.inserted) = (line, 0, 0, 0);
            while (r.ppas.len() as u32) < self.config.gc_request_sectors {
                let Some(at) = self.map.next_valid(line, first, v.scan) else {
                    v.scanned = true;
                    break;
                };
                r.ppas.push(first + at);
                v.scan = at + 1;
            }
            if r.ppas.is_empty() {
                break;
            }
            v.requests += 1;
            self.gc.unused.pop();
            self.gc.reading += 1;
            // Runs of consecutive sectors in a unit.
            let total = self.gc.requests[request].ppas.len();
            let mut i = 0;
            while i < total {
                let ppas = &self.gc.requests[request].ppas;
                let ppa = ppas[i];
                let room = (size - ppa % size) as usize;
                let n = (1..room.min(total - i))
                    .find(|&k| ppas[i + k] != ppa + k as u32)
                    .unwrap_or(room.min(total - i));
                self.gc.requests[request].out += 1;
                self.counters.gc_read_sectors += n as u64;
                let op = Op::GcRead { request, first: i as u32, n: n as u32 };
                let payload = if self.config.copy_offload { 0 } else { n as u32 };
                self.issue(op, |op| Action::Read {
                    op,
                    ppa: Ppa(ppa),
                    sectors: n as u32,
                    class: Class::GcRead,
                    payload,
                });
                i += n;
            }
        }
        progress
    }
    pub(crate) fn gc_read_done(&mut self, request: u32, first: u32, n: u32, ok: bool) {
        if !ok {
            self.counters.gc_read_errors += 1;
            let repair = Repair {
                request,
                first,
                n,
                left: 0,
                read: 0,
                missing: 0,
                failed: false,
                summed: 0,
            };
            if self.gc_rebuild(repair) {
                return;
            }
        }
        self.gc_run_over(request, first, n, ok);
    }
    /// A run that could not be read is read from the rest of its stride, as far as that was not read
    /// before. False: it cannot be.
    fn gc_rebuild(&mut self, mut r: Repair) -> bool {
        let Repair { n, read, .. } = r;
        let ppa = self.gc.requests[r.request].ppas[r.first as usize];
        let Some(members) = self.companions(ppa, n, r.missing) else { return false };
        r.summed = members.len() as u32 * n;
        let new = |&(_, row): &(u32, u32)| read >> row & 1 == 0;
        (r.left, r.failed) = (members.iter().copied().filter(new).count() as u32, false);
        let repair = self.gc.repairs.insert(r);
        for (ppa, row) in members.into_iter().filter(new) {
            self.counters.gc_read_sectors += u64::from(n);
            let payload = if self.config.copy_offload { 0 } else { n };
            self.issue(Op::GcMember { repair, row }, |op| Action::Read {
                op,
                ppa: Ppa(ppa),
                sectors: n,
                class: Class::GcRead,
                payload,
            });
        }
        true
    }
    pub(crate) fn gc_member_done(&mut self, repair: u32, row: u32, ok: bool) {
        let r = &mut self.gc.repairs[repair];
        *(if ok { &mut r.read } else { &mut r.missing }) |= 1 << row;
        r.failed |= !ok;
        r.left -= 1;
        if r.left > 0 {
            return;
        }
        let r = self.gc.repairs.remove(repair);
        if r.failed && self.gc_rebuild(r) {
            return;
        }
        let Repair { request, first, n, summed: sectors, .. } = r;
        if r.failed {
            return self.gc_run_over(request, first, n, false);
        }
        self.counters.gc_repaired_reads += 1;
        self.counters.xor_sectors += u64::from(sectors);
        // Copied inside the drive, they are added up there.
        if self.config.copy_offload || self.config.cost.xor_sector == Span::ZERO {
            return self.gc_run_over(request, first, n, true);
        }
        self.issue(Op::GcSum { request, first, n }, |op| Action::Sum { op, sectors });
    }
    /// The places of a run of a request.
    pub(crate) fn collected(&self, request: u32, first: u32, n: u32) -> &[u32] {
        &self.gc.requests[request].ppas[first as usize..][..n as usize]
    }
    /// A run of a request is there, or lost.
    pub(crate) fn gc_run_over(&mut self, request: u32, first: u32, n: u32, ok: bool) {
        let r = &mut self.gc.requests[request];
        if !ok {
            r.failed |= (!0u64 >> (64 - n)) << first;
        }
        r.out -= 1;
        if r.out == 0 {
            self.gc.reading -= 1;
            self.gc.ready.push_back(request);
            self.gc.kick = true;
        }
    }

    /// Puts sectors read into the ring, as far as room and budget go.
    pub(crate) fn gc_insert(&mut self, ctx: &Ctx) -> bool {
        let mut progress = false;
        while let Some(&request) = self.gc.ready.front() {
            let mut side = self.gc_side();
            let mut room = self.room(side).min(self.rate.gc_room());
            let line = self.gc.requests[request].line;
            let mut inserted = 0;
            loop {
                let r = &self.gc.requests[request];
                let i = r.inserted as usize;
                if i == r.ppas.len() || room == 0 {
                    break;
                }
                let ppa = r.ppas[i];
                let failed = r.failed >> i & 1 == 1;
                self.gc.requests[request].inserted += 1;
                progress = true;
                let lpn = self.map.lpn_at(ppa);
                if !self.map.is_valid(ppa) || self.map.get(lpn) != Where::Flash(Ppa(ppa)) {
                    self.counters.gc_stale_sectors += 1;
                    continue;
                }
                let mut stamp = self.map.stamp_at(ppa);
                if failed {
                    self.counters.lost_sectors += u64::from(stamp & LOST == 0);
                    stamp |= LOST;
                    self.lossy = true;
                    // The mark is kept there, whether stamps are checked or not.
                    self.map.keep_stamps();
                }
                self.insert(
                    side,
                    Entry { lpn, stamp, origin: line, flags: GC, ..Entry::default() },
                );
                self.counters.hot_gc_sectors += u64::from(side == 0 && self.lines.is_split());
                room -= 1;
                inserted += 1;
                if side != self.gc_side() {
                    side = self.gc_side();
                    room = room.min(self.room(side));
                }
            }
            if inserted > 0 {
                self.rate.gc += inserted;
                self.counters.gc_sectors += u64::from(inserted);
                let v = self.gc.victim(line);
                v.pending += inserted;
                v.moved += inserted;
                self.last_insert = ctx.now;
            }
            let r = &self.gc.requests[request];
            if (r.inserted as usize) < r.ppas.len() {
                break;
            }
            self.gc.ready.pop_front();
            self.gc.unused.push(request);
            self.gc.victim(line).requests -= 1;
            self.gc.kick = true;
        }
        progress
    }
    /// An entry moved from `line` is durable.
    #[inline]
    pub(crate) fn gc_durable(&mut self, line: LineId) {
        self.gc.victim(line).pending -= 1;
    }

    /// Moving a line full of valid data gains hot space if there is cold space for it.
    fn relieves_hot(&self, stream: Stream, valid: u32) -> bool {
        let room = u64::from(valid) + 4 * u64::from(self.g.sectors_per_unit);
        stream == Stream::Hot && self.gc.victims.is_empty() && room <= self.lines.writable(1)
    }
    /// A closed line that can be collected: something valid, something to gain.
    fn eligible(&self, line: LineId) -> bool {
        let l = &self.lines[line];
        let valid = self.map.valid_in(line);
        l.state == LineState::Closed
            && valid > 0
            && (valid < l.data || l.write_error || self.relieves_hot(l.stream, valid))
            && l.refs == 0
    }
    pub(crate) fn choose_victim(&mut self) -> Option<u32> {
        let line = self.pick();
        if line.is_some() {
            return line;
        }
        // Lines whose newest sectors are durable, but still mapped to the buffer.
        if self.can_switch() {
            self.switch_all();
            return self.pick();
        }
        None
    }
    /// Leaves the lines of one side. What the collector moves goes to cold lines, so it collects cold
    /// ones while they are short, unless the best of them holds more valid data than the best hot one
    /// by more than the margin; otherwise hot ones, which is what users wait for.
    fn prefer_side(&self, lines: &mut Vec<u32>) {
        let share =
            |line: LineId| f64::from(self.map.valid_in(line)) / f64::from(self.lines[line].data);
        let best = |stream: Stream| {
            let of = |&&l: &&u32| self.lines[l].stream == stream;
            lines.iter().filter(of).map(|&l| share(l)).min_by(f64::total_cmp)
        };
        let margin = self.config.cold_margin / 100.0;
        let stream = match (best(Stream::Hot), best(Stream::Cold)) {
            (Some(hot), Some(cold)) if self.cold_is_short() && cold <= hot + margin => Stream::Cold,
            (None, Some(_)) => Stream::Cold,
            _ => Stream::Hot,
        };
        lines.retain(|&l| self.lines[l].stream == stream);
    }
    fn pick(&mut self) -> Option<u32> {
        let mut lines = std::mem::take(&mut self.gc.scratch);
        lines.clear();
        let erring = self.lines.write_errors > 0;
        lines.extend((0..self.lines.count()).filter(|&line| self.eligible(line)));
        if erring && lines.iter().any(|&l| self.lines[l].write_error) {
            lines.retain(|&l| self.lines[l].write_error);
        } else if self.scarce_blocks() >= self.rate.high {
            lines.clear();
        }
        let seq = |line: LineId| self.lines[line].seq;
        // Where lines differ in size by what they are made of, it is the share that counts.
        let split = self.lines.is_split();
        let valid = |line: LineId| {
            let valid = u64::from(self.map.valid_in(line));
            let data = u64::from(self.lines[line].data.max(1));
            if split { (valid << 32) / data } else { valid }
        };
        let least =
            |lines: &mut dyn Iterator<Item = u32>| lines.min_by_key(|&l| (valid(l), seq(l)));
        let scarce = self.lines.free_lines() < 2;
        if self.lines.is_split() && !scarce {
            self.prefer_side(&mut lines);
        }
        let choice = if lines.is_empty() {
            None
        } else {
            match self.config.victim {
                _ if scarce => least(&mut lines.iter().copied()),
                VictimPolicy::Greedy => least(&mut lines.iter().copied()),
                VictimPolicy::Fifo => lines.iter().copied().min_by_key(|&l| seq(l)),
                VictimPolicy::CostBenefit => {
                    let now = self.lines.next_seq;
                    // (1 - u) age / (1 + u) with u = valid / data, as a fraction.
                    let score = |line: LineId| {
                        let data = u128::from(self.lines[line].data);
                        let valid = u128::from(self.map.valid_in(line)).min(data);
                        ((data - valid) * u128::from(now - seq(line)), data + valid)
                    };
                    lines.iter().copied().max_by(|&a, &b| {
                        let ((an, ad), (bn, bd)) = (score(a), score(b));
                        (an * bd).cmp(&(bn * ad)).then(seq(b).cmp(&seq(a)))
                    })
                }
                VictimPolicy::DChoices => {
                    let rng = &mut self.rng;
                    let drawn = (0..self.config.d_choices).map(|_| rng.pick(&lines));
                    drawn.min_by_key(|&l| (valid(l), seq(l)))
                }
                VictimPolicy::Random => Some(self.rng.pick(&lines)),
                VictimPolicy::WindowedGreedy => {
                    let window = (self.config.victim_window as usize).min(lines.len());
                    lines.select_nth_unstable_by_key(window - 1, |&l| seq(l));
                    least(&mut lines[..window].iter().copied())
                }
            }
        };
        self.gc.scratch = lines;
        choice
    }
    /// The closed line opened least often, if wear is to be evened out now: at most one line for
    /// every two collected, because moving it makes no space.
    pub(crate) fn coldest_line(&self) -> Option<u32> {
        let spread = self.config.wear_spread;
        if spread == 0
            || self.counters.lines_freed < self.gc.level_at
            || self.lines.free_lines() < 2
            || self.gc.victims.iter().any(|v| v.levelling)
        {
            return None;
        }
        let line = |l: u32| &self.lines[l];
        let used = |l: u32| line(l).state != LineState::Bad && line(l).block != NO_LINE;
        let lines = || (0..self.lines.count()).filter(|&l| used(l));
        let most = lines().map(|l| line(l).opened).max()?;
        let coldest = lines()
            .filter(|&l| line(l).state == LineState::Closed && line(l).refs == 0)
            .filter(|&l| self.map.valid_in(l) > 0)
            .min_by_key(|&l| (line(l).opened, line(l).seq))?;
        (most - line(coldest).opened > spread).then_some(coldest)
    }
    pub(crate) fn level_later(&mut self) {
        self.gc.level_at = self.counters.lines_freed + 3;
        self.counters.lines_levelled += 1;
    }
}
