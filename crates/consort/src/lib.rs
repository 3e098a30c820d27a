//! Processes that work together.
//!
//! # The subject
//!
//! A job is a number of processes that run the same program, on one host or on many. Each has a
//! [`Rank`], a number from 0 up to the *world*, which is how many there are. A [`Group`] is what a
//! process holds to work with the others: it knows its own rank, who the others are and where,
//! and has a [store](Group::store) that all of them share.
//!
//! To become a group they have to meet. Somebody tells each process its rank, the world, and a
//! place: the launcher `consort run`, another launcher's environment, or the program itself. At
//! the meeting every rank shows which version it is and how it was set up; if two differ in what
//! has to be the same, all of them fail with an error that shows the difference. A rank that does
//! not come is named on every rank that does.
//!
//! What they do together: collectives ([`Group::all_reduce`] and its kind), which every rank calls
//! alike; [messages](Group::send) from one rank to another; and [symmetric memory](symm), which
//! all ranks of a host reach. Each can block, or go on [in the background](Work). These work on
//! memory; [`functional`] has the same on values, such as tensors, and gives new ones. A [`Mesh`] lays
//! ranks out in rows and columns, with a group along each. [`nccl`] has NVIDIA's library for devices, as it is.
//!
//! A group belongs to the process that met the others. A child that is forked from it is no rank:
//! what it asks of the group is an [error](Error::Forked), and nobody hears of it.
//!
//! Nobody gets into a meeting over TCP without the job's secret, which the launcher makes and
//! hands to its ranks.
//!
//! # Where to start
//!
//! [`init`] is the one entry point; [`Builder`] is the same with everything said in the program.
//!
//! ```no_run
//! let group = consort::init()?;
//! println!("rank {} of {}", group.rank(), group.world());
//! group.barrier()?;
//! # Ok::<(), consort::Error>(())
//! ```
//!
//! ```text
//! consort run -n 4 -- ./program
//! ```
#![deny(unsafe_code)]

mod asynchronous;
mod backend;
mod buffer;
mod builder;
mod call;
mod card;
mod coalesced;
mod collectives;
mod commission;
mod debug;
mod delivery;
pub mod device;
pub mod duration;
mod engine;
pub mod engines;
mod environment;
mod error;
mod exec;
pub mod functional;
mod group;
mod home;
mod job;
mod meeting;
pub mod mesh;
mod metering;
mod mpi;
pub mod nccl;
mod neighbourhood;
mod notice;
mod options;
mod owned;
mod p2p;
mod places;
mod recorder;
mod scope;
#[cfg(test)]
mod simulated;
pub mod symm;
pub mod trace;
mod traffic;
mod verdict;
mod whereabouts;
mod wire;
mod work;

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub use wire::fuzzing;

pub use backend::{Backend, Capabilities, Terms};
pub use buffer::{Buffer, Input};
pub use builder::Builder;
pub use call::{Call, Inputs, Operation, Outputs, Purpose};
pub use coalesced::{Recorded, Recorder, Ticket, Tickets};
pub use consort_store::{Deadline, Error as StoreError, ErrorKind, Secret, Store, Swap};
pub use consort_sys::arena::ArenaError;
pub use consort_sys::dtype::{Complex32, Complex64, Dtype, Element, F8E4m3, F8E5m2, ReduceOp};
pub use consort_sys::host::HostId;
pub use consort_sys::net::Error as InterfaceError;
pub use consort_sys::pass::PassError;
pub use consort_sys::reduce::Unsupported;
pub use consort_sys::view::{Source, Space, Target};
pub use debug::{DebugLevel, UnknownDebugLevel};
pub use delivery::{Delivery, Message, OwnedMessage};
pub use environment::{VARIABLES, check_variable};
pub use error::{Error, Result};
pub use group::{Group, Member, Presence, Rank};
pub use half::{bf16, f16};
pub use job::{Job, Lists, OwnedCall};
pub use mesh::Mesh;
pub use options::{Engine, Transport, UnknownEngine, UnknownTransport};
pub use p2p::{Incoming, Outgoing, Tag};
pub use scope::Scope;
pub use traffic::{Traffic, TrafficRow};
pub use whereabouts::{CallStage, Condition, LastCall, Reports, Whereabouts};
pub use work::{Begun, Completion, Failed, Work};

/// Meets the other ranks as the environment says.
///
/// What is looked at, first found first taken:
///
/// | who sets it | rank and world | place |
/// |---|---|---|
/// | `consort run` | `RANK`, `WORLD_SIZE` | `CONSORT_RDZV` |
/// | `torchrun` | `RANK`, `WORLD_SIZE` | `MASTER_ADDR`, `MASTER_PORT` (the port after it if torchrun's own store is there) |
/// | Open MPI | `OMPI_COMM_WORLD_RANK`, `OMPI_COMM_WORLD_SIZE` | MPI, or `MASTER_ADDR`, `MASTER_PORT` |
/// | MPICH, Intel MPI | `PMI_RANK`, `PMI_SIZE` | MPI, or `MASTER_ADDR`, `MASTER_PORT` |
/// | Slurm | `SLURM_PROCID`, `SLURM_NTASKS` | MPI, or the job's first node, a port made from `SLURM_JOB_ID` |
///
/// `CONSORT_RDZV` and `MASTER_ADDR` are taken from whoever sets them, and every value can be said
/// in the program instead, with a [`Builder`]. Launchers other than `consort run` do not make a
/// secret: name a file that has one in `CONSORT_SECRET_FILE`.
///
/// A program that `mpiexec` or `srun` has started needs none of this, if its MPI can be loaded: where neither a
/// place nor a secret is said, rank 0 opens a place, makes a secret, and tells the others of both by MPI. On several
/// hosts MPI carries their data as well, unless `CONSORT_TRANSPORT`, `CONSORT_ALGORITHM`, `CONSORT_STREAMS`,
/// `CONSORT_ENCRYPT` or `CONSORT_INTEGRITY` says what their own ways are to be like ([`Engine::Auto`]).
///
/// | variable | meaning | default |
/// |---|---|---|
/// | `CONSORT_RDZV` | `tcp://host:port` or `file:///path` | |
/// | `CONSORT_SECRET_FILE` | 64 hexadecimal digits that only the owner may read | |
/// | `CONSORT_JOB`, `CONSORT_EPOCH` | which job and which of its rounds this is | `job`, 0 |
/// | `CONSORT_JOIN` | whether to [join](Builder::join) a job that runs: `on` or `off` | `off` |
/// | `CONSORT_TIMEOUT` | how long to wait for the other ranks | `10m` |
/// | `CONSORT_LIVENESS` | how long a host may be silent | `10s` |
/// | `CONSORT_WARN_AFTER` | how long to wait before a [warning](Builder::warn_after) that names the ranks waited for; `off`: never | `30s` |
/// | `CONSORT_INTERFACE` | the name or address of the network interface to use | the one that leads to the store |
/// | `CONSORT_BACKEND` | who carries out calls: `auto`, `host`, `mpi`, `nccl` or, to try a program without results, `fake` ([`Engine`]) | `auto` |
/// | `CONSORT_MPI_LIBRARY` | the library of MPI's standard binary interface | `libmpi_abi.so`, where the system looks, beside MPI's launcher and in Python environments |
/// | `CONSORT_TRANSPORT` | what data travels over: `auto`, `shm` or `tcp` ([`Transport`]) | `auto` |
/// | `CONSORT_ENCRYPT` | whether data is encrypted between hosts: `on` or `off` | `off` |
/// | `CONSORT_INTEGRITY` | whether data has a checksum between hosts: `on` or `off` | `off` |
/// | `CONSORT_VERIFY` | every how many calls ranks compare their results | `0`: never |
/// | `CONSORT_ALGORITHM` | the algorithm to use between hosts, by its name in `consort plan` | `auto`: chosen for each call |
/// | `CONSORT_STREAMS` | how many TCP connections two ranks have, up to 8 | `0`: found by measuring |
/// | `CONSORT_PORT` | the port that this host listens on for data; `0`: the system chooses | the store's number, except on the store's host |
/// | `CONSORT_CUDA_LIBRARY` | where the driver of [devices](device) is | `libcuda.so.1` |
/// | `CONSORT_TRACE_DIR` | the folder in which this rank leaves a record of its last calls ([`trace`]) | none: in memory |
/// | `CONSORT_DEBUG` | how much this rank tells of what it does: `off`, `info` or `detail` ([`DebugLevel`]) | `off` |
/// | `CONSORT_NCCL_LIBRARY` | the file to load as NCCL ([`nccl`]) | the first that is [found](nccl::Library::find) |
/// | `CONSORT_LOG` | what the `consort` program logs | `warn` |
///
/// A process comes to each round of a job once, and keeps its [`Group`], of which clones are the same:
/// a second call is an [error](Error::Twice), even when the group was dropped or the first call has
/// failed. To meet again, all ranks give another [`epoch`](Builder::epoch).
///
/// Ranks of a host find out here whether they may read each other's memory, and rely on it: a process
/// that gives up rights (`setuid`, capabilities) does so before.
///
/// # Errors
/// One error lists everything that was found and everything that is missing; see [`Error`] for
/// the others.
pub fn init() -> Result<Group> {
    Builder::from_environment()?.init()
}
