//! Nodes of the tree: as many real bytes as the model counts.

use wordline_base::IdVec;

/// The number of a node.
pub type NodeId = u32;

/// Nodes that are allocated together.
const SHIFT: u32 = 6;

/// Where the last insertion was, to tell an ascending run.
pub const LAST: usize = 1;
/// Words before the entries: 16 bytes, so that a leaf of 4 KiB holds 340 entries to the byte. How many of them
/// are in use would be one of these; it is apart, so that a search does not begin with a line that no cache has.
pub const HEADER: usize = 4;
/// No insertion to go on from.
pub const NOWHERE: u32 = u32::MAX - 1;

#[derive(Clone, Debug)]
pub struct Arena {
    /// Words of so many nodes each.
    chunks: IdVec<u32, Vec<u32>>,
    /// Entries of each node.
    counts: IdVec<NodeId, u16>,
    /// Words of a node.
    words: usize,
    free: Vec<NodeId>,
    /// Nodes that ever were in use.
    made: u32,
}

impl Arena {
    pub fn new(node_bytes: u32) -> Arena {
        Arena {
            chunks: IdVec::new(),
            counts: IdVec::new(),
            words: node_bytes as usize / 4,
            free: Vec::new(),
            made: 0,
        }
    }
    /// Nodes in use.
    pub fn used(&self) -> u32 {
        self.made - self.free.len() as u32
    }
    pub fn take(&mut self) -> NodeId {
        let id = self.free.pop().unwrap_or_else(|| {
            if self.made.is_multiple_of(1 << SHIFT) {
                self.chunks.push(vec![0; self.words << SHIFT]);
            }
            self.counts.push(0);
            self.made += 1;
            self.made - 1
        });
        self.set_count(id, 0);
        self.get_mut(id)[LAST] = NOWHERE;
        id
    }
    pub fn give(&mut self, id: NodeId) {
        self.free.push(id);
    }
    #[inline]
    pub fn count(&self, id: NodeId) -> usize {
        self.counts[id].into()
    }
    /// A node of at most 65536 bytes has fewer entries than that.
    #[inline]
    pub fn set_count(&mut self, id: NodeId, count: usize) {
        self.counts[id] = count as u16;
    }
    #[inline]
    pub fn get(&self, id: NodeId) -> &[u32] {
        let at = (id as usize & ((1 << SHIFT) - 1)) * self.words;
        &self.chunks[id >> SHIFT][at..at + self.words]
    }
    #[inline]
    pub fn get_mut(&mut self, id: NodeId) -> &mut [u32] {
        let at = (id as usize & ((1 << SHIFT) - 1)) * self.words;
        &mut self.chunks[id >> SHIFT][at..at + self.words]
    }
}
