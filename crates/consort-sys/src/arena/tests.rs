//! An arena in one process. What takes several is in `tests/sharing`.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use rustix::fs::{MemfdFlags, SealFlags, memfd_create};

use super::*;

const MIB: usize = 1 << 20;

fn open_again(arena: &Arena) -> Arena {
    Arena::open(AGREEMENT, arena.as_fd().try_clone_to_owned().unwrap()).unwrap()
}

/// A word of an arena.
fn word(arena: &Arena, offset: usize) -> Option<&AtomicU32> {
    // SAFETY: the tests use a place as a word or as bytes, not both.
    unsafe { arena.word(offset) }
}

fn word64(arena: &Arena, offset: usize) -> Option<&AtomicU64> {
    // SAFETY: as above.
    unsafe { arena.word64(offset) }
}

/// How much memory the arena takes.
fn taken(arena: &Arena) -> usize {
    rustix::fs::fstat(arena).unwrap().st_blocks as usize * 512
}

#[test]
fn what_is_written_is_seen_through_another_mapping() {
    let arena = Arena::create(AGREEMENT, 8 * MIB).unwrap();
    let peer = open_again(&arena);
    let piece = arena.alloc(5, 1).unwrap();
    piece.view().copy_from((&b"hello"[..]).into());
    let seen = peer.view(piece.offset(), piece.len()).unwrap();
    assert_eq!(crate::view::Source::from(seen).to_vec(), b"hello");

    let words = arena.alloc(64, 64).unwrap();
    word(&peer, words.offset() + 4).unwrap().store(7, Ordering::Relaxed);
    word64(&peer, words.offset() + 8).unwrap().store(8, Ordering::Relaxed);
    assert_eq!(word(&arena, words.offset() + 4).unwrap().load(Ordering::Relaxed), 7);
    assert_eq!(word64(&arena, words.offset() + 8).unwrap().load(Ordering::Relaxed), 8);
}

#[test]
fn nothing_beyond_the_end_and_no_crooked_word_is_handed_out() {
    let arena = Arena::create(AGREEMENT, 1).unwrap();
    let size = arena.size();
    assert_eq!(size, 2 * MIB);
    assert_eq!(arena.view(0, size).unwrap().len(), size);
    assert!(arena.view(size, 0).unwrap().is_empty());
    assert!(arena.view(size, 1).is_none() && arena.view(1, size).is_none());
    assert!(arena.view(usize::MAX, 2).is_none());
    assert!(word(&arena, size - 4).is_some() && word64(&arena, size - 8).is_some());
    assert!(word(&arena, size - 3).is_none() && word64(&arena, size - 4).is_none());
    assert!(word(&arena, 2).is_none() && word64(&arena, 4).is_none());
    assert!(word(&arena, usize::MAX - 3).is_none());
}

#[test]
fn memory_is_taken_by_committing_and_given_back_by_dropping() {
    let arena = Arena::create(AGREEMENT, 64 * MIB).unwrap();
    assert_eq!(taken(&arena), 0);
    let piece = arena.reserve(3 * MIB + 1, 1).unwrap();
    assert_eq!((taken(&arena), piece.len()), (0, 3 * MIB + 1));
    piece.commit().unwrap();
    piece.commit().unwrap();
    assert_eq!(taken(&arena), 3 * MIB + size::page());
    let other = arena.alloc(MIB, 1).unwrap();
    drop(piece);
    assert_eq!(taken(&arena), MIB);
    drop(other);
    assert_eq!(taken(&arena), 0);
    assert_eq!(arena.alloc(64 * MIB, 1).unwrap().offset(), 0, "all space came back");
}

#[test]
fn a_new_piece_reads_as_zeroes_where_another_was() {
    let arena = Arena::create(AGREEMENT, 2 * MIB).unwrap();
    let first = arena.alloc(MIB, 1).unwrap();
    first.view().fill(0xAB);
    let place = first.offset();
    drop(first);
    let second = arena.alloc(MIB, 1).unwrap();
    assert_eq!(second.offset(), place);
    assert!(crate::view::Source::from(second.view()).to_vec().iter().all(|&byte| byte == 0));
}

#[test]
fn committing_and_populating_keep_what_was_written() {
    let arena = Arena::create(AGREEMENT, 4 * MIB).unwrap();
    let piece = arena.reserve(MIB, 1).unwrap();
    piece.view().slice(5..8).copy_from((&b"abc"[..]).into());
    piece.populate().unwrap();
    arena.shared.map.touch(piece.offset(), MIB);
    assert_eq!(crate::view::Source::from(piece.view().slice(5..8)).to_vec(), b"abc");
    assert_eq!(taken(&arena), MIB);
    assert!(matches!(arena.populate(4 * MIB, 1), Err(ArenaError::Outside { .. })));
}

#[test]
fn pieces_are_aligned_and_outlive_the_handle() {
    let arena = Arena::create(AGREEMENT, 16 * MIB).unwrap();
    let pieces: Vec<_> = [1, 64, 8192, 4 * MIB].map(|align| arena.alloc(1, align).unwrap()).into();
    for (piece, align) in pieces.iter().zip([1, 64, 8192, 4 * MIB]) {
        assert_eq!(piece.offset() % align, 0);
        assert_eq!(piece.view().as_mut_ptr().addr() % align.min(size::page()), 0);
    }
    drop(arena);
    pieces[3].view().fill(1);
    assert!(pieces[0].arena().alloc(1, 1).is_ok());
}

#[test]
fn an_abandoned_piece_stays_for_those_who_look_at_it() {
    let arena = Arena::create(AGREEMENT, 4 * MIB).unwrap();
    let piece = arena.alloc(MIB, 1).unwrap();
    piece.view().fill(3);
    let place = piece.offset();
    piece.abandon();
    assert_eq!(crate::view::Source::from(arena.view(place, 1).unwrap()).to_vec(), [3]);
    assert_eq!(taken(&arena), MIB);
    assert_ne!(arena.alloc(1, 1).unwrap().offset(), place);
}

#[test]
fn an_allocation_that_cannot_be_is_an_error_and_leaves_the_rest_as_it_was() {
    let arena = Arena::create(AGREEMENT, 4 * MIB).unwrap();
    let half = arena.alloc(2 * MIB, 1).unwrap();
    let error = arena.alloc(3 * MIB, 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no room for 3.0 MiB of shared memory: of 4.0 MiB, the longest free part is 2.0 MiB"
    );
    assert!(matches!(arena.alloc(usize::MAX, 1), Err(ArenaError::NoRoom { .. })));
    assert!(matches!(arena.alloc(1, 3), Err(ArenaError::Alignment(3))));
    assert!(matches!(arena.alloc(1, 0), Err(ArenaError::Alignment(0))));
    assert!(matches!(open_again(&arena).alloc(1, 1), Err(ArenaError::NotOwner)));
    drop(half);
    assert!(arena.alloc(4 * MIB, 1).is_ok());
}

#[test]
fn a_buffer_inside_is_told_from_one_outside() {
    let arena = Arena::create(AGREEMENT, 2 * MIB).unwrap();
    let piece = arena.alloc(100, 1).unwrap();
    let start = piece.view().as_mut_ptr().cast_const();
    assert_eq!(arena.offset_of(start, 100), Some(piece.offset()));
    assert_eq!(arena.offset_of(start.wrapping_add(7), 3), Some(piece.offset() + 7));
    let end = arena.view(arena.size(), 0).unwrap().as_mut_ptr().cast_const();
    assert_eq!(arena.offset_of(end, 0), Some(arena.size()));
    assert_eq!(arena.offset_of(end.wrapping_sub(1), 2), None);
    assert_eq!(arena.offset_of(start, usize::MAX), None);
    let elsewhere = [0_u8; 4];
    assert_eq!(arena.offset_of(elsewhere.as_ptr(), 4), None);
    assert_eq!(open_again(&arena).offset_of(start, 100), None, "another mapping");
}

/// A memory file as a peer might hand it over.
fn file(size: u64, seals: SealFlags) -> OwnedFd {
    let fd = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&fd, size).unwrap();
    rustix::fs::fcntl_add_seals(&fd, seals).unwrap();
    fd
}

#[test]
fn a_file_that_its_owner_could_shorten_is_refused() {
    let refusal = |seals| Arena::open(AGREEMENT, file(2 << 20, seals)).unwrap_err().to_string();
    let all = refusal(SealFlags::empty());
    assert!(all.contains("not sealed against shrinking and growing and further seals"), "{all}");
    let shrink = refusal(SealFlags::GROW | SealFlags::SEAL);
    assert!(shrink.contains("not sealed against shrinking;"), "{shrink}");
    let seal = refusal(SealFlags::GROW | SealFlags::SHRINK);
    assert!(seal.contains("not sealed against further seals;"), "{seal}");
}

#[test]
fn what_is_no_arena_is_refused() {
    let sealed = |size| {
        Arena::open(AGREEMENT, file(size, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL))
    };
    assert!(sealed(2 << 20).is_ok());
    for size in [0, 4096, (2 << 20) - 1] {
        assert!(matches!(sealed(size), Err(ArenaError::Unfit(Unfit::Size(_)))), "{size}");
    }
    let null = std::fs::File::open("/dev/null").unwrap();
    assert!(matches!(
        Arena::open(AGREEMENT, null.into()),
        Err(ArenaError::Unfit(Unfit::NotMemory(_)))
    ));
}

#[test]
fn an_arena_cannot_be_shortened_or_lengthened() {
    let arena = Arena::create(AGREEMENT, 4 * MIB).unwrap();
    for size in [2 << 20, 8 << 20] {
        assert_eq!(rustix::fs::ftruncate(&arena, size), Err(rustix::io::Errno::PERM));
    }
}

#[test]
fn more_than_the_machine_has_is_an_error_that_says_so() {
    let total = crate::memory::Memory::here().total as usize;
    let arena = Arena::create(AGREEMENT, 2 * total).unwrap();
    let error = arena.alloc(total + MIB, 1).unwrap_err();
    assert!(matches!(&error, ArenaError::NoMemory(shortage) if shortage.refusal.is_none()));
    assert!(error.to_string().contains("can still be had"), "{error}");
    assert_eq!(taken(&arena), 0);
    assert!(arena.reserve(2 * total, 1).is_ok(), "the space came back");
}

#[test]
fn the_default_is_at_least_the_memory_there_is() {
    let memory = crate::memory::Memory::here().limit() as usize;
    assert!(Arena::default_size(1, 1) >= memory);
    assert!(Arena::create(AGREEMENT, Arena::default_size(4, 1)).is_ok());
}
