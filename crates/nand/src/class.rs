//! What operations are for, and figures by it.

use serde::Serialize;
use std::ops::{Deref, Index, IndexMut};
use wordline_base::Why;

/// What an operation is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Class {
    /// For a read of users.
    UserRead,
    /// For a user's sectors that are rebuilt from the rest of their stride, all but the first.
    RebuildRead,
    /// Valid sectors of a victim.
    GcRead,
    /// The FTL's own data.
    MetaRead,
    /// Sectors that users wrote.
    UserProgram,
    /// Sectors that the collector moves.
    GcProgram,
    /// Metadata and units made of padding alone.
    MetaProgram,
    /// Parity of a stride.
    ParityProgram,
    /// A block erased.
    Erase,
}

/// The number of classes.
pub const CLASSES: usize = 9;
/// What may hold a LUN: work of a class, or something on its way to being suspended.
pub const HOLDERS: usize = CLASSES + 1;
pub(crate) const SUSPENSION: usize = CLASSES;
/// What a read may wait for: what holds its LUN, and last the channel.
pub const WAITS: usize = HOLDERS + 1;

impl Class {
    /// All classes, in the order of counters.
    pub const ALL: [Class; CLASSES] = [
        Class::UserRead,
        Class::RebuildRead,
        Class::GcRead,
        Class::MetaRead,
        Class::UserProgram,
        Class::GcProgram,
        Class::MetaProgram,
        Class::ParityProgram,
        Class::Erase,
    ];
    /// As in results.
    pub fn name(self) -> &'static str {
        match self {
            Class::UserRead => "user_read",
            Class::RebuildRead => "rebuild_read",
            Class::GcRead => "gc_read",
            Class::MetaRead => "meta_read",
            Class::UserProgram => "user_program",
            Class::GcProgram => "gc_program",
            Class::MetaProgram => "meta_program",
            Class::ParityProgram => "parity_program",
            Class::Erase => "erase",
        }
    }
    /// Someone waits for it: it may go ahead of what nobody waits for.
    pub fn goes_ahead(self) -> bool {
        matches!(self, Class::UserRead | Class::RebuildRead)
    }
    pub(crate) fn behind(self) -> Why {
        match self {
            Class::UserRead => Why::BehindRead,
            Class::RebuildRead => Why::BehindRebuildRead,
            Class::GcRead | Class::MetaRead => Why::BehindGcRead,
            Class::UserProgram => Why::BehindUserProgram,
            Class::GcProgram => Why::BehindGcProgram,
            Class::MetaProgram => Why::BehindMetaProgram,
            Class::ParityProgram => Why::BehindParityProgram,
            Class::Erase => Why::BehindErase,
        }
    }
}

/// A count for each class of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct PerClass([u64; CLASSES]);

impl Index<Class> for PerClass {
    type Output = u64;
    #[inline]
    fn index(&self, class: Class) -> &u64 {
        &self.0[class as usize]
    }
}

impl IndexMut<Class> for PerClass {
    #[inline]
    fn index_mut(&mut self, class: Class) -> &mut u64 {
        &mut self.0[class as usize]
    }
}

impl Index<usize> for PerClass {
    type Output = u64;
    #[inline]
    fn index(&self, class: usize) -> &u64 {
        &self.0[class]
    }
}

impl IndexMut<usize> for PerClass {
    #[inline]
    fn index_mut(&mut self, class: usize) -> &mut u64 {
        &mut self.0[class]
    }
}

/// In the order of [`Class::ALL`].
impl Deref for PerClass {
    type Target = [u64; CLASSES];
    fn deref(&self) -> &[u64; CLASSES] {
        &self.0
    }
}
