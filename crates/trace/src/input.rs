//! From the bytes of a file to lines: decompression by magic, a look ahead, and bounded lines.
//!
//! Memory is bounded whatever the input says: the look-ahead by [`PEEK`], a line by [`MAX_LINE`], a
//! zstd window by 128 MiB (what `zstd -d` allows by default; ruzstd refuses more).

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, BufReader, Chain, Cursor, ErrorKind, Read};

pub(crate) type Bytes = Box<dyn Read + Send>;
/// A trace from its first byte on.
pub(crate) type Whole = BufReader<Chain<Cursor<Vec<u8>>, Bytes>>;

/// Bytes looked at to tell the format.
pub(crate) const PEEK: usize = 64 << 10;
/// A longer line is no line of a trace.
pub(crate) const MAX_LINE: usize = 64 << 10;
const BUFFER: usize = 64 << 10;

/// Uncompressed bytes with a look ahead.
pub(crate) struct Input {
    pub head: Vec<u8>,
    /// The head is all there is.
    pub ended: bool,
    /// What went wrong while looking ahead: reported once the head has been read.
    pub failure: Option<io::Error>,
    rest: Bytes,
}

impl Input {
    /// `name` helps where the bytes alone do not tell.
    pub fn open(mut raw: Bytes, name: &str) -> io::Result<Input> {
        let mut magic = Vec::new();
        (&mut raw).take(4).read_to_end(&mut magic)?;
        if let Some(what) = cut_magic(&magic, name) {
            return Err(cut_short(what));
        }
        let whole = Cursor::new(magic.clone()).chain(raw);
        let mut bytes: Bytes = match magic.as_slice() {
            // Deflate, and no flag that is reserved (RFC 1952): a binary trace can begin with the
            // first two bytes as well.
            [0x1F, 0x8B] | [0x1F, 0x8B, 0x08] | [0x1F, 0x8B, 0x08, 0x00..=0x1F] => {
                Box::new(Explained {
                    inner: MultiGzDecoder::new(BufReader::with_capacity(BUFFER, whole)),
                    what: "gzip",
                })
            }
            [0x28, 0xB5, 0x2F, 0xFD] => {
                Box::new(ZstdFrames::new(BufReader::with_capacity(BUFFER, whole)))
            }
            // A skippable zstd frame, as pzstd writes in front: 0x184D2A5?, little-endian.
            [0x50..=0x5F, 0x2A, 0x4D, 0x18] => {
                Box::new(ZstdFrames::new(BufReader::with_capacity(BUFFER, whole)))
            }
            _ => Box::new(whole),
        };
        let mut head = Vec::new();
        match (&mut bytes).take(PEEK as u64).read_to_end(&mut head) {
            Ok(n) => Ok(Input { head, ended: n < PEEK, failure: None, rest: bytes }),
            Err(e) if head.is_empty() => Err(e),
            Err(e) => Ok(Input { head, ended: false, failure: Some(e), rest: bytes }),
        }
    }

    /// All the bytes from the beginning.
    pub fn into_bytes(self) -> Whole {
        let rest = match self.failure {
            Some(e) => Box::new(Failing(Some(e))),
            None => self.rest,
        };
        BufReader::with_capacity(BUFFER, Cursor::new(self.head).chain(rest))
    }
}

/// Fills `buf` as far as the input goes.
pub(crate) fn fill(input: &mut impl Read, buf: &mut [u8]) -> io::Result<usize> {
    let mut n = 0;
    while n < buf.len() {
        match input.read(&mut buf[n..]) {
            Ok(0) => break,
            Ok(m) => n += m,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(n)
}

/// Which compression a file shorter than its magic number is the beginning of.
fn cut_magic(head: &[u8], name: &str) -> Option<&'static str> {
    // The first byte of a zstd frame is a letter of text as well.
    let zstd = match head {
        [0x28] | [0x50..=0x5F] | [0x50..=0x5F, 0x2A] => name.ends_with(".zst"),
        [0x28, 0xB5] | [0x28, 0xB5, 0x2F] | [0x50..=0x5F, 0x2A, 0x4D] => true,
        _ => false,
    };
    match head {
        [0x1F] => Some("gzip"),
        _ => zstd.then_some("zstd"),
    }
}

/// An error met while looking ahead, handed out when reading reaches it.
struct Failing(Option<io::Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match self.0.take() {
            Some(e) => Err(e),
            None => Ok(0),
        }
    }
}

/// Says in an error which decompressor it comes from, and that an early end is one.
struct Explained<R> {
    inner: R,
    what: &'static str,
}

impl<R: Read> Read for Explained<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buf).map_err(|e| match e.kind() {
            ErrorKind::Interrupted => e,
            ErrorKind::UnexpectedEof => cut_short(self.what),
            kind => io::Error::new(kind, format!("damaged {} data: {e}", self.what)),
        })
    }
}

fn cut_short(what: &str) -> io::Error {
    let message = format!("the {what} data end early: the file is cut short, fetch it again");
    io::Error::new(ErrorKind::UnexpectedEof, message)
}

/// The frames of a zstd file one after the other; ruzstd's own reader stops after the first, but
/// pzstd and `cat` make several. Checksums are compared, which ruzstd leaves to its caller.
struct ZstdFrames<R> {
    source: R,
    decoder: FrameDecoder,
    in_frame: bool,
}

impl<R: BufRead> ZstdFrames<R> {
    fn new(source: R) -> ZstdFrames<R> {
        ZstdFrames { source, decoder: FrameDecoder::new(), in_frame: false }
    }

    fn explain(&mut self, e: FrameDecoderError) -> io::Error {
        if let FrameDecoderError::WindowSizeTooBig { requested, max } = e {
            let message = format!(
                "a zstd window of {} MiB, at most {} are allowed: decompress it with \
                 zstd -d --long=31",
                requested >> 20,
                max >> 20
            );
            return io::Error::new(ErrorKind::InvalidData, message);
        }
        match self.source.fill_buf() {
            Ok([]) => cut_short("zstd"),
            Ok(_) => io::Error::new(ErrorKind::InvalidData, format!("damaged zstd data: {e}")),
            Err(e) => e,
        }
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.in_frame {
                if self.source.fill_buf()?.is_empty() {
                    return Ok(0);
                }
                match self.decoder.init(&mut self.source) {
                    Ok(()) => self.in_frame = true,
                    Err(FrameDecoderError::ReadFrameHeaderError(
                        ReadFrameHeaderError::SkipFrame { length, .. },
                    )) => {
                        let length = u64::from(length);
                        let skipped =
                            io::copy(&mut (&mut self.source).take(length), &mut io::sink())?;
                        if skipped < length {
                            return Err(cut_short("zstd"));
                        }
                        continue;
                    }
                    Err(e) => return Err(self.explain(e)),
                }
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let strategy = BlockDecodingStrategy::UptoBlocks(1);
                if let Err(e) = self.decoder.decode_blocks(&mut self.source, strategy) {
                    return Err(self.explain(e));
                }
            }
            let n = self.decoder.read(buf)?;
            if n > 0 {
                return Ok(n);
            }
            let written = self.decoder.get_checksum_from_data();
            if written.is_some() && written != self.decoder.get_calculated_checksum() {
                return Err(io::Error::new(
                    ErrorKind::InvalidData,
                    "damaged zstd data: the checksum differs, fetch the file again",
                ));
            }
            self.in_frame = false;
        }
    }
}

/// Lines without their ends, each at most [`MAX_LINE`] bytes.
pub(crate) struct Lines {
    input: Whole,
    line: Vec<u8>,
    /// The number of the last line read.
    pub number: u64,
    /// The last line read had no line feed.
    pub unended: bool,
}

impl Lines {
    pub fn new(input: Input) -> Lines {
        Lines { input: input.into_bytes(), line: Vec::new(), number: 0, unended: false }
    }

    pub fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.line.clear();
        let mut bounded = (&mut self.input).take(MAX_LINE as u64 + 1);
        let read = bounded.read_until(b'\n', &mut self.line);
        if !matches!(read, Ok(0)) {
            self.number += 1; // an error is on the line it interrupts
        }
        if read? == 0 {
            return Ok(None);
        }
        self.unended = self.line.last() != Some(&b'\n');
        let mut line = self.line.as_slice();
        if !self.unended {
            line = &line[..line.len() - 1];
        } else if line.len() > MAX_LINE {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                format!("a line of more than {MAX_LINE} bytes: this is no text trace"),
            ));
        }
        if let [text @ .., b'\r'] = line {
            line = text;
        }
        if self.number == 1 {
            line = line.strip_prefix(crate::text::BOM).unwrap_or(line);
        }
        Ok(Some(line))
    }
}

pub(crate) fn read_error(e: io::Error) -> String {
    match e.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
            e.to_string()
        }
        _ => format!("cannot be read: {e}"),
    }
}
