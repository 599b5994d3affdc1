//! Every format against what its sample says, and every error against its place.

use crate::common::*;
use std::io::{Cursor, Read};
use wordline_base::Ddir::{DataSync, Read as R, Sync, Trim, Write as W};
use wordline_base::Time;
use wordline_trace::*;

#[test]
fn detects_every_format_plain_and_compressed() {
    for (format, name, data, count) in samples() {
        let two_members = [gz(&data[..data.len() / 2]), gz(&data[data.len() / 2..])].concat();
        let two_frames = [zst(&data[..data.len() / 2]), zst(&data[data.len() / 2..])].concat();
        let skippable = [&b"\x50\x2A\x4D\x18\x03\0\0\0abc"[..], &zst(&data)].concat();
        let plain = read(data.clone(), named(name)).unwrap();
        assert_eq!(plain.len(), count, "{name}");
        for (how, bytes) in [
            ("plain", data.clone()),
            ("gz", gz(&data)),
            ("zst", zst(&data)),
            ("gz of two members", two_members),
            ("zst of two frames", two_frames),
            ("zst with a skippable frame", skippable),
        ] {
            let mut reader =
                open_bytes(bytes, named(name)).unwrap_or_else(|e| panic!("{how}: {e}"));
            assert_eq!(reader.format(), format, "{name} {how}");
            assert_eq!(all(&mut reader).unwrap(), plain, "{name} {how}");
            assert_eq!(reader.summary().requests as usize, count);
        }
        if format.unit() == "line" {
            let text = String::from_utf8(data).unwrap();
            let windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
            assert_eq!(read(windows, named(name)).unwrap(), plain, "{name} with BOM and CR LF");
        }
    }
}

#[test]
fn an_iolog_of_version_2_is_read() {
    let mut reader = open_bytes(IOLOG2, named("a.log")).unwrap();
    let expected = [
        request(0, R, 0, 0, 4096),
        request(150_000, W, 1, 8192, 512),
        request(150_000, Sync, 1, 0, 0),
        request(200_000, Trim, 0, 1 << 20, 65536),
        request(200_000, DataSync, 0, 0, 0),
    ];
    assert_eq!(all(&mut reader).unwrap(), expected);
    assert_eq!(reader.volumes(), ["/dev/a", "/dev/b"]);
    assert_eq!(
        reader.summary().to_string(),
        "14 lines (iolog), 5 requests\n\
         dropped 1: header line, first at line 1\n\
         dropped 6: file add, open or close, first at line 2\n\
         dropped 2: wait line, first at line 7\n\
         noted 1: version 2 log without a time: shares that of the last wait (closed loop fits \
         better), first at line 6"
    );
    let as_fio = OpenOptions { iolog_wait: IologWait::MillisFromStart, ..named("a.log") };
    let times: Vec<u64> = read(IOLOG2, as_fio).unwrap().iter().map(|r| r.at.0).collect();
    assert_eq!(times, [0, 150_000_000, 150_000_000, 150_000_000, 150_000_000]);
    let only_b = OpenOptions { volume: Some("/dev/b".into()), ..named("a.log") };
    let only_b = read(IOLOG2, only_b).unwrap();
    assert_eq!(only_b, [request(0, W, 0, 8192, 512), request(0, Sync, 0, 0, 0)]);
}

#[test]
fn an_iolog_of_version_3_is_read() {
    let mut reader = open_bytes(IOLOG3, named("a.log")).unwrap();
    let expected = [
        request(0, R, 0, 0, 4096),
        request(30_000, W, 0, 4096, 8192),
        request(40_000, Sync, 0, 0, 0),
        request(75_000, Trim, 0, 0, 1 << 20),
    ];
    assert_eq!(all(&mut reader).unwrap(), expected);
    assert_eq!(reader.origin_ns(), Some(100_000));
    let own = OpenOptions { base: TimeBase::Trace, ..named("a.log") };
    assert_eq!(read(IOLOG3, own).unwrap()[0].at, Time(100_000));
}

#[test]
fn iolog_written_is_iolog_read() {
    let requests = read(IOLOG2, named("a")).unwrap();
    let mut writer = IologWriter::new(Vec::new()).unwrap();
    for r in &requests {
        writer.write(r, ["/dev/a", "/dev/b"][r.volume as usize]).unwrap();
    }
    let text = writer.finish().unwrap();
    assert_eq!(read(text, named("b")).unwrap(), requests);
    let mut writer = IologWriter::new(Vec::new()).unwrap();
    let e = writer.write(&requests[0], "a b").unwrap_err().to_string();
    assert_eq!(
        e,
        "'a b' cannot name a file in a fio log: fio reads up to 255 bytes without blanks"
    );
}

#[test]
fn blkparse_by_action() {
    let mut reader = open_bytes(BLKPARSE, named("t")).unwrap();
    let expected = [
        request(0, R, 0, 2048 * 512, 4096),
        request(199_500, W, 0, 4096 * 512, 8192),
        request(299_500, Sync, 0, 0, 0),
        request(399_500, Sync, 0, 0, 0),
        request(399_500, W, 0, 9000 * 512, 4096),
        request(499_500, Trim, 1, 80000 * 512, 1 << 20),
        request(599_500, R, 1, 64 * 512, 131072),
        request(699_500, W, 1, 72 * 512, 4096),
    ];
    assert_eq!(all(&mut reader).unwrap(), expected);
    assert_eq!(reader.volumes(), ["8,0", "259,12"]);
    let summary = reader.summary();
    let dropped: Vec<(Reason, u64, u64)> =
        summary.dropped.iter().map(|t| (t.reason, t.count, t.first_line)).collect();
    assert_eq!(
        dropped,
        [
            (Reason::Blank, 1, 22),
            (Reason::SummaryText, 6, 19),
            (Reason::Issued, 1, 6),
            (Reason::Completed, 1, 8),
            (Reason::Merged, 1, 10),
            (Reason::GotRequest, 1, 3),
            (Reason::Plugged, 2, 4),
            (Reason::Split, 1, 18),
            (Reason::Remapped, 1, 1),
            (Reason::Message, 1, 7),
            (Reason::Passthrough, 1, 16),
            (Reason::NoData, 1, 17),
        ]
    );
    let noted: Vec<Reason> = summary.noted.iter().map(|t| t.reason).collect();
    assert_eq!(noted, [Reason::FuaAsWrite, Reason::FlushAndData]);
    for (action, at) in [(Action::Issue, 2_500), (Action::Complete, 100_500)] {
        let options = OpenOptions { action, ..named("t") };
        let mut reader = open_bytes(BLKPARSE, options).unwrap();
        assert_eq!(all(&mut reader).unwrap(), [request(0, R, 0, 2048 * 512, 4096)]);
        assert_eq!(reader.origin_ns(), Some(at));
    }
    let only_issued: String = BLKPARSE.lines().filter(|l| l.contains("  D  ")).collect();
    let e = read(only_issued, named("t")).unwrap_err().to_string();
    assert_eq!(
        e,
        "t: no request in 1 lines of format blkparse: 1 issued (D) record; there is no Q record to \
         replay but 1 D records: use --action D"
    );
}

#[test]
fn blktrace_by_action_byte_order_and_version() {
    let expected = [
        request(0, R, 0, 2048 * 512, 4096),
        request(1_000, W, 0, 4096 * 512, 8192),
        request(2_000, Sync, 0, 0, 0),
        request(3_000, Sync, 1, 0, 0),
        request(3_000, W, 1, 80 * 512, 512),
        request(4_000, Trim, 1, 800 * 512, 1 << 20),
    ];
    for (big, version) in [(false, 7), (true, 7), (false, 8), (true, 8)] {
        let mut reader = open_bytes(blktrace(big, version), named("t")).unwrap();
        assert_eq!(all(&mut reader).unwrap(), expected);
        assert_eq!(reader.volumes(), ["8,0", "8,1"]);
        let dropped: Vec<Reason> = reader.summary().dropped.iter().map(|t| t.reason).collect();
        assert_eq!(
            dropped,
            [Reason::Notify, Reason::Issued, Reason::Remapped, Reason::Passthrough]
        );
        let issue = OpenOptions { action: Action::Issue, ..named("t") };
        assert_eq!(read(blktrace(big, version), issue).unwrap(), expected[..1]);
        let complete = OpenOptions { action: Action::Complete, ..named("t") };
        let e = read(blktrace(big, version), complete).unwrap_err().to_string();
        assert!(e.ends_with("no C record to replay but 1 D records: use --action D"), "{e}");
        let one = OpenOptions { volume: Some("8,1".into()), ..named("t") };
        assert_eq!(read(blktrace(big, version), one).unwrap().len(), 3);
    }
}

#[test]
fn blktrace_files_merge_by_time() {
    let whole = blktrace(false, 7);
    // Deal the records out to three CPUs: 48 bytes and the pdu each.
    let mut cpus = vec![Vec::new(); 3];
    let (mut at, mut i) = (0, 0);
    while at < whole.len() {
        let size = 48 + usize::from(whole[at + 46]);
        cpus[i % 3].extend(&whole[at..at + size]);
        (at, i) = (at + size, i + 1);
    }
    cpus.push(Vec::new()); // an idle CPU
    cpus[1] = gz(&cpus[1]);
    let files = cpus.into_iter().enumerate().map(|(i, data)| {
        let reader: Box<dyn Read + Send> = Box::new(Cursor::new(data));
        (format!("sda.blktrace.{i}"), reader)
    });
    let options = OpenOptions { window: 1, ..named("sda") };
    let mut reader = open_merged(files.collect(), options).unwrap();
    assert_eq!(all(&mut reader).unwrap(), read(whole, named("t")).unwrap());
    assert_eq!(reader.summary().lines, 9);
    let text: Box<dyn Read + Send> = Box::new(Cursor::new("1 2 3"));
    let e = open_merged(vec![("x".into(), text)], named("x")).err().unwrap().to_string();
    assert_eq!(e, "x: no blktrace file, and only those are merged: give it alone");
}

#[test]
fn msr_is_sorted_within_the_window() {
    let mut reader = open_bytes(MSR, named("web_2.csv")).unwrap();
    let expected = [
        request(0, R, 0, 7014609920, 24576),
        request(1_332_052_100, W, 0, 2436440064, 4096),
        request(1_332_052_600, W, 0, 1317441536, 8192),
        request(2_332_061_600, R, 0, 2436440064, 4096),
    ];
    assert_eq!(all(&mut reader).unwrap(), expected);
    assert_eq!(reader.volumes(), ["web_2"]);
    let narrow = OpenOptions { window: 1, ..named("web_2.csv") };
    let mut reader = open_bytes(MSR, narrow).unwrap();
    let times: Vec<u64> = all(&mut reader).unwrap().iter().map(|r| r.at.0).collect();
    assert_eq!(times, [0, 1_332_052_600, 1_332_052_600, 2_332_061_600]);
    let late = reader.summary().noted[0];
    assert_eq!((late.reason, late.count, late.first_line), (Reason::Late, 1, 3));
    for volume in ["2", "web_2"] {
        let options = OpenOptions { volume: Some(volume.into()), ..named("t") };
        assert_eq!(read(MSR, options).unwrap().len(), 4);
    }
}

#[test]
fn traces_of_clouds_are_read_and_filtered_by_volume() {
    let expected = [
        request(0, R, 7, 126703661056, 4096),
        request(380_000, W, 9, 19496058880, 77824),
        request(448_000, W, 7, 9811763200, 12288),
    ];
    assert_eq!(read(ALIBABA, named("t")).unwrap(), expected);
    let nine = OpenOptions { volume: Some("9".into()), ..named("t") };
    assert_eq!(read(ALIBABA, nine).unwrap(), [request(0, W, 9, 19496058880, 77824)]);
    let none = OpenOptions { volume: Some("8".into()), ..named("t") };
    assert_eq!(
        read(ALIBABA, none).unwrap_err().to_string(),
        "t: no request in 3 lines of format alibaba: 3 other volume; none is of volume '8', there \
         are 7 9"
    );
    let name = OpenOptions { volume: Some("x".into()), ..named("t") };
    assert_eq!(
        read(ALIBABA, name).unwrap_err().to_string(),
        "t: volume 'x' is not a number: volumes of format alibaba are numbers"
    );
    let k5 = [
        request(0, W, 1157, 7155568640, 4096),
        request(5_562_000, R, 1157, 7132311552, 8192),
        request(13_243_000, W, 1158, 15264690176, 28672),
    ];
    assert_eq!(read(K5, named("t")).unwrap(), k5);
    let mut systor = open_bytes(SYSTOR17, named("t")).unwrap();
    let expected = [
        request(0, R, 3, 899056122368, 131072),
        request(128_000, W, 3, 4096, 512),
        request(896_879_000, W, 6, 16384, 4096),
    ];
    assert_eq!(all(&mut systor).unwrap(), expected);
    let dropped: Vec<Reason> = systor.summary().dropped.iter().map(|t| t.reason).collect();
    assert_eq!(dropped, [Reason::Header, Reason::NoType]);
}

#[test]
fn tencent_spreads_a_second_by_seed() {
    let at = |seed| {
        let options = OpenOptions { seed, ..named("t") };
        let mut reader = open_bytes(TENCENT, options).unwrap();
        let requests = all(&mut reader).unwrap();
        let origin = reader.origin_ns().unwrap();
        let times: Vec<u64> =
            requests.iter().map(|r| origin + r.at.0 - 1_538_323_200_000_000_000).collect();
        (requests, times)
    };
    let (requests, times) = at(1);
    assert_eq!(requests.iter().map(|r| r.op).collect::<Vec<_>>(), [R, W, W, R]);
    assert_eq!((requests[1].offset, requests[1].len), (2000 * 512, 8192));
    assert!(times.is_sorted() && times[2] < 1_000_000_000 && times[3] >= 1_000_000_000);
    assert_eq!(times[1] / 333_333_333, 1, "{times:?}");
    assert_eq!(at(1).1, times);
    assert_ne!(at(2).1, times);
}

/// Times with fractions of seconds are taken as they stand, and so are those of whole seconds among them.
#[test]
fn fractions_of_tencent_seconds_are_kept() {
    let text = "5.000,0,8,1,1\n5.001,8,8,1,1\n5.001,16,8,1,1\n6.000,24,8,1,1\n6.002,32,8,1,1\n";
    let mut reader =
        open_bytes(text, OpenOptions { format: Some(Format::Tencent), ..named("t") }).unwrap();
    let requests = all(&mut reader).unwrap();
    let ms: Vec<u64> = requests.iter().map(|r| r.at.0 / 1_000_000).collect();
    assert_eq!(ms, [0, 1, 1, 1000, 1002]);
    assert!(requests.iter().enumerate().all(|(i, r)| r.offset == 4096 * i as u64));
}

#[test]
fn a_crowded_tencent_second_stays_in_order_and_in_its_second() {
    let n = 600_000;
    let mut text = String::new();
    for i in 0..n {
        text += &format!("5,{i},8,1,1\n");
    }
    text += "6,0,8,1,1\n";
    let mut reader = open_bytes(text, named("t")).unwrap();
    let requests = all(&mut reader).unwrap();
    assert_eq!(requests.len(), n + 1);
    assert!(requests[..n].iter().enumerate().all(|(i, r)| r.offset == 512 * i as u64));
    let until = reader.origin_ns().unwrap() + requests[n - 1].at.0;
    assert!((5_900_000_000..6_000_000_000).contains(&until), "{until}");
    let summary = reader.summary();
    assert_eq!(summary.noted[0].reason, Reason::CrowdedSecond);
    assert_eq!(summary.noted[0].count, 1);
}

#[test]
fn spc_fiu_and_mqsim_are_read_in_their_units() {
    let spc = [
        request(0, W, 0, 20941264 * 512, 8192),
        request(2_335_000, R, 0, 20939840 * 512, 8192),
        request(460_026_000, W, 1, 3436288 * 512, 15872),
    ];
    assert_eq!(read(SPC, named("t")).unwrap(), spc);
    let of_1k = OpenOptions { address_unit: Some(1024), ..named("t") };
    let offsets =
        |list: &[Request], times: u64| list.iter().map(|r| r.offset * times).collect::<Vec<_>>();
    assert_eq!(offsets(&read(SPC, of_1k).unwrap(), 1), offsets(&spc, 2));
    let fiu = [
        request(0, W, 0, 508439920 * 512, 4096),
        request(11_131, R, 0, 512 * 512, 8192),
        request(111_131, W, 1, 1024 * 512, 4096),
    ];
    let mut reader = open_bytes(FIU, named("t")).unwrap();
    assert_eq!(all(&mut reader).unwrap(), fiu);
    assert_eq!(reader.volumes(), ["6,0", "8,1"]);
    let mqsim = |scale: u64| {
        [
            request(0, W, 4, 264719034 * 512, 8192),
            request(1500 * scale, R, 3, 197570570 * 512, 4096),
            request(1500 * scale, R, 4, 8 * 512, 512),
        ]
    };
    assert_eq!(read(MQSIM, named("t")).unwrap(), mqsim(1));
    for (unit, scale) in [(TimeUnit::Microsecond, 1_000), (TimeUnit::Millisecond, 1_000_000)] {
        let options = OpenOptions { time_unit: Some(unit), ..named("t") };
        assert_eq!(read(MQSIM, options).unwrap(), mqsim(scale));
    }
    let disksim = OpenOptions { time_unit: Some(TimeUnit::Millisecond), ..named("t") };
    let at = read("0.5 0 8 8 1\n0.512345 0 8 8 1\n", disksim).unwrap()[1].at;
    assert_eq!(at, Time(12_345));
}

#[test]
fn msr_types_in_any_case_and_short() {
    let expected = read(MSR, named("t")).unwrap();
    for (read_word, write_word) in [("read", "write"), ("READ", "WRITE"), ("R", "W"), ("r", "w")] {
        let text = MSR.replace("Read", read_word).replace("Write", write_word);
        let mut reader = open_bytes(text, named("t")).unwrap();
        assert_eq!(reader.told(), "msr, by the columns of 4 of its first 4 lines");
        assert_eq!(all(&mut reader).unwrap(), expected);
    }
}

#[test]
fn traces_of_virtual_disks() {
    let second = 1_000_000_000;
    let expected = |ns: [u64; 4]| {
        [
            request(ns[0], W, 0, 42932745 * 512, 512),
            request(ns[1], R, 0, 40409911 * 512, 6656),
            request(ns[2], Sync, 0, 0, 0),
            request(ns[3], W, 0, 6160447 * 512, 4096),
        ]
    };
    let exact = expected([0, 200_000, 1_000_400_000, 1_499_900_000]);
    for (what, bytes) in
        [("text", VSCSI_TEXT.into()), ("version 1", vscsi(1)), ("version 2", vscsi(2))]
    {
        let mut reader = open_bytes(bytes, named("t")).unwrap();
        assert_eq!(all(&mut reader).unwrap(), exact, "{what}");
        assert_eq!(reader.origin_ns(), Some(5_633_898_000_100_000));
        let summary = reader.summary();
        let dropped: Vec<_> =
            summary.dropped.iter().map(|t| (t.reason, t.count, t.first_line)).collect();
        assert_eq!(dropped, [(Reason::OtherScsi, 1, 3)], "{what}");
        let noted: Vec<_> = summary.noted.iter().map(|t| (t.reason, t.first_line)).collect();
        assert_eq!(noted, [(Reason::CheckedWrite, 5)], "{what}");
    }
    // Whole seconds are spread.
    let mut reader = open_bytes(CLOUDPHYSICS, named("t")).unwrap();
    let requests = all(&mut reader).unwrap();
    let times = [0, 1, 2, 3].map(|i| requests[i].at.0);
    assert_eq!(requests, expected(times));
    let at = times.map(|t| reader.origin_ns().unwrap() + t - 5_633_898 * second);
    assert!(at[0] < second / 2 && (second / 2..second).contains(&at[1]), "{at:?}");
    assert!((second..2 * second).contains(&at[2]) && at[3] >= 2 * second, "{at:?}");
    let volume = OpenOptions { volume: Some("1".into()), ..named("t") };
    assert_eq!(
        read(CLOUDPHYSICS, volume).unwrap_err().to_string(),
        "t: --volume: format cloudphysics has no volumes: leave it out"
    );
}

#[test]
fn vscsi_records_are_checked() {
    let damaged = |at: usize, value: u8| {
        let mut bytes = vscsi(2).repeat(20);
        bytes[at] = value;
        bytes
    };
    // The version of record 71, beyond those that told the format.
    let e = error(None, damaged(70 * 40 + 3, 1));
    assert_eq!(
        e,
        "trace.csv: record 71 at byte 2800: no vscsi record of version 2 (version 1, opcode 0x2a): \
         the file is damaged or no vscsi trace"
    );
    let e = error(None, damaged(70 * 40 + 31, 0xFF));
    assert!(
        e.contains("record 71 at byte 2800: the time, ") && e.contains("beyond 584 years"),
        "{e}"
    );
    let e = error(Some(Format::Vscsi), "this is no trace of virtual disks, it is a text");
    assert!(e.starts_with("trace.csv: record 1 at byte 0: no vscsi record of version 1"), "{e}");
    assert_eq!(
        error(Some(Format::Vscsi), &vscsi(1)[..80]),
        "trace.csv: record 3 at byte 64: the record is cut short, 16 of 32 bytes: fetch the file \
         again, or cut it there"
    );
    // A record that begins as a gzip file does.
    let mut odd = vscsi(1);
    odd[..3].copy_from_slice(b"\x1F\x8B\x00");
    assert_eq!(read(odd, named("t")).unwrap(), read(vscsi(1), named("t")).unwrap());
}

#[test]
fn traces_without_directions_times_or_lengths() {
    let sample = oracle(&ORACLE);
    let mut reader = open_bytes(sample.clone(), named("t")).unwrap();
    assert_eq!(reader.told(), "oraclegeneral, by the next accesses of its first records");
    let requests = all(&mut reader).unwrap();
    assert!(requests.iter().all(|r| r.op == R));
    assert_eq!((requests[1].offset, requests[1].len), (40409911 * 512, 6656));
    let noted = reader.summary().noted;
    assert_eq!((noted[0].reason, noted[0].count), (Reason::NoDirection, 3));
    let wide = OpenOptions { address_unit: Some(4096), ..named("t") };
    assert_eq!(read(sample.clone(), wide).unwrap()[1].offset, 40409911 * 4096);

    let many = oracle(&(0..10_000).map(|i| (i / 100, i.into(), 4096, -1)).collect::<Vec<_>>());
    let writes = |reads, seed| {
        let options = OpenOptions { reads: Some(reads), seed, ..named("t") };
        let requests = read(many.clone(), options).unwrap();
        requests.iter().map(|r| r.op == W).collect::<Vec<_>>()
    };
    let count = |list: &[bool]| list.iter().filter(|w| **w).count();
    assert_eq!((count(&writes(100, 1)), count(&writes(0, 1))), (0, 10_000));
    let mixed = writes(70, 1);
    // Three standard deviations of 10,000 draws.
    assert!((2862..=3138).contains(&count(&mixed)), "{}", count(&mixed));
    assert_eq!(writes(70, 1), mixed);
    assert_ne!(writes(70, 2), mixed);

    let lbns = OpenOptions { length: Some(8192), reads: Some(0), ..named("t") };
    let mut reader = open_bytes(LBN, lbns).unwrap();
    assert_eq!(all(&mut reader).unwrap()[2], request(0, W, 0, 6160447 * 512, 8192));
    let noted: Vec<Reason> = reader.summary().noted.iter().map(|t| t.reason).collect();
    assert_eq!(noted, [Reason::NoDirection, Reason::NoTime]);
    assert_eq!(read(LBN, named("t")).unwrap()[0], request(0, R, 0, 42932745 * 512, 512));

    // Named, what is something else is no trace of this format.
    let mut damaged = many.clone();
    damaged[24 * 5_000 + 23] = 1;
    let e = error(Some(Format::OracleGeneral), damaged);
    assert!(
        e.starts_with("trace.csv: record 5001 at byte 120000: no oracleGeneral record: "),
        "{e}"
    );
    let e = error(Some(Format::OracleGeneral), MSR);
    assert!(e.starts_with("trace.csv: record 1 at byte 0: no oracleGeneral record: "), "{e}");

    // Keys of a cache are no addresses.
    let keys = oracle(&[(1, u64::MAX / 3, 100, -1), (2, u64::MAX / 5, 100, -1)]);
    let e = error(None, keys);
    assert!(e.ends_with("it is of a cache of objects, not of a disk"), "{e}");
}

#[test]
fn an_option_that_a_format_has_no_use_for_is_refused() {
    let cases = [
        (OpenOptions { reads: Some(5), ..named("t") }, "--rwmixread: format msr has directions"),
        (OpenOptions { length: Some(512), ..named("t") }, "--bs: format msr has lengths"),
        (
            OpenOptions { address_unit: Some(1), ..named("t") },
            "--address-unit: format msr has a unit",
        ),
        (
            OpenOptions { time_unit: Some(TimeUnit::Second), ..named("t") },
            "--time-unit: format msr has a unit",
        ),
        (
            OpenOptions { action: Action::Issue, ..named("t") },
            "--action: format msr has one record a request",
        ),
    ];
    for (options, part) in cases {
        let e = read(MSR, options).unwrap_err().to_string();
        assert!(e.contains(part) && e.ends_with(": leave it out"), "{e}");
    }
}

#[test]
fn what_told_the_format_is_said() {
    for (format, told) in [
        (Some(Format::Msr), "msr, by --format"),
        (None, "msr, by the columns of 4 of its first 4 lines"),
    ] {
        let options = OpenOptions { format, ..named("t") };
        assert_eq!(open_bytes(MSR, options).unwrap().told(), told);
    }
    let told = |bytes: Vec<u8>| open_bytes(bytes, named("t")).unwrap().told();
    assert_eq!(told(vscsi(2)), "vscsi, by the versions of its first records");
    assert_eq!(told(blktrace(true, 7)), "blktrace, by the magic number of its first record");
    assert_eq!(told(IOLOG2.into()), "iolog, by its first line");
    // Half of the lines are not enough.
    let half = MSR.replace("Read", "Erase");
    assert!(error(None, half).starts_with("trace.csv: cannot tell the format"));
}

#[test]
fn two_formats_that_fit_alike_are_refused() {
    // A host called 0 and types of a letter: SPC's five columns and two more.
    let both = "128166372,0,2,R,7014609920,24576,41286\n128166373,0,2,W,7014609920,24576,41286\n";
    let e = error(None, both);
    assert_eq!(
        e,
        "trace.csv: it has the shape of 2 formats alike: say --format msr (MSR Cambridge: \
         Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime) or --format spc (SPC / UMass \
         (Financial, WebSearch): ASU,LBA,Size,Opcode,Timestamp)"
    );
    for format in [Format::Msr, Format::Spc] {
        let options = OpenOptions { format: Some(format), ..named("t") };
        assert_eq!(read(both, options).unwrap().len(), 2);
    }
    // SCSI opcodes that read as sizes, LBNs 0 and 1 that read as types.
    let printed = "1 100 28 512 1\n2 200 28 512 0\n";
    let e = error(None, printed);
    assert!(e.contains("--format mqsim") && e.contains("--format vscsi-text"), "{e}");
}

/// No sample is of two formats: whatever fits a line of one fits none of another.
#[test]
fn no_sample_has_the_shape_of_another_format() {
    for (format, name, sample, _) in samples() {
        for other in Format::ALL.into_iter().filter(|&f| f != format) {
            let options = OpenOptions { format: Some(other), ..named("t") };
            let whole = open_bytes(sample.clone(), options).and_then(|mut r| all(&mut r));
            assert!(whole.is_err(), "{name} was read as {}", other.name());
        }
    }
}

#[test]
fn text_that_is_no_trace_is_refused_with_place_and_remedy() {
    let utf16 = |big: bool, mark: bool| {
        let mark = if mark { "\u{feff}" } else { "" };
        let units = format!("{mark}{MSR}");
        let bytes = |u: u16| if big { u.to_be_bytes() } else { u.to_le_bytes() };
        units.encode_utf16().flat_map(bytes).collect::<Vec<u8>>()
    };
    for (big, mark) in [(false, false), (false, true), (true, false), (true, true)] {
        for format in [None, Some(Format::Msr)] {
            let e = error(format, utf16(big, mark));
            assert_eq!(e, "trace.csv: text in UTF-16: convert it with iconv -f UTF-16 -t UTF-8");
        }
    }
    for format in [None, Some(Format::Msr)] {
        let e = error(format, *b"\xFD7zXZ\0\0");
        assert_eq!(e, "trace.csv: compressed with xz: decompress it, only .gz and .zst are read");
    }
    let e = error(None, "# a comment\n# and one more\n");
    assert!(
        e.starts_with("trace.csv: cannot tell the format; it begins with '# a comment'"),
        "{e}"
    );
    let one = |line: &str| error(Some(Format::Alibaba), line.to_owned());
    assert!(one("7,R,-1,4096,1\n").starts_with("trace.csv:1:5: offset is negative: '-1'"));
    assert!(one("7,R,1,-4096,1\n").starts_with("trace.csv:1:7: length is negative: '-4096'"));
    let huge = format!("7,R,{},4096,1\n", "9".repeat(60_000));
    assert!(one(&huge).starts_with("trace.csv:1:5: offset does not fit 64 bits: '99999"));
    assert!(one(&huge).len() < 300);
    // Beyond 2^63 an offset is one as others are; beyond 2^64 no drive has it.
    let far = "7,R,9223372036854775808,4096,1\n7,R,18446744073709551615,4096,2\n7,R,0,4096,3\n";
    let mut reader = open_bytes(far, named("t")).unwrap();
    assert_eq!(reader.next().unwrap(), Some(request(0, R, 7, 1 << 63, 4096)));
    let e = reader.next().unwrap_err().to_string();
    assert!(
        e.starts_with("t:2: a request that ends at byte 18446744073709555711, beyond 2^64"),
        "{e}"
    );
    assert!(e.contains("mend or delete"), "{e}");
    // A word of a text is no magic number.
    let e = error(None, "eat this\n");
    assert!(e.starts_with("trace.csv: cannot tell the format; it begins with 'eat this'"), "{e}");
    // Old Macintosh lines are one line.
    let e = error(None, ALIBABA.replace('\n', "\r"));
    assert!(e.starts_with("trace.csv: cannot tell the format; it begins with '7,R,"), "{e}");
    let nul = error(Some(Format::Alibaba), "7,R,\0,4096,1\n");
    assert!(nul.starts_with("trace.csv:1:5: offset is not a number: '\\0'"), "{nul}");
}

#[test]
fn odd_requests_are_counted_not_lost() {
    let text = "1 0 8 0 1\n2 0 8 8388608 1\n6 0 3 1 1";
    let mqsim = || OpenOptions { format: Some(Format::Mqsim), ..named("t") };
    let mut reader = open_bytes(text, mqsim()).unwrap();
    assert_eq!(all(&mut reader).unwrap(), [request(0, R, 0, 1536, 512)]);
    let summary = reader.summary();
    let counts: Vec<_> =
        summary.dropped.iter().map(|t| (t.reason, t.count, t.first_line)).collect();
    assert_eq!(counts, [(Reason::ZeroLength, 1, 1), (Reason::TooLong, 1, 2)]);
    assert_eq!(summary.noted[0].reason, Reason::NoNewline);
    for sector in ["36028797018963967", "36028797018963968", "18446744073709551615"] {
        let mut reader = open_bytes(&*format!("3 0 {sector} 8 1\n"), mqsim()).unwrap();
        let e = all(&mut reader).unwrap_err().to_string();
        assert!(e.starts_with("t:1: ") && e.contains("beyond 2^64"), "{e}");
    }
}

fn error(format: Option<Format>, text: impl Into<Vec<u8>>) -> String {
    let options = OpenOptions { format, ..named("trace.csv") };
    match open_bytes(text, options) {
        Err(e) => e.to_string(),
        Ok(mut reader) => loop {
            match reader.next() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("no error"),
                Err(e) => {
                    assert_eq!(reader.next().unwrap_err(), e, "an error stays");
                    break e.to_string();
                }
            }
        },
    }
}

#[test]
fn errors_say_where_and_what_to_do() {
    for (format, text, expected) in [
        (Format::Alibaba, "7,R,abc,1,2\n", "1:5: offset is not a number: 'abc'"),
        (Format::Alibaba, "7,R,,1,2\n", "1:5: offset is missing"),
        (Format::Alibaba, "7,X,1,1,2\n", "1:3: opcode is neither R nor W: 'X'"),
        (
            Format::Alibaba,
            "7,R,1,1\n",
            "1:8: 4 columns where 5 are due: device_id,opcode,offset,length,timestamp",
        ),
        (
            Format::Alibaba,
            "7,R,1,1,1,9\n",
            "1:11: more than 5 columns; they are device_id,opcode,offset,length,timestamp",
        ),
        (
            Format::Alibaba,
            "7,R,99999999999999999999,1,1\n",
            "1:5: offset does not fit 64 bits: '99999999999999999999'",
        ),
        (Format::Msr, "1,h,0,Red,1,1,1\n", "1:7: type is neither Read nor Write: 'Red'"),
        (Format::Tencent, "1,1,1,2,1\n", "1:7: IOType is neither 0 (read) nor 1 (write): '2'"),
        (Format::Systor17, "1e9,0,R,1,1,1\n", "1:1: timestamp is not a number: '1e9'"),
        (Format::K5, "1,-3,W,1,1\n", "1:3: timestamp is negative: '-3'"),
        (Format::Spc, "0,1,2,x,0\n", "1:7: opcode is neither R nor W: 'x'"),
        (Format::Mqsim, "1 2 3 4\n", "1:8: 4 columns where 5 are due: time device lba size type"),
        (Format::Mqsim, "1 2 3 4 5\n", "1:9: type is neither 0 (write) nor 1 (read): '5'"),
        (Format::Fiu, "1 2 p 3 4 Q 6 0 x\n", "1:11: operation is neither R nor W: 'Q'"),
        (
            Format::Blkparse,
            "8,0 0 1 0.0 1 K R 1 + 1 [x]\n",
            "1:15: unknown action 'K': is this blkparse's default layout (no -f)?",
        ),
        (
            Format::Blkparse,
            "8,0 0 1 0.0 1 Q RX 1 + 1 [x]\n",
            "1:17: unknown letter 'X' in RWBS 'RX'",
        ),
        (
            Format::Blkparse,
            "hello\n",
            "1:1: neither an event (maj,min cpu sequence time pid action rwbs) nor blkparse's \
             statistics: 'hello'",
        ),
        (
            Format::Iolog,
            "0,0,4096\n",
            "1:1: a fio log begins with 'fio version 2 iolog' or 'fio version 3 iolog'; version 1, \
             without this line, is not read",
        ),
        (
            Format::Iolog,
            "fio version 4 iolog\n",
            "1:13: only versions 2 and 3 of fio's log are read: record it again with fio 1.17 or \
             newer",
        ),
        (
            Format::Iolog,
            "fio version 3 iolog\n5 f erase 0 1\n",
            "2:5: unknown action 'erase': fio writes add, open, close, read, write, trim, sync, \
             datasync, wait",
        ),
        (
            Format::Iolog,
            "fio version 2 iolog\nmy file add\n",
            "2:9: 3 columns where 4 are due: FILE add|open|close, or FILE ACTION OFFSET LENGTH \
             (file names cannot hold blanks)",
        ),
    ] {
        let name = format.name();
        let remedy = format!(
            "; read as {name}, by --format: mend or delete the line, or name another format"
        );
        assert_eq!(error(Some(format), text), format!("trace.csv:{expected}{remedy}"));
    }
    // The place survives compression, the look-ahead and good lines before.
    let mut text: String = "1 0 8 8 1\n".repeat(9_999);
    text += "1 0 8 eight 1\n";
    for data in [text.clone().into_bytes(), gz(text.as_bytes()), zst(text.as_bytes())] {
        let mut reader = open_bytes(data, named("trace.csv")).unwrap();
        for _ in 0..9_999 {
            assert!(reader.next().unwrap().is_some(), "good lines come before the error");
        }
        let e = reader.next().unwrap_err();
        assert_eq!(
            e.to_string(),
            "trace.csv:10000:7: size is not a number: 'eight'; read as mqsim, by the columns of 64 \
             of its first 64 lines: mend or delete the line, or name the format"
        );
        assert_eq!((e.line(), e.column()), (Some(10_000), Some(7)));
    }
}

#[test]
fn what_is_no_trace_is_refused_with_a_reason() {
    assert_eq!(error(None, ""), "trace.csv: the trace is empty");
    assert_eq!(error(None, "\n\n"), "trace.csv: the trace is empty");
    assert_eq!(error(Some(Format::Msr), ""), "trace.csv: no request: the trace is empty");
    assert_eq!(
        error(None, "Timestamp,Response,IOType,LUN,Offset,Size\n"),
        "trace.csv: no request in 1 lines of format systor17: 1 header line"
    );
    assert_eq!(
        error(None, "hello world\n"),
        "trace.csv: cannot tell the format; it begins with 'hello world': name it with --format \
         (iolog, blktrace, blkparse, msr, alibaba, tencent, systor17, k5, spc, fiu, mqsim, \
         cloudphysics, vscsi, vscsi-text, oraclegeneral, lbn), or its columns with --columns"
    );
    let v1 = "0, 0, 4096\n1, 4096, 4096\n";
    assert_eq!(
        error(None, v1),
        "trace.csv: this looks like a fio I/O log of version 1, which has no file names and no \
         times: record it again with fio 1.17 or newer, or name the columns of another table with --columns"
    );
    assert_eq!(
        error(None, *b"\xFD7zXZ\0\0"),
        "trace.csv: compressed with xz: decompress it, only .gz and .zst are read"
    );
    assert_eq!(
        error(None, gz(&gz(b"x"))),
        "trace.csv: compressed with gzip, twice: decompress it, only .gz and .zst are read"
    );
    // A frame header that asks for a window of 2^(10 + 19) bytes, and no data.
    assert_eq!(
        error(Some(Format::Msr), *b"\x28\xB5\x2F\xFD\x00\x98\x01\x00\x00"),
        "trace.csv: cannot be read: a zstd window of 512 MiB, at most 128 are allowed: decompress it with \
         zstd -d --long=31"
    );
    let mut tar = vec![0; 600];
    tar[..4].copy_from_slice(b"2018");
    tar[257..262].copy_from_slice(b"ustar");
    assert_eq!(
        error(None, gz(&tar)),
        "trace.csv: this is a tar archive: unpack it and give the trace inside"
    );
    let long = "1 0 8 8 1\n".to_owned() + &"9".repeat(70_000);
    assert_eq!(
        error(None, long),
        "trace.csv:2: a line of more than 65536 bytes: this is no text trace"
    );
    assert_eq!(
        error(None, "1 0 8 8 1\n1400000000000000000 0 8 8 1\n"),
        "trace.csv:2:1: more than 36 years after the first request: the time is damaged, or of \
         another unit or format"
    );
    // The damaged one is the earlier.
    assert_eq!(
        error(None, "1400000000000000000 0 8 8 1\n1400000000000000001 0 8 8 1\n0 0 8 8 1\n"),
        "trace.csv:1:1: more than 36 years after the first request by time, which is line 3: one \
         of the two times is damaged"
    );
}

#[test]
fn a_compressed_trace_cut_anywhere_is_said_to_be_cut() {
    let text = "1000 4 264720 16 0\n300000 3 19760 8 1\n501000 4 8 8 1\n";
    let mut skippable = b"\x50\x2A\x4D\x18\x03\0\0\0abc".to_vec();
    skippable.extend(zst(text.as_bytes()));
    let cases = [
        ("t.gz", "gzip", gz(text.as_bytes()), 0..0),
        ("t.zst", "zstd", zst(text.as_bytes()), 0..0),
        // After the skippable frame the file could as well be over.
        ("t.zst", "zstd", skippable, 11..12),
    ];
    for (name, what, whole, valid) in cases {
        for cut in (1..whole.len()).filter(|cut| !valid.contains(cut)) {
            for format in [None, Some(Format::Mqsim)] {
                let options = OpenOptions { format, ..named(name) };
                let e = match open_bytes(&whole[..cut], options) {
                    Err(e) => e.to_string(),
                    Ok(mut reader) => all(&mut reader).unwrap_err().to_string(),
                };
                assert!(e.contains(&format!("the {what} data end early")), "{cut} {format:?}: {e}");
            }
        }
        let mut reader = open_bytes(whole, named(name)).unwrap();
        assert_eq!(all(&mut reader).unwrap().len(), 3);
    }
}

#[test]
fn what_is_cut_short_is_an_error_with_a_place() {
    let mut text = String::new();
    for i in 0..20_000u64 {
        text += &format!("{i} 0 {} 8 1\n", i * 7919 % 100_003);
    }
    for (what, whole) in [("gzip", gz(text.as_bytes())), ("zstd", zst(text.as_bytes()))] {
        let n = whole.len();
        for cut in [n - 1, n / 2, n / 10] {
            let e = error(Some(Format::Mqsim), &whole[..cut]);
            assert!(
                e.starts_with("trace.csv:") && e.contains(&format!("the {what} data end early")),
                "{cut} of {n}: {e}"
            );
        }
        // In the data, and in the checksum at the end.
        for back in [n / 2, 6, 1] {
            let mut damaged = whole.clone();
            damaged[n - back] ^= 0x10;
            let e = error(Some(Format::Mqsim), damaged);
            let place = e.strip_prefix("trace.csv:").unwrap();
            assert!(place.starts_with(|c: char| c.is_ascii_digit()), "{e}");
            if back < n / 2 {
                assert!(e.contains(&format!(": damaged {what} data")), "{e}");
            }
        }
    }
    let whole = blktrace(false, 7);
    for (cut, message) in [
        (48 + 8 + 20, "record 2 at byte 56: the record is cut short, 20 of 48 bytes"),
        (48 + 3, "record 1 at byte 0: the data after the record are cut short, 3 of 8 bytes"),
        (48 + 8 + 2, "record 2 at byte 56: the record is cut short, 2 of 48 bytes"),
    ] {
        let e = error(None, &whole[..cut]);
        assert!(e.starts_with(&format!("trace.csv: {message}")), "{e}");
    }
    let mut bad = whole.clone();
    bad[56] = 9;
    let e = error(None, bad.clone());
    assert!(e.ends_with("record version 9; 7 and 8 are read: convert it with blkparse"), "{e}");
    bad[57] = 9;
    let e = error(None, bad);
    assert!(e.contains("record 2 at byte 56: no record begins here"), "{e}");
}

#[test]
fn an_error_says_of_what_sort_it_is() {
    let fault = |options: OpenOptions, data: &[u8]| {
        read(data.to_vec(), OpenOptions { name: "t".into(), ..options }).unwrap_err().fault
    };
    let named = |format| OpenOptions { format: Some(format), ..OpenOptions::default() };
    let columns = |text: &str| OpenOptions { columns: Some(text.into()), ..OpenOptions::default() };
    let any = OpenOptions::default;
    let cut = &gz(IOLOG3.as_bytes())[..40];
    assert_eq!(fault(any(), cut), TraceFault::Unreadable);
    assert_eq!(fault(any(), b"nothing like a trace\n"), TraceFault::Format);
    assert_eq!(fault(any(), b"\xFD7zXZ\0"), TraceFault::Unread);
    assert_eq!(fault(columns("offset=2"), b"1,2,3\n"), TraceFault::Options);
    assert_eq!(fault(columns("offset=2:byte,volume=x"), b"1,2,3\n"), TraceFault::Options);
    assert_eq!(
        fault(named(Format::Iolog), b"fio version 2 iolog\n/a read x 1\n"),
        TraceFault::Malformed
    );
    assert_eq!(fault(named(Format::Iolog), b"fio version 2 iolog\n/a add\n"), TraceFault::Empty);
    let mut reader = open_bytes(IOLOG3, OpenOptions::default()).unwrap();
    reader.next().unwrap();
    assert_eq!(reader.error_here("too far").fault, TraceFault::Request);
}

#[test]
fn a_reader_can_move_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<Reader>();
}

#[test]
fn each_format_is_found_by_its_name() {
    assert_eq!(Format::from_name("auto"), Ok(None));
    for format in Format::ALL {
        assert_eq!(Format::from_name(format.name()), Ok(Some(format)));
        assert!(format.description().len() < 90);
    }
    assert_eq!(
        Format::from_name("blkprase").unwrap_err().to_string(),
        "unknown trace format 'blkprase', did you mean 'blkparse'?"
    );
    assert_eq!(
        Format::from_name("Alibaba").unwrap_err().to_string(),
        "unknown trace format 'Alibaba', did you mean 'alibaba'?"
    );
    let e = Format::from_name("columns").unwrap_err().to_string();
    assert_eq!(e, "columns are named with --columns, not with --format");
    let e = Format::from_name("parquetfile").unwrap_err().to_string();
    assert!(e.contains("the formats are auto, iolog, blktrace"), "{e}");
}

#[test]
fn each_clock_says_when_a_request_arrives() {
    let half = Clock::scaled("0.5").unwrap();
    assert_eq!(half, Clock::Scaled { ppb: 500_000_000 });
    assert_eq!(half.arrival(Time(1_001)), Ok(Arrival::At(Time(500))));
    assert_eq!(Clock::scaled("1.0"), Ok(Clock::Timestamps));
    assert_eq!(Clock::Timestamps.arrival(Time(7)), Ok(Arrival::At(Time(7))));
    assert_eq!(Clock::ClosedLoop.arrival(Time(7)), Ok(Arrival::WhenFree));
    // Exact where floating point would not be.
    let exact = (333_333_333u128 * (1 << 59) / 1_000_000_000) as u64;
    let third = Clock::scaled("0.333333333").unwrap();
    assert_eq!(third.arrival(Time(1 << 59)), Ok(Arrival::At(Time(exact))));
    assert!(Clock::scaled("1000").unwrap().arrival(Time(1 << 59)).is_err());
    for bad in ["", ".", "-1", "2x", "1e3", "0.1234567890", "0", "0.0", "99999999999"] {
        assert!(Clock::scaled(bad).is_err(), "{bad}");
    }
}

#[test]
fn addresses_are_checked_or_wrapped() {
    let text = "1 0 0 8 1\n2 0 20 8 0\n3 0 16 1 1\n4 0 15 3 1\n5 0 7 99 1\n";
    let drive = 16 * 512;
    let mut reader = open_bytes(text, named("t")).unwrap();
    let mut fit = Fit::new(Wrap::Error, drive);
    let first = reader.next().unwrap().unwrap();
    assert_eq!(fit.place(first, &reader).unwrap(), Some(first));
    let second = reader.next().unwrap().unwrap();
    assert_eq!(
        fit.place(second, &reader).unwrap_err().to_string(),
        "t:2: write of 4096 bytes at offset 10240 (volume 0) is beyond the end of the drive of \
         8192 bytes: use --wrap, a larger drive, or --skip-beyond, which leaves such requests out"
    );
    let mut fit = Fit::new(Wrap::Wrap, drive);
    let offset = |placed: Option<Request>| placed.expect("it stays").offset;
    assert_eq!(offset(fit.place(second, &reader).unwrap()), 4 * 512);
    let third = reader.next().unwrap().unwrap();
    assert_eq!(offset(fit.place(third, &reader).unwrap()), 0);
    let across = reader.next().unwrap().unwrap();
    assert_eq!(offset(fit.place(across, &reader).unwrap()), 13 * 512);
    assert_eq!(fit.wrapped, 3);
    let huge = reader.next().unwrap().unwrap();
    let e = fit.place(huge, &reader).unwrap_err().to_string();
    assert!(e.contains("is larger than the drive of 8192 bytes: use --skip-beyond"), "{e}");
    let mut fit = Fit::new(Wrap::Skip, drive);
    assert_eq!(fit.place(first, &reader).unwrap(), Some(first));
    for beyond in [second, huge] {
        assert_eq!(fit.place(beyond, &reader).unwrap(), None);
    }
    assert_eq!(fit.skipped.map(|(requests, place)| (requests, place.line())), Some((2, Some(5))));
}

/// No drive has such an address: an error, or left out and counted.
#[test]
fn addresses_beyond_all_drives_are_left_out_where_that_is_asked_for() {
    let text =
        "1 0 0 8 1\n2 0 36028797018963968 8 0\n3 0 16 1 1\n4 0 36028797018963967 2 0\n5 0 8 8 1\n";
    let read = |skip_beyond| {
        let mut reader = open_bytes(text, OpenOptions { skip_beyond, ..named("t") }).unwrap();
        let mut offsets = Vec::new();
        loop {
            match reader.next() {
                Ok(Some(request)) => offsets.push(request.offset),
                Ok(None) => break (offsets, None, reader.dropped(Reason::BeyondAll)),
                Err(error) => {
                    break (offsets, Some(error.to_string()), reader.dropped(Reason::BeyondAll));
                }
            }
        }
    };
    let (offsets, error, _) = read(false);
    let error = error.expect("an error");
    assert_eq!(offsets, [0]);
    assert!(error.starts_with("t:2: ") && error.contains("--skip-beyond"), "{error}");
    let (offsets, error, left_out) = read(true);
    assert_eq!((offsets, error), (vec![0, 16 * 512, 8 * 512], None));
    assert_eq!(left_out.map(|tally| (tally.count, tally.first_line)), Some((2, 2)));
}

proptest::proptest! {
    /// Against the obvious model: all of it, sorted.
    #[test]
    fn a_wide_window_sorts_and_a_narrow_one_loses_nothing(
        times in proptest::collection::vec(0u64..60, 1..80),
        narrow in 1usize..90,
    ) {
        let mut sorted: Vec<(u64, u64)> = times.iter().copied().zip(1..).collect();
        let text: String =
            sorted.iter().map(|(t, i)| format!("{t} 0 {i} 1 1\n")).collect();
        sorted.sort();
        let get = |window| {
            let options = OpenOptions { window, base: TimeBase::Trace, ..named("t") };
            let mut reader = open_bytes(text.clone(), options).unwrap();
            let requests = all(&mut reader).unwrap();
            let pairs: Vec<_> = requests.iter().map(|r| (r.at.0, r.offset / 512)).collect();
            let late = reader.summary().noted.iter().map(|t| t.count).sum::<u64>();
            (pairs, late)
        };
        proptest::prop_assert_eq!(get(times.len()), (sorted.clone(), 0));
        let (pairs, late) = get(narrow);
        proptest::prop_assert!(pairs.is_sorted_by_key(|p| p.0));
        let mut lines: Vec<u64> = pairs.iter().map(|p| p.1).collect();
        lines.sort();
        proptest::prop_assert!(lines.into_iter().eq(1..=times.len() as u64));
        let moved = pairs.iter().filter(|p| times[p.1 as usize - 1] != p.0).count();
        proptest::prop_assert_eq!(moved as u64, late);
    }
}
