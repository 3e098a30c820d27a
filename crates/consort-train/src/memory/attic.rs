//! Where memory is kept that is still looked at.

use std::sync::{Mutex, PoisonError};

use super::Place;

/// Memory that its reducer has done with, while an engine still has views of it: it is given back with
/// the last hold on this. Memory that is moved in stays where it is.
#[derive(Debug, Default)]
pub(crate) struct Attic(Mutex<Vec<Place>>);

impl Attic {
    pub(super) fn put(&self, place: Place) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(place);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::memory::Memory;

    #[test]
    fn what_its_owner_has_dropped_stays_where_it_was_as_long_as_somebody_may_look() {
        let attic = Arc::new(Attic::default());
        let mut memory = Memory::new(1000).kept_by(&attic);
        memory.bytes_mut().fill(7);
        let address = memory.address();
        drop(memory);
        let kept = attic.0.lock().unwrap();
        let [Place::Private(lines)] = &kept[..] else { panic!("{kept:?}") };
        assert_eq!(lines.bytes().as_ptr().addr(), address);
        assert!(lines.bytes()[..1000].iter().all(|byte| *byte == 7));
        assert_eq!(Arc::strong_count(&attic), 1);
    }
}
