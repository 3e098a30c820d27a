//! NCCL's C API on the memory of CPUs.
//!
//! # The subject
//!
//! Programs in C, C++, Zig, Julia and others that speak NCCL need GPUs to run at all. This crate is built as a
//! shared library, `libconsort_nccl.so`, which exports the host API of `libnccl.so.2`, with the same types and
//! values, over consort's groups: its "device pointers" are pointers to the process's own memory. So such
//! programs run, and are tested, on any Linux machine; and what NCCL's own users find hard to test, such as what
//! a program does when a rank dies, is tested here with processes that are killed.
//!
//! It is a look-alike and says so: in the text of every error, and by exporting
//! [`consortNcclIdentity`](api::extensions::consortNcclIdentity), which NCCL does not have.
//!
//! # The rooms
//!
//! | module | what is there |
//! |---|---|
//! | [`api`] | the exported functions, by subject |
//! | [`raw`] | what C hands over: pointers that may be null, text, numbers |
//! | [`Status`], [`UniqueId`], [`Config`], [`SimInfo`], [`WaitSignalDesc`], [`Team`] | the types of the C API |
//!
//! Everything else is private. A communicator holds a [`consort::Group`]; calls become *deeds*, which wait in
//! a *batch* until the outermost group of calls ends, and are then carried out in the order of their stream and
//! of their communicator.
//!
//! # Where to start
//!
//! With the headers in `include/`, and the programs in `examples/c`. From Rust the functions can be called
//! too, which is what the tests do:
//!
//! ```
//! use consort_nccl::api::library::ncclGetVersion;
//! use consort_nccl::raw::Out;
//! use consort_nccl::Status;
//!
//! let mut version = 0;
//! // SAFETY: it lives until the call has returned.
//! let status = ncclGetVersion(unsafe { Out::from_raw(&mut version) });
//! assert_eq!((status, version), (Status::SUCCESS, 23007));
//! ```
#![deny(unsafe_code)]

#[allow(unsafe_code, non_snake_case)]
pub mod api;
mod batch;
mod birth;
mod comm;
mod config;
mod deed;
mod event;
mod failure;
#[allow(unsafe_code, reason = "the system is told whom to call before it forks")]
mod fork;
mod gathering;
mod id;
mod kind;
mod membership;
#[allow(unsafe_code)]
mod memory;
mod order;
mod parameters;
#[allow(unsafe_code)]
pub mod raw;
mod record;
mod scale;
#[allow(unsafe_code)]
mod shared;
mod status;
mod stream;
mod turns;
mod watched;
mod window;

pub use api::device::Team;
pub use api::windows::WaitSignalDesc;
pub use config::{Config, SimInfo};
pub use id::UniqueId;
pub use status::Status;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks it, whatever happened to others who had: what they left is whole, as nothing here is changed in
/// steps that can panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
