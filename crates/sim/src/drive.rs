//! A drive before a run: flash, FTL and stamps, aged without simulating time.

use crate::ageing::WriteSampler;
use crate::error::{BuildError, LoadError};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::io::{self, Write};
use std::sync::Arc;
use wordline_app::Extent;
use wordline_base::rng::splitmix64;
use wordline_base::{Seed, Stamps, StateSource};
use wordline_device::DriveConfig;
use wordline_ftl::{
    AgeError, Chooses, FtlKind, MapHeld, Pace, SavedIn, SavedOut, Steady, Translation, Translator,
    Trim, Unmet, WindowLimits, overwrite_between, steady_by_overwriting,
};
use wordline_nand::Nand;

/// The state of a drive before a run; takes no simulated time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precondition {
    /// Fresh from the factory.
    #[default]
    None,
    /// Every sector written once, in order.
    Fill,
    /// Filled, then overwritten by the job's own distribution, or by the writes of a trace in its order, until write
    /// amplification is steady. Uniformly at random where nothing writes or it is not known where.
    Steady,
    /// Filled, then overwritten uniformly at random until steady, and left alone until the collector rests.
    Random,
    /// Filled and overwritten, then aged by the job's own writes at its own rate until the collector keeps
    /// pace.
    Paced,
}

impl Precondition {
    /// All, in the order of lists.
    pub const ALL: [Precondition; 5] = [
        Precondition::None,
        Precondition::Fill,
        Precondition::Steady,
        Precondition::Random,
        Precondition::Paced,
    ];
    /// As the command line names it.
    pub fn name(self) -> &'static str {
        match self {
            Precondition::None => "none",
            Precondition::Fill => "fill",
            Precondition::Steady => "steady",
            Precondition::Random => "random",
            Precondition::Paced => "paced",
        }
    }
    /// What it does, for a list of choices.
    pub fn help(self) -> &'static str {
        match self {
            Precondition::None => "A drive fresh from the factory",
            Precondition::Fill => "Every sector written once, in order",
            Precondition::Steady => {
                "Filled, then overwritten with the job's own distribution, or with a trace's writes in their \
                 order, until write amplification is steady"
            }
            Precondition::Random => {
                "Filled, overwritten uniformly at random until steady, then a tenth by the job's own \
                 writes, then left alone until the collector rests"
            }
            Precondition::Paced => {
                "Filled, overwritten uniformly at random until lines are collected, then by the job's own \
                 writes at the job's own rate (rate, rate_iops; full speed without), or with a trace's at \
                 their mean rate, until the collector keeps pace"
            }
        }
    }
}

/// Windows of ageing that a steady state is told by, as it is found by their mean.
pub(crate) const LAST_WINDOWS: usize = 6;

/// Those of a drive before it is aged at its pace.
pub(crate) const BEFORE_PACE_WINDOWS: usize = 3;

/// Write amplification over the last windows of ageing.
pub(crate) fn aged_at(ageing: &[f64], windows: usize) -> Option<f64> {
    let last = &ageing[ageing.len().saturating_sub(windows)..];
    (!last.is_empty()).then(|| last.iter().sum::<f64>() / last.len() as f64)
}

/// The state of a drive that a run finds, in words.
pub(crate) fn described(
    prepared: Option<Precondition>,
    ageing: &[f64],
    unsteady: bool,
    uniform: bool,
    rested: bool,
) -> String {
    let Some(state) = prepared else { return "as it was served".into() };
    let how = match state {
        Precondition::None => return "fresh from the factory".into(),
        Precondition::Fill => return "every sector was written once, in order".into(),
        Precondition::Steady if unsteady && uniform => {
            "filled, then overwritten uniformly at random to the limit of ageing, not to a steady state"
        }
        Precondition::Steady if uniform => {
            "filled, then overwritten uniformly at random until write amplification was steady"
        }
        Precondition::Steady if unsteady => {
            "filled, then overwritten to the limit of ageing, not to a steady state"
        }
        Precondition::Steady => "filled, then overwritten until write amplification was steady",
        Precondition::Random => {
            "filled, overwritten at random, then left alone until the collector rested"
        }
        Precondition::Paced if rested => {
            "filled, overwritten at random until lines were collected, then left alone until the collector rested, as \
             nothing writes"
        }
        Precondition::Paced => {
            "filled, then overwritten until the collector kept pace with the job"
        }
    };
    let windows = match state {
        Precondition::Steady if !unsteady => LAST_WINDOWS,
        Precondition::Paced if !rested => Steady::PACED_WINDOWS,
        _ => 1,
    };
    let last = aged_at(ageing, windows).map_or(String::new(), |wa| {
        let what = if how.ends_with("was steady") { "at" } else { "write amplification" };
        format!(", {what} {wa:.2} after {} windows", ageing.len())
    });
    format!("{how}{last}")
}

/// Pages of the map whose entries are in memory alone.
pub(crate) fn in_memory_alone(held: MapHeld) -> String {
    format!("{} of the {} pages in memory are not on flash as they are", held.changed, held.pages)
}

/// What a state file says of the drive before its state.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct About {
    /// Names of the profiles.
    pub device: String,
    /// Name of the FTL's profile.
    pub ftl: String,
    /// None: not known, as of a drive that was served.
    pub prepared: Option<Precondition>,
    /// Write amplification of each ageing window.
    pub ageing: Vec<f64>,
    /// Ageing ended at its limit.
    pub unsteady: bool,
    /// Then: what was not steady.
    pub unmet: Vec<Unmet>,
    /// The collector was left alone until it rested, as nothing writes.
    pub rested: bool,
    /// It was aged by uniform writes alone.
    pub uniform: bool,
    /// All that the state depends on, as text; empty where nobody is to find it by that.
    pub key: String,
}

impl About {
    const MAGIC: [u8; 8] = *b"wldrive4";
    /// What follows begins at a multiple of that, so that its arrays can be used in place.
    const PAGE: usize = 1 << 12;
    /// Bytes of a text at most, longer ones are cut; and windows of ageing. More is damage.
    pub const TEXT: usize = 1 << 20;
    const WINDOWS: usize = 1 << 16;

    /// Writes a whole state: this, what the FTL writes, and the newest versions if the check has them.
    pub fn save_drive(
        &self,
        ftl: impl FnOnce(&mut dyn Write) -> io::Result<()>,
        stamps: &Stamps,
        w: &mut dyn Write,
    ) -> io::Result<()> {
        self.save(w)?;
        ftl(w)?;
        let mut out = SavedOut::part(w);
        let kept = stamps.kept();
        out.put32(kept.map_or(0, |(_, most)| most))?;
        kept.map_or(Ok(()), |(newest, _)| out.put_versions(newest))?;
        out.end()
    }
    fn save(&self, w: &mut dyn Write) -> io::Result<()> {
        let mut head = About::MAGIC.to_vec();
        let how = self.prepared.map_or("", Precondition::name);
        for text in [self.device.as_str(), &self.ftl, how, &self.key] {
            let end = text.floor_char_boundary(About::TEXT);
            head.extend((end as u32).to_le_bytes());
            head.extend(&text.as_bytes()[..end]);
        }
        let flags = [self.unsteady, self.uniform, self.rested].into_iter();
        let unmet = Unmet::ALL.into_iter().map(|rule| self.unmet.contains(&rule));
        let flags = flags.chain(unmet).enumerate();
        head.push(flags.fold(0, |all, (i, flag)| all | u8::from(flag) << i));
        let ageing = &self.ageing[self.ageing.len().saturating_sub(About::WINDOWS)..];
        head.extend((ageing.len() as u32).to_le_bytes());
        head.extend(ageing.iter().flat_map(|wa| wa.to_le_bytes()));
        head.resize((head.len() + 8).next_multiple_of(About::PAGE) - 8, 0);
        w.write_all(&head)?;
        w.write_all(&sum_of(&head).to_le_bytes())
    }

    /// Reads the head of a state file; the state follows it.
    pub fn load(r: &mut dyn StateSource) -> Result<About, LoadError> {
        let mut head = Vec::new();
        let read = Cell::new(0);
        let mut bytes = |n: usize| {
            let mut bytes = vec![0; n];
            let got = r.get(&mut bytes).map_err(|_| LoadError::CutShort);
            head.extend(&bytes);
            read.set(read.get() + n);
            got.map(|()| bytes)
        };
        if bytes(8)? != About::MAGIC {
            return Err(LoadError::NoDrive);
        }
        let count = |most: usize, bytes: &mut dyn FnMut(usize) -> Result<Vec<u8>, LoadError>| {
            let n = bytes(4)?;
            let n = u32::from_le_bytes([n[0], n[1], n[2], n[3]]) as usize;
            if n <= most { Ok(n) } else { Err(LoadError::Damaged("its head is too long")) }
        };
        let mut texts = [const { String::new() }; 4];
        for text in &mut texts {
            let n = count(About::TEXT, &mut bytes)?;
            let read = String::from_utf8(bytes(n)?);
            *text = read.map_err(|_| LoadError::Damaged("a text in its head is none"))?;
        }
        let flags = bytes(1)?[0];
        let flag = |i: usize| flags >> i & 1 != 0;
        let [unsteady, uniform, rested] = [0, 1, 2].map(flag);
        let unmet = Unmet::ALL.into_iter().enumerate().filter(|(i, _)| flag(3 + i));
        let unmet = unmet.map(|(_, rule)| rule).collect();
        let n = count(About::WINDOWS, &mut bytes)?;
        let ageing = bytes(8 * n)?;
        let end = read.get() + 8;
        bytes(end.next_multiple_of(About::PAGE) - end)?;
        let ageing = ageing.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect();
        let mut sum = [0; 8];
        r.get(&mut sum).map_err(|_| LoadError::CutShort)?;
        if u64::from_le_bytes(sum) != sum_of(&head) {
            return Err(LoadError::Damaged("the checksum of its head does not fit"));
        }
        let [device, ftl, how, key] = texts;
        let prepared = match how.as_str() {
            "" => None,
            how => Some(
                Precondition::ALL
                    .into_iter()
                    .find(|p| p.name() == how)
                    .ok_or(LoadError::Damaged("its preparation has no such name"))?,
            ),
        };
        Ok(About { device, ftl, prepared, ageing, unsteady, unmet, rested, uniform, key })
    }
}

/// The newest stamps of a drive of so many sectors, if it was checked.
fn load_stamps(
    sectors: u64,
    r: &mut dyn StateSource,
) -> Result<Option<Stamps>, wordline_ftl::LoadError> {
    let mut r = SavedIn::part(r);
    let most = r.get32()?;
    let newest = match most {
        0 => None,
        _ => Some(r.versions(sectors as usize)?),
    };
    r.end()?;
    Ok(newest.map(|newest| Stamps::of_kept(newest, most)))
}

/// A checksum of a state's head.
fn sum_of(head: &[u8]) -> u64 {
    let words = head.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    words.fold(head.len() as u64, |sum, word| splitmix64(sum ^ word))
}

/// Asked now and then while a drive is aged. An error ends it.
pub type Look<'a> = dyn FnMut() -> Result<(), AgeError> + 'a;

/// What a sampler draws, while somebody looks on.
struct Sampled<'a, 'b> {
    sampler: &'a mut WriteSampler,
    look: &'a mut Look<'b>,
}

impl Chooses for Sampled<'_, '_> {
    fn choose(&mut self, lpns: &mut [u32], trims: &mut Vec<Trim>) -> Result<(), AgeError> {
        self.sampler.fill(lpns, trims);
        (self.look)()
    }
}

/// A drive between runs: its flash and its FTL, without a host and without time.
#[derive(Clone)]
pub struct Drive {
    /// The flash.
    pub nand: Nand,
    /// Its FTL, wherever it is to run.
    pub ftl: Translator,
    /// The kind of FTL, if it is not one of ours.
    kind: Option<Arc<dyn FtlKind>>,
    config: Arc<DriveConfig>,
    /// The newest version of each sector.
    pub stamps: Stamps,
    /// What was done to it; none where that is not known.
    pub prepared: Option<Precondition>,
    /// Write amplification of each ageing window.
    pub ageing: Vec<f64>,
    /// Ageing ended at its limit, before write amplification was steady.
    pub unsteady: bool,
    /// Then: what was not steady.
    pub unmet: Vec<Unmet>,
    /// It was to be aged at the workload's pace, and nothing writes: the collector was left alone until it rested.
    pub rested: bool,
    /// It was aged by uniform writes, as the workload has none, or none that are known.
    pub uniform: bool,
    /// Sectors a second that the device lets be programmed.
    program_rate: u64,
}

impl Drive {
    /// A drive fresh from the factory.
    pub fn new(config: &DriveConfig, seed: Seed, integrity: bool) -> Result<Drive, BuildError> {
        Drive::with_ftl(None, config, seed, integrity)
    }
    /// The same with an FTL of another kind than ours.
    pub fn with_ftl(
        kind: Option<Arc<dyn FtlKind>>,
        config: &DriveConfig,
        seed: Seed,
        integrity: bool,
    ) -> Result<Drive, BuildError> {
        let nand = Nand::new(&config.nand, seed).map_err(|e| BuildError::Value(e.below("nand")))?;
        let geometry = nand.geometry;
        let mut bad = |lun, line| nand.is_factory_bad(lun, line);
        let ftl = Translator::new(kind.as_ref(), &geometry, &config.ftl, &mut bad, seed)
            .map_err(|e| BuildError::Value(e.below("ftl")))?;
        let stamps = if integrity { Stamps::new(ftl.sectors()) } else { Stamps::off() };
        let program_rate = match config.device.limits.program_rate {
            0 => u64::MAX,
            bytes => geometry.sector.of(bytes),
        };
        let (ageing, unmet) = (Vec::new(), Vec::new());
        let [unsteady, rested, uniform] = [false; 3];
        let prepared = Some(Precondition::None);
        let config = Arc::new(config.clone());
        Ok(Drive {
            nand,
            ftl,
            kind,
            config,
            stamps,
            prepared,
            ageing,
            unsteady,
            unmet,
            rested,
            uniform,
            program_rate,
        })
    }

    /// What it was made of.
    pub fn config(&self) -> &DriveConfig {
        &self.config
    }
    /// Its FTL, if it is none of ours.
    pub fn kind(&self) -> Option<&dyn FtlKind> {
        self.kind.as_deref()
    }

    /// Writes every sector once, in order; takes no simulated time.
    pub fn fill(&mut self) -> Result<(), AgeError> {
        self.ftl.fill(&mut self.stamps)?;
        self.prepared = Some(Precondition::Fill);
        self.settle();
        Ok(())
    }

    /// Brings a filled drive into the state that `how` names; `job` draws the writes of the run to
    /// come, uniform ones if it has none. `look` is asked now and then: an error ends it.
    pub fn age(
        &mut self,
        how: Precondition,
        job: &mut WriteSampler,
        seed: Seed,
        look: &mut Look<'_>,
    ) -> Result<(), AgeError> {
        match how {
            Precondition::None | Precondition::Fill => return Ok(()),
            Precondition::Steady => self.steady(job, look)?,
            Precondition::Random => {
                self.uniform(seed, look)?;
                self.random(job, look)?;
            }
            Precondition::Paced => {
                self.before_pace(seed, look)?;
                self.paced(job, look)?;
            }
        }
        self.uniform = !job.is_own();
        self.prepared = Some(how);
        Ok(())
    }

    /// Overwrites what the sampler draws until write amplification is steady.
    fn steady(&mut self, sampler: &mut WriteSampler, look: &mut Look<'_>) -> Result<(), AgeError> {
        self.steady_within(sampler, WindowLimits::default(), look)
    }
    fn steady_within(
        &mut self,
        sampler: &mut WriteSampler,
        limits: WindowLimits,
        look: &mut Look<'_>,
    ) -> Result<(), AgeError> {
        let next = &mut Sampled { sampler, look };
        let report = steady_by_overwriting(&mut self.ftl, &mut self.stamps, next, limits)?;
        (self.unsteady, self.unmet) = (!report.steady, report.unmet);
        self.ageing = report.windows;
        self.settle();
        Ok(())
    }

    /// Overwrites uniformly at random until write amplification is steady, as preconditioning is done
    /// in most studies.
    fn uniform(&mut self, seed: Seed, look: &mut Look<'_>) -> Result<(), AgeError> {
        self.steady(&mut WriteSampler::uniform(self.bytes(), self.nand.geometry.sector, seed), look)
    }

    /// The part of [`Precondition::Paced`] that has nothing of a job's own: uniform writes until lines
    /// are collected for some time, since more of them at full speed are no nearer to any pace.
    pub fn before_pace(&mut self, seed: Seed, look: &mut Look<'_>) -> Result<(), AgeError> {
        let limits = WindowLimits {
            windows: BEFORE_PACE_WINDOWS,
            within: 0.1,
            span: 0.0,
            kept: 1.0,
            least: 0.0,
            ..WindowLimits::default()
        };
        self.steady_within(
            &mut WriteSampler::uniform(self.bytes(), self.nand.geometry.sector, seed),
            limits,
            look,
        )
    }

    /// Writes a tenth of the capacity with what the sampler draws, if it is a job's own. Then the
    /// drive is left alone until the collector rests, as between preconditioning and a run.
    fn random(&mut self, sampler: &mut WriteSampler, look: &mut Look<'_>) -> Result<(), AgeError> {
        let before = *self.ftl.counters();
        let mut lpns = vec![0; (self.sectors() / 1000).clamp(1, 1 << 16) as usize];
        let mut trims = Vec::new();
        let mut left = if sampler.is_own() { self.sectors() / 10 } else { 0 };
        while left > 0 {
            let n = left.min(lpns.len() as u64) as usize;
            trims.clear();
            sampler.fill(&mut lpns[..n], &mut trims);
            look()?;
            overwrite_between(&mut self.ftl, &mut self.stamps, &lpns[..n], &trims)?;
            left -= n as u64;
        }
        let c = self.ftl.counters();
        let c = c.since(&before);
        let (user, moved) = (c.user_sectors, c.moved());
        if user > 0 {
            self.ageing.push((user + moved) as f64 / user as f64);
        }
        self.ftl.rest(&mut self.stamps)?;
        self.settle();
        Ok(())
    }

    /// Goes on with the job's own writes at the job's own rate until the collector keeps pace with
    /// it. Without a rate that is what users at full speed have; with no writes the collector rests.
    pub fn paced(&mut self, job: &mut WriteSampler, look: &mut Look<'_>) -> Result<(), AgeError> {
        let unit = self.nand.program_time();
        match job.rate() {
            Some(0) => {
                self.ftl.rest(&mut self.stamps)?;
                self.rested = true;
            }
            users => {
                let users = users.unwrap_or(u64::from(u32::MAX));
                let pace = Pace { users, unit, most: self.program_rate };
                let next = &mut Sampled { sampler: job, look };
                let report = self.ftl.paced(&mut self.stamps, next, pace)?;
                (self.unsteady, self.unmet) = (!report.steady, report.unmet);
                self.ageing.extend(report.windows);
            }
        }
        self.prepared = Some(Precondition::Paced);
        self.settle();
        Ok(())
    }

    /// Writes runs of sectors in order, as the load of a program does. With `rest` the collector is
    /// left alone until it rests. A drive that was filled is left alone until its buffer is empty again.
    pub fn lay(&mut self, runs: &[Extent], rest: bool) -> Result<(), AgeError> {
        let mut lpns = Vec::with_capacity(1 << 16);
        for run in runs {
            let mut at = run.at;
            while at < run.at + run.sectors {
                let end = (at + (1 << 16)).min(run.at + run.sectors);
                lpns.clear();
                lpns.extend(at as u32..end as u32);
                self.ftl.overwrite(&mut self.stamps, &lpns)?;
                at = end;
            }
        }
        if rest {
            self.ftl.rest(&mut self.stamps)?;
        } else if self.prepared == Some(Precondition::Fill) {
            self.ftl.fold(&mut self.stamps)?;
        }
        self.settle();
        Ok(())
    }

    /// Writes the drive's state, to start from again; `device` and `ftl` are the names of its profiles, and
    /// `key` is all that the state depends on, if it is to be found by that.
    pub fn save(&self, device: &str, ftl: &str, key: &str, w: &mut dyn Write) -> io::Result<()> {
        let about = About {
            device: device.into(),
            ftl: ftl.into(),
            prepared: self.prepared,
            ageing: self.ageing.clone(),
            unsteady: self.unsteady,
            unmet: self.unmet.clone(),
            rested: self.rested,
            uniform: self.uniform,
            key: key.into(),
        };
        about.save_drive(|w| self.ftl.save(w), &self.stamps, w)
    }

    /// Takes up a saved state. It must be of the same geometry, and with a `key` of that. `device` is the name
    /// of this drive's profile. After an error the drive is as it was.
    pub fn load(
        &mut self,
        device: &str,
        key: Option<&str>,
        r: &mut dyn StateSource,
    ) -> Result<(), LoadError> {
        let about = About::load(r)?;
        if key.is_some_and(|key| key != about.key) {
            return Err(LoadError::OtherKey);
        }
        if let Some(kind) = &self.kind
            && kind.name() != about.ftl
        {
            return Err(LoadError::OtherFtl { state: about.ftl, drive: kind.name().into() });
        }
        let capacity = self.sectors();
        let named = |why| LoadError::Ftl {
            why,
            of: format!("{} with {}", about.device, about.ftl),
            drive: device.into(),
        };
        let (kind, geometry) = (self.kind.as_ref(), &self.nand.geometry);
        let ftl = Translator::load(kind, geometry, &self.config.ftl, r).map_err(named)?;
        if ftl.sectors() != capacity {
            let state = ftl.sectors();
            return Err(LoadError::OtherCapacity { state, drive: capacity });
        }
        let stamps = load_stamps(capacity, r).map_err(named)?;
        if r.is_at_end().is_ok_and(|end| !end) {
            return Err(LoadError::Damaged("it goes on after its end"));
        }
        self.ftl = ftl;
        (self.prepared, self.ageing) = (about.prepared, about.ageing);
        (self.unsteady, self.unmet) = (about.unsteady, about.unmet);
        (self.rested, self.uniform) = (about.rested, about.uniform);
        if self.stamps.is_on() {
            let known = stamps.is_some();
            self.stamps = stamps.unwrap_or_else(|| Stamps::new(capacity));
            if !(known && self.ftl.know_stamps()) {
                self.ftl.adopt_stamps(&mut self.stamps);
            }
        }
        self.settle();
        Ok(())
    }

    /// Gives the flash the state that ageing left it in.
    fn settle(&mut self) {
        self.ftl.settle();
        for block in self.ftl.media_state() {
            self.nand.set_block(block.lun, block.line, block.programmed, block.erases, block.slc);
        }
    }

    /// Writing it once takes longer than reading the outcome from a file. Its map has no runs that stand for
    /// a drive that was filled in order, and it is large.
    pub fn fills_slowly(&self) -> bool {
        self.config.ftl.fssd.is_some() && self.sectors() >= 1 << 26
    }
    /// Sectors that users can write.
    pub fn sectors(&self) -> u64 {
        self.ftl.sectors()
    }
    /// Bytes that users can write.
    pub fn bytes(&self) -> u64 {
        self.nand.geometry.sector.bytes_of(self.sectors())
    }
}
