//! FSSD's collector: what it reads, and where and how much at a time.

use super::{Rates, rate_at_depth};
use wordline_base::SECTOR;
use wordline_ftl::victims_at_a_time;

/// The bound of channels and LUNs of the groups of which FSSD's collector has victims: it reads nowhere else.
pub(super) const VICTIMS: &str = "groups with victims";

/// The bound of the units that FSSD's collector has under way at a time, where only they are in the drive.
pub(super) const UNITS: &str = "units of the collector";

/// What is done for a unit of users.
pub(super) struct Moves {
    pub wa: f64,
    /// Units of victims that are read.
    pub reads: f64,
    /// Time of their data on a channel.
    pub data: f64,
    /// Time of LUNs for them.
    pub reading: f64,
    /// Units programmed.
    pub programs: f64,
    /// Time of a LUN for one, erasures included.
    pub program: f64,
}

impl Rates<'_> {
    /// Reads of the collector in a unit of its victim, and the pieces of 4 KiB that they carry. Of the pieces a
    /// share 1 - 1 / WA is in use, in places that do not depend on each other.
    pub(super) fn gc_reads(&self, wa: f64) -> [f64; 2] {
        let n = (self.g.unit_bytes() / SECTOR).max(1) as i32;
        let free = 1.0 / wa;
        let used = 1.0 - free;
        if self.config.ftl.fssd.is_some() {
            // What is in use of a unit is read with the rest of it.
            let some = 1.0 - free.powi(n);
            return [some, f64::from(n) * some];
        }
        if self.config.ftl.firmware.is_none() {
            // Each run of pieces in use is read on its own.
            return [used * (1.0 + f64::from(n - 1) * free), f64::from(n) * used];
        }
        // One read goes from the first piece in use to the last. Of what is before the first, at least k are
        // free with probability free^k; the same after the last.
        let none = free.powi(n);
        let before: f64 = (1..=n).map(|k| free.powi(k)).sum();
        [1.0 - none, f64::from(n) * (1.0 + none) - 2.0 * before]
    }
    /// Bytes a second of users that FSSD's collector keeps up with: where its victims are, and with so many units at a
    /// time. 0: there is nothing to collect.
    pub(super) fn collector(&self, moves: &Moves) -> [f64; 2] {
        let &Moves { wa, reads, data, reading, programs, program } = moves;
        let n = &self.config.nand;
        let (command, unit) = (n.t_command.as_secs_f64(), self.g.unit_bytes());
        let transfer = self.transfer(unit);
        let t_read = n.t_read.mean().as_secs_f64();
        match &self.config.ftl.fssd {
            Some(fssd) if reads > 0.0 => {
                // All groups are written to.
                let (groups, spare) = (fssd.append_points, self.config.ftl.over_provisioning);
                let of = victims_at_a_time(self.g, spare, fssd).unwrap_or(groups);
                let of = f64::from(of) / f64::from(groups);
                let held = (reading + of * programs * program) / f64::from(self.g.luns);
                let sent = reads * command + data + of * programs * (command + transfer);
                let victims = of / held.max(sent / f64::from(self.g.channels));
                // Each unit that is read or filled is one of the collector's until it is here or programmed, and one is
                // always being filled. They wait for the data of each other.
                let visits = reads + wa - 1.0;
                let sent = reads * command + data + (wa - 1.0) * (command + transfer);
                let elsewhere = reads * t_read + (wa - 1.0) * n.t_program.mean().as_secs_f64();
                let [sent, elsewhere] = [sent, elsewhere].map(|time| time / visits);
                let (units, channels) = (fssd.gc_units - 1, self.g.channels);
                let units = rate_at_depth(units, channels, sent, elsewhere) / visits;
                [victims, units].map(|n| n * unit as f64)
            }
            _ => [0.0; 2],
        }
    }
}
