//! What a state is read from: a stream, or a file whose large arrays are used in place.

use crate::array::{Array, Number};
use memmap2::{MmapMut, MmapOptions};
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};

/// Bytes in order.
pub trait StateSource {
    /// Fills `bytes` with the next ones. An error if fewer are left.
    fn get(&mut self, bytes: &mut [u8]) -> io::Result<()>;
    /// There are no more.
    fn is_at_end(&mut self) -> io::Result<bool>;
    /// The next bytes as memory of one's own, if they can be had so; they are not read then.
    fn map(&mut self, _bytes: usize) -> io::Result<Option<MmapMut>> {
        Ok(None)
    }
}

impl<R: Read> StateSource for R {
    fn get(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        Read::read_exact(self, bytes)
    }
    fn is_at_end(&mut self) -> io::Result<bool> {
        Ok(self.read(&mut [0])? == 0)
    }
}

impl<T: Number> Array<T> {
    /// Little-endian numbers, of a file that can be mapped without reading them.
    pub fn read(from: &mut dyn StateSource, len: usize) -> io::Result<Array<T>> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or(ErrorKind::InvalidData)?;
        let usable = cfg!(target_endian = "little") && bytes > 0;
        if usable && let Some(map) = from.map(bytes)? {
            return Array::mapped(map, len).ok_or_else(|| ErrorKind::InvalidData.into());
        }
        // What is cut short takes no memory beyond what is there.
        let mut numbers = Vec::new();
        while numbers.len() < len {
            let part = (len - numbers.len()).min(PART / size_of::<T>());
            let mut part = Array::<T>::zeroed(part);
            from.get(part.bytes_mut())?;
            if cfg!(target_endian = "big") {
                part.bytes_mut().chunks_exact_mut(size_of::<T>()).for_each(<[u8]>::reverse);
            }
            numbers.extend_from_slice(&part);
        }
        Ok(Array::from(numbers))
    }
}

/// Read at once.
const PART: usize = 1 << 20;
/// What does not begin at a multiple of that is read.
const PAGE: u64 = 1 << 12;

/// A file that nobody changes while it is used. It may be removed, or replaced by another of its name.
#[derive(Debug)]
pub struct MappedFile {
    file: BufReader<File>,
    at: u64,
    /// Bytes; none of one that has no end, as a pipe.
    len: Option<u64>,
}

impl MappedFile {
    /// The file from its beginning on.
    pub fn new(file: File) -> io::Result<MappedFile> {
        let of = file.metadata()?;
        let len = of.is_file().then_some(of.len());
        Ok(MappedFile { file: BufReader::with_capacity(1 << 16, file), at: 0, len })
    }
}

impl StateSource for MappedFile {
    fn get(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_exact(bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }
    fn is_at_end(&mut self) -> io::Result<bool> {
        self.file.is_at_end()
    }
    fn map(&mut self, bytes: usize) -> io::Result<Option<MmapMut>> {
        let Some(len) = self.len.filter(|_| self.at.is_multiple_of(PAGE)) else { return Ok(None) };
        let end = self.at.checked_add(bytes as u64).filter(|&end| end <= len);
        let end = end.ok_or(ErrorKind::UnexpectedEof)?;
        let place = MmapOptions::new().offset(self.at).len(bytes).to_owned();
        // SAFETY: those who write states never change a file that has its name, but replace it. What
        // is mapped is this process's own where it writes.
        let Ok(map) = (unsafe { place.map_copy(self.file.get_ref()) }) else { return Ok(None) };
        self.file.seek_relative(end as i64 - self.at as i64)?;
        self.at = end;
        Ok(Some(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_mapped_file_reads_as_a_stream_does_and_stays_as_it_is() {
        let name = format!("wordline-mapped-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut bytes: Vec<u8> = b"abc.".to_vec();
        bytes.resize(4096, 0);
        bytes.extend((0..5000u32).flat_map(u32::to_le_bytes));
        bytes.extend(b"end");
        File::create(&path).unwrap().write_all(&bytes).unwrap();
        let mut file = MappedFile::new(File::open(&path).unwrap()).unwrap();
        let mut stream = &bytes[..];
        let sources: [&mut dyn StateSource; 2] = [&mut file, &mut stream];
        for from in sources {
            from.get(&mut [0; 4096]).unwrap();
            let mut array = Array::<u32>::read(from, 5000).unwrap();
            assert!(array.iter().copied().eq(0..5000));
            array[9] = 0;
            let mut end = [0; 3];
            from.get(&mut end).unwrap();
            assert_eq!(&end, b"end");
            assert!(from.is_at_end().unwrap());
        }
        let mut cut = MappedFile::new(File::open(&path).unwrap()).unwrap();
        let error = Array::<u64>::read(&mut cut, 4000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "what is written to an array is not");
        std::fs::remove_file(&path).unwrap();
    }
}
