//! What a value keeps, and what is refused whole.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use consort::functional::{
    Message, Meta, Pending, Value, View, all_reduce, all_to_all_uneven, batch, recv,
};
use consort::{Dtype, Element, Error, ErrorKind, Group, ReduceOp, Result};
use consort_testkit::{Case, conformance};

use crate::meet::{alone, array, block_on, meet};

conformance! { [shm tcp mixed in_process]
    a_value_that_is_there_does_not_keep_its_group
    a_batch_of_which_one_makes_no_sense_sends_nothing
    rows_of_different_shapes_are_no_rows_of_one_exchange
    a_group_that_came_too_late_is_made_when_it_is_asked_for_again
}

fn a_value_that_is_there_does_not_keep_its_group(case: Case) {
    case.run(2, |ctx| {
        let world = meet(ctx);
        let group = world.new_group(&[0, 1]).unwrap().unwrap();
        let kept = all_reduce(&vec![1.0_f32], ReduceOp::Sum, &group).unwrap();
        let view = kept.clone().map(|sum| Ok(sum[0]));
        assert_eq!((kept.get().unwrap()[0], *view.get().unwrap()), (2.0, 2.0));
        if ctx.rank() == 0 {
            drop(group);
        } else {
            let call = all_reduce(&vec![1.0_f32], ReduceOp::Sum, &group).unwrap();
            let error = call.wait().unwrap_err();
            assert!(matches!(&error, Error::Left { ranks, .. } if ranks == &[0]), "{error}");
        }
        world.barrier().unwrap();
        drop((kept, view));
    });
}

fn a_batch_of_which_one_makes_no_sense_sends_nothing(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        if ctx.rank() == 0 {
            let x = vec![1.0_f32, 2.0];
            let out = Message::Out { x: &x, to: 1.into(), tag: 5.into() };
            for meta in [Meta::new(Dtype::I64, [2]), Meta::new(Dtype::F32, [usize::MAX, 2])] {
                let room = Message::In { meta, from: 1.into(), tag: 6.into() };
                assert!(batch(&[out.clone(), room], &group).is_err());
            }
        }
        group.barrier().unwrap();
        if ctx.rank() == 1 {
            let brief = group.within(Duration::from_millis(200));
            let none = recv::<Vec<f32>>(Meta::new(Dtype::F32, [2]), 0, 5, &brief).unwrap().wait();
            assert_eq!(none.unwrap_err().kind(), ErrorKind::Deadline);
        }
        group.barrier().unwrap();
    });
}

fn rows_of_different_shapes_are_no_rows_of_one_exchange(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let shape: &[usize] = if ctx.rank() == 0 { &[2, 2, 3] } else { &[2, 3, 2] };
        let x = array(shape, vec![0_u8; 12]);
        let error = all_to_all_uneven(&x, &[1, 1], &[1, 1], &group).unwrap().wait().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
    });
}

fn a_group_that_came_too_late_is_made_when_it_is_asked_for_again(case: Case) {
    let mut job = case.of(3).start(|ctx| {
        let group = meet(ctx);
        let list = [2, 1];
        if ctx.rank() == 0 {
            return;
        }
        let brief = group.within(Duration::from_millis(300));
        if ctx.rank() == 2 {
            let error = brief.subgroup(&list).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Deadline, "{error}");
            ctx.reach("too late");
        } else {
            let _: bool = ctx.told("now");
            // What was settled without it is the same for it.
            assert_eq!(brief.subgroup(&list).unwrap_err().kind(), ErrorKind::Deadline);
        }
        let pair = group.subgroup(&list).unwrap();
        assert_eq!(pair.world_ranks(), list);
        pair.barrier().unwrap();
        assert_eq!(group.subgroup(&list).unwrap().name(), pair.name());
    });
    job.await_point(2, "too late");
    job.tell("now", &true);
    job.expect_all();
}

#[test]
fn a_value_that_asks_for_itself_is_told_so_however_it_is_used() {
    for is_awaited in [false, true] {
        let itself: Arc<Mutex<Option<Pending<u32>>>> = Arc::default();
        let found = itself.clone();
        let value: Pending<u32> = Pending::ready(1).map(move |_| {
            let itself = found.lock().unwrap().take().unwrap();
            itself.get().copied()
        });
        *itself.lock().unwrap() = Some(value.clone());
        let error = match is_awaited {
            true => block_on(value).unwrap_err(),
            false => value.wait().unwrap_err(),
        };
        assert_eq!(error.kind(), ErrorKind::Mistake, "{error}");
    }
}

/// Says one thing of itself and shows another.
#[derive(Clone)]
struct Liar {
    says: Meta,
    shows: Vec<usize>,
}

impl Value for Liar {
    type Memory = Vec<f32>;

    fn meta(&self) -> Result<Meta> {
        Ok(self.says.clone())
    }

    fn view<R>(&self, look: impl FnOnce(View<'_>) -> R) -> Result<R> {
        let numbers = vec![0.0; self.shows.iter().product()];
        Ok(look(View::rows(f32::source(&numbers), Dtype::F32, &self.shows)?))
    }

    fn from_memory(_: Vec<f32>, says: Meta) -> Self {
        let shows = says.shape.clone();
        Self { says, shows }
    }
}

#[test]
fn a_value_that_contradicts_itself_is_refused() {
    let group = alone();
    let says = Meta::new(Dtype::F32, [8, 2]);
    for shows in [vec![2, 2], vec![16], vec![2, 8], vec![80, 2]] {
        let liar = Liar { says: says.clone(), shows };
        for error in [
            all_reduce(&liar, ReduceOp::Sum, &group).err(),
            consort::functional::all_gather(&liar, 1, &group).err(),
            consort::functional::reduce_scatter(&liar, ReduceOp::Sum, 1, &group).err(),
            all_to_all_uneven(&liar, &[8], &[8], &group).err(),
            consort::functional::send(&liar, 0, 1, &group).err(),
        ] {
            let text = error.expect("it is refused").to_string();
            assert!(text.contains("says that it is f32 [8, 2], and shows"), "{text}");
        }
    }
    group.barrier().unwrap();
}

#[test]
fn what_is_sent_is_counted_to_the_byte() {
    let group = Group::fake(0, 4).unwrap();
    for _ in 0..1000 {
        all_reduce(&vec![1_u8], ReduceOp::Sum, &group).unwrap().wait().unwrap();
    }
    all_to_all_uneven(&vec![1_u8; 32], &[0, 32, 0, 0], &[0; 4], &group).unwrap().wait().unwrap();
    let rows = group.traffic().unwrap().rows;
    let found = rows.iter().map(|row| (row.operation, row.bytes, row.sent)).collect::<Vec<_>>();
    assert_eq!(found, [("all_reduce", 1000, 1500), ("all_to_all", 32, 32)]);
}
