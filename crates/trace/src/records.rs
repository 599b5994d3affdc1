//! Binary traces of little-endian records of one size, without a header.

use crate::error::{Place, TraceError, TraceFault};
use crate::input::read_error;
use crate::input::{Input, Whole, fill};
use crate::sink::Sink;
use crate::{oracle, vscsi};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    Vscsi1,
    Vscsi2,
    OracleGeneral,
}

impl Layout {
    pub fn bytes(self) -> usize {
        match self {
            Layout::Vscsi1 => 32,
            Layout::Vscsi2 => 40,
            Layout::OracleGeneral => 24,
        }
    }
}

pub(crate) fn u16_at(r: &[u8], i: usize) -> u16 {
    u16::from_le_bytes([r[i], r[i + 1]])
}
pub(crate) fn u32_at(r: &[u8], i: usize) -> u32 {
    u32::from_le_bytes([r[i], r[i + 1], r[i + 2], r[i + 3]])
}
pub(crate) fn u64_at(r: &[u8], i: usize) -> u64 {
    u64::from(u32_at(r, i + 4)) << 32 | u64::from(u32_at(r, i))
}

pub(crate) struct Fixed {
    input: Whole,
    name: String,
    layout: Layout,
}

impl Fixed {
    pub fn new(input: Input, name: &str, layout: Layout) -> Fixed {
        Fixed { input: input.into_bytes(), name: name.to_owned(), layout }
    }

    /// Takes one record; false at the end.
    pub fn step(&mut self, sink: &mut Sink) -> Result<bool, TraceError> {
        let mut buffer = [0; 40];
        let size = self.layout.bytes();
        let byte = sink.line * size as u64;
        let place = Place::Record { record: sink.line + 1, byte };
        let error = |fault, message: String| TraceError::new(&self.name, place, fault, message);
        let n = fill(&mut self.input, &mut buffer[..size])
            .map_err(|e| error(TraceFault::Unreadable, read_error(e)))?;
        if n == 0 {
            return Ok(false);
        }
        if n < size {
            return Err(error(
                TraceFault::Malformed,
                format!(
                    "the record is cut short, {n} of {size} bytes: fetch the file again, or cut it \
                 there"
                ),
            ));
        }
        sink.line += 1;
        let record = &buffer[..size];
        match self.layout {
            Layout::OracleGeneral => oracle::record(record, byte, sink),
            layout => vscsi::record(layout, record, byte, sink),
        }
        .map(|()| true)
        .map_err(|e| error(TraceFault::Malformed, e.to_string()))
    }
}
