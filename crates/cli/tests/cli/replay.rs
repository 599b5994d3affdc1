//! Traces of every format, and how they are replayed.

use super::place::{Place, float, int};
use serde_json::Value;
use std::path::Path;

/// Format, reads, writes, and a few lines that fit a small drive. Times span half a millisecond.
const TEXTS: &[(&str, u64, u64, &str)] = &[
    (
        "iolog",
        2,
        1,
        "fio version 3 iolog\n1 /dev/a add\n2 /dev/a open\n100 /dev/a read 0 4096\n\
         130 /dev/a write 4096 8192\n600 /dev/a read 8192 4096\n601 /dev/a close\n",
    ),
    (
        "blkparse",
        1,
        1,
        "  8,0    1        1     0.000000500   901  Q   R 2048 + 8 [cat]\n\
         \x20 8,0    0        1     0.000500000    77  Q  WS 4096 + 16 [jbd2]\n",
    ),
    (
        "msr",
        1,
        1,
        "128166372003061629,web,2,Read,7014400,24576,41286\n\
         128166372003066629,web,2,Write,1314816,8192,1963\n",
    ),
    ("alibaba", 1, 1, "7,R,126703616,4096,1577808000000046\n7,W,19496960,77824,1577808000000546\n"),
    ("tencent", 1, 1, "1538323200,1000,8,0,12\n1538323200,2000,16,1,12\n"),
    (
        "systor17",
        1,
        1,
        "Timestamp,Response,IOType,LUN,Offset,Size\n\
         1455592984.103122000,0.000381000,R,3,899056640,131072\n\
         1455592984.103622000,0.000102000,W,3,4096,4096\n",
    ),
    ("k5", 1, 1, "1157,3.828359000,W,7155712,4096\n1157,3.828859000,R,71323648,8192\n"),
    ("spc", 1, 1, "0,209416,8192,W,0.551706\n0,209400,8192,r,0.552206\n"),
    (
        "fiu",
        1,
        1,
        "89967195488869 2559 nfsd 50843 8 W 6 0 84b74cc51cb2d2a7e0b9ee2e2c2e0f43\n\
         89967195988869 2559 Web 512 16 R 6 0 84b74cc51cb2d2a7e0b9ee2e2c2e0f43\n",
    ),
    ("mqsim", 2, 1, "1000 4 264720 16 0\n300000 3 19760 8 1\n501000 4 8 8 1\n"),
];

const SMALL: &str = "--device intel-750-small --output-format=json";

fn counts(result: &Value) -> (u64, u64) {
    (int(result, "/jobs/0/read/total_ios"), int(result, "/jobs/0/write/total_ios"))
}

/// One CPU's binary records: a read and a write, queued.
fn blktrace() -> Vec<u8> {
    let mut out = Vec::new();
    for (time, sector, bytes, action) in
        [(1_000u64, 2048u64, 4096u32, 1u32 | 1 << 16), (500_000, 4096, 8192, 1 | 2 << 16)]
    {
        out.extend(0x6561_7407u32.to_le_bytes());
        out.extend(1u32.to_le_bytes());
        out.extend(time.to_le_bytes());
        out.extend(sector.to_le_bytes());
        for word in [bytes, action, 42, 8 << 20, 0, 0] {
            out.extend(word.to_le_bytes());
        }
    }
    out
}

fn gzip(data: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(data).expect("memory");
    gz.finish().expect("memory")
}

#[test]
fn every_format_named_and_told_plain_and_packed() {
    let place = Place::new();
    for (format, reads, writes, text) in TEXTS {
        place.file("trace", text);
        place.file("trace.gz", gzip(text.as_bytes()));
        for words in ["trace --format", "trace.gz --format"] {
            let done = place.run(&format!("replay {words} {format} {SMALL}")).ok();
            assert_eq!(counts(&done.json()), (*reads, *writes), "{format}");
            assert!(done.err.contains(&format!("({format})")), "{}", done.err);
        }
        let told = place.run(&format!("replay trace {SMALL}")).ok();
        assert_eq!(counts(&told.json()), (*reads, *writes), "{format}");
        let piped = place.shell(&format!("$W replay - {SMALL} < trace.gz")).ok();
        assert_eq!(counts(&piped.json()), (*reads, *writes), "{format}");
    }
    place.file("t.blktrace.0", blktrace());
    place.file("t.blktrace.1", blktrace());
    let one = place.run(&format!("replay t.blktrace.0 --format blktrace {SMALL}")).ok();
    assert_eq!(counts(&one.json()), (1, 1));
    let two = place.run(&format!("replay t.blktrace.0 t.blktrace.1 {SMALL}")).ok();
    assert_eq!(counts(&two.json()), (2, 2));
    place.run("replay t.blktrace.0 --format blktrac").fails(2, &["did you mean 'blktrace'?"]);
}

#[test]
fn times_as_they_are_scaled_or_ignored() {
    let place = Place::new();
    place.file("t", "0 0 0 8 0\n4000000 0 8 8 0\n8000000 0 16 8 0\n10000000 0 24 8 0\n");
    let ms = |words: &str| {
        let done = place.run(&format!("replay t --format mqsim {SMALL} {words}")).ok();
        assert_eq!(counts(&done.json()), (0, 4));
        int(&done.json(), "/wordline/machine/simulated_ns") as f64 / 1e6
    };
    for (words, expected) in [
        ("", 10.0),
        ("--time-scale 0.5", 5.0),
        ("--time-scale 3", 30.0),
        ("--time-scale 1.0", 10.0),
    ] {
        let ms = ms(words);
        assert!((expected..expected + 0.5).contains(&ms), "{words}: {ms} ms");
    }
    assert!(ms("--closed-loop 2") < 1.0);
    for (words, part) in [
        ("--time-scale 0", "closed loop"),
        ("--time-scale x", "0.5"),
        ("--closed-loop 0", "closed-loop"),
        ("--time-scale 2 --closed-loop 2", "cannot be used with"),
    ] {
        place.run(&format!("replay t {words}")).fails(2, &[part]);
    }
}

#[test]
fn one_volume_of_a_trace_is_replayed() {
    let place = Place::new();
    place.file(
        "t.csv",
        "7,R,4096,4096,1577808000000046\n9,W,8192,8192,1577808000000426\n\
         7,W,0,4096,1577808000000494\n",
    );
    let of = |volume: &str| {
        counts(&place.run(&format!("replay t.csv --volume {volume} {SMALL}")).ok().json())
    };
    assert_eq!((of("7"), of("9")), ((1, 1), (0, 1)));
    place.file("m.csv", TEXTS[2].3);
    place
        .run(&format!("replay t.csv --volume 1 --volume 0 {SMALL}"))
        .fails(2, &["--volume: one at a time, and not '1' and '0'"]);
    let named = place.run(&format!("replay m.csv --volume web_2 {SMALL}")).ok();
    assert_eq!(counts(&named.json()), (1, 1));
}

#[test]
fn a_trace_larger_than_the_drive() {
    let place = Place::new();
    place.file("t", "0 0 8 8 1\n1000 0 9000000000 8 1\n2000 0 16 8 0\n");
    let done = place.run(&format!("replay t --format mqsim {SMALL}"));
    let done = done.fails(2, &["t:2", "beyond the end of the drive", "--wrap", "report covers"]);
    let partial = done.json();
    assert_eq!(counts(&partial), (1, 0));
    assert_eq!(partial["wordline"]["ended"], "failed");
    let wrapped = place.run(&format!("replay t --format mqsim --wrap {SMALL}")).ok();
    assert_eq!(counts(&wrapped.json()), (2, 1));
    let told = "warning: t: 1 of 3 requests lay beyond the drive and were wrapped";
    assert!(wrapped.err.contains(told), "{}", wrapped.err);
    assert!(
        wrapped.json()["wordline"]["provenance"]["workload"]
            .as_str()
            .is_some_and(|w| w.contains("--wrap"))
    );
    // The first line: nothing ran, nothing is reported.
    place.file("t", "0 0 9000000000 8 1\n");
    let done = place.run(&format!("replay t --format mqsim -o out {SMALL}"));
    assert_eq!(done.fails(2, &["t:1", "--wrap"]).out, "");
    assert_eq!(place.files(), ["t"]);
}

#[test]
fn a_job_replays_the_log_that_fio_wrote() {
    let place = Place::new();
    place.file("a.log", TEXTS[0].3);
    let result = place.json("--name=a --read_iolog=a.log --device z-ssd-small");
    assert_eq!(counts(&result), (2, 1));
    place.run("run --name=a --read_iolog=b.log --device z-ssd-small").fails(2, &["b.log"]);
    place.file("c.log", "once upon a time\n");
    let unknown = place.run("run --name=a --read_iolog=c.log --device z-ssd-small");
    unknown.fails(2, &["c.log: cannot tell the format", "options of wordline replay"]);
}

/// A log of a read or write each millisecond.
fn each_millisecond(requests: u64) -> String {
    let line = |i: u64| {
        let op = ["read", "write"][i as usize % 2];
        format!("{} f {op} {} 4096\n", i * 1000, i * 4096)
    };
    let lines: String = (0..requests).map(line).collect();
    format!("fio version 3 iolog\n0 f add\n0 f open\n{lines}{requests}000 f close\n")
}

/// fio 3.33 takes 299 ms for this log, also with startdelay=1. It does 102 requests with runtime=100ms, and as many beside
/// a job of 100 ms with exitall. It takes 1,508 ms with thinktime=5ms, and 3,010 ms with 10 ms and no stall. One request is
/// done with max_latency=1us.
#[test]
fn a_job_that_replays_a_log_keeps_its_own_options() {
    let place = Place::new();
    place.file("t.log", each_millisecond(300));
    let run = |rest: &str| {
        place.json(&format!("--name=r --read_iolog=t.log {rest} --device z-ssd-small"))
    };
    let of = |result: &Value, job: usize| {
        let all =
            ["read", "write"].map(|ddir| result["jobs"][job][ddir]["total_ios"].as_u64().unwrap());
        (all[0] + all[1], result["jobs"][job]["job_runtime"].as_u64().unwrap())
    };
    let near = |(ios, ms): (u64, u64), wanted: (u64, u64)| {
        assert_eq!(ios, wanted.0);
        assert!(ms.abs_diff(wanted.1) <= 1 + wanted.1 / 50, "{ms} ms, {} wanted", wanted.1);
    };
    near(of(&run(""), 0), (300, 300));
    near(of(&run("--startdelay=1"), 0), (300, 300));
    near(of(&run("--runtime=100ms"), 0), (101, 101));
    near(of(&run("--ioengine=psync --thinktime=5ms"), 0), (300, 1_508));
    near(of(&run("--ioengine=psync --thinktime=10ms --replay_no_stall=1"), 0), (300, 3_010));
    let before = "--stonewall --name=b --rw=randread --runtime=50ms --time_based --rate_iops=100";
    let after = place.json(&format!(
        "{} --name=r --stonewall --read_iolog=t.log --device z-ssd-small",
        &before[12..]
    ));
    near(of(&after, 1), (300, 300));
    let beside = run(&format!("{} --runtime=100ms --exitall", &before[12..]));
    near(of(&beside, 0), (101, 101));
    // fio 3.33: five requests with a pause of 100 ms each take 500 ms, and 300 ms with runtime=250ms. A request that waits for
    // its time goes out at once when another job ends this one.
    place.file("five.log", each_millisecond(5));
    let five =
        "--name=r --read_iolog=five.log --ioengine=psync --thinktime=100ms --device z-ssd-small";
    near(of(&place.json(five), 0), (5, 500));
    near(of(&place.json(&format!("{five} --runtime=250ms")), 0), (3, 300));
    place.file("gap.log", each_millisecond(2).replace("1000 f", "3000000 f"));
    let gap = "--name=r --read_iolog=gap.log";
    let ended =
        place.json(&format!("{gap} {} --runtime=1 --exitall --device z-ssd-small", &before[12..]));
    near(of(&ended, 0), (2, 1_000));
    assert!(ended["wordline"]["machine"]["simulated_ns"].as_u64().unwrap() < 1_100_000_000);
    let job = "--name=r --read_iolog=t.log --ioengine=psync --device z-ssd-small";
    let slow = place.run(&format!("run {job} --max_latency=1us --output-format json"));
    assert!(slow.err.contains("max_latency is 1us"), "{}", slow.err);
    assert_eq!(slow.json()["jobs"][0]["error"], 110);
    // What a log has instead is told, and nothing else is.
    let told = place.run(&format!("run {job} --fsync=4 --rate_iops=10 --bs=8k")).ok();
    let words = "bs, rate_iops, fsync do nothing in job 'r': its I/Os are those of read_iolog";
    assert!(told.out.contains(words), "{}", told.out);
    let told = place.run(&format!("run {job} --verify=crc32c --iodepth=8")).ok();
    for words in
        ["verify does nothing in job 'r': that is not modelled", "iodepth does nothing in job 'r'"]
    {
        assert!(told.out.contains(words), "{}", told.out);
    }
    assert!(!told.out.contains("it writes nothing"), "{}", told.out);
}

#[test]
fn the_trace_of_a_database() {
    let trace =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces/tpcc-small.trace");
    if !trace.exists() {
        eprintln!("SKIPPED: {} is not there", trace.display());
        return;
    }
    let place = Place::new();
    let replay = |words: &str| {
        let trace = trace.to_str().expect("UTF-8");
        let mut all = vec!["replay", trace, "--output-format=json"];
        all.extend(words.split_whitespace());
        place.run_words(&all)
    };
    replay("--format mqsim --device intel-750-small")
        .fails(2, &["tpcc-small.trace:1", "beyond the end of the drive", "--wrap"]);
    let wrap = "--format mqsim --device intel-750-small --wrap";
    for words in ["", "--time-scale 0.5", "--closed-loop 16"] {
        let result = replay(&format!("{wrap} {words}")).ok().json();
        let (reads, writes) = counts(&result);
        assert_eq!(reads + writes, 6999, "{words}");
        assert_eq!(int(&result, "/wordline/machine/served"), 6999);
        assert!(float(&result, "/jobs/0/read/lat_ns/mean") > 1000.0);
    }
    assert_eq!(replay(wrap).ok().out, replay(wrap).ok().out);
}

#[test]
fn a_table_of_named_columns() {
    let place = Place::new();
    place.file("t.tsv", "When\tOp\tLBA\tBytes\n10\t0\t8\t4096\n400\t1\t16\t8192\n500\t0\t0\t512\n");
    let columns = "--columns time=When:us,op=Op,read=0,write=1,offset=LBA:sector,size=Bytes:byte";
    let done = place.run(&format!("replay t.tsv {columns} {SMALL}")).ok();
    assert_eq!(counts(&done.json()), (2, 1));
    assert!(done.err.contains("format: columns, by --columns, separated by tabs"), "{}", done.err);
    let provenance = done.json()["wordline"]["provenance"]["workload"].to_string();
    assert!(provenance.contains("--columns=time=When:us,op=Op"), "{provenance}");
    let first = "the file begins with 'When\\tOp\\tLBA\\tBytes'";
    for (spec, part) in [
        ("time=When:us,offset=LBA:sector,size=Byte:byte", "did you mean 'Bytes'?"),
        ("offset=3:sector,size=4:byte", "say skip=1"),
        ("offset=LBA,size=4:byte", "offset=LBA is without its unit"),
        ("time=1:us,op=2,offset=3:sector,size=4:byte,skip=1", "t.tsv:2:4: op '0' is none of"),
    ] {
        place.run(&format!("replay t.tsv --columns {spec}")).fails(2, &[part, first]);
    }
    place.run(&format!("replay t.tsv {columns} --format msr")).fails(2, &["cannot be used with"]);
    // The help teaches it.
    let help = place.run("replay --help").ok().out;
    for part in
        ["100ns", "offset=COLUMN:UNIT", "base=NUMBER", "--columns time=1:us", "oraclegeneral"]
    {
        assert!(help.contains(part), "{part}");
    }
}

#[test]
fn what_a_trace_does_not_say_is_said() {
    let place = Place::new();
    place.file("lbn.txt", (0..1000).map(|i| format!("{}\n", i * 8)).collect::<String>());
    let line = format!("replay lbn.txt --bs 4k --closed-loop 8 {SMALL}");
    let done = place.run(&line).ok();
    assert_eq!(counts(&done.json()), (1000, 0));
    for part in ["without a direction in the trace: a read", "without a time in the trace"] {
        assert!(done.err.contains(part), "{}", done.err);
    }
    let (reads, writes) = counts(&place.run(&format!("{line} --rwmixread 70")).ok().json());
    assert!(reads + writes == 1000 && (650..750).contains(&reads), "{reads}");
    let again = place.run(&format!("{line} --rwmixread 70 --seed 2")).ok();
    assert_ne!(counts(&again.json()).0, reads);
    let units = place.run(&format!("{line} --address-unit 4k")).ok();
    assert_eq!(counts(&units.json()), (1000, 0));
    for (words, part) in [
        ("lbn.txt --bs 0", "--bs: '0' is no length"),
        ("lbn.txt --bs 50%", "--bs: '50%' is a percentage: write a number here"),
        ("lbn.txt --bs x", "--bs: 'x' is not a number"),
        ("lbn.txt --address-unit page", "--address-unit: unknown unit 'page'"),
        ("lbn.txt --time-unit h", "--time-unit: unknown time unit 'h'"),
        ("lbn.txt --action Z", "--action: unknown action 'Z'"),
        ("lbn.txt --rwmixread 101", "101 is not in 0..=100"),
        ("lbn.txt --volume 3", "format lbn has no volumes"),
        ("m.csv --bs 4k", "--bs: format msr has lengths of its own"),
    ] {
        place.file("m.csv", TEXTS[2].3);
        place.run(&format!("replay {words}")).fails(2, &[part]);
    }
    // DiskSim's milliseconds.
    place.file("t", "0 0 0 8 0\n4 0 8 8 0\n");
    let done = place.run(&format!("replay t --format mqsim --time-unit ms {SMALL}")).ok();
    assert!(int(&done.json(), "/wordline/machine/simulated_ns") > 4_000_000);
}

#[test]
fn traces_that_want_to_do_harm() {
    let place = Place::new();
    let text = TEXTS[2].3;
    let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    place.file("utf16.csv", utf16);
    place.file("comments", "# nothing\n# at all\n");
    place.file("both.csv", "128166372,0,2,R,7014400,4096,412\n128166373,0,2,W,70144,4096,41\n");
    place.file("negative.csv", "7,R,4096,4096,10\n7,R,-4096,4096,20\n7,R,0,4096,30\n");
    place.file("far.csv", "7,R,9223372036854775808,4096,10\n");
    place.file("ancient.csv", "7,R,0,4096,10\n7,R,0,4096,9999999999999999\n");
    for (words, parts) in [
        ("utf16.csv", &["utf16.csv: text in UTF-16", "iconv"][..]),
        ("utf16.csv --format msr", &["utf16.csv: text in UTF-16", "iconv"]),
        ("comments", &["comments: cannot tell the format", "# nothing", "--format", "--columns"]),
        ("both.csv", &["both.csv: it has the shape of 2 formats", "--format msr", "--format spc"]),
        (
            "negative.csv",
            &["negative.csv:2:5: offset is negative: '-4096'", "mend or delete the line"],
        ),
        ("far.csv", &["far.csv:1: ", "beyond the end of the drive", "--wrap"]),
        ("ancient.csv", &["ancient.csv:2:", "more than 36 years after the first request"]),
    ] {
        place.run(&format!("replay {words} --device z-ssd-small")).fails(2, parts);
    }
    // Times that go back are sorted; what comes by a pipe is a trace as any other.
    place.file("back.csv", "7,R,0,4096,30\n7,W,0,4096,10\n7,R,0,4096,20\n");
    let line = format!("mkfifo p; cat back.csv > p & $W replay p {SMALL}; s=$?; rm p; exit $s");
    assert_eq!(counts(&place.shell(&line).ok().json()), (2, 1));
    let line = "mkfifo p; : > p & $W replay p; s=$?; rm p; exit $s";
    place.shell(line).fails(2, &["p: the trace is empty"]);
    place.shell("$W replay - < .").fails(2, &["standard input: cannot be read: Is a directory"]);
    place.run("replay back.csv both.csv").fails(2, &["only those are merged: give it alone"]);
}

#[test]
fn a_replay_runs_on_the_engine_of_its_stack() {
    let place = Place::new();
    let lines = |at: u64| format!("7,R,{},4096,{at}\n", at % 97 * 40_960);
    place.file("t.csv", (0..3_000).map(|i| lines(i * 20)).collect::<String>());
    let line = "replay t.csv --device z-ssd-small --precondition fill --output-format=json";
    let of = |words: &str| {
        let result = place.run(&format!("{line} {words}")).ok().json();
        assert_eq!(counts(&result), (3_000, 0), "{words}");
        let counters = &result["wordline"]["machine"]["counters"];
        (float(&result, "/jobs/0/read/lat_ns/mean"), counters["host.interrupts"].clone())
    };
    let (libaio, _) = of("");
    let (uring, _) = of("--stack linux-io_uring");
    let (spdk, interrupts) = of("--stack spdk");
    assert!(spdk < uring && uring < libaio, "{spdk} {uring} {libaio}");
    assert_eq!(interrupts, 0);
    let (polled, _) = of("--stack poll --set stack.engine=io-uring");
    assert!(spdk < polled && polled < uring, "{spdk} {polled} {uring}");
    // As fast as they come, many are in flight on each.
    for stack in ["linux-libaio", "linux-io_uring", "spdk"] {
        let words = format!("{line} --stack {stack} --closed-loop 16");
        let result = place.run(&words).ok().json();
        let deep = float(&result, "/jobs/0/iodepth_level/16");
        assert!(deep > 90.0, "{stack}: {deep}");
    }
    for (stack, at) in [("poll", "poll.toml:8:"), ("linux-pvsync2", "linux-pvsync2.toml:8:")] {
        place.run(&format!("{line} --stack {stack}")).fails(2, &[at, "--set stack.engine=libaio"]);
    }
    let help = place.run("replay --help").ok();
    assert!(help.out.contains("the engine of the stack"), "{}", help.out);
    // What is always refused is not offered.
    assert!(!help.out.contains("--fs"), "{}", help.out);
    assert!(place.run("run --help").ok().out.contains("--fs <"));
}

/// A submitter that is slower than the drive has its I/Os back one by one: their latency does not grow.
#[test]
fn what_is_back_does_not_wait_for_a_late_submitter() {
    let place = Place::new();
    let lines: String = (0..2_000).map(|i| format!("7,R,{},4096,0\n", i * 4_096)).collect();
    place.file("t.csv", lines);
    for stack in ["linux-libaio", "linux-io_uring", "spdk"] {
        let line = format!("replay t.csv --device z-ssd-small --precondition fill --stack {stack}");
        let words = format!("{line} --set stack.cost.application=20us --output-format=json");
        let result = place.run(&words).ok().json();
        let mean = float(&result, "/jobs/0/read/lat_ns/mean");
        assert!(mean < 100_000.0, "{stack}: {mean} ns");
        let behind = float(&result, "/wordline/lateness/0/behind_ns/mean");
        assert!(behind > 5_000_000.0, "{stack}: {behind} ns");
    }
}

/// In the trace a flush came from a thread of its own, and took as long as the drive did.
#[test]
fn a_flush_holds_back_nothing_that_follows() {
    let place = Place::new();
    let trace = |flushes: bool| -> String {
        let line = |i: u64| {
            let (at, place) = (i * 200, i * 7_919 % 100_000 * 4096);
            match i % 20 {
                0 if flushes => format!("{at},w,{place},4096\n{},f,0,0\n", at + 5),
                0 => format!("{at},w,{place},4096\n"),
                _ => format!("{at},r,{place},4096\n"),
            }
        };
        (0..2_000).map(line).collect()
    };
    place.file("with.csv", trace(true));
    place.file("without.csv", trace(false));
    let columns = "--columns time=1:us,op=2,offset=3:byte,size=4:byte,flush=f";
    // Flushes of a buffer that is lost without power end with programs of many pages.
    let drive = "--device z-ssd-small --precondition fill --set cache.capacitor=false \
                 --set ftl.firmware.protected=false --set nand.t_program=3ms";
    let programs = |name: &str, more: &str| {
        let words = format!("replay {name} {columns} {drive} --output-format=json {more}");
        place.run(&words).ok().json()
    };
    for stack in ["linux-libaio", "linux-io_uring", "spdk"] {
        let of = |name: &str| programs(name, &format!("--stack {stack}"));
        let (with, without) = (of("with.csv"), of("without.csv"));
        assert_eq!(int(&with, "/jobs/0/sync/total_ios"), 100, "{stack}");
        let flush = float(&with, "/jobs/0/sync/lat_ns/mean");
        assert!(flush > 2_000_000.0, "{stack}: a flush takes {flush} ns");
        let behind = |result: &Value| float(result, "/wordline/lateness/0/behind_ns/max");
        assert!(behind(&with) < behind(&without) + 100_000.0, "{stack}: {}", behind(&with));
        // A write ends in memory, whatever is flushed meanwhile.
        let write = |result: &Value| float(result, "/jobs/0/write/lat_ns/mean");
        assert!(write(&with) < 2.0 * write(&without), "{stack}: {}", write(&with));
    }
    for stack in ["linux-libaio", "linux-io_uring", "spdk"] {
        let of = |name: &str| programs(name, &format!("--stack {stack} --closed-loop 32"));
        let write = |result: &Value| float(result, "/jobs/0/write/lat_ns/mean");
        let (with, without) = (write(&of("with.csv")), write(&of("without.csv")));
        assert!(with < 1_000_000.0, "{stack}: {with} ns, and {without} ns without flushes");
    }
}

/// What may be missing of a trace stands above the numbers, with its place and what to do.
#[test]
fn a_trace_that_is_cut_is_told_above_the_numbers() {
    let place = Place::new();
    let text = "0,209416,8192,W,0.551706\n0,209400,8192,r,0.552206\n0,209400,8192,r,0.553206\n";
    place.file("whole", text);
    place.file("line", &text[..text.len() - 14]);
    place.file("number", &text[..text.len() - 3]);
    let mut records = blktrace();
    records.truncate(records.len() - 7);
    place.file("t.blktrace.0", records);
    let mut packed = gzip(text.as_bytes());
    packed.truncate(packed.len() - 12);
    place.file("packed.gz", packed);
    for (trace, status, says) in [
        ("line --format spc", 2, "warning: line:3:"),
        ("number --format spc", 0, "warning: number:3: this last line has no line feed"),
        ("t.blktrace.0", 2, "warning: t.blktrace.0: record 2 at byte 48: the record is cut short"),
        ("packed.gz --format spc", 2, "warning: packed.gz:"),
    ] {
        let done = place.run(&format!("replay {trace} --device intel-750-small"));
        assert_eq!(done.status, status, "{trace}: {}", done.err);
        let out = done.out.split_whitespace().collect::<Vec<_>>().join(" ");
        let (above, _) = out.split_once("replay: (groupid=0").expect("a report");
        assert!(above.contains(says), "{trace}: {above}");
        if status == 2 {
            assert!(above.contains("requests before that"), "{trace}: {above}");
        }
        let json = place.run(&format!("replay {trace} {SMALL}"));
        let warnings = json.json()["wordline"]["warnings"].to_string();
        assert!(warnings.contains(says.trim_start_matches("warning: ")), "{warnings}");
    }
    let whole = place.run("replay whole --format spc --device intel-750-small").ok();
    assert!(!whole.out.contains("line feed") && !whole.out.contains("before that"));
}

/// A line of MSR a request: so many microseconds from the begin.
fn msr_at(us: impl IntoIterator<Item = u64>) -> String {
    let line = |(i, us): (u64, u64)| {
        format!("{},s,0,Read,{},4096,1\n", 128_166_372_003_061_629 + us * 10, i % 500 * 4096)
    };
    (0..).zip(us).map(line).collect()
}

fn told(out: &str) -> String {
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Requests that stand too far behind later ones are late by as much, and a warning says so.
#[test]
fn requests_that_cannot_be_sorted_are_late() {
    let place = Place::new();
    place.file("late1.csv", msr_at((1..6_001).map(|i| 1_000_000 + i * 200).chain([0])));
    let line = "replay late1.csv --device z-ssd-small";
    let result = place.run(&format!("{line} --output-format=json")).ok().json();
    let behind = |key: &str| float(&result, &format!("/wordline/lateness/0/{key}"));
    // It is read when as many as the window holds are left.
    let displaced = behind("displaced_ns/max");
    assert!((1.38e9..1.39e9).contains(&displaced), "{displaced}");
    assert_eq!(int(&result, "/wordline/lateness/0/displaced"), 1);
    let late = behind("behind_ns/max") - displaced;
    assert!((0.0..100_000.0).contains(&late), "{late}");
    let out = told(&place.run(line).ok().out);
    let words = "warning: late1.csv: the times of this trace were not kept: 1 of 6001 requests (0.0%) stand behind \
                 later ones, farther than the 4096 that are sorted, and could not go out at their time but 1.38";
    assert!(out.contains(words), "{out}");
    assert!(out.contains("The first is line 6001. Sort the trace by time"), "{out}");
    assert!(!out.contains("asks for less a second"), "the machine kept pace: {out}");
    // The clock of a replay is that of its times.
    let half = place.run(&format!("{line} --time-scale 0.5 --output-format=json")).ok().json();
    let half = float(&half, "/wordline/lateness/0/displaced_ns/max");
    assert!((2.0 * half - displaced).abs() < 3.0, "{half}");
    // Within the window nothing is late.
    place.file("near.csv", msr_at((1..1_001).map(|i| 1_000_000 + i * 200).chain([0])));
    let near = told(&place.run("replay near.csv --device z-ssd-small").ok().out);
    assert!(!near.contains("warning:"), "{near}");
}

/// Traces that are joined in one file go back in time where the second begins.
#[test]
fn a_clock_that_begins_again_is_told() {
    let place = Place::new();
    let part = |n: u64| (0..n).map(|i| i * 100);
    for (n, displaced) in [(5_000, true), (1_000, false), (50, false)] {
        place.file("joined.csv", msr_at(part(n).chain(part(n.max(500)))));
        for clock in ["", "--closed-loop 4"] {
            let out =
                place.run(&format!("replay joined.csv --device z-ssd-small {clock}")).ok().out;
            let out = told(&out);
            let words = format!(
                "warning: joined.csv: the clock of this trace goes back at line {}, by ",
                n + 1
            );
            assert!(out.contains(&words), "{out}");
            assert!(out.contains("add the end of the one to the times of the next"), "{out}");
            assert_eq!(out.contains("stand behind later"), displaced && clock.is_empty(), "{out}");
            assert!(!out.contains("asks for less a second"), "{out}");
        }
    }
    place.file("whole.csv", msr_at(part(5_000)));
    assert!(!place.run("replay whole.csv --device z-ssd-small").ok().out.contains("warning:"));
}

/// An address that no drive has ends a replay, as one that this drive has not.
#[test]
fn addresses_beyond_any_drive_are_errors_with_their_line() {
    let place = Place::new();
    let at = |offset: &str| {
        let good = msr_at([0, 10]);
        format!("{good}128166372003061829,s,0,Read,{offset},4096,1\n{}", msr_at([40]))
    };
    for (offset, says) in [
        ("9223372036854775808", "is beyond the end of the drive"),
        ("18446744073709551615", "ends at byte 18446744073709555711, beyond 2^64"),
    ] {
        place.file("far.csv", at(offset));
        let line = "replay far.csv --device z-ssd-small";
        place.run(line).fails(2, &["far.csv:3: ", says]);
    }
    let wrapped = place.run("replay far.csv --device z-ssd-small --wrap");
    wrapped.fails(2, &["far.csv:3: ", "mend or delete"]);
}

/// A column that is no length leaves out nearly all.
#[test]
fn requests_of_impossible_lengths_are_told_above_the_numbers() {
    let place = Place::new();
    let line = |i: u64, len: u64| format!("{},R,{},{len}\n", i * 10, i * 4096);
    let lens = [4096, 5_000_000_000, 4096, 4_294_967_296];
    let lines = (0u64..).zip(lens).map(|(i, len)| line(i, len));
    place.file("long.csv", lines.collect::<String>());
    let words =
        "replay long.csv --columns time=1:us,op=2,offset=3:byte,size=4:byte --device cnex-small";
    let out = told(&place.run(words).ok().out);
    let (above, _) = out.split_once("replay: (groupid=0").expect("a report");
    let says = "warning: long.csv: 2 requests were left out, 50.0% of all, as their lengths are 4 GiB or more; the first is \
                line 2. If these are not lengths, look at the format, and at columns and units (--columns)";
    assert!(above.contains(says), "{above}");
}

/// One damaged address ends no replay that leaves such requests out, and a warning says how many they are.
#[test]
fn requests_beyond_the_drive_are_left_out_where_that_is_asked_for() {
    let place = Place::new();
    let line = |us: u64, offset: &str, len: &str| {
        format!("{},s,0,Write,{offset},{len},1\n", 128_166_372_003_061_629u64 + us * 10)
    };
    let damaged = [
        line(5_950, "9223372036854775808", "4096"),
        line(5_960, "18446744073709551615", "4096"),
        // Longer than the drive.
        line(5_970, "0", "4294963200"),
    ];
    let small = "--device cnex-small --scale 1/8";
    let whole = msr_at((0..100).map(|i| i * 100));
    let (first, rest) = whole.split_at(whole.lines().take(60).map(|l| l.len() + 1).sum());
    place.file("far.csv", format!("{first}{}{rest}", damaged.concat()));
    let refused = place.run(&format!("replay far.csv {small}"));
    let told_of = told(&refused.err);
    assert_eq!(refused.status, 2, "{told_of}");
    assert!(told_of.contains("far.csv:61: ") && told_of.contains("--skip-beyond"), "{told_of}");
    // As many are told in both places.
    assert!(told_of.contains("the report covers the 60 requests before that"), "{told_of}");
    assert!(told(&refused.out).contains("The numbers are those of the 60 requests before that"));
    for precondition in ["fill", "steady"] {
        let words = format!("replay far.csv {small} --skip-beyond --precondition {precondition}");
        let done = place.run(&words).ok();
        let out = told(&done.out);
        let (above, _) = out.split_once("replay: (groupid=0").expect("a report");
        let says = "warning: far.csv: 3 requests were left out, 2.9% of all, as they end beyond the drive \
                    (--skip-beyond); the first is line 61.";
        assert!(above.contains(says), "{above}");
        assert!(out.contains("issued rwts: total=100,0,0,0"), "{out}");
    }
    place.file("whole.csv", whole);
    let done = place.run(&format!("replay whole.csv {small} --skip-beyond")).ok();
    assert!(!done.out.contains("left out"), "{}", done.out);
    let both = place.run(&format!("replay far.csv {small} --skip-beyond --wrap"));
    both.fails(2, &["cannot be used with"]);
}

/// The log of `write_iolog` has the drive of each I/O and its offset there, so that it comes back to the same
/// places.
#[test]
fn a_log_of_jobs_on_several_drives_replays_on_these() {
    let place = Place::new();
    let job = "--rw=randrw --bs=4k --size=16m --number_ios=60 --fsync=7 --write_iolog=log \
               --device z-ssd-small --precondition fill --drives 2 --ioengine=libaio";
    let run = |words: &str| {
        let json = place.json(words);
        let drives = json["wordline"]["machine"]["drives"].as_array().expect("drives").clone();
        let of = |d: &Value| {
            (d["write_amplification"]["host_bytes"].clone(), d["integrity"]["checked"].clone())
        };
        let moved: Vec<_> = drives.iter().map(of).collect();
        (moved, place.text("log"))
    };
    let ops = |log: &str, drive: &str| -> Vec<String> {
        let of_drive = |line: &&str| line.split(' ').nth(1) == Some(drive);
        let ops = log.lines().filter(of_drive).map(|line| line.split_once(' ').expect("a time").1);
        ops.filter(|op| op.split(' ').count() == 4).map(|op| op.replace(drive, "drive")).collect()
    };
    let (first, log) = run(&format!("--name=a {job} --filename=/dev/nvme0n1"));
    let wanted = ops(&log, "/dev/nvme0n1");
    assert_eq!(wanted.len(), 60 + wanted.iter().filter(|op| op.contains("sync")).count());
    let (second, log) = run(&format!("--name=a {job} --filename=/dev/nvme1n1"));
    assert_eq!(ops(&log, "/dev/nvme1n1"), wanted);
    assert_eq!((&first[0], &first[1]), (&second[1], &second[0]));
    assert!(log.contains(" /dev/nvme1n1 add\n") && !log.contains("nvme0n1"), "{log}");
    let replay = "--name=r --read_iolog=log --device z-ssd-small --precondition fill --drives 2";
    assert_eq!(run(&format!("{replay} --filename=/dev/nvme1n1")).0, second);
    // The first I/O is on the second drive, and the job that reads the log names them the other way round.
    let (both, log) =
        run(&format!("--name=a {job} --filename=/dev/nvme1n1:/dev/nvme0n1 --rw=write"));
    let (far, near) = (ops(&log, "/dev/nvme1n1"), ops(&log, "/dev/nvme0n1"));
    assert!(far.len() > 29 && near.len() > 29 && both[0].0 != 0 && both[1].0 != 0, "{log}");
    assert!(log.lines().nth(1).is_some_and(|line| line.ends_with(" /dev/nvme1n1 add")), "{log}");
    let offset = |op: &String| op.split(' ').nth(2).and_then(|n| n.parse::<u64>().ok()).expect(op);
    assert!(far.iter().chain(&near).all(|op| offset(op) < 16 << 20), "{log}");
    assert_eq!(run(&format!("{replay} --filename=/dev/nvme0n1:/dev/nvme1n1")).0, both);
    // A machine with one drive has one name for it.
    let alone = "--name=a --rw=write --number_ios=5 --write_iolog=log --device z-ssd-small";
    place.run(&format!("run {alone} --filename=/dev/nvme0n1")).ok();
    assert_eq!(ops(&place.text("log"), "drive").len(), 5);
}

/// fio 3.33 logs a job's files with their own offsets, and a sync with that of the I/O before it and no
/// length.
#[test]
fn a_log_of_jobs_on_files_has_their_own_offsets() {
    let place = Place::new();
    let job = "--rw=write --bs=4k --size=64k --nrfiles=2 --directory=/mnt --number_ios=6 --fsync=3 \
               --direct=1 --device z-ssd-small --fs ext4";
    place.run(&format!("run --name=a {job} --write_iolog=log")).ok();
    let log = place.text("log");
    let io = |line: &str| line.split_once(' ').expect("a time").1.to_string();
    let ios: Vec<String> =
        log.lines().skip(1).map(io).filter(|l| l.split(' ').count() == 4).collect();
    assert_eq!(
        ios,
        [
            "/mnt/a.0.0 write 0 4096",
            "/mnt/a.0.1 write 0 4096",
            "/mnt/a.0.0 write 4096 4096",
            "/mnt/a.0.1 sync 4096 0",
            "/mnt/a.0.0 write 8192 4096",
            "/mnt/a.0.1 write 4096 4096",
            "/mnt/a.0.0 write 12288 4096",
        ],
        "{log}"
    );
    // No name in a log holds a blank.
    place
        .run_words(&[
            "run",
            "--name=a b",
            "--rw=write",
            "--size=8k",
            "--fs",
            "ext4",
            "--device",
            "z-ssd-small",
            "--write_iolog=log",
        ])
        .ok();
    assert!(place.text("log").contains(" a_b.0.0 write 4096 4096\n"));
}
