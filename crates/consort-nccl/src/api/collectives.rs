//! Collectives.
//!
//! Counts are of elements, and per rank. A call without elements is done at once, and needs no others.
//!
//! ```
//! use consort_nccl::api::collectives::ncclAllReduce;
//! use consort_nccl::api::communicators::{ncclCommDestroy, ncclCommInitAll};
//! use consort_nccl::raw::{Buffer, Handle, In, Out};
//! use consort_nccl::Status;
//!
//! let mut comm = Handle::NULL;
//! // SAFETY: it lives until the call has returned.
//! let out = unsafe { Out::from_raw(&mut comm) };
//! // SAFETY: null leads nowhere.
//! let no_list = unsafe { In::from_raw(std::ptr::null()) };
//! assert_eq!(ncclCommInitAll(out, 1, no_list), Status::SUCCESS);
//!
//! let mut numbers = [1.5_f32, -2.0];
//! // SAFETY: without a stream the call is done when it returns, and the numbers are there until then.
//! let buffer = unsafe { Buffer::from_raw(numbers.as_mut_ptr().cast()) };
//! let (float, sum, now) = (7, 0, Handle::NULL);
//! assert_eq!(ncclAllReduce(buffer, buffer, 2, float, sum, comm, now), Status::SUCCESS);
//! assert_eq!(numbers, [1.5, -2.0]);
//! assert_eq!(ncclCommDestroy(comm), Status::SUCCESS);
//! ```

use std::ffi::c_int;
use std::sync::Arc;

use crate::batch;
use crate::comm::Communicator;
use crate::deed::{Deed, Words};
use crate::failure::Result;
use crate::kind;
use crate::raw::{Buffer, Handle};
use crate::stream::Stream;

exports! {
    /// Every rank gets the combination of all ranks' numbers. In place if both buffers are the same.
    fn ncclAllReduce, pncclAllReduce(
        sendbuff: Buffer, recvbuff: Buffer, count: usize, datatype: c_int, op: c_int, comm: Handle, stream: Handle,
    ) {
        collective(sendbuff, recvbuff, count, datatype, comm, stream, |words, comm| {
            words.all_reduce(comm.combination(op, words.dtype)?)
        })
    }

    /// Every rank gets the root's numbers. In place if both buffers are the same.
    fn ncclBroadcast, pncclBroadcast(
        sendbuff: Buffer, recvbuff: Buffer, count: usize, datatype: c_int, root: c_int, comm: Handle, stream: Handle,
    ) {
        collective(sendbuff, recvbuff, count, datatype, comm, stream, |words, _| words.broadcast(root))
    }

    /// As [`ncclBroadcast`], in place.
    fn ncclBcast, pncclBcast(
        buff: Buffer, count: usize, datatype: c_int, root: c_int, comm: Handle, stream: Handle,
    ) {
        collective(buff, buff, count, datatype, comm, stream, |words, _| words.broadcast(root))
    }

    /// The root gets the combination of all ranks' numbers. In place if both buffers are the same. Other ranks'
    /// `recvbuff` is not looked at.
    fn ncclReduce, pncclReduce(
        sendbuff: Buffer, recvbuff: Buffer, count: usize, datatype: c_int, op: c_int, root: c_int, comm: Handle,
        stream: Handle,
    ) {
        collective(sendbuff, recvbuff, count, datatype, comm, stream, |words, comm| {
            words.reduce(comm.combination(op, words.dtype)?, root)
        })
    }

    /// Every rank gets all ranks' numbers, in their order. In place if `sendbuff` is this rank's part of
    /// `recvbuff`.
    fn ncclAllGather, pncclAllGather(
        sendbuff: Buffer, recvbuff: Buffer, sendcount: usize, datatype: c_int, comm: Handle, stream: Handle,
    ) {
        collective(sendbuff, recvbuff, sendcount, datatype, comm, stream, |words, _| words.all_gather())
    }

    /// Every rank gets its part of the combination of all ranks' numbers. In place if `recvbuff` is this rank's
    /// part of `sendbuff`.
    fn ncclReduceScatter, pncclReduceScatter(
        sendbuff: Buffer, recvbuff: Buffer, recvcount: usize, datatype: c_int, op: c_int, comm: Handle,
        stream: Handle,
    ) {
        collective(sendbuff, recvbuff, recvcount, datatype, comm, stream, |words, comm| {
            words.reduce_scatter(comm.combination(op, words.dtype)?)
        })
    }

    /// Every rank gets a part from every rank. In place if both buffers are the same.
    fn ncclAlltoAll, pncclAlltoAll(
        sendbuff: Buffer, recvbuff: Buffer, count: usize, datatype: c_int, comm: Handle, stream: Handle,
    ) {
        collective(sendbuff, recvbuff, count, datatype, comm, stream, |words, _| words.all_to_all())
    }

    /// The root gets all ranks' numbers. In place if `sendbuff` is the root's part of `recvbuff`. Other ranks'
    /// `recvbuff` is not looked at.
    fn ncclGather, pncclGather(
        sendbuff: Buffer, recvbuff: Buffer, count: usize, datatype: c_int, root: c_int, comm: Handle, stream: Handle,
    ) {
        collective(sendbuff, recvbuff, count, datatype, comm, stream, |words, _| words.gather(root))
    }

    /// Every rank gets a part of the root's numbers. In place if `recvbuff` is the root's part of `sendbuff`.
    /// Other ranks' `sendbuff` is not looked at.
    fn ncclScatter, pncclScatter(
        sendbuff: Buffer, recvbuff: Buffer, count: usize, datatype: c_int, root: c_int, comm: Handle, stream: Handle,
    ) {
        collective(sendbuff, recvbuff, count, datatype, comm, stream, |words, _| words.scatter(root))
    }
}

/// Makes a collective, which is checked as a whole even if it has no elements.
fn collective(
    send: Buffer,
    recv: Buffer,
    count: usize,
    datatype: c_int,
    comm: Handle,
    stream: Handle,
    make: impl FnOnce(Words, &Communicator) -> Result<Deed>,
) -> Result<()> {
    batch::checked(|| {
        let Asked { comm, stream, words } = Asked::of(send, recv, count, datatype, comm, stream)?;
        let deed = make(words, &comm)?;
        if count == 0 { Ok(()) } else { batch::call(&comm, stream, deed) }
    })
}

/// What calls have in common, looked at.
pub(super) struct Asked {
    pub(super) comm: Arc<Communicator>,
    pub(super) stream: Option<Arc<Stream>>,
    pub(super) words: Words,
}

impl Asked {
    /// # Errors
    /// When one of them makes no sense.
    pub(super) fn of(
        send: Buffer,
        recv: Buffer,
        count: usize,
        datatype: c_int,
        comm: Handle,
        stream: Handle,
    ) -> Result<Self> {
        let comm = Communicator::find(comm)?;
        let group = comm.bond()?.group;
        let dtype = kind::dtype(datatype)?;
        let stream = Stream::find(stream)?;
        let (rank, world) = (group.rank().index(), group.world());
        Ok(Self { comm, stream, words: Words { send, recv, count, dtype, rank, world } })
    }
}
