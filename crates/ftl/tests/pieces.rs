//! Drives whose blocks are in more lines than borders can leave there: what metadata mended from the
//! spare areas says of a line's LUNs is only those that hold something.

use crate::common::*;
use wordline_base::{BitMap, IdVec, Lpn, Seed};
use wordline_ftl::{
    Ftl, FtlConfig, LineMedia, Media, Placement, SmetaRecord, Source, Stream, Written,
};
use wordline_nand::{Geometry, Ppa};

const LUNS: u32 = 8;
const PAGES: u32 = 24;
const UNIT: u32 = 2;

fn drive() -> (Geometry, FtlConfig) {
    let g = geometry(2, LUNS, 40, PAGES, UNIT);
    let mut c = FtlConfig::new(Placement::Host, 60.0);
    (c.stride, c.hot_cold) = (4, true);
    (g, c)
}

fn set(luns: impl IntoIterator<Item = u32>) -> BitMap {
    let mut map = BitMap::new(LUNS as usize);
    luns.into_iter().for_each(|lun| {
        map.set(lun as usize);
    });
    map
}

/// Sectors that hold data: what, and of which version.
type Data = Vec<(Ppa, Lpn, u32)>;

/// Of the first `full` block ids each good LUN is a line: smeta and a unit of data. The last good block
/// is in two lines' smeta, of which the older one names no LUN. LUN 3 of each block id failed.
fn media(full: u32) -> (IdVec<u32, LineMedia>, Data) {
    let (g, _) = drive();
    let mut data = Vec::new();
    let lines = (0..g.lines).map(|block| {
        let used = |lun: u32| block < full && lun != 3;
        let seq = |lun: u32| u64::from(if used(lun) { 2 + block * LUNS + lun } else { 0 });
        let record = |seq, lun: u32, luns| SmetaRecord {
            seq,
            unit: lun,
            luns,
            parity: set([]),
            strides: 0,
            stream: if lun < 4 { Stream::Hot } else { Stream::Cold },
            erases: IdVec::filled(1, LUNS),
        };
        let written = |smeta| Written { smeta, emeta: None };
        let mut of: Vec<Written> =
            (0..LUNS).filter(|&l| used(l)).map(|l| written(record(seq(l), l, set([l])))).collect();
        if block + 1 == full {
            of.insert(0, written(record(1, 7, set([]))));
        }
        let mut units = BitMap::new(g.units_per_line() as usize);
        for lun in (0..LUNS).filter(|&lun| used(lun)) {
            units.set(lun as usize);
            units.set((LUNS + lun) as usize);
            let first = (block * g.units_per_line() + LUNS + lun) * UNIT;
            for ppa in first..first + UNIT {
                data.push((Ppa(ppa), Lpn(data.len() as u32), 1));
            }
        }
        LineMedia {
            lines: of,
            units,
            of: (0..LUNS).map(seq).collect(),
            bad: (0..LUNS).map(|lun| lun == 3).collect(),
            programmed: (0..LUNS).map(|lun| if used(lun) { 2 } else { 0 }).collect(),
            erases: IdVec::filled(1, LUNS),
        }
    });
    (lines.collect(), data)
}

#[test]
fn a_block_id_may_be_in_a_line_for_each_of_its_luns() {
    let (g, c) = drive();
    let sectors = Ftl::new(&g, &c, &mut |lun, _| lun == 3, Seed(1)).unwrap().sectors();
    for full in [1, 12, 13, 20, 24] {
        let (lines, data) = media(full);
        let oob = |at: Ppa| data.iter().find(|d| d.0 == at).map(|d| (d.1, d.2));
        let media = Media { sectors, worn: false, lines, oob: &oob, trimmed: &|_, _| false };
        let (mut ftl, report) = Ftl::recover(&g, &c, &media, Seed(1)).unwrap();
        assert_eq!(report.mapped, u64::from(full * 7 * UNIT), "{full} block ids");
        ftl.check_invariants().unwrap();
        // It can be saved and loaded, ...
        let mut file = Vec::new();
        ftl.save(&mut file).unwrap();
        Ftl::load(&g, &c, &mut &file[..]).unwrap().check_invariants().unwrap();
        // ... and written over and over, while old and new lines are collected.
        let mut ctx = ctx(Some(sectors));
        ftl.adopt_stamps(&mut ctx.stamps);
        ftl.start(&mut ctx);
        let mut fake = Fake::new(&ftl);
        fake.set_pages(media.lines.iter().flat_map(|l| l.programmed.iter().copied()).collect());
        let mut rng = Seed(u64::from(full)).stream("order");
        let mut out = Vec::new();
        for tag in 0..3000 {
            let lpn = rng.below(sectors - 4) as u32;
            ftl.write(&mut ctx, tag, Lpn(lpn), 4, false, Source::Host);
            fake.drain(&mut ftl);
            while !fake.done.contains_key(&tag) {
                assert!(fake.step(&mut ftl, &mut ctx, &mut rng), "stuck: {}", ftl.situation());
                fake.drain(&mut ftl);
            }
        }
        fake.settle(&mut ftl, &mut ctx, &mut rng);
        for lpn in 0..sectors as u32 {
            assert_eq!(read_check(&mut ftl, &mut ctx, lpn, 1, &mut out), 0, "sector {lpn}");
        }
        assert_eq!(ctx.stamps.wrong().0, 0);
        assert!(ftl.counters().gc_sectors > 0);
        ftl.check_invariants().unwrap();
    }
}
