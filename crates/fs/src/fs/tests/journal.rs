//! What a change costs: closed forms of journal and log traffic.

use super::*;

fn laid_out(config: &FsConfig, n: u32, size: u64) -> Machine {
    let mut fs = Fs::new(config, DRIVE, 1).unwrap();
    files(&mut fs, n);
    for file in 0..n {
        assert!(fs.lay_out(file, size));
    }
    let mut m = Machine::of(fs, 1);
    m.idle_for(Span::from_ms(10));
    m.call((0..n).map(open));
    m.fs.stats = FsStats::default();
    m
}

/// Data, descriptor, logged, commit, in place, flushes, FUA.
pub(crate) fn traffic(m: &Machine) -> [u64; 7] {
    let s = &m.fs.stats;
    [
        s.data_blocks,
        s.descriptor_blocks,
        s.journal_blocks,
        s.commit_blocks,
        s.checkpoint_blocks,
        s.flushes,
        s.fua_writes,
    ]
}

#[test]
fn fsync_of_an_overwrite_is_five_blocks() {
    let mut m = laid_out(&config(FsKind::Ext4), 1, 1 << 20);
    m.call([write(0, 8192, 4096), fsync(0)]);
    // Data; descriptor, inode-table block, commit block with flush and FUA.
    assert_eq!(traffic(&m), [1, 1, 1, 1, 0, 1, 1]);
    // The inode-table block follows when the flusher finds it old.
    m.idle_for(Span::from_secs(60));
    assert_eq!(traffic(&m), [1, 1, 1, 1, 1, 1, 1]);
    // fdatasync does not care for the time of change: data, and the drive's cache.
    let mut m = laid_out(&config(FsKind::Ext4), 1, 1 << 20);
    m.call([write(0, 8192, 4096), Op::Fsync { file: 0, data_only: true }]);
    assert_eq!(traffic(&m), [1, 0, 0, 0, 0, 1, 0]);
    // A second write in the same time step does not touch the inode again.
    let mut c = config(FsKind::Ext4);
    c.time_granularity = Span::from_secs(3600);
    let mut m = laid_out(&c, 1, 1 << 20);
    m.call([write(0, 0, 4096), fsync(0), write(0, 0, 4096), fsync(0)]);
    assert_eq!(traffic(&m), [2, 1, 1, 1, 0, 2, 1]);
}

#[test]
fn fsync_of_an_append_logs_bitmap_and_descriptor_too() {
    let mut m = laid_out(&config(FsKind::Ext4), 1, 4096);
    m.call([write(0, 4096, 4096), fsync(0)]);
    // Inode table, block bitmap, group descriptor.
    assert_eq!(traffic(&m), [1, 1, 3, 1, 0, 1, 1]);
    m.idle_for(Span::from_secs(60));
    assert_eq!(traffic(&m), [1, 1, 3, 1, 3, 1, 1]);
}

/// No block is allocated for it: the size is logged all the same, and fdatasync waits for it.
#[test]
fn fdatasync_of_an_append_within_a_block_logs_the_size() {
    for delalloc in [true, false] {
        let mut c = config(FsKind::Ext4);
        c.ext4.delalloc = delalloc;
        let mut m = laid_out(&c, 1, 100);
        m.call([write(0, 100, 100), Op::Fsync { file: 0, data_only: true }]);
        assert_eq!(traffic(&m), [1, 1, 1, 1, 0, 1, 1], "delalloc {delalloc}");
    }
}

#[test]
fn a_created_file_logs_its_directory_and_inode() {
    let mut c = config(FsKind::Ext4);
    c.memory = 256 << 20;
    let mut fs = Fs::new(&c, DRIVE, 1).unwrap();
    files(&mut fs, 2);
    fs.lay_out(0, 4096);
    let mut m = Machine::of(fs, 1);
    m.call([open(1), fsync(1)]);
    // Directory block, inode bitmap, group descriptor, inode table (the directory's inode is in the
    // same block).
    assert_eq!(traffic(&m), [0, 1, 4, 1, 0, 1, 1]);
    m.call([write(1, 0, 14), fsync(1)]);
    // ... then 14 bytes: a data block, its bitmap, the descriptor and the inode: 6 blocks more.
    assert_eq!(traffic(&m), [1, 2, 7, 2, 0, 2, 2]);
}

#[test]
fn barriers_and_async_commit() {
    let run = |change: &dyn Fn(&mut FsConfig)| {
        let mut c = config(FsKind::Ext4);
        change(&mut c);
        let mut m = laid_out(&c, 1, 1 << 20);
        let begin = m.now;
        m.call([write(0, 8192, 4096), fsync(0)]);
        (traffic(&m), m.now.since(begin))
    };
    let (with, slow) = run(&|_| ());
    let (without, quick) = run(&|c| c.barrier = false);
    let (early, middle) = run(&|c| c.ext4.journal_async_commit = true);
    assert_eq!(with[5..], [1, 1]);
    assert_eq!(without[5..], [0, 0]);
    // One flush behind everything, no FUA.
    assert_eq!(early[5..], [1, 0]);
    // Without barriers a flush less; with the early commit block one wait less.
    assert_eq!(slow.0 - quick.0, FLUSH_NS);
    assert!(middle < slow && quick < middle + Span(FLUSH_NS), "{slow} {middle} {quick}");
}

#[test]
fn concurrent_syncs_share_a_commit() {
    let amplification = |tasks: u32| {
        let c = config(FsKind::Ext4);
        let mut fs = Fs::new(&c, DRIVE, tasks).unwrap();
        files(&mut fs, tasks);
        (0..tasks).for_each(|f| assert!(fs.lay_out(f, 4096)));
        let mut m = Machine::of(fs, tasks);
        for t in 0..tasks {
            let rounds = (0..50).flat_map(|_| [write(t, 0, 4096), fsync(t)]);
            m.give(t, std::iter::once(open(t)).chain(rounds));
        }
        m.finish();
        let s = &m.fs.stats;
        let journal = s.descriptor_blocks + s.journal_blocks + s.commit_blocks;
        journal as f64 / s.data_blocks as f64
    };
    let (one, four, sixteen) = (amplification(1), amplification(4), amplification(16));
    // The time stamp has a step of 1 ms: not each sync of one writer finds the inode changed.
    assert!(one <= 3.0, "{one}");
    assert!(four < one && sixteen < four, "{one} {four} {sixteen}");
}

#[test]
fn the_running_transaction_is_committed_after_five_seconds() {
    let mut m = laid_out(&config(FsKind::Ext4), 1, 1 << 20);
    m.call([write(0, 0, 4096)]);
    m.idle_for(Span::from_ms(4990));
    assert_eq!(m.fs.stats.commits, 0);
    m.idle_for(Span::from_ms(20));
    assert_eq!(m.fs.stats.commits, 1);
    // The data have time until they are 30 s old, looked at every 5 s.
    assert_eq!(m.fs.stats.data_blocks, 0);
    m.idle_for(Span::from_secs(30));
    assert_eq!(m.fs.stats.data_blocks, 1);
}

#[test]
fn ordered_data_without_delalloc_go_with_the_commit() {
    for (mode, blocks) in [(DataMode::Ordered, 1), (DataMode::Writeback, 0), (DataMode::Journal, 0)]
    {
        let mut c = config(FsKind::Ext4);
        (c.ext4.data, c.ext4.delalloc) = (mode, false);
        let mut m = laid_out(&c, 1, 0);
        m.call([write(0, 0, 4096)]);
        m.idle_for(Span::from_secs(6));
        let s = &m.fs.stats;
        assert_eq!((s.commits, s.data_blocks), (1, blocks), "{mode:?}");
        // Inode, bitmap, descriptor; and the page itself where data are logged.
        let logged = if mode == DataMode::Journal { 4 } else { 3 };
        assert_eq!(s.journal_blocks, logged, "{mode:?}");
    }
}

#[test]
fn a_full_log_is_checkpointed_and_wraps() {
    let mut c = config(FsKind::Ext4);
    c.ext4.journal_blocks = 1024;
    let mut fs = Fs::new(&c, DRIVE, 2).unwrap();
    files(&mut fs, 8000);
    let mut m = Machine::of(fs, 2);
    for t in 0..2 {
        let mine = (0..4000).map(move |i| 2 * i + t);
        m.give(
            t,
            mine.flat_map(|f| {
                [open(f), write(f, 0, 4096), fsync(f), Op::Close { file: f, write: true }]
            }),
        );
    }
    while m.busy() {
        assert!(m.step(Time::NEVER), "{}", m.stuck());
        assert!(m.fs.log_used() < 1024);
    }
    let s = &m.fs.stats;
    let logged = s.descriptor_blocks + s.journal_blocks + s.commit_blocks;
    assert!(logged > 10 * 1024, "{logged}");
    assert!(s.log_waits > 0 && s.super_blocks > 0 && s.checkpoint_blocks > 0, "{s:?}");
    // Who needs room flushes for it.
    let mut tails = m.bios.iter().filter(|b| b.what == What::Tail);
    assert!(tails.all(|b| b.fua && b.preflush));
    assert_eq!(s.creates, 8000);
    m.check_space(DRIVE / 4096);
}

/// jbd2_update_log_tail: the flush before the commit block is that of the tail, too.
#[test]
fn a_commit_moves_the_tail_behind_its_own_flush() {
    let mut c = config(FsKind::Ext4);
    c.ext4.journal_blocks = 1024;
    c.time_granularity = Span(1);
    let mut m = laid_out(&c, 1, 1 << 20);
    // Three blocks each, of which the next transaction has the same: a quarter of the log is 85 of them.
    m.call((0..100).flat_map(|i| [write(0, i % 16 * 4096, 4096), fsync(0)]));
    let tails: Vec<_> = m.bios.iter().filter(|b| b.what == What::Tail).collect();
    let [tail] = tails[..] else { panic!("{tails:?}") };
    assert!(!tail.preflush && tail.fua, "{tail:?}");
}

#[test]
fn xfs_logs_an_item_once_however_often_it_changes() {
    let mut m = laid_out(&config(FsKind::Xfs), 1, 1 << 20);
    m.call([write(0, 8192, 4096), fsync(0)]);
    // The inode with its headers fits one block of the log; flush and FUA with the buffer.
    let s = &m.fs.stats;
    assert_eq!((s.data_blocks, s.log_blocks, s.commits), (1, 1, 1));
    assert_eq!((s.flushes, s.fua_writes), (1, 1));
    assert_eq!(m.bios.last().map(|b| b.len), Some(1024));
    // A thousand changes in memory are one item.
    let mut c = config(FsKind::Xfs);
    c.time_granularity = Span(1);
    let mut m = laid_out(&c, 1, 1 << 20);
    m.call((0..1000).map(|i| write(0, i % 16 * 4096, 4096)));
    m.call([fsync(0)]);
    assert_eq!((m.fs.stats.commits, m.bios.last().map(|b| b.len)), (1, Some(1024)));
    // The log worker puts it in its place: the inode's cluster of 16 KiB.
    m.idle_for(Span::from_secs(61));
    assert_eq!(m.fs.stats.checkpoint_blocks, 4);
}

/// Inodes that changed are written by clusters of 32, each once (xfs_iflush_cluster).
#[test]
fn xfs_writes_a_cluster_of_inodes_once() {
    let mut fs = Fs::new(&config(FsKind::Xfs), DRIVE, 1).unwrap();
    files(&mut fs, 2048);
    let mut m = Machine::of(fs, 1);
    m.call((0..2048).flat_map(|f| [open(f), Op::Close { file: f, write: true }]));
    // Forced first, then put in their place.
    m.idle_for(Span::from_secs(95));
    let inodes = m.bios.iter().filter(|b| b.what == What::Meta && b.len == 16 << 10);
    let clusters: BTreeSet<u64> = inodes.clone().map(|b| b.offset).collect();
    assert_eq!((inodes.count(), clusters.len()), (65, 65), "2,048 files and their directory");
    m.idle_for(Span::from_secs(95));
    assert!(m.fs.log_used() == 0, "{} blocks", m.fs.log_used());
}

#[test]
fn xfs_pushes_its_tail_when_the_log_fills() {
    let mut c = config(FsKind::Xfs);
    c.xfs.log_blocks = 512;
    let mut fs = Fs::new(&c, DRIVE, 2).unwrap();
    files(&mut fs, 6000);
    let mut m = Machine::of(fs, 2);
    for t in 0..2 {
        let mine = (0..3000).map(move |i| 2 * i + t);
        m.give(
            t,
            mine.flat_map(|f| {
                [open(f), write(f, 0, 4096), fsync(f), Op::Close { file: f, write: true }]
            }),
        );
    }
    while m.busy() {
        assert!(m.step(Time::NEVER), "{}", m.stuck());
        assert!(m.fs.log_used() <= 512);
    }
    let s = &m.fs.stats;
    assert!(s.log_blocks > 5 * 512 && s.checkpoint_blocks > 0, "{s:?}");
    m.check_space(DRIVE / 4096);
}

/// Changes of one task and no sync: each transaction is committed because it is full, and the third fills
/// the log, so that the task has to put the first one's blocks in their place.
#[test]
fn a_log_that_fills_by_itself_is_emptied() {
    let mut c = config(FsKind::Ext4);
    c.ext4.journal_blocks = 1024;
    let mut fs = Fs::new(&c, DRIVE, 1).unwrap();
    // Sixteen inodes a block: every sixteenth file has a block of its own.
    files(&mut fs, 16 * 1_500);
    (0..16 * 1_500).for_each(|f| assert!(fs.lay_out(f, 4096)));
    let mut m = Machine::of(fs, 1);
    m.give(0, (0..1_500).flat_map(|i| [open(16 * i), write(16 * i, 0, 4096)]));
    m.finish();
    assert!(m.fs.stats.commits >= 4, "{}", m.fs.stats.commits);
}

/// With data=journal a file is cut off, or unlinked, while a transaction with its pages is being committed: these
/// are no pages of it any more. They are not written, get no blocks, and read as zeros if it grows again.
#[test]
fn pages_cut_off_during_their_commit_get_no_blocks() {
    for unlinked in [false, true] {
        let mut c = config(FsKind::Ext4);
        c.ext4.data = DataMode::Journal;
        let mut fs = Fs::new(&c, DRIVE, 2).unwrap();
        files(&mut fs, 1);
        let mut m = Machine::of(fs, 2);
        m.call([open(0), write(0, 0, 16 * 4096)]);
        let ino = m.fs.inode(0);
        m.slow = Some((What::Journal, Span::from_ms(50)));
        m.give(1, [fsync(0)]);
        m.idle_for(Span::from_ms(5));
        match unlinked {
            true => m.give(0, [Op::Unlink { file: 0 }]),
            false => m.give(0, [4096, 65_536].map(|size| Op::Truncate { file: 0, size })),
        }
        m.idle_for(Span::from_ms(5));
        assert!(m.todo[0].is_empty() && m.busy(), "all of it during the commit");
        m.finish();
        m.idle_for(Span::from_secs(100));
        let left = m.fs.inodes[ino].extents.iter().map(|e| e.len).sum::<u32>();
        assert_eq!((left, m.fs.dirty_pages()), (u32::from(!unlinked), 0));
        assert_eq!(contents::content(&m.fs, 0, 5), 0);
        m.check_space(DRIVE / 4096);
    }
}

/// A file with a bitmap in each of 1,800 groups is cut and removed with a log of 1,024 blocks: no transaction is longer
/// than a quarter of the log, and a longer log takes fewer of them.
#[test]
fn a_large_file_is_cut_in_as_many_transactions_as_the_log_asks_for() {
    let run = |kind: FsKind, log: u32, op: Op| {
        let mut c = config(kind);
        c.ext4.journal_blocks = if kind == FsKind::Ext4 { log } else { 0 };
        c.xfs.log_blocks = if kind == FsKind::Xfs { log } else { 0 };
        let mut fs = Fs::new(&c, 256 << 30, 1).unwrap();
        files(&mut fs, 1);
        let before = fs.free_bytes();
        assert!(fs.lay_out(0, 240 << 30));
        let mut m = Machine::of(fs, 1);
        m.idle_for(Span::from_ms(10));
        m.call([op]);
        // What it leaves is on the drive some time later.
        m.idle_for(Span::from_secs(60));
        assert!(m.fs.free_bytes() + (1 << 20) >= before, "{op:?}: {}", m.fs.free_bytes());
        let last = m.fs.joined.iter().map(|j| j.seq).max().unwrap();
        let sizes = (1..=last).map(|seq| {
            let of = m.fs.joined.iter().filter(|j| j.seq == seq);
            of.flat_map(|j| &j.items).collect::<BTreeSet<_>>().len()
        });
        (m.fs.stats.commits, sizes.max().unwrap(), m.fs.joined.len())
    };
    for op in [Op::Truncate { file: 0, size: 0 }, Op::Unlink { file: 0 }] {
        let (commits, largest, _) = run(FsKind::Ext4, 1024, op);
        assert!(largest <= 1023 / 4, "{op:?}: {largest} blocks in a transaction");
        assert!(commits >= 1800 / (1023 / 4), "{op:?}: {commits}");
        let (commits, largest, _) = run(FsKind::Ext4, 32_768, op);
        assert!(largest >= 1800 && commits <= 2, "{op:?}: {largest} blocks, {commits} commits");
        // Extents of XFS have up to 2^21 - 1 blocks, 8 GiB: two of 30 in a transaction.
        let (_, _, joins) = run(FsKind::Xfs, 1024, op);
        assert!((15..=20).contains(&joins), "{op:?}: {joins} transactions");
    }
}
