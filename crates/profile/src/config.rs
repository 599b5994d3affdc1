//! Sources and overrides in, one [`Config`] out.

mod load;
mod overrides;
mod settings;

pub use overrides::host_memory;
pub use settings::{
    PathKind, paths, resolved_device, resolved_stack, resolved_toml, settings, value_at,
};

pub(crate) use load::{Loaded, Opened, load, open};

use crate::bridge;
use crate::de::{Naming, fields_of, read};
use crate::error::{ConfigError, Place, Problems};
use crate::flashshare::SYSTEM;
use crate::preset::Kind;
use crate::tree::{Entry, Node, Table, Value, parse, shorten};
use overrides::{apply, apply_from, as_given, lay};
use serde::{Deserialize, Serialize};
use settings::value_of;
use wordline_app::AppConfig;
use wordline_base::IdVec;
use wordline_device::DeviceConfig;
use wordline_ftl::FtlConfig;
use wordline_host::StackConfig;
use wordline_nand::{Geometry, NandConfig};

/// A whole system under test, ready to be built.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Config {
    /// The device's profile.
    pub device_name: String,
    /// The FTL profile, or `default` for the device's own `[ftl]`.
    pub ftl_name: String,
    /// The stack's profile.
    pub stack_name: String,
    /// The testbed's profile.
    pub testbed_name: String,
    /// The program's profile, empty without one.
    #[serde(default)]
    pub app_name: String,
    /// `[nand]`.
    pub nand: NandConfig,
    /// `[ftl]`.
    pub ftl: FtlConfig,
    /// `[device]`.
    pub device: DeviceConfig,
    /// The drives behind it, if it is a bridge. `nand` and `ftl` are those of the first with flash.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Inside>,
    /// `[stack]`.
    pub stack: StackConfig,
    /// A program as workload.
    #[serde(default)]
    pub app: Option<AppConfig>,
    /// Programs beside it, or beside jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<Beside>,
}

/// A drive behind a bridge, or a bridge behind one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Inside {
    /// The name of its profile.
    pub name: String,
    /// `[nand]`.
    pub nand: NandConfig,
    /// `[ftl]`.
    pub ftl: FtlConfig,
    /// `[device]`.
    pub device: DeviceConfig,
    /// The drives behind it, if it is a bridge.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Inside>,
}

/// A program beside others, which ends with them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Beside {
    /// Its own among the programs of the run.
    pub name: String,
    /// What it is and does.
    pub app: AppConfig,
}

impl Config {
    /// The same with a drive behind the bridge in place of the bridge.
    pub fn of_member(&self, inside: &Inside) -> Config {
        Config {
            device_name: inside.name.clone(),
            nand: inside.nand.clone(),
            ftl: inside.ftl.clone(),
            device: inside.device.clone(),
            members: inside.members.clone(),
            ..self.clone()
        }
    }
    /// All of it as TOML, for `from_text`. A person is shown `resolved_toml`.
    pub fn to_text(&self) -> String {
        toml::to_string(&value_of(self)).expect("a table of plain values is TOML")
    }
    /// What `to_text` gave.
    pub fn from_text(text: &str) -> Result<Config, ConfigError> {
        let mut problems = Problems::of(vec!["configuration".into()].into());
        let at = Place { source: 0, line: 1, column: 1 };
        let mut root = Node::table(at);
        if let (Some(node), Value::Table(table)) = (parse(text, 0, &mut problems), &mut root.value)
        {
            table.insert("config".into(), Entry { key_at: at, node });
        }
        let config = read(&mut root, "config", &mut problems, &|path, _| format!("[{path}]"));
        problems.into_result()?;
        Ok(config.expect("what is not read has a problem"))
    }
    /// What runs: the program, then those beside it.
    pub fn programs(&self) -> impl Iterator<Item = (&str, &AppConfig)> {
        let app = self.app.iter().map(|app| (self.app_name.as_str(), app));
        app.chain(self.with.iter().map(|beside| (beside.name.as_str(), &beside.app)))
    }
}

/// Where a profile comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source<'a> {
    /// One that comes with the program, by name.
    Preset(&'a str),
    /// A file the caller has read; the name is for errors.
    File {
        /// Its name.
        name: &'a str,
        /// Its TOML.
        text: &'a str,
    },
}

/// Reads the files that profiles name, by the way to them from where the program runs.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> std::io::Result<String>;

/// What a configuration is put together from.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The device.
    pub device: Source<'a>,
    /// Policy keys laid over the device's `[ftl]`.
    pub ftl: Option<Source<'a>>,
    /// The host's software.
    pub stack: Source<'a>,
    /// Absent: the one the stack names, or `i7-8700`.
    pub testbed: Option<Source<'a>>,
    /// A program as workload.
    pub app: Option<Source<'a>>,
    /// Programs beside it, or beside jobs, and what is set over the profile of each: `key=value`, joined by
    /// commas. A key is one of the program itself or one of `[app]`.
    pub with: &'a [(Source<'a>, &'a str)],
    /// A file system on the drive; without one jobs address the drive itself.
    pub fs: Option<Source<'a>>,
    /// Absent: profiles may name presets alone.
    pub files: Option<ReadFile<'a>>,
}

impl<'a> Sources<'a> {
    /// Presets by name, with the device's own FTL settings and the stack's own testbed.
    pub fn presets(device: &'a str, stack: &'a str) -> Sources<'a> {
        Sources {
            device: Source::Preset(device),
            ftl: None,
            stack: Source::Preset(stack),
            testbed: None,
            app: None,
            with: &[],
            fs: None,
            files: None,
        }
    }
}

/// The testbed of the newest of the latency studies, and the one calibrated in most detail.
const DEFAULT_TESTBED: &str = "i7-8700";

/// Parses, merges and checks. Overrides are `path=value`, applied in order, later ones over earlier.
pub fn assemble(sources: Sources<'_>, overrides: &[String]) -> Result<Config, ConfigError> {
    assemble_with_places(sources, overrides).map(|(config, _)| config)
}

/// Where each setting of a [`Config`] was written, for errors found after it was assembled.
#[derive(Clone, Debug)]
pub struct Places {
    tree: Node,
    sources: IdVec<u32, String>,
}

impl Places {
    /// The places of a configuration whose text is not at hand.
    pub fn none() -> Places {
        let at = Place { source: 0, line: 0, column: 0 };
        Places { tree: Node::table(at), sources: vec![String::new()].into() }
    }

    /// Gives sources another name, those for which there is one: what stands in a list is no `--set`.
    pub fn rename(&mut self, name: impl Fn(&str) -> Option<String>) {
        for source in self.sources.iter_mut() {
            if let Some(other) = name(source) {
                *source = other;
            }
        }
    }

    /// `message` with the place of the setting at `path`, for example `ftl.buffer_sectors`, or of its
    /// section if it was left to its default.
    pub fn error(&self, path: &str, message: &str) -> ConfigError {
        let at = self.tree.deepest(path).at;
        let key = path.rsplit('.').next().unwrap_or(path);
        let mut problems = Problems::of(self.sources.clone());
        problems.add(at, format!("'{key}' {message}"));
        problems.into_result().expect_err("one was added")
    }
}

/// [`assemble`], and where everything came from.
pub fn assemble_with_places(
    sources: Sources<'_>,
    overrides: &[String],
) -> Result<(Config, Places), ConfigError> {
    let (mut problems, files) = (Problems::default(), sources.files);
    let device = load(Kind::Device, sources.device, files, &mut problems)?;
    let ftl = sources.ftl.map(|s| load(Kind::Ftl, s, files, &mut problems)).transpose()?;
    let stack = load(Kind::Stack, sources.stack, files, &mut problems)?;
    let own_testbed = stack.as_ref().and_then(|s| s.testbed.clone());
    let testbed = match (sources.testbed, &own_testbed) {
        (Some(source), _) => load(Kind::Testbed, source, files, &mut problems)?,
        (None, Some(named)) => {
            match open(Kind::Testbed, named, "testbed", files, &[], &mut problems) {
                Some(opened) => load(Kind::Testbed, opened.source(), files, &mut problems)?,
                None => None,
            }
        }
        (None, None) => load(Kind::Testbed, Source::Preset(DEFAULT_TESTBED), files, &mut problems)?,
    };
    let app = sources.app.map(|s| load(Kind::App, s, files, &mut problems)).transpose()?;
    let fs = sources.fs.map(|s| load(Kind::Fs, s, files, &mut problems)).transpose()?;
    // Without all the text there is no telling what is missing from it.
    let (Some(device), Some(stack), Some(testbed)) = (device, stack, testbed) else {
        return Err(problems.into_result().expect_err("an unreadable source is a problem"));
    };
    if matches!(ftl, Some(None)) || matches!(app, Some(None)) || matches!(fs, Some(None)) {
        return Err(problems.into_result().expect_err("an unreadable source is a problem"));
    }
    let (ftl, app, fs) = (ftl.flatten(), app.flatten(), fs.flatten());
    let has_app = app.is_some();
    let names = [
        device.name,
        // What every device has that names none.
        ftl.as_ref().map_or("pblk".into(), |f| f.name.clone()),
        stack.name,
        testbed.name,
        app.as_ref().map_or(String::new(), |a| a.name.clone()),
    ];
    let testbed_source = testbed.source;
    let mut tree = device.tree;
    let top = problems.file_of(device.source).map(String::from);
    // An FTL that is asked for is that one, whatever kind the device has.
    let chosen = ftl.is_some();
    if chosen {
        for kind in ["ftl.fssd", "ftl.firmware"] {
            tree.remove(kind);
        }
    }
    let own = [testbed.tree, stack.tree].into_iter().chain(fs.map(|f| f.tree));
    for part in ftl.map(|f| f.tree).into_iter().chain(own).chain(app.map(|a| a.tree)) {
        tree.merge(part);
    }
    let (words, others): (Vec<&String>, Vec<&String>) = overrides.iter().partition(|text| {
        text.split_once('=').is_some_and(|(path, _)| [MEDIA, ON_HOST].contains(&path.trim()))
    });
    words.into_iter().for_each(|text| apply(text, &mut tree, &mut problems));
    // Those of drives behind a bridge are done drive by drive.
    let mut swapped = false;
    if !bridge::is_bridge(&tree) {
        // What is set beside the word says what it divides; an error in that is told below.
        let mut aside = Problems::default();
        let mut set = |tree: &Node| {
            let mut whole = tree.clone();
            others.iter().for_each(|text| apply(text, &mut whole, &mut aside));
            whole
        };
        let gang = channels_of_gang(&set(&tree));
        swapped = swap_media(&mut tree, gang, files, &mut problems)?;
        let whole = set(&tree);
        place_parts(&mut tree, &whole, &mut problems);
    }
    let (caches, others): (Vec<&String>, Vec<&String>) = others
        .into_iter()
        .partition(|text| text.split_once('=').is_some_and(|(path, _)| path.trim() == SERVED));
    caches.into_iter().for_each(|text| apply(text, &mut tree, &mut problems));
    cache_served(&mut tree, &mut problems)?;
    let (systems, others): (Vec<&String>, Vec<&String>) = others
        .into_iter()
        .partition(|text| text.split_once('=').is_some_and(|(path, _)| path.trim() == SYSTEM));
    // A drive without a cache has no partition of it anyway: a system is made without one.
    let has_cache =
        tree.get("device").and_then(|d| d.get("cache")).is_some_and(|c| c.as_table().is_some());
    let is_needless = |text: &&String| {
        let (path, value) = text.split_once('=').unwrap_or_default();
        !has_cache && path.trim() == "cache.partition" && value.trim() == "none"
    };
    let (needless, others): (Vec<&String>, Vec<&String>) =
        others.into_iter().partition(is_needless);
    for text in systems {
        let name = text.split_once('=').map_or("", |(_, name)| name.trim());
        let source = problems.source(format!("--system {}", shorten(name)));
        // What is set beside it says what it is made for; an error in that is told below.
        let mut whole = tree.clone();
        let mut aside = Problems::default();
        others.iter().for_each(|text| apply(text, &mut whole, &mut aside));
        match crate::flashshare::overrides(name, &whole, !needless.is_empty()) {
            Ok(set) => {
                set.iter().for_each(|text| apply_from(source, text, &mut tree, &mut problems));
            }
            Err(error) => {
                problems.add(Place { source, line: 0, column: 0 }, error.to_string());
            }
        }
    }
    for text in &others {
        // A setting of another kind of FTL would make the drive's that kind.
        let (set, given) = as_given(text);
        let path = set.split_once('=').map_or(set.as_str(), |(path, _)| path).trim();
        let mut sections = KINDS.map(|kind| (kind, kind)).into_iter().chain([("cost.map", "fssd")]);
        let foreign = sections.find(|(section, kind)| {
            path.strip_prefix("ftl.")
                .and_then(|p| p.strip_prefix(section))
                .is_some_and(|p| p.starts_with('.'))
                && !bridge::has_kind(&tree, kind, files, &problems)
        });
        let foreign = foreign.map(|(_, kind)| kind);
        let message = match foreign {
            Some(kind) => {
                Some(format!("the drive's FTL is not '{kind}': take --ftl {kind} with it"))
            }
            None => overrides::lacks(path, &tree, &others),
        };
        match message {
            None => apply(text, &mut tree, &mut problems),
            Some(message) => {
                let source = problems.source(given);
                problems.add(Place { source, line: 0, column: 0 }, message);
            }
        }
    }
    // To know it of a bridge takes the files behind it.
    let mut kinds = KINDS.into_iter();
    let other = match others.is_empty() {
        true => None,
        false => kinds.find(|kind| bridge::has_kind(&tree, kind, files, &problems)),
    };
    for (text, kind) in others.iter().filter_map(|text| Some((text, other?))) {
        let path = text.split_once('=').map_or("", |(path, _)| path.trim());
        let key = path.strip_prefix("ftl.").map_or("", |key| key.split('.').next().unwrap_or(""));
        if fields_of::<FtlConfig>().contains(&key) && !NOT_PBLKS_ALONE.contains(&key) {
            let source = problems.source(format!("--set {}", shorten(text)));
            let message = format!(
                "'{key}' is of pblk, and the drive's FTL is '{kind}': take --ftl pblk with it, or a setting \
                 of ftl.{kind}"
            );
            problems.add(Place { source, line: 0, column: 0 }, message);
        }
    }
    // What says which FTL the drive has, or how it is, is not undone by a medium.
    let asked = chosen || others.iter().any(|text| text.trim().starts_with("ftl.firmware"));
    // Numbers that no type holds stand as 0 in the tree: nothing to judge.
    let mut whole = problems.is_empty();
    let members = bridge::members(&mut tree, top, files, &mut problems)?;
    whole &= problems.is_empty();

    let first = if has_app { names[4].clone() } else { String::new() };
    let beside = beside(sources.with, &first, files, &mut problems)?;
    let naming = |path: &str, at: Place| {
        let path = path.strip_prefix("device.").unwrap_or(path);
        match path.strip_prefix("stack") {
            Some(rest) if at.source == testbed_source => format!("[testbed{rest}]"),
            _ => format!("[{path}]"),
        }
    };
    let naming: Naming<'_> = &naming;
    let nand = read::<NandConfig>(&mut tree, "nand", &mut problems, naming);
    let ftl = read::<FtlConfig>(&mut tree, "ftl", &mut problems, naming);
    let device = read::<DeviceConfig>(&mut tree, "device", &mut problems, naming);
    let stack = read::<StackConfig>(&mut tree, "stack", &mut problems, naming);
    let app = match has_app {
        true => read::<AppConfig>(&mut tree, "app", &mut problems, naming).map(Some),
        false => Some(None),
    };
    let (Some(nand), Some(mut ftl), Some(device), Some(stack), Some(app)) =
        (nand, ftl, device, stack, app)
    else {
        return Err(problems
            .into_result()
            .expect_err("a section that cannot be read is a problem"));
    };
    let [device_name, ftl_name, stack_name, testbed_name, app_name] = names;
    if swapped && !asked {
        without_firmware(&nand, &mut ftl);
    }
    // It has none of the keys of other FTLs but cost and over-provisioning.
    let ftl_name = match (&ftl.fssd, &ftl.firmware) {
        (Some(_), _) => "fssd".into(),
        (None, Some(_)) => "firmware".into(),
        (None, None) => ftl_name,
    };
    // What a drive behind the bridge may be wrong by.
    let over: Vec<_> = members.iter().map(bridge::Member::over).collect();
    let members = members.into_iter().map(|member| member.read(&mut tree, asked, &mut problems));
    let Some(members) = members.collect::<Vec<_>>().into_iter().collect::<Option<Vec<_>>>() else {
        return Err(problems
            .into_result()
            .expect_err("a section that cannot be read is a problem"));
    };
    let config = Config {
        device_name,
        ftl_name,
        stack_name,
        testbed_name,
        app_name,
        nand,
        ftl,
        device,
        members,
        stack,
        app,
        with: Vec::new(),
    };
    let Some(config) = with_beside(config, beside, &mut tree, &mut problems) else {
        return Err(problems
            .into_result()
            .expect_err("a program that cannot be read is a problem"));
    };
    if whole {
        let told = crate::check::check(&config);
        for (path, message) in &told {
            // An unset value has no place of its own: its section's.
            problems.add(tree.deepest(path).at, message.clone());
        }
        for (i, inside) in config.members.iter().enumerate() {
            let (inside, below) = (config.of_member(inside), format!("members.{i}"));
            if check_member(&inside, &below, (&tree, &told), &mut problems)
                && let Some((at, text)) = over[i].clone()
            {
                problems.add(at, text);
            }
        }
    }
    let places = Places { tree, sources: problems.sources.clone() };
    problems.into_result().map(|()| (config, places))
}

/// What is wrong with a drive behind a bridge, whose text is kept at `below`, and whether that is more than
/// what was `told` of the whole.
fn check_member(
    config: &Config,
    below: &str,
    (tree, told): (&Node, &[(String, String)]),
    problems: &mut Problems,
) -> bool {
    let mut own = false;
    for found in crate::check::check(config) {
        own |= !told.contains(&found);
        let (path, message) = found;
        let at = tree.deepest(&format!("{below}.{path}")).at;
        problems.add(at, format!("{message} ({}, behind a bridge)", config.device_name));
    }
    for (i, inside) in config.members.iter().enumerate() {
        let below = format!("{below}.members.{i}");
        own |= check_member(&config.of_member(inside), &below, (tree, told), problems);
    }
    own
}

/// A program beside others: its name, and its settings below `app`.
struct Program {
    name: String,
    tree: Node,
}

/// Programs beside `first`. Each is without an end of its own unless its options say so: it ends with what it
/// runs beside.
fn beside(
    with: &[(Source<'_>, &str)],
    first: &str,
    files: Option<ReadFile<'_>>,
    problems: &mut Problems,
) -> Result<Vec<Program>, ConfigError> {
    let mut names = vec![first.to_string()];
    let mut programs = Vec::with_capacity(with.len());
    for &(source, options) in with {
        let Some(Loaded { name, mut tree, .. }) = load(Kind::App, source, files, problems)? else {
            let problems = std::mem::take(problems);
            return Err(problems.into_result().expect_err("an unreadable source is a problem"));
        };
        let file = problems.source(format!("--with {}", shorten(&format!("{name}:{options}"))));
        let at = Place { source: file, line: 0, column: 0 };
        lay(&["app", "operations"], "0", at, &mut tree, problems);
        lay(&["app", "runtime"], "0s", at, &mut tree, problems);
        for option in split_options(options) {
            let Some((key, value)) = option.split_once('=') else {
                let word = shorten(option);
                problems
                    .add(at, format!("no '=' in '{word}': write option=value, as in load=5000.0"));
                continue;
            };
            let key = key.trim();
            let path: Vec<&str> = match section_of(&tree, key) {
                Some(section) => vec!["app", section, key],
                None => std::iter::once("app").chain(key.split('.')).collect(),
            };
            lay(&path, value, at, &mut tree, problems);
        }
        let same = names.iter().filter(|n| **n == name).count();
        names.push(name.clone());
        let name = if same > 0 { format!("{name}#{}", same + 1) } else { name };
        programs.push(Program { name, tree });
    }
    Ok(programs)
}

/// The section that an option of a program is of: none if it is of `[app]`.
fn section_of(tree: &Node, key: &str) -> Option<&'static str> {
    if fields_of::<AppConfig>().contains(&key) || key.contains('.') {
        return None;
    }
    let app = tree.get("app")?;
    wordline_app::SECTIONS.into_iter().find(|section| app.get(section).is_some())
}

/// At commas, but for those in brackets.
fn split_options(options: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0i32, 0);
    for (i, c) in options.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth <= 0 => {
                parts.push(&options[from..i]);
                from = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&options[from..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// Reads the programs, and keeps where they were written at `with.N`. None: one cannot be read.
fn with_beside(
    mut config: Config,
    programs: Vec<Program>,
    tree: &mut Node,
    problems: &mut Problems,
) -> Option<Config> {
    let naming = |path: &str, _: Place| format!("[{path}]");
    let (mut kept, at) = (Table::new(), tree.at);
    for (i, Program { name, tree: mut own }) in programs.into_iter().enumerate() {
        let app = read::<AppConfig>(&mut own, "app", problems, &naming)?;
        let node = own.get("app").cloned()?;
        kept.insert(i.to_string(), Entry { key_at: node.at, node });
        config.with.push(Beside { name, app });
    }
    if let Value::Table(top) = &mut tree.value
        && !kept.is_empty()
    {
        top.insert(
            "with".into(),
            Entry { key_at: at, node: Node { value: Value::Table(kept), at } },
        );
    }
    Some(config)
}

/// The key that names another medium for a drive.
const MEDIA: &str = "nand.media";

/// The key that gives nbd-server a page cache.
const SERVED: &str = "stack.nbd.page_cache";

/// Kinds of FTL that have a section of their own.
const KINDS: [&str; 2] = ["fssd", "firmware"];

/// Settings of `[ftl]` that not only pblk and its kin have, and the sections of the other FTLs.
const NOT_PBLKS_ALONE: [&str; 5] = ["placement", "over_provisioning", "cost", "fssd", "firmware"];

/// The settings of a drive that stand beside its name.
const LBA: &str = "lba";
const STAGING: &str = "staging_bytes";

/// The keys of that cache are those of `--fs bdev`.
fn cache_served(tree: &mut Node, problems: &mut Problems) -> Result<(), ConfigError> {
    let &Node { value: Value::Switch(true), at } = tree.deepest(SERVED) else { return Ok(()) };
    let Some(bdev) = load(Kind::Fs, Source::Preset("bdev"), None, problems)? else { return Ok(()) };
    let Some(fs) = bdev.tree.get("stack").and_then(|stack| stack.get("fs")).cloned() else {
        return Ok(());
    };
    if let Some(Value::Table(stack)) = tree.value_mut("stack")
        && let Some(entry) = stack.get_mut("nbd")
        && let Value::Table(nbd) = &mut entry.node.value
    {
        nbd.insert("cache".into(), Entry { key_at: at, node: fs });
    }
    Ok(())
}

/// Puts the medium named by `nand.media` in place of the drive's own, with as many pages a block as
/// keep its bytes: what the FTL counts in lines keeps its meaning, and the drive its capacity. False: none
/// is named.
///
/// A page of the drive's gang is one of each of its channels. Where the medium's own page is a sector, each channel has
/// its part of that (docs/design/nand.md): `gang` is how many there are.
pub(crate) fn swap_media(
    tree: &mut Node,
    gang: u64,
    files: Option<ReadFile<'_>>,
    problems: &mut Problems,
) -> Result<bool, ConfigError> {
    let Some(named) = tree.get("nand").and_then(|nand| nand.get("media")).cloned() else {
        return Ok(false);
    };
    tree.remove(MEDIA);
    let Value::Text(name) = &named.value else {
        problems.add(named.at, "'media' must be the name of a medium".into());
        return Ok(true);
    };
    let name = (name.clone(), named.at);
    let Some(opened) = open(Kind::Media, &name, "media", files, &[], problems) else {
        return Ok(true);
    };
    let Some(media) = load(Kind::Media, opened.source(), files, problems)? else {
        return Ok(true);
    };
    let unit_and_pages = |tree: &Node| {
        let number = |key| match tree.get("nand")?.get(key)?.value {
            Value::Integer(n) => u64::try_from(n).ok(),
            _ => None,
        };
        Some((number("planes")?.checked_mul(number("page_bytes")?)?, number("pages_per_block")?))
    };
    let before = unit_and_pages(tree);
    let at = named.at;
    // How the drive's own medium is read, and written with a bit a cell, says nothing of another, whose buffer is none.
    tree.remove("nand.independent_plane_reads");
    let has_slc = media.tree.get("nand").is_some_and(|nand| nand.get("slc").is_some());
    tree.remove("nand.slc");
    if !has_slc {
        tree.remove("ftl.firmware.slc_static");
        tree.remove("ftl.firmware.slc_dynamic");
    }
    tree.merge(media.tree);
    split_page(tree, gang);
    // What is missing or impossible here is found when the section is read.
    if let (Some((old, pages)), Some((new, _))) = (before, unit_and_pages(tree))
        && let Some(bytes) = old.checked_mul(pages).filter(|_| new > 0)
        && let Some(Value::Table(nand)) = tree.value_mut("nand")
    {
        let value = Value::Integer((bytes / new) as i64);
        nand.insert("pages_per_block".into(), Entry { key_at: at, node: Node { value, at } });
    }
    Ok(true)
}

/// The channels of a gang in the tree with all that is set.
pub(crate) fn channels_of_gang(tree: &Node) -> u64 {
    match tree.get("nand").and_then(|nand| nand.get("gang")).map(|node| &node.value) {
        Some(Value::Integer(n)) => u64::try_from(*n).unwrap_or(1),
        _ => 1,
    }
}

/// Gives each channel of a gang its part of a page that is a sector: two pages would be a unit of two sectors, and one of
/// these could not be written alone.
fn split_page(tree: &mut Node, gang: u64) {
    let Some(nand) = tree.value_mut("nand") else { return };
    let Value::Table(nand) = nand else { return };
    let number = |nand: &Table, key: &str| match nand.get(key)?.node.value {
        Value::Integer(n) => u64::try_from(n).ok(),
        _ => None,
    };
    let sector = number(nand, "sector_bytes").unwrap_or(4096);
    let (Some(page), Some(planes)) = (number(nand, "page_bytes"), number(nand, "planes")) else {
        return;
    };
    if gang < 2 || page.checked_mul(planes) != Some(sector) || !page.is_multiple_of(gang) {
        return;
    }
    for key in ["page_bytes", "transfer_bytes"] {
        if let Some(entry) = nand.get_mut(key)
            && let Value::Integer(bytes) = &mut entry.node.value
        {
            *bytes = (*bytes).min((page / gang) as i64);
        }
    }
}

/// Takes a drive's own collector off a medium that another one was exchanged for and that is written over in
/// place: there is nothing to collect. The drive keeps its capacity, of which places have metadata of lines
/// taken.
pub(crate) fn without_firmware(nand: &NandConfig, ftl: &mut FtlConfig) {
    // A geometry that cannot be is told where it is checked.
    let Some(g) = Geometry::new(nand).ok().filter(|g| g.in_place && ftl.firmware.is_some()) else {
        return;
    };
    let sectors = g.sectors() as f64 * (1.0 - ftl.over_provisioning / 100.0);
    ftl.firmware = None;
    let data = g.sectors() - crate::derive::metadata_per_line(&g) * u64::from(g.lines);
    ftl.over_provisioning = f64::max(0.0, 100.0 * (1.0 - sectors / data as f64));
}

/// The key that says which parts of FSSD's software run on the host.
const ON_HOST: &str = "ftl.on_host";

/// Sets what the word of `ftl.on_host` stands for: where the map is, where the collector, who says what it
/// collects and who orders requests. For a drive that has the map it also sets how much of what it has
/// acknowledged its protected buffer holds. `whole` is the tree with all that is set beside the word.
pub(crate) fn place_parts(tree: &mut Node, whole: &Node, problems: &mut Problems) {
    let get = |tree: &Node, section: &str, key: &str| tree.get(section)?.get(key).cloned();
    let Some(named) = get(tree, "ftl", "on_host") else { return };
    tree.remove(ON_HOST);
    let at = named.at;
    let is_table = |fssd: &Node| fssd.as_table().is_some();
    let (Some(_), Some(fssd)) =
        (get(tree, "ftl", "fssd").filter(is_table), get(whole, "ftl", "fssd"))
    else {
        let message =
            "'on_host' divides the software of FSSD: take --ftl fssd, or --device fssd-430g";
        return problems.add(at, message.into());
    };
    let word = match &named.value {
        Value::Text(word) => word.as_str(),
        _ => "",
    };
    let (placement, collector, victims, scheduler) = match word {
        "all" => ("host", "host", "drive", "drive"),
        "map" => ("host", "drive", "drive", "drive"),
        "gc" => ("device", "drive", "host", "drive"),
        "schedule" => ("device", "drive", "drive", "host"),
        "none" => ("device", "drive", "drive", "drive"),
        _ => return problems.add(at, "'on_host' must be all, map, gc, schedule or none".into()),
    };
    lay(&["ftl", "placement"], placement, at, tree, problems);
    lay(&["ftl", "fssd", "collector"], collector, at, tree, problems);
    lay(&["ftl", "fssd", "victims"], victims, at, tree, problems);
    lay(&["ftl", "fssd", "scheduler"], scheduler, at, tree, problems);
    let number = |node: Option<Node>| match node?.value {
        Value::Integer(n) => u64::try_from(n).ok(),
        _ => None,
    };
    let volatile = fssd.get("volatile").is_some_and(|v| matches!(v.value, Value::Switch(true)));
    let buffer = number(fssd.get("buffer_bytes").cloned());
    let protected = number(get(whole, "device", STAGING)).unwrap_or(0);
    if placement == "device"
        && !volatile
        && protected > 0
        && buffer.is_none_or(|buffer| buffer > protected)
    {
        lay(&["ftl", "fssd", "buffer_bytes"], &protected.to_string(), at, tree, problems);
    }
}
