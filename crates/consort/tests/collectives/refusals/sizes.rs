//! Sizes that do not go together.

use consort::{Call, Inputs, Outputs};
use consort_testkit::ranks;

use super::{F32, SUM, refuse, with_a_group};
use crate::meet::meet;

#[test]
fn bytes_that_are_no_whole_numbers_are_refused() {
    ranks(3, |ctx| {
        with_a_group(&meet(ctx), |group, memory| {
            let (dtype, op, root) = (F32, SUM, group.rank());
            let (seven, four) = (memory.slice(0..7), memory.slice(8..12));
            let (twelve, other_twelve) = (memory.slice(12..24), memory.slice(24..36));
            let told = "7 bytes are not a whole number of f32";
            let refuse = |call| refuse(group, call, told);

            let (input, output) = (seven.into(), memory.slice(36..43));
            refuse(Call::AllReduce { dtype, op, input, output });
            refuse(Call::Broadcast { dtype, root, buffer: seven });
            refuse(Call::Reduce { dtype, op, root, input, output: Some(output) });
            let outputs = Outputs::Equal(twelve);
            refuse(Call::AllGather { dtype, input, outputs });
            refuse(Call::Gather { dtype, root, uneven: false, input, outputs: Some(outputs) });
            let outputs = Outputs::List(&[four, seven, twelve]);
            refuse(Call::AllGather { dtype, input: four.into(), outputs });
            let outputs = Some(Outputs::Equal(seven));
            refuse(Call::Gather { dtype, root, uneven: true, input: four.into(), outputs });

            let inputs = Inputs::Equal(twelve.into());
            refuse(Call::Scatter { dtype, root, uneven: false, inputs: Some(inputs), output });
            let inputs = Inputs::List(&[four.into(), four.into(), seven.into()]);
            refuse(Call::Scatter { dtype, root, uneven: true, inputs: Some(inputs), output: four });
            refuse(Call::ReduceScatter { dtype, op, inputs, output: four });
            let outputs = Outputs::Equal(other_twelve);
            refuse(Call::AllToAll { dtype, uneven: true, inputs, outputs });
            let inputs = Inputs::Equal(seven.into());
            refuse(Call::AllToAll { dtype, uneven: false, inputs, outputs });
        });
    });
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    ranks(3, |ctx| {
        with_a_group(&meet(ctx), |group, memory| {
            let (dtype, op, root) = (F32, SUM, group.rank());
            let (four, eight) = (memory.slice(0..4), memory.slice(4..12));
            let (input, twelve) = (four.into(), memory.slice(12..24));
            let refuse = |call, told: &str| refuse(group, call, told);

            let told = "output has 8 bytes, input has 4: they must be equal";
            refuse(Call::AllReduce { dtype, op, input, output: eight }, told);
            refuse(Call::Reduce { dtype, op, root, input, output: Some(eight) }, told);
            let told =
                "this rank's part of the outputs has 4 bytes, input has 8: they must be equal";
            let outputs = Outputs::Equal(twelve);
            refuse(Call::AllGather { dtype, input: eight.into(), outputs }, told);
            let (input, outputs) = (eight.into(), Some(outputs));
            refuse(Call::Gather { dtype, root, uneven: false, input, outputs }, told);
            let told =
                "output has 8 bytes, this rank's part of the inputs has 4: they must be equal";
            let (inputs, output) = (Inputs::Equal(twelve.into()), eight);
            refuse(Call::ReduceScatter { dtype, op, inputs, output }, told);
            let inputs = Some(inputs);
            refuse(Call::Scatter { dtype, root, uneven: true, inputs, output }, told);

            let told = "inputs has 2 elements, which 3 ranks cannot share equally";
            let inputs = Inputs::Equal(eight.into());
            refuse(Call::ReduceScatter { dtype, op, inputs, output: four }, told);
            let outputs = Outputs::Equal(twelve);
            refuse(Call::AllToAll { dtype, uneven: true, inputs, outputs }, told);
            let told = "outputs has 2 elements, which 3 ranks cannot share equally";
            let outputs = Outputs::Equal(eight);
            refuse(Call::AllGather { dtype, input: four.into(), outputs }, told);

            let told = "outputs has 2 parts for 3 ranks";
            let outputs = Outputs::List(&[four, eight]);
            refuse(Call::AllGather { dtype, input: four.into(), outputs }, told);
            let told = "inputs has 4 parts for 3 ranks";
            let inputs = Inputs::List(&[twelve.slice(0..4).into(); 4]);
            refuse(Call::ReduceScatter { dtype, op, inputs, output: four }, told);
        });
    });
}

#[test]
fn parts_of_different_sizes_need_the_uneven_form() {
    ranks(3, |ctx| {
        with_a_group(&meet(ctx), |group, memory| {
            let (dtype, root, me) = (F32, group.rank(), group.rank().index());
            let parts = [memory.slice(0..4), memory.slice(4..12), memory.slice(12..16)];
            let sources = parts.map(|part| part.into());
            let elsewhere = memory.slice(16..24).slice(0..parts[me].len());
            let told = "rank 1's part has 8 bytes, rank 0's 4: parts that differ in size need the \
                        uneven form";
            let (input, outputs) = (elsewhere.into(), Some(Outputs::List(&parts)));
            refuse(group, Call::Gather { dtype, root, uneven: false, input, outputs }, told);
            let (inputs, output) = (Some(Inputs::List(&sources)), elsewhere);
            refuse(group, Call::Scatter { dtype, root, uneven: false, inputs, output }, told);
            let inputs = Inputs::List(&sources);
            let outputs = Outputs::Equal(memory.slice(24..36));
            refuse(group, Call::AllToAll { dtype, uneven: false, inputs, outputs }, told);

            let turned = [memory.slice(24..32), memory.slice(32..36), memory.slice(36..40)];
            let (there, here) = (parts[me].len(), turned[me].len());
            if there != here {
                let outputs = Outputs::List(&turned);
                let told = format!(
                    "this rank's part for itself has {there} bytes on one side and {here} on the \
                     other"
                );
                refuse(group, Call::AllToAll { dtype, uneven: true, inputs, outputs }, &told);
            }
        });
    });
}
