//! What those who drive an FTL have in common: what an action asks of them and costs, and what the end
//! of a flash read means for the read that it serves.

use crate::{Action, Digest, MapWork, Piece, Place, Translation};
use serde::{Deserialize, Serialize};
use wordline_base::{Ctx, Lpn, Span};
use wordline_nand::{Class, OpKind, Ppa};

/// Processor time of the FTL's work, on the firmware core or the host core it runs on.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FtlCost {
    /// Translating a read, per command.
    pub read_command: Span,
    /// Translating a read, per sector.
    pub read_sector: Span,
    /// Admitting a write to the buffer, per command.
    pub write_command: Span,
    /// Admitting a write to the buffer, per sector, with its copy.
    pub write_sector: Span,
    /// Mapping and issuing one unit (write thread).
    pub program_unit: Span,
    /// Finding a valid sector of a victim and moving it into the buffer.
    pub gc_sector: Span,
    /// Looking at the count of a segment, by a collector on the host of a drive that has the map.
    pub gc_count: Span,
    /// Looking up where an extent lies, or noting it, by a scheduler on the host of a drive that has the map.
    pub place: Span,
    /// Issuing an erase, a flash read of the FTL's own, or data for a unit that is programmed later.
    pub background_command: Span,
    /// Adding one sector to a parity sum, for writing parity or rebuilding a sector.
    pub xor_sector: Span,
    /// The cost of a map that is a tree in host memory; absent: looking up is part of the above.
    pub map: Option<MapCost>,
}

/// Processor time of a map that is a tree, which has a lock then.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MapCost {
    /// Searching a node.
    pub visit: Span,
    /// Writing an entry of a leaf, and taking one out.
    pub insert: Span,
    /// Taking an entry out of a leaf.
    pub remove: Span,
    /// Dividing a node in two, and making one of two.
    pub split: Span,
    /// Making one node of two.
    pub merge: Span,
    /// Taking the lock and giving it back, where nobody else has it.
    pub lock: Span,
}

impl FtlCost {
    /// All of it, so many times.
    pub fn times(&self, factor: f64) -> FtlCost {
        let of = |span: Span| Span((span.0 as f64 * factor).round() as u64);
        FtlCost {
            read_command: of(self.read_command),
            read_sector: of(self.read_sector),
            write_command: of(self.write_command),
            write_sector: of(self.write_sector),
            program_unit: of(self.program_unit),
            gc_sector: of(self.gc_sector),
            gc_count: of(self.gc_count),
            place: of(self.place),
            background_command: of(self.background_command),
            xor_sector: of(self.xor_sector),
            map: self.map.as_ref().map(|map| MapCost {
                visit: of(map.visit),
                insert: of(map.insert),
                remove: of(map.remove),
                split: of(map.split),
                merge: of(map.merge),
                lock: of(map.lock),
            }),
        }
    }
}

impl MapCost {
    /// What so much work costs, without the lock.
    pub fn of(&self, work: MapWork) -> Span {
        self.visit * work.visited
            + self.insert * work.inserted
            + self.remove * work.removed
            + self.split * work.splits
            + self.merge * work.merges
    }
}

/// An action, as whoever drives the FTL carries it out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Once its cost is paid it goes to the flash; its end is told to [`Translation::on_done`].
    Flash(FlashOp),
    /// A run of sectors goes to the drive's protected buffer: done when it is there, at once where the FTL
    /// runs in the drive.
    Stage(Stage),
    /// It is done once its cost is paid.
    Sum {
        /// The FTL's number of it.
        op: u32,
    },
    /// The command of this tag is over.
    Complete {
        /// The command's name.
        tag: u32,
        /// What became of it.
        end: End,
    },
}

/// What became of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It was done.
    Done,
    /// It failed.
    Failed,
    /// The map has no memory for it.
    NoMemory,
}

impl End {
    /// It was done.
    pub fn is_ok(self) -> bool {
        self == End::Done
    }
}

/// Sectors on their way to the drive's protected buffer, of the write with this tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stage {
    /// The FTL's number of the operation.
    pub op: u32,
    /// The write's name.
    pub tag: u32,
    /// The first sector.
    pub ppa: Ppa,
    /// How many there are.
    pub sectors: u32,
}

/// A flash operation that the FTL wants done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlashOp {
    /// The FTL's number of it.
    pub op: u32,
    /// What is done.
    pub kind: OpKind,
    /// What it is done for.
    pub class: Class,
    /// The first sector.
    pub ppa: Ppa,
    /// None of an erase.
    pub sectors: u32,
    /// How many of the sectors go to or come from where the FTL runs.
    pub payload: u32,
    /// A program with a bit a cell.
    pub slc: bool,
}

/// Processor time of issuing an action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IssueCost {
    /// The command itself.
    pub command: Span,
    /// Adding up sectors.
    pub sum: Span,
}

impl IssueCost {
    /// Both.
    pub fn total(self) -> Span {
        self.command + self.sum
    }
}

impl Action {
    /// What is to be done, on flash whose units are of so many sectors.
    #[inline]
    pub fn work(self, unit_sectors: u32) -> Work {
        let (op, kind, class, ppa, sectors, payload) = match self {
            Action::Read { op, ppa, sectors, class, payload } => {
                (op, OpKind::Read, class, ppa, sectors, payload)
            }
            Action::Program { op, ppa, class, payload, .. } => {
                (op, OpKind::Program, class, ppa, unit_sectors, payload)
            }
            Action::Erase { op, ppa } => (op, OpKind::Erase, Class::Erase, ppa, 0, 0),
            Action::Stage { op, tag, ppa, sectors } => {
                return Work::Stage(Stage { op, tag, ppa, sectors });
            }
            Action::Sum { op, .. } => return Work::Sum { op },
            Action::Complete { tag, ok } => {
                return Work::Complete { tag, end: if ok { End::Done } else { End::Failed } };
            }
            Action::Refuse { tag } => return Work::Complete { tag, end: End::NoMemory },
        };
        let slc = matches!(self, Action::Program { slc: true, .. });
        Work::Flash(FlashOp { op, kind, class, ppa, sectors, payload, slc })
    }
    /// What issuing it costs where the FTL runs.
    #[inline]
    pub fn cost(self, cost: &FtlCost) -> IssueCost {
        let (command, summed) = match self {
            Action::Read { class: Class::GcRead, payload, .. } => {
                (cost.background_command + cost.gc_sector * u64::from(payload), 0)
            }
            Action::Read { .. } | Action::Erase { .. } | Action::Stage { .. } => {
                (cost.background_command, 0)
            }
            // Staged before; and parity without a payload is added up by the drive.
            Action::Program { payload: 0, .. } => (cost.program_unit, 0),
            Action::Program { summed, .. } => (cost.program_unit, summed),
            Action::Sum { sectors, .. } => (Span::ZERO, sectors),
            Action::Complete { .. } | Action::Refuse { .. } => (Span::ZERO, 0),
        };
        IssueCost { command, sum: cost.xor_sector * u64::from(summed) }
    }
}

/// A flash read under way for a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlashRead {
    /// The first logical sector.
    pub lpn: Lpn,
    /// How many there are.
    pub sectors: u32,
    /// The first physical sector.
    pub ppa: Ppa,
    /// What it brings.
    pub brings: Brings,
}

/// What a flash read brings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Brings {
    /// The sectors asked for; `expected` is the digest of what they must be.
    Asked {
        /// Digest of the sectors' newest stamps.
        expected: u64,
    },
    /// A run that they are rebuilt from, together with others.
    Member {
        /// The number of the rebuild.
        rebuild: u32,
    },
}

impl FlashRead {
    /// The flash read of a piece; none where the piece is not on flash.
    #[inline]
    pub fn of(piece: &Piece) -> Option<FlashRead> {
        let (ppa, brings) = match piece.place {
            Place::Flash { ppa, expected } => (ppa, Brings::Asked { expected }),
            Place::Member { ppa, rebuild, .. } => (ppa, Brings::Member { rebuild }),
            Place::Unmapped | Place::Buffer | Place::Lost => return None,
        };
        Some(FlashRead { lpn: piece.lpn, sectors: piece.sectors, ppa, brings })
    }
}

/// What came of the sectors asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadEnd {
    /// They are there, or lost; `summed` sectors were added up for it.
    Over {
        /// It was done.
        ok: bool,
        /// Sectors that were added up for it.
        summed: u32,
    },
    /// Other flash reads decide: those under way, or those in `more`.
    Open,
}

/// The data of a program go along with its command, before it is carried out.
#[inline]
pub fn send_data<T: Translation + ?Sized>(ftl: &T, ctx: &mut Ctx, flash: &FlashOp) {
    if flash.kind == OpKind::Program {
        ctx.stamps.flash.send(flash.ppa.0, |data| ftl.data(flash.op, flash.ppa, data));
    }
}

/// Flash has returned what it holds in a run that the FTL reads for its own use, before
/// [`Translation::on_done`] tells it so: it must be what the FTL takes it to be.
pub fn check_own_read<T: Translation + ?Sized>(
    ftl: &T,
    ctx: &mut Ctx,
    op: u32,
    ppa: Ppa,
    sectors: u32,
    held: Option<u32>,
) {
    if let Some(held) = held {
        let expected = Digest::held(ftl.expects(op, ppa, sectors));
        ctx.stamps.check_page(ppa.0, held, expected);
    }
}

/// A flash read ended; `held` is what flash returned, where that is known. The sectors are held against
/// their newest versions; what could not be read is repaired if there is a way, by the pieces that are
/// put into `more`.
#[inline]
pub fn read_ended<T: Translation + ?Sized>(
    ftl: &mut T,
    ctx: &mut Ctx,
    read: FlashRead,
    ok: bool,
    held: Option<u32>,
    more: &mut Vec<Piece>,
) -> ReadEnd {
    let FlashRead { lpn, sectors, ppa, brings } = read;
    more.clear();
    let end = match brings {
        Brings::Member { rebuild } => {
            if let Some(held) = held {
                let expected = Digest::held(ftl.digest(ppa, lpn, sectors));
                ctx.stamps.check_page(ppa.0, held, expected);
            }
            match ftl.member_done(ctx, rebuild, ppa, ok, more) {
                Some(rebuilt) => ReadEnd::Over { ok: rebuilt.ok, summed: rebuilt.summed },
                None => ReadEnd::Open,
            }
        }
        Brings::Asked { .. } if ok && ftl.has_lost(ppa, sectors) => {
            ReadEnd::Over { ok: false, summed: 0 }
        }
        Brings::Asked { expected } if ok => {
            if ctx.stamps.is_on() {
                let mapped = ftl.digest(ppa, lpn, sectors);
                let got = held.map_or(mapped, |held| Digest::returned(mapped, held));
                ctx.stamps.check_digest(lpn, got, expected);
            }
            ReadEnd::Over { ok: true, summed: 0 }
        }
        Brings::Asked { expected } => {
            ftl.read_failed();
            match ftl.repair(ctx, lpn, sectors, ppa, expected, more) {
                true => ReadEnd::Open,
                false => ReadEnd::Over { ok: false, summed: 0 },
            }
        }
    };
    ftl.read_done(ctx, ppa, sectors);
    end
}
