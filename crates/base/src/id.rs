//! Typed ids and the vector indexed by one.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// log2 of the sector size.
pub const SECTOR_SHIFT: u32 = 12;
/// The unit of mapping: 4 KiB.
pub const SECTOR: u64 = 1 << SECTOR_SHIFT;

/// Logical sector number: a byte offset on the drive divided by 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Lpn(pub u32);

/// An I/O in flight, from the application's call to its return.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct IoId(pub u32);

impl IoId {
    /// Work that belongs to no application I/O.
    pub const NONE: IoId = IoId(u32::MAX);
}

/// fio's data direction, with fio's numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Ddir {
    Read = 0,
    Write = 1,
    Trim = 2,
    /// fsync: the drive sees a flush.
    Sync = 3,
    /// fdatasync: the drive sees a flush.
    DataSync = 4,
}

impl Ddir {
    pub const RW: [Ddir; 3] = [Ddir::Read, Ddir::Write, Ddir::Trim];

    pub fn name(self) -> &'static str {
        match self {
            Ddir::Read => "read",
            Ddir::Write => "write",
            Ddir::Trim => "trim",
            Ddir::Sync => "sync",
            Ddir::DataSync => "datasync",
        }
    }
    pub fn is_sync(self) -> bool {
        matches!(self, Ddir::Sync | Ddir::DataSync)
    }
}

/// What can index an [`IdVec`].
pub trait Id: Copy {
    fn index(self) -> usize;
    fn from_index(index: usize) -> Self;
}

macro_rules! ids {
    ($($t:ty),*) => { $(impl Id for $t {
        fn index(self) -> usize { self.0 as usize }
        fn from_index(index: usize) -> Self { Self(index as _) }
    })* };
}
ids!(Lpn, IoId);

/// A `Vec` that only its own id type can index.
#[derive(Clone, Debug)]
pub struct IdVec<I, T> {
    items: Vec<T>,
    _id: PhantomData<I>,
}

impl<I: Id, T> IdVec<I, T> {
    pub fn from_fn(n: usize, mut f: impl FnMut(I) -> T) -> Self {
        IdVec { items: (0..n).map(|i| f(I::from_index(i))).collect(), _id: PhantomData }
    }
    pub fn len(&self) -> usize {
        self.items.len()
    }
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    pub fn iter(&self) -> impl Iterator<Item = (I, &T)> {
        self.items.iter().enumerate().map(|(i, t)| (I::from_index(i), t))
    }
    pub fn as_slice(&self) -> &[T] {
        &self.items
    }
}

impl<I: Id, T> Index<I> for IdVec<I, T> {
    type Output = T;
    fn index(&self, i: I) -> &T {
        &self.items[i.index()]
    }
}
impl<I: Id, T> IndexMut<I> for IdVec<I, T> {
    fn index_mut(&mut self, i: I) -> &mut T {
        &mut self.items[i.index()]
    }
}
