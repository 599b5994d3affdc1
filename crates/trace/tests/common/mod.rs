//! Small traces of every format, written for these tests, and ways to read them.
#![allow(dead_code)] // each test file uses a part

pub mod made;

use std::io::{Cursor, Write};
use wordline_base::{Ddir, Time};
use wordline_trace::{Format, OpenOptions, Reader, Request, TraceError, open};

pub const IOLOG2: &str = "fio version 2 iolog
/dev/a add
/dev/b add
/dev/a open
/dev/b open
/dev/a read 0 4096
/dev/a wait 150 0
/dev/b write 8192 512
/dev/b sync 0 0
/dev/a wait 50 0
/dev/a trim 1048576 65536
/dev/a datasync 0 0
/dev/a close
/dev/b close
";
pub const IOLOG3: &str = "fio version 3 iolog
5 /dev/a add
6 /dev/a open
100 /dev/a read 0 4096
130 /dev/a write 4096 8192
131 /dev/a wait 5 0
140 /dev/a sync 4096 0
175 /dev/a trim 0 1048576
180 /dev/a close
";
pub const BLKPARSE: &str = "  8,0    1        1     0.000000000   901  A   R 2048 + 8 <- (8,1) 0
  8,0    1        2     0.000000500   901  Q   R 2048 + 8 [cat]
  8,0    1        3     0.000001500   901  G   R 2048 + 8 [cat]
  8,0    1        4     0.000002000   901  P   N [cat]
  8,0    1        5     0.000002100   901  U   N [cat] 1
  8,0    1        6     0.000002500   901  D   R 2048 + 8 [cat]
  8,0    0        0     0.000002600     0  m   N cfq901S schedule dispatch: rq=1
  8,0    1        7     0.000100500     0  C   R 2048 + 8 [0]
  8,0    0        1     0.000200000    77  Q  WS 4096 + 16 [jbd2/sda1-8 x]
  8,0    0        2     0.000200100    77  M  WS 4112 + 8 [jbd2/sda1-8]
  8,0    0        3     0.000300000    77  Q FWS [jbd2/sda1-8]
  8,0    0        4     0.000400000    77  Q FWFS 9000 + 8 [jbd2/sda1-8]
259,12   3        5     0.000500000    78  Q   D 80000 + 2048 [fstrim]
259,12   3        6     0.000600000    78  Q  RA 64 + 256 [readahead]
259,12   3        7     0.000700000    79  Q WSM 72 + 8 [xfsaild/sda]
259,12   3        8     0.000800000    79  Q   R 36 (12 00 00 00 24 00 ..) [udev]
259,12   3        9     0.000900000    79  Q   N [none]
259,12   3       10     0.001000000    79  X   R 64 / 128 [readahead]
CPU0 (sda):
 Reads Queued:           1,        4KiB\t Writes Queued:           3,       12KiB
 IO unplugs:             1        \t Timer unplugs:           0

Throughput (R/W): 4KiB/s / 12KiB/s
Events (sda): 18 entries
Skips: 0 forward (0 -   0.0%)
";
pub const MSR: &str = "128166372003061629,web,2,Read,7014609920,24576,41286
128166372016382155,web,2,Write,1317441536,8192,1963
128166372016382150,web,2,Write,2436440064,4096,1835
128166372026382245,web,2,Read,2436440064,4096,1835
";
pub const ALIBABA: &str = "7,R,126703661056,4096,1577808000000046
9,W,19496058880,77824,1577808000000426
7,W,9811763200,12288,1577808000000494
";
pub const TENCENT: &str = "1538323200,1000,8,0,12
1538323200,2000,16,1,12
1538323200,3000,8,1,40
1538323201,4000,256,0,12
";
pub const SYSTOR17: &str = "Timestamp,Response,IOType,LUN,Offset,Size
1455592984.103122000,0.000381000,R,3,899056122368,131072
1455592984.103250000,0.000102000,W,3,4096,512
1455592984.200000000,,,3,8192,4096
1455592985.000001000,0.000102000,W,6,16384,4096
";
pub const K5: &str = "1157,3.828359000,W,7155568640,4096
1157,3.833921000,R,7132311552,8192
1158,3.841602000,W,15264690176,28672
";
pub const SPC: &str = "0,20941264,8192,W,0.551706,x
0,20939840,8192,r,0.554041
1, 3436288 , 15872,w,1.011732
";
pub const FIU: &str = "89967195488869 2559 nfsd 508439920 8 W 6 0 84b74cc51cb2d2a7e0b9ee2e2c2e0f43
89967195500000 2559 Web Content 512 16 R 6 0 84b74cc51cb2d2a7e0b9ee2e2c2e0f43
89967195600000 1 pdflush 1024 8 w 8 1 a b
";
pub const MQSIM: &str = "1000 4 264719034 16 0
2500 3 197570570 8 1
2500 4 8 1 1
";

pub fn record(out: &mut Vec<u8>, big: bool, version: u8, head: [u64; 5], cpu: u32, pdu: &[u8]) {
    let [time, sector, bytes, action, device] = head;
    let mut put = |value: u64, size: usize| {
        let le = value.to_le_bytes();
        if big {
            out.extend(le[..size].iter().rev());
        } else {
            out.extend(&le[..size]);
        }
    };
    put(0x6561_7400 | u64::from(version), 4);
    put(1, 4);
    put(time, 8);
    put(sector, 8);
    put(bytes, 4);
    if version == 8 {
        put(42, 4);
        put(action, 8);
    } else {
        put(action, 4);
        put(42, 4);
    }
    put(device, 4);
    put(u64::from(cpu), 4);
    put(0, 2);
    put(pdu.len() as u64, 2);
    if version == 8 {
        put(0, 8);
        put(0, 4);
    }
    out.extend(pdu);
}

pub const SDA: u64 = 8 << 20;

/// A recording of one CPU.
pub fn blktrace(big: bool, version: u8) -> Vec<u8> {
    let mut out = Vec::new();
    let mut add = |time, sector, bytes, action: u64, device, pdu: &[u8]| {
        record(&mut out, big, version, [time, sector, bytes, action, device], 0, pdu);
    };
    add(0, 0, 0, 1 << (10 + 16), 0, b"bash\0\0\0\0"); // notify: process name
    add(1_000, 2048, 4096, 1 | (1 | 1 << 4) << 16, SDA, b""); // Q R
    add(1_100, 2048, 4096, 7 | (1 | 1 << 6) << 16, SDA, b""); // D R
    add(1_500, 2048, 4096, 15 | 1 << 16, SDA, &[9; 16]); // A, with a pdu
    add(2_000, 4096, 8192, 0x101 | (2 | 8) << 16, SDA, &[7; 8]); // Q WS with a cgroup id
    add(3_000, 0, 0, 1 | (2 | 4) << 16, SDA, b""); // Q FW without data
    add(4_000, 80, 512, 1 | (2 | 4 | 1 << 15) << 16, SDA | 1, b""); // Q FWF
    add(5_000, 800, 1 << 20, 1 | (2 | 1 << 13) << 16, SDA | 1, b""); // Q D
    add(6_000, 0, 36, 1 | (1 | 1 << 9) << 16, SDA, b"\x12\0\0\0\x24\0"); // Q PC
    out
}

pub const CLOUDPHYSICS: &str = "version,time,op,size,lbn
1,5633898,2a,512,42932745
1,5633898,28,6656,40409911
1,5633899,42,24,0
1,5633899,35,0,0
1,5633900,8E,4096,6160447
";
pub const VSCSI_TEXT: &str = "1 5633898000100 2a 512 42932745
1 5633898000300 28 6656 40409911
1 5633899000000 42 0 0
2 5633899000500 35 0 0 70
2 5633899500000 89 4096 6160447 300
";
pub const LBN: &str = "42932745
40409911
6160447
";
/// Time, object, size, next access.
pub const ORACLE: [(u32, u64, u32, i64); 3] = [
    (5633898, 42932745, 512, 3),
    (5633898, 40409911, 6656, -1),
    (5633899, 42932745, 512, i64::MAX),
];

pub fn oracle(records: &[(u32, u64, u32, i64)]) -> Vec<u8> {
    let bytes = |&(time, object, size, next): &(u32, u64, u32, i64)| {
        let (time, object) = (time.to_le_bytes(), object.to_le_bytes());
        [&time[..], &object, &size.to_le_bytes(), &next.to_le_bytes()].concat()
    };
    records.iter().flat_map(bytes).collect()
}

/// The records of [`VSCSI_TEXT`], in one version.
pub fn vscsi(version: u16) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, line) in VSCSI_TEXT.lines().enumerate() {
        let words: Vec<&str> = line.split(' ').collect();
        let number_at = |i: usize| words[i].parse::<u64>().unwrap();
        let opcode = u16::from_str_radix(words[2], 16).unwrap().to_le_bytes();
        let version_field = (version << 8).to_le_bytes();
        let three = [number as u32, number_at(3) as u32, 1].map(u32::to_le_bytes).concat();
        out.extend(match version {
            1 => [&three[..], &opcode, &version_field].concat(),
            _ => [&opcode[..], &version_field, &three].concat(),
        });
        out.extend(number_at(4).to_le_bytes());
        out.extend(number_at(1).to_le_bytes());
        if version == 2 {
            out.extend(70u64.to_le_bytes());
        }
    }
    out
}

/// Each format's sample and the number of requests in it.
pub fn samples() -> Vec<(Format, &'static str, Vec<u8>, usize)> {
    let text = |s: &str| s.as_bytes().to_vec();
    vec![
        (Format::Iolog, "iolog2", text(IOLOG2), 5),
        (Format::Iolog, "iolog3", text(IOLOG3), 4),
        (Format::Blktrace, "blktrace-le", blktrace(false, 7), 6),
        (Format::Blktrace, "blktrace-be", blktrace(true, 7), 6),
        (Format::Blktrace, "blktrace-8", blktrace(false, 8), 6),
        (Format::Blkparse, "blkparse", text(BLKPARSE), 8),
        (Format::Msr, "msr", text(MSR), 4),
        (Format::Alibaba, "alibaba", text(ALIBABA), 3),
        (Format::Tencent, "tencent", text(TENCENT), 4),
        (Format::Systor17, "systor17", text(SYSTOR17), 3),
        (Format::K5, "k5", text(K5), 3),
        (Format::Spc, "spc", text(SPC), 3),
        (Format::Fiu, "fiu", text(FIU), 3),
        (Format::Mqsim, "mqsim", text(MQSIM), 3),
        (Format::Cloudphysics, "cloudphysics", text(CLOUDPHYSICS), 4),
        (Format::Vscsi, "vscsi-1", vscsi(1), 4),
        (Format::Vscsi, "vscsi-2", vscsi(2), 4),
        (Format::VscsiText, "vscsi-text", text(VSCSI_TEXT), 4),
        (Format::OracleGeneral, "oraclegeneral", oracle(&ORACLE), 3),
        (Format::Lbn, "lbn", text(LBN), 3),
    ]
}

pub fn gz(data: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(data).unwrap();
    out.finish().unwrap()
}

pub fn zst(data: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(data, ruzstd::encoding::CompressionLevel::Fastest)
}

pub fn named(name: &str) -> OpenOptions {
    OpenOptions { name: name.into(), ..OpenOptions::default() }
}

pub fn open_bytes(data: impl Into<Vec<u8>>, options: OpenOptions) -> Result<Reader, TraceError> {
    open(Cursor::new(data.into()), options)
}

pub fn all(reader: &mut Reader) -> Result<Vec<Request>, TraceError> {
    let mut requests = Vec::new();
    while let Some(request) = reader.next()? {
        requests.push(request);
    }
    Ok(requests)
}

pub fn read(data: impl Into<Vec<u8>>, options: OpenOptions) -> Result<Vec<Request>, TraceError> {
    all(&mut open_bytes(data, options)?)
}

pub fn request(at: u64, op: Ddir, volume: u32, offset: u64, len: u32) -> Request {
    Request { at: Time(at), op, volume, offset, len }
}
