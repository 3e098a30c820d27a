//! Calls on memory of devices, to be given to [`Group::call_async`](crate::Group::call_async), which gives
//! them back with their memory.
//!
//! ```no_run
//! use consort::device::{Driver, calls};
//! use consort::{Dtype, ReduceOp};
//!
//! let group = consort::init()?;
//! let device = Driver::load().and_then(|driver| driver.device(0)).expect("there is an accelerator");
//! let gradients = device.allocate(4 << 20).expect("it has memory left");
//! let work = group.call_async(calls::all_reduce(gradients, Dtype::F32, ReduceOp::Avg))?;
//! // … backward goes on …
//! let gradients = work.wait()?.output;
//! # drop(gradients);
//! # Ok::<(), consort::Error>(())
//! ```

use consort_sys::dtype::{Dtype, ReduceOp};

use super::{Event, Launched, Memory, Region, Streams};
use crate::call::{Call, Inputs, Outputs};
use crate::group::Rank;
use crate::job::{Lists, OwnedCall};

/// A call on memory of a device, and that memory: [`Memory`] of its own, or another [`Region`], such as that of
/// [symmetric memory](crate::symm::DeviceSymmetric).
#[derive(Debug)]
pub struct OnDevice<M = Memory> {
    what: What,
    dtype: Dtype,
    /// What is read, if that is not what is written.
    pub input: Option<M>,
    /// What is written.
    pub output: M,
    streams: Streams,
}

#[derive(Clone, Copy, Debug)]
enum What {
    AllReduce(ReduceOp),
    Broadcast(Rank),
    AllGather,
    ReduceScatter(ReduceOp),
    AllToAll,
}

/// As [`Group::all_reduce`](crate::Group::all_reduce).
pub fn all_reduce<M: Region>(memory: M, dtype: Dtype, op: ReduceOp) -> OnDevice<M> {
    OnDevice::new(What::AllReduce(op), dtype, None, memory)
}

/// As [`Group::broadcast`](crate::Group::broadcast).
pub fn broadcast<M: Region>(memory: M, dtype: Dtype, root: impl Into<Rank>) -> OnDevice<M> {
    OnDevice::new(What::Broadcast(root.into()), dtype, None, memory)
}

/// As [`Group::all_gather`](crate::Group::all_gather).
pub fn all_gather<M: Region>(input: M, output: M, dtype: Dtype) -> OnDevice<M> {
    OnDevice::new(What::AllGather, dtype, Some(input), output)
}

/// As [`Group::reduce_scatter`](crate::Group::reduce_scatter).
pub fn reduce_scatter<M: Region>(input: M, output: M, dtype: Dtype, op: ReduceOp) -> OnDevice<M> {
    OnDevice::new(What::ReduceScatter(op), dtype, Some(input), output)
}

/// As [`Group::all_to_all`](crate::Group::all_to_all).
pub fn all_to_all<M: Region>(input: M, output: M, dtype: Dtype) -> OnDevice<M> {
    OnDevice::new(What::AllToAll, dtype, Some(input), output)
}

impl<M> OnDevice<M> {
    fn new(what: What, dtype: Dtype, input: Option<M>, output: M) -> Self {
        Self { what, dtype, input, output, streams: Streams::default() }
    }

    /// The same, which begins after this event, wherever on the device it was recorded, and not after what the
    /// default stream was given: it does not wait for what has nothing to do with it.
    ///
    /// ```no_run
    /// # use consort::device::{Driver, calls};
    /// # use consort::{Dtype, ReduceOp};
    /// # fn reduce(group: &consort::Group) -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Driver::load()?.device(0)?;
    /// let compute = device.stream()?;
    /// let gradients = device.allocate(4 << 20)?;
    /// // … kernels that write them are put into `compute` …
    /// let mut call = calls::all_reduce(gradients, Dtype::F32, ReduceOp::Avg).after(compute.record()?);
    /// let launched = call.launched();
    /// let work = group.call_async(call)?;
    /// // This thread waits for the other ranks to come to the call, and the stream for what comes of it.
    /// if let Some(done) = launched.wait() {
    ///     compute.wait_for(&done)?;
    /// }
    /// // … kernels that read them are put into `compute` …
    /// let gradients = work.wait()?.output;
    /// # drop(gradients);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn after(mut self, event: Event) -> Self {
        self.streams.begin_after(event);
        self
    }

    /// Tells when it has been given to the device, so that streams can wait for it without the program's doing so.
    pub fn launched(&mut self) -> Launched {
        self.streams.launched()
    }
}

impl<M: Region> OwnedCall for OnDevice<M> {
    fn streams(&mut self) -> Option<&mut Streams> {
        Some(&mut self.streams)
    }

    fn call<'a>(&'a mut self, _lists: &'a mut Lists<'a>) -> Call<'a> {
        let Self { what, dtype, input, output, .. } = self;
        let (dtype, output) = (*dtype, output.target());
        let input = input.as_ref().map_or(output.into(), Region::source);
        match *what {
            What::AllReduce(op) => Call::AllReduce { dtype, op, input, output },
            What::Broadcast(root) => Call::Broadcast { dtype, root, buffer: output },
            What::AllGather => Call::AllGather { dtype, input, outputs: Outputs::Equal(output) },
            What::ReduceScatter(op) => {
                Call::ReduceScatter { dtype, op, inputs: Inputs::Equal(input), output }
            }
            What::AllToAll => Call::AllToAll {
                dtype,
                uneven: false,
                inputs: Inputs::Equal(input),
                outputs: Outputs::Equal(output),
            },
        }
    }
}
