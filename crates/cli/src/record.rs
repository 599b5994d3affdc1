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
    /// By volume: the export, and the file of the log that it is.
    exports: Vec<(String, String)>,
}

/// The longest name of a file that fio reads.
const NAME: usize = 255;

/// The file that an export is in the log. Exports may have any name; files have no blanks or folders in theirs, and
/// end somewhere. Those that would be alike are numbered.
fn file_of(base: &str, export: &str, taken: &[(String, String)]) -> String {
    let plain = |c: char| if c.is_whitespace() || c.is_control() || c == '/' { '_' } else { c };
    let whole = match export {
        "" => base.to_owned(),
        _ => format!("{base}-{}", export.chars().map(plain).collect::<String>()),
    };
    let numbered = |n: u32| {
        let suffix = if n == 1 { String::new() } else { format!("-{n}") };
        format!("{}{suffix}", &whole[..whole.floor_char_boundary(NAME - suffix.len())])
    };
    let is_free = |name: &String| taken.iter().all(|(_, other)| other != name);
    (1..).map(numbered).find(is_free).expect("there are more numbers than exports")
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
        let known = self.exports.iter().position(|(e, _)| e == export);
        let volume = known.unwrap_or_else(|| {
            let file = file_of(&self.name, export, &self.exports);
            self.exports.push((export.to_owned(), file));
            self.exports.len() - 1
        });
        let name = &self.exports[volume].1;
        let mut offset = from;
        loop {
            let piece = (from + len - offset).min(PIECE);
            let volume = volume as u32;
            let request = Request { at, op, volume, offset, len: piece as u32 };
            self.out.write(&request, name)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_export_is_a_file_of_its_own_that_fio_can_read() {
        let (long, longer) = ("\u{e4}".repeat(200), "\u{e4}".repeat(201));
        let mut taken: Vec<(String, String)> = Vec::new();
        for export in ["", "lat", "a b", "a_b", "a/b\0", long.as_str(), longer.as_str()] {
            let file = file_of("nbd", export, &taken);
            taken.push((export.into(), file));
        }
        let files: Vec<&str> = taken.iter().map(|(_, file)| file.as_str()).collect();
        assert_eq!(files[..5], ["nbd", "nbd-lat", "nbd-a_b", "nbd-a_b-2", "nbd-a_b_"]);
        assert_eq!(files[5], format!("nbd-{}", "\u{e4}".repeat(125)));
        assert_eq!(files[6], format!("nbd-{}-2", "\u{e4}".repeat(124)));
        assert!(files.iter().all(|file| file.len() <= NAME));
    }
}
