//! The cache in time: read-ahead, write-back, limits.

use super::*;

fn one_file(config: &FsConfig, size: u64) -> Machine {
    let mut fs = Fs::new(config, DRIVE, 1).unwrap();
    files(&mut fs, 1);
    assert!(fs.lay_out(0, size));
    let mut m = Machine::of(fs, 1);
    m.call([open(0)]);
    m.bios.clear();
    m.fs.stats = FsStats::default();
    m
}

#[test]
fn a_stream_is_read_in_windows() {
    let mut m = one_file(&config(FsKind::Ext4), 1 << 20);
    m.call((0..32).map(|i| read(0, i * 4096, 4096)));
    let reads: Vec<u32> = m.bios.iter().map(|b| b.len / 4096).collect();
    assert_eq!(reads, [4, 8, 16, 32, 32]);
    assert_eq!((m.fs.stats.hits, m.fs.stats.misses), (31, 1));
    m.bios.clear();
    m.call([read(0, 0, 131_072)]);
    assert!(m.bios.is_empty(), "all of it is in memory");
    // What is dropped at open is read again.
    m.call([Op::Open { file: 0, create: false, write: false, advice: Advice::Random, drop: true }]);
    m.call([read(0, 40_960, 4096)]);
    assert_eq!(m.bios.iter().map(|b| b.len).collect::<Vec<_>>(), [4096]);
}

#[test]
fn writers_wait_above_dirty_ratio() {
    let mut c = config(FsKind::Ext4);
    (c.memory, c.dirty_background_ratio) = (4 << 20, 20);
    let mut m = one_file(&c, 0);
    m.give(0, (0..2048).map(|i| write(0, i * 4096, 4096)));
    let mut most = 0;
    while m.busy() {
        assert!(m.step(Time::NEVER), "{}", m.stuck());
        most = most.max(m.fs.dirty_pages());
        assert!(m.fs.cache.len() <= m.fs.cache.limit() + 256);
    }
    // A fifth of 1024 pages, and the write that went over it.
    assert!((205..=206).contains(&most), "{most}");
    assert!(m.fs.stats.throttled > 0);
    // Nothing above the background ratio is left to itself.
    m.idle_for(Span::from_ms(500));
    assert!(m.fs.cache.dirty() <= 204, "{}", m.fs.cache.dirty());
    m.idle_for(Span::from_secs(40));
    assert_eq!((m.fs.dirty_pages(), m.fs.stats.data_blocks), (0, 2048));
    m.check_space(DRIVE / 4096);
}

#[test]
fn direct_io_sees_what_was_written_through_the_cache() {
    for kind in [FsKind::Ext4, FsKind::Xfs] {
        let mut m = one_file(&config(kind), 1 << 20);
        m.call([
            write(0, 4096, 4096),
            Op::Read { file: 0, offset: 0, len: 16_384, direct: true, queued: false },
        ]);
        let kinds: Vec<(BioKind, u32)> =
            m.bios.iter().filter(|b| b.what == What::Data).map(|b| (b.kind, b.len)).collect();
        assert_eq!(kinds, [(BioKind::Write, 4096), (BioKind::Read, 16_384)]);
        // A direct write drops the pages, and the next read is from the drive.
        m.bios.clear();
        let w = Op::Write {
            file: 0,
            offset: 4096,
            len: 4096,
            direct: true,
            sync: false,
            data_only: false,
            queued: false,
        };
        m.call([read(0, 4096, 4096), w, read(0, 4096, 4096)]);
        // So does a direct read of XFS.
        let misses = if kind == FsKind::Xfs { 2 } else { 1 };
        assert_eq!(m.fs.stats.misses, misses);
        assert!(m.bios.iter().any(|b| b.kind == BioKind::Write && b.what == What::Data));
        assert_eq!(m.bios.iter().filter(|b| b.kind == BioKind::Read).count() as u64, misses);
    }
}

#[test]
fn a_device_does_not_grow_and_a_flush_is_all_that_a_sync_logs() {
    let mut fs = Fs::new(&config(FsKind::Bdev), DRIVE, 1).unwrap();
    let device = fs.device_file();
    let mut m = Machine::of(fs, 1);
    m.call([open(device), write(device, DRIVE - 4096, 4096), fsync(device)]);
    let bios: Vec<(BioKind, u64)> = m.bios.iter().map(|b| (b.kind, b.offset)).collect();
    assert_eq!(bios, [(BioKind::Write, DRIVE - 4096), (BioKind::Flush, 0)]);
    m.done.clear();
    m.give(0, [write(device, DRIVE - 4096, 8192), read(device, DRIVE - 4096, 8192)]);
    m.finish();
    let ok: Vec<bool> = m.done.iter().map(|d| d.2).collect();
    assert_eq!(ok, [false, true], "a read ends with the device");
}

#[test]
fn what_a_device_discards_is_not_written_any_more() {
    let mut fs = Fs::new(&config(FsKind::Bdev), DRIVE, 1).unwrap();
    let device = fs.device_file();
    let mut m = Machine::of(fs, 1);
    m.call([open(device), write(device, 0, 8 * 4096)]);
    // The pages at both ends are discarded in part, and stay.
    m.fs.discard(device, 2048, 6 * 4096);
    assert_eq!(m.fs.dirty_pages(), 3);
    m.idle_for(Span::from_secs(100));
    let written: Vec<(u64, u32)> = m.bios.iter().map(|b| (b.offset, b.len)).collect();
    assert_eq!(written, [(0, 4096), (6 * 4096, 8192)]);
}

/// Who drops pages waits for read-ahead of them, and what came in beside a direct write goes after it.
#[test]
fn pages_under_a_read_do_not_outlive_a_direct_write_or_a_truncation() {
    let page = |m: &Machine, page| m.fs.cache.get(Key::new(m.fs.files[0].inode, page)).copied();
    let direct = |offset| Op::Write {
        file: 0,
        offset,
        len: 4096,
        direct: true,
        sync: false,
        data_only: false,
        queued: false,
    };
    for kind in [FsKind::Ext4, FsKind::Xfs] {
        let mut m = one_file(&config(kind), 1 << 20);
        // The mark on page 1 has the next eight read while nobody waits for them.
        m.call([read(0, 0, 4096), read(0, 4096, 4096), direct(20_480)]);
        assert!(page(&m, 5).is_none() && page(&m, 6).is_some(), "{kind:?}");

        let mut m = one_file(&config(kind), 1 << 20);
        m.call([read(0, 0, 4096), read(0, 4096, 4096), Op::Truncate { file: 0, size: 20_480 }]);
        assert!(page(&m, 4).is_some() && page(&m, 5).is_none(), "{kind:?}");

        let mut m = one_file(&config(kind), 1 << 20);
        let ino = m.fs.files[0].inode;
        m.call([read(0, 0, 4096), read(0, 4096, 4096), Op::Unlink { file: 0 }]);
        assert_eq!(m.fs.cache.pages_from(ino, 0), [], "{kind:?}");
    }
    // Another task reads the page while the write is on its way.
    let mut fs = Fs::new(&config(FsKind::Ext4), DRIVE, 2).unwrap();
    files(&mut fs, 1);
    assert!(fs.lay_out(0, 1 << 20));
    let mut m = Machine::of(fs, 2);
    m.call([open(0)]);
    m.give(1, [open(0)]);
    m.finish();
    m.give(0, [direct(40_960)]);
    while m.bios.iter().all(|b| b.kind != BioKind::Write) {
        assert!(m.step(Time::NEVER));
    }
    m.give(1, [read(0, 40_960, 4096)]);
    m.finish();
    // What the write left on the drive, not what the read began with.
    let block = m.fs.inodes[m.fs.files[0].inode].extents.find(10).unwrap().0;
    let stamp = m.fs.shadow.as_ref().unwrap()[&block];
    assert!(stamp > 0 && page(&m, 10).is_none_or(|p| p.stamp == stamp));
}

/// Whoever cuts a file has to wait for pages under a read, and no new ones begin there.
#[test]
fn readers_do_not_keep_a_truncation_waiting() {
    for op in [Op::Truncate { file: 0, size: 4096 }, Op::Unlink { file: 0 }] {
        let mut c = config(FsKind::Ext4);
        c.memory = 1 << 20;
        let mut fs = Fs::new(&c, DRIVE, 9).unwrap();
        files(&mut fs, 1);
        assert!(fs.lay_out(0, 64 << 20));
        let mut m = Machine::of(fs, 9);
        let mut random = rng(1);
        for t in 0..8 {
            let advice = Advice::Random;
            let open = Op::Open { file: 0, create: false, write: false, advice, drop: false };
            // Of different lengths, so that they do not all end at once.
            let mut one = || read(0, random.below(1 << 13) * 4096, 4096 << random.below(5));
            let reads: Vec<Op> = (0..500).map(|_| one()).collect();
            m.give(t, std::iter::once(open).chain(reads));
        }
        while m.fs.stats.misses < 100 {
            assert!(m.step(Time::NEVER));
        }
        m.give(8, [op]);
        while m.done.iter().all(|d| d.1 != op) {
            assert!(m.step(Time::NEVER), "{}", m.stuck());
        }
        assert!(m.fs.stats.misses < 150, "{} pages read before {op:?}", m.fs.stats.misses);
        m.finish();
    }
}

#[test]
fn o_sync_is_an_fsync_a_write() {
    let mut m = one_file(&config(FsKind::Ext4), 1 << 20);
    let w = |sync, data_only| Op::Write {
        file: 0,
        offset: 0,
        len: 4096,
        direct: false,
        sync,
        data_only,
        queued: false,
    };
    m.call([w(true, false)]);
    assert_eq!((m.fs.stats.data_blocks, m.fs.stats.commits), (1, 1));
    m.call([w(true, true)]);
    // O_DSYNC: overwritten data alone.
    assert_eq!((m.fs.stats.data_blocks, m.fs.stats.commits), (2, 1));
}

/// The first file, or the device, open for so many tasks.
fn opened(config: &FsConfig, tasks: u32) -> Machine {
    let mut fs = Fs::new(config, DRIVE, tasks).unwrap();
    match config.kind {
        FsKind::Bdev => assert_eq!(fs.device_file(), 0),
        FsKind::Ext4 | FsKind::Xfs => {
            files(&mut fs, 1);
            assert!(fs.lay_out(0, 8 << 20));
        }
    }
    let mut m = Machine::of(fs, tasks);
    (0..tasks).for_each(|task| m.give(task, [open(0)]));
    m.finish();
    m
}

/// generic_write_sync: the other pages of the file stay dirty.
#[test]
fn o_sync_writes_what_it_wrote() {
    for kind in [FsKind::Ext4, FsKind::Xfs, FsKind::Bdev] {
        let mut m = opened(&config(kind), 1);
        m.call((0..100).map(|page| write(0, page * 4096, 4096)));
        let before = m.fs.stats.data_blocks;
        let (offset, len) = (50 * 4096, 8192);
        let (direct, sync, data_only, queued) = (false, true, false, false);
        m.call([Op::Write { file: 0, offset, len, direct, sync, data_only, queued }]);
        assert_eq!(
            (m.fs.stats.data_blocks - before, m.fs.cache.dirty() >= 98),
            (2, true),
            "{kind:?}"
        );
    }
}

/// tag_pages_for_writeback: a sync does not go after pages that become dirty beside it.
#[test]
fn a_sync_ends_beside_a_writer() {
    for kind in [FsKind::Ext4, FsKind::Xfs, FsKind::Bdev] {
        let mut m = opened(&config(kind), 2);
        m.call((0..10).map(|page| write(0, page * 4096, 4096)));
        let before = m.fs.stats.data_blocks;
        m.give(0, (10..2000).map(|page| write(0, page * 4096, 4096)));
        m.give(1, [Op::Fsync { file: 0, data_only: true }]);
        while m.done.iter().all(|d| !matches!(d.1, Op::Fsync { .. })) {
            assert!(m.step(Time::NEVER), "{}", m.stuck());
        }
        let written = m.fs.stats.data_blocks - before;
        assert!((10..15).contains(&written), "{kind:?}: {written} pages");
        m.finish();
    }
}

/// POSIX_FADV_DONTNEED and BLKFLSBUF.
#[test]
fn a_file_that_is_opened_anew_is_written_back() {
    for (kind, waits) in [(FsKind::Ext4, false), (FsKind::Xfs, false), (FsKind::Bdev, true)] {
        let mut m = opened(&config(kind), 1);
        m.call((0..100).map(|page| write(0, page * 4096, 4096)));
        let before = (m.fs.stats.data_blocks, m.now);
        let advice = Advice::Random;
        m.call([Op::Open { file: 0, create: false, write: true, advice, drop: true }]);
        assert_eq!(m.fs.stats.data_blocks - before.0, 100, "{kind:?}");
        assert_eq!(m.fs.cache.writing() == 0, waits, "{kind:?}");
        m.finish();
    }
}

/// Linux 4.7 and later: only reads make a page active.
#[test]
fn pages_that_are_written_twice_stay_inactive() {
    let mut m = opened(&config(FsKind::Ext4), 1);
    m.call((0..40).map(|n| write(0, n % 20 * 4096, 4096)));
    assert_eq!(m.fs.cache.active(), 0);
    m.call((0..40).map(|n| read(0, n % 20 * 4096, 4096)));
    assert_eq!(m.fs.cache.active(), 20);
}

/// iomap_dio_rw before Linux 5.9.
#[test]
fn a_direct_read_of_xfs_drops_the_pages() {
    for (kind, kept) in [(FsKind::Ext4, true), (FsKind::Xfs, false)] {
        let mut m = opened(&config(kind), 1);
        m.call([read(0, 0, 65536)]);
        let cached = m.fs.cache.len();
        m.call([Op::Read { file: 0, offset: 0, len: 65536, direct: true, queued: false }]);
        let dropped = cached - m.fs.cache.len();
        assert_eq!(dropped, if kept { 0 } else { 16 }, "{kind:?}");
    }
}

/// Linux before 4.16: each write counts up the version of an inode of XFS with checksums, which is in the log's.
#[test]
fn each_write_of_xfs_logs_its_inode() {
    for (size, commits) in [(512, 20), (256, 1)] {
        let mut c = config(FsKind::Xfs);
        c.xfs.inode_size = size;
        // All in one tick of the clock.
        c.time_granularity = Span::from_secs(1000);
        let mut m = opened(&c, 1);
        let op = |_| [write(0, 0, 4096), Op::Fsync { file: 0, data_only: false }];
        let before = m.fs.stats.commits;
        m.call((0..20).flat_map(op));
        assert_eq!(m.fs.stats.commits - before, commits, "{size}");
        let before = m.fs.stats.commits;
        let op = |_| [write(0, 0, 4096), Op::Fsync { file: 0, data_only: true }];
        m.call((0..20).flat_map(op));
        assert_eq!(m.fs.stats.commits, before, "fdatasync leaves a version alone");
    }
}

/// blkdev_direct_IO and generic_write_sync.
#[test]
fn a_direct_write_to_a_device_is_fua_and_flushed_if_its_caller_waits() {
    for (sync, data_only, queued, expected) in [
        (false, false, false, (0, 0)),
        (false, true, false, (1, 1)),
        (true, false, false, (1, 1)),
        (false, true, true, (1, 0)),
        (true, false, true, (1, 0)),
    ] {
        let mut fs = Fs::new(&config(FsKind::Bdev), DRIVE, 1).unwrap();
        let file = fs.device_file();
        let mut m = Machine::of(fs, 1);
        let direct =
            |direct| Op::Write { file, offset: 8192, len: 4096, direct, sync, data_only, queued };
        m.call([direct(true)]);
        let s = &m.fs.stats;
        assert_eq!((s.fua_writes, s.flushes), expected, "{sync} {data_only} {queued}");
        // Through the cache nobody returns early, and nothing is FUA.
        m.call([direct(false)]);
        let s = &m.fs.stats;
        let more = u64::from(sync || data_only);
        assert_eq!((s.fua_writes, s.flushes), (expected.0, expected.1 + more));
    }
}

#[test]
fn small_files_lie_side_by_side_and_a_stream_in_one_piece() {
    let mut c = config(FsKind::Ext4);
    c.memory = 256 << 20;
    let mut fs = Fs::new(&c, DRIVE, 1).unwrap();
    files(&mut fs, 20);
    let mut m = Machine::of(fs, 1);
    m.call((0..19).flat_map(|f| [open(f), write(f, 0, 8192), fsync(f)]));
    let first = |m: &Machine, f: u32| {
        m.fs.inodes[m.fs.files[f].inode].extents.iter().next().copied().unwrap()
    };
    for f in 1..19 {
        assert_eq!(first(&m, f).block, first(&m, f - 1).block + 2, "file {f}");
    }
    m.call(std::iter::once(open(19)).chain((0..512).map(|i| write(19, i * 65_536, 65_536))));
    m.call([fsync(19)]);
    assert_eq!(m.fs.inodes[m.fs.files[19].inode].extents.len(), 1);
    // Its blocks set aside go back when it is closed.
    m.check_space(DRIVE / 4096);
    m.call([Op::Close { file: 19, write: true }]);
    assert_eq!(m.fs.inodes[m.fs.files[19].inode].reserve, None);
}

#[test]
fn a_full_drive_fails_the_write() {
    for kind in [FsKind::Ext4, FsKind::Xfs] {
        let mut m = one_file(&config(kind), 4096);
        m.done.clear();
        m.give(0, (0..1024).map(|i| write(0, i << 20, 1 << 20)));
        m.finish();
        assert!(m.done.first().is_some_and(|d| d.2));
        assert!(m.done.last().is_some_and(|d| !d.2), "{kind:?}");
        m.idle_for(Span::from_secs(60));
        assert_eq!(m.fs.dirty_pages(), 0);
        m.check_space(DRIVE / 4096);
    }
}

/// A write as large as the cache, and larger, on a cache that holds pages of another use: it goes on with
/// what room there is.
#[test]
fn a_write_as_large_as_the_cache_ends() {
    for n in 0..10 {
        for (pages, beside) in [(200, 0), (250, 20), (255, 100), (256, 60), (400, 120)] {
            println!("variant {n}: {pages} pages beside {beside}");
            let mut c = contents::variant(n);
            c.memory = 1 << 20;
            let mut fs = Fs::new(&c, DRIVE, 3).unwrap();
            files(&mut fs, 9);
            let mut m = Machine::of(fs, 3);
            m.call((0..3).map(open));
            // Read twice: these pages are on the active list.
            m.call([write(1, 0, (beside + 1) * 4096), fsync(1)]);
            m.call((0..3).map(|_| read(1, 0, (beside + 1) * 4096)));
            m.call([write(0, 0, pages * 4096), write(0, 4096, pages * 4096), fsync(0)]);
            for page in 0..=u64::from(pages) {
                assert!(contents::content(&m.fs, 0, page) > 0, "page {page}");
            }
            m.give(0, [write(0, 0, pages * 4096), fsync(0)]);
            m.give(1, [write(2, 0, pages * 4096), fsync(2)]);
            m.finish();
        }
    }
}

/// A drive that has room for one such file: what is promised to pages that have no blocks yet is given back when
/// they are cut off or unlinked, and what is set aside for a file is there for others.
#[test]
fn promised_blocks_come_back_with_the_pages() {
    const MIB: u64 = 1 << 20;
    for kind in [FsKind::Ext4, FsKind::Xfs] {
        let mut c = config(kind);
        (c.memory, c.dirty_ratio, c.dirty_background_ratio) = (1 << 30, 100, 100);
        (c.ext4.blocks_per_group, c.ext4.group_prealloc) = (1024, 64);
        (c.ext4.journal_blocks, c.xfs.log_blocks) = (1024, 512);
        let mut fs = Fs::new(&c, 64 * MIB, 1).unwrap();
        files(&mut fs, 4);
        let room = fs.free_bytes();
        let most = room / MIB * 3 / 4;
        let mut m = Machine::of(fs, 1);
        m.call((0..4).map(open));
        let fill = |file, from, n| (from..from + n).map(move |i| write(file, i * MIB, MIB as u32));
        for n in 0..3 {
            m.call(fill(0, 0, most));
            assert_eq!(m.fs.cache.promised() * 4096, most * MIB, "round {n}");
            m.call([Op::Truncate { file: 0, size: MIB }]);
            assert_eq!(m.fs.cache.promised() * 4096, MIB);
            m.call([Op::Unlink { file: 0 }, open(0)]);
            assert_eq!(m.fs.cache.promised(), 0);
        }
        // A page that is written twice is promised one block, and no promise is left when it has it.
        m.call(fill(1, 0, 4).chain(fill(1, 0, 4)));
        assert_eq!(m.fs.cache.promised() * 4096, 4 * MIB);
        m.call([fsync(1)]);
        assert_eq!(m.fs.cache.promised(), 0);
        // What is promised to the third file the fourth does not get, by direct writes neither.
        m.call(fill(2, 0, most));
        let direct = |i| Op::Write {
            file: 3,
            offset: i * MIB,
            len: MIB as u32,
            direct: true,
            sync: false,
            data_only: false,
            queued: false,
        };
        m.done.clear();
        m.give(0, (0..room / MIB - most).map(direct));
        m.finish();
        assert!(m.done.iter().any(|d| d.2) && m.done.iter().any(|d| !d.2), "{kind:?}");
        m.call([fsync(2)]);
        let ino = m.fs.inode(2);
        assert_eq!(m.fs.inodes[ino].extents.blocks(), most * MIB / 4096, "none is lost");
        m.check_space(64 * MIB / 4096);
    }
}
