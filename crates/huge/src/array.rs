//! A large array of numbers in memory, or in a file that is mapped copy-on-write.

use memmap2::MmapMut;
use std::fmt;
use std::mem::size_of;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU8, AtomicU32};

/// Numbers of which every pattern of bits is one.
pub trait Number: Copy + Default + Send + Sync + private::Sealed + 'static {}

mod private {
    pub trait Sealed {}
    impl Sealed for u8 {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

impl Number for u8 {}
impl Number for u32 {}
impl Number for u64 {}

/// Whose memory it is.
enum Memory {
    Heap,
    /// A private copy of a part of a file: pages that nobody wrote are the file's.
    File {
        _map: MmapMut,
    },
}

/// The array. An access costs what one to a `Vec` does. A clone is in memory of its own.
pub struct Array<T: Number> {
    at: NonNull<T>,
    len: usize,
    memory: Memory,
}

// SAFETY: the array owns its memory, which holds plain numbers.
unsafe impl<T: Number> Send for Array<T> {}
// SAFETY: shared access only reads.
unsafe impl<T: Number> Sync for Array<T> {}

impl<T: Number> Array<T> {
    /// So many zeroes. The system makes the memory real where it is written.
    pub fn zeroed(len: usize) -> Array<T> {
        Array::from(vec![T::default(); len])
    }
    /// The numbers that a mapping of so many holds; none if its place or size is no array's.
    pub(crate) fn mapped(mut map: MmapMut, len: usize) -> Option<Array<T>> {
        let at = NonNull::new(map.as_mut_ptr().cast::<T>())?;
        let fits = map.len() == len.checked_mul(size_of::<T>())? && at.is_aligned();
        fits.then_some(Array { at, len, memory: Memory::File { _map: map } })
    }
    /// Makes all of the memory real, by several threads: all of it is going to be written soon. Nothing is
    /// changed, nor done for memory that is a file's.
    pub fn populate(&mut self) {
        if matches!(self.memory, Memory::Heap) {
            crate::populate(self.bytes_mut());
        }
    }
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the memory is the array's, and every byte may be written.
        unsafe { slice::from_raw_parts_mut(self.at.as_ptr().cast(), self.len * size_of::<T>()) }
    }
}

impl Array<u32> {
    /// The numbers, for several threads that write different ones.
    pub fn shared(&mut self) -> &[AtomicU32] {
        // SAFETY: an atomic number is in memory as a plain one, and the array is borrowed by nobody else.
        unsafe { slice::from_raw_parts(self.at.as_ptr().cast(), self.len) }
    }
}

impl Array<u8> {
    /// The numbers, for several threads that write different ones.
    pub fn shared(&mut self) -> &[AtomicU8] {
        // SAFETY: as above.
        unsafe { slice::from_raw_parts(self.at.as_ptr().cast(), self.len) }
    }
}

/// Numbers as they are in memory.
pub fn as_bytes<T: Number>(numbers: &[T]) -> &[u8] {
    // SAFETY: numbers have no padding, and a byte has no alignment.
    unsafe { slice::from_raw_parts(numbers.as_ptr().cast(), size_of_val(numbers)) }
}

impl<T: Number> From<Vec<T>> for Array<T> {
    fn from(numbers: Vec<T>) -> Array<T> {
        let numbers = Box::leak(numbers.into_boxed_slice());
        Array { len: numbers.len(), at: NonNull::from(numbers).cast(), memory: Memory::Heap }
    }
}

impl<T: Number> Drop for Array<T> {
    fn drop(&mut self) {
        if matches!(self.memory, Memory::Heap) {
            let numbers = std::ptr::slice_from_raw_parts_mut(self.at.as_ptr(), self.len);
            // SAFETY: the memory was a box's of this length, and nobody else has it.
            drop(unsafe { Box::from_raw(numbers) });
        }
    }
}

impl<T: Number> Deref for Array<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the memory is the array's, and holds so many numbers as long as it lives.
        unsafe { slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}

impl<T: Number> DerefMut for Array<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and the borrow is the only one.
        unsafe { slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }
}

impl<T: Number> Clone for Array<T> {
    fn clone(&self) -> Array<T> {
        Array::from(self.to_vec())
    }
}

impl<T: Number> Default for Array<T> {
    fn default() -> Array<T> {
        Array::from(Vec::new())
    }
}

impl<T: Number> fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} numbers", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_is_zero_and_a_clone_is_its_own() {
        let mut a = Array::<u32>::zeroed(1000);
        assert!(a.iter().all(|&n| n == 0));
        a[7] = 0x0102_0304;
        let b = a.clone();
        a[7] = 9;
        assert_eq!((a[7], b[7], b.len()), (9, 0x0102_0304, 1000));
        assert_eq!(as_bytes(&b)[28..32], 0x0102_0304_u32.to_ne_bytes());
        assert!(Array::<u64>::default().is_empty());
    }
}
