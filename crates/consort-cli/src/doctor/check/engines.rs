//! Engines of others: good to know, never a fault, for consort has its own.

use consort::engines::Found;

use crate::doctor::facts::Engines;
use crate::doctor::finding::{Area, Finding};

/// Whether jobs can use the cluster's MPI.
pub(crate) fn mpi(engines: &Engines) -> Finding {
    match &engines.mpi {
        Ok(Found { path, version, .. }) => {
            Finding::good(Area::Engines, format!("MPI: {version} ({})", path.display()))
        }
        Err(why) => Finding::note(
            Area::Engines,
            format!("no MPI that can be used: {why}"),
            "only programs with CONSORT_BACKEND=mpi, or started by mpiexec, need one (pip install mpich)",
        ),
    }
}

/// Whether calls on the memory of devices can be carried out.
pub(crate) fn nccl(engines: &Engines) -> Finding {
    match &engines.nccl {
        Ok(Found { path, version, devices, .. }) => {
            let (count, path) = (devices.len(), path.display());
            let first = devices.first().map_or("", String::as_str);
            let what = format!("NCCL {version} ({path}) for {count} devices, the first is {first}");
            Finding::good(Area::Engines, what)
        }
        Err(why) => Finding::note(
            Area::Engines,
            format!("no calls on memory of devices: {why}"),
            "only programs that have numbers on GPUs need it",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Verdict;

    #[test]
    fn an_engine_that_cannot_be_used_is_no_fault_and_says_why() {
        let engines = Engines { mpi: Err("no library".into()), nccl: Err("no device".into()) };
        for (finding, why) in [(mpi(&engines), "no library"), (nccl(&engines), "no device")] {
            assert_eq!((finding.area, finding.verdict), (Area::Engines, Verdict::Note));
            assert!(finding.what.contains(why), "{}", finding.what);
        }
    }
}
