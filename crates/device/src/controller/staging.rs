//! Data that a host has sent for units that it will program: a buffer that a power cut does not empty, so
//! that a host's FTL may acknowledge a write whose page is not full yet. The host knows its size, and counts
//! what it has put there.

use crate::controller::Controller;
use std::collections::BTreeMap;
use wordline_nand::{Ppa, UnitId};
use wordline_nvme::Status;

#[derive(Debug, Default)]
pub(crate) struct Staging {
    used: u64,
    /// Bytes by unit, until it is programmed.
    units: BTreeMap<u32, u64>,
}

impl Controller {
    /// Takes up room for data ahead of a program, which may cross the link then.
    pub(super) fn stage(&mut self, cmd: u32) -> Result<(), Status> {
        let sqe = &self.commands[cmd].sqe;
        let (unit, bytes) = (self.staged_unit(Ppa(sqe.address as u32)), u64::from(sqe.bytes));
        if self.staging.used + bytes > self.config.staging_bytes {
            return Err(Status::CapacityExceeded);
        }
        self.staging.used += bytes;
        *self.staging.units.entry(unit.0).or_default() += bytes;
        Ok(())
    }
    /// The unit is programmed, or could not be: its room is others'.
    pub(super) fn unstage(&mut self, ppa: Ppa) {
        if self.staging.used > 0 {
            let unit = self.staged_unit(ppa);
            self.staging.used -= self.staging.units.remove(&unit.0).unwrap_or(0);
        }
    }
    fn staged_unit(&self, ppa: Ppa) -> UnitId {
        self.geometry.unit_of(ppa)
    }
}
