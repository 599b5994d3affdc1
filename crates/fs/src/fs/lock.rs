//! The lock on an inode (i_rwsem, XFS' IOLOCK): readers share it, a writer has it alone, and all come in order,
//! so that a reader waits behind a writer that waits.
//!
//! | call | ext4 of 4.9 to 5.4 | XFS of 4.14 |
//! |---|---|---|
//! | buffered read | none | shared |
//! | direct read | shared | shared |
//! | buffered write | alone | alone |
//! | direct write | alone; with `dioread_nolock` not during an overwrite's I/O | shared; alone behind the end and in parts of blocks |
//! | truncate | alone | alone |
//! | create, unlink | the directory's, alone; unlink the file's too | the same |
//!
//! (ext4_file_write_iter, ext4_direct_IO_read, ext4_direct_IO_write, xfs_file_dio_aio_read and _write,
//! lookup_open, do_unlinkat.) It is held until the I/O has ended, and by an asynchronous direct call that does not
//! make its file longer until the I/O is submitted. Direct I/O that goes on without it is counted, and a truncation
//! waits for it (inode_dio_wait). A device has no such lock.

use crate::config::FsKind;
use crate::fs::{Flow, Frame, Fs, Op, PAGE, Wait};

impl Fs {
    /// The locks that a call begins with, the first of them last.
    pub(crate) fn locks_of(&self, op: &Op) -> [Option<(u32, bool)>; 2] {
        let xfs = match self.config.kind {
            FsKind::Ext4 => false,
            FsKind::Xfs => true,
            FsKind::Bdev => return [None, None],
        };
        match *op {
            Op::Read { file, direct: false, .. } if xfs => [Some((self.inode(file), false)), None],
            Op::Write { file, offset, len, direct, .. } => {
                let ino = self.inode(file);
                let parts = !offset.is_multiple_of(PAGE) || !u64::from(len).is_multiple_of(PAGE);
                let shared = xfs && direct && !parts && offset <= self.inodes[ino].size;
                [Some((ino, !shared)), None]
            }
            Op::Truncate { file, .. } => [Some((self.inode(file), true)), None],
            Op::Unlink { file } => [Some((self.inode(file), true)), self.directory_of(file)],
            _ => [None, None],
        }
    }
    /// The directory of a file, whose names are to change.
    pub(crate) fn directory_of(&self, file: u32) -> Option<(u32, bool)> {
        Some((self.dirs.get(self.files.get(file)?.dir)?.inode, true))
    }

    /// down_read, down_write.
    pub(crate) fn lock(&mut self, t: u32, ino: u32, alone: bool) -> Flow {
        let lock = &mut self.inodes[ino].lock;
        let waits = lock.waits(t);
        if !lock.take(t, alone) {
            self.stats.lock_waits += u64::from(!waits);
            return Flow::Block(Wait::Inode(ino));
        }
        self.tasks[t].held.push((ino, alone));
        self.pop(t)
    }
    pub(crate) fn may_lock(&self, t: u32, ino: u32) -> bool {
        self.inodes[ino].lock.admits(t)
    }
    /// up_read, up_write, of all that a call holds.
    pub(crate) fn unlock(&mut self, t: u32) {
        while let Some((ino, alone)) = self.tasks[t].held.pop() {
            self.inodes[ino].lock.give(alone);
        }
    }

    /// Direct I/O goes on without the lock.
    pub(crate) fn begin_direct(&mut self, t: u32, ino: u32) {
        self.unlock(t);
        self.inodes[ino].lock.begin_direct();
        self.tasks[t].direct = Some(ino);
    }
    /// It has ended. False if it held the lock.
    pub(crate) fn end_direct(&mut self, t: u32) -> bool {
        let Some(ino) = self.tasks[t].direct.take() else { return false };
        self.inodes[ino].lock.end_direct();
        true
    }

    /// The locks of a call that begins, and not again once it has them.
    pub(crate) fn begins_locked(&mut self, t: u32, op: &Op) -> bool {
        if !self.tasks[t].held.is_empty() {
            return false;
        }
        let locks = self.locks_of(op);
        let locks = locks.into_iter().flatten().filter(|&(ino, _)| ino != 0);
        let before = self.tasks[t].frames.len();
        for (ino, alone) in locks {
            self.tasks[t].frames.push(Frame::Lock { ino, alone });
        }
        self.tasks[t].frames.len() > before
    }
}
