//! Read-ahead: recognises sequential streams among the read commands and says what to fetch.
//!
//! A stream is a next expected sector. A read that starts there continues the stream; after
//! `trigger` such reads in a row (the first included) everything up to `bytes` beyond the end of
//! the read is wanted. A read that continues no stream replaces the stream used longest ago. Reads
//! backwards and strides are not recognised.

use crate::config::ReadAheadConfig;
use wordline_base::{BadValue, SECTOR};

#[derive(Clone, Copy, Debug)]
struct Stream {
    next: u64,
    length: u32,
    /// Everything before it was asked for already.
    asked: u64,
    used: u64,
}

pub(crate) struct ReadAhead {
    trigger: u32,
    sectors: u64,
    streams: Vec<Stream>,
    tick: u64,
    /// The drive's size.
    end: u64,
}

impl ReadAhead {
    pub fn new(c: &ReadAheadConfig, end: u64) -> Result<ReadAhead, BadValue> {
        if c.trigger == 0 {
            return Err(BadValue::new("cache.read_ahead.trigger", "must be at least 1"));
        }
        if c.streams == 0 || c.streams > 1024 {
            let message = format!("is {}: must be 1 to 1024", c.streams);
            return Err(BadValue::new("cache.read_ahead.streams", message));
        }
        if c.bytes < SECTOR {
            return Err(BadValue::new("cache.read_ahead.bytes", "must be at least 4096"));
        }
        let blank = Stream { next: u64::MAX, length: 0, asked: 0, used: 0 };
        Ok(ReadAhead {
            trigger: c.trigger,
            sectors: c.bytes / SECTOR,
            streams: vec![blank; c.streams as usize],
            tick: 0,
            end,
        })
    }

    /// A read command arrived: the sectors to fetch ahead, as (first, count).
    pub fn on_read(&mut self, lpn: u32, sectors: u32) -> Option<(u32, u32)> {
        let (first, next) = (u64::from(lpn), u64::from(lpn) + u64::from(sectors));
        self.tick += 1;
        let found = self.streams.iter().position(|s| s.next == first);
        let index = found.unwrap_or_else(|| {
            let oldest = (0..self.streams.len()).min_by_key(|&i| self.streams[i].used);
            let index = oldest.expect("there is at least one stream");
            self.streams[index] = Stream { next: first, length: 0, asked: 0, used: 0 };
            index
        });
        let stream = &mut self.streams[index];
        stream.used = self.tick;
        stream.next = next;
        stream.length = stream.length.saturating_add(1);
        if stream.length < self.trigger {
            return None;
        }
        let to = (next + self.sectors).min(self.end);
        let from = stream.asked.max(next);
        if from >= to {
            return None;
        }
        stream.asked = to;
        Some((from as u32, (to - from) as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(trigger: u32, streams: u32) -> ReadAhead {
        ReadAhead::new(&ReadAheadConfig { trigger, streams, bytes: 64 << 10 }, 1000).unwrap()
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
    fn streams_interleave_and_the_one_used_longest_ago_is_forgotten() {
        let mut r = reader(2, 2);
        assert_eq!((r.on_read(0, 1), r.on_read(100, 1)), (None, None));
        assert!(r.on_read(1, 1).is_some());
        assert!(r.on_read(101, 1).is_some());
        assert_eq!(r.on_read(500, 1), None);
        assert_eq!(r.on_read(2, 1), None, "the stream at 2 was replaced");
        assert!(r.on_read(501, 1).is_some());
    }

    #[test]
    fn the_end_of_the_drive_is_the_end() {
        let mut r = reader(1, 1);
        assert_eq!(r.on_read(990, 4), Some((994, 6)));
        assert_eq!(r.on_read(994, 6), None);
    }
}
