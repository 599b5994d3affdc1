//! Arrays under random histories: members answer in any order, are lost, come back, and lose their power.

use crate::contents::content;
use crate::*;
use std::collections::BTreeMap;
use wordline_base::{IoClass, Rng};

/// An array whose members answer when they are told to.
struct World {
    raid: Raid5,
    rng: Rng,
    /// I/Os that are out.
    out: Vec<Io>,
    /// Pages of each bio that are not over, and those that nobody has taken yet.
    bios: BTreeMap<u32, (u32, Vec<PageOf>)>,
    trims: BTreeMap<u32, Vec<u64>>,
    next: u32,
    failed: u32,
    ended: u32,
    /// A read of a hundred thousand fails.
    read_errors: u64,
}

fn layout(rng: &mut Rng) -> Layout {
    let (members, chunk) = (3 + rng.below(6) as usize, PAGE << rng.below(4));
    let names: Vec<(&str, u64)> = vec![("d", chunk * (6 + rng.below(10))); members];
    Layout::new(Level::Raid5, chunk, &names, None, 0).unwrap()
}

impl World {
    fn new(raid: Raid5, rng: Rng) -> World {
        World {
            raid,
            rng,
            out: Vec::new(),
            bios: BTreeMap::new(),
            trims: BTreeMap::new(),
            next: 0,
            failed: 0,
            ended: 0,
            read_errors: 0,
        }
    }
    fn random(seed: u64, guards: Guards) -> World {
        let mut rng = Rng::from_seed(seed);
        let layout = layout(&mut rng);
        let stripes = 17 + rng.below(80) as u32;
        World::new(Raid5::new(layout, stripes, guards, true), rng)
    }
    fn bytes(&self) -> u64 {
        self.raid.layout().bytes()
    }
    /// The pages of a bio of these bytes.
    fn bio(&mut self, byte: u64, len: u64, write: bool) {
        let bio = self.next;
        self.next += 1;
        let mut pages = Vec::new();
        let (mut at, end) = (byte, byte + len);
        while at < end {
            let to = ((at / PAGE + 1) * PAGE).min(end);
            let len = (to - at) as u32;
            pages.push(PageOf { bio, byte: at, len, write, fua: false, class: IoClass::NONE });
            at = to;
        }
        self.bios.insert(bio, (pages.len() as u32, pages));
        self.submit(bio);
    }
    /// As much of it as there is room for.
    fn submit(&mut self, bio: u32) {
        let mut held = Vec::new();
        if let Some((_, pages)) = self.bios.get_mut(&bio) {
            while let Some(page) = pages.first() {
                let Added::To(s) = self.raid.add(*page) else { break };
                held.push(s);
                pages.remove(0);
            }
        }
        if let Some(rows) = self.trims.get_mut(&bio) {
            while let Some(row) = rows.first() {
                let Added::To(s) = self.raid.add_trim(bio, *row) else { break };
                held.push(s);
                rows.remove(0);
            }
        }
        held.into_iter().for_each(|s| self.raid.release(s));
    }
    fn trim(&mut self, row: u64, rows: u64) {
        let bio = self.next;
        self.next += 1;
        self.trims.insert(bio, (row..row + rows).collect());
        self.bios.insert(bio, (rows as u32, Vec::new()));
        self.submit(bio);
    }
    fn drain(&mut self) {
        while let Some(out) = self.raid.poll() {
            match out {
                Out::Io(io) => self.out.push(io),
                Out::Ended { bio, ok } => {
                    self.failed += u32::from(!ok);
                    self.ended += 1;
                    let left = self.bios.get_mut(&bio).expect("a bio ends once");
                    left.0 -= 1;
                    if left.0 == 0 {
                        self.bios.remove(&bio);
                        self.trims.remove(&bio);
                    }
                }
                Out::Room => {
                    let waiting: Vec<u32> = self.bios.keys().copied().collect();
                    waiting.into_iter().for_each(|bio| self.submit(bio));
                }
                Out::Synced | Out::Rebuilt { .. } | Out::Lost { .. } => {}
            }
        }
    }
    /// One thing happens: a stripe is handled, or an I/O comes back.
    fn step(&mut self) -> bool {
        self.drain();
        let handles = self.out.is_empty() || self.rng.below(2) == 0;
        if handles && let Some(s) = self.raid.next_stripe() {
            self.raid.handle(s);
            return true;
        }
        if self.out.is_empty() {
            return false;
        }
        let at = self.rng.below(self.out.len() as u64) as usize;
        let io = self.out.swap_remove(at);
        let ok = !(io.what.reads() && self.rng.below(100_000) < self.read_errors);
        self.raid.io_done(io.id, ok);
        true
    }
    fn settle(&mut self) {
        while self.step() {}
        self.drain();
    }
    fn random_io(&mut self) {
        let parts = self.bytes() / 512;
        let write = self.rng.below(3) > 0;
        match self.rng.below(20) {
            0 => {
                let rows = self.raid.layout().used / PAGE;
                let row = self.rng.below(rows);
                let n = 1 + self.rng.below((rows - row).min(4));
                self.trim(row, n);
            }
            1..=3 => {
                // Whole rows of chunks.
                let row = self.raid.layout().row();
                let at = self.rng.below(self.bytes() / row) * row;
                self.bio(at, row, write);
            }
            4..=7 => {
                let at = self.rng.below(parts);
                let len = 1 + self.rng.below((parts - at).min(40));
                self.bio(at * 512, len * 512, write);
            }
            _ => {
                let at = self.rng.below(parts / 8);
                let len = 1 + self.rng.below((parts / 8 - at).min(9));
                self.bio(at * PAGE, len * PAGE, write);
            }
        }
    }
    fn history(&mut self, ios: u32) {
        for _ in 0..ios {
            self.random_io();
            let steps = self.rng.below(30);
            for _ in 0..steps {
                self.step();
            }
        }
    }
    /// Rows that are to be rebuilt or looked at, some at a time.
    fn sync(&mut self, at_once: u64) {
        for _ in 0..at_once {
            let Some(row) = self.raid.next_sync() else { return };
            match self.raid.sync(row) {
                Added::To(s) => self.raid.release(s),
                _ => return self.raid.sync_later(row),
            }
        }
    }
    #[track_caller]
    fn right(&self, seed: u64) {
        let (checked, wrong) = self.raid.checked();
        assert_eq!(wrong, 0, "seed {seed}: of {checked} look-ups");
        assert_eq!(self.failed, 0, "seed {seed}: pages of bios failed");
        assert_eq!(self.raid.wrong_parities(), 0, "seed {seed}");
        assert_eq!(self.raid.lost_without(None), 0, "seed {seed}");
    }
    #[track_caller]
    fn at_rest(&self, seed: u64) {
        assert!(self.bios.is_empty(), "seed {seed}: {:?} never end", self.bios);
        assert!(self.raid.is_idle(), "seed {seed}: something is left");
    }
}

#[test]
fn contents_of_different_writes_differ() {
    assert_eq!(content(7, 0), 0);
    let of: Vec<u64> = (1..100).flat_map(|w| (0..100).map(move |p| content(p, w))).collect();
    let mut all = of.clone();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), of.len());
}

/// After any history the parity is the sum of the data, and any one member can be lost.
#[test]
fn parity_is_the_sum_after_any_history() {
    let mut looked = 0;
    for seed in 0..300 {
        let mut w = World::random(seed, Guards::default());
        w.read_errors = if seed % 3 == 0 { 300 } else { 0 };
        for _ in 0..4 {
            w.history(40);
            if w.read_errors == 0 {
                assert_eq!(w.raid.wrong_parities(), 0, "seed {seed}");
            }
        }
        w.settle();
        w.at_rest(seed);
        w.right(seed);
        for m in 0..w.raid.layout().members {
            assert_eq!(w.raid.lost_without(Some(m)), 0, "seed {seed}: without {m}");
        }
        looked += w.raid.checked().0;
    }
    assert!(looked > 100_000, "{looked}");
}

#[test]
fn a_lost_member_loses_nothing_while_it_is_away() {
    lose_a_member(true);
}

#[test]
fn a_lost_member_that_is_replaced_at_once_loses_nothing() {
    lose_a_member(false);
}

/// A member is lost in the middle, and another drive takes its place: nothing is lost, while it is `away` if it is,
/// while it is filled, and after that.
fn lose_a_member(away: bool) {
    let (mut degraded, mut rebuilt) = (0, 0);
    for seed in (u64::from(!away)..500).step_by(2) {
        let mut w = World::random(seed, Guards::default());
        w.history(60);
        let lost = w.rng.below(u64::from(w.raid.layout().members)) as u32;
        w.raid.fail(lost);
        w.history(60);
        let mut limit = 100_000;
        while !w.raid.is_quiet(lost) {
            w.step();
            limit -= 1;
            assert!(limit > 0, "seed {seed}");
        }
        if away {
            w.settle();
            w.right(seed);
        }
        degraded += w.raid.stats.degraded_reads;
        w.raid.replace(lost);
        while w.raid.syncs() {
            w.sync(4);
            w.history(1);
            limit -= 1;
            assert!(limit > 0, "seed {seed}: rebuilding does not end");
        }
        rebuilt += w.raid.stats.rebuilt_pages;
        w.history(30);
        w.settle();
        w.at_rest(seed);
        w.right(seed);
        for m in 0..w.raid.layout().members {
            assert_eq!(w.raid.lost_without(Some(m)), 0, "seed {seed}: without {m}");
        }
    }
    assert!(degraded > 500 && rebuilt > 500, "{degraded} {rebuilt}");
}

/// Two lost members are one too many: what is on them fails, and nothing is made up.
#[test]
fn two_lost_members_fail_what_is_on_them() {
    for seed in 0..100 {
        let mut w = World::random(seed, Guards::default());
        w.history(40);
        w.raid.fail(0);
        w.raid.fail(1);
        w.history(60);
        w.settle();
        w.at_rest(seed);
        assert_eq!(w.raid.checked().1, 0, "seed {seed}");
        assert!(w.failed > 0, "seed {seed}");
    }
}

/// The power goes at any moment, and each write that is out is done or not. Then a member is lost.
fn holes(guards: Guards, resync: bool) -> u64 {
    let mut holes = 0;
    for seed in 0..300 {
        let mut w = World::random(seed, guards);
        for _ in 0..3 {
            w.history(25);
            let mut rng = Rng::from_seed(w.rng.below(u64::MAX));
            let World { raid, rng: own, .. } = w;
            let stripes = 40;
            let mut raid = Raid5::assemble(raid.cut(|_| rng.below(2) == 0), stripes);
            assert_eq!(raid.lost_without(None), 0, "seed {seed}: what was acknowledged is there");
            if resync {
                w = World::new(raid, own);
                let mut limit = 100_000;
                while w.raid.syncs() {
                    w.sync(3);
                    if limit % 3 == 0 {
                        w.random_io();
                    }
                    (0..20).for_each(|_| {
                        w.step();
                    });
                    limit -= 1;
                    assert!(limit > 0, "seed {seed}: looking at parity does not end");
                }
                w.settle();
                w.right(seed);
            } else {
                while raid.next_sync().is_some() {}
                w = World::new(raid, own);
            }
            let members = w.raid.layout().members;
            holes += (0..members).map(|m| w.raid.lost_without(Some(m))).sum::<u64>();
        }
    }
    holes
}

#[test]
fn a_power_cut_leaves_a_hole_that_a_journal_closes() {
    let journal = Guards { journal: Some(1 << 20), bitmap: None };
    let bitmap = Guards { journal: None, bitmap: Some(16 << 10) };
    let open = holes(Guards::default(), false);
    assert!(open > 100, "{open}");
    assert_eq!(holes(journal, false), 0);
    assert!(holes(bitmap, false) > 100, "a bitmap says where the hole is, and leaves it");
    assert_eq!(holes(bitmap, true), 0, "until these rows have been looked at");
    assert_eq!(holes(Guards::default(), true), 0);
}

/// A bitmap spares all rows that were not written lately.
#[test]
fn a_bitmap_names_the_rows_to_look_at() {
    let guards = Guards { journal: None, bitmap: Some(PAGE) };
    let names = vec![("d", 4096 * 4096); 4];
    let layout = Layout::new(Level::Raid5, 65536, &names, None, 0).unwrap();
    let mut w = World::new(Raid5::new(layout, 64, guards, true), Rng::from_seed(3));
    for i in 0..200 {
        w.bio(i * 16 * PAGE, PAGE, true);
        w.settle();
    }
    for _ in 0..2 {
        w.raid.tidy_bitmap();
        w.settle();
    }
    w.bio(0, PAGE, true);
    w.bio(400 * PAGE, 3 * PAGE, true);
    w.settle();
    let mut raid = Raid5::assemble(w.raid.cut(|_| true), 64);
    let mut rows = 0;
    while raid.next_sync().is_some() {
        rows += 1;
    }
    assert!((2..=4).contains(&rows), "{rows} rows of 4096");
}

/// What one write of a page costs, of a whole row, and a read of a lost page.
#[test]
fn small_and_full_writes_cost_what_they_must() {
    for members in 3..=8u64 {
        let names = vec![("d", 65536 * 64); members as usize];
        let layout = Layout::new(Level::Raid5, 65536, &names, None, 0).unwrap();
        let row = layout.row();
        let mut w = World::new(Raid5::new(layout, 64, Guards::default(), true), Rng::from_seed(1));
        let ios = |w: &mut World| {
            let mut reads_writes = (0, 0);
            loop {
                w.drain();
                if let Some(s) = w.raid.next_stripe() {
                    w.raid.handle(s);
                    continue;
                }
                if w.out.is_empty() {
                    return reads_writes;
                }
                for io in std::mem::take(&mut w.out) {
                    match io.what.reads() {
                        true => reads_writes.0 += 1,
                        false => reads_writes.1 += 1,
                    }
                    w.raid.io_done(io.id, true);
                }
            }
        };
        w.bio(5 * row, PAGE, true);
        // Old data and parity, or all other data: whichever is less; of equals the latter.
        assert_eq!(ios(&mut w), (2.min(members - 2), 2), "{members} members");
        w.bio(6 * row, row, true);
        assert_eq!(ios(&mut w), (0, members * 16), "{members} members");
        assert_eq!(w.raid.stats.full_writes, 16);
        w.raid.fail(w.raid.layout().place(7 * row).0);
        w.bio(7 * row, PAGE, false);
        assert_eq!(ios(&mut w), (members - 1, 0), "{members} members");
        w.right(0);
    }
}

/// Reads of a member that makes room go to the others, unless one of these does too.
#[test]
fn reads_go_around_a_busy_member_alone() {
    for seed in 0..50 {
        let mut w = World::random(seed, Guards::default());
        w.history(30);
        w.settle();
        let members = w.raid.layout().members;
        let busy = w.rng.below(u64::from(members)) as u32;
        w.raid.set_busy(busy, true);
        assert!((0..members).all(|m| w.raid.goes_around(m) == (m == busy)), "seed {seed}");
        for _ in 0..40 {
            let byte = w.rng.below(w.bytes() / PAGE) * PAGE;
            w.bio(byte, PAGE, false);
            while let Some(s) = w.raid.next_stripe() {
                w.raid.handle(s);
            }
            w.drain();
            assert!(w.out.iter().all(|io| io.to != To::Member(busy)), "seed {seed}");
            w.settle();
        }
        w.right(seed);
        let other = (busy + 1) % members;
        w.raid.set_busy(other, true);
        assert!(!w.raid.goes_around(busy) && !w.raid.goes_around(other), "seed {seed}");
    }
}

/// A lost drive may begin to make room, and nobody hears of its end: a spare in its place makes none.
#[test]
fn a_spare_makes_no_room_that_the_lost_drive_began() {
    for seed in 0..50 {
        let mut w = World::random(seed, Guards::default());
        w.history(30);
        w.settle();
        let members = w.raid.layout().members;
        let lost = w.rng.below(u64::from(members)) as u32;
        w.raid.fail(lost);
        w.settle();
        w.raid.set_busy(lost, true);
        w.raid.replace(lost);
        for _ in 0..10_000 {
            w.sync(4);
            w.settle();
        }
        assert!(!w.raid.syncs(), "seed {seed}");
        assert!((0..members).all(|m| !w.raid.goes_around(m)), "seed {seed}");
        let other = (lost + 1) % members;
        w.raid.set_busy(other, true);
        assert!(w.raid.goes_around(other), "seed {seed}");
        w.right(seed);
    }
}
