//! Who waits for whom on a file and on a directory.

use super::*;

fn io(write: bool, file: u32, page: u64, queued: bool) -> Op {
    let (offset, len, direct) = (page * 4096, 4096, true);
    match write {
        true => Op::Write { file, offset, len, direct, sync: false, data_only: false, queued },
        false => Op::Read { file, offset, len, direct, queued },
    }
}

/// Three tasks on two files that are laid out and open.
fn laid_out(c: &FsConfig) -> Machine {
    let mut fs = Fs::new(c, DRIVE, 3).unwrap();
    files(&mut fs, 8);
    (0..2).for_each(|f| assert!(fs.lay_out(f, 1 << 20)));
    let mut m = Machine::of(fs, 3);
    for t in 0..3 {
        m.give(t, [open(0), open(1)]);
    }
    m.finish();
    // The time stamps of this step are there.
    m.call([write(0, 0, 4096), write(1, 0, 4096), fsync(0), fsync(1)]);
    m.idle_for(Span(100));
    (m.fs.stats, m.done) = (FsStats::default(), Vec::new());
    m.bios.clear();
    m
}
/// One call of each task, a moment after that of the one before; when each came back.
fn one_after_the_other(m: &mut Machine, ops: [Op; 3]) -> [u64; 3] {
    let start = m.now;
    let mut back = [0; 3];
    for (t, op) in (0..).zip(ops) {
        m.give(t, [op]);
        m.idle_for(Span(2000));
    }
    while m.busy() {
        assert!(m.step(Time::NEVER));
        for &(t, _, ok) in &m.done {
            assert!(ok);
            let at = &mut back[t as usize];
            *at = if *at == 0 { m.now.0 - start.0 } else { *at };
        }
    }
    back
}
fn setting(kind: FsKind, nolock: bool) -> FsConfig {
    let mut c = config(kind);
    c.ext4.dioread_nolock = nolock;
    // No change of a time stamp comes between.
    c.time_granularity = Span::from_secs(1000);
    c
}

/// A read, a write and a read, all past the cache and each longer than the moments between them. On ext4 the write
/// waits for the read before it, and the read behind it for the write: a slow read is met three times. On XFS, or on
/// files of their own, nobody waits. An asynchronous call holds the lock for its submission alone.
#[test]
fn a_direct_write_has_its_file_alone_on_ext4() {
    const ALONE: u64 = 12_000;
    for (kind, nolock, second, queued, waits) in [
        (FsKind::Ext4, false, 0, false, 2),
        (FsKind::Ext4, true, 0, false, 3),
        (FsKind::Ext4, false, 1, false, 0),
        (FsKind::Ext4, false, 0, true, 0),
        (FsKind::Xfs, false, 0, false, 0),
    ] {
        let mut m = laid_out(&setting(kind, nolock));
        let ops = [io(false, 0, 8, queued), io(true, second, 9, queued), io(false, 0, 10, queued)];
        let back = one_after_the_other(&mut m, ops);
        assert_eq!(m.fs.stats.lock_waits, waits, "{kind:?}: {back:?}");
        if waits == 0 {
            assert!(back.iter().max().unwrap() < &(2 * ALONE), "{kind:?}: {back:?}");
        } else if !nolock {
            assert!(back[1] > 2 * (ALONE - 2000) && back[2] > back[1] + 9000, "{back:?}");
        } else {
            // The write waits, and the read behind it goes beside its I/O. Before it returns it waits once more.
            assert!(back[1] > 2 * (ALONE - 2000) && back[2] < back[1] + 5000, "{back:?}");
        }
    }
}

/// With `dioread_nolock` reads go beside a write over written blocks, and not beside one that needs blocks.
#[test]
fn an_overwrite_leaves_the_lock_with_dioread_nolock() {
    // A read takes 11 us, and of a hole none.
    for (nolock, hole, ends) in [
        (false, false, 20_000..30_000),
        (true, false, 12_000..15_000),
        (true, true, 10_000..15_000),
    ] {
        let mut m = laid_out(&setting(FsKind::Ext4, nolock));
        if hole {
            m.call([open(2), Op::Truncate { file: 2, size: 1 << 20 }]);
            m.fs.stats = FsStats::default();
            m.done.clear();
        }
        let file = if hole { 2 } else { 0 };
        let ops = [io(true, file, 8, false), io(false, file, 10, false), Op::Stat { file }];
        let back = one_after_the_other(&mut m, ops);
        assert!(ends.contains(&back[1]), "nolock {nolock}, hole {hole}: {back:?}");
    }
}

/// A buffered read waits for a writer on XFS alone.
#[test]
fn a_buffered_read_waits_for_a_writer_on_xfs() {
    for (kind, waits) in [(FsKind::Ext4, 0), (FsKind::Xfs, 1)] {
        let mut m = laid_out(&setting(kind, false));
        m.call([read(0, 0, 4096)]);
        (m.fs.stats, m.done) = (FsStats::default(), Vec::new());
        let ops = [io(true, 0, 9, false), read(0, 0, 4096), Op::Stat { file: 1 }];
        let mut ops = ops;
        // A write that takes its time: it is as long as the file.
        ops[0] = write(0, 0, 1 << 20);
        one_after_the_other(&mut m, ops);
        assert_eq!(m.fs.stats.lock_waits, waits, "{kind:?}");
    }
}

/// Blocks are not freed under an asynchronous direct write.
#[test]
fn a_truncation_waits_for_direct_io() {
    for op in [Op::Truncate { file: 0, size: 0 }, Op::Unlink { file: 0 }] {
        for kind in [FsKind::Ext4, FsKind::Xfs] {
            let mut m = laid_out(&setting(kind, false));
            m.slow = Some((What::Data, Span::from_ms(5)));
            let back =
                one_after_the_other(&mut m, [io(true, 0, 9, true), op, Op::Stat { file: 1 }]);
            assert!(back[1] > back[0] && back[0] > 5_000_000, "{kind:?} {op:?}: {back:?}");
            assert_eq!(m.fs.stats.lock_waits, 0, "it has the lock meanwhile");
            m.check_space(DRIVE / 4096);
        }
    }
}

/// Names of one directory change one at a time, and a file is made once.
#[test]
fn creates_in_a_directory_are_one_at_a_time() {
    for kind in [FsKind::Ext4, FsKind::Xfs] {
        let mut m = laid_out(&setting(kind, false));
        m.fs.config.cost.inode = Span(20_000);
        let back = one_after_the_other(&mut m, [open(2), open(3), open(3)]);
        assert!(m.fs.stats.lock_waits == 2 && m.fs.stats.creates == 2, "{kind:?}");
        assert!(back[1] > back[0] + 20_000, "{kind:?}: {back:?}");
        m.check_space(DRIVE / 4096);
    }
}

/// Ten readers and two writers, in order: nobody overtakes who waits alone, and all come to their end.
#[test]
fn the_lock_is_first_come_first_served() {
    let mut fs = Fs::new(&setting(FsKind::Ext4, false), DRIVE, 12).unwrap();
    files(&mut fs, 1);
    assert!(fs.lay_out(0, 1 << 20));
    let mut m = Machine::of(fs, 12);
    for t in 0..12 {
        m.give(t, [open(0)]);
    }
    m.finish();
    m.done.clear();
    for t in 0..12 {
        m.give(t, (0..20).map(|i| io(t >= 10, 0, u64::from(t) * 20 + i, false)));
        m.idle_for(Span(100));
    }
    m.finish();
    // Each round has all: whoever is back waits behind all others.
    let order: Vec<u32> = m.done.iter().map(|d| d.0).collect();
    for t in 10..12 {
        let at: Vec<usize> = (0..order.len()).filter(|&i| order[i] == t).collect();
        assert!(at.windows(2).all(|w| w[1] - w[0] <= 13), "{t}: {at:?}");
    }
    assert_eq!(order.len(), 240);
}
