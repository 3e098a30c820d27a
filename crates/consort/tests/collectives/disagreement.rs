//! Ranks that call different things: an error on every rank that names both calls, never a wait
//! for ever, never wrong data.

use std::time::{Duration, Instant};

use consort::{Call, Element, Error, ErrorKind, Group, Inputs, Outputs, ReduceOp, Result};
use consort_testkit::{Case, conformance};

use super::faults::same_everywhere;
use super::meet::meet;
use super::works::works;

conformance! { [shm tcp mixed in_process mpi]
    of_ranks_that_do_not_wait_for_each_other_is_noticed_soon
    about_the_operation_or_the_type_is_told_on_every_rank
    about_the_root_is_told_on_every_rank
    about_the_factor_is_told_on_every_rank
    about_the_count_is_told_on_every_rank
    about_how_many_numbers_are_in_which_buffer_is_told_on_every_rank
    about_the_order_of_two_calls_is_told_on_every_rank
    about_the_sizes_of_parts_is_told_on_every_rank
    about_sizes_that_only_two_ranks_know_is_told_on_every_rank
}
conformance! { [shm in_process]
    about_what_a_call_is_for_is_told_on_every_rank
    about_whether_memory_is_exchanged_in_place_is_told_on_every_rank
}

const SUM: ReduceOp = ReduceOp::Sum;

fn about_the_operation_or_the_type_is_told_on_every_rank(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let sum_of_floats = |group: &Group| group.all_reduce(&mut [1.0_f32; 3], SUM);
        let told = "all_reduce(sum) of 3 f32";
        disagree(&group, sum_of_floats, told, |group| group.barrier(), "barrier");
        let sum_of_integers = |group: &Group| group.all_reduce(&mut [1_i32; 3], SUM);
        disagree(&group, sum_of_floats, told, sum_of_integers, "all_reduce(sum) of 3 i32");
        let largest = |group: &Group| group.all_reduce(&mut [1.0_f32; 3], ReduceOp::Max);
        disagree(&group, sum_of_floats, told, largest, "all_reduce(max) of 3 f32");
        let all = |group: &Group| group.all_gather(&[1.0_f32; 3], &mut [0.0; 9]);
        disagree(&group, sum_of_floats, told, all, "all_gather of 3 f32");
        let parts = |group: &Group| group.reduce_scatter(&[1.0_f32; 9], &mut [0.0; 3], SUM);
        disagree(&group, sum_of_floats, told, parts, "reduce_scatter(sum) of 3 f32");
        let exchange = |group: &Group| group.all_to_all(&[1.0_f32; 9], &mut [0.0; 9]);
        disagree(&group, sum_of_floats, told, exchange, "all_to_all of 3 f32");
        let split = |group: &Group| group.split(None, 0).map(|_| ());
        disagree(&group, sum_of_floats, told, split, "split");
        works(&group);
    });
}

fn about_what_a_call_is_for_is_told_on_every_rank(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let split = |group: &Group| group.split(Some(1), 0).map(drop);
        let memory = |group: &Group| group.symmetric::<u64>(8).map(drop);
        // They move just as much.
        let words = |group: &Group| group.all_gather(&[1_i64; 5], &mut [0; 15]);
        disagree(&group, words, "all_gather of 5 i64", split, "split");
        let words = |group: &Group| group.all_gather(&[1_u64; 9], &mut [0; 27]);
        disagree(&group, words, "all_gather of 9 u64", memory, "asking for symmetric memory");
        disagree(&group, split, "split", memory, "asking for symmetric memory");
        works(&group);
    });
}

/// What is exchanged in place cannot be worked on in symmetric memory, on no rank then.
fn about_whether_memory_is_exchanged_in_place_is_told_on_every_rank(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let memory = group.symmetric::<u64>(6 << 10).unwrap();
        let exchange = |group: &Group, in_place: bool| {
            let mut window = memory.local()?;
            let (from, to) = window.split_at_mut(3 << 10);
            let (dtype, uneven) = (u64::DTYPE, false);
            let from = u64::target(from);
            let outputs = Outputs::Equal(if in_place { from } else { u64::target(to) });
            let inputs = Inputs::Equal(from.into());
            group.call(&Call::AllToAll { dtype, uneven, inputs, outputs })
        };
        let (in_place, apart) = (|it: &Group| exchange(it, true), |it: &Group| exchange(it, false));
        let call = "all_to_all of 1024 u64 in symmetric memory";
        disagree(&group, in_place, &format!("{call}, in place"), apart, call);
        // Where nobody has it in symmetric memory, and where all have it in place, they agree.
        in_place(&group).unwrap();
        let mut numbers = vec![1_u64; 3 << 10];
        let output = u64::target(&mut numbers);
        let (inputs, outputs) = (Inputs::Equal(output.into()), Outputs::Equal(output));
        match group.rank().get() {
            0 => in_place(&group).unwrap(),
            _ => {
                let (dtype, uneven) = (u64::DTYPE, false);
                group.call(&Call::AllToAll { dtype, uneven, inputs, outputs }).unwrap();
            }
        }
        works(&group);
    });
}

/// Ranks that only send, or only receive nothing, never wait for each other; but they are never far
/// ahead of each other either.
fn of_ranks_that_do_not_wait_for_each_other_is_noticed_soon(case: Case) {
    case.run(2, |ctx| {
        let world = meet(ctx);
        let me = ctx.rank();
        let everyone_is_root = |group: &Group| group.broadcast(&mut [1.5_f32], me);
        let nobody_is_root = |group: &Group| match me {
            0 => group.reduce(&mut [1.5_f32], SUM, 1),
            _ => group.reduce(&mut [1.5_f32], SUM, 0),
        };
        let one_sends_and_one_gives = |group: &Group| match me {
            0 => group.broadcast(&mut [1.5_f32], 0),
            _ => group.reduce(&mut [1.5_f32], SUM, 0),
        };
        fails_soon(&world, everyone_is_root);
        fails_soon(&world, nobody_is_root);
        fails_soon(&world, one_sends_and_one_gives);
        works(&world);
    });
}

fn about_the_factor_is_told_on_every_rank(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let scaled = |factor: f64| {
            move |group: &Group| group.all_reduce(&mut [1.0_f32; 3], ReduceOp::PremulSum(factor))
        };
        let told = "all_reduce(premul_sum) of 3 f32";
        disagree(&group, scaled(0.5), told, scaled(0.25), "with another factor");
        works(&group);
    });
}

fn about_the_count_is_told_on_every_rank(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let sum =
            |count: usize| move |group: &Group| group.all_reduce(&mut vec![1.0_f32; count], SUM);
        let gather = |count: usize| {
            move |group: &Group| group.all_gather(&vec![1_u8; count], &mut vec![0; 3 * count])
        };
        for (few, many) in [(3, 4), (0, 1), (1, 1_000_000), (100_000, 200_000), (8192, 8193)] {
            let told = |count| format!("all_reduce(sum) of {count} f32");
            disagree(&group, sum(few), &told(few), sum(many), &told(many));
            let told = |count| format!("all_gather of {count} u8");
            disagree(&group, gather(few), &told(few), gather(many), &told(many));
        }
        works(&group);
    });
}

fn about_how_many_numbers_are_in_which_buffer_is_told_on_every_rank(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let sums = |lengths: &'static [usize]| {
            move |group: &Group| {
                let mut buffers: Vec<Vec<f32>> =
                    lengths.iter().map(|&len| vec![1.0; len]).collect();
                let mut buffers: Vec<&mut [f32]> =
                    buffers.iter_mut().map(|it| &mut it[..]).collect();
                group.all_reduce_coalesced(&mut buffers, SUM)
            }
        };
        let together = "all_reduce(sum) of 3 f32 in shapes ";
        disagree(&group, sums(&[2, 1]), together, sums(&[1, 2]), together);
        disagree(&group, sums(&[2, 1]), together, sums(&[2, 1, 0]), together);
        let all = |group: &Group| group.all_reduce(&mut [1.0_f32; 3], SUM);
        disagree(&group, sums(&[2, 1]), together, all, "all_reduce(sum) of 3 f32");
        works(&group);
    });
}

fn about_the_root_is_told_on_every_rank(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        for count in [2, 100_000] {
            let broadcast = |root: u32| {
                move |group: &Group| {
                    let mut buffer = vec![group.rank().get(); count];
                    group.broadcast(&mut buffer, root)?;
                    assert_eq!(buffer, vec![root; count]);
                    Ok(())
                }
            };
            let told = |root| format!("broadcast of {count} u32, root {root}");
            disagree(&group, broadcast(0), &told(0), broadcast(1), &told(1));

            let reduce = |root: u32| {
                move |group: &Group| {
                    let mut buffer = vec![1_u32; count];
                    group.reduce(&mut buffer, SUM, root)?;
                    assert_eq!(buffer, vec![1; count], "no rank has got a result");
                    Ok(())
                }
            };
            let told = |root| format!("reduce(sum) of {count} u32, root {root}");
            disagree(&group, reduce(2), &told(2), reduce(1), &told(1));

            let gather = |root: u32| {
                move |group: &Group| {
                    let mut all = vec![0; 3 * count];
                    let is_root = group.rank().get() == root;
                    let outputs = is_root.then_some(&mut all[..]);
                    group.gather(&vec![1_u8; count], outputs, root)?;
                    assert!(!is_root, "a root has got a result");
                    Ok(())
                }
            };
            let told = |root| format!("gather of {count} u8, root {root}");
            disagree(&group, gather(0), &told(0), gather(2), &told(2));

            let scatter = |root: u32| {
                move |group: &Group| {
                    let me = group.rank();
                    let all = vec![root as u8; 3 * count];
                    let inputs = (me.get() == root).then_some(&all[..]);
                    let mut output = vec![9; count];
                    group.scatter(inputs, &mut output, root)?;
                    assert_eq!(output, vec![root as u8; count]);
                    Ok(())
                }
            };
            let told = |root| format!("scatter of {count} u8, root {root}");
            disagree(&group, scatter(1), &told(1), scatter(0), &told(0));
        }
        works(&group);
    });
}

fn about_the_order_of_two_calls_is_told_on_every_rank(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let sum = |group: &Group| group.all_reduce(&mut [1.0_f32; 3], SUM);
        let one = |group: &Group| group.barrier().and_then(|()| sum(group));
        let other = |group: &Group| sum(group).and_then(|()| group.barrier());
        disagree(&group, one, "barrier", other, "all_reduce(sum) of 3 f32");
        // Roots, which do not wait.
        let give = |value: u8, root: u32, group: &Group| {
            let mut buffer = [if group.rank().get() == root { value } else { 0 }; 5];
            group.broadcast(&mut buffer, root)?;
            assert_eq!(buffer, [value; 5]);
            Ok(())
        };
        let one = |group: &Group| give(1, 0, group).and_then(|()| give(2, 1, group));
        let other = |group: &Group| give(2, 1, group).and_then(|()| give(1, 0, group));
        let told = |root| format!("broadcast of 5 u8, root {root}");
        disagree(&group, one, &told(0), other, &told(1));
        works(&group);
    });
}

fn about_the_sizes_of_parts_is_told_on_every_rank(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let parts = |counts: [usize; 3]| counts.map(|count| vec![1_u16; count]);
        let all_gather = |counts: [usize; 3]| {
            move |group: &Group| {
                let (input, mut outputs) = (vec![1; counts[group.rank().index()]], parts(counts));
                group.all_gather_list(&input, &mut outputs.each_mut().map(|it| &mut it[..]))
            }
        };
        let told = "all_gather of u16 in parts of sizes ";
        disagree(&group, all_gather([1, 2, 3]), told, all_gather([1, 2, 4]), told);
        disagree(&group, all_gather([4, 4, 4]), "all_gather of 4 u16", all_gather([1, 2, 4]), told);

        let reduce_scatter = |counts: [usize; 3]| {
            move |group: &Group| {
                let (inputs, mut output) = (parts(counts), vec![0; counts[group.rank().index()]]);
                group.reduce_scatter_list(&inputs.each_ref().map(|it| &it[..]), &mut output, SUM)
            }
        };
        let told = "reduce_scatter(sum) of u16 in parts of sizes ";
        disagree(&group, reduce_scatter([0, 2, 3]), told, reduce_scatter([2, 2, 3]), told);
        works(&group);
    });
}

fn about_sizes_that_only_two_ranks_know_is_told_on_every_rank(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let told = "of u16 in uneven parts";
        let list = |counts: [usize; 3]| counts.map(|count| vec![1_u16; count]);

        // The root expects of rank 1 what it does not send.
        let gather = |sent: usize| {
            move |group: &Group| {
                let mut outputs = list([4, 5, 6]);
                let mut outputs = outputs.each_mut().map(|it| &mut it[..]);
                let input = vec![1; [4, sent, 6][group.rank().index()]];
                let is_root = group.rank().get() == 0;
                group.gather_list(&input, is_root.then_some(&mut outputs[..]), 0)?;
                assert!(!is_root, "the root has got a result");
                Ok(())
            }
        };
        for sent in [0, 4, 100_000] {
            fails_everywhere(&group, gather(sent), &[&format!("gather {told}"), "with "]);
        }

        // Rank 2 expects what the root does not send.
        let scatter = |expected: usize| {
            move |group: &Group| {
                let inputs = list([4, 5, 6]);
                let inputs = inputs.each_ref().map(|it| &it[..]);
                let me = group.rank().index();
                let mut output = vec![0; [4, 5, expected][me]];
                group.scatter_list((me == 1).then_some(&inputs[..]), &mut output, 1)?;
                assert!(me != 2, "rank 2 has got a result");
                assert_eq!(output, vec![1; [4, 5][me]]);
                Ok(())
            }
        };
        for expected in [0, 7, 100_000] {
            fails_everywhere(&group, scatter(expected), &[&format!("scatter {told}"), "with "]);
        }

        // Rank 0 sends rank 2 what that does not expect.
        let exchange = |sent: usize| {
            move |group: &Group| {
                let me = group.rank().index();
                let counts = if me == 0 { [2, 2, sent] } else { [2; 3] };
                let input = vec![1_u16; counts.iter().sum()];
                let mut output = [0; 6];
                group.all_to_all_uneven(&input, &counts, &mut output, &[2; 3])?;
                assert!(me != 2, "rank 2 has got a result");
                assert_eq!(output, [1; 6]);
                Ok(())
            }
        };
        for sent in [0, 3, 100_000] {
            fails_everywhere(&group, exchange(sent), &[&format!("all_to_all {told}"), "with "]);
        }
        works(&group);
    });
}

/// Of a hundred calls in a group of its own, one fails.
fn fails_soon(group: &Group, call: impl Fn(&Group) -> Result<()>) {
    let group = group.split(Some(0), 0).unwrap().unwrap();
    let failed = (0..100).find_map(|_| call(&group).err());
    let error = failed.expect("it is noticed before the hundredth call").to_string();
    assert!(error.contains("root 0") && error.contains("f32"), "{error}");
}

/// In turn each rank does something else than the others; every rank hears of both.
fn disagree(
    group: &Group,
    one: impl Fn(&Group) -> Result<()>,
    one_told: &str,
    other: impl Fn(&Group) -> Result<()>,
    other_told: &str,
) {
    for odd in 0..group.world() {
        let call = |group: &Group| {
            if group.rank().index() == odd { other(group) } else { one(group) }
        };
        fails_everywhere(group, call, &[one_told, other_told]);
    }
}

/// In a group of its own, a call fails; or it cannot know yet, and the next one does.
fn fails_everywhere(world: &Group, call: impl Fn(&Group) -> Result<()>, told: &[&str]) {
    let group = world.split(Some(0), 0).unwrap().unwrap();
    let error = call(&group).and_then(|()| group.barrier()).unwrap_err();
    let words = error.to_string();
    assert!(matches!(error, Error::Mismatch { .. }), "{words}");
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    same_everywhere(world, &words);
    for told in told {
        assert!(words.contains(told), "{told:?} is not in {words:?}");
    }
    let start = Instant::now();
    let later = [group.barrier(), group.all_reduce(&mut [1.0_f32], SUM)];
    assert!(start.elapsed() < Duration::from_secs(20), "a call of a failed group waits");
    for error in later {
        assert_eq!(error.unwrap_err().to_string(), words);
    }
    assert_eq!(group.error().unwrap().to_string(), words);
}
