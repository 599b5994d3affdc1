//! What a run has come to.

use super::{AnySource, HostSeat, NetworkSeat, ThreadId, World};
use crate::caution::{Faults, Seen};
use crate::collect::{LatencySeries, Slowest};
use crate::pace::{self, Rated};
use crate::result::*;
use crate::seat::DriveSeat;
use crate::shares::write_rate;
use crate::steady::Steady;
use crate::thread::ThreadStats;
use crate::{caution, classes, drive, host};
use std::collections::BTreeMap;
use wordline_app::Turnaround;
use wordline_base::track::Track;
use wordline_base::{Ddir, IdVec, IoId, Life, SECTOR, Span, Time, Tracks, Workload};
use wordline_device::config::Arbitration;
use wordline_fio::job::{self, SyncMode};
use wordline_fs::{Fs, FsStats};
use wordline_ftl::Translation;
use wordline_host::config::{IdleConfig, PowerConfig};
use wordline_host::{ArrayStats, HostStats};
use wordline_nand::Class;

impl World {
    /// Some job may write, or a program or a trace, of which that is not known.
    fn jobs_write(&self) -> bool {
        self.sources().any(|source| match source {
            AnySource::Job(job) => job.job().sends_writes(),
            AnySource::Cpu(_) => false,
            AnySource::Trace(_) | AnySource::App(_) => true,
        })
    }

    /// What a reader of the result should know of the drives.
    pub(super) fn warnings(&self, machine: &Machine) -> Vec<String> {
        let mut repeats: Vec<(String, u64)> = Vec::new();
        let (mut scattered, mut replay, mut rated) = (false, None, None);
        for source in self.sources() {
            if let AnySource::Job(job) = source
                && job.job().sends_writes()
            {
                rated = Some(rated.unwrap_or(true) && write_rate(job.job()).is_some());
            }
            scattered |= match source {
                AnySource::Job(job) => job.writes_scattered(),
                AnySource::Trace(_) | AnySource::App(_) => true,
                AnySource::Cpu(_) => false,
            };
            if let AnySource::Trace(trace) = source {
                replay = replay.or(trace.replay());
            }
            let repeated = match source {
                AnySource::Job(job) => job.repeats(),
                _ => None,
            };
            if let Some((name, times)) = repeated
                && !repeats.iter().any(|(n, _)| n == name)
            {
                repeats.push((name.into(), times));
            }
        }
        // Each text with the drives that it is of.
        let mut all: Vec<(String, Vec<&str>)> = Vec::new();
        let leaves: Vec<&DriveResult> =
            machine.drives.iter().flat_map(DriveResult::leaves).collect();
        for (d, drive) in self.drives.iter().enumerate() {
            let wa = match leaves.get(d) {
                Some(own) => &own.totals.write_amplification,
                None => &machine.totals.write_amplification,
            };
            let (c, b) = (self.ftl_of(d).counters(), &drive.before);
            let unmapped = c.read_unmapped - b.read_unmapped;
            let of_drive = caution::warnings(&Seen {
                prepared: drive.prepared,
                ageing: &drive.ageing,
                unsteady: drive.unsteady,
                unmet: &drive.unmet,
                rested: drive.rested,
                uniform: drive.uniform,
                bytes: {
                    let sector = drive.controller.nand().geometry.sector;
                    sector.bytes_of(self.ftl_of(d).sectors())
                },
                written: wa.host_bytes,
                by_users: self.jobs_write(),
                // A cache asks the FTL once for what it then refuses many commands for.
                refused: match c.writes_refused - b.writes_refused {
                    0 => 0,
                    refused => refused.max(drive.controller.stats(self.ctx.now).failed_writes),
                },
                refused_memory: c.writes_refused_memory - b.writes_refused_memory,
                to_flash: drive.controller.nand().geometry.sector.bytes_of(wa.user_sectors),
                gc: wa.gc_sectors,
                sector: drive.controller.nand().geometry.sector.bytes_of(1u32),
                faults: Faults {
                    programs: c.program_errors - b.program_errors,
                    erasures: c.erase_errors - b.erase_errors,
                    reads: c.gc_read_errors - b.gc_read_errors,
                    blocks: c.blocks_retired - b.blocks_retired,
                    lost: c.lost_sectors - b.lost_sectors,
                },
                lines_freed: c.lines_freed - b.lines_freed,
                refreshed: c.lines_refreshed - b.lines_refreshed,
                read: unmapped + c.read_flash + c.read_buffer - b.read_flash - b.read_buffer,
                unmapped,
                ahead: drive.controller.stats(self.ctx.now).cache.map_or(0, |cache| cache.ahead),
                scattered,
                in_place: drive.controller.nand().geometry.in_place,
                by_third: wa.by_third.or_else(|| drive.by_third()),
                causes: {
                    let c = c.since(b);
                    let user = Cause::User.counted(&c).max(1) as f64;
                    let others = Cause::ALL
                        .into_iter()
                        .filter(|cause| !matches!(cause, Cause::User | Cause::Parity));
                    others.map(|cause| (cause, cause.counted(&c) as f64 / user)).collect()
                },
                spells: match wa.by_third.is_some() && !wa.over_time.is_empty() {
                    true => WriteAmplification::spells(&wa.over_time),
                    false => WriteAmplification::spells(&drive.rows()),
                },
                collected: {
                    let c = c.since(b);
                    let user = c.user_sectors as f64;
                    (user > 0.0).then(|| (user + c.moved() as f64) / user)
                },
                replay,
                rated,
                repeats: if d == 0 { std::mem::take(&mut repeats) } else { Vec::new() },
            });
            let limits = &drive.controller.config().limits;
            let (ops, ns) = (&drive.controller.nand().counters().ops, self.ctx.now.0);
            // With the FTL in the drive no such read crosses the link.
            let crosses = drive.controller.ftl().is_none() && !limits.count_rebuild_reads;
            let (users, rebuilding) = (ops[Class::UserRead], ops[Class::RebuildRead]);
            let beyond = crosses
                .then(|| caution::beyond_limit(users, rebuilding, ns, limits.read_iops))
                .flatten();
            let sent = c.flushes > b.flushes || drive.controller.was_forced();
            let half = drive.keeps_buffer_alone && sent;
            let half = half.then(caution::half_protected);
            let in_slc = self.ftl_of(d).slc_use().and_then(|slc| {
                let folded = c.lines_folded - b.lines_folded + c.folded_sectors - b.folded_sectors;
                let sector = drive.controller.nand().geometry.sector.bytes_of(1u32);
                caution::in_slc(wa.user_sectors, folded, slc, sector)
            });
            let throttled = self.throttled(drive);
            let of_drive = of_drive.into_iter().chain(beyond).chain(half).chain(in_slc);
            for text in throttled.into_iter().chain(of_drive) {
                match all.iter_mut().find(|(same, _)| *same == text) {
                    Some((_, drives)) => drives.push(&drive.name),
                    None => all.push((text, vec![&drive.name])),
                }
            }
        }
        let named = |(text, drives): (String, Vec<&str>)| match machine.drives.is_empty() {
            true => text,
            false => format!("{}: {text}", drives.join(", ")),
        };
        all.into_iter().map(named).collect()
    }

    /// What limits of power and heat did.
    fn throttled(&self, drive: &DriveSeat) -> Vec<String> {
        let now = self.ctx.now;
        let Some(power) = drive.controller.stats(now).power else { return Vec::new() };
        let limited = drive.controller.config().power.flash_limit_mw > 0;
        caution::throttled(power, limited, now.0)
    }

    /// What jobs wrote into files and their hosts did not write to the drive. A ramp's writes are in the second
    /// number alone, so that it is never told too late.
    fn in_page_cache(&self) -> Option<String> {
        let of_drive = |fs: &FsStats| fs.data_blocks + fs.journal_blocks;
        let (written, to_drive) = self.through_files(Ddir::Write, true, of_drive);
        let journal = |seat: &HostSeat| seat.host.fs().is_some_and(Fs::journals_data);
        caution::in_page_cache(written, to_drive, self.hosts.iter().any(journal))
    }

    /// Reads of jobs that the hosts' memory answers. What a program has in the page cache is a part of how it works;
    /// what it reads from the drive is in the second number.
    fn out_of_page_cache(&self) -> Option<String> {
        let (read, from_drive) = self.through_files(Ddir::Read, false, |fs| fs.data_read);
        caution::out_of_page_cache(read, from_drive)
    }

    /// What clients wrote or read, and a server with pages in front of its drive did not ask the drive for.
    fn in_servers_pages(&self) -> Vec<String> {
        let mut all = Vec::new();
        for seat in self.hosts.iter().filter(|seat| seat.host.serves_pages()) {
            let Some(fs) = seat.host.fs() else { continue };
            let [read, written] = seat.host.served_from_pages();
            let told = [
                caution::in_servers_pages(written, fs.stats().data_blocks * SECTOR),
                caution::out_of_servers_pages(read, fs.stats().data_read * SECTOR),
            ];
            all.extend(told.into_iter().flatten().map(|text| self.of_host(seat) + &text));
        }
        all
    }

    /// Bytes that jobs, and programs where they are wanted, read from files or wrote into them; and those of the blocks
    /// that their hosts' file systems read or wrote.
    fn through_files(&self, ddir: Ddir, apps: bool, blocks: fn(&FsStats) -> u64) -> (u64, u64) {
        let (mut of_files, mut of_drive) = (0, 0);
        for (h, seat) in self.hosts.iter().enumerate().filter(|(_, seat)| !seat.host.serves_pages())
        {
            let Some(fs) = seat.host.fs() else { continue };
            let counts = |t: u32| match seat.host.source(t) {
                // The engines that make, look up and delete files count bytes and move none, and so does null.
                Some(AnySource::Job(job)) => {
                    let engine = job.job().ioengine;
                    !engine.is_by_name() && engine != job::Engine::Null
                }
                _ => apps,
            };
            let own = self.threads.iter().zip(self.places.iter());
            let own = own.filter(|(_, at)| at.0 == h && counts(at.1));
            of_files += own.map(|(t, _)| t.result.dirs[ddir as usize].io_bytes).sum::<u64>();
            of_drive += blocks(fs.stats()) * SECTOR;
        }
        (of_files, of_drive)
    }

    /// Which host something is said of, if there are several.
    fn of_host(&self, seat: &HostSeat) -> String {
        if self.hosts.len() > 1 { format!("host {}: ", seat.name) } else { String::new() }
    }

    /// Jobs that end before they are measured.
    fn in_ramp(&self) -> Option<String> {
        let mut jobs: Vec<&str> = Vec::new();
        let mut ios = 0;
        for thread in self.threads.iter().filter(|thread| thread.all_in_ramp()) {
            let name = thread.result.name.as_str();
            // Another thread of the job may have numbers.
            if self.threads.iter().any(|t| t.result.name == name && t.is_measured()) {
                continue;
            }
            ios += thread.result.served;
            if !jobs.contains(&name) {
                jobs.push(name);
            }
        }
        caution::in_ramp(&jobs, ios)
    }

    /// Syncs that come to nothing.
    fn unflushed(&mut self) -> Option<String> {
        let mut unflushed = 0;
        for t in 0..self.places.count() {
            let (h, number) = self.places[t];
            let result = &self.threads[t].result;
            let wrote = result.dirs[Ddir::Write as usize].total_ios > 0;
            let mut syncs = result.sync.len();
            let off = |n: &NetworkSeat| n.client.0 == h && !n.network.takes_flushes();
            let far = result.over_network && self.networks.iter().any(off);
            if let Some(AnySource::Job(source)) = self.hosts[h].host.source_mut(number) {
                // Those of the end are in no statistics.
                let job = source.job();
                if (job.end_fsync || job.fsync_on_close) && wrote && self.ended[t] {
                    syncs += u64::from(job.file_count());
                }
                if job.sync != SyncMode::None {
                    // O_SYNC: each write ends with one.
                    syncs += result.dirs[Ddir::Write as usize].total_ios;
                }
            }
            unflushed += if far { syncs } else { 0 };
        }
        caution::unflushed(unflushed)
    }

    pub(super) fn reads_in_order(&self, machine: &Machine) -> Option<String> {
        let units = self.drives.iter().map(|d| d.controller.nand().geometry);
        let largest = units.max_by_key(|g| g.unit_bytes())?;
        let (unit, bytes) = (largest.sectors_per_unit, largest.unit_bytes());
        let in_order =
            |source: &AnySource| matches!(source, AnySource::Job(job) if job.reads_within(bytes));
        if !self.sources().any(in_order) {
            return None;
        }
        let user_read = machine.totals.reads_blocked.iter().find(|(why, _)| why == "user_read");
        let waited = user_read.map_or(0, |(_, n)| *n);
        caution::reads_in_order(waited, machine.totals.user_flash_reads, unit)
    }

    /// Drives to which nothing came, beside others. Those of arrays may have nothing to do (a spare).
    fn left_alone(&self, machine: &Machine) -> Option<String> {
        // A command comes over the link.
        let came =
            |drive: &DriveResult| drive.totals.link.to_device + drive.totals.link.to_host > 0.0;
        let (busy, idle): (Vec<_>, Vec<_>) = machine.drives.iter().partition(|d| came(d));
        if busy.is_empty() || !self.arrays.is_empty() {
            return None;
        }
        let names: Vec<&str> = idle.iter().map(|d| d.name.as_str()).collect();
        let (first, were) = (names.first()?, if names.len() == 1 { "was" } else { "were" });
        let remedy = match self.traces().next() {
            Some(_) => "a trace's volumes go to the drives in turn, and it has fewer".to_string(),
            None => format!("filename=/dev/{first} puts a job there"),
        };
        Some(format!("nothing came to {}, which {were} idle: {remedy}", names.join(", ")))
    }

    /// What was drawn. A host knows its own number of a thread; here it is the run's.
    fn tracks(&mut self) -> Option<Box<Tracks>> {
        let mut tracks = self.ctx.tracks.take()?;
        for slice in tracks.slices.iter_mut().filter(|slice| slice.track.is_of_host()) {
            let threads = &self.hosts[usize::from(slice.node)].threads;
            let of_run = |t: u32| threads.as_slice().get(t as usize).copied();
            match slice.track {
                Track::Job(t) => slice.track = Track::Job(of_run(t).unwrap_or(t)),
                // The kernel's own threads are no jobs.
                _ if slice.io != IoId::NONE.0 => {
                    slice.io = of_run(slice.io).unwrap_or(IoId::NONE.0);
                }
                _ => {}
            }
        }
        Some(tracks)
    }

    /// Queues of different classes came to a drive that goes by them, and nothing ever waited in one.
    fn never_queued(&self, machine: &Machine) -> Option<String> {
        let weighted = self
            .drives
            .iter()
            .any(|seat| seat.controller.config().queues.arbitration == Arbitration::WeightedUrgent);
        let mut queues = machine.drive_classes.iter().map(|of| of.class.queue());
        let first = queues.next();
        let differ = queues.any(|queue| Some(queue) != first);
        let counted = &machine.totals.counters;
        let waited = counted.iter().any(|(name, ns)| name.ends_with(".wait_queue_ns") && *ns > 0);
        (weighted && differ && !waited).then(|| {
            "no command waited in a queue of the drive, so that no class came before another: nobody had more in flight \
             than queues.in_flight"
                .to_string()
        })
    }

    /// Queues that urgent ones kept from their turns.
    fn starved(&self) -> Vec<String> {
        let several = self.drives.len() > 1;
        let told = |drive: &DriveSeat| {
            let told = caution::starved(drive.controller.starved(self.ctx.now)?)?;
            Some(if several { format!("{}: {told}", drive.name) } else { told })
        };
        self.drives.iter().filter_map(told).collect()
    }

    /// The logs of `write_iolog`: threads that name one file share it, in order of time.
    pub(super) fn iologs(&self) -> Vec<Iolog> {
        let mut logs: Vec<Iolog> = Vec::new();
        for source in self.sources() {
            let AnySource::Job(job) = source else { continue };
            let Some(own) = job.iolog() else { continue };
            match logs.iter_mut().find(|log| log.path == own.path) {
                Some(log) => log.add(own),
                None => logs.push(own),
            }
        }
        for log in &mut logs {
            log.requests.sort_by_key(|r| r.at);
        }
        logs
    }

    /// The result so far. A run is complete when [`World::step`] has returned false.
    pub fn finish(mut self, provenance: Provenance) -> RunResult {
        let now = self.ctx.now;
        let host = self.host_stats(now);
        let mut generated = 0;
        let issued: IdVec<ThreadId, u64> =
            (0..self.places.count()).map(|t| self.source(t).map_or(0, AnySource::issued)).collect();
        let used: IdVec<ThreadId, _> = self
            .places
            .iter()
            .map(|&(h, t)| {
                let first: usize =
                    self.hosts[..h].iter().map(|seat| seat.host.thread_count() as usize).sum();
                first + t as usize
            })
            .collect();
        for t in 0..self.places.count() {
            if !self.ended[t] || matches!(self.source(t), Some(AnySource::App(_))) {
                self.over(t, now);
            }
        }
        let mut rated: Vec<Rated> = Vec::new();
        // Of the threads of a job the first.
        let (mut failures, mut unjudged) = (BTreeMap::new(), BTreeMap::new());
        for (i, stats) in (0..).zip(&mut self.threads) {
            let t = &host.threads[used[i]];
            stats.set_counts(t);
            let (host, number) = self.places[i];
            match self.hosts[host].host.source(number) {
                Some(AnySource::Job(job)) => {
                    stats.result.depth_search = job.depth_found().map(|depth| DepthSearch {
                        target: job.job().latency_target,
                        window: job.job().latency_window,
                        percentile: job.job().latency_percentile,
                        depth,
                    });
                    let name = &job.job().name;
                    let failed = job.failure();
                    stats.result.failure = failed.map(String::from);
                    if let Some(why) = failed {
                        let told = || pace::ended_early(name, why);
                        failures.entry(name.clone()).or_insert_with(told);
                    }
                    if let Some(first) = job.never_judged() {
                        let told = || pace::never_judged(name, first);
                        unjudged.entry(name.clone()).or_insert_with(told);
                    }
                    let (held_up, paused) = (job.held_up(), job.paused());
                    let rated_one =
                        Rated::new(job.job(), &stats.result, stats.times(), held_up, paused);
                    if let Some(one) = rated_one {
                        match rated.iter_mut().find(|same| same.name == one.name) {
                            Some(same) => same.add(&one),
                            None => rated.push(one),
                        }
                    }
                }
                Some(AnySource::Trace(trace)) => {
                    stats.result.lateness = trace.lateness();
                    if let Some(why) = trace.failure() {
                        stats.result.failure = Some(why.into());
                        let name = &stats.result.name;
                        let told = || pace::ended_early(name, why);
                        failures.entry(name.clone()).or_insert_with(told);
                    }
                }
                Some(AnySource::Cpu(cpu)) if !self.ended[i] => stats.computed(cpu.chunks(), now),
                _ => {}
            }
            let r = &mut stats.result;
            r.generated = issued[i];
            generated += r.generated;
            r.steady = self.steady[i].as_ref().map(Steady::result);
        }
        if now > Time::ZERO && self.series_last != self.series_now(now) {
            self.add_row(now);
        }
        if self.host_series.last().is_none_or(|row| row.end_ns < now.0) {
            self.sample_host();
        }
        if now > Time::ZERO && self.intervals.ends_at().is_none_or(|end| end < now.0) {
            self.sample_interval();
        }
        let trace_error = self.trace_error().cloned();
        let reports = |beside: bool| {
            let seats = self.apps.iter().filter(move |seat| seat.beside == beside);
            seats.map(|seat| seat.app.borrow().report())
        };
        let app = reports(false).next();
        let with: Vec<_> = reports(true).collect();
        let turnarounds: Vec<Turnaround> =
            self.apps.iter().flat_map(|seat| seat.app.borrow().turnarounds()).collect();
        let iologs = self.iologs();
        let machine = self.machine(now, &host, generated);
        let mut warnings: Vec<String> = self.traces().flat_map(caution::trace_ended).collect();
        warnings.extend(self.traces().flat_map(caution::left_out));
        warnings.extend(self.traces().filter_map(caution::wrapped));
        warnings.extend(self.traces().filter_map(pace::out_of_order));
        warnings.extend(self.threads.iter().flat_map(|t| pace::replayed(&t.result)));
        warnings.extend(failures.into_values().chain(unjudged.into_values()));
        warnings.extend(rated.iter().filter_map(Rated::warning));
        warnings.extend(rated.iter().filter_map(Rated::not_open));
        warnings.extend(self.apps.iter().filter_map(|seat| {
            let app = seat.app.borrow();
            pace::overloaded(app.name(), seat.beside, &app.arrivals()?)
        }));
        let mut failed: BTreeMap<String, u64> = BTreeMap::new();
        for (t, source) in (0..).zip(self.sources()) {
            if let AnySource::App(app) = source {
                let app = app.app().borrow();
                *failed.entry(app.name().into()).or_default() +=
                    self.threads[t].result.total_errors;
            }
        }
        let failed = failed.into_iter().filter(|(_, errors)| *errors > 0);
        warnings.extend(failed.map(|(app, errors)| caution::failed_unseen(&app, errors)));
        // Of one kind of operation all are that kind.
        warnings
            .extend(turnarounds.iter().filter(|t| t.operation == "all").filter_map(pace::drifted));
        warnings.extend(self.hosts.iter().filter_map(|seat| {
            let in_turns = seat.host.looks_in_turns(now).map(|told| self.of_host(seat) + &told);
            in_turns.or_else(|| seat.host.crowded(now))
        }));
        warnings.extend(self.in_ramp());
        warnings.extend(self.hosts.iter().filter_map(|seat| {
            let percent = seat.host.found_by_handlers()?;
            Some(self.of_host(seat) + &caution::found_by_handlers(percent))
        }));
        warnings.extend(self.unflushed());
        warnings.extend(self.in_page_cache());
        warnings.extend(self.out_of_page_cache());
        warnings.extend(self.in_servers_pages());
        warnings.extend(self.warnings(&machine));
        for array in &machine.arrays {
            let node =
                self.arrays.iter().map(|(_, node)| node).find(|node| node.name == array.name);
            let told = node.and_then(|node| caution::no_turns(array, node.config.gc));
            warnings.extend(told);
            let row = node.map(|node| node.config.chunk * (array.members - 1));
            warnings.extend(row.and_then(|row| caution::short_trims(array, row)));
        }
        // Who only reads opens no hole.
        let wrote = self.jobs_write() && machine.totals.write_amplification.host_bytes > 0;
        for array in machine.arrays.iter().filter(|array| array.write_hole && wrote) {
            let rows = match array.bitmap_bytes {
                0 => "all rows",
                _ => "the rows that its bitmap names",
            };
            warnings.push(format!(
                "{}: the write hole is open, as md leaves it: after a power cut parity may be wrong until {rows} have \
                 been looked at, and a drive lost before that takes more with it than its own writes; a journal closes it",
                array.name
            ));
        }
        warnings.extend(self.arrays.iter().filter_map(|(_, node)| {
            let lost = node.fail.filter(|(_, at)| *at > Span::ZERO && Time::ZERO + *at <= now)?;
            let array = machine.arrays.iter().find(|array| array.name == node.name)?;
            let drive = self.drives.get(lost.0).map_or("a drive", |seat| seat.name.as_str());
            Some(caution::lost_in_run(array, drive, lost.1))
        }));
        for (job, why) in self.hosts.iter().flat_map(|seat| seat.host.not_selected()) {
            let text =
                format!("job '{job}' has its completions by interrupt, not by Select-ISR: {why}");
            if !warnings.contains(&text) {
                warnings.push(text);
            }
        }
        for (asked, has, why) in self.hosts.iter().flat_map(|seat| seat.host.fewer_queues()) {
            let text = format!("stack.queues={asked}: {has} were made, as {why}");
            if !warnings.contains(&text) {
                warnings.push(text);
            }
        }
        let marked = |t: &ThreadStats| {
            let others = t.result.dirs.iter().flat_map(|d| &d.classes).map(|c| c.class);
            let all = others.chain([t.result.class]);
            t.result.over_network && { all }.any(|class| class.workload() != Workload::None)
        };
        if self.threads.iter().any(marked) {
            warnings.push(
                "workload attributes end at the network, whose protocol has no field for them: the server and the \
                 drive take all I/O for one without, and the rows by class tell jobs apart and nothing else"
                    .into(),
            );
        }
        let prepared = match &*self.drives {
            [one] => one.described(),
            many => {
                let each = many.iter().map(|d| format!("{}: {}", d.name, d.described()));
                each.collect::<Vec<_>>().join("; ")
            }
        };
        let mut notes: Vec<String> = self.reads_in_order(&machine).into_iter().collect();
        notes.extend(self.apps.iter().filter_map(|seat| seat.app.borrow().note()));
        notes.extend(self.left_alone(&machine));
        notes.extend(self.never_queued(&machine));
        notes.extend(self.starved());
        notes.extend(self.arrays.iter().filter_map(|(_, array)| {
            let (drive, at) = array.fail.filter(|(_, at)| Time::ZERO + *at > now)?;
            Some(format!(
                "array {}: {} was to be lost after {at}, and the run was over before: fail did nothing",
                array.name, self.drives.get(drive).map_or("a drive", |seat| seat.name.as_str())
            ))
        }));
        notes.extend(self.hosts.iter().filter_map(|seat| {
            let window = seat.host.never_slept()?;
            let of = self.of_host(seat);
            Some(format!(
                "{of}hybrid polling did not sleep in this run, and is classic polling so far: it sleeps for half the \
                 mean of a window of {window} that is over (blk_mq_poll_stats)"
            ))
        }));
        notes.extend(self.drives.iter().enumerate().filter_map(|(number, d)| {
            let floor = self.ftl_of(number).gc_floor();
            (floor.victims > 0 || floor.sectors > 0).then(|| {
                format!(
                    "{}: free segments ran out before the host's collector had given its orders: the drive began \
                     {} victims and moved {} sectors without one (ftl.fssd.report_units, gc_start)",
                    d.name, floor.victims, floor.sectors
                )
            })
        }));
        notes.extend(self.drives.iter().enumerate().filter_map(|(number, d)| {
            let ftl = self.ftl_of(number);
            let [start, least] = ftl.begins_late()?;
            let collected = ftl.counters().lines_freed > d.before.lines_freed;
            let (of, parts) = match ftl.gc_shape().is_some() {
                true => ("fssd", "segments"),
                false => ("firmware", "superblocks"),
            };
            collected.then(|| {
                format!(
                    "{}: with {start} {parts} that are free when it begins, the collector leaves so little room that writes \
                     may wait until a whole victim is empty, which beside reads may take seconds: from {least} on they do \
                     not (ftl.{of}.gc_start; what is spare bounds it, ftl.over_provisioning)",
                    d.name
                )
            })
        }));
        notes.extend(self.drives.iter().filter_map(|d| {
            let held = d.map_held?;
            Some(format!(
                "{}: the run found the drive as its last writes left it: {}. Each is written when it gives way to \
                 another (ftl.map_dirty_evictions), so that the first I/O elsewhere programs flash, reads among it. \
                 An idle drive writes none of them (ftl.firmware.map_bytes)",
                d.name,
                drive::in_memory_alone(held)
            ))
        }));
        notes.extend(self.drives.iter().filter_map(|d| {
            let r = d.controller.nand().reread().filter(|r| r.reads_done_again > 0)?;
            Some(format!(
                "{}: {} flash reads were not right at first and were done again, {} times in all; {} of them were lost \
                 (nand.errors)",
                d.name, r.reads_done_again, r.rereads, r.reads_lost
            ))
        }));
        let tracks = self.tracks();
        let mut slowest: Vec<Life> =
            self.kept.slowest.into_iter().flat_map(Slowest::take).collect();
        // As the result counts its drives.
        let number = |drive: u16| {
            let place = self.seen.iter().position(|&unit| unit + 1 == usize::from(drive));
            place.map_or(0, |place| place as u16 + 1)
        };
        for life in &mut slowest {
            let (host, _) = self.places[life.job];
            life.place_in_machine(self.hosts[host].host.first_core(), number);
        }
        let mut result = RunResult {
            provenance,
            ended: if self.stopped { Ended::Limit } else { Ended::Complete },
            trace_error,
            global_options: Vec::new(),
            threads: std::mem::take(&mut *self.threads)
                .into_iter()
                .map(ThreadStats::finish)
                .collect(),
            machine,
            app,
            with,
            turnarounds,
            slowest,
            latency_over_time: self.latencies.map(LatencySeries::take),
            iologs,
            tracks,
            prepared,
            warnings,
            notes,
        };
        if result.has_failed() {
            result.ended = Ended::Failed;
        }
        result
    }

    pub(super) fn machine(&mut self, now: Time, host: &HostStats, generated: u64) -> Machine {
        // Searches that ended with the run.
        for searched in std::mem::take(&mut self.searched).into_values() {
            self.kept.merge(searched);
        }
        let elapsed = now.0.max(1) as f64;
        let share = |ns: u64| ns as f64 / elapsed;
        let seen: Vec<usize> = self.seen.clone();
        let drives: Vec<DriveResult> =
            seen.into_iter().map(|unit| self.result_of(unit, now)).collect();
        let mut sum = DriveResult::sum(&drives);
        let over_time: Vec<_> =
            self.series.iter().map(|(at, r)| (*at, std::array::from_fn(|i| r[i]))).collect();
        let by_third = WriteAmplification::thirds(&over_time);
        let counters = self.counters(host, std::mem::take(&mut sum.totals.counters));
        let h = &host.counters;
        // Hosts of one kind together.
        let mut each: Vec<(HostStats, &(PowerConfig, IdleConfig))> = Vec::new();
        let mut of_cores: Vec<&str> = Vec::new();
        for seat in &self.hosts {
            let stats = seat.host.stats(now);
            let name = if self.hosts.len() > 1 { &*seat.name } else { "" };
            of_cores.extend(std::iter::repeat_n(name, stats.cores.len()));
            match each.iter_mut().find(|(_, power)| *power == &seat.power) {
                Some((sum, _)) => *sum = std::mem::take(sum).with(stats),
                None => each.push((stats, &seat.power)),
            }
        }
        Machine {
            simulated_ns: now.0,
            events: self.ctx.queue.popped(),
            generated,
            served: self.served,
            totals: DriveTotals {
                write_amplification: WriteAmplification {
                    by_third,
                    over_time,
                    ..sum.totals.write_amplification
                },
                counters,
                ..sum.totals
            },
            layers: Ddir::REPORTED
                .iter()
                .filter_map(|&d| self.kept.layers[d as usize].table(d))
                .collect(),
            classes: classes::rows(self.threads.iter().map(|t| &t.result)),
            drive_classes: sum.classes,
            cores: host
                .cores
                .iter()
                .zip(&of_cores)
                .map(|(c, of)| CoreUse {
                    host: of.to_string(),
                    user: share(c.user),
                    system: share(c.system),
                    interrupt: share(c.irq),
                    idle: share(c.idle),
                })
                .collect(),
            host: host::report(host, &each, self.served, now.0, &self.host_series),
            energy_over_time: self
                .series
                .iter()
                .map(|(at, row)| (*at, std::array::from_fn(|i| row[i + CAUSES] as f64 * 1e-9)))
                .collect(),
            interrupts: h.interrupts,
            merges: h.back_merges + h.front_merges + h.request_merges,
            drives: if self.drives.len() > 1 || !self.bridges.is_empty() {
                drives
            } else {
                Vec::new()
            },
            arrays: self.arrays(),
            switches: self
                .switches
                .iter()
                .map(|switch| {
                    let (to_device, to_host) = switch.busy(now);
                    let link = LinkUse {
                        to_device: share(to_device.0),
                        to_host: share(to_host.0),
                        either: None,
                    };
                    SwitchUse { name: String::new(), link }
                })
                .collect(),
            intervals: self.intervals.result(self.uncounted()),
            flash: (0..)
                .zip(&self.drives)
                .map(|(d, seat)| seat.flash(now, self.ftl_of(d)))
                .collect(),
        }
    }

    /// [`DirectionOverTime::uncounted_ns`](crate::DirectionOverTime::uncounted_ns), by direction.
    fn uncounted(&self) -> [Vec<[u64; 2]>; 4] {
        std::array::from_fn(|d| {
            let reported = self.threads.iter().filter(|stats| stats.result.reported);
            let counting = reported.filter(|stats| stats.has(d));
            let stretches = counting.map(ThreadStats::stretches);
            let (not_counted, counted): (Vec<_>, Vec<_>) =
                stretches.map(|[not, counted]| (not, counted)).unzip();
            crate::interval::outside(&not_counted, &counted)
        })
    }

    /// What each array did.
    pub(super) fn arrays(&self) -> Vec<ArrayResult> {
        let of_host = |(h, seat): (usize, &HostSeat)| {
            let arrays = seat.host.arrays();
            arrays.into_iter().map(move |stats| (h, stats)).collect::<Vec<_>>()
        };
        let all = self.hosts.iter().enumerate().flat_map(of_host);
        let result = |(h, stats): (usize, ArrayStats)| {
            let mut of_host = self.arrays.iter().filter(|(host, _)| *host == h);
            let (_, node) = of_host.nth(usize::from(stats.disk)).expect("an array of the list");
            ArrayResult::new(node, &stats)
        };
        all.map(result).collect()
    }

    /// What a drive did, or a bridge with the drives behind it.
    pub(super) fn result_of(&mut self, unit: usize, now: Time) -> DriveResult {
        if let Some(b) = unit.checked_sub(self.drives.len()) {
            let members = self.bridges[b].members.clone();
            let members = members.into_iter().map(|unit| self.result_of(unit, now)).collect();
            self.ctx.enter_drive(unit as u8);
            return self.bridges[b].result(now, members, &self.ctx.stamps);
        }
        self.ctx.enter_drive(unit as u8);
        let seat = &self.drives[unit];
        let (pblk, gc, luns) = match seat.bridge {
            None => {
                let (host, disk) = (&self.hosts[seat.host].host, seat.disk);
                (host.pblk_stats(disk), host.gc_stats(disk), host.lun_stats(disk))
            }
            Some(_) => (None, None, None),
        };
        seat.result(now, self.ftl_of(unit), (pblk.as_ref(), gc, luns), &self.ctx.stamps)
    }

    /// Every counter of the machine, those of its drives among them.
    pub(super) fn counters(
        &self,
        host: &HostStats,
        mut counters: Vec<(String, u64)>,
    ) -> Vec<(String, u64)> {
        let of_drives = counters.iter().position(|(name, _)| name.starts_with("device."));
        let of_device = counters.split_off(of_drives.unwrap_or(counters.len()));
        let mut of_files = Vec::new();
        for fs in
            self.hosts.iter().filter(|seat| !seat.host.serves_pages()).filter_map(|s| s.host.fs())
        {
            let own: Vec<_> =
                fs.stats().list().map(|(name, n)| (format!("fs.{name}"), n)).collect();
            add_named(&mut of_files, &own);
        }
        counters.extend(of_files);
        let pages = self.hosts.iter().filter(|seat| seat.host.serves_pages());
        for fs in pages.filter_map(|seat| seat.host.fs()) {
            let counted = fs.stats().list().filter(|(_, n)| *n > 0);
            let own: Vec<_> = counted.map(|(name, n)| (format!("server.{name}"), n)).collect();
            add_named(&mut counters, &own);
        }
        let h = &host.counters;
        counters.extend(h.list().map(|(name, n)| (format!("host.{name}"), n)));
        counters.extend(of_device);
        if let Some(b) = &host.bios {
            let of_bios = [
                ("host.bio_tokens", b.taken),
                ("host.bios_held", b.held),
                ("host.bio_windows", b.windows),
                ("host.bio_resizes", b.resizes),
            ];
            counters.extend(of_bios.map(|(name, n)| (name.to_string(), n)));
        }
        counters
    }
}
