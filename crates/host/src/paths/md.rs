//! Arrays of disks (drivers/md): a bio-based device whose bios go on to its members.
//!
//! - A bio is taken apart by its submitter, which then submits each part to its member as any other bio.
//! - A flush goes to all members, a trim to each member as one run.

use crate::block::call::Outer;
use crate::disk::ArrayShape;
use crate::function::spend;
use crate::host::Host;
use crate::source::Source;
use crate::tasks::thread::{Flow, Step};
use std::collections::VecDeque;
use wordline_base::{Ctx, Ddir, Layer, Why};
use wordline_md::{Layout, Piece};
use wordline_nvme::Opcode;

/// An array.
pub(crate) struct Array {
    pub layout: Layout,
    /// Its members among the host's disks.
    pub members: Vec<u16>,
}

impl Array {
    pub fn new(shape: &ArrayShape) -> Array {
        Array { layout: shape.layout.clone(), members: shape.members.clone() }
    }
}

/// What a thread is about in an array.
#[derive(Debug, Default)]
pub(crate) struct InMd {
    /// Parts of a bio that are still to be submitted, and the bio.
    parts: VecDeque<u32>,
    outer: Option<Outer>,
}

impl<S: Source> Host<S> {
    fn pieces(&self, part: u32) -> Vec<Piece> {
        let node = &self.block.nodes[part];
        let Some(array) = &self.block.disks[node.disk].array else { return Vec::new() };
        let (at, len) = (node.offset, u64::from(node.len));
        match node.ddir {
            Ddir::Trim => array.layout.runs(at, len),
            _ => array.layout.pieces(at, len).collect(),
        }
    }

    /// A bio for an array: its processor time first.
    pub(crate) fn md_bio(&mut self, ctx: &mut Ctx, t: u32, part: u32) -> Flow {
        let pieces = self.pieces(part).len() as u64;
        let thread = &mut self.threads[t];
        thread.pend.block += spend!(self, thread.core, Raid0 * pieces, Bio * (pieces - 1));
        self.segment(ctx, t, Step::MdMap)
    }

    /// The parts of a bio.
    pub(crate) fn md_map(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let part = self.threads[t].call.part();
        let pieces = self.pieces(part);
        self.begin_life(ctx, part);
        self.block.nodes[part].pending = pieces.len() as u32;
        for piece in pieces {
            self.md_part(t, part, piece);
        }
        self.md_begin(t)
    }

    /// A part of a bio, for a member.
    fn md_part(&mut self, t: u32, part: u32, piece: Piece) {
        let d = self.block.nodes[part].disk;
        let Some(array) = &self.block.disks[d].array else { return };
        let disk = array.members[piece.member as usize];
        let child = self.child(part, piece.offset, piece.len as u32);
        self.block.nodes[child].disk = disk;
        self.threads[t].md.parts.push_back(child);
    }

    fn md_begin(&mut self, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        thread.md.outer = Some(thread.call.descend(Step::MdNext));
        self.go(t, Step::MdNext)
    }

    /// md_flush_request: a flush goes to all members.
    pub(crate) fn md_flush(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let part = self.threads[t].call.node();
        let Some(array) = &self.block.disks[self.block.nodes[part].disk].array else {
            return Flow::Again;
        };
        let members = array.members.len() as u32;
        self.begin_life(ctx, part);
        self.block.nodes[part].pending = members;
        for member in 0..members {
            self.md_part(t, part, Piece { member, offset: 0, len: 0 });
        }
        self.md_begin(t)
    }

    /// generic_make_request of the next part, or on to what follows the bio.
    pub(crate) fn md_next(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        let planned = thread.is_planned();
        let Some(&part) = thread.md.parts.front() else {
            let Some(outer) = thread.md.outer.take() else {
                unreachable!("parts of a bio end with the bio")
            };
            thread.call.ascend(outer);
            // A flush has no length to go through.
            let flush = thread.call.is_flush();
            let step = if flush { thread.call.over() } else { Step::Part };
            return self.go(t, step);
        };
        if planned {
            return self.segment(ctx, t, Step::MdNext);
        }
        let n = self.block.nodes[part];
        if n.disk != thread.disk {
            if thread.call.unplugs_before(Step::MdNext) {
                // What a plug holds is of one disk.
                return self.go(t, Step::Plug);
            }
            self.turn_to_member(t, n.disk);
        }
        let thread = &mut self.threads[t];
        thread.md.parts.pop_front();
        let (opcode, mut divided) = match n.ddir {
            Ddir::Read => (Opcode::Read, true),
            Ddir::Write => (Opcode::Write, true),
            Ddir::Trim => (Opcode::Deallocate, false),
            Ddir::Sync | Ddir::DataSync => (Opcode::Flush, false),
        };
        if divided {
            let parts = self.parts(n.disk, n.len);
            divided = parts > 1;
            if divided {
                self.block.nodes[part].pending = parts;
                self.counters.splits += 1;
            }
        }
        let thread = &mut self.threads[t];
        thread.call.begin_member(part, opcode, divided, n.len.into());
        thread.plan_after(part, Layer::Block, Why::Plugged);
        match opcode {
            Opcode::Flush => {
                thread.pend.block += spend!(self, thread.core, Bio, Block);
                self.segment(ctx, t, Step::Flush)
            }
            _ => self.go(t, Step::Part),
        }
    }

    /// The thread's bios go to a member from here on. They complete by interrupt.
    fn turn_to_member(&mut self, t: u32, to: u16) {
        let thread = &mut self.threads[t];
        let home = self.block.disks[to].map[thread.core as usize];
        (thread.disk, thread.home, thread.poll_hctx, thread.hctx) = (to, home, home, home);
        thread.polls = false;
    }
}
