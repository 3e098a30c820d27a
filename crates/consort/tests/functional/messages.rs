//! Values that are sent.

use consort::functional::{Array, Message, Meta, batch, permute, recv, send};
use consort::{Dtype, Error, ErrorKind};
use consort_testkit::{Case, conformance};

use crate::meet::{LARGE, alone, array, coded, meet};
use crate::numbers::{Number, for_every_kind, scramble};

conformance! { [shm tcp mixed in_process mpi]
    a_value_arrives_as_it_was_sent
    ranks_can_send_each_other_any_amount_at_once
    a_permutation_of_any_size_does_not_wait_for_itself
    a_message_of_another_kind_is_an_error_and_the_group_goes_on
}

fn a_value_arrives_as_it_was_sent(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        for_every_kind!(send_one(&group));
        // Those that are asked for, whatever came first; not the values as they are later.
        if ctx.rank() == 0 {
            let mut x = vec![1_u8; 5];
            let first = send(&x, 1, 1, &group).unwrap();
            x.fill(2);
            let second = send(&x, 1, 2, &group).unwrap();
            drop(x);
            second.wait().unwrap();
            first.wait().unwrap();
        } else {
            let meta = Meta::new(Dtype::U8, [5]);
            let second: Vec<u8> = recv(meta.clone(), 0, 2, &group).unwrap().wait().unwrap();
            let first: Vec<u8> = recv(meta, 0, 1, &group).unwrap().wait().unwrap();
            assert_eq!((first, second), (vec![1; 5], vec![2; 5]));
        }
    });
}

fn send_one<T: Number>(group: &consort::Group) {
    for shape in [&[][..], &[0], &[2, 0, 3], &[5, 3]] {
        let numbers = (0..shape.iter().product()).map(|at: usize| T::any(scramble(at as u64)));
        let x = array(shape, numbers.collect::<Vec<T>>());
        if group.rank().get() == 0 {
            send(&x, 1, 7, group).unwrap().wait().unwrap();
        } else {
            let meta = Meta::new(T::DTYPE, shape);
            let found: Array<T> = recv(meta, 0, 7, group).unwrap().wait().unwrap();
            assert_eq!(found.shape(), shape);
            assert_eq!(T::bytes(found.numbers()), T::bytes(x.numbers()));
        }
    }
}

fn ranks_can_send_each_other_any_amount_at_once(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let me = ctx.rank() as usize;
        let others: Vec<usize> = (0..3).filter(|&rank| rank != me).collect();
        let shape = [2, LARGE / 2];
        let x = coded(me, &shape);
        let sends =
            others.iter().map(|&to| Message::Out { x: &x, to: (to as u32).into(), tag: 3.into() });
        let receives = others.iter().map(|&from| Message::In {
            meta: Meta::new(Dtype::I64, shape),
            from: (from as u32).into(),
            tag: 3.into(),
        });
        let all = batch(&sends.chain(receives).collect::<Vec<_>>(), &group).unwrap();
        let found = all.wait().unwrap();
        assert!(
            found.iter().eq(&others.iter().map(|&from| coded(from, &shape)).collect::<Vec<_>>())
        );
        // None at all, one to itself, and to somebody who does not exist.
        assert!(batch::<Vec<u8>>(&[], &group).unwrap().wait().unwrap().is_empty());
        let (rank, tag, x) = (group.rank(), 4.into(), vec![me as u16; 9]);
        let receive = Message::In { meta: Meta::new(Dtype::U16, [9]), from: rank, tag };
        let own = batch(&[receive, Message::Out { x: &x, to: rank, tag }], &group).unwrap();
        assert_eq!(own.wait().unwrap()[..], *std::slice::from_ref(&x));
        let wrong = [
            Message::Out { x: &x, to: 0.into(), tag: 5.into() },
            Message::Out { x: &x, to: 3.into(), tag },
        ];
        let error = batch(&wrong, &group).unwrap_err();
        assert_eq!(error.to_string(), "there is no rank 3 in a group of 3");
    });
}

/// All send before anybody receives.
fn a_permutation_of_any_size_does_not_wait_for_itself(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let me = ctx.rank() as usize;
        let circle = [(0, 1), (1, 2), (2, 0)];
        let x = coded(me, &[LARGE]);
        let one = permute(&x, &circle, &group).unwrap();
        let two = permute(&x, &[(1, 1), (2, 0), (0, 2)], &group).unwrap();
        // Who is not in it has nothing to wait for.
        let three = permute(&x, &[(0, 1)], &group).unwrap();
        assert!(me != 2 || three.is_done());
        assert_eq!(two.wait().unwrap(), coded(2 - me, &[LARGE]));
        assert_eq!(one.wait().unwrap(), coded((me + 2) % 3, &[LARGE]));
        let right = if me == 1 { coded(0, &[LARGE]) } else { array(&[LARGE], vec![0; LARGE]) };
        assert_eq!(three.wait().unwrap(), right);
        assert_eq!(group.calls(), 0);
    });
}

fn a_message_of_another_kind_is_an_error_and_the_group_goes_on(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        if ctx.rank() == 0 {
            for len in [3, 4, 5] {
                send(&vec![1_u32; len], 1, 1, &group).unwrap().wait().unwrap();
            }
        } else {
            for meta in [Meta::new(Dtype::F32, [3]), Meta::new(Dtype::F32, [2, 3])] {
                let error = recv::<Array<f32>>(meta, 0, 1, &group).unwrap().wait().unwrap_err();
                assert!(matches!(error, Error::MessageDiffers { .. }), "{error}");
                assert_eq!(error.kind(), ErrorKind::Mismatch);
            }
            let five: Vec<u32> =
                recv(Meta::new(Dtype::U32, [5]), 0, 1, &group).unwrap().wait().unwrap();
            assert_eq!(five, [1; 5]);
        }
        group.barrier().unwrap();
    });
}

#[test]
fn a_value_cannot_be_received_as_another_kind_of_numbers_than_its_own() {
    let group = alone();
    send(&vec![1.5_f64], 0, 1, &group).unwrap().wait().unwrap();
    // As many bytes, but not two single numbers.
    let found = recv::<Vec<f32>>(Meta::new(Dtype::F64, [2]), 0, 1, &group);
    let found = found.map(|pending| pending.wait());
    assert!(!matches!(found, Ok(Ok(_))), "{found:?}");
}

#[test]
fn nobody_sends_to_a_rank_that_does_not_exist() {
    let group = alone();
    let words = "there is no rank 1 in a group of 1";
    let error = send(&vec![1_u8], 1, 0, &group).unwrap_err().to_string();
    assert!(error.contains(words), "{error}");
    let meta = Meta::new(Dtype::U8, [1]);
    let error = recv::<Vec<u8>>(meta, 1, 0, &group).unwrap_err().to_string();
    assert!(error.contains(words), "{error}");
    let huge = Meta::new(Dtype::U8, [usize::MAX, 2]);
    let error = recv::<Vec<u8>>(huge, 0, 0, &group).unwrap_err().to_string();
    assert!(error.starts_with("no memory is as large as u8"), "{error}");
}
