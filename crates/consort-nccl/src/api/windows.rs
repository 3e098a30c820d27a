//! Memory that is registered, and windows that other ranks write to.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use crate::batch;
use crate::birth::Birth;
use crate::comm::Communicator;
use crate::deed::{Deed, rank_called};
use crate::failure::{Failure, Result};
use crate::kind;
use crate::memory::{self, Region};
use crate::raw::{Buffer, Handle, In, Out};
use crate::stream::Stream;
use crate::window::{self, Signal, Wanted, Window};

exports! {
    /// Says that memory is used often. There is nothing to be gained by it here; the handle is checked when it is
    /// given back.
    fn ncclCommRegister, pncclCommRegister(
        comm: Handle, buff: Buffer, size: usize, handle: Out<Handle>,
    ) {
        handle.check("handle")?;
        let comm = Communicator::find(comm)?;
        comm.bond()?;
        if size == 0 {
            return Err(Failure::argument("size is 0"));
        }
        handle.set("handle", comm.register(Region::new("buff", buff, size)?))
    }

    /// Says that it is not any more.
    fn ncclCommDeregister, pncclCommDeregister(comm: Handle, handle: Handle) {
        Communicator::find(comm)?.deregister(handle)
    }

    /// Opens a window on memory of this rank, which begins where a page does. Every rank has to call it.
    fn ncclCommWindowRegister, pncclCommWindowRegister(
        comm: Handle, buff: Buffer, size: usize, win: Out<Handle>, winFlags: c_int,
    ) {
        batch::checked(|| {
            win.set("win", Handle::NULL)?;
            let comm = Communicator::find(comm)?;
            comm.bond()?;
            let mine = Window::check(buff, size, winFlags)?;
            let place = window::reserve(comm.handle().number(), memory::hold("buff", mine)?);
            win.set("win", place.handle())?;
            let of = comm.clone();
            let make = move || {
                let service = of.service()?;
                let number = of.handle().number();
                place.settle(Window::open(&service, &of.at_work()?.group, number, mine, winFlags)?);
                Ok(())
            };
            let result = batch::birth(Birth::of_memory(comm, make));
            if result.as_ref().is_err_and(|failure| *failure != Failure::in_progress()) {
                win.set("win", Handle::NULL)?;
            }
            result
        })
    }

    /// Closes a window. Every rank has to call it, and what was put into it before is there when it returns; in a group of
    /// calls, when that ends.
    fn ncclCommWindowDeregister, pncclCommWindowDeregister(comm: Handle, win: Handle) {
        batch::checked(|| {
            let comm = Communicator::find(comm)?;
            let window = window::find(win, comm.handle().number())?;
            let of = comm.clone();
            let make = move || {
                window.close(&of.at_work()?.group)?;
                window::forget(win);
                Ok(())
            };
            batch::birth(Birth::end_of_memory(comm, make))
        })
    }

    /// Where the memory is that a window was opened on.
    fn ncclWinGetUserPtr, pncclWinGetUserPtr(comm: Handle, win: Handle, outUserPtr: Out<*mut c_void>) {
        let comm = Communicator::find(comm)?;
        let window = window::find(win, comm.handle().number())?;
        let address = ptr::with_exposed_provenance_mut(window.mine.address());
        outUserPtr.set("outUserPtr", address)
    }

    /// Puts numbers into a peer's window, and then signals that to it. They come from a symmetric window, too.
    fn ncclPutSignal, pncclPutSignal(
        localbuff: Buffer, count: usize, datatype: c_int, peer: c_int, peerWin: Handle, peerWinOffset: usize,
        sigIdx: c_int, ctx: c_int, flags: c_uint, comm: Handle, stream: Handle,
    ) {
        batch::checked(|| {
            let comm = Communicator::find(comm)?;
            let world = comm.bond()?.group.world();
            let dtype = kind::dtype(datatype)?;
            let stream = Stream::find(stream)?;
            let peer = rank_called("peer", peer, world)?;
            must_be_none(flags)?;
            let signal = Signal::new(peer.get(), sigIdx, ctx)?;
            let window = window::find(peerWin, comm.handle().number())?;
            let Some(len) = count.checked_mul(dtype.size()) else {
                return Err(Failure::argument(format!("count is {count}, which is more than memory can be")));
            };
            window.admits(peer.index(), peerWinOffset, len)?;
            let data = Region::new("localbuff", localbuff, len)?;
            window::check_source(comm.handle().number(), data)?;
            let deed = Deed::put(window.service, Some((window.index, peerWinOffset, data)), signal);
            batch::call(&comm, stream, deed)
        })
    }

    /// Signals to a peer. What was put there before is there when that hears of it.
    fn ncclSignal, pncclSignal(
        peer: c_int, sigIdx: c_int, ctx: c_int, flags: c_uint, comm: Handle, stream: Handle,
    ) {
        batch::checked(|| {
            let comm = Communicator::find(comm)?;
            let world = comm.bond()?.group.world();
            let stream = Stream::find(stream)?;
            let peer = rank_called("peer", peer, world)?;
            must_be_none(flags)?;
            let signal = Signal::new(peer.get(), sigIdx, ctx)?;
            batch::call(&comm, stream, Deed::put(comm.service_there_is()?, None, signal))
        })
    }

    /// Waits for signals of peers, so many of each, and takes them.
    fn ncclWaitSignal, pncclWaitSignal(
        nDesc: c_int, signalDescs: In<WaitSignalDesc>, comm: Handle, stream: Handle,
    ) {
        batch::checked(|| {
            let comm = Communicator::find(comm)?;
            let world = comm.bond()?.group.world();
            let stream = Stream::find(stream)?;
            let Ok(count) = usize::try_from(nDesc) else {
                return Err(Failure::argument(format!("nDesc is {nDesc}")));
            };
            let descs = signalDescs.list("signalDescs", count)?;
            let wanted = descs.iter().map(|desc| desc.wanted(world)).collect::<Result<_>>()?;
            batch::call(&comm, stream, Deed::wait(comm.service_there_is()?, wanted))
        })
    }
}

/// So many signals of a peer: `ncclWaitSignalDesc_t`.
#[allow(missing_docs, non_snake_case)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct WaitSignalDesc {
    pub opCnt: c_int,
    pub peer: c_int,
    pub sigIdx: c_int,
    pub ctx: c_int,
}

impl WaitSignalDesc {
    fn wanted(&self, world: usize) -> Result<Wanted> {
        let peer = rank_called("peer", self.peer, world)?;
        let signal = Signal::new(peer.get(), self.sigIdx, self.ctx)?;
        match u64::try_from(self.opCnt) {
            Ok(count) if count > 0 => Ok(Wanted { signal, count }),
            _ => {
                Err(Failure::argument(format!("opCnt is {}, and has to be at least 1", self.opCnt)))
            }
        }
    }
}

/// # Errors
/// When there are some.
fn must_be_none(flags: c_uint) -> Result<()> {
    match flags {
        0 => Ok(()),
        flags => Err(Failure::argument(format!("flags is {flags:#x}, and has to be 0"))),
    }
}
