//! Where things stand on the drive: ext4's block groups (mke2fs with flex_bg and sparse_super) and
//! XFS' allocation groups, the inodes in them, and which metadata blocks an operation touches.

use crate::config::{FsConfig, FsKind};
use crate::extents::{Change, Extent, Extents, Shape, Touched};
use crate::inode::{Dir, Inode, Reserve, entry_bytes};
use crate::space::{GroupId, Space};
use std::collections::BTreeSet;
use wordline_base::{BadValue, BitMap, IdVec};

/// A unit of logging: a metadata block, or with XFS an inode by itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Item {
    Block(u64),
    Inode(u32),
}

/// Blocks of a run-time structure that lies in pieces, in order.
#[derive(Clone, Default, Debug)]
pub struct Pieces(Vec<(u64, u64, u32)>);

impl Pieces {
    pub fn len(&self) -> u64 {
        self.0.last().map_or(0, |&(at, _, len)| at + u64::from(len))
    }
    fn push(&mut self, block: u64, len: u32) {
        self.0.push((self.len(), block, len));
    }
    /// Block of position `at`, and how many follow it on the drive.
    pub fn find(&self, at: u64) -> (u64, u64) {
        let i = self.0.partition_point(|&(start, _, _)| start <= at);
        let (start, block, len) = self.0[i - 1];
        (block + (at - start), u64::from(len) - (at - start))
    }
}

/// Pages of a locality group: blocks small files take theirs from.
#[derive(Clone, Copy, Default, Debug)]
struct Locality {
    block: u64,
    len: u32,
}

pub struct Disk {
    pub kind: FsKind,
    pub space: Space,
    pub log: Pieces,
    /// Metadata blocks that hold something: others need no reading.
    pub formatted: BTreeSet<u64>,
    /// Blocks of the drive.
    pub blocks: u64,
    config: FsConfig,
    per_group: u32,
    /// ext4: blocks of group descriptors.
    gdt: u32,
    /// ext4: inodes of a group.
    inodes_per_group: u32,
    /// ext4: blocks of a group's inode table.
    table: u32,
    inodes: IdVec<GroupId, Inodes>,
    /// Directories by flex group or allocation group.
    dirs: IdVec<u32, u32>,
    localities: Vec<Locality>,
}

#[derive(Default)]
struct Inodes {
    used: Option<Box<BitMap>>,
    free: u32,
    /// XFS: the chunks of 64 inodes, by their first block.
    chunks: Vec<u64>,
}

const NO_SPACE: &str = "a device has no inodes and no blocks to give";

/// XFS: inodes of a chunk, allocated together (XFS_INODES_PER_CHUNK).
const CHUNK: u32 = 64;
/// XFS: records of a leaf of the free-space trees (8 bytes) and of the inode trees (16 bytes).
const TREE_LEAVES: u64 = 32;
const INODE_RECORDS: u32 = 252;

impl Disk {
    /// A new file system on `blocks` blocks.
    pub fn format(config: &FsConfig, blocks: u64) -> Result<Disk, BadValue> {
        match config.kind {
            FsKind::Ext4 => Disk::mke2fs(config, blocks),
            FsKind::Xfs => Disk::mkfs_xfs(config, blocks),
            FsKind::Bdev => Ok(Disk::device(config, blocks)),
        }
    }

    /// No file system: all blocks are the device's.
    fn device(config: &FsConfig, blocks: u64) -> Disk {
        Disk {
            kind: FsKind::Bdev,
            space: Space::new(0, config.ext4.blocks_per_group),
            log: Pieces::default(),
            formatted: BTreeSet::new(),
            per_group: 0,
            gdt: 0,
            inodes_per_group: 0,
            table: 0,
            inodes: IdVec::new(),
            dirs: IdVec::new(),
            localities: Vec::new(),
            blocks,
            config: config.clone(),
        }
    }

    fn mke2fs(config: &FsConfig, blocks: u64) -> Result<Disk, BadValue> {
        let e = &config.ext4;
        let per_group = e.blocks_per_group;
        // A last group too small for its metadata is left out.
        let groups = blocks / u64::from(per_group);
        let too_small = |n: u64| format!("ext4 needs a drive of at least {n} MiB");
        if groups < 2 {
            return Err(BadValue::new("kind", too_small(u64::from(per_group) / 128)));
        }
        let space = Space::new(groups * u64::from(per_group), per_group);
        let table_inodes = 4096 / e.inode_size;
        let inodes = (u64::from(per_group) * 4096 / u64::from(e.bytes_per_inode)) as u32;
        let inodes_per_group = inodes.clamp(table_inodes.max(8), 32_768);
        let inodes_per_group = inodes_per_group.next_multiple_of(table_inodes.max(8));
        let mut disk = Disk {
            kind: FsKind::Ext4,
            blocks,
            space,
            log: Pieces::default(),
            formatted: BTreeSet::new(),
            per_group,
            gdt: (groups as u32 * 64).div_ceil(4096),
            inodes_per_group,
            table: inodes_per_group / table_inodes,
            inodes: IdVec::new(),
            dirs: IdVec::filled(0, (groups as u32).div_ceil(e.flex_groups)),
            localities: Vec::new(),
            config: config.clone(),
        };
        let flex = e.flex_groups;
        for group in 0..groups as u32 {
            if has_super(group) {
                disk.space.take(disk.space.first_of(group), disk.head(group));
            }
        }
        for first in (0..groups as u32).step_by(flex as usize) {
            let n = flex.min(groups as u32 - first);
            let len = 2 * flex + n * disk.table;
            if u64::from(disk.head(first) + len) > u64::from(per_group) * u64::from(n) {
                return Err(BadValue::new(
                    "ext4.bytes_per_inode",
                    "leaves no room for data: raise it",
                ));
            }
            let mut at = disk.space.first_of(first) + u64::from(disk.head(first));
            for _ in 0..len {
                // A backup of the superblock in the way.
                while !disk.space.is_free(at) {
                    at += 1;
                }
                disk.space.take(at, 1);
                at += 1;
            }
        }
        let used = || Inodes { used: None, free: inodes_per_group, chunks: Vec::new() };
        disk.inodes = (0..groups).map(|_| used()).collect();
        let wanted = match e.journal_blocks {
            0 => journal_blocks(blocks),
            n => n,
        };
        disk.place_log(groups as u32 / 2, wanted)?;
        disk.formatted.extend(0..=u64::from(disk.gdt));
        Ok(disk)
    }

    fn mkfs_xfs(config: &FsConfig, blocks: u64) -> Result<Disk, BadValue> {
        let ags = config.xfs.ag_count;
        let size = blocks / u64::from(ags);
        if size < 4096 {
            let why = format!("{ags} allocation groups need a drive of {} MiB", ags * 16);
            return Err(BadValue::new("xfs.ag_count", why));
        }
        let per_group = u32::try_from(size)
            .map_err(|_| BadValue::new("xfs.ag_count", "must be more for this drive"))?;
        let mut disk = Disk {
            kind: FsKind::Xfs,
            blocks,
            space: Space::new(size * u64::from(ags), per_group),
            log: Pieces::default(),
            formatted: BTreeSet::new(),
            per_group,
            gdt: 0,
            inodes_per_group: 0,
            table: 0,
            inodes: (0..ags).map(|_| Inodes::default()).collect(),
            dirs: IdVec::filled(0, ags),
            localities: Vec::new(),
            config: config.clone(),
        };
        for ag in 0..ags {
            // Headers, and the four trees.
            let first = disk.space.first_of(ag);
            let len = 1 + 4 * TREE_LEAVES;
            disk.space.take(first, len as u32);
            disk.formatted.extend(first..first + len);
        }
        let wanted = match config.xfs.log_blocks {
            // mkfs.xfs: a 2048th of the drive, 10 MiB to 2 GiB.
            0 => (blocks / 2048).clamp(2560, 524_288).min(size / 2) as u32,
            n => n,
        };
        disk.place_log(ags / 2, wanted)?;
        Ok(disk)
    }

    /// The log in the middle of the drive, as mke2fs and mkfs.xfs have it.
    fn place_log(&mut self, group: u32, blocks: u32) -> Result<(), BadValue> {
        let key = match self.kind {
            FsKind::Xfs => "xfs.log_blocks",
            _ => "ext4.journal_blocks",
        };
        if u64::from(blocks) > self.space.free() / 2 {
            let why = format!("{blocks} blocks are more than half of the drive");
            return Err(BadValue::new(key, why));
        }
        let mut left = blocks;
        let mut goal = self.space.first_of(group);
        while left > 0 {
            let Some((block, len)) = self.space.allocate(goal, left.min(self.per_group), true)
            else {
                return Err(BadValue::new(key, "there is no room for the log"));
            };
            self.log.push(block, len);
            left -= len;
            goal = block + u64::from(len);
        }
        Ok(())
    }

    /// Superblock, group descriptors, and room for as many again as resize2fs may want.
    fn head(&self, group: u32) -> u32 {
        if has_super(group) { 1 + 2 * self.gdt } else { 0 }
    }

    fn flex_base(&self, group: u32) -> (u32, u64) {
        let first = group / self.config.ext4.flex_groups * self.config.ext4.flex_groups;
        (first, self.space.first_of(first) + u64::from(self.head(first)))
    }
    fn block_bitmap(&self, group: u32) -> u64 {
        let (first, base) = self.flex_base(group);
        base + u64::from(group - first)
    }
    fn inode_bitmap(&self, group: u32) -> u64 {
        self.block_bitmap(group) + u64::from(self.config.ext4.flex_groups)
    }
    fn inode_block(&self, group: u32, index: u32) -> u64 {
        let (first, base) = self.flex_base(group);
        let table = base + 2 * u64::from(self.config.ext4.flex_groups);
        let per_block = 4096 / self.config.ext4.inode_size;
        table + u64::from((group - first) * self.table + index / per_block)
    }
    fn descriptor(&self, group: u32) -> u64 {
        1 + u64::from(group) * 64 / 4096
    }
    pub fn superblock(&self) -> u64 {
        0
    }

    /// Blocks that free-space changes in `group` around `block` touch.
    fn space_items(&self, block: u64, items: &mut Vec<Item>) {
        let group = self.space.group_of(block);
        match self.kind {
            FsKind::Ext4 => {
                items.push(Item::Block(self.block_bitmap(group)));
                items.push(Item::Block(self.descriptor(group)));
            }
            FsKind::Xfs => {
                // The group's header, and a leaf of the tree by block and of the one by size.
                let first = self.space.first_of(group);
                let leaf = (block - first) * TREE_LEAVES / u64::from(self.per_group);
                items.push(Item::Block(first));
                items.push(Item::Block(first + 1 + leaf));
                items.push(Item::Block(first + 1 + TREE_LEAVES));
            }
            FsKind::Bdev => unreachable!("{NO_SPACE}"),
        }
    }

    /// The item that holds an inode.
    pub fn inode_item(&self, ino: u32, inode: &Inode) -> Item {
        match self.kind {
            FsKind::Ext4 => Item::Block(inode.block),
            FsKind::Xfs => Item::Inode(ino),
            FsKind::Bdev => unreachable!("{NO_SPACE}"),
        }
    }

    /// Blocks an inode is written with: its table block, or its cluster of 16 KiB at 512 bytes each.
    pub fn cluster(&self, inode: &Inode) -> (u64, u32) {
        match self.kind {
            FsKind::Ext4 => (inode.block, 1),
            FsKind::Xfs => {
                let blocks = u64::from((self.config.xfs.inode_size * 32 / 4096).max(1));
                let first = self.space.first_of(inode.group);
                (first + (inode.block - first) / blocks * blocks, blocks as u32)
            }
            FsKind::Bdev => unreachable!("{NO_SPACE}"),
        }
    }

    /// A group for a new directory: the one with the fewest.
    pub fn place_dir(&mut self) -> u32 {
        let (at, _) = (0..).zip(&self.dirs).min_by_key(|&(i, &n)| (n, i)).unwrap_or((0, &0));
        self.dirs[at] += 1;
        match self.kind {
            FsKind::Ext4 => at * self.config.ext4.flex_groups,
            FsKind::Xfs => at,
            FsKind::Bdev => unreachable!("{NO_SPACE}"),
        }
    }

    /// A free inode near `group`: its group and block, and what the choice touches. None if there
    /// is none.
    pub fn new_inode(&mut self, group: u32, items: &mut Vec<Item>) -> Option<(u32, u64)> {
        match self.kind {
            FsKind::Ext4 => self.ext4_inode(group, items),
            FsKind::Xfs => self.xfs_inode(group, items),
            FsKind::Bdev => unreachable!("{NO_SPACE}"),
        }
    }

    fn ext4_inode(&mut self, group: u32, items: &mut Vec<Item>) -> Option<(u32, u64)> {
        let n = self.inodes.count();
        let g = (0..n).map(|i| (group + i) % n).find(|&g| self.inodes[g].free > 0)?;
        let inodes = &mut self.inodes[g];
        let len = self.inodes_per_group as usize;
        let used = inodes.used.get_or_insert_with(|| Box::new(BitMap::new(len)));
        let index = used.next_clear(0)?;
        used.set(index);
        inodes.free -= 1;
        let block = self.inode_block(g, index as u32);
        items.push(Item::Block(self.inode_bitmap(g)));
        items.push(Item::Block(self.descriptor(g)));
        Some((g, block))
    }

    fn xfs_inode(&mut self, group: u32, items: &mut Vec<Item>) -> Option<(u32, u64)> {
        let size = self.config.xfs.inode_size;
        let per_block = 4096 / size;
        if self.inodes[group].free == 0 {
            let blocks = CHUNK * size / 4096;
            let goal = self.space.first_of(group);
            let goal = self.inodes[group].chunks.last().map_or(goal, |&c| c + 8);
            let (mut start, len) = self.space.allocate(goal, 2 * blocks - 1, false)?;
            if len < 2 * blocks - 1 {
                self.space.give(start, len);
                return None;
            }
            // Aligned within its group, so that clusters are.
            let first = self.space.first_of(self.space.group_of(start));
            let aligned = first + (start - first).next_multiple_of(u64::from(blocks));
            self.space.give(start, (aligned - start) as u32);
            let end = start + u64::from(len);
            start = aligned;
            self.space.give(start + u64::from(blocks), (end - start) as u32 - blocks);
            self.space_items(start, items);
            let inodes = &mut self.inodes[group];
            inodes.chunks.push(start);
            inodes.free = CHUNK;
        }
        let inodes = &mut self.inodes[group];
        let chunk = *inodes.chunks.last()?;
        let index = CHUNK - inodes.free;
        inodes.free -= 1;
        // The group's header, the leaf of the inode tree and, while it has free ones, of its free
        // counterpart.
        let leaf = (inodes.chunks.len() as u32 / INODE_RECORDS).min(TREE_LEAVES as u32 - 1);
        let first = self.space.first_of(group);
        let tree = first + 1 + 2 * TREE_LEAVES + u64::from(leaf);
        items.push(Item::Block(first));
        items.push(Item::Block(tree));
        items.push(Item::Block(tree + TREE_LEAVES));
        Some((self.space.group_of(chunk), chunk + u64::from(index / per_block)))
    }

    /// Where the list begins of inodes that have no name and still blocks.
    pub fn orphans(&self, inode: &Inode) -> Item {
        Item::Block(match self.kind {
            FsKind::Ext4 => self.superblock(),
            FsKind::Xfs => self.space.first_of(inode.group),
            FsKind::Bdev => unreachable!("{NO_SPACE}"),
        })
    }
    /// Gives an inode back. XFS keeps the chunk, and here its inode unused.
    pub fn free_inode(&mut self, inode: &Inode, items: &mut Vec<Item>) {
        match self.kind {
            FsKind::Ext4 => {
                items.push(Item::Block(self.inode_bitmap(inode.group)));
                items.push(Item::Block(self.descriptor(inode.group)));
                let per_block = 4096 / self.config.ext4.inode_size;
                let index = (inode.block - self.inode_block(inode.group, 0)) as u32 * per_block;
                let group = &mut self.inodes[inode.group];
                // One of those in its table block.
                if let Some(used) = &mut group.used
                    && let Some(i) = (index..index + per_block).find(|&i| used.get(i as usize))
                {
                    used.clear(i as usize);
                    group.free += 1;
                }
            }
            FsKind::Xfs => {
                let first = self.space.first_of(inode.group);
                items.push(Item::Block(first));
                items.push(Item::Block(first + 1 + 2 * TREE_LEAVES));
                items.push(Item::Block(first + 1 + 3 * TREE_LEAVES));
            }
            FsKind::Bdev => unreachable!("{NO_SPACE}"),
        }
    }

    /// A metadata block near `goal`, with what it touches.
    pub fn new_block(&mut self, goal: u64, items: &mut Vec<Item>) -> Option<u64> {
        let (block, _) = self.space.allocate(goal, 1, false)?;
        self.space_items(block, items);
        items.push(Item::Block(block));
        Some(block)
    }

    /// Blocks for `want` blocks of a file from `logical` on, by writer `core`: one run of them, which the
    /// caller puts among its extents.
    pub fn allocate(
        &mut self,
        inode: &mut Inode,
        logical: u64,
        want: u32,
        core: u32,
        items: &mut Vec<Item>,
    ) -> Option<Extent> {
        let (block, len) = match inode.reserve {
            Some(r) if r.logical == logical && r.len > 0 => {
                let len = want.min(r.len);
                let left = r.len - len;
                let next = (logical + u64::from(len), r.block + u64::from(len));
                inode.reserve =
                    (left > 0).then_some(Reserve { logical: next.0, block: next.1, len: left });
                (r.block, len)
            }
            _ => self.search(inode, logical, want, core)?,
        };
        self.space_items(block, items);
        Some(Extent { logical: logical as u32, block: block as u32, len, unwritten: false })
    }

    /// Changes extents, with blocks for their tree from near `goal`. Blocks of the tree that are to be logged
    /// are among `items` then.
    pub fn change<R>(
        &mut self,
        extents: &mut Extents,
        goal: u64,
        items: &mut Vec<Item>,
        f: impl FnOnce(&mut Extents, &mut Change) -> R,
    ) -> (R, Touched) {
        let shape = self.shape();
        let mut new_block = || self.new_block(goal, items);
        let mut change = Change { shape, new_block: &mut new_block, touched: Touched::default() };
        let result = f(extents, &mut change);
        let touched = change.touched;
        items.extend(touched.blocks.iter().map(|&block| Item::Block(block)));
        (result, touched)
    }

    /// ext4's blocks have a header of 12 bytes, entries of 12 and a checksum of 4; XFS' a header of 72 and
    /// entries of 16, and its inode has what 176 bytes leave.
    pub fn shape(&self) -> Shape {
        match self.kind {
            FsKind::Ext4 => Shape {
                inside: 4,
                root: 4,
                per_block: 340,
                longest: 1 << 15,
                longest_unwritten: (1 << 15) - 1,
                halves: false,
            },
            FsKind::Xfs => {
                let fork = self.config.xfs.inode_size as usize - 176;
                let longest = (1 << 21) - 1;
                Shape {
                    inside: fork / 16,
                    root: (fork - 4) / 16,
                    per_block: (4096 - 72) / 16,
                    longest,
                    longest_unwritten: longest,
                    halves: true,
                }
            }
            FsKind::Bdev => Shape {
                inside: 1,
                root: 0,
                per_block: 0,
                longest: u32::MAX,
                longest_unwritten: 0,
                halves: false,
            },
        }
    }

    fn search(
        &mut self,
        inode: &mut Inode,
        logical: u64,
        want: u32,
        core: u32,
    ) -> Option<(u64, u32)> {
        let goal = inode.extents.goal(logical);
        let merge = goal.is_some();
        let goal = goal.unwrap_or_else(|| self.goal(inode, core));
        let end = (logical + u64::from(want)).max(inode.size.div_ceil(4096));
        match self.kind {
            FsKind::Ext4 => {
                let e = &self.config.ext4;
                if inode.is_dir
                    || inode.writers == 0 && inode.open == 0 && end == inode.size.div_ceil(4096)
                {
                    // EXT4_MB_HINT_NOPREALLOC: closed, its size is final.
                    if end > u64::from(e.stream_request) || e.group_prealloc == 0 {
                        return self.space.allocate(goal, want, merge);
                    }
                }
                if end <= u64::from(e.stream_request) && e.group_prealloc > 0 {
                    return self.take_small(goal, want, core);
                }
                let most = normalized(end, logical, self.per_group).max(want);
                let (block, len) = self.space.allocate(goal, most, merge)?;
                let taken = len.min(want);
                self.set_aside(inode, logical, block, len, taken);
                Some((block, taken))
            }
            FsKind::Xfs => {
                // xfs_iomap_prealloc_size: as much again as a file of more than 64 KiB has.
                let size = inode.size.div_ceil(4096);
                let ahead =
                    if size >= 16 && end >= size && inode.writers > 0 { size.min(2048) } else { 0 };
                let most = want + ahead as u32;
                let (block, len) = self.space.allocate(goal, most, merge)?;
                let taken = len.min(want);
                self.set_aside(inode, logical, block, len, taken);
                Some((block, taken))
            }
            FsKind::Bdev => unreachable!("{NO_SPACE}"),
        }
    }

    fn set_aside(&mut self, inode: &mut Inode, logical: u64, block: u64, len: u32, taken: u32) {
        if let Some(old) = inode.reserve.take() {
            self.space.give(old.block, old.len);
        }
        if len > taken {
            let (logical, block) = (logical + u64::from(taken), block + u64::from(taken));
            inode.reserve = Some(Reserve { logical, block, len: len - taken });
        }
    }

    /// ext4_discard_preallocations, xfs_free_eofblocks: on the last close.
    pub fn release_reserve(&mut self, inode: &mut Inode) {
        if let Some(r) = inode.reserve.take() {
            self.space.give(r.block, r.len);
        }
    }

    /// The same of what writers of small files have.
    pub fn release_localities(&mut self) {
        for l in std::mem::take(&mut self.localities).into_iter().filter(|l| l.len > 0) {
            self.space.give(l.block, l.len);
        }
    }

    fn take_small(&mut self, goal: u64, want: u32, core: u32) -> Option<(u64, u32)> {
        let core = core as usize;
        if self.localities.len() <= core {
            self.localities.resize(core + 1, Locality::default());
        }
        if self.localities[core].len < want {
            let old = std::mem::take(&mut self.localities[core]);
            if old.len > 0 {
                self.space.give(old.block, old.len);
            }
            let size = self.config.ext4.group_prealloc.max(want);
            let (block, len) = self.space.allocate(goal, size, false)?;
            self.localities[core] = Locality { block, len };
        }
        let l = &mut self.localities[core];
        let (block, len) = (l.block, l.len.min(want));
        l.block += u64::from(len);
        l.len -= len;
        Some((block, len))
    }

    /// ext4_inode_to_goal_block; XFS: behind the inode.
    fn goal(&self, inode: &Inode, core: u32) -> u64 {
        let e = &self.config.ext4;
        if self.kind == FsKind::Xfs {
            return inode.block;
        }
        let mut group = inode.group;
        if e.flex_groups >= 4 {
            group &= !(e.flex_groups - 1);
            if !inode.is_dir && group + 1 < self.space.groups() {
                group += 1;
            }
        }
        let first = self.space.first_of(group);
        if e.delalloc {
            return first;
        }
        // Without delayed allocation writers start apart, by process.
        first + u64::from(core % 16) * (u64::from(self.per_group) / 16)
    }

    /// Blocks are free again. What has to be logged for it.
    pub fn free_items(&self, block: u64, items: &mut Vec<Item>) {
        self.space_items(block, items);
    }

    /// Metadata blocks that must be in memory before `items` can be changed.
    pub fn reads<'a>(&'a self, items: &'a [Item]) -> impl Iterator<Item = u64> + 'a {
        items.iter().filter_map(|item| match item {
            Item::Block(b) if self.formatted.contains(b) => Some(*b),
            _ => None,
        })
    }

    /// Blocks a look-up of `hash` goes through.
    pub fn lookup(&self, dir: &Dir, hash: u32) -> Vec<u64> {
        let mut blocks = Vec::new();
        let Some((_, leaf)) = dir.leaf(hash) else { return blocks };
        if let Some(&root) = dir.index.first() {
            blocks.push(root);
            if dir.index.len() > 1 {
                let nodes = dir.index.len() as u64 - 1;
                blocks.push(dir.index[1 + ((u64::from(hash) * nodes) >> 32) as usize]);
            }
        }
        blocks.push(leaf.block);
        if self.kind == FsKind::Xfs && !dir.data.is_empty() {
            // The entry itself, in the data block its leaf names.
            blocks.push(dir.data[((u64::from(hash) * dir.data.len() as u64) >> 32) as usize]);
        }
        blocks
    }

    /// Adds an entry to a directory: the blocks that change.
    pub fn add_entry(
        &mut self,
        dir: &mut Dir,
        inode: &mut Inode,
        hash: u32,
        name_len: u8,
        items: &mut Vec<Item>,
    ) -> Option<()> {
        let goal = dir.leaves.values().next().map_or_else(|| self.goal(inode, 0), |l| l.block);
        let bytes = entry_bytes(name_len);
        // XFS: a leaf holds hashes of 8 bytes, the entries are in data blocks.
        let in_leaf = if self.kind == FsKind::Xfs { 8 } else { bytes };
        if self.kind == FsKind::Xfs {
            if dir.data.is_empty() || dir.data_used + bytes > 4096 - 64 {
                dir.data.push(self.new_block(goal, items)?);
                dir.data_used = 0;
                inode.size += 4096;
            }
            dir.data_used += bytes;
            items.extend(dir.data.last().map(|&b| Item::Block(b)));
        }
        let new = match dir.splits(hash, in_leaf) {
            true => {
                inode.size += if self.kind == FsKind::Ext4 { 4096 } else { 0 };
                Some(self.new_block(goal, items)?)
            }
            false => None,
        };
        let leaf = dir.insert(hash, in_leaf, new);
        items.push(Item::Block(leaf));
        if new.is_some() && dir.leaves.len() > 1 {
            // An index over more than one leaf: a root, and nodes of 511 once it is full.
            let nodes = dir.leaves.len().div_ceil(511);
            let wanted = if nodes > 1 { 1 + nodes } else { 1 };
            while dir.index.len() < wanted {
                let block = self.new_block(goal, items)?;
                dir.index.push(block);
            }
            items.extend(self.lookup(dir, hash).first().map(|&b| Item::Block(b)));
            if dir.index.len() > 1 {
                items.extend(self.lookup(dir, hash).get(1).map(|&b| Item::Block(b)));
            }
        }
        Some(())
    }

    pub fn remove_entry(&self, dir: &mut Dir, hash: u32, name_len: u8, items: &mut Vec<Item>) {
        let bytes = if self.kind == FsKind::Xfs { 8 } else { entry_bytes(name_len) };
        items.extend(dir.remove(hash, bytes).map(Item::Block));
        if self.kind == FsKind::Xfs {
            items.extend(self.lookup(dir, hash).last().map(|&b| Item::Block(b)));
        }
    }

    /// Bytes of a log item (XFS): chunks of 128 bytes of a block, an inode's core and extents.
    pub fn item_bytes(&self, item: Item) -> u32 {
        match item {
            Item::Block(_) => 128 + 24,
            Item::Inode(_) => 56 + 176,
        }
    }
}

/// sparse_super: groups 0, 1 and the powers of 3, 5 and 7.
fn has_super(group: u32) -> bool {
    let power = |base: u32| {
        let mut n = base;
        while n < group {
            n = n.saturating_mul(base);
        }
        n == group
    };
    group <= 1 || power(3) || power(5) || power(7)
}

/// ext2fs_default_journal_size (e2fsprogs, lib/ext2fs/mkjournal.c).
fn journal_blocks(blocks: u64) -> u32 {
    match blocks {
        0..32_768 => 1024,
        32_768..262_144 => 4096,
        262_144..524_288 => 8192,
        524_288..4_194_304 => 16_384,
        4_194_304..8_388_608 => 32_768,
        8_388_608..16_777_216 => 65_536,
        16_777_216..33_554_432 => 131_072,
        _ => 262_144,
    }
}

/// ext4_mb_normalize_request: how much to set aside for a file that will end at block `end`.
fn normalized(end: u64, logical: u64, per_group: u32) -> u32 {
    const MIB: u64 = 256;
    let window = match end {
        0..=MIB => {
            return (end.next_power_of_two() - logical.min(end)).min(u64::from(per_group)) as u32;
        }
        257..=1024 => 2 * MIB,
        1025..=2048 => 4 * MIB,
        _ => 8 * MIB,
    };
    let into = logical % window;
    (window - into).min(u64::from(per_group)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backups_stand_where_mke2fs_puts_them() {
        let with: Vec<u32> = (0..130).filter(|&g| has_super(g)).collect();
        assert_eq!(with, [0, 1, 3, 5, 7, 9, 25, 27, 49, 81, 125]);
    }

    #[test]
    fn requests_are_rounded_as_in_mballoc() {
        // A file of 100 KiB written at once takes 128 KiB; one that grows takes windows of 2 MiB.
        assert_eq!(normalized(25, 0, 32_768), 32);
        assert_eq!(normalized(300, 256, 32_768), 256);
        assert_eq!(normalized(900, 700, 32_768), 324);
        assert_eq!(normalized(5000, 0, 32_768), 2048);
    }

    #[test]
    fn the_journal_has_the_size_mke2fs_gives_it() {
        assert_eq!(journal_blocks(8 << 18), 16_384); // 8 GiB: 64 MiB
        assert_eq!(journal_blocks(745 << 18), 262_144); // 745 GiB: 1 GiB
    }
}
