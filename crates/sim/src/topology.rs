//! A machine under test as data: hosts, drives, switches and networks in lists, joined by their numbers.
//!
//! ```text
//!   host 0 ──────── drive 0          a drive is in one host, at a root port of its own
//!      │  └ switch 0 ┬ drive 1       or behind a PCIe switch, whose upstream link its drives share
//!      │             └ drive 2
//!      │  └ bridge 0 ┬ drive 3       or behind a bridge, which is one disk to the host: its drives
//!      │             └ drive 4       are not
//!   network 0 (exports drive 0)      a network block device: host 1 has drive 0 of host 0 over it
//!      │
//!   host 1
//! ```
//!
//! What a host has of all this are disks, numbered from 0: its arrays in their order, then its own drives and
//! bridges in theirs, then its network block devices. A bridge is where the first of its drives is.
//!
//! Drives and bridges together are *units*, numbered through: drives first, then bridges.

use serde::{Deserialize, Serialize};
use std::ops::Range;
use wordline_base::{SectorSize, Span};
use wordline_device::{DeviceConfig, DriveConfig, Stripes, SwitchConfig};
use wordline_host::StackConfig;
use wordline_host::config::NbdConfig;
use wordline_md::{ArrayError, Layout, Level, MdConfig};

/// A computer: its cores and its software.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostConfig {
    /// As tables and messages name it.
    pub name: String,
    /// A network block device of its own (`stack.nbd`) is an entry of [`SystemConfig::networks`] instead.
    pub stack: StackConfig,
}

/// A drive in a host.
#[derive(Clone, Debug, PartialEq)]
pub struct DriveNode {
    /// As jobs name it: `nvme0n1`.
    pub name: String,
    /// Its flash, controller and FTL.
    pub config: DriveConfig,
    /// The host that it is in.
    pub host: usize,
    /// The switch in front of it, if there is one.
    pub switch: Option<usize>,
    /// The bridge in front of it, if there is one. Host and switch are the bridge's then.
    pub bridge: Option<usize>,
}

/// Drives behind a bridge, which are one to its host.
#[derive(Clone, Debug, PartialEq)]
pub struct BridgeNode {
    /// As jobs name it.
    pub name: String,
    /// Its front and, in `bridge`, how it stripes.
    pub device: DeviceConfig,
    /// The host that it is in.
    pub host: usize,
    /// The switch in front of it, if there is one.
    pub switch: Option<usize>,
    /// The bridge in front of this one.
    pub bridge: Option<usize>,
    /// Units behind it, in the order of its stripes.
    pub members: Vec<usize>,
}

/// Where a unit is behind bridges: of each from the outermost on, how it stripes, and which of its drives
/// is meant.
#[derive(Clone, Debug, Default)]
pub struct Route(Vec<(Stripes, u16)>, SectorSize);

impl Route {
    /// The sector there that is this sector of the outermost bridge; none: another drive has it.
    pub fn sector(&self, sector: u64) -> Option<u64> {
        let at = self.0.iter().try_fold(self.1.bytes_of(sector), |at, (stripes, member)| {
            let (drive, at) = stripes.place(at);
            (drive == *member).then_some(at)
        });
        at.map(|at| self.1.of(at))
    }
    /// Its part of sectors in a row of the outermost bridge.
    pub fn sectors(&self, range: Range<u64>) -> Range<u64> {
        let bytes = self.1.bytes_of(range.start)..self.1.bytes_of(range.end);
        let bytes =
            self.0.iter().fold(bytes, |bytes, (stripes, member)| stripes.share(*member, &bytes));
        self.1.of(bytes.start)..self.1.of(bytes.end)
    }
    /// Drives that share what is written to the outermost bridge.
    pub fn drives(&self) -> u64 {
        self.0.iter().map(|(stripes, _)| stripes.drives() as u64).product()
    }
}

/// A drive of one host that another one has as a network block device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkConfig {
    /// As the client's jobs name the device: `nbd0`.
    pub name: String,
    /// The host that has it as a block device.
    pub client: usize,
    /// The host that serves it.
    pub server: usize,
    /// Unit.
    pub drive: usize,
    /// Cores of the computer that both ends are on, as two hosts. On an Ethernet they are two computers.
    pub shared_cores: Option<u32>,
    /// Client, server and what is between them.
    pub nbd: NbdConfig,
}

/// Drives of a host that are one disk to its jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayNode {
    /// As jobs name it: `md0`.
    pub name: String,
    /// How its bytes are spread.
    pub level: Level,
    /// The drives, all in one host.
    pub members: Vec<usize>,
    /// Bytes of each that are used; none: all.
    pub size: Option<u64>,
    /// The drive that takes the place of a lost one.
    pub spare: Option<usize>,
    /// The drive that has the journal.
    pub journal: Option<usize>,
    /// This drive is lost so long after the start.
    pub fail: Option<(usize, Span)>,
    /// Chunk, stripe cache and the like.
    pub config: MdConfig,
}

impl ArrayNode {
    /// Its drives: members, spare and journal.
    pub fn drives(&self) -> impl Iterator<Item = usize> + '_ {
        self.members.iter().copied().chain(self.spare).chain(self.journal)
    }
}

/// A system under test.
#[derive(Clone, Debug, PartialEq)]
pub struct SystemConfig {
    /// Computers; a job runs on one of them.
    pub hosts: Vec<HostConfig>,
    /// Drives with flash of their own.
    pub drives: Vec<DriveNode>,
    /// Bridges; as units they follow the drives.
    pub bridges: Vec<BridgeNode>,
    /// PCIe switches.
    pub switches: Vec<SwitchConfig>,
    /// Drives that another host has.
    pub networks: Vec<NetworkConfig>,
    /// Drives that are one disk.
    pub arrays: Vec<ArrayNode>,
}

/// A part of a system, by its number in the lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// In `hosts`.
    Host(usize),
    /// In `drives`.
    Drive(usize),
    /// In `bridges`.
    Bridge(usize),
    /// In `switches`.
    Switch(usize),
    /// In `networks`.
    Network(usize),
    /// In `arrays`.
    Array(usize),
}

/// What is behind a disk of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Behind {
    /// An array, by its number.
    Array(usize),
    /// A drive or a bridge, by its unit.
    Drive(usize),
    /// A network block device, by its number.
    Network(usize),
}

/// A name that jobs cannot tell from another, or a number that is none of the list's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
pub enum TopologyError {
    #[error("host {0} has no drive, and none over a network: jobs on it would have nothing to do")]
    Empty(String),
    #[error("'{0}' is no name that a job can write in filename=: leave out / and :")]
    Name(String),
    #[error("a machine needs at least one {0}")]
    None(&'static str),
    #[error("{most} {what}s are the most that can be told apart, there are {count}")]
    TooMany { what: &'static str, most: usize, count: usize },
    #[error("{of} is joined to {what} {number}, and there are {count}")]
    Missing { of: String, what: &'static str, number: usize, count: usize },
    #[error("two {what}s are named {name}: give each a name of its own")]
    Twice { what: &'static str, name: String },
    #[error("network {name}: drive {drive} is in host {host}, which is not its server")]
    NotServers { name: String, drive: String, host: String },
    #[error(
        "network {0}: its server has the pages of another network already: set stack.nbd.page_cache=false for \
         all but one"
    )]
    Pages(String),
    #[error("network {name}: its server {host} has a file system: set stack.nbd.page_cache=false")]
    PagesOfFiles { name: String, host: String },
    #[error("array {name}: {why}")]
    Array { name: String, why: ArrayError },
    #[error("array {name}: {drive} is in it twice: name each drive once")]
    Again { name: String, drive: String },
    #[error("{drive} is a drive of both {one} and {other}: a drive is in one array")]
    TwoArrays { drive: String, one: String, other: String },
    #[error("array {name}: its drives are in different hosts: {one} and {other}")]
    SplitArray { name: String, one: String, other: String },
    #[error(
        "network {network} exports {drive}, which is in array {array}: export a drive of no array"
    )]
    Exported { network: String, drive: String, array: String },
    #[error("bridge {0} has no drives: name one at least")]
    EmptyBridge(String),
    #[error("bridge {bridge}: {unit} is not behind it alone")]
    NotBehind { bridge: String, unit: String },
    #[error("array {name}: {what} is for an array with parity, and this is {level}: take raid5")]
    NoParity { name: String, what: String, level: &'static str },
    #[error(
        "array {name}: the spare {spare} has {has} bytes, and {needs} of {first} are used: a spare of that size"
    )]
    SmallSpare { name: String, spare: String, has: u64, first: String, needs: u64 },
    #[error("array {0}: a journal closes the write hole by itself: leave out bitmap, as md does")]
    BothGuards(String),
    #[error("array {name}: fail names {drive}, which is none of its members")]
    NoMember { name: String, drive: String },
    #[error("network {0}: its client is its server")]
    Loop(String),
    #[error("drives {drives} are in different hosts, and one switch is in front of them")]
    SplitSwitch { drives: String },
}

/// Numbers of hosts, drives and networks in events are 8 bits wide.
const MOST: usize = 255;

impl SystemConfig {
    /// One drive in one host. Where the stack has a network block device, the host is two: jobs run on
    /// the client.
    pub fn single(drive: DriveConfig, stack: StackConfig) -> SystemConfig {
        let config = drive;
        let name = if config.device.sata.is_some() { "sda" } else { "nvme0n1" }.to_string();
        let host = |name: &str, stack| HostConfig { name: name.into(), stack };
        match stack.ends() {
            None => SystemConfig {
                hosts: vec![host("host0", stack)],
                drives: vec![DriveNode { name, config, host: 0, switch: None, bridge: None }],
                bridges: Vec::new(),
                switches: Vec::new(),
                networks: Vec::new(),
                arrays: Vec::new(),
            },
            Some((client, server)) => {
                let nbd = stack.nbd.expect("a stack with ends has it");
                let network = NetworkConfig {
                    name: "nbd0".into(),
                    client: 0,
                    server: 1,
                    drive: 0,
                    shared_cores: Some(stack.cores),
                    nbd,
                };
                SystemConfig {
                    hosts: vec![host("client", client), host("server", server)],
                    drives: vec![DriveNode { name, config, host: 1, switch: None, bridge: None }],
                    bridges: Vec::new(),
                    switches: Vec::new(),
                    networks: vec![network],
                    arrays: Vec::new(),
                }
            }
        }
    }

    /// A bridge by its unit.
    pub fn bridge(&self, unit: usize) -> Option<&BridgeNode> {
        self.bridges.get(unit.checked_sub(self.drives.len())?)
    }
    /// The name of a unit.
    pub fn name(&self, unit: usize) -> &str {
        self.bridge(unit).map_or_else(|| &self.drives[unit].name, |bridge| &bridge.name)
    }
    /// What a unit is to its host.
    pub fn device(&self, unit: usize) -> &DeviceConfig {
        self.bridge(unit).map_or_else(|| &self.drives[unit].config.device, |bridge| &bridge.device)
    }
    /// The sector of a unit's flash; drives behind a bridge have one size.
    pub fn sector(&self, unit: usize) -> SectorSize {
        let mut unit = unit;
        while let Some(bridge) = self.bridge(unit) {
            unit = bridge.members[0];
        }
        // A drive of another size would not be there.
        self.drives[unit].config.nand.sector().unwrap_or_default()
    }
    /// The host of a drive or a bridge.
    pub fn host_of_unit(&self, unit: usize) -> usize {
        self.bridge(unit).map_or_else(|| self.drives[unit].host, |bridge| bridge.host)
    }
    /// The bridge in front of a unit, and the unit's number there.
    pub fn in_front(&self, unit: usize) -> Option<(usize, u16)> {
        let bridge = match self.bridge(unit) {
            Some(bridge) => bridge.bridge?,
            None => self.drives[unit].bridge?,
        };
        let member = self.bridges[bridge].members.iter().position(|m| *m == unit)?;
        Some((bridge, member as u16))
    }
    /// What the host has that a unit is behind, or is.
    pub fn outermost(&self, unit: usize) -> usize {
        let mut unit = unit;
        while let Some((bridge, _)) = self.in_front(unit) {
            unit = self.drives.len() + bridge;
        }
        unit
    }
    /// Where a unit is behind bridges that stripe so.
    pub fn route(&self, unit: usize, stripes: &[Stripes]) -> Route {
        let (mut unit, mut steps) = (unit, Vec::new());
        while let Some((bridge, member)) = self.in_front(unit) {
            steps.insert(0, (stripes[bridge], member));
            unit = self.drives.len() + bridge;
        }
        Route(steps, self.sector(unit))
    }
    /// Drives and bridges that a host sees, in their order.
    pub fn seen(&self) -> Vec<usize> {
        let mut all: Vec<usize> = Vec::with_capacity(self.drives.len());
        for drive in 0..self.drives.len() {
            let unit = self.outermost(drive);
            if !all.contains(&unit) {
                all.push(unit);
            }
        }
        all
    }

    /// What is behind each disk of a host, in the order of their numbers.
    pub fn disks(&self, host: usize) -> Vec<Behind> {
        let arrays = (0..self.arrays.len()).filter(|&a| self.host_of(a) == host);
        let own = self.seen().into_iter().filter(|unit| self.host_of_unit(*unit) == host);
        let far = self.networks.iter().enumerate().filter(|(_, n)| n.client == host);
        let own = own.map(Behind::Drive);
        arrays.map(Behind::Array).chain(own).chain(far.map(|(i, _)| Behind::Network(i))).collect()
    }
    /// The host that an array is in.
    pub fn host_of(&self, array: usize) -> usize {
        let first = self.arrays[array].members.first();
        first.map_or(0, |&unit| self.host_of_unit(unit))
    }
    /// The array that a unit is in.
    pub fn array_of(&self, unit: usize) -> Option<usize> {
        self.arrays.iter().position(|array| array.drives().any(|d| d == unit))
    }
    /// The unit at the end of it, of an array the first, and its name for jobs.
    pub fn drive_behind(&self, behind: Behind) -> (usize, &str) {
        match behind {
            Behind::Array(a) => (self.arrays[a].members[0], &self.arrays[a].name),
            Behind::Drive(d) => (d, self.name(d)),
            Behind::Network(n) => (self.networks[n].drive, &self.networks[n].name),
        }
    }
    /// The number of a unit among the disks of its own host.
    pub fn disk_of(&self, unit: usize) -> u16 {
        let disks = self.disks(self.host_of_unit(unit));
        disks.iter().position(|disk| *disk == Behind::Drive(unit)).unwrap_or(0) as u16
    }

    /// Where the bytes of an array are on drives of so many bytes.
    pub fn layout(
        &self,
        array: usize,
        bytes: impl Fn(usize) -> u64,
    ) -> Result<Layout, TopologyError> {
        let node = &self.arrays[array];
        let of = |&d: &usize| (self.name(d), bytes(d));
        let members: Vec<(&str, u64)> = node.members.iter().map(of).collect();
        if let (Some(spare), Some(&(first, least))) =
            (node.spare, members.iter().min_by_key(|m| m.1))
        {
            let (has, needs) = (bytes(spare), node.size.unwrap_or(least));
            if has < needs {
                let (name, spare) = (node.name.clone(), self.name(spare).to_string());
                return Err(TopologyError::SmallSpare {
                    name,
                    spare,
                    has,
                    first: first.into(),
                    needs,
                });
            }
        }
        let kept = if node.level.parities() > 0 { node.config.kept() } else { 0 };
        Layout::new(node.level, node.config.chunk, &members, node.size, kept)
            .map_err(|why| TopologyError::Array { name: node.name.clone(), why })
    }

    /// Whether the lists fit each other.
    pub fn check(&self) -> Result<(), TopologyError> {
        use TopologyError as E;
        let counts = [
            ("host", self.hosts.len()),
            ("drive", self.drives.len()),
            ("drives and bridge", self.drives.len() + self.bridges.len()),
            ("network", self.networks.len()),
        ];
        for (what, count) in counts {
            match count {
                0 if what != "network" => return Err(E::None(what)),
                n if n > MOST => return Err(E::TooMany { what, most: MOST, count: n }),
                _ => {}
            }
        }
        let there = |of: &str, what, number: usize, count: usize| match number < count {
            true => Ok(()),
            false => Err(E::Missing { of: of.into(), what, number, count }),
        };
        let units = self.drives.len() + self.bridges.len();
        for (b, bridge) in self.bridges.iter().enumerate() {
            if bridge.members.is_empty() {
                return Err(E::EmptyBridge(bridge.name.clone()));
            }
            for &member in &bridge.members {
                there(&bridge.name, "unit", member, units)?;
                let front = match self.bridge(member) {
                    Some(inner) => inner.bridge,
                    None => self.drives[member].bridge,
                };
                // Each is behind one bridge, and bridges inside come first.
                if front != Some(b) || member >= self.drives.len() + b {
                    let (bridge, unit) = (bridge.name.clone(), self.name(member).to_string());
                    return Err(E::NotBehind { bridge, unit });
                }
            }
        }
        let fronts = self.drives.iter().map(|d| (&d.name, d.host, d.switch));
        let fronts = fronts.chain(self.bridges.iter().map(|b| (&b.name, b.host, b.switch)));
        let fronts: Vec<_> = fronts.collect();
        for (i, &(name, host, switch)) in fronts.iter().enumerate() {
            there(name, "host", host, self.hosts.len())?;
            let Some(switch) = switch else { continue };
            there(name, "switch", switch, self.switches.len())?;
            let beside = fronts[..i].iter().find(|d| d.2 == Some(switch));
            if let Some(other) = beside.filter(|d| d.1 != host) {
                return Err(E::SplitSwitch { drives: format!("{} and {name}", other.0) });
            }
        }
        let drives = fronts.iter().map(|front| front.0);
        let arrays = self.arrays.iter().map(|array| &array.name);
        let networks = self.networks.iter().map(|n| &n.name);
        let names: Vec<&String> = drives.chain(networks).chain(arrays).collect();
        for (i, name) in names.iter().enumerate() {
            if names[..i].contains(name) {
                return Err(E::Twice { what: "drive, network or array", name: name.to_string() });
            }
            if name.is_empty() || name.contains(['/', ':']) {
                return Err(E::Name(name.to_string()));
            }
        }
        for (i, host) in self.hosts.iter().enumerate() {
            if self.hosts[..i].iter().any(|h| h.name == host.name) {
                return Err(E::Twice { what: "host", name: host.name.clone() });
            }
        }
        for (i, array) in self.arrays.iter().enumerate() {
            let name = &array.name;
            let of = |unit: usize| self.name(unit).to_string();
            let all: Vec<usize> = array.drives().collect();
            for (m, &drive) in all.iter().enumerate() {
                there(name, "drive", drive, units)?;
                let first = all[0];
                if all[..m].contains(&drive) {
                    return Err(E::Again { name: name.clone(), drive: of(drive) });
                }
                if self.host_of_unit(drive) != self.host_of_unit(first) {
                    return Err(E::SplitArray {
                        name: name.clone(),
                        one: of(first),
                        other: of(drive),
                    });
                }
                if let Some(before) =
                    self.arrays[..i].iter().find(|a| a.drives().any(|d| d == drive))
                {
                    let (one, other) = (before.name.clone(), name.clone());
                    return Err(E::TwoArrays { drive: of(drive), one, other });
                }
                if let Some(network) = self.networks.iter().find(|n| n.drive == drive) {
                    let (network, array) = (network.name.clone(), name.clone());
                    return Err(E::Exported { network, drive: of(drive), array });
                }
            }
            let least = 1 + 2 * array.level.parities();
            let count = array.members.len() as u32;
            if count < least {
                let why = ArrayError::TooFew { level: array.level.name(), least, count };
                return Err(E::Array { name: name.clone(), why });
            }
            let gc = format!("gc = {}", array.config.gc.name());
            let asks = [
                ("a spare", array.spare.is_some()),
                ("a journal", array.journal.is_some()),
                ("a drive that is lost", array.fail.is_some()),
                ("a bitmap", array.config.bitmap > 0),
                (&*gc, array.config.gc.goes_around()),
            ];
            if let (0, Some((what, _))) =
                (array.level.parities(), asks.iter().find(|(_, asks)| *asks))
            {
                let (name, what) = (name.clone(), what.to_string());
                return Err(E::NoParity { name, what, level: array.level.name() });
            }
            if array.journal.is_some() && array.config.bitmap > 0 {
                return Err(E::BothGuards(name.clone()));
            }
            if let Some((drive, _)) = array.fail.filter(|(drive, _)| !array.members.contains(drive))
            {
                let drive = of(drive);
                return Err(E::NoMember { name: name.clone(), drive });
            }
        }
        for (i, network) in self.networks.iter().enumerate() {
            let name = &network.name;
            there(name, "host", network.client, self.hosts.len())?;
            there(name, "host", network.server, self.hosts.len())?;
            there(name, "drive", network.drive, units)?;
            if network.client == network.server {
                return Err(E::Loop(name.clone()));
            }
            let mut before = self.networks[..i].iter().filter(|n| n.server == network.server);
            if network.nbd.cache.is_some() && before.any(|n| n.nbd.cache.is_some()) {
                return Err(E::Pages(name.clone()));
            }
            if network.nbd.cache.is_some() && self.hosts[network.server].stack.fs.is_some() {
                let host = self.hosts[network.server].name.clone();
                return Err(E::PagesOfFiles { name: name.clone(), host });
            }
            let host = self.host_of_unit(network.drive);
            if host != network.server {
                let (drive, host) =
                    (self.name(network.drive).into(), self.hosts[host].name.clone());
                return Err(E::NotServers { name: name.clone(), drive, host });
            }
        }
        Ok(())
    }
}
