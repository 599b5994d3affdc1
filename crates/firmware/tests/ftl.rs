//! The FTL against what a drive must be: an array of the newest versions.

use crate::common;

use crate::common::{Drive, Faults, Kind, Reading, ctx};
use std::collections::BTreeMap;
use wordline_base::{BadValue, Ctx, Lpn, Rng};
use wordline_firmware::Firmware;
use wordline_translation::{Action, Capacity, Place, Source, Translation};

#[test]
fn reads_find_the_newest_under_random_commands_and_faults() {
    let (mut sums, mut pages) = ([0; 15], 0);
    for seed in 0..140 {
        let kind = Kind::draw(seed);
        let what = format!("seed {seed}");
        let mut rng = Rng::from_seed(seed);
        let mut ftl = kind.make();
        let sectors = ftl.sectors() as u32;
        let mut ctx = ctx(sectors.into());
        let mut drive = Drive::new(&kind.g, &kind.bad);
        if rng.below(2) == 0 {
            drive.faults = Faults { read: 5_000_000, program: 3_000_000, erase: 3_000_000 };
        }
        let faulty = drive.faults.read > 0;
        ftl.start(&mut ctx);
        let hot = 1 + rng.below(u64::from(sectors)) as u32;
        let (mut looking, mut found) = (BTreeMap::new(), Vec::new());
        let mut open: BTreeMap<u32, (u32, bool)> = BTreeMap::new();
        let (mut reading, mut pieces): (Vec<Reading>, _) = (Vec::new(), Vec::new());
        let has_cached_map = kind.has_cached_map();
        for tag in 0..4000u32 {
            let more = tag < 3900 || !has_cached_map;
            let among = if rng.below(3) == 0 { sectors } else { hot };
            let lpn = rng.below(among.into()) as u32;
            let most = rng.pick(&[1, 1, 4, 40]).min(sectors - lpn);
            let n = 1 + rng.below(u64::from(most)) as u32;
            let command = (tag, lpn, n, rng.below(20));
            if more && looks_up(&mut ftl, &mut ctx, command) {
                found.push(command);
            } else if more {
                looking.insert(tag, command);
            }
            for (tag, lpn, n, command) in found.drain(..) {
                match command {
                    0..12 => {
                        let submitted = ctx.stamps.submit(Lpn(lpn), n);
                        ctx.stamps.bind(tag, submitted);
                        open.insert(tag, (submitted, true));
                        ftl.write(&mut ctx, tag, Lpn(lpn), n, rng.below(20) == 0, Source::Host);
                    }
                    12..17 => {
                        pieces.clear();
                        ftl.read(&mut ctx, Lpn(lpn), n, &mut pieces);
                        let lost = pieces.iter().any(|p| p.place == Place::Lost);
                        assert!(!lost || faulty, "{what}");
                        assert_eq!(pieces.iter().map(|p| p.sectors).sum::<u32>(), n, "{what}");
                        reading.extend(Reading::of(&pieces));
                    }
                    17 => {
                        let submitted = ctx.stamps.submit(Lpn(lpn), n);
                        ctx.stamps.bind(tag, submitted);
                        open.insert(tag, (submitted, true));
                        ftl.trim(&mut ctx, tag, Lpn(lpn), n);
                    }
                    18 => {
                        open.insert(tag, (0, false));
                        ftl.flush(&mut ctx, tag);
                    }
                    _ => {
                        ftl.check_invariants().unwrap_or_else(|e| panic!("{what}: {e}"));
                        pages += drive.check_map(&ftl, false, &what);
                    }
                }
            }
            // Users are away for long enough to fold.
            if kind.has_slc() && tag % 40 == 0 {
                pause(&mut ftl, &mut ctx, &kind);
            }
            drive.drain(&mut ftl, ctx.now);
            for _ in 0..rng.below(8) {
                drive.step(&mut ftl, &mut ctx, &mut rng);
                drive.drain(&mut ftl, ctx.now);
            }
            while !reading.is_empty() && rng.below(3) > 0 {
                let read = reading.swap_remove(rng.below(reading.len() as u64) as usize);
                read.end(&mut ftl, &mut ctx, &drive, &what);
            }
            drive.drain(&mut ftl, ctx.now);
            for (tag, ok) in std::mem::take(&mut drive.ended) {
                if tag & LOOK_UP > 0 {
                    found.push(looking.remove(&(tag & !LOOK_UP)).expect("it is looked up"));
                    continue;
                }
                let (submitted, changes) = open.remove(&tag).expect("it was open");
                assert!(ok || faulty, "{what}: nothing failed");
                if changes {
                    ctx.stamps.acknowledge(submitted, ok);
                }
            }
        }
        for read in reading {
            read.end(&mut ftl, &mut ctx, &drive, &what);
        }
        drive.settle(&mut ftl, &mut ctx, &mut rng);
        for (tag, _) in std::mem::take(&mut drive.ended) {
            open.remove(&tag).expect("it was open");
        }
        assert!(open.is_empty() && looking.is_empty(), "{what}: {open:?}, {looking:?} hang");
        ftl.check_invariants().unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(ctx.stamps.wrong(), (0, &[][..]), "{what}");
        let c = *ftl.counters();
        let new =
            c.user_sectors + c.emeta_sectors + c.gc_sectors + c.folded_sectors + c.map_sectors;
        assert_eq!(
            c.programmed_sectors,
            new + c.pad_sectors + c.resubmitted_sectors,
            "{what}: {c:?}"
        );
        let counts = [
            c.gc_sectors,
            c.resubmitted_sectors,
            c.lost_sectors,
            c.blocks_retired,
            c.absorbed_sectors,
            c.gc_stale_sectors,
            c.flushes_waited,
            c.lines_levelled,
            c.lines_refreshed,
            c.folded_sectors,
            c.lines_folded,
            c.map_hits,
            c.map_misses,
            c.map_evictions,
            c.map_read_sectors,
            c.map_sectors,
        ];
        sums.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
    }
    println!("{sums:?}, {pages} pages of maps");
    assert!(pages > 1000 && sums.iter().all(|&n| n > 100), "{sums:?}");
}

/// Beside the tag of a command whose sectors are looked up.
const LOOK_UP: u32 = 1 << 30;

/// What a read or a write does first. False: it is to be told of the end.
fn looks_up(
    ftl: &mut Firmware,
    ctx: &mut wordline_base::Ctx,
    (tag, lpn, n, command): (u32, u32, u32, u64),
) -> bool {
    command >= 17 || !ftl.looks_up() || ftl.look_up(ctx, LOOK_UP | tag, Lpn(lpn), n)
}

fn pause(ftl: &mut Firmware, ctx: &mut wordline_base::Ctx, kind: &Kind) {
    ctx.now += kind.config.idle_after;
    ftl.on_timer(ctx, 0);
}

/// The power goes at any event. What was promised is there afterwards, and nothing that was never written.
#[test]
fn a_power_cut_at_any_event_loses_nothing_that_was_promised() {
    let (mut cuts, mut kept, mut trims, mut open_cuts, mut pages) = (0, 0, 0, 0, 0);
    let mut worn_out = 0;
    // Some seeds more of drives that nearly ran out of blocks.
    let drawn = (0..220).map(|seed| (seed, Kind::draw(seed)));
    for (seed, mut kind) in drawn.chain([539, 677, 839].map(|seed| (seed, Kind::plain(seed)))) {
        kind.config.checkpoint_sectors = [None, Some(500), Some(3000)][seed as usize % 3];
        // What is trimmed stays so where capacitors keep the pages of the map. Without them, what was there
        // before may come back until a flush, but nothing older. Where the map is not written, that may too.
        let told = kind.config.checkpoint_sectors.is_some() || kind.has_cached_map();
        let strict = kind.config.protected && told;
        let mut rng = Rng::from_seed(seed ^ 0xC07);
        let mut ftl = kind.make();
        let sectors = ftl.sectors() as u32;
        let mut ctx = ctx(sectors.into());
        let mut drive = Drive::new(&kind.g, &kind.bad);
        if rng.below(3) == 0 {
            drive.faults = Faults { read: 1_000_000, program: 3_000_000, erase: 3_000_000 };
        }
        ftl.start(&mut ctx);
        // By sector: versions written or trimmed (0) in their order, and how many of these are promised.
        let mut history: Vec<Vec<u32>> = vec![vec![0]; sectors as usize];
        let mut promised = vec![0usize; sectors as usize];
        let (mut open, mut tag): (BTreeMap<u32, Promise>, u32) = Default::default();
        // Sectors whose only copy could not be read since the last cut.
        let mut lost = vec![false; sectors as usize];
        let hot = sectors / 2;
        let (mut looking, mut found) = (BTreeMap::new(), Vec::new());
        for round in 0..6 {
            let what = format!("seed {seed}, round {round}");
            let mut losses = 0;
            for _ in 0..100 + rng.below(900) {
                tag += 1;
                let lpn = rng.below(u64::from(if tag % 3 == 0 { sectors } else { hot })) as u32;
                let most = rng.pick(&[1, 1, 4, 20]).min(sectors - lpn);
                let n = 1 + rng.below(u64::from(most)) as u32;
                let command = (tag, lpn, n, rng.below(20));
                match command.3 >= 16 || looks_up(&mut ftl, &mut ctx, command) {
                    true => found.push(command),
                    false => _ = looking.insert(tag, command),
                }
                for (tag, lpn, n, command) in found.drain(..) {
                    match command {
                        0..16 => {
                            let fua = rng.below(8) == 0;
                            let version = tag;
                            let submitted = ctx.stamps.submit_as(Lpn(lpn), n, version);
                            ctx.stamps.bind(tag, submitted);
                            let places = (lpn..lpn + n).map(|lpn| {
                                history[lpn as usize].push(version);
                                (lpn, history[lpn as usize].len() - 1)
                            });
                            let durable = fua || kind.config.protected;
                            open.insert(
                                tag,
                                Promise { submitted, places: places.collect(), durable },
                            );
                            ftl.write(&mut ctx, tag, Lpn(lpn), n, fua, Source::Host);
                        }
                        16..18 => {
                            let submitted = ctx.stamps.submit_as(Lpn(lpn), n, tag);
                            ctx.stamps.bind(tag, submitted);
                            let places = (lpn..lpn + n).map(|lpn| {
                                history[lpn as usize].push(0);
                                (lpn, history[lpn as usize].len() - 1)
                            });
                            open.insert(
                                tag,
                                Promise { submitted, places: places.collect(), durable: strict },
                            );
                            ftl.trim(&mut ctx, tag, Lpn(lpn), n);
                            trims += 1;
                        }
                        _ => {
                            // What is complete by now.
                            let places = complete(&history, &open);
                            open.insert(
                                tag,
                                Promise { submitted: u32::MAX, places, durable: true },
                            );
                            ftl.flush(&mut ctx, tag);
                        }
                    }
                }
                if kind.has_slc() && tag.is_multiple_of(30) {
                    pause(&mut ftl, &mut ctx, &kind);
                }
                drive.drain(&mut ftl, ctx.now);
                for _ in 0..rng.below(6) {
                    drive.step(&mut ftl, &mut ctx, &mut rng);
                    drive.drain(&mut ftl, ctx.now);
                }
                if ftl.counters().lost_sectors > losses {
                    losses = ftl.counters().lost_sectors;
                    (0..sectors).for_each(|lpn| lost[lpn as usize] |= ftl.is_lost(Lpn(lpn)));
                }
                for (tag, ok) in std::mem::take(&mut drive.ended) {
                    if tag & LOOK_UP > 0 {
                        found.push(looking.remove(&(tag & !LOOK_UP)).expect("it is looked up"));
                        continue;
                    }
                    let Promise { submitted, places, durable } = open.remove(&tag).expect("open");
                    assert!(ok, "{what}: {:?}", ftl.counters());
                    if submitted < u32::MAX {
                        ctx.stamps.acknowledge(submitted, ok);
                    }
                    for (lpn, place) in places.into_iter().filter(|_| durable) {
                        promised[lpn as usize] = promised[lpn as usize].max(place);
                    }
                }
            }
            cuts += 1;
            open_cuts += u32::from(!drive.is_idle());
            let mut media = drive.cut(&mut ftl, &mut rng);
            kept += media.kept.buffer.len();
            let (op, g) = (kind.over_provisioning, &kind.g);
            ctx = common::ctx(sectors.into());
            let all = u64::from(sectors);
            let recover = |capacity, ctx: &mut Ctx| {
                Firmware::recover(g, op, &kind.config, capacity, &media, &mut ctx.stamps)
            };
            let again = recover(Capacity::Kept(all), &mut ctx);
            // Blocks that failed may have left too little to go on with.
            let failed = drive.bad.iter().filter(|bad| **bad).count()
                > kind.bad.iter().filter(|bad| **bad).count();
            let of_spare = ["gc_start", "slc_static", "over_provisioning"];
            let few = |e: &BadValue| of_spare.iter().any(|key| e.key.ends_with(key));
            let is_worn = failed && again.as_ref().is_err_and(few);
            let again = match is_worn {
                true => recover(Capacity::Worn(all), &mut ctx),
                false => again,
            };
            ftl = again.unwrap_or_else(|e| panic!("{what}: {e}"));
            ftl.check_invariants().unwrap_or_else(|e| panic!("{what}: {e}"));
            pages += drive.check_map(&ftl, true, &what);
            // Worn out it holds the same, and takes nothing.
            media.wear_out();
            let mut aside = common::ctx(sectors.into());
            let (capacity, stamps) = (Capacity::Worn(sectors.into()), &mut aside.stamps);
            let worn = Firmware::recover(g, op, &kind.config, capacity, &media, stamps);
            let mut worn = worn.unwrap_or_else(|e| panic!("{what}: {e}"));
            worn.check_invariants().unwrap_or_else(|e| panic!("{what}: {e}"));
            let version = |ftl: &Firmware, lpn| ftl.version(Lpn(lpn));
            assert!((0..sectors).all(|lpn| version(&worn, lpn) == version(&ftl, lpn)), "{what}");
            worn.write(&mut aside, 1, Lpn(0), 1, true, Source::Host);
            let mut actions = std::iter::from_fn(|| worn.poll());
            let refused = Action::Complete { tag: 1, ok: false };
            assert!(actions.any(|action| action == refused), "{what}: a write is taken");
            open.clear();
            looking.clear();
            found.clear();
            for lpn in 0..sectors {
                let (h, from) = (&mut history[lpn as usize], promised[lpn as usize]);
                let found = ftl.version(Lpn(lpn)).unwrap_or(0);
                let lost = std::mem::take(&mut lost[lpn as usize]);
                let older = !told && (lost || h[1..].contains(&0));
                let allowed = if older { &h[..] } else { &h[from..] };
                assert!(
                    allowed.contains(&found) || lost && found == 0,
                    "{what}: sector {lpn} has {found} of {h:?} from {from}"
                );
                // What came back once may do so again.
                match told {
                    true => *h = vec![found],
                    false => h.push(found),
                }
                promised[lpn as usize] = h.len() - 1;
                ctx.stamps.set_newest(Lpn(lpn), found);
            }
            if is_worn {
                worn_out += 1;
                break;
            }
            ctx.stamps.begin_above(tag);
            ftl.start(&mut ctx);
            drive.drain(&mut ftl, ctx.now);
        }
    }
    println!(
        "{cuts} cuts, {open_cuts} with operations under way, {kept} sectors kept, {trims} trims, {pages} pages \
         of maps, {worn_out} worn out"
    );
    assert!(worn_out < 5, "{worn_out} drives are worn out");
    assert!(pages > 1000 && open_cuts > 100 && kept > 100 && trims > 100);
}

/// What a command promises when it ends: versions by sector.
struct Promise {
    submitted: u32,
    places: Vec<(u32, usize)>,
    durable: bool,
}

/// How far the history of each sector is complete: before the first command that is open.
fn complete(history: &[Vec<u32>], open: &BTreeMap<u32, Promise>) -> Vec<(u32, usize)> {
    let mut all: Vec<(u32, usize)> = (0..).zip(history.iter().map(|h| h.len() - 1)).collect();
    for promise in open.values().filter(|p| p.submitted < u32::MAX) {
        for &(lpn, place) in &promise.places {
            let complete = &mut all[lpn as usize].1;
            *complete = (*complete).min(place - 1);
        }
    }
    all
}
