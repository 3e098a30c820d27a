//! What ranks of one process hear, of each other and of what somebody has scribbled.

use std::time::Duration;

use consort_sys::arena::Arena;
use consort_sys::board::{Alarm, Board};
use consort_sys::view::Source;

use crate::backend::Terms;
use crate::call::Call;
use crate::engine::lane::Lane;
use crate::engine::lane::tests::lanes;
use crate::engine::verdict::{Cause, Waiting};
use crate::error::Error;

fn scribble((arena, board): &(Arena, usize), at: usize, bytes: &[u8]) {
    arena.view(board + at, bytes.len()).unwrap().copy_from(Source::from(bytes));
}

/// What a call gives on a rank, which is what the rank knows without one.
fn called(lane: &mut Lane) -> Error {
    let error = lane.run(&Call::Barrier, Terms::within(Duration::from_secs(60)), None).unwrap_err();
    assert_eq!(lane.lookout().error().unwrap().to_string(), error.to_string());
    error
}

#[test]
fn every_rank_gets_what_the_first_has_found_with_all_its_fields() {
    let waiting = Waiting { call: "barrier".to_owned(), number: 7, waited: Duration::from_secs(3) };
    let causes = [
        Cause::Dead { rank: 2, waiting: waiting.clone() },
        Cause::Late { missing: [0, 2].into_iter().collect(), waiting },
        Cause::Differs { number: 7, mine: "one".into(), rank: 0, theirs: "other".into() },
        Cause::Unable { reason: "no memory".to_owned() },
        Cause::Aborted { reason: "enough".to_owned() },
    ];
    for cause in causes {
        let (mut lanes, _) = lanes(3);
        let found = lanes[1].lookout().decide(cause);
        // Who finds something else afterwards hears of the first.
        let later = lanes[0].lookout().decide(Cause::Aborted { reason: "too late".to_owned() });
        assert_eq!(later.to_string(), found.to_string());
        for lane in &mut lanes {
            assert_eq!(called(lane).to_string(), found.to_string());
        }
        assert!(matches!(
            found,
            Error::PeerLost { by: 1, rank: 2, number: 7, .. }
                | Error::Late { by: 1, number: 7, .. }
                | Error::Mismatch { number: 7, first: (1, _), second: (0, _), .. }
                | Error::Unable { rank: 1, .. }
                | Error::Aborted { by: 1, .. }
        ));
    }
}

#[test]
fn a_word_that_names_nobody_ends_the_group_everywhere_and_is_called_damaged() {
    for (rank, word) in [(0, 4_u32), (1, 4), (2, u32::MAX)] {
        let (mut lanes, boards) = lanes(3);
        scribble(&boards[rank], HALTED, &word.to_ne_bytes());
        let found = called(&mut lanes[rank]);
        let told = format!(
            "group few: what came from rank {rank} is damaged: {word:#x} is no rank that could have \
             ended the group"
        );
        assert_eq!(found.to_string(), told);
        for lane in &mut lanes {
            assert_eq!(called(lane).to_string(), told);
        }
    }
}

#[test]
fn a_verdict_that_cannot_be_read_is_called_damaged_on_every_other_rank() {
    let (mut lanes, boards) = lanes(3);
    lanes[1].lookout().abort("enough");
    scribble(&boards[1], Board::BYTES - Alarm::VERDICT, &[0xff; 100]);
    for rank in [0, 2] {
        let error = called(&mut lanes[rank]);
        assert!(matches!(error, Error::Damaged { rank: 1, .. }), "{error}");
    }
}

/// Where a board has the word that says who has ended the group.
const HALTED: usize = 64;
