//! Lines with parity: what they have room for, and what programs that wait for their strides come to.

use super::{IN_FLIGHT, LARGE, LUNS, Peak, Rates};
use crate::config::Config;
use wordline_base::SECTOR;
use wordline_ftl::{LineRoom, OperationTimes, Throttle, line_room, throttled_units};
use wordline_nand::Geometry;

/// Rates of writes that wait for their strides, and of reads beside them.
#[derive(Clone, PartialEq, Debug)]
pub struct Throttled {
    /// None: these do not wait.
    pub sequential_write: Option<Peak>,
    /// At `uniform_wa`, if there is that. Where the collector's programs alone wait, the rate if all did.
    pub random_write: Option<Peak>,
    /// Random reads beside such writes without a pause: those of busy LUNs are rebuilt. None: they wait.
    pub random_read: Option<Peak>,
}

/// What lines have room for, of pblk with parity or with hot and cold data on LUNs of their own. None also if there
/// cannot be such lines, which the FTL tells.
pub(super) fn lines_in_parts(config: &Config, g: &Geometry) -> Option<LineRoom> {
    let ftl = &config.ftl;
    let others = ftl.firmware.is_some() || ftl.fssd.is_some() || g.in_place;
    let parts = ftl.stride > 0 || ftl.hot_cold;
    (parts && !others).then(|| line_room(g, ftl).ok()).flatten().filter(|room| room.data > 0)
}

impl Rates<'_> {
    /// LUNs that users' data go to, of a new drive.
    pub(super) fn writers(&self) -> u32 {
        self.room.map_or(self.g.luns, |room| room.luns)
    }
    /// Units that are programmed for one of data.
    pub(super) fn parity(&self) -> f64 {
        self.room.map_or(1.0, |room| f64::from(room.luns) / f64::from(room.luns - room.parity_luns))
    }
    /// What strides come to that have a program at a time, or two, in units a second.
    pub(super) fn strides(&self) -> Option<f64> {
        let (n, limits) = (&self.config.nand, &self.config.device.limits);
        let unit = self.g.unit_bytes();
        let program = n.t_command.as_secs_f64() + n.t_program.mean().as_secs_f64();
        let times = OperationTimes {
            program: program + self.transfer(unit),
            erase: (n.t_command + n.t_erase).as_secs_f64(),
            apart: match limits.program_rate {
                0 => 0.0,
                rate => unit as f64 / rate as f64,
            },
        };
        self.room?;
        throttled_units(self.g, &self.config.ftl, self.writers(), times)
    }
    pub(super) fn throttled(&self, data_wa: Option<f64>) -> Option<Throttled> {
        self.strides()?;
        let all = match self.config.ftl.throttle {
            Throttle::All => true,
            Throttle::Gc => false,
            Throttle::None => return None,
        };
        let random = |wa| self.write("... throttled", SECTOR, wa, true);
        Some(Throttled {
            sequential_write: all.then(|| self.write("... throttled", LARGE, 1.0, true)),
            random_write: data_wa.map(random),
            random_read: (all && data_wa.is_some()).then(|| self.read_beside()).flatten(),
        })
    }
    /// Random reads beside throttled writes without a pause. Of the LUNs of a stride one or two are busy. A read of these
    /// is one of each other that has data, and of parity in place of what is missing.
    fn read_beside(&self) -> Option<Peak> {
        let ftl = &self.config.ftl;
        let luns = f64::from(self.g.luns);
        let parity = f64::from(self.room?.parity_luns);
        let busy = parity / luns;
        let members = (luns - parity) / (parity / f64::from(ftl.parities));
        if members <= 1.0 && !ftl.rebuild_from_one {
            return None;
        }
        let reads = 1.0 + busy * (members - 1.0);
        let mut peak = self.read("... beside throttled writes", SECTOR);
        peak.bounds.retain(|bound| bound.name != IN_FLIGHT && bound.name != "firmware");
        for bound in &mut peak.bounds {
            let all = match bound.name {
                LUNS | "planes" => reads / (1.0 - busy),
                "channels" | "decoders" => reads,
                "link" if !self.on_device() => reads,
                "limit read_rate" | "limit read_iops"
                    if self.config.device.limits.count_rebuild_reads =>
                {
                    reads
                }
                _ => 1.0,
            };
            bound.bytes_per_s /= all;
        }
        peak.joules *= reads;
        Some(peak)
    }
}
