//! A call borrows its memory.

use consort::{Call, Dtype, Element, ReduceOp};

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    let call = {
        let mut numbers = vec![1.0_f32; 8];
        let output = f32::target(&mut numbers);
        Call::AllReduce { dtype: Dtype::F32, op: ReduceOp::Sum, input: output.into(), output }
    };
    group.call(&call)
}
