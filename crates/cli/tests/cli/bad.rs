//! Bad input: a place, a remedy, the right exit status, and nothing left behind.

use super::place::{Place, float, int};
use crate::skip::skip;
use std::process::Stdio;

const JOB: &str = "run --name=a --rw=randread --number_ios=20 --device z-ssd-small";

#[test]
fn text_that_is_no_job_file_is_refused_with_its_line() {
    let place = Place::new();
    for (text, parts) in [
        ("bs=4k\n", &["job.fio:1", "[section]"][..]),
        ("[a\nbs=4k\n", &["job.fio:1", "']'"]),
        ("[a]\niodpeth=3\n", &["job.fio:2", "did you mean 'iodepth'?"]),
        ("[a]\nrw=randraed\n", &["job.fio:2", "did you mean 'randread'?"]),
        ("[a]\n\nbs\n", &["job.fio:3", "a value is missing"]),
        ("[a]\nbs=0\n", &["job.fio:2", "at least 1"]),
        ("[a]\nbs=-4k\n", &["job.fio:2"]),
        ("[a]\niodepth=0\n", &["job.fio:2"]),
        ("[a]\nnumjobs=5000\n", &["numjobs"]),
        ("[a]\nrwmixread=101\n", &["job.fio:2", "100"]),
        ("[a]\nsize=1m\noffset=900g\n", &["job.fio:1", "job 'a'", "lower offset"]),
        (
            "[a]\n\ndirectory=${NO_SUCH}\n",
            &["job.fio:3", "directory", "${NO_SUCH} is not set: NO_SUCH="],
        ),
        ("[a]\nwrite_mode=uncor\n", &["job.fio:2", "write_mode", "leave it out"]),
        ("[a]\ncmdprio_bssplit=4k/10/2\n", &["job.fio:2", "bs/percent/class/level/hint"]),
        ("[a]\nsize=1k\nbs=4k\n", &["job.fio:1", "less than one block"]),
        ("[a]\nruntime=99999999999999999999\n", &["job.fio:2"]),
        ("[a]\nwait_for=b\n", &["job.fio:1", "'b'"]),
        ("[a]\nioengine=libaoi\n", &["did you mean 'libaio'?"]),
        ("[a]\nflow=5\n", &["not modelled"]),
        ("[a]\ninclude job.fio\n", &["job.fio"]),
        ("", &["no job is defined"]),
    ] {
        place.file("job.fio", text);
        let done = place.run("run job.fio --device z-ssd-small").fails(2, parts);
        assert_eq!(done.out, "", "{text}");
    }
    assert_eq!(place.files(), ["job.fio"]);
    place.file("job.fio", b"[a]\nrw=\xff\xfe\n");
    place.run("run job.fio").fails(2, &["job.fio", "byte 8 is not UTF-8"]);
    // The beginning of a zip whose first member is format.json.
    let saved = [b"PK\x03\x04".as_slice(), &[0x80; 26], b"format.json"].concat();
    place.file("a.wordline", saved);
    place
        .run("report a.wordline -o a.html")
        .fails(2, &["a.wordline", "Result.save", "report.json+"]);
    place.file("job.fio", [0u8, 159, 146, 150].repeat(1000));
    place.run("run job.fio").fails(2, &["job.fio", "not a text file"]);
    place.run("run /dev/zero").fails(2, &["/dev/zero", "MiB"]);
    // What salvages a damaged image makes none of a mistyped name.
    let new = "--image none.img --size 64M --device cnex-small --nbd unix:none.sock";
    place.run(&format!("serve --salvage {new}")).fails(2, &["none.img", "check the path"]);
    assert!(!place.path("none.img").exists());
    place.run("run none.fio").fails(2, &["none.fio", "check the path"]);
    place.run("run .").fails(2, &["name a file in it"]);
    let strict = place.run(&format!("{JOB} --strict --mem=malloc"));
    strict.fails(2, &["'mem' has no meaning here"]);
}

#[test]
fn a_device_that_another_one_overrides_is_told() {
    let place = Place::new();
    let job = "run --name=a --rw=randread --number_ios=20 --precondition=none";
    let told = "note: --device z-ssd-small is used and --device cnex-small before it is not";
    for (more, times) in [("", 1), (" -q", 0), (" --device z-ssd-small --repeat 2", 1)] {
        let done = place.run(&format!("{job} --device cnex-small --device z-ssd-small{more}")).ok();
        assert_eq!(done.err.matches(told).count(), times, "{}", done.err);
    }
}

#[test]
fn unknown_options_and_names_are_refused_with_the_nearest() {
    let place = Place::new();
    for (words, parts) in [
        ("--devcie=x", &["did you mean '--device'?"][..]),
        ("--iodpeth=3", &["did you mean '--iodepth'?"]),
        ("--xyzzy", &["unknown option '--xyzzy'", "--help"]),
        ("--rw", &["a value is missing"]),
        ("--b=4k", &["ambiguous"]),
        ("--minimal", &["--output-format=terse"]),
        ("--device=cnex-smal", &["did you mean 'cnex-small'?"]),
        ("--device", &["--device"]),
        ("--stack=linux-libaoi", &["did you mean 'linux-libaio'?"]),
        ("--ftl=pblc", &["pblk"]),
        ("--testbed=i7", &["testbed"]),
        ("--device=cnex-small --stack=none", &["kernel", "on the host"]),
        ("--set nand.t_raed=3us", &["--set nand.t_raed=3us", "did you mean 't_read'?"]),
        ("--set nand.t_read", &["--set nand.t_read"]),
        ("--set nand.t_read=fast", &["--set nand.t_read=fast"]),
        ("--set nand.t_read=-3us", &["nand.t_read"]),
        ("--set nand.t_read=5000s", &["hour"]),
        ("--set nand.channels=0", &["nand.channels"]),
        ("--set ftl.over_provisioning=0.1", &["over_provisioning"]),
        ("--set =", &["--set"]),
        (
            "--device=fssd-small --set ftl.on_host=half",
            &["--set ftl.on_host=half", "must be all, map, gc, schedule or none"],
        ),
        ("--device=fssd-small --set ftl.fssd.places=0", &["places", "must be 1 to 67108864"]),
        ("--device=fssd-small --stack=none --set ftl.on_host=schedule", &["scheduler on the host"]),
        (
            "--device=fssd-small --ioengine=spdk --set ftl.on_host=schedule",
            &["ioengine", "where its FTL's scheduler is"],
        ),
        (
            "--device=fssd-small --set ftl.on_host=schedule --set stack.scheduler=kyber",
            &["'scheduler' must be none", "ftl.fssd.scheduler"],
        ),
        (
            "--device=fssd-small --set ftl.fssd.victims=host",
            &["ftl.fssd.victims", "or it to drive"],
        ),
        ("--device=fssd-small --set ftl.fssd.report_units=0", &["report_units", "must be 1 to"]),
        (
            "--device=fssd-small --set ftl.fssd.report_units=4000000000",
            &["report_units", "1048576"],
        ),
        (
            "--device=fssd-small --stack=none --set ftl.on_host=gc",
            &["'kernel' must be true", "collector on the host"],
        ),
        (
            "--device=fssd-small --ioengine=spdk --set ftl.on_host=gc",
            &["ioengine", "where its FTL's collector is"],
        ),
        ("--device=cnex-small --set ftl.on_host=none", &["--ftl fssd"]),
        (
            "--device=fssd-small --set ftl.fssd.host_memory=100000",
            &["--set ftl.fssd.host_memory=100000: ", "at least", "4 units of the buffer"],
        ),
        ("--device=fssd-small --set ftl.fssd.gc_units=1", &["gc_units", "at least 2"]),
        (
            "--device=fssd-small --host-memory=100k",
            &["wordline: --host-memory 100K: ", "at least", "4 units of the buffer"],
        ),
        ("--device=cnex-small --host-memory=16G", &["--host-memory 16G: ", "--ftl fssd"]),
        (
            "--device=fssd-small --host-memory=64M --set ftl.on_host=none",
            &["--host-memory 64M: 'host_memory'", "all or map"],
        ),
        ("--device=fssd-small --host-memory=much", &["--host-memory", "a number"]),
        ("--device=bssd-small --set bridge.stripe_bytes=5000", &["a multiple of 4096, not 5000"]),
        (
            "--device=z-ssd-small --array raid5 --drives 2",
            &["raid5 needs at least 3 drives and has 2"],
        ),
        (
            "--device=z-ssd-small --array raid5 --drives 3 --set stack.md.chunk=5000",
            &["--set stack.md.chunk=5000", "'chunk' is 5000 bytes", "a power of two"],
        ),
        ("--set md.chunk=65536", &["--set md.chunk=65536: ", "did you mean 'stack.md'?"]),
        ("--precondition=full", &["none", "fill", "steady"]),
        ("--seed=x", &["--seed"]),
        ("--seed=-1", &["--seed"]),
        ("--output-format=xml", &["json+"]),
        ("--slowest=many", &["--slowest"]),
        ("--load-state=x --precondition=fill", &["cannot be used with"]),
        ("--load-state=none.state", &["none.state", "check the path"]),
        ("--section=b", &["'b'"]),
    ] {
        let done = place.run(&format!("{JOB} {words}")).fails(2, parts);
        assert_eq!(done.out, "", "{words}");
    }
    place.run("replay").fails(2, &["<TRACE>"]);
    place.run("device").fails(2, &["list"]);
    place.run("device show cnex-smal").fails(2, &["did you mean 'cnex-small'?"]);
    place
        .run("device show cnex-smal.toml")
        .fails(2, &["is the name of a file", "wordline device check explains"]);
    place.run("device show nothing").fails(2, &["'nothing': wordline device list names all"]);
    place.run("device check .").fails(2, &["."]);
    place.run("rnu").fails(2, &["'rnu'"]);
    assert_eq!(place.files(), [""; 0]);
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        let odd = std::ffi::OsStr::from_bytes(b"\xff.fio");
        let done = place.command(&["run"]).arg(odd).output().expect("the program starts");
        assert_eq!(done.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&done.stderr).contains("not UTF-8"));
    }
}

#[test]
fn text_that_is_no_profile_is_refused_with_its_line() {
    let place = Place::new();
    let profile = place.run("device show z-ssd-800g").ok().out;
    let line = profile.lines().position(|l| l.starts_with("t_read ")).expect("t_read") + 1;
    for (from, to, part) in [
        ("t_read ", "t_raed ", "did you mean 't_read'?"),
        ("t_read ", "t_read = [] #", ""),
        ("t_read ", "t_read = \"9999999h\" #", ""),
    ] {
        place.file("my.toml", profile.replacen(&format!("\n{from}"), &format!("\n{to}"), 1));
        for words in ["run --name=a --device my.toml", "device check my.toml"] {
            place.run(words).fails(2, &[&format!("my.toml:{line}"), part]);
        }
    }
    for text in [&b""[..], b"[nand", b"\xff\x00garbage", b"nand = 3\n"] {
        place.file("my.toml", text);
        place.run("device check my.toml").fails(2, &["my.toml"]);
    }
    place.run("device check none.toml").fails(2, &["none.toml", "check the path"]);
}

/// What is there stays: all that is read by whatever name, and the first of two results for one file.
#[test]
fn nothing_is_written_over_what_is_read_or_over_another_result() {
    let place = Place::new();
    let job = "[a]\nrw=randread\nnumber_ios=20\n";
    place.file("job.fio", job);
    let run = "run job.fio --device z-ssd-small";
    for (words, parts) in [
        ("-o job.fio", ["--output job.fio", "is read"]),
        ("--report ./job.fio", ["--report ./job.fio", "is read"]),
        ("--repeat 2 -o job.fio", ["--output job.fio", "is read"]),
        ("-o x --timeline ./x", ["--timeline ./x", "--output x"]),
        ("-o x --report x", ["--report x", "--output x"]),
        ("--over-time x --save-state x", ["--save-state x", "--over-time x"]),
        ("--write_lat_log=x -o x_clat.1.log", ["the log x_clat.1.log", "--output x_clat.1.log"]),
    ] {
        place.run(&format!("{run} {words}")).fails(2, &parts).fails(2, &["name another"]);
        assert_eq!(place.files(), ["job.fio"], "{words}");
    }
    let link = |to: &str, name: &str| {
        std::os::unix::fs::symlink(to, place.path(name)).expect("a link");
    };
    link("job.fio", "link");
    place.run(&format!("{run} -o link")).fails(2, &["--output link", "is read"]);
    assert_eq!(place.text("job.fio"), job);
    link("nowhere", "other");
    place
        .run(&format!("{run} -o other --report nowhere"))
        .fails(2, &["--report nowhere", "--output other"]);
    place.run(&format!("{run} -o other")).ok();
    assert!(place.text("nowhere").contains("IOPS="), "the file there is written, not the link");
    place.run(&format!("{run} -o /dev/null --report /dev/null")).ok();
    // A name that a preset has is a file's here.
    for _ in 0..2 {
        place.run(&format!("{run} --output-format json -o z-ssd-small")).ok();
        place.run(&format!("{run} --output-format json -o linux-libaio")).ok();
    }
    let result = place.text("z-ssd-small");
    let told = ["--output z-ssd-small", "is read"];
    place.run("report z-ssd-small -o z-ssd-small").fails(2, &told);
    assert_eq!(place.text("z-ssd-small"), result);
    place.file("t.log", "fio version 2 iolog\nx add\nx open\nx read 0 4096\nx close\n");
    place.file("replays.fio", "[a]\nread_iolog=t.log\n");
    place.file("includes.fio", "[a]\nrw=randread\nnumber_ios=20\ninclude part.fio\n");
    place.file("part.fio", "bs=8k\n");
    place.file("d.toml", "[device]\nname = \"d\"\nbase = \"below.toml\"\n");
    place.file("below.toml", "[device]\nname = \"b\"\nbase = \"z-ssd-small\"\n");
    place.file("machine.toml", "[[drive]]\ndevice = \"d.toml\"\n");
    place.file("s.toml", "[study]\ntitle = \"t\"\nshows = \"s\"\n[base]\ndevice = \"z-ssd-small\"\njob = \"[a]\"\n\
                          [[axis]]\nname = \"a\"\nvalues = [1]\n[[metric]]\nname = \"x\"\npath = \"y\"\n");
    place.run(&format!("{run} --save-state state")).ok();
    let before: Vec<String> =
        place.files().iter().map(|name| place.path(name).display().to_string()).collect();
    let bytes =
        || before.iter().map(|name| std::fs::read(name).expect("a file")).collect::<Vec<_>>();
    let (was, quick) = (bytes(), "--name=a --number_ios=10");
    for (words, to) in [
        ("replay t.log --device z-ssd-small", "t.log"),
        ("run replays.fio --device z-ssd-small", "t.log"),
        ("run includes.fio --device z-ssd-small", "part.fio"),
        (&format!("run {quick} --device d.toml"), "d.toml"),
        (&format!("run {quick} --device z-ssd-small,d.toml"), "d.toml"),
        (&format!("run {quick} --device d.toml"), "below.toml"),
        (&format!("run {quick} --topology machine.toml"), "machine.toml"),
        (&format!("run {quick} --topology machine.toml"), "d.toml"),
        (&format!("run {quick} --device z-ssd-small --load-state state"), "state"),
        ("study report s.toml", "s.toml"),
    ] {
        let told = format!("--output {to}");
        place.run(&format!("{words} -o {to}")).fails(2, &[&told, "is read as well: name another"]);
    }
    assert!(bytes() == was, "something was written over");
}

/// `write_iolog` is looked at before the run as other results are.
#[test]
fn the_log_of_a_job_is_written_over_nothing_that_was_read_or_is_a_result() {
    let place = Place::new();
    let log = "fio version 2 iolog\nx add\nx open\nx read 0 4096\nx close\n";
    let own = "[a]\nrw=randread\nnumber_ios=20\nwrite_iolog=own.fio\n";
    place.file("own.fio", own);
    place.file("t.log", log);
    place.file(
        "two.fio",
        "[a]\nread_iolog=t.log\n[b]\nrw=randread\nnumber_ios=20\nwrite_iolog=./t.log\n",
    );
    let files = place.files();
    let on = "--device z-ssd-small";
    let read = "is a file that is read as well: name another";
    place.run(&format!("run own.fio {on}")).fails(2, &["write_iolog own.fio", read]);
    place.run(&format!("run two.fio {on}")).fails(2, &["write_iolog ./t.log", read]);
    let same = "is the same file as";
    for (more, of) in
        [("--output x", "--output x"), ("--write_lat_log=x --per_job_logs=0", "the log x_lat.log")]
    {
        let log = of.split(' ').next_back().expect("a file");
        let line = format!("{JOB} --write_iolog=./{log} {more}");
        place.run(&line).fails(2, &[&format!("write_iolog ./{log} {same} {of}")]);
    }
    let apart = "--name=b --rw=randread --number_ios=20 --write_iolog=./x";
    place.run(&format!("{JOB} --write_iolog=x {apart}")).fails(2, &[same]);
    let done = place.run(&format!("{JOB} --write_iolog=none/x"));
    done.fails(2, &["cannot write none/x"]);
    let repeats = place.run(&format!("{JOB} --write_iolog=x --repeat 2"));
    repeats.fails(2, &["write_iolog and their like out"]);
    assert_eq!(place.files(), files, "nothing was begun");
    assert_eq!((place.text("own.fio"), place.text("t.log")), (own.into(), log.into()));
    // Jobs may share one.
    place.run(&format!("{JOB} --write_iolog=x --numjobs=2")).ok();
    assert_eq!(place.text("x").matches(" read ").count(), 40);
}

#[test]
fn options_for_several_drives_that_contradict_each_other_are_refused() {
    let place = Place::new();
    let two = "run --name=a --rw=randread --number_ios=20 --device z-ssd-small,cnex-small";
    place.run(&format!("{two} --drives 2")).fails(2, &["--drives 2", "leave one of them out"]);
    place.run(&format!("{two} --save-state x")).fails(2, &["of one drive", "run of its own"]);
    place
        .run(&format!("{two} --filename=/dev/nvme7n1"))
        .fails(2, &["is none of /dev/nvme0n1, /dev"]);
    place
        .run(&format!("{two} --filename=/dev/nvme1n1 --fs ext4 --size=1m"))
        .fails(2, &["job 'a'", "files are on the first drive"]);
    place.run("run --name=a --topology none.toml").fails(2, &["none.toml", "check the path"]);
    place.file("t.toml", "[[drive]]\ndevise = \"z-ssd-small\"\n");
    place.run("run --name=a --topology t.toml").fails(2, &["t.toml", "devise"]);
    let three = "[[drive]]\ndevice = \"z-ssd-small\"\n".repeat(3);
    let array = "[[array]]\nlevel = \"raid0\"\nmembers = [\"nvme0n1\", \"nvme1n1\"]\nsize = 1000\n";
    place.file("t.toml", format!("{three}{array}"));
    place.run("run --name=a --rw=randread --topology t.toml").fails(
        2,
        &["t.toml:10:8: 'size' is 1000 bytes of each drive", "must hold a chunk of 65536 bytes"],
    );
    let host = "[[host]]\nname = \"app\"\nstack = \"linux-libai\"\n";
    for (text, parts) in [
        (
            three.replacen("ll\"", "l\"", 1),
            ["t.toml:2:10: unknown device 'z-ssd-smal'", "'z-ssd-small'?"],
        ),
        (format!("{three}ftl = \"rial\"\n"), ["t.toml:7:7: unknown ftl 'rial'", "'rail'?"]),
        (
            format!("{three}host = \"app\"\n{host}"),
            ["t.toml:10:9: unknown stack 'linux-libai'", "'linux-libaio'?"],
        ),
    ] {
        place.file("t.toml", text);
        place.run("run --name=a --topology t.toml").fails(2, &parts);
    }
    let switch = "[[switch]]\nname = \"px\"\ngeneration = 9\nlanes = 4\nefficiency = 0.9\nt_forward = \"100ns\"\n";
    for (text, parts) in [
        (
            format!("{three}switch = \"px\"\n"),
            ["t.toml:5:1: drive nvme2n1: there is no switch 'px'", "list it"],
        ),
        (
            format!("{three}set = [\"nand.t_read=x\"]\n"),
            ["t.toml:5:1: drive nvme2n1: set = [\"nand.t_read=x\"]: ", "x"],
        ),
        (
            format!("{three}switch = \"px\"\n{switch}"),
            ["wordline: t.toml:8:1: switch px: generation", "9"],
        ),
        (
            format!("{three}{}", array.replace("nvme1n1", "nvme0n1")),
            ["t.toml:7:1: array md0: nvme0n1 is in it twice", "name each drive once"],
        ),
        (
            format!("{three}{host}{host}").replace("libai\"", "libaio\""),
            ["t.toml: two hosts are named app", "of its own"],
        ),
    ] {
        place.file("t.toml", text);
        place.run("run --name=a --topology t.toml").fails(2, &parts);
    }
    // However the list is written.
    let spaced = three.replacen("[[drive]]", "[[ drive ]]", 1);
    let spaced = spaced.replacen("\n[[drive]]", "\nswitch = \"px\"\n[[drive]]", 1);
    let inline =
        "drive = [\n{ device = \"z-ssd-small\" },\n  { device = \"z-ssd-small\", host = \"b\" }]\n";
    for (text, says) in [
        (&*spaced, "t.toml:1:1: drive nvme0n1: there is no switch 'px'"),
        (inline, "t.toml:3:3: drive nvme1n1: there is no host 'b'"),
    ] {
        place.file("t.toml", text);
        place.run("run --name=a --topology t.toml").fails(2, &[says]);
    }
    // What the command line says is not the file's.
    place.file("t.toml", format!("{three}set = [\"nand.t_read=1us\"]\n"));
    place
        .run("run --name=a --topology t.toml --set nand.t_prog=x")
        .fails(2, &["--set nand.t_prog"]);
    assert!(!place.path("x").exists(), "no state of one drive was written");
}

/// A base that has settings for drives of its own, and other drives.
#[test]
fn drives_behind_a_bridge_that_do_not_fit_its_settings_are_refused() {
    let place = Place::new();
    let stripe = "stripe_bytes = 65536\ndrive_tags = 32\n";
    for (drives, parts) in [
        (
            "fssd-small",
            [
                "'ways' of [cache] of fssd-small",
                "over 'fssd-small' go settings of [bridge.members]",
            ],
        ),
        ("z-ssd-small", ["'gang' must divide", "cache.bytes, nand.blocks, nand.channels"]),
    ] {
        let text = format!(
            "[device]\nname = \"x\"\nbase = \"bssd-small\"\n[bridge]\ndrives = [\"{drives}\"]\n{stripe}"
        );
        place.file("b.toml", text);
        place.run("run --name=a --device b.toml").fails(2, &["b.toml:5:11: ", "\"none\""]);
        place.run("run --name=a --device b.toml").fails(2, &parts);
    }
    let bridge = place.run("device show bssd-400g").ok().out;
    let bridge = bridge.replace("\"bssd-controller\"", "\"fssd-small\"");
    let bridge = bridge.split("[bridge.members").next().expect("a part").to_string();
    place.file("f.toml", bridge);
    place
        .run("run --name=a --device f.toml")
        .fails(2, &["behind a bridge", "--set ftl.on_host=none"]);
}

#[test]
fn jobs_beyond_the_drive_are_refused_or_cut() {
    let place = Place::new();
    place
        .run(&format!("{JOB} --offset=900g"))
        .fails(2, &["offset=966367641600 is not before the end of the drive, 6251323392 bytes"]);
    place.run(&format!("{JOB} --scale 1/4 --bs=3g")).fails(2, &["less than one block"]);
    for bs in ["--bs=100g", "--bs=4k,4k,4g", "--bssplit=4k/50:4g/50", "--bsrange=4k-4g"] {
        place
            .run(&format!("{JOB} {bs}"))
            .fails(2, &["job 'a'", "is too large: at most 4294959104"]);
    }
    // As fio does with a block device, size is cut at the end of the drive, which is told.
    let notes = |size: &str| {
        let job = format!("{JOB} --rw=read --{size} --number_ios=10 --output-format=json");
        place.run(&job).ok().json()["wordline"]["notes"].to_string()
    };
    for size in ["size=1t", "filesize=1t", "size=1t --offset=1g"] {
        let notes = notes(size);
        let told = ["job 'a'", "1099511627776", "more than the drive's 6251323392 bytes"];
        assert!(told.iter().all(|part| notes.contains(part)), "{size}: {notes}");
    }
    for size in ["size=6251323392", "size=1g", "size=100%", "size=1g --io_size=1t"] {
        assert!(!notes(size).contains("more than the drive"), "{size}: {}", notes(size));
    }
    let whole = notes("size=6251323392 --offset=1g");
    assert!(whole.contains("from offset=1073741824 on is more than the drive's"), "{whole}");
    // fio 3.33 on a device of 112 MiB: one I/O of `randread --offset=100m --size=32m`, 192 of `read`.
    let part = notes("size=4g --offset=99% --rw=randread");
    assert!(part.contains("it ends at the first random offset beyond"), "{part}");
    let part = notes("size=4g --offset=99%");
    assert!(part.contains("its I/O ends with the drive"), "{part}");
    let far = place.run("run --name=a --rw=read --bs=1m --offset=99% --device z-ssd-small").ok();
    assert!(far.out.contains("generated = served"), "{}", far.out);
}

#[test]
fn ios_of_odd_lengths_are_refused_where_a_drive_has_larger_blocks() {
    let place = Place::new();
    place.run(&format!("{JOB} --bs=0")).fails(2, &["at least 1"]);
    for bs in ["512", "1536", "5k"] {
        place.run(&format!("{JOB} --bs={bs}")).ok();
        let whole = place.run(&format!("{JOB} --bs={bs} --device cnex-small"));
        whole.fails(2, &["job 'a'", "blocks of 4096 bytes", "--align round", "device.lba=512"]);
    }
    place.file("job.fio", "[global]\nbs=4k\n\n[odd]\nrw=randrw\nbssplit=4k/50:1000/50\n");
    place.run("run job.fio --device z-ssd-small").fails(2, &["job.fio:4", "1000 bytes", "bs=512"]);
    place.run(&format!("{JOB} --bs=1000 --ioengine=null")).ok();
    // What fio would be refused on the way is refused before the run.
    let odd = place.run(&format!("{JOB} --rw=rw:1000 --output-format=json"));
    let odd = odd.fails(2, &["job 'a'", "a step of 1000 bytes", "multiples of 512"]);
    assert!(odd.out.is_empty());
}

#[test]
fn a_map_beyond_the_hosts_memory_fails_the_job_and_names_the_limit() {
    let place = Place::new();
    let job = "run --name=a --rw=randwrite --bs=512 --iodepth=16 --ioengine=libaio \
               --number_ios=20000 --device fssd-small --precondition none --host-memory 760000";
    let words = &[
        "job 'a' failed",
        "No space left on device",
        "the map would have passed",
        "--host-memory",
    ];
    let done = place.run(job).fails(1, words);
    // Above the numbers it stands as well.
    let head = done.out.split("write: IOPS").next().expect("a part");
    assert!(head.contains("writes were refused: the map would have passed"), "{head}");
    assert!(done.out.contains("err=28 (func=io_u error, error=No space"), "{done:?}");
}

#[test]
fn a_drive_that_fails_reads_fails_the_job_and_still_reports() {
    let place = Place::new();
    let worn = format!("{JOB} --precondition fill --set nand.faults.read_fail_ppb=900000000");
    let done = place.run(&worn).fails(1, &["job 'a' failed", "Input/output error"]);
    assert!(done.out.contains("failed") && !done.err.contains("whole blocks"), "{done:?}");
    let done = place.run(&format!("{worn} --output-format=json")).fails(1, &["job 'a' failed"]);
    assert_eq!(done.json()["wordline"]["ended"], "failed");
    // Told to go on, it counts them.
    let on = place.run(&format!("{worn} --continue_on_error=all --output-format=json"));
    assert!(on.json()["jobs"][0]["total_err"].as_u64() > Some(10), "{on:?}");
}

#[test]
fn text_that_is_no_trace_is_refused_with_its_place() {
    let place = Place::new();
    let replay = |name: &str| place.run(&format!("replay {name} --device intel-750-small"));
    place.file("empty", "");
    replay("empty").fails(2, &["empty"]);
    place.file("garbage", [0u8, 200, 3, 255, 10, 13].repeat(500));
    replay("garbage").fails(2, &["garbage", "--format"]);
    place.file("text", "once upon a time\nthere was a trace\n");
    replay("text").fails(2, &["text", "--format"]);
    replay("none").fails(2, &["none", "check the path"]);
    replay(".").fails(2, &["name a file in it"]);
    place.file("late.csv", "7,R,4096,4096,1577808000000046\n7,R,x,4096,1577808000000047\n");
    replay("late.csv --format alibaba").fails(2, &["late.csv:2:5"]);
    // A request of no bytes is counted and left out.
    place.file("zero.csv", "7,R,4096,0,1577808000000046\n7,R,0,4096,1577808000000047\n");
    let zero = replay("zero.csv --format alibaba").ok();
    assert!(zero.out.contains("1 I/Os generated = served"), "{zero:?}");
    assert!(zero.err.contains("zero length") || zero.out.contains("zero length"), "{zero:?}");
    let gz = {
        use std::io::Write;
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        for i in 0..5000u64 {
            writeln!(gz, "7,R,{},4096,{}", (i * 7919 % 1000) * 4096, 1_577_808_000_000_000 + i)
                .expect("memory");
        }
        gz.finish().expect("memory")
    };
    place.file("whole.csv.gz", &gz);
    replay("whole.csv.gz").ok();
    place.file("cut.csv.gz", &gz[..gz.len() / 2]);
    replay("cut.csv.gz").fails(2, &["cut.csv.gz:", "cut short"]);
    for cut in [1, 2, 5, 12] {
        place.file("head.csv.gz", &gz[..cut]);
        replay("head.csv.gz").fails(2, &["head.csv.gz", "cut short"]);
    }
}

#[test]
fn places_that_cannot_be_written_are_refused_before_the_run_or_told() {
    let place = Place::new();
    place.file("file", "");
    // Before the run, where that can be known.
    for words in [
        "--output none/out",
        "--report none/r",
        "--timeline=none/t",
        "--save-state none/s",
        "-o file/out",
    ] {
        let done = place.run(&format!("{JOB} {words}")).fails(2, &["cannot write"]);
        assert_eq!(done.out, "", "{words}");
    }
    place.run(&format!("{JOB} --write_lat_log=none/l")).fails(2, &["cannot write none/l"]);
    place.run(&format!("{JOB} --output .")).fails(2, &["name a file in it"]);
    // Full when it is too late.
    let full = "No space left on device";
    place.run(&format!("{JOB} --output /dev/full")).fails(1, &["/dev/full", full, "free space"]);
    place.run(&format!("{JOB} --timeline /dev/full")).fails(1, &["/dev/full", full]);
    place.run(&format!("{JOB} --report /dev/full")).fails(1, &["/dev/full", full]);
    place.shell(&format!("$W {JOB} > /dev/full")).fails(1, &["standard output", full]);
    place.shell("$W device list > /dev/full").fails(1, &["standard output", full]);
    // Errors that nobody can read are no reason to crash.
    let mute = place.shell("$W run none.fio 2> /dev/full");
    assert_eq!(mute.status, 2);
    assert_eq!(place.files(), ["file"]);
    // What else was asked for is written all the same.
    let half = place.run(&format!("{JOB} -o /dev/full --write_lat_log=l --timeline t.json"));
    half.fails(1, &[full]);
    assert!(place.path("l_lat.1.log").exists() && place.path("t.json").exists());
    // A result replaces an older one, also through a link, and only when it is whole.
    std::os::unix::fs::symlink(place.path("file"), place.path("link")).expect("a link");
    place.run(&format!("{JOB} -o link")).ok();
    assert!(place.text("file").contains("IOPS"));
    place.run(&format!("{JOB} -o /dev/stdout")).ok().out.find("IOPS").expect("a result");
}

#[test]
fn a_disk_that_fills_up_leaves_the_old_output() {
    let place = Place::new();
    std::fs::create_dir(place.path("disk")).expect("a folder");
    let line = format!(
        "mount -t tmpfs -o size=16k none disk || exit 77; \
         echo old > disk/out; $W {JOB} --number_ios=9000 --write_lat_log=l --output-format=json+ \
         --output disk/out --timeline disk/t --report disk/r.html; echo $? > status; ls -A disk > left; cat disk/out"
    );
    // Mounting needs privileges, or a namespace of its own.
    let mut done = place.shell(&format!("unshare -rm sh -c '{line}'"));
    if done.status == 77 || done.err.contains("unshare") {
        done = place.shell(&format!("({line}); s=$?; umount disk 2> umount.log; exit $s"));
    }
    if done.status == 77 {
        return skip("no small disk can be mounted here");
    }
    assert_eq!(place.text("status"), "1\n", "{}", done.err);
    for part in
        ["disk/out", "disk/t", "disk/r.html", "No space left on device", "nothing new was left"]
    {
        assert!(done.err.contains(part), "{part}: {}", done.err);
    }
    assert_eq!(done.out, "old\n");
    assert_eq!(place.text("left"), "out\n");
    assert_eq!(place.text("l_lat.1.log").lines().count(), 9000);
}

#[test]
fn a_standard_output_that_was_closed_is_an_error_with_a_remedy() {
    let place = Place::new();
    // A pipe holds 64 KiB and would take a short result whole: this one is longer.
    let long = format!("{JOB} --numjobs=30 --output-format=json+");
    assert!(place.run(&long).ok().out.len() > 2 * 65_536);
    let piped = place.shell(&format!("($W {long}; echo $? > status) | head -c 1 > head"));
    assert_eq!(place.text("status"), "1\n", "{piped:?}");
    let mut child = place
        .command(&JOB.split_whitespace().collect::<Vec<_>>())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stdout.take());
    let done = child.wait_with_output().expect("it ends");
    assert_eq!(done.status.code(), Some(1));
    let err = String::from_utf8_lossy(&done.stderr);
    assert!(err.contains("standard output was closed") && err.contains("--output"), "{err}");
    // Nothing is lost of what can be had again.
    let listed = place.shell("($W device list; echo $? > status) 2> told | true");
    assert_eq!(
        (place.text("status"), place.text("told")),
        ("0\n".into(), String::new()),
        "{listed:?}"
    );
}

#[test]
fn settings_of_programs_that_cannot_be_are_refused() {
    let place = Place::new();
    for (words, parts) in [
        ("--app web-srver", &["unknown app 'web-srver'", "did you mean 'web-server'?"][..]),
        (
            "--app web-server --set app.web.load=0.0",
            &["--set app.web.load=0.0", "'load' must be above 0"],
        ),
        ("--app kv-read --set app.kv.lod=3.0", &["unknown key 'lod'", "did you mean 'load'?"]),
        ("--app kv-read --set app.kv.load=much", &["app.kv.load=much"]),
        (
            "--app kv-read --set app.kv.records=10000000",
            &["'size'", "fewer records (app.kv.records"],
        ),
        ("--app web-server --set app.web.files=9000000", &["fewer files (app.web.files)"]),
        ("--app pagerank --set app.pagerank.graph_bytes=10000000000", &["smaller graph"]),
        ("--app sort --set app.sort.input_bytes=4000000000", &["less input"]),
        ("--app sort --set app.cores=[0,99]", &["app.cores=[0,99]", "must be cores, 0 to"]),
        ("--app sort --set app.workload_attr=fast", &["unknown value 'fast'", "'throughput'"]),
        ("--app sort --set app.web.load=3.0", &["the program has no [app.web]", "in [app.sort]"]),
        (
            "--app sort --set app.runtime=0s",
            &["--set app.runtime=0s", "'runtime' and operations are both 0"],
        ),
        ("--app pagerank --set app.pagerank.depth=0", &["'depth' must be from 1"]),
    ] {
        let line = format!("run {words} --device z-ssd-flashshare-small");
        let done = place.run(&line).fails(2, parts);
        assert_eq!(done.out, "", "{words}");
    }
}

#[test]
fn settings_of_programs_beside_others_that_cannot_be_are_refused() {
    let place = Place::new();
    for (words, parts) in [
        ("--with sort", &["runs beside others", "--app"][..]),
        ("--app web-server --with sort:depht=3", &["--with sort:depht=3", "'depht'", "'depth'"]),
        ("--app web-server --with sort:depth", &["unknown app 'sort:depth'"]),
        ("--app web-server --with sort:depth=", &["--with sort:depth="]),
        ("--app web-server --with srot:depth=3", &["unknown app 'srot'", "did you mean 'sort'?"]),
        ("--app web-server --with sort:depth=3,threads", &["no '=' in 'threads'"]),
        (
            "--app web-server --with kv-read:load=0.0",
            &["--with kv-read:load=0.0", "above 0 requests"],
        ),
        ("--app web-server --with kv-read:records=100000000", &["kv-read.toml", "fewer records"]),
        (
            "--app web-server --with sort:cores=[7,8]",
            &["--with sort:cores=[7,8]", "must be cores, 0 to"],
        ),
        (
            "--app web-server --with sort:offset=0,size=4096000000",
            &[
                "--with sort:offset=0",
                "overlap that of web-server",
                "an offset and a size, or none",
            ],
        ),
        ("--app web-server --with sort --precondition paced", &["states no rate"]),
    ] {
        let line = format!("run {words} --device z-ssd-flashshare-small");
        let done = place.run(&line).fails(2, parts);
        assert_eq!(done.out, "", "{words}");
    }
}

#[test]
fn programs_run_beside_others_and_have_results_of_their_own() {
    let place = Place::new();
    let line = "run --app kv-read --set app.runtime=40ms --with pagerank:threads=2,depth=16 \
                --with kv-read:load=3000.0,cores=[4,5] --device z-ssd-flashshare-small";
    let json = place.run(&format!("{line} --output-format=json+")).ok().json();
    let name = |at: &str| json.pointer(at).and_then(|v| v.as_str()).unwrap_or_default().to_string();
    assert_eq!(name("/wordline/app/name"), "kv-read");
    assert_eq!(
        [name("/wordline/with/0/name"), name("/wordline/with/1/name")],
        ["pagerank", "kv-read#2"]
    );
    assert!(float(&json, "/wordline/app/turnaround/read/p99/total") > 5e3);
    assert!(float(&json, "/wordline/with/1/turnaround/read/mean/drive") > 1e3);
    assert!(int(&json, "/wordline/with/0/counters/read_bytes") > 1 << 20);
    let jobs: Vec<&str> =
        json["jobs"].as_array().unwrap().iter().filter_map(|j| j["jobname"].as_str()).collect();
    assert_eq!(jobs, ["workers", "pagerank:scanners", "kv-read#2:workers"]);
    let text = place.run(line).ok().out;
    for part in ["\nkv-read: ", "\npagerank: ", "\nkv-read#2: ", "read, us:", "queue wait"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(text.contains("--with=pagerank:threads=2,depth=16"), "{text}");
}
