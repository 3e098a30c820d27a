//! Sizes that do not go together.

use consort::{Call, Inputs, Outputs};
use consort_testkit::{Case, conformance};

use super::{F32, SUM, refuse, with_a_group};
use crate::meet::meet;

conformance! { [shm tcp mixed in_process]
    bytes_that_are_no_whole_numbers_are_refused
    sizes_that_do_not_fit_are_refused
    parts_of_different_sizes_need_the_uneven_form
}

fn bytes_that_are_no_whole_numbers_are_refused(case: Case) {
    case.run(3, |ctx| {
        with_a_group(&meet(ctx), |group, memory| {
            let (dtype, op, root) = (F32, SUM, group.rank());
            let (seven, four) = (memory.slice(0..7), memory.slice(8..12));
            let (twelve, other_twelve) = (memory.slice(12..24), memory.slice(24..36));
            let refuse = |call, name: &str| {
                let told = format!("{name} has 7 bytes, which are not a whole number of f32");
                refuse(group, call, &told);
            };

            let (input, output) = (seven.into(), memory.slice(36..43));
            refuse(Call::AllReduce { dtype, op, input, output }, "input");
            refuse(Call::Broadcast { dtype, root, buffer: seven }, "buffer");
            refuse(Call::Reduce { dtype, op, root, input, output: Some(output) }, "input");
            let outputs = Outputs::Equal(twelve);
            refuse(Call::AllGather { dtype, input, outputs }, "input");
            refuse(
                Call::Gather { dtype, root, uneven: false, input, outputs: Some(outputs) },
                "input",
            );
            let outputs = Outputs::List(&[four, seven, twelve]);
            refuse(Call::AllGather { dtype, input: four.into(), outputs }, "outputs[1]");
            let outputs = Some(Outputs::Equal(seven));
            refuse(
                Call::Gather { dtype, root, uneven: true, input: four.into(), outputs },
                "output",
            );

            let inputs = Inputs::Equal(twelve.into());
            refuse(
                Call::Scatter { dtype, root, uneven: false, inputs: Some(inputs), output },
                "output",
            );
            let inputs = Inputs::List(&[four.into(), four.into(), seven.into()]);
            refuse(
                Call::Scatter { dtype, root, uneven: true, inputs: Some(inputs), output: four },
                "inputs[2]",
            );
            refuse(Call::ReduceScatter { dtype, op, inputs, output: four }, "inputs[2]");
            let outputs = Outputs::Equal(other_twelve);
            refuse(Call::AllToAll { dtype, uneven: true, inputs, outputs }, "inputs[2]");
            let inputs = Inputs::Equal(seven.into());
            refuse(Call::AllToAll { dtype, uneven: false, inputs, outputs }, "input");
        });
    });
}

fn sizes_that_do_not_fit_are_refused(case: Case) {
    case.run(3, |ctx| {
        with_a_group(&meet(ctx), |group, memory| {
            let (dtype, op, root) = (F32, SUM, group.rank());
            let (four, eight) = (memory.slice(0..4), memory.slice(4..12));
            let (input, twelve) = (four.into(), memory.slice(12..24));
            let refuse = |call, told: &str| refuse(group, call, told);

            let told = "output has 2 f32, input has 1 f32: they must be equal";
            refuse(Call::AllReduce { dtype, op, input, output: eight }, told);
            refuse(Call::Reduce { dtype, op, root, input, output: Some(eight) }, told);
            let told = "output has 3 f32, but 3 ranks with 2 each, as in input, need 6";
            let outputs = Outputs::Equal(twelve);
            refuse(Call::AllGather { dtype, input: eight.into(), outputs }, told);
            let (input, outputs) = (eight.into(), Some(outputs));
            refuse(Call::Gather { dtype, root, uneven: false, input, outputs }, told);
            let told = "input has 3 f32, but 3 ranks with 2 each, as in output, need 6";
            let (inputs, output) = (Inputs::Equal(twelve.into()), eight);
            refuse(Call::ReduceScatter { dtype, op, inputs, output }, told);
            let inputs = Some(inputs);
            refuse(Call::Scatter { dtype, root, uneven: true, inputs, output }, told);

            let told = "input has 2 f32, but 3 ranks with 1 each, as in output, need 3";
            let inputs = Inputs::Equal(eight.into());
            refuse(Call::ReduceScatter { dtype, op, inputs, output: four }, told);
            let told = "input has 2 f32, which 3 ranks cannot share equally";
            let outputs = Outputs::Equal(twelve);
            refuse(Call::AllToAll { dtype, uneven: true, inputs, outputs }, told);
            let told = "output has 2 f32, but 3 ranks with 1 each, as in input, need 3";
            let outputs = Outputs::Equal(eight);
            refuse(Call::AllGather { dtype, input: four.into(), outputs }, told);

            let told = "there are 2 outputs for 3 ranks";
            let outputs = Outputs::List(&[four, eight]);
            refuse(Call::AllGather { dtype, input: four.into(), outputs }, told);
            let told = "there are 4 inputs for 3 ranks";
            let inputs = Inputs::List(&[twelve.slice(0..4).into(); 4]);
            refuse(Call::ReduceScatter { dtype, op, inputs, output: four }, told);
        });
    });
}

fn parts_of_different_sizes_need_the_uneven_form(case: Case) {
    case.run(3, |ctx| {
        with_a_group(&meet(ctx), |group, memory| {
            let (dtype, root, me) = (F32, group.rank(), group.rank().index());
            let parts = [memory.slice(0..4), memory.slice(4..12), memory.slice(12..16)];
            let sources = parts.map(|part| part.into());
            let elsewhere = memory.slice(16..24).slice(0..parts[me].len());
            let told = |list: &str| {
                let sizes = format!("{list}[1] has 2 f32, {list}[0] has 1 f32");
                format!("{sizes}: parts that differ in size need the uneven form")
            };
            let (input, outputs) = (elsewhere.into(), Some(Outputs::List(&parts)));
            refuse(
                group,
                Call::Gather { dtype, root, uneven: false, input, outputs },
                &told("outputs"),
            );
            let (inputs, output) = (Some(Inputs::List(&sources)), elsewhere);
            refuse(
                group,
                Call::Scatter { dtype, root, uneven: false, inputs, output },
                &told("inputs"),
            );
            let inputs = Inputs::List(&sources);
            let outputs = Outputs::Equal(memory.slice(24..36));
            refuse(
                group,
                Call::AllToAll { dtype, uneven: false, inputs, outputs },
                &told("inputs"),
            );

            let turned = [memory.slice(24..32), memory.slice(32..36), memory.slice(36..40)];
            let (there, here) = (parts[me].len(), turned[me].len());
            if there != here {
                let outputs = Outputs::List(&turned);
                let told = format!(
                    "outputs[{me}] has {} f32, inputs[{me}] has {} f32: they must be equal",
                    here / 4,
                    there / 4
                );
                refuse(group, Call::AllToAll { dtype, uneven: true, inputs, outputs }, &told);
            }
        });
    });
}
