//! Memory that does not go together.

use consort::{Call, Dtype, Inputs, Outputs, Target};
use consort_testkit::{Case, conformance};

use super::{F32, SUM, is_a_mistake, refuse, with_a_group};
use crate::meet::meet;
use crate::works::works;

conformance! { [shm tcp mixed in_process]
    memory_that_overlaps_is_refused_unless_the_operation_is_in_place
    numbers_are_not_reduced_into_truths
}

fn memory_that_overlaps_is_refused_unless_the_operation_is_in_place(case: Case) {
    case.run(3, |ctx| {
        with_a_group(&meet(ctx), |group, memory| {
            let (dtype, op, root, me) = (F32, SUM, group.rank(), group.rank().index());
            let other = (me + 1) % 3;
            let all = memory.slice(0..12);
            let theirs = all.slice(4 * other..4 * other + 4);

            let told = "output overlaps a part of input: give the same memory or another";
            let (input, output) = (memory.slice(0..8).into(), memory.slice(4..12));
            refuse(group, Call::AllReduce { dtype, op, input, output }, told);
            let output = Some(memory.slice(1..9));
            refuse(group, Call::Reduce { dtype, op, root, input, output }, told);

            let told = format!("input overlaps rank {other}'s part of output");
            let (input, outputs) = (theirs.into(), Outputs::Equal(all));
            refuse(group, Call::AllGather { dtype, input, outputs }, &told);
            let outputs = Some(outputs);
            refuse(group, Call::Gather { dtype, root, uneven: false, input, outputs }, &told);

            let told = format!("output overlaps rank {other}'s part of input");
            let (inputs, output) = (Inputs::Equal(all.into()), theirs);
            refuse(group, Call::ReduceScatter { dtype, op, inputs, output }, &told);
            let inputs = Some(inputs);
            refuse(group, Call::Scatter { dtype, root, uneven: false, inputs, output }, &told);

            let told = "outputs[0] and outputs[2] overlap";
            let outputs = [memory.slice(12..20), memory.slice(20..28), memory.slice(16..24)];
            let outputs = Outputs::List(&outputs);
            let input = memory.slice(28..36).into();
            refuse(group, Call::AllGather { dtype, input, outputs }, told);

            let (inputs, outputs) =
                (Inputs::Equal(memory.slice(0..12).into()), Outputs::Equal(memory.slice(4..16)));
            let told = "rank 0's part of output overlaps rank 1's part of input: in place, each \
                        rank's part has to be the same memory";
            refuse(group, Call::AllToAll { dtype, uneven: false, inputs, outputs }, told);
        });
    });
}

fn numbers_are_not_reduced_into_truths(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let mut truths = [false; 8];
        let output = Target::from(&mut truths[..]);
        let input = [3_u8; 8];
        let call = Call::AllReduce { dtype: Dtype::U8, op: SUM, input: input[..].into(), output };
        is_a_mistake(
            &group.call(&call).unwrap_err(),
            "all_reduce: the result, which is u8, cannot go to a slice of bool",
        );
        works(&group);
    });
}
