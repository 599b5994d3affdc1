//! The formats, their names on the command line, and how one is told from another.

use crate::text;
use crate::{blkparse, blktrace};

/// A trace format. Each has a module of its own that explains its units and traps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Format {
    /// fio iolog, version 2 or 3 by its first line.
    Iolog,
    Blktrace,
    Blkparse,
    Msr,
    Alibaba,
    Tencent,
    Systor17,
    K5,
    Spc,
    Fiu,
    Mqsim,
}

impl Format {
    pub const ALL: [Format; 11] = [
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
    ];

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
        }
    }

    /// The format of that name; `auto` is `None`.
    pub fn from_name(name: &str) -> Result<Option<Format>, String> {
        if name == "auto" {
            return Ok(None);
        }
        if let Some(format) = Format::ALL.into_iter().find(|f| f.name() == name) {
            return Ok(Some(format));
        }
        let lower = name.to_ascii_lowercase();
        let names = Format::ALL.iter().map(|f| f.name()).chain(["auto"]);
        let near =
            names.map(|n| (strsim::osa_distance(n, &lower), n)).min().filter(|(d, _)| *d <= 3);
        let all: Vec<&str> = Format::ALL.iter().map(|f| f.name()).collect();
        Err(match near {
            Some((_, near)) => format!("unknown trace format '{name}', did you mean '{near}'?"),
            None => {
                format!("unknown trace format '{name}': the formats are auto, {}", all.join(", "))
            }
        })
    }

    /// Whether a line of text has the shape of this format. Shapes exclude one another: by
    /// separator, by number of columns, and by the column in which R or W stands.
    fn matches(self, line: &[u8]) -> bool {
        let comma = || line.split(|&b| b == b',').map(<[u8]>::trim_ascii).collect::<Vec<_>>();
        let space = || text::words(line).map(|f| f.text).collect::<Vec<_>>();
        let digits = |t: &[u8]| !t.is_empty() && t.iter().all(u8::is_ascii_digit);
        let decimal = |t: &[u8]| {
            let dots = t.iter().filter(|&&b| b == b'.').count();
            dots <= 1 && t.len() > dots && t.iter().all(|b| b.is_ascii_digit() || *b == b'.')
        };
        let rw = |t: &[u8]| matches!(t, b"R" | b"W" | b"r" | b"w");
        match self {
            Format::Iolog => line.starts_with(b"fio version "),
            Format::Blktrace => false,
            Format::Blkparse => blkparse::looks_like(line),
            Format::Msr => {
                let f = comma();
                f.len() == 7
                    && digits(f[0])
                    && (f[3].eq_ignore_ascii_case(b"read") || f[3].eq_ignore_ascii_case(b"write"))
            }
            Format::Alibaba => {
                let f = comma();
                f.len() == 5 && digits(f[0]) && rw(f[1]) && f[2..].iter().all(|t| digits(t))
            }
            Format::Tencent => {
                let f = comma();
                f.len() == 5 && f.iter().all(|t| digits(t)) && matches!(f[3], b"0" | b"1")
            }
            Format::Systor17 => {
                let f = comma();
                f.len() == 6
                    && (f[0].eq_ignore_ascii_case(b"timestamp")
                        || decimal(f[0])
                            && (rw(f[2]) || f[2].is_empty())
                            && f[3..].iter().all(|t| digits(t)))
            }
            Format::K5 => {
                let f = comma();
                f.len() == 5
                    && digits(f[0])
                    && decimal(f[1])
                    && rw(f[2])
                    && f[3..].iter().all(|t| digits(t))
            }
            Format::Spc => {
                let f = comma();
                f.len() >= 5 && f[..3].iter().all(|t| digits(t)) && rw(f[3]) && decimal(f[4])
            }
            Format::Fiu => {
                let f = space();
                f.len() >= 8
                    && digits(f[0])
                    && digits(f[1])
                    && f[5..].windows(3).any(|w| rw(w[0]) && digits(w[1]) && digits(w[2]))
            }
            Format::Mqsim => {
                let f = space();
                f.len() == 5
                    && decimal(f[0])
                    && f[1..4].iter().all(|t| digits(t))
                    && matches!(f[4], b"0" | b"1")
            }
        }
    }
}

/// How many lines of the beginning are looked at.
const SAMPLE_LINES: usize = 64;

/// Tells the format from the first bytes, or says why it cannot. `ended` says that `head` is the
/// whole trace, so that its last line is complete.
pub(crate) fn detect(head: &[u8], ended: bool, name: &str) -> Result<Format, String> {
    if blktrace::has_magic(head) {
        return Ok(Format::Blktrace);
    }
    if head.len() > 262 && &head[257..262] == b"ustar" {
        return Err("this is a tar archive: unpack it and give the trace inside".into());
    }
    for (magic, what) in [
        (&b"\xFD7zXZ\0"[..], "xz"),
        (b"BZh", "bzip2"),
        (b"PK\x03\x04", "zip"),
        (b"7z\xBC\xAF\x27\x1C", "7z"),
        (b"\x1F\x8B", "gzip, twice"),
        (b"\x28\xB5\x2F\xFD", "zstd, twice"),
    ] {
        if head.starts_with(magic) {
            return Err(format!(
                "compressed with {what}: decompress it, only .gz and .zst are read"
            ));
        }
    }
    let head = head.strip_prefix(text::BOM).unwrap_or(head);
    let mut lines: Vec<&[u8]> = head.split(|&b| b == b'\n').collect();
    if !ended && lines.len() > 1 {
        lines.pop(); // cut by the size of the look-ahead
    }
    let lines: Vec<&[u8]> = lines
        .into_iter()
        .map(<[u8]>::trim_ascii)
        .filter(|l| !l.is_empty())
        .take(SAMPLE_LINES)
        .collect();
    let Some(first) = lines.first() else {
        return Err(if ended {
            "the trace is empty".into()
        } else {
            "the trace begins with 64 KiB of blank lines".into()
        });
    };
    if Format::Iolog.matches(first) {
        return Ok(Format::Iolog);
    }
    let best = Format::ALL
        .into_iter()
        .map(|f| (lines.iter().filter(|l| f.matches(l)).count(), f))
        .max_by_key(|&(n, f)| (n, std::cmp::Reverse(f)));
    if let Some((n, format)) = best
        && 2 * n > lines.len()
    {
        return Ok(format);
    }
    // fio's HOWTO: version 1 is `rw, offset, length` without a header.
    let is_v1 = |l: &[u8]| {
        let f: Vec<&[u8]> = l.split(|&b| b == b',').map(<[u8]>::trim_ascii).collect();
        f.len() == 3
            && matches!(f[0], b"0" | b"1")
            && f[1..].iter().all(|t| !t.is_empty() && t.iter().all(u8::is_ascii_digit))
    };
    if is_v1(first) {
        return Err("this looks like a fio I/O log of version 1, which has no file names and no \
                    times: record it again with fio 1.17 or newer"
            .into());
    }
    let named = if name.contains(".blktrace.") {
        ", although it is named like a blktrace file"
    } else {
        ""
    };
    let all: Vec<&str> = Format::ALL.iter().map(|f| f.name()).collect();
    Err(format!(
        "cannot tell the format{named}; it begins with '{}': name it with --format ({})",
        text::show(first),
        all.join(", ")
    ))
}
