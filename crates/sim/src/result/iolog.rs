//! What `write_iolog` asked for.

use serde::Serialize;
use wordline_trace::{IologWriter, Request};

/// The log of the I/Os of jobs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Iolog {
    /// The log's own name.
    pub path: String,
    /// The files or drives that the I/Os are on.
    pub names: Vec<String>,
    /// As they were issued. The volume of each is a place in `names`, and its offset is there.
    pub requests: Vec<Request>,
}

impl Iolog {
    /// What another job logs in the same file.
    pub(crate) fn add(&mut self, other: Iolog) {
        let mut place_of = |name: String| match self.names.iter().position(|n| *n == name) {
            Some(known) => known as u32,
            None => {
                self.names.push(name);
                self.names.len() as u32 - 1
            }
        };
        let places: Vec<u32> = other.names.into_iter().map(&mut place_of).collect();
        let placed = |r: Request| Request { volume: places[r.volume as usize], ..r };
        self.requests.extend(other.requests.into_iter().map(placed));
    }

    /// Writes it as fio does.
    ///
    /// # Errors
    ///
    /// Those of the file, and a name that a log cannot hold.
    pub fn write<W: std::io::Write>(&self, to: W) -> std::io::Result<()> {
        let mut log = IologWriter::new(to)?;
        for request in &self.requests {
            log.write(request, &self.names[request.volume as usize])?;
        }
        log.finish().map(drop)
    }
}
