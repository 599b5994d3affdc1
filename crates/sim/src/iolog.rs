//! The log of a job's `write_iolog`: each I/O with the drive or the file that it goes to, and its place
//! there.

use crate::disks::ALONE;
use crate::result::Iolog;
use wordline_base::Time;
use wordline_fio::Io;
use wordline_host::{DISK_SHIFT, disk_of};
use wordline_trace::Request;

/// What a job has logged so far.
pub(crate) struct Log {
    /// The job's drives by number, as the log names them.
    drives: Vec<(u16, String)>,
    requests: Vec<Request>,
    /// Where the last I/O was on its drive or in its file.
    last: u64,
}

impl Log {
    pub fn new() -> Log {
        Log { drives: vec![(0, ALONE.into())], requests: Vec::new(), last: 0 }
    }
    /// The job is on these drives.
    pub fn on_drives(&mut self, drives: Vec<(u16, String)>) {
        self.drives = drives;
    }
    /// An I/O is issued. `in_file`: the file that it is in, and where that begins for the generator.
    /// `address`: an address on the drive that it goes to.
    pub fn push(&mut self, at: Time, io: &Io, in_file: Option<(u32, u64)>, address: u64) {
        let (volume, offset) = match in_file {
            Some((file, base)) => (file, io.offset.saturating_sub(base)),
            None => {
                let of_drive = |(number, _): &(u16, String)| *number == disk_of(address);
                let drive = self.drives.iter().position(of_drive).unwrap_or(0);
                (drive as u32, io.offset & ((1 << DISK_SHIFT) - 1))
            }
        };
        // A sync has no place. fio logs that of the io_u's I/O before it, which at iodepth=1 is the job's
        // last.
        if !io.ddir.is_sync() {
            self.last = offset;
        }
        self.requests.push(Request { at, op: io.ddir, volume, offset: self.last, len: io.len32() });
    }
    /// All of it, with the names of the job's files if it is on a file system.
    pub fn told(&self, path: &str, files: Option<Vec<String>>) -> Iolog {
        let drives = || self.drives.iter().map(|(_, name)| name.clone()).collect();
        let names = files.unwrap_or_else(drives);
        Iolog { path: path.into(), names, requests: self.requests.clone() }
    }
}
