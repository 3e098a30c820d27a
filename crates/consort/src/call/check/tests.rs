use consort_sys::dtype::{Element, ReduceOp};

use super::super::{Inputs, Outputs};
use super::*;

/// What rank 1 of 2 is told.
fn told(call: Call<'_>) -> String {
    match call.check(Rank::from(1), 2) {
        Ok(_) => "nothing".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn one_slice_for_all_is_measured_in_elements_of_each() {
    let (five, mut three) = ([0.0_f32; 5], [0.0_f32; 3]);
    let (dtype, five) = (Dtype::F32, f32::source(&five));
    let outputs = Outputs::Equal(f32::target(&mut three));
    assert_eq!(
        told(Call::AllGather { dtype, input: five, outputs }),
        "all_gather: output has 3 f32, but 2 ranks with 5 each, as in input, need 10"
    );
    let (op, output) = (ReduceOp::Sum, f32::target(&mut three));
    assert_eq!(
        told(Call::ReduceScatter { dtype, op, inputs: Inputs::Equal(five), output }),
        "reduce_scatter: input has 5 f32, but 2 ranks with 3 each, as in output, need 6"
    );
    let outputs = Outputs::Equal(output);
    assert_eq!(
        told(Call::AllToAll { dtype, uneven: false, inputs: Inputs::Equal(five), outputs }),
        "all_to_all: input has 5 f32, which 2 ranks cannot share equally"
    );
}

#[test]
fn in_place_the_buffer_is_what_cannot_be_shared() {
    let mut five = [0.0_f32; 5];
    let (dtype, op) = (Dtype::F32, ReduceOp::Sum);
    let all = f32::target(&mut five);
    let (inputs, outputs) = (Inputs::Equal(all.into()), Outputs::Equal(all));
    let mine = outputs.part(1, 2);
    let buffer = "buffer has 5 f32, which 2 ranks cannot share equally";
    let gather = Call::AllGather { dtype, input: mine.into(), outputs };
    assert_eq!(told(gather), format!("all_gather: {buffer}"));
    let scatter = Call::ReduceScatter { dtype, op, inputs, output: mine };
    assert_eq!(told(scatter), format!("reduce_scatter: {buffer}"));
    let exchange = Call::AllToAll { dtype, uneven: false, inputs, outputs };
    assert_eq!(told(exchange), format!("all_to_all: {buffer}"));
}

#[test]
fn one_slice_in_place_is_as_good_as_two() {
    let (mut six, mut three) = ([0_u16; 6], [0_u16; 3]);
    let (dtype, op) = (Dtype::U16, ReduceOp::Sum);
    let (all, apart) = (u16::target(&mut six), u16::target(&mut three));
    let (inputs, outputs) = (Inputs::Equal(all.into()), Outputs::Equal(all));
    for own in [outputs.part(1, 2), apart] {
        assert_eq!(told(Call::AllGather { dtype, input: own.into(), outputs }), "nothing");
        assert_eq!(told(Call::ReduceScatter { dtype, op, inputs, output: own }), "nothing");
    }
    assert_eq!(told(Call::AllToAll { dtype, uneven: false, inputs, outputs }), "nothing");
    let theirs = outputs.part(0, 2);
    assert_eq!(
        told(Call::AllGather { dtype, input: theirs.into(), outputs }),
        "all_gather: input overlaps rank 0's part of output"
    );
}

#[test]
fn an_operation_without_a_meaning_keeps_its_own_error() {
    let mut buffer = [0.0_f32; 2];
    let output = f32::target(&mut buffer);
    let (dtype, op) = (Dtype::F32, ReduceOp::BitXor);
    let call = Call::AllReduce { dtype, op, input: output.into(), output };
    let error = call.check(Rank::from(1), 2).unwrap_err();
    assert!(matches!(error, Error::Unsupported(_)), "{error}");
}
