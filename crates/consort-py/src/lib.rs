//! What Python is given of consort: groups whose calls take memory by its address, handles on calls
//! that are on their way, the meeting, the store, symmetric memory and NCCL.
//!
//! This is the ground that the Python package `consort` stands on, not what people use: the package
//! knows what a tensor is, and keeps it from being freed. Everything that waits lets other threads of
//! the interpreter go on meanwhile, and no thread of consort's ever asks for the interpreter: what is
//! to happen there when a call is done goes into a queue (`completions.rs`), which Python empties.

mod completions;
mod errors;
mod group;
mod meeting;
mod nccl;
mod op;
mod reducer;
mod region;
mod store;
mod symmetric;
mod task;
mod trace;

use pyo3::prelude::*;

/// The compiled part of consort.
#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::completions::Completions;
    #[pymodule_export]
    use crate::group::Group;
    #[pymodule_export]
    use crate::meeting::{Door, address, dtypes, host, meet};
    #[pymodule_export]
    use crate::nccl::{
        Communicator, nccl_cached, nccl_call, nccl_init_rank, nccl_library, nccl_unique_id,
    };
    #[pymodule_export]
    use crate::op::Op;
    #[pymodule_export]
    use crate::reducer::{Places, Reducer};
    #[pymodule_export]
    use crate::store::Store;
    #[pymodule_export]
    use crate::symmetric::Symmetric;

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
