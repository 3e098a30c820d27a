//! Engines of others: good to know. That there is none is a fault only if somebody asks for it, for consort has its own.

use consort::engines::Found;

use crate::doctor::facts::Engines;
use crate::doctor::finding::{Area, Finding};
use crate::doctor::words;

/// Whether jobs can use the cluster's MPI.
pub(crate) fn mpi(engines: &Engines, variables: &[(String, String)]) -> Finding {
    match &engines.mpi {
        Ok(Found { path, version, .. }) => {
            Finding::good(Area::Engines, format!("MPI: {version} ({})", path.display()))
        }
        Err(why) => missing(
            format!("no MPI that can be used: {why}"),
            &wishes(variables, "mpi", &["CONSORT_MPI_LIBRARY"]),
            "only programs with CONSORT_BACKEND=mpi, or started by mpiexec, need one (pip install mpich)",
        ),
    }
}

/// Whether calls on the memory of devices can be carried out.
pub(crate) fn nccl(engines: &Engines, variables: &[(String, String)]) -> Finding {
    match &engines.nccl {
        Ok(Found { path, version, devices, .. }) => {
            let (count, path) = (devices.len(), path.display());
            let first = devices.first().map_or("", String::as_str);
            let what = format!("NCCL {version} ({path}) for {count} devices, the first is {first}");
            Finding::good(Area::Engines, what)
        }
        Err(why) => missing(
            format!("no calls on memory of devices: {why}"),
            &wishes(variables, "nccl", &["CONSORT_NCCL_LIBRARY", "CONSORT_CUDA_LIBRARY"]),
            "only programs that have numbers on GPUs need it",
        ),
    }
}

/// An engine that cannot be used, with who asks for it, and otherwise who would need it.
fn missing(what: String, wishes: &[String], need: &str) -> Finding {
    if wishes.is_empty() {
        return Finding::note(Area::Engines, what, need);
    }
    let is = if wishes.len() == 1 { "is" } else { "are" };
    let todo = format!("{} {is} set: correct it, or unset it", words::list(wishes));
    Finding::bad(Area::Engines, what, todo)
}

/// The variables that ask for an engine, or say where its libraries are.
fn wishes(variables: &[(String, String)], engine: &str, libraries: &[&str]) -> Vec<String> {
    let asks = |(name, value): &&(String, String)| match name.as_str() {
        "CONSORT_BACKEND" => value == engine,
        name => libraries.contains(&name) && !value.is_empty(),
    };
    variables.iter().filter(asks).map(|(name, value)| format!("{name}={value}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Verdict;

    #[test]
    fn an_engine_that_cannot_be_used_is_no_fault_and_says_why() {
        for (finding, why) in both(&[("CONSORT_BACKEND", "host"), ("CONSORT_MPI_LIBRARY", "")]) {
            assert_eq!((finding.area, finding.verdict), (Area::Engines, Verdict::Note));
            assert!(finding.what.contains(why), "{}", finding.what);
        }
    }

    #[test]
    fn it_is_one_if_somebody_asks_for_it() {
        let [(mpi, _), (nccl, _)] = both(&[("CONSORT_BACKEND", "mpi")]);
        assert_eq!((mpi.verdict, nccl.verdict), (Verdict::Bad, Verdict::Note));
        assert_eq!(mpi.todo.unwrap(), "CONSORT_BACKEND=mpi is set: correct it, or unset it");
        let libraries = [("CONSORT_BACKEND", "nccl"), ("CONSORT_CUDA_LIBRARY", "/x")];
        let [(mpi, _), (nccl, _)] = both(&libraries);
        assert_eq!((mpi.verdict, nccl.verdict), (Verdict::Note, Verdict::Bad));
        let todo = nccl.todo.unwrap();
        assert!(
            todo.starts_with("CONSORT_BACKEND=nccl and CONSORT_CUDA_LIBRARY=/x are set"),
            "{todo}"
        );
        for (at, name) in ["CONSORT_MPI_LIBRARY", "CONSORT_NCCL_LIBRARY"].into_iter().enumerate() {
            assert_eq!(both(&[(name, "/nowhere.so")])[at].0.verdict, Verdict::Bad);
        }
    }

    /// The findings about both, of which there is neither, with why.
    fn both(variables: &[(&str, &str)]) -> [(Finding, &'static str); 2] {
        let engines = Engines { mpi: Err("no library".into()), nccl: Err("no device".into()) };
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let variables: Vec<_> = variables.iter().map(own).collect();
        [(mpi(&engines, &variables), "no library"), (nccl(&engines, &variables), "no device")]
    }
}
