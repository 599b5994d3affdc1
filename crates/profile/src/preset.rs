//! The profiles that come with the program.

use crate::error::{ConfigError, Problems};
use crate::tree::{Node, Value};
use wordline_base::nearest;

/// What a profile describes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A drive.
    Device,
    /// Another medium for a drive: the keys of `[nand]`.
    Media,
    /// Flash software: the keys of `[ftl]`.
    Ftl,
    /// A host's software.
    Stack,
    /// A computer.
    Testbed,
    /// A program.
    App,
    /// A file system between the stack and the drive.
    Fs,
}

impl Kind {
    /// All kinds, in the order of lists.
    pub const ALL: [Kind; 7] =
        [Kind::Device, Kind::Media, Kind::Ftl, Kind::Stack, Kind::Testbed, Kind::App, Kind::Fs];

    /// As in `[device]`, the section with a profile's name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Device => "device",
            Kind::Media => "media",
            Kind::Ftl => "ftl",
            Kind::Stack => "stack",
            Kind::Testbed => "testbed",
            Kind::App => "app",
            Kind::Fs => "fs",
        }
    }
}

/// A profile that comes with the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Preset {
    /// What it describes.
    pub kind: Kind,
    /// Its name on the command line.
    pub name: &'static str,
    /// Its TOML.
    pub text: &'static str,
}

macro_rules! presets {
    ($($kind:ident $dir:literal $name:literal)*) => {
        &[$(Preset {
            kind: Kind::$kind,
            name: $name,
            text: include_str!(concat!("../../../profiles/", $dir, "/", $name, ".toml")),
        }),*]
    };
}

static PRESETS: &[Preset] = presets! {
    Device "device" "cnex-westlake"
    Device "device" "cnex-small"
    Device "device" "z-ssd-800g"
    Device "device" "z-ssd-small"
    Device "device" "z-ssd-flashshare"
    Device "device" "z-ssd-flashshare-small"
    Device "device" "intel-750-400g"
    Device "device" "intel-750-small"
    Device "device" "p3600-2t"
    Device "device" "pm1725a-3200g"
    Device "device" "pm9a3-1920g"
    Device "device" "p41-plus-1tb"
    Device "device" "d3-s4610-480g"
    Device "device" "d3-s4610-small"
    Device "device" "bssd-400g"
    Device "device" "bssd-controller"
    Device "device" "bssd-small"
    Device "device" "fssd-430g"
    Device "device" "fssd-small"
    Media "media" "z-nand"
    Media "media" "xl-flash"
    Media "media" "bics"
    Media "media" "v-nand"
    Media "media" "optane"
    Media "media" "mram"
    Ftl "ftl" "pblk"
    Ftl "ftl" "tinytail"
    Ftl "ftl" "rail"
    Ftl "ftl" "rail-hc"
    Ftl "ftl" "rail6"
    Ftl "ftl" "fssd"
    Ftl "ftl" "firmware"
    Stack "stack" "linux-libaio"
    Stack "stack" "linux-pvsync2"
    Stack "stack" "linux-io_uring"
    Stack "stack" "interrupt"
    Stack "stack" "poll"
    Stack "stack" "hybrid"
    Stack "stack" "spdk"
    Stack "stack" "nbd-kernel"
    Stack "stack" "nbd-spdk"
    Stack "stack" "none"
    Testbed "testbed" "i7-8700"
    Testbed "testbed" "i7-4790k"
    Testbed "testbed" "i7-4790"
    Testbed "testbed" "i7-2600"
    Testbed "testbed" "gem5-arm"
    Testbed "testbed" "e5-2630v4"
    Testbed "testbed" "none"
    App "app" "rocksdb-readwhilewriting"
    App "app" "rocksdb-readwhilemerging"
    App "app" "rocksdb-bulkload"
    App "app" "rocksdb-fillrandom"
    App "app" "mongodb-ycsb-a"
    App "app" "mongodb-ycsb-b"
    App "app" "mongodb-ycsb-c"
    App "app" "mongodb-ycsb-d"
    App "app" "mongodb-ycsb-e"
    App "app" "mongodb-ycsb-f"
    App "app" "web-server"
    App "app" "kv-read"
    App "app" "kv-update"
    App "app" "pagerank"
    App "app" "sort"
    Fs "fs" "ext4"
    Fs "fs" "xfs"
    Fs "fs" "bdev"
};

/// All of them, by kind.
pub fn presets() -> &'static [Preset] {
    PRESETS
}

/// A preset has this name.
pub fn is_preset(name: &str) -> bool {
    presets().iter().any(|preset| preset.name == name)
}

/// The preset of a name, or an error with the nearest ones.
pub fn find(kind: Kind, name: &str) -> Result<&'static Preset, ConfigError> {
    let of_kind = || PRESETS.iter().filter(|p| p.kind == kind);
    of_kind().find(|p| p.name == name).ok_or_else(|| {
        let hint = nearest(name, of_kind().map(|p| p.name))
            .map_or(".".into(), |near| format!(", did you mean '{near}'?"));
        let names: Vec<_> = of_kind().map(|p| p.name).collect();
        let word = crate::tree::shorten(name);
        ConfigError::plain(format!(
            "unknown {} '{word}'{hint} Presets: {}; or give a .toml file",
            kind.name(),
            names.join(", ")
        ))
    })
}

/// The text of a preset of any kind, as written. A name used by two kinds is told apart by its
/// kind: `testbed/none`.
pub fn show(name: &str) -> Result<&'static str, ConfigError> {
    let (kind, short) = name.split_once('/').unwrap_or(("", name));
    let found =
        PRESETS.iter().find(|p| p.name == short && (kind.is_empty() || p.kind.name() == kind));
    found.map(|p| p.text).ok_or_else(|| {
        if name.ends_with(".toml") {
            return ConfigError::plain(format!(
                "'{}' is the name of a file, and these are the profiles that come with the program: wordline device \
                 check explains a file",
                crate::tree::shorten(name)
            ));
        }
        let hint = nearest(short, PRESETS.iter().map(|p| p.name))
            .map_or(": wordline device list names all".into(), |near| {
                format!(", did you mean '{near}'?")
            });
        ConfigError::plain(format!("unknown profile '{}'{hint}", crate::tree::shorten(name)))
    })
}

impl Preset {
    /// One line on what it is, from its own text.
    pub fn description(&self) -> String {
        let tree = crate::tree::parse(self.text, 0, &mut Problems::default());
        let text = |node: &Node| match &node.value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        };
        tree.as_ref()
            .and_then(|tree| text(tree.get(self.kind.name())?.get("description")?))
            .unwrap_or_default()
    }
}

/// All presets with their one-line descriptions, aligned, by kind.
pub fn list() -> String {
    let width = PRESETS.iter().map(|p| p.name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for kind in Kind::ALL {
        out += kind.name();
        out += "\n";
        for preset in PRESETS.iter().filter(|p| p.kind == kind) {
            out += &format!("  {:width$}  {}\n", preset.name, preset.description());
        }
    }
    out
}
