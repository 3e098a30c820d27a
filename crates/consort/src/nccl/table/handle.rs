//! A communicator, and what is asked of it.

use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};

use super::lease::Foreign;
use super::spot::Spot;
use super::{Answer, Awaited, Code, Image, RawComm, RawId, RawStream, Table};

/// What became of a communicator that was to be made: there may be one though the call failed, which has to end.
pub(in super::super) type Made = (Code, Slot);

/// Where NCCL puts a communicator that it makes.
#[derive(Debug)]
pub(in super::super) struct Slot {
    spot: Spot,
    table: &'static Table,
}

impl Slot {
    pub(super) fn new(spot: Spot, table: &'static Table) -> Self {
        Self { spot, table }
    }

    /// The communicator, if it is there.
    ///
    /// # Errors
    /// Gives the slot back if it is not there yet.
    pub(in super::super) fn take(self) -> Result<Handle, Self> {
        match Handle::of(self.spot.load(), self.table) {
            Some(handle) => Ok(Handle { spot: Some(self.spot), ..handle }),
            None => Err(self),
        }
    }

    /// Takes notice that nothing will be put there any more.
    pub(in super::super) fn close(&mut self) {
        self.spot.close();
    }
}

/// A communicator that is alive.
#[derive(Debug)]
pub(in super::super) struct Handle {
    comm: NonNull<c_void>,
    table: &'static Table,
    /// Where NCCL may still write it while it is made.
    spot: Option<Spot>,
}

// SAFETY: a communicator is not bound to the thread that made it.
unsafe impl Send for Handle {}
// SAFETY: the gate lets one thread issue calls at a time; what may be called meanwhile (the asynchronous error, the
// last error, revoking, aborting) NCCL made for watchers on other threads.
unsafe impl Sync for Handle {}

impl Handle {
    pub(super) fn of(comm: *mut c_void, table: &'static Table) -> Option<Self> {
        Some(Self { comm: NonNull::new(comm)?, table, spot: None })
    }

    /// Takes notice that it is made.
    pub(in super::super) fn settled(&mut self) {
        self.spot.iter_mut().for_each(Spot::close);
    }

    pub(super) fn as_ptr(&self) -> *mut c_void {
        self.comm.as_ptr()
    }

    pub(super) fn table(&self) -> &'static Table {
        self.table
    }

    /// How many ranks it has.
    pub(in super::super) fn count(&self) -> Answer<(Code, c_int)> {
        // SAFETY: it is alive, and so is the place for the answer.
        self.number(|table, comm, place| unsafe { table.comm_count(comm, place) })
    }

    /// Which of them this is.
    pub(in super::super) fn user_rank(&self) -> Answer<(Code, c_int)> {
        // SAFETY: it is alive, and so is the place for the answer.
        self.number(|table, comm, place| unsafe { table.comm_user_rank(comm, place) })
    }

    /// The number of its device.
    pub(in super::super) fn device(&self) -> Answer<(Code, c_int)> {
        // SAFETY: it is alive, and so is the place for the answer.
        self.number(|table, comm, place| unsafe { table.comm_cu_device(comm, place) })
    }

    /// What has become of what it does: `(whether that could be asked, the answer)`.
    pub(in super::super) fn async_error(&self) -> Answer<(Code, Code)> {
        // SAFETY: it is alive, and so is the place for the answer.
        let state =
            self.number(|table, comm, place| unsafe { table.comm_get_async_error(comm, place) });
        state.map(|(code, state)| (code, Code(state)))
    }

    /// Has it do what it was given, and then nothing more.
    pub(in super::super) fn finalize(&self) -> Answer {
        // SAFETY: it is alive.
        unsafe { self.table.comm_finalize(self.comm.as_ptr()) }.map(Code)
    }

    /// Stops what it does.
    pub(in super::super) fn revoke(&self) -> Answer {
        // SAFETY: it is alive; no other flags exist.
        unsafe { self.table.comm_revoke(self.comm.as_ptr(), 0) }.map(Code)
    }

    /// Ends it in good order.
    pub(in super::super) fn destroy(self) -> Answer {
        // SAFETY: it is alive, in no group, and used by nobody, for it is given away.
        unsafe { self.table.comm_destroy(self.comm.as_ptr()) }.map(Code)
    }

    /// Ends it at once.
    pub(in super::super) fn abort(self) -> Answer {
        // SAFETY: it is alive, in no group, and used by nobody, for it is given away.
        unsafe { self.table.comm_abort(self.comm.as_ptr()) }.map(Code)
    }

    /// Ends it at once, while another thread is in a call of it. The gate has this done once, and nobody touch it
    /// afterwards.
    pub(in super::super) fn abort_under_others(&self) -> Answer {
        // SAFETY: it is alive, in no group that is open, and NCCL lets whoever is in a call of it out first.
        unsafe { self.table.comm_abort(self.comm.as_ptr()) }.map(Code)
    }

    /// Makes one of the ranks that give the same color, in the order of their keys.
    pub(in super::super) fn split(
        &self,
        color: c_int,
        key: c_int,
        config: Option<&mut Image>,
    ) -> Answer<Made> {
        let (comm, config) = (self.comm.as_ptr(), pointer(config));
        // SAFETY: it is alive, and the configuration is one for this version.
        self.table.make(|new| unsafe { self.table.comm_split(comm, color, key, new, config) })
    }

    /// Makes one of all ranks but some.
    pub(in super::super) fn shrink(
        &self,
        excluded: &[c_int],
        config: Option<&mut Image>,
        flags: c_int,
    ) -> Answer<Made> {
        let (comm, config) = (self.comm.as_ptr(), pointer(config));
        let (first, count) = (excluded.as_ptr(), excluded.len() as c_int);
        // SAFETY: it is alive, there are as many ranks as it says, and the configuration is one for this version.
        self.table
            .make(|new| unsafe { self.table.comm_shrink(comm, first, count, new, config, flags) })
    }

    /// Makes an id with which others can join it.
    pub(in super::super) fn unique_id(&self) -> Answer<(Code, RawId)> {
        let mut id = RawId([0; 128]);
        // SAFETY: it is alive, and so is the place for the answer.
        let code = unsafe { self.table.comm_get_unique_id(self.comm.as_ptr(), &mut id) }?;
        Ok((Code(code), id))
    }

    /// Makes one of its ranks and of others that join. The rank that made the id gives it.
    pub(in super::super) fn grow(
        &self,
        world: c_int,
        id: Option<&RawId>,
        config: Option<&mut Image>,
    ) -> Answer<Made> {
        let (comm, config) = (self.comm.as_ptr(), pointer(config));
        let id = id.map_or(ptr::null(), ptr::from_ref);
        // SAFETY: it is alive, the id is there or null, and the configuration is one for this version.
        self.table.make(|new| unsafe { self.table.comm_grow(comm, world, id, -1, new, config) })
    }

    /// Has it give back memory of the device that it can do without until it is resumed.
    pub(in super::super) fn suspend(&self) -> Answer {
        const MEMORY: c_int = 1;
        // SAFETY: it is alive.
        unsafe { self.table.comm_suspend(self.comm.as_ptr(), MEMORY) }.map(Code)
    }

    /// Takes the memory again.
    pub(in super::super) fn resume(&self) -> Answer {
        // SAFETY: it is alive.
        unsafe { self.table.comm_resume(self.comm.as_ptr()) }.map(Code)
    }

    /// How much memory it has.
    pub(in super::super) fn memory(&self, which: c_int) -> Answer<(Code, u64)> {
        let mut value = 0;
        // SAFETY: it is alive, and so is the place for the answer.
        let code = unsafe { self.table.comm_mem_stats(self.comm.as_ptr(), which, &mut value) }?;
        Ok((Code(code), value))
    }

    /// Makes a sum whose terms are multiplied by a number of this type, which is read now.
    pub(in super::super) fn pre_mul_sum(
        &self,
        mut factor: [u8; 8],
        dtype: c_int,
    ) -> Answer<(Code, c_int)> {
        const READ_NOW: c_int = 1;
        // No type that there is has more than eight bytes.
        let scalar = ptr::from_mut(&mut factor).cast();
        // SAFETY: it is alive, and so is the number, which NCCL reads before it returns.
        self.number(|table, comm, op| unsafe {
            table.red_op_create_pre_mul_sum(op, scalar, dtype, READ_NOW, comm)
        })
    }

    /// As [`pre_mul_sum`](Self::pre_mul_sum), by a number that is read when the sum is made.
    ///
    /// # Safety
    /// Until the last call with it is done the number is there, where the device can read it.
    pub(in super::super) unsafe fn pre_mul_sum_later(
        &self,
        factor: *const u8,
        dtype: c_int,
    ) -> Answer<(Code, c_int)> {
        const READ_LATER: c_int = 0;
        let scalar = factor.cast_mut().cast();
        // SAFETY: it is alive, and the caller promises the rest.
        self.number(|table, comm, op| unsafe {
            table.red_op_create_pre_mul_sum(op, scalar, dtype, READ_LATER, comm)
        })
    }

    /// Forgets such a sum.
    pub(in super::super) fn forget_op(&self, op: c_int) -> Answer {
        // SAFETY: it is alive; another number than one of its own is refused.
        unsafe { self.table.red_op_destroy(op, self.comm.as_ptr()) }.map(Code)
    }

    /// Tells a peer.
    pub(in super::super) fn signal(
        &self,
        peer: c_int,
        signal: c_int,
        context: c_int,
        stream: RawStream,
    ) -> Answer {
        let comm = self.comm.as_ptr();
        // SAFETY: it is alive; whoever made the stream promised that it is one.
        unsafe { self.table.signal(peer, signal, context, 0, comm, stream) }.map(Code)
    }

    /// Has a stream wait until it was told.
    pub(in super::super) fn wait_signal(&self, awaited: &[Awaited], stream: RawStream) -> Answer {
        let (count, first, comm) = (awaited.len() as c_int, awaited.as_ptr(), self.comm.as_ptr());
        // SAFETY: it is alive, and there are as many as it says.
        unsafe { self.table.wait_signal(count, first, comm, stream) }.map(Code)
    }

    /// Puts a movement of data on a stream.
    ///
    /// # Safety
    /// Until it is done, what is sent is there and does not change, and what is received is there and used by
    /// nobody else. An `op` that is not NCCL's own belongs to this communicator.
    pub(in super::super) unsafe fn issue(&self, what: Move, stream: RawStream) -> Answer {
        let (table, comm) = (self.table, self.comm.as_ptr());
        let code = match what {
            // SAFETY: it is alive, and the caller promises the rest; so in all that follow.
            Move::AllReduce { send, recv, count, dtype, op } => unsafe {
                table.all_reduce(send, recv, count, dtype, op, comm, stream)
            },
            // SAFETY: as above.
            Move::Broadcast { send, recv, count, dtype, root } => unsafe {
                table.broadcast(send, recv, count, dtype, root, comm, stream)
            },
            // SAFETY: as above.
            Move::Reduce { send, recv, count, dtype, op, root } => unsafe {
                table.reduce(send, recv, count, dtype, op, root, comm, stream)
            },
            // SAFETY: as above.
            Move::AllGather { send, recv, count, dtype } => unsafe {
                table.all_gather(send, recv, count, dtype, comm, stream)
            },
            // SAFETY: as above.
            Move::ReduceScatter { send, recv, count, dtype, op } => unsafe {
                table.reduce_scatter(send, recv, count, dtype, op, comm, stream)
            },
            // SAFETY: as above.
            Move::AllToAll { send, recv, count, dtype } => unsafe {
                table.all_to_all(send, recv, count, dtype, comm, stream)
            },
            // SAFETY: as above.
            Move::Gather { send, recv, count, dtype, root } => unsafe {
                table.gather(send, recv, count, dtype, root, comm, stream)
            },
            // SAFETY: as above.
            Move::Scatter { send, recv, count, dtype, root } => unsafe {
                table.scatter(send, recv, count, dtype, root, comm, stream)
            },
            // SAFETY: as above.
            Move::Send { send, count, dtype, peer } => unsafe {
                table.send(send, count, dtype, peer, comm, stream)
            },
            // SAFETY: as above.
            Move::Recv { recv, count, dtype, peer } => unsafe {
                table.recv(recv, count, dtype, peer, comm, stream)
            },
            // SAFETY: as above.
            Move::PutSignal { local, count, dtype, peer, window, offset, signal, context } => unsafe {
                let window = window.0;
                table.put_signal(
                    local, count, dtype, peer, window, offset, signal, context, 0, comm, stream,
                )
            },
        };
        code.map(Code)
    }

    fn number(
        &self,
        call: impl FnOnce(&Table, RawComm, *mut c_int) -> Answer<c_int>,
    ) -> Answer<(Code, c_int)> {
        let mut number = 0;
        let code = call(self.table, self.comm.as_ptr(), &mut number)?;
        Ok((Code(code), number))
    }
}

/// One movement of data, checked: counts are what NCCL takes, and the pointers are good for them.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Move {
    AllReduce {
        send: *const u8,
        recv: *mut u8,
        count: usize,
        dtype: c_int,
        op: c_int,
    },
    Broadcast {
        send: *const u8,
        recv: *mut u8,
        count: usize,
        dtype: c_int,
        root: c_int,
    },
    Reduce {
        send: *const u8,
        recv: *mut u8,
        count: usize,
        dtype: c_int,
        op: c_int,
        root: c_int,
    },
    AllGather {
        send: *const u8,
        recv: *mut u8,
        count: usize,
        dtype: c_int,
    },
    ReduceScatter {
        send: *const u8,
        recv: *mut u8,
        count: usize,
        dtype: c_int,
        op: c_int,
    },
    AllToAll {
        send: *const u8,
        recv: *mut u8,
        count: usize,
        dtype: c_int,
    },
    Gather {
        send: *const u8,
        recv: *mut u8,
        count: usize,
        dtype: c_int,
        root: c_int,
    },
    Scatter {
        send: *const u8,
        recv: *mut u8,
        count: usize,
        dtype: c_int,
        root: c_int,
    },
    Send {
        send: *const u8,
        count: usize,
        dtype: c_int,
        peer: c_int,
    },
    Recv {
        recv: *mut u8,
        count: usize,
        dtype: c_int,
        peer: c_int,
    },
    PutSignal {
        local: *const u8,
        count: usize,
        dtype: c_int,
        peer: c_int,
        window: Foreign,
        offset: usize,
        signal: c_int,
        context: c_int,
    },
}

/// A configuration, or null for that of the communicator that another is made of.
fn pointer(config: Option<&mut Image>) -> *mut c_void {
    config.map_or(ptr::null_mut(), Image::as_mut_ptr)
}
