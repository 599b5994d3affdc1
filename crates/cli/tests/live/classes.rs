//! Both classes of I/O at once, on the same sectors.

use super::place::Place;
use wordline_base::Rng;
use wordline_nbd::cmd;

const SECTOR: usize = 4096;
/// Few, so that most I/Os overlap with another one's.
const SECTORS: usize = 256;
const ROUNDS: u64 = 31_250;
/// I/Os in flight on each export.
const DEPTH: usize = 16;

/// An I/O under way: its place, and what a write wrote.
struct Sent {
    first: usize,
    count: usize,
    wrote: Option<u64>,
}

/// Sectors of `n`, which no other write has.
fn bytes(n: u64, count: usize) -> Vec<u8> {
    n.to_le_bytes().repeat(count * SECTOR / 8)
}

/// A million I/Os of both classes, 32 at a time, beside a plain array. What two writes under way leave is either's:
/// a sector has all values that it may have, until a read that no write overlaps tells which.
#[test]
fn a_million_ios_of_both_classes_read_what_was_written() {
    let place = Place::new(
        "--size 16M --device z-ssd-flashshare-small --ftl default --set system=kernelopt \
         --time-scale 0",
    );
    let server = place.start();
    let mut clients = [place.client("lat"), place.client("thr")];
    let seed = 13;
    let mut rng = Rng::from_seed(seed);
    let mut may: Vec<Vec<u64>> = vec![vec![0]; SECTORS];
    let (mut next, mut ios, mut told) = (1, 0u64, 0u64);
    for round in 0..ROUNDS {
        let mut sent: [Vec<Sent>; 2] = [Vec::new(), Vec::new()];
        let mut wrote: Vec<Vec<u64>> = vec![Vec::new(); SECTORS];
        for at in 0..DEPTH {
            for (client, sent) in clients.iter_mut().zip(&mut sent) {
                let first = rng.below(SECTORS as u64) as usize;
                let count = (1 + rng.below(2) as usize).min(SECTORS - first);
                let (offset, len) = ((first * SECTOR) as u64, (count * SECTOR) as u32);
                let write = rng.below(2) == 0;
                let (command, data) = match write {
                    true => (cmd::WRITE, bytes(next, count)),
                    false => (cmd::READ, Vec::new()),
                };
                client.send(command, 0, at as u64, offset, len, &data).unwrap();
                sent.push(Sent { first, count, wrote: write.then_some(next) });
                if write {
                    wrote[first..first + count].iter_mut().for_each(|all| all.push(next));
                    next += 1;
                }
            }
        }
        for (client, sent) in clients.iter_mut().zip(&sent) {
            for _ in 0..DEPTH {
                let reply = client.receive().unwrap();
                assert_eq!(reply.error, 0, "seed {seed}, round {round}");
                ios += 1;
                let io = &sent[reply.cookie as usize];
                if io.wrote.is_some() {
                    continue;
                }
                // What was never written comes as a hole.
                let mut data = vec![0; io.count * SECTOR];
                for (offset, part) in &reply.data {
                    let at = *offset as usize - io.first * SECTOR;
                    data[at..at + part.len()].copy_from_slice(part);
                }
                for (sector, data) in (io.first..io.first + io.count).zip(data.chunks(SECTOR)) {
                    let value = u64::from_le_bytes(data[..8].try_into().unwrap());
                    assert!(data.chunks(8).all(|part| part == &data[..8]), "round {round}: torn");
                    let known = may[sector].contains(&value) || wrote[sector].contains(&value);
                    assert!(known, "seed {seed}, round {round}, sector {sector}: {value}");
                    if wrote[sector].is_empty() {
                        told += u64::from(may[sector].len() > 1);
                        may[sector] = vec![value];
                    }
                }
            }
        }
        for (may, wrote) in may.iter_mut().zip(wrote) {
            if !wrote.is_empty() {
                *may = wrote;
            }
        }
    }
    assert_eq!(ios, 1_000_000);
    assert!(told > 1_000, "sectors that two writes were under way to: {told}");
    let (status, said) = server.stop();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains(" 0 wrong"), "{said}");
}
