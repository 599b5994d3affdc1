//! What a system has beside its first drive and its first host, and the machine that all of them are.

use crate::{Entries, Scaled, System};
use std::collections::BTreeMap;
use wordline_device::{DriveConfig, SwitchConfig};
use wordline_md::Level;
use wordline_profile::{Config, Inside, Places};
use wordline_sim::{
    ArrayNode, BridgeNode, DriveNode, HostConfig, NetworkConfig, Part, SystemConfig,
};

/// A drive of several.
#[derive(Clone, Debug)]
pub struct Node {
    /// As jobs name it.
    pub name: String,
    /// What its profiles say; its stack is its host's.
    pub config: Config,
    /// The number of the host that it is in.
    pub host: usize,
    /// The number of the switch in front of it.
    pub switch: Option<usize>,
    /// How it was cut.
    pub(crate) scale: Option<Scaled>,
    pub(crate) places: Places,
}

/// A host of several.
#[derive(Clone, Debug)]
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
#[derive(Clone, Debug)]
pub struct SwitchNode {
    /// As drives name it in the file.
    pub name: String,
    /// What it is.
    pub config: SwitchConfig,
}

/// A network and the drive that it exports.
#[derive(Clone, Debug)]
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
#[derive(Clone, Debug, Default)]
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
    /// What the entries of all these say for themselves, as `drive nvme1n1: key=value`.
    pub set: Vec<String>,
    /// What of this the first drive and the first host say: the system's overrides have it as well.
    pub(crate) set_of_first: Vec<String>,
    /// The file that has these entries.
    pub entries: Entries,
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

/// The host that is always there.
pub(crate) const FIRST_HOST: &str = "host0";

/// The name of a drive that is given none.
pub(crate) fn name_of(drive: usize) -> String {
    format!("nvme{drive}n1")
}

/// More drives like the first, and an array of all.
pub(crate) fn arrayed(system: &mut System, level: Level, drives: u32) {
    let like = |d: u32| Node {
        name: name_of(d as usize),
        config: system.config.clone(),
        host: 0,
        switch: None,
        scale: system.scale.clone(),
        places: system.places.clone(),
    };
    system.nodes.drives = (1..drives).map(like).collect();
    let name = "md0";
    system.nodes.set = vec![format!("array {name}: level={}", level.name())];
    system.nodes.arrays = vec![ArrayNode {
        name: name.into(),
        level,
        members: (0..drives as usize).collect(),
        size: None,
        spare: None,
        journal: None,
        fail: None,
        config: system.config.stack.md.clone(),
    }];
}
