//! Where a call's choices come from.

/// Numbers in order, then zeros.
pub(crate) struct Choices {
    data: std::vec::IntoIter<u32>,
}

impl Choices {
    pub(crate) fn new(data: Vec<u32>) -> Self {
        Self { data: data.into_iter() }
    }

    pub(crate) fn number(&mut self) -> u32 {
        self.data.next().unwrap_or(0)
    }

    /// A number below `n`; 0 where there is none.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((u64::from(self.number()) * n as u64) >> 32) as usize
    }

    pub(crate) fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    /// True once in `n` times.
    pub(crate) fn once_in(&mut self, n: u32) -> bool {
        self.number() > u32::MAX - u32::MAX / n
    }
}
