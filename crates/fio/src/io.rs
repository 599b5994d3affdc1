//! An I/O of a job.

use crate::job::Prio;
use wordline_base::Ddir;

/// A file of a job: the first is 0.
pub type FileId = u32;

/// One I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Io {
    /// Read, write, trim or one of the syncs.
    pub ddir: Ddir,
    /// Byte on the drive; zero for a sync.
    pub offset: u64,
    /// Bytes; zero for a sync.
    pub len: u64,
    /// Index of the job's file.
    pub file: FileId,
    /// What the I/O is issued with; `cmdprio` is in it.
    pub prio: Prio,
    /// A `DataSync` that is sync_file_range: it writes back cached pages and sends no flush.
    pub range_only: bool,
    /// A `Sync` of `end_fsync` or `fsync_on_close`, which fio leaves out of its statistics.
    pub closing: bool,
    /// A read of `verify=`, of what the job wrote.
    pub check: Check,
}

impl Io {
    /// So many bytes, of which nothing else matters.
    pub fn of(ddir: Ddir, len: u64) -> Io {
        Io {
            ddir,
            offset: 0,
            len,
            file: 0,
            prio: Prio::default(),
            range_only: false,
            closing: false,
            check: Check::None,
        }
    }
    /// Its length for the host and the drive, whose lengths have 32 bits.
    ///
    /// # Panics
    ///
    /// With 4 GiB or more, which no job that was parsed has for a block.
    #[inline]
    pub fn len32(&self) -> u32 {
        u32::try_from(self.len).expect("a block is less than 4 GiB")
    }
}

/// Which part of `verify=` an I/O is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Check {
    /// It is no read of `verify=`.
    #[default]
    None,
    /// Between the writes, as `verify_backlog` has it.
    Backlog,
    /// In the pass that reads all back.
    Pass,
}
