//! A machine under test as data: hosts, drives, switches and networks in lists, joined by their numbers.
//!
//! ```text
//!   host 0 ──────── drive 0          a drive is in one host, at a root port of its own
//!      │  └ switch 0 ┬ drive 1       or behind a PCIe switch, whose upstream link its drives share
//!      │             └ drive 2
//!   network 0 (exports drive 0)      a network block device: host 1 has drive 0 of host 0 over it
//!      │
//!   host 1
//! ```
//!
//! What a host has of all this are disks, numbered from 0: its arrays in their order, then its own drives in
//! theirs, then its network block devices.

use serde::{Deserialize, Serialize};
use wordline_device::{DriveConfig, SwitchConfig};
use wordline_host::StackConfig;
use wordline_host::config::NbdConfig;
use wordline_md::{ArrayError, Layout, Level, MdConfig};

/// A computer: its cores and its software.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostConfig {
    pub name: String,
    /// A network block device of its own (`stack.nbd`) is an entry of [`SystemConfig::networks`] instead.
    pub stack: StackConfig,
}

/// A drive in a host.
#[derive(Clone, Debug, PartialEq)]
pub struct DriveNode {
    /// As jobs name it: `nvme0n1`.
    pub name: String,
    pub config: DriveConfig,
    /// The host that it is in.
    pub host: usize,
    /// The switch in front of it, if there is one.
    pub switch: Option<usize>,
}

/// A drive of one host that another one has as a network block device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkConfig {
    /// As the client's jobs name the device: `nbd0`.
    pub name: String,
    pub client: usize,
    pub server: usize,
    pub drive: usize,
    /// Cores of the computer that both ends are on, as two hosts. On an Ethernet they are two computers.
    pub shared_cores: Option<u32>,
    pub nbd: NbdConfig,
}

/// Drives of a host that are one disk to its jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayNode {
    /// As jobs name it: `md0`.
    pub name: String,
    pub level: Level,
    /// The drives, all in one host.
    pub members: Vec<usize>,
    /// Bytes of each that are used; none: all.
    pub size: Option<u64>,
    pub config: MdConfig,
}

/// A system under test.
#[derive(Clone, Debug, PartialEq)]
pub struct SystemConfig {
    pub hosts: Vec<HostConfig>,
    pub drives: Vec<DriveNode>,
    pub switches: Vec<SwitchConfig>,
    pub networks: Vec<NetworkConfig>,
    pub arrays: Vec<ArrayNode>,
}

/// A part of a system, by its number in the lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    Host(usize),
    Drive(usize),
    Switch(usize),
    Network(usize),
    Array(usize),
}

/// What is behind a disk of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Behind {
    Array(usize),
    Drive(usize),
    Network(usize),
}

/// A name that jobs cannot tell from another, or a number that is none of the list's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
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
        let name = "nvme0n1".to_string();
        let host = |name: &str, stack| HostConfig { name: name.into(), stack };
        match stack.ends() {
            None => SystemConfig {
                hosts: vec![host("host0", stack)],
                drives: vec![DriveNode { name, config, host: 0, switch: None }],
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
                    drives: vec![DriveNode { name, config, host: 1, switch: None }],
                    switches: Vec::new(),
                    networks: vec![network],
                    arrays: Vec::new(),
                }
            }
        }
    }

    /// The drive that jobs without a `filename` of another one use, and the host that they run on.
    pub fn drive(&self) -> &DriveConfig {
        &self.drives[0].config
    }
    pub fn stack(&self) -> &StackConfig {
        &self.hosts[0].stack
    }

    /// What is behind each disk of a host, in the order of their numbers.
    pub fn disks(&self, host: usize) -> Vec<Behind> {
        let arrays = (0..self.arrays.len()).filter(|&a| self.host_of(a) == host);
        let own = self.drives.iter().enumerate().filter(|(_, d)| d.host == host);
        let far = self.networks.iter().enumerate().filter(|(_, n)| n.client == host);
        let own = own.map(|(i, _)| Behind::Drive(i));
        arrays.map(Behind::Array).chain(own).chain(far.map(|(i, _)| Behind::Network(i))).collect()
    }
    /// The host that an array is in.
    pub fn host_of(&self, array: usize) -> usize {
        let first = self.arrays[array].members.first();
        first.and_then(|&drive| self.drives.get(drive)).map_or(0, |drive| drive.host)
    }
    /// The array that a drive is in.
    pub fn array_of(&self, drive: usize) -> Option<usize> {
        self.arrays.iter().position(|array| array.members.contains(&drive))
    }
    /// The drive at the end of it, of an array the first, and its name for jobs.
    pub fn drive_behind(&self, behind: Behind) -> (usize, &str) {
        match behind {
            Behind::Array(a) => (self.arrays[a].members[0], &self.arrays[a].name),
            Behind::Drive(d) => (d, &self.drives[d].name),
            Behind::Network(n) => (self.networks[n].drive, &self.networks[n].name),
        }
    }
    /// The number of a drive among the disks of its own host.
    pub fn disk_of(&self, drive: usize) -> u16 {
        let host = self.drives[drive].host;
        let arrays = (0..self.arrays.len()).filter(|&a| self.host_of(a) == host).count();
        let drives = self.drives[..drive].iter().filter(|d| d.host == host).count();
        (arrays + drives) as u16
    }

    /// Where the bytes of an array are on drives of so many bytes.
    pub fn layout(
        &self,
        array: usize,
        bytes: impl Fn(usize) -> u64,
    ) -> Result<Layout, TopologyError> {
        let node = &self.arrays[array];
        let of = |&d: &usize| (&*self.drives[d].name, bytes(d));
        let members: Vec<(&str, u64)> = node.members.iter().map(of).collect();
        Layout::new(node.level, node.config.chunk, &members, node.size, 0)
            .map_err(|why| TopologyError::Array { name: node.name.clone(), why })
    }

    /// Whether the lists fit each other.
    pub fn check(&self) -> Result<(), TopologyError> {
        use TopologyError as E;
        let counts = [
            ("host", self.hosts.len()),
            ("drive", self.drives.len()),
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
        for (i, drive) in self.drives.iter().enumerate() {
            there(&drive.name, "host", drive.host, self.hosts.len())?;
            let Some(switch) = drive.switch else { continue };
            there(&drive.name, "switch", switch, self.switches.len())?;
            let beside = self.drives[..i].iter().find(|d| d.switch == Some(switch));
            if let Some(other) = beside.filter(|d| d.host != drive.host) {
                return Err(E::SplitSwitch {
                    drives: format!("{} and {}", other.name, drive.name),
                });
            }
        }
        let drives = self.drives.iter().map(|drive| &drive.name);
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
            let of = |drive: usize| self.drives[drive].name.clone();
            for (m, &drive) in array.members.iter().enumerate() {
                there(name, "drive", drive, self.drives.len())?;
                let first = array.members[0];
                if array.members[..m].contains(&drive) {
                    return Err(E::Again { name: name.clone(), drive: of(drive) });
                }
                if self.drives[drive].host != self.drives[first].host {
                    return Err(E::SplitArray {
                        name: name.clone(),
                        one: of(first),
                        other: of(drive),
                    });
                }
                if let Some(before) = self.arrays[..i].iter().find(|a| a.members.contains(&drive)) {
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
        }
        for (i, network) in self.networks.iter().enumerate() {
            let name = &network.name;
            there(name, "host", network.client, self.hosts.len())?;
            there(name, "host", network.server, self.hosts.len())?;
            there(name, "drive", network.drive, self.drives.len())?;
            let drive = &self.drives[network.drive];
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
            if drive.host != network.server {
                let (drive, host) = (drive.name.clone(), self.hosts[drive.host].name.clone());
                return Err(E::NotServers { name: name.clone(), drive, host });
            }
        }
        Ok(())
    }
}
