//! A client that keeps a served drive busy, for a script that measures the server.

use std::os::unix::net::UnixStream;
use wordline_base::{Rng, SECTOR};
use wordline_nbd::{Client, ClientError, cmd};

const DEPTH: u64 = 16;
/// What is written in order before the requests, at most.
const FILLED: u64 = 64 << 20;
const PIECE: usize = 128 << 10;

/// Writes the drive in order, or the first of it; then reads and writes of 4 KiB at random places, and a flush
/// every so often.
pub fn run(socket: &str, requests: u64) -> Result<(), ClientError> {
    let stream = UnixStream::connect(socket)?;
    let mut client = Client::connect(stream, "", true)?;
    let filled = client.info.size.min(FILLED);
    let data = vec![7; PIECE];
    for offset in (0..filled).step_by(PIECE) {
        let piece = &data[..PIECE.min((filled - offset) as usize)];
        client.call(cmd::WRITE, 0, offset, piece.len() as u32, piece)?;
    }
    let mut rng = Rng::from_seed(1);
    for _ in 0..requests / DEPTH {
        for cookie in 0..DEPTH {
            let offset = rng.below(filled / SECTOR) * SECTOR;
            let (command, data) = match rng.below(2) {
                0 => (cmd::READ, &[][..]),
                _ => (cmd::WRITE, &data[..SECTOR as usize]),
            };
            client.send(command, 0, cookie, offset, SECTOR as u32, data)?;
        }
        for _ in 0..DEPTH {
            client.receive()?;
        }
        if rng.below(16) == 0 {
            client.call(cmd::FLUSH, 0, 0, 0, &[])?;
        }
    }
    client.send(cmd::DISC, 0, 0, 0, 0, &[])?;
    Ok(())
}
