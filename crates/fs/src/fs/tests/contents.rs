//! Against a plain model: a page holds its newest write, wherever it is.

use super::*;
use proptest::prelude::*;

/// What a page of a file holds: in memory, or on the drive.
pub(crate) fn content(fs: &Fs, file: u32, page: u64) -> u32 {
    let ino = fs.files[file].inode;
    if ino == 0 {
        return 0;
    }
    if let Some(p) = fs.cache.get(Key::new(ino, page)).filter(|p| p.is_uptodate()) {
        return p.stamp;
    }
    let place = fs.inodes[ino].extents.written(page);
    let shadow = fs.shadow.as_ref().unwrap();
    place.and_then(|(block, _)| shadow.get(&block)).copied().unwrap_or(0)
}

pub(crate) fn variant(n: u8) -> FsConfig {
    let mut c = config(if matches!(n, 5..8) { FsKind::Xfs } else { FsKind::Ext4 });
    c.memory = 2 << 20;
    c.ext4.journal_blocks = 1024;
    c.xfs.log_blocks = 512;
    c.dirty_expire = Span::from_ms(2);
    c.dirty_writeback = Span::from_ms(1);
    c.ext4.commit = Span::from_ms(3);
    c.time_granularity = Span(100_000);
    match n {
        1 => c.ext4.data = DataMode::Journal,
        2 => c.ext4.delalloc = false,
        3 => c.ext4.journal_async_commit = true,
        4 => (c.ext4.data, c.ext4.group_prealloc) = (DataMode::Writeback, 0),
        6 => (c.xfs.log_buffers, c.xfs.log_buffer_bytes) = (2, 16 << 10),
        8 => c.ext4.dioread_nolock = true,
        9 => (c.ext4.dioread_nolock, c.ext4.delalloc) = (true, false),
        7 => (c.xfs.sync, c.xfs.cil_limit) = (Span::from_ms(2), 4096),
        _ => {}
    }
    c
}

/// Three tasks with three files each, one of them shared for names only.
pub(crate) fn random_ops(rng: &mut wordline_base::Rng, task: u32, n: usize) -> Vec<Op> {
    let mut ops = Vec::new();
    let first = task * 3;
    for file in first..first + 3 {
        ops.push(open(file));
    }
    for _ in 0..n {
        let file = first + rng.below(3) as u32;
        let offset = rng.below(60) * 4096 + rng.below(8) * 512;
        let len = (1 + rng.below(40)) as u32 * 512;
        let (direct, sync) = (rng.below(5) == 0, rng.below(20) == 0);
        let op = match rng.below(16) {
            0..6 => Op::Write {
                file,
                offset,
                len,
                direct,
                sync,
                data_only: sync && direct,
                queued: false,
            },
            6..11 => Op::Read { file, offset, len, direct, queued: false },
            11 => Op::Fsync { file, data_only: rng.below(2) == 0 },
            12 => {
                let [before, write, after] = [(); 3].map(|()| rng.below(2) == 0);
                Op::SyncRange { file, offset, len: u64::from(len), before, write, after }
            }
            13 => Op::Truncate { file, size: rng.below(50) * 4096 },
            14 => Op::Stat { file },
            _ => {
                ops.extend([Op::Close { file, write: true }, Op::Unlink { file }]);
                open(file)
            }
        };
        ops.push(op);
    }
    ops
}

/// Two of three files have blocks from the start: one as long as these, the other with its end before them.
pub(crate) fn reserve(fs: &mut Fs) {
    for file in 0..9 {
        match file % 3 {
            1 => assert!(fs.reserve(file, 55 * 4096, 55 * 4096)),
            2 => assert!(fs.reserve(file, 10_000, 30 * 4096)),
            _ => {}
        }
    }
}

fn newest_write_is_read(seed: u64, n: u8, reserved: bool) -> Result<(), TestCaseError> {
    let config = variant(n);
    let mut fs = Fs::new(&config, DRIVE, 3).unwrap();
    files(&mut fs, 9);
    if reserved {
        reserve(&mut fs);
    }
    let mut m = Machine::of(fs, 3);
    let mut model: BTreeMap<(u32, u64), u32> = BTreeMap::new();
    let mut random = rng(seed);
    for t in 0..3 {
        let ops = random_ops(&mut random, t, 120);
        m.give(t, ops);
    }
    let (mut newest, mut events) = (0, 0);
    while m.busy() {
        events += 1;
        prop_assert!(
            m.step(Time::NEVER) && events < 200_000,
            "seed {seed} variant {n}: {}",
            m.stuck()
        );
        m.fs.cache.check();
        for (_, op, ok) in std::mem::take(&mut m.done) {
            match op {
                Op::Write { file, offset, len, .. } => {
                    // A direct write may find its end not aligned.
                    prop_assert!(ok, "{op:?}");
                    for page in offset / 4096..=(offset + u64::from(len) - 1) / 4096 {
                        let stamp = content(&m.fs, file, page);
                        let before = model.insert((file, page), stamp).unwrap_or(0);
                        prop_assert!(
                            stamp > before,
                            "seed {seed} variant {n}: {op:?} page {page}: {before} then {stamp}"
                        );
                        newest = newest.max(stamp);
                    }
                }
                Op::Truncate { file, size } => {
                    model.retain(|&(f, p), _| f != file || p * 4096 < size)
                }
                Op::Unlink { file } => model.retain(|&(f, _), _| f != file),
                _ => prop_assert!(ok, "seed {seed} variant {n}: {op:?}"),
            }
        }
    }
    // Calls end at their own time: what one task left is looked at when all is quiet too.
    for (&(file, page), &stamp) in &model {
        prop_assert_eq!(
            content(&m.fs, file, page),
            stamp,
            "seed {} variant {}: file {} page {}",
            seed,
            n,
            file,
            page
        );
    }
    m.idle_for(Span::from_secs(100));
    prop_assert_eq!(m.fs.dirty_pages(), 0);
    for (&(file, page), &stamp) in &model {
        let ino = m.fs.files[file].inode;
        let (block, _) = m.fs.inodes[ino].extents.written(page).expect("its pages are written");
        prop_assert_eq!(
            m.fs.shadow.as_ref().unwrap().get(&block),
            Some(&stamp),
            "seed {} variant {}: file {} page {} on the drive",
            seed,
            n,
            file,
            page
        );
    }
    m.check_space(DRIVE / 4096);
    Ok(())
}

/// The same calls on three stretches of a device, without those on names.
fn a_device_holds_the_newest_write(seed: u64) -> Result<(), TestCaseError> {
    const STRETCH: u64 = 128 * 4096;
    let mut c = variant(0);
    (c.kind, c.memory) = (FsKind::Bdev, 1 << 20);
    let mut fs = Fs::new(&c, DRIVE, 3).unwrap();
    let device = fs.device_file();
    let mut m = Machine::of(fs, 3);
    let mut random = rng(seed);
    for t in 0..3 {
        let at = |file: u32, offset: u64| u64::from(file) * STRETCH + offset;
        let moved = random_ops(&mut random, t, 160).into_iter().filter_map(|op| match op {
            Op::Write { file, offset, len, direct, sync, data_only, queued } => Some(Op::Write {
                file: device,
                offset: at(file, offset),
                len,
                direct,
                sync,
                data_only,
                queued,
            }),
            Op::Read { file, offset, len, direct, queued: false } => Some(Op::Read {
                file: device,
                offset: at(file, offset),
                len,
                direct,
                queued: false,
            }),
            Op::Fsync { data_only, .. } => Some(Op::Fsync { file: device, data_only }),
            Op::SyncRange { file, offset, len, before, write, after } => {
                let offset = at(file, offset);
                Some(Op::SyncRange { file: device, offset, len, before, write, after })
            }
            _ => None,
        });
        let ops: Vec<Op> = std::iter::once(open(device)).chain(moved).collect();
        m.give(t, ops);
    }
    let mut model: BTreeMap<u64, u32> = BTreeMap::new();
    while m.busy() {
        prop_assert!(m.step(Time::NEVER), "seed {seed}: {}", m.stuck());
        m.fs.cache.check();
        for (_, op, ok) in std::mem::take(&mut m.done) {
            prop_assert!(ok, "seed {seed}: {op:?}");
            let Op::Write { offset, len, .. } = op else { continue };
            for page in offset / 4096..=(offset + u64::from(len) - 1) / 4096 {
                let stamp = content(&m.fs, device, page);
                let before = model.insert(page, stamp).unwrap_or(0);
                prop_assert!(stamp > before, "seed {seed}: {op:?} page {page}: {before}, {stamp}");
            }
        }
    }
    m.idle_for(Span::from_secs(100));
    prop_assert_eq!(m.fs.dirty_pages(), 0);
    for (page, stamp) in &model {
        // Each page has its place in itself.
        let on_drive = m.fs.shadow.as_ref().unwrap().get(page);
        prop_assert_eq!(on_drive, Some(stamp), "seed {} page {}", seed, page);
    }
    prop_assert_eq!(m.fs.stats.metadata_read + m.fs.stats.log_blocks + m.fs.stats.commits, 0);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_devices_pages_hold_the_newest_write(seed in any::<u64>()) {
        a_device_holds_the_newest_write(seed)?;
    }

    #[test]
    fn reads_return_the_newest_write(seed in any::<u64>(), n in 0u8..10) {
        newest_write_is_read(seed, n, false)?;
    }

    #[test]
    fn reads_of_reserved_blocks_return_the_newest_write(seed in any::<u64>(), n in 0u8..10) {
        newest_write_is_read(seed, n, true)?;
    }
}

/// Runs with read-ahead beside a direct write of the page, and with a truncation that frees a tree
/// block while an allocation waits to log it.
#[test]
fn neither_read_ahead_nor_a_freed_tree_block_overwrites() {
    for (seed, n) in [(6678643839718191376, 2), (3767187957321314076, 3)] {
        newest_write_is_read(seed, n, false).unwrap();
    }
}

#[test]
fn the_same_calls_give_the_same_bios() {
    for n in 0..10 {
        let run = || {
            let mut fs = Fs::new(&variant(n), DRIVE, 3).unwrap();
            files(&mut fs, 9);
            let mut m = Machine::of(fs, 3);
            let mut random = rng(7);
            for t in 0..3 {
                let ops = random_ops(&mut random, t, 200);
                m.give(t, ops);
            }
            m.finish();
            (m.now, m.bios, m.fs.stats)
        };
        assert!(run() == run(), "variant {n}");
    }
}
