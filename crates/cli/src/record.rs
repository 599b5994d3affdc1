//! `wordline record`.

use crate::args::RecordArgs;
use crate::error::{WordError, served};
use crate::{Failure, remark, serve};
use std::fs::File;
use std::io::BufWriter;
use std::time::Duration;
use wordline_base::{Ddir, Time};
use wordline_live::record::{Log, Plan, record as run};
use wordline_live::{Address, Error};
use wordline_nbd::{Seen, cmd};
use wordline_trace::{IologWriter, Request};

/// Lengths fit 32 bits in a log: longer requests are logged in pieces.
const PIECE: u64 = 1 << 30;

struct Iolog {
    out: IologWriter<BufWriter<File>>,
    name: String,
    /// By volume.
    exports: Vec<String>,
}

impl Iolog {
    fn put(
        &mut self,
        at: Time,
        export: &str,
        op: Ddir,
        from: u64,
        len: u64,
    ) -> std::io::Result<()> {
        let volume = self.exports.iter().position(|e| e == export).unwrap_or_else(|| {
            self.exports.push(export.to_string());
            self.exports.len() - 1
        });
        let blank = |c: char| if c.is_whitespace() { '_' } else { c };
        let name = match export {
            "" => self.name.clone(),
            _ => format!("{}-{}", self.name, export.chars().map(blank).collect::<String>()),
        };
        let mut offset = from;
        loop {
            let piece = (from + len - offset).min(PIECE);
            let volume = volume as u32;
            let request = Request { at, op, volume, offset, len: piece as u32 };
            self.out.write(&request, &name)?;
            offset += piece;
            if offset >= from + len {
                return Ok(());
            }
        }
    }
}

impl Log for Iolog {
    fn request(&mut self, at: Duration, export: &str, r: Seen) -> std::io::Result<bool> {
        let at = Time(at.as_nanos() as u64);
        let op = match r.command {
            cmd::READ | cmd::CACHE => Ddir::Read,
            cmd::WRITE => Ddir::Write,
            cmd::WRITE_ZEROES if r.flags & cmd::FLAG_NO_HOLE != 0 => Ddir::Write,
            cmd::TRIM | cmd::WRITE_ZEROES => Ddir::Trim,
            cmd::FLUSH => return self.put(at, export, Ddir::Sync, 0, 0).map(|()| true),
            _ => return Ok(false),
        };
        // What no server grants is not I/O.
        if r.len == 0 || r.offset.checked_add(r.len).is_none() {
            return Ok(false);
        }
        self.put(at, export, op, r.offset, r.len)?;
        if op != Ddir::Read && r.flags & cmd::FLAG_FUA != 0 {
            self.put(at, export, Ddir::DataSync, 0, 0)?;
        }
        Ok(true)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
    fn finish(self) -> std::io::Result<()> {
        self.out.finish().map(drop)
    }
}

pub fn record(args: RecordArgs) -> Result<(), Failure> {
    let listen = args.nbd.iter().map(|a| Address::parse(a)).collect::<Result<Vec<_>, _>>();
    let listen = listen.map_err(served)?;
    let server = Address::parse(&args.server).map_err(served)?;
    if args.name.is_empty() || args.name.len() > 100 || args.name.contains(char::is_whitespace) {
        return Err(WordError::Name.into());
    }
    let path = args.iolog.display();
    let failed = |why: std::io::Error| WordError::Iolog { path: args.iolog.clone(), why };
    let file = File::options().write(true).create_new(true).open(&args.iolog).map_err(failed)?;
    let out = IologWriter::new(BufWriter::new(file)).map_err(failed)?;
    let log = Iolog { out, name: args.name.clone(), exports: Vec::new() };
    let (_, wake) = serve::stop_on_signals()?;
    let plan = Plan { listen, server, plain_tcp: args.plain_tcp };
    let mut say = |text: &str| {
        // Scripts wait for the first line.
        if !args.quiet || text.starts_with("recording") {
            remark(text);
        }
    };
    let recorded = run(&plan, log, &wake, &mut say);
    if recorded.as_ref().is_err_and(Error::is_usage) {
        // Nothing was begun: nothing is left.
        let _ = std::fs::remove_file(&args.iolog);
    }
    let recorded = recorded.map_err(served)?;
    say(&format!(
        "{} requests of {} connections are in {path}",
        recorded.requests, recorded.connections
    ));
    Ok(())
}
