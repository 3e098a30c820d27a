use std::sync::mpsc;
use std::thread;

use super::*;
use crate::arena::AGREEMENT;
use crate::lock::Latch;
use crate::view::Source;

/// The windows of so many ranks, all of them in this process.
fn ranks(world: usize, channels: usize, bytes: usize) -> Vec<Windows> {
    let shape = Shape { world, channels, bytes };
    let places: Vec<Place> = (0..world)
        .map(|_| {
            let arena = Arena::create(AGREEMENT, 4 << 20).unwrap();
            let take = |bytes| arena.alloc(bytes, LINE).unwrap();
            let (control, data) = (take(shape.control_bytes().unwrap()), take(bytes));
            let place = Place { control: control.offset(), data: data.offset(), arena };
            control.abandon();
            data.abandon();
            place
        })
        .collect();
    let patience = Patience::for_ranks(8, 2);
    let windows = |me| Windows::new(me, shape, places.clone(), patience).unwrap();
    (0..world).map(windows).collect()
}

/// For waits that succeed.
fn go_on(_: Result<&[usize], Damaged>) -> Result<(), &'static str> {
    Ok(())
}

#[test]
fn what_one_rank_writes_alone_another_reads() {
    let ranks = ranks(2, 1, 100);
    let mut guard = ranks[0].alone(1, go_on).unwrap();
    let elements = guard.elements_mut::<u64>();
    assert_eq!(elements, [0; 12]);
    elements.copy_from_slice(&[7; 12]);
    drop(guard);
    assert_eq!(ranks[1].alone(1, go_on).unwrap().elements::<u64>(), [7; 12]);
    let other = ranks[1].visit(0, go_on).unwrap();
    assert_eq!(Source::from(other.view()).to_vec(), [0; 100]);
}

#[test]
fn a_window_that_is_owned_outlives_its_handle_and_is_given_back_by_any_thread() {
    let mut ranks = ranks(2, 1, 100);
    let windows = Arc::new(ranks.swap_remove(0));
    let mut owned = windows.owned_alone(0, go_on).unwrap();
    owned.elements_mut::<u64>()[11] = 7;
    drop(windows);
    let (wants, is_wanted) = mpsc::channel();
    thread::scope(|scope| {
        let other = &ranks[0];
        let waiting = scope.spawn(move || {
            let mut told = Vec::new();
            let alone = other.alone(0, |holders| {
                told.push(holders.unwrap().to_vec());
                wants.send(()).map_err(|_| "gone")
            });
            assert_eq!(alone.unwrap().elements::<u64>()[10..], [8, 7]);
            told
        });
        is_wanted.recv().unwrap();
        let held = move || {
            assert_eq!((owned.rank(), owned.elements::<u64>()[11]), (0, 7));
            owned.elements_mut::<u64>()[10] = 8;
            drop(owned);
        };
        scope.spawn(held).join().unwrap();
        // It was told of the holder, and of nobody in the moment in which that had just gone.
        let told = waiting.join().unwrap();
        assert_eq!(told[0], [0]);
        assert!(told.iter().all(|holders| holders.iter().all(|&rank| rank == 0)), "{told:?}");
    });
}

/// It may be given back by a thread that is not waiting.
#[test]
fn who_waits_for_a_window_that_its_own_process_owns_is_told_of_its_own_rank() {
    let windows = Arc::new(ranks(1, 1, 8).remove(0));
    let gave_up = |holders: Result<&[usize], Damaged>| Err(holders.unwrap().to_vec());
    let owned = windows.owned_alone(0, go_on).unwrap();
    assert!(!windows.is_held_here(0));
    assert_eq!(windows.alone(0, gave_up).unwrap_err(), [0]);
    assert_eq!(windows.owned_alone(0, gave_up).unwrap_err(), [0]);
    assert_eq!(windows.visit(0, gave_up).unwrap_err(), [0]);
    thread::spawn(move || drop(owned)).join().unwrap();
    let here = windows.alone(0, gave_up).unwrap();
    assert!(windows.is_held_here(0));
    drop(here);
    assert!(!windows.is_held_here(0));
    assert!(windows.owned_alone(0, gave_up).is_ok());
}

#[test]
fn owned_windows_that_go_from_thread_to_thread_lose_nothing() {
    let ranks: Vec<Arc<Windows>> = ranks(3, 1, 8).into_iter().map(Arc::new).collect();
    thread::scope(|scope| {
        for windows in &ranks {
            let (hand_on, handed) = mpsc::sync_channel::<OwnedAlone>(0);
            scope.spawn(move || {
                for _ in 0..500 {
                    let mut owned = windows.owned_alone(1, go_on).unwrap();
                    owned.elements_mut::<u64>()[0] += 1;
                    hand_on.send(owned).unwrap();
                }
            });
            scope.spawn(move || {
                handed.into_iter().for_each(|mut owned| owned.elements_mut::<u64>()[0] += 1);
            });
        }
    });
    assert_eq!(ranks[0].alone(1, go_on).unwrap().elements::<u64>(), [3_000]);
}

#[test]
fn a_wait_for_a_window_is_told_who_has_it() {
    let ranks = ranks(3, 1, 8);
    let gave_up = |holders: Result<&[usize], Damaged>| Err(holders.unwrap().to_vec());
    let alone = ranks[2].alone(0, go_on).unwrap();
    assert_eq!(ranks[0].alone(0, gave_up).unwrap_err(), [2]);
    assert_eq!(ranks[1].visit(0, gave_up).unwrap_err(), [2]);
    drop(alone);
    let visits = [ranks[0].visit(0, go_on).unwrap(), ranks[2].visit(0, go_on).unwrap()];
    assert_eq!(ranks[1].alone(0, gave_up).unwrap_err(), [0, 2]);
    drop(visits);
    assert!(ranks[1].alone(0, gave_up).is_ok());
}

#[test]
fn who_waits_to_be_alone_comes_before_those_who_copy_later() {
    let ranks = ranks(3, 1, 8);
    let visit = ranks[0].visit(0, go_on).unwrap();
    let (waits, is_waiting) = mpsc::channel();
    thread::scope(|scope| {
        let alone = scope.spawn(|| {
            ranks[2].alone(0, |_| waits.send(()).map_err(|_| "gone")).map(drop).unwrap();
        });
        is_waiting.recv().unwrap();
        let gave_up = |holders: Result<&[usize], Damaged>| Err(holders.unwrap().to_vec());
        assert_eq!(ranks[1].visit(0, gave_up).unwrap_err(), [0, 2]);
        drop(visit);
        alone.join().unwrap();
    });
    assert!(ranks[1].visit(0, go_on).is_ok());
}

#[test]
fn a_lock_that_somebody_has_scribbled_on_is_called_damaged() {
    let ranks = ranks(2, 1, 8);
    let told = |told: Result<&[usize], Damaged>| Err(told.unwrap_err().to_string());
    for state in [9 << 16, u32::MAX, 77] {
        let visit = ranks[1].visit(0, go_on).unwrap();
        let control = ranks[0].control(0);
        control.state().store(state, std::sync::atomic::Ordering::Relaxed);
        let complaint = ranks[0].alone(0, told).unwrap_err();
        assert!(complaint.starts_with("the lock of its window is in state 0x"), "{complaint}");
        control.state().store(0, std::sync::atomic::Ordering::Relaxed);
        drop(visit);
        assert!(ranks[0].alone(0, go_on).is_ok());
    }
}

#[test]
fn what_comes_while_giving_up_is_taken() {
    let ranks = ranks(2, 1, 8);
    let late = || {
        ranks[1].signal(0, 0);
        Err("too late")
    };
    assert_eq!(ranks[0].await_signal(1, 0, late), Ok(()));
    assert_eq!(ranks[0].await_signal(1, 0, || Err("too late")), Err("too late"));
}

#[test]
fn threads_that_add_under_the_lock_lose_nothing() {
    let ranks = ranks(4, 1, 8);
    thread::scope(|scope| {
        for windows in &ranks {
            scope.spawn(|| {
                for _ in 0..2_000 {
                    windows.alone(0, go_on).unwrap().elements_mut::<u64>()[0] += 1;
                }
            });
        }
    });
    assert_eq!(ranks[0].alone(0, go_on).unwrap().elements::<u64>(), [8_000]);
}

#[test]
fn signals_of_different_ranks_and_channels_are_kept_apart() {
    let mut ranks = ranks(3, 4, 0);
    ranks[1].signal(0, 2);
    ranks[1].signal(0, 2);
    ranks[2].signal(0, 3);
    for (from, channel, count) in [(1, 2, 2), (2, 3, 1), (1, 3, 0), (2, 2, 0), (0, 2, 0)] {
        assert_eq!(ranks[0].signals(from, channel), count, "{from} on {channel}");
    }
    for _ in 0..2 {
        ranks[0].await_signal(1, 2, || Err("missing")).unwrap();
    }
    assert_eq!(ranks[0].signals(1, 2), 0);
    ranks[0].clear();
    assert_eq!(ranks[0].signals(2, 3), 0);
}

#[test]
fn counts_wrap_around() {
    let ranks = ranks(2, 1, 0);
    let line = ranks[0].control(0).line(0, 1);
    for word in [line.signals(), line.taken(), line.arrivals()] {
        word.store(u32::MAX, std::sync::atomic::Ordering::Relaxed);
    }
    ranks[1].signal(0, 0);
    assert_eq!(
        (ranks[0].signals(1, 0), line.signals().load(std::sync::atomic::Ordering::Relaxed)),
        (1, 0)
    );
    ranks[0].await_signal(1, 0, || Err("missing")).unwrap();
    assert!(ranks[0].has_arrived(1, 0, u32::MAX) && !ranks[0].has_arrived(1, 0, 0));
    ranks[1].arrive(0);
    assert!(ranks[0].has_arrived(1, 0, 0));
}

#[test]
fn a_window_is_deserted_when_every_rank_has_left_it() {
    let mut ranks = ranks(3, 1, 8);
    for leaving in [1, 0, 2] {
        assert!(ranks.iter().all(|windows| !windows.is_deserted(all_live)));
        ranks[leaving].leave();
    }
    assert!(ranks.iter().all(|windows| windows.is_deserted(all_live)));
    // What one does with its memory then is nothing to the others.
    ranks[0].clear();
    assert!(ranks[1].is_deserted(all_live) && ranks[2].is_deserted(all_live));
}

#[test]
fn a_rank_that_has_ended_has_left_whether_it_said_so_or_not() {
    for said_so in [false, true] {
        let mut ranks = ranks(4, 2, 8);
        let ended = |rank| rank == 2;
        if said_so {
            ranks[2].leave();
        }
        for leaving in [3, 0, 1] {
            // It stands for nobody else.
            assert!(ranks.iter().all(|windows| !windows.is_deserted(ended)), "{said_so}");
            ranks[leaving].leave();
        }
        for windows in &ranks {
            assert!(windows.is_deserted(ended), "{said_so}");
            assert_eq!(windows.is_deserted(all_live), said_so);
        }
    }
}

#[test]
fn a_rank_that_ended_while_it_left_is_gone_from_every_window() {
    let mut ranks = ranks(3, 1, 8);
    // As far as it came.
    leaving::leave(ranks[2].control(0).left(2));
    [0, 1].iter().for_each(|&rank: &usize| ranks[rank].leave());
    assert!(ranks[0].is_deserted(all_live) && !ranks[1].is_deserted(all_live));
    assert!(ranks[..2].iter().all(|windows| windows.is_deserted(|rank| rank == 2)));
}

/// No process has ended.
fn all_live(_: usize) -> bool {
    false
}

#[test]
fn places_that_are_not_in_their_arena_are_refused() {
    let arena = Arena::create(AGREEMENT, 2 << 20).unwrap();
    let place = |control, data| vec![Place { arena: arena.clone(), control, data }];
    let windows = |shape, places| Windows::new(0, shape, places, Patience::for_ranks(1, 1));
    let shape = Shape { world: 1, channels: 2, bytes: 100 };
    let size = arena.size();
    assert!(windows(shape, place(0, 4096)).is_some());
    for (control, data) in [(size - 64, 0), (0, size - 64), (8, 4096), (0, 4100), (size, size)] {
        assert!(windows(shape, place(control, data)).is_none(), "{control}, {data}");
    }
    assert!(windows(Shape { world: 2, ..shape }, place(0, 4096)).is_none());
    assert!(windows(Shape { channels: usize::MAX, ..shape }, place(0, 4096)).is_none());
}
