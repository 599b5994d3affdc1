//! Power may fail at any point: what would be found on the drive then.

use super::*;
use medium::Medium;

const SEEDS: std::ops::Range<u64> = 1..7;

/// Three tasks' calls on a drive whose writes take their time at random, all of them held against what
/// the medium may hold.
fn run(n: u8, seed: u64, calls: impl Fn(&mut Rng, u32) -> Vec<Op>) -> (Machine, Medium) {
    println!("variant {n} seed {seed}");
    run_on(contents::variant(n), seed, |_| (), calls)
}
fn run_on(
    config: FsConfig,
    seed: u64,
    lay_out: impl Fn(&mut Fs),
    calls: impl Fn(&mut Rng, u32) -> Vec<Op>,
) -> (Machine, Medium) {
    let mut fs = Fs::new(&config, DRIVE, 3).unwrap();
    files(&mut fs, 9);
    lay_out(&mut fs);
    let mut m = Machine::of(fs, 3);
    m.jitter = Some(rng(seed ^ 0x9E37));
    m.crash = Some(Medium::new(&config));
    m.crash.as_mut().unwrap().laid_out(&m.fs);
    let mut random = rng(seed);
    for t in 0..3 {
        let ops = calls(&mut random, t);
        m.give(t, ops);
    }
    m.finish();
    m.idle_for(Span::from_ms(100));
    let medium = m.crash.take().unwrap();
    (m, medium)
}

/// Size, name and data of a file whose fsync came back are found after a cut at any point; metadata
/// are in the log before they are in place, and in place before the log forgets them.
fn survives(n: u8, commits: u64) {
    for seed in SEEDS {
        let (_, medium) = run(n, seed, |random, t| contents::random_ops(random, t, 600));
        let (kept, committed) = (medium.kept, medium.committed());
        assert!(kept > 50 && medium.checks > 5_000, "{kept} promises, {} checks", medium.checks);
        assert!(committed > commits, "{committed} transactions");
    }
}

#[test]
fn ext4_ordered_keeps_what_fsync_promised() {
    survives(0, 40);
}
#[test]
fn ext4_without_delayed_allocation_keeps_what_fsync_promised() {
    survives(2, 40);
}
#[test]
fn ext4_with_data_in_the_journal_keeps_what_fsync_promised() {
    survives(1, 40);
}
#[test]
fn ext4_in_writeback_mode_keeps_what_fsync_promised() {
    survives(4, 40);
}
#[test]
fn ext4_with_an_early_commit_block_keeps_what_fsync_promised() {
    survives(3, 40);
}
#[test]
fn ext4_with_dioread_nolock_keeps_what_fsync_promised() {
    survives(8, 40);
    survives(9, 40);
}
#[test]
fn xfs_keeps_what_fsync_promised() {
    survives(5, 40);
}
#[test]
fn xfs_with_few_buffers_keeps_what_fsync_promised() {
    survives(6, 40);
}
#[test]
fn xfs_with_a_small_cil_keeps_what_fsync_promised() {
    survives(7, 40);
}

/// The same calls on files with blocks from fallocate. A block counts as written once its data are there.
#[test]
fn reserved_blocks_hold_their_data_or_read_as_zeros() {
    for n in 0..10 {
        let mut converted = 0;
        for seed in SEEDS {
            println!("variant {n} seed {seed}");
            let (m, medium) = run_on(contents::variant(n), seed, contents::reserve, |random, t| {
                contents::random_ops(random, t, 300)
            });
            assert!(medium.kept > 30, "{} promises", medium.kept);
            assert!(m.fs.stats.conversions > 5, "{}", m.fs.stats.conversions);
            converted += medium.converted;
        }
        // Where Linux promises nothing, nothing is held against it. Data in the journal count elsewhere.
        let none = matches!(n, 3 | 4);
        assert!(none == (converted == 0) && (none || converted > 20), "variant {n}: {converted}");
    }
}

#[test]
fn a_long_extent_of_ext4_is_written_with_all_of_its_data() {
    long_extents_are_whole(&[0, 2, 8]);
}

#[test]
fn a_long_extent_of_xfs_is_written_with_all_of_its_data() {
    long_extents_are_whole(&[5, 7]);
}

/// Several bios of one extent, with commits between them: all of its data go before the commit.
fn long_extents_are_whole(variants: &[u8]) {
    for &n in variants {
        for seed in SEEDS {
            let room = |fs: &mut Fs| {
                (0..9).for_each(|f| assert!(fs.reserve(f, 4 << 20, 4 << 20)));
            };
            println!("variant {n} seed {seed}");
            let config = FsConfig { memory: 64 << 20, ..contents::variant(n) };
            let (m, medium) = run_on(config, seed, room, |random, t| {
                let mut ops: Vec<Op> = (3 * t..3 * t + 3).map(open).collect();
                for _ in 0..30 {
                    let file = 3 * t + random.below(3) as u32;
                    let (at, len) = (random.below(200), 1 + random.below(800));
                    ops.push(write(file, at * 4096, len as u32 * 4096));
                    let of = random.below(4) as u32;
                    ops.extend([fsync(3 * t + of % 3)].into_iter().filter(|_| of < 3));
                }
                ops
            });
            assert!(medium.converted > 1000, "{}", medium.converted);
            assert!(m.bios.iter().any(|b| b.what == What::Data && b.len == 256 * 4096));
        }
    }
}

/// The log goes round several times: what it overwrites nobody needs any more.
#[test]
fn a_log_that_goes_round_keeps_what_fsync_promised() {
    for (n, calls) in [(0, 700), (1, 400), (2, 700), (3, 700), (5, 1500), (6, 1500), (8, 700)] {
        let (m, medium) = run(n, 1, |random, t| {
            let mut ops: Vec<Op> = (3 * t..3 * t + 3).map(open).collect();
            for _ in 0..calls {
                let (file, page) = (3 * t + random.below(3) as u32, random.below(30));
                match random.below(8) {
                    0 => ops.extend([Op::Unlink { file }, open(file)]),
                    1 => ops.push(Op::Truncate { file, size: page * 4096 }),
                    2 => ops.push(fsync(file)),
                    _ => ops.extend([write(file, page * 4096, 16384), fsync(file)]),
                }
            }
            ops
        });
        let s = &m.fs.stats;
        let logged = s.descriptor_blocks + s.journal_blocks + s.commit_blocks + s.log_blocks;
        let len = m.fs.disk.log.len();
        assert!(logged > 2 * len, "variant {n}: {logged} blocks in a log of {len}");
        assert!(medium.kept > 500, "{} promises", medium.kept);
    }
}

/// Transactions as large as they may be, from several tasks and without a sync: who needs room moves the
/// tail, and the room is used when the superblock says so for certain.
#[test]
fn room_in_the_log_is_used_after_its_superblock() {
    for seed in 1..4 {
        println!("seed {seed}");
        let mut c = config(FsKind::Ext4);
        c.ext4.journal_blocks = 1024;
        let mut fs = Fs::new(&c, DRIVE, 4).unwrap();
        // Sixteen inodes a block: every sixteenth file has a block of its own.
        files(&mut fs, 16 * 2_000);
        (0..16 * 2_000).for_each(|f| assert!(fs.lay_out(f, 4096)));
        let mut m = Machine::of(fs, 4);
        m.jitter = Some(rng(seed));
        m.slow = Some((What::Tail, Span::from_ms(20)));
        m.crash = Some(Medium::new(&c));
        m.crash.as_mut().unwrap().laid_out(&m.fs);
        for t in 0..4 {
            let mine = (0..500).map(move |i| 16 * (4 * i + t));
            m.give(t, mine.flat_map(|f| [open(f), write(f, 0, 4096)]));
        }
        m.finish();
        assert!(m.fs.stats.super_blocks > 2, "{:?}", m.fs.stats);
    }
}
