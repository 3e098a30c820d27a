//! Memory that is made known to a communicator.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use super::super::gate::Gate;
use super::spot::Spot;
use super::{Answer, Block, Code, Handle};

/// Memory that a communicator knows, or may know. It keeps the memory, if that is NCCL's own, until it was
/// [released](Self::release), or the communicator is over: what NCCL may still use is never given back to it.
#[derive(Debug)]
pub(in super::super) struct Lease {
    gate: Arc<Gate>,
    kind: Leased,
    /// NCCL's name for it. Null if it did not want to know it.
    spot: Spot,
    /// The memory, if it is NCCL's own.
    block: Option<Arc<Block>>,
    is_forgotten: bool,
}

/// What memory is made known for.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Leased {
    /// For this rank's calls.
    Buffer,
    /// For all ranks, with these flags.
    Window(c_int),
}

/// Whose part of a window.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Place {
    Own,
    Peer(c_int),
    Near(c_int),
    AllNear,
}

/// Something of NCCL's that is only given back to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Foreign(pub(super) *mut c_void);

impl Lease {
    /// Makes memory of NCCL's own known.
    pub(in super::super) fn of_block(
        handle: &Handle,
        gate: &Arc<Gate>,
        kind: Leased,
        block: &Arc<Block>,
    ) -> Answer<(Code, Self)> {
        let (start, len) = (block.start().as_ptr(), block.len());
        // SAFETY: the lease keeps the memory until NCCL has forgotten it.
        let (code, mut lease) = unsafe { Self::of_memory(handle, gate, kind, start, len) }?;
        lease.block = Some(block.clone());
        Ok((code, lease))
    }

    /// Makes memory known to a communicator, whose gate this is.
    ///
    /// # Safety
    /// The memory is there until the lease was released, or the communicator is over.
    pub(in super::super) unsafe fn of_memory(
        handle: &Handle,
        gate: &Arc<Gate>,
        kind: Leased,
        start: *mut u8,
        len: usize,
    ) -> Answer<(Code, Self)> {
        let (table, comm, spot) = (handle.table(), handle.as_ptr(), Spot::new());
        let code = match kind {
            // SAFETY: the communicator is alive, and the caller promises the rest.
            Leased::Buffer => unsafe {
                table.comm_register(comm, start.cast(), len, spot.as_ptr())
            },
            // SAFETY: as above.
            Leased::Window(flags) => unsafe {
                table.comm_window_register(comm, start.cast(), len, spot.as_ptr(), flags)
            },
        };
        let code = Code(code?);
        let spot = match code {
            Code::SUCCESS | Code::IN_PROGRESS => spot.after(code),
            // What NCCL may have left there is no name.
            _ => Spot::new(),
        };
        Ok((code, Self { gate: gate.clone(), kind, spot, block: None, is_forgotten: false }))
    }

    /// Takes notice that the call that makes it known is over.
    pub(in super::super) fn close(&mut self) {
        self.spot.close();
    }

    /// The function that has it forgotten.
    pub(in super::super) fn end(&self) -> &'static str {
        match self.kind {
            Leased::Buffer => "ncclCommDeregister",
            Leased::Window(_) => "ncclCommWindowDeregister",
        }
    }

    /// Has its communicator, whose handle this is, begin to forget it.
    pub(in super::super) fn forget(&self, handle: &Handle) -> Answer {
        let (table, comm, name) = (handle.table(), handle.as_ptr(), self.spot.load());
        if name.is_null() {
            return Ok(Code::SUCCESS);
        }
        let code = match self.kind {
            // SAFETY: the communicator is alive, and it was made known to it, and not forgotten before: this is
            // called once.
            Leased::Buffer => unsafe { table.comm_deregister(comm, name) },
            // SAFETY: as above.
            Leased::Window(_) => unsafe { table.comm_window_deregister(comm, name) },
        };
        code.map(Code)
    }

    /// Takes notice that NCCL has forgotten it: the memory can be given back.
    pub(in super::super) fn release(mut self) {
        self.is_forgotten = true;
    }

    /// NCCL's name for a window, for a call with it. None if NCCL did not make one.
    pub(in super::super) fn window(&self) -> Option<Foreign> {
        let window = self.spot.load();
        (!window.is_null()).then_some(Foreign(window))
    }

    /// Whether it belongs to this communicator.
    pub(in super::super) fn is_of(&self, gate: &Arc<Gate>) -> bool {
        Arc::ptr_eq(&self.gate, gate)
    }

    /// Where a window is: here, at a peer, at a rank of the domain, at all of them at once. `handle` is that of its
    /// communicator; None if NCCL did not make a window.
    pub(in super::super) fn place(
        &self,
        handle: &Handle,
        of: Place,
        offset: usize,
    ) -> Option<Answer<(Code, *mut u8)>> {
        let window = self.window()?.0;
        let mut start = ptr::null_mut();
        let table = handle.table();
        let code = match of {
            // SAFETY: the communicator is alive, and so is the window; so below.
            Place::Own => unsafe { table.win_get_user_ptr(handle.as_ptr(), window, &mut start) },
            // SAFETY: as above.
            Place::Peer(peer) => unsafe {
                table.get_peer_device_pointer(window, offset, peer, &mut start)
            },
            // SAFETY: as above.
            Place::Near(rank) => unsafe {
                table.get_lsa_device_pointer(window, offset, rank, &mut start)
            },
            // SAFETY: as above.
            Place::AllNear => unsafe {
                table.get_lsa_multimem_device_pointer(window, offset, &mut start)
            },
        };
        Some(code.map(|code| (Code(code), start.cast())))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let was_never_known = !self.spot.is_open() && self.spot.load().is_null();
        // With the communicator NCCL has forgotten all.
        if self.is_forgotten || was_never_known || self.gate.await_end(Duration::ZERO) {
            return;
        }
        if let Some(block) = self.block.take() {
            tracing::warn!(
                "{} bytes of NCCL's are not given back to it, for it may still use them: {} did not succeed, nor did \
                 the communicator come to its end",
                block.len(),
                self.end()
            );
            std::mem::forget(block);
        }
    }
}
