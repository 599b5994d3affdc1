//! Profiles in files that name each other: bases, and drives behind bridges.

use std::collections::BTreeMap;
use std::io;
use wordline_profile::{Config, ConfigError, Source, Sources, assemble, resolved_device};

/// Reads a file of some that lie in no links: a folder and a step back are nothing.
fn from(files: &BTreeMap<&str, &str>, path: &str) -> io::Result<String> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let text = files.get(&*parts.join("/")).ok_or_else(|| io::Error::other("it is not there"))?;
    Ok(text.to_string())
}

/// The device `top` of some files.
fn of(files: &[(&str, &str)], top: &str, set: &[&str]) -> Result<Config, ConfigError> {
    let files: BTreeMap<&str, &str> = files.iter().copied().collect();
    let read = |path: &str| from(&files, path);
    let device = match files.get(top) {
        Some(text) => Source::File { name: top, text },
        None => Source::Preset(top),
    };
    let set: Vec<String> = set.iter().map(ToString::to_string).collect();
    assemble(Sources { device, files: Some(&read), ..Sources::presets(top, "none") }, &set)
}

fn told(files: &[(&str, &str)], top: &str) -> String {
    match of(files, top, &[]) {
        Ok(_) => panic!("{top} is not refused"),
        Err(error) => error.to_string(),
    }
}

fn bridge(name: &str, base: &str, drives: &str) -> String {
    format!("[device]\nname = \"{name}\"\nbase = \"{base}\"\n[bridge]\ndrives = [{drives}]\n")
}

const OWN: &str =
    "[device]\nname = \"own\"\nbase = \"../controller.toml\"\n[nand]\nt_erase = \"9ms\"\n";
const CONTROLLER: &str = "[device]\nname = \"controller\"\nbase = \"bssd-controller\"\n[ftl]\nover_provisioning = 20.0\n";

/// A path is relative to the profile that names it, whoever names that.
#[test]
fn files_stand_behind_bridges_and_under_bases() {
    let inner = bridge("inner", "bssd-400g", "\"drives/own.toml\", \"./drives/own.toml\"");
    let outer = bridge("outer", "bssd-400g", "\"lab/inner.toml\", \"bssd-400g\"");
    let outer = outer + "[bridge.members.ftl]\nover_provisioning = 20.0\n";
    let files = [
        ("my/outer.toml", &*outer),
        ("my/lab/inner.toml", &*inner),
        ("my/lab/drives/own.toml", OWN),
        ("my/lab/controller.toml", CONTROLLER),
    ];
    let config = of(&files, "my/outer.toml", &[]).unwrap_or_else(|e| panic!("{e}"));
    let [inner, preset] = &*config.members else { panic!("two bridges") };
    let [own, other] = &*inner.members else { panic!("two drives") };
    assert_eq!((&*inner.name, &*own.name, &*preset.name), ("inner", "own", "bssd-400g"));
    assert_eq!(own, other);
    assert_eq!(own.nand.t_erase.to_string(), "9ms");
    assert_ne!(preset.members[0].nand.t_erase, own.nand.t_erase);
    // What is carried elsewhere holds all of it.
    assert_eq!(Config::from_text(&config.to_text()).unwrap(), config);
    // As a profile it names them from where the program runs.
    let text = resolved_device(&config);
    let mut again = files.to_vec();
    again.push(("again.toml", &text));
    let again = of(&again, "again.toml", &[]).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!((again.members, again.device), (config.members, config.device));
}

/// An override's path is relative to where the program runs.
#[test]
fn an_override_names_files_too() {
    let files = [("lab/drives/own.toml", OWN), ("lab/controller.toml", CONTROLLER)];
    let drives = "bridge.drives=[\"lab/drives/own.toml\"]";
    let config = of(&files, "bssd-small", &[drives]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(config.members[0].name, "own");
    // Settings of one kind of FTL are taken where the drive of the file has it.
    let fssd = "[device]\nname = \"host\"\nbase = \"fssd-small\"\n[ftl]\non_host = \"none\"\n";
    let top = bridge("top", "bssd-400g", "\"host.toml\"");
    let top = top + "[bridge.members]\ncache = \"none\"\n";
    let files = [("d/host.toml", fssd), ("d/top.toml", &*top)];
    let alone = of(&files, "d/host.toml", &["ftl.fssd.gc_units=9"]).unwrap();
    assert_eq!(alone.ftl.fssd.expect("FSSD").gc_units, 9);
    let error = of(&files, "d/top.toml", &["ftl.firmware.streams=3"]).unwrap_err().to_string();
    assert!(error.contains("the drive's FTL is not 'firmware'"), "{error}");
    if let Err(error) = of(&files, "d/top.toml", &["ftl.fssd.gc_units=9"]) {
        assert!(!error.to_string().contains("FTL is not 'fssd'"), "{error}");
    }
}

/// What an override sets of drives behind a bridge is told as that alone.
#[test]
fn an_override_of_drives_behind_a_bridge_is_told_once() {
    let error = of(&[], "bssd-400g", &["bridge.members.nand.planes=0"]).unwrap_err().to_string();
    assert!(error.contains("--set bridge.members.nand.planes=0: 'planes' must be"), "{error}");
    assert!(!error.contains("over 'bssd-controller'"), "{error}");
}

/// Files that lead back to one of them are told with the way round.
#[test]
fn a_circle_of_files_is_refused_with_the_way() {
    let a = bridge("a", "bssd-small", "\"sub/b.toml\"");
    let b = bridge("b", "bssd-small", "\"z-ssd-small\", \"../a.toml\"");
    let error = told(&[("a.toml", &a), ("sub/b.toml", &b)], "a.toml");
    let way = "sub/b.toml:5:26: 'drives' leads in a circle: a.toml -> sub/b.toml -> a.toml";
    assert!(error.contains(way), "{error}");
    let own = bridge("own", "bssd-small", "\"x/../own.toml\"");
    let error = told(&[("own.toml", &own)], "own.toml");
    let way = "own.toml:5:11: 'drives' leads in a circle: own.toml -> own.toml";
    assert!(error.contains(way), "{error}");
    // A base's circle has nothing of the way to it.
    let (top, one, two) = (
        bridge("top", "bssd-small", "\"one.toml\""),
        "[device]\nname = \"one\"\nbase = \"two.toml\"\n",
        "[device]\nname = \"two\"\nbase = \"one.toml\"\n",
    );
    let error = told(&[("top.toml", &top), ("one.toml", one), ("two.toml", two)], "top.toml");
    let way = "two.toml:3:8: 'base' leads in a circle: one.toml -> two.toml -> one.toml";
    assert!(error.contains(way), "{error}");
    // A drive that is made of the bridge that it is behind, with drives of its own, is none.
    let a = bridge("a", "bssd-400g", "\"b.toml\"");
    let b = bridge("b", "a.toml", "\"bssd-controller\"");
    let config = of(&[("a.toml", &a), ("b.toml", &b)], "a.toml", &[]).unwrap();
    assert_eq!(config.members[0].members[0].name, "bssd-controller");
    // With those of its base it is behind itself.
    let b = "[device]\nname = \"b\"\nbase = \"a.toml\"\n";
    let error = told(&[("a.toml", &a), ("b.toml", b)], "a.toml");
    assert!(error.contains("a.toml:5:11: 'drives' leads in a circle: b.toml -> b.toml"), "{error}");
}

/// What is not there is told with who names it, and by which key.
#[test]
fn a_missing_file_is_told_with_its_profile_and_key() {
    let a = bridge("a", "bssd-small", "\"bssd-controller\", \"sub/none.toml\"");
    let error = told(&[("lab/a.toml", &a)], "lab/a.toml");
    let text = "lab/a.toml:5:30: 'drives' names the profile lab/sub/none.toml, which cannot be read: it is not there";
    assert!(error.contains(text), "{error}");
    let error = told(&[("a.toml", &bridge("a", "b.toml", "\"bssd-controller\""))], "a.toml");
    let text = "a.toml:3:8: 'base' names the profile b.toml, which cannot be read: it is not there";
    assert!(error.contains(text), "{error}");
    // A word that is no path is the name of a preset.
    let error = told(&[("a.toml", &bridge("a", "bssd-small", "\"bssd-controler\""))], "a.toml");
    assert!(
        error.contains("a.toml:5:11: unknown device 'bssd-controler', did you mean"),
        "{error}"
    );
    // What is wrong in a file is told with its place there.
    let own = "[device]\nname = \"own\"\nbase = \"bssd-controller\"\n[nand]\nplane = 3\n";
    let a = bridge("a", "bssd-small", "\"own.toml\"");
    let error = told(&[("x/a.toml", &a), ("x/own.toml", own)], "x/a.toml");
    assert!(error.contains("x/own.toml:5:1: unknown key 'plane' in [nand] of own"), "{error}");
    // Bridges are four deep at most, in files as well.
    let names: Vec<String> = (0..7).map(|i| format!("{i}.toml")).collect();
    let texts: Vec<String> =
        (1..8).map(|i| bridge("x", "bssd-400g", &format!("\"{i}.toml\""))).collect();
    let files: Vec<(&str, &str)> =
        names.iter().zip(&texts).map(|(name, text)| (&**name, &**text)).collect();
    let error = told(&files, "0.toml");
    assert!(error.contains("more than 4 bridges are behind each other"), "{error}");
}

const MEDIUM: &str = "[media]\nname = \"mine\"\nbase = \"z-nand\"\n[nand]\nt_erase = \"9ms\"\n";

/// A medium is found beside the profile that names it, and for an override from where the program runs.
#[test]
fn a_medium_is_a_file_too() {
    let own =
        "[device]\nname = \"own\"\nbase = \"z-ssd-small\"\n[nand]\nmedia = \"media/mine.toml\"\n";
    let files = [("lab/own.toml", own), ("lab/media/mine.toml", MEDIUM)];
    let config = of(&files, "lab/own.toml", &[]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(config.nand.t_erase.to_string(), "9ms");
    let error = told(&[("lab/own.toml", own), ("media/mine.toml", MEDIUM)], "lab/own.toml");
    let text = "lab/own.toml:5:9: 'media' names the profile lab/media/mine.toml, which cannot be read: it is not there";
    assert!(error.contains(text), "{error}");
    let set = ["nand.media=lab/media/mine.toml"];
    let config = of(&files, "z-ssd-small", &set).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(config.nand.t_erase.to_string(), "9ms");
    // It goes over what the profile names, and its path is not the profile's.
    let files = [("lab/own.toml", own), ("other.toml", MEDIUM)];
    let config = of(&files, "lab/own.toml", &["nand.media=other.toml"]);
    assert_eq!(config.unwrap_or_else(|e| panic!("{e}")).nand.t_erase.to_string(), "9ms");
}

/// A stack's testbed is found beside the stack that names it, which may be the base of another.
#[test]
fn a_testbed_is_a_file_too() {
    let base = "[stack]\nname = \"base\"\nbase = \"linux-libaio\"\ntestbed = \"beds/mine.toml\"\n";
    let top = "[stack]\nname = \"top\"\nbase = \"lab/base.toml\"\n";
    let bed = "[testbed]\nname = \"mine\"\nbase = \"i7-8700\"\n";
    let files =
        BTreeMap::from([("lab/base.toml", base), ("top.toml", top), ("lab/beds/mine.toml", bed)]);
    let read = |path: &str| from(&files, path);
    for name in ["lab/base.toml", "top.toml"] {
        let stack = Source::File { name, text: files[name] };
        let sources =
            Sources { stack, files: Some(&read), ..Sources::presets("z-ssd-small", "none") };
        let config = assemble(sources, &[]).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(config.testbed_name, "mine", "{name}");
    }
}

/// Files behind a bridge are read once, but for an override, which takes their kind of FTL.
#[test]
fn a_file_behind_a_bridge_is_read_once() {
    let top = bridge("top", "bssd-400g", "\"lab/drives/own.toml\"");
    let files = BTreeMap::from([("lab/drives/own.toml", OWN), ("lab/controller.toml", CONTROLLER)]);
    let times = |set: &[String]| {
        let read = std::cell::RefCell::new(Vec::new());
        let reader = |path: &str| {
            read.borrow_mut().push(path.to_string());
            from(&files, path)
        };
        let device = Source::File { name: "top.toml", text: &top };
        let sources = Sources { device, files: Some(&reader), ..Sources::presets("", "none") };
        assemble(sources, set).unwrap_or_else(|e| panic!("{e}"));
        read.into_inner().len()
    };
    assert_eq!(times(&[]), files.len());
    assert!(times(&["nand.t_erase=8ms".into()]) > files.len());
}

/// Behind a symbolic link a step back leads to the folder that the link's own is in, as for the system.
#[cfg(unix)]
#[test]
fn a_step_back_behind_a_link_is_the_systems() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name).display().to_string();
    std::fs::create_dir_all(at("a")).unwrap();
    std::fs::create_dir_all(at("b/sub")).unwrap();
    std::os::unix::fs::symlink(at("b/sub"), at("a/x")).unwrap();
    std::os::unix::fs::symlink(".", at("a/here")).unwrap();
    let profile = |name: &str, base: &str, t_erase: &str| {
        let text = format!(
            "[device]\nname = \"own\"\nbase = \"{base}\"\n[nand]\nt_erase = \"{t_erase}\"\n"
        );
        std::fs::write(at(name), text).unwrap();
    };
    let of = |name: &str| {
        let (name, read) = (at(name), |path: &str| std::fs::read_to_string(path));
        let text = read(&name).unwrap();
        let device = Source::File { name: &name, text: &text };
        let sources = Sources { device, files: Some(&read), ..Sources::presets("", "none") };
        assemble(sources, &[]).map(|config| config.nand.endurance)
    };
    // Two of one name: the base of the one is the other.
    profile("a/own.toml", "x/../own.toml", "9ms");
    profile("b/own.toml", "z-ssd-small", "8ms");
    let text = std::fs::read_to_string(at("b/own.toml")).unwrap();
    std::fs::write(at("b/own.toml"), text + "endurance = 77\n").unwrap();
    assert_eq!(of("a/own.toml").unwrap_or_else(|e| panic!("{e}")), 77);
    // A circle by way of a link is one.
    profile("a/round.toml", "here/round.toml", "9ms");
    let error = of("a/round.toml").unwrap_err().to_string();
    assert!(error.contains("'base' leads in a circle"), "{error}");
}
