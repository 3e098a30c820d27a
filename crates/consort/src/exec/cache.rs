//! What is kept from one call to the next: scripts, and memory.

use std::sync::Arc;

use super::recipe::Recipe;
use super::script::Script;

/// What a group keeps for its next calls.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    /// The last ones used first.
    scripts: Vec<(Key, Arc<Script>)>,
    memory: Vec<u8>,
}

/// What a script depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) recipe: Recipe,
    pub(super) me: usize,
    pub(super) world: usize,
}

impl Cache {
    /// The script of this key, which is written if it is not there.
    pub(super) fn script(&mut self, key: Key, write: impl FnOnce() -> Script) -> Arc<Script> {
        let at = self.scripts.iter().position(|(known, _)| *known == key);
        match at {
            Some(0) => {}
            Some(at) => self.scripts[..=at].rotate_right(1),
            None => {
                self.scripts.truncate(SCRIPTS - 1);
                self.scripts.insert(0, (key, Arc::new(write())));
            }
        }
        Arc::clone(&self.scripts[0].1)
    }

    /// Memory of so many bytes, with anything in it.
    pub(super) fn take_memory(&mut self, len: usize) -> Vec<u8> {
        let mut memory = std::mem::take(&mut self.memory);
        if memory.len() < len {
            memory.clear();
            memory.resize(len, 0);
        }
        memory
    }

    /// Keeps memory for the next call, unless it is unusually much or there is better.
    pub(super) fn give_back(&mut self, memory: Vec<u8>) {
        if memory.len() > self.memory.len() && memory.len() <= MOST_KEPT {
            self.memory = memory;
        }
    }
}

const SCRIPTS: usize = 32;
const MOST_KEPT: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::super::script::Draft;
    use super::*;

    fn key(me: usize) -> Key {
        Key { recipe: Recipe::Alone, me, world: 100 }
    }

    fn get(cache: &mut Cache, me: usize) -> bool {
        let mut written = false;
        let _ = cache.script(key(me), || {
            written = true;
            Draft::default().finish()
        });
        written
    }

    #[test]
    fn a_script_is_written_once_while_it_is_used() {
        let mut cache = Cache::default();
        assert!(get(&mut cache, 0));
        for me in 1..2 * SCRIPTS {
            assert!(get(&mut cache, me), "{me} was not there");
            assert!(!get(&mut cache, 0), "0 is used all the time");
            assert!(cache.scripts.len() <= SCRIPTS);
        }
        assert!(get(&mut cache, 1), "1 was not used for long");
    }

    #[test]
    fn memory_is_used_again() {
        let mut cache = Cache::default();
        let memory = cache.take_memory(1000);
        let place = memory.as_ptr();
        cache.give_back(memory);
        let again = cache.take_memory(10);
        assert_eq!(again.as_ptr(), place);
    }
}
