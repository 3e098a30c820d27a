//! Memory of NCCL's making, and memory that it knows.

use consort::nccl::{Code, Memory, MemoryStat, Signals, Stream, WindowOptions, group};
use consort::{Dtype, ReduceOp, Source, Target};
use consort_testkit::{Ranks, ranks};

use crate::meet::{comm, library};

#[test]
fn memory_of_its_own_is_good_for_calls() {
    ranks(2, |ctx| {
        let comm = comm(ctx);
        let memory = Memory::new(library(), 4000).unwrap();
        let known = comm.register(&memory).unwrap();
        // SAFETY: nothing else looks at it before the next call.
        let view = unsafe { memory.on_host() }.unwrap();
        assert_eq!(view.len(), 4000);
        view.fill(ctx.rank() as u8 + 1);
        // SAFETY: the default stream is done when the call returns; all ranks make the same call.
        unsafe { comm.all_reduce(view.into(), view, Dtype::U8, ReduceOp::Sum, Stream::DEFAULT) }
            .unwrap();
        assert_eq!(Source::from(view).to_vec(), [3; 4000]);
        // What is known keeps the memory.
        drop(memory);
        drop(known);
        comm.destroy().unwrap();
    });
}

#[test]
fn other_memory_can_be_made_known() {
    ranks(1, |ctx| {
        let comm = comm(ctx);
        let mut bytes = [0_u8; 100];
        let target = Target::from(&mut bytes[..]);
        // SAFETY: the bytes outlive it.
        let known = unsafe { comm.register_foreign(target) }.unwrap();
        // SAFETY: nothing is made known.
        assert!(unsafe { comm.register_foreign(target.slice(0..0)) }.is_err());
        // What was made known is forgotten with the communicator at the latest.
        comm.destroy().unwrap();
        drop(known);
    });
}

#[test]
fn what_is_dropped_in_a_group_is_known_until_its_end() {
    ranks(2, |ctx| {
        let comm = comm(ctx);
        let memory = Memory::new(library(), 4096).unwrap();
        let (known, window) = (
            comm.register(&memory).unwrap(),
            comm.window(&memory, WindowOptions::default()).unwrap(),
        );
        // SAFETY: nothing else looks at it before the next call.
        let view = unsafe { memory.on_host() }.unwrap();
        view.fill(1);
        group(comm.library(), || {
            // SAFETY: it is left alone until the group has ended; all ranks make the same call.
            unsafe {
                comm.all_reduce(view.into(), view, Dtype::U8, ReduceOp::Sum, Stream::DEFAULT)
            }?;
            drop((known, window));
            Ok(())
        })
        .unwrap();
        assert_eq!(Source::from(view).to_vec(), [2; 4096]);
        comm.destroy().unwrap();
    });
}

#[test]
fn no_memory_at_all_is_refused() {
    assert!(Memory::new(library(), 0).is_err());
}

#[test]
fn windows_are_known_to_all_ranks() {
    ranks(2, |ctx| {
        let comm = comm(ctx);
        let memory = Memory::new(library(), 8192).unwrap();
        let options = WindowOptions { symmetric: true, strict_ordering: false };
        let window = comm.window(&memory, options).unwrap();
        assert_eq!(comm.window_start(&window).unwrap(), memory.as_ptr());
        let mut bytes = [0_u8; 8200];
        let odd = Target::from(&mut bytes[..]).slice(1..1 + 4096);
        let odd = if odd.as_mut_ptr().addr() % 4096 == 0 { odd.slice(1..4096) } else { odd };
        // SAFETY: it is refused.
        let error = unsafe { comm.window_foreign(odd, options) }.unwrap_err();
        assert!(error.to_string().contains("a multiple of 4096 bytes"), "{error}");
        // SAFETY: as above.
        let error = unsafe { comm.window_foreign(odd.slice(0..0), options) }.unwrap_err();
        assert!(error.to_string().contains("no bytes at all"), "{error}");
        drop(window);
        comm.destroy().unwrap();
    });
}

#[test]
fn what_is_put_is_there_when_it_was_told() {
    ranks(3, |ctx| {
        let comm = comm(ctx);
        let memory = Memory::new(library(), 4096).unwrap();
        let options = WindowOptions { symmetric: true, strict_ordering: false };
        let window = comm.window(&memory, options).unwrap();
        let (rank, world) = (ctx.rank(), ctx.world());
        let (next, previous) = ((rank + 1) % world, (rank + world - 1) % world);
        // SAFETY: nothing else looks at it before the next call.
        let view = unsafe { memory.on_host() }.unwrap();
        // What is put is in a window, too.
        let mine = view.slice(1000..1016);
        mine.fill(rank as u8 + 40);
        // SAFETY: the default stream is done when the call returns; the peer looks when it was told.
        unsafe {
            comm.put_signal(mine.into(), Dtype::U8, next, &window, 32, (0, 0), Stream::DEFAULT)
        }
        .unwrap();
        let told = Signals { count: 1, peer: previous, signal: 0, context: 0 };
        comm.wait_signal(&[told], Stream::DEFAULT).unwrap();
        assert_eq!(Source::from(view.slice(32..48)).to_vec(), [previous as u8 + 40; 16]);
        comm.signal(previous, 0, 0, Stream::DEFAULT).unwrap();
        comm.wait_signal(&[Signals { peer: next, ..told }], Stream::DEFAULT).unwrap();
        // SAFETY: it is refused.
        let beyond = unsafe {
            comm.put_signal(mine.into(), Dtype::U8, next, &window, 4090, (0, 0), Stream::DEFAULT)
        };
        assert!(beyond.unwrap_err().to_string().contains("not within the window's 4096"));
        assert!(comm.wait_signal(&[], Stream::DEFAULT).is_err());
        let outside = [0_u8; 16];
        // SAFETY: it is refused.
        let unknown = unsafe {
            comm.put_signal(
                (&outside[..]).into(),
                Dtype::U8,
                next,
                &window,
                0,
                (0, 0),
                Stream::DEFAULT,
            )
        };
        assert!(unknown.unwrap_err().to_string().contains("NCCL_WIN_COLL_SYMMETRIC"));
        drop(window);
        comm.destroy().unwrap();
    });
}

#[test]
fn what_is_put_into_a_window_that_keeps_order_arrives_in_order() {
    ranks(2, |ctx| {
        let comm = comm(ctx);
        let memory = Memory::new(library(), 4096).unwrap();
        let options = WindowOptions { symmetric: true, strict_ordering: true };
        let window = comm.window(&memory, options).unwrap();
        // SAFETY: each part is looked at when nobody writes there.
        let view = unsafe { memory.on_host() }.unwrap();
        let (peer, turns) = (1 - ctx.rank(), 10);
        // Each is one byte shorter than the one before it, of which it leaves the last.
        for turn in 0..turns {
            let mine = view.slice(turn * turns..(turn + 1) * turns - turn);
            mine.fill(turn as u8 + 1);
            let (dtype, signal, stream) = (Dtype::U8, (0, 0), Stream::DEFAULT);
            // SAFETY: it is not changed any more; the peer looks when it was told of all.
            unsafe { comm.put_signal(mine.into(), dtype, peer, &window, 2000, signal, stream) }
                .unwrap();
        }
        let told = Signals { count: turns as u32, peer, signal: 0, context: 0 };
        comm.wait_signal(&[told], Stream::DEFAULT).unwrap();
        let arrived = Source::from(view.slice(2000..2000 + turns)).to_vec();
        assert_eq!(arrived, [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]);
        window.forget().unwrap();
        comm.destroy().unwrap();
    });
}

#[test]
fn a_window_can_be_on_other_memory() {
    ranks(2, |ctx| {
        let comm = comm(ctx);
        let mut bytes = vec![0_u8; 3 * 4096];
        let start = bytes.as_ptr().align_offset(4096);
        let memory = Target::from(&mut bytes[..]).slice(start..start + 8192);
        let options = WindowOptions { symmetric: true, strict_ordering: false };
        // SAFETY: the memory is there until the window was forgotten; the peer writes where this rank expects it.
        let window = unsafe { comm.window_foreign(memory, options) }.unwrap();
        assert_eq!(comm.window_start(&window).unwrap(), memory.as_mut_ptr());
        let (mine, theirs) = (memory.slice(0..1000), memory.slice(5000..6000));
        let peer = 1 - ctx.rank();
        mine.fill(ctx.rank() as u8 + 1);
        // SAFETY: the default stream is done when the call returns; the peer looks when it was told.
        unsafe {
            comm.put_signal(mine.into(), Dtype::U8, peer, &window, 5000, (0, 0), Stream::DEFAULT)
        }
        .unwrap();
        let told = Signals { count: 1, peer, signal: 0, context: 0 };
        comm.wait_signal(&[told], Stream::DEFAULT).unwrap();
        assert_eq!(Source::from(theirs).to_vec(), [peer as u8 + 1; 1000]);
        // Only NCCL's own memory is reached by pointers.
        assert!(comm.peer_pointer(&window, peer, 0).unwrap().is_null());
        window.forget().unwrap();
        comm.destroy().unwrap();
    });
}

/// Each rank writes to the next one's memory, and reads that of the one before, by pointers.
#[test]
fn pointers_lead_to_the_memory_of_other_ranks() {
    ranks(3, |ctx| {
        let comm = comm(ctx);
        let memory = Memory::new(library(), 8192).unwrap();
        let window = comm.window(&memory, WindowOptions::default()).unwrap();
        let (rank, world) = (ctx.rank(), ctx.world());
        let at = |rank: u32, offset, len| {
            let start = comm.peer_pointer(&window, rank, offset).unwrap();
            assert_eq!(comm.near_pointer(&window, rank, offset).unwrap(), start);
            // SAFETY: it is there for as long as the window is.
            unsafe { Target::from_raw(std::ptr::NonNull::new(start).unwrap(), len) }
        };
        assert_eq!(comm.peer_pointer(&window, rank, 0).unwrap(), memory.as_ptr());
        let sum = || {
            // SAFETY: nothing else looks at it before the next call.
            let one = unsafe { memory.on_host() }.unwrap().slice(8000..8004);
            // SAFETY: the default stream is done when the call returns; all ranks make the same call.
            unsafe { comm.all_reduce(one.into(), one, Dtype::U8, ReduceOp::Sum, Stream::DEFAULT) }
                .unwrap();
        };
        at((rank + 1) % world, 4095, 101).fill(rank as u8 + 1);
        sum();
        let previous = (rank + world - 1) % world;
        // SAFETY: nobody writes there any more.
        let mine = Source::from(unsafe { memory.on_host() }.unwrap()).to_vec();
        assert_eq!(
            (mine[4094], &mine[4095..4196], mine[4196]),
            (0, &[previous as u8 + 1; 101][..], 0)
        );
        let before = (previous + world - 1) % world;
        assert_eq!(Source::from(at(previous, 4095, 101)).to_vec(), [before as u8 + 1; 101]);
        sum();
        drop(window);
        comm.destroy().unwrap();
    });
}

#[test]
fn ranks_that_are_kept_apart_have_no_pointers_to_each_other() {
    Ranks::new(2)
        .env("NCCL_P2P_DISABLE", "1")
        .start(|ctx| {
            let comm = comm(ctx);
            let memory = Memory::new(library(), 4096).unwrap();
            let window = comm.window(&memory, WindowOptions::default()).unwrap();
            let (mine, other) = (ctx.rank(), 1 - ctx.rank());
            assert!(comm.peer_pointer(&window, other, 0).unwrap().is_null());
            assert_eq!(
                comm.peer_pointer(&window, mine, 100).unwrap(),
                memory.as_ptr().wrapping_add(100)
            );
            assert_eq!(comm.near_pointer(&window, 0, 0).unwrap(), memory.as_ptr());
            assert!(comm.near_pointer(&window, 1, 0).is_err());
            drop(window);
            comm.destroy().unwrap();
        })
        .expect_all();
}

#[test]
fn what_only_devices_have_is_a_clear_error() {
    ranks(1, |ctx| {
        let comm = comm(ctx);
        assert_eq!(comm.memory_stat(MemoryStat::Total).unwrap(), 0);
        for error in [comm.suspend().unwrap_err(), comm.resume().unwrap_err()] {
            assert_eq!(error.code(), Some(Code::INVALID_USAGE), "{error}");
            assert!(error.to_string().contains("device memory"), "{error}");
        }
        let memory = Memory::new(library(), 4096).unwrap();
        let window = comm.window(&memory, WindowOptions::default()).unwrap();
        assert!(comm.multimem_pointer(&window, 0).is_err());
        assert!(
            comm.peer_pointer(&window, 0, 4097).unwrap_err().to_string().contains("not within")
        );
        drop(window);
        comm.destroy().unwrap();
    });
}
