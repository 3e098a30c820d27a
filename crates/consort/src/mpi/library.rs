//! Finding the library, and beginning MPI with it.

use std::env;
use std::path::PathBuf;

use consort_store::Deadline;
use consort_sys::dl::Library;

use super::ending::Hold;
use super::keeper;
use super::table::{Comm, MpiError, Table};
use crate::error::{Error, Result};

/// The MPI of this process. There is one, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Mpi {
    pub(super) table: Table,
    /// All processes that began together.
    pub(super) world: Comm,
    /// What it was found by.
    path: PathBuf,
    /// Whether somebody else has begun it here, and so ends it.
    pub(super) is_guest: bool,
}

impl Mpi {
    /// Finds it and begins it, unless that was done before, for a process that is this rank of so many, in MPI too.
    /// All processes that the launcher has started have to begin it: who waits for them looks round now and then.
    ///
    /// # Errors
    /// When there is none, or it cannot be used; when it has not begun at the deadline, or `look_round` has an error;
    /// when this process is another in it.
    pub(crate) fn open_as(
        rank: u32,
        world: u32,
        until: Deadline,
        look_round: &mut dyn FnMut() -> Result<()>,
    ) -> Result<&'static Self> {
        let mpi = keeper::open(until, look_round)?;
        if mpi.table.has_ended() == Ok(true) {
            return Err(Error::Mpi(ENDED.to_owned()));
        }
        let (number, size) = (mpi.world.me, mpi.world.world);
        if (number, size) == (rank as usize, world as usize) {
            return Ok(mpi);
        }
        let path = mpi.path.display();
        Err(Error::Mpi(match size {
            1 => format!(
                "this process is rank {rank} of {world}, but {path} knows of no other process: MPI connects \
                 those that a launcher has started which it knows; use mpiexec or srun, of this same MPI, or \
                 for MPICH and its relatives `consort run --backend mpi`"
            ),
            _ => format!(
                "this process is rank {rank} of {world}, but number {number} of {size} in {path}: give all \
                 ranks the numbers that they have in MPI"
            ),
        }))
    }

    /// Keeps it from ending.
    pub(crate) fn hold(&'static self) -> Hold {
        Hold::new(self)
    }

    /// Where it is, and which, without beginning it.
    ///
    /// # Errors
    /// When there is none, or it cannot be used.
    pub(crate) fn find() -> Result<(PathBuf, String), String> {
        let (table, path) = Self::load()?;
        let version = table.library_version().map_err(|it| format!("{}: {it}", path.display()))?;
        Ok((path, version))
    }

    fn load() -> Result<(Table, PathBuf), String> {
        let library = Library::open(candidates()).map_err(|error| {
            format!(
                "no library with MPI's standard interface could be loaded ({error}); name it in {LIBRARY}"
            )
        })?;
        let path = library.path().to_owned();
        let table = Table::of(&library).map_err(|it| format!("{}: {it}", path.display()))?;
        Ok((table, path))
    }

    /// Finds it and begins it. Waits for all processes of the job to do the same.
    pub(super) fn begin() -> Result<Self, String> {
        let (table, path) = Self::load()?;
        let in_it = |error: MpiError| format!("{}: {error}", path.display());
        // One that has ended has begun, too, and ends a process that asks it anything else.
        let is_guest = table.has_begun().map_err(in_it)?;
        if table.has_ended().map_err(in_it)? {
            return Err(ENDED.to_owned());
        }
        if !is_guest {
            table.begin().map_err(in_it)?;
        }
        table.check_threads().map_err(in_it)?;
        let world = table.world().map_err(in_it)?;
        Ok(Self { table, world, path, is_guest })
    }
}

/// Where it may be: where the environment says; where the system looks; in the virtual environment that is
/// active, which a package of PyPI puts it into.
fn candidates() -> Vec<PathBuf> {
    if let Some(path) = env::var_os(LIBRARY).filter(|path| !path.is_empty()) {
        return vec![path.into()];
    }
    let folder = env::var_os("VIRTUAL_ENV").map(|folder| PathBuf::from(folder).join("lib"));
    let there = folder.iter().flat_map(|folder| NAMES.map(|name| folder.join(name)));
    NAMES.iter().map(PathBuf::from).chain(there).collect()
}

/// The variable that names the library.
pub(crate) const LIBRARY: &str = "CONSORT_MPI_LIBRARY";
/// What one is told who comes too late.
const ENDED: &str = "the program has ended MPI, which begins once in a process: make groups before MPI_Finalize, or \
                     choose CONSORT_BACKEND=host after it";
/// What the library is called. Without a number it is for linkers, but may be the library itself.
const NAMES: [&str; 3] = ["libmpi_abi.so.1", "libmpi_abi.so.0", "libmpi_abi.so"];
