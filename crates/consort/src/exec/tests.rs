//! Whole calls of all ranks of a world, over links with little room, against what they should give.

mod case;
mod labels;
mod sweep;

use proptest::prelude::*;

use self::case::{Case, Kind};
use super::links::mem::{Mem, Network, Room};
use super::{Cache, Choices, Progress, Run};
use crate::call::{Call, Outputs};
use crate::group::Rank;
use consort_plan::{Layout, algo};
use consort_sys::dtype::{Dtype, ReduceOp};
use consort_sys::reduce::Kernel;
use consort_sys::view::{Source, Target};

/// Every dtype with every operation that it has.
fn all_numbers() -> Vec<(Dtype, ReduceOp)> {
    let ops = ReduceOp::ALL.into_iter().chain([ReduceOp::PremulSum(0.3)]);
    let all = ops.flat_map(|op| Dtype::ALL.map(|dtype| (dtype, op)));
    all.filter(|(dtype, op)| Kernel::new(*dtype, *op, 1).is_ok()).collect()
}

fn cases() -> impl Strategy<Value = Case> {
    let worlds = prop_oneof![8 => 1..10_usize, 1 => Just(16), 1 => Just(33)];
    let counts = prop_oneof![
        6 => prop::sample::select(vec![0, 1, 3, 17, 64, 1000]),
        3 => 1000..20_000_usize,
        1 => Just(100_003),
    ];
    let algorithms = prop::option::of(prop::sample::select(algo::NAMES.to_vec()));
    let shape = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let rooms = prop::sample::select(vec![Room::OneOfAll, Room::OneOfTrack]);
    let numbers = prop::sample::select(all_numbers());
    let kinds = prop::sample::select(Kind::ALL.to_vec());
    (kinds, worlds, 0..64_usize, algorithms, numbers, counts, shape, rooms, any::<u64>()).prop_map(
        |(kind, world, root, algorithm, (dtype, op), count, shape, room, seed)| Case {
            kind,
            world,
            root: root % world,
            algorithm,
            is_crowded: shape.3,
            dtype,
            op,
            // The largest worlds with the largest parts would take too long.
            count: if world > 9 { count.min(3000) } else { count },
            uneven: shape.0,
            listed: shape.1,
            in_place: shape.2,
            room,
            seed,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_call_gives_what_it_should_over_any_links(case in cases()) {
        case.check();
    }
}

/// One after the other, the combinations of all that is small.
#[test]
fn every_algorithm_does_every_operation_between_few_ranks() {
    let algorithms = algo::NAMES.into_iter().map(Some).chain([None]);
    let mut number = 0;
    for (kind, algorithm) in
        algorithms.flat_map(|algorithm| Kind::ALL.map(|kind| (kind, algorithm)))
    {
        for (world, root) in (1..10).flat_map(|world| (0..world).map(move |root| (world, root))) {
            number += 1;
            let (dtype, op) =
                [(Dtype::I16, ReduceOp::Sum), (Dtype::F64, ReduceOp::Max)][number % 2];
            Case {
                kind,
                world,
                root,
                algorithm,
                is_crowded: number % 11 < 5,
                dtype,
                op,
                count: [0, 1, 3, 17][number % 4],
                uneven: number % 3 == 0,
                listed: number % 5 < 2,
                in_place: number % 7 < 3,
                room: [Room::OneOfAll, Room::OneOfTrack][number % 2],
                seed: number as u64,
            }
            .check();
        }
    }
}

#[test]
fn all_numbers_are_combined_with_the_bits_of_one_kernel() {
    let small_and_large = [3, 7000, 70_001];
    for (number, (dtype, op)) in all_numbers().into_iter().enumerate() {
        for (kind, count) in [Kind::AllReduce, Kind::Reduce, Kind::ReduceScatter]
            .into_iter()
            .flat_map(|kind| small_and_large.map(|bytes| (kind, bytes / dtype.size())))
        {
            Case {
                kind,
                world: 2 + number % 5,
                root: 1,
                algorithm: None,
                is_crowded: number % 7 < 3,
                dtype,
                op,
                count,
                uneven: false,
                listed: number % 2 == 0,
                in_place: number % 3 == 0,
                room: Room::OneOfAll,
                // Values of all kinds: see `Case::is_tame`.
                seed: 4 * number as u64,
            }
            .check();
        }
    }
}

/// Two ranks over links: the sweep of one call.
fn two<'a>(calls: [Call<'a>; 2]) -> Result<(), crate::error::Error> {
    let choices = Choices::new(None, Layout::even(2, 2))?;
    sweep::carry_out(&calls, &choices, Room::OneOfAll, 7).map(|_| ())
}

#[test]
fn ranks_that_mean_different_lengths_find_out() {
    let message = 128 << 10;
    for (sent, expected) in
        [(3, 4), (0, 1), (message, 2 * message), (2 * message, message), (2 * message, 3 * message)]
    {
        let bytes = vec![1_u8; sent];
        let (mut own, mut theirs, nothing) = ([0_u8; 0], vec![0_u8; expected], [0_u8; 0]);
        let (dtype, root) = (Dtype::U8, Rank::from(0));
        let outputs = [Target::from(&mut own[..]), Target::from(&mut theirs[..])];
        let error = two([
            Call::Gather {
                dtype,
                root,
                uneven: true,
                input: Source::from(&nothing[..]),
                outputs: Some(Outputs::List(&outputs)),
            },
            Call::Gather { dtype, root, uneven: true, input: (&bytes[..]).into(), outputs: None },
        ]);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("rank 1 sent"), "{sent} for {expected}: {error}");
    }
}

#[test]
fn a_call_that_waits_names_those_it_waits_for() {
    let choices = Choices::new(None, Layout::even(5, 5)).unwrap();
    let mut buffer = [0_u8; 3];
    let buffer = Target::from(&mut buffer[..]);
    let call = Call::Broadcast { dtype: Dtype::U8, root: Rank::from(3), buffer };
    let mut cache = Cache::default();
    let mut run = Run::new(&call, 4, &choices, &mut cache).unwrap();
    let network = Network::new(Room::OneOfAll, 1);
    let mut links = Mem::new(4, &network);
    run.go_on(&mut links).unwrap();
    assert_eq!(run.go_on(&mut links).unwrap(), Progress::Stuck);
    assert_eq!(run.awaits(), [3]);
}

#[test]
fn an_algorithm_that_nobody_knows_is_refused() {
    let error = Choices::new(Some("teleport"), Layout::even(2, 2)).unwrap_err().to_string();
    assert!(error.starts_with("no algorithm \"teleport\"; choose flat, ring"), "{error}");
}
