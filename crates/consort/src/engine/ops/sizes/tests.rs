use std::thread;
use std::time::Duration;

use consort_sys::arena::Arena;
use consort_sys::dtype::{Dtype, Element};
use consort_sys::wait::Patience;

use super::super::chunks;
use super::*;
use crate::backend::Terms;
use crate::engine::lane::{MOST, Neighbour, Place};
use crate::engine::pace::{Pace, at_once};
use crate::error::Error;
use crate::group::Rank;
use crate::neighbourhood::AGREEMENT;

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_believable_size_can_be_dealt_in_groups_of_any_size() {
    for world in [1, 2, 3, 64, MOST] {
        assert!(most_bytes(world) >= 1 << 37);
        chunks(most_bytes(world), slot(world));
        assert!(most_bytes(world).checked_mul(world).is_some());
    }
}

#[test]
fn a_root_that_gathers_parts_of_impossible_size_ends_the_group() {
    let mine = [7_u64];
    let input = u64::source(&mine);
    let call = |input| Call::Gather {
        dtype: Dtype::U64,
        root: Rank(0),
        uneven: true,
        input,
        outputs: None,
    };
    for nonsense in [u64::MAX, 1 << 63, most_bytes(2) as u64 + 8] {
        lie(&call(input), &[nonsense], &format!("a part of {nonsense} bytes"));
    }
}

#[test]
fn a_root_that_scatters_parts_of_impossible_size_or_number_ends_the_group() {
    let mut mine = [7_u64];
    let (root, inputs, output) = (Rank(0), None, u64::target(&mut mine));
    let call = Call::Scatter { dtype: Dtype::U64, root, uneven: true, inputs, output };
    lie(&call, &[u64::MAX, 8], &format!("a part of {} bytes", u64::MAX));
    lie(&call, &[8], INCOMPLETE);
}

#[test]
fn a_rank_that_exchanges_parts_of_impossible_size_or_number_ends_the_group() {
    let mut theirs = [0_u64; 2];
    let mine = [7_u64; 2];
    let inputs = Inputs::Equal(u64::source(&mine));
    let outputs = Outputs::Equal(u64::target(&mut theirs));
    let call = Call::AllToAll { dtype: Dtype::U64, uneven: true, inputs, outputs };
    lie(&call, &[u64::MAX, 8], &format!("a part of {} bytes", u64::MAX));
    lie(&call, &[8], INCOMPLETE);
}

/// Rank 1 makes a call, in which rank 0 tells these sizes.
fn lie(call: &Call<'_>, sizes: &[u64], told: &str) {
    let [mut liar, mut honest] = lanes();
    let (_, description) = liar.begin(call, Terms::within(LIMIT));
    let error = thread::scope(|scope| {
        scope.spawn(|| {
            let drive = liar.prepare(Tables::new(sizes, |_, _| {})).unwrap();
            let mut patient = Patient::new(Pace::Here(LIMIT, None), description);
            // It may hear that it was found out before it has seen that everyone knows its sizes.
            let _ = at_once(liar.go_on(drive, &mut patient));
        });
        honest.run(call, Terms::within(LIMIT), None).unwrap_err()
    });
    let Error::Mismatch { first: (1, _), second: (0, theirs), .. } = &error else {
        panic!("{error}")
    };
    assert!(theirs.ends_with(told), "{error}");
    for lane in [&mut honest, &mut liar] {
        let heard = lane.run(&Call::Barrier, Terms::within(LIMIT), None).unwrap_err();
        assert_eq!(heard.to_string(), error.to_string());
    }
}

/// The lanes of two ranks of one process.
fn lanes() -> [Lane; 2] {
    let arenas = [(); 2].map(|()| Arena::create(AGREEMENT, 64 << 20).unwrap());
    let neighbours = Neighbour::all_in_one(&arenas);
    let places = arenas.each_ref().map(|arena| Place::take(arena, 2).unwrap());
    let offsets = places.each_ref().map(Place::offsets);
    let mut me = 0..;
    places.map(|place| {
        let (me, patience) = (me.next().unwrap(), Patience::for_ranks(2, 1));
        Lane::new("liars", me, neighbours.clone(), place, &offsets, patience).unwrap()
    })
}
