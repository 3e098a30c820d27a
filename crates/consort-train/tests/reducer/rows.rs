//! Gradients that come by rows.

use std::collections::BTreeMap;

use consort::{Dtype, Group, bf16};
use consort_testkit::{Case, conformance};
use consort_train::{Cast, Error, Options, Parameter, Reducer};

use super::model::meet;

conformance! { [shm tcp mixed in_process]
    rows_that_any_rank_has_are_averaged_with_zeroes_for_the_others
}
conformance! { [shm in_process]
    rows_that_are_the_same_on_all_ranks_are_added_up_as_a_whole
    rows_of_local_passes_are_added_up
    a_table_without_rows_is_left_alone
    rows_are_added_up_with_more_bits_if_asked
}
conformance! { [in_process]
    rows_that_do_not_fit_are_refused
}

const ROWS: usize = 50;
const WIDTH: usize = 3;

fn parameters() -> Vec<Parameter> {
    vec![
        Parameter::new("first", Dtype::F32, &[5]),
        Parameter::new("table", Dtype::F32, &[ROWS, WIDTH]).sparse().unwrap(),
        Parameter::new("last", Dtype::F32, &[7]),
    ]
}

/// A rank's rows in a pass, some more than once, and their values.
fn rows_of(world: usize, rank: usize, pass: u64) -> (Vec<u64>, Vec<f32>) {
    let row = |at: usize| ((at * 7 + rank * 5 + pass as usize * 3) % ROWS) as u64;
    let rows: Vec<u64> = (0..4 + rank * 3).flat_map(|at| [row(at), row(at / 2)]).collect();
    let value = |at: usize| ((at * 11 + rank * 17 + pass as usize) % 97 * world) as f32;
    (rows.clone(), (0..rows.len() * WIDTH).map(value).collect())
}

/// What one process would have: the rows of all, added up and divided.
fn table(world: usize, passes: &[u64]) -> (Vec<u64>, Vec<f32>) {
    let mut table: BTreeMap<u64, Vec<f32>> = BTreeMap::new();
    for rank in 0..world {
        for &pass in passes {
            let (rows, values) = rows_of(world, rank, pass);
            for (row, values) in rows.iter().zip(values.chunks(WIDTH)) {
                let sums = table.entry(*row).or_insert_with(|| vec![0.0; WIDTH]);
                sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value / world as f32);
            }
        }
    }
    (table.keys().copied().collect(), table.into_values().flatten().collect())
}

fn bring(group: &Group, pass: &consort_train::Pass) {
    pass.ready(2, &[group.rank().get() as f32; 7]).unwrap();
    let (rows, values) = rows_of(group.world(), group.rank().index(), pass.number());
    pass.ready_rows(1, &rows, &values).unwrap();
    pass.ready(0, &[1.0_f32; 5]).unwrap();
}

fn rows_that_any_rank_has_are_averaged_with_zeroes_for_the_others(case: Case) {
    case.run(4, |ctx| {
        let group = meet(ctx);
        // Hooks are for numbers: rows go their own way.
        for options in [Options::new(), Options::new().hook(Cast::bf16())] {
            let reducer = Reducer::new(&group, parameters(), options).unwrap();
            assert!(reducer.buckets().contains(&vec![1]));
            for number in 1..=3 {
                let pass = reducer.begin().unwrap();
                bring(&group, &pass);
                let averages = pass.finish().unwrap();
                let (rows, values) = averages.rows::<f32>(1).unwrap().unwrap();
                assert_eq!((rows.to_vec(), values.to_vec()), table(4, &[number]));
                assert_eq!(averages.gradient::<f32>(2).unwrap(), Some(&[1.5; 7][..]));
                assert!(averages.gradient::<f32>(1).is_err());
                assert!(averages.rows::<f32>(0).is_err());
            }
        }
    });
}

fn rows_that_are_the_same_on_all_ranks_are_added_up_as_a_whole(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let reducer = Reducer::new(&group, parameters(), Options::new()).unwrap();
        let pass = reducer.begin().unwrap();
        let calls = group.calls();
        let mine: Vec<f32> =
            (0..2 * WIDTH).map(|at| (at * 3 + ctx.rank() as usize * 9) as f32).collect();
        pass.ready_rows(1, &[40, 2], &mine).unwrap();
        let averages = pass.finish().unwrap();
        // Other buckets, which rows there are, their sums, and who has what: none for each rank's rows.
        assert_eq!(group.calls() - calls, 4);
        let expected: Vec<f32> = (0..2 * WIDTH).map(|at| (at * 3 + 9) as f32).collect();
        let (rows, values) = averages.rows::<f32>(1).unwrap().unwrap();
        assert_eq!(rows, [2, 40]);
        assert_eq!((&values[WIDTH..], &values[..WIDTH]), expected.split_at(WIDTH));
    });
}

fn rows_of_local_passes_are_added_up(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = Reducer::new(&group, parameters(), Options::new()).unwrap();
        for turn in 0..2 {
            for _ in 0..2 {
                let pass = reducer.begin_local().unwrap();
                bring(&group, &pass);
                pass.finish().unwrap();
            }
            let pass = reducer.begin().unwrap();
            bring(&group, &pass);
            let averages = pass.finish().unwrap();
            let (rows, values) = averages.rows::<f32>(1).unwrap().unwrap();
            let passes = [1, 2, 3].map(|number| number + turn * 3);
            assert_eq!((rows.to_vec(), values.to_vec()), table(2, &passes));
        }
    });
}

fn a_table_without_rows_is_left_alone(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = Reducer::new(&group, parameters(), Options::new()).unwrap();
        let pass = reducer.begin().unwrap();
        pass.ready(0, &[1.0_f32; 5]).unwrap();
        assert!(pass.finish().unwrap().rows::<f32>(1).unwrap().is_none());
        // One has none, in two ways.
        let pass = reducer.begin().unwrap();
        match ctx.rank() {
            0 => pass.ready_rows::<f32>(1, &[], &[]).unwrap(),
            _ => pass.ready_rows(1, &[9], &[2.0_f32, 4.0, 6.0]).unwrap(),
        }
        let averages = pass.finish().unwrap();
        let found = averages.rows::<f32>(1).unwrap();
        assert_eq!(found, Some((&[9][..], &[1.0, 2.0, 3.0][..])));
    });
}

fn rows_are_added_up_with_more_bits_if_asked(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let parameters = vec![Parameter::new("table", Dtype::Bf16, &[9, 1]).sparse().unwrap()];
        let options = Options::new().reduce_as(Dtype::F32);
        let reducer = Reducer::new(&group, parameters, options).unwrap();
        let pass = reducer.begin().unwrap();
        let values = [256.0, 1.0].map(bf16::from_f32);
        pass.ready_rows(0, &[4, 4], &values).unwrap();
        let averages = pass.finish().unwrap();
        // As bf16 it would have been 256.
        assert_eq!(averages.rows::<f32>(0).unwrap(), Some((&[4][..], &[257.0][..])));
    });
}

fn rows_that_do_not_fit_are_refused(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = Reducer::new(&group, parameters(), Options::new()).unwrap();
        let pass = reducer.begin().unwrap();
        let is_misfit = |it: Result<(), Error>| matches!(it, Err(Error::Gradient { .. }));
        assert!(is_misfit(pass.ready_rows(1, &[1], &[1.0_f32; 2])));
        assert!(is_misfit(pass.ready_rows(1, &[1], &[1.0_f64; 3])));
        assert!(is_misfit(pass.ready_rows(0, &[1], &[1.0_f32; 5])));
        assert!(is_misfit(pass.ready(1, &[1.0_f32; ROWS * WIDTH])));
        let error = pass.ready_rows(1, &[50], &[1.0_f32; 3]).unwrap_err().to_string();
        assert!(error.contains("\"table\" has 50 rows, and no row 50"), "{error}");
        bring(&group, &pass);
        assert!(matches!(pass.ready_rows(1, &[1], &[1.0_f32; 3]), Err(Error::Twice { .. })));
        let averages = pass.finish().unwrap();
        let (rows, values) = averages.rows::<f32>(1).unwrap().unwrap();
        assert_eq!((rows.to_vec(), values.to_vec()), table(2, &[1]));
    });
}
