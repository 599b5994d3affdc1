//! Storage with stable `u32` keys and reuse of freed ones, lowest-recently-freed last.

#[derive(Clone, Debug)]
pub struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { items: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub fn with_capacity(n: usize) -> Slab<T> {
        Slab { items: Vec::with_capacity(n), free: Vec::with_capacity(n) }
    }
    pub fn insert(&mut self, item: T) -> u32 {
        match self.free.pop() {
            Some(key) => {
                self.items[key as usize] = Some(item);
                key
            }
            None => {
                self.items.push(Some(item));
                (self.items.len() - 1) as u32
            }
        }
    }
    pub fn remove(&mut self, key: u32) -> T {
        let item = self.items[key as usize].take().expect("slab key is in use");
        self.free.push(key);
        item
    }
    pub fn get(&self, key: u32) -> Option<&T> {
        self.items.get(key as usize).and_then(Option::as_ref)
    }
    pub fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The items in use, by key.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.items.iter().enumerate().filter_map(|(k, i)| i.as_ref().map(|i| (k as u32, i)))
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;
    fn index(&self, key: u32) -> &T {
        self.items[key as usize].as_ref().expect("slab key is in use")
    }
}
impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, key: u32) -> &mut T {
        self.items[key as usize].as_mut().expect("slab key is in use")
    }
}
