//! Units that are not programmed: found by their number, or at once by the slot of their record.

use crate::USER;
use crate::log::Meta;
use crate::space::Unit;
use std::collections::BTreeMap;
use wordline_base::IdVec;

/// Where a unit's record is, for as long as the unit is not programmed.
pub(crate) type Slot = u32;

/// A unit that is not programmed.
#[derive(Clone, Default, Debug)]
pub(crate) struct Open {
    pub point: usize,
    pub filled: u32,
    /// Sectors that the collector moved.
    pub moved: u32,
    /// Those of them that are in the drive.
    pub inside: u32,
    /// Runs in use no more, of which the drive is told with its program.
    pub replaced: u32,
    /// Where each run of sectors begins, and the number in the log of its first.
    pub runs: Vec<(u32, u64)>,
    pub metas: Vec<(u32, Meta)>,
    /// Sectors on their way over the link, by operations.
    pub stages: u32,
    /// Nothing is appended any more.
    pub closed: bool,
    /// Turns that end with its program, and at what point they are.
    pub turns: Vec<(usize, u64)>,
}

impl Open {
    /// It takes up memory of the host's.
    pub fn is_on_host(&self) -> bool {
        self.point == USER || self.filled > self.inside
    }
}

#[derive(Clone, Default)]
pub(crate) struct Units {
    slots: BTreeMap<Unit, Slot>,
    records: IdVec<Slot, Open>,
    free: Vec<Slot>,
    /// How many take up memory of the host's.
    on_host: usize,
}

impl Units {
    pub fn len(&self) -> usize {
        self.slots.len()
    }
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
    /// How many take up memory of the host's.
    pub fn on_host(&self) -> usize {
        self.on_host
    }
    /// A unit that is not there: its slot.
    pub fn insert(&mut self, unit: Unit, open: Open) -> Slot {
        self.on_host += usize::from(open.is_on_host());
        let slot = match self.free.pop() {
            Some(slot) => {
                self.records[slot] = open;
                slot
            }
            None => {
                self.records.push(open);
                (self.records.len() - 1) as Slot
            }
        };
        self.slots.insert(unit, slot);
        slot
    }
    pub fn remove(&mut self, unit: Unit) -> Option<Open> {
        let slot = self.slots.remove(&unit)?;
        self.free.push(slot);
        let open = std::mem::take(&mut self.records[slot]);
        self.on_host -= usize::from(open.is_on_host());
        Some(open)
    }
    /// So many sectors more fill it; the collector's may be `inside` the drive.
    pub fn fill(&mut self, slot: Slot, sectors: u32, inside: u32) -> &mut Open {
        let open = &mut self.records[slot];
        self.on_host -= usize::from(open.is_on_host());
        open.filled += sectors;
        open.inside += inside;
        self.on_host += usize::from(open.is_on_host());
        open
    }
    pub fn get(&self, unit: Unit) -> Option<&Open> {
        Some(&self.records[*self.slots.get(&unit)?])
    }
    pub fn get_mut(&mut self, unit: Unit) -> Option<&mut Open> {
        Some(&mut self.records[*self.slots.get(&unit)?])
    }
    /// The unit in a slot.
    #[inline]
    pub fn at(&mut self, slot: Slot) -> &mut Open {
        &mut self.records[slot]
    }
    /// All of them, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (Unit, &Open)> {
        self.slots.iter().map(|(&unit, &slot)| (unit, &self.records[slot]))
    }
    pub fn opens(&self) -> impl Iterator<Item = &Open> {
        self.iter().map(|(_, open)| open)
    }
}

impl std::ops::Index<Unit> for Units {
    type Output = Open;
    fn index(&self, unit: Unit) -> &Open {
        self.get(unit).expect("it is not programmed")
    }
}
