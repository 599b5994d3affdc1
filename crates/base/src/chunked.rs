//! A very long array that takes memory only where it was written: untouched chunks answer with a
//! default value. This is what lets a small test and a 2 TB drive share one code path.

const SHIFT: u32 = 18;
const CHUNK: usize = 1 << SHIFT;

#[derive(Clone, Debug)]
pub struct Chunked<T> {
    chunks: Vec<Option<Box<[T]>>>,
    fill: T,
    len: u64,
}

impl<T: Copy> Chunked<T> {
    pub fn new(len: u64, fill: T) -> Chunked<T> {
        let chunks = (0..len.div_ceil(CHUNK as u64)).map(|_| None).collect();
        Chunked { chunks, fill, len }
    }
    pub fn len(&self) -> u64 {
        self.len
    }
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    #[inline]
    pub fn get(&self, i: u64) -> T {
        match &self.chunks[(i >> SHIFT) as usize] {
            Some(chunk) => chunk[i as usize & (CHUNK - 1)],
            None => self.fill,
        }
    }
    #[inline]
    pub fn set(&mut self, i: u64, value: T) {
        *self.slot(i) = value;
    }
    /// The place of element `i`, made real if it was not.
    #[inline]
    pub fn slot(&mut self, i: u64) -> &mut T {
        debug_assert!(i < self.len, "index {i} of {}", self.len);
        let fill = self.fill;
        let chunk = &mut self.chunks[(i >> SHIFT) as usize];
        let chunk = match chunk {
            Some(chunk) => chunk,
            None => chunk.insert(vec![fill; CHUNK].into_boxed_slice()),
        };
        &mut chunk[i as usize & (CHUNK - 1)]
    }
    /// Bytes of memory in use.
    pub fn memory(&self) -> u64 {
        let real = self.chunks.iter().flatten().count() * CHUNK * size_of::<T>();
        (real + self.chunks.len() * size_of::<Option<Box<[T]>>>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_the_fill_until_written() {
        let mut a = Chunked::new(1 << 40, 7u32);
        assert_eq!(a.get(1 << 39), 7);
        a.set(1 << 39, 9);
        assert_eq!((a.get(1 << 39), a.get((1 << 39) + 1)), (9, 7));
    }
}
