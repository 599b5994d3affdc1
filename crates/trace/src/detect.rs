//! How a format is told from the first bytes of a trace.

use crate::error::FormatError;
use crate::format::Format;
use crate::{blkparse, blktrace, msr, oracle, text, vscsi};

/// How many lines of the beginning are looked at.
const SAMPLE_LINES: usize = 64;

/// A format, and what told it: `by` follows "msr, by ".
pub(crate) struct Told {
    pub format: Format,
    pub by: String,
}

/// Why these bytes are no text, where that can be seen.
pub(crate) fn not_text(head: &[u8]) -> Option<FormatError> {
    if head.len() > 262 && &head[257..262] == b"ustar" {
        return Some(FormatError::Archive);
    }
    for (magic, what) in [
        (&b"\xFD7zXZ\0"[..], "xz"),
        (b"BZh", "bzip2"),
        (b"PK\x03\x04", "zip"),
        (b"7z\xBC\xAF\x27\x1C", "7z"),
        (b"\x1F\x8B\x08", "gzip, twice"),
        (b"\x28\xB5\x2F\xFD", "zstd, twice"),
    ] {
        if head.starts_with(magic) {
            return Some(FormatError::Compressed(what));
        }
    }
    // ASCII in UTF-16: every other byte is zero, with a byte order mark or without.
    let pairs = head.chunks_exact(2).take(32);
    let zeros = |i: usize| pairs.len() > 1 && pairs.clone().all(|p| p[i] == 0 && p[1 - i] != 0);
    if head.starts_with(b"\xFF\xFE") || head.starts_with(b"\xFE\xFF") || zeros(0) || zeros(1) {
        return Some(FormatError::Utf16);
    }
    None
}

/// Lines of the beginning that say something, at most [`SAMPLE_LINES`]. `ended` says that `head` is
/// the whole trace, so that its last line is complete.
pub(crate) fn sample(head: &[u8], ended: bool) -> Vec<&[u8]> {
    let head = head.strip_prefix(text::BOM).unwrap_or(head);
    let mut lines: Vec<&[u8]> = head.split(|&b| b == b'\n').collect();
    if !ended && lines.len() > 1 {
        lines.pop(); // cut by the size of the look-ahead
    }
    let lines = lines.into_iter().map(<[u8]>::trim_ascii).filter(|l| !l.is_empty());
    lines.take(SAMPLE_LINES).collect()
}

/// Tells the format from the first bytes, or says why it cannot. A text format is told only if more
/// than half of the first lines have its shape, and no other's.
pub(crate) fn detect(head: &[u8], ended: bool, name: &str) -> Result<Told, FormatError> {
    let told = |format, by: &str| Ok(Told { format, by: by.to_owned() });
    if blktrace::has_magic(head) {
        return told(Format::Blktrace, "the magic number of its first record");
    }
    let vscsi = vscsi::layout(head);
    match (vscsi, oracle::matches(head)) {
        (Some(_), false) => return told(Format::Vscsi, "the versions of its first records"),
        (None, true) => {
            return told(Format::OracleGeneral, "the next accesses of its first records");
        }
        (Some(_), true) => {
            return Err(FormatError::Alike(vec![Format::Vscsi, Format::OracleGeneral]));
        }
        (None, false) => {}
    }
    if let Some(why) = not_text(head) {
        return Err(why);
    }
    let lines = sample(head, ended);
    let Some(first) = lines.first() else {
        return Err(if ended { FormatError::Empty } else { FormatError::Blank });
    };
    if Format::Iolog.matches(first) {
        return told(Format::Iolog, "its first line");
    }
    let count = |f: Format| lines.iter().filter(|l| f.matches(l)).count();
    let fitting: Vec<(Format, usize)> = Format::ALL
        .into_iter()
        .map(|f| (f, count(f)))
        // A number a line is little to go by: nearly all lines have to be one.
        .filter(|&(f, n)| match f {
            Format::Lbn => 10 * n >= 9 * lines.len(),
            _ => 2 * n > lines.len(),
        })
        .collect();
    match fitting[..] {
        [(format, n)] => {
            let by = format!("the columns of {n} of its first {} lines", lines.len());
            return told(format, &by);
        }
        [] => {}
        _ => return Err(FormatError::Alike(fitting.iter().map(|&(f, _)| f).collect())),
    }
    // fio's HOWTO: version 1 is `rw, offset, length` without a header.
    let is_v1 = |l: &[u8]| {
        let f: Vec<&[u8]> = l.split(|&b| b == b',').map(<[u8]>::trim_ascii).collect();
        f.len() == 3
            && matches!(f[0], b"0" | b"1")
            && f[1..].iter().all(|t| !t.is_empty() && t.iter().all(u8::is_ascii_digit))
    };
    if is_v1(first) {
        return Err(FormatError::IologV1);
    }
    let named_blktrace = name.contains(".blktrace.");
    Err(FormatError::Unknown { named_blktrace, first: text::show(first) })
}

impl Format {
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
        let versions = |t: &[u8]| matches!(t, b"1" | b"2");
        // Opcode, bytes in whole sectors, LBN.
        let scsi = |f: &[&[u8]]| {
            let bytes = std::str::from_utf8(f[1]).ok().and_then(|t| t.parse::<u64>().ok());
            vscsi::is_opcode(f[0])
                && bytes.is_some_and(|n| n.is_multiple_of(512))
                && f[2..].iter().all(|t| digits(t))
        };
        match self {
            Format::Iolog => line.starts_with(b"fio version "),
            Format::Blktrace | Format::Vscsi | Format::OracleGeneral | Format::Columns => false,
            Format::Blkparse => blkparse::looks_like(line),
            Format::Msr => {
                let f = comma();
                f.len() == 7 && digits(f[0]) && msr::direction(f[3]).is_some()
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
            Format::Cloudphysics => {
                let f = comma();
                let is_header = || f[0].eq_ignore_ascii_case(b"version");
                f.len() == 5 && (is_header() || versions(f[0]) && decimal(f[1]) && scsi(&f[2..]))
            }
            Format::VscsiText => {
                let f = space();
                matches!(f.len(), 5 | 6) && versions(f[0]) && digits(f[1]) && scsi(&f[2..])
            }
            Format::Lbn => {
                let f = space();
                f.len() == 1 && digits(f[0])
            }
        }
    }
}
