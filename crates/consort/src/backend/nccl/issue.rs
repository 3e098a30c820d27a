//! A group's calls as NCCL has them.
#![allow(unsafe_code, reason = "only here is it known how long the memory of a call is there")]

use super::Inner;
use crate::call::{Call, Inputs, Outputs};
use crate::error::{Error, Result};
use crate::nccl::operand::combined;
use crate::nccl::{self, Stream};

impl Inner {
    /// Whether this can carry out a checked call. All ranks find the same.
    ///
    /// # Errors
    /// When NCCL has not what it takes, or its memory lies on another device.
    pub(super) fn check(&self, call: &Call<'_>) -> Result<()> {
        let mine = consort_sys::view::Space::Device(self.device.number());
        if let Some(space) = call.space()?.filter(|&space| space != mine) {
            return Err(Error::Argument(format!(
                "{}: this memory lies on {space}, and the group's calls on devices are carried out on {mine}",
                call.operation()
            )));
        }
        match *call {
            Call::AllReduce { dtype, op, .. }
            | Call::Reduce { dtype, op, .. }
            | Call::ReduceScatter { dtype, op, .. } => {
                let (library, operation) = (self.comm().library(), call.operation());
                match combined(library, operation.name(), dtype, op) {
                    Ok(_) => Ok(()),
                    Err(error) => Err(Error::Argument(error.to_string())),
                }
            }
            Call::AllToAll { inputs, outputs, .. } if overlap(inputs, outputs, self.world) => {
                Err(Error::Argument(
                    "all_to_all: NCCL does not do it in place: give another output".to_owned(),
                ))
            }
            _ => Ok(()),
        }
    }

    /// Puts a call on the stream, within a group of NCCL's. Where a rank has its [parts in a list](is_listed), all give
    /// NCCL part for part what it would otherwise do in one go.
    pub(super) fn issue(&self, call: &Call<'_>, by_parts: bool) -> nccl::Result<()> {
        // SAFETY: the stream is the device's, and outlives what it is used for here.
        let stream = unsafe { Stream::from_raw(self.stream.as_raw()) };
        let (comm, world, me) = (self.comm(), self.world, self.me);
        let ranks = 0..world as u32;
        let is_me = |rank: u32| rank as usize == me;
        // The memory of every call below is the device's, as the call was checked, and no reference of Rust's leads
        // there. It is left alone until the stream is done with it: until then whoever called does not return, or the
        // call owns it. The exception is a device that does not end what was aborted long ago, of which the program is
        // told (`await_aftermath`) when it has its memory back. If that is given back in turn, the driver waits for the
        // device with its own, and consort keeps symmetric memory (`Estate`). Whoever has made another `Region` has to
        // leave it alone.
        match *call {
            Call::Barrier => Ok(()),
            Call::AllReduce { dtype, op, input, output } => {
                // SAFETY: see above.
                unsafe { comm.all_reduce(input, output, dtype, op, stream) }
            }
            Call::Broadcast { dtype, root, buffer } => {
                let from = is_me(root.get()).then_some(buffer.into());
                // SAFETY: see above.
                unsafe { comm.broadcast(from, buffer, dtype, root.get(), stream) }
            }
            Call::Reduce { dtype, op, root, input, output } => {
                // SAFETY: see above.
                unsafe { comm.reduce(input, output, dtype, op, root.get(), stream) }
            }
            Call::AllGather { dtype, input, outputs: Outputs::Equal(output) } if !by_parts => {
                // SAFETY: see above.
                unsafe { comm.all_gather(input, output, dtype, stream) }
            }
            Call::AllGather { dtype, input, outputs } => ranks.clone().try_for_each(|root| {
                let (from, part) =
                    (is_me(root).then_some(input), outputs.part(root as usize, world));
                // SAFETY: see above.
                unsafe { comm.broadcast(from, part, dtype, root, stream) }
            }),
            Call::ReduceScatter { dtype, op, inputs: Inputs::Equal(input), output }
                if !by_parts =>
            {
                // SAFETY: see above.
                unsafe { comm.reduce_scatter(input, output, dtype, op, stream) }
            }
            Call::ReduceScatter { dtype, op, inputs, output } => {
                ranks.clone().try_for_each(|root| {
                    let (part, into) =
                        (inputs.part(root as usize, world), is_me(root).then_some(output));
                    // SAFETY: see above.
                    unsafe { comm.reduce(part, into, dtype, op, root, stream) }
                })
            }
            Call::Gather { dtype, root, input, outputs, .. } => {
                // SAFETY: see above.
                unsafe { comm.send(input, dtype, root.get(), stream) }?;
                let Some(outputs) = outputs else { return Ok(()) };
                ranks.clone().try_for_each(|from| {
                    // SAFETY: see above.
                    unsafe { comm.recv(outputs.part(from as usize, world), dtype, from, stream) }
                })
            }
            Call::Scatter { dtype, root, inputs, output, .. } => {
                for to in inputs.iter().flat_map(|_| ranks.clone()) {
                    let part = inputs.expect("there is one").part(to as usize, world);
                    // SAFETY: see above.
                    unsafe { comm.send(part, dtype, to, stream) }?;
                }
                // SAFETY: see above.
                unsafe { comm.recv(output, dtype, root.get(), stream) }
            }
            Call::AllToAll { dtype, inputs, outputs, .. } => ranks.clone().try_for_each(|peer| {
                let at = peer as usize;
                // SAFETY: see above.
                unsafe { comm.send(inputs.part(at, world), dtype, peer, stream) }?;
                // SAFETY: see above.
                unsafe { comm.recv(outputs.part(at, world), dtype, peer, stream) }
            }),
        }
    }
}

/// Whether a rank has the parts of a call in a list, of which NCCL's own operation knows nothing.
pub(super) fn is_listed(call: &Call<'_>) -> bool {
    matches!(
        call,
        Call::AllGather { outputs: Outputs::List(_), .. }
            | Call::ReduceScatter { inputs: Inputs::List(_), .. }
    )
}

/// Whether some part is to be written where one is read.
fn overlap(inputs: Inputs<'_>, outputs: Outputs<'_>, world: usize) -> bool {
    (0..world).any(|from| {
        let input = inputs.part(from, world);
        (0..world).any(|to| {
            let output = outputs.part(to, world);
            let (read, written) = (input.as_ptr().addr(), output.as_mut_ptr().addr());
            read < written + output.len() && written < read + input.len()
        })
    })
}
