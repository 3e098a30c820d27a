//! Calls on devices that are not made, or not by all ranks in the same way.

use consort::device::{Driver, Memory, calls};
use consort::{Call, Dtype, Error, Inputs, Lists, Outputs, OwnedCall, Rank, ReduceOp};

use crate::stage::{device, download, meet, upload, with_devices};
use crate::sums::{next, sum};

/// Parts of any size for each rank, and room for those of each.
struct Exchange {
    mine: Memory,
    theirs: Memory,
    /// Of how many bytes the parts are.
    gives: Vec<usize>,
    takes: Vec<usize>,
}

impl OwnedCall for Exchange {
    fn call<'a>(&'a mut self, lists: &'a mut Lists<'a>) -> Call<'a> {
        let (mut at, mine) = (0, self.mine.source());
        lists.inputs.extend(self.gives.iter().map(|len| {
            at += len;
            mine.slice(at - len..at)
        }));
        let (mut at, theirs) = (0, self.theirs.target());
        lists.outputs.extend(self.takes.iter().map(|len| {
            at += len;
            theirs.slice(at - len..at)
        }));
        Call::AllToAll {
            dtype: Dtype::U8,
            uneven: true,
            inputs: Inputs::List(&lists.inputs),
            outputs: Outputs::List(&lists.outputs),
        }
    }
}

#[test]
fn ranks_that_expect_other_parts_than_they_are_given_hear_of_it_before_anything_moves() {
    with_devices(3)
        .start(|ctx| {
            let group = meet(ctx);
            let (device, me) = (device(&group), group.rank().index());
            let (gives, mut takes) = (vec![8; 3], vec![8; 3]);
            if me == 1 {
                takes[0] = 12;
            }
            let (mine, theirs) = (upload(&device, &[7_u8; 24]), upload(&device, &[0_u8; 28]));
            let work = group.call_async(Exchange { mine, theirs, gives, takes }).unwrap();
            let failed = work.wait().map(|_| ()).unwrap_err();
            let Error::Mismatch { first: (1, expected), second: (0, given), .. } = &failed.error
            else {
                panic!("{}", failed.error)
            };
            assert!(expected.contains("12 bytes from rank 0 to rank 1"), "{expected}");
            assert!(given.ends_with("with 8"), "{given}");
            assert!(download::<u8>(&failed.buffer.theirs) == [0; 28]);
        })
        .expect_all();
}

/// Everyone's part, for the root.
struct Collection {
    root: Rank,
    mine: Memory,
    all: Memory,
    takes: Vec<usize>,
    is_root: bool,
}

impl OwnedCall for Collection {
    fn call<'a>(&'a mut self, lists: &'a mut Lists<'a>) -> Call<'a> {
        let (mut at, all) = (0, self.all.target());
        lists.outputs.extend(self.takes.iter().map(|len| {
            at += len;
            all.slice(at - len..at)
        }));
        let outputs = self.is_root.then_some(Outputs::List(&lists.outputs));
        let (root, input) = (self.root, self.mine.source());
        Call::Gather { dtype: Dtype::U8, root, uneven: true, input, outputs }
    }
}

#[test]
fn a_root_that_expects_other_parts_than_it_is_given_tells_all() {
    with_devices(3)
        .start(|ctx| {
            let group = meet(ctx);
            let (device, me) = (device(&group), group.rank().index());
            for is_right in [true, false] {
                let len = if is_right || me != 2 { 5 + me } else { 1 };
                let call = Collection {
                    root: Rank::from(1),
                    mine: upload(&device, &vec![me as u8 + 1; len]),
                    all: upload(&device, &[0_u8; 18]),
                    takes: vec![5, 6, 7],
                    is_root: me == 1,
                };
                let done = group.call_async(call).unwrap().wait();
                match done {
                    Ok(call) if is_right => {
                        let wanted = [&[1; 5][..], &[2; 6], &[3; 7]].concat();
                        assert!(me != 1 || download::<u8>(&call.all) == wanted);
                    }
                    Err(failed) if !is_right => {
                        let text = failed.error.to_string();
                        assert!(text.contains("7 bytes from rank 2 to rank 1"), "{text}");
                    }
                    other => panic!("{:?}", other.map(|_| ()).map_err(|failed| failed.error)),
                }
            }
        })
        .expect_all();
}

#[test]
fn what_cannot_be_carried_out_is_refused_at_once_and_counts_as_no_call() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            next(&group, &[1.0; 8]).unwrap();
            let other = Driver::load().unwrap().device(7).unwrap();
            let elsewhere =
                calls::all_reduce(upload(&other, &[1.0_f32]), Dtype::F32, ReduceOp::Sum);
            if group.rank() == 1 {
                let text = group.call_async(elsewhere).unwrap_err().to_string();
                assert!(text.contains("device 7"), "{text}");
                let bits = calls::all_reduce(
                    upload(&device(&group), &[1_u8]),
                    Dtype::U8,
                    ReduceOp::BitAnd,
                );
                let first = sum(&group, &[1.0]);
                let refused = group.coalesced(|it| Ok((it.call(first)?, it.call(bits)?)));
                assert!(matches!(refused, Err(Error::Argument(_))));
            }
            // Both are at the same call still.
            assert_eq!(next(&group, &[1.5; 8]).unwrap(), [3.0; 8]);
            let trace = group.trace().unwrap();
            let there = trace.groups.iter().find(|it| it.name == "world/(devices)").unwrap();
            assert_eq!((there.made, there.ended, there.failed), (2, 2, 0));
        })
        .expect_all();
}
