//! Machines of several hosts and drives: a file that lists them.
//!
//! ```toml
//! [[drive]]                      # the first one: what jobs use that name no device
//! device = "z-ssd-small"
//!
//! [[drive]]
//! name = "nvme1n1"               # by default nvme0n1, nvme1n1, ... in order
//! device = "cnex-small"
//! ftl = "rail"
//! switch = "pex"
//! set = ["ftl.op_percent=20"]
//!
//! [[switch]]
//! name = "pex"
//! generation = 3
//! lanes = 4
//! efficiency = 92.0
//! t_forward = "150ns"
//!
//! [[host]]                       # one more; host0 is always there, and has the command line's stack
//! name = "app"
//! stack = "linux-libaio"
//!
//! [[network]]
//! drive = "nvme0n1"              # of host0, as nbd0 of host app
//! client = "app"
//! nbd = "nbd-kernel"             # a stack whose [stack.nbd] says how
//!
//! [[array]]
//! level = "raid5"
//! members = ["nvme0n1", "nvme1n1", "nvme2n1"]
//! chunk = 65536
//! ```

use crate::nodes::{FIRST_HOST, HostNode, NetworkNode, Node, Nodes, SwitchNode, name_of};
use crate::{Error, Scale, System};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::Spanned;
use wordline_base::Span;
use wordline_device::SwitchConfig;
use wordline_host::config::Transport;
use wordline_md::{Collect, Level, MdConfig};
use wordline_profile::{ConfigError, Kind, ReadFile, Source, Sources};
use wordline_sim::{ArrayNode, HostConfig, NetworkConfig};

/// Profiles by name and from files.
pub trait Profiles {
    /// What a name stands for.
    ///
    /// # Errors
    ///
    /// [`Error::Config`]: nothing has the name, or the file cannot be read.
    fn open(&mut self, name: &str) -> Result<Named, Error>;
    /// What reads the files that profiles name; without it they may name presets alone.
    fn files(&self) -> Option<ReadFile<'_>> {
        None
    }
}

/// A preset, or the text of a file.
#[derive(Clone, Debug)]
pub enum Named {
    /// A preset's name.
    Preset(String),
    /// A profile outside the presets.
    File {
        /// As messages name it.
        name: String,
        /// Its TOML.
        text: String,
    },
}

impl Named {
    /// The same, as [`Sources`] takes it.
    pub fn source(&self) -> Source<'_> {
        match self {
            Named::Preset(name) => Source::Preset(name),
            Named::File { name, text } => Source::File { name, text },
        }
    }
}

/// Presets alone.
pub struct Presets;

impl Profiles for Presets {
    fn open(&mut self, name: &str) -> Result<Named, Error> {
        Ok(Named::Preset(name.into()))
    }
}

/// A topology file.
#[derive(Clone, Default, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    #[serde(default)]
    drive: Vec<DriveEntry>,
    #[serde(default)]
    host: Vec<HostEntry>,
    #[serde(default)]
    switch: Vec<SwitchEntry>,
    #[serde(default)]
    network: Vec<NetworkEntry>,
    #[serde(default)]
    array: Vec<ArrayEntry>,
    #[serde(skip)]
    entries: Entries,
}

/// The file that lists a machine, and where its entries begin.
#[derive(Clone, Default, Debug)]
pub struct Entries {
    /// As messages name it; empty if there is none.
    pub file: String,
    /// By kind and name, as in `drive nvme0n1`.
    places: BTreeMap<String, String>,
}

impl Entries {
    /// Where an entry begins, or the file.
    pub(crate) fn place(&self, entry: Option<&str>) -> &str {
        entry.and_then(|entry| self.places.get(entry)).unwrap_or(&self.file)
    }
}

/// The same lists, of which only the places count.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Spans {
    drive: Vec<Spanned<IgnoredAny>>,
    host: Vec<Spanned<IgnoredAny>>,
    switch: Vec<Spanned<IgnoredAny>>,
    network: Vec<Spanned<IgnoredAny>>,
    array: Vec<Spanned<IgnoredAny>>,
}

/// What an array has for itself goes over its host's `[stack.md]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ArrayEntry {
    name: Option<String>,
    level: String,
    members: Vec<String>,
    size: Option<Spanned<u64>>,
    spare: Option<String>,
    journal: Option<String>,
    fail: Option<FailEntry>,
    chunk: Option<Spanned<u64>>,
    stripe_cache: Option<Spanned<u32>>,
    bitmap: Option<Spanned<u64>>,
    gc: Option<Collect>,
    gc_slot: Option<Spanned<Span>>,
    sync_speed_max: Option<Spanned<u64>>,
    core: Option<Spanned<u32>>,
    /// Where what is looked at later is written, by key.
    #[serde(skip)]
    places: BTreeMap<&'static str, String>,
}

impl ArrayEntry {
    fn find_places(&mut self, file: &str, text: &str) {
        let at = [
            ("size", self.size.as_ref().map(Spanned::span)),
            ("chunk", self.chunk.as_ref().map(Spanned::span)),
            ("stripe_cache", self.stripe_cache.as_ref().map(Spanned::span)),
            ("bitmap", self.bitmap.as_ref().map(Spanned::span)),
            ("gc_slot", self.gc_slot.as_ref().map(Spanned::span)),
            ("sync_speed_max", self.sync_speed_max.as_ref().map(Spanned::span)),
            ("core", self.core.as_ref().map(Spanned::span)),
        ];
        for (key, span) in at {
            self.places.extend(span.and_then(|span| Some((key, place(file, text, span.start)?))));
        }
    }
}

/// The place of a byte of a file's text.
fn place(file: &str, text: &str, byte: usize) -> Option<String> {
    let before = text.get(..byte)?;
    let line = before.split('\n').count();
    let column = before.split('\n').next_back().map_or(0, |l| l.chars().count()) + 1;
    Some(format!("{file}:{line}:{column}"))
}

/// The name of a profile, and where it is written; nothing where no file says it.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Spanned<String>")]
struct Profile {
    name: String,
    byte: usize,
    place: Option<String>,
}

impl From<Spanned<String>> for Profile {
    fn from(name: Spanned<String>) -> Profile {
        Profile { byte: name.span().start, name: name.into_inner(), place: None }
    }
}

impl Profile {
    fn named(name: &str) -> Profile {
        Profile { name: name.into(), byte: 0, place: None }
    }
    fn find_place(&mut self, file: &str, text: &str) {
        self.place = place(file, text, self.byte);
    }
    fn open(&self, kind: Kind, profiles: &mut dyn Profiles) -> Result<Named, Error> {
        let named = profiles.open(&self.name);
        let Some(at) = &self.place else { return named };
        let told = |error: &dyn std::fmt::Display| ConfigError::plain(format!("{at}: {error}"));
        let named = named.map_err(|error| told(&error))?;
        if let Named::Preset(name) = &named {
            wordline_profile::find(kind, name).map_err(|error| told(&error))?;
        }
        Ok(named)
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FailEntry {
    member: String,
    at: Span,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DriveEntry {
    name: Option<String>,
    device: Profile,
    ftl: Option<Profile>,
    host: Option<String>,
    switch: Option<String>,
    #[serde(default)]
    set: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostEntry {
    name: String,
    stack: Option<Profile>,
    testbed: Option<Profile>,
    #[serde(default)]
    set: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchEntry {
    name: String,
    generation: u32,
    lanes: u32,
    efficiency: f64,
    t_forward: wordline_base::Span,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkEntry {
    name: Option<String>,
    drive: String,
    client: String,
    nbd: Profile,
    #[serde(default)]
    set: Vec<String>,
}

/// What is said once for all drives and hosts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Common {
    /// The stack of hosts that name none.
    pub stack: String,
    /// The testbed of hosts that name none; none is the stack's own.
    pub testbed: Option<String>,
    /// The FTL of drives that name none; none is the device's own.
    pub ftl: Option<String>,
    /// The file system on the first drive.
    pub fs: Option<String>,
    /// A program, which has the first drive.
    pub app: Option<String>,
    /// Programs beside it or beside jobs, each `NAME` or `NAME:option=value,..`.
    pub with: Vec<String>,
    /// The part of each drive that is simulated.
    pub scale: Option<Scale>,
    /// Overrides that go before a scale's cut.
    pub chosen: Vec<String>,
    /// The user's overrides.
    pub set: Vec<String>,
}

impl Common {
    /// One drive in one host.
    ///
    /// # Errors
    ///
    /// [`Error::Config`], with the place of each value that will not do.
    pub fn system(&self, device: &str, profiles: &mut dyn Profiles) -> Result<System, Error> {
        let host =
            HostEntry { name: FIRST_HOST.into(), stack: None, testbed: None, set: Vec::new() };
        assemble(&Profile::named(device), None, &host, &[], self, profiles)
    }
}

/// What errors of entries begin with.
const TOPOLOGY: &str = "topology: ";

fn misfit(message: String) -> Error {
    ConfigError::plain(format!("{TOPOLOGY}{message}")).into()
}

/// An entry sets what is its own.
fn may_set(set: &[String], own: &[&str], of: &str) -> Result<(), Error> {
    let other = set.iter().find(|pair| !own.iter().any(|section| pair.trim().starts_with(section)));
    other.map_or(Ok(()), |pair| {
        let key = pair.split('=').next().unwrap_or_default().trim();
        if !key.contains('.') {
            let sections: Vec<String> = own.iter().map(|section| format!("{section}{key}")).collect();
            return Err(misfit(format!(
                "{of}: set = [\"{pair}\"] has no section: write the whole key, {}",
                sections.join(" or ")
            )));
        }
        Err(misfit(format!(
            "{of}: set = [\"{pair}\"] is of another entry: [[drive]] sets nand, ftl and device, [[host]] sets stack, \
             [[network]] sets stack.nbd"
        )))
    })
}

/// The place of a name in a list.
fn find<'a>(
    what: &str,
    name: &str,
    mut all: impl Iterator<Item = &'a str>,
    of: &str,
) -> Result<usize, Error> {
    all.position(|known| known == name)
        .ok_or_else(|| misfit(format!("{of}: there is no {what} '{name}': list it as [[{what}]]")))
}

fn of_entry<T: Copy>(own: &Option<Spanned<T>>, of_host: T) -> T {
    own.as_ref().map_or(of_host, |own| *own.as_ref())
}

impl Topology {
    /// Reads a file's text; `name` is for messages.
    ///
    /// # Errors
    ///
    /// [`Error::Config`]: text that is no topology, with line and column, or entries that name nothing.
    pub fn parse(name: &str, text: &str) -> Result<Topology, Error> {
        let mut parsed: Topology = toml::from_str(text)
            .map_err(|e| ConfigError::plain(format!("{name}: {}", e.to_string().trim_end())))?;
        if parsed.drive.is_empty() {
            let why = format!("{name}: a machine needs at least one [[drive]]");
            return Err(ConfigError::plain(why).into());
        }
        parsed.entries.file = name.into();
        parsed.array.iter_mut().for_each(|array| array.find_places(name, text));
        let of_drives = parsed.drive.iter_mut().flat_map(|d| [Some(&mut d.device), d.ftl.as_mut()]);
        let of_hosts = parsed.host.iter_mut().flat_map(|h| [h.stack.as_mut(), h.testbed.as_mut()]);
        let of_networks = parsed.network.iter_mut().map(|network| Some(&mut network.nbd));
        let named = of_drives.chain(of_hosts).chain(of_networks).flatten();
        named.for_each(|profile| profile.find_place(name, text));
        parsed.find_entries(text);
        Ok(parsed)
    }

    fn find_entries(&mut self, text: &str) {
        // It was read before.
        let spans: Spans = toml::from_str(text).unwrap_or_default();
        let kinds = [
            ("drive", self.names_of_drives().collect::<Vec<_>>(), spans.drive),
            ("host", self.host.iter().map(|host| host.name.clone()).collect(), spans.host),
            ("switch", self.switch.iter().map(|s| s.name.clone()).collect(), spans.switch),
            ("network", self.names_of_networks().collect(), spans.network),
            ("array", self.names_of_arrays().collect(), spans.array),
        ];
        for (kind, names, spans) in kinds {
            for (name, span) in names.into_iter().zip(spans) {
                let at = place(&self.entries.file, text, span.span().start);
                self.entries.places.extend(at.map(|at| (format!("{kind} {name}"), at)));
            }
        }
    }
    fn names_of_drives(&self) -> impl Iterator<Item = String> {
        let all = self.drive.iter().enumerate();
        all.map(|(i, entry)| entry.name.clone().unwrap_or_else(|| name_of(i)))
    }
    fn names_of_networks(&self) -> impl Iterator<Item = String> {
        let all = self.network.iter().enumerate();
        all.map(|(n, entry)| entry.name.clone().unwrap_or_else(|| format!("nbd{n}")))
    }
    fn names_of_arrays(&self) -> impl Iterator<Item = String> {
        let all = self.array.iter().enumerate();
        all.map(|(a, entry)| entry.name.clone().unwrap_or_else(|| format!("md{a}")))
    }

    /// An error of entries, with the place of the one that it begins with.
    fn placed(&self, error: Error) -> Error {
        let Error::Config(mut config) = error else { return error };
        for problem in &mut config.problems {
            let text =
                problem.message.strip_prefix(TOPOLOGY).filter(|_| !self.entries.file.is_empty());
            if let (Some(text), "") = (text, &*problem.source) {
                let behind = |entry: &str| {
                    text.strip_prefix(entry).is_some_and(|rest| rest.starts_with([':', ' ']))
                };
                // Of two names of which one begins like the other it is the longer.
                let entry = self.entries.places.keys().rev().find(|entry| behind(entry));
                problem.source = self.entries.place(entry.map(String::as_str)).into();
                problem.message = text.into();
            }
        }
        Error::Config(config)
    }

    /// What `set` of an entry says has the entry's name in errors, also in those that show when the machine is built.
    fn of_set(
        &self,
        system: Result<System, Error>,
        entry: &str,
        set: &[String],
    ) -> Result<System, Error> {
        let name = |source: &str| {
            let text = source.strip_prefix("--set ")?;
            let begin = text.trim_end_matches('\u{2026}');
            let is_own = !self.entries.file.is_empty() && set.iter().any(|s| s.starts_with(begin));
            let place = self.entries.place(Some(entry));
            is_own.then(|| format!("{place}: {entry}: set = [\"{text}\"]"))
        };
        match system {
            Ok(mut system) => {
                system.places.rename(name);
                Ok(system)
            }
            Err(Error::Config(mut config)) => {
                for problem in &mut config.problems {
                    if let Some(name) = name(&problem.source) {
                        problem.source = name;
                    }
                }
                Err(Error::Config(config))
            }
            Err(error) => Err(error),
        }
    }

    /// Drives of these devices in one host.
    pub fn of_devices(devices: &[String]) -> Topology {
        let entry = |device: &String| DriveEntry {
            name: None,
            device: Profile::named(device),
            ftl: None,
            host: None,
            switch: None,
            set: Vec::new(),
        };
        Topology { drive: devices.iter().map(entry).collect(), ..Topology::default() }
    }

    /// The same with an array of all of them.
    pub fn with_array(mut self, level: &str) -> Topology {
        let members = (0..self.drive.len()).map(name_of).collect();
        self.array.push(ArrayEntry { level: level.into(), members, ..ArrayEntry::default() });
        self
    }

    fn array(
        &self,
        (name, entry): (String, &ArrayEntry),
        drives: &[(String, System, usize, Option<usize>)],
    ) -> Result<ArrayNode, Error> {
        let of = format!("array {name}");
        let level = match &*entry.level {
            "raid0" => Level::Raid0,
            "raid5" => Level::Raid5,
            other => {
                return Err(misfit(format!("{of}: level = \"{other}\" is none of raid0, raid5")));
            }
        };
        let drive = |name: &String| find("drive", name, drives.iter().map(|d| &*d.0), &of);
        let members = entry.members.iter().map(drive).collect::<Result<Vec<usize>, Error>>()?;
        let Some(&first) = members.first() else {
            return Err(misfit(format!("{of}: members = [] names no drive")));
        };
        let stack = &drives[first].1.config.stack;
        let md = &stack.md;
        let config = MdConfig {
            chunk: of_entry(&entry.chunk, md.chunk),
            stripe_cache: of_entry(&entry.stripe_cache, md.stripe_cache),
            bitmap: of_entry(&entry.bitmap, md.bitmap),
            gc: entry.gc.unwrap_or(md.gc),
            gc_slot: of_entry(&entry.gc_slot, md.gc_slot),
            sync_speed_max: of_entry(&entry.sync_speed_max, md.sync_speed_max),
            core: entry.core.as_ref().map(|core| *core.as_ref()).or(md.core),
        };
        let fail = match &entry.fail {
            None => None,
            Some(FailEntry { member, at }) => Some((drive(member)?, *at)),
        };
        let spare = entry.spare.as_ref().map(drive).transpose()?;
        let journal = entry.journal.as_ref().map(drive).transpose()?;
        let size = entry.size.as_ref().map(|size| *size.as_ref());
        Ok(ArrayNode { name, level, members, size, spare, journal, fail, config })
    }

    /// The machine.
    ///
    /// # Errors
    ///
    /// [`Error::Config`]: values that will not do, with their places, and entries that do not go together.
    pub fn system(&self, common: &Common, profiles: &mut dyn Profiles) -> Result<System, Error> {
        self.joined(common, profiles).map_err(|error| self.placed(error))
    }

    fn joined(&self, common: &Common, profiles: &mut dyn Profiles) -> Result<System, Error> {
        let hosts = self.hosts();
        for host in &hosts {
            may_set(&host.set, &["stack."], &format!("host {}", host.name))?;
        }
        for (i, switch) in self.switch.iter().enumerate() {
            if self.switch[..i].iter().any(|s| s.name == switch.name) {
                return Err(misfit(format!("two switches are named {}", switch.name)));
            }
        }
        // Files and programs are on the first drive.
        let mut others = Common { fs: None, app: None, with: Vec::new(), ..common.clone() };
        let of_first = ["app.", "fs.", "stack.fs."];
        others.set.retain(|pair| !of_first.iter().any(|own| pair.trim().starts_with(own)));
        let mut drives = Vec::with_capacity(self.drive.len());
        for (i, (entry, name)) in self.drive.iter().zip(self.names_of_drives()).enumerate() {
            let of = format!("drive {name}");
            may_set(
                &entry.set,
                &[
                    "nand.",
                    "ftl.",
                    "device.",
                    "bridge.",
                    "cache.",
                    "limits.",
                    "link.",
                    "queues.",
                    "firmware.",
                    "interrupt.",
                    "power.",
                ],
                &of,
            )?;
            let host = match &entry.host {
                None => 0,
                Some(host) => find("host", host, hosts.iter().map(|h| &*h.name), &of)?,
            };
            let switch = entry
                .switch
                .as_ref()
                .map(|switch| find("switch", switch, self.switch.iter().map(|s| &*s.name), &of));
            let common = if i == 0 { common } else { &others };
            let system = assemble(
                &entry.device,
                entry.ftl.as_ref(),
                &hosts[host],
                &entry.set,
                common,
                profiles,
            );
            let of_host = format!("host {}", hosts[host].name);
            let system = self.of_set(system, &of, &entry.set);
            let system = self.of_set(system, &of_host, &hosts[host].set)?;
            drives.push((name, system, host, switch.transpose()?));
        }
        let unused = |s: usize| drives.iter().all(|drive| drive.3 != Some(s));
        if let Some(s) = (0..self.switch.len()).find(|&s| unused(s)) {
            let name = &self.switch[s].name;
            return Err(misfit(format!(
                "switch {name}: no drive is behind it: say switch = \"{name}\" in the drives that are, or leave it out"
            )));
        }
        if drives[0].2 != 0 {
            let (name, host) = (&drives[0].0, &hosts[0].name);
            return Err(misfit(format!(
                "drive {name}: the first drive is in {host}, which is always there: list the drives of {host} first"
            )));
        }
        let mut networks = Vec::with_capacity(self.network.len());
        for (entry, name) in self.network.iter().zip(self.names_of_networks()) {
            let of = format!("network {name}");
            let client = find("host", &entry.client, hosts.iter().map(|h| &*h.name), &of)?;
            let drive = find("drive", &entry.drive, drives.iter().map(|d| &*d.0), &of)?;
            let host = HostEntry {
                name: String::new(),
                stack: Some(entry.nbd.clone()),
                testbed: hosts[client].testbed.clone(),
                set: Vec::new(),
            };
            let device = &self.drive[drive].device;
            may_set(&entry.set, &["stack.nbd."], &of)?;
            let system = assemble(device, None, &host, &entry.set, &others, profiles);
            let system = self.of_set(system, &of, &entry.set)?;
            let System { config, places, .. } = system;
            let Some(mut nbd) = config.stack.nbd else {
                return Err(misfit(format!(
                    "{of}: the stack {} has no network block device: name one that has [stack.nbd]",
                    entry.nbd.name
                )));
            };
            if !entry.set.iter().any(|pair| pair.contains("nbd.transport")) {
                nbd.transport = Transport::Ethernet;
            }
            if nbd.transport != Transport::Ethernet {
                return Err(misfit(format!(
                    "{of}: two hosts have an Ethernet between them: leave out stack.nbd.transport, or take the \
                     stack {} for one drive in one host (--stack)",
                    entry.nbd.name
                )));
            }
            let server = drives[drive].2;
            let config = NetworkConfig { name, client, server, drive, shared_cores: None, nbd };
            networks.push(NetworkNode { config, places });
        }
        let mut of_hosts = Vec::with_capacity(hosts.len());
        for (h, entry) in hosts.iter().enumerate() {
            let of_drive = drives.iter().find(|d| d.2 == h);
            let (config, places) = match of_drive {
                Some((_, system, ..)) => (system.config.clone(), system.places.clone()),
                None => {
                    let device = &self.drive[0].device;
                    let system = assemble(device, None, entry, &[], &others, profiles);
                    let system =
                        self.of_set(system, &format!("host {}", entry.name), &entry.set)?;
                    (system.config, system.places)
                }
            };
            if config.stack.nbd.is_some() {
                return Err(misfit(format!(
                    "host {}: its stack is two hosts and a network: name a stack without one, and list the \
                     network as [[network]]",
                    entry.name
                )));
            }
            let (stack, testbed) = (config.stack_name, config.testbed_name);
            let config = HostConfig { name: entry.name.clone(), stack: config.stack };
            of_hosts.push(HostNode { config, stack, testbed, places });
        }
        let switch = |s: &SwitchEntry| {
            let &SwitchEntry { generation, lanes, efficiency, t_forward, .. } = s;
            let config = SwitchConfig { generation, lanes, efficiency, t_forward };
            SwitchNode { name: s.name.clone(), config }
        };
        let switches = self.switch.iter().map(switch).collect();
        let set = self.set(&hosts);
        let all = self.names_of_arrays().zip(&self.array);
        let arrays = all.map(|of| self.array(of, &drives)).collect::<Result<_, _>>()?;
        let mut drives = drives.into_iter();
        let (name, mut system, _, switch) = drives.next().expect("a topology has a drive");
        system.nodes = Nodes {
            first: Some(name).filter(|name| *name != name_of(0)),
            switch,
            drives: drives
                .map(|(name, of, host, switch)| {
                    let System { config, scale, places, .. } = of;
                    Node { name, config, host, switch, scale, places }
                })
                .collect(),
            hosts: of_hosts.split_off(1),
            switches,
            networks,
            arrays,
            places_of_arrays: self.array.iter().map(|array| array.places.clone()).collect(),
            set,
            set_of_first: hosts[0].set.iter().chain(&self.drive[0].set).cloned().collect(),
            entries: self.entries.clone(),
        };
        system.machine().check().map_err(|e| misfit(e.to_string()))?;
        Ok(system)
    }

    /// What entries say for themselves, but for names of profiles, which results have anyway.
    fn set(&self, hosts: &[HostEntry]) -> Vec<String> {
        let mut said = Said::default();
        for (entry, name) in self.drive.iter().zip(self.names_of_drives()) {
            said.of("drive", name);
            said.key("host", &entry.host);
            said.key("switch", &entry.switch);
            said.pairs(&entry.set);
        }
        for entry in hosts {
            said.of("host", entry.name.clone());
            said.pairs(&entry.set);
        }
        for (entry, name) in self.network.iter().zip(self.names_of_networks()) {
            said.of("network", name);
            said.key("drive", &Some(&entry.drive));
            said.key("client", &Some(&entry.client));
            said.key("nbd", &Some(&entry.nbd.name));
            said.pairs(&entry.set);
        }
        for entry in &self.switch {
            said.of("switch", entry.name.clone());
            let SwitchEntry { name: _, generation, lanes, efficiency, t_forward } = entry;
            said.key("generation", &Some(generation));
            said.key("lanes", &Some(lanes));
            said.key("efficiency", &Some(efficiency));
            said.key("t_forward", &Some(t_forward));
        }
        for (entry, name) in self.array.iter().zip(self.names_of_arrays()) {
            said.of("array", name);
            said.array(entry);
        }
        said.all
    }

    /// The hosts. The first is always host0, which an entry of that name says more of.
    fn hosts(&self) -> Vec<HostEntry> {
        let first =
            HostEntry { name: FIRST_HOST.into(), stack: None, testbed: None, set: Vec::new() };
        let named = self.host.iter().any(|h| h.name == FIRST_HOST);
        let mut hosts = if named { Vec::new() } else { vec![first] };
        hosts.extend(self.host.iter().cloned());
        hosts.sort_by_key(|h| h.name != FIRST_HOST);
        hosts
    }
}

/// What entries of a machine say, as `switch pex: lanes=4`.
#[derive(Default)]
struct Said {
    /// The entry at hand.
    entry: String,
    all: Vec<String>,
}

impl Said {
    fn of(&mut self, kind: &str, name: String) {
        self.entry = format!("{kind} {name}");
    }
    fn pairs(&mut self, pairs: &[String]) {
        self.all.extend(pairs.iter().map(|pair| format!("{}: {pair}", self.entry)));
    }
    fn key(&mut self, key: &str, value: &Option<impl std::fmt::Display>) {
        if let Some(value) = value {
            self.pairs(&[format!("{key}={value}")]);
        }
    }
    fn array(&mut self, entry: &ArrayEntry) {
        let ArrayEntry {
            name: _,
            level,
            members,
            size,
            spare,
            journal,
            fail,
            chunk,
            stripe_cache,
            bitmap,
            gc,
            gc_slot,
            sync_speed_max,
            core,
            places: _,
        } = entry;
        self.key("level", &Some(level));
        self.key("members", &Some(members.join(":")));
        self.key("size", &size.as_ref().map(Spanned::as_ref));
        self.key("spare", spare);
        self.key("journal", journal);
        let lost = fail.as_ref().map(|FailEntry { member, at }| format!("{member} at {at}"));
        self.key("fail", &lost);
        self.key("chunk", &chunk.as_ref().map(Spanned::as_ref));
        self.key("stripe_cache", &stripe_cache.as_ref().map(Spanned::as_ref));
        self.key("bitmap", &bitmap.as_ref().map(Spanned::as_ref));
        self.key("gc", &gc.map(Collect::name));
        self.key("gc_slot", &gc_slot.as_ref().map(Spanned::as_ref));
        self.key("sync_speed_max", &sync_speed_max.as_ref().map(Spanned::as_ref));
        self.key("core", &core.as_ref().map(Spanned::as_ref));
    }
}

/// Programs and their options, each `NAME` or `NAME:option=value,..`. The last colon before the first `=` is
/// between them.
pub fn with_options(with: &[String]) -> Vec<(&str, &str)> {
    let split = |word: &String| word[..word.find('=')?].rfind(':');
    let options = |word: &'_ String| split(word).map(|at| (at, at + 1));
    let of = |word| (word, options(word));
    let parts = with.iter().map(of);
    parts
        .map(|(word, at)| at.map_or((&**word, ""), |(to, from)| (&word[..to], &word[from..])))
        .collect()
}

/// A drive in a host, as the profiles of both say.
fn assemble(
    device: &Profile,
    ftl: Option<&Profile>,
    host: &HostEntry,
    set: &[String],
    common: &Common,
    profiles: &mut dyn Profiles,
) -> Result<System, Error> {
    // What an entry does not say is said once for all.
    let mut open = |kind, own: Option<&Profile>, common: Option<&str>| match own {
        Some(own) => own.open(kind, profiles).map(Some),
        None => common.map(|name| profiles.open(name)).transpose(),
    };
    let ftl = open(Kind::Ftl, ftl, common.ftl.as_deref())?;
    let testbed = open(Kind::Testbed, host.testbed.as_ref(), common.testbed.as_deref())?;
    let fs = open(Kind::Fs, None, common.fs.as_deref())?;
    let app = open(Kind::App, None, common.app.as_deref())?;
    let own_stack = open(Kind::Stack, host.stack.as_ref(), Some(&common.stack))?;
    let with = with_options(&common.with);
    let opened = with.iter().map(|(name, _)| profiles.open(name));
    let opened = opened.collect::<Result<Vec<Named>, Error>>()?;
    let with: Vec<_> =
        opened.iter().zip(&with).map(|(named, (_, options))| (named.source(), *options)).collect();
    let device = device.open(Kind::Device, profiles)?;
    let stack = own_stack.expect("all have a stack in common");
    let sources = Sources {
        device: device.source(),
        ftl: ftl.as_ref().map(Named::source),
        stack: stack.source(),
        testbed: testbed.as_ref().map(Named::source),
        app: app.as_ref().map(Named::source),
        with: &with,
        fs: fs.as_ref().map(Named::source),
        files: profiles.files(),
    };
    let set: Vec<String> = common.set.iter().chain(&host.set).chain(set).cloned().collect();
    match common.scale {
        None => {
            let all: Vec<String> = common.chosen.iter().chain(&set).cloned().collect();
            System::assemble(sources, &all)
        }
        Some(scale) => System::assemble_scaled(sources, scale, &common.chosen, &set),
    }
}
