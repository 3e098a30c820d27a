//! Moving data.
#![allow(unsafe_code, reason = "only the caller knows when memory may be used again")]

use consort_sys::dtype::{Dtype, ReduceOp};
use consort_sys::view::{Source, Target};

use super::check::{Check, extent};
use super::comm::Comm;
use super::error::Result;
use super::feature::Feature;
use super::group::group;
use super::op::{Op, PreMulSum};
use super::operand::{combined, copied, operation};
use super::stream::Stream;
use super::table::Move;

/// # Moving data
///
/// All ranks make the same calls in the same order, with the same dtype, operation, root and lengths. Each call puts
/// work on a [`Stream`] and returns before it is done. That is why these are `unsafe`: no borrow lasts as long as
/// the work does. Whoever calls them promises the same for each:
///
/// - What is sent and what is received is memory that the device can reach, until the work is done: until the stream
///   was waited for, also where the communicator has been aborted, which ends work soon and not at once.
/// - Until then nobody writes to what is sent, nobody reads or writes what is received, except for calls on the same
///   stream.
/// - The other ranks' calls are the same. NCCL does not compare them: of lengths that differ comes memory that is
///   overwritten, and of other dtypes come bytes that no value of this one has (a `bool` that is 2).
///
/// In place, what is sent and what is received are the same memory; where one is a part of the other, the part is at
/// this rank's place in the whole.
///
/// `bool` can be copied, and combined with max and min. What NCCL has no type for can only be copied.
///
/// None of them can be called without such a promise:
///
/// ```compile_fail,E0133
/// use consort::nccl::{Comm, Result, Stream};
/// use consort::{Dtype, ReduceOp, Target};
///
/// fn sum(comm: &Comm, numbers: Target<'_>) -> Result<()> {
///     comm.all_reduce(numbers.into(), numbers, Dtype::F32, ReduceOp::Sum, Stream::DEFAULT)
/// }
/// ```
impl Comm {
    /// Combines what all ranks send; all receive the result.
    ///
    /// # Safety
    /// As for [all of these](Self#moving-data).
    ///
    /// # Errors
    /// When the arguments cannot be, or NCCL fails.
    pub unsafe fn all_reduce<'a>(
        &self,
        send: Source<'_>,
        recv: Target<'_>,
        dtype: Dtype,
        op: impl Into<Op<'a>>,
        stream: Stream<'_>,
    ) -> Result<()> {
        let check = self.check("ncclAllReduce", dtype);
        check.equal(send.len(), recv.len())?;
        check.same_or_apart(send, recv)?;
        let count = check.elements("what is sent", send.len())?;
        let (send, recv) = (send.as_ptr(), recv.as_mut_ptr());
        self.combine(check, op.into(), |dtype, op| {
            let what = Move::AllReduce { send, recv, count, dtype, op };
            // SAFETY: the caller promises it.
            unsafe { self.issue(check.function, what, stream) }
        })
    }

    /// All ranks receive what the root sends. The others need not give anything to send; if the root does not, it
    /// sends what is in `recv`.
    ///
    /// # Safety
    /// As for [all of these](Self#moving-data).
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    pub unsafe fn broadcast(
        &self,
        send: Option<Source<'_>>,
        recv: Target<'_>,
        dtype: Dtype,
        root: u32,
        stream: Stream<'_>,
    ) -> Result<()> {
        let check = self.check("ncclBroadcast", dtype);
        let root = check.peer("root", root)?;
        let send = send.unwrap_or_else(|| recv.into());
        check.equal(send.len(), recv.len())?;
        check.same_or_apart(send, recv)?;
        let (dtype, count) = self.units(check, "what is received", recv.len())?;
        let (send, recv) = (send.as_ptr(), recv.as_mut_ptr());
        let what = Move::Broadcast { send, recv, count, dtype, root };
        // SAFETY: the caller promises it.
        unsafe { self.issue(check.function, what, stream) }
    }

    /// Combines what all ranks send; the root receives the result, the others need not give anything to receive it.
    ///
    /// # Safety
    /// As for [all of these](Self#moving-data).
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    pub unsafe fn reduce<'a>(
        &self,
        send: Source<'_>,
        recv: Option<Target<'_>>,
        dtype: Dtype,
        op: impl Into<Op<'a>>,
        root: u32,
        stream: Stream<'_>,
    ) -> Result<()> {
        let check = self.check("ncclReduce", dtype);
        let recv = self.at_root(check, root, "receive", recv)?;
        let root = check.peer("root", root)?;
        if let Some(recv) = recv {
            check.equal(send.len(), recv.len())?;
            check.same_or_apart(send, recv)?;
        }
        let count = check.elements("what is sent", send.len())?;
        let recv = recv.map_or(std::ptr::null_mut(), Target::as_mut_ptr);
        self.combine(check, op.into(), |dtype, op| {
            let what = Move::Reduce { send: send.as_ptr(), recv, count, dtype, op, root };
            // SAFETY: the caller promises it.
            unsafe { self.issue(check.function, what, stream) }
        })
    }

    /// All ranks receive what each sends, in the order of ranks.
    ///
    /// # Safety
    /// As for [all of these](Self#moving-data).
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    pub unsafe fn all_gather(
        &self,
        send: Source<'_>,
        recv: Target<'_>,
        dtype: Dtype,
        stream: Stream<'_>,
    ) -> Result<()> {
        let check = self.check("ncclAllGather", dtype);
        check.parts((RECEIVED, recv.len()), (SENT, send.len()))?;
        check.in_place(extent(recv.into()), extent(send))?;
        let (dtype, count) = self.units(check, SENT, send.len())?;
        let (send, recv) = (send.as_ptr(), recv.as_mut_ptr());
        let what = Move::AllGather { send, recv, count, dtype };
        // SAFETY: the caller promises it.
        unsafe { self.issue(check.function, what, stream) }
    }

    /// Combines what all ranks send; each receives its part of the result.
    ///
    /// # Safety
    /// As for [all of these](Self#moving-data).
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    pub unsafe fn reduce_scatter<'a>(
        &self,
        send: Source<'_>,
        recv: Target<'_>,
        dtype: Dtype,
        op: impl Into<Op<'a>>,
        stream: Stream<'_>,
    ) -> Result<()> {
        let check = self.check("ncclReduceScatter", dtype);
        check.parts((SENT, send.len()), (RECEIVED, recv.len()))?;
        check.in_place(extent(send), extent(recv.into()))?;
        let count = check.elements(RECEIVED, recv.len())?;
        let (send, recv) = (send.as_ptr(), recv.as_mut_ptr());
        self.combine(check, op.into(), |dtype, op| {
            let what = Move::ReduceScatter { send, recv, count, dtype, op };
            // SAFETY: the caller promises it.
            unsafe { self.issue(check.function, what, stream) }
        })
    }

    /// Each rank receives from each the part that is meant for it. Not in place. Before 2.28.3 it is made of messages.
    ///
    /// # Safety
    /// As for [all of these](Self#moving-data).
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    pub unsafe fn all_to_all(
        &self,
        send: Source<'_>,
        recv: Target<'_>,
        dtype: Dtype,
        stream: Stream<'_>,
    ) -> Result<()> {
        let check = self.check("ncclAlltoAll", dtype);
        check.equal(send.len(), recv.len())?;
        check.apart(send, recv)?;
        let part = self.part(check, SENT, send.len())?;
        let (number, count) = self.units(check, "a part", part)?;
        if self.library().has(Feature::AllToAll) {
            let (send, recv) = (send.as_ptr(), recv.as_mut_ptr());
            let what = Move::AllToAll { send, recv, count, dtype: number };
            // SAFETY: the caller promises it.
            return unsafe { self.issue(check.function, what, stream) };
        }
        group(self.library(), || {
            for peer in 0..self.world() {
                let at = peer as usize * part;
                // SAFETY: the caller promises it, of the whole.
                unsafe { self.send(send.slice(at..at + part), dtype, peer, stream) }?;
                // SAFETY: as above.
                unsafe { self.recv(recv.slice(at..at + part), dtype, peer, stream) }?;
            }
            Ok(())
        })
    }

    /// The root receives what each rank sends, in the order of ranks; the others need not give anything to receive
    /// it. Before 2.28.3 it is made of messages.
    ///
    /// # Safety
    /// As for [all of these](Self#moving-data).
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    pub unsafe fn gather(
        &self,
        send: Source<'_>,
        recv: Option<Target<'_>>,
        dtype: Dtype,
        root: u32,
        stream: Stream<'_>,
    ) -> Result<()> {
        let check = self.check("ncclGather", dtype);
        let recv = self.at_root(check, root, "receive", recv)?;
        let peer = check.peer("root", root)?;
        if let Some(recv) = recv {
            check.parts((RECEIVED, recv.len()), (SENT, send.len()))?;
            check.in_place(extent(recv.into()), extent(send))?;
        }
        let (number, count) = self.units(check, SENT, send.len())?;
        if self.library().has(Feature::AllToAll) {
            let recv = recv.map_or(std::ptr::null_mut(), Target::as_mut_ptr);
            let what = Move::Gather { send: send.as_ptr(), recv, count, dtype: number, root: peer };
            // SAFETY: the caller promises it.
            return unsafe { self.issue(check.function, what, stream) };
        }
        group(self.library(), || {
            // SAFETY: the caller promises it.
            unsafe { self.send(send, dtype, root, stream) }?;
            let Some(all) = recv else { return Ok(()) };
            for rank in 0..self.world() {
                let at = rank as usize * send.len();
                // SAFETY: as above, of the whole.
                unsafe { self.recv(all.slice(at..at + send.len()), dtype, rank, stream) }?;
            }
            Ok(())
        })
    }

    /// Each rank receives its part of what the root sends; the others need not give anything to send. Before 2.28.3
    /// it is made of messages.
    ///
    /// # Safety
    /// As for [all of these](Self#moving-data).
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    pub unsafe fn scatter(
        &self,
        send: Option<Source<'_>>,
        recv: Target<'_>,
        dtype: Dtype,
        root: u32,
        stream: Stream<'_>,
    ) -> Result<()> {
        let check = self.check("ncclScatter", dtype);
        let send = self.at_root(check, root, "send", send)?;
        let peer = check.peer("root", root)?;
        if let Some(send) = send {
            check.parts((SENT, send.len()), (RECEIVED, recv.len()))?;
            check.in_place(extent(send), extent(recv.into()))?;
        }
        let (number, count) = self.units(check, RECEIVED, recv.len())?;
        if self.library().has(Feature::AllToAll) {
            let send = send.map_or(std::ptr::null(), Source::as_ptr);
            let recv = recv.as_mut_ptr();
            let what = Move::Scatter { send, recv, count, dtype: number, root: peer };
            // SAFETY: the caller promises it.
            return unsafe { self.issue(check.function, what, stream) };
        }
        group(self.library(), || {
            // SAFETY: the caller promises it.
            unsafe { self.recv(recv, dtype, root, stream) }?;
            let Some(all) = send else { return Ok(()) };
            for rank in 0..self.world() {
                let at = rank as usize * recv.len();
                // SAFETY: as above, of the whole.
                unsafe { self.send(all.slice(at..at + recv.len()), dtype, rank, stream) }?;
            }
            Ok(())
        })
    }

    /// Sends to a rank, which receives it. Several messages that have to go on together belong in a
    /// [group](super::group()). Since 2.7.
    ///
    /// # Safety
    /// As for [all of these](Self#moving-data).
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    pub unsafe fn send(
        &self,
        what: Source<'_>,
        dtype: Dtype,
        to: u32,
        stream: Stream<'_>,
    ) -> Result<()> {
        let check = self.check("ncclSend", dtype);
        let peer = check.peer("the receiver", to)?;
        let (dtype, count) = self.units(check, SENT, what.len())?;
        let what = Move::Send { send: what.as_ptr(), count, dtype, peer };
        // SAFETY: the caller promises it.
        unsafe { self.issue(check.function, what, stream) }
    }

    /// Receives what a rank sends. Since 2.7.
    ///
    /// # Safety
    /// As for [all of these](Self#moving-data).
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    pub unsafe fn recv(
        &self,
        into: Target<'_>,
        dtype: Dtype,
        from: u32,
        stream: Stream<'_>,
    ) -> Result<()> {
        let check = self.check("ncclRecv", dtype);
        let peer = check.peer("the sender", from)?;
        let (dtype, count) = self.units(check, RECEIVED, into.len())?;
        let what = Move::Recv { recv: into.as_mut_ptr(), count, dtype, peer };
        // SAFETY: the caller promises it.
        unsafe { self.issue(check.function, what, stream) }
    }

    /// Puts a movement of data on a stream.
    ///
    /// # Safety
    /// As for [all of these](Self#moving-data); and it was checked.
    pub(super) unsafe fn issue(
        &self,
        function: &'static str,
        what: Move,
        stream: Stream<'_>,
    ) -> Result<()> {
        self.inner().must_be_alive(function)?;
        // SAFETY: the caller promises it; operations that are not NCCL's own were found to be this communicator's.
        self.perform(function, |handle| unsafe { handle.issue(what, stream.as_raw()) }).map(drop)
    }

    pub(super) fn check(&self, function: &'static str, dtype: Dtype) -> Check {
        Check { function, dtype, rank: self.rank(), world: self.world() }
    }

    /// As which type of NCCL's so many bytes are copied, and how many of it they are.
    pub(super) fn units(&self, check: Check, name: &str, bytes: usize) -> Result<(i32, usize)> {
        let (number, each) = copied(self.library(), check.dtype);
        Ok((number, check.elements(name, bytes)? * each))
    }

    /// The length of each rank's part.
    fn part(&self, check: Check, name: &str, bytes: usize) -> Result<usize> {
        let part = bytes / self.world() as usize;
        check.parts((name, bytes), ("a rank's part", part))?;
        Ok(part)
    }

    /// What the root has to give, and only the root.
    fn at_root<T>(
        &self,
        check: Check,
        root: u32,
        verb: &str,
        given: Option<T>,
    ) -> Result<Option<T>> {
        check.peer("root", root)?;
        match (self.rank() == root, given) {
            (true, None) => check.refuse(format!("the root has to give memory to {verb}")),
            (true, given) => Ok(given),
            (false, _) => Ok(None),
        }
    }

    /// Makes a call with NCCL's numbers for a dtype and an operation.
    fn combine(
        &self,
        check: Check,
        op: Op<'_>,
        call: impl FnOnce(i32, i32) -> Result<()>,
    ) -> Result<()> {
        let Check { function, dtype, .. } = check;
        let made;
        let (plain, sum) = match op {
            Op::Plain(ReduceOp::PremulSum(by)) => {
                made = PreMulSum::new(self, dtype, by)?;
                (ReduceOp::PremulSum(by), Some(&made))
            }
            Op::Plain(op) => (op, None),
            Op::PreMulSum(sum) => (ReduceOp::PremulSum(1.0), Some(sum)),
        };
        let number = combined(self.library(), function, dtype, plain)?;
        let op = match sum {
            Some(sum) => sum.number_for(function, self, dtype)?,
            None => {
                operation(plain).map_or_else(|| check.refuse(format!("NCCL has no {plain}")), Ok)?
            }
        };
        call(number, op)
    }
}

const SENT: &str = "what is sent";
const RECEIVED: &str = "what is received";
