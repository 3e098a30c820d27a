//! Calls that make no sense, and ranks that do not train the same model.

use std::panic::{AssertUnwindSafe, catch_unwind};

use consort::{Dtype, ErrorKind};
use consort_testkit::{Case, conformance};
use consort_train::{
    Bucket, Caps, CommHook, Error, Options, Parameter, Pending, Reducer, Round, Unused,
};

use super::model::{begin_to_fail, fail, give, meet, parameters, reducer, step};

conformance! { [shm tcp mixed in_process]
    ranks_with_different_models_are_all_shown_both
    ranks_with_different_layouts_are_all_shown_both
    a_parameter_without_a_gradient_is_named_on_every_rank_if_that_is_refused
}
conformance! { [in_process]
    what_does_not_fit_is_refused_and_the_pass_goes_on
    a_pass_is_used_once_and_one_after_the_other
    a_pass_goes_on_when_another_was_begun_within_it
    a_graph_that_changes_is_not_static
    a_gradient_that_could_not_be_written_may_come_again
    a_pass_that_is_dropped_takes_what_was_added_up_with_it
    a_reducer_without_parameters_has_nothing_to_do
    gradients_that_cannot_be_kept_as_asked_are_refused_by_name
    what_comes_after_a_failure_tells_of_the_same_kind
    parameters_that_no_memory_has_room_for_are_refused
    who_panics_while_it_writes_a_gradient_may_bring_it_again
    a_panic_when_averages_have_come_is_told_to_all
    a_hook_that_panics_leaves_nobody_waiting
}

fn ranks_with_different_models_are_all_shown_both(case: Case) {
    let told = case.run(3, |ctx| {
        let group = meet(ctx);
        let odd = ctx.rank() == 2;
        let mut told = Vec::new();
        let mut refuse = |parameters, options| {
            let error = Reducer::new(&group, parameters, options).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Mismatch);
            told.push(error.to_string());
        };
        refuse(parameters(if odd { 4 } else { 5 }), Options::new());
        let dtype = if odd { Dtype::Bf16 } else { Dtype::F32 };
        refuse(vec![Parameter::new("w", dtype, &[2, 3])], Options::new());
        let shape: &[usize] = if odd { &[6] } else { &[2, 3] };
        refuse(vec![Parameter::new("w", Dtype::F32, shape)], Options::new());
        let name = if odd { "v" } else { "w" };
        refuse(vec![Parameter::new(name, Dtype::F32, &[1])], Options::new());
        let caps = Caps::of(if odd { 100 } else { 1000 }).unwrap();
        refuse(parameters(2), Options::new().caps(caps));
        let unused = if odd { Unused::Refuse } else { Unused::Average };
        refuse(parameters(2), Options::new().unused(unused));
        // The group goes on.
        step(&group, &reducer(&group, Options::new()));
        told
    });
    assert!(told.iter().all(|all| *all == told[0]), "{told:?}");
    for (text, part) in told[0].iter().zip([
        "rank 0 has 5 parameters, rank 2 has 4",
        "rank 0 has \"w\", f32 [2, 3] with strides [3, 1], rank 2 has \"w\", bf16 [2, 3]",
        "rank 2 has \"w\", f32 [6]",
        "rank 0 has \"w\", f32 [1] with strides [1], rank 2 has \"v\"",
        "sizes of buckets: rank 0 has [1000], rank 2 has [100]",
        "unused parameters: rank 0 has averaged, rank 2 has refused",
    ]) {
        assert!(text.contains(part), "{text}");
        assert!(!text.contains("rank 1"), "{text}");
    }
}

fn ranks_with_different_layouts_are_all_shown_both(case: Case) {
    let told = case.run(3, |ctx| {
        let group = meet(ctx);
        let strides = if ctx.rank() == 1 { [1, 2] } else { [3, 1] };
        let parameter = Parameter::new("w", Dtype::F32, &[2, 3]).with_strides(&strides).unwrap();
        let error = Reducer::new(&group, vec![parameter], Options::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        error.to_string()
    });
    let both = "parameter 0: rank 0 has \"w\", f32 [2, 3] with strides [3, 1], \
                rank 1 has \"w\", f32 [2, 3] with strides [1, 2]";
    for text in &told {
        assert!(text.contains(both) && !text.contains("rank 2"), "{text}");
    }
}

fn a_parameter_without_a_gradient_is_named_on_every_rank_if_that_is_refused(case: Case) {
    let told = case.run(3, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new().unused(Unused::Refuse));
        step(&group, &reducer);
        let pass = begin_to_fail(&group, &reducer, ctx.rank() == 1);
        let missing = if ctx.rank() == 1 { 7 } else { 20 };
        let error = fail(&reducer, pass, (0..20).filter(|&at| at != missing));
        let kind = if ctx.rank() == 1 { ErrorKind::Mistake } else { ErrorKind::Aborted };
        assert_eq!(error.kind(), kind, "{error}");
        assert!(matches!(reducer.begin(), Err(Error::Failed { .. } | Error::Group(_))));
        error.to_string()
    });
    assert!(told.iter().all(|text| text.contains("\"layer 7\"")), "{told:?}");
}

fn what_does_not_fit_is_refused_and_the_pass_goes_on(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new());
        let pass = reducer.begin().unwrap();
        assert!(pass.ready(20, &[1.0_f32]).is_err());
        let error = pass.ready(0, &[1.0_f32; 2]).unwrap_err();
        assert!(error.to_string().contains("\"layer 0\""), "{error}");
        assert!(matches!(pass.ready(0, &[1.0_f64]), Err(Error::Gradient { .. })));
        give(&group, &reducer, &pass, 0..20);
        let error = pass.ready(0, &[1.0_f32]).unwrap_err();
        assert!(matches!(&error, Error::Twice { name } if name == "layer 0"), "{error}");
        super::model::check(&group, &reducer, 1, &pass.finish().unwrap());
    });
}

fn a_pass_is_used_once_and_one_after_the_other(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new());
        // One that nobody differentiates leaves nothing behind.
        let pass = reducer.begin().unwrap();
        assert!(matches!(reducer.begin(), Err(Error::Pending { pass: 1 })));
        drop(pass);
        let pass = reducer.begin().unwrap();
        pass.ready(0, &[1.0_f32]).unwrap();
        drop(pass);
        step(&group, &reducer);
        let pass = reducer.begin().unwrap();
        give(&group, &reducer, &pass, 0..20);
        let held = pass.finish().unwrap();
        assert!(matches!(reducer.begin(), Err(Error::Pending { .. })));
        assert!(matches!(reducer.begin_local(), Err(Error::Pending { .. })));
        drop(held);
        step(&group, &reducer);
    });
}

fn a_pass_goes_on_when_another_was_begun_within_it(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new());
        for _ in 0..3 {
            let outer = reducer.begin().unwrap();
            let number = outer.number();
            // Before anything has come, in the middle, when buckets have gone, and at the end.
            for index in (0..20).rev() {
                for inner in [reducer.begin(), reducer.begin_local()] {
                    assert!(matches!(inner, Err(Error::Pending { pass }) if pass == number));
                }
                give(&group, &reducer, &outer, index..index + 1);
            }
            assert!(matches!(reducer.begin(), Err(Error::Pending { pass }) if pass == number));
            super::model::check(&group, &reducer, number, &outer.finish().unwrap());
        }
    });
}

fn a_graph_that_changes_is_not_static(case: Case) {
    let told = case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new().static_graph());
        step(&group, &reducer);
        let pass = reducer.begin().unwrap();
        give(&group, &reducer, &pass, 0..1);
        let error = pass.ready(0, &[1.0_f32]).unwrap_err();
        assert!(matches!(error, Error::Changed { came: 2, expected: 1, .. }), "{error}");
        drop(pass);
        // One that had none in the first pass must not have one later.
        let reducer = super::model::reducer(&group, Options::new().static_graph());
        let pass = reducer.begin().unwrap();
        give(&group, &reducer, &pass, 1..20);
        drop(pass.finish().unwrap());
        let pass = reducer.begin().unwrap();
        let error = pass.ready(0, &[1.0_f32]).unwrap_err();
        assert!(matches!(error, Error::Changed { came: 1, expected: 0, .. }), "{error}");
        drop(pass);
        let error = group.barrier();
        error.is_ok()
    });
    assert_eq!(told, [true, true]);
}

fn a_gradient_that_could_not_be_written_may_come_again(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new());
        for _ in 0..2 {
            let pass = reducer.begin().unwrap();
            let number = pass.number();
            let failed = |_: &mut [f32], _| Err(Error::Argument("no room to compute".to_owned()));
            assert!(pass.ready_with(3, failed).is_err());
            give(&group, &reducer, &pass, 0..20);
            super::model::check(&group, &reducer, number, &pass.finish().unwrap());
        }
        // If it does not, it counts as one that did not come.
        let pass = reducer.begin().unwrap();
        assert!(
            pass.ready_with(3, |_: &mut [f32], _| Err(Error::Argument(String::new()))).is_err()
        );
        give(&group, &reducer, &pass, (0..20).filter(|&at| at != 3));
        assert!(!pass.finish().unwrap().is_used(3));
    });
}

fn a_pass_that_is_dropped_takes_what_was_added_up_with_it(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new());
        for is_local in [true, false] {
            let pass = reducer.begin_local().unwrap();
            give(&group, &reducer, &pass, 0..20);
            pass.finish().unwrap();
            let pass = if is_local { reducer.begin_local() } else { reducer.begin() }.unwrap();
            pass.ready(7, &vec![1.0_f32; reducer.parameters()[7].len()]).unwrap();
            drop(pass);
            step(&group, &reducer);
        }
    });
}

fn a_reducer_without_parameters_has_nothing_to_do(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = Reducer::new(&group, Vec::new(), Options::new()).unwrap();
        for _ in 0..3 {
            drop(reducer.begin().unwrap().finish().unwrap());
            drop(reducer.begin_local().unwrap().finish().unwrap());
        }
    });
}

fn gradients_that_cannot_be_kept_as_asked_are_refused_by_name(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let parameters = vec![
            Parameter::new("good", Dtype::Bf16, &[2]),
            Parameter::new("odd", Dtype::C64, &[2]),
        ];
        let options = Options::new().reduce_as(Dtype::F32);
        let error = Reducer::new(&group, parameters, options).unwrap_err().to_string();
        assert!(error.contains("\"odd\"") && error.contains("Options::reduce_as"), "{error}");
        step(&group, &reducer(&group, Options::new()));
    });
}

fn what_comes_after_a_failure_tells_of_the_same_kind(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new().unused(Unused::Refuse));
        step(&group, &reducer);
        let pass = begin_to_fail(&group, &reducer, true);
        let error = fail(&reducer, pass, 1..20);
        let later = reducer.begin().unwrap_err();
        assert!(matches!(later, Error::Failed { .. }), "{later}");
        assert_eq!(later.kind(), error.kind());
    });
}

fn parameters_that_no_memory_has_room_for_are_refused(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        for shape in [&[1_usize << 62, 8][..], &[1 << 45]] {
            for options in [Options::new(), Options::new().adopt(1)] {
                let huge = Parameter::new("huge", Dtype::F32, shape);
                let error = Reducer::new(&group, vec![huge], options).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Mistake, "{error}");
            }
        }
        step(&group, &reducer(&group, Options::new()));
    });
}

fn who_panics_while_it_writes_a_gradient_may_bring_it_again(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new());
        let pass = reducer.begin().unwrap();
        let write = |_: &mut [f32], _| panic!("no more power");
        let panicked = catch_unwind(AssertUnwindSafe(|| pass.ready_with(3, write)));
        assert!(panicked.is_err());
        give(&group, &reducer, &pass, 0..20);
        super::model::check(&group, &reducer, 1, &pass.finish().unwrap());
    });
}

fn a_panic_when_averages_have_come_is_told_to_all(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new());
        step(&group, &reducer);
        let pass = begin_to_fail(&group, &reducer, ctx.rank() == 0);
        give(&group, &reducer, &pass, (0..20).filter(|&at| at > 0 || ctx.rank() == 0));
        if ctx.rank() == 0 {
            let finish = || pass.finish_with(|_, _| panic!("no more power"));
            assert!(catch_unwind(AssertUnwindSafe(finish)).is_err());
            assert!(matches!(reducer.begin(), Err(Error::Failed { .. })));
        } else {
            // Before it brings the last gradient, rank 0 waits for it: nobody is past the end.
            pass.ready(0, &gradient_of(&reducer, 0)).unwrap();
            // Whoever has its averages already hears of it in the next call.
            let error = pass.finish().err().unwrap_or_else(|| {
                reducer.begin().map_or_else(|error| error, |pass| fail(&reducer, pass, 0..20))
            });
            assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
        }
    });
}

fn gradient_of(reducer: &Reducer, index: usize) -> Vec<f32> {
    vec![1.0; reducer.parameters()[index].len()]
}

/// Panics with the first bucket of a pass.
struct Powerless(u64);

impl CommHook for Powerless {
    fn name(&self) -> &str {
        "powerless"
    }

    fn start(&mut self, bucket: Bucket, round: &Round<'_>) -> Result<Pending, Error> {
        assert!(round.pass != self.0 || bucket.index() > 0, "no more power");
        round.average(bucket)
    }
}

fn a_hook_that_panics_leaves_nobody_waiting(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new().hook(Powerless(2)));
        step(&group, &reducer);
        let pass = begin_to_fail(&group, &reducer, true);
        for index in (0..20).rev() {
            let mine = gradient_of(&reducer, index);
            let _ = catch_unwind(AssertUnwindSafe(|| pass.ready(index, &mine)));
        }
        assert!(pass.finish().is_err());
        assert!(matches!(reducer.begin(), Err(Error::Failed { .. })));
    });
}
