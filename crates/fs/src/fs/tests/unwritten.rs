//! Blocks that fallocate reserved: what reads and writes of them cost, first and later.

use super::journal::traffic;
use super::*;

const MB: u64 = 1 << 20;

fn reserved(config: &FsConfig, size: u64) -> Machine {
    let mut fs = Fs::new(config, DRIVE, 1).unwrap();
    files(&mut fs, 1);
    assert!(fs.reserve(0, size, size));
    let mut m = Machine::of(fs, 1);
    m.idle_for(Span::from_ms(10));
    m.call([open(0)]);
    m.fs.stats = FsStats::default();
    m.bios.clear();
    m
}

/// Time stamps do not change.
fn without_times(kind: FsKind) -> FsConfig {
    let mut c = config(kind);
    c.time_granularity = Span::from_secs(3600);
    c
}
fn fdatasync(file: u32) -> Op {
    Op::Fsync { file, data_only: true }
}
fn direct(file: u32, offset: u64, len: u32) -> Op {
    Op::Write { file, offset, len, direct: true, sync: false, data_only: false, queued: false }
}
/// Blocks of the file's extents, and whether they are unwritten.
fn extents(m: &Machine) -> Vec<(u32, u32, bool)> {
    let inode = &m.fs.inodes[m.fs.files[0].inode];
    inode.extents.iter().map(|e| (e.logical, e.len, e.unwritten)).collect()
}

#[test]
fn a_read_of_unwritten_blocks_asks_the_drive_for_nothing() {
    for kind in [FsKind::Ext4, FsKind::Xfs] {
        let mut m = reserved(&config(kind), MB);
        let past = Op::Read { file: 0, offset: 0, len: 65_536, direct: true, queued: false };
        m.call([read(0, 0, 131_072), past]);
        assert!(m.bios.is_empty(), "{:?}", m.bios);
        // Of a range that is written in part, that part is read.
        m.call([direct(0, 8192, 4096), fsync(0)]);
        m.bios.clear();
        m.call([past]);
        assert_eq!(m.bios.iter().map(|b| b.len).collect::<Vec<_>>(), [4096]);
        // A write of half a block has nothing to read before it.
        m.bios.clear();
        m.call([write(0, 100_000, 100)]);
        assert!(m.bios.is_empty(), "{:?}", m.bios);
    }
}

#[test]
fn fsync_of_the_first_write_of_a_reserved_block_logs_its_extent() {
    // In the middle, so that no piece beside it is short.
    for sync in [fsync(0), fdatasync(0)] {
        for how in [write, direct] {
            let mut m = reserved(&config(FsKind::Ext4), MB);
            m.call([how(0, 400 * 1024, 4096), sync]);
            // Data; descriptor, the inode's block with its extents, commit block with flush and FUA.
            assert_eq!(traffic(&m), [1, 1, 1, 1, 0, 1, 1]);
            assert_eq!(extents(&m), [(0, 100, true), (100, 1, false), (101, 155, true)]);
            assert_eq!((m.fs.stats.conversions, m.fs.stats.zeroed_blocks), (1, 0));
            // The second is an overwrite: fdatasync has no commit to wait for.
            m.fs.stats = FsStats::default();
            m.call([how(0, 400 * 1024, 4096), fdatasync(0)]);
            assert_eq!(traffic(&m), [1, 0, 0, 0, 0, 1, 0]);

            let mut m = reserved(&config(FsKind::Xfs), MB);
            m.call([how(0, 400 * 1024, 4096), sync]);
            let s = &m.fs.stats;
            assert_eq!(
                (s.data_blocks, s.log_blocks, s.commits, s.flushes, s.fua_writes),
                (1, 1, 1, 1, 1)
            );
            assert_eq!((s.conversions, extents(&m).len()), (1, 3));
            m.fs.stats = FsStats::default();
            m.call([how(0, 400 * 1024, 4096), fdatasync(0)]);
            let s = &m.fs.stats;
            assert_eq!((s.data_blocks, s.log_blocks, s.conversions, s.flushes), (1, 0, 0, 1));
        }
    }
}

/// ext4 writes zeros over at most 32 KiB beside buffered data, of an extent that ends within the file.
#[test]
fn short_pieces_beside_a_write_get_zeros() {
    let first = |zeroout: u32, size: u64, offset: u64| {
        let mut c = without_times(FsKind::Ext4);
        c.ext4.extent_max_zeroout = zeroout;
        let mut m = reserved(&c, size);
        m.call([write(0, offset, 4096), fdatasync(0)]);
        (m.fs.stats.data_blocks, m.fs.stats.zeroed_blocks, extents(&m))
    };
    // Before it: pages 0 and 1.
    assert_eq!(first(32 << 10, MB, 8192), (3, 2, vec![(0, 3, false), (3, 253, true)]));
    // Head and data are less than 8 blocks, or they are split.
    assert_eq!(first(32 << 10, MB, 6 * 4096), (7, 6, vec![(0, 7, false), (7, 249, true)]));
    assert_eq!(first(32 << 10, MB, 7 * 4096).1, 0);
    // Behind it, to the end of the extent: 8 blocks at most.
    let tail = vec![(0, 248, true), (248, 8, false)];
    assert_eq!(first(32 << 10, MB, 248 * 4096), (8, 7, tail));
    assert_eq!(first(32 << 10, MB, 247 * 4096).1, 0);
    // All of a short one.
    assert_eq!(first(32 << 10, 7 * 4096, 3 * 4096), (7, 6, vec![(0, 7, false)]));
    assert_eq!(first(0, 7 * 4096, 3 * 4096).1, 0);
    // The zeros are on the drive before the extent is converted, and the data after that.
    let mut m = reserved(&without_times(FsKind::Ext4), MB);
    m.call([write(0, 8192, 4096), fdatasync(0)]);
    let data: Vec<u32> = m.bios.iter().filter(|b| b.what == What::Data).map(|b| b.len).collect();
    assert_eq!(data, [8192, 4096]);
    // A direct write takes its blocks alone.
    let mut m = reserved(&without_times(FsKind::Ext4), MB);
    m.call([direct(0, 8192, 4096), fdatasync(0)]);
    assert_eq!(m.fs.stats.zeroed_blocks, 0);
    assert_eq!(extents(&m), [(0, 2, true), (2, 1, false), (3, 253, true)]);
}

/// The fifth extent takes a leaf, which is what a conversion logs from then on.
#[test]
fn extents_beyond_the_inode_are_logged_as_leaves() {
    for (how, n) in [(write as fn(u32, u64, u32) -> Op, 1), (direct, 1)] {
        let mut m = reserved(&without_times(FsKind::Ext4), MB);
        let mut logged = Vec::new();
        for page in [50, 100, 150, 200] {
            let before = m.fs.stats.journal_blocks;
            m.call([how(0, page * 4096, 4096), fdatasync(0)]);
            logged.push(m.fs.stats.journal_blocks - before);
        }
        // Inode; with the leaf its bitmap and descriptor and the inode; leaf.
        assert_eq!(logged, [1, 4, n, n]);
        assert_eq!(m.fs.inodes[m.fs.files[0].inode].extents.tree().count(), 1);
    }
    // XFS has room for 21, and logs the inode with every leaf.
    let mut m = reserved(&without_times(FsKind::Xfs), MB);
    m.call((0..11).flat_map(|i| [write(0, (10 + 10 * i) * 4096, 4096), fdatasync(0)]));
    assert_eq!(m.fs.inodes[m.fs.files[0].inode].extents.tree().count(), 1);
}

/// A random writer splits a long extent into thousands. Leaves are allocated and logged, and a second pass
/// leaves each leaf with few.
#[test]
fn a_random_writer_splits_a_reserved_file_into_leaves() {
    const PAGES: u64 = 4096;
    for kind in [FsKind::Ext4, FsKind::Xfs] {
        let mut m = reserved(&without_times(kind), PAGES * 4096);
        let mut order: Vec<u64> = (0..PAGES).collect();
        let mut random = rng(3);
        for i in (1..order.len()).rev() {
            order.swap(i, random.below(i as u64 + 1) as usize);
        }
        let mut most = 0;
        for page in order {
            m.call([direct(0, page * 4096, 4096)]);
            most = most.max(extents(&m).len());
        }
        assert!((1800..2300).contains(&most), "{most} extents");
        let leaves = m.fs.inodes[m.fs.files[0].inode].extents.tree().count();
        assert!((5..16).contains(&leaves), "{kind:?}: {leaves} leaves");
        assert_eq!(extents(&m).iter().map(|e| u64::from(e.1)).sum::<u64>(), PAGES);
        assert!(extents(&m).iter().all(|e| !e.2), "{:?}", extents(&m));
        m.call([fsync(0)]);
        m.check_space(DRIVE / 4096);
        m.call([Op::Unlink { file: 0 }]);
        m.idle_for(Span::from_secs(100));
        m.check_space(DRIVE / 4096);
    }
}

/// A database's log: 16 KiB and a sync, again and again. The second time round nothing is logged.
#[test]
fn a_reserved_log_is_slower_the_first_time() {
    const N: u64 = 64;
    for (kind, how) in [
        (FsKind::Ext4, write as fn(u32, u64, u32) -> Op),
        (FsKind::Ext4, direct),
        (FsKind::Xfs, write),
        (FsKind::Xfs, direct),
    ] {
        let mut m = reserved(&config(kind), N * 16_384);
        let mut pass = || {
            m.fs.stats = FsStats::default();
            let begin = m.now;
            m.call((0..N).flat_map(|i| [how(0, i * 16_384, 16_384), fdatasync(0)]));
            (m.now.since(begin).0 / N, m.fs.stats.clone())
        };
        let (first, s) = pass();
        assert_eq!((s.data_blocks, s.commits, s.conversions, s.zeroed_blocks), (4 * N, N, N, 0));
        let logged = match kind {
            // Descriptor, inode, commit block.
            FsKind::Ext4 => [s.descriptor_blocks, s.journal_blocks, s.commit_blocks],
            _ => [N, s.log_blocks, N],
        };
        assert_eq!(logged, [N; 3], "{kind:?}");
        let (second, s) = pass();
        assert_eq!((s.data_blocks, s.conversions, s.flushes), (4 * N, 0, N));
        assert_eq!(s.commits + s.journal_blocks + s.log_blocks, 0);
        // The commit block or the log buffer takes the place of a flush. jbd2's other blocks go before it.
        let before = if kind == FsKind::Ext4 { BIO_NS + 2 * 1024 } else { 256 };
        let more = first - second;
        assert!((before..before + 4000).contains(&more), "{kind:?}: {more} ns more");
    }
}

/// FALLOC_FL_KEEP_SIZE: the file grows into its blocks, without an allocation.
#[test]
fn a_file_grows_into_blocks_behind_its_end() {
    for kind in [FsKind::Ext4, FsKind::Xfs] {
        for how in [write, direct] {
            let mut fs = Fs::new(&config(kind), DRIVE, 1).unwrap();
            files(&mut fs, 1);
            assert!(fs.reserve(0, 0, MB));
            let mut m = Machine::of(fs, 1);
            m.call([open(0), read(0, 0, 4096)]);
            m.fs.stats = FsStats::default();
            m.call((0..8).flat_map(|i| [how(0, i * 4096, 4096), fdatasync(0)]));
            assert_eq!((m.fs.file_size(0), m.fs.stats.allocations), (Some(32_768), 0));
            // Behind the end there is nothing to gain by zeros.
            assert_eq!(extents(&m), [(0, 8, false), (8, 248, true)]);
            assert_eq!((m.fs.stats.commits, m.fs.stats.zeroed_blocks), (8, 0));
            assert_eq!(m.fs.inodes[m.fs.files[0].inode].disk_size, 32_768);
        }
    }
}

/// ext4 and XFS reserve the blocks of a direct write into a hole, and convert them when the data are there.
#[test]
fn a_direct_write_into_a_hole_is_converted_at_its_end() {
    for kind in [FsKind::Ext4, FsKind::Xfs] {
        let mut fs = Fs::new(&config(kind), DRIVE, 1).unwrap();
        files(&mut fs, 1);
        assert!(fs.lay_out(0, 0));
        let mut m = Machine::of(fs, 1);
        m.call([open(0), Op::Truncate { file: 0, size: MB }]);
        m.call([direct(0, 40_960, 4096), fsync(0)]);
        assert_eq!((m.fs.stats.allocations, m.fs.stats.conversions), (1, 1));
        assert_eq!(extents(&m), [(10, 1, false)]);
    }
}

#[test]
fn a_full_drive_has_room_for_what_is_reserved() {
    let mut c = config(FsKind::Ext4);
    c.ext4.bytes_per_inode = 65_536;
    let mut fs = Fs::new(&c, DRIVE, 1).unwrap();
    files(&mut fs, 2);
    assert!(fs.reserve(0, MB, MB));
    let rest = fs.free_bytes();
    assert!(fs.reserve(1, rest, rest - MB / 4) || fs.free_bytes() < MB);
    let mut m = Machine::of(fs, 1);
    m.call([open(0)]);
    m.call((0..256).map(|i| write(0, i * 4096, 4096)));
    m.call([fsync(0)]);
    assert!(extents(&m).iter().all(|e| !e.2));
}
