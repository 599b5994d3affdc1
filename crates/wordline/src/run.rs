//! A machine under way, and what comes of it.

use crate::Error;
use crate::plan::{Plan, Workload};
use wordline_base::{Span, Time};
use wordline_host::ThreadSpec;
use wordline_profile::Inside;
use wordline_sim::{
    Drive, DriveResult, Ended, InUse, JobDisks, Provenance, RunResult, ThreadSetup, World, notes,
    unused,
};
use wordline_trace::{Align, Rounded};
use wordline_translation::Translation;

/// How long a run is, where its words say so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Expected {
    /// Simulated time.
    pub end: Option<Span>,
    /// I/Os; 0 is not known.
    pub ios: u64,
}

/// Host and drive, under way.
pub struct Run {
    plan: Plan,
    world: World,
    expected: Expected,
    disks: JobDisks,
    by_user: bool,
    /// Why the run is stopped, if it is not for a reason that the user knows.
    why: Option<String>,
    /// What is to be known of how the drive was aged.
    ageing: Vec<String>,
    over: bool,
    loaded: bool,
    /// Jobs that ask to poll for their completions and have them by interrupt.
    not_polled: Vec<String>,
    /// Settings that the run has no use for.
    unused: Vec<String>,
}

impl Run {
    pub(crate) fn new(
        plan: Plan,
        drives: Vec<Drive>,
        disks: JobDisks,
        (threads, ageing): (Vec<ThreadSetup>, Vec<String>),
        expected: Expected,
        loaded: bool,
    ) -> Result<Run, Error> {
        let mut not_polled = Vec::new();
        for (thread, why) in threads.iter().filter_map(|t| Some((t, t.by_interrupt?))) {
            let text = format!(
                "job '{}' asks for polled completions and has them by interrupt: {why}",
                thread.plan.name
            );
            if !not_polled.contains(&text) {
                not_polled.push(text);
            }
        }
        let system = &plan.system;
        // Of several hosts one may have a use for what another has none for.
        let unused = match system.nodes.hosts.is_empty() {
            true => {
                let specs: Vec<&ThreadSpec> = threads.iter().map(|t| &t.spec).collect();
                let config = &system.config;
                let one = system.nodes.drives.is_empty() && config.members.is_empty();
                let own = system.ftl.is_some();
                let levels: Vec<_> = system.nodes.arrays.iter().map(|a| a.level).collect();
                let in_use = InUse {
                    stack: &config.stack,
                    drive: (one && !own).then_some((&config.device, &config.ftl, &config.nand)),
                    levels: &levels,
                    threads: &specs,
                };
                unused(&system.overrides, &in_use)
            }
            false => Vec::new(),
        };
        let world = World::new(&system.machine(), drives, threads, &plan.options)
            .map_err(|e| system.misfit(e))?;
        let (by_user, why, over) = (false, None, false);
        Ok(Run {
            plan,
            world,
            expected,
            disks,
            by_user,
            why,
            ageing,
            over,
            loaded,
            not_polled,
            unused,
        })
    }

    /// Goes on by up to so many events. False once all is done.
    pub fn step(&mut self, events: u64) -> bool {
        self.over = !self.world.step(events);
        !self.over
    }
    /// The user stops the run: no new I/O, what is in flight drains. Step until the end. A run that is over
    /// stays as it is.
    pub fn stop(&mut self) {
        if !self.over {
            self.by_user = true;
            self.world.stop();
        }
    }
    /// The same for a reason, which stands above the numbers.
    pub fn stop_for(&mut self, why: String) {
        if !self.over {
            self.why.get_or_insert(why);
            self.stop();
        }
    }
    /// Simulated time so far.
    pub fn now(&self) -> Time {
        self.world.now()
    }
    /// I/Os that came back.
    pub fn served(&self) -> u64 {
        self.world.served()
    }
    /// Events delivered.
    pub fn events(&self) -> u64 {
        self.world.events()
    }
    /// A digest of every event delivered, if the plan's options ask for it.
    pub fn digest(&self) -> Option<u64> {
        self.world.digest()
    }
    /// The first drive's FTL, wherever it runs.
    pub fn ftl(&self) -> &dyn Translation {
        self.world.ftl()
    }
    /// How long the run is, where its words say so.
    pub fn expected(&self) -> Expected {
        self.expected
    }
    /// The first drive's capacity in bytes.
    pub fn bytes(&self) -> u64 {
        self.disks.first().bytes
    }
    /// What runs.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// How far the run is, in thousandths; none where nothing tells.
    pub fn thousandths(&self) -> Option<u64> {
        let Expected { end, ios } = self.expected;
        if let Some(end) = end {
            let part = u128::from(self.now().0) * 1000 / u128::from(end.0.max(1));
            return Some(part.min(1000) as u64);
        }
        (ios > 0).then(|| (self.served() * 1000 / ios).min(1000))
    }

    /// Steps to the end.
    pub fn to_end(mut self) -> RunResult {
        while self.step(1 << 20) {}
        self.finish()
    }

    /// What came of the run, as far as it went.
    pub fn finish(self) -> RunResult {
        let mut notes = self.ageing.clone();
        if let Workload::Jobs(jobs) = &self.plan.workload {
            let system = &self.plan.system;
            let hosts = system.machine().hosts;
            let stacks: Vec<_> = hosts.iter().map(|host| &host.stack).collect();
            notes.extend(notes::notes(jobs, &stacks, system.ftl_on_host(), &self.disks));
        }
        notes.extend(self.unused.iter().cloned());
        self.trace_notes(&mut notes);
        notes.extend(self.rounding_note());
        let mut result = self.world.finish(self.plan.provenance());
        if self.loaded {
            result.provenance.precondition = "loaded".into();
        }
        if let Workload::Jobs(jobs) = &self.plan.workload {
            result.global_options = jobs.globals.clone();
        }
        let system = &self.plan.system;
        let more = system.nodes.drives.iter().map(|node| &node.config);
        for (drive, config) in
            result.machine.drives.iter_mut().zip(std::iter::once(&system.config).chain(more))
        {
            drive.device.clone_from(&config.device_name);
            name_members(drive, &config.members);
        }
        for (of, node) in result.machine.switches.iter_mut().zip(&system.nodes.switches) {
            of.name.clone_from(&node.name);
        }
        let written = &result.machine.totals.write_amplification;
        let writes = written.host_bytes + written.user_sectors + written.gc_sectors > 0;
        let deviations = system.deviations(writes);
        result.warnings.splice(0..0, deviations.into_iter().chain(self.not_polled));
        notes.extend(self.why);
        if self.by_user {
            if result.ended == Ended::Failed
                && let Err(why) = result.verdict()
            {
                let told = format!("before the run was stopped a part of it had failed: {why}");
                result.warnings.insert(0, told);
            }
            result.ended = Ended::Interrupted;
        }
        if let Some(limit) = self.plan.options.limit
            && result.ended == Ended::Limit
        {
            let end = Span(result.machine.simulated_ns);
            notes.push(format!(
                "nothing was sent after {limit} of simulated time, by --limit; what was in flight then counts, and the \
                 last of it ended at {end}"
            ));
        }
        if let Some(tracks) = result.tracks.as_ref().filter(|t| t.dropped > 0) {
            notes.push(format!(
                "the timeline holds the first {} slices of the run, {} came after: see \
                 --timeline-limit",
                tracks.limit, tracks.dropped
            ));
        }
        result.notes.append(&mut notes);
        result
    }

    fn trace_notes(&self, notes: &mut Vec<String>) {
        for trace in self.world.traces() {
            notes.push(format!("format: {}", trace.reader().told()));
            for (volume, disk) in trace.volumes() {
                let name = self.disks.iter().find(|d| d.disk == disk).map_or("", |d| &d.name);
                notes.push(format!("volume {volume} was replayed on {name}"));
            }
            let (volumes, disks) = trace.spread();
            if volumes > 1 && disks == 1 {
                let remedy = match self.plan.workload {
                    Workload::Replay(_) => ". --volume replays one of them",
                    Workload::Jobs(_) => "",
                };
                notes.push(format!(
                    "the trace has {volumes} volumes: all were replayed on one drive, each at its own addresses, on top \
                     of each other{remedy}"
                ));
            }
            let summary = trace.reader().summary().to_string();
            notes.extend(summary.lines().map(str::to_owned));
            let wrapped = trace.wrapped();
            // Of more there is a warning.
            if wrapped > 0 && !trace.is_much_wrapped() {
                notes.push(format!("{wrapped} requests lay beyond the drive: wrapped"));
            }
        }
    }

    fn rounding_note(&self) -> Option<String> {
        let Rounded { requests, bytes, trims } = self.world.rounded();
        if requests == 0 {
            return None;
        }
        let lba = self.plan.system.config.device.lba;
        let mut note = format!(
            "{requests} requests were rounded to whole blocks of {lba} bytes, by --align: {bytes} bytes \
             more are read and written"
        );
        if trims > 0 {
            note += &format!(", and {trims} trims without a whole block were left out");
        }
        Some(note)
    }
}

impl Plan {
    fn provenance(&self) -> Provenance {
        let scale = &self.system.scale;
        let mut workload = self.label.clone();
        if let Some(limit) = self.options.limit {
            workload += &format!(" --limit={limit}");
        }
        if self.align == Align::Round {
            workload += " --align=round";
        }
        if let Some(seed) = self.options.shuffle_ties {
            workload += &format!(" --shuffle-ties={seed}");
        }
        Provenance {
            version: env!("CARGO_PKG_VERSION").into(),
            device: self.system.names(|c| &c.device_name),
            ftl: self.system.names(|c| &c.ftl_name),
            stack: self.system.stacks(),
            testbed: self.system.testbeds(),
            workload,
            precondition: self.state.name().into(),
            seed: self.seed,
            scale: scale.as_ref().map_or(String::new(), |scaled| scaled.scale.to_string()),
            topology: self.system.nodes.entries.file.clone(),
            overrides: self.system.said(),
        }
    }
}

/// The names of the profiles of drives behind a bridge.
fn name_members(drive: &mut DriveResult, members: &[Inside]) {
    for (drive, inside) in drive.members.iter_mut().zip(members) {
        drive.device.clone_from(&inside.name);
        name_members(drive, &inside.members);
    }
}
