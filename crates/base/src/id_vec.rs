//! Vectors that are indexed by what they are about: a LUN, a line, a slot of a buffer.

use crate::{IoId, Lpn};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Index, IndexMut, Range};

/// What things are numbered by, from 0 on.
pub trait Id: Copy {
    /// Its place in a vector.
    fn index(self) -> usize;
}

impl Id for u32 {
    #[inline]
    fn index(self) -> usize {
        self as usize
    }
}

impl Id for u16 {
    #[inline]
    fn index(self) -> usize {
        usize::from(self)
    }
}

impl Id for Lpn {
    #[inline]
    fn index(self) -> usize {
        self.0 as usize
    }
}

impl Id for IoId {
    #[inline]
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// One `T` for each `I`.
pub struct IdVec<I, T> {
    all: Vec<T>,
    by: PhantomData<fn(I)>,
}

impl<I: Id, T> IdVec<I, T> {
    /// Without an element.
    pub const fn new() -> IdVec<I, T> {
        IdVec { all: Vec::new(), by: PhantomData }
    }
    /// So many, all alike.
    pub fn filled(of_each: T, count: u32) -> IdVec<I, T>
    where
        T: Clone,
    {
        vec![of_each; count as usize].into()
    }
    /// The element of an id, if there is one.
    #[inline]
    pub fn get(&self, id: I) -> Option<&T> {
        self.all.get(id.index())
    }
    /// The same, to be changed.
    #[inline]
    pub fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.all.get_mut(id.index())
    }
    /// The elements of several ids at once; none if two are the same, or one is not there.
    pub fn disjoint<const N: usize>(&mut self, ids: [I; N]) -> Option<[&mut T; N]> {
        self.all.get_disjoint_mut(ids.map(Id::index)).ok()
    }
    /// The elements of ids that follow each other.
    pub fn slice(&self, ids: Range<I>) -> &[T] {
        &self.all[ids.start.index()..ids.end.index()]
    }
    /// How many there are.
    pub fn count(&self) -> u32 {
        self.all.len() as u32
    }
}

impl<I, T> From<Vec<T>> for IdVec<I, T> {
    fn from(all: Vec<T>) -> IdVec<I, T> {
        IdVec { all, by: PhantomData }
    }
}

impl<I, T> FromIterator<T> for IdVec<I, T> {
    fn from_iter<A: IntoIterator<Item = T>>(all: A) -> IdVec<I, T> {
        Vec::from_iter(all).into()
    }
}

impl<I: Id, T> Index<I> for IdVec<I, T> {
    type Output = T;
    #[inline]
    #[track_caller]
    fn index(&self, id: I) -> &T {
        match self.all.get(id.index()) {
            Some(one) => one,
            None => no_such(id.index()),
        }
    }
}

impl<I: Id, T> IndexMut<I> for IdVec<I, T> {
    #[inline]
    #[track_caller]
    fn index_mut(&mut self, id: I) -> &mut T {
        match self.all.get_mut(id.index()) {
            Some(one) => one,
            None => no_such(id.index()),
        }
    }
}

/// Tells no length: a panic that does keeps it in a register wherever an element is taken.
#[cold]
#[inline(never)]
#[track_caller]
fn no_such(index: usize) -> ! {
    panic!("there is no element {index}")
}

/// In the order of their ids.
impl<I, T> Deref for IdVec<I, T> {
    type Target = Vec<T>;
    #[inline]
    fn deref(&self) -> &Vec<T> {
        &self.all
    }
}

impl<I, T> DerefMut for IdVec<I, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.all
    }
}

impl<'a, I, T> IntoIterator for &'a IdVec<I, T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.all.iter()
    }
}

impl<'a, I, T> IntoIterator for &'a mut IdVec<I, T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.all.iter_mut()
    }
}

impl<I, T: Clone> Clone for IdVec<I, T> {
    fn clone(&self) -> Self {
        self.all.clone().into()
    }
}

impl<I, T> Default for IdVec<I, T> {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<I, T: PartialEq> PartialEq for IdVec<I, T> {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl<I, T: Eq> Eq for IdVec<I, T> {}

impl<I, T: fmt::Debug> fmt::Debug for IdVec<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.fmt(f)
    }
}
