//! A long trace in little memory. The only test of its file, so that the process's peak is its own.
// Tests may ask the system for the process's memory and a clock; the crate itself may not.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::*;
use std::io::{self, Read};
use std::time::Instant;
use wordline_trace::*;

/// Makes up a trace as it is read.
struct Lines<F> {
    left: u64,
    line: F,
    buffer: Vec<u8>,
    at: usize,
}

impl<F: FnMut(u64, &mut Vec<u8>)> Read for Lines<F> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.buffer.len() {
            self.buffer.clear();
            self.at = 0;
            for _ in 0..self.left.min(256) {
                (self.line)(self.left, &mut self.buffer);
                self.left -= 1;
            }
        }
        let n = out.len().min(self.buffer.len() - self.at);
        out[..n].copy_from_slice(&self.buffer[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

fn lines<F: FnMut(u64, &mut Vec<u8>) + Send + 'static>(n: u64, line: F) -> Lines<F> {
    Lines { left: n, line, buffer: Vec::new(), at: 0 }
}

/// The most memory this process has had, in KiB, where the system tells.
fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn five_million_lines_in_little_memory() {
    const N: u64 = 5_000_000;
    let before = peak_kib();
    let source = lines(N, |left, out| {
        let i = N - left;
        // Times that jitter by up to 99 lines.
        let (device, time) = (i % 1000, 1_577_808_000_000_000 + 3 * i + i * 7919 % 300);
        let offset = i.wrapping_mul(0x9E37_79B9) % (1 << 30) * 4096;
        out.extend(format!("{device},W,{offset},4096,{time}\n").bytes());
    });
    let begin = Instant::now();
    let mut reader = open(source, named("alibaba")).unwrap();
    let (mut n, mut bytes) = (0u64, 0u64);
    while let Some(r) = reader.next().unwrap() {
        n += 1;
        bytes += u64::from(r.len);
    }
    let seconds = begin.elapsed().as_secs_f64();
    assert_eq!((n, bytes), (N, N * 4096));
    assert!(reader.summary().noted.is_empty(), "the window covers the jitter");
    println!("generated and read {:.2} M requests/s", n as f64 / seconds / 1e6);
    if let (Some(before), Some(after)) = (before, peak_kib()) {
        // The trace itself is 200 MB.
        assert!(after - before < 4 << 10, "{} KiB more", after - before);
    }
}
