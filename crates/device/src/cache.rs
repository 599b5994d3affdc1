//! The DRAM cache: set-associative, least recently used, with state for each sector of a line.
//! This module is the bookkeeping; what it costs and when it happens is the controller's business.
//!
//! A sector of a line is
//! - *valid*: the line has its newest data;
//! - *dirty*: newer than what the FTL has;
//! - *writing*: on its way to the FTL, and readable here until the FTL has accepted it. A newer write
//!   makes it dirty again, so it is written back once more afterwards;
//! - *filling*: being read from flash. A write or a trim clears the mark, and the fill then leaves
//!   the sector alone; that is how a slow read cannot bury a newer write;
//! - *ahead*: brought by read-ahead and not asked for yet.
//!
//! A line with anything dirty, writing or filling is not replaced. Lines with dirty sectors are in a list,
//! oldest first, each with a *position*, a number that only grows. A position is *retired* when its data are
//! with the FTL or trimmed. A flush waits until every position handed out before it is retired.
//!
//! Split in two (module `partition`), lookups find a line in whichever way it is, and room is made in the
//! ways of its partition alone. What is counted by partition is counted for the one whose command brought
//! the line in, and so is its share of dirty lines.
//!
//! Tags and stamps take memory when they are first written, by pages of the system.

use crate::config::{CacheConfig, MAX_CACHE_LINES};
use crate::ghost::Shape;
use crate::partition::{LATENCY, PARTITIONS, Partitions};
use crate::recency::{self, Used};
use serde::Serialize;
use std::collections::VecDeque;
use std::ops::{Range, RangeInclusive};
use wordline_base::{Array, BadValue, IoClass, Lpn, SectorSize, Slab, Stamps, prefetch};

/// A line's place: `set * ways + way`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LineId(u32);

#[cfg(test)]
impl LineId {
    pub fn place(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
impl Cache {
    pub fn way_of(&self, id: LineId) -> usize {
        (id.0 % self.ways) as usize
    }
}

/// The `dirty_max`, in percent, that is no bound.
const UNBOUNDED: u32 = 100;
const MAX_WAYS: u32 = 32;
const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub valid: u64,
    pub dirty: u64,
    pub writing: u64,
    pub filling: u64,
    pub ahead: u64,
    /// Position of the oldest data not yet with the FTL; 0 when none.
    pub position: u64,
    /// The last of them, whose next is the first.
    waiters: u32,
    newer: u32,
    older: u32,
    /// The class of the command that wrote to it or had it filled last.
    pub class: IoClass,
    /// Flash reads under way for it.
    pub fills: u16,
    listed: bool,
    /// Whose command brought the line in.
    pub partition: u8,
    /// A write-back is under way.
    pub writing_back: bool,
    /// The FTL has the write in its hands; before that, a trim may still take sectors out of it.
    pub handed: bool,
    /// To be written back again when the write-back under way is done.
    pub again: bool,
    /// The write-back under way must be durable.
    pub forced: bool,
    /// The next one must be.
    pub fua: bool,
    /// The FTL did not take it: what it holds is here alone, and it is not replaced.
    pub kept: bool,
}

const BLANK_LINE: Line = Line {
    valid: 0,
    dirty: 0,
    writing: 0,
    filling: 0,
    ahead: 0,
    position: 0,
    waiters: NONE,
    newer: NONE,
    older: NONE,
    class: IoClass::NONE,
    fills: 0,
    listed: false,
    partition: LATENCY,
    writing_back: false,
    handed: false,
    again: false,
    forced: false,
    fua: false,
    kept: false,
};

impl Line {
    pub fn is_busy(&self) -> bool {
        self.writing_back || self.filling != 0 || self.fills > 0
    }
}

/// What a flash read brings into the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fill {
    Nothing,
    /// Sectors of one line, which is not replaced meanwhile.
    Line(LineId),
    Lines,
}

/// What a command waits for at a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// The line to be no longer busy, or its fill to end: then try again.
    Change,
    /// This position of the line to be retired.
    Retired(u64),
}

/// A command whose wait is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Woken {
    pub cmd: u32,
    pub wait: Wait,
    /// The line it waited for.
    pub number: u32,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    cmd: u32,
    wait: Wait,
    next: u32,
}

/// Counts, in sectors unless said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct CacheStats {
    /// Sectors read that were there.
    pub read_hits: u64,
    /// Sectors read that were not there yet, but already being read.
    pub read_joins: u64,
    /// Sectors read that came from flash.
    pub read_misses: u64,
    /// Sectors written into the cache.
    pub writes: u64,
    /// Writes to a sector that was still dirty: flash writes saved.
    pub overwrites: u64,
    /// Lines replaced.
    pub evictions: u64,
    /// Sectors handed to the FTL.
    pub written_back: u64,
    /// Times a write waited because every line of its set was dirty or busy, or as much was dirty as may be.
    pub write_stalls: u64,
    /// Sectors read ahead.
    pub ahead: u64,
    /// Sectors read ahead that a command asked for later.
    pub ahead_useful: u64,
    /// Sectors read ahead that were replaced, overwritten or trimmed before anybody asked.
    pub ahead_useless: u64,
}

impl CacheStats {
    fn plus(self, other: &CacheStats) -> CacheStats {
        CacheStats {
            read_hits: self.read_hits + other.read_hits,
            read_joins: self.read_joins + other.read_joins,
            read_misses: self.read_misses + other.read_misses,
            writes: self.writes + other.writes,
            overwrites: self.overwrites + other.overwrites,
            evictions: self.evictions + other.evictions,
            written_back: self.written_back + other.written_back,
            write_stalls: self.write_stalls + other.write_stalls,
            ahead: self.ahead + other.ahead,
            ahead_useful: self.ahead_useful + other.ahead_useful,
            ahead_useless: self.ahead_useless + other.ahead_useless,
        }
    }
}

/// A flush under way: positions before `before` are still to be retired.
#[derive(Clone, Copy, Debug)]
struct Barrier {
    cmd: u32,
    before: u64,
    left: u64,
}

pub(crate) struct Cache {
    sets: u32,
    ways: u32,
    pub line_sectors: u32,
    /// Line number + 1; 0 is empty.
    tags: Array<u32>,
    /// Of each sector of each line.
    stamps: Array<u32>,
    lines: Box<[Line]>,
    /// The order in which each set's ways were touched last.
    used: Box<[Used]>,
    #[cfg(debug_assertions)]
    touched: Option<LineId>,
    pub partitions: Option<Partitions>,
    /// Lines with dirty sectors, by partition.
    dirty: [u32; PARTITIONS],
    /// The share of them, in percent, above which lines are written back in the background.
    dirty_high: u64,
    /// Lines that may be dirty or on their way to the FTL.
    dirty_most: u32,
    /// The list of dirty lines of each partition.
    oldest: [u32; PARTITIONS],
    newest: [u32; PARTITIONS],
    next_position: u64,
    /// Positions handed out and not retired.
    open_positions: u64,
    barriers: Vec<Barrier>,
    nodes: Slab<Node>,
    /// By partition.
    stats: [CacheStats; PARTITIONS],
}

/// `n` bits from `first`.
pub(crate) fn bits(first: u32, n: u32) -> u64 {
    debug_assert!(n >= 1 && first + n <= 64);
    (!0 >> (64 - n)) << first
}

/// How many bits are set, which mostly none is.
#[inline]
fn count(mask: u64) -> u64 {
    if mask == 0 { 0 } else { u64::from(mask.count_ones()) }
}

/// The runs of set bits: (first, length).
pub(crate) fn runs(mut mask: u64) -> impl Iterator<Item = (u32, u32)> {
    std::iter::from_fn(move || {
        if mask == 0 {
            return None;
        }
        let first = mask.trailing_zeros();
        let n = (mask >> first).trailing_ones();
        mask &= !bits(first, n);
        Some((first, n))
    })
}

/// Where a tag is. Eight are looked at together: mostly it is in none of them.
#[inline]
pub(crate) fn position(tags: &[u32], tag: u32) -> Option<usize> {
    let (eights, _) = tags.as_chunks::<8>();
    let among = |eight: &[u32; 8]| eight.iter().fold(false, |found, one| found | (*one == tag));
    let first = 8 * eights.iter().take_while(|eight| !among(eight)).count();
    tags[first..].iter().position(|one| *one == tag).map(|at| first + at)
}

/// The ways that room for a partition's lines is made in.
#[inline]
pub(crate) fn ways_of(
    partitions: Option<&Partitions>,
    shape: Shape,
    partition: u8,
) -> Range<usize> {
    match partitions {
        None => 0..shape.ways as usize,
        Some(p) => {
            let ways = p.ways_of(partition);
            ways.start as usize..ways.end as usize
        }
    }
}

impl Cache {
    /// The sets of a cache and their parts, without the memory of its lines.
    pub fn check(
        config: &CacheConfig,
        sector: SectorSize,
    ) -> Result<(Shape, Option<Partitions>), BadValue> {
        let line = u64::from(config.line_bytes);
        let sectors = sector.of(line);
        if !(1..=64).contains(&sectors) || sector.bytes_of(sectors) != line {
            let (one, most) = (sector.bytes(), sector.bytes_of(64u32));
            let message = format!("is {line}: must be a multiple of {one} up to {most}");
            return Err(BadValue::new("cache.line_bytes", message));
        }
        if config.ways == 0 || config.ways > MAX_WAYS {
            return Err(BadValue::new(
                "cache.ways",
                format!("is {}: must be 1 to {MAX_WAYS}", config.ways),
            ));
        }
        let sets = config.bytes / line / u64::from(config.ways);
        if sets == 0 {
            let message =
                format!("holds less than one set of {} lines of {line} bytes", config.ways);
            return Err(BadValue::new("cache.bytes", message));
        }
        if sets * u64::from(config.ways) > MAX_CACHE_LINES {
            return Err(BadValue::new("cache.bytes", "has more than 2^24 lines: use longer ones"));
        }
        if config.dirty_high > 100 {
            let message = format!("is {}: must be 0 to 100 percent", config.dirty_high);
            return Err(BadValue::new("cache.dirty_high", message));
        }
        let unbounded = config.dirty_max == UNBOUNDED;
        if !unbounded && !(config.dirty_high + 1..100).contains(&config.dirty_max) {
            let (max, high) = (config.dirty_max, config.dirty_high);
            let message =
                format!("is {max}: must be above dirty_high, {high}, or 100 for no bound");
            return Err(BadValue::new("cache.dirty_max", message));
        }
        let partitions = config.partition.as_ref();
        let shape = Shape { sets: sets as u32, ways: config.ways, line_sectors: sectors as u32 };
        Ok((shape, partitions.map(|p| Partitions::new(p, shape)).transpose()?))
    }

    pub fn new(config: &CacheConfig, sector: SectorSize) -> Result<Cache, BadValue> {
        let (shape, partitions) = Cache::check(config, sector)?;
        let Shape { sets, ways, line_sectors } = shape;
        let all = u64::from(sets) * u64::from(ways);
        let share = |percent: u32| (all * u64::from(percent) / 100) as u32;
        Ok(Cache {
            sets,
            ways,
            line_sectors,
            tags: Array::zeroed(all as usize),
            stamps: Array::zeroed((all * u64::from(line_sectors)) as usize),
            lines: vec![BLANK_LINE; all as usize].into(),
            used: recency::unused(ways).collect::<Vec<_>>().repeat(sets as usize).into(),
            #[cfg(debug_assertions)]
            touched: None,
            partitions,
            dirty: [0; PARTITIONS],
            dirty_high: config.dirty_high.into(),
            dirty_most: match config.dirty_max == UNBOUNDED {
                true => u32::MAX,
                // Some are always written back while writes wait.
                false => share(config.dirty_max).max(share(config.dirty_high) + 1),
            },
            oldest: [NONE; PARTITIONS],
            newest: [NONE; PARTITIONS],
            next_position: 1,
            open_positions: 0,
            barriers: Vec::with_capacity(16),
            nodes: Slab::with_capacity(64),
            stats: [CacheStats::default(); PARTITIONS],
        })
    }

    #[inline]
    pub fn shape(&self) -> Shape {
        Shape { sets: self.sets, ways: self.ways, line_sectors: self.line_sectors }
    }
    /// The ways that room for a partition's lines is made in.
    #[inline]
    pub fn ways_of(&self, partition: u8) -> Range<usize> {
        ways_of(self.partitions.as_ref(), self.shape(), partition)
    }
    #[inline]
    pub fn stats_of(&mut self, partition: u8) -> &mut CacheStats {
        &mut self.stats[usize::from(partition)]
    }
    pub fn stats_by_partition(&self) -> &[CacheStats; PARTITIONS] {
        &self.stats
    }
    pub fn stats(&self) -> CacheStats {
        self.stats[0].plus(&self.stats[1])
    }
    /// Sectors read that were there, and that came from flash.
    pub fn read_counts(&self) -> [u64; 2] {
        let all = self.stats();
        [all.read_hits, all.read_misses]
    }
    pub fn dirty_lines(&self) -> u32 {
        self.dirty.iter().sum()
    }
    /// A line more may be dirty, beside those that are and so many on their way to the FTL.
    #[inline]
    pub fn takes_dirty(&self, on_their_way: usize) -> bool {
        self.dirty_most == u32::MAX || self.dirty_lines() + (on_their_way as u32) < self.dirty_most
    }
    /// The line to write back because its partition has more dirty lines than its share allows.
    pub fn too_dirty(&self) -> Option<LineId> {
        let partitions = 0..if self.partitions.is_some() { PARTITIONS as u8 } else { 1 };
        // Lines to be written back once more are dirty and in no list.
        partitions.into_iter().find_map(|partition| {
            let lines = u64::from(self.sets) * self.ways_of(partition).len() as u64;
            let most = (lines * self.dirty_high / 100) as u32;
            let too_dirty = self.dirty[usize::from(partition)] > most;
            too_dirty.then(|| self.oldest_dirty_of(partition)).flatten().map(|(id, _)| id)
        })
    }

    /// The sector will be looked up soon.
    #[inline]
    pub fn prefetch(&self, lpn: u32) {
        let set = lpn / self.line_sectors % self.sets;
        let ways = self.ways_in(set);
        prefetch(&self.tags, ways.start);
        prefetch(&self.tags, ways.end - 1);
        prefetch(&self.used, self.ring_of(set).end - 1);
    }
    /// The sector was not found and will need a line soon: most likely that used longest ago.
    #[inline]
    pub fn prefetch_room(&self, lpn: u32, partition: u8) {
        let set = lpn / self.line_sectors % self.sets;
        let way = self.by_age(set, partition).next().unwrap_or(0);
        let i = self.ways_in(set).start + way;
        prefetch(&self.lines, i);
        // The end of a line is where the next begins.
        prefetch(&self.lines, i + 1);
        prefetch(&self.stamps, i * self.line_sectors as usize);
    }
    pub fn lines(&self) -> u64 {
        u64::from(self.sets) * u64::from(self.ways)
    }

    /// Lines that hold data which commands of a partition brought in.
    pub fn lines_of(&self, partition: u8) -> u64 {
        let of = |line: &&Line| line.valid != 0 && line.partition == partition;
        self.lines.iter().filter(of).count() as u64
    }

    /// Lines that hold data, by [`Line::class`], ascending.
    pub fn lines_by_class(&self) -> Vec<(IoClass, u64)> {
        let mut rows: Vec<(IoClass, u64)> = Vec::new();
        for line in self.lines.iter().filter(|line| line.valid != 0) {
            match rows.iter_mut().find(|row| row.0 == line.class) {
                Some(row) => row.1 += 1,
                None => rows.push((line.class, 1)),
            }
        }
        rows.sort_unstable();
        rows
    }

    /// The places of a set's ways.
    #[inline]
    fn ways_in(&self, set: u32) -> Range<usize> {
        let ways = self.ways as usize;
        let first = set as usize * ways;
        first..first + ways
    }
    /// The ways of a partition in a set, that touched longest ago first.
    #[inline]
    fn by_age(&self, set: u32, partition: u8) -> impl Iterator<Item = usize> + use<'_> {
        let ways = self.ways_of(partition);
        recency::by_age(&self.used[self.ring_of(set)]).filter(move |way| ways.contains(way))
    }
    #[inline]
    fn ring_of(&self, set: u32) -> Range<usize> {
        let ring = self.ways as usize + 1;
        let first = set as usize * ring;
        first..first + ring
    }
    #[inline]
    pub fn line(&self, id: LineId) -> &Line {
        &self.lines[id.0 as usize]
    }
    #[inline]
    pub fn line_mut(&mut self, id: LineId) -> &mut Line {
        &mut self.lines[id.0 as usize]
    }
    /// The first sector of the line.
    pub fn first_sector(&self, id: LineId) -> u32 {
        (self.tags[id.0 as usize] - 1) * self.line_sectors
    }
    /// The stamps of a run of a line's sectors.
    pub fn stamps(&self, id: LineId, first: u32, n: u32) -> &[u32] {
        let at = id.0 as usize * self.line_sectors as usize + first as usize;
        &self.stamps[at..at + n as usize]
    }

    /// A line that is being filled.
    #[inline]
    pub fn filling(&self, fill: Fill, number: u32) -> LineId {
        match fill {
            Fill::Line(id) => id,
            _ => self.find(number).expect("a line being filled is not replaced"),
        }
    }
    #[inline]
    pub fn find(&self, number: u32) -> Option<LineId> {
        let ways = self.ways_in(number % self.sets);
        let first = ways.start;
        let way = position(&self.tags[ways], number + 1)?;
        Some(LineId((first + way) as u32))
    }

    /// Every sector of the range is valid.
    pub fn holds(&self, lpn: u32, sectors: u32) -> bool {
        self.all(lpn, sectors, |line| line.valid)
    }
    /// Every sector of the range is valid or on its way.
    pub fn holds_or_fills(&self, lpn: u32, sectors: u32) -> bool {
        self.all(lpn, sectors, |line| line.valid | line.filling)
    }
    fn all(&self, lpn: u32, sectors: u32, of: impl Fn(&Line) -> u64) -> bool {
        self.spans(lpn, sectors).all(|(number, first, n)| {
            let mask = bits(first, n);
            self.find(number).is_some_and(|id| of(self.line(id)) & mask == mask)
        })
    }

    /// The range cut into lines: (line number, first sector in it, sectors).
    pub fn spans(&self, lpn: u32, sectors: u32) -> impl Iterator<Item = (u32, u32, u32)> + use<> {
        let (line_sectors, end) = (self.line_sectors, lpn + sectors);
        let mut at = lpn;
        std::iter::from_fn(move || {
            if at == end {
                return None;
            }
            let (number, first) = (at / line_sectors, at % line_sectors);
            let n = (end - at).min(line_sectors - first);
            at += n;
            Some((number, first, n))
        })
    }

    #[inline(always)]
    pub fn touch(&mut self, id: LineId) {
        #[cfg(debug_assertions)]
        {
            self.touched = Some(id);
        }
        let (set, way) = (id.0 / self.ways, id.0 % self.ways);
        let ring = self.ring_of(set);
        recency::touch(&mut self.used[ring], way as usize);
    }

    /// Makes room for a line in its partition: an empty way, or else the least recently used line that is
    /// clean and idle. When there is none, the line to wait for: the oldest dirty one, or else a busy one.
    #[inline(always)]
    pub fn allocate(&mut self, number: u32, partition: u8) -> Result<LineId, LineId> {
        debug_assert!(self.find(number).is_none(), "a line is in one place");
        let set = number % self.sets;
        let (rank, way) = self.room(set, partition);
        let at = self.ways_in(set).start + way;
        let id = LineId(at as u32);
        if rank >= 2 {
            return Err(id);
        }
        let line = &mut self.lines[at];
        if rank == 1 {
            self.stats[usize::from(partition)].evictions += 1;
            self.stats[usize::from(line.partition)].ahead_useless += count(line.ahead);
        }
        debug_assert_eq!(line.waiters, NONE, "nobody waits for a line that is replaced");
        debug_assert_eq!(line.position, 0);
        *line = Line { partition, ..BLANK_LINE };
        self.tags[at] = number + 1;
        self.touch(id);
        debug_assert!(self.ways_of(partition).contains(&way), "in its own partition");
        Ok(id)
    }

    /// The way of a set to make room in, and how little it is fit for that: 0 is empty, 1 clean, 2 dirty,
    /// 3 busy or kept; among equals the one touched longest ago.
    #[inline(always)]
    fn room(&self, set: u32, partition: u8) -> (u32, usize) {
        let first = self.ways_in(set).start;
        let rank_of = |way: usize| match (self.tags[first + way], &self.lines[first + way]) {
            (0, _) => 0,
            (_, line) if line.is_busy() || line.kept => 3,
            (_, line) if line.dirty != 0 => 2,
            _ => 1,
        };
        // Nearly always the first is it (empty ones were never touched), which saves looking at the others.
        let mut ways = self.by_age(set, partition);
        let oldest = ways.next().expect("each partition has a way");
        let best = (rank_of(oldest), oldest);
        if best.0 < 2 {
            return best;
        }
        let earlier =
            |best: (u32, usize), other: (u32, usize)| if other.0 < best.0 { other } else { best };
        ways.map(|way| (rank_of(way), way)).fold(best, earlier)
    }

    /// Marks a run of a line's sectors as being read. Their stamps are known already: a sector that is
    /// not in the cache has its newest data with the FTL. They are for a command of the class `by`, or read
    /// ahead.
    #[inline(always)]
    pub fn begin_fill(&mut self, stamps: &Stamps, id: LineId, mask: u64, by: Option<IoClass>) {
        let i = id.0 as usize;
        if stamps.is_on() {
            let (base, at) =
                ((self.tags[i] - 1) * self.line_sectors, i * self.line_sectors as usize);
            let mut left = mask;
            while left != 0 {
                let sector = left.trailing_zeros();
                self.stamps[at + sector as usize] = stamps.newest(Lpn(base + sector));
                left &= left - 1;
            }
        }
        let line = self.line_mut(id);
        line.filling |= mask;
        match by {
            Some(class) => line.class = class,
            None => line.ahead |= mask,
        }
    }

    /// Sectors that were being read are there, or lost, by so many flash reads. Those written or trimmed
    /// meanwhile are left alone.
    #[inline]
    pub fn filled(
        &mut self,
        id: LineId,
        sectors: u64,
        ok: bool,
        flights: u16,
        woken: &mut VecDeque<Woken>,
    ) {
        let line = self.line_mut(id);
        let arrived = line.filling & sectors;
        line.fills -= flights;
        line.filling &= !arrived;
        if ok {
            line.valid |= arrived;
        } else {
            line.ahead &= !arrived;
        }
        if line.waiters != NONE {
            self.wake_some(id, 0..=0, woken);
        }
    }

    /// New data of a command for a run of a line's sectors: from here on they are what a read returns.
    pub fn write(
        &mut self,
        stamps: &mut Stamps,
        cmd: u32,
        id: LineId,
        first: u32,
        n: u32,
        class: IoClass,
    ) {
        let i = id.0 as usize;
        if stamps.is_on() {
            let base = (self.tags[i] - 1) * self.line_sectors;
            let at = i * self.line_sectors as usize + first as usize;
            let shown = &mut self.stamps[at..at + n as usize];
            for (sector, stamp) in (base + first..).zip(shown) {
                *stamp = stamps.show(cmd, Lpn(sector));
            }
        }
        let mask = bits(first, n);
        let line = &mut self.lines[i];
        let (was_dirty, useless) = (line.dirty, line.ahead & mask);
        let by = usize::from(line.partition);
        line.class = class;
        line.valid |= mask;
        line.dirty |= mask;
        line.filling &= !mask;
        line.ahead &= !mask;
        let unlisted = line.position == 0;
        if unlisted {
            line.position = self.next_position;
            self.next_position += 1;
            self.open_positions += 1;
        }
        let stats = &mut self.stats[by];
        stats.writes += u64::from(n);
        stats.overwrites += count(was_dirty & mask);
        stats.ahead_useless += count(useless);
        self.dirty[by] += u32::from(was_dirty == 0);
        if unlisted {
            self.list(id);
        }
        self.touch(id);
    }

    /// Trims a run of a line's sectors. The line's position, if that left nothing dirty.
    pub fn drop_sectors(&mut self, id: LineId, first: u32, n: u32) -> Option<u64> {
        let mask = bits(first, n);
        let line = self.line_mut(id);
        debug_assert!(!line.handed || line.writing & mask == 0);
        let (was_dirty, useless) = (line.dirty, line.ahead & mask);
        let by = line.partition;
        line.valid &= !mask;
        line.dirty &= !mask;
        line.writing &= !mask;
        line.filling &= !mask;
        line.ahead &= !mask;
        self.stats_of(by).ahead_useless += u64::from(useless.count_ones());
        let line = self.line_mut(id);
        if was_dirty == 0 || line.dirty != 0 {
            return None;
        }
        (line.again, line.fua) = (false, false);
        let position = std::mem::take(&mut line.position);
        self.dirty[usize::from(by)] -= 1;
        self.unlist(id);
        Some(position)
    }

    /// Takes the dirty sectors of a line for a write-back; answers the position they will retire, and
    /// whether they must be durable.
    pub fn begin_write_back(&mut self, id: LineId) -> (u64, bool) {
        self.unlist(id);
        let by = usize::from(self.line(id).partition);
        self.dirty[by] -= 1;
        let line = self.line_mut(id);
        debug_assert!(!line.writing_back && line.dirty != 0 && line.position != 0);
        line.writing_back = true;
        line.writing = line.dirty;
        line.dirty = 0;
        line.forced = std::mem::take(&mut line.fua);
        (std::mem::take(&mut line.position), line.forced)
    }

    /// The line waiting longest for its write-back, with its position.
    pub fn oldest_dirty(&self) -> Option<(LineId, u64)> {
        let [a, b] = [0, 1].map(|partition| self.oldest_dirty_of(partition));
        match (a, b) {
            (Some(a), Some(b)) => Some(if a.1 < b.1 { a } else { b }),
            (one, other) => one.or(other),
        }
    }
    /// The same of one partition.
    pub fn oldest_dirty_of(&self, partition: u8) -> Option<(LineId, u64)> {
        let oldest = self.oldest[usize::from(partition)];
        let id = LineId(oldest);
        (oldest != NONE).then(|| (id, self.line(id).position))
    }

    /// Takes a line out of the list because it will be written back again after the write-back
    /// under way.
    pub fn defer(&mut self, id: LineId) {
        self.unlist(id);
        self.line_mut(id).again = true;
    }

    fn list(&mut self, id: LineId) {
        let by = usize::from(self.line(id).partition);
        let newest = self.newest[by];
        let line = self.line_mut(id);
        line.listed = true;
        line.older = newest;
        line.newer = NONE;
        match newest {
            NONE => self.oldest[by] = id.0,
            _ => self.line_mut(LineId(newest)).newer = id.0,
        }
        self.newest[by] = id.0;
    }

    fn unlist(&mut self, id: LineId) {
        let line = self.line_mut(id);
        if !line.listed {
            return;
        }
        line.listed = false;
        let (older, newer, by) = (line.older, line.newer, usize::from(line.partition));
        match older {
            NONE => self.oldest[by] = newer,
            _ => self.line_mut(LineId(older)).newer = newer,
        }
        match newer {
            NONE => self.newest[by] = older,
            _ => self.line_mut(LineId(newer)).older = older,
        }
    }

    /// Positions handed out and not retired.
    pub fn open_positions(&self) -> u64 {
        self.open_positions
    }
    /// A flush waits for everything that is dirty or under way now.
    pub fn add_barrier(&mut self, cmd: u32) {
        let (before, left) = (self.next_position, self.open_positions);
        self.barriers.push(Barrier { cmd, before, left });
    }
    /// The newest position some flush waits for, exclusive.
    pub fn flush_to(&self) -> u64 {
        self.barriers.last().map_or(0, |b| b.before)
    }
    /// Counts a retired position; flushes that waited for it alone go to `ready`.
    pub fn retire(&mut self, position: u64, ready: &mut VecDeque<u32>) {
        self.open_positions -= 1;
        self.barriers.retain_mut(|b| {
            b.left -= u64::from(position < b.before);
            if b.left == 0 {
                ready.push_back(b.cmd);
            }
            b.left > 0
        });
    }

    /// The write-back of a line is over. True if it has to be written back again.
    pub fn end_write_back(&mut self, id: LineId) -> bool {
        let line = self.line_mut(id);
        line.writing = 0;
        line.writing_back = false;
        line.handed = false;
        std::mem::take(&mut line.again)
    }
    /// The flushes that wait for this position.
    pub fn flushes_behind(&self, position: u64) -> impl Iterator<Item = u32> + '_ {
        self.barriers.iter().filter(move |b| position < b.before).map(|b| b.cmd)
    }

    /// Puts a command behind all that wait for a line.
    pub fn wait(&mut self, id: LineId, cmd: u32, wait: Wait) {
        let node = self.nodes.insert(Node { cmd, wait, next: NONE });
        let waiters = self.line(id).waiters;
        self.line_mut(id).waiters = self.behind(waiters, node);
    }
    /// Puts a node behind the last one of a ring, whose next is the first. It is the last one then.
    fn behind(&mut self, last: u32, node: u32) -> u32 {
        let first = if last == NONE { node } else { self.nodes[last].next };
        self.nodes[node].next = first;
        if last != NONE {
            self.nodes[last].next = node;
        }
        node
    }

    /// Takes the waiters that a change of the line concerns, in order: those for any change, and
    /// those for positions up to `retired`.
    #[inline]
    pub fn wake(&mut self, id: LineId, retired: u64, woken: &mut VecDeque<Woken>) {
        if self.line(id).waiters != NONE {
            self.wake_some(id, 0..=retired, woken);
        }
    }
    /// The same for a position that a trim took back: those before it may be under way.
    pub fn wake_trimmed(&mut self, id: LineId, position: u64, woken: &mut VecDeque<Woken>) {
        if self.line(id).waiters != NONE {
            self.wake_some(id, position..=position, woken);
        }
    }
    fn wake_some(&mut self, id: LineId, retired: RangeInclusive<u64>, woken: &mut VecDeque<Woken>) {
        let last = self.line(id).waiters;
        let number = self.first_sector(id) / self.line_sectors;
        let (mut at, mut kept) = (self.nodes[last].next, NONE);
        loop {
            let node = self.nodes[at];
            let stays =
                matches!(node.wait, Wait::Retired(position) if !retired.contains(&position));
            if stays {
                kept = self.behind(kept, at);
            } else {
                woken.push_back(Woken { cmd: node.cmd, wait: node.wait, number });
                self.nodes.remove(at);
            }
            if at == last {
                break;
            }
            at = node.next;
        }
        self.line_mut(id).waiters = kept;
    }

    /// Lines that hold something, for a trim that is longer than the cache.
    pub fn resident(&self) -> impl Iterator<Item = LineId> + '_ {
        (0..).zip(&*self.tags).filter(|(_, tag)| **tag != 0).map(|(i, _)| LineId(i))
    }

    /// Checks what must hold of a split cache after each event, of the set that was touched last: a line is
    /// in one way, so that it is dirty in one partition at most, and each partition has its ways.
    #[cfg(debug_assertions)]
    pub fn assert_split(&self) {
        let (Some(id), Some(_)) = (self.touched, &self.partitions) else { return };
        let [latency, throughput] = [0, 1].map(|partition| self.ways_of(partition));
        assert!(latency.start == 0 && latency.end == throughput.start);
        assert!(throughput.end == self.ways as usize);
        assert!(!latency.is_empty() && !throughput.is_empty(), "each partition has a way");
        let tags = &self.tags[self.ways_in(id.0 / self.ways)];
        for (way, tag) in tags.iter().enumerate() {
            let twice = *tag != 0 && tags[..way].contains(tag);
            assert!(!twice, "line {} is in two ways of its set", tag.wrapping_sub(1));
        }
    }

    /// Checks what must hold between any two events.
    #[cfg(test)]
    pub fn assert_consistent(&self) {
        let (mut dirty, mut open, mut waiters) = ([0; PARTITIONS], 0, 0);
        let mut numbers = std::collections::BTreeSet::new();
        for id in self.resident() {
            let line = self.line(id);
            assert!(numbers.insert(self.first_sector(id)), "a line is in one place");
            assert_eq!(self.find(self.first_sector(id) / self.line_sectors), Some(id));
            assert_eq!(line.dirty & !line.valid, 0, "dirty data are there");
            assert_eq!(line.writing & !line.valid, 0, "data being written back are readable");
            assert_eq!(line.filling & line.valid, 0);
            assert!(line.filling == 0 || line.fills > 0, "a fill is under way");
            assert_eq!(line.dirty != 0, line.position != 0);
            assert_eq!(line.dirty != 0, line.listed || line.again);
            dirty[usize::from(line.partition)] += u32::from(line.dirty != 0);
            open += u64::from(line.dirty != 0);
            let mut at = line.waiters;
            while at != NONE {
                assert!(line.is_busy(), "a waiter has something to wait for");
                waiters += 1;
                at = self.nodes[at].next;
                if at == line.waiters {
                    break;
                }
            }
        }
        assert_eq!(dirty, self.dirty);
        if self.partitions.is_some() {
            let [latency, throughput] = [0, 1].map(|partition| self.ways_of(partition));
            assert!(!latency.is_empty() && !throughput.is_empty());
            assert_eq!((latency.start, latency.end), (0, throughput.start));
            assert_eq!(throughput.end, self.ways as usize);
        }
        assert!(open <= self.open_positions);
        assert_eq!(waiters, self.nodes.len());
    }
}

#[cfg(test)]
mod tests;
