//! Machines of several hosts and drives: a file that lists them, and what a system keeps of it.
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

use crate::{Error, Scale, System};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;
use wordline_base::Span;
use wordline_device::{DriveConfig, SwitchConfig};
use wordline_host::config::Transport;
use wordline_md::{Collect, Level, MdConfig};
use wordline_profile::{Config, ConfigError, Inside, Kind, Places, ReadFile, Source, Sources};
use wordline_sim::{
    ArrayNode, BridgeNode, DriveNode, HostConfig, NetworkConfig, Part, SystemConfig,
};

/// A drive of several.
#[derive(Clone)]
pub struct Node {
    /// As jobs name it.
    pub name: String,
    /// What its profiles say; its stack is its host's.
    pub config: Config,
    /// The number of the host that it is in.
    pub host: usize,
    /// The number of the switch in front of it.
    pub switch: Option<usize>,
    pub(crate) places: Places,
}

/// A host of several.
#[derive(Clone)]
pub struct HostNode {
    /// Its name and its software.
    pub config: HostConfig,
    /// The name of its stack's profile.
    pub stack: String,
    /// The name of its testbed's profile.
    pub testbed: String,
    pub(crate) places: Places,
}

/// A PCIe switch.
#[derive(Clone)]
pub struct SwitchNode {
    /// As drives name it in the file.
    pub name: String,
    /// What it is.
    pub config: SwitchConfig,
}

/// A network and the drive that it exports.
#[derive(Clone)]
pub struct NetworkNode {
    /// What it is.
    pub config: NetworkConfig,
    pub(crate) places: Places,
}

/// Where the values of a part of a machine are written.
pub(crate) enum Written<'a> {
    /// With those of the first drive and the first host.
    First,
    /// In profiles of its own.
    Own(&'a Places),
    /// In the file that lists the machine, as the switch of this name.
    Switch(&'a str),
    /// There, as an entry of an array, in these places by their keys; what it does not say is in its host's.
    Array(Option<&'a BTreeMap<&'static str, String>>, Option<&'a Places>),
}

/// What a system has beside its first drive and its first host.
#[derive(Clone, Default)]
pub struct Nodes {
    /// The first drive's name, if it is not `nvme0n1`.
    pub first: Option<String>,
    /// The number of the switch in front of the first drive.
    pub switch: Option<usize>,
    /// The drives after the first one.
    pub drives: Vec<Node>,
    /// The hosts after the first one.
    pub hosts: Vec<HostNode>,
    /// PCIe switches.
    pub switches: Vec<SwitchNode>,
    /// Networks.
    pub networks: Vec<NetworkNode>,
    /// Arrays.
    pub arrays: Vec<ArrayNode>,
    /// Of each array, where the file says what goes over its host's `[stack.md]`, by key.
    pub(crate) places_of_arrays: Vec<BTreeMap<&'static str, String>>,
    /// What the entries of all these set for themselves, as `drive nvme1n1: key=value`.
    pub set: Vec<String>,
}

impl Nodes {
    fn are_none(&self) -> bool {
        self.first.is_none()
            && self.switch.is_none()
            && self.drives.is_empty()
            && self.hosts.is_empty()
            && self.switches.is_empty()
            && self.networks.is_empty()
            && self.arrays.is_empty()
    }

    /// Where the values of a part are written.
    pub(crate) fn written(&self, part: Part) -> Written<'_> {
        let after_first = |number: usize| number.wrapping_sub(1);
        let places = match part {
            Part::Drive(d) | Part::Bridge(d) => {
                self.drives.get(after_first(d)).map(|node| &node.places)
            }
            Part::Host(h) => self.hosts.get(after_first(h)).map(|node| &node.places),
            Part::Network(n) => self.networks.get(n).map(|node| &node.places),
            Part::Array(a) => {
                let of_host = self.host_of(&self.arrays[a]);
                let host = self.hosts.get(after_first(of_host)).map(|node| &node.places);
                return Written::Array(self.places_of_arrays.get(a), host);
            }
            Part::Switch(s) => return Written::Switch(&self.switches[s].name),
        };
        places.map_or(Written::First, Written::Own)
    }

    /// The host of an array: that of its members, which are entries here.
    fn host_of(&self, array: &ArrayNode) -> usize {
        let first = array.members.first().and_then(|m| m.checked_sub(1));
        first.and_then(|m| self.drives.get(m)).map_or(0, |node| node.host)
    }

    /// The whole machine, around its first drive and its first host.
    pub(crate) fn machine(&self, first: &Config) -> SystemConfig {
        if self.are_none() {
            let mut single = SystemConfig::single(drive_of(first), first.stack.clone());
            let drive = single.drives.swap_remove(0);
            let mut lists = Lists::default();
            lists.add(&drive.name, first, (drive.host, None));
            (single.drives, single.bridges) = lists.joined();
            // A network's drive is the only one.
            let unit = single.outermost(0);
            single.networks.iter_mut().for_each(|network| network.drive = unit);
            return single;
        }
        let mut hosts = vec![HostConfig { name: FIRST_HOST.into(), stack: first.stack.clone() }];
        hosts.extend(self.hosts.iter().map(|node| node.config.clone()));
        let name = self.first.clone().unwrap_or_else(|| name_of(0));
        let more = self.drives.iter().map(|n| (&*n.name, &n.config, n.host, n.switch));
        let listed = std::iter::once((&*name, first, 0, self.switch)).chain(more);
        let mut lists = Lists::default();
        let units: Vec<Unit> = listed
            .map(|(name, config, host, switch)| lists.add(name, config, (host, switch)))
            .collect();
        let (drives, bridges) = lists.joined();
        let number = |unit: &Unit| unit.number(drives.len());
        let switches = self.switches.iter().map(|node| node.config.clone()).collect();
        let network = |node: &NetworkNode| {
            // There its drive is the number of an entry.
            NetworkConfig { drive: number(&units[node.config.drive]), ..node.config.clone() }
        };
        let networks = self.networks.iter().map(network).collect();
        let of_entry = |entry: usize| number(&units[entry]);
        let array = |node: &ArrayNode| ArrayNode {
            members: node.members.iter().copied().map(of_entry).collect(),
            spare: node.spare.map(of_entry),
            journal: node.journal.map(of_entry),
            fail: node.fail.map(|(entry, at)| (of_entry(entry), at)),
            ..node.clone()
        };
        let arrays = self.arrays.iter().map(array).collect();
        SystemConfig { hosts, drives, bridges, switches, networks, arrays }
    }

    /// The entry that a drive or a bridge of the machine is of, and the key of its settings there.
    pub(crate) fn entry(&self, first: &Config, part: Part) -> (Part, String) {
        let (Part::Drive(wanted) | Part::Bridge(wanted)) = part else {
            return (part, String::new());
        };
        let of_drives = matches!(part, Part::Drive(_));
        let configs = std::iter::once(first).chain(self.drives.iter().map(|node| &node.config));
        let mut seen = 0;
        for (entry, config) in configs.enumerate() {
            let mut keys = Vec::new();
            keys_of(&config.members, "", of_drives, &mut keys);
            if seen + keys.len() > wanted {
                return (Part::Drive(entry), keys.swap_remove(wanted - seen));
            }
            seen += keys.len();
        }
        (part, String::new())
    }
}

/// A drive or a bridge, by its number in its list.
#[derive(Clone, Copy)]
enum Unit {
    Drive(usize),
    Bridge(usize),
}

impl Unit {
    /// Drives first, then bridges.
    fn number(self, drives: usize) -> usize {
        match self {
            Unit::Drive(d) => d,
            Unit::Bridge(b) => drives + b,
        }
    }
}

/// Drives and bridges of a machine as they are put together.
#[derive(Default)]
struct Lists {
    drives: Vec<DriveNode>,
    bridges: Vec<(BridgeNode, Vec<Unit>)>,
}

impl Lists {
    /// A drive, or a bridge with all that is behind it. Drives behind a bridge are named by their numbers.
    fn add(&mut self, name: &str, config: &Config, (host, switch): (usize, Option<usize>)) -> Unit {
        let Config { device, nand, ftl, members, .. } = config;
        let inside = Inside {
            name: config.device_name.clone(),
            nand: nand.clone(),
            ftl: ftl.clone(),
            device: device.clone(),
            members: members.clone(),
        };
        let unit = self.inside(name, &inside, host);
        match unit {
            Unit::Drive(d) => self.drives[d].switch = switch,
            Unit::Bridge(b) => self.bridges[b].0.switch = switch,
        }
        unit
    }

    fn inside(&mut self, name: &str, inside: &Inside, host: usize) -> Unit {
        let name = name.to_string();
        if inside.members.is_empty() {
            let Inside { nand, device, ftl, .. } = inside.clone();
            let config = DriveConfig { nand, device, ftl };
            self.drives.push(DriveNode { name, config, host, switch: None, bridge: None });
            return Unit::Drive(self.drives.len() - 1);
        }
        let members = inside.members.iter().enumerate();
        let members: Vec<Unit> =
            members.map(|(i, one)| self.inside(&format!("{name}.{i}"), one, host)).collect();
        let number = self.bridges.len();
        for member in &members {
            match member {
                Unit::Drive(d) => self.drives[*d].bridge = Some(number),
                Unit::Bridge(b) => self.bridges[*b].0.bridge = Some(number),
            }
        }
        let device = inside.device.clone();
        let (switch, bridge) = (None, None);
        let node = BridgeNode { name, device, host, switch, bridge, members: Vec::new() };
        self.bridges.push((node, members));
        Unit::Bridge(number)
    }

    fn joined(self) -> (Vec<DriveNode>, Vec<BridgeNode>) {
        let drives = self.drives.len();
        let bridges = self.bridges.into_iter().map(|(node, members)| BridgeNode {
            members: members.iter().map(|unit| unit.number(drives)).collect(),
            ..node
        });
        (self.drives, bridges.collect())
    }
}

/// Keys of the drives with flash of an entry, or of its bridges, in the order of the machine's lists.
fn keys_of(members: &[Inside], key: &str, of_drives: bool, out: &mut Vec<String>) {
    for (i, inside) in members.iter().enumerate() {
        keys_of(&inside.members, &format!("{key}members.{i}."), of_drives, out);
    }
    if of_drives == members.is_empty() {
        out.push(key.to_string());
    }
}

pub(crate) fn drive_of(config: &Config) -> DriveConfig {
    let Config { nand, device, ftl, .. } = config;
    DriveConfig { nand: nand.clone(), device: device.clone(), ftl: ftl.clone() }
}

const FIRST_HOST: &str = "host0";

fn name_of(drive: usize) -> String {
    format!("nvme{drive}n1")
}

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

/// More drives like the first, and an array of all.
pub(crate) fn arrayed(system: &mut System, level: Level, drives: u32) {
    let like = |d: u32| Node {
        name: name_of(d as usize),
        config: system.config.clone(),
        host: 0,
        switch: None,
        places: system.places.clone(),
    };
    system.nodes.drives = (1..drives).map(like).collect();
    system.nodes.arrays = vec![ArrayNode {
        name: "md0".into(),
        level,
        members: (0..drives as usize).collect(),
        size: None,
        spare: None,
        journal: None,
        fail: None,
        config: system.config.stack.md.clone(),
    }];
}

/// What is said once for all drives and hosts.
#[derive(Clone, Debug)]
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

pub(crate) fn misfit(message: String) -> Error {
    ConfigError::plain(format!("topology: {message}")).into()
}

/// An entry sets what is its own.
fn may_set(set: &[String], own: &[&str], of: &str) -> Result<(), Error> {
    let other = set.iter().find(|pair| !own.iter().any(|section| pair.trim().starts_with(section)));
    other.map_or(Ok(()), |pair| {
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
        parsed.array.iter_mut().for_each(|array| array.find_places(name, text));
        let of_drives = parsed.drive.iter_mut().flat_map(|d| [Some(&mut d.device), d.ftl.as_mut()]);
        let of_hosts = parsed.host.iter_mut().flat_map(|h| [h.stack.as_mut(), h.testbed.as_mut()]);
        let of_networks = parsed.network.iter_mut().map(|network| Some(&mut network.nbd));
        let named = of_drives.chain(of_hosts).chain(of_networks).flatten();
        named.for_each(|profile| profile.find_place(name, text));
        Ok(parsed)
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
        (a, entry): (usize, &ArrayEntry),
        drives: &[(String, System, usize, Option<usize>)],
    ) -> Result<ArrayNode, Error> {
        let name = entry.name.clone().unwrap_or_else(|| format!("md{a}"));
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
        for (i, entry) in self.drive.iter().enumerate() {
            let name = entry.name.clone().unwrap_or_else(|| name_of(i));
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
            )?;
            drives.push((name, system, host, switch.transpose()?));
        }
        if drives[0].2 != 0 {
            let (name, host) = (&drives[0].0, &hosts[0].name);
            return Err(misfit(format!(
                "drive {name}: the first drive is in {host}, which is always there: list the drives of {host} first"
            )));
        }
        let mut networks = Vec::with_capacity(self.network.len());
        for (n, entry) in self.network.iter().enumerate() {
            let name = entry.name.clone().unwrap_or_else(|| format!("nbd{n}"));
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
            let system = assemble(device, None, &host, &entry.set, &others, profiles)?;
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
                    let system = assemble(device, None, entry, &[], &others, profiles)?;
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
        let all = self.array.iter().enumerate();
        let arrays = all.map(|of| self.array(of, &drives)).collect::<Result<_, _>>()?;
        let mut drives = drives.into_iter();
        let (name, mut system, _, switch) = drives.next().expect("a topology has a drive");
        system.nodes = Nodes {
            first: Some(name).filter(|name| *name != name_of(0)),
            switch,
            drives: drives
                .map(|(name, of, host, switch)| {
                    let places = of.places;
                    Node { name, config: of.config, host, switch, places }
                })
                .collect(),
            hosts: of_hosts.split_off(1),
            switches,
            networks,
            arrays,
            places_of_arrays: self.array.iter().map(|array| array.places.clone()).collect(),
            set,
        };
        system.machine().check().map_err(|e| misfit(e.to_string()))?;
        Ok(system)
    }

    /// What entries set for themselves. What those of the first drive and host set is the system's.
    fn set(&self, hosts: &[HostEntry]) -> Vec<String> {
        let drives = self.drive.iter().enumerate().skip(1).map(|(i, entry)| {
            let name = entry.name.clone().unwrap_or_else(|| name_of(i));
            (format!("drive {name}"), &entry.set)
        });
        let hosts = hosts.iter().skip(1).map(|entry| (format!("host {}", entry.name), &entry.set));
        let networks = self.network.iter().enumerate().map(|(n, entry)| {
            let name = entry.name.clone().unwrap_or_else(|| format!("nbd{n}"));
            (format!("network {name}"), &entry.set)
        });
        let all = drives.chain(hosts).chain(networks);
        all.flat_map(|(of, set)| set.iter().map(move |pair| format!("{of}: {pair}"))).collect()
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
