//! Memory of the program.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::any::Any;
use std::collections::BTreeMap;
use std::ptr::{self, NonNull};
use std::sync::Mutex;

use consort::{Source, Target};
use consort_sys::arena::Shortage;
use consort_sys::memory::Memory;

use crate::failure::{Failure, Result};
use crate::lock;
use crate::raw::Buffer;
use crate::shared::{Place, Shared};

/// Some bytes of the program's: where they begin, and how many they are.
///
/// It is made of what C says, and nothing can check that. As with NCCL, a program that makes a call promises
/// that its buffers are there, as long as the call says, until it is carried out: until it returns, or until
/// its stream was synchronized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    address: usize,
    len: usize,
}

impl Region {
    /// Some bytes, for the argument of this name.
    ///
    /// # Errors
    /// When there should be some, and they are nowhere, or beyond the end of memory.
    pub(crate) fn new(name: &str, buffer: Buffer, len: usize) -> Result<Self> {
        let address = buffer.address();
        if address == 0 && len > 0 {
            return Err(Failure::argument(format!("{name} is NULL, and has to have {len} bytes")));
        }
        let is_beyond = address.checked_add(len).is_none_or(|end| isize::try_from(end).is_err());
        if is_beyond || len > MOST {
            let what = format!("{name} has {len} bytes, which are more than memory can be");
            return Err(Failure::argument(what));
        }
        Ok(Self { address, len })
    }

    /// How many they are.
    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// Where they begin, for C.
    pub(crate) fn address(self) -> usize {
        self.address
    }

    /// Whether others are all among them.
    pub(crate) fn has(self, other: Self) -> bool {
        other.address >= self.address && other.address + other.len <= self.address + self.len
    }

    /// Some of them, if they are there.
    pub(crate) fn part(self, offset: usize, len: usize) -> Option<Self> {
        let end = offset.checked_add(len)?;
        (end <= self.len).then_some(Self { address: self.address + offset, len })
    }

    /// Whether there are bytes that are in both.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        let ends = (self.address + self.len, other.address + other.len);
        self.len > 0 && other.len > 0 && self.address < ends.1 && other.address < ends.0
    }

    /// To be read.
    pub(crate) fn source<'a>(self) -> Source<'a> {
        // SAFETY: C has promised that they are there for as long as the call goes on that this is for, and no
        // Rust reference to memory of the program exists.
        unsafe { Source::from_raw(self.start(), self.len) }
    }

    /// To be written, or read.
    pub(crate) fn target<'a>(self) -> Target<'a> {
        // SAFETY: as for `source`, and C has promised that they can be written.
        unsafe { Target::from_raw(self.start(), self.len) }
    }

    /// What has no bytes may be nowhere.
    fn start(self) -> NonNull<u8> {
        NonNull::new(ptr::with_exposed_provenance_mut(self.address)).unwrap_or(NonNull::dangling())
    }
}

/// Memory for the program, which begins where a page does.
///
/// # Errors
/// When there is not so much.
pub(crate) fn allocate(size: usize) -> Result<*mut u8> {
    let layout = whole_pages(size)?;
    // SAFETY: there is at least a page of it.
    let start = unsafe { alloc_zeroed(layout) };
    if start.is_null() {
        return Err(Failure::system(format!("there is no memory for {size} bytes")));
    }
    lock(&ALLOCATED).insert(start.expose_provenance(), Block::new(Given::Private(layout)));
    perturb(Region { address: start.addr(), len: layout.size() });
    Ok(start)
}

/// As [`allocate`], so that other processes of the host can be given a way to it, if the system lets them.
///
/// # Errors
/// When there is not so much.
pub(crate) fn allocate_shared(size: usize) -> Result<*mut u8> {
    let Ok(shared) = Shared::new(whole_pages(size)?.size()) else {
        return allocate(size);
    };
    let address = shared.address();
    perturb(Region { address, len: shared.len() });
    lock(&ALLOCATED).insert(address, Block::new(Given::Shared(shared)));
    Ok(ptr::with_exposed_provenance_mut(address))
}

/// So many bytes in whole pages, if they can be had.
///
/// # Errors
/// When they cannot.
fn whole_pages(size: usize) -> Result<Layout> {
    let rounded = size.max(1).checked_next_multiple_of(PAGE);
    let layout = rounded.and_then(|size| Layout::from_size_align(size, PAGE).ok());
    let Some(layout) = layout else {
        return Err(Failure::argument(format!("size is {size}, which is more than memory can be")));
    };
    let asked = layout.size();
    if asked >= LOOK_FROM {
        // The system promises more than there is, and kills who uses it.
        let memory = Memory::here();
        if memory.total > 0 && asked as u64 > memory.usable() {
            let shortage = Shortage { asked, memory, refusal: None };
            return Err(Failure::system(format!("out of memory: {shortage}")));
        }
    }
    Ok(layout)
}

/// Has new memory be anything but zero, as that of devices may be, where the C library is told to do so, too.
fn perturb(region: Region) {
    if let Some(byte) = at_first() {
        region.target().fill(byte);
    }
}

/// What every byte of new memory is, if it is to be anything but zero.
fn at_first() -> Option<u8> {
    let byte = std::env::var("MALLOC_PERTURB_").ok().and_then(|value| value.parse::<u8>().ok());
    byte.filter(|&byte| byte != 0).map(|byte| !byte)
}

/// Where other processes find some bytes, and how far behind the beginning of what is there; `None` if they cannot.
pub(crate) fn place_of(region: Region) -> Option<(Place, usize)> {
    let given = lock(&ALLOCATED);
    let (&start, block) = given.range(..=region.address).next_back()?;
    let Given::Shared(shared) = &block.given else {
        return None;
    };
    let offset = region.address - start;
    let is_within = shared.len().checked_sub(offset).is_some_and(|left| left >= region.len);
    is_within.then(|| (shared.place(), offset))
}

/// Keeps memory from being taken back for as long as the hold is there; `None` if it is not of this library's making.
///
/// # Errors
/// When it begins in a piece of this library's making, and goes on behind its end.
pub(crate) fn hold(name: &str, region: Region) -> Result<Option<Hold>> {
    let mut blocks = lock(&ALLOCATED);
    let before = blocks.range_mut(..=region.address).next_back();
    let Some((&start, block)) = before.filter(|(start, it)| region.address < *start + it.len())
    else {
        return Ok(None);
    };
    let left = start + block.len() - region.address;
    if region.len > left {
        return Err(Failure::argument(format!(
            "{name} is {:#x}, and has to have {} bytes: ncclMemAlloc has given {left} from there on",
            region.address, region.len
        )));
    }
    block.holds += 1;
    Ok(Some(Hold { start }))
}

/// A reason not to take memory back.
#[derive(Debug)]
pub(crate) struct Hold {
    start: usize,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(block) = lock(&ALLOCATED).get_mut(&self.start) {
            block.holds -= 1;
        }
    }
}

/// Whether it is a piece of this library's making.
///
/// # Errors
/// When it is none, or was taken back.
pub(crate) fn check(buffer: Buffer) -> Result<()> {
    block_at(&lock(&ALLOCATED), buffer.address()).map(drop)
}

/// Takes it back.
///
/// # Errors
/// When it is none of this library's, or there is a window on it, which others write to.
pub(crate) fn free(buffer: Buffer) -> Result<()> {
    let address = buffer.address();
    let mut blocks = lock(&ALLOCATED);
    if block_at(&blocks, address)?.holds > 0 {
        return Err(Failure::usage(format!(
            "ptr is {address:#x}, and there is a window on it: call ncclCommWindowDeregister, or end the \
             communicator, before it is freed"
        )));
    }
    let block = blocks.remove(&address);
    drop(blocks);
    if let Some(Block { given: Given::Private(layout), .. }) = block {
        // SAFETY: it was given for this layout, and nobody has taken it back.
        unsafe { dealloc(ptr::with_exposed_provenance_mut(address), layout) };
    }
    Ok(())
}

fn block_at(blocks: &BTreeMap<usize, Block>, address: usize) -> Result<&Block> {
    blocks.get(&address).ok_or_else(|| {
        Failure::argument(format!(
            "ptr is {address:#x}, which ncclMemAlloc has not given, or was freed before"
        ))
    })
}

/// Keeps all pieces as they are until what it gives is dropped: see [`fork`](crate::fork).
pub(crate) fn hold_all() -> Box<dyn Any> {
    Box::new(lock(&ALLOCATED))
}

/// A piece of memory that the program has.
struct Block {
    given: Given,
    /// How many reasons there are not to take it back.
    holds: usize,
}

impl Block {
    fn new(given: Given) -> Self {
        Self { given, holds: 0 }
    }

    fn len(&self) -> usize {
        match &self.given {
            Given::Private(layout) => layout.size(),
            Given::Shared(shared) => shared.len(),
        }
    }
}

/// Where it comes from.
enum Given {
    Private(Layout),
    /// It is taken back when this is dropped.
    Shared(Shared),
}

/// What the program has, by where it begins.
static ALLOCATED: Mutex<BTreeMap<usize, Block>> = Mutex::new(BTreeMap::new());
/// What windows have to begin with, too.
pub(crate) const PAGE: usize = 4096;
/// As many bytes as a process has addresses: a group counts on that when it numbers the parts of what it moves.
const MOST: usize = 1 << 47;
/// To look how much there is takes longer than to give less than this.
const LOOK_FROM: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_begins_with_a_page_and_is_taken_back_once() {
        let makers = [allocate, allocate_shared];
        for (make, size) in
            makers.into_iter().flat_map(|make| [0, 1, 4096, 70_001].map(|it| (make, it)))
        {
            let start = make(size).unwrap();
            assert!(start.addr().is_multiple_of(PAGE));
            // SAFETY: it is there until it is freed.
            let buffer = unsafe { Buffer::from_raw(start.cast()) };
            let region = Region::new("it", buffer, size).unwrap();
            assert_eq!(region.source().to_vec(), vec![at_first().unwrap_or(0); size]);
            region.target().fill(7);
            free(buffer).unwrap();
            assert!(free(buffer).unwrap_err().text.contains("freed before"));
        }
        assert!(allocate(usize::MAX).is_err());
        assert!(allocate_shared(usize::MAX).is_err());
    }

    #[test]
    fn what_is_held_is_not_taken_back_and_nothing_is_held_beyond_its_end() {
        for make in [allocate, allocate_shared] {
            let start = make(8192).unwrap();
            // SAFETY: it is there until it is freed.
            let buffer = unsafe { Buffer::from_raw(start.cast()) };
            let region = |offset: usize, len| Region { address: start.addr() + offset, len };
            let holds = [region(0, 8192), region(4096, 1)].map(|it| hold("buff", it).unwrap());
            for hold in holds {
                assert!(free(buffer).unwrap_err().text.contains("there is a window on it"));
                drop(hold.unwrap());
            }
            let beyond = hold("buff", region(4096, 4097)).unwrap_err();
            assert!(beyond.text.contains("given 4096 from there on"), "{}", beyond.text);
            free(buffer).unwrap();
        }
        let mine = [0_u8; 8];
        assert!(hold("buff", Region { address: mine.as_ptr().addr(), len: 8 }).unwrap().is_none());
    }

    #[test]
    fn what_is_shared_is_found_by_others_and_nothing_else_is() {
        let (private, shared) = (allocate(8192).unwrap(), allocate_shared(8192).unwrap());
        let region = |start: *mut u8, len| {
            // SAFETY: it is there until it is freed.
            Region::new("it", unsafe { Buffer::from_raw(start.cast()) }, len).unwrap()
        };
        assert_eq!(place_of(region(private, 8192)), None);
        assert_eq!(place_of(region(shared, 8193)), None);
        let (place, offset) = place_of(region(shared.wrapping_add(4096), 100)).unwrap();
        assert_eq!(offset, 4096);
        let other = Shared::open(place).unwrap();
        region(shared, 8192).target().fill(5);
        let there = region(ptr::with_exposed_provenance_mut(other.address()), 8192);
        assert_eq!(there.source().to_vec(), [5; 8192]);
        for start in [private, shared] {
            // SAFETY: nobody uses it any more.
            free(unsafe { Buffer::from_raw(start.cast()) }).unwrap();
        }
        assert!(Shared::open(place).is_none());
        // What others have of it stays.
        assert_eq!(there.source().to_vec(), [5; 8192]);
    }

    #[test]
    fn what_cannot_be_memory_is_told_by_its_name() {
        // SAFETY: it is not looked at.
        let null = unsafe { Buffer::from_raw(ptr::null_mut()) };
        // SAFETY: it is not looked at.
        let end = unsafe { Buffer::from_raw(ptr::without_provenance_mut(8)) };
        assert!(Region::new("sendbuff", null, 0).is_ok());
        assert!(Region::new("sendbuff", null, 1).unwrap_err().text.starts_with("sendbuff is NULL"));
        for len in [usize::MAX, isize::MAX as usize, 1 << 50, MOST + 1] {
            let text = Region::new("recvbuff", end, len).unwrap_err().text;
            assert!(text.ends_with("bytes, which are more than memory can be"), "{text}");
        }
        assert!(Region::new("recvbuff", end, MOST).is_ok());
        let region = Region::new("buff", end, 10).unwrap();
        assert_eq!(region.part(4, 6), Some(Region { address: 12, len: 6 }));
        assert_eq!((region.part(4, 7), region.part(usize::MAX, 2)), (None, None));
    }
}
