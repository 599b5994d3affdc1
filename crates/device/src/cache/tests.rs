//! The cache by itself: what is replaced, what a flush waits for, and fills that lose to writes.

use super::*;

fn cache(lines: u64, ways: u32, line_sectors: u32) -> Cache {
    let sector = SectorSize::KIB_4;
    let config = CacheConfig {
        bytes: lines * sector.bytes_of(line_sectors),
        ways,
        line_bytes: sector.bytes_of(line_sectors) as u32,
        write_back: true,
        rate: 0,
        t_lookup: Default::default(),
        dirty_high: 100,
        dirty_max: 100,
        read_allocate: true,
        capacitor: false,
        read_ahead: None,
        refresh: None,
        partition: None,
        epoch: Default::default(),
    };
    Cache::new(&config, sector).unwrap()
}

#[test]
fn the_bits_of_a_mask_come_as_runs() {
    assert_eq!(runs(0b1101_1100).collect::<Vec<_>>(), [(2, 3), (6, 2)]);
    assert_eq!(runs(!0).collect::<Vec<_>>(), [(0, 64)]);
    assert_eq!(bits(3, 2), 0b11000);
}

#[test]
fn the_least_recently_used_clean_line_goes_first() {
    let mut c = cache(4, 4, 1);
    let ids: Vec<LineId> = (0..4).map(|n| c.allocate(n, 0).unwrap()).collect();
    c.touch(ids[0]);
    c.write(&mut Stamps::off(), 0, ids[1], 0, 1, IoClass::NONE);
    // 1 is dirty and 0 was touched: 2, then 3, then 0 go; then the set is full of dirty lines.
    for (number, gone) in [(10, 2), (11, 3), (12, 0)] {
        let id = c.allocate(number, 0).unwrap();
        c.write(&mut Stamps::off(), 0, id, 0, 1, IoClass::NONE);
        assert_eq!(c.find(gone), None);
    }
    assert_eq!(c.allocate(13, 0), Err(ids[1]), "the oldest dirty line is to be written back");
    assert_eq!(c.dirty_lines(), 4);
    c.assert_consistent();
}

#[test]
fn positions_are_retired_once_and_barriers_count_them() {
    let mut c = cache(8, 2, 4);
    let (a, b) = (c.allocate(0, 0).unwrap(), c.allocate(1, 0).unwrap());
    c.write(&mut Stamps::off(), 0, a, 0, 2, IoClass::NONE);
    c.write(&mut Stamps::off(), 0, b, 1, 1, IoClass::NONE);
    c.add_barrier(7);
    c.write(&mut Stamps::off(), 0, a, 3, 1, IoClass::NONE);
    let mut ready = VecDeque::new();
    let (first, _) = c.begin_write_back(a);
    c.write(&mut Stamps::off(), 0, a, 0, 1, IoClass::NONE);
    assert_eq!(c.line(a).dirty, 1, "a write during write-back keeps the sector dirty");
    assert!(c.line(a).position > first);
    assert!(!c.end_write_back(a));
    c.retire(first, &mut ready);
    assert!(ready.is_empty());
    let position = c.drop_sectors(b, 0, 4).unwrap();
    c.retire(position, &mut ready);
    assert_eq!(ready, [7], "the newer write of line a is not waited for");
    assert_eq!(c.oldest_dirty().unwrap().0, a);
    c.assert_consistent();
}

/// What is written right after a flush began may be with the FTL first.
#[test]
fn a_flush_does_not_count_the_position_after_it() {
    let mut c = cache(8, 2, 4);
    let (a, b) = (c.allocate(0, 0).unwrap(), c.allocate(1, 0).unwrap());
    c.write(&mut Stamps::off(), 0, a, 0, 1, IoClass::NONE);
    c.add_barrier(7);
    c.write(&mut Stamps::off(), 0, b, 0, 1, IoClass::NONE);
    let mut ready = VecDeque::new();
    let (later, _) = c.begin_write_back(b);
    c.end_write_back(b);
    c.retire(later, &mut ready);
    assert!(ready.is_empty(), "the flush waits for line a");
    let (first, _) = c.begin_write_back(a);
    c.end_write_back(a);
    c.retire(first, &mut ready);
    assert_eq!((ready, later), (VecDeque::from([7]), first + 1));
}

/// A line is written again while it is written back: who waits for the newer data waits for the
/// next write-back, whatever else the first one wakes, and in order.
#[test]
fn a_waiter_for_the_next_position_stays_until_that_one() {
    let mut c = cache(4, 4, 1);
    let a = c.allocate(0, 0).unwrap();
    c.write(&mut Stamps::off(), 0, a, 0, 1, IoClass::NONE);
    let (first, _) = c.begin_write_back(a);
    c.write(&mut Stamps::off(), 0, a, 0, 1, IoClass::NONE);
    let next = c.line(a).position;
    assert!(next > first);
    c.wait(a, 1, Wait::Retired(next));
    c.wait(a, 2, Wait::Change);
    c.wait(a, 3, Wait::Retired(first));
    c.wait(a, 4, Wait::Retired(next));
    let mut woken = VecDeque::new();
    let mut cmds = |c: &mut Cache, retired| {
        c.wake(a, retired, &mut woken);
        woken.drain(..).map(|w| w.cmd).collect::<Vec<_>>()
    };
    assert_eq!(cmds(&mut c, first - 1), [2], "a change that retires nothing of the line");
    c.wait(a, 5, Wait::Change);
    c.end_write_back(a);
    c.retire(first, &mut VecDeque::new());
    assert_eq!(cmds(&mut c, first), [3, 5]);
    assert_eq!(c.begin_write_back(a).0, next);
    c.end_write_back(a);
    c.retire(next, &mut VecDeque::new());
    assert_eq!(cmds(&mut c, next), [1, 4]);
    c.assert_consistent();
}
