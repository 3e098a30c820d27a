//! Messages from one rank to another.

use std::ffi::c_int;

use super::collectives::Asked;
use crate::batch;
use crate::raw::{Buffer, Handle};

exports! {
    /// Sends numbers to a rank, which has to receive as many of the same type. Messages to a rank arrive in the
    /// order in which they are sent. Those that have to go on at once are made in one group.
    fn ncclSend, pncclSend(
        sendbuff: Buffer, count: usize, datatype: c_int, peer: c_int, comm: Handle, stream: Handle,
    ) {
        batch::checked(|| {
            let asked = Asked::of(sendbuff, sendbuff, count, datatype, comm, stream)?;
            batch::call(&asked.comm, asked.stream, asked.words.send(peer)?)
        })
    }

    /// Receives numbers from a rank.
    fn ncclRecv, pncclRecv(
        recvbuff: Buffer, count: usize, datatype: c_int, peer: c_int, comm: Handle, stream: Handle,
    ) {
        batch::checked(|| {
            let asked = Asked::of(recvbuff, recvbuff, count, datatype, comm, stream)?;
            batch::call(&asked.comm, asked.stream, asked.words.recv(peer)?)
        })
    }
}
