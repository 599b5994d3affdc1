//! Bombs, a real trace against its raw text, and speed.
// Tests may read the shared trace and a clock; the crate itself may not.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::common::*;
use std::time::Instant;
use wordline_base::Ddir;
use wordline_trace::*;

#[test]
fn bombs_are_streamed() {
    let zeros = gz(&vec![0; 64 << 20]);
    assert!(zeros.len() < 1 << 19);
    let options = OpenOptions { format: Some(Format::Msr), ..named("bomb") };
    let e = read(zeros, options.clone()).unwrap_err().to_string();
    assert_eq!(e, "bomb:1: a line of more than 65536 bytes: this is no text trace");
    let e = read(zst(&vec![b'\n'; 16 << 20]), options).unwrap_err().to_string();
    assert_eq!(e, "bomb: no request in 16777216 lines of format msr: 16777216 blank line");
}

#[test]
fn tpcc_small_matches_its_raw_text() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces/tpcc-small.trace");
    let Ok(raw) = std::fs::read(path) else {
        println!("SKIPPED: {path} is not there, the check against a real trace did not run");
        return;
    };
    // The totals straight from the text, by other means than the reader's.
    let text = String::from_utf8(raw.clone()).unwrap();
    let rows: Vec<Vec<u64>> =
        text.lines().map(|l| l.split_whitespace().map(|w| w.parse().unwrap()).collect()).collect();
    assert_eq!(rows.len(), 6_999);
    let mut reader = open_bytes(raw, named("tpcc-small.trace")).unwrap();
    assert_eq!(reader.format(), Format::Mqsim);
    let requests = all(&mut reader).unwrap();
    assert_eq!(requests.len(), 6_999);
    let summary = reader.summary();
    assert_eq!((summary.lines, summary.requests), (6_999, 6_999));
    assert!(summary.dropped.is_empty() && summary.noted.is_empty(), "{summary}");
    let sum = |f: &dyn Fn(&[u64]) -> u64| rows.iter().map(|r| f(r)).fold(0u64, u64::wrapping_add);
    let got = |f: &dyn Fn(&Request) -> u64| requests.iter().map(f).fold(0u64, u64::wrapping_add);
    let first = rows.iter().map(|r| r[0]).min().unwrap();
    assert_eq!(got(&|r| r.at.0), sum(&|r| r[0] - first));
    assert_eq!(got(&|r| r.volume.into()), sum(&|r| r[1]));
    assert_eq!(got(&|r| r.offset), sum(&|r| r[2] * 512));
    assert_eq!(got(&|r| r.len.into()), sum(&|r| r[3] * 512));
    assert_eq!(got(&|r| u64::from(r.op == Ddir::Read)), sum(&|r| r[4]));
    assert_eq!(got(&|r| u64::from(r.op == Ddir::Read)), 4_381);
    // A checksum that also sees which values stand together.
    let mix = |t: u64, v: u64, o: u64, l: u64, read: u64| {
        t.wrapping_mul(3) ^ v.wrapping_mul(5) ^ o.wrapping_mul(7) ^ l.wrapping_mul(11) ^ read
    };
    assert_eq!(
        got(&|r| mix(r.at.0, r.volume.into(), r.offset, r.len.into(), (r.op == Ddir::Read).into())),
        sum(&|r| mix(r[0] - first, r[1], r[2] * 512, r[3] * 512, r[4]))
    );
}

#[test]
fn speed_of_each_format() {
    for (format, name, sample, count) in samples() {
        // The samples over and over; the time goes back at each, which costs the window its quick
        // path once a copy.
        let copies = 400_000 / count;
        let header = match name {
            "iolog2" | "iolog3" => sample.iter().position(|&b| b == b'\n').unwrap() + 1,
            _ => 0,
        };
        let mut data = sample[..header].to_vec();
        for _ in 0..copies {
            data.extend(&sample[header..]);
        }
        for (how, data) in [("plain", data.clone()), ("gz", gz(&data)), ("zst", zst(&data))] {
            let options = OpenOptions { format: Some(format), ..named(name) };
            let begin = Instant::now();
            let mut reader = open_bytes(data, options).unwrap();
            let mut n = 0;
            while reader.next().unwrap().is_some() {
                n += 1;
            }
            let seconds = begin.elapsed().as_secs_f64();
            assert_eq!(n, copies * count);
            println!("{name:12} {how:5} {:6.2} M requests/s", n as f64 / seconds / 1e6);
        }
    }
}
