//! Gradients that an engine writes where they travel, past what Rust knows of.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;

use consort::{Dtype, ErrorKind, Group};
use consort_testkit::{Case, conformance};
use consort_train::{Cast, Error, Options, Parameter, Place, Places, Reducer, Unused};

use super::model::{average, begin_to_fail, fail, gradient, meet, reducer};

conformance! { [shm tcp mixed in_process]
    what_an_engine_writes_to_its_places_is_averaged_there
    backward_that_fails_is_named_on_all_as_soon_as_a_gradient_has_come
}
conformance! { [shm in_process]
    parts_of_a_gradient_are_added_by_the_engine_itself
    what_an_engine_leaves_out_is_zero_at_its_place
    numbers_that_travel_smaller_come_back_to_their_places
    memory_stays_where_it_was_as_long_as_somebody_has_the_places
}
conformance! { [in_process]
    places_are_only_for_who_has_asked_for_them
}

/// Memory as an engine sees that knows it by its address.
struct Engine(File);

impl Engine {
    fn new() -> Self {
        Self(OpenOptions::new().read(true).write(true).open("/proc/self/mem").unwrap())
    }

    fn write(&self, place: Place, numbers: &[f32]) {
        assert_eq!(place.bytes, size_of_val(numbers));
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        self.0.write_all_at(&bytes, place.address as u64).unwrap();
    }

    fn read(&self, place: Place) -> Vec<f32> {
        let mut bytes = vec![0; place.bytes];
        self.0.read_exact_at(&mut bytes, place.address as u64).unwrap();
        bytes.chunks(4).map(|number| f32::from_ne_bytes(number.try_into().unwrap())).collect()
    }
}

/// One whole pass, whose gradients are written in place. Gives the places.
fn step(group: &Group, reducer: &Reducer, engine: &Engine) -> Places {
    let pass = reducer.begin().unwrap();
    let (number, places) = (pass.number(), pass.places().unwrap().clone());
    let count = reducer.parameters().len();
    let len = |index: usize| reducer.parameters()[index].len();
    for index in (0..count).map(|at| (at * 7 + 3) % count) {
        let mine = gradient(group, group.rank().index(), number, index, len(index));
        engine.write(places.of(index).unwrap(), &mine);
        pass.ready_in_place(index).unwrap();
    }
    drop(pass.finish().unwrap());
    for index in 0..count {
        let expected = average(group, 0..group.world(), number, index, len(index));
        assert_eq!(engine.read(places.of(index).unwrap()), expected, "pass {number}, {index}");
    }
    places
}

fn what_an_engine_writes_to_its_places_is_averaged_there(case: Case) {
    case.run(3, |ctx| {
        let (group, engine) = (meet(ctx), Engine::new());
        let reducer = reducer(&group, Options::new().in_place());
        let at_first = reducer.places().unwrap();
        let first = step(&group, &reducer, &engine);
        assert_eq!(first.generation(), at_first.generation());
        assert_eq!(first.of(3), at_first.of(3));
        // Now the order is known, and buckets are made anew.
        let second = step(&group, &reducer, &engine);
        assert_ne!(second.generation(), first.generation());
        let third = step(&group, &reducer, &engine);
        assert_eq!(third.generation(), second.generation());
        for (index, parameter) in reducer.parameters().iter().enumerate() {
            let place = third.of(index).unwrap();
            assert_eq!((place.bytes, place.dtype), (parameter.bytes(), Dtype::F32));
            assert!(reducer.buckets()[place.bucket].contains(&index));
            assert_eq!(Some(place), second.of(index));
        }
        // What was copied there is at the same place.
        let pass = reducer.begin().unwrap();
        for (index, parameter) in reducer.parameters().iter().enumerate() {
            pass.ready(index, &vec![group.rank().get() as f32; parameter.len()]).unwrap();
        }
        drop(pass.finish().unwrap());
        assert!(engine.read(third.of(4).unwrap()).iter().all(|number| *number == 1.0));
        reducer.set_group(&group).unwrap();
        assert_ne!(step(&group, &reducer, &engine).generation(), third.generation());
    });
}

fn parts_of_a_gradient_are_added_by_the_engine_itself(case: Case) {
    case.run(2, |ctx| {
        let (group, engine) = (meet(ctx), Engine::new());
        let options = Options::new().static_graph().in_place();
        let parameters = vec![Parameter::new("twice", Dtype::F32, &[3])];
        let reducer = Reducer::new(&group, parameters, options).unwrap();
        for _ in 0..3 {
            let pass = reducer.begin().unwrap();
            let place = pass.places().unwrap().of(0).unwrap();
            for part in [1.0, 2.0] {
                let sum = (group.rank().get() + 1) as f32 * part;
                engine.write(place, &[sum, 2.0 * sum, 3.0 * sum]);
                pass.ready_in_place(0).unwrap();
            }
            drop(pass.finish().unwrap());
            assert_eq!(engine.read(place), [3.0, 6.0, 9.0]);
        }
    });
}

fn what_an_engine_leaves_out_is_zero_at_its_place(case: Case) {
    case.run(2, |ctx| {
        let (group, engine) = (meet(ctx), Engine::new());
        let one = |name| Parameter::new(name, Dtype::F32, &[2]);
        let parameters = vec![one("always"), one("on rank 0"), one("never")];
        let reducer = Reducer::new(&group, parameters, Options::new().in_place()).unwrap();
        for _ in 0..3 {
            let pass = reducer.begin().unwrap();
            let places = pass.places().unwrap().clone();
            let place = |index| places.of(index).unwrap();
            (0..3).for_each(|index| engine.write(place(index), &[8.0, 6.0]));
            pass.ready_in_place(0).unwrap();
            if ctx.rank() == 0 {
                pass.ready_in_place(1).unwrap();
            }
            let averages = pass.finish().unwrap();
            assert!(averages.is_used(1) && !averages.is_used(2));
            drop(averages);
            let found = [0, 1, 2].map(|index| engine.read(place(index)));
            assert_eq!(found, [[8.0, 6.0], [4.0, 3.0], [0.0, 0.0]]);
        }
    });
}

fn numbers_that_travel_smaller_come_back_to_their_places(case: Case) {
    case.run(2, |ctx| {
        let (group, engine) = (meet(ctx), Engine::new());
        let parameters = vec![Parameter::new("w", Dtype::F32, &[5])];
        let options = Options::new().hook(Cast::bf16()).in_place();
        let reducer = Reducer::new(&group, parameters, options).unwrap();
        let pass = reducer.begin().unwrap();
        let place = pass.places().unwrap().of(0).unwrap();
        engine.write(place, &[(1 + group.rank().get() * 2) as f32; 5]);
        pass.ready_in_place(0).unwrap();
        drop(pass.finish().unwrap());
        assert_eq!(engine.read(place), [2.0; 5]);
    });
}

fn memory_stays_where_it_was_as_long_as_somebody_has_the_places(case: Case) {
    case.run(2, |ctx| {
        let (group, engine) = (meet(ctx), Engine::new());
        let reducer = reducer(&group, Options::new().in_place());
        let first = step(&group, &reducer, &engine);
        let before = engine.read(first.of(4).unwrap());
        let second = step(&group, &reducer, &engine);
        // The first buckets are gone, and somebody may still look at them.
        assert_eq!(engine.read(first.of(4).unwrap()), before);
        // A pass that fails loses its buckets.
        let pass = begin_to_fail(&group, &reducer, ctx.rank() == 0);
        if ctx.rank() == 0 {
            pass.ready_in_place(19).unwrap();
            pass.fail("the loss was not a number");
        } else {
            (0..20).rev().try_for_each(|index| pass.ready_in_place(index)).unwrap_or(());
            assert!(pass.finish().is_err());
        }
        (0..20).for_each(|index| {
            assert_eq!(engine.read(second.of(index).unwrap()).len(), {
                reducer.parameters()[index].len()
            })
        });
        drop((reducer, group));
        engine.write(second.of(4).unwrap(), &before);
        assert_eq!(engine.read(second.of(4).unwrap()), before);
    });
}

fn backward_that_fails_is_named_on_all_as_soon_as_a_gradient_has_come(case: Case) {
    let told = case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new().in_place());
        // Before any gradient has come, nobody else has to know.
        reducer.begin().unwrap().fail("there was no input");
        let pass = begin_to_fail(&group, &reducer, ctx.rank() == 1);
        if ctx.rank() == 1 {
            // No bucket is complete.
            pass.ready_in_place(0).unwrap();
            pass.fail("a layer could not be computed");
            let error = reducer.begin().unwrap_err();
            assert!(matches!(error, Error::Failed { .. }), "{error}");
            return error.to_string();
        }
        let error = fail(&reducer, pass, (0..20).rev());
        assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
        assert!(error.to_string().contains("rank 1"), "{error}");
        error.to_string()
    });
    let what = "pass 2 was dropped before its end, when gradients had come: a layer could not be";
    assert!(told.iter().all(|text| text.contains(what)), "{told:?}");
}

fn places_are_only_for_who_has_asked_for_them(case: Case) {
    case.run(1, |ctx| {
        let group = meet(ctx);
        let table = Parameter::new("table", Dtype::F32, &[4, 2]).sparse().unwrap();
        let parameters = || vec![table.clone(), Parameter::new("w", Dtype::F32, &[2])];
        let reducer = Reducer::new(&group, parameters(), Options::new()).unwrap();
        let error = reducer.places().unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().contains("in_place")),
            (ErrorKind::Mistake, true)
        );
        assert!(reducer.begin().unwrap().ready_in_place(1).is_err());
        let options = Options::new().in_place().unused(Unused::Average);
        let reducer = Reducer::new(&group, parameters(), options).unwrap();
        let places = reducer.places().unwrap();
        assert!(places.of(0).is_none() && places.of(1).is_some() && places.of(2).is_none());
        let pass = reducer.begin().unwrap();
        assert!(pass.ready_in_place(0).unwrap_err().to_string().contains("by rows"));
        assert!(pass.ready_in_place(2).is_err());
        pass.ready_in_place(1).unwrap();
        assert!(matches!(pass.ready_in_place(1), Err(Error::Twice { .. })));
        drop(pass.finish().unwrap());
        let both = Options::new().in_place().adopt(1);
        let error = Reducer::new(&group, parameters(), both).unwrap_err().to_string();
        assert!(error.contains("Options::adopt"), "{error}");
    });
}
