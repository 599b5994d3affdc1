//! The traces of `examples/`: each file is what is made here, and is read as what it was made of.
// Tests may read files; the crate itself may not.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::common::made::made;
use crate::common::*;
use std::path::PathBuf;
use wordline_trace::*;

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "..", "examples", "traces"].iter().collect()
}

#[test]
fn the_files_are_those_made_here() {
    let mut names = Vec::new();
    for m in made() {
        let kept = std::fs::read(folder().join(m.file)).unwrap_or_default();
        assert!(kept == m.bytes, "{}: run the ignored test of this file", m.file);
        names.push(m.file.to_owned());
    }
    let entries = std::fs::read_dir(folder()).unwrap();
    let mut kept: Vec<String> =
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    kept.sort();
    assert_eq!(kept, names);
}

#[test]
#[ignore = "writes examples/traces"]
fn example_files_are_written_anew() {
    std::fs::create_dir_all(folder()).unwrap();
    for m in made() {
        std::fs::write(folder().join(m.file), m.bytes).unwrap();
    }
}

/// What is read is what was recorded, as far as a format has it.
#[test]
fn every_example_is_read_as_the_recording() {
    for m in made() {
        let mut reader = open_bytes(m.bytes, m.options).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(reader.format(), m.format, "{}", m.file);
        let requests = all(&mut reader).unwrap();
        let origin = m.ios[0].us;
        assert_eq!(requests.len(), m.ios.len(), "{}", m.file);
        let starts = reader.origin_ns().unwrap();
        for (r, io) in requests.iter().zip(&m.ios) {
            let what = |r: &Request| (r.op, r.offset, u64::from(r.len));
            assert_eq!(what(r), (io.op, io.offset, io.len), "{}", m.file);
            match m.format {
                Format::Lbn => assert_eq!(r.at.0, 0),
                Format::Tencent | Format::Cloudphysics | Format::OracleGeneral => {
                    let second = (starts + r.at.0) / 1_000_000_000 % 10;
                    // The bases of these times end on 0 and 8 seconds.
                    let base = if m.format == Format::Tencent { 0 } else { 8 };
                    assert_eq!(second, (base + io.us / 1_000_000) % 10, "{} {io:?}", m.file);
                }
                _ => assert_eq!(r.at.0, (io.us - origin) * 1000, "{}", m.file),
            }
        }
    }
}

/// A line or record of each that lost its end, and one with columns in another order.
#[test]
fn a_damaged_line_is_an_error_with_place_and_remedy() {
    for m in made() {
        let fails = |bytes: Vec<u8>| {
            let error = match open_bytes(bytes, m.options.clone()) {
                Err(e) => e,
                Ok(mut reader) => match all(&mut reader) {
                    Err(e) => e,
                    Ok(_) => return None,
                },
            };
            Some((error.line(), error.to_string()))
        };
        if m.format.unit() == "record" {
            let (line, e) = fails(m.bytes[..m.bytes.len() - 9].to_vec()).expect("it is cut");
            assert!(line.is_some() && e.starts_with(&format!("{}: record ", m.file)), "{e}");
            assert!(e.contains("cut short"), "{e}");
            continue;
        }
        let text = String::from_utf8(m.bytes.clone()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let damaged = 12;
        let with = |line: String| {
            let mut lines = lines.clone();
            lines[damaged] = &line;
            fails((lines.join("\n") + "\n").into_bytes())
        };
        let separators: &[&str] =
            if m.format == Format::Blkparse { &[" "] } else { &["\t", ",", " "] };
        let separator = separators.iter().find(|s| lines[damaged].contains(**s));
        let Some(separator) = separator else {
            assert_eq!(m.format, Format::Lbn);
            let (line, e) = with("x".into()).expect("no number");
            assert_eq!(line, Some(damaged as u64 + 1), "{e}");
            continue;
        };
        let mut fields: Vec<&str> = lines[damaged].split(*separator).collect();
        fields.reverse();
        let shuffled = fields.join(separator);
        let end = lines[damaged].trim_end().rfind(*separator).unwrap();
        let cut = &lines[damaged][..end];
        // SPC's, FIU's and blkparse's last columns are not needed, and a response of vscsi-text's.
        let cut = match m.format {
            Format::Blkparse | Format::VscsiText => &cut[..20],
            Format::Fiu => &cut[..cut.len() / 2],
            _ => cut,
        };
        for line in [shuffled, cut.to_owned()] {
            let (number, e) = with(line.clone()).unwrap_or_else(|| panic!("{}: {line}", m.file));
            assert_eq!(number, Some(damaged as u64 + 1), "{e}");
            assert!(e.starts_with(&format!("{}:{}:", m.file, damaged + 1)), "{e}");
            let remedy = match m.format {
                Format::Columns => "; the file begins with '# a table of our own'".to_owned(),
                format => format!("; read as {}, by ", format.name()),
            };
            assert!(e.contains(&remedy), "{e}");
        }
    }
}

/// Each is taken for itself by its beginning, however short, or for nothing.
#[test]
fn no_example_is_taken_for_another_format() {
    for m in made().into_iter().filter(|m| m.format != Format::Columns) {
        for lines in 1..20 {
            let bytes: Vec<u8> = match m.format.unit() {
                "record" => m.bytes[..(m.bytes.len() / 20 * lines)].to_vec(),
                _ => m
                    .bytes
                    .split_inclusive(|&b| b == b'\n')
                    .take(lines)
                    .flatten()
                    .copied()
                    .collect(),
            };
            let options = OpenOptions { format: None, name: m.file.into(), ..m.options.clone() };
            match open_bytes(bytes, options) {
                Ok(reader) => assert_eq!(reader.format(), m.format, "{lines} of {}", m.file),
                Err(e) => panic!("{lines} of {}: {e}", m.file),
            }
        }
    }
}
