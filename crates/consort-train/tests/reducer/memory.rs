//! Where gradients are while they travel, and what a reducer tells of it.

use consort::Dtype;
use consort_testkit::{Case, conformance};
use consort_train::{Average, Caps, Cast, Options, Parameter, Reducer, Value};

use super::model::{average, check, give, gradient, meet, parameters, reducer};

conformance! { [shm tcp mixed in_process]
    a_gradient_whose_memory_is_given_is_averaged_there
}
conformance! { [shm in_process]
    memory_is_given_only_where_it_helps_and_results_are_the_same
    a_gradient_is_computed_where_it_travels
    nothing_travels_before_the_end_if_it_is_delayed
    buckets_are_where_all_ranks_of_a_host_reach_them
    what_a_reducer_tells_is_what_it_did
    sizes_of_buckets_are_found_by_measuring_and_are_the_same_on_all_ranks
}

fn a_gradient_whose_memory_is_given_is_averaged_there(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        for hook in [Options::new().hook(Average), Options::new().hook(Cast::bf16())] {
            let is_exact = !format!("{hook:?}").contains("bf16");
            let reducer = reducer(&group, hook.adopt(500));
            let alone = |index: usize| reducer.parameters()[index].bytes() >= 500;
            assert!(reducer.buckets().iter().any(|bucket| bucket.len() > 1));
            for turn in 0..3 {
                let pass = reducer.begin().unwrap();
                let mut places = Vec::new();
                for index in (0..20).rev().map(|at| (at * 7 + turn) % 20) {
                    let len = reducer.parameters()[index].len();
                    let mine = gradient(&group, ctx.rank() as usize, turn as u64, index, len);
                    places.push((index, mine.as_ptr()));
                    pass.ready_owned(index, mine).unwrap();
                }
                let mut averages = pass.finish().unwrap();
                for (index, place) in places {
                    let len = reducer.parameters()[index].len();
                    let found = averages.take::<f32>(index).unwrap().unwrap();
                    assert!(!alone(index) || std::ptr::eq(found.as_ptr(), place), "{index}");
                    let expected = average(&group, 0..3, turn as u64, index, len);
                    assert!(!is_exact || found == expected, "{index}: {found:?} {expected:?}");
                    // Taken once, it is gone; of what was copied there are as many as one likes.
                    assert_eq!(averages.take::<f32>(index).is_err(), alone(index), "{index}");
                }
            }
        }
    });
}

fn memory_is_given_only_where_it_helps_and_results_are_the_same(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        // With local passes before, with gradients on one rank only, and with none at all.
        let reducer = Reducer::new(&group, parameters(9), Options::new().adopt(1)).unwrap();
        let len = |index: usize| reducer.parameters()[index].len();
        for _ in 0..2 {
            let local = reducer.begin_local().unwrap();
            let first = local.number();
            let mine = |pass, index| gradient(&group, ctx.rank() as usize, pass, index, len(index));
            (0..4).for_each(|index| local.ready_owned(index, mine(first, index)).unwrap());
            local.finish().unwrap();
            let pass = reducer.begin().unwrap();
            (2..6).for_each(|index| pass.ready_owned(index, mine(first + 1, index)).unwrap());
            if ctx.rank() == 0 {
                pass.ready_owned(6, mine(first + 1, 6)).unwrap();
            }
            let mut averages = pass.finish().unwrap();
            let of = |pass, index: usize| average(&group, 0..2, pass, index, len(index));
            for index in 0..6 {
                let passes = (index < 4).then_some(first).into_iter();
                let mut expected = vec![0.0; len(index)];
                for pass in passes.chain((index >= 2).then_some(first + 1)) {
                    expected.iter_mut().zip(of(pass, index)).for_each(|(sum, one)| *sum += one);
                }
                assert_eq!(averages.take::<f32>(index).unwrap(), Some(expected), "{index}");
            }
            let expected = average(&group, 0..1, first + 1, 6, len(6));
            assert_eq!(averages.take::<f32>(6).unwrap(), Some(expected));
            assert_eq!(averages.take::<f32>(7).unwrap(), None);
        }
    });
}

fn a_gradient_is_computed_where_it_travels(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new());
        for _ in 0..3 {
            let pass = reducer.begin().unwrap();
            let number = pass.number();
            let mut places = vec![std::ptr::null(); 20];
            for (index, place) in places.iter_mut().enumerate().rev() {
                let len = reducer.parameters()[index].len();
                let mine = gradient(&group, ctx.rank() as usize, number, index, len);
                let write = |room: &mut [f32], is_there: bool| {
                    assert!(!is_there);
                    room.copy_from_slice(&mine);
                    *place = room.as_ptr();
                    Ok(())
                };
                pass.ready_with(index, write).unwrap();
            }
            let averages = pass.finish().unwrap();
            check(&group, &reducer, number, &averages);
            for (index, place) in places.into_iter().enumerate() {
                let found = averages.gradient::<f32>(index).unwrap().unwrap();
                assert!(std::ptr::eq(found.as_ptr(), place) || found.is_empty());
            }
        }
        let pass = reducer.begin().unwrap();
        assert!(pass.ready_with(0, |_: &mut [f64], _| Ok(())).is_err());
        assert!(pass.ready_with(20, |_: &mut [f32], _| Ok(())).is_err());
    });
}

fn buckets_are_where_all_ranks_of_a_host_reach_them(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new());
        // Also after they were made anew.
        for _ in 0..3 {
            let pass = reducer.begin().unwrap();
            give(&group, &reducer, &pass, 0..20);
            let averages = pass.finish().unwrap();
            for index in (0..20).filter(|&at| !reducer.parameters()[at].is_empty()) {
                assert!(group.is_symmetric(averages.gradient::<f32>(index).unwrap().unwrap()));
            }
        }
    });
}

fn nothing_travels_before_the_end_if_it_is_delayed(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new().delay());
        for _ in 0..3 {
            let pass = reducer.begin().unwrap();
            let (number, calls) = (pass.number(), group.calls());
            give(&group, &reducer, &pass, 0..20);
            assert_eq!(group.calls(), calls);
            check(&group, &reducer, number, &pass.finish().unwrap());
            let times = reducer.times().unwrap();
            assert!(times.buckets.iter().all(|bucket| bucket.launched >= times.backward));
        }
    });
}

fn what_a_reducer_tells_is_what_it_did(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new().hook(Cast::f16()));
        let before = reducer.stats();
        assert!(before.last.is_none() && !before.is_rebuilt && !before.could_be_static);
        for _ in 0..3 {
            let pass = reducer.begin_local().unwrap();
            pass.finish().unwrap();
            reducer.begin_forward();
            let pass = reducer.begin().unwrap();
            give(
                &group,
                &reducer,
                &pass,
                (0..20).filter(|&at| at != 4).map(|at| (at * 3) % 20).filter(|&at| at != 6),
            );
            drop(pass.finish().unwrap());
        }
        let stats = reducer.stats();
        assert_eq!((stats.rank, stats.world, stats.parameters), (ctx.rank(), 2, 20));
        assert_eq!((stats.passes, stats.averaged, stats.is_rebuilt), (6, 3, true));
        assert_eq!((stats.dtypes.clone(), &stats.hook[..]), (vec![Dtype::F32], "f16 average"));
        assert_eq!(stats.bucket_bytes.len(), reducer.buckets().len());
        let unused: usize = [6, 12].map(|at| reducer.parameters()[at].bytes()).iter().sum();
        assert_eq!((stats.unused_bytes, stats.could_be_static), (unused, true));
        let last = stats.last.clone().unwrap();
        assert_eq!(last.pass, 6);
        assert!(last.forward.is_some() && stats.mean.forward.is_some());
        assert_eq!(last.communication, last.hidden + last.exposed);
        assert_eq!(last.buckets.len(), stats.buckets_reduced);
        assert!(last.buckets.windows(2).all(|pair| pair[0].launched <= pair[1].launched));
        assert!(last.buckets.iter().all(|bucket| bucket.done >= bucket.launched));
        assert_eq!(stats.ready_order.len(), 18);
        let order: Vec<usize> =
            (0..20).filter(|&at| at != 4).map(|at| (at * 3) % 20).filter(|&at| at != 6).collect();
        assert_eq!(stats.ready_order, order);
        assert!(last.ready[6].is_none() && last.ready[0].is_some());
        let fields = stats.fields();
        let field =
            |name: &str| fields.iter().find(|(it, _)| *it == name).map(|(_, value)| value.clone());
        assert_eq!(field("iteration"), Some(Value::Number(3)));
        assert_eq!(field("comm_hook"), Some(Value::Text("f16 average".to_owned())));
        assert_eq!(field("unused_parameter_size"), Some(Value::Number(unused as i64)));
        assert!(stats.to_string().contains("passes         6, 3 of them averaged"), "{stats}");
        stats.publish();
        // Another parameter without a gradient.
        let pass = reducer.begin().unwrap();
        give(&group, &reducer, &pass, 0..19);
        drop(pass.finish().unwrap());
        assert!(!reducer.stats().could_be_static);
    });
}

fn sizes_of_buckets_are_found_by_measuring_and_are_the_same_on_all_ranks(case: Case) {
    let all = case.run(3, |ctx| {
        let group = meet(ctx);
        let parameter = |at: usize| Parameter::new(format!("{at}"), Dtype::F32, &[40_000 + at]);
        let parameters: Vec<Parameter> = (0..12).map(parameter).collect();
        let options = Options::new().caps(Caps::auto());
        let reducer = Reducer::new(&group, parameters, options).unwrap();
        let guess = reducer.stats();
        assert_eq!((&guess.caps[..], guess.promised), (Caps::default().bytes(), None));
        for _ in 0..8 {
            let pass = reducer.begin().unwrap();
            let number = pass.number();
            give(&group, &reducer, &pass, (0..12).map(|at| (at * 5 + ctx.rank() as usize) % 12));
            check(&group, &reducer, number, &pass.finish().unwrap());
        }
        let found = reducer.stats();
        assert!(found.are_caps_measured && found.caps.len() == 2);
        let (exposed, before) = found.promised.unwrap();
        assert!(exposed <= before);
        assert!(found.to_string().contains("by measuring"), "{found}");
        (found.caps, found.buckets, (exposed, before))
    });
    assert!(all.iter().all(|found| *found == all[0]), "{all:?}");
}
