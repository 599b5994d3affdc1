//! How fast the write thread is when its programs wait for their strides.
//!
//! The thread goes LUN after LUN, in order, and everything behind a unit that waits for its stride waits too. A request
//! goes out when its last unit has its LUN, parity on its own. An erase goes behind a program, at most one a request, and
//! keeps the stride. That is a recurrence over the units of a few stripes: when each of them may begin hangs on when
//! those before it of its stride are done.

use crate::config::FtlConfig;
use crate::stride::Strides;
use wordline_nand::{Geometry, LunId};

/// What operations take, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct OperationTimes {
    /// A program, from its first command cycle to its end.
    pub program: f64,
    /// An erase.
    pub erase: f64,
    /// From the begin of one program of the drive to the next, where its rate is limited.
    pub apart: f64,
}

/// An operation that holds a stride, and when it is done: never, as long as it is not sent.
#[derive(Clone, Copy)]
struct Holder {
    lun: LunId,
    until: f64,
}

/// The write thread, its strides and what they do.
struct Thread {
    strides: Strides,
    times: OperationTimes,
    now: f64,
    /// When the drive lets the next program begin.
    admits: f64,
    /// When each LUN has done all that was sent to it.
    luns: Vec<f64>,
    holders: Vec<Vec<Holder>>,
    /// LUNs of the request that are mapped and not sent.
    held: Vec<LunId>,
    erase: Option<LunId>,
    /// LUNs whose block of the next line is to be erased.
    todo: Vec<bool>,
}

impl Thread {
    fn of(&self, lun: LunId) -> usize {
        self.strides.of(lun) as usize
    }
    /// When the LUN and its stride can be had.
    fn free(&self, lun: LunId) -> f64 {
        let out = |h: &&Holder| h.until > self.now;
        let stride = &self.holders[self.of(lun)];
        let own = self.luns[lun as usize];
        if stride.iter().filter(out).any(|h| h.lun == lun) {
            return own;
        }
        let mut until: Vec<f64> = stride.iter().filter(out).map(|h| h.until).collect();
        until.sort_by(f64::total_cmp);
        let room = self.strides.parities as usize;
        until.len().checked_sub(room).map_or(own, |last| own.max(until[last]))
    }
    fn hold(&mut self, lun: LunId, until: f64) {
        let (stride, now) = (self.of(lun), self.now);
        let holders = &mut self.holders[stride];
        holders.retain(|h| h.until > now && h.lun != lun);
        holders.push(Holder { lun, until });
    }
    fn send(&mut self) {
        for lun in std::mem::take(&mut self.held) {
            let at = self.now.max(self.admits);
            self.admits = at + self.times.apart;
            self.luns[lun as usize] = at + self.times.program;
            self.hold(lun, at + self.times.program);
        }
        if let Some(lun) = self.erase.take() {
            let until = self.luns[lun as usize].max(self.now) + self.times.erase;
            self.luns[lun as usize] = until;
            self.hold(lun, until);
        }
    }
    /// Maps a unit, when it has its LUN.
    fn map(&mut self, lun: LunId, parity: bool) {
        let mut at = self.free(lun);
        if at > self.now {
            // What it waits for may be held back in its own request.
            let stride = self.of(lun);
            let waiting = self.held.iter().chain(&self.erase);
            if parity || waiting.into_iter().any(|&held| self.of(held) == stride) {
                self.send();
                at = self.free(lun);
            }
            self.now = self.now.max(at);
        }
        if parity {
            self.send();
        }
        self.held.push(lun);
        self.hold(lun, f64::INFINITY);
        if self.erase.is_none() && std::mem::take(&mut self.todo[lun as usize]) {
            self.erase = Some(lun);
        }
        if parity {
            self.send();
        }
    }
}

/// Units that the strides of the first `luns` LUNs program in a second, parity included, when each program waits for
/// its stride and there is always a request to write. None: there are no strides.
pub fn throttled_units(
    g: &Geometry,
    c: &FtlConfig,
    luns: u32,
    times: OperationTimes,
) -> Option<f64> {
    /// Longer requests than these have no stripe that ends otherwise.
    const MOST: u32 = 64;
    let strides = Strides::new(luns, c)?;
    let request = (c.max_request_sectors / g.sectors_per_unit).clamp(1, luns);
    let data: Vec<LunId> = (0..luns).filter(|&lun| !strides.is_fixed_parity(lun)).collect();
    let parity: Vec<LunId> = (0..luns).filter(|&lun| strides.is_fixed_parity(lun)).collect();
    let mut thread = Thread {
        strides,
        times,
        now: 0.0,
        admits: 0.0,
        luns: vec![0.0; luns as usize],
        holders: vec![Vec::new(); strides.count as usize],
        held: Vec::new(),
        erase: None,
        todo: vec![false; luns as usize],
    };
    let mut left = request;
    let mut write = |thread: &mut Thread, stripes: u32| {
        let from = thread.now;
        for _ in 0..stripes {
            for &lun in &data {
                thread.map(lun, false);
                left -= 1;
                if left == 0 {
                    thread.send();
                    left = request;
                }
            }
            parity.iter().for_each(|&lun| thread.map(lun, true));
        }
        thread.now - from
    };
    let some = 2 * request.min(MOST) + 8;
    write(&mut thread, some);
    let each = write(&mut thread, some) / f64::from(some);
    // The blocks of the next line are erased beside the first stripes of this one.
    thread.todo.fill(true);
    let first = g.pages.min(some);
    let line = write(&mut thread, first) + f64::from(g.pages - first) * each;
    Some(f64::from(luns) * f64::from(g.pages) / line)
}
