//! Bytes to be sent, in pieces: they take no more memory than they have, but for the rest of a piece.

use std::collections::VecDeque;

/// Bytes of a piece, unless more come at once.
pub(crate) const PIECE: usize = 128 << 10;
/// Larger pieces are not kept to be used again.
const KEPT: usize = 8 * PIECE;

/// What is to be sent to a client.
pub(crate) struct Output {
    /// In order. The first one is there always, and none but it is empty.
    pieces: VecDeque<Vec<u8>>,
    /// Of the first piece so much went out.
    sent: usize,
    /// To be used again.
    spare: Option<Vec<u8>>,
    /// Bytes to be sent.
    len: usize,
    /// Memory of all pieces.
    memory: usize,
}

impl Output {
    pub fn new() -> Output {
        let pieces = VecDeque::from([Vec::with_capacity(PIECE)]);
        let memory = pieces[0].capacity();
        Output { pieces, sent: 0, spare: None, len: 0, memory }
    }
    pub fn len(&self) -> usize {
        self.len
    }
    pub fn memory(&self) -> usize {
        self.memory
    }
    /// What is to be sent next; nothing only if there is nothing.
    pub fn next(&self) -> &[u8] {
        &self.pieces[0][self.sent..]
    }
    /// Appends bytes.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        self.len += bytes.len();
        let last = self.pieces.back_mut().expect("the first is there");
        match last.capacity() - last.len() >= bytes.len() {
            true => last.extend_from_slice(bytes),
            false => self.put_on(bytes),
        }
    }
    /// More than the last piece has room for. That is filled, so that it is the last one alone that is not full.
    fn put_on(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let last = self.pieces.back_mut().expect("the first is there");
            let (now, rest) = bytes.split_at(bytes.len().min(last.capacity() - last.len()));
            last.extend_from_slice(now);
            bytes = rest;
            if !bytes.is_empty() {
                let piece = self.spare.take().unwrap_or_else(|| {
                    let piece = Vec::with_capacity(bytes.len().max(PIECE));
                    self.memory += piece.capacity();
                    piece
                });
                self.pieces.push_back(piece);
            }
        }
    }
    /// So many of the bytes of [`Output::next`] went out.
    pub fn sent(&mut self, bytes: usize) {
        self.len -= bytes;
        self.sent += bytes;
        if self.sent < self.pieces[0].len() {
            return;
        }
        self.sent = 0;
        self.pieces[0].clear();
        if self.pieces.len() > 1
            && let Some(piece) = self.pieces.pop_front()
        {
            match self.spare.is_none() && piece.capacity() <= KEPT {
                true => self.spare = Some(piece),
                false => self.memory -= piece.capacity(),
            }
        } else if self.memory > KEPT {
            let piece = self.spare.take().unwrap_or_else(|| Vec::with_capacity(PIECE));
            self.memory = piece.capacity();
            self.pieces[0] = piece;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::Rng;

    /// Beside a plain list of bytes.
    #[test]
    fn what_is_put_in_comes_out_in_order() {
        let mut rng = Rng::from_seed(5);
        let (mut output, mut all) = (Output::new(), Vec::new());
        for round in 0..3_000u64 {
            if rng.below(2) == 0 {
                let most = [30, 5_000, 3 * PIECE as u64][rng.below(3) as usize];
                let bytes: Vec<u8> = (0..rng.below(most)).map(|i| (i * 7 + round) as u8).collect();
                output.put(&bytes);
                all.extend(bytes);
            } else {
                let whole = rng.below(3) > 0;
                while output.len() > 0 {
                    let next = output.next();
                    assert!(!next.is_empty());
                    let n =
                        if whole { next.len() } else { 1 + rng.below(next.len() as u64) as usize };
                    assert_eq!(next[..n], all[..n]);
                    all.drain(..n);
                    output.sent(n);
                    if !whole && rng.below(4) == 0 {
                        break;
                    }
                }
            }
            assert_eq!(output.len(), all.len());
            let pieces = output.pieces.iter().chain(&output.spare);
            assert_eq!(output.memory(), pieces.map(Vec::capacity).sum::<usize>());
            let first = output.pieces[0].capacity();
            assert!(output.memory() <= all.len() + first + PIECE + KEPT, "{}", output.memory());
            assert!(output.len() > 0 || output.next().is_empty());
        }
        while output.len() > 0 {
            output.sent(output.next().len());
        }
        assert!(output.memory() <= KEPT, "{}", output.memory());
    }
}
