//! Commands that wait until the FTL can take them, first come first served.

use crate::Source;
use std::collections::VecDeque;
use wordline_base::{Lpn, Stamps};

/// A command that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Sectors to be taken into the buffer.
    Write {
        /// The command's name.
        tag: u32,
        /// The first sector that has not been taken.
        lpn: u32,
        /// How many have not.
        left: u32,
        /// It ends when it is durable.
        fua: bool,
        /// A cache has stamped its sectors.
        cached: bool,
    },
    /// It ends when all that came before it is durable.
    Flush {
        /// The command's name.
        tag: u32,
    },
    /// Sectors to be unmapped.
    Trim {
        /// The command's name.
        tag: u32,
        /// The first sector.
        lpn: u32,
        /// How many there are.
        sectors: u32,
        /// Reads see the sectors as trimmed already.
        shown: bool,
    },
}

/// Commands that wait, in the order in which they came.
#[derive(Clone, Default, Debug)]
pub struct Commands {
    waiting: VecDeque<Command>,
    /// Versions of the sectors that a cache stamped, in order.
    stamps: VecDeque<u32>,
    /// Trims among them that reads find already.
    shown_trims: u32,
}

impl Commands {
    /// With memory for so many.
    pub fn with_capacity(commands: usize) -> Commands {
        Commands { waiting: VecDeque::with_capacity(commands), ..Commands::default() }
    }
    /// None waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
    /// The one that waits for longest.
    #[inline]
    pub fn first(&self) -> Option<Command> {
        self.waiting.front().copied()
    }
    /// A write comes.
    pub fn write(&mut self, tag: u32, lpn: Lpn, sectors: u32, fua: bool, source: Source) {
        let cached = match source {
            Source::Host => false,
            Source::Cache(stamps) => {
                debug_assert_eq!(stamps.len(), sectors as usize);
                self.stamps.extend(stamps);
                true
            }
        };
        self.waiting.push_back(Command::Write { tag, lpn: lpn.0, left: sectors, fua, cached });
    }
    /// A flush comes.
    pub fn flush(&mut self, tag: u32) {
        self.waiting.push_back(Command::Flush { tag });
    }
    /// A trim comes, which reads find when its turn comes.
    pub fn trim(&mut self, tag: u32, lpn: Lpn, sectors: u32) {
        self.waiting.push_back(Command::Trim { tag, lpn: lpn.0, sectors, shown: false });
    }
    /// A trim comes. Reads find it from now on, as [`Commands::trims`] tells them: a cache has dropped the sectors, and
    /// the map may have older ones. Behind a write of some of the sectors that waits they find it when its turn comes.
    pub fn show_trim(&mut self, tag: u32, lpn: Lpn, sectors: u32, stamps: &mut Stamps) {
        let shown = !self.writes(lpn, sectors);
        if shown {
            (lpn.0..lpn.0 + sectors).for_each(|lpn| stamps.show_trim(tag, Lpn(lpn)));
            self.shown_trims += 1;
        }
        self.waiting.push_back(Command::Trim { tag, lpn: lpn.0, sectors, shown });
    }
    /// Reads find this sector trimmed, whatever the map has.
    #[inline]
    pub fn trims(&self, lpn: Lpn) -> bool {
        self.shown_trims > 0 && self.has_shown_trim(lpn)
    }
    #[cold]
    fn has_shown_trim(&self, lpn: Lpn) -> bool {
        self.waiting.iter().any(|c| {
            matches!(*c, Command::Trim { lpn: at, sectors, shown: true, .. }
                if (at..at + sectors).contains(&lpn.0))
        })
    }
    /// A write of some of these sectors waits.
    pub fn writes(&self, lpn: Lpn, sectors: u32) -> bool {
        let end = lpn.0 + sectors;
        self.waiting.iter().any(
            |c| matches!(*c, Command::Write { lpn: at, left, .. } if at < end && lpn.0 < at + left),
        )
    }
    /// Sectors of writes that wait, with their stamps, as far as a cache gave them.
    pub fn stamped(&self) -> impl Iterator<Item = (Lpn, u32)> + '_ {
        let sectors = self.waiting.iter().filter_map(|c| match *c {
            Command::Write { lpn, left, cached: true, .. } => Some(lpn..lpn + left),
            _ => None,
        });
        sectors.flatten().map(Lpn).zip(self.stamps.iter().copied())
    }
    /// The version of the next sector of the first write, which becomes visible with that.
    #[inline]
    pub fn stamp(&mut self, tag: u32, cached: bool, stamps: &mut Stamps, lpn: u32) -> u32 {
        match cached {
            true => self.stamps.pop_front().expect("a stamp a cached sector"),
            false => stamps.show(tag, Lpn(lpn)),
        }
    }
    /// So many sectors of the first write have been taken; it is over with the last.
    #[inline]
    pub fn took(&mut self, sectors: u32) {
        if let Some(Command::Write { lpn, left, .. }) = self.waiting.front_mut() {
            (*lpn, *left) = (*lpn + sectors, *left - sectors);
            if *left == 0 {
                self.waiting.pop_front();
            }
        }
    }
    /// The first is over.
    pub fn pop(&mut self) {
        if let Some(Command::Trim { shown: true, .. }) = self.waiting.pop_front() {
            self.shown_trims -= 1;
        }
    }
    /// The first will never be taken. Answers how many sectors a cache has dropped the only copy of.
    pub fn refuse(&mut self) -> u64 {
        let first = self.first();
        self.pop();
        match first {
            Some(Command::Write { left, cached: true, .. }) => {
                self.stamps.drain(..left as usize);
                left.into()
            }
            _ => 0,
        }
    }
}
