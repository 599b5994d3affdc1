//! The traces of `examples/traces`, one recording in every format, and the requests that each has.

use super::{SDA, record};
use wordline_base::Ddir::{self, Read, Sync, Trim, Write};
use wordline_base::rng::splitmix64;
use wordline_trace::{Format, OpenOptions};

/// A request of the recording: time in microseconds, offset and length in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Io {
    pub us: u64,
    pub op: Ddir,
    pub offset: u64,
    pub len: u64,
}

/// Forty requests of a key-value store over two seconds: a log written in order with a flush every
/// eight, and reads of 4 to 16 KiB over 256 MiB. One trim.
pub fn recording() -> Vec<Io> {
    let mut log = 1 << 30;
    let mut ios = Vec::new();
    for i in 0..40u64 {
        let draw = splitmix64(i);
        let us = i * 50_000 + draw % 40_000;
        let (op, offset, len) = match i % 4 {
            _ if i == 30 => (Trim, 1 << 30, 64 << 10),
            _ if i % 8 == 7 => (Sync, 0, 0),
            0 | 1 => {
                log += 8192;
                (Write, log - 8192, 8192)
            }
            _ => (Read, draw / 7 % (256 << 8) * 4096, 4096 << (draw % 3)),
        };
        ios.push(Io { us, op, offset, len });
    }
    ios
}

/// An example.
pub struct Made {
    pub file: &'static str,
    pub format: Format,
    pub bytes: Vec<u8>,
    /// What it holds of the recording.
    pub ios: Vec<Io>,
    /// What has to be said to replay it.
    pub options: OpenOptions,
}

/// Microseconds between 1601, or 1970, or the start of a host, and the first request.
const SINCE_1601: u64 = 12_816_637_200_000_000;
const SINCE_1970: u64 = 1_577_808_000_000_000;
const UPTIME: u64 = 5_633_898_000_000;

/// The columns of `columns.tsv`.
pub const COLUMNS: &str =
    "time=When:ms,op=What,offset=Block:4k,size=Bytes:byte,volume=Disk,ignore=noop";

fn text(ios: &[Io], head: &str, line: impl Fn(&Io) -> String) -> Vec<u8> {
    (head.to_owned() + &ios.iter().map(line).collect::<String>()).into_bytes()
}

fn seconds(us: u64, decimals: usize) -> String {
    let nanos = format!("{:09}", us % 1_000_000 * 1000);
    format!("{}.{}", us / 1_000_000, &nanos[..decimals])
}

/// Only operations of these kinds.
fn only(kinds: &[Ddir]) -> Vec<Io> {
    recording().into_iter().filter(|io| kinds.contains(&io.op)).collect()
}

fn opcode(op: Ddir) -> u16 {
    match op {
        Read => 0x28,
        Write => 0x2A,
        _ => 0x35,
    }
}

fn vscsi(version: u16, ios: &[Io]) -> Vec<u8> {
    let mut out = Vec::new();
    for (io, number) in ios.iter().zip(0x8000_0000u32..) {
        let (opcode, version_field) = (opcode(io.op).to_le_bytes(), (version << 8).to_le_bytes());
        let middle = [number, io.len as u32, 1 + (io.len > 4096) as u32].map(u32::to_le_bytes);
        if version == 1 {
            out.extend([&middle.concat()[..], &opcode, &version_field].concat());
        } else {
            out.extend([&opcode[..], &version_field, &middle.concat()].concat());
        }
        out.extend((io.offset / 512).to_le_bytes());
        out.extend((UPTIME + io.us).to_le_bytes());
        if version == 2 {
            out.extend(120u64.to_le_bytes());
        }
    }
    out
}

fn oracle(ios: &[Io]) -> Vec<u8> {
    let mut out = Vec::new();
    for (i, io) in ios.iter().enumerate() {
        let later = ios[i + 1..].iter().position(|o| o.offset == io.offset);
        let next = later.map_or(-1, |n| (i + 1 + n + 1) as i64);
        out.extend((((UPTIME + io.us) / 1_000_000) as u32).to_le_bytes());
        out.extend((io.offset / 512).to_le_bytes());
        out.extend((io.len as u32).to_le_bytes());
        out.extend(next.to_le_bytes());
    }
    out
}

/// Two files of a recording on two CPUs, with queueing and completion.
fn blktrace(ios: &[Io], cpu: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for (_, io) in ios.iter().enumerate().filter(|(i, _)| i % 2 == cpu) {
        let category = match io.op {
            Read => 1,
            Write => 2,
            Trim => 2 | 1 << 13,
            _ => 2 | 4,
        };
        let sectors = [io.offset / 512, io.len];
        for (action, ns) in [(1, 0), (8, 90_000)] {
            let head = [io.us * 1000 + ns, sectors[0], sectors[1], action | category << 16, SDA];
            record(&mut out, false, 7, head, cpu as u32, b"");
        }
    }
    out
}

fn blkparse(ios: &[Io]) -> Vec<u8> {
    let lines = text(ios, "", |io| {
        let rwbs = match io.op {
            Read => "R",
            Write => "WS",
            Trim => "D",
            _ => "FWS",
        };
        let range = match io.len {
            0 => String::new(),
            len => format!("{} + {} ", io.offset / 512, len / 512),
        };
        ["Q", "C"]
            .map(|action| {
                let late = if action == "C" { 90 } else { 0 };
                let last = if action == "C" { "[0]" } else { "[kvstore]" };
                let time = seconds(io.us + late, 9);
                format!(
                    "  8,0    1 {:8} {time:>15}  4101  {action} {rwbs:>3} {range}{last}\n",
                    io.us
                )
            })
            .concat()
    });
    [&lines[..], b"CPU1 (sda):\n Reads Queued:          18,      160KiB\n"].concat()
}

/// All of them.
pub fn made() -> Vec<Made> {
    let all = recording();
    let rw = only(&[Read, Write]);
    let mut list = Vec::new();
    let mut add = |file, format, bytes, ios: &[Io]| {
        let options = OpenOptions { name: file, ..OpenOptions::default() };
        let ios = ios.to_vec();
        let file: &'static str = Box::leak(options.name.clone().into_boxed_str());
        list.push(Made { file, format, bytes, ios, options });
    };
    let word = |io: &Io| io.op.name().to_owned();
    let letter = |io: &Io| if io.op == Read { 'R' } else { 'W' };
    let mut waited = 0;
    let mut v2 = String::from("fio version 2 iolog\n/dev/sda add\n/dev/sda open\n");
    for io in &all {
        if io.us > waited {
            v2 += &format!("/dev/sda wait {} 0\n", io.us - waited);
            waited = io.us;
        }
        v2 += &format!("/dev/sda {} {} {}\n", word(io), io.offset, io.len);
    }
    v2 += "/dev/sda close\n";
    add("fio-v2.log".into(), Format::Iolog, v2.into_bytes(), &all);
    let head = "fio version 3 iolog\n0 /dev/sda add\n0 /dev/sda open\n";
    let v3 = text(&all, head, |io| {
        format!("{} /dev/sda {} {} {}\n", io.us, word(io), io.offset, io.len)
    });
    add("fio-v3.log".into(), Format::Iolog, v3, &all);
    let by_cpu = |cpu: usize| {
        let of = |(i, io): (usize, &Io)| (i % 2 == cpu).then_some(*io);
        all.iter().enumerate().filter_map(of).collect::<Vec<_>>()
    };
    for cpu in [0, 1] {
        add(format!("sda.blktrace.{cpu}"), Format::Blktrace, blktrace(&all, cpu), &by_cpu(cpu));
    }
    add("blkparse.txt".into(), Format::Blkparse, blkparse(&all), &all);
    let msr = |case: fn(&str) -> String| {
        text(&rw, "", |io| {
            let kind = case(if io.op == Read { "Read" } else { "Write" });
            let ticks = 10 * (SINCE_1601 + io.us);
            format!("{ticks},kv,0,{kind},{},{},{}\n", io.offset, io.len, 900)
        })
    };
    add("msr.csv".into(), Format::Msr, msr(|w| w.to_owned()), &rw);
    let alibaba = text(&rw, "", |io| {
        format!("7,{},{},{},{}\n", letter(io), io.offset, io.len, SINCE_1970 + io.us)
    });
    add("alibaba.csv".into(), Format::Alibaba, alibaba, &rw);
    let tencent = text(&rw, "", |io| {
        let (at, kind) = ((SINCE_1970 + io.us) / 1_000_000, u8::from(io.op == Write));
        format!("{at},{},{},{kind},12\n", io.offset / 512, io.len / 512)
    });
    add("tencent.csv".into(), Format::Tencent, tencent, &rw);
    let systor = text(&rw, "Timestamp,Response,IOType,LUN,Offset,Size\n", |io| {
        let at = seconds(SINCE_1970 + io.us, 9);
        format!("{at},0.000090000,{},3,{},{}\n", letter(io), io.offset, io.len)
    });
    add("systor17.csv".into(), Format::Systor17, systor, &rw);
    let k5 = text(&rw, "", |io| {
        format!("1157,{},{},{},{}\n", seconds(io.us, 9), letter(io), io.offset, io.len)
    });
    add("k5.csv".into(), Format::K5, k5, &rw);
    let spc = text(&rw, "", |io| {
        format!("0,{},{},{},{}\n", io.offset / 512, io.len, letter(io), seconds(io.us, 6))
    });
    add("spc.csv".into(), Format::Spc, spc, &rw);
    let fiu = text(&rw, "", |io| {
        let (lba, blocks, md5) = (io.offset / 512, io.len / 512, splitmix64(io.us));
        let at = (UPTIME + io.us) * 1000;
        format!("{at} 4101 kv store {lba} {blocks} {} 8 0 {md5:016x}{md5:016x}\n", letter(io))
    });
    add("fiu.txt".into(), Format::Fiu, fiu, &rw);
    let mqsim = text(&rw, "", |io| {
        let kind = u8::from(io.op == Read);
        format!("{} 0 {} {} {kind}\n", io.us * 1000, io.offset / 512, io.len / 512)
    });
    add("mqsim.trace".into(), Format::Mqsim, mqsim, &rw);
    let rws = only(&[Read, Write, Sync]);
    let cloud = text(&rws, "version,time,op,size,lbn\n", |io| {
        let at = (UPTIME + io.us) / 1_000_000;
        format!("1,{at},{:x},{},{}\n", opcode(io.op), io.len, io.offset / 512)
    });
    add("cloudphysics.csv".into(), Format::Cloudphysics, cloud, &rws);
    for version in [1, 2] {
        add(format!("v{version}.vscsi"), Format::Vscsi, vscsi(version, &rws), &rws);
    }
    let printed = text(&rws, "", |io| {
        let (at, op) = (UPTIME + io.us, opcode(io.op));
        format!("2 {at} {op:x} {} {} 120\n", io.len, io.offset / 512)
    });
    add("vscsi.txt".into(), Format::VscsiText, printed, &rws);
    let reads: Vec<Io> = rw.iter().map(|io| Io { op: Read, ..*io }).collect();
    add("oraclegeneral.bin".into(), Format::OracleGeneral, oracle(&rw), &reads);
    let of_4k: Vec<Io> = reads.iter().map(|io| Io { len: 4096, ..*io }).collect();
    add(
        "lbn.txt".into(),
        Format::Lbn,
        text(&rw, "", |io| format!("{}\n", io.offset / 512)),
        &of_4k,
    );
    let tsv = text(&all, "# a table of our own\n\nWhen\tWhat\tBlock\tBytes\tDisk\n", |io| {
        let noop = if io.op == Trim { "1500.25\tNoop\t0\t0\tkv\n" } else { "" };
        let at = format!("{}.{:03}", io.us / 1000, io.us % 1000);
        format!("{noop}{at}\t\"{}\"\t{:#x}\t{}\tkv\n", word(io), io.offset / 4096, io.len)
    });
    add("columns.tsv".into(), Format::Columns, tsv, &all);
    for m in &mut list {
        match m.file {
            "lbn.txt" => m.options.length = Some(4096),
            "columns.tsv" => m.options.columns = Some(format!("{COLUMNS},skip=1")),
            _ => {}
        }
    }
    list
}
