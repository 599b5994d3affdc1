//! What LUNs and channels did so far: time, energy, wear.

use crate::class::{CLASSES, Class, HOLDERS, PerClass, WAITS};
use crate::errors::Reread;
use crate::geometry::{ChannelId, LunId};
use crate::machine::{Nand, Op, OpKind, Outcome, State};
use serde::Serialize;
use wordline_base::{Ctx, Span, Time};

/// What happened so far, by class of work.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counters {
    /// Operations finished.
    pub ops: PerClass,
    /// Sectors read or programmed; blocks erased.
    pub sectors: PerClass,
    /// LUN time, summed over LUNs; where planes read on their own, plane time.
    pub busy_ns: PerClass,
    /// Array time alone, without channel transfers.
    pub array_ns: PerClass,
    /// Channel time.
    pub transfer_ns: PerClass,
    /// Operations that failed.
    pub failed: PerClass,
    /// User reads that had to wait for their LUN, by the class of work they waited for longest; last
    /// those that waited longest for a suspension.
    pub reads_blocked_by: [u64; HOLDERS],
    /// User reads that waited for anything.
    pub reads_waited: u64,
    /// User reads that waited for the channel.
    pub reads_blocked_by_transfer: u64,
}

impl Nand {
    /// Energy in nanojoules: LUN array time and channel time, each times its power.
    pub fn energy_nj(&self) -> [(&'static str, u64); 4] {
        let c = &self.counters;
        // 1 mW for 1 ns is 1 pJ.
        let scale = u128::from(self.parts) * 1000;
        let sum = |classes: &[Class]| {
            let all = classes.iter().map(|&class| self.array_pj(class)).sum::<u128>();
            (all / scale) as u64
        };
        let reads = [Class::UserRead, Class::RebuildRead, Class::GcRead, Class::MetaRead];
        let programs =
            [Class::UserProgram, Class::GcProgram, Class::MetaProgram, Class::ParityProgram];
        let transfer = u128::from(self.config.power.transfer_mw)
            * u128::from(c.transfer_ns.iter().sum::<u64>());
        [
            ("read", sum(&reads)),
            ("program", sum(&programs)),
            ("erase", sum(&[Class::Erase])),
            ("transfer", (transfer / scale) as u64),
        ]
    }

    /// Energy of the arrays, in picojoules, each operation at the power of its block's mode.
    fn array_pj(&self, class: Class) -> u128 {
        let of = |read, program, erase| match class {
            Class::UserRead | Class::RebuildRead | Class::GcRead | Class::MetaRead => read,
            Class::Erase => erase,
            _ => program,
        };
        let power = &self.config.power;
        let (mut ns, mut pj) = (u128::from(self.counters.array_ns[class]), 0);
        if let Some(slc) = &self.slc {
            let (mode, of_slc) = (&slc.mode, u128::from(slc.array_ns[class]));
            ns -= of_slc;
            pj = of_slc * u128::from(of(mode.read_mw, mode.program_mw, mode.erase_mw));
        }
        pj + ns * u128::from(of(power.read_mw, power.program_mw, power.erase_mw))
    }

    /// The same by class of work.
    pub fn energy_by_class_nj(&self) -> [u64; CLASSES] {
        let power = &self.config.power;
        let parts = u128::from(self.parts);
        Class::ALL.map(|class| {
            let transfer_ns = u128::from(self.counters.transfer_ns[class]);
            let bus = u128::from(power.transfer_mw) * transfer_ns;
            ((self.array_pj(class) + bus) / parts / 1000) as u64
        })
    }

    /// Counts time of the array for an operation.
    #[inline(always)]
    pub(super) fn count_array(&mut self, key: u32, time: Span) {
        let State { record, slc, .. } = &self.states[key];
        self.counters.array_ns[record.op.class] += time.0;
        if let Some(of_slc) = self.slc.as_mut().filter(|_| *slc) {
            of_slc.array_ns[record.op.class] += time.0;
        }
    }

    /// Counts an operation that is over, draws whether it failed, and keeps or tells what its page holds.
    #[inline(always)]
    pub(super) fn count(&mut self, ctx: &mut Ctx, key: u32) {
        let Nand { states, geometry, config, counters, read_waits, script, faults, .. } = self;
        let State { record, lost, page, block, .. } = &mut states[key];
        let class = record.op.class as usize;
        let ppb = match record.op.kind {
            OpKind::Read => config.faults.read_fail_ppb,
            OpKind::Program => config.faults.program_fail_ppb,
            OpKind::Erase => config.faults.erase_fail_ppb,
        };
        let scripted = script.fails(record.op.kind, geometry, record.op.ppa);
        if *lost || scripted || ppb > 0 && faults.chance(ppb) {
            record.outcome = Outcome::Failed;
            counters.failed[class] += 1;
        }
        counters.ops[class] += 1;
        counters.sectors[class] += match record.op.kind {
            OpKind::Read => u64::from(record.op.sectors),
            OpKind::Program => u64::from(geometry.sectors_per_unit),
            OpKind::Erase => 1,
        };
        if matches!(record.op.class, Class::UserRead | Class::RebuildRead) {
            let held = record.started > record.submitted;
            let queued = record.bus_start > record.started || record.out_start > record.array_end;
            counters.reads_waited += u64::from(held || queued);
            if held {
                let longest = (0..HOLDERS).rev().max_by_key(|&k| record.waited[k]).unwrap_or(0);
                counters.reads_blocked_by[longest] += 1;
                let sums = read_waits[geometry.lun_of(record.op.ppa)].iter_mut();
                sums.zip(record.waited).for_each(|(sum, ns)| *sum += ns);
            }
            if queued {
                counters.reads_blocked_by_transfer += 1;
                let at = geometry.lun_of(record.op.ppa);
                read_waits[at][WAITS - 1] += record.bus_start.since(record.started).0
                    + record.out_start.since(record.array_end).0;
            }
        }
        // A page holds what was programmed from now on, or no longer; a read returns it.
        if !ctx.stamps.flash.is_on() {
            return;
        }
        let g = &*geometry;
        let Op { kind, ppa, sectors, .. } = record.op;
        let ok = record.outcome == Outcome::Ok;
        match kind {
            OpKind::Program => ctx.stamps.flash.programmed(ppa.0, ok),
            OpKind::Erase => {
                let (line, lun) = (g.line_of(ppa), g.lun_of(ppa));
                for page in 0..g.pages {
                    ctx.stamps.flash.erased(g.first_of_unit(g.unit_at(line, page, lun)).0);
                }
            }
            OpKind::Read => {
                let known = if g.in_place {
                    ctx.stamps.flash.is_written(ppa.0)
                } else {
                    *page >= u32::from(self.blocks[*block].before)
                };
                record.held = (known && ok).then(|| ctx.stamps.flash.read(ppa.0, sectors));
            }
        }
    }

    /// Time LUN `lun` was occupied by each class until `now`: of dies told apart, and of planes that read on their
    /// own, their mean.
    pub fn lun_busy(&self, lun: LunId, now: Time) -> [u64; HOLDERS] {
        let dies = lun * self.parts..(lun + 1) * self.parts;
        let held = dies.map(|die| match &self.planes {
            Some(planes) => planes.held(&self.luns[die], die, now),
            None => self.held_now(die, now),
        });
        let sum = held.reduce(|a, b| std::array::from_fn(|i| a[i] + b[i])).unwrap_or_default();
        sum.map(|ns| ns / u64::from(self.parts))
    }

    /// Nanoseconds that reads of users waited at a LUN, by what they waited for: what held the LUN,
    /// and last the channel.
    pub fn read_waits(&self, lun: LunId) -> &[u64; WAITS] {
        &self.read_waits[lun]
    }

    /// Time the channel was in use until `now`: of channels told apart their mean.
    pub fn channel_busy(&self, channel: ChannelId, now: Time) -> Span {
        let busy = |channel: ChannelId| match &self.preemption {
            Some(p) if self.arbitrated => p.channel_busy(channel, now),
            _ => self.channels[channel].busy_until(now),
        };
        let parts = channel * self.parts..(channel + 1) * self.parts;
        parts.map(busy).sum::<Span>() / u64::from(self.parts)
    }

    /// Time the decoders of a channel were in use until `now`: their mean. None if decoding takes no time.
    pub fn decoder_busy(&self, channel: ChannelId, now: Time) -> Option<Span> {
        let decoder = self.decoder.as_ref()?;
        let parts = channel * self.parts..(channel + 1) * self.parts;
        Some(parts.map(|part| decoder.busy(part, now)).sum::<Span>() / u64::from(self.parts))
    }

    pub(super) fn held_now(&self, lun: LunId, now: Time) -> [u64; HOLDERS] {
        let l = &self.luns[lun];
        let mut held = l.held;
        if l.is_held() {
            held[l.holder] += now.since(l.since).0;
        }
        held
    }

    /// Cycles that blocks are made for.
    pub fn rated(&self) -> u32 {
        self.config.endurance
    }

    /// What reads that were done again were, where bit errors are modelled.
    pub fn reread(&self) -> Option<Reread> {
        let of_slc = self.slc.as_ref().and_then(|slc| slc.errors.as_ref());
        let all = self.errors.iter().chain(of_slc);
        all.map(|e| e.counts).reduce(|mut sum, of| {
            sum += of;
            sum
        })
    }
}
