//! MQSim and DiskSim ASCII traces (MQSim, ASCII_Trace_Definition.h).
//!
//! Five words: `time device lba size type`. The unit of time is not in the file but in MQSim's
//! workload XML; nanoseconds unless told otherwise, DiskSim writes milliseconds with decimals.
//! Address and size in 512 B sectors. **Type 0 is a write and 1 a read**, the opposite of
//! Tencent's. MQSim itself ignores the device; here it is the volume.

use crate::alibaba::volume_u32;
use crate::options::TimeUnit;
use crate::request::Stamp;
use crate::sink::Sink;
use crate::spc::BLOCK;
use crate::text::{Fault, words};
use wordline_base::Ddir;

pub(crate) struct Parser {
    unit_ps: u64,
}

impl Parser {
    pub fn new(unit: TimeUnit) -> Parser {
        Parser { unit_ps: unit.ps() }
    }

    pub fn line(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), Fault> {
        let mut words = words(line);
        let mut next = |i: usize| {
            words.next().ok_or_else(|| {
                let message = format!("{i} columns where 5 are due: time device lba size type");
                Fault::new(line.len() + 1, message)
            })
        };
        let (time, device, lba, size, kind) = (next(0)?, next(1)?, next(2)?, next(3)?, next(4)?);
        if let Some(extra) = words.next() {
            return Err(extra.fault("more than 5 columns; they are time device lba size type"));
        }
        let volume = device.number("device")?;
        if !sink.wants_number(volume) {
            return Ok(());
        }
        let volume = volume_u32(device, volume)?;
        let at = Stamp { ns: time.time(self.unit_ps, "time")?, column: time.column as u64 };
        let lba = lba.number("lba")?;
        let size = size.number("size")?;
        let op = match kind.text {
            b"0" => Ddir::Write,
            b"1" => Ddir::Read,
            _ => {
                let message = format!("type is neither 0 (write) nor 1 (read): '{}'", kind.show());
                return Err(kind.fault(message));
            }
        };
        sink.push(at, op, volume, u128::from(lba) * BLOCK, u128::from(size) * BLOCK);
        Ok(())
    }
}
