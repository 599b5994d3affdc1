//! Mutated traces: whatever the bytes, a reader gives requests that keep its promises or an error,
//! and never panics. A failure prints the seed; `run` with that seed repeats it.

use crate::common::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use wordline_base::{Rng, Time};
use wordline_trace::*;

const ROUNDS: u64 = 200_000;

/// Pieces that parsers might stumble over.
const PIECES: &[&[u8]] = &[
    b"18446744073709551615",
    b"18446744073709551616",
    b"9223372036854775807",
    b"4294967295",
    b"4294967296",
    b"0",
    b"-1",
    b"1e9",
    b"0.0000000001",
    b".",
    b"..",
    b",",
    b",,",
    b" ",
    b"\n",
    b"\n\n",
    b"\r\n",
    b"\t",
    b"\0",
    b"\xFF\xFE",
    b"[",
    b"(",
    b"+",
    b"R",
    b"W",
    b"D",
    b"N",
    b"FF",
    b"Z",
    b"wait",
    b"sync",
    b"fio version 3 iolog\n",
    b"fio version 2 iolog\n",
    b"Timestamp,",
    b"CPU0 (sda):\n",
];

fn mutate(rng: &mut Rng, sample: &[u8]) -> Vec<u8> {
    let mut data = sample.to_vec();
    let edits = if rng.below(2) == 0 { 1 } else { 1 + rng.below(6) };
    for _ in 0..edits {
        let at = rng.below(data.len() as u64 + 1) as usize;
        let to = at + rng.below((data.len() - at) as u64 + 1).min(rng.below(64)) as usize;
        match rng.below(8) {
            0 if at < data.len() => data[at] ^= 1 << rng.below(8),
            1 if at < data.len() => data[at] = rng.next_u64() as u8,
            2 => data.truncate(at),
            3 => drop(data.drain(at..to)),
            4 => {
                let piece = data[at..to].to_vec();
                let into = rng.below(data.len() as u64 + 1) as usize;
                data.splice(into..into, piece);
            }
            5 if at < data.len() => data[at] = b'0' + rng.below(10) as u8,
            _ => {
                let piece = PIECES[rng.below(PIECES.len() as u64) as usize];
                data.splice(at..to, piece.iter().copied());
            }
        }
    }
    data
}

fn options(rng: &mut Rng, format: Format) -> OpenOptions {
    OpenOptions {
        format: (rng.below(2) == 0).then_some(format),
        name: "fuzz".into(),
        volume: match rng.below(16) {
            0 => Some("7".into()),
            1 => Some("8,0".into()),
            _ => None,
        },
        action: match format {
            Format::Blktrace | Format::Blkparse => {
                [Action::Queue, Action::Queue, Action::Issue, Action::Complete]
                    [rng.below(4) as usize]
            }
            _ => Action::Queue,
        },
        time_unit: match format {
            Format::Mqsim => [None, Some(TimeUnit::Picosecond), Some(TimeUnit::Millisecond)]
                [rng.below(3) as usize],
            _ => None,
        },
        iolog_wait: [IologWait::Micros, IologWait::MillisFromStart][rng.below(2) as usize],
        seed: rng.next_u64(),
        base: [TimeBase::FirstRequest, TimeBase::FirstRequest, TimeBase::Trace]
            [rng.below(3) as usize],
        window: [1, 2, 4096][rng.below(3) as usize],
        columns: None,
        reads: match format {
            Format::OracleGeneral | Format::Lbn => [None, Some(0), Some(30)][rng.below(3) as usize],
            _ => None,
        },
        length: None,
        skip_beyond: rng.below(2) == 0,
        address_unit: match format {
            Format::Spc | Format::Lbn | Format::OracleGeneral => {
                [None, Some(1), Some(1 << 30)][rng.below(3) as usize]
            }
            _ => None,
        },
    }
}

/// True if the input was read to its end without an error.
fn check(data: Vec<u8>, options: OpenOptions) -> bool {
    let mut reader = match open_bytes(data, options) {
        Ok(reader) => reader,
        Err(e) => {
            assert!(e.to_string().starts_with("fuzz"));
            return false;
        }
    };
    let (mut last, mut count) = (Time::ZERO, 0);
    let whole = loop {
        match reader.next() {
            Ok(Some(r)) => {
                assert!(r.at >= last && r.at < Time::NEVER, "times never go back");
                assert_eq!(r.op.is_sync(), r.len == 0);
                assert!(r.offset.checked_add(u64::from(r.len)).is_some());
                (last, count) = (r.at, count + 1);
            }
            Ok(None) => break true,
            Err(e) => {
                assert!(e.to_string().starts_with("fuzz"));
                break false;
            }
        }
    };
    let summary = reader.summary();
    assert_eq!(summary.requests, count);
    if whole {
        let sum = |tallies: &[Tally]| tallies.iter().map(|t| t.count).sum::<u64>();
        let pairs: Vec<Tally> =
            summary.noted.iter().filter(|t| t.reason == Reason::FlushAndData).copied().collect();
        assert!(count > 0, "an end without a request is an error");
        assert_eq!(
            count + sum(&summary.dropped) - sum(&pairs),
            summary.lines,
            "every line is accounted for: {summary}"
        );
    }
    whole
}

fn run(format: Format, name: &str, sample: &[u8], seed: u64) -> bool {
    let mut rng = Rng::from_seed(seed);
    let data = mutate(&mut rng, sample);
    let options = options(&mut rng, format);
    match catch_unwind(AssertUnwindSafe(|| check(data, options))) {
        Ok(whole) => whole,
        Err(_) => panic!("format {name}, seed {seed}"),
    }
}

fn fuzz(wanted: &[&str]) {
    for (format, name, sample, _) in samples() {
        if !wanted.contains(&name) {
            continue;
        }
        let whole = (0..ROUNDS).filter(|&seed| run(format, name, &sample, seed)).count() as u64;
        println!("{name}: {whole} of {ROUNDS} mutants still read to the end");
        assert!(whole > ROUNDS / 200, "{name}: mutants do not get past the first checks");
    }
}

#[test]
fn mutated_kernel_and_fio_traces() {
    fuzz(&["iolog2", "iolog3", "blktrace-le", "blktrace-be", "blktrace-8", "blkparse"]);
}

#[test]
fn mutated_tables() {
    fuzz(&["msr", "alibaba", "tencent", "systor17", "k5", "spc", "fiu", "mqsim"]);
}

#[test]
fn mutated_traces_of_virtual_disks() {
    fuzz(&["cloudphysics", "vscsi-1", "vscsi-2", "vscsi-text", "oraclegeneral", "lbn"]);
}

/// The table and its description, in turn.
#[test]
fn mutated_columns() {
    let table =
        b"# x\nWhen;What;Block;Bytes;Disk\n1.5;R;0x10;4096;a\n2;w;17;512;\"b;c\"\n3;f;0;0;a\n";
    let spec = "time=When:100ns,op=What,offset=Block:4k,size=4:byte,volume=Disk,sep=semicolon,\
                skip=1,ignore=*,base=1,read=r|x";
    for seed in 0..ROUNDS {
        let mut rng = Rng::from_seed(seed);
        let (mut data, mut columns) = (table.to_vec(), spec.as_bytes().to_vec());
        match rng.below(3) {
            0 => data = mutate(&mut rng, &data),
            1 => columns = mutate(&mut rng, &columns),
            _ => (data, columns) = (mutate(&mut rng, &data), mutate(&mut rng, &columns)),
        }
        let options = OpenOptions {
            columns: Some(String::from_utf8_lossy(&columns).into_owned()),
            ..options(&mut rng, Format::Msr)
        };
        let options = OpenOptions { format: None, ..options };
        if catch_unwind(AssertUnwindSafe(|| check(data, options))).is_err() {
            panic!("columns, seed {seed}");
        }
    }
}

#[test]
fn mutated_compressed_traces() {
    let sample: String = (0..40u64).map(|i| format!("{} 0 {} 8 1\n", i * 10, i * i * 77)).collect();
    for (name, packed) in [("gz", gz(sample.as_bytes())), ("zst", zst(sample.as_bytes()))] {
        for seed in 0..ROUNDS {
            run(Format::Mqsim, name, &packed, seed);
        }
    }
}
