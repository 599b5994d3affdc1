//! Read-ahead: recognises sequential streams among the read commands and says what to fetch.
//!
//! A stream is a next expected sector. A read that starts there continues the stream. After `trigger` such
//! reads in a row (the first included) that have brought `ratio` of a write unit,
//! everything up to `bytes` beyond the end of the read is wanted. A read that continues no stream
//! replaces the stream used longest ago. Reads backwards and strides are not recognised.
//!
//! A large read at a random place comes as several commands in order, and looks like a stream until it is over. So the
//! drive learns from streams that ended: where one used less than half of what was read ahead of it, others must read
//! more than it did before anything is read ahead of them. A stream that has used `bytes` of it halves what is asked of
//! others.
//!
//! With ghosts (module `ghost`) how far is a degree that they choose at the end of each epoch, and more is
//! fetched only when less than half of it is left ahead, so that whole units are read at a time.

use crate::cache::position;
use crate::config::ReadAheadConfig;
use crate::ghost::{Ghosts, Shape};
use crate::recency::{self, Used};
use wordline_base::{BadValue, SectorSize, Time};

#[derive(Clone, Copy, Debug)]
struct Stream {
    length: u32,
    /// Sectors read in a row.
    read: u64,
    /// Everything before it was asked for already.
    asked: u64,
    /// Where it was when something was read ahead of it for the first time.
    from: u64,
    /// It has used as much as is kept ahead of a stream.
    proved: bool,
}

const NO_STREAM: Stream = Stream { length: 0, read: 0, asked: 0, from: 0, proved: false };

impl Stream {
    /// It is over at this sector, and most of what was read ahead of it was for nothing.
    fn wasted_most(&self, next: u32) -> bool {
        self.asked > 0 && (u64::from(next) - self.from) * 2 < self.asked - self.from
    }
}

/// How far ahead of a stream to read.
#[derive(Clone, Copy)]
struct Reach {
    sectors: u64,
    /// Only when less than half is left.
    half: bool,
    /// The drive's size.
    end: u64,
}

impl Reach {
    /// What to fetch for a stream that is at `next`.
    #[inline]
    fn ask(&self, asked: &mut u64, next: u32) -> Option<(u32, u32)> {
        let next = u64::from(next);
        let to = (next + self.sectors).min(self.end);
        let from = (*asked).max(next);
        if from >= to || self.half && (from - next) * 2 >= self.sectors {
            return None;
        }
        *asked = to;
        Some((from as u32, (to - from) as u32))
    }
}

pub(crate) struct ReadAhead {
    trigger: u32,
    /// Sectors that a stream has read before anything is read ahead of it.
    least: u64,
    /// A stream has read more than this before anything is read ahead of it: what streams read that ended too early.
    patience: u64,
    reach: Reach,
    streams: Vec<Stream>,
    /// The sector that each stream expects.
    next: Vec<u32>,
    /// The order in which streams were used last.
    used: Vec<Used>,
    ghosts: Option<Ghosts>,
    /// By stream and ghost: everything before it was asked for.
    ghosts_asked: Vec<u64>,
    /// When the sectors kept ahead became so many, from the start on; with ghosts.
    pub over_time: Vec<(Time, u32)>,
}

impl ReadAhead {
    /// For a cache of this shape; `unit` is the write unit of the flash in sectors.
    pub fn new(
        c: &ReadAheadConfig,
        end: u64,
        shape: Shape,
        unit: u32,
        sector: SectorSize,
    ) -> Result<ReadAhead, BadValue> {
        if c.trigger == 0 {
            return Err(BadValue::new("cache.read_ahead.trigger", "must be at least 1"));
        }
        if c.streams == 0 || c.streams > 1024 {
            let message = format!("is {}: must be 1 to 1024", c.streams);
            return Err(BadValue::new("cache.read_ahead.streams", message));
        }
        if c.bytes < sector.bytes() {
            let message = format!("must be at least {}", sector.bytes());
            return Err(BadValue::new("cache.read_ahead.bytes", message));
        }
        if !(0.0..=1024.0).contains(&c.ratio) {
            let message = format!("is {}: must be 0 to 1024 write units", c.ratio);
            return Err(BadValue::new("cache.read_ahead.ratio", message));
        }
        let ghosts = c.ghosts.as_ref().map(|g| Ghosts::new(g, shape, unit)).transpose()?;
        let sectors = sector.of(c.bytes);
        let asked = ghosts.as_ref().map_or(0, Ghosts::len) * c.streams as usize;
        let over_time = ghosts.iter().map(|_| (Time::ZERO, sectors as u32)).collect();
        Ok(ReadAhead {
            trigger: c.trigger,
            least: (c.ratio * f64::from(unit)).ceil() as u64,
            patience: 0,
            reach: Reach { sectors, half: ghosts.is_some(), end },
            streams: vec![NO_STREAM; c.streams as usize],
            next: vec![u32::MAX; c.streams as usize],
            used: recency::unused(c.streams).collect(),
            ghosts,
            ghosts_asked: vec![0; asked],
            over_time,
        })
    }

    /// A read command was fetched: the sectors to read ahead of it, as (first, count).
    pub fn on_read(&mut self, lpn: u32, sectors: u32) -> Option<(u32, u32)> {
        let found = position(&self.next, lpn);
        let index = found.unwrap_or_else(|| {
            let oldest = recency::by_age(&self.used).next();
            let index = oldest.expect("there is at least one stream");
            let over = std::mem::replace(&mut self.streams[index], NO_STREAM);
            if self.ghosts.is_none() && over.wasted_most(self.next[index]) {
                self.patience = self.patience.max(over.read);
            }
            if let Some(ghosts) = &self.ghosts {
                let n = ghosts.len();
                self.ghosts_asked[index * n..][..n].fill(0);
            }
            index
        });
        recency::touch(&mut self.used, index);
        self.next[index] = lpn + sectors;
        let stream = &mut self.streams[index];
        stream.length = stream.length.saturating_add(1);
        stream.read += u64::from(sectors);
        let goes_on = stream.length >= self.trigger
            && stream.read >= self.least
            && (stream.read > self.patience || stream.asked > 0);
        let asked = if goes_on { self.reach.ask(&mut stream.asked, lpn + sectors) } else { None };
        if let Some((first, _)) = asked
            && stream.from == 0
        {
            stream.from = first.into();
        }
        if !stream.proved
            && stream.from > 0
            && u64::from(lpn + sectors) >= stream.from + self.reach.sectors
        {
            stream.proved = true;
            self.patience /= 2;
        }
        if self.ghosts.is_some() {
            self.ghosts_read(lpn, sectors, goes_on.then_some(index));
        }
        asked
    }

    /// The ghosts see a read, and read ahead of its stream if it is one.
    fn ghosts_read(&mut self, lpn: u32, sectors: u32, stream: Option<usize>) {
        let Some(ghosts) = &mut self.ghosts else { return };
        ghosts.read(lpn, sectors);
        let Some(stream) = stream else { return };
        let n = ghosts.len();
        for ghost in 0..n {
            let reach = Reach { sectors: u64::from(ghosts.degree(ghost)), ..self.reach };
            let asked = &mut self.ghosts_asked[stream * n + ghost];
            if let Some((first, n)) = reach.ask(asked, self.next[stream]) {
                ghosts.ahead(ghost, first, n);
            }
        }
    }
    /// A write command arrived.
    #[inline]
    pub fn on_write(&mut self, lpn: u32, sectors: u32) {
        if let Some(ghosts) = &mut self.ghosts {
            ghosts.write(lpn, sectors);
        }
    }

    /// An epoch is over, and the partition has so many ways from here on.
    pub fn end_epoch(&mut self, now: Time, ways: u32) {
        let Some(ghosts) = &mut self.ghosts else { return };
        if let Some(sectors) = ghosts.choose()
            && u64::from(sectors) != self.reach.sectors
        {
            self.reach.sectors = u64::from(sectors);
            self.over_time.push((now, sectors));
        }
        self.set_ways(ways);
    }
    /// The partition has so many ways.
    pub fn set_ways(&mut self, ways: u32) {
        if let Some(ghosts) = &mut self.ghosts {
            ghosts.set_ways(ways);
        }
    }
    /// Ghosts choose how far ahead to read.
    pub fn adapts(&self) -> bool {
        self.ghosts.is_some()
    }
    /// Sectors kept ahead of a stream now.
    #[cfg(test)]
    pub fn sectors(&self) -> u64 {
        self.reach.sectors
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::GhostConfig;

    fn config(trigger: u32, streams: u32) -> ReadAheadConfig {
        ReadAheadConfig { trigger, streams, bytes: 64 << 10, ratio: 0.0, ghosts: None }
    }
    fn new(c: &ReadAheadConfig) -> Result<ReadAhead, BadValue> {
        ReadAhead::new(
            c,
            1 << 16,
            Shape { sets: 64, ways: 8, line_sectors: 1 },
            8,
            SectorSize::KIB_4,
        )
    }
    fn reader(trigger: u32, streams: u32) -> ReadAhead {
        new(&config(trigger, streams)).unwrap()
    }

    #[test]
    fn a_stream_starts_after_its_trigger_and_asks_for_each_sector_once() {
        let mut r = reader(3, 4);
        assert_eq!(r.on_read(0, 4), None);
        assert_eq!(r.on_read(4, 4), None);
        assert_eq!(r.on_read(8, 4), Some((12, 16)));
        assert_eq!(r.on_read(12, 4), Some((28, 4)));
        assert_eq!(r.on_read(500, 1), None);
        assert_eq!(r.on_read(16, 1), Some((32, 1)));
    }

    #[test]
    fn reads_in_several_commands_are_no_streams_once_that_is_known() {
        let mut r = reader(3, 2);
        // Each of four commands of 4 sectors: 16 ahead are for nothing.
        let large = |r: &mut ReadAhead, at: u32| {
            (0..4).filter_map(|i| r.on_read(at + 4 * i, 4)).map(|(_, n)| n).sum::<u32>()
        };
        let asked: Vec<u32> = (0..9).map(|i| large(&mut r, i * 100)).collect();
        assert_eq!(asked, [20, 20, 0, 0, 0, 0, 0, 0, 0], "known when the first of two is replaced");
        // A longer one is read ahead of, and that others are long is learned again.
        assert_eq!(large(&mut r, 2000), 0);
        assert_eq!(r.on_read(2016, 4), Some((2020, 16)));
        (2020..2036).for_each(|at| assert!(r.on_read(at, 1).is_some()));
        assert_eq!(r.patience, 8);
        assert_eq!(r.on_read(2036, 1), Some((2052, 1)), "a stream that goes on is not held up");
        assert_eq!(large(&mut r, 3000), 20);
        // One that used half of it was worth it.
        (2037..2100).for_each(|at| _ = r.on_read(at, 1));
        (0..2).for_each(|i| _ = r.on_read(4000 + 100 * i, 1));
        assert_eq!(r.patience, 16, "of the one at 3000");
    }

    #[test]
    fn streams_interleave_and_the_one_used_longest_ago_is_forgotten() {
        let mut r = reader(2, 2);
        assert_eq!((r.on_read(0, 1), r.on_read(100, 1)), (None, None));
        assert!(r.on_read(1, 1).is_some());
        assert!(r.on_read(101, 1).is_some());
        assert_eq!(r.on_read(500, 1), None);
        assert_eq!(r.on_read(2, 1), None, "the stream at 2 was replaced");
        assert_eq!(r.on_read(501, 1), None, "it used nothing of what was read ahead of it");
        assert!(r.on_read(502, 1).is_some());
    }

    #[test]
    fn read_ahead_stops_at_the_end_of_the_drive() {
        let mut r = reader(1, 1);
        r.reach.end = 1000;
        assert_eq!(r.on_read(990, 4), Some((994, 6)));
        assert_eq!(r.on_read(994, 6), None);
    }

    #[test]
    fn a_stream_has_to_have_read_its_share_of_a_unit() {
        let mut r = new(&ReadAheadConfig { ratio: 0.5, ..config(2, 1) }).unwrap();
        let asked: Vec<bool> = (0..5).map(|i| r.on_read(i, 1).is_some()).collect();
        assert_eq!(asked, [false, false, false, true, true], "four of eight sectors");
        let mut r = new(&ReadAheadConfig { ratio: 0.5, ..config(2, 1) }).unwrap();
        assert_eq!(r.on_read(0, 4), None, "and the trigger");
        assert!(r.on_read(4, 4).is_some());
    }

    #[test]
    fn ghosts_choose_how_far_and_half_of_it_is_fetched_at_a_time() {
        let ghosts = GhostConfig { sample: 1, ..Default::default() };
        let mut r = new(&ReadAheadConfig { ghosts: Some(ghosts), ..config(3, 2) }).unwrap();
        assert_eq!((r.on_read(0, 1), r.on_read(1, 1)), (None, None));
        assert_eq!(r.on_read(2, 1), Some((3, 16)));
        let next = (3..).find_map(|lpn| Some((lpn, r.on_read(lpn, 1)?)));
        assert_eq!(next, Some((11, (19, 9))), "less than half of 16 is left ahead");
        // Sectors in a row: one unit ahead has all of them, and more is no better.
        (12..400).for_each(|lpn| _ = r.on_read(lpn, 1));
        r.end_epoch(Time(5), 2);
        assert_eq!((r.sectors(), &r.over_time[..]), (8, &[(Time(0), 16), (Time(5), 8)][..]));
        // Streams too short to be worth it.
        r.reach.end = 1 << 20;
        for i in 0..400u32 {
            let first = 1000 + i * 200;
            (first..first + 3).for_each(|lpn| _ = r.on_read(lpn, 1));
        }
        r.end_epoch(Time(9), 2);
        assert_eq!(r.sectors(), 0);
        assert_eq!((0..9).find_map(|lpn| r.on_read(lpn, 1)), None);
    }

    #[test]
    fn wrong_ghosts_are_named() {
        let key = |g: GhostConfig| {
            new(&ReadAheadConfig { ghosts: Some(g), ..config(3, 2) }).err().map(|e| e.key)
        };
        let of = GhostConfig::default;
        assert_eq!(key(of()), None);
        let found = [
            key(GhostConfig { degrees: Vec::new(), ..of() }),
            key(GhostConfig { sample: 65, ..of() }),
            key(GhostConfig { penalty: -1.0, ..of() }),
            key(GhostConfig { hysteresis: f64::NAN, ..of() }),
        ];
        let wanted = ["degrees", "sample", "penalty", "hysteresis"];
        let wanted = wanted.map(|key| format!("cache.read_ahead.ghosts.{key}"));
        assert_eq!(found.map(|key| key.unwrap().to_string()), wanted);
        let wrong = ReadAheadConfig { ratio: -0.1, ..config(3, 2) };
        assert_eq!(new(&wrong).err().unwrap().key, "cache.read_ahead.ratio");
    }
}
