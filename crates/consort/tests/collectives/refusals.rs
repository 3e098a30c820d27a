//! Calls that make no sense: refused before anything moves, and the group goes on.

mod memory;
mod sizes;

use consort::{Call, Dtype, Error, ErrorKind, Group, Inputs, Outputs, Rank, ReduceOp, Target};
use consort_testkit::{Case, conformance};

use super::meet::meet;
use super::oracle::operations;
use super::works::works;

conformance! { [shm tcp mixed in_process mpi]
    a_root_that_does_not_exist_is_refused
    what_only_the_root_gives_is_given_by_the_root_only
    counts_that_do_not_add_up_are_refused
    reductions_without_a_meaning_are_refused
}

fn a_root_that_does_not_exist_is_refused(case: Case) {
    case.run(3, |ctx| {
        with_a_group(&meet(ctx), |group, memory| {
            let (dtype, op, root, uneven) = (F32, SUM, Rank::from(3), false);
            let (input, output) = (memory.slice(0..4).into(), memory.slice(4..8));
            let told = "there is no rank 3 in a group of 3";
            refuse(group, Call::Broadcast { dtype, root, buffer: output }, told);
            refuse(group, Call::Reduce { dtype, op, root, input, output: None }, told);
            refuse(group, Call::Gather { dtype, root, uneven, input, outputs: None }, told);
            refuse(group, Call::Scatter { dtype, root, uneven, inputs: None, output }, told);
        });
    });
}

fn what_only_the_root_gives_is_given_by_the_root_only(case: Case) {
    case.run(3, |ctx| {
        with_a_group(&meet(ctx), |group, memory| {
            let (dtype, op, root, uneven) = (F32, SUM, Rank::from(1), false);
            let given = group.rank() != root;
            let told = |what: &str| match given {
                true => format!("only the root, rank 1, gives {what}"),
                false => format!("the root, rank 1, has to give {what}"),
            };
            let (input, output) = (memory.slice(0..4).into(), memory.slice(4..8));
            let twelve = memory.slice(8..20);
            let call = Call::Reduce { dtype, op, root, input, output: given.then_some(output) };
            refuse(group, call, &told("output"));
            let outputs = given.then_some(Outputs::Equal(twelve));
            let call = Call::Gather { dtype, root, uneven, input, outputs };
            refuse(group, call, &told("output"));
            let inputs = given.then_some(Inputs::Equal(twelve.into()));
            let call = Call::Scatter { dtype, root, uneven, inputs, output };
            refuse(group, call, &told("input"));
        });
    });
}

fn counts_that_do_not_add_up_are_refused(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let (input, mut output) = ([1_u16, 2, 3, 4], [0_u16; 4]);
        let mut refuse = |to: &[usize], from: &[usize], told: &str| {
            let error = group.all_to_all_uneven(&input, to, &mut output, from).unwrap_err();
            is_a_mistake(&error, told);
        };
        refuse(
            &[1, 1, 1],
            &[2, 1, 1],
            "all_to_all: input_counts do not add up to the 4 elements of input",
        );
        refuse(
            &[2, 1, 1],
            &[2, 1, 2],
            "all_to_all: output_counts do not add up to the 4 elements of output",
        );
        refuse(
            &[usize::MAX, 5, 0],
            &[2, 1, 1],
            "all_to_all: input_counts do not add up to the 4 elements of input",
        );
        refuse(&[3, 1], &[2, 1, 1], "all_to_all: there are 2 inputs for 3 ranks");
        refuse(&[2, 1, 1], &[2, 1, 1, 0], "all_to_all: there are 4 outputs for 3 ranks");
        assert_eq!(output, [0; 4]);
        works(&group);
    });
}

fn reductions_without_a_meaning_are_refused(case: Case) {
    case.run(2, |ctx| {
        with_a_group(&meet(ctx), |group, memory| {
            let mut refused = 0;
            for dtype in Dtype::ALL {
                let has: Vec<u8> = operations(dtype).into_iter().map(ReduceOp::code).collect();
                for op in ReduceOp::ALL.into_iter().filter(|op| !has.contains(&op.code())) {
                    let told = format!("{dtype} has no {}: it can be reduced with ", op.name());
                    refused += cannot_reduce(group, memory, dtype, op, &told);
                }
            }
            // Of 17 × 9 pairs, 115 have a meaning.
            assert_eq!(refused, 17 * 9 - 115);
        });
    });
}

fn cannot_reduce(
    group: &Group,
    memory: Target<'_>,
    dtype: Dtype,
    op: ReduceOp,
    told: &str,
) -> usize {
    let (one, two) = (memory.slice(0..16), memory.slice(16..48));
    let (input, inputs, root) = (one.into(), Inputs::Equal(two.into()), group.rank());
    for call in [
        Call::AllReduce { dtype, op, input, output: one },
        Call::Reduce { dtype, op, root, input, output: Some(one) },
        Call::ReduceScatter { dtype, op, inputs, output: one },
    ] {
        let error = group.call(&call).unwrap_err();
        assert!(matches!(error, Error::Unsupported(_)), "{call:?}: {error}");
        assert_eq!(error.kind(), ErrorKind::Mistake);
        assert!(error.to_string().starts_with(told), "{error}");
    }
    1
}

/// Runs with memory that has to stay as it is; afterwards the group has to be as good as before.
fn with_a_group(group: &Group, run: impl FnOnce(&Group, Target<'_>)) {
    let before: Vec<u8> = (0..48).collect();
    let mut memory = before.clone();
    let calls = group.calls();
    run(group, Target::from(&mut memory[..]));
    assert_eq!(memory, before);
    assert_eq!(group.calls(), calls);
    works(group);
}

fn refuse(group: &Group, call: Call<'_>, told: &str) {
    match group.call(&call) {
        Ok(()) => panic!("{call:?} was carried out"),
        Err(error) => is_a_mistake(&error, &format!("{}: {told}", call.operation())),
    }
}

fn is_a_mistake(error: &Error, told: &str) {
    assert!(matches!(error, Error::Argument(_)), "{error}");
    assert_eq!((error.to_string().as_str(), error.kind()), (told, ErrorKind::Mistake));
}

const F32: Dtype = Dtype::F32;
const SUM: ReduceOp = ReduceOp::Sum;
