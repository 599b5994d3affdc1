//! Which commands libata sends to a SATA drive together (ata_std_qc_defer of Linux 4.14): those that are queued, or one
//! that is not.
//!
//! A flush or trim is not queued. While others are at the drive it is put off, and what comes behind it as well, as a
//! request that was put off is the first to be tried again (hctx->dispatch). Handlers try again once a command is over.

use std::collections::VecDeque;
use wordline_nvme::Opcode;

#[derive(Debug, Default)]
pub(crate) struct Ncq {
    /// Commands at the drive.
    out: u32,
    /// The one at the drive is not queued.
    alone: bool,
    /// Requests that were put off, and whether each is queued.
    held: VecDeque<(u32, bool)>,
    /// Of those, which are being tried again.
    again: Vec<(u32, bool)>,
}

impl Ncq {
    /// A request comes to the driver. Whether it goes to the drive now; else it is kept.
    pub fn send(&mut self, rq: u32, opcode: Opcode) -> bool {
        let queued = !matches!(opcode, Opcode::Flush | Opcode::Deallocate);
        let tried = self.again.iter().position(|(of, _)| *of == rq);
        match tried {
            Some(at) => drop(self.again.swap_remove(at)),
            None if self.alone
                || !self.again.is_empty()
                || !self.held.is_empty()
                || !queued && self.out > 0 =>
            {
                self.held.push_back((rq, queued));
                return false;
            }
            None => {}
        }
        debug_assert!(!self.alone && (queued || self.out == 0));
        (self.out, self.alone) = (self.out + 1, !queued);
        true
    }
    /// A command is over.
    pub fn ended(&mut self) {
        (self.out, self.alone) = (self.out - 1, false);
    }
    /// The next that may be tried again; call until `None` after each command that is over.
    pub fn next(&mut self) -> Option<u32> {
        let &(rq, queued) = self.held.front()?;
        let may = match queued {
            true => !self.alone && self.again.iter().all(|(_, queued)| *queued),
            false => self.out == 0 && self.again.is_empty(),
        };
        if !may {
            return None;
        }
        self.held.pop_front();
        self.again.push((rq, queued));
        Some(rq)
    }
    /// The request was put off, and is tried again.
    pub fn tries_again(&self, rq: u32) -> bool {
        self.again.iter().any(|(of, _)| *of == rq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::Seed;

    /// Commands at the drive, and requests that handlers try again, in any order of events.
    #[derive(Default)]
    struct Model {
        ncq: Ncq,
        at_drive: Vec<(u32, Opcode)>,
        retries: VecDeque<u32>,
        opcodes: Vec<Opcode>,
        sent: Vec<u32>,
    }

    impl Model {
        fn send(&mut self, rq: u32) {
            let opcode = self.opcodes[rq as usize];
            if self.ncq.send(rq, opcode) {
                self.at_drive.push((rq, opcode));
                self.sent.push(rq);
                let alone = |(_, opcode): &(u32, Opcode)| *opcode == Opcode::Flush;
                assert!(self.at_drive.len() == 1 || !self.at_drive.iter().any(alone));
            }
        }
        fn new_request(&mut self, flush: bool) {
            self.opcodes.push(if flush { Opcode::Flush } else { Opcode::Read });
            self.send(self.opcodes.len() as u32 - 1);
        }
        fn complete(&mut self, which: usize) {
            if self.at_drive.is_empty() {
                return;
            }
            let at = which % self.at_drive.len();
            self.at_drive.swap_remove(at);
            self.ncq.ended();
            while let Some(rq) = self.ncq.next() {
                assert!(self.ncq.tries_again(rq));
                self.retries.push_back(rq);
            }
        }
        fn retry(&mut self) {
            if let Some(rq) = self.retries.pop_front() {
                self.send(rq);
            }
        }
    }

    /// A flush is alone at the drive, nothing passes it that came later, and all get there.
    #[test]
    fn what_is_not_queued_is_alone_and_is_not_passed() {
        for seed in 0..500 {
            let mut rng = Seed(seed).stream("ncq");
            let mut m = Model::default();
            for _ in 0..rng.below(200) {
                match rng.below(4) {
                    0 => m.new_request(rng.below(5) == 0),
                    1 => m.new_request(false),
                    2 => m.complete(rng.below(32) as usize),
                    _ => m.retry(),
                }
            }
            while !m.at_drive.is_empty() || !m.retries.is_empty() {
                m.retry();
                m.complete(0);
            }
            assert_eq!(m.sent.len(), m.opcodes.len(), "seed {seed}");
            for (at, &rq) in m.sent.iter().enumerate() {
                let first = m.sent[..at].iter().all(|&before| before < rq);
                let flush = m.opcodes[rq as usize] == Opcode::Flush;
                assert!(!flush || first, "seed {seed}: {rq} of {:?}", m.sent);
            }
        }
    }
}
