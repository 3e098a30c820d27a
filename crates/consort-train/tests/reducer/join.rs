//! Ranks that do not have the same number of inputs.

use consort::{Dtype, ErrorKind, Group, ReduceOp, f16};
use consort_testkit::{Case, Outcome, conformance};
use consort_train::{Error, Options, Parameter, Reducer, Uneven, Unused};

use super::model::{average, give, meet, reducer};

conformance! { [shm tcp mixed in_process]
    who_has_no_more_input_takes_part_with_zeroes
    buffers_are_those_of_the_first_who_has_an_input
}
conformance! { [shm in_process]
    sums_are_divided_by_the_number_of_those_who_have_one_if_asked
    all_end_with_the_first_if_asked
    who_never_has_an_input_takes_part_from_the_beginning
    what_must_not_be_missing_may_be_missing_where_there_is_no_input
    after_a_join_all_go_on_as_before
    ranks_that_do_not_do_the_same_are_named_on_all
    who_leaves_a_join_ends_it_for_all
    ranks_that_want_different_ends_are_all_shown_both
    numbers_of_few_bits_are_added_up_with_more_whatever_they_are_divided_by
    who_holds_averages_is_told_before_the_others_wait
}
conformance! { [shm tcp]
    the_survivors_of_a_rank_that_dies_in_a_join_begin_another
}

/// Trains with as many inputs as the rank says, and looks at each average. Gives the model's digest, who was
/// last, and how many passes of others this rank was in.
fn train(group: &Group, reducer: &Reducer, uneven: Uneven, inputs: &[u64]) -> (u64, u32, u64) {
    let (me, world) = (group.rank().index(), group.world());
    let mut sum = 0_u64;
    let mut join = reducer.join(uneven).unwrap();
    for input in 0..inputs[me] {
        let Some(pass) = join.begin().unwrap() else { break };
        let number = pass.number();
        give(group, reducer, &pass, (0..20).rev());
        let averages = pass.finish().unwrap();
        let live: Vec<usize> = (0..world).filter(|&rank| inputs[rank] > input).collect();
        let scale =
            if uneven == Uneven::DivideByLive { world as f32 / live.len() as f32 } else { 1.0 };
        for (index, parameter) in reducer.parameters().iter().enumerate() {
            let expected = average(group, live.iter().copied(), number, index, parameter.len());
            let expected: Vec<f32> = expected.iter().map(|number| number * scale).collect();
            let found = averages.gradient::<f32>(index).unwrap().unwrap();
            let is_near = |(one, other): (&f32, &f32)| (one - other).abs() <= one.abs() * 1e-6;
            assert!(
                found.iter().zip(&expected).all(is_near),
                "{input} {index}: {found:?} {expected:?}"
            );
            let bits = found.iter().map(|number| u64::from(number.to_bits()));
            sum = bits.fold(sum, |sum, bits| sum.wrapping_mul(31).wrapping_add(bits));
        }
    }
    let end = join.finish().unwrap();
    let mut digest = sum.to_le_bytes();
    consort_train::broadcast(group, &mut [&mut digest], end.last).unwrap();
    (u64::from_le_bytes(digest), end.last, end.shadowed)
}

fn who_has_no_more_input_takes_part_with_zeroes(case: Case) {
    let all = case.run(3, |ctx| {
        let group = meet(ctx);
        train(&group, &reducer(&group, Options::new()), Uneven::DivideByWorld, &[2, 6, 6])
    });
    assert!(all.iter().all(|(digest, last, _)| (*digest, *last) == (all[0].0, 2)), "{all:?}");
    assert_eq!(all.iter().map(|it| it.2).collect::<Vec<_>>(), [4, 0, 0]);
}

fn sums_are_divided_by_the_number_of_those_who_have_one_if_asked(case: Case) {
    let all = case.run(4, |ctx| {
        let group = meet(ctx);
        train(&group, &reducer(&group, Options::new()), Uneven::DivideByLive, &[5, 3, 2, 0])
    });
    assert!(all.iter().all(|(digest, last, _)| (*digest, *last) == (all[0].0, 0)), "{all:?}");
    assert_eq!(all.iter().map(|it| it.2).collect::<Vec<_>>(), [0, 2, 3, 5]);
}

fn all_end_with_the_first_if_asked(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new());
        let inputs = [7, 4, 9][ctx.rank() as usize];
        let mut join = reducer.join(Uneven::Stop).unwrap();
        let mut steps = 0;
        while steps < inputs {
            let Some(pass) = join.begin().unwrap() else { break };
            give(&group, &reducer, &pass, (0..20).rev());
            drop(pass.finish().unwrap());
            steps += 1;
        }
        assert_eq!((steps, join.finish().unwrap().shadowed), (4, 0));
    });
}

/// Also the first rank, whose order of gradients the others take over.
fn who_never_has_an_input_takes_part_from_the_beginning(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        for options in [Options::new(), Options::new().static_graph()] {
            let (_, last, _) =
                train(&group, &reducer(&group, options), Uneven::DivideByWorld, &[0, 4]);
            assert_eq!(last, 1);
        }
    });
}

fn what_must_not_be_missing_may_be_missing_where_there_is_no_input(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let options = Options::new().unused(Unused::Refuse);
        train(&group, &reducer(&group, options), Uneven::DivideByWorld, &[3, 1]);
    });
}

fn after_a_join_all_go_on_as_before(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new());
        train(&group, &reducer, Uneven::DivideByLive, &[3, 1]);
        // What local passes left is forgotten by who ends.
        let pass = reducer.begin_local().unwrap();
        give(&group, &reducer, &pass, 0..20);
        pass.finish().unwrap();
        train(&group, &reducer, Uneven::DivideByLive, &[0, 0]);
        super::model::step(&group, &reducer);
    });
}

fn buffers_are_those_of_the_first_who_has_an_input(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new());
        let rank = ctx.rank() as u8;
        let inputs = [1, 3, 4][ctx.rank() as usize];
        let mut join = reducer.join(Uneven::DivideByWorld).unwrap();
        for input in 0..inputs {
            let (mut mean, mut count) = ([rank * 10 + input; 5], [rank; 1]);
            join.sync_buffers(&mut [&mut mean, &mut count]).unwrap();
            let first = [0, 1, 1, 2][input as usize];
            assert_eq!((mean, count), ([first * 10 + input; 5], [first]));
            let pass = join.begin().unwrap().unwrap();
            give(&group, &reducer, &pass, (0..20).rev());
            drop(pass.finish().unwrap());
        }
        let end = join.finish().unwrap();
        assert_eq!((end.last, end.shadowed), (2, 4 - u64::from(inputs)));
    });
}

fn ranks_that_do_not_do_the_same_are_named_on_all(case: Case) {
    let told = case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new());
        let mut join = reducer.join(Uneven::DivideByWorld).unwrap();
        let error = match ctx.rank() {
            0 => join.begin().unwrap_err(),
            _ => join.sync_buffers(&mut [&mut [0; 7]]).unwrap_err(),
        };
        assert!(reducer.begin().is_err());
        error.to_string()
    });
    let part = "rank 0 begins a pass, rank 1 synchronises 7 bytes of buffers";
    assert!(told.iter().all(|text| text.contains(part)), "{told:?}");
}

fn who_leaves_a_join_ends_it_for_all(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new());
        let join = reducer.join(Uneven::DivideByWorld).unwrap();
        group.all_reduce(&mut [0_u8], ReduceOp::Sum).unwrap();
        match ctx.rank() {
            0 => drop(join),
            _ => {
                let error = join.finish().unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Aborted);
                assert!(error.to_string().contains("Join::finish"), "{error}");
            }
        }
    });
}

fn ranks_that_want_different_ends_are_all_shown_both(case: Case) {
    let told = case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new());
        let uneven = [Uneven::Stop, Uneven::DivideByLive][ctx.rank() as usize];
        let error = reducer.join(uneven).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        // The group goes on.
        train(&group, &reducer, Uneven::DivideByWorld, &[1, 2]);
        error.to_string()
    });
    let part = "rank 0 has stop, rank 1 has divide by those who have one";
    assert!(told.iter().all(|text| text.contains(part)), "{told:?}");
}

fn numbers_of_few_bits_are_added_up_with_more_whatever_they_are_divided_by(case: Case) {
    case.run(4, |ctx| {
        let group = meet(ctx);
        let table = Parameter::new("table", Dtype::F16, &[4, 1]).sparse().unwrap();
        let parameters = vec![Parameter::new("weight", Dtype::F16, &[3]), table];
        let reducer = Reducer::new(&group, parameters, Options::new()).unwrap();
        let mut join = reducer.join(Uneven::DivideByLive).unwrap();
        if ctx.rank() < 3 {
            let pass = join.begin().unwrap().unwrap();
            // Their sum is more than the dtype has.
            pass.ready(0, &[f16::from_f32(30_000.0); 3]).unwrap();
            pass.ready_rows(1, &[u64::from(ctx.rank() % 2)], &[f16::from_f32(60_000.0)]).unwrap();
            let averages = pass.finish().unwrap();
            let found = averages.gradient::<f16>(0).unwrap().unwrap();
            assert!(found.iter().all(|it| (it.to_f32() - 30_000.0).abs() <= 16.0), "{found:?}");
            let (rows, found) = averages.rows::<f16>(1).unwrap().unwrap();
            assert_eq!(rows, [0, 1]);
            assert_eq!([found[0].to_f32(), found[1].to_f32()], [40_000.0, 20_000.0]);
        }
        join.finish().unwrap();
    });
}

fn who_holds_averages_is_told_before_the_others_wait(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new());
        let mut join = reducer.join(Uneven::DivideByWorld).unwrap();
        let pass = join.begin().unwrap().unwrap();
        give(&group, &reducer, &pass, 0..20);
        let held = pass.finish().unwrap();
        assert!(matches!(join.begin(), Err(Error::Pending { .. })));
        drop(held);
        let pass = join.begin().unwrap().unwrap();
        give(&group, &reducer, &pass, 0..20);
        drop(pass.finish().unwrap());
        join.finish().unwrap();
    });
}

fn the_survivors_of_a_rank_that_dies_in_a_join_begin_another(case: Case) {
    let outcomes = case
        .of(3)
        .start(|ctx| {
            let group = meet(ctx);
            let reducer = reducer(&group, Options::new());
            let mut join = reducer.join(Uneven::DivideByWorld).unwrap();
            let pass = join.begin().unwrap().unwrap();
            give(&group, &reducer, &pass, 0..20);
            drop(pass.finish().unwrap());
            group.store().add("past", 1).unwrap();
            if ctx.rank() == 0 {
                while group.store().add("past", 0).unwrap() < 3 {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                std::process::abort();
            }
            let error = join.begin().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::PeerGone, "{error}");
            let smaller = group.shrink().unwrap();
            reducer.set_group(&smaller).unwrap();
            // The first one ends only when there is another group.
            join = reducer.join(Uneven::DivideByWorld).unwrap();
            let pass = join.begin().unwrap().unwrap();
            give(&smaller, &reducer, &pass, 0..20);
            drop(pass.finish().unwrap());
            join.finish().unwrap();
            super::model::step(&smaller, &reducer);
        })
        .wait();
    for (rank, outcome) in outcomes.into_iter().enumerate() {
        assert_eq!(matches!(outcome, Outcome::Done(())), rank > 0, "{rank}: {outcome:?}");
    }
}
