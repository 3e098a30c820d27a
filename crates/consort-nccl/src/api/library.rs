//! What this library is, and what went wrong.

use std::ffi::{c_char, c_int};

use crate::comm::Communicator;
use crate::config::VERSION;
use crate::failure;
use crate::membership;
use crate::raw::{Handle, Out};
use crate::{Status, UniqueId};

exports! {
    /// The version of NCCL whose API this is: 23007 for 2.30.7.
    fn ncclGetVersion, pncclGetVersion(version: Out<c_int>) {
        version.set("version", VERSION)
    }

    /// A new id, for the ranks of one communicator. This process holds the store that they meet in; whoever has
    /// the id gets in, and nobody else.
    ///
    /// The store listens where only this host reaches it, or on the interface that `CONSORT_INTERFACE` or
    /// `NCCL_SOCKET_IFNAME` names, or at the address and port that `NCCL_COMM_ID` says.
    fn ncclGetUniqueId, pncclGetUniqueId(uniqueId: Out<UniqueId>) {
        uniqueId.check("uniqueId")?;
        uniqueId.set("uniqueId", membership::invite()?)
    }
}

/// What a result means.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGetErrorString(result: Status) -> *const c_char {
    result.text().as_ptr()
}

#[doc(hidden)]
#[unsafe(no_mangle)]
pub extern "C" fn pncclGetErrorString(result: Status) -> *const c_char {
    result.text().as_ptr()
}

/// What went wrong last: of a communicator, if one is given that knows of something, or in this thread, or in
/// any. The text stays until this thread asks again.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGetLastError(comm: Handle) -> *const c_char {
    last(comm)
}

#[doc(hidden)]
#[unsafe(no_mangle)]
pub extern "C" fn pncclGetLastError(comm: Handle) -> *const c_char {
    last(comm)
}

/// Has no effect: there is nothing to reset.
#[unsafe(no_mangle)]
pub extern "C" fn ncclResetDebugInit() {}

#[doc(hidden)]
#[unsafe(no_mangle)]
pub extern "C" fn pncclResetDebugInit() {}

fn last(comm: Handle) -> *const c_char {
    let text = Communicator::find(comm).ok().and_then(|comm| comm.complaint());
    failure::last(text)
}
