//! What comes of each call.

use std::sync::Arc;

use consort::{Call, Inputs, Lists, Outputs, OwnedCall, ReduceOp};
use consort::{Dtype, Element};
use consort_testkit::{Case, conformance};

use crate::meet::{LARGE, alone, coded, late, meet, mine};

conformance! { [shm tcp mixed in_process]
    every_call_gives_what_its_blocking_form_gives
    a_call_with_parts_of_its_own_is_carried_out
}

/// Every call, once waited for by whoever carries it out, once by one who only looks.
fn every_call_gives_what_its_blocking_form_gives(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let (me, world) = (ctx.rank() as usize, 3);
        for (len, helped) in [(5, true), (5, false), (LARGE / 4, true), (LARGE / 4, false)] {
            macro_rules! done {
                ($work:expr) => {{
                    let work = $work.unwrap();
                    match helped {
                        true => work.wait().unwrap(),
                        false => work.wait_until(late()).expect("there is time").unwrap(),
                    }
                }};
            }
            done!(group.barrier_async());

            let mut same = mine(&group, len);
            group.all_reduce(&mut same, ReduceOp::Avg).unwrap();
            assert_eq!(done!(group.all_reduce_async(mine(&group, len), ReduceOp::Avg)), same);

            let boxed: Box<[f32]> = mine(&group, len).into();
            assert_eq!(*done!(group.broadcast_async(boxed, 2)), vec![3.0; len]);

            let reduced = done!(group.reduce_async(mine(&group, len), ReduceOp::Sum, 1));
            assert_eq!(reduced, if me == 1 { vec![6.0; len] } else { mine(&group, len) });

            let all: Vec<f32> = (1..=world).flat_map(|number| vec![number as f32; len]).collect();
            let input: Arc<[f32]> = mine(&group, len).into();
            let (kept, gathered) =
                done!(group.all_gather_async(input.clone(), vec![0.0; world * len]));
            assert_eq!((&kept, &gathered), (&input, &all));

            let output = (me == 0).then(|| vec![0.0; world * len]);
            let (_, gathered) = done!(group.gather_async(input.clone(), output, 0));
            assert_eq!(gathered, (me == 0).then(|| all.clone()));

            let output = vec![0.0; len];
            let (_, mine_of_all) =
                done!(group.scatter_async((me == 0).then(|| all.clone()), output, 0));
            assert_eq!(mine_of_all, mine(&group, len));

            let (_, sums) =
                done!(group.reduce_scatter_async(all.clone(), vec![0.0; len], ReduceOp::Sum));
            assert_eq!(sums, vec![3.0 * (me as f32 + 1.0); len]);

            let parts: Vec<f32> = (0..world).flat_map(|_| mine(&group, len)).collect();
            let (_, exchanged) = done!(group.all_to_all_async(parts, vec![0.0; world * len]));
            assert_eq!(exchanged, all);
        }
    });
}

/// Parts of different sizes in a call that is known only at run time.
struct Uneven {
    inputs: Vec<Vec<f32>>,
    outputs: Vec<Vec<f32>>,
}

impl OwnedCall for Uneven {
    fn call<'a>(&'a mut self, lists: &'a mut Lists<'a>) -> Call<'a> {
        lists.inputs.extend(self.inputs.iter().map(|part| f32::source(part)));
        lists.outputs.extend(self.outputs.iter_mut().map(|part| f32::target(part)));
        Call::AllToAll {
            dtype: Dtype::F32,
            uneven: true,
            inputs: Inputs::List(&lists.inputs),
            outputs: Outputs::List(&lists.outputs),
        }
    }
}

fn a_call_with_parts_of_its_own_is_carried_out(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let me = ctx.rank() as usize;
        // From one rank to another, another size than back.
        let size = |from: usize, to: usize| to + 100_000 * from * to;
        let sent = |from: usize, to: usize| coded(from * 3 + to, size(from, to));
        for _ in 0..2 {
            let call = Uneven {
                inputs: (0..3).map(|to| sent(me, to)).collect(),
                outputs: (0..3).map(|from| vec![9.0; size(from, me)]).collect(),
            };
            let work = group.call_async(call).unwrap();
            let call = work.wait_until(late()).expect("there is time").unwrap();
            let expected: Vec<Vec<f32>> = (0..3).map(|from| sent(from, me)).collect();
            assert_eq!(call.outputs, expected);
        }
    });
}

#[test]
fn a_call_that_makes_no_sense_is_refused_at_once_and_gives_its_buffers_back() {
    let group = alone();
    let failed = group.broadcast_async(vec![1_u8, 2], 7).unwrap_err();
    assert_eq!(failed.buffer, [1, 2]);
    assert_eq!(failed.to_string(), "broadcast: there is no rank 7 in a group of 1");
    let failed = group.all_gather_async(vec![1_u8], vec![0; 3]).unwrap_err();
    assert_eq!(failed.buffer, (vec![1], vec![0; 3]));
    assert!(group.all_reduce_async(vec![1.0_f32], ReduceOp::BitAnd).is_err());
    assert_eq!(group.calls(), 0);
    assert_eq!(group.all_reduce_async(vec![4_u8], ReduceOp::Sum).unwrap().wait().unwrap(), [4]);
}
