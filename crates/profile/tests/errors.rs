//! Messages, word for word: each names the place and the remedy.

use wordline_profile::{Config, Source, Sources, assemble, assemble_with_places, derive, show};

/// The messages for a device file made by `edit` from a preset.
fn device(edit: impl Fn(&str) -> String) -> Vec<String> {
    let text = edit(show("cnex-westlake").unwrap());
    let sources = Sources {
        device: Source::File { name: "my.toml", text: &text },
        ..Sources::presets("", "linux-libaio")
    };
    messages(sources, &[])
}

fn messages(sources: Sources<'_>, overrides: &[&str]) -> Vec<String> {
    let overrides: Vec<String> = overrides.iter().map(|s| s.to_string()).collect();
    let error = assemble(sources, &overrides).expect_err("a mistake was made");
    assert_eq!(error.to_string().lines().count(), error.problems.len());
    error.problems.iter().map(ToString::to_string).collect()
}

fn set(overrides: &[&str]) -> Vec<String> {
    messages(Sources::presets("z-ssd-small", "linux-libaio"), overrides)
}

fn line_of(text: &str, start: &str) -> usize {
    text.lines().position(|l| l.starts_with(start)).unwrap() + 1
}

/// Replaces the value of the first `key =`.
fn with(text: &str, key: &str, value: &str) -> String {
    let start = text.find(&format!("\n{key} =")).unwrap() + 1;
    let end = start + text[start..].find('\n').unwrap();
    format!("{}{key} = {value}{}", &text[..start], &text[end..])
}

/// A key alone may belong to several sections, and the reader is told of each.
#[test]
fn a_key_without_its_section_names_every_section_that_has_it() {
    let [error] = &set(&["t_read=3us"])[..] else { panic!("one message") };
    assert!(error.ends_with("did you mean 'nand.t_read' or 'firmware.t_read'?"), "{error}");
    let [error] = &set(&["t_erase=3ms"])[..] else { panic!("one message") };
    assert!(error.ends_with("did you mean 'nand.t_erase' or 'nand.suspend.t_erase'?"), "{error}");
}

#[test]
fn a_cache_of_too_few_bytes_is_told_once() {
    for bytes in ["0", "1000"] {
        assert_eq!(
            set(&[&format!("cache.bytes={bytes}")]),
            [format!(
                "--set cache.bytes={bytes}: 'bytes' must be above 0, and a multiple of ways x line_bytes = 32768"
            )]
        );
    }
}

#[test]
fn the_name_of_a_profile_is_its_files() {
    let [error] = &set(&["device.name=x"])[..] else { panic!("one message") };
    assert!(error.contains("'name' belongs into [device] of a profile's file"), "{error}");
}

/// What the base would have is not told to be missing.
#[test]
fn a_base_stands_in_its_section() {
    let errors = device(|_| "base = \"z-ssd-small\"\n[nand]\nt_read = \"5us\"\n".into());
    assert_eq!(errors, ["my.toml:1:1: write 'base' into the section [device], beside its name"]);
}

#[test]
fn a_time_needs_its_unit() {
    for text in ["nand.t_read=3", "nand.t_read=\"3\"", "firmware.t_read=3"] {
        let [error] = &set(&[text])[..] else { panic!("one message") };
        assert!(error.ends_with("3 has no unit: write 3ns, 3us, 3ms or 3s"), "{error}");
    }
    let [error] = &device(|t| with(t, "t_read", "3"))[..] else { panic!("one message") };
    assert!(error.contains("my.toml:") && error.contains("3 has no unit"), "{error}");
}

#[test]
fn unknown_keys_and_sections_are_refused() {
    let preset = show("cnex-westlake").unwrap();
    let line = line_of(preset, "channels");
    assert_eq!(
        device(|t| t.replace("\nchannels", "\nchanels")),
        [
            format!(
                "my.toml:{}:1: the key 'channels' of [nand] is missing",
                line_of(preset, "[nand]"),
            )
            .replace(":1:", ":2:"),
            format!("my.toml:{line}:1: unknown key 'chanels' in [nand], did you mean 'channels'?"),
        ]
    );
    let line = line_of(preset, "[link]");
    assert_eq!(
        device(|t| t.replace("[link]", "[lnk]")),
        [
            "my.toml:1:1: the section [link] is missing".to_string(),
            format!("my.toml:{line}:2: unknown section [lnk], did you mean [link]?"),
        ]
    );
    let line = line_of(preset, "[ftl.cost]");
    assert_eq!(
        device(|t| t.replace("[ftl.cost]", "[ftl.costs]")),
        [format!("my.toml:{line}:6: unknown key 'costs' in [ftl], did you mean 'cost'?")]
    );
    let line = line_of(preset, "lba");
    assert_eq!(
        device(|t| t.replace("\nlba", "\nlbas")),
        [format!(
            "my.toml:{line}:1: unknown key 'lbas' in [device]: it has name, description, base, lba, staging_bytes"
        )]
    );
    assert_eq!(
        device(|t| with(t, "lba", "1024")),
        [format!("my.toml:{line}:7: 'lba' must be 512 or 4096, not 1024")]
    );
    let line = line_of(preset, "read_mw");
    assert_eq!(
        device(|t| with(t, "read_mw", "80\n  banana = 1")),
        [format!(
            "my.toml:{}:3: unknown key 'banana' in [nand.power]: it has read_mw, program_mw, \
             erase_mw, transfer_mw",
            line + 1
        )]
    );
    assert_eq!(
        device(|t| format!("banana = 1\n{t}")),
        ["my.toml:1:1: unknown key 'banana' outside of a section"]
    );
}

#[test]
fn wrong_types_and_words_are_refused() {
    let preset = show("cnex-westlake").unwrap();
    let at = |key: &str| {
        let line = line_of(preset, key);
        format!("my.toml:{line}:{}", key.len() + 4)
    };
    for (key, value, message) in [
        ("channels", "\"four\"", "expected a whole number from 0 to 4294967295, found \"four\""),
        ("channels", "-4", "expected a whole number from 0 to 4294967295, found -4"),
        ("channels", "4.0", "expected a whole number from 0 to 4294967295, found 4: write 4"),
        ("channels", "true", "expected a whole number from 0 to 4294967295, found true"),
        ("channels", "[4]", "expected a whole number from 0 to 4294967295, found an array"),
        ("channels", "99999999999999999999", "99999999999999999999 does not fit 64 bits"),
        ("over_provisioning", "nan", "nan is not a finite number"),
        ("over_provisioning", "\"a lot\"", "expected a number, found \"a lot\""),
        ("t_erase", "\"6 ms or so\"", "unknown time unit 'ms or so': use ns, us, ms or s"),
        ("t_erase", "-6", "a time cannot be negative: -6"),
        ("t_erase", "true", "expected a time such as \"65us\", found true"),
        ("t_read", "\"65uss\"", "unknown time unit 'uss': use ns, us, ms or s"),
        ("t_read", "true", "expected a time such as \"65us\", or an array of times, found true"),
        (
            "cell",
            "\"mcl\"",
            "unknown value 'mcl': use one of 'slc', 'mlc', 'tlc', 'qlc', did you mean 'mlc'?",
        ),
        ("cell", "2", "expected one of 'slc', 'mlc', 'tlc', 'qlc'"),
    ] {
        assert_eq!(
            device(|t| with(t, key, value)),
            [format!("{}: {message}", at(key))],
            "{key} = {value}"
        );
    }
    // A time of several is named by its own place.
    for (times, column, message) in [
        ("[1, true]", 11, "1 has no unit: write 1ns, 1us, 1ms or 1s"),
        ("[\"1us\", true]", 18, "expected a time such as \"65us\", found true"),
    ] {
        let place = format!("my.toml:{}:{column}", line_of(preset, "t_read"));
        assert_eq!(device(|t| with(t, "t_read", times)), [format!("{place}: {message}")]);
    }
    let line = line_of(preset, "burst") + 1;
    let weights = |w: &str| device(|t| with(t, "burst", &format!("8\nweights = {w}")));
    let expected = format!("my.toml:{line}:11: expected an array of");
    assert_eq!(weights("[1, 2]"), [format!("{expected} length 3, found 2 values")]);
    assert_eq!(weights("[1, 2, 3, 4]"), [format!("{expected} 3 values, found 4")]);
    let line = line_of(preset, "[power]");
    assert_eq!(
        device(|t| t.replace("[power]", "[power]\n[nand.faults]\nread_fail_ppb = 1.5\n[power]")),
        [format!("my.toml:{}:2: not TOML: duplicate key", line + 3)]
    );
}

#[test]
fn impossible_values_are_refused() {
    let preset = show("cnex-westlake").unwrap();
    let at = |key: &str| {
        let line = line_of(preset, key);
        format!("my.toml:{line}:{}", key.len() + 4)
    };
    for (key, value, message) in [
        ("channels", "0", "'channels' must be from 1 to 4096, not 0"),
        (
            "pages_per_block",
            "4294967295",
            "'pages_per_block' must be from 1 to 65536, not 4294967295",
        ),
        ("blocks", "0", "'blocks' must be at least 1"),
        (
            "page_bytes",
            "1000",
            "'page_bytes' a write unit (page_bytes x planes x gang = 4000 bytes) must be a multiple \
             of the 4096-byte sector",
        ),
        (
            "t_read",
            "[\"1us\"]",
            "'t_read' has 1 times, but a cell of 2 bits has 2 page types: give one time or 2 of them",
        ),
        ("t_erase", "\"3601s\"", "'t_erase' must be an hour at most"),
        (
            "over_provisioning",
            "100",
            "'over_provisioning' must be from 0 to below 100 percent, not 100",
        ),
        (
            "over_provisioning",
            "0.1",
            "'over_provisioning' leaves 1 of 1067 lines spare and garbage collection needs 5: raise \
             it, or give the drive more blocks",
        ),
        ("generation", "6", "'generation' must be from 1 to 5, not 6"),
        ("lanes", "3", "'lanes' must be 1, 2, 4, 8, 16 or 32, not 3"),
        ("efficiency", "101", "'efficiency' must be from 1 to 100 percent, not 101"),
        (
            "turn_bytes",
            "100",
            "'turn_bytes' must be 512 to 1048576, or 0 for all data of a command, not 100",
        ),
        ("depth", "1", "'depth' must be from 2 to 65536, not 1"),
        ("burst", "3", "'burst' must be 1, 2, 4, … or 64, or 0 for no limit, not 3"),
        ("cores", "0", "'cores' must be from 1 to 1024, not 0"),
    ] {
        assert_eq!(
            device(|t| with(t, key, value)),
            [format!("{}: {message}", at(key))],
            "{key} = {value}"
        );
    }
}

#[test]
fn overrides_are_named_as_given() {
    for (text, message) in [
        ("nand.foo=1", "unknown key 'foo' in [nand]: it has "),
        ("nand.chanels=1", "unknown key 'chanels' in [nand], did you mean 'channels'?"),
        ("nand.channels=many", "expected a whole number from 0 to 4294967295, found \"many\""),
        ("nand.channels=", "no value after '='"),
        ("nand.channels", "no '=': write path=value, for example nand.t_read=3us"),
        ("nand..channels=1", "the path must be keys joined by dots, for example nand.t_read"),
        ("nand=1", "'nand' is a section: add a key, nand.KEY=VALUE"),
        ("channels=8", "unknown section 'channels', did you mean 'nand.channels'?"),
        ("t_lookup=1us", "unknown section 't_lookup', did you mean 'cache.t_lookup'?"),
        ("stak.cores=8", "unknown section 'stak', did you mean 'stack'?"),
        ("cach.bytes=8", "unknown section 'cach', did you mean 'cache'?"),
        (
            "x.y=8",
            "unknown section 'x': paths begin with nand, ftl, stack, fs or a section of the device",
        ),
        ("nand.channels.x=8", "'nand.channels' is a value, not a section"),
        ("nand.t_read=[1us", "[1us is not a TOML value"),
        ("nand.t_read=\"1us", "\"1us is not a TOML value"),
        ("nand.power=off", "expected a table of keys, found \"off\""),
        ("nand.channel_rate=1600", "'channel_rate' is bytes a second"),
        ("nand.gang=3", "'gang' must divide the number of channels, 8"),
        (
            "cache.bytes=1000000",
            "'bytes' must be above 0, and a multiple of ways x line_bytes = 32768",
        ),
        ("cache.dirty_high=101", "'dirty_high' must be from 0 to 100 percent, not 101"),
        ("cache.line_bytes=100", "'line_bytes' must be a multiple of 4096 up to 262144"),
        ("queues.weights=[4,2,0]", "'weights' must each be from 1 to 256"),
        (
            "queues.guard.commands=8",
            "'guard' guards against urgent queues, which round robin does not have: set \
             queues.arbitration to weighted-urgent, or queues.guard to none",
        ),
        (
            "interrupt.threshold=8",
            "'time' must be above 0 when interrupts are gathered: the last completion would wait \
             for ever",
        ),
        (
            "stack.scheduler=deadline",
            "unknown value 'deadline': use one of 'none', 'mq-deadline', 'kyber', 'bfq', 'sfq', did you mean \
             'mq-deadline'?",
        ),
        ("stack.queue_depth=1", "'queue_depth' must be from 2 to 65536, not 1"),
        ("testbed.cost.bios=1us", "unknown key 'bios' in [testbed.cost], did you mean 'bio'?"),
        ("cache.ways=5", "'bytes' must be above 0, and a multiple of ways x line_bytes = 20480"),
        ("stack.cost=1", "expected a table of keys, found 1"),
    ] {
        let found = set(&[text]);
        assert_eq!(found.len(), 1, "{found:?}");
        // The remedy for one value may be another.
        let elsewhere = ["interrupt.threshold=8", "cache.ways=5"];
        let place = match elsewhere.contains(&text) {
            true => "z-ssd-".to_string(),
            false => format!("--set {text}: "),
        };
        assert!(found[0].starts_with(&place), "{}", found[0]);
        assert!(found[0].contains(message), "{}\n{message}", found[0]);
    }
    let found = set(&["ftl.placement=host"]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|message| message.starts_with("z-ssd-")), "{found:?}");
    let firmware = "'firmware' is a drive's own: set ftl.placement to device, or it to none";
    let cache = "'cache' needs the FTL in the drive: set cache to none, or ftl.placement to device";
    assert!(found[0].ends_with(firmware) && found[1].ends_with(cache), "{found:?}");
    let weighted = "queues.arbitration=weighted-urgent";
    let found = set(&["queues.weighted_urgent=false", weighted]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].contains("which the drive does not offer (weighted_urgent = false)"),
        "{found:?}"
    );
    let found = set(&[weighted, "queues.guard.drain=0"]);
    let message = "'drain' must be from 1 to 65535, not 0";
    assert_eq!(found, [format!("--set queues.guard.drain=0: {message}")]);
    let partition = "cache.partition.split=requests";
    let found = set(&[partition, "cache.ways=1"]);
    assert_eq!(found.len(), 1, "{found:?}");
    let message =
        "'partition' needs two ways or more: raise cache.ways, or set cache.partition to none";
    assert!(found[0].ends_with(message), "{found:?}");
    for (text, message) in [
        ("cache.partition.latency_ways=8", "'latency_ways' must be from 1 to 7, not 8"),
        ("cache.partition.by=name", "unknown value 'name': use one of 'attribute', 'queue'"),
        ("cache.epoch.ios=0", "'ios' must be at least 1"),
        ("cache.epoch.time=0us", "'time' must be above 0"),
        ("cache.read_ahead.ratio=-1.0", "'ratio' must be from 0 to 1024 write units, not -1"),
        ("cache.read_ahead.ghosts.degrees=[]", "'degrees' must be one to sixteen degrees of 0 to "),
        ("cache.read_ahead.ghosts.sample=0", "'sample' must be from 1 to "),
        (
            "cache.read_ahead.ghosts.penalty=-0.5",
            "'penalty' must be from 0 to 1000 misses, not -0.5",
        ),
        ("cache.read_ahead.ghosts.hysteresis=101.0", "must be from 0 to 100 percent, not 101"),
    ] {
        let found = set(&[text]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(message), "{}\n{message}", found[0]);
    }
    // Without a cache there is nothing to set in it but all of it.
    let found = set(&["cache=none", "cache.bytes=4096"]);
    assert_eq!(found, ["--set cache.bytes=4096: the key 'ways' of [cache] is missing"]);
}

#[test]
fn all_problems_come_in_one_go() {
    let preset = show("cnex-westlake").unwrap();
    let text = with(&with(preset, "channels", "\"x\""), "t_erase", "6.5");
    let text = with(&text, "lanes", "true").replace("\nvictim", "\nvictims");
    let stack = show("linux-libaio").unwrap().replace("\nmerge", "\nmerges");
    let sources = Sources {
        device: Source::File { name: "my.toml", text: &text },
        stack: Source::File { name: "stack.toml", text: &stack },
        ..Sources::presets("", "")
    };
    let found = messages(sources, &["ftl.d_choices=many"]);
    let starts = [
        format!("my.toml:{}:12: expected a whole", line_of(&text, "channels")),
        format!("my.toml:{}:11: expected a time", line_of(&text, "t_erase")),
        format!("my.toml:{}:1: unknown key 'victims'", line_of(&text, "victims")),
        format!("my.toml:{}:9: expected a whole", line_of(&text, "lanes")),
        format!("stack.toml:{}:1: unknown key 'merges'", line_of(&stack, "merges")),
        "--set ftl.d_choices=many: expected a whole".to_string(),
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (found, start) in found.iter().zip(starts) {
        assert!(found.starts_with(&start), "{found}\n{start}");
    }
}

#[test]
fn files_that_are_no_profiles_are_refused() {
    assert_eq!(
        device(|_| "[device\nname = ".into())[0],
        "my.toml:1:8: not TOML: unclosed table, expected `]`"
    );
    assert_eq!(
        device(|_| String::new())[0],
        "my.toml:1:1: the section [device] with a name is missing"
    );
    assert_eq!(
        device(|t| t.replace("\nname", "\nnom"))[..1],
        ["my.toml:17:2: the key 'name' of [device] is missing"]
    );
    assert_eq!(
        messages(Sources::presets("z-ssd", "none"), &[]),
        ["unknown device 'z-ssd', did you mean 'z-ssd-800g'? Presets: cnex-westlake, cnex-small, \
             z-ssd-800g, z-ssd-small, z-ssd-flashshare, z-ssd-flashshare-small, intel-750-400g, \
             intel-750-small, p3600-2t, pm1725a-3200g, pm9a3-1920g, p41-plus-1tb, d3-s4610-480g, d3-s4610-small, bssd-400g, bssd-controller, bssd-small, \
             fssd-430g, fssd-small; or give a .toml file"]
    );
    let stack = show("linux-libaio").unwrap().replace("[stack]", "[stack]\ntestbed = \"i8-8700\"");
    let sources = Sources {
        stack: Source::File { name: "stack.toml", text: &stack },
        ..Sources::presets("z-ssd-small", "")
    };
    let found = messages(sources, &[]);
    assert!(
        found[0].starts_with("stack.toml:5:11: unknown testbed 'i8-8700', did you mean 'i7-8700'?"),
        "{}",
        found[0]
    );
    // A device profile where a stack belongs.
    let sources = Sources {
        stack: Source::File { name: "my.toml", text: show("cnex-westlake").unwrap() },
        ..Sources::presets("z-ssd-small", "")
    };
    let found = messages(sources, &[]);
    assert_eq!(found[0], "my.toml:1:1: the section [stack] with a name is missing");
    // Columns count characters, lines any line ending.
    assert_eq!(
        device(|_| "# Ü\r\n[device]\r\n'ä' = 1\r\nname='x' 1\r\n".into())[0],
        "my.toml:4:10: not TOML: unexpected key or value, expected newline, `#`"
    );
}

#[test]
fn later_errors_find_their_places() {
    let text = show("cnex-westlake").unwrap();
    let sources = Sources {
        device: Source::File { name: "my.toml", text },
        ..Sources::presets("", "linux-libaio")
    };
    let overrides = ["ftl.d_choices=4".to_string()];
    let (_, places) = assemble_with_places(sources, &overrides).unwrap();
    let at = |path: &str| places.error(path, "will not do").to_string();
    let line = line_of(text, "victim");
    assert_eq!(at("ftl.victim"), format!("my.toml:{line}:10: 'victim' will not do"));
    assert_eq!(at("ftl.d_choices"), "--set ftl.d_choices=4: 'd_choices' will not do");
    // Left to its default: the section.
    let line = line_of(text, "[ftl]");
    assert_eq!(at("ftl.gc_lines"), format!("my.toml:{line}:2: 'gc_lines' will not do"));
    let line = line_of(show("i7-8700").unwrap(), "crossing");
    assert_eq!(
        at("stack.cost.crossing"),
        format!("i7-8700.toml:{line}:12: 'crossing' will not do")
    );
}

/// A profile may begin with a preset of its kind: what it names itself has its own place, what it does not
/// has the preset's.
#[test]
fn a_profile_may_begin_with_another() {
    let text = "[device]\nname = \"mine\"\nbase = \"z-ssd-800g\"\n[nand]\nblocks = 64\n";
    fn sources(text: &str) -> Sources<'_> {
        let device = Source::File { name: "my.toml", text };
        Sources { device, ..Sources::presets("", "linux-libaio") }
    }
    let own = assemble(sources(text), &[]).unwrap();
    let base = assemble(Sources::presets("z-ssd-800g", "linux-libaio"), &[]).unwrap();
    assert_eq!((own.nand.blocks, own.nand.channels), (64, base.nand.channels));
    assert_eq!((own.device_name.as_str(), &own.device), ("mine", &base.device));
    for (from, to, message) in [
        ("blocks = 64", "blocks = 0", "my.toml:5:10: 'blocks' must be at least 1"),
        ("blocks", "blokcs", "my.toml:5:1: unknown key 'blokcs' in [nand], did you mean 'blocks'?"),
        ("z-ssd-800g", "z-ssd-80g", "my.toml:3:8: "),
        ("\"z-ssd-800g\"", "7", "my.toml:3:8: 'base' must be a string"),
    ] {
        let wrong = text.replace(from, to);
        let found = messages(sources(&wrong), &[]);
        assert!(found.iter().any(|m| m.starts_with(message)), "{found:?}");
    }
    // Without the base nothing can be said to be missing.
    for kind in ["device", "stack"] {
        let text = format!("[{kind}]\nname = \"mine\"\nbase = \"nothing\"\n");
        let file = Source::File { name: "my.toml", text: &text };
        let presets = Sources::presets("z-ssd-800g", "linux-libaio");
        let found = match kind {
            "device" => messages(Sources { device: file, ..presets }, &[]),
            _ => messages(Sources { stack: file, ..presets }, &[]),
        };
        assert!(found.len() == 1 && found[0].starts_with("my.toml:3:8: "), "{found:?}");
    }
    // What only the base says is blamed where the base says it.
    let found = messages(sources(text), &["interrupt.threshold=4", "interrupt.time=0us"]);
    assert!(!found.is_empty(), "{found:?}");
}

/// A setting of what the system has not says which option brings it.
#[test]
fn a_setting_of_an_absent_section_names_the_option_that_brings_it() {
    let read = |stack, fs: Option<&'static str>, sets: &[&str]| {
        let sets: Vec<String> = sets.iter().map(|s| s.to_string()).collect();
        let fs = fs.map(Source::Preset);
        assemble(Sources { fs, ..Sources::presets("cnex-small", stack) }, &sets)
    };
    for (set, told) in [
        ("fs.ext4.data=ordered", "no file system is on the drive: take --fs ext4 with it"),
        ("stack.fs.xfs.sync=3ms", "no file system is on the drive: take --fs xfs with it"),
        ("fs.memory=1_000_000", "no file system is on the drive: take --fs ext4 with it"),
        (
            "stack.nbd.transport=unix",
            "the drive is no network block device: take --stack nbd-kernel or nbd-spdk with it",
        ),
        (
            "nand.slc.t_read=3us",
            "the flash has no blocks with a bit a cell: take --device p41-plus-1tb with it, or set t_program, \
             t_erase, endurance, read_mw, program_mw, erase_mw of nand.slc as well",
        ),
    ] {
        let error = read("linux-libaio", None, &[set]).unwrap_err().to_string();
        assert_eq!(error, format!("--set {set}: {told}"));
    }
    let ordered = read("linux-libaio", Some("ext4"), &["fs.ext4.data=ordered"]).unwrap();
    assert!(ordered.stack.fs.is_some());
    let nbd = read("nbd-kernel", None, &["stack.nbd.transport=unix"]).unwrap();
    assert!(nbd.stack.nbd.is_some());
    let whole = ["t_read=3us", "t_program=100us", "t_erase=1ms", "endurance=9", "read_mw=1"];
    let whole = whole.into_iter().chain(["program_mw=1", "erase_mw=1"]);
    let whole: Vec<String> = whole.map(|set| format!("nand.slc.{set}")).collect();
    let whole: Vec<&str> = whole.iter().map(String::as_str).collect();
    assert!(read("linux-libaio", None, &whole).unwrap().nand.slc.is_some());
}

/// A setting of another kind of FTL than the drive's would change that, or do nothing.
#[test]
fn settings_of_another_ftl_are_refused() {
    let read = |device, ftl: Option<&'static str>, sets: &[&str]| {
        let sets: Vec<String> = sets.iter().map(|s| s.to_string()).collect();
        let ftl = ftl.map(Source::Preset);
        assemble(Sources { ftl, ..Sources::presets(device, "linux-libaio") }, &sets)
    };
    let lag = "ftl.firmware.gc_lag=8";
    let take =
        format!("--set {lag}: the drive's FTL is not 'firmware': take --ftl firmware with it");
    for device in ["cnex-small", "fssd-small", "z-ssd-flashshare-small"] {
        assert_eq!(read(device, None, &[lag]).unwrap_err().to_string(), take, "{device}");
    }
    let gone = read("z-ssd-small", None, &["ftl.firmware=none", lag]).unwrap_err().to_string();
    assert_eq!(gone, take);
    for (device, ftl) in [("z-ssd-small", None), ("z-ssd-flashshare-small", Some("firmware"))] {
        let config = read(device, ftl, &[lag]).unwrap();
        assert_eq!(config.ftl.firmware.unwrap().gc_lag, Some(8), "{device}");
    }
    let bridge = read("bssd-small", None, &[lag]).unwrap();
    assert!(bridge.members.iter().all(|m| m.ftl.firmware.as_ref().unwrap().gc_lag == Some(8)));
    let drives = "bridge.drives=[\"z-ssd-small\"]";
    let bridge = read("bssd-small", None, &[drives, "nand.gang=1", lag]).unwrap();
    assert!(bridge.members.iter().all(|m| m.ftl.firmware.as_ref().unwrap().gc_lag == Some(8)));

    let start = "ftl.gc_start_lines=9";
    let pblk = format!(
        "--set {start}: 'gc_start_lines' is of pblk, and the drive's FTL is 'firmware': take --ftl pblk with \
         it, or a setting of ftl.firmware"
    );
    assert_eq!(read("z-ssd-small", None, &[start]).unwrap_err().to_string(), pblk);
    for sets in [&[start, "ftl.firmware=none"][..], &["ftl.cost.read_sector=1us"]] {
        read("z-ssd-small", None, sets).unwrap();
    }
    assert_eq!(read("z-ssd-small", Some("pblk"), &[start]).unwrap().ftl.gc_start_lines, Some(9));

    for set in ["ftl.victim=fifo", "ftl.buffer_sectors=128", "ftl.stride=4"] {
        let key = &set[4..set.find('=').unwrap()];
        let fssd = format!(
            "--set {set}: '{key}' is of pblk, and the drive's FTL is 'fssd': take --ftl pblk with it, or a setting of \
             ftl.fssd"
        );
        assert_eq!(read("fssd-small", None, &[set]).unwrap_err().to_string(), fssd);
    }
    read("fssd-small", Some("pblk"), &["ftl.victim=fifo"]).unwrap();
    let map = "ftl.cost.map.lock=1us";
    let tree = format!("--set {map}: the drive's FTL is not 'fssd': take --ftl fssd with it");
    for device in ["cnex-small", "z-ssd-small"] {
        assert_eq!(read(device, None, &[map]).unwrap_err().to_string(), tree, "{device}");
    }
    read("fssd-small", None, &[map]).unwrap();
}

/// What a run would refuse is no profile.
#[test]
fn limits_of_power_that_no_operation_fits_in_are_refused() {
    for set in ["power.flash_limit_mw=1", "power.limit_reads=true"] {
        let sources = Sources::presets("z-ssd-small", "linux-libaio");
        let error = assemble(sources, &[set.into()]).unwrap_err().to_string();
        assert!(error.contains(&set[6..set.find('=').unwrap()]), "{error}");
    }
}

/// Nothing is to be collected in a medium that is written over in place.
#[test]
fn a_medium_that_is_written_in_place_has_no_collector() {
    let read = |sets: &[&str], ftl: Option<&'static str>| {
        let sets: Vec<String> = sets.iter().map(|s| s.to_string()).collect();
        let ftl = ftl.map(Source::Preset);
        assemble(Sources { ftl, ..Sources::presets("z-ssd-small", "linux-libaio") }, &sets)
    };
    let capacity = |config: &Config| derive(config).capacity.user_sectors;
    let own = capacity(&read(&[], None).unwrap());
    for medium in ["optane", "mram"] {
        let media = format!("nand.media={medium}");
        let config = read(&[&media], None).unwrap();
        assert_eq!(config.ftl.firmware, None);
        assert!(capacity(&config).abs_diff(own) <= 1, "{} and {own}", capacity(&config));
        let lines = read(&[&media, "nand.in_place=false"], None).unwrap();
        assert!(lines.ftl.firmware.is_some());
        assert_eq!(capacity(&lines), own);
        for (sets, ftl) in [
            (vec![media.as_str()], Some("firmware")),
            (vec![&media, "ftl.firmware.gc_lag=8"], None),
        ] {
            let error = read(&sets, ftl).unwrap_err().to_string();
            assert!(error.contains("set nand.in_place to false, or it to none"), "{error}");
        }
    }
}

/// The stride is told where it does not fit, and the LUNs where they are too few for any line.
#[test]
fn lines_of_too_few_luns_are_refused_by_what_the_user_wrote() {
    let refused = |ftl: &'static str, sets: &[&str]| {
        let sets: Vec<String> = sets.iter().map(|s| s.to_string()).collect();
        let sources = Sources {
            ftl: Some(Source::Preset(ftl)),
            ..Sources::presets("cnex-small", "linux-libaio")
        };
        let (config, places) = assemble_with_places(sources, &sets).unwrap();
        let g = derive(&config).geometry;
        let error = wordline_ftl::line_room(&g, &config.ftl).unwrap_err().below("ftl");
        places.error(&error.key, &error.why).to_string()
    };
    let few = ["nand.channels=1", "nand.luns_per_channel=1"];
    let error = refused("rail", &few);
    let told = "'stride' is 4, but there is 1 LUN: set ftl.stride to 0, for no parity, or give the drive more LUNs";
    assert!(error.contains("rail.toml") && error.contains(told), "{error}");
    let error = refused("rail", &["nand.channels=1", "nand.luns_per_channel=2"]);
    assert!(error.contains("at most 2, to 0 for no parity"), "{error}");
    let error = refused("rail-hc", &["nand.channels=1", "nand.luns_per_channel=4"]);
    assert!(
        error.contains("'hot_cold' needs two strides of 4 LUNs, but there are 4 LUNs: set"),
        "{error}"
    );
    let error = refused("pblk", &few);
    let told = "'luns_per_channel' is too small: a line needs 2 blocks, 1 for its metadata and one for data, but";
    assert!(error.contains(told) && error.contains("--set"), "{error}");
}

/// Channels of a gang share a page that is a sector: a sector is written alone, and the drive keeps its capacity.
#[test]
fn a_medium_whose_page_is_a_sector_is_split_over_a_gang() {
    let read = |sets: &[&str]| {
        let sets: Vec<String> = sets.iter().map(|s| s.to_string()).collect();
        assemble(Sources::presets("z-ssd-small", "linux-libaio"), &sets).unwrap()
    };
    let own = derive(&read(&[])).geometry.bytes();
    for medium in ["nand.media=optane", "nand.media=mram"] {
        for (more, channels, page) in
            [("nand.gang=2", 4, 2048), ("nand.gang=4", 2, 1024), ("nand.gang=1", 8, 4096)]
        {
            let config = read(&[medium, more]);
            let g = derive(&config).geometry;
            assert_eq!((g.sectors_per_unit, g.channels), (1, channels), "{medium} {more}");
            assert_eq!((config.nand.page_bytes, config.nand.transfer_bytes), (page, page));
            assert_eq!(g.bytes(), own, "{medium} {more}");
        }
    }
    // Pages of flash that hold parts of many sectors are one on each channel.
    let config = read(&["nand.media=bics"]);
    assert_eq!(config.nand.page_bytes, 16384);
}

#[test]
fn a_volatile_buffer_behind_a_protected_cache_is_refused() {
    let [error] = &set(&["ftl.firmware.protected=false"])[..] else { panic!("one message") };
    let told = "'protected' must be true behind a cache with capacitors";
    assert!(error.contains(told) && error.contains("cache.capacitor to false"), "{error}");
    for sets in [
        &["ftl.firmware.protected=false", "cache.capacitor=false"][..],
        &["ftl.firmware.protected=false", "cache=none"],
        &["cache.capacitor=false"],
    ] {
        let sources = Sources::presets("z-ssd-small", "linux-libaio");
        let overrides: Vec<String> = sets.iter().map(|s| s.to_string()).collect();
        assert!(assemble(sources, &overrides).is_ok(), "{sets:?}");
    }
}
