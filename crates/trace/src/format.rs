//! The formats, their names on the command line, and what each does not have.

use crate::error::WordError;
use wordline_base::nearest;

/// A trace format. Each has a module of its own that explains its units and traps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Format {
    /// fio iolog, version 2 or 3 by its first line.
    Iolog,
    /// The stream of blktrace's binary records, one file a processor.
    Blktrace,
    /// What blkparse prints of it by default.
    Blkparse,
    /// Microsoft Research Cambridge: a CSV with Windows file times.
    Msr,
    /// Alibaba Cloud's block storage of 2020: a CSV in microseconds.
    Alibaba,
    /// Tencent Cloud's block storage of 2018: a CSV in whole seconds.
    Tencent,
    /// Virtual desktops, published at SYSTOR '17: a CSV in seconds.
    Systor17,
    /// Fujitsu K5, a cloud's block storage of 2018: a CSV in seconds.
    K5,
    /// The Storage Performance Council's files, such as UMass' Financial and WebSearch.
    Spc,
    /// Florida International University's traces: words, times in nanoseconds.
    Fiu,
    /// What MQSim and DiskSim read: five words a line.
    Mqsim,
    /// libCacheSim's CSV of a vscsi trace.
    Cloudphysics,
    /// VMware's binary records, version 1 or 2.
    Vscsi,
    /// The same, printed.
    VscsiText,
    /// libCacheSim's binary records for caches.
    OracleGeneral,
    /// An address a line.
    Lbn,
    /// Delimited text as [`crate::OpenOptions::columns`] describes it; it has no name.
    Columns,
}

/// What a format does not have, so that a replay may be told it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Lacks {
    pub volume: bool,
    pub direction: bool,
    pub length: bool,
    /// The unit of addresses.
    pub unit: bool,
}

impl Format {
    /// All that have a name.
    pub const ALL: [Format; 16] = [
        Format::Iolog,
        Format::Blktrace,
        Format::Blkparse,
        Format::Msr,
        Format::Alibaba,
        Format::Tencent,
        Format::Systor17,
        Format::K5,
        Format::Spc,
        Format::Fiu,
        Format::Mqsim,
        Format::Cloudphysics,
        Format::Vscsi,
        Format::VscsiText,
        Format::OracleGeneral,
        Format::Lbn,
    ];

    pub(crate) fn lacks(self) -> Lacks {
        match self {
            Format::Spc => Lacks { unit: true, ..Lacks::default() },
            Format::Cloudphysics | Format::Vscsi | Format::VscsiText => {
                Lacks { volume: true, ..Lacks::default() }
            }
            Format::OracleGeneral => {
                Lacks { volume: true, direction: true, unit: true, ..Lacks::default() }
            }
            Format::Lbn => Lacks { volume: true, direction: true, length: true, unit: true },
            _ => Lacks::default(),
        }
    }

    fn is_binary(self) -> bool {
        matches!(self, Format::Blktrace | Format::Vscsi | Format::OracleGeneral)
    }

    /// What it consists of.
    pub fn unit(self) -> &'static str {
        if self.is_binary() { "record" } else { "line" }
    }

    /// Times are whole seconds, in which the requests are spread.
    pub(crate) fn has_seconds(self) -> bool {
        matches!(self, Format::Tencent | Format::Cloudphysics | Format::OracleGeneral)
    }

    /// The name for `--format`.
    pub fn name(self) -> &'static str {
        match self {
            Format::Iolog => "iolog",
            Format::Blktrace => "blktrace",
            Format::Blkparse => "blkparse",
            Format::Msr => "msr",
            Format::Alibaba => "alibaba",
            Format::Tencent => "tencent",
            Format::Systor17 => "systor17",
            Format::K5 => "k5",
            Format::Spc => "spc",
            Format::Fiu => "fiu",
            Format::Mqsim => "mqsim",
            Format::Cloudphysics => "cloudphysics",
            Format::Vscsi => "vscsi",
            Format::VscsiText => "vscsi-text",
            Format::OracleGeneral => "oraclegeneral",
            Format::Lbn => "lbn",
            Format::Columns => "columns",
        }
    }

    /// One line for help output.
    pub fn description(self) -> &'static str {
        match self {
            Format::Iolog => "fio I/O log, version 2 or 3 (write_iolog, read_iolog)",
            Format::Blktrace => "Linux blktrace binary records, one file a CPU",
            Format::Blkparse => "text output of blkparse in its default layout",
            Format::Msr => {
                "MSR Cambridge: Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime"
            }
            Format::Alibaba => "Alibaba Cloud 2020: device_id,opcode,offset,length,timestamp",
            Format::Tencent => "Tencent CBS: Timestamp,Offset,Size,IOType,VolumeID",
            Format::Systor17 => "SYSTOR '17 VDI: Timestamp,Response,IOType,LUN,Offset,Size",
            Format::K5 => "Fujitsu K5 cloud: ID,Timestamp,Type,Offset,Length",
            Format::Spc => "SPC / UMass (Financial, WebSearch): ASU,LBA,Size,Opcode,Timestamp",
            Format::Fiu => "FIU: ts pid process lba blocks W|R major minor md5",
            Format::Mqsim => "MQSim / DiskSim ASCII: time device lba sectors type",
            Format::Cloudphysics => "CloudPhysics, libCacheSim's csv: version,time,op,size,lbn",
            Format::Vscsi => "VMware vscsi binary records, version 1 or 2",
            Format::VscsiText => "the same, printed: version time opcode length lbn [response]",
            Format::OracleGeneral => "libCacheSim's binary records for caches; without a direction",
            Format::Lbn => "libCacheSim's txt of block traces: an lbn a line, nothing else",
            Format::Columns => "columns as named",
        }
    }

    /// The format of that name; `auto` is `None`.
    pub fn from_name(name: &str) -> Result<Option<Format>, WordError> {
        if name == "auto" {
            return Ok(None);
        }
        if let Some(format) = Format::ALL.into_iter().find(|f| f.name() == name) {
            return Ok(Some(format));
        }
        if name == Format::Columns.name() {
            return Err(WordError::Columns);
        }
        let names = Format::ALL.iter().map(|f| f.name()).chain(["auto"]);
        Err(WordError::Format { name: name.into(), near: nearest(name, names) })
    }
}

/// All formats, by name.
pub(crate) fn names() -> String {
    Format::ALL.iter().map(|f| f.name()).collect::<Vec<_>>().join(", ")
}
