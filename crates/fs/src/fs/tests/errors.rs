//! Bios that fail, and who is told.

use super::*;

const KINDS: [FsKind; 3] = [FsKind::Ext4, FsKind::Xfs, FsKind::Bdev];

/// A file that is on the drive and not in memory, open in `apps` tasks.
fn one_file(kind: FsKind, apps: u32) -> (Machine, u32) {
    let mut fs = Fs::new(&config(kind), DRIVE, apps).unwrap();
    let file = match kind {
        FsKind::Bdev => fs.device_file(),
        _ => {
            files(&mut fs, 1);
            assert!(fs.lay_out(0, 1 << 20));
            0
        }
    };
    let mut m = Machine::of(fs, apps);
    for task in 0..apps {
        m.give(task, [open(file)]);
    }
    m.finish();
    m.idle_for(Span::from_secs(60));
    m.bios.clear();
    (m, file)
}

#[test]
fn a_page_that_cannot_be_read_twice_fails_its_call() {
    for kind in KINDS {
        let (mut m, file) = one_file(kind, 1);
        // Its read-ahead fails, and not its own read.
        m.fails = Some((BioKind::Read, What::Data, 1));
        assert_eq!(m.tried([read(file, 0, 4096)]), [true], "{kind:?}");
        let lens: Vec<u32> = m.bios.iter().map(|b| b.len / 4096).collect();
        assert_eq!(lens, [4, 1], "{kind:?}");
        m.fails = Some((BioKind::Read, What::Data, 2));
        assert_eq!(m.tried([read(file, 65_536, 4096)]), [false], "{kind:?}");
        // A write of a part of the page has to read it.
        m.fails = Some((BioKind::Read, What::Data, 1));
        assert_eq!(m.tried([write(file, 131_072, 512)]), [false], "{kind:?}");
        m.fails = None;
        assert_eq!(m.tried([read(file, 0, 1 << 20), write(file, 131_072, 512)]), [true, true]);
        m.fs.cache.check();
    }
}

#[test]
fn each_open_file_tells_once_of_a_write_back_that_failed() {
    for kind in KINDS {
        let (mut m, file) = one_file(kind, 2);
        m.fails = Some((BioKind::Write, What::Data, 1));
        let synced = Op::Write {
            file,
            offset: 0,
            len: 4096,
            direct: false,
            sync: true,
            data_only: false,
            queued: false,
        };
        assert_eq!(m.tried([synced, fsync(file)]), [false, true], "{kind:?}");
        let mut other = |ops: &[Op]| {
            m.done.clear();
            m.give(1, ops.iter().copied());
            m.finish();
            m.done.iter().map(|d| d.2).collect::<Vec<_>>()
        };
        assert_eq!(other(&[fsync(file), fsync(file)]), [false, true], "{kind:?}");
        // Opened since, it has nothing to tell.
        assert_eq!(other(&[open(file), fsync(file)]), [true, true], "{kind:?}");
    }
}

/// The flusher's write-back fails with nobody there: whoever syncs first is told.
#[test]
fn a_sync_tells_of_a_write_back_that_failed_before_it() {
    for kind in KINDS {
        let (mut m, file) = one_file(kind, 1);
        m.fails = Some((BioKind::Write, What::Data, 1));
        assert_eq!(m.tried([write(file, 0, 4096)]), [true]);
        m.idle_for(Span::from_secs(60));
        assert_eq!(m.fs.dirty_pages(), 0);
        let told = m.tried([open(file), fsync(file), fsync(file)]);
        assert_eq!(told, [true, false, true], "{kind:?}");
    }
}

/// A direct call writes back its range first: what cannot be written is no more, and nobody is to read what was before.
#[test]
fn a_direct_call_fails_with_the_write_back_of_its_range() {
    for kind in KINDS {
        let (mut m, file) = one_file(kind, 1);
        let (offset, len, direct, queued) = (0, 4096, true, false);
        let (sync, data_only) = (false, false);
        let direct_calls = [
            Op::Read { file, offset, len, direct, queued },
            Op::Write { file, offset, len, direct, sync, data_only, queued },
        ];
        for op in direct_calls {
            m.fails = Some((BioKind::Write, What::Data, 1));
            assert_eq!(m.tried([write(file, 0, 4096), op]), [true, false], "{kind:?} {op:?}");
            m.fails = None;
            assert_eq!(m.tried([op]), [true], "{kind:?} {op:?}");
        }
    }
}

/// A page that could not be read is no page: what takes its place away forgets that, too.
#[test]
fn a_truncation_forgets_pages_that_could_not_be_read() {
    let (mut m, file) = one_file(FsKind::Ext4, 1);
    m.fails = Some((BioKind::Read, What::Data, 2));
    assert_eq!(m.tried([read(file, 65_536, 4096)]), [false]);
    assert!(m.fs.cache.has_failed(Key::new(m.fs.inode(file), 16)));
    assert_eq!(m.tried([Op::Truncate { file, size: 4096 }]), [true]);
    assert!(!m.fs.cache.has_failed(Key::new(m.fs.inode(file), 16)));
}

#[test]
fn a_write_of_the_log_that_fails_ends_all_changes() {
    for (kind, what) in [(FsKind::Ext4, What::Commit), (FsKind::Xfs, What::Log)] {
        let (mut m, file) = one_file(kind, 1);
        m.fails = Some((BioKind::Write, what, 1));
        let told = m.tried([write(file, 1 << 20, 4096), fsync(file), write(file, 0, 4096)]);
        assert_eq!(told, [true, false, false], "{kind:?}");
        m.fails = None;
        // XFS does not open and read any more, either.
        let told = m.tried([fsync(file), read(file, 0, 4096), open(file)]);
        let reads = kind == FsKind::Ext4;
        assert_eq!(told, [false, reads, reads], "{kind:?}");
    }
}

#[test]
fn a_block_of_metadata_that_cannot_be_read_fails_its_call() {
    let mut c = config(FsKind::Ext4);
    c.cold = true;
    let mut fs = Fs::new(&c, DRIVE, 1).unwrap();
    files(&mut fs, 1);
    assert!(fs.lay_out(0, 1 << 20));
    let mut m = Machine::of(fs, 1);
    m.fails = Some((BioKind::Read, What::Meta, 1));
    assert_eq!(m.tried([open(0)]), [false]);
}
