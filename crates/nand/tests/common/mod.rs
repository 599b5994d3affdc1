//! Operations that come to the flash at given times, and what became of them.

use wordline_base::{Ctx, IdVec, IoId, Kind, Seed, Span, Time};
use wordline_nand::config::NandPower;
use wordline_nand::{
    Cell, ChannelOrder, Class, Nand, NandConfig, Op, OpKind, PerPage, Ppa, Record, Suspend,
};

/// Of a block. Lines from 32 on are written.
pub const PAGES: u32 = 32;

/// One LUN, all of whose operations take their turns.
pub fn config() -> NandConfig {
    NandConfig {
        variation: Default::default(),
        slc: None,
        cell: Cell::Slc,
        channels: 1,
        gang: 1,
        gang_skew: Span::ZERO,
        remap: false,
        luns_per_channel: 1,
        planes: 1,
        blocks: 64,
        pages_per_block: PAGES,
        sector_bytes: 4096,
        page_bytes: 4096,
        t_read: PerPage::One(Span(30)),
        t_program: PerPage::One(Span(400)),
        t_erase: Span(1000),
        in_place: false,
        // 16 ns for a page.
        channel_rate: 256_000_000_000,
        t_command: Span(3),
        transfer_bytes: 0,
        channel_order: ChannelOrder::Fifo,
        cache_register: false,
        independent_plane_reads: false,
        suspend: Suspend::default(),
        endurance: 1000,
        power: NandPower::default(),
        faults: Default::default(),
        errors: Default::default(),
        decoder: None,
    }
}

/// One operation to come.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub at: u64,
    pub kind: OpKind,
    pub class: Class,
    pub lun: u32,
    pub line: u32,
    pub page: u32,
    /// Where a read begins in its unit, and its sectors.
    pub sector: u32,
    pub sectors: u32,
}

/// Runs them all; records by arrival.
pub fn run(c: &NandConfig, arrivals: &[Arrival]) -> (Nand, Vec<Record>) {
    let mut ctx = Ctx::new();
    let mut nand = Nand::new(c, Seed(1)).unwrap();
    let g = nand.geometry;
    // Lines from 32 on are written, for reads.
    for (lun, line) in (0..g.luns).flat_map(|lun| (32..g.lines).map(move |line| (lun, line))) {
        nand.set_block(lun, line, PAGES, 1, false);
    }
    for (i, a) in arrivals.iter().enumerate() {
        ctx.at(Time(a.at), Kind::Sample, i as u32);
    }
    let arrivals: IdVec<u32, Arrival> = arrivals.to_vec().into();
    let mut records: IdVec<u32, Option<Record>> = IdVec::filled(None, arrivals.count());
    while let Some((now, event)) = ctx.queue.pop() {
        ctx.now = now;
        if event.kind() == Kind::Sample {
            let (owner, a) = (event.index(), arrivals[event.index()]);
            let ppa = Ppa(g.first_of_unit(g.unit_at(a.line, a.page, a.lun)).0 + a.sector);
            let (kind, class, sectors, io) = (a.kind, a.class, a.sectors, IoId::NONE);
            nand.submit(&mut ctx, Op { kind, class, ppa, sectors, slc: false, owner, io });
        } else if let Some(key) = nand.on_event(&mut ctx, event.kind(), event.index()) {
            let record = *nand.record(key);
            records[record.op.owner] = Some(record);
        }
    }
    assert_eq!(nand.in_flight(), 0, "every operation ends");
    (nand, records.iter().map(|r| r.expect("every operation ends")).collect())
}
