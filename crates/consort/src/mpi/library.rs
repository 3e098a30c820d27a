//! Finding the library, and beginning MPI with it.

use std::path::PathBuf;

use consort_store::Deadline;
use consort_sys::dl::Library;

use super::ending::Hold;
use super::keeper;
use super::table::{Comm, MpiError, Table};
use crate::engines::Unusable;
use crate::error::{Error, Result};
use crate::places::{Places, Search};

/// The MPI of this process. There is one, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Mpi {
    pub(super) table: Table,
    /// All processes that began together.
    pub(super) world: Comm,
    /// What it was found by.
    path: PathBuf,
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
    pub(crate) fn find() -> Result<(PathBuf, String), Unusable> {
        let (table, path) = Self::load(SEARCH.here())?;
        let unusable = |error| Unusable::because(format!("{}: {error}", path.display()));
        let version = table.library_version().map_err(unusable)?;
        Ok((path, version))
    }

    fn load(Places { candidates, empty, is_named }: Places) -> Result<(Table, PathBuf), Unusable> {
        let library = Library::open(candidates).map_err(|error| {
            let error = Places::exhausted(empty, error.tried);
            let advice = match (is_named, is_started_by_open_mpi()) {
                (true, _) => CORRECT,
                (false, true) => ANOTHER_WAY,
                (false, false) => INSTALL,
            };
            Unusable::not_loaded(NOT_LOADED, &error, advice)
        })?;
        let path = library.path().to_owned();
        let unusable = |what| Unusable::because(format!("{} {what}", path.display()));
        let table = Table::of(&library).map_err(unusable)?;
        Ok((table, path))
    }

    /// Finds it and begins it. Waits for all processes of the job to do the same.
    pub(super) fn begin() -> Result<Self, String> {
        let (mut table, path) =
            Self::load(SEARCH.here()).map_err(|unusable| unusable.to_string())?;
        let in_it = |error: MpiError| format!("{}: {error}", path.display());
        // One that has ended has begun, too, and ends a process that asks it anything else.
        table.is_guest = table.has_begun().map_err(in_it)?;
        if table.has_ended().map_err(in_it)? {
            return Err(ENDED.to_owned());
        }
        if !table.is_guest {
            if is_started_by_open_mpi() && !speaks_pmix(&table.about_itself().map_err(in_it)?) {
                return Err(format!("{}: {STRANGER}; {ANOTHER_WAY}", path.display()));
            }
            table.begin().map_err(in_it)?;
        }
        table.check_threads().map_err(in_it)?;
        let world = table.world().map_err(in_it)?;
        Ok(Self { table, world, path })
    }
}

/// Whether Open MPI's launcher has started this process, and none that MPICH knows below it, as `consort run` is.
fn is_started_by_open_mpi() -> bool {
    is_nearest_open_mpi(|name| std::env::var_os(name).is_some())
}

fn is_nearest_open_mpi(is_set: impl Fn(&str) -> bool) -> bool {
    is_set("OMPI_COMM_WORLD_SIZE") && !["PMI_FD", "PMI_PORT"].into_iter().any(is_set)
}

/// Whether an MPI that says this of itself may know that launcher, which speaks PMIx. MPICH ends the process if it does not
/// know its launcher, and says how it was configured.
fn speaks_pmix(about: &str) -> bool {
    !about.starts_with("MPICH") || about.contains("pmix")
}

/// Where it is looked for: in clusters beside the launcher, on a laptop where PyPI's packages put it.
const SEARCH: Search = Search {
    variable: LIBRARY,
    system: &NAMES,
    programs: &["mpiexec"],
    helpers: &["mpiexec.hydra", "hydra_pmi_proxy", "hydra_bstrap_proxy"],
    below: |prefix| {
        let files = NAMES.map(|name| prefix.join("lib").join(name));
        files.into_iter().filter(|file| file.is_file()).collect()
    },
    pattern: "lib/libmpi_abi.so*",
};
/// The variable that names the library.
pub(crate) const LIBRARY: &str = "CONSORT_MPI_LIBRARY";
/// What is wrong where none can be loaded.
const NOT_LOADED: &str = "no library with MPI's standard interface can be loaded";
/// What to do where there is none.
const INSTALL: &str = "install one (pip install mpich), or name it in CONSORT_MPI_LIBRARY";
/// What to do where the one that is named is none.
const CORRECT: &str = "correct CONSORT_MPI_LIBRARY, or unset it to have consort look by itself";
/// What is wrong with an MPI under the launcher of another.
const STRANGER: &str =
    "Open MPI's mpiexec has started this process, and this library does not know that launcher";
/// What to do where Open MPI's launcher is, and none of its libraries has the interface.
const ANOTHER_WAY: &str = "use the mpiexec of an MPI that has libmpi_abi.so (MPICH 5), or `consort run`, or set \
                           CONSORT_BACKEND=host and say in CONSORT_RDZV where to meet";
/// What one is told who comes too late.
const ENDED: &str = "the program has ended MPI, which begins once in a process: make groups before MPI_Finalize, or \
                     choose CONSORT_BACKEND=host after it";
/// What the library is called. Without a number it is for linkers, but may be the library itself.
const NAMES: [&str; 3] = ["libmpi_abi.so.1", "libmpi_abi.so.0", "libmpi_abi.so"];

#[cfg(test)]
mod tests {
    use super::*;

    fn told(path: &str, is_named: bool) -> String {
        let places = Places { candidates: vec![path.into()], is_named, ..Places::default() };
        Mpi::load(places).map(|(_, path)| path).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_mpi_is_not_taken_for_it() {
        let expected = "libm.so.6 is no MPI with the standard's binary interface (MPI 5): it has no \
                        MPI_Abi_get_version";
        assert_eq!(told("libm.so.6", true), expected);
    }

    #[test]
    fn an_mpich_knows_open_mpis_launcher_only_if_it_was_configured_to() {
        let mpich = "MPICH Version:      5.0.2\nMPICH configure:    --with-device=ch4:ofi";
        assert!(!speaks_pmix(mpich));
        assert!(speaks_pmix(&format!("{mpich} --with-pmix=/usr")));
        assert!(speaks_pmix("Open MPI v6.0.0"));
    }

    #[test]
    fn the_launcher_that_counts_is_the_nearest() {
        let is_nearest = |set: &[&str]| is_nearest_open_mpi(|name| set.contains(&name));
        assert!(is_nearest(&["OMPI_COMM_WORLD_SIZE"]));
        // What runs below another inherits its variables.
        assert!(!is_nearest(&["OMPI_COMM_WORLD_SIZE", "PMI_FD"]));
        assert!(!is_nearest(&["OMPI_COMM_WORLD_SIZE", "PMI_PORT"]));
        assert!(!is_nearest(&[]));
    }

    #[test]
    fn one_is_not_told_to_name_what_is_named() {
        let [named, looked_for] = [true, false].map(|is_named| told("/nowhere", is_named));
        assert!(named.contains(": /nowhere: cannot open") && named.ends_with(CORRECT), "{named}");
        assert!(looked_for.ends_with(INSTALL), "{looked_for}");
    }
}
