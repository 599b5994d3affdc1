//! An operation, and what became of it.

use crate::class::{Class, HOLDERS, SUSPENSION};
use crate::geometry::{ChannelId, LunId, Ppa};
use wordline_base::{Ddir, IoId, Layer, Lives, Span, Time, Why};

/// What the array does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpKind {
    /// A read of sectors of one unit.
    Read,
    /// A program of one unit.
    Program,
    /// The erasure of a block.
    Erase,
}

/// An operation on one LUN.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// What the array is to do.
    pub kind: OpKind,
    /// What it is for.
    pub class: Class,
    /// First sector: anywhere in a unit for a read, the unit's first for a program, any sector of
    /// the block for an erase (its LUN and line count).
    pub ppa: Ppa,
    /// Sectors read; a program always writes the whole unit.
    pub sectors: u32,
    /// A program with a bit a cell: the first of a block decides for all until its erasure.
    pub slc: bool,
    /// Returned with the record: the submitter's own number.
    pub owner: u32,
    /// The I/O served, for drawing.
    pub io: IoId,
}

/// How an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// As asked for.
    Ok,
    /// It failed for good.
    Failed,
}

/// A finished operation: when it was where.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// What was submitted.
    pub op: Op,
    /// How it ended.
    pub outcome: Outcome,
    /// Where it was done.
    pub lun: LunId,
    /// The LUN's channel.
    pub channel: ChannelId,
    /// Arrival at the LUN.
    pub submitted: Time,
    /// The LUN took it up.
    pub started: Time,
    /// Granted the channel for command (and, for a program, data in); waits between parts of the
    /// data count as if they came before.
    pub bus_start: Time,
    /// The command, and a program's data, were across.
    pub bus_end: Time,
    /// The array had done its work.
    pub array_end: Time,
    /// Read only: granted the channel for data out; waits between parts count as before it.
    pub out_start: Time,
    /// All of it was done: the LUN is free.
    pub end: Time,
    /// Read only, where decoding takes time of its own: how long a codeword was with a decoder.
    pub decode: Span,
    /// And when the last of them was corrected.
    pub decoded: Time,
    /// Nanoseconds between `submitted` and `started` by the class of work that held the LUN, and last
    /// those for suspending it. Until it starts: `Lun::held` as it was on arrival, the part of the
    /// operation under way included.
    pub waited: [u64; HOLDERS],
    /// Time since `started` in which reads had gone ahead: until the channel was granted, until its
    /// data were in, until the end.
    pub away: [Span; 3],
    /// Read only: part of the time until `array_end`, from the first sensing of the page to the last.
    pub again: Span,
    /// What the sectors of a read that ended well hold ([`wordline_base::Contents`]), where that is kept.
    pub held: Option<u32>,
}

impl Record {
    /// Charges the operation's stages to an I/O.
    #[inline(always)]
    pub fn mark(&self, lives: &mut Lives, io: IoId) {
        let Some(life) = lives.of(io) else { return };
        // Issued later than the operation's first part.
        life.mark(Layer::Transfer, Why::Command, self.channel, self.submitted);
        if self.started > self.submitted {
            let mut at = self.submitted;
            for class in Class::ALL {
                let waited = self.waited[class as usize];
                if waited > 0 {
                    at += Span(waited);
                    life.mark(Layer::LunWait, class.behind(), self.lun, at);
                }
            }
            at += Span(self.waited[SUSPENSION]);
            life.mark(Layer::LunWait, Why::Suspending, self.lun, at);
        }
        // Put together, whenever they were: steps are few and sums exact.
        let [before, during, after] = self.away;
        let lost = self.started + before + during;
        life.mark(Layer::LunWait, Why::Suspended, self.lun, lost);
        life.mark(Layer::Transfer, Why::ChannelBusy, self.channel, self.bus_start + during);
        match self.op.kind {
            OpKind::Read => {
                life.mark(Layer::Transfer, Why::Command, self.channel, self.bus_end);
                let writes = life.ddir == Ddir::Write;
                let why = if writes { Why::Modify } else { Why::Read };
                life.mark(Layer::Nand, why, self.lun, Time(self.array_end.0 - self.again.0));
                life.mark(Layer::Nand, Why::ReadAgain, self.lun, self.array_end);
                life.mark(Layer::Transfer, Why::ChannelBusy, self.channel, self.out_start);
                life.mark(Layer::Transfer, Why::Data, self.channel, self.end);
                if self.decoded > self.end {
                    let begun = Time(self.decoded.0 - self.decode.0);
                    life.mark(Layer::Transfer, Why::EngineBusy, self.channel, begun);
                    life.mark(Layer::Transfer, Why::Decode, self.channel, self.decoded);
                }
            }
            OpKind::Program => {
                life.mark(Layer::Transfer, Why::Data, self.channel, self.bus_end);
                life.mark(Layer::Nand, Why::Program, self.lun, Time(self.end.0 - after.0));
                life.mark(Layer::LunWait, Why::Suspended, self.lun, self.end);
            }
            OpKind::Erase => {
                life.mark(Layer::Transfer, Why::Command, self.channel, self.bus_end);
                life.mark(Layer::Nand, Why::Erase, self.lun, Time(self.end.0 - after.0));
                life.mark(Layer::LunWait, Why::Suspended, self.lun, self.end);
            }
        }
    }
}
