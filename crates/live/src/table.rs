//! Numbered records of any kind, with reuse of their numbers.

use wordline_base::IdVec;

pub struct Table<T> {
    items: IdVec<u32, Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table { items: IdVec::new(), free: Vec::new() }
    }
}

impl<T> Table<T> {
    pub fn insert(&mut self, item: T) -> u32 {
        match self.free.pop() {
            Some(key) => {
                self.items[key] = Some(item);
                key
            }
            None => {
                self.items.push(Some(item));
                self.items.count() - 1
            }
        }
    }
    pub fn take(&mut self, key: u32) -> Option<T> {
        let item = self.items.get_mut(key)?.take()?;
        self.free.push(key);
        Some(item)
    }
    pub fn remove(&mut self, key: u32) -> T {
        self.take(key).expect("a record that is there")
    }
    pub fn get(&self, key: u32) -> Option<&T> {
        self.items.get(key)?.as_ref()
    }
    pub fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        self.items.get_mut(key)?.as_mut()
    }
    pub fn keys(&self) -> impl Iterator<Item = u32> + '_ {
        let there = |(key, item): (usize, &Option<T>)| item.is_some().then_some(key as u32);
        self.items.iter().enumerate().filter_map(there)
    }
    pub fn values(&self) -> impl Iterator<Item = &T> + '_ {
        self.items.iter().flatten()
    }
    pub fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }
}

impl<T> std::ops::Index<u32> for Table<T> {
    type Output = T;
    fn index(&self, key: u32) -> &T {
        self.items[key].as_ref().expect("a record that is there")
    }
}
impl<T> std::ops::IndexMut<u32> for Table<T> {
    fn index_mut(&mut self, key: u32) -> &mut T {
        self.items[key].as_mut().expect("a record that is there")
    }
}
