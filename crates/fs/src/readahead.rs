//! Which pages a read brings in beyond its own: `ondemand_readahead` of Linux 4.14
//! (mm/readahead.c), decision by decision.

/// What an open file remembers (`struct file_ra_state`), in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadAhead {
    pub start: u64,
    pub size: u64,
    /// How much of the window is left when the next one is started.
    pub async_size: u64,
    /// Page of the last read; none at first, as the kernel's -1.
    pub prev: Option<u64>,
    /// The largest window; 0 is none at all.
    pub max: u64,
    /// The largest request: a read of more pages than `max` has a window up to this (since 4.10).
    pub io: u64,
    /// posix_fadvise(POSIX_FADV_RANDOM).
    pub random: bool,
}

/// Pages to bring in, the first, how many, and which one starts the next window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    pub start: u64,
    pub count: u64,
    pub mark: Option<u64>,
}

/// What the cache holds of the file.
pub trait Cached {
    fn has(&self, page: u64) -> bool;
}

impl ReadAhead {
    pub fn new(max: u64) -> ReadAhead {
        ReadAhead { start: 0, size: 0, async_size: 0, prev: None, max, io: 0, random: false }
    }

    /// A page of a read is missing: `page` and `wanted` pages from there on.
    pub fn missing(&mut self, cache: &impl Cached, page: u64, wanted: u64) -> Window {
        if self.max == 0 {
            // One page after the other.
            return Window { start: page, count: 1, mark: None };
        }
        if self.random {
            // force_page_cache_readahead
            let count = wanted.min(self.io.max(self.max));
            return Window { start: page, count, mark: None };
        }
        self.on_demand(cache, page, wanted, false).unwrap_or(Window {
            start: page,
            count: wanted,
            mark: None,
        })
    }

    /// A read came to the page that was marked.
    pub fn marked(&mut self, cache: &impl Cached, page: u64, wanted: u64) -> Option<Window> {
        if self.max == 0 { None } else { self.on_demand(cache, page, wanted, true) }
    }

    fn on_demand(
        &mut self,
        cache: &impl Cached,
        page: u64,
        wanted: u64,
        marked: bool,
    ) -> Option<Window> {
        let max = if wanted > self.max { wanted.min(self.io).max(self.max) } else { self.max };
        if page == 0 {
            self.initial(page, wanted, max);
        } else if page == self.start + self.size - self.async_size || page == self.start + self.size
        {
            self.start += self.size;
            self.size = self.next_size(max);
            self.async_size = self.size;
        } else if marked {
            // Interleaved streams: the state is another's, the mark is this one's.
            let hole = (page + 1..=page + max).find(|&p| !cache.has(p))?;
            self.start = hole;
            self.size = hole - page + wanted;
            self.size = self.next_size(max);
            self.async_size = self.size;
        } else if wanted > max || self.follows(page) {
            self.initial(page, wanted, max);
        } else if !self.has_history(cache, page, wanted, max) {
            return Some(Window { start: page, count: wanted, mark: None });
        }
        if page == self.start && self.size == self.async_size {
            // It would meet its own mark: the next window at once.
            self.async_size = self.next_size(max);
            self.size += self.async_size;
        }
        Some(Window {
            start: self.start,
            count: self.size,
            mark: Some(self.start + self.size - self.async_size),
        })
    }

    fn initial(&mut self, page: u64, wanted: u64, max: u64) {
        self.start = page;
        self.size = initial_size(wanted, max);
        self.async_size = if self.size > wanted { self.size - wanted } else { self.size };
    }

    /// get_next_ra_size.
    fn next_size(&self, max: u64) -> u64 {
        let size = if self.size < max / 16 { self.size * 4 } else { self.size * 2 };
        size.min(max)
    }

    /// The read begins in the page of the last one or in the next.
    fn follows(&self, page: u64) -> bool {
        match self.prev {
            // (unsigned long)-1 >> PAGE_SHIFT: nothing follows that.
            None => false,
            Some(prev) => page.wrapping_sub(prev) <= 1,
        }
    }

    /// try_context_readahead: pages before this one are cached, as a stream leaves them.
    fn has_history(&mut self, cache: &impl Cached, page: u64, wanted: u64, max: u64) -> bool {
        let most = max.min(page);
        let mut size = (1..=most).take_while(|&n| cache.has(page - n)).count() as u64;
        if size <= wanted {
            return false;
        }
        if size >= page {
            size *= 2;
        }
        self.start = page;
        self.size = (size + wanted).min(max);
        self.async_size = 1;
        true
    }
}

/// get_init_ra_size.
fn initial_size(wanted: u64, max: u64) -> u64 {
    let size = wanted.next_power_of_two();
    if size <= max / 32 {
        size * 4
    } else if size <= max / 4 {
        size * 2
    } else {
        max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    impl Cached for BTreeSet<u64> {
        fn has(&self, page: u64) -> bool {
            self.contains(&page)
        }
    }

    /// Reads `wanted` pages at `page` as generic_file_buffered_read does.
    fn read(
        ra: &mut ReadAhead,
        cache: &mut BTreeSet<u64>,
        marks: &mut BTreeSet<u64>,
        page: u64,
        wanted: u64,
    ) -> Vec<(u64, u64)> {
        let mut windows = Vec::new();
        for p in page..page + wanted {
            let left = page + wanted - p;
            let mut add = |w: Window, cache: &mut BTreeSet<u64>, marks: &mut BTreeSet<u64>| {
                windows.push((w.start, w.count));
                for q in w.start..w.start + w.count {
                    if cache.insert(q) && w.mark == Some(q) {
                        marks.insert(q);
                    }
                }
            };
            if !cache.contains(&p) {
                let w = ra.missing(cache, p, left);
                add(w, cache, marks);
            }
            if marks.remove(&p)
                && let Some(w) = ra.marked(cache, p, left)
            {
                add(w, cache, marks);
            }
            ra.prev = Some(p);
        }
        windows
    }

    #[test]
    fn the_table_of_mm_readahead() {
        // Windows for sequential 4 KiB reads from the start of a file, 128 KiB of read-ahead: 4
        // pages, then 8, 16, 32, 32, each started at the mark of the one before.
        let (mut ra, mut cache, mut marks) = (ReadAhead::new(32), BTreeSet::new(), BTreeSet::new());
        let mut seen = Vec::new();
        for page in 0..100 {
            for w in read(&mut ra, &mut cache, &mut marks, page, 1) {
                seen.push((page, w));
            }
        }
        assert_eq!(
            seen,
            [
                (0, (0, 4)),
                (1, (4, 8)),
                (4, (12, 16)),
                (12, (28, 32)),
                (28, (60, 32)),
                (60, (92, 32)),
                (92, (124, 32))
            ]
        );
        // 16 pages at a time from the start: a power of two above a quarter of the window is the
        // whole window.
        let (mut ra, mut cache, mut marks) = (ReadAhead::new(32), BTreeSet::new(), BTreeSet::new());
        assert_eq!(read(&mut ra, &mut cache, &mut marks, 0, 16), [(0, 32)]);
        assert_eq!(read(&mut ra, &mut cache, &mut marks, 16, 16), [(32, 32)]);
        // A read at random brings in itself.
        let (mut ra, mut cache, mut marks) = (ReadAhead::new(32), BTreeSet::new(), BTreeSet::new());
        assert_eq!(read(&mut ra, &mut cache, &mut marks, 700, 2), [(700, 2)]);
        assert_eq!(read(&mut ra, &mut cache, &mut marks, 300, 2), [(300, 2)]);
        // ... and one that follows it is the start of a stream: 2 pages, doubled twice.
        assert_eq!(read(&mut ra, &mut cache, &mut marks, 302, 2), [(302, 4)]);
        // Larger than the window: the window.
        assert_eq!(read(&mut ra, &mut cache, &mut marks, 900, 40)[0], (900, 64));
        // Not so where the drive takes more at once: the read alone, or as much again where a stream begins or
        // the read is larger than a request.
        for (page, wanted, first) in [(900, 256, 256), (0, 256, 512), (900, 1024, 640)] {
            let mut ra = ReadAhead { io: 320, ..ReadAhead::new(32) };
            let (mut cache, mut marks) = (BTreeSet::new(), BTreeSet::new());
            assert_eq!(read(&mut ra, &mut cache, &mut marks, page, wanted)[0], (page, first));
        }
        // A drive that takes less than the window does not make it smaller.
        let mut ra = ReadAhead { io: 8, ..ReadAhead::new(32) };
        assert_eq!(read(&mut ra, &mut BTreeSet::new(), &mut marks, 900, 40)[0], (900, 64));
        // Advised as random, and none at all.
        let mut ra = ReadAhead { random: true, ..ReadAhead::new(32) };
        assert_eq!(read(&mut ra, &mut BTreeSet::new(), &mut marks, 0, 3), [(0, 3)]);
        let mut ra = ReadAhead::new(0);
        assert_eq!(read(&mut ra, &mut BTreeSet::new(), &mut marks, 0, 2), [(0, 1), (1, 1)]);
    }

    #[test]
    fn pages_cached_before_a_read_make_it_part_of_a_stream() {
        let cache: BTreeSet<u64> = (90..100).collect();
        let mut ra = ReadAhead::new(32);
        let w = ra.missing(&cache, 100, 1);
        assert_eq!((w.start, w.count, w.mark), (100, 11, Some(110)));
        // From the very start of the file the history counts twice.
        let cache: BTreeSet<u64> = (0..5).collect();
        let w = ReadAhead::new(32).missing(&cache, 5, 1);
        assert_eq!((w.start, w.count, w.mark), (5, 11, Some(15)));
    }

    #[test]
    fn a_stray_mark_starts_behind_what_is_cached() {
        let cache: BTreeSet<u64> = (100..108).collect();
        let mut ra = ReadAhead { start: 900, size: 4, async_size: 3, ..ReadAhead::new(32) };
        let w = ra.marked(&cache, 103, 1).unwrap();
        // The first hole is 108: 5 pages of old window, 1 wanted, doubled.
        assert_eq!((w.start, w.count, w.mark), (108, 12, Some(108)));
        assert_eq!(ra.marked(&(0..200).collect::<BTreeSet<u64>>(), 103, 1), None);
    }
}
