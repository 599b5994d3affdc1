//! A map that memory holds a part of, against an obvious list of pages in the order of their use and closed forms.

use crate::common::{Drive, Times, ctx, geometry};
use wordline_base::{Ctx, Lpn, Rng, SectorSize, Span};
use wordline_firmware::{Firmware, FirmwareConfig};
use wordline_nand::Geometry;
use wordline_translation::{Counters, Source, Translation, WindowLimits, steady_by_overwriting};

/// Beside the tag of a command whose sectors are looked up.
const LOOK_UP: u32 = 1 << 30;
/// Pages of 128 entries.
const SECTOR: u64 = 512;

fn drive_geometry() -> Geometry {
    let sector = SectorSize::new(SECTOR as u32).unwrap();
    Geometry { sector, ..geometry(4, 8, 200, 16, 8) }
}

/// A filled drive with memory for so many pages of its map.
fn filled(op: f64, room: u64) -> (Firmware, Drive, Ctx) {
    let g = drive_geometry();
    // A flush writes what is in the buffer.
    let map_bytes = room * SECTOR;
    let config = FirmwareConfig {
        map_bytes,
        protected: false,
        // What the collector has in memory waits for pages as well: few of them wait for the same one.
        gc_units: Some(g.luns),
        gc_lag: Some(4),
        ..FirmwareConfig::default()
    };
    let mut ftl = Firmware::new(&g, op, &config, &mut |_, _| false).unwrap();
    let mut ctx = ctx(ftl.sectors());
    ftl.fill(&mut ctx.stamps).unwrap();
    ftl.settle();
    ftl.check_invariants().unwrap();
    let mut drive = Drive::new(&g, &vec![false; (g.lines * g.luns) as usize]);
    drive.keeps = false;
    drive.times = Times {
        read: Span::from_us(50),
        program: Span::from_us(500),
        erase: Span::from_ms(3),
        ..Times::default()
    };
    (ftl, drive, ctx)
}

fn begin(ftl: &mut Firmware, drive: &mut Drive, ctx: &mut Ctx) {
    drive.adopt(ftl);
    ftl.start(ctx);
    drive.drain(ftl, ctx.now);
}

/// Looks sectors up, and waits for it.
fn look_up(ftl: &mut Firmware, drive: &mut Drive, ctx: &mut Ctx, lpn: u32, sectors: u32) {
    let known = ftl.look_up(ctx, LOOK_UP, Lpn(lpn), sectors);
    drive.settle(ftl, ctx, &mut Rng::from_seed(1));
    assert_eq!(drive.ended.remove(&LOOK_UP), (!known).then_some(true));
}

#[test]
fn pages_give_way_in_the_order_of_their_use() {
    for room in [2, 7, 60, 1100] {
        let (mut ftl, mut drive, mut ctx) = filled(25.0, room);
        begin(&mut ftl, &mut drive, &mut ctx);
        let (pages, entries) = ftl.map_pages();
        let room = room.min(pages.into()) as usize;
        let in_memory = |ftl: &Firmware| -> Vec<u32> {
            ftl.pages_in_memory().into_iter().map(|(page, _)| page).collect()
        };
        let mut model = in_memory(&ftl);
        assert_eq!(model.len(), room, "the last pages that were filled");
        assert_eq!(model.last(), Some(&(pages - 1)));
        let before = *ftl.counters();
        let (mut hits, mut misses, mut gone) = (0, 0, 0);
        let mut rng = Rng::from_seed(room as u64);
        for _ in 0..3000 {
            let among = rng.pick(&[20 * entries, ftl.sectors() as u32]);
            let lpn = rng.below(among.into()) as u32;
            let most = rng.pick(&[1, 3 * entries]);
            let n = 1 + rng.below(most.into()) as u32;
            let n = n.min(ftl.sectors() as u32 - lpn);
            look_up(&mut ftl, &mut drive, &mut ctx, lpn, n);
            for page in lpn / entries..=(lpn + n - 1) / entries {
                match model.iter().position(|&held| held == page) {
                    Some(i) => {
                        hits += 1;
                        model.remove(i);
                    }
                    None => {
                        misses += 1;
                        if model.len() == room {
                            gone += 1;
                            model.remove(0);
                        }
                    }
                }
                model.push(page);
            }
            assert_eq!(in_memory(&ftl), model);
        }
        let c = ftl.counters().since(&before);
        assert_eq!((c.map_hits, c.map_misses, c.map_evictions), (hits, misses, gone));
        ftl.check_invariants().unwrap();
    }
}

/// Of S pages memory has C: a read finds its page with the probability C / S, and another one costs a read of flash.
#[test]
fn uniform_reads_find_the_share_of_the_map_that_is_in_memory() {
    for room in [60, 300, 600] {
        let (mut ftl, mut drive, mut ctx) = filled(25.0, room);
        begin(&mut ftl, &mut drive, &mut ctx);
        let (sectors, pages) = (ftl.sectors(), ftl.map_pages().0);
        let mut rng = Rng::from_seed(room);
        let flushed = |ftl: &mut Firmware, drive: &mut Drive, ctx: &mut Ctx| {
            ftl.flush(ctx, 1);
            drive.settle(ftl, ctx, &mut Rng::from_seed(1));
            assert_eq!(drive.ended.remove(&1), Some(true));
        };
        let mut read = |ftl: &mut Firmware, drive: &mut Drive, ctx: &mut Ctx, n: u32| {
            for _ in 0..n {
                look_up(ftl, drive, ctx, rng.below(sectors) as u32, 1);
            }
        };
        // What was filled last gives way, and is on flash.
        read(&mut ftl, &mut drive, &mut ctx, 20_000);
        flushed(&mut ftl, &mut drive, &mut ctx);
        let before = *ftl.counters();
        let n = 40_000;
        read(&mut ftl, &mut drive, &mut ctx, n);
        let c = ftl.counters().since(&before);
        let (found, expected) = (c.map_hits as f64 / f64::from(n), room as f64 / f64::from(pages));
        let sigma = (expected * (1.0 - expected) / f64::from(n)).sqrt();
        println!("{room} of {pages} pages: {found:.4}, expected {expected:.4}");
        assert!((found - expected).abs() < 4.0 * sigma, "{found} {expected}");
        assert_eq!(c.map_hits + c.map_misses, n.into());
        assert_eq!(c.map_read_sectors, c.map_misses, "a read of flash each");
        assert_eq!(c.map_evictions, c.map_misses);
        assert_eq!((c.map_sectors, c.programmed_sectors), (0, 0), "nothing changed");
    }
}

/// Uniform writes until the collector is steady, with so many pages of the map in memory: what was written then for
/// each sector of users of data, and of pages of the map; and what is expected of these. Each sector of data that is
/// written, by users or the collector, changes its page, which is not in memory with the probability 1 - C / S: then
/// another one, which changed as well, is written.
fn written(c: &Counters, room: u64, pages: u32) -> (f64, f64, f64) {
    let user = c.user_sectors as f64;
    let miss = 1.0 - room as f64 / f64::from(pages);
    let data = 1.0 + c.gc_sectors as f64 / user;
    (data, c.map_dirty_evictions as f64 / user, miss * data)
}

fn conserves(c: &Counters) {
    let all = c.user_sectors + c.gc_sectors + c.map_sectors + c.pad_sectors + c.resubmitted_sectors;
    assert_eq!(c.programmed_sectors, all, "{c:?}");
}

#[test]
fn uniform_writes_cost_a_page_of_the_map_for_each_entry_that_is_not_in_memory() {
    for (op, room) in [(25.0, 60), (25.0, 600), (25.0, 1150), (15.0, 2)] {
        let (mut ftl, mut drive, mut ctx) = filled(op, room);
        let (sectors, pages) = (ftl.sectors(), ftl.map_pages().0);
        let mut rng = Rng::from_seed(room);
        let mut age = |ftl: &mut Firmware, ctx: &mut Ctx, n: u64| {
            for _ in 0..n / 64 {
                let lpns: [u32; 64] = std::array::from_fn(|_| rng.below(sectors) as u32);
                ftl.overwrite(&mut ctx.stamps, &lpns).unwrap();
            }
        };
        age(&mut ftl, &mut ctx, 3 * sectors);
        ftl.settle();
        conserves(ftl.counters());
        let before = *ftl.counters();
        age(&mut ftl, &mut ctx, sectors);
        let (data, found, expected) = written(&ftl.counters().since(&before), room, pages);
        let c = ftl.counters().since(&before);
        let moved = c.map_sectors as f64 / c.map_dirty_evictions as f64;
        println!(
            "{op} %, {room} of {pages} pages: data {data:.3}, map {found:.3}, {expected:.3}, moved {moved:.3}, free {} marks {:?}",
            ftl.free_units(),
            ftl.marks()
        );
        assert!((found / expected - 1.0).abs() < 0.03, "{found} {expected}");
        ftl.settle();
        ftl.check_invariants().unwrap();

        // The same in time, 16 at a time.
        begin(&mut ftl, &mut drive, &mut ctx);
        let mut rng = Rng::from_seed(room + 1);
        let (mut looking, mut open) = (std::collections::BTreeMap::new(), 0);
        let mut before = *ftl.counters();
        for tag in 0..40_000 {
            if tag == 20_000 {
                before = *ftl.counters();
            }
            let lpn = Lpn(rng.below(sectors) as u32);
            open += 1;
            if ftl.look_up(&mut ctx, LOOK_UP | tag, lpn, 1) {
                write(&mut ftl, &mut ctx, tag, lpn);
            } else {
                looking.insert(tag, lpn);
            }
            drive.drain(&mut ftl, ctx.now);
            loop {
                for (tag, ok) in std::mem::take(&mut drive.ended) {
                    assert!(ok, "write {tag} fails");
                    match looking.remove(&(tag & !LOOK_UP)).filter(|_| tag & LOOK_UP > 0) {
                        Some(lpn) => write(&mut ftl, &mut ctx, tag & !LOOK_UP, lpn),
                        None => open -= 1,
                    }
                }
                drive.drain(&mut ftl, ctx.now);
                if open < 16 && drive.ended.is_empty() {
                    break;
                }
                let goes_on = !drive.ended.is_empty() || drive.tick(&mut ftl, &mut ctx, &mut rng);
                assert!(goes_on, "{open} writes hang, {} of them looked up", looking.len());
            }
        }
        let c = ftl.counters().since(&before);
        let (data, found, expected) = written(&c, room, pages);
        println!("in time: data {data:.3}, map {found:.3}, {expected:.3}");
        // Entries that wait for one page are written together, and pages in the buffer are not read again.
        let least = if room < 16 { 0.8 } else { 0.95 };
        assert!(found < expected * 1.03 && found > expected * least, "{found} {expected}");
        ftl.check_invariants().unwrap();
    }
}

/// Sectors that nobody wrote since the fill are moved in order, so that many share a page: they cost half the pages of the
/// closed form in the first capacity. A drive that was aged until it is steady has few of them.
#[test]
fn a_steady_drive_writes_the_pages_of_the_closed_form() {
    for room in [60, 300, 600] {
        let (mut ftl, _, mut ctx) = filled(25.0, room);
        let (sectors, pages) = (ftl.sectors(), ftl.map_pages().0);
        let mut rng = Rng::from_seed(room);
        let mut draw = |lpns: &mut [u32]| {
            lpns.iter_mut().for_each(|lpn| *lpn = rng.below(sectors) as u32);
            Ok(())
        };
        let stamps = &mut ctx.stamps;
        let report =
            steady_by_overwriting(&mut ftl, stamps, &mut draw, WindowLimits::default()).unwrap();
        ftl.settle();
        assert!(report.steady, "{report:?}");
        let before = *ftl.counters();
        let more = WindowLimits { least: 0.5, most: 0.5, ..WindowLimits::default() };
        steady_by_overwriting(&mut ftl, stamps, &mut draw, more).unwrap();
        let (data, found, expected) = written(&ftl.counters().since(&before), room, pages);
        let capacities = report.sectors as f64 / sectors as f64;
        println!(
            "{room} of {pages} pages, steady after {capacities:.1}: data {data:.3}, map {found:.3}, {expected:.3}"
        );
        assert!((found / expected - 1.0).abs() < 0.05, "{room}: {found} {expected}");
    }
}

fn write(ftl: &mut Firmware, ctx: &mut Ctx, tag: u32, lpn: Lpn) {
    let submitted = ctx.stamps.submit(lpn, 1);
    ctx.stamps.bind(tag, submitted);
    ftl.write(ctx, tag, lpn, 1, false, Source::Host);
}

/// Of the pages of the map as many are written as `checkpoint_sectors` says, also where that is no multiple of their number.
/// More than one for each sector of users' are refused.
#[test]
fn the_map_is_written_once_in_so_many_sectors() {
    let g = drive_geometry();
    let drive = |sectors: u64| {
        let config =
            FirmwareConfig { checkpoint_sectors: Some(sectors), ..FirmwareConfig::default() };
        Firmware::new(&g, 15.0, &config, &mut |_, _| false)
    };
    let pages = drive(1 << 30).unwrap().sectors().div_ceil(SECTOR / 4);
    for every in [pages, pages + 1, 3 * pages / 2, 2 * pages - 1, 7 * pages + 3] {
        let mut ftl = drive(every).unwrap();
        let mut ctx = ctx(ftl.sectors());
        ftl.fill(&mut ctx.stamps).unwrap();
        let before = *ftl.counters();
        for at in (0..ftl.sectors() as u32 - 64).step_by(64) {
            let lpns: Vec<u32> = (at..at + 64).collect();
            ftl.overwrite(&mut ctx.stamps, &lpns).unwrap();
        }
        ftl.settle();
        let c = ftl.counters().since(&before);
        let due = (c.user_sectors * pages / every) as f64;
        // A page that waits in the buffer when it is due again is written once.
        let written = c.emeta_sectors as f64;
        assert!((0.99 * due - 1.0..=due).contains(&written), "{every}: {written} of {due}");
    }
    let why = drive(pages - 1).err().unwrap().to_string();
    assert!(why.contains(&format!("must be at least {pages}: the map has")), "{why}");
}

/// Memory with room for all pages of the map is a map in memory: nothing of it is on flash, and no superblock is kept
/// for it.
#[test]
fn memory_for_all_of_the_map_is_as_no_limit() {
    let g = drive_geometry();
    for checkpoint_sectors in [None, Some(20_000)] {
        let run = |map_bytes: u64| {
            let config =
                FirmwareConfig { map_bytes, checkpoint_sectors, ..FirmwareConfig::default() };
            let mut ftl = Firmware::new(&g, 15.0, &config, &mut |_, _| false).unwrap();
            let all = ftl.sectors();
            let mut ctx = ctx(all);
            ftl.fill(&mut ctx.stamps).unwrap();
            let mut rng = Rng::from_seed(5);
            let mut lpns = [0; 64];
            for _ in 0..3 * all / 64 {
                lpns.fill_with(|| rng.below(all) as u32);
                ftl.overwrite(&mut ctx.stamps, &lpns).unwrap();
            }
            ftl.settle();
            ftl.check_invariants().unwrap();
            let mut state = Vec::new();
            ftl.save(&mut state).unwrap();
            (ftl.looks_up(), ftl.marks(), ftl.sectors(), *ftl.counters(), state)
        };
        let free = run(0);
        let pages = free.2.div_ceil(SECTOR / 4);
        println!("{pages} pages, {:?}", free.3.gc_sectors as f64 / free.3.user_sectors as f64);
        assert!(!free.0);
        for room in [pages, pages + 1, 1000 * pages] {
            assert!(run(room * SECTOR) == free, "{checkpoint_sectors:?}, room for {room}");
        }
        let part = run((pages - 1) * SECTOR);
        assert!(part.0 && part.1 != free.1, "a page less is a part");
    }
}

#[test]
fn memory_for_too_little_is_refused() {
    let g = drive_geometry();
    let refused = |config: FirmwareConfig| {
        let made = Firmware::new(&g, 25.0, &config, &mut |_, _| false);
        made.err().expect("it is refused").to_string()
    };
    let one = FirmwareConfig { map_bytes: SECTOR, ..FirmwareConfig::default() };
    let why = refused(one);
    assert!(why.contains("map_bytes") && why.contains("two pages of the map: 1024"), "{why}");
}

/// A sector that is written over while it waits in the buffer takes no space, and no page of the map falls due for it.
#[test]
fn what_is_written_over_in_the_buffer_writes_no_pages() {
    let g = drive_geometry();
    let config = FirmwareConfig { checkpoint_sectors: Some(2_000), ..FirmwareConfig::default() };
    let mut ftl = Firmware::new(&g, 15.0, &config, &mut |_, _| false).unwrap();
    let mut ctx = ctx(ftl.sectors());
    ftl.start(&mut ctx);
    for tag in 0..100_000 {
        write(&mut ftl, &mut ctx, tag, Lpn(0));
    }
    let c = ftl.counters();
    assert_eq!((c.absorbed_sectors, c.emeta_sectors, ftl.unwritten().len()), (99_999, 0, 1));
}
