//! Memory for gradients.

mod attic;
mod given;
mod lines;

use std::any::Any;
use std::sync::Arc;

use consort::device::{self, Device};
use consort::symm::Kept;
use consort::{Group, Source, Target};

pub(crate) use self::attic::Attic;
pub(crate) use self::given::Given;
pub(crate) use self::lines::LINE;
use self::lines::Lines;
use crate::error::Result;

/// So many bytes of gradients, wherever they are.
#[derive(Debug)]
pub(crate) struct Memory {
    len: usize,
    place: Place,
    /// Where it goes in the end, if somebody may look at it then.
    attic: Option<Arc<Attic>>,
}

#[derive(Debug)]
enum Place {
    /// Nowhere yet.
    None,
    /// In memory of this process that begins with a cache line.
    Private(Lines),
    /// Where all ranks of the host reach them.
    Shared(Kept<u8>),
    /// Where the engine has computed them: it has given its memory away.
    Given(Box<dyn Given>),
    /// In the memory of a device, which nobody here can look at.
    Device(device::Memory),
}

impl Memory {
    /// With room for so many bytes, zero at first.
    pub(crate) fn new(len: usize) -> Self {
        Self::at(len, Place::Private(Lines::new(len)))
    }

    /// The same, where all ranks of a group reach each other's, if they share memory and there is enough
    /// of it: calls work on it where it is. Every rank has to call it.
    ///
    /// # Errors
    /// Why the group has ended, if it has.
    pub(crate) fn shared(len: usize, group: &Group) -> Result<Self> {
        if len == 0 || group.world() == 1 || !group.shares_memory() {
            return Ok(Self::new(len));
        }
        match group.symmetric::<u8>(len) {
            Ok(memory) => Ok(Self::at(len, Place::Shared(memory.keep()?))),
            // One of them has no memory left: it is told why, and all others that it is so.
            Err(consort::Error::Asymmetric { .. } | consort::Error::Memory(_)) => {
                Ok(Self::new(len))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The same on a device.
    ///
    /// # Errors
    /// When it has not so much memory left.
    pub(crate) fn on_device(len: usize, device: &Device) -> Result<Self> {
        let mut memory = device.allocate(len)?;
        memory.fill(0..len, 0)?;
        Ok(Self::at(len, Place::Device(memory)))
    }

    /// Whose room is made when it is [needed](Self::ensure), or [given](Self::adopt).
    pub(crate) fn none(len: usize) -> Self {
        Self::at(len, Place::None)
    }

    fn at(len: usize, place: Place) -> Self {
        Self { len, place, attic: None }
    }

    /// The same, which is not given back before the attic is.
    pub(crate) fn kept_by(mut self, attic: &Arc<Attic>) -> Self {
        self.attic = Some(attic.clone());
        self
    }

    /// Makes room, if there is none.
    pub(crate) fn ensure(&mut self) {
        if let Place::None = self.place {
            self.place = Place::Private(Lines::new(self.len));
        }
    }

    /// Takes memory in place of what there was.
    pub(crate) fn adopt(&mut self, memory: Box<dyn Given>) {
        debug_assert_eq!(memory.bytes().len(), self.len, "it is the gradient's");
        self.place = Place::Given(memory);
    }

    /// Gives back what was given, if it is of this type.
    pub(crate) fn take<M: Given + 'static>(&mut self) -> Option<M> {
        let is_it = |memory: &dyn Given| (memory as &dyn Any).is::<M>();
        if !matches!(&self.place, Place::Given(memory) if is_it(&**memory)) {
            return None;
        }
        let Place::Given(memory) = std::mem::replace(&mut self.place, Place::None) else {
            return None;
        };
        let memory: Box<dyn Any> = memory;
        memory.downcast::<M>().ok().map(|memory| *memory)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where it begins, for an engine that writes there by itself; 0 if it is nowhere.
    pub(crate) fn address(&mut self) -> usize {
        match &mut self.place {
            Place::None => 0,
            Place::Private(lines) => lines.address(),
            Place::Shared(window) => window.as_mut_ptr().expose_provenance(),
            Place::Given(memory) => memory.bytes_mut().as_mut_ptr().expose_provenance(),
            Place::Device(memory) => memory.target().as_mut_ptr().expose_provenance(),
        }
    }

    /// That of a device, if it is.
    pub(crate) fn device(&self) -> Option<&device::Memory> {
        if let Place::Device(memory) = &self.place { Some(memory) } else { None }
    }

    /// That of a device, if it is, to be replaced.
    pub(crate) fn device_mut(&mut self) -> Option<&mut device::Memory> {
        if let Place::Device(memory) = &mut self.place { Some(memory) } else { None }
    }

    /// Whether there is room for all of it.
    pub(crate) fn is_there(&self) -> bool {
        self.device().map_or(self.bytes().len(), device::Memory::len) == self.len
    }

    /// All of it by name, wherever it is.
    pub(crate) fn source(&self) -> Source<'_> {
        self.device().map_or_else(|| self.bytes().into(), device::Memory::source)
    }

    /// The same, to be replaced.
    pub(crate) fn target(&mut self) -> Target<'_> {
        if self.device().is_none() {
            return self.bytes_mut().into();
        }
        self.device_mut().expect("it is a device's").target()
    }

    /// None, if there is no room yet, or it is a device's.
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.place {
            Place::None | Place::Device(_) => &[],
            Place::Private(lines) => &lines.bytes()[..self.len],
            Place::Shared(window) => window,
            Place::Given(memory) => memory.bytes(),
        }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.ensure();
        match &mut self.place {
            Place::None | Place::Device(_) => &mut [],
            Place::Private(lines) => &mut lines.bytes_mut()[..self.len],
            Place::Shared(window) => window,
            Place::Given(memory) => memory.bytes_mut(),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(attic) = &self.attic {
            attic.put(std::mem::replace(&mut self.place, Place::None));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_as_long_as_asked_for_once_it_is_needed() {
        for len in [0, 1, 64, 65, 1000] {
            let mut memory = Memory::none(len);
            assert!(memory.bytes().is_empty());
            memory.bytes_mut().fill(7);
            assert_eq!((memory.len(), memory.bytes().len()), (len, len));
            assert!(memory.bytes().iter().all(|byte| *byte == 7));
        }
    }

    #[test]
    fn what_was_given_comes_back_as_it_was_and_only_as_that() {
        let numbers = vec![1.0_f32, 2.0, 3.0];
        let at = numbers.as_ptr();
        let mut memory = Memory::none(12);
        memory.adopt(Box::new(numbers));
        assert_eq!(memory.bytes(), bytemuck::cast_slice::<f32, u8>(&[1.0, 2.0, 3.0]));
        assert!(memory.take::<Vec<f64>>().is_none());
        let back = memory.take::<Vec<f32>>().unwrap();
        assert!(std::ptr::eq(back.as_ptr(), at));
        assert!(memory.bytes().is_empty() && memory.take::<Vec<f32>>().is_none());
    }
}
