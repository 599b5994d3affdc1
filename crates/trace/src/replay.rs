//! What a replay decides about a request: when it arrives, and where it lands on the drive.

use crate::error::{ClockError, Place, TraceError};
use crate::reader::Reader;
use crate::request::Request;
use wordline_base::{Ddir, Time};

const BILLION: u64 = 1_000_000_000;

/// When a request of a trace is issued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// At this instant of virtual time.
    At(Time),
    /// As soon as the depth of the closed loop allows.
    WhenFree,
}

/// How the times of a trace become arrivals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// At the times of the trace.
    Timestamps,
    /// Times multiplied by parts per billion: 500,000,000 halves them, so that requests arrive
    /// twice as fast. (fio's replay_time_scale is the inverse, in percent of speed.)
    Scaled {
        /// Parts per billion.
        ppb: u64,
    },
    /// As soon as fewer than the depth are in flight; the trace's times are not looked at.
    ClosedLoop,
}

impl Clock {
    /// From `--time-scale`: a decimal factor such as `0.5`, with up to nine decimals.
    pub fn scaled(factor: &str) -> Result<Clock, ClockError> {
        let bad = || ClockError::Factor(factor.into());
        let (whole, decimals) = factor.split_once('.').unwrap_or((factor, ""));
        if whole.is_empty() && decimals.is_empty()
            || decimals.len() > 9
            || !whole.bytes().chain(decimals.bytes()).all(|b| b.is_ascii_digit())
        {
            return Err(bad());
        }
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| bad())? };
        let decimals: u64 = format!("{decimals:0<9}").parse().map_err(|_| bad())?;
        let ppb = whole.checked_mul(BILLION).and_then(|w| w.checked_add(decimals));
        match ppb.ok_or_else(bad)? {
            0 => Err(ClockError::Still),
            BILLION => Ok(Clock::Timestamps),
            ppb => Ok(Clock::Scaled { ppb }),
        }
    }

    /// A time of the trace as it goes by in the replay.
    pub fn scale(self, ns: u64) -> u64 {
        match self {
            Clock::Timestamps | Clock::ClosedLoop => ns,
            Clock::Scaled { ppb } => {
                let scaled = u128::from(ns) * u128::from(ppb) / u128::from(BILLION);
                u64::try_from(scaled).unwrap_or(u64::MAX)
            }
        }
    }

    /// When a request that stands at `at` in the trace arrives. Integer arithmetic, so that equal
    /// inputs give equal times everywhere; what is below a nanosecond is cut off.
    pub fn arrival(self, at: Time) -> Result<Arrival, ClockError> {
        if self == Clock::ClosedLoop {
            return Ok(Arrival::WhenFree);
        }
        let at = Time(self.scale(at.0));
        if at >= Time::NEVER {
            return Err(ClockError::Beyond);
        }
        Ok(Arrival::At(at))
    }
}

/// What to do with a request beyond the end of the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Wrap {
    /// It ends the run with an error.
    #[default]
    Error,
    /// Its address is taken modulo the drive's size.
    Wrap,
    /// It is left out.
    Skip,
}

/// What to do with a request that is not whole logical blocks of the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Align {
    /// It ends the run with an error.
    #[default]
    Error,
    /// Reads and writes are widened to whole blocks, trims narrowed, as drives do.
    Round,
}

/// Requests made whole blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rounded {
    /// Requests that were changed or left out.
    pub requests: u64,
    /// Bytes that the widened ones read and write more.
    pub bytes: u64,
    /// Trims without a whole block, left out.
    pub trims: u64,
}

impl Rounded {
    /// Offset and length in whole blocks of `lba` bytes, a power of two; none for a trim of none.
    pub fn round(&mut self, op: Ddir, offset: u64, len: u64, lba: u64) -> Option<(u64, u64)> {
        let (within, end) = (lba - 1, offset + len);
        if (offset | len) & within == 0 {
            return Some((offset, len));
        }
        self.requests += 1;
        if op == Ddir::Trim {
            let (from, to) = ((offset + within) & !within, end & !within);
            let some = from < to;
            self.trims += u64::from(!some);
            return some.then(|| (from, to - from));
        }
        let from = offset & !within;
        let rounded = ((end + within) & !within) - from;
        self.bytes += rounded - len;
        Some((from, rounded))
    }
}

/// Fits addresses to a drive.
#[derive(Clone, Debug)]
pub struct Fit {
    wrap: Wrap,
    drive_bytes: u64,
    /// Bytes of a logical block.
    lba: u64,
    align: Align,
    /// A job's options fit it, not those of a replay.
    of_job: bool,
    /// Requests moved.
    pub wrapped: u64,
    /// Requests left out, and where the first stands.
    pub skipped: Option<(u64, Place)>,
    /// What was made whole blocks.
    pub rounded: Rounded,
}

impl Fit {
    /// To a drive that takes any offset and length.
    pub fn new(wrap: Wrap, drive_bytes: u64) -> Fit {
        let (lba, align, of_job) = (1, Align::Error, false);
        let (skipped, rounded) = (None, Rounded::default());
        Fit { wrap, drive_bytes, lba, align, of_job, wrapped: 0, skipped, rounded }
    }
    /// For a job that reads the trace.
    pub fn of_job(self) -> Fit {
        Fit { of_job: true, ..self }
    }
    /// To one of logical blocks.
    pub fn on_blocks(self, lba: u32, align: Align) -> Fit {
        Fit { lba: lba.into(), align, ..self }
    }

    /// The request in whole logical blocks of the drive; none if it is a trim of none.
    pub fn in_blocks(
        &mut self,
        mut request: Request,
        reader: &Reader,
    ) -> Result<Option<Request>, TraceError> {
        let (op, offset, len, lba) = (request.op, request.offset, request.len, self.lba);
        if (offset | u64::from(len)) & (lba - 1) == 0 {
            return Ok(Some(request));
        }
        let refuse = |why: &str| {
            reader.error_here(format!(
                "{} of {len} bytes at offset {offset}{} (volume {}) {why}",
                op.name(),
                if self.wrap == Wrap::Wrap { " of the drive, after --wrap" } else { "" },
                reader.volume_name(request.volume)
            ))
        };
        if self.align == Align::Error {
            let smaller = match lba {
                512 => "",
                _ => ", or a drive with blocks of 512 bytes (--set device.lba=512)",
            };
            return Err(refuse(&format!(
                "is not whole blocks of the drive, of {lba} bytes: use --align round{smaller}"
            )));
        }
        let Some((offset, len)) = self.rounded.round(op, offset, len.into(), lba) else {
            return Ok(None);
        };
        request.offset = offset;
        request.len = u32::try_from(len).map_err(|_| refuse("is too long to be rounded"))?;
        Ok(Some(request))
    }

    /// The request as it goes to the drive, none if it is left out; `reader` is what just delivered it. An address
    /// beyond the end is taken modulo the drive's size; a request that then crosses the end is moved to end there,
    /// whole.
    pub fn place(
        &mut self,
        mut request: Request,
        reader: &Reader,
    ) -> Result<Option<Request>, TraceError> {
        let (len, drive) = (u64::from(request.len), self.drive_bytes);
        if request.offset <= drive && len <= drive - request.offset {
            return Ok(Some(request));
        }
        if self.wrap == Wrap::Skip {
            self.skipped.get_or_insert((0, reader.place())).0 += 1;
            return Ok(None);
        }
        let what = || {
            format!(
                "{} of {len} bytes at offset {} (volume {})",
                request.op.name(),
                request.offset,
                reader.volume_name(request.volume)
            )
        };
        let skip = match self.of_job {
            true => "wordline replay --skip-beyond",
            false => "--skip-beyond",
        };
        if len > drive || drive == 0 {
            let message = format!(
                "{} is larger than the drive of {drive} bytes: use {skip}, which leaves it out, or a larger drive",
                what()
            );
            return Err(reader.error_here(message));
        }
        if self.wrap == Wrap::Error {
            let remedy = match self.of_job {
                true => "replay_scale, which divides offsets, wordline replay --wrap,",
                false => "--wrap,",
            };
            let message = format!(
                "{} is beyond the end of the drive of {drive} bytes: use {remedy} a larger drive, or {skip}, which \
                 leaves such requests out",
                what()
            );
            return Err(reader.error_here(message));
        }
        request.offset = (request.offset % drive).min(drive - len);
        self.wrapped += 1;
        Ok(Some(request))
    }
}
