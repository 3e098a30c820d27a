//! Engines of others: good to know. That there is none is a fault only if somebody asks for it, for consort has its own.

use consort::engines::{Found, Unusable};

use crate::doctor::facts::Engines;
use crate::doctor::finding::{Area, Finding};
use crate::doctor::words;

/// Whether jobs can use the cluster's MPI.
pub(crate) fn mpi(engines: &Engines, variables: &[(String, String)]) -> Finding {
    match &engines.mpi {
        Ok(Found { path, version, .. }) => {
            Finding::good(Area::Engines, format!("MPI: {version}, {}", path.display()))
        }
        Err(unusable) => Lack {
            what: "no MPI that can be used",
            unusable,
            wishes: wishes(variables, "mpi", &["CONSORT_MPI_LIBRARY"]),
            need: "only programs with CONSORT_BACKEND=mpi, or started by mpiexec, need one",
        }
        .finding(engines),
    }
}

/// Whether calls on the memory of devices can be carried out.
pub(crate) fn nccl(engines: &Engines, variables: &[(String, String)]) -> Finding {
    match &engines.nccl {
        Ok(Found { path, version, devices, .. }) => {
            let (count, path) = (words::count(devices.len(), "device"), path.display());
            let first = devices.first().map_or("", String::as_str);
            let what = format!("NCCL {version}, {path}, {count}, the first is {first}");
            Finding::good(Area::Engines, what)
        }
        Err(unusable) => Lack {
            what: "no calls on memory of devices",
            unusable,
            wishes: wishes(variables, "nccl", &["CONSORT_NCCL_LIBRARY", "CONSORT_CUDA_LIBRARY"]),
            need: "only programs that have numbers on GPUs need it",
        }
        .finding(engines),
    }
}

/// An engine that cannot be used.
struct Lack<'a> {
    what: &'a str,
    unusable: &'a Unusable,
    /// Who asks for it.
    wishes: Vec<String>,
    /// Who would need it otherwise.
    need: &'a str,
}

impl Lack<'_> {
    fn finding(&self, engines: &Engines) -> Finding {
        let what = format!("{}: {}", self.what, self.unusable.why);
        let what = [&[what], self.unusable.tried.as_slice()].concat().join("\n");
        let advice = self.advice(engines);
        if self.wishes.is_empty() {
            let todo = [Some(self.need.to_owned()), advice].into_iter().flatten();
            return Finding::note(Area::Engines, what, todo.collect::<Vec<_>>().join(": "));
        }
        let is = if self.wishes.len() == 1 { "is" } else { "are" };
        let advice = advice.unwrap_or_else(|| "correct it, or unset it".to_owned());
        let todo = format!("{} {is} set: {advice}", words::list(&self.wishes));
        Finding::bad(Area::Engines, what, todo)
    }

    /// What to do. Where a Python was to be looked beside that is none, installing the library is not enough.
    fn advice(&self, engines: &Engines) -> Option<String> {
        let advice = self.unusable.advice?;
        let is_named = self.wishes.iter().any(|wish| wish.contains("_LIBRARY="));
        Some(match &engines.stand_in {
            Some(folder) if !is_named => format!(
                "{advice}; python3 in {} is a stand-in for others, so activate an environment, or name the file",
                folder.display()
            ),
            _ => advice.to_owned(),
        })
    }
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
        let [(mpi, _), _] = both(&[]);
        assert_eq!(mpi.what, "no MPI that can be used: no library\n/here: nothing\n/there: a pipe");
        assert!(mpi.todo.unwrap().ends_with("need one: install it"));
    }

    #[test]
    fn it_is_one_if_somebody_asks_for_it() {
        let [(mpi, _), (nccl, _)] = both(&[("CONSORT_BACKEND", "mpi")]);
        assert_eq!((mpi.verdict, nccl.verdict), (Verdict::Bad, Verdict::Note));
        assert_eq!(mpi.todo.unwrap(), "CONSORT_BACKEND=mpi is set: install it");
        let libraries = [("CONSORT_BACKEND", "nccl"), ("CONSORT_CUDA_LIBRARY", "/x")];
        let [(mpi, _), (nccl, _)] = both(&libraries);
        assert_eq!((mpi.verdict, nccl.verdict), (Verdict::Note, Verdict::Bad));
        let todo = nccl.todo.unwrap();
        assert!(
            todo.starts_with(
                "CONSORT_BACKEND=nccl and CONSORT_CUDA_LIBRARY=/x are set: correct it"
            ),
            "{todo}"
        );
        for (at, name) in ["CONSORT_MPI_LIBRARY", "CONSORT_NCCL_LIBRARY"].into_iter().enumerate() {
            assert_eq!(both(&[(name, "/nowhere.so")])[at].0.verdict, Verdict::Bad);
        }
    }

    #[test]
    fn where_python_is_a_stand_in_installing_is_not_enough_unless_the_file_is_named() {
        let mut engines = neither();
        engines.stand_in = Some("/pyenv/shims".into());
        let todo = |variables: &[(String, String)]| mpi(&engines, variables).todo.unwrap();
        let said = "install it; python3 in /pyenv/shims is a stand-in";
        assert!(todo(&[]).contains(said), "{}", todo(&[]));
        let named = todo(&[("CONSORT_MPI_LIBRARY".into(), "/x".into())]);
        assert!(!named.contains("stand-in"), "{named}");
    }

    /// No library of the one, and no device for the other.
    fn neither() -> Engines {
        let tried = ["/here: nothing", "/there: a pipe"].map(str::to_owned).into();
        let mpi = Unusable { why: "no library".into(), tried, advice: Some("install it") };
        let nccl = Unusable { why: "no device".into(), ..Unusable::default() };
        Engines { mpi: Err(mpi), nccl: Err(nccl), stand_in: None }
    }

    /// The findings about both, of which there is neither, with why.
    fn both(variables: &[(&str, &str)]) -> [(Finding, &'static str); 2] {
        let engines = neither();
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let variables: Vec<_> = variables.iter().map(own).collect();
        [(mpi(&engines, &variables), "no library"), (nccl(&engines, &variables), "no device")]
    }
}
