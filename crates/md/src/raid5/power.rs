//! What a power cut leaves of an array, and how it is assembled again.

use super::{Disks, Io, Logged, Member, Phase, Raid5, Region, To, What};
use crate::config::PAGE;
use crate::contents::{PARTS, Pages, add};
use std::collections::{BTreeMap, BTreeSet};

impl Raid5 {
    /// The power goes. `reaches` says of each I/O that is out whether it is done all the same.
    pub fn cut(mut self, mut reaches: impl FnMut(&Io) -> bool) -> Disks {
        let mut dirty: BTreeSet<u64> =
            self.regions.iter().filter(|(_, r)| r.on_disk).map(|(region, _)| *region).collect();
        let mut journal: BTreeMap<u32, Logged> = std::mem::take(&mut self.log);
        let out: Vec<Io> = self.out_now().copied().collect();
        for io in out {
            let done = reaches(&io);
            match (io.what, io.to) {
                (What::Log, _) if !done => {
                    journal.remove(&io.stripe);
                }
                (What::Bitmap, _) if done => dirty.extend(&self.bits_written),
                (What::Write | What::Trim, To::Member(m)) if done => {
                    let head = &self.heads[io.stripe];
                    *self.held[m].at(head.row) = head.devs[m].page;
                }
                _ => {}
            }
        }
        Disks {
            layout: self.layout,
            guards: self.guards,
            members: self.members,
            held: self.held,
            dirty,
            journal: journal.into_values().collect(),
            acked: self.acked,
            taken: self.taken,
            writes: self.writes,
        }
    }

    pub(super) fn out_now(&self) -> impl Iterator<Item = &Io> {
        self.ios.records().filter(|(id, io)| io.id == *id).map(|(_, io)| io)
    }

    /// Nothing is out to the member: another drive may take its place.
    pub fn is_quiet(&self, member: u32) -> bool {
        self.out_now().all(|io| io.to != To::Member(member))
    }

    /// The array after a power cut: the journal is replayed, and rows whose parity may be wrong are to be looked
    /// at: those of regions that the bitmap has, or all.
    pub fn assemble(disks: Disks, stripes: u32) -> Raid5 {
        let Disks { layout, guards, members, mut held, dirty, journal, acked, mut taken, writes } =
            disks;
        for entry in &journal {
            for (m, page) in &entry.pages {
                *held[*m].at(entry.row) = *page;
            }
        }
        // Writes that were not acknowledged are there or not: what their sectors hold is what was written last.
        let mut acked = acked;
        let numbers: Vec<u64> = taken.numbers().collect();
        for page in numbers {
            let (m, offset) = layout.place(page * PAGE);
            let row = offset / PAGE;
            let mut there = held[m].get(row);
            if members[m] != Member::InSync {
                there = [0; PARTS];
                let others = (0..).zip(&held).filter(|(o, _)| *o != m);
                others.for_each(|(_, pages)| add(&mut there, &pages.get(row)));
            }
            let before = acked.get(page);
            let last = taken.at(page);
            for i in 0..PARTS {
                if there[i] == before[i] {
                    last[i] = before[i];
                }
            }
            *acked.at(page) = *last;
        }
        let mut raid = Raid5::new(layout, stripes, guards, true);
        (raid.members, raid.held, raid.taken, raid.acked) = (members, held, taken, acked);
        raid.writes = writes;
        raid.resync = match (guards.journal, guards.bitmap) {
            (Some(_), _) => None,
            (None, Some(_)) => Some(Some(dirty.clone())),
            (None, None) => Some(None),
        };
        for region in dirty {
            raid.regions.insert(region, Region { pending: 0, on_disk: true, idle: false });
        }
        raid
    }

    /// Rows whose parity is not the sum of their data, of those that are at rest on whole members.
    pub fn wrong_parities(&self) -> u64 {
        let rows: BTreeSet<u64> = self.held.iter().flat_map(Pages::numbers).collect();
        let at_rest = |row: &u64| {
            let flying = |&s: &u32| {
                let head = &self.heads[s];
                head.flying > 0
                    || matches!(head.phase, Phase::Writing | Phase::Logging | Phase::Syncing)
            };
            !self.by_row.get(row).is_some_and(flying)
                && (0..self.members.count()).all(|m| self.in_sync(m, *row))
        };
        let wrong = |row: &u64| {
            let mut sum = [0; PARTS];
            self.held.iter().for_each(|pages| add(&mut sum, &pages.get(*row)));
            sum != [0; PARTS]
        };
        rows.iter().filter(|row| at_rest(row) && wrong(row)).count() as u64
    }

    /// Pages of data that the array would return otherwise than they were acknowledged, without the member if one
    /// is named. At rest.
    pub fn lost_without(&self, member: Option<u32>) -> u64 {
        let lost = |page: &u64| {
            let (m, offset) = self.layout.place(page * PAGE);
            let row = offset / PAGE;
            let there = Some(m) != member && self.in_sync(m, row);
            let page_there = match there {
                true => self.held[m].get(row),
                false => {
                    let mut sum = [0; PARTS];
                    let others = (0..).zip(&self.held).filter(|(o, _)| *o != m);
                    others.for_each(|(_, pages)| add(&mut sum, &pages.get(row)));
                    sum
                }
            };
            let (acked, taken) = (self.acked.get(*page), self.taken.get(*page));
            (0..PARTS).any(|i| page_there[i] != acked[i] && page_there[i] != taken[i])
        };
        self.acked.numbers().filter(lost).count() as u64
    }
}
