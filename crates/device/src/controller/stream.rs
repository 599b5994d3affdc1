//! Data of large commands on the link, in turns.
//!
//! A controller moves data a memory page at a time and works on many commands at once, so commands whose data
//! are ready take turns on the link. A command of more than `turn_bytes` is a stream: it asks for the link
//! again at the end of each turn, behind those that asked meanwhile. What fits in one turn asks once, so
//! that small commands have no further events.
//!
//! Each turn of a read is copied out of the cache's memory, if there is one, passes the limits, and crosses the
//! link. The next turn is copied while this one crosses. Turns begin as data come from the flash. The last one
//! waits for all of them, and the completion entry follows it. A write asks for its next turn once the one
//! before has crossed and the limits have let that one pass.
//!
//! A read of one turn asks the limits at the start of its copy, for the end of it. A stream asks when its copy
//! has ended, and so may find its place taken by one whose copy has not.
//!
//! Left out: vector commands and orders of a collector, whose data go whole; links behind a bridge, where a
//! connection carries one command's frames after each other. Sectors that do not come from the flash, as those
//! in the cache, go with the last turns.

use crate::controller::{Command, Controller, NONE, Stage, TO_DEVICE, TO_HOST};
use wordline_base::track::Track;
use wordline_base::{Ctx, IoId, Kind, Layer, Span, Time, Why};
use wordline_nvme::Status;

/// What the pending event of a stream is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// None: its data are not there.
    Data,
    /// The turn at hand has left the memory.
    Copied,
    /// The limits let it pass.
    Admitted,
    /// It is over.
    Over,
}

/// A command's data on their way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    bytes: u32,
    /// Bytes of a read that have come from the flash.
    ready: u32,
    /// Bytes that have had their turn.
    sent: u32,
    /// Bytes of the turn at hand.
    turn: u32,
    next: Next,
    /// Of the next turn, when its copy out of the memory begins and ends, if it was asked for.
    copy: Option<(Time, Time)>,
    /// When the turn at hand begins on the link, or the limits let it pass.
    begins: Time,
    /// All data of a read are there.
    whole: bool,
    /// Since when all data of a read are there.
    since: Time,
    /// What the command waited for from then on. The rest of the time its data moved.
    waited: [Span; 4],
}

/// Places in `waited`: the memory's bus, the copy, the limits, the link.
const BUS: usize = 0;
const COPY: usize = 1;
const LIMIT: usize = 2;
const LINK: usize = 3;

impl Stream {
    fn new(bytes: u32, now: Time) -> Stream {
        Stream {
            bytes,
            ready: 0,
            sent: 0,
            turn: 0,
            next: Next::Data,
            copy: None,
            begins: now,
            whole: false,
            since: now,
            waited: [Span::ZERO; 4],
        }
    }
    fn is_last(&self) -> bool {
        self.sent + self.turn == self.bytes
    }
    /// Bytes of the next turn, if there are data for one.
    fn next_turn(&self, from: u32, most: u32) -> Option<u32> {
        // The last turn waits for all data.
        let there = if self.whole { self.bytes } else { self.ready.min(self.bytes - 1) };
        let turn = there.saturating_sub(from).min(most);
        (turn == most || self.whole && turn > 0).then_some(turn)
    }
    /// A wait counts if nothing else is waited for.
    fn waits(&mut self, what: usize, from: Time, to: Time) {
        if self.whole {
            self.waited[what] += to.since(from.max(self.since));
        }
    }
    fn waits_for_copy(&mut self, now: Time, (start, end): (Time, Time)) {
        self.waits(BUS, now, start);
        self.waits(COPY, now.max(start), end);
    }
}

impl Controller {
    /// Whether the data of a read or write are more than a turn. They are a stream then.
    pub(super) fn begin_stream(&mut self, ctx: &Ctx, cmd: u32) -> bool {
        let bytes = self.commands[cmd].sqe.bytes;
        let more = bytes > self.turn_bytes;
        if more {
            self.commands[cmd].stream = self.streams.insert(Stream::new(bytes, ctx.now));
        }
        more
    }
    /// The stream of a command is over, and its life is marked: the turn that the completion entry follows. None if
    /// it had no stream.
    pub(super) fn end_stream(&mut self, ctx: &mut Ctx, cmd: u32) -> Option<u32> {
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
                (Layer::Cache, Why::LinkBusy, 0),
                (Layer::Cache, Why::CacheCopy, 0),
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
    pub(super) fn sectors_came(&mut self, ctx: &mut Ctx, cmd: u32, sectors: u32) {
        let Command { stream, stage, .. } = self.commands[cmd];
        if stream == NONE {
            return;
        }
        debug_assert_eq!(stage, Stage::Flash, "a write has no stream when its sectors are read");
        let stream = &mut self.streams[stream];
        stream.ready += self.geometry.sector.bytes_of(sectors) as u32;
        if stream.next == Next::Data {
            self.ask(ctx, cmd);
        }
    }
    /// All data of a read are there, or will not be.
    pub(super) fn all_came(&mut self, ctx: &mut Ctx, cmd: u32) {
        let stream = &mut self.streams[self.commands[cmd].stream];
        (stream.whole, stream.since) = (true, ctx.now);
        match (stream.next, stream.copy) {
            (Next::Data, _) => self.ask(ctx, cmd),
            (Next::Copied, Some(copy)) => stream.waits_for_copy(ctx.now, copy),
            (Next::Copied, None) => {}
            (Next::Admitted, _) => stream.waits(LIMIT, ctx.now, stream.begins),
            (Next::Over, _) => stream.waits(LINK, ctx.now, stream.begins),
        }
    }

    /// The event of a read's stream.
    pub(super) fn next_of_stream(&mut self, ctx: &mut Ctx, cmd: u32) {
        let Command { stream, status, .. } = self.commands[cmd];
        match self.streams[stream].next {
            _ if status != Status::Success => self.ask(ctx, cmd),
            Next::Copied => self.ask_limits(ctx, cmd),
            Next::Admitted => self.send_turn(ctx, cmd),
            Next::Data | Next::Over => self.ask(ctx, cmd),
        }
    }
    /// Asks for the next turn, if there are data for one.
    fn ask(&mut self, ctx: &mut Ctx, cmd: u32) {
        let Command { stream, status, .. } = self.commands[cmd];
        let s = &mut self.streams[stream];
        s.next = Next::Data;
        if status != Status::Success {
            // No more data. When no part of it is under way the entry is all that is left.
            if s.whole {
                self.finish(ctx, cmd);
            }
            return;
        }
        let Some(turn) = s.next_turn(s.sent, self.turn_bytes) else { return };
        s.turn = turn;
        if s.copy.is_none() {
            self.copy_turn(ctx, cmd, turn);
        }
        let s = &mut self.streams[stream];
        match s.copy {
            Some(copy @ (_, end)) if end > ctx.now => {
                s.waits_for_copy(ctx.now, copy);
                s.next = Next::Copied;
                ctx.at(end, Kind::DataOut, cmd);
            }
            _ => self.ask_limits(ctx, cmd),
        }
    }
    /// Books the copy of a turn out of the cache's memory.
    fn copy_turn(&mut self, ctx: &Ctx, cmd: u32, turn: u32) {
        let Some(cache) = &self.config.cache else { return };
        let (start, end) = self.dram.reserve(ctx.now, Span::of_bytes(turn.into(), cache.rate));
        self.counts.waits.cache_copy += start.since(ctx.now).0;
        self.streams[self.commands[cmd].stream].copy = Some((start, end));
    }
    fn ask_limits(&mut self, ctx: &mut Ctx, cmd: u32) {
        let s = &mut self.streams[self.commands[cmd].stream];
        let admitted = self.read_cap.admit_turn(ctx.now, s.turn, s.sent == 0);
        self.counts.waits.limits += admitted.since(ctx.now).0;
        s.waits(LIMIT, ctx.now, admitted);
        if admitted == ctx.now {
            return self.send_turn(ctx, cmd);
        }
        (s.next, s.begins) = (Next::Admitted, admitted);
        ctx.at(admitted, Kind::DataOut, cmd);
    }
    fn send_turn(&mut self, ctx: &mut Ctx, cmd: u32) {
        let Command { sqe, stream, .. } = self.commands[cmd];
        let s = &mut self.streams[stream];
        if s.is_last() {
            return self.finish(ctx, cmd);
        }
        let turn = s.turn;
        let transfer = self.link.turn_out(ctx.now, s.sent, turn);
        s.waits(LINK, ctx.now, transfer.begun);
        s.sent += turn;
        s.copy = None;
        (s.next, s.begins) = (Next::Over, transfer.begun);
        let next = s.next_turn(s.sent, self.turn_bytes);
        self.counts.bytes_read += u64::from(turn);
        self.counts.waits.link += transfer.begun.since(ctx.now).0;
        ctx.slice(Track::Link(TO_HOST), "data out", transfer.start, transfer.end, sqe.io);
        ctx.at(transfer.free, Kind::DataOut, cmd);
        if let Some(next) = next {
            self.copy_turn(ctx, cmd, next);
        }
    }

    /// The next turn of a write's data.
    pub(super) fn fetch_turn(&mut self, ctx: &mut Ctx, cmd: u32) {
        let Command { sqe, stream, .. } = self.commands[cmd];
        let s = &mut self.streams[stream];
        let turn = (s.bytes - s.sent).min(self.turn_bytes);
        let transfer = self.link.turn_in(ctx.now, s.sent, turn);
        let admitted = self.write_cap.admit_turn(ctx.now, turn, s.sent == 0);
        self.counts.bytes_written += u64::from(turn);
        self.counts.waits.link += transfer.begun.since(ctx.now).0;
        ctx.slice(Track::Link(TO_DEVICE), "data in", transfer.start, transfer.end, sqe.io);
        s.whole = true;
        s.waits(LINK, ctx.now, transfer.begun);
        s.sent += turn;
        if s.sent < s.bytes {
            let over = transfer.free.max(admitted);
            s.waits(LIMIT, transfer.free, over);
            self.counts.waits.limits += over.since(transfer.free).0;
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
        waited: [Span; 4],
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
