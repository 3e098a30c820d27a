//! The end of groups whose ranks are all in this process.

use super::*;
use crate::arena::AGREEMENT;

/// The boards of so many ranks.
fn boards(world: usize) -> Vec<Board> {
    let place = || {
        let arena = Arena::create(AGREEMENT, 1 << 20).unwrap();
        let block = arena.alloc(Board::BYTES, Board::BYTES).unwrap();
        let offset = block.offset();
        block.abandon();
        (arena, offset)
    };
    let places: Vec<(Arena, usize)> = (0..world).map(|_| place()).collect();
    let patience = Patience::for_ranks(world, 1);
    (0..world).map(|me| Board::new(me, &places, patience).unwrap()).collect()
}

fn said(board: &Board) -> Option<(usize, Vec<u8>)> {
    match board.alarm().end()? {
        End::By { rank, mut verdict } => {
            assert_eq!(verdict.len(), Alarm::VERDICT);
            let rest = verdict.split_off(5);
            assert!(rest.iter().all(|&byte| byte == 0));
            Some((rank, verdict))
        }
        nonsense => panic!("{nonsense:?}"),
    }
}

#[test]
fn every_rank_hears_what_the_first_has_said_first() {
    let boards = boards(3);
    assert!(boards.iter().all(|board| !board.is_halted() && board.alarm().end().is_none()));
    boards[1].alarm().halt(b"fire!");
    boards[1].alarm().halt(b"water");
    boards[0].alarm().halt(b"earth");
    for board in &boards {
        assert!(board.is_halted());
        assert_eq!(said(board), Some((1, b"fire!".to_vec())));
    }
}

#[test]
fn ranks_that_end_a_group_at_once_hear_the_same() {
    for _ in 0..200 {
        let boards = boards(4);
        let heard: Vec<_> = std::thread::scope(|scope| {
            let end = |(me, board): (usize, &Board)| {
                board.alarm().halt(&[me as u8 + 1; 5]);
                said(board).unwrap()
            };
            let threads: Vec<_> =
                boards.iter().enumerate().map(|it| scope.spawn(move || end(it))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let (by, verdict) = &heard[0];
        assert_eq!(verdict, &[*by as u8 + 1; 5]);
        assert!(heard.iter().all(|it| it == &heard[0]), "{heard:?}");
    }
}

#[test]
fn a_word_that_names_nobody_is_nonsense_until_somebody_says_what_is_wrong() {
    for (scribbled, world) in [(0, 3), (2, 3)] {
        let boards = boards(world);
        for word in [4, u32::MAX] {
            boards[0].blocks.0[scribbled].halted().store(word, Ordering::Relaxed);
            assert!(boards[scribbled].is_halted());
            assert_eq!(boards[scribbled].alarm().end(), Some(End::Nonsense { word }));
        }
        boards[1].alarm().halt(b"fire!");
        for board in &boards {
            assert_eq!(said(board), Some((1, b"fire!".to_vec())));
        }
    }
}
