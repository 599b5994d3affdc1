//! The profiles that come with the program.

use wordline_base::Span;
use wordline_ftl::{Placement, Side};
use wordline_profile::{
    Config, Kind, PathKind, Source, Sources, assemble, list, paths, presets, resolved_device,
    resolved_stack, resolved_toml, show, value_at,
};

fn of_kind(kind: Kind) -> impl Iterator<Item = &'static str> {
    presets().iter().filter(move |p| p.kind == kind).map(|p| p.name)
}

fn preset(device: &str, stack: &str) -> Config {
    assemble(Sources::presets(device, stack), &[]).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn every_combination_assembles() {
    for device in of_kind(Kind::Device) {
        for stack in of_kind(Kind::Stack) {
            for testbed in of_kind(Kind::Testbed) {
                for ftl in [None, Some(Source::Preset("pblk"))] {
                    let testbed = Some(Source::Preset(testbed));
                    let sources = Sources { ftl, testbed, ..Sources::presets(device, stack) };
                    let result = assemble(sources, &[]);
                    // An FTL on the host is kernel code, and so is a network block device.
                    let on_host = ["cnex", "fssd"].iter().any(|name| device.starts_with(name));
                    let kernel = on_host || stack.starts_with("nbd");
                    if kernel && testbed == Some(Source::Preset("none")) {
                        let error = result.unwrap_err().to_string();
                        assert!(error.starts_with("none.toml:"), "{error}");
                        assert!(error.contains("'kernel' must be true"), "{error}");
                    } else {
                        let config = result.unwrap_or_else(|e| panic!("{e}"));
                        let back = Config::from_text(&config.to_text());
                        assert_eq!(back.as_ref(), Ok(&config), "from text");
                    }
                }
            }
        }
    }
}

#[test]
fn every_preset_calls_itself_by_its_name_and_says_what_it_is() {
    for p in presets() {
        assert!(p.text.contains(&format!("[{}]\nname = \"{}\"", p.kind.name(), p.name)), "{p:?}");
        let description = p.description();
        assert!((10..90).contains(&description.len()), "{}: {description}", p.name);
        assert!(list().contains(&description));
        assert_eq!(show(&format!("{}/{}", p.kind.name(), p.name)), Ok(p.text));
    }
    assert!(show("z-ssd-800").unwrap_err().to_string().contains("did you mean 'z-ssd-800g'?"));
}

/// A comment on the line of a key or on the line above.
fn unsourced(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let is_key = |line: &str| {
        let key = line.split('=').next().unwrap_or("").trim();
        line.contains('=') && !key.is_empty() && !key.starts_with(['#', '['])
    };
    let commented = |line: &str| {
        let comment = line.rsplit_once('#').map_or("", |(_, comment)| comment);
        comment.trim().len() >= 5
    };
    (0..lines.len())
        .filter(|&i| is_key(lines[i]) && !commented(lines[i]))
        .filter(|&i| i == 0 || !(lines[i - 1].starts_with('#') && commented(lines[i - 1])))
        .map(|i| format!("{}: {}", i + 1, lines[i]))
        .collect()
}

#[test]
fn every_constant_has_its_source_beside_it() {
    for p in presets() {
        let keys = p.text.lines().filter(|l| l.contains(" = ") && !l.starts_with('#')).count();
        assert!(keys >= 4, "{} has {keys} keys", p.name);
        assert_eq!(unsourced(p.text), Vec::<String>::new(), "{}", p.name);
        for path in ["shared/", "/work", "hoststack", "architecture.md", "claims.toml"] {
            assert!(!p.text.contains(path), "{} names {path}", p.name);
        }
        let long = p.text.lines().filter(|l| l.chars().count() > 110).collect::<Vec<_>>();
        assert_eq!(long, Vec::<&str>::new(), "{}", p.name);
    }
    // The check itself can fail.
    assert_eq!(unsourced("a = 1 # why so\nb = 2\n# chosen, because\nc = 3\n").len(), 1);
}

#[test]
fn the_stack_and_the_testbed_meet() {
    let default = preset("z-ssd-small", "linux-libaio");
    assert_eq!((default.testbed_name.as_str(), default.stack.cores), ("i7-8700", 6));
    assert_eq!(default.ftl_name, "firmware");
    let none = preset("z-ssd-small", "none");
    assert_eq!((none.testbed_name.as_str(), none.stack.kernel), ("none", false));
    let rail = Sources {
        ftl: Some(Source::Preset("pblk")),
        testbed: Some(Source::Preset("e5-2630v4")),
        ..Sources::presets("cnex-small", "linux-libaio")
    };
    let rail = assemble(rail, &[]).unwrap();
    assert_eq!((rail.ftl_name.as_str(), rail.stack.cores), ("pblk", 20));
    assert_eq!(rail.stack.cost.crossing, Span(310));
}

#[test]
fn a_word_divides_fssds_software_between_host_and_drive() {
    let set = |device: &str, sets: &[&str]| {
        let sets: Vec<String> = sets.iter().map(|s| s.to_string()).collect();
        assemble(Sources::presets(device, "linux-libaio"), &sets)
    };
    let of = |sets: &[&str]| {
        let c = set("fssd-small", sets).unwrap();
        let fssd = c.ftl.fssd.unwrap();
        assert!(fssd.victims == Side::Drive || sets.contains(&"ftl.on_host=gc"));
        (c.ftl.placement, fssd.collector, fssd.buffer_bytes)
    };
    let whole = of(&[]);
    assert_eq!(whole, (Placement::Host, Side::Host, 16 << 20));
    assert_eq!(of(&["ftl.on_host=all"]), whole);
    assert_eq!(of(&["ftl.on_host=map"]), (Placement::Host, Side::Drive, 16 << 20));
    // What is acknowledged is in the drive's protected buffer, unless it need not be kept.
    assert_eq!(of(&["ftl.on_host=none"]), (Placement::Device, Side::Drive, 327_680));
    // What is set by hand goes over the word, wherever it stands.
    let both = of(&["ftl.fssd.buffer_bytes=65536", "ftl.on_host=none"]);
    assert_eq!(both, (Placement::Device, Side::Drive, 65_536));
    let error = |device, word: &str| {
        set(device, &[&format!("ftl.on_host={word}")]).unwrap_err().to_string()
    };
    assert!(error("fssd-small", "maps").contains("must be all, map, gc, schedule or none"));
    assert!(error("fssd-small", "3").contains("must be all, map, gc, schedule or none"));
    // The drive has all but the order of requests.
    let schedule = set("fssd-small", &["ftl.on_host=schedule"]).unwrap().ftl.fssd.unwrap();
    assert_eq!((schedule.victims, schedule.scheduler), (Side::Drive, Side::Host));
    assert_eq!(of(&["ftl.on_host=schedule"]), (Placement::Device, Side::Drive, 327_680));
    let two = ["ftl.on_host=schedule", "stack.scheduler=mq-deadline"];
    let two = set("fssd-small", &two).unwrap_err().to_string();
    assert!(two.contains("must be none where the host sends requests by LUN"), "{two}");
    let both = set("fssd-small", &["ftl.fssd.scheduler=host"]).unwrap_err().to_string();
    assert!(both.contains("set ftl.placement to device, or it to drive"), "{both}");
    assert!(error("z-ssd-small", "map").contains("take --ftl fssd"));
    assert!(error("bssd-small", "none").contains("take --ftl fssd"));
    assert_eq!(of(&["ftl.on_host=none", "staging_bytes=131072"]).2, 131_072);
    assert_eq!(of(&["ftl.on_host=none", "ftl.fssd.volatile=true"]).2, 16 << 20);
    // The drive has map and log, and the host says what is collected.
    let gc = set("fssd-small", &["ftl.on_host=gc"]).unwrap();
    assert_eq!(gc.ftl.fssd.unwrap().victims, Side::Host);
    assert_eq!(of(&["ftl.on_host=gc"]), (Placement::Device, Side::Drive, 327_680));
    let both = set("fssd-small", &["ftl.fssd.victims=host"]).unwrap_err().to_string();
    assert!(both.contains("set ftl.placement to device, or it to drive"), "{both}");
    let more = ["ftl.on_host=none", "staging_bytes=131072", "ftl.fssd.buffer_bytes=262144"];
    let more = set("fssd-small", &more).unwrap_err().to_string();
    assert!(more.contains("must be at most device.staging_bytes, 131072"), "{more}");
}

/// A drive of flash software on the host takes another FTL's in its place.
#[test]
fn an_ftl_takes_the_place_of_fssd() {
    for name in ["pblk", "rail", "tinytail", "fssd"] {
        let sources = Sources {
            ftl: Some(Source::Preset(name)),
            ..Sources::presets("fssd-small", "linux-libaio")
        };
        let config = assemble(sources, &[]).unwrap();
        assert_eq!(config.ftl_name, name);
        let tree = (config.ftl.fssd.is_some(), config.ftl.cost.map.is_some());
        assert_eq!(tree, (name == "fssd", name == "fssd"), "{name}");
    }
}

/// The latencies the testbeds are calibrated to: stages of a synchronous 4 KiB I/O, in us.
#[test]
fn testbeds_sum_to_what_was_measured() {
    let sums = |name: &str| {
        let sources = Sources {
            testbed: Some(Source::Preset(name)),
            ..Sources::presets("z-ssd-small", "linux-pvsync2")
        };
        let c = assemble(sources, &[]).unwrap().stack.cost;
        let submit = c.crossing + c.syscall + c.bio + c.block + c.dma_map + c.doorbell;
        let blocked = c.interrupt_entry + c.interrupt + c.wake_up + c.idle_exit;
        (submit.0, blocked.0, (blocked + c.completion + c.finish).0)
    };
    assert_eq!(sums("i7-8700"), (1_700, 1_950, 2_500));
    assert_eq!(sums("i7-4790k"), (3_280, 640, 1_190));
    let (submit, _, complete) = sums("e5-2630v4");
    assert!((submit as f64 / 1700.0 - 2.09).abs() < 0.02, "{submit}");
    assert!((complete as f64 / 2500.0 - 2.09).abs() < 0.02, "{complete}");
    assert_eq!(sums("none"), (0, 0, 0));
}

#[test]
fn small_drives_keep_the_timing_of_their_models() {
    for (small, large) in [
        ("cnex-small", "cnex-westlake"),
        ("z-ssd-small", "z-ssd-800g"),
        ("z-ssd-flashshare-small", "z-ssd-flashshare"),
        ("intel-750-small", "intel-750-400g"),
    ] {
        let (small, large) = (preset(small, "linux-libaio"), preset(large, "linux-libaio"));
        let mut nand = small.nand.clone();
        nand.channels = large.nand.channels;
        nand.luns_per_channel = large.nand.luns_per_channel;
        nand.blocks = large.nand.blocks;
        assert_eq!(nand, large.nand);
        let mut device = small.device.clone();
        device.limits = large.device.limits.clone();
        if let (Some(cache), Some(model)) = (&mut device.cache, &large.device.cache) {
            cache.bytes = model.bytes;
        }
        assert_eq!(device, large.device);
        let mut ftl = small.ftl.clone();
        ftl.over_provisioning = large.ftl.over_provisioning;
        ftl.gc_start_lines = large.ftl.gc_start_lines;
        assert_eq!(ftl, large.ftl);
    }
}

#[test]
fn a_resolved_configuration_loads_back_to_itself() {
    for device in of_kind(Kind::Device) {
        for stack in ["linux-libaio", "linux-pvsync2", "linux-io_uring"] {
            let config = assemble(
                Sources::presets(device, stack),
                &["nand.t_erase=1.5ms".into(), "stack.scheduler=mq-deadline".into()],
            )
            .unwrap();
            let (device, stack) = (resolved_device(&config), resolved_stack(&config));
            assert!(resolved_toml(&config).contains(&device));
            let sources = Sources {
                device: Source::File { name: "device.toml", text: &device },
                ftl: None,
                stack: Source::File { name: "stack.toml", text: &stack },
                testbed: None,
                app: None,
                with: &[],
                fs: None,
                files: None,
            };
            let mut again = assemble(sources, &[]).unwrap_or_else(|e| panic!("{e}\n{device}"));
            again.testbed_name.clone_from(&config.testbed_name);
            assert_eq!(again, config);
        }
    }
}

#[test]
fn every_path_can_be_set_to_its_own_value() {
    let config = preset("z-ssd-small", "linux-libaio");
    let all = paths(&config);
    assert!(all.len() > 80, "{}", all.len());
    let kind = |path: &str| all.iter().find(|(p, _)| p == path).map(|(_, kind)| *kind);
    assert_eq!(kind("nand.t_read"), Some(PathKind::Time));
    assert_eq!(kind("nand.channels"), Some(PathKind::Integer));
    assert_eq!(kind("ftl.over_provisioning"), Some(PathKind::Number));
    assert_eq!(kind("ftl.firmware.victim"), Some(PathKind::Word));
    assert_eq!(kind("ftl.victim"), None);
    assert_eq!(kind("device.cache.write_back"), Some(PathKind::Switch));
    assert_eq!(kind("device.queues.weights"), Some(PathKind::Integers));
    assert_eq!(kind("device.cache.read_ahead.bytes"), Some(PathKind::Integer));
    for (path, _) in &all {
        let value = value_at(&config, path).unwrap();
        let text = format!("{path}={value}");
        let same = assemble(Sources::presets("z-ssd-small", "linux-libaio"), &[text]);
        assert_eq!(same.unwrap_or_else(|e| panic!("{e}")), config, "{path}");
    }
    let intel = preset("intel-750-small", "none");
    assert!(paths(&intel).contains(&("nand.t_read".into(), PathKind::Times)));
    assert_eq!(value_at(&intel, "nand"), None);
    assert_eq!(value_at(&intel, "device_name.x"), None);
}

#[test]
fn overrides_are_typed_as_toml_with_bare_words() {
    let set = |overrides: &[&str]| {
        let overrides: Vec<String> = overrides.iter().map(|s| s.to_string()).collect();
        assemble(Sources::presets("z-ssd-small", "linux-libaio"), &overrides)
            .unwrap_or_else(|e| panic!("{e}"))
    };
    assert_eq!(set(&["nand.t_read=4us"]).nand.t_read.mean(), Span::from_us(4));
    assert_eq!(set(&["nand.t_read=\"4us\""]).nand.t_read.mean(), Span::from_us(4));
    assert_eq!(set(&["nand.t_read=[4us]"]).nand.t_read.mean(), Span::from_us(4));
    assert_eq!(set(&[" ftl.over_provisioning = 30 "]).ftl.over_provisioning, 30.0);
    assert_eq!(set(&["queues.weights=[8, 4, 2]"]).device.queues.weights, [8, 4, 2]);
    assert!(!set(&["stack.merge=false"]).stack.merge);
    assert_eq!(set(&["testbed.cores=2"]).stack.cores, 2);
    assert_eq!(set(&["cache=none"]).device.cache, None);
    assert_eq!(set(&["device.cache.read_ahead=none"]).device.cache.unwrap().read_ahead, None);
    // The later one wins.
    assert_eq!(set(&["link.lanes=8", "device.link.lanes=2"]).device.link.lanes, 2);
    let cache = set(&["cache.bytes=8388608", "cache.read_ahead=none"]).device.cache.unwrap();
    assert_eq!((cache.bytes, cache.read_ahead), (8 << 20, None));
    // A section taken out can be put back whole.
    let put = "cache.read_ahead={trigger=2, streams=1, bytes=65536}";
    let cache = set(&["cache.read_ahead=none", put]).device.cache.unwrap();
    assert_eq!(cache.read_ahead.unwrap().trigger, 2);
}

#[test]
fn any_medium_goes_into_any_drive_and_leaves_its_capacity() {
    for device in of_kind(Kind::Device) {
        let own = preset(device, "linux-libaio");
        for media in of_kind(Kind::Media) {
            let set = [format!("nand.media={media}")];
            let other = assemble(Sources::presets(device, "linux-libaio"), &set);
            let other = other.unwrap_or_else(|e| panic!("{media} in {device}: {e}"));
            let text = show(&format!("media/{media}")).unwrap();
            let read = other.nand.t_read.mean();
            assert!(text.contains(&format!("t_read = \"{read}\"")), "{media} in {device}: {read}");
            assert_eq!(other.nand.channels, own.nand.channels);
            let bytes = |c: &Config| {
                let n = &c.nand;
                u64::from(n.planes * n.page_bytes * n.pages_per_block) * u64::from(n.blocks)
            };
            assert_eq!(bytes(&other), bytes(&own), "{media} in {device}");
        }
    }
    let set = |text: &str| assemble(Sources::presets("z-ssd-small", "none"), &[text.to_string()]);
    let error = set("nand.media=z-nadn").unwrap_err().to_string();
    assert!(error.contains("did you mean 'z-nand'?"), "{error}");
    // What is set by hand goes over the medium, wherever it stands.
    let both = ["nand.t_read=9us", "nand.media=bics"].map(String::from);
    let c = assemble(Sources::presets("z-ssd-small", "none"), &both).unwrap();
    assert_eq!((c.nand.t_read.mean(), c.nand.t_erase), (Span::from_us(9), Span(3_500_000)));
}

#[test]
fn none_takes_away_a_section_that_has_defaults() {
    let set = |sets: &[&str]| {
        let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
        assemble(Sources::presets("pm9a3-1920g", "linux-libaio"), &sets).unwrap().nand
    };
    assert!(set(&[]).suspend.any());
    assert!(!set(&["nand.suspend=none"]).suspend.any());
    // A key behind it brings the section back, with that key alone.
    let again =
        set(&["nand.suspend=none", "nand.suspend.erase=true", "nand.suspend.most=4"]).suspend;
    assert!(again.erase && !again.program && again.interval == wordline_base::Span::ZERO);
    let power = set(&["nand.power=none"]).power;
    assert_eq!((power.read_mw, power.program_mw), (0, 0));
}
