//! What crosses the NVMe queues: commands, completions, and their 64- and 16-byte wire forms.
//! No state, no time.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub use wordline_base::QueuePriority;
use wordline_base::ledger::NONE;
use wordline_base::{IoClass, IoId, Priority, Workload};

/// I/O command set opcodes (NVMe base specification 1.4, figure 346) and the vendor opcodes of
/// open-channel drives (Open-Channel SSD specification 2.0, section 4).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Opcode {
    /// What was written before is durable when it completes.
    Flush = 0x00,
    /// Logical blocks, from the host.
    Write = 0x01,
    /// Logical blocks, to the host.
    Read = 0x02,
    /// Dataset management with the deallocate attribute: trim.
    Deallocate = 0x09,
    /// Erases a block of an open-channel drive.
    VectorReset = 0x90,
    /// Programs a unit of it.
    VectorWrite = 0x91,
    /// Reads sectors of it.
    VectorRead = 0x92,
    /// Ours: sectors of a unit that a later write programs go to the drive's protected buffer.
    VectorStage = 0xC0,
    /// Ours, for a collector on the host of a drive with an FTL: the share in use of each segment. It ends once there is
    /// something to collect.
    GcCounts = 0xC2,
    /// Ours, for the same: the order to collect some. It ends when there is something to decide.
    GcCollect = 0xC6,
}

impl Opcode {
    /// The opcode of dword 0; none if it is unknown here.
    pub fn from_byte(byte: u8) -> Option<Opcode> {
        use Opcode::*;
        let blocks = [Flush, Write, Read, Deallocate];
        let vectors = [VectorReset, VectorWrite, VectorRead, VectorStage];
        let orders = [GcCounts, GcCollect];
        let mut all = blocks.into_iter().chain(vectors).chain(orders);
        all.find(|&o| o as u8 == byte)
    }
    /// Data flow from host to device.
    pub fn is_data_in(self) -> bool {
        matches!(self, Opcode::Write | Opcode::VectorWrite | Opcode::VectorStage)
    }
    /// Data flow from device to host.
    pub fn is_data_out(self) -> bool {
        matches!(self, Opcode::Read | Opcode::VectorRead) || self.is_gc_order()
    }
    /// Of a collector on the host.
    pub fn is_gc_order(self) -> bool {
        matches!(self, Opcode::GcCounts | Opcode::GcCollect)
    }
    /// Bits of what its length counts; its address is in the same, or is none of a byte.
    fn shifts(self, lba_shift: u32) -> (u32, u32) {
        match self {
            _ if self.is_gc_order() => (0, GC_UNIT.ilog2()),
            _ if self.is_vector() => (0, lba_shift),
            _ => (lba_shift, lba_shift),
        }
    }
    /// Of an open-channel drive.
    pub fn is_vector(self) -> bool {
        matches!(
            self,
            Opcode::VectorReset | Opcode::VectorWrite | Opcode::VectorRead | Opcode::VectorStage
        )
    }
}

/// What answers to the orders of a collector on the host are counted in.
const GC_UNIT: u32 = 4;

/// Unit of a controller's largest transfer: the smallest page it supports (CAP.MPSMIN of 0).
pub const MIN_PAGE: u32 = 4096;

/// Identify Controller's MDTS (NVMe 1.4, figure 247): a power of two of pages, 0 for no limit. None
/// if a limit has no such form.
pub fn mdts(max_transfer: u32) -> Option<u8> {
    match max_transfer {
        0 => Some(0),
        // A limit of one page would read as none.
        n if n > MIN_PAGE && n.is_power_of_two() => Some((n / MIN_PAGE).ilog2() as u8),
        _ => None,
    }
}

/// CAP.AMS (NVMe 1.4, 3.1.1), bits 17 and 18 of the controller's capabilities: the arbitration it offers
/// beside round robin, which every controller has.
pub fn cap_ams(weighted_urgent: bool) -> u64 {
    u64::from(weighted_urgent) << 17
}

/// Dword 11 of Set Features, Arbitration (01h; NVMe 1.4, 5.21.1.1): the burst as a power of two, 111b for
/// no limit, and the weights of the high, medium and low classes less one. None if a value has no such
/// form. A burst of 0 is no limit.
pub fn arbitration(burst: u32, [high, medium, low]: [u32; 3]) -> Option<u32> {
    let burst = match burst {
        0 => 0b111,
        n if n.is_power_of_two() && n <= 64 => n.ilog2(),
        _ => return None,
    };
    let weight = |w: u32| (1..=256).contains(&w).then(|| w - 1);
    Some(weight(high)? << 24 | weight(medium)? << 16 | weight(low)? << 8 | burst)
}

/// A submission queue entry, decoded.
///
/// A vector command here addresses one run of sectors inside one write unit (or one block), so a
/// scattered request is several commands where an open-channel drive takes one with an address
/// list; the host charges its cost once a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sqe {
    /// What is asked for.
    pub opcode: Opcode,
    /// Unique among the commands of its queue.
    pub cid: u16,
    /// Byte offset on the namespace; a physical sector number for vector commands.
    pub address: u64,
    /// Of its data.
    pub bytes: u32,
    /// A write ends when it is durable.
    pub fua: bool,
    /// Vector commands: `wordline_nand::Class` of the work, for accounting only (not on the wire).
    pub work: u8,
    /// Of the I/O served. On the wire without the class of the queue, which is the queue's.
    pub class: IoClass,
    /// Vector commands: sectors that stay in the drive, which copies them or computes them itself (the
    /// commands proposed in RAIL, section 6.3).
    pub inner: u16,
    /// Vector commands: bytes that cross the link with the data, about sectors that stay in the drive (not on
    /// the wire).
    pub beside: u16,
    /// The I/O served (not on the wire).
    pub io: IoId,
    /// Writes and trims: what the ledger of versions calls it ([`wordline_base::ledger`]; not on the wire).
    pub submitted: u32,
}

/// Generic and media status codes (NVMe base specification 1.4, section 4.6.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Status {
    /// It was done.
    Success = 0x000,
    /// The command cannot be.
    InvalidField = 0x002,
    /// It goes beyond the namespace.
    LbaOutOfRange = 0x080,
    /// No space is left to write.
    CapacityExceeded = 0x081,
    /// Data could not be written.
    WriteFault = 0x280,
    /// Data could not be read.
    UnrecoveredRead = 0x281,
}

/// A completion queue entry, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cqe {
    /// Submission queue of the command.
    pub sq: u16,
    /// The command's number in it.
    pub cid: u16,
    /// Submission queue head after the command was fetched.
    pub sq_head: u16,
    /// How it ended.
    pub status: Status,
    /// It changes with each pass through the queue.
    pub phase: bool,
    /// Vector reads: what the sectors hold, where that is kept (not on the wire). Reads and writes of a drive
    /// that tells it: the LUN of the first sector, and in bit 16 that it programs (dword 0).
    pub held: Option<u32>,
}

impl Sqe {
    /// The 64 bytes of the command: namespace 1, logical blocks of `1 << lba_shift` bytes (a drive of open
    /// channels has its sectors for blocks), addresses little-endian.
    pub fn encode(&self, lba_shift: u32) -> [u8; 64] {
        let mut b = [0u8; 64];
        b[0] = self.opcode as u8;
        b[2..4].copy_from_slice(&self.cid.to_le_bytes());
        b[4] = 1;
        b[8] = attribute(self.class.workload());
        let (of_address, of_bytes) = self.opcode.shifts(lba_shift);
        let (start, blocks) = (self.address >> of_address, self.bytes >> of_bytes);
        b[40..48].copy_from_slice(&start.to_le_bytes());
        // NLB is 0-based, 16 bits; bit 30 of dword 12 is FUA.
        let dword12 = blocks.saturating_sub(1) & 0xFFFF | u32::from(self.fua) << 30;
        b[48..52].copy_from_slice(&dword12.to_le_bytes());
        b[52..56].copy_from_slice(&dword13(self.class).to_le_bytes());
        b
    }

    /// Reads a command back; `None` for an opcode that is not served here.
    pub fn decode(b: &[u8; 64], lba_shift: u32) -> Option<Sqe> {
        let opcode = Opcode::from_byte(b[0])?;
        let start = u64::from_le_bytes(b[40..48].try_into().ok()?);
        let dword12 = u32::from_le_bytes(b[48..52].try_into().ok()?);
        let dword13 = u32::from_le_bytes(b[52..56].try_into().ok()?);
        let blocks = (dword12 & 0xFFFF) + 1;
        let (of_address, of_bytes) = opcode.shifts(lba_shift);
        Some(Sqe {
            opcode,
            cid: u16::from_le_bytes([b[2], b[3]]),
            address: start << of_address,
            bytes: if opcode == Opcode::Flush { 0 } else { blocks << of_bytes },
            fua: dword12 >> 30 & 1 == 1,
            work: 0,
            class: class_of(dword13).with_workload(workload(b[8])),
            inner: 0,
            beside: 0,
            io: IoId::NONE,
            submitted: NONE,
        })
    }
}

/// The low byte of dword 2, which the specification reserves: the workload attribute of FlashShare (Zhang
/// et al., OSDI 2018), 0x1 for latency-critical.
fn attribute(workload: Workload) -> u8 {
    workload as u8
}

fn workload(attribute: u8) -> Workload {
    [Workload::None, Workload::Latency, Workload::Throughput, Workload::None]
        [usize::from(attribute & 3)]
}

/// Dword 13 of a read or write. Its dataset management field (DSM, NVMe base specification 1.4) has two
/// bits for access latency: 01b longer is acceptable, 10b typical, 11b the least possible. They are Linux'
/// class; its level is in bits 8 to 10, which are reserved there.
fn dword13(class: IoClass) -> u32 {
    let latency = match class.priority() {
        Priority::None => 0,
        Priority::Idle => 1,
        Priority::BestEffort => 2,
        Priority::RealTime => 3,
    };
    latency << 4 | u32::from(class.level()) << 8
}

fn class_of(dword13: u32) -> IoClass {
    let priority = [Priority::None, Priority::Idle, Priority::BestEffort, Priority::RealTime];
    let field = |shift: u32, mask: u32| (dword13 >> shift & mask) as usize;
    IoClass::new(priority[field(4, 3)], field(8, 7) as u8)
}

impl Cqe {
    /// Its bytes in the queue.
    pub fn encode(&self) -> [u8; 16] {
        let mut b = [0u8; 16];
        b[8..10].copy_from_slice(&self.sq_head.to_le_bytes());
        b[10..12].copy_from_slice(&self.sq.to_le_bytes());
        b[12..14].copy_from_slice(&self.cid.to_le_bytes());
        let status = (self.status as u16) << 1 | u16::from(self.phase);
        b[14..16].copy_from_slice(&status.to_le_bytes());
        b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mdts_is_a_power_of_two_of_pages() {
        for (bytes, field) in [(0, Some(0)), (8192, Some(1)), (128 << 10, Some(5))] {
            assert_eq!(mdts(bytes), field);
        }
        for bytes in [1, 4096, 100_000, 3 << 12] {
            assert_eq!(mdts(bytes), None, "{bytes}");
        }
    }

    #[test]
    fn arbitration_has_its_wire_form() {
        assert_eq!(arbitration(1, [1, 1, 1]), Some(0));
        assert_eq!(arbitration(8, [4, 2, 1]), Some(0x0301_0003));
        assert_eq!(arbitration(64, [256, 256, 256]), Some(0xFFFF_FF06));
        assert_eq!(arbitration(0, [1, 1, 3]), Some(0x0207), "111b is no limit");
        for (burst, weights) in [(3, [1; 3]), (128, [1; 3]), (8, [0, 1, 1]), (8, [1, 257, 1])] {
            assert_eq!(arbitration(burst, weights), None, "{burst} {weights:?}");
        }
        assert_eq!((cap_ams(false), cap_ams(true)), (0, 1 << 17));
    }

    #[test]
    fn commands_survive_the_wire() {
        for (opcode, address, bytes) in [
            (Opcode::Read, 4096 * 12345, 4096),
            (Opcode::Write, 4096 * 7, 8192),
            (Opcode::Write, 512 * 7, 512),
            (Opcode::Flush, 0, 0),
            (Opcode::VectorRead, 77, 16 * 4096),
            (Opcode::GcCounts, 1, 16 + 4 * 1024),
            (Opcode::GcCollect, 7 << 32 | 500, 16),
        ] {
            let sqe = Sqe {
                opcode,
                cid: 9,
                address,
                bytes,
                fua: opcode == Opcode::Write,
                work: 0,
                class: IoClass::new(Priority::BestEffort, 6),
                inner: 0,
                beside: 0,
                io: IoId::NONE,
                submitted: NONE,
            };
            assert_eq!(Sqe::decode(&sqe.encode(9), 9), Some(sqe));
            if (address | u64::from(bytes)).is_multiple_of(4096) || opcode.is_gc_order() {
                assert_eq!(Sqe::decode(&sqe.encode(12), 12), Some(sqe));
            }
        }
        let write = Sqe { bytes: 8192, ..Sqe::decode(&[1; 64], 12).unwrap() };
        let (small, large) = (write.encode(9), write.encode(12));
        assert_eq!((small[48], large[48]), (15, 1), "the count of blocks is 0-based");
        assert_eq!(Sqe::decode(&[0xFF; 64], 9), None);
    }

    #[test]
    fn the_class_of_an_io_goes_over_the_wire() {
        let plain = Sqe::decode(&[1; 64], 12).unwrap();
        for priority in [Priority::None, Priority::RealTime, Priority::BestEffort, Priority::Idle] {
            for level in 0..8 {
                for workload in [Workload::None, Workload::Latency, Workload::Throughput] {
                    let class = IoClass::new(priority, level).with_workload(workload);
                    let sqe = Sqe { class, ..plain };
                    assert_eq!(Sqe::decode(&sqe.encode(12), 12), Some(sqe));
                    // The queue's class is the queue's.
                    let high = Sqe { class: class.with_queue(QueuePriority::High), ..plain };
                    assert_eq!(high.encode(12), sqe.encode(12));
                }
            }
        }
        let none = Sqe { class: IoClass::NONE, ..plain };
        assert_eq!(none.encode(12)[52..56], [0; 4], "an I/O without a class asks for nothing");
        assert_eq!(none.encode(12)[8], 0);
        let critical = Sqe { class: IoClass::NONE.with_workload(Workload::Latency), ..plain };
        let mut wire = none.encode(12);
        wire[8] = 0x1;
        assert_eq!(critical.encode(12), wire, "the low byte of dword 2, and nothing else");
        let urgent = Sqe { class: IoClass::new(Priority::RealTime, 0), ..plain };
        assert_eq!(urgent.encode(12)[52], 3 << 4, "the least possible latency");
        assert_eq!(std::mem::size_of::<Sqe>(), 32);
    }

    #[test]
    fn completions_carry_phase_and_status() {
        let status = Status::UnrecoveredRead;
        let cqe = Cqe { sq: 3, cid: 8, sq_head: 5, status, phase: true, held: None };
        let b = cqe.encode();
        assert_eq!(u16::from_le_bytes([b[14], b[15]]), 0x281 << 1 | 1);
        assert_eq!(u16::from_le_bytes([b[12], b[13]]), 8);
    }
}
