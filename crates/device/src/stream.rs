//! Data of large commands on the link, in turns.
//!
//! A controller moves data a memory page at a time (NVMe 1.4 section 4.3: a PRP entry is one), and commands
//! whose data are ready take turns. A command of more than `turn_bytes` is a stream: it asks for the link
//! again at the end of each turn, behind those that asked meanwhile. What fits in one turn asks once, so
//! that small commands have no further events.
//!
//! A read's data go on as they come from the flash, but for the last turn, which waits for all of them: the
//! completion entry follows it. Limits count turn by turn. A write has its next turn when the last one is
//! over and the limits have let it pass.
//!
//! Left out: vector commands, whose data go whole, as a unit of flash does; links behind a bridge, where a
//! connection carries a frame after the other of one command. Data that a cache has go with the last that come
//! from the flash.

use crate::controller::{Command, Controller, NONE, Stage, TO_DEVICE, TO_HOST};
use wordline_base::track::Track;
use wordline_base::{Ctx, IoId, Kind, Layer, Span, Time, Why};
use wordline_nvme::Status;

/// What the pending event of a stream is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// None is: its data are not there.
    Data,
    /// The limits let the next turn pass.
    Admitted,
    /// Its turn is over.
    Over,
}

/// A command's data on their way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    bytes: u32,
    /// Of a read, what has come from the flash.
    ready: u32,
    /// What has had its turn, and the turn at hand.
    sent: u32,
    turn: u32,
    next: Next,
    /// All data of a read are there, since when, and what it waited for from then on: the memory, the limits, the
    /// link. The rest of the time its data moved.
    whole: bool,
    since: Time,
    waited: [Span; 3],
    /// When the turn at hand began on the link, or the limits let it pass.
    begins: Time,
}

const MEMORY: usize = 0;
const LIMIT: usize = 1;
const LINK: usize = 2;

impl Stream {
    fn new(bytes: u32, now: Time) -> Stream {
        Stream {
            bytes,
            ready: 0,
            sent: 0,
            turn: 0,
            next: Next::Data,
            whole: false,
            since: now,
            waited: [Span::ZERO; 3],
            begins: now,
        }
    }
    fn is_last(&self) -> bool {
        self.sent + self.turn == self.bytes
    }
    /// A wait that counts if nothing else is waited for.
    fn waits(&mut self, what: usize, from: Time, to: Time) {
        if self.whole {
            self.waited[what] += to.since(from.max(self.since));
        }
    }
}

impl Controller {
    /// A read or write of more than a turn begins to move its data, or waits for them.
    pub(crate) fn begin_stream(&mut self, ctx: &Ctx, cmd: u32) {
        let bytes = self.commands[cmd].sqe.bytes;
        if bytes > self.turn {
            self.commands[cmd].stream = self.streams.insert(Stream::new(bytes, ctx.now));
        }
    }
    /// The turn that a command's end comes with, and its marks; none if it had no others.
    pub(crate) fn end_stream(&mut self, ctx: &mut Ctx, cmd: u32) -> Option<u32> {
        let Command { sqe, stream, .. } = self.commands[cmd];
        if stream == NONE {
            return None;
        }
        self.commands[cmd].stream = NONE;
        let Stream { turn, since, waited, .. } = self.streams.remove(stream);
        let link = self.link.layer;
        if let Some(life) = ctx.lives.of(sqe.io) {
            let mut at = since;
            let whys = [
                (Layer::Cache, Why::CacheHit, 0),
                (Layer::Limit, Why::ReadLimit, 0),
                (link, Why::LinkBusy, TO_HOST),
            ];
            for ((layer, why, place), span) in whys.into_iter().zip(waited) {
                at += span;
                life.mark(layer, why, place, at);
            }
            life.mark(link, Why::Data, TO_HOST, ctx.now);
        }
        Some(turn)
    }

    /// Sectors of a read have come from the flash.
    pub(crate) fn sectors_came(&mut self, ctx: &mut Ctx, cmd: u32, sectors: u32) {
        let Command { stream, stage, .. } = self.commands[cmd];
        if stream == NONE || stage != Stage::Flash {
            return;
        }
        let stream = &mut self.streams[stream];
        stream.ready += self.geometry.sector.bytes_of(sectors) as u32;
        if stream.next == Next::Data {
            self.ask(ctx, cmd);
        }
    }
    /// All data of a read are there, or will not be.
    pub(crate) fn all_came(&mut self, ctx: &mut Ctx, cmd: u32) {
        let stream = &mut self.streams[self.commands[cmd].stream];
        (stream.whole, stream.since) = (true, ctx.now);
        match stream.next {
            Next::Data => self.ask(ctx, cmd),
            Next::Admitted => stream.waits(LIMIT, ctx.now, stream.begins),
            Next::Over => stream.waits(LINK, ctx.now, stream.begins),
        }
    }

    /// The event of a read's stream.
    pub(crate) fn read_turn(&mut self, ctx: &mut Ctx, cmd: u32) {
        match self.streams[self.commands[cmd].stream].next {
            Next::Admitted => self.take_turn(ctx, cmd),
            Next::Data | Next::Over => self.ask(ctx, cmd),
        }
    }
    /// Asks for a turn if there are data for one.
    fn ask(&mut self, ctx: &mut Ctx, cmd: u32) {
        let Command { stream, status, .. } = self.commands[cmd];
        let s = &mut self.streams[stream];
        s.next = Next::Data;
        if status != Status::Success {
            // No more data; the entry is all that is left when no part is under way.
            return if s.whole {
                self.finish(ctx, cmd)
            };
        }
        let most = if s.whole { s.bytes } else { s.ready.min(s.bytes - 1) };
        let turn = (most - s.sent.min(most)).min(self.turn);
        if turn == 0 || !s.whole && turn < self.turn {
            return;
        }
        s.turn = turn;
        let first = s.sent == 0;
        let mut at = ctx.now;
        if first && let Some(cache) = &self.config.cache {
            let (start, end) = self.dram.reserve(at, Span::of_bytes(turn.into(), cache.rate));
            self.counts.waits.cache_copy += start.since(at).0;
            at = end;
        }
        let admitted = self.read_cap.admit_turn(at, turn, first);
        self.counts.waits.limits += admitted.since(at).0;
        s.waits(MEMORY, ctx.now, at);
        s.waits(LIMIT, at, admitted);
        if admitted == ctx.now {
            return self.take_turn(ctx, cmd);
        }
        (s.next, s.begins) = (Next::Admitted, admitted);
        ctx.at(admitted, Kind::DataOut, cmd);
    }
    fn take_turn(&mut self, ctx: &mut Ctx, cmd: u32) {
        let Command { sqe, stream, status, .. } = self.commands[cmd];
        let s = &mut self.streams[stream];
        if status != Status::Success {
            return self.ask(ctx, cmd);
        }
        if s.is_last() {
            return self.finish(ctx, cmd);
        }
        let (turn, first) = (s.turn, s.sent == 0);
        let transfer = self.link.data(ctx.now, turn);
        let mut end = transfer.end;
        if !first && let Some(cache) = &self.config.cache {
            // Each further turn leaves the memory while it crosses the link.
            let copy = Span::of_bytes(turn.into(), cache.rate);
            end = end.max(self.dram.reserve(ctx.now, copy).1);
        }
        s.waits(LINK, ctx.now, transfer.start);
        s.sent += turn;
        (s.next, s.begins) = (Next::Over, transfer.start);
        self.counts.bytes_read += u64::from(turn);
        self.counts.waits.link += transfer.start.since(ctx.now).0;
        ctx.slice(Track::Link(TO_HOST), "data out", transfer.start, transfer.end, sqe.io);
        ctx.at(end, Kind::DataOut, cmd);
    }

    /// The next turn of a write's data.
    pub(crate) fn write_turn(&mut self, ctx: &mut Ctx, cmd: u32) {
        let Command { sqe, stream, .. } = self.commands[cmd];
        let s = &mut self.streams[stream];
        let turn = (s.bytes - s.sent).min(self.turn);
        let transfer = self.link.data_in(ctx.now, turn);
        let admitted = self.write_cap.admit_turn(ctx.now, turn, s.sent == 0);
        self.counts.bytes_written += u64::from(turn);
        self.counts.waits.link += transfer.start.since(ctx.now).0;
        ctx.slice(Track::Link(TO_DEVICE), "data in", transfer.start, transfer.end, sqe.io);
        s.whole = true;
        s.waits(LINK, ctx.now, transfer.start);
        s.sent += turn;
        if s.sent < s.bytes {
            let over = transfer.end.max(admitted);
            s.waits(LIMIT, transfer.end, over);
            self.counts.waits.limits += over.since(transfer.end).0;
            return ctx.at(over, Kind::DataIn, cmd);
        }
        let Stream { since, waited, .. } = self.streams.remove(stream);
        self.commands[cmd].stream = NONE;
        let arrived = transfer.arrival.max(admitted);
        self.counts.waits.limits += arrived.since(transfer.arrival).0;
        self.mark_data_in(ctx, sqe.io, since, waited, (transfer.arrival, arrived));
        ctx.at(arrived, Kind::DataIn, cmd);
    }
    fn mark_data_in(
        &self,
        ctx: &mut Ctx,
        io: IoId,
        since: Time,
        waited: [Span; 3],
        (arrival, admitted): (Time, Time),
    ) {
        let link = self.link.layer;
        if let Some(life) = ctx.lives.of(io) {
            let mut at = since + waited[LINK];
            life.mark(link, Why::LinkBusy, TO_DEVICE, at);
            at += waited[LIMIT];
            life.mark(Layer::Limit, Why::WriteLimit, 0, at);
            life.mark(link, Why::Data, TO_DEVICE, arrival);
            life.mark(Layer::Limit, Why::WriteLimit, 0, admitted);
        }
    }
}
