//! Sizes that not every rank knows.

use consort_sys::view::Source;

use super::super::drive::{Need, Turns, View};

/// Every rank publishes a table and learns everyone's.
pub(super) struct Tables<F> {
    mine: Vec<u8>,
    learn: F,
}

impl<F: FnMut(usize, &[u64])> Tables<F> {
    pub(super) fn new(mine: &[u64], learn: F) -> Self {
        let count = mine.len() as u64;
        let words = std::iter::once(&count).chain(mine);
        Self { mine: words.flat_map(|word| word.to_le_bytes()).collect(), learn }
    }
}

impl<F: FnMut(usize, &[u64])> Turns for Tables<F> {
    fn posts(&self) -> u32 {
        1
    }

    fn turns(&self) -> u32 {
        1
    }

    fn publish(&mut self, turn: u32, view: &View<'_>) -> Source<'_> {
        view.mine(turn).slice(0..self.mine.len()).copy_from(self.mine[..].into());
        Source::from(&[][..])
    }

    fn after(&self, turn: u32) -> Need {
        Need::Everyone(turn)
    }

    fn consume(&mut self, turn: u32, view: &View<'_>) {
        for rank in 0..view.world() {
            let table = view.buffer_of(rank, turn);
            let count = words(table.slice(0..WORD))[0];
            // A table has a word, or one for each rank; another count is nonsense.
            let count = if count == 1 { 1 } else { view.world() };
            (self.learn)(rank, &words(table.slice(WORD..WORD * (count + 1))));
        }
    }
}

fn words(bytes: Source<'_>) -> Vec<u64> {
    let bytes = bytes.to_vec();
    bytes
        .chunks_exact(WORD)
        .map(|word| u64::from_le_bytes(word.try_into().expect("eight")))
        .collect()
}

const WORD: usize = 8;
