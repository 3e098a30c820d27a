//! How operations of all ranks begin.

use std::ffi::c_int;

use super::functions::{BYTE, Count, IN_PLACE, REQUEST_NULL};
use super::{Comm, MpiError, Parts, Pending, Table, Task};
use crate::mpi::memory::Memory;

impl Table {
    /// Begins with an operation of all ranks, in which each takes part with its own memory.
    pub(in crate::mpi) fn start(
        &'static self,
        comm: Comm,
        task: Task,
        mut memory: Memory,
    ) -> Result<Pending, MpiError> {
        self.check_lives()?;
        let (reads, writes) = task.needs(comm.me, comm.world);
        let send = memory.send.of(reads).as_ptr().cast();
        let receive = memory.receive.of(writes).as_mut_ptr().cast();
        let (comm, f) = (comm.handle, &self.functions);
        let mut request = REQUEST_NULL;
        let ask = &mut request;
        // What is lent stays where it is until MPI is done with it: see `Pending`. That it is enough is checked
        // above, for the parts as for the whole.
        let (what, code) = match &task {
            Task::Barrier => {
                // SAFETY: it writes a handle of this frame.
                ("MPI_Ibarrier", unsafe { (f.barrier)(comm, ask) })
            }
            Task::Combine { how, count } => {
                let (count, kind) = (*count as Count, how.datatype);
                // SAFETY: both have so many numbers, aligned for any.
                let code = unsafe { (f.all_reduce)(send, receive, count, kind, how.op, comm, ask) };
                ("MPI_Iallreduce", code)
            }
            Task::CombineAt { root, how, count } => {
                let (count, kind, root) = (*count as Count, how.datatype, *root as c_int);
                // SAFETY: both have so many numbers, aligned for any, the second on the root.
                let code =
                    unsafe { (f.reduce)(send, receive, count, kind, how.op, root, comm, ask) };
                ("MPI_Ireduce", code)
            }
            Task::CombineParts { how, parts } => {
                let Parts::Each { sizes, .. } = parts else {
                    unreachable!("its parts are a list");
                };
                let (sizes, kind) = (sizes.as_ptr(), how.datatype);
                // SAFETY: there are as many numbers to read as the list says together, and as many to write as
                // it says of this rank; it has one for each rank, and stays with what is lent.
                let code =
                    unsafe { (f.reduce_scatter)(send, receive, sizes, kind, how.op, comm, ask) };
                ("MPI_Ireduce_scatter", code)
            }
            Task::Spread { root, bytes } => {
                let (bytes, root) = (*bytes as Count, *root as c_int);
                // SAFETY: there are so many bytes.
                ("MPI_Ibcast", unsafe { (f.broadcast)(receive, bytes, BYTE, root, comm, ask) })
            }
            Task::GatherAll { mine, parts: Parts::Equal(each) } => {
                let (mine, each) = (*mine as Count, *each as Count);
                // SAFETY: there are so many bytes to read, and as many of each rank to write.
                let code =
                    unsafe { (f.all_gather)(send, mine, BYTE, receive, each, BYTE, comm, ask) };
                ("MPI_Iallgather", code)
            }
            Task::GatherAll { mine, parts: Parts::Each { sizes, places } } => {
                let (mine, sizes, places) = (*mine as Count, sizes.as_ptr(), places.as_ptr());
                // SAFETY: there are so many bytes to read, and as many to write as the lists say, which have a
                // part of each rank and stay with what is lent.
                let code = unsafe {
                    (f.all_gather_v)(send, mine, BYTE, receive, sizes, places, BYTE, comm, ask)
                };
                ("MPI_Iallgatherv", code)
            }
            Task::Complete { parts: Parts::Equal(each) } => {
                let each = *each as Count;
                // SAFETY: there are so many bytes of each rank to write, this one's among them, which are read.
                let code =
                    unsafe { (f.all_gather)(IN_PLACE, 0, BYTE, receive, each, BYTE, comm, ask) };
                ("MPI_Iallgather", code)
            }
            Task::Complete { parts: Parts::Each { sizes, places } } => {
                let (sizes, places) = (sizes.as_ptr(), places.as_ptr());
                // SAFETY: there is as much to write as the lists say, this rank's part among it, which is read; they
                // have a part of each rank and stay with what is lent.
                let code = unsafe {
                    (f.all_gather_v)(IN_PLACE, 0, BYTE, receive, sizes, places, BYTE, comm, ask)
                };
                ("MPI_Iallgatherv", code)
            }
            Task::Gather { root, mine, parts: Parts::Equal(each) } => {
                let (mine, each, root) = (*mine as Count, *each as Count, *root as c_int);
                // SAFETY: there are so many bytes to read, and on the root as many of each rank to write.
                let code =
                    unsafe { (f.gather)(send, mine, BYTE, receive, each, BYTE, root, comm, ask) };
                ("MPI_Igather", code)
            }
            Task::Gather { root, mine, parts: Parts::Each { sizes, places } } => {
                let (mine, root) = (*mine as Count, *root as c_int);
                let (sizes, places) = (sizes.as_ptr(), places.as_ptr());
                // SAFETY: as above, with lists that the root alone looks at, and which stay with what is lent.
                let code = unsafe {
                    (f.gather_v)(send, mine, BYTE, receive, sizes, places, BYTE, root, comm, ask)
                };
                ("MPI_Igatherv", code)
            }
            Task::Scatter { root, mine, parts: Parts::Equal(each) } => {
                let (mine, each, root) = (*mine as Count, *each as Count, *root as c_int);
                // SAFETY: on the root there are so many bytes of each rank to read, and as many to write as given.
                let code =
                    unsafe { (f.scatter)(send, each, BYTE, receive, mine, BYTE, root, comm, ask) };
                ("MPI_Iscatter", code)
            }
            Task::Scatter { root, mine, parts: Parts::Each { sizes, places } } => {
                let (mine, root) = (*mine as Count, *root as c_int);
                let (sizes, places) = (sizes.as_ptr(), places.as_ptr());
                // SAFETY: as above, with lists that the root alone looks at, and which stay with what is lent.
                let code = unsafe {
                    (f.scatter_v)(send, sizes, places, BYTE, receive, mine, BYTE, root, comm, ask)
                };
                ("MPI_Iscatterv", code)
            }
            Task::Exchange { sent: Parts::Equal(sent), received: Parts::Equal(received) } => {
                let (sent, received) = (*sent as Count, *received as Count);
                // SAFETY: there are so many bytes for each rank to read, and as many of each to write as given.
                let code =
                    unsafe { (f.all_to_all)(send, sent, BYTE, receive, received, BYTE, comm, ask) };
                ("MPI_Ialltoall", code)
            }
            Task::Exchange {
                sent: Parts::Each { sizes: out, places: from },
                received: Parts::Each { sizes: come, places: to },
            } => {
                let (out, from) = (out.as_ptr(), from.as_ptr());
                let (come, to) = (come.as_ptr(), to.as_ptr());
                // SAFETY: there is as much to read and to write as the lists say, which have a part of each rank
                // and stay with what is lent.
                let code = unsafe {
                    (f.all_to_all_v)(send, out, from, BYTE, receive, come, to, BYTE, comm, ask)
                };
                ("MPI_Ialltoallv", code)
            }
            Task::Exchange { .. } | Task::Message { .. } => {
                unreachable!("both parts are of one form, and a message is no operation of all")
            }
        };
        let pending = Pending::new(self, request, task, memory);
        self.check(what, code)?;
        Ok(pending)
    }
}
